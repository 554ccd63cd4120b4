"""A pipeline as Mermaid text: modules are nodes, fields are edges."""

from __future__ import annotations

from collections.abc import Sequence

from ._slots import fields_of
from ._stage import Stage

Path = tuple[str, ...]


def mermaid(stages: Sequence[Stage], kinds: Sequence[str], input: type, output: type) -> str:
    """The flowchart of a pipeline.

    Args:
        stages: The modules in order.
        kinds: What each module is, for its node.
        input: The class that the pipeline takes.
        output: The class that it returns.
    """
    nodes = [f'    input(["{_text(input.__name__)}"])']
    nodes += [
        f'    m{i}["{i} {_text(_title(s.name, kind))}"]' for i, (s, kind) in enumerate(zip(stages, kinds, strict=True))
    ]
    nodes.append(f'    output(["{_text(output.__name__)}"])')
    return "\n".join(["flowchart TD", *nodes, *_edges(stages, input, output)]) + "\n"


def _title(name: str, kind: str) -> str:
    return name if name.startswith(kind) else f"{name}: {kind}"


def _edges(stages: Sequence[Stage], input: type, output: type) -> list[str]:
    writers: dict[Path, str] = {}
    edges = []
    for index, stage in enumerate(stages):
        for slot in stage.reads:
            edges.append(_edge(_source(slot.path, writers), f"m{index}", f"{slot.name}: {slot.spec}"))
        writers.update({slot.path: f"m{index}" for slot in stage.written})
    for path, writer in writers.items():
        if path[0] in fields_of(output):
            edges.append(_edge(writer, "output", ".".join(path)))
    known = fields_of(input)
    passed = [n for n in fields_of(output) if n in known and not known[n].produced and (n,) not in writers]
    return edges + ([_edge("input", "output", ", ".join(passed))] if passed else [])


def _source(path: Path, writers: dict[Path, str]) -> str:
    """The node that a field comes from: its writer, the writer of what encloses it, else the input."""
    found = (writers[path[:n]] for n in range(len(path), 0, -1) if path[:n] in writers)
    return next(found, "input")


def _edge(source: str, target: str, label: str) -> str:
    return f'    {source} -->|"{_text(label)}"| {target}'


def _text(text: str) -> str:
    # Mermaid has no escape for a quotation mark but the entity.
    return text.replace('["', "[").replace('"]', "]").replace('"', "#quot;")
