"""The order of rows: over all ranks, every row comes once per epoch. A saved state continues at the exact batch."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from .._flags import flags
from ..core import InTurn, Turn, in_turn
from ..errors import ArgumentError
from ..store._bridges import placing
from ._ahead import read_ahead
from ._mixed import orders_of
from ._orders import EXACT, EpochOrders, RandomRows

T = TypeVar("T")
_MOST_AHEAD = 1024
"""The most batches that are read ahead; each has a thread."""
T_co = TypeVar("T_co", covariant=True)


class RowSource(Protocol[T_co]):
    """Anything with rows."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> T_co: ...


def ranks_of(layout: Any, rank: Any, world_size: Any, **options: object) -> tuple[Any, Any]:
    """Rank and world size: those of the rows in a layout over a device mesh, if there is one.

    Args:
        layout: its ranks compare their layouts and options.
        rank: as given.
        world_size: as given.
        options: of the loader, the same on all ranks.

    Raises:
        ArgumentError: for a layout beside rank and world size, and for anything else as a layout; the other ranks
            raise a StructureError.
        StructureError: on all ranks, if layouts or options differ.
    """
    if layout is None:
        return rank, world_size
    is_layout = hasattr(layout, "data_rank")
    told = "" if is_layout else f"layout= takes a tensorclass.parallel.Layout, got a {type(layout).__name__}"
    if rank is not None or world_size is not None:
        told = "a layout says which rows a rank gets: leave out rank= and world_size="
    if told:
        raise placing().refusal_by_all(layout if is_layout else None, "loader", told)
    text = ", ".join([f"{name}={value!r:.40}" for name, value in options.items()])
    found: tuple[int, int] = layout.data_rank(f"loader({text})")
    return found


def _place(rank: Any, world_size: Any) -> tuple[Any, Any]:
    """Rank and world size: as given, else from `torch.distributed` or torchrun, else those of a single process."""
    if (rank is None) != (world_size is None):
        raise ArgumentError(f"rank and world_size are given together, got {rank!r:.40} and {world_size!r:.40}")
    if rank is not None:
        return rank, world_size
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    given = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if None in given:
        return 0, 1
    try:
        return int(given[0] or ""), int(given[1] or "")
    except ValueError:
        raise ArgumentError(f"RANK and WORLD_SIZE of the environment are numbers, got {given}") from None


