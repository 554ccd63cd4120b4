"""Class to format to class: the same instance, for every kind of field and every format."""

from __future__ import annotations

import types
from datetime import date
from enum import Enum
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import NonTensorStack, PerElement, RaggedTensor, Shared, TensorClass, field
from tensorclass.errors import UnsupportedOperationError
from tensorclass.testing import batches
from tensorclass.typing import (
    BFloat16,
    Bool,
    Complex64,
    Float8e5m2,
    Float16,
    Float32,
    Float64,
    Int8,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
)
from tests._versions import needs_package
from tests.io._exact import assert_same
from tests.io.exchange._formats import MEMORY, TEXT, TRIPS


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Pose(TensorClass):
    angle: Float32[Tensor, "2"]
    tags: PerElement[str]


class Deep(TensorClass):
    pose: Pose
    steps: Int64[RaggedTensor, "t"]


KINDS: dict[str, Any] = {
    "float32": Float32[Tensor, ""],
    "image": UInt8[Tensor, "2 3 2"],
    "double": Float64[Tensor, "3"],
    "half": Float16[Tensor, "2"],
    "brain": BFloat16[Tensor, "2 2"],
    "eight": Float8e5m2[Tensor, ""],
    "complex": Complex64[Tensor, "2"],
    "flag": Bool[Tensor, ""],
    "flags": Bool[Tensor, "3"],
    "int8": Int8[Tensor, "1"],
    "int64": Int64[Tensor, ""],
    "uint16": UInt16[Tensor, ""],
    "uint32": UInt32[Tensor, "2"],
    "uint64": UInt64[Tensor, ""],
    "empty": Float32[Tensor, "0 2"],
    "ragged": Float32[RaggedTensor, "t"],
    "frames": UInt8[RaggedTensor, "t 2 2"],
    "texts": PerElement[str],
    "words": PerElement[Literal["a", "b"]],
    "numbers": PerElement[int],
    "colors": PerElement[Color],
    "days": PerElement[date],
    "lists": PerElement[list[int]],
    "maps": PerElement[dict[str, int]],
    "maybe": PerElement[int | None],
    "source": str,
    "color": Color,
    "table": dict[str, list[int]],
    "scale": Shared[Float32[Tensor, "2"]],
    "pose": Pose,
    "deep": Deep,
}
OPTIONAL = ("image", "brain", "flag", "ragged", "texts", "source", "pose", "int64")


def make(names: Any) -> Any:
    """A class with these fields; those with a `?` are optional."""
    annotations: dict[str, Any] = {"row": Int64[Tensor, ""]}
    defaults: dict[str, Any] = {}
    for name in names:
        kind = KINDS[name.rstrip("?")]
        annotations[f"a_{name.rstrip('?')}"] = kind | None if name.endswith("?") else kind
        if name.endswith("?"):
            defaults[f"a_{name[:-1]}"] = field(default=None, kw_only=True)
    body = {"__annotations__": annotations, "__module__": __name__, **defaults}
    return types.new_class("Made", (TensorClass,), {}, lambda space: space.update(body))


def draw_batch(data: Any, names: Any, rows: Any) -> Any:
    """A class with these fields, and an instance."""
    cls = make(names)
    size = data.draw(rows)
    return cls, data.draw(batches(cls, batch_size=size))


def check(trip: Any, cls: Any, batch: Any, folder: Any) -> None:
    """The instance comes back, unless no table holds its values: surrogates, and integers of more than 64 bits."""
    whole = [value for name in ("a_numbers", "a_maybe") for value in getattr(batch, name, NonTensorStack()).tolist()]
    if "\\ud" in ascii(batch.to_dict()) or any(value is not None and abs(value) >= 2**63 for value in whole):
        return
    assert_same(trip(batch, cls, folder), batch)


@pytest.mark.parametrize("trip", TRIPS)
def test_every_kind(trip, tmp_path):
    """Each kind of field through each format."""
    for names in ([*KINDS], [f"{name}?" for name in OPTIONAL]):
        cls = make(names)
        batch = cls.example(batch_size=[3], seed=1)
        assert_same(TRIPS[trip](batch, cls, tmp_path), batch)


