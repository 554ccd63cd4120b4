"""Batches over a mesh: every rank has its piece, and the whole comes back, for all kinds of fields."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from tensorclass import PerElement, Ragged, Shared, TensorClass, TensorDict, lazy_stack
from tensorclass.errors import (
    ArgumentError,
    BatchSizeError,
    SchemaError,
    StructureError,
    TensorClassError,
    UnsupportedOperationError,
)
from tensorclass.parallel import Layout
from tensorclass.typing import Float32, Int64
from tests.parallel._meshes import fake_mesh
from tests.parallel._ranks import run


class Inner(TensorClass):
    v: Float32[Tensor, "t 3"]
    name: PerElement[str]


class Batch(TensorClass):
    ids: Int64[Tensor, "t"]
    weight: Float32[Tensor, ""]
    name: PerElement[str]
    words: Ragged[Tensor, "n"]
    table: Shared[Float32[Tensor, "t"]]
    tag: str
    inner: Inner
    extra: Float32[Tensor, "t"] | None = None


class Flat(TensorClass):
    flat: Float32[Tensor, "h*w"]
    row: Float32[Tensor, "h"]
    column: Float32[Tensor, "w"]


def made(rows: int = 5, t: int = 6, start: int = 0) -> Batch:
    """A batch with a field of each kind."""
    torch.manual_seed(start)
    names = [f"n{start + i}" for i in range(rows)]
    return Batch(
        ids=torch.arange(rows * t).view(rows, t),
        weight=torch.arange(rows).float(),
        name=names,
        words=[torch.arange(float(i % 3 + 1)) for i in range(rows)],
        table=torch.arange(float(t)),
        tag="x",
        inner=Inner(v=torch.randn(rows, t, 3), name=names),
    )


def same(one: Any, two: Any) -> bool:
    """Whether class, values and names are equal."""
    return type(one) is type(two) and bool((one == two).all()) and one.names == two.names


# ---- one process --------------------------------------------------------------------------------------------------


def test_a_piece_of_each_kind_of_field() -> None:
    """Tensors are split by dims, shared ones by their own; what is not split stays whole, and `local` cuts it."""
    with fake_mesh(1, dp=2, cp=2) as mesh:
        part = made().distribute(Layout(mesh, batch="dp", t="cp"), source="everywhere")
        assert type(part) is Batch
        assert part.batch_size == (5,)
        assert part.ids.shape == (5, 6)
        assert part.ids.placements == (Shard(0), Shard(1))
        assert part.weight.placements == (Shard(0), Replicate())
        assert part.table.placements == (Replicate(), Shard(0))
        assert len(part.name) == len(part.words) == 5
        local, whole = part.local(), made()
        assert type(local) is Batch
        assert type(local.inner) is Inner
        assert local.batch_size == (3,)
        assert torch.equal(local.ids, whole.ids[:3, 3:])
        assert local.name.tolist() == local.inner.name.tolist() == ["n0", "n1", "n2"]
        assert [len(words) for words in local.words] == [1, 2, 3]
        assert torch.equal(local.table, whole.table[3:])
        assert torch.equal(local.inner.v, whole.inner.v[:3, 3:])
        assert local.tag == "x"
        assert local.extra is None


def test_shape_operations_keep_the_placement() -> None:
    """Indexing, stacking, joining and arithmetic of a distributed batch act on the whole batch."""
    with fake_mesh(0, dp=2) as mesh:
        layout = Layout(mesh, batch="dp")
        data = TensorDict({"x": torch.randn(4, 3)}, batch_size=[4], names=["rows"])
        part = data.distribute(layout, source="everywhere")
        assert part.names == ["rows"]
        assert part.clone()["x"].placements == (Shard(0),)
        assert (part * 2)["x"].placements == (Shard(0),)
        assert part.unsqueeze(0)["x"].placements == (Shard(1),)
        assert torch.stack([part, part])["x"].placements == (Shard(1),)
        assert torch.cat([part, part], 0)["x"].shape == (8, 3)
        stacked = lazy_stack([data[0], data[1]]).distribute(layout, source="everywhere")
        assert stacked["x"].placements == (Shard(0),)


def test_another_layout() -> None:
    """A distributed batch gets the placements of another layout, and takes no source again."""
    with fake_mesh(0, dp=2, cp=2) as mesh:
        part = made().distribute(Layout(mesh, batch="dp"), source="everywhere")
        other = part.distribute(Layout(mesh, t="cp"))
        assert other.ids.placements == (Replicate(), Shard(1))
        assert other.local().ids.shape == (5, 3)
        with pytest.raises(ArgumentError, match="distributed already"):
            part.distribute(Layout(mesh), source="everywhere")


@pytest.mark.parametrize("source", [None, "here", -1, 1.0, True])
def test_the_source_is_never_guessed(source: Any) -> None:
    """Without a source the error lists all three."""
    with (
        fake_mesh(0, dp=2) as mesh,
        pytest.raises(ArgumentError, match=r'source="everywhere".*source="rows".*source=0'),
    ):
        made().distribute(Layout(mesh, batch="dp"), source=source)


class Listed(TensorClass):
    ids: Int64[Tensor, "t"]
    lists: Shared[Tensor]


@pytest.mark.parametrize("source", ["everywhere", "rows"])
def test_a_shared_nested_tensor_is_left_out(source: Any) -> None:
    """A mesh has no nested tensors: a shared one stays whole through layouts, back, and writes beside it."""
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    with fake_mesh(0, dp=2) as mesh:
        part = Listed(ids=torch.zeros(4, 2).long(), lists=nested).distribute(Layout(mesh, batch="dp"), source=source)
        assert isinstance(part.ids, DTensor)
        for batch in (part, part.distribute(Layout(mesh)), part.local(), part.whole()):
            assert batch.lists.is_nested
            assert not isinstance(batch.lists, DTensor)
            assert [len(row) for row in batch.lists.unbind()] == [2, 3]
        part.lists = nested * 2
        part.ids = part.ids + 1
        assert float(part.lists.values().sum()) == 10


def test_a_plain_tensor_beside_dtensors() -> None:
    """No write puts a plain tensor into a typed batch that is distributed; a DTensor is taken."""
    with fake_mesh(0, dp=2) as mesh:
        whole = made()
        part = whole.distribute(Layout(mesh, batch="dp"), source="everywhere")
        writes: list[Any] = [
            lambda: setattr(part, "ids", whole.ids),
            lambda: setattr(part, "extra", torch.zeros(5, 6)),
            lambda: part.set("weight", whole.weight),
            lambda: part.update({"weight": whole.weight, "ids": whole.ids}),
            lambda: part.inner.set("v", whole.inner.v),
            lambda: setattr(part, "inner", whole.inner),
            lambda: setattr(part, "table", whole.table),
            lambda: Batch(**{**dict(part.items()), "weight": whole.weight}),
            lambda: Batch(**{**dict(part.items()), "inner": whole.inner}),
            lambda: part.replace(weight=whole.weight),
            lambda: Batch.from_tensordict(part.to_tensordict().set("weight", whole.weight)),
        ]
        for write in writes:
            with pytest.raises(StructureError, match=r"would be a plain tensor beside the DTensor"):
                write()
        part.extra = distribute_tensor(torch.zeros(5, 6), mesh, [Shard(0)], src_data_rank=None)
        part.ids = part.ids + 1
        assert [part.extra.placements, part.ids.placements] == [(Shard(0),)] * 2
        part.words, part.name = whole.words, whole.name
        with pytest.raises(StructureError, match="`ids` is a DTensor and meets a plain tensor"):
            torch.cat([part, whole])


class Uneven(TensorClass):
    """A length of its own for each instance."""

    x: Float32[Tensor, "n"]


class Plain(TensorClass):
    """A class whose constructor has only quick tests."""

    inner: Uneven
    w: Float32[Tensor, ""]
    more: Uneven | None = None


class Pair(TensorClass):
    """Two instances, without tensors of its own."""

    one: Plain
    two: Uneven


def test_a_constructor_beside_dtensors() -> None:
    """No constructor takes a distributed nested batch beside plain ones, at any depth; all distributed are taken."""
    inner, w = Uneven(x=torch.ones(4, 3)), torch.ones(4)
    plain = Plain(inner=inner, w=w)
    with fake_mesh(0, dp=2) as mesh:
        layout = Layout(mesh, batch="dp")
        placed = inner.distribute(layout, source="everywhere")
        whole = plain.distribute(layout, source="everywhere")
        wrong: list[Any] = [
            lambda: Plain(inner=placed, w=w),
            lambda: Plain(inner=inner, w=whole.w),
            lambda: Plain(inner=inner, w=w, more=placed),
            lambda: Pair(one=plain, two=placed),
            lambda: Pair(one=whole, two=inner),
        ]
        for make in wrong:
            with pytest.raises(StructureError, match=r"would be a plain tensor beside the DTensor"):
                make()
        assert Plain(inner=placed, w=whole.w, more=placed).w is whole.w
        assert Pair(one=whole, two=placed).one is whole


def test_pieces_that_fit_no_batch() -> None:
    """`local` names fields whose pieces differ, unfinished sums, and a declaration that the pieces break."""
    with fake_mesh(0, dp=2) as mesh:
        layout = Layout(mesh, {Batch.weight: Replicate()}, batch="dp")
        with pytest.raises(BatchSizeError, match=r"`ids` has the batch size \[3\] and `weight` \[5\]"):
            made().distribute(layout, source="everywhere").local()
        sums = TensorDict({"x": DTensor.from_local(torch.ones(2), mesh, [Partial()])}, batch_size=[2])
        with pytest.raises(UnsupportedOperationError, match=r"`x` is .*an unfinished sum"):
            sums.local()
        flat = Flat(flat=torch.zeros(2, 16), row=torch.zeros(2, 4), column=torch.zeros(2, 4))
        part = flat.distribute(Layout(mesh, **{"h*w": "dp"}), source="everywhere")
        with pytest.raises(SchemaError, match="flat"):
            part.local()


def test_wrong_calls_of_distribute() -> None:
    """A mesh of another size, a batch without rows, and fields that are not split by rows are named."""
    with fake_mesh(0, dp=4) as mesh:
        data = TensorDict({"x": torch.zeros(4)}, batch_size=[4])
        with pytest.raises(ArgumentError, match="dp=3 needs 3 ranks, and the process group has 4"):
            data.distribute(Layout({"dp": 3}, batch="dp"), source="everywhere")
        with pytest.raises(ArgumentError, match="takes a Layout, got a dict"):
            data.distribute({}, source="everywhere")
        with pytest.raises(ArgumentError, match="needs a layout that splits the first batch dim"):
            data.distribute(Layout(mesh), source="rows")
        with pytest.raises(ArgumentError, match="`weight` is not split by rows"):
            made().distribute(Layout(mesh, {Batch.weight: Replicate()}, batch="dp"), source="rows")
        mixed = data.distribute(Layout(mesh, batch="dp"), source="everywhere")
        mixed["y"] = torch.zeros(4)
        with pytest.raises(ArgumentError, match=r"beside DTensors; distribute it first"):
            mixed.distribute(Layout(mesh))


@pytest.mark.parametrize("write", ["load_state_dict", "update_", "copy_"])
def test_writes_into_a_distributed_batch(write: str) -> None:
    """Values are written in place between batches of one layout, whatever fields they have beside DTensors."""
    with fake_mesh(0, dp=2) as mesh:
        layout = Layout(mesh, batch="dp")
        target, source = (made(start=seed).distribute(layout, source="everywhere") for seed in (1, 0))
        before = target.inner.v
        getattr(target, write)(source.state_dict() if write == "load_state_dict" else source)
        assert target.inner.v is before
        assert torch.equal(before.to_local(), source.inner.v.to_local())  # type: ignore[attr-defined]  # DTensors
        assert target.clone().ids.placements == (Shard(0),)
        target.zero_()
        assert not before.to_local().any()  # type: ignore[attr-defined]  # a DTensor


# ---- ranks ---------------------------------------------------------------------------------------------------------


def _there_and_back(rank: int, world: int) -> list[Any]:
    sizes = {"dp": 2} if world == 2 else {"dp": 2, "cp": 2}
    layout = Layout(sizes, batch="dp", **({} if world == 2 else {"t": "cp"}))
    whole, other = made(), made(4, 6, start=7)
    assert same(whole.distribute(layout, source="everywhere").whole(), whole)
    assert same((whole if rank == 1 else other).distribute(layout, source=1).whole(), whole)
    part = whole.distribute(Layout(layout.mesh_on("cpu"), batch="dp"), source="everywhere")
    assert same(part.local().distribute(Layout(layout.mesh_on("cpu"), batch="dp"), source="rows").whole(), whole)
    assert same(part.distribute(Layout(layout.mesh_on("cpu"))).local(), whole)
    swapped = init_device_mesh("cpu", tuple(reversed(sizes.values())), mesh_dim_names=tuple(reversed(sizes)))
    assert same(part.distribute(Layout(swapped, batch="dp")).whole(), whole)
    return [_problem(lambda: whole.distribute(Layout(sizes, batch="dp" if rank else None), source="everywhere")),
            _problem(lambda: whole[: 4 + rank].distribute(layout, source="everywhere")),
            _problem(lambda: whole.distribute(layout, source="everywhere" if rank else "rows")),
            _problem(lambda: whole[: 4 - 3 * (rank // (world // 2))].distribute(layout, source="rows")),
            _problem(lambda: (whole if rank else Inner(v=torch.zeros(2, 6, 3), name=["a", "b"])).distribute(
                layout, source="everywhere")),
            _problem(lambda: whole.distribute(Layout(sizes, batch="dp", t="dp"), source="everywhere")
                     if rank else whole.distribute(layout, source="everywhere"))]  # fmt: skip


def _problem(call: Any) -> str:
    try:
        call()
    except TensorClassError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
def test_ranks(world: int) -> None:
    """What every rank holds, what one rank has and what are rows come back whole; all ranks raise the same error."""
    found = run(_there_and_back, world, timeout=60)
    assert all(one == found[0] for one in found[1:])
    layouts, batches, sources, rows, classes, wrong = found[0]
    assert "rank 0 has Layout" in layouts
    assert "all ranks of a mesh make the same call" in layouts
    assert "the batches differ" in batches
    assert "source='rows'" in sources
    assert "hold [4, 1] rows" in rows
    assert "drop_last=True" in rows
    assert "the batches differ" in classes
    assert "Inner" in classes
    assert "rank 1" in wrong


def _other_meshes(rank: int, world: int) -> list[str]:
    made_by_all = [init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp")) for shape in ((2, 2), (4, 1))]
    named: list[Any] = [{"dp": 2, "tp": 2}, {"dp": 4, "tp": 1}, {"tp": 2, "dp": 2}, {"dp": 3}]
    pairs: list[Any] = [(named[0], named[1]), (named[0], named[2]), (named[0], named[3]), made_by_all]
    found = [Layout(pair[rank == 1], batch="dp") for pair in pairs]
    said = [_problem(partial(made().distribute, one, source=source)) for one in found for source in SOURCES]
    return [*said, _problem(lambda: found[0].mesh_on("cpu"))]


SOURCES = ("everywhere", "rows", 0)


@pytest.mark.slow
def test_meshes_of_different_shapes() -> None:
    """Ranks with meshes of other sizes, orders or numbers of ranks raise one error at once, for every source."""
    found = run(_other_meshes, 4)
    assert all(one == found[0] for one in found[1:])
    *said, making = found[0]
    wanted = ["Layout(dp=4, tp=1; ", "Layout(tp=2, dp=2; ", "needs 3 ranks", "Layout(dp=4, tp=1; "]
    assert all(text in one for text, one in zip(wanted, said[::3], strict=True))
    assert all(text in one for text, one in zip(wanted, said[1::3], strict=True))
    assert all(text in one for text, one in zip(wanted, said[2::3], strict=True))
    assert "rank 0 makes the mesh dp=2 x tp=2, and rank 1 dp=4 x tp=1" in making


def _saved_and_exchanged(rank: int, world: int, folder: str) -> list[str]:
    first, second = Layout({"dp": 2, "cp": world // 2}, batch="dp", t="cp"), Layout({"dp": world}, batch="dp")
    part = made().distribute(first, source="everywhere")
    save({"batch": part, "ids": part.ids}, checkpoint_id=folder)
    other = made(start=7).distribute(second, source="everywhere")
    state: dict[str, Any] = {"batch": other, "ids": torch.zeros_like(other.ids)}
    load(state, checkpoint_id=folder)
    assert torch.equal(state["ids"].full_tensor(), made().ids)
    found = state["batch"].whole()
    assert all(torch.equal(found.get(key), made().get(key)) for key in ("ids", "weight", "table", ("inner", "v")))
    calls: list[Any] = [part.all_reduce, part.all_gather, lambda: part.reduce(0)]
    return [_problem(call) for call in calls]


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
def test_checkpoints_and_transfers(world: int, tmp_path: Any) -> None:
    """A checkpoint of one layout is loaded with another; transfers between ranks refuse DTensors by name."""
    found = run(lambda rank, ranks: _saved_and_exchanged(rank, ranks, str(tmp_path)), world, timeout=60)
    for said in found:
        assert all("`ids` is a DTensor" in text and "`.local()`" in text for text in said)


def test_ranks_need_a_group() -> None:
    """Without a process group the layout says how many ranks it needs."""
    assert not dist.is_initialized()
    with pytest.raises(ArgumentError, match="needs 2 ranks, and no process group was started"):
        made().distribute(Layout({"dp": 2}, batch="dp"), source="everywhere")


class Holder(TensorClass):
    """An instance that may be over a lazy stack."""

    inner: Uneven
    w: Float32[Tensor, ""]


def test_an_instance_over_a_lazy_stack_is_written_beside_dtensors() -> None:
    """Here DTensor is imported, so each write looks for one, also in the members of a stack."""
    rows = lazy_stack([Uneven(x=torch.zeros(2)), Uneven(x=torch.zeros(3))])
    held = Holder(inner=rows, w=torch.zeros(2))
    held.inner = rows
    held.update({"inner": rows, "w": torch.ones(2)})
    assert held.set("w", held.w + 1).replace(inner=rows, w=held.w * 2).w.tolist() == [4.0, 4.0]
