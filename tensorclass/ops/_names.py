"""Dim names: lookup of dims by name, names of joined containers, and methods that set and change names."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any

from typing_extensions import Self

from ..core import Names, TensorCollection, as_int, as_items, batch_dim, batch_dims, check_names
from ..errors import BatchDimError, StructureError, did_you_mean
from ._mapping import MappingOps


class NameOps(MappingOps):
    """`rename`, `refine_names` and the lookup of dims."""

    __slots__ = ()

    def _refuse_frozen(self, what: str, key: str | None = None) -> None:
        """Refuse in-place writes to a frozen container; other containers allow them, locked or not.

        Without a key, the write is to everything below, so a nested frozen container refuses it too.
        """

    def _is_rigid(self, floats: bool = False) -> bool:
        """Whether a declaration fixes dtypes and event shapes of all leaves; with `floats`, to floating dtypes."""
        facts = type(self).__tensorclass__ if self._layered else None
        if facts is None or not (facts.floats if floats else facts.rigid):
            return False
        for name in facts.nested:
            inner = self._store._live().get(name)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a class over a store
            if inner is not None and not inner._layered:
                inner = self._wrap_nested(name, inner)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # as above
            if inner is not None and not inner._is_rigid(floats):
                return False
        return True

    def _dim(self, dim: int | str, op: str, extra: int = 0) -> int:
        """A batch dim, given by number or name, as a non-negative number."""
        if type(dim) is int and 0 <= dim < len(self._batch_size):
            return dim
        if isinstance(dim, str):
            if self._names is None or dim not in self._names:
                near = did_you_mean(dim, [name for name in self.names if name])
                raise BatchDimError(f"{op}: no batch dim is named {dim!r}; the names are {self.names}{near}")
            return self._names.index(dim)
        return batch_dim(dim, len(self._batch_size), op=op, extra=extra)

    def _dims(self, dims: Any, op: str) -> tuple[int, ...]:
        """Several distinct batch dims, each given by number or name."""
        dims = as_int(dims)
        given = [dims] if isinstance(dims, (int, str)) else as_items(dims, op, "a dim or a sequence of dims")
        return batch_dims([self._dim(dim, op) for dim in given], len(self._batch_size), op=op)

    def rename(self, *names: str | None, **rename_map: str | None) -> Self:
        """Change the dim names, in a new container around the same tensors.

        Args:
            *names: a name or None for each batch dim, or a single None to clear all.
            **rename_map: new names by old name.

        Raises:
            BatchDimError: for both forms or none, a wrong number of names, an unknown or a repeated name.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict(batch_size=[2, 3], names=["time", "env"])
        >>> data.rename(time="step").names, data.rename(None).names
        (['step', 'env'], [None, None])
        """
        result = self._twin()
        result._set_names(new_names(self, names, rename_map))
        return result

    def rename_(self, *names: str | None, **rename_map: str | None) -> Self:
        """Change the dim names of this container and nested ones, in place; arguments as for `rename`.

        >>> from tensorclass import TensorDict
        >>> TensorDict(batch_size=[2], names=["time"]).rename_("step").names
        ['step']
        """
        self._refuse_frozen("rename dims")
        self._set_names(new_names(self, names, rename_map))
        return self

    def refine_names(self, *names: str | EllipsisType | None) -> Self:
        """Name unnamed dims. Existing names are checked, and kept.

        Args:
            *names: one for each batch dim; a `...` leaves dims unchanged.

        Raises:
            BatchDimError: for a wrong number of names, a second `...`, or a repeated name.
            StructureError: for a dim that already has another name.

        >>> from tensorclass import TensorDict
        >>> TensorDict(batch_size=[3, 4, 5], names=["a", None, None]).refine_names(..., "c").names
        ['a', None, 'c']
        """
        self._refuse_frozen("refine names")
        mine = self.names
        wanted = check_names(_spread_dots(list(names), mine), len(mine)) or (None,) * len(mine)
        for old, new in zip(mine, wanted, strict=True):
            if old is not None and old != new:
                raise StructureError(
                    f"refine_names: a dim is named {old!r} and can't become {new!r}; the names are {mine}; `rename` "
                    "changes names"
                )
        self._set_names(check_names(wanted, len(mine)))
        return self


def new_names(self: TensorCollection, names: Sequence[str | None], rename_map: dict[str, str | None]) -> Names:
    """The new names for a call of `rename`."""
    mine = self.names
    if names and rename_map:
        raise BatchDimError("rename takes names or a map from old to new names, not both")
    if not rename_map:
        if not names and mine:
            raise BatchDimError(f"rename takes a name for each of the {len(mine)} batch dims, or `old='new'`")
        return None if tuple(names) == (None,) else check_names(names, len(mine))
    for old in rename_map:
        if old not in mine:
            near = did_you_mean(old, [name for name in mine if name])
            raise BatchDimError(f"rename: no batch dim is named {old!r}{near}; the names are {mine}")
    return check_names([rename_map.get(name, name) if name else None for name in mine], len(mine))


def _spread_dots(names: list[Any], mine: list[str | None]) -> list[Any]:
    """The names with `...` replaced by the current names of its dims."""
    dots = [i for i, name in enumerate(names) if name is Ellipsis]
    if len(dots) > 1:
        raise BatchDimError(f"refine_names takes at most one `...`, got {len(dots)}")
    if dots:
        at, covered = dots[0], len(mine) - len(names) + 1
        names[at : at + 1] = mine[at : at + max(covered, 0)]
    return names


def unify_names(all_names: Sequence[Names], op: str) -> Names:
    """The common names of several containers: an unnamed dim gets the name of the others.

    Raises:
        StructureError: if a dim has two names.
    """
    named = [(position, names) for position, names in enumerate(all_names) if names is not None]
    if not named:
        return None
    first, result = named[0][0], list(named[0][1])
    for position, names in named[1:]:
        for dim, name in enumerate(names):
            if result[dim] is not None and name is not None and result[dim] != name:
                raise StructureError(
                    f"{op}: batch dim {dim} is named {result[dim]!r} at position {first} and {name!r} at position "
                    f"{position}; give them the same names with `rename`, or clear them with `rename(None)`"
                )
            result[dim] = name if result[dim] is None else result[dim]
    return check_names(result, len(result))
