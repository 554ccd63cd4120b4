"""Loads the objects that `path/to/module.py:name` and `package.module:name` name on the command line."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from .._content import MAX_SOURCE
from .._places import local_path
from ..errors import UnsupportedOperationError, bounded
from ._main import CommandError


def load_target(target: str, despite: type[Exception] | tuple[()] = ()) -> Any:
    """The object that a target names; without `:name`, the module.

    Args:
        target: A file (`train.py:pipeline`) or a module (`project.train:pipeline`); attributes may be dotted.
        despite: an error that may stop the module. Names defined before it are available, and a note says so.

    Raises:
        CommandError: for a missing file, module or name. Errors of the module itself are passed through.
    """
    _refuse_url(target)
    place, _, name = target.rpartition(":") if ":" in target else (target, "", "")
    if name and not all([part.isidentifier() for part in name.split(".")]):  # nothing is imported for it
        raise CommandError(f"{target!r:.200} ends with no name; give `FILE.py:name` or `module:name`")
    value: Any = load_module(place, despite)
    for part in name.split(".") if name else ():
        if not hasattr(value, part):
            near = get_close_matches(part, [n for n in vars(value) if not n.startswith("_")], 1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise CommandError(f"{place} has no `{name}`{hint}")
        value = getattr(value, part)
    return value


def _refuse_url(target: str) -> None:
    try:
        local_path(target)
    except UnsupportedOperationError as error:
        raise CommandError(f"{error}; nothing is imported from a URL") from None


def load_module(place: str, despite: type[Exception] | tuple[()] = ()) -> ModuleType:
    """Import a file by its path, or a module by its dotted name with the current folder on the path."""
    if place.endswith(".py") or "/" in place:
        path = Path(place)
        if not path.is_file():
            raise CommandError(f"`{path}` is not a file" if path.exists() else f"no file `{path}`")
        if path.stat().st_size > MAX_SOURCE:
            raise CommandError(f"`{path}` has {path.stat().st_size} bytes; a module has at most {MAX_SOURCE}")
        spec = spec_from_file_location(path.stem, path)
        if spec is None:
            raise CommandError(f"`{path}` is not a Python file")
        return _run(spec, place, str(path.parent), despite)
    if Path(place).is_file():  # as a module, `data.json` would be `json` in the package `data`
        raise CommandError(f"`{place}` is neither a Python file nor one of `save`; `tensorclass new` reads tables")
    sys.path.insert(0, "")
    try:
        if place in sys.modules:
            return sys.modules[place]
        spec = find_spec(place) if _exists(place) else None
    except ModuleNotFoundError as error:
        if error.name is None or not (place == error.name or place.startswith(f"{error.name}.")):
            raise
        spec = None
    finally:
        sys.path.remove("")
    if spec is None:
        raise CommandError(f"no module `{place}`; give a file (`train.py:name`) or a module on the path")
    return _run(spec, place, "", despite)


def _exists(place: str) -> bool:
    """Whether there is a module of this name. Its parents are not imported: `data.csv` may be a missing file."""
    first, *rest = place.split(".")
    spec, name = find_spec(first) if first else None, first
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return False
        name, where = f"{name}.{part}", spec.submodule_search_locations
        found = [finder.find_spec(name, where) for finder in sys.meta_path]
        spec = next(filter(None, found), None)
    return spec is not None


def _run(spec: ModuleSpec, place: str, folder: str, despite: type[Exception] | tuple[()]) -> ModuleType:
    """Import a file; what stops the import is told without a traceback."""
    module = module_from_spec(spec)
    if spec.loader is None:
        raise CommandError(f"`{place}` is a folder without `__init__.py`")
    sys.modules[spec.name] = module
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except SystemExit as stop:
        raise CommandError(f"{place} calls `sys.exit({stop.code!r:.80})` when it is imported") from None
    except despite as error:
        print(f"tensorclass: {place} stopped with an error; the output covers it up to there: {error}", file=sys.stderr)
    finally:
        sys.path.remove(folder)
    return module


def members_of(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public values that a module defines, by name."""
    return ((name, value) for name, value in vars(module).items() if not name.startswith("_"))


@contextmanager
def running(target: str, *through: type[Exception]) -> Iterator[None]:
    """Convert any error of a user's module to a message without a traceback; types in `through` are passed on."""
    try:
        yield
    except CommandError:
        raise
    except SyntaxError as error:
        raise CommandError(f"{error.filename}:{error.lineno}: SyntaxError: {error.msg}") from None
    except Exception as error:  # the module may raise anything
        if isinstance(error, through):
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        what = bounded(f"{type(error).__name__}: {error}", 2000)
        raise CommandError(f"{target} can't be run: {what} ({frame.filename}:{frame.lineno})") from None
