"""The Python objects of two containers in an operation: compared, kept if equal, or refused."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch import Tensor

from ..core import ABSENT, VALUES, Entry, Path, TensorCollection, TensorEntry, join_path, store_of, without_stack
from ..errors import StructureError
from ._compare import is_object, same_object
from ._operands import different_entries

ORDERS: Final = frozenset({"lt", "le", "gt", "ge"})
EXCLUSIVE: Final = ("bitwise_xor", "logical_xor")
"""Operations that change a bool or an integer that both sides have."""
COMBINED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "logical_and": lambda a, b: bool(a and b),
    "logical_or": lambda a, b: bool(a or b),
    "logical_xor": lambda a, b: bool(a) != bool(b),
}


class Objects:
    """Combines the Python objects of two containers in an operation; so far, the result has the left ones.

    `==` and `!=` give a bool for each element, as for tensors. Objects have no order: `<` and the like keep the left
    ones. Bitwise and logical operations keep objects that are equal (exclusive ones combine them too, where they are
    bools or integers), combine bools and integers that differ, and refuse the rest. `left` and `right` collect the
    paths that only one side has.
    """

    def __init__(self, op: str) -> None:
        self.op = op
        self.left: list[Path] = []
        self.right: list[Path] = []

    def meet(self, mine: Any, theirs: Any, path: Path = ()) -> None:
        """Walk two containers. The first is the result, which has no other reference."""
        while mine._layered:
            mine = mine._store
        while theirs._layered:
            theirs = theirs._store
        if mine._stacked:
            for i, (member, other) in enumerate(zip(mine._members, _counterparts(mine, theirs), strict=True)):
                self.meet(member, other, (*path, f"[{i}]"))
            return
        theirs = without_stack(theirs)
        entries, others = mine._entries(), theirs._live().copy()
        self.right += [(*path, key) for key, value in others.items() if is_object(value) and key not in entries]
        for key, value in entries.items():
            other = others.get(key, ABSENT)
            if isinstance(value, TensorCollection) and isinstance(other, TensorCollection):
                self.meet(value, other, (*path, key))
            elif is_object(value) and is_object(other) and other is not ABSENT:
                if self.op not in ORDERS:
                    entries[key] = self._raise_if_met(
                        where_same(value, other, mine, theirs), value, other, (*path, key)
                    )
            elif is_object(value):
                self.left.append((*path, key))
        mine._put_all(entries)  # a twin without other references

    def _raise_if_met(self, same: Tensor, mine: Any, theirs: Any, path: Path) -> Any:
        """The Python object of the result: both sides are equal, or integers; anything else is an error."""
        if self.op in ("eq", "ne"):
            return same if self.op == "eq" else ~same
        if self.op not in EXCLUSIVE and bool(same.all()):
            return mine
        left, right = shared_object(mine), shared_object(theirs)
        if isinstance(left, int) and isinstance(right, int):
            return COMBINED[self.op](left, right)
        tables = [side.tolist() for side in (left, right) if isinstance(side, TensorEntry)]
        if len(tables) == 2 and left.shape == right.shape and _are_integers(tables):  # pyright: ignore[reportAttributeAccessIssue]  # an entry with a shape
            return type(left).of(_combine_lists(COMBINED[self.op], *tables), left.shape)  # pyright: ignore[reportAttributeAccessIssue]  # a stack of objects
        if bool(same.all()):
            return mine
        raise StructureError(
            f"{self.op}: `{join_path(path)}` holds Python objects, which the operation does not combine, and they "
            f"differ: {left!r:.60} on the left, {right!r:.60} on the right; leave them out with "
            "`filter_non_tensor_data()`"
        )


def _are_integers(values: Any) -> bool:
    """Whether nested lists hold only integers and bools."""
    return all([_are_integers(part) for part in values]) if isinstance(values, list) else isinstance(values, int)


def _combine_lists(combine: Any, left: Any, right: Any) -> Any:
    """Combine nested lists of one shape element by element."""
    if not isinstance(left, list):
        return combine(left, right)
    return [_combine_lists(combine, a, b) for a, b in zip(left, right, strict=True)]


def meet_objects(self: Any, result: Any, other: Any, op: str, filled: bool) -> None:
    """Combine the Python objects of two containers in the result of an operation.

    Raises:
        StructureError: for objects that only one side has, unless `filled`; names them.
    """
    objects = Objects(op)
    objects.meet(result, other)
    if (objects.left or objects.right) and not filled:
        raise different_entries(self, other, op, objects.left, objects.right, objects.left)


def answer(result: Any, same: bool) -> None:
    """Set the outcome of a comparison for objects that are equal on both sides."""
    store = store_of(result)
    if store._stacked:
        for member in store._members:
            answer(member, same)
        return
    entries = store._live()  # a twin without other references
    for key, value in entries.items():
        if type(value) is Tensor:
            continue
        if isinstance(value, TensorCollection):
            answer(value, same) if not value._plain else None
        elif is_object(value):
            entries[key] = torch.full(store._batch_size, same, dtype=torch.bool, device=_device(store))


def _counterparts(stack: Any, other: Any) -> Iterator[Any]:
    """The counterpart of each member of a stack."""
    if other._stacked and other.stack_dim == stack.stack_dim and len(other._members) == len(stack._members):
        return iter(other._members)
    return iter(without_stack(other).expand(stack._batch_size).unbind(stack.stack_dim))


def where_same(mine: Any, theirs: Any, holder: Any, other: Any) -> Tensor:
    """For each element of the left entry, whether the objects of two entries are equal."""
    size = holder._batch_size
    mine, theirs = shared_object(mine), shared_object(theirs)
    if isinstance(theirs, TensorEntry) and other._batch_size != size:
        theirs = theirs.expand(*size, *theirs.shape[len(other._batch_size) :])
    if isinstance(mine, TensorEntry):
        same: Any = mine == theirs
    elif isinstance(theirs, TensorEntry):
        same = theirs == mine
    else:
        return torch.full(size, same_object(mine, theirs), dtype=torch.bool, device=_device(holder))
    found: Tensor = same.to(_device(holder))
    return found


def shared_object(value: Any) -> Any:
    """Unwrap an object that all elements share; an entry with one object per element is unchanged."""
    shared = isinstance(value, Entry) and value._holds_object and not isinstance(value, TensorEntry)
    return value._read_value() if shared else value


def _device(container: Any) -> torch.device:
    """The device for bools of a container: its device, else that of its first tensor."""
    if container._device is not None:
        return container._device  # type: ignore[no-any-return]  # a device
    first = next(iter(container._live().values()), None)  # the common case; a list of all leaves takes long
    leaves = [first] if type(first) is Tensor else container._leaves(VALUES)
    return leaves[0].device if leaves else torch.device("cpu")
