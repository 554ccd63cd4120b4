"""The steps that make a container like a twin of it, on which an operation has worked."""

from __future__ import annotations

from typing import Any

from ..core import Step, TensorCollection, store_of


def taken_over(mine: Any, twin: Any) -> list[Step]:
    """The steps that make a container, and all below it, hold what a changed twin of it holds; see `publish`.

    Nested containers and members that both have stay the same objects.

    Raises:
        LockedError: if a container to be changed is locked.
    """
    own, new = store_of(mine), store_of(twin)
    if own._stacked:
        return [s for a, b in zip(own._members, new._members, strict=True) for s in taken_over(a, b)]
    seen, entries = own._entries(), new._entries()
    steps: list[Step] = []
    for key, value in entries.items():
        partner = seen.get(key)
        if isinstance(value, TensorCollection) and isinstance(partner, TensorCollection):
            steps += taken_over(partner, value)
            entries[key] = partner
    same = list(entries) == list(seen) and all([entries[key] is seen[key] for key in seen])
    size = new._batch_size if (new._batch_size, new._names) != (own._batch_size, own._names) else None
    if not same or size is not None:
        own._require_unlocked("change the batch size" if same else "change the entries")
    steps += [] if same else own._swap_steps(entries)
    return steps if size is None else [*steps, *own._shape_steps(size, new._names)]
