"""Containers between ranks: values arrive by name, structures are compared, and a failure leaves the old values."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from tensorclass import TensorDict, lazy_stack
from tensorclass.errors import ArgumentError, StructureError, TensorClassError, UnsupportedOperationError, WorkerError
from tensorclass.parallel import _collectives, _links, _transfer
from tensorclass.parallel._links import talking
from tensorclass.parallel._structure import Structure
from tests.parallel._functions import containers, items
from tests.parallel._ranks import run

KINDS = list(containers())


def like(kind: str) -> Any:
    """A container of the same structure and other values."""
    found = containers()[kind]
    return found if kind == "objects" else found.zero_()


def failure(call: Any) -> Any:
    """The error of a call, as what travels between processes."""
    try:
        call()
    except (TensorClassError, RuntimeError) as error:
        return type(error).__name__, str(error)
    return None


def test_point_to_point() -> None:
    """Every kind of container, every form of the call, several times; handles may end in any order."""

    def body(rank: int, world: int) -> Any:
        found = {}
        for kind, data in containers().items():
            targets = [like(kind) for _ in range(5)]
            if rank == 0:
                data.send(1)
                data.send(1, init_tag=7, pseudo_rand=True, consolidated=True)
                assert data.isend(1) == 0
                for handle in [
                    *data.isend(1, return_early=True),
                    *(data * 1 if kind != "objects" else data).isend(1, return_early=True),
                ]:
                    handle.wait()
            else:
                assert targets[0].recv(0) == 0
                assert targets[1].recv(group_src=0, group=dist.group.WORLD, init_tag=7) == 7
                targets[2].irecv(0)
                handles = [*targets[3].irecv(0, return_premature=True), *targets[4].irecv(0, return_premature=True)]
                for handle in reversed(handles):
                    handle.wait()
                found[kind] = [bool((target == data).all()) for target in targets]
        return found

    assert run(body)[1] == {kind: [True] * 5 for kind in KINDS}


def test_a_ring() -> None:
    """Each rank sends to the next and receives from the one before, the first time too."""

    def body(rank: int, world: int) -> Any:
        found = []
        for size in (3, 30000):
            data = TensorDict(a=torch.full((size,), float(rank)), batch_size=[size])
            target = TensorDict(a=torch.zeros(size), batch_size=[size])
            for _ in range(2):
                handles = data.isend((rank + 1) % world, return_early=True)
                target.recv((rank - 1) % world)
                handles[0].wait()
            found.append(target["a"].unique().tolist())
        return found

    assert run(body, 3) == [[[2.0]] * 2, [[0.0]] * 2, [[1.0]] * 2]


def test_by_name() -> None:
    """Other key orders, strides, parameters, views, mapped and shared targets are filled where they are."""

    def body(rank: int, world: int) -> Any:
        a, b = torch.arange(12.0).view(3, 4), torch.arange(3)
        sent = TensorDict(a=a, b=b, n=TensorDict(c=a * 2, batch_size=[3]), batch_size=[3])
        inner = TensorDict(c=torch.zeros(4, 3).t(), batch_size=[3])
        base = torch.zeros(6, 8)
        targets = [
            TensorDict(n=inner, b=torch.zeros(3, dtype=torch.int64), a=torch.zeros(4, 3).t(), batch_size=[3]),
            TensorDict(a=nn.Parameter(torch.zeros(3, 4)), b=b * 0, n=inner.clone(), batch_size=[3]),
            TensorDict(a=base[::2, ::2], b=b * 0, n=inner.clone(), batch_size=[3]),
            (sent * 0).memmap_(),
            (sent * 0).share_memory_(),
        ]
        before = [target["a"] for target in targets]
        for target in targets:
            sent.send(1) if rank == 0 else target.recv(0)
        reduced = (
            TensorDict(b=b.clone(), a=a.clone(), batch_size=[3])
            if rank
            else TensorDict(a=a.t().contiguous().t(), b=b.clone(), batch_size=[3])
        )
        reduced.all_reduce()
        kept = all(target["a"] is old for target, old in zip(targets, before, strict=True))
        return kept, [bool((t == sent).all()) for t in targets], base.sum().item(), bool((reduced["a"] == 2 * a).all())

    kept, equal, total, reduced = run(body)[1]
    assert kept
    assert equal == [True] * 5
    assert total == torch.arange(12.0).sum()
    assert reduced


MISMATCHES: dict[str, Any] = {
    "dtype": (lambda: TensorDict(a=torch.zeros(3), b=torch.zeros(3, dtype=torch.int64), batch_size=[3]), "`b` is"),
    "shape": (lambda: TensorDict(a=torch.zeros(3, 2), b=torch.zeros(3), batch_size=[3]), "`a` is"),
    "missing": (lambda: TensorDict(a=torch.zeros(3), batch_size=[3]), "`b` is"),
    "another": (lambda: TensorDict(a=torch.zeros(3), b=torch.zeros(3), c=torch.zeros(3), batch_size=[3]), "`c` is"),
    "batch size": (lambda: TensorDict(a=torch.zeros(3), b=torch.zeros(3)), "the container is TensorDict"),
    "class": (lambda: items(3), "the container is"),
    "stack": (lambda: lazy_stack([TensorDict(a=torch.zeros(())) for _ in range(3)]), "the container is"),
    "no container": (lambda: 3, "could not"),
    "unwritable": (lambda: TensorDict(a=torch.zeros(1).expand(3), b=torch.zeros(3), batch_size=[3]), "expanded"),
}  # fmt: skip


def test_mismatches() -> None:
    """Both ranks raise at once, name the first field, and go on together; nothing is written."""

    def body(rank: int, world: int) -> Any:
        found: dict[str, Any] = {}
        for name, (make, _) in MISMATCHES.items():
            if name == "no container":
                continue
            data = TensorDict(a=torch.ones(3), b=torch.ones(3), batch_size=[3]) if rank == 0 else make()
            before = data.clone()
            calls = [
                (lambda data=data: data.send(1) if rank == 0 else data.recv(0)),
                data.all_reduce,
                (lambda data=data: data.reduce(0)),
            ]
            found[name] = [failure(call) for call in calls], bool((data == before).all())
        good = TensorDict(a=torch.ones(3), batch_size=[3])
        good.all_reduce()
        return found, good["a"].tolist()

    begin = time.monotonic()
    results = run(body)
    assert time.monotonic() - begin < 15
    for found, good in results:
        assert good == [2, 2, 2]
        for name, (errors, unchanged) in found.items():
            assert unchanged
            for error in errors:
                assert error is not None, name
                assert MISMATCHES[name][1] in error[1], error


def test_who_can_not_take_part_says_so() -> None:
    """An error on one rank reaches the others at once."""

    def body(rank: int, world: int) -> Any:
        sparse = (
            TensorDict(a=torch.eye(3).to_sparse(), batch_size=[3])
            if rank == 0
            else TensorDict(a=torch.zeros(3, 3), batch_size=[3])
        )
        local = TensorDict(f=(lambda: 0), batch_size=[]) if rank == 0 else TensorDict()
        return [
            failure(lambda: sparse.send(1) if rank == 0 else sparse.recv(0)),
            failure(sparse.all_reduce),
            failure(lambda: local.broadcast(0)),
            failure(local.all_gather),
            failure(lambda: local.scatter(0, [local])),
            failure(lambda: local.init_remote(1) if rank == 0 else TensorDict.from_remote_init(0)),
        ]

    zero, one = run(body)
    assert [error[0] for error in one] == ["WorkerError"] * 6
    assert all(error is not None for error in zero)
    assert "`a` is a tensor of layout torch.sparse_coo" in one[0][1]


def test_those_that_bring_the_structure() -> None:
    """`broadcast`, `scatter`, `all_gather` and `init_remote` give the container of its class, whatever was there."""

    def body(rank: int, world: int) -> Any:
        found = {}
        for kind, data in containers().items():
            results = [
                (data if rank == 0 else TensorDict()).broadcast(0),
                (data if rank == 1 else TensorDict(x=torch.zeros(2))).broadcast(1),
                data.scatter(0, [data, data] if rank == 0 else None),
                *data.all_gather(),
            ]
            if rank == 0:
                data.init_remote(1)
                data.init_remote(use_broadcast=True)
            else:
                results += [TensorDict.from_remote_init(0), TensorDict.from_remote_init(0, use_broadcast=True)]
            found[kind] = all(type(result) is type(data) and (result == data).all() for result in results)
        different = items(rank + 1).all_gather()
        return found, [len(one) for one in different]

    assert run(body) == [(dict.fromkeys(KINDS, True), [1, 2])] * 2


def test_reductions() -> None:
    """Every operation, buckets, handles, averages; on `dst` only; ragged, lazy and complex entries."""

    def body(rank: int, world: int) -> Any:
        ops = dist.ReduceOp
        values = torch.tensor([1.0, 2.0, 3.0]) * (rank + 1)
        found: dict[str, Any] = {}
        for name, op in {"sum": None, "max": ops.MAX, "min": ops.MIN, "product": ops.PRODUCT, "mean": ops.AVG}.items():
            data = TensorDict(
                a=values.clone(), n=TensorDict(b=values.double()[:, None], batch_size=[3]), batch_size=[3]
            )
            data.all_reduce(op, bucket_bytes=4)
            assert torch.equal(data["a"].double(), data["n", "b"].squeeze(1))
            found[name] = data["a"].tolist()
        later = TensorDict(a=values.clone(), i=torch.arange(3), batch_size=[3])
        handles = later.all_reduce(async_op=True)
        for handle in handles:
            handle.wait()
        one = TensorDict(a=values.clone(), batch_size=[3])
        one.reduce(1)
        early = TensorDict(a=values.clone(), batch_size=[3])
        for handle in early.reduce(0, async_op=True, return_premature=True):
            handle.wait()
        rows = items(3)
        rows.all_reduce()
        complex_ = TensorDict(a=torch.tensor([1 + 2j]) * (rank + 1), batch_size=[1])
        complex_.all_reduce(ops.AVG)
        found |= {
            "async": (later["a"].tolist(), later["i"].tolist()),
            "reduce": one["a"].tolist(),
            "early": early["a"].tolist(),
            "complex": complex_["a"].tolist(),
            "ragged": bool((rows.words.values == 2 * items(3).words.values).all() & (rows.name == items(3).name).all()),
        }
        return found

    zero, one = run(body)
    assert zero["sum"] == zero["async"][0] == one["reduce"] == zero["early"] == [3, 6, 9]
    assert zero["reduce"] == [1, 2, 3]
    assert one["early"] == [2, 4, 6]
    assert (zero["max"], zero["min"], zero["mean"]) == ([2, 4, 6], [1, 2, 3], [1.5, 3.0, 4.5])
    assert zero["product"] == [2, 8, 18]
    assert zero["async"][1] == [0, 2, 4]
    assert zero["complex"] == [1.5 + 3j]
    assert zero["ragged"]


def test_dtypes_that_can_not_be_reduced() -> None:
    """Named, on every rank, and nothing is changed."""

    def body(rank: int, world: int) -> Any:
        cases = [
            (TensorDict(a=torch.ones(2), flag=torch.ones(2, dtype=torch.bool), batch_size=[2]), None),
            (TensorDict(a=torch.ones(2), z=torch.arange(2), batch_size=[2]), dist.ReduceOp.AVG),
            (TensorDict(a=torch.ones(2), batch_size=[2]), dist.ReduceOp.BAND),
            (TensorDict(a=torch.ones(2, dtype=torch.complex64), batch_size=[2]), dist.ReduceOp.MAX),
            (TensorDict(a=torch.ones(2), batch_size=[2]), "sum"),
        ]
        errors = [failure(lambda data=data, op=op: data.all_reduce(op)) for data, op in cases]
        return errors, [data["a"].tolist() for data, _ in cases]

    for errors, values in run(body):
        assert all(error is not None for error in errors)
        assert "`flag`" in errors[0][1]
        assert "`z`" in errors[1][1]
        assert values == [[1, 1]] * 5


def test_gather_and_stack() -> None:
    """Rows of the other ranks, in their order."""

    def body(rank: int, world: int) -> Any:
        found = {}
        for kind in ("TensorDict", "objects"):
            data = containers()[kind]
            data["a"] += rank
            if rank == 1:
                out = torch.stack([containers()[kind] for _ in range(world - 1)])
                assert out.gather_and_stack(1) is out
                found[kind] = out["a"][:, 0].tolist()
            else:
                assert data.gather_and_stack(1) is None
        wrong = failure(lambda: TensorDict(a=torch.zeros(5), batch_size=[5]).gather_and_stack(0))
        return found, wrong

    results = run(body, 3)
    assert results[1][0] == {"TensorDict": [0, 2], "objects": [0, 2]}
    assert all("a row for each of the 2 other ranks" in wrong[1] for _, wrong in results)


def test_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is larger than a bucket moves in several parts, whatever moves it, the first time and later."""
    monkeypatch.setattr(_links, "BUCKET", 999)
    monkeypatch.setattr(_collectives, "BUCKET", 999)
    monkeypatch.setattr(_transfer, "BUCKET", 999)

    def body(rank: int, world: int) -> Any:
        size = 12_345
        data = TensorDict(a=torch.arange(size) + rank, b=torch.rand(size).double() * 0 + rank, batch_size=[size])
        found: dict[str, Any] = {}
        for time_ in ("first", "second"):
            target = data * 0
            data.send(1) if rank == 0 else target.recv(0)
            found[time_] = rank == 0 or bool((target["a"] == torch.arange(size)).all() & (target["b"] == 0).all())
        total = data.clone()
        total.all_reduce()
        rows = torch.stack([data * 0])
        rows.gather_and_stack(0) if rank == 0 else data.gather_and_stack(0)
        found |= {
            "all_reduce": bool((total["a"] == 2 * torch.arange(size) + 1).all()),
            "gather_and_stack": rank == 1 or bool((rows["a"][0] == torch.arange(size) + 1).all()),
            "broadcast": bool((data.broadcast(0)["a"] == torch.arange(size)).all()),
            "scatter": data.scatter(0, [data[:3], data[:5000]] if rank == 0 else None).batch_size[0],
            "all_gather": [one["b"][-1].item() for one in data.all_gather()],
        }
        if rank == 0:
            data.init_remote(1)
        else:
            found["init_remote"] = bool((TensorDict.from_remote_init(0)["a"] == torch.arange(size)).all())
        return found

    for rank, found in enumerate(run(body)):
        assert found.pop("scatter") == (3, 5000)[rank]
        assert found.pop("all_gather") == [0, 1]
        assert all(found.values()), found


