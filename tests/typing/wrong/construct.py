# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Constructors: a wrong, missing or unknown argument."""

import dataclasses

import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, field, produced
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "8 8"]
    label: Int64[Tensor, ""]
    weight: Float32[Tensor, ""] | None = None
    source: str = "scan"
    page: int = field(default=0, kw_only=True)
    hidden: Float32[Tensor, "8"] = produced()


class Pair(TensorClass):
    left: Digits
    right: Digits | None = None


x, y = torch.zeros(4, 8, 8), torch.zeros(4, dtype=torch.int64)

# ---- names
Digits(x)  # E: call-arg | reportCallIssue | SchemaError
Digits()  # E: call-arg | reportCallIssue | SchemaError
Digits(imgae=x, label=y)  # E: call-arg | reportCallIssue | SchemaError
Digits(image=x, label=y, weigth=None)  # E: call-arg | reportCallIssue | SchemaError
Digits(x, y, image=x)  # E: misc | reportCallIssue | TypeError
Digits(x, y, None, "scan", 3)  # E: call-arg | reportCallIssue | TypeError
Digits(x, y, hidden=x)  # E: call-arg | reportCallIssue | SchemaError
Digits(x, y, batchsize=[4])  # E: call-arg | reportCallIssue | SchemaError

# ---- types of fields
Digits("image", y)  # E: arg-type | reportArgumentType | SchemaError
Digits(x, label="three")  # E: arg-type | reportArgumentType | SchemaError
Digits(x, y, weight="heavy")  # E: arg-type | reportArgumentType | SchemaError
Digits(x, y, source=3)  # E: arg-type | reportArgumentType | SchemaError
Digits(x, y, source=x)  # E: arg-type | reportArgumentType | SchemaError
Digits(x, y, source=None)  # E: arg-type | reportArgumentType | SchemaError
Digits(x, y, page="one")  # E: arg-type | reportArgumentType | SchemaError
Digits(None, y)  # E: arg-type | reportArgumentType | SchemaError
Digits(x, {"label": y})  # E: arg-type | reportArgumentType | SchemaError

# ---- nested classes
Pair(x)  # E: arg-type | reportArgumentType | SchemaError
Pair({"image": x, "label": y})  # E: arg-type | reportArgumentType | SchemaError
Pair(Digits(x, y), right=Pair(Digits(x, y)))  # E: arg-type | reportArgumentType | SchemaError
Pair(TensorDict(image=x, batch_size=[4]))  # E: arg-type | reportArgumentType | SchemaError

# ---- batch size, device and names
Digits(x, y, batch_size="4")  # E: arg-type | reportArgumentType | BatchSizeError
Digits(x, y, batch_size=4.0)  # E: arg-type | reportArgumentType | BatchSizeError
Digits(x, y, batch_size=["4"])  # E: list-item | reportArgumentType | BatchSizeError
Digits(x, y, batch_size=x)  # E: arg-type | reportArgumentType | BatchSizeError
Digits(x, y, device=["cpu"])  # E: arg-type | reportArgumentType | TypeError
Digits(x, y, device=1.5)  # E: arg-type | reportArgumentType | TypeError
Digits(x, y, names=[1])  # E: list-item | reportArgumentType | TypeError
Digits(x, y, names=4)  # E: arg-type | reportArgumentType | TypeError

# ---- dataclasses' own functions
dataclasses.replace(Digits(x, y), source=3)  # E: arg-type | - | SchemaError
