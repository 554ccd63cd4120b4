"""Every function, method, argument and class that a table of the documentation names exists."""

from __future__ import annotations

import ast
import builtins
import collections.abc
import dataclasses
import importlib
import inspect
import re
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import annotated_types
import pytest
import tensordict
import torch
import torch.utils.data
from torch.utils import _pytree

from tensorclass._config import _NAMES as PRINT_OPTIONS
from tensorclass.compat import _methods, _names
from tests._sources import ROOT

OURS = [
    importlib.import_module(f"tensorclass{name}")
    for name in ("", ".nn", ".typing", ".testing", ".errors", ".utils", ".nn.functional_modules")
]
OTHERS = [
    torch, torch.nn, torch.nn.functional, torch.func, torch.distributions, torch.utils.data, _pytree, builtins,
    dataclasses, typing, collections.abc, annotated_types,
]  # fmt: skip
FORMATS = {"file-format.md": "names of a file's header", "typing.md": "programs, codes and settings of checkers"}
"""Pages whose tables are about other languages, which have tests of their own."""
WORDS = {
    "cli.md": "doctor lint lsp stubs migrate", "compat.md": "out_dims", "concepts.md": "h",
    "internals.md": "VALUES FILE_KINDS py BY_FIELD cli COMMANDS sends_tasks NAMES pos",
    "scaling.md": """
        _exit t tp Replicate Shard ids mesh distribute_module parallelize_module fully_shard context_parallel
        distribute_tensor
    """,
    "contracts.md": "Step",
    "conversions.md": "Data", "examples.md": "py", "files.md": "Digits",
    "ide.md": "Digits label", "index.md": "imgae", "performance-tables.md": "construct dump pickle",
    "which-tool.md": "build",
    "probabilistic.md": "deterministic",
    "pydantic.md": "null", "trainers.md": "Box Discrete MultiBinary MultiDiscrete", "schemas.md": "pose Scores Scored",
    "migrating.md": """
        MetaTensor TruncatedStandardNormal reset_parameters DISPATCH_TDNN_MODULES fully_shard register _type
        continuous prototype tabular STORE_BACKENDS symbolic_trace NO_DEFAULT out_dims deterministic
    """,
}  # fmt: skip
"""Names that a page makes up, forms of the printed text, and names of old documents or of parts of torch."""


def public(module: Any) -> dict[str, Any]:
    """What a module offers."""
    return {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}


def parameters(function: Any) -> set[str]:
    """The arguments of what can be called."""
    try:
        return set(inspect.signature(function).parameters)
    except (ValueError, TypeError):
        return set()


@cache
def known(anchor: bool = False) -> tuple[frozenset[str], frozenset[str]]:
    """Every name, and every name of an argument; of the anchor too for a page that compares."""
    theirs = [tensordict, tensordict.nn, importlib.import_module("tensordict.utils")] if anchor else []
    own = [value for module in [*OURS, *theirs] for value in public(module).values()]
    names = {name for module in [*OURS, *theirs, *OTHERS] for name in public(module)}
    arguments = set().union(*(parameters(value) for value in own if callable(value)))
    for owner in [*(value for value in own if isinstance(value, type)), torch.Tensor, torch.nn.Module]:
        members = {name: getattr(owner, name, None) for name in dir(owner)}
        names |= members.keys()
        arguments |= set().union(*(parameters(value) for value in members.values() if callable(value)))
    names |= set(PRINT_OPTIONS)
    arguments |= {"fullgraph", "dynamic_shapes"}  # of torch.compile and torch.export
    return frozenset(names), frozenset(arguments)


def spans(page: Path) -> Iterator[str]:
    """The code in the rows of tables."""
    fenced = False
    for line in page.read_text("utf-8").splitlines():
        fenced ^= line.lstrip().startswith("```")
        if not fenced and line.startswith("|"):
            yield from (span.replace("\\|", "|") for span in re.findall(r"`([^`]+)`", line))


def named(span: str) -> Iterator[str]:
    """The names in a span; those of arguments end with `=`."""
    try:
        tree = ast.parse(span)
    except SyntaxError:
        start = re.match(r"(?:with )?([\w.]+)\(|(\w+=)\S*$", span)
        yield from [(start[1] or start[2]).rpartition(".")[2]] if start else []
        return
    if span.isidentifier():
        yield span
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
        elif isinstance(node, ast.keyword) and node.arg:
            yield f"{node.arg}="
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield f"{node.targets[0].id}="
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def _exists(name: str, names: Any, arguments: Any) -> bool:
    return name[:-1] in arguments if name.endswith("=") else name in names | arguments


def unknown(page: Path) -> list[str]:
    """What a page names and nobody has."""
    names, arguments = known(anchor=page.name == "migrating.md")
    words = set(WORDS.get(page.name, "").split())
    if page.name == "compat.md":
        words |= {*_names.OWN, *_methods.CONTAINERS, *vars(_methods)}
    found = []
    for span in spans(page):
        for name in named(span):
            if not _exists(name, names, arguments) and name.rstrip("=") not in words:
                found.append(f"{name} in `{span}`")
    return found


PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in FORMATS] + [ROOT / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_exist(page):
    """A name that changes changes in the documentation."""
    assert unknown(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_members_are_those_of_their_class(page):
    """`Class.member` is a member of that class."""
    wrong = []
    for span in spans(page):
        for owner, member in re.findall(r"\b([A-Z]\w+)\.([a-z_]\w+)", span):
            cls = next((getattr(m, owner) for m in OURS if owner in dir(m)), None)
            made_up = member in WORDS.get(page.name, "").split()
            if isinstance(cls, type) and not hasattr(cls, member) and not made_up:
                wrong.append(f"{owner}.{member}")
    assert wrong == []


def test_made_up_names_are_needed():
    """A word that a page no longer has, or that exists by now, leaves the list."""
    for page in PAGES:
        names, arguments = known(anchor=page.name == "migrating.md")
        written = [name for span in spans(page) for name in named(span)]
        made_up = {name.rstrip("=") for name in written if not _exists(name, names, arguments)}
        assert [word for word in WORDS.get(page.name, "").split() if word not in made_up] == [], page.name


def test_names_are_found(tmp_path):
    """Methods, functions, arguments and attributes; not the words of a sentence."""
    page = tmp_path / "a.md"
    page.write_text('| `td.no_such_method(1)` | `stack(no_such_argument=1)` | `no_such_name` | `x: "b n"` |\n', "utf-8")
    assert [text.partition(" ")[0] for text in unknown(page)] == ["no_such_method", "no_such_argument=", "no_such_name"]
