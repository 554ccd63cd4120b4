"""Options under the names of other libraries: the error names the option here, or what to write."""

from __future__ import annotations

import inspect
from types import FunctionType

import pytest
import torch
from torch import Tensor

from tensorclass import RaggedTensor, TensorClass, TensorDict, _flags
from tensorclass.classes._conveniences import Conveniences
from tensorclass.classes._pydantic import JsonMethods
from tensorclass.errors import ArgumentError
from tensorclass.ops._by_row import RowOps
from tensorclass.ops._conversions import ConversionOps
from tensorclass.ops._export_ops import ExportOps
from tensorclass.store._scale import ScaleOps
from tensorclass.store._tables import TableOps
from tensorclass.typing import Int64

GENERATOR = "write `generator=torch.Generator().manual_seed(0)`"
FIELDS = 'fields are named without a keyword: `{}("a", "b")`'
CALLS = {
    "sort_by": {
        "ascending": "`descending=True`", "reverse": "`descending=True`", "by": FIELDS,
        "key": FIELDS, "axis": "along the rows",
        "inplace": "`batch = batch.sort_by(...)`", "na_position": "come last", "ignore_index": "no index",
    },
    "sample": {
        "seed": GENERATOR, "random_state": GENERATOR, "k": "write `n=`", "size": "write `n=`",
        "num_samples": "write `n=`", "frac": "number of rows", "replace": "write `replacement=`",
        "with_replacement": "write `replacement=`", "weights": "multinomial", "axis": "along the rows",
    },
    "shuffle": {"seed": GENERATOR, "random_state": GENERATOR, "rng": GENERATOR},
    "head": {"k": "write `n=`", "num": "write `n=`", "size": "write `n=`"},
    "group_by": {"by": FIELDS, "keys": FIELDS, "as_index": "no index", "sort": "in order"},
    "unique_by": {"subset": FIELDS, "inplace": "`batch = batch.unique_by(...)`", "ignore_index": "no index"},
    "filter": {"mask": "write `keep=`", "predicate": "write `keep=`", "func": "write `keep=`", "items": "select"},
    "iter": {"batch_size": "write `size=`", "seed": GENERATOR, "num_workers": "DataLoader"},
    "describe": {"percentiles": "no options", "include": "select"},
    "scalars": {"sep": "write `separator=`", "reduction": "write `reduce=`", "dtype": "`batch.to(dtype)`"},
    "to_dict": {"orient": "`[row.to_dict() for row in batch]`"},
    "to_numpy": {"dtype": "`batch.to(dtype)`", "copy": "`batch.clone()`"},
    "to_json": {"orient": "`[row.to_dict() for row in batch]`", "indent": "json.dumps", "path_or_buf": "write `path=`"},
    "to_csv": {"sep": "write `delimiter=`", "index": "no index", "columns": "select", "path_or_buf": "write `path=`"},
    "to_pandas": {"index": "no index", "columns": "select"},
    "map": {"function": "write `fn=`", "num_proc": "write `num_workers=`", "batched": "`chunksize` rows"},
    "chunk": {"n": "write `chunks=`"},
    "flatten": {"axis": "write `start_dim=`"},
    "save": {"f": "write `prefix=`", "filename": "write `prefix=`"},
}  # fmt: skip
"""Method -> what pandas, torch, polars, numpy and Hugging Face users type -> a part of the answer."""


Method = FunctionType | classmethod


class Row(TensorClass):
    """A number."""

    number: Int64[Tensor, ""]


TYPED = Row(number=torch.arange(3))
BATCHES = [TYPED, TensorDict(number=torch.arange(3), batch_size=[3])]


@pytest.mark.parametrize("batch", BATCHES, ids=["typed", "dict"])
@pytest.mark.parametrize("method", CALLS)
def test_words_of_other_libraries(batch, method):
    """The message has the word, and what to write in its place; nothing is done."""
    for word, answer in CALLS[method].items():
        with pytest.raises(ArgumentError) as info:
            getattr(batch, method)(**{word: 0})
        assert f"{method}() got an unexpected keyword argument `{word}`" in str(info.value)
        assert answer.format(method) in str(info.value)


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


def test_answers_name_options_that_exist():
    """An option that is renamed is renamed in the table."""
    known = {
        option
        for cls in (Row, TensorDict)
        for name in dir(cls)
        if not name.startswith("_") and callable(getattr(cls, name, None))
        for option in inspect.signature(getattr(cls, name)).parameters
    }
    known |= {*inspect.signature(RaggedTensor.pad).parameters, *inspect.signature(RaggedTensor).parameters}
    assert {option for options in _flags._HERE.values() for option in options.split()} <= known


def test_a_slip_is_answered_by_the_nearest_option():
    """A misspelt option, and one that is like none of them."""
    with pytest.raises(ArgumentError, match="did you mean `descending`"):
        TYPED.sort_by("number", decending=True)
    with pytest.raises(ArgumentError, match=r"`zzz`; its options are \['descending'\]$"):
        TYPED.sort_by("number", zzz=True)


def test_ragged_tensors_answer():
    """Their methods too."""
    ragged = RaggedTensor([torch.arange(2), torch.arange(3)])
    for word in ("padding_value", "pad_value", "fill_value"):
        with pytest.raises(ArgumentError, match=f"`{word}`; write `value=`"):
            ragged.pad(**{word: 0})
    with pytest.raises(
        ArgumentError, match=r"mean.. got an unexpected keyword argument `dim`; it works along the rows"
    ):
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
