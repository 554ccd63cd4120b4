# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Every check on every kind of receiver: `Self`, a type variable, classes as values, narrowed and generic types."""

from typing import Generic, TypeVar

import torch
from torch import Tensor
from typing_extensions import Self

from tensorclass import TensorClass
from tensorclass.typing import Int64


class Tokens(TensorClass):
    ids: Int64[Tensor, "t"]

    def of_self(self) -> Self:
        self.ids = torch.zeros(3)  # E: - | - | - | mypy+plugin: tensorclass-dtype
        self.set("ids", torch.zeros(3))  # E: - | - | - | mypy+plugin: tensorclass-dtype
        self["ids"] = torch.zeros(3)  # E: - | - | - | mypy+plugin: tensorclass-dtype
        self.update({"idz": torch.zeros(3)})  # E: - | - | - | mypy+plugin: tensorclass-key
        self.get("idz")  # E: - | - | - | mypy+plugin: tensorclass-key
        self["idz"]  # E: - | - | - | mypy+plugin: tensorclass-key
        self.sort_by("idz")  # E: - | - | - | mypy+plugin: tensorclass-key
        self.to("cup")  # E: - | - | - | mypy+plugin: tensorclass-device
        type(self)(torch.zeros(3))  # E: - | - | - | mypy+plugin: tensorclass-dtype
        type(self).from_dict({"idz": torch.zeros(3)})  # E: - | - | - | mypy+plugin: tensorclass-key
        self.replace(ids=torch.zeros(3))  # E: - | - | - | mypy+plugin: tensorclass-dtype
        return self.replace(idz=self.ids)  # E: - | - | - | mypy+plugin: tensorclass-key

    @classmethod
    def of_cls(cls) -> Self:
        cls.from_dict({"idz": torch.zeros(3)})  # E: - | - | - | mypy+plugin: tensorclass-key
        cls.zeros(2, fields={"idz": torch.zeros(2, 3)})  # E: - | - | - | mypy+plugin: tensorclass-key
        return cls(torch.zeros(3))  # E: - | - | - | mypy+plugin: tensorclass-dtype


One = TypeVar("One", bound=Tokens)


def of_variable(one: One, kind: type[One]) -> One:
    one.ids = torch.zeros(3)  # E: - | - | - | mypy+plugin: tensorclass-dtype
    one.set("ids", torch.zeros(3))  # E: - | - | - | mypy+plugin: tensorclass-dtype
    one.update({"idz": torch.zeros(3)})  # E: - | - | - | mypy+plugin: tensorclass-key
    one.get("idz")  # E: - | - | - | mypy+plugin: tensorclass-key
    one["idz"]  # E: - | - | - | mypy+plugin: tensorclass-key
    one.sort_by("idz")  # E: - | - | - | mypy+plugin: tensorclass-key
    one.to("cup")  # E: - | - | - | mypy+plugin: tensorclass-device
    kind(torch.zeros(3))  # E: - | - | - | mypy+plugin: tensorclass-dtype
    kind.from_dict({"idz": torch.zeros(3)})  # E: - | - | - | mypy+plugin: tensorclass-key
    return one.replace(idz=one.ids)  # E: - | - | - | mypy+plugin: tensorclass-key


def of_union(some: Tokens | None, kind: type[Tokens]) -> None:
    kind(torch.zeros(3))  # E: - | - | - | mypy+plugin: tensorclass-dtype
    kind.from_dict({"idz": torch.zeros(3)})  # E: - | - | - | mypy+plugin: tensorclass-key
    if some is not None:
        some.ids = torch.zeros(3)  # E: - | - | - | mypy+plugin: tensorclass-dtype
        some.get("idz")  # E: - | - | - | mypy+plugin: tensorclass-key
        some.sort_by("idz")  # E: - | - | - | mypy+plugin: tensorclass-key


class Box(Generic[One]):
    def __init__(self, item: One) -> None:
        self.item = item


def of_generic(box: Box[Tokens]) -> None:
    box.item.ids = torch.zeros(3)  # E: - | - | - | mypy+plugin: tensorclass-dtype
    box.item.get("idz")  # E: - | - | - | mypy+plugin: tensorclass-key
    box.item.replace(ids=torch.zeros(3))  # E: - | - | - | mypy+plugin: tensorclass-dtype
