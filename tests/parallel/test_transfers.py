"""Transfers under way: many at once, in any order, from any thread, with errors on one side, and of every dtype."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tensorclass import NonTensorData, TensorDict
from tensorclass.errors import ArgumentError
from tensorclass.io._dtypes import CARRIED, CODES
from tensorclass.parallel import _transfer
from tests.parallel._ranks import run
from tests.parallel.test_ranks import failure

NO_COPIES = {f"torch.{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)}
DTYPES = sorted({str(dtype): dtype for dtype in (*CODES, *CARRIED.values())}.items())


def test_tensors_in_objects_keep_their_values() -> None:
    """The memory of a message is used again, but not as long as a received Python object holds a tensor in it."""

    def boxed(value: float) -> Any:
        return TensorDict(o=NonTensorData({"t": torch.full((4,), value)}), a=torch.zeros(3))

    def body(rank: int, world: int) -> Any:
        if rank == 0:
            held = torch.stack([boxed(0.0)]).gather_and_stack(0)[0]["o"]["t"]
        else:
            boxed(3.0).gather_and_stack(0)
        target = boxed(0.0)
        target.recv(1) if rank == 0 else boxed(4.0).send(0)
        for value in (5.0, 6.0):
            plain = TensorDict(a=torch.full((40,), value))
            plain.recv(1) if rank == 0 else plain.send(0)
            boxed(value).recv(1) if rank == 0 else boxed(value).send(0)
        return None if rank else (held.tolist(), target["o"]["t"].tolist())

    assert run(body)[0] == ([3.0] * 4, [4.0] * 4)


def test_many_at_once() -> None:
    """More transfers of one tag than the stack of Python is deep; the last one ends all before it."""

    count = 200

    def body(rank: int, world: int) -> Any:
        batches = [TensorDict(a=torch.full((2,), float(number))) for number in range(count)]
        if rank == 0:
            handles = [batch.isend(1, return_early=True)[0] for batch in batches]
        else:
            targets = [batch * 0 for batch in batches]
            handles = [target.irecv(0, return_premature=True)[0] for target in targets]
            sys.setrecursionlimit(150)
            handles[-1].wait()
        for handle in handles:
            handle.wait()
        return rank == 0 or [target["a"][0].item() for target in targets] == list(range(count))

    assert run(body) == [True, True]


def test_tags_in_any_order() -> None:
    """Every size, first and later; the receiver ends them in another order than the sender."""

    def given(tag: int) -> Any:
        size = ((tag,), (50_000 + tag,), (), (0, 3))[tag % 4]
        return TensorDict(a=torch.full(size, float(tag)), b=torch.tensor(tag))

    def body(rank: int, world: int) -> Any:
        found = []
        for _ in range(3):
            if rank == 0:
                handles = [given(tag).isend(1, init_tag=tag, return_early=True)[0] for tag in range(12)]
            else:
                targets = [given(tag).zero_() for tag in range(12)]
                handles = [
                    target.irecv(0, init_tag=tag, return_premature=True)[0] for tag, target in enumerate(targets)
                ]
            for place in (5, 1, 9, 3, 2, 0, 11, 10, 8, 7, 6, 4) if rank else range(11, -1, -1):
                handles[place].wait()
            found += [bool((target == given(tag)).all()) for tag, target in enumerate(targets)] if rank else []
        return found

    assert run(body)[1] == [True] * 36


def test_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of ever new sizes: the memory of answers and the known structures stay within limits, errors too."""
    monkeypatch.setattr(_transfer, "_STRUCTURES", 20)
    monkeypatch.setattr(_transfer, "_ANSWERS", 5)

    def body(rank: int, world: int) -> Any:
        known = _transfer.known_of(dist.group.WORLD)
        for size in (*range(70), *range(30)):
            data, target = TensorDict(a=torch.full((size,), 2.0)), TensorDict(a=torch.zeros(size))
            data.send(1) if rank == 0 else target.recv(0)
            assert rank == 0 or bool((target == data).all())
        kept = len(known.agreed) <= 20 and len(known.heard) <= 20 and len(known.answers) <= 5
        known.heard.clear()
        small, large = TensorDict(a=torch.zeros(29)), TensorDict(a=torch.zeros(30))
        error = failure(lambda: small.send(1) if rank == 0 else large.recv(0))
        return kept, error and error[1]

    assert run(body)[0] == (True, None)
    kept, error = run(body)[1]
    assert kept
    assert "rank 1 has forgotten that of rank 0" in error


