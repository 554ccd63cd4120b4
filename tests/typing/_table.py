"""The tables of docs/typing.md: what stands on the lines of the programs, counted."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tests._sources import ROOT
from tests.typing._forms import FORMS, PLAIN, Score
from tests.typing._notation import BESIDE, CHECKERS, FOLDERS, MARK, Mark, Program, Section, programs, sections

PAGE = ROOT / "docs" / "typing.md"
BEGIN, MIDDLE, END = "<!-- begin: python -m tests.typing --markdown -->", "<!-- measured -->", "<!-- end -->"


def markdown() -> str:
    """What stands on the lines, as tables."""
    parts = [
        "Of the small programs, how many wrong ones are reported, and right ones too:\n",
        *_rows(("category", "wrong", "right", *CHECKERS), _categories()),
        "\nLonger right files, on which the checkers are silent:\n",
        *_rows(("program", "statements", "checkers"), map(_right, programs("right"))),
        "\nLonger wrong files, by who sees the mistake:\n",
        *_rows(("program", "wrong lines", *FOLDERS["wrong"], "run time"), _wrong(list(programs("wrong")))),
        "\nRight lines that a checker refuses:\n",
        *_rows(("line", *BESIDE), _lines("false_alarms", lambda m: tuple(_codes(m.codes(name)) for name in CHECKERS))),
        "\nWrong lines that only running them shows:\n",
        *_rows(("line", "run time"), _lines("unseen", lambda mark: (f"`{mark.error}`",))),
    ]
    return "\n".join(parts)


def _parts(kind: str) -> list[tuple[Program, Section]]:
    return [(program, part) for program in programs("programs") for part in sections(program) if part.kind == kind]


def score(checker: str, category: str | None = None) -> Score:
    """What a checker reports of the small programs, all or those of a category."""
    found: list[list[bool]] = []
    for kind in ("wrong", "right"):
        parts = [(p, part) for p, part in _parts(kind) if category in (None, part.category)]
        found.append([part.reported(p, {n for n, mark in p.marks.items() if mark.codes(checker)}) for p, part in parts])
    wrong, right = found
    return Score(sum(wrong), len(wrong), sum(right), len(right))


def _categories() -> Iterator[tuple[str, ...]]:
    for category in sorted({part.category for _, part in _parts("wrong")}):
        found = [score(checker, category) for checker in CHECKERS]
        yield category, str(found[0].wrong), str(found[0].right), *(str(one.caught) for one in found)
    whole = [score(checker) for checker in CHECKERS]
    yield "**all**", str(whole[0].wrong), str(whole[0].right), *(f"**{one.percent}**" for one in whole)
    yield "right ones reported", "", "", *(str(one.flagged) for one in whole)


def measured(scores: Mapping[tuple[str, str], Score]) -> str:
    """The same programs in other forms, as a table."""
    rows = [("`TensorClass`, here", *(str(score(checker)) for checker in PLAIN))]
    rows += [(title, *(str(scores[form, checker]) for checker in PLAIN)) for form, title in FORMS.items()]
    return "\n".join(_rows(("form", *PLAIN), rows))


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
        yield program.title, str(len(program.marks)), *(_seen([program], name) for name in (*FOLDERS["wrong"], ""))
    count = sum(len(program.marks) for program in found)
    yield "**all**", str(count), *(f"**{_seen(found, name)}**" for name in (*FOLDERS["wrong"], ""))


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


def filled(page: str, scores: Mapping[tuple[str, str], Score] | None = None) -> str:
    """The page with the tables of today between its markers; without scores, the measured one stays as it is.

    Raises:
        ValueError: when the page has no markers.
    """
    page = _between(page, MIDDLE, END, markdown())
    return page if scores is None else _between(page, BEGIN, MIDDLE, measured(scores))


def _between(page: str, start: str, end: str, text: str) -> str:
    pattern = re.compile(f"(?<={re.escape(start)}\n).*?(?={re.escape(end)})", re.S)
    if not pattern.search(page):
        raise ValueError(f"{PAGE.name} has no text between `{start}` and `{end}`")
    return pattern.sub(lambda _: f"\n{text}\n\n", page)
