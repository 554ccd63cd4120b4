"""The settings of the process that a module with side effects may change; a check puts them back."""

from __future__ import annotations

import logging
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.distributions import Distribution

_Setting = tuple[Callable[[], Any], Callable[[Any], object]]


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _anomaly() -> tuple[bool, bool]:
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


def _filters() -> list[Any]:
    return list(warnings.filters)


def _set_filters(filters: list[Any]) -> None:
    warnings.resetwarnings()  # it also forgets which warnings were shown under the other filters
    warnings.filters[:] = filters  # type: ignore[index]  # typed as a Sequence; it is a list


def _set_environment(values: dict[str, str]) -> None:
    for name in os.environ.keys() - values.keys():
        del os.environ[name]
    os.environ.update(values)


def _loggers() -> list[Any]:
    """The settings of all loggers."""
    known = [logging.root, *logging.root.manager.loggerDict.values()]
    real = [logger for logger in known if isinstance(logger, logging.Logger)]
    return [
        (logger, logger.level, logger.propagate, logger.disabled, logger.handlers[:], logger.filters[:])
        for logger in real
    ]


def _set_loggers(states: list[Any]) -> None:
    for logger, level, propagate, disabled, handlers, filters in states:
        logger.setLevel(level)
        logger.propagate, logger.disabled = propagate, disabled
        logger.handlers[:], logger.filters[:] = handlers, filters


def _cudnn() -> tuple[bool, ...]:
    return torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic


def _set_cudnn(values: tuple[bool, ...]) -> None:
    torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = values


def _printing() -> dict[str, Any]:
    return dict(vars(torch._tensor_str.PRINT_OPTS))  # pyright: ignore[reportAttributeAccessIssue]  # a private module


def _numpy_generator() -> dict[str, Any]:
    """The state of the global generator of numpy, as values that compare."""
    state: dict[str, Any] = dict(np.random.get_state(legacy=False))
    inner = {name: part.tolist() if isinstance(part, np.ndarray) else part for name, part in state["state"].items()}
    return {**state, "state": inner}


def _set_generator(state: list[int]) -> None:
    torch.set_rng_state(torch.tensor(state, dtype=torch.uint8, device="cpu"))


_SETTINGS: tuple[_Setting, ...] = (
    (_deterministic, lambda both: torch.use_deterministic_algorithms(both[0], warn_only=both[1])),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_default_device, lambda device: torch.set_default_device(None if device.type == "cpu" else device)),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (_anomaly, lambda both: torch.autograd.set_detect_anomaly(*both)),
    (torch.get_num_threads, torch.set_num_threads),
    (_cudnn, _set_cudnn),
    (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    (torch.backends.cuda.mem_efficient_sdp_enabled, torch.backends.cuda.enable_mem_efficient_sdp),
    (_printing, lambda options: vars(torch._tensor_str.PRINT_OPTS).update(options)),  # pyright: ignore[reportAttributeAccessIssue]  # a private module
    (lambda: Distribution._validate_args, Distribution.set_default_validate_args),
    (lambda: torch.get_rng_state().tolist(), _set_generator),
    (random.getstate, random.setstate),
    (_numpy_generator, np.random.set_state),
    (np.geterr, lambda errors: np.seterr(**errors)),
    (np.get_printoptions, lambda options: np.set_printoptions(**options)),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (_filters, _set_filters),
    (lambda: dict(os.environ), _set_environment),
    (_loggers, _set_loggers),
)
"""How each setting is read and set."""


@contextmanager
def restored() -> Iterator[None]:
    """A block after which all settings that it changed have their old values."""
    before = [read() for read, _ in _SETTINGS]
    try:
        yield
    finally:
        for (read, put), old in zip(_SETTINGS, before, strict=True):
            if read() != old:
                put(old)
