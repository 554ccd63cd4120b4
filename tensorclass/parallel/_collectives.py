"""Collective operations on containers: some send the structure too, others fill an existing container."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zlib import crc32

import torch
import torch.distributed as dist
from torch import Tensor

from ..core import VALUES
from ..errors import ArgumentError, HeldError, StructureError, UnsupportedOperationError, WorkerError
from ._blocks import DtypeRun, check_writable, joined, write
from ._engines import at_least
from ._links import BUCKET, bytes_on, device_of, group_of, peer_of, rank_in, talking
from ._structure import Structure, difference
from ._transfer import (
    FRAME,
    Incoming,
    Transfer,
    message_in,
    message_of,
    moved,
    outgoing,
    problem_message,
    sent,
    wait_for_requests,
)

_REMOTE = 2**29
"""The tag of `init_remote`; `send` can't use it."""
_GLOO = {
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
}


# ---- operations that send the structure -----------------------------------------------------------------------------


def _container(whole: Tensor, rank: int, device: Any) -> Any:
    message = message_in(whole)
    message.check(rank)
    found = message.container()
    return found if device is None else found.to(device)


def _gather_messages(group: Any, mine: Tensor) -> list[Tensor]:
    """The messages of all ranks."""

    def move(parts: list[Tensor], where: slice) -> None:
        given = mine[where]
        group.allgather([parts], [torch.cat([given, given.new_zeros(len(parts[0]) - len(given))])]).wait()

    return moved([bytes_on(mine.device, FRAME) for _ in range(group.size())], move)


def broadcast(batch: Any, src: int, group: Any, device: Any) -> Any:
    """See `TensorDictBase.broadcast`."""
    found = group_of(group)
    root, here = rank_in(found, src, "src"), device_of(found)
    mine = root == found.rank()
    block, error = message_of(batch, here) if mine else (None, None)
    given = block.whole if block else bytes_on(here, FRAME)
    with talking(found, f"broadcast from rank {root}", error):
        (whole,) = moved([given], lambda parts, _: found.broadcast(parts[0], root).wait())
    return batch if mine else _container(whole, root, device)


def scatter(batch: Any, src: int, tensordicts: Any, group: Any, device: Any) -> Any:
    """See `TensorDictBase.scatter`."""
    found = group_of(group)
    root, world, here = rank_in(found, src, "src"), found.size(), device_of(found)
    parts: list[Tensor] = []
    error: HeldError | None = None
    if root == found.rank():
        given = list(tensordicts) if isinstance(tensordicts, (list, tuple)) else []
        if len(given) != world:
            what = f"scatter: rank {root} gives one container for each of {world} ranks"
            error = HeldError(ArgumentError(f"{what}, got {len(given)}"))
        told = (
            [(problem_message(error.error, here), error)] * world if error else [message_of(one, here) for one in given]
        )
        most = max([len(block.whole) for block, _ in told])
        for block, _ in told:
            block.head[2] = most  # all ranks move as much
            parts.append(torch.cat([block.whole, block.whole.new_zeros(most - len(block.whole))]))
        error = next((problem for _, problem in told if problem is not None), None)
    options = dist.ScatterOptions()
    options.rootRank = root
    with talking(found, f"scatter from rank {root}", error):
        (whole,) = moved(
            [bytes_on(here, FRAME)],  # torch 2.6 takes no empty list in the list
            lambda into, at: found.scatter(into, [[part[at] for part in parts]] if parts else [], options).wait(),
        )
    return _container(whole, root, device)


def all_gather(batch: Any, group: Any) -> list[Any]:
    """See `TensorDictBase.all_gather`."""
    found = group_of(group)
    block, error = message_of(batch, device_of(found))
    with talking(found, "all_gather", error):
        wholes = _gather_messages(found, block.whole)
    return [_container(whole, rank, None) for rank, whole in enumerate(wholes)]


def init_remote(batch: Any, dst: Any, group: Any, use_broadcast: bool) -> None:
    """See `TensorDictBase.init_remote`."""
    if use_broadcast:
        found = group_of(group)
        broadcast(batch, found.rank() if group is None else dist.get_rank(), group, None)
        return
    found, peer = peer_of(dst, group, None, "dst")
    block, error = message_of(batch, device_of(found))
    with talking(found, f"init_remote to rank {peer}", error):
        sent(found, block, peer, _REMOTE)


