"""Rows of every container with every kind of entry; order, groups and summaries against pandas and numpy."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from tensorclass import (
    MetaData,
    NonTensorStack,
    PerElement,
    Ragged,
    RaggedTensor,
    Shared,
    TensorClass,
    TensorDict,
    TypedTensorDict,
    lazy_stack,
)
from tensorclass.classes._build import member_names
from tensorclass.errors import (
    ArgumentError,
    BatchDimError,
    BatchSizeError,
    KeySetError,
    MissingKeyError,
    SchemaError,
    UnsupportedOperationError,
)
from tensorclass.ops._by_row import RowOps
from tensorclass.typecheck import _rules
from tensorclass.typing import Bool, Float32, Int64
from tests.contract._elements import assert_elements, elements
from tests.contract._entry_kinds import ENTRIES, HOLDERS, UNEVEN

NAMES = [name for name in vars(RowOps) if not name.startswith("_")]
SIZES = ((3,), (3, 2))


def generator() -> torch.Generator:
    """Equal random numbers each time."""
    return torch.Generator().manual_seed(7)


ORDER = torch.randperm(3, generator=generator()).tolist()
OPS: dict[str, tuple[Callable[[Any], Any], list[int]]] = {
    "head": (lambda b: b.head(2), [0, 1]),
    "head, from the end": (lambda b: b.head(-1), [0, 1]),
    "head of more": (lambda b: b.head(), [0, 1, 2]),
    "shuffle": (lambda b: b.shuffle(generator()), ORDER),
    "sample": (lambda b: b.sample(2, generator=generator()), ORDER[:2]),
    "sample again": (
        lambda b: b.sample(5, replacement=True, generator=generator()),
        torch.randint(3, (5,), generator=generator()).tolist(),
    ),
    "filter": (lambda b: b.filter([True, False, True]), [0, 2]),
    "filter by function": (lambda b: b.filter(lambda rows: torch.arange(len(rows)) > 0), [1, 2]),
    "filter nothing": (lambda b: b.filter(np.zeros(3, dtype=bool)), []),
    "sort_by": (lambda b: b.sort_by("own", descending=True), [2, 1, 0]),
    "unique_by": (lambda b: b.unique_by("own"), [0, 1, 2]),
    "first of iter": (lambda b: next(b.iter(2)), [0, 1]),
    "last of iter": (lambda b: list(b.iter(2, shuffle=True, generator=generator()))[-1], ORDER[2:]),
    "a group": (lambda b: list(b.group_by("own").values())[1], [1]),
}


def cases() -> list[Any]:
    """Every holder with every entry that it can hold."""
    found = []
    for holder in HOLDERS:
        for kind in ENTRIES:
            for size in SIZES:
                inner = size[1:] if holder == "stack" else size
                fits = inner or not kind.startswith("lazy")
                if fits and not (holder == "class" and kind == "jagged"):
                    found.append(pytest.param(holder, kind, size, id=f"{holder}-{kind}-{len(size)}"))
    return found


@pytest.mark.parametrize(("holder", "kind", "size"), cases())
def test_rows(holder: str, kind: str, size: tuple[int, ...]):
    """Each operation gives the rows that it says, of the same class; the batch stays as it was."""
    batch = HOLDERS[holder](kind, size)
    before = elements(batch)
    for name, (call, rows) in OPS.items():
        found = call(batch)
        assert isinstance(found, TensorClass) == isinstance(batch, TensorClass), name
        wanted = {(i, *at[1:]): before[at] for i, row in enumerate(rows) for at in before if at[0] == row}
        assert_elements(found, wanted)
    assert_elements(batch, before)
    text = repr(batch.describe())
    assert "own" in text.split()
    assert "<table" in batch.describe()._repr_html_()
    assert "own" in batch._repr_html_()
    if kind not in UNEVEN:  # which `to_dict` refuses
        assert repr(batch.asdict()) == repr(batch.to_dict())


class Row(TensorClass):
    """Every kind of key."""

    whole: Tensor
    real: Tensor
    pair: Tensor
    word: PerElement[str]
    maybe: PerElement[str | None]
    tokens: Ragged[Tensor, "t"]
    tag: str = "scan"


def rows(kind: str) -> Any:
    """Six rows with ties, nan, None, as a class, a container, and a stack of containers."""
    nan = float("nan")
    typed = Row(
        whole=torch.tensor([2, 0, 2, 1, 0, 2]),
        real=torch.tensor([0.5, nan, -1.0, nan, 0.5, float("inf")]),
        pair=torch.tensor([[1, 2], [0, 5], [1, 2], [1, 0], [0, 5], [9, 9]]),
        word=["b", "a", "b", "c", "a", "a"],
        maybe=["x", None, "x", "a", None, "b"],
        tokens=[torch.tensor(t) for t in ([1, 2], [3], [1, 2], [0], [3], [3, 4])],
        batch_size=6,
    )
    loose = typed.to_tensordict()
    return {"class": typed, "dict": loose, "stack": lazy_stack(list(loose.unbind(0)))}[kind]


def frame() -> pd.DataFrame:
    """The same as a table, with the number of each row."""
    batch = rows("class")
    data = {name: batch.get(name).tolist() for name in ("whole", "real", "word", "maybe")}
    data["pair"] = [tuple(pair) for pair in batch.pair.tolist()]
    data["tokens"] = [tuple(t.tolist()) for t in batch.tokens.tolist()]
    return pd.DataFrame({**data, "at": range(6)})


KEYS = [("whole",), ("real",), ("pair",), ("word",), ("maybe",), ("tokens",), ("word", "whole"), ("whole", "real")]
KINDS = ["class", "dict", "stack"]


def places(batch: Any, found: Any) -> list[int]:
    """Which rows of a batch a result has, where equal rows are told apart by memory or content in order."""
    mine = [repr(batch[i].to_dict()) for i in range(len(batch))]
    return [mine.index(repr(found[i].to_dict())) for i in range(len(found))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keys", KEYS, ids="+".join)
@pytest.mark.parametrize("descending", [False, True])
def test_order(kind: str, keys: tuple[str, ...], descending: bool):
    """The order is that of pandas: stable, what is missing last."""
    batch = rows(kind)
    wanted = frame().sort_values(list(keys), ascending=not descending, kind="stable")
    assert places(batch, batch.sort_by(*keys, descending=descending)) == places(batch, batch[wanted["at"].tolist()])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keys", KEYS, ids="+".join)
def test_groups(kind: str, keys: tuple[str, ...]):
    """Groups are those of pandas, in its order, what is missing as the last one."""
    batch = rows(kind)
    wanted = frame().groupby(list(keys), dropna=False)["at"].apply(list)
    found = batch.group_by(*keys)
    assert [places(batch, group) for group in found.values()] == [places(batch, batch[at]) for at in wanted]
    shown = [[str(part) for part in (label if isinstance(label, tuple) else (label,))] for label, _ in found]
    theirs = [[str(part) for part in (label if isinstance(label, tuple) else (label,))] for label in wanted.index]
    assert shown == [["None" if keys == ("maybe",) and part == "nan" else part for part in label] for label in theirs]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keys", KEYS, ids="+".join)
@pytest.mark.parametrize("keep", ["first", "last"])
def test_unique(kind: str, keys: tuple[str, ...], keep: Any):
    """One row of each kind stays, that of pandas."""
    batch = rows(kind)
    wanted = frame().drop_duplicates(list(keys), keep=keep)["at"].tolist()
    assert places(batch, batch.unique_by(*keys, keep=keep)) == places(batch, batch[wanted])


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.uint16,
        torch.uint32,
        torch.uint64,
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.float8_e4m3fn,
        torch.complex64,
    ],
    ids=str,
)
def test_dtypes(dtype: torch.dtype):
    """Keys have any dtype; the largest unsigned numbers are the largest."""
    values = torch.tensor([3, 1, 0, 1, 2]).to(dtype)
    batch = TensorDict(a=values, at=torch.arange(5), batch_size=[5])
    wanted = [2, 1, 3, 4, 0] if dtype is not torch.bool else [2, 0, 1, 3, 4]
    assert batch.sort_by("a")["at"].tolist() == wanted
    assert len(batch.group_by("a")) == (2 if dtype is torch.bool else 4)
    if dtype is torch.uint64:
        big = TensorDict(a=torch.tensor([-1, 5, 0]).view(torch.uint64), batch_size=[3])
        assert [*big.group_by("a").keys()] == [0, 5, 2**64 - 1]


def test_no_rows():
    """Without rows every operation gives none; a sample of some is refused."""
    batch = rows("class")[:0]
    for call in (
        lambda b: b.head(),
        lambda b: b.shuffle(),
        lambda b: b.sort_by("real"),
        lambda b: b.unique_by("word", "pair"),
        lambda b: b.filter([]),
        lambda b: b.sample(0),
        lambda b: b.sort_by("tokens", "maybe"),
    ):
        assert call(batch).batch_size == (0,)
    assert batch.group_by("whole") == batch.group_by("word", "whole") == batch.group_by("tag") == {}
    assert list(batch.iter(3)) == []
    with pytest.raises(ArgumentError, match=r"sample: can't draw 1 of 0 rows"):
        batch.sample(1, replacement=True)


def test_one_value_for_all():
    """A value that the whole batch shares makes one group."""
    batch = rows("class")
    assert [len(group) for group in batch.group_by("tag").values()] == [6]
    assert len(batch.unique_by("tag")) == 1


BAD: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "no batch dim": (lambda b: b[0].head(), BatchDimError, r"head: rows lie along the first batch dim.*unsqueeze"),
    "head of a word": (lambda b: b.head("2"), ArgumentError, "`n` is a whole number"),
    "too many": (lambda b: b.sample(7), ArgumentError, "can't draw 7 of 6 rows; draw with `replacement"),
    "negative": (lambda b: b.sample(-1), ArgumentError, "draw -1 of"),
    "no key": (lambda b: b.sort_by(), ArgumentError, "name at least one entry"),
    "absent key": (lambda b: b.group_by("wole"), MissingKeyError, "whole"),
    "keep": (lambda b: b.unique_by("word", keep="any"), ArgumentError, 'keep is "first" or "last"'),
    "long mask": (lambda b: b.filter([True]), BatchSizeError, r"each of the 6 rows is expected, got shape \[1\]"),
    "numbers": (lambda b: b.filter(torch.arange(6)), ArgumentError, r"for each of the 6 rows is .* torch.int64"),
    "words": (lambda b: b.filter(["a"] * 6), ArgumentError, "got a list"),
    "function of None": (lambda b: b.filter(lambda rows: None), ArgumentError, "got a NoneType"),
    "size 0": (lambda b: b.iter(0), ArgumentError, "at least one row, got size 0"),
    "flag": (lambda b: b.iter(2, shuffle="no"), ArgumentError, "`shuffle` is True or False"),
    "unused generator": (lambda b: b.iter(2, generator=generator()), ArgumentError, "with `shuffle=True` only"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str):
    """What is refused, at the call and not when a result is used."""
    call, error, message = BAD[case]
    with pytest.raises(error, match=message):
        call(rows("class"))


def test_containers_and_mixed_objects_are_no_keys():
    """A nested container, and objects without an order."""
    batch = TensorDict({"n": {"a": torch.ones(2)}, "o": ["a", 1]}, batch_size=[2])
    for key, message in (("n", "`n` is a container"), ("o", "`o` can't be sorted")):
        for call in (batch.sort_by, batch.group_by):
            with pytest.raises(ArgumentError, match=message):
                call(key)
    with pytest.raises(ArgumentError, match="`n` is a container"):
        batch.unique_by("n")
    assert batch.unique_by("o")["o"] == ["a", 1]  # as in pandas, which only sorts to group


class Color(Enum):
    """Objects without an order."""

    RED = 1
    BLUE = 2


OBJECTS: dict[str, list[Any]] = {
    "strings and None": ["b", None, "a", "b", None],
    "numbers with nan": [3.0, math.nan, 1.0, math.nan, 3.0],
    "tuples": [(2, "b"), (1, "a"), (2, "a"), (1, "a"), (0, "")],
    "enum": [Color.RED, Color.BLUE, Color.RED],
    "mixed": ["a", 1, "a", 2.5],
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_as_in_pandas(name: str):
    """Order, groups and duplicates of objects; nan equals nan, and both kinds of missing values come last."""
    objects = OBJECTS[name]
    batch = TensorDict({"o": NonTensorStack(*objects), "at": torch.arange(len(objects))}, [len(objects)])
    frame = pd.DataFrame({"o": pd.Series(objects, dtype=object), "at": range(len(objects))})
    assert batch.unique_by("o")["at"].tolist() == frame.drop_duplicates("o")["at"].tolist()
    try:
        for down in (False, True):
            expected = frame.sort_values("o", ascending=not down, kind="stable")["at"].tolist()
            assert batch.sort_by("o", descending=down)["at"].tolist() == expected
    except TypeError:
        with pytest.raises(ArgumentError, match="can't be sorted"):
            batch.sort_by("o")
    else:
        groups = {str(key): rows["at"].tolist() for key, rows in batch.group_by("o")}
        assert groups == {
            str(key).replace("nan", "None") if None in objects else str(key): rows["at"].tolist()
            for key, rows in frame.groupby("o", dropna=False)
        }


def test_objects_that_cannot_be_compared():
    """One value for all rows or one each: an unhashable object is refused by name."""
    batch = TensorDict({"each": [{}, {}], "all": MetaData({}), "x": torch.ones(2)}, batch_size=[2])
    for key in ("each", "all"):
        for call in (batch.sort_by, batch.group_by, batch.unique_by):
            with pytest.raises(ArgumentError, match=f"the objects of `{key}` can't be .*unhashable type: 'dict'"):
                call(key)


def test_nested_tensors_are_sorted_as_ragged_entries_are():
    """Row by row, by their numbers."""
    parts = [torch.tensor([2.0]), torch.tensor([1.0, 5.0]), torch.tensor([1.0])]
    batch = TensorDict({"r": RaggedTensor(parts), "at": torch.arange(3)}, batch_size=[3])
    batch["n"] = torch.nested.nested_tensor(parts, layout=torch.jagged)
    for key in ("r", "n"):
        assert batch.sort_by(key)["at"].tolist() == [2, 1, 0]
        assert [*batch.group_by(key).keys()] == [(1.0,), (1.0, 5.0), (2.0,)]


def test_a_path_with_dots_is_explained():
    """A path is a tuple; the message shows it."""
    batch = TensorDict({"n": {"a": torch.ones(2)}}, batch_size=[2])
    with pytest.raises(MissingKeyError, match=r"did you mean `\('n', 'a'\)`"):
        batch.sort_by("n.a")


def test_a_container_is_no_mask():
    """A function that returns a batch instead of bools."""
    with pytest.raises(ArgumentError, match="one bool for each of the 2 rows is expected, got a TensorDict"):
        TensorDict({"a": torch.ones(2), "b": torch.ones(2)}, batch_size=[2]).filter(lambda batch: batch)


def test_ragged_entries_become_arrays():
    """Everywhere in nested lists; `tolist` of a tensor is `tolist` of each element."""
    ragged = RaggedTensor([torch.ones(1), torch.ones(2)])
    data = TensorDict({"r": ragged}, batch_size=[2])
    assert [part.tolist() for part in data.to_numpy()["r"]] == [[1], [1, 1]]
    assert all(isinstance(part, np.ndarray) for part in data.to_numpy()["r"])
    assert isinstance(data[0].to_numpy()["r"], np.ndarray)
    assert isinstance(torch.stack([data, data]).to_numpy()["r"][1][0], np.ndarray)
    with pytest.raises(UnsupportedOperationError, match=r"`batch.to_tensordict\(\).float\(\)`"):
        data.to_tensordict().bfloat16().to_numpy()


DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32,
    torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16, torch.float64,
    torch.complex64, torch.complex128,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("ragged", [False, True])
def test_every_dtype(dtype: torch.dtype, ragged: bool):
    """Order, groups, duplicates and a summary of every dtype of torch, in plain and lazily stacked containers."""
    numbers = torch.tensor([1, 0, 1, 1]).to(dtype)
    x = RaggedTensor(numbers, lengths=[1] * 4) if ragged else numbers
    batch = TensorDict({"x": x, "at": torch.arange(4)}, batch_size=[4])
    if ragged and dtype.is_complex:
        with pytest.raises(ArgumentError, match="can't be sorted"):
            batch.sort_by("x")
        return
    for one in (batch, lazy_stack(list(batch.unbind(0)))):
        assert one.sort_by("x")["at"].tolist() == [1, 0, 2, 3]
        assert one.sort_by("x", descending=True)["at"].tolist() == [0, 2, 3, 1]
        assert [len(rows) for _, rows in one.group_by("x")] == [1, 3]
        assert one.unique_by("x")["at"].tolist() == [0, 1]
        found = one.describe()["x"]
        assert found.mean == pytest.approx(0.75)
        assert (found.min, found.max) == ((None, None) if dtype.is_complex else (0, 1))
        assert "x" in one._repr_html_()


def test_iter_drops_the_last():
    """A last batch with fewer rows is left out on request."""
    assert [len(part) for part in rows("dict").iter(4)] == [4, 2]
    assert [len(part) for part in rows("dict").iter(4, drop_last=True)] == [4]
    assert rows("dict").iter(4).__next__()["whole"].tolist() == [2, 0, 2, 1]


# ---- describe --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_describe(kind: str):
    """Least, greatest and mean are those of pandas, nan left out; counts those of numpy."""
    found = rows(kind).describe()
    table = frame()
    for name in ("whole", "real"):
        column = table[name]
        assert (found[name].min, found[name].max) == (column.min(), column.max())
        assert found[name].mean == pytest.approx(column.mean())
        assert found[name].nan == column.isna().sum()
        assert found[name].size == 6
    assert found["word"].text == "3 different, most often 'a'"
    assert found["tokens"].text == "1 to 2 long"
    assert (found["tokens"].min, found["tokens"].max) == (0, 4)


@pytest.mark.parametrize(
    "values",
    [
        torch.empty(0),
        torch.full((3,), float("nan")),
        torch.empty(3, device="meta"),
        torch.ones(3, dtype=torch.complex64),
        torch.full((3,), float("inf")),
        torch.tensor([-1e308, 1e308], dtype=torch.float64),
        torch.tensor([2**63 - 1, -(2**63)]),
        torch.tensor([True, False]),
        torch.ones(2, requires_grad=True),
        torch.ones(2).to(torch.float8_e5m2),
    ],
    ids=["none", "nan", "meta", "complex", "infinite", "wide", "whole", "bool", "grad", "float8"],
)
def test_describe_odd_tensors(values: Tensor):
    """Nothing about a tensor breaks the table."""
    batch = TensorDict(a=values, batch_size=[])
    found = batch.describe()["a"]
    assert found.size == values.numel()
    assert "a" in repr(batch.describe())
    if values.dtype is torch.int64:
        assert (found.min, found.max) == (-(2**63), 2**63 - 1)


def test_describe_is_a_mapping():
    """Each field is found by its dotted path; markup in values is text."""
    batch = TensorDict({"n": {"a": torch.arange(4.0)}, "<b>": "<i>"}, batch_size=[4])
    found = batch.describe()
    assert found["n.a"].mean == 1.5
    assert "<i>" not in found._repr_html_()
    assert repr(found).splitlines()[0] == "TensorDict: batch_size=[4], 16 B"


# ---- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_field_may_have_the_name(name: str):
    """A convenience makes room for a field of its name; the others go on working."""
    cls: Any = type("Own", (TensorClass,), {"__annotations__": {name: Tensor, "other": Tensor}})
    batch = cls(**{name: torch.arange(3), "other": torch.arange(3)}, batch_size=3)
    assert getattr(batch, name).tolist() == [0, 1, 2]
    assert getattr(batch[:1].reshape(1, 1), name).tolist() == [[0]]
    assert getattr(cls, name).__field_path__ == (name,)
    setattr(batch, name, torch.zeros(3))
    for other in NAMES:
        assert callable(getattr(TensorDict, other))
        if other in ("head", "shuffle", "describe", "asdict", "to_numpy") and other != name:
            getattr(batch, other)()
    kept: Any = type("Kept", (TypedTensorDict,), {"__annotations__": {name: Tensor}})
    assert getattr(kept(**{name: torch.ones(2)}, batch_size=[2]), name).tolist() == [1, 1]


def test_other_members_are_still_refused():
    """A field under the name of any other member hides it, as before."""
    assert not {*NAMES} & member_names()
    assert RowOps.__name__ in _rules.CONVENIENCES
    with pytest.raises(SchemaError, match="hide"):
        type("Own", (TensorClass,), {"__annotations__": {"split": Tensor}})


def test_ragged_rows_are_no_numbers():
    """Ragged fields compare by their values, as tuples do."""
    batch = TensorDict(t=RaggedTensor(torch.tensor([2, 1, 9]), lengths=[1, 2]), batch_size=[2])
    assert [*batch.group_by("t").keys()] == [(1, 9), (2,)]


def test_groups_are_a_dict_of_pairs():
    """What users of dicts and users of pandas write gives the same; a mixture says what to write."""
    groups = TensorDict(a=torch.tensor([2, 0, 2]), b=torch.arange(3), batch_size=[3]).group_by("a")
    pairs = [(value, rows["b"].tolist()) for value, rows in groups]
    assert pairs == [(value, rows["b"].tolist()) for value, rows in groups.items()] == [(0, [1]), (2, [0, 2])]
    assert {**groups}.keys() == dict(groups).keys() == groups.keys() == {0, 2}
    assert (0 in groups, 1 in groups, groups.get(1), len(groups), groups[2].batch_size) == (True, False, None, 2, (2,))
    again = pickle.loads(pickle.dumps(groups))
    assert type(again) is type(groups)
    assert again.keys() == groups.keys()
    with pytest.raises(MissingKeyError, match=r"no group 7; there are \[0, 2\]$"):
        groups[7]
    with pytest.raises(MissingKeyError, match="for value, rows in groups"):
        [groups[value] for value in groups]


class Part(TensorClass):
    """A nested one."""

    loss: Float32[Tensor, ""]


class Logged(TensorClass):
    """A field of each kind."""

    loss: Float32[Tensor, ""]
    part: Part
    right: Bool[Tensor, ""]
    step: PerElement[int]
    lengths: Float32[RaggedTensor, "n"]
    table: Shared[Int64[Tensor, "2"]]
    epoch: int = 3
    name: str = "run"
    gone: Part | None = None


def logged() -> Logged:
    """One row of it."""
    loss = torch.tensor(0.5, requires_grad=True)
    whole = {"lengths": torch.tensor([1.0, 3.0]), "table": torch.tensor([2**40, 0])}
    return Logged(loss=loss, part=Part(loss=torch.tensor(2.0)), right=torch.tensor(True), step=2**60 + 1, **whole)


@pytest.mark.parametrize("size", [(), (2,), (2, 3)])
@pytest.mark.parametrize("reduce", ["mean", "sum", "min", "max"])
def test_scalars(size: tuple[int, ...], reduce: Any):
    """Every kind of entry as one number by its path; the reduction is torch's, over all numbers of the entry."""
    row = logged().exclude("name").detach()
    batch = row.expand(size).clone() if size else row
    count = math.prod(size)
    found = batch.scalars(reduce=reduce)
    times = count if reduce == "sum" else 1
    assert found.keys() == {"loss", "part/loss", "right", "step", "lengths", "table", "epoch"}
    assert (found["loss"], found["part/loss"], found["right"]) == (0.5 * times, 2 * times, times)
    assert found["epoch"] == 3
    assert found["lengths"] == {"mean": 2, "sum": 4 * times, "min": 1, "max": 3}[reduce]
    assert found["table"] == {"mean": 2**39, "sum": 2**40, "min": 0, "max": 2**40}[reduce]
    assert all(type(value) in (int, float) for value in found.values())


