# Written by `tensorclass stubs` from moons.py; run it again after a change.
# ty: ignore
# ruff: noqa
# fmt: off
"""A variational autoencoder of points on two half moons: codes are drawn, and drawn codes become new points."""
from __future__ import annotations
from tensorclass import TensorClass as _TensorClass
from tensorclass.typecheck import _stub_types as _t
from typing import Any as _Any, Literal as _Literal, overload as _overload
from typing_extensions import Self as _Self
import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from tensorclass import tensorclass
from tensorclass.nn import NormalParamExtractor, TensorClassSequential, sample, set_interaction_type, stage
from tensorclass.typing import Float32
POINTS, EPOCHS = 1000, 20

class Point(_t.Declared, _TensorClass):
    """A place in the plane."""
    place: Float32[Tensor, "2"]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Point | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Point | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        place: Tensor = ...,
    ) -> Point: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["place"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["place"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

def load() -> Point:
    """Draw points on two half moons, with noise."""
def network(last: int) -> nn.Sequential:
    """Map two numbers to `last` numbers."""
def build() -> TensorClassSequential[Point, Tensor]:
    """Encode, draw a code, decode."""
def train(model: TensorClassSequential[Point, Tensor], points: Point) -> None:
    """Train with Adam: the error of the decoded places and the divergence of the codes from a standard normal."""
@torch.no_grad()
def main() -> None:
    """Train, and print how far new points are from the nearest real one."""
