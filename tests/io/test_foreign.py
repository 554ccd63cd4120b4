"""Files of the safetensors package open here, and ours open with it, for every dtype that it knows."""

from __future__ import annotations

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import tensorclass as tc
from tensorclass import TensorDict
from tensorclass.io._dtypes import TORCH
from tests.io._classes import Digits
from tests.io._exact import assert_same
from tests.io.test_round_trip import dtypes, sample

SHAPES = [(), (0,), (2, 0, 3), (5,), (3, 4)]


def tensors(code: str) -> dict[str, torch.Tensor]:
    """Tensors of one dtype in several shapes; two numbers in a byte need a dim that can be doubled."""
    return {f"t{i}": sample(TORCH[code], shape) for i, shape in enumerate(SHAPES) if shape or code != "F4"}


@pytest.mark.parametrize("code", TORCH)
def test_theirs_opens_here(code, tmp_path):
    """What the package writes is a TensorDict without batch dims."""
    source = tensors(code)
    save_file(source, tmp_path / "x.safetensors")
    for found in (tc.load(tmp_path / "x.safetensors"), TensorDict.load(tmp_path / "x.safetensors", mmap=False)):
        assert found.batch_size == ()
        for key, tensor in source.items():
            assert_same(found[key], tensor, key)


@pytest.mark.parametrize("code", TORCH)
def test_ours_opens_there(code, tmp_path):
    """What is written here has the same tensors there, nested ones under dotted names."""
    source = tensors(code)
    TensorDict({"n": dict(source), "text": "kept in the metadata"}).save(tmp_path / "x.safetensors", checksums=True)
    found = load_file(tmp_path / "x.safetensors")
    assert set(found) == {f"n.{key}" for key in source}
    for key, tensor in source.items():
        assert_same(found[f"n.{key}"], tensor, key)
    with safe_open(tmp_path / "x.safetensors", "pt") as file:
        assert list(file.metadata()) == ["tensorclass"]


def test_every_dtype_of_the_package_is_known(tmp_path):
    """A dtype of torch that the package writes is one that this library names as the package does."""
    known = set(TORCH.values())
    for name, dtype in dtypes().items():
        try:
            save_file({"x": sample(dtype, (4,))}, tmp_path / f"{name}.safetensors")
        except Exception:  # the package has no name for it
            assert dtype not in known or name == "chalf", name
        else:
            assert dtype in known, name


@pytest.mark.parametrize("name", sorted(set(dtypes()) - {"qint8", "qint32", "quint8", "quint2x4", "quint4x2"}))
def test_carried_dtypes_open_there(name, tmp_path):
    """Dtypes that the format lacks are there as the bytes that carry them."""
    source = sample(dtypes()[name], (3, 4))
    TensorDict(x=source).save(tmp_path / "x.safetensors")
    found = load_file(tmp_path / "x.safetensors")["x"]
    assert found.reshape(-1).view(torch.uint8).tolist() == source.reshape(-1).view(torch.uint8).tolist()


def test_dotted_names(tmp_path):
    """Dots nest where nothing is lost; a tensor beside what would be below it keeps the dots."""
    names = ["a", "a.b", "c.d", "c.e.f", "", ".", "x..y", "c.d.z", "trailing."]
    save_file({name: torch.tensor(i) for i, name in enumerate(names)}, tmp_path / "x.safetensors")
    found = tc.load(tmp_path / "x.safetensors")
    keys = {"a": 0, "a.b": 1, ("c", "d"): 2, ("c", "e", "f"): 3, "": 4, ".": 5, "x..y": 6, "c.d.z": 7, "trailing.": 8}
    assert {key: int(found[key]) for key in keys} == keys
    assert len(list(found.keys(include_nested=True, leaves_only=True))) == len(names)
    assert int(tc.load(tmp_path / "x.safetensors" / "c" / "e")["f"]) == 3


def test_metadata_of_others(tmp_path):
    """Metadata of other writers is no obstacle."""
    save_file({"a": torch.ones(2)}, tmp_path / "x.safetensors", metadata={"format": "pt", "né": 'a "b" \\'})
    assert tc.load(tmp_path / "x.safetensors")["a"].tolist() == [1, 1]


def test_unaligned_tensors(tmp_path):
    """A file whose tensors lie at odd addresses is read all the same."""
    header = (
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[2],"data_offsets":[1,17]}}'
    )
    numbers = torch.tensor([1.5, -2.5], dtype=torch.float64)
    payload = b"\x07" + numbers.view(torch.uint8).numpy().tobytes()
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + payload)
    for mmap in (True, False):
        found = tc.load(tmp_path / "x.safetensors", mmap=mmap)
        assert found["b"].tolist() == [1.5, -2.5]
        assert int(found["a"]) == 7


def test_typed_class_from_a_foreign_file(tmp_path):
    """A class reads a file that knows nothing of it, and checks it."""
    save_file({"image": torch.zeros(3, 1, 8, 8), "label": torch.arange(3)}, tmp_path / "x.safetensors")
    assert Digits.load(tmp_path / "x.safetensors").batch_size == (3,)
