"""Random orders of rows: each row once, as good as a drawn order, in little memory, and resumed exactly."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tensorclass import TensorClassDataset, tensorclass
from tensorclass.errors import ArgumentError
from tensorclass.io import Batches, _orders, _remote
from tensorclass.io._orders import BLOCK_ROWS, EXACT, HELD, DrawnOrder, Encrypted, InBlocks, order_of
from tensorclass.typing import Int64
from tests.io._server import serving


@tensorclass
class Row:
    label: Int64[Tensor, ""]


@pytest.fixture(autouse=True)
def _apart(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache of its own."""
    monkeypatch.setenv("TENSORCLASS_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    _remote._RECENT.clear()
    gc.collect()


def whole(order: Any, count: int) -> Any:
    """All numbers of an order."""
    return order.rows(np.arange(count))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 17, 255, 256, 257, 5000, EXACT, EXACT + 1, 100_003])
def test_each_row_comes_once(count: int) -> None:
    """In every order, whatever the number of rows, and the same in parts as as a whole."""
    shards = [count // 3, 1, count - count // 3 - 1] if count > 2 else [count]
    shards = [rows for rows in shards if rows]
    for order in (DrawnOrder(count, "a"), Encrypted(count, "a"), InBlocks(shards, "a")):
        numbers = whole(order, count)
        assert np.array_equal(np.sort(numbers), np.arange(count))
        places = np.random.default_rng(0).permutation(count)[:100]
        assert np.array_equal(order.rows(places), numbers[places])
    assert (order_of(count, True, "a", ()).__class__ is Encrypted) == (count > EXACT)


def test_a_few_rows_have_all_orders() -> None:
    """Each about as often: 1,200 epochs of three rows."""
    seen = Counter(tuple(whole(order_of(3, True, f"0:{epoch}", ()), 3).tolist()) for epoch in range(1200))
    assert len(seen) == 6
    assert all(abs(count - 200) < 5 * 200**0.5 for count in seen.values())


def uneven(numbers: Any, cells: int) -> float:
    """How far positions and numbers are from independent: chi-square by its degrees of freedom, about 1 if drawn."""
    count = len(numbers)
    table = np.histogram2d(np.arange(count), numbers, cells)[0]
    expected = count / cells**2
    return float(((table - expected) ** 2 / expected).sum() / (cells - 1) ** 2)


@pytest.mark.parametrize("seed", range(4))
def test_how_random_a_computed_order_is(seed: int) -> None:
    """Positions are independent of numbers, and neighbours of each other, as in a drawn order."""
    count = 70_000
    numbers = whole(Encrypted(count, seed), count)
    assert 0.6 < uneven(numbers, 32) < 1.4
    steps = np.diff(numbers)
    assert (np.abs(steps) == 1).sum() < 15  # two of a drawn order
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(steps[:-1], steps[1:])[0, 1] + 0.5) < 0.02
    other = whole(Encrypted(count, seed + 100), count)
    assert abs(np.corrcoef(numbers, other)[0, 1]) < 0.02


def test_how_random_blocks_are() -> None:
    """A batch has rows of many blocks from all of the dataset, and each epoch others."""
    shards = [10_000] * 20
    numbers = whole(InBlocks(shards, "0:0"), 200_000)
    assert 0.5 < uneven(numbers, 8) / BLOCK_ROWS < 2  # as of blocks that are drawn
    for begin in range(0, 200_000, 20_000):
        batch = numbers[begin : begin + 256]
        assert len(np.unique(batch // BLOCK_ROWS)) > HELD * 0.8
        assert len(np.unique(batch // 10_000)) > 12
    assert (np.abs(np.diff(numbers)) == 1).mean() < 0.001
    group = numbers[: BLOCK_ROWS * HELD // 2]
    assert len(np.unique(group // BLOCK_ROWS)) <= 2 * HELD  # blocks begin with their shards
    other = whole(InBlocks(shards, "0:1"), 200_000)
    assert abs(np.corrcoef(numbers, other)[0, 1]) < 0.1


def test_no_memory() -> None:
    """An order of a trillion rows is made at once."""
    order = order_of(10**12, True, "0:0", ())
    assert order is not None
    numbers = order.rows(np.arange(10**12 - 1000, 10**12))
    assert len(np.unique(numbers)) == 1000
    assert numbers.min() >= 0
    assert numbers.max() < 10**12


@pytest.mark.parametrize("shuffle", [True, "blocks"])
def test_resume(shuffle: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """At the exact batch, over other numbers of ranks and several epochs; another order is refused."""
    monkeypatch.setattr("tensorclass.io._sampling.EXACT", 100)
    monkeypatch.setattr(_orders, "EXACT", 100)
    monkeypatch.setattr(_orders, "BLOCK_ROWS", 10)
    monkeypatch.setattr(_orders, "HELD", 3)
    with TensorClassDataset.create(tmp_path / "data", Row, rows_per_shard=64) as writer:
        writer.append(Row(torch.arange(500)))
    data: Any = TensorClassDataset(tmp_path / "data", Row)
    plain = data.batches(16, shuffle=shuffle, seed=5)
    epochs = [[part.label.tolist() for part in plain] for _ in range(2)]
    assert epochs[0] != epochs[1]
    assert all(sorted(row for part in epoch for row in part) == list(range(500)) for epoch in epochs)
    assert all(len(set(part)) == len(part) for part in epochs[0])
    two = [data.batches(16, shuffle=shuffle, seed=5, rank=rank, world_size=2) for rank in range(2)]
    running = [iter(one) for one in two]
    seen = [next(part).label.tolist() for _ in range(4) for part in running]
    assert seen == epochs[0][:8]
    three = [data.loader(16, shuffle=shuffle, seed=5, rank=rank, world_size=3) for rank in range(3)]
    for one in three:
        one.load_state_dict(two[0].state_dict(), reshard=True)
    rest = [[part.label.tolist() for part in one] for one in three]
    assert sorted(row for rank in rest for part in rank for row in part) == sorted(
        row for part in epochs[0][8:] for row in part
    )
    with pytest.raises(ArgumentError, match=r"this is not the state of batches|the state has"):
        data.batches(16, shuffle="blocks" if shuffle is True else True, seed=5).load_state_dict(plain.state_dict())
    padded = data.batches(48, shuffle=shuffle, pad_last=True)
    assert [len(part) for part in padded] == [48] * 11


def test_blocks_of_a_store(tmp_path: Path) -> None:
    """Each block is requested once, when the first of its rows is."""
    rows = BLOCK_ROWS * 3
    with TensorClassDataset.create(tmp_path / "data", Row, rows_per_shard=rows) as writer:
        writer.append(Row(torch.arange(rows * 10)))
    with serving(tmp_path) as server:
        data: Any = TensorClassDataset(f"{server.url}/data", Row)
        batches = data.batches(100, shuffle="blocks", seed=1)
        assert sorted(row for part in batches for row in part.label.tolist()) == list(range(rows * 10))
        assert len(server.ranges) <= 10 * 3 + 2


def test_another_word() -> None:
    """It is refused by name."""
    with pytest.raises(ArgumentError, match="""shuffle is True, False or "blocks", got 'block'"""):
        Batches(torch.arange(3), 1, shuffle="block")
    assert [part.tolist() for part in Batches(torch.arange(3), 3, shuffle="blocks")] in [
        [list(order)] for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    ]
    assert list(Batches(torch.arange(0), 3, shuffle="blocks")) == []
