"""Gradients of whole containers: read and clear them, and run one backward pass from all leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from typing_extensions import Self

from .._flags import flags
from ..core import VALUES, VIEWS, TensorCollection, TensorEntry, store_of
from ..errors import (
    ArgumentError,
    BatchSizeError,
    MissingKeyError,
    StructureError,
    UnsupportedOperationError,
    did_you_mean,
)
from ._apply import ApplyOps
from ._lengths import gather_rows, holders, in_memory
from ._operands import Pointwise, arrange_leaves, show

if TYPE_CHECKING:
    from ._container import Container


@flags
class AutogradOps(Pointwise, ApplyOps):
    """`grad`, `data`, `detach`, `requires_grad_`, `backward`, ... over all leaves, shared tensors included."""

    __slots__ = ()

    @property
    def grad(self) -> Container | None:
        """The gradients as an untyped container, without leaves that have no gradient; None if no leaf has one.

        Assigning a container sets the gradients of its leaves, in place if they exist. Assigning None clears all
        gradients.

        Raises:
            StructureError: on assignment, for unknown keys, or a gradient whose shape, dtype or device differs from its
                leaf.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.ones(2), b=torch.ones(2), batch_size=[2]).requires_grad_()
        >>> (data["a"] * 3).sum().backward()
        >>> data.grad["a"], "b" in data.grad
        (tensor([3., 3.]), False)
        """
        return _pick_results(self, _gradient)  # type: ignore[no-any-return]  # the result of `_bare` has the operations

    @grad.setter
    def grad(self, gradients: TensorCollection | None) -> None:
        if gradients is None:
            AutogradOps.zero_grad(self)
            return
        pairs = _counterparts(self, gradients, "grad")
        for path, leaf, gradient in pairs:
            problem = _misfit(leaf, gradient, device=True)
            if not leaf.is_leaf and not leaf.retains_grad:
                problem = "is not an autograd leaf: call `retain_grad()` on it, or `detach()` the container"
            if problem:
                raise StructureError(f"grad: `{path}` {problem}; nothing was set")
        for _, leaf, gradient in pairs:
            with torch.no_grad():
                if leaf.grad is None:
                    leaf.grad = gradient
                else:
                    leaf.grad.copy_(gradient)

    @property
    def data(self) -> Self:
        """A new container around the same memory, detached from autograd; locked if this container is locked.

        Assigning a container replaces the memory of the leaves under the same keys, as for the `data` of a tensor.

        Raises:
            StructureError: on assignment, for unknown keys, or a tensor whose shape or dtype differs from its leaf.
            BatchSizeError: on assignment, if the batch sizes differ.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.ones(2), batch_size=[2]).requires_grad_().data["a"]
        tensor([1., 1.])
        """
        return self._with_each(lambda leaf: leaf.data)

    @data.setter
    def data(self, other: TensorCollection) -> None:
        self._refuse_frozen("set the data")
        pairs = _counterparts(self, other, "data")
        for path, leaf, new in pairs:
            problem = _misfit(leaf, new, device=self._device is not None)
            if problem:
                raise StructureError(f"data: `{path}` {problem}; nothing was set")
        for _, leaf, new in pairs:
            leaf.data = new.data

    def detach(self) -> Self:
        """A new container around the same memory, detached from the autograd graph; locked if this container is locked.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.ones(2), batch_size=[2]).requires_grad_().detach().requires_grad
        False
        """
        return self._with_each(Tensor.detach)

    def _with_each(self, fn: Callable[[Tensor], Tensor]) -> Self:
        if store_of(self)._plain:
            return self._lock_alike(self._each(fn, self._batch_size, self._names, VALUES))  # type: ignore[no-any-return]  # a twin
        leaves: list[Tensor] = []
        twin = self._open(leaves, VALUES)
        new = [fn(leaf) for leaf in in_memory(twin, leaves)]
        twin = twin._refill(new, self._batch_size, self._names, VIEWS)
        return self._lock_alike(twin)  # type: ignore[no-any-return]  # the twin

    def detach_(self) -> Self:
        """Detach every leaf from the autograd graph, in place: all of them or none.

        Raises:
            UnsupportedOperationError: if a leaf is a view, which torch can't detach in place.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.ones(2), batch_size=[2]).requires_grad_()
        >>> data.detach_().requires_grad
        False
        """
        leaves = self._leaves(VALUES)
        gather_rows(self, leaves, "detach_", False)
        tracked = [(i, leaf) for i, leaf in enumerate(leaves) if leaf.requires_grad]
        for i, leaf in tracked:
            if leaf._is_view():
                raise self._leaf_error(i, "detach_", "is a view, which torch can't detach in place; use `detach()`")
        for _, leaf in tracked:
            leaf.detach_()
        return self

    def _leaf_error(self, position: int, op: str, why: str) -> UnsupportedOperationError:
        return UnsupportedOperationError(f"{op}: `{show(self._layout()[position])}` {why}; nothing was changed")

    @property
    def requires_grad(self) -> bool:
        """Whether any leaf requires grad.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.ones(2), batch_size=[2]).requires_grad
        False
        """
        return any([leaf.requires_grad for leaf in self._leaves(VALUES)])

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of every leaf: of all of them or none.

        Args:
            requires_grad: whether autograd records operations on the leaves.

        Raises:
            UnsupportedOperationError: for an integer or bool leaf, and for a leaf computed from tensors that require
                grad.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.ones(2), batch_size=[2]).requires_grad_().requires_grad
        True
        """
        gather_rows(self, self._leaves(VALUES), "requires_grad_", False)
        leaves, entries = _tracked_tensors(self)
        for i, leaf in enumerate(leaves):
            if requires_grad and not (leaf.is_floating_point() or leaf.is_complex()):
                why = f"is of {leaf.dtype}, and only floating point and complex tensors have gradients"
                raise self._leaf_error(i, "requires_grad_", f"{why}: `select` the entries that have them")
            if not requires_grad and leaf.requires_grad and not leaf.is_leaf:
                raise self._leaf_error(i, "requires_grad_", "was computed from what requires grad; use `detach()`")
        for leaf, entry in zip(leaves, entries, strict=True):
            leaf.requires_grad_(requires_grad)
            if entry is not None:
                entry._settle(leaf)
        return self

    def zero_grad(self, set_to_none: bool = True) -> Self:
        """Clear the gradient of every leaf.

        Args:
            set_to_none: drop the gradients; otherwise existing ones are set to zero in place.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.ones(2), batch_size=[2]).requires_grad_()
        >>> data.sum(reduce=True).backward()
        >>> data.zero_grad().grad is None
        True
        """
        for leaf in _tracked_tensors(self)[0]:
            gradient = _gradient(leaf)
            if gradient is not None and set_to_none:
                leaf.grad = None
            elif gradient is not None:
                leaf.grad = gradient.detach().zero_()
        return self

    def backward(
        self,
        gradient: TensorCollection | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: TensorCollection | Sequence[Tensor] | None = None,
    ) -> None:
        """Compute the gradients of all leaves that require grad, in one backward pass, and add them to the inputs.

        Args:
            gradient: the gradient of each leaf, with the same shape, under the same keys; by default 1, for leaves with
                one element.
            retain_graph: keep the graph for another pass; by default the value of `create_graph`.
            create_graph: record the backward pass, for higher derivatives.
            inputs: the tensors whose `grad` is accumulated; by default all tensors that the leaves depend on.

        Raises:
            StructureError: if no leaf requires grad, if a leaf with several elements has no gradient, or if a gradient
                has another shape.
            MissingKeyError: if `gradient` lacks an entry for a leaf that requires grad.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> x = torch.ones(3, requires_grad=True)
        >>> TensorDict(actor=x.sum(), critic=(x * x).sum()).backward()
        >>> x.grad
        tensor([3., 3., 3.])
        """
        leaves: list[Tensor] = []
        paths = [show(path) for path in self._open(leaves, VALUES)._layout()]
        outputs = {p: leaf for p, leaf in zip(paths, leaves, strict=True) if leaf.requires_grad}
        if not outputs:
            raise StructureError(
                f"backward: no leaf of this {type(self).__name__} requires grad; its leaves are {paths}"
            )
        if gradient is None:
            _require_single(outputs)
        weights = None if gradient is None else _weights(self, outputs, gradient)
        torch.autograd.backward(
            list(outputs.values()),
            weights,
            retain_graph=retain_graph,
            create_graph=create_graph,
            inputs=_inputs(inputs),
        )


