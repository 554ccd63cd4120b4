"""`tensorclass stubs`: writes, checks or watches stubs of modules with typed classes, and of torch's functions."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from difflib import unified_diff
from functools import partial
from importlib import import_module
from pathlib import Path

from .._content import read_content, write_content
from ..typecheck.stubs._project import StubError, module_name
from ..typecheck.stubs._pyi import MARK, Stubs
from ._main import CommandError, on_disk

Written = dict[Path, str]
PAUSE = 0.5
"""Seconds between two checks of `--watch`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("paths", nargs="*", type=on_disk, metavar="PATH", help="modules, or folders with modules")
    parser.add_argument("-o", "--out", type=on_disk, metavar="DIR", help="a folder, instead of beside the modules")
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 when a stub is not fresh")
    parser.add_argument("--watch", action="store_true", help="write again whenever a module changes")
    parser.add_argument("--strict-keys", action="store_true", help="string keys are names of fields, all else is wrong")
    parser.add_argument("--torch", action="store_true", help="overloads of torch's functions, below --out")


def run(arguments: argparse.Namespace) -> int:
    """Write or check the stubs; 1 for a broken file, a wrong declaration or a stale stub, else 0."""
    if not arguments.paths and not arguments.torch:
        raise CommandError("name a module or a folder, or give --torch")
    if arguments.torch and arguments.out is None:
        raise CommandError("--torch needs a folder: --out DIR")
    for path in arguments.paths:
        if not path.exists():
            raise CommandError(f"no file or folder `{path}`")
        if not path.is_dir() and (not path.is_file() or path.suffix not in (".py", ".pyi")):
            raise CommandError(f"`{path}` is neither a Python file nor a folder")
    if arguments.watch:
        return repeat_after_changes(arguments.paths, partial(_once, arguments))
    return _once(arguments)


def _once(arguments: argparse.Namespace) -> int:
    """Write, or check, the stubs of all files; returns the exit status."""
    stubs, failed, found = Stubs(arguments.strict_keys), 0, Written()
    if arguments.torch:
        found.update(import_module("tensorclass.typecheck.stubs._overlay").overlay(arguments.out))
    for source in (file for path in arguments.paths for file in _sources(path)):
        try:
            text = stubs.stub(source)
        except (StubError, RecursionError, MemoryError) as error:
            told = str(error) if isinstance(error, StubError) else f"{source}: nested too deeply for a stub"
            print(f"tensorclass: {told}", file=sys.stderr)
            failed = 1
            continue
        place = _place(source, arguments.out)
        if text is not None:
            found[place] = text
        elif _present(place).startswith(MARK):
            print(f"{place}: {source} declares no typed class any more; remove it", file=sys.stderr)
            failed = 1
    for finding in stubs.findings:
        print(finding, file=sys.stderr)
        failed = 1
    step: Callable[[Path, str], bool] = _check if arguments.check else partial(_write, arguments.out)
    return max([failed, *(not step(place, text) for place, text in found.items())])


def _sources(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path.with_suffix(".py")
        return
    for file in sorted(path.rglob("*.py")):
        hidden = any(part.startswith(".") or part == "__pycache__" for part in file.relative_to(path).parts)
        if not hidden:
            yield file


def _place(source: Path, out: Path | None) -> Path:
    """The stub of a file: beside it, or in a folder under the name of its module."""
    if out is None:
        return source.with_suffix(".pyi")
    parts = module_name(source).split(".")
    return out.joinpath(*parts, *(["__init__"] if source.stem == "__init__" else [])).with_suffix(".pyi")


def _present(place: Path) -> str:
    """The content of a file; empty if it is not a file."""
    if place.is_symlink() or not place.is_file():
        return ""
    return read_content(place).decode("utf-8", "replace").replace(os.linesep, "\n")


def _write(out: Path | None, place: Path, text: str) -> bool:
    """Write a changed stub. A file that this command didn't write, and anything that is not a file, is kept."""
    now = _present(place)
    if now == text:
        return True
    if place.is_file() and not place.is_symlink() and not now.startswith(MARK):
        print(f"tensorclass: {place}: was not written by `tensorclass stubs`; move it away", file=sys.stderr)
        return False
    try:
        write_content(place, text, out or place.parent)
    except OSError as error:
        print(f"tensorclass: {place}: can't be written: {error.strerror}", file=sys.stderr)
        return False
    print(f"wrote {place}")
    return True


def _check(place: Path, text: str) -> bool:
    """Print how a stub differs from the one that would be written."""
    now = _present(place)
    rows = unified_diff(now.splitlines(), text.splitlines(), str(place), "what `tensorclass stubs` writes", lineterm="")
    diff = "\n".join(rows)
    if diff:
        print(diff)
    return not diff


def repeat_after_changes(paths: Sequence[Path], once: Callable[[], object]) -> int:
    """Call a function now, and again after every change of a file, until the user interrupts it."""
    seen: dict[Path, int] = {}
    try:
        while True:
            now = {file: _modification_time(file) for path in paths for file in _sources(path)}
            if now != seen:
                seen = now
                once()
            time.sleep(PAUSE)
    except KeyboardInterrupt:
        return 0


def _modification_time(file: Path) -> int:
    """The modification time of a file; 0 if it has just been removed."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
