"""Fields and methods with the names of container methods: what needs `shadow`, and that the package works on."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorCollection, cat, field, stack
from tensorclass.classes._build import _YIELDING, member_names
from tensorclass.errors import SchemaError
from tensorclass.testing import assert_close
from tensorclass.typecheck import _rules
from tensorclass.typing import Float32
from tests.classes._refused import REFUSED

NAMES = sorted(n for n in dir(TensorClass) if not n.startswith("_") and callable(getattr(TensorCollection, n, None)))
FIELDS = sorted(name for name in member_names() if name not in _rules.RESERVED and not name.startswith("_"))


def made(**body: Any) -> Any:
    """A class with one field `x` and what is given."""
    annotations = {"x": Float32[Tensor, "2"], **body.pop("annotations", {})}
    meta: Any = type(TensorClass)
    return meta("Made", (TensorClass,), {"__annotations__": annotations, "__module__": __name__, **body})


def results(one: Any) -> list[Any]:
    """What goes through the package without a call of a method by its name."""
    return [
        one[0],
        one[1:],
        one + 1,
        -one,
        stack([one, one]),
        cat([one, one]),
        torch.stack([one, one]),
        torch.cat([one, one]),
        torch.split(one, 2)[0],
        torch.chunk(one, 2)[0],
        torch.unbind(one)[0],
        torch.reshape(one, (2, 2)),
        torch.clone(one),
        torch.sum(one, 0),
        torch.flatten(one),
        torch.unsqueeze(one, 0),
        torch.permute(one, (0,)),
        torch.zeros_like(one),
        torch.abs(one),
        torch.maximum(one, one),
        torch.roll(one, 1, 0),
        torch.flip(one, (0,)),
    ]


def test_the_refused_names_are_frozen() -> None:
    """A method that comes later gives way to fields: its name belongs in `_YIELDING`."""
    assert set(FIELDS) == set(REFUSED.split())


@pytest.mark.parametrize("name", NAMES)
def test_a_method_takes_the_place_of_the_containers_and_of_nothing_else(name: str) -> None:
    """`batch.name()` is the user's method; operators, torch's functions and joins are the package's."""
    cls = made(**{name: lambda self: "mine"})
    one = cls(x=torch.zeros(4, 2))
    assert getattr(one, name)() == "mine"
    assert {type(result) for result in results(one)} == {cls}


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_may_hide_a_method_when_it_says_so(name: str) -> None:
    """Without `shadow` the name is refused with both remedies; with it the field works, in a child too."""
    annotations = {name: Float32[Tensor, ""]}
    with pytest.raises(SchemaError, match=r"field\(shadow=True\)"):
        made(annotations=annotations)
    cls = made(annotations=annotations, **{name: field(shadow=True)})
    child = type(cls)("Child", (cls,), {"__annotations__": {"y": Float32[Tensor, ""]}, "__module__": __name__})
    one = child(torch.zeros(4, 2), torch.arange(4.0), torch.zeros(4))
    assert getattr(one, name).tolist() == [0, 1, 2, 3]
    assert getattr(one[1:], name).tolist() == [1, 2, 3]


FREE = sorted(n for n in dir(TensorClass) if n[0] != "_" and n not in FIELDS and n not in _rules.RESERVED)


def test_the_page_lists_the_names_that_make_room() -> None:
    """Every public method that a field may hide, and no other name."""
    page = Path(__file__).parents[2].joinpath("docs/concepts.md").read_text("utf-8")
    listed = page.partition("Such are")[2].partition(": a class may have")[0]
    assert re.findall(r"`(\w+)`", listed) == FREE


@pytest.mark.parametrize("name", FREE)
def test_a_field_may_have_the_name_of_a_later_method(name: str) -> None:
    """The package works on such a class without calling the method by its name."""
    cls = made(annotations={name: Float32[Tensor, ""]})
    one = cls(torch.zeros(4, 2), torch.arange(4.0))
    assert {type(result) for result in results(one)} == {cls}
    assert getattr(one[2], name) == 2
    assert type(one).__name__ in repr(one)
    assert name in str(one._repr_html_())
    one.update({name: torch.ones(4)})
    one[0] = one[1]
    assert_close(cls.from_tensordict(one.to_tensordict()), one)
    assert_close(copy.deepcopy(one), one)
    assert_close(cls.from_json(one.to_json()), one)
    if name != "from_rows":
        assert_close(cls.from_rows([*one]), one)


@pytest.mark.parametrize("name", sorted(_YIELDING))
def test_some_methods_make_room(name: str) -> None:
    """Nothing has to be said for these, and the stubs and the plugin know the same names."""
    assert set(_rules.YIELDING) == _YIELDING
    one = made(annotations={name: Float32[Tensor, ""]})(torch.zeros(4, 2), torch.arange(4.0))
    assert {type(result) for result in results(one)} == {type(one)}
    assert getattr(one[2], name) == 2
