"""A tool, not a test: changes one place of a file at a time, and says which changes no test notices.

    python -m tests.mutation _dims/_polynomial.py _schema --sample 40 --seed 1 --tests tests/schema tests/classes

Changes: a comparison turned around, `and` for `or`, a condition that is always true or never, a number one larger,
an arithmetic operation replaced, a call left out, `return None`. Each is run in a process of its own, in which the
changed text takes the place of the file while it is imported; nothing on disk is written. A first run finds out which
tests reach each line; a change is run with those that reach its line, in the order of `--tests`, the quickest of each
first, up to `--enough` seconds.
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import itertools
import os
import pickle
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FrameType
from typing import Any

import hypothesis  # noqa: F401  # loaded once, before the processes part
import pydantic  # noqa: F401
import pytest
import torch  # noqa: F401

from tests._sources import PACKAGE

_TURNED: dict[type, type] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
# Rewritten asserts would bring a loader of pytest's own for the package, whose plugin it is.
_OPTIONS = ("-x", "-q", "-n", "0", "--assert=plain", "-p", "no:cacheprovider", "-m", "not slow")
Change = Callable[[Any], None]
Line = tuple[str, int]


def _set(field: str, value: Any) -> Change:
    return lambda node: setattr(node, field, value)


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """What can be changed of one node: words for it, and what does it to a copy."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _TURNED:
        new = _TURNED[type(node.ops[0])]
        yield f"{type(node.ops[0]).__name__} -> {new.__name__}", lambda n: n.ops.__setitem__(0, new())
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _TURNED:
        other = _TURNED[type(node.op)]
        yield f"{type(node.op).__name__} -> {other.__name__}", _set("op", other())
    if isinstance(node, ast.If | ast.IfExp):
        for value in (True, False):
            yield f"condition -> {value}", _set("test", ast.Constant(value))
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield f"{node.value} -> {node.value + 1}", _set("value", node.value + 1)
    if isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield "return None", _set("value", ast.Constant(None))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "left out", _set("value", ast.Constant(None))


def _lines_of_strings(tree: ast.AST) -> set[int]:
    """Lines of messages: other words of an error are not another behaviour."""
    raised = [n for n in ast.walk(tree) if isinstance(n, ast.Raise | ast.JoinedStr)]
    return {line for n in raised for line in range(n.lineno, (n.end_lineno or n.lineno) + 1)}


def mutants(text: str) -> Iterator[tuple[int, str, Callable[[], str]]]:
    """Each change of a source text: its line, words for it, and a function that makes the changed text."""
    tree = ast.parse(text)
    skipped = _lines_of_strings(tree)

    def changed(position: int, number: int) -> str:
        new = copy.deepcopy(tree)
        node = next(itertools.islice(ast.walk(new), position, None))
        next(itertools.islice(_changes(node), number, None))[1](node)
        return ast.unparse(ast.fix_missing_locations(new))

    for position, node in enumerate(ast.walk(tree)):
        line = getattr(node, "lineno", 0)
        for number, (words, _) in enumerate(() if line in skipped else _changes(node)):
            yield line, words, functools.partial(changed, position, number)


class _Reach:
    """A plugin that notes the lines of the package that each test reaches, and how long it takes."""

    def __init__(self) -> None:
        self.reached: dict[Line, set[str]] = {}
        self.seconds: dict[str, float] = {}
        self.test = ""

    def pytest_sessionstart(self) -> None:
        """From here on, so that imports are seen too."""
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(str(PACKAGE)):
            return None
        self.reached.setdefault((frame.f_code.co_filename, frame.f_lineno), set()).add(self.test)
        return self._trace

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """The test that runs."""
        self.test = nodeid
        sys.settrace(self._trace)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The time that a test takes."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration


class _Some:
    """A plugin that runs some of the tests, in their order."""

    def __init__(self, tests: list[str]) -> None:
        self.order = {name: i for i, name in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave the others out."""
        items[:] = sorted((i for i in items if i.nodeid in self.order), key=lambda i: self.order[i.nodeid])


def _child(arguments: list[str], *plugins: object) -> int:
    """The exit status of tests in a process of their own, which is this one."""
    os.setsid()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    return int(pytest.main([*_OPTIONS, *arguments], plugins=list(plugins)))


def reach(arguments: list[str]) -> tuple[dict[Line, set[str]], dict[str, float]]:
    """The tests that reach each line of the package, and the seconds that each takes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "reach")
        child = os.fork()
        if child == 0:
            plugin, status = _Reach(), 2
            try:
                status = _child(arguments, plugin)
                file.write_bytes(pickle.dumps((plugin.reached, plugin.seconds)))
            finally:
                os._exit(status)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
            raise SystemExit("the tests fail without a change; run them by themselves first")
        found: tuple[dict[Line, set[str]], dict[str, float]] = pickle.loads(file.read_bytes())
    return found


def survives(path: Path, text: str, tests: list[str], seconds: float) -> bool:
    """Whether some tests pass with another text in place of a file."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    child = os.fork()
    if child == 0:
        loaded = SourceFileLoader.get_code

        def get_code(self: SourceFileLoader, name: str) -> Any:
            changed = os.path.realpath(self.path) == str(path)
            return compile(text, self.path, "exec", dont_inherit=True) if changed else loaded(self, name)

        SourceFileLoader.get_code = get_code  # type: ignore[method-assign]  # in this process only
        status = 2
        try:
            status = _child(files, _Some(tests))
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _quickest(tests: Iterable[str], seconds: dict[str, float], given: list[str], enough: float) -> list[str]:
    """Tests in the order of the folders and files that were given, there the quickest first, up to a time."""
    place = {test: next((i for i, name in enumerate(given) if test.startswith(name)), len(given)) for test in tests}
    ordered = sorted(place, key=lambda test: (place[test], seconds.get(test, 0)))
    total = itertools.accumulate(seconds.get(test, 0) for test in ordered)
    return [test for test, until in zip(ordered, total, strict=True) if until <= enough]


def main() -> int:
    """Run a sample of the changes; prints those that no test notices, and the score."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", help="files or folders below the package")
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--sample", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--enough", type=float, default=20, help="seconds that the tests of one change take")
    parser.add_argument("--seconds", type=float, default=120, help="a change that makes them take longer is noticed")
    given = parser.parse_args()
    paths = [p for name in given.files for p in (sorted((PACKAGE / name).rglob("*.py")) or [PACKAGE / name])]
    every = [(path.resolve(), *mutant) for path in paths for mutant in mutants(path.read_text("utf-8"))]
    chosen = random.Random(given.seed).sample(every, min(given.sample, len(every)))
    reached, seconds = reach(given.tests)
    alive = 0
    for number, (path, line, words, make) in enumerate(chosen):
        print(f"{number} of {len(chosen)}", end="\r", file=sys.stderr, flush=True)
        reaching = reached.get((str(path), line), set()) - {""} or set(seconds)  # all, if only imports reach it
        tests = _quickest(reaching, seconds, given.tests, given.enough)
        if survives(path, make(), tests, given.seconds):
            alive += 1
            source = path.read_text("utf-8").splitlines()[line - 1].strip()
            print(f"{path.relative_to(PACKAGE)}:{line}: {words}: {source}", flush=True)
    print(f"{len(chosen) - alive} of {len(chosen)} noticed (of {len(every)} changes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
