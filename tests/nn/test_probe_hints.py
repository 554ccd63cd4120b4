"""What the build check observes: pairs of elements, arguments that vanish, sizes that fit by chance, edits."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.errors import BuildError
from tensorclass.nn import PipelineWarning, TensorClassSequential, stage
from tensorclass.typing import Bool, Float32, Int64


class Rated(TensorClass):
    x: Float32[Tensor, "8"]
    rate: Float32[Tensor, ""]


class Signal(TensorClass):
    x: Float32[Tensor, "8 t"]


class Halved(TensorClass):
    y: Float32[Tensor, "8 (t+1)//2"]


class Words(TensorClass):
    ids: Int64[Tensor, "t"]
    attention: Int64[Tensor, "t"]


class States(TensorClass):
    h: Float32[Tensor, "t 8"]


class Pair(TensorClass):
    tall: Float32[Tensor, "t 8"]
    wide: Float32[Tensor, "s 8"]


class Scores(TensorClass):
    scores: Float32[Tensor, "t s"]


class Choice(TensorClass):
    x: Float32[Tensor, "8"]
    spare: Float32[Tensor, "4"]


class Code(TensorClass):
    code: Float32[Tensor, "3"]


def found(**stages: Any) -> dict[str, str]:
    """The hint of each finding that is no note, by its code."""
    options = {"output": stages.pop("output")} if "output" in stages else {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PipelineWarning)
            told = TensorClassSequential(**stages, **options).diagnostics
    except BuildError as error:
        told = error.diagnostics
    return {d.code: d.hint for d in told if d.severity != "note"}


LOSSES: dict[str, tuple[Any, list[str]]] = {
    "a difference": (lambda z, y: (z - y).square().mean(), ["W214"]),
    "the other way": (lambda z, y: (y - z).abs().mean(), ["W214"]),
    "a function of torch": (lambda z, y: nn.functional.l1_loss(z.double(), y[:].double()), ["W214"]),
    "a gathered value": (lambda z, y: (z.gather(-1, torch.zeros_like(z).long()) * y).mean(), ["W214"]),
    "equal dims": (lambda z, y: (z.squeeze(-1) - y).square().mean(), []),
    "a dim that is written out": (lambda z, y: (y.unsqueeze(1) - y + z.sum()).square().mean(), []),
    "an index that writes it out": (lambda z, y: (z.squeeze(-1)[:, None] - y).square().mean(), []),
    "a comparison": (lambda z, y: ((z == y) * (z.sum() + y.sum())).mean(), []),
}


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("name", LOSSES)
def test_pairs_of_all_elements(name: str) -> None:
    """(B, 1) against (B,) is told in a loss, which has no shape that shows it; a dim that is written out is meant."""
    loss, codes = LOSSES[name]
    guess = stage(nn.Linear(8, 1), Rated.x)
    assert list(found(guess=guess, loss=stage(loss, guess, Rated.rate))) == codes


def test_a_size_that_fits_by_ones() -> None:
    """A sum with a strided convolution runs for two steps, since one of them is then 1: that proves nothing."""
    conv = nn.Conv1d(8, 8, 3, stride=2, padding=1)
    assert list(found(net=stage(lambda x: x + conv(x), Signal.x, out=Halved.y))) == ["E108"]


def test_an_argument_that_vanishes() -> None:
    """A keyword in `**` arguments is named with the parameters that nothing is given, unless it changes the result."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(9, 8)

        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **more: Tensor) -> Tensor:
            h: Tensor = self.table(input_ids)
            return h * more["scale"][..., None] if "scale" in more else h

    def told(name: str) -> dict[str, str]:
        return found(net=stage(Model(), input_ids=Words.ids, **{name: Words.attention}, out=States.h))

    assert told("mask") == {"W208": "the parameters that nothing is given: `attention_mask`"}
    assert told("scale") == {}


def _largest(x: Tensor) -> Any:
    return x.topk(3)


HINTS: dict[str, tuple[Any, str]] = {
    "dims in another order": (
        lambda: stage(lambda a, b: b @ a.mT, Pair.tall, Pair.wide, out=Scores.scores),
        "its results fit with in_fields=(Pair.wide, Pair.tall); "
        'or its dims come in another order: declare "s t", or return `y.movedim((-1, -2), (-2, -1))`',
    ),
    "inputs in another order": (
        lambda: stage(Product(), Pair.wide, Pair.tall, out=Scores.scores),
        "its results fit with in_fields=(Pair.tall, Pair.wide); "
        'or its dims come in another order: declare "s t", or return `y.movedim((-1, -2), (-2, -1))`',
    ),
    "one of two results": (
        lambda: stage(_largest, Choice.x, out=Code.code),
        "one of its results fits: out_fields=(Code.code, None)",
    ),
    "a field that nothing reads": (
        lambda: stage(nn.Linear(4, 3), Choice.x, out=Code.code),
        "`net` accepts 4 for event dim 0 of `x`, it is given 8 (a field of the input Choice); "
        "or accepts Choice.spare in place of Choice.x",
    ),
}


class Product(nn.Module):
    """Scores of each row of the first value for each of the second."""

    def forward(self, tall: Tensor, wide: Tensor) -> Tensor:
        """The product."""
        return tall @ wide.mT


@pytest.mark.parametrize("name", HINTS)
def test_edits_that_were_tried(name: str) -> None:
    """The hint is the edit that makes the module right."""
    make, hint = HINTS[name]
    assert list(found(net=make()).values()) == [hint]


def test_the_lost_batch_is_told_as_observed() -> None:
    """An index, `cat` and a flattened batch are told apart."""

    class Given(TensorClass):
        x: Float32[Tensor, "5 8"]
        mask: Bool[Tensor, "5 8"]

    class Row(TensorClass):
        row: Float32[Tensor, "8"]

    def hint(function: Any, *fields: Any) -> str:
        return found(net=stage(function, *fields, out=Row.row))["E112"]

    assert hint(lambda x: x[0], Given.x).startswith("an index or a reduction over dim 0")
    assert hint(lambda x, m: torch.cat([x, m]), Given.x, Given.mask).startswith("dim 0 is the batch 2 times")
    assert hint(lambda x: x.reshape(-1, 8), Given.x).startswith("the batch was flattened into dim 0")


def test_stages_of_any_name() -> None:
    """A stage may have the name of a parameter of the constructors."""
    assert TensorClassSequential(cls=stage(nn.Linear(8, 3), Choice.x, out=Code.code)).diagnostics == ()
