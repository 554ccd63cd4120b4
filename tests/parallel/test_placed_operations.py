"""Operations of the table on distributed batches: as on the whole batch, or an error that names the field."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from tensorclass import PerElement, RaggedTensor, Shared, TensorClass, TensorDict, lazy_stack
from tensorclass._operations import ROWS
from tensorclass._operations._table import Row
from tensorclass.errors import UnsupportedOperationError
from tensorclass.parallel import Layout
from tests.parallel._meshes import fake_mesh
from tests.parallel._ranks import run

MASK = torch.tensor([True, False, True, False])
Call = Callable[..., Any]


class Held(TensorClass):
    """A class whose entry for a shared tensor is taken."""

    table: Shared[Tensor]
    name: PerElement[str]


@contextmanager
def one_rank() -> Iterator[Layout]:
    """A layout on a mesh of one rank, whose collectives are exact."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield Layout(init_device_mesh("cpu", (1,), mesh_dim_names=("dp",)), batch="dp")
    finally:
        dist.destroy_process_group()


def batch(seed: int, domain: str = "any") -> TensorDict:
    """Dense, nested, shared and ragged tensors beside strings, with values that fit the domain of an operation."""
    torch.manual_seed(seed)

    def values(*shape: int) -> Tensor:
        if domain == "bool":
            return torch.rand(shape) > 0.5
        return torch.randint(1, 4, shape) if domain == "int" else torch.rand(shape) * 0.4 + 0.5

    held = Held(table=values(3), name=["a", "b", "c", "d"], batch_size=[4])._entries()
    rows = [values(length) for length in (2, 1, 3, 2)]
    nested = TensorDict({"y": values(4, 2), "rows": RaggedTensor([values(1)] * 4)}, batch_size=[4])
    many = {f"k{number}": values(4) for number in range(4)}
    return TensorDict({"x": values(4, 3), **many, "rows": RaggedTensor(rows), "nested": nested, **held}, batch_size=[4])


def difference(call: Call, wholes: list[Any], layout: Layout) -> str:
    """How a call on distributed batches differs from that on the whole ones; empty if it doesn't."""
    wanted = call(*[one.clone() for one in wholes])
    got = call(*[one.clone().distribute(layout, source="everywhere") for one in wholes]).whole()
    return "" if got.batch_size == wanted.batch_size and (got == wanted).all() else f"{got} instead of {wanted}"


def calls_of(row: Row) -> Iterator[tuple[str, Call, int]]:
    """Name, call and number of batches for the forms of an operation."""
    number: Any = True if row.other_domain == "bool" else 2
    for name in [row.name, *([f"{row.name}_"] if row.in_place else []), *filter(None, [row.forward, row.augmented])]:
        yield name, lambda *given, name=name: getattr(given[0], name)(*given[1:]), row.arity + 1
        if row.arity == 1 or row.family == "clamp":
            yield f"{name} of a number", lambda one, name=name: getattr(one, name)(number), 1


FEW = frozenset({"exp", "sub", "addcmul"})
"""Operations of each kind, for the quick tests."""


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_each_row_of_the_table_is_that_of_the_whole_batch(few: bool) -> None:
    """Out of place and in place, with containers and numbers, beside plain ragged rows."""
    found = []
    with one_rank() as layout:
        for row in [row for row in ROWS if not few or row.name in FEW]:
            given = [batch(0, row.domain), batch(1, row.other_domain), batch(2)]
            for name, call, count in calls_of(row):
                if row.family == "clamp" and count > 1:
                    continue  # its ends are numbers here
                different = difference(call, given[:count], layout)
                found += [f"{name}: {different}"] if different else []
    assert found == []


def mask_of(one: Any) -> Tensor:
    """The mask as the dense field has it."""
    x = one["x"]
    return distribute_tensor(MASK, x.device_mesh, [Shard(0)], src_data_rank=None) if isinstance(x, DTensor) else MASK


SAME: dict[str, Call] = {
    "fill_": lambda a: a.fill_("x", 3),
    "set_": lambda a: a.set_("x", 1.0),
    "zero_": lambda a: a.zero_(),
    "masked_fill": lambda a: a.masked_fill(mask_of(a), 1),
    "masked_fill_": lambda a: a.masked_fill_(mask_of(a), 1),
    "where": lambda a: a.where(mask_of(a), a * 1),
    "lerp_": lambda a: a.lerp_(a * 2, 0.5),
    "apply_": lambda a: a.apply_(lambda leaf: leaf.mul_(2)),
    "list": lambda a: a[[0, 2]],
    "numbers": lambda a: a[torch.tensor([-1, 2])],
    "mask": lambda a: a[MASK],
    "placed mask": lambda a: a[mask_of(a)],
    "assigned": lambda a: (a.__setitem__(slice(None), a.clone()), a)[1],
}


@pytest.mark.parametrize("name", [*SAME])
def test_further_calls_are_those_of_the_whole_batch(name: str) -> None:
    """Fills, distributed masks, and indexes that all ranks give alike have the values of the whole."""
    with one_rank() as layout:
        given = batch(0)
        if name == "where":
            given = given.exclude("table")  # two sides with unlike shared tensors are refused anywhere
        assert difference(SAME[name], [given], layout) == ""


