"""`tensorclass check`: the build check of pipelines from the shell."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import BuildError
from ..nn import Diagnostic
from ..nn.typed._sequential import PROBING
from ._pipelines import Pipeline, load_pipelines


@dataclass(frozen=True)
class Result:
    """One pipeline, or the first one of a module that failed to build."""

    target: str
    title: str
    diagnostics: tuple[Diagnostic, ...]
    failed: bool

    def __str__(self) -> str:
        counts = [(kind, sum(d.severity == kind for d in self.diagnostics)) for kind in ("error", "warning", "note")]
        found = ", ".join(f"{n} {kind}{'s' if n != 1 else ''}" for kind, n in counts if n) or "right"
        return "\n\n".join([f"{self.target}: {self.title}: {found}", *map(str, self.diagnostics)])

    def data(self) -> dict[str, Any]:
        """The result as JSON types."""
        rows = [{**dataclasses.asdict(d), "severity": d.severity} for d in self.diagnostics]
        return {"target": self.target, "title": self.title, "ok": not self.failed, "diagnostics": rows}


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("targets", nargs="+", metavar="FILE.py[:PIPELINE]", help="a pipeline, or all of a module")
    parser.add_argument("--values", action="store_true", help="also see whether batch elements influence each other")
    parser.add_argument("--no-probe", action="store_true", help="check only the declarations")
    parser.add_argument("--format", choices=["text", "json"], default="text", help="what to print")


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; 0 if every pipeline is correct, 1 if one is wrong."""
    token = PROBING.enter(not arguments.no_probe)
    try:
        results = [result for target in arguments.targets for result in _results(target, arguments.values)]
    finally:
        PROBING.leave(token)
    as_json = arguments.format == "json"
    print(json.dumps([one.data() for one in results], indent=2) if as_json else "\n\n".join(map(str, results)))
    return int(any(result.failed for result in results))


def _results(target: str, values: bool) -> Iterator[Result]:
    try:
        pipelines = load_pipelines(target)
    except BuildError as error:
        yield _wrong(target, error)
        return
    for name, pipeline in pipelines.items():
        yield _result(target if target.endswith(f":{name}") else f"{target}:{name}", pipeline, values)


def _result(target: str, pipeline: Pipeline, values: bool) -> Result:
    title = f"{pipeline.input_class.__name__} -> {pipeline.output_class.__name__}"
    try:
        found = pipeline.check(values=True).diagnostics if values else pipeline.diagnostics
    except BuildError as error:
        return dataclasses.replace(_wrong(target, error), title=title)
    return Result(target, title, found, False)


def _wrong(target: str, error: BuildError) -> Result:
    title, _, _ = str(error).partition("\n")
    if error.diagnostics:
        return Result(target, title.rpartition(":")[0], error.diagnostics, True)
    return Result(target, f"the pipeline can't be built: {error}", (), True)
