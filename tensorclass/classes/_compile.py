"""Generated functions: compiled once, readable in tracebacks; the source is freed with the function."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any
from weakref import finalize

_counter = itertools.count()


def compile_function(
    source: str, name: str, owner: type | FunctionType, names: Mapping[str, Any], space: dict[str, Any]
) -> Callable[..., Any]:
    """Compile a function of a class from its source, which is indented by one level from the second line on.

    Args:
        source: The text of the function.
        name: The name of the function in the text.
        owner: The class, or the function that is wrapped, for messages.
        names: The values that only this function uses. They are in its closure, so that they are freed with it: dynamo
            imports the module of a function by name and keeps it, and a module keeps its globals.
        space: The globals of the function: those of the module that writes the source.
    """
    filename = f"<{name} of {owner.__module__}.{owner.__qualname__} #{next(_counter)}>"
    lines = source.replace("\n", "\n    ")  # faster than `textwrap.indent`
    text = f"def make({', '.join(names)}):\n    {lines}return {name}\n"
    made: dict[str, Any] = {}
    exec(compile(text, filename, "exec"), space, made)
    function: Callable[..., Any] = made["make"](*names.values())  # keywords would be looked up one by one
    function.__qualname__ = f"{owner.__qualname__}.{name}"
    # Debuggers, tracebacks and `inspect.getsource` show the text as long as the code exists.
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    finalize(function.__code__, linecache.cache.pop, filename, None).atexit = False
    return function
