"""`tensorclass verify`: checks that files and datasets are intact."""

from __future__ import annotations

import argparse

from ..errors import printable
from ..io._inspect import verify
from ._main import shorten_lines


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("paths", metavar="PATH", nargs="+", help="a file, its folder, or a dataset")
    parser.add_argument("--pbar", action="store_true", help="show the progress")


def run(arguments: argparse.Namespace) -> int:
    """Print the faults; exit status 1 if there are any."""
    wrong = 0
    for path in arguments.paths:
        found = verify(path, arguments.pbar)
        wrong += len(found)
        print(shorten_lines(list(map(str, found))) if found else printable(f"{path}: right"))
    return int(wrong > 0)
