"""Reads what `tensordict` wrote (memmap folders, `.tdz` archives, consolidated files) as our tree and tensors.

Nothing is executed, no file is changed, no link is followed. Missing and short parts are errors.
"""

from __future__ import annotations

import io
import lzma
import os
import pickle
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import prod
from typing import Any
from urllib.parse import unquote

import torch
from torch import Tensor

from .._budget import reserve
from .._places import is_url
from ..core import Path
from ..errors import ArgumentError, FileFormatError, UnsupportedOperationError
from ._atomic import opened_file, read_at, read_bytes
from ._format import ClassPart, Metadata, NodePart, foreign_metadata
from ._header import load_json
from ._map import Extent, in_memory, mapped
from ._mapped_tensor import wrap_all
from ._memory import blank
from ._names import MAX_DEPTH, Names
from ._paths import META, is_folder
from ._remote import fetch, names_in
from ._unpack import Unpacker, find, references
from ._values import encode, to_text

_ENTRIES = ("shape", "device", "_type", "_class", "_names", "_format_version")
"""Names in `meta.json` that are not keys. `tensordict` overwrites the description of a key with such a name."""
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError)
"""What `zipfile` raises; an unknown compression is a `NotImplementedError`, which is a RuntimeError."""
_LIMIT = 1 << 28
"""The largest description or pickled object that is read, in bytes."""


def read_anchor(
    path: str,
    key: Path,
    want: Any,
    *,
    mmap: bool = True,
    write: bool | None = False,
    verify: bool = False,
    allow_pickle: bool = False,
    lenient: bool = False,
    wrap: bool = False,
) -> Any:
    """What is under a key of a folder, an archive or a consolidated file; None for any other file. See `_read.read`.

    Raises:
        FileFormatError: for missing, short or unknown parts.
        UnsupportedOperationError: for checksums, and for writing through to one file.
    """
    write = write is not False
    with _reading(path) as reader:
        if reader is None:
            return None
        if verify or (write and not isinstance(reader, _Folder)):
            what = "checksums" if verify else "writing through to it"
            raise UnsupportedOperationError(f"{path}: `tensordict` wrote it; {what} is for files of this library")
        builder = _Builder(reader, path, allow_pickle)
        meta = foreign_metadata(builder.root(), builder.classes)
        part = find(meta.root, key, path)
        tensors: dict[str, Tensor] = {}
        for name, _ in references(part):
            found = builder.made.get(name)
            tensors[name] = builder.loads[name](mmap, write, wrap) if found is None else found
    return Unpacker(meta, tensors, path, allow_pickle, lenient).build(part, key, want)


def describe(text: str, path: str) -> Metadata:
    """Our metadata for a safetensors file, from what `to_safetensors` of `tensordict` wrote there."""
    builder = _Builder(text, path, False)
    return foreign_metadata(builder.root(), builder.classes)


def is_archive(path: str) -> bool:
    """Whether a path is an archive or a consolidated file, which can't be written through."""
    with _reading(path) as reader:
        return isinstance(reader, (_Archive, _Block))


@contextmanager
def _reading(path: str) -> Iterator[Any]:
    """A block with the reader of a folder or file; None for a file that `tensordict` did not write."""
    if is_folder(path):
        yield _Folder(path)
        return
    with opened_file(path) as (fd, size):
        if read_bytes(fd, min(size, 4), 0, path) == b"PK\x03\x04":
            yield _Archive(fd, size, path)
            return
        count = int.from_bytes(read_bytes(fd, 8, size - 8, path), "little") if size > 8 else 0
        text = read_bytes(fd, count, size - 8 - count, path) if 2 <= count <= min(size - 8, _LIMIT) else b""
        yield _Block(fd, size, path, text) if text.startswith(b'{"cls"') else None


class _Folder:
    """A folder with a file for each tensor."""

    def __init__(self, path: str) -> None:
        self.path = path

    def names(self, where: Path) -> list[str]:
        """The names in a subfolder."""
        here = os.path.join(self.path, *where)
        if is_url(here):
            return names_in(here)
        if where and not stat.S_ISDIR(os.lstat(here).st_mode):
            raise FileFormatError("there is a link or a file in place of a folder", here)
        return os.listdir(here)

    def raw(self, where: Path) -> bytes:
        """The content of a small file."""
        path = os.path.join(self.path, *where)
        with opened_file(path) as (fd, size):
            if size > _LIMIT:
                raise FileFormatError(f"it has {size} bytes, {_LIMIT} at most", path)
            reserve(size, "its description")
            return read_bytes(fd, size, 0, path)

    def tensor(self, where: Path, dtype: torch.dtype, shape: list[int], mmap: bool, write: bool, wrap: bool) -> Tensor:
        """A tensor over its file."""
        path = os.path.join(self.path, *where)
        with opened_file(path, write) as (fd, size):
            place = Extent(0, _need(dtype, shape, size, path, ".".join(where)), dtype, shape)
            return _tensor_at(fd, size, path, place, mmap, write, wrap)


