"""What the rename of a field reaches in each language server, with and without stubs: the table of docs/ide.md."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tensorclass.cli import main
from tests._sources import ROOT
from tests.ide._lsp import COMMANDS, renamed, server

pytestmark = pytest.mark.slow
SCHEMA = """\
from torch import Tensor
from tensorclass import TensorClass, tensorclass
from tensorclass.typing import Int64


class Digits(TensorClass):
    label: Int64[Tensor, ""]

    def largest(self) -> Tensor:
        return self.label.max()


@tensorclass
class Alone:
    label: Int64[Tensor, ""]

    def largest(self) -> Tensor:
        return self.label.max()
"""
USE = """\
import torch
from project_schema import Alone, Digits
from tensorclass.nn import TensorClassModule

batch = Digits(label=torch.arange(4))
print(batch.label, batch[0].label, batch.to("cpu").label)
double = TensorClassModule(torch.clone, in_fields=Digits.label, out_fields=Digits.label)
print(batch["label"], batch.replace(label=torch.arange(4)))
alone = Alone(label=torch.arange(4))
print(alone.label, alone[0].label)
"""
FORMS = {"Digits": ("print(batch.label", "Digits(label"), "Alone": ("print(alone.label", "Alone(label")}
"""A class, a read of its field and the keyword of its constructor."""
TOLD = 20
"""Seconds in which a server has read the project."""


def _project(folder: Path, stubs: str) -> Path:
    (folder / "project_schema.py").write_text(SCHEMA, "utf-8")
    (folder / "project_use.py").write_text(USE, "utf-8")
    python = Path(sys.prefix)
    settings = {"venvPath": str(python.parent), "venv": python.name, "extraPaths": [str(ROOT)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    (folder / "ty.toml").write_text(f'[environment]\npython = "{python}"\nextra-paths = ["{ROOT}"]\n', "utf-8")
    search = f'python-interpreter-path = "{sys.executable}"\nsearch-path = ["{folder}", "{ROOT}"]\n'
    (folder / "pyrefly.toml").write_text(search, "utf-8")
    if stubs:
        options = ["--strict-keys"] if "strict" in stubs else []
        assert main(["stubs", *options, str(folder / "project_schema.py")]) == 0
    return folder


def _row(name: str, stubs: bool, start: str) -> set[str]:
    """What the page says that a rename reaches."""
    page = (ROOT / "docs" / "ide.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]
    head = next(row for row in rows if row[:2] == ["server", "stubs"])
    found = next(row for row in rows if row[0] == name and row[1] == ("yes" if stubs else "no") and start in row[2])
    assert set(found[3:]) <= {"yes", "no"}
    return {title for title, cell in zip(head[3:], found[3:], strict=True) if cell == "yes"}


def _reached(changed: dict[str, str], cls: str) -> set[str]:
    """The columns of the page that a rename reached, each as a whole."""
    own, use = changed.get("project_schema.py", ""), changed.get("project_use.py", "")
    stub = changed.get("project_schema.pyi", "")
    start = own.find(f"class {cls}")
    body = own[start : own.find("@tensorclass", start) if cls == "Digits" else None]
    item = "batch" if cls == "Digits" else "alone"
    reads = [
        f"{item}.digit",
        f"{item}[0].digit",
        *(["in_fields=Digits.digit, out_fields=Digits.digit"] * (cls == "Digits")),
    ]
    assert 'batch["label"], batch.replace(label=' in use or not use
    assert all(text not in use for text in (f"{item}.label", f"{item}[0].label")) or not use
    return {
        title
        for title, there in {
            "class in the `.py`": "    digit: Int64" in body and "self.digit" in body,
            "class in the `.pyi`": "    digit: " in stub,
            "`batch.label`, `in_fields=`": all(read in use for read in reads),
            "`Digits(label=...)`": f"{cls}(digit=" in use,
        }.items()
        if there
    }


def _place(folder: Path, cls: str, start: str) -> tuple[str, str]:
    """A file, and the text that ends in the field there."""
    if "`" not in start:
        return "project_use.py", FORMS[cls][start == "a keyword"]
    name = "project_schema" + start.strip("the `")
    text = (folder / name).read_text("utf-8")
    first = text.index(f"class {cls}")
    return name, text[first : text.index("    label:", first) + len("    label")]


@pytest.mark.parametrize("stubs", ["", "stubs", "strict stubs"])
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "tensorclass"])
def test_rename(tmp_path: Path, name: str, stubs: str) -> None:
    """A rename reaches what docs/ide.md says: from the declarations, from a read, from a keyword, in both forms."""
    folder = _project(tmp_path, stubs)
    with server(name, folder) as client:
        for path in sorted(folder.glob("project_*.py*")):
            client.open(path.name)
        for cls in FORMS if stubs else ["Digits"]:
            for start in ("the `.py`", "a use", "a keyword", *(["the `.pyi`"] if stubs else [])):
                expected = _row(name, bool(stubs), "a use" if start == "a keyword" else start)
                at = {**client.at(*_place(folder, cls, start)), "newName": "digit"}
                until = time.monotonic() + TOLD
                while (found := _reached(renamed(client.request("textDocument/rename", at)), cls)) != expected:
                    assert time.monotonic() < until, (cls, start, found)
                    time.sleep(0.5)
