"""Datasets as those of Ray Data and as bags of Dask: they hold row numbers, and their tasks read the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..errors import ArgumentError, UnsupportedOperationError
from ..io import TensorClassDataset, to_arrow
from ..io._optional import optional
from ._rows import fitting


class RayBatches:
    """A dataset of Ray Data whose batches are of a tensorclass; `TensorClassDataset.to_ray` makes one.

    `dataset` is the `ray.data.Dataset` itself, whose blocks are Arrow tables.

    Args:
        dataset: a dataset of Ray Data with a column for each field.
        cls: the class of its rows.
    """

    def __init__(self, dataset: Any, cls: Any) -> None:
        self.dataset = dataset
        self.cls = cls

    def map_batches(
        self, fn: Any, cls: Any = None, batch_size: int = 1024, concurrency: int | None = None, **options: Any
    ) -> RayBatches:  # fmt: skip
        """Call a function, module or pipeline on typed batches.

        Args:
            fn: takes a batch of the class, and gives one of `cls`.
            cls: the class of the results; the same when omitted. They are checked, not cast.
            batch_size: rows of a batch.
            concurrency: how many actors, each with an `fn` of its own, as a model on a GPU needs; tasks when omitted.
            options: as `ray.data.Dataset.map_batches` takes them: `num_cpus`, `num_gpus`, ...
        """
        if not callable(fn):
            raise ArgumentError(f"map_batches takes a function of a batch, got {fn!r:.80}")
        wanted = self.cls if cls is None else cls
        how: dict[str, Any] = {"batch_format": "pyarrow", "batch_size": batch_size, **options}
        if concurrency is not None:
            args = (fn, self.cls, wanted)
            made = self.dataset.map_batches(_Typed, fn_constructor_args=args, compute=_actors(concurrency), **how)
        else:
            made = self.dataset.map_batches(_Typed(fn, self.cls, wanted).__call__, **how)
        return RayBatches(made, wanted)

    def __iter__(self) -> Iterator[Any]:
        return self.iter_batches()

    def iter_batches(self, batch_size: int = 1024, **options: Any) -> Iterator[Any]:
        """The rows in typed batches."""
        for table in self.dataset.iter_batches(batch_size=batch_size, batch_format="pyarrow", **options):
            yield self.cls.from_arrow(table)

    def count(self) -> int:
        """How many rows there are."""
        return int(self.dataset.count())


def _actors(size: Any) -> Any:
    return optional("ray.data", "A dataset of Ray Data", "ray").ActorPoolStrategy(size=size)


class _Typed:
    """A function of typed batches as one of tables."""

    def __init__(self, fn: Callable[[Any], Any], cls: Any, wanted: Any) -> None:
        self.fn, self.cls, self.wanted = fn, cls, wanted

    def __call__(self, table: Any) -> Any:
        return to_arrow(fitting(self.fn(self.cls.from_arrow(table)), self.wanted))


def to_ray(data: TensorClassDataset[Any], rows_per_block: int) -> RayBatches:
    """See `TensorClassDataset.to_ray`."""
    ray = optional("ray.data", "A dataset of Ray Data", "ray")
    cls, step = _class_of(data, "to_ray"), _step(rows_per_block)
    begins = [{"begin": begin} for begin in range(0, len(data), step)]
    blocks = ray.from_items(begins, override_num_blocks=max(1, len(begins)))
    read = partial(_table, data, step)
    return RayBatches(blocks.map_batches(read, batch_format="numpy", batch_size=1), cls)


def _table(data: TensorClassDataset[Any], step: int, table: Any) -> Any:
    begin = int(table["begin"][0])
    return to_arrow(data[begin : begin + step])


def from_ray(kind: Any, dataset: Any, out: Any, row_cls: Any, rows_per_shard: int | None, pbar: bool) -> Any:
    """See `TensorClassDataset.from_ray`."""
    typed = dataset if isinstance(dataset, RayBatches) else RayBatches(dataset, row_cls)
    wanted = row_cls or typed.cls
    if wanted is None:
        raise ArgumentError("from_ray: pass row_cls=, the tensorclass of the rows")
    if not callable(getattr(typed.dataset, "iter_batches", None)):
        raise ArgumentError(f"from_ray takes a dataset of Ray Data, got {dataset!r:.80}")
    return kind._of_batches(RayBatches(typed.dataset, wanted).iter_batches(), out, rows_per_shard, pbar)


def to_dask(data: TensorClassDataset[Any], rows_per_batch: int) -> Any:
    """See `TensorClassDataset.to_dask`."""
    bag = optional("dask.bag", "A bag of Dask", "dask")
    step = _step(rows_per_batch)
    begins = list(range(0, len(data), step))
    return bag.from_sequence(begins, npartitions=max(1, len(begins))).map(partial(_batch, data, step))


def _batch(data: TensorClassDataset[Any], step: int, begin: int) -> Any:
    return data[begin : begin + step]


def _step(rows: int) -> int:
    if rows < 1:
        raise ArgumentError(f"rows of a block are a number from 1, got {rows!r:.40}")
    return rows


def _class_of(data: TensorClassDataset[Any], verb: str) -> Any:
    if data.cls is None:
        raise UnsupportedOperationError(f"{data.paths[0]}: {verb} needs the class of the rows; pass it: `cls=`")
    return data.cls
