"""Rules for invalid class definitions, with their messages, for the mypy plugin and the stubs.

Imports neither torch nor mypy. Each rule returns a message; "" if nothing is wrong or nothing is known.
"""

from __future__ import annotations

import builtins
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from .._dims import FAMILY_DTYPES, DimMap, Dims, dims_within, parse_dims
from .._kinds import KINDS, UNREAD, Kind
from .._options import CLASS_OPTIONS, FIELD_OPTIONS
from ..errors import DimSyntaxError, did_you_mean

RESERVED = ("batch_size", "device", "names", "shape", "ndim", "is_locked")
OWN = (
    "replace", "from_tensordict", "to_tensordict", "to_json", "from_json", "pick", "merge", "extend", "example", "map",
)  # fmt: skip
"""Members that only typed classes have, and members that rooms to the left don't have."""
CONVENIENCES = {"RowOps": "tensorclass.ops._by_row", "Conveniences": "tensorclass.classes._conveniences"}
"""The classes of methods whose names fields may have, and their modules."""
YIELDING = ("depth", "attrs", "distribute", "entry_class", "local", "param_count", "separates", "whole")
"""The other methods whose names fields may have."""
LINT_SETTINGS = "tensorclass-lint.ini"
"""The name of the settings with which `tensorclass lint` runs mypy."""
CLASSES = "tensorclass: typed classes "
"""How the note begins that names the typed classes of a file for `tensorclass lint`."""
ANNOTATED = ("typing.Annotated", "typing_extensions.Annotated")


class WrongAnnotation(Exception):
    """Raised for an annotation that would raise when the class is built."""


@dataclass(frozen=True)
class ClassDeclaration:
    """The declaration of a field in an annotation; `dtype` and `dims` are None for any dtype or shape."""

    kind: Kind = UNREAD
    dtype: str | None = None
    dims: str | None = None
    produced: bool = False
    coerce: str | None = None
    """The conversion policy of the field: "cast" accepts any dtype."""
    optional: bool = False
    type: str | None = None
    """The builtin type of a plain value, if known."""
    open: bool = False
    """Whether the annotation has parts that were not understood."""

    def to_json(self) -> dict[str, Any]:
        """The record as mypy's cache stores it."""
        return {**vars(self), "kind": str(self.kind)}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> ClassDeclaration:
        """The record of a row that `to_json` wrote."""
        return cls(**{**row, "kind": KINDS[row["kind"]]})

    @property
    def dtypes(self) -> frozenset[str] | None:
        """The dtypes that the field accepts; None for any."""
        return None if self.dtype is None else FAMILY_DTYPES[self.dtype]

    @property
    def shape(self) -> Dims | None:
        """The event dims; None for any."""
        return None if self.dims is None else parse_dims(self.dims)

    def __str__(self) -> str:
        return f'{self.dtype or "Tensor"}["{"..." if self.dims is None else self.dims}"]'


# ---- options -----------------------------------------------------------------------------------------------------


def unknown_option(name: str) -> str:
    """The message for an unknown option."""
    if name in CLASS_OPTIONS:
        return ""
    near = did_you_mean(name, CLASS_OPTIONS)
    return f'A tensorclass has no option "{name}"; options are {", ".join(CLASS_OPTIONS)}{near}'


def wrong_value(name: str, value: object) -> str:
    """The message for an invalid value of an option."""
    option = CLASS_OPTIONS.get(name)
    wrong = "" if option is None or option.is_switch else option.problem(value)
    return f"The option {name} {wrong}" if wrong else ""


# ---- fields ------------------------------------------------------------------------------------------------------


