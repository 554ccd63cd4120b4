"""Random calls on random containers, family by family: what the anchor gives, or a decided difference.

The anchor is a black box. Every difference has a line in docs/migrating.md, and is still there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensordict
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

import tensorclass
from tests.differential._decided import DECIDED, Decided, outcome, reason
from tests.differential._families import FAMILIES, Family
from tests.differential._structures import Case, cases

DOCS = Path(__file__).resolve().parents[2] / "docs" / "migrating.md"
CALMLY: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}
MISTAKES = (AttributeError, NameError, AssertionError, RecursionError)
"""What no wrong argument should end in."""


def compare(case: Case) -> None:
    """One call in both libraries."""
    ours, theirs = case.run(tensorclass), case.run(tensordict)
    found = outcome(ours, theirs)
    assert not isinstance(ours, MISTAKES), f"{case}\n{ours!r}"
    if found not in ("same", "both raise"):
        assert reason(case, found, ours), f"{found}: {case}\nours: {ours!r}\nthe anchor: {theirs!r}"


@pytest.mark.parametrize("name", FAMILIES)
def test_a_few_calls(name: str):
    """The same result, leaf by leaf with dtype, layout in memory and requires_grad, and the same effect."""
    family = FAMILIES[name]

    @settings(max_examples=settings.default.max_examples, **CALMLY)
    @given(case=cases(family.calls, family.trees))
    def run(case: Case) -> None:
        compare(case)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_many_calls(name: str):
    """The same for hundreds of containers, shared out so that every call of the family meets several."""
    family = FAMILIES[name]
    for call in family.calls:

        @settings(max_examples=max(8, 320 // len(family.calls) + 1), **CALMLY)
        @given(case=cases([call], family.trees))
        def run(case: Case) -> None:
            compare(case)

        run()


def _family_of(call: str) -> list[Family]:
    return [family for family in FAMILIES.values() if call in family.calls]


@pytest.mark.parametrize("call", DECIDED)
def test_differences_are_documented(call: str):
    """Every decided difference is about a call that is made, and has its line in the docs."""
    assert _family_of(call), "no family makes this call"
    text = DOCS.read_text("utf-8")
    assert [d.topic for d in DECIDED[call] if f"| {d.topic} |" not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize(("call", "decided"), [(call, d) for call, several in DECIDED.items() for d in several])
def test_differences_are_real(call: str, decided: Decided):
    """Each is found again: one that went away is struck from the table and from the docs."""
    trees = st.one_of([family.trees for family in _family_of(call)])

    def shows(case: Case) -> bool:
        ours = case.run(tensorclass)
        found = outcome(ours, case.run(tensordict))
        return found == decided.outcome and reason(case, found, ours) == decided

    quickly = settings(max_examples=3000, phases=[Phase.generate], **CALMLY)
    assert find(cases([call], trees), shows, settings=quickly).call == call


def test_a_difference_is_found():
    """Another value, dtype, size or entry is a difference, and nan is no difference."""
    zeros, ones = tensorclass.TensorDict(a=[0.0]), tensorclass.TensorDict(a=[1.0])
    tree = next(iter(FAMILIES.values())).trees.filter(lambda tree: tree.size == (2,))
    case = find(cases(["td.batch_size"], tree), lambda case: True, settings=settings(**CALMLY))
    assert outcome(case.run(tensorclass), case.run(tensordict)) == "same"
    assert outcome([zeros["a"]], [ones["a"]]) == "differ"
    assert outcome([zeros["a"] / 0], [zeros["a"] / 0]) == "same"
    assert outcome(ValueError(), [zeros["a"]]) == "ours raises"
    assert outcome([zeros["a"]], ValueError()) == "anchor raises"
    assert outcome(ValueError(), KeyError()) == "both raise"
