"""URLs and absent paths on the command line: nothing is imported or written for them, and the message names them."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import fsspec
import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorClassDataset, TensorDict
from tensorclass.cli import main
from tensorclass.cli._main import COMMANDS, parser_of
from tensorclass.typing import Int64

LINES = {
    "check targets": "check {}",
    "convert source": "convert {} x.csv",
    "convert target": "convert there.csv {}",
    "convert cls": "convert there.csv x.parquet --class {}",
    "diff old": "diff {} there.py:A",
    "diff new": "diff there.py:A {}",
    "explain target": "explain {}",
    "graph target": "graph {}",
    "graph out": "graph there.py --out {}",
    "inspect target": "inspect {}",
    "lint paths": "lint {}",
    "lint cache_dir": "lint there.py --cache-dir {}",
    "migrate paths": "migrate {}",
    "new source": "new Name --from {}",
    "new out": "new Name --from there.csv --out {}",
    "stubs paths": "stubs {}",
    "stubs out": "stubs there.py --out {}",
    "verify paths": "verify {}",
}
"""Every argument of a command that takes free text, and a command line that passes a URL there."""

NOT_PATHS = {"convert max_bytes", "explain batch_size", "explain size", "new name"}
URLS = (
    "s3://x",
    "s3://x/y.safetensors",
    "S3://x:y",
    "s3:/x",
    "gs://x/y.py:Z",
    "hf://datasets/x",
    "s3:/x.json",
)


def test_every_argument_has_a_line() -> None:
    """A new argument that takes text gets a row."""
    commands = next(a for a in parser_of("*")._actions if isinstance(a, argparse._SubParsersAction)).choices
    free = {
        f"{name} {action.dest}"
        for name, command in commands.items()
        for action in command._actions
        if action.nargs != 0 and not action.choices
    }
    assert set(commands) == set(COMMANDS)
    assert free - NOT_PATHS == set(LINES), (free - NOT_PATHS) ^ set(LINES)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with modules that must not run: they are named as schemes, files and folders are."""
    for name in ("s3", "S3", "gs", "hf", "x", "data"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('this module was run')\n")
    (tmp_path / "there.csv").write_text("a\n1\n")
    (tmp_path / "there.py").write_text("import tensorclass\nclass A(tensorclass.TensorClass):\n    a: int\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "modules", {n: m for n, m in sys.modules.items() if n not in ("x", "data", "there")})
    return tmp_path


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_url(line: str, url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 1 or 2 and the URL in the message; nothing runs, nothing is written."""
    before = sorted(os.listdir(folder))
    assert main(line.format(url).split()) in (1, 2)
    said = "".join(capsys.readouterr())
    assert "this module was run" not in said
    assert url.partition(":")[0].lower() in said.lower()
    assert not {"x", "s3", "gs", "hf"} & set(sys.modules)
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(
    "target", ["x.csv", "x.safetensors.py", "data/x", "x.h5:A", "x.y.z", "./x", "data.parquet", "x:/y"]
)
@pytest.mark.parametrize("command", ["inspect", "check", "explain", "graph", "diff there.py:A"])
def test_an_absent_path(command: str, target: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No module is imported whose name is a part of that path."""
    assert main([*command.split(), target]) == 2
    assert "this module was run" not in "".join(capsys.readouterr())
    assert not {"x", "data"} & set(sys.modules)


class Row(TensorClass):
    n: Int64[Tensor, ""]


def test_what_is_at_a_url(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`inspect` and `verify` read files and datasets behind URLs."""
    with TensorClassDataset.create(tmp_path / "rows", Row) as writer:
        writer.append(Row(torch.arange(3)))
    fsspec.filesystem("memory").put(str(tmp_path / "rows"), "/places/rows", recursive=True)
    TensorDict(a=torch.arange(3)).save("memory://places/x.safetensors")
    for name, text in (("rows", "3 rows in 1 shards"), ("x.safetensors", "int64[3]")):
        assert main(["inspect", f"MEMORY://places/{name}"]) == 0
        assert text in capsys.readouterr().out
        assert main(["verify", f"memory://places/{name}"]) == 0
        assert "right" in capsys.readouterr().out
    assert main(["inspect", "memory://places/none.safetensors"]) == 2
    assert "memory://places/none.safetensors" in capsys.readouterr().err
