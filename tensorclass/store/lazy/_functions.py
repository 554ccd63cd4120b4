"""Functions that make lazy stacks, or dense ones if possible."""

# Operations call each other past the instance: pyright takes what they return for the mixin, mypy for Self as it is.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..._flags import flags
from ...core import Device, Path, TensorCollection, are_objects, as_items, is_typed, store_of
from ...errors import ArgumentError, BatchSizeError, StructureError, defined_again
from ...ops._join import JoinOps
from ...ops._mapping import MappingOps
from ...ops._stacks import LazyOps
from ._stack import LazyStackedTensorDict
from ._tensors import as_nested, as_padded, make_dense, pad_nested


@flags
def lazy_stack(
    input: Sequence[Any],
    dim: int = 0,
    *,
    device: Device = None,
    out: Any = None,
    stack_dim_name: str | None = None,
    strict_shape: bool = False,
    as_list: bool = False,
    as_padded_tensor: bool = False,
    as_nested_tensor: bool = False,
    padding_side: str = "right",
    layout: Any = None,
    padding_value: float = 0.0,
) -> Any:
    """Stack containers without copying: the result keeps them, and stacks an entry when it is read.

    For instances of one typed class, the result is an instance of that class over a lazy stack. Tensors are stacked at
    once.

    Args:
        input: containers with the same number of batch dims; keys, event shapes and sizes may differ. Or tensors.
        dim: the position of the new dim among the batch dims.
        device: move the members to a device.
        out: a container that receives the values.
        stack_dim_name: the name of the new dim.
        strict_shape: refuse different batch sizes.
        as_list: return tensors as a list; this and the next options apply only to tensors.
        as_padded_tensor: pad tensors of different shapes.
        as_nested_tensor: nest tensors of different shapes.
        padding_side: "right" or "left".
        layout: of the nested tensor.
        padding_value: the value of the padding.

    Raises:
        StructureError: for no items, and for items of several classes.

    >>> import torch
    >>> from tensorclass import TensorDict, lazy_stack
    >>> stack = lazy_stack([TensorDict(a=torch.zeros(3), batch_size=[3]), TensorDict(a=torch.ones(4), batch_size=[4])])
    >>> stack.batch_size, stack[1]["a"].shape
    (torch.Size([2, -1]), torch.Size([4]))
    """
    members = as_items(input, "lazy_stack", "a sequence of containers")
    forms = (as_list, as_padded_tensor, as_nested_tensor)
    if not members:
        raise StructureError("lazy_stack takes at least one container, got an empty sequence")
    if all([isinstance(member, Tensor) for member in members]):
        return _tensors(members, dim, forms, padding_side, layout, padding_value)
    if any(forms):
        raise ArgumentError(
            "lazy_stack: as_list, as_padded_tensor and as_nested_tensor are for tensors; give them to `get`"
        )
    if are_objects(members):
        return torch.stack(members, dim)
    members = members if device is None else [member.to(device) for member in members]
    result = _stack_of(members, dim, stack_dim_name, strict_shape)
    return result if out is None else MappingOps.update(out, result, inplace=True)


def _stack_of(members: list[Any], dim: int, name: str | None, strict_shape: bool) -> Any:
    """A lazy stack of members; of one typed class, an instance over the stack."""
    typed = {type(member) for member in members if is_typed(member)}
    if typed and (len(typed) > 1 or not all([type(member) in typed for member in members])):
        first = type(members[0])
        again = next(filter(None, [defined_again(type(member), first) for member in members]), "")
        if again:
            raise StructureError(f"lazy_stack: {again}")
        names = sorted({type(member).__name__ for member in members})
        raise StructureError(
            f"lazy_stack stacks instances of one class, got {', '.join(names)}; make them untyped with `to_tensordict`"
        )
    stores = [member._store for member in members] if typed else members
    stack = LazyStackedTensorDict(*stores, stack_dim=dim, stack_dim_name=name, strict_shape=strict_shape)
    if not typed:
        return stack
    cls: Any = typed.pop()
    return cls._wrap(stack._joined_by(cls))


