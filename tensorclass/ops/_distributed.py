"""DTensors and plain tensors in one call: torch refuses the mixture, and does not say which entry it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import Tensor

from .._deferred import any_dtensor, dtensor, is_dtensor
from ..core import Path, join_path
from ..errors import UnsupportedOperationError


def reason_of_mixture(leaf: Any, others: Iterable[Any]) -> str:
    """Why an operand can't meet a leaf: one is a DTensor, the other a plain tensor with dims; empty if it can."""
    placed = is_dtensor(leaf)
    for other in others:
        if isinstance(other, Tensor) and is_dtensor(other) is not placed and (other.ndim or not placed):
            sides = ("a DTensor", "a plain tensor") if placed else ("a plain tensor", "a DTensor")
            return (
                f"is {sides[0]} and meets {sides[1]}; distribute both: `batch.distribute(layout)`, or "
                f"`torch.distributed.tensor.distribute_tensor(tensor, mesh)` for a tensor that all ranks hold whole"
            )
    return ""


def reason_of_placement(leaf: Any, others: Sequence[Any], compute: Callable[[], Any]) -> str:
    """Why DTensor can't write the result of an operation in place: it has other placements; empty if it can."""
    if not is_dtensor(leaf):
        return ""
    beside = [other.placements for other in others if is_dtensor(other)]
    if not any(one.is_partial() for one in leaf.placements) and beside.count(leaf.placements) == len(beside):
        return ""
    found = compute().placements
    return "" if found == leaf.placements else f"has the placements {leaf.placements}, and the result {found}"


def refuse_mixtures(op: str, holder: Any, leaves: Sequence[Tensor], others: Sequence[Any]) -> None:
    """Refuse a mask, condition or value that is a plain tensor where the leaf is a DTensor, or the reverse.

    The holder is the container of the leaves, or their paths.

    Raises:
        UnsupportedOperationError: names the entry.
    """
    if not any_dtensor([*leaves, *others]):
        return
    for path, leaf, other in zip(_paths(holder), leaves, others, strict=True):
        if problem := reason_of_mixture(leaf, [other]):
            raise UnsupportedOperationError(f"{op}: `{_shown_path(path)}` {problem}; nothing was written")


def refuse_sums(op: str, holder: Any, leaves: Sequence[Any], others: Sequence[Any], copies: bool = False) -> None:
    """Refuse a write that DTensor can't divide into summands: a fill under a mask, and, of `copies`, pieces.

    The holder is the container of the leaves, or their paths.

    Raises:
        UnsupportedOperationError: names the entry.
    """
    for number, (leaf, other) in enumerate(zip(leaves, others, strict=True)):
        if not is_dtensor(leaf) or not is_dtensor(other):
            continue
        pairs = zip(leaf.placements, other.placements, strict=True)
        if any(one.is_partial() and (two.is_shard() or not copies) for one, two in pairs):
            raise UnsupportedOperationError(
                f"{op}: `{_shown_path(_paths(holder)[number])}` is {leaf.placements}, an unfinished sum; "
                f"make a new batch instead, or finish it first: `batch.distribute(layout)`; nothing was written"
            )


def refuse_split_index(holder: Any, leaves: Sequence[Any], parts: Sequence[Any]) -> None:
    """Refuse a write at an index of a dim that is split over ranks: DTensor gives a copy there, and not a view.

    Raises:
        UnsupportedOperationError: names the first leaf.
    """
    if not any_dtensor(leaves) or all(isinstance(part, slice) and part == slice(None) for part in parts):
        return
    tensors = any(isinstance(part, Tensor) for part in parts)
    used = sum(part is not None for part in parts)
    for number, leaf in enumerate(leaves):
        if is_dtensor(leaf) and (tensors or any(one.is_shard() and one.dim < used for one in leaf.placements)):
            raise UnsupportedOperationError(
                f"write by index: `{_shown_path(holder._layout()[number])}` is a DTensor, {leaf.placements}; an index "
                f"of a split dim gives a copy; choose elements by a distributed mask, `batch.where(mask, other)`; "
                f"nothing was written"
            )


def refuse_distributed(op: str, holder: Any, leaves: Sequence[Any], dim: Any = None) -> None:
    """Refuse an operation that works on the memory of one process, or at a dim that is split over ranks.

    Raises:
        UnsupportedOperationError: names the first leaf.
    """
    if not any_dtensor(leaves):
        return
    for number, leaf in enumerate(leaves):
        if is_dtensor(leaf) and (dim is None or any(one.is_shard() and one.dim == dim for one in leaf.placements)):
            raise UnsupportedOperationError(
                f"{op}: `{_shown_path(holder._layout()[number])}` is a DTensor, {leaf.placements}; call it on the "
                f"piece of this rank, `batch.local()`, or on `batch.whole()`"
            )


def _paths(holder: Any) -> Any:
    return holder if isinstance(holder, list) else holder._layout()


def _shown_path(path: str | Path) -> str:
    return path if isinstance(path, str) else join_path(path)


def whole_tensor(value: Any) -> Any:
    """The whole of a DTensor, for entries that every rank holds whole; any other value itself."""
    return value.full_tensor() if is_dtensor(value) else value


def replicated_beside(leaf: Tensor, value: Any) -> Any:
    """A plain tensor with the same values on all ranks, such as an index, as a leaf takes it."""
    if not is_dtensor(leaf) or not isinstance(value, Tensor) or is_dtensor(value):
        return value
    mesh: Any = leaf.device_mesh  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a DTensor
    return dtensor.DTensor.from_local(value, mesh, run_check=False)


def index_dtensors(leaves: Sequence[Tensor], parts: tuple[Any, ...]) -> list[Tensor]:
    """Index leaves that may be DTensors. Masks become numbers first, since DTensor can't find them."""
    whole: list[Any] = []
    for part in parts:
        found = whole_tensor(part)
        mask = isinstance(found, Tensor) and found.dtype.itemsize == 1 and not found.dtype.is_signed and found.ndim
        whole += found.nonzero(as_tuple=True) if mask else [found]
    return [leaf[tuple([replicated_beside(leaf, part) for part in whole])] for leaf in leaves]
