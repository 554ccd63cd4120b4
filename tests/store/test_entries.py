"""Reading and writing entries by path: what is a leaf, what is absent, who may be written, and what errors say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from tensorclass import (
    FrozenTensorClass,
    MetaData,
    NonTensorData,
    NonTensorStack,
    TensorClass,
    TensorDict,
    UnbatchedTensor,
    default_is_leaf,
    field,
    is_leaf_nontensor,
    lazy_stack,
    tensorclass,
)
from tensorclass.errors import (
    BatchSizeError,
    FrozenError,
    KeyThroughLeafError,
    MissingKeyError,
    SchemaError,
    StructureError,
)
from tensorclass.typing import Float32


class Inner(TensorClass):
    x: Float32[Tensor, "2"]


@tensorclass
class Holder:
    a: Float32[Tensor, ""]
    inner: Inner | None = None
    loose: TensorDict | None = None
    quiet: Float32[Tensor, ""] | None = field(default=None, repr=False)


class Still(FrozenTensorClass):
    x: Float32[Tensor, ""]


class Outer(TensorClass):
    still: Still
    y: Float32[Tensor, ""]


def mixed() -> TensorDict:
    """Tensors, objects and containers side by side."""
    entries = {"a": torch.zeros(2), "s": "scan", "n": {"b": torch.zeros(2), "t": "q"}, "e": {}, "m": MetaData(3)}
    return TensorDict({**entries, "k": NonTensorStack("a", "b"), "u": UnbatchedTensor(torch.zeros(3))}, batch_size=[2])


def test_leaves_are_tensors():
    """Objects are entries, and no leaves unless they are asked for; the views count and find what they list."""
    data = mixed()
    assert list(data.keys(True, True)) == ["a", ("n", "b"), "u"]
    assert list(data.keys(leaves_only=True)) == ["a", "u"]
    listed = data.keys(True, True, is_leaf=is_leaf_nontensor)
    assert list(listed) == ["a", "s", ("n", "b"), ("n", "t"), "m", "k", "u"]
    assert len(listed) == 7
    assert "s" in listed
    assert "s" not in data.keys(True, True)
    assert "s" in data.keys(True)
    assert len(data.values(True, True)) == len(list(data.items(True, True))) == 3


def test_leaf_tests_see_what_readers_see():
    """`is_leaf` and `entry_class` speak of the classes that `get` gives."""
    data = mixed()
    seen = {}
    list(data.keys(True, is_leaf=lambda cls: not seen.setdefault(cls, True)))
    assert set(seen) == {Tensor, NonTensorData, TensorDict, MetaData, NonTensorStack, UnbatchedTensor}
    for key in ("a", "s", "n", "m", "k", "u", ("n", "t")):
        assert data.entry_class(key) is type(data.get(key))


@pytest.mark.parametrize(
    ("cls", "default", "with_objects"),
    [
        (Tensor, True, True),
        (UnbatchedTensor, True, True),
        (TensorDict, False, False),
        (Holder, False, False),
        (NonTensorData, False, True),
        (NonTensorStack, False, True),
        (MetaData, False, True),
        (str, True, False),
    ],
)
def test_leaf_predicates(cls, default, with_objects):
    """The two predicates, class by class."""
    assert default_is_leaf(cls) is default
    assert is_leaf_nontensor(cls) is with_objects


def test_absent_optional_field_on_the_way():
    """A path through an optional field that is None leads nowhere: reads give the default, writes say what to do."""
    holder = Holder(a=torch.zeros(3))
    assert holder.get(Holder.inner.x, 5) == 5
    assert holder.get(("inner", "x")) is None
    with pytest.raises(MissingKeyError, match="`inner` of this Holder is None"):
        holder["inner", "x"]
    with pytest.raises(MissingKeyError, match="set `inner` to a whole instance first"):
        holder.set(("inner", "x"), torch.zeros(3, 2))
    with pytest.raises(KeyThroughLeafError, match="`a` is a Tensor"):
        holder.set(("a", "x"), torch.zeros(3))
    with pytest.raises(MissingKeyError, match="no field `image`"):
        holder.set(("image", "x"), torch.zeros(3))
    holder.set(("loose", "x"), torch.zeros(3))
    assert holder.loose is not None
    assert holder.loose["x"].shape == (3,)


@pytest.mark.parametrize("name", ["set", "update"])
def test_errors_below_have_the_path(name):
    """What a nested container refuses is named from where the user wrote."""
    holder = Holder(a=torch.zeros(3), inner=Inner(x=torch.zeros(3, 2)), loose=TensorDict(q={}, batch_size=[3]))

    def write(path, value):
        holder.set(path, value) if name == "set" else holder.update({path: value})

    with pytest.raises(SchemaError, match=r"\ninner\.x\n"):
        write(("inner", "x"), torch.zeros(3, 5))
    with pytest.raises(BatchSizeError, match=r"in `loose\.q`: field `r`"):
        write(("loose", "q", "r"), torch.zeros(4))


WRITES = {
    "set": lambda o: o.set(("still", "x"), torch.ones(3)),
    "set_": lambda o: o.set_(("still", "x"), torch.ones(3)),
    "set_at_": lambda o: o.set_at_(("still", "x"), torch.ones(()), 0),
    "update": lambda o: o.update({"still": {"x": torch.ones(3)}}),
    "update_": lambda o: o.update_({"still": {"x": torch.ones(3)}}),
    "update in place": lambda o: o.update({"still": {"x": torch.ones(3)}}, inplace=True),
    "copy_": lambda o: o.copy_(o + 1),
    "fill_": lambda o: o.fill_(("still", "x"), 1.0),
    "fill_ container": lambda o: o.fill_("still", 1.0),
    "zero_": lambda o: o.zero_(),
    "add_": lambda o: o.add_(1.0),
    "index": lambda o: o.__setitem__(0, o[1] + 1),
    "mask": lambda o: o.__setitem__(torch.tensor([True, False, True]), o[:2] + 1),
    "masked_fill_": lambda o: o.masked_fill_(torch.ones(3, dtype=torch.bool), 1.0),
    "apply_": lambda o: o.apply_(lambda leaf: leaf + 1),
    "load_state_dict": lambda o: o.load_state_dict((o + 1).state_dict()),
    "data": lambda o: setattr(o, "data", (o + 1).data),
    "delete": lambda o: o.del_(("still", "x")),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("kind", ["typed", "untyped", "lazy"])
def test_frozen_in_the_middle(write, kind):
    """A frozen instance is asked before any write below it, whoever holds it, and nothing beside it is written."""
    outer = Outer(still=Still(x=torch.full((3,), 5.0)), y=torch.full((3,), 5.0))
    data = outer if kind == "typed" else TensorDict(dict(outer.items()), batch_size=[3])
    if kind == "lazy":
        data = lazy_stack([data[0], data[1], data[2]])
    with pytest.raises(FrozenError):
        write(data)
    assert bool((data["still", "x"] == 5).all())
    assert bool((data["y"] == 5).all())


def test_frozen_is_not_in_the_way_of_others():
    """What stands beside a frozen instance is written as ever."""
    outer = Outer(still=Still(x=torch.zeros(3)), y=torch.zeros(3))
    outer.update_({"y": 1.0}).set_("y", torch.ones(3)).update({"y": torch.ones(3)}).fill_("y", 2.0)
    outer.y = outer.y + 1
    assert torch.equal(outer.y, torch.full((3,), 3.0))


def test_frozen_stays():
    """A child of a frozen class does not thaw, in either form."""
    with pytest.raises(SchemaError, match="frozen by a base class"):
        type("Loose", (Still,), {"__module__": __name__}, frozen=False)
    with pytest.raises(SchemaError, match="frozen by a base class"):
        tensorclass(frozen=False)(type("Loose", (Still,), {"__module__": __name__}))


def test_hidden_fields():
    """`field(repr=False)` is not printed, at the top or below."""
    holder = Holder(a=torch.zeros(3), quiet=torch.zeros(3))
    assert "quiet" not in repr(holder)
    assert "quiet" not in repr(TensorDict(h=holder, batch_size=[3]))
    assert "quiet" not in str(holder._repr_html_()).split("<pre")[0]


@pytest.mark.parametrize("size", [np.int64(4), torch.tensor(4), [np.int32(4)]])
def test_batch_size_of_other_libraries(size):
    """Whatever counts as an int for Python is one."""
    assert TensorDict(batch_size=size).batch_size == (4,)


def test_device_reaches_nested_containers():
    """A container that is put into one with a device has that device, as later writes to it show."""
    inner = TensorDict(a=torch.zeros(2), batch_size=[2])
    for value in (inner, Inner(x=torch.zeros(2, 2)), lazy_stack([inner[0], inner[1]])):
        data = TensorDict({"n": value}, batch_size=[2], device="cpu")
        data["m"] = value
        assert data["n"].device == data["m"].device == torch.device("cpu")
        assert value.device is None
    moved = TensorDict({"n": inner}, batch_size=[2], device="meta")
    assert moved["n", "a"].is_meta
    assert not inner["a"].is_meta


def test_new_containers_have_no_made_up_objects():
    """Objects that all elements share go along; those that differ have no place in a batch of another size."""
    data = TensorDict(a=torch.zeros(2), name="scan", batch_size=[2])
    data["who"] = NonTensorStack("x", "x")
    assert data.new_zeros(3)["who"] == ["x", "x", "x"]
    data["who"] = NonTensorStack("x", "y")
    assert data.new_ones(2)["who"] == ["x", "y"]
    with pytest.raises(StructureError, match="`who` holds one object for each element"):
        data.new_zeros(3)
    assert data.new_empty(0)["who"] == []
    assert data.exclude("who").new_zeros(3)["name"] == "scan"


def test_compiled_references():
    """A field reference is a key inside a compiled function too."""
    holder = Holder(a=torch.ones(3))

    def read(batch):
        return batch[Holder.a] + batch.get(Holder.a), Holder.a in batch, batch.select(Holder.a)

    total, present, part = torch.compile(read, fullgraph=True, backend="eager")(holder)
    assert torch.equal(total, torch.full((3,), 2.0))
    assert present
    assert list(part.keys()) == ["a"]


def test_apply_calls_once_for_each_nested_leaf():
    """Whatever the results are: like the leaves, of another dtype, dropped, moved, or refused."""
    inner = TensorDict(b=torch.ones(3, 2), batch_size=[3, 2], device="cpu")
    data = TensorDict({"a": torch.zeros(3), "d": inner, "e": {"f": torch.ones(3)}}, batch_size=[3], names=["time"])
    calls: list[Tensor] = []

    def count(leaf: Tensor) -> Tensor:
        calls.append(leaf)
        return leaf + 1

    same = data.apply(count)
    assert [leaf.sum().item() for leaf in calls] == [0, 6, 3]
    assert (same["d", "b"] == 2).all()
    assert same["d"].batch_size == (3, 2)
    assert (same.names, same["d"].names, same["d"].device) == (["time"], ["time", None], torch.device("cpu"))
    assert data.apply(lambda leaf: count(leaf).double())["e", "f"].dtype is torch.float64
    assert set(data.apply(lambda leaf: None if count(leaf).ndim == 2 else leaf).keys()) == {"a", "e"}
    assert data.apply(lambda leaf: count(leaf).to("meta"))["d"].device is None
    with pytest.raises(BatchSizeError, match=r"`d.b`.*\[3, 2\]"):
        data.apply(lambda leaf: count(leaf)[:, 0] if leaf.ndim == 2 else leaf)
    assert len(calls) == 13
