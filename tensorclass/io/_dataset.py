"""A dataset: shards in a folder as one sequence of rows, larger than memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from .._budget import budget, reserve
from .._flags import flags
from .._places import is_url, whole_path
from .._schema import Schema, schema_of
from ..classes import pick as pick_class
from ..errors import (
    ArgumentError,
    BatchIndexError,
    SchemaError,
    UnknownFieldError,
    UnsupportedOperationError,
    did_you_mean,
)
from ..store import TensorDict
from ._access import Access, checked_access, current_access, reaching
from ._advice import IntArray
from ._bad_shards import find_bad_shards, warn_of_skipped
from ._classes import find_class
from ._file_kinds import DATASET, naming_reader
from ._manifest import NAME, Manifest, Mark, mark_of, stored_schema, up_to_mark
from ._mixed import Mixed, mix_of
from ._parts import BLOCK, parts_of
from ._paths import StrPath
from ._progress import progress
from ._scaled import Scaled
from ._segments import read_manifest
from ._shards import ReadHow, Shard, check_shard, size_of
from ._shelf import Shelf
from ._training import InBatches
from ._unpack import UNTYPED
from ._writer import DatasetWriter, write_dataset
from .exchange._batches import without_rows
from .exchange._functions import Exchange

T = TypeVar("T")


@flags
class TensorClassDataset(InBatches[T], Scaled, Exchange, Dataset[T], Generic[T]):
    """Rows of a typed class, stored as shards in a folder; a map-style dataset of torch.

    Opening a dataset reads only the manifest. A shard is mapped when one of its rows is read. Results are copies. A
    dataset is a snapshot: to see rows that a writer has added since, open it again. Threads may share a dataset.

    Args:
        path: the folder; or a list of folders, which are read one after the other.
        cls: the class of the rows; by default the class that the dataset names, if it is imported, else `TensorDict`.
        mmap: map the shards. False reads shards into memory, and keeps a few of them.
        verify: compare checksums when a shard is opened. The dataset must have been written with `checksums=True`.
        max_bytes: the most memory that opening a shard, or the numbers of all rows, may take; by default 128 times the
            size of the files, and at least 128 MiB. Mapped tensors take none.
        errors: "raise", or "skip": every shard is opened now; those that are missing or damaged are left out, with a
            warning. `skipped` has their paths and the reasons. Rows are numbered without them.
        storage_options, timeout, retries: of URLs, see `tensorclass.io.remote_access`.

    Raises:
        FileFormatError: for a manifest that is damaged or newer. `MemoryBudgetError` for one that lists more rows than
            `max_bytes` allows.
        OSError: if the folder can't be read, or has no dataset. The message names the path.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import TensorClass
    >>> from tensorclass.typing import Float32, Int64
    >>> class Digits(TensorClass):
    ...     image: Float32[Tensor, "8 8"]
    ...     label: Int64[Tensor, ""]
    >>> with TensorClassDataset.create("digits", Digits, rows_per_shard=4) as writer:
    ...     writer.append(Digits(torch.zeros(10, 8, 8), torch.arange(10)))
    >>> data = TensorClassDataset("digits", Digits)
    >>> len(data), data[-1].label.item(), data[[5, 2, 9]].label.tolist()
    (10, 9, [5, 2, 9])
    """

    _mix: Mixed | None = None

    def __init__(
        self,
        path: StrPath | Sequence[StrPath],
        cls: type[T] | None = None,
        mmap: bool = True,
        verify: bool = False,
        max_bytes: int | None = None,
        *,
        errors: str = "raise",
        storage_options: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        retries: int | None = None,
    ) -> None:
        if errors not in ("raise", "skip"):
            raise ArgumentError(f'errors is "raise" or "skip", got {errors!r:.60}')
        access = checked_access(storage_options, timeout, retries)
        self._begin(path, cls, mmap, verify, max_bytes, access, None if errors == "skip" else {}, None)

    def _begin(
        self,
        path: StrPath | Sequence[StrPath],
        cls: type[T] | None,
        mmap: bool,
        verify: bool,
        max_bytes: int | None,
        access: Access,
        skipped: dict[str, str] | None,
        marks: Sequence[Mark] | None,
    ) -> None:
        """Read the manifests, up to the marks of a snapshot, and leave out skipped shards; None looks for them."""
        if cls is not None and (not isinstance(cls, type) or schema_of(cls) is None):
            raise ArgumentError(f"the rows of a dataset are of a tensorclass, got {cls!r:.80}")
        several = isinstance(path, Iterable) and not isinstance(path, (str, bytes, os.PathLike))
        given: list[Any] = list(path) if several else [path]  # type: ignore[arg-type]  # not a path
        if not given:
            raise ArgumentError("a dataset has a path, got none")
        self.paths: tuple[str, ...] = tuple([whole_path(one) for one in given])
        self._given = cls
        self._mmap = mmap
        self._verify = verify
        self._max_bytes = max_bytes
        self._fields: tuple[Any, ...] = ()
        self._block_rows = 1
        with reaching(access):
            self._access = current_access()
            found = [_manifest_of(folder) for folder in self.paths]
            if marks is not None:
                found = [up_to_mark(*each) for each in zip(found, marks, self.paths, strict=True)]
            self._load(found, skipped)

    def _load(self, manifests: Sequence[Manifest], skipped: dict[str, str] | None) -> None:
        """Take the shards of some manifests, without the damaged ones, and the class of their rows."""
        first = manifests[0]
        self._marks = tuple([mark_of(manifest.shards) for manifest in manifests])
        found: Any = self._given if self._given is not None else find_class(first.cls)
        self._stored = stored_schema(first, self.paths[0])
        _check_alike(self.paths, manifests, found)
        self._whole = found
        pairs = zip(self.paths, manifests, strict=True)
        self.shards: tuple[Shard, ...] = tuple(
            [Shard(folder, entry) for folder, manifest in pairs for entry in manifest.shards]
        )
        self.skipped: dict[str, str] = self._find_skipped(found) if skipped is None else skipped
        if self.skipped:
            self.shards = tuple([shard for shard in self.shards if shard.path not in self.skipped])
        rows = sum([shard.rows for shard in self.shards])
        with budget(self._max_bytes, lambda: sum(map(size_of, self.shards)), self.paths[0]):
            reserve(8 * rows, f"the numbers of the {rows} rows in the manifest")
        self._use(found)
        if self._given is not None and rows and self._stored.diff(schema_of(found)).effect == "breaking":  # type: ignore[arg-type]  # it has one
            self[0]  # a class that can't read the rows raises here, not in a training loop

    def _find_skipped(self, cls: Any) -> dict[str, str]:
        found = find_bad_shards(self.shards, self._how(cls))
        if found:
            warn_of_skipped(found, self.shards)
        return found

    def _how(self, cls: Any) -> ReadHow:
        want = UNTYPED if cls is None else cls
        return ReadHow(want, cls is not self._whole, self._mmap, self._verify, self._max_bytes, self._block_rows)

    def _use(self, cls: Any) -> None:
        self.cls: Any = cls
        self._shelf = Shelf(self.shards, self._how(cls))

    @classmethod
    def create(
        cls,
        path: StrPath,
        row_cls: type[T],
        /,
        rows_per_shard: int | None = None,
        *,
        resume: bool = False,
        writer_id: str | None = None,
        checksums: bool = False,
        pbar: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        retries: int | None = None,
    ) -> DatasetWriter[T]:
        """Create a dataset, or resume one, and return its writer.

        Args:
            path: the folder, which is created; or a URL of a store, such as `s3://bucket/rows`.
            row_cls: the class of the rows.
            rows_per_shard: rows of a full shard. They stay in memory until they are written. By default a shard takes
                about 64 MB.
            resume: continue after the last committed shard; `writer.rows` is the number of rows so far. If there is no
                dataset, create it.
            writer_id: a different id for each of several concurrent writers. Shards are in the order of their commits.
            checksums: write checksums, for `verify`.
            pbar: show the progress.
            storage_options, timeout, retries: of URLs, see `tensorclass.io.remote_access`.

        Raises:
            FileExistsError: if a dataset exists and `resume` is False.
            BlockingIOError: if another writer has the dataset open.
            SchemaError: if the existing rows were written as another class; the message shows the difference.

        >>> with TensorClassDataset.create("digits", Digits, resume=True) as writer:
        ...     writer.append(Digits(torch.ones(8, 8), torch.tensor(7)))
        >>> len(data), len(TensorClassDataset("digits", Digits))
        (10, 11)
        """
        access = checked_access(storage_options, timeout, retries)
        return DatasetWriter(path, row_cls, rows_per_shard, resume, writer_id, checksums, pbar, access)

    # ---- what it is --------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The folder of the dataset.

        Raises:
            UnsupportedOperationError: for several; `paths` has them.

        >>> data.path.endswith("digits")
        True
        """
        if len(self.paths) != 1:
            raise UnsupportedOperationError(f"this dataset has {len(self.paths)} folders; `paths` lists them")
        return self.paths[0]

    @property
    def schema(self) -> Schema:
        """The schema of the rows: that of the class, or the one that they were written with.

        >>> data.schema.names
        ('image', 'label')
        """
        found = None if self.cls is None else schema_of(self.cls)
        return self._stored if found is None else found

    def __len__(self) -> int:
        return int(self._shelf.ends[-1]) if self.shards else 0

    def __repr__(self) -> str:
        name = "TensorDict" if self.cls is None else self.cls.__name__
        where = self.paths[0] if len(self.paths) == 1 else self.paths
        return f"TensorClassDataset({where!r}, {name}, rows={len(self)}, shards={len(self.shards)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _open, (
            self.paths,
            self._given,
            self._mmap,
            self._verify,
            self._fields,
            self._max_bytes,
            self._access,
            self._block_rows,
            self.skipped,
            self._marks,
        )

    # ---- rows --------------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> T:
        """Rows as an instance of the class, in their own memory.

        A number gives an instance of batch size `[]`; any other index gives a batch of size `[n]`.

        Args:
            index: a number, a slice, or numbers or a mask as a list, an array or a tensor of one dim.

        Raises:
            BatchIndexError: for a row outside the dataset, and a mask of another length.
            TypeError: for anything else.
        """
        if type(index) is Tensor and index.dtype is torch.int64 and index.ndim == 1 and index.is_cpu:
            return self._rows(self._wrap_numbers(index.numpy()))  # type: ignore[no-any-return]  # of the class
        if type(index) is int or (isinstance(index, (np.integer, Tensor)) and index.ndim == 0 and _is_whole(index)):
            row = self._wrap_numbers(np.array([int(index)]))
            return self._rows(row)[0]  # type: ignore[no-any-return]  # of the class
        return self._rows(self._numbers(index))  # type: ignore[no-any-return]  # of the class

    def __getitems__(self, index: Sequence[int]) -> T:
        """Several rows as one batch; a DataLoader calls this."""
        return self[index]

    def __iter__(self) -> Iterator[T]:
        for batch in self._blocks():
            yield from batch

    def _rows(self, rows: IntArray) -> Any:
        with reaching(self._access):
            if not len(rows):
                return self._shelf[0][:0].clone() if self.shards else self._without_rows()
            return self._shelf.gather(rows)

    def _without_rows(self) -> Any:
        return TensorDict(batch_size=[0]) if self.cls is None else without_rows(self.cls)

    def _numbers(self, index: Any) -> IntArray:
        """The row numbers of an index."""
        if isinstance(index, slice):
            return np.arange(*index.indices(len(self)), dtype=np.int64)
        found = _as_tensor(index)
        if found.dtype is torch.bool:
            if len(found) != len(self):
                raise BatchIndexError(f"a mask has one value for each of the {len(self)} rows, got {len(found)}")
            return np.flatnonzero(found.numpy())
        return self._wrap_numbers(found.to(torch.int64).numpy())

    def _wrap_numbers(self, rows: IntArray) -> IntArray:
        """Row numbers, with negative ones counted from the end."""
        count = len(self)
        low, high = (rows.min(), rows.max()) if len(rows) else (0, -1)
        if low < -count or high >= count:
            raise BatchIndexError(f"row {low if low < -count else high} is not there: the dataset has {count} rows")
        return rows if low >= 0 else np.where(rows < 0, rows + count, rows)

    # ---- others like it ----------------------------------------------------------------------------------------------

    def pick(self, *fields: Any) -> TensorClassDataset[Any]:
        """The same rows with some of their fields; the other fields are not read.

        Args:
            fields: names, paths or field references, as for `tensorclass.pick`.

        Raises:
            UnknownFieldError: for a name that is not a field; suggests the nearest name.
            UnsupportedOperationError: for a dataset whose class is not imported.

        >>> data.pick(Digits.label)[1].label
        tensor(1)
        """
        if self.cls is None:
            missing = [name for name in fields if name not in self._stored.fields]
            if missing:
                near = did_you_mean(str(missing[0]), self._stored.fields)
                raise UnknownFieldError(f"{self.paths[0]}: its rows have no field {missing[0]!r:.80}{near}")
            raise UnsupportedOperationError(f"{self.paths[0]}: pick needs the class of the rows; pass it: `cls=`")
        paths = tuple([getattr(field, "__field_path__", field) for field in fields])
        found: TensorClassDataset[Any] = object.__new__(type(self))
        found.__dict__ |= self.__dict__
        found._fields = (*self._fields, paths)
        found._use(pick_class(self.cls, *paths))
        return found

    @classmethod
    def concat(cls, datasets: Sequence[TensorClassDataset[T]]) -> TensorClassDataset[T]:
        """Concatenate datasets; nothing is copied.

        Raises:
            SchemaError: if the rows of a dataset don't fit the class of the first; the message shows the difference.
            ValueError: if different fields were picked from the datasets.

        >>> len(TensorClassDataset.concat([data, data]))
        20
        """
        found = list(datasets)
        if not found or not all([isinstance(one, TensorClassDataset) for one in found]):
            raise ArgumentError(f"concat takes a list of datasets, got {datasets!r:.80}")
        first = found[0]
        if any([one._mix for one in found]):
            raise ArgumentError("concat takes datasets that are not mixed; mix them all at once")
        for one in found[1:]:
            if one._fields != first._fields:
                mine, theirs = (list(names) if names else "all fields" for names in (first._fields, one._fields))
                raise ArgumentError(
                    f"concat: {one.paths[0]} is picked down to {theirs}, {first.paths[0]} to {mine}; pick from the "
                    "result instead"
                )
        paths = [path for one in found for path in one.paths]
        how = first._mmap, first._verify, first._fields, first._max_bytes, first._access
        skipped = {path: why for one in found for path, why in one.skipped.items()}
        marks = [mark for one in found for mark in one._marks]
        return _open(paths, first._given or first._whole, *how, skipped=skipped, marks=marks)

    @classmethod
    def mix(cls, weights: Mapping[TensorClassDataset[T], float]) -> TensorClassDataset[T]:
        """Concatenate datasets, whose rows `batches` and `loader` draw by weight; nothing is copied.

        Every batch has rows of each dataset in proportion to its weight. An epoch has as many rows as all datasets
        together. A dataset whose rows have all come begins again, in another order; the others continue in the next
        epoch where they stopped. Row numbers, `map` and the like treat the result as `concat` does.

        Args:
            weights: a positive number for each dataset; at least 1/10000 of their sum.

        Raises:
            ValueError: for other weights, and for a dataset without rows; and the errors of `concat`.

        >>> mixed = TensorClassDataset.mix({data: 0.7, TensorClassDataset("digits", Digits): 0.3})
        >>> batch = next(iter(mixed.batches(10, shuffle=True, seed=0)))
        """
        if not isinstance(weights, Mapping):
            raise ArgumentError(f"mix takes a dict of datasets and weights, got a {type(weights).__name__}")
        found = cls.concat(list(weights))
        found._mix = mix_of(weights)
        return found

    def compact(
        self, out: StrPath, rows_per_shard: int | None = None, *, checksums: bool = False, pbar: bool = False
    ) -> TensorClassDataset[T]:
        """Write the rows, in order, into shards of another size; returns the new dataset.

        Args:
            out: a folder without a dataset.
            rows_per_shard: rows of a shard.
            checksums: write checksums, for `verify`.
            pbar: show the progress.

        Raises:
            FileExistsError: when there is a dataset.
            UnsupportedOperationError: for a dataset whose class is not imported.

        >>> data.compact("whole", rows_per_shard=100)
        TensorClassDataset('...whole', Digits, rows=10, shards=1)
        """
        if self.cls is None:
            raise UnsupportedOperationError(f"{self.paths[0]}: compact needs the class of the rows; pass it: `cls=`")
        cls = write_dataset(self._blocks(), out, rows_per_shard, pbar, checksums, self.cls)
        return TensorClassDataset(out, cls, self._mmap)

    def _blocks(self) -> Iterator[Any]:
        """All rows in order, in blocks that each lie in one shard."""
        begin = 0
        if not len(self) and self.cls is not None:
            yield self._without_rows()
        for number, shard in enumerate(self.shards):
            with reaching(self._access):
                parts = list(parts_of(self._shelf[number], BLOCK))
            for part in parts:
                yield self[begin + part.start : begin + part.stop]
            begin += shard.rows

    @classmethod
    def from_map(
        cls,
        dataset: Iterable[Any],
        fn: Callable[[Any], T],
        out: StrPath,
        rows_per_shard: int | None = None,
        *,
        checksums: bool = False,
        pbar: bool = False,
    ) -> TensorClassDataset[T]:
        """Convert each item of another dataset with a function, and write the results as a dataset.

        Args:
            dataset: any iterable of items: a `Dataset` of tuples, a list, a generator.
            fn: converts an item to an instance of a typed class: one element, or a batch.
            out: a folder without a dataset.
            rows_per_shard: rows of a shard.
            checksums: write checksums, for `verify`.
            pbar: show the progress.

        Raises:
            FileExistsError: when there is a dataset.
            TypeError: if `fn` returns anything but instances of one typed class.
            ValueError: if there are no items, since then the class is unknown.

        >>> blank = lambda number: Digits(image=torch.zeros(8, 8), label=torch.tensor(number))
        >>> TensorClassDataset.from_map(range(5), blank, "blank")[3].label
        tensor(3)
        """
        row_cls = write_dataset(map(fn, _items(dataset)), out, rows_per_shard, pbar, checksums, None, "from_map")
        return TensorClassDataset(out, row_cls)

    def verify(self, pbar: bool = False) -> list[Exception]:
        """Open every shard, and compare it with the manifest, the class, and the checksums, if it has any.

        Returns:
            The errors that were found, one for each damaged shard. They are not raised.

        >>> data.verify()
        []
        """
        found: list[Exception] = []
        with progress(pbar, len(self), "verifying") as count, reaching(self._access):
            for shard in self.shards:
                found += check_shard(shard, self._shelf.how)
                count(shard.rows)
        return found


