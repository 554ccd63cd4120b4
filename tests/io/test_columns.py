"""Rows of many shards at once: every dtype, every form; shards that differ, that are closed, that threads read."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from annotated_types import Lt
from torch import Tensor

from tensorclass import PerElement, Ragged, Shared, TensorClass, TensorClassDataset, TensorDict, _system, load
from tensorclass.errors import FileFormatError, SchemaError, StructureError
from tensorclass.io import _advice, _columns, _shards, _shelf
from tensorclass.typing import Float32, Int64
from tests._marks import rest_is_slow
from tests.io._classes import Digits
from tests.io._exact import assert_same, raw
from tests.io.test_dataset import everythings, written
from tests.io.test_round_trip import QUANTIZED, dtypes, sample
from tests.io.test_typed import digits

ROWS = 12
INDICES = {
    "one": [5], "order": list(range(ROWS)), "part": [4, 5, 6], "shuffled": [11, 0, 7, 3, 8], "twice": [2, 2, 9, 2],
    "backwards": list(range(ROWS))[::-1], "none": [],
}  # fmt: skip


class Loose(TensorClass):
    """A tensor of any dtype and shape, beside others."""

    first: Tensor
    value: Tensor
    last: Tensor


class Texts(TensorClass):
    """Elements of different lengths, of several dims."""

    tokens: Ragged[Tensor, "t"]
    vectors: Ragged[Tensor, "n 3"]
    none: Ragged[Tensor, "m"]


class Nested(TensorClass):
    """A container with more batch dims inside."""

    inner: TensorDict
    scale: Shared[Tensor]


def texts() -> Texts:
    """Elements that are empty now and then."""
    lengths = [i * 5 % 4 for i in range(ROWS)]
    return Texts(
        tokens=[torch.arange(n) for n in lengths],
        vectors=[torch.rand(n + 1, 3) for n in lengths],
        none=[torch.zeros(0) for _ in lengths],
        batch_size=[ROWS],
    )  # type: ignore[arg-type, call-arg]  # lists of tensors


def nested() -> Nested:
    """Ragged rows and objects with two batch dims."""
    from_lists = TensorDict(a=torch.rand(ROWS, 2, 3), batch_size=[ROWS, 2])
    return Nested(inner=from_lists, scale=torch.rand(3), batch_size=[ROWS])  # type: ignore[arg-type, call-arg]  # as it is


def copied(dtype: torch.dtype) -> bool:
    """Whether torch copies tensors of a dtype, so that rows of them can be joined."""
    try:
        sample(dtype, (2,)).clone()
    except (RuntimeError, UserWarning):
        return False
    return True


@pytest.mark.parametrize(
    "name", rest_is_slow(sorted(name for name in set(dtypes()) - QUANTIZED if copied(dtypes()[name])), each=3)
)
def test_dtypes(name, tmp_path):
    """Rows of every dtype: numbers, short and long ones, without bytes."""
    for at, shape in enumerate([(), (1,), (3,), (2, 4), (0,), (3, 0, 2)]):
        value = sample(dtypes()[name], (ROWS, *shape)) if shape else sample(dtypes()[name], (ROWS,))
        batch = Loose(sample(torch.uint8, (ROWS, 3)), value, torch.arange(ROWS), batch_size=[ROWS])  # type: ignore[call-arg]  # known
        data = written(tmp_path / str(at), batch, 5)
        for index in ([11, 0, 7, 7], [3], list(range(ROWS))):
            found = data[index]
            for key in ("first", "value", "last"):
                assert raw(getattr(found, key)) == b"".join([raw(getattr(batch, key)[i]) for i in index]), (shape, key)
                assert getattr(found, key).dtype is getattr(batch, key).dtype


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 12])
@pytest.mark.parametrize("make", [texts, nested, lambda: digits(ROWS), lambda: everythings(ROWS)])
def test_forms(make, rows, mmap, tmp_path):
    """Rows by every index are those of the batch in memory; what came from one read is never changed by the next."""
    batch = make()
    written(tmp_path, batch, rows)
    data: Any = TensorClassDataset(tmp_path, type(batch), mmap=mmap)
    for index in INDICES.values():
        found = data[index]
        assert_same(found, batch[torch.tensor(index, dtype=torch.int64)].clone())
        for leaf in found._leaves(2):
            leaf.zero_()
    assert_same(data[:], batch.clone())


def test_shards_that_differ(tmp_path):
    """Another event shape, and another shared value, are named; rows of shards that are alike are read."""
    one, two = (
        written(tmp_path / str(n), Loose(*[torch.ones(4, n)] * 3, batch_size=[4]))  # type: ignore[call-arg]  # known
        for n in (2, 3)
    )
    both = TensorClassDataset.concat([one, two])
    assert both[[7, 4]].value.shape == (2, 3)
    assert both[[0, 3]].value.shape == (2, 2)
    with pytest.raises((StructureError, RuntimeError), match="first"):
        both[[0, 7]]
    shared = [written(tmp_path / str(scale), nested().replace(scale=torch.full((3,), scale))) for scale in (1.0, 2.0)]
    both = TensorClassDataset.concat(shared)
    assert both[[3]].scale.eq(1).all()
    assert both[[ROWS]].scale.eq(2).all()
    with pytest.raises(StructureError, match="scale"):
        both[[0, ROWS]]


def test_defaults_of_absent_fields(tmp_path):
    """A default stands for a field that older rows lack, in each shard; it takes no memory for each row."""
    batch = digits(20)
    written(tmp_path / "old", batch, 6)

    class Later(TensorClass):
        image: Float32[Tensor, "1 8 8"]
        label: Int64[Tensor, ""]
        weight: Float32[Tensor, "2"] = torch.tensor([1.0, 2.0])

    old: Any = TensorClassDataset(tmp_path / "old", Later)
    new = written(tmp_path / "new", Later(batch.image, batch.label, torch.zeros(20, 2)), 6)
    assert old[[19, 0, 7]].weight.tolist() == [[1, 2]] * 3
    found = TensorClassDataset.concat([old, new])[[1, 21]]
    assert found.weight.tolist() == [[1, 2], [0, 0]]
    assert found.label.tolist() == batch.label[[1, 1]].tolist()


def test_names_in_another_order(tmp_path):
    """Two classes that declare the same fields in another order: each field gets its own rows."""

    class Turned(TensorClass):
        label: Int64[Tensor, ""]
        image: Float32[Tensor, "1 8 8"]

    batch = digits(8)
    one = written(tmp_path / "a", batch, 3)
    two = written(tmp_path / "b", Turned(batch.label, batch.image), 5)
    both: Any = TensorClassDataset.concat([one, two])
    assert_same(both[[1, 9, 15, 0]], torch.cat([batch, batch])[[1, 9, 15, 0]])
    assert list(TensorClassDataset.concat([two, one])[[0, 9]].keys()) == ["label", "image"]


def test_threads_while_shards_are_closed(tmp_path, monkeypatch):
    """Each batch is right while other threads have shards opened and closed: a map lives as long as a read of it."""
    monkeypatch.setattr(_shelf, "MAPPED", 3)
    batch = digits(64)
    data: Any = written(tmp_path, batch, 4)
    wrong: list[Any] = []

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            index = (rng.permutation(3)[rng.integers(0, 3, 9)] * 4 + rng.integers(0, 16) * 4) % 64
            if not torch.equal(data[index].image, batch.image[torch.from_numpy(index)]):
                wrong.append(index)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(data._shelf._table.held) <= 3


def test_closed_shards_are_unmapped(tmp_path, monkeypatch):
    """A shard that was not used for long is mapped no more, and opened again when it is asked for."""
    monkeypatch.setattr(_shelf, "MAPPED", 2)
    batch = digits(20)
    data: Any = written(tmp_path, batch, 5)
    for row in (0, 6, 12, 18):
        assert torch.equal(data[[row]].image, batch.image[[row]])
    gc.collect()
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert maps.read_text().count(str(tmp_path)) == 2
    assert torch.equal(data[[0, 18]].image, batch.image[[0, 18]])


# ---- cold reads ----------------------------------------------------------------------------------------------------

COLD = """
import os, sys, torch
from tensorclass import TensorClassDataset, TensorClass
from torch import Tensor
from tensorclass.typing import UInt8, Int64

