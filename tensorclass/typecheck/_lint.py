"""Runs the analysis of the mypy plugin as a program of its own, and reads what it finds.

mypy runs in a process of its own with a configuration that belongs to this command, so that neither the settings of the
user's mypy nor its cache are touched.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from ..errors import MissingExtraError
from ._rules import CLASSES, LINT_SETTINGS

CACHE = ".mypy_cache/tensorclass"
CONFIGURATION = """[mypy]
plugins = tensorclass.mypy_plugin
ignore_missing_imports = True
follow_imports = silent
check_untyped_defs = True
explicit_package_bases = True
namespace_packages = True
warn_unused_configs = False
"""
OWN = "tensorclass-"
"""How the codes of the plugin begin."""
FAULT = "tensorclass.mypy_plugin failed here"
_ALWAYS = ("syntax",)
_MISSING = "`tensorclass lint` runs on mypy, which is not installed: `pip install 'mypy>=1.16'`"
_TEXT = re.compile(r"(?P<path>.+?):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<severity>error|note): (?P<message>.*)")
_TOLD = ("attr-defined", "call-arg", "arg-type", "operator", "index", "union-attr", "misc")
"""The codes of mypy for what is wrong about a typed class itself, not about the types of a program."""
_READ_ONLY = "is read-only"
_QUOTED = re.compile(r'"(?:type\[)?(\w+)(?:\[[^"]*\])?\]?"')
_CALLED = re.compile(
    r'(?:to|for) "(?:stage|module|TensorClassModule|TensorClassSequential|replace" of "TensorClass'
    r'|__call__" of "Typed)"'
)
_CODE = re.compile(r"(?P<message>.*?)  \[(?P<code>[\w-]+)\]$")


@dataclass(frozen=True)
class LintFinding:
    """One finding: a mistake, or a note about a line that could not be analyzed."""

    path: str
    line: int
    column: int
    """The column, from 1."""
    message: str
    code: str
    severity: str = "error"

    def __str__(self) -> str:
        code = f" [{self.code}]" if self.code else ""
        return f"{self.path}:{self.line}:{self.column}: {self.severity}: {self.message}{code}"


class LintError(Exception):
    """Raised if mypy could not run to its end; the text is what it said."""


def lint(
    paths: Sequence[str | Path], *, every: bool = False, cache: str | Path = CACHE, root: Path | None = None
) -> list[LintFinding]:
    """What the analysis finds in files and folders, in their order.

    Args:
        paths: Files and folders of Python source.
        every: Whether to give all that mypy reports, not only what is about typed batches and pipelines.
        cache: The folder that makes the next run fast.
        root: The folder from which imports are found; by default the working directory.

    Raises:
        MissingExtraError: if mypy is not installed.
        LintError: if mypy can't run, as for a file that does not exist.
    """
    if find_spec("mypy") is None:
        raise MissingExtraError(_MISSING)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / LINT_SETTINGS
        config.write_text(CONFIGURATION, "utf-8")
        command = [
            sys.executable, "-m", "mypy", f"--config-file={config}", f"--cache-dir={cache}", "--output=json",
            "--show-column-numbers", "--no-error-summary", "--", *map(str, paths),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False, cwd=root)
    found = list(_read(done.stdout.splitlines()))
    if done.returncode not in (0, 1):
        found = [_as_syntax(one) for one in found]
        if not any(one.code in _ALWAYS for one in found):
            said = "\n".join(f"{one.path}: {one.message}" for one in found if _stops(one)) or done.stdout.strip()
            raise LintError(done.stderr.strip() or said or f"mypy ended with status {done.returncode}")
    return list(_chosen(found, every))


def _stops(one: LintFinding) -> bool:
    """Whether mypy stopped at an error, which then has no code."""
    return one.severity == "error" and not one.code


def _as_syntax(one: LintFinding) -> LintFinding:
    """What Python's compiler refuses and mypy's parser accepts, such as `yield` outside a function, is syntax too."""
    return replace(one, code="syntax") if _stops(one) and one.line > 0 else one


def _read(lines: Iterable[str]) -> Iterable[LintFinding]:
    """The findings in the output of mypy: JSON, and text where mypy stops at a file that does not parse."""
    for line in lines:
        if line.startswith("{"):
            row = json.loads(line)
            yield LintFinding(
                row["file"], row["line"], row["column"] + 1, row["message"], row["code"] or "", row["severity"]
            )
        elif (match := _TEXT.match(line)) is not None:
            told = _CODE.match(match["message"])
            text, code = (told["message"], told["code"]) if told is not None else (match["message"], "")
            column = int(match["column"] or 1)
            yield LintFinding(match["path"], int(match["line"]), column, text, code, match["severity"])


def _chosen(found: Sequence[LintFinding], every: bool) -> Iterable[LintFinding]:
    """The findings about typed classes; the notes that name these classes are for this command only."""
    notes = {one.path: json.loads(one.message.removeprefix(CLASSES)) for one in found if _names_classes(one)}
    for one in found:
        names, lines = notes.get(one.path, ((), ()))
        if not _names_classes(one) and (every or _is_own(one) or _is_about(one, names, lines)):
            yield one


def _names_classes(one: LintFinding) -> bool:
    return one.message.startswith(CLASSES)


def _is_own(one: LintFinding) -> bool:
    return one.code.startswith(OWN) or one.code in _ALWAYS or one.message.startswith(FAULT)


def _is_about(one: LintFinding, names: Sequence[str], lines: Sequence[tuple[int, int]]) -> bool:
    """Whether an error of mypy is about a typed class or a stage: a misspelled field, an argument that doesn't fit."""
    told = one.message.partition("; maybe")[0]
    if one.severity != "error" or one.code not in _TOLD or (one.code == "misc" and _READ_ONLY not in told):
        return False
    inside = any(first <= one.line <= last for first, last in lines)
    known = {*names, *(("Self",) if inside else ())}
    return _CALLED.search(told) is not None or any(name in known for name in _QUOTED.findall(told))
