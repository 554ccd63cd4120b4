"""Operations that change keys, as checkers see them: the result of every container is untyped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import Key
from ..core._views import LeafTest
from ._scale import ScaleOps

if TYPE_CHECKING:
    from ._dict import TensorDict

    class Relaid(ScaleOps):
        """What checkers know of operations that change keys: of every container the result is untyped."""

        def select(
            self, *keys: Key, inplace: bool = False, strict: bool = True, as_tensordict: bool = False
        ) -> TensorDict:
            """Some of the entries."""
            raise NotImplementedError

        def exclude(self, *keys: Key, inplace: bool = False) -> TensorDict:
            """All but some of the entries."""
            raise NotImplementedError

        def flatten_keys(self, separator: str = ".", inplace: bool = False, is_leaf: LeafTest = None) -> TensorDict:
            """One level of keys."""
            raise NotImplementedError

        def unflatten_keys(self, separator: str = ".", inplace: bool = False) -> TensorDict:
            """Nested keys."""
            raise NotImplementedError
else:
    Relaid = ScaleOps
