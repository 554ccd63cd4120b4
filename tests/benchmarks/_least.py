"""The least code that keeps the promises of a batch, written by hand for `_programs` and `_bounds`.

It has the checks of ours and nothing else: no names, devices, locks, Python objects, autograd or function transforms,
and nested batches only at the end. A batch has its leading dims, a declared one also its dtypes and shapes. A write
checks everything before it writes, reads overlapping sources first, and writes all tensors or none. So its time shows
how near to dicts any library with these promises can come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
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

    data: dict[str, Any]
    size: torch.Size
    known: tuple[Any, int, Callable[..., bool]]

    def keys(self) -> Any:
        """As of a dict, for `**batch`."""
        return self.data.copy().keys()

    def items(self) -> Any:
        """As of a dict."""
        return self.data.copy().items()

    def __getitem__(self, key: str) -> Tensor:
        return self.data[key]  # type: ignore[no-any-return]  # a tensor


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


def plus(x: Least, number: float) -> Least:
    """A number and each tensor."""
    return _of({key: value + number for key, value in x.data.copy().items()}, x.size)


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


# ---- single operations, on batches that may be nested ---------------------------------------------------------------


class Nested(Least):
    """A batch whose entries are tensors and batches."""

    __slots__ = ()

    def _leaf_keys(self, path: tuple[str, ...], found: list[Any]) -> list[Any]:
        for key, value in self.data.copy().items():
            if type(value) is Nested:
                value._leaf_keys((*path, key), found)
            else:
                found.append((*path, key) if path else key)
        return found

    def items(
        self, include_nested: bool = False, leaves_only: bool = False, is_leaf: Any = None, *, sort: bool = False
    ) -> Any:
        """As of a dict; with options it would be a view of its own."""
        if include_nested or leaves_only or sort or is_leaf is not None:
            raise NotImplementedError
        return self.data.copy().items()

    def leaf_keys(self) -> LeafKeys:
        """The paths of all tensors."""
        return LeafKeys(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Nested:
        new = memo[id(self)] = nest({}, self.size)
        new.data = _deep_copies(self.data.copy(), memo)
        return new


class LeafKeys:
    """A view; `list` asks for the length of a view too."""

    __slots__ = ("batch",)

    def __init__(self, batch: Nested) -> None:
        self.batch = batch

    def __iter__(self) -> Any:
        return iter(self.batch._leaf_keys((), []))

    def __len__(self) -> int:
        return _count(self.batch)


def _count(x: Nested) -> int:
    return sum([_count(value) if type(value) is Nested else 1 for value in x.data.copy().values()])


def nest(data: dict[str, Any], size: tuple[int, ...]) -> Nested:
    """A batch of a dict of tensors and of dicts."""
    new = Nested.__new__(Nested)
    new.data = {key: nest(value, size) if type(value) is dict else value for key, value in data.items()}
    new.size = torch.Size(size)
    return new


def _like(x: Nested, data: dict[str, Any]) -> Nested:
    new = Nested.__new__(Nested)
    new.data, new.size = data, x.size
    return new


def _twin(x: Nested) -> Nested:
    data: dict[str, Any] = x.data.copy()
    for key, value in data.items():
        if type(value) is Nested:
            data[key] = _twin(value)
    return _like(x, data)


def exclude(x: Nested, *keys: str) -> Nested:
    """Without some entries; the nested batches are new, so that a key that is added to one is in no other."""
    data: dict[str, Any] = x.data.copy()
    for key in keys:
        data.pop(key, None)
    for key, value in data.items():
        if type(value) is Nested:
            data[key] = _twin(value)
    return _like(x, data)


def _pair(x: Nested, y: Nested, leaves: list[Tensor], sources: list[Tensor]) -> None:
    data, given = x.data.copy(), y.data.copy()
    if y.size != x.size:
        raise ValueError("other batch size")
    for key, source in given.items():
        leaf = data[key]
        if type(leaf) is not type(source):
            raise TypeError(f"{key} is another kind of entry")
        if type(leaf) is Nested:
            _pair(leaf, source, leaves, sources)
        else:
            leaves.append(leaf)
            sources.append(source)


def update(x: Nested, y: Nested) -> None:
    """Copy tensors into those of another batch: everything fits and can be written, and sources are read first."""
    leaves: list[Tensor] = []
    sources: list[Tensor] = []
    _pair(x, y, leaves, sources)
    known = getattr(x, "known", None)
    if known is None or known[1] != len(leaves) or not known[2](*leaves, *sources):
        for leaf, source in zip(leaves, sources, strict=True):
            if source.shape != leaf.shape or source.dtype is not leaf.dtype or not leaf.is_contiguous():
                raise ValueError("it does not fit")
            if leaf.requires_grad or leaf.is_inference():
                raise ValueError("it can't be written")
        x.known = None, len(leaves), _kind_of([*leaves, *sources], len(leaves))
    if _aliases(tuple(leaves), {}, tuple(sources)):
        sources = _apart(leaves, sources)
    torch._foreach_copy_(leaves, sources)  # pyright: ignore[reportPrivateImportUsage]  # torch offers it under this name only


class _Storages(dict[int, Any]):
    """The new storages; that of a tensor is looked up when torch reads it."""

    def __getitem__(self, place: int) -> Any:
        found = super().__getitem__(place)
        return found.untyped_storage() if type(found) is Tensor else found


def _deep_copies(data: dict[str, Any], memo: dict[int, Any]) -> dict[str, Any]:
    """Clones of tensors without gradients, attributes and other tensors over their storage; else deep copies."""
    noted: Any = memo
    places = noted.setdefault("torch", _Storages())  # torch writes and reads this key
    own: list[tuple[str, Tensor, int]] = []
    rest: list[str] = []
    for key, value in data.items():
        if type(value) is Nested or value.requires_grad or value.layout is not torch.strided or value.__dict__:
            rest.append(key)
            continue
        storage = value.untyped_storage()
        place = storage._cdata
        if place in places or id(value) in memo or value.grad is not None or storage.nbytes() != value.nbytes:
            rest.append(key)
        else:
            places[place] = value
            own.append((key, value, place))
    clones: Any = own and torch._foreach_clone([value for _, value, _ in own])  # pyright: ignore[reportPrivateImportUsage]  # torch offers it under this name only
    for (key, value, place), new in zip(own, clones, strict=True):
        memo[id(value)] = data[key] = places[place] = new
    for key in rest:
        data[key] = deepcopy(data[key], memo)
    return data
