"""`Cls.from_rows`: rows of Python objects and tables become a batch."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pydantic
import pytest
import torch
from torch import Tensor

from tensorclass import PerElement, Ragged, Shared, TensorClass, TensorDict, equal
from tensorclass.errors import ArgumentError, SchemaError
from tensorclass.typing import Float32, Int64


class Pt(TensorClass):
    x: Float32[Tensor, "2"]
    label: Int64[Tensor, ""]
    name: PerElement[str | None] = ""


class Box(TensorClass):
    pt: Pt
    tokens: Ragged[Tensor, "t"]
    unit: str = "m"


class Named(TensorClass):
    name: str
    x: Float32[Tensor, "2"]


@dataclasses.dataclass
class Plain:
    x: list[float]
    label: int
    name: str | None


class Tables(TensorClass):
    table: Shared[Tensor]
    x: Float32[Tensor, "2"]


class Model(pydantic.BaseModel):
    x: list[float]
    label: int
    name: str | None


class Tuple(NamedTuple):
    x: list[float]
    label: int
    name: str | None


ROWS = [{"x": [0.5, 1.0], "label": 3, "name": "a"}, {"x": [2, 0.1], "label": -1, "name": None}]
EXPECTED = Pt(torch.tensor([[0.5, 1.0], [2.0, 0.1]]), torch.tensor([3, -1]), ["a", None])


def _pandas() -> Any:
    return pytest.importorskip("pandas").DataFrame(ROWS)


def _polars() -> Any:
    return pytest.importorskip("polars").DataFrame([{**row, "x": [float(n) for n in row["x"]]} for row in ROWS])  # type: ignore[attr-defined]


def _arrow() -> Any:
    rows = [{**row, "x": [float(n) for n in row["x"]]} for row in ROWS]  # type: ignore[attr-defined]
    return pytest.importorskip("pyarrow").Table.from_pylist(rows)


def _hf() -> Any:
    rows = [{**row, "x": [float(n) for n in row["x"]]} for row in ROWS]  # type: ignore[attr-defined]
    return pytest.importorskip("datasets").Dataset.from_list(rows)


def _mixed() -> Iterator[Any]:
    yield EXPECTED[0]
    yield Plain(**ROWS[1])  # type: ignore[arg-type]


def _structured() -> Any:
    kinds = [("x", "f4", (2,)), ("label", "i8"), ("name", object)]
    return np.array([tuple(row.values()) for row in ROWS], dtype=kinds)


GIVEN = {
    "dicts": lambda: ROWS, "generator": lambda: iter(ROWS), "tuple": lambda: tuple(ROWS),
    "dataclasses": lambda: [Plain(**row) for row in ROWS],  # type: ignore[arg-type]
    "pydantic": lambda: [Model(**row) for row in ROWS],  # type: ignore[arg-type]
    "named tuples": lambda: [Tuple(**row) for row in ROWS],  # type: ignore[arg-type]
    "instances": lambda: [EXPECTED[0], EXPECTED[1]], "mixed generator": _mixed,
    "untyped": lambda: list(EXPECTED.to_tensordict()),
    "arrays": lambda: [{**row, "x": np.array(row["x"], "f4")} for row in ROWS],
    "tensors": lambda: [{**row, "x": torch.tensor(row["x"], dtype=torch.float32)} for row in ROWS],
    "records of numpy": lambda: list(_structured()),
    "structured": _structured, "pandas": _pandas, "polars": _polars, "arrow": _arrow, "hf": _hf,
}  # fmt: skip


@pytest.mark.parametrize("kind", GIVEN)
def test_every_kind_of_rows_gives_the_same_batch(kind: str) -> None:
    """Rows of every kind, and tables, become the batch that a constructor call with columns makes."""
    found = Pt.from_rows(GIVEN[kind]())
    assert type(found) is Pt
    assert equal(found, EXPECTED)


def test_numbers_convert_as_in_json() -> None:
    """A whole number is a float where one is declared; a fraction is never an integer; text is no number."""
    assert Pt.from_rows([{"x": [1, 2], "label": 1}]).x.tolist() == [[1.0, 2.0]]
    for wrong in (0.5, "a", True, 2**70):
        with pytest.raises(SchemaError, match="label"):
            Pt.from_rows([{"x": [1, 2], "label": wrong}])


@pytest.mark.parametrize("at", [0, 1, 40, 63])
@pytest.mark.parametrize("change", [{"label": 0.5}, {"x": [1, 2, 3]}, {"name": 5}, {"label": None}, {"y": 3}])
def test_an_error_names_the_row(at: int, change: dict[str, Any]) -> None:
    """The error of a row that doesn't fit names its number and its field."""
    rows = [dict(ROWS[i % 2]) for i in range(64)]
    rows[at].update(change)
    with pytest.raises(SchemaError) as caught:
        Pt.from_rows(rows)
    assert f"[{at}].{next(iter(change))}" in str(caught.value)


