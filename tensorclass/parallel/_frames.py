"""Datasets as Ray Data datasets and Dask bags. These hold row numbers, and their tasks read the rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import MappingProxyType
from typing import Any

from ..errors import ArgumentError
from ..io import TensorClassDataset, to_arrow
from ..io._optional import optional
from ._clusters import sendable
from ._engines import at_least
from ._rows import class_of_rows, fitting, needed_class


class RayBatches:
    """A dataset of Ray Data with typed batches; `TensorClassDataset.to_ray` returns one.

    The attribute `dataset` is the `ray.data.Dataset`, whose blocks are Arrow tables.

    Args:
        dataset: a dataset of Ray Data with a column for each field.
        cls: the class of its rows.
    """

    def __init__(self, dataset: Any, cls: Any) -> None:
        self.dataset = dataset
        self.cls = cls

    def map_batches(
        self, fn: Any, cls: Any = None, batch_size: int = 1024, concurrency: Any = None, **options: Any
    ) -> RayBatches:
        """Call a function, module or pipeline on typed batches.

        Args:
            fn: gets a batch of the class, and returns a batch of `cls`. If it is a class, each actor creates an
                instance from `fn_constructor_args` and `fn_constructor_kwargs`.
            cls: the class of the results; by default the class of the batches. Results are checked, not cast.
            batch_size: rows of a batch.
            concurrency: the number of actors, or the minimum and the maximum. Each actor has its own `fn`, as needed
                for a model on a GPU. By default, tasks for a function, and one actor for a class.
            options: options of `ray.data.Dataset.map_batches`: `num_cpus`, `num_gpus`, ...
        """
        if not callable(fn):
            raise ArgumentError(f"map_batches takes a function of a batch, got {fn!r:.80}")
        wanted = self.cls if cls is None else class_of_rows(cls, "cls")
        sendable((self.cls, wanted))
        how: dict[str, Any] = {**_arrow(options, "map_batches"), "batch_size": batch_size}
        made_of = how.pop("fn_constructor_args", ()), how.pop("fn_constructor_kwargs", {})
        if concurrency is not None or isinstance(fn, type):
            how |= {"compute": _actors(concurrency), "fn_constructor_args": (fn, self.cls, wanted, *made_of)}
        typed: Any = _Typed if "compute" in how else _Typed(fn, self.cls, wanted).__call__
        return RayBatches(self.dataset.map_batches(typed, **how), wanted)

    def __iter__(self) -> Iterator[Any]:
        return self.iter_batches()

    def iter_batches(self, batch_size: int = 1024, **options: Any) -> Iterator[Any]:
        """Iterate over the rows in typed batches."""
        for table in self.dataset.iter_batches(batch_size=batch_size, **_arrow(options, "iter_batches")):
            yield self.cls.from_arrow(table)

    def count(self) -> int:
        """The number of rows."""
        return int(self.dataset.count())


def _actors(size: Any) -> Any:
    least, most = size if isinstance(size, tuple) and len(size) == 2 else (size or 1, size or 1)
    if type(least) is not int or type(most) is not int or not 1 <= least <= most or size == 0:
        raise ArgumentError(f"concurrency is a number of actors from 1, or the least and the most, got {size!r:.40}")
    return optional("ray.data", "A dataset of Ray Data", "ray").ActorPoolStrategy(min_size=least, max_size=most)


def _arrow(options: dict[str, Any], verb: str) -> dict[str, Any]:
    for name in ("batch_format", "compute"):
        if name in options:
            raise ArgumentError(f"{verb} gives typed batches: leave {name} out, or use {verb} of `.dataset`")
    return {**options, "batch_format": "pyarrow"}


class _Typed:
    """Wraps a function of typed batches as a function of tables."""

    def __init__(self, fn: Any, cls: Any, wanted: Any, args: Any = (), named: Any = MappingProxyType({})) -> None:
        self.fn, self.cls, self.wanted = fn(*args, **named) if isinstance(fn, type) else fn, cls, wanted

    def __call__(self, table: Any, *args: Any, **named: Any) -> Any:
        return to_arrow(fitting(self.fn(self.cls.from_arrow(table), *args, **named), self.wanted))


def to_ray(data: TensorClassDataset[Any], rows_per_block: int) -> RayBatches:
    """See `TensorClassDataset.to_ray`."""
    ray = optional("ray.data", "A dataset of Ray Data", "ray")
    at_least(1, rows_per_block=rows_per_block)
    cls, begins = needed_class(data, "to_ray"), list(range(0, len(data), rows_per_block))
    sendable(cls)
    blocks = ray.from_items(begins, override_num_blocks=max(1, len(begins)))
    read = partial(_table, data, rows_per_block)
    return RayBatches(blocks.map_batches(read, batch_format="numpy", batch_size=1), cls)


def _table(data: TensorClassDataset[Any], step: int, table: Any) -> Any:
    return to_arrow(_batch(data, step, int(table["item"][0])))


def from_ray(kind: Any, dataset: Any, out: Any, row_cls: Any, rows_per_shard: int | None, pbar: bool) -> Any:
    """See `TensorClassDataset.from_ray`."""
    typed = dataset if isinstance(dataset, RayBatches) else RayBatches(dataset, row_cls)
    if typed.cls is None and row_cls is None:
        raise ArgumentError("from_ray: pass row_cls=, the tensorclass of the rows")
    if not callable(getattr(typed.dataset, "iter_batches", None)):
        raise ArgumentError(f"from_ray takes a dataset of Ray Data, got {dataset!r:.80}")
    wanted = typed.cls if row_cls is None else class_of_rows(row_cls, "row_cls")
    return kind._of_batches(RayBatches(typed.dataset, wanted).iter_batches(), out, rows_per_shard, pbar, False, wanted)


def to_dask(data: TensorClassDataset[Any], rows_per_batch: int) -> Any:
    """See `TensorClassDataset.to_dask`."""
    bag = optional("dask.bag", "A bag of Dask", "dask")
    at_least(1, rows_per_batch=rows_per_batch)
    begins = list(range(0, len(data), rows_per_batch))
    return bag.from_sequence(begins, npartitions=max(1, len(begins))).map(partial(_batch, data, rows_per_batch))


def _batch(data: TensorClassDataset[Any], step: int, begin: int) -> Any:
    return data[begin : begin + step]
