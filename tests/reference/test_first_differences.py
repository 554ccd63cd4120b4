"""The ten differences that docs/migrating.md puts first: each is there, and the original does what the page says."""

from __future__ import annotations

import re

import pytest
import tensordict
import torch
from torch import Tensor

import tensorclass
from tensorclass import TensorClass, TensorDict
from tensorclass.errors import BatchDimError, KeySetError, MissingKeyError, SchemaError, StructureError
from tensorclass.typing import Float32
from tests._sources import ROOT

PAGE = (ROOT / "docs/migrating.md").read_text("utf-8")


class Pose(TensorClass):
    """A declared class."""

    angle: Float32[Tensor, "2"]


class Scene(TensorClass):
    """A class with a nested one."""

    pose: Pose


def both(**entries):
    """The same container of either library."""
    return [lib.TensorDict(entries, batch_size=[2]) for lib in (tensordict, tensorclass)]


def test_there_are_ten():
    """The page counts them."""
    section = PAGE.partition("\n## The ten that everyone meets first\n")[2].partition("\n## ")[0]
    assert re.findall(r"^(\d+)\. ", section, re.M) == [str(n) for n in range(1, 11)]


def test_declared_dtypes_and_shapes():
    """Number 2."""
    for wrong in (torch.zeros(3, 2, dtype=torch.float64), torch.zeros(3, 5)):
        with pytest.raises(SchemaError, match="angle"):
            Pose(wrong, batch_size=[3])
    pose = Pose(torch.zeros(3, 2))
    with pytest.raises(SchemaError, match="angle"):
        pose.angle = torch.zeros(3, 5)


def test_optional_fields():
    """Number 3."""
    with pytest.raises(SchemaError, match=r"add `\| None`"):
        type("A", (TensorClass,), {"__annotations__": {"x": Tensor}, "x": None, "__module__": __name__})(x=None)
    with pytest.raises(SchemaError, match=r"Endless \| None"):
        type("Endless", (TensorClass,), {"__annotations__": {"x": Tensor, "next": "Endless"}})(torch.zeros(2), None)


def test_nested_classes():
    """Number 4, with both ways out."""
    untyped = TensorDict(angle=torch.zeros(3, 2), batch_size=[3])
    for wrong in (untyped, {"angle": torch.zeros(3, 2)}):
        with pytest.raises(SchemaError, match="pose"):
            Scene(pose=wrong, batch_size=[3])
    assert Scene(pose=Pose.from_tensordict(untyped)).pose.angle is untyped["angle"]
    assert Scene(pose=Pose(angle=torch.zeros(3, 2))).batch_size == (3,)


def test_same_keys_on_both_sides():
    """Number 5, with `update_at_` for some of the keys."""
    theirs, ours = both(a=torch.ones(2), b=torch.ones(2))
    for td in (theirs, ours):
        part = td.select("a")[0]
        if td is theirs:
            td[0] = part * 0
        else:
            with pytest.raises((MissingKeyError, StructureError), match="b"):
                td[0] = part * 0
            with pytest.raises((MissingKeyError, StructureError), match="b"):
                td.copy_(td.select("a"))
            td.update_at_(part * 0, 0)
        assert td["a"].tolist() == [0, 1]
        assert td["b"].tolist() == [1, 1]


@pytest.mark.parametrize("value", [torch.tensor([2.5, 1.0]), 2.5, 300, torch.ones(2, 1)])
def test_writes_in_place_fit(value):
    """Number 6: rounding, wrapping and broadcasting of event dims; `set` replaces the entry."""
    ours = TensorDict({"a": torch.ones(2, dtype=torch.uint8)}, [2])
    with pytest.raises(ValueError, match="`a`"):
        ours.set_("a", value)
    assert ours["a"].tolist() == [1, 1]
    if isinstance(value, Tensor):
        assert ours.set("a", value)["a"] is value


def test_values_are_objects():
    """Number 7."""
    theirs, ours = both(a="text")
    assert isinstance(next(iter(theirs.values())), tensordict.NonTensorData)
    assert next(iter(ours.values())) == "text"
    assert list(ours.items()) == [("a", "text")]
    assert isinstance(ours.get("a"), tensorclass.NonTensorData)


def test_lists_of_numbers():
    """Number 8."""
    made = TensorDict.from_dict({"n": [torch.zeros(3), torch.ones(3)], "s": ["a", "b"]}, batch_size=[2])
    assert made["n"].shape == (2, 3)
    assert made["s"] == ["a", "b"]


def test_dims_are_batch_dims():
    """Number 9."""
    theirs, ours = both(a=torch.ones(2, 3))
    with pytest.warns(FutureWarning, match="outside the batch dims"):
        assert torch.cat([theirs, theirs], -2)["a"].numel() == 12
    with pytest.raises(BatchDimError, match="-2"):
        torch.cat([ours, ours], -2)


def test_shape_operations_are_unlocked():
    """Number 10, and the row of casts."""
    theirs, ours = (td.lock_() for td in both(a=torch.ones(2)))
    assert [theirs[:].is_locked, theirs.reshape(2).is_locked, theirs.double().is_locked] == [True] * 3
    assert [ours[:].is_locked, ours.reshape(2).is_locked, ours.double().is_locked] == [False] * 3
    assert [td.detach().is_locked and (td + 1).is_locked for td in (theirs, ours)] == [True] * 2
    assert ours.reshape(2) is not ours


def test_exceptions_are_as_the_table_says():
    """The bases that the page gives."""
    table = PAGE.partition("\n## Exceptions\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| [^|]+ \| `(\w+)`[^|]* \| ([^|]+) \|$", table, re.M)
    assert len(rows) >= 14
    for name, bases in rows:
        for base in re.findall(r"`([\w.]+)`", bases):
            builtin = eval(base, {"dataclasses": __import__("dataclasses")})
            assert issubclass(getattr(tensorclass.errors, name), builtin), (name, base)
    assert issubclass(KeySetError, KeyError)
