"""Options that are True or False refuse everything else: a word such as "no" would count as true.

Every public function, class and method of the package is asked, for each parameter that is annotated as bool. An option
is looked at before anything else, so that the other arguments may be anything.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import tensorclass
from tensorclass import TensorClass, TensorDict, TypedTensorDict, lazy_stack
from tensorclass.errors import ArgumentError
from tensorclass.nn import TensorDictParams

BOOLS = ("bool", "bool | None", "None | bool")


class Point(TensorClass):
    a: Tensor


class Typed(TypedTensorDict):
    a: Tensor


def made() -> dict[str, Any]:
    """One container of each kind."""
    plain = TensorDict({"a": torch.zeros(2)}, [2])
    return {
        "TensorDict": plain,
        "TensorClass": Point(torch.zeros(2), batch_size=[2]),
        "TypedTensorDict": Typed(a=torch.zeros(2), batch_size=[2]),
        "LazyStackedTensorDict": lazy_stack([plain.clone(), plain.clone()]),
        "typed lazy": lazy_stack([Point(torch.zeros(2), batch_size=[2]), Point(torch.zeros(2), batch_size=[2])]),
        "TensorDictParams": TensorDictParams(TensorDict({"a": torch.zeros(2)}, [2])),
    }


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """The modules that users import; the rooms below are not."""
    yield package
    for found in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{found.name}") if found.name in OPEN else None
        if module is not None and hasattr(module, "__path__"):
            yield from modules(module)
        elif module is not None:
            yield module


OPEN = {
    "base", "functional", "nn", "tensordict", "testing", "typedtensordict", "typing", "utils", "common", "cudagraphs",
    "distributions", "ensemble", "functional_modules", "params", "probabilistic", "sequence", "tensorclass_module",
    "composite", "continuous", "discrete", "truncated_normal",
}  # fmt: skip


@cache
def public() -> dict[str, Any]:
    """Every function and class by its name."""
    found: dict[str, Any] = {}
    for module in modules(tensorclass):
        for name in dir(module):
            value = getattr(module, name)
            own = str(getattr(value, "__module__", "")).startswith("tensorclass")
            if own and not name.startswith("_") and isinstance(value, (type, FunctionType)):
                found[name] = value
    return found


def flags(function: Any) -> list[str]:
    """The parameters that are annotated as bool."""
    given = inspect.signature(function).parameters.values() if isinstance(function, FunctionType) else ()
    return [p.name for p in given if p.annotation in BOOLS and not p.name.startswith("_")]


@cache
def doors() -> dict[tuple[str, str], Any]:
    """Functions by their name, and methods by those of class and method, inherited ones included."""
    found: dict[tuple[str, str], Any] = {}
    for name, value in public().items():
        if isinstance(value, FunctionType):
            found["", name] = value
            continue
        for attribute in dir(value):
            inner = inspect.getattr_static(value, attribute)
            inner = getattr(inner, "__func__", inner)
            own = str(getattr(inner, "__module__", "")).startswith("tensorclass")
            if own and (not attribute.startswith("_") or attribute in ("__init__", "__call__")):
                found[name, attribute] = inner
    return found


CASES = [(*place, option) for place, door in doors().items() for option in flags(door)]


def called(owner: str, name: str, option: str, value: Any) -> Any:
    """A call with one option, whose other arguments are nothing in particular."""
    function = doors()[owner, name] if owner else public()[name]
    needed = {
        parameter.name: 1 if parameter.annotation == "int" else None
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        and parameter.name not in ("self", "cls", option)
    }
    if not owner:
        return function(**needed, **{option: value})
    kinds = made()
    cls = public()[owner]
    arguments = {**needed, **({"key": "a"} if name == "get" else {}), option: value}
    if isinstance(inspect.getattr_static(cls, name), (classmethod, staticmethod)):
        return getattr(cls, name)(**arguments)
    return getattr(cls, name)(kinds.get(INSTEAD.get(owner, owner)), **arguments)


INSTEAD = {
    "TensorDictBase": "TensorDict",
    "PersistentTensorDict": "TensorDict",
    "FrozenTensorClass": "TensorClass",
    "Dist": "TensorClass",
}
"""Bases, and what is one of them."""


@pytest.mark.parametrize(("owner", "name", "option"), CASES)
def test_a_word_is_refused(owner: str, name: str, option: str) -> None:
    """The error names the option."""
    optional = inspect.signature(doors()[owner, name]).parameters[option].annotation != "bool"
    for value in ("no", 2, [], *(() if optional else (None,))):
        with pytest.raises(ArgumentError, match=f"`{option}` is True or False"):
            called(owner, name, option, value)


def test_nothing_is_written() -> None:
    """The options of methods that write are looked at first."""
    for kind, value in made().items():
        for name, arguments in WRITES.items():
            for option in flags(getattr(type(value), name)):
                with pytest.raises(ArgumentError, match=f"`{option}` is True or False"):
                    getattr(value, name)(**arguments, **{option: "no"})
        assert list(value.keys()) == ["a"]
        assert value["a"].requires_grad == (kind == "TensorDictParams")


WRITES: dict[str, dict[str, Any]] = {
    "rename_key_": {"old_key": "a", "new_key": "b"}, "exclude": {}, "select": {}, "flatten_keys": {},
    "requires_grad_": {},
    "update": {"input_dict_or_td": {"b": torch.ones(2)}}, "set": {"key": "b", "item": torch.ones(2)},
    "load_state_dict": {"state_dict": {}}, "apply": {"fn": torch.neg},
}  # fmt: skip


def test_the_table_is_long() -> None:
    """All doors are found: a few that were forgotten once."""
    assert {("TensorDict", "sum", "keepdim"), ("", "load", "mmap"), ("TensorClass", "keys", "sort")} <= {*CASES}
    assert len(CASES) > 600


def counts(function: Any) -> list[str]:
    """The parameters that are annotated as int; dims may be names, and are tested with the operations."""
    given = inspect.signature(function).parameters.values() if isinstance(function, FunctionType) else ()
    whole = [
        p.name
        for p in given
        if p.annotation in ("int", "int | None") and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    return [name for name in whole if not name.startswith("_") and ("dim" not in name or name == "batch_dims")]


LOOKED_AT = {
    ("to", "num_threads"),
    ("std", "correction"),
    ("var", "correction"),
    ("__init__", "module"),
    ("pack_memmap", "compresslevel"),
}
"""What torch says itself, or nothing reads."""
COUNTS = [
    (*place, option)
    for place, door in doors().items()
    for option in counts(door)
    if (place[1], option) not in LOOKED_AT
]


@pytest.mark.parametrize(("owner", "name", "option"), COUNTS)
def test_a_word_is_no_count(owner: str, name: str, option: str) -> None:
    """Neither text nor a boolean, which would count as 0 or 1."""
    for value in ("10", True, 1.5, []):
        with pytest.raises(ArgumentError, match=f"`?{option}`? is a (whole )?number"):
            called(owner, name, option, value)
