"""Readers beside a thread that locks, unlocks and writes: old values or new ones, and never a broken container."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import RaggedTensor, TensorClass, TensorCollection, TensorDict, lazy_stack, tensorclass
from tensorclass.errors import LockedError
from tensorclass.typing import Float32
from tests.contract._invariants import check

KEYS = ("k0", "k1", "k2", "k3")
READS_PER_OPERATION = 25


@pytest.fixture(autouse=True)
def hurried_switches() -> Iterator[None]:
    """Threads take turns as often as the interpreter allows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def leaf(position: int, round_: int, *size: int) -> Tensor:
    """A tensor that tells which key it belongs to, and when it was written."""
    return torch.full((*size, 2), position + 100.0 * round_)


def entries(*size: int) -> dict[str, Tensor]:
    """What every container starts with."""
    return {key: leaf(i, 0, *size) for i, key in enumerate(KEYS)}


@tensorclass
class Quad:
    """The same, declared."""

    k0: Tensor
    k1: Tensor
    k2: Tensor
    k3: Tensor
    name: str = "quad"


def flat() -> TensorDict:
    """Tensors."""
    return TensorDict(entries(3), batch_size=[3])


def nested() -> TensorDict:
    """Containers below."""
    return TensorDict({"n": flat(), "m": {"deep": flat()}, **entries(3)}, batch_size=[3])


def objects() -> TensorDict:
    """An object beside the tensors."""
    return TensorDict({"name": "objects", **entries(3)}, batch_size=[3])


def typed() -> Quad:
    """An instance of a class."""
    return Quad(**entries(3), batch_size=[3])


def lazy() -> Any:
    """A lazy stack: its members are written one after the other."""
    return lazy_stack([TensorDict(entries()) for _ in range(3)])


KINDS = (flat, nested, objects, typed, lazy)
LOOKS: dict[str, Callable[[Any], Any]] = {
    "keys": lambda d: list(d.keys(True)),
    "items": lambda d: dict(d.items()),
    "items below": lambda d: dict(d.items(True, True)),
    "values": lambda d: list(d.values(True, True)),
    "in": lambda d: "k1" in d.keys(),  # noqa: SIM118  # the view is what is tested
    "len": lambda d: len(d.keys(True, True)),
    "get": lambda d: {"k1": d.get("k1", None)},
    "copy": lambda d: d.copy(),
    "to_dict": lambda d: d.to_dict(),
    "row": lambda d: d[0],
    "slice": lambda d: d[1:],
    "repr": repr,
    "is_locked": lambda d: d.is_locked,
}
"""Reading, which nothing that other threads do may disturb."""
COMPUTES: dict[str, Callable[[Any], Any]] = {
    "clone": lambda d: d.clone(),
    "mask": lambda d: d[torch.tensor([True, False, True])],
    "unbind": lambda d: d.unbind(0),
    "reshape": lambda d: d.reshape(-1),
    "select": lambda d: d.select("k1", "k3"),
    "flatten_keys": lambda d: d.flatten_keys("."),
    "apply": lambda d: d.apply(lambda t: t + 0),
    "add": lambda d: d + 0,
    "to": lambda d: d.to(torch.float64),
    "stack": lambda d: torch.stack([d, d]).unbind(0),  # each reading of `d` is whole by itself
    "pickle": lambda d: pickle.loads(pickle.dumps(d)),
    "state_dict": lambda d: d.state_dict(),
}
"""Operations, which need one set of keys from their beginning to their end."""
NEED_ALL_KEYS = ("select", "stack")
"""Those that rightly refuse a container in which a key is absent, or keys that differ between two readings."""


def _containers(shared: Any) -> list[Any]:
    """A container, the members of a stack and what is below: what the writer goes on to change."""
    below = [value for value in shared._entries().values() if isinstance(value, TensorCollection)]
    return [shared, *shared._parts(), *(container for value in below for container in _containers(value))]


def _parts(result: Any, shared: Any) -> list[tuple[str, Any]]:
    """The tensors of a result with their last keys; its containers hold together, unless they are the writer's own."""
    if isinstance(result, (list, tuple)):
        return [pair for part in result for pair in _parts(part, shared)]
    if isinstance(result, TensorCollection):
        if not result._stacked and not any(result is own for own in _containers(shared)):
            check(result)  # of a stack, which reads new tensors each time, the members are looked at
        result = dict(result.items(True, True))  # type: ignore[attr-defined]  # every container has it
    if not isinstance(result, dict):
        return []
    values = [value for value in result.values() if isinstance(value, (dict, TensorCollection))]
    below = [pair for value in values for pair in _parts(value, shared)]
    here = [(key[-1] if isinstance(key, tuple) else key.rpartition(".")[2], value) for key, value in result.items()]
    return [(key, value) for key, value in here if isinstance(value, Tensor)] + below


def expect_whole(result: Any, shared: Any, pieces: Sequence[str] = ()) -> None:
    """Every tensor was written under its key, and whole, except under keys that are written piece by piece."""
    for key, value in _parts(result, shared):
        if key not in KEYS:
            continue
        written = value.flatten().tolist()
        assert {number % 100 for number in written} <= {float(KEYS.index(key))}, f"`{key}` holds {set(written)}"
        assert key in pieces or len(set(written)) <= 1, f"`{key}` is torn: {set(written)}"


