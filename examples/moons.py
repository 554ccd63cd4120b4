"""A variational autoencoder of points on two half moons: codes are drawn, and drawn codes become new points."""

from __future__ import annotations

import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from tensorclass import TensorClass
from tensorclass.nn import NormalParamExtractor, TensorClassSequential, sample, set_interaction_type, stage
from tensorclass.typing import Float32

POINTS, EPOCHS = 1000, 20


class Point(TensorClass):
    """A place in the plane."""

    place: Float32[Tensor, "2"]


class Code(TensorClass):
    """What the encoder draws, and the place that the decoder makes of it."""

    z: Float32[Tensor, "2"]
    place: Float32[Tensor, "2"]


Model = TensorClassSequential[Point, Code]


def load() -> Point:
    """Draw points on two half moons, with noise."""
    places, _ = make_moons(POINTS, noise=0.05, random_state=0)
    return Point(torch.tensor(places, dtype=torch.float32))


def network(last: int) -> nn.Sequential:
    """Map two numbers to `last` numbers."""
    return nn.Sequential(nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, last))


def build() -> Model:
    """Encode, draw a code, decode."""
    return TensorClassSequential(
        encoder=stage(network(4), Point.place),
        halves=NormalParamExtractor(),
        z=sample(Normal, out=Code.z),
        decoder=stage(network(2), out=Code.place),
    )


def train(model: Model, points: Point) -> None:
    """Train with Adam: the error of the decoded places and the divergence of the codes from a standard normal."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(EPOCHS):
        for batch in points.iter(100, shuffle=True):
            with set_interaction_type("random"):
                code = model(batch)
            far = (code.place - batch.place).square().sum(-1) / 0.02
            loss = (far + kl_divergence(model.get_dist(batch, "z"), Normal(0.0, 1.0)).sum(-1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def main() -> None:
    """Train, and print how far new points are from the nearest real one."""
    torch.manual_seed(0)
    points = load()
    model = build()
    with torch.enable_grad():
        train(model, points)
    new = model.decoder(torch.randn(500, 2))
    far = torch.cdist(new, points.place).amin(-1)
    back = (model(points).place - points.place).norm(dim=-1).mean().item()
    print(f"decoded {back:.3f} from the point; new points {far.mean().item():.3f} from a real one")
    assert far.mean() < 0.3


if __name__ == "__main__":
    main()