def _loaded(one: Any) -> Any:
    file = io.BytesIO()
    torch.save(one, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES: dict[str, Call] = {
    "pickle": lambda a: pickle.loads(pickle.dumps(a)),
    "torch.save": _loaded,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("name", [*COPIES])
def test_pieces_of_every_rank_are_copied(name: str) -> None:
    """Pickles and copies take the piece of any rank, and views of it, without the rest of the memory."""
    for rank in range(2):
        with fake_mesh(rank, dp=2) as mesh:
            part = batch(0).distribute(Layout(mesh, batch="dp"), source="everywhere")
            replicated = batch(0).distribute(Layout(mesh), source="everywhere")
            for one in (part, replicated[1:], lazy_stack([replicated[1], replicated[2]])):
                copied = COPIES[name](one)
                assert (copied.local() == one.local()).all()
                assert copied["x"].placements == one["x"].placements
            assert part["x"].to_local().untyped_storage().nbytes() == 2 * 3 * 4  # type: ignore[attr-defined]  # a DTensor


def test_files_take_no_dtensors(tmp_path: Path) -> None:
    """A file is of one process, and the error says what to save."""
    with one_rank() as layout, pytest.raises(UnsupportedOperationError, match=r"`x`.*save `batch.local\(\)`"):
        batch(0).distribute(layout, source="everywhere").save(tmp_path / "file")


REFUSED: dict[str, Call] = {
    "mul": lambda a, plain: a * plain,
    "mul_": lambda a, plain: a.mul_(plain),
    "mul of a tensor": lambda a, _: a.exclude("table").mul(torch.arange(4.0)),
    "in-place write": lambda a, plain: a.set_("x", plain["x"]),
    "copy_": lambda a, plain: a.select("x").copy_(plain.select("x")),
    "masked_fill": lambda a, _: a.masked_fill(MASK, 0),
    "masked_fill_": lambda a, _: a.masked_fill_(MASK, 0),
    "where": lambda a, _: a.where(MASK, 0),
    "write by index": lambda a, plain: a.__setitem__(1, plain[1]),
    "set_at_": lambda a, _: a.set_at_("x", 0.0, torch.tensor([1])),
    "gather": lambda a, _: a.gather(0, torch.tensor([1])),
    "unbind": lambda a, _: a.unbind(0),
    "consolidate": lambda a, _: a.consolidate(),
    "numpy": lambda a, _: a.select("x").numpy(),
}


@pytest.mark.parametrize("name", [*REFUSED])
def test_what_dtensors_refuse_names_the_field(name: str) -> None:
    """Plain operands, masks and values, and writes at a split dim, name field and remedy; nothing is written."""
    with one_rank() as layout:
        part = batch(0).distribute(layout, source="everywhere")
        before = part["x"].full_tensor().clone()
        with pytest.raises(UnsupportedOperationError, match=r"`x`.*(distribute|local\(\)|whole\(\)|where)"):
            REFUSED[name](part, batch(1))
        assert torch.equal(part["x"].full_tensor(), before)


def test_shared_memory_is_of_one_process() -> None:
    """A distributed batch is not moved to shared memory, which torch would answer with a crash."""
    with one_rank() as layout, pytest.raises(UnsupportedOperationError, match=r"share the piece, `batch.local\(\)`"):
        batch(0).distribute(layout, source="everywhere").share_memory_()


def test_the_hint_for_plain_operands_works() -> None:
    """A tensor that all ranks hold whole becomes an operand by `distribute_tensor`."""
    with one_rank() as layout:
        part = batch(0).select("x").distribute(layout, source="everywhere")
        weight = distribute_tensor(torch.arange(4.0), part["x"].device_mesh)
        assert torch.equal((part * weight).whole()["x"], (batch(0).select("x") * torch.arange(4.0))["x"])


def test_unfinished_sums_are_not_scaled_wrongly() -> None:
    """A number is added once to an unfinished sum, and not to the summand of each rank."""
    with fake_mesh(0, dp=2) as mesh:
        sums = TensorDict({"x": DTensor.from_local(torch.ones(2), mesh, [Partial()])}, batch_size=[2])
        assert torch.equal((sums * 2)["x"].to_local(), torch.full((2,), 2.0))
        assert torch.equal((sums + 1)["x"].to_local(), torch.full((2,), 1.5))
        sums["a"] = DTensor.from_local(torch.ones(2), mesh, [Shard(0)], shape=torch.Size([2]), stride=(1,))
        for write in (sums.round_, lambda: sums.add_(1)):
            with pytest.raises(
                UnsupportedOperationError, match=r"`x` has the placements .*Partial.*nothing was written"
            ):
                write()
        assert torch.equal(sums["a"].to_local(), torch.ones(2))  # type: ignore[attr-defined]  # a DTensor
        assert torch.equal(sums.mul_(2)["x"].to_local(), torch.full((2,), 2.0))
        mask = distribute_tensor(torch.tensor([True, False]), mesh, [Replicate()], src_data_rank=None)
        pieces = TensorDict({"x": sums["a"]}, batch_size=[2])
        for write in (
            lambda: sums.masked_fill_(mask, 1),
            lambda: sums.update_(pieces),
            lambda: sums.set_("x", sums["a"]),
        ):
            with pytest.raises(UnsupportedOperationError, match=r"`x` is .*an unfinished sum.*nothing was written"):
                write()
        assert torch.equal(sums["a"].to_local(), torch.full((2,), 2.0))  # type: ignore[attr-defined]  # a DTensor


def _on_ranks(rank: int, world: int) -> list[str]:
    layout, found = Layout({"dp": world}, batch="dp"), []
    for name, call in {**SAME, **COPIES}.items():
        given = batch(0).exclude("table") if name == "where" else batch(0)
        different = difference(call, [given], layout)
        found += [f"{name}: {different}"] if different else []
    for operation in ("mul_", "add_", "exp_"):
        operands = () if operation == "exp_" else (2,)
        different = difference(lambda one, o=operation, w=operands: getattr(one, o)(*w), [batch(0)], layout)
        found += [f"{operation}: {different}"] if different else []
    return found


@pytest.mark.slow
def test_calls_on_ranks() -> None:
    """The same on two ranks."""
    assert run(_on_ranks, 2, timeout=60) == [[], []]
