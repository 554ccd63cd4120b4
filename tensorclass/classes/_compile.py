"""Generated source: compiled once, readable in tracebacks, gone with the function that was made of it."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Mapping
from textwrap import indent
from typing import Any
from weakref import finalize

_counter = itertools.count()


def compile_function(
    source: str, name: str, owner: type, names: Mapping[str, Any], space: dict[str, Any]
) -> Callable[..., Any]:
    """One function of one class from its source, which is one level deep from the second line on.

    Args:
        source: The text of the function.
        name: What it is called there.
        owner: The class, for messages.
        names: What this function has for itself. They are its closure, so that they go with it: dynamo imports the
            module of a function by name and never lets go of it, and a module holds its globals.
        space: The globals: those of the module that writes the source.
    """
    filename = f"<{name} of {owner.__module__}.{owner.__qualname__} #{next(_counter)}>"
    text = f"def make({', '.join(names)}):\n{indent(source, '    ')}    return {name}\n"
    made: dict[str, Any] = {}
    exec(compile(text, filename, "exec"), space, made)
    function: Callable[..., Any] = made["make"](**names)
    function.__qualname__ = f"{owner.__qualname__}.{name}"
    # So that a debugger, a traceback and `inspect.getsource` show the text, for as long as there is code to show.
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    finalize(function.__code__, linecache.cache.pop, filename, None).atexit = False
    return function
