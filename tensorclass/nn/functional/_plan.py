"""The structure of a module for swaps: the dicts that hold its tensors, found once and checked cheaply."""

from __future__ import annotations

import threading
from itertools import repeat
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ...core import Path, TensorCollection, join_path, release_in_forks
from ...errors import ArgumentError, UnsupportedOperationError
from ...store import TensorDictParams

Tensors: TypeAlias = "dict[str, Any]"
"""The old or new content of one dict of a module, by name."""

KEY = "_tensorclass_swaps"
"""The key of the `Swaps` in the `__dict__` of a module, so that both are freed together."""

_GATES: WeakKeyDictionary[nn.Module, Gate] = WeakKeyDictionary()
_MAKING = release_in_forks(threading.RLock())


class Level:
    """One module of a tree: for each tensor name, the number of the dict that holds it; and the levels below."""

    __slots__ = ("children", "only", "optional", "path", "slots")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.slots: dict[str, int] = {}
        self.only = -1
        """The number of the only dict with tensors of the module itself; negative if there are several, or none."""
        self.optional: frozenset[str] = frozenset()
        self.children: dict[str, Level] = {}

    def names(self) -> list[str]:
        """All dotted names of tensors here and below."""
        return [join_path((*self.path, name)) for name in self.slots] + [
            name for child in self.children.values() for name in child.names()
        ]


class Plan:
    """The dicts with a module's tensors, and the facts to check that the plan is still valid.

    A holder is the `__dict__` of a module with the key of one of its dicts. Holders of the root module come first and
    are not stored, so that the plan doesn't keep its module alive.
    """

    __slots__ = ("empties", "kinds", "levels", "live", "lock", "nones", "own", "rest", "root", "stack", "then", "total")

    def __init__(self, module: nn.Module) -> None:
        self.rest: list[Any] = []
        self.kinds: list[str] = []
        self.levels: list[Level] = []
        self.nones: list[tuple[int, str]] = []
        self.empties: list[Any] = []
        self.live: list[dict[str, Any]] = []
        self.total = self.own = 0
        self.root = self._survey(module, (), {})
        self.then = [children.copy() for children in self.live]
        self.lock, self.stack = gate_of([part for part in module.modules() if not isinstance(part, TensorDictParams)])

    def holders(self, module: nn.Module) -> list[Any]:
        """The holders of the dicts of tensors, one for each dict."""
        return [*repeat(module.__dict__, self.own), *self.rest] if self.own else self.rest

    def _survey(self, module: nn.Module, path: Path, seen: dict[int, Level]) -> Level:
        """The level of a module, with the slots of its parameters and buffers and the levels of its submodules."""
        if id(module) in seen:
            return seen[id(module)]
        if isinstance(module, TensorDictParams):
            return self._survey_container(module._store, path)
        if isinstance(module, torch.jit.ScriptModule):
            raise UnsupportedOperationError(
                f"`{join_path(path) or type(module).__name__}` is a scripted module, which keeps its parameters to "
                "itself; swap them before scripting"
            )
        level = seen[id(module)] = Level(path)
        level.optional = frozenset(module._non_persistent_buffers_set)
        self._hold(level, module.__dict__, "_parameters", module._parameters)
        self._hold(level, module.__dict__, "_buffers", module._buffers)
        children = module._modules
        (self.live if children else self.empties).append(children)
        level.children = {
            name: self._survey(child, (*path, name), seen) for name, child in children.items() if child is not None
        }
        return level

    def _survey_container(self, store: Any, path: Path) -> Level:
        level = Level(path)
        data = store._live()
        self._hold(level, Data(store), "_data", data)
        nested = {key: value for key, value in data.items() if isinstance(value, TensorCollection)}
        level.children = {key: self._survey_container(value, (*path, key)) for key, value in nested.items()}
        return level

    def _hold(self, level: Level, holder: Any, kind: str, held: Tensors) -> None:
        """Number a dict of parameters or buffers, and the slots of its tensors."""
        if not held:
            self.empties.append(held)
            return
        slot = len(self.kinds)
        for name, value in held.items():
            if isinstance(value, Tensor):
                if is_lazy(value):
                    raise uninitialised_error((*level.path, name))
                level.slots[name] = slot
                level.only = slot if level.only in (slot, -1) else -2
            elif value is None:
                self.nones.append((slot, name))
        self.total += len(held)
        self.kinds.append(kind)
        self.levels.append(level)
        if level.path or kind == "_data":
            self.rest.append(holder)
        else:
            self.own += 1

    def fits(self, olds: list[Tensors]) -> bool:
        """Whether the module still has the same submodules and number of tensors."""
        if any(self.empties) or self.live != self.then or sum(map(len, olds)) != self.total:
            return False
        return not self.nones or all([olds[slot].get(name) is None for slot, name in self.nones])


class Data:
    """Makes the dict of a container's store readable and writable like the dicts of a module."""

    __slots__ = ("store",)

    def __init__(self, store: Any) -> None:
        self.store = store

    def __getitem__(self, kind: str) -> Tensors:
        data: Tensors = self.store._data
        return data

    def __setitem__(self, kind: str, data: Tensors) -> None:
        self.store._data = data


class LockGroup:
    """Several locks as one, always acquired in the same order."""

    __slots__ = ("locks",)

    def __init__(self, locks: list[Any]) -> None:
        self.locks = locks

    def acquire(self) -> None:
        """Take all."""
        for lock in self.locks:
            lock.acquire()

    def release(self) -> None:
        """Release all."""
        for lock in reversed(self.locks):
            lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


class Gate:
    """The state that modules of overlapping trees share: a lock, and the active swaps."""

    __slots__ = ("lock", "stack")

    def __init__(self) -> None:
        self.lock = release_in_forks(threading.RLock())
        self.stack: list[ref[Any]] = []


def gate_of(modules: list[nn.Module]) -> tuple[Any, list[ref[Any]]]:
    """The lock and the stack of swaps of a module tree, which overlapping trees share."""
    with _MAKING:
        held = [_GATES[module] for module in modules if module in _GATES] or [Gate()]
        for module in modules:
            _GATES.setdefault(module, held[0])
    unique = sorted({id(gate): gate for gate in held}.values(), key=id)
    return unique[0].lock if len(unique) == 1 else LockGroup([gate.lock for gate in unique]), held[0].stack


def uninitialised_error(path: Path) -> UnsupportedOperationError:
    """The error for a parameter of a lazy module."""
    return UnsupportedOperationError(
        f"`{join_path(path)}` is not initialised: it has no shape yet; run the module once on a batch first"
    )


class Swaps:
    """The swap data of a module: the plan, and containers that were swapped in before."""

    __slots__ = ("fits", "owner", "plan")

    def __init__(self, module: nn.Module) -> None:
        self.owner = ref(module)
        self.plan = Plan(module)
        self.fits: dict[int, Any] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """Return None: a copy of the module gets new swap data."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()

    def renew(self, module: nn.Module) -> Plan:
        """Make a new plan, after the structure of the module has changed."""
        self.fits.clear()
        self.plan = Plan(module)
        return self.plan


def swaps_of(module: Any) -> Swaps:
    """The swap data of a module, created if there is none.

    Raises:
        TypeError: for anything but a module.
    """
    if not isinstance(module, nn.Module):
        raise ArgumentError(f"to_module: give an nn.Module, got {type(module).__name__}: {module!r:.60}")
    with _MAKING:
        found: Swaps | None = module.__dict__.get(KEY)
        if found is None or found.owner() is not module:
            found = module.__dict__[KEY] = Swaps(module)
        return found
