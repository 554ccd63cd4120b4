"""Device moves and dtype casts. A move or cast without effect returns a new container around the same tensors."""

# Operations call each other through the class: pyright infers the mixin as their result, mypy infers Self.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor
from typing_extensions import Self

from .._flags import flag, flags
from ..core import (
    ABSENT,
    CPU,
    STORAGE,
    VALUES,
    Device,
    Entry,
    Path,
    TensorCollection,
    as_batch_size,
    as_device,
    described,
    rebuilt,
    typed_within,
    walk,
)
from ..errors import ArgumentError, CastError, UnsupportedOperationError
from ._apply import ApplyOps
from ._attrs import CastFilter, TensorAttrs
from ._casts import CastMethods
from ._mapping import MappingOps
from ._one_block import block_of, block_views, can_move_whole
from ._undo import CAST

_CONVERSIONS: Final[dict[torch.dtype, Callable[[Tensor], Tensor]]] = {
    torch.float64: Tensor.double,
    torch.float32: Tensor.float,
    torch.float16: Tensor.half,
    torch.bfloat16: Tensor.bfloat16,
    torch.int64: Tensor.long,
    torch.int32: Tensor.int,
}
"""Methods equivalent to `to(dtype)`, whose argument parsing takes as long as a small copy."""


def _converted_leaves(container: TensorCollection, leaves: Sequence[Tensor], dtype: torch.dtype) -> list[bool]:
    """Which `VALUES` leaves a cast converts: in typed instances the floating ones, if declarations allow it."""
    wanted = [True] * len(leaves)
    for path, typed, at in typed_within(container):
        try:
            wanted[at] = typed._castable(leaves[at], dtype)
        except CastError as error:
            raise CastError(f"`{path}`: {error}" if path else str(error)) from None
    return wanted


