"""Tensors in JSON: which numbers a dtype takes, against Python's own numbers; and every reason for a refusal."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass._schema._convert import Inexact
from tensorclass._schema._dtypes import family_of
from tensorclass._schema._json import decode, encode, encode_lists
from tensorclass._schema._json_keys import unique
from tensorclass.errors import StructureError
from tensorclass.typing import Bool, Complex64, Float16, Float32, Int64, Shaped, UInt8

NUMBERS = (
    0, 1, -1, 3, 127, 128, 255, 256, 2**24 + 1, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 0.5, -0.0, 3.0, 1e10,
    65504.0, 65520.0, 1e39, 1e300, True, False, "NaN", "Infinity", "-Infinity",
)  # fmt: skip
DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, torch.uint64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64,
)  # fmt: skip


def taken(numbers: list[Any], dtype: torch.dtype) -> Tensor | None:
    """The tensor of some numbers in JSON by the rules of Python; None if one of them is refused."""
    if dtype is torch.bool or bool in map(type, numbers):
        fits = dtype is torch.bool and {*map(type, numbers)} <= {bool}
        return torch.tensor(numbers, dtype=dtype) if fits else None
    values = [float(number) if isinstance(number, str) else number for number in numbers]
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        if not all(math.isfinite(n) and n == int(n) and limits.min <= n <= limits.max for n in values):
            return None
        return torch.tensor([int(n) for n in values], dtype=dtype)
    made = torch.tensor([float(n) for n in values], dtype=torch.float64).to(dtype)
    return made if made.isfinite().tolist() == [math.isfinite(n) for n in values] else None


@given(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=3), st.sampled_from(DTYPES), st.booleans())
def test_numbers_that_a_dtype_takes(numbers, dtype, nested):
    """Whole numbers are kept exactly, floats are rounded but stay finite, booleans and numbers do not mix."""
    expected = taken(numbers, dtype)
    value = [numbers, numbers] if nested else numbers
    if expected is None:
        with pytest.raises(Inexact):
            decode(value, family_of(dtype), json=True)
        return
    found = decode(value, family_of(dtype), json=True)
    assert found.dtype is dtype
    whole = torch.stack([expected, expected]) if nested else expected
    torch.testing.assert_close(found, whole, rtol=0, atol=0, equal_nan=True)
    again = decode(json.loads(json.dumps(encode_lists(found, family_of(dtype)))), family_of(dtype), json=True)
    torch.testing.assert_close(again, whole, rtol=0, atol=0, equal_nan=True)


ONES = encode(torch.ones(2, 3))
WORDS = "nan and infinities are NaN, Infinity, -Infinity"
SHAPE = "the shape is a list of at most 64 numbers from 0, got"
KEYS = "a tensor is lists, or an object with exactly the keys dtype, shape and data"


@pytest.mark.parametrize(
    ("value", "family", "reason"),
    [
        ([[1], [1, 2]], Float32, "a list of 2 at [1] where others have 1 entries"),
        ([[[1, 2]], [[3]]], Float32, "a list of 1 at [1][0] where others have 2 entries"),
        ([1, [2]], Float32, "nested lists at [1] where others hold a number"),
        ([[1], 2], Float32, "2 at [1] where others hold 1 entries"),
        ([1, None], Float32, f"None at [1] is not a number; {WORDS}"),
        ([[1, 2], [3, "x"]], Float32, f"'x' at [1][1] is not a number; {WORDS}"),
        ([1.0, "inf"], Float32, f"'inf' at [1] is not a number; {WORDS}"),
        ("x", Float32, f"'x' is not a number; {WORDS}"),
        (None, Float32, f"None is not a number; {WORDS}"),
        ([2**70], Int64, "numbers in nested lists are expected, up to 64 bits each and 64 lists deep"),
        ([1.5], Int64, "int64 can't hold 1.5 at [0]"),
        ([[1, 300]], UInt8, "uint8 can't hold 300 at [0][1]"),
        ([70000.0], Float16, "float16 can't hold 70000.0 at [0]"),
        ([1.0, 1e39], Float32, "float32 can't hold 1e+39 at [1]"),
        (["NaN", 1], Int64, "int64 can't hold nan at [0]"),
        ([True], Float32, 'booleans are not Float32; nothing is converted without `coerce="cast"`'),
        ([1, 0], Bool, 'numbers are not Bool; nothing is converted without `coerce="cast"`'),
        ([1, True], Int64, 'booleans are among the numbers; nothing is converted without `coerce="cast"`'),
        (
            [1.0, math.inf],
            Float32,
            "inf at [1] is not a JSON number: it was too large for a float, or was not "
            "quoted; write nan and infinities as the strings NaN, Infinity, -Infinity",
        ),
        ([[1, 2, 3]], Complex64, "a complex number is the list of its parts: [real, imaginary]"),
        (3.0, Complex64, "a complex number is the list of its parts: [real, imaginary]"),
        ({**ONES, "shape": [2, 4]}, Float32, "float32 [2, 4] are 32 bytes in base64, `data` holds 24"),
        ({**ONES, "data": ONES["data"][:-4]}, Float32, "float32 [2, 3] are 24 bytes in base64, `data` holds 21"),
        ({"dtype": "uint8", "shape": [1], "data": "AAE="}, UInt8, "uint8 [1] are 1 bytes in base64, `data` holds 2"),
        ({**ONES, "shape": [2, -3]}, Float32, f"{SHAPE} [2, -3]"),
        ({**ONES, "shape": [2, 3.0]}, Float32, f"{SHAPE} [2, 3.0]"),
        ({**ONES, "shape": 6}, Float32, f"{SHAPE} 6"),
        ({**ONES, "shape": [True, 6]}, Float32, f"{SHAPE} [True, 6]"),
        ({**ONES, "more": 1}, Float32, KEYS),
        ({"dtype": "float32"}, Float32, KEYS),
        ({**ONES, "data": [[1, 2, 3]]}, Float32, "the shape [2, 3] has 6 elements, `data` holds 3"),
        ({"dtype": "bool", "shape": [3], "data": "AAEC"}, Bool, "the bytes of a bool are 0 and 1"),
    ],
)
def test_why_a_value_is_refused(value, family, reason):
    """The first fault, with its position."""
    with pytest.raises(Inexact) as caught:
        decode(value, family, json=True)
    assert str(caught.value) == reason


@pytest.mark.parametrize("dtype", ["float33", 3, None])
def test_unknown_dtypes(dtype):
    """The known ones are listed."""
    with pytest.raises(Inexact, match=rf"the dtype {dtype!r} is not one of float8_e4m3fn, .*, uint64, bool$"):
        decode({**ONES, "dtype": dtype}, Shaped)


@pytest.mark.parametrize(
    ("value", "family", "expected"),
    [
        ([], Int64, torch.zeros(0, dtype=torch.int64)),
        ([1, 2], Complex64, torch.tensor(1 + 2j)),
        ([[1, 2], [3, 4]], Complex64, torch.tensor([1 + 2j, 3 + 4j])),
        ([1, 2], Shaped, torch.tensor([1, 2])),
        ([1, 2.5], Shaped, torch.tensor([1, 2.5])),
        ([True], Shaped, torch.tensor([True])),
        ([1.0, math.inf], Float32, torch.tensor([1.0, math.inf])),  # of Python, not of a JSON text
        (ONES, Float32, torch.ones(2, 3)),
        ({**ONES, "data": [1, 1, 1, 1, 1, 1]}, Float32, torch.ones(2, 3)),
        ({**ONES, "shape": [], "data": "Infinity"}, Float32, torch.tensor(math.inf)),
        ({**ONES, "shape": [0, 3], "data": ""}, Float32, torch.zeros(0, 3)),
        ({"dtype": "bool", "shape": [3], "data": "AAEB"}, Bool, torch.tensor([False, True, True])),
        ({"dtype": "uint8", "shape": [2], "data": "AAE="}, Float32, torch.tensor([0, 1], dtype=torch.uint8)),
    ],
)
def test_what_is_read(value, family, expected):
    """Lists take the declared dtype, objects say their own; `data` may be lists of any shape that has as many."""
    found = decode(value, family)
    assert found.dtype is expected.dtype
    assert torch.equal(found, expected)


class Pairs(list[Any]):
    """The pairs of an object, with keys that may repeat."""


PARTS = st.recursive(
    st.integers(0, 1) | st.just('"a":') | st.just("b"),
    lambda part: st.lists(part, max_size=3) | st.lists(st.tuples(st.sampled_from("abc"), part), max_size=3).map(Pairs),
    max_leaves=8,
)


def text_of(part: Any) -> str:
    """The JSON text of lists, pairs and values."""
    if isinstance(part, Pairs):
        return "{" + ", ".join(f'"{key}" : {text_of(value)}' for key, value in part) + "}"
    return f"[{', '.join(map(text_of, part))}]" if isinstance(part, list) else json.dumps(part)


def repeated(part: Any, path: str) -> list[str]:
    """The paths of all keys that an object has twice."""
    if isinstance(part, Pairs):
        keys = [key for key, _ in part]
        inner = dict(part)
        own = [f"{path}.{key}" for key in dict.fromkeys(keys) if keys.count(key) > 1]
        return own + [found for key, value in inner.items() for found in repeated(value, f"{path}.{key}")]
    if not isinstance(part, list):
        return []
    return [found for i, value in enumerate(part) for found in repeated(value, f"{path}[{i}]")]


@given(PARTS)
def test_keys_that_repeat(part):
    """A repeated key is found in any object that is kept, and a text without one is read as by Python."""
    paths = [path.removeprefix(".") for path in repeated(part, "")]
    text = text_of(part)
    if paths:
        with pytest.raises(StructureError) as caught:
            unique(text.encode())
        assert str(caught.value) in {f"the key `{path}` is given twice" for path in paths}
    else:
        assert unique(text.encode()) == json.loads(text)
