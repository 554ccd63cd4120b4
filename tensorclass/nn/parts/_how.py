"""How a module is called: by position or by keyword, on which device, and whether activations are recomputed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..._dims import why_no_name
from ...errors import BuildError


@dataclass(frozen=True)
class How:
    """How the values of the in fields are passed to a call.

    `parameters` has the parameter name of every value if they are passed by keyword, and is empty if they are passed by
    position. The values are moved to `device`; `checkpoint` reruns the module in the backward pass.
    """

    parameters: tuple[str, ...] = ()
    device: torch.device | None = None
    checkpoint: bool = False

    def bind(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments, on the device."""
        device = self.device
        given = tuple(values) if device is None else tuple(moved(value, device) for value in values)
        return (given, {}) if not self.parameters else ((), dict(zip(self.parameters, given, strict=True)))

    def call(self, target: Callable[..., Any], values: Sequence[Any]) -> Any:
        """Call a target with the values of its in fields."""
        arguments, named = self.bind(values)
        if self.checkpoint:
            return checkpoint(target, *arguments, use_reentrant=False, **named)
        return target(*arguments, **named)

    def source(self, callee: str, names: Sequence[str], device: str) -> str:
        """The call as source code, which uses the names `checkpoint`, `moved` and that of the device."""
        given = [name if self.device is None else f"moved({name}, {device})" for name in names]
        if self.parameters:
            given = [f"{name}={value}" for name, value in zip(self.parameters, given, strict=True)]
        if self.checkpoint:
            return f"checkpoint({', '.join([callee, *given, 'use_reentrant=False'])})"
        return f"{callee}({', '.join(given)})"


def moved(value: Any, device: torch.device) -> Any:
    """Move a tensor or batch to a device; any other value is returned unchanged."""
    if not isinstance(value, Tensor):
        return value.to(device) if hasattr(value, "_store") else value
    return value if value.device == device else value.to(device)


def as_device(device: object) -> torch.device | None:
    """The device of a module's inputs.

    Raises:
        BuildError: for an invalid device.
    """
    if device is None:
        return None
    try:
        return torch.device(device)  # type: ignore[call-overload, no-any-return]  # an invalid argument is caught
    except (RuntimeError, TypeError) as error:
        raise BuildError(f"device={device!r}: {str(error).splitlines()[0]}; give 'cpu', 'cuda:1', ...") from None


def by_keyword(in_fields: object) -> tuple[object, tuple[str, ...]]:
    """The in fields, and the names of their parameters if they are given as a mapping.

    Raises:
        BuildError: for a key that can't be a parameter name.
    """
    if not isinstance(in_fields, Mapping):
        return in_fields, ()
    for name in in_fields:
        reason = why_no_name(name)
        if reason:
            raise BuildError(
                "in_fields maps the name of a parameter to a field, as in {'query': Tokens.q}; got the key "
                f"{name!r}: {reason}"
            )
    return list(in_fields.values()), tuple(in_fields)
