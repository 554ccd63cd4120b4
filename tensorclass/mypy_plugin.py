"""The plugin for mypy: `plugins = ["tensorclass.mypy_plugin"]` in `pyproject.toml`. See docs/typing.md.

It doesn't import torch. If the plugin itself fails, or can't be loaded in this mypy, a note says so, and mypy continues
without it.
"""

import re
import sys

from mypy.plugin import Plugin

OLDEST = (1, 16)
"""The oldest release of mypy that the plugin supports."""

try:
    from .typecheck.plugin._plugin import TensorClassPlugin
except Exception as _fault:  # internal modules of mypy may change; the program must still be checked
    found: type[Plugin] | None = None
    reason: str = f"{type(_fault).__name__}: {_fault}"
else:
    found, reason = TensorClassPlugin, ""


def plugin(version: str) -> type[Plugin]:
    """The entry point of mypy plugins.

    If the plugin can't work, it prints a line and returns a plugin that does nothing.
    """
    release = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found is not None and release >= OLDEST:
        return found
    why = reason if release >= OLDEST else f"it works with mypy {'.'.join(map(str, OLDEST))} and newer"
    text = f"tensorclass.mypy_plugin does nothing in mypy {version} ({why}); programs are checked without it"
    print(text, file=sys.stderr)  # noqa: T201  # mypy can't collect errors yet
    return Plugin
