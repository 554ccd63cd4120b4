"""Maps one part of a dataset to a shard of another one: read rows, call a function, write a shard."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._schema import PerElement, schema_of
from ..classes import TensorClass
from ..core import TensorCollection
from ..errors import ArgumentError, BatchSizeError, FileFormatError, UnsupportedOperationError, WorkerError
from ..io import TensorClassDataset
from ..io._access import current_access, reaching
from ..io._advice import IntArray
from ..io._manifest import ShardEntry
from ..io._pack import pack
from ..io._writer import write_shard
from ..ops import cat
from ..ops._by_row import as_mask
from ..typing import Int64
from ._engines import Failed, error_at
from ._order import RowOrder
from ._seeds import seed_of, seeded_block

T = TypeVar("T")
Span = tuple[int, int]
"""Where rows begin and end in an order."""


class PartTask(NamedTuple):
    """The part of a dataset that a worker writes."""

    job: int
    part: int
    span: Span | None = None
    """Only try these rows, and write nothing."""
    fatal: dict[Span, str] | None = None
    """The rows whose workers died, with the causes: they are halved, and single rows have failed."""


class FailedRow(TensorClass, Generic[T]):
    """A row for which a function raised an exception: its number in the source, the row, and the error."""

    number: Int64[Tensor, ""]
    row: T
    error: PerElement[str]


class Done(NamedTuple):
    """The result of a part."""

    entry: ShardEntry | None
    """The shard; None if no row is left."""
    cls: Any
    """The class of its rows."""
    failed: ShardEntry | None
    """The shard of the rows that failed."""
    lost: int
    """The number of failed rows."""


def identity(data: TensorClassDataset[Any], shards: int) -> str:
    """A short text that identifies the first shards of a dataset."""
    return hashlib.sha256(":".join([shard.entry.id for shard in data.shards[:shards]]).encode()).hexdigest()[:16]


class RowJob:
    """Writes the parts of a dataset.

    Args:
        data: the source. Workers open it by its path.
        fn: takes a batch.
        verb: "map", "filter", or "copy" for unchanged rows.
        cls: the class of the results; None for that of the first result.
        out: the folder of the shards.
        order: the rows of each part.
        size: rows of a batch.
        skip: leave out rows for which the function raises, and write them to `out/failed`.
        seed: the seeds of all batches derive from it.
        alone: whether each task runs alone in a process.
        checksums: write checksums.
    """

    def __init__(
        self,
        data: TensorClassDataset[Any],
        fn: Callable[[Any], Any],
        verb: str,
        cls: Any,
        out: str,
        order: RowOrder,
        size: int,
        skip: bool,
        seed: int,
        alone: bool,
        checksums: bool,
    ) -> None:
        self.data, self.fn, self.verb, self.cls, self.out, self.order = data, fn, verb, cls, out, order
        self.size, self.skip, self.seed, self.alone_there, self.checksums = size, skip, seed, alone, checksums
        self._access = current_access()
        self._shards, self._identity = len(data.shards), identity(data, len(data.shards))

    def span(self, part: int) -> tuple[int, int]:
        """Where a part begins and ends in the order."""
        return part * self.order.per, min(self.order.count, (part + 1) * self.order.per)

    def about(self, part: int, span: Span | None = None) -> str:
        """A description of the rows of a part, for messages."""
        begin, end = span or self.span(part)
        return self._where(self.order.rows(begin, end))

    def _where(self, rows: IntArray) -> str:
        path = self.data.paths[0] if len(self.data.paths) == 1 else self.data.paths
        if len(rows) > 1 and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
            return f"in rows {rows[0]} to {rows[-1]} of {path}"
        shown = ", ".join(map(str, rows[:8].tolist()))
        return f"in rows {shown}{', ...' if len(rows) > 8 else ''} of {path}"

    def __call__(self, part: int, span: Span | None = None, fatal: dict[Span, str] | None = None) -> Any:
        """Write the shard of a part; with a span only try these rows."""
        try:
            if identity(self.data, self._shards) != self._identity:
                raise FileFormatError("the dataset was changed while it is mapped; map it again", self.data.paths[0])
            if span is not None:
                return sum([failed for _, failed in self._results(*span, {})])
            return self._made(part, fatal or {})
        except Exception as error:  # raised again in the process that called the map
            where = "" if getattr(error, "_placed", False) else self.about(part)
            return Failed(error_at(error, where) if where else error)

    def batches(self, part: int) -> list[Span]:
        """Where the batches of a part begin and end."""
        begin, end = self.span(part)
        return [(at, min(at + self.size, end)) for at in range(begin, end, self.size)]

    def _made(self, part: int, fatal: dict[Span, str]) -> Done:
        kept: list[Any] = []
        wrong: list[Any] = []
        for span in self.batches(part):
            for result, failed in self._results(*span, fatal):
                if failed:
                    wrong.append(result)
                elif len(result):
                    kept.append(result)
        cls = type(kept[0]) if kept else None
        lost = self._written(f"{self.out}/failed", part, wrong)
        return Done(self._written(self.out, part, kept), cls, lost, len(wrong))

    def _results(self, begin: int, end: int, fatal: dict[Span, str]) -> Iterator[tuple[Any, bool]]:
        """The results of the function for rows, and whether they are rows that failed.

        With `skip`, a batch that raises or kills its worker is halved until single rows are left. The source and the
        number of results are outside of this: a wrong number could be right for single rows.
        """
        rows = self.order.rows(begin, end)
        cause = fatal.get((begin, end))
        if cause is None:
            batch = self.data[torch.from_numpy(rows)]
            try:
                found = self._called(batch, begin)
            except (Exception, SystemExit) as error:  # the function may raise anything
                if not self.skip:
                    if isinstance(error, Exception):
                        self._at(error, rows)
                    raise
                cause = f"{type(error).__name__}: {error}"
            else:
                yield self._counted(found, batch, rows), False
                return
        failure = self._failure(int(rows[0]), cause) if end - begin == 1 else None
        if failure is not None:
            yield failure, True
        else:
            middle = (begin + end) // 2
            yield from self._results(begin, middle, fatal)
            yield from self._results(middle, end, fatal)

    def _called(self, batch: Any, begin: int) -> Any:
        if self.verb == "copy":
            return batch
        with seeded_block(seed_of(self.seed, begin), self.alone_there):
            found = self.fn(batch)
        return found if self.verb == "filter" else fitting(found, self.cls)

    def _counted(self, found: Any, batch: Any, rows: IntArray) -> Any:
        """The result, with an element for each row; of a filter the rows that it keeps."""
        count = len(rows)
        if self.verb == "filter":
            try:
                return batch[as_mask(found, count).cpu()]
            except (ArgumentError, BatchSizeError) as error:
                raise self._at(error, rows) from None
        if found.batch_size != (count,):
            why = (
                f"map: the function was given {count} rows and gave batch size {list(found.batch_size)}; it gives "
                "one row for each, `filter` leaves rows out"
            )
            raise self._at(BatchSizeError(why), rows)
        return found

    def _at(self, error: Exception, rows: IntArray) -> Exception:
        error_at(error, self._where(rows))
        error._placed = True  # type: ignore[attr-defined]  # `__call__` reads it
        return error

    def _failure(self, row: int, text: str) -> Any:
        generic: Any = FailedRow
        held = generic[self.data.cls]
        number = torch.tensor([row], dtype=torch.int64)
        return held(number=number, row=self.data[number], error=[text], batch_size=[1])

    def _written(self, folder: str, part: int, rows: list[Any]) -> ShardEntry | None:
        if not rows:
            return None
        kinds = {type(one) for one in rows}
        if len(kinds) > 1:
            names = sorted(cls.__name__ for cls in kinds)
            raise ArgumentError(f"map: the function gives rows of one class, got {' and '.join(names)}; pass cls=")
        whole = rows[0] if len(rows) == 1 else cat(rows)
        with reaching(self._access):  # a worker is outside the block of the caller
            return write_shard(folder, part, pack(whole.detach().cpu()), len(whole), self.checksums)


class Jobs:
    """Several jobs in one; a task names one of them."""

    def __init__(self, jobs: list[RowJob]) -> None:
        self.jobs = jobs
        self.fn = jobs[0].fn if jobs else None

    def about(self, task: PartTask) -> str:
        """A description of the rows, for messages."""
        return self.jobs[task.job].about(task.part, task.span)

    def tries(self, task: PartTask) -> int | None:
        """Several rows are tried once, as their halves follow; None for what the engine does."""
        return None if task.span is None or task.span[1] - task.span[0] == 1 else 1

    def __call__(self, task: PartTask) -> Any:
        """Write the shard of a part."""
        return self.jobs[task.job](*task[1:])

    def rescued(self, task: PartTask, lost: Failed, run: Callable[[list[PartTask]], list[Any]]) -> Any:
        """The result of a part whose workers died, without the rows that kill them.

        Its batches are tried one by one, and halved as long as their workers die. Then the part runs again.

        Args:
            task: the part.
            lost: its error, which is the result unless failed rows are left out.
            run: runs tasks, each in a group of its own.
        """
        job = self.jobs[task.job]
        if not job.skip:
            return lost
        fatal: dict[Span, str] = {}
        spans = job.batches(task.part)
        while spans:
            found = run([task._replace(span=span) for span in spans])
            dead = [(span, one.error) for span, one in zip(spans, found, strict=True) if isinstance(one, Failed)]
            other = next((error for _, error in dead if not isinstance(error, WorkerError)), None)
            if other is not None:
                return Failed(other)
            fatal.update({span: f"{type(error).__name__}: {error}" for span, error in dead})
            halves = [(begin, (begin + end) // 2, end) for (begin, end), _ in dead if end - begin > 1]
            spans = [span for begin, middle, end in halves for span in ((begin, middle), (middle, end))]
        return run([task._replace(fatal=fatal)])[0]


def fitting(found: Any, cls: Any) -> Any:
    """A result as a checked instance of the class; nothing is cast."""
    if not isinstance(found, TensorCollection):
        raise ArgumentError(f"map: the function gives a container for a batch, got a {type(found).__name__}")
    wanted: Any = type(found) if cls is None else cls
    if schema_of(wanted) is None:
        raise ArgumentError(f"map: the function gave a {wanted.__name__}; pass cls=, the tensorclass of the new rows")
    if schema_of(type(found)) is None:
        return wanted.from_tensordict(found)
    if not isinstance(found, wanted):
        raise ArgumentError(f"map: the function gave a {type(found).__name__}, the new rows are of {wanted.__name__}")
    typed: Any = found
    return type(typed).from_tensordict(typed._store)


def class_of_rows(cls: Any, name: str) -> Any:
    """Check an argument that gives the class of new rows."""
    if not isinstance(cls, type) or schema_of(cls) is None:
        raise ArgumentError(f"{name} is the tensorclass of the new rows, got {cls!r:.80}")
    return cls


def needed_class(data: TensorClassDataset[Any], verb: str) -> Any:
    """The class of the rows of a dataset."""
    if data.cls is None:
        raise UnsupportedOperationError(f"{data.paths[0]}: {verb} needs the class of the rows; pass it: `cls=`")
    return data.cls
