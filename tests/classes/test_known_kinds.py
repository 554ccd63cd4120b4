"""A constructor asks the same of the fourth call as of the first, whatever its class remembers of three."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, tensorclass
from tensorclass.errors import TensorClassError
from tensorclass.typing import Float32


def _new_class() -> Any:
    """A class that remembers nothing."""

    class Sample(TensorClass):
        """Two fields."""

        a: Float32[Tensor, "n"]
        b: Float32[Tensor, ""]

    return Sample


def _with(change: Callable[[Tensor], Any]) -> Callable[[Any], Any]:
    return lambda cls: cls(a=torch.ones(3, 2), b=change(torch.ones(3)), batch_size=(3,))


def _jagged(given: Tensor) -> Tensor:
    return torch.nested.nested_tensor([given, given])


CASES: dict[str, Callable[[Any], Any]] = {
    "the same": _with(lambda b: b),
    "no batch size": lambda cls: cls(a=torch.ones(3, 2), b=torch.ones(3)),
    "another batch size": lambda cls: cls(a=torch.ones(3, 2), b=torch.ones(3), batch_size=(2,)),
    "a batch size of a bool": lambda cls: cls(a=torch.ones(1, 2), b=torch.ones(1), batch_size=(True,)),
    "a batch size that is none": lambda cls: cls(a=torch.ones(3, 2), b=torch.ones(3), batch_size="3"),
    "a device": lambda cls: cls(a=torch.ones(3, 2), b=torch.ones(3), device="meta"),
    "a missing field": lambda cls: cls(a=torch.ones(3, 2)),
    "an unknown field": lambda cls: cls(a=torch.ones(3, 2), b=torch.ones(3), c=1),
    "one tensor twice": lambda cls: cls(*[torch.ones(3)] * 2),
    "another dtype": _with(lambda b: b.double()),
    "another shape": _with(lambda b: b[:2]),
    "more batch dims": lambda cls: cls(a=torch.ones(2, 3, 2), b=torch.ones(2, 3)),
    "strides": _with(lambda b: torch.ones(3, 4)[:, 1]),
    "tracked": _with(lambda b: b.requires_grad_() * 2),
    "a parameter": _with(torch.nn.Parameter),
    "a meta tensor": _with(lambda b: b.to("meta")),
    "a sparse tensor": _with(lambda b: b.to_sparse()),
    "a nested tensor": _with(_jagged),
    "a list": _with(lambda b: b.tolist()),
    "None": _with(lambda b: None),
    "a number": _with(lambda b: 1.0),
}


def _outcome(case: Callable[[Any], Any], cls: Any) -> Any:
    try:
        made = case(cls)
    except (TensorClassError, RuntimeError, TypeError) as error:
        return type(error), re.sub(r"\bj\d+", "j", str(error))
    return made.batch_size, [(k, type(v), v.dtype, v.ndim, v.requires_grad, v.layout) for k, v in made.items()]


@pytest.mark.parametrize("case", CASES)
def test_the_fourth_call_is_checked_as_the_first(case: str) -> None:
    """The same error or the same fields of a class that remembers a kind as of one that does not."""
    used = _new_class()
    for _ in range(3):
        used(a=torch.ones(3, 2), b=torch.ones(3), batch_size=(3,))
    assert _outcome(CASES[case], used) == _outcome(CASES[case], _new_class())


def test_a_kind_that_comes_often_is_remembered_later() -> None:
    """Tensors of two kinds in turn are all built, also under vmap, whose tensors have other sizes than they show."""
    cls = _new_class()
    for i in range(40):
        size = (i % 2 + 1,)
        assert cls(a=torch.ones(*size, 2), b=torch.ones(size)).batch_size == size
        seen = torch.vmap(lambda x: cls(a=x, b=x.sum(-1)).a)(torch.ones(3, *size, 2))
        assert seen.shape == (3, *size, 2)


@pytest.mark.parametrize("size", [None, [], [3], [3, 2], [2]], ids=str)
def test_a_batch_size_that_no_field_says_is_taken_from_each_call(size: list[int] | None) -> None:
    """Fields of any shape fit several batch sizes: what one call gave is nothing to the next."""

    def made(calls: list[list[int] | None]) -> Any:
        cls: Any = tensorclass(
            type("Loose", (), {"__annotations__": {"a": Tensor, "b": Tensor}, "__module__": __name__})
        )
        found: Any = None
        for one in calls:
            try:
                found = cls(a=torch.ones(3, 2), b=torch.ones(3, 2), batch_size=one).batch_size
            except TensorClassError as error:
                found = type(error)
        return found

    assert made([[3]] * 4 + [size]) == made([size])
