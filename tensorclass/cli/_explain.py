"""`tensorclass explain`: the state of a pipeline after every module."""

from __future__ import annotations

import argparse

from ..errors import page_of
from ..nn import CODES
from ._pipelines import load_pipeline


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("target", metavar="FILE.py[:PIPELINE]", help="the pipeline, or a code such as E108")
    parser.add_argument("--batch-size", type=int, nargs="+", default=[], metavar="N", help="the batch dims")
    parser.add_argument("--size", type=_size, action="append", default=[], metavar="DIM=N", help="a named dim")


def run(arguments: argparse.Namespace) -> int:
    """Print the table, or what a code means."""
    if arguments.target in CODES:
        page = page_of("errors")
        print(f"{arguments.target}: {CODES[arguments.target]}\n{page} has a program with it, and the remedy")
        return 0
    print(load_pipeline(arguments.target).explain(arguments.batch_size, **dict(arguments.size)))
    return 0


def _size(text: str) -> tuple[str, int]:
    name, _, size = text.partition("=")
    if not name.isidentifier() or not size.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not DIM=N")
    return name, int(size)
