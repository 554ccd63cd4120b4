"""state_dict and load_state_dict: the leaves under dotted keys, as in `nn.Module`, and back, all or nothing."""

# Operations call each other through the class: pyright infers the mixin as their result, mypy infers Self.
# pyright: reportReturnType=false

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, MutableMapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from typing_extensions import Self

from .._flags import flags
from ..core import (
    KEY_SEPARATOR,
    Entry,
    Path,
    TensorCollection,
    as_batch_size,
    batch_shape,
    described,
    is_shared,
    is_typed,
    join_path,
    publish,
    sharing,
)
from ..errors import ArgumentError, Later, StructureError, few, named
from ._apply import ApplyOps
from ._lengths import Ragged, has_lengths
from ._mapping import MappingOps
from ._steps import copied_alike, copy_steps
from ._taken import taken_over
from ._writable import require_fit, require_writable

_LEGACY = ("__batch_size", "__device")
_SIZED = {"batch_size", "device"}
OBJECTS, RAGGED = "objects", "ragged"
"""The metadata keys of a level for entries that are not tensors, and for the names of ragged entries."""
PARTS = ("values", "lengths")
"""The keys of the two tensors of a ragged entry, below its key."""


class State(NamedTuple):
    """A parsed state dict: values by path, and the batch sizes of the levels that it contains."""

    values: dict[Path, Any]
    sizes: dict[Path, torch.Size]
    ragged: list[Path]

    def put(self, path: Path, key: str, value: Any) -> None:
        """Store a value of one level."""
        self.values[path + (key,)] = value  # noqa: RUF005  # a starred index needs Python 3.11


@flags
class StateOps(ApplyOps):
    """The state of a container, as for modules."""

    __slots__ = ()

    def state_dict(
        self, destination: Any = None, prefix: str = "", keep_vars: bool = False, flatten: bool = True
    ) -> OrderedDict[str, Any]:
        """The tensors under dotted keys; batch sizes, devices and other values are in its `_metadata`.

        Args:
            destination: an OrderedDict that receives the entries.
            prefix: the prefix of every key.
            keep_vars: keep the tensors attached to the autograd graph.
            flatten: False for nested OrderedDicts instead of dotted keys.

        Raises:
            StructureError: if two entries would get the same key, such as `"a.b"` and `("a", "b")`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> list(TensorDict(a=torch.zeros(2), b={"c": torch.ones(2)}).state_dict())
        ['a', 'b.c']
        """
        state: Any = OrderedDict() if destination is None else destination
        if destination is not None and not isinstance(destination, MutableMapping):
            raise ArgumentError(f"state_dict fills a dict, `destination`, got {described(state)}")
        metadata = getattr(state, "_metadata", None)
        if metadata is None:
            metadata = OrderedDict()
            if isinstance(state, OrderedDict):
                state._metadata = metadata  # type: ignore[attr-defined]  # as in modules
        _export(self._solid(), state, metadata, prefix, keep_vars, flatten)
        return state  # type: ignore[no-any-return]  # the argument of the caller

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False, from_flatten: bool | None = None
    ) -> Self:
        """Load a result of `state_dict`, all or nothing, including its batch sizes.

        Args:
            state_dict: dotted keys or nested mappings.
            strict: refuse missing and unexpected keys. False writes all given keys, including new ones, but skips keys
                that a typed class doesn't declare.
            assign: replace the present tensors by those of the state instead of copying values.
            from_flatten: whether dotted keys are paths; detected by default.

        Raises:
            StructureError: for missing and unexpected keys and different shapes; lists all of them.
            SchemaError: if an assigned tensor doesn't fit the declaration of a typed class.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2))
        >>> data.load_state_dict(TensorDict(a=torch.ones(2)).state_dict())["a"]
        tensor([1., 1.])
        """
        if not isinstance(state_dict, Mapping):
            raise ArgumentError(f"load_state_dict takes a mapping, got a {type(state_dict).__name__}")
        if not assign and from_flatten is not False and _tells_only(state_dict, self._batch_size):
            values = dict(state_dict)  # a copy: keys are counted and then read
            if len(values) == len(self._outline()) and self._copied_alike(values, True, False):
                return self
        table: dict[Path, Any] = {(): self}
        _fill(table, self, ())
        state = read_state(table, state_dict, from_flatten)
        resized = {path: size for path, size in state.sizes.items() if _has_other_size(table.get(path), size)}
        copies, rest = _sort_out(table, _values_to_write(table, state.values, strict), assign, resized)
        twin = _rehearse(self, rest, resized) if rest or resized else None
        if copies:
            self._refuse_frozen("write in place", "")
        if twin is None and _copy_at_once(table, copies):
            return self
        plan: list[Any] = []
        nodes: dict[Path, dict[str, Any]] = {}
        for path, value in copies.items():
            if not isinstance(value, Tensor) or value.is_nested:
                nodes.setdefault(path[:-1], {})[path[-1]] = value
            else:
                plan += _copies(table[path[:-1]], table[path], value, path)
        for path, values in nodes.items():  # together, so that lengths agree
            plan += table[path]._plan(values, path, None, None, None)
        for path in {path[:-1] for path in rest} | set(resized):
            _level(self, path)._require_unlocked("load the state", join_path(path) or None)
        taken = [] if twin is None else taken_over(self, twin)
        with sharing():
            publish([*copy_steps(plan), *taken])
        return self


