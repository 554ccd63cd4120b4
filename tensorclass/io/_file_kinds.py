"""If a path is given to the wrong reader, its error names the function that reads it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .._places import path_or_url
from ..errors import BatchSizeError, FileFormatError
from ._atomic import opened_file, read_bytes
from ._manifest import NAME
from ._paths import DATA, INDEX, META, SUFFIXES, StrPath

LOAD, DATASET = "`load`", "`TensorClassDataset`"
_TABLE = "{}, and `from_{}` what it gives,"
KINDS: tuple[tuple[str, str, tuple[str, ...], bytes], ...] = (
    ("a dataset", DATASET, (NAME,), b""),
    ("a saved batch", LOAD, (*SUFFIXES, DATA, INDEX, META), b""),
    ("a Parquet file", "`from_parquet`", (".parquet",), b"PAR1"),
    ("an Arrow file", "`convert`", (".arrow", ".feather"), b"ARROW1"),
    ("an Arrow stream", _TABLE.format("`pyarrow.ipc.open_stream`", "arrow"), (), b"\xff\xff\xff\xff"),
    ("an HDF5 file", "`from_h5`", (".h5", ".hdf5"), b"\x89HDF"),
    ("a zarr group", "`from_zarr`", (".zarr", "zarr.json", ".zgroup"), b""),
    ("a Hugging Face dataset", _TABLE.format("`datasets.load_from_disk`", "hf"), ("state.json",), b""),
    ("a MosaicML dataset", "`streaming.StreamingDataset`", ("index.json",), b""),
    ("a file of torch", "`torch.load`", (".pt", ".pth"), b""),
    ("a file of numpy", "`numpy.load`, and `TensorDict.from_any` its arrays,", (".npz", ".npy"), b"\x93NUMPY"),
    ("a pickle", "`pickle.load`", (".pkl", ".pickle"), b""),
    ("a CSV file", "`from_csv`", (".csv",), b""),
    ("a file of JSON lines", "`from_json(path=..., lines=True)`", (".jsonl", ".ndjson"), b""),
    ("a JSON file", "`from_json(path=...)`", (".json",), b""),
)
"""File formats: description, reader, suffixes of its names or files in its folders, and first bytes of its files."""


def _kind_of(path: str) -> tuple[str, str]:
    """What a path holds, and the function that reads it; two empty strings if unknown."""
    folder, head = os.path.isdir(path), b""
    with suppress(OSError):
        if not folder:
            with opened_file(path) as (fd, size):
                head = read_bytes(fd, min(size, 9), 0, path)
        for kind, reader, marks, begin in KINDS:
            inside = folder and any([os.path.lexists(os.path.join(path, mark)) for mark in marks])
            if inside or (begin and head.startswith(begin)) or (head[8:] == b"{" and reader == LOAD):
                return kind, reader
        for kind, reader, marks, _ in () if folder else KINDS:
            if path.lower().endswith(marks):
                return kind, reader
    return "", ""


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
