"""The kill matrix: rows of a mapped dataset that are lost, doubled or wrong after kills at random places.

python -m tests.benchmarks._kills processes 50
python -m tests.benchmarks._kills ray 10
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
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tensorclass import TensorClass, TensorClassDataset
from tensorclass.typing import Float32, Int64


class Row(TensorClass):
    """A number and a value that says it."""

    label: Int64[Tensor, ""]
    x: Float32[Tensor, "16"]


class Dying:
    """Doubles the values; kills its process once at each of some batches."""

    def __init__(self, folder: str, at: frozenset[int]) -> None:
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


def main(engine: str, kills: int) -> None:
    """Workers are killed, then drivers."""
    count, chance = max(400, 8 * kills), random.Random(0)
    folder = Path(tempfile.mkdtemp())
    with TensorClassDataset.create(folder / "source", Row, rows_per_shard=100) as writer:
        labels = torch.arange(count)
        writer.append(Row(labels, labels[:, None].expand(count, 16).float()))
    data = TensorClassDataset(folder / "source", Row)
    how: dict[str, Any] = {"batch_size": 4, "rows_per_shard": 4, "num_workers": 2, "engine": engine}
    if engine != "threads":
        (folder / "marks").mkdir()
        at = frozenset(chance.sample(range(0, count, 4), kills))
        begin = time.monotonic()
        data.map(Dying(str(folder / "marks"), at), out=folder / "workers", **how)
        done = len(list((folder / "marks").iterdir()))
        print(engine, "workers killed", done, "lost, doubled, wrong", judge(folder / "workers", count), end=" ")
        print(f"{time.monotonic() - begin:.1f} s", flush=True)
    if engine not in ("threads", "processes"):
        return
    calm = Dying(str(folder), frozenset())
    for _ in range(kills):
        driver = multiprocessing.get_context("fork").Process(
            target=data.map, args=(calm,), kwargs={"out": folder / "drivers", "resume": True, **how}
        )
        driver.start()
        driver.join(0.02 + chance.random() * 0.15)
        driver.kill()
        driver.join()
    data.map(calm, out=folder / "drivers", resume=True, **how)
    print(engine, "drivers killed", kills, "lost, doubled, wrong", judge(folder / "drivers", count), flush=True)


if __name__ == "__main__":
    from tests.benchmarks._kills import main  # workers import the class of the rows

    main(sys.argv[1], int(sys.argv[2]))
