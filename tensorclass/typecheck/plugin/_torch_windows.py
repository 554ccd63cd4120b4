"""What calls of torch make whose sizes follow from a window, from padding, or from two shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from . import _sizes as shapes
from ._call_parts import Call, Known, TensorFacts
from ._promotion import magnitudes, promote_dtypes
from ._sizes import KnownSizes, size_at


def _differences(call: Call) -> Known:
    first, given = call.first(), call.values("n", "dim", "prepend", "append")
    times = call.reader.number(given["n"]) if "n" in given else 1
    dim = call.reader.number(given["dim"]) if "dim" in given else -1
    size = None if dim is None else size_at(first.shape, dim)
    known = size is not None and times is not None and not {"prepend", "append"} & given.keys()
    left = max(size - times, 0) if known else None  # type: ignore[operator]  # as just seen
    return replace(first, shape=None if dim is None else shapes.resized(first.shape, dim, left))


def _windows(call: Call) -> Known:
    """`x.unfold(dim, size, step)`: the windows of a dim, each in a new last dim."""
    first, given = call.first(), call.values("dimension", "size", "step")
    numbers = {name: call.reader.number(value) for name, value in given.items()}
    dim, size = numbers.get("dimension"), numbers.get("size")
    if dim is None or first.shape is None:
        return replace(first, shape=None)
    count = shapes.slid_size(size_at(first.shape, dim), size, numbers.get("step"))
    shape = shapes.resized(first.shape, dim, count)
    added = None if shape is None else replace(shape, dims=(*shape.dims, size), extra=shape.extra + 1)
    return replace(first, shape=added)


def _after_pool(call: Call) -> Known:
    """`max_pool2d(x, 2)` and all other pools: a window slides over the last dims."""
    first, given = call.first(), call.values("kernel_size", "stride", "padding")
    count = int(call.name[-2])
    kernel = call.reader.number(given.get("kernel_size"))
    stride = call.reader.number(given["stride"]) if "stride" in given else kernel
    padding = call.reader.number(given["padding"]) if "padding" in given else 0
    more = len(call.rest()) > 3 or call.named.keys() - {"input", "kernel_size", "stride", "padding"}
    if first.shape is None or "return_indices" in call.named:
        return None if first.shape is not None else TensorFacts(first.dtypes, None)
    shape: KnownSizes | None = first.shape
    for dim in range(-count, 0):
        size = None if more else shapes.slid_size(size_at(first.shape, dim), kernel, stride, padding)
        shape = shapes.resized(shape, dim, size)
    return replace(first, shape=shape)


def _distances(call: Call) -> Known:
    first, other = call.first(), call.get("other")
    second = None if other is None else call.reader.tensor(other)
    turned = None if second is None else shapes.swap_sizes(second.shape, -1, -2)
    return replace(first, shape=shapes.multiply_sizes(first.shape, turned))


def _repeated_facts(call: Call) -> Known:
    first = call.first()
    return replace(first, shape=shapes.shape_after_repeat(first.shape, call.varargs("repeats")))


def _padded_facts(call: Call) -> Known:
    first, given = call.first(), call.values("pad")
    added = call.reader.sizes(given["pad"]) if "pad" in given else None
    return replace(first, shape=shapes.shape_after_pad(first.shape, added))


def _resized_facts(call: Call) -> Known:
    """`interpolate(x, size)` of the dims behind batch and channels."""
    first, given = call.first(), call.values("size", "scale_factor")
    wanted = call.reader.sizes(given["size"]) if "size" in given else None
    rank = None if first.shape is None else first.shape.rank
    one = wanted is not None and len(wanted) == 1 and call.reader.number(given["size"]) is not None
    if first.shape is None or wanted is None or (one and rank is None):
        return replace(first, shape=None)
    sizes = wanted * (rank - 2) if one and rank is not None else wanted
    shape: KnownSizes | None = first.shape
    for dim, size in zip(range(-len(sizes), 0), sizes, strict=True):
        shape = shapes.resized(shape, dim, size)
    return replace(first, shape=shape)


def _outer(call: Call) -> Known:
    first, other = call.first(), call.get("other")
    second = None if other is None else call.reader.tensor(other)
    sizes = [
        one.shape.dims[0] if one is not None and one.shape and one.shape.rank == 1 else None for one in (first, second)
    ]
    dtypes = None if second is None else promote_dtypes(first.dtypes, second.dtypes)
    return TensorFacts(dtypes, KnownSizes(tuple(sizes)))


def _factors(call: Call) -> Known:
    """`linalg.qr(x)` and `linalg.eigh(x)`: of square matrices, a factor has the shape of its matrix."""
    first, shape = call.first(), call.first().shape
    last = (None, None) if shape is None else shape.last(2)
    square = last[0] is not None and last[0] == last[1] and not call.rest() and not call.named
    whole = replace(first, shape=shape if square else None)
    values = TensorFacts(magnitudes(first.dtypes), shapes.remove_dim(shape, -1) if square else None)
    return (values, whole) if call.name == "eigh" else (whole, whole)


MAKERS: Final[dict[str, Callable[[Call], Known]]] = {
    "differences": _differences,
    "windows": _windows,
    "pooled": _after_pool,
    "distances": _distances,
    "repeated": _repeated_facts,
    "padded": _padded_facts,
    "resized": _resized_facts,
    "outer": _outer,
    "factors": _factors,
}
