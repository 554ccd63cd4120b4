"""Exports entries of a container: as plain values, as fields of a structured array, as named tuples."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex

import numpy as np
import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .._deferred import is_dtensor
from .._schema._json import NUMPY
from ..core import Classes, Entry, TensorCollection, TensorEntry, batch_shape, has_lengths, is_shared
from ..errors import ArgumentError, StructureError, UnsupportedOperationError, did_you_mean

_SHORTEST_STRING = 10  # characters, as in the arrays of `tensordict`


class LinkedList(list[Any]):
    """The elements of a container or entry as a list. Assignments to items are also written to the container.

    Methods that change the length (`append`, `extend`, `insert`, `pop`, `remove`, `clear`, `del`) change only the list,
    and end the link.

    Args:
        items: the elements.
        container: the container to write assignments to; None for an independent list.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> data = TensorDict(a=torch.zeros(2), batch_size=[2])
    >>> data.tolist(as_linked_list=True)[0] = {"a": torch.tensor(1.0)}
    >>> data["a"]
    tensor([1., 0.])
    """

    def __init__(self, items: Iterable[Any] = (), container: Any = None) -> None:
        super().__init__(items)
        self._container = container

    def __setitem__(self, index: Any, value: Any) -> None:
        if self._container is not None:
            self._container[index] = value  # first: if the container refuses, the list stays unchanged
        super().__setitem__(index, value)

    def linked_entry(self) -> Any:
        """The entry of objects that the list was read from; the list itself if there is none."""
        return getattr(self._container, "node", self)

    def tolist(self) -> list[Any]:
        """A plain list of the elements, nested ones too.

        >>> from tensorclass import TensorDict
        >>> TensorDict(tags=["a", "b"], batch_size=[2])["tags"].tolist()
        ['a', 'b']
        """
        return [item.tolist() if isinstance(item, LinkedList) else item for item in self]

    def append(self, object: Any) -> None:
        """Append to the list, which ends the link."""
        self._container = None
        super().append(object)

    def extend(self, iterable: Iterable[Any]) -> None:
        """Extend the list, which ends the link."""
        self._container = None
        super().extend(iterable)

    def insert(self, index: SupportsIndex, object: Any) -> None:
        """Insert into the list, which ends the link."""
        self._container = None
        super().insert(index, object)

    def pop(self, index: SupportsIndex = -1) -> Any:
        """Remove and return an element of the list, which ends the link."""
        self._container = None
        return super().pop(index)

    def remove(self, value: Any) -> None:
        """Remove an element from the list, which ends the link."""
        self._container = None
        super().remove(value)

    def clear(self) -> None:
        """Empty the list, which ends the link."""
        self._container = None
        super().clear()

    def __delitem__(self, index: Any) -> None:
        self._container = None
        super().__delitem__(index)

    def __reduce__(self) -> tuple[Any, ...]:
        return LinkedList, (list(self),)


def plain(key: str, value: Any, convert: Any, nested: Callable[[Any], Any]) -> Any:
    """Export one entry: entry nodes are unwrapped, tensors are converted by `convert`, containers by `nested`."""
    if isinstance(value, Tensor):
        if not convert:
            return value
        if convert == "numpy":
            return to_numpy(key, value)
        return value.tolist()
    if isinstance(value, TensorCollection):
        return nested(value)
    if isinstance(value, Entry):
        shown = value._read_value()
        if has_lengths(value):
            return _convert_elements(key, value.tolist(), convert)
        return shown.tolist() if shown is value else plain(key, shown, convert, nested)
    return value


def _convert_elements(key: str, value: Any, convert: Any) -> Any:
    """The elements of a ragged entry in nested lists, each converted as a tensor is."""
    parts = isinstance(value, list)
    return [_convert_elements(key, part, convert) for part in value] if parts else plain(key, value, convert, list)


def to_numpy(key: str, tensor: Tensor) -> Any:
    """An array that shares memory with a tensor; a nested tensor becomes a tuple of arrays."""
    if tensor.is_nested:
        return tuple(to_numpy(key, part) for part in tensor.unbind())
    try:
        return tensor.numpy()
    except (TypeError, RuntimeError) as error:
        raise UnsupportedOperationError(
            f"field `{key}` ({tensor.dtype} on {tensor.device}{', requires grad' if tensor.requires_grad else ''}) has "
            f"no numpy form; convert the container first: `{_way_out(tensor)}`"
        ) from error


def _way_out(tensor: Tensor) -> str:
    if is_dtensor(tensor):
        return "batch.whole()"
    if tensor.requires_grad:
        return "batch.detach()"
    return "batch.cpu()" if tensor.device.type != "cpu" else "batch.to_tensordict().float()"


# ---- structured arrays -------------------------------------------------------------------------------------------


def struct_array(collection: TensorCollection) -> Any:
    """A structured array of a container's batch shape."""
    columns = _columns(collection, "")
    array: Any = np.zeros(tuple(collection._batch_size), dtype=[(key, *spec) for key, spec, _ in columns])
    for key, _, values in columns:
        array[key] = values
    return array