def test_blocks_live_where_the_backend_moves_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend of another device gets memory of that device only, and leaves of any device; nccl needs no more."""
    moved: list[Any] = []

    class Done:
        def wait(self) -> None: ...

    class Group:
        _device_types = (torch.device("meta"),)

        def rank(self) -> int:
            return 0

        def size(self) -> int:
            return 2

        def send(self, parts: Any, peer: int, tag: int) -> Any:
            moved.extend(parts)
            return Done()

        recv = send

        def allreduce(self, parts: Any, op: Any) -> Any:
            moved.extend(parts)
            return Done()

    group = Group()
    for module in (_links, _transfer, _collectives):
        monkeypatch.setattr(module, "device_of", lambda group: group._device_types[0])
    data = TensorDict(a=torch.rand(9000), i=torch.arange(9000), batch_size=[9000])
    structure = Structure(data)
    _transfer.Sending(data, group, 1, 0)  # asks
    _transfer.known_of(group).agreed.add((1, structure.digest))
    _transfer.Sending(data, group, 1, 0)
    _transfer.Sending(items(3), group, 1, 0)
    block = _transfer.known_of(group).lent(group._device_types[0], structure)
    assert {view.device.type for view in block.views(structure).each} == {"meta"}
    assert not block.apart, "other backends have no tags"
    _transfer.Incoming(group, 1, 0).expect(structure)
    _collectives.Reducing(group, structure, dist.ReduceOp.SUM, None, None, "all_reduce")
    assert len(moved) > 8
    assert {part.device.type for part in moved} == {"meta"}
    monkeypatch.undo()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)

    class Cuda:
        _device_types = (torch.device("cuda"),)

    assert _links.device_of(Cuda()) == torch.device("cuda", 3)
    assert _links.device_of(object()) == torch.device("cpu")


@pytest.mark.parametrize("tags", [True, False], ids=["gloo", "without tags"])
def test_structures_in_turn(tags: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small, large and other containers to one receiver: memory that is used again never holds another one's values."""
    monkeypatch.setattr(_transfer, "_tags", lambda device: tags)
    monkeypatch.setattr(_transfer, "_MOST", 2)

    def body(rank: int, world: int) -> Any:
        many = {f"f{i}": torch.full((3, 2), float(i)) for i in range(1, 41)}
        kinds: dict[str, Any] = {
            "even": TensorDict(many, [3]), "large": TensorDict(a=torch.rand(9000), b=torch.arange(9000)),
            "larger": TensorDict(a=torch.rand(50_000).double()), "typed": items(3), "one": TensorDict(a=torch.rand(3)),
            "uneven": TensorDict(a=torch.rand(2, 2), b=torch.arange(4), c=torch.ones(1).byte()), "none": TensorDict(),
        }  # fmt: skip
        found = []
        for number in range(5):
            for kind, given in kinds.items():
                data = given if kind == "typed" else (given * (number + 1))
                target = items(3, 3) if kind == "typed" else given.clone().zero_()
                data.send(1) if rank == 0 else target.recv(0)
                back = data.clone()
                data.recv(1) if rank == 0 else target.send(0)
                same = (data == back).all() if rank == 0 else all(map(torch.Tensor.any, target._leaves()))
                found.append(bool(same))
            wrong, right = kinds["large"], kinds["larger"]  # what was awaited for the wrong one comes later
            error = failure(lambda: right.send(1) if rank == 0 else wrong.recv(0))  # noqa: B023  # called here
            found.append((error is None) == (rank == 0))
        return found

    torch.manual_seed(0)
    for found in run(body):
        assert len(found) == 5 * 8
        assert all(found)


