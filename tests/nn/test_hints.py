"""Every hint of the build check is followed: the edit that it names is applied to a program, which then works."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tensorclass.errors import BuildError
from tensorclass.nn import PipelineWarning
from tensorclass.nn.parts._diagnostics import CODES

HEAD = """
import copy
from functools import partial
import numpy as np
import torch
from torch import Tensor, nn
from tensorclass import Shared, produced, tensorclass
from tensorclass.nn import TensorClassModule, TensorClassSequential, stage
from tensorclass.typing import Bool, Float, Float32, Float64, Int64

def step(call, ins, out, **options):
    return TensorClassModule(call, ins, out, **options)

def one(call, ins, out=None):
    return TensorClassSequential(TensorClassModule(call, ins, Scores.logits if out is None else out))

@tensorclass
class Digits:
    image: Float32[Tensor, "8"]
    label: Int64[Tensor, ""]
    weight: Float32[Tensor, ""] | None = None

@tensorclass
class Hidden:
    h: Float32[Tensor, "16"]

@tensorclass
class Scores:
    logits: Float32[Tensor, "10"]

@tensorclass
class Decision:
    logits: Float32[Tensor, "10"]
    digit: Int64[Tensor, ""]

@tensorclass
class Loss:
    loss: Float32[Tensor, ""]

encoder = step(nn.Linear(8, 16), Digits.image, Hidden.h, name="encoder")
head = step(nn.Linear(16, 10), Hidden.h, Scores.logits, name="head")
decide = step(lambda z: z.argmax(-1), Scores.logits, Decision.digit, name="decide")
"""
"""What all programs share."""

Edit = tuple[tuple[str, str], ...]
Program = tuple[str, str, dict[str, Edit]]

EVEN = """
def padded(x):
    h, w = x.shape[-2:]
    return network(nn.functional.pad(x, (0, w % 2, 0, h % 2)))[..., :h, :w]
model ="""
PROGRAMS: dict[str, Program] = {
    # ---- E101
    "misordered": (
        "E101",
        "model = TensorClassSequential(head, encoder, input=Digits, output=Scores)",
        {"move it before module 0 `head`": (("head, encoder", "encoder, head"),)},
    ),
    "a misspelled field": (
        "E101",
        """
@tensorclass
class Old:
    imag: Float32[Tensor, "8"]
model = TensorClassSequential(
    step(nn.Linear(8, 10), Old.imag, Scores.logits), input=Digits, output=Scores
)""",
        {"did you mean `Digits.image`": (("Old.imag,", "Digits.image,"),)},
    ),
    "a module is missing": (
        "E101",
        "model = TensorClassSequential(head, input=Digits, output=Scores)",
        {
            "add a module that writes `Hidden.h`": (("(head", "(encoder, head"),),
            "or declare `h` in Digits": (
                ("model =", "@tensorclass\nclass Wide:\n    h: Float32[Tensor, '16']\nmodel ="),
                ("input=Digits", "input=Wide"),
            ),
        },
    ),
    "a produced field": (
        "E101",
        """
@tensorclass
class State(Digits):
    h: Float32[Tensor, "16"] = produced()
read = step(nn.Linear(16, 10), State.h, Scores.logits)
model = TensorClassSequential(read, input=State, output=Scores)""",
        {"add a module before that writes it": (("(read", "(encoder, read"),)},
    ),
    "a stage that is not listed": (
        "E101",
        """
h = stage(nn.Linear(8, 16), Digits.image)
model = TensorClassSequential[Digits, Scores](
    head=stage(nn.Linear(16, 10), h, out=Scores.logits)
)""",
        {"list it before its readers": (("(\n    head=", "(\n    h=h, head="),)},
    ),
    # ---- E102
    "another dtype": (
        "E102",
        """
@tensorclass
class Double:
    h: Float64[Tensor, "16"]
model = TensorClassSequential(
    step(nn.Linear(8, 16), Digits.image, Hidden.h),
    step(nn.Linear(16, 10).double(), Double.h, Scores.logits), input=Digits, output=Scores,
)""",
        {"or declare both fields with one dtype": (("h: Float64", "h: Float32"), (".double()", ""))},
    ),
    "another type": (
        "E102",
        """
@tensorclass
class Named(Digits):
    kind: str = "a"
@tensorclass
class Numbered:
    kind: int = 1
model = TensorClassSequential(
    encoder, step(lambda h, kind: h[..., :10], (Hidden.h, Numbered.kind), Scores.logits), input=Named, output=Scores
)""",
        {"declare both fields with one type": (("kind: int = 1", 'kind: str = "b"'),)},
    ),
    # ---- E103
    "another width": (
        "E103",
        """
@tensorclass
class Narrow:
    h: Float32[Tensor, "8"]
