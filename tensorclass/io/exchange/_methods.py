"""What the methods of containers call."""

from __future__ import annotations

from typing import Any

from ..._schema import schema_of
from ...classes._json import load
from ...store import TensorDict
from . import _functions as functions
from ._arrays import from_array
from ._arrays import is_flat as is_flat
from ._arrow import from_arrow
from ._arrow import to_arrow as to_arrow
from ._frames import from_hf, from_pandas
from ._frames import to_hf as to_hf
from ._frames import to_mds as to_mds
from ._frames import to_pandas as to_pandas
from ._frames import to_polars as to_polars
from ._functions import from_h5 as from_h5
from ._functions import from_zarr as from_zarr
from ._parquet import write_parquet as write_parquet
from ._persistent import PersistentTensorDict as PersistentTensorDict
from ._persistent import mapping_of
from ._text import write_csv as write_csv
from ._text import write_lines as write_lines
from ._text import write_records as write_records

READERS: dict[str, Any] = {
    "arrow": from_arrow, "pandas": from_pandas, "hf": from_hf, "csv": functions.from_csv, "json": functions.from_json,
    "parquet": functions.from_parquet, "array": from_array,
}  # fmt: skip


def read(form: str, cls: Any, *source: Any, **options: Any) -> Any:
    """What a reader gives, as the class whose method was called; an untyped one is `TensorDict`."""
    return READERS[form](*source, cls=cls if schema_of(cls) is not None else TensorDict, **options)


def typed(cls: Any, stored: PersistentTensorDict) -> Any:
    """A store as an instance of a class in memory; the store itself for an untyped class."""
    if schema_of(cls) is None:
        return stored
    with stored:
        return load(cls, mapping_of(stored._twin()))
