"""What a class body may say: inheritance, narrowing, generics, forward references, methods, names."""

from __future__ import annotations

import gc
import pickle
import weakref
from functools import cached_property
from typing import Any, Generic, TypeVar

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, field, is_tensorclass, schema, tensorclass
from tensorclass.errors import SchemaError, UnknownFieldError
from tensorclass.typing import Float, Float32, Int64
from tests.classes._samples import Form, digits

T = TypeVar("T")


@tensorclass
class Leafy:
    """A field of a generic class."""

    x: Float32[Tensor, "2"]


class Pair(TensorClass, Generic[T]):
    """Two of a kind."""

    first: T
    second: T


@tensorclass
class Couple(Generic[T]):
    """Two of a kind, by decorator."""

    first: T
    second: T


class LeafyPair(Pair[Leafy]):
    """The arguments settled, one field more."""

    score: Float32[Tensor, ""]


@tensorclass
class Tree:
    """A class that refers to itself."""

    value: Float32[Tensor, ""]
    left: Tree | None = None
    right: Tree | None = None


class Early(TensorClass):
    """A class that refers to one that is declared further down."""

    x: Float32[Tensor, ""]
    later: Later | None = None


class Later(TensorClass):
    """What `Early` refers to."""

    y: Float32[Tensor, "3"]


def leafy(*size: int) -> Leafy:
    """An instance of the leaf class."""
    return Leafy(torch.zeros(*size, 2))


def test_fields_accumulate_through_inheritance(form: Form) -> None:
    """A child has the fields of its parents first, and is one of them."""

    @form()
    class Parent(form.base):
        x: Float32[Tensor, "2"]

        def total(self) -> Tensor:
            return self.x.sum()

    @form()
    class Child(Parent):
        y: Int64[Tensor, ""]

        def total(self) -> Tensor:
            return super().total() + self.y.sum()

    batch = Child(torch.ones(3, 2), torch.ones(3, dtype=torch.int64))
    assert list(batch.keys()) == ["x", "y"]
    assert isinstance(batch, Parent)
    assert batch.total() == 9
    assert type(batch[0]) is Child
    with pytest.raises(SchemaError, match="x"):
        Child(torch.ones(3, 3), torch.ones(3, dtype=torch.int64))


def test_an_undecorated_child_is_a_full_class(form: Form) -> None:
    """A child needs no decorator: its fields count, its methods see them, operations keep it."""

    @form()
    class Parent(form.base):
        x: Float32[Tensor, "2"]

    class Child(Parent):
        y: Int64[Tensor, ""]
        note: str = "new"

    batch = Child(x=torch.ones(3, 2), y=torch.arange(3))
    assert type(torch.stack([batch, batch])) is Child
    assert torch.stack([batch, batch]).y.shape == (2, 3)
    assert batch.note == "new"
    assert is_tensorclass(Child)
    with pytest.raises(SchemaError, match="y"):
        Child(x=torch.ones(3, 2))


def test_options_are_inherited(form: Form) -> None:
    """A child of a frozen class is frozen; a child may add options of its own."""

    @form(frozen=True)
    class Parent(form.base, **form.words(frozen=True)):
        x: Float32[Tensor, ""]

    class Child(Parent, autocast=True):
        y: Float32[Tensor, ""]

    batch = Child(torch.ones(3).double(), torch.ones(3))
    assert batch.x.dtype is torch.float32
    with pytest.raises(AttributeError, match="frozen"):
        batch.y = torch.zeros(3)


def test_a_child_may_narrow_a_field(form: Form) -> None:
    """Fewer dtypes, a known size, no None."""

    @form()
    class Parent(form.base):
        x: Float[Tensor, "n"]
        y: Int64[Tensor, ""] | None = None
        note: Any = None

    class Child(Parent):
        x: Float32[Tensor, "4"]
        note: str = "text"

    assert Child(torch.zeros(3, 4)).batch_size == torch.Size([3])
    with pytest.raises(SchemaError, match="x"):
        Child(torch.zeros(3, 5))
    with pytest.raises(SchemaError, match="note"):
        Child(torch.zeros(3, 4), note=3)
    assert Parent(torch.zeros(3, 5), note=3).note == 3


