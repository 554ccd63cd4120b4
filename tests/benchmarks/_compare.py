"""Results of different candidates in one form, so that they can be compared."""

from __future__ import annotations

from typing import Any

import tensordict
import torch
from torch import Tensor

from tensorclass import NonTensorData, NonTensorStack

from ._samples import NESTED


def plain(value: Any) -> Any:
    """Containers as nested dicts without absent fields, sequences as lists, keys as tuples, the rest as it is."""
    if isinstance(value, Tensor | bool | int | None):
        return value
    if isinstance(value, (tensordict.NonTensorData, NonTensorData)):
        value = value.data
    if isinstance(value, (tensordict.NonTensorStack, NonTensorStack)):
        value = value.tolist()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, tuple) and all(isinstance(part, str) for part in value):
        return value
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    found = {k: plain(value.get(k)) for k in value.keys()}  # noqa: SIM118  # iterating a container gives rows
    return {k: v for k, v in found.items() if v is not None}


def joined(outer: Any, inner: Any) -> Any:
    """The two levels of a raw result as one."""
    if isinstance(outer, dict):
        return outer | {NESTED: inner}
    if isinstance(outer, list):
        return [joined(a, b) for a, b in zip(outer, inner, strict=True)]
    return outer and inner


def same(a: Any, b: Any) -> bool:
    """Whether two plain results hold equal tensors in the same places; dicts in any order."""
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype is b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(v, b[k]) for k, v in a.items())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(same(v, w) for v, w in zip(a, b, strict=True))
    return bool(a == b)
