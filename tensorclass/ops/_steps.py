"""The copies of a write: all sources are read before the first target is written."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, repeat
from operator import add, lt, setitem
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .._deferred import any_dtensor
from ..core import Path, Step, call_each, each_row, publish, sharing
from ..errors import ArgumentError
from ._writable import interpreters, is_readable

Copy = tuple[Tensor, Tensor, Path]
Target = tuple[Any, Any, Any]
"""A tensor or an entry node, the value to write, and the index or None."""
WHOLE: Final = -1
"""The rows of a write to all elements, see `KnownWrite`."""
MOST_LISTED: Final = 48
"""The longest index whose least and greatest value are found faster in a list."""
FEW: Final = 4
"""From so many leaves on, one call for all views takes less time than a call for each leaf."""


class Writes:
    """The steps of a checked plan: `kernels` write into memory, then `stores` replace objects and entries.

    `shared` has what several views share, and its contents after the writes so far: the next one starts from these.
    """

    __slots__ = ("kernels", "shared", "stores")

    def __init__(self) -> None:
        self.kernels: list[Step] = []
        self.stores: list[Step] = []
        self.shared: dict[Any, Any] = {}

    def steps(self) -> list[Step]:
        """All steps, those first that torch may refuse."""
        for state, contents in self.shared.items():
            state.settle(contents, self)
        return [*self.kernels, *self.stores]


def carry_out(plan: Sequence[Copy], non_blocking: bool = False, parts: tuple[Any, ...] | None = None) -> None:
    """Execute a checked plan, at an index of the batch if given."""
    with sharing():
        publish(copy_steps(plan, non_blocking, parts))


def copy_steps(plan: Sequence[Copy], non_blocking: bool = False, parts: tuple[Any, ...] | None = None) -> list[Step]:
    """The steps of a checked plan; made and published under one `sharing()`."""
    writes = Writes()
    collect(plan, non_blocking, parts, writes)
    return writes.steps()


def commit(entry: Any, plan: Any) -> None:
    """Write elements of an entry node, as `_plan_write` has planned."""
    with sharing():
        entry._commit(plan, writes := Writes())
        publish(writes.steps())


def collect(plan: Sequence[Copy], non_blocking: bool, parts: tuple[Any, ...] | None, writes: Writes) -> None:
    """Add the steps of a checked plan. All sources that overlap a target are copied first."""
    steps: list[Target] = []
    _gather(plan, parts, steps)
    tensors = [(entry, source, index) for entry, source, index in steps if isinstance(entry, Tensor)]
    written = [entry for entry, _, _ in tensors]
    whole = [(entry, source) for entry, source, index in tensors if index is None]
    picked = [(entry, source, index) for entry, source, index in tensors if index is not None]
    targets, sources = [entry for entry, _ in whole], [source for _, source in whole]
    if picked:
        sources = without_overlap(written, sources) if whole else sources
        given = without_overlap(written, [source for _, source, _ in picked], own=False)
        picked = [(e, new, _own_index(index, written)) for (e, _, index), new in zip(picked, given, strict=True)]
    sources = without_overlap(targets, sources)
    writes.kernels += [partial(entry.__setitem__, index, source) for entry, source, index in picked]
    if targets and _listable(targets, sources):
        writes.kernels.append(partial(torch._foreach_copy_, targets, sources, non_blocking))  # pyright: ignore[reportPrivateImportUsage]  # torch offers it under this name only
    else:
        writes.kernels += [partial(t.copy_, s, non_blocking) for t, s in zip(targets, sources, strict=True)]
    for entry, source, _ in steps:
        if not isinstance(entry, Tensor):
            entry._commit(source, writes)  # an entry node


class AtMember:
    """A write to a stack, or to one member at its own index, in the plan of the parent container."""

    __slots__ = ("member", "parts")

    def __init__(self, member: Any, parts: tuple[Any, ...] | None) -> None:
        self.member = member
        self.parts = parts


def _gather(plan: Sequence[Copy], parts: Any, steps: list[Target]) -> None:
    """Collect the writes of a plan, including those of members; indexed targets become views if possible."""
    plain = parts is None or not any([isinstance(part, (Tensor, bool)) for part in parts])
    for entry, source, _ in plan:
        if isinstance(entry, AtMember):
            _gather(source, entry.parts, steps)  # type: ignore[arg-type]  # the plan of the member
        elif isinstance(entry, Tensor) and not plain:
            steps.append((entry, source, parts))
        else:
            steps.append((entry[parts] if parts is not None and isinstance(entry, Tensor) else entry, source, None))


def _own_index(index: Any, written: list[Tensor]) -> Any:
    """An index that doesn't share memory with these tensors."""
    return tuple(
        [without_overlap(written, [part], own=False)[0] if isinstance(part, Tensor) else part for part in index]
    )


