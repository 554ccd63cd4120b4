"""`MemoryMappedTensor`: constructors as the anchor documents them, files, views, and handles between processes."""

from __future__ import annotations

import copy
import errno
import mmap
import os
import pickle
from typing import Any

import pytest
import tensordict
import torch
import torch.multiprocessing as mp
from torch import Tensor

from tensorclass import MemoryMappedTensor as M
from tensorclass import TensorDict, _system, load, save
from tensorclass.errors import ArgumentError, FileFormatError, StructureError, UnsupportedOperationError

Anchor: Any = tensordict.MemoryMappedTensor
DTYPES = [
    torch.float32, torch.float64, torch.bfloat16, torch.bool, torch.uint8, torch.int64, torch.complex64,
    torch.complex128, torch.float8_e4m3fn, torch.uint16,
]  # fmt: skip
MAKERS: dict[str, Any] = {
    "zeros ints": lambda cls, **kw: cls.zeros(2, 3, **kw),
    "zeros tuple": lambda cls, **kw: cls.zeros((2, 3), **kw),
    "zeros keyword": lambda cls, **kw: cls.zeros(shape=torch.Size([2, 3]), **kw),
    "one int": lambda cls, **kw: cls.ones(4, **kw),
    "int64": lambda cls, **kw: cls.ones((2,), dtype=torch.int64, **kw),
    "full": lambda cls, **kw: cls.full((2, 3), fill_value=2.5, **kw),
    "like": lambda cls, **kw: cls.zeros_like(torch.ones(2, dtype=torch.int32), **kw),
    "ones like": lambda cls, **kw: cls.ones_like(torch.zeros(2, 2), **kw),
    "full like": lambda cls, **kw: cls.full_like(torch.zeros(2), 7, **kw),
    "tensor": lambda cls, **kw: cls.from_tensor(torch.arange(6).view(2, 3).t(), **kw),
    "expanded": lambda cls, **kw: cls.from_tensor(torch.arange(3), shape=torch.Size([2, 3]), **kw),
    "scalar": lambda cls, **kw: cls.from_tensor(torch.tensor(3.0), **kw),
}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("maker", MAKERS)
def test_constructors(maker, named, tmp_path):
    """Values, dtype and shape are those of the anchor, in a file and in shared memory."""
    given = [{"filename": tmp_path / name} if named else {} for name in ("ours", "theirs")]
    ours, theirs = MAKERS[maker](M, **given[0]), MAKERS[maker](Anchor, **given[1])
    assert type(ours) is M
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    assert torch.equal(ours.as_subclass(Tensor), theirs.as_subclass(Tensor))
    if named:
        assert ours.filename == str(tmp_path / "ours")
        if ours.numel():
            assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    else:
        with pytest.raises(RuntimeError, match="no file"):
            _ = ours.filename


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(dtype, tmp_path):
    """Every dtype goes to a file and comes back, by name and by handle."""
    values = torch.tensor([[0, 1], [1, 0]]).to(dtype)
    made = M.from_tensor(values, filename=tmp_path / "x")
    for found in (M.from_filename(tmp_path / "x", dtype, (2, 2)), pickle.loads(pickle.dumps(made)), M(made.clone())):
        assert type(found) is M
        assert found.dtype == dtype
        assert torch.equal(found.view(torch.uint8), values.view(torch.uint8))


def test_no_elements(tmp_path):
    """A tensor without elements has a file too; the anchor can't make one in shared memory."""
    for found in (M.zeros((0, 3)), M.zeros((0, 3), filename=tmp_path / "x")):
        assert pickle.loads(pickle.dumps(found)).shape == (0, 3)
    assert (tmp_path / "x").read_bytes() == b""


