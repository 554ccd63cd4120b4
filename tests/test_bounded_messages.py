"""No error prints megabytes: findings are counted, texts keep their beginning and end, whatever was given."""

from __future__ import annotations

import ast
import json
import re

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor, nn

import tensorclass.nn as tc_nn
from tensorclass import PerElement, TensorClass, TensorDict, cat, errors, field, pad, pick, stack, unravel_key
from tensorclass.errors import Problem, SchemaError, TensorClassError, nearest
from tensorclass.nn.parts._diagnostics import Diagnostic, build_error
from tensorclass.typing import Float32
from tests._sources import sources
from tests.test_errors import BUILTINS

MOST = 8100
LONG = "x" * 100_000
MANY = 3000
BUILTIN = {"TypeError", "ValueError", "RuntimeError", "AttributeError", "KeyError", "IndexError", "NotImplementedError"}


class Point(TensorClass):
    """A declared class."""

    x: Float32[Tensor, "2"]
    s: str
    who: PerElement[str]


def wide(start: str = "key", count: int = MANY) -> TensorDict:
    """A container of many entries."""
    return TensorDict({f"{start}_{i}": torch.ones(2) for i in range(count)}, batch_size=[2])


Wide = type("Wide", (TensorClass,), {"__annotations__": {f"field_{i}": Float32[Tensor, ""] for i in range(400)}})
linear = tc_nn.TensorDictModule(nn.Linear(2, 2), in_keys=["absent"], out_keys=["b"])
mapped = tc_nn.TensorDictModule(lambda x: dict(wide().items()), in_keys=["key_1"], out_keys=["b"])
ROWS = [[1.0, 2.0]] * MANY
point = Point(torch.ones(3, 2), "a", ["a", "b", "c"])

