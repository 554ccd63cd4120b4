"""Random containers for both libraries, the arguments that calls may name, and results in one plain form.

A call is a line of Python over `td`, the library `lib`, `torch`, and arguments: each name in `ARGUMENTS` that occurs in
the line is drawn to suit the container.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import tensordict
import torch
from hypothesis import strategies as st
from torch import Tensor

import tensorclass
from tests.ops._anchor import DTYPES, LAYOUTS, Leaf, Size, Tree

Strategy: TypeAlias = "st.SearchStrategy[Any]"
FLOATS = (torch.float32, torch.float64)
NUMBERS = (*FLOATS, torch.int64)


@dataclass(frozen=True)
class Tracked(Leaf):
    """A leaf that requires grad."""

    def make(self, size: Size) -> Tensor:
        """A fresh tensor with these batch dims."""
        return super().make(size).requires_grad_()


@dataclass(frozen=True)
class Item(Leaf):
    """A Python object that the batch shares."""

    value: Any = None

    def make(self, size: Size) -> Any:
        """The object."""
        return self.value


@dataclass(frozen=True)
class Named(Tree):
    """A container whose dims have names."""

    names: tuple[str | None, ...] = ()

    def make(self, library: Any) -> Any:
        """The container in a library."""
        made = super().make(library)
        made.names = list(self.names)
        return made


@dataclass(frozen=True)
class Lazy:
    """A lazy stack of containers."""

    rows: tuple[Tree, ...]
    dim: int

    @property
    def size(self) -> Size:
        """The batch size."""
        inner = self.rows[0].size
        return (*inner[: self.dim], len(self.rows), *inner[self.dim :])

    @property
    def entries(self) -> tuple[tuple[str, Leaf | Tree], ...]:
        """Those of the first member."""
        return self.rows[0].entries

    def make(self, library: Any) -> Any:
        """The stack in a library."""
        return library.lazy_stack([row.make(library) for row in self.rows], self.dim)


@st.composite
def leaves(draw: st.DrawFn, dtypes: tuple[torch.dtype, ...], tracked: bool = True) -> Leaf:
    """A leaf of any layout with up to two event dims."""
    given = (
        draw(st.lists(st.integers(0, 2), max_size=2).map(tuple)),
        draw(st.sampled_from(dtypes)),
        draw(st.sampled_from(LAYOUTS)),
        draw(st.integers(0, 3)),
    )
    floating = given[1].is_floating_point and tracked
    return (Tracked if floating and draw(st.integers(0, 3)) == 0 else Leaf)(*given)


@st.composite
def structures(
    draw: st.DrawFn,
    dtypes: tuple[torch.dtype, ...] = DTYPES,
    most: int = 5,
    tracked: bool = True,
    smallest: int = 0,
    least: int = 0,
    items: bool = False,
    named: bool = False,
) -> Tree:
    """Containers of up to three levels over 0 to 5 batch dims; nested ones may have one batch dim more."""
    size = tuple(draw(st.lists(st.integers(smallest, 3), min_size=least, max_size=most)))
    entries: list[tuple[str, Leaf | Tree]] = [("a", draw(leaves(dtypes, tracked)))] if draw(st.booleans()) else []
    if draw(st.booleans()):
        entries.append(("n", draw(_nested(size, dtypes, tracked, items))))
    entries.append(("b", draw(leaves(dtypes, tracked))))
    if items:
        values = st.sampled_from(["scan", "", None, frozenset({1})])
        entries.append(("item", Item((), torch.bool, "plain", 0, draw(values))))
    if not named:
        return Tree(size, tuple(entries))
    names = draw(st.permutations(["t", "u", "v", "w", None, None]))[: len(size)]
    return Named(size, tuple(entries), tuple(names))


@st.composite
def _nested(draw: st.DrawFn, size: Size, dtypes: tuple[torch.dtype, ...], tracked: bool, items: bool) -> Tree:
    more = (*size, *draw(st.lists(st.integers(1, 2), max_size=1)))
    below: list[tuple[str, Leaf | Tree]] = [("x", draw(leaves(dtypes, tracked)))]
    if draw(st.booleans()):
        below.append(("a", draw(leaves(dtypes, tracked))))
    if draw(st.booleans()):
        below.append(("deep", Tree(more, (("y", draw(leaves(dtypes, tracked))),))))
    if items:
        below.append(("item", Item((), torch.bool, "plain", 0, draw(st.sampled_from(["below", None])))))
    return Tree(more, tuple(below))


@st.composite
def stacks(draw: st.DrawFn) -> Lazy:
    """Lazy stacks of members of one structure."""
    row = draw(structures(most=2, tracked=False, smallest=1))
    count = draw(st.integers(1, 3))
    return Lazy(tuple(moved(row, i) for i in range(count)), draw(st.integers(0, len(row.size))))


def dense(tree: Tree, dim: int, count: int) -> Tree:
    """A structure with one batch dim more, at every depth."""
    size = (*tree.size[:dim], count, *tree.size[dim:])
    return Tree(size, tuple((key, dense(v, dim, count) if isinstance(v, Tree) else v) for key, v in tree.entries))


def moved(tree: Tree | Lazy, by: int) -> Tree:
    """The same structure with other numbers; that of a lazy stack is dense."""
    if isinstance(tree, Lazy):
        tree = dense(tree.rows[0], tree.dim, len(tree.rows))

    def entry(value: Leaf | Tree) -> Leaf | Tree:
        if isinstance(value, Tree):
            return moved(value, by)
        if isinstance(value, Item):
            return value
        return Leaf(value.event, value.dtype, "plain", value.start + by)

    entries = tuple((key, entry(value)) for key, value in tree.entries)
    return Named(tree.size, entries, tree.names) if isinstance(tree, Named) else Tree(tree.size, entries)


def paths(tree: Tree, leaf: bool) -> list[Any]:
    """Keys of leaves, or of everything, as both libraries take them."""
    found: list[Any] = []
    for key, value in tree.entries:
        if isinstance(value, Tree):
            below = paths(value, leaf)
            found += [(key, *(path if isinstance(path, tuple) else (path,))) for path in below]
        if not leaf or not isinstance(value, Tree):
            found.append(key)
    return found


# ---- arguments -------------------------------------------------------------------------------------------------------


def one_index(n: int) -> Strategy:
    """Something that picks from one dim."""
    ints = st.integers(-n, n - 1) if n else st.just(0)
    starts = st.one_of(st.none(), st.integers(-n, n))
    pieces = st.builds(slice, starts, starts, st.sampled_from([None, 1, 2]))
    picks = st.lists(ints, max_size=3) if n else st.just([])
    tensors = picks.map(lambda values: torch.tensor(values, dtype=torch.int64))
    masks = st.lists(st.booleans(), min_size=n, max_size=n).map(lambda bits: torch.tensor(bits, dtype=torch.bool))
    lists = picks.filter(bool) if n else pieces
    return st.one_of(ints, pieces, pieces, tensors, masks, lists, st.just(None), st.just(...))


@st.composite
def indices(draw: st.DrawFn, size: Size) -> Any:
    """One index, or a tuple of them with at most one of the kinds that pick by tensor."""
    if draw(st.integers(0, 3)) == 0:
        return draw(masks(size))
    if not size or draw(st.booleans()):
        return draw(one_index(size[0]) if size else st.sampled_from([None, ..., (), True]))
    parts = [draw(one_index(n)) for n in size[: draw(st.integers(1, len(size)))]]
    kept, special = [], False
    for part in parts:
        advanced = isinstance(part, (Tensor, list)) or part is Ellipsis
        kept.append(slice(None) if advanced and special else part)
        special = special or advanced
    return tuple(kept)


def masks(size: Size) -> Strategy:
    """A mask over the batch dims."""
    count = torch.Size(size).numel()
    bits = st.lists(st.booleans(), min_size=count, max_size=count)
    return bits.map(lambda values: torch.tensor(values, dtype=torch.bool).reshape(size))


def dims(tree: Tree) -> Strategy:
    """A dim of the batch; of no batch, 0."""
    n = len(tree.size)
    return st.integers(-n, n - 1) if n else st.just(0)


def values(tree: Tree) -> Strategy:
    """A tensor that fits as an entry."""
    events = st.lists(st.integers(0, 2), max_size=2).map(tuple)
    return st.builds(Leaf, events, st.sampled_from(DTYPES), st.just("plain"), st.integers(0, 3)).map(
        lambda leaf: leaf.make(tree.size)
    )


def _first(tree: Tree) -> int:
    return tree.size[0] if tree.size else 0


ARGUMENTS: dict[str, Callable[[Tree], Strategy]] = {
    "dim": dims,
    "dim2": dims,
    "place": lambda t: st.integers(-len(t.size) - 1, len(t.size)),
    "order": lambda t: st.permutations(range(len(t.size))),
    "index": lambda t: indices(t.size),
    "mask": lambda t: masks(t.size),
    "path": lambda t: st.sampled_from(paths(t, False)),
    "leaf": lambda t: st.sampled_from(paths(t, True)),
    "value": values,
    "number": lambda t: st.sampled_from([2, -1.5, 0, True]),
    "count": lambda t: st.integers(1, 3),
    "flag": lambda t: st.booleans(),
    "sep": lambda t: st.sampled_from([".", "_", "//"]),
    "dtype": lambda t: st.sampled_from(DTYPES),
    "other": lambda t: st.just(moved(t, 2)),
    "third": lambda t: st.just(moved(t, 5)),
    "cut": lambda t: st.integers(0, _first(t)),
    "picks": lambda t: st.lists(st.integers(0, max(_first(t) - 1, 0)), min_size=1, max_size=3),
    "grid": lambda t: st.just(torch.zeros(t.size, dtype=torch.int64)),
}


@dataclass(frozen=True)
class Case:
    """One call on one container with its arguments."""

    call: str
    tree: Any
    arguments: dict[str, Any]

    def run(self, library: Any) -> Any:
        """What the call gives and what it leaves behind, in plain form; or its error."""
        td = self.tree.make(library)
        made = {name: _fresh(value, library) for name, value in self.arguments.items()}
        # Of a lazy stack nothing is compared: what it reads are new tensors, whose memory may be used again.
        kept = [] if isinstance(self.tree, Lazy) else [v for v in td.values(True, True) if isinstance(v, Tensor)]
        storages = {leaf.untyped_storage().data_ptr() for leaf in kept}
        names = {"td": td, "lib": library, "torch": torch, "T": library.TensorDict, **made}
        torch.manual_seed(0)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if self.call.startswith("!"):
                    exec(self.call[1:], names)
                    return plain(td, storages)
                result = eval(self.call, names)
                return [plain(result, storages), plain(td, storages)]
        except Exception as error:  # any error of either library is an outcome
            return error


def _fresh(value: Any, library: Any) -> Any:
    if isinstance(value, (Tree, Lazy)):
        return value.make(library)
    return value.clone() if isinstance(value, Tensor) else value


@st.composite
def cases(draw: st.DrawFn, calls: list[str], trees: Strategy) -> Case:
    """A call of a family with a container that it meets."""
    call, tree = draw(st.sampled_from(calls)), draw(trees)
    used = [name for name in ARGUMENTS if re.search(rf"\b{name}\b(?! ?=)", call)]
    return Case(call, tree, {name: draw(ARGUMENTS[name](tree)) for name in used})


# ---- results ---------------------------------------------------------------------------------------------------------


def plain(value: Any, storages: set[int]) -> Any:
    """A result without the library it came from."""
    if isinstance(value, (tensorclass.TensorCollection, tensordict.TensorDictBase)) and hasattr(value, "batch_size"):
        if not hasattr(value, "keys"):
            return plain(value.tolist(), storages)
        about = (tuple(value.batch_size), tuple(value.names), value.device, value.is_locked)
        return {"": about, **{str(key): plain(_read(value, key), storages) for key in value.keys()}}  # noqa: SIM118
    if isinstance(value, Tensor):
        shared = value.numel() > 0 and value.untyped_storage().data_ptr() in storages
        return value.detach().clone(), value.requires_grad, shared
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return [plain(part, storages) for part in value]
    if isinstance(value, dict):
        return {str(key): plain(part, storages) for key, part in value.items()}
    if type(value).__name__ in ("NonTensorData", "NonTensorStack", "MetaData"):
        return plain(value.tolist(), storages)
    return value


def _read(container: Any, key: str) -> Any:
    """An entry; one that can't be read as a tensor is what its members hold."""
    try:
        return container[key]
    except RuntimeError:
        return "can't be stacked"


def same(a: Any, b: Any) -> bool:
    """Whether two plain results agree bit by bit; nan equals nan."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return False
        return bool(((a == b) | ((a != a) & (b != b))).all())
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and bool(a == b)
