"""Moves parameters out of modules and into them: implements `from_module`, `from_modules` and `to_module`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import Parameter, is_lazy

from ...core import KEY_SEPARATOR, Entry, Path, TensorCollection, entries_by_path, join_path
from ...errors import ArgumentError, StructureError, UnsupportedOperationError
from ...ops._mapping import MappingOps
from ...store import LazyStackedTensorDict, TensorDict, TensorDictParams
from ._plan import KEY, swaps_of, uninitialised_error
from ._swap import copy_values, load_state, swap
from ._traced import swap_traced

_is_compiling = torch.compiler.is_compiling


def from_module(module: Any, as_module: bool, lock: bool, use_state_dict: bool, filter_empty: bool) -> Any:
    """See `tensorclass.from_module`."""
    if not isinstance(module, nn.Module):
        raise ArgumentError(f"from_module: give an nn.Module, got {type(module).__name__}: {module!r:.60}")
    if isinstance(module, torch.jit.ScriptModule):
        use_state_dict = True  # it keeps its tensors in C++, not in dicts
    found = nest_state_dict(module.state_dict()) if use_state_dict else _collect(module, (), filter_empty)
    if as_module:
        return TensorDictParams(found, no_convert=True)
    return found.lock_() if lock else found


def _collect(module: nn.Module, path: Path, filter_empty: bool) -> TensorDict:
    """The parameters and buffers of a module and its submodules."""
    if isinstance(module, TensorDictParams):
        tensors: TensorDict = module._store.filter_non_tensor_data()
        return tensors
    entries: dict[str, Any] = {}
    for name, value in [*module._parameters.items(), *module._buffers.items()]:
        if value is not None:
            if is_lazy(value):
                raise uninitialised_error((*path, name))
            entries[name] = value
    for name, child in module._modules.items():
        if child is not None:
            below = _collect(child, (*path, name), filter_empty)
            if below._live() or not filter_empty:
                entries[name] = below
    return TensorDict._from_entries(entries, torch.Size(), None, None)


def nest_state_dict(state: dict[str, Any]) -> TensorDict:
    """A state dict as a container: dots in its keys separate the levels."""
    result = TensorDict()
    for key, value in state.items():
        if isinstance(value, Tensor) and is_lazy(value):
            raise uninitialised_error((key,))
        MappingOps.set(result, tuple(key.split(KEY_SEPARATOR)), value)
    return result


def as_state_dict(params: Any) -> dict[str, Any]:
    """A container as a state dict."""
    return {
        join_path(path): value._read_value() if isinstance(value, Entry) else value
        for path, value in entries_by_path(params).items()
    }


def _as_parameter_memory(value: Any) -> Any:
    """A tensor that can be a parameter: of a mapped tensor, a view of its memory."""
    kept = not isinstance(value, Tensor) or value.requires_grad or type(value) in (Tensor, Parameter)
    return value if kept else value.detach()


# ---- several modules -----------------------------------------------------------------------------------------------


def from_modules(
    modules: Sequence[nn.Module],
    as_module: bool,
    lock: bool,
    use_state_dict: bool,
    lazy_stack: bool,
    expand_identical: bool,
) -> Any:
    """See `tensorclass.from_modules`."""
    if not modules:
        raise StructureError("from_modules: give at least one module")
    if isinstance(modules[0], (list, tuple)):
        raise ArgumentError("from_modules: give each module as an argument: `from_modules(*modules)`")
    if lazy_stack and as_module:
        raise StructureError(
            "from_modules: a lazy stack can't be held by a module, since its parameters belong to others already; "
            "leave out lazy_stack or as_module"
        )
    if use_state_dict:
        members = [nest_state_dict(module.state_dict(keep_vars=as_module)) for module in modules]
    else:
        members = [from_module(module, False, False, False, True) for module in modules]
    if lazy_stack:
        stack = LazyStackedTensorDict(*members)
        return stack.lock_() if lock else stack
    result = _stacked(members, (), expand_identical, {})
    if as_module:
        return TensorDictParams(result, no_convert=True)
    return result.lock_() if lock else result


def _stacked(members: Sequence[TensorCollection], path: Path, expand: bool, made: dict[Any, Tensor]) -> TensorDict:
    """Stack several containers. Parameters that are tied in all modules become one stacked parameter."""
    first, *others = [member._entries() for member in members]
    for number, other in enumerate(others, 1):
        differs = sorted(first.keys() ^ other.keys())
        if differs:
            raise StructureError(
                f"from_modules: one of modules 0 and {number} has `{join_path((*path, differs[0]))}`, the other has "
                "not; a dense stack needs the same structure in all, lazy_stack=True takes modules that differ"
            )
    entries: dict[str, Any] = {}
    for key, value in first.items():
        values = [value, *[other[key] for other in others]]
        if isinstance(value, TensorCollection):
            entries[key] = _stacked(values, (*path, key), expand, made)
            continue
        same = tuple(map(id, values))
        if isinstance(value, Tensor) and same not in made:
            made[same] = _stack_tensors(values, (*path, key), expand)
        entries[key] = made.get(same, value)
    size = torch.Size([len(members), *members[0]._batch_size])
    return TensorDict._from_entries(entries, size, None, None)


def _stack_tensors(values: list[Tensor], path: Path, expand: bool) -> Tensor:
    """Stack parameters into a new parameter, and buffers into a buffer."""
    first = values[0]
    for number, value in enumerate(values):
        if value.shape != first.shape or value.dtype != first.dtype:
            raise StructureError(
                f"from_modules: `{join_path(path)}` is {first.dtype} {list(first.shape)} in module 0, {value.dtype} "
                f"{list(value.shape)} in module {number}; lazy_stack=True takes modules that differ"
            )
    if expand and all([value is first for value in values]):
        return first.expand(len(values), *first.shape)
    stack = torch.stack([value.detach() for value in values])
    if not isinstance(first, Parameter):
        return stack
    return Parameter(stack, requires_grad=any([value.requires_grad for value in values]))


# ---- into a module -------------------------------------------------------------------------------------------------


def to_module(
    params: Any,
    module: Any,
    inplace: bool | None,
    return_swap: bool,
    swap_dest: Any,
    use_state_dict: bool,
    non_blocking: bool,
    preserve: bool,
) -> Any:
    """See `TensorDict.to_module`."""
    if _is_compiling():
        if inplace or use_state_dict or swap_dest is not None:
            raise UnsupportedOperationError(
                "to_module: under torch.compile tensors are swapped, not copied or loaded: leave out `inplace`, "
                "`use_state_dict` and `swap_dest`"
            )
        return swap_traced(params, module)
    swaps = getattr(module, "__dict__", {}).get(KEY)
    if swaps is None or swaps.owner() is not module:
        swaps = swaps_of(module)
    if inplace and use_state_dict:
        raise StructureError("to_module: `inplace` and `use_state_dict` exclude each other")
    if inplace:
        found = copy_values(swaps, module, params, non_blocking)
    elif use_state_dict:
        found = load_state(
            swaps, module, {name: _as_parameter_memory(value) for name, value in as_state_dict(params).items()}
        )
    else:
        found = swap(swaps, module, params, preserve)
    if swap_dest is not None:
        return found.moved_to(swap_dest)
    return found if return_swap else None
