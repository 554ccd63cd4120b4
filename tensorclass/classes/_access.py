"""Getters and setters of fields on an instance, one pair for each kind of field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import modules
from typing import Any

from torch import Tensor

from .._deferred import DTENSOR, is_dtensor
from .._schema import EXACT, FieldSpec, Options
from ..core import TensorCollection, field_value, undivided_tensors
from ..store import TensorDict
from ._errors import not_produced
from ._fits import DimTable, make_fits

Getter = Callable[[Any], Any]
Setter = Callable[[Any, Any], None]


def make_getter(spec: FieldSpec) -> Getter:
    """Make the getter of a field."""
    if spec.produced:
        return _produced_getter(spec)
    if spec.kind.is_shared:
        return _shared_getter(spec.name)
    if spec.kind.is_nested:
        return _nested_getter(spec)
    return _per_element_getter(spec.name) if spec.kind.is_per_element else _plain_getter(spec)


def _plain_getter(spec: FieldSpec) -> Getter:
    return _optional_getter(spec.name) if spec.optional or spec.kind.is_open else _required_getter(spec.name)


def _required_getter(name: str) -> Getter:
    def get(self: Any) -> Any:
        return self._store._data[name]

    return get


def _optional_getter(name: str) -> Getter:
    def get(self: Any) -> Any:
        return self._store._data.get(name)

    return get


def _shared_getter(name: str) -> Getter:
    def get(self: Any) -> Any:
        node = self._store._data.get(name)
        return None if node is None else node.tensor

    return get


def _per_element_getter(name: str) -> Getter:
    def get(self: Any) -> Any:
        return field_value(self._store._data.get(name))

    return get


def _nested_getter(spec: FieldSpec) -> Getter:
    name, nested = spec.name, spec.nested

    def get(self: Any) -> Any:
        value = self._store._data.get(name)
        if type(value) is nested or value is None or hasattr(value, "_store"):
            return value
        return self._wrap_nested(name, value)

    return get


def _produced_getter(spec: FieldSpec) -> Getter:
    name, shared = spec.name, spec.kind.is_shared  # torch.export accepts no records in closures

    def get(self: Any) -> Any:
        value = self._store._data.get(name)
        if value is None:
            raise not_produced(type(self), name)
        if isinstance(value, TensorCollection) and not hasattr(value, "_store"):
            return self._wrap_nested(name, value)
        return getattr(value, "tensor", value) if shared else field_value(value)

    return get


def assign(name: str) -> Setter:
    """Make the setter of a field whose values are always checked in full."""
    return lambda self, value: self._assign(name, value)


def make_setter(spec: FieldSpec, table: DimTable) -> Setter:
    """Make the setter of a field: a value like the present one is valid without a check, any other value is checked."""
    name = spec.name
    if spec.kind.is_value and spec.annotation in EXACT and not spec.metadata:
        return _value_setter(name, spec.annotation)
    fits = make_fits(spec, table)

    def set(self: Any, value: Any) -> None:
        store = self._store
        data = store._data
        if type(value) is Tensor and type(data) is dict:
            old = data.get(name)
            if store._lock is None and (store._device is None or store._device == value.device):
                try:
                    alike = type(old) is Tensor and value.dtype is old.dtype and value.shape == old.shape
                    alike = alike or (not mixes(data) and fits is not None and fits(store._batch_size, data, value))
                except RuntimeError:  # the shape of a strided nested tensor can't be read
                    alike = False
                if alike:
                    data[name] = value
                    return
        self._assign(name, value)

    return set


def mixes(entries: Mapping[str, Any]) -> bool:
    """Whether a plain tensor would be beside DTensors."""
    return DTENSOR in modules and any(map(is_dtensor, leaves_by_name(entries).values()))


def leaves_by_name(entries: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors that a layout splits: those of ragged fields are left out."""
    return {path: leaf for name, entry in entries.items() for path, leaf in undivided_tensors(entry, (name,))}


def _value_setter(name: str, kind: type) -> Setter:
    def set(self: Any, value: Any) -> None:
        store = self._store
        if type(value) is kind and type(store) is TensorDict and store._lock is None:
            store._put(name, value)
        else:
            self._assign(name, value)

    return set


def is_checked(spec: FieldSpec, options: Options) -> bool:
    """Whether the values of a tensor are checked, so that a matching dtype and shape are not enough."""
    return (options.validate == "values" and bool(spec.metadata)) or (
        options.validate != "off" and bool(spec.validators)
    )


def is_like(old: object, value: object) -> bool:
    """Whether a tensor may replace another without a further check: it has the same dtype and shape."""
    if type(value) is not Tensor or type(old) is not Tensor or value.dtype is not old.dtype or value.is_nested:
        return False
    return value.shape == old.shape


def make_deleter(spec: FieldSpec) -> Callable[[Any], None]:
    """Make the deleter of a field.

    An optional field becomes None, a produced field becomes unwritten; any other raises.
    """
    name = spec.name

    def delete(self: Any) -> None:
        self.del_(name)

    return delete
