"""Draws random numbers from a given generator in code that doesn't accept one, in this thread only."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ...errors import UnsupportedOperationError


class Seeded(TorchDispatchMode):
    """A context in which every random operation of this thread draws from a generator.

    Args:
        generator: The generator, on the device of the tensors.

    Raises:
        UnsupportedOperationError: for a random operation of torch that has no `generator` argument.

    >>> with Seeded(torch.Generator().manual_seed(0)):
    ...     first = torch.distributions.Normal(0.0, 1.0).sample((2,))
    >>> torch.equal(first, torch.normal(torch.zeros(2), 1.0, generator=torch.Generator().manual_seed(0)))
    True
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of torch
        self.generator = generator

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler for the first operation, which takes a second

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        draws = torch.Tag.nondeterministic_seeded in func.tags and not _drops_nothing(func, args, options)
        if draws and options.get("generator") is None:
            func = _with_generator(func)
            options["generator"] = self.generator
        return func(*args, **options)


def _with_generator(func: Any) -> Any:
    """The overload of a random operation that accepts a generator."""
    if _takes_generator(func):
        return func
    name = "generator" if func._overloadname == "default" else f"{func._overloadname}_generator"
    packet = func.overloadpacket
    if name not in packet.overloads():
        raise UnsupportedOperationError(f"{packet} can't draw from a generator; seed it with `torch.manual_seed`")
    return getattr(packet, name)


def _drops_nothing(func: Any, args: Any, options: Any) -> bool:
    """Whether an operation, such as a fused attention, draws only for dropout, and its rate is 0."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.name == "dropout_p":
            rate = args[place] if place < len(args) else options.get("dropout_p", argument.default_value)
            return bool(rate == 0)
    return False


def _takes_generator(func: Any) -> bool:
    return any(argument.name == "generator" for argument in func._schema.arguments)
