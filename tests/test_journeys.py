"""docs/internals.md names the functions that really run on the three journeys that it describes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.errors import SchemaError
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Int64
from tests._sources import PACKAGE, ROOT


class Digits(TensorClass):
    image: Float32[Tensor, "8"]
    label: Int64[Tensor, ""]
    note: Float32[Tensor, ""] | None = None
    unit: str = "m"


class Prediction(TensorClass):
    logits: Float32[Tensor, "4"]


IMAGE, LABEL = torch.zeros(4, 8), torch.zeros(4, dtype=torch.int64)


def declare() -> type:
    """A class of its own, so that nothing is known of it yet; its first call has a wrong dtype."""

    class Fresh(TensorClass):
        image: Float32[Tensor, "8"]

    with pytest.raises(SchemaError):
        Fresh(image=IMAGE.double())
    return Fresh


def build() -> TensorClassSequential[Digits, Prediction]:
    """A pipeline of one module."""
    stage = TensorClassModule(nn.Linear(8, 4), in_fields=Digits.image, out_fields=Prediction.logits)
    return TensorClassSequential(stage, input=Digits, output=Prediction)


def called(journey: Callable[[], Any]) -> list[str]:
    """The functions of the package that a call runs, as file and name."""
    found: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            found.append(f"{path.relative_to(PACKAGE).as_posix()}: {frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        journey()
    finally:
        sys.setprofile(None)
    return found


def named(title: str) -> set[str]:
    """The functions that the page names for a journey; the general path of an index is not on it."""
    page = (ROOT / "docs" / "internals.md").read_text("utf-8")
    text = page.partition("## Three journeys")[2].partition("\n## ")[0]
    part = next(part for part in text.split("\n**") if part.startswith(f"{title}**"))
    rows = re.findall(r"`([\w/]+\.py): (?:\w+\.)?(\w+)`", part.replace("`ops/_index.py: IndexOps._index`", ""))
    return {f"{file}: {name}" for file, name in rows}


@pytest.mark.parametrize(
    ("title", "journey"), [("Construct", declare), ("Index", lambda: Digits(IMAGE, LABEL)[0]), ("Build", build)]
)
def test_the_named_functions_run(title: str, journey: Callable[[], Any]) -> None:
    """Each of them is called."""
    assert len(named(title)) > 3
    assert named(title) - set(called(journey)) == set()


def test_a_right_call_runs_only_the_generated_constructor() -> None:
    """No function of a file of the package."""
    Digits(IMAGE, LABEL)
    assert called(lambda: Digits(IMAGE, LABEL)) == []


def test_files_share_the_digest_of_a_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema does not change once it has a digest, so the next file does not compute it again."""
    batch = Digits(image=IMAGE, label=LABEL)
    batch.save(tmp_path / "first")
    monkeypatch.setattr("tensorclass._schema._schema.canonical", None)
    batch.save(tmp_path / "second")