def from_remote_init(src: int, group: Any, device: Any, use_broadcast: bool) -> Any:
    """See `TensorDictBase.from_remote_init`."""
    if use_broadcast:
        return broadcast(None, src, group, device)
    found, peer = peer_of(src, group, None, "src")
    return _container(Incoming(found, peer, _REMOTE).message().block.whole, peer, device)


# ---- operations that fill a structure -------------------------------------------------------------------------------


def _agree(group: Any, structure: Structure | None, problem: HeldError | None, doing: str) -> Structure:
    """Check that all ranks do the same with the same structure and have no problem; all have the same outcome."""
    device = device_of(group)
    digest = -1 if structure is None else structure.digest ^ crc32(doing.encode())
    with talking(group, doing):
        found = torch.tensor([digest, -digest, problem is not None], dtype=torch.int64, device=device)
        group.allreduce([found], dist.ReduceOp.MAX).wait()
        high, low, wrong = found.tolist()
        if structure is not None and high == -low and not wrong:
            return structure
        rows = () if structure is None else structure.rows
        text = None if problem is None else f"{type(problem.error).__name__}: {problem.error}"
        block, _ = message_of((rows, text, doing), device)
        told = [_container(whole, rank, None) for rank, whole in enumerate(_gather_messages(group, block.whole))]
    if problem is not None:
        problem.reraise()
    for rank, (_, text, other) in enumerate(told):
        if text is not None:
            raise WorkerError(f"{doing}: rank {rank} could not take part: {text:.2000}; nothing was changed")
        if other != told[0][2]:
            raise ArgumentError(f"rank 0 calls {told[0][2]}, rank {rank} calls {other}; nothing was changed")
    texts = [difference(told[0][0], rows, "rank 0", f"rank {rank}") for rank, (rows, _, _) in enumerate(told)]
    raise StructureError(f"{doing}: the structures differ: {next(filter(None, texts))}; nothing was changed")


