"""Every cell of the benchmark runs, and the candidates of a row compute the same. Nothing here is timed."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
import torch

from tests._sources import ROOT
from tests.benchmarks._cell import cell, splits_levels
from tests.benchmarks._clock import Statement, medians
from tests.benchmarks._compare import joined, plain, same
from tests.benchmarks._measure import Ratio, Result
from tests.benchmarks._report import BEGIN, END, Import, line, markdown, summary, write_page
from tests.benchmarks._row import MIXED, Candidate, Row
from tests.benchmarks._rows import rows
from tests.benchmarks._samples import TEXT

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
        return _tensors(plain(value), sample) if row.comparable else value
    if isinstance(value, dict):  # a statement leaves its result in the whole batch
        return plain(value)
    return joined(*map(plain, value))


def _tensors(value: object, sample: str) -> object:
    """A result without the text that raw code holds apart."""
    if isinstance(value, list):
        return [_tensors(part, sample) for part in value]
    return {k: v for k, v in value.items() if k != TEXT} if sample in MIXED and isinstance(value, dict) else value


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


def _results() -> list[Result]:
    """One result that meets its target, one that misses two, one with a failure."""
    first, second, third = rows("get ")[0], rows("x[0:2]")[0], rows("flatten_keys")[0]
    return [
        Result(first, "8", {"raw": 10.0, "anchor_class": 400.0, "our_class": 50.0}, {}),
        Result(second, "8", {"raw": 100.0, "anchor_class": 130.0, "our_class": 120.0}, {}),
        Result(third, "5 levels", {"raw": 1.0, "anchor_dict": 2.0}, {"our_dict": "KeyError: 'a'"}),
    ]


def test_summary_counts_and_names_misses() -> None:
    """Ratios without a target are not counted; misses and failures are listed."""
    text = summary(_results())
    assert text.startswith("1 of 3 targets met\n")
    assert "x[0:2] (8): faster than the anchor 1.08 (≥ 1.7) MISS" in text
    assert "x[0:2] (8): of raw tensors 1.20 (≤ 1.15) MISS" in text
    assert "our_dict KeyError: 'a'" in text


def test_line_shows_failures() -> None:
    """A candidate that raised is marked in its column and explained below."""
    shown = line(_results()[2]).splitlines()
    assert "fails" in shown[0]
    assert shown[1].strip() == "our_dict: KeyError: 'a'"


def test_page_is_written_between_the_markers(tmp_path: Path) -> None:
    """What is written by hand stays, what was measured before goes; misses stand out and are listed."""
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", "utf-8")
    write_page(markdown(_results(), Import(0.3, 1.0)), page)
    text = page.read_text("utf-8")
    assert text.startswith("before\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert "| `x[0:2]` | 8 | 0.1 | 0.13 |  | 0.12 |  | **1.08** (≥ 1.7) | **1.20** (≤ 1.15) |  |" in text
    assert "- `x[0:2]`, of raw tensors, ≤ 1.15: 1.20 (8)" in text
    assert "Import: 0.300 s after torch (≤ 0.25 s) MISS" in text


def test_page_without_markers_is_left_alone(tmp_path: Path) -> None:
    """A page that lost its markers is not overwritten."""
    page = tmp_path / "performance.md"
    page.write_text("by hand", "utf-8")
    with pytest.raises(ValueError, match="write between"):
        write_page("new", page)
    assert page.read_text("utf-8") == "by hand"


def test_names_are_unique() -> None:
    """A row and a sample name one line of the table."""
    cells = [(row.name, sample) for row in rows() for sample in row.samples]
    assert len(cells) == len(set(cells))


def test_only_selects() -> None:
    """A pattern finds rows by name and by section, in any case."""
    assert {row.name for row in rows("EXPAND")} == {"expand(2, 3, 4)"}
    found = rows("compiled")
    assert {"Compiled"} < {row.group for row in found}
    assert all("compiled" in f"{row.group} {row.name}".lower() for row in found)
    assert rows("no such row") == []


@pytest.mark.parametrize(
    ("shown", "row"),
    [("construct", "| `construct` | 8 |"), ("`x[0]`", "| `x[0]` | 8 |"), ("a sequence of five", "| `5 x Linear` |")],
)
def test_the_readme_has_the_figures_of_the_page(shown: str, row: str) -> None:
    """The times in README are those of the last measurement."""
    readme = next(text for text in _lines("README.md") if text.startswith(f"| {shown}"))
    page = next(text for text in _lines("docs/performance-tables.md") if text.startswith(row))
    figures = set(re.findall(r"\d+(?:\.\d+)?", page))
    assert len(times := re.findall(r"(?<=\| )\d+(?:\.\d+)?(?= )", readme)) >= 2
    assert [time for time in times if not any(time in (figure, f"{float(figure):.1f}") for figure in figures)] == []


def _lines(page: str) -> list[str]:
    return (ROOT / page).read_text("utf-8").splitlines()
