"""`tensorclass inspect`: shows the declarations of classes, and the content of files."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from .._options import FIELD_OPTIONS
from .._schema import FieldSpec, Schema, is_tensorclass, schema
from .._schema._accepted import validator_names
from .._schema._constraints import flatten
from ..errors import BuildError, FileFormatError
from ..io._inspect import describe, is_stored
from ._main import CommandError, shorten_lines
from ._target import load_target, members_of, running


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "target", metavar="FILE.py[:CLASS]", help="a class, or all of a module; or the path of a file or a dataset"
    )
    parser.add_argument("--format", choices=["table", *FORMATS], default="table", help="what to print")


def run(arguments: argparse.Namespace) -> int:
    """Print the content of a file, or classes.

    In JSON, one class is an object; the classes of a module are under their names.
    """
    if is_stored(arguments.target):
        return _show_stored(arguments)
    found, form = load_classes(arguments.target), arguments.format
    if form in ("json", "jsonschema"):
        data = {name: FORMATS[form](cls) for name, cls in found.items()}
        print(json.dumps(data if ":" not in arguments.target else next(iter(data.values())), indent=2))
    else:
        show: Callable[[Any], str] = FORMATS.get(form, _table)
        print("\n\n".join(show(cls) for cls in found.values()))
    return 0


def _show_stored(arguments: argparse.Namespace) -> int:
    if arguments.format != "table":
        raise CommandError(f"--format {arguments.format} is for classes; {arguments.target} is stored data")
    try:
        print(shorten_lines(describe(arguments.target).split("\n"), 200))
    except (FileFormatError, OSError) as error:
        raise CommandError(str(error)) from None
    return 0


def load_classes(target: str) -> dict[str, Any]:
    """The class that a target names, or every class that a module defines.

    Raises:
        CommandError: if there is none, or if the module can't be run.
    """
    with running(target):
        value = load_target(target, BuildError)
    if isinstance(value, ModuleType):
        members = members_of(value)
        found = {name: cls for name, cls in members if is_tensorclass(cls) and cls.__module__ == value.__name__}
        if not found:
            raise CommandError(f"{target} defines no tensorclass; name one that it imports, `{target}:Class`")
        return found
    if not is_tensorclass(value):
        raise CommandError(f"{target} is of type {type(value).__name__}, not a tensorclass")
    return {value.__name__: value}


def _document(cls: Any) -> str:
    """The docstring of the class itself, without those of its parents."""
    return inspect.cleandoc(vars(cls).get("__doc__") or "")


def notes(spec: FieldSpec) -> str:
    """The properties of a field besides its type and default."""
    marks = [str(mark) for mark in flatten(spec.metadata)]
    checks = [f"checked by {_names(validator_names(spec))}"] if spec.validators else []
    given = {option: getattr(spec, option.name) for option in FIELD_OPTIONS.values() if option.note}
    texts = [o.note.format(_names(v) if isinstance(v, tuple) else v) for o, v in given.items() if v]
    join = [f'joins by "{spec.join}"'] if spec.join in ("fill", "pad") else []
    return "; ".join([*([spec.doc] if spec.doc else []), *marks, *checks, *join, *texts])


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _facts(found: Schema) -> list[str]:
    """The properties of the whole class."""
    gone = [f"`{name}`{f' (until {when})' if when else ''}" for name, when in found.removed.items()]
    policy = dict(found.policy)
    checks = policy.pop("checks", ())
    lines = [f"No longer: {', '.join(gone)}"] if gone else []
    lines += [f"Checked by {_names(checks)}"] if checks else []
    return lines + ([f"Options: {', '.join(f'{key}={value!r}' for key, value in policy.items())}"] if policy else [])


def _table(cls: Any) -> str:
    found = schema(cls)
    rows = [("field", "type", "default", ""), *((s.name, str(s), s.default_text, notes(s)) for s in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in rows]
    head = [f"{cls.__module__}.{cls.__qualname__}", *(_document(cls).splitlines()[:1])]
    return "\n".join([*head, *("  " + line for line in [*lines, *_facts(found)])])


def _markdown(cls: Any) -> str:
    found = schema(cls)
    rows = ["| field | type | default | |", "|---|---|---|---|"]
    for spec in found:
        cells = (f"`{spec.name}`", f"`{spec}`", f"`{spec.default_text}`" if spec.default_text else "", notes(spec))
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    parts = [f"## {cls.__name__}", _document(cls), "\n".join(rows), *_facts(found)]
    return "\n\n".join(part for part in parts if part)


FORMATS: Mapping[str, Callable[[Any], Any]] = {
    "json": lambda cls: schema(cls).to_dict(),
    "jsonschema": lambda cls: schema(cls).json_schema(),
    "markdown": _markdown,
}
