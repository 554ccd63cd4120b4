"""Reads batches ahead in threads, in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import TypeVar

from ..core import bytes_of

K = TypeVar("K")
T = TypeVar("T")
FAR = 8
"""Batches of a dataset behind a URL that are read ahead: short steps hide a request only behind several of them."""
MOST = 1 << 28
"""The most bytes of batches that are read ahead, as far as the last one tells."""


def read_ahead(get: Callable[[K], T], keys: Iterable[K], count: int) -> Iterator[T]:
    """What a function returns for each key; up to `count` calls run ahead, in threads, from the first result on."""
    if not count:
        yield from map(get, keys)
        return
    left, waiting = iter(keys), deque[Future[T]]()
    pool = ThreadPoolExecutor(count, "tensorclass-ahead")

    def submit_calls(more: int) -> None:
        waiting.extend([pool.submit(copy_context().run, get, key) for key in islice(left, max(0, more))])

    try:
        submit_calls(1)  # it has the connections to itself
        while waiting:
            found = waiting.popleft().result()
            room = min(count, MOST // max(1, bytes_of(found)))
            submit_calls(room - len(waiting))
            yield found
            if not waiting:
                submit_calls(1)
    finally:
        pool.shutdown(cancel_futures=True)
