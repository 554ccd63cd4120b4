"""Writes that keep the storage of leaves. A write is checked as a whole before the first leaf is changed."""

# Operations call each other through the class: pyright infers the mixin as their result, mypy infers Self.
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from .._deferred import any_dtensor, is_dtensor
from .._flags import flag, flags
from ..core import (
    VALUES,
    Entry,
    Key,
    Path,
    Step,
    TensorCollection,
    TensorEntry,
    broadcasts_to,
    each_row,
    is_shared,
    join_path,
    over_events,
    publish,
    sharing,
    store_of,
    unravel_key_to_tuple,
    with_dims,
)
from ..errors import (
    ArgumentError,
    MissingKeyError,
    StructureError,
    did_you_mean,
)
from ._compare import same_object
from ._distributed import refuse_mixtures, refuse_split_index, refuse_sums, replicated_beside, whole_tensor
from ._index import Index, IndexOps, indexed_size, normalise
from ._lengths import Ragged, gather_rows, has_lengths, take_back
from ._levels import by_level
from ._mapping import MappingOps
from ._pairs import pairs_of, require_same_keys, size_error, wanted_paths
from ._steps import WHOLE, carry_out, copied_again, copied_alike, copied_rows, copy_plain, copy_steps, rows_at
from ._steps import Copy as Copy
from ._steps import foreach_is_safe as foreach_is_safe
from ._steps import without_overlap as without_overlap
from ._where import choose_entries, choose_leaves, condition_over, stacked_below
from ._writable import (
    NUMBERS,
    as_mask,
    as_source,
    fill_exactly,
    is_readable,
    require_writable,
    scalar_like,
    spread,
    takes,
)


