"""Where the two libraries differ on purpose: each entry names the line of docs/migrating.md that says why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tests.differential._structures import Case, same

Outcome = Literal["same", "both raise", "ours raises", "anchor raises", "differ"]


def outcome(ours: Any, theirs: Any) -> Outcome:
    """How two results compare."""
    if isinstance(ours, Exception) and isinstance(theirs, Exception):
        return "both raise"
    if isinstance(ours, Exception):
        return "ours raises"
    if isinstance(theirs, Exception):
        return "anchor raises"
    return "same" if same(ours, theirs) else "differ"


@dataclass(frozen=True)
class Decided:
    """One difference: the topic of its line in the docs, what is seen of it, words of our error."""

    topic: str
    outcome: Outcome
    words: str = ""


DIMS = Decided("dim arguments and indices", "ours raises", "batch dim")
EXPANDED = Decided("in-place write into an expanded leaf", "ours raises", "share memory")
LOSSY = Decided(
    "in-place write of a higher kind (2.5 in integers, 2 in bools), or of a Python number that does not fit",
    "ours raises",
    "without loss",
)
BELOW = Decided("batch size below, after `min`, `max`, `cummin`, `amin`, ...", "differ")
SPLIT = Decided("batch size below, after `split_keys`", "differ")
EMPTY_GATHER = Decided("`gather` over an empty batch", "anchor raises")
EVENTS = Decided("in-place write of another event shape", "ours raises", "never over event dims")
NAMES = Decided("names after `==`; after `flatten` of one dim; below, after `squeeze`", "differ")
ONE_VALUE = Decided("`get_non_tensor`, `pop` of one value", "differ")
NONE = Decided("`to_namedtuple`, `numpy`, `to_dict(retain_none=False)` of a stored None", "differ")
SQUEEZED = Decided("`squeeze` to no batch dims", "anchor raises")

DECIDED: dict[str, tuple[Decided, ...]] = {
    "td.numel()": (Decided("`numel` of an empty batch", "differ"),),
    "td.gather(dim, grid)": (EMPTY_GATHER,),
    "td.split_keys([leaf])": (SPLIT,),
    'td.split_keys([leaf], ["b"])': (SPLIT,),
    "td.get_at(path, 0)": (DIMS,),
    "!td[picks] = 1": (DIMS, EXPANDED),
    "td.repeat_interleave(2, dim=dim)": (DIMS,),
    "!td[0] = number": (EXPANDED, LOSSY),
    "td.fill_(leaf, number)": (LOSSY, EXPANDED),
    "td.set_(leaf, value)": (LOSSY, EVENTS),
    'td.update_({"b": value})': (LOSSY, EVENTS),
    **dict.fromkeys(
        (
            "!td[0] = other[0]", "!td[cut:] = other[cut:]", "!td[index] = other[index]", "!td[mask] = 1",
            "!td[mask] = other[mask]", "td.copy_at_(other[0], 0)", "td.update_at_(other[0], 0)",
            "td.masked_fill_(mask, 1)", "td.set_at_(leaf, 1, index)", "td.set_at_(leaf, other.get(leaf)[index], index)",
            "!td[torch.tensor(picks)] = other[torch.tensor(picks)].clone()", "td.zero_()", "!td[index] = 0",
        ),
        (EXPANDED,),
    ),
    **dict.fromkeys(
        (
            "td.amin(dim)", "td.amax(dim, keepdim=flag)", "td.cummin(dim)", "td.cummax(dim)", "td.min(dim)",
            "td.max(dim)", "td.max(dim, keepdim=flag)", "td.min(dim, return_indices=False)",
        ),
        (BELOW,),
    ),
    'td.add(other.select("b"), default=0.0)': (
        Decided("`default=` a number in arithmetic (`add`, `sub`, `mul`, `div`, ...)", "anchor raises"),
    ),
    'td.add(other.select("b"), default="intersection")': (Decided('`default="intersection"`', "differ"),),
    "td == other": (NAMES,),
    "td.flatten(0, -1)": (NAMES,),
    '!td.names = ["q"]': (Decided("names for dims that are not there", "ours raises"),),
    'td.rename(*[f"q{i}" for i in range(td.batch_dims)])': (Decided("`rename` without names", "anchor raises"),),
    'td.get_non_tensor("item")': (ONE_VALUE,),
    'td.pop("item")': (ONE_VALUE,),
    "td.squeeze()": (SQUEEZED, NAMES),
    "torch.squeeze(td)": (SQUEEZED,),
    "td.to_dict(retain_none=flag)": (NONE,),
    "list(td.to_namedtuple()._fields)": (NONE,),
    'td.detach().numpy().keys() if hasattr(td.detach().numpy(), "keys") else None': (NONE,),
    'other.select("b").load_state_dict(td.state_dict(), strict=flag)': (
        Decided("objects of a state that the container lacks", "differ"),
        Decided("objects of a state that the container lacks", "ours raises"),
    ),
    "!td.detach_()": (Decided("`detach_` of a view that needs no grad", "anchor raises"),),
    "!td[leaf] = value": (Decided("an entry below a lazy stack without its batch dims", "ours raises"),),
}  # fmt: skip


APPLIES = {
    EMPTY_GATHER: lambda case: 0 in case.tree.size,
    SQUEEZED: lambda case: set(case.tree.size) <= {1},
}
"""On which containers a difference is to be expected; others are not looked at."""


def reason(case: Case, found: Outcome, ours: Any) -> Decided | None:
    """The decision that covers what is seen."""
    for decided in DECIDED.get(case.call, ()):
        if decided.outcome == found and decided.words in str(ours) and APPLIES.get(decided, lambda case: True)(case):
            return decided
    return None
