# Written by `tensorclass stubs` from tables.py; run it again after a change.
# ty: ignore
# ruff: noqa
# fmt: off
"""Train on a Parquet file: scikit-learn's digits as a table from another program, a dataset made from it, a loader.

The table has float64 pixels and a column that no field declares. The class selects the columns and converts them.
"""
from __future__ import annotations
from tensorclass import TensorClass as _TensorClass
from tensorclass.typecheck import _stub_types as _t
from typing import Any as _Any, Literal as _Literal, overload as _overload
from typing_extensions import Self as _Self
import tempfile
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from tensorclass import PerElement, TensorClassDataset, field, tensorclass
from tensorclass.typing import Float32, Int64
EPOCHS = 10

class Digits(_t.Declared, _TensorClass):
    """Scanned digits, each with the name of its file."""
    image: Float32[Tensor, "64"] = field(coerce="cast")
    label: Int64[Tensor, ""] = field(renamed_from="target")
    name: PerElement[str]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Digits | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Digits | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        image: Tensor = ...,
        label: Tensor = ...,
        name: _t.PerElementGiven[str] = ...,
    ) -> Digits: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["image", "label"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _Literal["name"]) -> _t.PerElementValues[str]: ...
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["image", "label"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _Literal["name"]) -> _t.PerElementValues[str]: ...
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

def write_table(path: Path) -> None:
    """Write a table as another program might do it: lists of float64, and row groups of 500 images."""
def train(data: TensorClassDataset[Digits]) -> nn.Module:
    """Train with Adam and cross-entropy; batches are `Digits`, in a new order each epoch."""
def main() -> None:
    """Make a dataset from the table, train the model, and write its mistakes to a table."""
