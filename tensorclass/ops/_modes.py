"""Modes of `tensordict` that migrated programs set."""

from __future__ import annotations

from typing_extensions import Self

from .._flags import flags
from ..core import Entered, Mode, Setting


class set_capture_non_tensor_stack(Mode):  # lower case: used like a function
    """Set whether stacking equal `NonTensorData` gives one value instead of one per element; False by default.

    Args:
        mode: True for one value.

    >>> from tensorclass import TensorDict, set_capture_non_tensor_stack
    >>> data = TensorDict(a=1).set_non_tensor("name", "scan")
    >>> with set_capture_non_tensor_stack(True):
    ...     TensorDict.stack([data, data])["name"]
    'scan'
    """

    _setting = Setting("capture_non_tensor_stack", False)


class set_list_to_stack(Mode):  # lower case: used like a function
    """Set whether a list that is written to a `TensorDict` becomes one object per element; True by default.

    Args:
        mode: False stores the list as one value; `set_non_tensor` does the same for one write.

    >>> from tensorclass import TensorDict, set_list_to_stack
    >>> data = TensorDict(batch_size=[2])
    >>> with set_list_to_stack(False):
    ...     data["names"] = ["a", "b", "c"]
    >>> data[0]["names"]
    ['a', 'b', 'c']
    """

    _setting = Setting("list_to_stack", True)


@flags
class set_get_defaults_to_none(Mode):  # lower case: used like a function
    """Set whether `get` without a default returns None for an absent key (the default) or raises.

    It applies from the call on, as in `tensordict`, in this thread; as a context manager, it ends with the block.

    Args:
        set_to_none: False to raise.

    >>> from tensorclass import TensorDict, set_get_defaults_to_none
    >>> with set_get_defaults_to_none(False):
    ...     TensorDict(a=1).get("b")
    Traceback (most recent call last):
    tensorclass.errors.MissingKeyError: TensorDict has no key `b`; its keys are ['a']
    """

    _setting = Setting("get_defaults_to_none", True)

    def __init__(self, set_to_none: bool = True) -> None:
        super().__init__(set_to_none)
        self._applied: list[Entered[bool]] = [self._setting.begin(set_to_none)]

    def clone(self) -> Self:
        """A new block with the same setting."""
        new = super().clone()
        new._applied = []
        return new

    def set(self) -> None:
        """Apply the mode from now on: inside a block to its end, else in all threads of the process."""
        if self._applied:
            self._setting.leave(self._applied.pop())
        super().set()

    def __enter__(self) -> Self:
        if not self._applied:
            return super().__enter__()
        self._entered.append(self._applied.pop())
        return self


@flags
def capture_non_tensor_stack(allow_none: bool = False) -> bool | None:
    """Whether stacking equal `NonTensorData` gives one value; with `allow_none`, None if it was not set.

    >>> from tensorclass import capture_non_tensor_stack
    >>> capture_non_tensor_stack()
    False
    """
    return set_capture_non_tensor_stack.current(allow_none)


@flags
def list_to_stack(allow_none: bool = False) -> bool | None:
    """Whether a list becomes one object per element; with `allow_none`, None if it was not set.

    >>> from tensorclass import list_to_stack
    >>> list_to_stack()
    True
    """
    return set_list_to_stack.current(allow_none)


@flags
def get_defaults_to_none(set_to_none: bool = True) -> bool:
    """Whether `get` without a default returns None for an absent key; the argument is ignored, as in `tensordict`.

    >>> from tensorclass import get_defaults_to_none
    >>> get_defaults_to_none()
    True
    """
    mode: bool = set_get_defaults_to_none._setting.get()
    return mode
