"""`tensorclass lint`: finds mistakes about typed batches and pipelines in source files, without running them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import printable
from ..typecheck._lint import CACHE, LintError, LintFinding, lint
from ._main import CommandError, on_disk
from ._stubs import repeat_after_changes

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("paths", metavar="FILE", nargs="+", type=on_disk, help="a Python file, or a folder of them")
    parser.add_argument("--format", choices=list(FORMATS), default="text", help="how findings are written")
    parser.add_argument("--all", action="store_true", help="write everything that mypy reports")
    parser.add_argument(
        "--cache-dir", type=on_disk, default=CACHE, help="a folder that makes the next run fast (%(default)s)"
    )
    parser.add_argument("--watch", action="store_true", help="look again after every change")


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; exit status 1 if there are any."""
    missing = [path for path in arguments.paths if not path.exists()]
    if missing:
        raise CommandError(f"{missing[0]}: no such file or folder")
    once = partial(_once, arguments)
    return repeat_after_changes(arguments.paths, once) if arguments.watch else once()


def _once(arguments: argparse.Namespace) -> int:
    try:
        found = lint(arguments.paths, every=arguments.all, cache=arguments.cache_dir)
    except LintError as error:
        raise CommandError(f"mypy stopped: {printable(str(error))}") from None
    text = FORMATS[arguments.format](found)
    if text:
        print(text, flush=True)
    wrong = sum(one.severity == "error" for one in found)
    if arguments.format == "text" and wrong:
        print(f"{wrong} finding{'s' if wrong > 1 else ''}", file=sys.stderr)
    return int(wrong > 0)


def _as_text(found: Sequence[LintFinding]) -> str:
    return "\n".join(printable(str(one)) for one in found)


def _as_json(found: Sequence[LintFinding]) -> str:
    return json.dumps([vars(one) for one in found], indent=2)


def _as_github(found: Sequence[LintFinding]) -> str:
    """Workflow commands, which GitHub shows beside the lines of a pull request."""
    lines = []
    for one in found:
        level = "error" if one.severity == "error" else "notice"
        place = f"file={_escape_text(one.path, property=True)},line={one.line},col={one.column}"
        lines.append(f"::{level} {place},title={one.code}::{_escape_text(one.message)}")
    return "\n".join(lines)


def _escape_text(text: str, *, property: bool = False) -> str:
    for char, code in (_ESCAPES | ({":": "%3A", ",": "%2C"} if property else {})).items():
        text = text.replace(char, code)
    return text


def _as_sarif(found: Sequence[LintFinding]) -> str:
    rules = [{"id": code} for code in sorted({one.code for one in found if one.code})]
    tool = {"driver": {"name": "tensorclass lint", "version": __version__, "rules": rules}}
    run = {"tool": tool, "columnKind": "unicodeCodePoints", "results": [_result(one) for one in found]}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2)


def _result(one: LintFinding) -> dict[str, Any]:
    region = {"startLine": one.line, "startColumn": one.column}
    place = {"artifactLocation": {"uri": Path(one.path).as_posix()}, "region": region}
    made: dict[str, Any] = {"level": one.severity, "message": {"text": one.message}}
    return {**({"ruleId": one.code} if one.code else {}), **made, "locations": [{"physicalLocation": place}]}


FORMATS: dict[str, Callable[[Sequence[LintFinding]], str]] = {
    "text": _as_text, "json": _as_json, "sarif": _as_sarif, "github": _as_github,
}  # fmt: skip
