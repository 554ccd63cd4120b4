"""Texts of `tensordict` on which clients branch, added to the messages of this package."""

from __future__ import annotations

from ..errors import BatchSizeError, KeySetError, StructureError

TEXTS = {
    "join": "Failed to stack tensors within a tensordict",
    "size": "batch dimension mismatch",
}
"""What clients look for in a message: of joins that fail, and of a batch size that an entry lacks."""


def _add_words(error: Exception, text: str) -> str:
    if text.startswith(("stack", "cat", "maybe_dense_stack", "dense_stack")):
        return f"{text} [{TEXTS['join']}]"
    return f"{text} [{TEXTS['size']}]" if isinstance(error, BatchSizeError) else text


def say_texts() -> None:
    """Add the texts to the errors that clients look at."""
    for kind in (BatchSizeError, KeySetError, StructureError):
        plain = kind.__str__

        def say(self: Exception, plain: object = plain) -> str:
            return _add_words(self, plain(self))  # type: ignore[operator]  # a method of the class

        kind.__str__ = say  # type: ignore[method-assign]  # only after `install`