def _tracked_tensors(self: Any) -> tuple[list[Tensor], list[Any]]:
    """The tensors that represent the leaves in autograd, and for each leaf its ragged entry or None."""
    leaves, entries = self._leaves(VALUES), holders(self)
    pairs = zip(leaves, entries, strict=True)  # autograd knows the nested tensor; its rows are computed from it
    return [leaf if entry is None else getattr(entry._rows, "source", leaf) for leaf, entry in pairs], entries


def _gradient(leaf: Tensor) -> Tensor | None:
    """The gradient of a tensor, without the warning of torch for tensors that can't have one."""
    return leaf.grad if leaf.is_leaf or leaf.retains_grad else None


def _pick_results(self: Any, function: Callable[[Tensor], Tensor | None]) -> Any:
    """An untyped container of the results of a function for the leaves; None if all results are None."""
    store = store_of(self)
    if store._stacked:
        picked = [_pick_results(member, function) for member in store._members]
        if all([new is None for new in picked]):
            return None
        bare = [member._bare(member._batch_size, member._names) for member in store._members]
        return store._with_members([empty if new is None else new for new, empty in zip(picked, bare, strict=True)])
    result = self._bare(self._batch_size, self._names)
    for key, value in self._entries().items():
        if isinstance(value, TensorCollection):
            new = _pick_results(value, function)
        elif isinstance(value, Tensor):
            new = function(value)
        else:  # rebuild an entry node around the new leaves
            old = value._leaves(VALUES) if isinstance(value, TensorEntry) else []
            leaves = [leaf for leaf in map(function, old) if leaf is not None]
            new = value._make(leaves, self._batch_size, None, VALUES) if old and len(leaves) == len(old) else None
        if new is not None:
            result._put(key, new)
    return result if result._entries() else None