# ---- out ---------------------------------------------------------------------------------------------------------


def _export(node: TensorCollection, state: Any, metadata: Any, prefix: str, keep_vars: bool, flatten: bool) -> None:
    """Append a level to a state dict and its metadata, and the levels below it."""
    level: dict[str, Any] = {"batch_size": node._batch_size, "device": node._device}
    name = prefix.removesuffix(KEY_SEPARATOR)
    if name in metadata:
        raise _twice(name)
    metadata[name] = level
    for key, value in node._entries().items():
        here = prefix + key
        if type(value) is Tensor and here not in state:
            state[here] = value if keep_vars else value.detach()
        elif isinstance(value, TensorCollection) and flatten:
            _export(value, state, metadata, here + KEY_SEPARATOR, keep_vars, flatten)
        elif isinstance(value, TensorCollection):
            inner: Any = OrderedDict()
            inner._metadata = OrderedDict()
            state[here] = inner
            _export(value, inner, inner._metadata, "", keep_vars, flatten)
        elif has_lengths(value):
            level.setdefault(RAGGED, []).append(key)
            parts = {part: getattr(value, part) if keep_vars else getattr(value, part).detach() for part in PARTS}
            if here in state or any(here + KEY_SEPARATOR + part in state for part in parts):
                raise _twice(here)
            flat = {here + KEY_SEPARATOR + part: tensor for part, tensor in parts.items()}
            state.update(flat if flatten else {here: OrderedDict(parts)})
        else:
            shown = _value_of_entry(value)
            if not isinstance(shown, Tensor):
                level.setdefault(OBJECTS, {})[key] = shown.tolist() if _is_stack(value) else shown
            elif here in state:
                raise _twice(here)
            else:
                state[here] = shown if keep_vars else shown.detach()


def _value_of_entry(entry: Any) -> Any:
    return entry._read_value() if isinstance(entry, Entry) else entry


def _is_stack(entry: Any) -> bool:
    """Whether an entry holds one object per element."""
    return batch_shape(entry) is not None


def _twice(key: str) -> StructureError:
    return StructureError(
        f"state_dict: two entries would have the key `{key}`: a key with dots and a nested one; "
        "use `flatten=False`, or rename one"
    )


# ---- in ----------------------------------------------------------------------------------------------------------


def _fill(table: dict[Path, Any], collection: TensorCollection, path: Path) -> None:
    """Collect everything below a container by path; the generator `walk` takes longer."""
    for key, value in collection._entries().items():
        here = (*path, key)
        table[here] = value
        if type(value) is not Tensor and isinstance(value, TensorCollection):
            _fill(table, value, here)


def read_state(table: Mapping[Path, Any], state: Mapping[str, Any], flat: bool | None) -> State:
    """The values of a state dict by path: dotted keys are matched with keys of the container before they are split."""
    nested = True in [type(value) is not Tensor and isinstance(value, Mapping) for value in state.values()]
    flat = not nested if flat is None else flat
    found = State({}, {}, [])
    own = {KEY_SEPARATOR.join(path): path for path in table} if flat else {}
    ragged = [path for path, value in table.items() if has_lengths(value)]
    own.update({KEY_SEPARATOR.join((*path, part)): (*path, part) for path in ragged if flat for part in PARTS})
    metadata = getattr(state, "_metadata", None) or {}
    for name, level in metadata.items():
        if name in own:
            path = own[name]
        elif name:
            path = tuple(name.split(KEY_SEPARATOR))
        else:
            path = ()
        _read_level(found, path, level)
    if flat:
        for key, value in state.items():
            found.values[own[key] if key in own else tuple(key.split(KEY_SEPARATOR))] = value
    else:
        _read_nested(found, state, ())
    for path in dict.fromkeys([*ragged, *found.ragged]):
        parts = [found.values.pop((*path, part), None) for part in PARTS]
        if any([part is not None for part in parts]):
            found.values[path] = Ragged.node._of_state(*parts, path)
    return found