class Images(TensorClass):
    image: UInt8[Tensor, "3 64 64"]
    label: Int64[Tensor, ""]

def read():
    return int(dict([line.split(": ") for line in open("/proc/self/io").read().splitlines()])["read_bytes"])

folder, rows = sys.argv[1], 4096
generator = torch.Generator().manual_seed(0)
batch = Images(torch.randint(0, 256, (rows, 3, 64, 64), dtype=torch.uint8, generator=generator), torch.arange(rows))
with TensorClassDataset.create(folder, Images, rows_per_shard=1024) as writer:
    writer.append(batch)
data = TensorClassDataset(folder, Images)
data[::512]
for shard in data.shards:
    fd = os.open(shard.path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
index = torch.randperm(rows, generator=generator)[:128]
before = read()
found = data[index]
assert torch.equal(found.image, batch.image[index]) and torch.equal(found.label, index)
print(read() - before, 128 * (3 * 64 * 64 + 8))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the system does not say what was read")
def test_cold_reads(tmp_path):
    """Random rows that are not in memory bring little more than themselves from the disk."""
    found = subprocess.run(
        [sys.executable, "-c", COLD, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    got, asked = map(int, found.stdout.split())
    assert got <= 1.3 * asked  # nothing where the folder is in memory


def test_rows_that_are_not_in_memory(tmp_path, monkeypatch):
    """They are asked for as whole pages, each once, neighbours together; rows in order bring those behind them."""
    asked: list[tuple[int, int]] = []

    class Libc:
        def madvise(self, begin: int, size: int, advice: int) -> int:
            asked.append((begin, size))
            return 0

    monkeypatch.setattr(_system, "libc", Libc)
    monkeypatch.setattr(_system, "LINUX", True)
    page = _advice.PAGE
    begins = np.array([10 * page + 5, 3 * page, 4 * page, 10 * page + 90, 200 * page - 1])
    _advice.expect_rows(begins, 100, 0)
    assert asked == [(3 * page, 2 * page), (10 * page, page), (199 * page, 2 * page)]
    asked.clear()
    _advice.expect_rows(np.arange(64) * page, page, 64 * page)
    assert sum([size for _, size in asked]) == 128 * page
    assert max([size for _, size in asked]) <= 1 << 17
    assert asked[0][0] == 0


def test_headers_that_are_known(tmp_path, monkeypatch):
    """Shards that say the same are understood once; rows, and the container of a shard, are those of the long way."""
    batch = digits(20)
    written(tmp_path / "a", batch, 6)
    read = []
    monkeypatch.setattr(_shards, "read_head", lambda *given, real=_shards.read_head: read.append(given) or real(*given))
    data: Any = TensorClassDataset(tmp_path / "a", Digits)
    assert_same(data[:], batch)
    assert len(read) == 2  # the last shard has fewer rows
    assert_same(data._shelf[1], batch[6:12])
    assert_same(data.pick("label")[[19, 3, 7]].label, batch.label[[19, 3, 7]])


def _another(shard: Path, other: Path) -> None:
    shard.write_bytes(other.read_bytes())


def _at(place: int, by: bytes) -> Any:
    def change(shard: Path, _: Path) -> None:
        raw = bytearray(shard.read_bytes())
        raw[place : place + len(by)] = by
        shard.write_bytes(raw)

    return change


@pytest.mark.parametrize(
    "damage",
    [
        _another,
        lambda shard, _: shard.write_bytes(shard.read_bytes()[:-1]),
        lambda shard, _: shard.unlink(),
        _at(0, b"\0"),
        _at(2, b"\xff"),
        _at(20, b"~"),
        _at(60, b"\xff\xff"),
        _at(70, b"0"),
        _at(110, b"~"),
        _at(600, b"~"),
    ],
    ids=["another", "cut", "gone", "short", "long", "opening", "sum", "digit", "id", "text"],
)
def test_damaged_headers_beside_known_ones(damage, tmp_path):
    """What is known of one shard makes up for nothing in another."""
    data: Any = written(tmp_path / "a", digits(12), 4)
    data[[0]]
    damage(Path(data.shards[1].path), Path(written(tmp_path / "b", digits(12), 4).shards[1].path))
    with pytest.raises(FileFormatError, match=re.escape(data.shards[1].path)):
        data[[5]]
    assert len(data[[9]]) == 1


def test_values_beside_known_headers(tmp_path):
    """A class that looks at values looks at those of each shard."""
    written(tmp_path, digits(12).replace(label=torch.arange(12)), 4)

    class Few(TensorClass, validate="values"):
        image: Float32[Tensor, "1 8 8"]
        label: Annotated[Int64[Tensor, ""], Lt(8)]

    data: Any = TensorClassDataset(tmp_path, Few)
    assert data[[0, 7]].label.tolist() == [0, 7]
    with pytest.raises(SchemaError, match="label"):
        data[[8]]


def test_runs(tmp_path):
    """Rows in order are copied by shards, whatever there are of them; elements without rows too."""
    batch = texts()
    for rows in (1, 2, 5):
        data: Any = written(tmp_path / str(rows), batch, rows)
        for begin in range(ROWS):
            for end in range(begin + 1, ROWS + 1):
                assert_same(data[begin:end], batch[begin:end].clone())


def test_rows_that_are_there_in_part(tmp_path, monkeypatch):
    """Where a look finds a row that is not in memory, the next rows are asked for without one."""
    data: Any = written(tmp_path, digits(64), 16)
    monkeypatch.setattr(_columns, "page_is_here", lambda _: True)  # the system may drop pages at any time
    data[:]
    looked: list[bool] = []
    fetched: list[int] = []
    monkeypatch.setattr(_columns, "page_is_here", lambda _: looked.append(len(looked) > 0) or looked[-1])
    monkeypatch.setattr(_columns, "expect_rows", lambda begins, size, more: fetched.append(size))
    for _ in range(40):
        data[[60, 3]]
    assert looked == [False, *[True] * 7]
    assert len(fetched) == 2 * 33


@pytest.mark.parametrize("missing", [False, True])
def test_looks(missing, tmp_path, monkeypatch):
    """A row is looked up; where it is not in memory, all columns are asked for."""
    batch = digits(64)
    data: Any = written(tmp_path, batch, 16)
    monkeypatch.setattr(_columns, "page_is_here", lambda _: True)  # whatever else fills the memory
    data[:]
    looked, fetched = [], []
    monkeypatch.setattr(_columns, "page_is_here", lambda address: looked.append(address) or not missing)
    monkeypatch.setattr(_columns, "expect_rows", lambda begins, size, more: fetched.append((len(begins), size, more)))
    assert_same(data[[60, 3, 17]], batch[[60, 3, 17]])
    assert 1 <= len(looked) <= 8
    assert fetched == ([(3, 256, 0), (3, 8, 0)] if missing else [])
    fetched.clear()
    data[16:24]
    assert fetched == ([(8, 256, 2048), (8, 8, 2048)] if missing else [])


def test_not_mapped(tmp_path, monkeypatch):
    """Rows of shards that were read into memory are never looked up."""
    written(tmp_path, digits(8), 3)
    monkeypatch.setattr(_columns, "page_is_here", None)
    assert len(TensorClassDataset(tmp_path, Digits, mmap=False)[[7, 0]]) == 2


class Objects(TensorClass):
    """Python objects that may change."""

    numbers: list[int]
    each: PerElement[dict[str, int]]
    none: Float32[Tensor, "0"]


def test_objects_are_owned(tmp_path):
    """A list or dict that a reader changes is not what the next one gets."""
    batch = Objects(numbers=[1], each=[{"a": i % 2} for i in range(6)], none=torch.zeros(6, 0))  # type: ignore[arg-type]  # lists
    data = written(tmp_path, batch, 2)
    for index in ([0, 5], [2], slice(None)):
        found = data[index]
        found.numbers.append(2)
        found.each[0]["a"] = 7
    assert data[0].numbers == [1]
    assert data[:].each.tolist() == batch.each.tolist()


@pytest.mark.parametrize("mmap", [True, False])
def test_under_another_default_device(mmap, tmp_path):
    """Files, datasets and their batches are on the CPU, whatever device torch makes tensors on by default."""
    batches = {"digits": digits(20), "everything": everythings(20), "objects": written_objects()}
    for name, batch in batches.items():
        with torch.device("meta"):
            with TensorClassDataset.create(tmp_path / name, type(batch), rows_per_shard=6) as writer:
                writer.append(batch)
            data: Any = TensorClassDataset(tmp_path / name, type(batch), mmap=mmap)
            found = [data[[19, 0, 7]], data[2:9], data[[]], next(iter(data.batches(3, shuffle=True, pad_last=True)))]
            batch.save(tmp_path / f"{name}.safetensors")
            found.append(load(tmp_path / f"{name}.safetensors", mmap=mmap))
        assert {leaf.device.type for one in found for leaf in one._leaves(2)} == {"cpu"}
        assert_same(found[0], batch[[19, 0, 7]].clone())
        assert_same(found[-1], batch)


def written_objects() -> Objects:
    """Twenty rows with objects."""
    return Objects(numbers=[1], each=[{"a": i} for i in range(20)], none=torch.zeros(20, 0))  # type: ignore[arg-type]  # lists
