"""Sequences that are split over ranks: torch's context parallel attention, with buffers that follow from a layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from torch import Tensor

from .._deferred import is_dtensor
from ..core import TensorCollection
from ..errors import ArgumentError, UnsupportedOperationError, did_you_mean, listed
from ._layout_rules import FieldPlace, Rules, Shards
from ._walks import place_leaves

_EXPERIMENTAL = "torch.distributed.tensor.experimental"


@contextmanager
def split_sequences(layout: Any, batch: Any, dim: str | None, buffers: Sequence[tuple[Tensor, int]]) -> Iterator[Any]:
    """See `Layout.context_parallel`."""
    torch_block = getattr(import_module(_EXPERIMENTAL), "context_parallel", None)
    if torch_block is None:
        raise UnsupportedOperationError(f"this version of torch has no `context_parallel` in `{_EXPERIMENTAL}`")
    if not isinstance(batch, TensorCollection):
        raise ArgumentError(f"context_parallel takes a batch, got a {type(batch).__name__}")
    mesh_dim = _mesh_dim(layout._rules, dim)
    number, found = [*layout.sizes].index(mesh_dim), list[tuple[str, Tensor, int]]()

    def collect(place: FieldPlace, leaf: Tensor, split: Shards) -> Tensor:
        if is_dtensor(leaf):
            raise ArgumentError(
                f"context_parallel: `{place.label}` is distributed; pass the rows of this rank with whole "
                f"sequences, as from `loader(layout=layout)`"
            )
        at = split[number]
        if at is None:
            return leaf
        found.append((f"`{place.label}`", leaf.clone(), at % leaf.ndim))
        return found[-1][1]

    part = place_leaves(batch, layout, collect)
    if not found:
        raise ArgumentError(f"context_parallel: {layout!r} splits no field of {type(batch).__name__} over `{mesh_dim}`")
    field, first, along = found[0]
    found += [(f"buffer {n}", tensor, at) for n, (tensor, at) in enumerate(buffers)]
    for label, tensor, at in found:
        _check(label, tensor, at, mesh_dim, layout.sizes[mesh_dim])
        if tensor.shape[at] != first.shape[along]:
            raise ArgumentError(
                f"context_parallel: {label} has size {tensor.shape[at]} in dim {at}, and {field} has "
                f"{first.shape[along]} in dim {along}; a rank would have other positions of it"
            )
    mesh = layout.mesh_on(found[0][1].device.type)
    own = mesh if mesh.ndim == 1 else mesh[mesh_dim]
    with torch_block(own, buffers=[one for _, one, _ in found], buffer_seq_dims=[at for _, _, at in found]):
        yield part


def _mesh_dim(rules: Rules, dim: str | None) -> str:
    """The mesh dim that splits the sequences."""
    if dim is None and len(rules.dims) == 1:
        (dim,) = rules.dims
    if dim is None or dim not in rules.dims:
        near = "" if dim is None else did_you_mean(dim, rules.dims)
        raise ArgumentError(
            f'context_parallel: which dim is the sequence? Pass `dim=`, such as `dim="t"`, that the layout splits; got '
            f"{dim!r}{near}; it splits {listed(rules.dims) if rules.dims else 'no event dims'}"
        )
    places = rules.dims[dim]
    if len(places) != 1:
        raise ArgumentError(
            f"context_parallel: the layout splits `{dim}` over `{'*'.join(places)}`, and attention takes one mesh dim"
        )
    return places[0]


def _check(label: str, tensor: Tensor, at: int, mesh_dim: str, ranks: int) -> None:
    """Sizes that torch can't split, on each rank alike."""
    if not -tensor.ndim <= at < tensor.ndim:
        raise ArgumentError(f"context_parallel: {label} has {tensor.ndim} dims, and its sequence dim is {at}")
    options = getattr(import_module(f"{_EXPERIMENTAL}._attention"), "_cp_options", None)
    parts = ranks * (2 if getattr(options, "enable_load_balance", False) else 1)
    if tensor.shape[at] % parts:
        why = "" if parts == ranks else f": each of the {ranks} ranks of `{mesh_dim}` gets two of them"
        raise ArgumentError(
            f"context_parallel: {label} has size {tensor.shape[at]} in dim {at}, which is split into {parts} equal "
            f"parts{why}; pad the sequences to a multiple of {parts}"
        )
