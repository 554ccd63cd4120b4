"""`tensorclass new`: writes a class for existing data, with its dtypes and shapes."""

from __future__ import annotations

import argparse
import builtins
import json
import keyword
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

import tensorclass
import tensorclass.typing

from .._content import read_content
from ..classes._build import RESERVED, member_names
from ..core import TensorCollection, batch_shape
from ..errors import FileFormatError, SchemaError, TensorClassError
from ..io import load
from ..io._file_kinds import FILE_KINDS
from ..io.exchange._formats import format_of
from ..store import Node, RaggedTensor, TensorDict, Unbatched, from_any
from ._main import CommandError, on_disk, write_file

HEAD = "from torch import Tensor\n\n"


def _load_saved(path: str) -> Any:
    """Load a file of torch or of this library; only tensors and plain types are unpickled."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        what = re.search(r"GLOBAL [\w.]+", str(error))
        why = f"it holds {what[0][7:]}" if what else "torch can't load it"
        raise CommandError(f"{path}: only tensors and plain types are read: {why}") from None
    except Exception as error:  # torch.load may raise anything
        raise CommandError(f"{path} can't be read: {type(error).__name__}: {_first_line(error)}") from None
    rows = isinstance(found, list) and found and all(isinstance(row, dict) for row in found)
    return tensorclass.stack([from_any(row) for row in found]) if rows else found


def _read_table(path: str) -> Any:
    """The rows of a table. A JSON object gives columns instead."""
    try:
        return next(format_of(path).read(path, TensorDict, None, nulls="mask"))
    except FileFormatError:
        found = json.loads(read_content(Path(path))) if path.lower().endswith(".json") else None
        if not isinstance(found, dict):
            raise
        return found


_TABLES = {suffix: kind.table for kind in FILE_KINDS if kind.table for suffix in kind.suffixes}
READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(_TABLES, _read_table),
    **dict.fromkeys((".pt", ".pth"), _load_saved),
}
"""Readers by file suffix; any other file is one of this library."""
_UNREADABLE = (
    TensorClassError, OSError, ValueError, RuntimeError, TypeError, LookupError, AttributeError, ArithmeticError,
    MemoryError,
)  # fmt: skip
"""What reading any file raises; a RecursionError is a RuntimeError."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("name", metavar="NAME", help="the name of the class")
    parser.add_argument(
        "--from", dest="source", type=on_disk, required=True, metavar="FILE", help=f"data: {', '.join(READERS)}, ..."
    )
    parser.add_argument("-o", "--out", type=on_disk, metavar="FILE.py", help="by default the standard output")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def run(arguments: argparse.Namespace) -> int:
    """Print or write the class; 1 if a name had to be changed, so that the data doesn't fit unchanged."""
    if not _is_name(arguments.name):
        raise CommandError(f"{arguments.name!r:.80} is not the name of a class")
    if arguments.out is not None and arguments.out.suffix != ".py":
        raise CommandError(f"{arguments.out} would hold Python; name it `*.py`")
    source = ClassWriter()
    if arguments.name in source.classes:
        raise CommandError(f"`{arguments.name}` is a name that the written module uses; choose another for the class")
    data, gaps = _read(str(arguments.source))
    try:
        source.write(arguments.name, data, gaps)
    except RecursionError:
        raise CommandError(f"{arguments.source}: its entries are nested too deeply for classes") from None
    text = source.text()
    if arguments.out is None:
        print(text, end="")
    else:
        write_file(arguments.out, text, arguments.force)
    for finding in source.findings:
        print(f"tensorclass: {finding}", file=sys.stderr)
    return int(bool(source.findings))


def _read(source: str) -> tuple[TensorCollection, Any]:
    """The data, and the masks of its columns with nulls."""
    if not Path(source).exists():
        raise CommandError(f"no file `{source}`")
    suffix = Path(source).suffix.lower()
    try:
        given = READERS.get(suffix, load)(source)
        found: Any = given
        found = found if isinstance(found, TensorCollection) else from_any(found, auto_batch_size=True)
    except _UNREADABLE as error:
        why = str(error) if isinstance(error, SchemaError) else _first_line(error)
        why = why.removeprefix(f"{source}: ")
        known = "" if suffix in READERS else f"; tables are read from {', '.join(READERS)}"
        raise CommandError(f"{source}: {why}{known}") from None
    if not isinstance(found, TensorCollection) or not found._entries():
        raise CommandError(f"{source} holds a {type(given).__name__} without entries that could become fields")
    if _TABLES.get(suffix) == "text" and not found.numel():
        raise CommandError(f"{source} has no rows; the types of the fields come from them")
    masked = suffix in _TABLES and isinstance(given.get("_mask", None), TensorCollection)
    return found, given.pop("_mask") if masked else {}


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


