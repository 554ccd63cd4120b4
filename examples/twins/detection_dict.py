"""`../detection.py` with a dict for each picture: `join` makes a batch, and has to know every entry."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn

SIZE, CELLS, EPOCHS = 64, 16, 4
PICTURE = Path("build", "detection.png")

Batch = dict[str, Tensor]
Grid = tuple[Tensor, Tensor, Tensor]


def scene(random: torch.Generator) -> Batch:
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
    return {"picture": picture, "boxes": torch.tensor(boxes).float(), "kinds": torch.tensor(kinds)}


def join(scenes: list[Batch]) -> Batch:
    """Stack pictures and join boxes; `image` says which picture a box belongs to."""
    counts = torch.tensor([len(scene["boxes"]) for scene in scenes])
    return {
        "picture": torch.stack([scene["picture"] for scene in scenes]),
        "boxes": torch.cat([scene["boxes"] for scene in scenes]),
        "kinds": torch.cat([scene["kinds"] for scene in scenes]),
        "image": torch.arange(len(scenes)).repeat_interleave(counts),
    }


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


def loss_of(grid: Grid, scenes: Batch) -> Tensor:
    """Handle all boxes of the batch at once."""
    middle, kind, place = grid
    boxes, image = scenes["boxes"], scenes["image"]
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2 * CELLS / SIZE
    column, row = middles.long().unbind(-1)
    there = torch.zeros_like(middle)
    there[image, row, column] = 1
    true = torch.cat([middles - middles.floor(), ((boxes[:, 2:] - boxes[:, :2]) / 10).log()], -1)
    return (
        nn.functional.binary_cross_entropy_with_logits(middle, there, pos_weight=torch.tensor(10.0))
        + nn.functional.cross_entropy(kind[image, :, row, column], scenes["kinds"])
        + nn.functional.smooth_l1_loss(place[image, :, row, column], true)
    )


def overlap(one: Tensor, other: Tensor) -> Tensor:
    """Return intersection over union: boxes `[n, 4]` and `[k, 4]` to `[n, k]`."""
    first, last = torch.maximum(one[:, None, :2], other[:, :2]), torch.minimum(one[:, None, 2:], other[:, 2:])
    shared = (last - first).clamp(min=0).prod(-1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(-1) for boxes in (one, other)]
    return shared / (areas[0][:, None] + areas[1] - shared)


def find(grid: Grid) -> list[Batch]:
    """Turn cells into boxes if they are likely centers, and likelier than their neighbors."""
    middle, kind, place = grid
    best = nn.functional.max_pool2d(middle[:, None], 3, 1, 1)[:, 0]
    image, row, column = ((middle == best) & (middle > 0)).nonzero().unbind(-1)
    place = place[image, :, row, column]
    center = (torch.stack([column, row], -1) + place[:, :2]) * SIZE / CELLS
    half = place[:, 2:].exp() * 10 / 2
    boxes, kinds = torch.cat([center - half, center + half], -1), kind[image, :, row, column].argmax(-1)
    counts = image.bincount(minlength=len(best)).tolist()
    return [{"boxes": b, "kinds": k} for b, k in zip(boxes.split(counts), kinds.split(counts), strict=True)]


def hits(found: list[Batch], scenes: list[Batch]) -> int:
    """Count true boxes whose intersection over union with a prediction of their kind is above one half."""
    count = 0
    for one, truth in zip(found, scenes, strict=True):
        same = truth["kinds"][:, None] == one["kinds"]
        count += int(((overlap(truth["boxes"], one["boxes"]) > 0.5) & same).any(1).sum())
    return count


def draw(found: list[Batch], scenes: list[Batch]) -> None:
    """Draw eight pictures: truth in white, predictions in red for bright and blue for dark."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    for axes, one, truth in zip(figure.subplots(2, 4).flat, found, scenes, strict=False):
        axes.imshow(truth["picture"][0], cmap="gray", vmin=0, vmax=1)
        axes.axis("off")
        colors = ["white"] * len(truth["boxes"]) + [("blue", "red")[kind] for kind in one["kinds"].tolist()]
        for box, color in zip([*truth["boxes"], *one["boxes"]], colors, strict=True):
            left, top, right, bottom = box.tolist()
            axes.add_patch(Rectangle((left - 0.5, top - 0.5), right - left, bottom - top, fill=False, color=color))
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)


def main() -> None:
    """Make pictures, train, find, draw."""
    torch.set_num_threads(1)
    random = torch.manual_seed(0)
    scenes = [scene(random) for _ in range(700)]
    test, training = scenes[:100], scenes[100:]
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss = torch.zeros(())
    for epoch in range(EPOCHS):
        for index in torch.randperm(len(training)).split(32):
            batch = join([training[i] for i in index.tolist()])
            loss = loss_of(model(batch["picture"]), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    with torch.no_grad():
        found = find(model.eval()(join(test)["picture"]))
    counts = [len(one["boxes"]) for one in found]
    right, given, true = hits(found, test), sum(counts), sum(len(scene["boxes"]) for scene in test)
    print(f"{true} boxes, {given} found, {right} right; the first pictures have {counts[:5]}")
    draw(found, test)
    assert right > 0.9 * true
    assert given < 1.1 * true


if __name__ == "__main__":
    main()
