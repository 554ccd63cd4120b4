# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Instances of other classes: pick, merge and extend with the class that is meant."""

import torch
from torch import Tensor

from tensorclass import TensorClass, pick
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]


class Images(TensorClass):
    image: Float32[Tensor, "64"]


class Labels(TensorClass):
    label: Int64[Tensor, ""]


image, label = torch.zeros(4, 64), torch.zeros(4, dtype=torch.int64)
digits = Digits(image, label)

# ---- what a part does not have, and a part where the whole is wanted
print(digits.pick(Images).label)  # E: attr-defined | reportAttributeAccessIssue | AttributeError
whole: Digits = digits.pick(Images)  # E: assignment | reportAssignmentType | -
Images(image).merge(Labels(label), Digits).weight  # E: attr-defined | reportAttributeAccessIssue | AttributeError
joined: Images = Images(image).merge(Labels(label), Digits)  # E: assignment | reportAssignmentType | -
Images(image).extend(Digits, label=label).weight  # E: attr-defined | reportAttributeAccessIssue | AttributeError
Images(image).extend(label=label)  # E: call-arg | reportCallIssue | TypeError
Images(image).merge()  # E: call-overload | reportCallIssue | TypeError
Images(image).merge(Labels(label), Digits(image, label))  # E: call-overload | reportArgumentType | TypeError

# ---- names that are not fields
digits.pick("imgae")  # E: - | - | UnknownFieldError | mypy+plugin: tensorclass-key
print(digits.pick("image").label)  # E: - | - | AttributeError | mypy+plugin: attr-defined
print(Images(image).merge(Labels(label)).weight)  # E: - | - | AttributeError | mypy+plugin: attr-defined
pick(Digits, "lable")  # E: - | - | UnknownFieldError | mypy+plugin: tensorclass-key
pick(Digits, Digits.lable)  # E: attr-defined | reportAttributeAccessIssue | AttributeError
pick(Digits, "image")(label=label)  # E: - | - | SchemaError | mypy+plugin: call-arg
pick(Digits, "image")(image)["label"]  # E: - | - | KeyError | mypy+plugin: tensorclass-key
