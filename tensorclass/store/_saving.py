"""Methods of containers that write and read files; `io` implements them."""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false
# The bodies of most methods come from `implemented_in`.

from __future__ import annotations

from os import PathLike
from pathlib import Path as FilePath
from typing import Any, TypeAlias

import torch
from torch import Tensor
from typing_extensions import Self

from .._flags import flags
from ..core import Device, Key
from ..ops._distributed import refuse_distributed
from ._bridges import BridgeOps, files, grow, implemented_in, maps

StrPath: TypeAlias = "str | PathLike[str]"


@flags
class SavingOps(BridgeOps):
    """Methods that write and read files."""

    __slots__ = ()

    @implemented_in(files, "save")
    def save(
        self,
        prefix: StrPath | None = None,
        copy_existing: bool = False,
        *,
        num_threads: int = 0,
        return_early: bool = False,
        share_non_tensor: bool = False,
        robust_key: bool | None = True,
        archive: bool | None = None,
        compression: str | int | None = None,
        atomic: bool = False,
        checksums: bool = False,
        allow_pickle: bool = False,
    ) -> Self:
        """Save this container to a file, as a whole or not at all; see `tensorclass.save`.

        Returns:
            The same batch, mapped from the file; writes to it stay in memory.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> _ = TensorDict(a=torch.arange(3), batch_size=[3]).save("batch.safetensors", checksums=True)
        >>> TensorDict.load("batch.safetensors", verify=True)["a"]
        tensor([0, 1, 2])
        """

    def dumps(self, prefix: StrPath | None = None, copy_existing: bool = False, **options: Any) -> Self:
        """Save this container to a file; an alias of `save`."""
        found: Self = files().save(self, prefix, copy_existing, **options)
        return found

    @classmethod
    @implemented_in(files, "load", owner="cls")
    def load(
        cls,
        prefix: StrPath,
        device: Device = None,
        non_blocking: bool = False,
        *,
        out: Any = None,
        robust_key: bool | None = True,
        subpath: Key | None = None,
        mode: str | None = None,
        num_threads: int = 0,
        allow_pickle: bool | None = False,
        mmap: bool = True,
        verify: bool = False,
        max_bytes: int | None = None,
    ) -> Self:
        """Load a batch from a file; see `tensorclass.load`.

        A typed class returns a validated instance of itself, or raises. `TensorDict` returns an instance of the saved
        class if that is imported and has not changed; else a `TensorDict` with the data.

        >>> import torch
        >>> from torch import Tensor
        >>> from tensorclass import tensorclass
        >>> from tensorclass.typing import Int64
        >>> @tensorclass
        ... class Labels:
        ...     label: Int64[Tensor, ""]
        >>> _ = Labels(label=torch.arange(3)).save("data")
        >>> Labels.load("data").label
        tensor([0, 1, 2])
        """

    def load_(self, prefix: StrPath, device: Device = None, non_blocking: bool = False, **options: Any) -> Self:
        """Copy the values of a file with the same keys into the tensors of this container; see `load`.

        Raises:
            StructureError: for different keys or shapes; nothing is written then.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> weights = torch.zeros(3)
        >>> _ = TensorDict(a=torch.ones(3)).save("a.safetensors")
        >>> _ = TensorDict(a=weights).load_("a.safetensors")
        >>> weights
        tensor([1., 1., 1.])
        """
        found: Self = files().load(prefix, device, non_blocking, out=self, **options)
        return found

    @implemented_in(maps, "memmap")
    def memmap(
        self,
        prefix: StrPath | None = None,
        copy_existing: bool = False,
        *,
        num_threads: int = 0,
        return_early: bool = False,
        share_non_tensor: bool = False,
        existsok: bool = True,
        robust_key: bool | None = True,
        archive: bool | None = None,
        compression: str | int | None = None,
        atomic: bool = False,
    ) -> Self:
        """Write this container to a file, and return a locked one mapped from it; see `tensorclass.memmap`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> mapped = TensorDict(a=torch.zeros(3), batch_size=[3]).memmap("data")
        >>> mapped.is_memmap(), mapped.is_locked, mapped.saved_path.name
        (True, True, 'data')
        """

    @implemented_in(maps, "memmap_")
    def memmap_(
        self,
        prefix: StrPath | None = None,
        copy_existing: bool = False,
        *,
        num_threads: int = 0,
        return_early: bool = False,
        share_non_tensor: bool = False,
        existsok: bool = True,
        robust_key: bool | None = True,
        atomic: bool = False,
    ) -> Self:
        """Write this container to a file, and map its tensors from there, in place; this locks it.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(3)).memmap_("data")
        >>> data.is_memmap(), data.is_locked
        (True, True)
        """

    @implemented_in(maps, "memmap_like")
    def memmap_like(
        self,
        prefix: StrPath | None = None,
        copy_existing: bool = False,
        *,
        existsok: bool = True,
        num_threads: int = 0,
        return_early: bool = False,
        share_non_tensor: bool = False,
        robust_key: bool | None = True,
        archive: bool | None = None,
    ) -> Self:
        """A mapped container of this structure, filled with zeros; an existing file of this structure keeps its values.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> row = TensorDict(image=torch.zeros(3, 8, 8, dtype=torch.uint8))
        >>> row.expand(1000).memmap_like("data")["image"].shape
        torch.Size([1000, 3, 8, 8])
        """

    @classmethod
    @implemented_in(maps, "load_memmap", owner="cls")
    def load_memmap(
        cls,
        prefix: StrPath,
        device: Device = None,
        non_blocking: bool = False,
        *,
        out: Any = None,
        robust_key: bool | None = True,
        subpath: Key | None = None,
        mode: str | None = None,
        num_threads: int = 0,
        allow_pickle: bool | None = None,
        max_bytes: int | None = None,
    ) -> Self:
        """Map a batch from its file; writes in place reach the file. See `tensorclass.load_memmap`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> _ = TensorDict(a=torch.zeros(3)).memmap_("data")
        >>> _ = TensorDict.load_memmap("data")["a"].fill_(7)
        >>> TensorDict.load_memmap("data")["a"]
        MemoryMappedTensor([7., 7., 7.])
        """

    def load_memmap_(
        self,
        prefix: StrPath,
        robust_key: bool | None = True,
        *,
        allow_pickle: bool | None = None,
        mode: str | None = None,
    ) -> Self:
        """Replace the tensors of this container by tensors mapped from a file. See `load_memmap`."""
        cls = type(self)
        found: Self = maps().load_memmap(
            prefix, out=self, robust_key=robust_key, mode=mode, allow_pickle=allow_pickle, cls=cls
        )
        return found

    @implemented_in(maps, "refresh")
    def memmap_refresh_(self, *, allow_pickle: bool | None = None) -> Self:
        """Map the file of this container again, after another process has replaced it.

        Raises:
            StructureError: for a container that is not mapped from a file.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> mapped = TensorDict(a=torch.zeros(3)).memmap_("data")
        >>> _ = TensorDict(a=torch.ones(3)).memmap("data")
        >>> mapped.memmap_refresh_()["a"].tolist()
        [1.0, 1.0, 1.0]
        """

    @implemented_in(maps, "is_memmap")
    def is_memmap(self) -> bool:
        """Whether this container is locked and its tensors are mapped.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3)).is_memmap(), TensorDict(a=torch.zeros(3)).memmap_().is_memmap()
        (False, True)
        """

    @property
    @implemented_in(maps, "saved_path")
    def saved_path(self) -> FilePath:
        """The path of this container, as `load_memmap` accepts it.

        Raises:
            AttributeError: for a container that is not mapped from a file.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3)).memmap_("data").saved_path.name
        'data'
        """

    def make_memmap(
        self, key: Key, shape: Any, *, dtype: torch.dtype | None = None, robust_key: bool | None = True
    ) -> Any:
        """Add an entry of zeros to a mapped container, and to the folder that it is mapped from.

        The folder gets another file, and its index is replaced as a whole. A process that has mapped the folder sees
        the entry after `memmap_refresh_()`. The container stays locked.

        Args:
            key: of the entry; missing nested containers are created.
            shape: of the entry, batch dims first.
            dtype: of the entry; by default the default dtype of torch.
            robust_key: accepted for compatibility; every key round-trips.

        Returns:
            The entry, a `MemoryMappedTensor`.

        Raises:
            StructureError: for a container that is not mapped, or mapped from a single file, and for an existing entry;
                nothing is written.
            BatchSizeError: for a shape that doesn't begin with the batch size.
            OSError: names the path; also if the disk is full.

        >>> import torch
        >>> from tensorclass import TensorDict, load
        >>> mapped = TensorDict(a=torch.zeros(3), batch_size=[3]).memmap("data")
        >>> mapped.make_memmap(("b", "c"), (3, 2), dtype=torch.int64).fill_(7)[0]
        MemoryMappedTensor([7, 7])
        >>> load("data")["b", "c"].sum()
        tensor(42)
        """
        return grow().make_memmap(self, key, grow().blank_of(shape, dtype), False)

    def make_memmap_from_tensor(
        self, key: Key, tensor: Tensor, *, copy_data: bool = True, existsok: bool = True, robust_key: bool | None = True
    ) -> Any:
        """Add a tensor to a mapped container, and to the folder that it is mapped from; see `make_memmap`.

        Args:
            key: of the entry.
            tensor: its first dims are the batch dims. It is copied.
            copy_data: False fills the entry with zeros.
            existsok: replace an entry of the folder that this container lacks.
            robust_key: accepted for compatibility.
        """
        return grow().make_memmap(self, key, grow().values_of(tensor), copy_data, existsok)

    def make_memmap_from_storage(
        self, key: Key, storage: Any, shape: Any, *, dtype: torch.dtype | None = None, robust_key: bool | None = True
    ) -> Any:
        """Add the values of a storage to a mapped container, and to its folder; see `make_memmap`.

        Args:
            key: of the entry.
            storage: its bytes are copied to a folder; a container in shared memory shares them.
            shape: of the entry; it covers the whole storage.
            dtype: of the entry; by default the default dtype of torch.
            robust_key: accepted for compatibility.

        Raises:
            StructureError: as for `make_memmap`; also for a storage of another length, and for one over another file.
        """
        return grow().make_memmap(self, key, grow().tensor_in(storage, shape, dtype), True)

    # ---- one block ---------------------------------------------------------------------------------------------------

    def consolidate(
        self,
        filename: StrPath | None = None,
        *,
        num_threads: int = 0,
        device: Device = None,
        non_blocking: bool = False,
        inplace: bool = False,
        return_early: bool = False,
        use_buffer: bool = False,
        share_memory: bool = False,
        pin_memory: bool = False,
        metadata: bool = False,
    ) -> Self:
        """Copy all leaves into one block of memory, or into one file, and return a locked container of views into it.

        Pickling, and sending to another process, then copy one block, or only the name of the file. Leaves that require
        grad are detached. A file is written as a whole or not at all; any reader of safetensors files can read it, and
        `from_consolidated` opens it as the class that was written.

        Args:
            filename: the file. Views into it are `MemoryMappedTensor`, and writes to them reach it. A container that is
                already mapped from this file is returned unchanged.
            num_threads: with `return_early=True`, a number above 1 returns a future.
            device: the device of the block; by default that of all leaves, which must be the same. A file is on the
                CPU.
            non_blocking: whether copies between devices may be asynchronous.
            inplace: replace the leaves of this container instead of making a new one.
            return_early: with `num_threads` above 1, return a `TensorDictFuture` while a thread copies.
            use_buffer: keep the leaves in shared memory and write the file from there: writes do not reach it.
            share_memory: put the block into shared memory; a file is shared anyway.
            pin_memory: put the block into pinned memory.
            metadata: accepted for compatibility; the structure is always part of a pickle and of a file.

        Raises:
            ArgumentError: for a file on another device or in pinned memory, and for a future with `use_buffer` or
                `non_blocking`.
            StructureError: for leaves on several devices, if no device is given.
            UnsupportedOperationError: for nested or sparse leaves.
            OSError: names the path; an existing file is untouched.

        >>> import torch
        >>> from tensorclass import TensorDict, from_consolidated
        >>> data = TensorDict(a=torch.zeros(3), b={"c": torch.ones(3, 2)}, batch_size=[3])
        >>> data.consolidate().is_consolidated(), data.consolidate().is_locked
        (True, True)
        >>> _ = data.consolidate("block.bin")
        >>> from_consolidated("block.bin")["b", "c"].shape
        torch.Size([3, 2])
        """
        refuse_distributed("consolidate", self, self._leaves())
        if return_early and num_threads > 1:
            how: dict[str, Any] = {"device": device, "inplace": inplace, "share_memory": share_memory}
            how |= {"pin_memory": pin_memory, "use_buffer": use_buffer, "non_blocking": non_blocking}
            found: Self = maps().consolidated_later(self, filename, how)
            return found
        block: Any = self
        if filename is None:
            return block._in_one_block(device, non_blocking, inplace, share_memory, pin_memory)  # type: ignore[no-any-return]
        return maps().consolidated(self, filename, device, inplace, use_buffer, pin_memory)  # type: ignore[no-any-return]

    @classmethod
    @implemented_in(maps, "from_consolidated", owner="cls")
    def from_consolidated(cls, filename: StrPath, max_bytes: int | None = None) -> Self:
        """Open a file that `consolidate` wrote, here or in `tensordict`; see `tensorclass.from_consolidated`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> _ = TensorDict(a=torch.arange(3)).consolidate("block")
        >>> TensorDict.from_consolidated("block")["a"].tolist()
        [0, 1, 2]
        """

    def is_consolidated(self) -> bool:
        """Whether the leaves are views into one block or one file that `consolidate` made.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3)).is_consolidated()
        False
        """
        found: bool = self._is_block() or maps().in_one_file(self)
        return found
