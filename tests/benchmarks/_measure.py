"""Times of all candidates of a row on one sample, and the ratios that have targets."""

from __future__ import annotations

import statistics
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ._cell import cell
from ._clock import Statement, medians
from ._row import Candidate, Row


@dataclass(frozen=True)
class Ratio:
    """A measured ratio beside what it must be."""

    name: str
    value: float
    target: float | None
    at_least: bool

    @property
    def passed(self) -> bool:
        """Whether the target is met; without one there is nothing to miss."""
        if self.target is None:
            return True
        return self.value >= self.target if self.at_least else self.value <= self.target

    @property
    def rule(self) -> str:
        """The target with its direction; empty without one."""
        return "" if self.target is None else f"{'≥' if self.at_least else '≤'} {self.target:g}"

    def __str__(self) -> str:
        if self.target is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} ({self.rule}){'' if self.passed else ' MISS'}"


@dataclass(frozen=True)
class Result:
    """The times of one row on one sample in nanoseconds, and why candidates have none."""

    row: Row
    sample: str
    times: dict[Candidate, float]
    failures: dict[Candidate, str]

    def _ratio(self, a: Candidate, b: Candidate) -> float | None:
        return self.times[a] / self.times[b] if a in self.times and b in self.times else None

    @property
    def gain(self) -> Ratio | None:
        """How many times faster than the anchor's class we are; than its TensorDict where a class can't take part."""
        value = self._ratio("anchor_class", "our_class") or self._ratio("anchor_dict", "our_class")
        return value and Ratio("faster than the anchor", value, self.row.gain_at(self.sample), True)  # type: ignore[return-value]  # 0.0 is no time

    @property
    def floor(self) -> Ratio | None:
        """Our time over that of raw tensors."""
        value = self._ratio("our_class", "raw")
        return None if value is None else Ratio("of raw tensors", value, self.row.floor_at(self.sample), False)

    @property
    def dict_gain(self) -> Ratio | None:
        """How many times faster than the anchor's TensorDict ours is."""
        value = self._ratio("anchor_dict", "our_dict")
        return None if value is None else Ratio("faster than its TensorDict", value, 1.0, True)

    def ratios(self) -> list[Ratio]:
        """Those that could be measured."""
        return [ratio for ratio in (self.gain, self.floor, self.dict_gain) if ratio is not None]


def measure(row: Row, sample: str, rounds: int, round_ns: int) -> Result:
    """Prepare every candidate, then let them take turns; one that raises is reported and left out."""
    statements: dict[Candidate, Statement] = {}
    failures: dict[Candidate, str] = {}
    for candidate in row.statements:
        try:
            statement = cell(row, candidate, sample)
            statement.once()
            statements[candidate] = statement
        except Exception as error:  # a candidate may raise anything; the table shows it
            failures[candidate] = f"{type(error).__name__}: {error}".splitlines()[0]
    times = medians(list(statements.values()), rounds, round_ns)
    return Result(row, sample, dict(zip(statements, times, strict=True)), failures)


def middle(results: Sequence[Result]) -> Result:
    """Several results of one row and sample as one: the median of each time."""
    first = results[0]
    times = {candidate: statistics.median([result.times[candidate] for result in results]) for candidate in first.times}
    return Result(first.row, first.sample, times, first.failures)


def mean_gain(results: Iterable[Result], samples: Container[str]) -> float:
    """The geometric mean of how many times faster than the anchor's class ours is, over rows where both take part."""
    pairs = [result.times for result in results if result.sample in samples]
    gains = [times["anchor_class"] / times["our_class"] for times in pairs if {"anchor_class", "our_class"} <= {*times}]
    return statistics.geometric_mean(gains) if gains else float("nan")


def measure_all(rows: list[Row], rounds: int, round_ns: int) -> Iterator[Result]:
    """Every row on every one of its samples."""
    for row in rows:
        for sample in row.samples:
            yield measure(row, sample, rounds, round_ns)
