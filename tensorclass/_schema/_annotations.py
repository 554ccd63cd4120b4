"""Parses annotations: kind of field, dtype and dims, nested class, optional or not, other metadata."""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ForwardRef, TypeVar, Union, get_args, get_origin

import torch
import typing_extensions
from torch import Tensor
from typing_extensions import get_protocol_members, is_protocol

from .._dims import AnyDim, Dim, Dims, parse_dims
from .._kinds import ANY, COLLECTION, NESTED, PER_ELEMENT, RAGGED, SHARED, TENSOR, VALUE, Kind
from ._dtypes import (
    FAMILIES,
    Bool,
    DTypeFamily,
    Num,
    Shape,
    Shaped,
    TensorSpec,
    dtype_name,
    family_of,
    is_ragged,
    without_spec,
)
from ._markers import PerElement, RaggedMark, SharedMark
from ._spec import type_name

TENSOR_MARKS = (TensorSpec, Shape, torch.dtype, DTypeFamily)
ALIASES = (typing_extensions.TypeAliasType, getattr(typing, "TypeAliasType", typing_extensions.TypeAliasType))


class WrongDeclaration(Exception):
    """An error in one declaration, with its fix. It becomes a `SchemaError` once class and field are known."""

    def __init__(self, given: str, hint: str) -> None:
        super().__init__(given, hint)
        self.given = given
        self.hint = hint


@dataclass(frozen=True)
class Parsed:
    """The content of an annotation."""

    kind: Kind
    annotation: Any
    spec: TensorSpec | None = None
    nested: type | None = None
    optional: bool = False
    metadata: tuple[Any, ...] = ()


def is_tensorclass(annotation: Any) -> bool:
    """Whether a type is a typed class; False for the base classes, which declare nothing."""
    return isinstance(annotation, type) and getattr(annotation, "__tensorclass_schema__", None) is not None


def is_collection(annotation: Any) -> bool:
    """Whether a type is an untyped container."""
    return (
        isinstance(annotation, type)
        and getattr(annotation, "__tensor_collection__", False) is True
        and not is_tensorclass(annotation)
    )


def parse_annotation(annotation: Any, owner: type | None = None) -> Parsed:
    """Parse an annotation.

    Args:
        annotation: A type without unresolved names.
        owner: The class that is being built; a recursive field refers to it before it has a schema.

    Raises:
        WrongDeclaration: if the annotation contradicts itself.
    """
    core, optional, metadata = peel(annotation)
    tensor_marks = [mark for mark in metadata if isinstance(mark, TENSOR_MARKS)]
    other = tuple(mark for mark in metadata if not isinstance(mark, (*TENSOR_MARKS, SharedMark, RaggedMark)))
    shared = any(isinstance(mark, SharedMark) for mark in metadata)
    if any(isinstance(mark, RaggedMark) for mark in metadata) or (isinstance(core, type) and is_ragged(core)):
        return Parsed(RAGGED, Tensor, _ragged_spec(core, tensor_marks, shared), None, optional, other)
    if _is_jaxtyping(core):
        tensor_marks.append(_jaxtyping_spec(core))
        core = Tensor
    if isinstance(core, type) and issubclass(core, Tensor):
        return Parsed(SHARED if shared else TENSOR, core, _merged_spec(tensor_marks), None, optional, other)
    _refuse_tensor_marks(core, tensor_marks, shared)
    return _parse_core(core, optional, other, owner)


def peel(annotation: Any) -> tuple[Any, bool, list[Any]]:
    """Strip `None`, `Annotated`, aliases and type variables, however they are nested."""
    optional, metadata = False, []
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation, *marks = get_args(annotation)
            metadata += marks
        elif origin in (Union, types.UnionType) and types.NoneType in get_args(annotation):
            annotation = _without_none(annotation)
            optional = True
        elif origin in (typing.Final, typing_extensions.Required, typing_extensions.NotRequired):
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, TypeVar):
            annotation = _bound(annotation)
        elif isinstance(annotation, ALIASES):
            annotation = annotation.__value__
        elif isinstance(origin, ALIASES):
            alias: Any = origin
            annotation = alias.__value__[get_args(annotation)]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        else:
            return without_spec(annotation), optional, metadata


def _bound(variable: TypeVar) -> Any:
    bound = variable.__bound__
    if isinstance(bound, ForwardRef):
        return getattr(sys.modules.get(variable.__module__), bound.__forward_arg__, Any)
    return bound or Any


