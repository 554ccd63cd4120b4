"""Faults in the middle of an operation: an error of torch at each of its calls, an interrupt at each line.

A container is made twice: once to see what it and every container in it hold before the operation and after it, then
once for each fault. Whatever the fault, all of them together hold what they held before, or what they hold afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, resolve_name

import tensorclass
from tensorclass import NonTensorStack, RaggedTensor, TensorCollection, _system
from tensorclass.core import store_of
from tensorclass.store import Node, Unbatched

State: TypeAlias = "tuple[Any, ...]"
Make: TypeAlias = "Callable[[], Any]"
Call: TypeAlias = "Callable[[Any], Any]"
PACKAGE = str(Path(tensorclass.__file__).parent)


# ---- what containers hold ------------------------------------------------------------------------------------------


def containers(root: Any) -> Iterator[Any]:
    """A container and all containers below it, members of stacks included."""
    yield root
    store = store_of(root)
    inner = store._members if store._stacked else store._data.values()
    for value in list(inner):
        if isinstance(value, TensorCollection):
            yield from containers(value)


class Seen:
    """The containers and tensors of a container before an operation, which the caller may hold too."""

    def __init__(self, root: Any) -> None:
        self.containers = [store_of(found) for found in containers(root)]
        self.numbers = {id(found): i for i, found in enumerate(self.containers)}
        self.tensors = [leaf for found in self.containers if not found._stacked for leaf in _tensors(found)]
        self.marks = {id(leaf): i for i, leaf in enumerate(self.tensors)}

    def state(self) -> State:
        """What each of them holds now."""
        return (*[self._of(found) for found in self.containers], *[_values(leaf) for leaf in self.tensors])

    def _of(self, found: Any) -> State:
        common = (found.is_locked, found._device, found._names, tuple(found._batch_size))
        if found._stacked:
            return (*common, found.stack_dim, found._dim_name, tuple(self._entry(m) for m in found._members))
        return (*common, tuple((key, self._entry(value)) for key, value in found._data.items()))

    def _entry(self, value: Any) -> Any:
        """An entry: which of the old containers or tensors it is, or what it holds."""
        if isinstance(value, Tensor):
            return ("tensor", self.marks.get(id(value), "new"), type(value).__name__, *_values(value))
        if isinstance(value, TensorCollection):
            store = store_of(value)
            known = self.numbers.get(id(store))
            return ("container", type(value).__name__, self._of(store) if known is None else known)
        if isinstance(value, NonTensorStack):
            return ("objects", value.tolist())
        if isinstance(value, RaggedTensor):
            return ("ragged", value.lengths.tolist(), _values(value.values))
        if isinstance(value, Unbatched):
            return ("shared", self._entry(value.tensor))
        return ("value", value._read_value() if isinstance(value, Node) else value)


def _tensors(store: Any) -> Iterator[Tensor]:
    for value in store._data.values():
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, Unbatched):
            yield value.tensor


def _values(leaf: Tensor) -> State:
    leaf = leaf.detach()
    return leaf.dtype, tuple(leaf.shape), leaf.requires_grad, leaf.contiguous().numpy().tobytes()


# ---- faults ----------------------------------------------------------------------------------------------------------


class TorchFault(TorchFunctionMode):
    """Raises at the n-th call of a torch function; attributes of tensors, such as shapes, are not calls."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.calls = 0
        self.at = ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = resolve_name(func) or getattr(func, "__name__", str(func))
        if not name.endswith("__get__"):
            self.calls += 1
            if self.calls == self.number:
                self.at = name
                raise torch.OutOfMemoryError("injected")
        return func(*args, **(kwargs or {}))


def writes_memory(name: str) -> bool:
    """Whether a torch function writes into memory that exists."""
    last = name.rpartition(".")[2]
    return last in ("__setitem__", "__iadd__") or (last.endswith("_") and not last.endswith("__"))


class LineFault:
    """Interrupts the package at its n-th line, as Ctrl-C would."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lines = 0
        self.at = ""

    def __enter__(self) -> LineFault:
        self.former = sys.gettrace()
        sys.settrace(self._calls)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.settrace(self.former)
        _release_locks()

    def _calls(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._in_frame if _ours(frame.f_code) else None

    def _in_frame(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.lines += 1
            if self.lines == self.number:
                self.at = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"
                raise KeyboardInterrupt("injected")
        return self._in_frame


def _release_locks() -> None:
    """Release what an injected interrupt has left locked: other threads would wait for ever.

    Python looks for real interrupts at calls, so they don't come between the end of a `with` block and the release.
    """
    for lock in list(_system._LOCKS):
        is_held = getattr(lock, "_is_owned", None) or lock.locked
        while is_held():
            lock.release()


_OURS: dict[CodeType, bool] = {}


def _ours(code: CodeType) -> bool:
    """Whether a function is part of the package, or was generated by it."""
    found = _OURS.get(code)
    if found is None:
        name = code.co_filename
        found = _OURS[code] = name.startswith(PACKAGE) or (name.startswith("<") and "tensorclass" in name)
    return found


FAULTS: dict[str, type[Any]] = {"torch": TorchFault, "line": LineFault}


@dataclass
class Report:
    """The faults of one operation on one container: how many there were, and those that left it half written."""

    faults: int = 0
    half: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    """Kernels that were the fault themselves, after others had written: only torch can stop there."""
    suits: bool = True


def inject(make: Make, call: Call, fault: type[Any], every: int = 1) -> Report:
    """Run an operation with a fault at each place, or at every n-th, until it ends without one.

    The thread is used for nothing else. An interrupt that a trace function raises may come between two instructions
    that Python itself never separates, such as the begin of an `except` clause or of a `with` block. What it leaves
    behind (the exception being handled, the grad mode) belongs to the thread and ends with it.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_inject, make, call, fault, every).result()


def _inject(make: Make, call: Call, fault: type[Any], every: int) -> Report:
    report = Report()
    try:
        root = make()
        seen = Seen(root)
        old = seen.state()
        call(root)
    except Exception:
        report.suits = False
        return report
    new = seen.state()
    number = 1
    while True:
        root = make()
        seen = Seen(root)
        injected = fault(number)
        try:
            with injected:
                call(root)
        except BaseException as error:
            if not injected.at:
                raise AssertionError("an error without a fault") from error
        if not injected.at:
            return report
        report.faults += 1
        left = seen.state()
        if left != old and left != new:
            (report.kernels if fault is TorchFault and writes_memory(injected.at) else report.half).append(injected.at)
        number += every
