"""Private attributes: annotated names that begin with `_` hold state of one instance and are not fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cached_property, wraps
from inspect import isfunction
from typing import Any

from .._operations import IN_PLACE
from .._schema import MISSING, FieldInfo, as_field_info, is_private, own_annotations
from ..errors import Problem, SchemaError, UnknownFieldError


class PrivateAttribute:
    """The descriptor of a private attribute: an instance starts from the default, which is made at the first read.

    Results of operations, copies and unpickled instances are new instances.
    """

    def __init__(self, name: str, default: Any, factory: Callable[[], Any] | None) -> None:
        self.name = name
        self.default = default
        self.factory = factory

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self
        state = instance.__dict__
        if self.name in state:
            return state[self.name]
        if self.factory is not None:
            return state.setdefault(self.name, self.factory())  # one value, also if threads read at once
        if self.default is MISSING:
            raise UnknownFieldError(
                f"{type(instance).__name__}.{self.name} is a private attribute without a value: results of operations "
                f"start from its default; declare one, `{self.name}: ... = field(default_factory=...)`, or assign it"
            )
        return self.default

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.name] = value

    def __delete__(self, instance: Any) -> None:
        instance.__dict__.pop(self.name, None)


def install_private(cls: Any, ours: str) -> None:
    """Replace the annotated private names of a class body by their descriptors.

    Raises:
        SchemaError: for a name of the library, a mutable default, options of fields, and `__slots__`.
    """
    problems = []
    for name in private_names(cls):
        info = as_field_info(vars(cls).get(name, MISSING))
        problem = _problem(cls, name, info, ours)
        if problem is not None:
            problems.append(Problem(name, "a private attribute", *problem))
            continue
        factory = None if info.default_factory is MISSING else info.default_factory
        setattr(cls, name, PrivateAttribute(name, info.default, factory))
    if problems:
        raise SchemaError.of(cls.__name__, problems)


def private_names(cls: Any) -> Iterator[str]:
    """The private names that a class body annotates."""
    for name, annotation in own_annotations(cls).items():
        if is_private(name, annotation):
            yield name


def _problem(cls: Any, name: str, info: FieldInfo, ours: str) -> tuple[str, str] | None:
    """What is wrong with a private attribute, and the way out."""
    if name.startswith("__") and name.endswith("__"):
        return "a name of Python", "rename it"
    if any(name in vars(base) for base in cls.__mro__[1:] if base.__module__.startswith(ours)):
        return "a name that every batch uses itself", "rename it"
    if info != _options_kept(info):
        return "`field(...)` with options of fields", "a private attribute takes only `default` or `default_factory`"
    mutable = info.default is not MISSING and type(info.default).__hash__ is None
    if mutable:
        return "a mutable default", f"instances would share it; write `field(default_factory={_factory(info.default)})`"
    if not any("__dict__" in vars(base) for base in cls.__mro__):
        return "a class with `__slots__`", "leave `__slots__` out, or add `__dict__` to it"
    return None


def _options_kept(info: FieldInfo) -> FieldInfo:
    """The options that a private attribute may have; `init`, `repr` and `compare` say what holds anyway."""
    return FieldInfo(info.default, info.default_factory, init=info.init, repr=info.repr, compare=info.compare)


def _factory(default: Any) -> str:
    return type(default).__name__ if not default else f"lambda: {copy(default)!r:.60}"


# ---- cached properties -------------------------------------------------------------------------------------------


def cached_names(cls: Any, ours: str) -> tuple[str, ...]:
    """The cached properties of a class; its bases in the package have none, and a thousand other members."""
    own = [vars(base) for base in reversed(cls.__mro__) if not base.__module__.startswith(ours)]
    found = {name: member for body in own for name, member in body.items()}
    return tuple(name for name, member in found.items() if isinstance(member, cached_property))


def dropping(write: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """A setter that also drops the values of cached properties, which may depend on the field."""

    def set(self: Any, value: Any) -> None:
        write(self, value)
        drop_cached(self)

    return set


_WRITES = ("set", "__setitem__", "__delitem__", "update", "setdefault", "pop", "popitem", "clear", "load_state_dict")
"""Methods that change entries; so do the augmented operators, and those whose name ends with `_`."""


def forget_after_writes(cls: Any, cached: Sequence[str], ours: str) -> None:
    """Let the methods of containers that write drop cached values too: they may write into a nested instance."""
    for name in dir(cls) if cached else ():
        write = getattr(cls, name) if name in _WRITES or name in IN_PLACE or name.rstrip("_") + "_" == name else None
        if isfunction(write) and write.__module__.startswith(ours) and not hasattr(write, "_forgets"):
            setattr(cls, name, _forget_after(write))


def _forget_after(write: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(write)
    def write_and_forget(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return write(self, *args, **options)
        finally:
            drop_cached(self)

    write_and_forget._forgets = True  # type: ignore[attr-defined]  # read above
    return write_and_forget


def drop_cached(self: Any) -> None:
    """Forget the values of the cached properties of an instance."""
    for name in type(self).__tensorclass__.cached:
        self.__dict__.pop(name, None)
