"""A project as a user writes it, for every editor of the tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests._sources import ROOT

SCHEMA = """\
from torch import Tensor
from tensorclass import TensorClass, tensorclass
from tensorclass.typing import Float32, Int64


class Inputs(TensorClass):
    image: Float32[Tensor, "8 8"]


class Digits(TensorClass):
    inputs: Inputs
    label: Int64[Tensor, ""]
    note: str = ""
    weight: Float32[Tensor, ""] | None = None

    def largest(self) -> Tensor:
        return self.label.max()


@tensorclass
class Alone:
    alpha: Float32[Tensor, ""]
    beta: Float32[Tensor, ""]
"""
USE = """\
import torch
from project_schema import Alone, Digits, Inputs

batch = Digits(inputs=Inputs(torch.zeros(4, 8, 8)), label=torch.arange(4))
alone = Alone(torch.zeros(3), torch.zeros(3))
print(batch.label, batch.inputs.image, batch.to("cpu")[0].label)
print(Digits.label, Digits.inputs.image, batch["label"])
"""
TYPED = {
    "batch.": "print(batch.",
    "Digits.": "print(Digits.",
    "Digits.inputs.": "print(Digits.inputs.",
    'batch.to("cpu")[0].': 'print(batch.to("cpu")[0].',
    "alone.": "print(alone.",
    "Digits(": "Digits(",
}
"""What somebody has typed so far, by a name for it; each is a file of its own."""
DIGITS, INPUTS = ["inputs", "label", "note", "weight"], ["image"]


def write(folder: Path) -> Path:
    """The project in a folder, and the settings of its checkers."""
    (folder / "project_schema.py").write_text(SCHEMA, "utf-8")
    (folder / "project_use.py").write_text(USE, "utf-8")
    head = USE.partition("print(")[0]
    for number, typed in enumerate(TYPED.values()):
        (folder / f"typed_{number}.py").write_text(head + typed, "utf-8")
    python = Path(sys.prefix)
    settings = {"venvPath": str(python.parent), "venv": python.name, "extraPaths": [str(ROOT)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    return folder


def typed_file(name: str) -> str:
    """The file that ends with what is typed."""
    return f"typed_{list(TYPED).index(name)}.py"


def place(text: str, after: str) -> tuple[int, int]:
    """The line and the column of the last character of the first occurrence, both from 0."""
    before = text[: text.index(after) + len(after) - 1]
    return before.count("\n"), len(before) - before.rfind("\n") - 1