COLLECTIVES: dict[str, Any] = {
    "recv": lambda data: data.recv(1),
    "send": lambda data: [data.send(1) for _ in range(3)],
    "irecv": lambda data: data.irecv(1, return_premature=True)[0].wait(),
    "all_reduce": lambda data: data.all_reduce(),
    "reduce": lambda data: data.reduce(0),
    "broadcast": lambda data: data.broadcast(1),
    "scatter": lambda data: data.scatter(1),
    "all_gather": lambda data: data.all_gather(),
    "gather_and_stack": lambda data: data[:1].gather_and_stack(0),
    "from_remote_init": lambda data: TensorDict.from_remote_init(1),
}


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True], ids=["first", "later"])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_peer_that_dies_in_the_middle(name: str, known: bool) -> None:
    """Whatever is under way: an error of one class that says what to do, soon, and the old values."""

    def body(rank: int, world: int) -> Any:
        data = TensorDict(a=torch.ones(300_000), batch_size=[300_000])
        if known:
            for _ in range(2):
                data.send(1) if rank == 0 else data.recv(0)
                data.recv(1) if rank == 0 else data.send(0)
        dist.barrier()
        if rank == 1:
            threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
            time.sleep(10)
        begin = time.monotonic()
        return failure(lambda: COLLECTIVES[name](data)), bool((data["a"] == 1).all()), time.monotonic() - begin

    error, unchanged, seconds = run(body, timeout=3)[0]
    assert error is not None
    assert error[0] == "WorkerError"
    assert "start a new one in all ranks" in error[1]
    assert unchanged
    assert seconds < 8


