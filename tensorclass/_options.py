"""The options of typed classes: what each accepts, and how bases and merged classes combine theirs. Without torch.

Rooms that declare, build, merge and check classes read this table, and list no options themselves.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from .errors import did_you_mean

LEVELS: Final = ("off", "schema", "values")
"""The values of `validate`, weakest first."""
COERCIONS: Final = ("strict", "exact", "cast")
"""The conversion policies of a field, strictest first."""


def _own(first: Any, other: Any) -> Any:
    """The first class decides."""
    return first


def _stronger(first: str, other: str) -> str:
    """The stronger of two levels."""
    return max(first, other, key=LEVELS.index)


@dataclass(frozen=True)
class ClassOption:
    """An option of a class.

    Args:
        name: as the class statement and the decorator have it.
        merged: the option of a class that is merged from two others.
        levels: the words that it accepts; empty for True and False.
        is_switch: it is True or False, and may be given in brackets: `TensorClass["frozen"]`.
        lasts: a subclass can't turn it off.
        excludes: another option that can't be True too.
        in_dicts: `TypedTensorDict` has it as well.
    """

    name: str
    merged: Callable[[Any, Any], Any]
    levels: tuple[str, ...] = ()
    is_switch: bool = True
    lasts: bool = False
    excludes: str = ""
    in_dicts: bool = False

    def problem(self, value: object) -> str:
        """The problem of a value, as the end of a sentence about the option; "" without one."""
        if self.is_switch:
            return "" if type(value) is bool else f"is True or False, got {value!r:.80}"
        if not self.levels or value in self.levels:
            return ""
        near = did_you_mean(value, self.levels) if isinstance(value, str) else ""
        return f'is "schema", "values" or "off", got {value!r:.200}{near}'


CLASS_OPTIONS: Final = {
    option.name: option
    for option in (
        ClassOption("frozen", operator.or_, lasts=True, in_dicts=True),
        ClassOption("nocast", _own),
        ClassOption("autocast", _own, excludes="nocast"),
        ClassOption("tensor_only", operator.and_),
        ClassOption("shadow", operator.or_, in_dicts=True),
        ClassOption("validate", _stronger, levels=LEVELS, is_switch=False),
        ClassOption("removed", operator.add, is_switch=False),
    )
}
"""The options by name."""
SWITCHES: Final = tuple(name for name, option in CLASS_OPTIONS.items() if option.is_switch)
DICT_OPTIONS: Final = tuple(name for name, option in CLASS_OPTIONS.items() if option.in_dicts)
