"""`../suppress.py` with a dict for each picture, since the numbers of boxes differ."""

from __future__ import annotations

import torch
from torch import Tensor

PICTURES, ANCHORS, BOXES = 100, 40, 6

Picture = dict[str, Tensor]


def load() -> list[Picture]:
    """Make pictures of up to six boxes; some anchors are near a box, the others anywhere and less sure."""
    pictures = []
    for _ in range(PICTURES):
        corner = 80 * torch.rand(int(torch.randint(1, BOXES + 1, ())), 2)
        true = torch.cat([corner, corner + 10 + 10 * torch.rand_like(corner)], -1)
        near = true.repeat(3, 1) + torch.randn(3 * len(true), 4)
        other = 80 * torch.rand(ANCHORS - len(near), 2)
        pictures.append({
            "boxes": torch.cat([near, torch.cat([other, other + 15], -1)]),
            "logits": torch.cat([torch.ones(len(near)), -torch.ones(len(other))]) + torch.randn(ANCHORS),
            "truth": true,
        })  # fmt: skip
    return pictures


def overlap(a: Tensor, b: Tensor) -> Tensor:
    """Return intersection over union of each box of `a` with each of `b`."""
    inner = (torch.minimum(a[:, None, 2:], b[:, 2:]) - torch.maximum(a[:, None, :2], b[:, :2])).clamp(min=0)
    one, other = ((boxes[:, 2:] - boxes[:, :2]).prod(-1) for boxes in (a, b))
    both = inner.prod(-1)
    return both / (one[:, None] + other - both)


def best(boxes: Tensor, score: Tensor) -> Tensor:
    """Return the numbers of the confident boxes that overlap no better one, best first."""
    order = score.argsort(descending=True)
    order = order[score[order] > 0.75]
    clash, kept = overlap(boxes[order], boxes[order]) > 0.5, torch.ones(len(order), dtype=torch.bool)
    for i in range(len(order)):
        kept[i] = not (clash[i, :i] & kept[:i]).any()
    return order[kept]


def keep(pictures: list[Picture]) -> list[Picture]:
    """Drop boxes of each picture, and say of the others whether each covers at least half of a true one."""
    results = []
    for picture in pictures:
        score = picture["logits"].sigmoid()
        kept = best(picture["boxes"], score)
        found = picture["boxes"][kept]
        right = (overlap(found, picture["truth"]) > 0.5).any(-1)
        results.append({"found": found, "score": score[kept], "right": right})
    return results


def main() -> None:
    """Print how many boxes remain, and how many of them are right."""
    torch.manual_seed(0)
    kept = keep(load())
    count = sum(len(picture["found"]) for picture in kept) / len(kept)
    truth = torch.cat([picture["right"] for picture in kept])
    right = truth.float().mean().item()
    mean = torch.cat([picture["score"] for picture in kept])[truth].mean().item()
    print(f"{count:.2f} boxes in a picture, {right:.1%} of them right, these with a score of {mean:.3f}")
    assert right > 0.7


if __name__ == "__main__":
    main()
