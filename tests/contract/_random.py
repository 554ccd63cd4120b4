"""Containers of random structures, untyped and of classes made at random: where fuzzed sequences start."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from itertools import count
from types import new_class
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tensorclass import PerElement, Ragged, RaggedTensor, Shared, TensorClass, TensorCollection, TensorDict, lazy_stack
from tensorclass.store import Unbatched
from tensorclass.typing import BFloat16, Bool, Float, Float32, Float64, Int, Int64, Num, Shaped, UInt8
from tests.contract._kinds import objects

Size: TypeAlias = "tuple[int, ...]"
Declared: TypeAlias = "tuple[Any, Callable[[Size], Any]]"
SIZES: list[Size] = [(), (1,), (2,), (3,), (0,), (2, 3), (1, 2), (2, 1), (0, 2), (2, 1, 2)]
EVENTS: list[Size] = [(), (1,), (2,), (4,), (2, 3), (0,)]
NAMES = "abcde"
DTYPES = (torch.float32, torch.int64, torch.float64, torch.uint8, torch.bool, torch.bfloat16)
_COUNT = count()
FAMILIES: dict[Any, tuple[torch.dtype, ...]] = {
    Shaped: (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.uint8),
    Num: (torch.float32, torch.int64, torch.uint8),
    Float: (torch.float32, torch.float64, torch.bfloat16),
    Int: (torch.int64, torch.int32),
    Float32: (torch.float32,),
    Float64: (torch.float64,),
    BFloat16: (torch.bfloat16,),
    Int64: (torch.int64,),
    UInt8: (torch.uint8,),
    Bool: (torch.bool,),
}
DIMS: dict[str, Size] = {
    "": (),
    "2": (2,),
    "1": (1,),
    "n": (3,),
    "n 2": (3, 2),
    "n n": (3, 3),
    "m n": (4, 3),
    "n+1": (4,),
    "...": (2, 1),
    "0": (0,),
}
OPTIONAL = {"tensor", "plain", "words", "below", "number", "shared"}
"""Kinds of field that may be absent."""


class Builder:
    """Makes random containers."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.shift, self.lazy = rng, 0, False

    def make(self, *shape: int) -> Tensor:
        """Small numbers of a random dtype."""
        return self.numbers(shape, self.rng.choice(DTYPES))

    def numbers(self, shape: Size, dtype: torch.dtype) -> Tensor:
        """Small numbers of a dtype."""
        counted = torch.arange(torch.Size(shape).numel()).reshape(shape) + self.rng.randint(0, 5) + self.shift
        return counted % 3 == 0 if dtype is torch.bool else (counted % 50).to(dtype)

    def dict(self, size: Size, depth: int = 0) -> TensorDict:
        """An untyped container with up to four entries of any kind."""
        many = self.rng.randint(0 if depth else 1, 4)
        found = {key: self.entry(size, depth) for key in self.rng.sample(NAMES, many)}
        return TensorDict(found, batch_size=list(size))

    def entry(self, size: Size, depth: int) -> Any:
        """A tensor, or something else."""
        pick, rng = self.rng.randrange(16), self.rng
        if pick < 7 or (pick < 11 and depth > 1):
            return self.make(*size, *rng.choice(EVENTS))
        if pick < 9:
            return self.dict(size, depth + 1)
        if pick == 9:
            return self.dict((*size, rng.choice([1, 2])), depth + 1)
        if pick == 10:
            stack = self.stack(lambda inner: self.dict(inner, depth + 1), size)
            return self.dict(size, depth + 1) if stack is None else stack
        if pick == 11:
            return objects(*size)
        if pick == 12:
            return Unbatched(torch.ones(rng.choice(EVENTS), dtype=rng.choice(DTYPES)))  # members of a stack share it
        if pick == 13:
            return self.ragged(size)
        return self.make(*size) if self.lazy else rng.choice(["scan", None])  # a stack joins those of its members

    def stack(self, make: Callable[[Size], Any], size: Size) -> Any:
        """A lazy stack of one structure; None where the size has no dim to stack."""
        if not size or 0 in size:
            return None
        dim = self.rng.randrange(len(size))
        state, lazy, self.lazy = self.rng.getstate(), self.lazy, True
        members = []
        for _ in range(size[dim]):
            self.rng.setstate(state)  # the same structure and the same dtypes
            self.shift += 1
            members.append(make((*size[:dim], *size[dim + 1 :])))
        self.lazy = lazy
        return lazy_stack(members, dim)

    def ragged(self, size: Size, *event: int) -> Any:
        """An entry of 0 to 3 rows an element; a plain tensor where there is no element."""
        if not size or 0 in size:
            return self.make(*size, 2, *event)
        lengths = torch.tensor([self.rng.randint(0, 3) for _ in range(torch.Size(size).numel())]).reshape(size)
        lengths.reshape(-1)[0] = 2
        return RaggedTensor.unpad(self.make(*size, 3, *event), lengths)

    # ---- typed ---------------------------------------------------------------------------------------------------

    def typed(self, size: Size, depth: int = 0) -> Any:
        """An instance of a new class."""
        fields = {key: self.field(depth) for key in self.rng.sample(NAMES, self.rng.randint(1, 4))}
        cls = declare({key: kind for key, (kind, _) in fields.items()})
        return cls(**{key: value(size) for key, (_, value) in fields.items()}, batch_size=list(size))

    def field(self, depth: int) -> Declared:
        """A declaration, and what makes a value of it for a batch size."""
        kinds = (
            ["tensor", "tensor", "tensor", "tensor", "plain"]
            + ["words", "number", "shared", "ragged", "loose"]
            + ["below"] * (2 if depth < 2 else 0)
        )
        name = self.rng.choice(kinds)
        kind, value = getattr(self, f"_{name}")(depth)
        if name in OPTIONAL and self.rng.random() < 0.25:
            absent = self.rng.random() < 0.5
            return kind | None, (lambda size: None) if absent else value
        return kind, value

    def _tensor(self, depth: int) -> Declared:
        family = self.rng.choice(list(FAMILIES))
        dtype, dims = self.rng.choice(FAMILIES[family]), self.rng.choice(list(DIMS))
        return family[Tensor, dims], lambda size: self.numbers((*size, *DIMS[dims]), dtype)

    def _plain(self, depth: int) -> Declared:
        event, dtype = self.rng.choice(EVENTS), self.rng.choice(DTYPES)
        return Tensor, lambda size: self.numbers((*size, *event), dtype)

    def _shared(self, depth: int) -> Declared:
        family = self.rng.choice(list(FAMILIES))
        dtype = self.rng.choice(FAMILIES[family])
        return Shared[family[Tensor, "k"]], lambda size: self.numbers((2,), dtype)

    def _words(self, depth: int) -> Declared:
        return PerElement[str], lambda size: objects(*size) if size else "o7"

    def _number(self, depth: int) -> Declared:
        kind, value = self.rng.choice([(int, 3), (str, "scan"), (bool, True)])
        return kind, lambda size: value

    def _ragged(self, depth: int) -> Declared:
        event = self.rng.choice([(), (2,)])
        dtype = self.rng.choice(DTYPES)

        def value(size: Size) -> Any:
            lengths = torch.tensor([self.rng.randint(0, 3) for _ in range(torch.Size(size).numel())], dtype=torch.int64)
            return RaggedTensor.unpad(self.numbers((*size, 3, *event), dtype), lengths.reshape(size))

        return Ragged[Tensor, f"t{next(_COUNT)} 2" if event else f"t{next(_COUNT)}"], value

    def _loose(self, depth: int) -> Declared:
        return TensorDict, lambda size: TensorDict({"d": self.make(*size, 2)}, batch_size=list(size))

    def _below(self, depth: int) -> Declared:
        fields = {key: self.field(depth + 1) for key in self.rng.sample(NAMES, self.rng.randint(1, 3))}
        cls = declare({key: kind for key, (kind, _) in fields.items()})
        more = self.rng.choice([(), (), (2,)])

        def value(size: Size) -> Any:
            inner = (*size, *more)
            return cls(**{key: make(inner) for key, (_, make) in fields.items()}, batch_size=list(inner))

        return cls, value