def test_groups() -> None:
    """Ranks are those of the default group, in a group that has some of them."""

    def body(rank: int, world: int) -> Any:
        group = dist.new_group([1, 2])
        data = TensorDict(a=torch.full((2,), float(rank)), batch_size=[2])
        if rank == 0:
            return failure(lambda: data.send(3)), failure(lambda: data.send(0)), failure(data.send)
        target = data.clone()
        data.isend(3 - rank, group=group, return_early=True)[0].wait() if rank == 1 else target.recv(1, group=group)
        data.all_reduce(group=group)
        brought = TensorDict(a=torch.full((1,), float(rank)), batch_size=[1]).broadcast(2, group=group)
        return (
            target["a"].tolist(),
            data["a"].tolist(),
            brought["a"].tolist(),
            failure(lambda: data.broadcast(0, group=group)),
        )

    zero, one, two = run(body, 3)
    assert "rank 3 is not there" in zero[0][1]
    assert "this rank itself" in zero[1][1]
    assert "one of them" in zero[2][1]
    assert one[1] == two[1] == [3, 3]
    assert two[0] == [1, 1]
    assert one[2] == two[2] == [2]
    assert "not in the group" in one[3][1]


def test_a_peer_that_dies() -> None:
    """An error, and the old values; also for one that never comes."""

    def body(rank: int, world: int) -> Any:
        data = TensorDict(a=torch.ones(400_000), batch_size=[400_000])
        if rank == 1:
            dist.barrier()
            os.kill(os.getpid(), signal.SIGKILL)
        dist.barrier()
        return failure(lambda: data.recv(1)), failure(data.all_reduce), bool((data["a"] == 1).all())

    received, reduced, unchanged = run(body, timeout=2)[0]
    assert received[0] == reduced[0] == "WorkerError"
    assert "rank 0 of 2" in received[1]
    assert unchanged


