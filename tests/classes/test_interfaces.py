"""Fields that take instances of several classes: `TensorClass`, a bound of it, Protocols and abstract classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorCollection, TensorDict, cat, stack
from tensorclass.errors import BatchSizeError, SchemaError
from tensorclass.typing import Float32, Int64

T = TypeVar("T", bound=TensorClass)


class HasX(Protocol):
    """A Protocol that `isinstance` knows nothing of."""

    @property
    def x(self) -> Tensor:
        """A tensor."""
        ...


@runtime_checkable
class HasMean(Protocol):
    """A Protocol with a method."""

    def average(self) -> Tensor:
        """A method."""
        ...


class Form(ABC):
    """An abstract class that is no tensorclass."""

    @abstractmethod
    def area(self) -> Tensor:
        """A method."""


class Readout(TensorClass, ABC):
    """An abstract tensorclass."""

    weight: Float32[Tensor, ""]

    @abstractmethod
    def read(self) -> Tensor:
        """A method."""


class Point(TensorClass, Form):
    """Fits all of them but the abstract tensorclass."""

    x: Float32[Tensor, "2"]

    def average(self) -> Tensor:
        return self.x.mean(-1)

    def area(self) -> Tensor:
        return self.x.prod(-1)


class Label(TensorClass):
    """Fits `TensorClass` alone."""

    label: Int64[Tensor, ""]


class Sum(Readout):
    """Fits the abstract tensorclass."""

    def read(self) -> Tensor:
        return self.weight


class Keyed(TensorClass, Generic[T]):
    """Generic in a class."""

    body: T


class Untold(TensorClass):
    """Any typed class, and a container of no class."""

    body: TensorClass


class Wide(TensorClass):
    """Any container."""

    body: TensorCollection


class Structural(TensorClass):
    """What a Protocol says."""

    body: HasX


class Checkable(TensorClass):
    """What a Protocol says that `isinstance` knows."""

    body: HasMean | None = None


class Nominal(TensorClass):
    """What inherits from an abstract class."""

    body: Form


class Reads(TensorClass):
    """What inherits from an abstract tensorclass."""

    body: Readout


def point() -> Point:
    """Three elements."""
    return Point(torch.arange(6.0).reshape(3, 2))


def label() -> Label:
    """Three elements."""
    return Label(torch.arange(3))


def readout() -> Sum:
    """Three elements."""
    return Sum(torch.arange(3.0))


FITS: list[tuple[Any, Callable[[], Any]]] = [
    (Keyed, point), (Keyed, label), (Keyed[Point], point), (Untold, point), (Untold, label), (Wide, point),
    (Structural, point), (Checkable, point), (Nominal, point), (Reads, readout),
]  # fmt: skip
OPERATIONS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "index": (lambda one: one[1], ()), "mask": (lambda one: one[torch.tensor([True, False, True])], (2,)),
    "stack": (lambda one: stack([one, one]), (2, 3)), "cat": (lambda one: cat([one, one[:1]]), (4,)),
    "reshape": (lambda one: one.reshape(3, 1), (3, 1)), "clone": (lambda one: one.clone(), (3,)),
    "to": (lambda one: one.to("cpu"), (3,)), "apply": (lambda one: one.apply(torch.clone), (3,)),
    "replace": (lambda one: one.replace(body=one.body), (3,)), "split": (lambda one: one.split(2)[0], (2,)),
}  # fmt: skip


@pytest.mark.parametrize(("cls", "make"), FITS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_class_of_what_is_held_is_kept(cls: Any, make: Callable[[], Any], operation: str) -> None:
    """An instance gives the batch size, and every operation keeps its class and cuts it with the batch."""
    held = make()
    function, shape = OPERATIONS[operation]
    one = function(cls(held))
    assert type(one) is cls
    assert one.batch_size == shape
    assert type(one.body) is type(held)
    assert one.body.batch_size == shape


@pytest.mark.parametrize(
    ("cls", "given"),
    [
        (Keyed[Point], label()),
        (Untold, 3),
        (Untold, {"x": torch.zeros(3)}),
        (Structural, label()),
        (Structural, 3),
        (Structural, None),
        (Checkable, label()),
        (Nominal, label()),
        (Nominal, 3),
        (Reads, point()),
    ],
)
def test_what_does_not_fit_is_refused(cls: Any, given: Any) -> None:
    """In the constructor, by name; a setter refuses the same."""
    with pytest.raises(SchemaError, match="body"):
        cls(given, batch_size=[3])


@pytest.mark.parametrize("cls", [Keyed, Untold, Wide, Structural, Nominal])
def test_batch_dims_agree(cls: Any) -> None:
    """A typed instance has the batch dims of its holder."""
    with pytest.raises((SchemaError, BatchSizeError)):
        cls(point(), batch_size=[4])
    with pytest.raises((SchemaError, BatchSizeError)):
        cls(point()).body = point()[:2]


def test_objects_that_are_no_containers_fit_too() -> None:
    """A Protocol and an abstract class take plain objects, which the whole batch shares."""

    class Square(Form):
        def area(self) -> Tensor:
            return torch.tensor(4.0)

    square = Square()
    assert Nominal(square, batch_size=[3])[0].body is square
    assert Checkable(batch_size=[3]).body is None


def test_what_a_dict_does_not_say() -> None:
    """`TensorClass` reads a container of no class; a Protocol refuses it; an abstract class has no example."""
    again = Untold.from_tensordict(Untold(point()).to_tensordict())
    assert isinstance(again.body, TensorDict)
    with pytest.raises(SchemaError, match="has no x"):
        Structural.from_tensordict(Structural(point()).to_tensordict())
    with pytest.raises(SchemaError, match="abstract"):
        Reads.example(3)
    assert Reads.example(3, fields={"body": readout()}).body.batch_size == (3,)
