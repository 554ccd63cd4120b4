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


class Assuming(TorchFunctionMode):
    """Disables validation of distributions: made-up values are invalid, and fake ones can't be checked."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__bool__:
            frame: Any = sys._getframe(1)
            while frame.f_globals.get("__package__") == __package__:  # a mode on top of this one
                frame = frame.f_back
            if str(frame.f_globals.get("__name__", "")).startswith("torch.distributions"):
                return True
        return func(*args, **(kwargs or {}))
