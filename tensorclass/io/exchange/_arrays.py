"""Structured numpy arrays as instances of typed classes: each field of the array is a column."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from ...ops._nesting import struct_field
from ._batches import batch_of
from ._columns import Columns, TableColumn, column_of


def from_array(array: np.ndarray[Any, Any], *, cls: Any, device: Any = None) -> Any:
    """An instance whose batch size is the shape of the array. Values for the whole batch are in every record.

    Raises:
        SchemaError: for fields that don't fit the class.
    """
    found = batch_of(cls, _columns(array.reshape(-1)), array.size, device=device)
    return found if array.ndim == 1 else found.reshape(array.shape)


def _columns(records: np.ndarray[Any, Any]) -> Columns:
    return {name: _column(records[name]) for name in records.dtype.names or ()}


def _column(values: np.ndarray[Any, Any]) -> TableColumn:
    kind = f"numpy {values.dtype}"
    if values.dtype.names is not None:
        return TableColumn(_columns(values), None, kind)
    found = struct_field(values)
    if isinstance(found, Tensor):
        return TableColumn(found, None, kind, objects=values.tolist)
    return column_of([part.numpy() if isinstance(part, Tensor) else part for part in found], kind)


def is_flat(dtype: np.dtype[Any]) -> bool:
    """Whether every record has one value, or an array of numbers, for each field at every depth."""
    inner = [dtype[name] for name in dtype.names or ()]
    return all([is_flat(part) and (part.subdtype is None or part.subdtype[0].names is None) for part in inner])
