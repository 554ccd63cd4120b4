"""The lazy mode of old versions of `tensordict`, for programs that turn it off."""

from __future__ import annotations

from ..._flags import flags
from ...core import Mode, Setting
from ...errors import UnsupportedOperationError


@flags
class set_lazy_legacy(Mode):  # lower case: used like a function
    """Accepted for compatibility: shape operations never return deferred views, so only False is allowed.

    Args:
        mode: False.

    Raises:
        UnsupportedOperationError: for True: stack with `lazy_stack` instead.

    >>> from tensorclass import lazy_legacy, set_lazy_legacy
    >>> with set_lazy_legacy(False):
    ...     lazy_legacy()
    False
    """

    _setting = Setting("lazy_legacy", False)

    def __init__(self, mode: bool | None) -> None:
        super().__init__(mode)
        if mode:
            raise UnsupportedOperationError(
                "set_lazy_legacy(True): shape operations never give deferred views and `torch.stack` is dense; make "
                "lazy stacks with `lazy_stack`"
            )


@flags
def lazy_legacy(allow_none: bool = False) -> bool | None:
    """Whether the lazy mode of old versions is on: always False, or None.

    Args:
        allow_none: return None if the mode was not set.

    >>> from tensorclass import lazy_legacy
    >>> lazy_legacy()
    False
    """
    return set_lazy_legacy.current(allow_none)
