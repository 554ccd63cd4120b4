"""Gradients of whole containers: read them, clear them, and start one backward pass from all leaves."""

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
from ._lengths import holders, in_memory, lent
from ._operands import Pointwise, arranged, show

if TYPE_CHECKING:
    from ._container import Container


@flags
class AutogradOps(Pointwise, ApplyOps):
    """`grad`, `data`, `detach`, `requires_grad_`, `backward`, ... over all leaves, shared tensors included."""

    __slots__ = ()

    @property
    def grad(self) -> Container | None:
        """The gradients as an untyped container, None when no leaf has one; leaves without a gradient are left out.

        Assigning a container sets the gradients of its leaves, in place where there are any; None clears all.

        Raises:
            StructureError: on setting, for unknown keys or a gradient whose shape, dtype or device is not the leaf's.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.ones(2), b=torch.ones(2), batch_size=[2]).requires_grad_()
        >>> (data["a"] * 3).sum().backward()
        >>> data.grad["a"], "b" in data.grad
        (tensor([3., 3.]), False)
        """
        return _picked(self, _gradient)  # type: ignore[no-any-return]  # what `_bare` makes has the operations

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
        """A twin around the same memory that autograd does not see; locked when this container is.

        Assigning a container puts its memory under the leaves of the same keys, as for a tensor's `data`.

        Raises:
            StructureError: on setting, for unknown keys or a tensor whose shape or dtype is not the leaf's.
            BatchSizeError: on setting, when the batch sizes differ.

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
        """A twin around the same memory, cut off from the autograd graph; locked when this container is.

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
        """Cut every leaf off from the autograd graph, in place: all of them or none.

        Raises:
            UnsupportedOperationError: when a leaf is a view, which torch can't detach in place.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.ones(2), batch_size=[2]).requires_grad_()
        >>> data.detach_().requires_grad
        False
        """
        leaves = self._leaves(VALUES)
        lent(self, leaves, "detach_", False)
        tracked = [(i, leaf) for i, leaf in enumerate(leaves) if leaf.requires_grad]
        for i, leaf in tracked:
            if leaf._is_view():
                raise self._refused(i, "detach_", "is a view, which torch can't detach in place; use `detach()`")
        for _, leaf in tracked:
            leaf.detach_()
        return self

    def _refused(self, position: int, op: str, why: str) -> UnsupportedOperationError:
        return UnsupportedOperationError(f"{op}: `{show(self._layout()[position])}` {why}; nothing was changed")

    @property
    def requires_grad(self) -> bool:
        """Whether autograd records what happens to any leaf.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.ones(2), batch_size=[2]).requires_grad
        False
        """
        return any([leaf.requires_grad for leaf in self._leaves(VALUES)])

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say of every leaf whether autograd records what happens to it: all of them or none.

        Args:
            requires_grad: whether it does.

        Raises:
            UnsupportedOperationError: for a leaf of integers or bools, or one computed from others that require grad.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.ones(2), batch_size=[2]).requires_grad_().requires_grad
        True
        """
        lent(self, self._leaves(VALUES), "requires_grad_", False)
        leaves, entries = _tracked(self)
        for i, leaf in enumerate(leaves):
            if requires_grad and not (leaf.is_floating_point() or leaf.is_complex()):
                why = f"is of {leaf.dtype}, and only floating point and complex tensors have gradients"
                raise self._refused(i, "requires_grad_", f"{why}: `select` the entries that have them")
            if not requires_grad and leaf.requires_grad and not leaf.is_leaf:
                raise self._refused(i, "requires_grad_", "was computed from what requires grad; use `detach()`")
        for leaf, entry in zip(leaves, entries, strict=True):
            leaf.requires_grad_(requires_grad)
            if entry is not None:
                entry._settle(leaf)
        return self

    def zero_grad(self, set_to_none: bool = True) -> Self:
        """Clear the gradient of every leaf.

        Args:
            set_to_none: drop the gradients; otherwise those that exist become zero in place.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.ones(2), batch_size=[2]).requires_grad_()
        >>> data.sum(reduce=True).backward()
        >>> data.zero_grad().grad is None
        True
        """
        for leaf in _tracked(self)[0]:
            gradient = _gradient(leaf)
            if gradient is not None and set_to_none:
                leaf.grad = None
            elif gradient is not None:
                leaf.grad = gradient.detach().zero_()
        return self

    def backward(
        self, gradient: TensorCollection | None = None, retain_graph: bool | None = None, create_graph: bool = False,
        inputs: TensorCollection | Sequence[Tensor] | None = None,
    ) -> None:  # fmt: skip
        """Add the gradients of all leaves that require grad to what they were computed from, in one pass.

        Args:
            gradient: a weight of the same shape for each leaf, under the same keys; one, for leaves of one element,
                when omitted.
            retain_graph: keep the graph for another pass; as `create_graph` when omitted.
            create_graph: record the pass itself, for higher derivatives.
            inputs: the only tensors whose `grad` receives something; all that the leaves depend on when omitted.

        Raises:
            StructureError: when no leaf requires grad, a leaf of several elements has no weight, or a weight has
                another shape.
            MissingKeyError: when `gradient` lacks an entry for a leaf that requires grad.

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


def _tracked(self: Any) -> tuple[list[Tensor], list[Any]]:
    """The tensors that autograd knows the leaves by, and the entries with lengths among their holders."""
    leaves, entries = self._leaves(VALUES), holders(self)
    pairs = zip(leaves, entries, strict=True)  # a nested tensor is known itself, its rows are computed from it
    return [leaf if entry is None else getattr(entry._rows, "source", leaf) for leaf, entry in pairs], entries


def _gradient(leaf: Tensor) -> Tensor | None:
    """A tensor's gradient; torch warns of one that can't have any."""
    return leaf.grad if leaf.is_leaf or leaf.retains_grad else None


def _picked(self: Any, function: Callable[[Tensor], Tensor | None]) -> Any:
    """An untyped container of what a function gives for the leaves; None when it gives nothing for any."""
    store = store_of(self)
    if store._stacked:
        picked = [_picked(member, function) for member in store._members]
        if all([new is None for new in picked]):
            return None
        bare = [member._bare(member._batch_size, member._names) for member in store._members]
        return store._with([empty if new is None else new for new, empty in zip(picked, bare, strict=True)])
    result = self._bare(self._batch_size, self._names)
    for key, value in self._entries().items():
        if isinstance(value, TensorCollection):
            new = _picked(value, function)
        elif isinstance(value, Tensor):
            new = function(value)
        else:  # a node keeps its kind around the new leaves
            old = value._leaves(VALUES) if isinstance(value, TensorEntry) else []
            leaves = [leaf for leaf in map(function, old) if leaf is not None]
            new = value._make(leaves, self._batch_size, None, VALUES) if old and len(leaves) == len(old) else None
        if new is not None:
            result._put(key, new)
    return result if result._entries() else None


def _counterparts(self: Pointwise, other: Any, op: str) -> list[tuple[str, Tensor, Tensor]]:
    """Path, own leaf and new tensor, for every leaf of the other container."""
    if not isinstance(other, Pointwise):
        raise ArgumentError(f"{op}: give a container of the same keys, got {type(other).__name__}: {other!r:.60}")
    if self._stacked:
        other = arranged(self, other)
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
    """Why a tensor can't take another's place; empty when it can."""
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
    """The weight of each output, by key."""
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
