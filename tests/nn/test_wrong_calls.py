"""Wrong calls of pipelines, typed modules and stages: the error writes the right call, and that call works."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.utils.data import DataLoader

from tensorclass import TensorClass, TensorDict, tensorclass
from tensorclass.errors import TensorClassError
from tensorclass.nn import (
    NormalParamExtractor,
    TensorClassModule,
    TensorClassModuleBase,
    TensorClassSequential,
    sample,
    stage,
)
from tensorclass.typing import Float32, Int64


@tensorclass
class Digits:
    image: Float32[Tensor, "4"]
    label: Int64[Tensor, ""]


@tensorclass
class Prediction:
    logits: Float32[Tensor, "2"]


@tensorclass
class Flat:
    flat: Float32[Tensor, "4"]


class Plain(TensorClass):
    x: Tensor


class Net(TensorClassModuleBase[Digits, Prediction]):
    def forward(self, batch: Digits) -> Prediction:
        return Prediction(logits=batch.image[..., :2])


HEAD = TensorClassModule(nn.Linear(4, 2), in_fields=Digits.image, out_fields=Prediction.logits)
RELU = TensorClassModule(torch.relu, in_fields=Prediction.logits, out_fields=Prediction.logits, update=True)
CALLED: dict[str, Any] = {
    "pipeline": TensorClassSequential(HEAD, input=Digits, output=Prediction),
    "module": HEAD,
    "typed": Net(),
    "chain": Net() >> TensorClassSequential(RELU, input=Prediction),
}
IMAGE, LABEL = torch.zeros(3, 4), torch.zeros(3, dtype=torch.int64)
ROWS = [{"image": torch.zeros(4), "label": torch.tensor(0)}] * 3


def digits() -> Digits:
    """A batch of three."""
    return Digits(IMAGE, LABEL)


def from_fields(hint: str) -> Any:
    """What a constructor call of a hint makes."""
    return eval(hint.replace("image=...", "image=IMAGE").replace("label=...", "label=LABEL"), globals())


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "keywords": (lambda f: f(image=IMAGE, label=LABEL), "got the keywords `image`, `label`"),
    "one keyword": (lambda f: f(image=IMAGE), "got the keyword `image`"),
    "an unknown keyword": (lambda f: f(imag=IMAGE), "`imag`; did you mean `image`?; Digits has: image, label"),
    "two tensors": (lambda f: f(IMAGE, LABEL), "got 2 values (float32 [3, 4], int64 [3])"),
    "a tensor": (lambda f: f(IMAGE), "got Tensor float32 [3, 4]"),
    "an array": (lambda f: f(IMAGE.numpy()), "got ndarray"),
    "nothing": (lambda f: f(), "got nothing"),
    "None": (lambda f: f(None), "got NoneType"),
    "the class": (lambda f: f(Digits), "got the class Digits; make an instance"),
    "a field": (lambda f: f(Digits.image), "got FieldRef"),
    "an empty list": (lambda f: f([]), "got list"),
    "a list of classes": (lambda f: f([Digits]), "got list"),
}


@pytest.mark.parametrize("called", CALLED)
def test_calls_without_a_batch(called: str) -> None:
    """Whatever a call gets instead of a batch, the error says so and writes the constructor, which makes one."""
    f = CALLED[called]
    for call, words in WRONG.values():
        with pytest.raises(TensorClassError) as caught:
            call(f)
        assert isinstance(caught.value, TypeError)
        assert words in str(caught.value)
        (hint,) = re.findall(r"`(Digits\(.+?\))`", str(caught.value))
        assert f(from_fields(hint)).batch_size == (3,)


@pytest.mark.parametrize("called", CALLED)
def test_calls_with_what_could_be_a_batch(called: str) -> None:
    """For data of another form, the error writes the call that converts it, and that call works."""
    f, untyped = CALLED[called], digits().to_tensordict()
    given: list[Any] = [untyped, untyped.to_dict(), ROWS, [digits()], (digits()[0],) * 3, [IMAGE, LABEL]]
    given += [TensorDict(untyped.to_dict())]
    for value in given:
        with pytest.raises(TypeError, match="make one with") as caught:
            f(value)
        (hint,) = re.findall("make one with `(.+?)`", str(caught.value))
        assert f(eval(hint, {**globals(), "value": value})).batch_size == (3,)
    for value in (iter([digits()]), DataLoader(digits(), batch_size=None)):
        with pytest.raises(TypeError, match=r"call it for each batch, `for batch in value: \.\.\.`"):
            f(value)
    with pytest.raises(TypeError, match=r"got 2 values .*join the batches, `torch.cat\(\[\.\.\.\]\)`"):
        f(digits(), digits())
    with pytest.raises(TypeError, match=r"got the keyword `label`; change the field .*`batch.replace\(label=\.\.\.\)`"):
        f(digits(), label=LABEL)


def test_the_constructor_of_other_classes() -> None:
    """An only field is named, and a class whose fields don't tell the batch size shows it."""
    flat = TensorClassModule(nn.Linear(4, 4), in_fields=Flat.flat, out_fields=Flat.flat, update=True)
    with pytest.raises(TypeError, match=r"make one with `Flat\(flat=value\)`"):
        flat(IMAGE)
    plain = TensorClassSequential(TensorClassModule(torch.relu, Plain.x, Plain.x, update=True), input=Plain)
    with pytest.raises(TypeError, match=r"`Plain\(x=\.\.\., batch_size=\[n\]\)`"):
        plain(x=IMAGE)
    with pytest.raises(
        TypeError,
        match=r"Net takes a Digits, got Flat of batch size .*; make one with `Digits\(image=\.\.\., label=\.\.\.\)`",
    ):
        Net()(Flat(IMAGE))


