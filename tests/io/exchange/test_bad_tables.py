"""Tables that do not fit: every refusal names the field, what is declared, what is given, and what to do."""

from __future__ import annotations

import datetime
import decimal
import json

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pytest
import torch
from torch import Tensor

from tensorclass import (
    PerElement,
    RaggedTensor,
    Shared,
    TensorClass,
    TensorDict,
    field,
    from_arrow,
    from_csv,
    from_hf,
    from_json,
)
from tensorclass.errors import BatchDimError, FileFormatError, SchemaError, UnsupportedOperationError
from tensorclass.io.exchange._arrow import KEY
from tensorclass.typing import Float32, Int64, UInt8


class Pose(TensorClass):
    angle: Float32[Tensor, ""]


class Row(TensorClass):
    image: Float32[Tensor, "2"]
    label: Int64[Tensor, ""] = field(renamed_from="target")
    tokens: Int64[RaggedTensor, "t"]
    name: PerElement[str]
    pose: Pose
    scale: Shared[Float32[Tensor, "2"]] = field(kw_only=True)
    source: str = field(kw_only=True)


def columns(**changes):
    """The columns of two rows, with some changed or left out."""
    found = {
        "image": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)), "label": pa.array([1, 2]),
        "tokens": pa.array([[1, 2], [3]]), "name": pa.array(["a", "b"]),
        "pose": pa.array([{"angle": 0.5}, {"angle": 1.0}], pa.struct([("angle", pa.float32())])),
        "scale": pa.array([[1.0, 2.0]] * 2, pa.list_(pa.float32(), 2)), "source": pa.array(["x", "x"]), **changes,
    }  # fmt: skip
    return pa.table({name: column for name, column in found.items() if column is not None})


NOW = datetime.datetime(2020, 1, 1)
WRONG = {
    "missing": ({"label": None}, "label", "nothing"),
    "extra": ({"other": pa.array([1, 2])}, "other", "no such field"),
    "misspelt": ({"label": None, "lable": pa.array([1, 2])}, "lable", "did you mean `label`"),
    "both names": ({"target": pa.array([1, 2])}, "label", "both are this field"),
    "fractions": ({"label": pa.array([0.5, 1])}, "label", 'coerce="cast"'),
    "overflow": ({"label": pa.array([2**63, 1], pa.uint64())}, "label", 'coerce="cast"'),
    "rounding": ({"image": pa.array([[0.1, 2], [3, 4]], pa.list_(pa.float64(), 2))}, "image", 'coerce="cast"'),
    "null": ({"label": pa.array([1, None])}, "label", "the first in row 1"),
    "only nulls": ({"label": pa.nulls(2)}, "label", "column of nulls"),
    "null in a list": ({"tokens": pa.array([[1, None], [3]])}, "tokens", "nulls inside"),
    "null in a struct": ({"pose": pa.array([{"angle": 1.0}, None])}, "pose.angle", "the first in row 1"),
    "text": ({"label": pa.array(["1", "2"])}, "label", "numbers are declared"),
    "numbers for text": ({"name": pa.array([1, 2])}, "name", "valid string"),
    "ragged": ({"image": pa.array([[1.0], [1.0, 2.0]])}, "image", "row 0 has 1 entries, row 1 has 2"),
    "event shape": ({"image": pa.array([[1.0], [1.0]], pa.list_(pa.float32(), 1))}, "image", "2"),
    "no event dims": ({"image": pa.array([1.0, 2.0], pa.float32())}, "image", "2"),
    "time": ({"label": pa.array([NOW, NOW])}, "label", "timestamp[us]"),
    "zone": ({"label": pa.array([NOW, NOW], pa.timestamp("ms", "UTC"))}, "label", "tz=UTC"),
    "decimal": ({"label": pa.array([decimal.Decimal("1.5")] * 2)}, "label", "decimal128"),
    "struct for a number": ({"label": pa.array([{"a": 1}] * 2)}, "label", "nests"),
    "number for a struct": ({"pose": pa.array([1, 2])}, "pose", "column of int64"),
    "unknown below": ({"pose": pa.array([{"angle": 1.0, "b": 1}] * 2)}, "pose.b", "no such field"),
    "rows that differ": ({"source": pa.array(["x", "y"])}, "source", "the rows differ"),
    "shared that differ": (
        {"scale": pa.array([[1.0, 2], [2.0, 2]], pa.list_(pa.float32(), 2))},
        "scale",
        "rows differ",
    ),
    "names": ({"names": pa.array(["a", "b"])}, "names", "no such field"),
    "batch_size": ({"batch_size": pa.array([1, 2])}, "batch_size", "no such field"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused(case):
    """Nothing is cast, dropped or filled in silence."""
    changes, path, text = WRONG[case]
    with pytest.raises(SchemaError) as error:
        Row.from_arrow(columns(**changes))
    told = [problem for problem in error.value.problems if problem.path.startswith(path)]
    assert told, error.value
    assert text in str(error.value)


RIGHT = {
    "former name": {"label": None, "target": pa.array([1, 2])},
    "whole floats": {"label": pa.array([1.0, 2.0])},
    "small integers": {"label": pa.array([1, 2], pa.uint8())},
    "chunks": {"label": pa.chunked_array([[1], [], [2]])},
    "struct chunks": {
        "pose": pa.chunked_array([[{"angle": 0.5}], [{"angle": 1.0}]], pa.struct([("angle", pa.float32())]))
    },
    "dictionary": {"name": pa.array(["a", "b"]).dictionary_encode(), "label": pa.array([1, 2]).dictionary_encode()},
    "large text": {"name": pa.array(["a", "b"], pa.large_string())},
    "view": {"name": pa.array(["a", "b"], pa.string_view())},
    "lists of one length": {"image": pa.array([[1.0, 2.0], [3.0, 4.0]])},
    "fixed lists for ragged": {"tokens": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))},
    "slice": {"label": pa.array([0, 1, 2])[1:], "tokens": pa.array([[9], [1, 2], [3]])[1:]},
    "half": {"image": pa.FixedSizeListArray.from_arrays(pa.array(np.ones(4, np.float16)), 2)},
}


