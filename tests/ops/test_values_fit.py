"""What a write in place does with values that the dtype of an entry can't hold: one rule for all writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tensorclass import PersistentTensorDict, RaggedTensor, TensorClass, TensorDict, lazy_stack
from tensorclass.errors import StructureError
from tensorclass.nn import TensorDictParams
from tensorclass.ops._writable import MOST_CHECKED


class Held(TensorClass):
    """A class whose fields take any dtype."""

    x: Tensor
    n: Tensor


def _made(dtype: torch.dtype) -> TensorDict:
    return TensorDict(
        x=torch.zeros(2, dtype=dtype), n=TensorDict(y=torch.zeros(2, dtype=dtype), batch_size=[2]), batch_size=[2]
    )


CONTAINERS: dict[str, Callable[[torch.dtype, Path], Any]] = {
    "dense": lambda dtype, _: _made(dtype),
    "locked": lambda dtype, _: _made(dtype).lock_(),
    "lazy": lambda dtype, _: lazy_stack([_made(dtype)[i].clone() for i in range(2)]),
    "typed": lambda dtype, _: Held(x=torch.zeros(2, dtype=dtype), n=torch.zeros(2, dtype=dtype), batch_size=[2]),
    "parameters": lambda dtype, _: TensorDictParams(_made(dtype), no_convert=True),
    "mapped": lambda dtype, path: _made(dtype).memmap_(path / "map"),
    "HDF5": lambda dtype, path: PersistentTensorDict.create(_made(dtype), path / "x.h5", "h5"),
}

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "set_": lambda t, new: t.set_("x", new),
    "set, in place": lambda t, new: t.set("x", new, inplace=True),
    "update_": lambda t, new: t.update_({"x": new}),
    "update, in place": lambda t, new: t.update({"x": new}, inplace=True),
    "set_at_": lambda t, new: t.set_at_("x", new[1], 1),
    "set_at_, slice": lambda t, new: t.set_at_("x", new[:], slice(None)),
    "update_at_": lambda t, new: t.update_at_({"x": new[1]}, 1),
    "x[int]": lambda t, new: t.__setitem__(1, t[1].to_dict() | {"x": new[1]}),
    "x[slice]": lambda t, new: t.__setitem__(slice(0, 2), t.to_dict() | {"x": new}),
    "copy_": lambda t, new: t.copy_(t.to_dict() | {"x": new}),
    "load_state_dict": lambda t, new: t.load_state_dict(t.state_dict() | {"x": torch.as_tensor(new)}),
    "apply_": lambda t, new: t.named_apply(lambda key, leaf: _like(leaf, new) if key == "x" else leaf, inplace=True),
}


def _like(leaf: Tensor, new: Any) -> Tensor:
    """The part of a value for a leaf: a member of a lazy stack has one element."""
    found = torch.as_tensor(new)
    return found if found.shape == leaf.shape else found[1]


REFUSED: dict[str, tuple[torch.dtype, Any]] = {
    "-1 and 300 in uint8": (torch.uint8, torch.tensor([-1, 300])),
    "-1 in uint16": (torch.uint16, torch.tensor([0, -1], dtype=torch.int8)),
    "2**63 in int64": (torch.int64, torch.tensor([0, 2**63], dtype=torch.uint64)),
    "1e300 in float32": (torch.float32, torch.tensor([0.0, 1e300], dtype=torch.float64)),
    "70000 in float16": (torch.float16, torch.tensor([0, 70000])),
    "-70000.0 in float16": (torch.float16, torch.tensor([0, -70000.0])),
    "1e39 in bfloat16": (torch.bfloat16, torch.tensor([0.0, 1e39], dtype=torch.float64)),
    "1e300j in complex64": (torch.complex64, torch.tensor([0, 1e300j], dtype=torch.complex128)),
    "500.0 in float8": (torch.float8_e4m3fn, torch.tensor([0.0, 500.0])),
    "2 in bool": (torch.bool, torch.tensor([0, 2])),
    "2.0 in int64": (torch.int64, torch.tensor([0, 2.0])),
    "1j in float32": (torch.float32, torch.tensor([0, 1j])),
    "a strided view of 300 in int8": (torch.int8, torch.tensor([[0, 0], [300, 0]])[:, 0]),
    "300 of autograd in float16": (torch.float16, torch.tensor([0.0, 1e6], requires_grad=True)),
    "a list with 300 in uint8": (torch.uint8, [0, 300]),
    "a list with 1e300 in float32": (torch.float32, [0.0, 1e300]),
    "a list with 2.5 in int64": (torch.int64, [0, 2.5]),
    "a list with 10**400 in float64": (torch.float64, [0, 10**400]),
}

TAKEN: dict[str, tuple[torch.dtype, Any]] = {
    "255 in uint8": (torch.uint8, torch.tensor([0, 255])),
    "0.1 in float32": (torch.float32, torch.tensor([0, 0.1], dtype=torch.float64)),
    "inf in float32": (torch.float32, torch.tensor([-torch.inf, torch.inf], dtype=torch.float64)),
    "nan in float16": (torch.float16, torch.tensor([torch.nan, 0.5])),
    "integers in float64": (torch.float64, torch.tensor([2**40, -1])),
    "bools in int8": (torch.int8, torch.tensor([False, True])),
    "a list with 1e300 in float64": (torch.float64, [0.1, 1e300]),
}


def _some(cases: dict[str, Any], write: str, container: str) -> dict[str, Any]:
    """The cases for a write: states and results of functions hold no lists; files take longer, so they get a third."""
    tensors = write in ("load_state_dict", "apply_")
    found = {name: case for name, case in cases.items() if not (tensors and isinstance(case[1], list))}
    return dict([*found.items()][:: 3 if container in ("mapped", "HDF5") else 1])


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("write", WRITES)
def test_a_value_that_does_not_fit_is_refused(write: str, container: str, tmp_path: Path):
    """A higher kind and values out of range raise, and nothing is written, by every way of writing in place."""
    if (write, container) == ("load_state_dict", "parameters"):
        pytest.skip("parameters load a state as every module does")
    for name, (dtype, new) in _some(REFUSED, write, container).items():
        (place := tmp_path / name.replace(" ", "")).mkdir()
        held = CONTAINERS[container](dtype, place)
        with pytest.raises(StructureError):
            WRITES[write](held, new)
        assert not torch.as_tensor(held["x"]).to(torch.complex128).any(), name


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("write", WRITES)
def test_a_value_that_fits_is_written(write: str, container: str, tmp_path: Path):
    """Rounding of floating values is no error; infinities, nan and lower kinds are written."""
    for name, (dtype, new) in _some(TAKEN, write, container).items():
        (place := tmp_path / name.replace(" ", "")).mkdir()
        held = CONTAINERS[container](dtype, place)
        WRITES[write](held, new)
        wanted = torch.as_tensor(new, dtype=dtype)[1]
        assert torch.allclose(held["x"][1], wanted, equal_nan=True), name


@pytest.mark.parametrize("container", CONTAINERS)
def test_python_numbers_must_fit(container: str, tmp_path: Path):
    """A number out of range, or of a higher kind, is refused by writes of one entry and of all."""
    writes: list[Callable[[Any, Any], Any]] = [
        lambda t, new: t.set_("x", new),
        lambda t, new: t.fill_("x", new),
        lambda t, new: t.set_at_("x", new, 1),
        lambda t, new: t.__setitem__(0, new),
        lambda t, new: t.masked_fill_(torch.tensor([True, False]), new),
    ]
    cases: list[tuple[torch.dtype, Any]] = [
        (torch.uint8, 300), (torch.uint8, -1), (torch.float32, 1e300), (torch.float64, 10**400), (torch.int64, 2.5),
        (torch.bool, 2),
    ]  # fmt: skip
    for number, (dtype, new) in enumerate(cases):
        (place := tmp_path / str(number)).mkdir()
        held = CONTAINERS[container](dtype, place)
        for write in writes:
            with pytest.raises(StructureError):
                write(held, new)
        assert not held["x"].any()


def test_ragged_rows_follow_the_rule():
    """The rows of a ragged entry are written under the same rule as tensors."""
    held = TensorDict(
        x=RaggedTensor([torch.zeros(2, dtype=torch.uint8), torch.zeros(1, dtype=torch.uint8)]), batch_size=[2]
    )
    for new in (300, torch.tensor(300), [torch.tensor([1, 300]), torch.tensor([2])]):
        with pytest.raises(StructureError):
            held.set_("x", new)
    assert not held["x"].values.any()


def test_the_error_names_the_entry_the_value_and_the_range():
    """The message says what was given, what fits, and what to do."""
    with pytest.raises(StructureError, match=r"`n\.y` holds torch\.uint8, from 0 to 255, got 300 .*clamp\(0, 255\)"):
        _made(torch.uint8).update_({"n": {"y": torch.tensor([0, 300])}})


def test_large_tensors_follow_torch():
    """Above the documented number of elements, values are converted as torch does."""
    large = torch.full((MOST_CHECKED + 1,), 300)
    data = TensorDict(x=torch.zeros(len(large), dtype=torch.uint8), batch_size=[len(large)])
    assert set(data.set_("x", large)["x"].tolist()) == {300 % 256}
    with pytest.raises(StructureError):
        data[:-1].set_("x", large[:-1])


def test_values_that_cannot_be_read_follow_torch():
    """On "meta", in fake tensors, inside vmap and in compiled code, only the kind is compared."""
    wide = torch.tensor([0, 300])
    meta = TensorDict(x=torch.zeros(2, dtype=torch.uint8, device="meta"), batch_size=[2])
    meta.set_("x", wide.to("meta"))
    with FakeTensorMode():
        fake = TensorDict(x=torch.zeros(2, dtype=torch.uint8), batch_size=[2])
        fake.set_("x", torch.tensor([0, 300]))

    def write(new: Tensor) -> Tensor:
        return TensorDict(x=torch.zeros_like(new, dtype=torch.int16)).set_("x", new)["x"]

    assert torch.vmap(write)(wide).tolist() == [0, 300]
    assert torch.compile(write, backend="eager", fullgraph=True)(wide).tolist() == [0, 300]
    with FakeTensorMode(), pytest.raises(StructureError):
        fake.set_("x", torch.zeros(2))
