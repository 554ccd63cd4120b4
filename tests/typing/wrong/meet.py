# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false
"""Instances that don't meet, and what extend, merge, apply, loaders, devices, defaults and ragged fields refuse."""

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from tensorclass import RaggedTensor, TensorClass, collate, field, merge, pick
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "2"]
    label: Int64[Tensor, ""]


class Boxes(TensorClass):
    xyxy: Float32[Tensor, "4"]
    label: Int64[Tensor, ""]


class Scored(Digits):
    score: Float32[Tensor, ""] = field(kw_only=True)


class Noted(Digits):
    note: str = ""
    tags: list[str] = field(default_factory=list)


class Clash(TensorClass):
    label: Float32[Tensor, ""]
    image: Float32[Tensor, "3"]


class Words(TensorClass):
    ids: Int64[RaggedTensor, "n"]


class Found(TensorClass):
    boxes: Float32[RaggedTensor, "n 4"]


def digits() -> Digits:
    return Digits(torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64))


def boxes() -> Boxes:
    return Boxes(torch.zeros(4, 4), torch.zeros(4, dtype=torch.int64))


def upper(name: str) -> str:
    return name.upper()


def one_of_two(one: Tensor, other: Tensor) -> Tensor:
    return one + other


batch, other = digits(), boxes()

# ---- two classes in one operation
batch + other  # E: - | reportUnusedExpression | StructureError | mypy+plugin: tensorclass-join
batch * other  # E: - | reportUnusedExpression | StructureError | mypy+plugin: tensorclass-join
compared = batch < other  # E: - | - | StructureError | mypy+plugin: tensorclass-join
compared = batch == other  # E: - | - | - | mypy+plugin: tensorclass-join
compared = batch != other  # E: - | - | - | mypy+plugin: tensorclass-join
batch.maximum(other)  # E: - | - | StructureError | mypy+plugin: tensorclass-join
batch.sub(other)  # E: - | - | StructureError | mypy+plugin: tensorclass-join
batch[0] = other[0]  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-join
batch[:2] = other[:2]  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-join
batch.update(other)  # E: - | - | StructureError | mypy+plugin: tensorclass-join
batch.apply(one_of_two, other)  # E: - | - | StructureError | mypy+plugin: tensorclass-join

# ---- extend, update and merge
batch.extend(Scored, scores=torch.zeros(4))  # E: - | - | SchemaError | mypy+plugin: tensorclass-key
batch.extend(Scored)  # E: - | - | SchemaError | mypy+plugin: tensorclass-key
batch.extend(Scored, score="high")  # E: - | - | SchemaError | mypy+plugin: tensorclass-value
batch.extend(Scored, score=torch.zeros(4, dtype=torch.int64))  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
batch.extend(Boxes, xyxy=torch.zeros(4, 4))  # E: - | - | SchemaError | mypy+plugin: tensorclass-key
batch.update({"lable": torch.zeros(4)})  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
batch.update({"label": "three"})  # E: - | - | SchemaError | mypy+plugin: tensorclass-value
merge(Digits, Clash)  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration
merge(Digits, Boxes, 3)  # E: arg-type | reportArgumentType | ArgumentError
merge(Digits, "Boxes")  # E: arg-type | reportArgumentType | ArgumentError
merge(Digits, batch)  # E: arg-type | reportArgumentType | ArgumentError
pick(batch, "image")  # E: arg-type | reportArgumentType | ArgumentError
batch.merge(3)  # E: call-overload | reportArgumentType | ArgumentError
batch.extend(Noted, note=3)  # E: - | - | SchemaError | mypy+plugin: tensorclass-value
batch.extend(Noted, note="x", tags={"a": 1})  # E: - | - | SchemaError | mypy+plugin: tensorclass-value
batch.update(dict(lable=torch.zeros(4)))  # noqa: C408  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
batch.merge(Clash(torch.zeros(4), torch.zeros(4, 3)))  # E: - | - | SchemaError | mypy+plugin: tensorclass-declaration

# ---- functions over leaves
batch.apply(upper)  # E: - | - | AttributeError | mypy+plugin: arg-type, tensorclass-value
batch.apply(len)  # E: - | - | SchemaError | mypy+plugin: tensorclass-value
batch.apply(lambda x: x.tolist())  # E: - | - | SchemaError | mypy+plugin: tensorclass-value
batch.apply(lambda x: [x])  # E: - | - | SchemaError | mypy+plugin: tensorclass-value
batch.apply(one_of_two, 3)  # E: arg-type | reportArgumentType | KeySetError
batch.named_apply(lambda x: x)  # E: - | - | TypeError | mypy+plugin: arg-type, misc
batch.apply(lambda name: name.upper())  # E: - | - | AttributeError | mypy+plugin: attr-defined
batch.apply(one_of_two)  # E: - | - | TypeError | mypy+plugin: arg-type

# ---- loaders
for part in DataLoader(digits(), batch_size=2):
    print(part.imgae)  # E: - | - | AttributeError | mypy+plugin: attr-defined
for _, part in enumerate(DataLoader(digits(), batch_size=2, collate_fn=collate)):
    print(part["imgae"])  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key

# ---- devices
batch.to("gpu")  # E: - | - | RuntimeError | mypy+plugin: tensorclass-device
batch.to(device="cuda:one")  # E: - | - | RuntimeError | mypy+plugin: tensorclass-device
Digits.zeros(4, device="cud")  # E: - | - | RuntimeError | mypy+plugin: tensorclass-device
Digits.from_dict({"image": torch.zeros(2), "label": torch.tensor(1)}, device="gpu")  # E: - | - | RuntimeError | mypy+plugin: tensorclass-device
batch.to(torch.device("cup"))  # E: - | - | RuntimeError | mypy+plugin: tensorclass-device
Digits(torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64), device="CPU")  # E: - | - | RuntimeError | mypy+plugin: tensorclass-device

# ---- padded tensors for ragged fields, and elements of another dtype or shape
Words(torch.zeros(2, 9, dtype=torch.int64))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
Words([torch.zeros(2)])  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Words([torch.zeros(2)] * 3)  # E: - | - | SchemaError | mypy+plugin: tensorclass-dtype
Found([torch.zeros(2, 5)])  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape


# ---- defaults of another type than the field
class Wrong(TensorClass):
    tags: list[str] = field(default_factory=dict)  # E: - | - | - | mypy+plugin: tensorclass-declaration
    count: int = field(default="many")  # E: - | - | - | mypy+plugin: tensorclass-declaration
    holidays: list[int] = field(default_factory=lambda: "none")  # E: - | - | - | mypy+plugin: tensorclass-declaration
    x: Float32[Tensor, "2"] = field(default_factory=dict)  # E: - | - | - | mypy+plugin: tensorclass-declaration
    label: Int64[Tensor, ""] = field(default_factory=lambda: torch.zeros(()))  # E: - | - | - | mypy+plugin: tensorclass-dtype
    inner: Digits | None = field(default_factory=boxes)  # E: - | - | - | mypy+plugin: tensorclass-declaration


class WrongShape(TensorClass):
    image: Float32[Tensor, "2"] = field(default=torch.zeros(3))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
