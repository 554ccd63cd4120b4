"""Bitwise and logical operations between Python objects of two containers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import NonTensorData, NonTensorStack, TensorClass, TensorDict, lazy_stack
from tensorclass.errors import StructureError
from tensorclass.typing import Bool

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {"&": operator.and_, "|": operator.or_, "^": operator.xor}


def _holding(value: Any) -> TensorDict:
    return TensorDict(o=NonTensorData(value), a=torch.ones(2, dtype=torch.bool), n={"o": NonTensorData(value)})


@pytest.mark.parametrize("sign", OPERATORS)
@pytest.mark.parametrize(("left", "right"), [(True, True), (True, False), (False, False), (3, 3), (3, 5)])
def test_bools_and_integers_combine(sign: str, left: Any, right: Any):
    """They combine as Python does, at every depth, equal ones too: `True ^ True` is False."""
    found = OPERATORS[sign](_holding(left), _holding(right))
    wanted = OPERATORS[sign](left, right)
    assert (found["o"], found["n", "o"]) == (wanted, wanted)
    stacks = [lazy_stack([_holding(side), _holding(side)]) for side in (left, right)]
    assert OPERATORS[sign](*stacks)[1]["o"] == wanted


@pytest.mark.parametrize("sign", OPERATORS)
def test_bools_combine_element_by_element(sign: str):
    """So do stacks of one object for each element."""
    left, right = [True, True, False], [True, False, False]
    sides = [TensorDict(o=NonTensorStack(*side), batch_size=[3]) for side in (left, right)]
    assert OPERATORS[sign](*sides)["o"] == [OPERATORS[sign](a, b) for a, b in zip(left, right, strict=True)]


def test_other_objects_are_kept_or_refused():
    """Equal objects are kept, as labels of both sides; objects that differ are refused."""
    for combine in OPERATORS.values():
        assert combine(_holding("a"), _holding("a"))["o"] == "a"
        with pytest.raises(StructureError, match="`o` holds Python objects"):
            combine(_holding("a"), _holding("b"))


def test_typed_classes_combine_their_values():
    """A declared Python bool follows the same rule."""

    class Flags(TensorClass):
        a: Bool[Tensor, ""]
        o: bool

    batch = Flags(a=torch.tensor([True, False]), o=True)
    assert ((batch ^ batch).o, (batch | batch).o) == (False, True)
