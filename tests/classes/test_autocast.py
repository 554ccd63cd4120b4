"""`autocast=True`: numbers, lists, arrays and dicts become what is declared, in every door and at every depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensordict
import torch
from torch import Tensor

from tensorclass import PerElement, Shared, TensorDict, field, lazy_stack, tensorclass
from tensorclass.errors import SchemaError
from tensorclass.typing import Float32


@tensorclass
class Exact:
    a: Float32[Tensor, "3"]
    s: str = "d"


@tensorclass(autocast=True)
class Inner:
    a: Float32[Tensor, ""]
    exact: Exact | None = None


@tensorclass(autocast=True)
class Cast:
    x: Float32[Tensor, ""]
    inner: Inner | None = None
    exact: Exact | None = None
    plain: TensorDict | None = None
    each: PerElement[int] | None = None
    shared: Shared[Float32[Tensor, "..."]] | None = None
    maybe: Float32[Tensor, ""] | None = None


def rows() -> Any:
    """Two rows of three."""
    return np.ones((2, 3), dtype=np.float32)


VALUES: dict[str, list[Any]] = {
    "x": [[1, 2], (1.0, 2.0), np.array([1, 2]), torch.tensor([1, 2])],
    "maybe": [[1, 2], (1.0, 2.0), np.array([1.0, 2.0]), torch.tensor([1, 2])],
    "shared": [1, 2.5, True, [1, 2, 3], np.float64(1), np.ones((2, 2)), torch.tensor(1)],
    "each": [["1", "2"], [torch.tensor(1), 2.0], (1, 2), np.array([1, 2]), torch.tensor([1, 2]), "1", np.int64(1)],
    "inner": [{"a": [1, 2]}, {"a": np.ones(2), "exact": {"a": rows()}}, TensorDict({"a": torch.ones(2)}, [2])],
    "exact": [{"a": rows(), "s": "t"}, TensorDict({"a": torch.ones(2, 3)}, [2])],
    "plain": [{"a": torch.ones(2, 3)}, {"a": {"b": torch.ones(2)}, "s": "t"}, TensorDict({"a": torch.ones(2)}, [2])],
}
CASES = [(name, value) for name, values in VALUES.items() for value in values]
KINDS: dict[str, type] = {
    "x": Tensor,
    "maybe": Tensor,
    "shared": Tensor,
    "inner": Inner,
    "exact": Exact,
    "plain": TensorDict,
}


def base() -> Cast:
    """A batch of two, its optional fields absent."""
    return Cast(torch.zeros(2), batch_size=[2])


def construct(name: str, value: Any) -> Cast:
    """The constructor, batch size inferred."""
    return Cast(**{"x": torch.zeros(2), name: value})


def assign(name: str, value: Any) -> Cast:
    """The setter."""
    batch = base()
    setattr(batch, name, value)
    return batch


def item(name: str, value: Any) -> Cast:
    """The item setter."""
    batch = base()
    batch[name] = value
    return batch


DOORS: dict[str, Callable[[str, Any], Any]] = {
    "constructor": construct,
    "batch size given": lambda name, value: Cast(**{"x": torch.zeros(2), name: value}, batch_size=[2]),
    "attribute": assign,
    "item": item,
    "set": lambda name, value: base().set(name, value),
    "update": lambda name, value: base().update({name: value}),
    "update of two": lambda name, value: base().update({"x": [3, 4], name: value}),
    "replace": lambda name, value: base().replace(**{name: value}),
    "from_dict": lambda name, value: Cast.from_dict({"x": [0, 0]} | {name: value}),
    "member of a lazy stack": lambda name, value: lazy_stack([base(), base()])[1].set(name, item=value),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("name", "value"), CASES, ids=lambda value: str(value)[:24])
def test_every_door_converts(door: str, name: str, value: Any) -> None:
    """What is stored is what the field declares."""
    batch = DOORS[door](name, value)
    stored = getattr(batch, name)
    assert batch.batch_size == (2,)
    if name == "each":
        assert all(type(part) is int for part in getattr(stored, "tolist", lambda: [stored])())
        return
    assert isinstance(stored, KINDS[name])
    if isinstance(stored, Tensor):
        assert stored.dtype == torch.float32
    else:
        assert stored.batch_size == (2,)
        assert all(tensor.shape[:1] == (2,) for tensor in stored.values(True, True) if isinstance(tensor, Tensor))


def test_a_mapping_says_the_batch_size() -> None:
    """As an instance would, at any depth; a field without declared rank says nothing."""
    assert Cast([1, 2], inner={"a": [1, 2], "exact": {"a": rows()}}).inner.exact.a.shape == (2, 3)
    assert Cast([1, 2], exact={"a": rows()}).batch_size == (2,)

    @tensorclass(autocast=True)
    class Late:
        inner: Inner

    assert Late({"a": [1, 2, 3]}).batch_size == (3,)
    assert Late({"a": 1}).batch_size == ()


@pytest.mark.parametrize(
    ("name", "value", "path", "words"),
    [
        ("inner", {"a": [1, 2], "exact": {"a": np.ones((2, 4), dtype=np.float32)}}, "inner.exact.a", "3"),
        ("inner", {"a": [1, 2], "exact": {"a": np.full((2, 3), 0.1)}}, "inner.exact.a", "change its values"),
        ("inner", {"a": [1, 2], "other": 1}, "inner.other", "no such field"),
        ("inner", {}, "inner.a", "pass `a=`"),
        ("inner", {"a": "one"}, "inner.a", "pass a tensor"),
        ("inner", {"a": [1, 2, 3]}, "inner.a", "batch size"),
        ("inner", [1, 2], "inner", "pass a `Inner`"),
        ("exact", TensorDict({"b": torch.ones(2)}, [2]), "exact.b", "no such field"),
        ("plain", {"a": torch.ones(3)}, "plain", "batch"),
        ("each", torch.tensor([1, 2, 3]), "each", "pass 2 values"),
        ("each", np.array([1.5, 2.0]), "each[0]", "integer"),
        ("x", "one", "x", "pass a tensor"),
    ],
)
def test_what_does_not_fit_is_named(name: str, value: Any, path: str, words: str) -> None:
    """The error has the path down to the field, and nothing is written."""
    for door in ("batch size given", "attribute", "update", "replace"):
        with pytest.raises(SchemaError) as caught:
            DOORS[door](name, value)
        assert path in [problem.path for problem in caught.value.problems], str(caught.value)
        assert words in str(caught.value)


def test_without_autocast_nothing_is_built() -> None:
    """A dict is refused, with the hint; `field(coerce="cast")` is for one field."""

    @tensorclass
    class Outer:
        exact: Exact

    with pytest.raises(SchemaError, match=r"build it: `Exact\(\*\*value\)`"):
        Outer({"a": torch.ones(3)}, batch_size=[])

    @tensorclass
    class One:
        exact: Exact = field(coerce="cast")
        a: Float32[Tensor, ""] = 0.0

    assert isinstance(One({"a": torch.ones(3)}, batch_size=[]).exact, Exact)
    with pytest.raises(SchemaError, match="float32"):
        One({"a": torch.ones(3)}, torch.tensor(1), batch_size=[])


@tensordict.tensorclass(autocast=True)
class AnchorInner:
    a: torch.Tensor


@tensordict.tensorclass(autocast=True)
class AnchorOuter:
    inner: AnchorInner


@tensordict.tensorclass(autocast=True)
class AnchorTensor:
    x: torch.Tensor


def test_as_the_original_casts() -> None:
    """Numbers, lists, tuples and arrays become tensors, a dict or a container becomes the nested class."""

    @tensorclass(autocast=True)
    class Any_:
        x: Tensor

    for value in (1, 1.5, True, [1, 2], (1, 2), np.ones(3), np.float32(1), torch.ones(2)):
        assert torch.equal(Any_(value, batch_size=[]).x, AnchorTensor(value, batch_size=[]).x)

    @tensorclass(autocast=True)
    class Nested:
        a: Tensor

    @tensorclass(autocast=True)
    class Outer:
        inner: Nested

    for value in ({"a": 1}, {"a": torch.ones(3)}, {"a": [1.0, 2.0]}):
        theirs, ours = AnchorOuter(value, batch_size=[]).inner, Outer(value, batch_size=[]).inner
        assert isinstance(theirs, AnchorInner)
        assert isinstance(ours, Nested)
        assert torch.equal(theirs.a, ours.a)
