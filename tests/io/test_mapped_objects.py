"""Python objects of a batch that is mapped from a file: a write reaches the file, or is refused and writes nothing."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import NonTensorStack, PerElement, TensorClass, TensorDict, lazy_stack
from tensorclass.errors import UnsupportedOperationError
from tensorclass.typing import Int64


class Word(TensorClass):
    """A number and a word."""

    i: Int64[Tensor, ""]
    w: PerElement[str]


def untyped() -> TensorDict:
    """Objects for each element."""
    return TensorDict({"i": torch.arange(4), "w": NonTensorStack("x", "yy", "zzz", "x")}, [4])


KINDS: dict[str, Callable[[], Any]] = {
    "untyped": untyped,
    "typed": lambda: Word(i=torch.arange(4), w=["x", "yy", "zzz", "x"]),
    "nested": lambda: TensorDict({"n": untyped(), "i": torch.arange(4)}, [4]),
    "lazy": lambda: lazy_stack([part.clone() for part in untyped().unbind(0)]),
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "an element": lambda m: m.__setitem__(2, m[0].clone()),
    "a slice": lambda m: m.__setitem__(slice(0, 2), m[2:4].clone()),
    "a mask": lambda m: m.__setitem__(torch.tensor([True, False, False, False]), m[1:2].clone()),
    "an index": lambda m: m.__setitem__(torch.tensor([0, 1]), m[torch.tensor([2, 3])].clone()),
    "update_at_": lambda m: m.update_at_(m[0].clone(), 2),
    "update_": lambda m: m.update_(m[torch.tensor([1, 0, 2, 3])].clone()),
    "copy_": lambda m: m.copy_(m[torch.tensor([1, 0, 2, 3])].clone()),
    "a view": lambda m: m[1:].__setitem__(0, m[0].clone()),
}
OPENED: dict[str, Callable[[Any, Path], Any]] = {
    "memmap": lambda batch, path: batch.memmap(path),
    "memmap_": lambda batch, path: batch.memmap_(path),
    "load_memmap": lambda batch, path: (batch.save(path), type(batch).load_memmap(path))[1],
}


def plain(value: Any) -> Any:
    """Lists in the place of tensors."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return value.tolist() if isinstance(value, Tensor) else value


@pytest.mark.parametrize("opened", OPENED)
@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("kind", KINDS)
def test_objects_that_would_not_reach_the_file_are_refused(kind: str, name: str, opened: str, tmp_path: Path):
    """The error names the field, and neither the batch nor the file has changed."""
    mapped = OPENED[opened](KINDS[kind](), tmp_path / "m")
    before = plain(mapped.clone().to_dict())
    with pytest.raises(UnsupportedOperationError, match=r"w` holds Python objects"):
        WRITES[name](mapped)
    for found in (mapped, type(mapped).load(tmp_path / "m")):
        assert plain(found.to_dict()) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_pickled_batch_is_still_that_of_the_file(kind: str, tmp_path: Path):
    """What another process gets writes tensors to the file, so it refuses to change objects in memory alone."""
    mapped = pickle.loads(pickle.dumps(KINDS[kind]().memmap(tmp_path / "m")))
    before = plain(mapped.clone().to_dict())
    with pytest.raises(UnsupportedOperationError, match=r"w` holds Python objects"):
        mapped[2] = mapped[0].clone()
    assert plain(type(mapped).load(tmp_path / "m").to_dict()) == before
    mapped[3] = mapped[0].clone()
    assert plain(type(mapped).load(tmp_path / "m").to_dict()) == plain(mapped.clone().to_dict()) != before
    free = pickle.loads(pickle.dumps(mapped.clone()))
    free[2] = free[0].clone()


@pytest.mark.parametrize("kind", ["untyped", "typed", "nested"])
def test_equal_objects_and_tensors_are_written(kind: str, tmp_path: Path):
    """A row with the same objects reaches the file whole; copies and files opened for reading take all."""
    mapped = KINDS[kind]().memmap(tmp_path / "m")
    mapped[3] = mapped[0].clone()
    assert int(TensorDict.load(tmp_path / "m")["i"][3]) == 0
    for free in (mapped.clone(), type(mapped).load_memmap(tmp_path / "m", mode="r"), type(mapped).load(tmp_path / "m")):
        free[2] = free[0].clone()
        assert int(free["i"][2]) == 0
    assert int(TensorDict.load(tmp_path / "m")["i"][2]) == 2


def test_an_object_of_the_whole_batch_does_not_become_one_of_each_element(tmp_path: Path):
    """Not in memory alone; after `unlock_` the batch is no longer that of the file."""
    mapped = TensorDict({"i": torch.arange(3), "o": "a"}, [3]).memmap(tmp_path / "m")
    with pytest.raises(UnsupportedOperationError, match="`o` holds Python objects"):
        mapped[0] = TensorDict(i=5, o="b")
    with pytest.raises(UnsupportedOperationError, match="`o` holds Python objects"):
        mapped.set_("o", "b")
    assert mapped["o"] == "a"
    assert int(mapped["i"][0]) == 0
