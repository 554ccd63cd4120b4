"""Entry nodes: entries that are neither tensors nor containers; they follow the batch dims, or don't have them.

`NonTensorStack` is one idea: an int64 tensor with the batch shape numbers the elements, and every shape or index
operation on the objects is the same operation on the numbers. If torch makes a view of the numbers, the result is a
view: it shares `Slots` with its source, and writes to either are visible in both. If torch copies them, the result is
independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch import Tensor
from typing_extensions import Self

from ..._flags import flags
from ...core import (
    BATCHED,
    STORAGE,
    VALUES,
    VIEWS,
    Entry,
    Kind,
    Names,
    Path,
    TensorEntry,
    batch_dim,
    broadcasts_to,
    dump_value,
    join_path,
    over_events,
    restore_value,
    single,
    trust_for_loading,
)
from ...errors import ArgumentError, BatchSizeError, StructureError, UnsupportedOperationError
from ...ops import Join, LinkedList
from ...ops._compare import same_object
from ...ops._index import index_on_device_of, is_plain, normalise
from ...ops._steps import Writes, commit
from ...ops._writable import reason_of_expansion
from ._follow import Follower
from ._object_table import (
    Slots,
    UsedAsObject,
    Wrapped,
    compact,
    is_view,
    look_up,
    not_in_file,
    number_objects,
    plain_object,
    read_object,
    readable_index,
    refuse_container,
    tabulate,
)

T = TypeVar("T")
_functorch = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]  # missing in torch's stubs


class Node(Entry):
    """An entry with its own rules; one that holds tensors is also a `TensorEntry`."""

    __slots__ = ("__weakref__",)
    """Whether the entry holds Python objects."""

    def _leaves(self, kind: Kind) -> list[Tensor]:
        raise NotImplementedError

    def _make(self, leaves: Sequence[Tensor], batch_size: torch.Size, names: Names, kind: Kind) -> Self:
        raise NotImplementedError

    def _still(self) -> Self:
        """A snapshot of the node for an operation, since other threads may write to it."""
        return self

    def _read_value(self) -> Any:
        """The value that a reader of the entry gets."""
        return self

    def _stored_form(self, key: str, size: torch.Size) -> Any:
        """The value that a container of this batch size stores for the node."""
        return self

    def _shown_in(self, size: torch.Size) -> Any:
        """As `_read_value`, for a reader of a container of this batch size."""
        return self._read_value()

    def _item(self) -> Any:
        """The value that a read by key from an untyped container returns."""
        return self._read_value()

    def _field_value(self) -> Any:
        """The value that a field of a typed container returns."""
        return self._read_value()

    def _describe(self, outer: torch.Size) -> str:
        """The entry in the printed form of a container."""
        raise NotImplementedError

    def _same_node(self, other: Any, test: Callable[[Tensor, Tensor], bool]) -> bool:
        """Whether another node of this class is equal; `test` compares two tensors."""
        raise NotImplementedError

    @classmethod
    def _join_nodes(cls, nodes: Sequence[Any], dim: int, how: Join, key: str) -> Self:
        """One node from those of several containers."""
        raise NotImplementedError

    def _choose(self, other: Any, condition: Tensor, key: str) -> Self:
        """A node with the elements of this one where a condition over the batch is True, else of the other."""
        raise NotImplementedError

    def _plan_write(self, value: Any, parts: Any, size: torch.Size, path: Path) -> Any:
        """Check an in-place write of elements; returns the plan for `_commit`."""
        raise NotImplementedError

    def _commit(self, plan: Any, writes: Writes) -> None:
        """Add the steps of a write that `_plan_write` has checked."""
        raise NotImplementedError


@flags
class NonTensorStack(Follower, UsedAsObject, Node, TensorEntry, Generic[T]):
    """One Python object for each element of the batch.

    Reading a `PerElement` field returns one, as does `TensorDict.get` for such an entry; `data["names"]` of a
    `TensorDict` returns the objects as a list.

    Args:
        *values: the objects. Each is one element, also a list; `from_list` takes nested lists for several batch dims.
            A `NonTensorData` is one object for its batch size, and a stack has all its elements.
        stack_dim: the dim along which the values are joined.

    Raises:
        BatchSizeError: for stacks of different lengths.

    >>> from tensorclass import NonTensorStack
    >>> names = NonTensorStack("a", "b", "c")
    >>> names[1].item(), names[1:].tolist(), names.shape
    ('b', ['b', 'c'], torch.Size([3]))
    """

    __slots__ = ("_copy", "_free", "_from", "_gives_objects", "_reader", "_seen")
    _holds_object = True
    _free: bool
    """True if no container holds it, so that it may grow; absent otherwise."""
    _gives_objects: bool
    """Whether an index that leaves no dims gives the object, as in typed batches; in untyped ones it gives a stack."""
    _reader: NonTensorStack[T] | None
    """The stack over the same elements that typed batches return, which gives objects; made at the first read."""
    _from: tuple[Slots, Tensor | None]
    """The slots that it shares with its views, and the numbers of its elements there; None for all of them."""
    _seen: tuple[Sequence[T], Tensor] | None
    """The contents of the slots when an operation began; None outside operations."""
    _copy: Tensor | None
    """The index that an operation got as a leaf."""

    def __init__(self, *values: Any, stack_dim: int = 0) -> None:
        self._fill([open_lists(value) if isinstance(value, Node) else Wrapped(value) for value in values], stack_dim)

    def _fill(self, values: list[Any], stack_dim: int = 0) -> None:
        table, index = tabulate(values)
        if stack_dim:
            index = index.movedim(0, batch_dim(stack_dim, index.ndim, op="NonTensorStack"))
        self._from, self._seen, self._copy, self._free = (Slots(table, index, index), None), None, None, True
        self._gives_objects, self._reader = False, None

    @classmethod
    def from_list(cls, values: list[Any]) -> Self:
        """A stack from nested lists of objects.

        >>> from tensorclass import NonTensorStack
        >>> NonTensorStack.from_list([["a", "b"], ["c", "d"]]).shape
        torch.Size([2, 2])
        """
        stack = cls()
        stack._fill(open_lists([*values]))
        return stack

    @classmethod
    def from_nontensordata(cls, non_tensor: Any) -> NonTensorStack[Any]:
        """A stack that repeats the value of a `NonTensorData` over its batch size."""
        return cls.of_one(non_tensor, non_tensor.shape).clone()

    @classmethod
    def of(cls, values: Any, batch_size: torch.Size) -> NonTensorStack[Any]:
        """A stack from nested lists of the batch shape, or of one object repeated over it."""
        if isinstance(values, NonTensorStack):
            return values
        if isinstance(values, (list, tuple)) and batch_size:
            table, index = number_objects(open_lists([*values]), batch_size)
            return cls._at(Slots(table, index, index), None)
        return cls.of_one(values, batch_size)

    @classmethod
    def of_one(cls, value: Any, batch_size: torch.Size) -> NonTensorStack[Any]:
        """A stack of one object repeated over the batch; a stack is returned unchanged."""
        if isinstance(value, NonTensorStack):
            return value
        shown = value._read_value() if isinstance(value, Node) and value._holds_object else value
        return cls._of((plain_object(shown),), torch.zeros(batch_size, dtype=torch.int64, device="cpu"))

    @classmethod
    def _of(cls, table: Sequence[Any], index: Tensor) -> Self:
        return cls._at(Slots(table, index), None)

    @classmethod
    def _at(cls, slots: Slots, numbers: Tensor | None) -> Self:
        node = object.__new__(cls)
        node._from, node._seen, node._copy = (slots, numbers), None, None
        node._gives_objects, node._reader = False, None
        return node

    def _still(self) -> Self:
        node = object.__new__(type(self))
        node._from, node._seen, node._copy = self._from, self._seen or self._from[0].held, None
        node._gives_objects, node._reader = self._gives_objects, None
        return node

    @property
    def _held(self) -> tuple[Sequence[T], Tensor]:
        """The objects, and the index of each element's object."""
        slots, numbers = self._from
        table, places = self._seen or slots.held
        return table, slots.find(places, numbers)

    @property
    def _table(self) -> Sequence[T]:
        return self._held[0]

    @property
    def _index(self) -> Tensor:
        return self._held[1]

    @property
    def _batch_shape(self) -> torch.Size:
        return self.shape

    @property
    def shape(self) -> torch.Size:
        """The batch shape: one object per element."""
        slots, numbers = self._from
        return (slots.held[1] if numbers is None else numbers).shape

    @property
    def device(self) -> torch.device:
        """The device of the index; objects have no device."""
        return self._index.device

    @property
    def data(self) -> T:
        """The object that all elements share.

        Raises:
            ValueError: if the objects differ; read them with `tolist()`.
        """
        table, index = self._held
        values: list[T] = [table[i] for i in dict.fromkeys(index.reshape(-1).tolist())]
        if not values or not all(same_object(value, values[0]) for value in values):
            raise ArgumentError(
                f"data is the one object of all elements, and these are {self.tolist()!r:.80}; use tolist()"
            )
        return values[0]

    def _stands_for(self) -> Tensor:
        return self._leaves(BATCHED)[0]

    def _with_numbers(self, new: Tensor) -> Self:
        node = self._move_rows(new)
        node._free, node._gives_objects = True, self._gives_objects
        return node

    def _move_rows(self, new: Tensor) -> Self:
        """The elements with these numbers; a view if the numbers are a view."""
        slots, numbers = self._from
        if is_view(new, slots.numbers() if numbers is None else numbers):
            return self._at(slots, new)
        table, places = self._seen or slots.held
        return self._of(table, slots.find(places, new))

    def _stored_form(self, key: str, size: torch.Size) -> Self:
        self._free = False
        return self._at(*self._from) if self._gives_objects else self

    def _field_value(self) -> Any:
        if torch.compiler.is_compiling() or self._gives_objects:
            return self
        slots, numbers = self._from
        index = slots.held[1] if numbers is None else numbers
        if index.ndim or not is_plain(index):
            if self._reader is None:
                node = self._at(slots, numbers)
                node._gives_objects = True
                self._reader = node
            return self._reader
        table, index = self._held
        return read_object(table[int(index)])

    def __getitem__(self, index: Any) -> Any:
        """The elements at an index; for one element of a stack read from a typed batch, its object.

        >>> import torch
        >>> from torch import Tensor
        >>> from tensorclass import PerElement, TensorClass
        >>> class Photo(TensorClass):
        ...     pixels: Tensor
        ...     caption: PerElement[str]
        >>> photos = Photo(torch.zeros(2, 4), ["a cat", "a dog"], batch_size=2)
        >>> photos.caption[1].split(), photos[1].caption == "a dog"
        (['a', 'dog'], True)
        """
        found = super().__getitem__(index)
        if found._gives_objects and not found.shape:
            found._gives_objects = False
            return found._field_value()
        return found

    def __setitem__(self, index: Any, value: Any) -> None:
        """Replace the objects at an index, by one object, nested lists of its shape, or a stack.

        Raises:
            UnsupportedOperationError: for a stack read from a typed batch, which is written through the batch.

        >>> from tensorclass import NonTensorStack
        >>> names = NonTensorStack("a", "b")
        >>> names[0] = "c"
        >>> names
        NonTensorStack(['c', 'b'])
        """
        if self._gives_objects:
            raise UnsupportedOperationError(
                "the objects of a batch are written through the batch: `batch.name = [...]` replaces all of them, and "
                "`batch[1] = row` writes a row; a list from `tolist()` may be changed and written back"
            )
        commit(self, self._plan_write(value, normalise(index, self.shape), self[index].shape, ()))

    # ---- as a list -----------------------------------------------------------------------------------------------

    def insert(self, index: int, value: Any) -> None:
        """Insert an object before a position of the first dim; with more dims, nested lists or a stack of them.

        Raises:
            StructureError: for the stack of a container, whose batch size fixes the number of objects.
            BatchSizeError: for a value whose shape differs from that of the elements.

        >>> from tensorclass import NonTensorStack
        >>> names = NonTensorStack("a", "c")
        >>> names.insert(1, "b")
        >>> names
        NonTensorStack(['a', 'b', 'c'])
        """
        if not getattr(self, "_free", False):
            raise StructureError(
                "this NonTensorStack is an entry of a container, whose batch size says how many objects it has; grow a "
                "copy: `stack.clone()`, or join containers"
            )
        if not self.shape:
            raise BatchSizeError("a NonTensorStack without dims holds one object; `unsqueeze(0)` makes it a list")
        row = NonTensorStack.of(open_lists(value), self.shape[1:])
        if row.shape != self.shape[1:]:
            raise BatchSizeError(f"an element has shape {list(self.shape[1:])}, got {list(row.shape)}")
        table, places = self._held
        new = row._index.unsqueeze(0) + len(table)
        self._from = Slots((*table, *row._table), torch.cat([places[:index], new, places[index:]])), None

    def append(self, value: Any) -> None:
        """Append an object; see `insert`."""
        self.insert(len(self) if self.shape else 0, value)

    def extend(self, values: Iterable[Any]) -> None:
        """Append several objects, all or none; see `insert`."""
        grown = self.clone()
        grown._free = getattr(self, "_free", False)
        for value in values:
            grown.append(value)
        self._from = grown._from

    @classmethod
    def _join_many(cls, nodes: Sequence[Any], dim: int, how: Join) -> Any:
        return cls._join_nodes([cls.of_one(node, node.shape) for node in nodes], dim, how, "").clone()

    def _item(self) -> Any:
        """The objects as a list that writes back to the stack; without batch dims, the object itself."""
        table, index = self._held
        index = readable_index(table, index)
        return _link_objects(self, table, index, ()) if index.ndim else table[int(index)]

    def maybe_to_stack(self) -> Self:
        """Return this stack; `NonTensorData` has the same method, which makes a stack."""
        return self

    def _leaves(self, kind: Kind) -> list[Tensor]:
        if kind == BATCHED:
            slots, numbers = self._from
            return [slots.numbers() if numbers is None else numbers]
        if kind == STORAGE:
            self._copy = self._index
            return [self._copy]
        return []

    def _make(self, leaves: Sequence[Tensor], batch_size: torch.Size, names: Names, kind: Kind) -> Self:
        if kind == BATCHED:
            return self._move_rows(leaves[0])
        slots, numbers = self._from
        unchanged = leaves and leaves[0] is self._copy
        if kind == VIEWS or (unchanged and (numbers is None or numbers.is_contiguous())):
            return self._at(slots, numbers)
        table, index = self._held
        return self._of(table, index if kind == VALUES or leaves[0].is_meta else leaves[0])  # meta would lose them

    def _describe(self, outer: torch.Size) -> str:
        kinds = sorted({kind.__name__ for kind in set(map(type, compact(*self._held)[0]))})
        return f"PerElement[{' | '.join(kinds)}]"

    def _same_node(self, other: Any, test: Callable[[Tensor, Tensor], bool]) -> bool:
        return self.shape == other.shape and bool((self == other).all())

    @classmethod
    def _join_nodes(cls, nodes: Sequence[Any], dim: int, how: Join, key: str) -> Self:
        nodes = [node._still() for node in nodes]
        first: Any = nodes[0]
        if all([node._from[0] is first._from[0] and node._seen is first._seen for node in nodes]):
            joined = how.torch_fn([node._leaves(BATCHED)[0] for node in nodes], dim)  # the objects are not moved
            return first._make([joined], joined.shape, None, BATCHED)  # type: ignore[no-any-return]  # of this class
        held = [node._held for node in nodes]
        if all([own is held[0][0] for own, _ in held]):
            return cls._of(held[0][0], how.torch_fn([index for _, index in held], dim))
        table: list[Any] = []
        shifted = []
        for own, index in [compact(*pair) for pair in held]:
            shifted.append(index + len(table))
            table += own
        return cls._of(tuple(table), how.torch_fn(shifted, dim))

    def _choose(self, other: Any, condition: Tensor, key: str) -> Self:
        theirs = NonTensorStack.of_one(other, self.shape)
        wide = over_events(index_on_device_of(condition, self._index), self.ndim - condition.ndim)
        mine, index = compact(*self._held)
        table, other_index = compact(*theirs._held)
        return self._of(*compact((*mine, *table), torch.where(wide, index, other_index + len(mine))))

    def _plan_write(self, value: Any, parts: Any, size: torch.Size, path: Path) -> Any:
        """The checked objects of a write, as a stack, and the index that they are written at."""
        refuse_container(value, path)
        if not isinstance(value, NonTensorStack):  # a list has one object for each element, anything else is one
            value = NonTensorStack.of(value, size if isinstance(value, (list, tuple)) else torch.Size([]))
        if isinstance(parts, tuple):
            parts = tuple([index_on_device_of(part, self._index) for part in parts])
        numbers = self._leaves(BATCHED)[0]
        if problem := reason_of_expansion(numbers):
            raise UnsupportedOperationError(f"in-place write: `{join_path(path)}` {problem}; nothing was written")
        size = (numbers if parts is None else numbers[parts]).shape
        if not broadcasts_to(value.shape, size):
            raise BatchSizeError(
                f"in-place write: `{join_path(path)}` takes one object for each element of {list(size)}, got a stack "
                f"of shape {list(value.shape)}"
            )
        if self._from[0].in_file and self._is_changed_by(value, parts, size):
            raise not_in_file(join_path(path))
        return value._still(), ... if parts is None else parts

    def _is_changed_by(self, value: NonTensorStack[Any], parts: Any, size: torch.Size) -> bool:
        """Whether a write would change an object."""
        (old, places), (new, sources) = self._held, value._held
        places, sources = places if parts is None else places[parts], sources.expand(size)
        pairs = zip(places.reshape(-1).tolist(), sources.reshape(-1).tolist(), strict=True)
        return not all([same_object(old[i], new[j]) for i, j in pairs])

    def _commit(self, plan: Any, writes: Writes) -> None:
        value, parts = plan
        slots, numbers = self._from
        slots.plan_write(numbers, parts, *compact(*value._held), writes)

    def __iter__(self) -> Any:
        return iter([self[i] for i in range(len(self))]) if self.ndim > 1 else iter(self.tolist())

    def item(self) -> T:
        """The object of a stack with one element.

        Raises:
            ValueError: if the stack has another number of elements.
        """
        table, index = self._held
        if index.numel() != 1:
            raise ArgumentError(f"item() needs one element, this stack has shape {list(self.shape)}; use tolist()")
        return table[int(index.reshape(()))]

    def tolist(self) -> list[Any]:
        """The objects as nested lists of the batch shape; without batch dims, the object itself."""
        table, index = self._held
        found: list[Any] = look_up(readable_index(table, index).tolist(), table)
        return found

    def __eq__(self, other: object) -> Any:
        """Element by element as a bool tensor, against another stack, a list of the batch shape, or one object."""
        table, index = self._held
        if not isinstance(other, NonTensorStack):
            kind: Any = next((k for k in (list, Tensor, np.ndarray) if isinstance(other, k)), None)
            if kind is None or any([isinstance(mine, kind) for mine in table]):  # objects of that kind
                other = NonTensorStack.of_one(other, index.shape)
            else:
                other = NonTensorStack.of(other if kind is list else kind.tolist(other), index.shape)
        if other.shape != index.shape:
            raise BatchSizeError(f"==: batch shapes differ: {list(other.shape)} and {list(index.shape)}")
        found, places = other._held
        if not is_plain(index):  # under vmap the elements are unknown, but results can be looked up
            known = [[same_object(mine, theirs) for theirs in found] for mine in table]
            return torch.tensor(known, dtype=torch.bool, device=index.device)[index, places.to(index.device)]
        pairs = list(zip(index.reshape(-1).tolist(), places.reshape(-1).tolist(), strict=True))
        same = {(i, j): same_object(table[i], found[j]) for i, j in dict.fromkeys(pairs)}
        return torch.tensor([same[pair] for pair in pairs], dtype=torch.bool, device=index.device).reshape(index.shape)

    def __ne__(self, other: object) -> Any:
        """Compare element by element; returns a bool tensor."""
        return ~(self == other)

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __repr__(self) -> str:
        return f"NonTensorStack({self.tolist()!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_stack, compact(*self._held)


