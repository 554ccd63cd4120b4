# pyright: strict
"""Fields that a module fills in later, read where something has filled them in, or may have."""

import torch
from torch import Tensor

from tensorclass import TensorClass, produced
from tensorclass.errors import FieldNotProducedError
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32


class State(TensorClass):
    image: Float32[Tensor, "8"]
    hidden: Float32[Tensor, "4"] = produced()


class Filled(State):
    def __post_init__(self) -> None:
        self.hidden = self.image[..., :4]


encode = TensorClassSequential(
    TensorClassModule(torch.nn.Linear(8, 4), in_fields=State.image, out_fields=State.hidden), input=State
)
image, values = torch.zeros(3, 8), torch.zeros(3, 4)


def fill(given: State) -> None:
    given.hidden = values


# ---- written by the program, a function, a method, another name
state = State(image)
state.hidden = values
print(state.hidden)
passed = State(image)
fill(passed)
print(passed.hidden)
updated = State(image)
updated.update({"hidden": values})
print(updated.hidden)
other = alias = State(image)
alias.hidden = values
print(other.hidden)
both = State(image)
both.hidden, count = values, 3
print(both.hidden)
print(Filled(image).hidden)
given = State(image)
given = encode(given)
print(given.hidden)

# ---- written on some way, in a loop, in a function that is called meanwhile
maybe = State(image)
if len(maybe):
    maybe.hidden = values
print(maybe.hidden)
looped = State(image)
for number in range(2):
    if number:
        print(looped.hidden)
    looped.hidden = values
late = State(image)


def write() -> None:
    late.hidden = values


write()
print(late.hidden)
by_name = State(image)
setter = by_name.update
setter({"hidden": values})
print(by_name.hidden)

# ---- read on purpose
asked = State(image)
try:
    print(asked.hidden)
except FieldNotProducedError as error:
    print(error)
print(asked.get("hidden", None))
