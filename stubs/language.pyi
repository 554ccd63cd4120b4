# Written by `tensorclass stubs` from language.py; run it again after a change.
# ty: ignore
# ruff: noqa
# fmt: off
"""A masked language model: letters of Python's own documentation are hidden, and a transformer fills them in.

The text comes from the docstrings of the standard library. Sentences differ in length: `letters` is a ragged field,
so loss and accuracy cover all letters of a batch, and never see padding.
"""
from __future__ import annotations
from tensorclass import TensorClass as _TensorClass
from tensorclass.typecheck import _stub_types as _t
from typing import Any as _Any, Literal as _Literal, overload as _overload
from typing_extensions import Self as _Self
import ast
import re
import sysconfig
from pathlib import Path
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from tensorclass import RaggedTensor, tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Bool, Float32, Int64
LETTERS, GAP, LONGEST, STEPS = 128, 127, 48, 700
PICTURE = Path("build", "language.svg")

class Text(_t.Declared, _TensorClass):
    """A sentence, one number for each letter; some of them may be gaps."""
    letters: Int64[RaggedTensor, "n"]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Text | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Text | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        letters: _t.RaggedGiven = ...,
    ) -> Text: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["letters"]) -> _t.RaggedTensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["letters"]) -> _t.RaggedTensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

class Puzzle(Text):
    """A sentence with gaps, and the original letters."""
    hidden: Bool[RaggedTensor, "n"]
    truth: Int64[RaggedTensor, "n"]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        letters: _t.RaggedGiven = ...,
        hidden: _t.RaggedGiven = ...,
        truth: _t.RaggedGiven = ...,
    ) -> Puzzle: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["letters", "hidden", "truth"]) -> _t.RaggedTensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["letters", "hidden", "truth"]) -> _t.RaggedTensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

def sentences() -> list[str]:
    """Load docstrings of the standard library, in pieces of 20 to 48 letters."""
def encode(texts: list[str]) -> Text:
    """Return a number for each letter; `_` becomes a gap."""
def decode(letters: Tensor) -> str:
    """Return the text of one sentence, `[n]`."""
def puzzles(text: Text, share: float = 0.15) -> Puzzle:
    """Make gaps at random positions of every sentence."""

class Network(nn.Module):
    """A convolution sees the letters around a gap, and a transformer the whole sentence."""
    def __init__(self, width: int = 64) -> None: ...
    def forward(self, letters: RaggedTensor) -> RaggedTensor:
        """Attention takes padded sentences and a mask; the result is ragged again."""
    letters: _Any
    near: _Any
    layers: _Any
    head: _Any

def loss_of(scores: RaggedTensor, puzzle: Puzzle) -> Tensor:
    """Return the cross-entropy over the gaps of all sentences."""
@torch.no_grad()
def accuracy(model: TensorClassSequential[Text, RaggedTensor], puzzle: Puzzle) -> float:
    """Return the fraction of gaps that are filled in correctly."""
def train(model: TensorClassSequential[Text, RaggedTensor], text: Text, test: Puzzle) -> list[tuple[int, float]]:
    """Train with new gaps for each batch; measure the accuracy on test sentences every hundred steps."""
def main() -> None:
    """Load, train, fill in."""
