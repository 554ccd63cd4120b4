"""Every parameter of a public method or function of the original is taken here, or a table has the reason.

Each name of the table is in docs/migrating.md too, where those who move look it up.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensordict
import tensordict.nn
import torch

import tensorclass
import tensorclass.nn

CONTAINERS = ("TensorDict", "LazyStackedTensorDict", "TypedTensorDict", "TensorClass")
ENTRIES = ("NonTensorData", "NonTensorStack", "UnbatchedTensor")
PRIVATE = "an argument of the original's own machinery"
ONE = "one implementation for every container: its names are those of `TensorDict`"
MADE = "an option of how the original stores objects"
DIFFERENT = {
    "LazyStackedTensorDict.from_dict": ({"stack_dim", "stack_dim_name"}, "a mapping is one container; stack the parts"),
    "LazyStackedTensorDict.maybe_dense_stack": ({"items"}, ONE),
    "LazyStackedTensorDict.valid_keys": ({"sort"}, "keys come in the order of the first member; use `sorted`"),
    "TypedTensorDict.from_dict": ({"check"}, "missing fields are an error; `from_tensordict` has `check`"),
    "TypedTensorDict.from_tensordict": ({"td"}, "named `tensordict`, as in every other class"),
    "TensorClass.from_tensordict": ({"safe"}, "an instance is always validated"),
    **{
        f"{owner}.{name}": ({"_tensorclass_type"}, PRIVATE)
        for owner in (*CONTAINERS[:3], "nn.TensorDictParams") for name in ("broadcast", "init_remote")
    },
    "NonTensorData.tolist": ({"convert_tensors", "tolist_first", "as_linked_list"}, MADE),
    "NonTensorStack.tolist": ({"convert_nodes", "convert_tensors", "tolist_first", "as_linked_list"}, MADE),
    "NonTensorStack.append": ({"tensordict"}, "an object is appended, not a container"),
    "NonTensorStack.extend": ({"tensordict"}, "objects are appended, not containers"),
    "NonTensorStack.insert": ({"tensordict"}, "an object is inserted, not a container"),
    "NonTensorStack.from_list": ({"non_tensors"}, "given by position"),
    "MemoryMappedTensor": ({"handler"}, "an open file handle is never shared"),
    "NonTensorData": ({"_metadata", "_is_non_tensor"}, PRIVATE),
    "NonTensorDataBase": ({"_metadata", "_is_non_tensor"}, PRIVATE),
    "TensorAttrs": ({"batch_size", "device", "names"}, "a plain frozen dataclass"),
}  # fmt: skip


def named(function: Any) -> dict[str, inspect.Parameter]:
    """The parameters by name, without the receiver; none for what has no signature."""
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    return {name: parameter for name, parameter in found.items() if name not in ("self", "cls")}


def pairs() -> Iterator[tuple[str, Any, Any]]:
    """Every public callable of both, with its name."""
    for owner in (*CONTAINERS, *ENTRIES):
        theirs, ours = getattr(tensordict, owner), getattr(tensorclass, owner)
        for name in dir(theirs):
            if not name.startswith("_") and callable(getattr(theirs, name)) and hasattr(ours, name):
                yield f"{owner}.{name}", getattr(theirs, name), getattr(ours, name)
    for prefix, theirs, ours in (("", tensordict, tensorclass), ("nn.", tensordict.nn, tensorclass.nn)):
        for name in dir(theirs):
            if name.startswith("_") or not hasattr(ours, name) or not callable(getattr(theirs, name)):
                continue
            first, second = getattr(theirs, name), getattr(ours, name)
            yield f"{prefix}{name}", first, second
            if not prefix or not isinstance(first, type):
                continue
            for member in dir(first):
                if member.startswith("_") or not callable(getattr(first, member)) or not hasattr(second, member):
                    continue
                if member == "forward" or not hasattr(torch.nn.Module, member):
                    yield f"{prefix}{name}.{member}", getattr(first, member), getattr(second, member)


PAIRS = {label: (theirs, ours) for label, theirs, ours in pairs()}


def absent(theirs: Any, ours: Any) -> set[str]:
    """The named parameters of theirs that ours refuses; one that takes any keyword decides in its body."""
    mine, kind = named(ours), inspect.Parameter
    if any(parameter.kind is kind.VAR_KEYWORD for parameter in mine.values()) or inspect.ismethoddescriptor(ours):
        return set()
    wanted = {name for name, p in named(theirs).items() if p.kind not in (kind.VAR_KEYWORD, kind.VAR_POSITIONAL)}
    return wanted - mine.keys()


def test_every_parameter() -> None:
    """What is not taken stands in the table, and nothing stands there that is taken."""
    assert len(PAIRS) > 1000
    found = {label: missing for label, pair in PAIRS.items() if (missing := absent(*pair))}
    assert found == {label: missing for label, (missing, _) in DIFFERENT.items()}


@pytest.mark.parametrize("label", DIFFERENT)
def test_the_difference_is_documented(label: str) -> None:
    """Each parameter is in a row of docs/migrating.md that names its function."""
    page = Path(__file__).parents[2].joinpath("docs", "migrating.md").read_text(encoding="utf-8").splitlines()
    if DIFFERENT[label][1] == PRIVATE:
        assert all(name.startswith("_") for name in DIFFERENT[label][0])
        return
    rows = [row for row in page if f"`{label}" in row]
    assert all(any(name in row for row in rows) for name in DIFFERENT[label][0]), rows


def test_words_of_the_original_work() -> None:
    """Parameters by the names that they have there."""
    parts = [tensorclass.TensorDict(a=torch.zeros(2)), tensorclass.TensorDict(a=torch.ones(2))]
    assert tensorclass.lazy_stack(input=parts).batch_size == (2,)
    assert tensorclass.maybe_dense_stack(input=parts, dim=0).batch_size == (2,)


def test_a_composite_is_a_mapping() -> None:
    """`get`, `keys`, `values` and `items` as there, nested keys too."""
    found = []
    for package in (tensordict, tensorclass):
        one = {"loc": torch.zeros(2), "scale": torch.ones(2)}
        params = package.TensorDict({"a": one, "n": {"b": one}}, [2])
        normal = torch.distributions.Normal
        dist = package.nn.CompositeDistribution(params, distribution_map={"a": normal, ("n", "b"): normal})
        assert [dist.get(key) for key in dist.keys()] == list(dist.values())  # noqa: SIM118
        assert dict(dist.items())["n", "b"] is dist.get(("n", "b"))
        found.append((list(dist.keys()), dist.get("z"), dist.get("z", 5), dist.get("n"), len(dist.values())))
    assert found[0] == found[1]
