# Written by `tensorclass stubs` from recommender.py; run it again after a change.
# ty: ignore
# ruff: noqa
# fmt: off
"""A recommender from a DataFrame: ratings with names in columns, factors of users and films, a table of suggestions.

The frame is made up, so that nothing is downloaded: each viewer and each film has a hidden taste, and a rating is how
well they meet, with noise, on a scale from 1 to 5. The noise tells how good a model can be.
"""
from __future__ import annotations
from tensorclass.typecheck import _stub_types as _t
from typing import Any as _Any, Literal as _Literal, overload as _overload
from typing_extensions import Self as _Self
from pathlib import Path
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from tensorclass import PerElement, TensorClass, field
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Int64
VIEWERS, FILMS, RATINGS, EPOCHS = 400, 200, 30_000, 12
PICTURE = Path("build", "recommender.svg")

class Rating(_t.Declared, TensorClass):
    """One line of the table: who saw what, and how many stars it got."""
    viewer: Int64[Tensor, ""]
    film: Int64[Tensor, ""]
    title: PerElement[str]
    stars: Float32[Tensor, ""] = field(coerce="cast")
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __init__(
        self,
        viewer: Tensor,
        film: Tensor,
        title: _t.PerElementGiven[str],
        stars: Tensor,
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
        viewer: Tensor = ...,
        film: Tensor = ...,
        title: _t.PerElementGiven[str] = ...,
        stars: Tensor = ...,
    ) -> Rating: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["viewer", "film", "stars"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _Literal["title"]) -> _t.PerElementValues[str]: ...
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["viewer", "film", "stars"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _Literal["title"]) -> _t.PerElementValues[str]: ...
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

class Guess(_t.Declared, TensorClass):
    """The stars that the model expects."""
    expected: Float32[Tensor, ""]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __init__(
        self,
        expected: Tensor,
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
        expected: Tensor = ...,
    ) -> Guess: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["expected"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["expected"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

Model = TensorClassSequential[Rating, Guess]
def table() -> pd.DataFrame:
    """Ratings as another program might have left them: text for viewers and titles, stars of float64."""
def load(frame: pd.DataFrame) -> Rating:
    """Names become numbers; `from_pandas` refuses whatever column does not fit its field."""

class Factors(nn.Module):
    """A vector and an offset for each viewer and each film; the stars are the product, and the offsets."""
    def __init__(self, viewers: int, films: int, width: int = 8) -> None: ...
    def forward(self, viewer: Tensor, film: Tensor) -> Tensor:
        """`[batch]` numbers of viewers and films to `[batch]` stars."""
    viewers: _Any
    films: _Any
    mean: _Any

def build() -> Model:
    """The pipeline reads two fields of a rating; the title and the stars are not seen by the model."""
@torch.no_grad()
def error(model: Model, ratings: Rating) -> float:
    """How many stars the guesses are off, as the root of the mean square."""
def train(model: Model, ratings: Rating, test: Rating) -> list[float]:
    """Adam with weight decay; the error on ratings that it has not seen, after each epoch."""
@torch.no_grad()
def suggest(model: Model, ratings: Rating, viewer: int, count: int = 5) -> pd.DataFrame:
    """The films that a viewer has not rated and should like best, as a table again."""
def main() -> None:
    """From a table to a model to a table."""