def test_an_error_shows_the_value_of_the_row() -> None:
    """What was given is the value in that row, not the column that was made of all rows."""
    with pytest.raises(SchemaError, match=r"\[1\]\.label\n.*\n +given: +0\.5\n"):
        Pt.from_rows([ROWS[0], {**ROWS[1], "label": 0.5}])


def test_an_error_shows_the_value_of_a_nested_row_and_of_none() -> None:
    """The error shows the value of the row, not the column that was made of it."""

    class Point(TensorClass):
        xy: Float32[Tensor, "2"]

    class Holder(TensorClass):
        at: Point
        y: Float32[Tensor, ""]

    right = {"at": {"xy": [1, 2]}, "y": 1}
    for wrong, path, given in (({"at": {"xy": [1, 2, 3]}}, "at.xy", "[1, 2, 3]"), ({"y": None}, "y", "None")):
        with pytest.raises(SchemaError) as caught:
            Holder.from_rows([right, {**right, **wrong}])
        (problem,) = caught.value.problems
        assert (problem.path, problem.given) == (f"[1].{path}", given)


def test_a_row_without_a_field_has_its_default() -> None:
    """As in the constructor, also if other rows have the field."""

    class Marked(TensorClass):
        x: Float32[Tensor, ""]
        tags: PerElement[str] = "none"
        unit: str = "m"

    found = Marked.from_rows([{"x": 1.0, "tags": "a", "unit": "m"}, {"x": 2.0}])
    assert found.tags.tolist() == ["a", "none"]
    assert found.unit == "m"


def test_what_is_no_row_is_named() -> None:
    """An object without fields, a row with batch dims, a dict of columns and a path are refused with the way to go."""
    with pytest.raises(SchemaError, match=r"\[1\][\s\S]*a row is a mapping"):
        Pt.from_rows([ROWS[0], 3])
    with pytest.raises(SchemaError, match=r"torch\.cat"):
        Pt.from_rows([EXPECTED])
    for given in ({"x": [[1, 2]]}, "rows.csv", 3, torch.zeros(2)):
        with pytest.raises(ArgumentError, match="from_dict"):
            Pt.from_rows(given)


def test_nested_classes_and_ragged_fields() -> None:
    """Nested rows become nested classes, lists of different lengths ragged fields, equal values one shared value."""
    rows = [{"pt": dict(ROWS[0]), "tokens": [1, 2], "unit": "m"}, {"pt": Plain(**ROWS[1]), "tokens": [3], "unit": "m"}]  # type: ignore[arg-type]
    found = Box.from_rows(rows)
    assert equal(found.pt, EXPECTED)
    assert found.tokens.tolist()[1].tolist() == [3]
    assert equal(Box.from_rows([found[0], found[1]]), found)
    with pytest.raises(SchemaError, match="the rows differ"):
        Box.from_rows([rows[0], {**rows[1], "unit": "km"}])


