"""Turn a `tensordict` program into a typed one in three steps; every step computes the same numbers.

The data are scikit-learn's bundled wines, no download: 178 wines, 13 measurements each, three growers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from sklearn.datasets import load_wine
from torch import Tensor, nn

from tensorclass import TensorDict, tensorclass
from tensorclass.errors import BuildError, MissingKeyError, SchemaError
from tensorclass.nn import TensorClassSequential, TensorDictModule, TensorDictSequential, stage
from tensorclass.typing import Float32, Int64


def load() -> tuple[Tensor, Tensor]:
    """Return measurements `[178, 13]`, each scaled to unit variance, and the numbers of the growers `[178]`."""
    data, target = load_wine(return_X_y=True)
    measured = torch.tensor(data, dtype=torch.float32)
    return (measured - measured.mean(0)) / measured.std(0), torch.tensor(target, dtype=torch.int64)


def networks() -> tuple[nn.Module, nn.Module]:
    """Make the networks to train; no step changes them."""
    return nn.Sequential(nn.Linear(13, 32), nn.ReLU()), nn.Linear(32, 3)


def most_likely(logits: Tensor) -> Tensor:
    """Return the grower with the highest score."""
    return logits.argmax(-1)


# Step 1: only the imports change, `tensordict` to `tensorclass` and `tensordict.nn` to `tensorclass.nn`.


def keyed(encoder: nn.Module, head: nn.Module) -> TensorDictSequential:
    """The original program: strings name the entries that modules read and write, and no type declares them."""
    return TensorDictSequential(
        TensorDictModule(encoder, in_keys=["measured"], out_keys=["hidden"]),
        TensorDictModule(head, in_keys=["hidden"], out_keys=["logits"]),
        TensorDictModule(most_likely, in_keys=["logits"], out_keys=["grower"]),
    )


# Step 2: classes declare the input and the output. Keyed modules take typed batches, and fields as keys.


@tensorclass
class Wine:
    """The measurements of a wine, and its grower."""

    measured: Float32[Tensor, "13"]
    made_by: Int64[Tensor, ""]


@tensorclass
class Guess:
    """The scores of the three growers, and the grower with the highest score."""

    hidden: Float32[Tensor, "32"]
    logits: Float32[Tensor, "3"]
    grower: Int64[Tensor, ""]


def referenced(encoder: nn.Module, head: nn.Module) -> TensorDictSequential:
    """The same modules; a misspelled field now raises `AttributeError` here, and is an error in every type checker."""
    return TensorDictSequential(
        TensorDictModule(encoder, in_keys=[Wine.measured], out_keys=[Guess.hidden]),
        TensorDictModule(head, in_keys=[Guess.hidden], out_keys=[Guess.logits]),
        TensorDictModule(most_likely, in_keys=[Guess.logits], out_keys=[Guess.grower]),
    )


# Step 3: typed modules. The pipeline is checked when it is built, takes a `Wine` and returns a `Guess`.


def typed(encoder: nn.Module, head: nn.Module) -> TensorClassSequential[Wine, Guess]:
    """The same modules again; `TensorClassSequential` knows the type of every field."""
    return TensorClassSequential[Wine, Guess](
        encoder=stage(encoder, Wine.measured, out=Guess.hidden),
        head=stage(head, out=Guess.logits),
        decide=stage(most_likely, out=Guess.grower),
    )


def train(classifier: TensorClassSequential[Wine, Guess], wines: Wine) -> None:
    """Train for a few hundred steps, each on all wines."""
    optimizer = torch.optim.Adam(classifier.parameters(), lr=1e-2, weight_decay=1e-3)
    for _ in range(200):
        loss = nn.functional.cross_entropy(classifier(wines).logits, wines.made_by)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def refused(what: str, attempt: Callable[[], object], error: type[Exception]) -> None:
    """Show which mistake is found now, and the error that reports it."""
    try:
        attempt()
    except error as found:
        print(f"---- {what}\n{found}\n")
    else:
        raise AssertionError(f"{what} was accepted")


def main() -> None:
    """Run all steps with the same parameters, and show the mistakes that each step finds."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    measured, grower = load()
    encoder, head = networks()

    first = keyed(encoder, head)(TensorDict(measured=measured, batch_size=[178]))
    other = TensorDict(measures=measured, batch_size=[178])
    refused("1: the call finds the missing key", lambda: keyed(encoder, head)(other), MissingKeyError)

    wines = Wine(measured, grower)
    second = referenced(encoder, head)(wines.to_tensordict())
    assert torch.equal(first["logits"], second["logits"])
    refused(
        "2: the constructor finds data of the wrong dtype",
        lambda: Wine(measured, grower.float()),  # type: ignore[tensorclass-dtype]  # the mistake
        SchemaError,
    )

    classifier = typed(encoder, head)
    third = classifier(wines)
    assert torch.equal(first["logits"], third.logits)
    assert torch.equal(first["grower"], third.grower)
    wider = nn.Sequential(nn.Linear(13, 64), nn.ReLU())
    refused("3: the build finds the layer of the wrong width, without data", lambda: typed(wider, head), BuildError)

    split = torch.randperm(len(wines))
    train(classifier, wines[split[:120]])
    test = wines[split[120:]]
    reached = (classifier(test).grower == test.made_by).float().mean().item()
    print(f"test accuracy: {reached:.2%} on {len(test)} wines")
    assert reached >= 0.93


if __name__ == "__main__":
    main()
