"""`dispatch`: call a function from container to container with plain tensors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, overload

from ..._flags import flags
from ...core import Path, TensorCollection, unravel_key_to_tuple
from ...errors import MissingKeyError, ModuleError
from ...ops._apply import ApplyOps
from ...store import TensorDict
from ._keyed_base import DROPPED, Keys, as_keys


@flags
class Dispatch:
    """Let a function whose first argument is a container named `tensordict` also accept tensors.

    The tensors, by position or by name, are written to a new container at the in keys. The values at the out keys are
    returned: a single value as it is, several as a tuple; an out key `"_"` is skipped. A call with a container, typed
    or not, is passed through. Other keyword arguments are passed to the function.

    Args:
        separator: the string that joins the parts of a nested key to the name of a keyword argument.
        source: the in keys, or the name of the module attribute that holds them.
        dest: the out keys, or the name of the module attribute that holds them.
        auto_batch_size: the batch size of the container is the longest leading shape that all inputs share; otherwise
            it has no batch dims.

    Raises:
        ModuleError: (a `RuntimeError`) if the function has no such argument, an input is given twice, or a result is
            not a container.

    >>> import torch
    >>> from tensorclass.nn import dispatch
    >>> @dispatch(source=["speed", ("clock", "seconds")], dest=["metres"])
    ... def travelled(tensordict):
    ...     return tensordict.set("metres", tensordict["speed"] * tensordict["clock", "seconds"])
    >>> travelled(torch.tensor([2.0, 3.0]), torch.tensor([10.0, 10.0]))
    tensor([20., 30.])
    >>> travelled(clock_seconds=torch.tensor([60.0]), speed=torch.tensor([1.5]))
    tensor([90.])
    """

    DEFAULT_SEPARATOR: ClassVar[str] = "_"
    DEFAULT_SOURCE: ClassVar[str] = "in_keys"
    DEFAULT_DEST: ClassVar[str] = "out_keys"

    def __new__(cls, separator: Any = DEFAULT_SEPARATOR, *args: Any, **kwargs: Any) -> Any:
        """The decorator; or, without arguments, the decorated function."""
        if callable(separator):
            return cls(cls.DEFAULT_SEPARATOR, *args, **kwargs)(separator)
        return super().__new__(cls)

    def __init__(
        self,
        separator: Any = DEFAULT_SEPARATOR,
        source: str | Sequence[Any] = DEFAULT_SOURCE,
        dest: str | Sequence[Any] = DEFAULT_DEST,
        auto_batch_size: bool = True,
    ) -> None:
        self.separator = separator
        self.source: str | Keys = source if isinstance(source, str) else as_keys(source, "source")
        self.dest: str | Keys = dest if isinstance(dest, str) else as_keys(dest, "dest")
        self.auto_batch_size = auto_batch_size

    def get_source(self, func: Any, self_func: Any) -> Any:
        """The in keys of a module.

        >>> Dispatch(source=["a"]).get_source(None, None)
        ['a']
        """
        return getattr(self_func, self.source) if isinstance(self.source, str) else self.source

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function, or a method of a module."""
        method = _is_method(func)
        if not method and (isinstance(self.source, str) or isinstance(self.dest, str)):
            raise ModuleError(
                f"@dispatch of {func.__name__}: a function has no attributes that hold keys; give them as lists, "
                "@dispatch(source=['a'], dest=['b'])"
            )

        @functools.wraps(func)
        def call(*args: Any, **kwargs: Any) -> Any:
            first = args[method] if len(args) > method else kwargs.get("tensordict")
            if isinstance(first, TensorCollection):
                return func(*args, **kwargs)
            return self._dispatched(func, args[:method], args[method:], kwargs)

        call.__signature__ = _open(inspect.signature(func), method)  # type: ignore[attr-defined]  # functions take attributes
        return call

    def _dispatched(
        self, func: Callable[..., Any], owner: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a function of a container with its entries as arguments; returns its out keys."""
        module = owner[0] if owner else None
        title = f"{type(module).__name__}.{func.__name__}" if owner else func.__name__
        paths = list(dict.fromkeys(map(unravel_key_to_tuple, self.get_source(func, module))))
        data, others = self._packed(paths, args, dict(kwargs), title)
        try:
            result = func(*owner, data, *args[len(paths) :], **others)
        except MissingKeyError as error:
            if not others:
                raise
            known = ", ".join(f"`{self.separator.join(path)}`" for path in paths)
            raise MissingKeyError(
                f"{error}. No in keys: {', '.join(map(repr, others))}; as keywords they are {known}"
            ) from None
        if not isinstance(result, TensorCollection):
            raise ModuleError(
                f"{title} returned {type(result).__name__}; under @dispatch it returns the container that holds "
                "the out keys"
            )
        found: Any = result
        keys = getattr(module, self.dest) if isinstance(self.dest, str) else self.dest
        values = tuple(found[key] for key in keys if key != DROPPED)
        return values[0] if len(values) == 1 else values

    def _packed(
        self, paths: list[Path], args: tuple[Any, ...], kwargs: dict[str, Any], title: str
    ) -> tuple[TensorDict, dict[str, Any]]:
        """A container with the inputs, and the other keyword arguments."""
        data = TensorDict()
        names = [self.separator.join(path) for path in paths]
        for position, (path, name) in enumerate(zip(paths, names, strict=True)):
            given = position < len(args)
            if given and name in kwargs:
                raise ModuleError(
                    f"{title}: duplicated argument in args and kwargs: `{name}` is given by position and by name"
                )
            if name in kwargs and names.count(name) > 1:
                raise ModuleError(f"{title}: several in keys are called `{name}`; use @dispatch(separator='__')")
            if given or name in kwargs:
                data.set(path, args[position] if given else kwargs.pop(name))
        if self.auto_batch_size:
            ApplyOps.auto_batch_size_(data)
        return data, kwargs


class Decorator(Protocol):
    """The type of `dispatch` for checkers, since mypy can't express that calling a class may return a function."""

    DEFAULT_SEPARATOR: str
    DEFAULT_SOURCE: str
    DEFAULT_DEST: str

    @overload
    def __call__(self, separator: Callable[..., Any]) -> Callable[..., Any]: ...
    @overload
    def __call__(
        self,
        separator: str = ...,
        source: str | Sequence[Any] = ...,
        dest: str | Sequence[Any] = ...,
        auto_batch_size: bool = ...,
    ) -> Dispatch: ...


dispatch: Decorator = Dispatch


def _is_method(func: Callable[..., Any]) -> bool:
    """Whether the container is the second argument, after the module.

    Raises:
        ModuleError: if it is neither the first nor the second.
    """
    names = [*inspect.signature(func).parameters][:2]
    if "tensordict" not in names:
        raise ModuleError(
            "the first argument of the wrapped function must be named 'tensordict' (after `self`); "
            f"{getattr(func, '__name__', func)} has {', '.join(names) or 'none'}"
        )
    return names.index("tensordict") == 1


def _open(signature: inspect.Signature, method: bool) -> inspect.Signature:
    """The signature of the decorated function: any arguments, by position or by name."""
    first = [*signature.parameters.values()][:method]
    some = [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)]
    named = [inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]
    return inspect.Signature(first + some + named)