def _without_none(annotation: Any) -> Any:
    members = tuple(member for member in get_args(annotation) if member is not types.NoneType)
    try:
        return functools.reduce(operator.or_, members)
    except TypeError:  # an undefined name; `typing` is the fallback, since it caches its arguments
        return Union[members]  # noqa: UP007  # the members are only known at run time


def _ragged_spec(core: Any, marks: list[Any], shared: bool) -> TensorSpec:
    """The spec of a ragged field. Its first dim varies between elements, so it must be a single name."""
    if not (isinstance(core, type) and (issubclass(core, Tensor) or is_ragged(core))):
        raise WrongDeclaration(f"Ragged[{type_name(core)}]", 'the elements are tensors: `Ragged[Tensor, "t d"]`')
    if shared:
        raise WrongDeclaration("Shared and ragged", "a ragged field has one tensor for each element; drop `Shared`")
    spec = _merged_spec(marks)
    if spec.dims is None:
        return spec
    first, rest = (spec.dims.tokens[0] if spec.dims.tokens else None), Dims(spec.dims.tokens[1:])
    own = isinstance(first, AnyDim) or (isinstance(first, Dim) and first.text.isidentifier())
    if not own or str(first) in rest.names:
        raise WrongDeclaration(
            f'a ragged field of the shape "{spec.dims}"',
            'its first dim differs from element to element: give it a name of its own, such as `t` in "t d", or `_`',
        )
    return spec


def _parse_core(core: Any, optional: bool, metadata: tuple[Any, ...], owner: type | None) -> Parsed:
    """The kind of a field of anything but tensors, from its annotation without `None` and metadata."""
    if core is Any:
        return Parsed(ANY, core, optional=optional, metadata=metadata)
    nested = _nested_class(core, owner)
    if nested is not None:
        return Parsed(NESTED, nested, None, nested, optional, metadata)
    if is_collection(core):
        return Parsed(COLLECTION, core, optional=optional, metadata=metadata)
    if core is PerElement or get_origin(core) is PerElement:
        (inner,) = get_args(core) or (Any,)
        return Parsed(PER_ELEMENT, inner, optional=optional, metadata=metadata)
    if isinstance(core, TENSOR_MARKS):
        raise WrongDeclaration(
            f"{_mark_text(core)} without a tensor", 'it says something about a tensor: write `Float32[Tensor, "3 h w"]`'
        )
    _refuse_unions(core, owner)
    _refuse_wrapper(core)
    if is_interface(get_origin(core) or core):
        return Parsed(ANY, get_origin(core) or core, optional=optional, metadata=metadata)
    return Parsed(VALUE, core, optional=optional, metadata=metadata)


def _refuse_wrapper(core: Any) -> None:
    """Refuse a class that wraps one object of a batch: a field holds the object, so no value would fit."""
    origin = get_origin(core) or core
    if isinstance(origin, type) and getattr(origin, "__wraps_object__", False) is True:
        (inner,) = get_args(core) or (Any,)
        raise WrongDeclaration(
            type_name(core),
            f"a field holds the object itself: declare `{type_name(inner)}`, which takes {origin.__name__}(...) too",
        )


def is_interface(core: Any) -> bool:
    """Whether a type describes the members of an object: a Protocol, or an abstract class of the program."""
    if not isinstance(core, type) or core.__module__ in ("collections.abc", "typing", "numbers", "os"):
        return False
    return is_protocol(core) or (inspect.isabstract(core) and not hasattr(core, "__get_pydantic_core_schema__"))


def missing_members(value: object, interface: type) -> list[str]:
    """The members of a Protocol that an object lacks; or an abstract class that it doesn't inherit from."""
    if not is_protocol(interface):
        return [] if isinstance(value, interface) else [f"parent {interface.__name__}"]
    kind = type(value)  # look at the class: a field may be unwritten yet
    return sorted(n for n in get_protocol_members(interface) if not (hasattr(kind, n) or hasattr(value, n)))


def _nested_class(core: Any, owner: type | None) -> type | None:
    if owner is not None and core is owner:
        return owner
    if is_tensorclass(core):
        nested: type = core
        return nested
    origin = get_origin(core)
    if not (is_tensorclass(origin) or (owner is not None and origin is owner)):
        return None
    # `Pair[T]` of the typing module becomes a class of its own once the arguments are types.
    made = origin[get_args(core)]
    return made if isinstance(made, type) else origin


