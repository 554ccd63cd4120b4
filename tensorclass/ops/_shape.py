"""Shape operations on batch dims. They never change event dims; the result is always a new container."""

# Operations call each other through the class: pyright infers the mixin as their result, mypy infers Self.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from typing_extensions import Self

from .._flags import flag, flags
from ..core import BATCHED, LARGEST, VALUES, VIEWS, Names, Sizes, as_batch_size, as_int, as_ints, as_items, infer_shape
from ..errors import ArgumentError, BatchDimError, BatchSizeError
from ._inplace import InplaceOps
from ._lengths import in_memory
from ._mapping import MappingOps
from ._undo import FLIPPED, PERMUTED, RESHAPED, ROLLED, VIEWED

Dims: TypeAlias = "int | str | Sequence[int] | Sequence[str] | Sequence[int | str]"


@flags
class ShapeOps(InplaceOps):
    """`view`, `permute`, `expand`, ... on batch dims."""

    __slots__ = ()

    def _like_torch(self, fn: Callable[[Tensor], Tensor], names: Names = None) -> Self:
        """A twin whose batch size is the shape that `fn` returns for a tensor of the batch shape."""
        dims = len(self._batch_size)
        leaves: list[Tensor] = []
        twin = self._open(leaves)
        if not leaves:
            return twin._refill(
                [], fn(torch.empty((*self._batch_size, 0)).expand(*self._batch_size, 0)).shape[:-1], names
            )
        new = [fn(leaf) for leaf in leaves]
        return twin._refill(new, new[0].shape[: new[0].ndim - leaves[0].ndim + dims], names)

    # ---- the same elements in another shape ----------------------------------------------------------------------

    @RESHAPED
    def reshape(self, *shape: Sizes, size: Sizes | None = None, inplace: bool = False) -> Self:
        """Reshape the batch dims, as views where possible.

        Args:
            *shape: the new batch size, as ints or one sequence; one entry may be -1.
            size: the new batch size by keyword.
            inplace: change this container instead of making a new one.

        Raises:
            BatchSizeError: if the numbers of elements differ.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2, 3, 4), batch_size=[2, 3]).reshape(-1)["a"].shape
        torch.Size([6, 4])
        """
        if inplace is not False:
            flag(inplace=inplace)
        own = self._batch_size
        new = infer_shape(given_sizes(shape if size is None else one_of(shape, size)), own.numel(), op="reshape")
        if inplace:
            return self._become(ShapeOps.reshape(self, new))
        if new == own:
            return self._twin()
        leaves: list[Tensor] = []
        twin = self._open(leaves)
        return twin._refill([*map(torch.reshape, leaves, targets(leaves, new, len(own)))], new)

    @VIEWED
    def view(
        self, *shape: Sizes | torch.dtype, size: Sequence[int] | None = None, batch_size: Sequence[int] | None = None
    ) -> Self:
        """View the same memory in another batch shape, or as another dtype.

        Args:
            *shape: the new batch size, as ints or one sequence; or one torch dtype.
            size: the new batch size by keyword.
            batch_size: the expected batch size of the result, checked for a new shape; ignored with a dtype.

        Raises:
            BatchSizeError: if the numbers of elements differ.
            RuntimeError: from torch, if the memory layout of a leaf allows no view; `reshape` copies instead.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2, 3, 4), batch_size=[2, 3]).view(3, 2)["a"].shape
        torch.Size([3, 2, 4])
        """
        leaves: list[Tensor] = []
        if len(shape) == 1 and isinstance(shape[0], torch.dtype):
            twin = self._open(leaves, VALUES)
            new = [leaf.view(shape[0]) for leaf in in_memory(twin, leaves)]
            twin._accept(leaves, new, "view")
            return twin._refill(new, self._batch_size, self._names, VIEWS)
        if shape == (-1,) and len(self._batch_size) == 1 and size is batch_size is None:
            return self._twin()
        target = infer_shape(given_sizes(shape) if size is None else size, self._batch_size.numel(), op="view")
        if batch_size is not None and as_batch_size(batch_size) != target:
            raise BatchSizeError(f"view: batch_size {list(batch_size)} is not the shape {list(target)}")
        if target == self._batch_size:
            return self._twin()
        dims = len(self._batch_size)
        twin = self._open(leaves)
        viewed = [leaf.view(shape) for leaf, shape in zip(leaves, targets(leaves, target, dims), strict=True)]
        return twin._refill(viewed, target)

    @RESHAPED
    def flatten(
        self, start_dim: int | str | None = None, end_dim: int | str | None = None, *, inplace: bool = False
    ) -> Self:
        """Merge a range of batch dims into one.

        Args:
            start_dim: the first dim; by default 0.
            end_dim: the last dim, inclusive; by default the last batch dim.
            inplace: change this container instead of making a new one.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2, 3, 4), batch_size=[2, 3]).flatten(0, 1).batch_size
        torch.Size([6])
        """
        size = self._batch_size
        if not size:
            for dim in (start_dim, end_dim):  # as for a 0-d tensor
                self._dim(0 if dim is None else dim, "flatten", extra=1)
            result = ShapeOps.unsqueeze(self, 0)
            return self._become(result) if inplace else result
        first = self._dim(0 if start_dim is None else start_dim, "flatten")
        last = self._dim(-1 if end_dim is None else end_dim, "flatten")
        if last < first:
            raise BatchDimError(f"flatten: the start dim {first} lies behind the end dim {last}")
        merged = torch.Size([size[first : last + 1].numel()])
        names = self._names and (
            *self._names[:first],
            *_merged_name(self._names[first : last + 1]),
            *self._names[last + 1 :],
        )
        new = torch.Size((*size[:first], *merged, *size[last + 1 :]))
        result = self._each(lambda leaf: torch.flatten(leaf, first, last), new, _or_none(names))
        return self._become(result) if inplace else result

    @RESHAPED
    def unflatten(self, dim: int | str, unflattened_size: Sequence[int], *, inplace: bool = False) -> Self:
        """Split one batch dim into several.

        Args:
            dim: the batch dim.
            unflattened_size: the new sizes; one of them may be -1.
            inplace: change this container instead of making a new one.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(6, 4), batch_size=[6]).unflatten(0, (2, -1)).batch_size
        torch.Size([2, 3])
        """
        at = self._dim(dim, "unflatten")
        size = self._batch_size
        parts = infer_shape(as_ints(unflattened_size, "a shape"), size[at], op="unflatten")
        new = torch.Size((*size[:at], *parts, *size[at + 1 :]))
        names = self._names and (*self._names[:at], *[None] * len(parts), *self._names[at + 1 :])
        dims = len(size)
        result = self._each(lambda leaf: torch.reshape(leaf, new + leaf.shape[dims:]), new, _or_none(names))
        return self._become(result) if inplace else result

    @RESHAPED
    def unsqueeze(self, dim: int) -> Self:
        """Insert a batch dim of size one.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2, 4), batch_size=[2]).unsqueeze(-1)["a"].shape
        torch.Size([2, 1, 4])
        """
        at = self._dim(dim, "unsqueeze", extra=1)
        size = self._batch_size
        names = self._names and (*self._names[:at], None, *self._names[at:])
        sizes = tuple(size)
        return self._each(torch.unsqueeze, torch.Size((*sizes[:at], 1, *sizes[at:])), names, BATCHED, at)

    @RESHAPED
    def squeeze(self, dim: int | str | None = None) -> Self:
        """Remove a batch dim of size one, or all of them; a dim of another size is kept.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2, 1, 4), batch_size=[2, 1]).squeeze()["a"].shape
        torch.Size([2, 4])
        """
        size = self._batch_size
        dims = range(len(size)) if dim is None else (self._dim(dim, "squeeze"),)
        drop = tuple([d for d in dims if size[d] == 1])
        if not drop:
            return self._twin()
        keep = [d for d in range(len(size)) if d not in drop]
        names = self._names and tuple(self._names[d] for d in keep)
        return self._each(torch.squeeze, torch.Size([size[d] for d in keep]), _or_none(names), BATCHED, drop)

    # ---- order of the dims ---------------------------------------------------------------------------------------

    @PERMUTED
    def permute(self, *order: Dims, dims: Sequence[int | str] | None = None) -> Self:
        """Reorder the batch dims.

        Args:
            *order: every batch dim once, as ints, names or one sequence.
            dims: the same sequence by name.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2, 3, 4), batch_size=[2, 3]).permute(1, 0)["a"].shape
        torch.Size([3, 2, 4])
        """
        given: Any = order if dims is None else one_of(order, dims, "dims")
        if len(given) == 1 and not isinstance(given[0], (int, str)):
            given = as_items(given[0], "permute", "dims")
        size = self._batch_size
        ndim = len(size)
        full = tuple([self._dim(dim, "permute") for dim in given])
        if len(full) != ndim or len(set(full)) != ndim:
            raise BatchDimError(f"permute takes each of the {ndim} batch dims once, got {list(given)}")
        if full == tuple(range(ndim)):
            return self._twin()
        batch = full
        names = self._names and tuple(self._names[d] for d in batch)

        def permuted(leaf: Tensor) -> Tensor:
            nonlocal full
            if leaf.ndim != len(full):
                full = (*batch, *range(ndim, leaf.ndim))
            return torch.permute(leaf, full)

        return self._each(permuted, torch.Size([size[d] for d in batch]), names)

    @PERMUTED
    def transpose(self, dim0: int | str, dim1: int | str) -> Self:
        """Swap two batch dims.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2, 3, 4), batch_size=[2, 3]).transpose(0, 1).batch_size
        torch.Size([3, 2])
        """
        a, b = self._dim(dim0, "transpose"), self._dim(dim1, "transpose")
        if a == b:
            return self._twin()
        order = list(range(len(self._batch_size)))
        order[a], order[b] = b, a
        new = torch.Size([self._batch_size[d] for d in order])
        names = self._names and tuple(self._names[d] for d in order)
        return self._each(lambda leaf: torch.transpose(leaf, a, b), new, names)

    @PERMUTED
    def swapaxes(self, axis0: int | str, axis1: int | str) -> Self:
        """Swap two batch dims; an alias of `transpose`."""
        return ShapeOps.transpose(self, axis0, axis1)

    @PERMUTED
    def swapdims(self, axis0: int | str, axis1: int | str) -> Self:
        """Swap two batch dims; an alias of `transpose`."""
        return ShapeOps.transpose(self, axis0, axis1)

    @PERMUTED
    def movedim(self, source: Dims, destination: Dims) -> Self:
        """Move batch dims to other positions; the others keep their order.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2, 3, 5, 4), batch_size=[2, 3, 5]).movedim(0, -1).batch_size
        torch.Size([3, 5, 2])
        """
        ndim = len(self._batch_size)
        sources, targets = self._dims(source, "movedim"), self._dims(destination, "movedim")
        if len(sources) != len(targets):
            raise BatchDimError(f"movedim takes as many destinations as sources, got {source} and {destination}")
        order: list[int | None] = [None] * ndim
        for origin, target in zip(sources, targets, strict=True):
            order[target] = origin
        rest = iter(d for d in range(ndim) if d not in sources)
        return ShapeOps.permute(self, [next(rest) if d is None else d for d in order])

    @PERMUTED
    def moveaxis(self, source: Dims, destination: Dims) -> Self:
        """Move batch dims; an alias of `movedim`."""
        return ShapeOps.movedim(self, source, destination)

    @FLIPPED
    def flip(self, dims: Dims) -> Self:
        """Reverse the order along batch dims.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(3), batch_size=[3]).flip(0)["a"]
        tensor([2, 1, 0])
        """
        where = self._dims(dims, "flip")
        return self._each(torch.flip, self._batch_size, self._names, BATCHED, where)

    @FLIPPED
    def fliplr(self) -> Self:
        """Reverse the second batch dim; see `flip`."""
        return ShapeOps.flip(self, self._dim(1, "fliplr"))

    @FLIPPED
    def flipud(self) -> Self:
        """Reverse the first batch dim; see `flip`."""
        return ShapeOps.flip(self, self._dim(0, "flipud"))

    @ROLLED
    def roll(self, shifts: int | tuple[int, ...], dims: Dims | None = None, *, inplace: bool = False) -> Self:
        """Roll the elements along batch dims; by default over the flattened batch.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(3), batch_size=[3]).roll(1, 0)["a"]
        tensor([2, 0, 1])
        """
        size = self._batch_size
        if dims is None:
            flat = ShapeOps.roll(ShapeOps.reshape(self, -1), shifts, 0)
            result = ShapeOps.reshape(flat, size)
            result._set_names(self._names)
        else:
            where = self._dims(dims, "roll")
            shifts = as_int(shifts)
            amounts = (shifts,) if isinstance(shifts, int) else as_items(shifts, "roll", "a shift for each dim")
            if len(amounts) != len(where):
                raise BatchDimError(f"roll takes one shift for each dim, got {shifts} for dims {dims}")
            dense = self._solid()  # a snapshot of a stack, to which other threads may add members
            result = dense._each(lambda leaf: leaf.roll(amounts, where), dense._batch_size, dense._names)
        return self._become(result) if inplace else result

    def rot90(self, k: int = 1, dims: Dims = (0, 1)) -> Self:
        """Rotate by 90 degrees, k times, in the plane of two batch dims.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.tensor([[1, 2], [3, 4]]), batch_size=[2, 2]).rot90()["a"]
        tensor([[2, 4],
                [1, 3]])
        """
        plane = self._dims(dims, "rot90")
        if len(plane) != 2:
            raise BatchDimError(f"rot90 takes two batch dims, got {dims}")
        names = self._names
        if names is not None and k % 2:
            turned = {plane[0]: names[plane[1]], plane[1]: names[plane[0]]}
            names = tuple(turned.get(dim, name) for dim, name in enumerate(names))
        return self._solid()._like_torch(lambda leaf: torch.rot90(leaf, k, plane), names)  # type: ignore[no-any-return]  # of this class

    # ---- expand and repeat ---------------------------------------------------------------------------------------

    def expand(self, *shape: Sizes) -> Self:
        """Broadcast to a larger batch size without copying; -1 keeps a dim.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(1, 4), batch_size=[1]).expand(3)["a"].shape
        torch.Size([3, 4])
        """
        store: Any = self._store if self._layered else self  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # whose slots are read faster
        if store._stacked:
            return self._run_on_stack("expand", *shape)  # type: ignore[no-any-return]  # a stack of this class
        size = store._batch_size
        new = grown_size(given_sizes(shape), size)
        dims = len(size)
        names = store._names and ((None,) * (len(new) - dims) + store._names)
        leaves: list[Tensor] = []
        twin = store._open(leaves)
        result = twin._refill([*map(torch.broadcast_to, leaves, targets(leaves, new, dims))], new, names)
        return result if store is self else self._wrap(result)  # type: ignore[attr-defined,no-any-return]  # pyright: ignore[reportAttributeAccessIssue]  # as above

    def broadcast_to(self, shape: Sequence[int]) -> Self:
        """Broadcast to a larger batch size; an alias of `expand`."""
        return ShapeOps.expand(self, shape)

    def repeat(self, *repeats: Sizes, inplace: bool = False) -> Self:
        """Repeat the batch along each batch dim, as copies.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(2), batch_size=[2]).repeat(2)["a"]
        tensor([0, 1, 0, 1])
        """
        counts = given_sizes(repeats)
        dense = self._solid()
        size = dense._batch_size
        if len(counts) != len(size):
            raise BatchDimError(f"repeat takes one count for each of the {len(size)} batch dims, got {counts}")
        if any([type(n) is int and n < 0 for n in counts]):
            raise BatchSizeError(f"repeat takes counts of zero or more, got {counts}")
        new = torch.Size([n * c for n, c in zip(size, counts, strict=True)])
        dims = len(size)
        result = dense._each(lambda leaf: leaf.repeat(*counts, *[1] * (leaf.ndim - dims)), new, dense._names)
        return self._become(result) if inplace else result

    def repeat_interleave(
        self,
        repeats: Tensor | int,
        dim: int | str | None = None,
        *,
        output_size: int | None = None,
        inplace: bool = False,
    ) -> Self:
        """Repeat each element along a batch dim; by default over the flattened batch.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(2), batch_size=[2]).repeat_interleave(2, dim=0)["a"]
        tensor([0, 0, 1, 1])
        """
        source = self._solid() if dim is not None else ShapeOps.reshape(self._solid(), -1)
        at = source._dim(0 if dim is None else dim, "repeat_interleave")
        result = source._like_torch(
            lambda leaf: leaf.repeat_interleave(repeats, at, output_size=output_size), source._names
        )
        return self._become(result) if inplace else result

    def tile(self, dims: Sequence[int] | int) -> Self:
        """Repeat the batch; counts are aligned with the last batch dims, and missing counts are 1.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(2), batch_size=[2]).tile((2,))["a"]
        tensor([0, 1, 0, 1])
        """
        counts = as_ints(dims, "a number of repeats")
        source = self
        while len(counts) > len(source._batch_size):
            source = ShapeOps.unsqueeze(source, 0)
        return ShapeOps.repeat(source, *[1] * (len(source._batch_size) - len(counts)), *counts)

    def narrow(self, dim: int | str, start: int, length: int) -> Self:
        """Select a slice of a given length along a batch dim, as views.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(5), batch_size=[5]).narrow(0, 1, 2)["a"]
        tensor([1, 2])
        """
        at = self._dim(dim, "narrow")
        size, start, length = self._batch_size, as_int(start), as_int(length)
        first = start + size[at] if start < 0 else start
        if not 0 <= first <= first + length <= size[at] or length < 0:
            raise BatchDimError(f"narrow: start {start} and length {length} exceed batch dim {at} of size {size[at]}")
        new = torch.Size((*size[:at], length, *size[at + 1 :]))
        return self._each(lambda leaf: torch.narrow(leaf, at, first, length), new, self._names)

    def contiguous(self, *, canonical: bool = False, inplace: bool = False) -> Self:
        """Make all leaves contiguous; contiguous leaves are not copied.

        Args:
            canonical: copy leaves whose strides are not canonical.
            inplace: change this container instead of making a new one.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2, 3).t(), batch_size=[3, 2])
        >>> data["a"].is_contiguous(), data.contiguous()["a"].is_contiguous()
        (False, True)
        """

        def fix(leaf: Tensor) -> Tensor:
            if canonical and leaf.stride() != torch.empty(leaf.shape, device="meta").stride():
                return leaf.clone(memory_format=torch.contiguous_format)
            return leaf.contiguous()

        result = self._solid()._each(fix, self._batch_size, self._names)
        return self._become(result) if inplace else result

    def is_contiguous(self) -> bool:
        """Whether every leaf is contiguous.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2, 3), batch_size=[2, 3])
        >>> data.is_contiguous(), data.transpose(0, 1).is_contiguous()
        (True, False)
        """
        return all(leaf.is_contiguous() for leaf in self._leaves())

    def _at_least(self, ndim: int) -> Self:
        result = MappingOps.copy(self)
        while len(result._batch_size) < ndim:
            result = ShapeOps.unsqueeze(result, 0)
        return result

    @RESHAPED
    def atleast_1d(self) -> Self:
        """Add batch dims, if needed, to have at least one; new dims come first.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3), batch_size=[]).atleast_1d()["a"].shape
        torch.Size([1, 3])
        """
        return self._at_least(1)

    @RESHAPED
    def atleast_2d(self) -> Self:
        """Add batch dims, if needed, to have at least two; see `atleast_1d`."""
        return self._at_least(2)

    @RESHAPED
    def atleast_3d(self) -> Self:
        """Add batch dims, if needed, to have at least three; see `atleast_1d`."""
        return self._at_least(3)


