"""Swaps: replace a module's tensors by those of a container, permanently or for a `with` block.

A swap writes into the dicts in which the module keeps its tensors. It holds the lock of the module while it writes, and
during a block. Swaps of one module form a stack, so that each restores what it replaced, even if blocks of several
threads or tasks overlap.
"""

from __future__ import annotations

from collections import deque
from operator import getitem, or_, setitem
from typing import Any
from weakref import ref

import torch
from torch import nn

from ...core import join_path
from ...errors import StructureError
from ...ops._mapping import MappingOps
from ...store import TensorDict
from ._fit import fit_of
from ._plan import Level, Plan, Swaps, Tensors

_run = deque[Any](maxlen=0).extend
"""Exhausts an iterator, at the speed of C."""

SWAPS, PLAN, HOLDERS, OLDS, NEWS, WRITE, OPEN = range(7)
"""The positions in the state of a swap, which is a list: creating an object takes three times as long."""


class Swap(TensorDict):
    """The previous tensors of a module: a TensorDict that is built when it is first read.

    Until then its slots are empty, except `_undo`, which is its state.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        state: Any = self._undo
        tree = _nested_tensors(state[PLAN].root, state[OLDS])
        for slot in ("_data", "_batch_size", "_device", "_names", "_plain", "_lock"):
            setattr(self, slot, getattr(tree, slot))
        self._undo = [None, Undo(self, state)] if state[OPEN] else [Undo(self, state)]
        self.__class__ = TensorDict  # type: ignore[assignment]  # it has the same slots
        return getattr(self, name)

    def __repr__(self) -> str:
        return TensorDict.__repr__(self) if self._data is None else repr(self)

    def __enter__(self) -> Any:
        state: Any = self._undo
        plan = state[PLAN]
        plan.lock.acquire()
        if plan.stack[-1]() is not self:
            _put_on_top(self, state)
        state[OPEN] = True
        return self

    def __exit__(self, *exc: object) -> None:
        state: Any = self._undo if type(self) is Swap else self._undo.pop().state
        _, plan, holders, olds, _, write, _ = state
        stack = plan.stack
        try:
            if write is _assign and stack and stack[-1]() is self:  # the common case, without a call
                stack.pop()
                state[OPEN] = False
                _run(map(setitem, holders, plan.kinds, olds))
            else:
                _remove_swap(self, state)
        finally:
            plan.lock.release()

    def moved_to(self, target: Any) -> Any:
        """Copy the old tensors into another container, which then ends the block."""
        undo = Undo(self, self._undo)
        MappingOps.update(target, self)
        target._frames()[0] = undo
        return target


class Undo:
    """Ends the block of a swap that was read before the block, or that another container replaces."""

    def __init__(self, swap: Any, state: Any) -> None:
        self.swap = ref(swap)
        self.state = state

    def __call__(self, holder: Any) -> None:
        with self.state[PLAN].lock:
            _remove_swap(self.swap(), self.state)


def _nested_tensors(level: Level, held: list[Tensors]) -> TensorDict:
    entries: dict[str, Any] = {name: held[slot][name] for name, slot in level.slots.items()}
    for name, child in level.children.items():
        below = _nested_tensors(child, held)
        if below._data:
            entries[name] = below
    return TensorDict._from_entries(entries, torch.Size(), None, None)


# ---- begin and end
# ----------------------------------------------------------------------------------------------------


def swap(swaps: Swaps, module: nn.Module, params: Any, preserve: bool) -> Swap:
    """Replace the dicts of a module by dicts with the tensors of a container."""
    plan = swaps.plan
    with plan.lock:
        kinds, total = plan.kinds, plan.total
        holders = plan.holders(module) if plan.own else plan.rest
        olds = list(map(getitem, holders, kinds))
        if not plan.fits(olds):
            plan, holders, olds = _renew_plan(swaps, module)
            kinds, total = plan.kinds, plan.total
        fit = swaps.fits.get(id(params))
        if fit is not None and (params._lock is fit.lock if fit.lock is not None else fit.holds()):
            news = list(map(or_, olds, fit.news))
        else:
            news = list(map(or_, olds, fit_of(swaps, olds, params, preserve)))
        if sum(map(len, news)) != total:  # as many names, but different ones
            plan, holders, olds = _renew_plan(swaps, module)
            kinds = plan.kinds
            news = list(map(or_, olds, fit_of(swaps, olds, params, preserve)))
        _run(map(setitem, holders, kinds, news))
        found = object.__new__(Swap)
        found._undo = [swaps, plan, holders, olds, news, _assign, False]
        stack = plan.stack
        if stack:
            _drop_forgotten(stack)
        stack.append(ref(found))
        return found


def _drop_forgotten(stack: list[ref[Any]]) -> None:
    """Remove permanent swaps whose results were dropped."""
    while stack and stack[-1]() is None:
        stack.pop()


def _renew_plan(swaps: Swaps, module: nn.Module) -> tuple[Plan, list[Any], list[Tensors]]:
    plan = swaps.renew(module)
    holders = plan.holders(module)
    return plan, holders, list(map(getitem, holders, plan.kinds))


def _push_swap(state: list[Any]) -> Swap:
    found = object.__new__(Swap)
    found._undo = state
    stack = state[PLAN].stack
    _drop_forgotten(stack)
    stack.append(ref(found))
    return found


def _remove_swap(swap: Any, state: list[Any]) -> None:
    """Remove a swap from its module, which the caller has locked."""
    stack = state[PLAN].stack
    state[OPEN] = False
    place = [i for i, entry in enumerate(stack) if entry() is swap]
    if not place:  # the block has already ended
        return
    above = [_state_of(found) for found in [entry() for entry in stack[place[0] + 1 :]] if found is not None]
    del stack[place[0]]
    if not above:
        state[WRITE](state, state[OLDS])
        return
    for slot, (holder, kind) in enumerate(zip(state[HOLDERS], state[PLAN].kinds, strict=True)):
        places = ((other, _slot(other, holder, kind)) for other in above)
        upper, at = next(((other, at) for other, at in places if at is not None), (None, 0))
        if upper is not None:  # that swap restores the old tensors when it leaves
            upper[OLDS][at] = state[OLDS][slot]
        elif state[WRITE] is _assign:
            holder[kind] = state[OLDS][slot]


def _slot(state: list[Any], holder: Any, kind: str) -> int | None:
    """The number of the dict of a swap in a holder."""
    kinds = state[PLAN].kinds
    return next(
        (i for i, (h, k) in enumerate(zip(state[HOLDERS], kinds, strict=True)) if h is holder and k == kind), None
    )


def _put_on_top(swap: Any, state: list[Any]) -> None:
    """Move a swap to the top of the stack, if another swap was added before its block begins."""
    _remove_swap(swap, state)
    held: list[Any] = list(map(getitem, state[HOLDERS], state[PLAN].kinds))
    state[OLDS] = held if state[WRITE] is _assign else _clones(held, state[NEWS])
    state[WRITE](state, state[NEWS])
    state[PLAN].stack.append(ref(swap))


def _state_of(swap: Any) -> Any:
    return swap._undo if type(swap) is Swap else next(undo.state for undo in swap._undo if isinstance(undo, Undo))


def _assign(state: list[Any], dicts: list[Tensors]) -> None:
    _run(map(setitem, state[HOLDERS], state[PLAN].kinds, dicts))


# ---- in place, and through the state dict --------------------------------------------------------------------------


def copy_values(swaps: Swaps, module: nn.Module, params: Any, non_blocking: bool) -> Swap:
    """Copy the values of a container into a module's tensors."""

    def write(state: list[Any], values: list[Tensors]) -> None:
        with torch.no_grad():
            for holder, kind, new in zip(state[HOLDERS], state[PLAN].kinds, values, strict=True):
                for name, value in new.items():
                    holder[kind][name].copy_(value, non_blocking=non_blocking)

    with swaps.plan.lock:
        plan, holders, olds = _renew_plan(swaps, module)
        news = fit_of(swaps, olds, params, preserve=False)
        state = [swaps, plan, holders, _clones(olds, news), news, write, False]
        write(state, news)
        return _push_swap(state)


def _clones(dicts: list[Tensors], news: list[Tensors]) -> list[Tensors]:
    """Copies of the values that new ones replace."""
    return [{name: held[name].detach().clone() for name in new} for held, new in zip(dicts, news, strict=True)]


def load_state(swaps: Swaps, module: nn.Module, values: dict[str, Any]) -> Swap:
    """Load a state dict, whose tensors replace those of the module; its hooks run."""
    with swaps.plan.lock:
        plan, holders, olds = _renew_plan(swaps, module)
        news = [held.copy() for held in olds]
        state = [swaps, plan, holders, olds, news, _assign, False]
        for level, held in zip(plan.levels, news, strict=True):  # the values that state dicts leave out
            for name in level.optional & held.keys():
                held[name] = values.pop(join_path((*level.path, name)), held[name])
        _assign(state, news)
        try:
            module.load_state_dict(values, assign=True)
        except BaseException as error:  # also on an interrupt, the module is restored
            _assign(state, olds)
            if isinstance(error, RuntimeError):
                raise StructureError(f"to_module: {error}") from None
            raise
        return _push_swap(state)
