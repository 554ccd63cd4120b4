"""What two ranks must agree on before values move: paths, dtypes, shapes, batch sizes and classes; and its digest."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..core import TensorCollection, store_of
from ..errors import ArgumentError, UnsupportedOperationError
from ..store import RaggedTensor, Unbatched

Row = tuple[str, Any]
"""A path, and what is there: in words, or dtype and shape of a tensor."""


class Structure:
    """A container as other ranks see it, sorted by paths.

    Args:
        batch: the container.

    Attributes:
        rows: paths, and what is there.
        leaves: the tensors, those of ragged entries included.
        names: their paths.
        ragged: for each leaf the container, key and node where it is the values of a ragged entry, else None.
        plain: whether tensors are all there is.
    """

    def __init__(self, batch: Any) -> None:
        self._found: list[Row] = []
        self.leaves: list[Tensor] = []
        self.names: list[str] = []
        self.ragged: list[Any] = []
        self.plain = True
        self._walk(batch, "")
        self.rows = tuple(self._found)
        self.digest = _digest(self.rows)

    def _walk(self, batch: Any, path: str) -> None:
        if not isinstance(batch, TensorCollection):
            raise ArgumentError(f"ranks exchange containers, got a {type(batch).__name__}")
        self._found.append((path, f"{type(batch).__qualname__} of batch size {list(batch.batch_size)}"))
        store: Any = store_of(batch)
        start = f"{path}." if path else ""
        if store._stacked:
            for number, member in enumerate(store._members):
                self._walk(member, f"{start}{number:06d}")
            return
        for key, value in sorted(batch._entries().items()):
            if isinstance(value, Tensor) and value.layout is torch.strided and not value.is_nested:
                self._leaf(start + key, value, (value.dtype, value.shape), None)
            elif isinstance(value, TensorCollection):
                self._walk(value, start + key)
            else:
                self._entry(start + key, value, (batch, key, value))

    def _leaf(self, name: str, leaf: Tensor, what: Any, ragged: Any) -> None:
        self._found.append((name, what))
        self.leaves.append(leaf)
        self.names.append(name)
        self.ragged.append(ragged)

    def _entry(self, name: str, value: Any, place: Any) -> None:
        """An entry that is neither a dense tensor nor a container."""
        self.plain = False
        if isinstance(value, Tensor):
            raise UnsupportedOperationError(
                f"`{name}` is a tensor of layout {value.layout}, which ranks don't exchange"
            )
        if isinstance(value, RaggedTensor):
            values, lengths = value.values, repr(value.lengths.tolist())
            digest = hashlib.sha256(lengths.encode()).hexdigest()[:12]
            self._leaf(name, values, f"ragged {values.dtype} {list(values.shape)}, lengths {digest}", place)
        elif isinstance(value, Unbatched):
            self._leaf(name, value.tensor, f"shared {value.tensor.dtype} {list(value.tensor.shape)}", None)
        else:
            self._found.append((name, "objects"))


@lru_cache(maxsize=256)
def _digest(rows: tuple[Row, ...]) -> int:
    return int.from_bytes(hashlib.sha256(repr(rows).encode()).digest()[:8], "little") >> 1


def difference(mine: tuple[Row, ...], theirs: tuple[Row, ...], here: str, there: str) -> str:
    """The first field, in sorted order, that two structures do not share; empty when they are the same."""
    ours, others = dict(mine), dict(theirs)
    for path in sorted(ours.keys() | others.keys()):
        if ours.get(path) != others.get(path):
            one, two = (_words(found.get(path, "nothing")) for found in (ours, others))
            return f"`{path}` is {one} on {here}, {two} on {there}".replace("`` is", "the container is")
    return ""


def _words(what: Any) -> str:
    return what if isinstance(what, str) else f"{what[0]} {list(what[1])}"
