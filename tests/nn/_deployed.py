"""The same small network in every form that this library has, for the tests of compilers, exporters and trainers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from tensorclass import TensorClass, TensorDict, from_module, produced
from tensorclass.nn import (
    NormalParamExtractor,
    ProbabilisticTensorClassModule,
    ProbabilisticTensorClassSequential,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorClassModule,
    TensorClassModuleBase,
    TensorClassSequential,
    TensorDictModule,
    TensorDictSequential,
)
from tensorclass.typing import Float32


class Obs(TensorClass):
    """What comes in; `offset` may be absent."""

    x: Float32[Tensor, "4"]
    y: Float32[Tensor, "4"]
    offset: Float32[Tensor, "4"] | None = None


class Mid(TensorClass):
    """Intermediate fields."""

    total: Float32[Tensor, "4"]
    h: Float32[Tensor, "8"]
    loc: Float32[Tensor, "2"]
    scale: Float32[Tensor, "2"]


class Hidden(TensorClass):
    """What a nested pipeline returns."""

    h: Float32[Tensor, "8"]


class Act(TensorClass):
    """What comes out."""

    score: Float32[Tensor, "4"]
    top: Float32[Tensor, ""]


class Draw(TensorClass):
    """What a policy returns."""

    action: Float32[Tensor, "2"]


class Whole(TensorClass):
    """One class for all of it."""

    x: Float32[Tensor, "4"]
    y: Float32[Tensor, "4"]
    score: Float32[Tensor, "4"] = produced()
    top: Float32[Tensor, ""] = produced()


class Layers(nn.Module):
    """The network by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Two tensors in, two out."""
        score = self.head(self.body(add(x, y)))
        return score, largest(score)


class Policy(nn.Module):
    """A policy by hand: the mean of what it would draw."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 4)
        self.split = NormalParamExtractor()

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor]:
        """The mean."""
        loc, scale = self.split(self.head(add(x, y)))
        return (Normal(loc, scale).mean,)


def add(x: Tensor, y: Tensor) -> Tensor:
    """A function of two fields."""
    return x + y


def largest(score: Tensor) -> Tensor:
    """A reduction over the event dim."""
    return score.amax(-1)


class Body(TensorClassModuleBase[Obs, Mid]):
    """The first half, from class to class."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, batch: Obs) -> Mid:
        """Everything the second half may read."""
        h = self.body(batch.x + batch.y)
        return Mid(total=batch.x, h=h, loc=h[..., :2], scale=h[..., 2:4], batch_size=batch.batch_size)


class Head(TensorClassModuleBase[Mid, Act]):
    """The second half."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, batch: Mid) -> Act:
        """Scores."""
        score = self.head(batch.h)
        return Act(score=score, top=largest(score), batch_size=batch.batch_size)


def step(module: Any, reads: Any, writes: Any, **options: Any) -> TensorClassModule:
    """A typed module."""
    return TensorClassModule(module, in_fields=reads, out_fields=writes, **options)


def steps(layers: Layers, score: Any = Act.score, top: Any = Act.top) -> list[TensorClassModule]:
    """The network as typed modules."""
    return [
        step(add, (Obs.x, Obs.y), Mid.total),
        step(layers.body, Mid.total, Mid.h, name="body"),
        step(layers.head, Mid.h, score, name="head"),
        step(largest, score, top),
    ]


def typed(layers: Layers) -> Any:
    """A typed sequence."""
    return TensorClassSequential(*steps(layers), input=Obs, output=Act)


def state(layers: Layers) -> Any:
    """A typed sequence over one class."""
    return TensorClassSequential(*steps(layers, Whole.score, Whole.top), input=Whole)


def nested(layers: Layers) -> Any:
    """A typed sequence in a typed sequence."""
    inner = TensorClassSequential(*steps(layers)[:2], input=Obs, output=Hidden)
    return TensorClassSequential(inner, *steps(layers)[2:], input=Obs, output=Act)


def alone(layers: Layers) -> Any:
    """One typed module with two in fields and two out fields."""
    return step(layers, (Obs.x, Obs.y), (Act.score, Act.top))


def chain(layers: Layers) -> Any:
    """Class-to-class modules."""
    return Body(layers.body) >> Head(layers.head)


