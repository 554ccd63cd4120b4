"""What the ranks of a mesh compare before they distribute a batch, so that each of them raises the same error."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist

from ..errors import ArgumentError, StructureError
from ._links import device_of, is_fake, talking
from ._structure import Structure, difference


def groups_of(layout: Any) -> list[Any]:
    """All ranks at once, or the lines of a mesh that has some of them."""
    made = None if layout is None else layout._made
    if made is None or made.size() == dist.get_world_size():
        return [dist.group.WORLD]
    return [made.get_group(dim) for dim in range(made.ndim)]


def agree(batch: Any, layout: Any, source: str, problem: str, rows: bool = False) -> None:
    """Compare layout and structure on all ranks of a mesh.

    Raises:
        StructureError: on every rank, if one has another layout, structure or source, or can't lay out its batch.
    """
    if is_fake(groups_of(layout)[0]):
        return
    found = [] if batch is None or problem else _without_rows(Structure(batch).rows, rows)
    compare_calls(layout, "distribute", f"source={source}", problem, found)


def compare_calls(layout: Any, what: str, call: str, problem: str, found: Sequence[Any] = ()) -> None:
    """Compare layouts, calls and structures of a batch on all ranks of a mesh; without a layout, with a problem.

    Raises:
        StructureError: on every rank, if one differs or has a problem.
    """
    groups = groups_of(layout)
    if is_fake(groups[0]):
        return
    told = (what, repr(layout), call, found, problem)
    key = None if layout is None else layout._key
    data = repr((what, key, call, found, not problem)).encode()
    digest = int.from_bytes(hashlib.sha256(data).digest()[:7], "little")
    most = torch.tensor([digest, -digest, bool(problem)], device=device_of(groups[0]))
    with talking(groups[0], what):
        for group in groups:
            dist.all_reduce(most, dist.ReduceOp.MAX, group=group)
        high, low, wrong = most.tolist()
        if high == -low and not wrong:
            return
        said: list[Any] = [(dist.get_rank(), *told)]
        for group in groups:
            each: list[Any] = [None] * dist.get_world_size(group)
            dist.all_gather_object(each, said, group=group)
            said = [one for part in each for one in part]
    _raise(said)


def refusal_by_all(layout: Any, what: str, told: str) -> ArgumentError:
    """The error for a wrong argument of this rank, after the other ranks, which compare their calls, were told.

    Without a layout, which is the wrong argument, the ranks of the whole job are told.
    """
    if dist.is_available() and dist.is_initialized():
        with suppress(StructureError):  # what the other ranks raise
            compare_calls(layout, what, "", told)
    return ArgumentError(told)


def _without_rows(found: Any, rows: bool) -> list[Any]:
    """The structure, without the number of rows where every rank has its own."""
    return [(path, _rest(entry) if rows else repr(entry)) for path, entry in found]


def _rest(entry: Any) -> str:
    if isinstance(entry, tuple):
        return repr((entry[0], tuple(entry[1])[1:]))
    return str(entry).partition(" [")[0]


def _raise(said: Sequence[Any]) -> None:
    """Raise the first difference between what ranks say."""
    ordered = sorted(said, key=lambda one: one[0])
    for rank, what, _, _, _, problem in ordered:
        if problem:
            raise StructureError(f"{what}: rank {rank}: {problem}")
    first, *others = ordered
    for rank, what, layout, call, found, _ in others:
        if what != first[1]:
            raise StructureError(f"rank {first[0]} calls {first[1]}, and rank {rank} {what}, for one mesh")
        if (layout, call) != first[2:4]:
            raise StructureError(
                f"{what}: rank {first[0]} has {first[2]} and {first[3]}, rank {rank} has {layout} and {call}; all "
                f"ranks of a mesh make the same call"
            )
        where = difference(tuple(first[4]), tuple(found), f"rank {first[0]}", f"rank {rank}")
        if where:
            raise StructureError(f"{what}: the batches differ: {where}")
    raise StructureError(f"{first[1]}: the ranks {[one[0] for one in ordered]} have layouts that differ in a field")


def rows_of_all(count: int, layout: Any, mesh: Any, names: Sequence[str]) -> int:
    """The number of rows of all ranks.

    Raises:
        StructureError: on every rank, if they hold numbers that no DTensor has.
    """
    total = 1
    for name in names:
        total *= layout.sizes[name]
    if is_fake(mesh.get_group(0)):
        return count * total
    counts = [count]
    for name in reversed(names):
        group = mesh.get_group(name)
        each: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(each, counts, group=group)
        counts = [one for part in each for one in part]
    rows = sum(counts)
    step = -(-rows // total)
    wanted = [max(0, min(step, rows - step * rank)) for rank in range(total)]
    if counts != wanted or (len(names) > 1 and len({*counts}) > 1):
        raise StructureError(
            f"distribute: the ranks of `{'*'.join(names)}` hold {counts} rows, and of {rows} rows DTensor puts "
            f"{wanted} on them; pass `drop_last=True` or `pad_last=True` to the loader"
        )
    return rows
