# Written by `tensorclass stubs` from migration.py; run it again after a change.
# ty: ignore
# ruff: noqa
# fmt: off
"""Turn a `tensordict` program into a typed one in three steps; every step computes the same numbers.

The data are scikit-learn's bundled wines, no download: 178 wines, 13 measurements each, three growers.
"""
from __future__ import annotations
from tensorclass import TensorClass as _TensorClass
from tensorclass.typecheck import _stub_types as _t
from typing import Any as _Any, Literal as _Literal, overload as _overload
from typing_extensions import Self as _Self
from collections.abc import Callable
import torch
from sklearn.datasets import load_wine
from torch import Tensor, nn
from tensorclass import TensorDict, tensorclass
from tensorclass.errors import BuildError, MissingKeyError, SchemaError
from tensorclass.nn import TensorClassSequential, TensorDictModule, TensorDictSequential, stage
from tensorclass.typing import Float32, Int64
def load() -> tuple[Tensor, Tensor]:
    """Return measurements `[178, 13]`, each scaled to unit variance, and the numbers of the growers `[178]`."""
def networks() -> tuple[nn.Module, nn.Module]:
    """Make the networks to train; no step changes them."""
def most_likely(logits: Tensor) -> Tensor:
    """Return the grower with the highest score."""
def keyed(encoder: nn.Module, head: nn.Module) -> TensorDictSequential:
    """The original program: strings name the entries that modules read and write, and no type declares them."""

class Wine(_t.Declared, _TensorClass):
    """The measurements of a wine, and its grower."""
    measured: Float32[Tensor, "13"]
    made_by: Int64[Tensor, ""]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Wine | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Wine | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        measured: Tensor = ...,
        made_by: Tensor = ...,
    ) -> Wine: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["measured", "made_by"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["measured", "made_by"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

class Guess(_t.Declared, _TensorClass):
    """The scores of the three growers, and the grower with the highest score."""
    hidden: Float32[Tensor, "32"]
    logits: Float32[Tensor, "3"]
    grower: Int64[Tensor, ""]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Guess | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Guess | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        hidden: Tensor = ...,
        logits: Tensor = ...,
        grower: Tensor = ...,
    ) -> Guess: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["hidden", "logits", "grower"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["hidden", "logits", "grower"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

def referenced(encoder: nn.Module, head: nn.Module) -> TensorDictSequential:
    """The same modules; a misspelled field now raises `AttributeError` here, and is an error in every type checker."""
def typed(encoder: nn.Module, head: nn.Module) -> TensorClassSequential[Wine, Guess]:
    """The same modules again; `TensorClassSequential` knows the type of every field."""
def train(classifier: TensorClassSequential[Wine, Guess], wines: Wine) -> None:
    """Train for a few hundred steps, each on all wines."""
def refused(what: str, attempt: Callable[[], object], error: type[Exception]) -> None:
    """Show which mistake is found now, and the error that reports it."""
def main() -> None:
    """Run all steps with the same parameters, and show the mistakes that each step finds."""