def test_nan_of_pandas_is_none_on_request() -> None:
    """NaN in a field that admits None is None with `nan_as_none`; the error names the argument."""
    rows = [{**ROWS[0], "name": float("nan")}, ROWS[1]]
    with pytest.raises(SchemaError, match="nan_as_none=True"):
        Pt.from_rows(rows)
    assert Pt.from_rows(rows, nan_as_none=True).name.tolist() == [None, None]


def test_no_rows() -> None:
    """Without rows, fields with known shapes give an empty batch."""
    assert Pt.from_rows([{"x": [0, 0], "label": 1}])[:0].batch_size == (0,)


def test_device_and_a_field_of_the_same_name() -> None:
    """The batch is on the device; a class may have a field `from_rows`."""
    assert Pt.from_rows(ROWS, device="cpu").device == torch.device("cpu")

    class Odd(TensorClass):
        from_rows: Float32[Tensor, ""]

    assert Odd(torch.zeros(2)).from_rows.shape == (2,)
    assert TensorDict(a=torch.zeros(2), batch_size=[2]).batch_size == (2,)


@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize("cls", [Pt, Named], ids=["tensor first", "text first"])
def test_a_constructor_given_rows_names_the_way(kind: str, cls: type[TensorClass]) -> None:
    """Rows and tables of every kind as the only argument of a constructor: the error names `from_rows`."""
    with pytest.raises(SchemaError, match=r"`Cls\.from_rows\(rows\)`"):
        cls(GIVEN[kind]())  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "call",
    [
        lambda: Pt(ROWS, ROWS, batch_size=[2]),
        lambda: Pt(*ROWS),
        lambda: Pt.from_dict(ROWS),
        lambda: Pt.from_any(ROWS),  # type: ignore[arg-type, call-overload]
    ],
)
def test_refused_rows_are_told_the_way(call: Any) -> None:
    """A call that was given rows names `from_rows`, which takes them."""
    with pytest.raises((TypeError, ValueError), match="from_rows"):
        call()
    assert Pt.from_rows(ROWS).batch_size == (2,)


class Age(TensorClass):
    age: Float32[Tensor, ""]
    height: Float32[Tensor, ""] | None
    name: PerElement[str | None]


@pytest.mark.parametrize("gaps", [{1}, {0, 1, 2}, set()])
def test_a_file_of_pandas_reads_as_its_frame(gaps: set[int], tmp_path: Any) -> None:
    """NaN that pandas writes as null is NaN again: `from_parquet` and `from_pandas` agree."""
    pandas = pytest.importorskip("pandas")
    numbers = [float("nan") if i in gaps else float(i) for i in range(3)]
    frame = pandas.DataFrame({"age": numbers, "height": numbers, "name": ["a", None, "b"]})
    frame.to_parquet(tmp_path / "x.parquet")
    here, there = Age.from_pandas(frame), Age.from_parquet(tmp_path / "x.parquet")
    assert torch.equal(here.age.isnan(), torch.tensor([i in gaps for i in range(3)]))
    for name in ("age", "height"):
        torch.testing.assert_close(getattr(here, name), getattr(there, name), equal_nan=True)
    assert here.name.tolist() == there.name.tolist() == ["a", None, "b"]


@pytest.mark.parametrize("read", ["from_parquet", "from_arrow", "from_pandas", "from_rows"])
def test_the_index_of_pandas_is_no_field(read: str, tmp_path: Any) -> None:
    """A frame that lost rows has an index, which its file holds as a column of no name of the user's."""
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    numbers = [1.0, 2.0, 3.0, 4.0, 5.0]
    frame = pandas.DataFrame({"age": numbers, "height": numbers, "name": ["a"] * 5})
    frame = frame[frame.age.isin([2.0, 3.0, 5.0])]  # pandas stores no index that is a range
    frame.to_parquet(tmp_path / "x.parquet")
    given = {"from_parquet": tmp_path / "x.parquet", "from_arrow": arrow.Table.from_pandas(frame)}
    assert getattr(Age, read)(given.get(read, frame)).age.tolist() == [2.0, 3.0, 5.0]
    frame.index.name = "person"  # a name of the user's is a column, so no row is lost unseen
    frame.to_parquet(tmp_path / "x.parquet")
    given["from_arrow"] = arrow.Table.from_pandas(frame)
    if read in given:
        with pytest.raises(SchemaError, match="person"):
            getattr(Age, read)(given[read])


