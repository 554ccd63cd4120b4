"""Typed classes beside abstract classes and protocols: their metaclasses agree, abstract methods are enforced."""

from __future__ import annotations

import copy
import pickle
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import pytest
import torch
import typing_extensions
from torch import Tensor

from tensorclass import FrozenTensorClass, TensorClass, TensorDict, pick, schema, tensorclass
from tensorclass.errors import SchemaError
from tensorclass.typing import Float32

T = TypeVar("T")


@runtime_checkable
class HasX(Protocol):
    """What has an `x`, and says how long it is."""

    x: Tensor

    def lengths(self) -> Tensor:
        """The length of each."""
        return self.x.norm(dim=-1)


class Sized(typing_extensions.Protocol):
    def total(self) -> int: ...


class Given(Protocol[T]):
    @property
    def x(self) -> T: ...


class Shape(ABC):
    @property
    @abstractmethod
    def x(self) -> Tensor: ...

    @abstractmethod
    def area(self) -> Tensor: ...


class Square(TensorClass, ABC):
    x: Float32[Tensor, "2"]

    @abstractmethod
    def area(self) -> Tensor: ...


class Solid(Square):
    def area(self) -> Tensor:
        return self.x.prod(-1)


class Behind(TensorClass, HasX):
    x: Float32[Tensor, "2"]


class Before(HasX, TensorClass):
    x: Float32[Tensor, "2"]


class Both(Sized, Shape, TensorClass):
    x: Float32[Tensor, "2"]

    def area(self) -> Tensor:
        return self.x.prod(-1)

    def total(self) -> int:
        return len(self)


class Parametrised(Given[Tensor], TensorClass):
    x: Float32[Tensor, "2"]


class Generics(TensorClass, Given[T], Generic[T]):
    x: T


class Frozen(FrozenTensorClass, HasX):
    x: Float32[Tensor, "2"]


class WithMeta(TensorClass, metaclass=ABCMeta):
    x: Float32[Tensor, "2"]


@tensorclass
class Decorated(HasX, ABC):
    x: Float32[Tensor, "2"]

    def half(self) -> Tensor:
        return self.x / 2


@tensorclass
class DecoratedAbstract(ABC):
    x: Float32[Tensor, "2"]

    @abstractmethod
    def area(self) -> Tensor: ...


@tensorclass
class DecoratedGiven(Given[Tensor]):
    x: Float32[Tensor, "2"]


@tensorclass
class Inherits(Behind):
    pass


CLASSES = [Solid, Behind, Before, Both, Parametrised, Generics, Frozen, WithMeta, Decorated, DecoratedGiven, Inherits]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_mixins_leave_a_class_as_it_is(cls: Any) -> None:
    """Constructor, checks, operations, copies and pickles work, and the field is the field."""
    batch = cls(x=torch.ones(3, 2), batch_size=[3])
    assert type(batch[:2]) is cls
    assert schema(cls).names == ("x",)
    assert torch.stack([batch, batch]).x.shape == (2, 3, 2)
    assert torch.equal((batch * 2).x, torch.full((3, 2), 2.0))
    for again in (copy.copy(batch), copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):
        assert type(again) is cls
        assert torch.equal(again.x, batch.x)
    assert repr(batch).startswith(cls.__name__)
    assert isinstance(batch, (cls, TensorClass))
    assert not isinstance(batch, Square) or issubclass(cls, Square)
    if cls is not Generics:
        with pytest.raises(ValueError, match="x"):
            cls(x=torch.ones(3, 5), batch_size=[3])
    assert pick(cls, "x") is cls


@pytest.mark.parametrize("cls", [Square, DecoratedAbstract])
def test_abstract_methods_are_enforced(cls: Any) -> None:
    """A class that lacks one has no instances, by any way."""
    ways: list[Callable[[], Any]] = [
        lambda: cls(torch.ones(3, 2)), lambda: cls.from_dict({"x": torch.ones(3, 2)}), lambda: cls.example([3]),
        lambda: cls.from_tensordict(TensorDict(x=torch.ones(3, 2), batch_size=[3])),
        lambda: cls.from_json('{"x": [[1, 2]]}'),
    ]  # fmt: skip
    for way in ways:
        with pytest.raises(TypeError, match=r"abstract.*area"):
            way()

    class Made(cls):  # type: ignore[misc]
        def area(self) -> Tensor:
            return self.x.sum(-1)

    assert Made(torch.ones(3, 2)).area().tolist() == [2.0] * 3


