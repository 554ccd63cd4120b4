"""Files: `python -m tests.benchmarks._files [--scale 0.1] [--rounds 9] [--folder PATH]`.

Each candidate saves and opens the same tensors, in turns; the median of the thread CPU time counts. What is opened is
mapped, and nothing of the payload is read. A folder in memory (the default where there is one) leaves out the disk.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensordict
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tensorclass import TensorDict, load, save

MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Work:
    """One set of tensors, and what our time may be at most, as a multiple of that of others."""

    name: str
    tensors: dict[str, Tensor]
    save_targets: dict[str, float]
    open_targets: dict[str, float]


def works(scale: float) -> list[Work]:
    """5,000 tensors of 1 KiB, and 200 that make up 1 GB; `scale` makes them fewer and smaller."""
    many = {f"k{i:04d}": torch.randn(256) for i in range(max(int(5000 * scale), 2))}
    large = {f"k{i:03d}": torch.randn(max(int(1_250_000 * scale), 2)) for i in range(200)}
    return [
        Work("many", many, {"safetensors": 0.6, "anchor memmap": 0.2}, {"safetensors": 0.5, "anchor memmap": 0.5}),
        Work("large", large, {"safetensors": 1.1}, {"anchor consolidated": 1.5}),
    ]


def candidates(tensors: dict[str, Tensor], folder: Path) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """How each saves and opens."""
    ours, theirs = TensorDict(tensors), tensordict.TensorDict(tensors)
    path = folder / "ours.safetensors"
    other, summed, mapped, block = folder / "st.safetensors", folder / "sums.safetensors", folder / "m", folder / "c"
    return {
        "ours": (lambda: save(ours, path), lambda: load(path)),
        "ours, checksums": (lambda: save(ours, summed, checksums=True), lambda: load(summed)),
        "safetensors": (lambda: save_file(tensors, other), lambda: load_file(other)),
        "ours, a file of safetensors": (lambda: None, lambda: load(other)),
        "anchor memmap": (lambda: theirs.memmap(mapped), lambda: tensordict.TensorDict.load_memmap(mapped)),
        "anchor consolidated": (
            lambda: theirs.consolidate(block),
            lambda: tensordict.TensorDict.from_consolidated(block),
        ),
    }


def measure(work: Work, folder: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """Milliseconds of each candidate's save and open."""
    times: dict[str, tuple[list[float], list[float]]] = {}
    for _ in range(rounds):
        for name, actions in candidates(work.tensors, folder).items():
            for action, found in zip(actions, times.setdefault(name, ([], [])), strict=True):
                gc.collect()
                gc.disable()
                start = time.thread_time()
                result = action()
                found.append((time.thread_time() - start) * 1e3)
                gc.enable()
                del result
    return {name: (statistics.median(a), statistics.median(b)) for name, (a, b) in times.items()}


def table(work: Work, found: dict[str, tuple[float, float]]) -> str:
    """One line for each candidate, and one for each target."""
    lines = [f"{work.name}: {len(work.tensors)} tensors of {next(iter(work.tensors.values())).nbytes} bytes, ms CPU"]
    lines += [f"  {name:28} save {a:9.2f}   open {b:9.2f}" for name, (a, b) in found.items()]
    for place, targets in enumerate((work.save_targets, work.open_targets)):
        for name, limit in targets.items():
            ratio = found["ours"][place] / found[name][place]
            verdict = "" if ratio <= limit else "   MISS"
            lines.append(f"  {('save', 'open')[place]} over {name}: {ratio:.2f} (≤ {limit:g}){verdict}")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks._files", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", type=Path, default=MEMORY if MEMORY.is_dir() else None)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of the anchor
    for work in works(arguments.scale):
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            print(table(work, measure(work, Path(folder), arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
