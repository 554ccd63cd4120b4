"""The drawing of a graph as SVG, and a page of HTML around it; both stand alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from ._layout import Box, Route, layout

CHAR, TITLE_CHAR, PAD, GAP, MARGIN = 6.7, 7.9, 8.0, 6.0, 12.0
TITLE, CHIP = 30.0, 20.0

STYLE = """
.tcg{font:11px ui-monospace,Menlo,Consolas,monospace;--ink:#1f2328;--box:#ffffff;--edge:#8c959f;
--chip:#ddf4ff;--end:#fff8c5}
@media(prefers-color-scheme:dark){.tcg{--ink:#e6edf3;--box:#161b22;--edge:#6e7681;--chip:#12324f;--end:#3a2d05}}
.tcg rect{fill:var(--box);stroke:var(--edge)}.tcg .end{fill:var(--end)}.tcg .chip{fill:var(--chip);stroke:none}
.tcg text{fill:var(--ink)}.tcg .title{font-size:13px;font-weight:600}
.tcg path{fill:none;stroke:var(--edge);stroke-width:1.3}
.tcg g:hover path{stroke-width:3}
"""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body{{font-family:system-ui,sans-serif;margin:2rem;color-scheme:light dark}}pre{{overflow:auto}}</style></head>
<body><h1>{title}</h1>
<div style="overflow:auto">{drawing}</div>
<pre>{table}</pre>
</body></html>
"""

Edge = tuple[int, int, str]
Port = tuple[int, str]


def page(title: str, drawing: str, table: str) -> str:
    """A page of HTML with a drawing and a table, without anything from elsewhere."""
    return PAGE.format(title=escape(title), drawing=drawing, table=escape(table))


def picture(titles: Sequence[str], edges: Sequence[Edge], declared: Mapping[Port, str]) -> str:
    """A graph as SVG.

    Args:
        titles: The nodes from the input to the output, so that edges lead to later ones.
        edges: Source, target and field of every edge.
        declared: What a field is, by its node and name, for the label at its source.
    """
    chips = [list(dict.fromkeys(name for source, _, name in edges if source == node)) for node in range(len(titles))]
    labels = [[_label(name, declared.get((node, name))) for name in names] for node, names in enumerate(chips)]
    sizes = [_size(title, names) for title, names in zip(titles, labels, strict=True)]
    boxes, routes = layout(sizes, [(source, target) for source, target, _ in edges])
    parts = []
    for edge, route in zip(edges, routes, strict=True):
        source, target, name = edge
        start = _port_x(boxes[source], labels[source], chips[source].index(name))
        end = _entry_x(
            boxes[target], [r[-2].centre for e, r in zip(edges, routes, strict=True) if e[1] == target], route
        )
        parts.append(f"<g><title>{escape(name)}</title><path d='{_curve(route, start, end)}'/></g>")
    last = len(titles) - 1
    for node, (box, title) in enumerate(zip(boxes, titles, strict=True)):
        parts.append(_box(box, title, labels[node], node in (0, last)))
    width = max(box.x + box.width for box in [*boxes, *(b for route in routes for b in route)]) + 2 * MARGIN
    height = max(box.y + box.height for box in boxes) + 2 * MARGIN
    view = f"viewBox='{-MARGIN:g} {-MARGIN:g} {width:.0f} {height:.0f}'"
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' class='tcg' width='{width:.0f}' height='{height:.0f}' {view}>"
        f"<style>{STYLE}</style>{''.join(parts)}</svg>"
    )


def _label(name: str, declared: str | None) -> str:
    return f"{name} {declared}".replace('["', "[").replace('"]', "]") if declared else name


def _chip_width(label: str) -> float:
    return CHAR * len(label) + PAD


def _size(title: str, labels: Sequence[str]) -> tuple[float, float]:
    chips = sum(map(_chip_width, labels)) + GAP * max(len(labels) - 1, 0)
    return max(TITLE_CHAR * len(title), chips) + 2 * PAD, TITLE + (CHIP + PAD if labels else 0)


def _chips(box: Box, labels: Sequence[str]) -> list[tuple[float, float]]:
    """Left edge and width of every chip, centred as a row."""
    widths = [_chip_width(label) for label in labels]
    left = box.centre - (sum(widths) + GAP * (len(widths) - 1)) / 2
    found = []
    for width in widths:
        found.append((left, width))
        left += width + GAP
    return found


def _port_x(box: Box, labels: Sequence[str], chip: int) -> float:
    left, width = _chips(box, labels)[chip]
    return left + width / 2


def _entry_x(box: Box, others: Sequence[float], route: Route) -> float:
    """Where an edge enters its target: lines that come from the left enter at the left."""
    places = sorted(set(others))
    return box.x + box.width * (places.index(route[-2].centre) + 1) / (len(places) + 1)


def _curve(route: Route, start: float, end: float) -> str:
    """A line from the lower side of the first box to the upper side of the last, straight past the rows between."""
    x, y = start, route[0].y + route[0].height
    steps = [f"M{x:.1f} {y:.1f}"]
    for box in route[1:]:
        to = end if box is route[-1] else box.centre
        middle = (y + box.y) / 2
        steps.append(f"C{x:.1f} {middle:.1f} {to:.1f} {middle:.1f} {to:.1f} {box.y:.1f}")
        x, y = to, box.y + box.height
        if box is not route[-1]:
            steps.append(f"L{x:.1f} {y:.1f}")
    return "".join(steps)


def _box(box: Box, title: str, labels: Sequence[str], end: bool) -> str:
    kind = " class='end'" if end else ""
    rows = [f"<rect{kind} x='{box.x:.1f}' y='{box.y:.1f}' width='{box.width:.1f}' height='{box.height:.1f}' rx='6'/>"]
    rows.append(_text(box.centre, box.y + 19, title, " class='title'"))
    top = box.y + TITLE
    for (left, width), label in zip(_chips(box, labels), labels, strict=True):
        rows.append(f"<rect class='chip' x='{left:.1f}' y='{top:.1f}' width='{width:.1f}' height='{CHIP:g}' rx='9'/>")
        rows.append(_text(left + width / 2, top + 14, label, ""))
    return "".join(rows)


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f"<text{kind} x='{x:.1f}' y='{y:.1f}' text-anchor='middle'>{escape(text)}</text>"
