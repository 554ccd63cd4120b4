"""`batch.along("t")`: an event dim indexed in each field that declares it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tensorclass import PerElement, RaggedTensor, Shared, TensorClass, lazy_stack
from tensorclass.errors import ArgumentError, BatchIndexError, SchemaError, UnsupportedOperationError
from tensorclass.typing import Float32, Int64


class Series(TensorClass):
    x: Float32[Tensor, "t 3"]
    times: Shared[Float32[Tensor, "t"]]
    weights: Float32[Tensor, "... t t"]
    label: Int64[Tensor, ""]
    name: PerElement[str]
    extra: Float32[Tensor, "t"] | None = None


def series(t: int = 6, n: int = 2) -> Series:
    """A batch in which each value tells its time."""
    clock = torch.arange(float(t))
    return Series(
        x=clock[:, None].expand(n, t, 3).clone(),
        times=clock,
        weights=(clock[:, None] * 10 + clock).expand(n, 4, t, t),
        label=torch.arange(n),
        name=["a"] * n,
    )


class Forecast(TensorClass):
    past: Series
    future: Series | None = None


INDICES: list[Any] = [
    slice(2, 5), slice(-2, None), slice(None, None, 2), slice(0, 0), torch.tensor([5, 0, 0]), [1, 2], np.array([3]),
    torch.tensor([True, False, True, False, False, True]), [False, True, False, False, False, True],
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_fields_with_the_dim_are_indexed_and_others_kept(index: Any) -> None:
    """The same elements as an index of each tensor; the class stays."""
    batch = series()
    clock = torch.arange(6.0)[torch.as_tensor(index) if isinstance(index, list) else index]
    for found in (batch.along("t")[index], batch.along("t")[..., index]):
        assert type(found) is Series
        assert torch.equal(found.x, clock[:, None].expand(2, -1, 3))
        assert torch.equal(found.times, clock)
        assert torch.equal(found.weights, (clock[:, None] * 10 + clock).expand(2, 4, -1, -1))
        assert found.label is batch.label
        assert found.name.tolist() == ["a", "a"]
        found.validate()


def test_slices_share_memory_with_the_batch() -> None:
    """As an index of batch dims does."""
    batch = series()
    batch.along("t")[2:].x.zero_()
    assert batch.x[:, 2:].sum() == 0
    assert batch.x[:, 1].sum() > 0


@pytest.mark.parametrize("shape", [(), (2,), (1, 2)], ids=str)
def test_the_dim_is_an_event_dim_at_each_batch_size(shape: tuple[int, ...]) -> None:
    """One element, a batch and a batch of batches."""
    found = series().reshape(1, 2)[(0,) * (2 - len(shape))]
    assert found.along("t")[:4].x.shape == (*found.batch_size, 4, 3)


def test_a_lazy_stack_is_indexed_member_by_member() -> None:
    """Its members may have different sizes."""
    stack = lazy_stack([series(6, n=1), series(4, n=1)], dim=1)
    found = stack.along("t")[-3:]
    assert (type(found), found.batch_size) == (Series, (1, 2))
    assert found.x[0, :, :, 0].tolist() == [[3.0, 4.0, 5.0], [1.0, 2.0, 3.0]]


def test_a_split_covers_the_dim() -> None:
    """Parts of one size, or of the listed ones."""
    view = series(7).along("t")
    assert len(view) == 7
    assert [len(part.along("t")) for part in view.split(3)] == [3, 3, 1]
    assert [part.times.tolist() for part in view.split([1, 6])] == [[0.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]
    for wrong, words in ((0, "from 1"), ([3, 3], "add up to 6; `t` is 7"), ([], "from 1"), ([-1, 8], "from 1")):
        with pytest.raises(ArgumentError, match=words):
            view.split(wrong)


def test_nested_classes_have_dims_of_their_own() -> None:
    """The path names the scope; the other nested batch keeps its length."""
    both = Forecast(past=series(6), future=series(4))
    found = both.along("past.t")[-3:]
    assert type(found) is Forecast
    assert found.future is not None
    assert (found.past.times.tolist(), len(found.future.times)) == ([3.0, 4.0, 5.0], 4)
    with pytest.raises(ArgumentError, match="`future` is absent"):
        Forecast(past=series()).along("future.t")[:1]


@pytest.mark.parametrize("index", [slice(1, 3), slice(-2, None), slice(None, None, 2)], ids=str)
def test_ragged_elements_are_cut_each(index: slice) -> None:
    """A slice counts from the ends of each element; the rows themselves are indexed by their own dims."""

    class Sound(TensorClass):
        mel: Float32[RaggedTensor, "t d"]

    parts = [torch.arange(8.0).reshape(4, 2), torch.arange(2.0).reshape(1, 2), torch.arange(6.0).reshape(3, 2)]
    sounds = Sound(mel=parts, batch_size=[3])
    for mine, theirs in zip(sounds.along("t")[index].mel.tolist(), parts, strict=True):
        assert torch.equal(mine, theirs[index])
    for mine, theirs in zip(sounds.along("d")[[1]].mel.tolist(), parts, strict=True):
        assert torch.equal(mine, theirs[:, [1]])
    with pytest.raises(ArgumentError, match="take a slice"):
        sounds.along("t")[[0]]
    with pytest.raises(ArgumentError, match="no tensor with a size"):
        len(sounds.along("t"))


@pytest.mark.parametrize(
    ("dim", "index", "words"),
    [
        ("t", 3, r"use the slice `\[3:4\]`"), ("t", -1, r"use the slice `\[-1:\]`"), ("t", None, "got None"),
        ("t", (0, 1), "index batch dims first"), ("t", torch.zeros(2, 2, dtype=torch.bool), "of one dim"),
        ("t", torch.zeros(3), "positions or a mask"), ("t", slice(None, None, -1), "step"),
        ("t", torch.ones(3, dtype=torch.bool), "mask has 3 elements; the dim has 6"), ("tt", slice(1), "mean `t`"),
        ("past", slice(1), "no dim `past`"), (0, slice(1), "by its name"), ("x.t", slice(1), "not a nested class"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_dims_and_indices_are_refused(dim: Any, index: Any, words: str) -> None:
    """The message says how to write it."""
    with pytest.raises(ArgumentError, match=words):
        series().along(dim)[index]


def test_positions_outside_and_assignments_are_told() -> None:
    """The errors name the dim, and the way to write that they name works."""

    class Wave(TensorClass):
        x: Float32[Tensor, "t"]

    wave = Wave(torch.arange(12.0).reshape(2, 6))
    with pytest.raises(BatchIndexError, match=r"along: positions are from -6 to 5, got \[6\]"):
        wave.along("t")[[6]]
    with pytest.raises(UnsupportedOperationError, match=r"`part.update_\(value\)`"):
        wave.along("t")[2:4] = wave
    part = wave.along("t")[2:4]
    part.update_(wave.along("t")[4:6])
    assert wave.x[:, 2:4].tolist() == [[4, 5], [10, 11]]


def test_sizes_that_follow_from_the_dim_are_refused() -> None:
    """No index of `t` gives the elements of `t+1`; a field that another one fixes is refused by the declaration."""

    class Edges(TensorClass):
        x: Float32[Tensor, "t"]
        bounds: Float32[Tensor, "t+1"]
        early: Float32[Tensor, "u ..."]

    edges = Edges(torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(2, 5))
    with pytest.raises(ArgumentError, match="follows from `t`"):
        edges.along("t")
    with pytest.raises(ArgumentError, match="put `u` behind them"):
        edges.along("u")
    with pytest.raises(ArgumentError, match=r"dims are \['past.t', 'future.t'\]"):
        Forecast(past=series()).along("t")


def test_the_declaration_still_holds() -> None:
    """A validator of the class sees the shorter batch."""

    class Long(TensorClass):
        x: Float32[Tensor, "t"]

        def __post_init__(self) -> None:
            if self.x.shape[-1] < 4:
                raise SchemaError("at least four steps")

    batch = Long(torch.zeros(2, 6))
    assert batch.along("t")[:4].x.shape == (2, 4)
    with pytest.raises(SchemaError, match="four steps"):
        batch.along("t")[:3]
