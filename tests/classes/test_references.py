"""Field references: what `Digits.image` is on the class, and where it stands for a key."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from tensorclass import FieldRef, TensorDict
from tensorclass.errors import UnknownFieldError
from tensorclass.typing import Float32
from tests.classes._samples import Form, digits, everything


def test_a_reference_knows_class_path_and_type(ns: SimpleNamespace) -> None:
    """The repr says all three; nested fields are reached by dots."""
    assert repr(ns.Digits.image) == 'Digits.image: Float32["h w"]'
    assert repr(ns.Everything.pose.axis) == 'Everything.pose.axis: Float32["3"]'
    assert repr(ns.Digits.mask) == 'Digits.mask: Bool["h w"] | None'
    assert ns.Everything.pose.axis.__field_path__ == ("pose", "axis")
    assert isinstance(ns.Digits.image, FieldRef)


def test_references_are_equal_by_class_and_path(ns: SimpleNamespace) -> None:
    """Two lookups give equal references; other paths and classes differ; a set holds each once."""
    first, again = ns.Everything.pose.axis, ns.Everything.pose.axis
    assert first == again
    assert hash(first) == hash(again)
    assert len({first, again, ns.Everything.pose.angle, ns.Pose.axis}) == 3
    assert ns.Pose.axis != ns.Everything.pose.axis
    assert ns.Digits.image != "image"


def test_references_pickle_and_copy(ns: SimpleNamespace) -> None:
    """A reference restored in the same process is equal, also a nested one."""
    for ref in (ns.Digits.image, ns.Everything.pose.axis):
        assert pickle.loads(pickle.dumps(ref)) == ref
        assert copy.deepcopy(ref) == ref
        assert copy.copy(ref) == ref


def test_references_are_keys(ns: SimpleNamespace) -> None:
    """Everything that takes a key takes a reference."""
    batch = everything(ns, 3)
    assert batch[ns.Everything.image] is batch.image
    assert batch[ns.Everything.pose.axis] is batch.pose.axis
    assert batch.get(ns.Everything.pose.axis) is batch.pose.axis
    assert batch.get(ns.Everything.hidden, "nothing") == "nothing"
    assert ns.Everything.image in batch
    assert ns.Everything.pose.axis in batch
    assert ns.Everything.hidden not in batch
    assert set(batch.select(ns.Everything.image, ns.Everything.pose.axis).keys(True, True)) == {
        "image",
        ("pose", "axis"),
    }
    assert "image" not in batch.exclude(ns.Everything.image)
    batch.set(ns.Everything.pose.axis, torch.ones(3, 3))
    assert batch.pose.axis.sum() == 9
    batch[ns.Everything.label] = torch.zeros(3, dtype=torch.int64)
    assert batch.label.sum() == 0
    batch.update({ns.Everything.source: "new"})
    assert batch.source == "new"
    assert TensorDict(image=torch.zeros(3), batch_size=[3])[ns.Digits.image].shape == (3,)


def test_a_typo_below_a_reference(ns: SimpleNamespace) -> None:
    """A misspelt nested field names the nearest; a field that is no tensorclass has no fields."""
    with pytest.raises(UnknownFieldError, match=r"axis"):
        ns.Everything.pose.axes
    with pytest.raises(UnknownFieldError, match=r"Everything.image.*not a tensorclass"):
        ns.Everything.image.axis


def test_references_of_a_child_belong_to_the_child(form: Form) -> None:
    """Inherited fields are fields of the child."""

    @form()
    class Parent(form.base):
        x: Float32[Tensor, ""]

    class Child(Parent):
        y: Float32[Tensor, ""]

    assert repr(Child.x).startswith("Child.x")
    assert repr(Parent.x).startswith("Parent.x")
    assert Child(torch.zeros(2), torch.ones(2))[Parent.x].sum() == 0


def test_an_optional_nested_reference_reads_none(ns: SimpleNamespace, form: Form) -> None:
    """A reference below an absent optional field reads as an absent key does."""

    @form()
    class Holder(form.base):
        x: Float32[Tensor, ""]
        inner: ns.Digits | None = None

    batch = Holder(torch.zeros(3))
    assert Holder.inner.image not in batch
    assert Holder(torch.zeros(3), digits(ns.Digits, 3)).get(Holder.inner.label).tolist() == [0, 1, 2]
