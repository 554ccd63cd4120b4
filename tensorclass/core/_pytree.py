"""Containers as pytree nodes. The children are the entries that hold tensors; everything else is in the context."""

from __future__ import annotations

import copyreg
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, TypeVar
from weakref import ref

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.torch_version import TorchVersion

from ._base import Names, TensorCollection, store_of
from ._batch import as_jagged
from ._entry import TensorEntry, batch_shape, has_lengths
from ._exported import dump_value, restore_value, with_keys
from ._mapped import (
    Outside,
    Seen,
    by_vmap,
    following,
    refuse_compiled,
    refuse_event_dims,
    resized,
    seen,
    set_aside,
    stand_in,
)

T = TypeVar("T", bound=Callable[..., Any])
new_object: Any = copyreg.__newobj__  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # what pickle writes as an opcode
"""The function that makes an object without its `__init__` when a pickle is read."""


class Context(NamedTuple):
    """The data of a twin besides its children.

    The batch size is read from the child at `sizer`, since vmap, tree_map and other inputs of an exported program
    change it; `batch_size` is set only without such a child. `seen` describes the original child; compiled code doesn't
    have it.
    """

    cls: type
    keys: tuple[str, ...]
    order: tuple[str, ...]
    statics: tuple[tuple[str, Any], ...]
    sizer: int
    event_ndim: int
    batch_size: tuple[int, ...]
    device: torch.device | None
    names: Names
    seen: Seen | Outside | None = None


class TreeContext(NamedTuple):
    """The data of a tree of containers with one batch size besides its tensors, when vmap flattens it.

    `levels` has a pair for each key: (key, None) for a tensor, (key, levels) for a container.
    """

    cls: type
    levels: tuple[Any, ...]
    device: torch.device | None
    seen: Seen | Outside | None


_BATCHED = (TensorCollection, Tensor)  # in this order: the check for tensors takes longer if it fails
_CHILDREN = (*_BATCHED, TensorEntry)
_SCALARS = (int, type(None), str, bool, torch.Size)  # replacements for tensors by vmap, tree_map and export


def is_child(value: object) -> bool:
    """Whether an entry holds tensors, and so is a child in the pytree."""
    return type(value) not in _SCALARS and isinstance(value, _CHILDREN)


def _hold_batches(values: Iterable[Any]) -> bool:
    """Whether all values are tensors and containers."""
    return all([type(value) is Tensor or isinstance(value, _BATCHED) for value in values])


_NEAR = 12
"""The frames of pytree within which a call of vmap is looked for: a look at all would take longer at each level."""


def flatten(collection: Any) -> tuple[list[Any], Any]:
    """The entries that hold tensors, and the context that restores the rest."""
    cls, size, device, names = type(collection), collection._batch_size, collection._device, collection._names
    entries = collection._entries()
    plain = collection._plain  # after the copy
    tree = not plain and names is None and cls is TensorCollection._dense and not torch.compiler.is_compiling()
    if tree and by_vmap(_NEAR):
        tensors: list[Tensor] = []
        levels = _levels_of(collection, entries, tensors)
        if levels:
            return tensors, TreeContext(cls, levels, device, seen(size, tensors[0], None))
    if entries and (plain or _hold_batches(entries.values())):  # the common case
        keys, values = tuple(entries), list(entries.values())
        first = values[0]
        context = Context(cls, keys, keys, (), 0, first.ndim - len(size), (), device, names, seen(size, first, names))
        return with_keys(values, keys), context
    placed = getattr(store_of(collection), "_placed_keys", ())
    children = {key: value for key, value in entries.items() if key in placed or is_child(value)}
    if any([isinstance(value, TensorEntry) for value in children.values()]):
        children = set_aside(children, size)
    keys = tuple(children)
    values = with_keys(list(children.values()), keys)
    order, statics = keys, tuple([(key, entries[key]) for key in entries if key not in children])
    if statics:
        order = tuple(entries)
    for position, value in enumerate(values):
        # Placeholders that vmap puts into a node have no shape.
        if is_child(value) and (isinstance(value, _BATCHED) or batch_shape(value) is not None):
            event = value.ndim - len(size)
            return values, Context(
                cls, keys, order, statics, position, event, (), device, names, seen(size, value, names)
            )
    context = Context(cls, keys, order, statics, -1, -1, tuple(size), device, names)
    if placed or torch.compiler.is_compiling() or not by_vmap():
        return values, context
    return [*values, stand_in(size)], context._replace(sizer=len(keys), event_ndim=-1)


