"""Our metadata: one JSON text in the header that describes the container in a file. It is not trusted.

The fields of each part are in the order in which they are written.

A container is a `NodePart` of entries. A plain tensor is written as its stored name. Keys are in the order of the
container.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeAlias
from zlib import crc32

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import FileFormatError
from ._header import load_json

KEY = "tensorclass"
"""Our key in the metadata of the header."""
VERSION = 1
BLANK = "00000000"
"""The placeholder for the checksum of the header while it is computed."""
START = f'{{"__metadata__":{{"{KEY}":"{{\\"version\\":{VERSION},\\"header_crc32\\":\\"'.encode()
"""The first bytes of every header that we write; the checksum of the header follows."""

Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**62)]
Wrap: TypeAlias = Literal["plain", "data", "meta"]
"""Whether a Python object is stored as it is, or wrapped in a `NonTensorData` or `MetaData`."""


class Part(BaseModel):
    """The base of all parts of the metadata: unknown fields are refused, and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


class TensorPart(Part):
    """A tensor that needs more than a name."""

    kind: Literal["tensor"] = "tensor"
    data: str
    dtype: str | None = None
    grad: bool = False
    role: Literal["parameter", "buffer", "shared", "unbatched"] | None = None


Stored: TypeAlias = Annotated[str | TensorPart, Field(union_mode="left_to_right")]


class RaggedPart(Part):
    """A ragged tensor: the rows of all elements in batch order, and the number of rows of each element."""

    kind: Literal["ragged"] = "ragged"
    values: Stored
    lengths: str


class NestedPart(Part):
    """A nested tensor of torch: values with offsets, or values with the shape of each component."""

    kind: Literal["nested"] = "nested"
    values: Stored
    offsets: str | None = None
    sizes: str | None = None
    dim: Annotated[int, Field(ge=1, lt=64)] = 1
    grad: bool = False
    lengths: str | None = None


class ObjectsPart(Part):
    """One Python object for each element: a table of texts, and the index of each element in it."""

    kind: Literal["objects"] = "objects"
    coding: Literal["text", "json", "declared", "pickle"]
    text: str
    offsets: str
    index: str


class ValuePart(Part):
    """A Python object as JSON, here or in a tensor of bytes."""

    kind: Literal["value"] = "value"
    wrap: Wrap = "plain"
    coding: Literal["json", "declared", "pickle"] = "json"
    data: str | None = None
    value: Any = None


class NonePart(Part):
    """A declared field that is None."""

    kind: Literal["none"] = "none"


class NodePart(Part):
    """A container: dense with entries, or a lazy stack with members."""

    kind: Literal["node"] = "node"
    params: Literal["convert", "keep"] | None = None
    """Set for a `TensorDictParams`: whether tensors that are written to it are converted to parameters."""
    cls: Annotated[int, Field(ge=0)] | None = None
    """The index of its class in the table of classes."""
    locked: bool = False
    size: list[Count] = []
    names: list[str | None] | None = None
    device: str | None = None
    entries: dict[str, Entry] = {}
    dim: Count = 0
    dim_name: str | None = None
    members: list[NodePart] | None = None
    empty: NodePart | None = None
    """For a stack without members, the structure that its members will have."""


Entry: TypeAlias = Annotated[
    str
    | Annotated[
        TensorPart | RaggedPart | NestedPart | ObjectsPart | ValuePart | NonePart | NodePart,
        Field(discriminator="kind"),
    ],
    Field(union_mode="left_to_right"),
]


class CompressedPart(Part):
    """The description of a tensor that is stored as compressed bytes."""

    codec: Literal["deflate", "bzip2", "lzma"]
    dtype: str
    shape: list[Count]


class ClassPart(Part):
    """A class by name, and its declaration when the file was written.

    A class without a schema is a subclass of TensorDict.
    """

    module: str
    name: str
    digest: str | None = None
    fields: dict[str, Any] | None = None


class Metadata(Part):
    """All of our metadata."""

    version: int
    header_crc32: str
    shard: str | None = None
    """The id of this file in the manifest of its dataset."""
    crc32: dict[str, str] | None = None
    """The checksum of each stored tensor, eight hex digits."""
    compressed: dict[str, CompressedPart] = {}
    """The tensors that are stored compressed, by name."""
    classes: list[ClassPart] = []
    root: NodePart


def foreign_metadata(root: NodePart, classes: list[ClassPart] | None = None) -> Metadata:
    """The metadata of a file that another library wrote."""
    return Metadata(version=VERSION, header_crc32=BLANK, root=root, classes=classes or [])


def dump(
    classes: list[dict[str, Any]],
    root: dict[str, Any],
    crc: list[str] | dict[str, str] | None,
    shard: str = "",
    compressed: dict[str, Any] | None = None,
) -> str:
    """The metadata as text, version first. `crc` holds the checksums of tensors, or names to write placeholders for."""
    whole: dict[str, Any] = {"version": VERSION, "header_crc32": BLANK}
    if shard:
        whole["shard"] = shard
    if crc is not None:
        whole["crc32"] = crc if isinstance(crc, dict) else dict.fromkeys(crc, BLANK)
    if compressed:
        whole["compressed"] = compressed
    if classes:
        whole["classes"] = classes
    return json.dumps({**whole, "root": root}, separators=(",", ":"), allow_nan=False)


def seal(header: bytes) -> bytes:
    """A whole header with its checksum filled in."""
    begin = 8 + len(START)
    return header[:begin] + f"{crc32(header):08x}".encode() + header[begin + len(BLANK) :]


def is_sealed(raw: bytes, digits: str) -> bool:
    """Whether a header, without its length prefix, matches its checksum `digits`."""
    begin = len(START)
    if raw[:begin] != START or raw[begin : begin + len(BLANK)] != digits.encode("ascii", "replace"):
        return False
    blank = raw[:begin] + BLANK.encode() + raw[begin + len(BLANK) :]
    return f"{crc32(blank, crc32(len(raw).to_bytes(8, 'little'))):08x}" == digits


def read(text: str, path: str) -> Metadata:
    """The metadata of a file.

    Raises:
        FileFormatError: for another version, and for anything that is not this metadata.
    """
    found = load_json(text, path, "its metadata", 8)
    version = found.get("version") if type(found) is dict else None
    if type(version) is not int or version < 1:
        raise FileFormatError(f"its metadata says no version: {version!r:.40}", path, 8)
    if version != VERSION:
        raise FileFormatError(
            f"it has version {version} of the format, this library reads version {VERSION}; update tensorclass", path, 8
        )
    try:
        return Metadata.model_validate(found)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        first = max(found, key=lambda one: len(one["loc"]))  # the deepest error belongs to the form that was meant
        where = ".".join(map(str, first["loc"])) or "root"
        raise FileFormatError(f"its metadata is wrong at `{where:.200}`: {first['msg']:.200}", path, 8) from None
    except RecursionError:
        raise FileFormatError("its metadata is nested too deeply", path, 8) from None
