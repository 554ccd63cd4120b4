"""Datasets to datasets: `map`, `filter`, `shuffle`, `repartition`, `sort_by`, `group_by`, `sample`.

A task is the number of a part; rows are never sent. Workers write shards, and the driver lists them in order.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._places import is_url, whole_path
from ..errors import ArgumentError
from ..io import TensorClassDataset
from ..io._progress import progress
from ..ops import cat
from ..ops._by_row import places_in_order, ranks
from ._choose import choose, runs_alone
from ._commit import Commits, MapRequest
from ._engines import at_least
from ._mesh_maps import Meeting, MeshCommits, MeshEngine, heard_by_all
from ._order import ListedRows, RowOrder, Shuffled
from ._rows import Jobs, PartTask, RowJob, class_of_rows, identity, needed_class
from ._stream import ordered

_PARTS = 16
"""A small dataset is cut into this many parts, so that every worker has work."""
Data = TensorClassDataset[Any]


class WriteHow(NamedTuple):
    """The common options of these methods."""

    out: Any
    engine: Any = None
    num_workers: int | None = None
    batch_size: int = 1024
    rows_per_shard: int | None = None
    resume: bool = False
    pbar: bool = False
    checksums: bool = False
    retries: int | None = None
    timeout: float | None = None
    layout: Meeting | None = None

    def per(self, data: Data, rows: int) -> int:
        """Rows of a part, in whole batches: as many as a shard of the source, or fewer for a small dataset."""
        at_least(1, batch_size=self.batch_size, rows_per_shard=self.rows_per_shard)
        if self.rows_per_shard is not None:
            return self.rows_per_shard
        largest = max([shard.rows for shard in data.shards], default=1)
        batches = max(1, min(largest, -(-rows // _PARTS)) // self.batch_size)
        return batches * self.batch_size


class Piece(NamedTuple):
    """A dataset to write: its folder, its rows, and further facts that a resuming call must match."""

    out: Any
    order: RowOrder
    detail: str = ""


def _run(
    data: Data,
    options: dict[str, Any],
    verb: str,
    order: RowOrder,
    fn: Any = None,
    cls: Any = None,
    seed: int = 0,
    skip: bool = False,
    detail: str = "",
) -> Data:
    how = WriteHow(**options)
    return _run_all(data, how, verb, [Piece(how.out, order, detail)], fn, cls, seed, skip)[0]


def _run_all(
    data: Data, how: WriteHow, verb: str, pieces: list[Piece], fn: Any, cls: Any, seed: int, skip: bool
) -> tuple[Data, ...]:
    """Write datasets, one after the other, in the workers of one engine."""
    for piece in pieces:
        piece.order.per = how.per(data, piece.order.count)
    engine, workers = choose(how.engine, how.num_workers, retries=how.retries, timeout=how.timeout)
    start: Any = Commits
    alone, source = runs_alone(engine), identity(data, len(data.shards))
    outs = [_folder(data, piece.out) for piece in pieces]
    if how.layout is not None:
        layout = how.layout.layout
        how.layout.meet(layout.data_rank)
        engine, start = MeshEngine(layout, engine), partial(MeshCommits, layout)
    jobs = [
        RowJob(data, fn, verb, cls, out, piece.order, how.batch_size, skip, seed, alone, how.checksums)
        for out, piece in zip(outs, pieces, strict=True)
    ]
    begun: dict[int, Any] = {}
    classes = dict.fromkeys(range(len(pieces)), cls)

    def finish(number: int) -> None:
        with begun.pop(number) as commits:
            commits.finish()
        classes[number] = commits.cls

    def tasks(step: Any) -> Iterator[PartTask]:
        for number, (out, piece) in enumerate(zip(outs, pieces, strict=True)):
            count, per = piece.order.count, piece.order.per
            asked = MapRequest(
                verb=verb,
                source=source,
                rows=count,
                batch_size=how.batch_size,
                rows_per_shard=per,
                seed=seed,
                skip=skip,
                detail=piece.detail,
            )
            commits = begun[number] = start(out, asked, cls, how.resume)
            parts = range(0) if commits.done else range(commits.next, -(-count // per))
            step(min(count, commits.next * per))
            yield from [PartTask(number, part) for part in parts]
            if not parts:
                finish(number)

    with ExitStack() as stack:
        stack.callback(_leave_all, begun)
        step = stack.enter_context(progress(how.pbar, sum([piece.order.count for piece in pieces]), verb))
        left = tasks(step)
        first = next(left, None)  # checks run before an engine starts
        for (number, part, *_), done in ordered(engine, Jobs(jobs), chain([first], left), workers) if first else ():
            begun[number].add(part, done)
            begin, end = jobs[number].span(part)
            step(end - begin)
            if end == pieces[number].order.count:
                finish(number)
    return tuple([TensorClassDataset(out, classes[number]) for number, out in enumerate(outs)])


def _leave_all(begun: Mapping[int, Any]) -> None:
    """Leave the commits that a failed map has begun."""
    with ExitStack() as stack:
        for commits in begun.values():
            stack.enter_context(commits)


def _folder(data: Data, out: Any) -> str:
    if not isinstance(out, (str, os.PathLike)) or not os.fspath(out):
        raise ArgumentError(f"out is the path of a folder, got {out!r:.80}")
    path = whole_path(out)
    if any([_real_path(path) == _real_path(one) for one in data.paths]):
        raise ArgumentError(f"out is another folder than that of the dataset, got {path!r:.200}")
    return path


def _real_path(path: str) -> str:
    return path if is_url(path) else os.path.realpath(path)


def _function(fn: Any, verb: str) -> str:
    """The name of a function, which a call that goes on has too; of a module or an object, that of its class."""
    if not callable(fn):
        raise ArgumentError(f"{verb} takes a function of a batch, got {fn!r:.80}")
    inner = getattr(fn, "func", fn)  # of a `partial`
    return f"function {getattr(inner, '__qualname__', type(inner).__qualname__)}"


def _skips(data: Data, errors: Any) -> bool:
    if errors not in ("raise", "skip"):
        raise ArgumentError(f'errors is "raise" or "skip", got {errors!r:.60}')
    return errors == "skip" and needed_class(data, 'errors="skip"') is not None


@heard_by_all
def map_rows(data: Data, fn: Callable[[Any], Any], cls: Any, seed: int, errors: str, **how: Any) -> Data:
    """See `TensorClassDataset.map`."""
    name = _function(fn, "map")
    if cls is not None:
        class_of_rows(cls, "cls")
    return _run(data, how, "map", RowOrder(len(data)), fn, cls, seed, _skips(data, errors), name)


@heard_by_all
def filter_rows(data: Data, fn: Callable[[Any], Any], errors: str, **how: Any) -> Data:
    """See `TensorClassDataset.filter`."""
    name, cls = _function(fn, "filter"), needed_class(data, "filter")
    return _run(data, how, "filter", RowOrder(len(data)), fn, cls, skip=_skips(data, errors), detail=name)


@heard_by_all
def shuffle_rows(data: Data, seed: int, **how: Any) -> Data:
    """See `TensorClassDataset.shuffle`."""
    cls = needed_class(data, "shuffle")
    return _run(data, how, "copy", Shuffled(len(data), seed), None, cls, seed, detail="shuffle")


@heard_by_all
def repartition_rows(data: Data, **how: Any) -> Data:
    """See `TensorClassDataset.repartition`."""
    return _run(data, how, "copy", RowOrder(len(data)), None, needed_class(data, "repartition"))


@heard_by_all
def sample_rows(data: Data, size: Any, seed: int, **how: Any) -> Data:
    """See `TensorClassDataset.sample`."""
    rows = len(data)
    number = round(size * rows) if type(size) is float and 0 <= size <= 1 else size
    if type(number) is not int or not 0 <= number <= rows:
        raise ArgumentError(
            f"size is a number of rows up to {rows}, or a part of them from 0.0 to 1.0, got {size!r:.40}"
        )
    drawn = np.sort(Shuffled(rows, seed).rows(0, number)) if rows else np.empty(0, np.int64)
    cls = needed_class(data, "sample")
    return _run(data, how, "copy", ListedRows(drawn), None, cls, seed, detail=f"sample {number}")


@heard_by_all
def sort_rows(data: Data, field: Any, descending: bool, **how: Any) -> Data:
    """See `TensorClassDataset.sort_by`."""
    cls = needed_class(data, "sort_by")
    found = places_in_order(_ranks(data, field, "sort_by"), descending).argsort(stable=True).numpy()
    return _run(data, how, "copy", ListedRows(found), None, cls, detail=f"sort {field!s:.80} {descending}")


@heard_by_all
def group_rows_by(data: Data, field: Any, **how: Any) -> tuple[Any, tuple[Data, ...]]:
    """See `TensorClassDataset.group_by`."""
    cls, given = needed_class(data, "group_by"), WriteHow(**how)
    values, places, _ = _ranks(data, field, "group_by")
    order = places.argsort(stable=True).numpy()
    groups = np.split(order, np.cumsum(np.bincount(places.numpy(), minlength=len(values)))[:-1]) if len(values) else []
    pieces = []
    for number, rows in enumerate(groups):
        digest = hashlib.sha256(rows.tobytes()).hexdigest()[:16]
        out = os.path.join(whole_path(given.out), f"{number:06d}")
        pieces.append(Piece(out, ListedRows(rows), f"group {field!s:.80} {digest}"))
    return values, _run_all(data, given, "copy", pieces, None, cls, 0, False)


def _ranks(data: Data, field: Any, op: str) -> tuple[Any, Tensor, int]:
    """`ops._by_row.ranks` of one field of all rows, with numbers as a tensor. Other fields are not read."""
    parts = [*data.pick(field)._blocks()]
    if not parts:
        return [], torch.empty(0, dtype=torch.int64), 0
    path = getattr(field, "__field_path__", field)
    values, places, present = ranks(cat(parts), path, op)
    column = parts[0].get(path)
    return torch.tensor(values, dtype=column.dtype) if type(column) is Tensor else values, places, present
