"""Several hundred calls, written once and run on both libraries: the same results, or an error from both.

The anchor is a black box. `DELIBERATE` lists the calls where the two differ on purpose, and what each side does.
"""

from __future__ import annotations

from typing import Any

import pytest
import tensordict
import torch

import tensorclass
from tests.ops._anchor import outcome, plain, same
from tests.ops._calls import ENTRIES
from tests.ops._more_calls import OPERATIONS

CALLS = [*ENTRIES, *OPERATIONS]

WORKS, RAISES = "gives a result", "raises"
BOTH = (WORKS, WORKS)
DEEPER = (RAISES, WORKS, "an operation reaches a feature dim")
PARTIAL = (RAISES, WORKS, "a write with missing or unknown keys")
NUMBERS = (WORKS, RAISES, "a number is a default")
DELIBERATE: dict[str, tuple[str, str, str]] = {
    "T.stack([td,td],3).shape": DEEPER,
    "td[0,0,0]": DEEPER,
    "td.flatten(0, 2)": DEEPER,
    "td.repeat_interleave(2, dim=2)": DEEPER,
    "torch.stack([td, td], -4)": DEEPER,
    "torch.cat([td, td], -3)": DEEPER,
    "td.gather(0, torch.zeros(3, dtype=torch.int64))": (RAISES, WORKS, "an index has one dim for each batch dim"),
    "!td[0]={'a':torch.zeros(3,4)}": PARTIAL,
    "!td[0]=td.select('a')[0]": PARTIAL,
    "td.copy_(td.select('a'))": PARTIAL,
    'td.update_({"a": torch.zeros(2, 3, 4), "zz": torch.zeros(2, 3)})': PARTIAL,
    '!td[0] = {"a": torch.zeros(3, 4), "zz": torch.zeros(3), "b": {"c": torch.zeros(3, 2)}}': PARTIAL,
    'td.get(("a", "c"), 1)': (RAISES, WORKS, "a path that goes through a leaf is a mistake, not an absent key"),
    "!td.lock_(); td.batch_size = [2]": (RAISES, WORKS, "the batch size is structure"),
    'td.add(td.select("a"), default=1.0)': NUMBERS,
    'td.mul(td.select("a"), default=2.0)': NUMBERS,
    "!td[0]=T(a=torch.ones(4),b=T(c=torch.ones(2)))": (WORKS, RAISES, "a container broadcasts over the batch dims"),
    "2 ** td": (WORKS, RAISES, "a number to the power of a container"),
    'td.to(batch_size=[2])["b"].batch_size': (*BOTH, "`to` changes the result, not its source"),
    "td.to(batch_size=[2])": (*BOTH, "`to` changes the result, not its source"),
    '"b" in td.keys(True, True)': (*BOTH, "a container is not a leaf"),
    "list(td.keys(True, True, is_leaf=lambda cls: True))": (*BOTH, "what counts as a leaf is not looked into"),
    "[k for k, _ in td.items(True)]": (*BOTH, "keys, values and items have one order"),
    "T(batch_size=[0]).numel()": (*BOTH, "no element is not an element"),
    'td.rename_keys({("b", "c"): "y"})': (*BOTH, "an emptied container stays, as with `rename_key_`"),
    'td.separates("zz", strict=False)': (*BOTH, "an absent key gives no entry"),
    'td.add(td.select("a"), default="intersection")': (*BOTH, "an emptied container stays"),
    "td.to_pytree()": (*BOTH, "plain nested dicts"),
    'T.from_pytree({"a": torch.zeros(2), "b": {"c": torch.ones(2)}}, batch_size=[2])': (*BOTH, "no bookkeeping"),
    'T.from_pytree({"a": torch.zeros(2, 3), "b": {"c": torch.ones(2, 4)}}, auto_batch_size=True)': (
        *BOTH, "no bookkeeping entries",
    ),
    "td.apply(lambda t: t[..., :1], inplace=True)": (*BOTH, "a result of another shape is set, not broadcast"),
    'T(a=torch.zeros(2, 3), batch_size=[2, 3], names=["x", "y"]).unflatten(0, (1, 2)).names': (
        *BOTH, "new dims have no names",
    ),
}  # fmt: skip


def container(library: Any) -> Any:
    """The container that every call meets."""
    below = {"c": torch.arange(12.0).reshape(2, 3, 2)}
    entries = {"a": torch.arange(24.0).reshape(2, 3, 4), "b": library.TensorDict(below, batch_size=[2, 3])}
    return library.TensorDict(entries, batch_size=[2, 3])


def run(call: str, library: Any) -> Any:
    """What a call gives and what it leaves in the container, or its error."""
    torch.manual_seed(0)

    def carry_out(td: Any) -> Any:
        names = {"td": td, "T": library.TensorDict, "torch": torch, "TensorDict": library.TensorDict}
        if call.startswith("!"):
            exec(call[1:], names)
            return td
        return [eval(call, names), td]

    return outcome(carry_out, container(library))


@pytest.mark.parametrize("call", CALLS)
def test_as_the_anchor(call: str):
    """The same result and the same effect, except where the table says otherwise."""
    ours, theirs = run(call, tensorclass), run(call, tensordict)
    if call in DELIBERATE:
        given = tuple(RAISES if isinstance(result, Exception) else WORKS for result in (ours, theirs))
        assert given == DELIBERATE[call][:2]
        assert RAISES in given or not same(ours, theirs), "no difference any more"
    elif isinstance(ours, Exception) or isinstance(theirs, Exception):
        assert isinstance(ours, Exception) == isinstance(theirs, Exception), f"ours: {ours!r}\nthe anchor: {theirs!r}"
        assert not isinstance(ours, (AttributeError, NameError, SyntaxError, UnboundLocalError)), repr(ours)
    else:
        assert same(ours, theirs), f"ours: {ours!r}\nthe anchor: {theirs!r}"


def test_the_table_is_used():
    """Every entry names a call that is made."""
    assert DELIBERATE.keys() <= set(CALLS)


def test_plain_form():
    """What comparisons look at: batch size and every leaf, whichever library made them."""
    assert same(plain(container(tensorclass)), plain(container(tensordict)))
    assert not same(plain(container(tensorclass)), plain(container(tensordict) + 1))
