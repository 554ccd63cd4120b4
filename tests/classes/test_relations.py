"""Which classes may meet: equal field names do not make two declarations one, in any operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import pytest
import torch
from torch import Tensor, nn

from tensorclass import (
    TensorClass,
    TensorDict,
    TypedTensorDict,
    collate,
    equal,
    lazy_stack,
    maybe_dense_stack,
    merge,
    omit,
    partial,
    pick,
)
from tensorclass.errors import MissingKeyError, SchemaError, StructureError
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Int64

T = TypeVar("T")


class Mine(TensorClass):
    x: Float32[Tensor, "2"]
    y: Float32[Tensor, ""] | None = None


class Other(TensorClass):
    x: Float32[Tensor, "2"]
    y: Float32[Tensor, ""] | None = None


class Child(Mine):
    pass


class Sibling(Mine):
    pass


class Pair(TensorClass, Generic[T]):
    x: T


class Holder(TensorClass):
    inner: Mine


class HolderOfOther(TensorClass):
    inner: Other


def filled(cls: Any, size: int = 3, **more: Any) -> Any:
    """Ones in the field that all have."""
    return cls(x=torch.ones(size, 2), batch_size=[size], **more)


MASK = torch.tensor([True, False, True])
JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "stack": lambda a, b: torch.stack([a, b]), "cat": lambda a, b: torch.cat([a, b]),
    "lazy_stack": lambda a, b: lazy_stack([a, b]), "collate": lambda a, b: collate([a, b]),
    "maybe_dense_stack": lambda a, b: maybe_dense_stack([a, b]),
}  # fmt: skip
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "**": lambda a, b: a**b, "<": lambda a, b: a < b, ">=": lambda a, b: a >= b, "&": lambda a, b: (a > 0) & (b > 0),
    "+=": lambda a, b: a.__iadd__(b), "*=": lambda a, b: a.__imul__(b), "add": lambda a, b: a.add(b),
    "add default": lambda a, b: a.add(b, default=0), "add_": lambda a, b: a.add_(b), "eq": lambda a, b: a.eq(b),
    "torch.add": torch.add, "torch.eq": torch.eq, "torch.maximum": torch.maximum, "lerp": lambda a, b: a.lerp(b, 0.5),
    "torch.lerp": lambda a, b: torch.lerp(a, b, 0.5), "addcmul": lambda a, b: a.addcmul(a, b),
    "addcdiv_": lambda a, b: a.addcdiv_(b, b), "clamp": lambda a, b: a.clamp(b, b), "pow": lambda a, b: a.pow(b),
    "where": lambda a, b: torch.where(MASK, a, b), "where method": lambda a, b: a.where(MASK, b),
    "where pad": lambda a, b: a.where(MASK, b, pad=0), "update": lambda a, b: a.update(b),
    "update inplace": lambda a, b: a.update(b, inplace=True), "update clone": lambda a, b: a.update(b, clone=True),
    "update_": lambda a, b: a.update_(b), "copy_": lambda a, b: a.copy_(b), "replace": lambda a, b: a.replace(b),
    "update_at_": lambda a, b: a.update_at_(b[0], 0), "copy_at_": lambda a, b: a.copy_at_(b[0], 0),
    "int": lambda a, b: a.__setitem__(0, b[0]), "slice": lambda a, b: a.__setitem__(slice(None), b),
    "mask": lambda a, b: a.__setitem__(MASK, b[:2]), "apply": lambda a, b: a.apply(torch.add, b),
    "apply_": lambda a, b: a.apply_(torch.add, b), "named_apply": lambda a, b: a.named_apply(lambda _, s, t: s + t, b),
    "gather out": lambda a, b: a.gather(0, torch.tensor([0, 1, 2]), out=b),
    "stack out": lambda a, b: torch.stack([a], out=b[None]), "clamp out": lambda a, b: torch.clamp(a, 0, 1, out=b),
}  # fmt: skip
UNRELATED: dict[str, Callable[[], tuple[Any, Any]]] = {
    "unrelated": lambda: (filled(Mine), filled(Other)),
    "siblings": lambda: (filled(Child), filled(Sibling)),
    "arguments": lambda: (filled(Pair[Float32[Tensor, "2"]]), filled(Pair[Tensor])),  # type: ignore[type-var]
    "picked of another": lambda: (filled(Mine), filled(pick(Other, "x"))),
    "over a lazy stack": lambda: (filled(Mine), Other.from_tensordict(lazy_stack([TensorDict(x=torch.ones(2))] * 3))),
}


@pytest.mark.parametrize("operation", {**OPERATIONS, **JOINS})
@pytest.mark.parametrize("kind", UNRELATED)
def test_unrelated_classes_do_not_meet(kind: str, operation: str) -> None:
    """The error names both, and nothing is written."""
    mine, other = UNRELATED[kind]()
    before = mine.x.clone()
    for a, b in ((mine, other), (other, mine)):
        with pytest.raises((StructureError, TypeError), match=r"different classes|of one class"):
            {**OPERATIONS, **JOINS}[operation](a, b)
    assert torch.equal(mine.x, before)


RELATED: dict[str, Callable[[], tuple[Any, Any]]] = {
    "itself": lambda: (filled(Mine), filled(Mine)),
    "child": lambda: (filled(Mine), filled(Child)),
    "parent": lambda: (filled(Child), filled(Mine)),
    "generic and its argument": lambda: (filled(Pair), filled(Pair[Float32[Tensor, "2"]])),
    "picked": lambda: (filled(pick(Mine, "x")), filled(pick(Child, "x"))),
    "picked and whole": lambda: (filled(omit(Mine, "y")), filled(Mine)),
    "partial": lambda: (filled(Mine), filled(partial(Mine))),
    "merged": lambda: (filled(merge(pick(Mine, "x"), pick(Other, "x"))), filled(Other)),
    "untyped right": lambda: (filled(Mine), TensorDict(x=torch.ones(3, 2), batch_size=[3])),
    "untyped left": lambda: (TensorDict(x=torch.ones(3, 2), batch_size=[3]), filled(Mine)),
    "lazy stack": lambda: (filled(Mine), lazy_stack([filled(Mine)[0]] * 3)),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", RELATED)
def test_related_classes_and_untyped_containers_meet(kind: str, operation: str) -> None:
    """A class meets its parents and children, what is picked of it, and containers without a class."""
    if (kind, operation) in (("untyped left", "replace"), ("lazy stack", "stack out"), ("lazy stack", "gather out")):
        return
    OPERATIONS[operation](*RELATED[kind]())


@pytest.mark.parametrize("kind", UNRELATED)
def test_instances_of_unrelated_classes_are_not_equal(kind: str) -> None:
    """`==` says False, as of dataclasses; `equal` too."""
    mine, other = UNRELATED[kind]()
    assert (mine == other) is False
    assert (mine != other) is True
    assert not equal(mine, other)
    assert (filled(Mine) == filled(Child)).all()


@pytest.mark.parametrize("operation", ["+", "add_", "where", "update_", "copy_", "apply", "<", "lerp"])
def test_nested_classes_are_looked_at(operation: str) -> None:
    """Below containers without a class, and below typed ones."""
    one = TensorDict(inner=filled(Mine), batch_size=[3])
    other = TensorDict(inner=filled(Other), batch_size=[3])
    with pytest.raises(StructureError, match="different classes"):
        OPERATIONS[operation](one, other)
    with pytest.raises(StructureError, match="different classes"):
        OPERATIONS[operation](Holder(filled(Mine)), HolderOfOther(filled(Other)))
    with pytest.raises(StructureError, match="different classes"):
        OPERATIONS[operation](Holder(filled(Mine)), other)


def test_nested_classes_in_a_dict_are_looked_at() -> None:
    """An update from a dict that holds an instance of an unrelated class writes nothing."""
    for holder in (TensorDict(inner=filled(Mine), batch_size=[3]), Holder(filled(Mine))):
        before = holder["inner", "x"]
        with pytest.raises(StructureError, match="different classes"):
            holder.update({"inner": filled(Other)})
        assert holder["inner", "x"] is before


def test_the_way_out_works() -> None:
    """What the message says: `from_tensordict` converts, around the same tensors."""
    other = filled(Other)
    mine = Mine.from_tensordict(other)
    assert type(mine) is Mine
    assert mine.x is other.x
    assert torch.equal((filled(Mine) + mine).x, torch.full((3, 2), 2.0))


# ---- get ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: filled(Mine),
        lambda: lazy_stack([filled(Mine)] * 2),
        lambda: Mine.from_tensordict(filled(Mine).to_tensordict()),
    ],
    ids=["dense", "lazy", "over"],
)
def test_get_knows_the_fields(make: Callable[[], Any]) -> None:
    """None is what an optional field may hold; a name that is no field is an error, unless a default is given."""
    batch = make()
    assert batch.get("y") is None
    assert batch.get("y", 5) is None or batch.get("y", 5) == 5
    for key in ("absent", ("absent", "deeper"), "X"):
        with pytest.raises(MissingKeyError, match="has no field"):
            batch.get(key)
        assert batch.get(key, None) is None
        assert batch.get(key, default=7) == 7
    with pytest.raises(MissingKeyError, match="has no field"):
        batch.get_at("absent", 0)
    assert batch.get_at("absent", 0, 3) == 3
    with pytest.raises(MissingKeyError, match="has no field"):
        TensorDict(inner=batch, batch_size=batch.batch_size).get(("inner", "absent"))
    assert TensorDict(inner=batch, batch_size=batch.batch_size).get("absent") is None


# ---- members in place of fields ----------------------------------------------------------------------------------


def _property(self: Any) -> int:
    return 1


MEMBERS: dict[str, dict[str, Any]] = {
    "property": {"x": property(_property)},
    "method": {"x": _property},
    "classmethod": {"x": classmethod(_property)},
    "constant": {"x": 5},
    "tensor": {"x": torch.zeros(2)},
    "ClassVar": {"__annotations__": {"x": "ClassVar[int]"}, "x": 3},
    "ClassVar alone": {"__annotations__": {"x": "typing.ClassVar[int]"}},
}


@pytest.mark.parametrize("base", [Mine, Child, Pair[Float32[Tensor, "2"]]], ids=lambda base: base.__name__)
@pytest.mark.parametrize("kind", MEMBERS)
def test_a_member_in_place_of_a_field(kind: str, base: Any) -> None:
    """It would be lost, since the field takes its place: an error at definition."""
    with pytest.raises(SchemaError, match=r"hide the inherited field") as caught:
        type(base)("Made", (base,), {"__module__": __name__, **MEMBERS[kind]})
    assert caught.value.problems[0].path == "x"


def test_members_that_are_no_fields() -> None:
    """Another name is free, an annotated one narrows the field, and a later base's member gives way to the field."""

    class Mixin:
        @property
        def x(self) -> int:
            return 5

    class Made(Mine, Mixin):
        @property
        def double(self) -> Tensor:
            return 2 * self.x

    class Narrow(Mine):
        y: Float32[Tensor, ""] = torch.tensor(1.0)  # type: ignore[assignment]

    assert torch.equal(filled(Made).double, torch.full((3, 2), 2.0))
    assert filled(Narrow).y.tolist() == [1.0] * 3


