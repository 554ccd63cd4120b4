"""Containers with other keys around the same leaves: select, exclude, rename, flatten, unflatten, partition."""

# Operations call each other through the class: pyright infers the mixin as their result, mypy infers Self.
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from typing_extensions import Self

from .._flags import flag, flags
from ..core import (
    KEY_SEPARATOR,
    Key,
    LeafTest,
    Path,
    Step,
    TensorCollection,
    as_items,
    default_is_leaf,
    described,
    is_shared,
    join_path,
    leaves_below,
    publish,
    unravel_key_to_tuple,
)
from ..errors import ArgumentError, KeySetError, KeyThroughLeafError, MissingKeyError, StructureError
from ._mapping import UNSET, MappingOps
from ._stacks import LazyOps
from ._undo import FLATTENED_KEYS, UNFLATTENED_KEYS


@flags
class KeyOps(LazyOps):
    """Containers with other keys. For a typed class, the result is untyped, since its schema differs."""

    __slots__ = ()

    def _adopt(self, result: Any, seen: dict[str, Any] | None = None) -> Self:
        """Take over the contents of another container, which was made from the entries `seen`."""
        self._require_unlocked("change the keys")
        self._swap_in(result._entries(), self._entries() if seen is None else seen)
        return self

    def _relaid(self, leaves: Sequence[tuple[Path, Any]]) -> Any:
        """An untyped container with the same batch size from paths and values; nested containers are new."""
        found: dict[str, Any] = {}
        deeper: dict[str, list[tuple[Path, Any]]] = {}
        for path, value in leaves:
            found[path[0]] = value
            if len(path) > 1:
                deeper.setdefault(path[0], []).append((path[1:], value))
        for name, rows in deeper.items():
            mine = self._live().get(name)
            found[name] = (mine if isinstance(mine, KeyOps) else self)._relaid(rows)
        return self._lay_out(found)

    def select(self, *keys: Key, inplace: bool = False, strict: bool = True, as_tensordict: bool = False) -> Any:
        """Select entries: a container with some of the entries, around the same tensors.

        Args:
            *keys: the keys to keep; a nested key keeps its parent containers.
            inplace: drop all other entries from this container.
            strict: raise for an absent key; otherwise skip it.
            as_tensordict: accepted for compatibility; the result is always untyped.

        Raises:
            MissingKeyError: for an absent key, if strict.

        >>> from tensorclass import TensorDict
        >>> list(TensorDict(a=1, b=2).select("a").keys())
        ['a']
        """
        if not (inplace is False is as_tensordict and strict is True):
            flag(inplace=inplace, strict=strict, as_tensordict=as_tensordict)
        if self._stacked and not inplace:
            return self._run_untyped("select", *keys, strict=strict)
        seen = self._entries()
        result = self._lay_out(self._select_entries(seen, keys, strict))
        return self._adopt(result, seen) if inplace else result

    def _select_entries(self, entries: dict[str, Any], keys: Sequence[Key], strict: bool) -> dict[str, Any]:
        """Some of the entries, which were read before; nested containers are new."""
        found: dict[str, Any] = {}
        deeper: dict[str, list[Path]] = {}
        for key in keys:
            path = (key,) if type(key) is str else unravel_key_to_tuple(key)
            name, below = path[0], path[1:]
            value = entries.get(name, UNSET)
            if below and isinstance(value, KeyOps):
                found.setdefault(name, UNSET)  # for the order
                deeper.setdefault(name, []).append(below)
            elif strict and (below or value is UNSET):
                found[name] = self._raw(path)  # raises, except for an absent optional field
                if below:  # another thread has just written it
                    return self._select_entries(self._entries(), keys, strict)
            elif not below and value is not UNSET:
                found[name] = value if type(value) is Tensor else _shallow(value)
        for name, paths in deeper.items():
            if found[name] is UNSET:  # else it is selected as a whole
                try:
                    found[name] = KeyOps.select(entries[name], *paths, strict=strict)
                except (MissingKeyError, KeyThroughLeafError):
                    for below in paths:
                        self._raw((name, *below))  # raises with the whole path
                    raise
                if not found[name]._outline():
                    del found[name]
        return found

    def exclude(self, *keys: Key, inplace: bool = False) -> Any:
        """Exclude entries: a container without some of the entries. Absent keys are ignored.

        >>> from tensorclass import TensorDict
        >>> list(TensorDict(a=1, b=2).exclude("a").keys())
        ['b']
        """
        seen = self._entries() if inplace is not False and flag(inplace=inplace) and inplace else None
        return self._drop_keys(keys) if seen is None else self._adopt(self._drop_keys(keys), seen)

    def _drop_keys(self, keys: Sequence[Key]) -> Any:
        """The container without some keys, which are at any depth."""
        if self._stacked:
            return self._run_untyped("exclude", *keys)
        deeper: list[Path] = []
        kept = self._entries()
        for key in keys:
            path = (key,) if type(key) is str else unravel_key_to_tuple(key)
            if path[1:]:
                deeper.append(path)
            else:
                kept.pop(path[0], None)
        for name, value in kept.items():
            if type(value) is not Tensor and isinstance(value, KeyOps):
                below = [path[1:] for path in deeper if path[0] == name] if deeper else ()
                kept[name] = value._drop_keys(below) if below else value._twin()
        return self._lay_out(kept)

    def rename_key_(self, old_key: Key, new_key: Key, safe: bool = False) -> Self:
        """Move an entry to another key, in place.

        Raises:
            StructureError: with `safe=True`, if the new key exists.

        >>> from tensorclass import TensorDict
        >>> list(TensorDict(a=1).rename_key_("a", "b").keys())
        ['b']
        """
        old, new = unravel_key_to_tuple(old_key), unravel_key_to_tuple(new_key)
        value = self._raw(old)
        if old == new:
            return self
        if safe and new in self:
            raise KeySetError(f"rename_key_: `{join_path(new)}` is already an entry")
        if new[: len(old)] == old:
            raise KeySetError(f"rename_key_: `{join_path(new)}` lies inside `{join_path(old)}`")
        holder = self._holder(old, None)
        if old[:-1] != new[:-1] or holder is None or holder._layered or holder._stacked:
            publish([*self._set_steps(new, value), *self._del_steps(old)])
            return self
        holder._require_unlocked("rename", join_path(old))
        seen = holder._entries()
        entries = {key: entry for key, entry in seen.items() if key != old[-1]}
        holder._swap_in({**entries, new[-1]: value}, seen)
        return self

    def rename_keys(self, mapping: Mapping[Key, Key], *, strict: bool = True) -> Any:
        """Rename several entries, in a new container. All renames happen at once, so keys may be swapped.

        >>> from tensorclass import TensorDict
        >>> list(TensorDict(a=1, b=2).rename_keys({"a": "c"}).keys())
        ['b', 'c']
        """
        if not isinstance(mapping, Mapping):
            raise ArgumentError(f"rename_keys takes a mapping of old keys to new ones, got {described(mapping)}")
        pairs = [(unravel_key_to_tuple(old), unravel_key_to_tuple(new)) for old, new in mapping.items()]
        values = [(new, self._raw(old)) for old, new in pairs if strict or old in self]
        result = self._drop_keys([old for old, _ in pairs])
        for new, value in values:
            if new in result:
                raise KeySetError(f"rename_keys: `{join_path(new)}` is already an entry")
            MappingOps.set(result, new, _shallow(value))
        return result

    @FLATTENED_KEYS
    def flatten_keys(self, separator: str = KEY_SEPARATOR, inplace: bool = False, is_leaf: LeafTest = None) -> Any:
        """Flatten to one level; nested keys are joined by a separator.

        Raises:
            StructureError: if two keys would become equal.

        >>> from tensorclass import TensorDict
        >>> list(TensorDict({"a": {"b": 1}, "c": 2}).flatten_keys().keys())
        ['a.b', 'c']
        """
        if self._stacked and not inplace:
            return self._run_untyped("flatten_keys", separator, is_leaf=is_leaf)
        flat: dict[str, Any] = {}
        seen = self._entries() if inplace else None
        _flatten(self, "", separator, is_leaf or default_is_leaf, flat)
        result = self._lay_out(flat)
        return self._adopt(result, seen) if inplace else result

    @UNFLATTENED_KEYS
    def unflatten_keys(self, separator: str = KEY_SEPARATOR, inplace: bool = False) -> Any:
        """Nest entries by splitting keys at a separator.

        Raises:
            StructureError: if a key would be both an entry and a container.

        >>> from tensorclass import TensorDict
        >>> TensorDict({"a.b": 1}).unflatten_keys()["a", "b"]
        tensor(1)
        """
        if not isinstance(separator, str) or not separator:
            raise ArgumentError(f"unflatten_keys takes a separator, such as '.', got {described(separator)}")
        if self._stacked and not inplace:
            return self._run_untyped("unflatten_keys", separator)
        tree = _Level()
        levels: dict[str, _Level] = {}
        seen = self._entries()
        for key, value in seen.items():
            outer, cut, last = key.rpartition(separator)
            node = tree if not cut else levels.get(outer)
            if node is None:
                node = levels[outer] = _level(tree, outer.split(separator))
            if last in node:
                raise _twice(key.split(separator))
            if type(value) is not Tensor and isinstance(value, KeyOps):
                value = KeyOps.unflatten_keys(value, separator)
            node[last] = value
        result = self._lay_out_level(tree)
        return self._adopt(result, seen) if inplace else result

    def _lay_out_level(self, tree: _Level) -> Any:
        """An untyped container of the entries of a level and the levels below."""
        return self._lay_out({key: self._lay_out_level(v) if type(v) is _Level else v for key, v in tree.items()})

    def split_keys(
        self,
        *key_sets: Sequence[Key],
        inplace: bool = False,
        default: Any = UNSET,
        strict: bool = True,
        reproduce_struct: bool = False,
    ) -> tuple[Any, ...]:
        """Partition the entries: one container for each set of keys, and one for the rest.

        Args:
            *key_sets: disjoint sets of keys.
            inplace: keep the rest in this container, which is then the last result.
            default: value for absent keys.
            strict: raise for an absent key without a default.
            reproduce_struct: keep nested containers that become empty.

        >>> from tensorclass import TensorDict
        >>> [sorted(part.keys()) for part in TensorDict(a=1, b=2, c=3).split_keys(["a"], ["b"])]
        [['a'], ['b'], ['c']]
        """
        given = [as_items(keys, "split_keys", "sets of keys") for keys in key_sets]
        sets = [[unravel_key_to_tuple(key) for key in keys] for keys in given]
        every = [path for paths in sets for path in paths]
        if len(set(every)) != len(every):
            raise KeySetError("split_keys: a key is in more than one set")
        parts = []
        for paths in sets:
            part: Any = self._lay_out(self._select_entries(self._entries(), paths, strict and default is UNSET))
            if reproduce_struct:
                part = MappingOps.update(MappingOps.empty(self, recurse=True), part)
            for path in paths if default is not UNSET else ():
                MappingOps.setdefault(part, path, default)
            parts.append(part)
        rest = self._drop_keys(every)
        if not reproduce_struct:
            KeyOps.filter_empty_(rest)
        if inplace:
            rest = self._adopt(rest)
        return (*parts, rest)

    def separates(self, *keys: Key, default: Any = UNSET, strict: bool = True, filter_empty: bool = True) -> Any:
        """Remove entries from this container, and return them as another one.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=1, b=2)
        >>> sorted(data.separates("a").keys()), sorted(data.keys())
        (['a'], ['b'])
        """
        self._require_unlocked("take entries out")
        part, _ = KeyOps.split_keys(self, keys, default=default, strict=strict)
        present = [path for path in map(unravel_key_to_tuple, keys) if path in self]
        steps = [step for path in present for step in self._del_steps(path)]
        publish([*steps, *(self._empty_steps(present, ()) if filter_empty else [])])
        return part

    def filter_empty_(self) -> Self:
        """Drop nested containers without leaves, in place; those that a typed class requires stay.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> list(TensorDict(a=torch.zeros(3), nested={}).filter_empty_().keys())
        ['a']
        """
        self._require_unlocked("drop empty containers")
        publish(self._empty_steps((), ()))
        return self

    def _empty_steps(self, gone: Sequence[Path], prefix: Path) -> list[Step]:
        """The steps that drop nested containers without leaves, once the entries under the paths `gone` are removed."""
        steps: list[Step] = []
        for part in self._parts():
            for key, value in part._entries().items():
                here = (*prefix, key)
                if not isinstance(value, KeyOps) or here in gone:
                    continue
                left = any([here + leaf.path not in gone for leaf in leaves_below(value)])
                if left or requires(type(self), key):
                    steps += value._empty_steps(gone, here)
                else:
                    part._require_unlocked("drop empty containers")
                    steps += part._drop_steps(key)
        return steps

    def filter_non_tensor_data(self) -> Any:
        """Keep only tensors, at every depth, in a new container.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> list(TensorDict(a=torch.zeros(2), s="x", batch_size=[2]).filter_non_tensor_data().keys())
        ['a']
        """
        if self._stacked:
            return self._run_untyped("filter_non_tensor_data")
        result: Any = self._lay_out({})
        for key, value in self._entries().items():
            if isinstance(value, KeyOps):
                result._put(key, KeyOps.filter_non_tensor_data(value))
            elif isinstance(value, Tensor) or is_shared(value):
                result._put(key, value)
        return result


