"""A tool, not a test: changes one place of a file at a time, and says which changes no test notices.

    python -m tests.mutation _dims/_polynomial.py _schema --sample 40 --seed 1 --tests tests/schema

Changes: a comparison turned around, `and` for `or`, a condition that is always true or never, a number one larger,
an arithmetic operation replaced, a statement left out, `return None`. Each is run in a process of its own, in which the
changed text takes the place of the file while it is imported; nothing on disk is written.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest
import torch  # noqa: F401  # loaded once, before the processes part

from tests._sources import PACKAGE

_TURNED: dict[type, type] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
# Rewritten asserts would bring a loader of pytest's own for the package, whose plugin it is.
_OPTIONS = ("-x", "-q", "-n", "0", "--assert=plain", "-p", "no:cacheprovider", "-m", "not slow")
Change = Callable[[Any], None]


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


def _lines_of_strings(tree: ast.AST) -> set[int]:
    """Lines of messages: other words of an error are not another behaviour."""
    raised = [n for n in ast.walk(tree) if isinstance(n, ast.Raise | ast.JoinedStr)]
    return {line for n in raised for line in range(n.lineno, (n.end_lineno or n.lineno) + 1)}


def mutants(text: str) -> Iterator[tuple[int, str, str]]:
    """Each change of a source text: its line, words for it, and the changed text."""
    tree = ast.parse(text)
    skipped = _lines_of_strings(tree)
    for position, node in enumerate(ast.walk(tree)):
        line = getattr(node, "lineno", 0)
        for words, change in () if line in skipped else _changes(node):
            new = copy.deepcopy(tree)
            change(next(n for i, n in enumerate(ast.walk(new)) if i == position))
            yield line, words, ast.unparse(ast.fix_missing_locations(new))


def survives(path: Path, text: str, arguments: list[str], seconds: float) -> bool:
    """Whether all tests pass with another text in place of a file."""
    child = os.fork()
    if child == 0:
        os.setsid()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        loaded = SourceFileLoader.get_code

        def get_code(self: SourceFileLoader, name: str) -> Any:
            changed = os.path.realpath(self.path) == str(path)
            return compile(text, self.path, "exec", dont_inherit=True) if changed else loaded(self, name)

        SourceFileLoader.get_code = get_code  # type: ignore[method-assign]  # in this process only
        status = 2
        try:
            status = int(pytest.main([*_OPTIONS, *arguments]))
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


def main() -> int:
    """Run a sample of the changes; prints those that no test notices, and the score."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", help="files or folders below the package")
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--sample", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300)
    given = parser.parse_args()
    paths = [p for name in given.files for p in (sorted((PACKAGE / name).rglob("*.py")) or [PACKAGE / name])]
    every = [(path.resolve(), *mutant) for path in paths for mutant in mutants(path.read_text("utf-8"))]
    chosen = random.Random(given.seed).sample(every, min(given.sample, len(every)))
    whole = paths[0].read_text("utf-8")
    if not survives(paths[0].resolve(), whole, given.tests, given.seconds):
        raise SystemExit("the tests fail without a change; run them by themselves first")
    if survives(paths[0].resolve(), "raise SystemExit", given.tests, given.seconds):
        raise SystemExit(f"the tests do not import {given.files[0]}")
    alive = 0
    for path, line, words, text in chosen:
        if survives(path, text, given.tests, given.seconds):
            alive += 1
            print(f"{path.relative_to(PACKAGE)}:{line}: {words}", flush=True)
    print(f"{len(chosen) - alive} of {len(chosen)} noticed (of {len(every)} changes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