@pytest.mark.parametrize("case", RIGHT)
def test_accepted(case):
    """What converts exactly is taken."""
    found = Row.from_arrow(columns(**RIGHT[case]))
    assert found.label.tolist() == [1, 2]
    assert found.name.tolist() == ["a", "b"]
    assert found.image.dtype is torch.float32
    assert found.tokens.lengths.tolist() in ([2, 1], [2, 2])


def test_coerce_takes_what_changes():
    """`coerce="cast"` of a field takes float64 columns, as the constructor does."""

    class Cast(TensorClass):
        x: Float32[Tensor, ""] = field(coerce="cast")
        n: UInt8[RaggedTensor, "t"] = field(coerce="cast")

    found = Cast.from_arrow(pa.table({"x": [0.1, 0.2], "n": [[1.5], [2.0, 3.0]]}))
    assert torch.equal(found.x, torch.tensor([0.1, 0.2]))
    assert found.n.values.tolist() == [1, 2, 3]


def test_strict_refuses_other_dtypes():
    """`coerce="strict"` takes the declared dtype and no other."""

    class Strict(TensorClass):
        x: Float32[Tensor, ""] = field(coerce="strict")

    with pytest.raises(SchemaError, match="float64"):
        Strict.from_pandas(pd.DataFrame({"x": [1.0]}))


def test_filled_nulls():
    """A field that is filled in joins is filled here; `nulls="fill"` fills any."""

    class Filled(TensorClass):
        x: Float32[Tensor, ""] | None = field(default=None, join="fill", fill=-1)
        n: Int64[Tensor, ""] | None = None

    table = pa.table({"x": pa.array([1, None], pa.float32()), "n": pa.array([None, 2])})
    assert Filled.from_arrow(table.select(["x"])).x.tolist() == [1, -1]
    assert Filled.from_arrow(table, nulls="fill").n.tolist() == [0, 2]
    with pytest.raises(SchemaError, match="the first in row 0"):
        Filled.from_arrow(table)
    with pytest.raises(ValueError, match="no place for masks"):
        Filled.from_arrow(table, nulls="mask")


@pytest.mark.parametrize(
    "given",
    [
        pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]),
        pa.table({"s": pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])}),
    ],
    ids=["columns", "below"],
)
def test_duplicate_columns(given):
    """Two columns of one name are refused, with or without a class."""
    with pytest.raises(SchemaError, match="twice"):
        TensorDict.from_arrow(given)
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(SchemaError, match="twice"):
        TensorDict.from_pandas(frame)


@pytest.mark.parametrize("metadata", [b"{", b"[]", b'{"version": 2}', b'{"version": 1, "module": 3}', b"\xff"])
def test_damaged_metadata(metadata):
    """The metadata of a table is not trusted."""
    table = pa.table({"a": [1]}).replace_schema_metadata({KEY: metadata})
    with pytest.raises(FileFormatError):
        from_arrow(table)


