"""Every operation of the contract suite against the anchor, on random structures: shapes, layouts, dtypes, nesting.

The anchor is a black box. `DELIBERATE` lists where the two differ on purpose; each entry is itself checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tensorclass.errors import UnsupportedOperationError
from tests.contract import _relayouts as _relayouts
from tests.contract._operations import OPS, Op
from tests.ops._anchor import Leaf, Tree, outcome, plain, same, trees


def _shares_memory(tree: Tree) -> bool:
    """Whether several elements of a leaf share memory."""
    strides = [(leaf.stride(), leaf.shape) for leaf in tree.both()[0]._leaves()]
    return any(step == 0 and n > 1 for stride, shape in strides for step, n in zip(stride, shape, strict=True))


def _always(tree: Tree) -> bool:
    return True


class Deliberate:
    """A difference that was decided: on which structures, and what each side does there."""

    def __init__(
        self, why: str, ours: type[Exception] | None, anchor: bool, when: Callable[[Tree], bool] = _always
    ) -> None:
        self.why, self.ours, self.anchor, self.when = why, ours, anchor, when


_EXPANDED = Deliberate(
    "a write into elements that share memory is refused", UnsupportedOperationError, True, _shares_memory
)
_BROADCASTS = Deliberate("a container broadcasts over the batch dims", None, False)
DELIBERATE: dict[str, tuple[Deliberate, ...]] = {
    "[int] =": (_EXPANDED,),
    "[list] =": (_EXPANDED,),
    "[slice] = alike": (_EXPANDED,),
    "[slice] =": (_EXPANDED, _BROADCASTS),
    "[tensor] =": (_EXPANDED, _BROADCASTS),
    "[mask] =": (_EXPANDED, _BROADCASTS),
    "copy_at_": (_EXPANDED,),
    "update_at_": (_EXPANDED,),
    "masked_fill_": (_EXPANDED,),
    "zero_": (_EXPANDED,),
    "reversed": (Deliberate("a container can be iterated from the end", None, False),),
    "squeeze": (Deliberate("all dims of size one go, also of a leaf without event dims", None, False),),
    "unbind": (Deliberate("dim 0 is the default, as for tensors", None, False),),
    "select(absent)": (Deliberate("a nested container is kept for what is in it", None, True),),
    "flatten(inplace)": (Deliberate("in place also without batch dims", None, True, lambda tree: not tree.size),),
}
LEFT_OUT = {"TensorDict"}  # calls this library's constructor


@pytest.mark.parametrize("op", [op for op in OPS if op.name not in LEFT_OUT], ids=lambda op: op.name)
@settings(
    max_examples=settings.default.max_examples // 4,
    suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.filter_too_much],
    derandomize=True,
)
@given(data=st.data())
def test_as_the_anchor(op: Op, data: st.DataObject):
    """The same result, leaf by leaf, or an error from both."""
    tree = data.draw(trees())
    assume(op.suits(tree.size))
    ours, theirs = tree.both()
    mine, wanted = outcome(op.call, ours), outcome(op.call, theirs)
    if both_raise(mine, wanted) or agrees(op, mine, wanted, ours, theirs):
        return
    reasons = [d for d in DELIBERATE.get(op.name, ()) if d.when(tree) and fits(d, mine, wanted)]
    assert reasons, f"{tree}\nours: {mine!r}\nthe anchor: {wanted!r}"


def both_raise(mine: Any, wanted: Any) -> bool:
    """Whether both libraries refuse."""
    return isinstance(mine, Exception) and isinstance(wanted, Exception)


def agrees(op: Op, mine: Any, wanted: Any, ours: Any, theirs: Any) -> bool:
    """Whether results agree, and what a write has left behind."""
    if isinstance(mine, Exception) or isinstance(wanted, Exception):
        return False
    return same(mine, wanted) and (not (op.writes or op.restructures) or same(plain(ours), plain(theirs)))


def fits(reason: Deliberate, mine: Any, wanted: Any) -> bool:
    """Whether the two did what the table says they do."""
    expected = reason.ours is None and not isinstance(mine, Exception)
    return (expected or (reason.ours is not None and isinstance(mine, reason.ours))) and (
        reason.anchor != isinstance(wanted, Exception)
    )


@pytest.mark.parametrize("name", sorted(DELIBERATE))
def test_differences_are_real(name: str):
    """Each entry of the table is a difference that still exists, and ours is the side it describes."""
    op = next(op for op in OPS if op.name == name)
    pending = list(DELIBERATE[name])
    for tree in EXAMPLES:
        if not op.suits(tree.size):
            continue
        ours, theirs = tree.both()
        mine, wanted = outcome(op.call, ours), outcome(op.call, theirs)
        if not both_raise(mine, wanted) and not agrees(op, mine, wanted, ours, theirs):
            pending = [reason for reason in pending if not (reason.when(tree) and fits(reason, mine, wanted))]
    assert not pending, f"no difference any more: {[reason.why for reason in pending]}"


def _tree(size: tuple[int, ...], layout: str) -> Tree:
    below = Tree(size, (("x", Leaf((2,), torch.float32, layout, 1)),))
    return Tree(size, (("a", Leaf((), torch.int64, "plain", 0)), ("n", below)))


EXAMPLES = [
    _tree(size, layout) for size in ((), (1,), (2,), (3, 1), (2, 3), (3, 2)) for layout in ("plain", "expanded")
]
EXAMPLES.append(Tree((3, 1), (("b", Leaf((2,), torch.float64, "expanded", 0)),)))
