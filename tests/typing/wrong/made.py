# pyright: strict
# checkers: mypy+plugin
"""Classes made of classes: what their constructors, fields and pipelines refuse."""

import torch
from torch import Tensor

from tensorclass import TensorClass, merge, omit, partial, pick, produced
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]
    source: str = "scan"
    hidden: Float32[Tensor, "8"] = produced()


class Weights(TensorClass):
    weight: Float32[Tensor, ""]


class Cold(TensorClass, frozen=True):
    weight: Float32[Tensor, ""]
    label: Int64[Tensor, ""]


Small = pick(Digits, "image", "source")
Rest = omit(Digits, "image")
Both = merge(Digits, Weights)
Maybe = partial(Digits)
Still = pick(Cold, "weight")

image, label = torch.zeros(4, 64), torch.zeros(4, dtype=torch.int64)
small = Small(image)

# ---- constructors
Small(image, label)  # E: - | - | SchemaError | mypy+plugin: arg-type
Small(image=image, label=label)  # E: - | - | SchemaError | mypy+plugin: call-arg
Small()  # E: - | - | SchemaError | mypy+plugin: call-arg
Small(label)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Small(torch.zeros(4, 8))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Both(image, label)  # E: - | - | SchemaError | mypy+plugin: call-arg
Both(image, label, "scan", torch.ones(4))  # E: - | - | TypeError | mypy+plugin: call-arg
Maybe(label=image)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Rest(label=label, hidden=image)  # E: - | - | SchemaError | mypy+plugin: call-arg

# ---- fields
print(small.label)  # E: - | - | AttributeError | mypy+plugin: attr-defined
print(Small.label)  # E: - | - | AttributeError | mypy+plugin: attr-defined
print(small["label"])  # E: - | - | KeyError | mypy+plugin: tensorclass-key
small.replace(label=label)  # E: - | - | KeyError | mypy+plugin: call-arg
small.image = label  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Still(torch.zeros(4)).weight = torch.ones(4)  # E: - | - | FrozenError | mypy+plugin: misc
found: Small = Rest(label)  # E: - | - | - | mypy+plugin: assignment
size: int = Maybe(label=label).label  # E: - | - | - | mypy+plugin: assignment

# ---- pipelines
encode = TensorClassModule(torch.nn.Linear(64, 8), in_fields=Small.image, out_fields=Rest.hidden)
TensorClassSequential(encode, input=Rest)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(encode, input=Digits, output=Both)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