CALLS = {
    "an absent key": lambda: wide()["absent"],
    "a long key": lambda: wide()[LONG],
    "a key of many parts": lambda: wide()[tuple("abc" * MANY)],
    "a key that is a list": lambda: wide().set(list(range(MANY)), 1),
    "other keys in a sum": lambda: wide() + wide("other"),
    "other keys in a comparison": lambda: wide() == wide("other"),
    "other keys in a stack": lambda: stack([wide(), wide("other")]),
    "other keys in cat": lambda: cat([wide(), wide("other")]),
    "other keys in copy_": lambda: wide().copy_(wide("other")),
    "other keys at an index": lambda: wide().__setitem__(0, wide("other")[0]),
    "other keys of a state": lambda: wide(count=300).load_state_dict(wide("other", 300).state_dict()),
    "a module that they do not fit": lambda: wide().to_module(nn.Linear(1, 1)),
    "a key of a locked container": lambda: wide().lock_().set(LONG, 1),
    "every field missing": Wide,
    "every field wrong": lambda: Wide(**{name: torch.ones(2, dtype=torch.int64) for name in Wide.__annotations__}),
    "many unknown fields": lambda: Wide(**{f"feld_{i}": 1 for i in range(MANY)}),
    "an unknown attribute": lambda: Wide.example().feild,
    "an unknown attribute of a long name": lambda: getattr(point, LONG),
    "an unknown field by key": lambda: Wide.example()["nope"],
    "an unknown field of pick": lambda: pick(Wide, "nope"),
    "a long unknown field": lambda: Point(torch.ones(3, 2), "a", ["a"] * 3, **{LONG: 1}),
    "a long list for a str": lambda: Point(torch.ones(3, 2), [1] * MANY, ["a"] * 3),
    "many wrong values in JSON": lambda: Point.from_json(json.dumps({"x": ROWS, "s": "a", "who": [1] * MANY})),
    "many unknown fields in JSON": lambda: Point.from_json("{" + ", ".join(f'"k{i}": 1' for i in range(MANY)) + "}"),
    "a long batch size": lambda: TensorDict(batch_size=[1.5] * MANY),
    "a text for a batch size": lambda: TensorDict(batch_size=LONG),
    "many names": lambda: TensorDict(batch_size=[2], names=["a"] * MANY),
    "a long device": lambda: TensorDict(a=torch.ones(1), device=LONG),
    "a dict as an index": lambda: wide()[dict.fromkeys(range(MANY))],
    "a long shape": lambda: wide().reshape(*[2] * MANY),
    "a long dim": lambda: wide().sum(["x"] * MANY),
    "a long shape text": lambda: Float32[Tensor, "h " * MANY + "%"],
    "a long option": lambda: field(coerce=LONG),
    "a long padding": lambda: pad(wide(), [1] * (MANY + 1)),
    "a long default": lambda: wide().add(wide("other"), default=LONG),
    "a long list as a key": lambda: unravel_key([1] * MANY),
    "a long tuple of fields": lambda: Wide.from_tuple(tuple(range(MANY))),
    "a module that misses its key": lambda: linear(wide()),
    "a mapping of many outputs": lambda: mapped(wide()),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_messages_are_bounded(call):
    """However much is given, a message has at most some thousand characters, and so has its repr."""
    with pytest.raises((TensorClassError, TypeError, ValueError)) as caught:
        call()
    assert 20 < len(str(caught.value)) < MOST
    assert len(repr(caught.value)) < 2 * MOST


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_every_error_is_bounded(name):
    """Beginning and end are kept: what was given stands first, what to do last."""
    error = getattr(errors, name)(f"got {LONG}; write a shorter one")
    assert str(error).startswith("got xxx")
    assert str(error).endswith("; write a shorter one")
    assert "characters left out" in str(error)
    assert len(str(error)) < MOST
    assert len(repr(error)) < MOST + 100


def test_problems_are_counted():
    """The first are printed; the error has all of them."""
    error = SchemaError.of("Point", [Problem(f"who[{i}]", "str", LONG, LONG) for i in range(50_001)])
    assert len(error.problems) == 50_001
    assert len(error.args[0]) < 50_000
    assert str(error).startswith("Point: 50001 problems\nwho[0]\n")
    assert str(error).endswith("... and 49981 more; `error.problems` has all of them")
    assert len(str(error)) < MOST


def test_diagnostics_are_counted():
    """As problems."""
    error = build_error("the pipeline", [Diagnostic("E101", f"module {i} reads nothing") for i in range(500)])
    assert len(error.diagnostics) == 500
    assert str(error).startswith("the pipeline: 500 errors\n\nerror[E101]: module 0 ")
    assert str(error).endswith("module 19 reads nothing\n\n... and 480 more in `error.diagnostics`")


def test_errors_of_pydantic_are_counted():
    """An answer to a request is not much longer than the request."""
    given = {"x": ROWS, "s": "a", "who": [1] * MANY}
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Point).validate_python(given)
    found = caught.value.errors()
    assert len(found) == 101
    assert re.fullmatch(r"2\d\d\d more problems", found[-1]["msg"])


@pytest.mark.slow
def test_builtin_errors_print_values_cut():
    """Errors of Python have no text of ours that could be cut later: each repr has a width."""
    wide_ones = []
    for source in sources():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and _name(node.exc.func) in BUILTIN:
                values = [v for v in ast.walk(node.exc) if isinstance(v, ast.FormattedValue)]
                wide_ones += [
                    f"{source.name}:{v.lineno}" for v in values if v.conversion == ord("r") and v.format_spec is None
                ]
    assert wide_ones == []


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


@pytest.mark.parametrize(
    ("name", "candidates", "found"),
    [
        ("x" * 101, ["x" * 101], None),
        ("key_5o1", [f"key_{i}" for i in range(MANY)], "key_51"),
        ("lable", ["image", "label", "table"], "label"),
        ("absent", [], None),
        ("zz", ["image", "label"], None),
    ],
)
def test_nearest_among_many(name, candidates, found):
    """Bounds that cost little leave the result what it was; names of absurd length have no nearest one."""
    assert nearest(name, candidates) == found
