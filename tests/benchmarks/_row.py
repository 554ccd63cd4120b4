"""What a row of the benchmark says: the statement of each candidate, the samples it runs on, the targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Candidate = Literal["raw", "anchor_class", "anchor_dict", "our_class", "our_dict"]
CANDIDATES: tuple[Candidate, ...] = get_args(Candidate)
OBJECTS = CANDIDATES[1:]
DICTS: tuple[Candidate, ...] = ("anchor_dict", "our_dict")

FLAT = ("2", "8", "50")
SIZES = ("2", "8", "nested", "50")
MIXED = ("8 + str", "8 + optional")
FLOOR = 1.15


@dataclass(frozen=True)
class Row:
    """One operation.

    Args:
        name: what the table shows.
        group: the section of the table.
        statements: Python source for each candidate that takes part; the names it may use are those of
            `_samples.names`. An expression is compared between the candidates, after a statement `x` is.
        samples: the samples that it runs on.
        gain: our class takes at most 1 / gain of the anchor's class, at 2 to 8 fields; at 50 no longer than it.
        floor: our class takes at most this multiple of raw tensors at 8 and more fields; None where raw code does not
            do the same work: it validates nothing.
        compiled: the statement is the body of a function under `torch.compile(fullgraph=True)`.
        levels: the raw statement handles one level, and runs once for each level of a nested sample.
        comparable: results are equal across the candidates.
    """

    name: str
    group: str
    statements: Mapping[Candidate, str]
    samples: tuple[str, ...] = SIZES
    gain: float = 1.0
    floor: float | None = FLOOR
    compiled: bool = False
    levels: bool = True
    comparable: bool = True

    def gain_at(self, sample: str) -> float:
        """The least ratio of the anchor's time to ours."""
        return min(self.gain, 1.0) if sample == "50" else self.gain

    def floor_at(self, sample: str) -> float | None:
        """The largest ratio of our time to that of raw tensors."""
        return None if sample in ("2", "1000 rows") else self.floor


@dataclass(frozen=True)
class Group:
    """Rows that share a section: `add` collects them."""

    name: str
    samples: tuple[str, ...] = SIZES
    rows: list[Row] = field(default_factory=list)

    def add(
        self,
        name: str,
        objects: str | None,
        raw: str | None,
        *,
        samples: tuple[str, ...] = (),
        gain: float = 1.0,
        floor: float | None = FLOOR,
        compiled: bool = False,
        levels: bool = True,
        comparable: bool = True,
        **others: str | None,
    ) -> None:
        """Add a row: one statement for all containers, one for raw tensors, and what differs by candidate.

        `others` may name a candidate, or `dicts` for both untyped containers; None leaves a candidate out.
        """
        statements: dict[Candidate, str | None] = {"raw": raw, **dict.fromkeys(OBJECTS, objects)}
        if "dicts" in others:
            statements.update(dict.fromkeys(DICTS, others.pop("dicts")))
        for candidate in CANDIDATES:
            statements[candidate] = others.pop(candidate, statements[candidate])
        if others:
            raise TypeError(f"no such candidate: {', '.join(others)}")
        present = {candidate: text for candidate, text in statements.items() if text is not None}
        samples = samples or self.samples
        self.rows.append(Row(name, self.name, present, samples, gain, floor, compiled, levels, comparable))
