"""An entry without batch dims: a tensor that all elements of the batch share, and a tensor class for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from typing_extensions import Self

from ...core import (
    BATCHED,
    Kind,
    Names,
    Path,
    TensorEntry,
    as_batch_size,
    describe_entry,
    join_path,
    single,
    trust_for_loading,
)
from ...errors import StructureError
from ...ops import Join
from ...ops._compare import same_tensor
from ._nodes import Node
from ._pickled import picklable


@trust_for_loading
class UnbatchedTensor(Tensor):
    """A tensor entry without batch dims: shape, index and join operations of its container don't change it.

    Arithmetic, moves and copies of the container include it. Joined containers must have equal values.

    Args:
        data: a tensor or array of any shape.
        batch_size: the batch size until a container shows its own; the shape doesn't depend on it.

    >>> import torch
    >>> from tensorclass import TensorDict, UnbatchedTensor
    >>> data = TensorDict(table=UnbatchedTensor(torch.zeros(3, 4)), b=torch.zeros(2), batch_size=[2])
    >>> data[0]["table"].shape, data.reshape(1, 2)["table"].shape
    (torch.Size([3, 4]), torch.Size([3, 4]))
    >>> data["table"].batch_size, data.reshape(1, 2)["table"].batch_size
    (torch.Size([2]), torch.Size([1, 2]))
    """

    def __new__(cls, data: Any, batch_size: Sequence[int] | None = None) -> Self:
        tensor = data if isinstance(data, Tensor) else torch.as_tensor(data)
        new = tensor.as_subclass(cls)  # pyright: ignore[reportArgumentType]  # torch's stub uses another type variable
        new._outer = None if batch_size is None else as_batch_size(batch_size)
        return new

    _outer: torch.Size | None

    @property
    def batch_size(self) -> torch.Size:
        """The batch size of the container that it was read from; before that, the given one. The shape differs."""
        return getattr(self, "_outer", None) or torch.Size([])

    @batch_size.setter
    def batch_size(self, size: Sequence[int]) -> None:
        self._outer = as_batch_size(size)

    def _shown_within(self, size: torch.Size) -> Self:
        """This tensor as a container of a batch size shows it: another object if another container has shown it."""
        outer = getattr(self, "_outer", None)
        if outer == size or is_dynamo_compiling():
            return self
        shown = self if outer is None else type(self)(self)
        shown._outer = size
        return shown

    def copy(self) -> Self:
        """Another object around the same memory."""
        return type(self)(self.as_subclass(Tensor), self.batch_size)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:  # the method of torch needs a `new_empty` of this class
        plain = deepcopy(self.detach().as_subclass(Tensor), memo)
        memo[id(self)] = new = type(self)(plain, self.batch_size)
        new.requires_grad_(self.requires_grad)
        return new

    def __reduce_ex__(self, protocol: Any) -> Any:
        plain = self.as_subclass(Tensor)
        form = picklable(plain)
        if form is not plain:
            return UnbatchedTensor, (form, self.batch_size)
        return super().__reduce_ex__(protocol)  # type: ignore[no-untyped-call]  # torch does not annotate it

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]  # untyped in torch
        return f"UnbatchedTensor({self.as_subclass(Tensor)!r})"


@trust_for_loading
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

    def _read_value(self) -> Tensor:
        return self.tensor

    def _shown_in(self, size: torch.Size) -> Tensor:
        if isinstance(self.tensor, UnbatchedTensor):
            self.tensor = self.tensor._shown_within(size)
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