def _columns(collection: TensorCollection, prefix: str) -> list[tuple[str, tuple[Any, tuple[int, ...]], Any]]:
    """For each entry its key, its numpy dtype and event shape, and its values over the batch."""
    size = collection._batch_size
    columns = []
    for key, value in collection._entries().items():
        path = prefix + key
        if isinstance(value, TensorCollection):
            columns.append((key, _nested_column(value, len(size), path), struct_array(value)))
            continue
        if is_shared(value):  # repeat one tensor for the batch in every record
            value = value._read_value().expand(*size, *value._read_value().shape)
        shared = isinstance(value, Entry) and not isinstance(value, TensorEntry)
        values = _column(path, value._read_value() if shared else value)
        shaped = isinstance(value, (Tensor, TensorEntry))
        event = values.shape[len(size) :] if shaped else values.shape
        columns.append((key, (_field_dtype(values), event), values))
    return columns


def _nested_column(value: TensorCollection, outer: int, path: str) -> tuple[Any, tuple[int, ...]]:
    fields = [(key, *spec) for key, spec, _ in _columns(value, f"{path}.")]
    return np.dtype(fields), tuple(value._batch_size[outer:])


def _column(path: str, value: Any) -> Any:
    """The values of an entry as an array; values other than numbers and strings are objects."""
    if isinstance(value, Tensor):
        if value.dtype not in NUMPY and (value.is_floating_point() or value.is_complex()):  # as in tables
            value = value.to(torch.complex64 if value.is_complex() else torch.float32)
        return to_numpy(path, value)
    objects = value.tolist() if isinstance(value, TensorEntry) else value
    shape = tuple(batch_shape(value) or ())
    if all(
        isinstance(item, (str, bytes, bool, int, float, complex, np.generic)) for item in _flat(objects, len(shape))
    ):
        return np.asarray(objects).reshape(shape)
    array: Any = np.empty(shape, dtype=object)
    for index in np.ndindex(*shape):
        item = objects
        for i in index:
            item = item[i]
        array[index] = item
    return array


def _flat(objects: Any, depth: int) -> list[Any]:
    return [objects] if depth == 0 else [item for part in objects for item in _flat(part, depth - 1)]


def _field_dtype(values: Any) -> Any:
    if values.dtype.kind == "U":
        return f"U{max(_SHORTEST_STRING, values.dtype.itemsize // 4)}"
    return values.dtype


# ---- named tuples ------------------------------------------------------------------------------------------------


def tuple_class(dest_cls: Any, keys: tuple[str, ...], name: str, top: bool) -> Any:
    """The class of a named tuple with these fields: the requested one, or a new one."""
    if dest_cls is None:
        return _generic(name, keys)
    wanted = getattr(dest_cls, "_fields", None)
    if wanted is None:
        raise ArgumentError(f"to_namedtuple: dest_cls is a named tuple class, got {dest_cls!r:.200}")
    required = [field for field in wanted if field not in dest_cls._field_defaults]
    unknown = [key for key in keys if key not in wanted]
    lacking = [field for field in required if field not in keys]
    if not (unknown or lacking):
        return dest_cls
    if not top:
        return _generic(name, keys)
    told = f"takes no `{unknown[0]}`{did_you_mean(unknown[0], wanted)}" if unknown else f"needs `{lacking[0]}`"
    raise StructureError(
        f"to_namedtuple: {dest_cls.__name__} {told}; its fields are {list(wanted)}, the keys {list(keys)}"
    )


_NAMED_TUPLES = Classes()


def _generic(name: str, keys: tuple[str, ...]) -> Any:
    """A cached class for each set of keys, so that two results have the same type; compiled code makes its own."""
    if is_dynamo_compiling():
        return _named_tuple(name, keys)
    return _NAMED_TUPLES.get((name, keys), lambda: _named_tuple(name, keys))


def _named_tuple(name: str, keys: tuple[str, ...]) -> Any:
    try:
        return namedtuple(name.partition("[")[0], keys)  # the fields are only known at run time
    except ValueError as error:
        raise StructureError(
            f"to_namedtuple: {error}; rename the entry (`rename_key_`), or use `to_dict()`, which takes any key"
        ) from error
