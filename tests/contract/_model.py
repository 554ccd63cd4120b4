"""The trivial model: a plain dict of tensors beside a batch size, and operations done leaf by leaf."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tensorclass import NonTensorStack, RaggedTensor, TensorCollection
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
    BATCHED: ("tensor", "padded", "ragged", "objects", "valid"),
    VALUES: ("tensor", "padded", "ragged", "shared"),
    STORAGE: ("tensor", "padded", "ragged", "objects", "valid", "shared"),
    TENSORS: ("tensor", "padded", "ragged"),
    CASTS: ("tensor", "padded", "ragged", "shared"),
}
PADDED = ("padded", "ragged")
VALID = "?"
"""Ends the path of the mask that says what of a padded leaf there is: elements differ in shape, or lack the entry."""


def mask_path(path: Path) -> Path:
    """Where the mask of a padded leaf is."""
    return (*path, VALID)


@dataclass
class Model:
    """A container as plain data: tensors by path, what each is, the batch dims that nested containers add."""

    size: Size
    leaves: dict[Path, Tensor] = field(default_factory=dict)
    roles: dict[Path, str] = field(default_factory=dict)
    statics: dict[Path, Any] = field(default_factory=dict)
    nests: dict[Path, Size] = field(default_factory=dict)
    typed: bool = False
    lazy: bool = False
    declared: set[Path] = field(default_factory=set)
    """Where the typed instances are."""

    @classmethod
    def of(cls, collection: TensorCollection) -> Model:
        """Read a container; objects become the numbers in their names."""
        model = cls(tuple(collection.batch_size), typed=hasattr(type(collection), "__tensorclass_schema__"))
        model._read(collection, ())
        return model

    def _read(self, collection: TensorCollection, prefix: Path) -> None:
        store: Any = getattr(collection, "_store", collection)
        if store._stacked:
            self._merge([_below(member, len(self.size) - 1, prefix) for member in store._members], store.stack_dim)
            return
        for key, value in collection._entries().items():
            path = (*prefix, key)
            if isinstance(value, RaggedTensor):
                self._pad(path, value)
            elif isinstance(value, TensorCollection):
                self.nests[path] = tuple(value.batch_size[len(self.size) :])
                if hasattr(type(value), "__tensorclass_schema__"):
                    self.declared.add(path)
                self._read(value, path)
            elif isinstance(value, Tensor):
                self.leaves[path], self.roles[path] = value, "tensor"
            elif isinstance(value, NonTensorStack):
                self.leaves[path], self.roles[path] = numbered(value), "objects"
            elif isinstance(value, Unbatched):
                self.leaves[path], self.roles[path] = value.tensor, "shared"
            else:
                self.statics[path] = value

    def _pad(self, path: Path, value: RaggedTensor) -> None:
        """Note a ragged entry as a padded tensor and what of it counts."""
        self.leaves[path], self.roles[path] = value.pad(value=1), "ragged"
        longest = self.leaves[path].shape[value.ndim]
        valid = torch.arange(longest) < value.lengths.unsqueeze(-1)
        event = (1,) * len(value.event_shape)
        mask = valid.reshape(*valid.shape, *event).expand(self.leaves[path].shape)
        self.leaves[mask_path(path)], self.roles[mask_path(path)] = mask, "valid"

    def _merge(self, parts: list[Model], dim: int) -> None:
        """Note what the members of a stack hold: stacked where they agree, else padded."""
        for path in {path: None for part in parts for path in part.leaves}:
            held = [part.leaves.get(path) for part in parts]
            first = next(leaf for leaf in held if leaf is not None)
            roles = [part.roles[path] for part in parts if path in part.roles]
            role = next((role for role in roles if role in PADDED), roles[0])
            if role == "valid":
                continue
            if role == "shared":
                self.leaves[path], self.roles[path] = first, role
                continue
            shapes = {None if leaf is None else leaf.shape for leaf in held}
            if len(shapes) == 1 and role not in PADDED:
                self.leaves[path], self.roles[path] = (
                    torch.stack([leaf for leaf in held if leaf is not None], dim),
                    role,
                )
                continue
            masks = [part.leaves.get(mask_path(path)) for part in parts]
            full = torch.Size([max(n) for n in zip(*[leaf.shape for leaf in held if leaf is not None], strict=True)])
            filled, valid = [], []
            for leaf, mask, part in zip(held, masks, parts, strict=True):
                shape = leaf.shape if leaf is not None else torch.Size((*part.size, *first.shape[len(part.size) :]))
                whole = torch.full(shape, leaf is not None) if mask is None else mask
                filled.append(_padded(first.new_ones(shape) if leaf is None else leaf, full))
                valid.append(_padded(whole, full))
            self.leaves[path], self.roles[path] = torch.stack(filled, dim), role if role in PADDED else "padded"
            self.leaves[mask_path(path)], self.roles[mask_path(path)] = torch.stack(valid, dim), "valid"
        for part in parts:
            self.statics.update(part.statics)
            self.nests.update(part.nests)
            self.declared |= part.declared

    @property
    def uneven(self) -> bool:
        """Whether elements differ in shape or keys."""
        return any(role in PADDED for role in self.roles.values())

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
        typed = self.typed or any(path[: len(where)] == where for where in self.declared)
        keeps = touches == CASTS and typed and not leaf.is_floating_point()
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


def _below(member: Any, dims: int, prefix: Path) -> Model:
    """A member of a stack that has so many batch dims of the root, read as a part of it."""
    model = Model(tuple(member.batch_size[:dims]))
    model._read(member, prefix)
    return model


def _padded(leaf: Tensor, shape: torch.Size) -> Tensor:
    if leaf.shape == shape:
        return leaf
    whole = leaf.new_zeros(shape) if leaf.dtype is torch.bool else leaf.new_ones(shape)  # a divisor is never zero
    whole[tuple([slice(0, n) for n in leaf.shape])] = leaf
    return whole


def trimmed(model: Model) -> Model:
    """The same without padding that nothing needs, and without entries that no element has."""
    if not model.uneven:
        return model
    new = replace(model, leaves=dict(model.leaves), roles=dict(model.roles))
    for path, role in model.roles.items():
        if role not in PADDED:
            continue
        leaf, mask = model.leaves[path], model.leaves[mask_path(path)]
        dims = len(model.size)
        where = mask.nonzero()
        if not len(where) and role == "ragged":
            for kept, old in ((path, leaf), (mask_path(path), mask)):
                new.leaves[kept] = old.new_empty((*model.size, 0))
            continue
        if not len(where):
            for gone in (path, mask_path(path)):
                del new.leaves[gone], new.roles[gone]
            continue
        ends = tuple([slice(None)] * dims + [slice(0, int(n) + 1) for n in where.amax(0)[dims:]])
        new.leaves[path], new.leaves[mask_path(path)] = (
            leaf[ends].where(mask[ends], torch.ones((), dtype=leaf.dtype)),
            mask[ends],
        )
        if role == "padded" and bool(mask[ends].all()):
            new.roles[path] = "tensor"
            del new.leaves[mask_path(path)], new.roles[mask_path(path)]
    return new


OTHERS: list[Any] = []
"""Objects that aren't named `o3`: a value of each member of a lazy stack becomes an object per element."""


