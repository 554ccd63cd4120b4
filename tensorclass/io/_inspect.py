"""What files and datasets hold, and whether it is what was written: for the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .._schema import Schema
from ..errors import FileFormatError, SchemaError
from ._atomic import open_file
from ._dataset import TensorClassDataset
from ._manifest import NAME, read_manifest, stored_schema
from ._paths import DATA, SUFFIXES, to_read
from ._read import Opened, places_of, read, read_head
from ._unpack import UNTYPED, references


def is_stored(path: str) -> bool:
    """Whether a path is that of a file or a dataset, rather than of a module."""
    return path.endswith(SUFFIXES) or any([os.path.lexists(os.path.join(path, name)) for name in (NAME, DATA)])


def is_dataset(path: str) -> bool:
    """Whether a path is that of a dataset."""
    return os.path.lexists(os.path.join(path, NAME))


def verify(path: str, pbar: bool = False) -> list[Exception]:
    """What is wrong with a file or a dataset, checksums included where there are some; nothing is raised.

    Args:
        path: a file, its folder, or a dataset.
        pbar: show the progress over the rows of a dataset.
    """
    try:
        if is_dataset(path):
            return TensorClassDataset(path).verify(pbar)
        file, key = to_read(path)
        if key:
            return [FileNotFoundError(2, "no such file", path)]
        read(file, (), UNTYPED, verify=_head(file).meta.crc32 is not None, allow_pickle=False)
    except (FileFormatError, SchemaError, OSError) as error:
        return [error]
    return []


def _head(file: str) -> Opened:
    fd, size = open_file(file)
    try:
        return read_head(fd, size, file)
    finally:
        os.close(fd)


def describe(path: str) -> str:
    """What a file or a dataset holds, as text; the tensors are not read.

    Raises:
        FileFormatError: for what is damaged.
        OSError: with the path.
    """
    return "\n".join(_dataset_lines(path) if is_dataset(path) else _file_lines(to_read(path)[0]))


def _dataset_lines(path: str) -> Iterator[str]:
    manifest = read_manifest(path)
    shards = manifest.shards
    yield f"{path}: a dataset of {manifest.cls.module}.{manifest.cls.name}"
    rows, size = sum([shard.rows for shard in shards]), sum([shard.bytes for shard in shards])
    yield f"  {rows:,} rows in {len(shards):,} shards, {size:,} bytes"
    yield from _schema_lines(stored_schema(manifest))


def _file_lines(file: str) -> Iterator[str]:
    opened = _head(file)
    meta, root = opened.meta, opened.meta.root
    part = meta.classes[root.cls] if root.cls is not None and root.cls < len(meta.classes) else None
    what = "a safetensors file of others" if not opened.ours else "a TensorDict"
    yield f"{file}: {what if part is None else f'{part.module}.{part.name}'}, batch size {root.size}"
    sums = "with checksums" if meta.crc32 is not None else "without checksums"
    yield f"  {len(opened.header.tensors):,} tensors, {opened.size:,} bytes, {sums}"
    if part is not None and part.fields is not None:
        yield from _schema_lines(Schema.from_dict(part.fields))
    yield "tensors"
    for name, place in places_of(opened.header, references(root), file).items():
        dtype = str(place.dtype).removeprefix("torch.")
        yield f"  {name}  {dtype}{list(place.shape)}  {place.end - place.begin:,} bytes"


def _schema_lines(schema: Schema) -> Iterator[str]:
    yield "fields"
    for spec in schema.fields.values():
        yield f"  {spec.name}  {spec}"
