"""What needs a newer torch, Python or package than those that run the tests: such tests are skipped, with the reason.

With the versions of constraints.txt nothing here has an effect, and `tests/test_matrix.py` holds that. Everything that
`torch.compile`, `torch.export` or the anchor is called for is skipped where they are too old, so no test names these.
A test that needs a newer version for another reason says so: `@needs_torch("2.13", "reason")`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from typing import Any, NoReturn

import pytest
import torch
from packaging.version import Version

PYTHON, TORCH = Version(".".join(map(str, sys.version_info[:3]))), Version(Version(torch.__version__).base_version)
COMPILES = Version("2.13")
"""The oldest torch that compiles and exports code with containers."""
ANCHORED = Version("2.11")
"""The oldest torch that the anchor of constraints.txt works with."""


def skip(reason: str) -> NoReturn:
    """Skip the test that runs, or the file that is imported."""
    pytest.skip(reason, allow_module_level=True)


def needs_torch(least: str, why: str) -> pytest.MarkDecorator:
    """Skip a test with an older torch."""
    return pytest.mark.skipif(Version(least) > TORCH, reason=f"needs torch {least}: {why}")


def needs_python(least: str, why: str) -> pytest.MarkDecorator:
    """Skip a test with an older Python."""
    return pytest.mark.skipif(Version(least) > PYTHON, reason=f"needs Python {least}: {why}")


def needs_package(name: str, least: str, why: str) -> pytest.MarkDecorator:
    """Skip a test with an older package."""
    return pytest.mark.skipif(Version(least) > Version(version(name)), reason=f"needs {name} {least}: {why}")


def _not_compiled(*_: object, **__: object) -> NoReturn:
    """In the place of `torch.compile`."""
    skip(f"needs torch {COMPILES}: compiled or exported code with containers")


def _use() -> None:
    """A test that uses the anchor is skipped; a module of tests may, since its classes are used in tests only."""
    if "PYTEST_CURRENT_TEST" in os.environ:
        skip(f"needs torch {ANCHORED}: the anchor")


class _Absent(type):
    """The class of whatever is read from a module that is absent. A test that uses it is skipped."""

    def __new__(mcs, *parts: Any) -> Any:
        _use()
        return super().__new__(mcs, *parts)

    def __getattr__(cls, name: str) -> Any:
        if name == "__signature__":
            _use()
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent

    def __call__(cls, *_: object, **__: object) -> Any:
        _use()
        return Absent

    def __iter__(cls) -> Any:
        _use()
        return iter(())


class Absent(metaclass=_Absent):
    """In the place of every name of the anchor."""


class _Anchor(MetaPathFinder, Loader):
    """In the place of the anchor, where it can't be installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Every module of the anchor."""
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == "tensordict" else None

    def exec_module(self, module: Any) -> None:
        """Every name of the module."""
        module.__getattr__ = lambda name: getattr(Absent, name)


def prepare() -> None:
    """Called once, before tests are imported."""
    if COMPILES > TORCH:
        torch.compile = torch.export.export = torch.onnx.export = _not_compiled
    if ANCHORED > TORCH and importlib.util.find_spec("tensordict") is None:
        sys.meta_path.append(_Anchor())
