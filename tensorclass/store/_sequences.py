"""Padded batches of samples with different lengths, and the inverse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence as pad_tensors

from ..core import (
    Key,
    Leaf,
    Path,
    TensorCollection,
    is_typed,
    join_path,
    rebuilt,
    tensors_by_path,
    unravel_key_to_tuple,
)
from ..errors import ArgumentError, BatchIndexError, MissingKeyError, StructureError, did_you_mean
from ..ops import stack
from ..ops._writable import scalar_like, takes
from ._dict import TensorDict
from ._pad import Fill, pad_leaf
from ._pad import pad_entries as pad_batch
from .lazy._functions import lazy_stack

C = TypeVar("C", bound=TensorCollection)


def pad_sequence(
    list_of_tensordicts: Sequence[C],
    pad_dim: int = 0,
    padding_value: float | Mapping[Key, float] = 0.0,
    out: C | None = None,
    return_mask: bool | Key = False,
    padding_side: str = "right",
) -> C:
    """Pad containers along one dim to the longest and stack them.

    Args:
        list_of_tensordicts: containers of one class with the same keys.
        pad_dim: the dim to pad, counted over all dims of the entries; for a batch dim, the batch size is padded too.
        padding_value: one value for all entries, or a mapping from keys to values (0 for other keys).
        out: a container that receives the result.
        return_mask: add masks of valid positions under "masks", or under the given key.
        padding_side: "right" or "left".

    Raises:
        StructureError: for no containers, and for different keys.
        ValueError: for an invalid side, and for a negative dim that is a batch dim of only some entries.
        IndexError: for an entry without the dim.

    >>> import torch
    >>> from tensorclass import TensorDict, pad_sequence
    >>> samples = [TensorDict(a=torch.ones(n), batch_size=[n]) for n in (2, 3)]
    >>> pad_sequence(samples, padding_side="left")["a"]
    tensor([[0., 1., 1.],
            [1., 1., 1.]])
    """
    items: list[Any] = list(list_of_tensordicts)
    if padding_side not in ("left", "right"):
        raise ArgumentError(f"pad_sequence: padding_side is 'left' or 'right', got {padding_side!r:.200}")
    if not items:
        raise StructureError("pad_sequence takes at least one container, got an empty list")
    if return_mask is not False and is_typed(items[0]):
        raise StructureError("pad_sequence: a typed class has no field for masks; pass `to_tensordict()` of each")
    values = _values(padding_value, tensors_by_path(items[0]))
    result: Any = _stacked_by_column(items, values, padding_side, ()) if pad_dim == 0 and items[0].ndim else None
    if result is None:
        result = _stacked_one_by_one(items, pad_dim, values, padding_side)
    if return_mask is not False:
        key = "masks" if return_mask is True else return_mask
        result.set(key, _masks(items, result, pad_dim, padding_side))
    if out is None:
        return result  # type: ignore[no-any-return]  # same class as the inputs
    return out.update(result)  # type: ignore[attr-defined,no-any-return]  # all containers have it


def _stacked_one_by_one(items: list[Any], dim: int, values: dict[Path, Any], side: str) -> Any:
    """Samples of any containers, padded one after the other."""
    tables = [tensors_by_path(item) for item in items]
    _require_same_keys(tables)
    lengths = _lengths(tables, dim)
    at = _batch_dim(items[0], tables[0], dim)
    if at is None:
        longest = {path: max(counts) for path, counts in lengths.items()}
        return stack([_padded_events(item, dim, longest, values, side) for item in items])
    total = max([item._batch_size[at] for item in items])
    fill: Fill = lambda path, leaf: values.get(path, 0.0)  # noqa: E731  # shorter than a function
    return stack(
        [pad_batch(item, [0] * (2 * at) + _pad_sides(total - item._batch_size[at], side), fill) for item in items]
    )


def _stacked_by_column(items: list[Any], values: Mapping[Path, Any], side: str, path: Path) -> Any:
    """Samples of only tensors, padded along their first batch dim: one call for each entry; None for other samples."""
    first = items[0]
    if any([type(item) is not type(first) or item._device != first._device for item in items]):
        return None
    if first._layered:
        padded = _stacked_by_column([item._store for item in items], values, side, path)
        return None if padded is None else first._wrap(padded)
    if type(first) is not TensorDict or any([item._names is not None for item in items]):
        return None
    tables = [item._data for item in items]
    if any([table.keys() != tables[0].keys() for table in tables]):
        return None
    size = torch.Size((len(items), max([item._batch_size[0] for item in items]), *first._batch_size[1:]))
    entries: dict[str, Any] = {}
    for key, value in first._data.items():
        column = [table[key] for table in tables]
        inner = isinstance(value, TensorCollection)
        padded = (_stacked_by_column if inner else _padded_column)(column, values, side, (*path, key))
        if padded is None or padded.shape[: len(size)] != size:
            return None
        entries[key] = padded
    return TensorDict._of(entries, size, first._device, None, first._plain)


def _padded_column(column: list[Any], values: Mapping[Path, Any], side: str, path: Path) -> Tensor | None:
    """One entry of all samples `[samples, longest, ...]`; None if torch can't pad it in one call."""
    first = column[0]
    if type(first) is not Tensor or first.is_nested or first.is_complex() or first.dtype is torch.uint64:
        return None
    dtype, device, rest = first.dtype, first.device, first.shape[1:]
    for leaf in column:
        if type(leaf) is not Tensor or leaf.dtype is not dtype or leaf.device != device or leaf.shape[1:] != rest:
            return None
    number = values.get(path, 0.0)
    number = number if takes(first, number) else scalar_like(number, first, path).item()
    return pad_tensors(column, batch_first=True, padding_value=number, padding_side=side)


