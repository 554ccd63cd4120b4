"""The value that a probabilistic module takes from its distribution; whether composite log-probabilities are summed."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum
from typing import Any

from ..._flags import flag, flags
from ...core import Block, Mode, Setting
from ...errors import ArgumentError, did_you_mean


class InteractionType(str, Enum):
    """The rule by which a probabilistic module gets a value from a distribution.

    `RANDOM` draws a sample (with `rsample` if available). `MODE`, `MEDIAN` and `MEAN` read the attribute of that name.
    `DETERMINISTIC` reads `deterministic_sample`; without it, the mode of a discrete distribution and the mean of any
    other. For a transformed distribution without a mean, it is the transformed value of the base. If the mean is
    undefined, as for Cauchy, it is the mode; in a tie, the first of the most likely values. If a distribution has no
    `MODE`, `MEDIAN` or `MEAN`, or none for its parameters, an error is raised; the value is never nan. Strings are
    accepted in any case.

    >>> InteractionType("Mode") is InteractionType.MODE
    True
    """

    MODE = "mode"
    MEDIAN = "median"
    MEAN = "mean"
    RANDOM = "random"
    DETERMINISTIC = "deterministic"

    @classmethod
    def from_str(cls, type_str: str) -> InteractionType:
        """The type with a name, in upper or lower case.

        Raises:
            ValueError: for an unknown name.
        """
        known: Any = cls._value2member_map_.get(type_str) if isinstance(type_str, str) else None
        return cls(type_str) if known is None else known

    @classmethod
    def _missing_(cls, value: object) -> InteractionType:
        names = [member.value for member in cls]
        if isinstance(value, str) and value.lower() in names:
            return cls(value.lower())
        hint = did_you_mean(value.lower(), names) if isinstance(value, str) else ""
        raise ArgumentError(f"an interaction type is one of {', '.join(names)}; got {value!r:.200}{hint}")

    def __str__(self) -> str:
        return str(self.value)


_TYPES: dict[Any, InteractionType] = {str(kind): kind for kind in InteractionType}
INTERACTION: Setting[InteractionType | None] = Setting("interaction_type", None)
_START = os.environ.get("COMPOSITE_LP_AGGREGATE") in ("1", "True")
AGGREGATE: Setting[bool] = Setting("composite_lp_aggregate", _START)


@flags
class set_interaction_type(Block["InteractionType | None"]):  # lower case: used like a function
    """Set the value that probabilistic modules take from their distributions, for a block or for a decorated function.

    Args:
        type: An `InteractionType` or its name; None for the default of each module.
        thread_local: Accepted for compatibility; a block never reaches other threads.

    >>> with set_interaction_type("mode"):
    ...     interaction_type()
    <InteractionType.MODE: 'mode'>
    """

    _setting = INTERACTION

    def __init__(
        self, type: InteractionType | str | None = InteractionType.DETERMINISTIC, *, thread_local: bool = False
    ) -> None:
        if thread_local is not False:
            flag(thread_local=thread_local)
        mode = _TYPES.get(type) if type.__class__ is str else None
        if mode is None and type is not None:
            mode = type if isinstance(type, InteractionType) else InteractionType.from_str(type)
        self.mode: InteractionType | None = mode
        self._entered = []
        self.thread_local = thread_local


def interaction_type() -> InteractionType | None:
    """The interaction type of the innermost `set_interaction_type`; None outside such blocks.

    >>> print(interaction_type())
    None
    """
    return INTERACTION.get()


@flags
class set_composite_lp_aggregate(Mode):  # lower case: used like a function
    """Set whether a `CompositeDistribution` sums the log-probabilities and entropies of its components.

    Args:
        mode: True for one tensor, False for one entry per component; None for the value at the start of the program.
        thread_local: Accepted for compatibility; a block never reaches other threads.

    >>> with set_composite_lp_aggregate(True):
    ...     composite_lp_aggregate()
    True
    """

    _setting = AGGREGATE

    def __init__(self, mode: bool | None = True, *, thread_local: bool = False) -> None:
        super().__init__(_START if mode is None else mode)
        self.thread_local = thread_local
        self._undone: list[Callable[[], None]] = []

    def set(self) -> None:
        """Apply the setting until `unset`: inside a block to its end, else in all threads of the process."""
        self._undone.append(self._setting.keep(self.mode))

    def unset(self) -> None:
        """Restore the setting that `set` replaced."""
        if not self._undone:
            raise ArgumentError("set_composite_lp_aggregate: `unset` goes with a `set` before it, of the same object")
        self._undone.pop()()


@flags
def composite_lp_aggregate(nowarn: bool = False) -> bool:
    """Whether composite log-probabilities are summed. False by default; set by a block or `COMPOSITE_LP_AGGREGATE=1`.

    Args:
        nowarn: Without effect; accepted for compatibility.

    >>> composite_lp_aggregate()
    False
    """
    return AGGREGATE.get()
