# Written by `tensorclass stubs` from digits.py; run it again after a change.
# ty: ignore
# ruff: noqa
# fmt: off
"""Train a typed classifier on scikit-learn's bundled digits: 1,797 scanned images of 8 x 8 pixels, no download."""
from __future__ import annotations
from tensorclass import TensorClass as _TensorClass
from tensorclass.typecheck import _stub_types as _t
from typing import Any as _Any, Literal as _Literal, overload as _overload
from typing_extensions import Self as _Self
from pathlib import Path
import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor, nn
from tqdm import tqdm
from tensorclass import schema, tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32, Int64
EPOCHS = 10
TRAINING = Path("build", "digits-training.svg")

class Digits(_t.Declared, _TensorClass):
    """Scanned digits; the shape is that of one image, batch dims come before it."""
    image: Float32[Tensor, "1 8 8"]
    label: Int64[Tensor, ""]
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
    ) -> Digits: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["image", "label"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["image", "label"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

class Prediction(_t.Declared, _TensorClass):
    """A score for each class, and the most likely class."""
    logits: Float32[Tensor, "classes"]
    digit: Int64[Tensor, ""]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Prediction | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Prediction | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        logits: Tensor = ...,
        digit: Tensor = ...,
    ) -> Prediction: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["logits", "digit"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["logits", "digit"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

def load() -> tuple[Digits, Digits]:
    """Load the images in random order: 80 % for training, 20 % for testing."""
def build() -> TensorClassSequential[Digits, Prediction]:
    """Build the pipeline; it is checked here, before it has seen an image."""
def train(classifier: TensorClassSequential[Digits, Prediction], digits: Digits) -> list[float]:
    """Train with Adam and cross-entropy; return the losses. The digits are the dataset, mini-batches are `Digits`."""
@torch.no_grad()
def confusion(classifier: TensorClassSequential[Digits, Prediction], digits: Digits) -> Tensor:
    """Count how often each digit (row) is classified as each digit (column), `[10, 10]`."""
def draw(losses: list[float], confused: Tensor) -> None:
    """Draw the loss of every step, and which digits are mistaken for which."""
def main() -> None:
    """Load, build, show, train, test."""
