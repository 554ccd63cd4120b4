"""Diagnostics as records and as text; the documents and the table of codes agree both ways."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path

import pytest

from tensorclass.errors import BuildError
from tensorclass.nn import CODES, Diagnostic, PipelineWarning, TensorClassSequential
from tensorclass.nn.parts._diagnostics import Location, build_error
from tests._sources import PACKAGE, ROOT
from tests.nn._pipelines import Digits, Prediction, stages

PAGE = (ROOT / "docs" / "errors.md").read_text("utf-8")
HEADINGS = dict(re.findall(r"^## ([EWN]\d+): (.+)$", PAGE, re.M))


def test_every_code_is_documented():
    """One heading for each code with the words of the table, and no heading for a code that does not exist."""
    assert {code: title.lower() for code, title in CODES.items()} == {c: t.lower() for c, t in HEADINGS.items()}


def test_every_code_is_reported_somewhere():
    """A code of the table that no source reports would be a promise without a check."""
    files = [path for room in ("nn", "parallel") for path in (PACKAGE / room).rglob("_*.py")]
    source = "".join(path.read_text("utf-8") for path in files if path.name != "_diagnostics.py")
    assert set(re.findall(r'"([EWN]\d{3})"', source)) == set(CODES)


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_section_has_an_example(code):
    """Each section shows its code in a program, and errors are announced as such."""
    section = PAGE.split(f"\n## {code}: ")[1].split("\n## ")[0]
    assert "```python" in section
    assert ("<!-- raises: BuildError -->" in section) == code.startswith("E")
    assert "**Fix.**" in section


def test_full_text():
    """Location, notes and hint stand below the message."""
    diagnostic = Diagnostic("W201", "the message", 3, "name", "file.py:1  x", ("a note", "another"), "do this")
    assert str(diagnostic) == (
        "warning[W201]: the message\n    --> file.py:1  x\n    a note\n    another\n    hint: do this"
    )
    assert (diagnostic.severity, Diagnostic("N301", "x").severity) == ("warning", "note")
    assert str(Diagnostic("E101", "alone")) == "error[E101]: alone"


def test_records_are_values():
    """A diagnostic is compared, hashed and pickled; it can't be changed."""
    diagnostic = Diagnostic("E101", "the message", notes=("a",))
    assert pickle.loads(pickle.dumps(diagnostic)) == diagnostic
    assert len({diagnostic, Diagnostic("E101", "the message", notes=("a",))}) == 1
    with pytest.raises(AttributeError):
        diagnostic.code = "E102"


def test_error_shows_errors_and_warnings():
    """Notes are kept in the record, and left out of the text."""
    found = [
        Diagnostic("E101", "one"),
        Diagnostic("W201", "two"),
        Diagnostic("N301", "three"),
        Diagnostic("E102", "four"),
    ]
    error = build_error("title", found)
    assert str(error) == "title: 2 errors\n\nerror[E101]: one\n\nwarning[W201]: two\n\nerror[E102]: four"
    assert error.diagnostics == tuple(found)
    assert isinstance(error, BuildError | TypeError | ValueError)
    assert issubclass(PipelineWarning, UserWarning)


def test_diagnostics_name_their_module():
    """Records carry index and name, for tools."""
    with pytest.raises(BuildError) as info:
        TensorClassSequential(*stages()[1:], input=Digits, output=Prediction)
    (diagnostic,) = info.value.diagnostics
    assert (diagnostic.code, diagnostic.module, diagnostic.name) == ("E101", 0, "encoder")


def test_location_is_shown_from_the_working_folder(monkeypatch, tmp_path):
    """Files below the working folder are shown relative to it; others, and cells of notebooks, as they are."""
    monkeypatch.chdir(tmp_path)
    assert str(Location(str(tmp_path / "sub" / "train.py"), 5)) == f"{Path('sub') / 'train.py'}:5"
    assert str(Location(os.path.abspath(os.sep + "elsewhere.py"), 5)).endswith(f"{os.sep}elsewhere.py:5")
    assert str(Location("<ipython-input-3>", 2)) == "<ipython-input-3>:2"