def copied_again(
    holder: Any, leaves: list[Tensor], sources: list[Tensor], non_blocking: bool, index: Any = None, rows: Any = WHOLE
) -> bool:
    """As `copied_alike`, of the kind of write that the holder remembers; else copy nothing, return False."""
    if is_dynamo_compiling():  # dynamo can't call the check
        return False
    known: Any = getattr(holder, "_known_write", None)
    if known is None:
        return False
    noted, _, count, check, listed, lengths = known
    if noted != rows or count != len(leaves) or not check(*leaves, *sources) or interpreters() is not None:
        return False
    picks = type(index) is Tensor
    if picks or lengths:
        if picks and False in [tensor.is_cpu for tensor in (*leaves, *sources, index)]:
            return False
        if _may_meet(lengths, leaves, [*sources, index] if picks else sources):
            return False
    elif _aliases(tuple(leaves), {}, tuple(sources)):
        return False
    if picks:
        call_each(Tensor.index_copy_, leaves, repeat(0), repeat(index), sources)
    elif index is None and not listed:
        each_row(Tensor.copy_, leaves, sources, [non_blocking] * len(leaves))
    elif index is None:
        torch._foreach_copy_(leaves, sources, non_blocking)  # pyright: ignore[reportPrivateImportUsage]  # torch offers it under this name only
    elif listed and count >= FEW:
        torch._foreach_copy_([leaf[index] for leaf in leaves], sources)  # pyright: ignore[reportPrivateImportUsage]  # as above
    else:
        call_each(setitem, leaves, repeat(index), sources)  # torch creates no object for these views
    return True


def copied_alike(
    leaves: list[Tensor],
    sources: list[Tensor],
    declared: bool = False,
    non_blocking: bool = False,
    index: Any = None,
    rows: int | None = WHOLE,
    holder: Any = None,
) -> bool:
    """Copy sources with equal dtypes and shapes into writable leaves; else copy nothing, return False.

    Args:
        leaves: the tensors that are written, or hold what is written.
        sources: one for each leaf.
        declared: a declaration and the batch sizes say that dtypes and shapes are the same.
        non_blocking: whether copies may be asynchronous.
        index: the elements of the leaves to write; by default all of them.
        rows: how many elements the index takes, see `KnownWrite`.
        holder: the store that remembers this kind of write.
    """
    if any_dtensor(leaves) or any_dtensor(sources):
        return False
    picks = type(index) is Tensor
    if picks and False in [tensor.is_cpu for tensor in (*leaves, *sources)]:
        return False
    if not (declared or _fit_rows(leaves, sources, rows)):
        return False
    if is_dynamo_compiling():  # dynamo can't ask whether inference mode made a tensor
        if True in [leaf.requires_grad or not leaf.is_contiguous() for leaf in leaves]:
            return False
        targets = leaves if index is None else [leaf[index] for leaf in leaves]
        _copy(targets, without_overlap(targets, sources), non_blocking)
        return True
    if not surely_writable(leaves):
        return False
    if holder is not None:
        _note(holder, rows, leaves, sources)
    inside = interpreters() is not None  # a function transform, whose tensors have no address
    given = [*sources, index] if picks else sources
    if inside or (_aliases(tuple(leaves), {}, tuple(given)) and _overlapping_sources(leaves, given)):
        if picks:
            *sources, index = without_overlap(leaves, [*sources, index], own=False)
        else:
            sources = without_overlap(leaves if index is None else [leaf[index] for leaf in leaves], sources)
    if index is None:
        _copy(leaves, sources, non_blocking)
    elif picks:
        call_each(Tensor.index_copy_, leaves, repeat(0), repeat(index), sources)
    elif len(leaves) < FEW or not _listable(leaves, sources):
        call_each(setitem, leaves, repeat(index), sources)
    else:
        torch._foreach_copy_([leaf[index] for leaf in leaves], sources)  # pyright: ignore[reportPrivateImportUsage]  # torch offers it under this name only
    return True


