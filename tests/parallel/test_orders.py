"""Transfers in every order that can end: where raw torch ends, containers do too, and with the right values."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tensorclass import TensorDict
from tests.parallel._ranks import run
from tests.parallel.test_ranks import failure

Program = tuple[str, ...]
"""What a rank does in turn: it sends to the next rank and receives from the one before."""


def programs() -> list[Program]:
    """All orders of one send and one receive, each at once or with a later wait."""
    found: list[Program] = []
    for send, recv in itertools.product([("send",), ("isend", "wait sent")], [("recv",), ("irecv", "wait received")]):
        for order in itertools.permutations([*send, *recv]):
            if all(order.index(one[0]) < order.index(one[-1]) for one in (send, recv) if len(one) == 2):
                found.append(order)
    return found


def ends(given: Sequence[Program]) -> bool:
    """Whether all ranks end if a send waits until its receiver has asked, and a receiver until it is sent."""
    at = [0] * len(given)

    def begun(rank: int, *names: str) -> bool:
        return any(name in given[rank][: at[rank] + 1] for name in names)

    moved = True
    while moved:
        moved = False
        for rank, program in enumerate(given):
            after, before = (rank + 1) % len(given), (rank - 1) % len(given)
            while at[rank] < len(program):
                step = program[at[rank]]
                asked = begun(after, "irecv", "recv") if step in ("send", "wait sent") else True
                sent = begun(before, "isend", "send") if step in ("recv", "wait received") else True
                if not (asked and sent):
                    break
                at[rank], moved = at[rank] + 1, True
    return all(place == len(program) for place, program in zip(at, given, strict=True))


class Raw:
    """Transfers of a tensor by torch."""

    def __init__(self, value: Any, number: int) -> None:
        self.mine: Any = torch.full((20_000,), value)
        self.theirs: Any = torch.zeros(20_000)
        self.tag = number

    def step(self, name: str, after: int, before: int) -> None:
        """One step of a program."""
        if name == "send":
            dist.send(self.mine, after, tag=self.tag)
        elif name == "recv":
            dist.recv(self.theirs, before, tag=self.tag)
        elif name == "isend":
            self.sent: Any = dist.isend(self.mine, after, tag=self.tag)
        elif name == "irecv":
            self.received: Any = dist.irecv(self.theirs, before, tag=self.tag)
        else:
            (self.sent if name == "wait sent" else self.received).wait()

    def values(self) -> list[float]:
        """What came."""
        return self.theirs.unique().tolist()  # type: ignore[no-any-return]  # of torch


class Ours(Raw):
    """The same of a container, whose structure is new for each program."""

    def __init__(self, value: Any, number: int) -> None:
        size = 1 + number + 5000 * (number % 2)
        self.mine = TensorDict(a=torch.full((size,), value), b=torch.ones(3))
        self.theirs = TensorDict(a=torch.zeros(size), b=torch.zeros(3))
        self.tag = number

    def step(self, name: str, after: int, before: int) -> None:
        """One step of a program."""
        if name == "send":
            self.mine.send(after, init_tag=self.tag)
        elif name == "recv":
            self.theirs.recv(before, init_tag=self.tag)
        elif name == "isend":
            (self.sent,) = self.mine.isend(after, init_tag=self.tag, return_early=True)
        elif name == "irecv":
            (self.received,) = self.theirs.irecv(before, init_tag=self.tag, return_premature=True)
        else:
            (self.sent if name == "wait sent" else self.received).wait()

    def values(self) -> list[float]:
        """What came."""
        return self.theirs["a"].unique().tolist() if self.theirs["b"].sum() == 3 else []


def wrong(kind: Any, given: Sequence[Sequence[Program]], world: int) -> Iterator[Any]:
    """The programs that gave other values, on each rank."""

    def body(rank: int, world: int) -> Any:
        found = []
        for number, ranks in enumerate(given):
            one = kind(float(rank + 1), number)
            for name in ranks[rank]:
                one.step(name, (rank + 1) % world, (rank - 1) % world)
            if one.values() != [float((rank - 1) % world + 1)]:
                found.append((number, ranks))
        return found

    yield from run(body, world, 60)


def chosen(world: int, every: int) -> list[tuple[Program, ...]]:
    """Each so many of the programs of some ranks that end."""
    return [given for given in itertools.product(programs(), repeat=world) if ends(given)][::every]


def test_which_orders_there_are() -> None:
    """Two receives that wait for each other never end, with raw torch neither; a ring of `irecv` and `send` does."""
    assert len(programs()) == 14
    assert not ends([("recv", "send")] * 2)
    assert ends([("irecv", "send", "wait received")] * 3)
    assert ends([("isend", "recv", "wait sent")] * 3)
    assert len(chosen(2, 1)) > 100


@pytest.mark.parametrize("world", [2, 3])
def test_some_orders(world: int) -> None:
    """Also the first transfer of a structure, which is answered."""
    rings = [[order] * world for order in programs() if ends([order] * world)]
    assert all(not found for found in wrong(Ours, [*rings, *chosen(world, 5 if world == 2 else 150)], world))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Raw, Ours])
@pytest.mark.parametrize("world", [2, 3])
def test_all_orders(world: int, kind: Any) -> None:
    """Of two ranks all, of three all that end, against raw torch."""
    assert all(not found for found in wrong(kind, chosen(world, 1), world))


def test_a_receiver_answers_without_a_wait() -> None:
    """A sender goes on as soon as its receiver has asked, whatever the receiver does meanwhile."""

    def body(rank: int, world: int) -> Any:
        data = TensorDict(a=torch.full((50_000,), rank + 1.0))
        target = TensorDict(a=torch.zeros(50_000))
        if rank:
            (handle,) = target.irecv(0, return_premature=True)
            dist.barrier()  # rank 0 comes here when it was answered
            dist.barrier()
            found = target["a"].unique().tolist()
            handle.wait()
            return found
        data.send(1)
        dist.barrier()
        time.sleep(0.2)  # for the thread that writes
        dist.barrier()
        return None

    assert run(body)[1] == [1.0]


def test_what_comes_after_a_timeout() -> None:
    """It is dropped, the sender hears of it, and the connections stay."""

    def body(rank: int, world: int) -> Any:
        target = TensorDict(a=torch.zeros(3))
        if rank:
            (handle,) = target.irecv(0, return_premature=True)
            error = failure(lambda: handle.wait(timedelta(seconds=0.05)))
            dist.barrier()
            more = TensorDict(a=torch.zeros(3))
            more.recv(0)
            dist.barrier()
            return error and error[0], failure(handle.wait) == error, target["a"].tolist(), more["a"].tolist()
        dist.barrier()
        first = failure(lambda: TensorDict(a=torch.ones(3)).send(1))
        TensorDict(a=torch.full((3,), 2.0)).send(1)
        dist.barrier()
        return first and first[0]

    zero, one = run(body)
    assert zero == "StructureError"
    assert one == ("WorkerError", True, [0.0] * 3, [2.0] * 3)


def test_modes_of_torch() -> None:
    """A receive writes in the modes in which it was requested."""

    def body(rank: int, world: int) -> Any:
        weight = torch.zeros(3, requires_grad=True)
        if rank == 0:
            TensorDict(a=torch.ones(3)).send(1)
            return None
        with torch.no_grad():
            (handle,) = TensorDict(a=weight).irecv(0, return_premature=True)
        handle.wait()
        return weight.tolist()

    assert run(body)[1] == [1.0] * 3