def test_a_member_in_place_of_a_declared_key() -> None:
    """Of a `TypedTensorDict` the key would stay, and attribute access say something else."""

    class State(TypedTensorDict):
        x: Tensor

    for member in (property(_property), _property, 5):
        with pytest.raises(SchemaError, match="declared key of a base"):
            type("Made", (State,), {"x": member})


# ---- classes that are defined again ------------------------------------------------------------------------------


def cell() -> tuple[Any, Any]:
    """What a cell of a notebook defines."""

    class Inner(TensorClass):
        x: Float32[Tensor, "2"]

    class Outer(TensorClass):
        inner: Inner
        label: Int64[Tensor, ""]

    return Inner, Outer


def batch_of(inner: Any, outer: Any) -> Any:
    """Three elements."""
    return outer(inner(torch.ones(3, 2)), torch.zeros(3, dtype=torch.int64))


AGAIN: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: call
        for name, call in OPERATIONS.items()
        if name in ("+", "update", "copy_", "where", "apply", "int", "eq")
    },
    **JOINS,
}


@pytest.mark.parametrize("operation", AGAIN)
def test_operations_on_a_class_that_was_defined_again(operation: str) -> None:
    """The names are the same, so the error says what happened and how to convert."""
    old, new = batch_of(*cell()), batch_of(*cell())
    with pytest.raises(StructureError, match=r"Outer was defined again.*Outer\.from_tensordict\(value\)"):
        AGAIN[operation](new, old)


