"""`set_skip_existing`: skip modules whose outputs exist."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from typing_extensions import Self

from ..._flags import flags
from ...core import Block, Setting
from ...errors import ModuleError
from ._keyed_base import Keys, as_keys

Forward = TypeVar("Forward", bound=Callable[..., Any])
SKIP: Setting[bool | Keys] = Setting("skip_existing", False)


def skip_existing() -> bool | Keys:
    """Whether modules are skipped if their outputs exist: False (the default), True, or a list of output keys.

    >>> from tensorclass.nn import set_skip_existing, skip_existing
    >>> with set_skip_existing(["a"]):
    ...     skip_existing()
    ['a']
    """
    return SKIP.get()


def skip_mode() -> bool | tuple[Any, ...]:
    """The setting of `set_skip_existing` as a hashable key."""
    mode = SKIP.get()
    return mode if isinstance(mode, bool) else tuple(mode)


def skips(data: Any, in_keys: Keys, out_keys: Keys, mode: bool | Keys) -> bool:
    """Whether a module is skipped: all its out keys exist, and it reads none of them."""
    if mode is False or any(key in out_keys for key in in_keys):
        return False
    there = data.keys(True)
    return all(key in there and (mode is True or key in mode) for key in out_keys)


@flags
class set_skip_existing(Block[Any]):  # lower case: used like a function
    """Skip modules whose out keys are all in the input, for a block or for a decorated `forward`.

    A module that reads one of its out keys always runs. The setting belongs to the thread or task that enters the
    block. Inside `torch.compile`, enter the block inside the compiled function.

    Args:
        mode: True skips modules whose outputs exist, False skips none, a list of keys skips only modules that write no
            other keys. None (only for the decorator) uses the mode of the block in which the method is called.
        in_key_attr: for the decorator, the module attribute with the in keys.
        out_key_attr: for the decorator, the module attribute with the out keys.
        thread_local: accepted for compatibility; a block never reaches other threads.

    Raises:
        ModuleError: for a block with None, and for an invalid mode.

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
        self,
        mode: Any = True,
        in_key_attr: str = "in_keys",
        out_key_attr: str = "out_keys",
        *,
        thread_local: bool = False,
    ) -> None:
        super().__init__(mode if mode is None or isinstance(mode, bool) else as_keys(mode, "mode"))
        self.in_key_attr = in_key_attr
        self.out_key_attr = out_key_attr
        self.thread_local = thread_local

    def __enter__(self) -> Self:
        self._refuse_none()
        return super().__enter__()

    def set(self) -> None:
        """Apply the setting from now on: inside a block to its end, else in all threads of the process."""
        self._refuse_none()
        super().set()

    def _refuse_none(self) -> None:
        if self.mode is None:
            raise ModuleError("set_skip_existing(None) only decorates a method; for a block give True, False or keys")

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