@contextmanager
def writing(write: Callable[[int], None]) -> Iterator[None]:
    """A thread that writes round after round; what goes wrong in it goes wrong in the test."""
    stop, started = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        round_ = 1
        try:
            while not stop.is_set():
                write(round_)
                started.set()
                round_ += 1
        except BaseException as error:  # handed to the test
            errors.append(error)
            started.set()

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert errors == []


@pytest.mark.parametrize("make", KINDS)
def test_values_change_under_readers(make: Callable[[], Any]):
    """Unlock, replace values, lock: readers and operations see old tensors or new ones.

    Elements that are written in place come one after the other, as do the members of a lazy stack.
    """
    shared = make()
    pieces = KEYS if make is lazy else KEYS[:1]

    def write(round_: int) -> None:
        shared.unlock_()
        for i, key in enumerate(KEYS):
            shared.set(key, leaf(i, round_, 3))
        shared.lock_()
        shared.set_(KEYS[0], leaf(0, round_, 3))

    with writing(write):
        for read in (*LOOKS.values(), *COMPUTES.values()):
            for _ in range(READS_PER_OPERATION):
                expect_whole(read(shared), shared, pieces)
    assert shared.is_locked
    if make is not lazy:  # which reads a new tensor each time
        check(shared)


@pytest.mark.parametrize("make", [flat, nested, objects])
def test_keys_come_and_go_under_readers(make: Callable[[], Any]):
    """Unlock, add and remove keys, lock: every look is a snapshot, and so is every operation."""
    shared = make()

    def write(round_: int) -> None:
        position = round_ % len(KEYS)
        shared.unlock_()
        shared.set(f"new{round_ % 7}", leaf(9, round_, 3))
        shared.pop(KEYS[position], None)
        shared.pop(f"new{(round_ + 3) % 7}", None)
        shared.lock_()
        shared.unlock_()
        shared.set(KEYS[position], leaf(position, round_, 3))

    with writing(write):
        for name, read in (LOOKS | COMPUTES).items():
            for _ in range(READS_PER_OPERATION if name not in NEED_ALL_KEYS else 0):
                expect_whole(read(shared), shared)
    check(shared)
    assert set(KEYS) <= set(shared.keys())


def test_nested_containers_follow_the_lock():
    """While one thread locks and unlocks, a write below is made whole or refused."""
    shared = nested()

    def write(round_: int) -> None:
        shared.lock_()
        shared.unlock_()

    refused = 0
    with writing(write):
        for round_ in range(300):
            try:
                shared.set(("m", "deep", "k1"), leaf(1, round_, 3))
            except LockedError:
                refused += 1
            expect_whole(shared["m", "deep"], shared)
            check(shared["m", "deep"])
    assert 0 <= refused <= 300
    assert not shared.is_locked
    assert not shared["m"].is_locked
    assert not shared["m", "deep"].is_locked


def test_writers_of_different_keys_lose_nothing():
    """Two threads that set different keys leave both keys with their last values."""
    shared = TensorDict(batch_size=[3])

    def write(round_: int) -> None:
        shared.set(f"a{round_ % 50}", leaf(0, 0, 3))

    with writing(write):
        for i in range(500):
            shared.set(f"b{i % 50}", leaf(1, 0, 3))
            shared.set(("n", f"c{i % 50}"), leaf(2, 0, 3))
    check(shared)
    assert {f"b{i}" for i in range(50)} <= set(shared.keys())
    assert len(shared["n"].keys()) == 50


class Fields(TensorClass):
    """Three tensors that are written together."""

    a: Float32[Tensor, ""]
    b: Float32[Tensor, ""]
    c: Float32[Tensor, ""]


def values_of(round_: int) -> dict[str, Tensor]:
    """New tensors each time: the end of those that they replace gives other threads a turn."""
    return {key: torch.full((2,), float(round_)) for key in "abc"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: TensorDict(values_of(0), [2]),
        lambda: TensorDict(values_of(0), [2], device="cpu"),
        lambda: Fields(**values_of(0)),
    ],
    ids=["untyped", "with a device", "typed"],
)
@pytest.mark.parametrize(
    "read",
    [
        lambda c: c.clone(False),
        lambda c: c.copy(),
        lambda c: c.clone(),
        lambda c: c + 0,
        lambda c: c[:],
        lambda c: dict(c.items()),
        lambda c: c.to_dict(),
    ],
    ids=["shallow", "copy", "clone", "+", "slice", "items", "to_dict"],
)
def test_fields_that_are_written_together_are_read_together(make, read):
    """Readers of a container whose fields another thread replaces see the fields of one write."""
    shared = make()
    with writing(lambda round_: shared.update(values_of(round_))):
        for _ in range(1500):
            found = read(shared)
            assert len({found[key][0].item() for key in "abc"}) == 1


def test_writes_to_other_ragged_elements_are_all_kept():
    """Each thread gives its own elements other lengths: the table that holds all of them keeps every write."""
    count, rounds = 4, 60
    data = TensorDict(r=RaggedTensor([torch.zeros(1) for _ in range(count)]), batch_size=[count])

    def write(number: int) -> None:
        for length in range(1, rounds):
            data[number] = TensorDict(r=torch.full((length,), float(number)))

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(write, range(count)))
    assert [part.tolist() for part in data["r"]] == [[float(n)] * (rounds - 1) for n in range(count)]
