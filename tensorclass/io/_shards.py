"""The shards of a dataset: each is opened when one of its rows is read, and some stay open."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from torch import Tensor

from .._budget import budget
from .._places import is_url
from .._schema import schema_of
from ..errors import FileFormatError, SchemaError
from ._advice import PAGE, expect_random, expect_random_reads
from ._atomic import open_file, read_bytes
from ._columns import Form, Parts, take_apart
from ._format import BLANK, START, NodePart, NonePart, TensorPart, ValuePart, is_sealed
from ._manifest import ShardEntry
from ._map import Extent, mapped
from ._read import head_of, places_of, read_head, tensors_of
from ._remote import Remote, forget, remote
from ._unpack import Unpacker, references

MISSING = "the manifest lists this shard, and it is not there"


class Shard(NamedTuple):
    """One shard of a dataset: its folder, and its entry in the manifest."""

    folder: str
    entry: ShardEntry

    @property
    def path(self) -> str:
        """The file."""
        return os.path.join(self.folder, self.entry.file)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.entry.rows


def size_of(shard: Shard) -> int:
    """The size of the file of a shard in bytes, 0 if it is missing; of a remote one, what the manifest says."""
    if is_url(shard.folder):
        return shard.entry.bytes
    try:
        return os.stat(shard.path).st_size
    except OSError:
        return 0


class ReadHow(NamedTuple):
    """How shards are read."""

    want: Any
    """The class of the rows, `UNTYPED`, or None for the class that the file names."""
    picked: bool
    """Whether `want` has only some of the fields."""
    mmap: bool
    verify: bool
    max_bytes: int | None = None
    block_rows: int = 1
    """Consecutive rows of a remote shard that are fetched together."""


class Known(NamedTuple):
    """Facts from the header of a shard. Another shard whose header differs only in its id is opened without parsing it.

    Only used if the rows depend on nothing but the tensors of the columns, and the class doesn't validate values.
    """

    raw: bytes
    """The whole header."""
    size: int
    """The size of the file in bytes."""
    rows: int
    mark: int
    """The position of the id in the header."""
    places: list[Extent]
    """The places of the columns, in the order of the form."""
    form: Form


def remote_shard(shard: Shard) -> Remote:
    """The remote file of a shard. Its name has its id, so that nothing is looked up."""
    return remote(shard.path, fixed=(shard.entry.bytes, shard.entry.id))


def open_shard(shard: Shard, how: ReadHow) -> Any:
    """The rows of a shard as one container; see `open_parts`."""
    return open_parts(shard, how)[0]


def open_parts(shard: Shard, how: ReadHow, known: Known | None = None) -> tuple[Any, Parts, Known | None]:
    """The rows of a shard as one container; only the requested fields are mapped or read.

    Args:
        shard: the shard.
        how: how it is read.
        known: the facts from another shard.

    Returns:
        The container, or None if its form can build it; its columns; facts for the next shard, or None.

    Raises:
        FileFormatError: for a shard that is missing, truncated, damaged, or doesn't match the manifest.
        SchemaError: if it doesn't fit the class.
        OSError: if a file can't be read.
    """
    path, entry = shard.path, shard.entry
    try:
        if is_url(path):
            file = remote_shard(shard)  # it must stay open until the shard is read
            fd, size = os.dup(file.fd), file.size
        else:
            fd, size = open_file(path)
    except FileNotFoundError:
        raise FileFormatError(MISSING, path) from None
    try:
        if how.mmap:
            expect_random_reads(fd)
        if size != entry.bytes:
            raise FileFormatError(f"the manifest says {entry.bytes} bytes, the shard has {size}", path, size)
        if known is not None and (tensors := _columns_like_known(fd, size, shard, known)) is not None:
            return None, Parts(known.form, tensors, []), known
        with budget(how.max_bytes, size, path):
            return _read_shard(fd, size, shard, how)
    except FileFormatError:
        forget(path, fd)
        raise
    except FileNotFoundError:  # of a store
        raise FileFormatError(MISSING, path) from None
    finally:
        os.close(fd)


def _read_shard(fd: int, size: int, shard: Shard, how: ReadHow) -> tuple[Any, Parts, Known | None]:
    """As `open_parts`, of an open file."""
    path, entry, known = shard.path, shard.entry, None
    head = read_head(fd, size, path)
    if head.meta.shard != entry.id:
        what = f"it has the id {head.meta.shard}, the manifest lists {entry.id}: it belongs to another dataset"
        raise FileFormatError(what, path, 8)
    root = head.meta.root
    if root.members is not None or root.size[:1] != [entry.rows]:
        raise FileFormatError(f"its batch size is {root.size}, the manifest says {entry.rows} rows", path, 8)
    root = narrow_tree(root, how)
    places = places_of(head.header, references(root), path)
    later = of_rows(root, how) if is_url(path) else ()
    named = tensors_of(head, places, how.mmap, False, how.verify, later)
    batch = Unpacker(head.meta, named, path).build(root, (), how.want)
    parts = take_apart(batch)
    if how.mmap:
        _expect_random(places.values(), named.values(), size)
    mapped = how.mmap and not how.verify and (not is_url(path) or entry.layout is not None)
    if mapped and parts.form is not None and is_plain(root):
        known = _facts_of_shard(shard, read_bytes(fd, head.header.start, 0, path), size, places, named, parts)
    return batch, parts, known


def is_plain(node: NodePart) -> bool:
    """Whether a container consists of plain tensors and of values in the header."""
    return (
        node.members is None
        and node.params is None
        and all(
            [
                is_plain(part)
                if isinstance(part, NodePart)
                else isinstance(part, (str, NonePart)) or (isinstance(part, ValuePart) and part.data is None)
                for part in node.entries.values()
            ]
        )
    )


def _facts_of_shard(
    shard: Shard, raw: bytes, size: int, places: dict[str, Extent], named: dict[str, Tensor], parts: Parts
) -> Known | None:
    """The facts from a shard, if its columns are the tensors of its file."""
    form, at = parts.form, {tensor.data_ptr(): (places[name], tensor.shape) for name, tensor in named.items()}
    found = [at.get(tensor.data_ptr()) for tensor in parts.tensors if tensor.numel()]
    whole = [one[0] for one, tensor in zip(found, parts.tensors, strict=False) if one and one[1] == tensor.shape]
    mark = raw.find(shard.entry.id.encode())
    if form is None or form.looks() or len(whole) != len(parts.tensors) or mark < len(START):
        return None
    return Known(raw, size, shard.rows, mark, whole, form)


def _columns_like_known(fd: int, size: int, shard: Shard, known: Known) -> list[Tensor] | None:
    """The columns of a shard whose header differs from a known one only in the id; None for others."""
    mark, key, begin = known.mark, shard.entry.id.encode(), 8 + len(START)
    if size != known.size or shard.rows != known.rows:
        return None
    far = is_url(shard.path)
    if not far or not remote_shard(shard).missing([(0, len(known.raw))]):  # else the manifest says that they are alike
        raw = read_bytes(fd, len(known.raw), 0, shard.path)
        digits, behind = raw[begin : begin + len(BLANK)], begin + len(BLANK)
        other, end = known.raw, mark + len(key)
        same = raw[:begin] == other[:begin] and raw[behind:mark] == other[behind:mark] and raw[end:] == other[end:]
        if not same or raw[mark:end] != key or not is_sealed(raw[8:], digits.decode("ascii", "replace")):
            return None
    tensors = mapped(fd, size, shard.path, known.places)
    _expect_random(known.places, tensors, size)
    return tensors


def _expect_random(places: Iterable[Extent], tensors: Iterable[Tensor], size: int) -> None:
    """Tell the system that rows of the map are read in random order."""
    for place, tensor in zip(places, tensors, strict=True):
        start = tensor.data_ptr() - place.begin
        if place.end > place.begin and start % PAGE == 0:  # else it is a copy
            expect_random(start, size)
            return


def of_rows(root: NodePart, how: ReadHow) -> set[str]:
    """The tensors of a remote shard that are fetched row by row, not when it is opened."""
    return set(_of_rows(root)) if how.mmap and not how.verify else set()


def _of_rows(node: NodePart) -> Iterator[str]:
    """The names of tensors with one row per element; they can be read row by row."""
    for part in node.entries.values():
        if isinstance(part, str):
            yield part
        elif isinstance(part, TensorPart) and part.role is None:
            yield part.data
        elif isinstance(part, NodePart) and part.members is None:
            yield from _of_rows(part)


def check_shard(shard: Shard, how: ReadHow) -> list[Exception]:
    """The faults of a shard. Checksums are compared if it has them."""
    try:
        sums = head_of(shard.path).meta.crc32
        open_shard(shard, how._replace(verify=sums is not None))
    except FileNotFoundError:
        return [FileFormatError(MISSING, shard.path)]
    except (FileFormatError, SchemaError, OSError) as error:
        return [error]
    return []


def narrow_tree(root: NodePart, how: ReadHow) -> NodePart:
    """The part of a tree that is read."""
    return _narrow(root, how.want) if how.picked else root


def _narrow(node: NodePart, cls: Any) -> NodePart:
    """The part of a tree that a class declares, under current and former names."""
    schema = schema_of(cls)
    assert schema is not None  # a picked class has one
    kept: dict[str, Any] = {}
    for key, part in node.entries.items():
        spec = schema.fields.get(schema.renamed.get(key, key))
        if spec is not None:
            kept[key] = _narrow(part, spec.nested) if isinstance(part, NodePart) and spec.nested is not None else part
    return node.model_copy(update={"entries": kept})
