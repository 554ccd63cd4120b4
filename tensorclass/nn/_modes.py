"""Settings for a block of code: one value per thread or task, readable in compiled code; `set_skip_existing`."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, Generic, TypeVar

import torch
from typing_extensions import Self

from ..errors import ModuleError
from ._keyed_base import Keys, as_keys

T = TypeVar("T")
_LOCK = threading.Lock()


class Setting(Generic[T]):
    """A value that holds for a block, in one thread or task, and that `torch.compile` can follow.

    Dynamo can't read a ContextVar. A block inside a compiled function is followed in `traced`; where a block is open
    outside of it, dynamo sees `open` and falls back to eager code (with `fullgraph=True` it says so), since compiled
    code is shared by threads.
    """

    def __init__(self, name: str, default: T) -> None:
        self.default = default
        self.variable: ContextVar[T] = ContextVar(f"tensorclass.{name}", default=default)
        self.open = 0
        """How many blocks are open in all threads."""
        self.traced: list[T] = []

    def get(self) -> T:
        """The value in force here."""
        if self.traced:
            return self.traced[-1]
        return self.variable.get() if self.open else self.default

    def enter(self, value: T) -> Token[T] | None:
        """Start a block."""
        if torch.compiler.is_compiling():
            self.traced.append(value)
            return None
        with _LOCK:
            self.open += 1
        return self.variable.set(value)

    def leave(self, token: Token[T] | None) -> None:
        """End the block that `enter` started."""
        if token is None:
            self.traced.pop()
            return
        self.variable.reset(token)
        with _LOCK:
            self.open -= 1


SKIP: Setting[bool | Keys] = Setting("skip_existing", False)


def skip_existing() -> bool | Keys:
    """Whether modules are skipped whose outputs exist: False (the default), True, or the list of keys that may be.

    >>> from tensorclass.nn import set_skip_existing, skip_existing
    >>> with set_skip_existing(["a"]):
    ...     skip_existing()
    ['a']
    """
    return SKIP.get()


def skips(data: Any, in_keys: Keys, out_keys: Keys, mode: bool | Keys) -> bool:
    """Whether a module has nothing to do: its out keys are there, and it reads none of them."""
    if mode is False or any(key in out_keys for key in in_keys):
        return False
    there = data.keys(True)
    return all(key in there and (mode is True or key in mode) for key in out_keys)


class set_skip_existing:  # called like a function, and known under this name
    """Skip modules whose out keys are all in the input: for a block, or for a decorated `forward`.

    A module that reads one of its out keys always runs. The setting belongs to the thread or task that enters the
    block. Inside `torch.compile`, enter the block inside the compiled function.

    Args:
        mode: True skips whatever exists, False nothing, a list of keys only modules that write no other key. None, for
            the decorator alone, follows the block in which the method is called.
        in_key_attr: for the decorator, the attribute of the module with its in keys.
        out_key_attr: for the decorator, the attribute of the module with its out keys.
        thread_local: accepted for compatibility; a block never reaches other threads.

    Raises:
        ModuleError: for a block with None, or a mode that is none of these.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> from tensorclass.nn import TensorDictModule, set_skip_existing
    >>> module = TensorDictModule(lambda x: x + 1, in_keys=["x"], out_keys=["y"])
    >>> data = TensorDict(x=torch.zeros(()), y=torch.zeros(()))
    >>> with set_skip_existing():
    ...     module(data)["y"]
    tensor(0.)
    >>> module(data)["y"]
    tensor(1.)
    """

    def __init__(
        self, mode: Any = True, in_key_attr: str = "in_keys", out_key_attr: str = "out_keys", *,
        thread_local: bool = False,
    ) -> None:  # fmt: skip
        self.mode: bool | Keys | None = mode if mode is None or isinstance(mode, bool) else as_keys(mode, "mode")
        self.in_key_attr = in_key_attr
        self.out_key_attr = out_key_attr
        self.thread_local = thread_local
        self._tokens: list[Token[bool | Keys] | None] = []

    def clone(self) -> Self:
        """A new block with the same mode.

        >>> set_skip_existing(["a"]).clone().mode
        ['a']
        """
        return type(self)(self.mode, self.in_key_attr, self.out_key_attr, thread_local=self.thread_local)

    def __enter__(self) -> None:
        if self.mode is None:
            raise ModuleError("set_skip_existing(None) only decorates a method; for a block give True, False or keys")
        self._tokens.append(SKIP.enter(self.mode))

    def __exit__(self, *_: object) -> None:
        SKIP.leave(self._tokens.pop())

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a `forward(self, tensordict, ...)`."""

        @functools.wraps(func)
        def forward(module: Any, tensordict: Any, *args: Any, **kwargs: Any) -> Any:
            mode = SKIP.get() if self.mode is None else self.mode
            in_keys, out_keys = getattr(module, self.in_key_attr), getattr(module, self.out_key_attr)
            if mode is not False and skips(tensordict, in_keys, out_keys, mode):
                return tensordict
            return func(module, tensordict, *args, **kwargs)

        return forward
