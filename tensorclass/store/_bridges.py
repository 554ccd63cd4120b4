"""Thin methods of containers that are implemented in rooms to the right; the only file that imports from there."""

from __future__ import annotations

from os import PathLike
from pathlib import Path as FilePath
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from typing_extensions import Self

from .._flags import flags
from ..core import TensorCollection
from ..core._device import Device
from ..core._keys import Key
from ..errors import ArgumentError
from ._pad import PadOps

StrPath: TypeAlias = "str | PathLike[str]"
_ROOMS: dict[str, Any] = {}
"""Rooms that were imported on first use: an import statement takes as long as a whole parameter swap."""


def _functional() -> Any:
    if "functional" not in _ROOMS:
        from ..nn.functional import _modules as room

        _ROOMS["functional"] = room
    return _ROOMS["functional"]


def _files() -> Any:
    if "files" not in _ROOMS:
        from ..io import _files as room

        _ROOMS["files"] = room
    return _ROOMS["files"]


def _maps() -> Any:
    if "maps" not in _ROOMS:
        from ..io import _memmap as room

        _ROOMS["maps"] = room
    return _ROOMS["maps"]


def _grow() -> Any:
    if "grow" not in _ROOMS:
        from ..io import _grow as room

        _ROOMS["grow"] = room
    return _ROOMS["grow"]


def tables() -> Any:
    """The room that implements the methods for tables."""
    if "tables" not in _ROOMS:
        from ..io.exchange import _functions as room

        _ROOMS["tables"] = room
    return _ROOMS["tables"]


def scaling() -> Any:
    """The room that implements the methods for workers and ranks."""
    if "scaling" not in _ROOMS:
        from ..parallel import _methods as room

        _ROOMS["scaling"] = room
    return _ROOMS["scaling"]


@flags
def from_module(
    module: nn.Module, as_module: bool = False, lock: bool = True, use_state_dict: bool = False,
    filter_empty: bool = True,
) -> Any:  # fmt: skip
    """The parameters and buffers of a module as a locked container; `TensorDict.from_module` leaves it unlocked.

    Args:
        module: a module with initialized parameters.
        as_module: return a `TensorDictParams`.
        lock: lock the container; locked containers are swapped into modules fastest.
        use_state_dict: read `module.state_dict()`, with its hooks and without the buffers that it leaves out.
        filter_empty: leave out submodules without parameters and buffers.

    Raises:
        UnsupportedOperationError: for a module with uninitialized parameters, and for a scripted one.

    >>> from torch import nn
    >>> from tensorclass import from_module
    >>> module = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    >>> params = from_module(module)
    >>> params["0", "weight"] is module[0].weight, list(params.keys()), params.is_locked
    (True, ['0'], True)
    """
    return _functional().from_module(module, as_module, lock, use_state_dict, filter_empty)


@flags
def from_modules(
    *modules: nn.Module, as_module: bool = False, lock: bool = True, use_state_dict: bool = False,
    lazy_stack: bool = False, expand_identical: bool = False,
) -> Any:  # fmt: skip
    """The parameters and buffers of several modules, stacked along a new first dim, for ensembles under `torch.vmap`.

    A dense stack holds new parameters: pass these to an optimizer. A lazy stack holds the parameters of the modules,
    and stacks them at each read.

    Args:
        *modules: modules of the same structure; with `lazy_stack`, structures may differ.
        as_module: return a `TensorDictParams`; not with `lazy_stack`.
        lock: lock the result.
        use_state_dict: read `module.state_dict()` of each.
        lazy_stack: keep the parameters of the modules.
        expand_identical: expand a parameter that all modules share instead of copying it; ignored with `lazy_stack`.

    Raises:
        StructureError: without modules, with both `lazy_stack` and `as_module`, and for modules of different
            structures.
        UnsupportedOperationError: for modules with uninitialized parameters.

    >>> import torch
    >>> from torch import nn
    >>> from tensorclass import from_modules
    >>> modules = [nn.Linear(3, 4) for _ in range(2)]
    >>> params = from_modules(*modules)
    >>> params.batch_size, params["weight"].shape
    (torch.Size([2]), torch.Size([2, 4, 3]))
    >>> def call(params, x):
    ...     with params.to_module(modules[0]):
    ...         return modules[0](x)
    >>> torch.vmap(call, (0, None))(params, torch.randn(3)).shape
    torch.Size([2, 4])
    """
    return _functional().from_modules(modules, as_module, lock, use_state_dict, lazy_stack, expand_identical)


