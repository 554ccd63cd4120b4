"""Wrong pipelines: each is caught where the table says, at build or on the first call, with words that help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from tensorclass import TensorClass, TensorDict, tensorclass
from tensorclass.errors import BuildError, StructureError
from tensorclass.nn import (
    PipelineWarning,
    ProbabilisticTensorClassModule,
    TensorClassModule,
    TensorClassSequential,
    module,
)
from tensorclass.typing import Float, Float32, Float64, Int64
from tests.nn._pipelines import argmax, flatten, step
from tests.nn._zoo import pipeline


class Photo(TensorClass):
    image: Float32[Tensor, "3 h w"]
    label: Int64[Tensor, ""]
    weight: Float32[Tensor, ""] | None = None


class Small(TensorClass):
    image: Float32[Tensor, "1 8 8"]


class Mid(TensorClass):
    flat: Float32[Tensor, "64"]
    hidden: Float32[Tensor, "32"]
    wide: Float32[Tensor, "64"]
    features: Float32[Tensor, "8 h//2 w//2"]


class Scores(TensorClass):
    logits: Float32[Tensor, "10"]


class Decision(TensorClass):
    logits: Float32[Tensor, "10"]
    digit: Int64[Tensor, ""]


class Loss(TensorClass):
    loss: Float32[Tensor, ""]


class Double(TensorClass):
    hidden: Float64[Tensor, "32"]


class Second(nn.Module):
    """Calls a layer in some way."""

    def __init__(self, layer: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, *values: Tensor) -> Any:
        """What the call gives."""
        return self.call(self.layer, *values)


def named(x: Tensor) -> dict[str, Tensor]:
    """A mapping with another name."""
    return {"logit": x[..., :10]}


def in_place(x: Tensor) -> Tensor:
    """Changes what it reads."""
    x.mul_(2)
    return x


@dataclass(frozen=True)
class Wrong:
    """A pipeline that is wrong; `build` makes it, `words` stand in the error, next to the code."""

    build: Callable[[], Any]
    code: str
    words: tuple[str, ...] = ()


def stages() -> list[TensorClassModule]:
    """Three right modules from Small to Scores."""
    return [
        step(flatten, Small.image, Mid.flat, name="flat_"),
        step(nn.Linear(64, 32), Mid.flat, Mid.hidden, name="encoder"),
        step(nn.Linear(32, 10), Mid.hidden, Scores.logits, name="head"),
    ]


def small(*modules: TensorClassModule, output: type = Scores) -> Any:
    """A pipeline from Small."""
    return TensorClassSequential(*modules, input=Small, output=output)


def replaced(index: int, *modules: TensorClassModule, output: type = Scores) -> Any:
    """The right modules with one replaced."""
    return small(*stages()[:index], *modules, *stages()[index + 1 :], output=output)


def odd(call: Any) -> Any:
    """The right modules with another callable for the encoder."""
    return replaced(1, step(call, Mid.flat, Mid.hidden, name="odd"))


def alone(call: Any, ins: str, out: str) -> Any:
    """A pipeline of one callable."""
    return pipeline(call, (ins,), (out,))


def loss(call: Any) -> Any:
    """A pipeline that ends in a loss of each element."""
    return small(*stages(), step(call, Scores.logits, Loss.loss, name="loss"), output=Loss)


W = Wrong
AT_BUILD: dict[str, Wrong] = {
    # ---- found in the declarations
    "misordered": W(lambda: small(*[stages()[i] for i in (0, 2, 1)]), "E101", ("`encoder` writes `hidden`", "move it")),
    "missing": W(lambda: small(stages()[0], stages()[2]), "E101", ("nothing before it provides", "available here")),
    "other dtype": W(lambda: replaced(2, step(nn.Linear(32, 10), Double.hidden, Scores.logits)), "E102", ("Float64",)),
    "other shape": W(
        lambda: replaced(1, step(nn.Linear(8, 32), pick("flat", "8"), Mid.hidden)), "E103", ("64", "8")
    ),
    "optional without a guard": W(
        lambda: TensorClassSequential(
            step(lambda i, w: i.mean((-1, -2, -3)) * w, (Photo.image, Photo.weight), Loss.loss),
            input=Photo, output=Loss,
        ), "E104", ("`weight`", "None"),
    ),
    "overwritten input": W(
        lambda: TensorClassSequential(step(nn.ReLU(), Photo.image, Photo.image), input=Photo), "E105", ("update=True",)
    ),
    "double write": W(
        lambda: small(*stages(), step(lambda h: h[..., :10], Mid.hidden, Scores.logits, name="again")), "E106",
        ("which module 2 `head` already writes",),
    ),
    "output unwritten": W(lambda: small(*stages(), output=Decision), "E107", ("nothing writes `Decision.digit`",)),
    "too many in fields": W(
        lambda: replaced(1, step(nn.Linear(64, 32), (Mid.flat, Small.image), Mid.hidden)), "E110", ("takes 1 argument",)
    ),
    # ---- found by probing
    "wrong width": W(
        lambda: replaced(2, step(nn.Linear(64, 10), Mid.hidden, Scores.logits, name="head")), "E108",
        ("`head` accepts 64 for event dim 0 of `hidden`, it is given 32 (made by module 1 `encoder`", "cannot be"),
    ),
    "wrong channels": W(
        lambda: alone(nn.Conv2d(1, 4, 3), "f 3 h w", "f 4 h-2 w-2"), "E108", ("accepts 1 for event dim 0",)
    ),
    "embedding of floats": W(lambda: alone(nn.Embedding(10, 4), "f t", "f t 4"), "E108", ("accepts int64 for `g0`",)),
    "ints into a Linear": W(
        lambda: pipeline(nn.Linear(8, 4), ("i 8",), ("f 4",)), "E108", ("accepts float32 for `g0`",)
    ),
    "softmax of ints": W(lambda: alone(lambda x: x.softmax(-1), "i 8", "f 8"), "E108", ("accepts float32",)),
    "float targets": W(
        lambda: pipeline(nn.CrossEntropyLoss(reduction="none"), ("f 5", "f "), ("f ",)), "E108",
        ("accepts int64 for `g1`",),
    ),
    "swapped in fields": W(
        lambda: pipeline(nn.Bilinear(8, 6, 4), ("f 6", "f 8"), ("f 4",)), "E108", ("in another order",)
    ),
    "opaque, batch lost": W(lambda: alone(unread, "f 8", "f 8"), "E112", ("without the batch dim",)),
    "opaque, dtype": W(
        lambda: alone(lambda x: torch.from_numpy(np.ones(x.detach().numpy().shape)), "f 8", "f 8"), "E111", ("float64",)
    ),
    "dims swapped": W(lambda: alone(nn.Linear(8, 4), "f 8 12", "f 12 4"), "E108", ("last two dims swapped",)),
    "missing channel dim": W(lambda: alone(nn.Conv2d(1, 4, 1), "f h w", "f 4 h w"), "E108", ("`unsqueeze(-3)`",)),
    "heads that do not divide": W(
        lambda: alone(lambda x: x.unflatten(-1, (5, -1)), "f 64", "f 5 12"), "E108", ("RuntimeError",)
    ),
    "no forward": W(lambda: alone(nn.Module(), "f 8", "f 8"), "E108", ("NotImplementedError",)),
    "batch of two only": W(lambda: alone(lambda x: x.reshape(2, 4, 2), "f 8", "f 4 2"), "E108", ("invalid for input",)),
    "in place": W(lambda: alone(in_place, "f 8", "f 8"), "E109", ("changes `g0` of the input in place", "clone")),
    "in place through a view": W(
        lambda: small(stages()[0], step(nn.ReLU(inplace=True), Mid.flat, Mid.wide, name="relu"),
                      step(nn.Linear(64, 10), Mid.wide, Scores.logits)),
        "E109", ("changes `image` of the input",),
    ),
    "mapping without the key": W(lambda: replaced(2, step(named, Mid.hidden, Scores.logits)), "E110", ("['logit']",)),
    "too few results": W(lambda: pipeline(lambda x: x, ("f 8",), ("f 8", "f 8")), "E110", ("2 out fields",)),
    "too many results": W(lambda: alone(nn.GRU(8, 4, batch_first=True), "f t 8", "f t 4"), "E110", ("2 values",)),
    "swapped outputs": W(lambda: pipeline(lambda x: x.max(-1), ("f 8",), ("i ", "f ")), "E111", ("as float32",)),
    "nothing returned": W(lambda: alone(lambda x: None, "f 8", "f 8"), "E111", ("NoneType",)),
    "argmax dtype": W(lambda: alone(argmax, "f 10", "f "), "E111", ("as int64", "torch.float32")),
    "promotion to float64": W(
        lambda: alone(lambda x: x * torch.ones(8, dtype=torch.float64), "f 8", "f 8"), "E111", ("as float64",)
    ),
    "a float of numpy": W(
        lambda: alone(lambda x: x + torch.from_numpy(np.ones(8)), "f 8", "f 8"), "E111", ("as float64", "torch.float32")
    ),
    "half": W(lambda: odd(lambda x: x[..., :32].half()), "E111", ("as float16", "torch.float32")),
    "loss over the batch": W(lambda: loss(lambda z: z.mean()), "E112", ("without the batch dim", "shape []")),
    "mean over the batch": W(lambda: loss(lambda z: z.mean(0)), "E112", ("shape [10]",)),
    "flatten over the batch": W(lambda: odd(torch.flatten), "E112", ("flattened",)),
    "recurrent without batch_first": W(
        lambda: alone(lambda x: x.movedim(0, 1), "f t 8", "f t 8"), "E112", ("`movedim(1, 0)`",)
    ),
    "attention weights of a layer that takes the batch second": W(
        lambda: pipeline(
            Second(nn.MultiheadAttention(8, 2), lambda layer, x: layer(x, x, x)), ("f t 8",), ("f t 8", "f t t")
        ),
        "E112", ("`layer` (MultiheadAttention) takes the batch as its second dim: give it `batch_first=True`",),
    ),
    "last state of a layer that takes the batch second": W(
        lambda: alone(Second(nn.LSTM(8, 8), lambda layer, x: layer(x)[1][0][-1]), "f t 8", "f 8"),
        "E112", ("`layer` (LSTM) takes the batch as its second dim: give it `batch_first=True`",),
    ),
    "mask for a layer that takes the batch second": W(
        lambda: pipeline(
            Second(nn.TransformerEncoderLayer(8, 2, 16), lambda layer, x, m: layer(x, src_key_padding_mask=m)),
            ("f t 8", "b t"), ("f t 8",),
        ),
        "E108", ("`layer.self_attn` (MultiheadAttention) takes the batch as its second dim",),
    ),
    "joined results of a layer that takes the batch second": W(
        lambda: alone(Second(nn.GRU(8, 8), lambda layer, x: torch.cat([layer(x)[0]] * 2, 1)), "f t 8", "f t 8"),
        "E114", ("`layer` (GRU) takes the batch as its second dim",),
    ),
    "a dim of one that a layer takes in full": W(
        lambda: alone(nn.Linear(8, 4), "f 1", "f 4"), "E108", ("accepts 8", "`expand(-1, 8)` repeats it")
    ),
    "constant batch": W(lambda: alone(lambda x: x.new_zeros(2, 8), "f 8", "f 8"), "E112", ("for a batch of 3",)),
    "no in field": W(lambda: pipeline(lambda: torch.zeros(6), (), ("f ",)), "E112", ("no in field",)),
    "kept dim": W(lambda: loss(lambda z: z.mean(-1, keepdim=True)), "E113", ("1 event dims, declared 0",)),
    "flattened too much": W(lambda: alone(lambda x: x.flatten(1), "f t 8", "f t 8"), "E113", ("declared 2",)),
    "wrong conv size": W(
        lambda: TensorClassSequential(
            step(nn.Conv2d(3, 8, 3, 2), Photo.image, Mid.features), input=Photo, output=pick_class("features", "8 a b")
        ), "E114", ("event dim 1 = 23, declared h//2 = 24", "(h-1)//2"),
    ),
    "wrong constant": W(lambda: alone(nn.Linear(8, 5), "f 8", "f 4"), "E114", ("it is 5 for every input",)),
    "swapped dims in the result": W(lambda: alone(lambda x: x.mT, "f a b", "f a b"), "E114", ('declare "b a"',)),
    "outer product": W(lambda: alone(lambda x: x.flatten(1), "f a b", "f a"), "E114", ("a*b",)),
    "broadcast of (B,) and (B, 1)": W(
        lambda: alone(lambda x: x[..., 0] - x[..., :1], "f 8", "f n"), "E115", ("batch size", "broadcast")
    ),
    "squeezed batch of one": W(lambda: alone(lambda x: x[..., :1].squeeze(), "f 8", "f "), "E116", ("`squeeze(-1)`",)),
}  # fmt: skip


def pick(name: str, dims: str) -> Any:
    """A field of another class."""
    return getattr(pick_class(name, dims), name)


def pick_class(name: str, dims: str) -> Any:
    """A class of one field."""
    return type("Other", (TensorClass,), {"__annotations__": {name: Float32[Tensor, dims]}, "__module__": __name__})


@pytest.mark.parametrize("case", AT_BUILD)
def test_caught_at_build(case):
    """The code and the words are in the one error of the build."""
    wrong = AT_BUILD[case]
    with pytest.raises(BuildError) as info:
        wrong.build()
    codes = [d.code for d in info.value.diagnostics if d.severity == "error"]
    assert set(codes) == {wrong.code}
    assert [word for word in wrong.words if word not in str(info.value)] == []


def unread(z: Tensor) -> Tensor:
    """Loses the batch dim, and can't be probed."""
    return z[..., :1].squeeze().round() if z.sum().item() > 1e9 else z.mean(0)


