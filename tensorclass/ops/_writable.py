"""Checks of in-place writes to a tensor, made for every leaf before the first one is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from ..core import Path, as_jagged_layout, broadcasts_to, join_path, over_events
from ..errors import BatchSizeError, StructureError, UnsupportedOperationError

NUMBERS: Final = (int, float, bool)
MOST_CHECKED: Final = 2**16
"""The most elements of a tensor whose values a write in place looks at; see `require_fit`."""
_WIDE: Final = (torch.float32, torch.float64, torch.int64, torch.int32)
_EXACT: Final = 2**24
interpreters = torch._C._functorch.peek_interpreter_stack  # pyright: ignore[reportAttributeAccessIssue]  # a C module


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
    if problem := reason_of_expansion(leaf):
        return problem
    if not compiling and leaf.is_inference() and not torch.is_inference_mode_enabled():
        return "was made in inference mode: write in inference mode, or into a `clone()`"
    return ""


def reason_of_expansion(leaf: Tensor) -> str:
    """The reason why a write to one element would change others; empty if it would not."""
    if not leaf.is_contiguous() and any(s == 0 and n > 1 for s, n in zip(leaf.stride(), leaf.shape, strict=True)):
        return "is expanded, so several elements share memory: write into a `clone()`"
    return ""


def misshapen(row: Sequence[Any]) -> str:
    """The reason why the result would not have the leaf's shape; empty if it has."""
    shape = row[0].shape
    for other in row[1:]:
        if isinstance(other, Tensor) and other.shape != shape and not broadcasts_to(other.shape, shape):
            return f"has shape {list(shape)}, which an operand of shape {list(other.shape)} does not broadcast to"
    return ""


def same_storage(a: Tensor, b: Tensor) -> bool:
    """Whether two plain tensors share memory; True for tensors without elements."""
    return a.is_meta or not a.numel() or a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def rank(value: object) -> int:
    """The rank of a dtype, of that of a tensor, or of a number in the type promotion of torch.

    The ranks are 0 for bool, 1 for integers, 2 for floating and 3 for complex numbers.
    """
    dtype = value.dtype if isinstance(value, Tensor) else value
    if isinstance(dtype, torch.dtype):
        if dtype.is_complex:
            return 3
        if dtype.is_floating_point:
            return 2
        return int(dtype is not torch.bool)
    if isinstance(value, complex):
        return 3
    if isinstance(value, float):
        return 2
    return int(not isinstance(value, bool))


