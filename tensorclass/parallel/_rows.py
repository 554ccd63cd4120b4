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
from ..errors import ArgumentError, BatchSizeError, FileFormatError, UnsupportedOperationError
from ..io import TensorClassDataset
from ..io._advice import IntArray
from ..io._manifest import ShardEntry
from ..io._pack import pack
from ..io._writer import write_shard
from ..ops import cat
from ..ops._by_row import as_mask
from ..typing import Int64
from ._engines import Failed, placed
from ._order import Order
from ._seeds import seed_of, seeded

T = TypeVar("T")


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
        order: Order,
        size: int,
        skip: bool,
        seed: int,
        alone: bool,
        checksums: bool,
    ) -> None:
        self.data, self.fn, self.verb, self.cls, self.out, self.order = data, fn, verb, cls, out, order
        self.size, self.skip, self.seed, self.alone_there, self.checksums = size, skip, seed, alone, checksums
        self._shards, self._identity = len(data.shards), identity(data, len(data.shards))

    def span(self, part: int) -> tuple[int, int]:
        """Where a part begins and ends in the order."""
        return part * self.order.per, min(self.order.count, (part + 1) * self.order.per)

    def about(self, part: int) -> str:
        """A description of the part, for messages."""
        begin, end = self.span(part)
        return self._where(self.order.rows(begin, end))

    def _where(self, rows: IntArray) -> str:
        path = self.data.paths[0] if len(self.data.paths) == 1 else self.data.paths
        if len(rows) > 1 and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
            return f"in rows {rows[0]} to {rows[-1]} of {path}"
        shown = ", ".join(map(str, rows[:8].tolist()))
        return f"in rows {shown}{', ...' if len(rows) > 8 else ''} of {path}"

    def __call__(self, part: int) -> Any:
        """Write the shard of a part."""
        begin, end = self.span(part)
        try:
            if identity(self.data, self._shards) != self._identity:
                raise FileFormatError("the dataset was changed while it is mapped; map it again", self.data.paths[0])
            return self._made(part, begin, end)
        except Exception as error:  # raised again in the process that called the map
            where = "" if getattr(error, "_placed", False) else self.about(part)
            return Failed(placed(error, where) if where else error)

    def _made(self, part: int, begin: int, end: int) -> Done:
        kept: list[Any] = []
        wrong: list[Any] = []
        for at in range(begin, end, self.size):
            for result, failed in self._results(at, min(at + self.size, end)):
                if failed:
                    wrong.append(result)
                elif len(result):
                    kept.append(result)
        cls = type(kept[0]) if kept else None
        lost = self._written(f"{self.out}/failed", part, wrong)
        return Done(self._written(self.out, part, kept), cls, lost, len(wrong))

    def _results(self, begin: int, end: int) -> Iterator[tuple[Any, bool]]:
        """The results of the function for rows, and whether they are rows that failed.

        With `skip`, a batch that raises is halved until single rows are left. The source and the number of results are
        outside of this: a wrong number could be right for single rows.
        """
        rows = self.order.rows(begin, end)
        batch = self.data[torch.from_numpy(rows)]
        try:
            found = self._called(batch, begin)
        except Exception as error:  # the function may raise anything
            if not self.skip:
                self._at(error, rows)
                raise
            failure = self._failure(int(rows[0]), error) if end - begin == 1 else None
        else:
            yield self._counted(found, batch, rows), False
            return
        if failure is not None:
            yield failure, True
        else:
            middle = (begin + end) // 2
            yield from self._results(begin, middle)
            yield from self._results(middle, end)

    def _called(self, batch: Any, begin: int) -> Any:
        if self.verb == "copy":
            return batch
        with seeded(seed_of(self.seed, begin), self.alone_there):
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
        placed(error, self._where(rows))
        error._placed = True  # type: ignore[attr-defined]  # `__call__` reads it
        return error

    def _failure(self, row: int, error: Exception) -> Any:
        generic: Any = FailedRow
        held = generic[self.data.cls]
        number = torch.tensor([row], dtype=torch.int64)
        text = f"{type(error).__name__}: {error}"
        return held(number=number, row=self.data[number], error=[text], batch_size=[1])

    def _written(self, folder: str, part: int, rows: list[Any]) -> ShardEntry | None:
        if not rows:
            return None
        kinds = {type(one) for one in rows}
        if len(kinds) > 1:
            names = sorted(cls.__name__ for cls in kinds)
            raise ArgumentError(f"map: the function gives rows of one class, got {' and '.join(names)}; pass cls=")
        whole = rows[0] if len(rows) == 1 else cat(rows)
        return write_shard(folder, part, pack(whole.detach().cpu()), len(whole), self.checksums)


class Jobs:
    """Several jobs in one. A task is the number of a job, and a part of its dataset."""

    def __init__(self, jobs: list[RowJob]) -> None:
        self.jobs = jobs
        self.fn = jobs[0].fn if jobs else None

    def about(self, task: tuple[int, int]) -> str:
        """A description of the part, for messages."""
        return self.jobs[task[0]].about(task[1])

    def __call__(self, task: tuple[int, int]) -> Any:
        """Write the shard of a part."""
        return self.jobs[task[0]](task[1])


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
