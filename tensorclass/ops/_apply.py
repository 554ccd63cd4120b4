"""Functions mapped over leaves: `apply` and `named_apply`."""

# Operations call each other through the class: pyright infers the mixin as their result, mypy infers Self.
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import BuiltinFunctionType
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from typing_extensions import Self

from .._flags import flag, flags
from ..core import (
    VALUES,
    Device,
    LeafTest,
    Path,
    TensorCollection,
    TensorEntry,
    as_batch_size,
    as_device,
    as_jagged_layout,
    batch_shape,
    check_names,
    described,
    has_lengths,
    is_shared,
    join_path,
    publish,
    relock,
    sharing,
)
from ..errors import ArgumentError, BatchSizeError, KeySetError, StructureError
from ._at_once import at_once
from ._kernels import KERNELS
from ._keys import KeyOps
from ._mapping import UNSET, MappingOps
from ._shape import ShapeOps
from ._steps import all_begin_with, copy_steps
from ._taken import taken_over


class Mapper:
    """One call of `apply`: its function, its options, and the traversal of one or several containers."""

    __slots__ = ("call_on_nested", "default", "fn", "inplace", "is_leaf", "named", "nested_keys")

    def __init__(
        self,
        fn: Callable[..., Any],
        default: Any,
        inplace: bool,
        call_on_nested: bool,
        is_leaf: LeafTest,
        named: bool,
        nested_keys: bool,
    ) -> None:
        self.fn = fn
        self.default = default
        self.inplace = inplace
        self.call_on_nested = call_on_nested
        self.is_leaf = is_leaf
        self.named = named
        self.nested_keys = nested_keys

    def leafs(self, value: Any) -> bool:
        """Whether the function is called on a value rather than on the entries below it."""
        if not isinstance(value, TensorCollection):
            return isinstance(value, Tensor) or is_shared(value)
        return self.call_on_nested or (self.is_leaf is not None and self.is_leaf(type(value)))

    def call(self, path: Path, value: Any, others: list[Any]) -> Any:
        """Call the function, with the key first for `named_apply`."""
        key: Any = path[-1]
        if self.nested_keys and len(path) > 1:
            key = path
        args = (key,) if self.named else ()
        if isinstance(value, (Tensor, TensorCollection)):
            return _leaf(self.fn(*args, value, *others))
        new = self.fn(*args, value._read_value(), *others)
        return value._make([new], torch.Size([]), None, VALUES) if isinstance(new, Tensor) else new

    def counterparts(self, key: str, path: Path, others: Sequence[Any]) -> list[Any]:
        """The entries of the other containers under a key, or the default for containers without it."""
        found = []
        for position, other in enumerate(others):
            value = other._entries().get(key, UNSET) if isinstance(other, TensorCollection) else UNSET
            if value is UNSET:
                if self.default is UNSET:
                    raise KeySetError(
                        f"apply: container {position + 1} has no `{join_path(path)}`; give `default=` for absent keys"
                    )
                value = self.default
            found.append(value._read_value() if is_shared(value) else value)
        return found


def _have_same_layout(old: list[Tensor], new: list[Any], device: bool) -> bool:
    """Whether results are tensors with the dtypes, shapes and, with `device`, the devices of the old tensors."""
    for a, b in zip(old, new, strict=True):
        if type(b) is not Tensor or b.dtype is not a.dtype or b.shape != a.shape:
            return False
        if device and b.device != a.device:
            return False
    return True


def _apply_known(self: Any, fn: Callable[..., Any]) -> Any:
    """The result for a function of torch that is an operation, such as `torch.neg`; None for any other."""
    kernel = None if type(fn) is not BuiltinFunctionType or is_dynamo_compiling() else KERNELS.get(fn.__name__)
    if kernel is None or kernel.function is not fn or not kernel.checked:
        return None
    return at_once(self, kernel.lists, None, False, None, 1 if kernel.whole else 2)


def _require_function(fn: Any, op: str, filter_empty: bool | None) -> None:
    if not callable(fn):
        flag(filter_empty=filter_empty is not None and filter_empty)
        raise ArgumentError(f"{op} takes a function, which is called with each tensor, got {described(fn)}")


def _leaf(value: Any) -> Any:
    """A result of the function; a number becomes a 0-d tensor, as in the constructor."""
    return torch.tensor(value) if isinstance(value, (bool, int, float, complex)) else value


def _even_dims(batch_size: Any) -> Any:
    """The sizes before a -1: the size of that dim differs between elements."""
    ragged = isinstance(batch_size, (list, tuple)) and -1 in batch_size
    return batch_size[: batch_size.index(-1)] if ragged else batch_size


