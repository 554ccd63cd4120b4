# Written by `tensorclass stubs` from autoencoder.py; run it again after a change.
# ty: ignore
# ruff: noqa
# fmt: off
"""A variational autoencoder of scanned digits, with an exponential average of its weights that draws the new ones.

All weights are one `TensorDict`, so that the average is one line: `average.lerp_(weights, 0.01)`.
"""
from __future__ import annotations
from tensorclass.typecheck import _stub_types as _t
from typing import Any as _Any, Literal as _Literal, overload as _overload
from typing_extensions import Self as _Self
from pathlib import Path
import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor, nn
from tensorclass import TensorClass, TensorDict
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32
EPOCHS, WIDTH = 50, 8
PICTURE = Path("build", "autoencoder.png")

class Digits(_t.Declared, TensorClass):
    """Scanned digits, their ink between 0 and 1."""
    image: Float32[Tensor, "64"]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __init__(
        self,
        image: Tensor,
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
        image: Tensor = ...,
    ) -> Digits: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["image"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["image"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

class Code(_t.Declared, TensorClass):
    """A normal distribution over codes, and one code drawn from it."""
    center: Float32[Tensor, "8"]
    log_variance: Float32[Tensor, "8"]
    code: Float32[Tensor, "8"]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __init__(
        self,
        center: Tensor,
        log_variance: Tensor,
        code: Tensor,
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
        center: Tensor = ...,
        log_variance: Tensor = ...,
        code: Tensor = ...,
    ) -> Code: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["center", "log_variance", "code"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["center", "log_variance", "code"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

class Drawn(_t.Declared, TensorClass):
    """What the decoder makes of a code, and what the loss needs of the distribution."""
    logits: Float32[Tensor, "64"]
    center: Float32[Tensor, "8"]
    log_variance: Float32[Tensor, "8"]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __init__(
        self,
        logits: Tensor,
        center: Tensor,
        log_variance: Tensor,
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
        center: Tensor = ...,
        log_variance: Tensor = ...,
    ) -> Drawn: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["logits", "center", "log_variance"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["logits", "center", "log_variance"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

Model = TensorClassSequential[Digits, Drawn]

class Encoder(nn.Module):
    """An image to the center and the logarithm of the variance of its code."""
    def __init__(self) -> None: ...
    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Two tensors `[batch, 8]`."""
    layers: _Any

def draw_code(center: Tensor, log_variance: Tensor) -> Tensor:
    """One code, with gradients for both parameters."""
def build() -> Model:
    """Encoder, sample, decoder; the parts can be called alone as `model[-1]`."""
def loss_of(drawn: Drawn, digits: Digits) -> Tensor:
    """The negative evidence bound in nats for an image."""
def train(model: Model, training: Digits, test: Digits) -> tuple[TensorDict, list[tuple[float, float]]]:
    """The averaged weights, and the loss of both sets of weights on images that were not trained on."""
def draw(digits: Digits, drawn: Drawn, new: Tensor, losses: list[tuple[float, float]]) -> None:
    """The curve, and rows of given digits, of the same from their codes, and of new ones."""
def main() -> None:
    """Train, draw given digits and new ones with the averaged weights."""
