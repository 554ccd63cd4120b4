"""Operations on the rows of a batch, the slices along its first dim: sort, group, sample, summarize.

A field of a typed class may have one of these names, and then hides the method: `classes/_build.py` reads
`vars(RowOps)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor
from typing_extensions import Self

from .._config import print_options
from .._flags import answers
from ..core import (
    Description,
    Entry,
    Key,
    TensorCollection,
    batch_shape,
    describe,
    describe_entry,
    entries_in_order,
    join_path,
    unravel_key_to_tuple,
)
from ..errors import ArgumentError, BatchDimError, BatchSizeError, MissingKeyError, UnknownFieldError
from ._conversions import ConversionOps

T = TypeVar("T")
_NAN = float("nan")


def as_mask(given: Any, count: int, device: torch.device | None = None) -> Tensor:
    """The bools that a user gives `filter` for a number of rows, as a tensor."""
    each = f"filter: one bool for each of the {count} rows is expected"
    try:
        mask = torch.as_tensor(given, device=device)
    except (TypeError, ValueError, RuntimeError):
        what = f"a {type(given).__name__} {given!r:.60}"
        raise ArgumentError(f"{each}, got {what}") from None
    mask = mask if mask.numel() else mask.bool()  # an empty list has no dtype
    if mask.dtype is not torch.bool:
        raise ArgumentError(f"{each}, got {mask.dtype} {list(mask.shape)}")
    if mask.shape != (count,):
        way = "; a mask over more batch dims is an index: `batch[mask]`" if mask.ndim > 1 else ""
        raise BatchSizeError(f"{each}, got shape {list(mask.shape)}{way}")
    return mask


class Groups(dict[Any, T]):
    """The result of `group_by`: a dict from each value to its rows. Iterating gives pairs, as in pandas."""

    def __iter__(self) -> Iterator[tuple[Any, T]]:  # pairs, not keys
        return iter(self.items())

    def __getattr__(self, name: str) -> Any:
        if name[0] == "_":
            return object.__getattribute__(self, name)
        way = f"`{{value: rows.{name}() for value, rows in groups}}` asks each group"
        raise UnknownFieldError(f"groups are a dict without `{name}`; {way}")

    def __missing__(self, value: Any) -> T:
        hint = "; iterating gives pairs: `for value, rows in groups`" if isinstance(value, tuple) else ""
        raise MissingKeyError(f"no group {value!r:.80}; there are {list(self.keys())!r:.200}{hint}")


@answers
class RowOps(ConversionOps):
    """Methods over the first batch dim, and common aliases."""

    __slots__ = ()

    def head(self, n: int = 5) -> Self:
        """The first `n` rows, as a view; for a negative number, all but the last `-n` rows.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(9), batch_size=[9]).head(2)["a"]
        tensor([0, 1])
        """
        _count(self, "head")
        return self._index(slice(n))

    def sample(self, n: int, *, replacement: bool = False, generator: torch.Generator | None = None) -> Self:
        """A random sample of rows, in random order.

        Args:
            n: how many.
            replacement: whether a row may be drawn more than once.
            generator: the source of random numbers; by default that of torch.

        Raises:
            ValueError: for more rows than the batch has, without replacement.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.arange(9), batch_size=[9])
        >>> data.sample(3, generator=torch.Generator().manual_seed(0)).batch_size
        torch.Size([3])
        """
        count = _count(self, "sample")
        if n < 0 or (n > count and not (replacement and count)):
            hint = "" if n < 0 or not count else "; draw with `replacement=True`"
            raise ArgumentError(f"sample: can't draw {n} of {count} rows{hint}")
        if not replacement:
            return self._index(_permutation(count, generator)[:n])
        return self._index(torch.randint(max(count, 1), (n,), generator=generator, device=_device(generator)))

    def shuffle(self, generator: torch.Generator | None = None) -> Self:
        """All rows in random order.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.arange(4), batch_size=[4])
        >>> data.shuffle(torch.Generator().manual_seed(0))["a"].sort().values
        tensor([0, 1, 2, 3])
        """
        return self._index(_permutation(_count(self, "shuffle"), generator))

    def sort_by(self, *keys: Key, descending: bool = False) -> Self:
        """Sort the rows by one or several entries, with a stable sort.

        Args:
            *keys: the entries (tensors or Python objects) by name, path or field reference; later ones break ties. Rows
                of several numbers are compared lexicographically. `None` and nan come last, even with `descending`.
            descending: sort from largest to smallest.

        Raises:
            MissingKeyError: for an absent key.
            TypeError: for a nested container, and for objects that can't be sorted.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.tensor([2, 3, 1]), b=torch.arange(3), batch_size=[3]).sort_by("a")["b"]
        tensor([2, 0, 1])
        """
        order = torch.arange(_count(self, "sort_by"), device="cpu")
        for key in reversed(_check_given_keys(keys, "sort_by")):
            places = places_in_order(ranks(self, key, "sort_by"), descending)
            order = order[places[order].argsort(stable=True)]
        return self._index(order)

    def group_by(self, *keys: Key) -> Groups[Self]:
        """Group the rows by the values of one or several entries: a dict in sorted order that iterates over pairs.

        A key of the dict is a tuple if an entry has several numbers per row, or if there are several entries. Rows with
        nan form one group, the last.

        Args:
            *keys: as for `sort_by`.

        Raises:
            MissingKeyError: for an absent key.
            TypeError: for a nested container, and for objects that can't be sorted or hashed.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> groups = TensorDict(a=torch.tensor([2, 0, 2]), b=torch.arange(3), batch_size=[3]).group_by("a")
        >>> {value: group["b"].tolist() for value, group in groups}
        {0: [1], 2: [0, 2]}
        """
        names, places = _distinct_values(self, _check_given_keys(keys, "group_by"), "group_by")
        groups = places.argsort(stable=True).split(torch.bincount(places, minlength=len(names)).tolist())
        return Groups(zip(names, map(self._index, groups), strict=True))

    def unique_by(self, *keys: Key, keep: Literal["first", "last"] = "first") -> Self:
        """Keep one row for each value of one or several entries, in the order of the batch.

        Args:
            *keys: as for `sort_by`. Rows are duplicates if all these entries are equal; nan equals nan.
            keep: which of the duplicates to keep.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.tensor([2, 0, 2]), b=torch.arange(3), batch_size=[3]).unique_by("a")["b"]
        tensor([0, 1])
        """
        if keep not in ("first", "last"):
            raise ArgumentError(f'unique_by: keep is "first" or "last", got {keep!r:.80}')
        names, places = _distinct_values(self, _check_given_keys(keys, "unique_by"), "unique_by")
        rows = torch.arange(len(places), device="cpu")
        how = "amin" if keep == "first" else "amax"
        found = rows.new_zeros(len(names)).scatter_reduce(0, places, rows, how, include_self=False)
        return self._index(found.sort().values)

    def filter(self, keep: Tensor | Sequence[bool] | Callable[[Self], Tensor | Sequence[bool]]) -> Self:
        """Select the rows for which a mask is True.

        Args:
            keep: bool `[rows]`, or a function of the batch that returns it.

        Raises:
            BatchSizeError: for a mask of another shape.
            TypeError: for anything but a mask.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(5), batch_size=[5]).filter(lambda batch: batch["a"] > 2)["a"]
        tensor([3, 4])
        """
        count = _count(self, "filter")
        return self._index(as_mask(keep(self) if callable(keep) else keep, count))

    def iter(
        self, size: int, *, shuffle: bool = False, generator: torch.Generator | None = None, drop_last: bool = False
    ) -> Iterator[Self]:
        """Iterate over mini-batches of consecutive rows, as views; with `shuffle`, of rows in random order.

        Args:
            size: the rows of each mini-batch; the last may have fewer.
            shuffle: whether to visit the rows in random order.
            generator: the source of random numbers; by default that of torch.
            drop_last: skip a last mini-batch with fewer rows.

        Raises:
            ValueError: for a size below 1.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> [part["a"].tolist() for part in TensorDict(a=torch.arange(5), batch_size=[5]).iter(2)]
        [[0, 1], [2, 3], [4]]
        """
        count = _count(self, "iter")
        if size < 1:
            raise ArgumentError(f"iter: a mini-batch has at least one row, got size {size}")
        if generator is not None and not shuffle:
            raise ArgumentError("iter: a generator is used with `shuffle=True` only")
        order = _permutation(count, generator) if shuffle else None
        spans = [slice(start, start + size) for start in range(0, count - (count % size if drop_last else 0), size)]
        return (self._index(span if order is None else order[span]) for span in spans)

    def describe(self) -> Description:
        """Summarize each field: minimum, maximum, mean, number of nan, and distinct objects. Prints as a table.

        For objects, it has the number of distinct values and the most common one; for ragged fields, the lengths.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> found = TensorDict(a=torch.arange(8.0), tag="scan", batch_size=[8]).describe()
        >>> found
        TensorDict: batch_size=[8], 32 B
        field  type   min  max  mean  nan  values
        a      f32[]  0    7    3.5
        tag    str                         'scan'
        >>> found["a"].mean
        3.5
        """
        return describe(self)

    def scalars(
        self, separator: str = "/", *, prefix: str = "", reduce: Literal["mean", "sum", "min", "max"] | None = None
    ) -> dict[str, float]:
        """The numbers of the batch by name, for loggers: `writer.log(batch.scalars())`.

        Names of nested entries are joined by "/", by which TensorBoard and W&B group. Absent optional fields are left
        out.

        Args:
            separator: the string that joins names.
            prefix: the string that every name begins with, as in `scalars(prefix="training/")`.
            reduce: how to reduce entries with several numbers; by default each entry must be one number.

        Raises:
            ArgumentError: for entries that are not one real number, such as strings; names all of them.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> step = TensorDict({"loss": {"actor": torch.tensor(0.5)}, "length": 7, "reward": torch.ones(3)})
        >>> step.scalars(reduce="mean")
        {'loss/actor': 0.5, 'length': 7, 'reward': 1.0}
        >>> TensorDict(loss=torch.tensor(0.5)).scalars(prefix="training/")
        {'training/loss': 0.5}
        """
        if reduce not in (None, "mean", "sum", "min", "max"):
            raise ArgumentError(f'scalars: reduce is "mean", "sum", "min" or "max", got {reduce!r:.80}')
        flat: Any = self.flatten_keys(separator)
        found: dict[str, Any] = {name: _number(value, reduce) for name, value in flat.items()}
        wrong = [name for name, number in found.items() if number is None]
        if wrong:
            way = "" if reduce else '; give `reduce="mean"`, or'
            shown = dict(entries_in_order(flat, print_options()))
            given = ", ".join(f"`{name}` ({describe_entry(shown[name], torch.Size())})" for name in wrong)
            raise ArgumentError(f"scalars: not one number: {given}{way or ';'} leave them out with `exclude(...)`")
        return {f"{prefix}{name}": number for name, number in found.items()}

    def asdict(self) -> dict[str, Any]:
        """A plain dict around the same tensors, with nested containers as dicts; `to_dict` has options.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.ones(2), nested={"b": torch.zeros(2)}).asdict()
        {'a': tensor([1., 1.]), 'nested': {'b': tensor([0., 0.])}}
        """
        return ConversionOps.to_dict(self)

    def to_numpy(self) -> dict[str, Any]:
        """Nested dicts of arrays that share memory with the tensors; an alias of `numpy()`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(2)).to_numpy()
        {'a': array([0, 1])}
        """
        return ConversionOps.numpy(self)


def _number(value: Any, reduce: str | None) -> float | None:
    """An entry as one number; None if that is impossible."""
    if isinstance(value, Entry):
        value = value.values if hasattr(value, "values") else value.tolist()
    try:
        numbers = torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError):
        return None
    if reduce and numbers.numel() > 1 and not numbers.is_complex():
        numbers = getattr(numbers.double(), reduce)()
    return None if numbers.numel() != 1 or numbers.is_complex() else +numbers.item()


def _count(batch: TensorCollection, op: str) -> int:
    """The number of rows."""
    if not batch._batch_size:
        raise BatchDimError(
            f"{op}: rows lie along the first batch dim, and this {type(batch).__name__} has none (batch_size []); give "
            "it one: `batch.unsqueeze(0)`"
        )
    return batch._batch_size[0]


def _device(generator: torch.Generator | None) -> Any:
    if not isinstance(generator, torch.Generator | None):
        seed = "`torch.Generator().manual_seed(0)` is one with a seed"
        raise ArgumentError(f"the generator is a torch.Generator, got {generator!r:.80}; {seed}")
    return "cpu" if generator is None else generator.device


def _permutation(count: int, generator: torch.Generator | None) -> Tensor:
    return torch.randperm(count, generator=generator, device=_device(generator))


def _check_given_keys(keys: tuple[Key, ...], op: str) -> tuple[Key, ...]:
    if not keys:
        raise ArgumentError(f"{op}: name at least one entry")
    return keys


def _distinct_values(batch: Any, keys: tuple[Key, ...], op: str) -> tuple[list[Any], Tensor]:
    """The sorted distinct values of one or several entries, and for each row the index of its value."""
    _count(batch, op)
    if len(keys) == 1:
        return ranks(batch, keys[0], op)[:2]
    found = [ranks(batch, key, op) for key in keys]
    codes, places = _distinct(torch.stack([which for _, which, _ in found], 1))
    names = [tuple(values[at] for (values, _, _), at in zip(found, code, strict=True)) for code in codes.tolist()]
    return names, places


def ranks(batch: Any, key: Key, op: str) -> tuple[list[Any], Tensor, int]:
    """The sorted distinct values of an entry, the index of each row's value, and the number of non-missing values."""
    path = unravel_key_to_tuple(key)
    count, value = _count(batch, op), batch._raw(path)
    if isinstance(value, TensorCollection):
        raise ArgumentError(f"{op}: `{join_path(path)}` is a container; name one of its entries")
    what = f"{op}: the objects of `{join_path(path)}`"
    if batch_shape(value) is None and not isinstance(value, Tensor):  # one value for the whole batch
        value = value._read_value() if isinstance(value, Entry) else value
        return ranks_of_objects([_hashable(value)] * count, what, op)
    if not isinstance(value, Tensor) or value.is_nested:
        rows = [*value.unbind()] if isinstance(value, Tensor) else value.tolist()
        return ranks_of_objects([*map(_hashable, rows)], what, op)
    flat = value.detach().cpu()
    flat = torch.view_as_real(flat) if flat.is_complex() else flat
    flat = flat.flatten(1) if flat.ndim > 1 else flat[:, None]
    codes, places = _distinct(_sortable_rows(flat))
    first = torch.full((len(codes),), count).scatter_reduce(0, places, torch.arange(count), "amin")
    names = [*map(_hashable, value.detach()[first.to(value.device)].tolist())]
    gaps = bool(flat.is_floating_point() and flat.shape[1] == 1 and len(flat) and flat.isnan().any())
    return names, places, len(names) - gaps


