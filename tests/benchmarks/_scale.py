"""Workers and ranks: `python -m tests.benchmarks._scale [--scale 1] [--rounds 5] [--only NAME]`.

Each work is done by the package and by hand, in turns, and the median of the ratios counts. By hand means
`multiprocessing.Pool`, `ray.remote`, `Client.submit`, `torch.distributed.send` and a `DataLoader` over rows of dicts.
The CPU time is that of the driver, without what an engine takes to start; transfers and two workers are in wall time.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import shutil
import statistics
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from tensorclass import TensorClass, TensorClassDataset, TensorDict
from tensorclass.io._optional import optional
from tensorclass.parallel import DaskEngine
from tensorclass.typing import Float32, Int64, UInt8
from tests.parallel._ranks import run

CHUNK = 4
Pair = tuple[float, float]
"""What the package took, and what it took by hand."""


class Row(TensorClass):
    """A row of a dataset."""

    x: Float32[Tensor, "16"]
    label: Int64[Tensor, ""]


class Large(TensorClass):
    """A row of a dataset that is large."""

    x: UInt8[Tensor, "4096"]


class Work(NamedTuple):
    """What is measured, round by round, and the limit of ours / by hand."""

    name: str
    pairs: Callable[[float, int], Iterator[Pair]]
    limit: float
    unit: str = "us CPU a task"


def rows(count: int) -> Row:
    """Rows that say which they are."""
    labels = torch.arange(count)
    return Row(labels[:, None].float().expand(count, 16).contiguous(), labels)


def same(batch: Any) -> Any:
    """As it is."""
    return batch


def cpu(action: Callable[[], Any]) -> float:
    """Microseconds of this process, its threads included."""
    begin = time.process_time()
    action()
    return (time.process_time() - begin) * 1e6


# ---- the driver ------------------------------------------------------------------------------------------------------


def _chunk(data: Any, begin: int) -> dict[str, Any]:
    """What a worker does by hand."""
    return {name: array[begin : begin + CHUNK] for name, array in data.items()}


def _driver(by_hand: Callable[[Any, list[int]], list[Any]], engine: Callable[[], Any], tasks: int) -> Pair:
    data = rows(CHUNK * tasks)
    arrays = {"x": data.x.numpy(), "label": data.label.numpy()}
    begins = list(range(0, len(data), CHUNK))

    def hand() -> None:
        found = by_hand(arrays, begins)
        assert len(np.concatenate([part["x"] for part in found])) == len(data)

    def ours(part: Any = data) -> None:
        assert len(part.map(same, num_workers=2, chunksize=CHUNK, engine=engine())) == len(part)

    start = cpu(lambda: ours(data[: 2 * CHUNK]))
    return (cpu(ours) - start) / tasks, cpu(hand) / tasks


def _in_turn(submit: Callable[[int], Any], get: Callable[[Any], Any], begins: list[int]) -> list[Any]:
    """Eight tasks at once."""
    waiting: list[Any] = []
    found = []
    for begin in begins:
        waiting.append(submit(begin))
        if len(waiting) > 8:
            found.append(get(waiting.pop(0)))
    return [*found, *map(get, waiting)]


_HELD: dict[str, Any] = {}


def _held_chunk(begin: int) -> dict[str, Any]:
    return _chunk(_HELD, begin)


def processes(scale: float, rounds: int) -> Iterator[Pair]:
    """Forked workers, and a pool."""

    def hand(arrays: Any, begins: list[int]) -> list[Any]:
        _HELD.update(arrays)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            return list(pool.imap(_held_chunk, begins))

    for _ in range(rounds):
        yield _driver(hand, lambda: "processes", max(16, int(1000 * scale)))


def ray(scale: float, rounds: int) -> Iterator[Pair]:
    """A Ray that runs."""
    package = optional("ray", "The benchmark", "ray")
    package.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    call = package.remote(_chunk)

    def hand(arrays: Any, begins: list[int]) -> list[Any]:
        data = package.put(arrays)
        return _in_turn(lambda begin: call.remote(data, begin), package.get, begins)

    for _ in range(rounds):
        yield _driver(hand, lambda: "ray", max(16, int(300 * scale)))
    package.shutdown()


def dask(scale: float, rounds: int) -> Iterator[Pair]:
    """A client of Dask."""
    package = optional("distributed", "The benchmark", "dask")
    how = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": "CRITICAL"}
    with package.LocalCluster(n_workers=2, **how) as cluster, package.Client(cluster) as client:

        def hand(arrays: Any, begins: list[int]) -> list[Any]:
            data = client.scatter(arrays, hash=False)
            return _in_turn(
                lambda begin: client.submit(_chunk, data, begin, pure=False), lambda one: one.result(), begins
            )

        for _ in range(rounds):
            yield _driver(hand, lambda: DaskEngine(client), max(16, int(200 * scale)))


# ---- datasets --------------------------------------------------------------------------------------------------------


@contextmanager
def folder() -> Iterator[Path]:
    """A folder in memory, where there is one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


