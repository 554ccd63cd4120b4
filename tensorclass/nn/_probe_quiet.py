"""What is process-wide while a callable is probed, and put back afterwards."""

from __future__ import annotations

import contextlib
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.distributions import Distribution

_LOCK = threading.RLock()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """One probe at a time; random states, autocast, gradients, warnings and compilation are as they were afterwards."""
    with _LOCK, contextlib.ExitStack() as stack:
        for restore in _random_states():
            stack.callback(restore)
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        # Arguments of distributions are validated by their values.
        stack.callback(Distribution.set_default_validate_args, Distribution._validate_args)
        Distribution.set_default_validate_args(False)
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


def _random_states() -> list[Callable[[], Any]]:
    state, python = torch.get_rng_state(), random.getstate()
    found: list[Callable[[], Any]] = [lambda: torch.set_rng_state(state), lambda: random.setstate(python)]
    if torch.cuda.is_initialized():
        states = torch.cuda.get_rng_state_all()
        found.append(lambda: torch.cuda.set_rng_state_all(states))
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        drawn = numpy.random.get_state()
        found.append(lambda: numpy.random.set_state(drawn))
    return found
