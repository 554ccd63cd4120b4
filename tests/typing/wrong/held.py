# pyright: strict, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Modules that are held in attributes, dicts, lists and by of them, and made by functions with local names"""

from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32


class A(TensorClass):
    x: Float32[Tensor, "8"]


class B(TensorClass):
    h: Float32[Tensor, "8"]
    y: Float32[Tensor, "8"]


enc = TensorClassModule(nn.Linear(8, 8), in_fields=A.x, out_fields=B.h)
head = TensorClassModule(nn.Linear(8, 8), in_fields=B.h, out_fields=B.y)
by = {"enc": enc, "head": head}
blocks = [enc, head]


class M(nn.Module):
    e = enc

    def __init__(self) -> None:
        super().__init__()
        self.enc = TensorClassModule(nn.Linear(8, 8), in_fields=A.x, out_fields=B.h)
        self.head = TensorClassModule(nn.Linear(8, 8), in_fields=B.h, out_fields=B.y)
        self.ok = TensorClassSequential(self.enc, self.head, input=A, output=B)
        TensorClassSequential(self.head, self.enc, input=A, output=B)  # E: - | - | - | mypy+plugin: tensorclass-flow


def make(w: int) -> TensorClassModule:
    fn = nn.Linear(8, w)
    made = TensorClassModule(fn, in_fields=B.h, out_fields=B.y)
    return made  # noqa: RET504


TensorClassSequential(by["enc"], by["head"], input=A, output=B)
TensorClassSequential(by["head"], by["enc"], input=A, output=B)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(*blocks, input=A, output=B)
TensorClassSequential(*blocks[::-1], input=A, output=B)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(*reversed(blocks), input=A, output=B)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(enc, make(8), input=A, output=B)
TensorClassSequential(make(8), enc, input=A, output=B)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(M.e, head, input=A, output=B)
TensorClassSequential(head, M.e, input=A, output=B)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(*by.values(), input=A, output=B)
TensorClassSequential(*blocks[1:], input=A, output=B)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
TensorClassSequential(blocks[0], blocks[1], input=A, output=B)
TensorClassSequential(blocks[1], blocks[0], input=A, output=B)  # E: - | - | BuildError | mypy+plugin: tensorclass-flow