def _numpy_shard(task: tuple[str, str, int]) -> str:
    source, out, number = task
    found = np.load(source, mmap_mode="r")[number * CHUNK : number * CHUNK + CHUNK]
    path = Path(out, f"{number:06d}.npy")
    np.save(path, found)
    return str(path)


def dataset(scale: float, rounds: int) -> Iterator[Pair]:
    """A dataset to a dataset of many shards; by hand a pool that writes files."""
    tasks = max(16, int(500 * scale))
    with folder() as place:
        with TensorClassDataset.create(place / "source", Row) as writer:
            writer.append(rows(CHUNK * tasks))
        data = TensorClassDataset(place / "source", Row)
        np.save(place / "source.npy", rows(CHUNK * tasks).x.numpy())
        jobs = [(str(place / "source.npy"), str(place / "hand"), number) for number in range(tasks)]

        def ours(per: int) -> None:
            data.map(same, out=place / "out", batch_size=CHUNK, rows_per_shard=per, num_workers=2)
            shutil.rmtree(place / "out")

        def hand() -> None:
            (place / "hand").mkdir()
            with multiprocessing.get_context("fork").Pool(2) as pool:
                assert len(list(pool.imap(_numpy_shard, jobs))) == tasks
            shutil.rmtree(place / "hand")

        for _ in range(rounds):
            start = cpu(lambda: ours(len(data) // 2))
            yield (cpu(lambda: ours(CHUNK)) - start) / tasks, cpu(hand) / tasks


def _anonymous() -> float:
    """Megabytes of this process that no file holds."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024


def _grown(pipe: Any, place: Path) -> None:
    data, before, most, ended = TensorClassDataset(place / "source", Large), _anonymous(), [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.01):
            most.append(_anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    data.map(same, out=place / "out", num_workers=2)
    ended.set()
    watcher.join()
    pipe.send(max(most) - before)


def memory(scale: float, rounds: int) -> Iterator[Pair]:
    """Growth of the driver's anonymous memory in MB, and what it may be: a part of 20 of the dataset, and 16."""
    count = max(64, int(250_000 * scale))
    with folder() as place:
        with TensorClassDataset.create(place / "source", Large, rows_per_shard=max(16, count // 25)) as writer:
            for begin in range(0, count, 10_000):
                writer.append(Large(torch.full((min(10_000, count - begin), 4096), 7, dtype=torch.uint8)))
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(target=_grown, args=(there, place))
        process.start()
        yield here.recv(), count * 4096 / 20 / 2**20 + 16
        process.join()


class DictRows(Dataset[Any]):
    """Rows of dicts, fetched for a batch at once."""

    def __init__(self, data: Row) -> None:
        self.x, self.label = data.x, data.label

    def __len__(self) -> int:
        return len(self.label)

    def __getitems__(self, numbers: list[int]) -> list[dict[str, Tensor]]:
        """Some rows."""
        x, label = self.x[numbers], self.label[numbers]
        return [{"x": one, "label": two} for one, two in zip(x, label, strict=True)]


def loader(workers: int, scale: float, rounds: int) -> Iterator[Pair]:
    """An epoch of batches of 256."""
    count = max(600, int(100_000 * scale))
    how: dict[str, Any] = {"num_workers": workers, "batch_size": 256, "shuffle": True}
    if workers:
        how["multiprocessing_context"] = "fork"
    with folder() as place:
        with TensorClassDataset.create(place / "source", Row, rows_per_shard=count // 4) as writer:
            writer.append(rows(count))
        data, plain = TensorClassDataset(place / "source", Row), DictRows(rows(count))
        for _ in range(rounds):
            yield (
                cpu(lambda: list(data.loader(**how))) / count,
                cpu(lambda: list(DataLoader(plain, **how))) / count,
            )


# ---- two workers -----------------------------------------------------------------------------------------------------


def burn(batch: Any) -> Any:
    """Takes a while."""
    x = batch["x"]
    for _ in range(40):
        x = torch.bmm(x, x) * 1e-3
    return batch["label"] + 0


def _burn_at(place: int) -> Any:
    return burn(_HELD["batch"][place : place + 1]).numpy()


def two_workers(scale: float, rounds: int) -> Iterator[Pair]:
    """Wall time with two workers over that with one; by hand with a pool of processes. Starting them is included."""
    count = max(4, int(60 * scale))
    batch = TensorDict(x=torch.randn(count, 256, 256), label=torch.arange(count), batch_size=[count])
    _HELD["batch"] = batch

    def hand(workers: int) -> None:
        with multiprocessing.get_context("fork").Pool(workers) as pool:
            assert len(list(pool.imap(_burn_at, range(count)))) == count

    def ours(workers: int) -> None:
        assert len(batch.map(burn, num_workers=workers, chunksize=1)) == count

    def wall(action: Callable[[int], None], workers: int) -> float:
        begin = time.perf_counter()
        action(workers)
        return time.perf_counter() - begin

    for _ in range(rounds):
        one, one_hand, two, two_hand = wall(ours, 1), wall(hand, 1), wall(ours, 2), wall(hand, 2)
        yield two / one, two_hand / one_hand


# ---- between ranks ---------------------------------------------------------------------------------------------------


def transfers(fields: int, cells: int, scale: float, rounds: int) -> Iterator[Pair]:
    """A batch there and back; by hand one tensor of as many cells."""
    made: Any = type("Many", (TensorClass,), {"__annotations__": {f"f{i}": Tensor for i in range(fields)}})
    times = max(2, int(min(200, 4e6 / (fields * cells)) * scale))

    def body(rank: int, world: int) -> list[Pair]:
        batch = made(**{f"f{i}": torch.randn(cells) for i in range(fields)}, batch_size=[])
        flat, other = torch.randn(fields * cells), 1 - rank

        def there_and_back(send: Callable[[int], Any], receive: Callable[[int], Any]) -> float:
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(times):
                for action in (send, receive) if rank == 0 else (receive, send):
                    action(other)
            return (time.perf_counter() - begin) / times * 1e6

        found = []
        for _ in range(rounds + 1):
            found.append(
                (
                    there_and_back(batch.send, batch.recv),
                    there_and_back(lambda to: dist.send(flat, to), lambda at: dist.recv(flat, at)),
                )
            )
        return found[1:]

    yield from run(body)[0]


WORKS = (
    Work("processes", processes, 1.5),
    Work("ray", ray, 1.5),
    Work("dask", dask, 1.5),
    Work("dataset, processes", dataset, 1.5),
    Work("memory", memory, 1.0, "MB, and the limit"),
    Work("loader", lambda scale, rounds: loader(0, scale, rounds), 1.2, "us CPU a row"),
    Work("loader, two workers", lambda scale, rounds: loader(2, scale, rounds), 1.2, "us CPU a row"),
    Work("two workers", two_workers, 1.15, "of the time of one"),
    Work("50 small fields", lambda scale, rounds: transfers(50, 16, scale, rounds), 3.0, "us there and back"),
    Work("50 fields of 16,000", lambda scale, rounds: transfers(50, 16_000, scale, rounds), 1.2, "us there and back"),
)


def line(work: Work, pairs: list[Pair]) -> str:
    """The medians of both, and of their ratio."""
    ours, hand = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median([one / two for one, two in pairs])
    verdict = "" if ratio <= work.limit else "   MISS"
    return f"{work.name:22} {ours:9.2f}  by hand {hand:9.2f}  {work.unit:18} {ratio:5.2f} (≤ {work.limit:g}){verdict}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks._scale", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for work in WORKS:
        if arguments.only in work.name:
            gc.collect()
            print(line(work, list(work.pairs(arguments.scale, arguments.rounds))), flush=True)


if __name__ == "__main__":
    from tests.benchmarks._scale import main  # workers import the class of the rows

    main()
