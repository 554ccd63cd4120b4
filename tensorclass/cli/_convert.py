"""`tensorclass convert`: converts the rows of a file or folder to another format."""

from __future__ import annotations

import argparse
import sys

from .._schema import is_tensorclass
from ..errors import ArgumentError, MissingExtraError, TensorClassError
from ..io import convert
from ..io.exchange._formats import FORMATS
from ._main import CommandError, on_disk
from ._target import load_target, running


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    endings = ", ".join(ending for ending in FORMATS if ending)
    parser.add_argument(
        "source", type=on_disk, metavar="SRC", help=f"what to read: {endings}, or the folder of a dataset"
    )
    parser.add_argument("target", type=on_disk, metavar="DST", help="what to write: the same")
    parser.add_argument("--class", dest="cls", metavar="MODULE:CLASS", help="the class of the rows, which are checked")
    parser.add_argument("--max-bytes", type=int, metavar="N", help="the most memory that reading a part may take")
    parser.add_argument("--force", action="store_true", help="replace what is there")


def run(arguments: argparse.Namespace) -> int:
    """Convert; exit status 1 if the rows can't be converted, 2 for a wrong command."""
    cls = None if arguments.cls is None else _class_of(arguments.cls)
    try:
        convert(arguments.source, arguments.target, cls, force=arguments.force, max_bytes=arguments.max_bytes)
    except (ArgumentError, FileExistsError, FileNotFoundError) as error:
        raise CommandError(str(error)) from None
    except MissingExtraError:
        raise
    except (TensorClassError, OSError, TypeError) as error:
        print(f"tensorclass: {error}", file=sys.stderr)
        return 1
    return 0


def _class_of(target: str) -> type:
    with running(target):
        found = load_target(target)
    if not is_tensorclass(found):
        raise CommandError(f"{target} is not a tensorclass; write --class MODULE:CLASS")
    return found  # type: ignore[no-any-return]  # a class