model = TensorClassSequential(
    encoder, step(nn.Linear(8, 10), Narrow.h, Scores.logits), input=Digits, output=Scores
)""",
        {
            "declare both fields with one shape": (
                ('"8"]\nmodel', '"16"]\nmodel'),
                ("nn.Linear(8, 10)", "nn.Linear(16, 10)"),
            ),
            "or put a module between them that maps one to the other": (
                ('h: Float32[Tensor, "8"]', 'slim: Float32[Tensor, "8"]'),
                (
                    "encoder, step(nn.Linear(8, 10), Narrow.h",
                    "encoder, step(nn.Linear(16, 8), Hidden.h, Narrow.slim), step(nn.Linear(8, 10), Narrow.slim",
                ),
            ),
        },
    ),
    "permuted dims": (
        "E103",
        """
@tensorclass
class Plane:
    x: Float32[Tensor, "4 6"]
@tensorclass
class Turned:
    x: Float32[Tensor, "6 4"]
model = TensorClassSequential(step(lambda x: x.mean((-1, -2)), Turned.x, Loss.loss), input=Plane, output=Loss)""",
        {"declare both fields in one order": (('"6 4"', '"4 6"'),)},
    ),
    # ---- E104
    "an optional field": (
        "E104",
        """
def weighted(image, weight: Tensor):
    return image.mean(-1) * weight
model = TensorClassSequential(
    step(weighted, (Digits.image, Digits.weight), Loss.loss), input=Digits, output=Loss
)""",
        {
            "give the parameter the default None": (
                ("weight: Tensor)", "weight=None)"),
                ("* weight", "* (1.0 if weight is None else weight)"),
            ),
            "or annotate it `Tensor | None`": (
                ("weight: Tensor)", "weight: Tensor | None)"),
                ("* weight", "* (1.0 if weight is None else weight)"),
            ),
            "make the field required": (
                ("def weighted", "@tensorclass\nclass Weighed(Loss):\n    image: Float32[Tensor, '8']\ndef weighted"),
                ("input=Digits", "input=Weighed"),
                ("Digits.image, Digits.weight", "Weighed.image, Weighed.loss"),
                ("Loss.loss)", "Mean.score)"),
                ("output=Loss", "output=Mean"),
                ("model =", "@tensorclass\nclass Mean:\n    score: Float32[Tensor, '']\nmodel ="),
            ),
            "or let `partial=True` skip the module": (
                ("output=Loss", "output=Perhaps, partial=True"),
                ("model =", "@tensorclass\nclass Perhaps:\n    loss: Float32[Tensor, ''] | None = None\nmodel ="),
            ),
        },
    ),
    "an optional field that None breaks": (
        "E104",
        """
def weighted(image, weight: Tensor | None):
    return image.mean(-1) * weight
model = TensorClassSequential(
    step(weighted, (Digits.image, Digits.weight), Loss.loss), input=Digits, output=Loss
)""",
        {"handle None": (("* weight", "* (1.0 if weight is None else weight)"),)},
    ),
    "an optional field for a required output": (
        "E104",
        """
@tensorclass
class Weight:
    weight: Float32[Tensor, ""]
    loss: Float32[Tensor, ""]
model = TensorClassSequential(step(lambda x: x.mean(-1), Digits.image, Weight.loss), input=Digits, output=Weight)""",
        {
            "make the field of the output optional too": (
                (
                    'weight: Float32[Tensor, ""]\n    loss: Float32[Tensor, ""]',
                    'loss: Float32[Tensor, ""]\n    weight: Float32[Tensor, ""] | None = None',
                ),
            )
        },
    ),
    # ---- E105, E106, E107
    "an overwritten input": (
        "E105",
        """
@tensorclass
class Activated:
    active: Float32[Tensor, "8"]
model = TensorClassSequential(step(nn.ReLU(), Digits.image, Digits.image), input=Digits)""",
        {
            "write to a field with another name": (
                (
                    "Digits.image, Digits.image), input=Digits",
                    "Digits.image, Activated.active), input=Digits, output=Activated",
                ),
            ),
            "or pass `update=True` to overwrite it": (("Digits.image)", "Digits.image, update=True)"),),
        },
    ),
    "two writers": (
        "E106",
        """
@tensorclass
class Two(Scores):
    again: Float32[Tensor, "10"]
second = step(lambda z: (z.relu(), z.amax(-1)), Scores.logits, (Scores.logits, Loss.loss))
@tensorclass
class Both(Scores):
    loss: Float32[Tensor, ""]
