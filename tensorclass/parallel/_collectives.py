"""Collective operations on containers: some send the structure too, others fill an existing container."""

from __future__ import annotations

import pickle
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..core import VALUES
from ..errors import ArgumentError, StructureError, TensorClassError, UnsupportedOperationError, WorkerError
from ._blocks import Run, check_writable, joined, write
from ._engines import at_least
from ._links import BUCKET, all_bytes, bytes_on, device_of, group_of, peer_of, pieces, rank_in, talking
from ._structure import Structure, difference
from ._transfer import Incoming, outgoing, packed, parts_of, problem_message, take, unpacked, whole_message

_REMOTE = 2**29
"""The tag of `init_remote`; `send` can't use it."""
_GLOO = {
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64,
}  # fmt: skip
FAULTS = (TensorClassError, RuntimeError, TypeError)


# ---- operations that send the structure
# ----------------------------------------------------------------------------------


def _bytes_of(batch: Any) -> tuple[Tensor, Exception | None]:
    """A container as bytes. If it can't be sent, the error is sent instead, so no rank waits forever."""
    try:
        return packed(batch), None
    except FAULTS as error:
        return packed({"problem": f"{type(error).__name__}: {error}"}), error


def _container(raw: Tensor, rank: int, device: Any) -> Any:
    found = unpacked(raw)
    if isinstance(found, dict):
        raise WorkerError(f"rank {rank} could not send its container: {found['problem']:.2000}")
    return found if device is None else found.to(device)


def broadcast(batch: Any, src: int, group: Any, device: Any) -> Any:
    """See `TensorDictBase.broadcast`."""
    found = group_of(group)
    root = rank_in(found, src, "src")
    here, mine = device_of(found), root == found.rank()
    raw, error = _bytes_of(batch) if mine else (torch.empty(0, dtype=torch.uint8), None)
    with talking(found, f"broadcast from rank {root}"):
        size = torch.tensor([len(raw)], device=here)
        found.broadcast(size, root).wait()
        block = raw.to(here) if mine else bytes_on(here, int(size))
        for piece in pieces(block):
            found.broadcast(piece, root).wait()
    if error is not None:
        raise error
    return batch if mine else _container(block, root, device)


def scatter(batch: Any, src: int, batches: Any, group: Any, device: Any) -> Any:
    """See `TensorDictBase.scatter`."""
    found = group_of(group)
    root, world = rank_in(found, src, "src"), found.size()
    here, mine = device_of(found), root == found.rank()
    parts: list[Tensor] = []
    error: Exception | None = None
    if mine:
        given = list(batches) if isinstance(batches, (list, tuple)) else []
        if len(given) != world:
            what = f"scatter: rank {root} gives one container for each of {world} ranks"
            error = ArgumentError(f"{what}, got {len(given)}")
        said = [(packed({"problem": str(error)}), error)] * world if error else [_bytes_of(one) for one in given]
        parts = [raw for raw, _ in said]
        error = next((problem for _, problem in said if problem is not None), None)
    with talking(found, f"scatter from rank {root}"):
        sizes = torch.tensor([len(raw) for raw in parts] if mine else [0] * world, device=here)
        found.broadcast(sizes, root).wait()
        room = bytes_on(here, int(sizes.max()))
        rows = [torch.cat([raw, raw.new_zeros(len(room) - len(raw))]).to(here) for raw in parts]
        for number, piece in enumerate(pieces(room)):
            found.scatter(piece, [pieces(row)[number] for row in rows], root).wait()
    if error is not None:
        raise error
    return _container(room[: int(sizes[found.rank()])], root, device)


def all_gather(batch: Any, group: Any) -> list[Any]:
    """See `TensorDictBase.all_gather`."""
    found = group_of(group)
    raw, error = _bytes_of(batch)
    with talking(found, "all_gather"):
        blocks = all_bytes(found, raw.to(device_of(found)))
    if error is not None:
        raise error
    return [_container(block, rank, None) for rank, block in enumerate(blocks)]


def init_remote(batch: Any, dst: Any, group: Any, use_broadcast: bool) -> None:
    """See `TensorDictBase.init_remote`."""
    if use_broadcast:
        found = group_of(group)
        broadcast(batch, found.rank() if group is None else dist.get_rank(), group, None)
        return
    found, peer = peer_of(dst, group, None, "dst")
    error: Exception | None = None
    try:
        whole = whole_message(packed(batch), device_of(found))
    except FAULTS as problem:
        error, whole = problem, problem_message(problem, device_of(found))
    with talking(found, f"init_remote to rank {peer}"):
        for part in parts_of(whole):
            found.send([part], peer, 2 * _REMOTE).wait()
    if error is not None:
        raise error


def from_remote_init(src: int, group: Any, device: Any, use_broadcast: bool) -> Any:
    """See `TensorDictBase.from_remote_init`."""
    if use_broadcast:
        return broadcast(None, src, group, device)
    found, peer = peer_of(src, group, None, "src")
    message: Any = Incoming(found, peer, _REMOTE).message()
    if message.is_problem:
        raise WorkerError(f"rank {peer} could not send its container: {message.text.decode()}")
    return _container(message.values, peer, device)


# ---- operations that fill a structure
# -------------------------------------------------------------------------------------


