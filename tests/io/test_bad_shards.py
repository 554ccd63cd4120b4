"""Bad shards are skipped on request: named in a warning and in `skipped`, and the other rows stay in their order."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorClassDataset
from tensorclass.errors import ArgumentError, FileFormatError
from tensorclass.io import remote_access
from tensorclass.typing import Int64
from tests.io._server import serving


class Row(TensorClass):
    n: Int64[Tensor, ""]


def written(path: Path, count: int = 60) -> list[Path]:
    """A dataset of shards with ten rows each; their files."""
    with TensorClassDataset.create(path, Row, rows_per_shard=10, checksums=True) as writer:
        writer.append(Row(n=torch.arange(count), batch_size=[count]))
    return sorted(path.glob("*.safetensors"))


def spoil(files: list[Path]) -> None:
    """One is missing, one is cut, one is another shard."""
    os.unlink(files[0])
    os.truncate(files[2], files[2].stat().st_size - 3)
    files[5].write_bytes(files[4].read_bytes())


def numbers(batches: Any) -> list[int]:
    """The rows that were delivered."""
    return sorted(n for batch in batches for n in batch.n.tolist())


LEFT = [*range(10, 20), *range(30, 50)]


def test_bad_shards_are_skipped(tmp_path: Path) -> None:
    """Missing, cut and foreign shards are left out of rows, batches and states; worker processes leave out the same."""
    files = written(tmp_path / "data")
    spoil(files)
    with pytest.raises(FileFormatError):
        TensorClassDataset(tmp_path / "data", Row)[:]
    with pytest.warns(UserWarning, match=r"3 of 6 shards with 30 rows can't be read: .*000000-.*is not there"):
        data = TensorClassDataset(tmp_path / "data", Row, errors="skip")
    assert list(data.skipped) == [str(files[k]) for k in (0, 2, 5)]
    assert "bytes" in data.skipped[str(files[2])]
    assert "belongs to another dataset" in data.skipped[str(files[5])]
    assert data[:].n.tolist() == LEFT
    assert data[10].n == 30
    batches = data.batches(7, shuffle=True)
    assert numbers(batches) == LEFT
    with pytest.raises(ArgumentError, match="rows=30"):
        TensorClassDataset(tmp_path / "data", Row).batches(7, shuffle=True).load_state_dict(batches.state_dict())
    other: Any = pickle.loads(pickle.dumps(data))
    assert (other.skipped, other[:].n.tolist()) == (data.skipped, LEFT)
    both = TensorClassDataset.concat([data, TensorClassDataset(tmp_path / "data", Row, errors="raise")])
    assert numbers(both.pick("n").batches(7)) == sorted(2 * LEFT)


def test_changed_bytes_are_skipped(tmp_path: Path) -> None:
    """With `verify=True` so is a shard whose bytes have changed; if no shard is left, opening raises."""
    files = written(tmp_path / "data")
    raw = files[1].read_bytes()
    files[1].write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    assert len(TensorClassDataset(tmp_path / "data", Row, errors="skip")) == 60
    with pytest.warns(UserWarning, match="1 of 6 shards"):
        assert len(TensorClassDataset(tmp_path / "data", Row, verify=True, errors="skip")) == 50
    for file in files:
        file.write_bytes(b"x")
    with pytest.raises(OSError, match="6 of 6 shards with 60 rows can't be read"):
        TensorClassDataset(tmp_path / "data", Row, errors="skip")
    with pytest.raises(ArgumentError, match="""errors is "raise" or "skip", got 'ignore'"""):
        TensorClassDataset(tmp_path / "data", Row, errors="ignore")


def test_bad_shards_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing and cut shards behind a URL are skipped too, in concurrent requests; a failing server is an error."""
    monkeypatch.setenv("TENSORCLASS_CACHE", str(tmp_path / "cache"))
    files = written(tmp_path / "data")
    spoil(files[:5] + files[3:4])
    files[3].write_bytes(files[4].read_bytes()[:100])
    with serving(tmp_path) as server:
        with pytest.warns(UserWarning, match="3 of 6 shards"):
            data = TensorClassDataset(f"{server.url}/data", Row, errors="skip", retries=0)
        assert data[:].n.tolist() == [*range(10, 20), *range(40, 60)]
        written(tmp_path / "other")
        other = TensorClassDataset(f"{server.url}/other", Row)
        server.status = 503
        with remote_access(retries=0), pytest.raises(OSError, match="503"):
            other._find_skipped(Row)
