# pyright: strict
# checkers: mypy, pyright, mypy+plugin
"""What conveniences of typed classes give."""

from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorClass, TensorDict
from tensorclass.typing import Float32


class Box(TensorClass):
    x: Float32[Tensor, "c"]


# ---- memory made ahead, and what every container calls `empty`
box = Box.zeros(3, c=1)
assert_type(box, Box)
assert_type(Box.empty([3], c=1), Box)
assert_type(box.empty(), TensorDict)

# ---- rows
assert_type(box.head(), Box)
assert_type(box.validate().shuffle(), Box)
assert_type(box.filter(lambda rows: rows.x[:, 0] == 0), Box)
assert_type([part.x for part in box.iter(2)], list[Tensor])
