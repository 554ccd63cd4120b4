"""Python objects come back as they were, or are refused by name."""

from __future__ import annotations

import math
from collections import OrderedDict, namedtuple
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
import torch

import tensorclass as tc
from tensorclass import NonTensorData, NonTensorStack, TensorDict
from tensorclass.errors import UnsupportedOperationError
from tensorclass.io._values import decode, encode, to_text

VALUES: list[Any] = [
    None, True, 0, -1, 2**53 + 1, -(2**63), 2**63, 10**5000,
    1.5, -0.0, math.inf, -math.inf, math.nan, 1e-320, "", "é\n\x00",
    "\ud800", [], [1, [2, []]], {}, {"a": {"b": [None]}}, {"$tuple": 1}, {"$": {"$x": 1}}, {1: "a", None: 2, (1, 2): 3},
    {"1": 1, 1: 2}, (), (1,), (1, (2, [3])), {1, 2}, frozenset({(1, "a")}), b"", b"\x00\xff", bytearray(b"ab"), 1 - 2j,
    complex(math.nan, -0.0), range(1, 9, 2), slice(None, 3), datetime(2024, 2, 29, 1, 2, 3, 4),
    datetime(2024, 2, 29, tzinfo=timezone.utc), date(1, 1, 1), time(23, 59, 59, 999999), timedelta(-1, 5, 7),
    Decimal("1.10"), Decimal("NaN"), UUID(int=7), Path("a/../b"), torch.Size([2, 3]), torch.float32, torch.bfloat16,
    torch.device("cuda:1"), np.float32(1.5), np.int8(-3), np.str_("x"), np.datetime64("2024-02-29"), np.array([[1, 2]]),
    np.array([], dtype=np.float16), np.array(["a", "bb"]), np.array(3.5), np.arange(6).reshape(2, 3).T,
]  # fmt: skip


def same(one: Any, other: Any) -> bool:
    """Equal, of one type, all the way down; nan is nan."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, int):
        return bool(one == other)
    return repr(one) == repr(other)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}-{to_text(encode(value))[:20]}")
def test_values(value, tmp_path):
    """An object of the batch and one of an element come back equal, of the same type."""
    assert same(decode(encode(value)), value)
    data = TensorDict(v=NonTensorData(value), s=NonTensorStack.of_one(value, torch.Size([2])), batch_size=[2])
    data.save(tmp_path)
    found = tc.load(tmp_path)
    assert same(found.get("v").data, value)
    assert all(same(one, value) for one in found.get("s").tolist())


def test_tensors_in_objects(tmp_path):
    """A tensor inside of a Python object keeps dtype, shape, values and gradient."""
    inner = torch.arange(6.0).reshape(2, 3).t().requires_grad_()
    TensorDict(v=NonTensorData({"t": [inner, torch.tensor(1 + 2j).conj()]})).save(tmp_path)
    one, other = tc.load(tmp_path)["v"]["t"]
    assert torch.equal(one, inner)
    assert one.requires_grad
    assert other == 1 - 2j


Pair = namedtuple("Pair", "a b")


class Level(IntEnum):
    """An integer that is more."""

    LOW = 1


@pytest.mark.parametrize(
    "value",
    [
        Pair(1, 2),
        Level.LOW,
        OrderedDict(a=1),
        Fraction(1, 3),
        object(),
        print,
        [object()],
        {"a": {1: print}},
        Exception("x"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_refused_values(value, tmp_path):
    """An object that JSON would bring back as another one is refused by field; nothing is written."""
    for held in (NonTensorData(value), NonTensorStack.of_one(value, torch.Size([2]))):
        data = TensorDict({("n", "v"): held}, batch_size=[2])
        with pytest.raises(UnsupportedOperationError, match=r"field `n\.v`.*no form in JSON"):
            data.save(tmp_path / "x.safetensors")
    assert not (tmp_path / "x.safetensors").exists()


def test_a_value_that_contains_itself(tmp_path):
    """It is refused, as is one that is nested too deeply."""
    loop: list[Any] = []
    loop.append(loop)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (loop, deep):
        with pytest.raises(UnsupportedOperationError, match="contains itself"):
            TensorDict(v=NonTensorData(value)).save(tmp_path)


def test_long_values(tmp_path):
    """A long text is stored as bytes, so that the header stays short."""
    text = "é" * 200_000
    TensorDict(a=torch.ones(1), text=text).save(tmp_path / "x.safetensors")
    raw = (tmp_path / "x.safetensors").read_bytes()
    assert int.from_bytes(raw[:8], "little") < 4_096  # a page: the payload is large
    assert tc.load(tmp_path / "x.safetensors")["text"] == text


@pytest.mark.parametrize(
    "form",
    [
        {"$nothing": 1},
        {"$tuple": 1, "a": 2},
        {"$int": "x"},
        {"$int": 1},
        {"$float": []},
        {"$bytes": "!"},
        {"$bytes": 1},
        {"$set": [[1]]},
        {"$dict": [1]},
        {"$dict": [[[], 1]]},
        {"$datetime": "x"},
        {"$timedelta": [10**30]},
        {"$uuid": ""},
        {"$decimal": "x"},
        {"$size": ["a"]},
        {"$dtype": "save"},
        {"$device": "x y"},
        {"$array": ["<f8", [2], ""]},
        {"$array": ["<f8", [-1, -1], "AAAAAAAAAAA="]},
        {"$array": ["O", [0], ""]},
        {"$numpy": ["V8", "AAAAAAAAAAA="]},
        {"$tensor": {"dtype": "float32", "shape": [2], "data": ""}},
        {"$range": [0, 1, 0]},
        {"$array": ["<f8", [0, 2**70], ""]},
        {"$path": 3},
    ],
    ids=to_text,
)
def test_wrong_forms(form):
    """A form that stands for nothing is a ValueError, whatever it holds."""
    with pytest.raises(ValueError, match=r"\S"):
        decode(form)
