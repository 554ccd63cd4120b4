"""`with` blocks in one another: whatever shape the containers have on the way, the first one gets what was written."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensorclass import TensorDict
from tests.contract._invariants import check

CALLS: dict[str, Callable[[Any], Any]] = {
    "flatten_keys": lambda x: x.flatten_keys("."),
    "unflatten_keys": lambda x: x.unflatten_keys("."),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "squeeze": lambda x: x.squeeze(),
    "view": lambda x: x.view(-1),
    "permute": lambda x: x.permute(*reversed(range(x.ndim))),
    "transpose": lambda x: x.transpose(0, -1),
    "flatten": lambda x: x.flatten(0, -1),
    "unflatten": lambda x: x.unflatten(0, (x.batch_size[0], 1)),
    "lock_": lambda x: x.lock_(),
    "unlock_": lambda x: x.unlock_(),
}
NO_VIEWS = itertools.product(("permute", "transpose"), ("view",))  # torch has no view of those
PAIRS = sorted({*itertools.product(CALLS, CALLS)} - {*NO_VIEWS})


def _source(nested: bool) -> TensorDict:
    entries = {"a": torch.arange(6.0).reshape(2, 3), "n.b": torch.ones(2, 3, 2), "n.m.c": torch.zeros(2, 3)}
    flat = TensorDict(entries, batch_size=[2, 3])
    return flat.unflatten_keys(".") if nested else flat


def _named(x: TensorDict, path: str) -> Any:
    """A path as it is written in this container: as one key, where its keys are flat."""
    keys = x.keys(True, True)
    return path if any("." in key for key in keys if isinstance(key, str)) else tuple(path.split("."))


ACTIONS: dict[str, Callable[[TensorDict], Any]] = {
    "nothing": lambda x: None,
    "in place": lambda x: x.get(_named(x, "n.m.c")).add_(5),
    "set": lambda x: x.set(_named(x, "n.m.c"), x.get(_named(x, "n.m.c")) + 10),
    "add": lambda x: x.set("z", torch.zeros(x.batch_size)),
    "add below": lambda x: x.set(_named(x, "n.z"), torch.zeros(x.batch_size)),
    "add new below": lambda x: x.set(_named(x, "q.z"), torch.zeros(x.batch_size)),
    "delete": lambda x: x.del_(_named(x, "n.m.c")),
    "delete and add": lambda x: x.del_("a").set("z", torch.zeros(x.batch_size)),
    "update": lambda x: x.update({"a": x["a"] * 2}),
}


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_blocks_in_blocks(pair: tuple[str, str], nested: bool):
    """The source is what the same action on it would have made of it, keys and shapes in its own style."""
    outer, inner = (CALLS[name] for name in pair)
    for (name, action), inside in itertools.product(ACTIONS.items(), (True, False)):
        if "lock_" in pair and name != "nothing":  # one of the two can't be written to
            continue
        source, expected = _source(nested), _source(nested)
        action(expected)
        with outer(source) as first, inner(first) as second:
            action(second if inside else first)
        check(source)
        assert not source.is_locked
        assert source.batch_size == (2, 3)
        assert set(source.keys(True, True)) == set(expected.keys(True, True)), name
        assert all(torch.equal(source[key], expected[key]) for key in expected.keys(True, True)), name


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_an_exception_writes_nothing_back(pair: tuple[str, str], nested: bool):
    """After an error in the inner block, new entries stay in the results, and locks are what they were."""
    source = _source(nested)

    def fail() -> None:
        with CALLS[pair[0]](source) as first, CALLS[pair[1]](first) as second:
            if not second.is_locked:
                second.set("a", second["a"] + 1)
            raise RuntimeError("stop")

    same = source.is_locked, _source(nested)
    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert source.is_locked is same[0]
    if pair not in itertools.product(("lock_", "unlock_"), ("lock_", "unlock_")):  # there it is one container
        assert set(source.keys(True, True)) == set(same[1].keys(True, True))
        assert bool(source == same[1])


def test_new_paths_take_the_style_of_the_source():
    """Of a container with flat keys a new path is one key; below a container that is there it stays a path."""
    mixed = TensorDict({"x.y": torch.zeros(2), "n": TensorDict(b=torch.zeros(2), batch_size=[2])}, batch_size=[2])
    with mixed.unflatten_keys() as nested:
        nested["q", "z"] = torch.ones(2)
        nested["n", "z"] = torch.ones(2)
        nested["x", "z"] = torch.ones(2)
    assert set(mixed.keys(True, True)) == {"x.y", "x.z", "q.z", ("n", "b"), ("n", "z")}
    plain = TensorDict(n=TensorDict(b=torch.zeros(2), batch_size=[2]), batch_size=[2])
    with plain.unflatten_keys() as nested:
        nested["q", "z"] = torch.ones(2)
    assert set(plain.keys(True, True)) == {("n", "b"), ("q", "z")}
