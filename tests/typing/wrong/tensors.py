# pyright: strict
"""Tensors that follow from fields, calls of torch and layers, and don't fit; joins of a class and its child"""

from io import BytesIO

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from tensorclass import Shared, TensorClass, cat, field, stack
from tensorclass.typing import Bool, Float32, Int64, UInt8


class Steps(TensorClass):
    ids: Int64[Tensor, "t"]
    score: Float32[Tensor, "t"]
    mask: Bool[Tensor, "t"]
    total: Float32[Tensor, ""]


    @property
    def summed(self) -> Float32[Tensor, "b"]:
        return self.score.sum(-1)

    def chosen(self) -> Int64[Tensor, "b t"]:
        return self.ids


class Longer(Steps):
    extra: Int64[Tensor, ""] = field(kw_only=True)


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


class Held:
    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def halve(self) -> None:
        self.steps.ids = self.steps.ids / 2  # E: - | - | - | mypy+plugin: tensorclass-dtype


def opaque(x: Tensor) -> Tensor:
    """A result of which nothing is known."""
    buffer = BytesIO()
    torch.save(x, buffer)
    result: Tensor = torch.load(BytesIO(buffer.getvalue()))
    return result


def longer_steps() -> Longer:
    zeros = torch.zeros(2, 5)
    return Longer(zeros.long(), zeros, zeros > 0, zeros[:, 0], extra=zeros[:, 0].long())


c, film, i, longer = steps(), clip(), image(), longer_steps()
c.ids = c.score  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids = c.ids.float()  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids = c.ids / 2  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.score = c.score > 0  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.mask = c.ids * 2  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.total = c.score  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
c.score = c.score.sum(-1)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
c.score = c.ids.sum(-1, keepdim=True)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.score = c.score.half()  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.score = c.score.to(torch.float64)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.mask = c.ids.cumsum(-1)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids = torch.rand(2, 5) * 10  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.mask = c.score.sigmoid().round()  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.score = c.ids.bool()  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids = 1 - c.score  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids = torch.cat([c.score, c.score], -1)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.score = torch.stack([c.score, c.score], -1)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
c.ids = torch.where(c.mask, c.score, 0.0)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids = torch.linspace(0, 1, 10).reshape(2, 5)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids = c.score.topk(5).values  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids = c.mask.float().sum(-1, keepdim=True).expand(2, 5)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.score = torch.zeros_like(c.ids)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids = halved(c.score)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.replace(score=c.score.unsqueeze(-1))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
c.replace(score=c.ids)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.update({"score": c.ids})  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c["score"] = c["ids"]  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.set("score", c.get("mask"))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Steps(c.score, c.ids, c.mask, c.total)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Steps(c.ids, c.score.unsqueeze(-1), c.mask, c.total)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Steps(c.ids[0], c.score, c.mask, c.total)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Steps(c.ids, c.score, c.mask, c.score)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Steps(torch.zeros(4, 5) + 1, torch.zeros(4, 5), torch.ones(4, 5) > 0, torch.zeros(4))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Steps.from_dict({"ids": c.score, "score": c.score, "mask": c.mask, "total": c.total})  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
film.replace(frames=film.frames.float() / 255)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
film.replace(frames=film.frames[:, 0])  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
film.replace(label=film.frames.float().mean((-1, -2)))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
i.kind = i.logits.max(-1).values  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
i.logits = F.one_hot(i.kind, 10)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
i.logits = F.one_hot(i.kind, 5).float()  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
i.logits = i.logits @ i.table  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
i.pixels = i.pixels[..., :4]  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
i.logits = i.logits[..., None]  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
i.small = i.logits  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
i.logits = nn.Linear(10, 4)(i.logits)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
i.pixels = F.relu(nn.Conv2d(3, 6, 3, padding=1)(i.pixels))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
i.pixels = nn.MaxPool2d(2)(i.pixels)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
i.small = nn.Embedding(10, 6)(i.kind)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
i.pixels = nn.GRU(8, 8)(i.pixels[:, 0])  # E: - | - | SchemaError | mypy+plugin: tensorclass-value
i.logits = nn.Sequential(nn.Flatten(), nn.Linear(192, 32), nn.ReLU(), nn.Linear(32, 12))(i.pixels)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
c.score = c.chosen()  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids = c.summed  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids += 0.5  # E: - | - | RuntimeError | mypy+plugin: tensorclass-dtype
c.ids /= 2  # E: - | - | RuntimeError | mypy+plugin: tensorclass-dtype
c.mask += c.ids  # E: - | - | RuntimeError | mypy+plugin: tensorclass-dtype
c.total = torch.tensor([int(k) for k in range(2)])  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.mask = torch.tensor([ord(k) % 2 for k in "abcde"])  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.total = torch.tensor([k > 1 for k in range(2)])  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids = torch.stack([torch.zeros(5) for _ in range(2)])  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids = torch.cat([c.score[:, :1] for _ in range(5)], -1)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids = pad_sequence([torch.zeros(5), torch.zeros(4)], batch_first=True)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.score = torch.bucketize(c.score, torch.arange(3.0))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.total = torch.bincount(torch.arange(2))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids = torch.quantile(c.score, 0.5, dim=-1, keepdim=True).expand(2, 5)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
i.small = torch.unflatten(i.logits, -1, (2, 5))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
i.logits = nn.Sequential(nn.Flatten(-3), nn.Linear(192, 12))(i.pixels)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
i.logits = nn.Unflatten(-1, (2, -1))(i.logits)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
c.mask = opaque(c.score).float()  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.mask = opaque(c.score).argsort(-1)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
c.ids = torch.tensor(float(c.ids.sum()))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
made: list[Tensor] = []
for number in range(2):
    made.append(c.ids[number])
c.score = torch.stack(made)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
i.kind = torch.stack([row.logits.max() for row in i])  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
cat([c, longer])  # E: - | - | ArgumentError | mypy+plugin: tensorclass-join
stack([longer, c])  # E: - | - | ArgumentError | mypy+plugin: tensorclass-join
print(c + longer)  # E: - | - | KeySetError | mypy+plugin: tensorclass-join
c[0] = longer[0]  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-join
