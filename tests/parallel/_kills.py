"""Kills workers and drivers of maps at random, and compares the result with an undisturbed run.

python -m tests.parallel._kills workers 50 ray
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from tensorclass import TensorClassDataset
from tensorclass.parallel import DaskEngine, ProcessEngine, RayEngine, ThreadEngine
from tests.parallel._functions import Item, items

ROWS = 480
HOW: dict[str, Any] = {"batch_size": 4, "rows_per_shard": 8, "num_workers": 2, "seed": 1, "resume": True}


class Noted:
    """Takes its time, draws numbers, and writes down the processes that it runs in.

    Args:
        folder: for the numbers of the processes.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, batch: Any) -> Any:
        """The batch with random numbers added."""
        Path(self.folder, str(os.getpid())).touch()
        time.sleep(0.02)
        return batch.replace(x=batch.x + torch.rand(len(batch), 1))


@contextmanager
def cluster(name: str) -> Iterator[Any]:
    """Makes engines; those of Ray share a cluster of this machine, also from other processes."""
    if name == "ray":
        import ray

        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=40)
        address = ray.get_runtime_context().gcs_address
        yield lambda: RayEngine(address, retries=50, log_to_driver=False)
        ray.shutdown()
    else:
        kinds: dict[str, Any] = {"processes": ProcessEngine, "dask": DaskEngine}
        yield ThreadEngine if name == "threads" else lambda: kinds[name](retries=50)


def write_source(folder: Path) -> tuple[Any, Any]:
    """A dataset, and what a map makes of it."""
    with TensorClassDataset.create(folder / "source", Item, rows_per_shard=100) as writer:
        writer.append(items(ROWS))
    data = TensorClassDataset(folder / "source", Item)
    return data, data.map(Noted(str(folder)), out=folder / "whole", **HOW)[:]


def kill_workers(name: str, wanted: int, folder: Path, seed: int = 0) -> int:
    """Maps until so many workers were killed; how many were. Each map has all rows, once and in order."""
    data, expected = write_source(folder)
    chance, kills = random.Random(seed), [0]
    with cluster(name) as engine:
        while kills[0] < wanted:
            seen, out, over = folder / "seen", folder / "out", threading.Event()
            seen.mkdir()

            def kill(seen: Path = seen, over: threading.Event = over) -> None:
                while kills[0] < wanted and not over.wait(0.2 + chance.random()):
                    found = [int(one.name) for one in seen.iterdir() if int(one.name) != os.getpid()]
                    if found:
                        victim = chance.choice(found)
                        (seen / str(victim)).unlink()
                        with suppress(ProcessLookupError):
                            os.kill(victim, signal.SIGKILL)
                            kills[0] += 1

            killer = threading.Thread(target=kill)
            killer.start()
            try:
                found = data.map(Noted(str(seen)), out=out, engine=engine(), **HOW)
            finally:
                over.set()
                killer.join()
            check(found, expected)
            shutil.rmtree(seen)
            shutil.rmtree(out)
    return kills[0]


def check(found: Any, expected: Any) -> None:
    """All rows once and in order. A cluster may have run a task twice: the next writer removes what is not listed."""
    assert torch.equal(found[:].x, expected.x)
    assert torch.equal(found[:].label, expected.label)
    TensorClassDataset.create(found.path, Item, resume=True).close()
    names = [name for name in os.listdir(found.path) if name.endswith((".safetensors", ".tmp"))]
    assert len(names) == len(found.shards), names


def kill_drivers(name: str, wanted: int, folder: Path, seed: int = 0) -> int:
    """Kill the process that maps, and continue, until it was killed so often; a committed prefix meanwhile."""
    data, expected = write_source(folder)
    chance, kills, committed, out = random.Random(seed), 0, 0, folder / "out"
    with cluster(name) as engine:
        while kills < wanted:
            driver = multiprocessing.get_context("spawn").Process(
                target=data.map, args=(Noted(str(folder)),), kwargs={"out": out, "engine": engine(), **HOW}
            )
            driver.start()
            while driver.is_alive() and not (out / "manifest.json").exists():
                time.sleep(0.05)
            driver.join(chance.random() * 4)
            kills += driver.is_alive()
            driver.kill()
            driver.join()
            if (out / "manifest.json").exists():
                prefix = TensorClassDataset(out, Item)
                assert len(prefix) >= committed
                committed = len(prefix)
                assert torch.equal(prefix[:].x, expected.x[:committed])
                if committed == ROWS:
                    shutil.rmtree(out)
                    committed = 0
        check(data.map(Noted(str(folder)), out=out, engine=engine(), **HOW), expected)
    return kills


def main() -> None:
    """Kill, and say how often."""
    what, wanted, name, *seed = sys.argv[1:]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        kill = {"workers": kill_workers, "drivers": kill_drivers}[what]
        done = kill(name, int(wanted), Path(place), *map(int, seed))
    print(f"{name}: {done} {what} killed, all rows right, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    from tests.parallel._kills import main  # workers import the class of the function

    main()
