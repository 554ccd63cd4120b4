"""What makes no sense in a class definition, and the words for it: one set of rules for mypy's plugin and the stubs.

Knows neither torch nor mypy. Each rule answers with a message, "" where nothing is wrong or nothing is known.
"""

from __future__ import annotations

import builtins
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from .._dims import FAMILY_DTYPES, DimMap, Dims, dims_within, parse_dims
from ..errors import DimSyntaxError, did_you_mean

OPTIONS = ("frozen", "nocast", "autocast", "tensor_only", "shadow", "validate", "removed")
LEVELS = ("schema", "values", "off")
"""What the option `validate` takes."""
RESERVED = ("batch_size", "device", "names", "shape", "ndim", "is_locked")
OWN = (
    "replace", "from_tensordict", "to_tensordict", "to_json", "from_json", "pick", "merge", "extend", "example", "map",
)  # fmt: skip
"""Members of typed classes that no other container has, and those that a lower room does not have."""
CONVENIENCES = ("RowOps", "Conveniences")
"""The classes of methods whose names fields may have."""
YIELDING = ("depth", "attrs", "entry_class", "separates", "param_count")
"""The other methods whose names fields may have."""
TENSOR_KINDS = ("tensor", "shared", "ragged")
ANNOTATED = ("typing.Annotated", "typing_extensions.Annotated")
_WORDS = {"per_element": "per-element"}


class WrongAnnotation(Exception):
    """An annotation that raises when the class is made."""


@dataclass(frozen=True)
class Declared:
    """What an annotation says about a field; `dtype` and `dims` are None when any dtype or shape is meant."""

    kind: str = "other"
    dtype: str | None = None
    dims: str | None = None
    produced: bool = False
    coerce: str | None = None
    """The conversion policy of the field: "cast" takes any dtype."""
    optional: bool = False
    type: str | None = None
    """The builtin type of a plain value, where it is known."""
    open: bool = False
    """Whether the annotation carries more than was understood."""

    def to_json(self) -> dict[str, Any]:
        """The record as mypy's cache stores it."""
        return dict(vars(self))

    @property
    def dtypes(self) -> frozenset[str] | None:
        """The dtypes that the field takes; None for any."""
        return None if self.dtype is None else FAMILY_DTYPES[self.dtype]

    @property
    def shape(self) -> Dims | None:
        """The event dims; None for any."""
        return None if self.dims is None else parse_dims(self.dims)

    def __str__(self) -> str:
        return f'{self.dtype or "Tensor"}["{"..." if self.dims is None else self.dims}"]'


# ---- options -----------------------------------------------------------------------------------------------------


def unknown_option(name: str, known: tuple[str, ...] = OPTIONS) -> str:
    """An option that classes do not have."""
    if name in known:
        return ""
    return f'A tensorclass has no option "{name}"; options are {", ".join(known)}{did_you_mean(name, known)}'


def wrong_value(name: str, value: object) -> str:
    """A value that an option does not take."""
    if name != "validate" or value in LEVELS:
        return ""
    near = did_you_mean(value, LEVELS) if isinstance(value, str) else ""
    return f'The option validate is "schema", "values" or "off", not "{value}"{near}'


# ---- fields ------------------------------------------------------------------------------------------------------


def shape_of(family: str, count: int, text: object) -> str:
    """The shape in `Float32[Tensor, "8 8"]`: of so many items between the brackets, the second.

    Raises:
        WrongAnnotation: for another number of items, and for something that is not a shape.
    """
    if count != 2:
        raise WrongAnnotation(f'{family}[...] takes a tensor type and a shape: {family}[Tensor, "..."]')
    if not isinstance(text, str):
        raise WrongAnnotation(f'{family}: a shape is a string such as "3 h w"')
    try:
        parse_dims(text)
    except DimSyntaxError as error:
        raise WrongAnnotation(f"{family}: {error}") from None
    return text


