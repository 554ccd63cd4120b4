"""The plugin for mypy: `plugins = ["tensorclass.mypy_plugin"]` in `pyproject.toml`. See docs/typing.md.

It imports no torch. A fault of its own is a note, and mypy goes on as without it: with a mypy in which it can't be
loaded too.
"""

import re
import sys

from mypy.plugin import Plugin

OLDEST = (1, 16)
"""The first release of mypy that the plugin works with."""

try:
    from .typecheck.plugin._plugin import TensorClassPlugin
except Exception as fault:  # mypy's own modules change, and a program is checked all the same
    found: type[Plugin] | None = None
    reason = f"{type(fault).__name__}: {fault}"
else:
    found, reason = TensorClassPlugin, ""


def plugin(version: str) -> type[Plugin]:
    """What mypy calls to load the plugin; a plugin that does nothing, and a line that says so, where it can't work."""
    release = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found is not None and release >= OLDEST:
        return found
    why = reason if release >= OLDEST else f"it works with mypy {'.'.join(map(str, OLDEST))} and newer"
    text = f"tensorclass.mypy_plugin does nothing in mypy {version} ({why}); programs are checked without it"
    print(text, file=sys.stderr)  # noqa: T201  # mypy has no errors to add to yet
    return Plugin
