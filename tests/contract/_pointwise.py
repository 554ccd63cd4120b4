"""A pointwise row on plain data: each leaf by torch, with what an operand means for it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tensorclass._operations import Row
from tensorclass.core import BATCHED, VALUES, TensorCollection
from tests.contract._model import ROLES, Model, Path


def for_leaf(other: Any, path: Path, leaf: Tensor, dims: int) -> Any:
    """What an operand means for one leaf."""
    if isinstance(other, Tensor):
        return other.reshape(other.shape + (1,) * (leaf.ndim - dims)) if other.ndim else other
    return other if isinstance(other, (bool, int, float)) else Model.of(other).leaves[path]


def expected(row: Row, source: Model, others: list[Any]) -> Model:
    """The operation by torch, leaf by leaf; a test of equality with a container sees the objects too."""
    leaves, roles, statics = dict(source.leaves), dict(source.roles), source.statics
    if row.name in ("eq", "ne") and isinstance(others[0], TensorCollection):
        other, compare = Model.of(others[0]), getattr(torch, row.name)
        for path in [path for path, role in roles.items() if role == "objects"]:
            leaves[path], roles[path] = compare(leaves[path], other.leaves[path]), "tensor"
        for path, value in statics.items():
            size = (*source.size, *source.nests.get(path[:-1], ()))
            leaves[path] = torch.full(size, (value == other.statics[path]) is (row.name == "eq"))
            roles[path] = "tensor"
        statics = {}
    for path, leaf in source.leaves.items():
        if source.roles[path] in ROLES[VALUES]:
            args = [for_leaf(other, path, leaf, len(source.size)) for other in others]
            leaves[path] = by_torch(row, leaf, args)
    return Model(source.size, leaves, roles, statics, source.nests)


def by_torch(row: Row, leaf: Tensor, args: list[Any]) -> Tensor:
    """The operation on one leaf."""
    compute = cut_lerp if row.name == "lerp" else getattr(torch, row.torch_name)
    result: Tensor = compute(leaf, *as_torch_takes(row, leaf, args))
    return result


def cut_lerp(leaf: Tensor, end: Tensor, weight: Any) -> Tensor:
    """Interpolation, of integers in float64."""
    if leaf.is_floating_point() or leaf.is_complex():
        return torch.lerp(leaf, end, weight)
    if end.is_complex():
        raise RuntimeError("complex numbers are not cut to integers")
    part = weight.double() if isinstance(weight, Tensor) else weight
    return torch.lerp(leaf.double(), end.double(), part).to(leaf.dtype)


def as_torch_takes(row: Row, leaf: Tensor, args: list[Any]) -> list[Any]:
    """Numbers as tensors where torch takes none."""
    together = row.numbers == "together" and any(isinstance(arg, Tensor) for arg in args)
    fixed = []
    for position, arg in enumerate(args):
        refused = row.numbers == "no" or together or (row.numbers == "last" and position < len(args) - 1)
        as_tensor = refused and not isinstance(arg, Tensor)
        fixed.append(torch.tensor(arg, dtype=torch.result_type(leaf, arg)) if as_tensor else arg)
    return fixed


def spans_batch(others: list[Any]) -> bool:
    """Whether an operand is a tensor over the batch, which means nothing for a tensor without batch dims."""
    return any(isinstance(other, Tensor) and other.ndim for other in others)


def overlaps(container: Any) -> bool:
    """Whether several elements share memory, or autograd guards a leaf."""
    leaves = container._leaves(VALUES)
    return _expanded(leaves) or any(leaf.requires_grad for leaf in leaves)


def shares_elements(container: Any) -> bool:
    """Whether elements of ragged entries, or of objects, stand for each other: an expanded batch."""
    leaves = container._leaves(BATCHED)
    stacks = [leaf for leaf in leaves if isinstance(leaf, TensorCollection)]
    return _expanded([leaf for leaf in leaves if isinstance(leaf, Tensor)]) or any(
        shares_elements(member) for stack in stacks for member in stack._members
    )


def _expanded(leaves: list[Tensor]) -> bool:
    return any(
        s == 0 and n > 1 and leaf.numel() for leaf in leaves for s, n in zip(leaf.stride(), leaf.shape, strict=True)
    )
