"""A DataLoader of typed batches; its state counts the batches that were delivered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from .._places import is_url
from ..errors import ArgumentError
from ._ahead import FAR, read_ahead
from ._prepared import check_preparable, deliver_prepared
from ._sampling import Order, Resumable

T = TypeVar("T")


class _Remaining(DistributedSampler[Any]):
    """The rows of each remaining batch of the epoch, as arrays, since tensors would be sent through shared memory.

    These are the rows of one rank, so it is a `DistributedSampler`: Lightning leaves those as they are.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        self.epoch = 0  # Lightning sets it; the order has an epoch of its own

    def __iter__(self) -> Iterator[Any]:
        return map(Tensor.numpy, self.order.remaining())

    def __len__(self) -> int:
        return self.order.count(self.order.base)


def _as_it_is(batch: T) -> T:
    return batch


class BatchLoader(Resumable[T], DataLoader[T]):
    """A `DataLoader` that loads whole batches of a dataset at once; `TensorClassDataset.loader` returns one.

    Each `iter()` begins the next epoch. The state doesn't count batches that workers have read ahead. Threads may share
    an iterator: each batch goes to one of them. Fabric and accelerate take a loader unchanged: they move its batches,
    and save and load its state.

    Args:
        dataset: returns a batch for an int64 tensor of row numbers.
        order: the rows of each batch.
        options: options of `DataLoader`: `num_workers`, `pin_memory`, `prefetch_factor`, ...
    """

    use_stateful_dataloader: bool = True
    """Tells accelerate to save and load the state of the loader."""

    def __init__(self, dataset: Dataset[T], order: Order, **options: Any) -> None:
        taken = {"batch_size", "sampler", "batch_sampler", "shuffle", "collate_fn", "drop_last"} & options.keys()
        if taken:
            raise ArgumentError(f"loader() sets {', '.join(sorted(taken))} of the DataLoader itself")
        self._order = order
        self._prepared = False
        self._far = any(map(is_url, getattr(dataset, "paths", ())))
        super().__init__(dataset, batch_size=None, sampler=_Remaining(order), collate_fn=_as_it_is, **options)

    def __iter__(self) -> Iterator[T]:  # type: ignore[override]  # a generator, to count batches
        return self._deliver_batches(
            deliver_prepared(self._loaded(), self._order) if self._prepared else self._loaded()
        )

    @property
    def _is_accelerate_prepared(self) -> bool:
        """`Accelerator.prepare` asks this; True makes it keep this loader, whose ranks have their own rows already."""
        return True

    @_is_accelerate_prepared.setter
    def _is_accelerate_prepared(self, value: bool) -> None:
        """`Accelerator.prepare` sets it on what it returns."""
        check_preparable(self._order)
        self._prepared = value

    def _loaded(self) -> Iterator[T]:
        if self._far and not self.num_workers:
            yield from read_ahead(self.dataset.__getitem__, self._order.remaining(), FAR)
        else:
            yield from super().__iter__()  # workers start when the epoch has begun
