"""Classes whose declarations are hard to meet: shared sizes, expressions, constraints, every kind of field."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional

from annotated_types import Ge, Gt, Interval, Le, Len, Lt, MinLen, MultipleOf
from pydantic import BaseModel, Field
from torch import Tensor

from tensorclass import PerElement, Ragged, Shared, TensorClass, TensorDict, field, produced
from tensorclass.typing import BFloat16, Bool, Complex64, Float, Float16, Float32, Float64, Int, Int8, Int64, Num, UInt8


class Colour(enum.Enum):
    """A value of a field."""

    RED = "red"
    BLUE = "blue"


class Meta(BaseModel):
    """A model in a field."""

    name: str = "x"
    score: Annotated[float, Field(ge=0, le=1)] = 0.5


@dataclass
class Point:
    """A dataclass in a field."""

    x: int
    y: int


class Dims(TensorClass, validate="values"):
    """Sizes that depend on each other."""

    image: Float32[Tensor, "c h w"]
    quarter: Float32[Tensor, "c h//2 w-1"]
    area: Int64[Tensor, "h*w+1"]
    mask: Bool[Tensor, "h w"]
    lead: Float32[Tensor, "*lead 2"]
    also: Float32[Tensor, "*lead 3"]
    free: Float32[Tensor, "_ ..."]
    bare: Tensor
    table: Shared[Float32[Tensor, "c k"]]


class Numbers(TensorClass, validate="values"):
    """Constraints on every kind of number."""

    unit: Annotated[Float32[Tensor, "n"], Interval(ge=0.1, lt=0.3)]
    medium: Annotated[Float16[Tensor, "n"], Gt(0.1), Le(1.7)]
    brain: Annotated[BFloat16[Tensor, ""], Ge(0.1), Lt(0.11)]
    steps: Annotated[Float64[Tensor, "2"], MultipleOf(0.1), Ge(-1)]
    label: Annotated[Int64[Tensor, ""], Ge(0), Lt(10)]
    byte: Annotated[UInt8[Tensor, "n"], MultipleOf(7), Gt(3.5)]
    small: Annotated[Int8[Tensor, ""], Le(-100)]
    some: Annotated[Num[Tensor, ""], Ge(2)]
    rows: Annotated[Float32[Tensor, "m 2"], Len(3, 5)]
    words: Annotated[Ragged[Tensor, "t 2"], MinLen(2)]


class Kinds(TensorClass, validate="values"):
    """A field of every kind."""

    family: Float[Tensor, "d"]
    whole: Int[Tensor, ""]
    wave: Complex64[Tensor, "d"]
    tokens: Ragged[Tensor, "t d"]
    nested: Numbers
    maybe: Numbers | None
    who: PerElement[Annotated[str, MinLen(1)]]
    count: Annotated[int, Ge(3)]
    colour: Colour
    mode: Literal["a", "b"]
    meta: Meta
    tags: dict[str, list[int]]
    extra: TensorDict
    anything: Any = None
    late: Float32[Tensor, "d"] = produced()
    note: str | None = field(default=None, kw_only=True)


class Tree(TensorClass, validate="values"):
    """A class that holds itself."""

    value: Float32[Tensor, "n"]
    left: Optional[Tree] = None  # noqa: UP045  # the class is not there yet
    right: Optional[Tree] = None  # noqa: UP045


EVERY = (Dims, Numbers, Kinds, Tree)
