# Written by `tensorclass stubs` from captions.py; run it again after a change.
# ty: ignore
# ruff: noqa
# fmt: off
"""Images with captions: two encoders learn to give a digit and the words that describe it the same direction.

The images are scikit-learn's digits, made thin or bold, and black on white or white on black; the captions describe
them in words. After training, you can search the images by text, and the best caption names a digit.
"""
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
from tensorclass import PerElement, RaggedTensor, tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32, Int64
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
WORDS = [*NAMES, *["a", "scan", "picture", "of", "thin", "bold", "on", "light", "dark", "paper"]]
EPOCHS, BATCH = 20, 64
PICTURE = Path("build", "captions.png")

class Caption(_t.Declared, _TensorClass):
    """A text, and its words as numbers; `n` differs from text to text."""
    text: PerElement[str]
    words: Int64[RaggedTensor, "n"]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Caption | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Caption | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        text: _t.PerElementGiven[str] = ...,
        words: _t.RaggedGiven = ...,
    ) -> Caption: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["text"]) -> _t.PerElementValues[str]: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _Literal["words"]) -> _t.RaggedTensor: ...
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["text"]) -> _t.PerElementValues[str]: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _Literal["words"]) -> _t.RaggedTensor: ...
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

class Scan(_t.Declared, _TensorClass):
    """An image, its caption, and the digit, which the model never sees."""
    image: Float32[Tensor, "1 8 8"]
    caption: Caption
    digit: Int64[Tensor, ""]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Scan | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Scan | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        image: Tensor = ...,
        caption: Caption = ...,
        digit: Tensor = ...,
    ) -> Scan: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["image", "digit"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _Literal["caption"]) -> Caption: ...
    @_overload
    def __getitem__(self, index: tuple[_Literal["caption"], _Literal["text"]]) -> _t.PerElementValues[str]: ...
    @_overload
    def __getitem__(self, index: tuple[_Literal["caption"], _Literal["words"]]) -> _t.RaggedTensor: ...
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["image", "digit"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _Literal["caption"]) -> Caption: ...
    @_overload
    def get(self, key: tuple[_Literal["caption"], _Literal["text"]]) -> _t.PerElementValues[str]: ...
    @_overload
    def get(self, key: tuple[_Literal["caption"], _Literal["words"]]) -> _t.RaggedTensor: ...
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

class Meaning(_t.Declared, _TensorClass):
    """Unit vectors of an image and of a text."""
    seen: Float32[Tensor, "64"]
    read: Float32[Tensor, "64"]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Meaning | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Meaning | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        seen: Tensor = ...,
        read: Tensor = ...,
    ) -> Meaning: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["seen", "read"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["seen", "read"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

def captions(texts: list[str]) -> Caption:
    """Return a number for each word; an unknown word raises `ValueError`."""
def describe(digit: int, bold: bool, dark: bool) -> str:
    """Make one of many possible captions; a caption need not mention everything."""
def choice(*texts: str) -> str:
    """Choose one at random."""
def load() -> Scan:
    """Load the digits in random order, each made thin or bold, light or dark."""

class Words(nn.Module):
    """The mean of the vectors of all words."""
    def __init__(self) -> None: ...
    def forward(self, words: RaggedTensor) -> Tensor:
        """Return `[texts, 64]`."""
    vectors: _Any
    layers: _Any

class Pixels(nn.Module):
    """A small convolutional network."""
    def __init__(self) -> None: ...
    def forward(self, image: Tensor) -> Tensor:
        """Return `[images, 64]`."""
    layers: _Any

def build() -> TensorClassSequential[Scan, Meaning]:
    """Build the pipeline; each encoder reads its own part of a `Scan`, and the loss compares their outputs."""
def loss_of(meaning: Meaning, scans: Scan) -> Tensor:
    """Each image has to find its text in the batch, and each text its image; equal texts both count as correct."""
def train(model: TensorClassSequential[Scan, Meaning], scans: Scan) -> list[float]:
    """Train with Adam; return the loss of every batch."""
@torch.no_grad()
def search(model: TensorClassSequential[Scan, Meaning], scans: Scan, texts: list[str]) -> Tensor:
    """Return how well each text fits each image, `[texts, images]`."""
def draw(scans: Scan, texts: list[str], scores: Tensor) -> None:
    """Draw the eight images that fit each text best."""
def main() -> None:
    """Load, train, name digits by text, search by text."""