def places_in_order(found: tuple[Any, Tensor, int], descending: bool) -> Tensor:
    """The place of each row's value in ascending or descending order; missing values come last in both."""
    _, places, present = found
    return torch.where(places < present, present - 1 - places, places) if descending else places


def _sortable_rows(rows: Tensor) -> Tensor:
    """Numbers `[n, k]` that compare like the given ones, with nan as the largest and equal to itself."""
    if rows.is_floating_point():
        gaps = rows.isnan()
        if not gaps.any():
            return rows.double()
        return torch.stack([gaps.double(), rows.double().masked_fill(gaps, 0)], -1).flatten(1)
    return rows.view(torch.int64) ^ torch.iinfo(torch.int64).min if rows.dtype is torch.uint64 else rows.long()


def _distinct(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The sorted distinct rows, and for each row its index among them."""
    if not rows.numel():  # torch refuses empty input
        return rows[:1], torch.zeros(len(rows), dtype=torch.int64)
    wide = rows.shape[1] > 1  # without `dim`, torch is faster
    found, places = torch.unique(rows if wide else rows[:, 0], return_inverse=True, dim=0 if wide else None)
    return found, places


def ranks_of_objects(rows: list[Any], what: str, op: str = "") -> tuple[list[Any], Tensor, int]:
    """The distinct objects, sorted except for `unique_by`; the index of each row's object; and their number.

    As in columns of numbers, nan equals nan. It comes after all other objects, None after nan; both are not counted.
    """
    rows = [_NAN if isinstance(row, float) and row != row else row for row in rows]
    try:
        given = dict.fromkeys(row for row in rows if row is not None and row is not _NAN)
        found = [*given] if op == "unique_by" else sorted(given)
    except TypeError as error:
        how = "compared" if op == "unique_by" else "sorted"
        raise ArgumentError(f"{what} can't be {how}: {error}; name another entry") from error
    names = [*found, *(gap for gap in (_NAN, None) if any(row is gap for row in rows))]
    places = {value: i for i, value in enumerate(names)}
    return names, torch.tensor([places[row] for row in rows], dtype=torch.int64, device="cpu"), len(found)


def _hashable(value: Any) -> Any:
    """A hashable form: nested lists as tuples, a tensor as its numbers."""
    value = value.tolist() if isinstance(value, Tensor) else value
    return tuple(_hashable(part) for part in value) if isinstance(value, list) else value
