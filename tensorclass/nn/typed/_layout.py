"""Where the boxes and lines of a layered drawing stand: nodes by rank from the top, crossings few, no overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

ACROSS, BETWEEN, LINE = 24.0, 52.0, 10.0
SWEEPS = 8


@dataclass
class Box:
    """A node, or the place where a line passes a rank; `x` and `y` are its top left corner."""

    width: float
    height: float
    rank: int = 0
    node: int | None = None
    x: float = 0.0
    y: float = 0.0
    above: list[Box] = field(default_factory=list)
    below: list[Box] = field(default_factory=list)

    @property
    def centre(self) -> float:
        """The middle of the box, from the left."""
        return self.x + self.width / 2


Route = list[Box]


def layout(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> tuple[list[Box], list[Route]]:
    """Boxes for nodes, and for each edge the boxes that it passes, both ends included.

    Args:
        sizes: Width and height of every node, in an order in which edges lead from earlier to later nodes.
        edges: Pairs of a node and a later one.
    """
    boxes = [Box(width, height, node=index) for index, (width, height) in enumerate(sizes)]
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        boxes[target].rank = max(boxes[target].rank, boxes[source].rank + 1)
    if boxes:
        boxes[-1].rank = max(box.rank for box in boxes[:-1] or boxes) + (len(boxes) > 1)
    routes = {edge: _route(boxes[edge[0]], boxes[edge[1]]) for edge in dict.fromkeys(edges)}
    everything = list({id(b): b for b in [*boxes, *(b for route in routes.values() for b in route)]}.values())
    rows = [
        [box for box in everything if box.rank == rank] for rank in range(max((b.rank for b in boxes), default=0) + 1)
    ]
    _order(rows)
    _place(rows)
    return boxes, [routes[edge] for edge in edges]


def _route(source: Box, target: Box) -> Route:
    route = [source, *(Box(LINE, 0.0, rank) for rank in range(source.rank + 1, target.rank)), target]
    for upper, lower in pairwise(route):
        upper.below.append(lower)
        lower.above.append(upper)
    return route


def _order(rows: list[list[Box]]) -> None:
    """Sort every row by where the neighbours of its boxes stand, down and up in turn."""
    for sweep in range(SWEEPS):
        position = {id(box): float(place) for row in rows for place, box in enumerate(row)}
        for row in rows if sweep % 2 == 0 else reversed(rows):
            key = {
                id(b): _mean([position[id(n)] for n in (b.below if sweep % 2 else b.above)], position[id(b)])
                for b in row
            }
            row.sort(key=lambda box: key[id(box)])
            position.update({id(box): float(place) for place, box in enumerate(row)})


def _place(rows: list[list[Box]]) -> None:
    top = 0.0
    for row in rows:
        left = 0.0
        for box in row:
            box.x, box.y = left, top
            left += box.width + ACROSS
        top += max((box.height for box in row), default=0.0) + BETWEEN
        for box in row:
            box.height = box.height or top - BETWEEN - box.y
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _straighten(row)
    least = min((box.x for row in rows for box in row), default=0.0)
    for box in (box for row in rows for box in row):
        box.x -= least


def _straighten(row: list[Box]) -> None:
    """Move the boxes of a row under their neighbours, in order and apart."""
    wanted = [_mean([n.centre for n in (*box.above, *box.below)], box.centre) - box.width / 2 for box in row]
    placed: list[float] = []
    for index, left in enumerate(wanted):
        least = placed[-1] + row[index - 1].width + ACROSS if placed else left
        placed.append(max(left, least))
    shift = _mean([w - p for w, p in zip(wanted, placed, strict=True)], 0.0)
    for box, left in zip(row, placed, strict=True):
        box.x = left + shift


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default
