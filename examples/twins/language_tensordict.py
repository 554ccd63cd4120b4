"""`../language.py` with tensordict: sentences are padded, and everything that reads letters has to use the mask."""

from __future__ import annotations

import ast
import re
import sysconfig
from pathlib import Path

import torch
from matplotlib.figure import Figure
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

LETTERS, GAP, LONGEST, STEPS = 128, 127, 48, 700
PICTURE = Path("build", "language.svg")


def sentences() -> list[str]:
    """Load docstrings of the standard library, in pieces of 20 to 48 letters."""
    found = set[str]()
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("[a-l]*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = " ".join((ast.get_docstring(node) or "").lower().split())
                found |= set(re.findall(rf"(?<![^ ])[a-z][a-z ,'()-]{{18,{LONGEST - 2}}}[a-z.](?![^ ])", text))
    return sorted(found)


def encode(texts: list[str]) -> TensorDict:
    """Return a number for each letter, and a mask of letters in padded sentences; `_` becomes a gap."""
    numbers = [torch.tensor([GAP if letter == "_" else ord(letter) for letter in text]) for text in texts]
    letters = nn.utils.rnn.pad_sequence(numbers, batch_first=True)
    mask = torch.arange(letters.shape[1]) < torch.tensor([len(text) for text in texts])[:, None]
    return TensorDict({"letters": letters, "mask": mask}, [len(texts)])


def decode(letters: Tensor) -> str:
    """Return the text of one sentence, `[n]`."""
    return "".join("_" if letter == GAP else chr(letter) for letter in letters.tolist())


def puzzles(text: TensorDict, share: float = 0.15) -> TensorDict:
    """Make gaps at random positions of every sentence."""
    hidden = (torch.rand(text["letters"].shape) < share) & text["mask"]
    letters = text["letters"].masked_fill(hidden, GAP)
    return text.copy().update({"letters": letters, "hidden": hidden, "truth": text["letters"]})


class Network(nn.Module):
    """A convolution sees the letters around a gap, and a transformer the whole sentence."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.letters, self.near = nn.Embedding(LETTERS, width), nn.Conv1d(width, width, 7, padding=3)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, LETTERS)

    def forward(self, letters: Tensor, mask: Tensor) -> Tensor:
        """Return scores of all letters, `[sentences, longest, 128]`; those of padding mean nothing."""
        seen = self.letters(letters) * mask[..., None]
        read = self.layers(seen + self.near(seen.mT).mT, src_key_padding_mask=~mask)
        scores: Tensor = self.head(read)
        return scores


def loss_of(scores: Tensor, puzzle: TensorDict) -> Tensor:
    """Return the cross-entropy over the gaps of all sentences."""
    return nn.functional.cross_entropy(scores[puzzle["hidden"]], puzzle["truth"][puzzle["hidden"]])


@torch.no_grad()
def accuracy(model: TensorDictModule, puzzle: TensorDict) -> float:
    """Return the fraction of gaps that are filled in correctly."""
    right = model(puzzle)["scores"].argmax(-1) == puzzle["truth"]
    return right[puzzle["hidden"]].float().mean().item()


def train(model: TensorDictModule, text: TensorDict, test: TensorDict) -> list[tuple[int, float]]:
    """Train with new gaps for each batch; measure the accuracy on test sentences every hundred steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS)
    curve = [(0, accuracy(model, test))]
    for step in range(1, STEPS + 1):
        puzzle = puzzles(text[torch.randint(len(text), (32,))])
        loss = loss_of(model(puzzle)["scores"], puzzle)
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
    text = encode(sentences())
    text = text[torch.randperm(len(text))]
    test, training = puzzles(text[:500]), text[500:]
    usual = training["letters"][training["mask"]].bincount().argmax()
    always = (test["truth"][test["hidden"]] == usual).float().mean().item()
    model = TensorDictModule(Network(), in_keys=["letters", "mask"], out_keys=["scores"])
    curve = train(model, training, test)
    print(
        f"{len(training)} sentences; {curve[-1][1]:.0%} of the gaps right, {always:.0%} with {chr(usual)!r} everywhere"
    )
    riddle = encode(["ret_rn the n_mber of ch_racters", "rais_ an err_r if the fi_e does n_t exist"])
    with torch.no_grad():
        best = model(riddle)["scores"].argmax(-1)
        for given, mask, letters in zip(riddle["letters"], riddle["mask"], best, strict=True):
            print(decode(given[mask]), "->", decode(torch.where(given == GAP, letters, given)[mask]))
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
