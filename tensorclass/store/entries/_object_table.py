"""The state that per-element objects share with their views: a table of objects, and an index for each element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from ...core import Path, TensorCollection, assign, join_path, sharing
from ...errors import BatchSizeError, StructureError, UnsupportedOperationError, too_deep
from ...ops._compare import same_object
from ...ops._index import is_plain
from ...ops._steps import Writes
from ...ops._writable import same_storage
from ._grown import grow_table

_functorch = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]  # torch's stubs leave it out


class Pointing:
    """Raises an error that shows how to reach the values, for an attribute that an entry lacks."""

    __slots__ = ()
    _instead: ClassVar[str]

    def _absent(self, name: str) -> Any:
        if name[0] == "_" or hasattr(type(self), name):  # a protocol check, or our own property raised
            return object.__getattribute__(self, name)
        error = f"a {type(self).__name__} has no attribute `{name}`; {self._instead}"
        raise AttributeError(error, name=name, obj=self)

    if not TYPE_CHECKING:  # checkers report missing attributes
        __getattr__ = _absent


class UsedAsObject(Pointing):
    """A stack without dims is printed, compared and converted like its only object."""

    __slots__ = ()

    def __str__(self: Any) -> str:
        return repr(self) if self.shape else str(self._item())

    def __format__(self: Any, spec: str) -> str:
        return object.__format__(self, spec) if self.shape else format(self._item(), spec)

    def __bool__(self: Any) -> bool:
        return bool(len(self) if self.shape else self._item())

    def __int__(self: Any) -> int:
        return int(self._item())

    def __float__(self: Any) -> float:
        return float(self._item())


class ItemText(str):
    """The string of one element as typed batches return it: a `str` that still has the methods of a stack without dims.

    It becomes a plain `str` when it is stored, copied or pickled.
    """

    __slots__ = ()

    def item(self) -> str:
        """The string."""
        return str(self)

    def tolist(self) -> str:
        """The string."""
        return str(self)

    @property
    def data(self) -> str:
        """The string."""
        return str(self)

    def __str__(self) -> str:
        return "".join(self)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return str, (str(self),)


def read_object(value: Any) -> Any:
    """One object of a stack as typed batches return it."""
    return ItemText(value) if type(value) is str else value


class Wrapped:
    """One object inside nested lists, so that an object that is itself a list is not taken for a dim."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def plain_object(value: Any) -> Any:
    """An object as containers store it."""
    if type(value) is Wrapped:
        value = value.value
    return str(value) if type(value) is ItemText else value


def refuse_container(value: Any, path: Path) -> None:
    """Raise an error for a container that a write in place would put among objects."""
    if isinstance(value, TensorCollection):
        raise StructureError(
            f"in-place write: {f'`{join_path(path)}`' if path else 'the stack'} holds Python objects, got "
            f"{value!r:.200}; set the whole entry to make it a container, or wrap the value in `NonTensorData` to "
            "store it as an object"
        )


def not_in_file(path: str) -> UnsupportedOperationError:
    """The error for a write of objects that would not reach the file of a mapped batch."""
    return UnsupportedOperationError(
        f"in-place write: `{path}` holds Python objects, and the batch is mapped from a file, where only tensors are "
        'written in place; write the tensors (`batch.exclude(...)`), open the file with `mode="r"`, or change a '
        "`batch.clone()` and save it. Nothing was written"
    )


