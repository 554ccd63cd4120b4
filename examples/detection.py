"""Detection with a different number of boxes per picture: ragged fields, without padding or lists of dicts.

The pictures are generated: bright and dark rectangles on noise. For each cell of a 16 x 16 grid, a convolutional
network predicts whether the center of a box is there, and the size and the kind of the box.
"""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from tensorclass import RaggedTensor, collate, tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32, Int64

SIZE, CELLS, EPOCHS = 64, 16, 4
PICTURE = Path("build", "detection.png")


@tensorclass
class Scene:
    """A picture and its boxes; `n` differs from picture to picture, and is the same for boxes and kinds."""

    picture: Float32[Tensor, "1 64 64"]
    boxes: Float32[RaggedTensor, "n 4"]  # left, top, right, bottom, in pixels
    kinds: Int64[RaggedTensor, "n"]  # 0 is dark, 1 is bright


@tensorclass
class Grid:
    """For each cell: whether it is the center of a box, the kind, and the logarithms of width and height."""

    middle: Float32[Tensor, "16 16"]
    kind: Float32[Tensor, "2 16 16"]
    place: Float32[Tensor, "4 16 16"]


@tensorclass
class Found:
    """The predictions for a picture: all boxes that were found."""

    boxes: Float32[RaggedTensor, "k 4"]
    kinds: Int64[RaggedTensor, "k"]


def scene(random: torch.Generator) -> Scene:
    """Make a picture with one to five rectangles whose centers are in different cells."""
    picture, boxes, kinds = torch.rand(1, SIZE, SIZE, generator=random) * 0.3 + 0.35, [], []
    for place in torch.randperm(16, generator=random)[: int(torch.randint(1, 6, (), generator=random))].tolist():
        size = torch.randint(6, 15, (2,), generator=random)
        first = torch.tensor([place % 4, place // 4]) * 16 + (torch.rand(2, generator=random) * (15 - size)).long()
        (left, top), (right, bottom) = first.tolist(), (first + size).tolist()
        kind = int(torch.randint(2, (), generator=random))
        picture[0, top:bottom, left:right] += 0.35 if kind else -0.35
        boxes.append([left, top, right, bottom])
        kinds.append(kind)
    return Scene(picture=picture, boxes=torch.tensor(boxes).float(), kinds=torch.tensor(kinds))


class Network(nn.Module):
    """Make five layers: two halve the picture, and the last gives seven numbers for each cell."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 5, 2, 2), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 5, 2, 2), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 32, 5, 1, 2), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 32, 5, 1, 2), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 7, 1),
        )  # fmt: skip

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores of centers `[batch, 16, 16]` and kinds `[batch, 2, 16, 16]`, and boxes `[batch, 4, 16, 16]`."""
        cells = self.layers(picture)
        return cells[:, 0], cells[:, 1:3], cells[:, 3:]


def loss_of(grid: Grid, scenes: Scene) -> Tensor:
    """Handle all boxes of the batch at once: `segment_ids` says which picture each row of `values` belongs to."""
    boxes, image = scenes.boxes.values, scenes.boxes.segment_ids
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2 * CELLS / SIZE
    column, row = middles.long().unbind(-1)
    there = torch.zeros_like(grid.middle)
    there[image, row, column] = 1
    place = torch.cat([middles - middles.floor(), ((boxes[:, 2:] - boxes[:, :2]) / 10).log()], -1)
    return (
        nn.functional.binary_cross_entropy_with_logits(grid.middle, there, pos_weight=torch.tensor(10.0))
        + nn.functional.cross_entropy(grid.kind[image, :, row, column], scenes.kinds.values)
        + nn.functional.smooth_l1_loss(grid.place[image, :, row, column], place)
    )


def overlap(one: Tensor, other: Tensor) -> Tensor:
    """Return intersection over union: boxes `[n, 4]` and `[k, 4]` to `[n, k]`."""
    first, last = torch.maximum(one[:, None, :2], other[:, :2]), torch.minimum(one[:, None, 2:], other[:, 2:])
    shared = (last - first).clamp(min=0).prod(-1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(-1) for boxes in (one, other)]
    return shared / (areas[0][:, None] + areas[1] - shared)


def find(grid: Grid) -> Found:
    """Turn cells into boxes if they are likely centers, and likelier than their neighbors."""
    best = nn.functional.max_pool2d(grid.middle[:, None], 3, 1, 1)[:, 0]
    image, row, column = ((grid.middle == best) & (grid.middle > 0)).nonzero().unbind(-1)
    place = grid.place[image, :, row, column]
    middle = (torch.stack([column, row], -1) + place[:, :2]) * SIZE / CELLS
    half = place[:, 2:].exp() * 10 / 2
    lengths = image.bincount(minlength=len(grid))
    boxes = RaggedTensor(torch.cat([middle - half, middle + half], -1), lengths=lengths)
    return Found(boxes=boxes, kinds=RaggedTensor(grid.kind[image, :, row, column].argmax(-1), lengths=lengths))


def hits(found: Found, scenes: Scene) -> int:
    """Count true boxes whose intersection over union with a prediction of their kind is above one half."""
    count = 0
    for one, truth in zip(found.unbind(0), scenes.unbind(0), strict=True):
        same = truth.kinds.item()[:, None] == one.kinds.item()
        count += int(((overlap(truth.boxes.item(), one.boxes.item()) > 0.5) & same).any(1).sum())
    return count


def draw(found: Found, scenes: Scene) -> None:
    """Draw eight pictures: truth in white, predictions in red for bright and blue for dark."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    for axes, one, truth in zip(figure.subplots(2, 4).flat, found.unbind(0), scenes.unbind(0), strict=False):
        axes.imshow(truth.picture[0], cmap="gray", vmin=0, vmax=1)
        axes.axis("off")
        colors = ["white"] * len(truth.boxes.item()) + [("blue", "red")[kind] for kind in one.kinds.item().tolist()]
        for box, color in zip([*truth.boxes.item(), *one.boxes.item()], colors, strict=True):
            left, top, right, bottom = box.tolist()
            axes.add_patch(Rectangle((left - 0.5, top - 0.5), right - left, bottom - top, fill=False, color=color))
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)


def main() -> None:
    """Make pictures, train, find, draw."""
    torch.set_num_threads(1)
    random = torch.manual_seed(0)
    scenes = collate([scene(random) for _ in range(700)])
    test, training = scenes[:100], scenes[100:]
    model = TensorClassSequential(network=stage(Network(), Scene.picture, out=(Grid.middle, Grid.kind, Grid.place)))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss = torch.zeros(())
    for epoch in range(EPOCHS):
        for batch in training.iter(32, shuffle=True):
            loss = loss_of(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    with torch.no_grad():
        found = find(model.eval()(test))
    right, given, true = hits(found, test), len(found.boxes.values), len(test.boxes.values)
    print(f"{true} boxes, {given} found, {right} right; the first pictures have {found.boxes.lengths[:5].tolist()}")
    draw(found, test)
    assert right > 0.9 * true
    assert given < 1.1 * true


if __name__ == "__main__":
    main()
