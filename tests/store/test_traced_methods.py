"""The form of methods: dynamo finds each under its own name and traces it as it is, whichever release of torch."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import partial, partialmethod
from operator import attrgetter
from types import FunctionType
from typing import Any

import pytest

from tensorclass import LazyStackedTensorDict, TensorDict
from tests.contract._typed_kinds import Inner

FUNCTION_OF: dict[type, Any] = {
    FunctionType: lambda member: member,
    classmethod: lambda member: member.__func__,
    staticmethod: lambda member: member.__func__,
    property: lambda member: member.fget,
}
"""The forms that a method may have, and the function of each."""
SUBSTITUTES = ("_torchdynamo_", "__torch_dynamo_", "__python_implementation__", "__script_if_tracing")
"""How attributes of functions begin that make dynamo trace another function."""
OTHERS = {
    "__hash__": "that of `object`",
    "__init__": "of a typed class: code that is written for the class",
    "_dense": "a class",
    "__class_getitem__": "makes annotations",
    "__pydantic_serializer__": "for pydantic, which asks for an object",
    "empty": "an operation of instances and a constructor of classes",
}
"""What has another form, and why."""


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    """The name and the definition of everything that can be called of what a class has from the package."""
    for name in dir(cls):
        owner = next((base for base in cls.__mro__ if name in vars(base)), object)
        member = vars(owner)[name]
        if owner is not object and (callable(member) or type(member) in FUNCTION_OF):
            yield name, member


def fault(member: Any) -> str | None:
    """Why dynamo may trace something else than a method, or nothing; None if it traces the method."""
    if type(member) not in FUNCTION_OF:
        return f"a {type(member).__name__}"
    function = FUNCTION_OF[type(member)](member)
    if type(function) is not FunctionType:
        return f"a {type(member).__name__} of a {type(function).__name__}"
    if odd := [name for name in vars(function) if name.startswith(SUBSTITUTES)]:
        return f"traced as {odd}"
    if type(member) is property:  # read on the way; only its code matters
        return None
    try:
        found = attrgetter(function.__qualname__)(importlib.import_module(function.__module__))
    except AttributeError:
        return f"made inside a function: {function.__qualname__}"
    return None if getattr(found, "__func__", found) is function else f"a copy of {function.__qualname__}"


@pytest.mark.parametrize("cls", [TensorDict, LazyStackedTensorDict, Inner])
def test_methods_are_functions_of_classes(cls: type) -> None:
    """Every method is a function under its own name: no partial, no copy, nothing that is traced as something else."""
    found = {name: fault(member) for name, member in methods(cls)}
    assert {name: why for name, why in found.items() if why and name not in OTHERS} == {}
    hot = {"_wrap" if cls is Inner else "_of", "_combine", "_each", "_index", "__getitem__", "__add__", "stack", "set"}
    assert hot <= {*found}


def test_other_forms_are_found() -> None:
    """A partial, a copy, a closure and a function with a substitute are not the form of a method."""

    def substitute(self: Any) -> None: ...

    substitute._torchdynamo_inline = fault  # type: ignore[attr-defined]
    copied = FunctionType(TensorDict.clone.__code__, {}, "clone")
    copied.__module__, copied.__qualname__ = TensorDict.clone.__module__, TensorDict.clone.__qualname__
    assert fault(partial(TensorDict.clone)) == "a partial"
    assert fault(partialmethod(TensorDict.clone)) == "a partialmethod"
    assert fault(classmethod(partial(TensorDict.clone))) == "a classmethod of a partial"
    assert fault(copied) == f"a copy of {copied.__qualname__}"
    assert "made inside a function" in str(fault(lambda self: self))
    assert fault(substitute) == "traced as ['_torchdynamo_inline']"
