# pyright: strict
# checkers: mypy+plugin
"""The decorator by itself: constructor, fields, container methods, inheritance, generic classes, pipelines."""

import dataclasses
from collections.abc import Iterator
from dataclasses import KW_ONLY, InitVar
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from typing_extensions import Self, assert_type

from tensorclass import PerElement, Shared, TensorClass, TensorDict, cat, field, produced, stack, tensorclass
from tensorclass.nn import TensorClassModule, TensorClassSequential, module
from tensorclass.typing import Float32, Int64

T = TypeVar("T")


@tensorclass
class Inputs:
    image: Float32[Tensor, "8 8"]


@tensorclass
class Digits:
    inputs: Inputs
    label: Int64[Tensor, ""]
    weight: Float32[Tensor, ""] | None = None
    source: str = "scan"
    name: PerElement[str] | None = None
    table: Shared[Float32[Tensor, "10 4"]] | None = None


x, y = torch.zeros(4, 8, 8), torch.zeros(4, dtype=torch.int64)

# ---- constructors: by position and keyword, defaults, batch size, device, names
batch = Digits(Inputs(x), y, batch_size=[4], device="cpu", names=["time"])
assert_type(batch, Digits)
Digits(inputs=Inputs(x), label=y, weight=None, source="pen")
Digits(Inputs(x), y, name=["a", "b", "c", "d"], table=torch.zeros(10, 4))
Digits(Inputs(x), y, batch_size=4, device=None)

# ---- fields and references
assert_type(batch.label, Tensor)
assert_type(batch.weight, Tensor | None)
assert_type(batch.inputs.image, Tensor)
assert_type(batch.source, str)
assert_type(Digits.label, Tensor)
assert_type(Digits.inputs.image, Tensor)
assert_type(batch["label"], Tensor)
assert_type(batch["inputs", "image"], Tensor)
assert_type(batch.get("weight"), Tensor | None)
assert_type(batch.get(Digits.inputs.image), Tensor)
batch.label = y + 1
batch["label"] = y
batch.inputs.image = x

# ---- container methods keep the class
assert_type(batch[0], Digits)
assert_type(batch[:2].to("cpu").reshape(2, 1), Digits)
assert_type(batch.batch_size, torch.Size)
assert_type(batch.device, torch.device | None)
assert_type(batch == batch, Digits)
assert_type(batch.unbind(0), tuple[Digits, ...])
assert_type(batch.replace(label=y), Digits)
assert_type(batch.to_tensordict(), TensorDict)
assert_type(Digits.from_tensordict(batch.to_tensordict()), Digits)
rows: Iterator[Digits] = iter(batch)

# ---- joins, with this package's functions and with torch's
assert_type(stack([batch, batch]), Digits)
assert_type(cat([batch, batch]), Digits)
assert_type(torch.stack([batch, batch]), Digits)
assert_type(torch.cat((batch, batch), 0), Digits)
assert_type(torch.split(batch, 2), tuple[Digits, ...])
assert_type(torch.clone(batch), Digits)
assert_type(torch.zeros_like(batch), Digits)
assert_type(torch.equal(batch, batch), bool)
for part in DataLoader(batch, batch_size=2, collate_fn=stack):
    print(part)


# ---- a decorated class is a TensorClass
def first(items: TensorClass) -> TensorClass:
    return items[0]


first(batch)


# ---- frozen, and the other options
@tensorclass(frozen=True)
class Still:
    value: Float32[Tensor, ""]

    def doubled(self) -> Self:
        return self.replace(value=self.value * 2)


assert_type(Still(torch.zeros(3)).doubled()[0].value, Tensor)


@tensorclass(autocast=True, validate="values")
class Loose:
    value: Float32[Tensor, ""]


Loose(torch.zeros(3, dtype=torch.int64))


@tensorclass(validate="off")
class Unchecked:
    value: Float32[Tensor, ""]


Unchecked(torch.zeros(3, dtype=torch.int64))


@tensorclass(shadow=True)
class Moments:
    mean: Float32[Tensor, ""]


assert_type(Moments(torch.zeros(3)).mean, Tensor)


# ---- a child of a decorated class, decorated or not
@tensorclass
class Scan(Digits):
    page: Int64[Tensor, ""] | None = None


class Sheet(Digits):
    page: int = 0


assert_type(Scan(Inputs(x), y, page=y)[0], Scan)
assert_type(Sheet(Inputs(x), y, page=3).page, int)


# ---- keyword-only fields, factories, class variables, arguments of `__post_init__`
@tensorclass
class Note:
    rows: ClassVar[int] = 8
    text: Int64[Tensor, "words"]
    factor: InitVar[float] = 1.0
    _: KW_ONLY
    tags: dict[str, str] = field(default_factory=dict[str, str])
    language: str = field(default="en", kw_only=True)

    def __post_init__(self, factor: float) -> None:
        self.language = self.language + str(factor)


note = Note(torch.zeros(2, 3, dtype=torch.int64), 2.0, tags={"a": "b"}, language="fr")
assert_type(note.tags, dict[str, str])
assert_type(Note.rows, int)
assert_type(dataclasses.replace(batch, source="pen"), Digits)


# ---- generic classes
@tensorclass
class Pair(Generic[T]):
    left: T
    right: T


pair = Pair[Digits](batch, batch)
assert_type(pair, Pair[Digits])
assert_type(pair[0].left, Digits)
assert_type(pair["left"], Digits)


# ---- a class that is used before it is defined
@tensorclass
class Tree:
    value: Float32[Tensor, ""]
    leaf: "Leaf | None" = None


@tensorclass
class Leaf:
    count: Int64[Tensor, ""]


assert_type(Tree(torch.zeros(3), Leaf(torch.arange(3))).leaf, Leaf | None)


# ---- a class inside a function
def local() -> int:
    @tensorclass
    class Inner:
        x: Float32[Tensor, ""]

    return Inner(torch.zeros(3), batch_size=[3])[0].numel()


local()


# ---- pipelines
@tensorclass
class State:
    image: Float32[Tensor, "64"]
    hidden: Float32[Tensor, "8"] = produced()
    digit: Int64[Tensor, ""] = produced()


@module(in_fields=State.hidden, out_fields=State.digit)
def most_likely(hidden: Tensor) -> Tensor:
    return hidden.argmax(-1)


pipe = TensorClassSequential(
    TensorClassModule(nn.Linear(64, 8), in_fields=State.image, out_fields=State.hidden), most_likely, input=State
)
assert_type(pipe, TensorClassSequential[State, State])
assert_type(pipe(State(torch.zeros(2, 64))).digit, Tensor)