def no_tensor(name: str, field: Declared) -> str:
    """A field of a class that holds tensors only."""
    wrong = field.kind in ("per_element", "value")
    text = f'"{name}" holds no tensor, and the class is tensor_only; drop the option, or the field'
    return text if wrong else ""


def shared_default(name: str) -> str:
    """A default that every instance would hold."""
    return f'Instances would share the default of "{name}"; write `field(default_factory=...)`'


def widening(child: Declared, parent: Declared, table: DimMap) -> str:
    """How a child's field is certainly wider than its parent's."""
    if child.produced and not parent.produced:
        return "the parent's field can always be read"
    if "other" in (child.kind, parent.kind) or child.open or parent.open or parent.kind == "any":
        return ""
    if child.optional and not parent.optional:
        return "the parent's field is never None"
    if child.kind != parent.kind:
        own, other = (_WORDS.get(kind, kind) for kind in (child.kind, parent.kind))
        return f"a {own} field is not a {other} field"
    outer, inner = parent.dtypes, child.dtypes
    if outer is not None and (inner is None or not inner <= outer):
        return f"the dtype {child.dtype or 'of any Tensor'} is not within {parent.dtype}"
    if child.kind in TENSOR_KINDS and not dims_within(child.shape, parent.shape, table):
        own = "any shape" if child.dims is None else f'the shape "{child.dims}"'
        return f'{own} is not within "{parent.dims}"'
    if child.type is None or parent.type is None or _is_below(child.type, parent.type):
        return ""
    return f"{child.type} is not a {parent.type}"


def _is_below(child: str, parent: str) -> bool:
    return issubclass(getattr(builtins, child), getattr(builtins, parent))


def redeclared(own: Mapping[str, Declared], inherited: Mapping[str, Declared]) -> DimMap:
    """What the dim names of the parents are in a child."""
    return DimMap((inherited[name].shape, field.shape) for name, field in own.items() if name in inherited)


def widens(name: str, parent: str, problem: str) -> str:
    """The message for a field that is wider than the one it stands for."""
    return f'"{name}" widens the field of {parent}: {problem}' if problem else ""


def hides(name: str, members: Container[str], shadow: bool) -> str:
    """A field under a name that is taken."""
    if name in RESERVED or name.startswith("_"):
        return f'"{name}" is a name that every batch uses itself; rename the field'
    if name not in members or shadow:
        return ""
    return f'"{name}" would hide a member of every container; rename the field, or write field(shadow=True)'


def differs(name: str, one: str, first: Declared, other: str, second: Declared) -> str:
    """A field that two classes declare differently, which can't be merged."""
    said = [(f.kind, f.dtype, None if f.dims is None else f.dims.split(), f.optional, f.type) for f in (first, second)]
    if said[0] == said[1] or "other" in (first.kind, second.kind) or first.open or second.open:
        return ""
    return f'"{name}" is declared {first} in {one} and {second} in {other}; omit it from one of them'


def out_of_order(name: str, before: str) -> str:
    """A required field behind one that may be omitted."""
    return (
        f'"{name}" is required and is behind "{before}", which has a default; move it in front, give it a '
        "default, or write `field(kw_only=True)`"
    )


def produced_with(option: str) -> str:
    """An argument that `produced()` does not take."""
    return (
        f'produced() has no "{option}": a module writes the field; an argument that may be omitted is '
        "`field(default=...)`"
    )


def without_end(path: str, name: str) -> str:
    """A class whose instances hold another one, and so on."""
    return f'"{path}" is a {name} again, and an instance could never end; declare `{name} | None`'


def undefined(name: str, names: Container[str], known: tuple[str, ...]) -> str:
    """A name in an annotation that stands for nothing when the program runs."""
    if name in names:
        return f'"{name}" is imported only under TYPE_CHECKING, and does not exist at run time; import it outside'
    return f'"{name}" is not defined in this module; define or import it{did_you_mean(name, known)}'
