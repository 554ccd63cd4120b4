"""Data frames and datasets of other libraries: pandas, polars, Hugging Face `datasets`, MosaicML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Unpack

from ..._flags import flags
from ...errors import ArgumentError
from ...store import RaggedTensor, TensorDict
from .._optional import optional
from .._parts import BLOCK, blocks, fitting, tables_of
from ._arrow import as_table, class_of, columns_in, tables
from ._batches import TableOptions, batch_of
from ._columns import TableColumn, column_of, columns_of, flat, json_rows, native_type, nest, stored, unique


def to_pandas(batch: Any, separator: str | None = None) -> Any:
    """Convert a batch to a pandas frame with a column for each field.

    Event dims and ragged fields are arrays in a column of objects.
    """
    pandas = optional("pandas", "A pandas frame", "pandas")
    columns = dict(flat(columns_of(batch, "to_pandas"), separator))
    made = {name: _series(pandas, column, len(batch), name) for name, column in columns.items()}
    return pandas.DataFrame(made, index=pandas.RangeIndex(len(batch)))


def _series(pandas: Any, column: TableColumn, rows: int, path: str) -> Any:
    """A column of a data frame."""
    value = column.value
    if isinstance(value, Tensor) and value.is_complex():
        return _objects(pandas, value.numpy()) if value.ndim > 1 else pandas.Series(value.to(torch.complex128).numpy())
    if isinstance(value, Tensor):
        found = stored(value, path)[0].numpy()
        return _objects(pandas, found) if found.ndim > 1 else pandas.Series(found.copy())
    if isinstance(value, RaggedTensor):
        return _objects(pandas, [stored(element, path)[0].numpy() for element in value.tolist()])
    if value is None:
        return _objects(pandas, [None] * rows)
    listed = value.tolist()
    native = native_type(column.spec, value)
    return _objects(pandas, listed) if native is None or None in listed else pandas.Series(listed, dtype=native)


def _objects(pandas: Any, values: Any) -> Any:
    return pandas.Series(list(values), dtype=object)


def from_pandas(
    dataframe: Any, *, separator: str | None = None, cls: Any = None, **options: Unpack[TableOptions]
) -> Any:
    """Convert a pandas frame to a batch with an element for each row. The index of the frame is dropped.

    Columns of numbers become tensors, anything else one Python value for each row. Cells that are arrays or lists of
    numbers become event dims, or ragged entries if they differ in length.

    Args:
        dataframe: the frame.
        separator: the string that joins the names of nested entries.
        cls: the class; `TensorDict` by default.
        options: the common options of table readers; see `from_csv`.

    Raises:
        SchemaError: for columns that don't fit; names the field, the column, the declared and the given type.

    >>> import pandas as pd
    >>> from tensorclass import from_pandas
    >>> data = from_pandas(pd.DataFrame({"a": [1, 2], "name": ["x", "y"]}))
    >>> data["a"], data["name"].tolist()
    (tensor([1, 2]), ['x', 'y'])
    """
    pandas = optional("pandas", "A pandas frame", "pandas")
    if not isinstance(dataframe, pandas.DataFrame):
        raise ArgumentError(f"from_pandas takes a pandas.DataFrame, got a {type(dataframe).__name__}")
    columns = frame_columns(dataframe)
    cls = TensorDict if cls is None else cls
    return batch_of(cls, nest(columns, separator, cls), len(dataframe), **options)


def frame_columns(dataframe: Any) -> dict[str, TableColumn]:
    """The columns of a pandas frame."""
    return {name: _column(dataframe[name]) for name in unique(list(dataframe.columns), "pandas frame")}


def _column(series: Any) -> TableColumn:
    """A column of a data frame as numbers or objects, with the places of missing values."""
    dtype = series.dtype
    inner = getattr(dtype, "numpy_dtype", dtype)  # of nullable columns
    if isinstance(inner, np.dtype) and inner.kind in "biufc":
        missing = series.isna().to_numpy() if inner is not dtype else np.zeros(0, bool)
        options = {"na_value": 0} if missing.any() else {}
        value = torch.from_numpy(np.array(series.to_numpy(dtype=inner, **options)))
        valid = torch.from_numpy(~missing) if missing.any() else None
        none = valid is not None and not valid.any()
        return TableColumn(None if none else value, None if none else valid, str(dtype), objects=series.tolist)
    there = series.notna().tolist()
    listed = [value if known else None for value, known in zip(series.tolist(), there, strict=True)]
    return column_of(listed, str(dtype))


def to_polars(batch: Any) -> Any:
    """Convert a batch to a polars frame with a column for each field.

    Event dims become arrays, nested containers structs.
    """
    polars = optional("polars", "A polars frame", "polars")
    return polars.from_arrow(next(tables([batch], "to_polars", False)))


def to_hf(batch: Any) -> Any:
    """Convert a batch to a Hugging Face dataset with a column for each field; event dims are fixed-size lists."""
    datasets = optional("datasets", "A Hugging Face dataset", "hf")
    return datasets.Dataset(next(tables([batch], "to_hf", False)))


@flags
def from_hf(dataset: Any, *, cls: Any = None, rows: int | None = None, **options: Unpack[TableOptions]) -> Any:
    """Convert a Hugging Face dataset to a batch with an element for each row, including its selections and orders.

    Args:
        dataset: a `Dataset`, or an `IterableDataset`, which is read as a whole.
        cls: the class; by default the one that the dataset was made from, if it is imported, else `TensorDict`.
        rows: not used.
        options: the common options of table readers; see `from_csv`.

    Raises:
        SchemaError: for columns that don't fit.

    >>> import datasets
    >>> from tensorclass import from_hf
    >>> from_hf(datasets.Dataset.from_dict({"a": [1, 2]}))["a"]
    tensor([1, 2])
    """
    pa = optional("pyarrow", "A Hugging Face dataset", "hf")
    table = pa.concat_tables(list(hf_tables(dataset, BLOCK)))
    cls = class_of(table) if cls is None else cls
    return batch_of(cls, columns_in(table), table.num_rows, **options)


def hf_tables(dataset: Any, rows: int) -> Iterator[Any]:
    """The tables of a Hugging Face dataset, with `rows` rows each."""
    if not hasattr(dataset, "with_format") or isinstance(dataset, dict):
        raise ArgumentError(
            f"from_hf takes a dataset of `datasets`, got a {type(dataset).__name__}; a split is one: `dataset['train']`"
        )
    if not getattr(dataset, "num_rows", 1):
        return iter([dataset.data.table.slice(0, 0)])
    given = dataset.with_format("arrow")
    if hasattr(dataset, "num_rows"):
        whole = dataset.data
        found = given.iter(batch_size=fitting(whole.num_rows, whole.nbytes, rows))
        return (part for table in found for part in tables_of(as_table(table), rows))
    pa = optional("pyarrow", "A Hugging Face dataset", "hf")
    parts = blocks(map(as_table, given.iter(batch_size=1)), rows, lambda table: table.nbytes)
    return (pa.concat_tables(part).combine_chunks() for part in parts)


@flags
def to_mds(
    batches: Iterable[Any],
    out: Any,
    columns: dict[str, str] | None = None,
    writer: Any = None,
    finish_writer: bool | None = None,
    **options: Any,
) -> None:
    """Write rows as samples of a MosaicML dataset."""
    streaming, finish = optional("streaming", "A MosaicML dataset", "mds"), writer is None or finish_writer
    for batch in batches:
        found = dict(flat(columns_of(batch, "to_mds"), "."))
        cells = {name: _mosaic_column(column, len(batch), name) for name, column in found.items()}
        if writer is None:
            kinds = columns or {name: kind for name, (kind, _) in cells.items()}
            writer = streaming.MDSWriter(out=out, columns=kinds, **options)
        for row in zip(*[values for _, values in cells.values()], strict=True):
            writer.write(dict(zip(cells, row, strict=True)))
    if writer is not None and finish:
        writer.finish()


def _mosaic_column(column: TableColumn, rows: int, path: str) -> tuple[str, list[Any]]:
    """The MosaicML encoding of a column, and its values."""
    value = column.value
    if isinstance(value, Tensor) and value.ndim > 1:
        return "ndarray", list(stored(value, path)[0].numpy())
    if isinstance(value, RaggedTensor):
        return "ndarray", [stored(element, path)[0].numpy() for element in value.tolist()]
    listed = json_rows(column, rows, path)
    kinds = {int: "int", float: "float64", str: "str"}
    kind = {type(entry) for entry in listed}
    return (kinds.get(kind.pop(), "json") if len(kind) == 1 else "json"), listed