@flags
class InplaceOps(IndexOps):
    """`set_`, `update_`, `copy_`, index assignment and related methods."""

    __slots__ = ()

    # ---- whole entries -------------------------------------------------------------------------------------------

    def set_(self, key: Key, item: Any, *, non_blocking: bool = False) -> Self:
        """Copy a value into the tensor of an existing entry.

        Args:
            key: an existing entry.
            item: a number, or a tensor that broadcasts to the entry without enlarging it.
            non_blocking: whether the copy may be asynchronous.

        Raises:
            MissingKeyError: if the key is absent.
            BatchSizeError: if the shapes don't agree.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), batch_size=[2]).set_("a", torch.ones(2))["a"]
        tensor([1., 1.])
        """
        flag(non_blocking=non_blocking) if non_blocking is not False else None
        if type(key) is str and self._copied_alike({key: item}, False, non_blocking):
            return self
        path = unravel_key_to_tuple(key)
        return InplaceOps.update_(self, {path if path[1:] else path[0]: item}, non_blocking=non_blocking)

    def update_(
        self,
        input_dict_or_td: Mapping[Any, Any] | TensorCollection | None = None,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[Key] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Copy values into the tensors of existing entries, all or none; allowed on a locked container.

        Raises:
            MissingKeyError: for an absent key.
            BatchSizeError: if a value doesn't fit its entry.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), b=torch.zeros(2), batch_size=[2]).update_({"a": 1.0})["a"]
        tensor([1., 1.])
        """
        if not (clone is non_blocking is False):
            flag(clone=clone, non_blocking=non_blocking)
        if input_dict_or_td is not None and kwargs:
            raise ArgumentError("update_: give one mapping or keyword arguments, not both")
        source = kwargs if input_dict_or_td is None else input_dict_or_td
        if keys_to_update is None and self._copied_alike(source, False, non_blocking):
            return self
        if not isinstance(source, (Mapping, TensorCollection)):
            raise ArgumentError(f"update_ takes a container or a mapping, got a {type(source).__name__}; see `fill_`")
        carry_out(self._plan(source, (), None, None, wanted_paths(keys_to_update, source)), non_blocking)
        return self

    def _copied_alike(self, source: Any, whole: bool, non_blocking: bool) -> bool:
        """Copy a source of the same structure into all leaves at once; False if it has to be done entry by entry."""
        given = type(source) is dict
        if not given and type(source) is not type(self):
            return False
        if given and self._stacked and not self._layered:
            return self._run_on_stack("_copied_rows", source, whole, non_blocking)  # type: ignore[no-any-return]  # a bool
        if given and len(source) == 1 and not self._layered:
            ((key, item),) = source.items()
            return not self._afar and copy_plain(
                self._live().get(key), item, non_blocking
            )  # else what it reads is a copy
        targets: list[Tensor] = []
        sources: list[Tensor] = []
        if self._pair_leaves(source, targets, sources, "whole", whole) is None:
            return False
        own: Any = store_of(self)
        if copied_again(own, targets, sources, non_blocking):
            return True
        declared = self._layered and not given and source._batch_size == self._batch_size and self._is_rigid()  # pyright: ignore[reportAttributeAccessIssue]  # a container
        return copied_alike(targets, sources, declared, non_blocking, holder=own)

    def _update_in_place(self, values: Mapping[Any, Any], non_blocking: bool) -> Self:
        return InplaceOps.update_(self, values, non_blocking=non_blocking)

    def _copy_steps(self, values: Mapping[Any, Any], non_blocking: bool) -> list[Step]:
        return copy_steps(self._plan(values, (), None, None, None), non_blocking)

    def copy_(self, tensordict: Any, non_blocking: bool = False) -> Self:
        """Copy all leaves of a container with the same keys into this one's tensors; `update_` copies some entries.

        Raises:
            MissingKeyError: if one has a key that the other lacks.
        """
        if self._copied_alike(tensordict, True, non_blocking):
            return self
        require_same_keys(self, tensordict, "copy_")
        carry_out(self._plan(tensordict, (), None, None, None), non_blocking)
        return self

    def fill_(self, key: Key, value: float | bool) -> Self:
        """Fill one entry with a number; a nested container is filled at every depth.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), batch_size=[2]).fill_("a", 3)["a"]
        tensor([3., 3.])
        """
        if self._stacked:
            return self._run_on_stack("fill_", key, value)  # type: ignore[no-any-return]  # a stack of this class
        if type(key) is str:
            if self._layered:
                self._refuse_frozen("write in place", key)
            leaf = self._held(key)
            if type(leaf) is Tensor and fill_exactly(leaf, value):
                return self
        with sharing():
            publish(self._fill_steps(unravel_key_to_tuple(key), value))
        return self

    def _fill_steps(self, path: Path, value: float | bool) -> list[Step]:
        """The steps of `fill_`."""
        entry = self._read(path)
        if not isinstance(entry, TensorCollection):
            return self._copy_steps({path if path[1:] else path[0]: value}, False)
        self._refuse_frozen("fill_", "")
        entry._refuse_frozen("fill_")  # type: ignore[attr-defined]  # containers have this method
        targets: list[Tensor] = []
        back = gather_rows(entry._open(targets, VALUES), targets, "fill_")
        for leaf in targets:
            require_writable(leaf, path)
        filled = [replicated_beside(leaf, scalar_like(value, leaf, path).expand(leaf.shape)) for leaf in targets]
        plan = [(leaf, number, path) for leaf, number in zip(targets, filled, strict=True)]
        return [*copy_steps(plan), *take_back(back)]

    def zero_(self) -> Self:
        """Fill every leaf with zero; `fill_` writes other numbers."""
        self._refuse_frozen("zero_")
        leaves: list[Tensor] = []
        back = gather_rows(self._open(leaves, VALUES), leaves, "zero_")
        for leaf in leaves:
            require_writable(leaf, ())
        fused = leaves and foreach_is_safe(leaves) and True not in [leaf.is_nested for leaf in leaves]
        kernels = [partial(torch._foreach_zero_, leaves)] if fused else [partial(leaf.zero_) for leaf in leaves]  # pyright: ignore[reportPrivateImportUsage]  # torch offers it under this name only
        publish([*kernels, *take_back(back)])
        return self

    # ---- at an index ---------------------------------------------------------------------------------------------

    def set_at_(self, key: Key, value: Any, index: Index, *, non_blocking: bool = False) -> Self:
        """Copy a value into the elements of one entry at an index over the batch dims.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3), batch_size=[3]).set_at_("a", 1.0, 1)["a"]
        tensor([0., 1., 0.])
        """
        flag(non_blocking=non_blocking) if non_blocking is not False else None
        if type(key) is str:
            picks = type(value) is type(index) is Tensor and index.dtype is torch.int64
            own: Any = self if picks else None
            if own is not None and self._layered:
                own = self._without_rules()
            rows = WHOLE if own is None else rows_at(index, own._batch_size)
            if own is not None and rows != WHOLE and copied_rows(own._held(key), value, index):
                return self
            number = type(value) in NUMBERS
            if self._fill_at(index, value, key) if number else self._assign_alike(index, {key: value}, False):
                return self
        path = unravel_key_to_tuple(key)
        return InplaceOps.update_at_(self, {path if path[1:] else path[0]: value}, index, non_blocking=non_blocking)

    def _without_rules(self) -> Any:
        """The store in which a tensor of the same dtype may be written; None if its class might refuse."""
        own: Any = self._store  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a typed class
        refuses = self.__tensorclass_options__.frozen or self.__tensorclass__.checked  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # as above
        return own if type(own) is self._dense and own._plain and not refuses else None

    def update_at_(
        self,
        input_dict_or_td: Mapping[Any, Any] | TensorCollection,
        idx: Index,
        clone: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[Key] | None = None,
    ) -> Self:
        """Copy values into the elements of existing entries at an index, all or none.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(3), b=torch.zeros(3), batch_size=[3])
        >>> data.update_at_({"a": torch.tensor(7.0)}, 1)["a"]
        tensor([0., 7., 0.])
        """
        if not (clone is non_blocking is False):
            flag(clone=clone, non_blocking=non_blocking)
        if keys_to_update is None and self._assign_alike(idx, input_dict_or_td, False):
            return self
        self._set_at(idx, input_dict_or_td, wanted_paths(keys_to_update, input_dict_or_td), non_blocking)
        return self

    def copy_at_(self, tensordict: Any, idx: Index, non_blocking: bool = False, *, fast: bool = True) -> Self:
        """Copy all leaves of another container into this one's elements at an index; see `update_at_`."""
        if self._assign_alike(idx, tensordict, True):
            return self
        require_same_keys(self, tensordict, "copy_at_")
        self._set_at(idx, tensordict, None, non_blocking)
        return self

    def _set_index(self, index: Index, value: Any) -> None:
        if self._assign_alike(index, value, True) or self._fill_at(index, value):
            return
        if isinstance(value, TensorCollection) and not self._entries() and value._entries():
            self._preallocate(index, value)
            return
        if isinstance(value, (TensorCollection, Mapping)):
            require_same_keys(self, value, "index assignment")
        self._set_at(index, value, None, False)

    def _assign_alike(self, index: Any, value: Any, whole: bool) -> bool:
        """Write a value if its leaves have exactly the shapes and dtypes of the elements; else return False."""
        given = type(value) is dict and not whole
        if not (type(value) is type(self) or given):
            return False
        typed = self._layered
        own: Any = self._store if typed else store_of(self)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # reading its slots is faster
        size: Any = () if own._stacked else own._batch_size  # a stack would compute it from all its members
        if type(index) is Tensor and index.dtype is torch.bool and index.shape == size[:1] and is_readable(index):
            index = index.nonzero().reshape(-1)
        rows = rows_at(index, size)
        if rows == WHOLE:
            return False
        if given and len(value) == 1 and not typed:
            ((key, item),) = value.items()
            return copy_plain(self._held(key), item, False, index, rows)
        pair: Any = self
        there: Any = value
        refuses = not typed or given or self.__tensorclass_options__.frozen  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a typed class
        if not refuses and own._plain and type(value._store) is type(own):  # pyright: ignore[reportAttributeAccessIssue]  # a typed class
            pair, there = own, value._store  # pyright: ignore[reportAttributeAccessIssue]  # nothing below has a class that could refuse
        leaves: list[Tensor] = []
        sources: list[Tensor] = []
        if pair._pair_leaves(there, leaves, sources, "index", whole) is None or not leaves:
            return False
        if copied_again(own, leaves, sources, False, index, rows):
            return True
        fits = typed and rows is None and not given and (size[0], *there._batch_size) == size  # faster than a slice
        declared = fits and (self.__tensorclass__.rigid if own._plain else self._is_rigid())
        return copied_alike(leaves, sources, declared, False, index, rows, own)

    def _fill_at(self, index: Any, value: Any, key: str | None = None) -> bool:
        """Write a number to the elements at an int, a slice or a mask; False for the general path."""
        if type(value) not in NUMBERS or self._stacked:
            return False
        mask: Any = index if type(index) is Tensor else None
        size = self._batch_size
        if mask is not None:
            if index.dtype is not torch.bool or not index.ndim or index.shape != size[: index.ndim]:
                return False
        elif type(index) not in (int, slice) or not size or (type(index) is int and not -size[0] <= index < size[0]):
            return False
        leaves = self._fillable(value, key)
        if leaves is None:
            return False
        if mask is None and len(leaves) == 1:
            leaves[0][index].fill_(value)
        elif mask is None:
            each_row(Tensor.fill_, [leaf[index] for leaf in leaves], [value] * len(leaves))
        else:
            masks = [over_events(mask, leaf.ndim - mask.ndim) for leaf in leaves]
            each_row(Tensor.masked_fill_, leaves, masks, [value] * len(leaves))
        return True

    def _fillable(self, value: Any, key: str | None = None) -> list[Tensor] | None:
        """One leaf, or all, if they are plain tensors that can hold the number exactly; None for the general path."""
        leaves: list[Any] = []
        if key is not None:
            self._refuse_frozen("write in place", key)
            leaves.append(self._held(key))
        elif self._pair_leaves(self, leaves, [], "index") is None:
            return None
        return leaves if all([type(leaf) is Tensor and takes(leaf, value) for leaf in leaves]) else None

    def _set_at(self, index: Index, value: Any, wanted: list[Path] | None, non_blocking: bool) -> None:
        if self._stacked:
            self._refuse_frozen("write by index", "")
            self._run_on_stack("_set_at", index, value, wanted, non_blocking)
            return
        parts = normalise(index, self._batch_size)
        leaves = self._leaves()
        refuse_split_index(self, leaves, parts)
        first = next((leaf for leaf in leaves if isinstance(leaf, Tensor)), None)
        size = indexed_size(parts, self._batch_size, first, None if first is None else first[parts])
        self._refuse_frozen("write by index", "")
        plan = self._plan(value, (), parts, size, wanted)
        carry_out(plan, non_blocking, parts)

    def _preallocate(self, index: Index, value: TensorCollection) -> None:
        """Allocate zeroed buffers for the entries of `value` in an empty container, then write the elements."""
        self._require_unlocked("allocate")
        parts = normalise(index, self._batch_size)
        size = indexed_size(parts, self._batch_size, None, None)
        if not broadcasts_to(value._batch_size, size):
            raise size_error("index assignment", (), value._batch_size, size)
        dims = len(value._batch_size)
        device = self._device
        buffers = [leaf.new_zeros(self._batch_size + leaf.shape[dims:], device=device) for leaf in value._leaves()]
        twin: Any = value._make(buffers, self._batch_size)
        twin[index] = value
        self._put_all(self._check_all(twin._entries()))

    # ---- planning and writing ------------------------------------------------------------------------------------

    def _plan(
        self,
        source: Any,
        prefix: Path,
        parts: tuple[Any, ...] | None,
        size: torch.Size | None,
        wanted: list[Path] | None,
    ) -> list[Copy]:
        """The checked copies of a write: (destination, source expanded to it, path)."""
        self._refuse_frozen("write in place", join_path(prefix))
        if self._stacked:
            return self._run_on_stack("_plan", source, prefix, parts, size, wanted)  # type: ignore[no-any-return]  # a plan
        target = self._batch_size if size is None else size
        entries = self._entries()
        if not isinstance(source, (TensorCollection, Mapping)):
            source = dict.fromkeys(
                (k for k, v in entries.items() if isinstance(v, (Tensor, TensorCollection)) or has_lengths(v)), source
            )
        elif isinstance(source, TensorCollection) and not broadcasts_to(source._batch_size, target):
            raise size_error("in-place write", prefix, source._batch_size, target)
        source_dims = len(source._batch_size) if isinstance(source, TensorCollection) else None
        plan: list[Copy] = []
        for key, value in by_level(pairs_of(source), prefix, wanted):
            if key not in entries:
                raise MissingKeyError(
                    f"in-place write: `{join_path((*prefix, key))}` is not an entry of this "
                    f"{type(self).__name__}{did_you_mean(key, list(entries))}; `update` adds keys"
                )
            plan += self._plan_entry(entries[key], value, (*prefix, key), parts, target, source_dims, wanted)
        return plan

    def _plan_entry(
        self,
        entry: Any,
        value: Any,
        path: Path,
        parts: tuple[Any, ...] | None,
        size: torch.Size,
        source_dims: int | None,
        wanted: list[Path] | None,
    ) -> list[Copy]:
        if isinstance(entry, InplaceOps):
            inner = entry._batch_size[len(self._batch_size) :]
            return entry._plan(value, path, parts, None if parts is None else size + inner, wanted)
        rows = Ragged.over(entry)
        if isinstance(entry, Tensor) and rows is None:
            event = entry.shape[len(self._batch_size) :]
            source = as_source(value, entry, path)
            refuse_mixtures("in-place write", [path], [entry], [source])
            refuse_sums("in-place write", [path], [entry], [source], copies=True)
            require_writable(entry, path)
            source = spread(source, size, event, source_dims, path)
            return [(entry, replicated_beside(entry, source), path)]
        return self._plan_object(entry if rows is None else rows, value, path, parts, size)

    def _plan_object(
        self, entry: Any, value: Any, path: Path, parts: tuple[Any, ...] | None, size: torch.Size
    ) -> list[Copy]:
        """Plan writes to entries without tensors: a stack of objects is written, a shared value must not change."""
        if isinstance(entry, Entry):
            planned = entry._plan_write(value, parts, size, path)
            if not is_shared(entry):
                return [(entry, planned, path)]  # type: ignore[list-item]  # it writes by itself
            if parts is not None or planned is entry._read_value():
                return []
            require_writable(entry._read_value(), path)
            return [(entry._read_value(), planned, path)]
        if not same_object(value, entry):
            raise StructureError(
                f"in-place write: `{join_path(path)}` is one {type(entry).__name__} shared by the batch "
                f"({entry!r:.60}), got {value!r:.60}; set the entry itself, or hold one object for each element"
            )
        return []

    def _choose_entry(self, key: str, mine: Any, theirs: Any, condition: Tensor) -> None:
        """Choose by a condition between two entries that are neither tensors nor containers."""
        rows, others = Ragged.over(mine), Ragged.over(theirs)
        if rows is not None:
            condition = whole_tensor(condition)
            self._put(key, Ragged.held(rows._choose(theirs if others is None else others, condition, key)))
        elif isinstance(mine, Entry):
            self._put(key, mine._choose(theirs, whole_tensor(condition), key))
        elif not isinstance(mine, Tensor) and not same_object(mine, theirs):
            raise StructureError(
                f"where: field `{key}` is one value shared by the batch, and the two sides differ: {mine!r:.60} and "
                f"{theirs!r:.60}"
            )

    # ---- masks ---------------------------------------------------------------------------------------------------

    def masked_fill_(self, mask: Tensor, value: float | bool) -> Self:
        """Fill the elements for which a mask over leading batch dims is True.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2), batch_size=[2]).masked_fill_(torch.tensor([True, False]), 1)["a"]
        tensor([1., 0.])
        """
        self._refuse_frozen("masked_fill_")
        if type(mask) is Tensor and self._fill_at(mask, value):
            return self
        leaves: list[Tensor] = []
        twin = self._open(leaves, VALUES)
        back = gather_rows(twin, leaves, "masked_fill_")
        wides = twin._broadcast(as_mask(mask, self._batch_size))
        refuse_mixtures("masked_fill_", twin, leaves, wides)
        refuse_sums("masked_fill_", twin, leaves, wides)
        rows = zip(leaves, wides, strict=True)
        masked = [(leaf, wide) for leaf, wide in rows if wide is not None]
        for leaf, _ in masked:
            scalar_like(value, leaf)
            require_writable(leaf, ())
        masks = without_overlap([leaf for leaf, _ in masked], [wide for _, wide in masked], own=False)
        steps = [partial(leaf.masked_fill_, wide, value) for (leaf, _), wide in zip(masked, masks, strict=True)]
        publish([*steps, *take_back(back)])
        return self

    def masked_fill(self, mask: Tensor, value: float | bool) -> Self:
        """A copy with the elements filled for which a mask over leading batch dims is True.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.arange(3), batch_size=[3])
        >>> data.masked_fill(data["a"] > 1, -1)["a"]
        tensor([ 0,  1, -1])
        """
        leaves: list[Tensor] = []
        twin = self._open(leaves, VALUES)
        placed = any_dtensor(leaves)
        kinds = [(leaf.dtype, leaf.device, placed and is_dtensor(leaf)) for leaf in leaves]
        one_of = dict(zip(kinds, leaves, strict=True))
        fills = {kind: replicated_beside(leaf, scalar_like(value, leaf)) for kind, leaf in one_of.items()}
        wides = twin._broadcast(as_mask(mask, self._batch_size))
        if placed or is_dtensor(mask):
            refuse_mixtures("masked_fill", twin, leaves, wides)
        rows = zip(leaves, wides, kinds, strict=True)
        new = [leaf if wide is None else leaf.masked_fill(wide, fills[kind]) for leaf, wide, kind in rows]
        return twin._refill(new, self._batch_size, self._names, VALUES)

    def _broadcast(self, value: Tensor) -> list[Tensor | None]:
        """Expand a tensor that broadcasts to the batch size for each `VALUES` leaf; None for a shared tensor."""
        if self._stacked:
            return self._run_on_stack("_broadcast_members", value)  # type: ignore[no-any-return]  # a list
        size, dims = self._batch_size, len(self._batch_size)
        found: list[Tensor | None] = []
        by_rank: dict[int, Tensor] = {}
        for entry in self._entries().values():
            if isinstance(entry, (Tensor, InplaceOps)):
                if (rows := Ragged.over(entry)) is not None:
                    found.append(rows._over_values(whole_tensor(value), size))
                    continue
                ndim = entry.ndim
                if ndim not in by_rank:
                    by_rank[ndim] = with_dims(value, ndim - dims)  # without dims it would promote less
                found += [by_rank[ndim]] if isinstance(entry, Tensor) else entry._broadcast(by_rank[ndim])
            elif has_lengths(entry):
                found.append(entry._over_values(whole_tensor(value), size))
            elif isinstance(entry, TensorEntry):
                found += [None] * len(entry._leaves(VALUES))
        return found

    def where(
        self,
        condition: Tensor,
        other: Any,
        *,
        out: Any = None,
        pad: int | bool | None = None,
        update_batch_size: bool = False,
    ) -> Self:
        """Select this container's elements where a condition over the batch dims is True, else those of `other`.

        Args:
            condition: bool tensor that broadcasts to the batch size, aligned with its leading dims.
            other: a container with the same keys, a number or a tensor.
            out: a container whose entries are set to the result, and which is returned. The tensors that it held are
                not written, so other references to them keep their values.
            pad: the value for tensors that one side lacks; an object that one side lacks is kept.
            update_batch_size: set the batch size of `out` to that of the result.

        Raises:
            BatchSizeError: for a condition that is not a bool tensor over the batch.
            StructureError: without `pad`, for entries that one side lacks; names them.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2), batch_size=[2])
        >>> data.where(torch.tensor([True, False]), data + 1)["a"]
        tensor([0., 1.])
        """
        if isinstance(other, TensorCollection):
            self._meet(other, "where")
        if self._stacked:
            found = self._run_on_stack("where", condition, other, pad=pad)
            return found if out is None else MappingOps.update(out, found, update_batch_size=update_batch_size)  # type: ignore[no-any-return]  # a stack of this class
        other = stacked_below(other._open([], VALUES)) if isinstance(other, TensorCollection) else other
        wide = condition_over(condition, self._batch_size)
        (frame, left), right = stacked_below(self._open([], VALUES))._pair(other, "where", pad)
        if type(other) is type(self) and type(frame) is not type(self):  # one side lacks optional fields
            frame = self._from_entries(frame._entries(), self._batch_size, self._device, self._names)
        whole = frame._leaves(VALUES)
        new = choose_leaves(frame, whole, left, right, wide, isinstance(other, TensorCollection))
        frame._accept(whole, new, "where")
        result: Any = frame._refill(new, self._batch_size, self._names, VALUES)
        if isinstance(other, TensorCollection):
            choose_entries(result, other, wide, pad is not None, ())
        return result if out is None else MappingOps.update(out, result, update_batch_size=update_batch_size)  # type: ignore[no-any-return]  # a container

    def _pair(self, other: Any, op: str, default: Any) -> tuple[tuple[Any, list[Tensor]], list[Any]]:
        """A container and the aligned leaves of both operands, as in the pointwise kernels."""
        raise NotImplementedError