def _require_ragged(result: Any, batch_size: Any) -> None:
    for key, value in result._entries().items():
        if isinstance(value, TensorCollection):
            _require_ragged(value, batch_size)
        elif not (has_lengths(value) or getattr(value, "is_nested", False)):
            raise BatchSizeError(
                f"apply: batch_size={list(batch_size)} says that every result is ragged; `{key}` is a "
                f"{type(value).__name__} of shape {list(getattr(value, 'shape', ()))}"
            )


@flags
class ApplyOps(KeyOps):
    """`apply` and related methods."""

    __slots__ = ()

    def apply(
        self,
        fn: Callable[..., Any],
        *others: TensorCollection,
        batch_size: Sequence[int] | None = None,
        device: Device = UNSET,
        names: Sequence[str | None] | None = UNSET,
        inplace: bool = False,
        default: Any = UNSET,
        filter_empty: bool | None = None,
        propagate_lock: bool = False,
        call_on_nested: bool = False,
        is_leaf: LeafTest = None,
        out: Any = None,
        **constructor_kwargs: Any,
    ) -> Self:
        """Apply a function to the leaves of one or several containers.

        Args:
            fn: called with a leaf, and with the leaves of `others` under the same key. If it returns None, the entry is
                dropped.
            *others: containers of the same keys.
            batch_size: the batch size of the result and of the containers in it, if the function changes it; the
                function then gets the tensors of a lazy stack as one, where their shapes agree. `[n, -1]` says that
                the function returns ragged tensors of `n` elements; the batch size is then `[n]`.
            device: the device of the result.
            names: the dim names of the result.
            inplace: copy each result into the memory of its leaf, and return this container. A result of another shape
                replaces its entry instead.
            default: the value for keys that one of `others` lacks.
            filter_empty: True drops containers without leaves, and returns None if nothing is left.
            propagate_lock: lock the result if this container is locked.
            call_on_nested: call the function on nested containers instead of their leaves.
            is_leaf: a function of a class that decides whether containers of this class are leaves.
            out: a container whose entries are set to the results, and which is returned. The tensors that it held are
                not written.
            **constructor_kwargs: `named=True` calls the function with key and leaf, as `named_apply` does, which has
                `nested_keys`. `num_threads` is accepted for compatibility; leaves are processed one after the other.

        Raises:
            SchemaError: if a result has another dtype or shape than a typed class declares.
            BatchSizeError: if a result lacks the batch dims.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), batch_size=[2]).apply(lambda leaf: leaf + 1)["a"]
        tensor([1., 1.])
        """
        if not (inplace is propagate_lock is call_on_nested is False):
            flag(inplace=inplace, propagate_lock=propagate_lock, call_on_nested=call_on_nested)
        _require_function(fn, "apply", filter_empty)
        if constructor_kwargs.pop("named", False):
            same: Any = {"batch_size": batch_size, "device": device, "names": names, "inplace": inplace, "out": out}
            same |= {"default": default, "filter_empty": filter_empty, "propagate_lock": propagate_lock}
            same |= {"call_on_nested": call_on_nested, "is_leaf": is_leaf}
            return ApplyOps.named_apply(self, fn, *others, **same, **constructor_kwargs)
        unset = device is names is default is UNSET and batch_size is None and out is None and is_leaf is None
        plain = unset and not (others or inplace or constructor_kwargs)
        if plain and not propagate_lock and (filter_empty is None or filter_empty is False):
            if not call_on_nested and (found := _apply_known(self, fn)) is not None:
                return found  # type: ignore[no-any-return]  # of the class of self
            leaves: list[Tensor] = []
            twin = self._pair_leaves(self, leaves, [])  # a copy: other threads may write to it
            if twin is not None and twin._plain:
                found = twin._map_plain(leaves, fn)  # None if nothing is left
                return self.empty() if found is None and filter_empty is False else found  # type: ignore[no-any-return]  # as above
            return self._map_levels(twin, leaves, fn, call_on_nested, filter_empty)  # type: ignore[no-any-return]  # None if nothing is left
        mapper = Mapper(fn, default, inplace, call_on_nested, is_leaf, False, False)
        options = (batch_size, device, names, filter_empty, propagate_lock, out, constructor_kwargs)
        return self._run(mapper, others, *options)  # type: ignore[no-any-return]  # None if nothing is left

    def _map_levels(
        self, twin: Any, leaves: list[Tensor], fn: Callable[..., Any], call_on_nested: bool, filter_empty: bool | None
    ) -> Any:
        """`apply` without options for other containers than those of tensors; the twin is None with entry nodes."""
        if twin is not None and not call_on_nested:
            new = [fn(leaf) for leaf in leaves]
            if _have_same_layout(leaves, new, True):
                return twin._refill(new, self._batch_size, self._names, VALUES)
            fn = partial(next, iter(new))  # replay the results in the same order
        mapper = Mapper(fn, UNSET, False, call_on_nested, None, False, False)
        own = self._twin() if twin is None else twin
        return own._run(mapper, (), None, UNSET, UNSET, filter_empty, False, None, {})

    def named_apply(
        self,
        fn: Callable[..., Any],
        *others: TensorCollection,
        nested_keys: bool = False,
        batch_size: Sequence[int] | None = None,
        device: Device = UNSET,
        names: Sequence[str | None] | None = UNSET,
        inplace: bool = False,
        default: Any = UNSET,
        filter_empty: bool | None = None,
        propagate_lock: bool = False,
        call_on_nested: bool = False,
        is_leaf: LeafTest = None,
        out: Any = None,
        **constructor_kwargs: Any,
    ) -> Self:
        """Apply a function of key and leaf to the leaves; the other arguments are those of `apply`.

        Args:
            fn: called with the key, a leaf and the leaves of `others`.
            *others: containers of the same keys.
            nested_keys: pass the path of a nested leaf instead of its last key.
            batch_size: as for `apply`, as are all following arguments.
            device: see `apply`.
            names: see `apply`.
            inplace: see `apply`.
            default: see `apply`.
            filter_empty: see `apply`.
            propagate_lock: see `apply`.
            call_on_nested: see `apply`.
            is_leaf: see `apply`.
            out: see `apply`.
            **constructor_kwargs: see `apply`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2), b=torch.zeros(2), batch_size=[2])
        >>> data.named_apply(lambda key, leaf: leaf + (key == "a"))["a"]
        tensor([1., 1.])
        """
        flag(nested_keys=nested_keys, inplace=inplace, propagate_lock=propagate_lock, call_on_nested=call_on_nested)
        _require_function(fn, "named_apply", filter_empty)
        mapper = Mapper(fn, default, inplace, call_on_nested, is_leaf, True, nested_keys)
        options = (batch_size, device, names, filter_empty, propagate_lock, out, constructor_kwargs)
        return self._run(mapper, others, *options)  # type: ignore[no-any-return]  # None if nothing is left

    def apply_(self, fn: Callable[..., Any], *others: TensorCollection, **kwargs: Any) -> Self:
        """Apply a function to the leaves, in place; the arguments are those of `apply`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> weights = torch.ones(2)
        >>> TensorDict(a=weights).apply_(lambda x: x * 3)["a"] is weights, weights
        (True, tensor([3., 3.]))
        """
        return ApplyOps.apply(self, fn, *others, inplace=True, **kwargs)

    def expand_as(self, other: TensorCollection | Tensor) -> Self:
        """Broadcast to the batch size of another container, or to the shape of a tensor.

        Tensors that the other container has too get the shape that they have there, event dims included.

        Raises:
            StructureError: for a tensor that does not broadcast to that shape; names it.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3), batch_size=[3]).expand_as(torch.zeros(2, 3))["a"].shape
        torch.Size([2, 3])
        """
        if not isinstance(other, TensorCollection):
            if not isinstance(other, Tensor):
                raise ArgumentError(f"expand_as takes a container or a tensor, got {described(other)}; see `expand`")
            return ShapeOps.expand(self, other.shape)
        result = ShapeOps.expand(self, other._batch_size)
        return ApplyOps.named_apply(result, _expanded_as, other, nested_keys=True, default=None, filter_empty=False)  # pyright: ignore[reportArgumentType]  # a container

    def _run(
        self,
        mapper: Mapper,
        others: Sequence[Any],
        batch_size: Any,
        device: Any,
        names: Any,
        filter_empty: bool | None,
        propagate_lock: bool,
        out: Any,
        constructor_kwargs: dict[str, Any],
    ) -> Any:
        """Map a function with all options of `apply`: results are written in place, to `out`, or returned."""
        unknown = sorted(constructor_kwargs.keys() - {"num_threads"})
        if unknown:
            raise ArgumentError(f"apply() has no argument {unknown[0]!r:.200}")
        flag(filter_empty=filter_empty is not None and filter_empty)
        for other in others:
            if isinstance(other, TensorCollection):
                self._meet(other, "apply")
        even = batch_size if self._stacked else _even_dims(batch_size)
        size = self._batch_size if batch_size is None else as_batch_size(even)
        if mapper.inplace:
            return self._write_mapped(mapper, others)
        result = self._map(mapper, others, (), None if batch_size is None else size, filter_empty)
        if result is None:
            return None
        if even is not batch_size:
            _require_ragged(result, batch_size)
        if names is not UNSET:
            result.names = names
        elif size == self._batch_size:
            result._names = self._names if names is UNSET else check_names(names, len(size))
        if device is not UNSET:
            result = result._on(as_device(device))
        if out is not None:
            return MappingOps.update(out, result)
        return self._lock_alike(result) if propagate_lock else result

    def _map_plain(self, leaves: list[Tensor], fn: Callable[[Tensor], Any]) -> Any:
        """The common call, on a container that holds only tensors."""
        new = [fn(leaf) for leaf in leaves]
        imposed, typed = self._device is not None, self._layered
        entries = {} if typed and _have_same_layout(leaves, new, imposed) else dict(zip(self._live(), new, strict=True))
        if not entries or (not (typed or imposed) and all_begin_with(self._batch_size, entries)):
            return self._refill(new, self._batch_size, self._names, VALUES)
        if not all([isinstance(value, Tensor) for value in entries.values()]):
            entries = {key: _leaf(value) for key, value in entries.items() if value is not None}
            if not entries:
                return None
        return self._mapped(entries, self._batch_size, ())

    def _map(
        self, mapper: Mapper, others: Sequence[Any], path: Path, size: torch.Size | None, filter_empty: bool | None
    ) -> Any:
        """A twin around mapped entries; None if nothing is left and empty containers are dropped.

        `size` is the new batch size of this container and of those in it; None if each keeps its own.
        """
        if self._stacked:
            found = self._run_on_stack("_map_members", mapper, others, path, size, filter_empty)
            typed = self._layered and found is not None
            return self._validated_stack(found, path) if typed else found  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a typed class
        entries: dict[str, Any] = {}
        own = self._batch_size if size is None else size
        called = dropped = False
        for key, value in self._entries().items():
            here = (*path, key)
            if mapper.leafs(value):
                called = True
                new = mapper.call(here, value, mapper.counterparts(key, here, others))
                dropped = dropped or new is None
            elif isinstance(value, ApplyOps):
                new = value._map(mapper, mapper.counterparts(key, here, others), here, size, filter_empty)
                called = True
            else:
                objects = isinstance(value, TensorEntry)
                entries[key] = value._make([], own, None, VALUES) if objects else value
                continue
            if new is not None:
                entries[key] = new
        emptied = called and dropped if filter_empty is None else filter_empty
        if emptied and not entries:
            return None
        return self._mapped(entries, own, path)

    def _mapped(self, entries: dict[str, Any], size: torch.Size, path: Path) -> Any:
        """A twin around entries that a function returned.

        Their batch dims are checked; a typed class checks its schema.
        """
        device = self._device
        if device is not None and any(getattr(value, "device", device) != device for value in entries.values()):
            device = None  # the function moved a leaf: the result has no device
        names = self._names if size == self._batch_size else None
        if self._layered:
            return self._validated(entries, size, path, device, names)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a typed class
        last: torch.Size = size
        for key, value in entries.items():
            if type(value) is Tensor and value.is_nested:
                value = entries[key] = as_jagged_layout(key, value)
            shape = value.shape if isinstance(value, Tensor) else _batch_dims_of(value, last)
            if shape != last and shape[: len(size)] != size:
                raise BatchSizeError(
                    f"apply: `{join_path((*path, key))}` came back with shape {list(shape)}, whose leading dims are "
                    f"not the batch size {list(size)}; give `batch_size=` when the function changes it"
                )
            last = shape
        return self._from_entries(entries, size, device, names)

    def _write_mapped(self, mapper: Mapper, others: Sequence[Any]) -> Self:
        """Write results in place: results that are the leaves themselves are kept, others are copied into them."""
        plans = self._plan_mapped(mapper, others)
        steps = [step for holder, _, rest in plans if rest for step in holder._update_steps(rest)]
        with sharing():
            publish([*copy_steps([copy for _, plan, _ in plans for copy in plan]), *steps])
        return self

    def _plan_mapped(
        self, mapper: Mapper, others: Sequence[Any], prefix: Path = ()
    ) -> list[tuple[Any, Any, dict[Path, Any]]]:
        """The checked writes of an `apply` in place: containers, their copies, and new entries."""
        if self._stacked:
            self._refuse_frozen("write in place", "")
            return self._run_on_stack("_plan_mapped_members", mapper, others, prefix)  # type: ignore[no-any-return]  # a plan
        found: dict[Path, Any] = {}
        stacks: list[tuple[Any, Any, dict[Path, Any]]] = []
        self._collect(mapper, others, prefix, found, stacks)
        copied: dict[Path, Any] = {}
        replaced: dict[Path, Any] = {}
        for path, (old, new) in found.items():
            if new is not None and new is not old:
                fits = isinstance(new, Tensor) and new.shape == old.shape
                (copied if fits else replaced)[path[len(prefix) :]] = new
        return [(self, self._plan(copied, (), None, None, None), replaced), *stacks]

    def _collect(
        self, mapper: Mapper, others: Sequence[Any], path: Path, results: dict[Path, Any], stacks: list[Any]
    ) -> None:
        """Collect the old and the new value of each entry, and the plans of lazy stacks, before anything is written."""
        for key, value in self._entries().items():
            here = (*path, key)
            found = mapper.counterparts(key, here, others) if others else []
            if mapper.leafs(value):
                shown = value._read_value() if is_shared(value) else value
                new = mapper.call(here, value, found)
                if self._afar and new is value and isinstance(new, Tensor):
                    new = new.detach()  # the function may have written to the copy, which is then not the entry
                results[here] = (shown, new._read_value() if is_shared(new) else new)  # pyright: ignore[reportAttributeAccessIssue]  # a container
            elif isinstance(value, ApplyOps) and value._stacked:
                stacks += value._plan_mapped(mapper, found, here)
            elif isinstance(value, ApplyOps):
                value._collect(mapper, found, here, results, stacks)

    def _lock_alike(self, result: Any) -> Any:
        """Lock a result if this container is locked."""
        if self._owners() is not None:
            relock(result)
        return result

    def _on(self, device: torch.device | None) -> Self:
        raise NotImplementedError

    def auto_batch_size_(self, batch_dims: int | None = None, keep_compliant_size: bool = False) -> Self:
        """Set the batch size to the longest leading shape that all leaves share, in place; nested ones get their own.

        Args:
            batch_dims: at most this many dims.
            keep_compliant_size: don't change nested batch sizes with `batch_dims` dims or more.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3, 4), b=torch.zeros(3)).auto_batch_size_().batch_size
        torch.Size([3])
        """
        if not isinstance(batch_dims, (int, type(None))):
            raise ArgumentError(f"auto_batch_size_: batch_dims is a number of dims or None, got {batch_dims!r}")
        self._require_unlocked("change the batch size")
        twin = self._twin()
        ApplyOps._guess_sizes(twin, batch_dims, keep_compliant_size)
        publish(taken_over(self, twin))
        return self

    def _guess_sizes(self, batch_dims: int | None, keep_compliant_size: bool) -> None:
        """Set the batch size to the leading dims that all leaves share, at each level."""
        for value in self._entries().values():
            kept = keep_compliant_size and batch_dims is not None
            if isinstance(value, ApplyOps) and not (kept and len(value._batch_size) >= (batch_dims or 0)):
                value._guess_sizes(batch_dims, keep_compliant_size)
        leaves = self._solid()._leaves()
        shared: list[int] = []
        for sizes in zip(*[leaf.shape for leaf in leaves], strict=False):
            if len(set(sizes)) != 1 or len(shared) == batch_dims:
                break
            shared.append(sizes[0])
        if leaves and torch.Size(shared) != self._batch_size:
            self._resize(torch.Size(shared), ())


def _batch_dims_of(value: Any, otherwise: torch.Size) -> torch.Size:
    """The batch dims of a nested container or a stack of objects; `otherwise` for other entries."""
    size = value._batch_size if isinstance(value, TensorCollection) else batch_shape(value)
    return otherwise if size is None else size


def _expanded_as(path: Any, leaf: Any, like: Any) -> Any:
    """A leaf with the shape of another one, if there is one."""
    if not isinstance(like, Tensor) or like.is_nested or leaf.is_nested or leaf.shape == like.shape:
        return leaf
    try:
        return leaf.expand(like.shape)
    except RuntimeError:
        where = path if isinstance(path, str) else join_path(path)
        raise StructureError(
            f"expand_as: `{where}` of shape {list(leaf.shape)} does not broadcast to {list(like.shape)}"
        ) from None
