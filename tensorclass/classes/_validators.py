"""User-defined checks of single fields and of whole instances. They run wherever values are validated."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

from .._schema import FieldValidator, Schema
from ..errors import Problem, SchemaError, did_you_mean

F = TypeVar("F", bound="Callable[..., Any] | classmethod[Any, Any, Any] | staticmethod[Any, Any]")


class Validator:
    """A decorated method of a class body. Reading it returns the method bound to the class, or to the instance."""

    def __init__(self, function: Any, fields: tuple[str, ...], mode: str) -> None:
        self.function = function
        self.fields = fields
        self.mode = mode
        self.__doc__ = getattr(function, "__doc__", None)

    def __get__(self, instance: object, owner: type) -> Any:
        return self.function.__get__(instance, owner)


def field_validator(*fields: str, mode: Literal["after", "before"] = "after") -> Callable[[F], F]:
    """Decorate a class method as a validator of fields. It gets the value of a field, and returns it or a replacement.

    It runs in the constructor, in setters, in `from_*` and in `replace`; it doesn't run for results of operations and
    for None. A ValueError or AssertionError that it raises becomes a problem of the field.

    Args:
        fields: the names of the fields.
        mode: "after" runs on a value that fits the declaration; "before" runs on the given value.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import TensorClass, field_validator
    >>> from tensorclass.typing import Float32
    >>> class Weights(TensorClass):
    ...     w: Float32[Tensor, "n"]
    ...     @field_validator("w")
    ...     def sums_to_one(cls, value):
    ...         if not torch.allclose(value.sum(-1), torch.ones(())):
    ...             raise ValueError("weights sum to one")
    ...         return value
    >>> Weights(w=torch.ones(2, 4))
    Traceback (most recent call last):
    tensorclass.errors.SchemaError: Weights: 1 problem
    w
      declared: Float32["n"]
      given:    tensor float32 [2, 4]
      hint:     weights sum to one
    """
    if not fields or not all(isinstance(name, str) for name in fields):
        raise SchemaError('field_validator takes the names of fields: `@field_validator("image")`')
    if mode not in ("after", "before"):
        raise SchemaError(f'field_validator(mode={mode!r}): the modes are "after" and "before"')

    def decorate(function: F) -> F:
        found: Any = function if isinstance(function, classmethod | staticmethod) else classmethod(function)
        _check_parameters(found.__func__, 1 if isinstance(found, staticmethod) else 2, "(cls, value)")
        marked: Any = Validator(found, fields, mode)
        return marked  # type: ignore[no-any-return]  # checkers still see the function

    return decorate


def class_validator(function: F) -> F:
    """Decorate a method as a validator of whole instances, for fields that must agree with each other.

    It runs after all fields have passed their checks: in the constructor, in setters (on the resulting state), in
    `from_*` and in `replace`. Its result is ignored. A ValueError or AssertionError that it raises becomes a
    SchemaError.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import TensorClass, class_validator
    >>> from tensorclass.typing import Float32
    >>> class Span(TensorClass):
    ...     start: Float32[Tensor, ""]
    ...     end: Float32[Tensor, ""]
    ...     @class_validator
    ...     def forward(self):
    ...         if bool((self.end < self.start).any()):
    ...             raise ValueError("a span ends before it starts")
    >>> Span(start=torch.zeros(2), end=-torch.ones(2))
    Traceback (most recent call last):
    tensorclass.errors.SchemaError: Span: 1 problem
    forward()
      declared: a check of Span
      given:    batch size [2]
      hint:     a span ends before it starts
    """
    _check_parameters(function, 1, "(self)")
    marked: Any = Validator(function, (), "class")
    return marked  # type: ignore[no-any-return]  # checkers still see the function


def _check_parameters(function: Any, count: int, text: str) -> None:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        name = getattr(function, "__name__", "validator")
        raise SchemaError(f"a validator is called with {text}: write `def {name}{text}:`") from None


# ---- in the class ------------------------------------------------------------------------------------------------


def attach(cls: Any, schema: Schema) -> tuple[Schema, tuple[str, ...]]:
    """Attach field validators to the fields of a schema; returns the new schema, and the names of class validators.

    Raises:
        SchemaError: for a validator of an unknown field.
    """
    found = dict(validators_of(cls))
    checks = tuple(name for name, mark in found.items() if mark.mode == "class")
    marks = [(name, mark) for name, mark in found.items() if mark.mode != "class"]
    if not marks and not any(spec.validators for spec in schema):
        return schema, checks
    problems = [
        Problem(
            name,
            "a field",
            f"`{target}` in `@field_validator`",
            f"its fields are {', '.join(schema.names)}{did_you_mean(target, schema.names)}",
        )
        for name, mark in marks
        for target in mark.fields
        if target not in schema.fields
    ]
    if problems:
        raise SchemaError.of(cls.__name__, problems)

    def of(field: str) -> tuple[FieldValidator, ...]:
        return tuple(
            FieldValidator(name, mark.mode == "before", mark.__get__(None, cls))
            for name, mark in marks
            if field in mark.fields
        )

    return Schema(schema.name, [spec.replace(validators=of(spec.name)) for spec in schema.declared.values()]), checks


def validators_of(cls: Any) -> Iterator[tuple[str, Validator]]:
    """The validators of a class and its parents, parents first. A subclass may override a name."""
    ours = {base for root in cls.__mro__ if "__tensorclass_root__" in vars(root) for base in root.__mro__}
    bases = [base for base in cls.__mro__ if base not in ours]
    names = dict.fromkeys(
        name for base in reversed(bases) for name, member in vars(base).items() if _is_mark(cls, member)
    )
    for name in names:
        member = next(vars(base)[name] for base in bases if name in vars(base))
        if isinstance(member, Validator):
            yield name, member


def _is_mark(cls: Any, member: object) -> bool:
    if type(member).__name__ == "PydanticDescriptorProxy":
        raise SchemaError(
            f"{cls.__name__}: a validator of pydantic; use `tensorclass.field_validator` or `class_validator`"
        )
    return isinstance(member, Validator)


def run_checks(batch: Any, always: bool = False) -> Any:
    """Run the class validators, and return the instance; with `always`, also for `validate="off"`.

    Raises:
        SchemaError: lists the errors of all validators.
    """
    cls, problems = type(batch), []
    for name in cls.__tensorclass__.checks if always or cls.__tensorclass_options__.validate != "off" else ():
        try:
            getattr(batch, name)()
        except (ValueError, AssertionError) as error:
            given = f"batch size {list(batch._batch_size)}"
            problems.append(Problem(f"{name}()", f"a check of {cls.__name__}", given, str(error) or "it refuses this"))
    if problems:
        raise SchemaError.of(cls.__name__, problems)
    return batch
