"""Datasets mixed by weight, and samplers: proportions, every row, and a state that continues on other ranks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DistributedSampler, RandomSampler, SequentialSampler, WeightedRandomSampler

from tensorclass import TensorClass, TensorClassDataset
from tensorclass.errors import ArgumentError
from tensorclass.typing import Int64


class Row(TensorClass):
    n: Int64[Tensor, ""]


def dataset(path: Path, begin: int, count: int) -> TensorClassDataset[Row]:
    """Rows with numbers from `begin`."""
    with TensorClassDataset.create(path, Row, rows_per_shard=40) as writer:
        if count:
            writer.append(Row(n=torch.arange(begin, begin + count), batch_size=[count]))
    return TensorClassDataset(path, Row)


@pytest.fixture
def parts(tmp_path: Path) -> list[TensorClassDataset[Row]]:
    """Three datasets: 300 rows from 0, 50 from 1000, 90 from 2000."""
    return [dataset(tmp_path / str(begin), begin, count) for begin, count in ((0, 300), (1000, 50), (2000, 90))]


def numbers(batches: Any) -> list[int]:
    """The rows that were delivered."""
    return [n for batch in batches for n in batch.n.tolist()]


SHUFFLES: list[Any] = [False, True, "blocks"]


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_each_batch_has_the_weights(shuffle: Any, parts: Any) -> None:
    """Each batch has rows by weight, an epoch as many rows as all; rows repeat only after all of their dataset."""
    mixed = TensorClassDataset.mix(dict(zip(parts, (6.0, 3, 1), strict=True)))
    batches = mixed.batches(20, shuffle=shuffle, seed=3)
    seen: list[int] = []
    for _ in range(5):
        epoch = [batch.n for batch in batches]
        assert sum(map(len, epoch)) == 440
        for batch in epoch:
            shares = torch.bincount(batch // 1000, minlength=3) - torch.tensor([0.6, 0.3, 0.1]) * len(batch)
            assert shares.abs().max() <= 2
        seen += torch.cat(epoch).tolist()
    for part in parts:
        rows = part[:].n.tolist()
        mine = [n for n in seen if n in set(rows)]
        for begin in range(0, len(mine) - len(rows) + 1, len(rows)):
            assert sorted(mine[begin : begin + len(rows)]) == rows
    small = [n for n in seen if 1000 <= n < 2000]
    assert (small[:50] == small[50:100]) == (not shuffle)


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1)])
def test_a_mix_continues_on_other_ranks(shuffle: Any, before: int, after: int, parts: Any) -> None:
    """The rest of the second epoch comes once, on any number of ranks, and the next epoch is the same."""
    mixed = TensorClassDataset.mix(dict(zip(parts, (0.7, 0.2, 0.1), strict=True)))
    options: dict[str, Any] = {"batch_size": 10, "shuffle": shuffle, "seed": 1}
    whole = mixed.loader(**options, rank=0, world_size=1)
    numbers(whole)
    wanted, third = numbers(whole), numbers(whole)
    old = [mixed.loader(**options, rank=rank, world_size=before) for rank in range(before)]
    seen: list[int] = []
    for loader in old:
        numbers(loader)
        batches = iter(loader)
        seen += numbers([next(batches), next(batches)])
    new = [mixed.loader(**options, rank=rank, world_size=after) for rank in range(after)]
    for loader in new:
        loader.load_state_dict(old[0].state_dict(), reshard=True)
        seen += numbers(loader)
    assert sorted(seen) == sorted(wanted)
    assert sorted(n for loader in new for n in numbers(loader)) == sorted(third)


@pytest.mark.slow
def test_a_mix_with_workers(parts: Any) -> None:
    """Worker processes read the rows that one process reads."""
    mixed = TensorClassDataset.mix(dict(zip(parts, (0.7, 0.2, 0.1), strict=True))).pick("n")
    options: dict[str, Any] = {"batch_size": 16, "shuffle": True, "seed": 1}
    assert numbers(mixed.loader(**options, num_workers=2)) == numbers(mixed.loader(**options))


def test_wrong_mixes(parts: Any, tmp_path: Path) -> None:
    """Weights that are none, datasets without rows, mixes of mixes, and states of another mix are refused."""
    one, two, _ = parts
    wrong: list[Any] = [{one: 1, two: 0}, {one: 1, two: -1.0}, {one: float("nan")}, {one: "1"}, {one: True}]
    for weights in wrong:
        with pytest.raises(ArgumentError, match="weights are numbers above 0"):
            TensorClassDataset.mix(weights)
    with pytest.raises(ArgumentError, match="less than 1/10000"):
        TensorClassDataset.mix({one: 1e9, two: 1})
    with pytest.raises(ArgumentError, match="dict of datasets and weights, got a list"):
        TensorClassDataset.mix([one, two])  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ArgumentError, match="list of datasets"):
        TensorClassDataset.mix({})
    with pytest.raises(ArgumentError, match="one has none"):
        TensorClassDataset.mix({one: 1, dataset(tmp_path / "none", 0, 0): 1})
    mixed = TensorClassDataset.mix({one: 1, two: 1})
    with pytest.raises(ArgumentError, match="mix them all at once"):
        TensorClassDataset.concat([mixed, one])
    state = TensorClassDataset.mix({one: 1, two: 2}).batches(4).state_dict()
    with pytest.raises(ArgumentError, match="mix="):
        mixed.batches(4).load_state_dict(state)


def test_samplers(parts: Any) -> None:
    """A loader takes any sampler of row numbers: all ranks together give its rows, in another draw each epoch."""
    data = parts[0]
    weights = torch.zeros(300).index_fill(0, torch.arange(7, 12), 1.0)
    own = WeightedRandomSampler(weights.tolist(), 60, generator=torch.Generator().manual_seed(5))
    for sampler in (WeightedRandomSampler(weights.tolist(), 60), own):
        loaders = [data.loader(batch_size=8, sampler=sampler, seed=2, rank=rank, world_size=2) for rank in range(2)]
        first, second = ([numbers(loader) for loader in loaders] for _ in range(2))
        drawn = first[0] + first[1]
        assert len(drawn) == 60
        assert set(drawn) <= set(range(7, 12))
        assert first != second
        assert numbers(data.batches(8, sampler=sampler, seed=2)) != numbers(data.batches(8, sampler=sampler, seed=3))
    assert numbers(data.batches(7, sampler=SequentialSampler(data))) == [*range(300)]
    assert numbers(data.batches(7, sampler=[5, 5, 9])) == [5, 5, 9]
    assert Counter(numbers(data.batches(7, sampler=RandomSampler(data)))) == Counter(range(300))


def test_a_sampler_continues(parts: Any) -> None:
    """The state continues at the exact row of the epoch, although a sampler draws with the random numbers of torch."""
    data = parts[0]
    whole, first = (data.loader(batch_size=8, sampler=RandomSampler(data), seed=4) for _ in range(2))
    numbers(whole)
    numbers(first)
    batches = iter(first)
    seen = numbers([next(batches) for _ in range(3)])
    torch.rand(3)
    again = data.loader(batch_size=8, sampler=RandomSampler(data), seed=4)
    again.load_state_dict(first.state_dict())
    assert seen + numbers(again) == numbers(whole)
    with pytest.raises(ArgumentError, match="not the state"):
        data.loader(batch_size=8, seed=4).load_state_dict(first.state_dict())


def test_wrong_samplers(parts: Any) -> None:
    """A sampler of some ranks, of batches, without a length, or beside another order is refused."""
    data, other, _ = parts
    ranks: Any = DistributedSampler(data, num_replicas=2, rank=0)
    with pytest.raises(ArgumentError, match="pass a sampler of all rows"):
        data.loader(batch_size=4, sampler=ranks)
    with pytest.raises(ArgumentError, match="has a length, got a generator"):
        data.batches(4, sampler=(n for n in range(3)))
    with pytest.raises(ArgumentError, match="2 row numbers"):
        next(iter(data.batches(4, sampler=[[1, 2], [3, 4]])))
    with pytest.raises(ArgumentError, match="leave out shuffle="):
        data.batches(4, shuffle=True, sampler=[1])
    with pytest.raises(ArgumentError, match="leave out the mix"):
        TensorClassDataset.mix({data: 1, other: 1}).loader(batch_size=4, sampler=[1])
