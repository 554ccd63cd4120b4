"""Shape operations of entry nodes, as operations on a tensor of the batch shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor
from torch.overrides import resolve_name
from typing_extensions import Self

from ..._flags import flags
from ...core import batch_dim
from ...errors import ArgumentError, UnsupportedOperationError
from ...ops import Join
from ...ops._index import normalise
from ...ops._join import joined_size

F = TypeVar("F", bound="Follower")


class OneNode(Protocol):
    """How checkers see a method that gives a node."""

    def __get__(self, instance: F, owner: type[F], /) -> Callable[..., F]: ...


class Pieces(Protocol):
    """How checkers see a method that gives several."""

    def __get__(self, instance: F, owner: type[F], /) -> Callable[..., tuple[F, ...]]: ...


def on_batch(name: str, doc: str) -> Any:
    """A method that applies the tensor method of the same name to the tensor of the batch shape."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = getattr(self._stands_for(), name)(*args, **kwargs)
        return (
            tuple([self._with_numbers(one) for one in found]) if isinstance(found, tuple) else self._with_numbers(found)
        )

    method.__name__, method.__doc__ = name, doc
    return method


@flags
class Follower:
    """Shape operations of entry nodes; each is the same operation on a tensor of the batch shape."""

    __slots__ = ()
    _holds_object: ClassVar[bool]
    _instead: ClassVar[str] = "the objects themselves are `.item()` or `.tolist()`"

    @property
    def shape(self) -> torch.Size:
        """The batch shape."""
        raise NotImplementedError

    def _stands_for(self) -> Tensor:
        """A tensor of the batch shape."""
        return torch.zeros((), dtype=torch.int64, device="cpu").expand(self.shape)

    def _with_numbers(self, new: Tensor) -> Self:
        """The node for what an operation made of that tensor."""
        raise NotImplementedError

    # ---- properties ----------------------------------------------------------------------------------------------

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
            raise ArgumentError(f"a {type(self).__name__} without batch dims has no length; {self._instead}")
        return self.shape[0]

    def __getitem__(self, index: Any) -> Self:
        batch = self._stands_for()
        return self._with_numbers(batch[normalise(index, batch.shape)])

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    # ---- shape operations ----------------------------------------------------------------------------------------

    reshape: OneNode = on_batch("reshape", "Another batch shape with the same elements.")
    view: OneNode = on_batch("reshape", "Another batch shape with the same elements.")
    unsqueeze: OneNode = on_batch("unsqueeze", "Insert a batch dim of size one.")
    squeeze: OneNode = on_batch("squeeze", "Drop a batch dim of size one, or all of them.")
    permute: OneNode = on_batch("permute", "Reorder the batch dims.")
    transpose: OneNode = on_batch("transpose", "Swap two batch dims.")
    expand: OneNode = on_batch("expand", "Broadcast to a larger batch shape.")
    repeat: OneNode = on_batch("repeat", "Copy the batch a number of times along each dim.")
    unbind: Pieces = on_batch("unbind", "OneNode node for each position along a batch dim.")
    split: Pieces = on_batch("split", "Cut a batch dim into pieces of a size, or of given sizes.")
    tensor_split: Pieces = on_batch("tensor_split", "Cut a batch dim at given positions, or into nearly equal pieces.")
    chunk: Pieces = on_batch("chunk", "Cut a batch dim into at most a number of equal pieces.")
    expand_as: OneNode = on_batch("expand_as", "Broadcast to the shape of a tensor.")
    broadcast_to: OneNode = on_batch("broadcast_to", "Broadcast to a larger batch shape.")
    swapaxes: OneNode = on_batch("swapaxes", "Swap two batch dims.")
    swapdims: OneNode = on_batch("swapdims", "Swap two batch dims.")
    movedim: OneNode = on_batch("movedim", "Move batch dims to other positions.")
    moveaxis: OneNode = on_batch("moveaxis", "Move batch dims to other positions.")
    unflatten: OneNode = on_batch("unflatten", "Split one batch dim into several.")
    flip: OneNode = on_batch("flip", "Reverse the order along batch dims.")
    fliplr: OneNode = on_batch("fliplr", "Reverse the second batch dim.")
    flipud: OneNode = on_batch("flipud", "Reverse the first batch dim.")
    roll: OneNode = on_batch("roll", "Rotate the elements along batch dims.")
    rot90: OneNode = on_batch("rot90", "Rotate in the plane of two batch dims.")
    tile: OneNode = on_batch("tile", "Repeat the batch; counts are aligned with the last batch dims.")
    repeat_interleave: OneNode = on_batch("repeat_interleave", "Repeat each element along a batch dim.")
    narrow: OneNode = on_batch("narrow", "A slice of given length along a batch dim.")
    gather: OneNode = on_batch("gather", "Pick elements along a batch dim by an index of the result's shape.")
    masked_select: OneNode = on_batch("masked_select", "The elements where a mask of the batch shape is true.")
    contiguous: OneNode = on_batch("contiguous", "The same objects.")

    def flatten(self, start_dim: int | None = None, end_dim: int | None = None, **how: Any) -> Self:
        """Merge a range of batch dims into one; by default all of them."""
        start, end = 0 if start_dim is None else start_dim, -1 if end_dim is None else end_dim
        return self._with_numbers(self._stands_for().flatten(start, end, **how))

    def clone(self, recurse: bool = True) -> Self:
        """A new node around the same objects."""
        return self._with_numbers(self._stands_for().clone())

    # ---- torch functions -----------------------------------------------------------------------------------------

    @classmethod
    def _join_nodes(cls, nodes: Sequence[Any], dim: int, how: Join, key: str) -> Any:
        raise NotImplementedError

    @classmethod
    def _join_many(cls, nodes: Sequence[Any], dim: int, how: Join) -> Any:
        return cls._join_nodes(nodes, dim, how, "")

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Route torch's shape and join functions to the methods of the same name."""
        name = getattr(func, "__name__", str(func))
        if func in _JOINS:
            how = _JOINS[func]
            return cls._join_many(*_join_arguments(how, *args, **(kwargs or {})), how)
        if func not in _METHODS or not isinstance(args[0], Follower):
            name = resolve_name(func) or f"torch.{name}"
            raise UnsupportedOperationError(f"{name} is not defined on a {cls.__name__}; {cls._instead}")
        return getattr(args[0], name)(*args[1:], **(kwargs or {}))