@flags
class DeviceOps(CastMethods, ApplyOps):
    """`to`, `cuda`, `cpu`, pinning, casts."""

    __slots__ = ()

    def _on(self, device: torch.device | None, non_blocking: bool = False) -> Self:
        """A twin with leaves on a device, a block copied whole; None sets no device and moves nothing."""
        if self._layered and not self._stacked:
            return self._wrap(self._store._on(device, non_blocking))  # type: ignore[attr-defined,no-any-return]  # pyright: ignore[reportAttributeAccessIssue]  # a class over a store
        if device == self._device:
            return self._twin()
        result = self._twin()
        leaves = [] if device is None else result._leaves(STORAGE)
        if device is not None and not _all_on(leaves, device):
            block = block_of(leaves) if can_move_whole(leaves) else None
            if block is None:
                to = partial(Tensor.to, device=device, non_blocking=non_blocking)
                result = result._each(to, result._batch_size, result._names, STORAGE)
            else:
                shapes = [(leaf.dtype, leaf.shape) for leaf in leaves]
                views = block_views(block.to(device, non_blocking=non_blocking), shapes)
                result = result._make(views, result._batch_size, result._names, STORAGE)
        result._set_device(device)
        return result

    def _cast(self, dtype: torch.dtype, cast_filter: CastFilter = None) -> Self:
        """A twin with leaves of a dtype; `cast_filter(path, leaf)` selects the leaves to cast."""
        if not isinstance(dtype, torch.dtype):
            raise ArgumentError(f"a cast takes a dtype, such as `torch.float32`, got {described(dtype)}")
        leaves: list[Tensor] = []
        finished = self._pair_leaves(self, leaves, [])  # None if there are entry nodes or stacks
        twin = self._open(leaves := [], VALUES) if finished is None else finished
        if [leaf.dtype for leaf in leaves].count(dtype) == len(leaves):
            return self._twin() if finished is None else finished
        if cast_filter is not None and self._stacked:
            return self._cast_members("_cast", dtype, cast_filter)
        if cast_filter is None:
            wanted = _converted_leaves(twin, leaves, dtype)
        else:
            wanted = [bool(cast_filter(path, leaf)) for path, leaf in zip(twin._paths(), leaves, strict=True)]
        convert = _CONVERSIONS.get(dtype)
        if convert is None:
            convert = partial(Tensor.to, dtype=dtype)
        new = [convert(v) if cast else v for v, cast in zip(leaves, wanted, strict=True)]
        if cast_filter is not None:  # the filter decides, so check the declaration for the result
            twin._accept(leaves, new, "a cast")
        return twin._refill(new, twin._batch_size, twin._names, VALUES)

    def _paths(self) -> list[Path]:
        return [(path,) if isinstance(path, str) else path for path in self._layout()]

    if TYPE_CHECKING:

        def _layout(self) -> Any: ...

    def _cast_members(self, name: str, *args: Any) -> Self:
        """Delegate a cast by path to the members of a stack."""
        result: Self = self._run_on_stack("_each_member_by", name, *args)
        self._accept(self._leaves(VALUES), result._leaves(VALUES), "a cast")
        return result

    def _cast_each(self, attrs: dict[Path, TensorAttrs], non_blocking: bool) -> Self:
        """A twin whose leaves have the device and dtype given for their paths; other leaves are unchanged."""
        if self._stacked:
            return self._cast_members("_cast_each", attrs, non_blocking)
        leaves: list[Tensor] = []
        twin = self._open(leaves, VALUES)
        wanted = [attrs.get(path) for path in twin._paths()]
        new = [v if to is None else to._cast(v, non_blocking) for v, to in zip(leaves, wanted, strict=True)]
        twin._accept(leaves, new, "a cast")
        result = twin._refill(new, self._batch_size, self._names, VALUES)
        if self._device is not None and not _all_on(new, self._device):
            result._set_device(None)
        return result

    @CAST
    def to(
        self,
        *args: Tensor | TensorCollection | torch.dtype | Device,
        device: Device = None,
        dtype: torch.dtype | None = None,
        non_blocking: bool | None = None,
        batch_size: Sequence[int] | None = None,
        other: Any = None,
        memory_format: torch.memory_format | None = None,
        cast_filter: CastFilter = None,
        non_blocking_pin: bool = False,
        num_threads: int | None = None,
        inplace: bool = False,
    ) -> Self:
        """Move to a device, cast to a dtype, or both.

        Args:
            *args: a device, a dtype, a tensor or a container to match, in any order; or a result of `attrs()`.
            device: the device of the leaves, and of later writes.
            dtype: the new dtype: of all leaves in an untyped container, of floating leaves in a typed class.
            non_blocking: True for asynchronous copies, for which the caller must wait; else they end before the return.
            batch_size: another batch size for the result.
            other: a tensor or container whose device and dtype are used.
            memory_format: as for `nn.Module.to`.
            cast_filter: selects the leaves to cast by path and leaf, such as `is_inexact`; all leaves are moved.
            non_blocking_pin: pin leaves before they are copied to an accelerator.
            num_threads: accepted for compatibility; torch releases the GIL while it pins.
            inplace: change this container instead of making a new one.

        Raises:
            CastError, LockedError: for a dtype that a typed class does not allow; for `inplace` on a locked container.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), batch_size=[2]).to(torch.float64)["a"].dtype
        torch.float64
        """
        if not (inplace is non_blocking_pin is False and non_blocking is None):
            blocking = False if non_blocking is None else non_blocking
            flag(inplace=inplace, non_blocking_pin=non_blocking_pin, non_blocking=blocking)
        plain = device is None and dtype is None and batch_size is None and other is None
        bare = memory_format is None and cast_filter is None and not (inplace or non_blocking_pin)
        if plain and bare and len(args) == 1:
            if type(args[0]) is torch.dtype:
                return self._cast(args[0])
            if type(args[0]) in (str, torch.device):
                return self._on(as_device(args[0]), bool(non_blocking))  # type: ignore[arg-type]  # typed as a device
        each, device, dtype, non_blocking = _merge_arguments((*args, other), device, dtype, non_blocking)
        result = self._cast_each(each, bool(non_blocking)) if each else self
        if dtype is not None:
            result = result._cast(dtype, cast_filter)
        if device is not None:
            target = as_device(device)
            if non_blocking_pin and target is not None and target.type not in ("cpu", "meta"):
                result = DeviceOps.pin_memory(result, num_threads)
            result = result._on(target, bool(non_blocking))
        if memory_format is not None:
            result = result._in_memory_format(memory_format)
        if batch_size is not None:
            result = MappingOps.copy(result)
            result._resize(as_batch_size(batch_size), ())
        if inplace:
            self._become(result)._set_device(result._device)
            return self
        return result if result is not self else self._twin()

    def _in_memory_format(self, memory_format: torch.memory_format) -> Self:
        """A twin whose leaves of 4 and 5 dims have a memory format."""
        leaves: list[Tensor] = []
        twin = self._open(leaves, VALUES)
        new = [leaf.to(memory_format=memory_format) if leaf.ndim in (4, 5) else leaf for leaf in leaves]
        return twin._refill(new, twin._batch_size, twin._names, VALUES)

    def cuda(self, device: int | str | torch.device | None = None, **kwargs: Any) -> Self:
        """Move to a CUDA device; by default the current one.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2))
        >>> data = data.cuda() if torch.cuda.is_available() else data
        """
        target = torch.device("cuda", device) if isinstance(device, int) else device or "cuda"
        return DeviceOps.to(self, target, **kwargs)

    def cpu(self, **kwargs: Any) -> Self:
        """Move to the CPU; synchronous unless `non_blocking=True`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2)).cpu().device
        device(type='cpu')
        """
        return DeviceOps.to(self, "cpu", **kwargs)

    def type(self, dst_type: torch.dtype, *, cast_filter: CastFilter = None) -> Self:
        """Cast to a dtype; `cast_filter(path, leaf)` selects the leaves to cast.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2)).type(torch.float64)["a"].dtype
        torch.float64
        """
        return self._cast(dst_type, cast_filter)

    def pin_memory(self, num_threads: int | None = None, inplace: bool = False) -> Self:
        """A container of pinned copies, which move to an accelerator asynchronously.

        Args:
            num_threads: accepted for compatibility; torch releases the GIL while it pins.
            inplace: change this container instead of making a new one.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2))
        >>> if torch.cuda.is_available():
        ...     data = data.pin_memory().to("cuda", non_blocking=True)
        """
        leaves: list[Tensor] = []
        twin = self._open(leaves, STORAGE)
        pinned = [leaf if leaf.is_pinned() else leaf.pin_memory() for leaf in leaves]
        result = twin._refill(pinned, self._batch_size, self._names, STORAGE)
        return self._become(result) if inplace else result

    def pin_memory_(self, num_threads: int = 0) -> Self:
        """Pin the leaves, in place.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2))
        >>> data = data.pin_memory_() if torch.cuda.is_available() else data
        """
        return DeviceOps.pin_memory(self, num_threads, inplace=True)

    def auto_device_(self) -> Self:
        """Set the device to the one that all leaves share, in place; None if they differ.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2)).auto_device_().device
        device(type='cpu')
        """
        devices = {leaf.device for leaf in self._leaves(STORAGE)}
        self._set_device(next(iter(devices)) if len(devices) == 1 else None)
        return self

    def clear_device_(self) -> Self:
        """Set the device to None, in place: later writes are not moved. Existing leaves stay where they are.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> print(TensorDict(a=torch.zeros(2), device="cpu").clear_device_().device)
        None
        """
        self._set_device(None)
        return self

    def record_stream(self, stream: Any) -> Self:
        """Mark the leaves as used by a CUDA stream, so that their memory is not reused too early.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2))
        >>> if torch.cuda.is_available():
        ...     _ = data.cuda().record_stream(torch.cuda.current_stream())
        """
        for leaf in self._leaves(STORAGE):
            leaf.record_stream(stream)
        return self

    def _all_on(self, kind: str) -> bool:
        return self._device is not None and self._device.type == kind

    @property
    def is_cuda(self) -> bool:
        """Whether the container's device is a CUDA device.

        >>> from tensorclass import TensorDict
        >>> TensorDict(device="cpu").is_cuda
        False
        """
        return self._all_on("cuda")

    @property
    def is_cpu(self) -> bool:
        """Whether the container's device is the CPU.

        >>> from tensorclass import TensorDict
        >>> TensorDict(device="cpu").is_cpu, TensorDict().is_cpu
        (True, False)
        """
        return self._all_on("cpu")

    @property
    def is_meta(self) -> bool:
        """Whether the container's device is the meta device.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2)).to("meta").is_meta
        True
        """
        return self._all_on("meta")

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype that all leaves share; None if they differ or there are none.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), batch_size=[2]).dtype
        torch.float32
        """
        dtypes = {leaf.dtype for leaf in self._leaves(VALUES)}
        return next(iter(dtypes)) if len(dtypes) == 1 else None

    def is_floating_point(self) -> bool:
        """Whether every leaf has a floating dtype.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2)).is_floating_point(), TensorDict(a=torch.arange(2)).is_floating_point()
        (True, False)
        """
        return all(leaf.is_floating_point() for leaf in self._leaves(VALUES))

    def as_tensor(self) -> Self:
        """Convert tensor subclasses to plain tensors.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> mapped = TensorDict(a=torch.zeros(2)).memmap_()
        >>> type(mapped["a"]).__name__, type(mapped.as_tensor()["a"]).__name__
        ('MemoryMappedTensor', 'Tensor')
        """
        leaves: list[Tensor] = []
        twin = self._open(leaves, STORAGE)
        plain = [leaf.as_subclass(Tensor) if type(leaf) is not Tensor else leaf for leaf in leaves]
        return twin._refill(plain, self._batch_size, self._names, STORAGE)

    def bytes(self, *, count_duplicates: bool = True) -> int:
        """The memory of the leaves in bytes.

        Args:
            count_duplicates: count a tensor in several entries several times.

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
            storage: return addresses of storages rather than of first elements.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> a = torch.zeros(2)
        >>> TensorDict(a=a).data_ptr()["a"].item() == a.data_ptr()
        True
        """
        if any(leaf.device.type == "meta" for leaf in self._leaves(STORAGE)):
            raise UnsupportedOperationError("data_ptr: meta tensors have no address")

        def address(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return ABSENT
            return torch.tensor(value.untyped_storage().data_ptr() if storage else value.data_ptr())

        return _describe_entries(self, address)

    def attrs(self, *, fields: Sequence[str] = ("device", "dtype", "shape"), num_threads: int | None = None) -> Any:
        """Describe each tensor by a `TensorAttrs`, in a container without batch dims; `to(attrs)` casts to them.

        Args:
            fields: the attributes to include: any of device, dtype and shape.
            num_threads: accepted for compatibility.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), batch_size=[2]).attrs(fields=("dtype",))["a"]
        TensorAttrs(tgt_device=None, tgt_dtype=torch.float32, tgt_shape=None)
        """
        unknown = sorted(set(fields) - {"device", "dtype", "shape"})
        if unknown:
            raise ArgumentError(f"attrs: fields are device, dtype and shape, got {unknown[0]!r:.200}")

        def describe(value: Any) -> Any:
            shown = value._read_value() if isinstance(value, Entry) else value
            return TensorAttrs._of(shown, fields) if isinstance(shown, Tensor) else value

        result = _describe_entries(self, describe)
        result._set_device(None)
        return result


def _describe_entries(self: Any, describe: Callable[[Any], Any]) -> Any:
    """An untyped container without batch dims, with a description of each entry; `ABSENT` leaves it out."""
    return rebuilt(
        self,
        lambda leaf: describe(leaf.entry),
        lambda level, entries: level._dense._from_entries(entries, torch.Size([]), level._device, None),
    )


def _merge_arguments(
    args: tuple[Any, ...], device: Any, dtype: torch.dtype | None, non_blocking: bool | None
) -> tuple[dict[Path, TensorAttrs], Any, torch.dtype | None, bool | None]:
    """Merge the positional arguments of `to` with those given by name."""
    each: dict[Path, TensorAttrs] = {}
    for arg in args:
        if isinstance(arg, torch.dtype):
            _once("dtype", dtype, arg)
            dtype = arg
        elif isinstance(arg, TensorCollection) and (found := _attrs_in(arg)):
            each = found
        elif isinstance(arg, (Tensor, TensorCollection)):
            if device is not None and arg.device is not None and as_device(device) != arg.device:
                _once("device", device, arg.device)
            if isinstance(arg, Tensor) and arg.dtype is not dtype:
                _once("dtype", dtype, arg.dtype)
            device = arg.device if device is None else device
            dtype = getattr(arg, "dtype", None) if dtype is None else dtype
        elif isinstance(arg, bool):
            _once("non_blocking", non_blocking, arg)
            non_blocking = arg
        elif arg is not None:
            _once("device", device, arg)
            device = arg
    return each, device, dtype, non_blocking


def _once(what: str, first: Any, second: Any) -> None:
    if first is not None:
        raise ArgumentError(f"to: the {what} is given twice, as {first!r} and as {second!r}; give one")


def _attrs_in(container: TensorCollection) -> dict[Path, TensorAttrs]:
    return {path: value for path, value, _ in walk(container) if isinstance(value, TensorAttrs)}


def _all_on(leaves: Sequence[Tensor], device: torch.device) -> bool:
    """Whether every leaf is on a device."""
    if device == CPU:
        return False not in [leaf.is_cpu for leaf in leaves]
    return False not in [leaf.device == device for leaf in leaves]
