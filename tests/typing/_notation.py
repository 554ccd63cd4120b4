"""What stands on the line of a program: `# E: <mypy> | <pyright> | <run time>`.

Each column names the codes that a checker reports for the line, or the error that the statement raises; `-` is
nothing. `# E: call-arg | reportCallIssue | SchemaError` is a mistake that everybody sees, `# E: - | - | SchemaError`
one that only running the program shows, `# E: list-item | reportArgumentType | -` a false alarm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests._sources import ROOT

HERE = ROOT / "tests" / "typing"
CHECKERS = ("mypy", "pyright")
MARK = re.compile(r"#\s*E:\s*(?P<columns>.+?)\s*$")


@dataclass(frozen=True)
class Mark:
    """The expectations of one line: the codes of each checker, and the name of the error at run time."""

    mypy: frozenset[str]
    pyright: frozenset[str]
    error: str | None

    def codes(self, checker: str) -> frozenset[str]:
        """The codes that a checker reports."""
        return self.mypy if checker == "mypy" else self.pyright


@dataclass(frozen=True)
class Program:
    """A file of the three folders: right programs, wrong ones, and what today's checkers get wrong."""

    path: Path
    text: str
    marks: dict[int, Mark]

    @property
    def title(self) -> str:
        """The first line of the docstring."""
        return self.text.split('"""')[1].splitlines()[0].rstrip(".")

    @property
    def name(self) -> str:
        """The path below this folder, as failures show it."""
        return self.path.relative_to(HERE).as_posix()


def parse_mark(line: str) -> Mark | None:
    """The mark of a line of source, None when there is none.

    Raises:
        ValueError: when there are not three columns.
    """
    found = MARK.search(line)
    if found is None:
        return None
    columns = [column.strip() for column in found["columns"].split("|")]
    if len(columns) != 3 or not all(columns):
        raise ValueError(f"expected `# E: mypy | pyright | run time`, each a name or `-`, got {found.group()!r}")
    mypy, pyright = (frozenset(code.strip() for code in column.split(",")) - {"-"} for column in columns[:2])
    return Mark(mypy, pyright, None if columns[2] == "-" else columns[2])


def parse_program(path: Path) -> Program:
    """Read a file and its marks by line number."""
    text = path.read_text("utf-8")
    lines = enumerate(text.splitlines(), start=1)
    return Program(path, text, {number: mark for number, line in lines if (mark := parse_mark(line))})


def programs(*folders: str) -> Iterator[Program]:
    """The programs of some folders, in order."""
    for folder in folders or ("right", "wrong", "limits"):
        for path in sorted((HERE / folder).glob("*.py")):
            yield parse_program(path)
