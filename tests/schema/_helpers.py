"""Classes with a schema and nothing else: what the rooms to the right add is not needed to test declarations."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from tensorclass._schema import Schema, build_schema, check_fields
from tensorclass.errors import Problem, SchemaError


def stable(value: object) -> str | None:
    """A test's id: the value's text where every process prints the same, else the parameter's name and position."""
    text = str(value)
    return None if " at 0x" in text or "frozenset" in text else text


class Plain:
    """A container as the schema sees one: it has a batch size."""

    def __init__(self, *batch_size: int) -> None:
        self.batch_size = torch.Size(batch_size)


class Collection(Plain):
    """An untyped container."""

    __tensor_collection__ = True


def declare(cls: type, **options: Any) -> Any:
    """Give a class the schema of its body."""
    frame = sys._getframe(1)
    cls.__tensorclass_schema__ = build_schema(  # type: ignore[attr-defined]  # what marks a tensorclass
        cls, localns=frame.f_locals, **options
    )
    return cls


def schema_for(**annotations: Any) -> Schema:
    """The schema of a class with these fields."""
    return build_schema(type("Some", (), {"__annotations__": annotations}))


def field_of(annotation: Any) -> Any:
    """The field that an annotation makes."""
    return schema_for(x=annotation).fields["x"]


def refused(cls: type) -> tuple[Problem, ...]:
    """The problems of a class body."""
    names = sys._getframe(1).f_locals
    with pytest.raises(SchemaError) as caught:
        build_schema(cls, localns=names)
    assert caught.value.cls_name == cls.__name__
    return caught.value.problems


def misfits(schema: Schema, values: dict[str, Any], **options: Any) -> tuple[Problem, ...]:
    """The problems of some values."""
    with pytest.raises(SchemaError) as caught:
        check_fields(schema, values, **options)
    return caught.value.problems


def only(problems: tuple[Problem, ...]) -> Problem:
    """The one problem that was found."""
    assert len(problems) == 1, problems
    return problems[0]
