"""`../captions.py` with tensordict: words are padded, and texts follow the batch."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from tensordict import NonTensorStack, TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn

NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
WORDS = [*NAMES, *["a", "scan", "picture", "of", "thin", "bold", "on", "light", "dark", "paper"]]
EPOCHS, BATCH = 20, 64
PICTURE = Path("build", "captions.png")


def captions(texts: list[str]) -> Tensor:
    """Return a number for each word, padded; an unknown word raises `ValueError`."""
    words = [torch.tensor([WORDS.index(word) for word in text.split()]) for text in texts]
    return nn.utils.rnn.pad_sequence(words, batch_first=True, padding_value=len(WORDS))


def describe(digit: int, bold: bool, dark: bool) -> str:
    """Make one of many possible captions; a caption need not mention everything."""
    start = choice("", "a scan of ", "a picture of ")
    ink, paper = choice("", "bold " if bold else "thin "), choice("", f" on {'dark' if dark else 'light'} paper")
    return f"{start}a {ink}{NAMES[digit]}{paper}"


def choice(*texts: str) -> str:
    """Choose one at random."""
    return texts[int(torch.randint(len(texts), ()))]


def load() -> TensorDict:
    """Load the digits in random order, each made thin or bold, light or dark."""
    pixels, labels = load_digits(return_X_y=True)
    image, digit = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16, torch.tensor(labels)
    bold, dark = torch.rand(2, len(image)) < 0.5
    thick = nn.functional.max_pool2d(nn.functional.pad(image, (0, 1, 0, 1)), 2, 1)
    image = torch.where(bold[:, None, None, None], thick, image)
    texts = [*map(describe, digit.tolist(), bold.tolist(), dark.tolist())]
    image = torch.where(dark[:, None, None, None], 1 - image, image)
    caption = {"text": NonTensorStack(*texts), "words": captions(texts)}
    scans = TensorDict({"image": image, "caption": caption, "digit": digit}, [len(digit)])
    return scans[torch.randperm(len(scans))]


class Words(nn.Module):
    """The mean of the vectors of all words; padding counts for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.EmbeddingBag(len(WORDS) + 1, 64, padding_idx=len(WORDS))
        self.layers = nn.Sequential(nn.ReLU(), nn.Linear(64, 64))

    def forward(self, words: Tensor) -> Tensor:
        """Return `[texts, 64]`."""
        return nn.functional.normalize(self.layers(self.vectors(words)), dim=-1)


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


def build() -> TensorDictSequential:
    """Build the pipeline; each encoder reads its own entry, and the loss compares their outputs."""
    return TensorDictSequential(
        TensorDictModule(Pixels(), in_keys=["image"], out_keys=["seen"]),
        TensorDictModule(Words(), in_keys=[("caption", "words")], out_keys=["read"]),
    )


def loss_of(scans: TensorDict) -> Tensor:
    """Each image has to find its text in the batch, and each text its image; equal texts both count as correct."""
    scores = scans["seen"] @ scans["read"].T * 10
    texts = scans["caption", "text"]
    same = [[one == other for other in texts] for one in texts]
    truth = torch.tensor(same, dtype=torch.float32)
    truth = truth / truth.sum(1)
    return nn.functional.cross_entropy(scores, truth) + nn.functional.cross_entropy(scores.T, truth)


def train(model: TensorDictSequential, scans: TensorDict) -> list[float]:
    """Train with Adam; return the loss of every batch."""
    optimizer = torch.optim.Adam(model.parameters())
    steps = EPOCHS * -(-len(scans) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    losses = []
    for _ in range(EPOCHS):
        for batch in scans[torch.randperm(len(scans))].split(BATCH):
            loss = loss_of(model(batch))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
    return losses


@torch.no_grad()
def search(model: TensorDictSequential, scans: TensorDict, texts: list[str]) -> Tensor:
    """Return how well each text fits each image, `[texts, images]`."""
    read: Tensor = model[1].module(captions(texts))
    return read @ model(scans)["seen"].T


def draw(scans: TensorDict, texts: list[str], scores: Tensor) -> None:
    """Draw the eight images that fit each text best."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    for axes, text, row in zip(figure.subplots(len(texts), 1), texts, scores, strict=True):
        best = scans["image"][row.topk(8).indices]
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
    right = (named == test["digit"]).float().mean().item()
    print(f"loss {losses[0]:.2f} to {losses[-1]:.2f}; {right:.1%} of {len(test)} images are named right by text")
    wanted = ["a thin seven", "a bold three on dark paper", "a picture of a thin zero on dark paper", "a bold four"]
    scores = search(model, test, wanted)
    print("a thin seven:", test[scores[0].topk(5).indices]["caption", "text"])
    draw(test, wanted, scores)
    assert right > 0.9


if __name__ == "__main__":
    main()
