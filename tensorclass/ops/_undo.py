"""Shape operations as context managers: at the end of the block, writes to the result are written back."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from weakref import ref

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from ..core import Path, TensorCollection, entries_by_path, unravel_key_to_tuple
from ..errors import StructureError, UnsupportedOperationError
from ._mapping import MappingOps

F = TypeVar("F", bound="Callable[..., Any]")
Entries: TypeAlias = "dict[Path, Any]"


COMPILED: Final = "torch.compile"
"""The origin of containers made in compiled code, which can't track containers that it doesn't return."""


class Origin(NamedTuple):
    """The origin of a result: a weak reference to the source container, its class, and the call."""

    source: Callable[[], Any]
    cls: type[Any]
    inverse: Callable[[Origin, Any, Any], Any]
    method: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def undone_by(inverse: Callable[[Origin, Any, Any], Any], typed: bool = True) -> Callable[[F], F]:
    """Decorate a method so that its result works in a `with` block that ends with the inverse operation.

    If declarations don't matter (`typed=False`), it runs on the store of a typed class, which is faster. Options such
    as `inplace=True` may write: then it runs on the instance. A lazy stack runs its own method of the name, if it has
    one.
    """

    def decorate(method: F) -> F:
        """The operation; its result remembers how to undo it."""
        name = method.__name__

        @wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            source = self._store if self._layered else self
            if typed or source is self or kwargs or source._stacked:
                if source._stacked and getattr(type(source), name).declared is not method:
                    result = self._run_on_stack(name, *args, **kwargs)
                else:
                    result = method(self, *args, **kwargs)
                if result is self:
                    return result
                target = result._store if result._layered else result  # bypasses the slower property
            else:
                target = method(source, *args)
                result = self._wrap(target)
            traced = is_dynamo_compiling()  # three times as fast as `is_compiling`
            target._origin = COMPILED if traced else (ref(source), type(self), inverse, method, args, kwargs)
            return result

        call.declared = method  # type: ignore[attr-defined]  # which decorators around this one copy
        return call  # type: ignore[return-value]  # same signature

    return decorate


class WriteBack:
    """The action at the end of a `with` block over a result."""

    def __init__(self, result: Any, origin: Any) -> None:
        if origin == COMPILED:
            raise UnsupportedOperationError(
                "with: a shape operation under torch.compile does not write back; make the result before the compiled "
                "function is called, or update the container yourself"
            )
        self.origin = Origin(*origin)
        self.source = self.origin.source()
        if self.source is None:
            raise StructureError(
                f"with {self.origin.method.__name__}(): the container that it was called on is gone, so that nothing "
                "can be written back to it; keep it in a variable, and use one `with` for each operation"
            )
        self.before = {path: (value, _version(value)) for path, value in entries_by_path(result).items()}

    def __call__(self, result: Any) -> None:
        """Write the changes to the source: replaced tensors, new entries, and removed entries."""
        after = entries_by_path(result)
        changed = [path for path, value in after.items() if not _same(self.before.get(path), value)]
        removed = [path for path in self.before if path not in after]
        target = self.origin.cls._wrap(self.source) if self.origin.cls._layered else self.source
        if changed:
            present = entries_by_path(self.source)
            back = entries_by_path(self._undo_result(result, [(path, after[path]) for path in changed]))
            values = {path: value for path, value in back.items() if not _is_written(present.get(path), value)}
            MappingOps.update(target, values) if values else None
        if removed:
            for path in entries_by_path(self._undo_result(result, [(path, self.before[path][0]) for path in removed])):
                MappingOps.del_(target, path)

    def _undo_result(self, result: Any, entries: list[tuple[Path, Any]]) -> Any:
        return self.origin.inverse(self.origin, self.source, result._relaid(entries))


def _version(value: Any) -> int | None:
    """The version counter of a tensor; None for values without one."""
    return value._version if isinstance(value, Tensor) and not value.is_inference() else None


def _same(before: tuple[Any, int | None] | None, value: Any) -> bool:
    if before is None or before[0] is not value:
        return False
    return not isinstance(value, Tensor) or (before[1] is not None and before[1] == value._version)


def _is_written(mine: Any, value: Any) -> bool:
    """Whether a tensor shares the memory of the source's tensor, so that writes have reached it."""
    if not (isinstance(mine, Tensor) and isinstance(value, Tensor)):
        return False
    alike = mine.shape == value.shape and mine.dtype is value.dtype and mine.device == value.device
    if not alike or mine.layout is not torch.strided:
        return False
    return mine.data_ptr() == value.data_ptr() and mine.stride() == value.stride()


