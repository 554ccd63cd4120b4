"""A masked language model: letters of Python's own documentation are hidden, and a transformer fills them in.

The text comes from the docstrings of the standard library. Sentences differ in length: `letters` is a ragged field,
so loss and accuracy cover all letters of a batch, and never see padding.
"""

from __future__ import annotations

import ast
import re
import sysconfig
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from tensorclass import RaggedTensor, tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Bool, Float32, Int64

LETTERS, GAP, LONGEST, STEPS = 128, 127, 48, 700
PICTURE = Path("build", "language.svg")


@tensorclass
class Text:
    """A sentence, one number for each letter; some of them may be gaps."""

    letters: Int64[RaggedTensor, "n"]


@tensorclass
class Puzzle(Text):
    """A sentence with gaps, and the original letters."""

    hidden: Bool[RaggedTensor, "n"]
    truth: Int64[RaggedTensor, "n"]


def sentences() -> list[str]:
    """Load docstrings of the standard library, in pieces of 20 to 48 letters."""
    found = set[str]()
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("[a-l]*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = " ".join((ast.get_docstring(node) or "").lower().split())
                found |= set(re.findall(rf"(?<![^ ])[a-z][a-z ,'()-]{{18,{LONGEST - 2}}}[a-z.](?![^ ])", text))
    return sorted(found)


def encode(texts: list[str]) -> Text:
    """Return a number for each letter; `_` becomes a gap."""
    return Text(letters=[torch.tensor([GAP if letter == "_" else ord(letter) for letter in text]) for text in texts])


def decode(letters: Tensor) -> str:
    """Return the text of one sentence, `[n]`."""
    return "".join("_" if letter == GAP else chr(letter) for letter in letters.tolist())


def puzzles(text: Text, share: float = 0.15) -> Puzzle:
    """Make gaps at random positions of every sentence."""
    hidden = text.letters.apply(lambda letters: torch.rand(letters.shape) < share)
    letters = text.letters.apply(lambda letters: letters.masked_fill(hidden.values, GAP))
    return Puzzle(letters=letters, hidden=hidden, truth=text.letters)


class Network(nn.Module):
    """A convolution sees the letters around a gap, and a transformer the whole sentence."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.letters, self.near = nn.Embedding(LETTERS, width), nn.Conv1d(width, width, 7, padding=3)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, LETTERS)

    def forward(self, letters: RaggedTensor) -> RaggedTensor:
        """Attention takes padded sentences and a mask; the result is ragged again."""
        padded, mask = letters.pad(return_mask=True)
        seen = self.letters(padded) * mask[..., None]
        read = self.layers(seen + self.near(seen.mT).mT, src_key_padding_mask=~mask)
        return RaggedTensor(self.head(read[mask]), lengths=letters.lengths)


def loss_of(scores: RaggedTensor, puzzle: Puzzle) -> Tensor:
    """Return the cross-entropy over the gaps of all sentences."""
    return nn.functional.cross_entropy(scores.values[puzzle.hidden.values], puzzle.truth.values[puzzle.hidden.values])


@torch.no_grad()
def accuracy(model: TensorClassSequential[Text, RaggedTensor], puzzle: Puzzle) -> float:
    """Return the fraction of gaps that are filled in correctly."""
    right = model(puzzle).values.argmax(-1) == puzzle.truth.values
    return right[puzzle.hidden.values].float().mean().item()


def train(model: TensorClassSequential[Text, RaggedTensor], text: Text, test: Puzzle) -> list[tuple[int, float]]:
    """Train with new gaps for each batch; measure the accuracy on test sentences every hundred steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS)
    curve = [(0, accuracy(model, test))]
    for step in range(1, STEPS + 1):
        puzzle = puzzles(text.sample(32))
        loss = loss_of(model(puzzle), puzzle)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            curve.append((step, accuracy(model, test)))
            print(f"step {step}: loss {loss.item():.2f}, {curve[-1][1]:.0%} of the gaps right")
    return curve


def main() -> None:
    """Load, train, fill in."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    text = encode(sentences()).shuffle()
    test, training = puzzles(text[:500]), text[500:]
    usual = training.letters.values.bincount().argmax()
    always = (test.truth.values[test.hidden.values] == usual).float().mean().item()
    model = TensorClassSequential(network=stage(Network(), Text.letters, returns=Float32[RaggedTensor, "n 128"]))
    curve = train(model, training, test)
    print(f"{len(text)} sentences; {curve[-1][1]:.0%} of the gaps right, {always:.0%} with {chr(usual)!r} everywhere")
    riddle = encode(["ret_rn the n_mber of ch_racters", "rais_ an err_r if the fi_e does n_t exist"])
    with torch.no_grad():
        for given, scores in zip(riddle.letters, model(riddle), strict=True):
            print(decode(given), "->", decode(torch.where(given == GAP, scores.argmax(-1), given)))
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot(*zip(*curve, strict=True), marker="o")
    axes.axhline(always, color="gray", linestyle="--")
    axes.set(xlabel="step", ylabel="share of gaps filled in right")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)
    assert curve[-1][1] > 0.5


if __name__ == "__main__":
    main()
