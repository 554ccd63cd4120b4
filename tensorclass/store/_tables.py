"""Methods of containers for tables and files of other libraries; `io` implements them."""

from __future__ import annotations

from typing import Any

from typing_extensions import Self

from .._flags import answers
from ..core import as_device
from ..errors import ArgumentError
from ._bridges import tables
from ._saving import SavingOps, StrPath


@answers
class TableOps(SavingOps):
    """Methods that read and write tables, frames, text and live stores."""

    __slots__ = ()

    def to_arrow(self) -> Any:
        """Convert to a `pyarrow.Table` with a row for each element; see `tensorclass.to_arrow`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(2), batch_size=[2]).to_arrow().column_names
        ['a']
        """
        return tables().to_arrow(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export for Arrow readers: `pyarrow.table(batch)`, `polars.DataFrame(batch)`, duckdb."""
        return tables().to_arrow(self).__arrow_c_stream__(requested_schema)

    @classmethod
    def from_arrow(cls, table: Any, **options: Any) -> Self:
        """Convert an Arrow table, a polars frame, ... to a batch; see `tensorclass.from_arrow`.

        >>> import pyarrow as pa
        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> from tensorclass.typing import Int64
        >>> class Labels(TensorClass):
        ...     label: Int64[Tensor, ""]
        >>> Labels.from_arrow(pa.table({"label": [3, 1]})).label
        tensor([3, 1])
        """
        return tables().read("arrow", cls, table, **options)  # type: ignore[no-any-return]  # of this class

    def to_pandas(self, *, separator: str | None = None) -> Any:
        """Convert to a pandas frame with a row for each element.

        Event dims and ragged fields are arrays in object columns.

        Args:
            separator: the string that joins the names of nested entries; "." for a typed class.

        Raises:
            SchemaError: for a nested untyped container without `separator`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.arange(2), b={"c": torch.zeros(2)}, batch_size=[2])
        >>> data.to_pandas(separator=".").columns.tolist()
        ['a', 'b.c']
        """
        return tables().to_pandas(self, separator)

    @classmethod
    def from_pandas(cls, dataframe: Any, **options: Any) -> Self:
        """Convert a pandas frame to a batch; see `tensorclass.from_pandas`.

        >>> import pandas
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_pandas(pandas.DataFrame({"a": [1, 2]}))["a"]
        tensor([1, 2])
        """
        return tables().read("pandas", cls, dataframe, **options)  # type: ignore[no-any-return]  # of this class

    def to_polars(self) -> Any:
        """Convert to a polars frame with a row for each element; `from_arrow` reads one.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(2), batch_size=[2]).to_polars().shape
        (2, 1)
        """
        return tables().to_polars(self)

    def to_hf(self) -> Any:
        """Convert to a Hugging Face dataset with a row for each element; event dims are fixed-size lists.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(2), batch_size=[2]).to_hf()[1]
        {'a': 1}
        """
        return tables().to_hf(self)

    @classmethod
    def from_hf(cls, dataset: Any, **options: Any) -> Self:
        """Convert a Hugging Face dataset to a batch; see `tensorclass.from_hf`.

        >>> import datasets
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_hf(datasets.Dataset.from_dict({"a": [1, 2]}))["a"]
        tensor([1, 2])
        """
        return tables().read("hf", cls, dataset, **options)  # type: ignore[no-any-return]  # of this class

    def to_csv(self, path: StrPath, *, separator: str | None = None, delimiter: str = ",") -> None:
        """Write a CSV file with a line for each element; event dims and ragged fields are JSON lists in a cell.

        Args:
            path: the file. It appears as a whole or not at all.
            separator: the string that joins the names of nested entries; "." for a typed class.
            delimiter: the character between cells.

        Raises:
            SchemaError: for a nested untyped container without `separator`.

        >>> import torch
        >>> from pathlib import Path
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(2), b=torch.eye(2), batch_size=[2]).to_csv("a.csv")
        >>> Path("a.csv").read_text().splitlines()
        ['a,b', '0,"[1.0,0.0]"', '1,"[0.0,1.0]"']
        """
        tables().write_csv([self], path, separator, delimiter)

    @classmethod
    def from_csv(cls, path: StrPath, **options: Any) -> Self:
        """Read a CSV file as a batch; see `tensorclass.from_csv`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(2), batch_size=[2]).to_csv("a.csv")
        >>> TensorDict.from_csv("a.csv")["a"]
        tensor([0, 1])
        """
        return tables().read("csv", cls, path, **options)  # type: ignore[no-any-return]  # of this class

    def to_json(self, path: StrPath, *, separator: str | None = None, lines: bool = False) -> Any:
        """Write a JSON file with an object for each element.

        Args:
            path: the file. It appears as a whole or not at all.
            separator: the string that joins the names of nested entries; without it, objects are nested.
            lines: one object on each line, instead of a list.

        Raises:
            UnsupportedOperationError: for values that JSON can't hold; names the field.

        >>> import torch
        >>> from pathlib import Path
        >>> from tensorclass import TensorDict
        >>> path = Path("a.jsonl")
        >>> TensorDict(a=torch.arange(2), batch_size=[2]).to_json(path, lines=True)
        >>> path.read_text().splitlines()
        ['{"a":0}', '{"a":1}']
        """
        (tables().write_lines if lines else tables().write_records)([self], path, separator)

    @classmethod
    def from_json(cls, *args: Any, **kwargs: Any) -> Self:
        """Read a JSON file as a batch; the arguments are those of `tensorclass.from_json`.

        >>> from pathlib import Path
        >>> from tensorclass import TensorDict
        >>> path = Path("a.json")
        >>> _ = path.write_text('[{"a": 1}, {"a": 2}]')
        >>> TensorDict.from_json(path)["a"]
        tensor([1, 2])
        """
        return tables().read("json", cls, *args, **kwargs)  # type: ignore[no-any-return]  # of this class

    def to_parquet(self, path: StrPath, *, separator: str | None = None, **kwargs: Any) -> None:
        """Write a Parquet file with a row for each element, with the class in its metadata.

        Args:
            path: the file. It appears as a whole or not at all.
            separator: the string that joins the names of nested entries; without it, structs are nested.
            kwargs: options of `pyarrow.parquet.ParquetWriter`, and `row_group_size`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(2), batch_size=[2]).to_parquet("a.parquet")
        >>> TensorDict.from_parquet("a.parquet")["a"]
        tensor([0, 1])
        """
        tables().write_parquet([self], path, separator=separator, **kwargs)

    @classmethod
    def from_parquet(cls, path: StrPath, **options: Any) -> Self:
        """Read a Parquet file as a batch; see `tensorclass.from_parquet`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2, 3), batch_size=[2]).to_parquet("data.parquet")
        >>> TensorDict.from_parquet("data.parquet")["a"].shape
        torch.Size([2, 3])
        """
        return tables().read("parquet", cls, path, **options)  # type: ignore[no-any-return]  # of this class

    def to_mds(
        self,
        *,
        columns: dict[str, str] | None = None,
        out: Any = None,
        keep_local: bool = False,
        compression: str | None = None,
        hashes: list[str] | None = None,
        size_limit: int | str | None = 1 << 26,
        writer: Any = None,
        finish_writer: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Write the elements as samples of a MosaicML dataset, which `streaming.StreamingDataset` reads.

        Args:
            columns: the MDS encoding of each column; by default it is inferred from the values.
            out: the target, as for `streaming.MDSWriter`.
            keep_local: keep the local copy of an upload.
            compression: as for `MDSWriter`.
            hashes: as for `MDSWriter`.
            size_limit: the size of a shard.
            writer: a `MDSWriter`, instead of `out`; it stays open.
            finish_writer: finish the given `writer`.
            kwargs: options of `MDSWriter`.
        """
        shard = {"keep_local": keep_local, "compression": compression, "hashes": hashes, "size_limit": size_limit}
        tables().to_mds([self], out, columns, writer, finish_writer, **({} if writer is not None else shard), **kwargs)

    def _write_to_file(self, storage: str | None, device: Any, options: dict[str, Any]) -> Any:
        """This container in a new file, for `from_schema`."""
        if storage == "memmap":
            return self.memmap_like(**options)
        if "filename" not in options:
            raise ArgumentError(f"from_schema: storage={storage!r} needs a path: filename=")
        found = tables().PersistentTensorDict.create(self, options.pop("filename"), storage, **options)
        found._set_device(as_device(device))
        return found

    def to_h5(self, filename: StrPath, **kwargs: Any) -> Any:
        """Write an HDF5 file, replacing an existing one, and return a `PersistentTensorDict` over it.

        Args:
            filename: the file.
            kwargs: options of `h5py.Group.create_dataset`, such as `compression="gzip"`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> with TensorDict(a=torch.arange(3), batch_size=[3]).to_h5("data.h5") as stored:
        ...     stored[1:]["a"]
        tensor([1, 2])
        """
        return tables().PersistentTensorDict.create(self, filename, "h5", **kwargs)

    @classmethod
    def from_h5(cls, filename: StrPath, **options: Any) -> Any:
        """Open an HDF5 file as a `PersistentTensorDict`. A typed class reads it into memory, and checks it.

        See `tensorclass.from_h5`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> _ = TensorDict(a=torch.arange(2), batch_size=[2]).to_h5("a.h5")
        >>> TensorDict.from_h5("a.h5")["a"]
        tensor([0, 1])
        """
        return tables().typed(cls, tables().from_h5(filename, **options))

    def to_zarr(self, filename: Any, *, allow_pickle: bool | None = None, **kwargs: Any) -> Any:
        """Write a zarr group, replacing an existing one, and return a `PersistentTensorDict` over it.

        Args:
            filename: the folder, or a store of zarr.
            allow_pickle: nothing is pickled; accepted for compatibility.
            kwargs: options of `zarr.Group.create_array`; `chunks` applies to the leading dims.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(2), batch_size=[2]).to_zarr("a.zarr")["a"]
        tensor([0, 1])
        """
        return tables().PersistentTensorDict.create(self, filename, "zarr", **kwargs)

    @classmethod
    def from_zarr(cls, filename: Any, **options: Any) -> Any:
        """Open a zarr group as a container, like `from_h5`; see `tensorclass.from_zarr`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> _ = TensorDict(a=torch.arange(2), batch_size=[2]).to_zarr("a.zarr")
        >>> TensorDict.from_zarr("a.zarr")["a"]
        tensor([0, 1])
        """
        return tables().typed(cls, tables().from_zarr(filename, **options))
