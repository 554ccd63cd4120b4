"""The least code that keeps the promises of a batch, written by hand for the programs of `_programs`.

It has the checks of ours and nothing else: no names, devices, locks, nested batches, Python objects, autograd or
function transforms. A batch has its leading dims, a declared one also its dtypes and shapes. A write checks everything
before it writes, reads overlapping sources first, and writes all tensors or none. So its time shows how near to dicts
any library with these promises can come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import add, lt
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

_Guards: Any = torch._C._dynamo.guards.TensorGuards  # pyright: ignore[reportAttributeAccessIssue]  # a C module
_aliases: Any = torch._C._any_output_is_alias_to_input_or_output
_address, _contiguous = Tensor.data_ptr, Tensor.is_contiguous


class Least:
    """A batch: a dict of tensors, the batch size, and the last kind of write."""

    __slots__ = ("data", "known", "size")

    data: dict[str, Tensor]
    size: torch.Size
    known: tuple[Any, int, Callable[..., bool]]

    def keys(self) -> Any:
        """As of a dict, for `**batch`."""
        return self.data.copy().keys()

    def items(self) -> Any:
        """As of a dict."""
        return self.data.copy().items()

    def __getitem__(self, key: str) -> Tensor:
        return self.data[key]


def _of(data: dict[str, Tensor], size: torch.Size) -> Least:
    new = Least.__new__(Least)
    new.data = data
    new.size = size
    return new


def make(data: dict[str, Any], size: tuple[int, ...]) -> Least:
    """Every value is a tensor that begins with the batch size."""
    data, dims, last = data.copy(), len(size), None
    for value in data.values():
        if type(value) is not Tensor or value.is_nested:
            raise TypeError("not a tensor")
        if dims and (shape := value.shape) != last:
            if shape[:dims] != size:
                raise ValueError("other batch size")
            last = shape
    return _of(data, torch.Size(size))


def declared(shapes: dict[str, tuple[int, ...]]) -> Callable[[dict[str, Any], tuple[int, ...]], Least]:
    """A constructor that also checks dtypes and shapes: in one call, if they are those of the batch before."""
    known: Any = [None, None]

    def build(obs: Any, action: Any, reward: Any, value: Any, done: Any, priority: Any, batch_size: Any) -> Least:
        size, check = known
        nested = (
            obs.is_nested or action.is_nested or reward.is_nested or value.is_nested or done.is_nested
            or priority.is_nested
        )  # fmt: skip
        if nested or batch_size != size or not check(obs, action, reward, value, done, priority):
            row = {"obs": obs, "action": action, "reward": reward, "value": value, "done": done, "priority": priority}
            for key, tensor in row.items():
                if type(tensor) is not Tensor or tensor.shape != (*batch_size, *shapes[key]):
                    raise TypeError(f"wrong {key}")
                if tensor.dtype is not (torch.bool if key == "done" else torch.float32):
                    raise TypeError(f"wrong dtype of {key}")
            known[:] = size, _ = torch.Size(batch_size), _kind_of([*row.values()], 0)
        found = {"obs": obs, "action": action, "reward": reward, "value": value, "done": done, "priority": priority}
        return _of(found, size)

    return lambda data, size: build(**data, batch_size=size)


def _kind_of(tensors: Sequence[Tensor], strided: int) -> Callable[..., bool]:
    """A check of class, dtype, device, shape and autograd of tensors; of the first ones also of strides."""
    sizes = [list(tensor.shape) for tensor in tensors]
    strides = [[*leaf.stride()] if i < strided else [None] * leaf.ndim for i, leaf in enumerate(tensors)]
    check: Callable[..., bool] = _Guards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
    return check


def at(x: Least, index: Any) -> Least:
    """Rows; torch checks the index, and a list is converted once."""
    if type(index) is list:
        index = torch.tensor(index)
    found, row = x.data.copy(), None
    for key, value in found.items():
        found[key] = row = value[index]
    size = x.size
    return _of(found, size[1:] if type(index) is int or row is None else torch.Size((row.shape[0], *size[1:])))


def _checked(size: torch.Size, index: Any) -> int | None:
    """The number of rows at an index, None for one row; nothing was written if one is out of range."""
    if type(index) is int:
        if not -size[0] <= index < size[0]:
            raise IndexError(index)
        return None
    ends = index.tolist() if index.numel() <= 64 else [end.item() for end in torch.aminmax(index)]
    if min(ends) < 0 or max(ends) >= size[0]:
        raise IndexError("a row is out of range")
    return int(index.numel())


def put(x: Least, index: Any, y: Least) -> None:
    """Write rows: everything fits, and all sources are read before the first target is written."""
    rows = _checked(x.size, index)
    data, given = x.data.copy(), y.data.copy()
    if list(data) != list(given):
        raise KeyError("other keys")
    leaves, sources = [*data.values()], [*given.values()]
    known = getattr(x, "known", None)
    if known is None or known[0] != rows or known[1] != len(leaves) or not known[2](*leaves, *sources):
        for leaf, source in zip(leaves, sources, strict=True):
            shape = leaf.shape[1:] if rows is None else (rows, *leaf.shape[1:])
            if source.shape != shape or source.dtype is not leaf.dtype or not leaf.is_contiguous():
                raise ValueError("it does not fit")
        x.known = rows, len(leaves), _kind_of([*leaves, *sources], len(leaves))
    if _aliases(tuple(leaves), {}, tuple(sources)):
        sources = _apart(leaves, sources)
    if rows is None:
        torch._foreach_copy_([leaf[index] for leaf in leaves], sources)  # pyright: ignore[reportPrivateImportUsage]  # torch offers it under this name only
    else:
        for leaf, source in zip(leaves, sources, strict=True):
            leaf.index_copy_(0, index, source)


def _apart(leaves: list[Tensor], sources: list[Tensor]) -> list[Tensor]:
    """The sources; copies, unless it is sure that no two of these tensors share a byte."""
    both = [*leaves, *sources]
    starts = [*map(_address, both)]
    ends = sorted(map(add, starts, [tensor.nbytes for tensor in both]))
    starts.sort()
    if all(map(_contiguous, both)) and True not in map(lt, starts[1:], ends):
        return sources
    return [source.clone() for source in sources]


def set_at(x: Least, key: str, value: Tensor, index: Tensor) -> None:
    """Write rows of one tensor."""
    rows, leaf = _checked(x.size, index), x.data[key]
    if value.dtype is not leaf.dtype or value.shape != (rows, *leaf.shape[1:]) or not value.is_contiguous():
        raise ValueError("it does not fit")
    leaf.index_copy_(0, index, value)  # torch compares the addresses of both before it writes


def _columns(xs: Sequence[Least]) -> list[Any]:
    """The tensors of each key; all batches have these keys."""
    entries = [x.data for x in xs]
    keys = list(entries[0])
    if [*map(list, entries)].count(keys) != len(xs):
        raise KeyError("other keys")
    return list(zip(*map(dict.values, entries), strict=True))


def stack(xs: Sequence[Least]) -> Least:
    """A new first dim; torch compares the shapes."""
    size = xs[0].size
    if [x.size for x in xs].count(size) != len(xs):
        raise ValueError("other batch size")
    found = dict(zip(xs[0].data, map(torch.stack, _columns(xs)), strict=True))
    return _of(found, torch.Size((len(xs), *size)))


def cat(xs: Sequence[Least]) -> Least:
    """Along the first dim; torch compares the shapes."""
    size = xs[0].size
    if [x.size[1:] for x in xs].count(size[1:]) != len(xs):
        raise ValueError("other batch size")
    found = dict(zip(xs[0].data, map(torch.cat, _columns(xs)), strict=True))
    return _of(found, torch.Size((sum([x.size[0] for x in xs]), *size[1:])))


def flat(x: Least) -> Least:
    """One batch dim of two."""
    return _of({key: value.flatten(0, 1) for key, value in x.data.items()}, torch.Size((x.size[0] * x.size[1],)))


def select(x: Least, keys: Sequence[str]) -> Least:
    """Some of the tensors."""
    data = x.data.copy()
    return _of({key: data[key] for key in keys}, x.size)


def chunk(x: Least, count: int) -> list[Least]:
    """Equal pieces of the first dim."""
    columns = zip(*[value.chunk(count) for value in x.data.values()], strict=True)
    keys = list(x.data)
    return [_of(dict(zip(keys, column, strict=True)), column[0].shape[: len(x.size)]) for column in columns]


def pad(xs: Sequence[Least]) -> Least:
    """Rows of different lengths, padded with zeros; torch doesn't compare their dtypes, and broadcasts them."""
    lengths = [x.size[0] for x in xs]
    columns = _columns(xs)
    for column in columns:
        first = column[0]
        rest, dtype, device = first.shape[1:], first.dtype, first.device
        for tensor in column:
            if tensor.dtype is not dtype or tensor.shape[1:] != rest or tensor.device != device:
                raise ValueError("it does not fit")
    found = dict(zip(xs[0].data, map(partial(pad_sequence, batch_first=True), columns), strict=True))
    return _of(found, torch.Size((len(xs), max(lengths))))


def store(x: Least, key: str, value: Tensor) -> None:
    """Write an entry."""
    if type(value) is not Tensor or value.shape[: len(x.size)] != x.size:
        raise ValueError("other batch size")
    x.data[key] = value
