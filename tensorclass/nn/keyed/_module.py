"""`TensorDictModule`: a callable on tensors, with the keys that it reads and writes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor, nn

from ..._flags import flags
from ...core import TensorCollection, join_path, unravel_key_to_tuple
from ...errors import BatchSizeError, MissingKeyError, ModuleError, SchemaError, did_you_mean
from ...store import TensorDict
from ..parts._dispatch import dispatch
from ..parts._keyed_base import DROPPED, Keys, TensorDictModuleBase, as_keys, plain_tensors, read, write
from ..parts._results import describe, note_inputs
from ..parts._skipping import SKIP, skips
from ..parts._stage import default_name

Inplace = bool | Literal["empty"] | None


@flags
class TensorDictModule(TensorDictModuleBase):
    """A callable that reads its arguments from a container and writes its results to it.

    If called with tensors instead of a container, by position or by name, it returns tensors (see `dispatch`).
    Attributes that it lacks are read from the callable.

    Args:
        module: an `nn.Module`, a function, or any other callable. It returns one value, a tuple with one value for each
            out key, or a mapping or container with the out keys.
        in_keys: the keys to read: a key or a list of keys, passed by position; or a dict from argument names to keys,
            passed by name.
        out_keys: the keys that the results are written to, in order; `"_"` drops a result.
        out_to_in_map: the direction of a dict in `in_keys`: True for `{argument: key}`, False for `{key: argument}`.
        inplace: True writes to the given container; False writes to a new `TensorDict` without batch dims; `"empty"`
            writes to `tensordict.empty()`, with the batch size and device of the given container.
        method: the name of the method to call instead of `module` itself.
        method_kwargs: keyword arguments of every call.
        strict: raise for a missing in key; otherwise None is passed for it.
        get_kwargs: keyword arguments for the `get` calls that read the in keys.

    Raises:
        ModuleError: (a `RuntimeError` and `ValueError`) for a module that is not callable, for invalid keys, and if the
            number of results differs from that of the out keys.
        MissingKeyError: for a missing key with `strict=True`, or if the callable fails without it.

    >>> import torch
    >>> from torch import nn
    >>> from tensorclass import TensorDict
    >>> from tensorclass.nn import TensorDictModule
    >>> module = TensorDictModule(nn.Linear(3, 4), in_keys=["x"], out_keys=[("inner", "y")])
    >>> data = module(TensorDict(x=torch.ones(2, 3), batch_size=[2]))
    >>> data["inner", "y"].shape, module(torch.ones(2, 3)).shape
    (torch.Size([2, 4]), torch.Size([2, 4]))
    >>> add = TensorDictModule(lambda x, *, y: x + y, in_keys={"x": "a", "y": "b"}, out_keys=["c"])
    >>> add(a=torch.ones(2), b=torch.ones(2))
    tensor([2., 2.])
    """

    module: Any
    _direct = True
    _passes_tensors = True
    """Whether a call without options only passes tensors to the callable, and writes its result unchanged."""

    def __init__(
        self,
        module: Callable[..., Any],
        in_keys: Any,
        out_keys: Any,
        *,
        out_to_in_map: bool | None = None,
        inplace: Inplace = True,
        method: str | None = None,
        method_kwargs: Mapping[str, Any] | None = None,
        strict: bool = False,
        get_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        _check_callable(module, method)
        keys, self._names = read_keys(in_keys, out_to_in_map)
        self.in_keys: Keys = keys
        self.out_keys: Keys = as_keys(out_keys, "out_keys", nested=True)
        _refuse_double(self.out_keys)
        self.inplace: Any = check_inplace(inplace)
        self.module = module
        self.method = method
        self.method_kwargs: dict[str, Any] = dict(method_kwargs or {})
        self.strict = strict
        self._get_kwargs = dict(get_kwargs or {})

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any, *args: Any, tensordict_out: Any = None, **kwargs: Any) -> Any:
        """Read the in keys, call the module, write the out keys.

        Args:
            tensordict: the container to read; or tensors, which are matched to the in keys.
            *args: none; accepted for compatibility.
            tensordict_out: the container to write to; overrides `inplace`.
            **kwargs: passed to the module.
        """
        if args:
            raise ModuleError(f"{self._label()}: got {len(args)} extra arguments; pass them to the module by name")
        return self._run(tensordict, tensordict_out, kwargs)

    def _run(self, data: Any, out: Any = None, kwargs: Mapping[str, Any] | None = None) -> Any:
        """Read the inputs, call the module, and write its results; a plain call takes a short path."""
        mode = SKIP.get()
        options = self._names or self.method or self.method_kwargs or self._get_kwargs
        plain = out is None and not (kwargs or options)
        if plain and mode is False and self._passes_tensors and self.inplace is True:
            values = plain_tensors(data, self._in_keys)
            if values is not None and data._lock is None and data._device is None:
                return self._quick(data, values)
        if mode is not False and skips(data, self.in_keys, self.out_keys, mode):
            return data
        values = self._read(data)
        try:
            result = self._call(values, kwargs)
        except Exception as error:  # the user's callable may raise anything
            self._explain(error, data, values)
            raise
        target = out if out is not None else self._target(data)
        self._write(target, self.out_keys_source, self._outputs(result, data))
        return target

    def _quick(self, data: TensorDict, values: list[Any]) -> TensorDict:
        """Call the module by position, and write one tensor without the general write path."""
        module = self._modules.get("module")
        try:
            result = self.module(*values) if module is None else module(*values)
        except Exception as error:  # the user's callable may raise anything
            self._explain(error, data, values)
            raise
        keys = self._out_keys if self._all_keys is None else self._all_keys
        if type(result) is Tensor and len(keys) == 1 and type(keys[0]) is str and keys[0] != DROPPED:
            size = data._batch_size
            if not size or result.shape[: len(size)] == size:
                data._data[keys[0]] = result
                return data
        self._write(data, keys, self._outputs(result, data))
        return data

    def _read(self, data: Any) -> list[Any]:
        values = [read(data, key, self._get_kwargs) for key in self.in_keys]
        if self.strict:
            absent = self._absent(data, values)
            if absent:
                self._refuse(data, absent, None)
        return values

    def _call(self, values: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        call = self.module if self.method is None else getattr(self.module, self.method)
        if self._names is not None:
            return call(**dict(zip(self._names, values, strict=True)), **self.method_kwargs, **(kwargs or {}))
        return call(*values, **self.method_kwargs, **(kwargs or {}))

    def _target(self, data: Any) -> Any:
        if self.inplace == "empty":
            return data.empty()
        return TensorDict() if self.inplace is False else data

    # ---- results -------------------------------------------------------------------------------------------------

    def _outputs(self, result: Any, data: Any) -> Sequence[Any]:
        """One value for each out key."""
        keys = self.out_keys_source
        if isinstance(result, (Mapping, TensorCollection)):
            named = self._named(result, keys)
            if named is not None:
                return named
        if isinstance(result, tuple) or (isinstance(result, list) and len(keys) > 1):
            values: Sequence[Any] = result
        else:
            values = () if result is None else (result,)
        if len(values) != len(keys):
            self._raise_wrong_count(values, keys, data)
        return values

    def _named(self, result: Any, keys: Keys) -> list[Any] | None:
        """The values of a mapping with the out keys; None for a container that is itself the value."""
        found = [_lookup(result, key) if key != DROPPED else None for key in keys]
        absent = [key for key, value in zip(keys, found, strict=True) if value is _ABSENT]
        if not absent:
            return found
        if isinstance(result, TensorCollection) and len(keys) == 1:
            return None
        found_keys: Any = result.keys()  # pyright: ignore[reportAttributeAccessIssue]  # containers have this method
        names = [str(key) for key in found_keys]
        raise MissingKeyError(
            f"{self._label()} writes {absent[0]!r} and returned a mapping without it; it has "
            f"{names}{did_you_mean(str(absent[0]), names)}"
        )

    def _raise_wrong_count(self, values: Sequence[Any], keys: Keys, data: Any) -> NoReturn:
        what = ", ".join(map(describe, values)) or "nothing"
        more = "more tensors than out_keys" if len(values) > len(keys) else "more out_keys than tensors"
        absent = self._absent(data, [data.get(key) for key in self.in_keys])
        hint = f"; the input has no {', '.join(map(repr, absent))}" if absent else ""
        raise ModuleError(
            f"{self._label()}: there are {more}: out_keys are {keys}, and it returned {what}{hint}; name a key for "
            "each output, or '_' to drop one"
        )

    def _write(self, target: Any, keys: Keys, values: Sequence[Any]) -> None:
        try:
            write(target, dict(zip(keys, values, strict=True)))
        except SchemaError as error:
            raise SchemaError(f"{self._label()}: {error}", error.problems, error.cls_name) from error
        except (BatchSizeError, MissingKeyError) as error:
            raise type(error)(f"{self._label()}: {error}") from error

    # ---- errors --------------------------------------------------------------------------------------------------

    def _label(self) -> str:
        return f"{type(self).__name__} `{default_name(self.module)}`"

    def _absent(self, data: Any, values: Sequence[Any]) -> Keys:
        if not any(value is None for value in values):
            return []
        there = data.keys(True)
        return [key for key, value in zip(self.in_keys, values, strict=True) if value is None and key not in there]

    def _explain(self, error: Exception, data: Any, values: Sequence[Any]) -> None:
        """Add the module, its keys and their values to an error of the module; refuse absent keys."""
        absent = self._absent(data, values)
        if absent:
            self._refuse(data, absent, error)
        names = [join_path(unravel_key_to_tuple(key)) for key in self.in_keys]
        given = [f"{name}: {describe(value)}" for name, value in zip(names, values, strict=True)]
        note_inputs(error, self._label(), given)

    def _refuse(self, data: Any, absent: Keys, error: Exception | None) -> NoReturn:
        there = list(data.keys(True, True))
        near = did_you_mean(_text(absent[0]), map(_text, there))
        named = ", ".join(f"`{_text(key)}`" for key in absent)
        raise MissingKeyError(
            f"{self._label()} reads {named}, not found in the input{near}; it has {sorted(map(_text, there))}"
        ) from error

    # ---- the wrapped callable ------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        """The device of the first parameter; the CPU if there are no parameters.

        >>> TensorDictModule(nn.Linear(1, 1), "x", "y").device
        device(type='cpu')
        """
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    @property
    def is_functional(self) -> bool:
        """Whether the callable is an old functional module of functorch. These are not supported, so always False."""
        return False

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            module = self.__dict__.get("module") or self.__dict__.get("_modules", {}).get("module")
            if not isinstance(module, nn.Module) or name.startswith("__"):
                raise
            return getattr(module, name)

    def _shown(self) -> dict[str, Any]:
        return {"module": self.module, **super()._shown()}


_ABSENT = object()


def read_keys(in_keys: Any, out_to_in_map: bool | None) -> tuple[Keys, list[str] | None]:
    """The in keys in order, and the argument names if they are passed by name."""
    if not isinstance(in_keys, Mapping):
        if out_to_in_map is not None:
            warnings.warn("out_to_in_map says the direction of a dict of in_keys, and has no effect here", stacklevel=4)
        return as_keys(in_keys, "in_keys", nested=True), None
    keys, names = list(in_keys), list(in_keys.values())
    if out_to_in_map is None or out_to_in_map:
        keys, names = names, keys
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise ModuleError(
            f"in_keys maps the name of an argument to a key, and {wrong[0]!r} is not a name; give {{'argument': key}}, "
            "or {key: 'argument'} with out_to_in_map=False"
        )
    return as_keys(keys, "in_keys"), names


def check_inplace(inplace: Any) -> Any:
    """Refuse an invalid `inplace`."""
    if not (inplace is None or isinstance(inplace, bool) or inplace == "empty"):
        raise ModuleError(f"inplace is True, False or 'empty', got {inplace!r}")
    return inplace


def _refuse_double(keys: Keys) -> None:
    for key in keys:
        if key != DROPPED and keys.count(key) > 1:
            raise ModuleError(f"out_keys names {key!r} twice: the first output would be lost; drop it with '_'")


def _check_callable(module: Any, method: str | None) -> None:
    if isinstance(module, type) and issubclass(module, nn.Module):
        raise ModuleError(f"got the class {module.__name__}: make an instance of it, `{module.__name__}(...)`")
    if method is None and (isinstance(module, Tensor) or not callable(module)):
        raise ModuleError(
            f"{type(module).__name__} {module!r} is not callable; give an nn.Module, a function, or `method=` with "
            "the name of a method"
        )
    if method is not None and not callable(getattr(module, method, None)):
        raise ModuleError(f"{type(module).__name__} has no method `{method}`{did_you_mean(method, dir(module))}")


def _lookup(result: Any, key: Any) -> Any:
    """The value of a key in a mapping or container. A nested key is read by its parts, or as a tuple key."""
    if isinstance(result, TensorCollection):
        value: Any = result.get(key, _ABSENT)  # type: ignore[attr-defined]  # all containers have it
        return value
    if key in result:
        return result[key]
    for part in unravel_key_to_tuple(key):
        if not isinstance(result, (Mapping, TensorCollection)):
            return _ABSENT
        result = _lookup(result, part) if isinstance(result, TensorCollection) else result.get(part, _ABSENT)
    return result


def _text(key: Any) -> str:
    return join_path(unravel_key_to_tuple(key))
