"""The functions of torch's namespace that take containers, by what they return."""

from __future__ import annotations

from typing import Final

from ._table import ROWS

RESHAPING: Final = (
    "reshape", "flatten", "unflatten", "unsqueeze", "squeeze", "permute", "transpose", "swapaxes", "swapdims",
    "movedim", "moveaxis", "flip", "fliplr", "flipud", "roll", "rot90", "broadcast_to", "tile", "repeat_interleave",
    "narrow", "atleast_1d", "atleast_2d", "atleast_3d", "gather", "masked_select", "masked_fill", "clone",
)  # fmt: skip
"""A container of the class of the first argument, from its method of the same name."""
PARTS: Final = ("split", "tensor_split", "chunk", "unbind")
"""A tuple of such containers, from the method of the same name."""
JOINS: Final = ("stack", "cat", "concat", "concatenate")
"""One container from a sequence of them."""
LIKE: Final = ("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like")
"""A container of the same structure with new values."""
POINTWISE: Final = {name: row.name for row in ROWS for name in (row.torch_name, *row.aliases) if name}
"""A container of the class of the first argument, from the method that the table has beside the name."""
TORCH_FUNCTIONS: Final = (*RESHAPING, *PARTS, *JOINS, *LIKE, *POINTWISE, "where", "equal")
"""All of these, and two functions with handlers of their own."""
