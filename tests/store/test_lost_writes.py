"""Writes to a temporary that reach nothing: `migrate` lists them, and `migration_warnings` warns once for each line."""

from __future__ import annotations

import ast
import linecache
import warnings
from typing import Any

import pytest
import tensordict
import torch
from torch import Tensor

import tensorclass
from tensorclass import PersistentTensorDict, TensorClass, TensorDict, lazy_stack, migration_warnings
from tensorclass.errors import MigrationWarning
from tensorclass.store import find_lost_writes
from tensorclass.typing import Float32

LOST = [
    'd.reshape(3)["x"] = v',
    'd.view(-1)["x"] = v',
    'd.permute(0)["x"] = v',
    'd.squeeze()["x"] = v',
    'd.transpose(0, 0)["x"] = v',
    'd.to("cpu")["x"] = v',
    'd.select("n")["n"]["x"] = v',
    'd.exclude("a")["n"]["x"] = v',
    'd.select("n")["n", "x"] = v',
    'd.swapaxes(0, 0)["x"] = v',
    'd.movedim(0, 0)["x"] = v',
    'd.select("n").get("n")["x"] = v',
    'd.select("n").get("n").set("x", v)',
    'd["n"][:]["b"] = v',
    'd[:,]["a"] = v',
    'd[:]["a"] = v',
    'd[...]["x"] = v',
    'd[0:2]["a"] = v[:2]',
    'd[0]["a"] = v[0]',
    'd[-1]["n"]["b"] = v[0]',
    'd[d["a"] == 0]["a"] = v',
    "d[[0, 1]].zero_()",
    'd.reshape(3).set("x", v)',
    "d.view(3).update(x=v)",
    'd.reshape(3).pop("a")',
    'del d[:]["a"]',
    'd[:].rename_key_("a", "c")',
    'd.view(3)["a"], w = v, 1',
    'd[[0, 1]]["a"] += 1',
    'd[d["a"] == 0]["n"]["b"] += 1',
    'd[~(d["a"] > 0)].set_("a", v)',
]
"""Statements that the program alone shows to be lost."""
SHARED = [
    'd["n"]["x"] = v',
    'd["n", "b"] = v',
    'd.get("n")["x"] = v',
    "d[0:2].zero_()",
    "d[0] = d[1]",
    "d[:][0] = d[1]",
    'd.view(3)["a"].zero_()',
    'd.view(3)["a"][0] = 1',
    "d.reshape(3)[0] = d[1]",
    'e = d.reshape(3); e["x"] = v',
    'd.set_at_("a", v[0], 0)',
    'd.lock_().unlock_()["x"] = v',
    'd[0].set_("a", v[0])',
    "rows[0].append(1)",
    "rows[0].update(a=1)",
    'd[0:2]["a"] += 1',
    'd[0]["a"] += 1',
    'd.view(3)["a"] += 1',
]
"""Statements that reach what they name."""


class Row(TensorClass):
    """A typed batch."""

    x: Float32[Tensor, ""]


@pytest.fixture
def warned():
    """Warnings are on in the test, and off after it."""
    migration_warnings()
    yield
    migration_warnings(False)


def data(library: Any = tensorclass) -> Any:
    """A container with a nested one."""
    nested = library.TensorDict({"b": torch.zeros(3)}, batch_size=[3])
    return library.TensorDict({"a": torch.zeros(3), "n": nested}, batch_size=[3])


def execute(code: str, **names: Any) -> list[str]:
    """The warnings of a program."""
    file = f"<program {abs(hash(code))}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(code, file, "exec"), {"__name__": "program", "v": torch.ones(3), **names})  # a test's own
    return [str(one.message) for one in caught if one.category is MigrationWarning]


@pytest.mark.parametrize("code", LOST)
def test_lost_writes_are_listed_and_warned_of(warned, code):
    """The source of such a statement is unchanged, and both the list and the warning say so."""
    (found,) = [one for one in find_lost_writes(ast.parse(code)) if one.sure]
    d = data()
    before = d.clone()
    assert execute(code, d=d) == [found.text]
    assert (d == before).all()
    assert d.keys(True, True) == before.keys(True, True)


