"""Loads the pipelines that a command-line target names; errors of its module are shown without a traceback."""

from __future__ import annotations

import inspect
import warnings
from types import ModuleType
from typing import Any

from ..errors import BuildError, few
from ..nn import PipelineWarning, TensorClassSequential
from ._main import CommandError
from ._target import load_target, members_of, running

Pipeline = TensorClassSequential[Any, Any]


def load_pipelines(target: str) -> dict[str, Pipeline]:
    """Every pipeline of a module, by name, or the named one. A function without parameters is called to get it.

    Raises:
        BuildError: if a pipeline is wrong.
        CommandError: if there is none, or if the module can't be run.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PipelineWarning)  # shown with the other diagnostics
        with running(target, BuildError):
            found = load_target(target)
        if isinstance(found, ModuleType):
            named = {name: value for name, value in members_of(found) if isinstance(value, TensorClassSequential)}
            found = {name: value for name, value in named.items() if name == _first_name(named, value)}
            if not found:
                raise CommandError(f"{target} has no TensorClassSequential; name a function, `{target}:function`")
            return found
        name = target.rpartition(":")[2]
        if inspect.isroutine(found) and not inspect.signature(found).parameters:
            with running(target, BuildError):
                found = found()
    if not isinstance(found, TensorClassSequential):
        what = f"the class {found.__qualname__}" if isinstance(found, type) else f"of type {type(found).__name__}"
        raise CommandError(f"{target} is {what}, not a TensorClassSequential{_others(target)}")
    return {name: found}


def load_pipeline(target: str) -> Pipeline:
    """The only pipeline that a target names.

    Raises:
        BuildError: if its pipeline is wrong.
        CommandError: if the module has several.
    """
    found = load_pipelines(target)
    if len(found) > 1:
        raise CommandError(f"{target} has several pipelines; name one: {', '.join(f'{target}:{n}' for n in found)}")
    return next(iter(found.values()))


def _others(target: str) -> str:
    """The pipelines of the module that a target names."""
    place = target.rpartition(":")[0]
    module = load_target(place)
    found = [f"`{place}:{name}`" for name, value in members_of(module) if isinstance(value, TensorClassSequential)]
    return f"; pipelines there are {few(found, between=', ')}" if found else ""


def _first_name(named: dict[str, Pipeline], pipeline: Pipeline) -> str:
    return next(name for name, value in named.items() if value is pipeline)
