"""Compression of single tensors. The sizes in a file are not trusted: no more bytes than stated are unpacked."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._budget import reserve
from ..errors import ArgumentError, FileFormatError
from ._map import Extent
from ._memory import blank, buffer_of
from ._pack import Item, Packed
from ._write import ready

_STEP = 1 << 20
"""Bytes that are unpacked at a time."""


class _Codec(NamedTuple):
    pack: Callable[[Any, int | None], bytes]
    unpacker: Callable[[], Any]
    most: int
    """The largest compression ratio of the codec; a file that claims more is damaged."""


def _unlzma() -> Any:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=1 << 27)  # the highest level takes half of it


_CODECS = {
    "deflate": _Codec(lambda raw, level: zlib.compress(raw, -1 if level is None else level), zlib.decompressobj, 1100),
    "bzip2": _Codec(lambda raw, level: bz2.compress(raw, level or 9), bz2.BZ2Decompressor, 1 << 21),
    "lzma": _Codec(lambda raw, level: lzma.compress(raw, preset=level), _unlzma, 1 << 17),
}
_NAMES: dict[Any, str] = {"stored": "", "deflated": "deflate", 0: "", 8: "deflate", 12: "bzip2", 14: "lzma"}
"""Aliases, and the constants of `zipfile`."""


def codec_of(compression: Any, level: Any = None) -> str:
    """The codec for an argument; "" for none.

    Raises:
        ArgumentError: for an unknown name, and for a level that the codec does not have.
    """
    known = compression is None or (isinstance(compression, (str, int)) and not isinstance(compression, bool))
    if compression is None:
        codec = ""
    elif known:
        codec = _NAMES.get(compression, compression)
    else:
        codec = None
    if codec not in ("", *_CODECS):
        given = ", ".join(map(repr, ("stored", *_CODECS)))
        raise ArgumentError(f"compression is one of {given}, or a constant of zipfile, got {compression!r:.40}")
    low = 1 if codec == "bzip2" else 0
    if level is not None and (type(level) is not int or not low <= level <= 9):
        raise ArgumentError(f"compresslevel of {codec or 'stored'!r} is a number from {low} to 9, got {level!r:.40}")
    return codec


def compressed(packed: Packed, codec: str, level: int | None = None) -> Packed:
    """A packed container with each tensor compressed, if that makes it smaller."""
    if not codec:
        return packed
    items, about = [], dict(packed.compressed)
    for item in packed.items:
        tensor = ready(item.tensor, item.name)
        raw = _CODECS[codec].pack(buffer_of(tensor), level) if item.size else b""
        if not item.size or item.name in about or len(raw) >= item.size:
            items.append(item)
            continue
        about[item.name] = {"codec": codec, "dtype": item.code, "shape": list(item.shape)}
        data = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
        items.append(Item(item.name, "U8", [len(raw)], data, len(raw)))
    return packed._replace(items=items, compressed=about, simple=packed.simple and not about)


def too_much(codec: str, stored: int, size: int) -> bool:
    """Whether no codec can compress `size` bytes to `stored` bytes."""
    return size > stored * _CODECS[codec].most


def inflate_tensor(stored: Tensor, place: Extent, codec: str, path: str, name: str) -> Tensor:
    """A tensor from its compressed bytes.

    Raises:
        FileFormatError: for damaged bytes, and if they unpack to more or fewer than the tensor has.
    """
    reserve(prod(place.shape) * place.dtype.itemsize, f"`{name:.80}`, {place.dtype} {[*place.shape]} unpacked,")
    try:
        found = blank(place.dtype, place.shape)
    except RuntimeError as error:  # torch can't allocate it
        raise OSError(12, f"no memory to unpack `{name:.80}`: {error!s:.80}", path) from None
    target = memoryview(buffer_of(found)).cast("B")
    unpacker, done, given = _CODECS[codec].unpacker(), 0, bytes(buffer_of(stored))
    try:
        while not unpacker.eof:
            part = unpacker.decompress(given, min(_STEP, len(target) - done + 1))
            given = unpacker.unconsumed_tail if codec == "deflate" else b""
            if done + len(part) > len(target):
                raise FileFormatError(f"it unpacks to more than {len(target)} bytes", path, place.begin, name)
            target[done : done + len(part)] = part
            done += len(part)
            if not part and not unpacker.eof and (not given if codec == "deflate" else unpacker.needs_input):
                break
    except (zlib.error, lzma.LZMAError, OSError, EOFError) as error:
        raise FileFormatError(f"its {codec} bytes are damaged: {error!s:.80}", path, place.begin, name) from None
    if not unpacker.eof or done != len(target) or unpacker.unused_data:
        what = f"its {codec} bytes unpack to {done} of {len(target)} bytes, or more follow them"
        raise FileFormatError(what, path, place.begin, name)
    return found
