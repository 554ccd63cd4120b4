"""Conversions: from nested data to containers, and back to dicts, lists, tuples, arrays and pytrees."""

# Operations call each other through the class: pyright infers the mixin as their result, mypy infers Self.
# pyright: reportReturnType=false

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from .._flags import answers
from ..core import Device, TensorCollection, as_batch_size, as_device, check_names
from ..errors import ArgumentError, BatchSizeError, StructureError, UnsupportedOperationError, too_deep
from ._apply import ApplyOps
from ._export_ops import ExportOps
from ._join import stack
from ._mapping import MappingOps
from ._nesting import Sized, as_entries, field_names, positions
from ._pytree import from_tree

_ALL_DIMS = 64  # the most dims of a tensor

Size: TypeAlias = "Sequence[int] | int | None"


@answers
class ConversionOps(ExportOps):
    """`from_*` as class methods."""

    __slots__ = ()

    _dataclass_as_class: ClassVar[Callable[..., Any]]
    """Converts a dataclass to a typed instance; the room of typed classes assigns it."""

    @classmethod
    def _from_nesting(
        cls, entries: Mapping[Any, Any], size: torch.Size | None, device: torch.device | None, batch_dims: int | None
    ) -> Self:
        """A container from a mapping. With `batch_dims`, the batch size is found, with at most this many dims."""
        raise NotImplementedError

    @classmethod
    def _position_names(cls, count: int) -> list[str]:
        """The key of each item of a tuple; for a typed class, its fields in order."""
        if not cls._layered:
            return positions(count)
        names = list(cls.__tensorclass_schema__.fields)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a typed class
        if count > len(names):
            raise StructureError(f"{cls.__name__} has the {len(names)} fields {names}, got a tuple of {count} items")
        return names[:count]

    # ---- to a container ------------------------------------------------------------------------------------------

    @classmethod
    def from_dict(
        cls,
        input_dict: Mapping[Any, Any] | TensorCollection,
        *,
        auto_batch_size: bool | None = None,
        batch_size: Size = None,
        device: Device = None,
        batch_dims: int | None = None,
        names: Sequence[str | None] | None = None,
    ) -> Self:
        """Convert a dict to a container. Nested dicts become containers, or the declared classes of a typed class.

        Args:
            input_dict: keys (strings or tuples of strings) and values.
            auto_batch_size: use the longest leading shape that all entries share; nested containers find their own.
            batch_size: the leading dims that all entries share, instead of finding them.
            device: the device of the result.
            batch_dims: find the batch size, with at most this many dims.
            names: a name or None for each batch dim.

        Raises:
            SchemaError: by a typed class, for unknown, missing or invalid fields; lists all of them.
            BatchSizeError: if an entry lacks the batch dims; names its path.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict.from_dict({"a": torch.zeros(3, 4), "b": {"c": torch.zeros(3)}}, auto_batch_size=True)
        >>> data.batch_size, data["b"].batch_size
        (torch.Size([3]), torch.Size([3]))
        """
        if batch_size is not None and batch_dims is not None:
            raise ArgumentError("from_dict: give `batch_size` or `batch_dims`, not both")
        entries: Any = input_dict
        if isinstance(input_dict, TensorCollection):
            found = batch_dims is not None or auto_batch_size
            entries, own = input_dict._entries(), input_dict._batch_size
            batch_size = own if batch_size is None and not found else batch_size
            names = input_dict._names if names is None and batch_size == own else names
            device = input_dict._device if device is None else device
        elif not isinstance(input_dict, Mapping):
            raise ArgumentError(
                f"from_dict takes a mapping, got a {type(input_dict).__name__}; see `from_any`; for rows, "
                "`from_rows` of a typed class, or `from_list`"
            )
        return cls._assemble(entries, batch_size, bool(auto_batch_size), batch_dims, device, names)

    @classmethod
    def _assemble(
        cls,
        entries: Mapping[Any, Any],
        batch_size: Size,
        auto: bool,
        batch_dims: int | None,
        device: Device,
        names: Sequence[str | None] | None = None,
    ) -> Self:
        find = batch_size is None and (auto or batch_dims is not None)
        if batch_dims is not None and batch_dims < 0:
            raise BatchSizeError(f"batch_dims is the number of dims at most, got {batch_dims}")
        size = None if batch_size is None else as_batch_size(batch_size)
        at_most = _ALL_DIMS if batch_dims is None else batch_dims
        try:
            result = cls._from_nesting(entries, size, as_device(device), at_most if find else None)
        except RecursionError:
            raise too_deep("") from None
        if names is not None:
            result._names = check_names(names, len(result._batch_size))
        return result

    def from_dict_instance(
        self,
        input_dict: Mapping[Any, Any] | TensorCollection,
        *,
        auto_batch_size: bool | None = None,
        batch_size: Size = None,
        device: Device = None,
        batch_dims: int | None = None,
        names: Sequence[str | None] | None = None,
    ) -> Any:
        """Convert a dict to a container. Nested dicts get the classes that this container has under their keys.

        Args:
            input_dict: as for `from_dict`, as are all following arguments.
            auto_batch_size: see `from_dict`.
            batch_size: see `from_dict`.
            device: see `from_dict`.
            batch_dims: see `from_dict`.
            names: see `from_dict`.

        >>> import torch
        >>> from tensorclass import TensorClass, TensorDict
        >>> class Pose(TensorClass):
        ...     angle: torch.Tensor
        >>> data = TensorDict(pose=Pose(torch.zeros(2), batch_size=[2]), batch_size=[2])
        >>> type(data.from_dict_instance(data.to_dict(), batch_size=[2])["pose"]).__name__
        'Pose'
        """
        source = input_dict._entries() if isinstance(input_dict, TensorCollection) else input_dict
        if not isinstance(source, Mapping):
            raise ArgumentError(f"from_dict_instance takes a mapping, got a {type(input_dict).__name__}")
        size = None if batch_size is None else as_batch_size(batch_size)
        auto = bool(auto_batch_size)
        entries = {}
        for key, value in source.items():
            entry = self._entries().get(key) if isinstance(key, str) else None
            if isinstance(entry, ConversionOps) and isinstance(value, Mapping):
                found = auto or batch_dims is not None
                options: Any = {"auto_batch_size": found, "batch_size": size, "device": device}
                value = ConversionOps.from_dict_instance(entry, value, **options)
            entries[key] = value
        if size is not None and batch_dims is not None:
            raise ArgumentError("from_dict_instance: give `batch_size` or `batch_dims`, not both")
        return type(self)._assemble(entries, size, auto, batch_dims, device, names)

    @classmethod
    def from_any(
        cls,
        obj: Any,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: Device = None,
        batch_size: Size = None,
    ) -> Any:
        """Convert nested data to a container, at every depth: a mapping, dataclass, tuple or structured array.

        A list becomes a tensor or a stack of objects, a pandas frame a container with an entry for each column;
        tensors, containers and anything else are returned unchanged.

        Args:
            obj: the data to convert.
            auto_batch_size: find the longest batch size; excludes `batch_size` unless `obj` is a mapping.
            batch_dims: find the batch size, with at most this many dims.
            device: the device of the result.
            batch_size: the leading dims that all entries share.

        >>> from tensorclass import TensorDict
        >>> TensorDict.from_any({"point": (1.0, {"z": 2.0})})["point", "1", "z"]
        tensor(2.)
        """
        entries = as_entries(obj, cls._position_names)
        if entries is None:
            return cls._from_leaf(obj, as_device(device))
        if not isinstance(obj, Mapping):
            _exclusive(auto_batch_size, batch_size)
        if isinstance(entries, Sized) and batch_dims is None and not auto_batch_size:
            batch_size = entries.batch_size if batch_size is None else batch_size
        return cls._assemble(entries, batch_size, auto_batch_size, batch_dims, device)

    @classmethod
    def _from_leaf(cls, obj: Any, device: torch.device | None) -> Any:
        """Convert a value without nesting, for `from_any`."""
        return obj

    @classmethod
    def from_dataclass(
        cls,
        dataclass: Any,
        *,
        dest_cls: type | None = None,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        as_tensorclass: bool = False,
        device: Device = None,
        batch_size: Size = None,
    ) -> Any:
        """Convert an instance of a dataclass, and nested ones, to a container with an entry for each field.

        Args:
            dataclass: the instance.
            dest_cls: the typed class of the result; implies `as_tensorclass`.
            auto_batch_size: use the longest leading shape that all entries share; excludes `batch_size`.
            batch_dims: find the batch size, with at most this many dims.
            as_tensorclass: return a typed instance, as the function `tensorclass.from_dataclass` does.
            device: the device of the result.
            batch_size: the leading dims that all entries share.

        Raises:
            TypeError: for anything but an instance of a dataclass.

        >>> import dataclasses, torch
        >>> from tensorclass import TensorDict
        >>> @dataclasses.dataclass
        ... class Data:
        ...     obs: torch.Tensor
        ...     reward: torch.Tensor
        >>> TensorDict.from_dataclass(Data(torch.zeros(3, 4), torch.ones(3)), auto_batch_size=True).batch_size
        torch.Size([3])
        """
        _exclusive(auto_batch_size, batch_size)
        if as_tensorclass or dest_cls is not None:
            options: Any = {"auto_batch_size": auto_batch_size, "batch_dims": batch_dims, "batch_size": batch_size}
            return cls._dataclass_as_class(dataclass, dest_cls=dest_cls, device=device, **options)
        if isinstance(dataclass, type) or not dataclasses.is_dataclass(dataclass):
            raise ArgumentError(
                f"from_dataclass takes an instance of a dataclass, got {dataclass!r:.80}; see `from_any`"
            )
        entries = {field.name: getattr(dataclass, field.name) for field in dataclasses.fields(dataclass)}
        return cls._assemble(entries, batch_size, auto_batch_size, batch_dims, device)

    @classmethod
    def from_namedtuple(
        cls,
        named_tuple: Any,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: Device = None,
        batch_size: Size = None,
    ) -> Self:
        """Convert a named tuple, or a result such as `tensor.max(0)`, to a container; its keys are the field names.

        Args:
            named_tuple: the named tuple.
            auto_batch_size: use the longest leading shape that all entries share; excludes `batch_size`.
            batch_dims: find the batch size, with at most this many dims.
            device: the device of the result.
            batch_size: the leading dims that all entries share.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_namedtuple(torch.tensor([[2, 0, 1]]).max(1))["indices"]
        tensor([0])
        """
        _exclusive(auto_batch_size, batch_size)
        names = field_names(named_tuple)
        if names is None:
            raise ArgumentError(
                f"from_namedtuple takes a named tuple, got a {type(named_tuple).__name__}; see `from_any`"
            )
        entries = dict(zip(names, named_tuple, strict=True))
        return cls._assemble(entries, batch_size, auto_batch_size, batch_dims, device)

    @classmethod
    def from_tuple(
        cls,
        obj: Sequence[Any],
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: Device = None,
        batch_size: Size = None,
    ) -> Self:
        """Convert a tuple to a container with keys "0", "1", ...; for a typed class, the items are its fields in order.

        Args:
            obj: the tuple or list.
            auto_batch_size: use the longest leading shape that all entries share; excludes `batch_size`.
            batch_dims: find the batch size, with at most this many dims.
            device: the device of the result.
            batch_size: the leading dims that all entries share.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_tuple((torch.zeros(3, 4), torch.ones(3)), auto_batch_size=True).batch_size
        torch.Size([3])
        """
        _exclusive(auto_batch_size, batch_size)
        if not isinstance(obj, (tuple, list)):
            raise ArgumentError(f"from_tuple takes a tuple, got a {type(obj).__name__}; see `from_any`")
        entries = dict(zip(cls._position_names(len(obj)), obj, strict=True))
        return cls._assemble(entries, batch_size, auto_batch_size, batch_dims, device)

    @classmethod
    def from_list(
        cls,
        input: Sequence[Any],
        *,
        auto_batch_size: bool | None = None,
        batch_size: Size = None,
        device: Device = None,
        batch_dims: int | None = None,
        names: Sequence[str | None] | None = None,
        lazy: bool | None = None,
    ) -> Any:
        """Stack dicts and containers along a new first dim.

        Args:
            input: the elements; at least one.
            auto_batch_size: find the batch size of each dict.
            batch_size: of the result; its first size is the number of elements.
            device: the device of the result.
            batch_dims: find the batch size, with at most this many dims, including the new one.
            names: a name or None for each batch dim of the result.
            lazy: True for a lazy stack, False for a dense one; by default dense if the elements have equal structure.

        Raises:
            BatchSizeError: if `batch_size` doesn't start with the number of elements.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_list([{"a": torch.zeros(3)}, {"a": torch.ones(3)}], batch_size=[2, 3]).batch_size
        torch.Size([2, 3])
        """
        if batch_size is not None and batch_dims is not None:
            raise ArgumentError("from_list: give `batch_size` or `batch_dims`, not both")
        if not isinstance(input, (list, tuple)) or not input:
            raise ArgumentError(f"from_list takes a non-empty list of dicts and containers, got {input!r:.60}")
        size = None if batch_size is None else as_batch_size(batch_size)
        if size is not None and size[:1] != (len(input),):
            raise BatchSizeError(f"from_list: batch_size {list(size)} starts with the number of elements, {len(input)}")
        if batch_dims == 0:
            raise BatchSizeError("from_list: the list is a batch dim itself, so batch_dims is at least 1")
        inner = None if size is None else size[1:]
        dims = None if batch_dims is None else batch_dims - 1
        auto = bool(auto_batch_size) or dims is not None
        items = [_element(cls, item, i, inner, auto, dims, as_device(device)) for i, item in enumerate(input)]
        result = _stack_items(cls, items, lazy)
        if names is not None:
            result.names = names
        return result

    @classmethod
    def from_struct_array(
        cls,
        struct_array: Any,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: Device = None,
        batch_size: Size = None,
    ) -> Self:
        """Convert a structured numpy array to a container, without a copy if torch can read it. Strings become objects.

        Args:
            struct_array: the array; its shape is the batch size.
            auto_batch_size: use the longest leading shape that all entries share; excludes `batch_size`.
            batch_dims: find the batch size, with at most this many dims.
            device: the device of the result.
            batch_size: the leading dims that all entries share; by default the shape of the array.

        >>> import numpy as np
        >>> from tensorclass import TensorDict
        >>> pets = np.array([("Rex", 9), ("Fido", 3)], dtype=[("name", "U10"), ("age", "i4")])
        >>> data = TensorDict.from_struct_array(pets)
        >>> data["age"], data["name"].tolist()
        (tensor([9, 3], dtype=torch.int32), ['Rex', 'Fido'])
        """
        _exclusive(auto_batch_size, batch_size)
        if not isinstance(struct_array, np.ndarray) or struct_array.dtype.names is None:
            raise ArgumentError(
                f"from_struct_array takes a numpy array of a structured dtype, got {struct_array!r:.60}; see `from_any`"
            )
        entries = as_entries(struct_array)
        assert isinstance(entries, Sized)
        if batch_size is None and not auto_batch_size and batch_dims is None:
            batch_size = entries.batch_size
        return cls._assemble(entries, batch_size, auto_batch_size, batch_dims, device)

    @classmethod
    def from_pytree(
        cls, pytree: Any, *, batch_size: Size = None, auto_batch_size: bool = False, batch_dims: int | None = None
    ) -> Any:
        """Convert nested dicts, lists and tuples of tensors to a container; `to_pytree` restores them.

        The items of a sequence get the keys "0", "1", ...; types other than dict are recorded in `"_pytree_type"`.

        Args:
            pytree: the nested data; a tensor or container is returned as it is.
            batch_size: the leading dims that all tensors share.
            auto_batch_size: use the longest leading shape that all tensors share.
            batch_dims: find the batch size, with at most this many dims.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict.from_pytree({"a": [torch.zeros(2), torch.ones(2)]}, batch_size=[2])
        >>> data["a", "1"], type(data.to_pytree()["a"]).__name__
        (tensor([1., 1.]), 'list')
        """
        _exclusive(auto_batch_size, batch_size)
        if isinstance(pytree, (Tensor, TensorCollection)):
            return pytree
        entries = as_entries(pytree, cls._position_names) if cls._layered else from_tree(pytree)
        if not isinstance(entries, dict):
            raise ArgumentError(f"from_pytree takes nested dicts, lists and tuples, got a {type(pytree).__name__}")
        return cls._assemble(entries, batch_size, auto_batch_size, batch_dims, None)

    # ---- from a container ----------------------------------------------------------------------------------------

    @classmethod
    def from_schema(
        cls,
        schema: Mapping[Any, tuple[Sequence[int], torch.dtype]],
        *,
        batch_size: Sequence[int] | int | None = None,
        storage: str | None = None,
        device: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Allocate zeroed buffers from a mapping of keys to (event shape, dtype).

        Args:
            schema: key -> (shape of one element, dtype); nested keys are tuples.
            batch_size: the leading dims of every buffer.
            storage: None for memory, "shared" for shared memory, "memmap" for a mapped file, "h5" or "zarr" for a live
                store. Buffers in files are never in memory as a whole.
            device: the device of the buffers.
            **kwargs: for "memmap" the arguments of `memmap_like` (`prefix=`), for "h5" and "zarr" `filename=` and
                options for the arrays.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_schema({"a": ([3], torch.float32)}, batch_size=[4])["a"].shape
        torch.Size([4, 3])
        """
        on_disk = storage in ("memmap", "h5", "zarr")
        if not on_disk and (storage not in (None, "shared") or kwargs):
            extra = f" with {sorted(kwargs)}" if kwargs else ""
            kinds = "None, 'shared', 'memmap', 'h5' or 'zarr'"
            raise UnsupportedOperationError(f"from_schema: storage is {kinds}, got {storage!r}{extra}")
        size = as_batch_size(batch_size)
        here = None if on_disk else device
        result = cls(batch_size=size, device=here)  # type: ignore[call-arg]  # an untyped container
        for key, (shape, dtype) in schema.items():
            blank = torch.zeros((), dtype=dtype, device=here)
            buffer = blank.expand(*size, *shape) if on_disk else blank.new_zeros(*size, *shape)
            if storage == "shared":
                buffer.share_memory_()
            MappingOps.set(result, key, buffer)
        return result._write_to_file(storage, device, kwargs) if on_disk else result

    def _write_to_file(self, storage: str | None, device: Any, options: dict[str, Any]) -> Any:
        raise NotImplementedError


def _exclusive(auto_batch_size: bool, batch_size: object) -> None:
    if auto_batch_size and batch_size is not None:
        raise ArgumentError("give `batch_size` or `auto_batch_size=True`, not both")


def _element(
    cls: Any,
    item: Any,
    position: int,
    size: torch.Size | None,
    auto: bool,
    dims: int | None,
    device: torch.device | None,
) -> Any:
    """One element of `from_list`."""
    if isinstance(item, TensorCollection):
        if size is not None and item._batch_size != size:
            raise BatchSizeError(
                f"from_list: element {position} has batch size {list(item._batch_size)}, {list(size)} is expected"
            )
        return item if device is None else item._on(device)  # type: ignore[attr-defined]  # a Container
    if not isinstance(item, Mapping):
        raise ArgumentError(f"from_list takes dicts and containers, got a {type(item).__name__} at {position}")
    return cls._assemble(item, size, auto, dims, device)


def _stack_items(cls: Any, items: list[Any], lazy: bool | None) -> Any:
    if lazy is None:
        return ApplyOps.maybe_dense_stack(items, 0)
    if not lazy:
        return stack(items, 0)
    lazily = getattr(cls, "lazy_stack", None)
    if lazily is None:
        raise UnsupportedOperationError(f"{cls.__name__} has no lazy stacks; use lazy=False")
    return lazily(items, 0)
