"""The types that generated stubs name; only checkers read this module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor
from typing_extensions import Unpack

from .._schema._markers import PerElementValues as PerElementValues
from ..core._keys import FieldPath
from ..core._keys import Key as Key
from ..core._keys import Subscript as Subscript
from ..ops._reading import BatchIndex as BatchIndex

T = TypeVar("T")
BatchSize: TypeAlias = "Sequence[int] | int | None"
Device: TypeAlias = "torch.device | str | int | None"
Names: TypeAlias = "Sequence[str | None] | None"
PerElementGiven: TypeAlias = (
    "T | Sequence[T] | Sequence[Sequence[T]] | Sequence[Sequence[Sequence[T]]] | PerElementValues[T]"
)
"""What a `PerElement[T]` field takes."""
OtherKey: TypeAlias = "tuple[Any, ...] | FieldPath | Tensor"
"""A key that is no string; a checker sees `Digits.image` as a tensor."""
OtherSubscript: TypeAlias = "tuple[str, Unpack[tuple[Any, ...]]] | FieldPath"
