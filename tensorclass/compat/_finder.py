"""The finder: `tensordict` and its submodules as modules whose names come from this package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module, metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..errors import page_of
from ._names import MODULES, VERSION, lookup

NAME = "tensordict"
_HIDDEN = {"memmap", "tensorclass"}
"""Submodules behind a function of the same name."""


class Finder(MetaPathFinder):
    """Finds `tensordict` and its submodules, and refuses names that do not exist."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of `tensordict`; None for other packages."""
        package, _, name = fullname.partition(".")
        if package != NAME:
            return None
        if name and name not in MODULES:
            parent, _, last = fullname.rpartition(".")
            raise ImportError(
                f"tensorclass.compat (for tensordict {VERSION}) has no `{last}` in `{parent}`; "
                f"{page_of('compat')} lists the names of the layer; "
                "change the program to a public name, or run it with tensordict",
                name=fullname,
            )
        return ModuleSpec(fullname, _Loader(), is_package=True)

    def find_distributions(self, context: Any = None) -> Iterator[metadata.Distribution]:
        """The metadata of `tensordict`, for programs that ask for its version."""
        if getattr(context, "name", None) == NAME:
            yield _Metadata()


class _Metadata(metadata.Distribution):
    """The metadata of the version that the layer stands in for."""

    def read_text(self, filename: str) -> str | None:
        text = f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n"
        return text if filename in ("METADATA", "PKG-INFO") else None

    def locate_file(self, path: Any) -> Any:
        return path


class _Loader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__version__"] = VERSION


class _Module(ModuleType):
    """A module of `tensordict`; each name is looked up at its first use."""

    def __getattr__(self, name: str) -> Any:
        inner = self.__name__.partition(".")[2]
        below = f"{inner}.{name}" if inner else name
        if below in MODULES and below not in _HIDDEN:
            return import_module(f"{NAME}.{below}")
        if name == "__all__" or not (name.startswith("__") and name.endswith("__")):
            try:
                value = vars(self)[name] = lookup(inner, name)
            except AttributeError:
                pass
            else:
                return value
        where = f"module {self.__name__!r:.200} of tensorclass.compat (for tensordict {VERSION})"
        lists = f"{page_of('compat')} lists the names of the layer"
        raise AttributeError(f"{where} has no attribute {name!r:.200}; {lists}")

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HIDDEN and isinstance(value, ModuleType)):  # the import system sets submodules
            super().__setattr__(name, value)
