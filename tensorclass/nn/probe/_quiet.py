"""The modes of this thread while a callable is probed. Nothing that other threads see is changed."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ...core import release_in_forks

_LOCK = release_in_forks(threading.RLock())


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """One probe at a time, outside inference mode, with gradients and without autocast."""
    with _LOCK, contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


_PAIRED = {
    f"{left}{name}{right}"
    for name in ("sub", "rsub", "add", "mul", "div", "truediv")
    for left, right in (("", ""), ("__", "__"))
}
_PAIRED |= {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}
"""Functions that pair the elements of two batches."""
_RESHAPING = ("unsqueeze", "__getitem__", "view", "reshape")


class Assuming(TorchFunctionMode):
    """Disables validation of distributions: made-up values are invalid, and fake ones can't be checked.

    It also sees where values of shapes (B,) and (B, 1) are combined, which pairs every element with every other.
    """

    def __init__(self) -> None:
        super().__init__()
        self.crossed: dict[int, str] = {}
        """For each number of elements, an operation that pairs them all."""
        self._shaped: dict[int, Any] = {}
        """Tensors with dims that the callable has written out."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__bool__:
            frame: Any = sys._getframe(1)
            while frame.f_globals.get("__package__") == __package__:  # a mode on top of this one
                frame = frame.f_back
            if str(frame.f_globals.get("__name__", "")).startswith("torch.distributions"):
                return True
        name = getattr(func, "__name__", "")
        if name in _PAIRED:
            self._look_for_pairs(name, [*args, *(kwargs or {}).values()][:2])
        made = func(*args, **(kwargs or {}))
        if name in _RESHAPING and isinstance(made, Tensor) and made.ndim == 2 and _is_written_out(name, args):
            self._shaped[id(made)] = made
        return made

    def _look_for_pairs(self, name: str, operands: list[Any]) -> None:
        if len(operands) == 2 and all(isinstance(one, Tensor) for one in operands):
            low, high = sorted(operands, key=lambda one: one.ndim)
            size = low.shape[0] if low.ndim == 1 else 0
            if size > 1 and high.shape == (size, 1) and id(high) not in self._shaped:
                self.crossed.setdefault(
                    size, f"`{name.strip('_')}` of {list(operands[0].shape)} and {list(operands[1].shape)}"
                )

    def forget(self) -> None:
        """Forget what the last run showed."""
        self.crossed, self._shaped = {}, {}


def _is_written_out(name: str, args: Any) -> bool:
    """Whether a reshaping adds a dim, as `x[:, None]` does."""
    index = args[1] if name == "__getitem__" else (None,)
    return isinstance(index, tuple) and any(one is None for one in index)
