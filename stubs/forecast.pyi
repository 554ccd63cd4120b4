# Written by `tensorclass stubs` from forecast.py; run it again after a change.
# ty: ignore
# ruff: noqa
# fmt: off
"""Sales of a shop: quantiles of a day from the four weeks before it, its weekday and whether it is a holiday."""
from __future__ import annotations
from tensorclass import TensorClass as _TensorClass
from tensorclass.typecheck import _stub_types as _t
from typing import Any as _Any, Literal as _Literal, overload as _overload
from typing_extensions import Self as _Self
import torch
from torch import Tensor, nn
from tensorclass import tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Bool, Float32, Int64
DAYS, PAST, EPOCHS = 1500, 28, 12
LEVELS = torch.tensor([0.1, 0.5, 0.9])

class Day(_t.Declared, _TensorClass):
    """A day and the four weeks before it."""
    past: Float32[Tensor, "28"]
    weekday: Int64[Tensor, ""]
    holiday: Bool[Tensor, ""]
    sold: Float32[Tensor, ""]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Day | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Day | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        past: Tensor = ...,
        weekday: Tensor = ...,
        holiday: Tensor = ...,
        sold: Tensor = ...,
    ) -> Day: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["past", "weekday", "holiday", "sold"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["past", "weekday", "holiday", "sold"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

def load() -> Day:
    """Make sales with a weekly and a yearly rhythm, holidays and noise."""
def build() -> TensorClassSequential[Day, Tensor]:
    """Encode the past and the weekday; join both with the holiday."""
def pinball(quantiles: Tensor, sold: Tensor) -> Tensor:
    """Return the mean quantile loss."""
def train(model: TensorClassSequential[Day, Tensor], days: Day) -> None:
    """Train with Adam."""
def main() -> None:
    """Train on all but the last 300 days, and count how many of these are between the outer quantiles."""