@flags
class BridgeOps(PadOps):
    """Methods that get and set parameters of modules, and that write and read files."""

    __slots__ = ()

    @classmethod
    def from_module(
        cls, module: nn.Module, as_module: bool = False, lock: bool = False, use_state_dict: bool = False,
        filter_empty: bool = True,
    ) -> Any:  # fmt: skip
        """The parameters and buffers of a module, not copies; as `tensorclass.from_module`, but unlocked.

        For a typed class, they become its fields and are checked.

        >>> from torch import nn
        >>> from tensorclass import TensorDict
        >>> module = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        >>> TensorDict.from_module(module)["0", "weight"] is module[0].weight
        True
        """
        found = _functional().from_module(module, as_module, lock, use_state_dict, filter_empty)
        wrap = getattr(cls, "from_tensordict", None)
        return found if as_module or wrap is None else wrap(found)

    @classmethod
    def from_modules(
        cls, *modules: nn.Module, as_module: bool = False, lock: bool = True, use_state_dict: bool = False,
        lazy_stack: bool = False, expand_identical: bool = False,
    ) -> Any:  # fmt: skip
        """The parameters of several modules, stacked; see `tensorclass.from_modules`.

        >>> from torch import nn
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_modules(nn.Linear(3, 4), nn.Linear(3, 4))["bias"].shape
        torch.Size([2, 4])
        """
        return _functional().from_modules(modules, as_module, lock, use_state_dict, lazy_stack, expand_identical)

    def to_module(
        self, module: nn.Module, *, inplace: bool | None = None, return_swap: bool = True,
        swap_dest: TensorCollection | None = None, use_state_dict: bool = False, non_blocking: bool = False,
        preserve_module_state: bool = True, memo: object = None,
    ) -> Any:  # fmt: skip
        """Replace the parameters and buffers of a module by the tensors of this container.

        In a `with` block, the module has the new tensors during the block; the old ones are restored at its end, even
        after an exception. The block holds a lock of the module, so that no other thread swaps it at the same time.

        The container must have all parameters and buffers of the module, under the names of `from_module`; only
        non-persistent buffers may be missing. A submodule under several names gets the tensors of the first.

        Args:
            module: the module to change.
            inplace: copy the values into the module's tensors, which stay the same objects.
            return_swap: return the old tensors.
            swap_dest: a container that the old tensors are written to; it is returned.
            use_state_dict: load with `module.load_state_dict`, so that its hooks run.
            non_blocking: whether copies between devices with `inplace` may be asynchronous.
            preserve_module_state: wrap a plain tensor (no parameter, no grad, not inside a function transform) as a
                parameter with the `requires_grad` of the old one. Otherwise tensors are used unchanged.

        Returns:
            The old tensors as a `TensorDict`, or `swap_dest`; None without `return_swap`.

        Raises:
            StructureError: for missing and unknown names, which it lists; with `inplace`, for different shapes; and for
                two values of one parameter. Nothing is swapped then.
            UnsupportedOperationError: for a module with uninitialized parameters, and for a scripted one.

        >>> import torch
        >>> from torch import nn
        >>> from tensorclass import TensorDict
        >>> module = nn.Linear(3, 4)
        >>> zeros = TensorDict.from_module(module).data.clone().zero_()
        >>> with zeros.to_module(module):
        ...     y = module(torch.ones(2, 3))
        >>> bool((y == 0).all()), bool((module.weight == 0).all())
        (True, False)
        >>> old = zeros.to_module(module)
        >>> bool((module.weight == 0).all())
        True
        """
        if memo is not None:
            raise ArgumentError("to_module: `memo` is no longer an argument; a module is swapped as a whole")
        room = _ROOMS.get("functional") or _functional()
        return room.to_module(
            self, module, inplace, return_swap, swap_dest, use_state_dict, non_blocking, preserve_module_state
        )

    def save(
        self, prefix: StrPath | None = None, copy_existing: bool = False, *, num_threads: int = 0,
        return_early: bool = False, share_non_tensor: bool = False, robust_key: bool | None = True,
        archive: bool | None = None, compression: str | int | None = None, atomic: bool = False,
        checksums: bool = False, allow_pickle: bool = False,
    ) -> Self:  # fmt: skip
        """Save this container to a file, as a whole or not at all; see `tensorclass.save`.

        Returns:
            The same batch, mapped from the file; writes to it stay in memory.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> _ = TensorDict(a=torch.arange(3), batch_size=[3]).save("batch.safetensors", checksums=True)
        >>> TensorDict.load("batch.safetensors", verify=True)["a"]
        tensor([0, 1, 2])
        """
        found: Self = _files().save(
            self, prefix, copy_existing, num_threads=num_threads, return_early=return_early,
            share_non_tensor=share_non_tensor, robust_key=robust_key, archive=archive, compression=compression,
            atomic=atomic, checksums=checksums, allow_pickle=allow_pickle,
        )  # fmt: skip
        return found

    def dumps(self, prefix: StrPath | None = None, copy_existing: bool = False, **options: Any) -> Self:
        """Save this container to a file; an alias of `save`."""
        found: Self = _files().save(self, prefix, copy_existing, **options)
        return found

    @classmethod
    def load(
        cls, prefix: StrPath, device: Device = None, non_blocking: bool = False, *, out: Any = None,
        robust_key: bool | None = True, subpath: Key | None = None, mode: str | None = None, num_threads: int = 0,
        allow_pickle: bool | None = False, mmap: bool = True, verify: bool = False, max_bytes: int | None = None,
    ) -> Self:  # fmt: skip
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
        found: Self = _files().load(
            prefix, device, non_blocking, out=out, robust_key=robust_key, subpath=subpath, mode=mode,
            num_threads=num_threads, allow_pickle=allow_pickle, mmap=mmap, verify=verify, cls=cls, max_bytes=max_bytes,
        )  # fmt: skip
        return found

    def load_(self, prefix: StrPath, *args: Any, **kwargs: Any) -> Self:
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
        found: Self = _files().load(prefix, *args, out=self, **kwargs)
        return found

    def memmap(
        self, prefix: StrPath | None = None, copy_existing: bool = False, *, num_threads: int = 0,
        return_early: bool = False, share_non_tensor: bool = False, existsok: bool = True,
        robust_key: bool | None = True, archive: bool | None = None, compression: str | int | None = None,
        atomic: bool = False,
    ) -> Self:  # fmt: skip
        """Write this container to a file, and return a locked one mapped from it; see `tensorclass.memmap`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> mapped = TensorDict(a=torch.zeros(3), batch_size=[3]).memmap("data")
        >>> mapped.is_memmap(), mapped.is_locked, mapped.saved_path.name
        (True, True, 'data')
        """
        found: Self = _maps().memmap(
            self, prefix, copy_existing, num_threads=num_threads, return_early=return_early,
            share_non_tensor=share_non_tensor, existsok=existsok, robust_key=robust_key, archive=archive,
            compression=compression, atomic=atomic,
        )  # fmt: skip
        return found

    def memmap_(
        self, prefix: StrPath | None = None, copy_existing: bool = False, *, num_threads: int = 0,
        return_early: bool = False, share_non_tensor: bool = False, existsok: bool = True,
        robust_key: bool | None = True, atomic: bool = False,
    ) -> Self:  # fmt: skip
        """Write this container to a file, and map its tensors from there, in place; this locks it.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(3)).memmap_("data")
        >>> data.is_memmap(), data.is_locked
        (True, True)
        """
        found: Self = _maps().memmap_(
            self, prefix, copy_existing, num_threads=num_threads, return_early=return_early, existsok=existsok,
            share_non_tensor=share_non_tensor, robust_key=robust_key, atomic=atomic,
        )  # fmt: skip
        return found

    def memmap_like(
        self, prefix: StrPath | None = None, copy_existing: bool = False, *, existsok: bool = True,
        num_threads: int = 0, return_early: bool = False, share_non_tensor: bool = False,
        robust_key: bool | None = True, archive: bool | None = None,
    ) -> Self:  # fmt: skip
        """A mapped container of this structure, filled with zeros; an existing file of this structure keeps its values.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> row = TensorDict(image=torch.zeros(3, 8, 8, dtype=torch.uint8))
        >>> row.expand(1000).memmap_like("data")["image"].shape
        torch.Size([1000, 3, 8, 8])
        """
        found: Self = _maps().memmap_like(
            self, prefix, copy_existing, existsok=existsok, num_threads=num_threads, return_early=return_early,
            share_non_tensor=share_non_tensor, robust_key=robust_key, archive=archive,
        )  # fmt: skip
        return found

    @classmethod
    def load_memmap(
        cls, prefix: StrPath, device: Device = None, non_blocking: bool = False, *, out: Any = None,
        robust_key: bool | None = True, subpath: Key | None = None, mode: str | None = None, num_threads: int = 0,
        allow_pickle: bool | None = None, max_bytes: int | None = None,
    ) -> Self:  # fmt: skip
        """Map a batch from its file; writes in place reach the file. See `tensorclass.load_memmap`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> _ = TensorDict(a=torch.zeros(3)).memmap_("data")
        >>> _ = TensorDict.load_memmap("data")["a"].fill_(7)
        >>> TensorDict.load_memmap("data")["a"]
        MemoryMappedTensor([7., 7., 7.])
        """
        found: Self = _maps().load_memmap(
            prefix, device, non_blocking, out=out, robust_key=robust_key, subpath=subpath, mode=mode,
            num_threads=num_threads, allow_pickle=allow_pickle, cls=cls, max_bytes=max_bytes,
        )  # fmt: skip
        return found

    def load_memmap_(
        self, prefix: StrPath, robust_key: bool | None = True, *, allow_pickle: bool | None = None,
        mode: str | None = None,
    ) -> Self:  # fmt: skip
        """Replace the tensors of this container by tensors mapped from a file. See `load_memmap`."""
        cls = type(self)
        found: Self = _maps().load_memmap(
            prefix, out=self, robust_key=robust_key, mode=mode, allow_pickle=allow_pickle, cls=cls
        )
        return found

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
        found: Self = _maps().refresh(self, allow_pickle)
        return found

    def is_memmap(self) -> bool:
        """Whether this container is locked and its tensors are mapped.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3)).is_memmap(), TensorDict(a=torch.zeros(3)).memmap_().is_memmap()
        (False, True)
        """
        found: bool = _maps().is_memmap(self)
        return found

    @property
    def saved_path(self) -> FilePath:
        """The path of this container, as `load_memmap` accepts it.

        Raises:
            AttributeError: for a container that is not mapped from a file.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3)).memmap_("data").saved_path.name
        'data'
        """
        found: FilePath = _maps().saved_path(self)
        return found

    def make_memmap(
        self, key: Key, shape: Any, *, dtype: torch.dtype | None = None, robust_key: bool | None = True
    ) -> Any:  # fmt: skip
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
        return _grow().make_memmap(self, key, _grow().blank_of(shape, dtype), False)

    def make_memmap_from_tensor(
        self, key: Key, tensor: Tensor, *, copy_data: bool = True, existsok: bool = True,
        robust_key: bool | None = True,
    ) -> Any:  # fmt: skip
        """Add a tensor to a mapped container, and to the folder that it is mapped from; see `make_memmap`.

        Args:
            key: of the entry.
            tensor: its first dims are the batch dims. It is copied.
            copy_data: False fills the entry with zeros.
            existsok: replace an entry of the folder that this container lacks.
            robust_key: accepted for compatibility.
        """
        return _grow().make_memmap(self, key, _grow().values_of(tensor), copy_data, existsok)

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
        return _grow().make_memmap(self, key, _grow().tensor_in(storage, shape, dtype), True)

    # ---- one block ---------------------------------------------------------------------------------------------------

    def consolidate(
        self, filename: StrPath | None = None, *, num_threads: int = 0, device: Device = None,
        non_blocking: bool = False, inplace: bool = False, return_early: bool = False, use_buffer: bool = False,
        share_memory: bool = False, pin_memory: bool = False, metadata: bool = False,
    ) -> Self:  # fmt: skip
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
        if return_early and num_threads > 1:
            how: dict[str, Any] = {"device": device, "inplace": inplace, "share_memory": share_memory}
            how |= {"pin_memory": pin_memory, "use_buffer": use_buffer, "non_blocking": non_blocking}
            found: Self = _maps().consolidated_later(self, filename, how)
            return found
        block: Any = self
        if filename is None:
            return block._in_one_block(device, non_blocking, inplace, share_memory, pin_memory)  # type: ignore[no-any-return]
        return _maps().consolidated(self, filename, device, inplace, use_buffer, pin_memory)  # type: ignore[no-any-return]

    @classmethod
    def from_consolidated(cls, filename: StrPath, max_bytes: int | None = None) -> Self:
        """Open a file that `consolidate` wrote, here or in `tensordict`; see `tensorclass.from_consolidated`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> _ = TensorDict(a=torch.arange(3)).consolidate("block")
        >>> TensorDict.from_consolidated("block")["a"].tolist()
        [0, 1, 2]
        """
        found: Self = _maps().from_consolidated(filename, cls, max_bytes)
        return found

    def is_consolidated(self) -> bool:
        """Whether the leaves are views into one block or one file that `consolidate` made.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3)).is_consolidated()
        False
        """
        found: bool = self._is_block() or _maps().in_one_file(self)
        return found
