"""Methods of datasets that run in many workers; `parallel` implements them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._flags import flags
from ..store._bridges import implemented_in, scaling
from ._paths import StrPath


@flags
class Scaled:
    """Methods that make a new dataset from a dataset, in workers."""

    @implemented_in(scaling, "map_rows")
    def map(
        self,
        fn: Callable[[Any], Any],
        *,
        out: StrPath,
        cls: Any = None,
        engine: Any = None,
        num_workers: int | None = None,
        batch_size: int = 1024,
        rows_per_shard: int | None = None,
        seed: int = 0,
        errors: str = "raise",
        resume: bool = False,
        pbar: bool = False,
        checksums: bool = False,
        retries: int | None = None,
        timeout: float | None = None,
        layout: Any = None,
    ) -> Any:
        """Apply a function to each batch of rows, and write the results as another dataset.

        The result has every row exactly once, in the order of the source, even if workers are killed: workers write
        shards, and this process lists them in order. `resume=True` continues an interrupted call; committed rows are
        not computed again.

        Args:
            fn: a function, module or pipeline. It gets a batch of the class of the rows, and returns a batch of the
                same size.
            out: a folder without a dataset.
            cls: the class of the new rows; by default that of the first result. Results are checked, not cast.
            engine: "processes" (the default), the name of another engine ("threads", ...), or an `Engine`.
            num_workers: the number of workers; by default the cores of this machine. 0 runs in this thread.
            batch_size: rows of a batch; the last batch of a shard may be smaller.
            rows_per_shard: rows of a new shard. One task writes one shard.
            seed: the random numbers of a batch depend on it and on the first row of the batch.
            errors: "raise", or "skip": rows for which the function raises are left out, and written to `out/failed`
                with their numbers and errors. A batch that raises is halved until these rows are found; so is a batch
                whose workers die or take too long.
            resume: continue the same map where it was interrupted, or begin it; do nothing if it is complete.
            pbar: show the progress.
            checksums: write checksums, for `verify`.
            retries: how often a task runs again after its worker has died; by default 2.
            timeout: seconds that a task may take; its worker is then stopped, as if it had died. Not for threads.
            layout: a `tensorclass.parallel.Layout`: all ranks of its mesh make this call, and share the work. Ranks
                that differ only in mesh dims over which rows are not split call `fn` with the same rows. `out` is one
                folder for all, and a call on another mesh may resume it.

        Raises:
            FileExistsError: if `out` holds a dataset and `resume` is False.
            BlockingIOError: if another map or writer has `out` open.
            ArgumentError: for results with another number of rows or another class, and for `resume` of a different
                map.
            SchemaError: for results that don't fit `cls`.
            WorkerError: if the workers of a task died repeatedly; names the rows.
            Exception: the exception of the function, with the rows added. Committed rows stay.

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

    @implemented_in(scaling, "filter_rows")
    def filter(self, fn: Callable[[Any], Any], *, out: StrPath, errors: str = "raise", **options: Any) -> Any:
        """Write the rows for which a function returns True.

        Args:
            fn: gets a batch, and returns True or False for each row: bool `[n]`.
            out: a folder without a dataset.
            errors: as for `map`: "skip" writes the rows for which the function raises to `out/failed`.
            options: `engine`, `num_workers`, `batch_size`, `rows_per_shard`, `resume`, `pbar`, `checksums`,
                `retries`, `timeout`, `layout` of `map`.
        """

    @implemented_in(scaling, "shuffle_rows")
    def shuffle(self, seed: int = 0, *, out: StrPath, **options: Any) -> Any:
        """Write the rows in a random order that depends on the seed. The order itself takes no memory.

        Args:
            seed: any whole number.
            out: a folder without a dataset.
            options: as for `filter`.
        """

    @implemented_in(scaling, "repartition_rows")
    def repartition(self, rows_per_shard: int, *, out: StrPath, **options: Any) -> Any:
        """Write the rows, in order, into shards of another size.

        Args:
            rows_per_shard: rows of a shard.
            out: a folder without a dataset.
            options: as for `filter`.
        """

    @implemented_in(scaling, "sort_rows")
    def sort_by(self, field: Any, descending: bool = False, *, out: StrPath, **options: Any) -> Any:
        """Write the rows sorted by one field, with a stable sort. Only that field is held in memory.

        Args:
            field: the name, path or reference of a field with one number or object for each row.
            descending: sort from largest to smallest.
            out: a folder without a dataset.
            options: as for `filter`.
        """

    @implemented_in(scaling, "group_rows_by")
    def group_by(self, field: Any, *, out: StrPath, **options: Any) -> Any:
        """Write a dataset for each value of one field.

        Args:
            field: as for `sort_by`.
            out: a folder; each group gets a numbered folder in it.
            options: as for `filter`.

        Returns:
            The sorted distinct values (a tensor, or a list of objects), and a dataset for each value.
        """

    @implemented_in(scaling, "to_ray")
    def to_ray(self, rows_per_block: int = 4096) -> Any:
        """The rows as a dataset of Ray Data. Its `map_batches` works on typed batches; see `RayBatches`.

        Args:
            rows_per_block: rows that one task reads.

        Raises:
            MissingExtraError: if Ray is not installed.
            UnsupportedOperationError: if the class of the dataset is not imported.
        """

    @classmethod
    @implemented_in(scaling, "from_ray")
    def from_ray(
        cls, dataset: Any, out: StrPath, row_cls: Any = None, rows_per_shard: int | None = None, *, pbar: bool = False
    ) -> Any:
        """Write the rows of a dataset of Ray Data.

        Args:
            dataset: a `ray.data.Dataset`, or a result of `to_ray` or its `map_batches`.
            out: a folder without a dataset.
            row_cls: the class of the rows; by default that of the typed batches.
            rows_per_shard: rows of a shard.
            pbar: show the progress.

        Raises:
            ArgumentError: if the class is unknown.
            SchemaError: for columns that don't fit the class.
        """

    @implemented_in(scaling, "to_dask")
    def to_dask(self, rows_per_batch: int = 4096) -> Any:
        """The rows as a `dask.bag.Bag` of typed batches. The tasks of the bag read them.

        Args:
            rows_per_batch: rows of each batch.

        Raises:
            MissingExtraError: if Dask is not installed.
        """

    @implemented_in(scaling, "sample_rows")
    def sample(self, size: Any, seed: int = 0, *, out: StrPath, **options: Any) -> Any:
        """Write a random sample of the rows without replacement, in their order.

        Args:
            size: the number of rows, or a float for a fraction of them.
            seed: selects the sample; any whole number.
            out: a folder without a dataset.
            options: as for `filter`.
        """
