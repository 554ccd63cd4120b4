"""JSON out and in: every kind of field survives both modes, records are rows, what comes in is not trusted."""

from __future__ import annotations

import base64
import datetime
import json
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from torch import Tensor

from tensorclass import (
    PerElement,
    Ragged,
    Shared,
    TensorClass,
    TensorDict,
    equal,
    field,
    from_json,
    lazy_stack,
    produced,
    tensorclass,
)
from tensorclass._schema._convert import Inexact
from tensorclass._schema._dtypes import Shaped, family_of
from tensorclass._schema._json import DTYPES, decode, encode, encode_lists
from tensorclass.errors import BatchDimError, SchemaError, TensorClassError
from tensorclass.typing import BFloat16, Bool, Complex64, Float, Float32, Int64, Num, UInt8

MODES = ("base64", "lists")
NAN = float("nan")


class Person(BaseModel):
    name: str
    born: datetime.date


@tensorclass
class Pose:
    angle: Float32[Tensor, ""]
    axis: BFloat16[Tensor, "3"]


@tensorclass
class Frame:
    """Every kind of field."""

    image: Float32[Tensor, "1 h w"]
    label: Int64[Tensor, ""]
    wave: Complex64[Tensor, ""]
    valid: Bool[Tensor, ""]
    pose: Pose
    name: PerElement[str]
    table: Shared[Float32[Tensor, "k"]]
    tokens: Ragged[Tensor, "t 2"]
    when: datetime.date
    person: Person
    blob: bytes
    scale: float
    rest: TensorDict
    loose: Any = None
    weight: Float[Tensor, ""] | None = None
    tags: dict[str, int] = field(default_factory=dict)
    hidden: Float32[Tensor, "2"] = produced()


def frame(n: int) -> Any:
    """A batch of n elements with values that are hard to write."""
    image = torch.rand(n, 1, 2, 3)
    if n:
        image[0, 0, 0] = torch.tensor([NAN, math.inf, -math.inf])
    return Frame(
        image=image,
        label=torch.arange(n) - 2**62,
        wave=torch.rand(n, dtype=torch.complex64),
        valid=torch.arange(n) % 2 == 0,
        pose=Pose(angle=torch.rand(n), axis=torch.rand(n, 3).bfloat16()),
        name=[f"é{i}" for i in range(n)],
        table=torch.tensor([1.0, NAN]),
        tokens=[torch.rand(i, 2) for i in range(n)],
        when=datetime.date(2020, 2, 29),
        person=Person(name="Ada", born=datetime.date(1815, 12, 10)),
        blob=b"\xff\x00",
        scale=-math.inf,
        rest=TensorDict(u=torch.rand(n).half(), s="x", d=TensorDict(v=torch.arange(n)), batch_size=[n]),
        loose={"deep": [1, None, 0.5]},
        weight=torch.rand(n).double(),
        tags={"a": 1},
    )