ON_FIRST_CALL: dict[str, tuple[Callable[[], Any], str]] = {
    "opaque, size": (
        lambda: alone(lambda x: x[:, : x.shape[1] - 1 + int(x.sum().item() * 0)], "f 8", "f 6"),
        "6 is declared, here 7",
    ),
    "not probed": (lambda: pipeline(nn.Linear(8, 5), ("f 8",), ("f 4",), probe=False), "4 is declared, here 5"),
}


@pytest.mark.parametrize("case", ON_FIRST_CALL)
def test_caught_on_the_first_call(case):
    """What can't be probed builds, and is compared with its declaration when there is data."""
    build, words = ON_FIRST_CALL[case]
    built = build()
    batch = built.input_class(torch.rand(5, 8))
    with pytest.raises((TypeError, ValueError)) as info:
        built(batch)
    assert words in str(info.value)


NO_PIPELINE: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "misspelt": (lambda: Mid.hiden, AttributeError, "hidden"),
    "string for a field": (lambda: TensorClassModule(argmax, "hidden", Scores.logits), BuildError, "got the string"),
    "class for a module": (lambda: TensorClassModule(nn.ReLU, Mid.hidden, Mid.hidden), BuildError, "make an instance"),
    "same output twice": (lambda: step(argmax, Mid.flat, (Mid.wide, Mid.wide)), BuildError, "twice"),
    "no modules": (lambda: TensorClassSequential(input=Small, output=Scores), BuildError, "at least one"),
    "instance for a class": (lambda: small(*stages(), output=torch.ones(2)), BuildError, "output= takes a tensorclass"),
    "parameters of another structure": (
        lambda: TensorDict.from_module(nn.Linear(2, 2, bias=False)).to_module(nn.Linear(2, 2)), StructureError,
        "`bias` is missing",
    ),
    "parameter that the distribution has not": (
        lambda: ProbabilisticTensorClassModule({"lock": Mid.wide}, Mid.hidden, distribution_class=Normal), BuildError,
        "did you mean `loc`",
    ),
    "probe misspelt": (lambda: pipeline(argmax, ("f 3",), ("i ",), probe="fake"), BuildError, "probe= takes"),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_PIPELINE)
