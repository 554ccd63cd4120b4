"""A pipeline as a graph: modules are nodes, fields are edges; as Mermaid text, SVG or a page of HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ...core._keys import Path
from ...errors import ModuleError
from ..parts._slots import Slot, fields_of
from ..parts._stage import Stage
from ._explain import Explanation
from ._svg import page, picture

Format = Literal["mermaid", "svg", "html"]


class Link(NamedTuple):
    """A field between two nodes: the input is node 0, module `i` node `i + 1`, the output the last."""

    source: int
    target: int
    field: str
    slot: Slot | None


class Graph(NamedTuple):
    """The nodes of a pipeline by title, and the links between them."""

    titles: tuple[str, ...]
    links: tuple[Link, ...]


def graph_of(stages: Sequence[Stage], kinds: Sequence[str], input: type, output: type) -> Graph:
    """The graph of a pipeline.

    Args:
        stages: The modules in order.
        kinds: What each module is, for its node.
        input: The class that the pipeline takes.
        output: The class that it returns.
    """
    titles = [f"{i} {_title(s.name, kind)}" for i, (s, kind) in enumerate(zip(stages, kinds, strict=True))]
    return Graph((input.__name__, *titles, output.__name__), tuple(_links(stages, input, output)))


def _title(name: str, kind: str) -> str:
    return name if name.rpartition(".")[2].startswith(kind) else f"{name}: {kind}"


def _links(stages: Sequence[Stage], input: type, output: type) -> list[Link]:
    writers: dict[Path, int] = {}
    links = []
    for node, stage in enumerate(stages, 1):
        links += [Link(_source(slot.path, writers), node, ".".join(slot.path), slot) for slot in stage.reads]
        writers.update({slot.path: node for slot in stage.written})
    end = len(stages) + 1
    links += [Link(node, end, ".".join(path), None) for path, node in writers.items() if path[0] in fields_of(output)]
    known = fields_of(input)
    passed = [n for n in fields_of(output) if n in known and not known[n].produced and (n,) not in writers]
    return links + [Link(0, end, name, None) for name in passed]


def _source(path: Path, writers: dict[Path, int]) -> int:
    """The node that a field comes from: its writer, the writer of what encloses it, else the input."""
    found = (writers[path[:n]] for n in range(len(path), 0, -1) if path[:n] in writers)
    return next(found, 0)


def draw(graph: Graph, stages: Sequence[Stage], explanation: Explanation, format: Format) -> str:
    """The text of a drawing.

    Raises:
        ModuleError: for a format that is not known.
    """
    if format == "mermaid":
        return mermaid(graph)
    if format not in ("svg", "html"):
        raise ModuleError(f"format={format!r}: a pipeline is drawn as 'mermaid', 'svg' or 'html'")
    declared = {(node, ".".join(s.path)): str(s.spec) for node, stage in enumerate(stages, 1) for s in stage.written}
    declared |= {(0, link.field): str(link.slot.spec) for link in graph.links if link.source == 0 and link.slot}
    drawing = picture(graph.titles, [(link.source, link.target, link.field) for link in graph.links], declared)
    return drawing if format == "svg" else page(f"{graph.titles[0]} → {graph.titles[-1]}", drawing, str(explanation))


# ---- Mermaid -----------------------------------------------------------------------------------------------------


def mermaid(graph: Graph) -> str:
    """The flowchart as Mermaid text."""
    names = ["input", *(f"m{i}" for i in range(len(graph.titles) - 2)), "output"]
    rows = [f'    {name}["{_text(title)}"]' for name, title in zip(names, graph.titles, strict=True)]
    for end in (0, -1):
        rows[end] = f'    {names[end]}(["{_text(graph.titles[end])}"])'
    passed = [link.field for link in graph.links if (link.source, link.target) == (0, len(names) - 1)]
    for link in graph.links:
        if link.field in passed and link.source == 0 and link.slot is None:
            continue
        label = link.field if link.slot is None else f"{link.field}: {link.slot.spec}"
        rows.append(f'    {names[link.source]} -->|"{_text(label)}"| {names[link.target]}')
    rows += [f'    input -->|"{_text(", ".join(passed))}"| output'] if passed else []
    return "\n".join(["flowchart TD", *rows]) + "\n"


def _text(text: str) -> str:
    # Mermaid has no escape for a quotation mark but the entity.
    return text.replace('["', "[").replace('"]', "]").replace('"', "#quot;")
