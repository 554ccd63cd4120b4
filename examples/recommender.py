"""A recommender from a DataFrame: ratings with names in columns, factors of users and films, a table of suggestions.

The data are generated, so nothing is downloaded: each viewer and each film has a hidden taste, and a rating says how
well they match, with noise, on a scale from 1 to 5. The noise limits how good a model can be.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from tensorclass import PerElement, field, tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32, Int64

VIEWERS, FILMS, RATINGS, EPOCHS = 400, 200, 30_000, 12
PICTURE = Path("build", "recommender.svg")


@tensorclass
class Rating:
    """One row of the table: the viewer, the film and the stars."""

    viewer: Int64[Tensor, ""]
    film: Int64[Tensor, ""]
    title: PerElement[str]
    stars: Float32[Tensor, ""] = field(coerce="cast")


Model = TensorClassSequential[Rating, Tensor]


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


def load(frame: pd.DataFrame) -> Rating:
    """Turn names into numbers; `from_pandas` rejects any column that does not fit its field."""
    numbered = frame.assign(viewer=frame["viewer"].factorize()[0], film=frame["title"].factorize()[0])
    return Rating.from_pandas(numbered[["viewer", "film", "title", "stars"]])


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
def error(model: Model, ratings: Rating) -> float:
    """Return the root mean square error of the predictions, in stars."""
    return nn.functional.mse_loss(model(ratings), ratings.stars).sqrt().item()


def train(model: Model, ratings: Rating, test: Rating) -> list[float]:
    """Train with Adam and weight decay; return the error on the test ratings after each epoch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.05)
    errors = [error(model, test)]
    for _ in range(EPOCHS):
        for batch in ratings.iter(256, shuffle=True):
            loss = nn.functional.mse_loss(model(batch), batch.stars)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        errors.append(error(model, test))
    return errors


@torch.no_grad()
def suggest(model: Model, ratings: Rating, viewer: int, count: int = 5) -> pd.DataFrame:
    """Return a table of the unrated films that a viewer should like best."""
    films = ratings.unique_by(Rating.film).clone()
    films.viewer.fill_(viewer)
    unseen = films[~torch.isin(films.film, ratings.film[ratings.viewer == viewer])]
    best = unseen.replace(stars=model(unseen)).sort_by(Rating.stars, descending=True).head(count)
    return best.omit("viewer", "film").to_pandas()


def main() -> None:
    """Read a table, train a model, print a table of suggestions."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    ratings = load(table()).shuffle()
    test, training = ratings[:3000], ratings[3000:]
    model = Model(factors=stage(Factors(VIEWERS, FILMS), Rating.viewer, Rating.film, returns=Float32[Tensor, ""]))
    errors = train(model, training, test)
    average = (test.stars - training.stars.mean()).square().mean().sqrt().item()
    print(f"off by {errors[-1]:.2f} stars; the mean of all ratings by {average:.2f}, the noise in them is 0.30")
    print(suggest(model, ratings, viewer=7))
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
