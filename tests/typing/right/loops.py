# pyright: strict
# checkers: mypy, mypy+plugin
"""Items of loaders in loops: of instances, of tuples, of tensors, with and without a function that joins them."""

from itertools import chain, islice

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from tensorclass import TensorClass
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "2"]
    label: Int64[Tensor, ""]


class Scored(Dataset[tuple[Digits, Tensor, str]]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[Digits, Tensor, str]:
        return digits()[index], torch.zeros(3), "name"


class Plain(Dataset[tuple[Tensor, int]]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.zeros(3), index


def digits() -> Digits:
    return Digits(torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64))


def lengths(items: list[tuple[Digits, Tensor, str]]) -> tuple[int, int, int]:
    return len(items), len(items), len(items)


loader, scored, plain = DataLoader(digits(), batch_size=2), DataLoader(Scored(), batch_size=2), DataLoader(Plain())
for one, other in zip(loader, DataLoader(digits()), strict=False):
    print(one.image.sum() + other.image.sum())
for one in islice(chain(loader, loader), 3):
    print(one.label)
batches = list(loader)
print(batches[0].image)
total = sum(part.image.sum() for part in loader)
for part, score, names in scored:
    print(part.image, score.sum(), names[0].upper())
for index, (part, score, names) in enumerate(scored):
    print(index, part.image, score.sum(), [name.upper() for name in names])
for items in scored:
    print(items[0].image, len(items))
for count, again, last in DataLoader(Scored(), collate_fn=lengths):
    print(count + again + last)
for index, (image, number) in enumerate(plain):
    print(index, image.sum(), number.sum())
for image, number in plain:
    print(image.sum(), number.sum())
for items in plain:
    print(items[1].sum())