def test_fields_and_pipelines_of_a_class_that_was_defined_again() -> None:
    """A nested field and a pipeline say so as well."""
    (old_inner, _), (inner, outer) = cell(), cell()
    with pytest.raises(SchemaError, match="Inner was defined again"):
        outer(old_inner(torch.ones(3, 2)), torch.zeros(3, dtype=torch.int64))
    batch = batch_of(inner, outer)
    with pytest.raises(SchemaError, match="Inner was defined again"):
        batch.inner = old_inner(torch.ones(3, 2))
    step = TensorClassModule(nn.Identity(), inner.x, inner.x, update=True)
    with pytest.raises(TypeError, match="Inner was defined again"):
        TensorClassSequential(step, input=inner, output=inner)(old_inner(torch.ones(3, 2)))


def test_instances_of_a_class_that_was_defined_again_are_converted() -> None:
    """Nested ones too, around the same tensors; the old instance stays what it was."""
    (old_inner, old_outer), (inner, outer) = cell(), cell()
    old = batch_of(old_inner, old_outer)
    new = outer.from_tensordict(old)
    assert (type(new), type(new.inner)) == (outer, inner)
    assert (type(old), type(old.inner)) == (old_outer, old_inner)
    assert new.inner.x is old.inner.x
    assert torch.stack([new, batch_of(inner, outer)]).batch_size == (2, 3)


def test_a_changed_class_refuses_what_does_not_fit() -> None:
    """The path of a nested field is whole."""
    old = batch_of(*cell())

    class Inner(TensorClass):
        x: Float32[Tensor, "7"]

    class Outer(TensorClass):
        inner: Inner
        label: Int64[Tensor, ""]

    with pytest.raises(SchemaError) as caught:
        Outer.from_tensordict(old)
    assert [problem.path for problem in caught.value.problems] == ["inner.x"]
