"""Drawings of a pipeline as Mermaid text, SVG or HTML: modules are nodes, fields are edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate
from typing import Literal, NamedTuple

from ...core import Path
from ...errors import ModuleError
from ..parts._slots import Slot, fields_of, path_text
from ..parts._stage import Stage
from ._explain import Explanation, Value

Format = Literal["mermaid", "svg", "html"]


class Link(NamedTuple):
    """A field between two nodes: the input is node 0, module `i` node `i + 1`, the output the last."""

    source: int
    target: int
    field: str
    slot: Slot | None

    def label(self, seen: Mapping[str, str]) -> str:
        """The field with its declaration; for a value without one, what the probes saw."""
        if self.slot is None:
            return self.field
        text = str(self.slot.spec) if self.slot.known else seen.get(self.field, "")
        return f"{self.field}: {text}" if text else self.field


def _seen_text(value: Value) -> str:
    """What the probes saw of a value, in the form of a declaration."""
    return f'{value.dtype.capitalize()}["{" ".join(map(str, value.shape or ()))}"]'


def _title(name: str, kind: str) -> str:
    return name if name.rpartition(".")[2].startswith(kind) else f"{name}: {kind}"


def _links(stages: Sequence[Stage], input: type, sources: Mapping[str, str]) -> list[Link]:
    writers: dict[Path, int] = {}
    links = []
    for node, stage in enumerate(stages, 1):
        links += [Link(_source(slot.path, writers), node, path_text(slot.path), slot) for slot in stage.reads]
        writers.update({slot.path: node for slot in stage.written})
    end = len(stages) + 1
    returned = set(sources.values())
    links += [Link(node, end, path_text(path), None) for path, node in writers.items() if path[0] in returned]
    known = fields_of(input)
    passed = [n for n in sources.values() if n in known and not known[n].produced and (n,) not in writers]
    return links + [Link(0, end, path_text((name,)), None) for name in passed]


def _source(path: Path, writers: dict[Path, int]) -> int:
    """The node that a field comes from: its writer, the writer of what encloses it, else the input."""
    found = (writers[path[:n]] for n in range(len(path), 0, -1) if path[:n] in writers)
    return next(found, 0)


def draw(
    stages: Sequence[Stage],
    kinds: Sequence[str],
    input: type,
    output: type,
    sources: Mapping[str, str],
    explanation: Explanation,
    format: Format,
) -> str:
    """The text of a drawing.

    Args:
        stages: The modules in order.
        kinds: The kind of each module, for its node.
        input: The class that the pipeline takes.
        output: The class that it returns.
        sources: The name of the value of each output field.
        explanation: What a page shows below the drawing.
        format: "mermaid", "svg" or "html".

    Raises:
        ModuleError: for an unknown format.
    """
    if format not in ("mermaid", "svg", "html"):
        raise ModuleError(f"format={format!r}: a pipeline is drawn as 'mermaid', 'svg' or 'html'")
    titles = [f"{i} {_title(s.name, kind)}" for i, (s, kind) in enumerate(zip(stages, kinds, strict=True))]
    titles, links = [input.__name__, *titles, output.__name__], _links(stages, input, sources)
    seen = {
        value.name: _seen_text(value) for step in explanation.steps for value in step.writes if value.shape is not None
    }
    if format == "mermaid":
        return mermaid(titles, links, seen)
    declared = {
        (node, path_text(s.path)): str(s.spec) if s.known else seen.get(path_text(s.path), "")
        for node, stage in enumerate(stages, 1)
        for s in stage.written
    }
    declared |= {(0, link.field): str(link.slot.spec) for link in links if link.source == 0 and link.slot}
    drawing = picture(titles, [(link.source, link.target, link.field) for link in links], declared)
    if format == "svg":
        return drawing
    title = escape(f"{titles[0]} → {titles[-1]}")
    return PAGE.format(title=title, drawing=drawing, table=escape(str(explanation)))


# ---- Mermaid -----------------------------------------------------------------------------------------------------


def mermaid(titles: Sequence[str], links: Sequence[Link], seen: Mapping[str, str]) -> str:
    """The flowchart as Mermaid text."""
    names = ["input", *(f"m{i}" for i in range(len(titles) - 2)), "output"]
    rows = [f'    {name}["{_text(title)}"]' for name, title in zip(names, titles, strict=True)]
    for end in (0, -1):
        rows[end] = f'    {names[end]}(["{_text(titles[end])}"])'
    passed = [link.field for link in links if (link.source, link.target) == (0, len(names) - 1)]
    for link in links:
        if link.field in passed and link.source == 0 and link.slot is None:
            continue
        rows.append(f'    {names[link.source]} -->|"{_text(link.label(seen))}"| {names[link.target]}')
    rows += [f'    input -->|"{_text(", ".join(passed))}"| output'] if passed else []
    return "\n".join(["flowchart TD", *rows]) + "\n"


def _text(text: str) -> str:
    # In Mermaid, a quotation mark can only be written as an entity.
    return text.replace('["', "[").replace('"]', "]").replace('"', "#quot;")


# ---- SVG and HTML ------------------------------------------------------------------------------------------------
# Nodes are placed one below another. A line to the next node goes straight down. Other lines go around the nodes
# between, each in its own lane on the right, so no line crosses a box.

CHAR, TITLE_CHAR, PAD, GAP, MARGIN = 6.7, 7.9, 8.0, 6.0, 12.0
TITLE, CHIP, BETWEEN, LANE = 30.0, 20.0, 44.0, 14.0

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
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>:root{{color-scheme:light dark}}body{{font-family:system-ui;margin:2rem}}pre{{overflow:auto}}</style></head>
<body><h1>{title}</h1>
<div style="overflow:auto">{drawing}</div>
<pre>{table}</pre>
</body></html>
"""

