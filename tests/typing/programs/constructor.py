# pyright: strict
"""Constructors."""

import torch
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorClass, produced
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "8 8"]
    label: Int64[Tensor, ""]
    weight: Float32[Tensor, ""] | None = None
    source: str = "scan"
    hidden: Float32[Tensor, "8"] = produced()


class Pair(TensorClass):
    left: Digits
    right: Digits | None = None


x, y = torch.zeros(4, 8, 8), torch.zeros(4, dtype=torch.int64)
digits = Digits(image=x, label=y, batch_size=[4])

# ---- right: fields by keyword
assert_type(Digits(image=x, label=y, batch_size=[4]), Digits)
# ---- right: fields by position
assert_type(Digits(x, y, batch_size=[4]), Digits)
# ---- right: optional fields are given, left out or None
Digits(image=x, label=y, weight=torch.zeros(4), batch_size=[4])
Digits(image=x, label=y, weight=None, source="pen", batch_size=[4])
# ---- right: the batch size as a list, a tuple, a torch.Size
Digits(image=x, label=y, batch_size=[4])
Digits(image=x, label=y, batch_size=(4,))
Digits(image=x, label=y, batch_size=x.shape[:1])
# ---- right: a device that is chosen at run time
Digits(image=x, label=y, batch_size=[4], device="cuda" if len(x) > 100 else "cpu")
Digits(image=x, label=y, batch_size=[4], device=x.device)
# ---- right: names of dims
Digits(image=x, label=y, batch_size=[4], names=["time"])
# ---- right: nested instances
assert_type(Pair(left=digits, right=digits, batch_size=[4]).left, Digits)
# ---- right: the batch size is inferred
assert_type(Digits(x, y), Digits)
# anchor: assert_type(Digits(x, y, batch_size=[4]), Digits)

# ---- wrong: a field is missing
Digits(image=x, batch_size=[4])  # E: call-arg | reportCallIssue | SchemaError | ty: missing-argument | pyrefly: missing-argument
# ---- wrong: no field is given
Digits(batch_size=[4])  # E: call-arg | reportCallIssue | SchemaError | ty: missing-argument | pyrefly: missing-argument
# ---- wrong: a field is misspelt
Digits(imgae=x, label=y, batch_size=[4])  # E: call-arg | reportCallIssue | SchemaError | ty: missing-argument, unknown-argument | pyrefly: missing-argument, unexpected-keyword
# ---- wrong: an optional field is misspelt
Digits(image=x, label=y, weigth=None, batch_size=[4])  # E: call-arg | reportCallIssue | SchemaError | ty: unknown-argument | pyrefly: unexpected-keyword
# ---- wrong: an option is misspelt
Digits(image=x, label=y, batchsize=[4])  # E: call-arg | reportCallIssue | SchemaError | ty: unknown-argument | pyrefly: unexpected-keyword
# ---- wrong: a field twice
Digits(x, y, image=x, batch_size=[4])  # E: misc | reportCallIssue | TypeError | ty: parameter-already-assigned | pyrefly: bad-keyword-argument
# ---- wrong: too many fields by position
Digits(x, y, None, "scan", x)  # E: arg-type, call-arg | reportCallIssue | TypeError | ty: too-many-positional-arguments | pyrefly: bad-argument-count
# ---- wrong: a field that modules fill in
Digits(image=x, label=y, hidden=torch.zeros(4, 8), batch_size=[4])  # E: call-arg | reportCallIssue | SchemaError | ty: unknown-argument | pyrefly: unexpected-keyword
# anchor: none
# ---- wrong: a text for a tensor
Digits(image="image", label=y, batch_size=[4])  # E: arg-type | reportArgumentType | SchemaError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: None for a tensor
Digits(image=None, label=y, batch_size=[4])  # E: arg-type | reportArgumentType | SchemaError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: a dict for a tensor
Digits(image=x, label={"label": y}, batch_size=[4])  # E: arg-type | reportArgumentType | SchemaError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: a tensor for a text
Digits(image=x, label=y, source=x, batch_size=[4])  # E: arg-type | reportArgumentType | SchemaError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: a text for an optional tensor
Digits(image=x, label=y, weight="heavy", batch_size=[4])  # E: arg-type | reportArgumentType | SchemaError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: a tensor for a nested class
Pair(left=x, batch_size=[4])  # E: arg-type | reportArgumentType | SchemaError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: another class for a nested class
Pair(left=Pair(left=digits, batch_size=[4]), batch_size=[4])  # E: arg-type | reportArgumentType | SchemaError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: the batch size as a text
Digits(image=x, label=y, batch_size="4")  # E: arg-type | reportArgumentType | BatchSizeError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: the batch size as a list of texts
Digits(image=x, label=y, batch_size=["4"])  # E: list-item | reportArgumentType | BatchSizeError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: the device as a list
Digits(image=x, label=y, batch_size=[4], device=["cpu"])  # E: arg-type | reportArgumentType | TypeError | ty: invalid-argument-type | pyrefly: bad-argument-type
# ---- wrong: names that are no texts
Digits(image=x, label=y, batch_size=[4], names=[1])  # E: list-item | reportArgumentType | TypeError | ty: invalid-argument-type | pyrefly: bad-argument-type
