# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Frozen classes refuse writes to fields."""

import torch
from torch import Tensor

from tensorclass import FrozenTensorClass, TensorClass
from tensorclass.typing import Float32


class Reading(FrozenTensorClass):
    value: Float32[Tensor, ""]
    unit: str = "m"


class Timed(Reading):
    time: Float32[Tensor, ""] | None = None


class Spot(TensorClass, frozen=True):
    value: Float32[Tensor, ""]


reading, timed, spot = Reading(torch.zeros(3)), Timed(torch.zeros(3)), Spot(torch.zeros(3))
reading.value = torch.ones(3)  # E: misc | reportAttributeAccessIssue | FrozenError
reading.unit = "cm"  # E: misc | reportAttributeAccessIssue | FrozenError
timed.value = torch.ones(3)  # E: misc | reportAttributeAccessIssue | FrozenError
timed.time = torch.ones(3)  # E: misc | reportAttributeAccessIssue | FrozenError
spot.value = torch.ones(3)  # E: misc | reportAttributeAccessIssue | FrozenError
reading[0].value = torch.ones(())  # E: misc | reportAttributeAccessIssue | FrozenError
reading.unti = "cm"  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError
del reading.unit  # E: - | reportAttributeAccessIssue | FrozenError | mypy+plugin: tensorclass-frozen
