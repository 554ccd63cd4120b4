"""What needs a newer torch, Python or package than those that run the tests: such tests are skipped, with the reason.

With the versions of constraints.txt nothing here has an effect, and `tests/test_matrix.py` holds that. Everything that
`torch.compile`, `torch.export` or the anchor is called for is skipped where they are too old, so no test names these.
Tests that need a newer version for another reason are in `LACKS`.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import re
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

LACKS = (
    ("torch", "2.11", "the anchor", r"ops/test_differential_signatures\.py::test_name"),
    (
        "torch",
        "2.13",
        "classes are not freed",
        r"classes/test_lifetimes|nn/test_lifetimes\.py::test_(picked|a_pipeline_over)",
    ),
    ("torch", "2.13", "compiled code with containers", r"test_torch\.py::test_compiled_code_is_compiled_once"),
    (
        "torch",
        "2.13",
        "an index of rare dtypes",
        r"test_by_row\.py.*(uint16|uint32|uint64|float8)",
    ),
    ("torch", "2.13", "an index of rare dtypes", r"test_every_dtype_is_padded|test_ragged_tables_of_dtypes"),
    ("torch", "2.13", "joins of nested tensors", r"test_nested_tensors_(are_cut|keep_grad)|contract/.*jagged"),
    (
        "torch",
        "2.9",
        "`torch.cat` of one object that is not a tensor",
        r"test_ragged_torch\.py::test_joins_that_are_ref",
    ),
    ("torch", "2.13", "errors of fake embeddings that name the dtype", r"test_caught_at_build\[embedding of floats\]"),
    ("torch", "2.13", "fake tensors in scripted modules", r"\[scripted module\]"),
    ("torch", "2.13", "an index of rare dtypes", r"test_gathered\.py.*(unsigned|float8)"),
    ("torch", "2.9", "the same error of sparse tensors from both", r"test_known_writes\.py.*a sparse source"),
    (
        "torch",
        "2.9",
        "placements of operations of DTensor",
        r"test_(followed|placed_operations|parts)\.py.*(columns without|copied|every_pipe)",
    ),
    ("torch", "2.9", "FSDP without an accelerator", r"test_docs\.py::test_page\[training\]"),
    (
        "Python",
        "3.11",
        "zarr 3",
        r"zarr|test_compression_and_chunks|doctests\[tensorclass\.(io.exchange._func|store._tab)",
    ),
)
"""What an older version lacks, and the tests that need it."""


def skip(reason: str) -> NoReturn:
    """Skip the test that runs, or the file that is imported."""
    pytest.skip(reason, allow_module_level=True)


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

    def __getitem__(cls, key: object) -> Any:
        _use()
        return Absent


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
    if Version("3.14") <= PYTHON:  # "forkserver" is the default there, and tests send functions of their own body
        multiprocessing.set_start_method("fork", force=True)
    if COMPILES > TORCH:
        torch.compile = torch.export.export = torch.onnx.export = _not_compiled
    if ANCHORED > TORCH and importlib.util.find_spec("tensordict") is None:
        sys.meta_path.append(_Anchor())


def mark(items: Sequence[pytest.Item]) -> None:
    """Skip the tests that need what these versions lack."""
    have = {"torch": TORCH, "Python": PYTHON}
    for name, least, what, tests in LACKS:
        if Version(least) > have[name]:
            for item in items:
                if re.search(tests, item.nodeid):
                    item.add_marker(pytest.mark.skip(reason=f"needs {name} {least}: {what}"))
