"""`tensorclass lsp`: what the server shows, without a connection and without mypy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from tensorclass.cli import _lsp
from tensorclass.cli._lsp import Findings, path_of
from tensorclass.cli._main import main
from tensorclass.typecheck._lint import LintError, LintFinding

FOUND = LintFinding("row.py", 1, 5, 'Row: "label" is wrong', "tensorclass-dtype")


class Editor:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.shown: list[Any] = []

    def text_document_publish_diagnostics(self, params: Any) -> None:
        """Findings of a file."""
        self.shown.append(params)

    def window_show_message(self, params: Any) -> None:
        """A text."""
        self.shown.append(params.message)


def _findings(monkeypatch: pytest.MonkeyPatch, found: object) -> tuple[Editor, Findings]:
    def analyze(*args: object, **kwargs: object) -> object:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(_lsp, "lint", analyze)
    editor = Editor()
    return editor, Findings(editor, types)


def test_findings_are_diagnostics(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A finding is shown from its column to the end of its line; notes are information; lines may be gone."""
    note = LintFinding("row.py", 9, 1, "failed here", "", "note")
    editor, findings = _findings(monkeypatch, [FOUND, note])
    file = tmp_path / "row.py"
    file.write_text("x = Row(1)  # text\n", "utf-8")
    findings.show(file.as_uri(), tmp_path)
    first, second = editor.shown[0].diagnostics
    assert (first.range.start.character, first.range.end.character) == (4, 10)
    assert (first.severity, second.severity) == (types.DiagnosticSeverity.Error, types.DiagnosticSeverity.Information)
    assert second.code is None
    findings.clear(file.as_uri())
    assert editor.shown[1].diagnostics == []


def test_a_fault_of_mypy_is_a_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If mypy can't run, the editor shows its text, and the server goes on."""
    editor, findings = _findings(monkeypatch, LintError("mypy ended with status 2"))
    (tmp_path / "row.py").touch()
    findings.show((tmp_path / "row.py").as_uri(), None)
    assert editor.shown == ["tensorclass: mypy ended with status 2"]


def test_other_documents_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document that was never saved, and a file of another language, have no findings."""
    editor, findings = _findings(monkeypatch, [FOUND])
    findings.show("untitled:Untitled-1", None)
    findings.show("file:///notes.md", None)
    assert editor.shown == []
    assert path_of("file:///with%20space/a.py") == Path("/with space/a.py")


def test_pygls_is_optional(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without it the command names the extra."""
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    assert main(["lsp"]) == 2
    assert "tensorclass[lsp]" in capsys.readouterr().err
