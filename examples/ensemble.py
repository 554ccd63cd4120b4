"""Regression without gradients: each of several models solves random features of a resampled table; they vote."""

from __future__ import annotations

import torch
from sklearn.datasets import load_diabetes
from torch import Tensor

from tensorclass import tensorclass
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Float32

MODELS, FEATURES, RIDGE = 20, 50, 30.0


@tensorclass
class Patient:
    """Ten measurements, each scaled to unit variance, and the progression of the disease."""

    measured: Float32[Tensor, "10"]
    progression: Float32[Tensor, ""]


@tensorclass
class Guess:
    """The mean of the votes, and how far they differ."""

    value: Float32[Tensor, ""]
    spread: Float32[Tensor, ""]


def load() -> Patient:
    """Shuffle the patients; center and scale all numbers."""
    table, target = (torch.tensor(array, dtype=torch.float32) for array in load_diabetes(return_X_y=True))
    return Patient(measured=table / table.std(0), progression=(target - target.mean()) / target.std()).shuffle()


def expand(measured: Tensor, weight: Tensor) -> Tensor:
    """Return random features and a constant."""
    return torch.cat([(measured @ weight).tanh(), torch.ones(*measured.shape[:-1], 1)], -1)


def fit(patients: Patient) -> TensorClassSequential[Patient, Guess]:
    """Draw features and patients for each model, and solve it; `[models, features]` weights are the ensemble."""
    weight = torch.randn(10, FEATURES) / 3
    solved = []
    for _ in range(MODELS):
        chosen = patients[torch.randint(len(patients), (len(patients),))]
        x = expand(chosen.measured, weight)
        solved.append(torch.linalg.solve(x.mT @ x + RIDGE * torch.eye(FEATURES + 1), x.mT @ chosen.progression))
    heads = torch.stack(solved)
    return TensorClassSequential(
        votes=stage(lambda measured: expand(measured, weight) @ heads.mT, Patient.measured),
        guess=stage(lambda votes: (votes.mean(-1), votes.std(-1)), out=(Guess.value, Guess.spread)),
    )


def main() -> None:
    """Print the error on unseen patients, and of the half about which the models agree."""
    torch.manual_seed(0)
    patients = load()
    guess = fit(patients[:-100])(patients[-100:])
    off = (guess.value - patients[-100:].progression).abs()
    sure = off[guess.spread.argsort()[:50]]
    print(f"off by {off.mean().item():.3f}, where the models agree by {sure.mean().item():.3f}")
    assert off.mean() < 0.7


if __name__ == "__main__":
    main()
