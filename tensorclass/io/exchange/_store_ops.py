"""What a live store does as a container: locks, `with` blocks, copies, pickles, and operations in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from typing_extensions import Self

from ..._flags import flags
from ...core import Names, Owners, Path, Step, Turn, assign, belongs, changed, in_turn
from ...errors import UnsupportedOperationError
from ...store import TensorDict, TensorDictBase
from ._store_nodes import row_bytes
from ._stores import name_of

_OF_STORES = {
    "set_at_", "update_at_", "copy_at_", "lock_", "unlock_", "memmap_", "memmap_refresh_", "share_memory_",
    "load_memmap_", "pin_memory_", "set_", "update_", "copy_", "apply_",
}  # fmt: skip
"""Operations in place that stores do themselves; the others run on a copy in memory, which is written back."""
_OF_A_DICT = {"auto_batch_size", "batch_size", "batch_dims", "device", "names"}


class StoreOps(TensorDictBase):
    """The methods of `PersistentTensorDict` that don't depend on the format of the file."""

    _afar = True
    _turn: Turn
    _locks: dict[Path, Owners]
    """The locks of the groups of a file, by their paths; all containers over the file share it."""
    _at: Path
    """The path of this group in its file."""
    _opened: dict[str, Any] | None
    """The arguments that open the file again; None for a store that has no path."""
    _backend: str
    create: Callable[..., Any]
    _nodes: Callable[[], dict[str, Any]]
    _about: Callable[[Any], dict[str, Any]]
    _load: Callable[..., Any]
    _child: Callable[[Any], Any]
    _node: Callable[[str], Any]

    def _is_group(self, node: Any) -> bool:
        return not hasattr(node, "dtype")

    def _device_steps(self, device: torch.device | None) -> list[Step]:
        return assign(self, _device=device)

    # ---- `with` ------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        frames = self._frames()
        if frames[0] is None:  # `lock_` and `unlock_` leave what they undo
            frames[0] = type(self).close
        return super().__enter__()

    def close(self) -> None:
        """Close the file."""
        raise NotImplementedError

    # ---- typed classes -----------------------------------------------------------------------------------------------

    @property
    def _data(self) -> StoredEntries:
        return StoredEntries(self)

    def _sketch(self, read: Sequence[str]) -> dict[str, Any]:
        """The entries, with zeros in place of the tensors that aren't to be read."""
        found = {}
        for key, node in self._nodes().items():
            plain = hasattr(node, "dtype") and node.dtype.kind in "biufc" and node.shape and key not in read
            if plain and not self._about(node).get("kind"):
                row = self._load(key, node, (slice(0, 0),))
                found[key] = row.new_zeros(()).expand(node.shape[0], *row.shape[1:])
            else:
                found[key] = self._load(key, node)
        return found

    def _weight(self, begin: int, end: int) -> int:
        """The size of some rows in bytes, without Python objects."""
        return sum([self._weight_of(node, begin, end) for node in self._nodes().values()])

    def _weight_of(self, node: Any, begin: int, end: int) -> int:
        """The size of some rows of one entry."""
        has_tensor = self._about(node).get("kind") is None
        if not self._is_group(node):
            return (end - begin) * row_bytes(node) if has_tensor else 0
        child = self._child(node)
        if has_tensor:
            return int(child._weight(begin, end))
        lengths = child._load("lengths", child._node("lengths"), slice(begin, end))
        return int(lengths.sum()) * row_bytes(child._node("values"))

    def _refuse_frozen(self, what: str, key: str | None = None) -> None:
        if key is None:  # asked by an instance of a typed class, whose operations in place write to leaves: copies
            what = (
                f"cannot {what}: this batch is over a file; set fields or rows (`batch.field = ...`, `batch[i] = ...`)"
            )
            raise UnsupportedOperationError(f"{what}, or call it on the store, whose changes are seen here")

    # ---- locks -------------------------------------------------------------------------------------------------------

    @property
    def _lock(self) -> Owners | None:
        return self._locks.get(self._at)

    @_lock.setter
    def _lock(self, owners: Owners | None) -> None:
        if owners is None:
            self._locks.pop(self._at, None)
        else:
            self._locks[self._at] = owners

    def _plan_lock(self, owner: object | None, held: bool, found: Any) -> None:
        if self._locked_above() and owner is None and not held:
            raise belongs(self, self)
        if held or self._at in self._locks:
            changed(self, owner, held, found)

    def _owners(self) -> Any:
        own = self._locks.get(self._at)
        return own if own is not None or not self._locked_above() else ()

    def _locked_above(self) -> bool:
        return bool(self._locks) and True in [self._at[:end] in self._locks for end in range(len(self._at))]

    # ---- changes together with those of other containers ------------------------------------------------------------

    def _fill_steps(self, path: Path, value: float | bool) -> list[Step]:
        return [partial(self.fill_, path, value)]

    # ---- copies ------------------------------------------------------------------------------------------------------

    @classmethod
    def _from_entries(
        cls, entries: dict[str, Any], batch_size: torch.Size, device: torch.device | None, names: Names
    ) -> Any:
        return TensorDict._from_entries(entries, batch_size, device, names)

    @flags
    def clone(self, recurse: bool = True, *, newfile: Any = None, **kwargs: Any) -> Any:
        """A copy in memory; with `newfile`, a copy in a new file, which is open for reading and writing.

        Args:
            recurse: accepted for compatibility; what is read is a copy.
            newfile: the path of the new file.
            kwargs: with `newfile`, options for its arrays; else as for `TensorDict.clone`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(3), batch_size=[3]).to_h5("data.h5")
        >>> with data.clone(newfile="copy.h5") as copy:
        ...     copy["a"] = torch.ones(3)
        >>> data["a"].tolist()
        [0.0, 0.0, 0.0]
        """
        if newfile is None:
            return super().clone(recurse, **kwargs)
        return type(self).create(self, newfile, self._backend, **kwargs)

    def _swap_in(self, entries: dict[str, Any], seen: dict[str, Any]) -> None:
        super()._swap_in(entries, seen)
        self._note(keys=[name_of(key) for key in entries])

    def _note(self, **entries: Any) -> None:
        """Write attributes of the group."""
        raise NotImplementedError

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return deepcopy(self._twin(), memo)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._opened is None:
            what = "a store that was opened from a path is pickled as that path, and this one was opened otherwise"
            raise UnsupportedOperationError(f"pickle: {what}; `to_tensordict()` gives a copy in memory")
        return reopened, (type(self), self._opened, self._at)

    @classmethod
    def from_dict(cls, input_dict: Any, filename: Any = None, *, backend: str = "h5", **options: Any) -> Any:
        """Write a mapping to a new store; without `filename`, returns a `TensorDict`.

        Args:
            input_dict: as for `TensorDict.from_dict`.
            filename: the new file, or the folder of a zarr group.
            backend: "h5" or "zarr".
            options: those of `TensorDict.from_dict`, and options for new arrays.
        """
        about = {name: options.pop(name) for name in _OF_A_DICT & options.keys()}
        if filename is None:
            return TensorDict.from_dict(input_dict, **about, **options)
        arrays = {**options.pop("kwargs", {}), **options}
        return cls.create(TensorDict.from_dict(input_dict, **about), filename, backend, **arrays)

    @classmethod
    def from_schema(cls, schema: Any, **options: Any) -> Any:
        """As `TensorDict.from_schema`."""
        return TensorDict.from_schema(schema, **options)


class StoredEntries(Mapping[str, Any]):
    """The entries of a store. Each is read when it is requested.

    Args:
        store: the store.
    """

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getitem__(self, key: str) -> Any:
        return self._store._entry(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._store._nodes())

    def __len__(self) -> int:
        return len(self._store._nodes())


def reopened(cls: Any, opened: dict[str, Any], path: Path) -> Any:
    """Open a pickled store again."""
    found = cls(**opened)
    return found[path] if path else found


def _through_memory(name: str) -> Callable[..., Any]:
    """A method that runs on a copy in memory, which is written back."""

    @in_turn
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._writable(f"`{name}`")
        twin = self._twin()
        if self._owners() is not None:
            twin.lock_()
        result = getattr(twin, name)(*args, **kwargs)
        self._sync(twin)
        return self if result is twin else result

    method.__name__, method.__doc__ = name, getattr(TensorDict, name).__doc__
    return method


_IN_PLACE = [n for n in dir(TensorDict) if n.endswith("_") and n[0] != "_" and n not in _OF_STORES]
for _name in [*_IN_PLACE, "load_state_dict", *(f"__i{n}__" for n in ("add", "sub", "mul", "truediv", "pow"))]:
    setattr(StoreOps, _name, _through_memory(_name))
