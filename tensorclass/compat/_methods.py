"""Private methods of containers and modules that clients call, each over one public method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from .. import TensorCollection, TensorDict, lazy_stack
from ..base import NO_DEFAULT
from ..nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictSequential,
    set_interaction_type,
)
from ._names import use_generator


def _fast_apply(self: Any, function: Any, *others: Any, filter_empty: bool | None = False, **options: Any) -> Any:
    options.pop("checked", None)
    return self.apply(function, *others, filter_empty=filter_empty, **options)


def _apply_nest(self: Any, function: Any, *others: Any, **options: Any) -> Any:
    for name in ("checked", "prefix", "call_on_unbatched"):
        options.pop(name, None)
    return self.apply(function, *others, **options)


def _set_str(self: Any, key: Any, value: Any, *, inplace: bool = False, non_blocking: bool = False, **_: Any) -> Any:
    if inplace is non_blocking is False:
        return self.set(key, value)
    return self.set(key, value, inplace=inplace, non_blocking=non_blocking)


def _get_str(self: Any, key: Any, default: Any = NO_DEFAULT, **options: Any) -> Any:
    found = self.get(key, NO_DEFAULT, **options)
    if found is not NO_DEFAULT:
        return found
    return self[key] if default is NO_DEFAULT else default  # raises, and names the nearest key


def _get_sub_tensordict(self: Any, index: Any) -> Any:
    return self[index]


def _has_names(self: Any) -> bool:
    return any(name is not None for name in self.names)


def _stack_onto(self: Any, items: Sequence[Any], dim: int) -> Any:
    return torch.stack(list(items), dim, out=self)


def _propagate_lock(self: Any, *_: Any, **__: Any) -> Any:
    return self.lock_()


def _propagate_unlock(self: Any, *_: Any, **__: Any) -> Any:
    return self.unlock_()


def _check_unlock(self: Any, *_: Any) -> Any:
    return self.unlock_()


def _has_exclusive_keys(self: Any) -> bool:
    members = getattr(self, "tensordicts", ())
    return len({frozenset(member.keys()) for member in members}) > 1


def _new_unsafe(cls: Any, source: Any = None, batch_size: Any = None, device: Any = None, names: Any = None) -> Any:
    if (
        type(source) is dict
        and device is names is None
        and all([type(value) is torch.Tensor for value in source.values()])
    ):
        return TensorDict._of(dict(source), torch.Size(batch_size or ()), None, None, True)
    return TensorDict({} if source is None else source, batch_size=batch_size, device=device, names=names)


def _new_lazy(cls: Any, /, *members: Any, stack_dim: int = 0, **options: Any) -> Any:
    return cls(*members, stack_dim=stack_dim, **{name: options[name] for name in options if name == "stack_dim_name"})


def _from_tensordict(cls: Any, tensordict: Any, non_tensordict: Any = None, safe: bool = True) -> Any:
    data = tensordict if not non_tensordict else tensordict.copy().update(non_tensordict)
    return cls.from_tensordict(data)


def _dist_sample(self: Any, dist: Any, interaction_type: Any = None, *, generator: Any = None) -> Any:
    with use_generator(generator):
        if interaction_type is None:
            return self.draw_value(dist)
        with set_interaction_type(interaction_type):
            return self.draw_value(dist)


def _resolve_generator(self: Any, tensordict: Any) -> tuple[Any, Any]:
    """The generator of a call, and what to call with it afterwards: a seed in an entry is replaced by a new one."""
    held = self.generator
    value = held if held is None or isinstance(held, torch.Generator) else tensordict.get(held)
    if value is None or isinstance(value, torch.Generator):
        return value, None
    replace = lambda used: tensordict.set(held, torch.randint(2**62, (), generator=used))  # noqa: E731
    return torch.Generator().manual_seed(int(value)), replace


def _compute_in_and_out_keys(self: Any, modules: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    plain = TensorDictSequential(*modules)
    return plain.in_keys, plain.out_keys


CONTAINERS = {
    "_apply_nest": _apply_nest,
    "_check_unlock": _check_unlock,
    "_fast_apply": _fast_apply,
    "_get_str": _get_str,
    "_get_sub_tensordict": _get_sub_tensordict,
    "_has_exclusive_keys": _has_exclusive_keys,
    "_has_names": _has_names,
    "_new_unsafe": classmethod(_new_unsafe),
    "_propagate_lock": _propagate_lock,
    "_propagate_unlock": _propagate_unlock,
    "_set_str": _set_str,
    "_stack_onto_": _stack_onto,
    "_from_tensordict": classmethod(_from_tensordict),
}
"""The methods of containers, by the name that clients call."""


def add_methods() -> None:
    """Add the methods to the classes."""
    for name, method in CONTAINERS.items():
        setattr(TensorCollection, name, method)
    type.__setattr__(type(lazy_stack([TensorDict()])), "_new_unsafe", classmethod(_new_lazy))
    for kind in (ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential):
        kind._dist_sample = _dist_sample  # type: ignore[union-attr]  # a new attribute
    ProbabilisticTensorDictModule._resolve_generator = _resolve_generator  # type: ignore[attr-defined]  # a new attribute
    TensorDictSequential._compute_in_and_out_keys = _compute_in_and_out_keys  # type: ignore[attr-defined]  # a new attribute
