"""`module(in_fields=..., out_fields=...)`: fields first, callable second, so that type checkers compare them.

Type checkers see `Digits.image` as the type of its value. Two steps are needed for the out fields: in a single call, a
checker would widen their type until the callable fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from torch import Tensor
from typing_extensions import TypeVarTuple, Unpack

from ...core import Named
from ...errors import BuildError
from ..parts._how import by_keyword
from ..parts._slots import as_slots
from ..parts._stage import A, ModuleOptions, Several, TensorClassModule, default_name
from ._resolving import ends_by_annotation

R = TypeVar("R")
Ts = TypeVarTuple("Ts")
Fn = TypeVar("Fn", bound=Callable[..., Any])

# Out fields with None: the callable returns values that are dropped.
Dropping = (
    tuple[None, Any]
    | tuple[Any, None]
    | tuple[None, Any, Any]
    | tuple[Any, None, Any]
    | tuple[Any, Any, None]
    | tuple[None, None, Any]
    | tuple[None, Any, None]
    | tuple[Any, None, None]
)


# With stubs, a reference to a tensor field has its own type, which no callable returns.
Tensors = TypeVar("Tensors", Tensor, tuple[Tensor, Tensor], tuple[Tensor, Tensor, Tensor])
Mixed = (
    tuple[Named[Any], Any]
    | tuple[Any, Named[Any]]
    | tuple[Named[Any], Any, Any]
    | tuple[Any, Named[Any], Any]
    | tuple[Any, Any, Named[Any]]
)


class Typed(Generic[Fn]):
    """Fields that wait for their callable; the result of `module(...)`."""

    def __init__(self, in_fields: Any, out_fields: Any, options: ModuleOptions) -> None:
        as_slots(by_keyword(in_fields)[0], "in_fields")
        as_slots(out_fields, "out_fields", droppable=True)
        self._fields, self._options = (in_fields, out_fields), options

    def __call__(self, function: Fn) -> TensorClassModule:
        """The typed module of a callable."""
        return TensorClassModule(function, *self._fields, **self._options)


@overload
def module(
    *, in_fields: Any, out_fields: Dropping | list[Any], **options: Unpack[ModuleOptions]
) -> Typed[Callable[..., Any]]: ...
@overload
def module(
    *, in_fields: Several, out_fields: Tensors, **options: Unpack[ModuleOptions]
) -> Typed[Callable[..., Tensors]]: ...
@overload
def module(  # pyright: ignore[reportOverlappingOverload]  # a tuple also fits the next overload
    *, in_fields: tuple[Unpack[Ts]], out_fields: Tensors, **options: Unpack[ModuleOptions]
) -> Typed[Callable[[Unpack[Ts]], Tensors]]: ...
@overload
def module(  # type: ignore[overload-overlap]  # as above
    *, in_fields: A, out_fields: Tensors, **options: Unpack[ModuleOptions]
) -> Typed[Callable[[A], Tensors]]: ...
@overload
def module(*, in_fields: Any, out_fields: Mixed, **options: Unpack[ModuleOptions]) -> Typed[Callable[..., Any]]: ...
@overload
def module(*, in_fields: Several, out_fields: R, **options: Unpack[ModuleOptions]) -> Typed[Callable[..., R]]: ...
@overload
def module(
    *, in_fields: tuple[Unpack[Ts]], out_fields: R, **options: Unpack[ModuleOptions]
) -> Typed[Callable[[Unpack[Ts]], R]]: ...
@overload
def module(*, in_fields: A, out_fields: R, **options: Unpack[ModuleOptions]) -> Typed[Callable[[A], R]]: ...
@overload
def module(function: Fn, /) -> Fn: ...
def module(
    function: Any = None, /, *, in_fields: Any = None, out_fields: Any = None, **options: Unpack[ModuleOptions]
) -> Any:
    """Make a typed module in two steps: `module(in_fields=..., out_fields=...)(callable)`; also a decorator.

    Type checkers compare the parameters and the return type of the callable with the types of the fields; pass several
    fields as a tuple for that.

    A function from one typed class to another needs no fields: `@module` without arguments makes it a member.

    Args:
        function: A function whose argument and result are annotated with typed classes; without `in_fields`.
        in_fields: The fields to read; a field, a tuple of fields, or a mapping from parameter names to fields.
        out_fields: The fields to write; None in a tuple drops an output.
        options: `name`, `update`, `device` and `checkpoint` of `TensorClassModule`.

    Raises:
        BuildError: for arguments that are not fields, and for a bare `@module` on a function without these annotations.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import TensorClass
    >>> from tensorclass.typing import Float32, Int64
    >>> class Prediction(TensorClass):
    ...     logits: Float32[Tensor, "10"]
    ...     digit: Int64[Tensor, ""] | None = None
    >>> @module(in_fields=Prediction.logits, out_fields=Prediction.digit)
    ... def most_likely(logits: Tensor) -> Tensor:
    ...     return logits.argmax(-1)
    >>> most_likely(Prediction(torch.eye(10))).digit[3]
    tensor(3)
    """
    if function is None:
        return Typed(in_fields, out_fields, options)
    if ends_by_annotation(function) is None:
        raise BuildError(
            f"@module on {default_name(function)}, whose argument and result are not annotated with typed classes: "
            "annotate them, or name fields, `@module(in_fields=..., out_fields=...)`"
        )
    return function
