"""Equality of whole objects: returns one bool, with an early exit."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from ..core import Entry, TensorCollection, TensorEntry, store_of, without_stack

Test = Callable[[Tensor, Tensor], bool]


def equal(a: Any, b: Any) -> bool:
    """Whether two containers are equal: class, batch size, keys, dtypes, shapes and every element.

    Unlike `a == b`, which compares element by element, this returns one bool and stops at the first difference. As with
    `torch.equal`, nan differs from nan in tensors. Python objects are compared by content, where nan equals nan.

    >>> import torch
    >>> from tensorclass import TensorDict, equal
    >>> data = TensorDict(a=torch.zeros(3), batch_size=[3])
    >>> equal(data, data.clone()), equal(data, data + 1)
    (True, False)
    """
    if not isinstance(a, TensorCollection) or not isinstance(b, TensorCollection):
        return bool(torch.equal(a, b)) if isinstance(a, Tensor) and isinstance(b, Tensor) else False
    return _containers(a, b, torch.equal)


def _containers(a: Any, b: Any, test: Test) -> bool:
    """Whether two containers are of one class and size and have equal entries."""
    mine, theirs = store_of(a), store_of(b)  # whose slots are read faster
    if type(a) is not type(b) or mine._batch_size != theirs._batch_size:
        return False
    if mine._stacked or theirs._stacked:
        return _stacks(a, b, test)
    mine, theirs = a._live().copy(), b._live().copy()  # copies: other threads may write to them
    if mine.keys() != theirs.keys():
        return False
    declared = a._layered and a.__tensorclass__.rigid  # the dtypes are those of the class
    for key, value in mine.items():
        other = theirs[key]
        if type(value) is Tensor and type(other) is Tensor:
            if not (declared or value.dtype is other.dtype) or not test(value, other):
                return False
        elif not _entries(value, other, test):
            return False
    return True


def _stacks(a: Any, b: Any, test: Test) -> bool:
    """Compare member by member if both are stacks of the same length; else by their dense forms."""
    mine, theirs = a._parts(), b._parts()
    if len(mine) == len(theirs):
        return all([_containers(x, y, test) for x, y in zip(mine, theirs, strict=True)])
    return _containers(without_stack(a), without_stack(b), test)


def _entries(value: Any, other: Any, test: Test) -> bool:
    if isinstance(value, Tensor) and isinstance(other, Tensor):
        return value.dtype is other.dtype and test(value, other)
    if type(value) is not type(other):
        return False
    if isinstance(value, TensorCollection):
        return _containers(value, other, test)
    if isinstance(value, Entry):
        return bool(value._same_node(other, test))
    return same_object(value, other)


# ---- Python objects --------------------------------------------------------------------------------------------------

ATOMS: Final = frozenset({str, int, bool, bytes, type(None)})


def same_object(a: Any, b: Any) -> bool:
    """Whether two Python objects are identical or equal; used by every comparison of two values.

    Tensors, arrays, containers and tables are compared as a whole; dicts, lists and tuples item by item. nan equals
    nan. Objects of different classes differ, and so do objects that can't be compared.
    """
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) in ATOMS:
        return bool(a == b)
    if isinstance(a, TensorCollection):
        return _containers(a, b, same_tensor)
    if isinstance(a, Tensor):
        return same_tensor(a, b)
    if isinstance(a, (float, complex, np.number)):
        return bool(a == b) or (a != a and b != b)
    if isinstance(a, np.ndarray):
        return _same_array(a, b)
    if isinstance(a, Entry):
        return bool(a._same_node(b, same_tensor))
    parts, others = _parts(a), _parts(b)
    if parts is not None and others is not None:
        return parts.keys() == others.keys() and all([same_object(parts[key], others[key]) for key in parts])
    return _answer_of_equality(a, b)


def same_atom(a: Any, b: Any) -> bool:
    """Whether two entries are the same Python object, or equal objects of a class that is fast to compare."""
    if type(a) in ATOMS:
        return type(b) is type(a) and bool(a == b)
    return a is b and not isinstance(a, Tensor) and not isinstance(a, TensorEntry)


def same_tensor(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are equal; unlike in arithmetic, nan equals nan."""
    if a is b:
        return True
    if a.is_nested or b.is_nested:
        return a.is_nested and b.is_nested and _same_nested(a, b)
    if a.shape != b.shape or a.dtype is not b.dtype or a.device != b.device or a.is_meta:
        return False
    if a.layout is not torch.strided or b.layout is not torch.strided:
        return a.layout is b.layout and all(map(same_tensor, _stored_parts(a), _stored_parts(b)))
    if a.is_quantized:
        return torch.equal(a, b)
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


def _stored_parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """The stored parts of a tensor that is not strided: the indices of its values, and the values."""
    if tensor.layout is torch._mkldnn:  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # torch's stubs leave it out
        return (tensor.to_dense(),)
    sparse = tensor.to_sparse().coalesce()
    return sparse.indices(), sparse.values()


def _same_nested(a: Tensor, b: Tensor) -> bool:
    mine, theirs = a.unbind(), b.unbind()
    return len(mine) == len(theirs) and all([same_tensor(x, y) for x, y in zip(mine, theirs, strict=True)])


def _same_array(a: Any, b: Any) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if isinstance(a, np.ma.MaskedArray):  # masked values are ignored
        return np.array_equal(np.ma.getmaskarray(a), np.ma.getmaskarray(b)) and _same_array(
            a.compressed(), b.compressed()
        )
    if a.dtype.hasobject and a.dtype.names is None:
        return all([same_object(x, y) for x, y in zip(a.flat, b.flat, strict=True)])
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fcmM"))


def _parts(value: Any) -> dict[Any, Any] | None:
    """The items of a collection, by key or position; None for any other object."""
    if isinstance(value, Mapping):
        return dict(value)
    return dict(enumerate(value)) if isinstance(value, (list, tuple, deque)) else None


def _answer_of_equality(a: Any, b: Any) -> bool:
    """The result of `==`; if there is none, that of `equals` for tables; else whether the attributes are equal."""
    answer = _ask_for_bool(lambda: a == b)
    if not isinstance(answer, bool) and callable(getattr(a, "equals", None)):
        answer = _ask_for_bool(lambda: a.equals(b))
    if answer is None:
        mine, theirs = _attributes(a), _attributes(b)
        return bool(mine) and same_object(mine, theirs)
    return answer


def _ask_for_bool(question: Callable[[], Any]) -> bool | None:
    """The answer as one bool; None if there is none."""
    try:
        return bool(np.all(question()))
    except Exception:  # a foreign `==` may raise anything
        return None


def _attributes(value: Any) -> dict[str, Any] | None:
    found: dict[str, Any] | None = getattr(value, "__dict__", None)
    if not found and dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    return found


def is_object(value: Any) -> bool:
    """Whether an entry is a Python object, or a stack of one object per element."""
    if isinstance(value, (Tensor, TensorCollection)):
        return False
    return value._holds_object if isinstance(value, Entry) else True
