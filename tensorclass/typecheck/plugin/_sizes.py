"""Partly known shapes, and what operations of torch make of them. Imports neither torch nor mypy.

The dims of a field that is read are those that it declares, behind the batch dims of its instance: their number is not
known, but it is the same for all fields of the instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

Size = int | None
Shape = tuple[Size, ...]


@dataclass(frozen=True)
class KnownSizes:
    """A shape: its last dims, and what is known of the dims before them."""

    dims: Shape
    """The last sizes; None for an unknown size. All sizes if `base` is None."""
    base: object = None
    """Whose number of dims the rank is counted from; None if `dims` are all."""
    extra: int = 0
    """How many dims there are more than in `base`."""

    @property
    def rank(self) -> int | None:
        """The number of dims; None if it is unknown."""
        return len(self.dims) if self.base is None else None

    @property
    def least_rank(self) -> int:
        """How many dims there are at least."""
        return max(len(self.dims), self.extra)

    def __str__(self) -> str:
        sizes = ["?" if size is None else str(size) for size in self.dims]
        return f"[{', '.join(sizes if self.base is None else ['...', *sizes])}]"

    def last(self, count: int) -> Shape:
        """The last sizes; None for those that are not known."""
        known = self.dims[-count:] if count else ()
        return (None,) * (count - len(known)) + known


def behind_unknown(*dims: Size) -> KnownSizes:
    """Dims behind an unknown number of others."""
    return KnownSizes(dims, object(), len(dims))


def place_of(sizes: KnownSizes, dim: int) -> int | None:
    """The position of a dim among the known ones, which may be negative for a dim before them; None if unknown."""
    known = len(sizes.dims)
    if sizes.base is None:
        return dim % known if known and -known <= dim < known else None
    return known + dim if dim < 0 else None


def size_at(sizes: KnownSizes | None, dim: int) -> Size:
    """The size of a dim."""
    at = None if sizes is None else place_of(sizes, dim)
    return sizes.dims[at] if sizes is not None and at is not None and at >= 0 else None


def _keep_sizes_behind(sizes: KnownSizes, dim: int, more: int) -> KnownSizes:
    """After a change at a dim that is counted from the front: only the dims behind it are known."""
    return replace(sizes, dims=sizes.dims[max(dim, 0) :], extra=sizes.extra + more)


def change_sizes_at(sizes: KnownSizes, dim: int) -> KnownSizes:
    """The shape after a change of sizes at a dim that is counted from the front."""
    return replace(sizes, dims=tuple(None if at <= dim else size for at, size in enumerate(sizes.dims)))


def remove_dim(sizes: KnownSizes | None, dim: int | None, keep: bool = False) -> KnownSizes | None:
    """The shape after a reduction of one dim."""
    if sizes is None or dim is None:
        return None
    at = place_of(sizes, dim)
    if at is None:
        if sizes.base is None:
            return None
        return change_sizes_at(sizes, dim) if keep else _keep_sizes_behind(sizes, dim + 1, -1)
    if at < 0:
        return sizes if keep else replace(sizes, extra=sizes.extra - 1)
    left, right = sizes.dims[:at], sizes.dims[at + 1 :]
    return replace(sizes, dims=(*left, *((1,) if keep else ()), *right), extra=sizes.extra - (not keep))


def unsqueeze_sizes(sizes: KnownSizes | None, dim: int | None) -> KnownSizes | None:
    """The shape with a new dim."""
    if sizes is None:
        return None
    known = len(sizes.dims)
    if sizes.base is None:
        if dim is None or not -known - 1 <= dim <= known:
            return KnownSizes((None,) * (known + 1))
        at = dim % (known + 1)
    elif dim is None:
        return replace(sizes, dims=(), extra=sizes.extra + 1)
    elif dim >= 0:
        return _keep_sizes_behind(sizes, dim, 1)
    else:
        at = known + 1 + dim
    left, right = sizes.dims[: max(at, 0)], sizes.dims[max(at, 0) :]
    return replace(sizes, dims=(*left, 1, *right) if at >= 0 else sizes.dims, extra=sizes.extra + 1)


def squeeze_sizes(sizes: KnownSizes | None, dim: int | None) -> KnownSizes | None:
    """The shape without a dim if its size is 1; unknown if the size is."""
    at = None if sizes is None or dim is None else place_of(sizes, dim)
    if sizes is None or at is None or at < 0 or sizes.dims[at] is None:
        return None
    return remove_dim(sizes, dim) if sizes.dims[at] == 1 else sizes


def resized(sizes: KnownSizes | None, dim: int, size: Size) -> KnownSizes | None:
    """The shape with another size of one dim."""
    if sizes is None:
        return None
    at = place_of(sizes, dim)
    if at is None:
        return None if sizes.base is None else change_sizes_at(sizes, dim)
    if at < 0:
        return replace(sizes, dims=(size, *(None,) * (-at - 1), *sizes.dims)) if size is not None else sizes
    return replace(sizes, dims=(*sizes.dims[:at], size, *sizes.dims[at + 1 :]))


def swap_sizes(sizes: KnownSizes | None, one: int | None, other: int | None) -> KnownSizes | None:
    """The shape with two dims exchanged."""
    if sizes is None:
        return None
    places = [None if dim is None else place_of(sizes, dim) for dim in (one, other)]
    if any(at is None or at < 0 for at in places):
        return replace(sizes, dims=()) if sizes.base is not None else KnownSizes((None,) * len(sizes.dims))
    dims = [*sizes.dims]
    first, second = places[0] or 0, places[1] or 0
    dims[first], dims[second] = dims[second], dims[first]
    return replace(sizes, dims=tuple(dims))


def permuted(sizes: KnownSizes | None, order: Shape | None) -> KnownSizes | None:
    """The shape with its dims in another order, which also says their number."""
    if order is None:
        return None
    if sizes is None or None in order:
        return KnownSizes((None,) * len(order))
    if sizes.base is not None:  # the order says how many dims the base has
        whole = KnownSizes(sizes.last(len(order)))
        return None if (made := permuted(whole, order)) is None else replace(sizes, dims=made.dims)
    known = len(sizes.dims)
    if len(order) != known or any(dim is None or not -known <= dim < known for dim in order):
        return None
    return KnownSizes(tuple(sizes.dims[dim] for dim in order if dim is not None))


def flattened(sizes: KnownSizes | None, start: int | None, end: int | None) -> KnownSizes | None:
    """The shape with the dims from one to another merged."""
    if start is None or end is None:
        return None
    if sizes is None or sizes.base is not None:
        return _flattened_behind(sizes, start, end)
    known = len(sizes.dims)
    first, last = start % known if known else 0, end % known if known else 0
    merged = sizes.dims[first : last + 1]
    return KnownSizes((*sizes.dims[:first], _product(merged) if known else 1, *sizes.dims[last + 1 :]))


def _flattened_behind(sizes: KnownSizes | None, start: int, end: int) -> KnownSizes | None:
    """The shape with dims merged, where only the last ones are known."""
    if start >= 0:
        return KnownSizes((None,) * (start + 1)) if end == -1 else None
    if sizes is None or not start <= end < 0:
        return None
    first, last = (max(len(sizes.dims) + dim, 0) for dim in (start, end + 1))
    merged = _product(sizes.last(-start)[: end - start + 1])
    kept = (*sizes.dims[:first], *((merged,) if -end <= len(sizes.dims) else ()), *sizes.dims[last:])
    return replace(sizes, dims=kept, extra=sizes.extra - (end - start))


def unflatten_sizes(sizes: KnownSizes | None, dim: int | None, wanted: Shape | None) -> KnownSizes | None:
    """The shape with one dim divided into several; a size of -1 is found where all others are known."""
    at = None if sizes is None or dim is None else place_of(sizes, dim)
    if sizes is None or at is None or at < 0 or wanted is None:
        return None
    parts = reshaped(KnownSizes((sizes.dims[at],)), wanted)
    found = () if parts is None else parts.dims
    inner = tuple(None if size is not None and size < 0 else size for size in found)
    return replace(sizes, dims=(*sizes.dims[:at], *inner, *sizes.dims[at + 1 :]), extra=sizes.extra + len(inner) - 1)


def _product(sizes: Shape) -> Size:
    return None if None in sizes else prod(size for size in sizes if size is not None)


def reshaped(sizes: KnownSizes | None, wanted: Shape | None) -> KnownSizes | None:
    """The shape of `reshape(...)`; a size of -1 is found where all others are known."""
    if wanted is None:
        return None
    free = [at for at, size in enumerate(wanted) if size is not None and size < 0]
    if not free:
        return KnownSizes(wanted)
    others = _product(tuple(size for at, size in enumerate(wanted) if at not in free))
    whole = None if sizes is None or sizes.base is not None else _product(sizes.dims)
    rest = whole // others if whole is not None and others and whole % others == 0 else None
    return KnownSizes(tuple(rest if at in free else size for at, size in enumerate(wanted)))


def expanded(sizes: KnownSizes | None, wanted: Shape | None) -> KnownSizes | None:
    """The shape of `expand(...)`, in which -1 keeps a size."""
    if wanted is None:
        return None
    own = (None,) * len(wanted) if sizes is None else sizes.last(len(wanted))
    pairs = zip(wanted, own, strict=True)
    return KnownSizes(tuple(old if new is not None and new < 0 else new for new, old in pairs))


def broadcast(one: KnownSizes | None, other: KnownSizes | None) -> KnownSizes | None:
    """The shape of an elementwise operation."""
    if one is None or other is None:
        return None
    if one.base is None and other.base is None:
        count = max(len(one.dims), len(other.dims))
        pad = [(1,) * (count - len(side.dims)) + side.dims for side in (one, other)]
        return KnownSizes(tuple(map(_broadcast_size, *pad)))
    if one.base is not None and other.base is not None and one.base is not other.base and one.base != other.base:
        return behind_unknown(*_common(one, other))
    longer, shorter = (one, other) if one.base is not None else (other, one)
    same = longer.base == shorter.base and longer.extra == shorter.extra
    if same:
        return KnownSizes(_common(one, other), longer.base, longer.extra)
    if shorter.base is None and len(shorter.dims) <= len(longer.dims) and longer.extra >= len(shorter.dims):
        tail = shorter.last(len(shorter.dims))
        start = len(longer.dims) - len(tail)
        return replace(longer, dims=(*longer.dims[:start], *map(_broadcast_size, longer.dims[start:], tail)))
    return behind_unknown(*_common(one, other))


def _common(one: KnownSizes, other: KnownSizes) -> Shape:
    count = min(len(one.dims), len(other.dims))
    return tuple(map(_broadcast_size, one.last(count), other.last(count)))


def _broadcast_size(one: Size, other: Size) -> Size:
    """The size of two that are broadcast; unknown if one is, unless the other is more than 1."""
    if one == 1:
        return other
    if other == 1 or one == other:
        return one
    known = [size for size in (one, other) if size is not None]
    return known[0] if len(known) == 1 else None


def joined(shapes: Sequence[KnownSizes | None], dim: int | None) -> KnownSizes | None:
    """The shape of `cat`."""
    kept = [one for one in shapes if one is None or one.rank != 1 or one.dims[0]]  # `torch.cat` skips empty tensors
    whole = same_rank_shapes(kept or shapes)
    if whole is None or dim is None:
        return None if whole is None else replace(whole, dims=(None,) * len(whole.dims))
    at = place_of(whole, dim)
    if at is None or at < 0:
        return resized(whole, dim, None)
    back = at - len(whole.dims)
    sizes = [None if one is None or len(one.dims) < -back else one.dims[back] for one in shapes]
    total = None if None in sizes else sum(size for size in sizes if size is not None)
    return resized(whole, back, total)


def same_rank_shapes(shapes: Sequence[KnownSizes | None]) -> KnownSizes | None:
    """The shape of values that an operation takes only with the same number of dims; None if they certainly differ."""
    known = [one for one in shapes if one is not None]
    if not known or len({one.rank for one in known} - {None}) > 1:
        return None
    first = next((one for one in known if one.base is None), known[0])
    count = len(first.dims) if first.base is None else min(len(one.dims) for one in known)
    if first.base is None and any(one.least_rank > count for one in known):
        return None
    columns = [{*column} - {None} for column in zip(*(one.last(count) for one in known), strict=True)]
    return replace(first, dims=tuple(column.pop() if len(column) == 1 else None for column in columns))


def merged_shapes(shapes: Sequence[KnownSizes | None]) -> KnownSizes | None:
    """The shape that several values share: sizes in which they differ are unknown; None for different ranks."""
    first = shapes[0] if shapes else None
    if first is None or any(one is None or (one.base, one.extra) != (first.base, first.extra) for one in shapes):
        return None
    count = min(len(one.dims) for one in shapes if one is not None)
    if first.base is None and any(one is not None and len(one.dims) != count for one in shapes):
        return None
    columns = zip(*(one.last(count) for one in shapes if one is not None), strict=True)
    return replace(first, dims=tuple(column[0] if len({*column}) == 1 else None for column in columns))


def slid_size(size: Size, kernel: Size, stride: Size, padding: Size = 0, dilation: Size = 1) -> Size:
    """How many places a window has that slides over a dim."""
    if size is None or kernel is None or not stride:
        return None
    if padding is None or dilation is None:
        return None
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def shape_after_pad(sizes: KnownSizes | None, added: Shape | None) -> KnownSizes | None:
    """The shape of `pad(x, [before, behind, ...])`, which begins with the last dim."""
    if sizes is None or added is None or len(added) % 2:
        return None
    for dim, pair in enumerate(zip(added[::2], added[1::2], strict=True), 1):
        old = sizes.last(dim)[0]
        one, other = pair
        known = old is not None and one is not None and other is not None
        sizes = resized(sizes, -dim, old + one + other if known else None)  # type: ignore[operator]  # as just seen
        if sizes is None:
            return None
    return sizes


def shape_after_repeat(sizes: KnownSizes | None, times: Shape | None) -> KnownSizes | None:
    """The shape of `x.repeat(...)`, which also says the number of dims."""
    if times is None:
        return None
    count = len(times)
    own: Shape = (None,) * count
    if sizes is not None and sizes.base is None and len(sizes.dims) <= count:
        own = (1,) * (count - len(sizes.dims)) + sizes.dims
    elif sizes is not None and sizes.base is not None:
        own = sizes.last(count)
    pairs = zip(own, times, strict=True)
    return KnownSizes(tuple(None if old is None or by is None else old * by for old, by in pairs))


def multiply_sizes(one: KnownSizes | None, other: KnownSizes | None) -> KnownSizes | None:
    """The shape of a matrix product."""
    if one is None or other is None or one.rank == 0 or other.rank == 0:
        return None
    if other.rank == 2:
        return resized(one, -1, other.dims[-1])
    if other.rank == 1:
        return remove_dim(one, -1)
    if len(one.dims) < 2 or len(other.dims) < 2:
        return None
    if (one.base, one.extra) == (other.base, other.extra) and len(one.dims) == len(other.dims):
        lead = tuple(map(_broadcast_size, one.dims[:-2], other.dims[:-2]))
        return replace(one, dims=(*lead, one.dims[-2], other.dims[-1]))
    return behind_unknown(one.dims[-2], other.dims[-1])
