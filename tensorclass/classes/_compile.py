"""Generated source: compiled once, readable in tracebacks, importable by name so that torch.compile can trace it."""

from __future__ import annotations

import itertools
import linecache
import sys
import types
from collections.abc import Callable
from typing import Any

_counter = itertools.count()


def compile_function(source: str, name: str, owner: type, names: dict[str, Any]) -> Callable[..., Any]:
    """One function of one class from its source.

    Dynamo imports the module of a function by its name, so the globals live in a module of `sys.modules`; `linecache`
    holds the text, so that a debugger and `inspect.getsource` show it.
    """
    module_name = f"tensorclass.generated.{owner.__module__}.{owner.__qualname__}_{next(_counter)}"
    module = types.ModuleType(module_name)
    vars(module).update(names)
    sys.modules[module_name] = module
    filename = f"<{name} of {owner.__module__}.{owner.__qualname__} #{module_name.rpartition('_')[2]}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), vars(module))
    function: Callable[..., Any] = vars(module)[name]
    function.__qualname__ = f"{owner.__qualname__}.{name}"
    return function
