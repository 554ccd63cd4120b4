# Written by `tensorclass stubs` from density.py; run it again after a change.
# ty: ignore
# ruff: noqa
# fmt: off
"""Predict a distribution, not a number: how far diabetes goes on in a year, as a mixture of normal distributions.

The data are scikit-learn's bundled 442 patients with ten measurements each, no download. A network makes the
parameters of the mixture, a probabilistic module makes the distribution of them, and training maximises the
log-probability of what was observed.
"""
from __future__ import annotations
from tensorclass.typecheck import _stub_types as _t
from typing import Any as _Any, Literal as _Literal, overload as _overload
from typing_extensions import Self as _Self
import math
import torch
from sklearn.datasets import load_diabetes
from torch import Tensor, nn
from torch.distributions import Categorical, MixtureSameFamily, Normal
from torch.utils.data import DataLoader
from tensorclass import TensorClass
from tensorclass.nn import (
    ProbabilisticTensorClassModule,
    ProbabilisticTensorClassSequential,
    TensorClassModule,
    set_interaction_type,
)
from tensorclass.typing import Float32
COMPONENTS = 3
EPOCHS = 40

class Patient(_t.Declared, TensorClass):
    """Ten measurements, each scaled to unit variance."""
    measured: Float32[Tensor, "10"]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __init__(
        self,
        measured: Tensor,
        *,
        batch_size: _t.BatchSize = ...,
        device: _t.Device = ...,
        names: _t.Names = ...,
    ) -> None: ...
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        measured: Tensor = ...,
    ) -> Patient: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["measured"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["measured"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

class Outcome(_t.Declared, TensorClass):
    """The parameters of the mixture, and a value of it: the progression of the disease, scaled to unit variance."""
    logits: Float32[Tensor, "parts"]
    loc: Float32[Tensor, "parts"]
    scale: Float32[Tensor, "parts"]
    progression: Float32[Tensor, ""]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __init__(
        self,
        logits: Tensor,
        loc: Tensor,
        scale: Tensor,
        progression: Tensor,
        *,
        batch_size: _t.BatchSize = ...,
        device: _t.Device = ...,
        names: _t.Names = ...,
    ) -> None: ...
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        logits: Tensor = ...,
        loc: Tensor = ...,
        scale: Tensor = ...,
        progression: Tensor = ...,
    ) -> Outcome: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["logits", "loc", "scale", "progression"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["logits", "loc", "scale", "progression"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

class Record(_t.Declared, TensorClass):
    """A patient and what came of it."""
    patient: Patient
    progression: Float32[Tensor, ""]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __init__(
        self,
        patient: Patient,
        progression: Tensor,
        *,
        batch_size: _t.BatchSize = ...,
        device: _t.Device = ...,
        names: _t.Names = ...,
    ) -> None: ...
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        patient: Patient = ...,
        progression: Tensor = ...,
    ) -> Record: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["patient"]) -> Patient: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _Literal["progression"] | tuple[_Literal["patient"], _Literal["measured"]]) -> Tensor: ...
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["patient"]) -> Patient: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _Literal["progression"] | tuple[_Literal["patient"], _Literal["measured"]]) -> Tensor: ...
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

Model = ProbabilisticTensorClassSequential[Patient, Outcome]
def load() -> tuple[Record, Record]:
    """The patients, shuffled: 80 % to train on, 20 % to test on."""

class Parameters(nn.Module):
    """Ten measurements to logits, locations and positive scales."""
    def __init__(self) -> None: ...
    def forward(self, measured: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The three groups of parameters, each `[batch, COMPONENTS]`."""
    body: _Any

def mixture(logits: Tensor, loc: Tensor, scale: Tensor) -> MixtureSameFamily:
    """The distribution; its arguments are named as the fields that they come from."""
def build() -> Model:
    """Measurements to parameters to a value; the log-probability of any value is asked for by `log_prob`."""
def surprise(model: Model, records: Record) -> Tensor:
    """The mean negative log-probability of what was observed, in nats."""
def train(model: Model, records: Record) -> None:
    """Adam with weight decay; mini-batches of records are records."""
@torch.no_grad()
def main() -> None:
    """Load, build, train; then compare with one normal distribution for all, and look at the spread of samples."""