model = TensorClassSequential(encoder, head, second, input=Digits, output=Both)""",
        {
            "drop one output with None": (("(Scores.logits, Loss.loss)", "(None, Loss.loss)"),),
            "write to a field with another name": (
                ("(Scores.logits, Loss.loss)", "(Two.again, Loss.loss)"),
                ("class Both(Scores)", "class Both(Two)"),
            ),
            "or pass `update=True`": (("(Scores.logits, Loss.loss))", "(Scores.logits, Loss.loss), update=True)"),),
        },
    ),
    "an unwritten output": (
        "E107",
        "model = TensorClassSequential(encoder, head, input=Digits, output=Decision)",
        {
            "add a module with `out_fields=Decision.digit`": (("head,", "head, decide,"),),
            "make the field optional": (
                ("model =", "@tensorclass\nclass Maybe(Scores):\n    digit: Int64[Tensor, ''] | None = None\nmodel ="),
                ("output=Decision", "output=Maybe"),
            ),
            "or give another `output`": (("output=Decision", "output=Scores"),),
        },
    ),
    "an unwritten output and a stage without `out`": (
        "E107",
        "model = TensorClassSequential[Digits, Scores]("
        "stage(nn.Linear(8, 16), Digits.image), stage(nn.Linear(16, 10)))",
        {"`out=Scores.logits`": (("stage(nn.Linear(16, 10))", "stage(nn.Linear(16, 10), out=Scores.logits)"),)},
    ),
    "an unwritten output with a near name": (
        "E107",
        """
@tensorclass
class Close:
    logit: Float32[Tensor, "10"]
model = TensorClassSequential(encoder, step(nn.Linear(16, 10), Hidden.h, Close.logit), input=Digits, output=Scores)""",
        {"did you mean `out_fields=Scores.logits`": (("Hidden.h, Close.logit", "Hidden.h, Scores.logits"),)},
    ),
    # ---- E108
    "a wrong width": (
        "E108",
        """
model = TensorClassSequential(encoder, step(nn.Linear(64, 10), Hidden.h, Scores.logits, name='head'),
    input=Digits, output=Scores)""",
        {
            "`head` accepts 64 for event dim 0 of `h`, it is given 16": (
                (
                    "model =",
                    "@tensorclass\nclass Hidden:\n    h: Float32[Tensor, '64']\n"
                    "encoder = step(nn.Linear(8, 64), Digits.image, Hidden.h)\nmodel =",
                ),
            )
        },
    ),
    "swapped in fields": (
        "E108",
        """
@tensorclass
class Pair:
    a: Float32[Tensor, "6"]
    b: Float32[Tensor, "8"]
model = TensorClassSequential(
    step(nn.Bilinear(6, 8, 10), (Pair.b, Pair.a), Scores.logits),
    input=Pair, output=Scores)""",
        {"in another order: in_fields=(Pair.a, Pair.b)": (("(Pair.b, Pair.a)", "(Pair.a, Pair.b)"),)},
    ),
    "floats as indices": (
        "E108",
        """
@tensorclass
class Word:
    word: Float32[Tensor, ""]
model = TensorClassSequential(step(nn.Embedding(9, 10), Word.word, Scores.logits), input=Word, output=Scores)""",
        {"accepts int64 for `word`": (("word: Float32", "word: Int64"),)},
    ),
    "no channel dim": (
        "E108",
        """
@tensorclass
class Grey:
    grey: Float32[Tensor, "6 6"]
@tensorclass
class Maps:
    maps: Float32[Tensor, "4 6 6"]
model = TensorClassSequential(step(nn.Conv2d(1, 4, 1), Grey.grey, Maps.maps), input=Grey, output=Maps)""",
        {
            "`unsqueeze(-3)`": (
                (
                    "step(nn.Conv2d(1, 4, 1)",
                    "conv = nn.Conv2d(1, 4, 1)\nmodel = TensorClassSequential(step(lambda x: conv(x.unsqueeze(-3))",
                ),
                ("model = TensorClassSequential(conv", "conv"),
            )
        },
    ),
    "a parameter that is not given": (
        "E108",
        """
@tensorclass
class Tokens:
    ids: Int64[Tensor, "t"]
@tensorclass
class Average:
    average: Float32[Tensor, ""]
def model_of(text=None, ids=None):
    if ids is None:
        raise ValueError("you must specify ids")
    return ids.float().mean(-1)
model = TensorClassSequential(step(model_of, Tokens.ids, Average.average), input=Tokens, output=Average)""",
        {
            "`in_fields={parameter: field}`: `ids`": (
                ("step(model_of, Tokens.ids", "step(model_of, {'ids': Tokens.ids}"),
            )
        },
    ),
    "channels of a picture last": (
        "E108",
        """
@tensorclass
class Given:
    x: Float32[Tensor, "6 5 3"]
