"""Data of an older version of a class: fields that were renamed, and fields that were removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from ..errors import ArgumentError, Problem, SchemaError

if TYPE_CHECKING:
    from ._schema import Schema

V = TypeVar("V")


def migrate(entries: dict[str, V], schema: Schema) -> dict[str, V]:
    """Rename entries to the current names of a class.

    A former name in `field(renamed_from=...)` becomes the current name, and the fields in the option `removed` are left
    out. Every loader calls this function; the constructor does not. New fields have a default, which the checks fill
    in.

    Args:
        entries: The values that were read, by field; nested classes are migrated where they are read.
        schema: The current schema of the class.

    Raises:
        SchemaError: if the data has a field under two of its names.
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
    """The option `removed` as pairs of a name and the version that removed it, or "" if not given."""
    if isinstance(given, str):
        raise ArgumentError(f"removed={given!r:.200}: give a tuple of names, or a mapping of names to versions")
    return tuple(given.items()) if isinstance(given, Mapping) else tuple((name, "") for name in given)


def evolution_problems(schema: Schema, removed: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    """The former names that now clash with other names."""
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
