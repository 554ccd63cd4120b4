"""Kinds of container with lazy stacks and ragged entries, alone and as entries; members agree or differ."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tensorclass import RaggedTensor, TensorClass, TensorDict, lazy_stack
from tensorclass.typing import Shaped
from tests.contract._kinds import Factory, Maker, objects
from tests.contract._typed_kinds import ALL_KINDS

LAZY: dict[str, Factory] = {}


def lazy(factory: Factory) -> Factory:
    """Register a kind of container under its function's name."""
    LAZY[factory.__name__] = factory
    return factory


class Row(TensorClass):
    """What the members of a typed stack are."""

    a: Shaped[Tensor, "4"]
    b: Shaped[Tensor, "..."]


def _rows(make: Maker, count: int, *size: int) -> list[TensorDict]:
    """Containers of one structure and of one dtype for each key."""
    whole = TensorDict(
        {"a": make(count, *size, 4), "n": TensorDict(c=make(count, *size), batch_size=[count, *size])}, [count, *size]
    )
    return [row.clone() for row in whole.unbind(0)]


def _shapes(make: Maker, count: int, *size: int) -> list[TensorDict]:
    """Containers whose event shapes differ."""
    wide, flat = make(count, *size, count + 2), make(count, *size)
    return [TensorDict(a=wide[i, ..., : i + 2].clone(), b=flat[i].clone(), batch_size=size) for i in range(count)]


def _keys(make: Maker, count: int, *size: int) -> list[TensorDict]:
    """Containers with keys of their own."""
    more = make(count, *size)
    return [row.set(f"only{i}", more[i].clone()) for i, row in enumerate(_rows(make, count, *size))]


@lazy
def stack(make: Maker) -> Any:
    """A lazy stack of equal members."""
    return lazy_stack(_rows(make, 2, 3))


@lazy
def stack_last(make: Maker) -> Any:
    """Along the last dim, with names."""
    return lazy_stack([row.refine_names("time") for row in _rows(make, 3, 2)], 1, stack_dim_name="lane")


@lazy
def stack_of_stacks(make: Maker) -> Any:
    """Lazy stacks in a lazy stack."""
    rows = _rows(make, 6)
    return lazy_stack([lazy_stack(rows[:3]), lazy_stack(rows[3:])])


@lazy
def stack_typed(make: Maker) -> Any:
    """An instance over a lazy stack."""
    a, b = make(2, 3, 4), make(2, 3, 2)
    return lazy_stack([Row(a=a[i].clone(), b=b[i].clone(), batch_size=[3]) for i in range(2)])


@lazy
def stack_shapes(make: Maker) -> Any:
    """Members of different event shapes."""
    return lazy_stack(_shapes(make, 2, 3))


@lazy
def stack_keys(make: Maker) -> Any:
    """Members with keys of their own."""
    return lazy_stack(_keys(make, 3, 2))


@lazy
def entry(make: Maker) -> Any:
    """A lazy stack as an entry."""
    return TensorDict({"x": make(2, 3), "e": lazy_stack(_rows(make, 2, 3))}, batch_size=[2, 3])


@lazy
def entry_last(make: Maker) -> Any:
    """Along the last dim, below another container, with objects."""
    rows = [row.set("who", objects(2)) for row in _rows(make, 3, 2)]
    below = TensorDict({"e": lazy_stack(rows, 1)}, batch_size=[2, 3])
    return TensorDict({"x": make(2, 3), "n": below}, batch_size=[2, 3])


@lazy
def entry_wide(make: Maker) -> Any:
    """Along a dim that the holder lacks."""
    return TensorDict({"x": make(3, 2), "e": lazy_stack(_rows(make, 2, 3), 1)}, batch_size=[3])


@lazy
def entry_shapes(make: Maker) -> Any:
    """An entry whose members have different event shapes."""
    return TensorDict({"x": make(2, 3), "e": lazy_stack(_shapes(make, 2, 3))}, batch_size=[2, 3])


@lazy
def entry_keys(make: Maker) -> Any:
    """An entry whose members have keys of their own."""
    return TensorDict({"x": make(3), "n": {"e": lazy_stack(_keys(make, 3))}}, batch_size=[3])


@lazy
def entry_typed(make: Maker) -> Any:
    """An instance over a lazy stack as an entry."""
    return TensorDict({"x": make(2, 3), "e": stack_typed(make)}, batch_size=[2, 3])


@lazy
def entry_deep(make: Maker) -> Any:
    """A lazy stack of containers that hold lazy stacks."""
    rows, x = _rows(make, 6), make(2, 3)
    parts = [lazy_stack(rows[:3]), lazy_stack(rows[3:])]
    return lazy_stack([TensorDict({"x": x[i].clone(), "e": parts[i]}, batch_size=[3]) for i in range(2)])


@lazy
def ragged(make: Maker) -> Any:
    """A length for each element, beside a tensor."""
    frames = RaggedTensor.unpad(make(2, 3, 3, 2), [[1, 3, 2], [2, 0, 3]])
    return TensorDict({"a": make(2, 3, 2), "frames": frames}, batch_size=[2, 3])


@lazy
def ragged_members(make: Maker) -> Any:
    """Members of a lazy stack that hold ragged entries."""
    padded = make(2, 3, 3)
    rows = [RaggedTensor.unpad(padded[i], [1 + i, 3, 2]) for i in range(2)]
    return lazy_stack([TensorDict(frames=row, batch_size=[3]) for row in rows])


MACHINE_KINDS: dict[str, Factory] = {**ALL_KINDS, **LAZY}