conv = nn.Sequential(nn.Conv2d(3, 10, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(1))
model = one(conv, Given.x)""",
        {"`movedim(-1, -3)`": (("one(conv,", "one(lambda x: conv(x.movedim(-1, -3)),"),)},
    ),
    "time first": (
        "E108",
        """
@tensorclass
class Given:
    x: Float32[Tensor, "7 3"]
conv = nn.Sequential(nn.Conv1d(3, 10, 1), nn.AdaptiveAvgPool1d(1), nn.Flatten(1))
model = one(conv, Given.x)""",
        {"with its last two dims swapped": (("one(conv,", "one(lambda x: conv(x.mT),"),)},
    ),
    "not flattened": (
        "E108",
        """
@tensorclass
class Given:
    x: Float32[Tensor, "4 6"]
layer = nn.Linear(24, 10)
model = one(layer, Given.x)""",
        {"`flatten(-2)`": (("one(layer,", "one(lambda x: layer(x.flatten(-2)),"),)},
    ),
    "flattened in part": (
        "E108",
        """
@tensorclass
class Given:
    x: Float32[Tensor, "2 3 4"]
layer = nn.Linear(24, 10)
model = one(layer, Given.x)""",
        {"`flatten(-3)`": (("one(layer,", "one(lambda x: layer(x.flatten(-3)),"),)},
    ),
    "a dim of one": (
        "E108",
        """
@tensorclass
class Given:
    x: Float32[Tensor, "10"]
    k: Int64[Tensor, "1"]
loss = nn.CrossEntropyLoss(reduction="none")
model = one(loss, (Given.x, Given.k), Loss.loss)""",
        {"without event dim 0, `squeeze(-1)`": (("one(loss,", "one(lambda x, k: loss(x, k.squeeze(-1)),"),)},
    ),
    "dims in another order": (
        "E108",
        """
@tensorclass
class Given:
    x: Float32[Tensor, "5 4 6 3"]
conv = nn.Sequential(nn.Conv3d(3, 10, 1), nn.AdaptiveAvgPool3d(1), nn.Flatten(1))
def net(x):
    assert x.shape[2:] == (5, 4, 6)
    return conv(x)
model = one(net, Given.x)""",
        {"`permute(0, 4, 1, 2, 3)`": (("one(net,", "one(lambda x: net(x.permute(0, 4, 1, 2, 3)),"),)},
    ),
    "a mask without its dim": (
        "E108",
        """
@tensorclass
class Given:
    x: Float32[Tensor, "5 10"]
    keep: Float32[Tensor, "5"]
model = one(lambda x, keep: (x * keep).sum(-2), (Given.x, Given.keep))""",
        {"`unsqueeze(-1)`": (("x * keep)", "x * keep.unsqueeze(-1))"),)},
    ),
    "a module of another dtype": (
        "E108",
        """
layer = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10)).double()
model = one(layer, Digits.image)""",
        {"`.to(torch.float32)`": ((".double()", ".double().to(torch.float32)"),)},
    ),
    "a norm of another width": (
        "E108",
        """
layer = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(8), nn.Linear(16, 10))
model = one(layer, Digits.image)""",
        {"if `1`, LayerNorm, has normalized_shape=16 in place of 8": (("LayerNorm(8)", "LayerNorm(16)"),)},
    ),
    "a layer of another width inside": (
        "E108",
        """
layer = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Sequential(nn.Linear(32, 10)))
model = one(layer, Digits.image)""",
        {"if `2.0`, Linear, has in_features=16 in place of 32": (("nn.Linear(32, 10)", "nn.Linear(16, 10)"),)},
    ),
    "other channels inside": (
        "E108",
        """
@tensorclass
class Given:
    x: Float32[Tensor, "3 6 5"]
conv = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(8, 10, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(1))
model = one(conv, Given.x)""",
        {"if `1`, Conv2d, has in_channels=4 in place of 8": (("nn.Conv2d(8, 10", "nn.Conv2d(4, 10"),)},
    ),
    "a norm of other channels": (
        "E108",
        """
@tensorclass
class Given:
    x: Float32[Tensor, "3 6 5"]
conv = nn.Sequential(nn.Conv2d(3, 10, 1), nn.BatchNorm2d(3), nn.AdaptiveAvgPool2d(1), nn.Flatten(1)).eval()
model = one(conv, Given.x)""",
        {"if `1`, BatchNorm2d, has num_features=10 in place of 3": (("BatchNorm2d(3)", "BatchNorm2d(10)"),)},
    ),
    "another field": (
        "E108",
        """
@tensorclass
class Given:
    x: Float32[Tensor, "t 8"]
    ids: Int64[Tensor, "t"]
@tensorclass
class Looked:
    s: Float32[Tensor, "t 16"]
model = one(nn.Embedding(9, 16), Given.x, Looked.s)""",
        {"accepts Given.ids in place of Given.x": (("16), Given.x", "16), Given.ids"),)},
    ),
    "a size of the batch": (
        "E108",
        """
model = one(lambda x: x.view(2, 2, 4).mean((1, 2)), Digits.image, Loss.loss)""",
        {"as in `x.view(len(x), -1)`": (("x.view(2, 2", "x.view(len(x), 2"),)},
    ),
    "everything flattened": (
        "E108",
        """
@tensorclass
class Given:
    x: Float32[Tensor, "4 6"]
layer = nn.Linear(24, 10)
model = one(lambda x: layer(x.flatten()), Given.x)""",
        {"`flatten(1)` keeps it": (("flatten()", "flatten(1)"),)},
    ),
    "swapped targets": (
        "E108",
        """
loss = nn.CrossEntropyLoss(reduction="none")
model = TensorClassSequential(
    encoder, head, step(loss, (Digits.label, Scores.logits), Loss.loss), input=Digits, output=Loss)""",
        {"in_fields=(Scores.logits, Digits.label)": (("Digits.label, Scores.logits", "Scores.logits, Digits.label"),)},
    ),
    "whole numbers in a layer": (
        "E108",
        """
