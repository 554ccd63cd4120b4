"""Datasets from tables and as tables, in parts: at most a shard and a few megabytes of rows are in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias

from ..._budget import budget
from ..._flags import flags
from ..._places import local_path
from .._optional import optional
from .._parts import BLOCK, tables_of
from .._paths import StrPath
from .._writer import write_dataset
from ._arrow import arrow
from ._frames import hf_tables, to_mds
from ._parquet import batch_in, read_parquet, write_ipc, write_parquet
from ._text import read_csv, read_lines, write_csv, write_lines

Paths: TypeAlias = "StrPath | list[StrPath]"


@flags
class Exchange:
    """The methods of a dataset for files and tables of other libraries."""

    _blocks: Any

    @classmethod
    def _of_batches(cls, batches: Iterable[Any], out: StrPath, *options: Any) -> Any:
        return cls(out, write_dataset(batches, out, *options))  # type: ignore[call-arg]  # a dataset

    @classmethod
    def from_parquet(
        cls,
        path: Paths,
        out: StrPath,
        row_cls: Any = None,
        rows_per_shard: int | None = None,
        *,
        pbar: bool = False,
        **options: Any,
    ) -> Any:
        """Write the rows of Parquet files as a dataset.

        Args:
            path: a file, or a list of files.
            out: a folder without a dataset.
            row_cls: the class of the rows; by default the one that the file names, if it is imported.
            rows_per_shard: rows of a shard.
            pbar: show the progress.
            options: options of `tensorclass.from_parquet`.

        Raises:
            FileExistsError: if `out` holds a dataset.
            SchemaError: for columns that don't fit the class.
            TypeError: if the class is unknown.
        """
        return cls._of_batches(_all(read_parquet, path, row_cls, options), out, rows_per_shard, pbar)

    @classmethod
    def from_csv(
        cls,
        path: Paths,
        out: StrPath,
        row_cls: Any,
        rows_per_shard: int | None = None,
        *,
        pbar: bool = False,
        **options: Any,
    ) -> Any:
        """Write the rows of CSV files as a dataset; the arguments are those of `from_parquet`."""
        return cls._of_batches(_all(read_csv, path, row_cls, options), out, rows_per_shard, pbar)

    @classmethod
    def from_json(
        cls,
        path: Paths,
        out: StrPath,
        row_cls: Any,
        rows_per_shard: int | None = None,
        *,
        pbar: bool = False,
        **options: Any,
    ) -> Any:
        """Write the rows of files of JSON lines as a dataset; the arguments are those of `from_parquet`."""
        return cls._of_batches(_all(read_lines, path, row_cls, options), out, rows_per_shard, pbar)

    @classmethod
    def from_arrow(
        cls,
        source: Any,
        out: StrPath,
        row_cls: Any = None,
        rows_per_shard: int | None = None,
        *,
        pbar: bool = False,
        **options: Any,
    ) -> Any:
        """Write the rows of an Arrow table or stream as a dataset.

        Args:
            source: a table, a `RecordBatchReader`, or anything with `__arrow_c_stream__`.
            out: a folder without a dataset.
            row_cls: the class of the rows; by default the one that the table names, if it is imported.
            rows_per_shard: rows of a shard.
            pbar: show the progress.
            options: options of `tensorclass.from_arrow`.
        """
        return cls._of_batches(_parts(source, row_cls, options), out, rows_per_shard, pbar)

    @classmethod
    def from_hf(
        cls,
        dataset: Any,
        out: StrPath,
        row_cls: Any = None,
        rows_per_shard: int | None = None,
        *,
        pbar: bool = False,
        **options: Any,
    ) -> Any:
        """Write the rows of a Hugging Face `Dataset` or `IterableDataset` as a dataset; see `from_arrow`."""
        max_bytes = options.pop("max_bytes", None)
        batches = (_batch(table, row_cls, options, max_bytes) for table in hf_tables(dataset, BLOCK))
        return cls._of_batches(batches, out, rows_per_shard, pbar)

    def to_parquet(self, path: StrPath, **options: Any) -> None:
        """Write the rows to a Parquet file, with a row group for every few thousand rows.

        Args:
            path: the file. It appears as a whole or not at all.
            options: options of `pyarrow.parquet.ParquetWriter`.
        """
        write_parquet(self._blocks(), path, **options)

    def to_csv(self, path: StrPath, *, separator: str | None = None, delimiter: str = ",") -> None:
        """Write the rows to a CSV file; see `TensorDict.to_csv`."""
        write_csv(self._blocks(), path, separator, delimiter)

    def to_json(self, path: StrPath, *, separator: str | None = None) -> None:
        """Write the rows to a file of JSON lines."""
        write_lines(self._blocks(), path, separator)

    def to_hf(self, path: StrPath) -> Any:
        """Write the rows to a file, and return a Hugging Face dataset that maps it.

        Args:
            path: the file, an Arrow stream.
        """
        datasets = optional("datasets", "A Hugging Face dataset", "hf")
        file = local_path(path)
        write_ipc(self._blocks(), file, stream=True)
        return datasets.Dataset.from_file(file)

    def to_mds(self, out: Any, **options: Any) -> None:
        """Write the rows as a MosaicML dataset; see `TensorDict.to_mds`."""
        to_mds(self._blocks(), out, **options)


def _all(read: Any, path: Paths, row_cls: Any, options: dict[str, Any]) -> Iterator[Any]:
    paths = path if isinstance(path, list) else [path]
    return chain.from_iterable(read(one, row_cls, BLOCK, **options) for one in paths)


def _parts(source: Any, row_cls: Any, options: Any) -> Iterator[Any]:
    pa, max_bytes = arrow(), options.pop("max_bytes", None)
    reader = source if isinstance(source, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(source)
    empty = True
    for part in reader:
        empty = False
        for table in tables_of(pa.Table.from_batches([part]), BLOCK):
            yield _batch(table, row_cls, options, max_bytes)
    if empty:
        yield batch_in(pa.Table.from_batches([], reader.schema), row_cls, None, options)


def _batch(table: Any, row_cls: Any, options: Any, max_bytes: int | None) -> Any:
    with budget(max_bytes, table.nbytes, "the Arrow table"):
        return batch_in(table, row_cls, None, options)
