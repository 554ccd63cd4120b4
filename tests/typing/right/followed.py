# pyright: strict
"""Values through functions, factories of layers, lists that grow, and instances whose batch size is known"""

from functools import partial
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.nn import TensorClassModule, TensorClassSequential, stage
from tensorclass.typing import Bool, Float32, Int64


class Points(TensorClass):
    pos: Float32[Tensor, "6 3"]
    ids: Int64[Tensor, "6"]
    mask: Bool[Tensor, "6"]
    total: Float32[Tensor, ""]


class Scores(TensorClass):
    logits: Float32[Tensor, "5"]
    value: Float32[Tensor, ""]


P = TypeVar("P", bound=Points)


def points(n: int) -> Points:
    ids = torch.arange(6).expand(n, 6)
    return Points(torch.zeros(n, 6, 3), ids, ids > 2, torch.zeros(n))


def scores(n: int) -> Scores:
    return Scores(torch.zeros(n, 5), torch.zeros(n))


p, q, s, r = points(2), points(2), scores(2), scores(2)
w = torch.zeros(5, 4)

# ---- reductions over several dims, joins of two instances, equations
p.total = p.pos.mean((-2, -1))
p.total = p.pos.mean((1, 2))
p.ids = p.pos.sum((-1,)).long()
s.logits = torch.cat([s.logits[..., :2], r.logits[..., 2:]], dim=-1)
s.logits = torch.stack([s.logits, r.logits], dim=-1).mean(-1)
p.pos = torch.cat([p.pos[..., :1], q.pos[..., 1:]], -1)
s.logits = torch.cat([torch.zeros(0), s.logits])
Scores(torch.einsum("bi,bj->bi", s.logits, s.logits), s.value)
Scores(s.logits, torch.einsum("bi,bi->b", s.logits, s.logits))
s.replace(logits=torch.einsum("bi,ij->bj", s.logits, w @ w.T))
p.replace(pos=p.pos.permute(0, 2, 1).permute(0, 2, 1))

# ---- windows, distances, padding, repeats
p.ids = F.pad(p.ids.diff(), (0, 1))
p.pos = p.ids.float().unfold(-1, 3, 1)[:, :1].repeat(1, 6, 1)
p.pos = torch.cdist(p.pos, p.pos)[..., :3]
p.mask = torch.cdist(p.pos, p.pos).min(-1).values < 1
s.logits = F.pad(s.logits, (0, 1, 0, 0))[..., :5]
p.pos = F.avg_pool1d(p.pos, 3, 1, 1)
s.logits = s.value.repeat(5, 1).T
p.pos = (torch.eye(3).inverse() @ p.pos.mT).mT


# ---- sizes that a parameter gives
def sized(n: int, m: int) -> None:
    Scores(torch.zeros(n, 5), torch.zeros(m))
    Scores(torch.zeros(n, m), torch.zeros(n))
    s.logits = torch.zeros(n, m)
    s.value = torch.zeros(n)
    s.value = torch.zeros(8)[:n].reshape(n)


# ---- a type variable bound to a class
def cleared(batch: P) -> P:
    out = batch.clone()
    out["mask"] = torch.ones(2, 6) > 0
    out.set("mask", torch.ones(2, 6) > 0)
    return out


cleared(p)


# ---- functions that annotate tensors, and functions that return several
def scaled(pos: Float32[Tensor, "*b 6 3"], by: Float32[Tensor, "*b"]) -> Tensor:
    return pos * by[..., None, None]


def normed(x: Float32[Tensor, "b 3"]) -> Bool[Tensor, "b"]:
    return x.sum(-1) > 0


def doubled(x: Float32[Tensor, "..."]) -> Float32[Tensor, "..."]:
    return x * 2


def pair(batch: Scores) -> tuple[Tensor, Tensor]:
    return batch.logits, batch.value


def declared_pair(x: Tensor) -> tuple[Int64[Tensor, "b 6"], Float32[Tensor, "b 5"]]:
    return x.long(), x[..., :5]


scaled(p.pos, p.total)
normed(torch.zeros(2, 3))
normed(p.pos[0])
partial(normed, torch.zeros(2, 3))()
s.logits = doubled(s.logits)
logits, value = pair(s)
Scores(logits, value)
s.logits = pair(s)[0]
s.logits = declared_pair(torch.zeros(2, 6))[1]


# ---- layers that a function or a partial makes, and functions as stages
def mlp(width: int, out: int) -> nn.Sequential:
    last = nn.Linear(8, out)
    return nn.Sequential(nn.Linear(width, 8), nn.ReLU(), last)


def softened(logits: Tensor) -> Tensor:
    return logits.softmax(-1)


def both(logits: Tensor) -> tuple[Tensor, Tensor]:
    return logits, logits.sum(-1)


make = partial(nn.Linear, 5)
s.logits = mlp(5, 5)(s.logits)
s.logits = make(5)(s.logits)
TensorClassSequential(stage(mlp(5, 5), Scores.logits, out=Scores.logits, update=True), input=Scores, output=Scores)
TensorClassSequential(stage(make(5), Scores.logits, out=Scores.logits, update=True), input=Scores, output=Scores)
TensorClassSequential(
    stage(lambda x: x[..., 0], Scores.logits, out=Scores.value, update=True), input=Scores, output=Scores
)
TensorClassSequential(stage(softened, Scores.logits, out=Scores.logits, update=True), input=Scores, output=Scores)
TensorClassSequential(stage(torch.relu, Scores.logits, out=Scores.logits, update=True), input=Scores, output=Scores)
TensorClassSequential(
    TensorClassModule(both, in_fields=Scores.logits, out_fields=(Scores.logits, Scores.value), update=True),
    input=Scores,
    output=Scores,
)
TensorClassSequential(
    stage(lambda a, b: a * b[..., None], Scores.logits, Scores.value, out=Scores.logits, update=True),
    input=Scores,
    output=Scores,
)
TensorClassSequential(
    TensorClassModule(softened, in_fields=Scores.logits, out_fields=Scores.logits, update=True),
    input=Scores,
    output=Scores,
)

# ---- lists that grow
layers: list[nn.Module] = [nn.Linear(5, 8), nn.ReLU()]
layers.append(nn.Linear(8, 5))
TensorClassSequential(
    stage(nn.Sequential(*layers), Scores.logits, out=Scores.logits, update=True), input=Scores, output=Scores
)
longer: list[nn.Module] = [nn.Linear(5, 8)]
for _ in range(2):
    longer.append(nn.Linear(8, 8))
longer.append(nn.Linear(8, 5))
TensorClassSequential(
    stage(nn.Sequential(*longer), Scores.logits, out=Scores.logits, update=True), input=Scores, output=Scores
)
parts = [s.logits[..., :2]]
parts.append(s.logits[..., 2:])
s.logits = torch.cat(parts, -1)

# ---- instances whose batch size is known
known = Scores(torch.zeros(8, 5), torch.zeros(8))
known.value = torch.zeros(8)
known.logits = torch.zeros(8, 1, 5)[:, 0]
known.replace(value=torch.zeros(8))
known.logits = known.logits.sum(-1, keepdim=True).expand(8, 5)
wide = Scores(torch.zeros(8, 5), torch.zeros(8))
wide.batch_size = [8]
wide = wide.reshape(2, 4)
wide.value = torch.zeros(2, 4)
