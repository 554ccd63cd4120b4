"""Maps of datasets over the ranks of a mesh: the rows of one process, on any mesh, and one error on all ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from tensorclass import TensorClass, TensorClassDataset
from tensorclass.errors import ArgumentError
from tensorclass.parallel import Layout
from tensorclass.typing import Float32, Int64
from tests.parallel._functions import Item, items
from tests.parallel._meshes import fake_mesh
from tests.parallel._ranks import run

TWO, FOUR, THREE = {"dp": 2}, {"dp": 2, "tp": 2}, {"tp": 1, "dp": 3}


class Noisy(TensorClass):
    label: Int64[Tensor, ""]
    noise: Float32[Tensor, ""]


def noisy(batch: Any) -> Noisy:
    """Random numbers beside the labels."""
    return Noisy(label=batch.label, noise=torch.rand(len(batch)))


def fails_late(batch: Any) -> Noisy:
    """Fails in the rows from 30."""
    if (batch.label >= 30).any():
        raise ValueError("late")
    return noisy(batch)


fails_late.__qualname__ = noisy.__qualname__  # a resuming call has a function of the same name


@pytest.fixture
def data(tmp_path: Path) -> TensorClassDataset[Item]:
    """Fifty-three rows."""
    with TensorClassDataset.create(tmp_path / "source", Item) as writer:
        writer.append(items(53))
    return TensorClassDataset(tmp_path / "source", Item)


def _problem(call: Any) -> str:
    try:
        call()
    except Exception as error:  # its text is compared
        return f"{type(error).__name__}: {error}"
    return "nothing"


def _mapped(data: Any, sizes: dict[str, int], folder: Path, workers: int, **how: Any) -> tuple[list[int], Any]:
    seen: list[int] = []

    def fn(batch: Any) -> Noisy:
        seen.extend(batch.label.tolist())
        return noisy(batch)

    fn.__qualname__ = "noisy"
    layout = Layout(sizes, batch="dp")
    new = data.map(fn, out=folder, batch_size=4, rows_per_shard=8, num_workers=workers, layout=layout, **how)
    return seen, (new[:].label.tolist(), new[:].noise.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [TWO, FOUR])
def test_rows_of_one_process(data: Any, tmp_path: Path, sizes: dict[str, int]) -> None:
    """Ranks share the parts; those of one place run the same; values and random numbers are those of one process."""
    alone = data.map(noisy, out=tmp_path / "alone", batch_size=4, rows_per_shard=8, num_workers=0)[:]
    world = 2 if sizes is TWO else 4
    found = run(lambda rank, _: _mapped(data, sizes, tmp_path / "out", 0), world, timeout=60)
    for _, (label, noise) in found:
        assert (label, noise) == (alone.label.tolist(), alone.noise.tolist())
    seen = [rows for rows, _ in found]
    assert seen[0] + seen[-1] != alone.label.tolist()
    assert sorted(seen[0] + seen[-1]) == alone.label.tolist()
    assert world == 2 or (seen[0], seen[2]) == (seen[1], seen[3])
    assert len([*(tmp_path / "out").glob("*.tc*")]) == len([*(tmp_path / "alone").glob("*.tc*")])


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(("before", "after"), [(TWO, THREE), (FOUR, TWO), (THREE, None), (None, FOUR)])
def test_another_mesh_resumes(data: Any, tmp_path: Path, before: Any, after: Any, workers: int) -> None:
    """A map that failed on one mesh is resumed exactly on another one, or in one process."""
    alone = data.map(noisy, out=tmp_path / "alone", batch_size=4, rows_per_shard=8, num_workers=0)[:]
    how: dict[str, Any] = {"out": tmp_path / "out", "batch_size": 4, "rows_per_shard": 8, "num_workers": workers}

    def body(sizes: Any, fn: Any, **more: Any) -> Any:
        layout = None if sizes is None else Layout(sizes, batch="dp")
        new = data.map(fn, **how, layout=layout, **more)[:]
        return new.label.tolist(), new.noise.tolist()

    failed = _on(before, lambda rank, _: _problem(lambda: body(before, fails_late)))
    assert {*failed} == {failed[0]}
    assert failed[0].startswith("ValueError: late")
    assert 8 <= len(TensorClassDataset(tmp_path / "out")) < 53
    for new in _on(after, lambda rank, _: body(after, noisy, resume=True)):
        assert new == (alone.label.tolist(), alone.noise.tolist())


def _on(sizes: Any, body: Any) -> list[Any]:
    if sizes is None:
        return [body(0, 1)]
    return run(body, {2: 2, 4: 4, 3: 3}[torch.Size(sizes.values()).numel()], timeout=60)


def _wrong(data: Any, folder: Path, rank: int) -> list[str]:
    layout, late = Layout(TWO, batch="dp"), fails_late
    skipped = data.map(late, out=folder / "skip", batch_size=1, errors="skip", num_workers=0, layout=layout)
    assert skipped[:].label.tolist() == list(range(30))
    assert len(TensorClassDataset(folder / "skip" / "failed")) == 23
    assert len(data.filter(lambda batch: batch.label < 7, out=folder / "few", num_workers=0, layout=layout)) == 7
    calls: list[Any] = [
        lambda: data.map(noisy, out=folder / "skip", num_workers=0, layout=layout),
        lambda: data.map(noisy, out=folder / "a", batch_size=4 + rank, num_workers=0, layout=layout),
        lambda: data.map(noisy, out=folder / "b", num_workers=0, layout=Layout(TWO, batch="dp" if rank else None)),
        lambda: data.map(
            lambda b: 3 if rank else noisy(b), out=folder / "c", batch_size=9, num_workers=0, layout=layout
        ),
        lambda: data.map(noisy, out=folder / "d", num_workers=0, layout=Layout({"dp": 3}, batch="dp")),
    ]
    found = [_problem(call) for call in calls]
    dist.barrier()
    return found


def test_wrong_maps_fail_on_all_ranks(data: Any, tmp_path: Path) -> None:
    """Every rank raises the error of the first one that fails; skipped rows and filters are those of one process."""
    one, two = run(lambda rank, _: _wrong(data, tmp_path, rank), timeout=60)
    assert one == two
    there, size, layout, result, ranks = one
    assert there.startswith("FileExistsError")
    assert "batch_size=4" in size
    assert "all ranks of a mesh make the same call" in size
    assert "batch=dp" in layout
    assert result.startswith("ArgumentError")
    assert "got a int" in result
    assert "needs 3 ranks, and the process group has 2" in ranks


def test_a_map_needs_ranks(data: Any, tmp_path: Path) -> None:
    """Without a process group, with a fake one, and with another object the error says so."""
    with pytest.raises(ArgumentError, match="no process group was started"):
        data.map(noisy, out=tmp_path / "out", layout=Layout(TWO, batch="dp"))
    with pytest.raises(ArgumentError, match=r"takes a tensorclass\.parallel\.Layout, got a dict"):
        data.map(noisy, out=tmp_path / "out", layout={})
    with fake_mesh(0, dp=2), pytest.raises(RuntimeError, match="start a real one"):
        data.map(noisy, out=tmp_path / "out", layout=Layout(TWO, batch="dp"))


def _in_memory(rank: int, sizes: dict[str, int]) -> list[Any]:
    layout, batch, seen = Layout(sizes, batch="dp"), items(9), list[int]()

    def fn(part: Any) -> Noisy:
        seen.append(len(part))
        return noisy(part)

    def of(seed: int) -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    alone = batch.map(noisy, num_workers=0, chunksize=2, generator=of(3))
    spread = batch.map(fn, num_workers=0, chunksize=2, generator=of(3 + rank), layout=layout)
    workers = batch.map(noisy, num_workers=2, chunksize=2, generator=of(3), layout=layout)
    out = Noisy(label=torch.zeros(9, dtype=torch.int64), noise=torch.zeros(9))
    batch.map(noisy, num_workers=0, chunksize=2, generator=of(3), layout=layout, out=out)
    assert all(bool((one == alone).all()) for one in (spread, workers, out))
    placed = batch.distribute(layout, source="everywhere")
    calls: list[Any] = [
        lambda: batch.map(fails_late if rank else noisy, num_workers=0, layout=layout),
        lambda: batch[rank:].map(noisy, num_workers=0, layout=layout),
        lambda: batch.map(noisy, num_workers=0, layout=layout if rank else Layout({"dp": 5}, batch="dp")),
        lambda: batch.map(noisy if rank else 3, num_workers=0, layout=layout),
        lambda: placed.map(noisy, num_workers=0, layout=layout),
        lambda: placed.map(noisy, num_workers=1),
    ]
    batch.label += 30
    return [seen, *map(_problem, calls)]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [TWO, FOUR])
def test_batches_in_memory(sizes: dict[str, int]) -> None:
    """Ranks share the chunks of a batch and get all results; a wrong call or chunk of one rank is an error on all."""
    found = run(lambda rank, _: _in_memory(rank, sizes), 2 if sizes is TWO else 4, timeout=60)
    half = len(found) // 2
    assert [one[0] for one in found] == [[2, 2, 1]] * half + [[2, 2]] * half
    assert all(one[1:] == found[0][1:] for one in found)
    texts = found[0][1:]
    wanted = ["ValueError: late", "all ranks make the same call", "needs 5 ranks", "takes a function of a container"]
    assert all(want in text for want, text in zip(wanted, texts, strict=False))
    assert all("`x` is a DTensor; map `batch.local()`" in text for text in texts[4:])


def test_layouts_of_maps_in_memory() -> None:
    """Another object than a layout is named, and a layout needs a process group."""
    with pytest.raises(ArgumentError, match=r"layout= takes a tensorclass\.parallel\.Layout, got a dict"):
        items(3).map(noisy, layout=TWO)
    with pytest.raises(ArgumentError, match="needs 2 ranks, and no process group was started"):
        items(3).map(noisy, layout=Layout(TWO, batch="dp"))


def _one_wrong(data: Any, folder: Path, rank: int) -> list[str]:
    good, one, kept = Layout(TWO, batch="dp"), rank == 1, {"num_workers": 0}
    wrong = Layout({"dp": 3}, batch="dp") if one else good
    calls: list[Any] = [
        lambda: data.map(noisy, out=folder / "a", layout=wrong, **kept),
        lambda: data.filter(len, out=folder / "b", layout=wrong, **kept),
        lambda: data.sort_by("label", out=folder / "c", layout=wrong, **kept),
        lambda: data.map(3 if one else noisy, out=folder / "d", layout=good, **kept),
        lambda: data.map(noisy, out=folder / "e", layout=good, num_workers=-1 if one else 0),
        lambda: data.map(noisy, out=3 if one else folder / "f", layout=good, **kept),
        lambda: data.shuffle(out=folder / "g", layout=good, batch_size=0 if one else 4, **kept),
        lambda: data.sort_by("level" if one else "label", out=folder / "h", layout=good, **kept),
        lambda: data.sample(99 if one else 5, out=folder / "i", layout=good, **kept),
        lambda: data.group_by("level" if one else "label", out=folder / "j", layout=good, **kept),
        lambda: data.repartition(9, out=data.paths[0] if one else folder / "k", layout=good, **kept),
        lambda: data.loader(4, layout=wrong),
        lambda: data.loader(4, layout=Layout(TWO, batch=None if one else "dp")),
        lambda: data.loader(4, layout=Layout({"tp": 2} if one else TWO)),
        lambda: data.batches(4, layout=good, shuffle=True, seed=rank),
        lambda: data.loader(4 + rank, layout=good),
        lambda: data.loader(4, layout=good, drop_last=one),
    ]
    return [_problem(call) for call in calls]


def _wrong_kinds(rank: int, data: Any, folder: Path) -> list[str]:
    layout: Any = Layout(TWO, batch="dp") if rank == 0 else "dp"
    batch, source = items(8), "everywhere" if rank == 0 else 1.5
    calls = [
        lambda: batch.distribute(layout, source="everywhere"),
        lambda: batch.distribute(Layout(TWO, batch="dp"), source=source),
        lambda: batch.map(noisy, num_workers=0, layout=layout),
        lambda: data.map(noisy, out=folder / "kinds", num_workers=0, layout=layout),
        lambda: data.loader(4, layout=layout),
        lambda: data.batches(4, layout=layout),
    ]
    places: dict[str, Any] = {} if rank == 0 else {"rank": 0, "world_size": 2}
    calls += [lambda: data.loader(4, layout=Layout(TWO, batch="dp"), **places)]
    return [_problem(call) for call in calls]


def test_a_value_of_another_kind_is_heard_by_all(data: Any, tmp_path: Path) -> None:
    """A rank that gives text for a layout, or a number for a source, makes the call an error on every rank."""
    for said in run(lambda rank, _: _wrong_kinds(rank, data, tmp_path), timeout=20):
        assert ["a Layout, got a str" in said[0], "source=1.5" in said[1]] == [True, True]
        assert [text for text in said[2:-1] if "parallel.Layout, got a str" not in text] == []
        assert "leave out rank= and world_size=" in said[-1]


def test_one_wrong_rank_is_heard_by_all(data: Any, tmp_path: Path) -> None:
    """What only one rank gets wrong, before ranks share work, is an error on every rank at once: nobody waits."""
    one, two = run(lambda rank, _: _one_wrong(data, tmp_path, rank), timeout=60)
    assert one == two
    assert not [text for text in one if "Timeout" in text or "WorkerError" in text or text == "nothing"]
    wanted = ["needs 3 ranks"] * 3 + [
        "takes a function",
        "num_workers",
        "path of a folder",
        "batch_size",
        "level",
        "99",
    ]
    wanted += ["level", "another folder", "needs 3 ranks", "batch=dp", "Layout(tp=2)", "seed=0", "size=5", "drop_last"]
    assert [(want, text) for want, text in zip(wanted, one, strict=True) if want not in text] == []
