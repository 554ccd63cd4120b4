"""Two towers: what a user has seen and a film are vectors, and the film that a user sees next is near."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tensorclass import RaggedTensor, tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32, Int64

USERS, FILMS, EPOCHS = 1000, 60, 5


@tensorclass
class Visit:
    """The films that a user has seen, her age, and the film that she sees next."""

    seen: Int64[RaggedTensor, "films"]
    age: Float32[Tensor, ""]
    film: Int64[Tensor, ""]


@tensorclass
class Towers:
    """A vector for the user and one for the film, both of length one."""

    user: Float32[Tensor, "16"]
    film: Float32[Tensor, "16"]


def load() -> Visit:
    """Make users with a taste: each sees films of one of six kinds."""
    kind, seen, film = torch.randint(6, (USERS,)), [], []
    for number in kind.tolist():
        films = 10 * number + torch.randperm(10)
        seen.append(films[: int(torch.randint(1, 6, ()))])
        film.append(films[-1])
    return Visit(seen=seen, age=20 + 5 * kind + torch.randn(USERS), film=torch.stack(film))


def unit(vector: Tensor) -> Tensor:
    """Divide vectors by their lengths."""
    return nn.functional.normalize(vector, dim=-1)


def build() -> TensorClassSequential[Visit, Towers]:
    """Both towers share the table of films."""
    films = nn.Embedding(FILMS, 16)
    seen = stage(lambda seen: seen.apply(films).mean(), Visit.seen)
    return TensorClassSequential(
        seen=seen,
        join=stage(lambda seen, age: torch.cat([seen, age[:, None] / 50], -1), seen, Visit.age),
        user=nn.Linear(17, 16),
        length=stage(unit, out=Towers.user),
        films=stage(films, Visit.film),
        film=stage(unit, out=Towers.film),
    )


def train(model: TensorClassSequential[Visit, Towers], visits: Visit) -> None:
    """Train with Adam: each user of a batch is nearest to her own film."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(EPOCHS):
        for batch in visits.iter(100, shuffle=True):
            towers = model(batch)
            loss = nn.functional.cross_entropy(10 * towers.user @ towers.film.mT, torch.arange(len(batch)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def main() -> None:
    """Train, and print how often the next film is among the ten nearest of sixty."""
    torch.manual_seed(0)
    visits = load()
    model = build()
    with torch.enable_grad():
        train(model, visits[:-200])
    test = visits[-200:]
    films = unit(model.films(torch.arange(FILMS)))
    best = (model(test).user @ films.mT).topk(10).indices
    found = (best == test.film[:, None]).any(-1).float().mean().item()
    print(f"{found:.1%} of the next films are among ten of {FILMS}")
    assert found > 0.75


if __name__ == "__main__":
    main()
