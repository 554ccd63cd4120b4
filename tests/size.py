"""How much code the package has: `make size` prints the lines of each room.

Counted are the lines of code of files written by hand, without docstrings, comments and blank lines, as the formatter
writes them: `fmt: skip` saves no line. A release looks at the figure; no test holds a limit.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests._sources import ROOT, Source, handwritten

LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(source: Source) -> int:
    """How many lines hold code, docstrings left out."""
    documented: set[int] = set()
    for node in ast.walk(source.tree):  # a string that is a statement is a docstring
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            documented.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type not in LAYOUT:
            held.update(range(token.start[0], token.end[0] + 1))
    return len(held - documented)


def as_formatted(found: Iterable[Source]) -> list[Source]:
    """The same files as the formatter writes them without `fmt: skip`."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for source in found:
            paths[source.name] = path = Path(folder) / source.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_without_directives(source), "utf-8")
        settings = ["--config", str(ROOT / "pyproject.toml")]
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", *settings, folder], cwd=folder, check=True)
        return [Source(name, path.read_text("utf-8")) for name, path in paths.items()]


def _without_directives(source: Source) -> str:
    lines = source.text.splitlines(keepends=True)
    for number, comment in source.comments.items():
        if comment.startswith("# fmt: "):
            code = lines[number - 1].removesuffix("\n").removesuffix(comment).rstrip()
            lines[number - 1] = f"{code}\n" if code else ""
    return "".join(lines)


def lines_by_room() -> Counter[str]:
    """The lines of each room; files beside the rooms count as one."""
    found: Counter[str] = Counter()
    for source in as_formatted(handwritten()):
        room, _, file = source.name.partition("/")
        found[room if file else "the root"] += code_lines(source)
    return found


if __name__ == "__main__":
    rooms = lines_by_room()
    for room, count in rooms.most_common():
        print(f"{room:<12} {count:>7,}")
    print(f"{'all':<12} {sum(rooms.values()):>7,}")
