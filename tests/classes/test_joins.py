"""Stack, cat and collate by the policy of each field."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tensorclass import PerElement, Shared, TensorClass, collate, equal, field
from tensorclass.errors import SchemaError, StructureError
from tensorclass.typing import Bool, Float32, Int64
from tests.classes._samples import Form, aligned, digits, everything

JOINS = {"stack": torch.stack, "cat": torch.cat, "collate": collate}


@pytest.mark.parametrize("how", JOINS)
def test_every_kind_of_field_joins(ns: SimpleNamespace, how: str) -> None:
    """Per-element values, nested classes and shared tensors join with the rest, also from parts of a batch."""
    batch = everything(ns, 4)
    result = JOINS[how]([batch[:2], batch[2:]])
    assert type(result) is ns.Everything
    assert result.batch_size == torch.Size([4] if how == "cat" else [2, 2])
    aligned(result)
    assert equal(result.reshape(4), batch)


@pytest.mark.parametrize("how", JOINS)
def test_shared_values_must_agree(ns: SimpleNamespace, how: str) -> None:
    """A plain value is one for the batch: values that differ are refused, with field, values and positions."""
    batch = digits(ns.Digits, 2)
    other = batch.replace(source="mail")
    with pytest.raises(StructureError, match=r"source.*'scan'.*'mail'.*PerElement"):
        JOINS[how]([batch, other])


@pytest.mark.parametrize("how", JOINS)
def test_shared_tensors_must_agree(ns: SimpleNamespace, how: str) -> None:
    """Equal tensors join to one of them; others are refused."""
    batch = everything(ns, 2)
    same = batch.replace(table=batch.table.clone())
    assert torch.equal(JOINS[how]([batch, same]).table, batch.table)
    with pytest.raises(StructureError, match="table"):
        JOINS[how]([batch, batch.replace(table=batch.table + 1)])


@pytest.mark.parametrize("how", JOINS)
def test_optional_fields_join_with_their_like(ns: SimpleNamespace, how: str) -> None:
    """All absent stays absent; a mixture is refused with field and positions, unless the policy is `fill`."""
    with_mask = everything(ns, 2)
    without = with_mask.replace(mask=None)
    assert JOINS[how]([without, without]).mask is None
    with pytest.raises(StructureError, match=r"mask.*position 0.*None at position 1.*fill"):
        JOINS[how]([with_mask, without])
    with pytest.raises(StructureError, match=r"mask.*position 1.*None at position 0"):
        JOINS[how]([without, with_mask])


@pytest.mark.parametrize("how", JOINS)
def test_the_fill_policy(form: Form, how: str) -> None:
    """`fill` stands for the tensors that are absent, by default zero, in the dtype and shape of the others."""

    @form()
    class Filled(form.base):
        x: Float32[Tensor, ""]
        mask: Bool[Tensor, "2"] | None = field(default=None, join="fill", fill=True)
        weight: Float32[Tensor, "2"] | None = field(default=None, join="fill")

    full = Filled(torch.zeros(2), torch.zeros(2, 2) > 0, torch.ones(2, 2))
    result = JOINS[how]([full, Filled(torch.zeros(2)), full])
    rows = result.reshape(-1)
    assert rows.weight.dtype is torch.float32
    assert rows.weight[:, 0].tolist() == [1, 1, 0, 0, 1, 1]
    assert rows.mask[:, 0].tolist() == [False, False, True, True, False, False]
    assert JOINS[how]([Filled(torch.zeros(2))] * 2).weight is None


def test_the_fill_policy_with_sizes_that_differ(form: Form) -> None:
    """Filled rows have the batch size of the part they stand in for."""

    @form()
    class Filled(form.base):
        x: Float32[Tensor, ""]
        weight: Float32[Tensor, "2"] | None = field(default=None, join="fill", fill=7)

    result = torch.cat([Filled(torch.zeros(1)), Filled(torch.zeros(2), torch.ones(2, 2)), Filled(torch.zeros(3))])
    assert result.weight[:, 0].tolist() == [7, 1, 1, 7, 7, 7]


def test_produced_fields_join_with_their_like(ns: SimpleNamespace) -> None:
    """A field that one batch has produced and another not is refused."""
    fresh, done = everything(ns, 2), everything(ns, 2)
    done.hidden = torch.zeros(2, 4)
    with pytest.raises(StructureError, match=r"hidden.*not produced"):
        torch.stack([done, fresh])


def test_other_classes_do_not_join(ns: SimpleNamespace) -> None:
    """The error names both classes and positions."""
    with pytest.raises(StructureError, match=r"Everything.*Digits"):
        torch.stack([everything(ns, 2), digits(ns.Digits, 2)])
    with pytest.raises(StructureError, match=r"Digits.*TensorDict"):
        torch.cat([digits(ns.Digits, 2), digits(ns.Digits, 2).to_tensordict()])


@pytest.mark.parametrize("how", JOINS)
def test_event_shapes_that_differ_are_named(ns: SimpleNamespace, how: str) -> None:
    """`h` may differ between batches, but not when they are joined; the error names field and shapes."""
    one = digits(ns.Digits, 2)
    two = ns.Digits(torch.zeros(2, 5, 3), torch.arange(2))
    with pytest.raises((StructureError, SchemaError), match=r"image.*\[2, 2, 3\].*\[2, 5, 3\]"):
        JOINS[how]([one, two])


def test_dtypes_that_differ_join_within_the_declaration(ns: SimpleNamespace) -> None:
    """A family field may promote; an exact one never differs."""
    one = ns.Soft(torch.zeros(2, 2), torch.zeros(2), batch_size=[2])
    two = ns.Soft(torch.zeros(2, 2, dtype=torch.float64), torch.zeros(2), batch_size=[2])
    assert torch.cat([one, two]).x.dtype is torch.float64


def test_nested_policies_hold(form: Form) -> None:
    """The policy of a field in a nested class is used when the outer is joined; the path is whole."""

    @form()
    class Inner(form.base):
        x: Float32[Tensor, ""]
        note: str = "a"

    @form()
    class Outer(form.base):
        inner: Inner
        n: Int64[Tensor, ""]

    def outer(note: str) -> Any:
        return Outer(Inner(torch.zeros(2), note), torch.arange(2))

    assert torch.stack([outer("a"), outer("a")]).inner.note == "a"
    with pytest.raises(StructureError, match=r"inner\.note"):
        torch.stack([outer("a"), outer("b")])


def test_numbers_and_containers_as_values(form: Form) -> None:
    """Values are compared by `==`, arrays included."""

    @form()
    class Config(form.base):
        x: Float32[Tensor, ""]
        sizes: list[int]
        table: dict[str, Any]

    batch = Config(torch.zeros(2), [1, 2], {"a": 1})
    assert torch.stack([batch, batch.replace(sizes=[1, 2])]).sizes == [1, 2]
    with pytest.raises(StructureError, match="sizes"):
        torch.stack([batch, batch.replace(sizes=[1, 3])])


def test_per_element_values_of_one_object(form: Form) -> None:
    """One value given for the batch is one for each element after a join."""

    @form()
    class Named(form.base):
        x: Float32[Tensor, ""]
        who: PerElement[str]
        table: Shared[Tensor] | None = None

    one, two = Named(torch.zeros(2), "a"), Named(torch.zeros(2), "b")
    assert torch.cat([one, two]).who.tolist() == ["a", "a", "b", "b"]
    assert torch.stack([one, two], 1).who.tolist() == [["a", "b"], ["a", "b"]]
    assert torch.cat([one, two]).table is None


@pytest.mark.parametrize("policy", ["sum", "keep"])
def test_unknown_policies_are_refused_at_declaration(policy: Any) -> None:
    """A policy that does not exist is an error where it is written."""
    with pytest.raises(SchemaError, match=policy):
        field(join=policy)


@pytest.mark.parametrize("how", ["stack", "cat"])
@pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, about quantised tensors and sparse layouts
@pytest.mark.parametrize(
    "make",
    [
        lambda n: torch.tensor([[0.0, n], [1.0, float("nan")]]).to_sparse(),
        lambda n: torch.tensor([[0.0, n], [1.0, 2.0]]).to_sparse_csr(),
        lambda n: torch.tensor([[0.0, n], [1.0, 2.0]]).to_sparse_csc(),
        lambda n: torch.quantize_per_tensor(torch.tensor([n, 1.0]), 1.0, 0, torch.qint8),
        lambda n: np.ma.array([1.0, n], mask=[True, False]),
        lambda n: np.ma.array([1, 2], mask=[n == 2.0, True]),
    ],
    ids=["sparse", "csr", "csc", "quantised", "masked", "mask"],
)
def test_objects_of_other_layouts_are_compared_by_content(form: Form, how: str, make: Any) -> None:
    """A value that torch's `==` does not take is compared by what it stores; a mask is part of an array."""

    @form()
    class Held(form.base):
        x: Float32[Tensor, ""]
        kept: list[Any]

    one, same, other = [Held(torch.zeros(2), [make(n)]) for n in (2.0, 2.0, 3.0)]
    getattr(torch, how)([one, same])
    with pytest.raises(StructureError, match="kept"):
        getattr(torch, how)([one, other])


class Photo(TensorClass):
    """An image of any size."""

    pixels: Float32[Tensor, "3 h w"]


@pytest.mark.parametrize("join", [torch.stack, collate])
def test_elements_of_several_sizes(join: Any) -> None:
    """The error says how to declare them."""
    photos = [Photo(pixels=torch.zeros(3, 4, size)) for size in (4, 5)]
    with pytest.raises(StructureError, match=r'`pixels`: shapes differ.*`field\(join="pad"\)` or a ragged field'):
        join(photos)
