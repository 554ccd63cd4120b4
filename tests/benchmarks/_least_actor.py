"""The least code of an actor: a network and a draw in sequence, by keys and typed.

It has what a call of ours looks at: tensors instead of a batch, hooks, the modes (which compiled code can read, so they
are ours), options, methods that a subclass replaces, keys that an earlier module writes, clear errors, and writes of
everything or nothing. What such a look finds is refused here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from torch import Tensor, nn
from torch.distributions import Distribution, Normal
from torch.nn.modules import module as _hooks

from tensorclass.core._modes import Setting

from ._least import Least, _kind_of, _of

KIND: Setting[str | None] = Setting("least_kind", None)
SKIP: Setting[bool] = Setting("least_skip", False)
SUM: Setting[bool] = Setting("least_sum", False)


def _of_batches(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A method that would also take tensors."""

    @wraps(forward)
    def call(self: Any, x: Any, *args: Any, **options: Any) -> Any:
        if not isinstance(x, Least):
            raise NotImplementedError
        return forward(self, x, *args, **options)

    return call


def _globally_hooked() -> bool:
    return bool(
        _hooks._global_forward_hooks
        or _hooks._global_forward_pre_hooks
        or _hooks._global_backward_hooks
        or _hooks._global_backward_pre_hooks
    )


def _hooked(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def _read(x: Least, keys: list[str]) -> list[Tensor]:
    values = []
    for key in keys:
        value = x.data.get(key)
        if type(value) is not Tensor:
            raise KeyError(f"{key} is not there")
        values.append(value)
    return values


def _write(x: Least, values: dict[str, Tensor]) -> None:
    size, dims = x.size, len(x.size)
    for key, value in values.items():
        if type(value) is not Tensor or value.shape[:dims] != size:
            raise ValueError(f"{key} has another batch size")
    x.data.update(values)


class Step(nn.Module):
    """A module over keys."""

    def __init__(self, module: nn.Module, reads: list[str], writes: list[str]) -> None:
        super().__init__()
        self.module = module
        self.reads, self.writes = reads, writes
        self.options: dict[str, Any] = {}

    def forward(self, x: Least, out: Any = None, **options: Any) -> Least:
        """Read, call, write."""
        if SKIP.get() or out is not None or options or self.options:
            raise NotImplementedError
        values = _read(x, self.reads)
        try:
            result = self._modules["module"](*values)  # type: ignore[misc]  # it is there
        except Exception as error:
            raise RuntimeError(f"{self.writes} failed on {[value.shape for value in values]}") from error
        _write(x, {self.writes[0]: result})
        return x


def _drawn(parameters: dict[str, Any], constants: dict[str, Any], default: str) -> tuple[Tensor, Tensor]:
    """A value of a distribution and its log-probability."""
    try:
        dist = Normal(**parameters, **constants)
    except (TypeError, ValueError) as error:
        raise RuntimeError(f"no distribution of {list(parameters)}") from error
    if not isinstance(dist, Distribution) or (KIND.get() or default) != "random":
        raise NotImplementedError
    value = dist.rsample() if dist.has_rsample else dist.sample()
    return value, dist.log_prob(value)


class Draw(nn.Module):
    """A draw over keys."""

    def __init__(self, reads: list[str], writes: list[str], constants: dict[str, Any]) -> None:
        super().__init__()
        self.reads, self.writes, self.constants, self.kind = reads, writes, constants, "random"
        self.generator = self.samples = None

    def drawn(self, dist: Distribution) -> Tensor:
        """What a subclass may replace."""
        raise NotImplementedError

    def forward(self, x: Least, out: Any = None, draws: bool = True) -> Least:
        """Read, draw, write."""
        if SKIP.get() or out is not None or self.generator is not None or self.samples is not None:
            raise NotImplementedError
        if SUM.get() or type(self).drawn is not Draw.drawn:
            raise NotImplementedError
        if draws:
            parameters = dict(zip(self.reads, _read(x, self.reads), strict=True))
            found = _drawn(parameters, self.constants, self.kind)
            _write(x, dict(zip(self.writes, found, strict=True)))
        return x


class Actor(nn.Module):
    """Steps, and a draw that is left out if they write its values."""

    def __init__(self, *steps: nn.Module) -> None:
        super().__init__()
        self.steps = nn.ModuleList(steps)
        self.partial, self.selected = False, None

    def parameters_of(self, x: Least) -> Least:
        """What a subclass may replace."""
        raise NotImplementedError

    @_of_batches
    def forward(self, x: Least, out: Any = None, **options: Any) -> Least:
        """Run the modules under the interaction type of the last one."""
        if SKIP.get() or out is not None or options or self.partial or self.selected is not None:
            raise NotImplementedError
        if type(self).parameters_of is not Actor.parameters_of:
            raise NotImplementedError
        steps: list[Any] = [*self._modules["steps"]._modules.values()]  # type: ignore[union-attr]  # it is there
        last, hooked = steps[-1], _globally_hooked()
        left = [*last.writes]
        inside = KIND.get() is not None
        entered = None if inside else KIND.enter(last.kind)
        try:
            for step in steps[:-1]:
                x = step(x) if hooked or _hooked(step) else step.forward(x)
                left = [key for key in left if key not in step.writes]
            return (last if hooked or _hooked(last) else last.forward)(x, None, bool(left))  # type: ignore[no-any-return]  # a batch
        finally:
            if not inside:
                KIND.leave(entered)


class Sampler(nn.Module):
    """The draw of a typed actor."""

    def __init__(self, constants: dict[str, Any]) -> None:
        super().__init__()
        self.constants, self.generator = constants, None

    def forward(self, loc: Tensor) -> tuple[Tensor, Tensor]:
        """Draw."""
        if self.generator is not None:
            raise NotImplementedError
        return _drawn({"loc": loc}, self.constants, "random")


class TypedActor(nn.Module):
    """From a batch to a declared one; modules are called with their hooks, and values that fit are known by kind."""

    def __init__(self, net: nn.Module, constants: dict[str, Any]) -> None:
        super().__init__()
        self.net, self.sampler = net, Sampler(constants)
        self.known: Any = None, None

    def forward(self, x: Least) -> Least:
        """Run, and compare the results with their declaration."""
        if type(x) is not Least or SKIP.get():
            raise TypeError("another class")
        modules: Any = self._modules
        loc = modules["net"](x.data["obs"])
        result = modules["sampler"](loc)
        if type(loc) is not Tensor or type(result) is not tuple or len(result) != 2:
            raise TypeError("other results")
        (action, score), (size, check) = result, self.known
        if size != x.size or loc.is_nested or action.is_nested or score.is_nested or not check(loc, action, score):
            for value, events in ((loc, 1), (action, 1), (score, 1)):
                if value.dtype is not loc.dtype or value.shape != (*x.size, *[2] * events):
                    raise TypeError("other dtypes or shapes")
            self.known = size, _ = x.size, _kind_of([loc, action, score], 0)
        return _of({"loc": loc, "action": action, "action_log_prob": score}, size)
