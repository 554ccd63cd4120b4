"""Every kind of entry that is more than a tensor, as an entry of every kind of container."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tensorclass import PerElement, Ragged, RaggedTensor, Shared, TensorClass, TensorDict, lazy_stack
from tensorclass.store import Unbatched
from tests.contract._kinds import objects

Size: TypeAlias = "tuple[int, ...]"
Entry: TypeAlias = "Callable[[Size], Any]"
ENTRIES: dict[str, Entry] = {}
UNEVEN: set[str] = set()
"""Entries that no dense container can hold: their members differ."""


def entry(uneven: bool = False) -> Callable[[Entry], Entry]:
    """Register a kind of entry under its function's name; it is made for a batch size."""

    def register(factory: Entry) -> Entry:
        ENTRIES[factory.__name__] = factory
        if uneven:
            UNEVEN.add(factory.__name__)
        return factory

    return register


_numbers = [0]


def numbers(*shape: int) -> Tensor:
    """Floats of which no two are equal, in one test or in the next."""
    count = torch.Size(shape).numel()
    _numbers[0] += count
    return torch.arange(_numbers[0] - count, _numbers[0], dtype=torch.float64).reshape(shape) + 1


class Leaf(TensorClass):
    """A nested class."""

    a: Tensor
    who: PerElement[str]
    weight: Tensor | None = None


def row(size: Size, *event: int, **more: Any) -> TensorDict:
    """A member of a stack: tensors of two ranks, a nested container."""
    below = TensorDict(c=numbers(*size, 2), batch_size=size)
    return TensorDict({"a": numbers(*size, *event), "b": numbers(*size), "n": below, **more}, batch_size=size)


def _stack(size: Size, dim: int, make: Callable[[int, Size], Any]) -> Any:
    inner = (*size[:dim], *size[dim + 1 :])
    return lazy_stack([make(i, inner) for i in range(size[dim])], dim)


@entry()
def lazy(size: Size) -> Any:
    """A lazy stack of equal members."""
    return _stack(size, 0, lambda i, inner: row(inner, 3))


@entry()
def lazy_last(size: Size) -> Any:
    """The same along the last dim."""
    return _stack(size, len(size) - 1, lambda i, inner: row(inner, 3))


@entry()
def lazy_lazy(size: Size) -> Any:
    """A lazy stack of lazy stacks, as deep as the batch has dims."""
    if len(size) == 1:
        return lazy(size)
    return lazy_stack([lazy_lazy(size[1:]) for _ in range(size[0])])


@entry()
def lazy_wide(size: Size) -> Any:
    """A lazy stack with more batch dims than its holder, along one that the holder lacks."""
    return lazy_stack([row(size, 3) for _ in range(2)], len(size))


@entry()
def lazy_deep(size: Size) -> Any:
    """A lazy stack of members with more batch dims than the holder."""
    return _stack(size, 0, lambda i, inner: row((*inner, 4), 3))


@entry()
def lazy_assorted(size: Size) -> Any:
    """A lazy stack of members that hold objects, a shared tensor, a ragged entry."""
    table = torch.ones(3)
    return _stack(size, 0, lambda i, inner: row(inner, 3, who=objects(*inner), table=Unbatched(table.clone())))


@entry()
def lazy_typed(size: Size) -> Any:
    """An instance of a class over a lazy stack."""
    return _stack(size, 0, lambda i, inner: Leaf(numbers(*inner, 3), objects(*inner), batch_size=inner))


@entry(uneven=True)
def lazy_keys(size: Size) -> Any:
    """Members with keys of their own."""
    return _stack(size, 0, lambda i, inner: row(inner, 3, **{f"only{i}": numbers(*inner)}))


@entry(uneven=True)
def lazy_shapes(size: Size) -> Any:
    """Members with event shapes of their own."""
    return _stack(size, len(size) - 1, lambda i, inner: row(inner, i + 1))


@entry(uneven=True)
def lazy_sizes(size: Size) -> Any:
    """Members with more batch dims than the holder, of different sizes."""
    return _stack(size, 0, lambda i, inner: row((*inner, i + 2), 3))


@entry(uneven=True)
def lazy_lazy_uneven(size: Size) -> Any:
    """Lazy stacks of lazy stacks whose elements have event shapes of their own."""
    return lazy_stack([lazy_shapes(size[1:]) if size[1:] else row((), i + 1) for i in range(size[0])])


@entry()
def shared(size: Size) -> Any:
    """A tensor without batch dims."""
    return Unbatched(torch.ones(3))


@entry()
def per_element(size: Size) -> Any:
    """An object for each element."""
    return objects(*size)


@entry()
def ragged(size: Size) -> Any:
    """A length for each element."""
    count = torch.Size(size).numel()
    lengths = torch.tensor([1 + i % 3 for i in range(count)]).reshape(size)
    return RaggedTensor.unpad(numbers(*size, 3, 2), lengths)


@entry()
def jagged(size: Size) -> Any:
    """A nested tensor of torch, which has one batch dim."""
    return ragged(size).to_nested() if len(size) == 1 else ragged(size)


@entry()
def nested_class(size: Size) -> Any:
    """An instance of a class."""
    return Leaf(numbers(*size, 3), objects(*size), batch_size=size)


@entry()
def absent(size: Size) -> Any:
    """None."""
    return None


# ---- holders ---------------------------------------------------------------------------------------------------------


class Holder(TensorClass):
    """A class with a field of each kind, all but one of them optional."""

    own: Tensor
    loose: TensorDict | None = None
    leaf: Leaf | None = None
    who: PerElement[str] | None = None
    table: Shared[Tensor] | None = None
    frames: Ragged[Tensor, "t d"] | None = None
    rows: Tensor | None = None


FIELDS = {
    "lazy_typed": "leaf", "nested_class": "leaf", "per_element": "who", "shared": "table", "ragged": "frames",
    "jagged": "rows",
}  # fmt: skip


def _field(value: Any) -> Any:
    return value.tensor if isinstance(value, Unbatched) else value


HOLDERS: dict[str, Callable[[str, Size], Any]] = {
    "dict": lambda kind, size: TensorDict({"own": numbers(*size, 2), "e": ENTRIES[kind](size)}, batch_size=size),
    "class": lambda kind, size: Holder(
        own=numbers(*size, 2), **{FIELDS.get(kind, "loose"): _field(ENTRIES[kind](size))}, batch_size=size
    ),
    "deep": lambda kind, size: TensorDict(
        {"own": numbers(*size, 2), "p": TensorDict({"q": {"e": ENTRIES[kind](size)}}, batch_size=size)}, batch_size=size
    ),
    "stack": lambda kind, size: lazy_stack([HOLDERS["dict"](kind, size[1:]) for _ in range(size[0])]),
}
SIZES: tuple[Size, ...] = ((2,), (2, 3))


def cases() -> Iterator[tuple[str, str, Size]]:
    """Every kind of entry in every holder of every batch size."""
    for kind in ENTRIES:
        for holder in HOLDERS:
            for size in SIZES:
                if kind == "jagged" and (len(size) > 1 and holder != "stack"):
                    continue
                if holder != "stack" or (len(size) > 1 and kind != "absent"):
                    yield kind, holder, size


def make(kind: str, holder: str, size: Size) -> Any:
    """A container with an entry of a kind."""
    return HOLDERS[holder](kind, size)
