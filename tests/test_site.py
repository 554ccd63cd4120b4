"""The API reference of the site has every public name."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import tensorclass

HOOKS = Path(__file__).parents[1] / "docs" / "site" / "hooks.py"


def hooks() -> Any:
    """What builds the reference."""
    spec = importlib.util.spec_from_file_location("site_hooks", HOOKS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("module", hooks().PAGES)
def test_every_public_name(module: str):
    """Each name of a module has a heading or a docstring on its page, and the page is in the navigation."""
    text = hooks().page(module)
    names = hooks().public(module)
    assert names
    assert [name for name in names if f"heading: {name}\n" not in text and f"## `{name}`" not in text] == []
    assert f"api/{module}.md" in (HOOKS.parent / "mkdocs.yml").read_text("utf-8")


def test_nothing_is_left_out():
    """Every name of the package is on its page."""
    names = hooks().public("tensorclass")
    assert {"TensorClass", "TensorDict", "tensorclass", "RaggedTensor", "field", "stack", "cat", "load"} <= names.keys()
    assert [name for name in tensorclass.__all__ if name.isidentifier() and name not in names] == []
