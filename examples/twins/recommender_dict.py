"""`../recommender.py` with a dict of tensors: titles can't be in it, so they are looked up beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

VIEWERS, FILMS, RATINGS, EPOCHS = 400, 200, 30_000, 12
PICTURE = Path("build", "recommender.svg")

Batch = dict[str, Tensor]


def rows(batch: Batch, index: Tensor) -> Batch:
    """Take some elements of a batch."""
    return {name: value[index] for name, value in batch.items()}


def table() -> pd.DataFrame:
    """Make ratings as another program might store them: text for viewers and titles, float64 for stars."""
    random = np.random.default_rng(0)
    tastes, films = random.normal(size=(VIEWERS, 3)), random.normal(size=(FILMS, 3))
    viewer, film = random.integers(VIEWERS, size=RATINGS), random.integers(FILMS, size=RATINGS)
    stars = 3 + (tastes[viewer] * films[film]).sum(1) / 2 + random.normal(scale=0.3, size=RATINGS)
    return pd.DataFrame({
        "viewer": [f"viewer {number}" for number in viewer],
        "title": [f"film {number}" for number in film],
        "stars": stars.clip(1, 5).round(1),
        "date": pd.Timestamp("2026-01-01"),
    })  # fmt: skip


def load(frame: pd.DataFrame) -> Batch:
    """Turn names into numbers."""
    return {
        "viewer": torch.tensor(frame["viewer"].factorize()[0]),
        "film": torch.tensor(frame["title"].factorize()[0]),
        "stars": torch.tensor(frame["stars"].to_numpy(), dtype=torch.float32),
    }


class Factors(nn.Module):
    """A vector and an offset for each viewer and each film; the stars are the dot product plus the offsets."""

    def __init__(self, viewers: int, films: int, width: int = 8) -> None:
        super().__init__()
        self.viewers, self.films = nn.Embedding(viewers, width + 1), nn.Embedding(films, width + 1)
        for table in (self.viewers, self.films):
            nn.init.normal_(table.weight, std=0.1)
        self.mean = nn.Parameter(torch.tensor(3.0))

    def forward(self, viewer: Tensor, film: Tensor) -> Tensor:
        """Map `[batch]` numbers of viewers and films to `[batch]` stars."""
        one, other = self.viewers(viewer), self.films(film)
        stars: Tensor = self.mean + (one[:, 1:] * other[:, 1:]).sum(-1) + one[:, 0] + other[:, 0]
        return stars


@torch.no_grad()
def error(model: Factors, ratings: Batch) -> float:
    """Return the root mean square error of the predictions, in stars."""
    return nn.functional.mse_loss(model(ratings["viewer"], ratings["film"]), ratings["stars"]).sqrt().item()


def train(model: Factors, ratings: Batch, test: Batch) -> list[float]:
    """Train with Adam and weight decay; return the error on the test ratings after each epoch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.05)
    errors = [error(model, test)]
    for _ in range(EPOCHS):
        for index in torch.randperm(len(ratings["stars"])).split(256):
            batch = rows(ratings, index)
            loss = nn.functional.mse_loss(model(batch["viewer"], batch["film"]), batch["stars"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        errors.append(error(model, test))
    return errors


@torch.no_grad()
def suggest(model: Factors, ratings: Batch, titles: pd.Index, viewer: int, count: int = 5) -> pd.DataFrame:
    """Return a table of the unrated films that a viewer should like best."""
    films = ratings["film"].unique()
    unseen = films[~torch.isin(films, ratings["film"][ratings["viewer"] == viewer])]
    stars = model(torch.full_like(unseen, viewer), unseen)
    best = stars.argsort(descending=True)[:count]
    return pd.DataFrame({"title": titles[unseen[best].numpy()], "stars": stars[best].numpy()})


def main() -> None:
    """Read a table, train a model, print a table of suggestions."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    frame = table()
    ratings = load(frame)
    order = torch.randperm(RATINGS)
    test, training = rows(ratings, order[:3000]), rows(ratings, order[3000:])
    model = Factors(VIEWERS, FILMS)
    errors = train(model, training, test)
    average = (test["stars"] - training["stars"].mean()).square().mean().sqrt().item()
    print(f"off by {errors[-1]:.2f} stars; the mean of all ratings by {average:.2f}, the noise in them is 0.30")
    print(suggest(model, ratings, frame["title"].factorize()[1], viewer=7))
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot(errors, marker="o", label="model")
    axes.axhline(average, color="gray", linestyle="--", label="mean of all ratings")
    axes.set(xlabel="epoch", ylabel="error in stars")
    axes.legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)
    assert errors[-1] < 0.4


if __name__ == "__main__":
    main()
