"""`python -m tests.benchmarks [--quick] [--only PATTERN] [--repeats 3] [--markdown]`."""

from __future__ import annotations

import argparse
import gc
import warnings

import torch

from . import _report
from ._imports import import_seconds
from ._measure import measure_all, middle
from ._rows import rows

MILLISECOND = 1_000_000


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="5 short rounds instead of 25")
    parser.add_argument("--only", metavar="PATTERN", default="", help="rows or sections whose name contains this")
    parser.add_argument("--repeats", type=int, default=1, help="how many runs; the median of each time counts")
    parser.add_argument("--markdown", action="store_true", help="write the table to docs/performance-tables.md")
    arguments = parser.parse_args()
    if arguments.markdown and arguments.only:
        parser.error("--markdown writes the whole page; leave out --only")
    return arguments


def main() -> None:
    """Measure, print each row as it comes, then the summary."""
    arguments = _arguments()
    selected = rows(arguments.only)
    if not selected:
        raise SystemExit(f"no row or section contains {arguments.only!r}")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of the anchor and of torch.compile; the tests show ours
    gc.freeze()
    rounds, round_ns = (5, MILLISECOND // 2) if arguments.quick else (25, 2 * MILLISECOND)
    print(_report.header())
    runs = []
    for _ in range(arguments.repeats):
        runs.append([])
        for result in measure_all(selected, rounds, round_ns):
            print(_report.line(result), flush=True)
            runs[-1].append(result)
    results = [middle(same) for same in zip(*runs, strict=True)]
    print(_report.summary(results))
    imports = None
    if not arguments.only:
        repeats = 3 if arguments.quick else 9
        imports = _report.Import(*(import_seconds(name, repeats) for name in ("tensorclass", "tensordict")))
        print(imports)
    if arguments.markdown:
        _report.write_page(_report.markdown(results, imports))


if __name__ == "__main__":
    main()
