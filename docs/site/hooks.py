"""Makes the pages of the API reference when the site is built: every public name, from its docstring."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

PAGES = {
    "tensorclass": "The names of `import tensorclass`.",
    "tensorclass.nn": "Modules, sequences and parameters.",
    "tensorclass.typing": "Dtype families for annotations.",
    "tensorclass.testing": "Comparisons and hypothesis strategies.",
    "tensorclass.errors": "The errors that the package raises; [errors](../errors.md) explains the codes.",
}
WITH_INHERITED = ("TensorClass",)
"""Classes that are shown with what they inherit: every container has these methods."""


def public(module: str) -> dict[str, Any]:
    """The public names of a module, classes first."""
    room = import_module(module)
    names = getattr(room, "__all__", None) or [name for name in vars(room) if not name.startswith("_")]
    found = {name: getattr(room, name) for name in names}
    listed = hasattr(room, "__all__")
    own = {
        name: value for name, value in found.items()
        if name.isidentifier() and not inspect.ismodule(value) and (listed or _home(value).startswith("tensorclass"))
    }  # fmt: skip
    return dict(sorted(own.items(), key=lambda item: (not inspect.isclass(item[1]), item[0].lower())))


def _home(value: Any) -> str:
    """The module that defines a class or function; for other values that of no other library."""
    return getattr(value, "__module__", None) or "" if callable(value) else "tensorclass"


def page(module: str) -> str:
    """The Markdown of one page; mkdocstrings fills it in."""
    parts = [f"# `{module}`", PAGES[module]]
    for name, value in public(module).items():
        documented = (inspect.isclass(value) or inspect.isroutine(value)) and _home(value).startswith("tensorclass")
        if not documented or not getattr(value, "__doc__", None) or "<locals>" in value.__qualname__:
            parts.append(f"## `{name}`\n\n```python\n{name} = {str(value)[:200]}\n```")
            continue
        target = inspect.unwrap(value)
        options = [
            f"heading: {name}",
            f"toc_label: {name}",
            *(["inherited_members: true"] if name in WITH_INHERITED else []),
        ]
        rows = "".join(f"\n        {option}" for option in options)
        parts.append(f"::: {target.__module__}.{target.__qualname__}\n    options:{rows}")
    return "\n\n".join(parts) + "\n"


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to the site."""
    file = import_module("mkdocs.structure.files").File
    for module in PAGES:
        files.append(file.generated(config, f"api/{module}.md", content=page(module)))
    return files