def _tells_only(state: Any, size: torch.Size) -> bool:
    """Whether the metadata of a state dict, if it has any, says nothing besides the batch size, and this one."""
    metadata = getattr(state, "_metadata", None) or {"": {}}
    level = metadata.get("", {OBJECTS: {}})
    return len(metadata) == 1 and level.keys() <= _SIZED and tuple(level.get("batch_size", size)) == size


def _read_level(found: State, path: Path, level: Mapping[str, Any]) -> None:
    if "batch_size" in level:
        found.sizes[path] = as_batch_size(level["batch_size"])
    found.ragged.extend([(*path, key) for key in level.get(RAGGED, [])])
    for key, value in level.get(OBJECTS, {}).items():
        found.put(path, key, value)


def _read_nested(found: State, state: Mapping[str, Any], path: Path) -> None:
    for key, value in state.items():
        if key == _LEGACY[0]:
            found.sizes[path] = as_batch_size(value)
        elif isinstance(value, Mapping):
            inner = getattr(value, "_metadata", None) or {}
            if "" in inner:
                _read_level(found, (*path, key), inner[""])
            _read_nested(found, value, (*path, key))
        elif key not in _LEGACY:
            found.put(path, key, value)


def _values_to_write(table: Mapping[Path, Any], values: dict[Path, Any], strict: bool) -> dict[Path, Any]:
    """The values to write; a strict load refuses missing and unexpected ones."""
    unexpected = [path for path in values if isinstance(table.get(path, table[()]), TensorCollection)]
    if not strict:
        return {path: value for path, value in values.items() if path in table or _admits(table[()], path)}
    missing = [path for path, value in table.items() if path not in values and _is_tensor(value)]
    if missing or unexpected:
        names = [join_path(path) for path, value in table.items() if not isinstance(value, TensorCollection)]
        parts = [f"missing: {few([f'`{join_path(path)}`' for path in missing], between=', ')}"] if missing else []
        told = [Later(named, join_path(path), names) for path in unexpected]
        parts += [f"unexpected: {few(told, between=', ')}"] if told else []
        raise StructureError(
            f"load_state_dict: the keys of the state are not those of this {type(table[()]).__name__} "
            f"({'; '.join(parts)}); load what fits with strict=False"
        )
    return values


def _is_tensor(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        or has_lengths(value)
        or (isinstance(value, Entry) and isinstance(value._read_value(), Tensor))
    )


def _admits(collection: Any, path: Path) -> bool:
    """Whether a new entry is allowed: always in an untyped container, in a typed class if declared."""
    schema = getattr(type(collection), "__tensorclass_schema__", None)
    if schema is not None and path[0] not in schema.fields:
        return False
    child = collection._entries().get(path[0])
    return len(path) == 1 or not isinstance(child, TensorCollection) or _admits(child, path[1:])


def _level(collection: Any, path: Path) -> Any:
    """The container under a path, or the last existing one on the path."""
    for part in path:
        inner = collection._entries().get(part)
        if not isinstance(inner, TensorCollection):
            break
        collection = inner
    return collection


def _has_other_size(level: Any, size: torch.Size) -> bool:
    return isinstance(level, TensorCollection) and level._batch_size != size


def _rehearse(collection: Any, values: dict[Path, Any], sizes: Mapping[Path, torch.Size]) -> Any:
    """A twin that values and batch sizes are written to first: if it refuses them, the container is not changed."""
    twin = collection._twin()
    for path, size in sizes.items():
        level = _level(twin, path)
        level._names = level._names if len(size) == len(level._batch_size) else None
        level._batch_size = size
    _put_levels(twin, values)
    _check_levels(twin, sorted(sizes, key=len, reverse=True))
    return twin


def _check_levels(twin: Any, resized: list[Path]) -> None:
    """Check every level whose batch size changed against its leaves, and against its declaration if it has one."""
    for path in resized:
        level = _level(twin, path)
        level._resize(level._batch_size, path)
        if is_typed(level):
            level._check_all(level._entries())
    if resized:
        twin._resize(twin._batch_size, ())


