"""Programs that take and return containers: exported with shapes by key, saved, loaded and called with other sizes."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch.export import Dim, ShapesCollection

from tensorclass import PerElement, Ragged, Shared, TensorClass, TensorDict, field, lazy_stack
from tensorclass.core._exported import dump_value, restore_value
from tensorclass.typing import Float32, Int64


class Inner(TensorClass):
    """A nested batch."""

    x: Float32[Tensor, "2"]


class Plain(TensorClass):
    """Tensors alone."""

    x: Float32[Tensor, "2"]
    y: Int64[Tensor, ""]


class Mixed(TensorClass):
    """What else a class declares."""

    x: Float32[Tensor, "2"]
    inner: Inner
    table: Shared[Tensor]
    weight: Float32[Tensor, ""] | None = None
    source: str = "scan"
    sizes: tuple[int, ...] = (1, 2)
    options: dict[str, Any] = field(default_factory=lambda: {"deep": [1.5, None, True]})


class Named(TensorClass):
    """One string for each element."""

    x: Float32[Tensor, "2"]
    name: PerElement[str] = "a"


class Boxes(TensorClass):
    """A ragged field."""

    x: Float32[Tensor, "2"]
    boxes: Ragged[Tensor, "n 4"]


def plain(n: int) -> Any:
    """Tensors."""
    return Plain(x=torch.rand(n, 2), y=torch.arange(n))


def mixed(n: int) -> Any:
    """A nested class, a shared tensor and Python values."""
    return Mixed(x=torch.rand(n, 2), inner=Inner(x=torch.rand(n, 2)), table=torch.ones(7), batch_size=[n])


def keyed(n: int) -> Any:
    """Strings as keys, names and a device."""
    entries = {"x": torch.rand(n, 2), "n": {"x": torch.rand(n, 3), "s": "text"}}
    return TensorDict(entries, batch_size=[n], names=["rows"], device="cpu")


def named(n: int) -> Any:
    """Objects of elements."""
    return Named(x=torch.rand(n, 2), name=[str(i) for i in range(n)])


def ragged(n: int) -> Any:
    """Lengths that differ."""
    return Boxes(x=torch.rand(n, 2), boxes=[torch.rand(2, 4) for _ in range(n)])


def lazy(n: int) -> Any:
    """A typed lazy stack."""
    return lazy_stack([plain(n), plain(n)], 0)


def lazy_members(n: int) -> Any:
    """A lazy stack of containers."""
    return lazy_stack([keyed(n), keyed(n)], 0)


ROWS = Dim("rows", min=2, max=99)
CASES: dict[str, tuple[Any, Any]] = {
    "typed": (plain, {"x": {0: ROWS}, "y": {0: ROWS}}),
    "mixed": (mixed, {"x": {0: ROWS}, "inner": {"x": {0: ROWS}}, "table": None}),
    "keyed": (keyed, {"x": {0: ROWS}, "n": {"x": {0: ROWS}}}),
    "per element": (named, {"x": {0: ROWS}, "name": {0: ROWS}}),
    "ragged": (ragged, None),
    "lazy typed": (lazy, {"x": {1: ROWS}, "y": {1: ROWS}}),
    "lazy": (lazy_members, [{"x": {0: ROWS}, "n": {"x": {0: ROWS}}}] * 2),
}


class Double(nn.Module):
    """Takes and returns a batch."""

    def forward(self, batch: Any) -> Any:
        return batch.set("x", batch.get("x") * 2) if type(batch) is TensorDict else batch.replace(x=batch.x * 2)


class Sum(nn.Module):
    """Takes a batch, returns a tensor."""

    def forward(self, batch: Any) -> Tensor:
        return batch.get("x").sum(-1)


def saved_and_loaded(program: torch.export.ExportedProgram, *classes: type) -> torch.export.ExportedProgram:
    """Through a file; the example inputs are pickles, so their classes are said to be safe."""
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    with torch.serialization.safe_globals([made for made in classes if made.__module__ == __name__]):
        return torch.export.load(file)


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["traced", "strict"])
@pytest.mark.parametrize("case", CASES)
def test_programs_are_saved(case, strict):
    """The loaded program takes another number of rows and computes what the module does."""
    make, shapes = CASES[case]
    batch = make(4)
    program = torch.export.export(Sum(), (batch,), dynamic_shapes=None if shapes is None else (shapes,), strict=strict)
    loaded = saved_and_loaded(program, type(batch), Inner, Plain).module()
    for other in (batch, make(4) if shapes is None else make(6)):
        if case == "per element":  # the objects are part of the program
            other = other.replace(name=batch.name) if other.shape == batch.shape else batch
        assert torch.equal(loaded(other), other.get("x").sum(-1))


@pytest.mark.parametrize("case", ["typed", "mixed", "keyed"])
def test_containers_come_out(case):
    """A program that returns containers gives back class, batch size, names and Python values after a file too."""
    make, shapes = CASES[case]
    batch = make(4)
    program = torch.export.export(Double(), (batch,), dynamic_shapes=(shapes,), strict=False)
    other = make(5)
    result = saved_and_loaded(program, type(batch), Inner).module()(other)
    assert type(result) is type(batch)
    assert result.batch_size == (5,)
    assert result.names == other.names
    assert torch.equal(result.get("x"), other.get("x") * 2)
    if case == "mixed":
        assert (result.source, result.sizes, result.options, result.weight) == ("scan", (1, 2), other.options, None)
        assert type(result.inner) is Inner


def test_shapes_of_every_form():
    """By key, by argument name, automatic, and as a collection of tensors: the same program."""
    batch, by_key = plain(4), CASES["typed"][1]
    collection = ShapesCollection()
    collection[batch.x], collection[batch.y] = (ROWS, 2), (ROWS,)
    auto = {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}
    for shapes in ((by_key,), {"batch": by_key}, (auto,), collection):
        module = torch.export.export(Sum(), (batch,), dynamic_shapes=shapes).module()
        assert module(plain(7)).shape == (7,)


def test_shapes_by_key_are_complete():
    """A key that the batch does not have, or one that is left out, is an error of torch."""
    for shapes in ({"x": {0: ROWS}}, {"x": {0: ROWS}, "y": {0: ROWS}, "z": {0: ROWS}}):
        with pytest.raises(Exception, match=r"[Aa]rity|'[yz]'"):
            torch.export.export(Sum(), (plain(4),), dynamic_shapes=(shapes,))


def test_structures_go_through_json():
    """The structure of every container is the same after JSON, types of Python values included."""
    for make, _ in CASES.values():
        leaves, structure = pytree.tree_flatten(make(3))
        again = pytree.treespec_loads(pytree.treespec_dumps(structure))
        assert again == structure
        assert pytree.tree_unflatten(leaves, again).batch_size[-1] == 3


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        2.5,
        "text",
        [1, [2]],
        (1, ("a", None)),
        {"a": (1,), 2: [3]},
        torch.Size([2]),
        torch.float16,
        torch.device("cpu"),
        [],
        (),
        {},
    ],
    ids=repr,
)
def test_python_values_keep_their_types(value):
    """What a batch holds besides tensors comes back equal and of its type."""
    again = restore_value(json.loads(json.dumps(dump_value(value, "it"))))
    assert again == value
    assert type(again) is type(value)


def test_values_without_a_json_form():
    """A program that takes an arbitrary object can't be saved, and the error names the entry."""
    batch = TensorDict(x=torch.zeros(2, 2), settings=object(), batch_size=[2])
    program = torch.export.export(Sum(), (batch,), strict=False)
    with pytest.raises(Exception, match=r"`settings` holds builtins.object, which has no JSON form"):
        torch.export.save(program, io.BytesIO())
