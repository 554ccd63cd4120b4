# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Class-to-class modules."""

import torch
from torch import Tensor

from tensorclass import TensorClass
from tensorclass.nn import TensorClassModuleBase, TensorClassSequential
from tensorclass.typing import Float32


class Digits(TensorClass):
    image: Float32[Tensor, "64"]


class Page(Digits):
    page: Float32[Tensor, ""] | None = None


class Hidden(TensorClass):
    h: Float32[Tensor, "8"]


class Encoder(TensorClassModuleBase[Digits, Hidden]):
    def forward(self, x: Digits, /) -> Hidden:
        return Hidden(x.image[..., :8], batch_size=x.batch_size)


class OfPages(TensorClassModuleBase[Page, Hidden]):
    def forward(self, x: Page, /) -> Hidden:
        return Hidden(x.image[..., :8], batch_size=x.batch_size)


class Back(TensorClassModuleBase[Hidden, Digits]):
    def forward(self, x: Hidden, /) -> Digits:
        return Digits(x.h.repeat(1, 8), batch_size=x.batch_size)


digits, hidden = Digits(torch.zeros(2, 64)), Hidden(torch.zeros(2, 8))

# ---- a batch of another class
Encoder()(hidden)  # E: arg-type | reportArgumentType | SchemaError
Encoder()(digits.image)  # E: arg-type | reportArgumentType | SchemaError
OfPages()(digits)  # E: arg-type | reportArgumentType | SchemaError
Encoder()()  # E: call-arg | reportCallIssue | TypeError
result: Digits = Encoder()(digits)  # E: assignment | reportAssignmentType | -
print(Encoder()(digits).image)  # E: attr-defined | reportAttributeAccessIssue | UnknownFieldError

# ---- chains whose ends do not meet
print(Encoder() >> Encoder())  # E: operator | reportOperatorIssue | BuildError
print(Back() >> OfPages())  # E: operator | reportOperatorIssue | BuildError
(Encoder() >> Back())(hidden)  # E: arg-type | reportArgumentType | SchemaError
print(Encoder() >> torch.nn.ReLU())  # E: operator | reportOperatorIssue | BuildError


# ---- a forward that is not what the class says
class Swapped(TensorClassModuleBase[Digits, Hidden]):
    def forward(self, x: Hidden, /) -> Hidden:  # E: override | reportIncompatibleMethodOverride | -
        return x


class Returned(TensorClassModuleBase[Digits, Hidden]):
    def forward(self, x: Digits, /) -> Digits:  # E: override | reportIncompatibleMethodOverride | -
        return x


# ---- a function that takes a module of other classes
def run(model: TensorClassModuleBase[Digits, Page]) -> None:
    model(digits)


run(Encoder())  # E: arg-type | reportArgumentType | -
run(OfPages())  # E: arg-type | reportArgumentType | SchemaError
TensorClassSequential(Back, input=Digits, output=Digits)  # E: call-overload | reportArgumentType, reportCallIssue | BuildError
