"""Reads containers from a file. Header and metadata are checked before anything is mapped or allocated."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from math import prod
from typing import Any, NamedTuple
from zlib import crc32

import torch
from torch import Tensor

from .._places import is_url
from ..core import Path
from ..errors import ChecksumError, FileFormatError, UnsupportedOperationError
from . import _format
from ._anchor import describe
from ._atomic import opened_file, read_bytes
from ._codecs import inflate_tensor, too_much
from ._dtypes import BITS, TORCH, shape_of
from ._format import CompressedPart, Metadata, NodePart
from ._header import MAX_RANK, Header, TensorSlot, length, parse
from ._index import read_index
from ._map import Extent, in_memory, mapped
from ._mapped_tensor import wrap_all
from ._memory import buffer_of
from ._names import nested_paths
from ._paths import INDEX
from ._remote import fetch
from ._unpack import Unpacker, find, references

THEIRS = "tensordict"
"""The key of the metadata that `to_safetensors` of `tensordict` writes."""


_STALE = "they were damaged, or written to in place, which leaves checksums as they were; save it again"


class Head(NamedTuple):
    """An open file whose header was read and checked."""

    path: str
    fd: int
    size: int
    header: Header
    meta: Metadata
    ours: bool
    """Whether the file has our metadata."""


def read_head(fd: int, size: int, path: str) -> Head:
    """Header and metadata of a file, checked.

    Raises:
        FileFormatError: for a damaged file.
    """
    count = length(read_bytes(fd, min(size, 8), 0, path), size, path)
    raw = read_bytes(fd, count, 8, path)
    header = parse(raw, size, path)
    text = header.metadata.get(_format.KEY)
    if text is None and THEIRS in header.metadata:
        meta = describe(header.metadata[THEIRS], path)
        _check_names(header, meta, path)
        return Head(path, fd, size, header, meta, False)
    if text is None:
        return Head(path, fd, size, header, _foreign(header), False)
    meta = _format.read(text, path)
    _check_names(header, meta, path)
    if not _format.is_sealed(raw, meta.header_crc32):
        raise ChecksumError("its header is not the one that was written", path, 8)
    for name, about in meta.compressed.items():
        header.tensors[name] = _unpacked_slot(header.tensors.get(name), about, path, name)
    return Head(path, fd, size, header, meta, True)


def head_of(path: str) -> Head:
    """Header and metadata of a file, checked. Closes the descriptor."""
    with opened_file(path) as (fd, size):
        return read_head(fd, size, path)


def _unpacked_slot(slot: TensorSlot | None, about: CompressedPart, path: str, name: str) -> TensorSlot:
    """The slot of a compressed tensor, with the dtype and shape that it has after it is unpacked."""
    if slot is None or slot.code != "U8" or len(slot.shape) != 1 or about.dtype not in BITS:
        raise FileFormatError("a compressed tensor is stored as bytes, with its dtype and shape", path, 8, name)
    stored, bits = slot.end - slot.begin, prod(about.shape) * BITS[about.dtype]
    if bits % 8 or len(about.shape) > MAX_RANK or too_much(about.codec, stored, bits // 8):
        what = f"{about.dtype} of shape {about.shape!r:.80} does not fit into {stored} bytes of {about.codec}"
        raise FileFormatError(what, path, slot.begin, name)
    return TensorSlot(about.dtype, about.shape, slot.begin, slot.end)


def _check_names(header: Header, meta: Metadata, path: str) -> None:
    """Refuse metadata that names other tensors than the header."""
    spoken = {name for name, _ in references(meta.root)}
    if spoken != header.tensors.keys():
        absent, more = sorted(spoken - header.tensors.keys()), sorted(header.tensors.keys() - spoken)
        if absent:
            raise FileFormatError("its metadata names a tensor that is not there", path, 8, absent[0])
        raise FileFormatError("its metadata does not name a tensor that is there", path, 8, more[0])
    if meta.crc32 is not None and meta.crc32.keys() != header.tensors.keys():
        raise FileFormatError("its checksums are not those of its tensors", path, 8)


def _foreign(header: Header) -> Metadata:
    """Metadata for a file without ours: dotted names nest."""
    root = NodePart()
    for name, key in nested_paths(header.tensors).items():
        here = root
        for part in key[:-1]:
            inner = here.entries.setdefault(part, NodePart())
            assert isinstance(inner, NodePart)  # `nested_paths` nests below names of tensors nowhere
            here = inner
        here.entries[key[-1]] = name
    return _format.foreign_metadata(root)


def places_of(header: Header, wanted: Iterable[tuple[str, str | None]], path: str) -> dict[str, Extent]:
    """The places of tensors, with their dtypes and shapes.

    Args:
        header: of the file.
        wanted: stored names, each with its true dtype if the format lacks that, else None.
        path: for messages.

    Raises:
        FileFormatError: for a dtype that does not fit.
    """
    found: dict[str, Extent] = {}
    tensors, new = header.tensors, tuple.__new__
    for name, true in wanted:
        code, shape, begin, end = tensors[name]
        if true is None and code != "F4":
            found[name] = new(Extent, (begin, end, TORCH[code], shape))
        else:
            found[name] = _place(tensors[name], true, path, name)
    return found


def _place(slot: TensorSlot, true: str | None, path: str, name: str) -> Extent:
    form = shape_of(slot.code, slot.shape, true)
    if isinstance(form, str):
        raise FileFormatError(form, path, slot.begin, name)
    return Extent(slot.begin, slot.end, *form)


def tensors_of(
    head: Head, places: dict[str, Extent], mmap: bool, write: bool, verify: bool, later: Collection[str] = ()
) -> dict[str, Tensor]:
    """The tensors at some places, mapped or read.

    In a remote file, the values of the names in `later` are not fetched yet.
    """
    path, rows = head.path, list(places.values())
    if is_url(path):
        fetch(path, head.fd, [(place.begin, place.end) for name, place in places.items() if name not in later])
    packed = head.meta.compressed
    if packed:
        return _unpacked_tensors(head, places, write, verify)
    odd = [name for name, (begin, end, dtype, _) in places.items() if write and end > begin and begin % dtype.itemsize]
    if odd:
        what = "it lies at an odd address, where it can't be written through; save the batch again, or use mode='r'"
        raise FileFormatError(what, path, places[odd[0]].begin, odd[0])
    found = mapped(head.fd, head.size, path, rows, write) if mmap else in_memory(head.fd, path, rows)
    tensors = dict(zip(places, found, strict=True))
    if verify:
        _verify(head, places, tensors)
    return tensors


def _unpacked_tensors(head: Head, places: dict[str, Extent], write: bool, verify: bool) -> dict[str, Tensor]:
    """Read the tensors of a file with compressed tensors into memory."""
    path, packed = head.path, head.meta.compressed
    if write:
        what = "it is compressed, and can't be written through; use mode='r', or unpack it"
        raise UnsupportedOperationError(f"{path}: {what}")
    raw = {name: places[name] for name in places.keys() & packed.keys()}
    raw = {name: at._replace(dtype=torch.uint8, shape=[at.end - at.begin]) for name, at in raw.items()}
    stored = {**places, **raw}
    tensors = dict(zip(places, in_memory(head.fd, path, list(stored.values())), strict=True))
    if verify:
        _verify(head, places, tensors)
    for name in packed.keys() & tensors.keys():
        tensors[name] = inflate_tensor(tensors[name], places[name], packed[name].codec, path, name)
    return tensors


def _verify(head: Head, places: dict[str, Extent], tensors: dict[str, Tensor]) -> None:
    sums = head.meta.crc32
    if sums is None:
        raise FileFormatError("it was saved without checksums; `save(..., checksums=True)` writes them", head.path)
    for name, tensor in tensors.items():
        value = crc32(buffer_of(tensor)) if tensor.numel() else 0
        if f"{value:08x}" != sums[name]:
            what = f"its bytes have the checksum {value:08x}, written was {sums[name]:.8}: {_STALE}"
            raise ChecksumError(what, head.path, places[name].begin, name)


class Contents(NamedTuple):
    """What a path and a key refer to, before the container is built."""

    meta: Any
    """The `Metadata` of the file, or the `Index`."""
    part: Any
    tensors: dict[str, Tensor]
    heads: list[Head]
    """The files; their descriptors are closed."""


def find_tensors(
    path: str,
    key: Path = (),
    *,
    mmap: bool = True,
    write: bool | None = False,
    verify: bool = False,
    wrap: bool = False,
) -> Contents:
    """The tensors under a key of a file, or of the files that an index lists; see `read`.

    `write` may be None: write-through if the tensors are not compressed.
    """
    index = read_index(path) if os.path.basename(path) == INDEX else None
    files: dict[str, Any] = {path: None} if index is None else index.files(find(index.root, key, path))
    tensors: dict[str, Tensor] = {}
    heads: list[Head] = []
    for name, listed in files.items():
        file = path if index is None else os.path.join(os.path.dirname(path), name)
        with opened_file(file, write is not False) as (fd, size):
            head = read_head(fd, size, file)
            wanted = list(references(find(head.meta.root, key, path)) if listed is None else listed)
            if listed is not None:
                _require(head, listed)
            places = places_of(head.header, wanted, file)
            through = not head.meta.compressed if write is None else write
            found = tensors_of(head, places, mmap, through, verify)
        if wrap:
            packed = head.meta.compressed  # these are in memory
            found = {one: found[one] for one in packed if one in found} | wrap_all(
                {one: tensor for one, tensor in found.items() if one not in packed} if packed else found,
                places,
                file,
                "r+" if through else "r",
            )
        tensors = tensors | found if tensors else found
        heads.append(head)
    meta: Any = heads[0].meta if index is None else index
    return Contents(meta, find(meta.root, key, path), tensors, heads)


def _require(head: Head, wanted: Iterable[tuple[str, str | None]]) -> None:
    for name, _ in wanted:
        if name not in head.header.tensors:
            raise FileFormatError("the index says that it has a tensor, and it is not there", head.path, 8, name)


def read(
    path: str,
    key: Path = (),
    want: Any = None,
    *,
    mmap: bool = True,
    write: bool | None = False,
    verify: bool = False,
    allow_pickle: bool = False,
    lenient: bool = False,
    wrap: bool = False,
) -> Any:
    """Read the entry under a key of a file; only its tensors are mapped or read.

    Args:
        path: the file, or the index of several.
        key: the path of keys; () is all of it.
        want: the class that the result must be an instance of, or `UNTYPED`.
        mmap: map the tensors; otherwise they are read into memory.
        write: map write-through; None for write-through if possible.
        verify: compare the checksums of the tensors.
        allow_pickle: load pickled objects.
        lenient: return untyped containers for classes that have changed.
        wrap: return mapped tensors as `MemoryMappedTensor`.

    Raises:
        FileFormatError: for a damaged file.
        OSError: for a path that is not a file, or can't be read.
        SchemaError: for data that doesn't fit its class.
    """
    found = find_tensors(path, key, mmap=mmap, write=write, verify=verify, wrap=wrap)
    infer = any([not head.ours and THEIRS not in head.header.metadata for head in found.heads])
    return Unpacker(found.meta, found.tensors, path, allow_pickle, lenient, infer).build(found.part, key, want)
