"""Small values in the printed form: up to six numbers of a tensor, and plain Python values."""

from __future__ import annotations

from datetime import date, time, timedelta
from enum import Enum
from numbers import Number
from pathlib import PurePath
from reprlib import Repr
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from ._entry import TensorEntry, field_value, has_lengths

MOST_NUMBERS = 6
WIDTH = 40
"""The number of characters after which a value is cut, so that a declaration fits next to a table."""
_CONTAINERS = (list, tuple, dict, set, frozenset)
_SHORT = (str, bytes, Number, Enum, torch.dtype, torch.device, torch.Size, PurePath, date, time, timedelta, type(None))
_ATOMS = (bool, float, type(None))
_LARGE = 10**18  # longer ones are shortened
_NO_DISPATCH: Any = Tensor.__torch_dispatch__  # pyright: ignore[reportAttributeAccessIssue]  # torch's stubs take it for a method


class _Cheap(Repr):
    """Shows plain values only; the `__repr__` of other objects may be slow."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = WIDTH

    def repr_instance(self, x: Any, level: int) -> str:
        """The text of a plain value; the class of any other object."""
        return super().repr_instance(x, level) if isinstance(x, _SHORT) else type(x).__name__


_CHEAP = _Cheap()


def cut(text: str) -> str:
    """A text on one line, cut if it is long."""
    if "\n" in text:
        text = " ".join(text.split())
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."


def glance(value: Any, outer: torch.Size) -> str | None:
    """The value of an entry of a container of batch size `outer`; None if it is not shown.

    Python values that the batch shares are shown for each batch size, tensors and values of one element for `[]`.
    """
    kind = type(value)
    short_text = kind is str and len(value) < WIDTH - 2
    if short_text or kind in _ATOMS or (kind is int and -_LARGE < value < _LARGE):
        return cut(repr(value))
    if outer and isinstance(value, (Tensor, TensorEntry)):
        return None
    read = field_value(value)
    if has_lengths(read):
        read = read.values
    if isinstance(read, Tensor):
        return numbers_of(read)
    if not isinstance(read, _SHORT) and type(read) not in _CONTAINERS:
        return None
    try:
        return cut(_CHEAP.repr(read))
    except ValueError:  # an int of more digits than Python converts
        return None


def numbers_of(tensor: Tensor) -> str | None:
    """Up to six numbers of a tensor on the CPU, with four digits; None for more, and if they can't be read."""
    if not _can_read(tensor) or not 0 < tensor.numel() <= MOST_NUMBERS:
        return None
    try:
        return _show_numbers(tensor.detach().tolist())
    except RuntimeError:  # a dtype without Python numbers
        return None


def _can_read(tensor: Tensor) -> bool:
    """Whether the numbers can be read at no cost: on the CPU, and neither fake nor traced."""
    kind: Any = type(tensor)
    real = kind is Tensor or kind.__torch_dispatch__ is _NO_DISPATCH  # fake tensors and other wrappers have their own
    if not real or _is_traced() or torch._is_functional_tensor(tensor):  # pyright: ignore[reportPrivateImportUsage]  # torch offers it under this name only
        return False
    return tensor.is_cpu and tensor.layout is torch.strided and not tensor.is_nested


def _is_traced() -> bool:
    """Whether torch compiles or traces the program, or transforms its functions."""
    if is_dynamo_compiling() or torch._C._get_tracing_state() is not None:
        return True
    transformed = torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore[reportAttributeAccessIssue]  # missing in torch's stubs
    return transformed or bool(torch._C._len_torch_dispatch_stack())


def _show_numbers(value: Any) -> str:
    """A number with four digits, or a list of numbers; a float has a decimal point or an exponent."""
    if type(value) is list:
        return f"[{', '.join([_show_numbers(item) for item in value])}]"
    if isinstance(value, complex):
        return f"{value:.4g}"
    if type(value) is not float:
        return str(value)
    text = f"{value:.4g}"
    return f"{text}.0" if text.lstrip("-").isdigit() else text