def strict_json(text: str) -> Any:
    """The text as any JSON parser reads it: without NaN and Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [0, 1, 3])
def test_every_kind_of_field_survives(n, mode):
    """What comes back writes the same bytes, has the same batch size and the same Python values."""
    batch = frame(n)
    text = batch.to_json(mode=mode)
    assert strict_json(text)["batch_size"] == [n]
    again = Frame.from_json(text)
    assert again.batch_size == (n,)
    assert again.to_json() == batch.to_json()
    assert (again.when, again.person, again.blob, again.tags) == (batch.when, batch.person, b"\xff\x00", {"a": 1})
    assert again.name.tolist() == batch.name.tolist()
    assert [t.shape for t in again.tokens.tolist()] == [t.shape for t in batch.tokens.tolist()]
    assert again.weight.dtype is torch.float64
    assert type(again.pose) is Pose
    assert again.rest["s"] == "x"
    assert again.rest["d"].batch_size == (n,)


@pytest.mark.parametrize("mode", MODES)
def test_batch_dims_names_and_absent_fields(mode):
    """No batch dims, several, dim names; None stays None, a produced field is written when it is there."""
    pose = Pose(angle=torch.tensor(1.5), axis=torch.zeros(3, dtype=torch.bfloat16))
    assert equal(Pose.from_json(pose.to_json(mode=mode)), pose)
    wide = Pose(angle=torch.rand(2, 0, 3), axis=torch.zeros(2, 0, 3, 3, dtype=torch.bfloat16), names=["a", None, "b"])
    again = Pose.from_json(wide.to_json(mode=mode))
    assert (again.batch_size, again.names) == ((2, 0, 3), ["a", None, "b"])
    batch = frame(2).replace(weight=None)
    assert Frame.from_json(batch.to_json(mode=mode)).weight is None
    batch.hidden = torch.rand(2, 2)
    assert torch.equal(Frame.from_json(batch.to_json(mode=mode)).hidden, batch.hidden)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_every_dtype_and_shape(dtype, mode):
    """Each dtype, exact or as a family, at shapes with and without elements."""
    for shape in ((), (3,), (0, 3), (2, 0), (2, 2)):
        value = torch.rand(shape).mul(4).to(torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
        for family in (family_of(dtype), Shaped, Num):
            if not (dtype is torch.bool and family is Num):
                found = encode_lists(value, family) if mode == "lists" else encode(value)
                again = decode(strict_json(json.dumps(found)), family)
                assert (again.dtype, again.shape) == (dtype, value.shape)
                assert torch.equal(again.reshape(-1).view(torch.uint8), value.reshape(-1).view(torch.uint8))


@given(st.lists(st.floats(width=32, allow_subnormal=False), max_size=6), st.sampled_from(MODES))
def test_floats_survive(values, mode):
    """Every float, nan and infinities too."""

    class Row(TensorClass):
        x: Float32[Tensor, ""]

    batch = Row(x=torch.tensor(values))
    again = Row.from_json(batch.to_json(mode=mode))
    assert torch.equal(again.x.nan_to_num(7.0), batch.x.nan_to_num(7.0))
    assert torch.equal(again.x.isnan(), batch.x.isnan())


def test_tensors_that_are_not_plain():
    """Parts of a graph, lazily conjugated ones, slices with strides, large unsigned numbers."""
    wave = torch.tensor([1 + 2j, 3 - 1j]).conj()
    for value in (torch.rand(2, requires_grad=True), wave, torch.rand(4, 4)[::2, 1], wave.imag):
        for lists in (False, True):
            family = family_of(value.dtype)
            found = encode_lists(value, family) if lists else encode(value)
            assert torch.equal(decode(found, family), value.resolve_neg())
    large = torch.tensor([2**64 - 1, 1], dtype=torch.uint64)
    assert decode([2**64 - 1, 1], family_of(torch.uint64)).tolist() == large.tolist()


def test_lists_are_read_without_a_batch_size():
    """What people write by hand: lists alone, integers for floats, numbers for batches without dims."""
    pose = Pose.from_json('{"angle": [1, 2], "axis": [[1, 2, 3], [4, 5, 6]]}')
    assert pose.batch_size == (2,)
    assert pose.axis.dtype is torch.bfloat16
    assert Pose.from_json('{"angle": 1, "axis": [0, 0, 1]}').batch_size == ()


def test_lazy_stacks_are_written_dense():
    """A class over a lazy stack writes what it reads."""
    parts = [Pose(angle=torch.rand(2), axis=torch.zeros(2, 3, dtype=torch.bfloat16)) for _ in range(3)]
    again = Pose.from_json(lazy_stack(parts).to_json())
    assert again.batch_size == (3, 2)
    assert torch.equal(again.angle, torch.stack([part.angle for part in parts]))


def test_lists_are_readable():
    """The text of a small batch in both modes."""

    @tensorclass
    class Row:
        x: UInt8[Tensor, "2"]
        note: str | None = None

    row = Row(x=torch.tensor([[1, 2]], dtype=torch.uint8))
    assert row.to_json(mode="lists") == '{"x":[[1,2]],"note":null,"batch_size":[1]}'
    data = base64.b64encode(bytes([1, 2])).decode()
    assert row.to_json() == f'{{"x":{{"dtype":"uint8","shape":[1,2],"data":"{data}"}},"note":null,"batch_size":[1]}}'
    with pytest.raises(ValueError, match='mode is "base64", "lists" or "records"'):
        row.to_json(mode="rows")


# ---- files and records -------------------------------------------------------------------------------------------


@tensorclass
class Row:
    x: Float32[Tensor, "2"]
    pose: Pose
    name: PerElement[str]
    source: str = "scan"
    extra: Int64[Tensor, ""] | None = None


def rows(n: int) -> Any:
    """A batch for records."""
    pose = Pose(angle=torch.arange(n).float(), axis=torch.ones(n, 3, dtype=torch.bfloat16))
    return Row(x=torch.rand(n, 2), pose=pose, name=[str(i) for i in range(n)])


@pytest.mark.parametrize("separator", [None, "."])
@pytest.mark.parametrize("lines", [False, True])
def test_records(tmp_path, separator, lines):
    """A path takes records, one object an element, as tables have rows; `from_json` reads them back."""
    path = tmp_path / "rows.json"
    batch = rows(3)
    assert batch.to_json(path, separator=separator, lines=lines) is None
    text = path.read_text()
    first = json.loads(text.splitlines()[0]) if lines else json.loads(text)[0]
    assert list(first) == (
        ["x", "pose.angle", "pose.axis", "name", "source", "extra"]
        if separator
        else ["x", "pose", "name", "source", "extra"]
    )
    assert len(first["x"]) == 2
    assert first["extra"] is None
    assert equal(Row.from_json(path, separator=separator, lines=lines), batch)
    for file in (path, str(path)):
        assert equal(Row.from_json(path=file, separator=separator, lines=lines), batch)


def test_files_of_whole_objects(tmp_path):
    """Other modes write one object."""
    path = tmp_path / "frame.json"
    batch = frame(2)
    batch.to_json(path, mode="base64")
    assert Frame.from_json(path).to_json() == batch.to_json()


@pytest.mark.parametrize(
    ("text", "path", "hint"),
    [
        ("[1]", "Row[0]", "a record is an object"),
        ('[{"source": "a"}, {"source": "b"}]', "source", "PerElement"),
    ],
)
def test_wrong_records(text, path, hint):
    """Records that are no objects, or that differ in a value of the whole batch."""
    with pytest.raises(SchemaError) as caught:
        Row.from_json(text)
    problem, *others = caught.value.problems
    assert problem.path == path
    assert hint in problem.hint
    assert {other.given for other in others} <= {"nothing"}  # the fields that these records lack


def test_records_need_one_batch_dim():
    """Records are rows, as of any table: one batch dim."""
    one = Pose(angle=torch.tensor(0.0), axis=torch.zeros(3, dtype=torch.bfloat16))
    with pytest.raises(BatchDimError, match=r"unsqueeze\(0\)"):
        one.to_json(mode="records")
    with pytest.raises(BatchDimError, match=r"reshape\(-1\)"):
        one.expand(2, 3).to_json(mode="records")


@pytest.mark.parametrize("separator", [None, "."])
def test_records_are_the_rows_of_files(separator, tmp_path):
    """One model: text of `to_json`, its files, and what datasets and `convert` write are the same objects."""
    batch = rows(3)
    text = batch.to_json(mode="records", separator=separator)
    TensorDict.to_json(batch, tmp_path / "rows.json", separator=separator)
    assert json.loads(text) == json.loads((tmp_path / "rows.json").read_text())
    assert equal(from_json(tmp_path / "rows.json", cls=Row, separator=separator), batch)
    assert equal(Row.from_json(text, separator=separator), batch)


# ---- what can't be written ---------------------------------------------------------------------------------------


class Opaque:
    """Nothing that JSON knows."""


def test_values_that_json_cannot_hold():
    """Each is named with its path, all together."""

    @tensorclass
    class Inner:
        thing: Opaque

    @tensorclass
    class Outer:
        inner: Inner
        thing: Opaque
        x: Float32[Tensor, ""]

    with pytest.raises(SchemaError) as caught:
        Outer(inner=Inner(thing=Opaque()), thing=Opaque(), x=torch.zeros((), device="meta")).to_json()
    assert [problem.path for problem in caught.value.problems] == ["inner.thing", "thing", "x"]
    assert "JSON can't hold it" in caught.value.problems[0].hint


# ---- what comes in is not trusted --------------------------------------------------------------------------------

TENSOR = '{"dtype": "%s", "shape": %s, "data": "%s"}'
BAD = {
    "no JSON": "{",
    "not an object": "3.5",
    "a list of lists": "[[]]",
    "a word": '"angle"',
    "an unknown field": '{"angle": 0, "axis": [0, 0, 0], "angel": 1}',
    "a missing field": '{"angle": 0}',
    "uneven lists": '{"angle": [[1], [1, 2]], "axis": [[0, 0, 0]]}',
    "strings": '{"angle": ["1"], "axis": [[0, 0, 0]]}',
    "booleans for numbers": '{"angle": [true], "axis": [[0, 0, 0]]}',
    "null in lists": '{"angle": [null], "axis": [[0, 0, 0]]}',
    "a float that float32 can't hold": '{"angle": [1e300], "axis": [[0, 0, 0]]}',
    "another object": '{"angle": {"x": 1}, "axis": [0, 0, 0]}',
    "an unknown dtype": '{"angle": %s, "axis": [0, 0, 0]}' % (TENSOR % ("object", "[]", "")),
    "a dtype that is not declared": '{"angle": %s, "axis": [0, 0, 0]}' % (TENSOR % ("int8", "[]", "AA==")),
    "no base64": '{"angle": %s, "axis": [0, 0, 0]}' % (TENSOR % ("float32", "[]", "AA*AAA==")),
    "too few bytes": '{"angle": %s, "axis": [0, 0, 0]}' % (TENSOR % ("float32", "[4]", "AAAAAA==")),
    "a huge shape": '{"angle": %s, "axis": [0, 0, 0]}' % (TENSOR % ("float32", "[1152921504606846976, 16]", "")),
    "an overflowing shape": '{"angle": %s, "axis": [0, 0, 0]}' % (TENSOR % ("float32", f"[0, {2**62}, {2**62}]", "")),
    "a negative size": '{"angle": %s, "axis": [0, 0, 0]}' % (TENSOR % ("float32", "[-1]", "")),
    "a size that is not a number": '{"angle": %s, "axis": [0, 0, 0]}' % (TENSOR % ("float32", "[true]", "")),
    "too many dims": '{"angle": %s, "axis": [0, 0, 0]}' % (TENSOR % ("float32", [1] * 65, "")),
    "another batch size": '{"angle": [1], "axis": [[0, 0, 0]], "batch_size": [2]}',
    "a batch size that is none": '{"angle": [1], "axis": [[0, 0, 0]], "batch_size": "all"}',
    "a negative batch size": '{"angle": [1], "axis": [[0, 0, 0]], "batch_size": [-1]}',
    "too large a batch size": '{"angle": [1], "axis": [[0, 0, 0]], "batch_size": [1180591620717411303424]}',
    "names that are none": '{"angle": [1], "axis": [[0, 0, 0]], "names": 3}',
    "too many names": '{"angle": [1], "axis": [[0, 0, 0]], "names": ["a", "b"]}',
    "no text": "",
    "deep lists": '{"angle": %s, "axis": [0, 0, 0]}' % ("[" * 150 + "]" * 150),
    "deeper than the parser goes": "[" * 100_000,
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    """Every wrong text is an error of ours, and says where and what."""
    with pytest.raises(TensorClassError) as caught:
        Pose.from_json(BAD[name].encode())
    assert str(caught.value).startswith("Pose: ")


@pytest.mark.parametrize("number", [10**30, -(10**19), 1.5, "NaN", "1"])
def test_numbers_that_do_not_fit(number):
    """A number alone is held to the dtype as lists are; large ones too."""

    class Count(TensorClass):
        n: Int64[Tensor, ""]

    for value in (number, [number]):
        with pytest.raises(SchemaError) as caught:
            Count.from_json(json.dumps({"n": value}))
        assert [problem.path for problem in caught.value.problems] == ["n"]


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        ([1, [2]], "nested lists at [1] where others hold a number"),
        ([[1, 2], [3]], "a list of 1 at [1] where others have 2 entries"),
        ([[1], 2], "2 at [1] where others hold 1 entries"),
        ([[1], [None]], "None at [1][0] is not a number; nan and infinities are NaN, Infinity, -Infinity"),
        (["NaN", "nan"], "'nan' at [1] is not a number"),
        ([1, {"a": 1}], "{'a': 1} at [1] is not a number"),
        ([1, 2.5], "int64 can't hold 2.5 at [1]"),
        ([0, 2**63], "int64 can't hold 9.223372036854776e+18 at [1]"),
        ([1, 10**30], "64 bits"),
        ([2.0**63, 1], "int64 can't hold 9.223372036854776e+18 at [0]"),
    ],
)
def test_the_first_wrong_number_is_named(values, hint):
    """What is wrong in lists is told with its place."""

    class Count(TensorClass):
        n: Int64[Tensor, "..."]

    with pytest.raises(SchemaError) as caught:
        Count.from_json(json.dumps({"n": values}))
    assert hint in caught.value.problems[0].hint


@pytest.mark.parametrize("values", [[1, True], [[0.5], [False]], ["NaN", True], [[2, 3], [4, True]]])
def test_booleans_among_numbers(values):
    """A boolean is no number, also beside numbers, unless the field casts."""
    for family in (family_of(torch.int64), family_of(torch.float32)):
        with pytest.raises(Inexact, match="booleans are among the numbers"):
            decode(values, family)
    assert decode(values, family_of(torch.float32), cast=True).dtype is torch.float32
    with pytest.raises(Inexact, match="not Bool"):
        decode(values, family_of(torch.bool))


def test_large_integers_among_floats():
    """Integers are read exactly beside floats that are whole; of other dtypes what they round to."""
    large = 2**62 + 1
    assert decode([large, 1.0], family_of(torch.int64)).tolist() == [large, 1]
    assert decode([[2**64 - 1, 3.0]], family_of(torch.uint64)).tolist() == [[2**64 - 1, 3]]
    assert decode([large, 0.5], family_of(torch.float64)).tolist() == [float(large), 0.5]
    with pytest.raises(Inexact, match=r"int64 can't hold 0.5 at \[1\]"):
        decode([large, 0.5], family_of(torch.int64))


def test_base64_that_looks_like_a_word():
    """Bytes whose base64 is "Infinity" are bytes."""
    value = torch.from_numpy(np.frombuffer(base64.b64decode("Infinity"), dtype=np.uint8).copy())
    assert encode(value)["data"] == "Infinity"
    assert decode(strict_json(json.dumps(encode(value))), family_of(torch.uint8)).equal(value)


def test_numbers_at_the_edge_of_float32():
    """What rounds to an infinity is refused, the largest finite number is not; infinities in words are meant."""
    family = family_of(torch.float32)
    largest = float(np.finfo(np.float32).max)
    assert decode([largest, -largest], family).tolist() == [largest, -largest]
    assert decode([largest, "-Infinity", "NaN"], family)[1] == -math.inf
    with pytest.raises(Inexact, match=r"float32 can't hold 3.5e\+38 at \[0\]"):
        decode([3.5e38], family)
    assert encode_lists(torch.tensor([largest, 1.0]), family) == [largest, 1.0]
    assert encode_lists(torch.tensor([-math.inf, NAN]), family) == ["-Infinity", "NaN"]


class Deep(TensorClass):
    inner: Deep | None = None
    x: Float32[Tensor, ""] | None = None


def test_deep_nesting():
    """A recursive class is read as deep as the parser goes, or refused in our words."""
    text = '{"inner": ' * 20 + "{}" + "}" * 20
    assert Deep.from_json(text).inner.inner.batch_size == ()
    with pytest.raises(SchemaError):
        Deep.from_json('{"inner": ' * 5000 + "{}" + "}" * 5000)


class Spread(TensorClass):
    """Fields of which one value stands for all elements."""

    note: PerElement[str] = "none"
    weight: Float32[Tensor, ""] = 1.0
    x: Int64[Tensor, "n"] | None = None


@pytest.mark.parametrize(
    "text",
    [
        '{"batch_size": [1000000000000]}',
        '{"batch_size": [1000000, 1000000], "note": "a"}',
        '{"weight": {"dtype": "float32", "shape": [1000000000000, 0], "data": ""}, "batch_size": [1000000000000]}',
        '{"x": {"dtype": "int64", "shape": [1000000000000, 0], "data": ""}}',
        '{"x": [[1]], "batch_size": [1000000000000]}',
        '{"note": ["a"], "batch_size": [1000000000000]}',
    ],
)
def test_a_short_text_makes_no_large_tensor(text):
    """A batch size for which defaults would be spread must be that of some data."""
    with pytest.raises(SchemaError):
        Spread.from_json(text)


def test_defaults_are_spread_over_data():
    """Small batches, and those that some field holds, take their defaults."""
    assert Spread.from_json('{"batch_size": [3]}').weight.tolist() == [1.0] * 3
    assert Spread.from_json(json.dumps({"x": [[i] for i in range(5000)]})).weight.shape == (5000,)


def test_bool_bytes():
    """Bytes that are neither 0 nor 1 are no booleans."""

    class Flags(TensorClass):
        x: Bool[Tensor, ""]

    with pytest.raises(SchemaError, match="0 and 1"):
        Flags.from_json('{"x": {"dtype": "bool", "shape": [3], "data": "AQID"}}')
    with pytest.raises(SchemaError, match="numbers are not Bool"):
        Flags.from_json('{"x": [0, 1]}')


def test_untyped_corners_are_checked():
    """Entries of a `TensorDict` say what they are, and their sizes are checked."""

    class Corner(TensorClass):
        rest: TensorDict

    for rest in (
        {"entries": {"a": 1}, "batch_size": []},
        {"entries": {"a": {"dtype": "float32", "shape": [2], "data": [1, 2]}}, "batch_size": [3]},
        {"entries": {"a": {"objects": "x"}}, "batch_size": [10**12]},
        {"entries": [], "batch_size": []},
        {"entries": {}},
    ):
        with pytest.raises(SchemaError) as caught:
            Corner.from_json(json.dumps({"rest": rest}))
        assert caught.value.problems[0].path == "rest"


def test_the_bases_read_nothing():
    """A class without fields says so."""
    with pytest.raises(TypeError, match="declares no fields"):
        TensorClass.from_json("{}")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"x": [1, 2], "x": [3, 4]}', "x"),
        ('{"x": [1, 2], "x" : [1, 2]}', "x"),
        ('{"x": {"dtype": "float32", "dtype": "float64"}}', "x.dtype"),
        ('[{"x": [1, 2]}, {"x": [1, 2], "x": [3, 4]}]', r"[1].x"),
        ('{"deep": [[{"a": {"\\u0062": 1, "b": 2}}]]}', r"deep[0][0].a.b"),
    ],
)
def test_a_key_that_is_given_twice(text: str, path: str) -> None:
    """The last one would count, in silence."""

    class Point(TensorClass):
        x: Float32[Tensor, "2"]

    with pytest.raises(SchemaError, match=f"the key `{re.escape(path)}` is given twice"):
        Point.from_json(text)
    with pytest.raises(SchemaError, match="is given twice"):
        Point.from_json('{"x": [1, 2]}\n' + text, lines=True)


def test_marks_of_keys_in_strings() -> None:
    """Text that looks like keys is text."""

    class Note(TensorClass):
        text: str
        rows: list[Any]

    rows = [1, {"a": 1}, {"a": [{"a": '":'}]}]
    note = Note.from_json(json.dumps({"text": '": "a":', "rows": rows}))
    assert note.text == '": "a":'
    assert note.rows == rows
