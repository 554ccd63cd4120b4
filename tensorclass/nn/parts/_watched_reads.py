"""Records which fields a callable reads from its batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from ...classes import TensorClass
from ...store import TensorDict

_FOLLOWED = ("to", "cpu", "cuda", "clone", "detach", "contiguous", "replace")
"""Operations whose results have the fields of the batch, each made from the field itself."""
_NUMBERS = {getattr(Tensor, name) for name in ("__bool__", "__int__", "__float__", "__index__", "item", "tolist")}
"""What turns values of tensors into values of Python, on which a branch may depend."""


class ReadFields:
    """The fields that a callable read. `unclear` says that it may have read any."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.unclear = False

    def run(self, target: Callable[[Any], Any], batch: Any) -> Any:
        """Run a callable on a batch that it owns."""
        self._follow(batch)
        with _Values(self):
            return target(batch)

    def _follow(self, batch: Any) -> None:
        store = batch._store
        if type(store) is not TensorDict or type(store._data) is not dict or not hasattr(batch, "__dict__"):
            self.unclear = True
            return
        store._data = RecordedEntries(store._data, self)
        for name in _FOLLOWED:
            if getattr(type(batch), name) is getattr(TensorClass, name):
                vars(batch)[name] = partial(self._operate, batch, name)

    def _operate(self, batch: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """The result of an operation on all fields, which is followed in place of the batch."""
        entries = batch._store._data
        batch._store._data = dict(dict.items(entries)) if isinstance(entries, RecordedEntries) else entries
        try:
            result = getattr(type(batch), name)(batch, *args, **kwargs)
        finally:
            batch._store._data = entries
        if type(result) is not type(batch):
            self.unclear = True
        elif result is not batch:
            self._follow(result)
        return result


class RecordedEntries(dict[str, Any]):
    """The entries of a batch. Reading one names it; anything that reads several makes the record unclear."""

    def __init__(self, entries: dict[str, Any], record: ReadFields) -> None:
        super().__init__(entries)
        self._record = record

    def __getitem__(self, name: str) -> Any:
        self._record.names.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """One entry."""
        self._record.names.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self._record.names.add(str(name))
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        self._record.unclear = True
        return super().__iter__()

    def _all(self, name: str, *args: Any) -> Any:
        self._record.unclear = True
        return getattr(dict, name)(self, *args)


for _name in (
    "keys",
    "values",
    "items",
    "copy",
    "pop",
    "popitem",
    "__len__",
    "__or__",
    "__ror__",
    "__eq__",
    "__reversed__",
):
    setattr(RecordedEntries, _name, lambda self, *args, _name=_name: self._all(_name, *args))


class _Values(TorchFunctionMode):
    """Notices that a callable turns values of tensors into values of Python."""

    def __init__(self, record: ReadFields) -> None:
        super().__init__()
        self._record = record

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _NUMBERS:
            self._record.unclear = True
        return func(*args, **(kwargs or {}))
