"""Modules whose outputs exist, and whether they are skipped: `set_skip_existing`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from typing_extensions import Self

from ..._flags import flags
from ...core._modes import Block, Setting
from ...errors import ModuleError
from ._keyed_base import Keys, as_keys

Forward = TypeVar("Forward", bound=Callable[..., Any])
SKIP: Setting[bool | Keys] = Setting("skip_existing", False)


def skip_existing() -> bool | Keys:
    """Whether modules are skipped whose outputs exist: False (the default), True, or the list of keys that may be.

    >>> from tensorclass.nn import set_skip_existing, skip_existing
    >>> with set_skip_existing(["a"]):
    ...     skip_existing()
    ['a']
    """
    return SKIP.get()


def skip_mode() -> bool | tuple[Any, ...]:
    """What `set_skip_existing` says, as the key of what is made for it."""
    mode = SKIP.get()
    return mode if isinstance(mode, bool) else tuple(mode)


def skips(data: Any, in_keys: Keys, out_keys: Keys, mode: bool | Keys) -> bool:
    """Whether a module has nothing to do: its out keys are there, and it reads none of them."""
    if mode is False or any(key in out_keys for key in in_keys):
        return False
    there = data.keys(True)
    return all(key in there and (mode is True or key in mode) for key in out_keys)


@flags
class set_skip_existing(Block[Any]):  # called like a function, and known under this name
    """Skip modules whose out keys are all in the input: for a block, or for a decorated `forward`.

    A module that reads one of its out keys always runs. The setting belongs to the thread or task that enters the
    block. Inside `torch.compile`, enter the block inside the compiled function.

    Args:
        mode: True skips whatever exists, False nothing, a list of keys modules that write only these. None (only for
            the decorator) follows the block in which the method is called.
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

    _setting = SKIP

    def __init__(
        self, mode: Any = True, in_key_attr: str = "in_keys", out_key_attr: str = "out_keys", *,
        thread_local: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(mode if mode is None or isinstance(mode, bool) else as_keys(mode, "mode"))
        self.in_key_attr = in_key_attr
        self.out_key_attr = out_key_attr
        self.thread_local = thread_local

    def __enter__(self) -> Self:
        if self.mode is None:
            raise ModuleError("set_skip_existing(None) only decorates a method; for a block give True, False or keys")
        return super().__enter__()

    def __call__(self, func: Forward) -> Forward:
        """Decorate a `forward(self, tensordict, ...)`."""

        @functools.wraps(func)
        def forward(module: Any, tensordict: Any, *args: Any, **kwargs: Any) -> Any:
            mode = SKIP.get() if self.mode is None else self.mode
            in_keys, out_keys = getattr(module, self.in_key_attr), getattr(module, self.out_key_attr)
            if mode is not False and skips(tensordict, in_keys, out_keys, mode):
                return tensordict
            return func(module, tensordict, *args, **kwargs)

        return forward  # type: ignore[return-value]  # of the same parameters
