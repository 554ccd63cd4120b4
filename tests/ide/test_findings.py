"""The language server of this package, with a real client: findings come when a file is opened or saved, and go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ide._lsp import server

pytestmark = pytest.mark.slow
WRONG = """\
import torch
from torch import Tensor
from tensorclass import TensorClass
from tensorclass.typing import Float32, Int64

class Row(TensorClass):
    label: Int64[Tensor, ""]
    name: str

"ä𝄞"; Row(torch.zeros(4), "a")  # a label of the wrong dtype
"""
FIRST = 500
"""Seconds for the first answer, which reads torch."""


def test_findings_of_a_file(tmp_path: Path) -> None:
    """A saved file is analyzed again, a closed one has no findings, and a file that does not parse says so."""
    file = tmp_path / "row.py"
    file.write_text(WRONG, "utf-8")
    document: dict[str, Any] = {"textDocument": {"uri": file.as_uri()}}
    with server("tensorclass", tmp_path) as client:
        client.open("row.py")
        found = client.findings(FIRST)
        (only,) = found["diagnostics"]
        assert found["uri"] == file.as_uri()
        assert only["source"] == "tensorclass"
        assert (only["code"], only["severity"]) == ("tensorclass-dtype", 1)
        assert only["range"] == {"start": {"line": 9, "character": 7}, "end": {"line": 9, "character": 31}}
        for text, codes in ((WRONG.replace("torch.zeros", "torch.arange"), set[str]()), ("class Row(:\n", {"syntax"})):
            file.write_text(text, "utf-8")
            client.notify("textDocument/didSave", document)
            assert {one["code"] for one in client.findings(FIRST)["diagnostics"]} == codes
        client.notify("textDocument/didClose", document)
        assert client.findings()["diagnostics"] == []
        assert client.request("shutdown", {}) is None
