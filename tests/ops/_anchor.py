"""The same random data in this library's container and in the anchor's, and results brought to one plain form."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias

import tensordict
import torch
from hypothesis import strategies as st
from torch import Tensor

import tensorclass

Size: TypeAlias = "tuple[int, ...]"
DTYPES = (
    torch.float32,
    torch.float64,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.bfloat16,
    torch.int16,
)
LAYOUTS = ("plain", "expanded", "strided")


@dataclass(frozen=True)
class Leaf:
    """One tensor to be: its event shape, dtype and memory layout."""

    event: Size
    dtype: torch.dtype
    layout: str
    start: int

    def make(self, size: Size) -> Tensor:
        """A fresh tensor with these batch dims."""
        shape = (*size, *self.event)
        if self.layout == "expanded" and shape:
            return self._numbers((1, *shape[1:])).expand(shape)
        if self.layout == "strided" and shape:
            return self._numbers((*shape[:-1], 2 * shape[-1]))[..., ::2]
        return self._numbers(shape)

    def _numbers(self, shape: Size) -> Tensor:
        values = torch.arange(torch.Size(shape).numel()).reshape(shape) + self.start
        return (values % 3 == 0) if self.dtype is torch.bool else values.to(self.dtype)


@dataclass(frozen=True)
class Tree:
    """A container to be: its batch size and entries."""

    size: Size
    entries: tuple[tuple[str, Leaf | Tree], ...]

    def make(self, library: Any) -> Any:
        """The container in a library."""
        data = {key: v.make(library) if isinstance(v, Tree) else v.make(self.size) for key, v in self.entries}
        return library.TensorDict(data, batch_size=list(self.size))

    def both(self) -> tuple[Any, Any]:
        """Ours and the anchor's."""
        return self.make(tensorclass), self.make(tensordict)


def leaves(dtypes: tuple[torch.dtype, ...]) -> st.SearchStrategy[Leaf]:
    """Leaves with up to two event dims, some of size zero."""
    events = st.lists(st.integers(0, 2), max_size=2).map(tuple)
    return st.builds(Leaf, events, st.sampled_from(dtypes), st.sampled_from(LAYOUTS), st.integers(0, 3))


@st.composite
def trees(
    draw: st.DrawFn, dims: tuple[int, int] = (0, 4), dtypes: tuple[torch.dtype, ...] = DTYPES, smallest: int = 0
) -> Tree:
    """Containers of up to two levels over batches of 0 to 4 dims; nested ones may have one batch dim more."""
    size = tuple(draw(st.lists(st.integers(smallest, 3), min_size=dims[0], max_size=dims[1])))
    entries: list[tuple[str, Leaf | Tree]] = [("a", draw(leaves(dtypes)))] if draw(st.booleans()) else []
    if draw(st.booleans()) or not entries:
        more = tuple(draw(st.lists(st.integers(1, 2), max_size=1)))
        below = tuple((key, draw(leaves(dtypes))) for key in draw(st.sampled_from([("x",), ("x", "y"), ("a", "x")])))
        entries.append(("n", Tree((*size, *more), below)))
    entries.append(("b", draw(leaves(dtypes))))
    return Tree(size, tuple(entries))


def plain(value: Any) -> Any:
    """A result without the library it came from: batch sizes, tensors by path, or what it is otherwise."""
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return [plain(part) for part in value]
    if isinstance(value, (tensorclass.TensorDict, tensordict.TensorDictBase)):
        return {"": tuple(value.batch_size), **{str(key): plain(child) for key, child in value.items()}}
    return value


def same(ours: Any, theirs: Any) -> bool:
    """Whether two plain results agree, dtype by dtype and bit by bit (nan equals nan)."""
    if isinstance(ours, Tensor) and isinstance(theirs, Tensor):
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            return False
        return torch.equal(ours, theirs) or bool(torch.allclose(ours, theirs, rtol=0, atol=0, equal_nan=True))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(same(a, b) for a, b in zip(ours, theirs, strict=True))
    return type(ours) is type(theirs) and bool(ours == theirs)


def outcome(call: Any, container: Any) -> Any:
    """The plain result of a call, or the error it raised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return plain(call(container))
    except Exception as error:  # any error of either library is an outcome
        return error
