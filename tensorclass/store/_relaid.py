"""The types of operations that change keys, for checkers: the result is always untyped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import Key, LeafTest
from ._scale import ScaleOps

if TYPE_CHECKING:
    from ._dict import TensorDict

    class Relaid(ScaleOps):
        """The types of operations that change keys, for checkers: the result is always untyped."""

        def select(
            self, *keys: Key, inplace: bool = False, strict: bool = True, as_tensordict: bool = False
        ) -> TensorDict:
            """Select entries."""
            raise NotImplementedError

        def exclude(self, *keys: Key, inplace: bool = False) -> TensorDict:
            """Exclude entries."""
            raise NotImplementedError

        def flatten_keys(self, separator: str = ".", inplace: bool = False, is_leaf: LeafTest = None) -> TensorDict:
            """Flatten nested keys."""
            raise NotImplementedError

        def unflatten_keys(self, separator: str = ".", inplace: bool = False) -> TensorDict:
            """Nest flat keys."""
            raise NotImplementedError
else:
    Relaid = ScaleOps
