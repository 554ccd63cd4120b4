"""`../digits.py` with a dict of tensors: nothing declares its entries, so nothing is checked before training."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

EPOCHS = 10
TRAINING = Path("build", "digits-training.svg")

Batch = dict[str, Tensor]


def rows(batch: Batch, index: Tensor) -> Batch:
    """Take some elements of a batch."""
    return {name: value[index] for name, value in batch.items()}


def load() -> tuple[Batch, Batch]:
    """Load the images in random order: 80 % for training, 20 % for testing."""
    pixels, labels = load_digits(return_X_y=True)
    digits = {
        "image": torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16,
        "label": torch.tensor(labels, dtype=torch.int64),
    }
    order = torch.randperm(len(labels))
    split = len(labels) * 4 // 5
    return rows(digits, order[:split]), rows(digits, order[split:])


def build() -> nn.Sequential:
    """Build the network; a layer of the wrong width is an error when the first batch comes."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 4 * 4, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def train(classifier: nn.Module, digits: Batch) -> list[float]:
    """Train with Adam and cross-entropy; return the losses."""
    loader = DataLoader(TensorDataset(digits["image"], digits["label"]), batch_size=64, shuffle=True)
    optimizer = torch.optim.Adam(classifier.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, epochs=EPOCHS, steps_per_epoch=len(loader))
    classifier.train()
    progress = tqdm(range(EPOCHS), desc="training", unit="epoch")
    losses: list[float] = []
    for _ in progress:
        for image, label in loader:
            loss = nn.functional.cross_entropy(classifier(image), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        progress.set_postfix(loss=f"{losses[-1]:.3f}")
    return losses


@torch.no_grad()
def confusion(classifier: nn.Module, digits: Batch) -> Tensor:
    """Count how often each digit (row) is classified as each digit (column), `[10, 10]`."""
    digit: Tensor = classifier.eval()(digits["image"]).argmax(-1)
    return (digits["label"] * 10 + digit).bincount(minlength=100).reshape(10, 10)


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
    TRAINING.parent.mkdir(exist_ok=True)
    figure.savefig(TRAINING)
    print(f"the loss and the confusions are drawn in {TRAINING}")


def main() -> None:
    """Load, build, train, test."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # images of 8 x 8 pixels do not profit from more threads
    training, test = load()
    classifier = build()
    print(classifier)
    losses = train(classifier, training)
    confused = confusion(classifier, test)
    draw(losses, confused)
    reached = confused.diagonal().sum().item() / len(test["label"])
    print(f"test accuracy: {reached:.2%} on {len(test['label'])} images")
    assert reached >= 0.96


if __name__ == "__main__":
    main()
