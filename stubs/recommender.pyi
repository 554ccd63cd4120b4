# Written by `tensorclass stubs` from recommender.py; run it again after a change.
# ty: ignore
# ruff: noqa
# fmt: off
"""A recommender from a DataFrame: ratings with names in columns, factors of users and films, a table of suggestions.

The data are generated, so nothing is downloaded: each viewer and each film has a hidden taste, and a rating says how
well they match, with noise, on a scale from 1 to 5. The noise limits how good a model can be.
"""
from __future__ import annotations
from tensorclass import TensorClass as _TensorClass
from tensorclass.typecheck import _stub_types as _t
from typing import Any as _Any, Literal as _Literal, overload as _overload
from typing_extensions import Self as _Self
from pathlib import Path
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from tensorclass import PerElement, field, tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32, Int64
VIEWERS, FILMS, RATINGS, EPOCHS = 400, 200, 30_000, 12
PICTURE = Path("build", "recommender.svg")

class Rating(_t.Declared, _TensorClass):
    """One row of the table: the viewer, the film and the stars."""
    viewer: Int64[Tensor, ""]
    film: Int64[Tensor, ""]
    title: PerElement[str]
    stars: Float32[Tensor, ""] = field(coerce="cast")
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Rating | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Rating | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
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

Model = TensorClassSequential[Rating, Tensor]
def table() -> pd.DataFrame:
    """Make ratings as another program might store them: text for viewers and titles, float64 for stars."""
def load(frame: pd.DataFrame) -> Rating:
    """Turn names into numbers; `from_pandas` rejects any column that does not fit its field."""

class Factors(nn.Module):
    """A vector and an offset for each viewer and each film; the stars are the dot product plus the offsets."""
    def __init__(self, viewers: int, films: int, width: int = 8) -> None: ...
    def forward(self, viewer: Tensor, film: Tensor) -> Tensor:
        """Map `[batch]` numbers of viewers and films to `[batch]` stars."""
    viewers: _Any
    films: _Any
    mean: _Any

@torch.no_grad()
def error(model: Model, ratings: Rating) -> float:
    """Return the root mean square error of the predictions, in stars."""
def train(model: Model, ratings: Rating, test: Rating) -> list[float]:
    """Train with Adam and weight decay; return the error on the test ratings after each epoch."""
@torch.no_grad()
def suggest(model: Model, ratings: Rating, viewer: int, count: int = 5) -> pd.DataFrame:
    """Return a table of the unrated films that a viewer should like best."""
def main() -> None:
    """Read a table, train a model, print a table of suggestions."""
