"""Which function reads a path that was given to another one: errors of a reader name it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ..errors import FileFormatError
from ._atomic import open_file, read_bytes
from ._manifest import NAME
from ._paths import DATA, INDEX, META, SUFFIXES, StrPath, text_of


class Door(NamedTuple):
    """A format."""

    kind: str
    reader: str
    endings: tuple[str, ...] = ()
    heads: tuple[bytes, ...] = ()
    """How its files begin."""
    parts: tuple[str, ...] = ()
    """What its folders hold, one of these."""


LOAD, DATASET = "`load`", "`TensorClassDataset`"
DOORS = (
    Door("a dataset", DATASET, parts=(NAME,)),
    Door("a saved batch", LOAD, SUFFIXES, parts=(DATA, INDEX, META)),
    Door("a Parquet file", "`from_parquet`", (".parquet",), (b"PAR1",)),
    Door("an Arrow file", "`convert`", (".arrow", ".feather"), (b"ARROW1",)),
    Door("an Arrow stream", "`pyarrow.ipc.open_stream`, and `from_arrow` its table,", heads=(b"\xff\xff\xff\xff",)),
    Door("an HDF5 file", "`from_h5`", (".h5", ".hdf5"), (b"\x89HDF",)),
    Door("a zarr group", "`from_zarr`", (".zarr",), parts=("zarr.json", ".zgroup")),
    Door("a Hugging Face dataset", "`datasets.load_from_disk`, and `from_hf` its result,", parts=("state.json",)),
    Door("a MosaicML dataset", "`streaming.StreamingDataset`", parts=("index.json",)),
    Door("a file of torch", "`torch.load`", (".pt", ".pth")),
    Door("a file of numpy", "`numpy.load`, and `TensorDict.from_any` its arrays,", (".npz", ".npy"), (b"\x93NUMPY",)),
    Door("a pickle", "`pickle.load`", (".pkl", ".pickle")),
    Door("a CSV file", "`from_csv`", (".csv",)),
    Door("a file of JSON lines", "`from_json(path=..., lines=True)`", (".jsonl", ".ndjson")),
    Door("a JSON file", "`from_json(path=...)`", (".json",)),
)  # fmt: skip
"""What this library writes, and what people bring."""


def _door_of(path: str) -> Door | None:
    found: Door | None = None
    with suppress(OSError):
        if os.path.isdir(path):
            return next((d for d in DOORS if any([os.path.lexists(os.path.join(path, p)) for p in d.parts])), None)
        fd, size = open_file(path)
        try:
            head = read_bytes(fd, min(size, 9), 0, path)
        finally:
            os.close(fd)
        found = next((d for d in DOORS if head.startswith(d.heads)), None)
        ours = found is None and head[8:] == b"{"  # a header, whatever the file is called
        return found or next((d for d in DOORS if (LOAD in d if ours else path.lower().endswith(d.endings))), None)
    return found


@contextmanager
def doors(path: StrPath, *mine: str) -> Iterator[None]:
    """Have the errors of a reader name the function that reads a path, where that is another one.

    Args:
        path: of the user.
        mine: the functions that the reader stands for.
    """
    try:
        yield
    except (FileFormatError, FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        text = text_of(path)
        found = _door_of(text)
        if found is None or found.reader in mine:
            raise
        what = f"it is {found.kind}, which {found.reader} reads"
        if isinstance(error, OSError):
            raise type(error)(error.errno, what, text) from error
        raise FileFormatError(what, text) from error
