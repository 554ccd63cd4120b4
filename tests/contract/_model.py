"""The trivial model: a plain dict of tensors beside a batch size, and operations done leaf by leaf."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tensorclass import NonTensorStack, TensorCollection
from tensorclass.core import BATCHED, STORAGE, VALUES
from tensorclass.store import Unbatched

Path: TypeAlias = "tuple[str, ...]"
Size: TypeAlias = "tuple[int, ...]"
LeafFn: TypeAlias = "Callable[[Tensor, Size], Any]"
CASTS = 4
"""As `VALUES`; of a typed class the floating ones alone."""
TENSORS = 3
"""Tensors over the batch alone: what masks and numbers are written to."""
ROLES = {
    BATCHED: ("tensor", "objects"),
    VALUES: ("tensor", "shared"),
    STORAGE: ("tensor", "objects", "shared"),
    TENSORS: ("tensor",),
    CASTS: ("tensor", "shared"),
}


@dataclass
class Model:
    """A container as plain data: tensors by path, what each is, the batch dims that nested containers add."""

    size: Size
    leaves: dict[Path, Tensor] = field(default_factory=dict)
    roles: dict[Path, str] = field(default_factory=dict)
    statics: dict[Path, Any] = field(default_factory=dict)
    nests: dict[Path, Size] = field(default_factory=dict)
    typed: bool = False

    @classmethod
    def of(cls, collection: TensorCollection) -> Model:
        """Read a container; objects become the numbers in their names."""
        model = cls(tuple(collection.batch_size), typed=hasattr(type(collection), "__tensorclass_schema__"))
        model._read(collection, ())
        return model

    def _read(self, collection: TensorCollection, prefix: Path) -> None:
        for key, value in collection._entries().items():
            path = (*prefix, key)
            if isinstance(value, TensorCollection):
                self.nests[path] = tuple(value.batch_size[len(self.size) :])
                self._read(value, path)
            elif isinstance(value, Tensor):
                self.leaves[path], self.roles[path] = value, "tensor"
            elif isinstance(value, NonTensorStack):
                self.leaves[path], self.roles[path] = numbered(value), "objects"
            elif isinstance(value, Unbatched):
                self.leaves[path], self.roles[path] = value.tensor, "shared"
            else:
                self.statics[path] = value

    def frozen(self) -> Model:
        """The same around copies: what a container held, whatever is written later."""
        return replace(self, leaves={path: leaf.detach().clone() for path, leaf in self.leaves.items()})

    def map(self, fn: LeafFn, touches: int = BATCHED) -> Any:
        """The operation on each leaf it touches: a model, or a list of them when the function gives pieces."""
        probe = fn(torch.zeros(*self.size, 1), self.size)
        touched = {p: fn(v, self.size) for p, v in self.leaves.items() if self._touches(p, v, touches)}
        if isinstance(probe, Tensor):
            return replace(self, size=tuple(probe.shape[:-1]), leaves={**self.leaves, **touched})
        return [
            replace(self, size=tuple(piece.shape[:-1]), leaves={**self.leaves, **{p: v[i] for p, v in touched.items()}})
            for i, piece in enumerate(probe)
        ]

    def _touches(self, path: Path, leaf: Tensor, touches: int) -> bool:
        keeps = touches == CASTS and self.typed and not leaf.is_floating_point()
        return self.roles[path] in ROLES[touches] and not keeps

    def paths(self) -> set[Path]:
        """The paths of everything that is no container."""
        return {*self.leaves, *self.statics}

    def moved(self, where: Callable[[Path], Path | None]) -> Model:
        """The same entries under other paths; None drops one. Containers are those that the paths pass through."""
        new = Model(self.size)
        for path in [*self.leaves, *self.statics]:
            target = where(path)
            if target is None:
                continue
            if path in self.leaves:
                new.leaves[target], new.roles[target] = self.leaves[path], self.roles[path]
            else:
                new.statics[target] = self.statics[path]
        for path, tail in self.nests.items():
            if any(key[: len(path)] == path for key in new.paths()):
                new.nests[path] = tail
        return new


def numbered(stack: NonTensorStack[Any]) -> Tensor:
    """A stack of objects `o3` as a tensor of their numbers."""

    def number(values: Any) -> Any:
        return [number(value) for value in values] if isinstance(values, list) else int(values[1:])

    return torch.tensor(number(stack.tolist()), dtype=torch.int64).reshape(stack.shape)


def assert_same(collection: TensorCollection, wanted: Model, *, nests: bool = True, exact: bool = True) -> None:
    """A container holds what the model holds, dtype by dtype and bit by bit, or but for rounding."""
    given = Model.of(collection)
    assert given.size == tuple(wanted.size), f"batch size {given.size}, expected {tuple(wanted.size)}"
    assert given.leaves.keys() == wanted.leaves.keys(), f"{sorted(given.leaves)} != {sorted(wanted.leaves)}"
    assert given.roles == wanted.roles
    assert given.statics == wanted.statics
    if nests:
        assert given.nests == wanted.nests
    for path, value in wanted.leaves.items():
        assert_tensor(given.leaves[path], value, ".".join(path), exact)


def assert_tensor(given: Tensor, wanted: Tensor, where: str, exact: bool) -> None:
    """Equal in dtype, shape, device and every element, or nearly; nan equals nan."""
    same = (given.dtype, given.shape, given.device) == (wanted.dtype, wanted.shape, wanted.device)
    assert same, f"`{where}`: {given.dtype} {list(given.shape)}, expected {wanted.dtype} {list(wanted.shape)}"
    if torch.equal(given, wanted):
        return
    limits = {"rtol": 0.0, "atol": 0.0} if exact else {}
    torch.testing.assert_close(given, wanted, **limits, equal_nan=True, msg=lambda text: f"`{where}`: {text}")


def as_list(value: Any) -> Sequence[Any]:
    """One result or several, as a sequence."""
    return value if isinstance(value, (list, tuple)) else [value]
