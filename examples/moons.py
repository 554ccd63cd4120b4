"""A variational autoencoder of points on two half moons: codes are drawn, and drawn codes become new points."""

from __future__ import annotations

import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from tensorclass import tensorclass
from tensorclass.nn import NormalParamExtractor, TensorClassSequential, sample, set_interaction_type, stage
from tensorclass.typing import Float32

POINTS, EPOCHS = 1000, 20


@tensorclass
class Point:
    """A place in the plane."""

    place: Float32[Tensor, "2"]


def load() -> Point:
    """Draw points on two half moons, with noise."""
    places, _ = make_moons(POINTS, noise=0.05, random_state=0)
    return Point(torch.tensor(places, dtype=torch.float32))


def network(last: int) -> nn.Sequential:
    """Map two numbers to `last` numbers."""
    return nn.Sequential(nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, last))


def build() -> TensorClassSequential[Point, Tensor]:
    """Encode, draw a code, decode."""
    return TensorClassSequential(
        encoder=stage(network(4), Point.place),
        halves=NormalParamExtractor(),
        z=sample(Normal),
        decoder=stage(network(2), returns=Float32[Tensor, "2"]),
    )


def train(model: TensorClassSequential[Point, Tensor], points: Point) -> None:
    """Train with Adam: the error of the decoded places and the divergence of the codes from a standard normal."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(EPOCHS):
        for batch in points.iter(100, shuffle=True):
            with set_interaction_type("random"):
                place = model(batch)
            far = (place - batch.place).square().sum(-1) / 0.02
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
    back = (model(points) - points.place).norm(dim=-1).mean().item()
    print(f"decoded {back:.3f} from the point; new points {far.mean().item():.3f} from a real one")
    assert far.mean() < 0.3


if __name__ == "__main__":
    main()
