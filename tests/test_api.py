"""The comparison of the public interface with a release finds what breaks programs, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests._sources import PACKAGE, ROOT
from tests.api import KINDS, PAGE, changes, main

OLD = """
def kept(a, b=1): ...
def gone(a): ...
def tried(a): ...
def _inner(a): ...
class Batch:
    def size(self, dim): ...
    def _private(self, dim): ...
"""
LISTED = """
## Stable

**`tensorclass`:** `kept`, `gone`, `Batch`

## Provisional

**`tensorclass`:** `tried`
"""


def checkout(folder: Path, source: str) -> Path:
    """A folder with a package and its page."""
    (folder / "tensorclass").mkdir(parents=True)
    (folder / "docs").mkdir()
    (folder / "tensorclass" / "__init__.py").write_text("from ._code import *\n")
    (folder / "tensorclass" / "_code.py").write_text(source)
    (folder / PAGE).write_text(LISTED)
    return folder


@pytest.mark.parametrize(
    ("old", "new", "kind", "told"),
    [
        ("def gone(a)", "def _gone(a)", "Stable", "gone"),
        ("kept(a, b=1)", "kept(a)", "Stable", "kept(b)"),
        ("kept(a, b=1)", "kept(a, b)", "Stable", "kept(b)"),
        ("kept(a, b=1)", "kept(a, *, b=1)", "Stable", "kept(b)"),
        ("size(self, dim)", "size(self)", "Stable", "Batch.size(dim)"),
        ("def size(self", "def length(self", "Stable", "Batch.size"),
        ("tried(a)", "tried()", "Provisional", "tried(a)"),
    ],
)
def test_breaks_are_found(tmp_path: Path, old: str, new: str, kind: str, told: str):
    """A name or an argument that is gone or became required is reported under the kind of its name."""
    assert old in OLD
    found = changes(checkout(tmp_path / "old", OLD), checkout(tmp_path / "new", OLD.replace(old, new)))
    assert [told in line for line in found[kind]] == [True]
    assert sum(map(len, found.values())) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [("kept(a, b=1)", "kept(a, b=1, c=2)"), ("_inner(a)", "_inner()"), ("_private(self, dim)", "_private(self)")],
)
def test_growth_is_no_break(tmp_path: Path, old: str, new: str):
    """New arguments with a default and private names are free."""
    found = changes(checkout(tmp_path / "old", OLD), checkout(tmp_path / "new", OLD.replace(old, new)))
    assert found == {"Stable": [], "Provisional": []}


@pytest.mark.slow
def test_a_planted_break(tmp_path: Path):
    """In the package itself, a renamed method of typed classes is all that is found."""
    for name in ("old", "new"):
        shutil.copytree(PACKAGE, tmp_path / name / "tensorclass", ignore=shutil.ignore_patterns("__pycache__"))
        (tmp_path / name / "docs").mkdir()
        shutil.copy(ROOT / PAGE, tmp_path / name / PAGE)
    path = tmp_path / "new" / "tensorclass" / "classes" / "_example.py"
    assert "def example(" in path.read_text("utf-8")
    path.write_text(path.read_text("utf-8").replace("def example(", "def made("), "utf-8")
    found = changes(tmp_path / "old", tmp_path / "new")
    assert tuple(found) == KINDS
    assert found["Stable"]
    assert all("example" in line for line in found["Stable"])


def test_before_the_first_release(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Without a tag the check says so and passes."""
    monkeypatch.setattr("tests.api.git", lambda *words: "")
    assert main([]) == 0
    assert "nothing to compare" in capsys.readouterr().out
