"""The tables of docs/typing.md: what stands on the lines of the programs, counted."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from tests._sources import ROOT
from tests.typing._notation import MARK, Mark, Program, programs

PAGE = ROOT / "docs" / "typing.md"
BEGIN, END = "<!-- begin: python -m tests.typing --markdown -->", "<!-- end -->"


def markdown() -> str:
    """What stands between the markers of the page."""
    parts = [
        "Right programs, on which both checkers are silent:\n",
        *_rows(("program", "statements"), ((p.title, str(_statements(p))) for p in programs("right"))),
        "\nWrong programs, by who sees the mistake:\n",
        *_rows(("program", "wrong lines", "mypy", "pyright", "run time"), map(_counts, programs("wrong"))),
        "\nRight lines that a checker refuses:\n",
        *_rows(("line", "mypy", "pyright"), _lines("false_alarms", lambda m: (_codes(m.mypy), _codes(m.pyright)))),
        "\nWrong lines that only running them shows:\n",
        *_rows(("line", "run time"), _lines("unseen", lambda mark: (f"`{mark.error}`",))),
    ]
    return "\n".join(parts)


def _rows(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join('---' if i == 0 else '---:' for i in range(len(head)))}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _statements(program: Program) -> int:
    return len(ast.parse(program.text).body)


def _counts(program: Program) -> tuple[str, ...]:
    marks = program.marks.values()
    seen = (sum(bool(m.mypy) for m in marks), sum(bool(m.pyright) for m in marks), sum(bool(m.error) for m in marks))
    return program.title, str(len(marks)), *map(str, seen)


def _lines(stem: str, columns: Callable[[Mark], tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    program = next(p for p in programs("limits") if p.path.stem == stem)
    text = program.text.splitlines()
    for number, mark in sorted(program.marks.items()):
        code = MARK.sub("", text[number - 1]).strip().replace("|", "\\|")
        yield f"`{code}`", *columns(mark)


def _codes(codes: frozenset[str]) -> str:
    return ", ".join(f"`{code}`" for code in sorted(codes)) or "-"


def filled(page: str) -> str:
    """The page with the tables of today between its markers.

    Raises:
        ValueError: when the page has no markers.
    """
    pattern = re.compile(f"(?<={re.escape(BEGIN)}\n).*?(?={re.escape(END)})", re.S)
    if not pattern.search(page):
        raise ValueError(f"{PAGE.name} has no text between `{BEGIN}` and `{END}`")
    return pattern.sub(lambda _: f"\n{markdown()}\n\n", page)
