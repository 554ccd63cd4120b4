"""Unknown options: the error names the nearest option, and lists those there are."""

from __future__ import annotations

import inspect
from types import FunctionType

import pytest
import torch
from torch import Tensor

from tensorclass import RaggedTensor, TensorClass, TensorDict
from tensorclass.classes._conveniences import Conveniences
from tensorclass.classes._pydantic import JsonMethods
from tensorclass.errors import ArgumentError
from tensorclass.ops._by_row import RowOps
from tensorclass.ops._conversions import ConversionOps
from tensorclass.ops._export_ops import ExportOps
from tensorclass.store._scale import ScaleOps
from tensorclass.store._tables import TableOps
from tensorclass.typing import Int64

Method = FunctionType | classmethod


class Row(TensorClass):
    """A number."""

    number: Int64[Tensor, ""]


TYPED = Row(number=torch.arange(3))


@pytest.mark.parametrize("cls", [RowOps, Conveniences, TableOps, ScaleOps, ConversionOps, ExportOps, JsonMethods])
def test_every_convenience_answers(cls):
    """Any unknown option of any convenience is an error of the package that lists the options there are."""
    public = [name for name, value in vars(cls).items() if name[0] != "_" and isinstance(value, Method)]
    assert public
    for name in public:
        options = inspect.signature(getattr(TYPED, name, None) or getattr(TensorDict, name)).parameters.values()
        if any(one.kind is one.VAR_KEYWORD for one in options):
            continue
        with pytest.raises(ArgumentError, match=f"^{name}.. got an unexpected keyword argument `no_such_option`"):
            getattr(TYPED, name, None)(no_such_option=1)


def test_a_slip_is_answered_by_the_nearest_option():
    """A misspelt option, and one that is like none of them."""
    with pytest.raises(ArgumentError, match="did you mean `descending`"):
        TYPED.sort_by("number", decending=True)
    with pytest.raises(ArgumentError, match=r"`zzz`; its options are \['descending'\]$"):
        TYPED.sort_by("number", zzz=True)


def test_ragged_tensors_answer():
    """Their methods too."""
    ragged = RaggedTensor([torch.arange(2), torch.arange(3)])
    with pytest.raises(ArgumentError, match=r"`padding_value`.*its options are \['value'"):
        ragged.pad(padding_value=0)
    with pytest.raises(ArgumentError, match=r"mean.. got an unexpected keyword argument `dim`"):
        ragged.mean(dim=0)


@pytest.mark.parametrize("make", ["zeros", "ones"])
def test_the_batch_size_comes_first(make):
    """As a keyword it would be the size of a dim of that name."""
    with pytest.raises(ArgumentError, match=rf"the batch size comes first: `{make}\(5\)`"):
        getattr(Row, make)(batch_size=5)


@pytest.mark.parametrize("maker", ["zeros", "ones"])
def test_sizes_one_by_one(maker: str):
    """As torch takes them; the error says how they go together."""
    with pytest.raises(ArgumentError, match=rf"`{maker}\(\(16, 128\)\)`"):
        getattr(Row, maker)(16, 128)


def test_more_values_than_a_method_takes():
    """The error counts them, without the instance."""
    with pytest.raises(ArgumentError, match=r"head\(\) takes 1 positional arguments, got 2"):
        Row.zeros(4).head(2, "x")
