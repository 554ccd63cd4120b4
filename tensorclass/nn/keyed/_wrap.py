"""Keyed modules around functions of containers and around other keyed modules; and a decorator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from ..._flags import flags
from ...core import TensorCollection
from ...errors import Problem, SchemaError, UnsupportedOperationError
from ...store import NonTensorData, NonTensorStack
from ..parts._keyed_base import DROPPED, Keys, TensorDictModuleBase, as_keys
from ..parts._results import describe, outputs
from ..parts._slots import Slot
from ..parts._stage import TensorClassModule
from ._module import TensorDictModule


class TensorDictModuleWrapper(TensorDictModuleBase):
    """A keyed module that behaves like the module that it wraps, unless a subclass overrides something.

    Keys, selections and attributes are those of the wrapped module.

    Args:
        td_module: the module to wrap.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> from tensorclass.nn import TensorDictModule, TensorDictModuleWrapper
    >>> class TimesTen(TensorDictModuleWrapper):
    ...     def forward(self, tensordict):
    ...         tensordict = self.td_module(tensordict)
    ...         return tensordict.set("y", tensordict["y"] * 10)
    >>> wrapped = TimesTen(TensorDictModule(lambda x: x + 1, in_keys=["x"], out_keys=["y"]))
    >>> wrapped.out_keys, wrapped(TensorDict(x=torch.zeros(2)))["y"]
    (['y'], tensor([10., 10.]))
    """

    def __init__(self, td_module: TensorDictModuleBase) -> None:
        super().__init__()
        self.td_module = td_module

    if not TYPE_CHECKING:  # checkers see the attributes of the base

        @property
        def in_keys(self) -> Keys:
            """The keys that the wrapped module reads."""
            return self.td_module.in_keys

        @in_keys.setter
        def in_keys(self, keys: Any) -> None:
            self.td_module.in_keys = keys

        @property
        def out_keys(self) -> Keys:
            """The keys that the wrapped module writes; after `select_out_keys` the selected ones."""
            return self.td_module.out_keys if self._all_keys is None else self._out_keys

        @out_keys.setter
        def out_keys(self, keys: Any) -> None:
            self._out_keys = as_keys(keys, "out_keys")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped module with the same arguments."""
        result = self.td_module(*args, **kwargs)
        if self._all_keys is None or isinstance(result, TensorCollection):
            return result
        written = [key for key in self.td_module.out_keys if key != DROPPED]
        values = dict(zip(written, result if len(written) > 1 else (result,), strict=True))
        chosen = tuple(values[key] for key in self.out_keys if key != DROPPED)
        return chosen[0] if len(chosen) == 1 else chosen

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__") or "td_module" not in self.__dict__.get("_modules", {}):
                raise
            return getattr(self.td_module, name)


@flags
class WrapModule(TensorDictModuleBase):
    """Wraps a function from container to container as a keyed module.

    Args:
        func: the function; it is called with the whole container.
        inplace: write the entries of the result to the input and return that; else return the result.
        in_keys: the keys that `func` reads, for sequences; not checked.
        out_keys: the keys that `func` writes, for sequences; not checked.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> from tensorclass.nn import WrapModule
    >>> WrapModule(lambda data: data.reshape(-1))(TensorDict(x=torch.ones(3, 4), batch_size=[3, 4])).batch_size
    torch.Size([12])
    """

    def __init__(
        self, func: Callable[[Any], Any], *, inplace: bool = False, in_keys: Any = None, out_keys: Any = None
    ) -> None:
        super().__init__()
        self.func = func
        self.inplace = inplace
        self.in_keys: Keys = [] if in_keys is None else in_keys
        self.out_keys: Keys = [] if out_keys is None else out_keys

    def forward(self, data: Any) -> Any:
        """Call the function on the container."""
        try:
            result = self.func(data)
        except UnsupportedOperationError as error:
            if not isinstance(self.func, nn.Module) or isinstance(self.func, TensorDictModuleBase):
                raise
            raise UnsupportedOperationError(
                f"{error}. {type(self.func).__name__} was called on the whole container; over tensors it is "
                "`TensorDictModule(module, in_keys=..., out_keys=...)`"
            ) from None
        if self.inplace and result is not data:
            return data.update(result)
        return result


class TypedStep(TensorDictModule):
    """A typed module in a keyed sequence: its fields are keys, and its outputs have the declared dtypes."""

    _passes_tensors = False

    def __init__(self, typed: TensorClassModule) -> None:
        keys = [DROPPED if slot is None else slot.path for slot in typed._writes]
        super().__init__(typed, [slot.path for slot in typed._reads], keys)

    def _read(self, data: Any) -> list[Any]:
        pairs = zip(self.module._reads, super()._read(data), strict=True)
        return [
            NonTensorStack.of(value, data.batch_size)
            if slot.spec.kind.is_per_element and isinstance(value, list)
            else value
            for slot, value in pairs
        ]

    def _call(self, values: Any, kwargs: Any) -> Any:
        return self.module._how.call(self.module.module, values)

    def _label(self) -> str:
        return str(self.module._label())

    def _outputs(self, result: Any, data: Any) -> Any:
        """The results as entries; a tensor of another dtype than the typed module declares is an error."""
        slots = self.module._writes
        pairs = zip(slots, outputs(result, slots, self._label()), strict=True)
        return [value if slot is None else self._as_entry(slot, value) for slot, value in pairs]

    def _as_entry(self, slot: Slot, value: Any) -> Any:
        declared = slot.spec.dtype
        if declared is not None and isinstance(value, Tensor) and not declared.accepts(value.dtype):
            problem = Problem(slot.label, str(slot.spec), describe(value), "convert it in the module")
            raise SchemaError.of(self._label(), [problem])
        return NonTensorData(value) if slot.spec.kind.is_value else value


class as_tensordict_module:  # lower case: used as a decorator
    """Turn a function or method into a keyed module.

    Called with a container, it writes; called with tensors, it returns tensors.

    Args:
        in_keys: the keys of the arguments, in order.
        out_keys: the keys of the results, in order.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> from tensorclass.nn import as_tensordict_module
    >>> @as_tensordict_module(in_keys="c", out_keys="d")
    ... def increment(c):
    ...     return c + 1
    >>> increment(TensorDict(c=0))["d"], increment(c=torch.zeros(2))
    (tensor(1), tensor([1., 1.]))
    """

    def __init__(self, *, in_keys: Any, out_keys: Any) -> None:
        self.in_keys: Keys = as_keys(in_keys, "in_keys", nested=True)
        self.out_keys: Keys = as_keys(out_keys, "out_keys", nested=True)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function or a method."""
        return _KeyedFunction(func, self.in_keys, self.out_keys)


class _KeyedFunction:
    """A decorated function. As a class attribute it is a method, and passes the instance to the function."""

    def __init__(self, func: Callable[..., Any], in_keys: Keys, out_keys: Keys, instance: tuple[Any, ...] = ()) -> None:
        functools.update_wrapper(self, func)
        self.in_keys = in_keys
        self.out_keys = out_keys
        self.func = func
        self.module = TensorDictModule(functools.partial(func, *instance) if instance else func, in_keys, out_keys)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> _KeyedFunction:
        return self if instance is None else _KeyedFunction(self.func, self.in_keys, self.out_keys, (instance,))