def test_a_field_is_what_an_abstract_property_asks_for() -> None:
    """Also where the field is read later, because its annotation names what is not defined yet."""

    class Now(Shape, TensorClass):
        x: Float32[Tensor, "2"]

        def area(self) -> Tensor:
            return self.x.prod(-1)

    class Later(Shape, TensorClass):
        x: Float32[Tensor, "2"]
        next: NotYet | None = None

        def area(self) -> Tensor:
            return self.x.prod(-1)

    class NotYet(TensorClass):
        x: Float32[Tensor, "2"]

    for cls in (Now, Later):
        assert cls(x=torch.ones(3, 2)).area().tolist() == [1.0] * 3

    class Lacks(Shape, TensorClass):
        x: Float32[Tensor, "2"]

    with pytest.raises(TypeError, match="area"):
        Lacks(torch.ones(3, 2))


def test_protocols_see_instances() -> None:
    """Methods of a protocol are inherited, and a checkable one holds for instances that have its members."""
    assert Behind(torch.ones(3, 2)).lengths().shape == (3,)
    assert isinstance(Behind(torch.ones(3, 2)), HasX)
    assert Both(torch.ones(3, 2)).total() == 3
    assert torch.equal(Decorated(torch.ones(3, 2)).half(), torch.full((3, 2), 0.5))


def test_no_virtual_subclasses() -> None:
    """`ABC.register` would say that instances of any class hold the fields."""
    with pytest.raises(TypeError, match="hold no fields"):
        WithMeta.register(int)


def test_classes_are_told_apart_by_identity() -> None:
    """Neither comparison nor hash of classes goes through what protocols make of them."""
    assert type(Behind).__eq__ is type.__eq__
    assert len({Behind, Before, Behind}) == 2
    assert not issubclass(int, Behind)


@pytest.mark.slow
def test_mixins_trace() -> None:
    """Compiled code meets the same classes."""
    run = torch.compile(lambda b: Both(b.x * 2).area(), backend="eager", fullgraph=True)
    assert run(Both(torch.ones(3, 2))).tolist() == [4.0] * 3


class Base(TensorClass):
    x: Float32[Tensor, "3"]


class ByProperty:
    """A mixin with a property."""

    @property
    def x(self) -> int:
        """The name of a field."""
        return 5


class ByMethod:
    """A mixin with a method."""

    def x(self) -> int:
        """The name of a field."""
        return 5


class ByConstant:
    """A mixin with a value."""

    x = 5


class Below(ByProperty):
    """The mixin is a base of this one."""


class Promised(Protocol):
    """A protocol that the field satisfies."""

    @property
    def x(self) -> Any: ...


class Demanded(ABC):
    """An abstract class that the field satisfies."""

    @property
    @abstractmethod
    def x(self) -> Any: ...


def test_a_field_satisfies_what_a_mixin_demands():
    """A member of a protocol, and an abstract one, are there for the field to take their place."""

    class OfProtocol(Promised, Base):  # type: ignore[misc]  # the field is the property
        pass

    class OfAbstract(Demanded, Base):  # type: ignore[misc]  # the field is the property
        pass

    for cls in (OfProtocol, OfAbstract):
        assert cls(x=torch.ones(2, 3)).x.shape == (2, 3)


@pytest.mark.parametrize("mixin", [ByProperty, ByMethod, ByConstant, Below], ids=lambda mixin: mixin.__name__)
def test_a_field_does_not_hide_a_member_of_a_mixin(mixin):
    """A member of a base before the class with the field is an error; behind it, or annotated again, it is not."""
    with pytest.raises(SchemaError, match="a base before it"):
        type("Hidden", (mixin, Base), {})
    with pytest.raises(SchemaError, match="a base before it"):
        tensorclass(type("Decorated", (mixin, Base), {"__annotations__": {}}))
    behind = type("Behind", (Base, mixin), {})
    again = type("Again", (mixin, Base), {"__annotations__": {"x": Float32[Tensor, "3"]}, "__module__": __name__})
    for cls in (behind, again):
        assert cls(x=torch.ones(2, 3)).x.shape == (2, 3)
