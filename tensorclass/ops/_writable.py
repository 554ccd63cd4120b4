"""Checks of in-place writes to a tensor, made for every leaf before the first one is written."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from ..core import Path, join_path
from ..errors import StructureError, UnsupportedOperationError

NUMBERS: Final = (int, float, bool)
_WIDE: Final = (torch.float32, torch.float64, torch.int64, torch.int32)
_EXACT: Final = 2**24


def unwritable(leaf: Tensor, tracked: bool) -> str:
    """The reason why torch can't write this tensor in place; empty if it can."""
    if tracked and leaf.requires_grad and leaf.is_leaf:
        return "requires grad and is an autograd leaf: write under `torch.no_grad()`, or detach it"
    compiling = torch.compiler.is_compiling()  # views and inference tensors can't be traced
    if tracked and not compiling and leaf._is_view():
        base = leaf._base
        if base is not None and base.requires_grad and (base.is_leaf or not leaf.requires_grad):
            return "is a view of a tensor that requires grad: write under `torch.no_grad()`, or into a `clone()`"
        if leaf.grad_fn is not None and leaf.grad_fn.name().startswith(("Unbind", "Split")):
            return "is one of several views of one tensor under autograd: write into a `clone()`"
    if problem := expanded(leaf):
        return problem
    if not compiling and leaf.is_inference() and not torch.is_inference_mode_enabled():
        return "was made in inference mode: write in inference mode, or into a `clone()`"
    return ""


def expanded(leaf: Tensor) -> str:
    """The reason why a write to one element would change others; empty if it would not."""
    if not leaf.is_contiguous() and any(s == 0 and n > 1 for s, n in zip(leaf.stride(), leaf.shape, strict=True)):
        return "is expanded, so several elements share memory: write into a `clone()`"
    return ""


def same_storage(a: Tensor, b: Tensor) -> bool:
    """Whether two plain tensors share memory; True for tensors without elements."""
    return a.is_meta or not a.numel() or a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def rank(value: object) -> int:
    """The rank of a dtype or number in the type promotion of torch: bool, integer, floating, complex."""
    if isinstance(value, Tensor):
        return 3 if value.is_complex() else 2 if value.is_floating_point() else int(value.dtype is not torch.bool)
    return 3 if isinstance(value, complex) else 2 if isinstance(value, float) else int(not isinstance(value, bool))


def overflows(value: Any, dtype: torch.dtype) -> bool:
    """Whether a finite number, or one in nested lists, is out of the range of a floating dtype."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return False
    return _beyond(value, torch.finfo(dtype).max)


def _beyond(value: Any, most: float) -> bool:
    if isinstance(value, (list, tuple)):
        return any([_beyond(item, most) for item in value])
    if isinstance(value, complex):
        return _beyond(value.real, most) or _beyond(value.imag, most)
    return isinstance(value, (int, float)) and most < abs(value) < _INFINITE


_INFINITE: Final = float("inf")


def filled(leaf: Tensor, value: Any) -> bool:
    """Fill a tensor that can hold a number exactly; if in doubt, or if torch refuses, write nothing, return False."""
    try:
        return _fits(leaf, value) and leaf.fill_(value) is leaf
    except RuntimeError:
        return False


def _fits(leaf: Tensor, value: Any) -> bool:
    """Whether a tensor is contiguous and can hold a number exactly; False if in doubt."""
    dtype, kind = leaf.dtype, type(value)
    if kind not in NUMBERS or not -_EXACT < value < _EXACT or dtype not in _WIDE or not leaf.is_contiguous():
        return False
    return kind is not float or dtype.is_floating_point


def takes(leaf: Tensor, value: Any) -> bool:
    """Whether a tensor is surely writable and can hold a number exactly; False if in doubt."""
    if not _fits(leaf, value) or leaf.requires_grad:
        return False
    if is_dynamo_compiling():
        return True
    return not leaf.is_inference() and not (leaf._is_view() and leaf._base is not None and leaf._base.requires_grad)


def require_writable(leaf: Tensor, path: Path) -> None:
    """Refuse a tensor that torch can't write in place, before any other leaf is written."""
    problem = unwritable(leaf, torch.is_grad_enabled())
    if problem:
        where = f"`{join_path(path)}`" if path else "a leaf"
        raise UnsupportedOperationError(f"in-place write: {where} {problem}; nothing was written")


def as_source(value: Any, entry: Tensor, path: Path) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (bool, int, float, complex)):
        return scalar_like(value, entry, path)
    try:
        source = torch.as_tensor(value, device=entry.device)
        if isinstance(value, (list, tuple)) and overflows(value, entry.dtype):
            raise StructureError(
                f"in-place write: `{join_path(path)}` holds {entry.dtype}, which can't hold {value!r:.80} without loss"
            )
        return source
    except (TypeError, ValueError, RuntimeError) as error:
        raise StructureError(
            f"in-place write: `{join_path(path)}` is a tensor of {entry.dtype}, got a {type(value).__name__}: "
            f"{value!r:.60}"
        ) from error


def scalar_like(value: Any, leaf: Tensor, path: Path = ()) -> Tensor:
    """A number as a 0-d tensor of the leaf's dtype; raises if the leaf can't hold it."""
    exact = int(value) if isinstance(value, float) and leaf.dtype is torch.uint64 and value.is_integer() else value
    try:
        number = torch.tensor(exact, dtype=leaf.dtype, device=leaf.device)
    except (RuntimeError, OverflowError, TypeError, ValueError):  # too large, or complex for a real leaf
        number = None
    lossy = number is None or ((rank(value) > rank(leaf) or rank(leaf) < 2) and number.item() != value)
    if number is None or lossy or overflows(value, leaf.dtype):
        where = f"`{join_path(path)}`" if path else "a leaf"
        raise StructureError(f"in-place write: {where} holds {leaf.dtype}, which can't hold {value!r} without loss")
    return number
