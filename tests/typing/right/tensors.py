# pyright: strict
"""Tensors that follow from fields, calls of torch and layers, and fit"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from tensorclass import Shared, TensorClass
from tensorclass.typing import Bool, Float32, Int64, UInt8


class Steps(TensorClass):
    ids: Int64[Tensor, "t"]
    score: Float32[Tensor, "t"]
    mask: Bool[Tensor, "t"]
    total: Float32[Tensor, ""]


class Clip(TensorClass):
    frames: UInt8[Tensor, "t 3 h w"]
    label: Int64[Tensor, ""]


class Image(TensorClass):
    pixels: Float32[Tensor, "3 8 8"]
    logits: Float32[Tensor, "10"]
    kind: Int64[Tensor, ""]
    table: Shared[Float32[Tensor, "10 4"]]
    small: Float32[Tensor, "4"] | None = None


def steps() -> Steps:
    zeros = torch.zeros(2, 5)
    return Steps(zeros.long(), zeros, zeros > 0, zeros[:, 0])


def clip() -> Clip:
    return Clip(torch.zeros(2, 4, 3, 8, 8, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64))


def image() -> Image:
    zeros = torch.zeros(2, 10)
    return Image(torch.zeros(2, 3, 8, 8), zeros, zeros.argmax(-1), torch.zeros(10, 4))


def halved(x: Tensor) -> Float32[Tensor, "b t"]:
    return x / 2


c, film, i = steps(), clip(), image()
c.ids = c.score.long()
c.score = c.score * c.mask
c.score = c.ids / 2
c.total = c.score.mean(-1)
c.score = c.score - c.total.unsqueeze(-1)
c.mask = c.ids > 3
c.ids = c.score.argsort(-1)
c.score = torch.where(c.mask, c.score, 0.0)
c.score = 1 - c.score
c.score = c.score.std(-1, keepdim=True).expand(2, 5)
c.score = c.score.view(2, -1).view(torch.int32).view(torch.float32)
c.score = c.ids.clamp(min=0.5)
c.score = torch.max(c.score, c.total[:, None])
c.score = torch.zeros_like(c.ids, dtype=torch.float32)
c.score = c.score.transpose(0, 1).transpose(0, 1)
c.score = halved(c.ids)
c.ids = c.mask.sum(-1, keepdim=True).expand(-1, 5)
c.mask = c.mask & (c.ids == 0) | c.mask.logical_not()
c.total = F.mse_loss(c.score, c.score, reduction="none").mean(-1)
c["score"] = c["score"] + c.get("score")
c.update({"score": c.score.exp(), "ids": c.ids.clamp(min=0)})
Steps(c.ids, c.score, c.mask, c.total)
Steps(c.ids[:1], c.score[:1], c.mask[:1], c.total[:1])
Steps(c.ids[0], c.score[0], c.mask[0], c.total[0])
Steps(c.ids.unsqueeze(0), c.score[None], c.mask[None], c.total[None])
Steps(torch.cat([c.ids, c.ids], -1), torch.cat([c.score, c.score], -1), torch.cat([c.mask, c.mask], -1), c.total)
Steps(c.ids.reshape(-1, 5), c.score.view(-1, 5), c.mask.reshape(-1, 5), c.total.flatten())
c[0].replace(score=c.score[0])
film.replace(frames=(film.frames.float() / 255 * 255).byte())
film.replace(frames=film.frames.flip(-1))
film.replace(frames=film.frames[:, :2])
i.logits = i.pixels.flatten(1)[:, :10]
i.logits = i.pixels.mean((-1, -2))[:, [0] * 10]
i.kind = i.logits.topk(1).indices.squeeze(-1)
i.logits = F.one_hot(i.kind, 10).float()
i.logits = (i.logits @ i.table) @ i.table.T
i.pixels = i.pixels - i.pixels.mean(dim=(-1, -2), keepdim=True)
i.small = i.logits @ i.table
i.logits = nn.Linear(192, 10)(i.pixels.flatten(1))
i.pixels = nn.Conv2d(3, 3, 3, padding=1)(i.pixels).relu()

# ---- names that are bound several times
x = i.pixels
x = x.flatten(1)
x = nn.Linear(192, 10)(x)
i.logits = x
y = torch.zeros(3)
for _ in range(2):
    y = i.logits
i.logits = y
z = torch.zeros(3)
if i.logits.numel():
    z = i.logits
i.logits = z
i.logits += 1
i.logits += i.logits.double()
i.logits -= i.logits.mean(-1, keepdim=True)
for one in steps():
    one.ids += 1
    one.ids //= 2
    one.score *= one.mask
    one.score = one.score * 2

# ---- lists of any length, and values of which only a part is known
c.total = torch.tensor([float(k) for k in range(2)])
c.ids = torch.stack([torch.arange(5) + k for k in range(2)])
c.ids = torch.stack([row.argsort(-1) for row in c.score])
c.score = pad_sequence([torch.zeros(5), torch.zeros(4)], batch_first=True)
c.ids = torch.bucketize(c.score, torch.arange(3.0))
c.ids = torch.bincount(torch.zeros(2, dtype=torch.int64), minlength=10).reshape(2, 5)
c.total = torch.einsum("b t, b t -> b", c.score, c.score)
c.total = torch.quantile(c.score, 0.5, dim=-1)
c.score = torch.unflatten(c.score, -1, (5, 1)).flatten(-2)
i.logits = nn.Sequential(nn.Flatten(-3), nn.Linear(192, 20), nn.Unflatten(-1, (2, 10)))(i.pixels)[:, 0]
made: list[Tensor] = []
for number in range(2):
    made.append(c.score[number])
c.score = torch.stack(made)
other: list[Tensor] = []
other.append(c.ids[0])
other.extend([c.ids[1]])
c.ids = torch.stack(other)
mixed: list[Tensor] = [c.score[0]]
mixed.append(c.score[1])
c.score = torch.stack(mixed)
c.mask = torch.stack([torch.tensor(bool(k)) for k in range(5)]).expand(2, 5)
