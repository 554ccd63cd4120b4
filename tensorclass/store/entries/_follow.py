"""What follows the batch without being a container: the shape operations of a tensor of the batch shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from ..._flags import flags
from ...errors import ArgumentError, BatchSizeError, UnsupportedOperationError


def on_batch(name: str, doc: str) -> Callable[..., Any]:
    """A method that is the tensor's method of the same name, on the tensor that stands for the batch."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._through(lambda batch: getattr(batch, name)(*args, **kwargs))

    method.__name__, method.__doc__ = name, doc
    return method


@flags
class Follower:
    """Shape operations of entry nodes, each the same operation on a tensor that stands for the batch."""

    __slots__ = ()

    @property
    def shape(self) -> torch.Size:
        """The batch shape."""
        raise NotImplementedError

    def _through(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """The node after an operation on the batch."""
        raise NotImplementedError

    def _pieces(self, fn: Callable[[Tensor], Sequence[Tensor]], tensor: Tensor) -> tuple[Self, ...]:
        count = len(fn(tensor))
        return tuple(self._through(lambda index, i=i: fn(index)[i]) for i in range(count))  # type: ignore[misc]  # mypy can't type the default

    def _stands_for(self) -> Tensor:
        return torch.zeros((), dtype=torch.int64, device="cpu").expand(self.shape)

    # ---- what it is ----------------------------------------------------------------------------------------------

    @property
    def batch_size(self) -> torch.Size:
        """The batch shape, under the name that containers use."""
        return self.shape

    @property
    def batch_dims(self) -> int:
        """The number of batch dims."""
        return len(self.shape)

    @property
    def ndim(self) -> int:
        """The number of batch dims."""
        return len(self.shape)

    def dim(self) -> int:
        """The number of batch dims."""
        return len(self.shape)

    def numel(self) -> int:
        """The number of elements."""
        return self.shape.numel()

    def size(self, dim: int | None = None) -> Any:
        """The batch shape, or its entry at one dim."""
        return self.shape if dim is None else self.shape[dim]

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentError(f"a {type(self).__name__} without batch dims has no length; read it with `.data`")
        return self.shape[0]

    def __getitem__(self, index: Any) -> Self:
        return self._through(lambda batch: batch[index])

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    # ---- shape operations ----------------------------------------------------------------------------------------

    def reshape(self, *shape: Any) -> Self:
        """Another batch shape with the same elements."""
        return self._through(lambda batch: batch.reshape(*shape))

    def view(self, *shape: Any) -> Self:
        """Another batch shape with the same elements."""
        return self._through(lambda batch: batch.reshape(*shape))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Merge a range of batch dims into one."""
        return self._through(lambda batch: batch.flatten(start_dim, end_dim))

    def unsqueeze(self, dim: int) -> Self:
        """Insert a batch dim of size one."""
        return self._through(lambda batch: batch.unsqueeze(dim))

    def squeeze(self, dim: int | None = None) -> Self:
        """Drop a batch dim of size one, or all of them."""
        return self._through(lambda batch: batch.squeeze() if dim is None else batch.squeeze(dim))

    def permute(self, *dims: Any) -> Self:
        """Reorder the batch dims."""
        return self._through(lambda batch: batch.permute(*dims))

    def transpose(self, dim0: int, dim1: int) -> Self:
        """Swap two batch dims."""
        return self._through(lambda batch: batch.transpose(dim0, dim1))

    def expand(self, *shape: Any) -> Self:
        """Broadcast to a larger batch shape."""
        return self._through(lambda batch: batch.expand(*shape))

    def repeat(self, *repeats: int) -> Self:
        """Copy the batch a number of times along each dim."""
        return self._through(lambda batch: batch.repeat(*repeats))

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """One node for each position along a batch dim."""
        return self._pieces(lambda batch: batch.unbind(dim), self._stands_for())

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Cut a batch dim into pieces of a size, or of given sizes."""
        sizes = split_size if isinstance(split_size, int) else list(split_size)
        return self._pieces(lambda batch: batch.split(sizes, dim), self._stands_for())

    def tensor_split(self, indices_or_sections: Any, dim: int = 0) -> tuple[Self, ...]:
        """Cut a batch dim at given positions, or into a number of nearly equal pieces."""
        return self._pieces(lambda batch: batch.tensor_split(indices_or_sections, dim), self._stands_for())

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """Cut a batch dim into at most a number of equal pieces."""
        return self._pieces(lambda batch: batch.chunk(chunks, dim), self._stands_for())

    expand_as = on_batch("expand_as", "Broadcast to the shape of a tensor.")
    broadcast_to = on_batch("broadcast_to", "Broadcast to a larger batch shape.")
    swapaxes = on_batch("swapaxes", "Swap two batch dims.")
    swapdims = on_batch("swapdims", "Swap two batch dims.")
    movedim = on_batch("movedim", "Move batch dims to other positions.")
    moveaxis = on_batch("moveaxis", "Move batch dims to other positions.")
    unflatten = on_batch("unflatten", "Split one batch dim into several.")
    flip = on_batch("flip", "Reverse the order along batch dims.")
    fliplr = on_batch("fliplr", "Reverse the second batch dim.")
    flipud = on_batch("flipud", "Reverse the first batch dim.")
    roll = on_batch("roll", "Rotate the elements along batch dims.")
    rot90 = on_batch("rot90", "Rotate in the plane of two batch dims.")
    tile = on_batch("tile", "Repeat the batch; counts are aligned with the last batch dims.")
    repeat_interleave = on_batch("repeat_interleave", "Repeat each element along a batch dim.")
    narrow = on_batch("narrow", "A slice of given length along a batch dim.")
    gather = on_batch("gather", "Pick elements along a batch dim by an index of the result's shape.")
    masked_select = on_batch("masked_select", "The elements where a mask of the batch shape is true.")
    contiguous = on_batch("contiguous", "The same objects.")

    def clone(self, recurse: bool = True) -> Self:
        """A new node around the same objects."""
        return self._through(lambda batch: batch.clone())

    # ---- torch functions -----------------------------------------------------------------------------------------

    @classmethod
    def _join_many(cls, nodes: Sequence[Any], dim: int, op: str) -> Any:
        raise NotImplementedError

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Route torch's shape and join functions to the methods of the same name."""
        name = getattr(func, "__name__", str(func))
        if func in (torch.stack, torch.cat):
            return cls._join_many(*_join_arguments(name, *args, **(kwargs or {})), name)
        if func not in _METHODS or not isinstance(args[0], Follower):
            raise UnsupportedOperationError(
                f"torch.{name} is not defined on Python objects; take them out with `tolist()`"
            )
        return getattr(args[0], name)(*args[1:], **(kwargs or {}))


def _join_arguments(op: str, tensors: Any, dim: int = 0) -> tuple[list[Any], int]:
    nodes = list(tensors)
    for position, node in enumerate(nodes):
        if not isinstance(node, Follower):
            raise UnsupportedOperationError(
                f"{op} joins stacks of objects with their like, got a {type(node).__name__} at position {position}"
            )
        if node.ndim != nodes[0].ndim or (op == "stack" and node.shape != nodes[0].shape):
            raise BatchSizeError(f"{op}: batch shapes {list(nodes[0].shape)} and {list(node.shape)} do not join")
    return nodes, dim


_METHODS = frozenset({
    torch.reshape, torch.flatten, torch.unsqueeze, torch.squeeze, torch.permute, torch.transpose, torch.unbind,
    torch.split, torch.clone, torch.tensor_split, torch.chunk, torch.swapaxes, torch.swapdims, torch.movedim,
    torch.moveaxis, torch.unflatten, torch.flip, torch.fliplr, torch.flipud, torch.roll, torch.rot90, torch.tile,
    torch.repeat_interleave, torch.narrow, torch.gather, torch.masked_select, torch.broadcast_to,
})  # fmt: skip
