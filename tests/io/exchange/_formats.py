"""Every way out of the program and back, as one function for each: what goes in, and the class that reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tensorclass import TensorClassDataset, convert

Trip = Callable[[Any, Any, Path], Any]


def _file(method: str, ending: str, **options: Any) -> Trip:
    def trip(batch: Any, cls: Any, folder: Path) -> Any:
        path = folder / f"data{ending}"
        path.unlink(missing_ok=True)
        getattr(batch, f"to_{method}")(path, **options)
        named = {"path": path} if method == "json" else {}
        return getattr(cls, f"from_{method}")(*([] if named else [path]), **named, **options)

    return trip


def _converted(ending: str) -> Trip:
    def trip(batch: Any, cls: Any, folder: Path) -> Any:
        batch.to_parquet(folder / "source.parquet")
        convert(folder / "source.parquet", folder / f"there{ending}", cls, force=True)
        convert(folder / f"there{ending}", folder / "back.parquet", cls, force=True)
        return cls.from_parquet(folder / "back.parquet")

    return trip


def _dataset(batch: Any, cls: Any, folder: Path) -> Any:
    batch.to_parquet(folder / "source.parquet")
    number = len(list(folder.iterdir()))
    data = TensorClassDataset.from_parquet(folder / "source.parquet", folder / f"dataset-{number}", cls)
    data.to_parquet(folder / "again.parquet")
    return cls.from_parquet(folder / "again.parquet")


MEMORY: dict[str, Trip] = {
    "arrow": lambda batch, cls, _: cls.from_arrow(batch.to_arrow()),
    "capsule": lambda batch, cls, _: cls.from_arrow(pa.table(batch)),
    "pandas": lambda batch, cls, _: cls.from_pandas(batch.to_pandas()),
    "polars": lambda batch, cls, _: cls.from_arrow(batch.to_polars()),
    "hf": lambda batch, cls, _: cls.from_hf(batch.to_hf()),
}
FILES: dict[str, Trip] = {
    "parquet": _file("parquet", ".parquet"),
    "flat parquet": _file("parquet", ".parquet", separator="."),
    "csv": _file("csv", ".csv"),
    "json lines": _converted(".jsonl"),
    "json": _converted(".json"),
    "h5": lambda batch, cls, folder: (batch.to_h5(folder / "a.h5").close(), cls.from_h5(folder / "a.h5"))[1],
    "zarr": lambda batch, cls, folder: (batch.to_zarr(folder / "a.zarr").close(), cls.from_zarr(folder / "a.zarr"))[1],
}
CONVERTED = {ending: _converted(ending) for ending in (".arrow", ".safetensors", ".h5", ".zarr", ".hf", "")}
TRIPS = {**MEMORY, **FILES, **CONVERTED, "dataset": _dataset}
TEXT = ("csv", "json", "json lines")
"""Formats that hold decimals: numbers of fields that declare no dtype come back in the default one."""
