"""A list with one object for each element is taken by the generated constructor; all else goes the complete path."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import NonTensorStack, PerElement, TensorClass, cat, field, field_validator
from tensorclass.errors import SchemaError
from tensorclass.typing import Float32


class Named(TensorClass):
    """One tensor, and objects of several types."""

    x: Float32[Tensor, "2"]
    name: PerElement[str]
    rank: PerElement[int] | None = None
    task: PerElement[str] = field(default="walk")


class Slow(Named):
    """The same with a check after each construction, so that no value is taken quickly."""

    @field_validator("x")
    @classmethod
    def keep(cls, value: Tensor) -> Tensor:
        """Any tensor."""
        return value


X = torch.arange(6.0).reshape(3, 2)


def completes(call: Callable[[], Any]) -> bool:
    """Whether a constructor takes the complete path."""
    names: set[str] = set()
    sys.setprofile(lambda frame, event, _: names.add(frame.f_code.co_name) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return "construct" in names


QUICK: dict[str, dict[str, Any]] = {
    "a list": {"name": ["a", "b", "c"]},
    "a batch size": {"name": ["a", "b", "c"], "batch_size": [3]},
    "one object": {"name": "a"},
    "several lists": {"name": ["a", "a", "b"], "rank": [1, 2, 3], "task": ["run", "sit", "run"]},
    "None": {"name": ["a", "b", "c"], "rank": None},
}
COMPLETE: dict[str, dict[str, Any]] = {
    "a tuple": {"name": ("a", "b", "c")},
    "a stack": {"name": NonTensorStack("a", "b", "c")},
    "text of a row": {"name": [Named(x=X, name=["a", "b", "c"])[0].name, "b", "c"]},
    "two batch dims": {"x": X[None], "name": [["a", "b", "c"]]},
    "no batch dims": {"x": X[0], "name": "a"},
    "no elements": {"x": X[:0], "name": []},
    "a device": {"name": ["a", "b", "c"], "device": "cpu"},
}
WRONG: dict[str, Any] = {
    "too few": ["a", "b"],
    "a number": ["a", 1, "b"],
    "a number for all": 3,
    "None for one": ["a", None, "b"],
    "a list for one": ["a", ["b"], "c"],
    "a tensor": torch.zeros(3),
    "bytes": [b"a", b"b", b"c"],
}


@pytest.mark.parametrize("name", [*QUICK, *COMPLETE])
def test_both_paths_give_the_same(name: str) -> None:
    """The stored objects are those of the complete path, also after shape operations and writes."""
    given = {"x": X, **(QUICK.get(name) or COMPLETE[name])}
    quick, slow = Named(**given), Slow(**given)
    for one in ("name", "rank", "task"):
        mine, theirs = getattr(quick, one), getattr(slow, one)
        assert (mine is None) == (theirs is None)
        assert mine is None or type(mine) is type(theirs)
        if isinstance(mine, NonTensorStack):
            assert mine.tolist() == theirs.tolist()
            assert mine.shape == theirs.shape == quick.batch_size
        else:
            assert mine == theirs
    assert quick.batch_size == slow.batch_size


@pytest.mark.parametrize("name", QUICK)
def test_lists_take_the_quick_path(name: str) -> None:
    """No Python function of the complete path runs."""
    assert not completes(lambda: Named(x=X, **QUICK[name]))


def test_the_complete_path_is_noticed() -> None:
    """The test above can fail."""
    assert completes(lambda: Named(x=X, name=("a", "b", "c")))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_named(name: str) -> None:
    """The error is that of the complete path, and shows what was given."""
    errors = []
    for cls in (Named, Slow):
        with pytest.raises(SchemaError) as caught:
            cls(x=X, name=WRONG[name])
        errors.append(str(caught.value).partition("\n")[2])
    assert errors[0] == errors[1]
    assert "name" in errors[0]


def test_the_list_is_not_kept() -> None:
    """A later change of the list does not reach the batch, and two batches do not share their objects."""
    names = ["a", "b", "c"]
    one, two = Named(x=X, name=names), Named(x=X, name=names)
    names[0] = "changed"
    one[0] = Named(x=X[0], name="z")
    assert (one.name.tolist(), two.name.tolist()) == (["z", "b", "c"], ["a", "b", "c"])
    assert cat([one, two])[[5, 0]].name.tolist() == ["c", "z"]


def test_subclasses_of_builtins_are_validated() -> None:
    """An object of a subclass goes the complete path, where pydantic decides."""

    class Word(str):
        __slots__ = ()

    assert Named(x=X, name=[Word("a"), "b", "c"]).name.tolist() == ["a", "b", "c"]


def test_a_factory_gives_the_objects() -> None:
    """A default factory of objects is called for each batch."""

    class Tagged(TensorClass):
        x: Float32[Tensor, "2"]
        tag: PerElement[str] = field(default_factory=lambda: "new")

    assert Tagged(x=X).tag.tolist() == ["new"] * 3
