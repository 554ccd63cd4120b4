# pyright: strict
"""Instances of other classes: pick, merge and extend with the class that is meant."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorClass, merge, omit, partial, pick, schema
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]
    source: str = "scan"


class Images(TensorClass):
    image: Float32[Tensor, "64"]


class Labels(TensorClass):
    label: Int64[Tensor, ""]


class Weighted(Digits):
    weight: Float32[Tensor, ""] | None = None


class Both(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]


image, label = torch.zeros(4, 64), torch.zeros(4, dtype=torch.int64)
digits = Digits(image, label)

# ---- a class that has some of the fields
assert_type(digits.pick(Images), Images)
assert_type(digits.pick(Labels).label, Tensor)
assert_type(digits.pick(Images)[0], Images)

# ---- a class that has the fields of both
assert_type(Images(image).merge(Labels(label), Both), Both)
both = digits.pick(Images).merge(digits.pick(Labels), Both)
assert_type(both.label, Tensor)

# ---- a class that has more
assert_type(Images(image).extend(Both, label=label), Both)
assert_type(digits.extend(Weighted), Weighted)
assert_type(digits.extend(Weighted, weight=torch.ones(4)).weight, Tensor | None)


# ---- a function over any of them
def labels(batch: Digits | Both) -> Labels:
    return batch.pick(Labels)


labels(both)
labels(digits.extend(Weighted))

# ---- the classes themselves, used as what they are at run time
small = pick(Digits, "image", Digits.source)
print(schema(small), schema(omit(Digits, Digits.label)), schema(merge(Images, Labels)))
print(partial(Digits)(label=label).image, small(image, source="x")[0], digits.pick("image").image)
print(Images(image).merge(Labels(label)).label)
