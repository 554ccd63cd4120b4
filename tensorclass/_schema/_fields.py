"""The right-hand side of a field declaration: `field(...)` and `produced()`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from typing_extensions import Never

from .._dims import why_no_name
from .._flags import flags
from .._options import FIELD_OPTIONS
from ..errors import SchemaError

JoinPolicy = Literal["stack", "same", "fill", "pad", "ragged"]
Coercion = Literal["strict", "exact", "cast"]


class Missing:
    """The type of `MISSING`, which marks a default that was not given."""

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Any = Missing()


@dataclasses.dataclass(frozen=True)
class FieldInfo:
    """The result of `field()` and `produced()`, which is in the class body until the schema is built."""

    default: Any = MISSING
    default_factory: Any = MISSING
    init: bool = True
    kw_only: bool = MISSING
    join: str | None = None
    fill: Any = 0
    doc: str | None = None
    metadata: Mapping[Any, Any] = dataclasses.field(default_factory=dict)
    repr: bool = True
    compare: bool = True
    coerce: str | None = None
    renamed_from: tuple[str, ...] = ()
    since: str | None = None
    shadow: bool = False
    produced: bool = False


@flags
def field(
    *,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    init: bool = True,
    kw_only: bool = MISSING,
    join: JoinPolicy | None = None,
    fill: Any = 0,
    doc: str | None = None,
    metadata: Mapping[Any, Any] | None = None,
    repr: bool = True,
    compare: bool = True,
    coerce: Coercion | None = None,
    renamed_from: str | Sequence[str] = (),
    since: str | None = None,
    shadow: bool = False,
) -> Any:
    """Set options of one field: those of `dataclasses.field`, and how the field is joined, converted and renamed.

    Args:
        default: The value of an omitted field. A tensor has the event shape; it is spread over the batch, and copied.
        default_factory: A function without arguments that returns the default.
        init: Whether the constructor has a parameter for the field.
        kw_only: Whether that parameter is keyword-only.
        join: How stack, cat and collate treat the field. "stack" joins the tensors, "same" requires equal values,
            "fill" fills an optional field that is None in some batches, "pad" pads tensors whose event sizes differ,
            "ragged" keeps one length per element. The default depends on the field: "same" for values and `Shared`
            tensors, "ragged" for `Ragged` tensors, else "stack".
        fill: The number that `join="fill"` puts into missing elements, and `join="pad"` after shorter ones.
        doc: What the field means.
        metadata: A mapping for your own use.
        repr: Whether `repr` shows the field.
        compare: Whether `==` compares the field.
        coerce: How a value of another type is treated. "strict" refuses it, "exact" converts numbers and arrays if that
            is exact, "cast" converts any value that it can. The default is that of the class: "strict" with `nocast`,
            "cast" with `autocast`, else "exact".
        renamed_from: Former names of the field, which `from_dict`, `from_json` and file loads still accept. The
            constructor accepts only the new name.
        since: The version of your program that added or renamed the field, for messages and documentation.
        shadow: Allow a name that hides a container method, as the class option `shadow` does for all fields.

    Raises:
        SchemaError: if both defaults are given, or for an unknown policy.

    >>> from tensorclass import TensorClass, field
    >>> class Note(TensorClass):
    ...     tags: dict[str, str] = field(default_factory=dict)
    >>> Note().tags
    {}
    """
    given: dict[str, Any] = dict(locals())
    if default is not MISSING and default_factory is not MISSING:
        raise SchemaError("field(): give `default` or `default_factory`, not both")
    if default_factory is not MISSING and not callable(default_factory):
        raise SchemaError(f"field(): `default_factory` is a function without arguments, got {default_factory!r}")
    given["metadata"], given["renamed_from"] = MappingProxyType(dict(metadata or {})), _former_names(renamed_from)
    for name, option in FIELD_OPTIONS.items():
        problem = option.problem(given[name])
        if problem:
            raise SchemaError(f"field({name}={given[name]!r}): {problem}")
    return FieldInfo(**given)


def produced(doc: str | None = None, *, init: Literal[False] = False, **refused: Never) -> Any:
    """Declare a field that is not a constructor argument; a module writes it later.

    Args:
        doc: What the field means.
        init: False, for type checkers.
        refused: other options of `field`, which are errors. A produced field has no default: reading it before a module
            writes it is an error.

    Raises:
        SchemaError: for any other option.

    >>> from torch import Tensor
    >>> from tensorclass import TensorClass, produced
    >>> from tensorclass.typing import Float32
    >>> class State(TensorClass):
    ...     image: Float32[Tensor, "64"]
    ...     hidden: Float32[Tensor, "8"] = produced("what the encoder sees")
    """
    if refused:
        option = next(iter(refused))
        raise SchemaError(
            f"produced({option}={refused[option]!r}): a module writes the field, so it has no {option}; a constructor "
            "argument that may be omitted is `field(default=...)`"
        )
    if init:
        raise SchemaError("produced(): the field is not a constructor argument, so `init` is False")
    return FieldInfo(init=False, doc=doc, produced=True)


def _former_names(given: Any) -> tuple[str, ...]:
    names: tuple[Any, ...] = tuple(given) if isinstance(given, list | tuple) else (given,)
    reason = next(filter(None, map(why_no_name, names)), "")
    if reason:
        raise SchemaError(f"field(renamed_from={given!r}): give a former name of the field, or several; {reason}")
    return names


def as_field_info(value: Any) -> FieldInfo:
    """The options of a field from its right-hand side: a default, `field(...)` or a field of `dataclasses`."""
    if isinstance(value, FieldInfo):
        return value
    if not isinstance(value, dataclasses.Field):
        return FieldInfo(default=value)
    names = ["default", "default_factory", *(name for name, option in FIELD_OPTIONS.items() if option.in_dataclasses)]
    given = {name: getattr(value, name) for name in names}
    options = {name: MISSING if one is dataclasses.MISSING else one for name, one in given.items()}
    return FieldInfo(**options, metadata=value.metadata)
