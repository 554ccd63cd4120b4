"""Train a typed classifier on scikit-learn's bundled digits: 1,797 scanned images of 8 x 8 pixels, no download."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor, nn
from tqdm import tqdm

from tensorclass import schema, tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32, Int64

EPOCHS = 10
TRAINING = Path("build", "digits-training.svg")


@tensorclass
class Digits:
    """Scanned digits; the shape is that of one image, batch dims come before it."""

    image: Float32[Tensor, "1 8 8"]
    label: Int64[Tensor, ""]


@tensorclass
class Prediction:
    """A score for each class, and the most likely class."""

    logits: Float32[Tensor, "classes"]
    digit: Int64[Tensor, ""]


def load() -> tuple[Digits, Digits]:
    """Load the images in random order: 80 % for training, 20 % for testing."""
    pixels, labels = load_digits(return_X_y=True)
    image = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    digits = Digits(image=image, label=torch.tensor(labels, dtype=torch.int64)).shuffle()
    split = len(digits) * 4 // 5
    return digits[:split], digits[split:]


def build() -> TensorClassSequential[Digits, Prediction]:
    """Build the pipeline; it is checked here, before it has seen an image."""
    encoder = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 4 * 4, 128), nn.ReLU(),
    )  # fmt: skip
    return TensorClassSequential(
        encoder=stage(encoder, Digits.image),
        head=stage(nn.Linear(128, 10), out=Prediction.logits),
        decide=stage(lambda logits: logits.argmax(-1), out=Prediction.digit),
    )


def train(classifier: TensorClassSequential[Digits, Prediction], digits: Digits) -> list[float]:
    """Train with Adam and cross-entropy; return the losses. The digits are the dataset, mini-batches are `Digits`."""
    optimizer = torch.optim.Adam(classifier.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=EPOCHS * -(-len(digits) // 64))
    classifier.train()
    progress = tqdm(range(EPOCHS), desc="training", unit="epoch")
    losses: list[float] = []
    for _ in progress:
        for batch in digits.iter(64, shuffle=True):
            loss = nn.functional.cross_entropy(classifier(batch).logits, batch.label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        progress.set_postfix(loss=f"{losses[-1]:.3f}")
    return losses


@torch.no_grad()
def confusion(classifier: TensorClassSequential[Digits, Prediction], digits: Digits) -> Tensor:
    """Count how often each digit (row) is classified as each digit (column), `[10, 10]`."""
    return (digits.label * 10 + classifier.eval()(digits).digit).bincount(minlength=100).reshape(10, 10)


def draw(losses: list[float], confused: Tensor) -> None:
    """Draw the loss of every step, and which digits are mistaken for which."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    curve, picture = figure.subplots(1, 2)
    curve.plot(losses)
    curve.set(xlabel="step", ylabel="loss", yscale="log")
    picture.imshow(confused.float().log1p(), cmap="Blues")
    for row, column in confused.nonzero().tolist():
        picture.text(column, row, int(confused[row, column]), ha="center", va="center", color="tab:orange")
    picture.set(xlabel="digit that was said", ylabel="digit that it is", xticks=range(10), yticks=range(10))
    figure.savefig(TRAINING)
    print(f"the loss and the confusions are drawn in {TRAINING}")


def main() -> None:
    """Load, build, show, train, test."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # images of 8 x 8 pixels do not profit from more threads
    training, test = load()
    classifier = build()
    print(schema(Digits), classifier.explain(batch_size=64), sep="\n\n")
    TRAINING.parent.mkdir(exist_ok=True)
    TRAINING.with_name("digits.svg").write_text(classifier.graph("svg"), "utf-8")
    losses = train(classifier, training)
    confused = confusion(classifier, test)
    draw(losses, confused)
    reached = confused.diagonal().sum().item() / len(test)
    print(f"test accuracy: {reached:.2%} on {len(test)} images")
    assert reached >= 0.96
    assert classifier.check(values=True).diagnostics == ()  # no image influences the prediction for another one


if __name__ == "__main__":
    main()
