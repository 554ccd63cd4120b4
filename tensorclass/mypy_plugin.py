"""The plugin for mypy: `plugins = ["tensorclass.mypy_plugin"]` in `pyproject.toml`. See docs/typing.md.

It imports no torch. A fault of its own is a note, and mypy goes on as without it.
"""

from .typecheck.plugin._plugin import TensorClassPlugin


def plugin(version: str) -> type[TensorClassPlugin]:
    """What mypy calls to load the plugin."""
    return TensorClassPlugin
