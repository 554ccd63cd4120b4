"""What the JSON rows run on: a batch as a pydantic model with nested lists, and as a typed class in an adapter."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from pydantic import TypeAdapter, create_model


class Json:
    """The functions of one candidate, made when they are asked for.

    `dump` and `validate` are what pydantic offers; for raw data the model holds nested lists already, and `lists` and
    `tensors` convert from and to tensors as a program that computes must.
    """

    def __init__(self, data: Any, dims: int) -> None:
        self.data = data
        self.dims = dims

    @cached_property
    def model(self) -> Any:
        """A model with nested lists of floats for each tensor."""
        kind: Any = float
        for _ in range(self.dims):
            kind = list[kind]
        return create_model("Model", **dict.fromkeys(self.data, (kind, ...)))

    @cached_property
    def filled(self) -> Any:
        """The model around the data."""
        return self.lists()

    def lists(self) -> Any:
        """The data as lists in a model."""
        return self.model.model_construct(**{name: value.tolist() for name, value in self.data.items()})

    def tensors(self, model: Any) -> Any:
        """Tensors of the lists of a model."""
        return [torch.tensor(value) for value in vars(model).values()]

    @cached_property
    def adapter(self) -> Any:
        """The adapter of the typed class."""
        return TypeAdapter(type(self.data))

    @cached_property
    def text(self) -> Any:
        """The data as the candidate writes it by default."""
        return self.filled.model_dump_json() if isinstance(self.data, dict) else self.adapter.dump_json(self.data)

    @cached_property
    def text_of_lists(self) -> Any:
        """The typed batch with nested lists."""
        return self.adapter.dump_json(self.data, context={"tensors": "lists"})
