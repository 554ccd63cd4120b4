"""The table: lines for the terminal while it runs, and the page docs/performance-tables.md."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import torch

from ._imports import LIMIT_SECONDS
from ._measure import Ratio, Result, mean_gain
from ._row import CANDIDATES, MIXED, Candidate

MEANS = ("2", "8", *MIXED, "nested", "50")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance-tables.md"
BEGIN, END = "<!-- begin: python -m tests.benchmarks --markdown -->", "<!-- end -->"
HEADERS = (
    "operation", "sample", "raw", "anchor class", "anchor TensorDict", "our class", "our TensorDict",
    "anchor class / ours", "ours / raw", "anchor TensorDict / ours",
)  # fmt: skip


@dataclass(frozen=True)
class Import:
    """Processor seconds that an import adds to `import torch`."""

    ours: float
    anchor: float

    def __str__(self) -> str:
        verdict = "" if self.ours <= LIMIT_SECONDS else " MISS"
        return f"import: {self.ours:.3f} s after torch (≤ {LIMIT_SECONDS} s){verdict}; the anchor {self.anchor:.3f} s"


def microseconds(nanoseconds: float) -> str:
    """Three significant digits, in microseconds."""
    value = nanoseconds / 1000
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _time(result: Result, candidate: Candidate) -> str:
    if candidate in result.failures:
        return "fails"
    return microseconds(result.times[candidate]) if candidate in result.times else ""


def line(result: Result) -> str:
    """One result for the terminal."""
    times = " ".join(f"{_time(result, candidate):>8}" for candidate in CANDIDATES)
    ratios = " ".join(
        f"{'' if ratio is None else str(ratio):<18}" for ratio in (result.gain, result.floor, result.dict_gain)
    )
    failures = "".join(f"\n    {candidate}: {why}" for candidate, why in result.failures.items())
    return f"{result.row.name:<24}{result.sample:<13}{times}   {ratios}".rstrip() + failures


def header() -> str:
    """What the columns of `line` are."""
    times = " ".join(f"{name:>8}" for name in ("raw", "anc.cls", "anc.td", "our.cls", "our.td"))
    ratios = " ".join(f"{name:<18}" for name in ("anchor/ours", "ours/raw", "anchor/our td"))
    return f"{'microseconds':<37}{times}   {ratios}"


def missed(results: Sequence[Result]) -> list[tuple[Result, Ratio]]:
    """Every ratio that misses its target."""
    return [(result, ratio) for result in results for ratio in result.ratios() if not ratio.passed]


def summary(results: Sequence[Result]) -> str:
    """How many targets were met, and those that were not."""
    judged = [ratio for result in results for ratio in result.ratios() if ratio.target is not None]
    misses = missed(results)
    lines = [f"  {result.row.name} ({result.sample}): {ratio.name} {ratio}" for result, ratio in misses]
    means = ", ".join(f"{mean_gain(results, (size,)):.2f} ({size})" for size in MEANS)
    lines.insert(0, f"geometric mean of anchor class / ours: {means}")
    failures = dict.fromkeys(f"  {r.row.name}: {c} {why}" for r in results for c, why in r.failures.items())
    return "\n".join([f"{len(judged) - len(misses)} of {len(judged)} targets met", *lines, *failures])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [text.partition(":")[2].strip() for text in lines if text.startswith("model name")]
    return models[0] if models else platform.machine()


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _shown(ratio: Ratio | None) -> str:
    """A ratio on the page: a miss stands out."""
    if ratio is None or ratio.passed:
        return "" if ratio is None else str(ratio)
    return f"**{ratio.value:.2f}** ({ratio.rule})"


def _cells(result: Result) -> list[str]:
    ratios = [_shown(ratio) for ratio in (result.gain, result.floor, result.dict_gain)]
    times = [_time(result, candidate) for candidate in CANDIDATES]
    return [f"`{result.row.name}`", result.sample, *times, *ratios]


def _table(results: Sequence[Result]) -> list[str]:
    rule = _row(["---", "---", *["---:"] * (len(HEADERS) - 2)])
    return [_row(HEADERS), rule, *(_row(_cells(result)) for result in results)]


def _misses(results: Sequence[Result]) -> list[str]:
    """One line for each operation and target, with the samples that miss it."""
    found: dict[str, list[str]] = {}
    for result, ratio in missed(results):
        values = found.setdefault(f"`{result.row.name}`, {ratio.name}, {ratio.rule}", [])
        values.append(f"{ratio.value:.2f} ({result.sample})")
    return [f"- {target}: {', '.join(values)}" for target, values in found.items()] or ["None: every target is met."]


def markdown(results: Sequence[Result], imports: Import | None) -> str:
    """What stands between the markers of the page."""
    day = datetime.now(timezone.utc).date().isoformat()
    versions = f"torch {torch.__version__}, tensordict {version('tensordict')}, Python {platform.python_version()}"
    lines = [f"Measured {day} with {versions} on one thread of {_processor()}; microseconds.", ""]
    if imports is not None:
        lines += [f"{str(imports)[0].upper()}{str(imports)[1:]}.", ""]
    means = [f"{mean_gain(results, (size,)):.2f} ({size})" for size in MEANS]
    lines += [f"Geometric mean of *anchor class / ours* over the rows of a sample: {', '.join(means)}.", ""]
    for group, members in groupby(results, lambda result: result.row.group):
        lines += [f"## {group}", "", *_table(list(members)), ""]
    lines += ["## Targets that are missed", "", *_misses(results), ""]
    return "\n".join(lines)


def write_page(text: str, page: Path = PAGE) -> None:
    """Replace what stands between the markers; the rest of the page is written by hand."""
    before, begin, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page.name} has no lines `{BEGIN}` and `{END}` to write between")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", "utf-8")
