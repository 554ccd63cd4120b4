"""Long runs of the machine: `python -m tests.contract.fuzz --untyped 200000 --typed 50000 --seed 0`.

Each divergence is printed with the steps that are needed; the exit status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import torch

from tests.contract._machine import STARTS, draw, run, shrink

UNTYPED, TYPED = STARTS
LENGTH = 4


def fuzz(kinds: list[str], count: int, first: int, length: int) -> int:
    """Run sequences from kinds in turn, say which diverge; how many did."""
    diverged, begun = 0, time.process_time()
    for number in range(count):
        sequence = draw(first + number, length, kinds[number % len(kinds)])
        try:
            run(sequence)
        except Exception as error:  # a crash is a divergence too
            diverged += 1
            print(type(error).__name__, str(error)[:400], shrink(sequence), sep="\n  ", flush=True)
        if (number + 1) % 1000 == 0 or number + 1 == count:
            spent = time.process_time() - begun
            print(f"{kinds[0]}: {number + 1} sequences, {diverged} diverged, {spent:.0f} s", flush=True)
    return diverged


def main(given: list[str] | None = None) -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("untyped", "typed", "seed"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--length", type=int, default=LENGTH)
    options: Any = parser.parse_args(given)
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fuzz([UNTYPED, ""], options.untyped, options.seed, options.length)
        return int(bool(found + fuzz([TYPED], options.typed, options.seed, options.length)))


if __name__ == "__main__":
    sys.exit(main())
