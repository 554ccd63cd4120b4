"""Typed batches as JSON types and back: one writer and one reader for each kind of field.

Input is not trusted: problems are collected with their paths, and no allocation is larger than the text warrants.
`tensorclass._schema._json` has the form of one tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from .._deferred import pydantic, pydantic_core
from .._kinds import Kind, per_kind
from .._schema import MISSING, Checker, DTypeFamily, FieldSpec, Schema, infer_batch_size, migrate
from .._schema._convert import Inexact
from .._schema._dtypes import Shaped
from .._schema._json import (
    decode,
    encode,
    encode_lists,
    from_object,
    is_tensor_object,
    refuse_literals,
    refuse_overflow,
    spell,
)
from .._schema._spec import short
from ..core import BATCHED, TensorCollection, check_names, without_stack
from ..errors import ArgumentError, Problem, SchemaError, UnsupportedOperationError
from ..store import Node, NonTensorData, NonTensorStack, RaggedTensor, TensorDict, Unbatched
from ._build import complete
from ._convert import from_nesting

PLAIN: tuple[Any, ...] = (str, int, float, bool)
"""Types that JSON can represent."""
JSON_KINDS = (dict, list, str, tuple)
"""Types of values that are read as tensors; the checks of the class handle numbers."""
FREE = 1024
"""The largest number of elements of a batch size over which defaults are spread, if no field holds that many."""


# ---- out ---------------------------------------------------------------------------------------------------------


def dump(batch: Any, lists: bool = False) -> dict[str, Any]:
    """Convert an instance to JSON types, with its batch size; tensors as base64, or as nested lists.

    Raises:
        SchemaError: for values that JSON can't hold; names their fields.
    """
    batch = without_stack(batch)
    cls, store = type(batch), batch._store
    entries: Mapping[str, Any] = batch._live() if cls.__tensorclass__.nested else store._live()
    found: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, spec in cls.__tensorclass_schema__.fields.items():
        value, kind = entries.get(name), spec.kind
        try:
            if value is None:
                if name in entries or (spec.optional and not spec.produced):
                    found[name] = None
            elif kind.is_batched:
                found[name] = encode_lists(value, spec.dtype) if lists else encode(value)
            else:
                found[name] = _OUT[kind](spec, value, lists)
        except (pydantic_core.PydanticSerializationError, NotImplementedError, ValueError) as error:
            if isinstance(error, SchemaError):
                problems += [problem._replace(path=f"{name}.{problem.path}") for problem in error.problems]
                continue
            hint = f"JSON can't hold it ({error}); leave it out: `batch.replace({name}=...)`, or declare another type"
            problems.append(Problem(name, str(spec), short(value), hint))
    if problems:
        raise SchemaError.of(cls.__name__, problems)
    return _with_batch_size(found, store)


def _with_batch_size(found: dict[str, Any], batch: Any) -> dict[str, Any]:
    """Entries, with the batch size and dim names of their container."""
    found["batch_size"] = [*batch._batch_size]
    if batch._names is not None:
        found["names"] = list(batch._names)
    return found


def _tensor_out(value: Tensor, family: DTypeFamily | None, lists: bool) -> Any:
    return encode_lists(value, family) if lists else encode(value)


def _shared_out(spec: FieldSpec, value: Any, lists: bool) -> Any:
    return _tensor_out(value.tensor, spec.dtype, lists)


def _ragged_out(spec: FieldSpec, value: Any, lists: bool) -> Any:
    if lists:
        return _map(value.tolist(), len(value.shape), lambda element, _: encode_lists(element, spec.dtype))
    return {"lengths": value.lengths.tolist(), "values": encode(value.values)}


def _per_element_out(spec: FieldSpec, value: Any, lists: bool) -> Any:
    return _map(value.tolist(), len(value.shape), lambda element, _: _value_out(spec, element, lists))


def _value_out(spec: FieldSpec, value: Any, lists: bool) -> Any:
    return spell(value) if type(value) in PLAIN else spec.adapter.dump_python(value, mode="json")


def _any_out(spec: FieldSpec, value: Any, lists: bool) -> Any:
    if isinstance(value, Tensor):
        return _tensor_out(value, None, lists)
    if isinstance(value, (TensorCollection, Node)):
        return _entry_out(value, lists)
    return pydantic_core.to_jsonable_python(value, inf_nan_mode="strings")


def _entry_out(value: Any, lists: bool) -> Any:
    """An entry of an untyped container, in a form that records its kind."""
    if isinstance(value, Tensor):
        return _tensor_out(value, None, lists)
    if isinstance(value, TensorCollection):
        value = without_stack(value)
        return _with_batch_size(
            {"entries": {key: _entry_out(entry, lists) for key, entry in value._entries().items()}}, value
        )
    if isinstance(value, Unbatched):
        return {"shared": _tensor_out(value.tensor, None, lists)}
    if isinstance(value, RaggedTensor):
        raise UnsupportedOperationError("a ragged entry of an untyped container")
    listed = getattr(value, "tolist", None) if isinstance(value, Node) else None
    plain = value if listed is None else listed()
    key = "objects" if isinstance(value, NonTensorStack) else "value"
    return {key: pydantic_core.to_jsonable_python(plain, inf_nan_mode="strings")}


_OUT: Mapping[Kind, Callable[[FieldSpec, Any, bool], Any]] = per_kind(
    tensor=_any_out,
    shared=_shared_out,
    ragged=_ragged_out,
    nested=lambda spec, value, lists: dump(value, lists),
    collection=lambda spec, value, lists: _entry_out(value, lists),
    value=_value_out,
    per_element=_per_element_out,
    any=_any_out,
)


def _map(value: Any, depth: int, function: Callable[[Any, str], Any], path: str = "") -> Any:
    """Map a function over the elements of nested lists; it gets each element with its position, such as `[0][2]`."""
    if not depth or not isinstance(value, list | tuple):
        return function(value, path)
    return [_map(part, depth - 1, function, f"{path}[{i}]") for i, part in enumerate(value)]


# ---- in ----------------------------------------------------------------------------------------------------------


def load(cls: Any, given: Any, json: bool = True) -> Any:
    """Make an instance from JSON types, or from a mapping that also holds tensors.

    Args:
        cls: The class; `batch_size` and `names` of the mapping are those of the instance.
        given: The mapping.
        json: Whether Python values are in JSON form, in which a date is a string and a tuple a list.

    Raises:
        SchemaError: lists all problems, each with its path.
    """
    try:
        return _load(cls, given, json)
    except RecursionError:
        problem = Problem(cls.__name__, "an object", short(type(given)), "it contains itself, or is nested too deeply")
        raise SchemaError.of(cls.__name__, [problem]) from None


def _load(cls: Any, given: Any, json: bool) -> Any:
    if type(given) is dict and cls.__tensorclass__.quick is not None:
        quick = _quick(cls, given, json)
        if quick is not None:
            return quick
    if not isinstance(given, Mapping) or not all([isinstance(key, str) for key in given]):
        problem = Problem(cls.__name__, "an object with a key for each field", short(given), "pass a JSON object")
        raise SchemaError.of(cls.__name__, [problem])
    complete(cls)
    return _Reader(cls, json).read(dict(given))


def _quick(cls: Any, given: Mapping[str, Any], json: bool) -> Any:
    """Make an instance of a class of plain tensors through its constructor; None if a value needs the full reader."""
    families = cls.__tensorclass__.quick
    values: dict[str, Any] = {}
    try:
        for name, value in given.items():
            if name == "batch_size":
                values[name] = None if value is None else _size_of(value)
            elif name not in families:
                return None
            elif type(value) is dict:
                values[name] = from_object(value, json)
            elif type(value) is list:
                values[name] = decode(value, families[name], json=json)
            else:
                return None
    except Inexact:
        return None
    return cls(**values)


def _size_of(given: Any) -> torch.Size:
    """A batch size from JSON types.

    Raises:
        Inexact: if it is not a batch size.
    """
    if isinstance(given, torch.Size):
        return given
    if isinstance(given, list | tuple):
        for n in given:
            if type(n) is not int or not 0 <= n < 2**63:
                break
        else:
            return torch.Size(given)
    raise Inexact("write it as [32]")


class _Reader:
    """Reads one instance. Its problems are collected, and reported together with those of the class."""

    def __init__(self, cls: Any, json: bool) -> None:
        self.cls = cls
        self.json = json
        self.schema: Schema = cls.__tensorclass_schema__
        self.checker = Checker(cls.__tensorclass_options__)

    def read(self, values: dict[str, Any]) -> Any:
        """An instance from the values of an object of JSON; problems are collected."""
        names = values.pop("names", None)
        size = self._size(values.pop("batch_size", None))
        fields = self.schema.fields
        values = migrate(values, self.schema)
        later, known = [], names is None
        for name, value in values.items():
            spec = fields.get(name)
            if spec is None:
                known = False
            elif value is None:
                continue
            elif (read := _EARLY[spec.kind]) is None:
                later.append(spec)
            else:
                values[name] = read(self, spec, value)
        for spec in later:
            values[spec.name] = self._late(spec, values, size)
        self._check_backing(values, size)
        return self._finish(values, size, names, known)

    def _finish(self, values: dict[str, Any], size: torch.Size | None, names: Any, known: bool) -> Any:
        problems, cls = self.checker.problems, self.cls
        if known and not problems and cls.__tensorclass__.direct:
            return cls(**values, batch_size=size)
        new = from_nesting(cls, values, size, None, None, problems)
        if names is not None:
            self._name(new, names)
        return new

    def _name(self, new: Any, names: Any) -> None:
        try:
            new._store._names = check_names(names, len(new._batch_size))
        except (ValueError, TypeError, RuntimeError) as error:
            problem = Problem("names", "a name or null for each batch dim", short(names), str(error))
            raise SchemaError.of(self.cls.__name__, [problem]) from None

    def _note(self, spec: FieldSpec, value: Any, hint: str, path: str = "") -> None:
        given = f"an object with {', '.join(map(str, value))}" if isinstance(value, dict) else short(value)
        self.checker.add(spec, given, hint, path)

    def _size(self, given: Any) -> torch.Size | None:
        try:
            return None if given is None else _size_of(given)
        except Inexact as error:
            self.checker.problems.append(Problem("batch_size", "a list of sizes", short(given), str(error)))
            return None

    def _check_backing(self, values: Mapping[str, Any], size: torch.Size | None) -> None:
        """Refuse a large batch size for spread defaults, unless a field has it: a short text must not allocate much."""
        spread = [spec for spec in self.cls.__tensorclass__.spread if _is_spread(spec, values.get(spec.name, MISSING))]
        if not spread or self.checker.problems:
            return
        count = math.prod(self._batch(values) if size is None else size)
        if count > FREE and not any(_elements(value) >= count for value in values.values()):
            hint = f"no field has the {count} elements of the batch size; give `{spread[0].name}` for each element"
            problem = Problem("batch_size", "the size of the data", str(count), hint)
            raise SchemaError.of(self.cls.__name__, [problem])

    def _batch(self, values: Mapping[str, Any]) -> torch.Size:
        present = {name: value for name, value in values.items() if name in self.schema.fields}
        return infer_batch_size(self.schema, present)[0]

    # ---- kinds of fields -----------------------------------------------------------------------------------------

    def _tensor(self, spec: FieldSpec, value: Any, path: str = "") -> Any:
        try:
            if type(value) is dict:
                return from_object(value, self.json)
            assert spec.spec is not None  # tensor fields have one
            return decode(value, spec.spec.dtype, self.checker.coercion(spec) == "cast", self.json)
        except Inexact as error:
            self._note(spec, value, str(error), path)
            return None

    def _ragged(self, spec: FieldSpec, value: Any, size: torch.Size | None) -> Any:
        """Ragged elements from nested lists, or from an object of `lengths` and `values`."""
        if isinstance(value, list):
            depth = _element_depth(spec, value) if size is None else len(size)
            return _map(value, depth, lambda part, at: self._element(spec, part, at))
        if not (isinstance(value, dict) and value.keys() == {"lengths", "values"}):
            return value
        table, lengths = self._tensor(spec, value["values"]), value["lengths"]
        flat: list[Any] = []
        shape = _shape_of(lengths)
        _map(lengths, len(shape), lambda length, _: flat.append(length))
        if table is None:
            return None
        sized = len(flat) == math.prod(shape) and all([type(length) is int and length >= 0 for length in flat])
        if not sized or not table.ndim or sum(flat) != table.shape[0]:
            self._note(
                spec, value, "`lengths` are numbers from 0 in the batch shape that add up to the size of `values`"
            )
            return None
        if size is not None and not (flat or size.numel()) and shape == size[: len(shape)]:
            shape = size  # empty lists end at the first dim of size 0
        sizes = torch.tensor(flat, dtype=torch.int64).reshape(shape)
        starts = sizes.flatten().cumsum(0).reshape(shape) - sizes
        return RaggedTensor._of(table, torch.stack([starts, sizes], -1), True)

    def _element(self, spec: FieldSpec, value: Any, at: str) -> Any:
        return value if isinstance(value, Tensor) else self._tensor(spec, value, spec.name + at)

    def _dense(self, spec: FieldSpec, value: Any) -> Any:
        """A tensor of JSON values; other values stay as they are, and are checked later."""
        listed = type(value) in JSON_KINDS or (self.json and type(value) is float and not math.isfinite(value))
        return self._tensor(spec, value) if listed else value

    def _nested(self, spec: FieldSpec, value: Any) -> Any:
        """A nested instance; its problems are those of the field. None after a problem."""
        nested: Any = spec.nested
        if isinstance(value, nested) or not isinstance(value, Mapping | TensorCollection):
            return value
        try:
            adopted = isinstance(value, TensorCollection)
            return nested.from_tensordict(value) if adopted else _load(nested, value, self.json)
        except SchemaError as error:
            own = nested.__name__
            self.checker.problems += [
                problem._replace(path=spec.name if problem.path == own else f"{spec.name}.{problem.path}")
                for problem in error.problems
            ]
            return None

    def _collection(self, spec: FieldSpec, value: Any) -> Any:
        if not isinstance(value, dict) or "entries" not in value:
            return value
        try:
            return _entry_in(value, torch.Size())
        except (Inexact, ValueError, TypeError, KeyError, RuntimeError, AttributeError) as error:
            self._note(spec, value, f"{type(error).__name__}: {error}")
            return None

    def _any(self, spec: FieldSpec, value: Any) -> Any:
        return self._collection(spec, value) if not is_tensor_object(value) else self._tensor_of_any(spec, value)

    def _tensor_of_any(self, spec: FieldSpec, value: Any) -> Any:
        try:
            return decode(value, Shaped)
        except Inexact:
            return value  # a mapping that only has these keys by chance

    def _late(self, spec: FieldSpec, values: Mapping[str, Any], size: torch.Size | None) -> Any:
        """Fields that nest by batch dims, read after the other fields have determined the batch size."""
        value = values[spec.name]
        if spec.kind.is_value:
            return self._value(spec, value, spec.name)
        if spec.kind.is_ragged:
            return self._ragged(spec, value, size)
        if isinstance(value, Node | Tensor):
            return value
        depth = len(self._batch(values) if size is None else size)
        return _map(value, depth, lambda element, at: self._value(spec, element, spec.name + at))

    def _value(self, spec: FieldSpec, value: Any, path: str) -> Any:
        """Validate a Python value with pydantic: with conversions, unless the field is strict."""
        if self.json and type(value) in (float, list, dict):
            try:
                refuse_literals(value)
            except Inexact as error:
                self._note(spec, value, str(error), path)
                return None
        if type(value) is spec.annotation and type(value) in PLAIN:
            return value
        strict = self.checker.coercion(spec) == "strict"
        try:
            if self.json:
                found = spec.adapter.validate_json(pydantic_core.to_json(value), strict=strict)
                if type(value) in (int, list, dict):
                    refuse_overflow(value, found)
                return found
            return spec.adapter.validate_python(value, strict=strict)
        except pydantic.ValidationError as error:
            if not self.json and isinstance(value, str) and not strict:
                with suppress(pydantic.ValidationError):  # a list or mapping in an environment variable
                    return spec.adapter.validate_json(value, strict=False)
            self.checker.refused(spec, error, path)
            return None
        except Inexact as error:
            self._note(spec, value, str(error), path)
            return None


_EARLY: Mapping[Kind, Callable[[_Reader, FieldSpec, Any], Any] | None] = per_kind(
    tensor=_Reader._dense,
    shared=_Reader._dense,
    ragged=None,
    nested=_Reader._nested,
    collection=_Reader._collection,
    value=None,
    per_element=None,
    any=_Reader._any,
)
"""Reads a field of each kind; None if its value nests by batch dims, so it is read after the others."""


def _is_spread(spec: FieldSpec, value: Any) -> bool:
    """Whether one value is spread over the batch."""
    if spec.kind.is_per_element:
        return not isinstance(value, list | Node) and (value is not MISSING or spec.has_default)
    return value is MISSING


def _elements(value: Any) -> int:
    """How many batch elements a value holds at most."""
    if isinstance(value, TensorCollection):
        return max([leaf.numel() for leaf in value._leaves(BATCHED)], default=0)
    if isinstance(value, RaggedTensor | NonTensorStack):
        return math.prod(value.shape)
    return value.numel() if isinstance(value, Tensor) else math.prod(_shape_of(value))


def _element_depth(spec: FieldSpec, value: Any) -> int:
    """How many levels of nested lists are batch dims, from the rank of an element."""
    rank = None if spec.dims is None else spec.dims.rank
    return max(len(_shape_of(value)) - rank, 1) if rank is not None else 1


def _shape_of(value: Any) -> tuple[int, ...]:
    """The shape of nested lists, by their first entries."""
    shape: list[int] = []
    while isinstance(value, list | tuple) and len(shape) < 64:
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape)


def _entry_in(value: Any, size: torch.Size) -> Any:
    """An entry of an untyped container of this batch size."""
    if is_tensor_object(value):
        return decode(value, Shaped)
    if not isinstance(value, dict):
        raise ArgumentError(f"an entry is an object that says what it is, got {short(value)}")
    if "shared" in value:
        return Unbatched(decode(value["shared"], Shaped))
    if "entries" in value:
        new = TensorDict({}, batch_size=value["batch_size"], names=value.get("names"))
        for key, entry in value["entries"].items():
            new.set(key, _entry_in(entry, new.batch_size))
        return new
    if "objects" not in value:
        return NonTensorData(value["value"])
    if _shape_of(value["objects"])[: len(size)] != tuple(size):
        raise ArgumentError(f"`objects` are nested lists of the batch shape {list(size)}")
    return NonTensorStack.of(value["objects"], size)
