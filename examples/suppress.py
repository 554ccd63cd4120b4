"""What follows a detector: the confident boxes of each picture that overlap no better one, compared with the truth."""

from __future__ import annotations

import torch
from torch import Tensor

from tensorclass import RaggedTensor, tensorclass
from tensorclass.nn import TensorClassSequential, module
from tensorclass.typing import Bool, Float32

PICTURES, ANCHORS, BOXES = 100, 40, 6


@tensorclass
class Raw:
    """The output of a detector: boxes (left, top, right, bottom) and logits of all anchors; and the true boxes."""

    boxes: Float32[Tensor, "anchors 4"]
    logits: Float32[Tensor, "anchors"]
    truth: Float32[RaggedTensor, "n 4"]


@tensorclass
class Kept:
    """The boxes that remain, best first, and whether each is right."""

    found: Float32[RaggedTensor, "k 4"]
    score: Float32[RaggedTensor, "k"]
    right: Bool[RaggedTensor, "k"]


def load() -> Raw:
    """Make pictures of up to six boxes; some anchors are near a box, the others anywhere and less sure."""
    boxes, logits, truth = [], [], []
    for _ in range(PICTURES):
        corner = 80 * torch.rand(int(torch.randint(1, BOXES + 1, ())), 2)
        true = torch.cat([corner, corner + 10 + 10 * torch.rand_like(corner)], -1)
        near = true.repeat(3, 1) + torch.randn(3 * len(true), 4)
        other = 80 * torch.rand(ANCHORS - len(near), 2)
        boxes.append(torch.cat([near, torch.cat([other, other + 15], -1)]))
        logits.append(torch.cat([torch.ones(len(near)), -torch.ones(len(other))]) + torch.randn(ANCHORS))
        truth.append(true)
    return Raw(boxes=torch.stack(boxes), logits=torch.stack(logits), truth=truth)


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


@module
def keep(raw: Raw) -> Kept:
    """Drop boxes of each picture, and say of the others whether each covers at least half of a true one."""
    score = raw.logits.sigmoid()
    kept = [best(*pair) for pair in zip(raw.boxes, score, strict=True)]
    found = [boxes[index] for boxes, index in zip(raw.boxes, kept, strict=True)]
    right = [(overlap(*pair) > 0.5).any(-1) for pair in zip(found, raw.truth, strict=True)]
    return Kept(found=found, score=[one[index] for one, index in zip(score, kept, strict=True)], right=right)


def main() -> None:
    """Print how many boxes remain, and how many of them are right."""
    torch.manual_seed(0)
    kept = TensorClassSequential(keep)(load())
    count, right = kept.found.lengths.float().mean().item(), kept.right.values.float().mean().item()
    mean = kept.score.values[kept.right.values].mean().item()
    print(f"{count:.2f} boxes in a picture, {right:.1%} of them right, these with a score of {mean:.3f}")
    assert right > 0.7


if __name__ == "__main__":
    main()
