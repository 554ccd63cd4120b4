"""Related typed classes; equal field names don't make two classes related."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import StructureError, defined_again


def lineage(cls: Any) -> Iterator[Any]:
    """A class, and the classes from which `pick`, `omit`, `merge`, `partial` or a pipeline made it."""
    yield cls
    recipe = vars(cls).get("__tensorclass_recipe__")
    for source in () if recipe is None else recipe.sources:
        yield from lineage(source)


def are_related(one: Any, other: Any) -> bool:
    """Whether instances of two classes may be combined in an operation.

    They may if one class is the other or a parent of it, or if this is true for the classes from which they were made.
    """
    if issubclass(one, other) or issubclass(other, one):
        return True
    return any(issubclass(a, b) or issubclass(b, a) for a in lineage(one) for b in lineage(other))


def unrelated_error(one: Any, other: Any, op: str) -> StructureError:
    """The error for instances of unrelated classes."""
    again = defined_again(other, one)
    if again:
        return StructureError(f"{op}: {again}")
    return StructureError(
        f"{op}: {one.__name__} and {other.__name__} are different classes, even if their fields have the same names; "
        f"convert one of them (`{one.__name__}.from_tensordict(other)`), or combine what is untyped: "
        "`batch.to_tensordict()`"
    )
