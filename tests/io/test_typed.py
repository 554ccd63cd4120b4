"""Typed batches: the class on load, what it declares, what has changed since the file was written."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tensorclass as tc
from tensorclass import LazyStackedTensorDict, TensorClass, TensorDict, field, tensorclass
from tensorclass.errors import FileFormatError, SchemaError
from tensorclass.io._classes import find_class
from tensorclass.io._format import ClassPart
from tensorclass.typing import Float32, Float64, Int64
from tests.io import _classes
from tests.io._classes import Color, Digits, Everything
from tests.io._exact import assert_same


def digits(*size: int) -> Digits:
    """A batch."""
    return Digits(image=torch.rand(*size, 1, 8, 8), label=torch.randint(0, 10, size), batch_size=size)


def everything(**changes: Any) -> Everything:
    """An instance with every kind of field."""
    values: dict[str, Any] = {
        "image": torch.rand(2, 3, 4), "color": Color.BLUE, "day": date(2024, 2, 29), "tags": ["a", "é\n"],
        "colors": [Color.RED, Color.BLUE], "scale": torch.rand(5), "tokens": [torch.arange(3), torch.arange(0)],
        "digits": digits(2), "rest": TensorDict(x=torch.ones(2, 3), y={"z": torch.zeros(2)}, batch_size=[2]),
        "anything": (1, {"k": None}), "numbers": [1, 2], "mask": torch.ones(2), "note": None,
    }  # fmt: skip
    return Everything(**{**values, **changes}, batch_size=[2])


@pytest.mark.parametrize(
    "make",
    [
        lambda: digits(3),
        digits,
        lambda: digits(2, 3),
        everything,
        lambda: everything(mask=None, note="x"),
        lambda: everything(rest=TensorDict(d=digits(2), batch_size=[2])),
        lambda: everything().lock_(),
        lambda: Digits.from_tensordict(LazyStackedTensorDict(digits(3).to_tensordict(), digits(3).to_tensordict())),
        lambda: LazyStackedTensorDict(digits(3), digits(3)),
        lambda: TensorDict(d=digits(2), e={"f": everything()}, batch_size=[2]),
        lambda: digits(3).refine_names("time"),
    ],
)
def test_round_trip(make, tmp_path):
    """Instances come back as instances, by the function and by the method, with every field as it was."""
    batch = make()
    found = [batch.save(tmp_path), tc.load(tmp_path), tc.load(tmp_path, mmap=False), type(batch).load(tmp_path)]
    for one in found:
        assert_same(one, batch)


def test_none_is_not_the_default(tmp_path):
    """An optional field that was None is None again, whatever its default is."""
    batch = everything(note=None)
    assert batch.note is None
    batch.save(tmp_path)
    assert Everything.load(tmp_path).note is None


def test_untyped(tmp_path):
    """`TensorDict.load` gives the saved class, as in the anchor; `to_tensordict` drops it."""
    batch = everything()
    batch.save(tmp_path)
    found = TensorDict.load(tmp_path)
    assert type(found) is Everything
    found = found._store
    assert type(found["digits"]) is Digits
    assert found["image"].shape == (2, 3, 4)
    assert "note" not in found


def save_other(path: Path, source: str, name: str) -> None:
    """Save an instance of a class that only another process knows."""
    program = f"{source}\n{name}.example(batch_size=[3], seed=0).save({str(path)!r})\n"
    folder = path.parent / "module"
    folder.mkdir()
    (folder / "elsewhere.py").write_text(program)
    subprocess.run([sys.executable, "-c", "import elsewhere"], cwd=folder, check=True)


HEAD = """
from torch import Tensor
from tensorclass import TensorClass
from tensorclass.typing import Float32, Int64
"""


@pytest.mark.slow
def test_a_class_that_is_not_imported(tmp_path, monkeypatch):
    """It gives a TensorDict, and imports nothing, although the module could be found."""
    path = tmp_path / "x.safetensors"
    save_other(path, HEAD + 'class Secret(TensorClass):\n    x: Float32[Tensor, "2"]\n', "Secret")
    monkeypatch.syspath_prepend(str(tmp_path / "module"))
    found = tc.load(path)
    assert type(found) is TensorDict
    assert found["x"].shape == (3, 2)
    assert "elsewhere" not in sys.modules


def test_a_class_in_a_function(tmp_path):
    """Of several classes of one name that have no place in a module, the one with the stored digest is found."""

    def make(dtype: Any) -> Any:
        @tensorclass
        class Local:
            x: dtype[Tensor, ""]

        return Local

    one, other = make(Float32), make(Float64)
    one(x=torch.zeros(2)).save(tmp_path)
    assert type(tc.load(tmp_path)) is one
    other(x=torch.zeros(2, dtype=torch.float64)).save(tmp_path)
    assert type(tc.load(tmp_path)) is other


def replaced(monkeypatch, source: str, name: str = "Digits") -> Any:
    """The module of the classes, as a later version of it would be."""
    space: dict[str, Any] = {"__name__": _classes.__name__, **vars(tc), "Tensor": Tensor, "Any": Any}
    space |= {"Float32": Float32, "Float64": Float64, "Int64": Int64, "TensorClass": TensorClass, "field": field}
    exec(source, space)
    cls = space[name]
    monkeypatch.setattr(_classes, name, cls)
    return cls


def test_former_names_defaults_and_removed_fields(tmp_path, monkeypatch):
    """A later version of the class reads the file: renamed, added with a default, removed."""
    digits(3).save(tmp_path)
    later = replaced(
        monkeypatch,
        "class Digits(TensorClass, removed=('image',)):\n"
        "    target: Int64[Tensor, ''] = field(renamed_from='label')\n"
        "    weight: Float32[Tensor, ''] | None = None\n"
        "    source: str = 'scan'\n",
    )
    for found in (tc.load(tmp_path), later.load(tmp_path)):
        assert type(found) is later
        assert found.target.shape == (3,)
        assert found.source == "scan"
        assert found.weight is None


def test_lazy_stacks_of_a_later_class(tmp_path, monkeypatch):
    """The members of a stack are brought up to date one by one, and stay lazy."""
    stack = Digits.from_tensordict(LazyStackedTensorDict(digits(2).to_tensordict(), digits(2).to_tensordict()))
    stack.save(tmp_path)
    later = replaced(
        monkeypatch,
        "class Digits(TensorClass):\n"
        "    image: Float32[Tensor, '1 8 8']\n"
        "    target: Int64[Tensor, ''] = field(renamed_from='label')\n",
    )
    found = tc.load(tmp_path)
    assert type(found) is later
    assert isinstance(found._store, LazyStackedTensorDict)
    assert found[0].target.tolist() == stack[0].label.tolist()


def test_nested_classes_that_have_changed(tmp_path, monkeypatch):
    """A nested instance is brought up to date too."""
    everything().save(tmp_path)
    later = replaced(
        monkeypatch,
        "class Digits(TensorClass):\n"
        "    picture: Float32[Tensor, '1 8 8'] = field(renamed_from='image')\n"
        "    label: Int64[Tensor, '']\n",
    )
    found = tc.load(tmp_path, subpath="digits")
    assert type(found) is later
    assert found.picture.shape == (2, 1, 8, 8)


def test_an_incompatible_class(tmp_path, monkeypatch):
    """The error shows the file, what has changed, and every problem; `TensorDict.load` still reads the data."""
    digits(3).save(tmp_path / "x.safetensors")
    later = replaced(
        monkeypatch,
        "class Digits(TensorClass):\n"
        "    image: Float64[Tensor, '1 8 8']\n"
        "    label: Int64[Tensor, '']\n"
        "    needed: Float32[Tensor, '']\n",
    )
    for read in (tc.load, later.load):
        with pytest.raises(SchemaError) as caught:
            read(tmp_path / "x.safetensors")
        text = str(caught.value)
        assert "x.safetensors" in text
        assert '~ image: Float32["1 8 8"] -> Float64["1 8 8"]' in text
        assert "+ needed" in text
        assert {problem.path for problem in caught.value.problems} == {"image", "needed"}
    assert TensorDict.load(tmp_path / "x.safetensors")["image"].shape == (3, 1, 8, 8)


def test_data_that_breaks_its_own_schema(tmp_path):
    """The values in a file are checked, not what the file says about them."""
    TensorDict(image=torch.zeros(3, 1, 8, 8), label=torch.zeros(3)).save(tmp_path)
    with pytest.raises(SchemaError, match="label"):
        Digits.load(tmp_path)


def test_another_class_than_asked_for(tmp_path):
    """A class that has the same fields reads it; a container where a tensor is, or the reverse, is an error."""
    digits(3).save(tmp_path)
    assert type(Digits.load(tmp_path)) is Digits
    with pytest.raises(SchemaError, match="does not fit Everything"):
        Everything.load(tmp_path)
    with pytest.raises(ValueError, match="not a Digits"):
        Digits.load(tmp_path, subpath="label")


def test_a_module_is_never_looked_into_by_code(tmp_path, monkeypatch):
    """A name in a file reaches no `__getattr__` of a module, and nothing that is no class."""

    class Trap:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    monkeypatch.setitem(sys.modules, _classes.__name__, Trap())
    digits(3).save(tmp_path)
    assert type(tc.load(tmp_path)) is Digits  # by its digest
    for module, name in [("os", "system"), ("builtins", "eval"), ("nowhere", "X"), ("sys", "modules.os")]:
        part = ClassPart(module=module, name=name, digest="0")
        assert find_class(part) is None


def test_subclasses_of_tensordict(tmp_path):
    """A child of TensorDict comes back as its class where that is imported."""
    batch = Mine(a=torch.ones(2), batch_size=[2])
    for found in (batch.save(tmp_path), tc.load(tmp_path), Mine.load(tmp_path)):
        assert_same(found, batch)
    assert type(TensorDict.load(tmp_path)) is Mine


def test_a_local_class_is_found_while_it_lives(tmp_path):
    """The class is found among those that live; `TensorDict` reads the data without it, and imports nothing."""

    def save(path: Any) -> Any:
        class Local(TensorClass):
            x: Float32[Tensor, "3"]

        Local(x=torch.ones(2, 3)).memmap(path)
        return Local

    cls = save(tmp_path)
    for read in (TensorDict.load, TensorDict.load_memmap, tc.load, tc.load_memmap, cls.load):
        assert type(read(tmp_path)) is cls
    target = TensorDict(x=torch.zeros(2, 3), batch_size=[2])
    assert type(target.load_(tmp_path)) is type(target.load_memmap_(tmp_path)) is TensorDict
    del cls, read
    gc.collect()
    found = TensorDict.load(tmp_path)
    assert type(found) is TensorDict
    assert torch.equal(found["x"], torch.ones(2, 3))


class Mine(TensorDict):
    """A store of somebody else."""


def test_file_errors_are_value_errors(tmp_path):
    """The error of a damaged file is caught as a ValueError, and pickles."""
    (tmp_path / "x.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="header") as caught:
        tc.load(tmp_path / "x.safetensors")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copy, FileFormatError)
    assert (str(copy), copy.path, copy.offset) == (str(caught.value), caught.value.path, caught.value.offset)
