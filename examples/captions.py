"""Images with captions: two encoders learn to give a digit and the words that describe it the same direction.

The images are scikit-learn's digits, made thin or bold, and black on white or white on black; the captions describe
them in words. After training, you can search the images by text, and the best caption names a digit.
"""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor, nn

from tensorclass import PerElement, RaggedTensor, tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32, Int64

NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
WORDS = [*NAMES, *["a", "scan", "picture", "of", "thin", "bold", "on", "light", "dark", "paper"]]
EPOCHS, BATCH = 20, 64
PICTURE = Path("build", "captions.png")


@tensorclass
class Caption:
    """A text, and its words as numbers; `n` differs from text to text."""

    text: PerElement[str]
    words: Int64[RaggedTensor, "n"]


@tensorclass
class Scan:
    """An image, its caption, and the digit, which the model never sees."""

    image: Float32[Tensor, "1 8 8"]
    caption: Caption
    digit: Int64[Tensor, ""]


@tensorclass
class Meaning:
    """Unit vectors of an image and of a text."""

    seen: Float32[Tensor, "64"]
    read: Float32[Tensor, "64"]


def captions(texts: list[str]) -> Caption:
    """Return a number for each word; an unknown word raises `ValueError`."""
    return Caption(text=texts, words=[torch.tensor([WORDS.index(word) for word in text.split()]) for text in texts])


def describe(digit: int, bold: bool, dark: bool) -> str:
    """Make one of many possible captions; a caption need not mention everything."""
    start = choice("", "a scan of ", "a picture of ")
    ink, paper = choice("", "bold " if bold else "thin "), choice("", f" on {'dark' if dark else 'light'} paper")
    return f"{start}a {ink}{NAMES[digit]}{paper}"


def choice(*texts: str) -> str:
    """Choose one at random."""
    return texts[int(torch.randint(len(texts), ()))]


def load() -> Scan:
    """Load the digits in random order, each made thin or bold, light or dark."""
    pixels, labels = load_digits(return_X_y=True)
    image, digit = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16, torch.tensor(labels)
    bold, dark = torch.rand(2, len(image)) < 0.5
    thick = nn.functional.max_pool2d(nn.functional.pad(image, (0, 1, 0, 1)), 2, 1)
    image = torch.where(bold[:, None, None, None], thick, image)
    image = torch.where(dark[:, None, None, None], 1 - image, image)
    texts = [*map(describe, digit.tolist(), bold.tolist(), dark.tolist())]
    return Scan(image=image, caption=captions(texts), digit=digit).shuffle()


class Words(nn.Module):
    """The mean of the vectors of all words."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.Embedding(len(WORDS), 64)
        self.layers = nn.Sequential(nn.ReLU(), nn.Linear(64, 64))

    def forward(self, words: RaggedTensor) -> Tensor:
        """Return `[texts, 64]`."""
        return nn.functional.normalize(self.layers(words.apply(self.vectors).mean()), dim=-1)


class Pixels(nn.Module):
    """A small convolutional network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3), nn.Linear(1024, 64),
        )  # fmt: skip

    def forward(self, image: Tensor) -> Tensor:
        """Return `[images, 64]`."""
        return nn.functional.normalize(self.layers(image), dim=-1)


def build() -> TensorClassSequential[Scan, Meaning]:
    """Build the pipeline; each encoder reads its own part of a `Scan`, and the loss compares their outputs."""
    return TensorClassSequential(
        pixels=stage(Pixels(), Scan.image, out=Meaning.seen),
        words=stage(Words(), Scan.caption.words, out=Meaning.read),
    )


def loss_of(meaning: Meaning, scans: Scan) -> Tensor:
    """Each image has to find its text in the batch, and each text its image; equal texts both count as correct."""
    scores = meaning.seen @ meaning.read.T * 10
    same = [[one == other for other in scans.caption.text] for one in scans.caption.text.tolist()]
    truth = torch.tensor(same, dtype=torch.float32)
    truth = truth / truth.sum(1)
    return nn.functional.cross_entropy(scores, truth) + nn.functional.cross_entropy(scores.T, truth)


def train(model: TensorClassSequential[Scan, Meaning], scans: Scan) -> list[float]:
    """Train with Adam; return the loss of every batch."""
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=EPOCHS * -(-len(scans) // BATCH))
    losses = []
    for _ in range(EPOCHS):
        for batch in scans.iter(BATCH, shuffle=True):
            loss = loss_of(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
    return losses


@torch.no_grad()
def search(model: TensorClassSequential[Scan, Meaning], scans: Scan, texts: list[str]) -> Tensor:
    """Return how well each text fits each image, `[texts, images]`."""
    read: Tensor = model.get_submodule("words")(captions(texts).words)
    return read @ model(scans).seen.T


def draw(scans: Scan, texts: list[str], scores: Tensor) -> None:
    """Draw the eight images that fit each text best."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    for axes, text, row in zip(figure.subplots(len(texts), 1), texts, scores, strict=True):
        best = scans[row.topk(8).indices].image
        axes.imshow(nn.functional.pad(best, (0, 1)).permute(1, 2, 0, 3).reshape(8, -1), cmap="gray_r", vmin=0, vmax=1)
        axes.set(xticks=[], yticks=[])
        axes.set_title(text, fontsize=9)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)


def main() -> None:
    """Load, train, name digits by text, search by text."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    scans = load()
    test, training = scans[:400], scans[400:]
    model = build()
    losses = train(model, training)
    model.eval()
    named = search(model, test, [f"a {name}" for name in NAMES]).argmax(0)
    right = (named == test.digit).float().mean().item()
    print(f"loss {losses[0]:.2f} to {losses[-1]:.2f}; {right:.1%} of {len(test)} images are named right by text")
    wanted = ["a thin seven", "a bold three on dark paper", "a picture of a thin zero on dark paper", "a bold four"]
    scores = search(model, test, wanted)
    print("a thin seven:", test[scores[0].topk(5).indices].caption.text.tolist())
    draw(test, wanted, scores)
    assert right > 0.9


if __name__ == "__main__":
    main()