class Slots:
    """A place for each element of a stack, to which all its views write.

    It is replaced in one step, since other threads may read.
    """

    __slots__ = ("_made", "held", "in_file")
    held: tuple[Sequence[Any], Tensor]
    """Table and indices, which are replaced together."""
    in_file: bool
    """Whether they were read from a file whose tensors are mapped: what is written here would not reach it."""

    def __init__(self, table: Sequence[Any], places: Tensor, numbers: Tensor | None = None) -> None:
        mapped = not isinstance(places, Tensor) or (not is_plain(places) and _functorch.is_batchedtensor(places))
        numbers = places if mapped else numbers  # vmap maps over these without making views
        self.held, self._made, self.in_file = (table, places), numbers, False

    def numbers(self) -> Tensor:
        """The number of each element, made on demand."""
        made = self._made
        if made is None:
            with sharing():  # views share these numbers, so make them once
                if self._made is None:
                    places = self.held[1]
                    self._made = torch.arange(places.numel(), device=places.device).reshape(places.shape)
                made = self._made
        return made

    def find(self, places: Tensor, numbers: Tensor | None) -> Tensor:
        """The positions in the table of elements with these numbers."""
        if numbers is None or numbers is self._made:
            return places
        return numbers if places is self._made else places.reshape(-1)[numbers]

    def plan_write(
        self, numbers: Tensor | None, parts: Any, objects: Sequence[Any], index: Tensor, writes: Writes
    ) -> None:
        """Prepare to replace the objects of elements; several writes of one plan are made one after the other."""
        table, places = writes.shared.get(self, self.held)
        changed, at = places.clone(), parts
        if numbers is not None:  # a view: its elements are known by their numbers
            changed, at = changed.reshape(-1), numbers[parts]
        changed[at] = index.to(places.device) + len(table)
        writes.shared[self] = compact(grow_table(table, objects), changed.reshape(places.shape))

    def settle(self, contents: Any, writes: Writes) -> None:
        """Add the step that shows the new contents to all views."""
        writes.stores += assign(self, held=contents)


def is_view(new: Tensor, old: Tensor) -> bool:
    """Whether the result of an operation shares memory with its input; also for tensors without readable memory."""
    base = new._base
    if base is not None:
        return base is old or base is old._base
    return new is old or (not torch.compiler.is_compiling() and new.is_inference() and same_storage(new, old))


def compact(table: Sequence[Any], index: Tensor) -> tuple[Sequence[Any], Tensor]:
    """Drop the objects that no element refers to any more."""
    if len(table) <= 2 * max(1, index.numel()) or torch.compiler.is_compiling() or not is_plain(index):
        return table, index
    flat = index.reshape(-1).tolist()
    places = {old: new for new, old in enumerate(dict.fromkeys(flat))}
    dense = torch.tensor([places[old] for old in flat], dtype=torch.int64, device=index.device)
    return tuple([table[old] for old in places]), dense.reshape(index.shape)


def tabulate(values: list[Any]) -> tuple[tuple[Any, ...], Tensor]:
    """The table and the index of nested lists of objects."""
    shape: list[int] = []
    level: Any = values
    while isinstance(level, list):
        if len(shape) == 64:  # the most dims of torch: a list that contains itself
            raise too_deep("")
        shape.append(len(level))
        level = level[0] if level else None
    return number_objects(values, torch.Size(shape))


def number_objects(values: Sequence[Any], size: torch.Size) -> tuple[tuple[Any, ...], Tensor]:
    """The table and the index of objects in nested lists of a shape."""
    _check_nesting(values, size, size)
    flat = values
    for _ in range(len(size) - 1):
        flat = [value for part in flat for value in part]
    return tuple(map(plain_object, flat)), torch.arange(len(flat), device="cpu").reshape(size)


def _check_nesting(values: Any, size: torch.Size, whole: torch.Size) -> None:
    if not size:
        return
    if not isinstance(values, (list, tuple)) or len(values) != size[0]:
        given = f"{len(values)} values" if isinstance(values, (list, tuple)) else f"{values!r}"
        raise BatchSizeError(
            f"one object for each element: the batch size {list(whole)} expects nested lists of that shape, "
            f"got {given} where {size[0]} are expected"
        )
    for part in values if len(size) > 1 else ():
        _check_nesting(part, size[1:], whole)


def readable_index(table: Sequence[Any], index: Tensor) -> Tensor:
    """The index of a stack; inside `torch.vmap`, the one that all mapped elements share.

    Raises:
        UnsupportedOperationError: if the objects of the mapped elements differ.
    """
    while not is_plain(index) and _functorch.is_batchedtensor(index):
        rows = _functorch.get_unwrapped(index).movedim(_functorch.maybe_get_bdim(index), 0)
        objects = [look_up(row.tolist(), table) for row in rows]
        if not all([same_object(row, objects[0]) for row in objects]):
            raise UnsupportedOperationError(
                "vmap runs the function once for all elements that it maps over, and their objects differ: "
                f"{objects!r:.80}; take the objects out before, or run the function on `batch.unbind(0)`"
            )
        index = rows[0]
    return index


def look_up(index: Any, table: Sequence[Any]) -> Any:
    """The objects at nested lists of positions."""
    return [look_up(part, table) for part in index] if isinstance(index, list) else table[index]