class _Reads(io.RawIOBase):
    """A local or remote file that is read in parts."""

    def __init__(self, fd: int, size: int, path: str) -> None:
        self.fd, self.size, self.path, self.at = fd, size, path, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = max(0, offset + (0, self.at, self.size)[whence])
        return self.at

    def readinto(self, buffer: Any) -> int:
        count = max(0, min(len(buffer), self.size - self.at))
        read_at(self.fd, [memoryview(buffer)[:count]], self.at, self.path)
        self.at += count
        return count


class _Tree(dict[str, "_Tree"]):
    """The names in a folder, each with what is in it."""


class _Archive:
    """A zip file of such a folder."""

    def __init__(self, fd: int, size: int, path: str) -> None:
        self.fd, self.size, self.path = fd, size, path
        try:
            self.zip = zipfile.ZipFile(io.BufferedReader(_Reads(fd, size, path)))
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise FileFormatError(f"it is a damaged zip file: {error!s:.200}", path) from None
        self.known = {info.filename: info for info in self.zip.infolist()}
        if len(self.known) != len(self.zip.infolist()):
            raise FileFormatError("two of its parts have the same name", path)
        self.tree = _Tree()
        for name in self.known:
            here = self.tree
            for part in name.split("/", MAX_DEPTH + 1):
                here = here.setdefault(part, _Tree())

    def names(self, where: Path) -> list[str]:
        """What is in a folder of the archive."""
        here = self.tree
        for part in where:
            here = here.get(part, _Tree())
        return sorted(here.keys() - {""})

    def raw(self, where: Path, most: int = _LIMIT) -> bytes:
        """One member, after its checksum is compared."""
        name = "/".join(where)
        info = self.known.get(name)
        if info is None and any([part.endswith("/data.pkl") for part in self.known]):
            raise FileFormatError("`torch.save` wrote it; `torch.load` reads it", self.path)
        if info is None:
            raise FileFormatError(f"its part {name!r:.200} is missing", self.path)
        if info.file_size > most:
            raise FileFormatError(f"its part {name!r:.200} has {info.file_size} bytes, {most} at most", self.path)
        reserve(info.file_size, f"its part {name!r:.200}, unpacked,")
        try:
            with self.zip.open(info) as part:
                return part.read(most)
        except _DAMAGED as error:
            if isinstance(error, OSError) and is_url(self.path):
                raise
            raise FileFormatError(f"its part {name!r:.200} is damaged: {error!s:.200}", self.path) from None

    def tensor(self, where: Path, dtype: torch.dtype, shape: list[int], mmap: bool, write: bool, wrap: bool) -> Tensor:
        """A tensor over the archive, or unpacked from it."""
        name = "/".join(where)
        info = self.known.get(name)
        size = 0 if info is None else info.file_size
        count = _need(dtype, shape, size, self.path, name)
        if info is not None and (info.compress_type != zipfile.ZIP_STORED or not mmap) and count:
            raw = torch.frombuffer(bytearray(self.raw(where, size)), dtype=torch.uint8)
            return raw[:count].view(dtype).view(shape)
        begin = 0
        if info is not None and count:
            head = read_bytes(self.fd, 30, info.header_offset, self.path)
            lengths = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
            begin = info.header_offset + 30 + lengths
            if head[:4] != b"PK\x03\x04" or begin + count > self.size:
                raise FileFormatError(f"its part {name!r:.200} lies outside of it", self.path, info.header_offset)
        place = Extent(begin, begin + count, dtype, shape)
        return _tensor_at(self.fd, self.size, self.path, place, mmap, False, wrap and mmap)


class _Block:
    """A consolidated file: tensors, their description, and its length."""

    def __init__(self, fd: int, size: int, path: str, text: bytes) -> None:
        self.fd, self.size, self.path = fd, size, path
        self.end = size - 8 - len(text)
        self.text = text


