"""The options of typed classes and of their fields, without torch.

A class option says what it accepts, and how bases and merged classes combine it. A field option says what it accepts
and how it is saved, compared and shown. Rooms read these tables, and list no options themselves.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from .errors import did_you_mean

Effect = Literal["compatible", "widening", "may break", "breaking"]
"""What a change of a declaration means for data of the old one."""
LEVELS: Final = ("off", "schema", "values")
"""The values of `validate`, weakest first."""
COERCIONS: Final = ("strict", "exact", "cast")
"""The conversion policies of a field, strictest first."""
JOINS: Final = ("stack", "same", "fill", "pad", "ragged")
"""The join policies of a field."""


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


# ---- options of fields -----------------------------------------------------------------------------------------------


def effect_of_step(order: tuple[str, ...], before: str, after: str) -> Effect:
    """The effect of a change along `order`, strictest first; every level accepts values of the declared type."""
    change = order.index(after) - order.index(before)
    if change > 0:
        return "widening"
    return "may break" if change else "compatible"


def names_or_none(names: Iterable[str]) -> str:
    """Names for messages."""
    return ", ".join(names) or "none"


def _coerce_changes(old: Any, new: Any, before: Any, after: Any) -> Effect | None:
    if old.coerce == new.coerce:
        return None
    policies = [spec.coerce or schema.policy.get("coerce", "exact") for spec, schema in ((old, before), (new, after))]
    return effect_of_step(COERCIONS, policies[0], policies[1])


def _renaming_changes(old: Any, new: Any, *_: Any) -> Effect | None:
    known, read = {old.name, *old.renamed_from}, {new.name, *new.renamed_from}
    if known - read:
        return "may break"
    return "widening" if old.name == new.name and read - known else None


def _since_changes(old: Any, new: Any, *_: Any) -> Effect | None:
    return "compatible" if old.name == new.name and old.since != new.since else None


def _as_names(saved: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(str, saved))


@dataclass(frozen=True)
class FieldOption:
    """An option of a field.

    Args:
        name: its keyword in `field`.
        policies: the words that it accepts; empty for any value.
        saved: "always" in the saved form of a field, "given" if it is not the default, or "" for never.
        read: its value from the saved form.
        is_about_input: it says which values a field takes, not what it holds: equal fields may differ in it.
        in_dataclasses: `dataclasses.field` has it as well.
        in_produced: `produced` takes it.
        effect: what type checkers conclude where it is given. "default": the constructor may omit the field.
            "converts": values of other dtypes may fit. "renames": the class reads other names than those of its fields.
            "hides": the field may have the name of a method.
        note: its text for people, with its value in braces.
        changes: the effect of a change from one field to another, whose schemas follow; None without one.
    """

    name: str
    policies: tuple[str, ...] = ()
    saved: str = ""
    read: Callable[[Any], Any] = lambda value: value
    is_about_input: bool = False
    in_dataclasses: bool = False
    in_produced: bool = False
    effect: Literal["", "default", "converts", "renames", "hides"] = ""
    note: str = ""
    changes: Callable[..., Effect | None] | None = None

    def problem(self, value: object) -> str:
        """The problem of a value, as the end of a sentence; "" without one."""
        if not self.policies or value is None or value in self.policies:
            return ""
        return f"the policies are {', '.join(map(repr, self.policies))}"


FIELD_OPTIONS: Final = {
    option.name: option
    for option in (
        FieldOption("default", effect="default"),
        FieldOption("default_factory", effect="default"),
        FieldOption("join", JOINS, saved="always"),
        FieldOption("init", saved="always", read=bool, in_dataclasses=True, in_produced=True),
        FieldOption("kw_only", saved="always", read=bool, in_dataclasses=True),
        FieldOption("repr", in_dataclasses=True),
        FieldOption("compare", in_dataclasses=True),
        FieldOption("fill"),
        FieldOption(
            "coerce",
            COERCIONS,
            "given",
            is_about_input=True,
            effect="converts",
            note='coerce="{}"',
            changes=_coerce_changes,
        ),
        FieldOption(
            "renamed_from",
            (),
            "given",
            _as_names,
            True,
            effect="renames",
            note="formerly {}",
            changes=_renaming_changes,
        ),
        FieldOption("since", saved="given", is_about_input=True, note="since {}", changes=_since_changes),
        FieldOption("shadow", saved="given", read=bool, is_about_input=True, effect="hides"),
        FieldOption("doc", is_about_input=True, in_produced=True),
    )
}
"""The options of fields by name; `metadata` is for programs."""


def options_with(effect: str) -> set[str]:
    """The names of the field options from which type checkers conclude the same."""
    return {name for name, option in FIELD_OPTIONS.items() if option.effect == effect}
