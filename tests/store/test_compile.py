"""torch.compile without graph breaks: the same results as eager, and no more compilations than raw tensors need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from packaging.version import Version
from torch._dynamo.eval_frame import _debug_get_cache_entry_list
from torch._dynamo.testing import CompileCounter

from tensorclass import TensorDict, stack
from tests._marks import rest_is_slow
from tests._versions import TORCH
from tests.contract._model import Model, assert_same
from tests.contract._typed_kinds import Inner


def make(typed: bool, size: int = 3) -> Any:
    """A batch of two fields."""
    x, y = torch.arange(4.0 * size).reshape(size, 4), torch.arange(float(size))
    return Inner(x=x, y=y, batch_size=[size]) if typed else TensorDict({"x": x, "y": y}, batch_size=[size])


def _set_item(c: Any) -> Any:
    c = c.clone()
    c[0] = c[1]
    return c


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "construct": lambda c: type(c)(x=c["x"] + 1, y=c["y"], batch_size=c.batch_size),
    "int": lambda c: c[0],
    "slice": lambda c: c[1:],
    "tensor": lambda c: c[torch.tensor([0, 1])],
    "new dim": lambda c: c[None],
    "stack": lambda c: torch.stack([c, c + 1]),
    "free stack": lambda c: stack([c, c]),
    "cat": lambda c: torch.cat([c, c]),
    "arithmetic": lambda c: (c + c) * 2 - c / 3,
    "compare": lambda c: c == c + 1,
    "in place": lambda c: c.clone().add_(1).mul_(c),
    "set": lambda c: c.copy().set("x", c["x"] * 2),
    "update": lambda c: c.copy().update({"x": c["x"] * 2}),
    "update_": lambda c: c.clone().update_({"x": c["x"] * 2}),
    "index assignment": _set_item,
    "reshape": lambda c: c.reshape(1, -1),
    "permute": lambda c: c.unsqueeze(0).permute(1, 0),
    "unbind": lambda c: c.unbind(0)[0],
    "split": lambda c: c.split(1)[1],
    "to dtype": lambda c: c.to(torch.float64),
    "to device": lambda c: c.to("cpu"),
    "clone": lambda c: c.clone(),
    "apply": lambda c: c.apply(lambda t: t.sin()),
    "expand": lambda c: c.expand(2, *c.batch_size),
    "replace": lambda c: c.replace(x=c["x"] + 1),
}


GUARDS = {"int": 46, "new": 58, "stack": 68, "add": 85, "sum": 76, "clone": 60}
"""The most guards of each on 2 fields: some more than were counted, since releases of torch differ."""
MORE = 12 if Version("2.15") <= TORCH else 0
"""Since then, a name that a class inherits is looked for in the class of a user too."""


@pytest.mark.parametrize("typed", [False, True], ids=["untyped", "typed"])
@pytest.mark.parametrize("name", GUARDS)
def test_guards_are_few(name: str, typed: bool) -> None:
    """Before each compiled call its guards are asked. None looks through the bases of a class for a method."""
    operations: dict[str, Callable[[Any], Any]] = {
        "int": lambda c: c[0],
        "new": lambda c: c.unsqueeze(0),
        "stack": lambda c: torch.stack([c, c]),
        "add": lambda c: c + c,
        "sum": lambda c: c.sum(0),
        "clone": lambda c: c.clone(),
    }
    torch.compiler.reset()
    torch.compile(operations[name], backend="eager", fullgraph=True)(make(typed))
    (entry,) = _debug_get_cache_entry_list(operations[name])
    lines = [line for line in str(entry.guard_manager).splitlines() if "+- " in line and "GuardManager" not in line]
    in_vain = [line for line in lines if "DICT_CONTAINS" in line and "not ___dict_contains" in line]
    assert len(lines) <= GUARDS[name] + MORE, "\n".join(lines)
    # most of them look into the dict of an instance, which has nothing
    assert len(in_vain) <= 8 + MORE // 6, "\n".join(in_vain)


@pytest.mark.parametrize("typed", [False, True], ids=["untyped", "typed"])
@pytest.mark.parametrize("name", rest_is_slow(FUNCTIONS, each=2))
def test_one_graph(name: str, typed: bool):
    """Traced whole, with the result of eager mode."""
    torch._dynamo.reset()
    function, container = FUNCTIONS[name], make(typed)
    result = torch.compile(function, backend="eager", fullgraph=True)(container)
    assert_same(result, Model.of(function(container)))
    assert type(result) is type(container)


@pytest.mark.slow
@pytest.mark.parametrize("typed", [False, True], ids=["untyped", "typed"])
def test_as_many_compilations_as_raw_tensors(typed: bool):
    """Batch sizes 3 to 7: what raw tensors recompile for, and no more."""
    raw, ours = CompileCounter(), CompileCounter()
    torch._dynamo.reset()
    function = torch.compile(lambda x, y: (x + 1, y * 2), backend=raw, fullgraph=True)
    for size in range(3, 8):
        batch = make(typed, size)
        function(batch["x"], batch["y"])
    torch._dynamo.reset()
    function = torch.compile(lambda c: (c + 1)[:2], backend=ours, fullgraph=True)
    for size in range(3, 8):
        function(make(typed, size))
    assert ours.frame_count == raw.frame_count
