"""Elements of different sizes: each scanned digit as the set of its ink points, beside a summary and a name.

The images are scikit-learn's bundled digits, no download. A digit has as many points as pixels with ink, so that
`place` and `ink` are ragged fields: no padding, and one length per element through every batch operation. `summary`
is a nested class, `name` one Python string per element; a `DataLoader` joins all of it.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader

from tensorclass import PerElement, RaggedTensor, TensorClass, collate
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Int64

EPOCHS = 10


class Summary(TensorClass):
    """How much ink there is in every row and every column."""

    rows: Float32[Tensor, "8"]
    columns: Float32[Tensor, "8"]


class Drawing(TensorClass):
    """A digit as a set of points: the number of the pixel, and how much ink it has."""

    place: Int64[RaggedTensor, "points"]
    ink: Float32[RaggedTensor, "points"]
    summary: Summary
    label: Int64[Tensor, ""]
    name: PerElement[str]


class Encoded(TensorClass):
    """What is known of a drawing: of its points together, and of all of it."""

    pooled: Float32[Tensor, "128"]


class Prediction(TensorClass):
    """A score for each class, and the most likely one."""

    logits: Float32[Tensor, "10"]
    digit: Int64[Tensor, ""]


def drawing(image: Tensor, label: int, number: int) -> Drawing:
    """One image of 8 x 8 pixels; it has no batch dims."""
    place = image.flatten().nonzero().flatten()
    return Drawing(
        place=place,
        ink=image.flatten()[place],
        summary=Summary(image.mean(1), image.mean(0)),
        label=torch.tensor(label),
        name=f"scan {number:04d}",
    )


def load() -> tuple[list[Drawing], list[Drawing]]:
    """The drawings one by one, as a dataset has them: 80 % to train on, 20 % to test on."""
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 8, 8) / 16
    targets: list[int] = torch.tensor(labels).tolist()
    drawings = [drawing(images[i], targets[i], i) for i in torch.randperm(len(images)).tolist()]
    split = len(drawings) * 4 // 5
    return drawings[:split], drawings[split:]


class PointSet(nn.Module):
    """A vector for each place, weighted by the ink there, summed over the points of each element."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.EmbeddingBag(64, 128, mode="sum")

    def forward(self, place: RaggedTensor, ink: RaggedTensor) -> Tensor:
        """All points at once, without padding; `[elements, 128]`."""
        ends = place.lengths.cumsum(0)
        pooled: Tensor = self.places(place.values, ends - place.lengths, per_sample_weights=ink.values)
        return pooled.relu()


class Head(nn.Module):
    """The points of a drawing and its summary to ten scores."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(128 + 16, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, pooled: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """`[elements, 10]`."""
        scores: Tensor = self.layers(torch.cat([pooled, rows, columns], -1))
        return scores


def build() -> TensorClassSequential[Drawing, Prediction]:
    """Fields of a nested class are read like any others."""
    return TensorClassSequential(
        TensorClassModule(PointSet(), in_fields=(Drawing.place, Drawing.ink), out_fields=Encoded.pooled, name="points"),
        TensorClassModule(
            Head(),
            in_fields=(Encoded.pooled, Drawing.summary.rows, Drawing.summary.columns),
            out_fields=Prediction.logits,
            name="head",
        ),
        TensorClassModule(
            lambda logits: logits.argmax(-1), in_fields=Prediction.logits, out_fields=Prediction.digit, name="decide"
        ),
        input=Drawing,
        output=Prediction,
    )


def train(classifier: TensorClassSequential[Drawing, Prediction], drawings: list[Drawing]) -> None:
    """Adam with cross-entropy; `collate` makes one batch of a list of drawings."""
    # torch declares that a DataLoader takes its Dataset; a list of elements is one at run time.
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
    """Load, join, build, train, and name what was taken for something else."""
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
