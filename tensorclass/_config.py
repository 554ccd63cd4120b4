"""Modes that a user may set for a block of code. Each is a ContextVar, so threads don't affect each other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from typing_extensions import Self

from ._flags import flags
from .errors import ArgumentError, did_you_mean


@dataclass(frozen=True)
class PrintOptions:
    """The options for printing containers."""

    show_batch_size: bool = True
    show_device: bool = True
    show_is_shared: bool = True
    show_shape: bool = True
    show_field_device: bool = True
    show_dtype: bool = True
    show_field_is_shared: bool = True
    show_grad: bool = False
    show_is_contiguous: bool = False
    show_is_view: bool = False
    show_storage_size: bool = False
    plain: bool = False
    sort_keys: str | Callable[[str], Any] | bool | None = "insertion"
    compact: bool = True
    html: bool = True
    show_values: bool = True
    width: int = 100


_OPTIONS: ContextVar[PrintOptions] = ContextVar("tensorclass.print_options", default=PrintOptions())  # noqa: B039  # frozen
_NAMES = tuple(option.name for option in fields(PrintOptions))
_SORTS = ("alphabetical", "insertion")
_HIDDEN_IF_TERSE = ("show_device", "show_is_shared", "show_field_device", "show_dtype", "show_field_is_shared")
_DETAILS = frozenset({
    "show_is_shared", "show_shape", "show_field_device", "show_field_is_shared", "show_grad", "show_is_contiguous",
    "show_is_view", "show_storage_size", "plain",
})  # fmt: skip


def print_options() -> PrintOptions:
    """The current options."""
    return _OPTIONS.get()


def get_printoptions() -> dict[str, Any]:
    """The current print options, by name; see `set_printoptions`.

    >>> from tensorclass import get_printoptions
    >>> get_printoptions()["compact"]
    True
    """
    return asdict(_OPTIONS.get())


@flags
class set_printoptions(ContextDecorator):  # lower case: used like a function
    """Change how containers print: for a block (`with`), for a function (as a decorator), or from now on (`.set()`).

    Other options keep their values. The options apply only to the current thread or task.

    Args:
        verbose: False hides devices, dtypes and sharing, unless an option requests one of them.
        **options: `compact` (one line if it fits), `width` (columns of that line), `sort_keys` ("alphabetical",
            "insertion" or a key function), `html` (tables in notebooks), `show_batch_size`, `show_device`,
            `show_dtype`, `show_values` (False hides numbers and Python values). The following options select the
            detailed form: `show_shape`, `show_field_device`, `show_is_shared`, `show_field_is_shared`, `show_grad`,
            `show_is_contiguous`, `show_is_view`, `show_storage_size`, `plain` (range or mean of the values).

    Raises:
        TypeError: for an unknown option; suggests the nearest one.

    >>> import torch
    >>> from tensorclass import TensorDict, set_printoptions
    >>> data = TensorDict(a=torch.zeros(3), batch_size=[3])
    >>> with set_printoptions(compact=False, verbose=False):
    ...     print(data)
    TensorDict(
        fields={
            a: Tensor(shape=torch.Size([3]))},
        batch_size=torch.Size([3]))
    """

    def __init__(self, *, verbose: bool = True, **options: Any) -> None:
        check_options(options)
        terse = {} if verbose else dict.fromkeys(_HIDDEN_IF_TERSE, False)
        detailed = {"compact": False} if _DETAILS & options.keys() else {}
        self._changes = {**terse, **detailed, **options}
        self._tokens: list[Token[PrintOptions]] = []

    def set(self) -> None:
        """Apply the options from now on, in this thread or task."""
        _OPTIONS.set(replace(_OPTIONS.get(), **self._changes))

    def __enter__(self) -> Self:
        self._tokens.append(_OPTIONS.set(replace(_OPTIONS.get(), **self._changes)))
        return self

    def __exit__(self, *exc: object) -> None:
        _OPTIONS.reset(self._tokens.pop())

    def _recreate_cm(self) -> Self:
        """A new context for each call of a decorated function, so that calls in two threads share no state."""
        return type(self)(**self._changes)


def check_options(options: dict[str, Any]) -> None:
    """Refuse unknown print options and invalid values."""
    for name, value in options.items():
        if name not in _NAMES:
            raise ArgumentError(
                f"unknown print option `{name:.100}`{did_you_mean(name, _NAMES)}; options: {', '.join(_NAMES)}"
            )
        if name == "width":
            if type(value) is not int or value < 1:
                raise ArgumentError(f"print option `width` is a positive number of columns, got {value!r:.200}")
        elif name == "sort_keys":
            if not (value is None or isinstance(value, bool) or callable(value) or value in _SORTS):
                raise ArgumentError(
                    f"print option `sort_keys` is one of {_SORTS} or a key function, got {value!r:.200}"
                )
        elif not isinstance(value, bool):
            raise ArgumentError(f"print option `{name}` is True or False, got {value!r:.200}")
