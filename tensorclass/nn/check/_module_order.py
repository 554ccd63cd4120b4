"""Sorts modules into an order in which they can run: the writer of a field comes before its readers."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from ...core import Path
from ..parts._diagnostics import Diagnostic, Location, build_error
from ..parts._slots import Slot, has_path, path_text
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
    waits = _required_modules(nodes, input)
    sorter, ready, order = TopologicalSorter(waits), list[int](), list[int]()
    try:
        sorter.prepare()
    except CycleError as error:
        raise build_error(f"the pipeline {title} has no order", [_cycle(nodes, waits, error.args[1])]) from None
    while sorter:
        for index in sorter.get_ready():
            heapq.heappush(ready, index)
        order.append(heapq.heappop(ready))
        sorter.done(order[-1])
    return order


def _required_modules(nodes: Sequence[Listed], input: type) -> Edges:
    """For each module, the modules that must run before it, each with the field that requires it."""
    waits: Edges = {index: {} for index in range(len(nodes))}
    made: dict[Path, list[int]] = {}
    read: dict[str, dict[int, None]] = {}
    for index, node in enumerate(nodes):
        for slot in node.writes:
            made.setdefault(slot.path, []).append(index)
        for slot in node.reads:
            read.setdefault(slot.path[0], {})[index] = None
    for path, writers in made.items():
        updaters = [i for i in writers if nodes[i].update]
        sources = [i for i in writers if i not in updaters]
        if not sources and not has_path(input, path):
            sources = updaters[:1]
        readers = (i for i in read.get(path[0], ()) if any(overlap(s.path, path) for s in nodes[i].reads))
        users = {*updaters, *readers}
        for user in users - set(sources):
            before = {*sources, *(i for i in users if i < user and (i in updaters or user in updaters))}
            for other in before:
                waits[user].setdefault(other, path_text(path))
    return waits


def _cycle(nodes: Sequence[Listed], waits: Edges, found: list[int]) -> Diagnostic:
    cycle = found[:0:-1]  # it ends where it begins, and the writers come first
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
