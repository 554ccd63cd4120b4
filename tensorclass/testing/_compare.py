"""Compares two containers field by field: what differs, by how much, and the first place."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._schema._spec import describe_tensor, short
from ..core import TensorCollection, leaves_below
from ..ops._compare import same_object
from ..store import Node, NonTensorStack, RaggedTensor, is_uneven, uneven_pairs

TOLERANCES = {
    torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7), torch.complex32: (1e-3, 1e-5), torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}  # fmt: skip
"""Relative and absolute tolerances, as in `torch.testing.assert_close`; other dtypes are compared exactly."""


class Tolerance(NamedTuple):
    """The tolerances of a comparison; None for the default of the dtype."""

    rtol: float | None = None
    atol: float | None = None
    equal_nan: bool = True
    check_device: bool = True


class EntryDifference(NamedTuple):
    """One field that differs; `place` is the first differing element of the tensor."""

    path: str
    text: str
    place: tuple[int, ...] = ()


def report(actual: Any, expected: Any, tolerance: Tolerance) -> list[str]:
    """A description of the differences of two containers, in lines; empty if they agree."""
    if isinstance(actual, TensorCollection) and isinstance(expected, TensorCollection):
        found = list(_containers(actual, expected, tolerance, ""))
        fields = len({leaf.path for batch in (actual, expected) for leaf in leaves_below(batch)})
        name, batch_dims = type(actual).__name__, min(len(actual.batch_size), len(expected.batch_size))
    else:
        found = list(_values(actual, expected, tolerance, "value"))
        fields, name, batch_dims = 1, type(actual).__name__, 0
    if not found:
        return []
    head = f"{name}: {len(found)} of {max(fields, len(found))} fields differ{'s' if len(found) == 1 else ''}"
    lines = [head, *(f"  {one.path}: {one.text}" for one in found)]
    places = [one.place[:batch_dims] for one in found if batch_dims and len(one.place) >= batch_dims]
    return lines + ([f"  first element that differs: {list(min(places))}"] if places else [])


def _containers(a: Any, b: Any, tolerance: Tolerance, prefix: str) -> Iterator[EntryDifference]:
    """The differences of two containers: class, size and names, then entry by entry."""
    where = prefix.rstrip(".") or "itself"
    for what, mine, theirs in (
        ("class", type(a).__name__, type(b).__name__),
        ("batch size", list(a.batch_size), list(b.batch_size)),
        ("names", a._names, b._names),
    ):
        if mine != theirs:
            yield EntryDifference(where, f"{what} {mine}, expected {theirs}")
    if a.batch_size != b.batch_size:
        return
    for position, (x, y) in enumerate(uneven_pairs(a, b)):
        yield from [one._replace(place=()) for one in _containers(x, y, tolerance, f"{prefix}[{position}].")]
    if is_uneven(a) or is_uneven(b):
        return
    mine, theirs = a._entries(), b._entries()
    for name in {**mine, **theirs}:
        path = f"{prefix}{name}"
        if name not in mine:
            yield EntryDifference(path, f"absent, expected {_describe_value(theirs[name])}")
        elif name not in theirs:
            yield EntryDifference(path, f"{_describe_value(mine[name])}, expected to be absent")
        else:
            yield from _values(mine[name], theirs[name], tolerance, path)


def _describe_value(value: Any) -> str:
    return describe_tensor(value) if isinstance(value, Tensor) else short(value)


def _values(a: Any, b: Any, tolerance: Tolerance, path: str) -> Iterator[EntryDifference]:
    """The differences of two entries of any kind."""
    a, b = (getattr(value, "tensor", value) if isinstance(value, Node) else value for value in (a, b))
    if isinstance(a, TensorCollection) and isinstance(b, TensorCollection):
        yield from _containers(a, b, tolerance, f"{path}.")
    elif isinstance(a, Tensor) and isinstance(b, Tensor):
        yield from _tensors(a, b, tolerance, path)
    elif isinstance(a, RaggedTensor) and isinstance(b, RaggedTensor):
        found = list(_tensors(a.lengths, b.lengths, tolerance, f"{path} (lengths)"))
        yield from found or _tensors(a.pack().values, b.pack().values, tolerance, f"{path} (values)")
    elif isinstance(a, NonTensorStack) and isinstance(b, NonTensorStack):
        yield from _lists(a.tolist(), b.tolist(), path, ())
    elif not same_object(a, b):
        yield EntryDifference(path, f"{_describe_value(a)}, expected {_describe_value(b)}")


def _lists(a: Any, b: Any, path: str, index: tuple[int, ...]) -> Iterator[EntryDifference]:
    """The first difference of nested lists."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        parts = (next(_lists(x, y, path, (*index, i)), None) for i, (x, y) in enumerate(zip(a, b, strict=True)))
        found = next((part for part in parts if part is not None), None)
        yield from [found] if found is not None else []
    elif not same_object(a, b):
        yield EntryDifference(path, f"first at {list(index)}: {short(a)}, expected {short(b)}", index)