def test_threads() -> None:
    """Threads that use one group, each with its own tag."""

    def body(rank: int, world: int) -> Any:
        wrong: list[str] = []

        def work(tag: int) -> None:
            for number in range(30):
                data = TensorDict(a=torch.full((5 + tag * 3000 * (number % 3),), float(tag * 100 + number)))
                target = data * 0
                error = failure(lambda: (data.send if rank == 0 else target.recv)(1 - rank, init_tag=tag))  # noqa: B023
                if error is not None or (rank and not (target == data).all()):
                    wrong.append(f"{tag} {number} {error}")

        threads = [threading.Thread(target=work, args=(tag,)) for tag in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return wrong

    assert run(body) == [[], []]


def test_an_error_belongs_to_its_handle() -> None:
    """`wait` raises the error of its own transfer, each time, and the transfers behind it are not lost."""

    def body(rank: int, world: int) -> Any:
        sent = [TensorDict(a=torch.ones(3)), TensorDict(b=torch.ones(2))]
        targets = [TensorDict(z=torch.zeros(3)), TensorDict(b=torch.zeros(2))]
        if rank == 0:
            handles = [batch.isend(1, return_early=True)[0] for batch in sent]
        else:
            handles = [target.irecv(0, return_premature=True)[0] for target in targets]
        found = [failure(handles[place].wait) for place in (1, 0, 1, 0)]
        return [error and error[0] for error in found], targets[1]["b"].tolist(), targets[0]["z"].tolist()

    for rank, (errors, received, refused) in enumerate(run(body)):
        assert errors == [None, "StructureError", None, "StructureError"]
        assert received == [float(rank)] * 2
        assert refused == [0.0] * 3


def test_a_wait_with_a_timeout() -> None:
    """A peer that is late is an error after that time, which stays; another type is refused and changes nothing."""

    def body(rank: int, world: int) -> Any:
        data = TensorDict(a=torch.ones(3))
        late = dist.new_group([0, 1])
        if rank == 1:
            data.send(0)
            time.sleep(2.5)
            return None
        good = data.irecv(1, return_premature=True)[0]
        with pytest.raises(ArgumentError, match=r"timeout is a datetime\.timedelta, got 3"):
            good.wait(3)
        assert good.wait(timedelta(seconds=9))
        never = data.irecv(1, group=late, return_premature=True)[0]
        begin = time.monotonic()
        errors = [failure(lambda: never.wait(timedelta(seconds=0.2))), failure(never.wait)]
        assert time.monotonic() - begin < 0.7
        return [error[0] for error in errors]

    assert run(body)[0] == ["WorkerError"] * 2


CALLS: dict[str, tuple[Callable[[Any, int], Any], str]] = {
    "operation": (lambda data, rank: data.all_reduce([dist.ReduceOp.SUM, dist.ReduceOp.MAX][rank]), "with MAX"),
    "buckets": (lambda data, rank: data.all_reduce(bucket_bytes=[8, None][rank]), "in buckets of 8 bytes"),
    "destination": (lambda data, rank: data.reduce(rank), "reduce to rank 1"),
    "to all": (lambda data, rank: data.reduce(0) if rank else data.all_reduce(), "all_reduce with SUM"),
    "another call": (lambda data, rank: data.gather_and_stack(0) if rank else data.all_reduce(), "gather_and_stack"),
}  # fmt: skip


def test_ranks_that_do_different_things() -> None:
    """All of them raise the same error, which names both calls; nothing is changed, and they go on together."""

    def body(rank: int, world: int) -> Any:
        found = {}
        for name, (call, _) in CALLS.items():
            data = TensorDict(a=torch.full((10,), rank + 1.0), batch_size=[10])
            found[name] = failure(lambda: call(data, rank)), data["a"].unique().tolist()  # noqa: B023  # called here
        good = TensorDict(a=torch.ones(3))
        good.all_reduce()
        return found, good["a"].tolist()

    (zero, good), (one, _) = run(body)
    assert good == [2.0] * 3
    for name, (_, words) in CALLS.items():
        assert zero[name][0] == one[name][0]
        assert zero[name][0][0] == "ArgumentError"
        assert words in zero[name][0][1]
        assert (zero[name][1], one[name][1]) == ([1.0], [2.0])


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_every_dtype() -> None:
    """All that a file can hold: into a container, with its structure, and as the result of a worker process."""

    def body(rank: int, world: int) -> Any:
        values = {
            name: torch.zeros(4 * dtype.itemsize, dtype=torch.uint8).add_(1).view(dtype)
            for name, dtype in DTYPES
            if name not in NO_COPIES
        }
        data, target = TensorDict(values), TensorDict({name: torch.zeros_like(part) for name, part in values.items()})
        data.send(1) if rank == 0 else target.recv(0)
        results = [data.broadcast(0), *data.all_gather(), *([target] if rank else [])]
        return [[result[name].view(torch.uint8).unique().tolist() for name in values] for result in results]

    for found in run(body):
        assert all(row == [[1]] * len(row) and len(row) > 25 for row in found)
    data = TensorDict(a=torch.arange(6).to(torch.uint16), b=torch.ones(6).to(torch.float8_e4m3fn), batch_size=[6])
    mapped = data.map(torch.clone, chunksize=3, num_workers=1)
    assert mapped["a"].int().tolist() == list(range(6))
    assert mapped["b"].float().tolist() == [1.0] * 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["send", "recv", "isend", "all_reduce", "gather_and_stack", "all_gather"])
