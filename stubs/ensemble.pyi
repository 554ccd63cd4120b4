# Written by `tensorclass stubs` from ensemble.py; run it again after a change.
# ty: ignore
# ruff: noqa
# fmt: off
"""Regression without gradients: each of several models solves random features of a resampled table; they vote."""
from __future__ import annotations
from tensorclass import TensorClass as _TensorClass
from tensorclass.typecheck import _stub_types as _t
from typing import Any as _Any, Literal as _Literal, overload as _overload
from typing_extensions import Self as _Self
import torch
from sklearn.datasets import load_diabetes
from torch import Tensor
from tensorclass import tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32
MODELS, FEATURES, RIDGE = 20, 50, 30.0

class Patient(_t.Declared, _TensorClass):
    """Ten measurements, each scaled to unit variance, and the progression of the disease."""
    measured: Float32[Tensor, "10"]
    progression: Float32[Tensor, ""]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Patient | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Patient | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        measured: Tensor = ...,
        progression: Tensor = ...,
    ) -> Patient: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["measured", "progression"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["measured", "progression"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

class Guess(_t.Declared, _TensorClass):
    """The mean of the votes, and how far they differ."""
    value: Float32[Tensor, ""]
    spread: Float32[Tensor, ""]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Guess | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Guess | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        value: Tensor = ...,
        spread: Tensor = ...,
    ) -> Guess: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["value", "spread"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["value", "spread"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

def load() -> Patient:
    """Shuffle the patients; center and scale all numbers."""
def expand(measured: Tensor, weight: Tensor) -> Tensor:
    """Return random features and a constant."""
def fit(patients: Patient) -> TensorClassSequential[Patient, Guess]:
    """Draw features and patients for each model, and solve it; `[models, features]` weights are the ensemble."""
def main() -> None:
    """Print the error on unseen patients, and of the half about which the models agree."""
