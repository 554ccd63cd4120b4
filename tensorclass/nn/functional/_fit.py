"""Sorts the tensors of a container into the dicts of a module, and caches the result for the next swap."""

from __future__ import annotations

from itertools import chain
from operator import is_
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.parameter import Parameter

from ...core import Entry, Path, TensorCollection, join_path
from ...errors import ArgumentError, KeySetError, Later, StructureError, did_you_mean, few
from ...ops._steps import foreach_is_safe
from ...store import TensorDict, TensorDictParams
from ._plan import Level, Plan, Swaps, Tensors

_VALUES: Any = dict.values


class Fit:
    """The cached tensors of a container, by dict of the module, and the data to check that they are unchanged."""

    __slots__ = ("keys", "lock", "news", "owner", "sources", "stores", "values")

    def __init__(self, params: Any, stores: list[TensorDict], news: list[Tensors]) -> None:
        self.owner: Any = None
        self.lock = params._lock if type(params) is TensorDict else None
        self.stores = [ref(store) for store in stores]
        self.sources = [store._data for store in stores]
        self.keys = [*chain.from_iterable(self.sources)]
        self.values = [*chain.from_iterable(map(_VALUES, self.sources))]
        self.news = news

    def holds(self) -> bool:
        """Whether an unlocked container holds the same tensors under the same keys."""
        sources = [getattr(store(), "_data", None) for store in self.stores]
        if not all(map(is_, sources, self.sources)) or [*chain.from_iterable(self.sources)] != self.keys:
            return False
        return all(map(is_, chain.from_iterable(map(_VALUES, self.sources)), self.values))


def fit_of(swaps: Swaps, olds: list[Tensors], params: Any, preserve: bool) -> list[Tensors]:
    """The tensors of a container by dict of the module.

    Raises:
        StructureError: for names that only one of them has, and for two values of one parameter.
    """
    if not isinstance(params, TensorCollection):
        raise ArgumentError(f"to_module: give a container, got {type(params).__name__}")
    plan = swaps.plan
    news: list[Tensors] = [{} for _ in plan.kinds]
    unknown: list[Path] = []
    _sort_in(plan.root, params, (), news, unknown)
    missing = _missing_names(plan, news) if sum(map(len, news)) != plan.total - len(plan.nones) else []
    if unknown or missing:
        raise _mismatch(swaps, unknown, missing)
    _require_shapes(plan, olds, news)
    stores: list[TensorDict] = []
    if preserve and not _wrap(plan, olds, news) and _plain_stores(params, stores):
        fits, key = swaps.fits, id(params)
        fit = fits[key] = Fit(params, stores, news)
        fit.owner = ref(params, lambda _: fits.pop(key, None))
    return news


def _missing_names(plan: Plan, news: list[Tensors]) -> list[Path]:
    """The tensors of the module for which the container has none; buffers that are not saved may be left out."""
    return [
        (*level.path, name)
        for slot, level in enumerate(plan.levels)
        for name in level.slots
        if level.slots[name] == slot and name not in news[slot] and name not in level.optional
    ]


def _sort_in(level: Level, params: Any, path: Path, news: list[Tensors], unknown: list[Path]) -> None:
    """Sort tensors into the slots of a level and of the levels below; keys without a slot are unknown."""
    tensors = params._tensors_by_key() if level.only >= 0 else None
    if tensors is not None and tensors.keys() == level.slots.keys():  # the common case, without a loop
        news[level.only] = news[level.only] or dict(tensors)
        return
    for name, value in params._entries().items():
        slot = level.slots.get(name)
        if slot is None:
            child = level.children.get(name)
            if child is not None and isinstance(value, TensorCollection):
                _sort_in(child, value, (*path, name), news, unknown)
            else:
                unknown.append((*path, name))
            continue
        tensor = value._read_value() if isinstance(value, Entry) else value
        if not isinstance(tensor, Tensor):
            unknown.append((*path, name))
        news[slot].setdefault(name, tensor)  # a submodule under several names uses the first value


