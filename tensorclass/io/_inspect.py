"""The content of files and datasets, and whether it is intact: for the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from .._places import is_url, path_or_url
from .._schema import Schema
from ..errors import FileFormatError, SchemaError, printable
from ._dataset import TensorClassDataset
from ._index import read_index
from ._manifest import NAME, schema_in, stored_schema
from ._paths import DATA, INDEX, SUFFIXES, to_read
from ._read import Head, find_tensors, head_of, places_of, read
from ._remote import exists
from ._segments import read_manifest
from ._unpack import UNTYPED, references


def is_stored(path: str) -> bool:
    """Whether a path is a file or a dataset, rather than a Python module. A URL is never a module."""
    place = path_or_url(path)
    marks = [os.path.lexists(os.path.join(place, name)) for name in (NAME, DATA, INDEX)]
    return is_url(place) or place.endswith(SUFFIXES) or any(marks)


def is_dataset(path: str) -> bool:
    """Whether a path or a URL is a dataset."""
    place = path_or_url(path)
    return exists(f"{place.rstrip('/')}/{NAME}") if is_url(place) else os.path.lexists(os.path.join(place, NAME))


def verify(path: str, pbar: bool = False) -> list[Exception]:
    """The faults of a file or a dataset. Checksums are compared if there are any. Nothing is raised.

    Args:
        path: a file, its folder, or a dataset.
        pbar: show the progress over the rows of a dataset.
    """
    path = path_or_url(path)
    try:
        if is_dataset(path):
            return TensorClassDataset(path).verify(pbar)
        file, key = to_read(path)
        if key:
            return [FileNotFoundError(2, "no such file", path)]
        for head in _read_headers(file):
            find_tensors(head.path, verify=head.meta.crc32 is not None)
        read(file, (), UNTYPED)
    except (FileFormatError, SchemaError, OSError) as error:
        return [error]
    return []


def describe(path: str) -> str:
    """Describe the content of a file or a dataset as text, without reading the tensors.

    Raises:
        FileFormatError: for damaged files.
        OSError: if the file can't be used. The message names the path.
    """
    path = path_or_url(path)
    lines = _dataset_lines(path) if is_dataset(path) else _file_lines(to_read(path)[0])
    return "\n".join([printable(line) for line in lines])


def schema_of_stored(path: str) -> Schema | None:
    """The schema that a file or a dataset was written with; None if it names no class.

    Raises:
        FileFormatError: for damaged files.
        OSError: if the file can't be used. The message names the path.
    """
    path = path_or_url(path)
    if is_dataset(path):
        return stored_schema(read_manifest(path), path)
    file = to_read(path)[0]
    part = _class_in(_meta_of(file))
    return None if part is None or part.fields is None else schema_in(part, file)


def _meta_of(file: str) -> Any:
    """The part of a file, or of an index of files, that describes its content."""
    return read_index(file) if os.path.basename(file) == INDEX else head_of(file).meta


def _class_in(meta: Any) -> Any:
    """The description of the class of the whole content, if it has one."""
    root = meta.root
    return meta.classes[root.cls] if root.cls is not None and root.cls < len(meta.classes) else None


def _dataset_lines(path: str) -> Iterator[str]:
    manifest = read_manifest(path)
    shards = manifest.shards
    yield f"{path}: a dataset of {manifest.cls.module}.{manifest.cls.name}"
    rows, size = sum([shard.rows for shard in shards]), sum([shard.bytes for shard in shards])
    yield f"  {rows:,} rows in {len(shards):,} shards, {size:,} bytes"
    yield from _schema_lines(stored_schema(manifest, path))


def _read_headers(file: str) -> list[Head]:
    """The headers of the file, or of the files that an index lists."""
    if os.path.basename(file) != INDEX:
        return [head_of(file)]
    index = read_index(file)
    return [head_of(os.path.join(os.path.dirname(file), name)) for name in index.files(index.root)]


def _file_lines(file: str) -> Iterator[str]:
    """The lines about one file: its class, its size, its schema, and each tensor."""
    heads = _read_headers(file)
    meta = _meta_of(file)
    root, size, part = meta.root, sum([head.size for head in heads]), _class_in(meta)
    what = "a TensorDict" if all([head.ours for head in heads]) else "a safetensors file of others"
    yield f"{file}: {what if part is None else f'{part.module}.{part.name}'}, batch size {root.size}"
    sums = "with checksums" if all([head.meta.crc32 is not None for head in heads]) else "without checksums"
    files = f" in {len(heads):,} files" if len(heads) > 1 else ""
    yield f"  {len(list(references(root))):,} tensors, {size:,} bytes{files}, {sums}"
    if part is not None and part.fields is not None:
        yield from _schema_lines(schema_in(part, file))
    yield "tensors"
    where = {name: head for head in heads for name in head.header.tensors}
    for name, true in references(root):
        if name not in where:
            raise FileFormatError("the index lists a tensor that is in none of its files", file, None, name)
        head = where[name]
        place = places_of(head.header, [(name, true)], file)[name]
        dtype = str(place.dtype).removeprefix("torch.")
        packed = f", {head.meta.compressed[name].codec}" if name in head.meta.compressed else ""
        yield f"  {name}  {dtype}{list(place.shape)}  {place.end - place.begin:,} bytes{packed}"


def _schema_lines(schema: Schema) -> Iterator[str]:
    yield "fields"
    for spec in schema.fields.values():
        yield f"  {spec.name}  {spec}"