def _levels_of(collection: Any, entries: dict[str, Any], tensors: list[Tensor]) -> tuple[Any, ...] | None:
    """The levels of a tree, see `TreeContext`, whose tensors are added to a list; None if it holds anything else."""
    found: list[Any] = []
    for key, value in entries.items():
        levels = None
        if type(value) is type(collection):
            alike = value._batch_size == collection._batch_size and value._device == collection._device
            levels = _levels_of(value, value._entries(), tensors) if alike and value._names is None else None
            if not levels:
                return None
        elif isinstance(value, Tensor) and not value.is_nested:
            tensors.append(value)
        else:
            return None
        found.append((key, levels))
    return tuple(found)


class Marked:
    """A tree or lazy stack with something else than tensors: vmap puts a number for each, and only counts them."""

    __slots__ = ("context", "values")

    def __init__(self, values: Iterable[Any], context: Any) -> None:
        self.values, self.context = list(values), context


pytree.register_pytree_node(
    Marked, lambda tree: (tree.values, tree.context), Marked, serialized_type_name="tensorclass.Marked"
)


def _unflatten_tree(values: list[Any], context: TreeContext) -> Any:
    """As `unflatten`, for a tree."""
    cls, levels, device, before = context
    sizing = values[0]
    if not isinstance(sizing, Tensor):
        return Marked(values, context)
    paths = [".".join(path) for path in _paths_of(levels)]
    size, names, *_ = resized(cls, dict(zip(paths, values, strict=True)), sizing, before, None)  # type: ignore[arg-type]  # not in compiled code
    return _regrown(cls, levels, iter(values), (size, device and sizing.device, names))


def _paths_of(levels: tuple[Any, ...]) -> list[tuple[str, ...]]:
    return [(key, *path) for key, below in levels for path in ([()] if below is None else _paths_of(below))]


def _regrown(cls: Any, levels: tuple[Any, ...], values: Any, frame: tuple[Any, ...]) -> Any:
    found = {k: next(values) if below is None else _regrown(cls, below, values, frame) for k, below in levels}
    return cls._from_entries(found, *frame)


def flatten_with_keys(collection: TensorCollection) -> tuple[list[tuple[Any, Any]], Context]:
    """As `flatten`, with the key of each child."""
    children, context = flatten(collection)
    return [(pytree.MappingKey(key), child) for key, child in zip(context.keys, children, strict=True)], context


def unflatten(children: Iterable[Any], context: Context | TreeContext) -> Any:
    """A twin around new children. tree_map may have made them anything, so nothing is validated."""
    values = list(children)
    if isinstance(context, TreeContext):
        return _unflatten_tree(values, context)
    cls, keys, order, statics, sizer, event_ndim, batch_size, device, names, before = context
    batched = _hold_batches(values)
    if not batched and type(before) is not Seen and 0 <= sizer < len(keys):
        refuse_compiled(dict(zip(keys, values, strict=False)))
    if sizer == len(keys):
        sizing = values.pop()
    elif sizer >= 0:
        sizing = values[sizer]
    else:
        sizing = None
    found: dict[str, Any] = dict(zip(keys, values, strict=True))
    if type(before) is Outside:
        refuse_event_dims(cls, found, sizing, event_ndim)
    if type(sizing) is Tensor and sizing.is_nested:
        found = as_jagged(found.items()) or found
        sizing = found[keys[sizer]] if sizer < len(keys) else sizing
    shape, typed = getattr(sizing, "shape", None), True
    if not isinstance(shape, torch.Size) or (type(before) is not Seen and len(shape) <= event_ndim):
        size = torch.Size(batch_size)
    elif type(before) is Seen:
        size, names, added, typed = resized(cls, found, sizing, before, names)
        if added is not None and not batched:
            found.update({key: following(value, size, added) for key, value in found.items() if has_lengths(value)})
    else:
        size = shape[: len(shape) - event_ndim]
    if device is not None and values:
        device = getattr(values[0], "device", device)
    if statics:
        found.update(statics)
        found = {key: found[key] for key in order}
    names = names if names is not None and len(names) == len(size) else None
    result = cls._from_entries(found, size, device, names)  # type: ignore[attr-defined]  # a TensorCollection
    placed = [] if batched else [key for key, value in zip(keys, values, strict=True) if not is_child(value)]
    if placed and result._tensors_by_key() is None:
        store_of(result)._placed_keys = frozenset(placed)
    return result if typed or not hasattr(cls, "__tensorclass_schema__") else result._store


