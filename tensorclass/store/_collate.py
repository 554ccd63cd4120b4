"""DataLoader: its default collate stacks containers, and takes a container that `__getitems__` gathered as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, overload

from torch.utils.data._utils.collate import default_collate_fn_map

from ..core import TensorCollection
from ..ops import stack

C = TypeVar("C", bound=TensorCollection)


def collate_containers(batch: Sequence[Any] | TensorCollection, *, collate_fn_map: Any = None) -> Any:
    """Stack a list of containers by the join policies of their fields; a container is a batch already."""
    return batch if isinstance(batch, TensorCollection) else stack(batch)


@overload
def collate(batch: Sequence[C]) -> C: ...
@overload
def collate(batch: Sequence[Any]) -> Any: ...
def collate(batch: Sequence[Any]) -> Any:
    """Stack a list of containers; the `collate_fn` to give a DataLoader where its default is not used.

    >>> import torch
    >>> from tensorclass import TensorDict, collate
    >>> collate([TensorDict(a=torch.zeros(3)), TensorDict(a=torch.ones(3))]).batch_size
    torch.Size([2])
    """
    return collate_containers(batch)


default_collate_fn_map[TensorCollection] = collate_containers
