"""`map` and `map_iter` of containers: a function over chunks, in workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._deferred import is_dtensor
from .._flags import count
from .._system import cores
from ..core import InTurn, Path, TensorCollection, Turn
from ..errors import ArgumentError, BatchDimError, BatchSizeError, StructureError, UnsupportedOperationError
from ..io._memmap import is_memmap, tensors_in
from ..io._progress import progress
from ..ops import cat, stack
from ._choose import choose, runs_alone, stays_here
from ._engines import Engine, Failed, Inline, at_least, error_at
from ._mesh_maps import MeshEngine, expect_layout, run_together
from ._processes import ProcessEngine
from ._seeds import base_seed, seed_of, seeded_block
from ._share import is_shared
from ._stream import HELD, ordered


@dataclass(eq=False)
class ChunkJob:
    """Calls a function on a chunk.

    Args:
        fn: takes a chunk.
        source: the container.
        dim: the dim that is cut.
        cuts: where each chunk begins and ends.
        seed: the seeds of all chunks derive from it; None leaves generators unchanged.
        alone_there: whether each task has a process to itself.
        order: the order of the elements, if they are shuffled.
        out: a container that workers write their results to.
        watched: whether the function gets views of the source in this process, which it must not write to.
    """

    fn: Callable[[Any], Any]
    source: Any
    dim: int
    cuts: Cuts
    seed: int | None
    alone_there: bool
    order: Tensor | None = None
    out: Any = None
    watched: bool = False

    def about(self, task: int) -> str:
        """A description of the chunk, for messages."""
        return f"in elements {self.cuts.begin(task)} to {self.cuts.end(task) - 1} along dim {self.dim}"

    def part(self, of: Any, task: int) -> Any:
        """A chunk of a container: a view, or a copy of shuffled elements."""
        begin, end = self.cuts.begin(task), self.cuts.end(task)
        which: Any = slice(begin, end) if self.order is None else self.order[begin:end]
        if self.cuts.single:
            which = begin if self.order is None else self.order[begin]
        index = (*[slice(None)] * self.dim, which)
        return of[index]

    def __call__(self, task: int) -> Any:
        """The result of the function for a chunk."""
        seed = None if self.seed is None else seed_of(self.seed, task)
        out = None if self.out is None else self.part(self.out, task)
        chunk = self.part(self.source, task)
        before = _versions(chunk) if self.watched else []
        found = _call_on_chunk(self.fn, chunk, seed, self.alone_there, self.about(task), out)
        written = next((path for path, leaf, version in before if leaf._version != version), None)
        if written is None or isinstance(found, Failed):
            return found
        return Failed(
            ArgumentError(
                f"map: the function wrote to `{'.'.join(written)}` of its chunk, {self.about(task)}; in a thread that "
                "changes the data itself, in a process a copy: write to `chunk.clone()`"
            )
        )

    def alone(self, task: int) -> Any:
        """A job for one chunk, for a pool."""
        return partial(_call_on_chunk, self.fn, self.part(self.source, task), None, True, self.about(task), None)


def _versions(chunk: Any) -> list[tuple[Path, Tensor, int]]:
    """The tensors of a chunk, and how often each was written to so far."""
    leaves = [*tensors_in(chunk)] if isinstance(chunk, TensorCollection) else []
    return [(path, leaf, leaf._version) for path, leaf in leaves if not leaf.is_inference()]


def _call_on_chunk(fn: Callable[[Any], Any], chunk: Any, seed: int | None, alone: bool, about: str, out: Any) -> Any:
    """The result of the function for a chunk, or True if it is written to `out`; an error is returned as `Failed`."""
    try:
        if seed is None:
            found = fn(chunk)
        else:
            with seeded_block(seed, alone):
                found = fn(chunk)
        if out is None or found is None:
            return found
        _write(out, found, about)
        return True
    except Exception as error:  # raised again in the process that called the map
        return Failed(error_at(error, about))


def _write(out: Any, result: Any, about: str) -> None:
    if not isinstance(result, TensorCollection):
        raise ArgumentError(f"map: out= takes containers, the function gave a {type(result).__name__} {about}")
    if result.batch_size != out.batch_size:
        size, room = list(result.batch_size), list(out.batch_size)
        raise BatchSizeError(f"map: the function gave batch size {size}, out has {room} {about}")
    with torch.no_grad():
        out.update_(result)


class Cuts(NamedTuple):
    """The cuts of a dim."""

    size: int
    step: int
    single: bool

    def begin(self, task: int) -> int:
        """Where a chunk begins."""
        return task * self.step

    def end(self, task: int) -> int:
        """Where it ends."""
        return min(self.size, (task + 1) * self.step)

    @property
    def number(self) -> int:
        """The number of chunks."""
        return -(-self.size // self.step)


def cut_up(
    batch: Any, dim: Any, chunksize: int | None, num_chunks: int | None, workers: int | None
) -> tuple[int, Cuts]:
    """The dim, counted from 0, and the cuts.

    Raises:
        BatchDimError: for anything but a batch dim.
        ArgumentError: for numbers that define no chunks.
    """
    count(dim=dim)
    ndim = batch.ndim
    if not -ndim <= dim < ndim:
        raise BatchDimError(f"map: dim {dim} is not a batch dim of batch size {list(batch.batch_size)}")
    if chunksize is not None and num_chunks is not None:
        raise ArgumentError(f"map takes chunksize or num_chunks, got both: {chunksize} and {num_chunks}")
    at_least(0, chunksize=chunksize)
    at_least(1, num_chunks=num_chunks)
    size = batch.batch_size[dim]
    if chunksize is None:
        chunksize = max(1, -(-size // (num_chunks or workers or cores())))
    return dim % ndim, Cuts(size, max(1, chunksize), chunksize == 0)


class _Plan(NamedTuple):
    engine: Engine
    workers: int | None
    job: ChunkJob
    pbar: bool
    held: float = HELD
    """Bytes of results that may wait for an earlier chunk."""

    def results(self, least: int = 0) -> Generator[Any, None, None]:
        """The results, in the order of the chunks; an empty container has at least this many empty chunks."""
        total = max(least, self.job.cuts.number)
        with progress(self.pbar, total, "map", "chunks") as step:
            for _, found in ordered(self.engine, self.job, range(total), self.workers, self.held):
                step(1)
                yield found


def _plan_chunks(
    batch: Any,
    fn: Any,
    dim: int,
    num_workers: Any,
    chunksize: int | None,
    num_chunks: int | None,
    pool: Any,
    generator: torch.Generator | None,
    engine: Any,
    pbar: bool,
    shuffle: bool,
    **options: Any,
) -> _Plan:
    if not callable(fn):
        raise ArgumentError(f"map takes a function of a container, got {fn!r:.80}")
    made, workers = choose(engine, num_workers, pool, **options)
    if not isinstance(made, Inline):
        refuse_placed(batch)
    known = workers or getattr(pool, "_processes", None)
    dim, cuts = cut_up(batch, dim, chunksize, num_chunks, known)
    base = None if pool is not None and generator is None else base_seed(generator)
    order = None
    if shuffle:
        drawn = torch.Generator().manual_seed(seed_of(base or 0, -1))
        order = torch.randperm(cuts.size, generator=drawn, device="cpu")
    watched = stays_here(made) and order is None and not is_shared(batch) and not is_memmap(batch)
    return _Plan(made, workers, ChunkJob(fn, batch, dim, cuts, base, runs_alone(made), order, None, watched), pbar)


def _plan_together(layout: Any, batch: Any, num_workers: Any, how: dict[str, Any]) -> _Plan:
    """The plan of the first rank, for all ranks of a mesh. An error on one rank is raised on all of them."""
    expect_layout(layout, "map: ")
    layout._expect_ranks(False)
    own: list[_Plan] = []

    def plan() -> tuple[Any, ...]:
        refuse_placed(batch)
        chunks = layout.data_rank()[1] * (num_workers or cores())
        number = how["num_chunks"] if how["chunksize"] is not None else how["num_chunks"] or chunks
        own.append(_plan_chunks(batch, num_workers=num_workers, shuffle=False, **{**how, "num_chunks": number}))
        job = own[0].job
        return repr(layout), type(batch).__name__, tuple(batch.batch_size), job.dim, job.cuts, job.seed

    first, *others = run_together(layout, plan)
    for other in others:
        if other[:4] != first[:4]:
            raise StructureError(
                f"map: one rank maps dim {first[3]} of a {first[1]} of batch size {list(first[2])} with {first[0]}, "
                f"another one dim {other[3]} of a {other[1]} of {list(other[2])} with {other[0]}; all ranks make the "
                f"same call"
            )
    job = replace(own[0].job, cuts=first[4], seed=first[5])
    return own[0]._replace(engine=MeshEngine(layout, own[0].engine), job=job)


def refuse_placed(batch: Any) -> None:
    """Refuse a distributed batch: chunks in workers would be pieces, and each rank would wait for the others.

    Raises:
        UnsupportedOperationError: names the field.
    """
    for path, leaf in tensors_in(batch):
        if is_dtensor(leaf):
            raise UnsupportedOperationError(
                f"map: `{'.'.join(path)}` is a DTensor; map `batch.local()` on each rank, or `batch.whole()` with "
                f"`layout=` on all ranks, or pass `num_workers=0`"
            )


def map_chunks(
    batch: Any, fn: Any, dim: int, num_workers: Any, *, out: Any, pbar: bool, layout: Any, **how: Any
) -> Any:
    """See `TensorDictBase.map`."""
    how |= {"fn": fn, "dim": dim, "pbar": pbar}
    if layout is None:
        plan = _plan_chunks(batch, num_workers=num_workers, shuffle=False, **how)
    else:
        plan = _plan_together(layout, batch, num_workers, how)
    job = plan.job
    if out is None:
        all_kept = plan._replace(held=math.inf)
        return _join_results(list(all_kept.results(int(not job.cuts.single))), job)
    if not isinstance(out, TensorCollection):
        raise ArgumentError(f"out is a container, got a {type(out).__name__}")
    if out.batch_size[job.dim : job.dim + 1] != (job.cuts.size,):
        raise BatchSizeError(f"map: out has batch size {list(out.batch_size)}, dim {job.dim} has {job.cuts.size}")
    if isinstance(plan.engine, ProcessEngine) and (is_shared(out) or is_memmap(out)):
        job.out = out  # workers write to shared memory
    job.watched = False  # results are written while other chunks are read, perhaps to the same tensors
    for task, found in enumerate(plan.results()):
        if found is not None and job.out is None:
            _write(job.part(out, task), found, job.about(task))
    return out


def iterate_chunks(batch: Any, fn: Any, dim: int, num_workers: Any, *, shuffle: bool, pbar: bool, **how: Any) -> Any:
    """See `TensorDictBase.map_iter`; arguments are checked before the first result is requested."""
    return InTurn(_plan_chunks(batch, fn, dim, num_workers, pbar=pbar, shuffle=shuffle, **how).results(), Turn())


def _join_results(results: list[Any], job: ChunkJob) -> Any:
    """The results, joined along the cut dim."""
    given = [found for found in results if found is not None]
    if not given:
        return None
    if len(given) != len(results):
        first = next(task for task, found in enumerate(results) if found is None)
        raise ArgumentError(
            f"map: the function gave None {job.about(first)}, and results elsewhere; nothing is left out in silence: "
            "give a result for every chunk, or use map_iter"
        )
    kinds = {isinstance(found, TensorCollection) for found in given}
    if kinds == {True}:
        return stack(given, job.dim) if job.cuts.single else cat(given, job.dim)
    wrong = next((found for found in given if not isinstance(found, (Tensor, TensorCollection))), None)
    if wrong is not None or len(kinds) > 1:
        raise ArgumentError(f"map: the function gives containers, or tensors, or None; got {wrong!r:.80}")
    return torch.stack(given, job.dim) if job.cuts.single else torch.cat(given, job.dim)