def shape_of(family: str, count: int, text: object) -> str:
    """The shape in `Float32[Tensor, "8 8"]`: of so many items between the brackets, the second.

    Raises:
        WrongAnnotation: for a wrong number of items, and for an invalid shape.
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


def no_tensor(name: str, field: ClassDeclaration) -> str:
    """The message for a field without tensors in a class with `tensor_only`."""
    wrong = field.kind.holds_objects
    text = f'"{name}" holds no tensor, and the class is tensor_only; drop the option, or the field'
    return text if wrong else ""


def shared_default(name: str) -> str:
    """The message for a mutable default that all instances would share."""
    return f'Instances would share the default of "{name}"; write `field(default_factory=...)`'


def widening(child: ClassDeclaration, parent: ClassDeclaration, table: DimMap) -> str:
    """How the field of a child is certainly wider than that of its parent; "" if unknown."""
    if child.produced and not parent.produced:
        return "the parent's field can always be read"
    if UNREAD in (child.kind, parent.kind) or child.open or parent.open or parent.kind.is_open:
        return ""
    if child.optional and not parent.optional:
        return "the parent's field is never None"
    if child.kind != parent.kind:
        own, other = (kind.replace("_", "-") for kind in (child.kind, parent.kind))
        return f"a {own} field is not a {other} field"
    outer, inner = parent.dtypes, child.dtypes
    if outer is not None and (inner is None or not inner <= outer):
        return f"the dtype {child.dtype or 'of any Tensor'} is not within {parent.dtype}"
    if child.kind.has_dtype and not dims_within(child.shape, parent.shape, table):
        own = "any shape" if child.dims is None else f'the shape "{child.dims}"'
        return f'{own} is not within "{parent.dims}"'
    if child.type is None or parent.type is None or _is_below(child.type, parent.type):
        return ""
    return f"{child.type} is not a {parent.type}"


def _is_below(child: str, parent: str) -> bool:
    return issubclass(getattr(builtins, child), getattr(builtins, parent))


def redeclared(own: Mapping[str, ClassDeclaration], inherited: Mapping[str, ClassDeclaration]) -> DimMap:
    """The dim names of the parents in a child."""
    return DimMap((inherited[name].shape, field.shape) for name, field in own.items() if name in inherited)


def widens(name: str, parent: str, problem: str) -> str:
    """The message for a field that is wider than the field that it overrides."""
    return f'"{name}" widens the field of {parent}: {problem}' if problem else ""


def hides(name: str, members: Container[str], shadow: bool) -> str:
    """The message for a field whose name is taken."""
    if name in RESERVED or name.startswith("_"):
        return f'"{name}" is a name that every batch uses itself; rename the field'
    if name not in members or shadow:
        return ""
    return f'"{name}" would hide a member of every container; rename the field, or write field(shadow=True)'


def differs(name: str, one: str, first: ClassDeclaration, other: str, second: ClassDeclaration) -> str:
    """The message for a field that two classes declare differently, and that can't be merged."""
    said = [(f.kind, f.dtype, None if f.dims is None else f.dims.split(), f.optional, f.type) for f in (first, second)]
    if said[0] == said[1] or UNREAD in (first.kind, second.kind) or first.open or second.open:
        return ""
    return f'"{name}" is declared {first} in {one} and {second} in {other}; omit it from one of them'


def out_of_order(name: str, before: str) -> str:
    """The message for a required field after an optional one."""
    return (
        f'"{name}" is required and is behind "{before}", which has a default; move it in front, give it a '
        "default, or write `field(kw_only=True)`"
    )


def produced_with(option: str) -> str:
    """The message for an argument that `produced()` doesn't accept."""
    if option in FIELD_OPTIONS and FIELD_OPTIONS[option].in_produced:
        return ""
    return (
        f'produced() has no "{option}": a module writes the field; an argument that may be omitted is '
        "`field(default=...)`"
    )


def without_end(path: str, name: str) -> str:
    """The message for a class whose instances contain instances of the class without end."""
    return f'"{path}" is a {name} again, and an instance could never end; declare `{name} | None`'


def undefined_name(name: str, names: Container[str], known: tuple[str, ...]) -> str:
    """The message for a name in an annotation that is undefined at run time."""
    if name in names:
        return f'"{name}" is imported only under TYPE_CHECKING, and does not exist at run time; import it outside'
    return f'"{name}" is not defined in this module; define or import it{did_you_mean(name, known)}'