@pytest.mark.parametrize("code", SHARED)
def test_writes_that_arrive_are_not_listed(warned, code):
    """Views share memory, keys give what is stored, and other objects have methods of these names."""
    assert [one for one in find_lost_writes(ast.parse(code)) if one.sure] == []
    assert execute(code, d=data(), rows=[[]] if "append" in code else [{}]) == []


@pytest.mark.parametrize("code", [one for one in LOST if not one.startswith(("d[d", "d[["))])
def test_the_list_has_what_differs(code):
    """Where the original writes through, the statement is in the list; here it never does."""
    old, new = data(tensordict), data()
    for one in (old, new):
        exec(code, {"d": one, "v": torch.ones(3)})  # a test's own
    assert new.keys(True, True) == data().keys(True, True)
    assert (new == data()).all()


def test_keys_in_variables_are_no_indices(warned):
    """Whether a name is a key or an index shows when the program runs."""
    code = 'd[k]["x"] = v'
    assert [one.sure for one in find_lost_writes(ast.parse(code))] == [False]
    assert execute(code, d=data(), k="n") == []
    assert len(execute(code.replace("v", "v "), d=data(), k=slice(None))) == 1


def test_lazy_stacks(warned):
    """A member is shared, a slice shares its members, and a selection by mask shares nothing."""
    stack = lazy_stack([data(), data()])
    assert execute('s[0]["x"] = v', s=stack) == []
    assert execute("s[0:1].zero_()", s=stack) == []
    assert len(execute('s[0:1]["a"] = v[None]', s=stack)) == 1
    assert len(execute('s[0:1]["a"] += 1', s=stack)) == 1
    assert execute('s[0]["a"] += 0', s=stack) == []
    assert stack["a"].sum() == 0
    assert len(execute("s[m].zero_()", s=stack, m=torch.tensor([True, False]))) == 1


def test_files(warned, tmp_path):
    """An index of a store in a file reads it."""
    stored = PersistentTensorDict.from_dict({"a": torch.ones(3)}, tmp_path / "x.h5", batch_size=[3])
    for code in ('p[0]["a"] = v[0]', "p[0:2].zero_()", 'p[0].set_("a", v[0] * 0)'):
        assert len(execute(code, p=stored)) == 1
    assert stored["a"].tolist() == [1, 1, 1]


def test_typed_batches_and_attributes(warned):
    """A field of a temporary is written like a key of one; the source may be an attribute of an object."""

    class Held:
        pass

    held = Held()
    held.rows = Row(x=torch.zeros(3))
    assert len(execute("h.rows[0:2].x = v[:2]", h=held)) == 1
    assert len(execute("h.rows.reshape(3).x = v", h=held)) == 1
    assert execute("h.rows[0:2].x += 0", h=held) == []
    assert len(execute("h.rows[[0, 1]].x += 1", h=held)) == 1
    assert held.rows.x.tolist() == [0, 0, 0]


def test_once_for_each_line(warned):
    """A loop warns once, from the line of the program; switching on again starts anew."""
    code = 'for _ in range(3):\n    d[:]["a"] = v'
    assert len(execute(code, d=data())) == 1
    assert execute(code, d=data()) == []
    migration_warnings()
    assert len(execute(code, d=data())) == 1


def test_off_means_off():
    """Without the warnings, all methods are what they were before."""
    before = {name: getattr(TensorDict, name) for name in dir(TensorDict) if not name.startswith("__")}
    before["__setitem__"] = TensorDict.__setitem__
    migration_warnings(True)
    assert TensorDict.__setitem__ is not before["__setitem__"]
    migration_warnings(True)
    migration_warnings(False)
    assert {name: getattr(TensorDict, name) for name in before} == before
    assert execute('d[:]["a"] = v', d=data()) == []
