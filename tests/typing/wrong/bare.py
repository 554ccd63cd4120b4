# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# checkers: mypy+plugin
"""The decorator by itself: everything that the base class shows."""

from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from tensorclass import produced, tensorclass
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Int64

T = TypeVar("T")


@tensorclass
class Digits:
    image: Float32[Tensor, "8 8"]
    label: Int64[Tensor, ""]
    weight: Float32[Tensor, ""] | None = None


@tensorclass(frozen=True)
class Still:
    value: Float32[Tensor, ""]


@tensorclass
class Scan(Digits):
    page: Int64[Tensor, ""] | None = None


@tensorclass
class Pair(Generic[T]):
    left: T
    right: T


@tensorclass
class State:
    image: Float32[Tensor, "8 8"]
    hidden: Float32[Tensor, "8 8"] = produced()


x, y = torch.zeros(4, 8, 8), torch.zeros(4, dtype=torch.int64)
batch = Digits(x, y, batch_size=[4])
still = Still(torch.zeros(4))

# ---- constructors
Digits(x)  # E: call-arg | - | SchemaError
Digits(x, y, imgae=x)  # E: call-arg | - | SchemaError
Digits("image", y)  # E: arg-type | - | SchemaError
Digits(x, y, batch_size="4")  # E: arg-type | - | BatchSizeError
Digits(x, torch.zeros(4))  # E: tensorclass-dtype | - | SchemaError
Digits(x, y[:3])  # E: tensorclass-batch-size | - | SchemaError
State(x, torch.zeros(4, 8))  # E: arg-type, call-arg | - | TypeError
Scan(x, y, page="one")  # E: arg-type | - | SchemaError

# ---- fields
print(batch.lable)  # E: attr-defined | - | UnknownFieldError
print(Digits.imgae)  # E: attr-defined | - | UnknownFieldError
print(batch[0].lable)  # E: attr-defined | - | UnknownFieldError
print(batch["lable"])  # E: tensorclass-key | - | MissingKeyError
batch.label = "three"  # E: assignment | - | SchemaError
batch.weight.sum()  # E: union-attr | - | AttributeError
still.value = torch.ones(4)  # E: misc | - | FrozenError
still.add_(1)  # E: tensorclass-frozen | - | FrozenError

# ---- operations
print(batch[1.5])  # E: call-overload | - | BatchIndexError
print(batch + "1")  # E: operator | - | TypeError
print(batch / 2)  # E: tensorclass-cast | - | SchemaError
batch.nothing()  # E: attr-defined | - | UnknownFieldError
other: Still = batch[0]  # E: assignment | - | -
torch.stack([batch, still])  # E: tensorclass-join | - | StructureError

# ---- generic classes
Pair[Digits](batch, still)  # E: arg-type | - | SchemaError
print(Pair[Digits](batch, batch).left.lable)  # E: attr-defined | - | UnknownFieldError

# ---- pipelines
TensorClassModule(nn.Linear(8, 8), in_fields=State.imgae, out_fields=State.hidden)  # E: attr-defined | - | UnknownFieldError
first = TensorClassModule(nn.Linear(8, 8), in_fields=State.image, out_fields=State.hidden)
TensorClassSequential(first, input=Still, output=State)  # E: tensorclass-flow | - | BuildError
TensorClassSequential(input=State)  # E: call-overload | - | BuildError | mypy+plugin: tensorclass-flow
