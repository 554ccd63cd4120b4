"""Elements of different sizes: each scanned digit as the set of its ink points, with a summary and a name.

The images are scikit-learn's bundled digits, no download. A digit has one point per pixel with ink, so `place` and
`ink` are ragged fields: no padding, and one length per element through every batch operation. `summary` is a nested
class, and `name` has one Python string per element; a `DataLoader` joins all of them.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader

from tensorclass import PerElement, RaggedTensor, collate, tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32, Int64

EPOCHS = 10


@tensorclass
class Summary:
    """The amount of ink in each row and each column."""

    rows: Float32[Tensor, "8"]
    columns: Float32[Tensor, "8"]


@tensorclass
class Drawing:
    """A digit as a set of points, each with the number of its pixel and the amount of ink."""

    place: Int64[RaggedTensor, "points"]
    ink: Float32[RaggedTensor, "points"]
    summary: Summary
    label: Int64[Tensor, ""]
    name: PerElement[str]


@tensorclass
class Prediction:
    """A score for each class, and the most likely class."""

    logits: Float32[Tensor, "10"]
    digit: Int64[Tensor, ""]


def drawing(image: Tensor, label: int, number: int) -> Drawing:
    """Make a drawing from one image of 8 x 8 pixels; it has no batch dims."""
    place = image.flatten().nonzero().flatten()
    return Drawing(
        place=place,
        ink=image.flatten()[place],
        summary=Summary(image.mean(1), image.mean(0)),
        label=torch.tensor(label),
        name=f"scan {number:04d}",
    )


def load() -> tuple[list[Drawing], list[Drawing]]:
    """Return single drawings, as a dataset has them: 80 % for training, 20 % for testing."""
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 8, 8) / 16
    targets: list[int] = torch.tensor(labels).tolist()
    drawings = [drawing(images[i], targets[i], i) for i in torch.randperm(len(images)).tolist()]
    split = len(drawings) * 4 // 5
    return drawings[:split], drawings[split:]


class PointSet(nn.Module):
    """Sum the vectors of the places of each element, weighted by the ink there."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.EmbeddingBag(64, 128, mode="sum")

    def forward(self, place: RaggedTensor, ink: RaggedTensor) -> Tensor:
        """Process all points at once, without padding; return `[elements, 128]`."""
        ends = place.lengths.cumsum(0)
        pooled: Tensor = self.places(place.values, ends - place.lengths, per_sample_weights=ink.values)
        return pooled.relu()


class Head(nn.Module):
    """Map the points of a drawing and its summary to ten scores."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(128 + 16, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, pooled: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Return `[elements, 10]`."""
        scores: Tensor = self.layers(torch.cat([pooled, rows, columns], -1))
        return scores


def build() -> TensorClassSequential[Drawing, Prediction]:
    """Build the pipeline; modules read fields of a nested class like any others."""
    points = stage(PointSet(), Drawing.place, Drawing.ink)
    return TensorClassSequential(
        points=points,
        head=stage(Head(), points, Drawing.summary.rows, Drawing.summary.columns, out=Prediction.logits),
        decide=stage(lambda logits: logits.argmax(-1), out=Prediction.digit),
    )


def train(classifier: TensorClassSequential[Drawing, Prediction], drawings: list[Drawing]) -> None:
    """Train with Adam and cross-entropy; `collate` makes one batch from a list of drawings."""
    # By its annotations, a DataLoader takes a Dataset; at run time, a list of elements works too.
    loader: DataLoader[Drawing] = DataLoader(drawings, batch_size=64, shuffle=True, collate_fn=collate)  # type: ignore[arg-type]  # as said
    optimizer = torch.optim.Adam(classifier.parameters(), lr=3e-3)
    batch: Drawing
    for _ in range(EPOCHS):
        for batch in loader:
            loss = nn.functional.cross_entropy(classifier(batch).logits, batch.label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main() -> None:
    """Load, join, build, train, and print the names of the misclassified drawings."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    training, test = load()
    batch = collate(test)
    print(batch[:3], "", f"points of the first three: {batch[:3].ink.lengths.tolist()}", sep="\n")
    classifier = build()
    train(classifier, training)
    with torch.no_grad():
        wrong = classifier(batch).digit != batch.label
    reached = 1 - wrong.float().mean().item()
    print(f"\ntest accuracy: {reached:.2%} on {len(batch)} drawings; mistaken: {batch[wrong].name.tolist()}")
    assert reached >= 0.93


if __name__ == "__main__":
    main()
