"""`path/to/module.py:name` and `package.module:name` on the command line: the objects that they name."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from ._main import CommandError


def load_target(target: str) -> Any:
    """The object that a target names; without `:name`, the module.

    Args:
        target: A file (`train.py:pipeline`) or a module (`project.train:pipeline`); attributes may be dotted.

    Raises:
        CommandError: for a file, module or name that is not there. What the module itself raises passes through.
    """
    place, _, name = target.rpartition(":") if ":" in target else (target, "", "")
    value: Any = load_module(place)
    for part in name.split(".") if name else ():
        if not hasattr(value, part):
            near = get_close_matches(part, [n for n in vars(value) if not n.startswith("_")], 1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise CommandError(f"{place} has no `{name}`{hint}")
        value = getattr(value, part)
    return value


def load_module(place: str) -> ModuleType:
    """Import a file by its path, or a module by its dotted name with the current folder on the path."""
    if place.endswith(".py") or "/" in place:
        return _load_file(Path(place))
    sys.path.insert(0, "")
    try:
        return import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not (place == error.name or place.startswith(f"{error.name}.")):
            raise
        raise CommandError(f"no module `{place}`; give a file (`train.py:name`) or a module on the path") from None
    finally:
        sys.path.remove("")


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise CommandError(f"no file `{path}`")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"`{path}` is no Python file")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def members_of(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public values that a module defines, by name."""
    return ((name, value) for name, value in vars(module).items() if not name.startswith("_"))


def failed(target: str, error: Exception) -> CommandError:
    """What a user's module raised while it ran, without a traceback."""
    if isinstance(error, SyntaxError):
        return CommandError(f"{error.filename}:{error.lineno}: SyntaxError: {error.msg}")
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return CommandError(f"{target} can't be run: {type(error).__name__}: {error} ({frame.filename}:{frame.lineno})")