@pytest.mark.parametrize(
    ("annotation", "word"),
    [(Int64[Tensor, "4"], "dtype"), (Float32[Tensor, "5"], "4"), (Float32[Tensor, "4"] | None, "None"), (str, "value")],
)
def test_a_child_may_not_widen_a_field(form: Form, annotation: Any, word: str) -> None:
    """What is valid for the child must be valid for the parent; the class statement says so."""

    @form()
    class Parent(form.base):
        x: Float32[Tensor, "4"]

    with pytest.raises(SchemaError, match=rf"Child[\s\S]*x[\s\S]*{word}[\s\S]*narrow"):
        type(Parent)("Child", (Parent,), {"__annotations__": {"x": annotation}, "__module__": __name__})


def test_several_parents(form: Form) -> None:
    """Fields of all parents, in the order of the method resolution, each once."""

    @form()
    class Left(form.base):
        x: Float32[Tensor, ""]

    @form()
    class Right(form.base):
        y: Float32[Tensor, ""]

    class Both(Left, Right):
        z: Float32[Tensor, ""]

    batch = Both(z=torch.zeros(2), y=torch.zeros(2), x=torch.zeros(2))
    assert sorted(batch.keys()) == ["x", "y", "z"]
    assert isinstance(batch, Left) and isinstance(batch, Right)  # noqa: PT018  # one fact
    assert type(batch[0]) is Both


def test_mixins_without_fields(form: Form) -> None:
    """A plain class beside the base brings its methods."""

    class Named:
        def describe(self) -> str:
            return f"{type(self).__name__} of {self.x.sum():.0f}"  # type: ignore[attr-defined]  # of the class it is mixed in

    @form()
    class Point(Named, *((form.base,) if form.base is not object else ())):
        x: Float32[Tensor, ""]

    assert Point(torch.ones(3)).describe() == "Point of 3"
    assert Point(torch.ones(3))[0].describe() == "Point of 1"


@pytest.mark.parametrize("generic", [Pair, Couple])
def test_generics(generic: Any) -> None:
    """`Pair[Digits]` is a class of its own that checks its arguments; it is made once."""
    made = generic[Leafy]
    assert made is generic[Leafy]
    assert issubclass(made, generic)
    batch = made(first=leafy(3), second=leafy(3))
    assert batch.batch_size == torch.Size([3])
    assert type(batch[0]) is made
    assert type(batch[0].first) is Leafy
    with pytest.raises(SchemaError, match="second"):
        made(first=leafy(3), second=torch.zeros(3, 2))
    assert "first" in schema(made)
    restored = pickle.loads(pickle.dumps(batch))
    assert type(restored) is made
    assert restored.first.x.shape == (3, 2)


def test_tensors_as_type_arguments() -> None:
    """Any field type may stand for a type variable."""
    made: Any = Pair[Float32[Tensor, "4"]]  # type: ignore[type-arg, valid-type]  # a run-time annotation
    assert made(torch.zeros(3, 4), torch.zeros(3, 4)).batch_size == torch.Size([3])
    with pytest.raises(SchemaError, match="first"):
        made(torch.zeros(3, 5), torch.zeros(3, 4))


def test_a_child_of_a_settled_generic() -> None:
    """`class X(Pair[Digits])` has the fields of the pair and its own, and pickles."""
    batch = LeafyPair(leafy(3), leafy(3), torch.zeros(3))
    assert batch[1:].batch_size == torch.Size([2])
    assert isinstance(batch, Pair)
    assert type(pickle.loads(pickle.dumps(batch))) is LeafyPair
    with pytest.raises(SchemaError, match="first"):
        LeafyPair(torch.zeros(3, 2), leafy(3), torch.zeros(3))


def test_generic_children_pass_their_variables_on() -> None:
    """A child may stay generic, and be settled later."""

    class Triple(Pair[T], Generic[T]):
        third: T

    batch = Triple[Leafy](leafy(2), leafy(2), leafy(2))
    assert type(batch.third) is Leafy
    with pytest.raises(SchemaError, match="third"):
        Triple[Leafy](leafy(2), leafy(2), torch.zeros(2))


