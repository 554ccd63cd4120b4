"""Loaders of several ranks: who they are, and every row once over all of them, also when their number changes."""

from __future__ import annotations

import gc
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, DistributedSampler

from tensorclass import TensorClassDataset, TensorDict
from tensorclass.errors import ArgumentError, UnsupportedOperationError
from tensorclass.parallel import Layout
from tests.parallel._functions import Item, containers, items
from tests.parallel._meshes import fake_mesh
from tests.parallel._ranks import run


@pytest.fixture
def data(tmp_path: Path) -> TensorClassDataset[Item]:
    """Fifty-three rows."""
    with TensorClassDataset.create(tmp_path / "source", Item, rows_per_shard=20) as writer:
        writer.append(items(53))
    return TensorClassDataset(tmp_path / "source", Item)


def labels(batches: Any) -> list[int]:
    """The rows that were delivered."""
    return [label for batch in batches for label in batch.label.tolist()]


def test_ranks_of_torchrun(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`RANK` and `WORLD_SIZE` say who a process is; what is given counts more."""
    found = []
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "3")
        found.append(labels(data.loader(batch_size=4, shuffle=True, seed=1)))
        assert found[-1] == labels(data.batches(4, shuffle=True, seed=1))
        assert len(labels(data.loader(batch_size=4, rank=0, world_size=1))) == 53
    assert sorted(sum(found, [])) == list(range(53))  # noqa: RUF017  # three lists
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(ArgumentError, match="RANK and WORLD_SIZE"):
        data.batches(4)
    with pytest.raises(ArgumentError, match="given together"):
        data.loader(batch_size=4, rank=1)


def test_ranks_of_a_process_group(data: Any) -> None:
    """`torch.distributed` counts more than the environment; padding and dropping give all ranks as many batches."""

    def body(rank: int, world: int) -> Any:
        os.environ.update(RANK="7", WORLD_SIZE="9")
        loaders = [
            data.loader(batch_size=4, seed=2, shuffle=True, **how)
            for how in ({}, {"pad_last": True}, {"drop_last": True})
        ]
        plain = DataLoader(data, batch_size=4, sampler=DistributedSampler(data, shuffle=False))
        return [labels(loader) for loader in loaders], labels(plain)

    (one, plain_one), (two, plain_two) = run(body)
    assert sorted(one[0] + two[0]) == list(range(53))
    assert len(one[1]) == len(two[1]) == 28
    assert set(one[1] + two[1]) == set(range(53))
    assert len(one[2]) == len(two[2]) == 24
    assert len(set(one[2] + two[2])) == 48
    assert set(plain_one + plain_two) == set(range(53))


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1), (1, 2)])
def test_another_number_of_ranks(data: Any, before: int, after: int) -> None:
    """Every row once in the epoch that was begun with some ranks and ended with others."""
    first = [data.loader(batch_size=4, shuffle=True, rank=rank, world_size=before) for rank in range(before)]
    seen, states = [], []
    for loader in first:
        batches = iter(loader)
        seen += labels([next(batches), next(batches)])
        states.append(loader.state_dict())
    for rank in range(after):
        loader = data.loader(batch_size=4, shuffle=True, rank=rank, world_size=after)
        loader.load_state_dict(states[0], reshard=True)
        seen += labels(loader)
    assert sorted(seen) == list(range(53))


# ---- shared memory ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["TensorDict", "typed", "lazy", "objects"])
@pytest.mark.parametrize("method", ["fork"])
def test_queues(kind: str, method: str) -> None:
    """A queue moves handles: what one process writes is seen by the other; nothing is left behind."""
    batch = containers()[kind].share_memory_()
    assert batch.is_shared()
    assert batch.is_locked
    context = mp.get_context(method)
    there, back = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=_change, args=(there, back))
    process.start()
    there.put(batch)
    assert back.get()
    process.join()
    key = "label" if kind == "typed" else "a"
    assert batch.get(key)[0].item() == 77
    there.close()
    back.close()
    del batch
    gc.collect()
    made = re.compile(rf"torch_({os.getpid()}|{process.pid})_")  # others use the folder at the same time
    assert not [name for name in os.listdir("/dev/shm") if made.match(name)]


@pytest.mark.slow
@pytest.mark.parametrize("channel", ["queue", "pipe"])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_start_methods(method: str, channel: str) -> None:
    """The same through queues and pipes to processes that inherit nothing: with text, ragged, nested and stacked."""
    context: Any = mp.get_context(method)
    here, other = context.Pipe()
    there = context.SimpleQueue() if channel == "queue" else None
    process = context.Process(target=_change_all, args=(there.get if there else other.recv, other.send))
    send = there.put if there else here.send
    process.start()
    other.close()  # the end of the process is the end of the pipe
    for kind, batch in containers().items():
        batch.share_memory_()
        send(batch)
        what, name, shared = here.recv()
        assert (what, shared) == (type(batch).__name__, True), kind
        assert name == (batch.name.tolist() if kind == "typed" else None)
        first = batch.get("label" if kind == "typed" else "a")[0] if kind != "lazy" else batch[0].get("a")
        assert first.item() == 77, kind
        if kind == "typed":
            assert batch.words.values[:3].tolist() == [55.0, 55.0, 1.0]
    send(None)
    process.join()
    del batch, first
    gc.collect()
    assert [name for name in os.listdir("/dev/shm") if name.startswith(f"torch_{os.getpid()}_")] == []


def _change_all(receive: Any, send: Any) -> None:
    threading.Timer(60, os._exit, (1,)).start()  # a test that fails does not wait for ever
    while (batch := receive()) is not None:
        typed = isinstance(batch, Item)
        if isinstance(batch, TensorDict | Item):
            batch.get("label" if typed else "a")[0] = 77
        else:  # members of a lazy stack
            batch[0].get("a").fill_(77)
        if typed:
            batch.words.values[:2] = 55
        send((type(batch).__name__, batch.name.tolist() if typed else None, batch.is_shared()))
    os._exit(0)


def _change(there: Any, back: Any) -> None:
    batch = there.get()
    key = "label" if isinstance(batch, Item) else "a"
    batch.get(key)[0] = 77
    if not isinstance(batch, TensorDict | Item):  # members of a lazy stack
        batch[0].get("a").fill_(77)
    back.put(batch.is_shared())


def test_what_is_shared() -> None:
    """Locked, and every tensor in shared memory; a mapped container is shared through its file."""
    batch = items(3)
    assert not batch.is_shared()
    assert batch.share_memory_() is batch
    assert batch.is_shared()
    assert batch.share_memory_().is_shared()
    assert not batch.clone().is_shared()
    with pytest.raises(UnsupportedOperationError, match="mapped"):
        TensorDict(a=torch.zeros(2), batch_size=[2]).memmap_().share_memory_()
    assert not TensorDict().is_shared()


def test_workers_of_a_loader_share(data: Any) -> None:
    """Batches from workers are of the class, in shared memory."""
    for batch in data.loader(batch_size=8, num_workers=1, multiprocessing_context="fork"):
        assert type(batch) is Item
        assert batch.x.is_shared()


def test_no_group_is_left() -> None:
    """These tests start groups in other processes only."""
    assert not dist.is_initialized()


def _with_layout(data: Any, sizes: dict[str, int], rank: int, state: Any = None, stop: int | None = None) -> Any:
    """The rows of one rank of a mesh, and its state after `stop` batches."""
    with fake_mesh(rank, **sizes) as mesh:
        loader = data.loader(4, shuffle=True, seed=3, layout=Layout(mesh, batch="dp"))
        if state is not None:
            loader.load_state_dict(state, reshard=True)
        rows = []
        for number, batch in enumerate(loader, 1):
            rows += batch.label.tolist()
            if number == stop:
                break
        return rows, loader.state_dict()


def test_ranks_of_a_layout(data: Any) -> None:
    """Ranks of one place along the rows get the same rows, others different ones; the epoch ends on another mesh."""
    found = [_with_layout(data, {"dp": 2, "tp": 2}, rank, stop=3) for rank in range(4)]
    rows = [one for one, _ in found]
    assert rows[0] == rows[1]
    assert rows[2] == rows[3]
    assert not {*rows[0]} & {*rows[2]}
    rest = [_with_layout(data, {"tp": 1, "dp": 3}, rank, found[0][1])[0] for rank in range(3)]
    assert sorted([*rows[0], *rows[2], *rest[0], *rest[1], *rest[2]]) == list(range(53))


def test_a_layout_beside_a_rank(data: Any) -> None:
    """A layout is given instead of rank and world size, and is a Layout."""
    with fake_mesh(1, dp=2) as mesh:
        layout = Layout(mesh, batch="dp")
        assert labels(data.batches(4, layout=layout)) == labels(data.batches(4, rank=1, world_size=2))
        with pytest.raises(ArgumentError, match="leave out rank= and world_size="):
            data.loader(4, rank=0, world_size=2, layout=layout)
        with pytest.raises(ArgumentError, match=r"takes a tensorclass\.parallel\.Layout, got a dict"):
            data.batches(4, layout={})
