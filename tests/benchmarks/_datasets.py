"""Datasets: `python -m tests.benchmarks._datasets [--scale 0.4] [--rounds 25] [--only NAME] [--folder PATH]`.

Images uint8 [3, 64, 64] with a label, 60,000 of them at scale 1, and ragged rows. Each candidate does the same work, in
turns; the median counts. A peer that is not installed is left out. Warm work is measured in CPU time of the thread and
belongs in a folder in memory; cold reads, writes and loaders in wall time on a disk.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensordict
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from tensorclass import Ragged, TensorClass, TensorClassDataset
from tensorclass.io._optional import optional
from tensorclass.typing import Int64, UInt8

IMAGES, WORDS, BATCH = 60_000, 1_000_000, 256
ROW = 3 * 64 * 64
BY_OFFSETS = "numpy values and offsets"
Action = Callable[[np.ndarray[Any, Any]], Any]


class Images(TensorClass):
    """What the image datasets hold."""

    image: UInt8[Tensor, "3 64 64"]
    label: Int64[Tensor, ""]


class Words(TensorClass):
    """What the ragged datasets hold."""

    tokens: Ragged[Tensor, "t"]


@dataclass(frozen=True)
class Work:
    """What candidates do with a batch of row numbers, and what our time may be as a multiple of others'."""

    name: str
    make: Callable[[Path, float], dict[str, Action]]
    targets: dict[tuple[str, str], float] = field(default_factory=dict)
    """(ours, other) -> ratio."""
    wall: bool = False
    cold: bool = False
    repeat: int = 1
    """How many times a candidate acts in one turn."""


def images(scale: float) -> Images:
    """Images of noise, labelled by their number."""
    count = max(int(IMAGES * scale), 2 * BATCH)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, 3, 64, 64), dtype=torch.uint8, generator=generator)
    return Images(pixels, torch.arange(count))


def has(*modules: str) -> bool:
    """Whether packages are installed."""
    return all([importlib.util.find_spec(module) is not None for module in modules])


