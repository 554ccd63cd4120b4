"""Padding, padded sequences and back, groups, duplicates, merging, comparison."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tensorclass import (
    PerElement,
    TensorClass,
    TensorDict,
    assert_allclose_td,
    assert_close,
    expand_as_right,
    expand_right,
    fromkeys,
    group_by,
    isin,
    merge_tensordicts,
    pad,
    pad_sequence,
    remove_duplicates,
    unpad_sequence,
)
from tensorclass.errors import BatchDimError, BatchSizeError, MissingKeyError, StructureError
from tensorclass.store import _sequences
from tensorclass.typing import Float32, Int64


class Scan(TensorClass):
    """A typed batch with one name for each element."""

    image: Float32[torch.Tensor, "2"]
    who: PerElement[str]


# ---- pad ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-1, 2), min_size=4, max_size=4), st.sampled_from([0.0, 3.0]))
def test_pad_follows_torch(sizes: list[int], value: float) -> None:
    """Before and after each batch dim, the first dim first; negative numbers cut; names and nesting stay."""
    data = TensorDict(a=torch.rand(3, 4, 2), n={"b": torch.rand(3, 4)}, batch_size=[3, 4], names=["x", "y"])
    result = data.pad(sizes, value)
    order = [*sizes[2:], *sizes[:2]]
    assert torch.equal(result["n", "b"], torch.nn.functional.pad(data["n", "b"], order, value=value))
    assert torch.equal(result["a"], torch.nn.functional.pad(data["a"], [0, 0, *order], value=value))
    assert result.names == ["x", "y"]
    assert result["n"].batch_size == result.batch_size


def test_pad_in_place_and_objects() -> None:
    """The object stays itself; new elements of objects are None."""
    data = TensorDict(a=torch.ones(2), who=["p", "q"], tag="x", batch_size=[2])
    assert pad(data, [1, 0], inplace=True) is data
    assert data["a"].tolist() == [0.0, 1.0, 1.0]
    assert data["who"] == [None, "p", "q"]
    assert data["tag"] == [None, "x", "x"]
    assert data.pad([-1, 0])["who"] == ["p", "q"]
    batch = Scan(image=torch.ones(2, 2), who=["p", "q"], batch_size=[2])
    assert type(batch.pad([-1, 0])) is Scan
    with pytest.raises(StructureError, match="`who`"):
        batch.pad([1, 0])


@pytest.mark.parametrize(
    ("sizes", "value", "message"),
    [([1], 0.0, "two numbers"), ([0, 0, 1, 1], 0.0, "at most 1"), ([-2, -2], 0.0, "cuts more"), ([1, 0], 1.5, "`i`")],
)
def test_wrong_padding_is_refused(sizes: list[int], value: float, message: str) -> None:
    """Nothing is changed, also in place."""
    data = TensorDict(a=torch.ones(3), i=torch.ones(3, dtype=torch.int64), batch_size=[3])
    with pytest.raises((BatchSizeError, StructureError), match=message):
        data.pad(sizes, value, inplace=True)
    assert data.batch_size == (3,)
    assert data["a"].shape == (3,)


# ---- sequences ---------------------------------------------------------------------------------------------------


def episodes(*lengths: int) -> list[TensorDict]:
    """Samples that differ in length, nested, each with a name."""
    return [
        TensorDict(a=torch.arange(n), n={"b": torch.rand(n, 2)}, who=[f"{n}.{i}" for i in range(n)], batch_size=[n])
        for n in lengths
    ]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.sampled_from(["left", "right"]))
def test_padded_sequences_come_back(lengths: list[int], side: str) -> None:
    """`unpad_sequence` inverts `pad_sequence` with masks, on either side."""
    items = episodes(*lengths)
    padded = pad_sequence(items, return_mask=True, padding_side=side)
    assert padded.batch_size == (len(lengths), max(lengths))
    assert padded["masks", "a"].sum(-1).tolist() == lengths
    for sample, item in zip(unpad_sequence(padded).unbind(0), items, strict=True):
        assert sample.batch_size == item.batch_size
        assert torch.equal(sample["a"], item["a"])
        assert torch.equal(sample["n", "b"], item["n", "b"])
        assert sample.get_non_tensor("who") == item["who"]


def test_event_dims_are_padded_each_to_its_own_length() -> None:
    """Without batch dims every entry has its own lengths, and its own masks."""
    items = [TensorDict(a=torch.ones(n, 8), b=torch.ones(6, 8), s="x") for n in (3, 5)]
    padded = pad_sequence(items, padding_value={"a": -1.0}, return_mask="valid")
    assert (padded["a"].shape, padded["b"].shape) == ((2, 5, 8), (2, 6, 8))
    assert padded["a"][0, 3:].eq(-1).all()
    assert padded["valid", "a"].sum(-1).tolist() == [3, 5]
    assert [row["a"].shape[0] for row in unpad_sequence(padded.exclude("valid"), padded["valid"]).unbind(0)] == [3, 5]
    wide = [TensorDict(a=torch.ones(2, n), batch_size=[2]) for n in (5, 3)]
    assert pad_sequence(wide, pad_dim=1, return_mask=True)["masks", "a"].shape == (2, 2, 5)
    assert pad_sequence(wide, pad_dim=-1)["a"].shape == (2, 2, 5)


def test_typed_sequences_keep_their_class() -> None:
    """Without objects that have no value in new places."""

    class Step(TensorClass):
        obs: Float32[torch.Tensor, "3"]

    steps = [Step(obs=torch.ones(n, 3), batch_size=[n]) for n in (1, 2)]
    padded = pad_sequence(steps)
    assert type(padded) is Step
    assert padded.obs.sum((1, 2)).tolist() == [3.0, 6.0]
    mask = torch.tensor([[True, False], [True, True]])
    assert [row.batch_size[0] for row in unpad_sequence(padded, mask).unbind(0)] == [1, 2]


class Limb(TensorClass):
    """A nested sample with further batch dims."""

    angle: Float32[torch.Tensor, ""]


class Turn(TensorClass):
    """A typed sample."""

    obs: Float32[torch.Tensor, "d"]
    limbs: Limb
    when: Int64[torch.Tensor, ""] | None = None


def typed_samples(*lengths: int) -> list[Turn]:
    """Samples that differ in length, with an optional field that is there or not."""
    return [
        Turn(torch.rand(n, 3), Limb(torch.rand(n, 2)), torch.arange(n) if len(lengths) % 2 else None) for n in lengths
    ]


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.sampled_from(["left", "right"]),
    st.sampled_from([0, 2, -1.5, {"n": 1}, {("n", "b"): 3.0, "a": 7}]),
    st.sampled_from(["objects", "tensors", "typed"]),
)
def test_columns_are_padded_as_samples_are(lengths: list[int], side: str, value: Any, kind: str) -> None:
    """One call for each entry gives what padding and stacking the samples gives, and the same errors."""
    items: list[Any] = [item if kind == "objects" else item.exclude("who") for item in episodes(*lengths)]
    if kind == "typed":
        items, value = typed_samples(*lengths), 0
    found: list[Any] = []
    with patch.object(_sequences, "_stacked_by_column", lambda *_: None):
        found.append(outcome(pad_sequence, items, padding_value=value, padding_side=side))
    found.append(outcome(pad_sequence, items, padding_value=value, padding_side=side))
    apart, whole = found
    assert type(whole) is type(apart)
    if isinstance(whole, Exception):
        assert str(whole) == str(apart)
        return
    assert_close(whole, apart)
    assert whole.batch_size == apart.batch_size
    assert {key: leaf.dtype for key, leaf in whole.items(True, True)} == {
        key: leaf.dtype for key, leaf in apart.items(True, True)
    }


def outcome(function: Any, *args: Any, **options: Any) -> Any:
    """The result of a call, or its error."""
    try:
        return function(*args, **options)
    except (StructureError, MissingKeyError) as error:
        return error


A3 = TensorDict(a=torch.ones(3), batch_size=[3])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: pad_sequence([]), StructureError, "empty"),
        (lambda: pad_sequence([A3, A3.rename_keys({"a": "b"})]), StructureError, "`a`"),
        (lambda: pad_sequence([A3], padding_side="up"), ValueError, "'up'"),
        (lambda: pad_sequence([A3], padding_value={"aa": 1.0}), MissingKeyError, "did you mean `a`"),
        (lambda: pad_sequence([A3], pad_dim=1), IndexError, "`a`"),
        (
            lambda: pad_sequence([TensorDict(A3, batch_size=[3]).set("b", torch.ones(3, 2))], pad_dim=-1),
            ValueError,
            "batch dim",
        ),
        (lambda: unpad_sequence(TensorDict(a=1)), ValueError, "first batch dim"),
        (lambda: unpad_sequence(A3.unsqueeze(0)), ValueError, "masks"),
        (lambda: unpad_sequence(A3.unsqueeze(0), torch.ones(1, 2).bool()), ValueError, "shape"),
        (lambda: unpad_sequence(A3.unsqueeze(0), torch.tensor([[True, False, True]])), ValueError, "gap"),
        (lambda: unpad_sequence(A3.unsqueeze(0), TensorDict()), MissingKeyError, "`a`"),
    ],
)
def test_wrong_sequences_are_refused(call: Any, error: type[Exception], message: str) -> None:
    """The message names the entry or the position."""
    with pytest.raises(error, match=message):
        call()


# ---- the others --------------------------------------------------------------------------------------------------


def test_expansion_to_the_right() -> None:
    """New dims come last; leading dims must fit."""
    assert expand_right(torch.arange(3), (3, 2)).tolist() == [[0, 0], [1, 1], [2, 2]]
    assert expand_right(torch.zeros(1), (3, 2)).shape == (3, 2)
    assert expand_as_right(torch.zeros(3), TensorDict(batch_size=[3, 4])).shape == (3, 4)
    assert expand_as_right(TensorDict(a=torch.zeros(3), batch_size=[3]), torch.zeros(3, 4))["a"].shape == (3, 4)
    for shape in ((4, 3), ()):
        with pytest.raises(BatchSizeError, match="does not lead"):
            expand_right(torch.zeros(3), shape)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_groups_partition_the_rows(keys: list[int]) -> None:
    """Sorted values, rows in their order, for tensors and for objects alike."""
    data = TensorDict(k=torch.tensor(keys), i=torch.arange(len(keys)), batch_size=[len(keys)])
    data["s"] = [f"k{key}" for key in keys]
    values, groups = group_by(data, "k")
    names, by_name = group_by(data, "s")
    assert values.tolist() == sorted(set(keys))
    assert names == [f"k{key}" for key in sorted(set(keys))]
    for value, group, named in zip(values.tolist(), groups, by_name, strict=True):
        wanted = [i for i, key in enumerate(keys) if key == value]
        assert group["i"].tolist() == named["i"].tolist() == wanted


def test_groups_by_nothing_are_refused() -> None:
    """No batch dim, an absent key, a container, objects without an order."""
    data = TensorDict(n={"b": torch.zeros(2)}, mixed=["a", 1], batch_size=[2])
    with pytest.raises(BatchDimError):
        group_by(TensorDict(a=1), "a")
    with pytest.raises(MissingKeyError, match="`c`"):
        group_by(data, "c")
    for key in ("n", "mixed"):
        with pytest.raises(TypeError, match=f"`{key}`"):
            group_by(data, key)


def test_duplicates() -> None:
    """The first of each value, sorted by it, and where each element went."""
    data = TensorDict(x=torch.tensor([7, 1, 7, 3]), y=torch.arange(4), batch_size=[4])
    out, where = remove_duplicates(data, "x", return_indices=True)
    assert (out["x"].tolist(), out["y"].tolist(), where.tolist()) == ([1, 3, 7], [1, 3, 0], [2, 0, 2, 1])
    wide = TensorDict(x=torch.tensor([[1, 1, 2], [3, 3, 4]]), batch_size=[2, 3])
    assert remove_duplicates(wide, "x", 1).batch_size == (2, 2)
    assert isin(data, data[:1], "x").tolist() == [True, False, True, False]
    for wrong in (lambda: isin(data, data, "x", 1), lambda: remove_duplicates(data, "x", 1)):
        with pytest.raises(BatchDimError):
            wrong()
    with pytest.raises(BatchSizeError, match="slices of `x`"):
        isin(data, TensorDict(x=torch.zeros(4, 2), batch_size=[4]), "x")
    with pytest.raises(MissingKeyError, match="not a tensor"):
        remove_duplicates(data.set_non_tensor("s", "a"), "s")


def test_merging() -> None:
    """All keys, the first value of each, or what a function makes of those that all hold."""
    first, second = TensorDict(a={"b": 0}, c=0), TensorDict(a={"d": 1}, f=1, c=1)
    merged = merge_tensordicts(first, second)
    assert sorted(merged.keys(True, True), key=str) == [("a", "b"), ("a", "d"), "c", "f"]
    assert merged["c"].item() == 0
    assert merge_tensordicts(first, second, callback_exist=lambda *v: torch.stack(v))["c"].tolist() == [0, 1]
    assert merge_tensordicts(first, second, callback_exist={"c": max})["c"].item() == 1
    assert "f" not in first
    with pytest.raises(StructureError, match="at least two"):
        merge_tensordicts(first)
    assert fromkeys(["a", ("b", "c")], 1)["b", "c"].item() == 1


def test_assertions_name_the_key() -> None:
    """Close containers pass; others say which key differs, and how."""
    data = TensorDict(x=torch.zeros(3), n={"y": torch.tensor([1.0, float("nan")])}, s="a")
    assert assert_close(data, data.clone())
    assert assert_allclose_td is assert_close
    assert assert_close(data, data.exclude("x"), intersection=True)
    with pytest.raises(AssertionError, match=r"`p\.n\.y` does not match: (?s:.*)hello"):
        assert_close(data, data.clone().set(("n", "y"), torch.ones(2)), prefix="p", msg="hello")
    with pytest.raises(AssertionError, match=r"`n\.y`"):
        assert_close(data, data.clone(), equal_nan=False)
    with pytest.raises(MissingKeyError, match="`x`"):
        assert_close(data, data.exclude("x"))
    with pytest.raises(AssertionError, match="`x` is a Tensor and a str"):
        assert_close(data, data.exclude("x").set("x", "a"))
    with pytest.raises(TypeError, match="int"):
        assert_close(data, 3)
