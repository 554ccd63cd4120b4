"""Rows of docs/migrating.md about calls that run with both libraries: each gives what its row says."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensordict
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import tensorclass
from tests._sources import ROOT

PAGE = (ROOT / "docs/migrating.md").read_text("utf-8")
Program = Callable[[Any, Path], Any]
ROWS: dict[str, tuple[Program, Any, Any]] = {}
KINDS = ("Unsupported", "ValueError", "RuntimeError")
"""Classes of errors that callers catch."""


def row(cell: str, theirs: Any, ours: Any) -> Callable[[Program], Program]:
    """Take a program up: the first cell of its row, and what the two libraries give."""

    def take(program: Program) -> Program:
        ROWS[cell] = program, theirs, ours
        return program

    return take


def optional_class(td: Any) -> Any:
    """A class with fields that may be left out."""

    class Sample:
        x: Tensor
        label: Tensor | None = None
        count: int = 3

    return td.tensorclass(Sample)


def stack(td: Any) -> Any:
    """Two members, stacked first."""
    return td.lazy_stack([td.TensorDict(a=torch.arange(3.0) + i, batch_size=[3]) for i in range(2)])


@row("`select`, `exclude` of a typed class", ["Sample", "Sample"], ["TensorDict", "TensorDict"])
def chosen_fields(td: Any, folder: Path) -> Any:
    """The class of a choice."""
    sample = optional_class(td)(torch.ones(2), batch_size=[2])
    return [type(one).__name__ for one in (sample.select("x"), sample.exclude("label"))]


@row("`from_dict`, `from_tensordict` without a field that has a default", None, 3)
def absent_field(td: Any, folder: Path) -> Any:
    """What is read."""
    return optional_class(td).from_dict({"x": torch.ones(2)}, batch_size=[2]).count


@row("`isinstance(x, TensorClass)` of a decorated class", False, True)
def decorated(td: Any, folder: Path) -> Any:
    """Of one without the base."""
    return isinstance(optional_class(td)(torch.ones(2), batch_size=[2]), td.TensorClass)


@row("a list of objects for a field of `Any`", "a", ["a", "b"])
def list_of_objects(td: Any, folder: Path) -> Any:
    """What a row has."""

    class Info:
        x: Tensor
        info: Any = None

    return td.tensorclass(Info)(torch.ones(2), info=["a", "b"], batch_size=[2])[0].info


@row("a `NonTensorStack` in a field of `Any`", ["str", "LinkedList"], ["NonTensorStack", "NonTensorStack"])
def stack_of_objects(td: Any, folder: Path) -> Any:
    """What a row and the batch have."""

    class Info:
        x: Tensor
        info: Any = None

    made = td.tensorclass(Info)(torch.ones(2), info=td.NonTensorStack("a", "b"), batch_size=[2])
    return [type(made[0].info).__name__, type(made.info).__name__]


@row("`values()`, `items()`, `pop`, `setdefault`", ["NonTensorData"] * 4, ["str"] * 4)
def wrapped_objects(td: Any, folder: Path) -> Any:
    """The kinds of one string."""
    data = td.TensorDict(s="x", batch_size=[2])
    found = [*data.values(), *[value for _, value in data.items()], data.setdefault("s", "y"), data.pop("s")]
    return [type(value).__name__ for value in found]


@row(
    "`clone` of a container with one object for the batch, in `NonTensorData` or `MetaData`",
    [False] * 3,
    [True, True, False],
)
def cloned_objects(td: Any, folder: Path) -> Any:
    """Whether copies have the same object; the last is a deep copy."""
    data, meta = (td.TensorDict(s=kind({"k": 1}), batch_size=[2]) for kind in (td.NonTensorData, td.MetaData))
    return [data.clone()["s"] is data["s"], meta.clone()["s"] is meta["s"], copy.deepcopy(data)["s"] is data["s"]]


@row(
    "writes from entries that share memory with their targets, or under a mask that is one of them, "
    '`td[td["done"]] = ...`',
    [[False, False], [1.0, 1.0]],
    [[False, False], [0.0, 1.0]],
)
def own_mask(td: Any, folder: Path) -> Any:
    """A reset of the rows that are done, by the entry itself."""
    data = td.TensorDict({"done": torch.tensor([True, False]), "step": torch.ones(2)}, [2])
    data[data["done"]] = td.TensorDict({"done": torch.zeros(1, dtype=torch.bool), "step": torch.zeros(1)}, [1])
    return data["done"].tolist(), data["step"].tolist()


@row(
    "`reshape`, `flatten` of a lazy stack over its stack dim",
    ["LazyStackedTensorDict", 0.0, "LazyStackedTensorDict", 0.0, "LazyStackedTensorDict", 0.0],
    ["TensorDict", 6.0, "TensorDict", 6.0, "LazyStackedTensorDict", 0.0],
)
def merged_dims(td: Any, folder: Path) -> Any:
    """The class of the result, and what a write to it leaves of a member."""
    found: list[Any] = []
    for call in (lambda x: x.reshape(-1), lambda x: x.flatten(0, 1), lambda x: x.view(-1)):
        source = stack(td)
        merged = call(source)
        merged.zero_()
        found += [type(merged).__name__, source[1]["a"].sum().item()]
    return found


@row("`expand`, `masked_select` of a lazy stack", ["TensorDict"] * 2, ["LazyStackedTensorDict"] * 2)
def expanded(td: Any, folder: Path) -> Any:
    """The classes of the results."""
    made = stack(td).expand(2, 2, 3), stack(td).masked_select(torch.ones(2, 3, dtype=torch.bool))
    return [type(one).__name__ for one in made]


@row("`batch_size = ...` of a lazy stack", "RuntimeError", [[2], [], [2, 3]])
def shorter(td: Any, folder: Path) -> Any:
    """The sizes of the stack and of a member."""
    source = stack(td)
    source.batch_size = [2]
    return list(source.batch_size), list(source[0].batch_size), list(source["a"].shape)


@row("an object in a mapped container: `update(..., inplace=True)`, `td[0] = row`", ["b", ["b", "y"]], "RuntimeError")
def mapped_objects(td: Any, folder: Path) -> Any:
    """What is in the files."""
    one = td.TensorDict(s="a", batch_size=[2]).memmap(folder / "one")
    one.update({"s": "b"}, inplace=True)
    each = td.TensorDict(s=td.NonTensorStack("x", "y"), batch_size=[2]).memmap(folder / "each")
    each[0] = td.TensorDict(s="b")
    return td.TensorDict.load_memmap(folder / "one")["s"], list(td.TensorDict.load_memmap(folder / "each")["s"])


@row("the order of keys after `merge_tensordicts`", ["n", "z", "c"], ["z", "n", "c"])
def merged_keys(td: Any, folder: Path) -> Any:
    """The keys in order."""
    one, two = td.TensorDict({"z": 1, "n": {"b": 2}}), td.TensorDict({"n": {"a": 3}, "c": 4})
    return [str(key) for key in td.merge_tensordicts(one, two).keys()]  # noqa: SIM118  # a container


@row("`torch.func.jvp` through `to_module`", [0.0], [3.0])
def tangents(td: Any, folder: Path) -> Any:
    """The tangent for ones."""
    module = nn.Linear(2, 1)
    params = td.TensorDict.from_module(module).detach().clone()

    def call(params: Any) -> Tensor:
        with params.to_module(module):
            return module(torch.ones(2))

    return torch.func.jvp(call, (params,), (params * 0 + 1,))[1].tolist()


@row(
    "a parameter that is assigned as an attribute of a `TensorDictParams`",
    [["a", "w"], ["a"]],
    [["a", "w"], ["a", "w"]],
)
def parameter_by_name(td: Any, folder: Path) -> Any:
    """The names of parameters, and the keys."""
    params = td.TensorDictParams(td.TensorDict(a=torch.ones(2)))
    params.w = nn.Parameter(torch.ones(1))
    return [name for name, _ in params.named_parameters()], list(params.keys())


@row("`tree_map` of a `TensorDictParams`, if the function gives parameters", "TensorDictParams", "TensorDict")
def mapped_parameters(td: Any, folder: Path) -> Any:
    """The class of the result."""
    return type(pytree.tree_map(lambda leaf: leaf, td.TensorDictParams(td.TensorDict(a=torch.ones(2))))).__name__


@row("`with td.flatten_keys()`, `with td.unsqueeze(0)` in `torch.compile(fullgraph=True)`", ["a", "z"], "Unsupported")
def compiled_block(td: Any, folder: Path) -> Any:
    """The keys after a block in a compiled function."""

    def write(data: Any) -> Any:
        with data.unsqueeze(0) as part:
            part["z"] = part["a"]
        return data

    torch._dynamo.reset()
    compiled = torch.compile(write, backend="eager", fullgraph=True)
    return sorted(compiled(td.TensorDict(a=torch.ones(2), batch_size=[2])).keys())


@row("`@tensorclass(autocast=True)`", [3, 3, "4"], [3, "ValueError", "ValueError"])
def autocast(td: Any, folder: Path) -> Any:
    """What fields hold."""

    class Row:
        i: int
        s: str = "x"

    cls = td.tensorclass(autocast=True)(Row)
    calls = (lambda: cls(i="3").i, lambda: cls(i=3.7).i, lambda: cls(i=1, s=4).s)
    return [outcome(call) for call in calls]


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    """What a call gives, tuples as lists; for an error, the name of one of its classes that callers catch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = call(*args)
        except Exception as error:
            names = [kind.__name__ for kind in type(error).__mro__]
            return next(name for name in KINDS if name in names)
    return list(found) if isinstance(found, tuple) else found


@pytest.mark.parametrize("cell", ROWS)
def test_rows(cell: str, tmp_path: Path) -> None:
    """The row is on the page, and both libraries give what it says."""
    assert f"\n| {cell} |" in PAGE
    program, theirs, ours = ROWS[cell]
    for name, wanted in (("theirs", theirs), ("ours", ours)):
        (tmp_path / name).mkdir()
        assert outcome(program, tensordict if name == "theirs" else tensorclass, tmp_path / name) == wanted, name


def test_wrappers_are_no_fields() -> None:
    """An annotation that no value would fit is an error at definition."""
    assert "| a field annotated `NonTensorData` |" in PAGE
    for kind, told in (
        (tensorclass.NonTensorData, "Any"),
        (tensorclass.NonTensorData[str], "str"),
        (tensorclass.MetaData, "Any"),
    ):
        for annotation in (kind, kind | None):
            space = {"__annotations__": {"x": Tensor, "note": annotation}, "__module__": __name__}
            with pytest.raises(tensorclass.errors.SchemaError, match=f"note(.|\n)*declare `{told}`"):
                type("Noted", (tensorclass.TensorClass,), space)