def _manifest_of(path: str) -> Manifest:
    with naming_reader(path, DATASET):
        try:
            return read_manifest(path)
        except FileNotFoundError as error:
            if is_url(path) or os.path.lexists(os.path.join(path, NAME)):
                raise
            there = "the folder has no manifest of a dataset" if os.path.isdir(path) else "no dataset"
            why = f"{there}; `TensorClassDataset.create` makes one"
            raise FileNotFoundError(error.errno, why, path) from None


def _items(dataset: Any) -> Iterator[Any]:
    """The items of a dataset. A loop over a `Dataset` of torch may never end, so its length is used if it has one."""
    count = len(dataset) if isinstance(dataset, Dataset) and isinstance(dataset, Sized) else None
    return iter(dataset) if count is None else (dataset[i] for i in range(count))


def _open(
    paths: Any,
    cls: Any,
    mmap: bool,
    verify: bool,
    fields: Sequence[Any],
    max_bytes: int | None,
    access: Access,
    block_rows: int = 1,
    skipped: Mapping[str, str] | None = None,
    marks: Sequence[Mark] | None = None,
) -> TensorClassDataset[Any]:
    found: TensorClassDataset[Any] = object.__new__(TensorClassDataset)
    found._begin(paths, cls, mmap, verify, max_bytes, access, dict(skipped or {}), marks)
    for some in fields:
        found = found.pick(*some)
    return found if block_rows == 1 else found._read_in("blocks")