# ---- inverses: of the source and of a container of changed entries -------------------------------------------------


def _convert_leaves(part: Any, source: Any, fn: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """Convert changed tensors to fit the source's tensors under the same paths; new tensors are unchanged."""
    mine = entries_by_path(source)
    changed = [
        (path, fn(value, mine[path]) if isinstance(value, Tensor) and isinstance(mine.get(path), Tensor) else value)
        for path, value in entries_by_path(part).items()
    ]
    return part._relaid(changed)


def _undo_reshape(origin: Origin, source: Any, part: Any) -> Any:
    if origin.args and isinstance(origin.args[0], torch.dtype):
        return _convert_leaves(part, source, lambda value, mine: value.view(mine.dtype))
    return part.reshape(source._batch_size)


def _undo_permute(origin: Origin, source: Any, part: Any) -> Any:
    numbered = source._bare(torch.Size(range(2, len(source._batch_size) + 2)), source._names)
    order = [size - 2 for size in getattr(numbered, origin.method.__name__)(*origin.args, **origin.kwargs)._batch_size]
    return part.permute([order.index(dim) for dim in range(len(order))])


def _undo_by_repeating(origin: Origin, source: Any, part: Any) -> Any:
    return getattr(part, origin.method.__name__)(*origin.args, **origin.kwargs)


def _undo_roll(origin: Origin, source: Any, part: Any) -> Any:
    shifts, *dims = (*origin.args, *origin.kwargs.values())
    return part.roll(-shifts if isinstance(shifts, int) else tuple([-shift for shift in shifts]), *dims)


def _cast(origin: Origin, source: Any, part: Any) -> Any:
    part = _convert_leaves(part, source, lambda value, mine: value.to(mine.device, mine.dtype))
    return part if part._batch_size == source._batch_size else part.to(batch_size=source._batch_size)


def _undo_key_style(origin: Origin, source: Any, part: Any) -> Any:
    """Entries under the keys of the source, which may be single keys or paths.

    A new path becomes one key if the source has such keys, or no containers; below a container of the source, or in a
    nested source, it stays a path.
    """
    separator: str = origin.kwargs.get("separator", next(iter(origin.args), "."))
    own = {_parts(path, separator): path for path in entries_by_path(source)}
    entries = source._outline()
    nests = {key for key, value in entries.items() if isinstance(value, TensorCollection)}
    joins = not nests or any([separator in key for key in entries])

    def back(path: Path) -> Path:
        parts = _parts(path, separator)
        new = unravel_key_to_tuple(separator.join(parts)) if joins and parts[0] not in nests else parts
        return own.get(parts, new)

    return part._relaid([(back(path), value) for path, value in entries_by_path(part).items()])


def _parts(path: Path, separator: str) -> Path:
    """A path as `unflatten_keys` would split it."""
    return tuple(separator.join(path).split(separator))


VIEWED: Final = undone_by(_undo_reshape)
RESHAPED: Final = undone_by(_undo_reshape, typed=False)
PERMUTED: Final = undone_by(_undo_permute, typed=False)
FLIPPED: Final = undone_by(_undo_by_repeating, typed=False)
ROLLED: Final = undone_by(_undo_roll, typed=False)
CAST: Final = undone_by(_cast)
FLATTENED_KEYS: Final = undone_by(_undo_key_style)
UNFLATTENED_KEYS: Final = undone_by(_undo_key_style)
