"""Loaders, verification, compaction, other datasets, and the command line."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass import TensorClassDataset, TensorDict, load
from tensorclass.cli import main
from tensorclass.errors import ChecksumError, FileFormatError, MissingExtraError
from tensorclass.io._inspect import verify
from tests.io._classes import Digits
from tests.io._exact import assert_same
from tests.io.test_dataset import everythings, written
from tests.io.test_typed import digits


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_loader(workers, tmp_path):
    """A loader gives the batches of `batches`, and goes on behind what was delivered, not what was read."""
    data = written(tmp_path, everythings(40), 7)
    options: Any = {"shuffle": True, "seed": 3, "rank": 1, "world_size": 2}
    plain, loader = data.batches(4, **options), data.loader(batch_size=4, num_workers=workers, **options)
    expected = [*plain, *plain]
    assert len(loader) == 5
    for one, other in zip([*loader, *loader], expected, strict=True):
        assert_same(one, other)
    source = iter(loader)
    next(source)
    state = json.loads(json.dumps(loader.state_dict()))
    assert (state["epoch"], state["step"]) == (2, 1)
    again = data.loader(batch_size=4, num_workers=workers, **options)
    again.load_state_dict(state)
    plain.load_state_dict(state)
    found = list(again)
    assert len(found) == 4
    for one, other in zip(found, plain, strict=True):
        assert_same(one, other)
    with pytest.raises(ValueError, match="seed"):
        data.loader(batch_size=4, **{**options, "seed": 4}).load_state_dict(state)


def test_loader_options(tmp_path):
    """Options that the loader sets itself are refused; a loader pickles as paths."""
    data = written(tmp_path, digits(9))
    with pytest.raises(TypeError, match="collate_fn"):
        data.loader(batch_size=2, collate_fn=list)
    assert len(pickle.dumps(data.loader(batch_size=2, num_workers=2))) < 20_000


def test_an_empty_loader(tmp_path):
    """Without rows there are no batches."""
    TensorClassDataset.create(tmp_path, Digits).close()
    assert list(TensorClassDataset(tmp_path).loader(batch_size=2, shuffle=True)) == []


def test_compact(tmp_path):
    """Shards of another size, the same rows; an existing dataset is not written over."""
    batch = everythings(20)
    data = written(tmp_path / "a", batch, 1)
    found = data.compact(tmp_path / "b", 8)
    assert [shard.rows for shard in found.shards] == [8, 8, 4]
    assert_same(found[:], batch)
    assert_same(data.pick("tags").compact(tmp_path / "c", checksums=True)[:], batch.pick("tags"))
    assert TensorClassDataset(tmp_path / "c", verify=True)[3] is not None
    with pytest.raises(FileExistsError):
        data.compact(tmp_path / "a")
    assert_same(data[:], batch)


class Pairs(torch.utils.data.Dataset[Any]):
    """A dataset of tuples."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return torch.full((1, 8, 8), float(index)), index


def test_from_map(tmp_path):
    """Tuples of another dataset become rows."""
    pairs = Pairs()
    found: Any = TensorClassDataset.from_map(pairs, lambda x: Digits(x[0], torch.tensor(x[1])), tmp_path / "a", 4)
    assert found[:].label.tolist() == list(range(10))
    assert found[7].image.eq(7).all()
    again = TensorClassDataset.from_map(iter([digits(3), digits(4)]), lambda x: x, tmp_path / "b")
    assert len(again) == 7
    with pytest.raises(ValueError, match=r"there are no rows.*TensorClassDataset\.create"):
        TensorClassDataset.from_map([], lambda x: x, tmp_path / "c")
    with pytest.raises(TypeError, match="tensorclass"):
        TensorClassDataset.from_map([1], lambda x: x, tmp_path / "c")


def damage(path: str) -> None:
    """Change one byte of the payload."""
    raw = bytearray(Path(path).read_bytes())
    raw[-5] ^= 1
    Path(path).write_bytes(raw)


def test_verify(tmp_path):
    """Every shard that is not what was written is found; the others are right."""
    data = written(tmp_path, digits(20), 5, checksums=True)
    assert data.verify() == []
    damage(data.shards[1].path)
    Path(data.shards[3].path).unlink()
    found = data.verify()
    assert [type(error) for error in found] == [ChecksumError, FileFormatError]
    assert data.shards[1].entry.file in str(found[0])
    assert data.shards[3].entry.file in str(found[1])


