"""`MemoryMappedTensor`: a tensor over a file or over shared memory.

Processes send each other its location, not its values.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from typing_extensions import Self

from .._flags import flags
from .._places import local_path
from ..core import Path
from ..errors import ArgumentError, FileFormatError, StructureError, UnsupportedOperationError
from ._atomic import make_folder, open_file, replacing, reserve
from ._map import Extent, map_file, mapped
from ._memory import blank, buffer_of, tensor_over
from ._pack import PLAIN
from ._paths import StrPath
from ._write import ready


class FileMemory(NamedTuple):
    """The location of the bytes of a tensor; all its views share it."""

    path: str
    mode: str
    base: int
    """The address of the first byte of the file in this process."""


_MAPS: WeakValueDictionary[Any, Any] = WeakValueDictionary()
"""Maps that handles have opened in this process, so that many handles of one file share one map."""


@flags
class MemoryMappedTensor(Tensor):
    """A tensor on the CPU whose memory is a file, or shared memory if no file is given.

    Operations treat it as a plain tensor, and return plain tensors. Indexing with a view, `unbind`, `split` and `chunk`
    return mapped tensors over the same memory. Pickles, and tensors that are sent to another process, hold only a
    handle (path, offset, dtype, shape and strides); the receiver maps the file itself. Deep copies are plain tensors.
    Threads may share one, as they may share any tensor: writes to one element from two threads come in any order.

    Args:
        source: a tensor, which is copied if `filename` is given and otherwise shares its memory; the path of a file
            with raw values, which needs `dtype` and `shape`; or a storage.
        dtype: of the values in the file or the storage.
        shape: of the result.
        index: an index applied to the result.
        device: "cpu" or None.
        filename: the file to copy a tensor to.

    >>> import torch
    >>> from tensorclass import MemoryMappedTensor
    >>> x = MemoryMappedTensor.from_tensor(torch.arange(4.0), filename="x.memmap")
    >>> x[0] = 10.0
    >>> MemoryMappedTensor.from_filename("x.memmap", torch.float32, (4,))
    MemoryMappedTensor([10.,  1.,  2.,  3.])
    >>> type(MemoryMappedTensor.zeros(2, 3)[0]).__name__, type(x + 1).__name__
    ('MemoryMappedTensor', 'Tensor')
    """

    _source: FileMemory | None = None
    _key: Path = ()
    """The file or folder of its container, and its key there."""
    __torch_function__: ClassVar[Any] = torch._C._disabled_torch_function_impl  # as of parameters

    def __new__(
        cls,
        source: Any,
        *,
        dtype: torch.dtype | None = None,
        shape: Any = None,
        index: Any = None,
        device: Any = None,
        filename: StrPath | None = None,
    ) -> Self:
        """Map, copy or wrap a source; see the class."""
        _require_cpu(device)
        if isinstance(source, (str, os.PathLike)):
            if dtype is None or shape is None:
                raise ArgumentError("MemoryMappedTensor: a file of raw values needs dtype= and shape=")
            found = cls.from_filename(source, dtype, shape, index)
        elif isinstance(source, (torch.UntypedStorage, torch.TypedStorage)):
            found = cls.from_storage(source, shape=shape, dtype=dtype, index=index, filename=filename)
        elif not isinstance(source, Tensor):
            raise ArgumentError(f"MemoryMappedTensor takes a tensor, path or storage, got a {type(source).__name__}")
        elif dtype is not None:
            raise ArgumentError("MemoryMappedTensor: a tensor has its dtype; convert it first")
        elif filename is not None:
            found = _index_mapped(cls.from_tensor(source, filename=filename, shape=shape), index)
        else:
            found = _index_mapped(wrap(storable(source), None), index)
        return found  # type: ignore[return-value]  # there are no subclasses

    # ---- constructors --------------------------------------------------------------------------------------------

    @classmethod
    def from_tensor(
        cls,
        input: Tensor,
        *,
        filename: StrPath | None = None,
        existsok: bool = False,
        copy_existing: bool = False,
        copy_data: bool = True,
        shape: Any = None,
    ) -> MemoryMappedTensor:
        """Copy a tensor to a file of raw values, or to shared memory.

        Args:
            input: the tensor. A tensor that is already mapped from this file is returned as it is.
            filename: the file; shared memory if omitted.
            existsok: replace a file; maps of the old one keep the old values.
            copy_existing: allow copying a tensor that is mapped from another file.
            copy_data: False fills the new tensor with zeros.
            shape: expand to this shape first.

        Raises:
            StructureError: for a tensor that requires grad, a file that exists, a copy between files.
            OSError: if the file can't be written, for example on a full disk. The message names the path.
        """
        input = storable(input)
        path = None if filename is None else os.path.abspath(local_path(filename))
        source = input._source if isinstance(input, MemoryMappedTensor) else None
        if isinstance(input, MemoryMappedTensor) and shape is None:
            if source is None and path is None:
                return input
            if source is not None and source.path == path and source.mode == "r+":
                return input
        if source is not None and path not in (None, source.path) and not copy_existing:
            raise StructureError(f"the tensor lies in {source.path}; pass copy_existing=True to copy it to {path}")
        if shape is not None:
            input = input.expand(shape_from(shape))
        if path is None:
            made = _shared(input.dtype, input.shape)
            return wrap(made.copy_(input) if copy_data else made, None)
        return _write_and_map(path, input, existsok, copy_data)

    @classmethod
    def from_filename(
        cls, filename: StrPath, dtype: torch.dtype, shape: Any, index: Any = None, mode: str | None = None
    ) -> MemoryMappedTensor:
        """Map a file of raw values.

        Args:
            filename: the file.
            dtype: of the values.
            shape: of the tensor.
            index: an index applied to the result.
            mode: "r": writes stay in memory. "r+": writes reach the file. None: "r+" if the file is writable, else "r".

        Raises:
            FileFormatError: if the file is too short for the dtype and shape.
            OSError: for a path that is not a file, or can't be opened.
        """
        size = shape_from(shape)
        strides = torch.empty(size, device="meta").stride()
        return _index_mapped(from_handle(os.path.abspath(local_path(filename)), 0, dtype, size, strides, mode), index)

    @classmethod
    def from_storage(
        cls,
        storage: Any,
        *,
        shape: Any = None,
        dtype: torch.dtype | None = None,
        device: Any = None,
        index: Any = None,
        filename: StrPath | None = None,
    ) -> MemoryMappedTensor:
        """A tensor over an existing storage. A storage that `UntypedStorage.from_file` has mapped keeps its file.

        Raises:
            StructureError: if `filename` is not the file of the storage.
            FileFormatError: if the storage is too short for the dtype and shape.
        """
        _require_cpu(device)
        if isinstance(storage, torch.TypedStorage):
            dtype = dtype or storage.dtype
            storage = storage._untyped_storage
        dtype = dtype or torch.int64
        own = getattr(storage, "filename", None)
        if own is not None and filename is not None and os.path.abspath(own) != os.path.abspath(local_path(filename)):
            raise StructureError(f"the storage is mapped from {own}, not from {filename}")
        size = (storage.nbytes() // dtype.itemsize,) if shape is None else shape_from(shape)
        if torch.Size(size).numel() * dtype.itemsize > storage.nbytes():
            raise FileFormatError(f"the storage has {storage.nbytes()} bytes, {dtype} of shape {size} needs more", own)
        flat = torch.empty(0, dtype=dtype).set_(storage, 0, size, torch.empty(size, device="meta").stride())
        path = own if filename is None else local_path(filename)
        source = None if path is None else FileMemory(os.path.abspath(path), "r+", storage.data_ptr())
        return _index_mapped(wrap(flat, source), index)

    @classmethod
    def from_handler(cls, handler: Any, dtype: torch.dtype, shape: Any, index: Any = None) -> MemoryMappedTensor:
        """A tensor over a buffer of bytes, such as an `mmap.mmap` or a `SharedMemory().buf`; nothing is copied.

        Raises:
            FileFormatError: if the buffer is too short for the dtype and shape.
        """
        size = torch.Size(shape_from(shape))
        count, view = size.numel() * dtype.itemsize, memoryview(handler)
        if view.nbytes < count:
            raise FileFormatError(f"the buffer has {view.nbytes} bytes, {dtype} of shape {list(size)} needs {count}")
        if view.readonly:
            raise ArgumentError("the buffer can't be written; open it for writing")
        return _index_mapped(wrap(tensor_over(view, 0, count, dtype, size), None), index)

    @classmethod
    def empty(cls, *size: Any, **options: Any) -> MemoryMappedTensor:
        """A new tensor of zeros: `empty(2, 3)` or `empty((2, 3))`, and `dtype`, `device`, `filename`, `existsok`."""
        return _map_new_file("empty", size, **options)

    @classmethod
    def zeros(cls, *size: Any, **options: Any) -> MemoryMappedTensor:
        """A new tensor of zeros; see `empty`."""
        return _map_new_file("zeros", size, **options)

    @classmethod
    def ones(cls, *size: Any, **options: Any) -> MemoryMappedTensor:
        """A new tensor of ones; see `empty`."""
        return _fill_tensor(_map_new_file("ones", size, **options), 1)

    @classmethod
    def full(cls, *size: Any, fill_value: Any, **options: Any) -> MemoryMappedTensor:
        """A new tensor of one value; see `empty`.

        >>> from tensorclass import MemoryMappedTensor
        >>> MemoryMappedTensor.full(3, fill_value=2.0)
        MemoryMappedTensor([2., 2., 2.])
        """
        return _fill_tensor(_map_new_file("full", size, **options), fill_value)

    @classmethod
    def empty_like(cls, input: Tensor, *, filename: StrPath | None = None) -> MemoryMappedTensor:
        """A new tensor of zeros, with the shape and dtype of another."""
        return _map_new_file("empty_like", (input.shape,), dtype=input.dtype, filename=filename)

    @classmethod
    def zeros_like(cls, input: Tensor, *, filename: StrPath | None = None) -> MemoryMappedTensor:
        """A new tensor of zeros, with the shape and dtype of another."""
        return _map_new_file("zeros_like", (input.shape,), dtype=input.dtype, filename=filename)

    @classmethod
    def ones_like(cls, input: Tensor, *, filename: StrPath | None = None) -> MemoryMappedTensor:
        """A new tensor of ones, with the shape and dtype of another."""
        return _fill_tensor(_map_new_file("ones_like", (input.shape,), dtype=input.dtype, filename=filename), 1)

    @classmethod
    def full_like(cls, input: Tensor, fill_value: Any, *, filename: StrPath | None = None) -> MemoryMappedTensor:
        """A new tensor of one value, with the shape and dtype of another."""
        return _fill_tensor(
            _map_new_file("full_like", (input.shape,), dtype=input.dtype, filename=filename), fill_value
        )

    # ---- the tensor ----------------------------------------------------------------------------------------------

    @property
    def filename(self) -> str:
        """The absolute path of the file.

        Raises:
            StructureError: for a tensor in shared memory.
        """
        if self._source is None:
            raise StructureError("the tensor lies in shared memory and has no file")
        return self._source.path

    def __getitem__(self, index: Any) -> Tensor:
        """A mapped tensor if the index returns a view, else a plain tensor."""
        return self._wrap_part(super().__getitem__(index))

    def unbind(self, dim: Any = 0) -> Any:
        """Mapped tensors along a dim."""
        return tuple([self._wrap_part(part) for part in super().unbind(dim)])

    def split(self, split_size: Any, dim: int = 0) -> Any:
        """Mapped tensors along a dim."""
        return tuple([self._wrap_part(part) for part in super().split(split_size, dim)])  # type: ignore[no-untyped-call]  # torch's

    def chunk(self, chunks: int, dim: Any = 0) -> Any:
        """Mapped tensors along a dim."""
        return tuple([self._wrap_part(part) for part in super().chunk(chunks, dim)])

    def _wrap_part(self, part: Tensor) -> Tensor:
        if type(part) is not Tensor or part.untyped_storage().data_ptr() != self.untyped_storage().data_ptr():
            return part
        return wrap(part, self._source)

    def __copy__(self) -> MemoryMappedTensor:
        """Another tensor over the same memory."""
        return wrap(self.as_subclass(Tensor), self._source)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A plain tensor in its own memory."""
        memo[id(self)] = found = self.detach().clone()
        return found

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A handle if there is a file. Shared memory is shared between processes, and pickled by value."""
        if self._source is None:
            return _from_plain, (self.as_subclass(Tensor),)
        path, mode, base = self._source
        offset = self.data_ptr() - base if self.numel() else 0
        return from_handle, (path, offset, self.dtype, tuple(self.shape), self.stride(), mode)


PLAIN.add(MemoryMappedTensor)


def wrap(tensor: Tensor, source: FileMemory | None) -> MemoryMappedTensor:
    """Wrap a plain tensor as a mapped one."""
    found = tensor.as_subclass(MemoryMappedTensor)
    found._source = source
    return found


def wrap_all(tensors: Mapping[str, Tensor], places: Mapping[str, Extent], path: str, mode: str) -> dict[str, Tensor]:
    """The tensors of a file as mapped tensors. A tensor at an unaligned address is a copy, and stays a plain tensor."""
    found: dict[str, Tensor] = {}
    source = FileMemory(os.path.abspath(path), mode, 0)
    for name, tensor in tensors.items():
        begin = places[name].begin
        odd = tensor.numel() and begin % tensor.dtype.itemsize
        if tensor.numel() and not odd and not source.base:
            source = source._replace(base=tensor.data_ptr() - begin)
        found[name] = tensor if odd else wrap(tensor, source)
    return found


def from_handle(
    path: str, offset: int, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int], mode: str | None
) -> MemoryMappedTensor:
    """The tensor of a handle.

    Raises:
        FileFormatError: if the file is too short.
        OSError: for a path that is not a file, or can't be opened.
    """
    if mode not in (None, "r", "r+"):
        raise ArgumentError(f'mode is "r" (writes stay in memory) or "r+" (writes reach the file), got {mode!r:.40}')
    fd, size, mode = open_mode(path, mode)
    try:
        count = 0
        if 0 not in shape:
            last = sum([(n - 1) * stride for n, stride in zip(shape, strides, strict=True)])
            count = (last + 1) * dtype.itemsize
        if min(offset, count, *strides, *shape, 0) < 0 or offset + count > size:
            what = f"the file has {size} bytes, {dtype} of shape {list(shape)} needs {offset + count}"
            raise FileFormatError(what, path, offset)
        if not count:
            return wrap(blank(dtype, shape), FileMemory(path, mode, 0))
        about = os.fstat(fd)
        key = (about.st_dev, about.st_ino, size)
        buffer = _MAPS.get(key) if mode == "r+" else None
        if buffer is None:
            buffer = map_file(fd, size, path, mode == "r+")
            if mode == "r+":
                _MAPS[key] = buffer
    finally:
        os.close(fd)
    flat = tensor_over(buffer, offset, offset + count, dtype, [count // dtype.itemsize])
    base = flat.data_ptr() - offset
    return wrap(flat.as_strided(shape, strides), FileMemory(path, mode, base))


def open_mode(path: str, mode: str | None) -> tuple[int, int, str]:
    """Open a file; for mode None with write access, if possible. Returns descriptor, size and mode."""
    if mode != "r":
        try:
            return *open_file(path, True), "r+"
        except OSError:
            if mode is not None or not os.access(path, os.R_OK) or os.access(path, os.W_OK):
                raise
    return *open_file(path), "r"


def _from_plain(tensor: Tensor) -> MemoryMappedTensor:
    return wrap(tensor if tensor.is_shared() else _shared(tensor.dtype, tensor.shape).copy_(tensor), None)


def _shared(dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
    flat = torch.zeros(torch.Size(shape).numel() * dtype.itemsize, dtype=torch.uint8, device="cpu")
    flat.share_memory_()
    return flat.view(dtype).view(shape)


def _write_and_map(path: str, input: Tensor, existsok: bool, copy_data: bool) -> MemoryMappedTensor:
    """Write raw values to a new file and map it; an existing file is replaced."""
    if not existsok and os.path.lexists(path):
        raise StructureError(f"the file {path} exists already; pass existsok=True to replace it")
    size = input.numel() * input.dtype.itemsize
    make_folder(os.path.dirname(path))
    with replacing(path) as target:
        if size and copy_data:
            tensor = ready(input, path)
            target.write([buffer_of(tensor)])
        elif size:
            reserve(target.fd, size, path)
        made = mapped(target.fd, size, path, [Extent(0, size, input.dtype, input.shape)], True)[0]
    return wrap(made, FileMemory(path, "r+", made.data_ptr()))


def _map_new_file(
    name: str,
    size: Sequence[Any],
    *,
    shape: Any = None,
    dtype: torch.dtype | None = None,
    device: Any = None,
    filename: StrPath | None = None,
    existsok: bool = False,
) -> MemoryMappedTensor:
    if bool(size) == (shape is not None):
        raise ArgumentError(f"{name} takes a shape: `{name}(2, 3)`, `{name}((2, 3))` or `{name}(shape=(2, 3))`")
    _require_cpu(device)
    given = size if shape is None else (shape,)  # sizes, or one argument that holds them
    like = torch.zeros((), dtype=dtype, device="cpu").expand(shape_from(given[0] if len(given) == 1 else given))
    return MemoryMappedTensor.from_tensor(like, filename=filename, existsok=existsok, copy_data=False)


def _fill_tensor(tensor: MemoryMappedTensor, value: Any) -> MemoryMappedTensor:
    tensor.fill_(value)
    return tensor


def shape_from(shape: Any) -> tuple[int, ...]:
    """The shape argument of a user as a tuple."""
    if isinstance(shape, Tensor):
        raise UnsupportedOperationError("a mapped tensor has one shape; nested tensors can be saved in a container")
    try:
        found = (shape,) if isinstance(shape, int) else (*map(int, shape),)
    except (TypeError, ValueError):
        raise ArgumentError(f"a shape is a sequence of ints, got {shape!r:.80}") from None
    if min(found, default=0) < 0:
        raise ArgumentError(f"a shape has no negative numbers, got {found}")
    if prod([n for n in found if n]) >= 2**60:  # torch and files count bytes in 64 bits
        raise ArgumentError(f"a shape has fewer than 2**60 elements, got {found!r:.200}")
    return found


def storable(input: Any) -> Tensor:
    """Return a tensor that can be mapped, or raise."""
    if not isinstance(input, Tensor):
        raise ArgumentError(f"expected a tensor, got a {type(input).__name__}; `torch.as_tensor` converts")
    if input.requires_grad:
        raise StructureError("a mapped tensor can't require grad; pass `tensor.detach()`")
    if input.layout is not torch.strided or input.is_nested or input.is_quantized:
        raise UnsupportedOperationError(f"a mapped tensor is dense, got one of layout {input.layout}")
    return input


def _index_mapped(tensor: MemoryMappedTensor, index: Any) -> MemoryMappedTensor:
    if index is None:
        return tensor
    found = tensor[index]
    return found if isinstance(found, MemoryMappedTensor) else MemoryMappedTensor.from_tensor(found)


def _require_cpu(device: Any) -> None:
    if device is not None and torch.device(device).type != "cpu":
        raise StructureError(f"a mapped tensor lives on the CPU, not on {device}")