@tensorclass
class Given:
    x: Int64[Tensor, "8"]
model = one(nn.Linear(8, 10), Given.x)""",
        {"accepts float32 for `x`": (("x: Int64", "x: Float32"),)},
    ),
    "narrower weights": (
        "E108",
        """
@tensorclass
class Given:
    x: Float64[Tensor, "8"]
model = one(nn.Linear(8, 10), Given.x)""",
        {"accepts float32 for `x`": (("x: Float64", "x: Float32"),)},
    ),
    "the channels of a picture": (
        "E108",
        """
@tensorclass
class Given:
    x: Float32[Tensor, "3 6 5"]
conv = nn.Conv2d(1, 10, 1)
model = one(lambda x: conv(x).mean((-1, -2)), Given.x)""",
        {"accepts 1 for event dim 0 of `x`, it is given 3": (('"3 6 5"', '"1 6 5"'),)},
    ),
    "floats as a mask": (
        "E108",
        """
@tensorclass
class Given:
    x: Float32[Tensor, "10"]
    keep: Float32[Tensor, "10"]
model = one(lambda x, keep: x.masked_fill(keep, 0.0), (Given.x, Given.keep))""",
        {"accepts bool for `keep`": (("keep: Float32", "keep: Bool"),)},
    ),
    "a swapped matrix": (
        "E108",
        """
@tensorclass
class Given:
    x: Float32[Tensor, "8"]
    m: Float32[Tensor, "10 8"]
model = one(lambda x, m: (x[:, None] @ m)[:, 0], (Given.x, Given.m))""",
        {"`m` with its last two dims swapped": (("x[:, None] @ m)", "x[:, None] @ m.mT)"),)},
    ),
    "results in another order": (
        "E113",
        """
@tensorclass
class Given:
    x: Float32[Tensor, "5 8"]
@tensorclass
class States:
    states: Float32[Tensor, "5 16"]
    final: Float32[Tensor, "16"]
gru = nn.GRU(8, 16, batch_first=True)
model = one(lambda x: (gru(x)[0], gru(x)[0][:, -1]), Given.x, (States.final, States.states))""",
        {
            "out_fields=(States.states, States.final)": (
                ("(States.final, States.states)", "(States.states, States.final)"),
            )
        },
    ),
    # ---- E109, E110
    "in place": (
        "E109",
        """
@tensorclass
class Active:
    active: Float32[Tensor, "8"]
relu = nn.ReLU(inplace=True)
model = TensorClassSequential(
    step(lambda x: relu(x.mul_(2)), Digits.image, Active.active),
    input=Digits, output=Active)""",
        {
            "work on a copy (`x.clone()`)": (("relu(x.mul_(2))", "relu(x.clone().mul_(2))"),),
            "`inplace=False`, no last `_`": (("mul_", "mul"), ("inplace=True", "inplace=False")),
        },
    ),
    "too many in fields": (
        "E110",
        """
model = TensorClassSequential(
    step(lambda x: x.mean(-1), (Digits.image, Digits.label), Loss.loss),
    input=Digits, output=Loss)""",
        {
            "name one in field for each parameter": (("(Digits.image, Digits.label)", "Digits.image"),),
        },
    ),
    "too few in fields": (
        "E110",
        """
def scaled(x, scale): return x.mean(-1) * scale
model = TensorClassSequential(
    step(scaled, Digits.image, Loss.loss),
    input=Digits, output=Loss)""",
        {
            "bind other arguments with a lambda": (("step(scaled", "step(lambda x: scaled(x, 2.0)"),),
            "or functools.partial": (("step(scaled", "step(partial(scaled, scale=2.0)"),),
        },
    ),
    "too many results": (
        "E110",
        """
model = TensorClassSequential(
    step(lambda x: (x.mean(-1), x), Digits.image, Loss.loss),
    input=Digits, output=Loss)""",
        {"out_fields=(Loss.loss, None)": (("Digits.image, Loss.loss", "Digits.image, (Loss.loss, None)"),)},
    ),
    # ---- E111 to E114
    "another dtype than declared": (
        "E111",
        """
model = TensorClassSequential(
    step(lambda x: x.argmax(-1), Digits.image, Loss.loss),
    input=Digits, output=Loss)""",
        {
            "convert with `.to(torch.float32)` in the module": (("argmax(-1)", "argmax(-1).to(torch.float32)"),),
            "or declare Int64": (("model =", "@tensorclass\nclass Loss:\n    loss: Int64[Tensor, '']\nmodel ="),),
        },
    ),
    "another type than declared": (
        "E111",
        "model = TensorClassSequential(step(lambda x: 'high', Digits.image, Loss.loss), input=Digits, output=Loss)",
        {"return a value of the declared type": (("'high'", "x.mean(-1)"),)},
    ),
    "one value for the batch": (
        "E112",
        "model = TensorClassSequential(step(lambda x: x.mean(), Digits.image, Loss.loss), input=Digits, output=Loss)",
        {
            'declare `Shared[Float32[Tensor, ""]]`': (
                ("model =", '@tensorclass\nclass Loss:\n    loss: Shared[Float32[Tensor, ""]]\nmodel ='),
            )
        },
    ),
    "a loss with reduction": (
        "E112",
        """
