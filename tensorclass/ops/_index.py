"""Indexing: a normal form of all indices of torch, checked against the batch dims and applied to each leaf."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from operator import getitem, methodcaller
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from typing_extensions import Self

from .._deferred import any_dtensor
from .._flags import flags
from ..core import BATCHED, Names, TensorCollection, batch_shape, described, over_events, unravel_key_to_tuple
from ..errors import BatchIndexError, UnsupportedOperationError
from ._distributed import index_dtensors, refuse_distributed
from ._mapping import MappingOps
from ._names import NameOps
from ._reading import UNSET

Index: TypeAlias = Any


def normalise(index: Index, size: torch.Size) -> tuple[Any, ...]:
    """Normalize an index to a tuple of parts over the batch dims: `...` is expanded, lists and arrays become tensors.

    Raises:
        BatchIndexError: for more indices than batch dims, a second `...`, or an invalid part.
        UnsupportedOperationError: for an index into a container without batch dims.
    """
    given = index if isinstance(index, tuple) else (index,)
    if len(given) <= len(size) and all([type(part) is int or type(part) is slice for part in given]):
        _check_bounds(given, size, index)
        return given
    parts = [_part(part) for part in given]
    used = sum([_dims_consumed(part) for part in parts])
    dots = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(dots) > 1:
        raise BatchIndexError(f"an index has at most one `...`, got {len(dots)} in {index!r}")
    if used and not size:  # not an IndexError, which would silently end a loop over the container
        raise UnsupportedOperationError(
            f"index {reprlib.repr(index)} into a container without batch dims (batch_size []); index a field to reach "
            "its own dims, or give `batch_size=` to index the container"
        )
    if used > len(size):
        raise BatchIndexError(
            f"index {index!r} has {used} indices but the container has {len(size)} batch dims (batch_size "
            f"{list(size)}); index a field to reach its own dims, or `along(name)` for those that a class names"
        )
    if dots:
        parts[dots[0] : dots[0] + 1] = [slice(None)] * (len(size) - used)
    _check_bounds(parts, size, index)
    return tuple(parts)


def _part(part: Any) -> Any:
    """One part of an index as an int, a slice or a tensor."""
    if isinstance(part, (list, np.ndarray, range)):
        return _index_sequence(part)
    if isinstance(part, Tensor):
        return _index_tensor(part, part)
    if isinstance(part, (np.integer, np.bool_)):
        return part.item()
    if isinstance(part, (int, slice, torch.SymInt, None.__class__)) or part is Ellipsis:
        return part
    raise BatchIndexError(
        f"an index is made of ints, slices, `...`, None, bool masks, int tensors, lists or ranges; got {part!r} of "
        f"type {type(part).__name__}"
    )


def _index_sequence(part: list[Any] | np.ndarray[Any, Any] | range) -> Tensor:
    """Convert a sequence to an index tensor, on the CPU, since leaves on any device accept that."""
    try:
        tensor = torch.as_tensor(list(part) if isinstance(part, range) else part, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        raise BatchIndexError(
            f"a sequence as an index holds ints or bools, got {reprlib.repr(part)} ({error}); `batch.select(*keys)` "
            "takes several keys"
        ) from error
    if tensor.numel() == 0 or (isinstance(part, np.ndarray) and part.dtype.kind in "iu"):
        return tensor if tensor.dtype is torch.bool else tensor.long()  # torch treats uint8 as a mask, numpy as ints
    return _index_tensor(tensor, reprlib.repr(part))


def _index_tensor(tensor: Tensor, given: Any) -> Tensor:
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        raise BatchIndexError(f"an index tensor holds ints or bools, got dtype {tensor.dtype} in {given}")
    return tensor


def _dims_consumed(part: Any) -> int:
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    if isinstance(part, Tensor) and part.dtype is torch.bool:
        return part.ndim
    return 1


def _check_bounds(parts: Sequence[Any], size: torch.Size, index: Any) -> None:
    """Refuse masks of another shape and integers outside their dim."""
    dim = 0
    for part in parts:
        if type(part) is slice or (type(part) is int and -size[dim] <= part < size[dim]):
            dim += 1
            continue
        if isinstance(part, Tensor) and part.dtype is torch.bool:
            if part.shape != size[dim : dim + part.ndim]:
                raise BatchIndexError(
                    f"a bool mask has the shape of the batch dims it selects from: expected "
                    f"{list(size[dim : dim + part.ndim])}, got {list(part.shape)}"
                )
        elif isinstance(part, int) and not isinstance(part, bool) and not -size[dim] <= part < size[dim]:
            within = "" if part is index else f" in {index!r}"
            raise BatchIndexError(f"index {part} is out of range for batch dim {dim} of size {size[dim]}{within}")
        dim += _dims_consumed(part)


def indexed_size(parts: tuple[Any, ...], size: torch.Size, leaf: Tensor | None, result: Tensor | None) -> torch.Size:
    """The batch size after an index, from the result of a leaf, or of an empty tensor if there is no leaf."""
    if leaf is None or result is None:
        return (
            torch.zeros(()).expand(size)[parts].shape
        )  # as many elements as the batch: torch checks no bounds of none
    shape = result.shape
    return shape[: len(shape) - leaf.ndim + len(size)]


def indexed_names(parts: tuple[Any, ...], names: Names, ndim: int) -> Names:
    """Dim names after an index: a slice keeps the name, an int drops it, a list or mask along one dim keeps it.

    Tensors that index several dims, or that have several dims, make unnamed dims: at their position if they are
    adjacent, else in front, as torch places the dims.
    """
    if names is None:
        return None
    ints = [i for i, part in enumerate(parts) if _selects(part)]
    advanced = [i for i, p in enumerate(parts) if (isinstance(p, Tensor) or type(p) is bool) and i not in ints]
    kept: list[str | None] = []
    dim = place = 0
    for i, part in enumerate(parts):
        if advanced and i == advanced[0]:
            place = len(kept)
        if part is None:
            kept.append(None)
        elif isinstance(part, slice):
            kept.append(names[dim])
        dim += _dims_consumed(part)
    kept += names[dim:]
    if advanced:
        seen = [i for i in range(len(parts)) if i not in ints]
        first = seen.index(advanced[0])  # torch removes ints before it checks which tensors are adjacent
        apart = seen[first : first + len(advanced)] != advanced
        place = 0 if apart else min(place, len(kept))
        kept[place:place] = _names_of_indexed_dims(parts, advanced, names, ndim - len(kept))
    return tuple(kept) if len(kept) == ndim and any(name is not None for name in kept) else None


def _selects(part: Any) -> bool:
    """Whether a part selects one position of one dim: an int, or a 0-d int tensor."""
    if isinstance(part, Tensor):
        return part.ndim == 0 and part.dtype is not torch.bool
    return type(part) is int or isinstance(part, torch.SymInt)


def _names_of_indexed_dims(
    parts: tuple[Any, ...], advanced: list[int], names: tuple[str | None, ...], count: int
) -> list[str | None]:
    """The names of the dims that index tensors make: a tensor along a single dim keeps its name, else None."""
    part = parts[advanced[0]]
    if len(advanced) == 1 and count == 1 and isinstance(part, Tensor) and part.ndim == 1:
        return [names[sum(_dims_consumed(before) for before in parts[: advanced[0]])]]
    return [None] * count


def lost_dims(index: Index, size: torch.Size) -> int | None:
    """How many batch dims an int, a slice or a tuple of them removes; None if it is out of range, or another index."""
    kind = type(index)
    if kind is int:
        return 1 if -size[0] <= index < size[0] else None
    if kind is slice:
        return 0
    if kind is not tuple or not index or len(index) > len(size):
        return None
    lost = 0
    for part, count in zip(index, size):  # noqa: B905  # there may be fewer parts than dims
        if type(part) is int and -count <= part < count:
            lost += 1
        elif type(part) is not slice:
            return None
    return lost


def rows(leaves: list[Tensor], index: Tensor) -> list[Tensor]:
    """Gather rows of the first dim. On the CPU, `index_select` is several times faster than advanced indexing."""
    if _in_place(leaves, (index,)) and not torch.compiler.is_compiling():
        try:
            return [leaf.index_select(0, index) for leaf in leaves]
        except (IndexError, RuntimeError):  # negative indices, functorch wrappers: the general path handles them
            pass
    return by_device(leaves, (index,))


def _in_place(leaves: list[Tensor], parts: Sequence[Any]) -> bool:
    """Whether tensors in an index need no move: there are none, or the first and last leaf are on the CPU."""
    for part in parts:
        if isinstance(part, Tensor):
            for tensor in (part, *leaves[:1], *leaves[-1:]):
                if not (gives_plain(tensor) and tensor.is_cpu):
                    return False
    return True


def gives_plain(tensor: Any) -> bool:
    """Whether the methods of torch give plain tensors: of tensors, and of those in files; unknown in compiled code."""
    kind = type(tensor)
    return kind is Tensor or (not is_dynamo_compiling() and kind.__torch_function__ is _DISABLED)


_DISABLED: Any = torch._C._disabled_torch_function_impl


def index_on_device_of(part: Any, leaf: Tensor) -> Any:
    """An index on the device of a leaf."""
    elsewhere = isinstance(part, Tensor) and part.device != leaf.device and not leaf.is_meta
    return part.to(leaf.device) if elsewhere else part


def by_device(leaves: list[Tensor], parts: tuple[Any, ...]) -> list[Tensor]:
    """Index each leaf with the same parts, which are moved once to each device; torch would move them for each leaf."""
    if _in_place(leaves, parts):
        index = parts[0] if len(parts) == 1 else parts
        return [leaf[index] for leaf in leaves]
    moved: dict[Any, tuple[Any, ...]] = {None: parts}
    new: list[Tensor] = []
    for leaf in leaves:
        device = leaf.device if isinstance(leaf, Tensor) else None  # a lazy stack, whose members may be on any device
        if device not in moved:
            moved[device] = tuple([index_on_device_of(part, leaf) for part in parts])
        new.append(leaf[moved[device]])
    return new


def apply_index(leaves: list[Tensor], parts: tuple[Any, ...]) -> list[Tensor]:
    """Index each leaf with the same parts."""
    if any_dtensor(leaves) and True in [isinstance(part, Tensor) for part in parts]:
        return index_dtensors(leaves, parts)
    if len(parts) == 1 and isinstance(parts[0], Tensor) and parts[0].ndim:
        part = parts[0]
        mask = part.dtype is torch.bool and not torch.compiler.is_compiling() and is_plain(part)
        if mask and part.ndim == 1:
            return rows(leaves, part.nonzero().reshape(-1))
        if mask and (len(leaves) > 2 or not part.is_cpu):  # on other devices each search synchronizes
            parts = part.nonzero(as_tuple=True)  # once for all leaves
        elif part.dtype is torch.int64 and part.ndim == 1:
            return rows(leaves, part)
    return by_device(leaves, parts)


def is_plain(tensor: Tensor) -> bool:
    """Whether the values of a tensor can be read: it is not fake, not inside vmap, not on "meta"."""
    return type(tensor) is Tensor and not tensor.is_meta and torch._C._functorch.peek_interpreter_stack() is None  # pyright: ignore[reportAttributeAccessIssue]  # missing in torch's stubs


@flags
class IndexOps(NameOps):
    """Reading by index, mask and gather."""

    __slots__ = ()

    def _index(self, index: Index) -> Self:
        if self._stacked:
            return self._run_on_stack("_index", index)  # type: ignore[no-any-return]  # a stack of this class
        size = self._batch_size
        leaves: list[Tensor] = []
        mask = picked = False
        if type(index) is Tensor and size:
            if index.dtype is torch.bool:
                mask = index.shape == size or self._masked_by(index)
            else:
                picked = index.dtype is torch.int64 and index.ndim == 1
        if mask or picked:
            first = [*self._live().values()][:1]
            near_by = index.is_cpu and not is_dynamo_compiling() and first and isinstance(first[0], Tensor)
            if near_by and gives_plain(first[0]) and first[0].is_cpu:
                found = self._gather_elements(index, mask)
                if found is not None:
                    return found
        parts: Any = (index,) if mask else self._normalise_index(index)
        twin = self._open(leaves)
        new = apply_index(leaves, parts)
        new_size = indexed_size(parts, size, leaves[0] if leaves else None, new[0] if new else None)
        return twin._refill(new, new_size, self._names and indexed_names(parts, self._names, len(new_size)))

    def _held(self, key: str) -> Any:
        """The entry that this container holds, or None; those of a file are copies."""
        entries = self._live()
        return entries.get(key) if entries is self._live() else None

    def _gather_elements(self, index: Tensor, mask: bool) -> Self | None:
        """The elements at an int64 index of one dim, or at a mask, on the CPU; None for the general path."""
        size, at = self._batch_size, index
        if mask:
            if not is_plain(index) or self._names:
                return None
            parts = index.nonzero(as_tuple=True)  # once for all leaves
            at, *others = parts
            if others and not any_dtensor(self._leaves()):
                return self._each(getitem, torch.Size((len(at), *size[len(parts) :])), None, BATCHED, parts)
        try:
            return self._each(methodcaller("index_select", 0, at), torch.Size((at.numel(), *size[1:])), self._names)
        except (IndexError, RuntimeError):  # as in `rows`
            return None

    def _masked_by(self, index: Tensor) -> bool:
        return 0 < index.ndim < len(self._batch_size) and index.shape == self._batch_size[: index.ndim]

    def _normalise_index(self, index: Index) -> tuple[Any, ...]:
        try:
            return normalise(index, self._batch_size)
        except UnsupportedOperationError:
            raise self._without_batch(f"index {reprlib.repr(index)} into") from None

    def __getitems__(self, index: list[int]) -> Self:
        """Gather several elements of the first batch dim at once; a DataLoader calls this.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(3), batch_size=[3]).__getitems__([0, 2])["a"]
        tensor([0, 2])
        """
        return self._index(torch.as_tensor(index, dtype=torch.int64, device="cpu"))

    def get_at(self, key: Any, index: Index, default: Any = UNSET) -> Any:
        """The value of one entry at an index over the batch dims; `default` if the key is absent.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(6).reshape(3, 2), batch_size=[3]).get_at("a", 1)
        tensor([2, 3])
        """
        path = unravel_key_to_tuple(key)
        if path not in self:
            return MappingOps.get(self, path, default)
        parts, value = normalise(index, self._batch_size), self._raw(path)
        batched = isinstance(value, (Tensor, TensorCollection)) or batch_shape(value) is not None
        return value[parts] if batched else self._read(path)  # pyright: ignore[reportIndexIssue]  # containers have it

    def masked_select(self, mask: Tensor, *, inplace: bool = False) -> Self:
        """The elements where a mask over leading batch dims is true, along one new batch dim.

        Args:
            mask: bool tensor with the shape of the leading batch dims.
            inplace: replace this container's leaves instead of making a new container.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(3), batch_size=[3]).masked_select(torch.tensor([True, False, True]))["a"]
        tensor([0, 2])
        """
        if not isinstance(mask, Tensor) or mask.dtype is not torch.bool:
            given = f"dtype {mask.dtype}" if isinstance(mask, Tensor) else described(mask)
            raise BatchIndexError(f"masked_select takes a bool mask, got {given}")
        result = self._index(mask)
        return self._become(result) if inplace else result

    def gather(self, dim: int | str, index: Tensor, out: Self | None = None, *, inplace: bool = False) -> Self:
        """Gather elements along a batch dim, with an index of as many dims as the batch.

        Args:
            dim: the batch dim.
            index: int64 tensor with `batch_dims` dims; the result has its shape as batch size.
            out: a container of the result's structure that receives the values.
            inplace: replace this container's leaves instead of making a new container.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(3), batch_size=[3]).gather(0, torch.tensor([2, 0]))["a"]
        tensor([2, 0])
        """
        size = self._batch_size
        at = self._dim(dim, "gather")
        if index.dtype is not torch.int64 or index.ndim != len(size):
            raise BatchIndexError(
                f"gather takes an int64 index with {len(size)} dims, one for each batch dim; got dtype {index.dtype} "
                f"and shape {list(index.shape)}"
            )
        leaves: list[Tensor] = []
        new, twin = [], self._solid()._open(leaves)
        refuse_distributed("gather", self, leaves)
        indices = {
            leaf.device: index_on_device_of(index, leaf) for leaf in {leaf.device: leaf for leaf in leaves}.values()
        }
        for leaf in leaves:
            event = leaf.shape[len(size) :]
            wide = over_events(indices[leaf.device], len(event)).expand(index.shape + event)
            new.append(leaf.gather(at, wide))
        result = twin._refill(new, index.shape, self._names)
        if out is not None:
            out._meet(result, "gather")
            out._update_in_place(result._entries(), False)
            return out
        return self._become(result) if inplace else result
