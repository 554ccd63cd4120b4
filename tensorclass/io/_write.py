"""Writes tensors to one file, in one pass and without copying the payload."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any
from zlib import crc32

from torch import Tensor

from .._system import by_descriptor
from ..errors import UnsupportedOperationError
from . import _format
from ._atomic import Target, opened_file, replacing, reserve
from ._header import alignment_class, encode
from ._map import Extent, mapped
from ._memory import buffer_at, buffer_of
from ._pack import Item, Packed

_HELD = 1 << 20
"""The most bytes of copies (of strided tensors, or from another device) that are held before they are written."""


def write(
    path: str,
    packed: Packed,
    checksums: bool = False,
    sweep: bool = True,
    *,
    through: bool = False,
    zeros: Collection[str] = (),
    settle: Callable[[Target], None] = Target.commit,
    fill: Callable[[list[Tensor]], None] | None = None,
) -> list[Tensor]:
    """Write a packed container to a file, atomically.

    Args:
        path: the file.
        packed: a result of `pack`.
        checksums: write a checksum for each tensor.
        sweep: remove temporary files of dead processes.
        through: map write-through; otherwise writes stay in memory.
        zeros: names of tensors whose values are not written; their space is allocated.
        settle: moves the file to its final name.
        fill: gets the tensors, mapped write-through, before the file is renamed.

    Returns:
        The tensors of `packed.items`, mapped from the new file.

    Raises:
        OSError: if the file can't be written. It names the path, and the old file does not change.
    """
    with replacing(path, sweep, settle) as target:
        order = _reserve_in(target, packed, zeros) if zeros else write_to(target, packed, checksums)
        begin = target.size - sum([item.size for item in order])
        places: dict[str, Extent] = {}
        for item in order:
            places[item.name] = Extent(begin, begin + item.size, item.tensor.dtype, item.tensor.shape)
            begin += item.size
        found = mapped(target.fd, target.size, path, [places[item.name] for item in packed.items], through)
        if fill is not None:
            fill(found)
        if by_descriptor():
            return found
        del found  # Windows renames no mapped file
    with opened_file(path, write=through) as (fd, size):
        return mapped(fd, size, path, [places[item.name] for item in packed.items], through)


def write_to(target: Target, packed: Packed, checksums: bool) -> list[Item]:
    """Write header and payload to an open file; returns the tensors in the order of the payload."""
    items = _order_by_alignment(packed)
    names = [item.name for item in items] if checksums else None
    header = _header(packed, items, names)
    found = _payload(target, header, items, checksums)
    if checksums:
        target.write_at(_header(packed, items, found), 0)
    return items


def _order_by_alignment(packed: Packed) -> list[Item]:
    return sorted(packed.items, key=lambda item: alignment_class(item.size), reverse=True)


def header_of(packed: Packed) -> bytes:
    """The header of a packed container without checksums: equal structures give equal bytes."""
    return _header(packed, _order_by_alignment(packed), None)


def _reserve_in(target: Target, packed: Packed, zeros: Collection[str]) -> list[Item]:
    """Write the header, and the tensors that are not in `zeros`; returns the tensors in the order of the payload."""
    header, items = header_of(packed), _order_by_alignment(packed)
    begin = len(header)
    target.size = begin + sum([item.size for item in items])
    reserve(target.fd, target.size, target.path)
    target.write_at(header, 0)
    for item in items:
        if item.name not in zeros:
            target.write_at(bytes(buffer_of(ready(item.tensor, item.name))), begin)
        begin += item.size
    return items


def _header(packed: Packed, items: Sequence[Item], crc: list[str] | dict[str, str] | None) -> bytes:
    text = _format.dump(packed.classes, packed.root, crc, packed.shard, packed.compressed)
    raw = encode({_format.KEY: text}, [(item.name, item.code, item.shape, item.size) for item in items])
    return _format.seal(raw)


def _payload(target: Target, header: bytes, items: Sequence[Item], checksums: bool) -> dict[str, str]:
    """Write the tensors after the header; returns their checksums."""
    found: dict[str, str] = {}
    waiting: list[Any] = [header]
    alive: list[Tensor] = []
    held = 0
    for item in items:
        checksum = 0
        for given in item.pieces or [item.tensor]:
            tensor = ready(given, item.name)
            if tensor is not given:
                alive.append(tensor)
                held += tensor.nbytes
            if item.size:
                waiting.append(buffer_at(tensor.data_ptr(), tensor.nbytes))
                checksum = crc32(waiting[-1], checksum) if checksums else 0
            if held > _HELD:
                target.write(waiting)
                waiting, alive, held = [], [], 0
        if checksums:
            found[item.name] = f"{checksum:08x}"
    target.write(waiting)
    return found


def ready(tensor: Tensor, name: str) -> Tensor:
    """A tensor in its stored form: on the CPU, contiguous, with conjugation and negation resolved.

    Raises:
        UnsupportedOperationError: for a tensor without memory, such as one inside a function transform.
    """
    try:
        if not tensor.is_cpu:
            tensor = tensor.detach().cpu()
        if tensor.is_neg() or tensor.is_conj():
            tensor = tensor.detach().resolve_conj().resolve_neg()
        if not tensor.is_contiguous():
            tensor = tensor.detach().contiguous()
        tensor.data_ptr()
    except RuntimeError as error:
        raise UnsupportedOperationError(f"save: `{name}` has no values that can be read: {error!s:.200}") from error
    return tensor
