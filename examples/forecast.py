"""Sales of a shop: quantiles of a day from the four weeks before it, its weekday and whether it is a holiday."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tensorclass import tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Bool, Float32, Int64

DAYS, PAST, EPOCHS = 1500, 28, 12
LEVELS = torch.tensor([0.1, 0.5, 0.9])


@tensorclass
class Day:
    """A day and the four weeks before it."""

    past: Float32[Tensor, "28"]
    weekday: Int64[Tensor, ""]
    holiday: Bool[Tensor, ""]
    sold: Float32[Tensor, ""]


def load() -> Day:
    """Make sales with a weekly and a yearly rhythm, holidays and noise."""
    day = torch.arange(DAYS)
    holiday = torch.rand(DAYS) < 0.05
    sold = 1 + 0.3 * (day % 7 > 4) + 0.5 * holiday + 0.2 * (day / 58).sin() + 0.1 * torch.randn(DAYS)
    past = sold.unfold(0, PAST, 1)[:-1]
    return Day(past=past, weekday=day[PAST:] % 7, holiday=holiday[PAST:], sold=sold[PAST:])


def build() -> TensorClassSequential[Day, Tensor]:
    """Encode the past and the weekday; join both with the holiday."""
    past = stage(nn.Linear(PAST, 16), Day.past)
    weekday = stage(nn.Embedding(7, 4), Day.weekday)
    return TensorClassSequential(
        past=past,
        weekday=weekday,
        join=stage(lambda a, b, holiday: torch.cat([a.relu(), b, holiday[:, None]], -1), past, weekday, Day.holiday),
        head=stage(nn.Linear(21, 3), returns=Float32[Tensor, "3"]),
    )


def pinball(quantiles: Tensor, sold: Tensor) -> Tensor:
    """Return the mean quantile loss."""
    off = sold[:, None] - quantiles
    return torch.maximum(LEVELS * off, (LEVELS - 1) * off).mean()


def train(model: TensorClassSequential[Day, Tensor], days: Day) -> None:
    """Train with Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(EPOCHS):
        for batch in days.iter(64, shuffle=True):
            loss = pinball(model(batch), batch.sold)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main() -> None:
    """Train on all but the last 300 days, and count how many of these are between the outer quantiles."""
    torch.manual_seed(0)
    days = load()
    model = build()
    train(model, days[:-300])
    test = days[-300:]
    quantiles = model(test)
    inside = (quantiles[:, 0] < test.sold) & (test.sold < quantiles[:, 2])
    share, wide = inside.float().mean().item(), (quantiles[:, 2] - quantiles[:, 0]).mean().item()
    print(f"{share:.1%} of the days are inside, {wide:.3f} wide; loss {pinball(quantiles, test.sold).item():.4f}")
    assert 0.65 < share < 0.95


if __name__ == "__main__":
    main()