def keyed_steps(layers: Layers) -> list[TensorDictModule]:
    """The network as keyed modules, with nested keys."""
    return [
        TensorDictModule(add, in_keys=["x", "y"], out_keys=[("mid", "sum")]),
        TensorDictModule(layers.body, in_keys=[("mid", "sum")], out_keys=[("mid", "h")]),
        TensorDictModule(layers.head, in_keys=[("mid", "h")], out_keys=["score"]),
        TensorDictModule(largest, in_keys=["score"], out_keys=["top"]),
    ]


def keyed(layers: Layers) -> Any:
    """A keyed sequence."""
    return TensorDictSequential(*keyed_steps(layers))


def keyed_alone(layers: Layers) -> Any:
    """One keyed module."""
    return TensorDictModule(layers, in_keys=["x", "y"], out_keys=["score", "top"])


def mixed(layers: Layers) -> Any:
    """Typed modules in a keyed sequence."""
    return TensorDictSequential(*steps(layers))


def policy(layers: Policy) -> Any:
    """A typed sequence that ends in a distribution."""
    return ProbabilisticTensorClassSequential(
        step(add, (Obs.x, Obs.y), Mid.total),
        step(nn.Sequential(layers.head, layers.split), Mid.total, (Mid.loc, Mid.scale), name="head"),
        ProbabilisticTensorClassModule(
            in_fields={"loc": Mid.loc, "scale": Mid.scale},
            out_fields=Draw.action,
            distribution_class=Normal,
            default_interaction_type="mean",
        ),
        input=Obs,
        output=Draw,
    )


def keyed_policy(layers: Policy) -> Any:
    """A keyed sequence that ends in a distribution."""
    return ProbabilisticTensorDictSequential(
        TensorDictModule(add, in_keys=["x", "y"], out_keys=["sum"]),
        TensorDictModule(layers.head, in_keys=["sum"], out_keys=["both"]),
        TensorDictModule(layers.split, in_keys=["both"], out_keys=["loc", "scale"]),
        ProbabilisticTensorDictModule(
            in_keys=["loc", "scale"], out_keys=["action"], distribution_class=Normal, default_interaction_type="mean"
        ),
    )


class Swapped(nn.Module):
    """A typed sequence under parameters that it does not own."""

    def __init__(self, layers: Layers) -> None:
        super().__init__()
        self.pipeline = typed(layers)
        self.params = from_module(self.pipeline, as_module=True)

    def forward(self, batch: Obs) -> Act:
        """The pipeline with the container's parameters."""
        with self.params.to_module(self.pipeline):
            found: Act = self.pipeline(batch)
            return found


class Form(NamedTuple):
    """One way to write the network."""

    build: Callable[[Any], Any]
    batch: Callable[..., Any]
    raw: type[nn.Module] = Layers
    outputs: tuple[str, ...] = ("score", "top")


def tensors(size: int) -> tuple[Tensor, Tensor]:
    """The same values for every form."""
    generator = torch.Generator().manual_seed(size)
    return torch.randn(size, 4, generator=generator), torch.randn(size, 4, generator=generator)


def obs(x: Tensor, y: Tensor) -> Obs:
    """A typed batch."""
    return Obs(x=x, y=y)


def whole(x: Tensor, y: Tensor) -> Whole:
    """A batch of the one class."""
    return Whole(x=x, y=y)


def data(x: Tensor, y: Tensor) -> TensorDict:
    """A keyed batch."""
    return TensorDict({"x": x, "y": y}, batch_size=[x.shape[0]])


FORMS: dict[str, Form] = {
    "typed module": Form(alone, obs),
    "typed sequence": Form(typed, obs),
    "one class": Form(state, whole),
    "nested sequence": Form(nested, obs),
    "class to class": Form(chain, obs),
    "keyed module": Form(keyed_alone, data),
    "keyed sequence": Form(keyed, data),
    "typed in keyed": Form(mixed, data),
    "policy": Form(policy, obs, Policy, ("action",)),
    "keyed policy": Form(keyed_policy, data, Policy, ("action",)),
    "parameters outside": Form(Swapped, obs),
}
