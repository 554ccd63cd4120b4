# pyright: strict
# checkers: mypy+plugin
"""Items of loaders in loops: in functions over iterables, in tuples that are taken apart, in attributes of objects."""

from itertools import chain, islice

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from tensorclass import RaggedTensor, TensorClass
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "2"]
    label: Int64[Tensor, ""]


class Words(TensorClass):
    ids: Int64[RaggedTensor, "n"]


class Scored(Dataset[tuple[Digits, Tensor]]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[Digits, Tensor]:
        return digits()[index], torch.zeros(3)


def digits() -> Digits:
    return Digits(torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64))


class Trainer:
    def __init__(self) -> None:
        self.loader = DataLoader(digits(), batch_size=2)


loader, scored, trainer = DataLoader(digits(), batch_size=2), DataLoader(Scored(), batch_size=2), Trainer()

# ---- functions over iterables
for one, other in zip(loader, DataLoader(digits()), strict=False):
    print(one.image + other.imgae)  # E: - | - | AttributeError | mypy+plugin: attr-defined
for index, (one, number) in enumerate(zip(loader, range(2), strict=True)):
    print(index, number, one.imgae)  # E: - | - | AttributeError | mypy+plugin: attr-defined
for one in islice(loader, 1):
    print(one.imgae)  # E: - | - | AttributeError | mypy+plugin: attr-defined
for one in chain(loader, loader):
    print(one["imgae"])  # E: - | - | MissingKeyError | mypy+plugin: tensorclass-key
for one in list(loader):
    print(one.imgae)  # E: - | - | AttributeError | mypy+plugin: attr-defined
for _, one in enumerate(trainer.loader):
    print(one.imgae)  # E: - | - | AttributeError | mypy+plugin: attr-defined
print(next(iter(loader)).imgae)  # E: - | - | AttributeError | mypy+plugin: attr-defined
print([one.imgae for one in loader])  # E: - | - | AttributeError | mypy+plugin: attr-defined

# ---- tuples that are taken apart
for part, score in scored:
    print(part.imgae, score)  # E: - | - | AttributeError | mypy+plugin: attr-defined
for step, (part, score) in enumerate(scored):
    print(step, part.image, score.items())  # E: - | - | AttributeError | mypy+plugin: attr-defined
print([part.imgae for part, _ in scored])  # E: - | - | AttributeError | mypy+plugin: attr-defined
first, second = digits().split(2)
print(first.image, second.imgae)  # E: attr-defined | reportAttributeAccessIssue | AttributeError
top, *rest = digits()
print(top.image, rest[0].imgae)  # E: attr-defined | reportAttributeAccessIssue | AttributeError

# ---- what functions give, and attributes that are nearly there
digits().replace(lable=torch.arange(4))  # E: - | - | MissingKeyError | mypy+plugin: call-arg
digits()[:2].to("cpu").replace(image=torch.zeros(2, 3))  # E: - | - | SchemaError | mypy+plugin: tensorclass-shape
print(digits().label.items())  # E: attr-defined | reportAttributeAccessIssue | AttributeError
words = Words([torch.arange(3), torch.arange(1)])
print(words.ids.length)  # E: attr-defined | reportAttributeAccessIssue | AttributeError
print(words.ids.vals)  # E: attr-defined | reportAttributeAccessIssue | AttributeError
print(words.ids[0].items())  # E: attr-defined | reportAttributeAccessIssue | AttributeError
