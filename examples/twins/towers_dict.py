"""`../towers.py` with dicts: films of all users in one tensor, with the number of films of each user beside it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

USERS, FILMS, EPOCHS = 1000, 60, 5

Batch = dict[str, Tensor]


def load() -> list[Batch]:
    """Make users with a taste: each sees films of one of six kinds."""
    kind, seen, film = torch.randint(6, (USERS,)), [], []
    for number in kind.tolist():
        films = 10 * number + torch.randperm(10)
        seen.append(films[: int(torch.randint(1, 6, ()))])
        film.append(films[-1])
    age = 20 + 5 * kind + torch.randn(USERS)
    return [{"seen": seen[i], "age": age[i], "film": film[i]} for i in range(USERS)]


def join(visits: list[Batch]) -> Batch:
    """Make a batch of visits."""
    return {
        "seen": torch.cat([visit["seen"] for visit in visits]),
        "count": torch.tensor([len(visit["seen"]) for visit in visits]),
        "age": torch.stack([visit["age"] for visit in visits]),
        "film": torch.stack([visit["film"] for visit in visits]),
    }


def unit(vector: Tensor) -> Tensor:
    """Divide vectors by their lengths."""
    return nn.functional.normalize(vector, dim=-1)


class Model(nn.Module):
    """Both towers share the table of films."""

    def __init__(self) -> None:
        super().__init__()
        self.films = nn.Embedding(FILMS, 16)
        self.user = nn.Linear(17, 16)

    def forward(self, batch: Batch) -> Batch:
        """Return a vector for each user and one for each film."""
        count = batch["count"]
        owner = torch.arange(len(count)).repeat_interleave(count)
        total = torch.zeros(len(count), 16).index_add(0, owner, self.films(batch["seen"]))
        joined = torch.cat([total / count[:, None], batch["age"][:, None] / 50], -1)
        return {"user": unit(self.user(joined)), "film": unit(self.films(batch["film"]))}


def train(model: Model, visits: list[Batch]) -> None:
    """Train with Adam: each user of a batch is nearest to her own film."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(EPOCHS):
        for index in torch.randperm(len(visits)).split(100):
            towers = model(join([visits[i] for i in index]))
            loss = nn.functional.cross_entropy(10 * towers["user"] @ towers["film"].mT, torch.arange(len(index)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def main() -> None:
    """Train, and print how often the next film is among the ten nearest of sixty."""
    torch.manual_seed(0)
    visits = load()
    model = Model()
    with torch.enable_grad():
        train(model, visits[:-200])
    test = join(visits[-200:])
    films = unit(model.films.weight)
    best = (model(test)["user"] @ films.mT).topk(10).indices
    found = (best == test["film"][:, None]).any(-1).float().mean().item()
    print(f"{found:.1%} of the next films are among ten of {FILMS}")
    assert found > 0.75


if __name__ == "__main__":
    main()