@pytest.mark.parametrize(
    "about", [{"dtype": "complex64"}, {"dtype": "no"}, {"shape": [7]}, {"shape": "x"}, {"json": True}]
)
def test_damaged_metadata_of_columns(about):
    """The metadata of a column fits its values, or the table is damaged."""
    kind = pa.string() if "json" in about else pa.list_(pa.int64())
    values = ["{"] if "json" in about else [[1, 2, 3]]
    schema = pa.schema([pa.field("a", kind, metadata={KEY: json.dumps(about)})])
    with pytest.raises(FileFormatError):
        from_arrow(pa.table([pa.array(values, kind)], schema=schema))


@pytest.mark.parametrize("given", [None, 3, {"a": [1]}, [1], object()])
def test_no_table(given):
    """What is no table is said to be none."""
    with pytest.raises(TypeError):
        TensorDict.from_arrow(given)
    with pytest.raises(TypeError):
        TensorDict.from_pandas(given)
    with pytest.raises(TypeError):
        TensorDict.from_hf(given)


@pytest.mark.parametrize("size", [[], [2, 3]])
def test_batches_without_rows(size):
    """Rows are one batch dim."""
    with pytest.raises(BatchDimError, match=r"reshape|unsqueeze"):
        TensorDict(a=torch.zeros(size), batch_size=size).to_arrow()


def test_values_that_no_table_holds():
    """Objects and quantised tensors are refused with their field."""
    with pytest.raises(UnsupportedOperationError, match="`a`"):
        TensorDict(a=[object(), object()], batch_size=[2]).to_arrow()
    with pytest.raises(UnsupportedOperationError, match="`a`"):
        TensorDict(a=torch.zeros(2).to_sparse(), batch_size=[2]).to_arrow()
    with pytest.raises(SchemaError, match="separator"):
        TensorDict(a={"b": torch.zeros(2)}, batch_size=[2]).to_pandas()


def test_pandas_columns():
    """Missing numbers, categories, times and Python objects."""
    frame = pd.DataFrame({
        "i": pd.array([1, None], "Int64"), "c": pd.Categorical(["x", "y"]), "t": pd.to_datetime(["2020", "2021"]),
        "o": [{"a": 1}, {"a": 2}], "b": pd.array([True, False], "boolean"), "m": [1, "a"],
    })  # fmt: skip
    found = TensorDict.from_pandas(frame, nulls="fill")
    assert found["i"].tolist() == [1, 0]
    assert found["c"].tolist() == ["x", "y"]
    assert found["t"].tolist() == frame["t"].tolist()
    assert found["o", "a"].tolist() == [1, 2]
    assert found["b"].dtype is torch.bool
    assert found["m"].tolist() == [1, "a"]
    with pytest.raises(SchemaError, match="the first in row 1"):
        TensorDict.from_pandas(frame)
    with pytest.raises(SchemaError, match="numbers are declared"):
        Pose.from_pandas(pd.DataFrame({"angle": pd.Categorical(["x", "y"])}))


def test_large_numbers_are_not_rounded():
    """Integers beside floats are not taken for floats where that would change them."""
    with pytest.raises(SchemaError, match="numbers are declared"):
        Large.from_pandas(pd.DataFrame({"n": pd.Series([2**60 + 1, 0.5], dtype=object)}))


class Large(TensorClass):
    n: Int64[Tensor, ""]


CSV = {
    "no UTF-8": (b"n\n1\n\xff\n", "line 3 is not UTF-8"),
    "too many": (b"n\n1\n2,3\n", "line 3 has 2 values"),
    "too few": (b"n,m\n1\n", "line 2 has 1 values"),
    "quote": (b'n\n"1\n2', "not CSV"),
    "word": (b"n\n1\nx\n", "line 3: 'x' in the column `n`"),
    "underscore": (b"n\n1_000\n", "line 2"),
    "other digits": ("n\n٣\n".encode(), "line 2"),
    "infinite": (b"n\n1e999\n", "line 2"),
    "list": (b"n\n[1\n", "line 2"),
    "empty": (b"", "is empty"),
    "twice": (b"n,n\n1,2\n", "twice"),
    "fraction": (b"n\n1.5\n", "would change values"),
    "boolean": (b"n\ntrue\n", "booleans are not numbers"),
    "null": (b"n,m\n1,1\n,2\n", "the first in row 1|no such field"),
    "unknown": (b"n,m\n1,2\n", "no such field"),
    "NUL": (b"n\n\x00\n", "line 2"),
    "large": (b"n\n99999999999999999999\n", "numbers are declared"),
}


@pytest.mark.parametrize("case", CSV)
def test_hostile_csv(case, tmp_path):
    """The line is named, and nothing is read past the fault."""
    raw, text = CSV[case]
    path = tmp_path / "a.csv"
    path.write_bytes(raw)
    with pytest.raises((FileFormatError, SchemaError), match=text):
        Large.from_csv(path)