def targets(leaves: Sequence[Tensor], size: torch.Size, dims: int) -> list[tuple[int, ...]]:
    """The full shape of each leaf for a new batch size; leaves of equal shape share one target."""
    head = tuple(size)
    found: list[tuple[int, ...]] = []
    last: tuple[int, ...] | None = None
    target = head
    for leaf in leaves:
        shape = leaf.shape
        if shape != last:
            last, target = shape, head + tuple(shape)[dims:]
        found.append(target)
    return found


def one_of(shape: tuple[Any, ...], size: Any, name: str = "size") -> tuple[Any, ...]:
    """The shape, or the dims, from the keyword `name`, if none is given by position."""
    if shape:
        what = "shape" if name == "size" else name
        raise ArgumentError(f"give the {what} by position or as `{name}`, not both, got {list(shape)} and {size!r:.80}")
    return (size,)


def given_sizes(shape: tuple[Any, ...]) -> list[int]:
    """Sizes given as separate ints or as one sequence."""
    given = shape[0] if len(shape) == 1 and type(shape[0]) is not int else shape
    if (
        type(given) in (tuple, list, torch.Size)
        and all([type(n) is int for n in given])
        and (is_dynamo_compiling() or 0 < abs(prod(given)) <= LARGEST)
    ):
        return list(given)
    return as_ints(given, "a shape")


def grown_size(shape: list[int], size: torch.Size) -> torch.Size:
    front = len(shape) - len(size)
    new = [size[i - front] if n == -1 and i >= front else n for i, n in enumerate(shape)]
    kept = front >= 0 and all([n == 1 or n == m for n, m in zip(size, new[front:], strict=True)])
    if not kept or any([n < 0 for n in new]):
        raise BatchSizeError(
            f"expand: batch size {list(size)} does not expand to {shape}; sizes are aligned from the last batch dim, "
            "and only a dim of size one grows"
        )
    return torch.Size(new)


def _merged_name(names: Sequence[str | None]) -> tuple[str | None]:
    """The name of merged dims: that of a single dim that was merged with no other, else None."""
    return (names[0],) if len(names) == 1 else (None,)


def _or_none(names: Names) -> Names:
    return names if names and any(name is not None for name in names) else None
