"""Every cell of the benchmark runs, and the candidates of a row compute the same. Nothing here is timed."""

from __future__ import annotations

import warnings

import pytest
import torch

from tests.benchmarks._cell import cell, splits_levels
from tests.benchmarks._clock import Statement, medians
from tests.benchmarks._compare import joined, plain, same
from tests.benchmarks._measure import Ratio, Result
from tests.benchmarks._row import Candidate, Row
from tests.benchmarks._rows import rows

EAGER = [(row, sample) for row in rows() if not row.compiled for sample in row.samples]
COMPILED = [(row, sample) for row in rows() if row.compiled for sample in row.samples]


def _name(value: object) -> str:
    return value.name if isinstance(value, Row) else str(value)


def _result(row: Row, candidate: Candidate, sample: str) -> object:
    """What a cell computes; a second run on the same data computes it again."""
    statement = cell(row, candidate, sample, backend="aot_eager")
    statement.once()
    value = statement.once()
    if not splits_levels(row, candidate, sample):
        return plain(value) if row.comparable else value
    if isinstance(value, dict):  # a statement leaves its result in the whole batch
        return plain(value)
    return joined(*map(plain, value))


def _check(row: Row, sample: str) -> None:
    expected, *results = [_result(row, candidate, sample) for candidate in row.statements]
    if row.comparable:
        agree = [same(expected, result) for result in results]
        assert all(agree), f"{row.name}: {dict(zip(list(row.statements)[1:], agree, strict=True))}"


@pytest.mark.parametrize(("row", "sample"), EAGER, ids=_name)
def test_candidates_agree(row: Row, sample: str) -> None:
    """Each candidate of a row runs twice on each sample, and what it computes is what raw tensors give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the anchor's own
        _check(row, sample)


@pytest.mark.slow
@pytest.mark.parametrize(("row", "sample"), COMPILED, ids=_name)
def test_compiled_candidates_agree(row: Row, sample: str) -> None:
    """The same under torch.compile without a graph break."""
    torch.compiler.reset()
    _check(row, sample)


def test_disagreement_is_found() -> None:
    """Another value, dtype, key or length is a difference; the order of keys is none."""
    x = torch.ones(2)
    assert same({"a": x, "b": [x]}, {"b": [x.clone()], "a": x})
    for other in ({"a": x + 1, "b": [x]}, {"a": x.double(), "b": [x]}, {"a": x}, {"a": x, "b": [x, x]}, x):
        assert not same({"a": x, "b": [x]}, other)


def test_clock_counts_runs() -> None:
    """A statement runs as often as it is asked to, over the data that it was given."""
    calls: list[int] = []
    statement = Statement("calls.append(1)", {"calls": calls})
    statement.nanoseconds(7)
    assert len(calls) == 7
    assert all(time > 0 for time in medians([statement], rounds=3, round_ns=1000))


def test_targets_are_judged() -> None:
    """A gain must be reached, a floor must not be exceeded, and a ratio without a target is only shown."""
    assert Ratio("", 2.0, 2.0, at_least=True).passed
    assert not Ratio("", 1.9, 2.0, at_least=True).passed
    assert not Ratio("", 1.2, 1.15, at_least=False).passed
    assert Ratio("", 9.0, None, at_least=False).passed


def test_ratios_name_the_right_way_round() -> None:
    """Ours in 2, the anchor in 6, raw in 1: three times faster, twice the floor."""
    result = Result(rows()[0], "8", {"raw": 1.0, "anchor_class": 6.0, "our_class": 2.0}, {})
    assert result.gain is not None
    assert result.floor is not None
    assert (result.gain.value, result.floor.value, result.dict_gain) == (3.0, 2.0, None)


def test_names_are_unique() -> None:
    """A row and a sample name one line of the table."""
    cells = [(row.name, sample) for row in rows() for sample in row.samples]
    assert len(cells) == len(set(cells))


def test_only_selects() -> None:
    """A pattern finds rows by name and by section, in any case."""
    assert {row.name for row in rows("EXPAND")} == {"expand(2, 3, 4)"}
    assert {row.group for row in rows("compiled")} == {"Compiled"}
    assert rows("no such row") == []
