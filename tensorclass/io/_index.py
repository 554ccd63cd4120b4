"""The index of a folder with several files: the container that they hold, and the file of each tensor.

New files are written first, then the index that names them; then files that nothing names are removed. After a crash in
between, the folder holds the old container or the new one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from ..errors import FileFormatError
from ._atomic import Target, replacing
from ._format import ClassPart, NodePart, Part
from ._manifest import VERSION, parse_sealed, read_small, sealed
from ._paths import INDEX, PART
from ._unpack import references


class Index(Part):
    """The whole index. A tensor has the same name here as in its file."""

    version: int = VERSION
    weight_map: dict[str, Annotated[str, Field(pattern=rf"^{PART.pattern}$")]]
    classes: list[ClassPart] = []
    root: NodePart

    def files(self, part: Any) -> dict[str, list[tuple[str, str | None]]]:
        """The files of a part of the tree, each with the names of its tensors, as `references` returns them."""
        found: dict[str, list[tuple[str, str | None]]] = {}
        for name, true in references(part):
            found.setdefault(self.weight_map[name], []).append((name, true))
        return found


def read_index(path: str) -> Index:
    """Read and check an index.

    Raises:
        FileFormatError: for a damaged index, a newer one, and one that names other tensors than it describes.
        OSError: if the file can't be used. The message names the path.
    """
    found = parse_sealed(read_small(path), path, "index", Index)
    if {name for name, _ in references(found.root)} != found.weight_map.keys():
        raise FileFormatError("the index describes other tensors than it lists", path)
    return found


def write_index(path: str, index: Index) -> None:
    """Replace the index of a folder atomically."""
    with replacing(path) as target:
        target.write([sealed(index.model_dump_json(exclude_unset=True))])


class FolderCommit:
    """Puts a new file into a folder that may have an index; for `replacing`.

    Args:
        make: gets the path of the index, or None if there is none. Returns the new index without `version`, in which
            the new file is named ""; or None if the folder holds only that file. It may raise.
        name: the name of the file in a folder without an index.
    """

    def __init__(self, make: Callable[[str | None], Mapping[str, Any] | None], name: str) -> None:
        self.make = make
        self.name = name
        self.path = ""
        """The path of the file, after the rename."""

    def __call__(self, target: Target) -> None:
        """Rename the file, then write the index; files that it doesn't name are removed."""
        with target.alone():
            path = os.path.join(target.folder, INDEX)
            found = self.make(path if os.path.lexists(path) else None)
            target.name = self.name if found is None else _free_name(target.beside())
            self.path = os.path.join(target.folder, target.name)
            target.commit()
            if found is not None:
                files = {key: file or target.name for key, file in found["weight_map"].items()}
                write_index(path, Index.model_validate({**found, "version": VERSION, "weight_map": files}))
                for other in target.beside():
                    if PART.fullmatch(other) and other not in files.values():
                        target.drop(other)


def _free_name(names: list[str]) -> str:
    numbers = [int(found[1] or 0) for found in map(PART.fullmatch, names) if found]
    return f"data-{max(numbers, default=0) + 1}.safetensors"