def test_caught_before(case):
    """What is no pipeline at all is refused where it is written."""
    build, error, words = NO_PIPELINE[case]
    with pytest.raises(error) as info:
        build()
    assert words in str(info.value)


def test_wrong_batch_is_refused():
    """A batch of another schema never reaches a module."""
    with pytest.raises(TypeError, match="takes a Small"):
        small(*stages())(Mid(torch.rand(2, 64), torch.rand(2, 32), torch.rand(2, 64), torch.rand(2, 8, 1, 1)))


def test_promotion_in_a_family_warns():
    """A family takes float64, so the promotion is a warning."""
    with pytest.warns(PipelineWarning, match="W202"):
        alone(lambda x: x * torch.ones(8, dtype=torch.float64), "f 8", "F 8")


def test_all_findings_in_one_error():
    """Several mistakes of one pipeline are reported together, in the order of the modules."""

    @tensorclass
    class Own:
        total: Float[Tensor, ""]

    modules = [
        step(flatten, Small.image, Mid.flat),
        step(nn.Linear(63, 32), Mid.flat, Mid.hidden, name="encoder"),
        module(in_fields=Mid.hidden, out_fields=Scores.logits)(nn.Linear(32, 9)),
        step(lambda z: z.sum(), Scores.logits, Own.total, name="total"),
    ]
    with pytest.raises(BuildError) as info:
        small(*modules, output=Own)
    assert [(d.code, d.module) for d in info.value.diagnostics] == [("E108", 1), ("E114", 2), ("E112", 3)]
    assert "3 errors" in str(info.value)


def test_table_is_large():
    """At least forty wrong pipelines."""
    assert len(AT_BUILD) + len(ON_FIRST_CALL) + len(NO_PIPELINE) >= 55


@pytest.mark.parametrize("kind", [list, tuple])
def test_modules_in_a_list(kind: Any):
    """The error shows the star."""
    with pytest.raises(BuildError, match=r"one by one, `TensorClassSequential\(\*modules"):
        TensorClassSequential(kind([flatten, argmax]), input=Small, output=Decision)
