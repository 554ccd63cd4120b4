"""Rows of a dataset in batches, for training: in one process, and from a `DataLoader`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from torch import Tensor

from .._flags import flags
from .._places import is_url
from ._access import reaching
from ._advice import IntArray
from ._ahead import FAR
from ._buckets import lengths_in
from ._loader import BatchLoader
from ._mixed import orders_of
from ._orders import BLOCK_ROWS
from ._sampling import Batches, Order, ranks_of
from ._shards import Shard

T = TypeVar("T")


@flags
class InBatches(Generic[T]):
    """Methods of a dataset that give its rows in batches.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import RaggedTensor, TensorClass, TensorClassDataset
    >>> from tensorclass.typing import Int64
    >>> class Text(TensorClass):
    ...     label: Int64[Tensor, ""]
    ...     tokens: Int64[RaggedTensor, "t"]
    >>> with TensorClassDataset.create("texts", Text) as writer:
    ...     tokens = [torch.zeros(1 + i * 7 % 10, dtype=torch.int64) for i in range(10)]
    ...     writer.append(Text(torch.arange(10), tokens))
    >>> data = TensorClassDataset("texts", Text)
    """

    if TYPE_CHECKING:
        paths: tuple[str, ...]
        shards: tuple[Shard, ...]
        cls: Any
        _block_rows: int

        def __len__(self) -> int: ...
        def __getitem__(self, index: Any) -> T: ...
        def pick(self, *fields: Any) -> Any: ...
        def _use(self, cls: Any) -> None: ...

    def batches(
        self,
        size: int,
        shuffle: bool | str = False,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = False,
        pad_last: bool = False,
        *,
        layout: Any = None,
        sampler: Any = None,
        buckets: Any = None,
        prefetch: int | None = None,
    ) -> Batches[T]:
        """The rows in batches. Each `iter()` begins the next epoch. See `Batches`.

        Args:
            layout: a `tensorclass.parallel.Layout`, instead of rank and world size; see `loader`.
            sampler: gives the rows of an epoch; see `Batches`.
            buckets: the field by whose lengths rows are batched together; see `loader`.
            prefetch: batches that threads read ahead, up to 256 MB; by default 8 of a dataset behind a URL, else none.

        >>> [batch.label.tolist() for batch in data.batches(4)]
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        """
        if prefetch is None:
            prefetch = FAR if any(map(is_url, self.paths)) else 0
        facts = {"size": size, "shuffle": shuffle, "seed": seed, "drop_last": drop_last, "pad_last": pad_last}
        rank, world_size = ranks_of(layout, rank, world_size, **facts, rows=len(self))
        given = (size, shuffle, seed, rank, world_size, drop_last, pad_last)
        return Batches(self._read_in(shuffle), *given, sampler=sampler, buckets=buckets, prefetch=prefetch)

    def loader(
        self,
        batch_size: int,
        shuffle: bool | str = False,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = False,
        pad_last: bool = False,
        *,
        layout: Any = None,
        sampler: Any = None,
        buckets: Any = None,
        **options: Any,
    ) -> BatchLoader[T]:
        """The same batches as `batches`, from a `DataLoader` whose workers read ahead.

        Args:
            batch_size: rows of a batch.
            shuffle: use another order in each epoch, which depends on the seed and the epoch; see `Batches`.
            seed: any whole number.
            rank: the rank of this process, from 0; by default that of `torch.distributed`, or of torchrun.
            world_size: the number of processes; give it together with `rank`.
            drop_last: leave out rows, so that every rank has the same number of full batches.
            pad_last: repeat rows, so that every rank has the same number of full batches and no row is left out.
            layout: a `tensorclass.parallel.Layout`, instead of rank and world size: ranks that differ only in mesh
                dims over which rows are not split get the same rows. `batch.distribute(layout, source="rows")` makes
                the batch of all ranks.
            sampler: gives the rows of an epoch over all ranks, instead of `shuffle`; see `Batches`.
            buckets: a field, so that a batch has rows of similar length, and little is padded: a ragged field, or one
                with a whole number for each row. The rows of 64 batches at a time are sorted by it and cut into
                batches, which come in a random order if rows are shuffled. Ranks and states work as without it.
            options: options of `DataLoader`: `num_workers`, `pin_memory`, `prefetch_factor`, ...

        >>> [batch.label.tolist() for batch in data.loader(4, drop_last=True)]
        [[0, 1, 2, 3], [4, 5, 6, 7]]
        >>> [batch.tokens.lengths.tolist() for batch in data.loader(3, buckets=Text.tokens)]
        [[1, 2, 3], [5, 6, 7], [8, 9, 10], [4]]
        """
        facts = {"size": batch_size, "shuffle": shuffle, "seed": seed, "drop_last": drop_last, "pad_last": pad_last}
        rank, world_size = ranks_of(layout, rank, world_size, **facts, rows=len(self))
        orders = orders_of(self, sampler, shuffle, buckets, batch_size)
        order = Order(orders, batch_size, shuffle, seed, rank, world_size, drop_last, pad_last)
        return BatchLoader(self._read_in(shuffle), order, **options)

    def _column_lengths(self, field: Any) -> IntArray:
        """The lengths in a field; see `lengths_in`."""
        one: Any = self.pick(field)
        path = getattr(field, "__field_path__", field)
        found, begin = [np.empty(0, np.int64)], 0
        for number, shard in enumerate(self.shards):
            with reaching(one._access):
                column = one._shelf[number].get(path)
            if isinstance(column, Tensor):  # of a store, its rows are not here yet
                column = one[begin : begin + shard.rows].get(path)
            found.append(lengths_in(column, field))
            begin += shard.rows
        return np.concatenate(found)

    def _read_in(self, shuffle: bool | str) -> Any:
        """The same rows, read from stores in blocks if they are shuffled so."""
        if shuffle != "blocks" or not any(map(is_url, self.paths)):
            return self
        found: Any = object.__new__(type(self))
        found.__dict__ |= self.__dict__
        found._block_rows = BLOCK_ROWS
        found._use(self.cls)
        return found
