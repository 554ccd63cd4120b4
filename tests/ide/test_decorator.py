"""What an editor with pyright's server shows of the decorated class and the stages of the README, with stubs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensorclass.cli import main
from tests._sources import ROOT
from tests.ide._lsp import Client, renamed, server
from tests.test_docs import python_blocks

pytestmark = pytest.mark.slow
FIELDS = ["image", "label", "source"]
CLASSES = """\
from torch import Tensor
from tensorclass import tensorclass
from tensorclass.typing import Float32, Int64


"""
USE = """\
import torch
from torch import nn
from tensorclass.nn import TensorClassSequential, stage
from readme_classes import Digits, Prediction

batch = Digits(image=torch.rand(32, 1, 8, 8), label=torch.zeros(32, dtype=torch.int64))
conv = nn.Sequential(nn.Conv2d(1, 4, kernel_size=3), nn.ReLU(), nn.Flatten())
classifier = TensorClassSequential[Digits, Prediction](
    encoder=stage(conv, Digits.image),
    head=stage(nn.Linear(144, 10), out=Prediction.logits),
)
print(classifier(batch).logits, batch.image)
"""
TYPED = ["batch.", "batch[0].", 'batch.to("cpu").', "Digits."]


def classes() -> str:
    """The decorated classes of the README as a module."""
    blocks = "\n".join(block.code for block in python_blocks((ROOT / "README.md").read_text("utf-8")))
    parts = [part.partition("\n\n\n")[0] for part in blocks.split("@tensorclass\n")[1:]]
    return CLASSES + "\n\n\n".join(f"@tensorclass\n{part}" for part in parts) + "\n"


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """An editor with the README's program and its stubs."""
    folder: Path = tmp_path_factory.mktemp("readme")
    (folder / "readme_classes.py").write_text(classes(), "utf-8")
    (folder / "readme_use.py").write_text(USE, "utf-8")
    for number, typed in enumerate(TYPED):
        (folder / f"typed_{number}.py").write_text(f"{USE}print({typed}", "utf-8")
    python = Path(sys.prefix)
    settings = {"venvPath": str(python.parent), "venv": python.name, "extraPaths": [str(ROOT)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    assert main(["stubs", str(folder / "readme_classes.py")]) == 0
    with server("pyright", folder) as client:
        client.open("readme_classes.py")
        client.open("readme_use.py")
        yield client


@pytest.mark.parametrize("typed", TYPED)
def test_completion_offers_the_fields(editor: Client, typed: str) -> None:
    """In front of inherited methods, beside the few that know them: of a batch, an element, a copy and the class."""
    offered = editor.complete(f"typed_{TYPED.index(typed)}.py")
    assert sorted(offered[:7]) == sorted([*FIELDS, "get", "replace", "update", "update_"])
    assert {"reshape", "to", "batch_size"} <= set(offered)


@pytest.mark.parametrize(
    ("word", "field"),
    [
        ("stage(conv, Digits.image", "image"),
        ("out=Prediction.logits", "logits"),
        ("classifier(batch).logits", "logits"),
    ],
)
def test_the_fields_of_stages_lead_to_their_declaration(editor: Client, word: str, field: str) -> None:
    """Go to definition on the inputs and outputs of stages, and on the result of the pipeline."""
    found = editor.request("textDocument/definition", editor.at("readme_use.py", word))
    (line,) = [place["range"]["start"]["line"] for place in found if place["uri"].endswith("/readme_classes.py")]
    assert classes().splitlines()[line].startswith(f"    {field}: ")


def test_rename_reaches_stages(editor: Client) -> None:
    """The read of a batch and the input of a stage have the new name, as has the declaration."""
    at = {**editor.at("readme_use.py", "stage(conv, Digits.image"), "newName": "picture"}
    found = renamed(editor.request("textDocument/rename", at))
    assert "stage(conv, Digits.picture)" in found["readme_use.py"]
    assert "batch.picture)" in found["readme_use.py"]
    assert "picture: Float32" in found["readme_classes.py"]
