"""Tables: `python -m tests.benchmarks._tables [--rows 4000] [--rounds 5] [--folder PATH]`.

Each candidate writes images to a Parquet file and reads them, in turns; the median of the CPU time counts. pyarrow
writes and reads a table that exists and ends with one; ours and the anchor begin and end with a batch.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import tensordict
import torch
from torch import Tensor

from tensorclass import TensorClass
from tensorclass.typing import Int64, UInt8

TARGET = 1.2
"""What ours may take at most, as a multiple of pyarrow's own time."""


class Images(TensorClass):
    """What is written."""

    image: UInt8[Tensor, "64 64 3"]
    label: Int64[Tensor, ""]


def candidates(rows: int, folder: Path) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """How each writes and reads."""
    batch = Images(torch.randint(0, 255, (rows, 64, 64, 3), dtype=torch.uint8), torch.arange(rows))
    table, theirs = batch.to_arrow(), tensordict.TensorDict(batch.to_dict(), batch_size=[rows])
    a, b, c = (str(folder / f"{name}.parquet") for name in "abc")
    return {
        "ours": (lambda: batch.to_parquet(a), lambda: Images.from_parquet(a)),
        "pyarrow": (lambda: pq.write_table(table, b), lambda: pq.read_table(b)),
        "anchor": (
            lambda: pq.write_table(tensordict.to_arrow(theirs), c),
            lambda: tensordict.from_arrow(pq.read_table(c)),
        ),
    }


def measure(rows: int, folder: Path, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each candidate's write and read."""
    found: dict[str, list[list[float]]] = {}
    actions = candidates(rows, folder)
    for _ in range(rounds):
        for name, pair in actions.items():
            for action, times in zip(pair, found.setdefault(name, [[], []]), strict=True):
                start = time.process_time()
                action()
                times.append((time.process_time() - start) * 1e3)
    return {name: [statistics.median(times) for times in both] for name, both in found.items()}


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        found = measure(options.rows, Path(folder), options.rounds)
    for i, what in enumerate(("write", "read")):
        for name, times in found.items():
            ratio = found["ours"][i] / times[i]
            print(f"{what:6} {name:8} {times[i]:8.1f} ms   ours takes {ratio:.2f}x", end="")
            print(f" (at most {TARGET}x)" if name == "pyarrow" else "")


if __name__ == "__main__":
    main()
