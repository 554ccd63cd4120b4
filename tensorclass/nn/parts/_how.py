"""How a module is called: by position or by keyword, on which device, and whether activations are recomputed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..._dims import why_no_name
from ...classes import pick
from ...errors import BuildError, ModuleError, Problem, SchemaError
from ._results import describe, fill
from ._slots import Slot, fields_of
from ._watched_reads import ReadFields


@dataclass(frozen=True)
class How:
    """How the values of the in fields are passed to a call.

    `parameters` has the parameter names of the last values, which are passed by keyword; the others are passed by
    position. With `spread`, a tuple is passed as several arguments. With `over`, the values become one batch. They are
    moved to `device`; `checkpoint` reruns the module in the backward pass.
    """

    parameters: tuple[str, ...] = ()
    device: torch.device | None = None
    checkpoint: bool = False
    spread: bool = False
    over: Over | None = None

    def bind(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments, on the device."""
        device = self.device
        given = tuple(values) if device is None else tuple(moved(value, device) for value in values)
        first = len(given) - len(self.parameters)
        named = dict(zip(self.parameters, given[first:], strict=True))
        return tuple(spread(given[0])) if self.spread else given[:first], named

    def call(self, target: Callable[..., Any], values: Sequence[Any]) -> Any:
        """Call a target with the values of its in fields."""
        if self.over is not None:
            return self.over.call(target, values)
        arguments, named = self.bind(values)
        if self.checkpoint:
            return checkpoint(target, *arguments, use_reentrant=False, **named)
        return target(*arguments, **named)

    def source(self, callee: str, names: Sequence[str], device: str, over: str) -> str:
        """The call as source code; it uses `checkpoint`, `moved`, `spread`, and the names of `device` and `over`."""
        given = [name if self.device is None else f"moved({name}, {device})" for name in names]
        first = len(given) - len(self.parameters)
        named = [f"{name}={value}" for name, value in zip(self.parameters, given[first:], strict=True)]
        given = [f"*spread({given[0]})"] if self.spread else [*given[:first], *named]
        if self.over is not None:
            return f"{over}.call({callee}, ({', '.join([*given, ''])}))"
        if self.checkpoint:
            return f"checkpoint({', '.join([callee, *given, 'use_reentrant=False'])})"
        return f"{callee}({', '.join(given)})"


def spread(value: Any) -> tuple[Any, ...]:
    """A tuple as several arguments, anything else as one."""
    return value if isinstance(value, tuple) else (value,)


@dataclass(frozen=True)
class Over:
    """The classes of a callable from one batch to another.

    `names` are the fields of its batch, and `part` is the class that has only them; None if these are all. A pipeline
    also passes the fields `spare`, where it has them. `record` is told what the callable reads.
    """

    taken: Any
    returned: Any
    names: tuple[str, ...] | None = None
    spare: tuple[Slot, ...] = ()
    part: Any = None
    record: ReadFields | None = None

    def reading(self, names: Sequence[str]) -> Over:
        """The same with a batch of some fields."""
        every = fields_of(self.taken)
        spare = tuple(Slot(getattr(self.taken, name)) for name in every if name not in names)
        return replace(self, names=tuple(names), spare=spare, part=pick(self.taken, *names) if spare else None)

    def call(self, target: Callable[[Any], Any], values: Sequence[Any]) -> Any:
        """Call a target on a batch of some values; the values of its result."""
        specs = fields_of(self.taken)
        given = dict(zip(specs if self.names is None else self.names, values, strict=True))
        cls = self.taken if self.part is None else self.part
        batch = cls(**{name: value for name, value in given.items() if specs[name].init})
        later = {name: value for name, value in given.items() if not specs[name].init}
        batch = fill(batch, later) if later else batch
        result = self._run(target, batch if self.part is None else self.taken._wrap(batch._store))
        if not isinstance(result, self.returned):
            hint = f"return a {self.returned.__name__}, or annotate the class that it returns"
            problem = Problem("the output", self.returned.__name__, describe(result), hint)
            raise SchemaError.of(self.returned.__name__, [problem])
        found = tuple(getattr(result, name) for name in fields_of(self.returned))
        return found[0] if len(found) == 1 else found

    def _run(self, target: Callable[[Any], Any], batch: Any) -> Any:
        """Call a function of a part of the batch; reading a field that the part lacks is an error that says so."""
        if self.record is not None:
            return self.record.run(target, batch)
        if self.part is None:
            return target(batch)
        try:
            return target(batch)
        except KeyError as error:
            name = error.args[0] if error.args else None
            if name not in fields_of(self.taken) or name in fields_of(self.part):
                raise
            raise ModuleError(
                f"the callable reads {self.taken.__name__}.{name}, which it did not read when the pipeline was built "
                "and which this pipeline does not have; build it again, or read the field in every branch"
            ) from error


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