class _Level(dict[str, Any]):
    """A level of a tree; a plain dict in it is an entry."""


def _level(tree: _Level, path: Sequence[str]) -> _Level:
    """The level at a path, created if absent."""
    for depth, part in enumerate(path, 1):
        if part not in tree:
            tree[part] = _Level()
        tree = tree[part]
        if type(tree) is not _Level:
            raise _twice(path[:depth])
    return tree


def _twice(path: Sequence[str]) -> StructureError:
    return KeySetError(f"unflatten_keys: `{join_path(path)}` would be written twice")


def _flatten(node: TensorCollection, prefix: str, separator: str, is_leaf: Any, flat: dict[str, Any]) -> None:
    plain = is_leaf is default_is_leaf
    for key, value in node._entries().items():
        here = prefix + key
        if type(value) is not Tensor and isinstance(value, TensorCollection) and (plain or not is_leaf(type(value))):
            _flatten(value._solid(), here + separator, separator, is_leaf, flat)
        elif here in flat:
            raise KeySetError(f"flatten_keys: several keys would become `{here}`; choose another separator")
        else:
            flat[here] = value


def _shallow(value: Any) -> Any:
    """Copy a nested container shallowly, so that results never share structure."""
    return MappingOps.copy(value) if isinstance(value, KeyOps) else value


def requires(cls: Any, key: str) -> bool:
    """Whether a class declares a field that is not optional, so its entry can't be removed."""
    schema = getattr(cls, "__tensorclass_schema__", None)
    spec = None if schema is None else schema.fields.get(key)
    return schema is not None and (spec is None or not (spec.optional or spec.produced))