def _require_shapes(plan: Plan, olds: list[Tensors], news: list[Tensors]) -> None:
    """Refuse tensors of other shapes than those that the module has."""
    for level, held, new in zip(plan.levels, olds, news, strict=True):
        for name, value in new.items():
            old = held.get(name)
            if old is not None and value.shape != old.shape:
                raise StructureError(
                    f"to_module: `{join_path((*level.path, name))}` has shape {list(old.shape)} in the module, "
                    f"{list(value.shape)} in the container; nothing was copied"
                )


def _mismatch(swaps: Swaps, unknown: list[Path], missing: list[Path]) -> StructureError:
    names = swaps.plan.root.names()
    told: list[object] = [Later(_unknown, join_path(path), names) for path in unknown]
    told += [f"`{join_path(path)}` is missing" for path in missing]
    title = type(swaps.owner()).__name__
    return KeySetError(
        f"to_module: the container does not fit the {title}: {few(told, between='; ')}. Nothing was swapped; "
        "the container has the names that `TensorDict.from_module(module)` gives"
    )


def _unknown(name: str, names: list[str]) -> str:
    return f"`{name}` is not a tensor of the module{did_you_mean(name, names)}"


def _plain_stores(params: Any, stores: list[TensorDict]) -> bool:
    """Collect the stores of a container; False if one of them is not dense."""
    if type(params) is TensorDictParams and not params._hooks:
        params = params._store
    if type(params) is not TensorDict:
        return False
    stores.append(params)
    return all([_plain_stores(v, stores) for v in params._data.values() if isinstance(v, TensorCollection)])


def _wrap(plan: Plan, olds: list[Tensors], news: list[Tensors]) -> bool:
    """Make what replaces parameters a parameter, and what replaces buffers none; returns whether anything changed.

    A tensor that requires grad, or belongs to a function transform, is not wrapped, so that gradients reach it.
    """
    if not foreach_is_safe() or forward_ad._current_level >= 0:
        return True
    made: dict[int, tuple[Path, Tensor, Tensor]] = {}
    buffers: dict[int, Tensor] = {}
    found = False
    for level, held, new, kind in zip(plan.levels, olds, news, plan.kinds, strict=True):
        for name, value in new.items():
            old = held[name]
            if kind == "_buffers" and not isinstance(old, Parameter):
                new[name] = _buffer(value, buffers, old)
                found = found or new[name] is not value
                continue
            if isinstance(value, Parameter) or not (kind == "_parameters" or isinstance(old, Parameter)):
                continue
            found = True
            if value.requires_grad:
                continue
            path = (*level.path, name)
            known = made.get(id(old))
            if known is None:
                known = made[id(old)] = (path, value, _parameter(path, value, old))
            elif not _equal(known[1], value):
                raise StructureError(
                    f"to_module: `{join_path(known[0])}` and `{join_path(path)}` are one parameter in the module, and "
                    "the container has different values for them; nothing was swapped"
                )
            new[name] = known[2]
    return found


def _buffer(value: Tensor, made: dict[int, Tensor], old: Tensor) -> Tensor:
    """What replaces a buffer: no parameter, which an optimizer would find, and one tensor for one buffer."""
    value = value.detach() if isinstance(value, Parameter) else value
    known = made.setdefault(id(old), value)
    return known if known is not value and _equal(known, value) else value


def _parameter(path: Path, value: Tensor, old: Tensor) -> Tensor:
    if old.requires_grad and not (value.is_floating_point() or value.is_complex()):
        raise StructureError(
            f"to_module: `{join_path(path)}` is a parameter that requires grad, and a tensor of {value.dtype} can't; "
            "give floating point values, or put the tensor there as it is with preserve_module_state=False"
        )
    return Parameter(value.detach(), requires_grad=old.requires_grad)  # of a mapped tensor: a view of its memory


def _equal(a: Tensor, b: Tensor) -> bool:
    if a is b or (a.is_meta and b.is_meta):
        return True
    return a.shape == b.shape and a.device == b.device and torch.equal(a, b)
