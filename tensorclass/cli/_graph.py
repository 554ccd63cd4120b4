"""`tensorclass graph`: a pipeline as Mermaid text, SVG or a page of HTML."""

from __future__ import annotations

import argparse
from pathlib import Path

from ._main import CommandError
from ._pipelines import load_pipeline

FORMATS = {".svg": "svg", ".html": "html", ".htm": "html"}


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("target", metavar="FILE.py[:PIPELINE]", help="the pipeline")
    parser.add_argument("--format", choices=["mermaid", "svg", "html"], help="by default what the file's name says")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write; by default the standard output")


def run(arguments: argparse.Namespace) -> int:
    """Draw the pipeline."""
    out: Path | None = arguments.out
    text = load_pipeline(arguments.target).graph(arguments.format or FORMATS.get(out.suffix if out else "", "mermaid"))  # type: ignore[arg-type]  # one of the formats
    if out is None:
        print(text)
        return 0
    try:
        out.write_text(text, "utf-8")
    except OSError as error:
        raise CommandError(f"can't write {out}: {error.strerror}") from None
    return 0
