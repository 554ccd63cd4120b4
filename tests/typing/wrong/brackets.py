# pyright: strict
# checkers: mypy+plugin
"""Options between brackets: what they refuse, and what is none."""

import torch
from torch import Tensor

from tensorclass import FrozenTensorClass, TensorClass, tensorclass
from tensorclass.typing import Float32, Int64


class Kept(TensorClass["nocast"]):
    label: Int64[Tensor, ""]


class Cold(TensorClass["frozen", "nocast"]):
    label: Int64[Tensor, ""]


@tensorclass
class Colder(FrozenTensorClass["nocast"]):
    label: Int64[Tensor, ""]


label, still = torch.zeros(4, dtype=torch.int64), Cold(torch.zeros(4, dtype=torch.int64))

# ---- writes to frozen classes, and values
still.label = label  # E: - | - | FrozenError | mypy+plugin: misc
still["label"] = label  # E: - | - | FrozenError | mypy+plugin: tensorclass-frozen
Colder(label).label = label  # E: - | - | FrozenError | mypy+plugin: misc
Kept(torch.zeros(4))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Kept(image=label)  # E: - | - | SchemaError | mypy+plugin: call-arg
print(Kept(label).image)  # E: - | - | AttributeError | mypy+plugin: attr-defined


# ---- no options
class Misspelt(TensorClass["nocst"]):  # E: - | - | TypeError | mypy+plugin: tensorclass-declaration
    label: Int64[Tensor, ""]


class Unquoted(TensorClass[int]):  # E: - | - | TypeError | mypy+plugin: tensorclass-declaration
    label: Int64[Tensor, ""]


# ---- a field that the option refuses
class Shadowing(TensorClass["nocast"]):
    mean: Float32[Tensor, ""]  # E: - | - | SchemaError | mypy+plugin: assignment