@pytest.mark.parametrize("read", ["from_pandas", "from_rows"])
def test_a_missing_integer_is_told(read: str) -> None:
    """Integers with a gap are floats in pandas; the error names the row and proposes no cast."""
    frame = pytest.importorskip("pandas").DataFrame({"x": [[1.0, 2.0]] * 2, "label": [1, None], "name": ["a", "b"]})
    with pytest.raises(SchemaError, match=r"row 1 is NaN, which may stand for a missing value: fill it first") as info:
        getattr(Pt, read)(frame)
    assert "coerce" not in str(info.value)
    assert getattr(Pt, read)(frame.fillna({"label": 5})).label.tolist() == [1, 5]


def test_nullable_columns_of_pandas_keep_their_nulls(tmp_path: Any) -> None:
    """A null of `Float64`, which pandas itself tells from NaN, is an error as in a frame."""
    pandas = pytest.importorskip("pandas")
    ages = pandas.array([1.0, None], dtype="Float64")
    frame = pandas.DataFrame({"age": ages, "height": [0.0, 1.0], "name": ["a", "b"]})
    frame.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(SchemaError, match="null"):
        Age.from_pandas(frame)
    with pytest.raises(SchemaError, match="null"):
        Age.from_parquet(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    "rows",
    [
        [{"x": torch.ones(2) * i, "n": i, "p": 0.1 * i, "name": str(i)} for i in range(5)],
        [{"x": torch.ones(2), "n": 1, "p": float("nan"), "name": "a"}],
        [{"x": torch.ones(2), "n": 1, "p": 1, "name": "a"}, {"x": [0, 1], "n": 2, "p": 0.5, "name": "b"}],
        [{"x": torch.ones(2), "n": torch.tensor(1), "p": torch.tensor(0.5), "name": "a"}],
        [{"name": "a", "p": 1e300, "n": 1, "x": torch.ones(2)}],
        [{"x": torch.ones(2), "n": 2**70, "p": 1.0, "name": "a"}],
        [{"x": torch.ones(2), "n": True, "p": 1.0, "name": "a"}],
        [{"x": torch.ones(2), "n": 1, "p": 1.0, "name": "a"}, {"x": torch.ones(3), "n": 1, "p": 1.0, "name": "a"}],
        [{"x": torch.ones(2), "n": 1, "p": 1.0, "name": "a"}, {"x": torch.ones(2), "n": 1, "p": 1.0, "name": 3}],
        [{"x": torch.ones(2, dtype=torch.float64), "n": 1, "p": 1.0, "name": "a"}],
        [{"x": torch.ones(2), "n": 1, "p": 1.0, "name": "a", "more": 1}],
        [{"x": torch.ones(2), "n": 1, "p": 1.0}],
    ],
    ids=range(12),
)
def test_columns_written_at_once_are_those_of_the_general_way(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dicts whose values need no conversion become columns at once; the batch and the errors are the same."""

    class Mixed(TensorClass):
        x: Float32[Tensor, "2"]
        n: Int64[Tensor, ""]
        p: Float32[Tensor, ""]
        name: PerElement[str]

    def outcome() -> Any:
        try:
            found = Mixed.from_rows(rows)
        except SchemaError as error:
            return str(error)
        return [found.x.tolist(), found.n.tolist(), str(found.p.tolist()), found.name.tolist(), found.p.dtype]

    quick = outcome()
    monkeypatch.setattr("tensorclass.io.exchange._rows._at_once", lambda *_: None)
    assert outcome() == quick


@pytest.mark.parametrize("read", [Box.from_rows, lambda rows: Box.from_json("[]")], ids=["rows", "json"])
def test_no_rows_are_an_empty_batch(read: Any):
    """No rows are a batch of size 0 with the declared dtypes; dims that the declaration doesn't fix are 0."""
    for rows in ([], (), iter([])):
        empty = read(rows)
        assert type(empty) is Box
        assert (list(empty.batch_size), list(empty.pt.x.shape), empty.pt.label.dtype) == ([0], [0, 2], torch.int64)
        assert len(empty.tokens) == 0
        assert Box.from_rows(list(empty)).batch_size == empty.batch_size
    assert Box.from_rows([], device="cpu").device == torch.device("cpu")


def test_no_rows_say_no_shared_value():
    """The error names what can't be invented."""
    with pytest.raises(SchemaError, match=r"table\n.*\n.*\n.*there are no rows: give the field a default") as caught:
        Tables.from_rows([])
    assert "x" not in {problem.path for problem in caught.value.problems}


class Series(TensorClass):
    steps: Float32[Tensor, "t c"]
    label: Int64[Tensor, ""]


@dataclasses.dataclass
class Row:
    steps: list[list[float]]
    label: int


class RowTuple(NamedTuple):
    steps: list[list[float]]
    label: int


class RowModel(pydantic.BaseModel):
    steps: list[list[float]]
    label: int


@pytest.mark.parametrize("make", [dict, Row, RowTuple, RowModel])
@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([[0.1, 0.2], [0.3, 0.4]], None),
        ([[1, 2.0], [0.3, 0.4]], None),
        ([[float("inf"), 2.0], [0.3, 0.4]], None),
        ([[0.1, 0.2]], "steps"),
        ([[0.1, 0.2], [0.3]], "steps"),
        ([["a", 0.2], [0.3, 0.4]], "[1].steps"),
        ([], "[1].steps"),
    ],
)
def test_rows_of_all_types_are_read_alike(make: Any, values: Any, word: str | None):
    """Columns of lists and of objects are written at once, and a row that doesn't fit is named as before."""
    good = {"steps": [[0.5, 1.5], [2.5, 3.5]], "label": 3}
    if make is RowModel and values and values[0][0] == "a":
        pytest.skip("pydantic refuses the row itself")
    rows = [make(**good), make(steps=values, label=1), make(**good)]
    if word is not None:
        with pytest.raises(SchemaError) as error:
            Series.from_rows(rows)
        assert word in str(error.value)
        return
    batch = Series.from_rows(rows)
    plain = torch.tensor([good["steps"], values, good["steps"]])
    assert torch.equal(batch.steps, plain)
    assert batch.label.tolist() == [3, 1, 3]


class Captioned(TensorClass):
    x: Float32[Tensor, "2"]
    text: PerElement[str]
    n: Int64[Tensor, ""]


WRONG = {"x": [1.0], "text": 5, "n": 0.5}
RIGHT = {"x": [1.0, 2.0], "text": "a", "n": 1}


@pytest.mark.parametrize("wrong", [names for n in (1, 2, 3) for names in itertools.permutations(WRONG, n)])
def test_all_wrong_fields_of_a_row_are_told(wrong: tuple[str, ...]) -> None:
    """In the order of the row, whether a conversion finds them or the comparison with the declaration."""
    row = {name: WRONG[name] for name in wrong} | {name: value for name, value in RIGHT.items() if name not in wrong}
    with pytest.raises(SchemaError) as info:
        Captioned.from_rows([RIGHT, row, {**RIGHT, "n": None}])
    assert [problem.path for problem in info.value.problems] == [f"[1].{name}" for name in wrong]


def test_all_wrong_columns_of_a_table_are_told() -> None:
    """So do tables."""
    with pytest.raises(SchemaError) as info:
        Captioned.from_rows(pd.DataFrame({name: [value] for name, value in WRONG.items()}))
    assert [problem.path for problem in info.value.problems] == list(WRONG)
