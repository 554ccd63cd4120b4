"""`../ensemble.py` with dicts of tensors."""

from __future__ import annotations

import torch
from sklearn.datasets import load_diabetes
from torch import Tensor

MODELS, FEATURES, RIDGE = 20, 50, 30.0

Batch = dict[str, Tensor]


def rows(batch: Batch, index: slice | Tensor) -> Batch:
    """Take some elements of a batch."""
    return {name: value[index] for name, value in batch.items()}


def load() -> Batch:
    """Shuffle the patients; center and scale all numbers."""
    table, target = (torch.tensor(array, dtype=torch.float32) for array in load_diabetes(return_X_y=True))
    patients = {"measured": table / table.std(0), "progression": (target - target.mean()) / target.std()}
    return rows(patients, torch.randperm(len(target)))


def expand(measured: Tensor, weight: Tensor) -> Tensor:
    """Return random features and a constant."""
    return torch.cat([(measured @ weight).tanh(), torch.ones(*measured.shape[:-1], 1)], -1)


class Model:
    """Draw features and patients for each model, and solve it; `[models, features]` weights are the ensemble."""

    def __init__(self, patients: Batch) -> None:
        count = len(patients["measured"])
        self.weight = torch.randn(10, FEATURES) / 3
        solved = []
        for _ in range(MODELS):
            chosen = rows(patients, torch.randint(count, (count,)))
            x = expand(chosen["measured"], self.weight)
            solved.append(torch.linalg.solve(x.mT @ x + RIDGE * torch.eye(FEATURES + 1), x.mT @ chosen["progression"]))
        self.heads = torch.stack(solved)

    def __call__(self, patients: Batch) -> Batch:
        """Return the mean of the votes, and how far they differ."""
        votes = expand(patients["measured"], self.weight) @ self.heads.mT
        return {"value": votes.mean(-1), "spread": votes.std(-1)}


def main() -> None:
    """Print the error on unseen patients, and of the half about which the models agree."""
    torch.manual_seed(0)
    patients = load()
    test = rows(patients, slice(-100, None))
    guess = Model(rows(patients, slice(-100)))(test)
    off = (guess["value"] - test["progression"]).abs()
    sure = off[guess["spread"].argsort()[:50]]
    print(f"off by {off.mean().item():.3f}, where the models agree by {sure.mean().item():.3f}")
    assert off.mean() < 0.7


if __name__ == "__main__":
    main()