def test_an_unsettled_generic_takes_anything() -> None:
    """Without arguments the variables are Any."""
    assert Pair(leafy(3), leafy(3), batch_size=[3])[0].first.x.shape == (2,)


def test_wrong_numbers_of_type_arguments() -> None:
    """A class without type variables takes none, a generic one as many as it has."""
    with pytest.raises(TypeError, match="type argument"):
        Leafy[int]  # type: ignore[index]  # refused at run time, too
    with pytest.raises(TypeError, match="type argument"):
        Pair[Leafy, Leafy]  # type: ignore[misc]  # refused at run time, too


def test_recursive_classes() -> None:
    """A class may hold itself, optionally; every operation goes down."""
    tree = Tree(torch.zeros(3), left=Tree(torch.ones(3), right=Tree(torch.ones(3) * 2)))
    assert tree[1].left.right.value == 2
    assert type(torch.stack([tree, tree]).left.right) is Tree
    assert torch.stack([tree, tree]).left.right.batch_size == torch.Size([2, 3])
    assert tree.right is None
    assert Tree.left.right.value.__field_path__ == ("left", "right", "value")
    with pytest.raises(SchemaError, match="left"):
        Tree(torch.zeros(3), left=leafy(3))


def test_recursion_without_end_is_refused(form: Form) -> None:
    """A required field of the own class could never be filled."""
    with pytest.raises(SchemaError, match="None"):

        @form()
        class Endless(form.base):
            x: Float32[Tensor, ""]
            inner: Endless


def test_forward_references() -> None:
    """A name that is defined later is looked up at the first use."""
    batch = Early(torch.zeros(2), Later(torch.zeros(2, 3)))
    assert batch[0].later.y.shape == (3,)
    assert schema(Early).fields["later"].nested is Later
    assert repr(Early.later.y).startswith("Early.later.y")
    with pytest.raises(SchemaError, match="later"):
        Early(torch.zeros(2), leafy(2))


def test_classes_that_hold_one_another_by_option() -> None:
    """A class is declared over one that names it, before its own name exists."""

    class Branch(TensorClass):
        x: Float32[Tensor, ""]
        trunk: Trunk | None = None

    class Trunk(TensorClass):
        y: Float32[Tensor, ""]
        branch: Branch
        z: Float32[Tensor, ""]

    globals()["Trunk"] = Trunk
    try:
        whole = Trunk(torch.zeros(2), Branch(torch.ones(2)), torch.zeros(2))
        assert Branch(torch.ones(2), trunk=whole)[0].trunk.branch.x == 1
    finally:
        del globals()["Trunk"]


def test_every_use_of_a_postponed_class_finishes_it() -> None:
    """Field references, the schema and an instance all work first, whichever comes first."""

    class First(TensorClass):
        x: Float32[Tensor, ""]
        later: Second | None = None

    class Second(TensorClass):
        y: Float32[Tensor, ""]

    globals()["Second"] = Second
    try:
        assert First.x.__field_path__ == ("x",)
        assert list(schema(First).fields) == ["x", "later"]
        assert First(torch.zeros(2)).later is None
    finally:
        del globals()["Second"]


def test_a_forward_reference_to_nothing(form: Form) -> None:
    """The error names the field and the name that is not defined."""

    @form()
    class Lost(form.base):
        x: Float32[Tensor, ""]
        other: Nowhere | None = None  # type: ignore[name-defined]  # that is the test

    with pytest.raises(SchemaError, match=r"other[\s\S]*Nowhere"):
        Lost(torch.zeros(2))


def test_classes_in_functions_see_local_names(form: Form) -> None:
    """Annotations may use names of the function that declares the class."""
    width = "2 3"

    @form()
    class Inner(form.base):
        x: Float32[Tensor, width]

    @form()
    class Outer(form.base):
        inner: Inner

    assert Outer(Inner(torch.zeros(4, 2, 3))).batch_size == torch.Size([4])


