"""Progress bars, where they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._optional import optional


@contextmanager
def progress(wanted: bool, total: int | None, what: str, unit: str = "rows") -> Iterator[Any]:
    """A function to call with the number of steps that were done.

    Raises:
        MissingExtraError: when a bar is wanted and `tqdm` is not installed.
    """
    if not wanted:
        yield _ignore
        return
    with optional("tqdm", "A progress bar", "progress").tqdm(total=total, desc=what, unit=unit) as bar:
        yield bar.update


def _ignore(_: int) -> None:
    """No bar."""