class _Link:
    """A position in a stack of objects, to which a linked list writes."""

    def __init__(self, node: NonTensorStack[Any], at: tuple[int, ...]) -> None:
        self.node = node
        self.at = at

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, int):
            raise ArgumentError(f"a list of entries is written one at a time, got the index {index!r:.200}")
        parts = (*self.at, index)
        depth = torch.Size(self.node.shape[len(parts) :])
        commit(self.node, (NonTensorStack.of(open_lists(value), depth), parts))


def _link_objects(node: NonTensorStack[Any], table: Sequence[Any], index: Tensor, at: tuple[int, ...]) -> LinkedList:
    """The objects below a position as lists that write back."""
    if index.ndim == 1:
        items: list[Any] = [table[i] for i in index.tolist()]
    else:
        items = [_link_objects(node, table, part, (*at, i)) for i, part in enumerate(index)]
    return LinkedList(items, _Link(node, at))


def open_lists(value: Any) -> Any:
    """Nested lists with every entry node as nested lists of its batch shape, each object wrapped; else unchanged."""
    if isinstance(value, Node) and value._holds_object:
        table, index = NonTensorStack.of_one(value, value.shape)._held
        return look_up(readable_index(table, index).tolist(), [Wrapped(found) for found in table])
    if isinstance(value, list) and any([isinstance(part, (list, Node)) for part in value]):
        return [open_lists(part) for part in value]
    return value