def test_without_a_group() -> None:
    """Says what to do."""
    data = TensorDict(a=torch.zeros(2), batch_size=[2])
    for call in (
        lambda: data.send(1),
        lambda: data.recv(1),
        data.all_reduce,
        data.all_gather,
        lambda: data.broadcast(0),
    ):
        with pytest.raises(ArgumentError, match="init_process_group"):
            call()
    with pytest.raises(ArgumentError, match="group_dst"):
        data.send(group_dst=1)
    with pytest.raises(ArgumentError, match="init_tag"):
        data.send(1, init_tag="a")  # type: ignore[arg-type]  # that is the mistake


def test_pipes() -> None:
    """An object with `send`, `recv`, `asend` and `arecv` is asked itself."""

    class Pipe:
        held: Any = None

        def send(self, batch: Any) -> None:
            self.held = batch

        def recv(self, batch: Any) -> Any:
            return self.held

        async def asend(self, batch: Any) -> None:
            self.held = batch

        async def arecv(self, batch: Any, *, device: Any) -> Any:
            return self.held

    data, pipe = TensorDict(a=torch.zeros(2), batch_size=[2]), Pipe()
    data.send(pipe)
    assert TensorDict().recv(pipe) is data
    asyncio.run(data.asend(pipe))
    assert asyncio.run(TensorDict().arecv(pipe)) is data
    with pytest.raises(ArgumentError, match="asend goes through a pipe"):
        asyncio.run(data.asend(1))