def rows_at(index: Any, size: torch.Size) -> int | None:
    """How many elements of the first dim an index takes; None for an int, `WHOLE` for any other that may not fit."""
    kind = type(index)
    if not size:
        return WHOLE
    if kind is int:
        return None if -size[0] <= index < size[0] else WHOLE
    if kind is slice:
        return len(range(*index.indices(size[0])))
    if kind is not Tensor or index.dtype is not torch.int64 or index.ndim != 1 or not is_readable(index):
        return WHOLE
    count: int = index.numel()
    if not count:
        return WHOLE
    if count <= MOST_LISTED:
        found = index.tolist()
        return count if min(found) >= 0 and max(found) < size[0] else WHOLE
    least, greatest = torch.aminmax(index)
    return count if least.item() >= 0 and greatest.item() < size[0] else WHOLE


def _fit_rows(leaves: list[Tensor], sources: list[Tensor], rows: int | None) -> bool:
    """Whether sources have the dtypes and shapes of what is written."""
    try:
        for leaf, source in zip(leaves, sources):  # noqa: B905  # a keyword takes time
            shape: Any = leaf.shape
            if rows != WHOLE:
                shape = shape[1:] if rows is None else (rows, *shape[1:])
            if leaf.dtype is not source.dtype or source.shape != shape:
                return False
    except RuntimeError:  # the shape of a nested tensor can't be read
        return False
    return True


def _copy(targets: list[Tensor], sources: list[Tensor], non_blocking: bool) -> None:
    """Copy sources that don't overlap targets, several of them in one call if autograd tracks none of them."""
    if _listable(targets, sources):
        torch._foreach_copy_(targets, sources, non_blocking)  # pyright: ignore[reportPrivateImportUsage]  # torch offers it under this name only
    else:
        each_row(Tensor.copy_, targets, sources, [non_blocking] * len(targets))


def _listable(targets: list[Tensor], sources: list[Tensor]) -> bool:
    """Whether one call may copy several tensors: it has no derivative, no batching rule, and none for DTensors."""
    untracked = not torch.is_grad_enabled() or not (any_tracked(sources) or any_tracked(targets))
    return len(targets) > 1 and untracked and foreach_is_safe(targets)


def without_overlap(targets: list[Tensor], sources: list[Tensor], own: bool = True) -> list[Tensor]:
    """Copy the sources of a write that overlap a target, so that all are read before any is written.

    A source that is its own target is not copied, unless `own` is False. Overlaps of two storages, such as two numpy
    arrays over one buffer, are not detected.
    """
    if torch.compiler.is_compiling():  # addresses are unknown, and compiled code uses copies anyway
        return [source.clone() for source in sources] if len(targets) > 1 or not own else sources
    if interpreters() is not None:  # tensors inside a function transform have no address
        return [source.clone() for source in sources]
    shared = _aliases(tuple(targets), {}, tuple(sources)) and _share(targets, sources)
    return _copied_apart(targets, sources, own) if shared else sources


def surely_writable(leaves: list[Tensor]) -> bool:
    """Whether torch can write all leaves in place, by one look at each; False if in doubt."""
    return not _any_tracked(*leaves) and all(map(_contiguous, leaves)) and not any(map(_inference, leaves))


def _share(targets: list[Tensor], sources: list[Tensor]) -> bool:
    """Whether a source is in the storage of a target, where some do share one: sources may, as rows of one tensor."""
    try:
        places = {target.untyped_storage()._cdata for target in targets}
        return not places.isdisjoint([source.untyped_storage()._cdata for source in sources])
    except NotImplementedError:  # of tensors without a storage
        return True


class KnownWrite(NamedTuple):
    """A kind of write that went well, so that the next one of this kind need not look at each tensor.

    Args:
        rows: how many elements an index takes, None for an int, `WHOLE` without an index.
        left: how often a write of another kind may still be remembered instead.
        leaves: how many there are.
        check: compares, in one call, what the look at each tensor depended on: class, dtype, device, shape, strides
            of leaves, whether autograd tracks it and inference mode made it, and the modes and transforms that are on.
        listed: whether one call may copy all tensors, see `_listable`.
        lengths: the bytes of each leaf and each source that is contiguous, if some shared a storage.
    """

    rows: int | None
    left: int = 4
    leaves: int = -1
    check: Callable[..., bool] = bool
    listed: bool = False
    lengths: tuple[int, ...] = ()


