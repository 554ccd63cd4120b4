"""Batches over a mesh: `distribute`, `local` and `whole`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._deferred import dtensor, is_dtensor
from ..core import Leaf, TensorCollection, entries_by_path, is_shared, is_typed, join_path, rebuilt, undivided_tensors
from ..errors import ArgumentError, BatchSizeError, HeldError, UnsupportedOperationError
from ..ops import cat
from ._agreed import agree, refusal_by_all, rows_of_all
from ._collectives import all_gather
from ._layout import Layout
from ._layout_rules import (
    FieldPlace,
    LayoutWarning,
    Shards,
    chunk_span,
    classes_in,
    placements_of,
    warn_unknown,
)
from ._links import is_fake
from ._walks import place_leaves

SOURCES = (
    '`source="everywhere"` (every rank holds the whole batch and keeps its piece), `source="rows"` (every rank holds '
    "its own rows, as from a loader) or `source=0` (the batch of that rank is sent to the others)"
)


def distribute(batch: Any, layout: Any, source: Any, check: bool) -> Any:
    """See `TensorDictBase.distribute`."""
    if not isinstance(layout, Layout):
        told = f"distribute takes a Layout, got a {type(layout).__name__}; see `tensorclass.parallel`"
        raise refusal_by_all(None, "distribute", told) if check else ArgumentError(told)
    batch = batch._solid() if batch._stacked else batch
    warn_unknown(layout._rules, classes_in(batch))
    if layout._rules.batch and not batch._batch_size:
        warnings.warn(
            f"the batch has no batch dims, so `batch=` of {layout!r} splits nothing of it",
            LayoutWarning,
            stacklevel=4,
        )
    leaves = [leaf for _, leaf in undivided_tensors(batch)]
    held = [is_dtensor(leaf) for leaf in leaves]
    if any(held):
        return _laid_out_again(batch, layout, source, all(held))
    if source not in ("everywhere", "rows") and (type(source) is not int or source < 0):
        told = f"distribute: where are the values? Say {SOURCES}; got source={source!r:.80}"
        raise refusal_by_all(layout, "distribute", told) if check else ArgumentError(told)
    device = min({leaf.device.type for leaf in leaves} or {"cpu"})
    layout._expect_ranks(False)
    if source == "rows":
        return _by_rows(batch, layout, device, check)
    given = _receive_batch(batch, layout, device, source, check) if isinstance(source, int) else batch
    _check_layouts(given, layout, repr(source), check)
    mesh, where = layout.mesh_on(device), layout.coordinate()
    sizes = tuple(layout.sizes.values())

    def cut(place: FieldPlace, leaf: Tensor, found: Shards) -> Tensor:
        return dtensor_of(piece(leaf, found, sizes, where), mesh, found, leaf.shape)

    return place_leaves(given, layout, cut)


def _check_layouts(batch: Any, layout: Layout, source: str, check: bool, rows: bool = False) -> None:
    """Look at all placements, on all ranks, before the mesh and the first tensor are made.

    Every rank raises the problem of one. Without a batch, which one rank will send, only the layouts are compared.
    Without `check`, the walk that places the tensors raises it.
    """
    problem: HeldError | None = None
    try:
        layout.coordinate()
        if batch is not None and check:
            place_leaves(batch, layout, lambda place, leaf, found: leaf)
    except ArgumentError as error:
        problem = HeldError(error)
    if check:
        agree(batch, layout, source, "" if problem is None else str(problem.error), rows)
    if problem is not None:
        problem.reraise()


def _laid_out_again(batch: Any, layout: Layout, source: Any, every: bool) -> Any:
    """Another layout of a batch that is distributed."""
    if source is not None:
        raise ArgumentError("distribute: the batch is distributed already, so it takes no source=")
    if not every:
        name = next(name for name, leaf in undivided_tensors(batch) if not is_dtensor(leaf))
        raise ArgumentError(f"distribute: `{name}` is a plain tensor beside DTensors; distribute it first")
    mesh = layout.mesh_on(next(leaf.device.type for _, leaf in undivided_tensors(batch)))

    def move(place: FieldPlace, leaf: Any, found: Shards) -> Tensor:
        if leaf.device_mesh == mesh:
            moved: Tensor = leaf.redistribute(mesh, placements_of(found))
            return moved
        whole = leaf.full_tensor()
        return dtensor_of(piece(whole, found, mesh.shape, layout.coordinate()), mesh, found, whole.shape)

    return place_leaves(batch, layout, move)


def _receive_batch(batch: Any, layout: Layout, device: str, source: int, check: bool) -> Any:
    """The batch of one rank, on all ranks of the mesh."""
    _check_layouts(None, layout, repr(source), check)
    mesh = layout.mesh_on(device)
    if source not in mesh.mesh.flatten().tolist():
        raise ArgumentError(f"distribute: rank {source} is not in the mesh, which has {mesh.mesh.flatten().tolist()}")
    if is_fake(mesh.get_group(0)):
        return batch
    found = batch
    here = [*mesh.get_coordinate()]
    root = (mesh.mesh == source).nonzero()[0].tolist()
    for dim in range(mesh.ndim):  # the ranks with the place of the root in all further dims have the batch
        group = mesh.get_group(dim)
        if here[dim + 1 :] == root[dim + 1 :]:
            line = [*here]
            line[dim] = root[dim]
            found = found.broadcast(int(mesh.mesh[tuple(line)]), group=group)
    return found


def _by_rows(batch: Any, layout: Layout, device: str, check: bool) -> Any:
    """Pieces of rows become one batch; other dims are sliced."""
    mine = layout._rules.of_rows()
    if not mine:
        raise ArgumentError('distribute: source="rows" needs a layout that splits the first batch dim: `batch="dp"`')
    if not batch._batch_size:
        raise ArgumentError('distribute: source="rows" needs a batch dim, and the batch has none')
    _check_layouts(batch, layout, repr("rows"), check, rows=True)
    mesh = layout.mesh_on(device)
    total = rows_of_all(len(batch), layout, mesh, mine)
    own, sizes, where = [name in mine for name in layout.sizes], tuple(layout.sizes.values()), layout.coordinate()

    def keep(place: FieldPlace, leaf: Tensor, found: Shards) -> Tensor:
        if place.shared:
            return dtensor_of(piece(leaf, found, sizes, where), mesh, found, leaf.shape)
        if any(mine and dim != 0 for mine, dim in zip(own, found, strict=True)):
            raise ArgumentError(
                f'`{place.label}` is not split by rows, and with source="rows" each rank of `{"*".join(mine)}` holds '
                f"other rows: leave out its placement, or distribute what every rank holds"
            )
        others = tuple(None if mine else dim for mine, dim in zip(own, found, strict=True))
        return dtensor_of(piece(leaf, others, sizes, where), mesh, found, (total, *leaf.shape[1:]))

    gathered = _rest_of_all(batch, mesh, [n for n, mine in enumerate(own) if mine])
    return place_leaves(batch, layout, keep, total, gathered)


def _rest_of_all(batch: Any, mesh: Any, dims: Sequence[int]) -> Any:
    """The entries that are not split, of the rows of all ranks; None without such entries."""
    found = _rest(batch)
    if found is None:
        return None
    for dim in reversed(dims):
        found = cat(all_gather(found, mesh.get_group(dim)), 0)
    return found


def _rest(batch: Any) -> Any:
    from_nested = {k: _rest(v) for k, v in batch._entries().items() if isinstance(v, TensorCollection)}
    own = {k: v for k, v in batch._entries().items() if _follows(v)}
    entries = own | {k: v for k, v in from_nested.items() if v is not None}
    if not entries:
        return None
    return batch._dense._from_entries(entries, batch._batch_size, None, None)


def _follows(value: Any) -> bool:
    """Whether an entry that is not split has batch dims."""
    return not isinstance(value, (TensorCollection, Tensor)) and hasattr(value, "_batch_shape") and not is_shared(value)


# ---- tensors ----


def piece(leaf: Tensor, found: Shards, sizes: Sequence[int], where: Sequence[int]) -> Tensor:
    """The piece of a tensor on one rank."""
    for dim in dict.fromkeys(dim for dim in found if dim is not None):
        start, length = chunk_span(leaf.shape[dim], dim, found, sizes, where)
        leaf = leaf.narrow(dim, start, length)
    return leaf


def dtensor_of(local: Tensor, mesh: Any, found: Shards, shape: Sequence[int]) -> Tensor:
    """The DTensor of the pieces of all ranks; they are in memory as torch expects, without the rest of the whole."""
    size, local = torch.Size(shape), local.contiguous()
    stride = torch.empty(size, device="meta").stride()
    if local.untyped_storage().nbytes() != local.nbytes:
        local = local.clone()
    made: Tensor = dtensor.DTensor.from_local(
        local, mesh, placements_of(found), run_check=False, shape=size, stride=stride
    )
    return made


# ---- back ----


def whole(batch: Any) -> Any:
    """See `TensorDictBase.whole`."""
    return _map_dtensors(batch, lambda _, leaf: leaf.full_tensor())


def local(batch: Any) -> Any:
    """See `TensorDictBase.local`."""
    batch = batch._solid() if batch._stacked else batch
    spans = _spans(batch)
    return batch if spans is None else _local(batch, spans, "")


def _map_dtensors(batch: Any, turn: Callable[[str, Any], Tensor]) -> Any:
    def turned(leaf: Leaf) -> Any:
        name, value = join_path(leaf.path), leaf.entry
        if is_shared(value) and is_dtensor(getattr(value, "tensor", None)):
            return type(value)(turn(name, value.tensor))
        return turn(name, value) if is_dtensor(value) else value

    return rebuilt(batch, turned)


def _span_of(leaf: Any, dim: int) -> tuple[int, int]:
    """Start and length of the piece of this rank along a dim."""
    found = tuple(one.dim if one.is_shard() else None for one in leaf.placements)
    return chunk_span(leaf.shape[dim], dim, found, leaf.device_mesh.shape, leaf.device_mesh.get_coordinate())


def _spans(batch: Any) -> list[tuple[int, int]] | None:
    """The piece of this rank along each batch dim; None for a batch that is not distributed.

    Raises:
        BatchSizeError: if fields have different pieces.
    """
    first, found = "", None
    for path, value in entries_by_path(batch).items():
        if not is_dtensor(value):
            continue
        name = join_path(path)
        here = [_span_of(value, dim) for dim in range(len(batch._batch_size))]
        if found is None:
            first, found = name, here
        elif here != found:
            rows = [[length for _, length in spans] for spans in (found, here)]
            raise BatchSizeError(
                f"local: on this rank `{first}` has the batch size {rows[0]} and `{name}` {rows[1]}; distribute the "
                f"batch with a layout that splits their batch dims alike, or read `{name}.to_local()`"
            )
    return found


def _local(batch: Any, spans: list[tuple[int, int]], path: str) -> Any:
    """The part of a batch on this rank; entries that every rank has are cut to the same elements."""
    entries: dict[str, Any] = {}
    nested = _spans(batch)
    here = spans if nested is None else nested
    index = tuple(slice(start, start + length) for start, length in here)
    for name, value in batch._entries().items():
        if isinstance(value, TensorCollection):
            entries[name] = _local(value, here, f"{path}{name}.")
        elif is_dtensor(value):
            entries[name] = _to_local(f"{path}{name}", value)
        elif is_shared(value) and is_dtensor(getattr(value, "tensor", None)):
            entries[name] = type(value)(_to_local(f"{path}{name}", value.tensor))
        elif _follows(value) or isinstance(value, Tensor):
            one = batch._dense._from_entries({name: value}, batch._batch_size, None, None)[index]
            entries[name] = one._entries()[name]
        else:
            entries[name] = value
    size = torch.Size([length for _, length in here])
    if is_typed(batch) and any(_is_cut(value, len(size)) for value in batch._entries().values()):
        batch._validated(entries, size, ())  # `h*w` may be split where `h` is not
    return type(batch)._from_entries(entries, size, batch._device, batch._names)


def _is_cut(value: Any, batch_dims: int) -> bool:
    """Whether an event dim of a field is split."""
    leaf = getattr(value, "tensor", value)
    first = batch_dims if leaf is value else 0
    return is_dtensor(leaf) and any(one.is_shard() and one.dim >= first for one in leaf.placements)


def _to_local(name: str, leaf: Any) -> Tensor:
    if any(one.is_partial() for one in leaf.placements):
        raise UnsupportedOperationError(
            f"local: `{name}` is {leaf.placements}, an unfinished sum: each rank has one summand; read it with "
            f"`.whole()`, or redistribute it first"
        )
    found: Tensor = leaf.to_local()
    return found