class Order:
    """The rows of each batch.

    An epoch is one order of rows, cut into batches of `size`; the batches go to the ranks in turn. The order
    depends on the seed and the epoch, not on ranks.

    Args:
        orders: the orders of the epochs.
        size: of a batch.
        shuffle: use another order in each epoch; otherwise that of the dataset. "blocks" for blocks of rows.
        seed: any whole number.
        rank: the rank of this process, from 0; by default that of `torch.distributed`, or of torchrun.
        world_size: the number of processes; give it together with `rank`.
        drop_last: leave out rows, so that every rank has the same number of full batches.
        pad_last: repeat rows, so that every rank has the same number of full batches and no row is left out.
    """

    def __init__(
        self,
        orders: EpochOrders,
        size: int,
        shuffle: bool | str = False,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = False,
        pad_last: bool = False,
    ) -> None:
        number, count = _place(rank, world_size)
        if isinstance(shuffle, str) and shuffle != "blocks":
            raise ArgumentError(f'shuffle is True, False or "blocks", got {shuffle!r:.40}')
        for name, value, least in (("batch size", size, 1), ("world_size", count, 1), ("rank", number, 0)):
            if type(value) is not int or value < least:
                raise ArgumentError(f"{name} is a whole number from {least}, got {value!r:.40}")
        if type(seed) is not int:
            raise ArgumentError(f"seed is a whole number, got {seed!r:.40}")
        if number >= count:
            raise ArgumentError(f"rank is below world_size, got {number} of {count}")
        if drop_last and pad_last:
            raise ArgumentError("drop_last leaves rows out and pad_last repeats some; pass one of them")
        self.facts: dict[str, Any] = {
            "rows": orders.count,
            "size": size,
            "shuffle": shuffle if shuffle == "blocks" else bool(shuffle),
            "seed": seed,
            "rank": number,
            "world_size": count,
            "drop_last": bool(drop_last),
            "pad_last": bool(pad_last),
            **orders.facts,
        }
        self._orders = orders
        self._version = 2 if shuffle is True and orders.count > EXACT else 1
        self.epoch: int = 0
        self.base: int = 0
        """Batches of all ranks that were finished before the world size changed."""
        self.step: int = 0
        """Batches of this rank that were delivered since then."""
        self._begun = False
        self.turn: Turn = Turn()

    def count(self, base: int = 0) -> int:
        """The number of batches of this rank in an epoch, after the first `base` batches of all ranks."""
        rows, size, world = self.facts["rows"], self.facts["size"], self.facts["world_size"]
        batches = (rows // size if self.facts["drop_last"] else -(-rows // size)) - base
        if batches <= 0:
            return 0
        if self.facts["drop_last"]:
            return int(batches // world)
        if self.facts["pad_last"]:
            return int(-(-batches // world))
        return int(max(0, -(-(batches - self.facts["rank"]) // world)))

    def begin(self) -> None:
        """Begin the next epoch, or continue the epoch of a loaded state."""
        if self._begun or (self.step and self.step >= self.count(self.base)):
            self.epoch, self.base, self.step = self.epoch + 1, 0, 0
        self._begun = True

    def remaining(self) -> Iterator[Tensor]:
        """The rows of each remaining batch of this epoch: int64 `[n]`."""
        base, first = self.base, self.step
        size, rank, world = self.facts["size"], self.facts["rank"], self.facts["world_size"]
        order = self._order()
        for step in range(first, self.count(base)):
            begin = (base + step * world + rank) * size
            if order is None:
                rows = self.facts["rows"]
                found = torch.arange(min(begin, rows), min(begin + size, rows), device="cpu")
            else:
                places = np.arange(min(begin, self.facts["rows"]), min(begin + size, self.facts["rows"]))
                found = torch.from_numpy(order.rows(places))
            if self.facts["pad_last"] and len(found) < size:
                found = self._padded(begin, size, order)
            yield found

    def _padded(self, begin: int, size: int, order: RandomRows | None) -> Tensor:
        places = np.arange(begin, begin + size) % self.facts["rows"]
        return torch.from_numpy(places if order is None else order.rows(places))

    def _order(self) -> RandomRows | None:
        """The order of this epoch; None for the order of the dataset."""
        return self._orders.of_epoch(self.facts["seed"], self.epoch, self.facts["shuffle"])

    def state(self) -> dict[str, Any]:
        """The position in the epoch, in JSON types. All ranks have the same one after the same number of batches."""
        facts = {name: value for name, value in self.facts.items() if name != "rank"}
        return {"version": self._version, **facts, "epoch": self.epoch, "base": self.base, "step": self.step}

    def load(self, state: Mapping[str, Any], reshard: bool) -> None:
        """Continue where a state was taken.

        Raises:
            ValueError: for a state with other options, such as another seed; names the difference.
        """
        known = {"version", "epoch", "base", "step", *self.facts}
        if not isinstance(state, Mapping) or {*state, "rank"} != known or state["version"] != self._version:
            raise ArgumentError(f"this is not the state of batches: {state!r:.120}")
        free = {"rank", "world_size"} if reshard else {"rank"}  # older states have a rank
        for name, mine in self.facts.items():
            if name not in free and (state[name] != mine or type(state[name]) is not type(mine)):
                more = "; pass reshard=True if every rank continues so" if name == "world_size" else ""
                raise ArgumentError(f"the state has {name}={state[name]!r:.60}, this has {name}={mine!r:.200}{more}")
        for name in ("epoch", "base", "step", "world_size"):
            if type(state[name]) is not int or not 0 <= state[name] < 2**62:
                raise ArgumentError(f"the state has {name}={state[name]!r:.60}, which is not a number from 0")
        self.epoch, self.base, self.step = state["epoch"], state["base"], state["step"]
        if reshard:
            self.base, self.step = self.base + self.step * state["world_size"], 0
            if self.base * self.facts["size"] >= self.facts["rows"]:
                self.epoch, self.base = self.epoch + 1, 0
        self._begun = False


class Resumable(Generic[T]):
    """An iterable of batches, whose state counts the delivered ones; subclasses set `_order`."""

    _order: Order

    @property
    def _turn(self) -> Turn:
        return self._order.turn

    def _deliver_batches(self, batches: Iterable[T]) -> Iterator[T]:
        """Batches of the next epoch, counted when they are requested. Threads may share the iterator."""
        return InTurn(self._counted(batches), self._turn)

    def _counted(self, batches: Iterable[T]) -> Generator[T, None, None]:
        order = self._order
        order.begin()
        epoch = order.epoch
        for batch in batches:
            if order.epoch != epoch:
                raise ArgumentError("another iterator has begun the next epoch; this one has ended")
            order.step += 1
            yield batch

    @property
    @in_turn
    def epoch(self) -> int:
        """The current epoch, from 0."""
        return self._order.epoch

    @in_turn
    def state_dict(self) -> dict[str, Any]:
        """The position in the epoch, in JSON types. Only delivered batches count."""
        return self._order.state()

    @in_turn
    def load_state_dict(self, state: Mapping[str, Any], reshard: bool = False) -> None:
        """Make the next `iter()` continue where a state was taken.

        Args:
            state: a result of `state_dict`.
            reshard: continue with another number of ranks. Every rank must load a state of the same step.

        Raises:
            ValueError: for a state with other options, such as another seed; names the difference.
        """
        self._order.load(state, reshard)


@flags
class Batches(Resumable[T]):
    """The rows of a dataset in batches, as instances of its class.

    Each `iter()` begins the next epoch. `state_dict()` records which batches were delivered; after `load_state_dict`,
    the next `iter()` continues after them. Over all ranks, every row comes once per epoch, and ranks differ by at most
    one batch, unless `drop_last` leaves rows out or `pad_last` repeats some. Threads may share an iterator: each batch
    goes to one of them. Any new `iter()` ends the iterators before.

    Args:
        data: the dataset.
        size: rows of a batch.
        shuffle: use another order in each epoch, which depends on the seed and the epoch. "blocks" for blocks of
            consecutive rows in a random order; the rows of 64 blocks are shuffled together.
        seed: any whole number.
        rank: the rank of this process, from 0; by default that of `torch.distributed`, or of torchrun.
        world_size: the number of processes; give it together with `rank`.
        drop_last: leave out rows, so that every rank has the same number of full batches.
        pad_last: repeat rows, so that every rank has the same number of full batches and no row is left out.
        sampler: gives the rows of an epoch instead of `shuffle`: any iterable of row numbers with a length, such as a
            `WeightedRandomSampler`. Random numbers that it draws with torch depend on the seed and the epoch.
        buckets: the lengths of the rows, int64 `[rows]`, so that a batch has rows of similar length; or a field of the
            dataset; see `TensorClassDataset.loader`.
        prefetch: batches that threads read ahead, up to 256 MB.

    Raises:
        ValueError: for a size below 1, a rank outside the world size, and arguments that exclude each other.

    >>> import torch
    >>> from tensorclass.io import Batches
    >>> batches = Batches(torch.arange(5), 2)
    >>> [batch.tolist() for batch in batches]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        data: RowSource[T],
        size: int,
        shuffle: bool | str = False,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = False,
        pad_last: bool = False,
        *,
        sampler: Any = None,
        buckets: Any = None,
        prefetch: int = 0,
    ) -> None:
        if type(prefetch) is not int or not 0 <= prefetch <= _MOST_AHEAD:
            raise ArgumentError(f"prefetch is a number of batches from 0 to {_MOST_AHEAD}, got {prefetch!r:.40}")
        self.data = data
        self._prefetch = prefetch
        orders = orders_of(data, sampler, shuffle, buckets, size)
        self._order = Order(orders, size, shuffle, seed, rank, world_size, drop_last, pad_last)

    def __len__(self) -> int:
        """The number of batches in a whole epoch."""
        return self._order.count()

    def __iter__(self) -> Iterator[T]:
        return self._deliver_batches(read_ahead(self.data.__getitem__, self._order.remaining(), self._prefetch))