@tensorclass
class Each:
    each: Float32[Tensor, "8"]
def mse(x):
    return nn.functional.mse_loss(x, x * 0)
model = TensorClassSequential(step(mse, Digits.image, Each.each), input=Digits, output=Each)""",
        {"one per element: `reduction='none'`": (("x * 0)", "x * 0, reduction='none')"),)},
    ),
    "a mean over the batch": (
        "E112",
        "model = TensorClassSequential(step(lambda x: x.mean(0), Digits.image, Loss.loss), input=Digits, output=Loss)",
        {"`mean(0)` for `mean(1)`": (("mean(0)", "mean(1)"),)},
    ),
    "the batch is second": (
        "E112",
        """
@tensorclass
class Steps:
    x: Float32[Tensor, "t 8"]
@tensorclass
class Moved:
    moved: Float32[Tensor, "t 8"]
model = TensorClassSequential(step(lambda x: x.movedim(0, 1), Steps.x, Moved.moved), input=Steps, output=Moved)""",
        {"`movedim(1, 0)`": (("x.movedim(0, 1)", "x.movedim(0, 1).movedim(1, 0)"),)},
    ),
    "a flattened batch": (
        "E112",
        """
@tensorclass
class Plane:
    x: Float32[Tensor, "4 6"]
@tensorclass
class Flat:
    flat: Float32[Tensor, "24"]
model = TensorClassSequential(step(lambda x: x.flatten(), Plane.x, Flat.flat), input=Plane, output=Flat)""",
        {
            "`flatten(1)` keeps it": (("flatten()", "flatten(1)"),),
            "so does `flatten(-2)`": (("flatten()", "flatten(-2)"),),
        },
    ),
    "no in field": (
        "E112",
        """
@tensorclass
class Zeros:
    zeros: Float32[Tensor, "3"]
model = TensorClassSequential(TensorClassModule(lambda: torch.zeros(3), [], [Zeros.zeros]),
    input=Digits, output=Zeros)""",
        {
            "let it read one": (("lambda: torch.zeros(3), []", "lambda x: torch.zeros(len(x), 3), [Digits.image]"),),
            "or declare a `Shared` field": (('zeros: Float32[Tensor, "3"]', 'zeros: Shared[Float32[Tensor, "3"]]'),),
        },
    ),
    "a dim too many": (
        "E113",
        """
model = TensorClassSequential(
    step(lambda x: x.mean(-1, keepdim=True), Digits.image, Loss.loss),
    input=Digits, output=Loss)""",
        {
            "declare the shape of one element, without batch dims": (
                ("model =", "@tensorclass\nclass Loss:\n    loss: Float32[Tensor, '1']\nmodel ="),
            )
        },
    ),
    "a constant size": (
        "E114",
        """
model = TensorClassSequential(
    step(nn.Linear(8, 12), Digits.image, Scores.logits),
    input=Digits, output=Scores)""",
        {
            "declare 12": (("model =", "@tensorclass\nclass Scores:\n    logits: Float32[Tensor, '12']\nmodel ="),),
            "or change the module": (("nn.Linear(8, 12)", "nn.Linear(8, 10)"),),
        },
    ),
    "an expression": (
        "E114",
        """
@tensorclass
class Sound:
    sound: Float32[Tensor, "2 t"]
@tensorclass
class Frames:
    frames: Float32[Tensor, "4 t"]
model = TensorClassSequential(step(nn.Conv1d(2, 4, 2), Sound.sound, Frames.frames), input=Sound, output=Frames)""",
        {"declare it as `t-1`": (('"4 t"', '"4 t-1"'),)},
    ),
    # ---- E115 to E118
    "a broadcast": (
        "E115",
        """
@tensorclass
class Spread:
    spread: Float32[Tensor, "n"]
model = TensorClassSequential(
    step(lambda x: x[..., 0] - x[..., :1], Digits.image, Spread.spread),
    input=Digits, output=Spread)""",
        {"give both the same dims": (("x[..., 0] - x", "x[..., 1:2] - x"),)},
    ),
    "a squeezed batch": (
        "E116",
        """
model = TensorClassSequential(
    step(lambda x: x[..., :1].squeeze(), Digits.image, Loss.loss),
    input=Digits, output=Loss)""",
        {"name the dim, `squeeze(-1)`": (("squeeze()", "squeeze(-1)"),)},
    ),
    "mixed elements": (
        "E117",
        """
model = TensorClassSequential(
    step(lambda x: x.softmax(0).amax(-1), Digits.image, Loss.loss), input=Digits, output=Loss, probe=False
)
model.check(values=True)""",
        {"as in `softmax(-1)`": (("softmax(0)", "softmax(-1)"),)},
    ),
    "a field of two values": (
        "E118",
        """