LINES = {
    "no UTF-8": (b'{"n":1}\n\xff\n', "line 2"),
    "no JSON": (b'{"n":1}\n{"n":\n', "line 2 is not JSON"),
    "no object": (b"[1]\n", "line 1 is not an object"),
    "literal": (b'{"n":NaN}\n', "not a JSON number|line 1 is not JSON"),
    "deep": (b'{"n":' + b"[" * 5000 + b"]" * 5000 + b"}\n", "line 1"),
    "word": (b'{"n":"x"}\n', "numbers are declared"),
    "mixed": (b'{"n":1}\n{"n":true}\n', "numbers are declared"),
    "missing": (b'{"n":1}\n{}\n', "the first in row 1"),
    "extra": (b'{"n":1,"m":2}\n', "no such field"),
}


@pytest.mark.parametrize("case", LINES)
def test_hostile_lines(case, tmp_path):
    """The same of JSON lines, for a class and, where nothing is declared, without."""
    raw, text = LINES[case]
    path = tmp_path / "a.jsonl"
    path.write_bytes(raw)
    with pytest.raises((FileFormatError, SchemaError), match=text):
        from_json(path, lines=True, cls=Large)


def test_untyped_text(tmp_path):
    """Without a class numbers are int64, float64 and bool, and words of numbers are numbers among numbers only."""
    path = tmp_path / "a.csv"
    path.write_text("a,b,c,d,e\n1,0.5,true,x,nan\n2,nan,False,,inf\n")
    found = from_csv(path)
    assert [found[key].dtype for key in "abce"] == [torch.int64, torch.float64, torch.bool, torch.float64]
    assert found["d"].tolist() == ["x", ""]
    path.write_text("a\n1\n\n2\n")
    with pytest.raises(SchemaError, match='nulls="fill"'):
        from_csv(path)


def test_polars_without_classes():
    """A polars frame is an Arrow stream."""
    found = from_arrow(pl.DataFrame({"a": [1, 2], "s": ["x", None]}), nulls="fill")
    assert (found["a"].tolist(), found["s"].tolist()) == ([1, 2], ["x", None])


def test_a_million_rows():
    """Many rows take no more than a copy."""
    table = pa.table({"angle": pa.array(np.arange(1_000_000, dtype=np.float32))})
    assert Pose.from_arrow(table).angle[-1] == 999_999


def _encodings():
    """Arrow columns that stand for numbers, text and lists, in every encoding."""
    numbers, texts, lists = pa.array([1, 2, 1]), pa.array(["a", "b", "a"]), pa.array([[1, 2], [3, 4], [5, 6]])
    yield "dictionary", numbers.dictionary_encode()
    yield "dictionary of text", texts.dictionary_encode()
    yield "dictionary of views", pa.DictionaryArray.from_arrays([0, 1, 0], pa.array(["a", "b"], pa.string_view()))
    yield "runs", pa.compute.run_end_encode(numbers)
    yield "runs of text", pa.compute.run_end_encode(texts)
    yield "views", texts.cast(pa.string_view())
    yield "list views", pa.array(lists.to_pylist(), pa.list_view(pa.int64()))
    yield "large list views", pa.array(lists.to_pylist(), pa.large_list_view(pa.int64()))
    flat = pa.array([1, 2, 3, 4, 5, 6]).dictionary_encode()
    yield "lists of a dictionary", pa.ListArray.from_arrays([0, 2, 4, 6], flat)
    yield "texts of a polars frame", pl.Series(["a", "b", "a"], dtype=pl.Categorical).to_frame().to_arrow()[0]


@pytest.mark.parametrize("name", [name for name, _ in _encodings()])
def test_encodings(name):
    """A column is what it stands for, however Arrow has encoded it; in chunks and slices too."""
    column = dict(_encodings())[name]
    expected = column.to_pylist()
    for given in (column, pa.chunked_array([column, column]) if isinstance(column, pa.Array) else column):
        assert _listed(from_arrow(pa.table({"x": given}))["x"]) == expected * (len(given) // 3)
    assert _listed(from_arrow(pa.table({"x": column}).slice(1, 2))["x"]) == expected[1:]


def _listed(value):
    """The rows of an entry; lists of an untyped table are a nested tensor."""
    return [row.tolist() for row in value.unbind()] if getattr(value, "is_nested", False) else value.tolist()


def test_datasets_of_splits():
    """A dict of splits is refused, with what to pass."""
    splits = datasets.DatasetDict(train=datasets.Dataset.from_dict({"a": [1]}))
    with pytest.raises(TypeError, match="'train'"):
        from_hf(splits)
