# pyright: strict, reportPrivateUsage=false
# checkers: mypy+plugin
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
p.total = p.pos.mean((-2, -1), keepdim=True)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
p.ids = p.pos.sum((-1, -2)).long()  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
p.ids = p.pos.amax(dim=(-2,)).long()  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
s.logits = torch.cat([s.logits, r.logits], dim=-1)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
s.logits = torch.stack([s.logits, r.logits], dim=-1)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
p.pos = torch.cat([p.pos, q.pos[..., :2]], -1)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Scores(torch.einsum("bi,bj->bij", s.logits, s.logits), s.value)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Scores(s.logits, torch.einsum("bi,bi->bi", s.logits, s.logits))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
s.replace(logits=torch.einsum("bi,ij->bj", s.logits, w))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
p.replace(pos=p.pos.permute(0, 2, 1))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape

# ---- windows, distances, padding, repeats
p.ids = p.ids.diff()  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
p.pos = p.ids.float().unfold(-1, 4, 1)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
p.pos = torch.cdist(p.pos, p.pos)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
p.mask = torch.cdist(p.pos, p.pos).min(-1).values  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
s.logits = F.pad(s.logits, (0, 1))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
p.pos = F.avg_pool1d(p.pos, 3)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
s.logits = torch.zeros(2).repeat(3, 1)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
p.pos = torch.linalg.inv(torch.eye(3)) @ p.pos.mT  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
p.pos = torch.linalg.qr(torch.eye(3))[0] @ p.pos.mT  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape


# ---- sizes that a parameter gives
def sized(n: int) -> None:
    Scores(torch.zeros(n), torch.zeros(n, 5))  # E: - | - | - | mypy+plugin: tensorclass-shape
    Scores(torch.zeros(n, 3), torch.zeros(n))  # E: - | - | - | mypy+plugin: tensorclass-shape
    s.logits = torch.zeros(n, 5, 1)  # E: - | - | - | mypy+plugin: tensorclass-shape
    s.value = torch.zeros(8).reshape(n).long()  # E: - | - | - | mypy+plugin: tensorclass-dtype


# ---- a type variable bound to a class
def cleared(batch: P) -> P:
    out = batch.clone()
    out["mask"] = torch.ones(4, 6)  # E: - | - | - | mypy+plugin: tensorclass-dtype
    out.set("mask", torch.ones(4, 6))  # E: - | - | - | mypy+plugin: tensorclass-dtype
    return out


# ---- functions that annotate tensors, and functions that return several
def scaled(pos: Float32[Tensor, "6 3"], by: Float32[Tensor, ""]) -> Tensor:
    return pos * by


def normed(x: Float32[Tensor, "b 3"]) -> Bool[Tensor, "b"]:
    return x.sum(-1) > 0


def pair(batch: Scores) -> tuple[Tensor, Tensor]:
    return batch.logits, batch.value


def declared_pair(x: Tensor) -> tuple[Int64[Tensor, "b 6"], Float32[Tensor, "b 5"]]:
    return x.long(), x[..., :5]


scaled(p.total, p.pos)  # E: - | - | RuntimeError | mypy+plugin: tensorclass-shape
scaled(p.pos[0], p.pos)  # E: - | - | - | mypy+plugin: tensorclass-shape
normed(torch.zeros(2, 4))  # E: - | - | - | mypy+plugin: tensorclass-shape
normed(torch.arange(6).reshape(2, 3))  # E: - | - | - | mypy+plugin: tensorclass-dtype
partial(normed, torch.zeros(2, 4))()  # E: - | - | - | mypy+plugin: tensorclass-shape
logits, value = pair(s)
Scores(value, logits)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
s.logits = pair(s)[1]  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
s.logits = declared_pair(torch.zeros(2, 6))[0]  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype


# ---- layers that a function or a partial makes, and functions as stages
def mlp(width: int, out: int) -> nn.Sequential:
    last = nn.Linear(8, out)
    return nn.Sequential(nn.Linear(width, 8), nn.ReLU(), last)


def softened(logits: Tensor) -> Tensor:
    return logits.softmax(-1)


def both(logits: Tensor) -> tuple[Tensor, Tensor]:
    return logits.sum(-1), logits


make = partial(nn.Linear, 5)
s.logits = mlp(5, 4)(s.logits)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
mlp(4, 5)(s.logits)  # E: - | - | RuntimeError | mypy+plugin: tensorclass-shape
s.logits = make(4)(s.logits)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
TensorClassSequential(stage(mlp(5, 4), Scores.logits, out=Scores.logits, update=True), input=Scores, output=Scores)  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
TensorClassSequential(stage(make(4), Scores.logits, out=Scores.logits, update=True), input=Scores, output=Scores)  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
TensorClassSequential(stage(lambda x: x, Scores.logits, out=Scores.value, update=True), input=Scores, output=Scores)  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
TensorClassSequential(stage(softened, Scores.logits, out=Scores.value, update=True), input=Scores, output=Scores)  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
TensorClassSequential(stage(torch.relu, Scores.logits, out=Scores.value, update=True), input=Scores, output=Scores)  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
TensorClassSequential(TensorClassModule(both, in_fields=Scores.logits, out_fields=(Scores.logits, Scores.value), update=True), input=Scores, output=Scores)  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
TensorClassSequential(stage(lambda a, b: a * b[..., None], Scores.logits, Scores.value, out=Scores.value, update=True), input=Scores, output=Scores)  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
TensorClassSequential(TensorClassModule(softened, in_fields=Scores.logits, out_fields=Scores.value, update=True), input=Scores, output=Scores)  # E: - | - | BuildError | mypy+plugin: tensorclass-shape

# ---- lists that grow
layers: list[nn.Module] = [nn.Linear(5, 8), nn.ReLU()]
layers.append(nn.Linear(8, 4))
TensorClassSequential(stage(nn.Sequential(*layers), Scores.logits, out=Scores.logits, update=True), input=Scores, output=Scores)  # E: - | - | BuildError | mypy+plugin: tensorclass-shape
parts = [s.logits]
parts.append(s.logits)
s.logits = torch.cat(parts, -1)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape

# ---- instances whose batch size is known
known = Scores(torch.zeros(8, 5), torch.zeros(8))
known.value = torch.zeros(6)  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
known.logits = torch.zeros(8, 1, 5)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
known.replace(value=torch.zeros(6))  # E: - | - | SchemaError | mypy+plugin: tensorclass-batch-size
known.logits = known.logits.sum(-1)  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
