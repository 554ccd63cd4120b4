# Written by `tensorclass stubs` from batches.py; run it again after a change.
# ty: ignore
# ruff: noqa
# fmt: off
"""Batches of scanned digits."""
from __future__ import annotations
from tensorclass.typecheck import _stub_types as _t
from typing import Any as _Any, Literal as _Literal, overload as _overload
from typing_extensions import Self as _Self
import sys
from dataclasses import KW_ONLY, InitVar
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, overload
from torch import Tensor, nn
import tensorclass as tc
from tensorclass import FrozenTensorClass, PerElement, Shared, TensorClass, field, produced
from tensorclass.typing import Float32, Int64
if TYPE_CHECKING:
    from collections.abc import Iterator
if sys.version_info >= (3, 11):
    LEVEL = 2
else:
    LEVEL = 1
T = TypeVar("T")
SIZE: int = 8  # pixels
HALF = SIZE // 2
number: _Any
last: _Any

class Inputs(_t.Declared, TensorClass):
    image: Float32[Tensor, "8 8"]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Inputs | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Inputs | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        image: Tensor = ...,
    ) -> Inputs: ...
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

class Digits(_t.Declared, TensorClass, autocast=True):
    """Digits with what is known about them.

    Written by hand.
    """
    rows: ClassVar[int] = SIZE
    inputs: Inputs
    label: Int64[Tensor, ""]
    weight: Float32[Tensor, ""] | None = None
    scale: InitVar[float] = 1.0
    _: KW_ONLY
    name: _t.Stored[_t.PerElementValues[str] | None, _t.PerElementGiven[str] | None] = ...
    table: Shared[Float32[Tensor, "10 4"]] | None = None
    tags: dict[str, str] = field(default_factory=dict)
    hidden: Float32[Tensor, "8"] = produced("what the encoder sees")
    @property
    def bright(self) -> Tensor:
        """The mean of each image."""
    @classmethod
    def blank(cls, count: int = 3, *, label: int = SIZE) -> Digits: ...
    @overload
    def part(self, index: int) -> Digits: ...
    @overload
    def part(self, index: str) -> Tensor: ...

    class Nested(_t.Declared, TensorClass):
        x: Tensor
        def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        def __getitem__(self, index: _Literal["x"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        @_overload
        def __getitem__(self, index: _t.Subscript) -> _Any: ...
        @_overload
        def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        def get(self, key: _Literal["x"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        @_overload
        def get(self, key: _t.Tensor) -> _t.Tensor: ...
        @_overload
        def get(self, key: _t.Key) -> _Any: ...
        @_overload
        def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update(self, input_dict_or_td: Digits | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def update_(self, input_dict_or_td: Digits | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        inputs: Inputs = ...,
        label: Tensor = ...,
        weight: Tensor | None = ...,
        name: _t.PerElementGiven[str] | None = ...,
        table: Tensor | None = ...,
        tags: dict[str, str] = ...,
        hidden: Tensor = ...,
    ) -> Digits: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["inputs"]) -> Inputs: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _Literal["label", "hidden"] | tuple[_Literal["inputs"], _Literal["image"]]) -> Tensor: ...
    @_overload
    def __getitem__(self, index: _Literal["weight", "table"]) -> Tensor | None: ...
    @_overload
    def __getitem__(self, index: _Literal["name"]) -> _t.PerElementValues[str] | None: ...
    @_overload
    def __getitem__(self, index: _Literal["tags"]) -> dict[str, str]: ...
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["inputs"]) -> Inputs: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _Literal["label", "hidden"] | tuple[_Literal["inputs"], _Literal["image"]]) -> Tensor: ...
    @_overload
    def get(self, key: _Literal["weight", "table"]) -> Tensor | None: ...
    @_overload
    def get(self, key: _Literal["name"]) -> _t.PerElementValues[str] | None: ...
    @_overload
    def get(self, key: _Literal["tags"]) -> dict[str, str]: ...
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

class Page(Digits):
    number: int = 0
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        inputs: Inputs = ...,
        label: Tensor = ...,
        weight: Tensor | None = ...,
        name: _t.PerElementGiven[str] | None = ...,
        table: Tensor | None = ...,
        tags: dict[str, str] = ...,
        hidden: Tensor = ...,
        number: int = ...,
    ) -> Page: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["inputs"]) -> Inputs: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _Literal["label", "hidden"] | tuple[_Literal["inputs"], _Literal["image"]]) -> Tensor: ...
    @_overload
    def __getitem__(self, index: _Literal["weight", "table"]) -> Tensor | None: ...
    @_overload
    def __getitem__(self, index: _Literal["name"]) -> _t.PerElementValues[str] | None: ...
    @_overload
    def __getitem__(self, index: _Literal["tags"]) -> dict[str, str]: ...
    @_overload
    def __getitem__(self, index: _Literal["number"]) -> int: ...
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["inputs"]) -> Inputs: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _Literal["label", "hidden"] | tuple[_Literal["inputs"], _Literal["image"]]) -> Tensor: ...
    @_overload
    def get(self, key: _Literal["weight", "table"]) -> Tensor | None: ...
    @_overload
    def get(self, key: _Literal["name"]) -> _t.PerElementValues[str] | None: ...
    @_overload
    def get(self, key: _Literal["tags"]) -> dict[str, str]: ...
    @_overload
    def get(self, key: _Literal["number"]) -> int: ...
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

class Still(_t.Frozen, FrozenTensorClass):  # type: ignore[misc, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    value: Float32[Tensor, ""]
    @_t.changed  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def replace(  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        self,
        _changes: _Any = ...,
        /,
        *,
        value: Tensor = ...,
    ) -> Still: ...
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["value"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["value"]) -> Tensor: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

class Pair(_t.Declared, TensorClass, Generic[T], shadow=True):
    left: T  # type: ignore[assignment, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    values: T  # type: ignore[assignment, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __exactly__(self, other: _Self, /) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def __getitem__(self, index: _Literal["left", "values"]) -> T: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def __getitem__(self, index: _t.Subscript) -> _Any: ...
    @_overload
    def __getitem__(self, index: _t.BatchIndex) -> _Self: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    def get(self, key: _Literal["left", "values"]) -> T: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    @_overload
    def get(self, key: _t.Tensor) -> _t.Tensor: ...
    @_overload
    def get(self, key: _t.Key) -> _Any: ...
    @_overload
    def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...  # type: ignore[override, unused-ignore]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

class Net(nn.Module):
    def __init__(self, size: int) -> None: ...
    def forward(self, image: Tensor) -> Tensor: ...
    size: int
    linear: _Any
    count: int

def load(path: str, /, *args: int, flag: bool = True) -> Iterator[Digits]:
    """Read digits."""
def untyped(x, y=None):
    """Whatever comes."""
def main() -> None:
    """Print."""
