"""Values without a field: what a stage returns, as an input of later stages, and the classes that declare them."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from torch import Tensor

from ...classes import TensorClass
from ...classes._facts import Recipe
from ...core import Classes
from ...errors import BuildError, UnknownFieldError
from ._arity import target_of
from ._diagnostics import Location, location_of_caller

_UNNAMED = Classes()


class StageValue:
    """What a stage returns, or an item of it: `h[0]`, `h["logits"]`."""

    def __init__(self, stage: StageCall, items: tuple[Any, ...]) -> None:
        self.stage, self.items = stage, items

    def __getitem__(self, item: Any) -> StageValue:
        return StageValue(self.stage, (*self.items, item))

    def __iter__(self) -> Iterator[StageValue]:
        raise BuildError(f"{self.stage.location}: take the parts of an item by index, as in `h[0][1]`")

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse a call: the pipeline calls its stages."""
        how = "list the stage, `TensorClassSequential(h=h, ...)`, and call the pipeline"
        raise BuildError(f"the value of a stage can't be called: {how} ({self.stage.location})")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        call = "(...)" if callable(getattr(Tensor, name, None)) else ""
        raise UnknownFieldError(_no_value_yet(f"has no `{name}` yet", f"h.{name}{call}"))

    @classmethod
    def __torch_function__(cls, function: Any, *_: Any) -> NoReturn:
        name = getattr(function, "__name__", "f")
        raise BuildError(_no_value_yet(f"has no value yet for torch's `{name}`", f"{name}(h)"))

    def _refuse_operator(self, *_: Any) -> NoReturn:
        raise BuildError(_no_value_yet("has no value yet for an operator", "h + 1"))

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse_operator
    __matmul__ = __rmatmul__ = __pow__ = __neg__ = __lt__ = __gt__ = __le__ = __ge__ = _refuse_operator


def _no_value_yet(what: str, code: str) -> str:
    return f"the result of a stage {what}: compute with it in the next stage, `stage(lambda h: {code}, h)`"


@dataclass(eq=False)
class StageCall(StageValue):
    """One stage: a callable, where its arguments come from, and where its results go."""

    module: Any
    inputs: tuple[Any, ...]
    by_parameter: Mapping[str, Any]
    out: Any
    returns: Any
    options: Mapping[str, Any]
    sampling: Mapping[str, Any] | None = None
    """The options of a distribution, if the stage draws a value."""
    items: tuple[Any, ...] = ()
    location: Location = field(default_factory=location_of_caller)

    @property
    def stage(self) -> StageCall:  # type: ignore[override]  # an attribute of items
        """The stage itself."""
        return self

    def __iter__(self) -> Iterator[StageValue]:
        """One value for each result that `returns=` or the annotation of the function declares.

        Raises:
            BuildError: for a function without either.
        """
        if isinstance(self.returns, tuple):
            return (self[index] for index in range(len(self.returns)))
        returned = hints_of(self.module).get("return")
        kinds = typing.get_args(returned)
        if typing.get_origin(returned) is not tuple or Ellipsis in kinds:
            raise BuildError(
                f"{self.location}: only a function annotated `-> tuple[A, B]` or a stage with `returns=(A, B)` can be "
                "unpacked; take the results by index, `h[0]`"
            )
        return (self[index] for index in range(len(kinds)))


def hints_of(module: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a callable; empty if they can't be evaluated."""
    target = target_of(module)
    try:
        return typing.get_type_hints(getattr(target, "__func__", target))
    except Exception:  # evaluating the user's annotations may raise anything
        return {}


def unnamed(names: Sequence[str], declared: Sequence[Any]) -> Any:
    """A class for the results of a stage; `Any` declares nothing."""
    names, declared = tuple(names), tuple(declared)
    return _UNNAMED.get((names, declared), lambda: _declare(names, declared))


def _declare(names: tuple[str, ...], declared: tuple[Any, ...]) -> Any:
    space = {
        "__annotations__": dict(zip(names, declared, strict=True)),
        "__module__": __name__,
        "__tensorclass_unnamed__": True,
        "__tensorclass_recipe__": Recipe(unnamed, (names, declared)),
    }
    title = names[0].rpartition("_")[0] if len(names) > 1 else names[0]  # pyright: ignore[reportGeneralTypeIssues]  # it is not empty
    return types.new_class(title, (TensorClass,), {"shadow": True}, lambda ns: ns.update(space))
