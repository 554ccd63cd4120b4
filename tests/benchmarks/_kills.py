"""The kill matrix: rows of a mapped dataset that are lost, doubled or wrong after kills at random places.

python -m tests.benchmarks._kills processes 50
python -m tests.benchmarks._kills ray 50
python -m tests.benchmarks._kills dask 50 drivers
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tensorclass import TensorClass, TensorClassDataset
from tensorclass.io._optional import optional
from tensorclass.parallel import DaskEngine, RayEngine
from tensorclass.typing import Float32, Int64

CLUSTERS = ("ray", "dask")


class Row(TensorClass):
    """A number and a value that says it."""

    label: Int64[Tensor, ""]
    x: Float32[Tensor, "16"]


class Dying:
    """Doubles the values; kills its process once at each of some batches."""

    def __init__(self, folder: str, at: frozenset[int] = frozenset()) -> None:
        self.folder, self.at = folder, at

    def __call__(self, batch: Any) -> Any:
        """One batch."""
        first = int(batch.label[0])
        mark = Path(self.folder, str(first))
        time.sleep(0.002)
        if first in self.at and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return batch.replace(x=batch.x * 2)


def judge(out: Path, count: int) -> tuple[int, int, int]:
    """Rows lost, doubled, and wrong or out of order."""
    found = TensorClassDataset(out, Row)[:]
    numbers = Counter(found.label.tolist())
    lost = sum(number not in numbers for number in range(count))
    doubled = sum(times - 1 for times in numbers.values())
    right = (found.x == 2 * found.label[:, None].float()).all(1)
    return lost, doubled, int((~right).sum()) + int(found.label.tolist() != sorted(found.label.tolist()))


@contextmanager
def cluster(engine: str) -> Iterator[str]:
    """The address of a cluster of two workers, which outlives the drivers; empty for engines without."""
    context = multiprocessing.get_context("forkserver")  # whose processes start quickly
    context.set_forkserver_preload(["tests.benchmarks._kills", "ray"])
    if engine == "ray":
        node: Any = optional("ray.cluster_utils", "Kills of Ray", "ray").Cluster(
            initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False}
        )
        yield node.address
        node.shutdown()
    elif engine == "dask":
        optional("dask", "Kills of Dask", "dask").config.set(
            {
                "distributed.worker.multiprocessing-method": "forkserver",
                "distributed.comm.timeouts.connect": "300s",
                "distributed.deploy.lost-worker-timeout": "300s",  # by default a worker that takes longer is given up
            }
        )
        context.set_forkserver_preload(["tests.benchmarks._kills", "distributed"])
        forkserver.ensure_running()  # with this list, not with that of Dask
        made = optional("distributed", "Kills of Dask", "dask").LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL"
        )
        yield made.scheduler_address
        made.close()
    else:
        yield ""


def mapped(data: Any, fn: Any, out: Path, engine: str, address: str) -> None:
    """A map that begins or goes on; the function of a driver."""
    made: Any = engine
    if engine == "ray":
        made = RayEngine(address=address, retries=-1, num_cpus=1)
    elif engine == "dask":
        made = DaskEngine(address=address)
    data.map(fn, out=out, resume=True, batch_size=4, rows_per_shard=4, num_workers=2, engine=made)


def workers(data: Any, folder: Path, kills: int, engine: str, address: str) -> None:
    """Workers are killed at random batches."""
    (folder / "marks").mkdir()
    at = frozenset(random.Random(0).sample(range(0, len(data), 4), kills))
    begin = time.monotonic()
    mapped(data, Dying(str(folder / "marks"), at), folder / "workers", engine, address)
    done = len(list((folder / "marks").iterdir()))
    print(engine, "workers killed", done, "lost, doubled, wrong", judge(folder / "workers", len(data)), end=" ")
    print(f"{time.monotonic() - begin:.1f} s", flush=True)


def drivers(data: Any, folder: Path, kills: int, engine: str, address: str) -> None:
    """Drivers are killed at random times, after they have written something."""
    chance, calm = random.Random(0), Dying(str(folder))
    context = multiprocessing.get_context("forkserver" if engine in CLUSTERS else "fork")
    for number in range(kills):
        args = (data, calm, folder / "drivers", engine, address)
        driver = context.Process(target=mapped, args=args)
        before = _shards(folder)
        driver.start()
        until = time.monotonic() + 60
        while driver.is_alive() and _shards(folder) <= before and time.monotonic() < until:
            time.sleep(0.02)
        driver.join(0.02 + chance.random() * 0.15)
        driver.kill()
        driver.join()
        if number % 10 == 9:
            print(engine, number + 1, "drivers killed,", _shards(folder), "shards", flush=True)
    mapped(data, calm, folder / "drivers", engine, address)
    print(engine, "drivers killed", kills, "lost, doubled, wrong", judge(folder / "drivers", len(data)), flush=True)


def _shards(folder: Path) -> int:
    try:
        return sum(name.endswith(".safetensors") for name in os.listdir(folder / "drivers"))
    except FileNotFoundError:
        return 0


def main(engine: str, kills: int, who: str = "workers, drivers") -> None:
    """Workers are killed, then drivers; or one of them."""
    folder = Path(tempfile.mkdtemp())
    count = max(400, (400 if engine in CLUSTERS else 100) * kills)
    with TensorClassDataset.create(folder / "source", Row, rows_per_shard=100) as writer:
        labels = torch.arange(count)
        writer.append(Row(labels, labels[:, None].expand(count, 16).float()))
    data = TensorClassDataset(folder / "source", Row)
    with cluster(engine) as address:
        if "workers" in who and engine != "threads":
            workers(data, folder, kills, engine, address)
        if "drivers" in who:
            drivers(data, folder, kills, engine, address)


if __name__ == "__main__":
    from tests.benchmarks._kills import main  # workers import the class of the rows

    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
