"""A typed instance inside an untyped container keeps what its class declares, whatever is done to the container."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, lazy_stack
from tensorclass.errors import CastError, SchemaError
from tensorclass.typing import Float32, Int64


class Counted(TensorClass):
    """An integer and a float of one dtype each."""

    n: Int64[Tensor, "2"]
    x: Float32[Tensor, ""]


class Around(TensorClass):
    """A class with an untyped part, which may hold typed instances."""

    y: Float32[Tensor, ""]
    free: TensorDict


def counted(*size: int) -> Counted:
    """Ones."""
    return Counted(n=torch.ones(*size, 2, dtype=torch.int64), x=torch.ones(size))


HOLDERS: dict[str, Callable[[], Any]] = {
    "entry": lambda: TensorDict({"i": counted(3), "y": torch.ones(3)}, batch_size=[3]),
    "first": lambda: TensorDict({"y": torch.ones(3), "m": {"i": counted(3)}}, batch_size=[3]),
    "deeper batch": lambda: TensorDict({"i": counted(3, 2), "o": "x"}, batch_size=[3]),
    "lazy": lambda: lazy_stack([TensorDict({"y": torch.ones(()), "i": counted()}) for _ in range(3)]),
    "uneven": lambda: lazy_stack([TensorDict({"y": torch.ones(n), "i": counted()}) for n in (1, 2, 3)]),
    "untyped part of a class": lambda: Around(y=torch.ones(3), free=TensorDict(i=counted(3), batch_size=[3])),
    "deep in an untyped part": lambda: Around(y=torch.ones(3), free=TensorDict(m={"i": counted(3)}, batch_size=[3])),
    "entry of a lazy stack": lambda: TensorDict({"s": lazy_stack([TensorDict(i=counted())] * 3)}, batch_size=[3]),
}
BREAKING: dict[str, Callable[[Any], Any]] = {
    "a number": lambda t: t / 2,
    "a method": lambda t: t.add(0.5),
    "a function": lambda t: t.sqrt(),
    "apply": lambda t: t.apply(Tensor.double),
    "a cast": lambda t: t.half(),
    "to": lambda t: t.to(torch.float64),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("name", BREAKING)
def test_other_dtypes_are_refused_by_path(holder: str, name: str):
    """As for the instance itself: the error names the field below the container."""
    batch = HOLDERS[holder]()
    with pytest.raises((SchemaError, CastError), match=r"i|Counted"):
        BREAKING[name](batch)


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_fits_stays_typed(holder: str):
    """Operations that keep dtypes, casts that do not touch integers, and comparisons work."""
    batch = HOLDERS[holder]()
    for result in (batch + 1, batch.abs(), batch.clamp(max=0), batch.to(torch.float32), batch.float(), batch == batch):
        assert _instances(result)
    assert all(value.n.dtype is torch.int64 for value in _instances(batch.float()))


def _instances(value: Any) -> list[Any]:
    """The typed instances at all depths."""
    if isinstance(value, Counted):
        return [value]
    below = value.tensordicts if value._stacked else [v for v in value.values() if hasattr(v, "batch_size")]
    return [found for part in below for found in _instances(part)]