def _refuse_unions(core: Any, owner: type | None) -> None:
    if get_origin(core) not in (Union, types.UnionType):
        return
    members = [peel(member)[0] for member in get_args(core)]
    if any(_is_batch_data(member, owner) for member in members):
        raise WrongDeclaration(
            f"a union of {' and '.join(type_name(member) for member in members)}",
            "a field has one tensor or container type, by itself or with `| None`; declare a dtype family such as "
            '`Float[Tensor, "..."]`, or two optional fields',
        )


def _is_batch_data(member: Any, owner: type | None) -> bool:
    if _is_jaxtyping(member) or is_collection(member) or get_origin(member) is PerElement:
        return True
    if isinstance(member, type) and is_ragged(member):
        return True
    return (isinstance(member, type) and issubclass(member, Tensor)) or _nested_class(member, owner) is not None


def _refuse_tensor_marks(core: Any, marks: list[Any], shared: bool) -> None:
    if marks:
        raise WrongDeclaration(
            f"{_mark_text(marks[0])} on the type {type_name(core)}", "dtype and shape belong to a `Tensor` annotation"
        )
    if shared:
        raise WrongDeclaration(
            f"Shared[{type_name(core)}]", "`Shared` marks a tensor; a plain Python value is shared by the batch already"
        )


def _merged_spec(marks: Iterable[Any]) -> TensorSpec:
    """Merge the parts of an annotation about dtype and dims, in any order, into one spec."""
    dtypes: list[DTypeFamily] = []
    dims: list[Dims] = []
    for mark in marks:
        if isinstance(mark, TensorSpec):
            dtypes += [mark.dtype] if mark.dtype != Shaped else []
            dims += [mark.dims] if mark.dims is not None else []
        elif isinstance(mark, Shape):
            dims.append(mark.dims)
        else:
            dtypes.append(family_of(mark) if isinstance(mark, torch.dtype) else mark)
    if len(dtypes) > 1:
        raise WrongDeclaration(f"two dtypes: {dtypes[0]} and {dtypes[1]}", "declare the dtype once")
    if len(dims) > 1:
        raise WrongDeclaration(f'two shapes: "{dims[0]}" and "{dims[1]}"', "declare the shape once")
    return TensorSpec(dtypes[0] if dtypes else Shaped, dims[0] if dims else None)


def _is_jaxtyping(annotation: Any) -> bool:
    if not isinstance(annotation, type) or hasattr(annotation, "__tensor_collection__"):
        return False  # reading an attribute of a typed class may resolve it, which is in progress
    return all(hasattr(annotation, name) for name in ("dtypes", "dim_str", "array_type"))


def _jaxtyping_spec(annotation: Any) -> TensorSpec:
    array = annotation.array_type
    if array is not Any and not (isinstance(array, type) and issubclass(array, Tensor)):
        raise WrongDeclaration(f"the array type {type_name(array)}", "fields hold `Tensor`")
    try:
        return TensorSpec(_jaxtyping_family(annotation), parse_dims(annotation.dim_str))
    except ValueError as error:
        raise WrongDeclaration(f'the shape "{annotation.dim_str}"', str(error)) from None


def _jaxtyping_family(annotation: Any) -> DTypeFamily:
    """Our family for the dtypes of an annotation of jaxtyping."""
    dtypes = annotation.dtypes
    if not isinstance(dtypes, list | tuple):  # the marker of jaxtyping for any dtype
        return Shaped
    # By name first: `Float` of jaxtyping and ours differ in dtypes that only one of them knows.
    named = FAMILIES.get(getattr(getattr(annotation, "dtype", None), "__name__", ""))
    if named is not None:
        return named
    names = {str(name) for name in dtypes}
    known = [
        dtype for dtype in (Num.dtypes or frozenset()) | (Bool.dtypes or frozenset()) if dtype_name(dtype) in names
    ]
    if not known:
        raise WrongDeclaration(f"the dtypes {list(dtypes)}", "torch has none of them; take one of `tensorclass.typing`")
    return family_of(*known)


def _mark_text(mark: Any) -> str:
    return dtype_name(mark) if isinstance(mark, torch.dtype) else str(mark)