def test_a_peer_that_is_stopped(name: str) -> None:
    """SIGSTOP for less than the timeout is a delay; for longer, an error on both sides, and the old values."""
    calls: dict[str, Callable[[Any, int], Any]] = {
        "send": lambda data, rank: data.recv(0) if rank else data.send(1),
        "recv": lambda data, rank: data.send(0) if rank else data.recv(1),
        "isend": lambda data, rank: [handle.wait() for handle in [
            data.irecv(0, init_tag=tag, return_premature=True)[0] if rank
            else data.isend(1, init_tag=tag, return_early=True)[0] for tag in ((2, 0, 1) if rank else (0, 1, 2))
        ]],
        "all_reduce": lambda data, rank: data.all_reduce(dist.ReduceOp.MAX),
        "gather_and_stack": lambda data, rank: (data if rank else data[None]).gather_and_stack(0),
        "all_gather": lambda data, rank: len(data.all_gather()),
    }  # fmt: skip

    def body(rank: int, world: int) -> Any:
        found = []
        for seconds in (0.4, 2.5):
            data = TensorDict(a=torch.ones(300_000))
            dist.barrier()
            pid = os.getpid()
            if rank == 1 and os.fork() == 0:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(seconds)
                os.kill(pid, signal.SIGCONT)
                os._exit(0)
            time.sleep(0.1)
            error = failure(lambda: calls[name](data, rank))  # noqa: B023  # called here
            found.append((error and error[0], data["a"].unique().tolist()))
        gc.collect()
        return found

    assert run(body, timeout=1.5) == [[(None, [1.0]), ("WorkerError", [1.0])]] * 2