@trust_for_loading
def _restore_stack(table: Sequence[Any], index: Tensor) -> NonTensorStack[Any]:
    return NonTensorStack._of(table, index)


def _flatten_stack(node: NonTensorStack[Any]) -> tuple[list[Any], Any]:
    table, index = node._held
    return single(index), table


def _unflatten_stack(children: Iterable[Any], table: Any) -> NonTensorStack[Any]:
    index = next(iter(children))
    if isinstance(index, Tensor) and is_plain(index) and not torch.compiler.is_compiling():
        whole = index.dtype is torch.int64
        if not whole or (index.numel() and not 0 <= int(index.min()) <= int(index.max()) < len(table)):
            raise StructureError(
                "tree_map: the index of objects of elements is a leaf too, so that vmap can map over it, and a "
                "function that computes or casts breaks it; `batch.apply(fn)` gives the function only tensors"
            )
    return NonTensorStack._of(table, index)


pytree.register_pytree_node(
    NonTensorStack,
    _flatten_stack,
    _unflatten_stack,
    flatten_with_keys_fn=lambda node: ([(pytree.GetAttrKey("index"), node._index)], node._table),  # pyright: ignore[reportArgumentType]  # our own context
    serialized_type_name="tensorclass.NonTensorStack",
    to_dumpable_context=lambda table: dump_value(table, "a field of objects of elements"),
    from_dumpable_context=restore_value,
)