def _note(holder: Any, rows: int | None, leaves: list[Tensor], sources: list[Tensor]) -> None:
    """Remember a write that fits, the second of its kind at the earliest: it takes as long as several writes."""
    known = getattr(holder, "_known_write", None)
    if known is None or known.rows != rows:
        holder._known_write = KnownWrite(rows)
    elif known.left:
        tensors = (*leaves, *sources)
        check = kind_check(tensors, len(leaves))
        listed = len(leaves) > 1 and not _any_tracked(*sources) and foreach_is_safe()
        lengths = tuple([tensor.nbytes for tensor in tensors]) if _aliases((), {}, tensors) else ()
        found = KnownWrite(rows, known.left - 1, len(leaves), check, listed, lengths)
        holder._known_write = found  # at once: others read it


def kind_check(tensors: Sequence[Tensor], strided: int = 0) -> Callable[..., bool]:
    """A function of tensors, none of them nested: whether they are of the kind of these, the first also in strides."""
    sizes: Any = [list(tensor.shape) for tensor in tensors]
    strides: Any = [[*leaf.stride()] if i < strided else [None] * leaf.ndim for i, leaf in enumerate(tensors)]
    return _Guards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check  # type: ignore[no-any-return]  # a C function


def _may_meet(lengths: tuple[int, ...], leaves: list[Tensor], sources: list[Tensor]) -> bool:
    """Whether sources may overlap targets, all of them with so many bytes if they are contiguous; True if in doubt."""
    if len(lengths) != len(leaves) + len(sources):
        return _aliases(tuple(leaves), {}, tuple(sources))
    if not all(map(_contiguous, sources)):
        return True
    starts = [*map(_address, leaves), *map(_address, sources)]
    ends = sorted(map(add, starts, lengths))
    starts.sort()
    return True in map(lt, starts[1:], ends)  # False: no two tensors share a byte, or more would have begun than ended


_Guards: Any = torch._C._dynamo.guards.TensorGuards  # pyright: ignore[reportAttributeAccessIssue]  # a C module
_contiguous, _inference, _address = Tensor.is_contiguous, Tensor.is_inference, Tensor.data_ptr
_any_tracked: Callable[..., bool] = getattr(
    torch._C, "_any_requires_grad", lambda *tensors: any([tensor.requires_grad for tensor in tensors])
)


def any_tracked(leaves: Sequence[Tensor]) -> bool:
    """Whether a tensor requires grad; a loop, since dynamo can't trace the single call."""
    return True in [leaf.requires_grad for leaf in leaves] if is_dynamo_compiling() else _any_tracked(*leaves)


def all_begin_with(size: torch.Size, values: dict[Any, Any]) -> bool:
    """Whether all keys are plain strings and all values plain tensors whose leading dims are the batch size."""
    if not size:  # a shape is an object that is made when it is read
        for key, value in values.items():
            if type(key) is not str or type(value) is not Tensor or value.is_nested:
                return False
        return True
    dims, last = len(size), size
    try:
        for key, value in values.items():
            if type(key) is not str or type(value) is not Tensor:
                return False
            if (shape := value.shape) != last:  # most shapes are that of the entry before
                if shape != size and shape[:dims] != size:
                    return False
                last = shape
        return True
    except RuntimeError:  # the shape of a strided nested tensor can't be read
        return False


clone_all: Callable[[list[Tensor]], Sequence[Tensor]] = getattr(
    torch, "_foreach_clone", lambda leaves: [leaf.clone() for leaf in leaves]
)
"""Copies of several tensors, in one call if torch offers it."""


def clone_leaves(leaves: list[Tensor], kwargs: dict[str, Any]) -> Sequence[Tensor]:
    unknown = sorted(kwargs.keys() - {"memory_format"}) if kwargs else None
    if unknown:
        raise ArgumentError(f"clone() has no argument {unknown[0]!r:.200}; it takes `recurse` and `memory_format`")
    tracked = torch.is_grad_enabled() and any_tracked(leaves)
    if not kwargs and len(leaves) > 3 and not tracked and foreach_is_safe(leaves):  # its autograd refuses integers
        try:
            return clone_all(leaves)
        except NotImplementedError:  # of nested tensors
            pass
    return [leaf.clone(**kwargs) for leaf in leaves]


