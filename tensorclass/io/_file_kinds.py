"""If a path is given to the wrong reader, its error names the function that reads it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from .._places import path_or_url
from ..errors import ArgumentError, BatchSizeError, FileFormatError
from ._atomic import opened_file, read_bytes
from ._manifest import NAME
from ._paths import DATA, INDEX, META, SUFFIXES, StrPath

LOAD, DATASET = "`load`", "`TensorClassDataset`"
_HF = "`datasets.load_from_disk`, and `from_hf` what it gives,"
_STREAM = "`pyarrow.ipc.open_stream`, and `from_arrow` what it gives,"
_NUMPY, _LINES = "`numpy.load`, and `TensorDict.from_any` its arrays,", "`from_json(path=..., lines=True)`"


class FileKind(NamedTuple):
    """One kind of files or folders: how it is recognized, and what reads and writes it.

    Args:
        what: its name in messages.
        reader: the public function that reads it, in messages.
        suffixes: the ends of its paths.
        inside: files that its folders have.
        begin: the first bytes of its files.
        rows: where `convert` finds its functions: "_text:csv" for `read_csv` and `write_csv` of `exchange/_text.py`.
        table: "columns" or "text" if `read` takes the options of tables; text has no dtypes.
        is_flat: it has no nested columns, so names are joined by dots.
    """

    what: str
    reader: str
    suffixes: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    begin: bytes = b""
    rows: str = ""
    table: str = ""
    is_flat: bool = False


FILE_KINDS: Final = (
    FileKind("a dataset", DATASET, inside=(NAME,), rows="_formats:dataset"),
    FileKind("a saved batch", LOAD, SUFFIXES, (DATA, INDEX, META), rows="_formats:stored"),
    FileKind("a Parquet file", "`from_parquet`", (".parquet",), (), b"PAR1", "_parquet:parquet", "columns"),
    FileKind("an Arrow file", "`convert`", (".arrow", ".feather"), (), b"ARROW1", "_parquet:ipc", "columns"),
    FileKind("an Arrow stream", _STREAM, begin=b"\xff\xff\xff\xff"),
    FileKind("an HDF5 file", "`from_h5`", (".h5", ".hdf5"), (), b"\x89HDF", "_formats:h5"),
    FileKind("a zarr group", "`from_zarr`", (".zarr",), ("zarr.json", ".zgroup"), rows="_formats:zarr"),
    FileKind("a Hugging Face dataset", _HF, (".hf",), ("state.json",), rows="_formats:hf"),
    FileKind("a MosaicML dataset", "`streaming.StreamingDataset`", inside=("index.json",)),
    FileKind("a file of torch", "`torch.load`", (".pt", ".pth")),
    FileKind("a file of numpy", _NUMPY, (".npz", ".npy"), begin=b"\x93NUMPY"),
    FileKind("a pickle", "`pickle.load`", (".pkl", ".pickle")),
    FileKind("a CSV file", "`from_csv`", (".csv",), rows="_text:csv", table="text", is_flat=True),
    FileKind("a file of JSON lines", _LINES, (".jsonl", ".ndjson"), rows="_text:lines", table="text"),
    FileKind("a JSON file", "`from_json(path=...)`", (".json",), rows="_formats:json", table="text"),
)
"""All kinds. `convert`, `tensorclass new` and the errors of all readers know a kind from here."""


def _kind_of(path: str) -> tuple[str, str]:
    """What a path holds, and the function that reads it; two empty strings if unknown."""
    folder, head = os.path.isdir(path), b""
    with suppress(OSError):
        if not folder:
            with opened_file(path) as (fd, size):
                head = read_bytes(fd, min(size, 9), 0, path)
        for kind in FILE_KINDS:
            marks = (*kind.suffixes, *kind.inside) if folder else ()
            inside = any([os.path.lexists(os.path.join(path, mark)) for mark in marks])
            begins = kind.begin and head.startswith(kind.begin)
            if inside or begins or (head[8:] == b"{" and kind.reader == LOAD):
                return kind.what, kind.reader
        for kind in () if folder else FILE_KINDS:
            if path.lower().endswith((*kind.suffixes, *kind.inside)):
                return kind.what, kind.reader
    return "", ""


def reject_other_kind(path: StrPath) -> None:
    """Refuse to save a batch under the suffix of another kind, which its reader would not read.

    Raises:
        ArgumentError: naming the suffix for batches, and the function that writes the other kind.
    """
    text = path_or_url(path)
    for kind in FILE_KINDS:
        suffix = next((one for one in kind.suffixes if text.lower().endswith(one)), "")
        if suffix and kind.reader != LOAD:
            name = os.path.basename(text)[: -len(suffix)] or "batch"
            writer = kind.reader.replace("from_", "to_") if kind.reader.startswith("`from_") else ""
            raise ArgumentError(
                f"save: a path that ends in {suffix} is {kind.what}; save the batch as `{name}{SUFFIXES[0]}`"
                f"{writer and f', or use {writer}'}; `archive=False` makes a folder of the name"
            )


@contextmanager
def naming_reader(path: StrPath, *mine: str) -> Iterator[None]:
    """Add to the errors of a reader the path, and the function that reads it if that is another one.

    Args:
        path: the path that the user gave.
        mine: the public names of the reader; without them the errors name the path only.
    """
    try:
        yield
    except (FileFormatError, BatchSizeError, FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        text = path_or_url(path)
        kind, reader = _kind_of(text) if mine else ("", "")
        if kind and reader not in mine:
            what = f"it is {kind}, which {reader} reads"
            if isinstance(error, OSError):
                raise type(error)(error.errno, what, text) from error
            raise FileFormatError(what, text) from error
        if not mine and isinstance(error, BatchSizeError):  # sizes in the file that don't fit each other
            raise FileFormatError(str(error), text) from error
        if isinstance(error, FileFormatError) and error.path is None:
            raise type(error)(str(error), text) from error
        raise
