"""`tensorclass diff`: the changes between two classes, or since data or a schema was saved."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from .._content import read_content
from .._places import local_path
from .._schema import Change, Schema, SchemaDiff, schema
from ..errors import FileFormatError, SchemaError, printable
from ..io._inspect import is_stored, schema_of_stored
from ._inspect import load_classes
from ._main import CommandError

SAVED = "save one with `tensorclass inspect FILE.py:CLASS --format json`"


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    where = "a class (`FILE.py:CLASS`), a file or dataset, or a schema as JSON (`FILE.json`, `FILE.json:CLASS`)"
    parser.add_argument("old", metavar="OLD", help=where)
    parser.add_argument("new", metavar="NEW", help=where)
    parser.add_argument("--format", choices=["text", "json", "markdown"], default="text", help="what to print")


def run(arguments: argparse.Namespace) -> int:
    """Print the changes; 0 if the new class reads data of the old one, 1 if a change breaks it."""
    diff = _load(arguments.old).diff(_load(arguments.new))
    print(FORMATS[arguments.format](diff))
    return int(diff.effect == "breaking")


def _load(target: str) -> Schema:
    file, _, name = local_path(target).partition(".json")
    if target.endswith(".json") or name.startswith(":"):
        return _saved_schema(Path(f"{file}.json"), name[1:])
    if is_stored(target):
        return _stored_schema(target)
    found = load_classes(target)
    if len(found) > 1:
        raise CommandError(f"{target} has several classes; name one: {', '.join(f'{target}:{n}' for n in found)}")
    return schema(next(iter(found.values())))


def _stored_schema(target: str) -> Schema:
    try:
        found = schema_of_stored(target)
    except (FileFormatError, OSError) as error:
        raise CommandError(str(error)) from None
    if found is None:
        raise CommandError(f"{target} names no class, so there is no schema to compare")
    return found


def _saved_schema(file: Path, name: str) -> Schema:
    """The schema in a JSON file, or the one under a name in a file of several."""
    try:
        entries = json.loads(read_content(file))
    except OSError as error:
        raise CommandError(f"can't read {file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{file} is not JSON: {error}; {SAVED}") from None
    several = isinstance(entries, dict) and all(isinstance(value, dict) for value in entries.values())
    if several and not entries.keys() & {"fields", "properties"}:
        if name not in entries:
            raise CommandError(f"{file} holds several classes; name one: {', '.join(f'{file}:{n}' for n in entries)}")
        entries = entries[name]
    try:
        return Schema.from_dict(entries)
    except (SchemaError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise CommandError(f"{file} holds no schema ({error}); {SAVED}") from None


def _changes(diff: SchemaDiff) -> list[Change]:
    return [*diff.removed, *diff.added, *diff.changed]


def _text(diff: SchemaDiff) -> str:
    head, *lines = str(diff).split("\n")
    effects = [change.effect for change in _changes(diff)]
    effects += ["compatible"] * (len(lines) - len(effects))
    shown = [f"{effect:10}  {line}" for effect, line in zip(effects, lines, strict=True)] if diff else lines
    return "\n".join([f"{head}: {diff.effect}", *shown])


def _json(diff: SchemaDiff) -> str:
    rows = [change._asdict() for change in _changes(diff)]
    return json.dumps({"effect": diff.effect, "changes": rows, "reordered": list(diff.reordered)}, indent=2)


def _markdown(diff: SchemaDiff) -> str:
    rows = [(f"`{c.field}`", *(f"`{text}`" if text else "" for text in c[1:3]), c.effect) for c in _changes(diff)]
    rows += [("order", "", f"`{', '.join(diff.reordered)}`", "compatible")] if diff.reordered else []
    lines = [f"| {' | '.join(printable(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    head = printable(f"**{diff.old_name} -> {diff.new_name}: {diff.effect}**")
    return "\n".join([head, "", "| field | old | new | effect |", "|---|---|---|---|", *lines] if rows else [head])


FORMATS = {"text": _text, "json": _json, "markdown": _markdown}
