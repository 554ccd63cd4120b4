"""Data of an older version of a class: fields that have another name now, and fields that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from ..errors import ArgumentError, Problem, SchemaError

if TYPE_CHECKING:
    from ._schema import Schema

V = TypeVar("V")


def migrate(entries: dict[str, V], schema: Schema) -> dict[str, V]:
    """Entries under the names that a class has today.

    An old name of `field(renamed_from=...)` becomes the new one, and what the option `removed` lists is left out. Every
    loader goes through here; the constructor does not. Fields that were added have a default, which the checks fill in.

    Args:
        entries: What was read, by field; nested classes are brought up to date where they are read.
        schema: Of the class as it is today.

    Raises:
        SchemaError: when a field comes under two of its names.
    """
    if not (schema.renamed or schema.removed):
        return entries
    found: dict[str, V] = {}
    source: dict[str, str] = {}
    problems = []
    for name, value in entries.items():
        now = schema.renamed.get(name, name)
        if name in schema.removed:
            continue
        if now in found:
            names = " and ".join(f"`{n}`" for n in sorted((source[now], name), key=lambda n: n == now))
            problems.append(Problem(now, str(schema[now]), names, f"both are this field: give only `{now}`"))
        found[now], source[now] = value, name
    if problems:
        raise SchemaError.of(schema.name, problems)
    return found


def removed_table(given: Mapping[str, str] | Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The option `removed` as pairs of a name and the version that took it away, "" when that is not said."""
    if isinstance(given, str):
        raise ArgumentError(f"removed={given!r:.200}: give a tuple of names, or a mapping of names to versions")
    return tuple(given.items()) if isinstance(given, Mapping) else tuple((name, "") for name in given)


def evolution_problems(schema: Schema, removed: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    """Names of former fields that still mean something else."""
    owners: dict[str, str] = {}
    gone = {name for name, _ in removed}
    for spec in schema:
        for name in spec.renamed_from:
            what = f"renamed_from={name!r}"
            if name in schema:
                yield Problem(spec.name, str(spec), what, f"`{name}` is also a current field; drop it here")
            elif name in owners:
                yield Problem(spec.name, str(spec), what, f"`{owners[name]}` was renamed from it already")
            elif name in gone:
                yield Problem(spec.name, str(spec), what, f"`removed` lists `{name}`; drop it there")
            owners.setdefault(name, spec.name)
    for name in sorted(gone):
        if name in schema:
            yield Problem(name, str(schema[name]), "a field that `removed` lists", "drop it there, or drop the field")
