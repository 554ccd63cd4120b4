"""What the repository tests read: the package's files as text, syntax tree and comments."""

from __future__ import annotations

import ast
import gc
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tensorclass"
GENERATED = re.compile(r"(# *|\"{3})@?(this file is )?generated\b", re.I)


@dataclass(frozen=True)
class Source:
    """One Python file, named relative to the package it belongs to."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.name)

    @cached_property
    def comments(self) -> dict[int, str]:
        """Line number -> comment; strings that look like comments are none."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def generated(self) -> bool:
        """Generated files say so on their first line and are held by the generator's `--check`."""
        return GENERATED.match(self.text) is not None


def sources(package: Path = PACKAGE) -> list[Source]:
    """Every Python file below a package folder, in a stable order; those of the package are parsed once."""
    return list(_package_sources()) if package == PACKAGE else _read_sources(package)


@cache
def _package_sources() -> list[Source]:
    found = _read_sources(PACKAGE)
    for source in found:
        source.tree
    gc.freeze()
    return found


def _read_sources(package: Path) -> list[Source]:
    files = sorted(path for path in package.rglob("*.py") if "__pycache__" not in path.parts)
    return [Source(path.relative_to(package).as_posix(), path.read_text("utf-8")) for path in files]


def handwritten(package: Path = PACKAGE) -> list[Source]:
    """The files that people write and that the size budget counts."""
    return [source for source in sources(package) if not source.generated]


def tracked_files() -> list[Path]:
    """The files that are, or are about to be, in version control; all but the ignored ones."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in sorted(listed.splitlines()) if (path := ROOT / name).is_file()]


def text_files() -> Iterator[tuple[str, str]]:
    """Name and content of every tracked file that is text."""
    for path in tracked_files():
        content = path.read_bytes()
        if b"\0" not in content:
            yield path.relative_to(ROOT).as_posix(), content.decode("utf-8")
