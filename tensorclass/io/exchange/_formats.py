"""Table files by suffix. They are read and written in batches, so files may be larger than memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from typing_extensions import Unpack

from ..._budget import budget
from ..._flags import flags
from ..._places import local_path
from ..._schema import schema_of
from ...classes._json import load as read_fields
from ...errors import ArgumentError, FileFormatError, UnsupportedOperationError
from .._atomic import naming, replacing_folder, scratch
from .._dataset import TensorClassDataset
from .._file_kinds import FILE_KINDS, FileKind, naming_reader
from .._files import load, save
from .._manifest import NAME as MANIFEST
from .._optional import optional
from .._parts import BLOCK, parts_of, spans
from .._paths import StrPath
from .._writer import write_dataset as write_shards
from ._arrays_out import mapping_of
from ._batches import TableOptions
from ._frames import hf_tables
from ._parquet import arrow_errors, batch_in, write_ipc
from ._persistent import PersistentTensorDict
from ._spool import spool_batches
from ._text import read_records, write_records

Batches = Iterable[Any]


def read_stored(path: StrPath, cls: Any, rows: int | None, max_bytes: int | None = None) -> Iterator[Any]:
    whole = load(path, cls=cls, max_bytes=max_bytes)
    yield from [whole] if rows is None else map(whole.__getitem__, parts_of(whole, rows))


def read_h5(path: StrPath, cls: Any, rows: int | None, max_bytes: int | None = None) -> Iterator[Any]:
    with PersistentTensorDict.open(path, max_bytes=max_bytes) as whole:
        whole._keeps = True
        found = whole.stored_class if cls is None else cls
        if not whole.batch_size:
            raise UnsupportedOperationError(f"{local_path(path)}: rows are one batch dim, the batch size is []")
        count = len(whole)
        for i in [slice(0, count)] if rows is None else spans(count, rows, whole._weight):
            part = whole[i]
            yield part if schema_of(found) is None else read_fields(found, mapping_of(part, found))


def write_h5(batches: Batches, path: str, backend: str = "h5") -> None:
    with spool_batches(batches, path) as whole:
        PersistentTensorDict.create(whole, path, backend).close()


def write_stored(batches: Batches, path: StrPath) -> None:
    with spool_batches(batches, local_path(path)) as whole:
        save(whole, path, archive=True)


def read_dataset(path: StrPath, cls: Any, rows: int | None, max_bytes: int | None = None) -> Iterator[Any]:
    if not os.path.lexists(os.path.join(local_path(path), MANIFEST)):  # the folder of a saved batch
        return (yield from read_stored(path, cls, rows, max_bytes))
    data = TensorClassDataset[Any](path, cls, max_bytes=max_bytes)
    yield from data._blocks()


def read_hf(path: StrPath, cls: Any, rows: int | None, max_bytes: int | None = None) -> Iterator[Any]:
    datasets = optional("datasets", "A Hugging Face dataset", "hf")
    try:
        found = datasets.load_from_disk(local_path(path))
    except (IndexError, KeyError, TypeError, ValueError) as error:  # raised for datasets without rows, and damaged ones
        raise FileFormatError(f"`datasets` can't read it: {error!s:.200}", local_path(path)) from error
    with arrow_errors(local_path(path)):
        for table in hf_tables(found, rows or BLOCK):
            table.validate(full=True)  # as `read_ipc` does
            with budget(max_bytes, table.nbytes, local_path(path)):
                made = batch_in(table, cls, None, {})
            yield made


def write_hf(batches: Batches, path: StrPath) -> None:
    datasets = optional("datasets", "A Hugging Face dataset", "hf")
    with scratch(local_path(path), "1") as folder, replacing_folder(local_path(path)) as target:
        write_ipc(batches, os.path.join(folder, "rows"), stream=True)
        datasets.Dataset.from_file(os.path.join(folder, "rows")).save_to_disk(target)


def write_dataset(batches: Batches, path: StrPath) -> None:
    with replacing_folder(local_path(path)) as target:
        write_shards(batches, target, name=local_path(path))


def read_json(
    path: StrPath, cls: Any, rows: int | None, max_bytes: int | None = None, **options: Unpack[TableOptions]
) -> Iterator[Any]:
    """All rows of a file, as one batch."""
    yield read_records(path, cls, None, max_bytes, **options)


write_json = write_records
read_zarr, write_zarr = read_h5, partial(write_h5, backend="zarr")


class Format(NamedTuple):
    """How files with a suffix are read and written. A file appears as a whole or not at all."""

    read: Callable[..., Iterator[Any]]
    write: Callable[[Batches, str], Any]


def _functions_of(kind: FileKind) -> Format:
    room, name = kind.rows.split(":")
    module = import_module(f".{room}", __package__)
    read, write = getattr(module, f"read_{name}"), getattr(module, f"write_{name}")
    return Format(read, partial(write, separator=".") if kind.is_flat else write)


FORMATS: dict[str, Format] = {
    suffix: _functions_of(kind) for kind in FILE_KINDS if kind.rows for suffix in kind.suffixes or ("",)
}
"""Formats by suffix; a folder without a suffix is a dataset of this library."""


def format_of(path: str) -> Format:
    """The format of a path.

    Raises:
        ArgumentError: for an unknown suffix.
    """
    ending = "" if os.path.isfile(os.path.join(path, MANIFEST)) else os.path.splitext(path.rstrip("/"))[1].lower()
    if ending == "" and os.path.isdir(path) and not os.path.isfile(os.path.join(path, MANIFEST)):
        ending = ".hf" if os.path.isfile(os.path.join(path, "state.json")) else ending
    if ending not in FORMATS:
        known = ", ".join(name for name in FORMATS if name)
        raise ArgumentError(f"{path}: the ending {ending!r:.40} says no format; known are {known}; and folders")
    return FORMATS[ending]


@flags
def convert(
    source: StrPath, target: StrPath, cls: Any = None, *, force: bool = False, max_bytes: int | None = None
) -> None:
    """Convert a file or folder of rows to another format; the suffixes determine the formats.

    Rows are read in parts of a few megabytes. `.json` files, and Python values for a target that stores columns, are
    read as a whole. The target appears as a whole or not at all.

    Args:
        source: `.parquet`, `.arrow`, `.csv`, `.jsonl`, `.json`, `.safetensors`, `.tdz`, `.h5`, `.zarr`, `.hf`, or the
            folder of a dataset or a saved batch.
        target: the same.
        cls: the class of the rows; by default the one that the source names, if it is imported, else `TensorDict`.
        force: replace an existing target.
        max_bytes: the most memory that reading a part may take, in bytes; by default 128 times the size of the source,
            and at least 128 MiB.

    Raises:
        MemoryBudgetError: for a source beyond `max_bytes`.
        FileExistsError: if the target exists and `force` is False.
        SchemaError: for rows that don't fit the class.
        OSError: if the file can't be used. The message names the path.

    >>> import torch
    >>> from tensorclass import TensorDict, convert, from_parquet
    >>> source, target = "a.csv", "a.parquet"
    >>> TensorDict(a=torch.arange(2), batch_size=[2]).to_csv(source)
    >>> convert(source, target)
    >>> from_parquet(target)["a"]
    tensor([0, 1])
    """
    here, there = os.path.abspath(local_path(source)), os.path.abspath(local_path(target))
    reader, writer = format_of(here), format_of(there)
    if not os.path.exists(here):
        raise FileNotFoundError(2, "there is nothing to convert", here)
    if os.path.exists(there) and os.path.samefile(here, there):
        raise ArgumentError(f"{there}: source and target are the same; name another target")
    if os.path.exists(there) and not force:
        raise FileExistsError(17, "it is there already; `--force` or `force=True` replaces it", there)
    writer.write(_naming_source(here, reader.read(here, cls, BLOCK, max_bytes=max_bytes)), there)


def _naming_source(path: str, batches: Batches) -> Iterator[Any]:
    """Batches whose errors name the source."""
    with naming_reader(path), naming(path, others=True):
        yield from batches