def _pad_sides(count: int, side: str) -> list[int]:
    return [count, 0] if side == "left" else [0, count]


def _require_same_keys(tables: list[dict[Path, Tensor]]) -> None:
    for position, table in enumerate(tables):
        if table.keys() != tables[0].keys():
            odd = sorted(join_path(path) for path in table.keys() ^ tables[0].keys())
            raise StructureError(
                f"pad_sequence: `{odd[0]}` is in one of the containers at positions 0 and {position} only"
            )


def _values(padding_value: Any, table: Mapping[Path, Tensor]) -> dict[Path, Any]:
    if not isinstance(padding_value, Mapping):
        return dict.fromkeys(table, padding_value)
    values = {unravel_key_to_tuple(key): value for key, value in padding_value.items()}
    for path in values:
        if path not in table:
            near = did_you_mean(join_path(path), map(join_path, table))
            raise MissingKeyError(f"pad_sequence: padding_value names `{join_path(path)}`, which is not an entry{near}")
    return values


def _lengths(tables: list[dict[Path, Tensor]], dim: int) -> dict[Path, list[int]]:
    """The lengths of each entry in all samples."""
    for path, leaf in ((path, leaf) for table in tables for path, leaf in table.items()):
        if not -leaf.ndim <= dim < leaf.ndim:
            raise BatchIndexError(f"pad_sequence: `{join_path(path)}` of shape {list(leaf.shape)} has no dim {dim}")
    return {path: [table[path].shape[dim] for table in tables] for path in tables[0]}


def _batch_dim(item: Any, table: Mapping[Path, Tensor], dim: int) -> int | None:
    """The batch dim that `dim` is for every entry; None if it is an event dim of all."""
    dims = {dim % leaf.ndim for leaf in table.values()} or {dim}
    inside = {at for at in dims if at < item.ndim}
    if inside and len(dims) > 1:
        raise ArgumentError(f"pad_sequence: dim {dim} is a batch dim of some entries and another dim of others")
    return inside.pop() if inside else None


def _padded_events(item: Any, dim: int, longest: dict[Path, int], values: dict[Path, Any], side: str) -> Any:
    def padded(leaf: Leaf) -> Any:
        value, path = leaf.entry, leaf.path
        if not isinstance(value, Tensor):
            return value
        at = dim % value.ndim
        amounts = [0] * (2 * at) + _pad_sides(longest[path] - value.shape[at], side)
        return pad_leaf(value, amounts, scalar_like(values.get(path, 0.0), value, path).item())

    return rebuilt(item, padded)


def _masks(items: list[Any], result: Any, dim: int, side: str) -> TensorDict:
    """For each entry, a mask of its valid values: over the batch, followed by the padded dim if it is an event dim."""
    tables = [tensors_by_path(item) for item in items]
    at, table = _batch_dim(items[0], tables[0], dim), tables[0]
    masks = TensorDict(batch_size=result.batch_size)
    made: dict[tuple[int, ...], Tensor] = {}
    for path, counts in _lengths(tables, dim).items():
        mask = made.get(tuple(counts))
        if mask is None:
            mask = made[tuple(counts)] = _mask(counts, result.batch_size, at, side)
        masks.set(path, mask.clone().to(result.device or table[path].device))
    return masks