def _tensor_at(fd: int, size: int, path: str, place: Extent, mmap: bool, write: bool, wrap: bool) -> Tensor:
    """A part of a file as a tensor."""
    fetch(path, fd, [(place.begin, place.end)])
    found = mapped(fd, size, path, [place], write)[0] if mmap else in_memory(fd, path, [place])[0]
    if not wrap:
        return found
    return wrap_all({"": found}, {"": place}, path, "r+" if write else "r")[""]


def _need(dtype: torch.dtype, shape: list[int], size: int, path: str, name: str) -> int:
    count = torch.Size(shape).numel() * dtype.itemsize
    if count > size:
        raise FileFormatError(f"it has {size} bytes, {dtype} of shape {shape} needs {count}", path, None, name)
    return count


class _Builder:
    """Converts the descriptions into our tree."""

    def __init__(self, reader: Any, path: str, allow_pickle: bool) -> None:
        self.reader, self.path, self.allow_pickle = reader, path, allow_pickle
        self.names = Names()
        self.loads: dict[str, Callable[[bool, bool, bool], Tensor]] = {}
        self.made: dict[str, Tensor] = {}
        self.classes: list[ClassPart] = []

    def wrong(self, where: Path, what: str) -> FileFormatError:
        """The error for one part."""
        return FileFormatError(what, self.path, None, "/".join(where) or "(root)")

    def root(self) -> NodePart:
        """The tree."""
        try:
            if isinstance(self.reader, str):
                found = load_json(self.reader, self.path, "its description", 8)
                if found["version"] != 1:
                    raise self.wrong((), f"it has version {found['version']!r:.20}, this library reads version 1")
                return NodePart.model_validate(self.described(found["root"]))
            if isinstance(self.reader, _Block):
                return NodePart.model_validate(self.block(load_json(self.reader.text.decode(), self.path, "", 0), ()))
            return NodePart.model_validate(self.node((), ()))
        except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError) as error:
            if isinstance(error, FileFormatError):
                raise
            raise self.wrong((), f"its description is wrong: {type(error).__name__}: {error!s:.200}") from None

    # ---- folders and archives ------------------------------------------------------------------------------------

    def meta(self, where: Path) -> dict[str, Any]:
        """The description of a folder."""
        found = load_json(self.reader.raw((*where, META)).decode(), self.path, "/".join((*where, META)), 0)
        if type(found) is not dict or not isinstance(found.get("_type"), str):
            raise self.wrong(where, "its meta.json describes no container")
        version = found.get("_format_version", 1)
        if version != 1:
            raise self.wrong(where, f"it has version {version!r:.20} of the format, this library reads version 1")
        return found

    def node(self, where: Path, key: Path) -> dict[str, Any]:
        """A folder as a container."""
        if len(where) > MAX_DEPTH:
            raise self.wrong(where[:3], f"folders are nested more than {MAX_DEPTH} levels deep")
        about, listed = self.meta(where), self.reader.names(where)
        kind = about["_type"].removeprefix("<class '").removesuffix("'>")
        if kind.endswith(".LazyStackedTensorDict"):
            members = sorted([int(name) for name in listed if name.isdecimal()])
            if members != list(range(len(members))) or not members:
                raise self.wrong(where, f"its members are {members}, one is missing")
            found = [self.node((*where, str(i)), (*key, str(i))) for i in members]
            dim, name = about["stack_dim"], about.get("stack_dim_name")
            return {"kind": "node", "members": found, "dim": dim, "dim_name": name}
        if "_tensordict" in listed and "shape" not in about:
            return {**self.node((*where, "_tensordict"), key), "cls": self.cls(kind)}
        if not isinstance(about.get("shape"), list):
            raise self.wrong(where, f"a {kind!r:.80} is not a known container")
        entries = self.entries(where, key, about, listed)
        names, device = about.get("_names"), about.get("device")
        return {"kind": "node", "size": about["shape"], "names": names, "device": device, "entries": entries}

    def entries(self, where: Path, key: Path, about: dict[str, Any], listed: list[str]) -> dict[str, Any]:
        """The entries of a folder."""
        files = self._files_by_key(where, listed)
        lost = [name for name in _ENTRIES if f"{name}.memmap" in files or name in files]
        if lost:
            raise self.wrong(where, f"the description of its entry {lost[0]!r} was lost when it was written")
        found: dict[str, Any] = {}
        for name, part in about.items():
            inside = (*key, name)
            if name in _ENTRIES:
                continue
            if "dtype" in part:
                sizes = files.get(f"{name}.shape.memmap")
                found[name] = self.leaf(where, inside, files.get(f"{name}.memmap"), sizes, part)
            elif name not in files:
                raise self.wrong((*where, name), "it is missing")
            elif part["type"] in ("NonTensorData", "MetaData", "NonTensorStack"):
                below = (*where, files[name])
                found[name] = self.value(below, inside, self.meta(below))
            else:
                found[name] = self.node((*where, files[name]), inside)
        return found

    def _files_by_key(self, where: Path, listed: list[str]) -> dict[str, str]:
        """The files of a folder; their names are percent-encoded keys."""
        files: dict[str, str] = {}
        for name in listed:
            if files.setdefault(unquote(name), name) != name:
                raise self.wrong(where, f"two of its files stand for the key {unquote(name)!r:.80}")
        return files

    def leaf(self, where: Path, key: Path, file: str | None, sizes: str | None, part: dict[str, Any]) -> Any:
        """A tensor in a file."""
        dtype, shape = _dtype(part["dtype"]), _shape(part["shape"])
        if file is None:
            if 0 in shape:  # such a tensor has no file
                return self.keep(key, blank(dtype, shape))
            raise self.wrong((*where, key[-1]), "its values are missing")
        at = (*where, file)
        if not part.get("is_nested"):
            return self.later(key, lambda *how: self.reader.tensor(at, dtype, shape, *how))
        if sizes is None:
            raise self.wrong((*where, key[-1]), "the shapes of its elements are missing")
        rows = self.reader.tensor((*where, sizes), torch.int64, shape, False, False, False)
        if rows.numel() and int(rows.min()) < 0:
            raise self.wrong((*where, key[-1]), "the shapes of its elements are negative")
        total = [int(rows.prod(1).sum())]
        values = self.later((*key, "values"), lambda *how: self.reader.tensor(at, dtype, total, *how))
        return {"kind": "nested", "values": values, "sizes": self.keep((*key, "sizes"), rows)}

    def value(self, where: Path, key: Path, about: dict[str, Any]) -> Any:
        """A Python object: JSON in the description, or a pickle beside it."""
        stack, is_meta = [about["_type"].endswith(f".{name}'>") for name in ("NonTensorStack", "MetaData")]
        in_json = "data" in about and not (stack and isinstance(about["data"], str))
        if in_json and not stack:
            return self.json(about["data"], "meta" if is_meta else "data")
        if in_json:
            return self.objects(about["data"], key)
        if not self.allow_pickle:
            what = "it is pickled, and a pickle can run any code; pass allow_pickle=True for a file that you trust"
            raise self.wrong(where, what)
        loaded = pickle.loads(self.reader.raw((*where, "pickle.pkl" if stack else "other.pickle")))
        if stack:
            return self.objects(loaded, key)
        held = loaded["data"] if isinstance(loaded, dict) and set(loaded) == {"data"} else loaded
        raw = torch.frombuffer(bytearray(pickle.dumps(held)), dtype=torch.uint8)
        return {"kind": "value", "coding": "pickle", "wrap": "data", "data": self.keep(key, raw)}

    # ---- safetensors files ---------------------------------------------------------------------------------------

    def described(self, about: Any) -> dict[str, Any]:
        """A container of a safetensors file. Lazy stacks are stored dense, and are read as dense containers."""
        entries: dict[str, Any] = {}
        for name, part in about["keys"].items():
            if "td" in part:
                entries[name] = self.described(part["td"])
            elif "tensor" in part:
                plain = part["tensor"]
                entries[name] = {"kind": "tensor", "data": plain, "role": "unbatched"} if "unbatched" in part else plain
            else:
                entries[name] = self.json(part["non_tensor"], "data")
        found = {"kind": "node", "size": about["batch_size"], "names": about["names"], "entries": entries}
        kind = about.get("class")
        return found if kind is None else {**found, "cls": self.cls(kind.removeprefix("<class '").removesuffix("'>"))}

    # ---- consolidated files --------------------------------------------------------------------------------------

    def block(self, about: Any, key: Path) -> dict[str, Any]:
        """A container of a consolidated file."""
        if len(key) > MAX_DEPTH:
            raise self.wrong(key[:3], f"containers are nested more than {MAX_DEPTH} levels deep")
        more, leaves, objects = about["cls_metadata"], about["leaves"], about["non_tensors"]
        fixed = ("cls", "cls_metadata", "leaves", "non_tensors")
        nested = {name: part for name, part in about.items() if name not in fixed}
        if "stack_dim" in more:
            members = [self.block(nested[str(i)], (*key, str(i))) for i in range(len(nested))]
            return {"kind": "node", "members": members, "dim": more["stack_dim"], "dim_name": more["stack_dim_name"]}
        entries: dict[str, Any] = {}
        for name, (dtype, shape, begin, end, pad) in leaves.items():
            entries[name] = self.cut((*key, name), _dtype(dtype), _shape(shape), begin, end - pad)
        for name, held in objects.items():
            entries[name] = self.json(held[0], "data")
        for name, part in nested.items():
            if part["cls"] == "NonTensorStack":
                entries[name] = self.objects(_list_objects(part), (*key, name))
            else:
                entries[name] = self.block(part, (*key, name))
        names, device = more["names"], more["device"]
        names = None if not any(names or ()) else names
        return {"kind": "node", "size": more["batch_size"], "names": names, "device": device, "entries": entries}

    def cut(self, key: Path, dtype: torch.dtype, shape: list[int], begin: Any, end: Any) -> str:
        """A tensor of a consolidated file."""
        count = torch.Size(shape).numel() * dtype.itemsize
        if type(begin) is not int or not 0 <= begin <= end <= self.reader.end or end - begin != count:
            raise self.wrong(key, f"{dtype} of shape {shape} is said to lie at {begin!r:.20} to {end!r:.20}")
        place = Extent(begin, end, dtype, shape)
        it = self.reader
        return self.later(
            key, lambda mmap, _, wrap: _tensor_at(it.fd, it.size, it.path, place, mmap, False, wrap and mmap)
        )

    # ---- parts ---------------------------------------------------------------------------------------------------

    def later(self, key: Path, load: Callable[[bool, bool, bool], Tensor]) -> str:
        """Register a tensor that is read on demand; returns its name."""
        name: str = self.names.take(key)
        self.loads[name] = load
        return name

    def keep(self, key: Path, tensor: Tensor) -> str:
        """Register an existing tensor; returns its name."""
        name: str = self.names.take(key)
        self.made[name] = tensor
        return name

    def json(self, value: Any, wrap: str) -> dict[str, Any]:
        """A JSON value."""
        return {"kind": "value", "value": encode(value), "wrap": wrap}

    def objects(self, data: Any, key: Path) -> dict[str, Any]:
        """One JSON value for each element; lists nest by batch dims."""
        flat, shape = [data], list[int]()
        while flat and all([isinstance(value, list) for value in flat]) and len({len(value) for value in flat}) == 1:
            shape.append(len(flat[0]))
            flat = [inner for value in flat for inner in value]
        forms = [to_text(encode(value)).encode() for value in flat]
        text = torch.frombuffer(bytearray(b"".join(forms)), dtype=torch.uint8) if forms else blank(torch.uint8, [0])
        offsets = torch.tensor([0, *map(len, forms)], dtype=torch.int64, device="cpu").cumsum(0)
        index = torch.arange(len(flat), device="cpu").view(shape)
        return {
            "kind": "objects",
            "coding": "json",
            "text": self.keep((*key, "text"), text),
            "offsets": self.keep((*key, "offsets"), offsets),
            "index": self.keep((*key, "index"), index),
        }

    def cls(self, kind: str) -> int:
        """The index of a class in the table; its name is searched among imported classes."""
        parts = kind.split(".")
        cuts = [i for i in range(1, len(parts)) if ".".join(parts[:i]) in sys.modules]
        cut = max(cuts, default=len(parts) - 1)
        module, name = ".".join(parts[:cut]), ".".join(parts[cut:])
        self.classes.append(ClassPart.model_validate({"module": module, "name": name, "digest": ""}))
        return len(self.classes) - 1


def _list_objects(part: dict[str, Any]) -> list[Any]:
    """The values of a stack of objects in a consolidated file."""
    inner = {name: value[0] for name, value in part["non_tensors"].items()}
    inner |= {name: _list_objects(value) for name, value in part.items() if name.isdecimal()}
    return [inner[str(i)] for i in range(len(inner))]


def _dtype(text: str) -> torch.dtype:
    found = getattr(torch, text.removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):
        raise ArgumentError(f"{text!r:.40} is not a dtype of torch")
    return found


def _shape(given: Any) -> list[int]:
    if type(given) is not list or any([type(n) is not int or not 0 <= n < 1 << 63 for n in given]):
        raise ArgumentError(f"{given!r:.80} is not a shape")
    if prod(given) >= 1 << 60:
        raise ArgumentError(f"{given!r:.80} is too large")
    return given


def is_zip(path: str) -> bool:
    """Whether a file is an archive that `tensordict` wrote; False for a damaged one."""
    with suppress(FileFormatError), _reading(path) as reader:
        return isinstance(reader, _Archive) and META in reader.known
    return False
