"""All leaves in one block of memory, or all features in one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from .._flags import flags
from ..core import (
    STORAGE,
    Device,
    Key,
    Names,
    Path,
    TensorCollection,
    as_device,
    batch_dim,
    is_typed,
    join_path,
    relock,
    trust_for_loading,
    unravel_key_to_tuple,
)
from ..errors import ArgumentError, BatchSizeError, StructureError, UnsupportedOperationError
from ..ops._one_block import Shape, block_length, block_of, block_views
from .entries._non_tensor import NonTensorOps


@flags
class PackOps(NonTensorOps):
    """`consolidate` and `pack`."""

    __slots__ = ()

    def _in_one_block(
        self, device: Device, non_blocking: bool, inplace: bool, share_memory: bool, pin_memory: bool
    ) -> Self:
        """A locked container of views into one block of memory; see `consolidate`."""
        leaves: list[Tensor] = []
        twin = self._open(leaves, STORAGE)
        target = _one_device(leaves, as_device(device))
        if PackOps._is_block(self) and leaves[0].device == target and not (share_memory or pin_memory):
            return self
        shapes = [(leaf.dtype, leaf.shape) for leaf in leaves]
        block = torch.empty(block_length(shapes), dtype=torch.uint8, device=target, pin_memory=pin_memory)
        if share_memory:
            block.share_memory_()
        views = block_views(block, shapes)
        for view, leaf in zip(views, leaves, strict=True):
            view.copy_(leaf.detach(), non_blocking=non_blocking)
        result = twin._refill(views, self._batch_size, self._names, STORAGE)
        if device is not None:
            result._set_device(target)
        relock(result)
        return self._become(result, lock=True) if inplace else result

    def _is_block(self) -> bool:
        """Whether the leaves are views into one block that `consolidate` made."""
        return block_of(self._leaves(STORAGE)) is not None

    def pack(self, dim: int = -1, *, layout: PackLayout | None = None) -> tuple[Tensor, PackLayout]:
        """Pack all leaves as the columns of one tensor; also returns the layout, which `unpack` needs.

        Args:
            dim: the position of the packed dim in the result.
            layout: pack into the columns of this layout; by default the keys are sorted.

        Raises:
            StructureError: for leaves of several dtypes or devices, for Python objects, and for a structure unlike that
                of `layout`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> flat, layout = TensorDict(p=torch.zeros(5), v=torch.ones(5, 3), batch_size=[5]).pack()
        >>> flat.shape, layout.keys, layout.unpack(flat[:2])["v"].shape
        (torch.Size([5, 4]), ('p', 'v'), torch.Size([2, 3]))
        """
        size = self._batch_size
        dim = batch_dim(dim, len(size), op="pack", extra=1)
        leaves, nested = _leaves_to_pack(self, (), len(size))
        mine = PackLayout(
            tuple(_key(path) for path in sorted(leaves)),
            tuple(leaves[path].shape[len(size) :] for path in sorted(leaves)),
            dim if dim < 0 else dim - len(size) - 1,
            tuple(nested),
            self._device,
            type(self) if is_typed(self) else None,
        )
        if layout is not None:
            layout._require(mine)
            mine = layout
        columns = [leaves[unravel_key_to_tuple(key)].reshape(*size, -1) for key in mine.keys]
        flat = torch.cat(columns, -1) if columns else torch.empty(*size, 0, device=self._device)
        return flat.movedim(-1, mine.dim).contiguous(), mine


@dataclass(frozen=True)
class PackLayout:
    """The columns of each leaf in a packed tensor; hashable, compares by value.

    Args:
        keys: the keys of the leaves in column order.
        shapes: the event shape of each leaf.
        dim: the position of the packed dim, counted from the end.
        nested: key, further batch dims and class (None for a TensorDict) of each nested container.
        device: the device of the packed container.
        cls: its typed class, or None.

    >>> import torch
    >>> from tensorclass import PackLayout
    >>> layout = PackLayout(("a", "b"), ((), (2,)))
    >>> layout.offsets, layout.numel, layout.unpack(torch.zeros(4, 3))["b"].shape
    ((0, 1), 3, torch.Size([4, 2]))
    """

    keys: tuple[Any, ...]
    shapes: tuple[Any, ...]
    dim: int = -1
    nested: tuple[tuple[Any, Any, Any], ...] = ()
    device: torch.device | None = None
    cls: Any = None

    def __post_init__(self) -> None:
        if self.dim >= 0:
            raise ArgumentError(
                f"a PackLayout counts its dim from the end: write a negative number, got dim={self.dim}"
            )
        if len(self.keys) != len(self.shapes):
            raise ArgumentError(
                f"a PackLayout has one shape for each key, got {len(self.keys)} keys, {len(self.shapes)} shapes"
            )
        levels = [(key, torch.Size(further), cls) for key, further, cls in self.nested]
        # Convert lists, since a layout is hashable. The class is frozen, so replace the fields in its `__dict__`.
        vars(self).update(keys=(*self.keys,), shapes=(*map(torch.Size, self.shapes),), nested=(*levels,))

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The first column of each leaf."""
        starts = [0]
        for shape in self.shapes:
            starts.append(starts[-1] + shape.numel())
        return tuple(starts[:-1])

    @cached_property
    def numel(self) -> int:
        """The number of columns."""
        return sum(shape.numel() for shape in self.shapes)

    def unpack(self, flat: Tensor) -> Any:
        """Make the container whose leaves are the columns of a tensor, as views if possible.

        Args:
            flat: a tensor with `numel` entries along `dim`; all other dims are batch dims.

        Raises:
            BatchSizeError: for a wrong number of columns.
        """
        if flat.ndim < -self.dim or flat.shape[self.dim] != self.numel:
            raise BatchSizeError(
                f"unpack takes a tensor with {self.numel} columns along dim {self.dim}, got shape {list(flat.shape)}"
            )
        columns = flat.movedim(self.dim, -1)
        size = columns.shape[:-1]
        result: Any = TensorCollection._dense(batch_size=size, device=self.device)
        for key, extra, _ in sorted(self.nested, key=lambda row: len(unravel_key_to_tuple(row[0]))):
            result.set(key, TensorCollection._dense(batch_size=size + extra, device=self.device))
        parts = columns.split([shape.numel() for shape in self.shapes], -1)
        for key, shape, part in zip(self.keys, self.shapes, parts, strict=True):
            result.set(key, part.unflatten(-1, shape) if shape else part.squeeze(-1))
        for key, _, cls in sorted(self.nested, key=lambda row: -len(unravel_key_to_tuple(row[0]))):
            if cls is not None:
                result.set(key, cls.from_tensordict(result[key]))
        return result if self.cls is None else self.cls.from_tensordict(result)

    def _require(self, other: PackLayout) -> None:
        """Refuse a container with another structure; the error names the difference."""
        mine, theirs = dict(zip(self.keys, self.shapes, strict=True)), dict(zip(other.keys, other.shapes, strict=True))
        for key in [*mine, *theirs]:
            if mine.get(key) != theirs.get(key):
                wanted, given = mine.get(key), theirs.get(key)
                raise StructureError(
                    f"pack: the layout has {_text_of(wanted)} for `{join_path(unravel_key_to_tuple(key))}`, "
                    f"the container has {_text_of(given)}"
                )
        if self.dim != other.dim:
            raise StructureError(f"pack: the layout packs along dim {self.dim}, dim is {other.dim}")