def test_distributions_take_a_batch() -> None:
    """`get_dist`, its parameters and `log_prob` refuse what the call refuses."""
    net = stage(nn.Sequential(nn.Linear(4, 4), NormalParamExtractor()), Digits.image)
    policy = TensorClassSequential[Digits, Prediction](net=net, act=sample(Normal, out=Prediction.logits))
    calls: list[Callable[[], Any]] = [lambda: policy.get_dist(IMAGE), lambda: policy.get_dist_params(IMAGE)]
    for call in [*calls, lambda: policy.log_prob(IMAGE)]:
        with pytest.raises(TypeError, match=r"takes a Digits, got Tensor float32 \[3, 4\]; make one with"):
            call()
    with pytest.raises(TypeError, match="which Tensor does not have; give it a batch of Prediction"):
        policy.log_prob(digits(), IMAGE)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda h: h(IMAGE), r"can't be called: list the stage, `TensorClassSequential\(h=h, \.\.\.\)`"),
        (lambda h: h(image=IMAGE), "can't be called"),
        (lambda h: h[0](IMAGE), "can't be called"),
        (lambda h: h + 1, r"next stage, `stage\(lambda h: h \+ 1, h\)`"),
        (lambda h: -h[0], "no value yet for an operator"),
        (lambda h: IMAGE @ h, "no value yet"),
        (torch.relu, r"next stage, `stage\(lambda h: relu\(h\), h\)`"),
        (nn.Linear(4, 2), "torch's `linear`"),
        (lambda h: h.argmax(-1), r"has no `argmax` yet.*`stage\(lambda h: h\.argmax\(\.\.\.\), h\)`"),
        (lambda h: h.shape, r"`stage\(lambda h: h\.shape, h\)`"),
        (lambda h: TensorClassModule(h, Digits.image, Prediction.logits), r"name the callable first, `stage\(f, h\)`"),
    ],
)
def test_values_of_stages_are_inputs(use: Callable[[Any], Any], words: str) -> None:
    """A stage has its result for type checkers; used as one before the pipeline runs, it says how to write that."""
    with pytest.raises(TensorClassError, match=words):
        use(stage(nn.Linear(4, 2), Digits.image))
