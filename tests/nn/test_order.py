"""The order of `sort=True` against brute force: of all orders that the rules allow, the one nearest to the list."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import permutations

import pytest
from torch import Tensor

from tensorclass import TensorClass
from tensorclass.errors import BuildError
from tensorclass.nn.check._module_order import Listed, topological
from tensorclass.nn.parts._diagnostics import Location
from tensorclass.nn.parts._slots import Slot


class Inner(TensorClass):
    x: Tensor
    y: Tensor


class Fields(TensorClass):
    a: Tensor
    b: Tensor
    inner: Inner
    given: Tensor


class Given(TensorClass):
    given: Tensor


SLOTS = [Slot(ref) for ref in (Fields.a, Fields.b, Fields.inner, Fields.inner.x, Fields.inner.y, Fields.given)]


def graphs(count: int) -> Iterator[list[Listed]]:
    """Modules with a few random fields. Some modules overwrite a field."""
    draw = random.Random(5)
    for _ in range(count):
        size = draw.randint(1, 5)
        yield [
            Listed(
                f"m{i}",
                Location(__file__, i),
                tuple(draw.sample(SLOTS, draw.choice((0, 1, 1, 2)))),
                tuple(draw.sample(SLOTS, draw.choice((0, 1, 1, 2)))),
                draw.random() < 0.3,
            )
            for i in range(size)
        ]


def rules(nodes: list[Listed]) -> dict[tuple[int, int], set[str]]:
    """Pairs of a module and one that must run before it, with the fields that ask for it."""
    found: dict[tuple[int, int], set[str]] = {}
    for slot in SLOTS:
        touches = [s.path for s in SLOTS if all(p == q for p, q in zip(s.path, slot.path, strict=False))]
        writers = [i for i, node in enumerate(nodes) if slot.path in [s.path for s in node.writes]]
        updaters = [i for i in writers if nodes[i].update]
        makers = [i for i in writers if not nodes[i].update]
        if not makers and slot.name != "given":  # the first of them makes the field
            makers = updaters[:1]
        readers = [i for i, node in enumerate(nodes) if any(s.path in touches for s in node.reads)] if writers else []
        users = {*updaters, *readers} - {*makers}
        overwrites = [(after, i) for after in users for i in users if i < after and {i, after} & {*updaters}]
        for pair in [*((user, maker) for user in users for maker in makers), *overwrites]:
            found.setdefault(pair, set()).add(slot.name)
    return found


def test_order_against_every_permutation():
    """Writers come first. A module that overwrites keeps its place among the readers, and the others move little."""
    sorted_, cyclic = 0, 0
    for nodes in graphs(400):
        pairs = rules(nodes)
        allowed = (
            order
            for order in permutations(range(len(nodes)))
            if all(order.index(before) < order.index(after) for after, before in pairs)
        )
        expected = next(allowed, None)  # the smallest: permutations come in order
        if expected is not None:
            assert topological(nodes, Given, "t") == list(expected)
            sorted_ += 1
            continue
        with pytest.raises(BuildError) as caught:
            topological(nodes, Given, "t")
        (finding,) = caught.value.diagnostics
        said = [
            re.fullmatch(r"module (\d) `m\1` reads `(.+)`, which module (\d) `m\3` writes", n) for n in finding.notes
        ]
        steps = [(int(one[1]), int(one[3]), one[2]) for one in said if one is not None]
        assert len(steps) == len(finding.notes)
        assert all(field in pairs[reader, writer] for reader, writer, field in steps)
        circle = [reader for reader, _, _ in steps]
        assert [writer for _, writer, _ in steps] == circle[1:] + circle[:1]
        assert circle[0] == min(circle) == finding.module
        assert (finding.code, finding.name) == ("E101", f"m{circle[0]}")
        assert len(set(circle)) == len(circle)
        names = " -> ".join(f"module {i} `m{i}`" for i in [*circle, circle[0]])
        assert finding.message == f"{names} is a cycle: each reads what the next writes"
        cyclic += 1
    assert min(sorted_, cyclic) > 40