def _sort_out(
    table: Mapping[Path, Any], values: dict[Path, Any], assign: bool, sizes: Mapping[Path, torch.Size]
) -> tuple[dict[Path, Any], dict[Path, Any]]:
    """The values that are copied into present tensors, which have the same shape, and those that replace entries."""
    copies: dict[Path, Any] = {}
    rest: dict[Path, Any] = {}
    misfits = []
    for path, value in values.items():
        entry: Any = table.get(path)
        kind = type(entry)
        if kind is Tensor and type(value) is Tensor and not assign and value.shape == entry.shape:
            copies[path] = value
            continue
        shown: Any = entry._read_value() if entry is not None and hasattr(kind, "_read_value") else entry
        if isinstance(shown, Tensor) and not isinstance(value, Tensor):
            value = torch.as_tensor(value)
        if _is_stack(entry) and (isinstance(value, list) or not shown.shape):
            value = entry.of(value, sizes.get(path[:-1], shown.shape))  # pyright: ignore[reportOptionalMemberAccess]  # a stack
        nested = isinstance(shown, Tensor) and shown.is_nested and isinstance(value, Tensor) and value.is_nested
        if not assign and (nested or _side_by_side(entry, value)):
            copies[path] = value
            continue
        if assign or not isinstance(shown, Tensor):
            if value is not shown:
                rest[path] = value
        elif value.shape != shown.shape:
            misfits.append(f"`{join_path(path)}`: {list(shown.shape)}, the state has {list(value.shape)}")
        else:
            copies[path] = value
    if misfits:
        raise StructureError(
            f"load_state_dict copies into tensors of the same shape ({'; '.join(misfits)}); with assign=True the "
            "tensors of the state replace the present ones"
        )
    return copies, rest


def _side_by_side(entry: Any, value: Any) -> bool:
    """Whether both are objects or ragged entries over the same elements, which are written in place."""
    rows = value if (found := Ragged.over(value)) is None else found
    mine, theirs = batch_shape(entry), batch_shape(rows)
    return mine is not None and mine == theirs and has_lengths(entry) == has_lengths(rows)


def _copy_at_once(table: dict[Path, Any], copies: dict[Path, Any]) -> bool:
    """Copy plain tensors of equal dtypes and shapes at once; for anything else copy nothing, return False."""
    targets, sources = [table[path] for path in copies], [*copies.values()]
    if not sources or {*map(type, targets), *map(type, sources)} != {Tensor}:
        return False
    holders = [table[path] for path in {path[:-1] for path in copies}]
    if any([holder._stacked or holder._layered for holder in holders]):
        return False
    return copied_alike(targets, sources)


def _copies(holder: Any, entry: Any, value: Tensor, path: Path) -> list[tuple[Any, Any, Path]]:
    """The checked copies of a value with the shape of the entry into a tensor, or into those of stack members."""
    if holder._stacked:
        return holder._plan({path[-1]: value}, path[:-1], None, None, None)  # type: ignore[no-any-return]  # a plan
    if not isinstance(entry, Tensor):
        planned = entry._plan_write(value, None, holder._batch_size, path)
        return [(entry._read_value(), planned, path) if is_shared(entry) else (entry, planned, path)]
    if holder._layered:
        holder._refuse_frozen("write in place", join_path(path))
    require_fit(value, entry.dtype, path)
    require_writable(entry, path)
    return [(entry, value, path)]


def _put_levels(twin: Any, values: dict[Path, Any]) -> None:
    """Write values into a twin; each level is checked as a whole."""
    by_level: dict[Path, dict[str, Any]] = {}
    for path, value in values.items():
        by_level.setdefault(path[:-1], {})[path[-1]] = value
    for path, level in by_level.items():
        holder = MappingOps._holder(twin, (*path, next(iter(level))), create=True)
        tensors = {key: value for key, value in level.items() if isinstance(value, Tensor) or has_lengths(value)}
        objects = {key: value for key, value in level.items() if key not in tensors}
        typed = is_typed(holder)
        for key, entry in {} if typed else holder._entries().items():
            if key in tensors and is_shared(entry):
                tensors[key] = type(entry)(tensors[key])
        checked = holder._check_all(level if typed else tensors)
        holder._put_all(checked if typed else {**checked, **objects})