def declare(fields: dict[str, Any]) -> Any:
    """A class with these fields, which a pickle finds; those that may be absent come last."""
    late = {key: kind for key, kind in fields.items() if type(None) in getattr(kind, "__args__", ())}
    ordered = {key: kind for key, kind in fields.items() if key not in late} | late
    space = {"__annotations__": ordered, "__module__": __name__, **dict.fromkeys(late)}
    name = f"Drawn{next(_COUNT) % 64}"  # old ones make room
    cls = new_class(name, (TensorClass,), {}, lambda given: given.update(space))
    setattr(sys.modules[__name__], name, cls)
    return cls


def untyped(seed: int) -> Any:
    """A random container, or a lazy stack of them."""
    rng = random.Random(seed)
    size, builder = rng.choice(SIZES), Builder(rng)
    stack = builder.stack(builder.dict, size) if rng.random() < 0.2 else None
    return builder.dict(size) if stack is None else stack


def typed(seed: int) -> Any:
    """A random instance of a random class, or a lazy stack of them."""
    rng = random.Random(seed)
    size, builder = rng.choice(SIZES), Builder(rng)
    whole = builder.typed(size)
    if size and 0 not in size and rng.random() < 0.2:
        dim = rng.randrange(len(size))
        return lazy_stack([part.clone() for part in whole.unbind(dim)], dim)
    return whole


def admits(container: Any, leaves: dict[tuple[str, ...], Tensor], path: tuple[str, ...] = ()) -> bool:
    """Whether the dtypes that typed containers declare, at all depths, take these leaves."""
    schema = getattr(type(container), "__tensorclass_schema__", None)
    for name, spec in schema.fields.items() if schema else ():
        leaf = leaves.get((*path, name))
        if spec.spec is not None and leaf is not None and not spec.spec.dtype.accepts(leaf.dtype):
            return False
    if container._stacked:
        members = getattr(container, "_store", container).tensordicts
        return all(admits(member, leaves, path) for member in members)
    inner = [
        (key, container.get(key)) for key, value in container._entries().items() if isinstance(value, TensorCollection)
    ]
    return all(admits(value, leaves, (*path, key)) for key, value in inner)


def uneven(container: Any) -> bool:
    """Whether there are lazy stacks or ragged entries, of which elements may differ."""
    if container._stacked:
        return True
    values = container._entries().values()
    inner = [value for value in values if isinstance(value, TensorCollection)]
    return any(isinstance(value, RaggedTensor) for value in values) or any(map(uneven, inner))
