"""Writes of values that autograd tracks: gradients reach each value, and leaves that got none stay untracked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, lazy_stack
from tensorclass.typing import Float32, Int64


class Inner(TensorClass):
    """One field."""

    c: Float32[Tensor, ""]


class Typed(TensorClass):
    """Declared dtypes and shapes, so that sources are not looked at."""

    a: Float32[Tensor, ""]
    b: Float32[Tensor, ""]
    n: Int64[Tensor, ""]
    inner: Inner


def _tensors(size: tuple[int, ...]) -> dict[str, Any]:
    return {"a": torch.ones(size), "b": torch.ones(size), "n": torch.ones(size, dtype=torch.int64)}


def _untyped(*size: int) -> Any:
    return TensorDict(_tensors(size), batch_size=size).set("inner", TensorDict(c=torch.ones(size), batch_size=size))


def _typed(*size: int) -> Any:
    return Typed(**_tensors(size), inner=Inner(c=torch.ones(size)), batch_size=size)


def _lazy(*size: int) -> Any:
    return lazy_stack([_untyped(*size[1:]) for _ in range(size[0])])


MAKERS: dict[str, Callable[..., Any]] = {"untyped": _untyped, "typed": _typed, "lazy": _lazy}
ALL = torch.tensor([True, True, True])
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "update_": lambda x, y: x.update_(y),
    "update_ a dict": lambda x, y: x.update_({"a": y["a"], "b": y["b"], "n": y["n"]}),
    "copy_": lambda x, y: x.copy_(y),
    "update(inplace)": lambda x, y: x.update(y, inplace=True),
    "x[:] = y": lambda x, y: x.__setitem__(slice(None), y),
    "x[...] = y": lambda x, y: x.__setitem__(..., y),
    "x[mask] = y": lambda x, y: x.__setitem__(ALL, y),
    "x[i] = row": lambda x, y: [x.__setitem__(i, y[i]) for i in range(3)],
    "copy_at_": lambda x, y: [x.copy_at_(y[i], i) for i in range(3)],
    "update_at_": lambda x, y: x.update_at_(y, slice(0, 3)),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("kind", MAKERS)
def test_gradients_reach_the_values(kind: str, write: str) -> None:
    """After writes of untracked values, which a container may remember, too."""
    made = MAKERS[kind]
    x, plain, tracked = made(3), made(3), MAKERS["typed" if kind == "typed" else "untyped"](3)
    tracked["a"].requires_grad_()
    for _ in range(3):
        WRITES[write](x, plain)
    assert not x["a"].requires_grad
    WRITES[write](x, tracked)
    (x["a"] * 2).sum().backward()
    assert torch.equal(tracked["a"].grad, torch.full((3,), 2.0))
    assert [x[key].requires_grad for key in ("a", "b", "n")] == [True, False, False]


@pytest.mark.parametrize("write", ["update_", "copy_", "update(inplace)"])
@pytest.mark.parametrize("kind", ["untyped", "typed"])
def test_gradients_reach_what_was_there_before(kind: str, write: str) -> None:
    """A leaf that autograd tracks is overwritten, and its former values get no gradient."""
    weight = torch.ones(3, requires_grad=True)
    x, y = MAKERS[kind](3), MAKERS[kind](3)
    x["a"] = weight * 3
    y["b"].requires_grad_()
    WRITES[write](x, y)
    (x["a"] + x["b"]).sum().backward()
    assert torch.equal(y["b"].grad, torch.ones(3))
    assert weight.grad is None or not weight.grad.any()


def test_without_gradients_nothing_is_tracked() -> None:
    """`torch.no_grad` is respected by a write that is remembered."""
    x, y = _untyped(3), _untyped(3)
    y["a"].requires_grad_()
    for _ in range(4):
        with torch.no_grad():
            x.update_(y)
        assert not x["a"].requires_grad
    x.update_(y)
    assert [x[key].requires_grad for key in ("a", "b")] == [True, False]
