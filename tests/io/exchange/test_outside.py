"""Stores that are not trusted: nothing outside of a file or folder is read or written through it."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
import zarr

from tensorclass import PersistentTensorDict, TensorDict, convert, from_h5, from_zarr, load
from tensorclass.errors import FileFormatError, MemoryBudgetError, UnsupportedOperationError

SECRET = bytes(range(40))


def _secret_h5(path):
    """Another file, whose array must stay unread and unchanged."""
    with h5py.File(path, "w") as file:
        file["x"] = np.frombuffer(SECRET, "u1")
        file["g/x"] = np.frombuffer(SECRET, "u1")


def _external_storage(file, folder):
    (folder / "secret").write_bytes(SECRET)
    file.create_dataset("a", (40,), "u1", external=[(str(folder / "secret"), 0, 40)])


def _virtual(file, folder):
    layout = h5py.VirtualLayout((40,), "u1")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "x", (40,))
    file.create_virtual_dataset("a", layout)


def _virtual_in_same_file(file, folder):
    file["b"] = np.zeros(40, "u1")
    layout = h5py.VirtualLayout((40,), "u1")
    layout[:] = h5py.VirtualSource(".", "b", (40,))
    file.create_virtual_dataset("a", layout)


def _external_link(file, folder):
    file["a"] = h5py.ExternalLink(str(folder / "other.h5"), "/x")


def _external_group(file, folder):
    file["a"] = h5py.ExternalLink(str(folder / "other.h5"), "/g")


def _soft_link_out(file, folder):
    file["door"] = h5py.ExternalLink(str(folder / "other.h5"), "/")
    file["a"] = h5py.SoftLink("/door/x")


def _relative_soft_link_out(file, folder):
    file["n/door"] = h5py.ExternalLink(str(folder / "other.h5"), "/")
    file["n/a"] = h5py.SoftLink("door/x")


def _soft_link_in_chain(file, folder):
    _soft_link_out(file, folder)
    file["b"] = h5py.SoftLink("a")


def _link_to_pipe(file, folder):
    os.mkfifo(folder / "pipe")
    file["a"] = h5py.ExternalLink(str(folder / "pipe"), "/x")


OUT = [
    _external_storage, _virtual, _virtual_in_same_file, _external_link, _external_group, _soft_link_out,
    _relative_soft_link_out, _soft_link_in_chain, _link_to_pipe,
]  # fmt: skip


def _dangling(file, folder):
    file["a"] = h5py.SoftLink("/no/where")


def _dangling_in_array(file, folder):
    file["b"] = np.zeros(2)
    file["a"] = h5py.SoftLink("/b/c")


def _circular(file, folder):
    file["a"], file["b"] = h5py.SoftLink("/b"), h5py.SoftLink("/a")


def _itself(file, folder):
    group = file.create_group("a")
    group["self"] = group


def _above(file, folder):
    group = file.create_group("a/b")
    group["up"] = group.parent


def _root(file, folder):
    file["a"] = file["/"]


def _soft_above(file, folder):
    file.create_group("a")
    file["a/root"] = h5py.SoftLink("/")


def _empty(file, folder):
    file["a"] = h5py.Empty("f4")


def _named_type(file, folder):
    file["a"] = np.dtype("f4")


def _deep(file, folder):
    file["/".join(["a"] * 300)] = np.zeros(2)


def _doubling_links(file, folder):
    """Links to links: 2^30 steps to follow."""
    file["s30"] = h5py.SoftLink(".")
    for i in range(30):
        file[f"s{i}"] = h5py.SoftLink(f"s{i + 1}/s{i + 1}")
    file["a"] = h5py.SoftLink("s0")


def _doubling_groups(file, folder):
    """Groups that are reached on 2^30 paths."""
    here = file.create_group("a")
    for _ in range(30):
        below = here.create_group("x")
        here["y"] = below
        here = below


ODD = [
    _dangling, _dangling_in_array, _circular, _itself, _above, _root, _soft_above, _empty, _named_type, _deep,
    _doubling_links,
    _doubling_groups,
]  # fmt: skip


def _attack(tmp_path, make):
    _secret_h5(tmp_path / "other.h5")
    path = tmp_path / "e.h5"
    with h5py.File(path, "w") as file:
        make(file, tmp_path)
    return path


def _read_all(path):
    """Every way to the entries of a store."""
    with from_h5(path) as found:
        list(found.keys(True, True)), found.get("a"), found["a"], found.to_tensordict(), found[:1]


@pytest.mark.parametrize("make", OUT, ids=lambda make: make.__name__)
def test_hdf5_reads_no_other_file(tmp_path, make):
    """What names another file is refused by its path in the file, wherever it is."""
    path = _attack(tmp_path, make)
    with pytest.raises(FileFormatError, match=r"e\.h5.*(/a|/b|/door|/n/door)"):
        _read_all(path)
    with pytest.raises(FileFormatError, match=r"e\.h5"):
        convert(path, tmp_path / "out.parquet")


@pytest.mark.parametrize(
    "make", [_external_storage, _external_link, _soft_link_in_chain], ids=lambda make: make.__name__
)
def test_hdf5_writes_no_other_file(tmp_path, make):
    """Also a store that is given as an open group writes nothing through a link."""
    path = _attack(tmp_path, make)
    with h5py.File(path, "r+") as file:
        with pytest.raises(FileFormatError):
            PersistentTensorDict(group=file, mode="r+", batch_size=[])["a"] = torch.zeros(40, dtype=torch.uint8)
        store = PersistentTensorDict(group=file.create_group("new"), mode="r+", batch_size=[])
        store._group = file
        with pytest.raises(FileFormatError):
            store._put("a", torch.zeros(40, dtype=torch.uint8))
    with h5py.File(tmp_path / "other.h5") as other:
        assert bytes(other["x"][()]) == SECRET
    assert not (tmp_path / "secret").exists() or (tmp_path / "secret").read_bytes() == SECRET


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_odd_nodes_of_hdf5_are_named(tmp_path, make):
    """A link in a circle or to nothing, an empty value, a named type and deep or many groups are errors with a path."""
    with pytest.raises(FileFormatError, match=r"e\.h5: .*`/?\w|e\.h5: the group"):
        _read_all(_attack(tmp_path, make))


def test_links_inside_a_file_are_followed(tmp_path):
    """A soft link to an array of the same file is an entry."""
    with h5py.File(tmp_path / "e.h5", "w") as file:
        file["n/x"] = np.arange(3)
        file["a"], file["n/b"], file["m"] = h5py.SoftLink("/n/x"), h5py.SoftLink("x"), h5py.SoftLink("n")
    with from_h5(tmp_path / "e.h5") as found:
        assert found["a"].tolist() == found["n", "b"].tolist() == found["m", "x"].tolist() == [0, 1, 2]


# ---- zarr ------------------------------------------------------------------------------------------------------------


def _small_zarr(folder):
    TensorDict(a=torch.ones(40, dtype=torch.uint8), n={"b": torch.ones(40)}, batch_size=[40]).to_zarr(folder)
    return next(Path(folder, "a").rglob("0"))


def _linked_chunk(folder, target):
    chunk = _small_zarr(folder)
    chunk.unlink()
    chunk.symlink_to(target)


def _linked_chunks(folder, target):
    chunk = _small_zarr(folder)
    chunk.parent.rename(target.parent / "elsewhere")
    chunk.parent.symlink_to(target.parent / "elsewhere")


def _linked_array(folder, target):
    _small_zarr(folder)
    (folder / "a").rename(target.parent / "elsewhere")
    (folder / "a").symlink_to(target.parent / "elsewhere")


def _linked_description(folder, target):
    _small_zarr(folder)
    (folder / "a" / "zarr.json").rename(target.parent / "about.json")
    (folder / "a" / "zarr.json").symlink_to(target.parent / "about.json")


def _pipe_chunk(folder, target):
    chunk = _small_zarr(folder)
    chunk.unlink()
    os.mkfifo(chunk)


@pytest.mark.parametrize("url", [False, True], ids=["path", "file://"])
@pytest.mark.parametrize(
    "make",
    [_linked_chunk, _linked_chunks, _linked_array, _linked_description, _pipe_chunk],
    ids=lambda make: make.__name__,
)
def test_zarr_follows_no_link(tmp_path, make, url):
    """Links, pipes and devices below the folder of a group are refused for reading and for writing."""
    (tmp_path / "secret").write_bytes(SECRET)
    make(tmp_path / "e.zarr", tmp_path / "secret")
    place = f"file://{tmp_path}/e.zarr" if url else tmp_path / "e.zarr"
    with pytest.raises(FileFormatError, match="is not followed"):
        from_zarr(place).to_tensordict()
    with pytest.raises(FileFormatError, match="is not followed"):
        from_zarr(place, mode="r+")["a"] = torch.ones(40, dtype=torch.uint8)
    assert (tmp_path / "secret").read_bytes() == SECRET


def test_a_link_above_a_zarr_group_is_followed(tmp_path):
    """The folder of the group itself may be a link: the caller named it."""
    _small_zarr(tmp_path / "e.zarr")
    (tmp_path / "link.zarr").symlink_to(tmp_path / "e.zarr")
    assert from_zarr(tmp_path / "link.zarr")["n", "b"].sum() == 40
    assert from_zarr(f"file://{tmp_path}/e.zarr")["n", "b"].sum() == 40


@pytest.mark.parametrize("chain", ["reference://::{}", "reference://::file://{}", "simplecache::reference://::{}"])
def test_references_are_refused(tmp_path, chain):
    """A kerchunk file, which names other files for each chunk, is not opened."""
    (tmp_path / "secret").write_bytes(SECRET)
    about = {"zarr_format": 2, "shape": [40], "chunks": [40], "dtype": "|u1", "compressor": None, "fill_value": 0,
             "order": "C", "filters": None}  # fmt: skip
    refs = {".zgroup": '{"zarr_format":2}', "a/.zarray": json.dumps(about), "a/0": [str(tmp_path / "secret"), 0, 40]}
    (tmp_path / "k.json").write_text(json.dumps({"version": 1, "refs": refs}))
    url = chain.format(tmp_path / "k.json")
    for read in (from_zarr, load):
        with pytest.raises(UnsupportedOperationError, match="references"):
            read(url)


@pytest.mark.parametrize(
    ("filters", "compressor"),
    [
        ([{"id": "vlen-utf8"}], {"id": "pickle", "protocol": 4}),
        ([{"id": "vlen-utf8"}, {"id": "pickle", "protocol": 4}], None),
        ([{"id": "pickle", "protocol": 4}], None),
    ],
)
def test_zarr_never_unpickles(tmp_path, filters, compressor):
    """Codecs that unpickle are refused by this library, whatever the version of numcodecs does."""
    (tmp_path / "a").mkdir()
    (tmp_path / ".zgroup").write_text('{"zarr_format":2}')
    about = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "compressor": compressor, "fill_value": "",
             "order": "C", "filters": filters}  # fmt: skip
    (tmp_path / "a" / ".zarray").write_text(json.dumps(about))
    (tmp_path / "a" / "0").write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")
    with pytest.raises(FileFormatError, match="pickle"):
        from_zarr(tmp_path)["a"]


# ---- memory ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["h5", "zarr"])
def unwritten(request, tmp_path):
    """A small store with an array of 8 TiB whose chunks were never written, and a usual one."""
    path, shape = tmp_path / f"s.{request.param}", (2**40,)
    if request.param == "h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("big", shape, "f8", chunks=(2**16,))
            file["n/small"] = np.arange(3)
        return from_h5, path
    group = zarr.open_group(path, mode="w")
    group.create_array("big", shape=shape, dtype="f8", chunks=(2**16,))
    group.create_group("n").create_array("small", shape=(3,), dtype="i8")[:] = np.arange(3)
    return from_zarr, path


def test_unwritten_chunks_are_not_allocated(unwritten):
    """A sparse array is opened and read in parts; the whole of it is an error that names the remedy."""
    read, path = unwritten
    found = read(path, batch_size=[])
    assert found["n", "small"].tolist() == [0, 1, 2]
    for whole in (lambda: found["big"], found.to_tensordict, lambda: found.get("big"), lambda: found + 1):
        with pytest.raises(MemoryBudgetError, match=r"`/big`, float64 \[1099511627776\].*`max_bytes="):
            whole()
    assert list(found.keys(True, True)) == ["big", ("n", "small")]
    assert "`max_bytes=" in repr(found)


def test_rows_of_an_unwritten_array_are_read(tmp_path):
    """An index reads only its rows, of an array that is far larger than memory."""
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file.create_dataset("big", (2**40,), "f8", chunks=(2**10,))
    with from_h5(tmp_path / "s.h5", mode="r+") as found:
        assert found.batch_size == torch.Size([2**40])
        assert found[5:8]["big"].tolist() == [0, 0, 0]
        found[6] = {"big": torch.tensor(3.0, dtype=torch.float64)}
        assert found[2**20 : 2**20 + 2]["big"].shape == (2,)
        assert found[5:8]["big"].tolist() == [0, 3, 0]
        with pytest.raises(MemoryBudgetError):
            found[torch.tensor([3, 1])]
        with pytest.raises(MemoryBudgetError):
            found[torch.tensor([3, 1])] = {"big": torch.zeros(2, dtype=torch.float64)}


def test_the_limit_of_a_store_is_an_argument(unwritten):
    """`max_bytes` limits each read, all of its entries together."""
    read, path = unwritten
    with pytest.raises(MemoryBudgetError, match="reading may take 20"):
        read(path, batch_size=[], max_bytes=20)["n", "small"]
    found = read(path, batch_size=[], max_bytes=24)
    assert found["n", "small"].tolist() == found["n"]["small"].tolist() == [0, 1, 2]


def test_a_packed_chunk_counts_as_a_whole(tmp_path):
    """One row of a packed chunk takes the memory of the chunk."""
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file.create_dataset("big", (2**28,), "f8", chunks=(2**28,), compression="gzip")
    with from_h5(tmp_path / "s.h5") as found, pytest.raises(MemoryBudgetError):
        found[:1]


def test_texts_that_share_bytes_are_counted(tmp_path):
    """A stored text may be used many times; their sum is limited, not the size of the file."""
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file.create_dataset("t", (40,), h5py.string_dtype())[:] = ["x" * 100_000] * 40
        file["fixed"] = np.array([b"abc", b"d"])
    with from_h5(tmp_path / "s.h5", max_bytes=2_000_000) as found:
        with pytest.raises(MemoryBudgetError):
            found["t"]
        assert found["fixed"] == [b"abc", b"d"]
    with from_h5(tmp_path / "s.h5") as found:
        assert found["t"] == ["x" * 100_000] * 40


def _chunk(content):
    made = zlib.compressobj(9)
    return b"".join([made.compress(part) for part in content] + [made.flush()])


def test_chunks_unpack_to_their_size(tmp_path):
    """A chunk of HDF5 that unpacks to 300 MB instead of 1 kB is refused; large usual ones are read."""
    with h5py.File(tmp_path / "s.h5", "w") as file:
        array = file.create_dataset("a", (1024,), "u1", chunks=(1024,), compression="gzip")
        array.id.write_direct_chunk((0,), _chunk([bytes(2**20)] * 300))
        file["good"] = np.arange(3)
    with from_h5(tmp_path / "s.h5", batch_size=[]) as found:
        assert found["good"].tolist() == [0, 1, 2]
        with pytest.raises(
            FileFormatError, match=r"s\.h5: its chunk at \(0,\) unpacks to more than the 1024 bytes.*/a"
        ):
            found["a"]
    noise = torch.randint(0, 255, (2**20,), dtype=torch.uint8)
    TensorDict(a=noise, batch_size=[2**20]).to_h5(tmp_path / "n.h5", compression="gzip", shuffle=True, fletcher32=True)
    assert torch.equal(from_h5(tmp_path / "n.h5")["a"], noise)