def _tensors(
    tensors: list[Tensor], dim: int, forms: tuple[bool, bool, bool], side: str, layout: Any, value: float
) -> Any:
    if sum(forms) > 1:
        raise ArgumentError("lazy_stack: give one of as_list, as_padded_tensor and as_nested_tensor")
    if forms[0]:
        return tensors
    if forms[1]:
        return as_padded(tensors, dim, side, value, "tensors")
    return as_nested(tensors, layout, "tensors") if forms[2] else torch.stack(tensors, dim)


@flags
def maybe_dense_stack(input: Sequence[Any], dim: int = 0, out: Any = None, strict: bool = False) -> Any:
    """Stack densely if keys and shapes agree, else lazily.

    Args:
        input: containers with the same number of batch dims.
        dim: the position of the new dim.
        out: a container that receives the values.
        strict: with `out`, require the same keys.

    >>> import torch
    >>> from tensorclass import TensorDict, maybe_dense_stack
    >>> type(maybe_dense_stack([TensorDict(a=torch.zeros(2)), TensorDict(a=torch.ones(2))])).__name__
    'TensorDict'
    >>> type(maybe_dense_stack([TensorDict(a=torch.zeros(2)), TensorDict(a=torch.ones(3))])).__name__
    'LazyStackedTensorDict'
    """
    members = as_items(input, "maybe_dense_stack", "a sequence of containers")
    if out is not None:
        result = maybe_dense_stack(members, dim)
        return out.copy_(result) if strict else MappingOps.update(out, result, inplace=True)
    try:
        return JoinOps.stack(members, dim)
    except (StructureError, BatchSizeError):
        return lazy_stack(members, dim)


def dense_stack_tds(td_list: Any, dim: int | None = None) -> Any:
    """Stack the members of a lazy stack, or a list of containers, densely if possible.

    Args:
        td_list: a lazy stack, or containers; a dense container is returned unchanged.
        dim: the position of the new dim; required for a list.

    Raises:
        ValueError: for a list without `dim`.

    >>> import torch
    >>> from tensorclass import TensorDict, dense_stack_tds, lazy_stack
    >>> type(dense_stack_tds(lazy_stack([TensorDict(a=torch.zeros(3)), TensorDict(a=torch.ones(3))]))).__name__
    'TensorDict'
    """
    if isinstance(td_list, TensorCollection):
        if not td_list._stacked:
            return td_list
        store: Any = store_of(td_list)
        dense = maybe_dense_stack(store._members, store.stack_dim)
        if dense._stacked:
            return td_list
        if td_list._layered:
            return td_list._wrap(dense)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a class over a store
        return dense
    if dim is None:
        raise ArgumentError("dense_stack_tds: give `dim` with a list of containers, got None")
    return maybe_dense_stack(td_list, dim)


def value_as(collection: Any, path: Path, form: tuple[bool, bool, bool], side: str, layout: Any, value: float) -> Any:
    """An entry as a list, a padded or a nested tensor: from the members of a lazy stack, else from the rows."""
    if sum(form) > 1:
        raise ArgumentError("get: give one of as_list, as_padded_tensor and as_nested_tensor")
    holder = collection._read(path[:-1])
    store = store_of(holder)
    key = ".".join(path)
    if store._stacked:
        values, dim = store._each_value(path[-1:], not form[2]), store.stack_dim
    else:
        values, dim = list(holder._entry(path[-1])), 0
    if form[0]:
        return values
    return as_padded(values, dim, side, value, key) if form[1] else as_nested(values, layout, key)


LazyOps._lazy_stack = staticmethod(lazy_stack)
LazyOps._maybe_dense_stack = staticmethod(maybe_dense_stack)
LazyOps._densified = staticmethod(make_dense)
LazyOps._unnested = staticmethod(pad_nested)
LazyOps._value_as = staticmethod(value_as)