def test_behaves_as_a_plain_tensor(tmp_path):
    """Operations give plain tensors, views of its memory are mapped, writes reach the file."""
    x = M.from_tensor(torch.arange(12.0).view(3, 4), filename=tmp_path / "x")
    plain = [x + 1, x.clone(), torch.stack([x, x]), x[torch.tensor([0])], x[x > 2], x == x, copy.deepcopy(x), x.sum()]
    assert {type(value) for value in plain} == {Tensor}
    views = [x[0], x[1:, ::2], x[..., 0], *x.unbind(1), *x.split(2), *x.chunk(2), copy.copy(x)]
    assert {type(value) for value in views} == {M}
    assert {view.filename for view in views} == {x.filename}
    x[0, 1:3] = -1.0
    x.mul_(2)
    assert M.from_filename(x.filename, torch.float32, (3, 4)).tolist() == [
        [0, -2, -2, 6],
        [8, 10, 12, 14],
        [16, 18, 20, 22],
    ]


def test_in_containers(tmp_path):
    """A container holds it as it is, and saves its values."""
    x = M.from_tensor(torch.arange(3), filename=tmp_path / "x")
    data = TensorDict(x=x, batch_size=[3])
    assert data["x"] is x
    assert type(data[1:]["x"]) is M
    assert type((data + 1)["x"]) is Tensor
    assert bool((pickle.loads(pickle.dumps(data)) == data).all())
    save(data, tmp_path / "data.safetensors")
    assert load(tmp_path / "data.safetensors")["x"].tolist() == [0, 1, 2]
    data["x"].fill_(9)
    assert load(tmp_path / "data.safetensors")["x"].tolist() == [0, 1, 2]
    assert M.from_filename(x.filename, torch.int64, (3,)).tolist() == [9, 9, 9]


@pytest.mark.parametrize(
    "index", [(), 1, slice(1, None), (slice(None), 1), (slice(None, None, 2), slice(1, 3))], ids=str
)
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_handles(index, mode, tmp_path):
    """A pickle is a short handle to the same bytes, for views with any strides; many of them share one map."""
    M.from_tensor(torch.arange(12_000.0).view(3, 4000), filename=tmp_path / "x")
    x = M.from_filename(tmp_path / "x", torch.float32, (3, 4000), mode=mode)
    view = x[index]
    text = pickle.dumps(view)
    assert len(text) < 4096
    again, more = pickle.loads(text), pickle.loads(text)
    assert type(again) is M
    assert torch.equal(again, view)
    assert again.stride() == view.stride()
    again.fill_(-1)
    assert bool((view == -1).all()) == (mode == "r+")
    assert (again.data_ptr() == more.data_ptr()) == (mode == "r+")


def test_a_short_file_is_refused(tmp_path):
    """A read never grows a file, where the anchor gives zeros and writes them to the disk."""
    x = M.from_tensor(torch.arange(4), filename=tmp_path / "x")
    text = pickle.dumps(x)
    os.truncate(tmp_path / "x", 24)
    with pytest.raises(FileFormatError, match="24 bytes"):
        pickle.loads(text)
    with pytest.raises(FileFormatError, match=r"\[4\] needs 32"):
        M.from_filename(tmp_path / "x", torch.int64, (4,))
    assert os.path.getsize(tmp_path / "x") == 24
    (tmp_path / "link").symlink_to(tmp_path / "x")
    with pytest.raises(OSError, match="symbolic link"):
        M.from_filename(tmp_path / "link", torch.int64, (3,))
    with pytest.raises(FileNotFoundError):
        M.from_filename(tmp_path / "absent", torch.int64, (3,))
    with pytest.raises(ValueError, match="mode"):
        M.from_filename(tmp_path / "x", torch.int64, (3,), mode="w")


def test_modes(tmp_path):
    """`r` keeps writes in memory, None writes through where that is possible."""
    M.zeros(3, filename=tmp_path / "x")
    M.from_filename(tmp_path / "x", torch.float32, (3,), mode="r").fill_(5)
    assert not M.from_filename(tmp_path / "x", torch.float32, (3,)).any()
    M.from_filename(tmp_path / "x", torch.float32, (3,)).fill_(5)
    assert M.from_filename(tmp_path / "x", torch.float32, (3,), index=0) == 5


