"""`../digits.py` with tensordict: batches are indexed as a whole, and strings name what modules read and write."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn
from torch.utils.data import DataLoader
from tqdm import tqdm

EPOCHS = 10
TRAINING = Path("build", "digits-training.svg")


def load() -> tuple[TensorDict, TensorDict]:
    """Load the images in random order: 80 % for training, 20 % for testing."""
    pixels, labels = load_digits(return_X_y=True)
    digits = TensorDict(
        {
            "image": torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16,
            "label": torch.tensor(labels, dtype=torch.int64),
        },
        batch_size=[len(labels)],
    )
    digits = digits[torch.randperm(len(digits))]
    split = len(digits) * 4 // 5
    return digits[:split], digits[split:]


def build() -> TensorDictSequential:
    """Build the pipeline; missing keys and layers of the wrong width are errors when the first batch comes."""
    encoder = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 4 * 4, 128), nn.ReLU(),
    )  # fmt: skip
    return TensorDictSequential(
        TensorDictModule(encoder, in_keys=["image"], out_keys=["features"]),
        TensorDictModule(nn.Linear(128, 10), in_keys=["features"], out_keys=["logits"]),
        TensorDictModule(lambda logits: logits.argmax(-1), in_keys=["logits"], out_keys=["digit"]),
    )


def train(classifier: TensorDictSequential, digits: TensorDict) -> list[float]:
    """Train with Adam and cross-entropy; return the losses. The digits are the dataset."""
    loader = DataLoader(digits, batch_size=64, shuffle=True, collate_fn=lambda batch: batch)
    optimizer = torch.optim.Adam(classifier.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, epochs=EPOCHS, steps_per_epoch=len(loader))
    classifier.train()
    progress = tqdm(range(EPOCHS), desc="training", unit="epoch")
    losses: list[float] = []
    for _ in progress:
        for batch in loader:
            loss = nn.functional.cross_entropy(classifier(batch)["logits"], batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        progress.set_postfix(loss=f"{losses[-1]:.3f}")
    return losses


@torch.no_grad()
def confusion(classifier: TensorDictSequential, digits: TensorDict) -> Tensor:
    """Count how often each digit (row) is classified as each digit (column), `[10, 10]`."""
    prediction = classifier.eval()(digits)
    return (digits["label"] * 10 + prediction["digit"]).bincount(minlength=100).reshape(10, 10)


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
    print(training, classifier)
    losses = train(classifier, training)
    confused = confusion(classifier, test)
    draw(losses, confused)
    reached = confused.diagonal().sum().item() / len(test)
    print(f"test accuracy: {reached:.2%} on {len(test)} images")
    assert reached >= 0.96


if __name__ == "__main__":
    main()