@tensorclass
class Copy:
    h: Float32[Tensor, "16"]
@tensorclass
class Third:
    h: Float32[Tensor, "16"]
model = TensorClassSequential(
    encoder, step(nn.ReLU(), Hidden.h, Copy.h), step(nn.Linear(16, 10), Third.h, Scores.logits),
    input=Digits, output=Scores,
)""",
        {
            "name the one that is meant: Hidden.h": (
                ("10), Third.h", "10), Hidden.h"),
                ("step(nn.ReLU(), Hidden.h, Copy.h), ", ""),
            ),
            " or Copy.h": (("10), Third.h", "10), Copy.h"),),
        },
    ),
    "an output of two values": (
        "E118",
        """
@tensorclass
class Copy:
    h: Float32[Tensor, "16"]
@tensorclass
class Third:
    h: Float32[Tensor, "16"]
model = TensorClassSequential(encoder, step(nn.ReLU(), Hidden.h, Copy.h), input=Digits, output=Third)""",
        {
            "write `Third.h` itself": (("Hidden.h, Copy.h", "Hidden.h, Third.h"),),
            "or name one of their classes as `output=`": (("output=Third", "output=Copy"),),
        },
    ),
    # ---- warnings
    "an unused field": (
        "W201",
        """
both = step(lambda x: (x[..., :5].repeat_interleave(2, -1), x.mean(-1)),
    Digits.image, (Scores.logits, Loss.loss))
model = TensorClassSequential(both,
    input=Digits, output=Scores)""",
        {"write None instead to drop the output": (("(Scores.logits, Loss.loss)", "(Scores.logits, None)"),)},
    ),
    "an unused module": (
        "W201",
        """
spare = step(lambda x: x.mean(-1), Digits.image, Loss.loss)
model = TensorClassSequential(encoder, spare, head,
    input=Digits, output=Scores)""",
        {"or leave the module out": (("spare, head", "head"),)},
    ),
    "promotion": (
        "W202",
        """
factor = torch.tensor([0.5], dtype=torch.float64)
@tensorclass
class Scaled:
    scaled: Float[Tensor, "8"]
model = TensorClassSequential(step(lambda x: x * factor, Digits.image, Scaled.scaled), input=Digits, output=Scaled)""",
        {
            "convert it": (("* factor", "* factor.float()"),),
            "or declare Float64": (("scaled: Float[", "scaled: Float64["),),
        },
    ),
    "one module twice": (
        "W203",
        """
layer = nn.Linear(16, 16)
@tensorclass
class Deep:
    deep: Float32[Tensor, "16"]
    deeper: Float32[Tensor, "16"]
model = TensorClassSequential(
    encoder, step(layer, Hidden.h, Deep.deep), step(layer, Deep.deep, Deep.deeper), input=Digits, output=Deep
)""",
        {"pass `copy.deepcopy(...)`": (("step(layer, Deep", "step(copy.deepcopy(layer), Deep"),)},
    ),
    "one size": (
        "E122",
        """
@tensorclass
class Open:
    x: Float32[Tensor, "features"]
model = TensorClassSequential(step(nn.Linear(8, 10), Open.x, Scores.logits), input=Open, output=Scores)""",
        {"declare the size in the input class": (('"features"', '"8"'),)},
    ),
    "an unnamed dim of one size": (
        "W205",
        """
@tensorclass
class Unnamed:
    x: Float32[Tensor, "_"]
model = TensorClassSequential(step(nn.Linear(8, 10), Unnamed.x, Scores.logits), input=Unnamed, output=Scores)""",
        {"declare the size in the input class": (('"_"', '"8"'),)},
    ),
    "channels last": (
        "E122",
        """
@tensorclass
class Track:
    x: Float32[Tensor, "t 4"]
@tensorclass
class Normed:
    y: Float32[Tensor, "t 4"]
class Norm(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x)
model = TensorClassSequential(step(Norm(4), Track.x, Normed.y), input=Track, output=Normed)""",
        {"move them: `x.movedim(-1, -2)`": (("forward(x)", "forward(x.movedim(-1, -2)).movedim(-1, -2)"),)},
    ),
    "sizes that are rounded": (
        "W210",
        """
@tensorclass
class Photo:
    x: Float32[Tensor, "1 h w"]
@tensorclass
class Smooth:
    y: Float32[Tensor, "1 h w"]
network = nn.Sequential(nn.MaxPool2d(2), nn.Upsample(scale_factor=2))
model = TensorClassSequential(step(network, Photo.x, Smooth.y), input=Photo, output=Smooth)""",
        {
            "declare `2*h` and `2*w` in both classes": (('"1 h w"', '"1 2*h 2*w"'),),
            "or pad in the module": (
                ("step(network,", "step(padded,"),
                ("model =", EVEN),
            ),
        },
    ),
    "two dims of one size": (
        "E122",
        """
@tensorclass
class Two:
    x: Float32[Tensor, "a"]
    y: Float32[Tensor, "b"]
