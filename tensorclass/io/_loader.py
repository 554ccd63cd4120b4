"""A DataLoader of typed batches, whose state counts what was delivered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from ..errors import ArgumentError
from ._sampling import Order

T = TypeVar("T")


class _Remaining(Sampler[Any]):
    """The rows of each batch that is still to come in the epoch, as arrays: a tensor would go through shared memory."""

    def __init__(self, order: Order) -> None:
        self.order = order

    def __iter__(self) -> Iterator[Any]:
        return map(Tensor.numpy, self.order.remaining())

    def __len__(self) -> int:
        return self.order.count(self.order.base)


def _as_it_is(batch: T) -> T:
    return batch


class BatchLoader(DataLoader[T]):
    """A `DataLoader` over a dataset that gives a whole batch for the rows of one; `TensorClassDataset.loader` makes it.

    Each `iter()` begins the next epoch. Batches that workers have read ahead do not count in the state.

    Args:
        dataset: gives the rows of a batch for an int64 tensor of their numbers.
        order: which rows each batch has.
        options: as `DataLoader` takes them: `num_workers`, `pin_memory`, `prefetch_factor`, ...
    """

    def __init__(self, dataset: Dataset[T], order: Order, **options: Any) -> None:
        taken = {"batch_size", "sampler", "batch_sampler", "shuffle", "collate_fn", "drop_last"} & options.keys()
        if taken:
            raise ArgumentError(f"loader() sets {', '.join(sorted(taken))} of the DataLoader itself")
        self._order = order
        super().__init__(dataset, batch_size=None, sampler=_Remaining(order), collate_fn=_as_it_is, **options)

    def __iter__(self) -> Iterator[T]:  # type: ignore[override]  # an iterator that counts
        order = self._order
        order.begin()
        epoch = order.epoch
        for batch in super().__iter__():
            if order.epoch != epoch:
                raise ArgumentError("another iterator has begun the next epoch; this one has ended")
            order.step += 1
            yield batch

    @property
    def epoch(self) -> int:
        """The epoch that runs, from 0."""
        return self._order.epoch

    def state_dict(self) -> dict[str, Any]:
        """Where it is, in JSON types: what was delivered counts."""
        return self._order.state()

    def load_state_dict(self, state: Mapping[str, Any], reshard: bool = False) -> None:
        """Go on where a state was taken, with the next `iter()`; see `Batches.load_state_dict`.

        Raises:
            ValueError: for the state of another order; names what differs.
        """
        self._order.load(state, reshard)
