# pyright: strict
"""Constraints, validators, conversion policies, JSON and pydantic."""

from typing import Annotated

import torch
from annotated_types import Ge, Interval
from pydantic import BaseModel, TypeAdapter
from torch import Tensor

from tensorclass import TensorClass, class_validator, field, field_validator
from tensorclass.typing import Float32, Int64


class Scores(TensorClass, validate="values"):
    probability: Annotated[Float32[Tensor, "classes"], Interval(ge=0, le=1)]
    count: Annotated[Int64[Tensor, ""], Ge(0)] = field(coerce="cast")
    unit: str = "s"

    @field_validator("probability")
    @classmethod
    def normal(cls, value: Tensor) -> Tensor:
        return value / value.sum(-1, keepdim=True)

    @field_validator("unit", mode="before")
    @staticmethod
    def lower(value: str) -> str:
        return value.lower()

    @class_validator
    def agree(self) -> None:
        if self.unit == "none" and bool(self.count.any()):
            raise ValueError("counts have a unit")


class Answer(BaseModel):
    scores: Scores


scores = Scores(probability=torch.rand(4, 3), count=torch.zeros(4, dtype=torch.int64))
text: str = scores.to_json(mode="lists")
again: Scores = Scores.from_json(text)
read: Scores = TypeAdapter(Scores).validate_json(text)
answer: Answer = Answer(scores=scores)
kept: Scores = answer.scores
lowered: str = Scores.lower("S")
normal: Tensor = Scores.normal(scores.probability)