def test_existing_files(tmp_path):
    """A file is not written over by accident; one that is replaced stays for those who map it."""
    x = M.ones(3, filename=tmp_path / "x")
    with pytest.raises(RuntimeError, match="existsok=True"):
        M.zeros(3, filename=tmp_path / "x")
    y = M.zeros(3, filename=tmp_path / "x", existsok=True)
    assert x.sum() == 3
    assert y.sum() == 0
    assert M.from_tensor(y, filename=tmp_path / "x") is y
    with pytest.raises(StructureError, match="copy_existing"):
        M.from_tensor(y, filename=tmp_path / "z")
    assert M.from_tensor(y, filename=tmp_path / "z", copy_existing=True).filename == str(tmp_path / "z")
    shared = M.from_tensor(y)
    assert M.from_tensor(shared) is shared is not y


def test_storages_and_handlers(tmp_path):
    """Memory that exists is used as it is, with its file where it has one."""
    M.from_tensor(torch.arange(6.0), filename=tmp_path / "x")
    storage = torch.UntypedStorage.from_file(str(tmp_path / "x"), shared=True, nbytes=24)
    found = M.from_storage(storage, dtype=torch.float32, shape=(2, 3))
    assert found.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found.filename == str(tmp_path / "x")
    assert pickle.loads(pickle.dumps(found[1])).tolist() == [3, 4, 5]
    with pytest.raises(RuntimeError, match="mapped from"):
        M.from_storage(storage, dtype=torch.float32, filename=tmp_path / "y")
    with pytest.raises(FileFormatError, match="24 bytes"):
        M.from_storage(storage, dtype=torch.float64, shape=(6,))
    block = mmap.mmap(-1, 24)
    shared = M.from_handler(block, torch.float32, (2, 3))
    shared.fill_(1)
    assert M.from_handler(block, torch.float32, (2, 3), index=1).tolist() == [1, 1, 1]
    with pytest.raises(FileFormatError, match="24 bytes"):
        M.from_handler(block, torch.float64, (6,))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: M.from_tensor(torch.ones(2, requires_grad=True)), StructureError),
        (lambda: M.from_tensor([1, 2]), ArgumentError),
        (lambda: M.from_tensor(torch.eye(2).to_sparse()), UnsupportedOperationError),
        (M.zeros, ArgumentError),
        (lambda: M.zeros((2, -1)), ArgumentError),
        (lambda: M.zeros("ab"), ArgumentError),
        (lambda: M.zeros(2, device="meta"), StructureError),
        (lambda: M.zeros(torch.ones(2, 2)), UnsupportedOperationError),
        (lambda: M("absent"), ArgumentError),
        (lambda: M(3), ArgumentError),
    ],
)
def test_bad_arguments(call, error):
    """Each is an error that says what was given."""
    with pytest.raises(error):
        call()


def test_a_full_disk_is_an_error_at_once(tmp_path, monkeypatch):
    """Space is taken before the file is mapped; nothing is left behind."""

    class Full:
        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def posix_fallocate(self, *_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_system, "os", Full())
    with pytest.raises(OSError, match="4000 bytes") as caught:
        M.zeros(1000, filename=tmp_path / "x")
    assert caught.value.filename == str(tmp_path / "x")
    assert not os.listdir(tmp_path)


def _write(given: Any, queue: Any) -> None:
    for i, tensor in enumerate(given):
        tensor.fill_(i + 5)
    queue.put([type(tensor) is M for tensor in given])


@pytest.mark.slow
def test_between_processes(tmp_path):
    """Another process writes to the same memory, whether there is a file or not."""
    given = [M.zeros(3, filename=tmp_path / "x"), M.zeros(3)]
    context = mp.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=_write, args=(given, queue))
    child.start()
    assert queue.get(timeout=120) == [True, True]
    child.join()
    assert [tensor.tolist() for tensor in given] == [[5.0] * 3, [6.0] * 3]
