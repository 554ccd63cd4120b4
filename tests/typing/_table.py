"""The tables of docs/typing.md: what stands on the lines of the programs, counted."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from tests._sources import ROOT
from tests.typing._notation import CHECKERS, MARK, Mark, Program, programs

PAGE = ROOT / "docs" / "typing.md"
BEGIN, END = "<!-- begin: python -m tests.typing --markdown -->", "<!-- end -->"


def markdown() -> str:
    """What stands between the markers of the page."""
    names = tuple(CHECKERS)
    parts = [
        "Right programs, on which the checkers are silent:\n",
        *_rows(("program", "statements", "checkers"), map(_right, programs("right"))),
        "\nWrong programs, by who sees the mistake:\n",
        *_rows(("program", "wrong lines", *names, "run time"), _wrong(list(programs("wrong")))),
        "\nRight lines that a checker refuses:\n",
        *_rows(("line", *names), _lines("false_alarms", lambda m: tuple(_codes(m.codes(name)) for name in names))),
        "\nWrong lines that only running them shows:\n",
        *_rows(("line", "run time"), _lines("unseen", lambda mark: (f"`{mark.error}`",))),
    ]
    return "\n".join(parts)


def _rows(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join('---' if i == 0 else '---:' for i in range(len(head)))}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _right(program: Program) -> tuple[str, ...]:
    return program.title, str(len(ast.parse(program.text).body)), ", ".join(program.checkers)


def _wrong(found: Sequence[Program]) -> Iterator[tuple[str, ...]]:
    """Each program with what every checker and the run time see of it, and all of them together."""
    for program in found:
        yield program.title, str(len(program.marks)), *(_seen([program], name) for name in (*CHECKERS, ""))
    count = sum(len(program.marks) for program in found)
    yield "**all**", str(count), *(f"**{_seen(found, name)}**" for name in (*CHECKERS, ""))


def _seen(found: Sequence[Program], checker: str) -> str:
    """How many lines of the programs that a checker is meant to understand it reports; of the run time without one."""
    meant = [p for p in found if not checker or checker in p.checkers]
    marks = [mark for program in meant for mark in program.marks.values()]
    number = sum(bool(mark.codes(checker) if checker else mark.error) for mark in marks)
    if not marks:
        return "-"
    return str(number) if len(found) == 1 else f"{number} of {len(marks)}"


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