def test_command_verify(tmp_path, capsys):
    """Exit status 1 and a line for each finding; 0 where everything is right."""
    data = written(tmp_path / "d", digits(20), 5, checksums=True)
    digits(3).save(tmp_path / "x.safetensors", checksums=True)
    paths = [str(tmp_path / "d"), str(tmp_path / "x.safetensors")]
    assert main(["verify", *paths]) == 0
    assert capsys.readouterr().out == "".join([f"{path}: right\n" for path in paths])
    damage(data.shards[2].path)
    damage(paths[1])
    assert main(["verify", *paths, str(tmp_path / "nothing")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert data.shards[2].entry.file in lines[0]
    assert "x.safetensors" in lines[1]
    assert "nothing" in lines[2]
    (tmp_path / "d" / "manifest.json").write_text("{}")
    assert main(["verify", paths[0]]) == 1


def test_command_of_very_many_findings(tmp_path, capsys):
    """The first twenty are printed, and how many more there are; so are the first tensors of a file."""
    data = written(tmp_path / "d", digits(30), 1)
    for shard in data.shards:
        Path(shard.path).unlink()
    assert main(["verify", str(tmp_path / "d")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "... and 10 more"
    TensorDict({f"k{i}": torch.zeros(1) for i in range(1000)}).save(tmp_path / "x.safetensors")
    assert main(["inspect", str(tmp_path / "x.safetensors")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 201
    assert lines[-1].endswith(" more")


def test_no_bar(tmp_path, capsys, monkeypatch):
    """Without the package the extra that brings it is named; the command line shows no traceback."""
    monkeypatch.setitem(sys.modules, "tqdm", None)
    data = written(tmp_path, digits(3))
    with pytest.raises(MissingExtraError, match=r"tensorclass\[progress\]"):
        data.verify(pbar=True)
    with pytest.raises(MissingExtraError, match=r"tensorclass\[progress\]"):
        TensorClassDataset.create(tmp_path, Digits, resume=True, pbar=True)
    TensorClassDataset.create(tmp_path, Digits, resume=True).close()
    assert main(["verify", "--pbar", str(tmp_path)]) == 2
    assert "tensorclass[progress]" in capsys.readouterr().err


def test_written_in_place(tmp_path):
    """Checksums stay as they were when tensors are written through; the error says that this may be why they differ."""
    path = tmp_path / "x.safetensors"
    digits(3).save(path, checksums=True)
    load(path, mode="r+").label.fill_(7)
    (found,) = verify(str(path))
    assert isinstance(found, ChecksumError)
    assert "written to in place" in str(found)
    load(path).save(path, checksums=True)
    assert verify(str(path)) == []


def test_command_inspect(tmp_path, capsys):
    """What a file and a dataset hold, without a look at the tensors."""
    written(tmp_path / "d", everythings(20), 5)
    assert main(["inspect", str(tmp_path / "d")]) == 0
    out = capsys.readouterr().out
    assert "tests.io._classes.Everything" in out
    assert "20 rows in 4 shards" in out
    assert "tokens" in out
    digits(3).save(tmp_path / "f", checksums=True)
    assert main(["inspect", str(tmp_path / "f")]) == 0
    out = capsys.readouterr().out
    assert "image  float32[3, 1, 8, 8]  768 bytes" in out
    assert "with checksums" in out
    TensorDict(a=torch.zeros(2)).save(tmp_path / "x.safetensors")
    assert main(["inspect", str(tmp_path / "x.safetensors")]) == 0
    assert "a TensorDict" in capsys.readouterr().out
    (tmp_path / "x.safetensors").write_bytes(b"x")
    assert main(["inspect", str(tmp_path / "x.safetensors")]) == 2
    assert "x.safetensors" in capsys.readouterr().err


def test_bars(tmp_path, capsys):
    """Bars are shown where they are asked for."""
    with TensorClassDataset.create(tmp_path, Digits, pbar=True) as writer:
        writer.append(digits(9))
    assert "9rows" in capsys.readouterr().err
    TensorClassDataset(tmp_path).verify(pbar=True)
    assert "9/9" in capsys.readouterr().err
