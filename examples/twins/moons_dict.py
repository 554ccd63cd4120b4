"""`../moons.py` with dicts of tensors."""

from __future__ import annotations

import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

POINTS, EPOCHS = 1000, 20

Batch = dict[str, Tensor]


def load() -> Batch:
    """Draw points on two half moons, with noise."""
    places, _ = make_moons(POINTS, noise=0.05, random_state=0)
    return {"place": torch.tensor(places, dtype=torch.float32)}


def network(last: int) -> nn.Sequential:
    """Map two numbers to `last` numbers."""
    return nn.Sequential(nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, last))


class Model(nn.Module):
    """Encode, draw a code, decode."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = network(4), network(2)

    def posterior(self, batch: Batch) -> Normal:
        """Return the distribution of the codes."""
        loc, scale = self.encoder(batch["place"]).chunk(2, -1)
        return Normal(loc, nn.functional.softplus(scale + 0.5413).clamp(min=1e-4))

    def forward(self, batch: Batch, draw: bool = False) -> Tensor:
        """Return the place that is decoded from the code."""
        posterior = self.posterior(batch)
        place: Tensor = self.decoder(posterior.rsample() if draw else posterior.mean)
        return place


def train(model: Model, points: Batch) -> None:
    """Train with Adam: the error of the decoded places and the divergence of the codes from a standard normal."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(EPOCHS):
        for index in torch.randperm(POINTS).split(100):
            batch = {name: value[index] for name, value in points.items()}
            place = model(batch, draw=True)
            far = (place - batch["place"]).square().sum(-1) / 0.02
            loss = (far + kl_divergence(model.posterior(batch), Normal(0.0, 1.0)).sum(-1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def main() -> None:
    """Train, and print how far new points are from the nearest real one."""
    torch.manual_seed(0)
    points = load()
    model = Model()
    with torch.enable_grad():
        train(model, points)
    new = model.decoder(torch.randn(500, 2))
    far = torch.cdist(new, points["place"]).amin(-1)
    back = (model(points) - points["place"]).norm(dim=-1).mean().item()
    print(f"decoded {back:.3f} from the point; new points {far.mean().item():.3f} from a real one")
    assert far.mean() < 0.3


if __name__ == "__main__":
    main()
