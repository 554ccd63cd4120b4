"""What accelerate needs of a loader that it prepared: batches on its device, and when an epoch ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from ..errors import ArgumentError
from ._optional import optional
from ._sampling import Order

T = TypeVar("T")


def check_preparable(order: Order) -> None:
    """Refuse a loader whose ranks get other numbers of batches, since the ranks would wait for each other.

    Raises:
        ArgumentError: for several ranks without `pad_last` or `drop_last`.
    """
    facts = order.facts
    if facts["world_size"] > 1 and not (facts["pad_last"] or facts["drop_last"]):
        raise ArgumentError(
            f"accelerate needs as many batches on each of the {facts['world_size']} ranks: pass pad_last=True or "
            "drop_last=True to loader()"
        )


def deliver_prepared(batches: Iterable[T], order: Order) -> Iterator[T]:
    """Batches on the device of accelerate, which is told of the last one and of rows that were repeated."""
    accelerate: Any = optional("accelerate", "A prepared loader", "dev")
    loaders: Any = optional("accelerate.data_loader", "A prepared loader", "dev")
    status = type("_Status", (loaders.DataLoaderStateMixin,), {})()
    status.gradient_state = accelerate.state.GradientState()
    status.dataset, status._drop_last, status.total_batch_size = range(order.facts["rows"]), False, 1
    device = accelerate.PartialState().device
    left = order.count(order.base) - order.step
    status.begin()
    status.remainder = _count_last(order)
    try:
        for number, batch in enumerate(batches, 1):
            status.end_of_dataloader = number == left
            yield batch.to(device)  # type: ignore[attr-defined]  # a batch is a container
    finally:
        status.end()


def _count_last(order: Order) -> int:
    """The rows of the last step over all ranks, without repeated ones; -1 for a whole step."""
    facts = order.facts
    if facts["drop_last"]:
        return -1
    return int((facts["rows"] - order.base * facts["size"]) % (facts["size"] * facts["world_size"])) or -1