def foreach_is_safe(leaves: Sequence[Tensor] = ()) -> bool:
    """Whether foreach kernels may be used: they have no batching rule for functorch, and none for DTensors."""
    return interpreters() is None and not any_dtensor(leaves)


_aliases: Callable[..., bool] = getattr(torch._C, "_any_output_is_alias_to_input_or_output", lambda *_: True)
"""Whether tensors share a storage, in one call; torch versions without it use the slower check."""


def _addresses(tensors: list[Tensor]) -> list[tuple[int, int]]:
    """The addresses of the first element of each tensor, and after its last."""
    found = []
    for tensor in tensors:
        start, length = tensor.data_ptr(), tensor.nbytes
        if not (tensor.is_contiguous() or tensor.layout is not torch.strided or not tensor.numel()):
            steps = zip(tensor.shape, tensor.stride(), strict=True)
            length = (sum([(n - 1) * step for n, step in steps]) + 1) * tensor.element_size()
        found.append((start, start + length))
    return found


def _copied_apart(targets: list[Tensor], sources: list[Tensor], own: bool) -> list[Tensor]:
    """As `without_overlap`, by the address range of each tensor."""
    if own and not _aliases((), {}, tuple(targets)) and all(map(_same_place, targets, sources)):
        return sources  # each is its own target, as when a state is loaded into its source
    found = list(sources)
    for i, count in _overlapping_sources(targets, sources):
        same = own and i < len(targets) and _same_place(targets[i], sources[i])
        if not same or count > 1:
            found[i] = sources[i].clone()
    return found


def _overlapping_sources(targets: list[Tensor], sources: list[Tensor]) -> list[tuple[int, int]]:
    """The numbers of the sources whose addresses meet those of targets, and how many targets lie between their ends."""
    starts, lasts = zip(*sorted(_addresses(targets)), strict=True)
    furthest, ends = [*accumulate(lasts, max)], sorted(lasts)
    found = []
    for i, (start, end) in enumerate(_addresses(sources)):
        before = bisect_left(starts, end)  # targets that begin before the end of this source
        if start != end and before and furthest[before - 1] > start:
            found.append((i, before - bisect_right(ends, start)))  # without those that end before it begins
    return found


def _same_place(target: Tensor, source: Tensor) -> bool:
    if target is source or target.data_ptr() != source.data_ptr():
        return target is source
    return target.dtype is source.dtype and target.shape == source.shape and target.stride() == source.stride()


def copy_plain(target: Any, source: Any, non_blocking: bool, index: Any = None, rows: int | None = WHOLE) -> bool:
    """Copy one plain tensor to another, or to its elements at an index; if in doubt copy nothing, return False."""
    if type(target) is not Tensor or type(source) is not Tensor or target.dtype is not source.dtype:
        return False
    if type(index) is Tensor:
        return copied_rows(target, source, index)
    if target.requires_grad or not target.is_contiguous() or source.is_nested:
        return False
    if not _fit_rows([target], [source], rows):
        return False
    if not torch.compiler.is_compiling() and target.is_inference():
        return False
    if index is not None:
        target[index] = without_overlap([target], [source], own=False)[0]
        return True
    try:
        target.copy_(source if source.is_contiguous() else without_overlap([target], [source])[0], non_blocking)
    except RuntimeError:  # torch checks contiguous tensors for overlap before it writes
        target.copy_(source.clone(), non_blocking)
    return True


def copied_rows(target: Any, source: Any, index: Tensor) -> bool:
    """As `copied`, at checked rows: torch refuses all else that doesn't fit before it writes."""
    if type(target) is not Tensor or type(source) is not Tensor or not target.is_cpu or target.requires_grad:
        return False
    try:
        if not (source.is_contiguous() and target.is_contiguous()):  # torch compares the addresses of contiguous ones
            source = without_overlap([target], [source], own=False)[0]
        return target.index_copy_(0, index, source) is target
    except (IndexError, RuntimeError):
        return False
