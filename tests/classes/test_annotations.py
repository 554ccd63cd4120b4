"""Annotations after a class is built: as they were declared, evaluated early or, on Python 3.14, lazily."""

import importlib
import inspect
import sys
from typing import Any, Generic, TypeVar, get_type_hints

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, pick, tensorclass
from tensorclass.typing import Float32

T = TypeVar("T")


class Base(TensorClass):
    x: Float32[Tensor, "3"]
    _reads: int = 0


class Child(Base):
    y: Float32[Tensor, ""]


class Box(TensorClass, Generic[T]):
    held: T


class Nothing(Base):
    pass


@tensorclass
class Chain:
    x: Float32[Tensor, "3"]
    after: "Chain | None" = None


@pytest.mark.parametrize(
    ("cls", "names"),
    [
        (Base, ["x", "_reads"]),
        (Child, ["y"]),
        (Box, ["held"]),
        (Nothing, []),
        (Chain, ["x", "after"]),
        (pick(Chain, "x"), ["x"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_annotations_are_kept(cls: Any, names: list[str]) -> None:
    """Tools that read the annotations of a class find those of its body, and of no base."""
    assert list(inspect.get_annotations(cls)) == names
    assert list(cls.__annotations__) == names


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotationlib is new in Python 3.14")
@pytest.mark.parametrize("cls", [Base, Child, Box, Chain], ids=lambda cls: cls.__name__)
def test_every_format_of_annotations(cls: Any) -> None:
    """Values, forward references and strings have the same names."""
    library = importlib.import_module("annotationlib")
    found = [
        library.get_annotations(cls, format=form) for form in library.Format if form.name != "VALUE_WITH_FAKE_GLOBALS"
    ]
    assert all(list(one) == list(found[0]) and one for one in found)


def test_a_string_names_a_local_class() -> None:
    """A class of the function around it is found, before or after it is defined."""

    class First(TensorClass):
        x: Float32[Tensor, "3"]
        later: "Second | None" = None

    class Second(TensorClass):
        y: Float32[Tensor, ""]

    one = First(x=torch.zeros(2, 3), later=Second(y=torch.zeros(2)))
    assert isinstance(one[0].later, Second)


@pytest.mark.parametrize("cls", [Base, Child, Chain], ids=lambda cls: cls.__name__)
def test_type_hints_are_resolved(cls: Any) -> None:
    """`typing.get_type_hints`, which parsers of configurations call, reads the class and its bases."""
    assert get_type_hints(cls).keys() >= {"x"}
