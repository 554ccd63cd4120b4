"""The build check on models that nobody made for it: right pipelines pass, wrong ones are found with their cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.errors import BuildError
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Int64
from tests.nn import _real_models as real
from tests.nn._zoo import FAMILIES, random_states, state_of

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")]


def _class(name: str, fields: dict[str, str]) -> Any:
    """A tensorclass of fields such as "f 3 h w"."""
    annotations = {key: FAMILIES[text[0]][Tensor, text[2:]] for key, text in fields.items()}
    return type(name, (TensorClass,), {"__annotations__": annotations, "__module__": __name__}, shadow=True)


def _pipeline(model: Any, reads: dict[str, str], written: str, **options: Any) -> Any:
    """One model as a pipeline; its parameters are the names of the in fields."""
    name, _, dims = written.partition(" ")
    given, made = _class("Given", reads), _class("Made", {name: f"f {dims}"})
    outs = (getattr(made, name), None) if isinstance(model, nn.MultiheadAttention) else getattr(made, name)
    module = TensorClassModule(model, {key: getattr(given, key) for key in reads}, outs)
    return TensorClassSequential(module, input=given, output=made, **options)


def _batch(cls: Any, size: int = 3) -> Any:
    """A batch with 7 for every open dim."""
    values = {}
    for name, spec in cls.__tensorclass_schema__.fields.items():
        shape = [size, *(7 if str(token).isalpha() else int(str(token)) for token in spec.dims.tokens)]
        dtype = spec.dtype.exact
        values[name] = torch.rand(shape) if dtype == torch.float32 else torch.ones(shape, dtype=dtype)
        if dtype == torch.bool:
            values[name] = torch.zeros(shape, dtype=dtype)
    if "lengths" in values:
        values["lengths"] = torch.tensor([7, 5, 2])
    return cls(**values)


@pytest.mark.parametrize("name", real.MODELS)
def test_right_pipelines_pass(name):
    """Each is probed, runs, and is as it was; `check(values=True)` passes, after a real call too."""
    make, reads, written = real.MODELS[name]
    model = make().eval()
    before, randoms = state_of(model), random_states()
    built = _pipeline(model, reads, written)
    assert [d.code for d in built.diagnostics] == (["N302"] if name == "packed GRU" else [])
    assert state_of(model) == before
    assert random_states() == randoms
    made = built(_batch(built.input_class))
    assert made.batch_size == (3,)
    assert all(d.code in ("N302", "W204") for d in built.check(values=True).diagnostics)


@pytest.mark.parametrize("name", sorted(set(real.MODELS) - {"packed GRU"}))
def test_a_size_that_is_not_made(name):
    """The probe sees what comes out of every one of them."""
    make, reads, written = real.MODELS[name]
    with pytest.raises(BuildError, match="E114"):
        _pipeline(make().eval(), reads, written.rpartition(" ")[0] + " 77")


class Image(TensorClass):
    image: Float32[Tensor, "3 64 64"]


class Last(TensorClass):
    image: Float32[Tensor, "h w c"]


class Text(TensorClass):
    ids: Int64[Tensor, "time"]
    attend: Int64[Tensor, "time"]


class Long(TensorClass):
    ids: Int64[Tensor, "88"]


class Made(TensorClass):
    features: Float32[Tensor, "512"]
    last_hidden_state: Float32[Tensor, "time 32"]
    pooler_output: Float32[Tensor, "32"]
    logits: Float32[Tensor, "5"]
    scores: Float32[Tensor, "time 100"]
    h: Float32[Tensor, "time 32"]


def one(model: Any, reads: Any, written: Any, given: Any = Image) -> Any:
    """A pipeline of one module that returns what it writes."""
    module = TensorClassModule(model, reads, written)
    return TensorClassSequential(module, input=given, output=_only(written))


def _only(ref: Any) -> Any:
    name = ref.__field_path__[-1]
    annotation = Made.__tensorclass_schema__.fields[name].declared
    return type("Only", (TensorClass,), {"__annotations__": {name: annotation}, "__module__": __name__})


def nll(logits: Tensor, ids: Tensor) -> Tensor:
    """The loss with the classes in the wrong place."""
    return nn.functional.cross_entropy(logits, ids, reduction="none")


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "classifier kept": (lambda: one(real.tv.squeezenet1_1(), Image.image, Made.logits), r"E114.*= 1000, declared 5"),
    "features not pooled": (lambda: one(real.tv.squeezenet1_1().features, Image.image, Made.features), r"E113"),
    "several feature maps": (
        lambda: one(real.timm.create_model("resnet10t", features_only=True), Image.image, Made.features),
        r"E110.*5 values",
    ),
    "size of the images": (
        lambda: one(real.timm.create_model("vit_tiny_patch16_224", depth=1), Image.image, Made.logits),
        r"E108.*raised in `patch_embed`",
    ),
    "tokens, not the pooled": (
        lambda: one(
            real.timm.create_model("vit_tiny_patch16_224", depth=1, img_size=64).forward_features,
            Image.image, Made.features,
        ), r"E113.*2 event dims",
    ),
    "name of the output": (
        lambda: one(real.bert(), (Text.ids, Text.attend), Made.h, Text), r"E110.*without `h`.*last_hidden_state",
    ),
    "mask in place of the cache": (
        lambda: one(real.gpt2(), (Text.ids, Text.attend), Made.scores, Text), r"E108.*get_seq_length",
    ),
    "no decoder input": (
        lambda: one(
            real.tf.T5ForConditionalGeneration(real.tf.T5Config(**real.T5)), {"input_ids": Text.ids}, Made.scores, Text
        ), r"E108.*raised in `decoder`",
    ),
    "too long": (
        lambda: one(real.bert(), Long.ids, Made.pooler_output, Long),
        r"E108.*88.*64.*raised in `embeddings`.*accepts (32|64) for event dim 0",
    ),
    "adapter of another width": (
        lambda: one(real.adapted(32), Text.ids, Made.pooler_output, Text),
        r"E108.*raised in `encoder.layer.0.intermediate.dense`",
    ),
    "skip without channels": (
        lambda: _pipeline(real.UNet(skip=False), {"x": "f 3 16 16", "time": "f 4"}, "noise 3 16 16"), r"E108.*`up.1`",
    ),
    "packed, padded time first": (
        lambda: _pipeline(real.Packed(batch_first=False), *real.MODELS["packed GRU"][1:]),
        r"E112.*without the batch dim",
    ),
    "classes behind the time": (
        lambda: TensorClassSequential(
            TensorClassModule(real.llama(), {"input_ids": Text.ids}, Made.scores),
            TensorClassModule(nll, (Made.scores, Text.ids), Made.h), input=Text, output=_only(Made.h),
        ), r"E10[38]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_pipelines_name_the_cause(case):
    """At build, in the words of the model."""
    build, words = WRONG[case]
    with pytest.raises(BuildError, match=rf"(?s){words}"):
        build()


def test_channels_last_into_a_convolution():
    """The error says what the convolution takes; an error after it cites the line."""
    model = real.tv.squeezenet1_1(num_classes=5)
    with pytest.raises(BuildError, match=r"(?s)E122.*`features.0`\) takes 3 channels from `h`; the layout is channels"):
        one(model, Last.image, Made.logits, Last)
    with pytest.raises(BuildError, match=r"(?s)E114.*see E122: dim `h` is 3.*test_real_models.py:\d+"):
        one(real.tv.squeezenet1_1(num_classes=7), Last.image, Made.logits, Last)
