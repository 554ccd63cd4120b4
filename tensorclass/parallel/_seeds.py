"""Random numbers of a task. They don't depend on the engine, on the other tasks, or on retries."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ..errors import ArgumentError


def base_seed(generator: torch.Generator | None) -> int:
    """The number from which all seeds of a map derive; drawn from torch's default generator if None is given.

    Raises:
        ArgumentError: for anything but a generator.
    """
    if generator is not None and not isinstance(generator, torch.Generator):
        raise ArgumentError(f"generator is a torch.Generator, got {generator!r:.80}")
    device = "cpu" if generator is None else generator.device
    return int(torch.empty((), dtype=torch.int64, device=device).random_(generator=generator))


def seed_of(base: int, *places: int) -> int:
    """The seed of a task, different from those of all other tasks: a number from 0, below 2**63."""
    digest = hashlib.sha256(":".join(map(str, (base, *places))).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


@contextmanager
def seeded_block(seed: int, alone: bool) -> Iterator[None]:
    """A block whose random numbers derive from a seed.

    Args:
        seed: of this task.
        alone: whether nothing else runs in this process. Then the global generators of torch, numpy and Python are
            seeded; otherwise only operations of torch on the CPU, in this thread.
    """
    if not alone:
        with _Drawing(seed):
            yield
        return
    _torch_seeder()(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)
    yield


@cache
def _torch_seeder() -> Callable[[int], Any]:
    """What seeds the generators of torch. Without an accelerator, `manual_seed` notes its stack, for a millisecond."""
    return torch.manual_seed if torch.accelerator.is_available() else torch.default_generator.manual_seed


_FILLS = {"rand_like": "uniform_", "randn_like": "normal_", "randint_like": "random_"}
"""What draws the same with a generator; torch 2.6 has no overloads of these functions that accept one."""


class _Drawing(TorchDispatchMode):
    """Passes a separate generator to operations that draw random numbers in this thread."""

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self._generator = torch.Generator("cpu").manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded in func.tags and named.get("generator") is None and _on_cpu(args, named):
            found = _with_generator(func)
            if found is not None:
                return (
                    found(*args, **named, generator=self._generator)
                    if "generator" not in named
                    else func(*args, **{**named, "generator": self._generator})
                )
            if fill := _FILLS.get(func.overloadpacket.__name__):
                return getattr(torch.empty_like(args[0], **named), fill)(*args[1:], generator=self._generator)
        return func(*args, **named)


def _on_cpu(args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    device = named.get("device")
    if device is None:
        device = next((arg.device for arg in args if isinstance(arg, Tensor)), "cpu")
    return torch.device(device).type == "cpu"


def _with_generator(func: Any) -> Any:
    """The overload of an operation that accepts a generator; None if torch has none."""
    names = [argument.name for argument in func._schema.arguments]
    if "generator" in names:
        return func
    for overload in func.overloadpacket.overloads():
        found = getattr(func.overloadpacket, overload)
        others = [argument.name for argument in found._schema.arguments]
        if "generator" in others and [name for name in others if name != "generator"] == names:
            return found
    return None
