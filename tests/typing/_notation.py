"""What stands on the line of a program: `# E: <mypy> | <pyright> | <run time>`, and more checkers by name.

Each column names the codes that a checker reports for the line, or the error that the statement raises; `-` is
nothing. `# E: call-arg | reportCallIssue | SchemaError` is a mistake that everybody sees, `# E: - | - | SchemaError`
one that only running the program shows, `# E: list-item | reportArgumentType | -` a false alarm.

Every other checker says what the one says that it builds on, and nothing where it builds on none (see `CHECKERS`),
unless a column of its own follows: `# E: - | - | SchemaError | mypy+plugin: tensorclass-dtype`. `mypy+stubs` is "the
command `tensorclass stubs`, then mypy", and so for pyright: the column `stubs` has what the command itself reports. What
only some checkers are meant to understand says so below its first line: `# checkers: mypy+plugin`.

A file of the folder `programs` holds many programs over the same classes: what stands in front of the first
`# ---- right: ...` or `# ---- wrong: ...`, and the lines from one of these headings to the next.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests._sources import ROOT

HERE = ROOT / "tests" / "typing"
CHECKERS = {
    "mypy": "mypy", "pyright": "pyright", "mypy+plugin": "mypy", "mypy+stubs": "mypy", "pyright+stubs": "pyright",
    "ty": None, "pyrefly": None,
}  # fmt: skip
"""Every checker, and the one whose column it shares."""
COMMAND = "stubs"
"""The column of `tensorclass stubs`."""
BESIDE = tuple(name for name in CHECKERS if not name.endswith("+stubs"))
"""The checkers that read a file as it is."""
FOLDERS = {
    "right": BESIDE,
    "wrong": ("mypy", "pyright", "mypy+plugin"),
    "limits": BESIDE,
    "programs": tuple(CHECKERS),
}
"""Every folder, and the checkers that are meant to understand what is in it."""
HEADING = re.compile(r"^# ---- (?P<kind>right|wrong): (?P<title>.+)$")
MARK = re.compile(r"#\s*E:\s*(?P<columns>.+?)\s*$")
MEANT = re.compile(r"^# checkers: (?P<names>.+)$", re.M)


@dataclass(frozen=True)
class Mark:
    """The expectations of one line: the codes of each checker, and the name of the error at run time."""

    mypy: frozenset[str]
    pyright: frozenset[str]
    error: str | None
    others: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def codes(self, checker: str) -> frozenset[str]:
        """The codes that a checker reports."""
        shared = {"mypy": self.mypy, "pyright": self.pyright}.get(CHECKERS[checker] or "", frozenset())
        written = self.others.get(COMMAND, frozenset()) if checker.endswith(f"+{COMMAND}") else frozenset()
        return self.others.get(checker, shared) | written

    def seen(self) -> bool:
        """Whether any checker reports the line."""
        return any(self.codes(checker) for checker in CHECKERS)


@dataclass(frozen=True)
class Program:
    """A file of the folders: right lines, wrong ones, what today's checkers get wrong, and whole programs."""

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

    @property
    def checkers(self) -> tuple[str, ...]:
        """The checkers that are meant to understand the program."""
        found = MEANT.search(self.text)
        return tuple(found["names"].split(", ")) if found else FOLDERS[self.path.parent.name]


def _codes(column: str) -> frozenset[str]:
    return frozenset(code.strip() for code in column.split(",")) - {"-"}


def parse_mark(line: str) -> Mark | None:
    """The mark of a line of source, None when there is none.

    Raises:
        ValueError: when there are not three columns, or a column more names no checker.
    """
    found = MARK.search(line)
    if found is None:
        return None
    columns = [column.strip() for column in found["columns"].split("|")]
    if len(columns) < 3 or not all(columns):
        raise ValueError(f"expected `# E: mypy | pyright | run time`, each a name or `-`, got {found.group()!r}")
    others: dict[str, frozenset[str]] = {}
    for column in columns[3:]:
        name, separator, codes = column.partition(":")
        if not separator or name.strip() not in (*CHECKERS, COMMAND):
            raise ValueError(f"expected `checker: codes` behind mypy, pyright and run time, got {column!r}")
        others[name.strip()] = _codes(codes)
    return Mark(_codes(columns[0]), _codes(columns[1]), None if columns[2] == "-" else columns[2], others)


def parse_program(path: Path) -> Program:
    """Read a file and its marks by line number."""
    text = path.read_text("utf-8")
    lines = enumerate(text.splitlines(), start=1)
    return Program(path, text, {number: mark for number, line in lines if (mark := parse_mark(line))})


def programs(*folders: str) -> Iterator[Program]:
    """The programs of some folders, in order."""
    for folder in folders or FOLDERS:
        for path in sorted((HERE / folder).glob("*.py")):
            yield parse_program(path)


@dataclass(frozen=True)
class Section:
    """One program of a file in `programs`: its lines, without what stands in front of the first heading."""

    category: str
    kind: str
    title: str
    lines: range

    def reported(self, program: Program, found: Collection[int]) -> bool:
        """Whether the lines that a checker reports are some of a right program, or marked ones of a wrong one."""
        return any(line in found and (self.kind == "right" or line in program.marks) for line in self.lines)


def sections(program: Program) -> list[Section]:
    """The programs of a file, in order."""
    lines = program.text.splitlines()
    heads = [(number, found) for number, line in enumerate(lines, 1) if (found := HEADING.match(line))]
    ends = [number for number, _ in heads[1:]] + [len(lines) + 1] * bool(heads)
    return [
        Section(program.path.stem, found["kind"], found["title"], range(number, end))
        for (number, found), end in zip(heads, ends, strict=True)
    ]
