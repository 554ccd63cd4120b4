"""Predict a distribution instead of a number: the progression of diabetes in a year as a mixture of normals.

The data are scikit-learn's bundled 442 patients with ten measurements each, no download. A network computes the
parameters of the mixture, a probabilistic module builds the distribution from them, and training maximizes the
log-probability of the observed values.
"""

from __future__ import annotations

import math

import torch
from sklearn.datasets import load_diabetes
from torch import Tensor, nn
from torch.distributions import Categorical, MixtureSameFamily, Normal
from torch.utils.data import DataLoader

from tensorclass import tensorclass
from tensorclass.nn import TensorClassSequential, sample, set_interaction_type, stage
from tensorclass.typing import Float32

COMPONENTS = 3
EPOCHS = 40


@tensorclass
class Patient:
    """Ten measurements, each scaled to unit variance."""

    measured: Float32[Tensor, "10"]


@tensorclass
class Outcome:
    """The parameters of the mixture and a value drawn from it: the disease progression, scaled to unit variance."""

    logits: Float32[Tensor, "parts"]
    loc: Float32[Tensor, "parts"]
    scale: Float32[Tensor, "parts"]
    progression: Float32[Tensor, ""]


@tensorclass
class Record:
    """A patient and the observed progression."""

    patient: Patient
    progression: Float32[Tensor, ""]


Model = TensorClassSequential[Patient, Outcome]


def load() -> tuple[Record, Record]:
    """Load the patients in random order: 80 % for training, 20 % for testing."""
    measured, progression = load_diabetes(return_X_y=True)
    data = torch.tensor(measured, dtype=torch.float32)
    target = torch.tensor(progression, dtype=torch.float32)
    records = Record(
        patient=Patient(data / data.std(0)),
        progression=(target - target.mean()) / target.std(),
    )
    records = records[torch.randperm(len(records))]
    split = len(records) * 4 // 5
    return records[:split], records[split:]


class Parameters(nn.Module):
    """Map ten measurements to logits, locations and positive scales."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 3 * COMPONENTS))

    def forward(self, measured: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the three groups of parameters, each `[batch, COMPONENTS]`."""
        logits, loc, raw = self.body(measured).chunk(3, -1)
        return logits, loc, nn.functional.softplus(raw) + 0.1


def mixture(logits: Tensor, loc: Tensor, scale: Tensor) -> MixtureSameFamily:
    """Return the distribution; each argument has the name of the field that it comes from."""
    return MixtureSameFamily(Categorical(logits=logits), Normal(loc, scale))


def build() -> Model:
    """Map measurements to parameters to a value; `log_prob` gives the log-probability of any value."""
    return Model(
        network=stage(Parameters(), Patient.measured, out=(Outcome.logits, Outcome.loc, Outcome.scale)),
        outcome=sample(mixture, out=Outcome.progression),
    )


def surprise(model: Model, records: Record) -> Tensor:
    """Return the mean negative log-probability of the observed values, in nats."""
    distribution: MixtureSameFamily = model.get_dist(records.patient)
    score: Tensor = distribution.log_prob(records.progression)
    return -score.mean()


def train(model: Model, records: Record) -> None:
    """Train with Adam and weight decay; mini-batches of records are records."""
    loader: DataLoader[Record] = DataLoader(records, batch_size=32, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)
    batch: Record
    for _ in range(EPOCHS):
        for batch in loader:
            loss = surprise(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def main() -> None:
    """Load, build, train; compare with one normal distribution for all patients, and print the spread of samples."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    training, test = load()
    model = build()
    print(model.explain(batch_size=32), end="\n\n")
    with torch.enable_grad():
        train(model, training)
    same_for_all = Normal(training.progression.mean(), training.progression.std())
    baseline = -same_for_all.log_prob(test.progression).mean().item()
    reached = surprise(model, test).item()
    print(f"surprise on {len(test)} patients: {reached:.3f} nats; one distribution for all: {baseline:.3f}")

    with set_interaction_type("random"):  # draw samples; outside this block, a call returns the mean
        drawn = torch.stack([model(test.patient).progression for _ in range(200)])
    low, high = drawn.quantile(0.1, 0), drawn.quantile(0.9, 0)
    inside = ((test.progression >= low) & (test.progression <= high)).float().mean().item()
    print(f"80 % of the samples of a patient span {high.sub(low).mean():.2f}; {inside:.0%} of the patients are inside")
    assert reached < baseline - 0.1
    assert math.isclose(inside, 0.8, abs_tol=0.12)


if __name__ == "__main__":
    main()
