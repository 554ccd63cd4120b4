"""Datasets on a slow server: `python -m tests.benchmarks._far [--rows 6000] [--delay 0.05]`.

Images uint8 [3, 32, 32] with a label in files of 100 rows, on a server of this machine that answers each request after
some time. Each candidate reads an epoch in batches of 256 twice, each time through another server, so that no cache
knows it; the second counts, which imports nothing. A peer that is not installed is left out.
"""

from __future__ import annotations

import argparse
import io
import random
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tensorclass import TensorClass, TensorClassDataset
from tensorclass.io._optional import optional
from tensorclass.typing import Int64, UInt8
from tests.benchmarks._datasets import has
from tests.io._server import serving

BATCH, PER_FILE, ROW = 256, 100, 3 * 32 * 32


class Image(TensorClass):
    """A row."""

    image: UInt8[Tensor, "3 32 32"]
    label: Int64[Tensor, ""]


class Epoch(NamedTuple):
    """What a candidate took."""

    first: float
    """Seconds until the first batch."""
    whole: float
    requests: int
    labels: list[int]


def write(folder: Path, rows: int) -> None:
    """The same rows as a dataset, and as Parquet files."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (rows, 3, 32, 32), dtype=torch.uint8, generator=generator)
    batch = Image(pixels, torch.arange(rows))
    with TensorClassDataset.create(folder / "ours", Image, rows_per_shard=PER_FILE) as writer:
        writer.append(batch)
    pa, parquet = [optional(name, "The benchmark", "bench") for name in ("pyarrow", "pyarrow.parquet")]
    for number, part in enumerate(batch.split(PER_FILE)):
        image = pa.FixedSizeListArray.from_arrays(pa.array(part.image.numpy().reshape(-1)), ROW)
        table = pa.table({"image": image, "label": pa.array(part.label.numpy())})
        parquet.write_table(table, folder / f"{number}.parquet", compression="none")


def ours(shuffle: Any, url: str, files: list[str]) -> Iterator[Any]:
    """Batches of rows in a random order."""
    for batch in TensorClassDataset(f"{url}/ours", Image).batches(BATCH, shuffle=shuffle, seed=0):
        yield batch.label.tolist()


def huggingface(url: str, files: list[str]) -> Iterator[Any]:
    """A stream of rows, shuffled in a buffer of 1,000."""
    package = optional("datasets", "The benchmark", "bench")
    package.disable_progress_bars()
    data = package.load_dataset("parquet", data_files={"train": files}, split="train", streaming=True)
    for batch in data.shuffle(seed=0, buffer_size=1000).with_format("numpy").iter(batch_size=BATCH):
        yield list(batch["label"])


def torchdata(url: str, files: list[str]) -> Iterator[Any]:
    """Whole files in a random order, eight at a time."""
    nodes, fsspec = (optional(name, "The benchmark", "bench") for name in ("torchdata.nodes", "fsspec"))
    parquet, store = optional("pyarrow.parquet", "The benchmark", "bench"), fsspec.filesystem("http")

    def fetch(file: str) -> list[Any]:
        table = parquet.read_table(io.BytesIO(store.cat_file(file)))
        pixels = torch.tensor(table["image"].combine_chunks().flatten().to_numpy()).view(-1, 3, 32, 32)
        return list(zip(pixels, table["label"].to_pylist(), strict=True))

    order = random.Random(0).sample(files, len(files))
    rows = nodes.Unbatcher(nodes.ParallelMapper(nodes.IterableWrapper(order), fetch, num_workers=8, method="thread"))
    for batch in nodes.Loader(nodes.Batcher(rows, BATCH, drop_last=False)):
        torch.stack([pixels for pixels, _ in batch])
        yield [label for _, label in batch]


def candidates() -> dict[str, Callable[[str, list[str]], Iterator[Any]]]:
    """All that are installed."""
    found: dict[str, Any] = {"ours, shuffled": partial(ours, True), "ours, blocks": partial(ours, "blocks")}
    peers = {"datasets": huggingface, "torchdata": torchdata}
    return {**found, **{name: peer for name, peer in peers.items() if has(name)}}


def epoch(read: Callable[[str, list[str]], Iterator[Any]], folder: Path, delay: float) -> Epoch:
    """Read all rows through a new server."""
    with serving(folder) as server:
        server.delay = delay
        files = [f"{server.url}/{path.name}" for path in sorted(folder.glob("*.parquet"))]
        begin, times, labels = time.perf_counter(), list[float](), list[int]()
        for batch in read(server.url, files):
            times.append(time.perf_counter() - begin)
            labels += batch
        return Epoch(times[0], time.perf_counter() - begin, len(server.requests), labels)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks._far", description=__doc__)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--delay", type=float, default=0.05)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), arguments.rows)
        for name, read in candidates().items():
            epoch(read, Path(folder), 0.0)
            found = epoch(read, Path(folder), arguments.delay)
            print(f"{name:16} first {found.first:6.2f} s  epoch {found.whole:6.2f} s  {found.requests} requests")


if __name__ == "__main__":
    main()
