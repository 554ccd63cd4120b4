"""Texts of `tensordict` on which clients branch, added to the messages of this package."""

from __future__ import annotations

from ..errors import BatchSizeError, StructureError

TEXTS = {
    "lazy stack: the shapes of": "Failed to stack tensors within a tensordict",
    "a sequence of keys is expected": "incompatible function arguments",
}
"""What clients look for in a message, by how the message of this package begins."""
SIZE = "batch dimension mismatch"
"""What they look for if an entry lacks the batch size."""


def _add_words(error: Exception, text: str) -> str:
    found = SIZE if isinstance(error, BatchSizeError) else ""
    words = next((words for begin, words in TEXTS.items() if text.startswith(begin)), found)
    return f"{text} [{words}]" if words else text


def say_texts() -> None:
    """Add the texts to the errors that clients look at."""
    for kind in (BatchSizeError, StructureError):  # the errors of arguments are kinds of the second
        plain = kind.__str__

        def say(self: Exception, plain: object = plain) -> str:
            return _add_words(self, plain(self))  # type: ignore[operator]  # a method of the class

        kind.__str__ = say  # type: ignore[method-assign]  # only after `install`