# ---- packing -----------------------------------------------------------------------------------------------------


def _text_of(shape: torch.Size | None) -> str:
    return "no leaf" if shape is None else f"event shape {list(shape)}"


def _key(path: Path) -> Key:
    return path[0] if len(path) == 1 else path


def _leaves_to_pack(
    collection: TensorCollection, prefix: Path, ndim: int
) -> tuple[dict[Path, Tensor], list[tuple[Any, Any, Any]]]:
    """The leaves by path, and a row for each nested container; all of one dtype and device."""
    leaves: dict[Path, Tensor] = {}
    nested: list[tuple[Any, Any, Any]] = []
    for key, value in sorted(collection._entries().items()):
        path = (*prefix, key)
        if isinstance(value, TensorCollection):
            inner, rows = _leaves_to_pack(value, path, ndim)
            nested += [(_key(path), value._batch_size[ndim:], type(value) if is_typed(value) else None), *rows]
            leaves.update(inner)
        elif isinstance(value, Tensor):
            leaves[path] = value
        else:
            raise StructureError(
                f"pack: `{join_path(path)}` is a {type(value).__name__} without batch dims or without numbers; leave "
                "it out with `filter_non_tensor_data()` or `exclude`"
            )
    found = {f"{leaf.dtype} on {leaf.device}" for leaf in leaves.values()}
    if len(found) > 1:
        raise StructureError(f"pack takes leaves of one dtype on one device, got {', '.join(sorted(found))}")
    return leaves, nested


# ---- one block ---------------------------------------------------------------------------------------------------


def _one_device(leaves: Sequence[Tensor], device: torch.device | None) -> torch.device:
    devices = {leaf.device for leaf in leaves}
    for leaf in leaves:
        if leaf.is_nested or leaf.layout is not torch.strided:
            raise UnsupportedOperationError(f"consolidate takes dense leaves, got one of layout {leaf.layout}")
    if device is None and len(devices) > 1:
        raise StructureError(f"consolidate: the leaves live on {sorted(map(str, devices))}; give a device")
    return device or next(iter(devices), torch.device("cpu"))


def detached_structure(collection: Any, leaves: Sequence[Tensor]) -> tuple[Any, list[Shape]]:
    """A container's structure without memory, and what its leaves are."""
    names: Names = collection._names
    blank = [leaf.new_empty(0, device="cpu") for leaf in leaves]
    shapes = [(leaf.dtype, leaf.shape) for leaf in leaves]
    return collection._make(blank, collection._batch_size, names, STORAGE), shapes


@trust_for_loading
def restore(shell: Any, block: Tensor, shapes: Sequence[Shape]) -> Any:
    """A container around the leaves of a block."""
    return shell._make(block_views(block, shapes), shell._batch_size, shell._names, STORAGE)
