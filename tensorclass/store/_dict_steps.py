"""The changes of a dense container as steps, see `core/_publish.py`."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..core import ABSENT, Owners, Step, TensorCollection, assign, changed, children, keep, note_steps, note_write
from ..errors import StructureError
from ._fitting import missing
from .entries._nested import held, only_tensors, over


class DictSteps(TensorCollection):
    """Changes of the entries, the device and the locks of a container with one dict."""

    __slots__ = ()
    _data: dict[str, Any]
    _lock: Owners | None

    def _put(self, key: str, value: Any) -> None:
        if type(value) is not Tensor and not only_tensors({key: value}):
            self._plain = False
        self._data[key] = value
        note_write(self) if self._lock is not None else None

    def _put_all(self, values: dict[str, Any]) -> None:
        if self._plain and not only_tensors(values):
            self._plain = False  # before the write: readers copy the dict first
        replaced = self._data.copy()  # kept alive until all are written: freeing a tensor lets other threads run
        self._data.update(values)
        del replaced
        note_write(self) if self._lock is not None else None

    def _swap_in(self, entries: dict[str, Any], seen: dict[str, Any]) -> None:
        self._plain = self._plain and only_tensors(entries)
        old, self._data = self._data, entries
        late = {key: value for key, value in old.items() if seen.get(key, ABSENT) is not value}
        self._put_all(late)  # entries that another thread has written since `seen` was read

    def _device_steps(self, device: torch.device | None) -> list[Step]:
        below = [] if self._plain else children(self)
        return [*assign(self, _device=device), *[step for child in below for step in child._device_steps(device)]]

    def _put_steps(self, values: dict[str, Any]) -> list[Step]:
        data = self._data
        steps = [keep(data.copy()), partial(data.update, values)]
        if self._lock is not None:
            steps += note_steps(self)
        return steps if not self._plain or only_tensors(values) else [*assign(self, _plain=False), *steps]

    def _swap_steps(self, entries: dict[str, Any]) -> list[Step]:
        plain = self._plain and only_tensors(entries)
        return [keep(self._data), *assign(self, _plain=plain, _data=entries), *note_steps(self)]

    def _drop_steps(self, key: str) -> list[Step]:
        data = self._data
        if key not in data:
            raise missing(self, key)
        return [keep(data[key]), partial(data.pop, key, None), *note_steps(self)]

    def _plan_lock(self, owner: object | None, held: bool, found: Any) -> None:
        if held or self._lock is not None:
            owners = changed(self, owner, held, found)
            for child in children(self) if (held or owners is None) and not self._plain else ():
                child._plan_lock(self, held, found)


def snapshot_of(value: Any) -> Any:
    """A snapshot of an entry node or nested tensor, which other threads don't change."""
    return (over(value) if isinstance(value, Tensor) else value)._still()


def rebuilt_entry(key: str, node: Any, leaves: list[Tensor], *args: Any) -> Any:
    """An entry node, or what it is held as, around new leaves."""
    try:
        return held(node._make(leaves, *args))
    except StructureError as error:
        raise StructureError(f"field `{key}`: {error}") from None
