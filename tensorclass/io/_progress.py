"""Progress bars, if a user requests them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._optional import optional


@contextmanager
def progress(wanted: bool, total: int | None, what: str, unit: str = "rows") -> Iterator[Any]:
    """A block with a progress bar; gives a function to call with the number of finished steps.

    Raises:
        MissingExtraError: if a bar is requested and `tqdm` is not installed.
    """
    if not wanted:
        yield _ignore
        return
    with optional("tqdm", "A progress bar", "progress").tqdm(total=total, desc=what, unit=unit) as bar:
        yield bar.update


def _ignore(_: int) -> None:
    """No bar."""