Edge = tuple[int, int, str]
Port = tuple[int, str]


class Box(NamedTuple):
    """A node: its top and size, and the left edge and width of the label of each output field."""

    top: float
    width: float
    height: float
    chips: dict[str, tuple[float, float]]


def picture(titles: Sequence[str], edges: Sequence[Edge], declared: Mapping[Port, str]) -> str:
    """A graph as SVG.

    Args:
        titles: The nodes from the input to the output, so that edges lead to later ones.
        edges: Source, target and field of every edge.
        declared: The declaration of each field, by node and name, for the label at its source.
    """
    fields = [list(dict.fromkeys(name for source, _, name in edges if source == node)) for node in range(len(titles))]
    labels = [{name: _label(name, declared.get((node, name))) for name in names} for node, names in enumerate(fields)]
    heights = [TITLE + (CHIP + PAD if names else 0) for names in fields]
    tops = accumulate((height + BETWEEN for height in heights), initial=0.0)
    boxes = [_box(*row) for row in zip(tops, titles, heights, labels, strict=False)]
    right = max(box.width for box in boxes)
    lanes = _lanes(edges)
    parts = [
        f"<g><title>{escape(edge[2])}</title><path d='{_line(edge, boxes, right + LANE * lane)}'/></g>"
        for edge, lane in zip(edges, lanes, strict=True)
    ]
    for node, (box, title) in enumerate(zip(boxes, titles, strict=True)):
        parts += _draw_chips(box, title, labels[node], node in (0, len(titles) - 1))
    width = right + LANE * max(lanes, default=0) + 2 * MARGIN
    height = boxes[-1].top + boxes[-1].height + 2 * MARGIN
    view = f"viewBox='{-MARGIN:g} {-MARGIN:g} {width:.0f} {height:.0f}'"
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' class='tcg' width='{width:.0f}' height='{height:.0f}' {view}>"
        f"<style>{STYLE}</style>{''.join(parts)}</svg>"
    )


def _label(name: str, declared: str | None) -> str:
    return f"{name} {declared}".replace('["', "[").replace('"]', "]") if declared else name


def _box(top: float, title: str, height: float, labels: Mapping[str, str]) -> Box:
    chips, left = {}, PAD
    for name, label in labels.items():
        chips[name] = left, CHAR * len(label) + PAD
        left += chips[name][1] + GAP
    return Box(top, max(TITLE_CHAR * len(title) + PAD, left - GAP) + PAD, height, chips)


def _lanes(edges: Sequence[Edge]) -> list[int]:
    """The lane of every edge; 0 for an edge to the next node. Lines in the same lane don't overlap."""
    taken: list[Edge] = []
    found: dict[Edge, int] = {}
    for edge in sorted(edges, key=lambda edge: edge[1] - edge[0]):
        beside = {found[other] for other in taken if other[0] < edge[1] and edge[0] < other[1]}
        found[edge] = next(n for n in range(1, len(edges) + 2) if n not in beside) if edge[1] - edge[0] > 1 else 0
        taken.append(edge)
    return [found[edge] for edge in edges]


def _line(edge: Edge, boxes: Sequence[Box], lane: float) -> str:
    """The path of a line from the field label to the top of the target; it turns between the rows."""
    source, target = boxes[edge[0]], boxes[edge[1]]
    left, width = source.chips[edge[2]]
    x, y, end = left + width / 2, source.top + source.height, target.top
    into = min(x, target.width - PAD)
    if edge[1] == edge[0] + 1:
        return f"M{x:.1f} {y:.1f}{_curve(x, y, into, end)}"
    turn, back = y + BETWEEN, end - BETWEEN
    return f"M{x:.1f} {y:.1f}{_curve(x, y, lane, turn)}L{lane:.1f} {back:.1f}{_curve(lane, back, into, end)}"


def _curve(x: float, y: float, to: float, end: float) -> str:
    middle = (y + end) / 2
    return f"C{x:.1f} {middle:.1f} {to:.1f} {middle:.1f} {to:.1f} {end:.1f}"


def _draw_chips(box: Box, title: str, labels: Mapping[str, str], end: bool) -> Iterator[str]:
    kind = " class='end'" if end else ""
    yield f"<rect{kind} x='0' y='{box.top:.1f}' width='{box.width:.1f}' height='{box.height:.1f}' rx='6'/>"
    yield f"<text class='title' x='{PAD}' y='{box.top + 19:.1f}'>{escape(title)}</text>"
    top = box.top + TITLE
    for (left, width), label in zip(box.chips.values(), labels.values(), strict=True):
        yield f"<rect class='chip' x='{left:.1f}' y='{top:.1f}' width='{width:.1f}' height='{CHIP:g}' rx='9'/>"
        yield f"<text x='{left + PAD / 2:.1f}' y='{top + 14:.1f}'>{escape(label)}</text>"
