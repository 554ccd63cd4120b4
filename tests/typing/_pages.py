"""The examples of the pages as programs: the blocks of one page are one file, with the lines that they have there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests._sources import ROOT
from tests.test_docs import python_blocks
from tests.typing._checkers import fresh, run_checker

CHECKERS = ("mypy", "pyright", "mypy+plugin", "ty", "pyrefly")
SHOWN = ("docs/tour.md", "README.md")
"""The pages that mypy accepts with the plugin, which the decorator needs."""
HEAD = "# pyright: strict, reportUnusedClass=false, reportUnusedExpression=false"


def page_programs(pages: Sequence[Path]) -> dict[Path, Path]:
    """A file for each page with programs, without those that raise on purpose, and the page that it is made of."""
    folder, found = fresh("pages"), dict[Path, Path]()
    for page in pages:
        lines: list[str] = []
        for block in python_blocks(page.read_text("utf-8")):
            if block.raises is None:
                lines += [""] * (block.line - len(lines) - 1) + block.code.splitlines()
        if lines:
            lines[0] = HEAD
            path = folder / f"page_{page.stem.replace('-', '_').lower()}.py"
            path.write_text("\n".join(lines) + "\n", "utf-8")
            found[path] = page
    return found


def findings(checker: str, programs: dict[Path, Path]) -> dict[Path, list[str]]:
    """What a checker says for each page; what torch leaves without types is not counted."""
    said = run_checker(checker, list(programs))
    return {
        page: [
            f"{page.name}:{line}: {checker}: {code}: {words}"
            for line, codes in sorted(said.get(path, {}).items())
            for code, words in codes.items()
            if "Unknown" not in code and code != "no-untyped-call"
        ]
        for path, page in programs.items()
    }


def report() -> str:
    """How many lines of each page every checker reports, as a table."""
    programs = page_programs([ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
    found = {checker: findings(checker, programs) for checker in CHECKERS}
    rows = [f"| {' | '.join(('page', *CHECKERS))} |", "|---" + "|---:" * len(CHECKERS) + "|"]
    rows += [
        f"| {' | '.join((page.name, *(str(len(found[checker][page])) for checker in CHECKERS)))} |"
        for page in programs.values()
    ]
    return "\n".join(rows)
