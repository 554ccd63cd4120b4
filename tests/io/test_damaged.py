"""Damaged, foreign and hostile files: an error that names the file, or the right data; nothing else."""

from __future__ import annotations

import json
import os
import pickle
import random
import resource
import socket
import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

import tensorclass as tc
from tensorclass import NonTensorData, NonTensorStack, RaggedTensor, TensorDict
from tensorclass.errors import ChecksumError, FileFormatError, UnsupportedOperationError
from tests.io._damage import EXPECTED, change_meta, join, split
from tests.io._exact import assert_same
from tests.io.test_typed import everything

A = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
B = {"dtype": "U8", "shape": [4], "data_offsets": [8, 12]}
PAYLOAD = bytes(range(12))


def entry(**changes: Any) -> dict[str, Any]:
    """The description of one tensor of 8 bytes, changed."""
    return {"a": {**A, **changes}}


HEADERS: dict[str, tuple[Any, bytes, str]] = {
    "empty": (b"", b"", "JSON"),
    "a list": ([], b"", "object"),
    "a number": (3, b"", "object"),
    "a text": ("x", b"", "object"),
    "no JSON": (b"{'a': 1}", b"", "JSON"),
    "two values": (b"{} {}", b"", "JSON"),
    "deep": (b"[" * 100_000, b"", "deep|JSON"),
    "deep objects": (b'{"a":' * 50_000, b"", "deep|JSON"),
    "deep metadata": (b'{"__metadata__":{"tensorclass":"' + b"[" * 100_000 + b'"}}', b"", "deep|JSON"),
    "invalid UTF-8": (b'{"\xff\xfe":1}', b"", "UTF-8"),
    "a long number": (b'{"a":' + b"1" * 10_000 + b"}", b"", "refused|description|described"),
    "nan": (b'{"a":NaN}', b"", "NaN|described"),
    "a name twice": (
        b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}}',
        PAYLOAD[:8],
        "twice",
    ),
    "an escaped name twice": (
        b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"\\u0061":{"dtype":"I32","shape":[2],'
        b'"data_offsets":[0,8]}}',
        PAYLOAD[:8],
        "twice",
    ),
    "a key twice": (
        b'{"a":{"dtype":"F32","dtype":"I32","shape":[2],"data_offsets":[0,8]}}', PAYLOAD[:8], "twice"
    ),
    "an escaped key twice": (
        b'{"a":{"dtype":"F32","d\\u0074ype":"I32","shape":[2],"data_offsets":[0,8]}}', PAYLOAD[:8], "twice"
    ),
    "metadata twice": (b'{"__metadata__":{"a":"b"},"__metadata__":{"a":"c"}}', b"", "twice"),
    "metadata behind and in front": (
        b'{"__metadata__":{"a":"b"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{}}',
        PAYLOAD[:8],
        "twice",
    ),
    "a tensor hidden behind metadata": (b'{"__metadata__":{},"a":{"dtype":"F32"}}', b"", "described"),
    "metadata of numbers": ({"__metadata__": {"a": 1}}, b"", "texts"),
    "metadata as a list": ({"__metadata__": []}, b"", "texts"),
    "a tensor as a number": ({"a": 1}, b"", "described"),
    "no dtype": ({"a": {"shape": [2], "data_offsets": [0, 8]}}, PAYLOAD[:8], "described"),
    "one key more": (entry(extra=1), PAYLOAD[:8], "described"),
    "unknown dtype": (entry(dtype="F31"), PAYLOAD[:8], "F31.*known are"),
    "a dtype that torch lacks": (entry(dtype="F6_E2M3"), PAYLOAD[:8], "torch has no dtype"),
    "a dtype of another type": (entry(dtype=["F32"]), PAYLOAD[:8], "dtype"),
    "another size": (entry(dtype="F64"), PAYLOAD[:8], "16 bytes"),
    "negative shape": (entry(shape=[-2]), PAYLOAD[:8], "sizes from 0"),
    "two negative sizes": (entry(shape=[-2, -1]), PAYLOAD[:8], "sizes from 0"),
    "a fraction": (entry(shape=[2.0]), PAYLOAD[:8], "sizes from 0"),
    "a bool": (entry(shape=[True, 2]), PAYLOAD[:8], "sizes from 0"),
    "a text as shape": (entry(shape="2"), PAYLOAD[:8], "sizes from 0"),
    "a huge shape": (entry(shape=[2**62, 2**62]), PAYLOAD[:8], "sizes from 0"),
    "an overflow": (entry(shape=[2**32, 2**32, 2**32]), PAYLOAD[:8], "bytes"),
    "a huge empty shape": (entry(shape=[0, 2**63], data_offsets=[0, 0]), b"", "sizes from 0"),
    "a huge rank": (entry(shape=[1] * 100_000 + [2]), PAYLOAD[:8], "at most 64"),
    "negative offsets": (entry(data_offsets=[-8, 0]), PAYLOAD[:8], "numbers from 0"),
    "falling offsets": (entry(data_offsets=[8, 0]), PAYLOAD[:8], "not above"),
    "one offset": (entry(data_offsets=[8]), PAYLOAD[:8], "two numbers"),
    "huge offsets": (entry(data_offsets=[2**70, 2**70 + 8]), PAYLOAD[:8], "numbers from 0"),
    "a hole in front": (entry(data_offsets=[4, 12]), PAYLOAD, "unused bytes"),
    "a hole": ({"a": A, "b": {**B, "data_offsets": [9, 13]}}, PAYLOAD + b"x", "unused bytes"),
    "overlapping": ({"a": A, "b": {**B, "data_offsets": [4, 8]}}, PAYLOAD[:8], "overlaps"),
    "the same place": ({"a": A, "b": {**A, "dtype": "I32"}}, PAYLOAD[:8], "overlaps"),
    "inside of another": ({"a": A, "b": {**B, "shape": [2], "data_offsets": [2, 4]}}, PAYLOAD[:8], "overlaps"),
    "cut off": ({"a": A, "b": B}, PAYLOAD[:11], "cut off"),
    "bytes behind": ({"a": A, "b": B}, PAYLOAD + b"x", "1 bytes follow"),
    "an odd F4": ({"a": {"dtype": "F4", "shape": [2, 1], "data_offsets": [0, 1]}}, b"x", "even last dim"),
    "half a byte": ({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}, b"xx", "1.5 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_headers(name, tmp_path):
    """Each wrong header is an error with the path and the reason, mapped and in memory; the file is not touched."""
    header, payload, reason = HEADERS[name]
    path = tmp_path / "x.safetensors"
    path.write_bytes(join(header, payload))
    before = path.read_bytes()
    for read in (tc.load, TensorDict.load, lambda path: tc.load(path, mmap=False)):
        with pytest.raises(FileFormatError, match=reason) as caught:
            read(path)
        assert str(path) in str(caught.value)
        assert caught.value.path == str(path)
    assert path.read_bytes() == before


def test_right_headers(tmp_path):
    """Headers in another order and with spaces are right."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(join(b' { "b" : ' + json.dumps(B).encode() + b', "a":' + json.dumps(A).encode() + b"}  ", PAYLOAD))
    found = tc.load(path)
    assert found["b"].tolist() == [8, 9, 10, 11]
    assert set(found.keys()) == {"a", "b"}


@pytest.mark.parametrize("size", range(24))
def test_short_files(size, tmp_path):
    """A file that ends anywhere in its first bytes is cut off."""
    path = tmp_path / "x.safetensors"
    TensorDict(a=torch.ones(2)).save(path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(FileFormatError, match=r"cut off|8 bytes"):
        tc.load(path)


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 100_000_001, 10**6])
def test_length_of_the_header(length, tmp_path):
    """A header that is longer than the file, or than any header, is refused before anything is allocated."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{}")
    with pytest.raises(FileFormatError, match="header"):
        tc.load(path)


def source() -> TensorDict:
    """A container with entries of every kind."""
    return TensorDict(
        {
            "a": torch.arange(6.0).reshape(2, 3),
            "c": torch.ones(2, dtype=torch.complex128),
            "n": {"b": torch.ones(2)},
            "r": RaggedTensor([torch.ones(2), torch.ones(1)]),
            "o": NonTensorStack("x", "yy"),
            "v": NonTensorData([1]),
        },
        batch_size=[2],
    )


def root(meta: Any, **changes: Any) -> None:
    """Change the root of the tree."""
    meta["root"].update(changes)


def at(meta: Any, key: str, **changes: Any) -> None:
    """Change one entry of the tree."""
    meta["root"]["entries"][key].update(changes)


def more(meta: Any, key: str, **about: Any) -> None:
    """Say more about a plain tensor."""
    meta["root"]["entries"][key] = {"kind": "tensor", "data": meta["root"]["entries"][key], **about}


def swap(meta: Any, parts: dict[str, str]) -> None:
    """Exchange the stored names of two parts."""
    (one, first), (other, second) = parts.items()
    entries = meta["root"]["entries"]
    entries[one][first], entries[other][second] = entries[other][second], entries[one][first]


METAS: dict[str, tuple[Any, str]] = {
    "no version": (lambda m: m.pop("version"), "no version"),
    "a future version": (lambda m: m.update(version=2), "version 2 .*reads version 1"),
    "version of another type": (lambda m: m.update(version="1"), "no version"),
    "version zero": (lambda m: m.update(version=0), "no version"),
    "unknown key": (lambda m: m.update(more=1), "more"),
    "no root": (lambda m: m.pop("root"), "root"),
    "root as a tensor": (lambda m: m.update(root="a"), "root"),
    "an absent tensor": (lambda m: m["root"]["entries"].update(z="zz"), "not there.*zz"),
    "an absent nested tensor": (lambda m: m["root"]["entries"]["n"]["entries"].update(b="zz"), "not there.*zz"),
    "a tensor that is not named": (lambda m: m["root"]["entries"].pop("a"), "does not name.*`a`"),
    "negative batch size": (lambda m: root(m, size=[-2]), "size"),
    "another batch size": (lambda m: root(m, size=[3]), r"does not begin with the batch size \[3\]"),
    "a huge batch size": (lambda m: root(m, size=[2**62]), "size"),
    "nested batch size": (lambda m: at(m, "n", size=[3]), "does not begin"),
    "names of another number": (lambda m: root(m, names=["a", "b"]), "names"),
    "a name twice": (lambda m: (root(m, size=[2, 2], names=["a", "a"], entries={"n": "a"})), "distinct|does not name"),
    "names that are numbers": (lambda m: root(m, names=[1]), "names"),
    "a class that is not listed": (lambda m: root(m, cls=5), "number 5"),
    "unknown kind": (lambda m: at(m, "v", kind="code"), "kind"),
    "unknown coding": (lambda m: at(m, "v", coding="eval"), "coding"),
    "an unknown form": (lambda m: at(m, "v", value={"$import": "os"}), r"\$import"),
    "a wrong form": (lambda m: at(m, "v", value={"$tuple": 3}), r"\$tuple"),
    "a wrong array": (lambda m: at(m, "v", value={"$array": ["<f8", [2**40], ""]}), r"\$array|array"),
    "an array of objects": (lambda m: at(m, "v", value={"$array": ["|O", [1], "AAAAAAAAAAA="]}), "refused"),
    "a dtype that torch lacks": (lambda m: at(m, "c", dtype="float7"), "float7"),
    "a dtype that does not fit": (lambda m: at(m, "c", dtype="uint4"), "carried by U8"),
    "dtype of another tensor": (lambda m: more(m, "a", dtype="complex128"), "carried by F64"),
    "a role that is none": (lambda m: more(m, "a", role="code"), "role"),
    "lengths of another shape": (lambda m: swap(m, {"r": "lengths", "o": "offsets"}), "lengths have shape|offsets"),
    "lengths that don't add up": (lambda m: swap(m, {"r": "lengths", "o": "index"}), "add up|outside"),
    "bytes that are numbers": (lambda m: swap(m, {"r": "values", "o": "text"}), "bytes|add up"),
    "no number for the checksum": (lambda m: m.update(crc32={"a": "0" * 8}), "checksums are not"),
    "members and no stack": (lambda m: root(m, members=[]) or m["root"].pop("entries"), "name|members"),
}  # fmt: skip


@pytest.mark.parametrize("name", METAS)
def test_metadata(name, tmp_path):
    """Metadata that contradicts itself or the tensors is an error without `verify`; nothing is guessed."""
    change, reason = METAS[name]
    path = tmp_path / "x.safetensors"
    source().save(path)
    change_meta(path, change)
    before = path.read_bytes()
    for mmap in (True, False):
        with pytest.raises(FileFormatError, match=reason) as caught:
            tc.load(path, mmap=mmap)
        assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_unchanged_metadata(tmp_path):
    """The helper of the tests above changes nothing else: without a change the file is read."""
    path = tmp_path / "x.safetensors"
    data = source()
    data.save(path)
    change_meta(path, lambda meta: None)
    assert_same(tc.load(path), data)


def test_a_header_that_was_changed(tmp_path):
    """A key with another name is found by the checksum of the header, which every file has."""
    path = tmp_path / "x.safetensors"
    TensorDict(image=torch.ones(2), text="hello").save(path)
    path.write_bytes(path.read_bytes().replace(b"hello", b"jello"))
    with pytest.raises(ChecksumError, match="header"):
        tc.load(path)


def test_checksums(tmp_path):
    """A changed byte of the payload is found by `verify=True` with field and offset; a part is verified by itself."""
    path = tmp_path / "x.safetensors"
    data = source()
    data.save(path, checksums=True)
    for mmap in (True, False):
        assert_same(tc.load(path, verify=True, mmap=mmap), data)
    raw = bytearray(path.read_bytes())
    header, payload = split(bytes(raw))
    begin = len(raw) - len(payload) + header["n.b"]["data_offsets"][0]
    raw[begin + 3] ^= 1
    path.write_bytes(bytes(raw))
    for mmap in (True, False):
        with pytest.raises(ChecksumError, match=r"field `n\.b`") as caught:
            tc.load(path, verify=True, mmap=mmap)
        assert caught.value.offset == begin
    assert tc.load(path, subpath="a", verify=True).shape == (2, 3)
    with pytest.raises(ChecksumError):
        tc.load(path, subpath="n", verify=True)


def test_no_checksums(tmp_path):
    """`verify=True` on a file without checksums is an error."""
    source().save(tmp_path / "x.safetensors")
    with pytest.raises(FileFormatError, match="without checksums"):
        tc.load(tmp_path / "x.safetensors", verify=True)


class Payload:
    """Code, when it is unpickled."""

    ran = False

    def __reduce__(self) -> Any:
        return _run, ()


def _run() -> int:
    Payload.ran = True
    return 7


def test_pickles(tmp_path):
    """Objects that JSON can't hold are refused by name, and pickles are loaded when both sides ask for it."""
    path = tmp_path / "x.safetensors"
    data = TensorDict({"a": torch.ones(2), ("n", "code"): NonTensorData(Payload())}, batch_size=[2])
    stack = TensorDict(o=NonTensorStack(Payload(), 3), batch_size=[2])
    for batch, name in ((data, r"n\.code"), (stack, "o")):
        with pytest.raises(UnsupportedOperationError, match=rf"field `{name}`.*Payload.*allow_pickle=True"):
            batch.save(path)
        assert not path.exists()
        Payload.ran = False
        batch.save(path, allow_pickle=True)
        with pytest.raises(FileFormatError, match=rf"pickled.*{name}"):
            tc.load(path)
        assert not Payload.ran
        tc.load(path, allow_pickle=True)
        assert Payload.ran
        path.unlink()


def test_a_pickle_in_the_place_of_a_file(tmp_path):
    """A file that is a pickle is refused unread, also with `allow_pickle=True`."""
    Payload.ran = False
    (tmp_path / "data.safetensors").write_bytes(pickle.dumps(Payload()))
    (tmp_path / "other.pickle").write_bytes(pickle.dumps(Payload()))
    with pytest.raises(FileFormatError):
        tc.load(tmp_path, allow_pickle=True)
    assert not Payload.ran


@pytest.mark.parametrize("kind", ["link", "dangling", "directory", "fifo", "socket"])
def test_other_things_in_the_place_of_a_file(kind, tmp_path, monkeypatch):
    """Links, directories, FIFOs and sockets are refused at once, for reading and for writing, and stay as they are."""
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    path, victim = Path("x.safetensors"), Path("victim.safetensors")
    TensorDict(a=torch.ones(2)).save(victim)
    before = victim.read_bytes()
    held = socket.socket(socket.AF_UNIX)
    {
        "link": lambda: path.symlink_to(victim.absolute()),
        "dangling": lambda: path.symlink_to("nothing"),
        "directory": path.mkdir,
        "fifo": lambda: os.mkfifo(path),
        "socket": lambda: held.bind(str(path)),
    }[kind]()
    mode = path.lstat().st_mode
    for action in (lambda: tc.load(path), lambda: TensorDict(a=torch.zeros(3)).save(path)):
        with pytest.raises(OSError, match=r"x\.safetensors"):
            action()
    held.close()
    assert path.lstat().st_mode == mode
    assert victim.read_bytes() == before
    assert not [name for name in os.listdir(".") if name.endswith(".tmp")]


def test_devices():
    """A device is refused."""
    with pytest.raises(OSError, match="/dev/zero"):
        tc.load("/dev/zero")


def test_links_in_a_parent_folder(tmp_path):
    """A link to a folder on the way is fine."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    TensorDict(a=torch.ones(2)).save(tmp_path / "link" / "d")
    assert tc.load(tmp_path / "link" / "d")["a"].tolist() == [1, 1]


@pytest.mark.parametrize("name", ["nothing.safetensors", "nothing", "nothing/at/all", "folder", "folder/0"])
def test_nothing_there(name, tmp_path):
    """A path under which there is nothing is named in the error."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileNotFoundError, match=name):
        tc.load(tmp_path / name)


def test_a_file_in_the_place_of_a_folder(tmp_path):
    """A path without the ending is a folder, and a file there is not replaced."""
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(NotADirectoryError, match=r"notes|safetensors"):
        TensorDict(a=torch.ones(2)).save(tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.parametrize("path", [3, None, b"x", 1.5])
def test_paths_that_are_none(path):
    """Anything else than a path is a TypeError."""
    with pytest.raises(TypeError):
        TensorDict(a=torch.ones(2)).save(path)
    with pytest.raises(TypeError):
        tc.load(path)


@pytest.mark.parametrize("options", [{"mode": "w"}, {"mode": "r+", "mmap": False}])
def test_wrong_options(options, tmp_path):
    """Options that make no sense are refused."""
    TensorDict(a=torch.ones(2)).save(tmp_path)
    with pytest.raises(ValueError, match="mode"):
        tc.load(tmp_path, **options)


# ---- fuzz --------------------------------------------------------------------------------------------------------


def samples() -> list[tuple[bytes, Any]]:
    """Files with checksums, and what they hold."""
    found = []
    for batch in (source(), everything(), TensorDict(a=torch.arange(300), b={"c": torch.ones(2, 3)})):
        with tempfile.TemporaryDirectory() as folder:
            batch.save(f"{folder}/x.safetensors", checksums=True)
            found.append((Path(folder, "x.safetensors").read_bytes(), batch))
    return found


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """One way or another in which a file is damaged."""
    data = bytearray(raw)
    head = 8 + int.from_bytes(raw[:8], "little")
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        place = rng.randrange(rng.choice([8, head, len(data), len(data)]) or 1) % max(len(data), 1)
        way = rng.randrange(7)
        if way == 0:
            data[place : place + 1] = bytes([rng.randrange(256)])
        elif way == 1:
            data[place : place + 1] = bytes([data[place] ^ (1 << rng.randrange(8))])
        elif way == 2:
            del data[rng.randrange(len(data)) :]
        elif way == 3:
            del data[place : place + rng.randrange(1, 20)]
        elif way == 4:
            data[place:place] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 20)))
        elif way == 5:
            data[place : place + 1] = bytes([rng.choice(b'0123456789"{}[],:-')])
        else:
            other = rng.randrange(len(data))
            data[place : place + 8], data[other : other + 8] = data[other : other + 8], data[place : place + 8]
        if not data:
            break
    return bytes(data)


def fuzz(count: int, folder: Path, seed: int) -> None:
    """Damaged files are errors or the right data; they are never changed, and memory stays bounded."""
    rng = random.Random(seed)
    files = samples()
    path = folder / "x.safetensors"
    for _ in range(count):
        raw, batch = rng.choice(files)
        bad = damaged(raw, rng)
        path.write_bytes(bad)
        try:
            found = tc.load(path, verify=True, mmap=rng.random() < 0.5)
        except EXPECTED as error:
            text = str(error)
        else:
            text = str(path)
            assert_same(found, batch)
        assert str(path) in text
        with open(path, "rb") as file:
            assert file.read() == bad
        try:
            tc.load(path)  # without checksums other values may come, and nothing worse
        except EXPECTED as error:
            text = str(error)
        assert str(path) in text


def test_fuzz(tmp_path):
    """A few hundred damaged files."""
    fuzz(200, tmp_path, 0)


@pytest.mark.slow
def test_fuzz_long(tmp_path):
    """Twenty thousand damaged files, in bounded memory."""
    fuzz(200, tmp_path, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fuzz(20_000, tmp_path, 2)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