class Reducing(Transfer):
    """A started reduction; `wait()` writes the result."""

    def __init__(
        self, group: Any, structure: Structure, op: Any, root: int | None, bucket: int | None, doing: str
    ) -> None:
        super().__init__(group, doing)
        self._structure, self._root = structure, root
        self._average = op == dist.ReduceOp.AVG  # a sum, divided at the end: not every backend has means
        given, device = dist.ReduceOp.SUM if self._average else op, device_of(group)
        self._flat: list[Tensor] = [joined(structure.leaves, run, device) for run in structure.runs]
        self._works: list[Any] = []
        with talking(group, self._doing):
            for run, flat in zip(structure.runs, self._flat, strict=True):
                real = torch.view_as_real(flat).view(-1) if flat.is_complex() else flat
                for piece in real.split(max(1, (bucket or BUCKET) // run.dtype.itemsize)) if len(real) else ():
                    work = group.allreduce([piece], given) if root is None else group.reduce(piece, root, given)
                    self._works.append(work)

    def _end(self, timeout: timedelta | None) -> None:
        """Wait, and write the sums back to the leaves."""
        with talking(self._group, self._doing):
            wait_for_requests(self._works, timeout)
        if self._root not in (None, self._group.rank()):
            return
        leaves = self._structure.leaves
        values: list[Tensor] = list(leaves)
        for run, flat in zip(self._structure.runs, self._flat, strict=True):
            whole = flat / self._group.size() if self._average else flat
            for place, part in zip(run.places, whole.split(run.sizes), strict=True):
                values[place] = part.view(leaves[place].shape)
        dense = [place for place, where in enumerate(self._structure.ragged) if where is None]
        write([leaves[place] for place in dense], [values[place] for place in dense])
        for place, where in enumerate(self._structure.ragged):
            if where is not None:
                parent, key, node = where
                with torch.no_grad():
                    parent.set_(key, node._make([values[place]], node.batch_size, None, VALUES))


def _reduction(batch: Any, op: Any, group: Any, root: Any, early: bool, bucket: int | None) -> Any:
    """Start a reduction on which all ranks agree; it is finished at once unless `early`."""
    found = group_of(group)
    to = None if root is None else rank_in(found, root, "dst")
    wanted = dist.ReduceOp.SUM if op is None else op
    problem, structure = None, None
    kind: Any = getattr(wanted, "op", wanted)
    doing = f"{'all_reduce' if to is None else f'reduce to rank {to}'} with {getattr(kind, 'name', kind)!s:.40}"
    doing += "" if bucket is None else f" in buckets of {bucket!r:.40} bytes"
    try:
        if not isinstance(wanted, (dist.ReduceOp, dist.ReduceOp.RedOpType)):
            raise ArgumentError(f"op is of torch.distributed.ReduceOp, got {op!r:.80}")
        at_least(1, bucket_bytes=bucket)
        structure = Structure(batch)
        check_writable(structure.leaves, structure.names)
        for run in structure.runs:
            _check_reducible(run, structure.names, wanted, found)
    except Exception as error:  # `_agree` raises it; the other ranks are told
        problem = HeldError(error)
    reducing = Reducing(found, _agree(found, structure, problem, doing), wanted, to, bucket, doing)
    if early:
        return [reducing]
    reducing.wait()
    return None


def _check_reducible(run: DtypeRun, names: list[str], op: Any, group: Any) -> None:
    """Refuse an operation that the backend lacks for a dtype, before anything is sent."""
    dtype, name = run.dtype, names[run.places[0]]
    total = op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG)
    inner = dtype.to_real() if dtype.is_complex and total else dtype
    gloo = device_of(group).type == "cpu"
    exact = not (inner.is_floating_point or dtype.is_complex)
    bits = op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)
    if (gloo and inner not in _GLOO) or (bits and not exact):
        why = f"the backend can't reduce {dtype} with {op}"
    elif op == dist.ReduceOp.AVG and exact:
        why = f"a mean of {dtype} is none of its values; reduce the sum, or convert the field"
    else:
        return
    raise UnsupportedOperationError(f"reduce: `{name}`: {why}; nothing was changed")


def all_reduce(batch: Any, op: Any, group: Any, async_op: bool, bucket_bytes: int | None) -> Any:
    """See `TensorDictBase.all_reduce`."""
    return _reduction(batch, op, group, None, async_op, bucket_bytes)


def reduce(
    batch: Any, dst: int, op: Any, async_op: bool, return_premature: bool, group: Any, bucket_bytes: int | None
) -> Any:
    """See `TensorDictBase.reduce`."""
    return _reduction(batch, op, group, dst, async_op and return_premature, bucket_bytes)


def gather_and_stack(batch: Any, dst: int, group: Any) -> Any:
    """See `TensorDictBase.gather_and_stack`."""
    found = group_of(group)
    root, mine = rank_in(found, dst, "dst"), found.rank()
    problem, structure, block = None, None, None
    try:
        if mine == root and (not batch.batch_size or batch.batch_size[0] != found.size() - 1):
            size = list(batch.batch_size)
            raise ArgumentError(
                f"gather_and_stack: on rank {root} the container has a row for each of the {found.size() - 1} other "
                f"ranks, got batch size {size}"
            )
        row = batch if mine != root or found.size() == 1 else batch[0]
        structure = Structure(row)
        if mine == root:
            whole = Structure(batch)
            check_writable(whole.leaves, whole.names)
        else:
            block = outgoing(batch, structure, False, found)
    except Exception as error:  # `_agree` raises it; the other ranks are told
        problem = HeldError(error)
    doing = f"gather_and_stack to rank {root}"
    structure = _agree(found, structure, problem, doing)
    if block is not None:
        with talking(found, doing):
            sent(found, block, root, _REMOTE)
        return None
    others = [rank for rank in range(found.size()) if rank != root]
    awaited = [Incoming(found, rank, _REMOTE) for rank in others]  # all at once
    for number, message in enumerate([one.message() for one in awaited]):
        target = batch[number]
        awaited[number].take(message, target, Structure(target))
    return batch
