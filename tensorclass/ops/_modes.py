"""Modes of the original library that migrating programs set: ContextVars, so that threads never see each other's."""

from __future__ import annotations

from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from typing import ClassVar

import torch
from typing_extensions import Self


class Mode(ContextDecorator):
    """A bool for a block (`with`), for a function (as a decorator), or from here on (`.set()`)."""

    _variable: ClassVar[ContextVar[bool | None]]
    _default: ClassVar[bool]

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"{type(self).__name__} takes True or False, got {mode!r}")
        self._mode = mode
        self._tokens: list[Token[bool | None]] = []

    @classmethod
    def current(cls) -> bool:
        """The mode in force here; the default inside a compiled region, since dynamo can't trace a ContextVar."""
        if torch.compiler.is_compiling():
            return cls._default
        mode = cls._variable.get()
        return cls._default if mode is None else mode

    def set(self) -> None:
        """Keep the mode from here on, in this thread or task."""
        self._variable.set(self._mode)

    def __enter__(self) -> Self:
        self._tokens.append(self._variable.set(self._mode))
        return self

    def __exit__(self, *exc: object) -> None:
        self._variable.reset(self._tokens.pop())

    def _recreate_cm(self) -> Self:
        """One context for each call of a decorated function: calls in two threads share no state."""
        return type(self)(self._mode)


class set_capture_non_tensor_stack(Mode):  # called like a function, and known under this name
    """Whether stacking equal `NonTensorData` gives one value instead of one for each element; False by default.

    Args:
        mode: True for one value.

    >>> from tensorclass import TensorDict, set_capture_non_tensor_stack
    >>> data = TensorDict(a=1).set_non_tensor("name", "scan")
    >>> with set_capture_non_tensor_stack(True):
    ...     TensorDict.stack([data, data])["name"]
    'scan'
    """

    _variable = ContextVar("tensorclass.capture_non_tensor_stack", default=None)
    _default = False


class set_list_to_stack(Mode):  # called like a function, and known under this name
    """Whether a list that is written to a `TensorDict` becomes one object for each element; True by default.

    Args:
        mode: False stores the list as one value; `set_non_tensor` does the same for one write.

    >>> from tensorclass import TensorDict, set_list_to_stack
    >>> data = TensorDict(batch_size=[2])
    >>> with set_list_to_stack(False):
    ...     data["names"] = ["a", "b", "c"]
    >>> data[0]["names"]
    ['a', 'b', 'c']
    """

    _variable = ContextVar("tensorclass.list_to_stack", default=None)
    _default = True


class set_get_defaults_to_none(Mode):  # called like a function, and known under this name
    """Whether `get` without a default gives None for an absent key (the default) or raises.

    In force from the call on, as in the original; as a context manager it ends with the block.

    Args:
        set_to_none: False to raise.

    >>> from tensorclass import TensorDict, set_get_defaults_to_none
    >>> with set_get_defaults_to_none(False):
    ...     TensorDict(a=1).get("b")
    Traceback (most recent call last):
    tensorclass.errors.MissingKeyError: TensorDict has no key `b`; its keys are ['a']
    """

    _variable = ContextVar("tensorclass.get_defaults_to_none", default=None)
    _default = True

    def __init__(self, set_to_none: bool = True) -> None:
        super().__init__(set_to_none)
        self._applied: Token[bool | None] | None = self._variable.set(set_to_none)

    def __enter__(self) -> Self:
        if self._applied is None:
            return super().__enter__()
        self._tokens.append(self._applied)
        self._applied = None
        return self


def capture_non_tensor_stack(allow_none: bool = False) -> bool | None:
    """Whether stacking equal `NonTensorData` gives one value; with `allow_none`, None where nobody has said.

    >>> from tensorclass import capture_non_tensor_stack
    >>> capture_non_tensor_stack()
    False
    """
    return _read(set_capture_non_tensor_stack, allow_none)


def list_to_stack(allow_none: bool = False) -> bool | None:
    """Whether a list becomes one object for each element; with `allow_none`, None where nobody has said.

    >>> from tensorclass import list_to_stack
    >>> list_to_stack()
    True
    """
    return _read(set_list_to_stack, allow_none)


def get_defaults_to_none(set_to_none: bool = True) -> bool:
    """Whether `get` without a default gives None for an absent key; the argument is ignored, as in the original.

    >>> from tensorclass import get_defaults_to_none
    >>> get_defaults_to_none()
    True
    """
    return set_get_defaults_to_none.current()


def _read(mode: type[Mode], allow_none: bool) -> bool | None:
    return mode._variable.get() if allow_none else mode.current()
