"""Device moves and dtype casts. A move or cast that changes nothing gives a new container around the same tensors."""

# Operations call each other past the instance: pyright takes what they return for the mixin, mypy for Self as it is.
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from typing_extensions import Self

from ..core import STORAGE, VALUES, TensorCollection, as_batch_size
from ..core._device import Device, as_device
from ..errors import UnsupportedOperationError
from ._apply import ApplyOps
from ._casts import CastMethods
from ._mapping import MappingOps
from ._undo import CAST

_CONVERSIONS: Final[dict[torch.dtype, Callable[[Tensor], Tensor]]] = {
    torch.float64: Tensor.double,
    torch.float32: Tensor.float,
    torch.float16: Tensor.half,
    torch.bfloat16: Tensor.bfloat16,
    torch.int64: Tensor.long,
    torch.int32: Tensor.int,
}
"""Methods that do what `to(dtype)` does, without its parsing of arguments, which takes as long as a small copy."""


class DeviceOps(CastMethods, ApplyOps):
    """`to`, `cuda`, `cpu`, pinning, casts."""

    __slots__ = ()

    def _on(self, device: torch.device | None, non_blocking: bool = False) -> Self:
        """A twin whose leaves live on a device; None imposes none and moves nothing."""
        if device == self._device:
            return self._twin()
        leaves = self._leaves(STORAGE)
        here = device is None or _all_on(leaves, device)
        if here:
            result = self._twin()
        else:
            moved = [v if v.device == device else v.to(device, non_blocking=non_blocking) for v in leaves]
            result = self._make(moved, self._batch_size, self._names, STORAGE)
        result._set_device(device)
        return result

    def _cast(self, dtype: torch.dtype, cast_filter: Callable[[Any, Tensor], bool] | None = None) -> Self:
        """A twin whose leaves have a dtype; a filter of path and leaf says which ones are cast."""
        leaves = self._leaves(VALUES)
        if all([leaf.dtype is dtype for leaf in leaves]):
            return self._twin()
        else:
            wanted = self._castable(leaves, dtype)
            if cast_filter is not None:
                items = MappingOps.items(self, True, True)
                keys = [key if isinstance(key, tuple) else (key,) for key, value in items if isinstance(value, Tensor)]
                chosen = [bool(cast_filter(key, leaf)) for key, leaf in zip(keys, leaves, strict=True)]
                wanted = [a and b for a, b in zip(wanted, chosen, strict=True)]
            convert = _CONVERSIONS.get(dtype)
            if convert is None:
                convert = partial(Tensor.to, dtype=dtype)
            leaves = [convert(v) if cast else v for v, cast in zip(leaves, wanted, strict=True)]
        return self._make(leaves, self._batch_size, self._names, VALUES)

    @CAST
    def to(
        self, *args: Tensor | TensorCollection | torch.dtype | Device, device: Device = None,
        dtype: torch.dtype | None = None, non_blocking: bool = False,
        batch_size: Sequence[int] | None = None, other: Any = None, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Move to a device, cast to a dtype, or both.

        Args:
            *args: a device, a dtype, a tensor or a container to match, in any order.
            device: where the leaves go; also imposed on later writes.
            dtype: what the leaves become: all of an untyped container, floating ones of a typed class.
            non_blocking: whether copies may be asynchronous; the caller synchronises then.
            batch_size: another batch size for the result.
            other: a tensor or container whose device and dtype are taken.

        Raises:
            CastError: when a typed class declares another dtype.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), batch_size=[2]).to(torch.float64)["a"].dtype
        torch.float64
        """
        if len(args) == 1 and dtype is None and device is None and batch_size is None and other is None and not kwargs:
            if type(args[0]) is torch.dtype:
                return self._cast(args[0])
            if type(args[0]) in (str, torch.device):
                return self._on(as_device(args[0]), non_blocking)  # type: ignore[arg-type]  # by its type a device
        for arg in (*args, other):
            if isinstance(arg, torch.dtype):
                dtype = arg
            elif isinstance(arg, (Tensor, TensorCollection)):
                device = arg.device if device is None else device
                dtype = getattr(arg, "dtype", None) if dtype is None else dtype
            elif isinstance(arg, bool):
                non_blocking = arg
            elif arg is not None:
                device = arg
        if kwargs:
            raise TypeError(
                f"to() has no argument {sorted(kwargs)[0]!r}; it takes device, dtype, non_blocking, batch_size"
            )
        result = self
        if dtype is not None:
            result = result._cast(dtype)
        if device is not None:
            result = result._on(as_device(device), non_blocking)
        if batch_size is not None:
            result = MappingOps.copy(result)
            result._resize(as_batch_size(batch_size), ())
        return result if result is not self else self._twin()

    def cuda(self, device: int | str | torch.device | None = None, **kwargs: Any) -> Self:
        """Move to a CUDA device; the current one when none is given."""
        target = torch.device("cuda", device) if isinstance(device, int) else device or "cuda"
        return DeviceOps.to(self, target, **kwargs)

    def cpu(self, **kwargs: Any) -> Self:
        """Move to the CPU; synchronous unless `non_blocking=True`."""
        return DeviceOps.to(self, "cpu", **kwargs)

    def type(self, dst_type: torch.dtype, *, cast_filter: Callable[[Any, Tensor], bool] | None = None) -> Self:
        """Cast to a dtype; a filter of path and leaf says which leaves are cast."""
        return self._cast(dst_type, cast_filter)

    def pin_memory(self, num_threads: int | None = None, inplace: bool = False) -> Self:
        """A container of pinned copies, which move to an accelerator asynchronously.

        Args:
            num_threads: accepted for compatibility; pinning releases the GIL in torch itself.
            inplace: take the result over instead of making a new container.
        """
        pinned = [leaf if leaf.is_pinned() else leaf.pin_memory() for leaf in self._leaves(STORAGE)]
        result = self._make(pinned, self._batch_size, self._names, STORAGE)
        return self._become(result) if inplace else result

    def pin_memory_(self, num_threads: int = 0) -> Self:
        """Pin the leaves, in place."""
        return DeviceOps.pin_memory(self, num_threads, inplace=True)

    def auto_device_(self) -> Self:
        """Impose the device that all leaves share, in place; none when they differ."""
        devices = {leaf.device for leaf in self._leaves(STORAGE)}
        self._set_device(next(iter(devices)) if len(devices) == 1 else None)
        return self

    def clear_device_(self) -> Self:
        """Stop imposing a device on writes, in place; nothing moves."""
        self._set_device(None)
        return self

    def record_stream(self, stream: Any) -> Self:
        """Mark the leaves as used by a CUDA stream, so that their memory is not reused too early."""
        for leaf in self._leaves(STORAGE):
            leaf.record_stream(stream)
        return self

    def _all_on(self, kind: str) -> bool:
        return self._device is not None and self._device.type == kind

    @property
    def is_cuda(self) -> bool:
        """Whether the imposed device is a CUDA device."""
        return self._all_on("cuda")

    @property
    def is_cpu(self) -> bool:
        """Whether the imposed device is the CPU."""
        return self._all_on("cpu")

    @property
    def is_meta(self) -> bool:
        """Whether the imposed device is the meta device."""
        return self._all_on("meta")

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype that all leaves share; None when they differ or there are none.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), batch_size=[2]).dtype
        torch.float32
        """
        dtypes = {leaf.dtype for leaf in self._leaves(VALUES)}
        return next(iter(dtypes)) if len(dtypes) == 1 else None

    def is_floating_point(self) -> bool:
        """Whether every leaf has a floating dtype."""
        return all(leaf.is_floating_point() for leaf in self._leaves(VALUES))

    def as_tensor(self) -> Self:
        """A container whose tensor subclasses are plain tensors."""
        plain = [leaf.as_subclass(Tensor) if type(leaf) is not Tensor else leaf for leaf in self._leaves(STORAGE)]
        return self._make(plain, self._batch_size, self._names, STORAGE)

    def bytes(self, *, count_duplicates: bool = True) -> int:
        """The memory of the leaves in bytes.

        Args:
            count_duplicates: count a tensor that stands in several entries each time.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), batch_size=[2]).bytes()
        8
        """
        leaves = self._leaves(STORAGE)
        if not count_duplicates:
            leaves = list({leaf.data_ptr(): leaf for leaf in leaves}.values())
        return sum(leaf.numel() * leaf.element_size() for leaf in leaves)

    def param_count(self, *, count_duplicates: bool = True) -> int:
        """The number of elements of all leaves.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2, 3), batch_size=[2]).param_count()
        6
        """
        leaves = self._leaves(VALUES)
        if not count_duplicates:
            leaves = list({leaf.data_ptr(): leaf for leaf in leaves}.values())
        return sum(leaf.numel() for leaf in leaves)

    def data_ptr(self, *, storage: bool = False) -> Any:
        """The addresses of the leaves, as a container of int64 scalars.

        Args:
            storage: the address of the storage rather than of the first element.
        """
        if any(leaf.device.type == "meta" for leaf in self._leaves(STORAGE)):
            raise UnsupportedOperationError("data_ptr: meta tensors have no address")
        result = self._bare(torch.Size([]))
        for key, value in self._entries().items():
            if isinstance(value, DeviceOps):
                result._put(key, DeviceOps.data_ptr(value, storage=storage))
            elif isinstance(value, Tensor):
                address = value.untyped_storage().data_ptr() if storage else value.data_ptr()
                result._put(key, torch.tensor(address))
        return result

    def attrs(self, *, fields: Sequence[str] = ("device", "dtype", "shape"), num_threads: int | None = None) -> Any:
        """A container that says of each leaf its device, dtype and shape, as a plain dict.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), batch_size=[2]).attrs(fields=("dtype",))["a"]
        {'dtype': torch.float32}
        """
        unknown = sorted(set(fields) - {"device", "dtype", "shape"})
        if unknown:
            raise ValueError(f"attrs: fields are device, dtype and shape, got {unknown[0]!r}")
        result = self._bare(torch.Size([]))
        for key, value in self._entries().items():
            if isinstance(value, DeviceOps):
                result._put(key, DeviceOps.attrs(value, fields=fields))
            elif isinstance(value, Tensor):
                result._put(key, {field: getattr(value, field) for field in fields})
        return result


def _all_on(leaves: Sequence[Tensor], device: torch.device) -> bool:
    """Whether every leaf lives on a device."""
    if device.type == "cpu":
        return all([leaf.is_cpu for leaf in leaves])
    return all([leaf.device == device for leaf in leaves])
