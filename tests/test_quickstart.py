"""The quickstart notebook runs, and shows what it showed when it was written; the site has it as a page."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

SITE = Path(__file__).parents[1] / "docs" / "site"


def beside(name: str) -> Any:
    """A module of the site."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", SITE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(notebook: Any) -> list[str]:
    """What the cells print and show as text."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    return ["".join(output.get("text") or output["data"]["text/plain"]) for output in outputs]


@pytest.mark.slow
def test_it_shows_what_is_stored():
    """Every cell runs, top to bottom, and what is stored below it is what it shows: `python docs/site/notebook.py`."""
    notebook = beside("notebook")
    assert plain(notebook.executed(notebook.read())) == plain(notebook.read())


def test_it_is_a_notebook():
    """What Jupyter asks of a file: the version, a kernel, cells with ids of their own; code that fits the column."""
    found = beside("notebook").read()
    assert (found["nbformat"], found["metadata"]["kernelspec"]["name"]) == (4, "python3")
    cells = found["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert [set(cell) - {"execution_count", "outputs"} for cell in cells] == [
        {"cell_type", "id", "metadata", "source"}
    ] * len(cells)
    code = [line for cell in cells if cell["cell_type"] == "code" for line in cell["source"]]
    assert [line for line in code if len(line.rstrip()) > 100] == []
    assert len([text for text in plain(found) if "hint:" in text]) == 2  # of data and of a pipeline


def test_it_is_a_page():
    """The page has the text, the programs and what they show, pictures as HTML; other pages link to it."""
    notebook = beside("notebook")
    page = notebook.markdown(notebook.read())
    assert page.startswith("# Quickstart\n")
    assert page.count("```python") == len([c for c in notebook.read()["cells"] if c["cell_type"] == "code"])
    assert "<svg" in page
    assert 'class="shown"' in page
    assert "\n\n" not in page.partition("<svg")[2].partition("</svg>")[0]
    assert "quickstart.md" in (SITE / "mkdocs.yml").read_text("utf-8")
    for file in ("README.md", "docs/index.md"):
        assert "quickstart.ipynb" in (SITE.parents[1] / file).read_text("utf-8")