model = TensorClassSequential(step(lambda x, y: (x * y).sum(-1), (Two.x, Two.y), Loss.loss), input=Two, output=Loss)""",
        {"declare both with one name in the input class": (('"b"', '"a"'),)},
    ),
    "a loss over every pair": (
        "W214",
        """
@tensorclass
class Scored:
    x: Float32[Tensor, "8"]
    score: Float32[Tensor, ""]
guess = stage(nn.Linear(8, 1), Scored.x)
model = TensorClassSequential(guess=guess, loss=stage(lambda z, y: (z - y).square().mean(), guess, Scored.score))""",
        {"`squeeze(-1)`": (("(z - y)", "(z.squeeze(-1) - y)"),)},
    ),
    "a dim of the input that is halved": (
        "W215",
        """
@tensorclass
class Wave:
    x: Float32[Tensor, "1 8*t"]
@tensorclass
class Coarse:
    y: Float32[Tensor, "1 8*t"]
down = stage(nn.AvgPool1d(4), Wave.x)
model = TensorClassSequential(down=down, up=stage(nn.Upsample(scale_factor=2), down, out=Coarse.y))""",
        {
            "declare the size that it has": (
                ('Coarse:\n    y: Float32[Tensor, "1 8*t"]', 'Coarse:\n    y: Float32[Tensor, "1 4*t"]'),
            )
        },
    ),
    "a misspelled parameter": (
        "W208",
        """
def scaled(x, **options):
    return x.mean(-1)
def scaled(x, scale=1.0, **options):
    return x.mean(-1) * scale
model = TensorClassSequential(
    step(scaled, {"x": Digits.image, "scael": Digits.label}, Loss.loss),
    input=Digits, output=Loss)""",
        {"did you mean `scale`": (('"scael"', '"scale"'),)},
    ),
    "multiples": (
        "W210",
        """
@tensorclass
class Wide:
    x: Float32[Tensor, "n"]
@tensorclass
class Pairs:
    first: Float32[Tensor, "m"]
model = TensorClassSequential(
    step(lambda x: x.unflatten(-1, (-1, 2))[..., 0], Wide.x, Pairs.first),
    input=Wide, output=Pairs)""",
        {"declare `2*n` in the input class": (('"n"', '"2*n"'),)},
    ),
    "no influence": (
        "W211",
        """
model = TensorClassSequential(
    step(lambda x, y: x.mean(-1), (Digits.image, Digits.label), Loss.loss),
    input=Digits, output=Loss)""",
        {
            "use it in the module": (("x.mean(-1)", "x.mean(-1) + y"),),
            "or leave it out of the in fields": (
                ("lambda x, y", "lambda x"),
                ("(Digits.image, Digits.label)", "Digits.image"),
            ),
        },
    ),
}
"""For each wrong program its code, and the edit for each part of its hint."""
_FOLLOWED = [
    pytest.param(name, part, marks=pytest.mark.slow if code == "E108" else ())
    for name, (code, _, edits) in PROGRAMS.items()
    for part in edits
]
NO_HINT_TO_FOLLOW = {"W204", "W206", "W207", "W209"}
"""Warnings whose hints change no program: a fault of the package, a mode, a module that mixes on purpose."""


DISTRIBUTED = {"E119", "E120", "E121", "W212", "W213"}
"""Codes of the distributed check, whose hints tests/parallel/test_followed.py covers."""


def run(text: str) -> Any:
    """The pipeline of a program; warnings are errors."""
    space: dict[str, Any] = {"__name__": __name__}
    with warnings.catch_warnings():
        warnings.simplefilter("error", PipelineWarning)
        exec(compile(HEAD + text, "<program>", "exec", dont_inherit=True), space)
    return space["model"]


def found(text: str) -> list[Any]:
    """The findings of a wrong program."""
    try:
        return [d for d in run(text).diagnostics if d.severity != "note"]
    except BuildError as error:
        return list(error.diagnostics)
    except PipelineWarning as warning:
        return [warning]


@pytest.mark.parametrize(("name", "part"), _FOLLOWED)
def test_a_hint_that_is_followed_mends_the_program(name: str, part: str):
    """The hint has the words; with its edit the program builds without findings and runs."""
    code, text, edits = PROGRAMS[name]
    findings = found(text)
    assert any(code in str(one) and part in " ".join(str(one).split()) for one in findings), findings
    for old, new in edits[part]:
        assert old in text, old
        text = text.replace(old, new)
    model = run(text)
    assert not any(d.severity == "error" for d in model.diagnostics)
    model(model.input_class.example(3).apply(lambda x: x if x.is_floating_point() else x.clamp(0, 1).to(x.dtype)))


def test_every_code_has_a_program():
    """No code of an error or a warning is left out, but for those of the distributed check."""
    wanted = {code for code in CODES if code[0] != "N"} - NO_HINT_TO_FOLLOW - DISTRIBUTED
    assert wanted == {code for code, _, _ in PROGRAMS.values()}
