"""An entry without batch dims: a tensor that all elements of the batch share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from typing_extensions import Self

from ...core import BATCHED, Path, TensorEntry, join_path
from ...core._base import Kind, Names
from ...core._exported import single
from ...core._pytree import trusted
from ...core._repr import describe_entry
from ...errors import StructureError
from ...ops import Join
from ...ops._compare import same_tensor
from ._nodes import Node
from ._pickled import picklable


@trusted
class Unbatched(Node, TensorEntry):
    """A tensor without batch dims that all elements share; shape and index operations skip it."""

    __slots__ = ("tensor",)
    tensor: Tensor

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def _batch_shape(self) -> None:
        return None

    @property
    def device(self) -> torch.device:
        """The device of the tensor."""
        return self.tensor.device

    def _shown(self) -> Tensor:
        return self.tensor

    def _describe(self, outer: torch.Size) -> str:
        return f"Shared[{describe_entry(self.tensor, torch.Size([]))}]"

    def _same_node(self, other: Any, test: Callable[[Tensor, Tensor], bool]) -> bool:
        return self.tensor.dtype is other.tensor.dtype and test(self.tensor, other.tensor)

    @classmethod
    def _join_nodes(cls, nodes: Sequence[Any], dim: int, how: Join, key: str) -> Self:
        first = nodes[0].tensor
        for position, node in enumerate(nodes):
            other = node.tensor
            if not same_tensor(other, first):
                raise StructureError(
                    f"{how.op}: field `{how.at(key)}` is one tensor shared by the batch, and those at positions 0 and "
                    f"{position} differ"
                )
        return cls(first)

    def _choose(self, other: Any, condition: Tensor, key: str) -> Self:
        if not (isinstance(other, Unbatched) and same_tensor(self.tensor, other.tensor)):
            raise StructureError(f"where: field `{key}` is one tensor shared by the batch, and the two sides differ")
        return self

    def _plan_write(self, value: Any, parts: Any, size: torch.Size, path: Path) -> Any:
        tensor = value.tensor if isinstance(value, Unbatched) else value
        if tensor is self.tensor:
            return tensor
        same = isinstance(tensor, Tensor) and tensor.shape == self.tensor.shape and tensor.dtype is self.tensor.dtype
        if not same:
            given = f"{tensor.dtype} of shape {list(tensor.shape)}" if isinstance(tensor, Tensor) else repr(tensor)
            raise StructureError(
                f"in-place write: `{join_path(path)}` is a shared tensor of {self.tensor.dtype} and shape "
                f"{list(self.tensor.shape)}, got {given}"
            )
        if parts is not None and not same_tensor(tensor, self.tensor):
            raise StructureError(f"in-place write: `{join_path(path)}` is shared by the batch and the values differ")
        return tensor

    def _leaves(self, kind: Kind) -> list[Tensor]:
        return [] if kind == BATCHED else [self.tensor]

    def _make(self, leaves: Sequence[Tensor], batch_size: torch.Size, names: Names, kind: Kind) -> Self:
        return type(self)(self.tensor if kind == BATCHED else leaves[0])

    def __repr__(self) -> str:
        return f"Unbatched({self.tensor!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Unbatched, (picklable(self.tensor),)


def _flatten_unbatched(node: Unbatched) -> tuple[list[Any], Any]:
    return single(node.tensor), None


def _unflatten_unbatched(children: Iterable[Any], _: Any) -> Unbatched:
    return Unbatched(next(iter(children)))


pytree.register_pytree_node(
    Unbatched,
    _flatten_unbatched,
    _unflatten_unbatched,
    flatten_with_keys_fn=lambda node: ([(pytree.GetAttrKey("tensor"), node.tensor)], None),  # pyright: ignore[reportArgumentType]  # our own context
    serialized_type_name="tensorclass.Unbatched",
)