def _check_alike(paths: Sequence[str], manifests: Sequence[Manifest], cls: Any) -> None:
    """Refuse datasets of different classes."""
    first = manifests[0]
    for path, other in zip(paths[1:], manifests[1:], strict=True):
        if other.cls.digest != first.cls.digest:
            whole = stored_schema(first, paths[0]) if cls is None else schema_of(cls)
            difference = stored_schema(other, path).diff(whole)  # type: ignore[arg-type]  # a class of rows has one
            if difference.effect == "breaking":
                raise SchemaError(f"{path}: its rows are not those of {paths[0]}:\n{difference}")


def _is_whole(index: Any) -> bool:
    return not isinstance(index, Tensor) or not (index.is_floating_point() or index.dtype is torch.bool)


def _as_tensor(index: Any) -> Tensor:
    """Row numbers or a mask as a 1-d tensor."""
    if isinstance(index, range):
        index = list(index)
    if isinstance(index, list) and not index:
        return torch.empty(0, dtype=torch.int64, device="cpu")
    try:
        found = index.detach().cpu() if isinstance(index, Tensor) else torch.as_tensor(index, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError(
            f"rows are a number, a slice, or a list, array or tensor of numbers, got {index!r:.80}"
        ) from None
    if found.ndim != 1 or found.is_floating_point() or found.is_complex():
        what = f"{found.dtype} of shape {list(found.shape)}"
        raise ArgumentError(f"rows are numbers or a mask of one dim, got {what}")
    return found