def number_of(value: Any) -> int:
    """The number of an object `o3`, or one of its own for another."""
    if isinstance(value, str) and value[1:].isdigit():
        return int(value[1:])
    if (type(value), value) not in OTHERS:
        OTHERS.append((type(value), value))
    return 1_000_000 + OTHERS.index((type(value), value))


def numbered(stack: NonTensorStack[Any]) -> Tensor:
    """A stack of objects as a tensor of their numbers."""

    def numbers(values: Any) -> Any:
        return [numbers(value) for value in values] if isinstance(values, list) else number_of(values)

    return torch.tensor(numbers(stack.tolist()), dtype=torch.int64).reshape(stack.shape)


def settled(wanted: Model, collection: TensorCollection) -> Model:
    """The model of a lazy stack whose members' values have become an object per element, all of them equal."""
    if not (wanted.lazy and wanted.statics):
        return wanted
    given = Model.of(collection)
    joined = {path for path in wanted.statics if given.roles.get(path) == "objects"}
    new = replace(wanted, leaves=dict(wanted.leaves), roles=dict(wanted.roles))
    new.statics = {path: value for path, value in wanted.statics.items() if path not in joined}
    for path in joined:
        new.leaves[path] = torch.full(given.leaves[path].shape, number_of(wanted.statics[path]))
        new.roles[path] = "objects"
    return new


def assert_same(collection: TensorCollection, wanted: Model, *, nests: bool = True, exact: bool = True) -> None:
    """A container holds what the model holds, dtype by dtype and bit by bit, or but for rounding."""
    given, wanted = Model.of(collection), settled(wanted, collection)
    assert given.size == tuple(wanted.size), f"batch size {given.size}, expected {tuple(wanted.size)}"
    if 0 in given.size and wanted.uneven:
        return  # without elements nothing says what each of them would hold
    given, wanted = trimmed(given), trimmed(wanted)
    assert given.leaves.keys() == wanted.leaves.keys(), f"{sorted(given.leaves)} != {sorted(wanted.leaves)}"
    assert given.roles == wanted.roles
    assert given.statics == wanted.statics
    if nests and not wanted.lazy:
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
