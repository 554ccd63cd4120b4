"""Checks one value against one field.

A value that fits is returned in its stored form; else problems with hints are collected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .._deferred import pydantic
from .._dims import Bindings, Dims
from .._kinds import per_kind
from ..errors import Problem, SchemaError, TensorClassError, defined_again
from ._annotations import is_collection, is_tensorclass, missing_members
from ._constraints import broken_constraints, eager_only
from ._convert import Inexact, preferred_dtype, to_tensor
from ._dtypes import Float, TensorSpec, as_alike, family_of, is_ragged
from ._spec import EXACT, FieldSpec, FieldValidator, describe_tensor, short, type_name


@dataclass(frozen=True)
class Options:
    """The options of a class, as in `tensorclass`; `removed` as pairs."""

    frozen: bool = False
    nocast: bool = False
    autocast: bool = False
    tensor_only: bool = False
    shadow: bool = False
    validate: Literal["schema", "values", "off"] = "schema"
    removed: tuple[tuple[str, str], ...] = ()

    @property
    def conversion(self) -> str:
        """What happens to values of another type: "cast", "strict" or "exact"."""
        if self.autocast:
            return "cast"
        return "strict" if self.nocast else "exact"


DEFAULT_OPTIONS = Options()


class Checker:
    """Checks the fields of one instance in turn; dims of the same name are bound across fields.

    `source` tells messages where the batch size comes from.
    """

    def __init__(self, options: Options, batch_size: torch.Size = torch.Size(), source: str = "") -> None:  # noqa: B008  # immutable
        self.options = options
        self.batch_size = batch_size
        self.source = source
        self.bindings = Bindings()
        self.problems: list[Problem] = []

    def add(self, spec: FieldSpec, given: str, hint: str, path: str = "") -> None:
        """Add a problem of a field."""
        self.problems.append(Problem(path or spec.name, str(spec), given, hint))

    def coercion(self, spec: FieldSpec) -> str:
        """The conversion policy of a field: its own, or that of the class."""
        return self.options.conversion if spec.coerce is None else spec.coerce

    def convert(self, spec: FieldSpec, value: object) -> object:
        """Convert a number or numpy array to the declared tensor, if that is exact; return anything else unchanged."""
        for validator in spec.validators:
            if validator.before and value is not None and self.options.validate != "off":
                value = self._run(spec, validator, value)
        return self.convert_plainly(spec, value)

    def convert_plainly(self, spec: FieldSpec, value: object) -> object:
        """As `convert`, without the validators that run before it."""
        policy = self.coercion(spec)
        if spec.spec is None or value is None or (isinstance(value, Tensor) and policy != "cast"):
            return value
        if policy == "strict":
            return value
        if spec.kind.is_ragged:
            return self._convert_elements(spec, value)
        return self._converted(spec, value, None)

    def _converted(self, spec: FieldSpec, value: Any, refused: Any) -> Any:
        assert spec.spec is not None  # tensor fields have one
        try:
            converted = to_tensor(spec.spec, value, self.coercion(spec) == "cast")
        except Inexact as error:
            self.add(spec, describe(value), str(error))
            return refused
        return value if converted is None else converted

    def check(self, spec: FieldSpec, value: Any) -> object:
        """The value of a field in its stored form; problems are added to `problems`."""
        before = len(self.problems)
        stored = self._form_to_store(spec, value)
        if not spec.validators or self.options.validate == "off":
            return stored
        for validator in spec.validators:
            if stored is None or len(self.problems) > before:
                break
            if not validator.before:
                changed = self._run(spec, validator, stored)
                if changed is not stored and len(self.problems) == before:
                    stored = self._form_to_store(spec, self.convert_plainly(spec, changed))
        return stored

    def _run(self, spec: FieldSpec, validator: FieldValidator, value: object) -> object:
        """The result of a validator; its errors become problems."""
        try:
            result = validator.function(value)
        except (ValueError, AssertionError) as error:
            self.add(spec, describe(value), str(error) or f"`{validator.name}` refuses it")
            return value
        if result is None:
            self.add(spec, describe(value), f"the validator `{validator.name}` returned None: return the value")
            return value
        return result

    def _form_to_store(self, spec: FieldSpec, value: Any) -> object:
        if value is None and (spec.optional or (spec.annotation is Any and not spec.kind.is_per_element)):
            return None
        if value is None and not spec.kind.is_value and not spec.takes_none:
            self.add(spec, "None", f"pass a value, or {spec.optional_hint}")
            return None
        return _CHECKS[spec.kind](self, spec, value)

    # ---- tensors -------------------------------------------------------------------------------------------------

    def _tensor(self, spec: FieldSpec, value: Any) -> object:
        assert spec.spec is not None  # tensor fields have one
        if not isinstance(value, Tensor):
            self.add(spec, describe(value), _no_tensor_hint(spec.spec, value))
            return value
        off = self.options.validate == "off"
        if not off and not spec.spec.dtype.accepts(value.dtype):
            self.add(spec, describe_tensor(value), dtype_hint(spec.spec, value.dtype))
        batch = torch.Size() if spec.kind.is_shared else self.batch_size
        if self._shape(spec, value, batch, off) and self.options.validate == "values":
            self._values(spec, value, len(batch))
        return value

    def _shape(self, spec: FieldSpec, value: Tensor, batch: torch.Size, off: bool) -> bool:
        """Whether a tensor has its batch dims and fits its declared dims, which are bound; adds the problems."""
        assert spec.spec is not None  # tensor fields have one
        dims, count = spec.spec.dims, len(batch)
        if off or dims is None:
            return self._batch(spec, value.shape, batch, describe_tensor(value))
        event = value.ndim - count
        if event < dims.min_rank or (dims.rank is not None and event > dims.rank):
            self.add(spec, describe_tensor(value), self._rank_hint(spec, spec.spec, value, batch))
            return False
        if not self._batch(spec, value.shape, batch, describe_tensor(value)):
            return False
        found = self.bindings.bind(
            spec.name, dims, value.shape[count:], batch_dims=count, declared=str(spec), given=describe_tensor(value)
        )
        self.problems += found
        return not found

    def _batch(self, spec: FieldSpec, shape: Sequence[int], batch: torch.Size, given: str) -> bool:
        if tuple(shape[: len(batch)]) == tuple(batch):
            return True
        hint = f"the batch size is {list(batch)}{self.source}, here {list(shape[: len(batch)])}"
        if spec.kind.is_batched and spec.dims is None:
            hint += "; a tensor without batch dims is declared `Shared[...]`"
        self.add(spec, given, hint)
        return False

    def _rank_hint(self, spec: FieldSpec, declared: TensorSpec, value: Tensor, batch: torch.Size) -> str:
        dims = declared.dims
        assert dims is not None  # a rank is declared
        count = f"{len(batch) + dims.min_rank}" + (" or more" if dims.rank is None else "")
        event = f'the event dims are "{dims}"' if len(dims) else "every element is a scalar"
        size = f"the batch size is {list(batch)}{self.source}"
        size = "a shared tensor has no batch dims" if spec.kind.is_shared else size
        text = f"{size} and {event}: {count} dims are expected, {value.ndim} given"
        mend = _mend_rank(declared, value, batch)
        return f"{text}\n{mend}" if mend else text

    def _values(self, spec: FieldSpec, value: Tensor, start: int, path: str = "") -> None:
        for hint in broken_constraints(spec.metadata, value, start, spec.name):
            self.add(spec, describe_tensor(value), hint, path)

    # ---- one length per element ----------------------------------------------------------------------------------

    def _convert_elements(self, spec: FieldSpec, value: Any, above: int | None = None) -> Any:
        """Convert arrays in nested lists to tensors.

        With `autocast`, also convert lists of numbers, and the dtype of tensors.
        """
        if isinstance(value, list | tuple):
            if self.coercion(spec) != "cast" and all([type(part) is Tensor for part in value]):
                return value  # the usual case, with many elements
            if above is None:  # an element of `n` dims is a list of `n` levels
                cast = self.coercion(spec) == "cast" and spec.dims is not None
                above = _levels(value) - len(spec.dims.tokens) if cast and spec.dims is not None else -1
            if above:
                return [self._convert_elements(spec, part, above - 1) for part in value]
            return self._converted(spec, value, value)
        if not isinstance(value, np.ndarray | Tensor) or (isinstance(value, Tensor) and value.is_nested):
            return value
        return self._converted(spec, value, value)

    def _check_ragged(self, spec: FieldSpec, value: Any) -> object:
        """Check the batch shape of a ragged value, then dtype and event shape, once for each kind of element."""
        assert spec.spec is not None  # tensor fields have one
        if is_ragged(type(value)):
            self._check_ragged_tensor(spec, value)
            return value
        found: dict[str, Tensor] = {}
        if isinstance(value, Tensor) and value.is_nested:
            value = list(value.unbind())
        valued = self.options.validate == "values" and spec.metadata
        same = None if valued else as_alike(value, self.batch_size)
        if same is not None:
            found[f"{spec.name}[0]"] = same[0]
        if same is not None or self._collect(spec, value, self.batch_size, spec.name, found):
            if spec.spec.dims is not None and self.options.validate != "off":
                lengths = [element.size(0) for element in found.values()] if same is None else same.lengths
                self.bindings.bind_elements(spec.name, spec.spec.dims, self.batch_size, lengths, str(spec))
            self._element_kinds(spec, found, found)
        return value if same is None or spec.validators else same

    def _check_ragged_tensor(self, spec: FieldSpec, value: Any) -> None:
        found: dict[str, Tensor] = {}
        if len(value.shape) > len(self.batch_size):
            hint = f"the batch size is {list(self.batch_size)}{self.source}, here {list(value.shape)}"
            self.add(spec, describe(value), hint)
        elif self._batch(spec, value.shape, self.batch_size, describe(value)):
            if self.options.validate != "off":
                bind_lengths(self.bindings, spec, value)
            if self.options.validate == "values" and spec.metadata:
                self._collect(spec, value.tolist(), self.batch_size, spec.name, found)
            self._element_kinds(spec, {spec.name: value.values}, found)

    def _collect(self, spec: FieldSpec, value: Any, shape: Sequence[int], path: str, found: dict[str, Tensor]) -> bool:
        """Collect the tensors in nested lists of the batch shape, by path; False if there are other values."""
        if not shape:
            if isinstance(value, Tensor) and value.ndim and not value.is_nested:
                found[path] = value
                return True
            lists = isinstance(value, list | tuple)
            way = "; make each a tensor, or give the class the option `autocast=True`" if lists else ""
            self.add(spec, describe(value), f"an element is a tensor: {ragged_hint(spec)}{way}", path)
            return False
        if isinstance(value, Tensor):
            hint = f"pass a list of {shape[0]} tensors, or what is padded as `RaggedTensor.unpad(value, lengths)`"
            self.add(spec, describe(value), hint, path)
            return False
        if not isinstance(value, list | tuple) or len(value) != shape[0]:
            count = f"{len(value)} entries" if isinstance(value, list | tuple) else describe(value)
            batch = f"the batch size is {list(self.batch_size)}{self.source}"
            self.add(spec, count, f"{batch}: pass {shape[0]} here, {ragged_hint(spec)}", path)
            return False
        good, inner = True, shape[1:]
        for i, part in enumerate(value):
            here = f"{path}[{i}]"
            if not inner and type(part) is Tensor and part.ndim and not part.is_nested:  # without a call for each
                found[here] = part
            else:
                good = self._collect(spec, part, inner, here, found) and good
        return good

    def _element_kinds(self, spec: FieldSpec, tables: dict[str, Tensor], elements: dict[str, Tensor]) -> None:
        """Check each dtype and event shape of the tables once, and the values of every element."""
        assert spec.spec is not None  # tensor fields have one
        if self.options.validate == "off":
            return
        kinds: dict[Any, tuple[str, Tensor]] = {}
        for path, value in tables.items():
            kinds.setdefault((value.dtype, value.shape[1:], value.device), (path, value))
        first = next(iter(kinds.values()), None)
        for path, value in kinds.values():
            before = len(self.problems)
            self._ragged_element(spec, spec.spec, path, value)
            if first is not None and value is not first[1] and len(self.problems) == before:
                other = f"`{first[0]}` is {describe_tensor(first[1])} on {first[1].device}"
                given = f"{describe_tensor(value)} on {value.device}"
                self.add(spec, given, f"elements differ only in length, and {other}", path)
        if self.options.validate == "values":
            for path, value in elements.items():
                self._values(spec, value, 0, path)

    def _ragged_element(self, spec: FieldSpec, declared: TensorSpec, path: str, value: Tensor) -> None:
        if not declared.dtype.accepts(value.dtype):
            self.add(spec, describe_tensor(value), dtype_hint(declared, value.dtype), path)
        if declared.dims is not None:
            rest, given = Dims(declared.dims.tokens[1:]), describe_tensor(value)
            found = self.bindings.bind(spec.name, rest, value.shape[1:], declared=str(spec), given=given)
            whole = not self.batch_size and value.ndim > len(declared.dims.tokens)
            self.problems += [p._replace(path=path, hint=_hint_of_element(spec, p.hint, whole)) for p in found]

    # ---- containers ----------------------------------------------------------------------------------------------

    def _container(self, spec: FieldSpec, value: Any) -> Any:
        """With `autocast`, convert a mapping or container to the declared class; None if that fails."""
        make = getattr(spec.nested, "_from_object", None)
        held = isinstance(value, Mapping) or is_collection(type(value)) or is_tensorclass(type(value))
        if make is not None and not held:
            return self._make_nested(spec, make, value)
        plain = isinstance(value, Mapping) and not is_collection(type(value))
        other: Any = spec.nested if spec.kind.is_nested else spec.annotation
        if not hasattr(other, "from_dict") or self.coercion(spec) != "cast" or is_tensorclass(type(value)):
            return value
        if not (plain or (spec.kind.is_nested and is_collection(type(value)))):
            return value
        eager_only(f"`{spec.name}`: autocast makes a {type_name(other)} of it")
        try:
            return build_container(other, value, self.batch_size)
        except SchemaError as error:
            self.problems += [found._replace(path=f"{spec.name}.{found.path}") for found in error.problems]
        except TensorClassError as error:
            self.add(spec, describe(value), str(error))
        return None

    def _make_nested(self, spec: FieldSpec, make: Callable[..., Any], value: Any) -> Any:
        """An instance of a nested class that accepts objects of another type, such as `Dist[Normal]`."""
        try:
            return make(value, self.batch_size)
        except SchemaError as error:
            self.add(spec, describe(value), str(error))
            return None

    def _check_nested(self, spec: FieldSpec, value: Any) -> object:
        """A nested instance whose class and batch size fit; None after a problem."""
        value = self._container(spec, value)
        if value is None:
            return None
        if spec.nested is None or isinstance(value, spec.nested):
            self._batch(spec, value.batch_size, self.batch_size, describe(value))
            return value
        name = spec.nested.__name__
        hint = defined_again(type(value), spec.nested) or f"pass a `{name}`"
        if isinstance(value, dict):
            hint = f"build it: `{name}(**value)`"
        elif is_collection(type(value)):
            hint = f"wrap it: `{name}.from_tensordict(value)`"
        self.add(spec, describe(value), hint)
        return value

    def _collection(self, spec: FieldSpec, value: Any) -> object:
        value = self._container(spec, value)
        if value is None:
            return None
        if is_collection(type(value)) or (is_tensorclass(type(value)) and isinstance(value, spec.annotation)):
            self._batch(spec, value.batch_size, self.batch_size, describe(value))
        elif is_tensorclass(type(value)):
            self.add(spec, describe(value), f"convert it with `.to_tensordict()`, or declare `{type(value).__name__}`")
        else:
            batch = list(self.batch_size)
            self.add(spec, describe(value), f"pass a container: `TensorDict(value, batch_size={batch})`")
        return value

    def _interface(self, spec: FieldSpec, value: Any) -> object:
        """Check that an object implements a Protocol or an abstract class; check the batch dims of a typed instance."""
        if spec.annotation is Any:
            return value
        missing = missing_members(value, spec.annotation)
        if missing:
            self.add(
                spec, describe(value), f"pass a {type_name(spec.annotation)}; this one has no {', '.join(missing)}"
            )
        elif is_tensorclass(type(value)) or is_collection(type(value)):
            self._batch(spec, value.batch_size, self.batch_size, describe(value))
        return value

    # ---- Python values -------------------------------------------------------------------------------------------

    def _value(self, spec: FieldSpec, value: Any) -> object:
        if self.options.validate == "off":
            return value
        if isinstance(value, Tensor):
            if not (self.coercion(spec) == "cast" and value.numel() == 1):
                self._tensor_as_value(spec, value)
                return value
            value = value.item()
        return self._validate_object(spec, value, spec.name)

    def _validate_object(self, spec: FieldSpec, value: Any, path: str) -> object:
        """A Python value, validated by pydantic."""
        if type(value) is spec.annotation and type(value) in EXACT and not spec.metadata:
            return value
        eager_only(f"`{spec.name}`: {spec.type_text} is checked by pydantic")
        try:
            return spec.adapter.validate_python(value, strict=False if self.coercion(spec) == "cast" else None)
        except pydantic.ValidationError as error:
            self.refused(spec, error, path)
        return value

    def _tensor_as_value(self, spec: FieldSpec, value: Tensor) -> None:
        if spec.adapter_accepts(value):
            return
        family = family_of(value.dtype)
        hint = "take the number with `.item()`, or " if value.numel() == 1 else ""
        self.add(spec, f"tensor {describe_tensor(value)}", f'{hint}declare a tensor: `{family}[Tensor, "..."]`')

    def refused(self, spec: FieldSpec, error: pydantic.ValidationError, path: str) -> None:
        """Add the errors of pydantic for a value as problems."""
        for entry in error.errors(include_url=False, include_context=False)[:5]:
            where = "".join(f"[{part!r}]" if isinstance(part, int) else f".{part}" for part in entry["loc"])
            hint = entry["msg"][:1].lower() + entry["msg"][1:]
            if spec.kind.is_value and isinstance(entry["input"], list) and not where:
                hint += f"; for one value per element declare `PerElement[{spec.type_text}]`"
            given = entry["input"]
            if spec.kind.is_per_element and isinstance(given, list) and not self.batch_size and not where:
                hint += f"; no field tells the batch size: for one value per element pass batch_size=[{len(given)}]"
            self.add(spec, describe(entry["input"]), hint, path + where)

    def _per_element(self, spec: FieldSpec, value: Any) -> object:
        """The checked value of a field with one object for each element."""
        if is_stack(value):
            if tuple(value.batch_size) != tuple(self.batch_size):
                hint = f"the batch size is {list(self.batch_size)}{self.source}, here {list(value.batch_size)}"
                self.add(spec, describe(value), hint)
            elif self.options.validate != "off":
                self._elements(spec, value.tolist(), self.batch_size, spec.name)
            return value
        cast = self.coercion(spec) == "cast" and self.options.validate != "off"
        if cast and isinstance(value, Tensor | np.ndarray) and not spec.adapter_accepts(value):
            value = value.tolist()
        if isinstance(value, Tensor):
            self.add(
                spec, f"tensor {describe_tensor(value)}", "pass nested lists: `value.tolist()`, or declare a tensor"
            )
            return value
        if isinstance(value, tuple) and self.batch_size:
            # A tuple may be one value of the element type; only otherwise it is a list of values.
            value = spread(value, self.batch_size) if spec.adapter_accepts(value) else list(value)
        return self._elements(spec, value, self.batch_size if isinstance(value, list) else torch.Size(), spec.name)

    def _elements(self, spec: FieldSpec, value: Any, shape: Sequence[int], path: str) -> Any:
        if not shape:
            return self._element(spec, value, path)
        if not isinstance(value, list | tuple) or len(value) != shape[0]:
            count = f"{len(value)} values" if isinstance(value, list | tuple) else describe(value)
            batch = f"the batch size is {list(self.batch_size)}{self.source}"
            self.add(spec, count, f"{batch}: pass {shape[0]} values here, or one value for all elements", path)
            return value
        if len(shape) == 1 and self._all_plain(spec, value):
            return list(value)
        return [self._elements(spec, part, shape[1:], f"{path}[{i}]") for i, part in enumerate(value)]

    def _all_plain(self, spec: FieldSpec, values: Sequence[Any]) -> bool:
        """Whether all values have the declared class itself, and it has no constraints."""
        kind = spec.annotation
        return kind in EXACT and not spec.metadata and {*map(type, values)} == {kind}

    def _element(self, spec: FieldSpec, value: Any, path: str) -> Any:
        unread = self.options.validate == "off" or len(self.problems) > 20
        return value if unread else self._validate_object(spec, value, path)


_CHECKS = per_kind(
    tensor=Checker._tensor,
    shared=Checker._tensor,
    ragged=Checker._check_ragged,
    nested=Checker._check_nested,
    collection=Checker._collection,
    value=Checker._value,
    per_element=Checker._per_element,
    any=Checker._interface,
)
"""The checks of a field of each kind; each returns the value in its stored form."""


def build_container(cls: Any, value: Any, batch_size: Sequence[int]) -> Any:
    """Convert a mapping or container to the declared class of a field."""
    if is_tensorclass(cls) and is_collection(type(value)):
        return cls.from_tensordict(value)
    return cls.from_dict(value, batch_size=batch_size)


def bind_lengths(bindings: Bindings, spec: FieldSpec, value: Any) -> None:
    """Bind the first dim of a ragged field, so that it is compared with dims of the same name in each element."""

    def read() -> list[int] | None:
        eager_only(f"`{spec.name}`: its lengths are compared")
        lengths = value.lengths
        if type(lengths) is not Tensor:  # the values of a fake tensor are unknown
            return None
        try:
            found: list[int] = lengths.flatten().tolist()
        except RuntimeError:  # under vmap, or on the meta device
            return None
        return found

    if spec.dims is not None:
        bindings.bind_elements(spec.name, spec.dims, value.shape, read, str(spec))


def _levels(value: Any) -> int:
    """The nesting depth of lists of numbers; -1 if they contain tensors or other values."""
    if not isinstance(value, list | tuple):
        return 0 if isinstance(value, int | float) else -99
    return 1 + max(map(_levels, value), default=0)


def ragged_hint(spec: FieldSpec) -> str:
    """Describe one element of a ragged field."""
    return f'one tensor of the shape "{spec.dims}" for each element' if spec.dims else "one tensor for each element"


def _hint_of_element(spec: FieldSpec, hint: str, whole: bool) -> str:
    """Where an element differs from its declaration; with `whole`, one that may be a padded batch."""
    assert spec.dims is not None  # the caller has checked this
    if whole:
        ways = "pass what is padded as `RaggedTensor.unpad(value, lengths)`, other batches as a list of tensors"
        return f'a tensor without a batch size is one element of the shape "{spec.dims}": {ways}'
    return f"behind `{spec.dims.tokens[0]}`, which differs from element to element: {hint}"


def is_stack(value: object) -> bool:
    """Whether a value already holds one object per element."""
    plain = not isinstance(value, Tensor) and not is_tensorclass(type(value)) and not is_collection(type(value))
    return plain and hasattr(value, "batch_size") and hasattr(value, "tolist")


def spread(value: object, shape: Sequence[int]) -> Any:
    """One value as nested lists of a shape."""
    return [spread(value, shape[1:]) for _ in range(shape[0])] if shape else value


def describe(value: object) -> str:
    """Describe a value in a message: its type and its content."""
    if value is None:
        return "None"
    if isinstance(value, Tensor):
        return f"tensor {describe_tensor(value)}"
    batch_size = getattr(value, "batch_size", None)
    if batch_size is not None:
        return f"{type(value).__name__} of batch size {list(batch_size)}"
    return f"{type_name(type(value))} {short(value)}"


def dtype_hint(spec: TensorSpec, dtype: torch.dtype) -> str:
    """The hint for a tensor of another dtype."""
    target, given = preferred_dtype(spec.dtype), family_of(dtype)
    hint = f"convert with `.to({target})`" if target is not None else f"pass a tensor of {spec.dtype}"
    if given.is_within(Float) and spec.dtype.is_within(Float):
        return f"{hint}, declare `{given}[...]`, or the family `Float[...]` for any of them"
    return f"{hint} or declare `{given}[...]`"


def _no_tensor_hint(spec: TensorSpec, value: object) -> str:
    """The hint for a Python value where a tensor is declared."""
    if isinstance(value, Mapping):
        return (
            "for a mapping with all fields write `Cls.from_dict(value)`, for several `Cls.from_rows(rows)`; "
            "else pass a tensor"
        )
    if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        return "for rows, one mapping for each element, write `Cls.from_rows(rows)`; else pass a tensor"
    if isinstance(value, list | tuple):
        if value and all([isinstance(part, Tensor) and part.ndim for part in value]):
            if all([part.shape == value[0].shape for part in value]):
                return "make a tensor: `torch.stack(value)`"
            return 'tensors of different shapes are a field `Ragged[Tensor, "n ..."]`, or are padded to one shape first'
        dtype = preferred_dtype(spec.dtype)
        return f"make a tensor: `torch.tensor(value{'' if dtype is None else f', dtype={dtype}'})`"
    if hasattr(value, "batch_size"):
        return f"a tensor is declared; for a container declare `{type(value).__name__}`"
    return f"pass a tensor, or declare `{type_name(type(value))}` for a Python value"


def _mend_rank(spec: TensorSpec, value: Tensor, batch: torch.Size) -> str:
    """The call that gives a tensor the declared rank, if there is one."""
    dims = spec.dims
    if dims is None or dims.rank is None:
        return ""
    shape, full = tuple(value.shape), len(batch) + dims.rank
    batched = shape[: len(batch)] == tuple(batch)  # then an event dim is missing
    if value.ndim == dims.rank and batch and not batched and not Bindings().bind("", dims, shape):
        sizes = ", ".join(map(str, (*batch, *shape)))
        number = "" if shape else f", a number with `torch.full(({sizes},), value)`"
        return f"it has no batch dims: spread it with `.expand({sizes})`{number}, or declare `Shared[...]`"
    if value.ndim == full - 1:
        places = range(len(batch), full)
        return _first_fit("unsqueeze", ((i, (*shape[:i], 1, *shape[i:])) for i in places), dims, batch)
    if value.ndim == full + 1:
        ones = (i for i in range(len(batch), value.ndim) if shape[i] == 1)
        return _first_fit("squeeze", ((i, (*shape[:i], *shape[i + 1 :])) for i in ones), dims, batch)
    return ""


def _first_fit(method: str, candidates: Any, dims: Any, batch: torch.Size) -> str:
    for place, shape in candidates:
        if shape[: len(batch)] == tuple(batch) and not Bindings().bind("", dims, shape[len(batch) :]):
            return f"`.{method}({place})` would fit"
    return ""