def overflows(value: Any, dtype: torch.dtype) -> bool:
    """Whether a finite number, or one in nested lists, is out of the range of a floating dtype."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return False
    return _is_beyond(value, torch.finfo(dtype).max)


def _is_beyond(value: Any, most: float) -> bool:
    if isinstance(value, (list, tuple)):
        return any([_is_beyond(item, most) for item in value])
    if isinstance(value, complex):
        return _is_beyond(value.real, most) or _is_beyond(value.imag, most)
    return isinstance(value, (int, float)) and most < abs(value) < _INFINITE


_INFINITE: Final = float("inf")


def fill_exactly(leaf: Tensor, value: Any) -> bool:
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
        raise UnsupportedOperationError(f"in-place write: {_place(path)} {problem}; nothing was written")


def as_source(value: Any, entry: Tensor, path: Path) -> Tensor:
    """A value that is written to a tensor, as a tensor with values that the entry can hold."""
    if isinstance(value, Tensor):
        require_fit(value, entry.dtype, path)
        return value
    if isinstance(value, (bool, int, float, complex)):
        return scalar_like(value, entry, path)
    try:
        source = torch.as_tensor(value, dtype=_widest(value, entry), device=entry.device)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise StructureError(
            f"in-place write: `{join_path(path)}` is a tensor of {entry.dtype}, got a {type(value).__name__}: "
            f"{value!r:.60}"
        ) from error
    require_fit(source, entry.dtype, path, most=source.numel())
    return source


def _widest(value: object, entry: Tensor) -> torch.dtype | None:
    """The dtype in which Python numbers are read, so that none is rounded before it is compared with the entry."""
    if not isinstance(value, (list, tuple)) or rank(entry) < 2:
        return None
    return torch.complex128 if entry.is_complex() else torch.float64


def require_fit(source: Tensor, dtype: torch.dtype, path: Path = (), most: int = MOST_CHECKED) -> None:
    """Refuse a tensor that can't be written in place to a tensor of a dtype. All writes in place follow this rule.

    The source must be of the same kind or a lower one: bool, integer, floating, complex. If the range of its dtype is
    wider, its values are compared with the range of the dtype: for sources on the CPU with at most `most` elements.
    Larger ones, and those on other devices, would take time; they are converted as torch does. Floating values may be
    rounded.
    """
    if source.dtype is dtype:
        return
    if rank(source) > rank(dtype):
        raise StructureError(
            f"in-place write: {_place(path)} holds {dtype}, got {source.dtype}, which it can't hold without loss; "
            f"convert the value with `.to({dtype})`"
        )
    low, high = _range(dtype)
    least, greatest = _range(source.dtype)
    if (low <= least and greatest <= high) or not (source.numel() <= most and is_readable(source)):
        return
    outside = [value for value in _extremes(source) if not low <= value <= high]
    if outside:
        raise StructureError(
            f"in-place write: {_place(path)} holds {dtype}, from {low} to {high}, got {outside[0]} in a tensor of "
            f"{source.dtype}; limit the values with `.clamp({low}, {high})`, or set a tensor of a wider dtype"
        )


def _place(path: Path) -> str:
    return f"`{join_path(path)}`" if path else "a leaf"


def _range(dtype: torch.dtype) -> tuple[float, float]:
    """The least and the greatest finite value of a dtype; any value for dtypes that torch gives no range."""
    if dtype is torch.bool:
        return 0, 1
    try:
        info = torch.finfo(dtype) if dtype.is_floating_point or dtype.is_complex else torch.iinfo(dtype)
    except TypeError:
        return -_INFINITE, _INFINITE
    return info.min, info.max


def is_readable(source: Tensor) -> bool:
    """Whether the values of a tensor can be read at once: on the CPU, neither traced nor fake nor inside vmap."""
    if is_dynamo_compiling() or not source.is_cpu or torch._C._len_torch_dispatch_stack() or interpreters() is not None:
        return False
    if type(source) is not Tensor and type(source).__torch_dispatch__ is not Tensor.__torch_dispatch__:  # pyright: ignore[reportAttributeAccessIssue]  # torch's stubs take it for a method
        return False
    return source.layout is torch.strided and not source.is_nested


def _extremes(source: Tensor) -> list[float]:
    """The least and the greatest finite value of a tensor, exactly; of a complex one, of both parts."""
    if not source.numel():
        return []
    if rank(source) < 2:
        values = source.numpy(force=True)
        return [int(values.min()), int(values.max())]
    parts = torch.view_as_real(source.detach().resolve_conj()) if source.is_complex() else source.detach()
    wide = parts.to(torch.float64)
    finite = wide[wide.isfinite()]
    return [finite.min().item(), finite.max().item()] if finite.numel() else []


def scalar_like(value: Any, leaf: Tensor, path: Path = ()) -> Tensor:
    """A number as a 0-d tensor of the leaf's dtype; raises if the leaf can't hold it."""
    exact = int(value) if isinstance(value, float) and leaf.dtype is torch.uint64 and value.is_integer() else value
    try:
        number = torch.tensor(exact, dtype=leaf.dtype, device="cpu")  # compared here: nothing waits for another device
    except (RuntimeError, OverflowError, TypeError, ValueError):  # too large, or complex for a real leaf
        number = None
    lossy = number is None or ((rank(value) > rank(leaf) or rank(leaf) < 2) and number.item() != value)
    if number is None or lossy or overflows(value, leaf.dtype):
        raise StructureError(
            f"in-place write: {_place(path)} holds {leaf.dtype}, which can't hold {value!r:.80} without loss"
        )
    on_cpu = leaf.device.type == "cpu"
    return number if on_cpu else torch.full((), exact, dtype=leaf.dtype, device=leaf.device)  # filled there, not copied


def spread(source: Tensor, size: torch.Size, event: torch.Size, source_dims: int | None, path: Path) -> Tensor:
    """Expand a source tensor over the batch dims of its destination, never over its event dims."""
    target = size + event
    if source.is_nested:
        source = as_jagged_layout(join_path(path), source)
    shape = source.shape
    if shape == target:
        return source
    dims = len(shape) - len(event) if source_dims is None else source_dims
    if source.ndim and (shape[max(dims, 0) :] != event or dims < 0 or not broadcasts_to(shape[:dims], size)):
        raise BatchSizeError(
            f"in-place write: `{join_path(path)}` takes shape {list(target)} (batch {list(size)}, event "
            f"{list(event)}), got {list(shape)}; a value broadcasts over batch dims, never over event dims"
        )
    return source.expand(target)


def as_mask(mask: Tensor, size: torch.Size) -> Tensor:
    """Reshape a mask over leading batch dims, with size one for the other batch dims."""
    if mask.dtype is not torch.bool or mask.shape != size[: mask.ndim] or -1 in size[: mask.ndim]:
        raise BatchSizeError(
            f"a mask is a bool tensor over leading batch dims of {list(size)}, got dtype {mask.dtype} and shape "
            f"{list(mask.shape)}"
        )
    return over_events(mask, len(size) - mask.ndim)


def tracks_integers(leaves: list[Tensor]) -> bool:
    """Whether autograd tracks some leaves and can't track others: foreach kernels refuse the mixture."""
    tracked = torch.is_grad_enabled() and any([leaf.requires_grad for leaf in leaves])
    return tracked and not all(map(takes_gradients, leaves))


def takes_gradients(leaf: Tensor) -> bool:
    """Whether the dtype is floating or complex, so that autograd can track it."""
    return leaf.is_floating_point() or leaf.is_complex()
