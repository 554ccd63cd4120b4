"""A dataset is opened with any class that can read its rows; another class raises when it is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorClassDataset
from tensorclass.errors import SchemaError
from tensorclass.typing import Float, Float32, Float64, Int64


class Stored(TensorClass):
    """The class of the rows."""

    x: Float32[Tensor, "2"]
    y: Int64[Tensor, ""]


class Grown(TensorClass):
    """One more optional field."""

    x: Float32[Tensor, "2"]
    y: Int64[Tensor, ""]
    z: Float32[Tensor, ""] | None = None


class Wider(TensorClass):
    """Any float, any size."""

    x: Float[Tensor, "n"]
    y: Int64[Tensor, ""]


class OtherDtype(TensorClass):
    """A dtype that the rows don't have."""

    x: Float64[Tensor, "2"]
    y: Int64[Tensor, ""]


class OtherShape(TensorClass):
    """A size that the rows don't have."""

    x: Float32[Tensor, "3"]
    y: Int64[Tensor, ""]


class Narrower(TensorClass):
    """One field less."""

    x: Float32[Tensor, "2"]


class Foreign(TensorClass):
    """Other fields."""

    q: Float32[Tensor, ""]


def written(path: Path, rows: int) -> Path:
    """A dataset with rows."""
    with TensorClassDataset.create(path, Stored) as writer:
        if rows:
            writer.append(Stored(x=torch.ones(rows, 2), y=torch.arange(rows)))
    return path


@pytest.mark.parametrize("cls", [OtherDtype, OtherShape, Narrower, Foreign])
def test_a_class_that_cannot_read_the_rows_is_refused_at_open(cls: Any, tmp_path: Path) -> None:
    """The error names the class and what differs; several folders are looked at too."""
    path = written(tmp_path / "rows", 3)
    for paths in (path, [path, path]):
        with pytest.raises(SchemaError, match=cls.__name__):
            TensorClassDataset(paths, cls)


@pytest.mark.parametrize("cls", [Stored, Grown, Wider])
def test_a_class_that_reads_them_opens(cls: Any, tmp_path: Path) -> None:
    """Rows of the class that wrote them, or of one that has taken its place."""
    data = TensorClassDataset(written(tmp_path / "rows", 3), cls)
    assert data[2].y == 2
    assert type(data[0]) is cls
