"""Bad input to lazy stacks: each error says what was given, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import (
    LazyStackedTensorDict,
    TensorClass,
    TensorDict,
    dense_stack_tds,
    lazy_stack,
    set_lazy_legacy,
)
from tensorclass.errors import TensorClassError
from tensorclass.typing import Float32


class Point(TensorClass):
    """A class of one field."""

    x: Float32[Tensor, "d"]


class Other(TensorClass):
    """Another one."""

    x: Float32[Tensor, "d"]


def even() -> LazyStackedTensorDict:
    """Three members of one structure."""
    stack: LazyStackedTensorDict = lazy_stack(
        [TensorDict({"a": torch.zeros(4, 2), "b": {"c": torch.zeros(4)}}, batch_size=[4]) for _ in range(3)]
    )
    return stack


def uneven() -> LazyStackedTensorDict:
    """Members of different event shapes, one with a key of its own."""
    stack: LazyStackedTensorDict = lazy_stack(
        [TensorDict(a=torch.zeros(2)), TensorDict(a=torch.zeros(3), only=torch.zeros(1))]
    )
    return stack


def ragged(dim: int = 0) -> LazyStackedTensorDict:
    """Members of different batch sizes."""
    stack: LazyStackedTensorDict = lazy_stack([TensorDict(a=torch.zeros(n), batch_size=[n]) for n in (2, 3)], dim)
    return stack


def typed() -> Any:
    """Instances of a class."""
    return lazy_stack([Point(torch.zeros(2)), Point(torch.zeros(2))])


CASES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "no items": (lambda: lazy_stack([]), ("lazy_stack", "at least one", "empty")),
    "a number": (lambda: lazy_stack([TensorDict(), 3]), ("member", "int", "position 1", "TensorDict")),
    "a tensor among them": (lambda: lazy_stack([TensorDict(), torch.zeros(1)]), ("Tensor", "position 1")),
    "other number of dims": (
        lambda: lazy_stack([TensorDict(batch_size=[2]), TensorDict()]),
        ("as many batch dims", "[2]", "[]", "position 1"),
    ),
    "strict shape": (
        lambda: lazy_stack([TensorDict(batch_size=[2]), TensorDict(batch_size=[3])], strict_shape=True),
        ("same batch size", "[2]", "[3]"),
    ),
    "devices": (
        lambda: lazy_stack([TensorDict(device="cpu"), TensorDict()]),
        ("one device", "cpu", "None", "clear_device_"),
    ),
    "dim": (lambda: lazy_stack([TensorDict(batch_size=[2])], 2), ("dim 2", "legal range", "[-2, 1]")),
    "classes": (
        lambda: lazy_stack([Point(torch.zeros(2)), Other(torch.zeros(2))]),
        ("one class", "Other", "Point", "to_tensordict"),
    ),
    "typed and untyped": (lambda: lazy_stack([Point(torch.zeros(2)), TensorDict()]), ("Point", "TensorDict")),
    "forms of containers": (lambda: lazy_stack([TensorDict()], as_list=True), ("as_list", "tensors", "`get`")),
    "two forms": (
        lambda: lazy_stack([torch.zeros(1)], as_list=True, as_nested_tensor=True),
        ("one of as_list",),
    ),
    "batch size of members": (
        lambda: LazyStackedTensorDict(TensorDict(), batch_size=[3]),
        ("[3]", "[1]", "members"),
    ),
    "set the batch size": (lambda: setattr(even(), "batch_size", [2]), ("[2]", "[3, 4]", "members")),
    "read uneven": (
        lambda: uneven()["a"],
        ("`a`", "[2]", "[3]", "position 1", "as_list=True", "as_padded_tensor=True", "as_nested_tensor=True"),
    ),
    "iterate over uneven values": (lambda: list(uneven().values()), ("`a`", "differ")),
    "read a key of some": (lambda: uneven()["only"], ("only", "positions 1", "stack[1]['only']", "default")),
    "read an absent key": (lambda: even()["aa"], ("aa", "did you mean", "a")),
    "two forms of get": (lambda: even().get("a", as_list=True, as_padded_tensor=True), ("one of",)),
    "padding side": (lambda: uneven().get("a", as_padded_tensor=True, padding_side="up"), ("right", "up")),
    "pad a container": (lambda: even().get("b", as_padded_tensor=True), ("`b`", "TensorDict", "as_list")),
    "pad other ranks": (
        lambda: lazy_stack([TensorDict(a=torch.zeros(2)), TensorDict(a=torch.zeros(2, 2))]).get(
            "a", as_padded_tensor=True
        ),
        ("`a`", "[1, 2] dims"),
    ),
    "nest along another dim": (
        lambda: ragged(1).get_nestedtensor("a"),
        ("get_nestedtensor", "stack dim is 1", "as_nested_tensor=True"),
    ),
    "densify along another dim": (lambda: ragged(1).densify(), ("densify", "`a`", "stack dim is 1")),
    "densify a container of some": (
        lambda: lazy_stack([TensorDict(a={"b": 1}), TensorDict(c=1)]).densify(),
        ("densify", "`a`", "only some"),
    ),
    "mask without a ragged dim": (
        lambda: even().to_padded_tensor(mask_key="mask"),
        ("mask", "ragged", "[3, 4]", "mask_key"),
    ),
    "dense of ragged": (lambda: ragged().contiguous(), ("one batch size", "[2]", "[3]", "densify")),
    "dense of exclusive": (
        lambda: lazy_stack([TensorDict(a=1), TensorDict(a=1, b=1)]).to_tensordict(),
        ("same keys", "`b`", "[1]", "select", "densify"),
    ),
    "sum of uneven": (lambda: uneven().select("a").sum(0), ("`a`", "[2]", "[3]")),
    "append a number": (lambda: even().append(3), ("container", "int", "3")),
    "append another size": (
        lambda: even().append(TensorDict(batch_size=[5])),
        ("batch size [4]", "[5]", "lazy_stack"),
    ),
    "append other dims": (lambda: even().append(TensorDict()), ("[4]", "[]")),
    "append another device": (lambda: even().append(TensorDict(batch_size=[4], device="cpu")), ("device", "cpu")),
    "extend with one bad": (
        lambda: even().extend([TensorDict(batch_size=[4]), TensorDict(batch_size=[5])]),
        ("[4]", "[5]"),
    ),
    "set another shape": (lambda: even().set("x", torch.zeros(4, 3)), ("`x`", "[3, 4]", "[4, 3]")),
    "set a number": (lambda: even().set("x", 1), ("`x`", "[3, 4]", "expand")),
    "set a tensor on ragged": (
        lambda: ragged().set("x", torch.zeros(2, 2)),
        ("`x`", "[2, -1]", "a list with one value for each member"),
    ),
    "set a short list": (lambda: even().set("x", [1, 2]), ("`x`", "size 3", "2 values")),
    "set a flat list across": (
        lambda: lazy_stack([TensorDict(batch_size=[2])], 1).set("x", [1, 2]),
        ("`x`", "[2, 1]", "stack dim 1"),
    ),
    "set a container": (
        lambda: even().set("x", TensorDict(batch_size=[3])),
        ("`x`", "[3, 4]", "[3]"),
    ),
    "set below a leaf": (lambda: even().set(("a", "x"), torch.zeros(3, 4)), ("`a`", "not a container", "`x`")),
    "update in place": (lambda: even().update_({"aa": 1}), ("`aa`", "did you mean")),
    "update_batch_size": (
        lambda: even().update(TensorDict(a=torch.zeros(2), batch_size=[2]), update_batch_size=True),
        ("[3, 4]", "[2]", "densify"),
    ),
    "in place with another shape": (lambda: even().set_("a", torch.zeros(3, 4, 3)), ("`a`", "[4, 3]")),
    "in place with another size": (
        lambda: even().copy_(TensorDict({"a": torch.zeros(2), "b": {"c": torch.zeros(2)}}, batch_size=[2])),
        ("[2]", "[4]", "broadcast"),
    ),
    "index with another size": (
        lambda: even().__setitem__(slice(0, 2), TensorDict({"a": torch.zeros(3, 4, 2), "b": {}}, batch_size=[3, 4])),
        ("[3, 4]", "[2, 4]"),
    ),
    "index assignment lacks a key": (lambda: even().__setitem__(0, {"a": 0.0}), ("lacks `b`", "update_at_")),
    "fill with a fraction": (
        lambda: lazy_stack([TensorDict(a=torch.zeros(2, dtype=torch.int64))]).fill_("a", 0.5),
        ("`a`", "int64", "0.5"),
    ),
    "index out of range": (lambda: even()[3], ("3", "out of range", "3")),
    "slice that runs backwards": (lambda: even()[::-1], ("step", "-1", "flip")),
    "index tensor out of range": (lambda: even()[torch.tensor([5])], ("5", "3 members")),
    "index beyond the smallest": (lambda: ragged()[:, 2], ("2", "out of range", "dim 1")),
    "too many indices": (lambda: even()[0, 0, 0], ("3 indices", "2 batch dims")),
    "mask over a ragged dim": (
        lambda: ragged()[torch.ones(2, 2, dtype=torch.bool)],
        ("mask", "differs from member to member", "[2, -1]"),
    ),
    "unbind a ragged dim": (lambda: ragged().unbind(1), ("unbind", "dim 1", "[2, 3]", "one by one")),
    "view of another count": (lambda: even().view(5), ("view", "12")),
    "expand": (lambda: even().expand(2, 4), ("expand", "[3, 4]", "[2, 4]")),
    "in-place reshape": (lambda: even().flatten(inplace=True), ("in place", "members")),
    "a tensor operand": (lambda: even() + torch.zeros(5), ("add", "[3, 4]", "[5]")),
    "another container": (lambda: even() + even()[:2], ("[2, 4]", "[3, 4]")),
    "other keys": (lambda: even() + even().select("a"), ("only the left", "b")),
    "mask of another shape": (lambda: even().masked_fill_(torch.ones(4, dtype=torch.bool), 0), ("[3, 4]", "[4]")),
    "apply with a shorter one": (lambda: even().apply(lambda a, b: a, even()[:2]), ("apply", "2 elements", "has 3")),
    "rename an absent key": (lambda: even().rename_key_("aa", "x"), ("aa", "did you mean")),
    "select an absent key": (lambda: even().select("aa"), ("aa", "did you mean")),
    "stack and dense": (lambda: torch.stack([uneven().select("a"), even().densify()]), ("batch size", "[2]", "[3, 4]")),
    "dense_stack_tds": (lambda: dense_stack_tds([TensorDict()]), ("dim", "None")),
    "legacy mode": (lambda: set_lazy_legacy(True), ("lazy_stack", "deferred")),
    "vmap": (lambda: torch.vmap(lambda t: t["a"])(uneven().select("a")), ("vmap", "mapped dimension")),
    "typed dtype": (lambda: setattr(typed(), "x", torch.zeros(2, 2, dtype=torch.int64)), ("x", "Float32", "int64")),
    "typed rank": (lambda: setattr(typed(), "x", torch.zeros(2, 2, 2)), ("x", 'Float32["d"]')),
    "typed unknown field": (lambda: typed().set("y", torch.zeros(2)), ("y", "Point")),
    "typed from another": (lambda: Point.from_tensordict(even()), ("x", "Float32", "nothing")),
    "typed cast": (lambda: typed().double(), ("x", "Float32", "float64")),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input(name: str):
    """The error is one of ours, or the builtin that Python users expect, and holds the words that help."""
    call, words = CASES[name]
    with pytest.raises((TensorClassError, TypeError, ValueError)) as caught:
        call()
    text = str(caught.value)
    missing = [word for word in words if word not in text]
    assert not missing, f"{missing} not in: {text}"


def test_a_refused_extend_adds_nothing():
    """All members are looked at first."""
    stack = even()
    with pytest.raises(TensorClassError):
        stack.extend([TensorDict(batch_size=[4]), TensorDict(batch_size=[5])])
    assert len(stack) == 3
