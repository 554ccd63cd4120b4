"""Container: the class with all operations. Untyped stores and typed classes derive from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from typing_extensions import Self

from .._flags import flag
from ..core import relock, represent, represent_html
from ._autograd import AutogradOps
from ._by_row import RowOps
from ._new import NewOps
from ._operands import pair
from ._pointwise import PointwiseOps
from ._reductions import ReductionOps
from ._state import StateOps
from ._undo import WriteBack

Undo: TypeAlias = Callable[[Any], object]


def _nothing(container: Any) -> None:
    """Do nothing at the end of a block that did not change the lock."""


class Container(PointwiseOps, ReductionOps, AutogradOps, NewOps, RowOps, StateOps):
    """The base class of containers, with all operations; a store supplies the primitives."""

    __slots__ = ()

    _undo: list[Undo | None]

    __hash__: ClassVar[Callable[[Any], int]] = object.__hash__

    def __repr__(self) -> str:
        return represent(self)

    def _repr_html_(self) -> str | None:
        """The HTML table for notebooks, in which nested containers fold; None if text output is set."""
        return represent_html(self)

    def _ipython_key_completions_(self) -> list[Any]:
        """The keys that IPython completes in `batch["`, and in `batch["nested", "`."""
        paths: Any = self.keys(True)
        return [*self._outline(), *(path for path in paths if isinstance(path, tuple))]

    def _pair(self, other: Any, op: str, default: Any) -> Any:
        return pair(self, other, op, default)

    # ---- locking -------------------------------------------------------------------------------------------------

    @property
    def is_locked(self) -> bool:
        """Whether structural writes are refused; assigning it locks or unlocks.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2))
        >>> data.is_locked, data.lock_().is_locked
        (False, True)
        """
        return self._owners() is not None

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        flag(is_locked=value)
        self.lock_() if value else self.unlock_()

    def lock_(self) -> Self:
        """Refuse structural writes here and in nested containers; values may still be written in place.

        As a context manager, it unlocks at the end of the block.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=1).lock_()
        >>> data.set("b", 2)
        Traceback (most recent call last):
        tensorclass.errors.LockedError: cannot write (field `b`): this TensorDict is locked. ...
        """
        changed = self._owners() is None
        if changed:
            relock(self)
        self._frames()[0] = Container.unlock_ if changed else _nothing
        return self

    def unlock_(self) -> Self:
        """Allow structural writes again; as a context manager it locks at the end of the block.

        Raises:
            LockedError: if a locked container holds this one.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(2)).lock_()
        >>> with data.unlock_():
        ...     data["b"] = torch.ones(2)
        >>> data.is_locked, list(data.keys())
        (True, ['a', 'b'])
        """
        changed = self._owners() is not None
        relock(self, held=False)
        self._frames()[0] = Container.lock_ if changed else _nothing
        return self

    def _frames(self) -> list[Undo | None]:
        """The undo actions at the end of `with` blocks: first that of the last call, then one for each open block."""
        try:
            return self._undo
        except AttributeError:
            self._undo = [None]
            return self._undo

    def __enter__(self) -> Self:
        frames = self._frames()
        undo = frames[0]
        if undo is None and not any([isinstance(frame, WriteBack) for frame in frames]):  # one block writes back
            origin = getattr(self, "_origin", None)  # see ops/_undo.py
            undo = None if origin is None else WriteBack(self, origin)
        frames.append(undo)
        frames[0] = None
        return self

    def __exit__(self, *exc: object) -> None:
        frames = self._frames()
        undo = frames.pop()
        if undo is not None and not (isinstance(undo, WriteBack) and exc and exc[0] is not None):
            undo(self)
        frames[0] = None

    def clear_refs_for_compile_(self) -> Self:
        """Do nothing; kept for compatibility with `tensordict`.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict()
        >>> data.clear_refs_for_compile_() is data
        True
        """
        return self
