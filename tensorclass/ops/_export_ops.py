"""Exports: a container as a dict, lists, tuples, arrays, a pytree or an untyped container."""

# Operations call each other through the class: pyright infers the mixin as their result, mypy infers Self.
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from .._flags import answers
from ..core import STORAGE, Names, TensorCollection, TensorEntry, is_typed, without_stack
from ..errors import ArgumentError
from ._apply import ApplyOps
from ._exports import LinkedList, plain, struct_array, tuple_class
from ._pytree import to_tree

ConvertTensors: TypeAlias = 'bool | Literal["numpy"]'


@answers
class ExportOps(ApplyOps):
    """`to_*` on instances."""

    __slots__ = ()

    def _fields_and_gaps(self) -> dict[str, Any]:
        """The entries in the order of the declaration, with None for absent optional fields."""
        entries = self._entries()
        fields = type(self).__tensorclass_schema__.fields if self._layered else entries  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # as above
        if fields is entries or list(entries) == list(fields):
            return entries
        absent = {name for name, spec in fields.items() if spec.optional and not spec.produced}
        return {name: entries.get(name) for name in fields if name in entries or name in absent}

    def to_pytree(self) -> Any:
        """Restore the nested data that `from_pytree` converted, with the current tensors; by default nested dicts.

        >>> from tensorclass import TensorDict
        >>> TensorDict({"a": {"b": 1}}).to_pytree()
        {'a': {'b': tensor(1)}}
        """
        return to_tree(self)

    def to_dict(
        self, *, retain_none: bool = True, convert_tensors: ConvertTensors = False, tolist_first: bool = False
    ) -> dict[str, Any]:
        """Convert to nested dicts around the same tensors.

        Shared objects are unchanged, per-element objects become nested lists.

        Args:
            retain_none: keep absent optional fields of typed classes as None.
            convert_tensors: True for nested lists, "numpy" for arrays instead of tensors.
            tolist_first: convert nested containers with batch dims to lists of dicts.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(2), b={"c": "text"}).to_dict(convert_tensors=True)
        {'a': [0, 1], 'b': {'c': 'text'}}
        """
        if not convert_tensors and not tolist_first:
            return self._plain_dict(retain_none)
        if self._plain:
            solid = self
        elif tolist_first:
            solid = without_stack(self)
        else:
            solid = self._solid()
        if convert_tensors not in (True, False, "numpy"):
            raise ArgumentError(f"convert_tensors is True, False or 'numpy', got {convert_tensors!r:.200}")

        def nested(value: Any) -> Any:
            if tolist_first and value._batch_size:
                return ExportOps.tolist(value, convert_tensors=convert_tensors, tolist_first=True)
            options: Any = {"convert_tensors": convert_tensors, "tolist_first": tolist_first}
            return ExportOps.to_dict(value, retain_none=retain_none, **options)

        rows = solid._fields_and_gaps() if retain_none else solid._entries()
        return {key: plain(key, value, convert_tensors, nested) for key, value in rows.items()}

    def _plain_dict(self, retain_none: bool) -> dict[str, Any]:
        """Nested dicts around the same tensors."""
        solid = self._solid() if self._stacked else self
        rows: dict[str, Any] = solid._fields_and_gaps() if retain_none and self._layered else solid._entries()
        for key, value in () if solid._plain else rows.items():  # the flag is read after the copy
            if isinstance(value, ExportOps):
                rows[key] = value._plain_dict(retain_none)
            elif type(value) is not Tensor and value is not None:
                rows[key] = plain(key, value, False, ExportOps.to_dict)
        return rows

    def tolist(
        self,
        *,
        convert_nodes: bool = True,
        convert_tensors: ConvertTensors = False,
        tolist_first: bool = False,
        as_linked_list: bool = False,
    ) -> Any:
        """Convert the elements to nested lists, one level for each batch dim, of dicts.

        Args:
            convert_nodes: False keeps the elements as containers.
            convert_tensors: True for nested lists, "numpy" for arrays instead of tensors.
            tolist_first: convert nested containers with their own batch dims to lists of dicts.
            as_linked_list: return a list whose assignments are also written to this container.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.arange(2), batch_size=[2]).tolist(convert_tensors=True)
        [{'a': 0}, {'a': 1}]
        """
        if convert_tensors and not convert_nodes:
            raise ArgumentError("tolist: `convert_tensors` converts inside dicts; it needs `convert_nodes=True`")
        if not self._batch_size:
            options: Any = {"convert_tensors": convert_tensors, "tolist_first": tolist_first}
            return ExportOps.to_dict(self, retain_none=False, **options) if convert_nodes else self
        options = {"convert_nodes": convert_nodes, "convert_tensors": convert_tensors, "tolist_first": tolist_first}
        items = [ExportOps.tolist(element, **options) for element in self._unbound()]
        return LinkedList(items, self) if as_linked_list else items

    def _unbound(self) -> Sequence[Any]:
        return ApplyOps.unbind(self, 0)

    def numpy(self) -> dict[str, Any]:
        """Nested dicts of arrays that share memory with the tensors.

        Raises:
            UnsupportedOperationError: for a tensor that numpy can't hold (another device, a gradient, bfloat16); names
                the field and the fix.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), b={"c": "text"}).numpy()
        {'a': array([0., 0.], dtype=float32), 'b': {'c': 'text'}}
        """
        return ExportOps.to_dict(self, retain_none=False, convert_tensors="numpy")

    def to_namedtuple(self, dest_cls: type | None = None) -> Any:
        """Convert to a named tuple whose fields are the keys; nested containers become named tuples too.

        Args:
            dest_cls: the class of the result, also used for nested containers with the same keys. By default, a typed
                class gives a named tuple with its name, any other container `GenericDict`.

        Raises:
            StructureError: for a key that is not an identifier, and for keys that `dest_cls` doesn't have.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), b={"c": "text"}).to_namedtuple()
        GenericDict(a=tensor([0., 0.]), b=GenericDict(c='text'))
        """
        return _as_named_tuple(self._solid(), dest_cls, top=True)

    def to_struct_array(self) -> Any:
        """Copy to a structured numpy array of the batch shape, with a field for each entry.

        Strings become fields of 10 characters or more; a nested container becomes a nested field.

        Raises:
            UnsupportedOperationError: for a tensor that numpy can't hold, or one without batch dims.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> print(TensorDict(a=torch.tensor([1, 2]), b=torch.tensor([3.0, 4.0]), batch_size=[2]).to_struct_array())
        [(1, 3.) (2, 4.)]
        """
        return struct_array(self._solid())

    def to_tensordict(self, *, retain_none: bool | None = None) -> Any:
        """Make an untyped, unlocked copy: tensors are cloned, nested instances become untyped containers.

        Args:
            retain_none: keep absent optional fields of typed classes as entries of None.

        >>> import torch
        >>> from tensorclass import TensorClass
        >>> class Point(TensorClass):
        ...     x: torch.Tensor
        >>> Point(torch.zeros(2), batch_size=[2]).to_tensordict()
        TensorDict(batch_size=[2], fields={x: f32[]})
        """
        result = self._bare(self._batch_size, self._names)
        solid = self._solid()
        for key, value in (solid._fields_and_gaps() if retain_none else solid._entries()).items():
            result._put(key, _copy_value(value, self._batch_size, self._names, retain_none))
        return result


def _as_named_tuple(self: Any, dest_cls: Any, top: bool) -> Any:
    rows = ExportOps.to_dict(self, retain_none=False)
    for key, value in self._entries().items():
        if isinstance(value, TensorCollection):
            rows[key] = _as_named_tuple(value, dest_cls, top=False)
    typed = is_typed(self)
    return tuple_class(dest_cls, tuple(rows), type(self).__name__ if typed else "GenericDict", top)(**rows)


def _copy_value(value: Any, size: torch.Size, names: Names, retain_none: bool | None) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, ExportOps):
        return ExportOps.to_tensordict(value, retain_none=retain_none)
    if isinstance(value, TensorEntry):
        return value._make([leaf.clone() for leaf in value._leaves(STORAGE)], size, names, STORAGE)
    return value
