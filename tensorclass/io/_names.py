"""Key paths and the names of stored tensors: `("a", "b")` is stored as `a.b`, unless that name is taken."""

from __future__ import annotations

from collections.abc import Iterable

from ..core import Path

RESERVED = "__metadata__"
MAX_DEPTH = 100
"""The largest nesting depth of containers in a file."""


class Names:
    """Gives each tensor of one file a unique name."""

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used: set[str] = {RESERVED, *used}

    def take(self, path: Path) -> str:
        """A name that no other tensor has: the dotted path if it is free, else with a number appended.

        >>> names = Names()
        >>> names.take(("a", "b")), names.take(("a.b",)), names.take(("__metadata__",))
        ('a.b', 'a.b#1', '__metadata__#1')
        """
        name = plain = ".".join(path)
        if not name.isascii():  # an unpaired surrogate has no UTF-8
            name = plain = plain.encode("utf-8", "replace").decode()
        number = 0
        while name in self._used:
            number += 1
            name = f"{plain}#{number}"
        self._used.add(name)
        return name


def nested_paths(names: Iterable[str]) -> dict[str, Path]:
    """The key path of each name in a file without our metadata: dots nest, unless names would collide.

    >>> nested_paths(["w", "a.b", "a", "x..y"])
    {'w': ('w',), 'a.b': ('a.b',), 'a': ('a',), 'x..y': ('x..y',)}
    """
    known = list(names)
    taken = set(known)
    found: dict[str, Path] = {}
    for name in known:
        parts = name.split(".")
        whole = len(parts) > MAX_DEPTH or "" in parts
        heads = () if whole else (".".join(parts[:i]) for i in range(1, len(parts)))
        found[name] = (name,) if whole or any(head in taken for head in heads) else tuple(parts)
    return found
