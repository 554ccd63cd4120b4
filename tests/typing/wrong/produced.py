# pyright: strict
# checkers: mypy+plugin
"""Fields that a module fills in later, read of an instance that was just made."""

import torch
from torch import Tensor

from tensorclass import TensorClass, produced, tensorclass
from tensorclass.typing import Float32


class State(TensorClass):
    image: Float32[Tensor, "8"]
    hidden: Float32[Tensor, "4"] = produced()


@tensorclass
class Wider(State):
    logits: Float32[Tensor, "2"] = produced()


image = torch.zeros(3, 8)

# ---- right behind the constructor
state = State(image)
print(state.hidden)  # E: - | - | FieldNotProducedError | mypy+plugin: tensorclass-flow
print(State(image).hidden)  # E: - | - | FieldNotProducedError | mypy+plugin: tensorclass-flow
wide = Wider(image=image)
bright = wide.image + 1
wide.logits.mean()  # E: - | - | FieldNotProducedError | mypy+plugin: tensorclass-flow
hidden = [wide.hidden]  # E: - | - | FieldNotProducedError | mypy+plugin: tensorclass-flow

# ---- bound again, written too late, in blocks and functions
state.hidden = torch.zeros(3, 4)
state = State(image)
copied = state.hidden.clone()  # E: - | - | FieldNotProducedError | mypy+plugin: tensorclass-flow
state.hidden = torch.zeros(3, 4)
state = State(image)
if len(image):
    print(state.hidden)  # E: - | - | FieldNotProducedError | mypy+plugin: tensorclass-flow


def read(image: Tensor) -> State:
    """Only makes instances."""
    return State(image=image)


def run(image: Tensor) -> State:
    """May fill in what it returns."""
    found = State(image=image)
    found.hidden = torch.zeros(3, 4)
    return found


fresh = read(image)
print(fresh.image, fresh.hidden)  # E: - | - | FieldNotProducedError | mypy+plugin: tensorclass-flow
filled = run(image)
print(filled.hidden)


def early(count: int) -> Tensor:
    made = State(image)
    with torch.no_grad():
        return made.hidden  # E: - | - | - | mypy+plugin: tensorclass-flow