def _agree(group: Any, structure: Structure | None, problem: Exception | None, doing: str) -> Structure:
    """Check that all ranks have the same structure and no problem; the outcome is the same on all ranks."""
    device = device_of(group)
    digest = -1 if structure is None else structure.digest
    with talking(group, doing):
        found = torch.tensor([digest, -digest, problem is not None], dtype=torch.int64, device=device)
        group.allreduce([found], dist.ReduceOp.MAX).wait()
        high, low, wrong = found.tolist()
        if structure is not None and high == -low and not wrong:
            return structure
        rows = () if structure is None else structure.rows
        said = pickle.dumps((rows, None if problem is None else f"{type(problem).__name__}: {problem}"))
        raw = torch.frombuffer(bytearray(said), dtype=torch.uint8).to(device)
        told = [pickle.loads(one.cpu().numpy().tobytes()) for one in all_bytes(group, raw)]
    if problem is not None:
        raise problem
    for rank, (_, text) in enumerate(told):
        if text is not None:
            raise WorkerError(f"{doing}: rank {rank} could not take part: {text:.2000}; nothing was changed")
    texts = [difference(told[0][0], rows, "rank 0", f"rank {rank}") for rank, (rows, _) in enumerate(told)]
    raise StructureError(f"{doing}: the structures differ: {next(filter(None, texts))}; nothing was changed")


class Reducing:
    """A started reduction; `wait()` writes the result."""

    def __init__(self, group: Any, structure: Structure, op: Any, root: int | None, bucket: int | None) -> None:
        self._group, self._structure, self._root = group, structure, root
        self._runs = structure.runs
        self._average = op == dist.ReduceOp.AVG
        device = device_of(group)
        self._flat: list[Tensor] = []
        self._works: list[Any] = []
        given = dist.ReduceOp.SUM if self._average else op
        with talking(group, self._doing):
            for run in self._runs:
                flat = joined(structure.leaves, run, device)
                self._flat.append(flat)
                real = torch.view_as_real(flat).view(-1) if flat.is_complex() else flat
                for piece in real.split(max(1, (bucket or BUCKET) // run.dtype.itemsize)) if len(real) else ():
                    self._works.append(
                        group.allreduce([piece], given) if root is None else group.reduce(piece, root, given)
                    )

    @property
    def _doing(self) -> str:
        return "all_reduce" if self._root is None else f"reduce to rank {self._root}"

    def wait(self, timeout: Any = None) -> bool:
        """Wait for all ranks, then write the result.

        Raises:
            WorkerError: if a rank doesn't answer; nothing is written.
        """
        works, self._works = self._works, []
        with talking(self._group, self._doing):
            for work in works:
                work.wait()
        if works and self._root in (None, self._group.rank()):
            self._write()
        return True

    def _write(self) -> None:
        leaves = self._structure.leaves
        values: list[Tensor] = list(leaves)
        for run, flat in zip(self._runs, self._flat, strict=True):
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
    found = group_of(group)
    to = None if root is None else rank_in(found, root, "dst")
    wanted = dist.ReduceOp.SUM if op is None else op
    problem, structure = None, None
    try:
        if not isinstance(wanted, (dist.ReduceOp, dist.ReduceOp.RedOpType)):
            raise ArgumentError(f"op is of torch.distributed.ReduceOp, got {op!r:.80}")
        at_least(1, bucket_bytes=bucket)
        structure = Structure(batch)
        check_writable(structure.leaves, structure.names)
        for run in structure.runs:
            _check_reducible(run, structure.names, wanted, found)
    except FAULTS as error:
        problem = error
    reducing = Reducing(found, _agree(found, structure, problem, "reduce"), wanted, to, bucket)
    if early:
        return [reducing]
    reducing.wait()
    return None


def _check_reducible(run: Run, names: list[str], op: Any, group: Any) -> None:
    dtype, name = run.dtype, names[run.places[0]]
    total = op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG)
    inner = dtype.to_real() if dtype.is_complex and total else dtype
    gloo = device_of(group).type == "cpu"
    exact = not (inner.is_floating_point or dtype.is_complex)
    bits = op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)
    if (gloo and inner not in _GLOO) or dtype.is_complex != inner.is_complex is True or (bits and not exact):
        why = f"the backend can't reduce {dtype} with {op}"
    elif op == dist.ReduceOp.AVG and exact:
        why = f"a mean of {dtype} is none of its values; reduce the sum, or convert the field"
    else:
        return
    raise UnsupportedOperationError(f"reduce: `{name}`: {why}; nothing was changed")


def all_reduce(batch: Any, op: Any, group: Any, early: bool, bucket: int | None) -> Any:
    """See `TensorDictBase.all_reduce`."""
    return _reduction(batch, op, group, None, early, bucket)


def reduce(batch: Any, dst: int, op: Any, early: bool, group: Any, bucket: int | None) -> Any:
    """See `TensorDictBase.reduce`."""
    return _reduction(batch, op, group, dst, early, bucket)


def gather_and_stack(batch: Any, dst: int, group: Any) -> Any:
    """See `TensorDictBase.gather_and_stack`."""
    found = group_of(group)
    root, mine = rank_in(found, dst, "dst"), found.rank()
    problem, structure = None, None
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
    except FAULTS as error:
        problem = error
    structure = _agree(found, structure, problem, "gather_and_stack")
    if mine != root:
        parts, _ = outgoing(batch, structure, False, device_of(found))
        with talking(found, f"gather_and_stack to rank {root}"):
            for part in parts:
                found.send([part], root, 2 * _REMOTE).wait()
        return None
    others = [rank for rank in range(found.size()) if rank != root]
    messages = [Incoming(found, rank, _REMOTE).message() for rank in others]
    for number, message in enumerate(filter(None, messages)):
        target = batch[number]
        take(target, Structure(target), message)
    return batch
