"""Lazy stacks from any container; the store of lazy stacks assigns the implementation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch

from .._flags import flags
from ..core import Path
from ._join import JoinOps


@flags
class LazyOps(JoinOps):
    """`lazy_stack`, `maybe_dense_stack`, `to_lazystack`, `densify`, `to_padded_tensor`."""

    __slots__ = ()
    _lazy_stack: ClassVar[Callable[..., Any]]
    _maybe_dense_stack: ClassVar[Callable[..., Any]]
    _densified: ClassVar[Callable[..., Any]]
    _unnested: ClassVar[Callable[..., Any]]
    _value_as: ClassVar[Callable[..., Any]]

    @classmethod
    def lazy_stack(cls, input: Sequence[Any], dim: int = 0, **kwargs: Any) -> Any:
        """Stack containers without copying; see the function `tensorclass.lazy_stack`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict.lazy_stack([TensorDict(a=torch.zeros(3)), TensorDict(a=torch.ones(4))]).batch_size
        torch.Size([2])
        """
        return LazyOps._lazy_stack(input, dim, **kwargs)

    @classmethod
    def maybe_dense_stack(cls, input: Sequence[Any], dim: int = 0, out: Any = None, strict: bool = False) -> Any:
        """Stack densely if keys and shapes agree, else lazily; see the function `tensorclass.maybe_dense_stack`.

        >>> import torch
        >>> from tensorclass import LazyStackedTensorDict, TensorDict
        >>> short, long = TensorDict(a=torch.zeros(2)), TensorDict(a=torch.zeros(3))
        >>> isinstance(TensorDict.maybe_dense_stack([short, long]), LazyStackedTensorDict)
        True
        >>> TensorDict.maybe_dense_stack([short, short])["a"].shape
        torch.Size([2, 2])
        """
        return LazyOps._maybe_dense_stack(input, dim, out, strict)

    def _read_as(self, path: Path, form: tuple[bool, bool, bool], side: str, layout: Any, value: float) -> Any:
        return LazyOps._value_as(self, path, form, side, layout, value)

    def to_lazystack(self, dim: int = 0) -> Any:
        """A lazy stack of the slices along a batch dim, as views of the same tensors.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> stack = TensorDict(a=torch.zeros(2, 3), batch_size=[2, 3]).to_lazystack(1)
        >>> stack.batch_size, stack[:, 0].batch_size
        (torch.Size([2, 3]), torch.Size([2]))
        """
        at = self._dim(dim, "to_lazystack")
        return LazyOps._lazy_stack(JoinOps.unbind(self, at), at)

    def densify(self, layout: Any = torch.strided) -> Any:
        """Make lazy stacks dense: entries of different shapes become nested tensors.

        Args:
            layout: of the nested tensors, `torch.strided` or `torch.jagged`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> stack = TensorDict.lazy_stack([TensorDict(a=torch.zeros(3)), TensorDict(a=torch.ones(4))])
        >>> stack.densify(layout=torch.jagged)["a"].is_nested
        True
        """
        return LazyOps._densified(self, layout)

    def to_padded_tensor(self, padding: float = 0.0, mask_key: Any = None) -> Any:
        """Pad nested tensors to dense ones.

        Args:
            padding: the value of the padding.
            mask_key: the key for a bool mask that is True for values that are not padding; for a ragged batch dim.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> stack = TensorDict.lazy_stack([TensorDict(a=torch.zeros(1)), TensorDict(a=torch.ones(2))])
        >>> stack.densify().to_padded_tensor()["a"]
        tensor([[0., 0.],
                [1., 1.]])
        """
        return LazyOps._unnested(LazyOps.densify(self), padding, mask_key)