def test_members_of_a_class_body(form: Form) -> None:
    """Methods, properties with setters, static and class methods, constants and `super()` work as in any class."""

    @form()
    class Point(form.base):
        """A point."""

        x: Float32[Tensor, "2"]
        scale = 10

        @property
        def norm(self) -> Tensor:
            return self.x.norm(dim=-1)

        @property
        def first(self) -> Tensor:
            return self.x[..., 0]

        @first.setter
        def first(self, value: float) -> None:
            self.x = torch.cat([torch.full_like(self.x[..., :1], value), self.x[..., 1:]], -1)

        @staticmethod
        def unit() -> float:
            return 1.0

        @classmethod
        def ones(cls, *size: int) -> Any:
            return cls(torch.ones(*size, 2))

        def clone(self, recurse: bool = True) -> Any:
            return super().clone(recurse)

        def __len__(self) -> int:
            return 99

    point = Point.ones(3)
    assert point.norm.shape == (3,)
    point.first = 5.0
    assert point.x[0].tolist() == [5, 1]
    assert (Point.unit(), point.scale, len(point)) == (1.0, 10, 99)
    assert type(point.clone()) is Point
    assert Point.__doc__ == "A point."
    assert type(point[0]) is Point


def test_cached_properties_are_refused_or_work(form: Form) -> None:
    """An instance has one slot: a cached property needs a dict, and says so where it can't work."""

    @form()
    class Point(form.base):
        x: Float32[Tensor, "2"]

        @cached_property
        def norm(self) -> Tensor:
            return self.x.norm(dim=-1)

    point = Point(torch.ones(3, 2))
    assert point.norm.shape == (3,)
    assert point.norm is point.norm
    assert point[:1].norm.shape == (1,)


def test_an_error_in_a_property_is_not_hidden(form: Form) -> None:
    """An AttributeError inside a property is shown as it is, not as an unknown field."""

    @form()
    class Point(form.base):
        x: Float32[Tensor, "2"]

        @property
        def broken(self) -> Tensor:
            return self.x.no_such_thing  # type: ignore[no-any-return]  # that is the test

    with pytest.raises(AttributeError, match="no_such_thing"):
        Point(torch.ones(3, 2)).broken


def test_a_typo_names_the_nearest_field(form: Form) -> None:
    """Reading, writing and referring to a misspelt field all name the field that was meant."""

    @form()
    class Digits(form.base):
        image: Float32[Tensor, "2"]

    batch = Digits(torch.zeros(3, 2))
    for attempt in (lambda: batch.imgae, lambda: Digits.imgae, lambda: setattr(batch, "imgae", 1)):
        with pytest.raises(UnknownFieldError, match="image"):
            attempt()
    with pytest.raises(KeyError, match="image"):
        batch["imgae"]
    assert not hasattr(batch, "imgae")
    assert not hasattr(Digits, "imgae")
    with pytest.raises(SchemaError, match="did you mean `image`"):
        Digits(imgae=torch.zeros(3, 2))


def test_names_that_would_hide_a_container_member_are_refused(form: Form) -> None:
    """A field called like an operation needs `shadow=True`; names of the container's own slots are never fields."""
    for name in ("reshape", "keys", "mean", "to", "data"):
        if not hasattr(TensorDict, name):
            continue
        with pytest.raises(SchemaError, match=rf"{name}[\s\S]*shadow=True"):
            form()(type(form.base)("Bad", (form.base,), {"__annotations__": {name: Tensor}, "__module__": __name__}))
    for name in ("batch_size", "device", "names", "shape", "_store"):
        with pytest.raises(SchemaError, match=name):
            form(shadow=True)(
                type(form.base)(
                    "Bad",
                    (form.base,),
                    {"__annotations__": {name: Tensor}, "__module__": __name__},
                    **form.words(shadow=True),
                )
            )