def written(folder: Path, rows: Any, shards: int) -> TensorClassDataset[Any]:
    """A dataset of so many shards."""
    with TensorClassDataset.create(folder, type(rows), -(-len(rows) // shards)) as writer:
        writer.append(rows)
    return TensorClassDataset(folder, type(rows))


def plain(folder: Path, rows: Images) -> tuple[Tensor, Tensor]:
    """Maps of raw files."""
    rows.image.numpy().tofile(folder / "image.raw")
    rows.label.numpy().tofile(folder / "label.raw")
    image = torch.from_file(str(folder / "image.raw"), size=rows.image.numel(), dtype=torch.uint8)
    return image.view(-1, 3, 64, 64), torch.from_file(str(folder / "label.raw"), size=len(rows), dtype=torch.int64)


def lmdb_store(folder: Path, rows: Images) -> Any:
    """A key for each row."""
    store = optional("lmdb", "The benchmark", "bench").open(str(folder / "lmdb"), map_size=1 << 40)
    with store.begin(write=True) as transaction:
        for i, (pixels, label) in enumerate(zip(rows.image.numpy(), rows.label.numpy(), strict=True)):
            transaction.put(b"%09d" % i, pixels.tobytes() + label.tobytes())
    return store


def lmdb_rows(store: Any, numbers: np.ndarray[Any, Any]) -> Any:
    """Rows by their keys."""
    with store.begin(buffers=True) as transaction:
        raw = np.stack([np.frombuffer(transaction.get(b"%09d" % i), np.uint8) for i in numbers.tolist()])
    return raw[:, :ROW].reshape(-1, 3, 64, 64), raw[:, ROW:].copy().view(np.int64)[:, 0]


def hdf5(folder: Path, rows: Images) -> Any:
    """Contiguous datasets."""
    file = optional("h5py", "The benchmark", "bench").File(folder / "x.h5", "w")
    for name in ("image", "label"):
        file.create_dataset(name, data=getattr(rows, name).numpy())
    return file


def hdf5_rows(file: Any, numbers: np.ndarray[Any, Any]) -> Any:
    """Rows; h5py takes rising numbers."""
    order = np.argsort(numbers)
    back = np.argsort(order)
    return file["image"][numbers[order]][back], file["label"][numbers[order]][back]


def arrow_table(rows: Images) -> Any:
    """A table with images as lists of fixed size."""
    pa = optional("pyarrow", "The benchmark", "bench")
    pixels = pa.FixedSizeListArray.from_arrays(pa.array(rows.image.numpy().reshape(-1)), ROW)
    return pa.table({"image": pixels, "label": pa.array(rows.label.numpy())})


def arrow(folder: Path, rows: Images) -> Any:
    """A mapped IPC file."""
    pa, table = optional("pyarrow", "The benchmark", "bench"), arrow_table(rows)
    with pa.OSFile(str(folder / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    return pa.ipc.open_file(pa.memory_map(str(folder / "x.arrow"))).read_all()


def arrow_rows(table: Any, numbers: np.ndarray[Any, Any]) -> Any:
    """Rows by `take`."""
    found = table.take(numbers)
    pixels = found["image"].combine_chunks().flatten().to_numpy()
    return pixels.reshape(-1, 3, 64, 64), found["label"].to_numpy()


def huggingface(folder: Path, rows: Images) -> Any:
    """A dataset of Hugging Face in its own files, which gives tensors."""
    hf = optional("datasets", "The benchmark", "bench")
    features = hf.Features(image=hf.Array3D((3, 64, 64), "uint8"), label=hf.Value("int64"))
    path = str(folder / "hf.arrow")
    with hf.arrow_writer.ArrowWriter(features=features, path=path) as writer:
        writer.write_batch({"image": rows.image.numpy(), "label": rows.label.numpy()})
        writer.finalize()
    table = hf.table.MemoryMappedTable.from_file(path)
    return hf.Dataset(table, hf.DatasetInfo(features=features), fingerprint="images").with_format("torch")


def random_rows(folder: Path, scale: float) -> dict[str, Action]:
    """Rows anywhere, as tensors or arrays of their own."""
    rows = images(scale)
    image, label = plain(folder, rows)
    theirs = tensordict.TensorDict(image=rows.image, label=rows.label, batch_size=[len(rows)]).memmap(folder / "td")
    found: dict[str, Action] = {
        "plain map": lambda i: (image.index_select(0, torch.from_numpy(i)), label.index_select(0, torch.from_numpy(i)))
    }
    for shards in (1, 8, 80):
        data = written(folder / f"ours{shards}", rows, shards)
        found[f"ours, {shards} shards"] = lambda i, data=data: data[torch.from_numpy(i)]  # type: ignore[misc]  # a lambda
    found["anchor memmap"] = lambda i: theirs[torch.from_numpy(i)]
    numpy = np.memmap(folder / "image.raw", np.uint8, "r").reshape(-1, 3, 64, 64)
    found["numpy memmap"] = lambda i: (numpy[i], label.numpy()[i])
    for module, make, read in (
        ("lmdb", lmdb_store, lmdb_rows),
        ("h5py", hdf5, hdf5_rows),
        ("pyarrow", arrow, arrow_rows),
        ("datasets", huggingface, lambda data, i: data[i]),
    ):
        if has(module):
            found[module] = partial(read, make(folder, rows))
    return found


def cold_rows(folder: Path, scale: float) -> dict[str, Action]:
    """Rows anywhere of what was just opened: what is mapped already can't be forgotten."""
    rows = images(scale)
    plain(folder, rows)
    tensordict.TensorDict(image=rows.image, label=rows.label, batch_size=[len(rows)]).memmap(folder / "td")

    def raw(i: np.ndarray[Any, Any]) -> Any:
        image = torch.from_file(str(folder / "image.raw"), size=rows.image.numel(), dtype=torch.uint8)
        label = torch.from_file(str(folder / "label.raw"), size=len(rows), dtype=torch.int64)
        at = torch.from_numpy(i)
        return image.view(rows.image.shape).index_select(0, at), label.index_select(0, at)

    found: dict[str, Action] = {"plain map": raw}
    for shards in (1, 8, 80):
        path = written(folder / f"ours{shards}", rows, shards).path
        found[f"ours, {shards} shards"] = lambda i, path=path: TensorClassDataset(path)[torch.from_numpy(i)]  # type: ignore[misc]  # a lambda
    found["anchor memmap"] = lambda i: tensordict.TensorDict.load_memmap(folder / "td")[torch.from_numpy(i)]
    if has("lmdb"):
        lmdb_store(folder, rows).close()
        lmdb = optional("lmdb", "The benchmark", "bench")
        found["lmdb"] = lambda i: lmdb_rows(lmdb.open(str(folder / "lmdb"), readonly=True, readahead=False), i)
    return found


def ragged_rows(folder: Path, scale: float) -> dict[str, Action]:
    """Rows of different lengths."""
    lengths = np.random.default_rng(0).integers(1, 128, max(int(WORDS * scale), 2 * BATCH))
    offsets = np.concatenate([[0], lengths.cumsum()])
    np.arange(offsets[-1]).tofile(folder / "values.raw")
    offsets.tofile(folder / "offsets.raw")
    values, ends = np.memmap(folder / "values.raw", np.int64, "r"), np.memmap(folder / "offsets.raw", np.int64, "r")
    parts = list(torch.arange(int(offsets[-1])).split(lengths.tolist()))
    found: dict[str, Action] = {
        BY_OFFSETS: lambda i: np.concatenate(
            [values[a:b] for a, b in zip(ends[i].tolist(), ends[i + 1].tolist(), strict=True)]
        )
    }
    for shards in (1, 8):
        data = written(folder / f"ours{shards}", Words(parts), shards)  # type: ignore[arg-type]  # a list of tensors
        found[f"ours, {shards} shards"] = lambda i, data=data: data[torch.from_numpy(i)].tokens.values  # type: ignore[misc]  # a lambda
    if has("pyarrow"):
        pa = optional("pyarrow", "The benchmark", "bench")
        table = pa.table({"tokens": pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))})
        found["pyarrow"] = lambda i: table.take(i)["tokens"].combine_chunks().flatten().to_numpy()
    return found


def in_order(folder: Path, scale: float) -> dict[str, Action]:
    """All rows of what was just opened in blocks of 1,024, in order."""
    rows = images(scale)
    plain(folder, rows)
    blocks = [slice(begin, begin + 4 * BATCH) for begin in range(0, len(rows), 4 * BATCH)]

    def numpy(_: Any) -> Any:
        pixels = np.memmap(folder / "image.raw", np.uint8, "r").reshape(-1, 3, 64, 64)
        labels = np.memmap(folder / "label.raw", np.int64, "r")
        return [len((pixels[b].copy(), labels[b].copy())) for b in blocks]

    def ours(path: str, _: Any) -> Any:
        data = TensorClassDataset[Images](path, Images)
        return [len(data[b]) for b in blocks]

    found: dict[str, Action] = {"numpy memmap": numpy}
    for shards in (1, 8):
        found[f"ours, {shards} shards"] = partial(ours, written(folder / f"ours{shards}", rows, shards).path)
    return found


class Plain(Dataset[Any]):
    """Batches of a plain map."""

    def __init__(self, image: Tensor, label: Tensor) -> None:
        self.image, self.label = image, label

    def __len__(self) -> int:
        return len(self.label)

    def __getitems__(self, rows: list[int]) -> Any:
        """The rows of a batch."""
        at = torch.tensor(rows)
        return {"image": self.image.index_select(0, at), "label": self.label.index_select(0, at)}


def as_it_is(batch: Any) -> Any:
    """The batch."""
    return batch


def epochs(folder: Path, scale: float) -> dict[str, Action]:
    """An epoch in shuffled batches by a DataLoader with two workers, which stay."""
    rows = images(scale)
    options: dict[str, Any] = {"num_workers": 2, "persistent_workers": True}
    raw = DataLoader(Plain(*plain(folder, rows)), BATCH, True, collate_fn=as_it_is, **options)

    def epoch(loader: Any, _: Any) -> list[int]:
        return [len(batch) for batch in loader]

    found: dict[str, Action] = {"plain map": partial(epoch, raw)}
    for shards in (1, 80):
        loader = written(folder / f"ours{shards}", rows, shards).loader(BATCH, shuffle=True, **options)
        found[f"ours, {shards} shards"] = partial(epoch, loader)
    return found


def writes(folder: Path, scale: float) -> dict[str, Action]:
    """All rows in batches of 1,024 to the disk."""
    rows = images(scale)
    parts: list[Any] = list(rows.split(1024))
    names = iter(range(1 << 30))

    def raw(_: Any) -> None:
        with open(folder / f"{next(names)}", "wb", buffering=0) as file:
            for part in parts:
                file.write(part.image.numpy())
                file.write(part.label.numpy())
            os.fsync(file.fileno())
        (folder / f"{next(names) - 1}").unlink()

    def ours(_: Any) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as path, TensorClassDataset.create(path, Images) as writer:
            for part in parts:
                writer.append(part)

    def theirs(_: Any) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as path:
            tensordict.TensorDict(image=rows.image, label=rows.label, batch_size=[len(rows)]).memmap(path)

    return {"raw write": raw, "ours": ours, "anchor memmap (no fsync)": theirs}


WORKS = [
    Work("random rows", random_rows, {(f"ours, {n} shards", "plain map"): 1.15 for n in (1, 8, 80)}, repeat=4),
    Work(
        "ragged rows", ragged_rows, {(f"ours, {n} shards", "numpy values and offsets"): 1.3 for n in (1, 8)}, repeat=4
    ),
    Work("in order", in_order, {(f"ours, {n} shards", "numpy memmap"): 1.1 for n in (1, 8)}),
    Work("epoch, 2 workers", epochs, {(f"ours, {n} shards", "plain map"): 1.1 for n in (1, 80)}, wall=True),
    Work("write", writes, {("ours", "raw write"): 1.2}, wall=True),
    Work("random rows, cold", cold_rows, {(f"ours, {n} shards", "plain map"): 0.2 for n in (1, 8, 80)}, True, True),
    Work("in order, cold", in_order, {(f"ours, {n} shards", "numpy memmap"): 1.1 for n in (1, 8)}, True, True),
]


def drop(folder: Path) -> None:
    """Have the system forget the files below a folder."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def bytes_read() -> int:
    """What this process has had read from disks."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict([line.split(": ") for line in lines])["read_bytes"])


def measure(work: Work, folder: Path, scale: float, rounds: int) -> dict[str, tuple[float, float]]:
    """Milliseconds of each candidate, and the megabytes that came from a disk."""
    rng, count = np.random.default_rng(0), max(int(IMAGES * scale), 2 * BATCH)
    found: dict[str, tuple[list[float], list[float]]] = {}
    folder.mkdir(exist_ok=True)
    candidates = work.make(folder, scale)
    clock = time.perf_counter if work.wall else time.thread_time
    for _ in range(rounds):
        for name, action in candidates.items():
            batches = [rng.permutation(count)[:BATCH] for _ in range(work.repeat)]
            if work.cold:
                drop(folder)
            gc.collect()
            gc.disable()
            before, start = bytes_read(), clock()
            for batch in batches:
                action(batch)
            times, sizes = found.setdefault(name, ([], []))
            times.append((clock() - start) * 1e3 / work.repeat)
            sizes.append((bytes_read() - before) / 1e6)
            gc.enable()
    return {name: (statistics.median(times), statistics.median(sizes)) for name, (times, sizes) in found.items()}


def table(work: Work, found: dict[str, tuple[float, float]]) -> str:
    """One line for each candidate, and one for each target."""
    lines = [f"{work.name}, ms {'wall' if work.wall else 'CPU'}"]
    lines += [f"  {name:28} {a:10.2f}{f' {b:10.2f} MB read' if work.cold else ''}" for name, (a, b) in found.items()]
    for (ours, other), limit in work.targets.items():
        ratio = found[ours][0] / found[other][0]
        lines.append(f"  {ours} over {other}: {ratio:.2f} (≤ {limit:g}){'' if ratio <= limit else '   MISS'}")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks._datasets", description=__doc__)
    parser.add_argument("--scale", type=float, default=0.4)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--only", default="")
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of the anchor
    memory = Path("/dev/shm")
    for work in WORKS:
        if arguments.only in work.name:
            quick = memory if memory.is_dir() and not work.wall else None
            with tempfile.TemporaryDirectory(dir=arguments.folder or quick) as folder:
                print(table(work, measure(work, Path(folder), arguments.scale, arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
