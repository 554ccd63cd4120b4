"""Sorts modules into an order in which they can run: the writer of a field comes before its readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..parts._diagnostics import Diagnostic, Location, build_error
from ..parts._slots import Slot, has_path
from ._known import overlap

Edges = dict[int, dict[int, str]]


class Listed(NamedTuple):
    """The facts that determine the order: the fields of one module, and whether it overwrites fields."""

    name: str
    location: Location
    reads: tuple[Slot, ...]
    writes: tuple[Slot, ...]
    update: bool


def topological(nodes: Sequence[Listed], input: type, title: str) -> list[int]:
    """The indices of the modules in an order in which every field is written before it is read.

    Modules that do not depend on each other keep their order, and so do those that overwrite a field (`update=True`)
    and its other readers.

    Raises:
        BuildError: E101, which names a cycle, if there is no such order.
    """
    waits = _waits(nodes, input)
    order: list[int] = []
    while len(order) < len(nodes):
        ready = (i for i in range(len(nodes)) if i not in order and not waits[i].keys() - order)
        found = next(ready, None)
        if found is None:
            raise build_error(f"the pipeline {title} has no order", [_cycle(nodes, waits, set(order))])
        order.append(found)
    return order


def _waits(nodes: Sequence[Listed], input: type) -> Edges:
    """For each module, the modules that must run before it, each with the field that requires it."""
    waits: Edges = {index: {} for index in range(len(nodes))}
    for path in dict.fromkeys(slot.path for node in nodes for slot in node.writes):
        writers = [i for i, node in enumerate(nodes) if any(s.path == path for s in node.writes)]
        updaters = [i for i in writers if nodes[i].update]
        sources = [i for i in writers if i not in updaters]
        if not sources and not has_path(input, path):
            sources = updaters[:1]
        users = [i for i, node in enumerate(nodes) if i in updaters or any(overlap(s.path, path) for s in node.reads)]
        for user in set(users) - set(sources):
            before = {*sources, *(i for i in users if i < user and (i in updaters or user in updaters))}
            for other in before:
                waits[user].setdefault(other, ".".join(path))
    return waits


def _cycle(nodes: Sequence[Listed], waits: Edges, done: set[int]) -> Diagnostic:
    here = next(i for i in range(len(nodes)) if i not in done)
    seen: list[int] = []
    while here not in seen:
        seen.append(here)
        here = next(i for i in waits[here] if i not in done)
    cycle = seen[seen.index(here) :]
    first = min(cycle)
    cycle = cycle[cycle.index(first) :] + cycle[: cycle.index(first)]
    who = [f"module {i} `{nodes[i].name}`" for i in cycle]
    notes = [
        f"{who[n]} reads `{waits[i][j]}`, which {who[(n + 1) % len(who)]} writes"
        for n, (i, j) in enumerate(zip(cycle, cycle[1:] + cycle[:1], strict=True))
    ]
    message = f"{' -> '.join([*who, who[0]])} is a cycle: each reads what the next writes"
    hint = "a first value must come from the input or another module; take one of the fields out of the cycle"
    return Diagnostic("E101", message, first, nodes[first].name, str(nodes[first].location), tuple(notes), hint)
