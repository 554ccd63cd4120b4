"""Length buckets: batches of rows of similar length, each row once, resumed exactly on any number of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import SequentialSampler

from tensorclass import RaggedTensor, TensorClass, TensorClassDataset
from tensorclass.errors import ArgumentError, UnknownFieldError
from tensorclass.io import Batches
from tensorclass.typing import Float32, Int64
from tests.io._server import serving

ROWS = 3000
LENGTHS = torch.empty(ROWS).log_normal_(3, 1, generator=torch.Generator().manual_seed(0)).long().clamp(1, 400)
"""From 1 to some hundreds, most of them small."""
SHUFFLES: list[Any] = [False, True, "blocks"]


class Text(TensorClass):
    number: Int64[Tensor, ""]
    length: Int64[Tensor, ""]
    score: Float32[Tensor, ""]
    tokens: Int64[RaggedTensor, "t"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 300 ragged rows in shards of other sizes than a batch."""
    path, lengths = tmp_path_factory.mktemp("texts"), LENGTHS[:300]
    tokens = RaggedTensor(torch.zeros(int(lengths.sum()), dtype=torch.int64), lengths)
    with TensorClassDataset.create(path / "data", Text, rows_per_shard=70) as writer:
        writer.append(Text(torch.arange(300), lengths, torch.zeros(300), tokens, batch_size=[300]))
    return path


def rows_in(size: int, shuffle: Any, **options: Any) -> Batches[Tensor]:
    """Batches of row numbers by length."""
    return Batches(torch.arange(ROWS), size, shuffle, buckets=LENGTHS, **options)


def flat(batches: list[list[int]]) -> list[int]:
    """All rows, sorted."""
    return sorted(n for batch in batches for n in batch)


def lists(batches: Any) -> list[list[int]]:
    """The rows of each batch."""
    return [getattr(batch, "number", batch).tolist() for batch in batches]


def waste(batches: list[list[int]]) -> float:
    """The part of padded batches that is padding."""
    lengths = [LENGTHS[batch] for batch in batches]
    return 1 - sum(int(one.sum()) for one in lengths) / sum(int(one.max()) * len(one) for one in lengths)


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_little_is_padded(shuffle: Any) -> None:
    """Each row comes once, and a sixth of the padding is left; each epoch has its own batches."""
    batches = rows_in(16, shuffle)
    first, second = lists(batches), lists(batches)
    before, after = waste(lists(Batches(torch.arange(ROWS), 16, shuffle))), waste(first)
    assert before > 0.5, before
    assert after < 0.11, after
    assert flat(first) == flat(second) == [*range(ROWS)]
    assert (first == second) == (not shuffle)


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1)])
def test_buckets_continue_on_other_ranks(shuffle: Any, before: int, after: int) -> None:
    """The rest of the second epoch comes once, in the same batches, and the next epoch is the same."""
    whole = rows_in(17, shuffle, rank=0, world_size=1)
    _, wanted, third = (lists(whole) for _ in range(3))
    old = [rows_in(17, shuffle, rank=rank, world_size=before) for rank in range(before)]
    seen: list[list[int]] = []
    for one in old:
        lists(one)
        batches = iter(one)
        seen += lists([next(batches) for _ in range(40)])
    new = [rows_in(17, shuffle, rank=rank, world_size=after) for rank in range(after)]
    for one in new:
        one.load_state_dict(old[0].state_dict(), reshard=True)
        seen += lists(one)
    assert sorted(seen) == sorted(wanted)
    assert sorted(batch for one in new for batch in lists(one)) == sorted(third)


def test_no_row_is_always_dropped() -> None:
    """Rows that `drop_last` leaves out are any rows, long or short, others in each epoch."""
    batches = rows_in(64, True, drop_last=True)
    dropped = [set(range(ROWS)) - set(flat(lists(batches))) for _ in range(6)]
    assert all(len(one) == ROWS % 64 for one in dropped)
    assert not set.intersection(*dropped)
    assert LENGTHS[[n for one in dropped for n in one]].double().mean() < 1.5 * LENGTHS.double().mean()
    assert {len(batch) for batch in rows_in(64, True, pad_last=True, world_size=5, rank=4)} == {64}


def test_buckets_of_fields(folder: Path, tmp_path: Path) -> None:
    """A ragged field has its lengths, and a field of numbers those; also of mixes, samplers and behind a URL."""
    data = TensorClassDataset(folder / "data", Text)
    wanted = lists(Batches(torch.arange(300), 16, True, buckets=LENGTHS[:300]))
    assert lists(data.batches(16, True, buckets="length")) == wanted
    assert lists(data.loader(16, True, buckets=Text.tokens)) == wanted
    sampled = lists(data.batches(16, sampler=SequentialSampler(data), buckets=Text.tokens))
    assert flat(sampled) == [*range(300)]
    few = data.sample(100, out=tmp_path / "few", engine="threads")
    mixed = TensorClassDataset.mix({data: 0.5, few: 0.5}).batches(16, True, buckets=Text.tokens)
    assert max(waste(wanted), waste(sampled), waste(lists(mixed))) < 0.4
    with serving(folder) as server:
        far = TensorClassDataset(f"{server.url}/data", Text)
        assert lists(far.batches(16, True, buckets="length")) == wanted
        assert lists(far.batches(16, True, buckets="tokens")) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_buckets_with_workers(shuffle: Any, folder: Path) -> None:
    """Worker processes read the batches of one process, also after a state in the middle of the second epoch."""
    data = TensorClassDataset(folder / "data", Text)
    options: dict[str, Any] = {"batch_size": 16, "shuffle": shuffle, "seed": 4, "buckets": Text.tokens}
    alone, loader = data.loader(**options), data.loader(**options, num_workers=2)
    wanted = [lists(alone) for _ in range(3)]
    assert lists(loader) == wanted[0]
    batches = iter(loader)
    assert lists([next(batches) for _ in range(5)]) == wanted[1][:5]
    state = loader.state_dict()
    del batches
    again = data.loader(**options, num_workers=1)
    again.load_state_dict(state)
    assert lists(again) == wanted[1][5:]
    assert lists(again) == wanted[2]


def test_wrong_buckets(folder: Path) -> None:
    """Fields without lengths, other numbers of rows, and states of other lengths are refused by name."""
    data = TensorClassDataset(folder / "data", Text)
    with pytest.raises(ArgumentError, match=r"a whole number for each row, `score` is torch.float32 \[70\]"):
        data.batches(4, buckets="score")
    with pytest.raises(UnknownFieldError, match="tokens"):
        data.batches(4, buckets="token")
    with pytest.raises(ArgumentError, match="3 lengths, there are 300 rows"):
        data.batches(4, buckets=torch.arange(3))
    with pytest.raises(ArgumentError, match=r"the lengths of the rows, int64 \[4\], got 'a'"):
        Batches(torch.arange(4), 2, buckets="a")
    state = data.batches(4, buckets="length").state_dict()
    with pytest.raises(ArgumentError, match="the state has buckets="):
        data.batches(4, buckets="number").load_state_dict(state)
    with pytest.raises(ArgumentError, match="not the state"):
        data.batches(4).load_state_dict(state)
