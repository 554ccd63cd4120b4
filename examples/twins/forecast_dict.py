"""`../forecast.py` with a dict of tensors and a module that joins its parts in `forward`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

DAYS, PAST, EPOCHS = 1500, 28, 12
LEVELS = torch.tensor([0.1, 0.5, 0.9])

Batch = dict[str, Tensor]


def rows(batch: Batch, index: slice | Tensor) -> Batch:
    """Take some elements of a batch."""
    return {name: value[index] for name, value in batch.items()}


def load() -> Batch:
    """Make sales with a weekly and a yearly rhythm, holidays and noise."""
    day = torch.arange(DAYS)
    holiday = torch.rand(DAYS) < 0.05
    sold = 1 + 0.3 * (day % 7 > 4) + 0.5 * holiday + 0.2 * (day / 58).sin() + 0.1 * torch.randn(DAYS)
    past = sold.unfold(0, PAST, 1)[:-1]
    return {"past": past, "weekday": day[PAST:] % 7, "holiday": holiday[PAST:], "sold": sold[PAST:]}


class Model(nn.Module):
    """Encode the past and the weekday; join both with the holiday."""

    def __init__(self) -> None:
        super().__init__()
        self.past = nn.Linear(PAST, 16)
        self.weekday = nn.Embedding(7, 4)
        self.head = nn.Linear(21, 3)

    def forward(self, batch: Batch) -> Tensor:
        """Return the quantiles."""
        past, weekday = self.past(batch["past"]), self.weekday(batch["weekday"])
        joined = torch.cat([past.relu(), weekday, batch["holiday"][:, None]], -1)
        quantiles: Tensor = self.head(joined)
        return quantiles


def pinball(quantiles: Tensor, sold: Tensor) -> Tensor:
    """Return the mean quantile loss."""
    off = sold[:, None] - quantiles
    return torch.maximum(LEVELS * off, (LEVELS - 1) * off).mean()


def train(model: Model, days: Batch) -> None:
    """Train with Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(EPOCHS):
        for index in torch.randperm(len(days["sold"])).split(64):
            batch = rows(days, index)
            loss = pinball(model(batch), batch["sold"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main() -> None:
    """Train on all but the last 300 days, and count how many of these are between the outer quantiles."""
    torch.manual_seed(0)
    days = load()
    model = Model()
    train(model, rows(days, slice(-300)))
    test = rows(days, slice(-300, None))
    quantiles = model(test)
    inside = (quantiles[:, 0] < test["sold"]) & (test["sold"] < quantiles[:, 2])
    share, wide = inside.float().mean().item(), (quantiles[:, 2] - quantiles[:, 0]).mean().item()
    print(f"{share:.1%} of the days are inside, {wide:.3f} wide; loss {pinball(quantiles, test['sold']).item():.4f}")
    assert 0.65 < share < 0.95


if __name__ == "__main__":
    main()