def test_errors_have_their_classes() -> None:
    """As docs/scaling.md says."""
    assert issubclass(StructureError, RuntimeError)
    assert issubclass(WorkerError, RuntimeError)
    assert issubclass(UnsupportedOperationError, TypeError)


def test_dtensors_are_refused_by_name() -> None:
    """On every way between ranks; the group still works."""

    def body(rank: int, world: int) -> Any:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import distribute_tensor

        mesh = init_device_mesh("cpu", (world,))
        batch = TensorDict(a=torch.ones(2), n={"w": distribute_tensor(torch.ones(4), mesh)})
        calls = {
            "all_reduce": batch.all_reduce,
            "all_gather": batch.all_gather,
            "broadcast": lambda: batch.broadcast(0),
            "send": lambda: batch.send(1) if rank == 0 else TensorDict(a=torch.ones(2)).recv(0),
        }
        found = {name: failure(call) for name, call in calls.items()}
        good = TensorDict(a=torch.ones(3))
        good.all_reduce()
        return found, good["a"].tolist()

    for rank, (found, good) in enumerate(run(body)):
        assert good == [2.0] * 3
        for name, error in found.items():
            if name != "send" or rank == 0:
                assert error[0] == "UnsupportedOperationError" or (name == "broadcast" and rank)
                assert "`n.w` is a DTensor" in error[1]


def test_only_lost_ranks_are_lost() -> None:
    """Another error of torch is raised as such, with what this rank did."""
    group: Any = SimpleNamespace(rank=lambda: 0, size=lambda: 2)
    with pytest.raises(RuntimeError, match="not implemented for 'Half'") as caught, talking(group, "send to rank 1"):
        raise RuntimeError("add not implemented for 'Half'")
    assert not isinstance(caught.value, WorkerError)
    assert "send to rank 1 on rank 0 of 2" in f"{caught.value} {getattr(caught.value, '__notes__', '')}"
    for text in ("Connection closed by peer [127.0.0.1]:1", "Timed out waiting 200ms for recv operation to complete"):
        with pytest.raises(WorkerError, match="another rank died"), talking(group, "send to rank 1"):
            raise RuntimeError(text)