def test_scalars_of_one_row():
    """Without a reduction each entry is one number: exact, without a gradient."""
    row = logged().exclude("name", "lengths", "table")
    assert row.scalars() == {"loss": 0.5, "part/loss": 2.0, "right": 1, "step": 2**60 + 1, "epoch": 3}
    assert [*row.scalars(".")][1] == "part.loss"
    assert row[None].scalars() == row.scalars()
    assert lazy_stack([TensorDict(a=1.0), TensorDict(a=2.0)]).scalars(reduce="max") == {"a": 2.0}
    assert TensorDict().scalars() == {}


def test_scalars_refuse():
    """All entries that are not one number are named at once, with the way out; nothing is left out in silence."""
    with pytest.raises(ArgumentError) as info:
        logged().scalars()
    text = str(info.value)
    assert all(f"`{name}` (" in text for name in ("lengths", "table", "name"))
    assert "`loss`" not in text
    assert 'reduce="mean"' in text
    odd = TensorDict(c=torch.tensor(1j), e=torch.ones(0), s="text", n=None)
    with pytest.raises(ArgumentError, match=r"`c`.*`e`.*`s`.*`n`.*exclude"):
        odd.scalars(reduce="mean")
    with pytest.raises(ArgumentError, match="got 'median'"):
        logged().scalars(reduce="median")  # type: ignore[arg-type]  # what a user may write
    with pytest.raises(KeySetError, match="another separator"):
        TensorDict({"a/b": 1, "a": {"b": 2}}).scalars()


@pytest.mark.parametrize("call", ["shuffle", "sample", "iter"])
def test_a_seed_is_no_generator(call: str):
    """What people write for a generator is told how to become one."""
    batch = TensorDict(a=torch.arange(4), batch_size=[4])
    calls = {
        "shuffle": lambda: batch.shuffle(0),  # type: ignore[arg-type]  # what a user may write
        "sample": lambda: batch.sample(2, generator=0),  # type: ignore[arg-type]  # as above
        "iter": lambda: next(batch.iter(2, shuffle=True, generator=0)),  # type: ignore[arg-type]  # as above
    }
    with pytest.raises(ArgumentError, match=r"got 0; `torch\.Generator"):
        calls[call]()