def _dump_context(context: Context) -> Any:
    """A context as JSON; the program names its class."""
    _, keys, order, statics, *rest, _ = context
    return [
        list(keys),
        list(order),
        [[key, dump_value(value, f"`{key}`")] for key, value in statics],
        dump_value(rest, "the batch"),
    ]


def _restore_context(owner: Any, saved: Any) -> Context:
    cls: Any = owner.cls() if isinstance(owner, Key) else owner
    keys, order, statics, rest = saved
    return Context(
        cls,
        tuple(keys),
        tuple(order),
        tuple([(key, restore_value(value)) for key, value in statics]),
        *restore_value(rest),
    )


def trust_for_loading(made: T) -> T:
    """Let `torch.load(weights_only=True)` call this class or function: it accepts any arguments, and calls none."""
    torch.serialization.add_safe_globals([made])
    return made


_GONE: deque[Key] = deque()


class Key:
    """A class as a key of torch's registries, which never drop keys: equal to the class, without a strong reference.

    Dynamo traces the methods, so they are simple Python.
    """

    __slots__ = ("__name__", "cls", "number")

    def __init__(self, cls: type) -> None:
        # Removed at the next registration: the garbage collector may run while dynamo iterates over a registry.
        self.cls = ref(cls, lambda _: _GONE.append(self))
        self.number, self.__name__ = hash(cls), cls.__name__

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other or (other is not None and self.cls() is other)

    def __repr__(self) -> str:
        return repr(self.cls())


# Dynamo compares keys of the registry as constants, and recognizes these from this version on. With `optree` installed,
# torch passes every class to C++, which accepts only classes.
_RECENT = TorchVersion(torch.__version__) >= "2.13"
WEAK = not getattr(pytree, "_cxx_pytree_exists", True) and _RECENT
if WEAK:
    pytree.register_constant(Key)


blank: Callable[[Any], Any] = object.__new__ if _RECENT else lambda cls: object.__new__(cls)  # noqa: PLW0108  # see below
"""An object without attributes. Dynamo before torch 2.13 does not know the method of `object` under another name."""


def _sweep() -> None:
    """Remove freed classes from the registries; a name is reassigned to another class that has it."""
    nodes: Any = pytree.SUPPORTED_NODES
    serial: Any = pytree.SUPPORTED_SERIALIZED_TYPES
    names: Any = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE
    while _GONE:
        key = _GONE.popleft()
        nodes.pop(key, None)
        name = serial.pop(key).serialized_type_name
        if names[name] is key:
            del names[name]
            names.update((name, other) for other, node in [*serial.items()] if node.serialized_type_name == name)


def register(cls: type) -> None:
    """Register a container class with torch's pytree, without keeping it alive."""
    _sweep()
    own = cls.__module__.partition(".")[0] == __name__.partition(".")[0]
    key: Any = Key(cls) if WEAK and not own else cls
    pytree.register_pytree_node(
        key,
        flatten,
        unflatten,
        flatten_with_keys_fn=flatten_with_keys,
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
        to_dumpable_context=_dump_context,  # pyright: ignore[reportArgumentType]  # our own context
        from_dumpable_context=partial(_restore_context, key),  # pyright: ignore[reportArgumentType]  # as above
    )
