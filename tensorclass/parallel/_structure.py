"""The structure of a container, on which two ranks must agree before values are sent.

It consists of paths, dtypes, shapes, batch sizes and classes, and has a digest.
"""

from __future__ import annotations

import hashlib
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..core import TensorCollection, store_of
from ..errors import ArgumentError, UnsupportedOperationError
from ..store import RaggedTensor, Unbatched
from ._blocks import DtypeRun, runs_of

Row = tuple[str, Any]
"""A path, and its entry: a description, or the dtype and shape of a tensor."""
_LAYOUTS: dict[Any, StructureLayout] = {}
_MOST = 256
_TENSORS = frozenset((Tensor, torch.nn.Parameter))
_DTYPE, _SHAPE, _LAYOUT = map(attrgetter, ("dtype", "shape", "layout"))


class StructureLayout(NamedTuple):
    """The facts that all containers of one structure share."""

    rows: tuple[Row, ...]
    names: list[str]
    digest: int
    runs: list[DtypeRun]
    size: int


class Structure:
    """A container as other ranks see it, sorted by paths.

    Args:
        batch: the container.

    Attributes:
        rows: paths, and their entries.
        leaves: the tensors, those of ragged entries included.
        names: their paths.
        runs: the leaves by dtype.
        size: the bytes of their values.
        ragged: for each leaf the container, key and node where it is the values of a ragged entry, else None.
        plain: whether all entries are tensors.
    """

    def __init__(self, batch: Any) -> None:
        self.leaves: list[Tensor] = []
        self.names: list[str] = []
        self.plain = True
        key = _key(batch, self.leaves)
        found = _LAYOUTS.get(key)
        if found is None:
            self._look(batch)
            rows = tuple(self._found)
            digest = int.from_bytes(hashlib.sha256(repr(rows).encode()).digest()[:8], "little") >> 1
            runs = runs_of(self.leaves)
            found = StructureLayout(rows, self.names, digest, runs, sum([run.room for run in runs]))
            if key is not None:
                if len(_LAYOUTS) >= _MOST:
                    _LAYOUTS.clear()
                _LAYOUTS[key] = found
        else:
            self.ragged: list[Any] = [None] * len(self.leaves)
        self.rows, self.names, self.digest, self.runs, self.size = found

    def _look(self, batch: Any) -> None:
        self._found: list[Row] = []
        self.leaves.clear()
        self.names, self.ragged = [], []
        self._walk(batch, "")

    def _walk(self, batch: Any, path: str) -> None:
        """Note classes, sizes and leaves of a container at all depths, in the order of their names."""
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
            check_local(start + key, value)
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


def check_local(name: str, value: Any) -> None:
    """Refuse a DTensor, which torch moves between ranks itself.

    Raises:
        UnsupportedOperationError: names the field.
    """
    if isinstance(value, Tensor) and callable(getattr(value, "full_tensor", None)):
        raise UnsupportedOperationError(
            f"`{name}` is a DTensor, of which each rank holds a part; exchange `.local()` or `.whole()` of the batch"
        )


def _key(batch: Any, leaves: list[Tensor]) -> Any:
    """The layout key of a container of tensors, and the tensors in the order of their paths; else None."""
    key: list[Any] = []
    try:
        if not _append_entries(batch, key, leaves):
            return None
        return (*key, *map(_DTYPE, leaves), *map(_SHAPE, leaves), *map(_LAYOUT, leaves))
    except RuntimeError:  # nested tensors have no shape
        return None


def _append_entries(batch: Any, key: list[Any], leaves: list[Tensor]) -> bool:
    """Append the nested containers and the tensors of a container; False if it has other entries."""
    if not isinstance(batch, TensorCollection) or getattr(batch, "_store", batch)._stacked:
        return False
    entries = batch._entries()
    names = sorted(entries)
    values = [*map(entries.__getitem__, names)]
    key += (type(batch).__qualname__, batch.batch_size, *names, None)
    if _TENSORS.issuperset(map(type, values)):
        leaves += values
    else:
        for name, value in zip(names, values, strict=True):
            if type(value) in _TENSORS:
                leaves.append(value)
                continue
            key.append(name)
            if not isinstance(value, TensorCollection) or not _append_entries(value, key, leaves):
                return False
    key.append(None)
    return True


def difference(mine: tuple[Row, ...], theirs: tuple[Row, ...], here: str, there: str) -> str:
    """Describe the first field, in sorted order, in which two structures differ; empty if they are equal."""
    ours, others = dict(mine), dict(theirs)
    for path in sorted(ours.keys() | others.keys()):
        if ours.get(path) != others.get(path):
            one, two = (_words(found.get(path, "nothing")) for found in (ours, others))
            return f"`{path}` is {one} on {here}, {two} on {there}".replace("`` is", "the container is")
    return ""


def _words(what: Any) -> str:
    return what if isinstance(what, str) else f"{what[0]} {list(what[1])}"