def _join_arguments(how: Join, tensors: Any, dim: int = 0) -> tuple[list[Any], int]:
    """The entries that are joined and the dim; they must be of one kind and fit."""
    if isinstance(tensors, Follower):
        raise ArgumentError(f"{how.op} takes a list of what it joins, got one {type(tensors).__name__}")
    nodes = list(tensors)
    first: Any = nodes[0]
    for position, node in enumerate(nodes):
        if getattr(node, "_holds_object", None) is not getattr(first, "_holds_object", None):
            raise UnsupportedOperationError(
                f"{how.op} joins entries of one kind, got a {type(first).__name__} at position 0 and a "
                f"{type(node).__name__} at position {position}"
            )
    at = batch_dim(dim, first.ndim, op=how.op, extra=how.new_dim)
    joined_size([node.shape for node in nodes], at, how)
    return nodes, at


_CAT = Join("cat", torch.cat, False)
_JOINS: dict[Any, Join] = {
    torch.stack: Join("stack", torch.stack, True),
    torch.cat: _CAT,
    torch.concat: _CAT,
    torch.concatenate: _CAT,
}
_METHODS = frozenset({
    torch.reshape, torch.flatten, torch.unsqueeze, torch.squeeze, torch.permute, torch.transpose, torch.unbind,
    torch.split, torch.clone, torch.tensor_split, torch.chunk, torch.swapaxes, torch.swapdims, torch.movedim,
    torch.moveaxis, torch.unflatten, torch.flip, torch.fliplr, torch.flipud, torch.roll, torch.rot90, torch.tile,
    torch.repeat_interleave, torch.narrow, torch.gather, torch.masked_select, torch.broadcast_to,
})  # fmt: skip
