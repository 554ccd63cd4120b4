"""`tensorclass graph` and `tensorclass explain`: what they print and write, and what they refuse."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tensorclass.cli import main
from tests.cli._program import RIGHT, WARNS, WRONG, program


def test_mermaid_by_default(tmp_path, capsys):
    """Mermaid text on the standard output."""
    assert main(["graph", program(tmp_path, "graph_default", RIGHT) + ":classifier"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("flowchart TD")
    assert 'm0["0 encode: linear"]' in out


@pytest.mark.parametrize(
    ("options", "start"),
    [
        (["--out", "a.svg"], "<svg"),
        (["--out", "a.html"], "<!doctype html>"),
        (["--out", "a.txt"], "flowchart"),
        (["--format", "svg", "--out", "a.txt"], "<svg"),
    ],
)
def test_files(tmp_path, monkeypatch, capsys, options, start):
    """The format follows the name of the file, or the option."""
    monkeypatch.chdir(tmp_path)
    file = program(tmp_path, f"graph_{options[-1][2:]}_{len(options)}", RIGHT)
    assert main(["graph", f"{file}:classifier", *options]) == 0
    assert capsys.readouterr().out == ""
    text = (tmp_path / options[-1]).read_text("utf-8")
    assert text.startswith(start)
    if start == "<svg":
        assert ElementTree.fromstring(text).tag.endswith("svg")


def test_only_pipeline_of_a_module(tmp_path, capsys):
    """A module with one pipeline needs no name; one with several names them."""
    assert main(["graph", program(tmp_path, "graph_one", RIGHT)]) == 0
    capsys.readouterr()
    file = program(tmp_path, "graph_two", WARNS)
    assert main(["graph", file]) == 2
    assert f"{file}:classifier, {file}:unused" in capsys.readouterr().err


def test_wrong_pipeline_and_place(tmp_path, capsys):
    """A pipeline that can't be built, and a file that can't be written."""
    assert main(["graph", program(tmp_path, "graph_wrong", WRONG)]) == 1
    assert "error[E101]" in capsys.readouterr().err
    file = program(tmp_path, "graph_place", RIGHT)
    assert main(["graph", file, "--out", str(tmp_path / "no" / "a.svg")]) == 2
    assert "can't write" in capsys.readouterr().err


def test_explain(tmp_path, capsys):
    """The table, for a batch size and sizes of dims."""
    file = program(tmp_path, "explain_right", RIGHT)
    assert main(["explain", "E108"]) == 0
    assert capsys.readouterr().out.startswith("E108: a module rejects the inputs that it declares\n")
    assert main(["explain", f"{file}:classifier", "--batch-size", "4", "8"]) == 0
    assert "[4, 8, 64]" in capsys.readouterr().out
    assert main(["explain", file, "--size", "wide=3"]) == 2
    assert "no dim of the pipeline is called `wide`" in capsys.readouterr().err
    assert main(["explain", file, "--size", "wide"]) == 2
    assert "is not DIM=N" in capsys.readouterr().err
