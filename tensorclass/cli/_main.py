"""Parses the command line and calls the module of the subcommand."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, NoReturn

from .. import __version__
from .._content import read_content, write_content
from .._places import local_path
from ..errors import BuildError, MissingExtraError, ModuleError, UnsupportedOperationError, named, printable


class Command(NamedTuple):
    """A subcommand: its module in this folder has `configure(parser)` and `run(arguments) -> exit status`."""

    module: str
    summary: str
    example: str


COMMANDS: dict[str, Command] = {
    "check": Command("_check", "check pipelines; exit status 1 when one is wrong", "train.py"),
    "convert": Command(
        "_convert",
        "convert rows between files and folders: Parquet, CSV, HDF5, a dataset, ...",
        "rows.csv rows.parquet --class train.py:Digits",
    ),
    "diff": Command(
        "_diff",
        "compare two classes, or a class with a saved schema; exit status 1 for a breaking change",
        "digits.json train.py:Digits",
    ),
    "doctor": Command("_doctor", "list versions, extras and checker settings; exit status 1 if something is wrong", ""),
    "explain": Command("_explain", "print the fields that a pipeline holds after every module", "train.py:classifier"),
    "graph": Command("_graph", "draw a pipeline", "train.py:classifier --out classifier.svg"),
    "inspect": Command(
        "_inspect",
        "print what classes declare: as a table, Markdown, JSON or JSON Schema; or what a file or a dataset holds",
        "train.py:Digits",
    ),
    "lint": Command(
        "_lint", "find mistakes about batches and pipelines in source files; exit status 1 if there are any", "train.py"
    ),
    "lsp": Command("_lsp", "serve the findings of `lint` to an editor, as a language server", ""),
    "migrate": Command(
        "_migrate", "rewrite imports of tensordict and list the differences; exit status 1 if there are any", "src"
    ),
    "new": Command("_new", "write a class from data", "Digits --from rows.json"),
    "stubs": Command("_stubs", "write stubs for modules with typed classes, and for torch's functions", "src"),
    "verify": Command("_verify", "check files and datasets; exit status 1 when one is damaged", "rows.safetensors"),
}
"""Commands by name. A module is imported when its command is called, so no command pays for the imports of another."""


LINES = "\n\t"
"""The control characters that are printed; names in files have none of them when they are put into a message."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors end with an example."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong with the arguments, and exit with 2."""
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: {message}\n{self.epilog or ''}".rstrip() + "\n")

    def refuse(self, unknown: str) -> NoReturn:
        """The error for an argument that the command does not take."""
        options = sorted({*re.findall(r"--[\w-]+", self.format_help())})
        option = named(unknown.partition("=")[0], options)
        self.error(f"no option {option}" if unknown[0] == "-" else f"one argument too many: `{unknown}`")


class CommandError(Exception):
    """An error that the user of the command line can fix; printed without a traceback, exit status 2."""


def on_disk(text: str) -> Path:
    """The type of an argument that is a path on the disk; a URL is an error of the command line."""
    try:
        return Path(local_path(text))
    except UnsupportedOperationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def shorten_lines(lines: Sequence[str], most: int = 20) -> str:
    """Lines to print: at most `most` of them, then the number of the others."""
    more = [f"... and {len(lines) - most:,} more"] if len(lines) > most else []
    return "\n".join([*(printable(line, LINES) for line in lines[:most]), *more])


def write_file(path: Path, content: str | bytes, force: bool, mark: bytes = b"") -> None:
    """Write a new file. An existing file is replaced only with `--force`, or if it has the mark of this command.

    Raises:
        CommandError: for an existing file of the user, and for a file that can't be written.
    """
    try:
        own = mark and path.is_file() and mark in read_content(path)[:4096]
        if path.is_file() and not path.is_symlink() and not (force or own):
            raise CommandError(f"{path} exists; `--force` replaces it")
        write_content(path, content)
    except OSError as error:
        raise CommandError(f"can't write {path}: {error.strerror}") from None


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status.

    Args:
        argv: The arguments; by default those of the process.

    >>> main(["--version"])
    tensorclass 0.1.0
    0
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    called = arguments[0] if arguments else ""
    if called and called[0] != "-" and called not in COMMANDS:
        print(f"tensorclass: no command {named(called, COMMANDS)}; they are {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    parser = parser_of(called)
    try:
        parsed, unknown = parser.parse_known_args(arguments)
        if unknown:
            parsed.parser.refuse(unknown[0])
    except SystemExit as stop:  # argparse has printed the error
        return stop.code if isinstance(stop.code, int) else 2
    if parsed.version:
        print(f"tensorclass {__version__}")
        return 0
    run: Callable[[argparse.Namespace], int] | None = getattr(parsed, "run", None)
    if run is None:
        parser.print_help()
        return 2
    try:
        status = run(parsed)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the program that reads the output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (BuildError, CommandError, MissingExtraError, ModuleError, UnsupportedOperationError) as error:
        print(f"tensorclass: {printable(str(error), LINES)}", file=sys.stderr)
        return 1 if isinstance(error, BuildError) else 2


def parser_of(called: str) -> argparse.ArgumentParser:
    """The parser of the command line, with the arguments of one command, or of all commands for "*"."""
    parser = Parser(prog="tensorclass", description="Typed batches and pipelines for PyTorch.")
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.set_defaults(parser=parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, command in COMMANDS.items():
        example = f"example: tensorclass {name} {command.example}".rstrip()
        sub = commands.add_parser(name, help=command.summary, description=command.summary, epilog=example)
        if called in (name, "*"):
            module = import_module(f".{command.module}", __package__)
            module.configure(sub)
            sub.set_defaults(run=module.run, parser=sub)
    return parser