@needs_package("pyarrow", "26", "absent tensors in Parquet files")
@pytest.mark.parametrize("trip", [t for t in TRIPS if t != "dataset"])
def test_absent(trip, tmp_path):
    """Optional fields that are absent are nulls, and absent again."""
    cls = make([f"{name}?" for name in OPTIONAL])
    batch = cls(row=torch.arange(4))
    found = TRIPS[trip](batch, cls, tmp_path)
    assert_same(found, batch)
    assert found.a_pose is None


@pytest.mark.parametrize("trip", [t for t in TRIPS if t not in ("dataset", "", ".hf", "json", "json lines")])
def test_no_rows(trip, tmp_path):
    """A batch without rows keeps its fields, dtypes and event shapes."""
    cls = make(["float32", "image", "flags", "texts", "frames", "int64?", "pose"])
    batch = cls.example(batch_size=[2], seed=0)[:0].replace(a_int64=None)
    found = TRIPS[trip](batch, cls, tmp_path)
    assert found.batch_size == (0,)
    assert found.a_image.shape == (0, 2, 3, 2)
    assert (found.a_frames.lengths.shape, found.a_frames.dtype) == ((0,), torch.uint8)
    assert (found.a_int64 is None) == (trip != "polars")  # which drops what says that the field was absent


CHOICES = [*KINDS, *[f"{name}?" for name in OPTIONAL]]
NAMES = st.lists(st.sampled_from(CHOICES), max_size=5, unique_by=lambda name: name.rstrip("?"))


@pytest.mark.parametrize("trip", MEMORY)
@given(data=st.data(), names=NAMES)
@settings(deadline=None, max_examples=25)
def test_generated(trip, data, names):
    """Any instance of any class, with values that hypothesis finds: nan, infinities, empty texts, extreme numbers."""
    cls, batch = draw_batch(data, names, st.integers(1, 4))
    check(MEMORY[trip], cls, batch, None)


def holds_empty_text(batch: Any, name: str) -> bool:
    """Whether a field of texts holds an empty one, which CSV can't tell from an absent one."""
    value = getattr(batch, f"a_{name}")
    return value is not None and "" in ([value] if isinstance(value, str) else value.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("trip", [t for t in TRIPS if t not in MEMORY])
@given(data=st.data(), names=NAMES)
@settings(deadline=None, max_examples=25)
def test_generated_files(trip, data, names, tmp_path_factory):
    """The same through files."""
    cls, batch = draw_batch(data, names, st.integers(1, 4))
    if trip == "csv" and any(holds_empty_text(batch, name) for name in ("texts", "source") if f"{name}?" in names):
        with pytest.raises(UnsupportedOperationError, match="an empty text"):
            batch.to_csv(tmp_path_factory.mktemp("trip") / "x.csv")
        return
    check(TRIPS[trip], cls, batch, tmp_path_factory.mktemp("trip"))


def test_decimals_keep_undeclared_numbers_as_floats(tmp_path):
    """Text says no dtype: a field that declares none takes the default one."""
    cls = types.new_class("Free", (TensorClass,), {}, lambda s: s.update({"__annotations__": {"x": Tensor}}))
    batch = cls(torch.tensor([0.5, 2]), batch_size=[2])
    for trip in TEXT:
        assert TRIPS[trip](batch, cls, tmp_path).x.dtype is torch.float32


class Labelled(TensorClass):
    """A text that may lack, and a number of 64 bits."""

    large: UInt64[Tensor, ""]
    label: PerElement[str] | None = None


def test_what_csv_can_not_tell_apart(tmp_path):
    """An empty text of an optional field would be read as an absent one."""
    large = torch.tensor([2**63, 5], dtype=torch.uint64)
    for label in (["", "a"], ["", ""]):
        with pytest.raises(UnsupportedOperationError, match="`label` has an empty text"):
            Labelled(large=large, label=label).to_csv(tmp_path / "x.csv")
    for label in (None, ["a", "b"]):
        path = tmp_path / f"{label is None}.csv"
        Labelled(large=large, label=label).to_csv(path)
        found = Labelled.from_csv(path)
        assert found.large.tolist() == [2**63, 5]
        assert found.label is None if label is None else found.label.tolist() == label