class ClassWriter:
    """Collects classes, nested ones first, and the names that they import."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self.types: set[str] = set()
        self.names = {"tensorclass"}
        self.classes = {*vars(builtins), *dir(tensorclass.typing), *dir(tensorclass), "Tensor"}
        self.findings: list[str] = []

    def text(self) -> str:
        """The module."""
        types = f"from tensorclass.typing import {', '.join(sorted(self.types))}\n" if self.types else ""
        own = f"from tensorclass import {', '.join(sorted(self.names, key=str.lower))}\n"
        return f"{HEAD}{own}{types}\n\n" + "\n\n\n".join(self.blocks) + "\n"

    def write(self, name: str, data: TensorCollection, gaps: Any) -> str:
        """Write the class of a container; returns its name, which is changed if a class or an import has it.

        Columns of numbers that `gaps` names have nulls: their fields say what replaces them.
        """
        while name in self.classes:
            name += "_"
        self.classes.add(name)
        fields = list(self._fields(name, data._solid() if data._stacked else data, gaps))
        shadow = any(field in member_names() for field, _, _ in fields)
        lines = [f"    {field}: {kind}{note}" for field, kind, note in fields]
        decorator = "@tensorclass(shadow=True)" if shadow else "@tensorclass"
        self.blocks.append("\n".join([decorator, f"class {name}:", *(lines or ["    pass"])]))
        return name

    def _fields(self, owner: str, data: TensorCollection, gaps: Any) -> Iterator[tuple[str, str, str]]:
        """The name, the annotation and the comment of each field; names that Python refuses are changed."""
        taken: set[str] = set()
        for key, value in data._entries().items():
            name = _letters(key).lstrip("_") or "field"
            name = f"{name}_" if name[0].isdigit() or not _is_name(name) or name in RESERVED else name
            name = f"field_{name}" if name[0].isdigit() else name
            while name in taken:
                name += "_"
            taken.add(name)
            note = "" if name == key else f"  # in the data {key!r}"
            if note:
                self.findings.append(f"{key!r} can't be the name of a field; it is written as `{name}`")
            if key in gaps and isinstance(value, Tensor) and not value.is_nested:
                self.names.add("field")
                fill = 'float("nan")' if value.dtype.is_floating_point else value.new_zeros(()).item()
                note = f' | None = field(join="fill", fill={fill}){note}'
                self.findings.append(f"{key!r} has nulls; `fill=` of the field `{name}` replaces them")
            elif key in gaps and isinstance(value, Tensor):
                self.findings.append(f'{key!r} has nulls; read the data with `nulls="fill"`, which makes them empty')
            yield name, self._kind(owner, key, value, data._batch_size, gaps), note

    def _kind(self, owner: str, key: str, value: Any, size: torch.Size, gaps: Any) -> str:
        """The annotation of an entry; a nested container becomes a class of its own."""
        if isinstance(value, TensorCollection):
            name = owner + "".join(part.capitalize() for part in _letters(key).split("_"))
            if value._entries():
                return self.write(name, value, gaps.get(key, {}))
            self.names.add("TensorDict")
            return "TensorDict"
        if isinstance(value, Unbatched):
            self.names.add("Shared")
            return f"Shared[{self._tensor(value.tensor.dtype, 'Tensor', value.tensor.shape)}]"
        if isinstance(value, RaggedTensor) or (isinstance(value, Tensor) and value.is_nested):
            self.names.add("RaggedTensor")
            event = value.event_shape if isinstance(value, RaggedTensor) else value.shape[2:]
            return self._tensor(value.dtype, "RaggedTensor", ("_", *event))
        if isinstance(value, Tensor):
            return self._tensor(value.dtype, "Tensor", value.shape[len(size) :])
        shape = batch_shape(value)
        if shape is None or len(shape) > len(size):  # a list in a container without batch dims
            if isinstance(value, Node):
                return _union([value._read_value() if shape is None else [value]])
            return _union([value])
        self.names.add("PerElement")
        objects: Any = value
        return f"PerElement[{_union(objects._table)}]"

    def _tensor(self, dtype: torch.dtype, base: str, dims: Any) -> str:
        name = str(dtype).removeprefix("torch.")
        family = next((kind for kind in dir(tensorclass.typing) if kind.lower() == name), "Shaped")
        self.types.add(family)
        return f'{family}[{base}, "{" ".join(map(str, dims))}"]'


def _letters(key: str) -> str:
    """A key with `_` for each character that no name has, in the form in which Python compares names."""
    return "".join([c if f"a{c}".isidentifier() else "_" for c in unicodedata.normalize("NFKC", key)])


def _is_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _union(values: Any) -> str:
    """The type of plain values; None last."""
    kinds = dict.fromkeys("None" if value is None else type(value).__name__ for value in values)
    plain = kinds.keys() <= {"str", "int", "float", "bool", "bytes", "list", "dict", "tuple", "None"}
    return " | ".join(sorted(kinds, key=lambda name: name == "None")) if kinds and plain else "object"
