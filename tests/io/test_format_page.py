"""docs/file-format.md is enough: a reader written from the page alone reads every kind of entry."""

from __future__ import annotations

import json
import re
import struct
import zlib
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from tensorclass import NonTensorStack, RaggedTensor, TensorDict
from tensorclass.io import _format
from tensorclass.io._dtypes import CARRIED, TORCH
from tensorclass.io._values import _CODINGS, _READERS, _WRITERS
from tests._sources import ROOT
from tests.io.test_typed import everything

PAGE = (ROOT / "docs" / "file-format.md").read_text("utf-8")
NUMPY = {"F32": "<f4", "I64": "<i8", "U8": "u1", "F64": "<f8"}


class Reader:
    """What the page says, with json, struct and numpy."""

    def __init__(self, raw: bytes) -> None:
        (length,) = struct.unpack("<Q", raw[:8])
        self.header = json.loads(raw[8 : 8 + length])
        self.payload = raw[8 + length :]
        self.meta = json.loads(self.header["__metadata__"]["tensorclass"])
        assert (8 + length) % 64 == 0
        head = raw[: 8 + length]
        digits = self.meta["header_crc32"].encode()
        at = int(re.findall(r"start at byte (\d+)", PAGE)[0])
        assert head[at : at + 8] == digits
        assert f"{zlib.crc32(head[:at] + b'0' * 8 + head[at + 8 :]):08x}".encode() == digits

    def raw(self, name: str) -> bytes:
        """The bytes of a stored tensor."""
        begin, end = self.header[name]["data_offsets"]
        assert f"{zlib.crc32(self.payload[begin:end]):08x}" == self.meta["crc32"][name]
        return self.payload[begin:end]

    def tensor(self, name: str) -> np.ndarray[Any, Any]:
        """A stored tensor."""
        about = self.header[name]
        return np.frombuffer(self.raw(name), NUMPY[about["dtype"]]).reshape(about["shape"])

    def entry(self, part: Any) -> Any:
        """What an entry stands for, as plain Python."""
        if isinstance(part, str):
            return self.tensor(part).tolist()
        kind = part["kind"]
        if kind == "node":
            return {key: self.entry(inner) for key, inner in part.get("entries", {}).items()}
        if kind == "tensor":
            return self.tensor(part["data"]).tolist()
        if kind == "ragged":
            ends = np.cumsum(self.tensor(part["lengths"]).reshape(-1))
            return [piece.tolist() for piece in np.split(self.tensor(part["values"]), ends[:-1])]
        if kind == "objects":
            offsets, text = self.tensor(part["offsets"]), self.raw(part["text"])
            table = [text[a:b].decode() for a, b in pairwise(offsets)]
            return [table[i] for i in self.tensor(part["index"]).reshape(-1)]
        return None if kind == "none" else part["value"]


def test_a_reader_from_the_page(tmp_path):
    """Plain, nested, carried, ragged, text, value and absent entries are where the page says."""
    data = TensorDict(
        a=torch.arange(6.0).reshape(2, 3),
        n={"b": torch.arange(2)},
        c=torch.tensor([1 + 2j, 3], dtype=torch.complex128),
        r=RaggedTensor([torch.tensor([1, 2]), torch.tensor([3])]),
        s=NonTensorStack("é", "x"),
        v="text",
        batch_size=[2],
    )
    data.save(tmp_path / "x.safetensors", checksums=True)
    reader = Reader((tmp_path / "x.safetensors").read_bytes())
    assert reader.meta["version"] == 1
    assert reader.meta["root"]["size"] == [2]
    assert reader.entry(reader.meta["root"]) == {
        "a": [[0, 1, 2], [3, 4, 5]],
        "n": {"b": [0, 1]},
        "c": [[1, 2], [3, 0]],
        "r": [[1, 2], [3]],
        "s": ["é", "x"],
        "v": "text",
    }


def test_a_typed_batch(tmp_path):
    """The classes are listed with their schemas, and the node says which is its own."""
    batch = everything()
    batch.save(tmp_path / "x.safetensors", checksums=True)
    reader = Reader((tmp_path / "x.safetensors").read_bytes())
    about = reader.meta["classes"][reader.meta["root"]["cls"]]
    assert about["name"] == "Everything"
    assert [row["name"] for row in about["fields"]["fields"]][:2] == ["image", "color"]
    found = reader.entry(reader.meta["root"])
    assert found["tags"] == ["a", "é\n"]
    assert found["digits"]["label"] == batch.digits.label.tolist()
    assert found["note"] is None


def test_the_page_names_everything():
    """Every dtype, kind, key and form that the code knows is on the page."""
    words = set(re.findall(r"[$\w]+", PAGE))
    parts = [_format.NodePart, _format.TensorPart, _format.RaggedPart, _format.NestedPart, _format.ObjectsPart]
    parts += [_format.ValuePart, _format.NonePart, _format.ClassPart, _format.Metadata]
    keys = {key for part in parts for key in part.model_fields}
    kinds = {part.model_fields["kind"].default for part in parts if "kind" in part.model_fields}
    missing = (keys | kinds | set(TORCH) | set(_READERS)) - words
    missing |= {name for name in CARRIED if not re.fullmatch(r"u?int[2-6]", name)} - words
    assert missing == set()


def test_every_written_form_is_read():
    """Each form of a Python object has a key and a type of its own."""
    assert len(_READERS) == len(_WRITERS) == len(_CODINGS)