def _counterparts(self: Pointwise, other: Any, op: str) -> list[tuple[str, Tensor, Tensor]]:
    """Path, own leaf and new tensor for every leaf of the other container."""
    if not isinstance(other, Pointwise):
        raise ArgumentError(f"{op}: give a container of the same keys, got {type(other).__name__}: {other!r:.60}")
    if self._stacked:
        other = arrange_leaves(self, other)
    left: list[Tensor] = []
    right: list[Tensor] = []
    mine = {show(path): leaf for path, leaf in zip(self._open(left, VALUES)._layout(), left, strict=True)}
    theirs = {show(path): leaf for path, leaf in zip(other._open(right, VALUES)._layout(), right, strict=True)}
    for path in theirs:
        if path not in mine:
            raise StructureError(f"{op}: no tensor is at `{path}`{did_you_mean(path, mine)}; nothing was set")
    if self._batch_size != other._batch_size:
        raise BatchSizeError(f"{op}: the batch size is {list(self._batch_size)}, got {list(other._batch_size)}")
    return [(path, mine[path], leaf) for path, leaf in theirs.items()]


def _misfit(leaf: Tensor, new: Tensor, device: bool) -> str:
    """The reason why a tensor can't replace another; empty if it can."""
    for what in ("shape", "dtype", *(["device"] if device else [])):
        old, given = getattr(leaf, what), getattr(new, what)
        if old != given:
            return f"has {what} {old}, the new tensor {given}"
    return ""


def _require_single(outputs: dict[str, Tensor]) -> None:
    for path, leaf in outputs.items():
        if leaf.numel() != 1:
            raise StructureError(
                f"backward: `{path}` has shape {list(leaf.shape)}; give a weight for each element with `gradient=`, or "
                "reduce it first, as in `batch.sum().backward()`"
            )


def _weights(self: Pointwise, outputs: dict[str, Tensor], gradient: Any) -> list[Tensor]:
    """The gradient of each output, by key."""
    found = {path: weight for path, _, weight in _counterparts(self, gradient, "backward")}
    for path, leaf in outputs.items():
        if path not in found:
            raise MissingKeyError(f"backward: `gradient` has no entry `{path}`, and that leaf requires grad")
        if found[path].shape != leaf.shape:
            given = list(found[path].shape)
            raise StructureError(f"backward: `{path}` has shape {list(leaf.shape)}, its gradient {given}")
    return [found[path] for path in outputs]


def _inputs(inputs: Any) -> list[Tensor] | None:
    if not isinstance(inputs, TensorCollection):
        return None if inputs is None else list(inputs)
    found = [leaf for leaf in inputs._leaves(VALUES) if leaf.requires_grad]
    if not found:
        raise StructureError(f"backward: no leaf of the {type(inputs).__name__} given as `inputs` requires grad")
    return found
