"""What a dataset has for many workers; the work lies in `parallel`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._flags import flags
from ..store._bridges import scaling
from ._paths import StrPath


@flags
class Scaled:
    """Datasets of datasets, made by workers."""

    def map(
        self, fn: Callable[[Any], Any], *, out: StrPath, cls: Any = None, engine: Any = None,
        num_workers: int | None = None, batch_size: int = 1024, rows_per_shard: int | None = None, seed: int = 0,
        errors: str = "raise", resume: bool = False, pbar: bool = False, checksums: bool = False,
    ) -> Any:  # fmt: skip
        """Write what a function makes of each batch of rows as another dataset.

        Every row of the result is there once, in the order of the source, whatever is killed meanwhile: workers write
        shards, and this process lists them in order. A call that was ended goes on with `resume=True`; what is
        committed is not computed again.

        Args:
            fn: takes a batch of the class of the rows, and gives one of as many rows; a function, module or pipeline.
            out: a folder without a dataset.
            cls: the tensorclass of the new rows; that of the first result when omitted. Results are checked, not cast.
            engine: "processes", "threads", "ray", "dask", or an instance; processes when omitted.
            num_workers: how many; the cores of this machine when omitted. 0 works in this thread.
            batch_size: rows that the function is called with; the last batch of a shard may be smaller.
            rows_per_shard: rows of a new shard, which one task makes.
            seed: random numbers of a batch depend on it and on where the batch begins.
            errors: "raise", or "skip": rows that the function raises for are left out, and written to `out/failed`
                with their numbers and errors. Batches that raise are halved to find them.
            resume: go on with the same map where it was ended, or begin it; do nothing where it is complete.
            pbar: show the progress.
            checksums: write checksums, for `verify`.

        Raises:
            FileExistsError: when there is a dataset, without `resume=True`.
            BlockingIOError: when another map or writer has `out` open.
            ArgumentError: for another number of rows, another class, and to go on with another map.
            SchemaError: for results that do not fit `cls`.
            WorkerError: when the workers of a task died time after time; names the rows.
            Exception: what the function raised, with the rows. Committed rows stay.

        >>> import torch
        >>> from torch import Tensor
        >>> from tensorclass import TensorClass, TensorClassDataset
        >>> from tensorclass.typing import Float32
        >>> class Point(TensorClass):
        ...     x: Float32[Tensor, ""]
        >>> with TensorClassDataset.create("a", Point) as writer:
        ...     writer.append(Point(torch.arange(4.0)))
        >>> data = TensorClassDataset("a", Point)
        >>> data.map(lambda batch: batch * 2, out="b", cls=Point, engine="threads")[:].x
        tensor([0., 2., 4., 6.])
        """
        return scaling().map_rows(
            self, fn, cls, seed, errors, out=out, engine=engine, num_workers=num_workers, batch_size=batch_size,
            rows_per_shard=rows_per_shard, resume=resume, pbar=pbar, checksums=checksums,
        )  # fmt: skip

    def filter(self, fn: Callable[[Any], Any], *, out: StrPath, errors: str = "raise", **options: Any) -> Any:
        """Write the rows for which a function gives True.

        Args:
            fn: takes a batch, and gives True or False for each row: bool `[n]`.
            out: a folder without a dataset.
            errors: as for `map`: "skip" writes the rows that the function raises for to `out/failed`.
            options: `engine`, `num_workers`, `batch_size`, `rows_per_shard`, `resume`, `pbar`, `checksums` of `map`.
        """
        return scaling().filter_rows(self, fn, errors, out=out, **options)

    def shuffle(self, seed: int = 0, *, out: StrPath, **options: Any) -> Any:
        """Write the rows in a random order that depends on the seed; the order itself takes no memory.

        Args:
            seed: any whole number.
            out: a folder without a dataset.
            options: as for `filter`.
        """
        return scaling().shuffle_rows(self, seed, out=out, **options)

    def repartition(self, rows_per_shard: int, *, out: StrPath, **options: Any) -> Any:
        """Write the rows, in order, into shards of another size.

        Args:
            rows_per_shard: rows of a shard.
            out: a folder without a dataset.
            options: as for `filter`.
        """
        return scaling().repartition_rows(self, rows_per_shard=rows_per_shard, out=out, **options)

    def sort_by(self, field: Any, descending: bool = False, *, out: StrPath, **options: Any) -> Any:
        """Write the rows in the order of one field; equal ones stay in their order. Only the field is held in memory.

        Args:
            field: a name, path or reference of a field that has one number or object for each row.
            descending: the largest first.
            out: a folder without a dataset.
            options: as for `filter`.
        """
        return scaling().sort_rows(self, field, descending, out=out, **options)

    def group_by(self, field: Any, *, out: StrPath, **options: Any) -> Any:
        """Write a dataset for each value of one field.

        Args:
            field: as for `sort_by`.
            out: a folder; the groups have folders in it, by number.
            options: as for `filter`.

        Returns:
            The sorted values (a tensor, or a list of objects), and a dataset for each.
        """
        return scaling().group_rows_by(self, field, out=out, **options)

    def to_ray(self, rows_per_block: int = 4096) -> Any:
        """The rows as a dataset of Ray Data, whose `map_batches` gives and takes typed batches; see `RayBatches`.

        Args:
            rows_per_block: rows that are read by one task.

        Raises:
            MissingExtraError: when Ray is not installed.
            UnsupportedOperationError: for a dataset whose class is not imported.
        """
        return scaling().to_ray(self, rows_per_block)

    @classmethod
    def from_ray(
        cls, dataset: Any, out: StrPath, row_cls: Any = None, rows_per_shard: int | None = None, *, pbar: bool = False
    ) -> Any:  # fmt: skip
        """Write the rows of a dataset of Ray Data.

        Args:
            dataset: a `ray.data.Dataset`, or what `to_ray` and its `map_batches` give.
            out: a folder without a dataset.
            row_cls: the class of the rows; that of a typed one when omitted.
            rows_per_shard: rows of a shard.
            pbar: show the progress.

        Raises:
            ArgumentError: without a class.
            SchemaError: for columns that do not fit the class.
        """
        return scaling().from_ray(cls, dataset, out, row_cls, rows_per_shard, pbar)

    def to_dask(self, rows_per_batch: int = 4096) -> Any:
        """The rows as a `dask.bag.Bag` of typed batches, which its tasks read.

        Args:
            rows_per_batch: rows of each batch.

        Raises:
            MissingExtraError: when Dask is not installed.
        """
        return scaling().to_dask(self, rows_per_batch)

    def sample(self, size: Any, seed: int = 0, *, out: StrPath, **options: Any) -> Any:
        """Write some of the rows, in their order, each at most once.

        Args:
            size: how many, or a float for a part of them.
            seed: which; any whole number.
            out: a folder without a dataset.
            options: as for `filter`.
        """
        return scaling().sample_rows(self, size, seed, out=out, **options)
