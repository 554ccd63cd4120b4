"""Each checker runs once over all programs; what it says is compared with the marks line by line, both ways."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests._sources import ROOT
from tests.typing._notation import HERE, Program, sections
from tests.typing._split import split, wrong_declarations

Found = dict[Path, dict[int, dict[str, str]]]
"""file -> line -> code -> message"""

RELEASES = re.findall(r"(?m)^MYPYS := (.*)$", (ROOT / "Makefile").read_text("utf-8"))[0].split()
"""Releases of mypy, oldest first, that `make slow` installs besides the one that the other tests run with."""
NOTHING: Mapping[int, dict[str, str]] = {}


def fresh(name: str) -> Path:
    """An empty folder for programs that are made up, below the settings of the project.

    Each user has one of its own, since tests run beside one another, and always the same, since mypy's cache keeps
    the paths that it was told.
    """
    folder = ROOT / "build" / "typing" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def run_checker(checker: str, files: Sequence[Path]) -> Found:
    """What a checker reports for files.

    Raises:
        RuntimeError: when it could not run, with what it printed.
    """
    arguments, read = _COMMANDS[checker]
    arguments = [sys.executable, "-m", *arguments, *map(str, files)]
    environment = dict(os.environ)
    if checker == "mypy+stubs":
        environment["MYPYPATH"] = str(files[0].parent)
    elif checker in RELEASES:
        environment["PYTHONPATH"] = str(Path(sys.prefix, f"mypy-{checker}"))
    done = subprocess.run(arguments, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{checker} could not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    found: Found = defaultdict(lambda: defaultdict(dict))
    for file, line, code, message in read(done.stdout):
        found[Path(ROOT, file)][line][code] = message
    return _without_consequences(found)


def check(checker: str, programs: Iterable[Program]) -> Found:
    """What a checker reports for the programs that it is meant to understand, at the lines that they have there."""
    meant = [program for program in programs if checker in program.checkers]
    if not checker.endswith("+stubs"):
        return run_checker(checker, [program.path for program in meant])
    folder = fresh(checker.replace("+", "_"))
    written = split(meant, folder, "--strict-keys")
    said = run_checker(checker, list(written))
    for path, line, code, message in wrong_declarations(written, "--out", str(folder / "stubs")):
        said[path][line][code] = message
    starts = {path: sections(program)[0].lines.start for path, program in written.items()}
    return {
        program.path: {line: codes for line, codes in said[path].items() if line >= starts[path]}
        for path, program in written.items()
    }


def _without_consequences(found: Found) -> Found:
    """Without what pyright's strict mode says about a type that is unknown since the line has another mistake."""
    for lines in found.values():
        for line, said in lines.items():
            lines[line] = {code: words for code, words in said.items() if "Unknown" not in code} or said
    return found


def _mypy(name: str, cache: str = "") -> list[str]:
    cache = str(ROOT / ".mypy_cache" / (cache or name))  # its own, so that a run of `make types` beside it never waits
    return ["mypy", "--output=json", f"--cache-dir={cache}", f"--config-file={HERE / name}.ini"]


def _read_mypy(output: str) -> Iterable[tuple[str, int, str, str]]:
    for line in output.splitlines():
        if line.startswith("{"):
            item: dict[str, Any] = json.loads(line)
            if item["severity"] == "error":
                yield item["file"], item["line"], item["code"] or "syntax", item["message"]


def _read_pyright(output: str) -> Iterable[tuple[str, int, str, str]]:
    for item in json.loads(output)["generalDiagnostics"]:
        if item["severity"] in ("error", "warning"):
            yield item["file"], item["range"]["start"]["line"] + 1, item.get("rule", "syntax"), item["message"]


def _read_ty(output: str) -> Iterable[tuple[str, int, str, str]]:
    for item in json.loads(output):
        at = item["location"]
        yield at["path"], at["positions"]["begin"]["line"], item["check_name"], item["description"]


def _read_pyrefly(output: str) -> Iterable[tuple[str, int, str, str]]:
    for item in json.loads(output)["errors"]:
        yield item["path"], item["line"], item["name"], item["description"]


_PYRIGHT = ["pyright", "--outputjson", f"--pythonpath={sys.executable}"]
_COMMANDS: dict[str, tuple[list[str], Callable[[str], Iterable[tuple[str, int, str, str]]]]] = {
    "mypy": (_mypy("mypy"), _read_mypy),
    "mypy+plugin": (_mypy("mypy_plugin"), _read_mypy),
    **{release: (_mypy("mypy_plugin", cache=f"mypy_{release}"), _read_mypy) for release in RELEASES},
    "mypy+stubs": (_mypy("mypy", cache="mypy_stubs"), _read_mypy),
    "pyright": (_PYRIGHT, _read_pyright),
    "pyright+stubs": (_PYRIGHT, _read_pyright),
    "ty": (["ty", "check", "--output-format=gitlab", f"--python={sys.executable}"], _read_ty),
    "pyrefly": (
        [
            "pyrefly",
            "check",
            "--output-format=json",
            f"--config={HERE / 'pyrefly.toml'}",
            f"--python-interpreter-path={sys.executable}",
        ],
        _read_pyrefly,
    ),
}


def differences(programs: Iterable[Program], checker: str, found: Found) -> list[str]:
    """One line for each diagnostic that is missing or not expected, with the checker's own words."""
    problems: list[str] = []
    for program in programs:
        if checker not in program.checkers:
            continue
        said = found.get(program.path, NOTHING)
        for line in sorted({*said, *program.marks}):
            expected = program.marks[line].codes(checker) if line in program.marks else frozenset()
            given = said.get(line, {})
            where = f"{program.name}:{line}: {checker}"
            problems += [f"{where} does not say {code}" for code in sorted(expected - given.keys())]
            problems += [f"{where} says {code}: {given[code]}" for code in sorted(given.keys() - expected)]
    return problems
