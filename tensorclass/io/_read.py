"""A file as containers: header and metadata are checked before anything is mapped or allocated."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple
from zlib import crc32

from torch import Tensor

from ..core import Path
from ..errors import ChecksumError, FileFormatError
from . import _format
from ._atomic import open_file, read_bytes
from ._dtypes import TORCH, shape_of
from ._format import Meta, Node
from ._header import Header, Slot, length, parse
from ._map import Place, in_memory, mapped
from ._mapped_tensor import wrap_all
from ._memory import buffer_of
from ._names import nested_paths
from ._unpack import Unpacker, find, references


class Opened(NamedTuple):
    """A file whose header was read and checked; the descriptor is open."""

    path: str
    fd: int
    size: int
    header: Header
    meta: Meta
    ours: bool
    """Whether the file has our metadata."""


def read_head(fd: int, size: int, path: str) -> Opened:
    """Header and metadata of a file, checked.

    Raises:
        FileFormatError: for a damaged file.
    """
    count = length(read_bytes(fd, min(size, 8), 0, path), size, path)
    raw = read_bytes(fd, count, 8, path)
    header = parse(raw, size, path)
    text = header.metadata.get(_format.KEY)
    if text is None:
        return Opened(path, fd, size, header, _foreign(header, path), False)
    meta = _format.read(text, path)
    _check_names(header, meta, path)
    if not _format.is_sealed(raw, meta.header_crc32):
        raise ChecksumError("its header is not the one that was written", path, 8)
    return Opened(path, fd, size, header, meta, True)


def _check_names(header: Header, meta: Meta, path: str) -> None:
    """The metadata speaks of the tensors that there are."""
    spoken = {name for name, _ in references(meta.root)}
    if spoken != header.tensors.keys():
        absent, more = sorted(spoken - header.tensors.keys()), sorted(header.tensors.keys() - spoken)
        if absent:
            raise FileFormatError("its metadata names a tensor that is not there", path, 8, absent[0])
        raise FileFormatError("its metadata does not name a tensor that is there", path, 8, more[0])
    if meta.crc32 is not None and meta.crc32.keys() != header.tensors.keys():
        raise FileFormatError("its checksums are not those of its tensors", path, 8)


def _foreign(header: Header, path: str) -> Meta:
    """Metadata for a file without ours: dotted names nest."""
    root = Node()
    for name, key in nested_paths(header.tensors).items():
        here = root
        for part in key[:-1]:
            inner = here.entries.setdefault(part, Node())
            assert isinstance(inner, Node)  # `nested_paths` nests below names of tensors nowhere
            here = inner
        here.entries[key[-1]] = name
    return Meta(version=_format.VERSION, header_crc32=_format.BLANK, root=root)


def places_of(header: Header, wanted: Iterable[tuple[str, str | None]], path: str) -> dict[str, Place]:
    """Where tensors lie, and what they are there.

    Args:
        header: of the file.
        wanted: stored names, each with the dtype that it carries, when it carries one that the format lacks.
        path: for messages.

    Raises:
        FileFormatError: for a dtype that does not fit.
    """
    found: dict[str, Place] = {}
    tensors, new = header.tensors, tuple.__new__
    for name, true in wanted:
        code, shape, begin, end = tensors[name]
        if true is None and code != "F4":
            found[name] = new(Place, (begin, end, TORCH[code], shape))
        else:
            found[name] = _place(tensors[name], true, path, name)
    return found


def _place(slot: Slot, true: str | None, path: str, name: str) -> Place:
    form = shape_of(slot.code, slot.shape, true)
    if isinstance(form, str):
        raise FileFormatError(form, path, slot.begin, name)
    return Place(slot.begin, slot.end, *form)


def tensors_of(opened: Opened, places: dict[str, Place], mmap: bool, write: bool, verify: bool) -> dict[str, Tensor]:
    """The tensors at some places, mapped or read."""
    path, rows = opened.path, list(places.values())
    odd = [name for name, (begin, end, dtype, _) in places.items() if write and end > begin and begin % dtype.itemsize]
    if odd:
        what = "it lies at an odd address, where it can't be written through; save the batch again, or use mode='r'"
        raise FileFormatError(what, path, places[odd[0]].begin, odd[0])
    found = mapped(opened.fd, opened.size, path, rows, write) if mmap else in_memory(opened.fd, path, rows)
    tensors = dict(zip(places, found, strict=True))
    if verify:
        _verify(opened, places, tensors)
    return tensors


def _verify(opened: Opened, places: dict[str, Place], tensors: dict[str, Tensor]) -> None:
    sums = opened.meta.crc32
    if sums is None:
        raise FileFormatError("it was saved without checksums; `save(..., checksums=True)` writes them", opened.path)
    for name, tensor in tensors.items():
        value = crc32(buffer_of(tensor)) if tensor.numel() else 0
        if f"{value:08x}" != sums[name]:
            what = f"its bytes have the checksum {value:08x}, written was {sums[name]:.8}"
            raise ChecksumError(what, opened.path, places[name].begin, name)


def read(
    path: str, key: Path = (), want: Any = None, *, mmap: bool = True, write: bool = False, verify: bool = False,
    allow_pickle: bool = False, lenient: bool = False, wrap: bool = False,
) -> Any:  # fmt: skip
    """What is under a key of a file; only the tensors below it are mapped or read.

    Args:
        path: the file.
        key: the path of keys; () is all of it.
        want: a class that the result has to be an instance of, or `UNTYPED`.
        mmap: map the tensors; otherwise they are read into memory.
        write: map write-through.
        verify: compare the checksums of the tensors.
        allow_pickle: load pickled objects.
        lenient: give untyped containers where classes have changed.
        wrap: give mapped tensors as `MemoryMappedTensor`.

    Raises:
        FileFormatError: for a damaged file.
        OSError: for what is no file, or can't be read.
        SchemaError: for data that does not fit its class.
    """
    fd, size = open_file(path, write)
    try:
        opened = read_head(fd, size, path)
        part = find(opened.meta.root, key, path)
        places = places_of(opened.header, references(part), path)
        tensors = tensors_of(opened, places, mmap, write, verify)
    finally:
        os.close(fd)
    if wrap:
        tensors = wrap_all(tensors, places, path, "r+" if write else "r")
    unpacker = Unpacker(opened.meta, tensors, path, allow_pickle, lenient, not opened.ours)
    return unpacker.build(part, key, want)