def _mask(counts: list[int], size: torch.Size, at: int | None, side: str) -> Tensor:
    total, ends = max(counts), torch.tensor(counts)[:, None]
    places = torch.arange(total)
    valid = places < ends if side == "right" else places >= total - ends
    if at is None:
        return valid.reshape(len(counts), *[1] * (len(size) - 1), total).expand(*size, total)
    return valid.reshape(len(counts), *[1] * at, total, *[1] * (len(size) - at - 2)).expand(size)


def unpad_sequence(padded: Any, mask: Any = None, *, pad_dim: int = 0) -> Any:
    """Remove the padding of samples, as a lazy stack; the inverse of `pad_sequence`.

    Args:
        padded: the batch, with samples along its first dim.
        mask: the masks of `pad_sequence`, or one bool tensor `[samples, longest]`; by default the entry "masks".
        pad_dim: the padded dim, counted in a sample.

    Raises:
        ValueError: without masks, for a mask of another shape, and for gaps between valid positions.
        MissingKeyError: for an entry without a mask.

    >>> import torch
    >>> from tensorclass import TensorDict, pad_sequence, unpad_sequence
    >>> samples = [TensorDict(a=torch.ones(n), batch_size=[n]) for n in (2, 3)]
    >>> [sample.batch_size[0] for sample in unpad_sequence(pad_sequence(samples, return_mask=True)).unbind(0)]
    [2, 3]
    """
    if not padded.ndim:
        raise ArgumentError("unpad_sequence takes a container with the samples along its first batch dim; it has none")
    if mask is None:
        if "masks" not in padded:
            raise ArgumentError('unpad_sequence: there is no entry "masks"; give `mask=`')
        mask, padded = padded["masks"], padded.exclude("masks")
    return lazy_stack(
        [_remove_padding(padded[i], _valid_spans(padded, mask, pad_dim, i), pad_dim) for i in range(len(padded))]
    )


def _valid_spans(padded: Any, mask: Any, dim: int, row: int) -> dict[Path, tuple[int, int]]:
    """Start and length of the valid positions of one sample, for each entry."""
    runs = {}
    for path, leaf in tensors_by_path(padded).items():
        own = mask if isinstance(mask, Tensor) else mask.get(path)
        if own is None:
            raise MissingKeyError(f"unpad_sequence: there is no mask for `{join_path(path)}`")
        at = dim % (leaf.ndim - 1) + 1
        if isinstance(mask, Tensor) and (mask.dtype is not torch.bool or mask.shape != (len(padded), leaf.shape[at])):
            raise ArgumentError(
                f"unpad_sequence: a mask is a bool tensor of shape {[len(padded), leaf.shape[at]]}, got "
                f"{mask.dtype} of shape {list(mask.shape)}"
            )
        axis = at if at < padded.ndim and not isinstance(mask, Tensor) else own.ndim - 1
        valid = own.movedim(axis, -1)[row].reshape(-1, leaf.shape[at]).any(0).nonzero().reshape(-1).tolist()
        if valid and valid[-1] - valid[0] + 1 != len(valid):
            raise ArgumentError(
                f"unpad_sequence: the valid positions of sample {row} of `{join_path(path)}` have a gap"
            )
        runs[path] = (valid[0] if valid else 0, len(valid))
    return runs


def _remove_padding(sample: Any, runs: dict[Path, tuple[int, int]], dim: int) -> Any:
    """One sample without its padding, which begins and ends where `runs` says for each entry."""
    at = _batch_dim(sample, tensors_by_path(sample), dim)
    if at is not None:
        found = set(runs.values())
        if len(found) > 1:
            raise StructureError(
                f"unpad_sequence: entries of one sample differ in length along a batch dim: {sorted(found)}"
            )
        start, length = found.pop() if found else (0, sample.batch_size[at])
        return sample.narrow(at, start, length)
    result = sample.copy()
    for path, (start, length) in runs.items():
        result.set(path, result.get(path).narrow(dim, start, length))
    return result
