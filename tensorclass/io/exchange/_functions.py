"""The public functions, one for each reader and writer; and the methods of containers and datasets for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias

from typing_extensions import Unpack

from ..._budget import budget
from ..._flags import flags
from ..._places import local_path
from ..._schema import schema_of
from ...classes._json import load as read_fields
from ...core import Device
from ...errors import ArgumentError
from ...store import TensorDict
from .._files import load, save
from .._optional import optional
from .._parts import BLOCK, tables_of
from .._paths import StrPath
from .._writer import write_dataset
from ._arrays import from_array as from_array
from ._arrays import is_flat as is_flat
from ._arrays_out import mapping_of
from ._arrow import arrow, from_arrow, to_arrow
from ._batches import TableOptions
from ._frames import from_hf, from_pandas, hf_tables, to_mds
from ._frames import to_hf as to_hf
from ._frames import to_pandas as to_pandas
from ._frames import to_polars as to_polars
from ._parquet import batch_in, read_parquet, write_ipc, write_parquet
from ._persistent import PersistentTensorDict
from ._rows import from_rows as from_rows
from ._spaces import from_gymnasium, to_gymnasium
from ._text import batch_of_records as batch_of_records
from ._text import read_csv, read_lines, read_records, write_csv, write_lines
from ._text import read_text as read_text
from ._text import records_of as records_of
from ._text import write_records as write_records
from ._text import write_text as write_text

__all__ = [
    "PersistentTensorDict",
    "from_arrow",
    "from_csv",
    "from_gymnasium",
    "from_h5",
    "from_hf",
    "from_json",
    "from_pandas",
    "from_parquet",
    "from_safetensors",
    "from_zarr",
    "to_arrow",
    "to_gymnasium",
    "to_safetensors",
]
"""The names that `exchange`, `io` and the package have too."""


@flags
def from_csv(
    path: StrPath,
    *,
    separator: str | None = None,
    delimiter: str = ",",
    cls: Any = None,
    max_bytes: int | None = None,
    **options: Unpack[TableOptions],
) -> Any:
    """Read a CSV file as a batch with an element for each line. The first line names the columns.

    Numbers are decimals, which the declared dtype rounds. Event dims and ragged fields are JSON lists in a cell.
    Without a class, columns of numbers become int64, float64 or bool tensors, and other columns strings.

    Args:
        path: the file, in UTF-8.
        separator: the string that joins the names of nested entries; "." for a typed class.
        delimiter: the character between cells.
        cls: the class; `TensorDict` by default.
        max_bytes: the most memory that reading may take, in bytes; by default 128 times the size of the file, and at
            least 128 MiB.
        options: `batch_size`, `auto_batch_size`, `batch_dims` and `device`, as for `from_dict`; `dtype`, to which
            columns of numbers are cast; `nulls` and `mask_key`, as for `from_arrow`. An empty cell is null.

    Raises:
        FileFormatError: for text that is not UTF-8, a line with a different number of cells, and a cell that is not a
            number although one is declared; names the line. `MemoryBudgetError` for a file beyond `max_bytes`.
        SchemaError: for columns that don't fit the class.

    >>> import torch
    >>> from tensorclass import TensorDict, from_csv
    >>> TensorDict(a=torch.arange(2), b=torch.ones(2, 2), batch_size=[2]).to_csv("data.csv")
    >>> from_csv("data.csv")["b"]
    tensor([[1., 1.],
            [1., 1.]], dtype=torch.float64)
    """
    return next(read_csv(path, TensorDict if cls is None else cls, None, separator, delimiter, max_bytes, **options))


@flags
def from_json(
    path: StrPath,
    *,
    separator: str | None = None,
    lines: bool = False,
    cls: Any = None,
    max_bytes: int | None = None,
    **options: Unpack[TableOptions],
) -> Any:
    """Read a JSON file as a batch with an element for each object: a list of objects, or one object on each line.

    Args:
        path: the file.
        separator: the string that joins the names of nested entries; without it, objects are nested.
        lines: one object on each line.
        cls: the class; `TensorDict` by default.
        max_bytes: the most memory that reading may take; see `from_csv`. Without it, a list has at most 1 GiB of text.
        options: as for `from_csv`.

    Raises:
        FileFormatError: for text that is not JSON; names the line. `MemoryBudgetError` for a file beyond `max_bytes`.
        SchemaError: for columns that don't fit the class.

    >>> import torch
    >>> from tensorclass import TensorDict, from_json
    >>> TensorDict(a=torch.arange(2), batch_size=[2]).to_json("a.jsonl", lines=True)
    >>> from_json("a.jsonl", lines=True)["a"]
    tensor([0, 1])
    """
    cls = TensorDict if cls is None else cls
    if lines:
        return next(read_lines(path, cls, None, separator, max_bytes, **options))
    return read_records(path, cls, separator, max_bytes, **options)


@flags
def from_parquet(
    path: StrPath,
    *,
    separator: str | None = None,
    columns: list[str] | None = None,
    cls: Any = None,
    max_bytes: int | None = None,
    **options: Unpack[TableOptions],
) -> Any:
    """Read a Parquet file as a batch with an element for each row. Columns are read as by `from_arrow`.

    Args:
        path: the file.
        separator: the string that joins the names of nested entries; without it, structs are nested.
        columns: the columns to read.
        cls: the class; by default the one that the file names, if it is imported, else `TensorDict`.
        max_bytes: the most memory that reading may take; see `from_csv`.
        options: as for `from_csv`.

    Raises:
        FileFormatError: for a file that is not Parquet, and for a missing column. `MemoryBudgetError` for a file beyond
            `max_bytes`.
        SchemaError: for columns that don't fit the class.

    >>> import torch
    >>> from tensorclass import TensorDict, from_parquet
    >>> TensorDict(a=torch.arange(2), b=torch.eye(2), batch_size=[2]).to_parquet("a.parquet")
    >>> from_parquet("a.parquet", columns=["b"])["b"]
    tensor([[1., 0.],
            [0., 1.]])
    """
    return next(read_parquet(path, cls, None, separator, columns, max_bytes, **options))


def to_safetensors(data: Any, path: StrPath) -> None:
    """Write a container to a safetensors file, as `save` does.

    >>> import torch
    >>> from tensorclass import TensorDict, from_safetensors, to_safetensors
    >>> to_safetensors(TensorDict(a={"b": torch.ones(2)}), "data.safetensors")
    >>> from_safetensors("data.safetensors")["a", "b"]
    tensor([1., 1.])
    """
    save(data, path, archive=True)


def from_safetensors(path: StrPath, *, device: Device = None, max_bytes: int | None = None) -> Any:
    """Read any safetensors file into memory as a container.

    In files of other libraries, dots in names nest. See `load`.

    >>> import torch
    >>> from safetensors.torch import save_file
    >>> from tensorclass import from_safetensors
    >>> save_file({"layer.weight": torch.ones(2)}, "weights.safetensors")
    >>> from_safetensors("weights.safetensors")["layer", "weight"]
    tensor([1., 1.])
    """
    return load(path, device, mmap=False, max_bytes=max_bytes)


@flags
def from_h5(
    h5_file: StrPath,
    *,
    mode: str = "r",
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: Any = None,
    non_tensor_as_stack: bool = False,
    max_bytes: int | None = None,
) -> PersistentTensorDict:
    """Open an HDF5 file as a container; see `PersistentTensorDict`.

    Args:
        h5_file: the file.
        mode: "r" reads, "r+" reads and writes.
        auto_batch_size: use the longest leading shape that all entries share.
        batch_dims: use at most this many dims of it.
        batch_size: the batch size; by default the stored one, or the leading shape that all entries share.
        non_tensor_as_stack: read text that another library stored with the batch shape as one object for each element.
        max_bytes: the most memory that one read may take; see `PersistentTensorDict`.

    Raises:
        FileFormatError: for a damaged file, and for one that would read other files; `MemoryBudgetError` for a read
            beyond `max_bytes`.

    >>> import torch
    >>> from tensorclass import TensorDict, from_h5
    >>> _ = TensorDict(a=torch.arange(2), batch_size=[2]).to_h5("a.h5")
    >>> from_h5("a.h5")["a"]
    tensor([0, 1])
    """
    stacks, how = non_tensor_as_stack, (auto_batch_size, batch_dims, batch_size)
    return _open_store(h5_file, "h5", mode, *how, non_tensor_as_stack=stacks, max_bytes=max_bytes)


@flags
def from_zarr(
    zarr_file: Any,
    *,
    mode: str = "r",
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: Any = None,
    non_tensor_as_stack: bool = False,
    allow_pickle: bool | None = None,
    max_bytes: int | None = None,
) -> PersistentTensorDict:
    """Open a zarr group as a container. The arguments are those of `from_h5`. Nothing is ever unpickled.

    >>> import torch
    >>> from tensorclass import TensorDict, from_zarr
    >>> _ = TensorDict(a=torch.arange(2), batch_size=[2]).to_zarr("a.zarr")
    >>> from_zarr("a.zarr")["a"]
    tensor([0, 1])
    """
    stacks, how = non_tensor_as_stack, (auto_batch_size, batch_dims, batch_size)
    return _open_store(zarr_file, "zarr", mode, *how, non_tensor_as_stack=stacks, max_bytes=max_bytes)


def _open_store(
    path: Any, backend: str, mode: str, auto: bool, dims: int | None, size: Any, **options: Any
) -> PersistentTensorDict:
    if auto and size is not None:
        raise ArgumentError("give `batch_size` or `auto_batch_size=True`, not both")
    found = PersistentTensorDict(filename=path, mode=mode, backend=backend, batch_size=size, **options)
    if auto:
        found._batch_size = found._shared()[:dims]
    return found


# ---- what the methods of containers call -----------------------------------------------------------------------------


def read(form: str, cls: Any, *source: Any, **options: Any) -> Any:
    """Call the reader `from_<form>` for the class whose method was called; an untyped class gives a `TensorDict`."""
    return globals()[f"from_{form}"](*source, cls=cls if schema_of(cls) is not None else TensorDict, **options)


def typed(cls: Any, stored: PersistentTensorDict) -> Any:
    """An instance of a typed class in memory, from a store; the store itself for an untyped class."""
    if schema_of(cls) is None:
        return stored
    with stored:
        return read_fields(cls, mapping_of(stored._twin(), cls))


# ---- the methods of datasets: at most a shard and a few megabytes of rows are in memory ------------------------------

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
    if not paths:
        raise ArgumentError("the list of files is empty: give at least one path")
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