def test_names_that_generated_code_uses_are_free_for_fields(form: Form) -> None:
    """Fields may be called like builtins and like anything that the constructor's source mentions."""
    names = [
        "store",
        "size_",
        "new",
        "build",
        "unknown",
        "object",
        "len",
        "str",
        "Tensor",
        "TensorDict",
        "given",
        "checks",
    ]
    made = form()(
        type(form.base)(
            "Odd", (form.base,), {"__annotations__": dict.fromkeys(names, Float32[Tensor, "2"]), "__module__": __name__}
        )
    )
    batch = made(**{name: torch.full((3, 2), float(i)) for i, name in enumerate(names)})
    assert [batch.get(name)[0, 0].item() for name in names] == list(range(len(names)))
    assert batch[0].batch_size == torch.Size([])


def test_a_class_without_fields(form: Form) -> None:
    """An empty class is a batch of nothing; its children have fields."""

    @form()
    class Empty(form.base):
        pass

    class Child(Empty):
        x: Float32[Tensor, ""]

    assert list(Empty(batch_size=[3]).keys()) == []
    assert Empty(batch_size=[3])[0].batch_size == torch.Size([])
    assert Child(torch.zeros(2)).batch_size == torch.Size([2])


def test_facts_of_the_schema() -> None:
    """`schema(cls)` says what the class declares."""
    found = schema(Tree)
    assert list(found.fields) == ["value", "left", "right"]
    assert (found.fields["value"].kind, found.fields["left"].kind) == ("tensor", "nested")
    assert found.fields["left"].optional
    assert not found.fields["value"].optional
    assert str(found.fields["value"].dtype) == "Float32"
    assert found is schema(Tree(torch.zeros(2)))
    assert found.digest == schema(Tree).digest != schema(Leafy).digest


def test_the_bases_declare_nothing() -> None:
    """`TensorClass` itself is no batch: it can't be made, and has no schema."""
    with pytest.raises(TypeError):
        TensorClass()  # type: ignore[call-arg]  # that is the test
    with pytest.raises(TypeError, match="tensorclass"):
        schema(TensorClass)


def test_a_class_made_in_a_function_is_let_go() -> None:
    """A class keeps no frame of the function that made it."""

    class Big:
        pass

    def make() -> tuple[Any, Any]:
        big = Big()

        @tensorclass
        class Local:
            x: Float32[Tensor, ""]

        return Local, weakref.ref(big)

    cls, ref = make()
    gc.collect()
    assert ref() is None
    assert cls(torch.zeros(2)).batch_size == torch.Size([2])


def test_docs_of_fields(form: Form) -> None:
    """What a field means is kept in the schema and on the reference."""

    @form()
    class Digits(form.base):
        image: Float32[Tensor, "2"] = field(doc="grey values from 0 to 1")

    assert schema(Digits).fields["image"].doc == "grey values from 0 to 1"
    assert Digits.image.__doc__ == "grey values from 0 to 1"


def test_an_init_of_the_class_is_refused(form: Form) -> None:
    """The constructor is generated; what it should do besides goes to `__post_init__`."""
    with pytest.raises(SchemaError, match="__post_init__"):

        @form()
        class Own(form.base):
            x: Float32[Tensor, ""]

            def __init__(self, x: Tensor) -> None:
                self.x = x

    with pytest.raises(SchemaError, match="__post_init__"):

        @form()
        class Early(form.base):
            x: "NotYet"  # type: ignore[name-defined]  # a class that comes later

            def __init__(self, x: Tensor) -> None:
                self.x = x


def test_decorating_something_else() -> None:
    """The decorator takes a class; options are given by keyword and have known names."""
    with pytest.raises(TypeError, match="class"):
        tensorclass(3)  # type: ignore[type-var]  # that is the test
    with pytest.raises(TypeError, match="frozn"):
        tensorclass(frozn=True)(type("X", (), {"__annotations__": {"x": Tensor}}))  # type: ignore[call-overload]  # that is the test


def test_a_decorated_class_is_a_tensorclass(form: Form) -> None:
    """Both forms give a subclass of TensorClass."""

    @form()
    class Point(form.base):
        x: Float32[Tensor, ""]

    assert issubclass(Point, TensorClass)
    assert is_tensorclass(Point)
    assert is_tensorclass(Point(torch.zeros(2)))
    assert digits is not None
