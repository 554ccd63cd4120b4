"""The base of keyed modules: the keys that they read and write, and the outputs that a call keeps."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from typing_extensions import Self

from ...core import Key, TensorCollection, unravel_key
from ...errors import ModuleError, did_you_mean
from ...ops._reading import ReadingOps
from ...ops._steps import all_begin_with
from ...store import Node, NonTensorData, NonTensorStack, TensorDict
from ._hooks import Hooked

Keys = list[Any]
"""Keys in normal form: a string, or a tuple of strings for a nested one."""

NO_OPTIONS: Mapping[str, Any] = {}

DROPPED = "_"
"""The out key of an output that is not written."""


class Following:
    """An attribute that is another one of the same instance, until it is set."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The other attribute."""
        return self if instance is None else getattr(instance, self.name)


class TensorDictModuleBase(Hooked):
    """The base class of keyed modules, which read `in_keys` from a container and write `out_keys`.

    A subclass defines a `forward` from container to container, and sets both lists as class attributes or in
    `__init__`. To wrap a callable on tensors, use `TensorDictModule`.

    >>> from tensorclass import TensorDict
    >>> from tensorclass.nn import TensorDictModuleBase
    >>> class Double(TensorDictModuleBase):
    ...     in_keys = ["a"]
    ...     out_keys = ["b", "c"]
    ...
    ...     def forward(self, tensordict):
    ...         return tensordict.update({"b": tensordict["a"] * 2, "c": tensordict["a"]})
    >>> module = Double().select_out_keys("b")
    >>> module(TensorDict(a=1))
    TensorDict(batch_size=[], fields={a: i64[] = 1, b: i64[] = 2})
    """

    _all_keys: Keys | None = None
    """The out keys before a selection; None without a selection."""

    _direct = False
    """Whether `forward` only calls `_run`, so that a sequence may call `_run` directly."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not {"forward", "__call__"}.isdisjoint(cls.__dict__):
            cls._direct = cls.__dict__.get("_direct", False)
        for role in ("in_keys", "out_keys"):
            if isinstance(cls.__dict__.get(role), str | list | tuple):
                setattr(cls, role, as_keys(cls.__dict__[role], role))
                setattr(cls, f"_{role}", Following(role))  # in place of what the property above reads

    if TYPE_CHECKING:  # so that a subclass may set them as class attributes
        in_keys: Keys
        out_keys: Keys
    else:

        @property
        def in_keys(self) -> Keys:
            """The keys that the module reads.

            >>> from tensorclass.nn import TensorDictModule
            >>> TensorDictModule(nn.Linear(2, 3), in_keys="x", out_keys=("inner", "y")).in_keys
            ['x']
            """
            return self._in_keys

        @in_keys.setter
        def in_keys(self, keys: Any) -> None:
            self._in_keys = as_keys(keys, "in_keys")

        @property
        def out_keys(self) -> Keys:
            """The keys that the module writes; after `select_out_keys` the selected ones.

            >>> from tensorclass.nn import TensorDictModule
            >>> TensorDictModule(nn.Linear(2, 3), in_keys="x", out_keys=("inner", "y")).out_keys
            [('inner', 'y')]
            """
            return self._out_keys

        @out_keys.setter
        def out_keys(self, keys: Any) -> None:
            self._out_keys = as_keys(keys, "out_keys")

    @property
    def out_keys_source(self) -> Keys:
        """All keys that the module writes, including those that `select_out_keys` left out."""
        return self.out_keys if self._all_keys is None else self._all_keys

    def select_out_keys(self, *out_keys: Key) -> Self:
        """Keep only some of the out keys in results; changes the module and returns it.

        All outputs are still computed. Outputs that are neither selected nor in keys are removed afterwards.

        Args:
            *out_keys: the keys to keep, all of them in `out_keys`.

        Raises:
            ModuleError: (a `ValueError` and `RuntimeError`) for a key that the module does not write.

        >>> import torch
        >>> from tensorclass.nn import TensorDictModule
        >>> module = TensorDictModule(lambda x: (x + 1, x + 2), in_keys=["x"], out_keys=["y", "z"])
        >>> module.select_out_keys("z").out_keys, module.out_keys_source
        (['z'], ['y', 'z'])
        >>> module(torch.zeros(()))
        tensor(2.)
        """
        source = self.out_keys_source
        self.out_keys = self._selection(out_keys)
        if self._all_keys is None:
            self._all_keys = source
            self._watch_outputs()
        return self

    def _selection(self, keys: tuple[Key, ...]) -> Keys:
        chosen = [unravel_key(key) for key in keys]
        absent = [key for key in chosen if key not in self.out_keys]
        if absent:
            near = did_you_mean(str(absent[0]), map(str, self.out_keys))
            raise ModuleError(
                f"{type(self).__name__}.select_out_keys: {absent[0]!r} is not an out key{near}; out_keys are "
                f"{self.out_keys}; `reset_out_keys()` undoes an earlier selection"
            )
        return chosen

    def _watch_outputs(self) -> None:
        """Remove the keys that are not selected from every result."""
        if remove_unselected not in self._forward_hooks.values():
            self.register_forward_hook(remove_unselected)

    def reset_out_keys(self) -> Self:
        """Undo `select_out_keys`; changes the module and returns it.

        >>> from tensorclass.nn import TensorDictModule
        >>> module = TensorDictModule(lambda x: (x, x), in_keys=["x"], out_keys=["y", "z"]).select_out_keys("y")
        >>> module.reset_out_keys().out_keys
        ['y', 'z']
        """
        if self._all_keys is not None:
            self.out_keys = self._all_keys
            self._all_keys = None
        for number, hook in list(self._forward_hooks.items()):
            if hook is remove_unselected:
                del self._forward_hooks[number]
        return self

    @staticmethod
    def is_tdmodule_compatible(module: object) -> bool:
        """Whether an object has both `in_keys` and `out_keys`. A sequence wraps objects without them.

        >>> from tensorclass.nn import TensorDictModule
        >>> TensorDictModule.is_tdmodule_compatible(nn.Linear(1, 1))
        False
        """
        return hasattr(module, "in_keys") and hasattr(module, "out_keys")

    def reset_parameters_recursive(self, parameters: Any = None) -> Any:
        """Reset the parameters of every submodule that has a `reset_parameters` method.

        Args:
            parameters: a container like `TensorDict.from_module(self)`, which is reset instead of the parameters of the
                module.

        Returns:
            None without `parameters`, else a container over the same storages whose tensors require grad.

        Raises:
            ModuleError: if `parameters` has batch dims.

        Warns if no submodule has a `reset_parameters` method.

        >>> from tensorclass.nn import TensorDictModule
        >>> module = TensorDictModule(nn.Linear(2, 3), in_keys=["x"], out_keys=["y"])
        >>> before = module.weight.clone()
        >>> module.reset_parameters_recursive()
        >>> bool((module.weight == before).any())
        False
        """
        if parameters is None:
            if not reset_all(self):
                warnings.warn(f"{type(self).__name__}: no submodule has a `reset_parameters` method", stacklevel=2)
            return None
        if parameters.batch_dims:
            raise ModuleError(
                f"parameters with batch dims {list(parameters.batch_size)} can't be reset at once; reset the members "
                "one by one, `for member in parameters.unbind(0): ...`"
            )
        fresh = parameters.detach().requires_grad_()
        with fresh.to_module(self):
            reset_all(self)
        return fresh

    def _on_values(self, *values: Any) -> Any:
        """Compute the values of the out keys from those of the in keys, in order; a typed pipeline calls this."""
        data = TensorDict()
        for key, value in zip(self.in_keys, values, strict=True):
            kept = isinstance(value, (Tensor, TensorCollection, Node))
            data.set(key, value if kept else NonTensorData(value))
        result = self(data)
        found = [None if key == DROPPED else result[key] for key in self.out_keys]
        return found[0] if len(found) == 1 else tuple(found)

    def __repr__(self) -> str:
        rows = [f"{name}={_indent(repr(value))}" for name, value in self._shown().items()]
        return f"{type(self).__name__}(\n    " + ",\n    ".join(rows) + ")"

    def _shown(self) -> dict[str, Any]:
        return {**self._modules, "in_keys": self.in_keys, "out_keys": self.out_keys}


def as_keys(keys: Any, role: str, *, nested: bool = False) -> Keys:
    """Keys in normal form: one key, or a sequence of them.

    Args:
        keys: the argument of the user; field references are replaced by their paths.
        role: the name of the argument, for messages.
        nested: whether a tuple is one nested key rather than a sequence of keys.

    Raises:
        ModuleError: for anything else.

    >>> as_keys(["a", ("b", ("c",))], "in_keys"), as_keys(("b", "c"), "in_keys")
    (['a', ('b', 'c')], ['b', 'c'])
    >>> as_keys(("b", "c"), "in_keys", nested=True)
    [('b', 'c')]
    """
    single = isinstance(keys, str) or hasattr(type(keys), "__field_path__") or (nested and isinstance(keys, tuple))
    items: Iterable[Any] = (keys,) if single else keys
    if isinstance(items, dict) or not isinstance(items, Iterable):
        raise ModuleError(f"{role} is a key or a list of keys, such as ['x', ('inner', 'y')]; got {keys!r}")
    try:
        return [unravel_key(key) for key in items]
    except TypeError as error:
        raise ModuleError(f"{role}: {error}") from None


def read(data: Any, key: Any, options: Mapping[str, Any] = NO_OPTIONS) -> Any:
    """The value that a module gets for a key: `data[key]`, or None if it is absent.

    Objects are unwrapped; objects of single elements come as a list, also from a typed batch.
    """
    value = ReadingOps.get(data, key, **options)
    return value.tolist() if isinstance(value, NonTensorStack) else value


def plain_tensors(data: Any, keys: Keys) -> list[Tensor] | None:
    """The values of a dense container, if all of them are plain tensors; else None, and `read` reads them."""
    if type(data) is not TensorDict:
        return None
    store, values = data._data, []
    for key in keys:
        value = store.get(key)
        if type(value) is not Tensor:
            return None
        values.append(value)
    return values


def remove_unselected(module: Any, _: Any, result: Any) -> Any:
    """Forward hook that removes outputs that `select_out_keys` left out from a returned container."""
    if isinstance(result, TensorCollection):
        kept = {*module.out_keys, *module.in_keys, DROPPED}
        discard(result, [key for key in module.out_keys_source if key not in kept])
    return result


def write(target: Any, values: dict[Any, Any]) -> None:
    """Write outputs by key, in one step. A container replaces the value of its key."""
    kept = {key: value for key, value in values.items() if key != DROPPED} if DROPPED in values else values
    open_to_all = type(target) is TensorDict and target._lock is None and target._device is None
    if open_to_all and all_begin_with(target._batch_size, kept):
        target._put_all(kept)
        return
    if len(kept) > 1 and not any([isinstance(value, Mapping) for value in kept.values()]):
        target.update(kept, is_leaf=_is_container)
        return
    for key, value in kept.items():
        target.set(key, value)


def _is_container(kind: type) -> bool:
    return issubclass(kind, TensorCollection)


def discard(data: Any, keys: Iterable[Any]) -> None:
    """Remove entries if they exist, and containers that become empty."""
    for key in keys:
        if key in data.keys(True):
            data.del_(key)
        while isinstance(key, tuple) and len(key) > 1:
            key = key[:-1]
            if isinstance(data.get(key), TensorCollection) and data.get(key).is_empty():
                data.del_(key)


def reset_all(module: nn.Module) -> bool:
    """Reset the parameters of all submodules that have `reset_parameters`; returns whether there were any."""
    resets: list[Any] = [getattr(part, "reset_parameters", None) for part in module.modules()]
    found = [reset for reset in resets if callable(reset)]
    for reset in found:
        reset()
    return bool(found)


def _indent(text: str) -> str:
    return text.replace("\n", "\n    ")