def _tensors(a: Tensor, b: Tensor, tolerance: Tolerance, path: str) -> Iterator[EntryDifference]:
    mine, theirs = describe_tensor(a), describe_tensor(b)
    if tolerance.check_device and a.device != b.device:
        mine, theirs = f"{mine} on {a.device}", f"{theirs} on {b.device}"
    if mine != theirs or a.shape != b.shape:
        yield EntryDifference(path, f"{mine}, expected {theirs}")
        return
    a, b = _in_wide_dtype(a), _in_wide_dtype(b)
    wrong = _wrong(a, b, tolerance)
    count = int(wrong.sum())
    if count:
        yield _element(a, b, wrong, f"{mine}, {count} of {a.numel()} elements differ{'s' if count == 1 else ''}", path)


def _in_wide_dtype(value: Tensor) -> Tensor:
    """A tensor on the CPU in a dtype with arithmetic in torch; integers stay exact."""
    value = value.detach().cpu()
    if value.dtype in (torch.uint16, torch.uint32):
        return value.long()
    if value.dtype is torch.uint64:
        return value.view(torch.int64)
    return value.float() if value.is_floating_point() and value.itemsize == 1 else value


def _wrong(a: Tensor, b: Tensor, tolerance: Tolerance) -> Tensor:
    exact = not (a.is_floating_point() or a.is_complex())
    rtol, atol = (0.0, 0.0) if exact else TOLERANCES.get(a.dtype, (0.0, 0.0))
    rtol = rtol if tolerance.rtol is None else tolerance.rtol
    atol = atol if tolerance.atol is None else tolerance.atol
    if exact and not rtol and not atol:
        return a != b
    wide = torch.complex128 if a.is_complex() else torch.float64
    return ~torch.isclose(a.to(wide), b.to(wide), rtol, atol, tolerance.equal_nan)


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _element(a: Tensor, b: Tensor, wrong: Tensor, head: str, path: str) -> EntryDifference:
    """The difference for a tensor: its first wrong element, and the largest error."""
    first = tuple(int(i) for i in wrong.nonzero()[0])
    wide = torch.complex128 if a.is_complex() else torch.float64
    error = (a.to(wide) - b.to(wide)).abs().nan_to_num(math.inf, math.inf, math.inf).masked_fill(~wrong, -1)
    worst = int(error.argmax())
    place = [int(i) for i in torch.unravel_index(torch.tensor(worst), a.shape)]
    size, scale = error.flatten()[worst].item(), b.to(wide).abs().flatten()[worst].item()
    relative = size / scale if scale else math.inf
    text = f"first {list(first)}: {_number(a[first].item())}, expected {_number(b[first].item())}"
    return EntryDifference(path, f"{head}, {text}; largest error {size:.6g} at {place}, relative {relative:.3g}", first)
