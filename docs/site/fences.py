"""Render docstring examples as code; they follow the text without a heading."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> (?:.+\n?)+", re.MULTILINE)


class Fences(griffe.Extension):
    """Put a fence around every block that begins with `>>>`."""

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        """Add the fences to one docstring, once."""
        if obj.docstring is not None and "```pycon" not in obj.docstring.value:
            obj.docstring.value = EXAMPLE.sub(
                lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value
            )
