"""Containers of the same structure with new leaves: `new_zeros`, `zeros_like` and related functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from .._flags import flags
from .._operations import LIKE
from ..core import VALUES, Device, Entry, Key, Sizes, as_batch_size, as_device, join_path, walk
from ..errors import StructureError, UnsupportedOperationError
from ._apply import ApplyOps
from ._device import DeviceOps
from ._mapping import UNSET, MappingOps
from ._operands import show


@flags
class NewOps(DeviceOps):
    """Methods that make new leaves with the structure of this container."""

    __slots__ = ()

    def _fresh(self, size: Any, make: Callable[[Tensor, torch.Size], Tensor], device: Device) -> Self:
        """A container of the same entries with a batch size, whose leaves `make` makes."""
        if self._stacked:
            return self._run_on_stack("_fresh_members", size, make, device)  # type: ignore[no-any-return]  # of this class
        target = as_batch_size(size)
        dims = len(self._batch_size)
        leaves: list[Tensor] = []
        twin = (self if target == self._batch_size else self._solid())._open(leaves, VALUES)
        batched = {id(leaf) for leaf in twin._leaves()}
        carry = [id(leaf) in batched for leaf in leaves]
        new = [
            make(leaf, target + leaf.shape[dims:] if carried else leaf.shape)
            for leaf, carried in zip(leaves, carry, strict=True)
        ]
        if any([made.dtype is not leaf.dtype for made, leaf in zip(new, leaves, strict=True)]):
            shapes = [
                torch.empty(v.shape, dtype=made.dtype, device="meta") for v, made in zip(leaves, new, strict=True)
            ]
            twin._accept(leaves, shapes, "new")  # event shapes are unchanged, for any batch size
        if twin._plain or (False not in carry and len(twin._leaves()) == len(leaves)):
            result = twin._refill(new, target)
        else:  # the index of objects: every element gets the common object
            if target == self._batch_size:
                result = twin
            else:
                _require_one_object(twin, target)
                result = twin._make(
                    [_repeat_first(leaf, target + leaf.shape[dims:]) for leaf in twin._leaves()], target
                )
            result = result._refill(new, target, None, VALUES)
        if device is not UNSET:
            result._set_device(as_device(device))
        return result

    def _options(
        self, dtype: torch.dtype | None, device: Device, requires_grad: bool, layout: Any, pin_memory: bool | None
    ) -> dict[str, Any]:
        options: dict[str, Any] = {"requires_grad": requires_grad}
        if dtype is not None:
            options["dtype"] = dtype
        if device is not UNSET and device is not None:
            options["device"] = as_device(device)
        if layout is not torch.strided:
            options["layout"] = layout
        if pin_memory:
            options["pin_memory"] = True
        return options

    def new_zeros(
        self,
        *size: Sizes,
        dtype: torch.dtype | None = None,
        device: Device = UNSET,
        requires_grad: bool = False,
        layout: Any = torch.strided,
        pin_memory: bool | None = None,
        empty_lazy: bool = False,
    ) -> Self:
        """A container of the same structure, with a new batch size, filled with zeros.

        Args:
            *size: the batch size, as ints or one sequence.
            dtype: another dtype for all leaves.
            device: another device.
            requires_grad: whether the leaves require grad.
            layout: the memory layout of the leaves.
            pin_memory: whether the leaves are pinned.
            empty_lazy: accepted for compatibility.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.ones(2, 3), batch_size=[2]).new_zeros(1)["a"]
        tensor([[0., 0., 0.]])
        """
        options = self._options(dtype, device, requires_grad, layout, pin_memory)
        return self._fresh(_size(size), lambda leaf, shape: leaf.new_zeros(shape, **options), device)

    def new_ones(
        self,
        *size: Sizes,
        dtype: torch.dtype | None = None,
        device: Device = UNSET,
        requires_grad: bool = False,
        layout: Any = torch.strided,
        pin_memory: bool | None = None,
        empty_lazy: bool = False,
    ) -> Self:
        """A container of the same structure, with a new batch size, filled with ones; see `new_zeros`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3, 2), batch_size=[3]).new_ones(1)["a"]
        tensor([[1., 1.]])
        """
        options = self._options(dtype, device, requires_grad, layout, pin_memory)
        return self._fresh(_size(size), lambda leaf, shape: leaf.new_ones(shape, **options), device)

    def new_empty(
        self,
        *size: Sizes,
        dtype: torch.dtype | None = None,
        device: Device = UNSET,
        requires_grad: bool = False,
        layout: Any = torch.strided,
        pin_memory: bool | None = None,
        empty_lazy: bool = False,
    ) -> Self:
        """A container of the same structure, with a new batch size, uninitialized; see `new_zeros`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3, 2), batch_size=[3]).new_empty(5)["a"].shape
        torch.Size([5, 2])
        """
        options = self._options(dtype, device, requires_grad, layout, pin_memory)
        return self._fresh(_size(size), lambda leaf, shape: leaf.new_empty(shape, **options), device)

    def new_full(
        self,
        size: Sequence[int],
        fill_value: Any,
        *,
        dtype: torch.dtype | None = None,
        device: Device = UNSET,
        requires_grad: bool = False,
        layout: Any = torch.strided,
        pin_memory: bool | None = None,
        empty_lazy: bool = False,
    ) -> Self:
        """A container of the same structure, with a new batch size, filled with a number; see `new_zeros`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3, 2), batch_size=[3]).new_full([1], 7)["a"]
        tensor([[7., 7.]])
        """
        options = self._options(dtype, device, requires_grad, layout, pin_memory)
        return self._fresh(size, lambda leaf, shape: leaf.new_full(shape, fill_value, **options), device)

    def new_tensor(
        self,
        data: Any,
        *,
        dtype: torch.dtype | None = None,
        device: Device = UNSET,
        requires_grad: bool = False,
        pin_memory: bool | None = None,
    ) -> Any:
        """A container in which each leaf is `leaf.new_tensor(data)`: a copy of the data in the dtype of the leaf.

        Args:
            data: the data for every leaf, whose shape is the batch size; or a container with data for each leaf.
            dtype: another dtype for all leaves.
            device: another device.
            requires_grad: whether the leaves require grad.
            pin_memory: whether the leaves are pinned.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.ones(2, dtype=torch.int64), batch_size=[2]).new_tensor([1.0, 2.0])["a"]
        tensor([1, 2])
        """
        where = self._device if device is UNSET else as_device(device)

        def copied(leaf: Tensor, source: Any) -> Tensor:
            source = source.detach() if isinstance(source, Tensor) else source
            new = torch.as_tensor(source, dtype=dtype or leaf.dtype, device=where or leaf.device)
            new = new.clone() if new is source else new
            return (new.pin_memory() if pin_memory else new).requires_grad_(requires_grad)

        if isinstance(data, NewOps):
            result = ApplyOps.apply(self, copied, data, batch_size=data._batch_size)
        else:
            size = torch.as_tensor(data).shape
            result = ApplyOps.apply(self, lambda leaf: copied(leaf, data), batch_size=size)
        if device is not UNSET:
            result._set_device(where)
        return result

    @classmethod
    def fromkeys(cls, keys: Sequence[Key], value: Any = 0) -> Self:
        """A container without batch dims, with the same value under each key.

        >>> from tensorclass import TensorDict
        >>> TensorDict.fromkeys(["a", "b"], 1)["b"]
        tensor(1)
        """
        result = cls()
        for key in keys:
            MappingOps.set(result, key, value)
        return result


def _require_one_object(container: NewOps, size: torch.Size) -> None:
    """Refuse per-element objects that differ, since it is undefined which of them new elements get."""
    for path, value, _ in walk(container):
        if isinstance(value, Entry) and value._holds_object and size.numel() and getattr(value, "shape", None):
            try:
                value.data  # noqa: B018  # raises unless all objects are the same
            except ValueError:
                raise StructureError(
                    f"new: `{join_path(path)}` holds one object for each element, and they differ, so that those "
                    f"of a batch of size {list(size)} have none to take; leave it out with `exclude` or "
                    "`filter_non_tensor_data`, or index what has the elements"
                ) from None


def _repeat_first(leaf: Tensor, shape: torch.Size) -> Tensor:
    """Repeat the first element over a shape."""
    return leaf.reshape(-1)[0].expand(shape).clone() if leaf.numel() else leaf.new_zeros(shape)


def _size(size: tuple[Any, ...]) -> Any:
    return size[0] if len(size) == 1 and not isinstance(size[0], int) else size


def map_like_function(fn: Callable[..., Tensor]) -> Callable[..., Any]:
    """Map a torch function such as `zeros_like` over the leaves; a given device becomes that of the container."""

    def handler(input: NewOps, *args: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> Any:
        if dtype is None and not args and not kwargs and input._plain:
            return input._lock_alike(input._each(fn, input._batch_size, input._names, VALUES))
        device = as_device(kwargs.get("device"))
        if device is not None:
            kwargs["device"] = device
        leaves: list[Tensor] = []
        twin = input._open(leaves, VALUES)
        new: list[Tensor] = []
        for position, leaf in enumerate(leaves):
            try:
                new.append(fn(leaf, *args, dtype=dtype or leaf.dtype, **kwargs))
            except (RuntimeError, NotImplementedError) as error:
                path = show(twin._layout()[position])
                raise UnsupportedOperationError(
                    f"torch.{fn.__name__}: `{path}` of {leaf.dtype} and shape {list(leaf.shape)}: {error}"
                ) from error
        twin._accept(leaves, new, fn.__name__, ... if dtype else None)  # the shapes are those of the leaves
        result = twin._refill(new, twin._batch_size, twin._names, VALUES)
        if device is not None:
            result._set_device(device)
        return input._lock_alike(result)

    return handler


HANDLERS: dict[Any, Callable[..., Any]] = {fn: map_like_function(fn) for fn in (getattr(torch, name) for name in LIKE)}
