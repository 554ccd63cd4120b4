"""Whole-object equality: one bool, found without building a result, with an early exit."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core import TensorCollection


def equal(a: Any, b: Any) -> bool:
    """Whether two containers hold the same: class, batch size, keys, dtypes, shapes and every element.

    Unlike `a == b`, which compares element by element, this gives one bool and stops at the first difference. As with
    `torch.equal`, nan differs from nan.

    >>> import torch
    >>> from tensorclass import TensorDict, equal
    >>> data = TensorDict(a=torch.zeros(3), batch_size=[3])
    >>> equal(data, data.clone()), equal(data, data + 1)
    (True, False)
    """
    if not isinstance(a, TensorCollection) or not isinstance(b, TensorCollection):
        return bool(torch.equal(a, b)) if isinstance(a, Tensor) and isinstance(b, Tensor) else False
    if type(a) is not type(b) or a._batch_size != b._batch_size:
        return False
    if a._stacked or b._stacked:
        return _equal_stacks(a, b)
    mine, theirs = a._live().copy(), b._live().copy()  # other threads may write meanwhile
    if mine.keys() != theirs.keys():
        return False
    for key, value in mine.items():
        other = theirs[key]
        if type(value) is Tensor and type(other) is Tensor:
            if not torch.equal(value, other) or value.dtype is not other.dtype:
                return False
        elif not _same(value, other):
            return False
    return True


def _equal_stacks(a: Any, b: Any) -> bool:
    """Member by member where both are stacks of as many; else one of them holds no stack of different shapes."""
    mine, theirs = a._parts(), b._parts()
    if len(mine) == len(theirs):
        return all([equal(x, y) for x, y in zip(mine, theirs, strict=True)])
    return equal(a._unstacked(), b._unstacked())


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, Tensor) and isinstance(other, Tensor):
        return value.dtype is other.dtype and torch.equal(value, other)
    if isinstance(value, TensorCollection):
        return equal(value, other)
    if type(value) is not type(other):
        return False
    if hasattr(type(value), "_same_node"):
        return bool(value._same_node(other))  # pyright: ignore[reportAttributeAccessIssue]  # hasattr says so
    return same_object(value, other)


def same_object(a: Any, b: Any) -> bool:
    """Whether two Python objects are the same or equal; arrays and tensors as a whole."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Tensor):
        return a.shape == b.shape and a.dtype is b.dtype and bool((a == b).all())
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b))
    return bool(a == b)
