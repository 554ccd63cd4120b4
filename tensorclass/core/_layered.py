"""Containers whose entries are in another container, their store: the primitives that are forwarded to it."""

from __future__ import annotations

from typing import Any

import torch

from ._base import BATCHED, Kind, Names, TensorCollection
from ._publish import Step


class Layered(TensorCollection):
    """Forwards primitives that don't depend on the outer container; base of typed instances and parameters."""

    __slots__ = ()
    _store: Any

    _batch_size = property(lambda self: self._store._batch_size, lambda self, v: setattr(self._store, "_batch_size", v))  # pyright: ignore[reportAssignmentType]  # that of the store
    _device = property(lambda self: self._store._device, lambda self, v: setattr(self._store, "_device", v))  # pyright: ignore[reportAssignmentType]  # as above
    _names = property(lambda self: self._store._names, lambda self, v: setattr(self._store, "_names", v))  # pyright: ignore[reportAssignmentType]  # as above

    _afar = property(lambda self: self._store._afar)  # pyright: ignore[reportAssignmentType]  # that of the store

    def _leaves(self, kind: Kind = BATCHED) -> Any:
        return self._store._leaves(kind)

    def _layout(self) -> Any:
        return self._store._layout()

    def _frames(self) -> Any:
        return self._store._frames()

    def _owners(self) -> Any:
        return self._store._owners()

    def _plan_lock(self, owner: object | None, held: bool, found: Any) -> None:
        self._store._plan_lock(owner, held, found)

    def _device_steps(self, device: torch.device | None) -> list[Step]:
        return self._store._device_steps(device)  # type: ignore[no-any-return]  # of the store

    def _name_steps(self, names: Names) -> list[Step]:
        return self._store._name_steps(names)  # type: ignore[no-any-return]  # of the store

    def _size_steps(self, size: torch.Size) -> list[Step]:
        return self._store._size_steps(size)  # type: ignore[no-any-return]  # of the store

    def _put_steps(self, values: dict[str, Any]) -> list[Step]:
        return self._store._put_steps(values)  # type: ignore[no-any-return]  # of the store

    def _swap_steps(self, entries: dict[str, Any]) -> list[Step]:
        return self._store._swap_steps(entries)  # type: ignore[no-any-return]  # of the store

    def _drop_steps(self, key: str) -> list[Step]:
        return self._store._drop_steps(key)  # type: ignore[no-any-return]  # of the store
