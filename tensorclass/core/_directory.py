"""Prints the files of a saved batch: the tree of a directory as text."""

from __future__ import annotations

import logging
from pathlib import Path

from .._flags import flags
from .._places import StrPath, local_path
from ._html import memory

_log = logging.getLogger("tensorclass")


@flags
def print_directory_tree(path: StrPath, indent: str = "", display_metadata: bool = True) -> str:
    """Log the tree of files below a directory, sorted by name, and return it as text.

    Args:
        path: the directory, or one file.
        indent: the prefix of each line.
        display_metadata: whether the first line has the total size of all files.

    Raises:
        FileNotFoundError: if `path` doesn't exist.

    >>> _ = Path("a.bin").write_bytes(b"12")
    >>> print_directory_tree(".").splitlines()[0]
    'directory size: 2 B'
    """
    root = Path(local_path(path))
    if not root.exists():
        raise FileNotFoundError(f"there is no file or directory {str(root)!r}")
    lines = []
    if display_metadata:
        files = [root] if root.is_file() else [file for file in root.rglob("*") if file.is_file()]
        lines.append(f"{indent}directory size: {memory(sum(file.stat().st_size for file in files))}")
    lines += _tree(root, indent)
    for line in lines:
        _log.info(line)
    return "\n".join(lines)


def _tree(path: Path, indent: str) -> list[str]:
    if not path.is_dir() or path.is_symlink():
        return [f"{indent}{path.name}"]
    inner = [line for child in sorted(path.iterdir()) for line in _tree(child, f"{indent}    ")]
    return [f"{indent}{path.name}/", *inner]
