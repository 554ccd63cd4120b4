"""The manifest of a dataset lists its shards. A file that it doesn't list isn't part of the dataset.

`_segments` reads and replaces it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar
from zlib import crc32

from pydantic import AfterValidator, Field, ValidationError

from .._places import is_url
from .._schema import Schema, schema_of
from ..errors import ArgumentError, ChecksumError, FileFormatError, TensorClassError
from ._atomic import opened_file, read_bytes
from ._format import ClassPart, Count, Part
from ._remote import read_whole

P = TypeVar("P", bound=Part)
NAME = "manifest.json"
VERSION = 1
SHARD = re.compile(r"(?:(?P<writer>[A-Za-z0-9_]{1,64})-)?(?P<number>\d{6,})-(?P<id>[0-9a-f]{16})\.safetensors")
"""File names of shards: the writer's id, if it has one; a number; a random id."""
SEGMENT = re.compile(r"segment-[0-9a-f]{16}\.json")
"""File names of segments: a random id."""
_START = '{"crc32":"'
SEALED = slice(len(_START), len(_START) + 8)
"""The place of the checksum in what `sealed` writes."""
MOST = 2**62
"""More rows than any dataset has."""
AGAIN = 8
"""How often a manifest that was replaced while it was read is read again."""
_MANY = 1 << 30
"""The largest manifest that is read, in bytes."""


class ShardEntry(Part):
    """One shard: its file name, without a folder, and the facts that the file must match."""

    file: Annotated[str, Field(pattern=rf"^{SHARD.pattern}$")]
    rows: Annotated[int, Field(ge=1, lt=2**62)]
    bytes: Count
    id: str
    writer: str | None = None
    header: Count | None = None
    """The bytes of its header; unknown in older datasets."""
    layout: str | None = None
    """A digest of its header without the id; shards of one layout have their tensors at the same places."""


def refuse_doubles(shards: list[ShardEntry]) -> list[ShardEntry]:
    """Shards that are listed once, with a possible number of rows.

    Raises:
        ArgumentError: for others.
    """
    if len({shard.id for shard in shards}) != len(shards) or len({shard.file for shard in shards}) != len(shards):
        raise ArgumentError("a shard is listed twice")
    if sum([shard.rows for shard in shards]) >= MOST:
        raise ArgumentError(f"the shards have {MOST} rows or more together")
    return shards


Shards = Annotated[list[ShardEntry], AfterValidator(refuse_doubles)]


class SegmentPart(Part):
    """The content of a segment: shards that follow each other."""

    version: int = VERSION
    shards: Shards


class SegmentEntry(Part):
    """One segment: its file name, and the facts that the file must match."""

    file: Annotated[str, Field(pattern=rf"^{SEGMENT.pattern}$")]
    shards: Annotated[int, Field(ge=1, lt=2**62)]
    rows: Annotated[int, Field(ge=1, lt=2**62)]
    bytes: Count
    crc32: str


class Manifest(Part):
    """The whole manifest; the order of the shards is the order of the rows."""

    version: int = VERSION
    cls: ClassPart
    segments: list[SegmentEntry] | None = None
    """In the file: what lists the first shards. In memory `shards` has them."""
    shards: Shards = []


def class_part(cls: Any) -> ClassPart:
    """The description of a class in a manifest."""
    schema = schema_of(cls)
    assert schema is not None  # checked where the class was given
    return ClassPart(module=cls.__module__, name=cls.__qualname__, digest=schema.digest, fields=schema.to_dict())


def stored_schema(manifest: Manifest, path: str) -> Schema:
    """The schema that the rows of the dataset at a path were written with."""
    return schema_in(manifest.cls, os.path.join(path, NAME))


def schema_in(part: ClassPart, path: str) -> Schema:
    """The schema of a class that a file describes.

    Raises:
        FileFormatError: for a wrong description.
    """
    try:
        return Schema.from_dict(part.fields or {})
    except (TensorClassError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise FileFormatError(f"it describes the class {part.name:.100} wrongly: {error!s:.300}", path) from None


def sealed(body: str) -> bytes:
    """A JSON object with its checksum as the first key."""
    return f'{_START}{crc32(body.encode()):08x}",{body[1:]}'.encode()


def read_small(path: str) -> bytes:
    """The bytes of a manifest or an index; of a URL, in one request.

    Raises:
        FileFormatError: if the file is too long.
        OSError: if the file can't be used. The message names the path.
    """
    if is_url(path):
        raw = read_whole(path, _MANY)
        if len(raw) <= _MANY:
            return raw
        raise FileFormatError(f"it has at most {_MANY} bytes, this one has more", path)
    with opened_file(path) as (fd, size):
        if size > _MANY:
            raise FileFormatError(f"it has at most {_MANY} bytes, this one has {size}", path)
        return read_bytes(fd, size, 0, path)


Mark = tuple[int, int]
"""How many shards a snapshot of a dataset has, and a checksum of their ids."""


def mark_of(shards: Sequence[ShardEntry]) -> Mark:
    """The mark of a snapshot that has these shards."""
    return len(shards), crc32("".join([shard.id for shard in shards]).encode())


def up_to_mark(manifest: Manifest, mark: Mark, folder: str) -> Manifest:
    """The manifest without what was written after a snapshot.

    Raises:
        FileFormatError: if it does not list the shards of the snapshot.
    """
    shards = manifest.shards[: mark[0]]
    if mark_of(shards) != mark:
        raise FileFormatError("the dataset was replaced since it was opened; open it again", folder)
    return manifest.model_copy(update={"shards": shards})


def parse_sealed(raw: bytes, path: str, what: str, model: type[P], newest: int = VERSION) -> P:
    """Parse what `sealed` wrote as an instance of a model, of a version up to `newest`; errors call it `what`."""
    head = len(_START)
    if not raw.startswith(_START.encode()) or raw[head + 8 : head + 10] != b'",':
        raise FileFormatError(f"it is not the {what} of a dataset, or is cut off", path, 0)
    body = b"{" + raw[head + 10 :]
    _check_version(body, path, what, newest)
    if raw[head : head + 8] != f"{crc32(body):08x}".encode():
        raise ChecksumError(f"the {what} is not the one that was written", path, 0)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise FileFormatError(f"the {what} is wrong at `{where:.100}`: {first['msg']:.200}", path) from None


def _check_version(body: bytes, path: str, what: str, newest: int) -> None:
    found = re.match(rb'\{"version":(\d{1,9})[,}]', body)
    if found is None:
        raise FileFormatError(f"the {what} says no version, or is cut off", path, 0)
    if not 1 <= int(found[1]) <= newest:
        more = f"this library reads version {newest}; update tensorclass"
        raise FileFormatError(f"the {what} has version {int(found[1])}, {more}", path, 0)
