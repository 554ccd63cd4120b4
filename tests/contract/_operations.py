"""Every operation that is no pointwise row: how a container does it, and how a plain dict of tensors does it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from tensorclass import TensorDict
from tensorclass.core import BATCHED, STORAGE, VALUES
from tests.contract._model import CASTS, TENSORS, LeafFn, Model, Size

Suits: TypeAlias = "Callable[[Size], bool]"


@dataclass(frozen=True)
class Op:
    """One operation with its arguments.

    Args:
        name: what stands in the test's id.
        call: the operation on a container.
        model: the same on plain data; several results are a list.
        suits: the batch sizes for which the arguments are legal.
        names: whether dim names stay as they are.
        untyped: whether a typed class gives a `TensorDict`, because the result has another schema.
        writes: whether it writes the values of the container it is called on, and gives that container back.
        restructures: whether it changes the entries or the batch size of the container it is called on.
        loose: whether the model says nothing about nested containers.
        schemaless: whether a declared schema forbids it.
        shares: whether the result holds the nested containers that were put in, as a dict does.
    """

    name: str
    call: Callable[[Any], Any]
    model: Callable[[Model], Any]
    suits: Suits = lambda size: True
    names: bool = False
    untyped: bool = False
    writes: bool = False
    restructures: bool = False
    loose: bool = False
    shares: bool = False
    schemaless: bool = False


OPS: list[Op] = []


def leafwise(
    name: str, call: Callable[[Any], Any], leaf: LeafFn, *, dims: int = 0, touches: int = BATCHED, **options: Any
) -> None:
    """Register an operation that does the same to every leaf; `dims` batch dims are needed."""
    suits = options.pop("suits", lambda size: True)
    model = lambda m: m.map(leaf, touches)  # noqa: E731  # a closure over this row
    OPS.append(Op(name, call, model, lambda size: len(size) >= dims and suits(size), **options))


def relaid(name: str, call: Callable[[Any], Any], model: Callable[[Model], Any], **options: Any) -> None:
    """Register an operation on keys."""
    OPS.append(Op(name, call, model, **{"untyped": True, "names": True, **options}))


def event(leaf: Tensor, size: Size) -> Size:
    """The dims of a leaf behind the batch dims."""
    return tuple(leaf.shape[len(size) :])


def rest(leaf: Tensor, size: Size) -> range:
    """The positions of those dims."""
    return range(len(size), leaf.ndim)


def _nonzero(size: Size) -> bool:
    return 0 not in size


# ---- shape -----------------------------------------------------------------------------------------------------------

for _method in ("reshape", "view"):
    leafwise(
        f"{_method}(-1)",
        lambda c, m=_method: getattr(c, m)(-1),
        lambda t, s, m=_method: getattr(t, m)(torch.Size(s).numel(), *event(t, s)),
        suits=_nonzero,
    )
    leafwise(
        f"{_method}(same)",
        lambda c, m=_method: getattr(c, m)(c.batch_size),
        lambda t, s, m=_method: getattr(t, m)(t.shape),
        names=True,
    )
    leafwise(
        f"{_method}(1, *size)",
        lambda c, m=_method: getattr(c, m)(1, *c.batch_size),
        lambda t, s, m=_method: getattr(t, m)(1, *t.shape),
    )
    leafwise(
        f"{_method}(reversed)",
        lambda c, m=_method: getattr(c, m)(list(c.batch_size)[::-1]),
        lambda t, s, m=_method: getattr(t, m)(*s[::-1], *event(t, s)),
        dims=2,
    )
leafwise("flatten", lambda c: c.flatten(), lambda t, s: t.reshape(torch.Size(s).numel(), *event(t, s)))
leafwise("flatten(0, 1)", lambda c: c.flatten(0, 1), lambda t, s: t.flatten(0, 1), dims=2)
leafwise("flatten(-1)", lambda c: c.flatten(-1), lambda t, s: t.clone(), dims=1, names=True)
leafwise("unflatten(0)", lambda c: c.unflatten(0, (1, -1)), lambda t, s: t.unsqueeze(0), dims=1, suits=_nonzero)
leafwise("unflatten(-1)", lambda c: c.unflatten(-1, [c.batch_size[-1], 1]), lambda t, s: t.unsqueeze(len(s)), dims=1)
leafwise("unsqueeze(0)", lambda c: c.unsqueeze(0), lambda t, s: t.unsqueeze(0))
leafwise("unsqueeze(-1)", lambda c: c.unsqueeze(-1), lambda t, s: t.unsqueeze(len(s)))
leafwise("unsqueeze(-2)", lambda c: c.unsqueeze(-2), lambda t, s: t.unsqueeze(len(s) - 1), dims=1)
leafwise("squeeze", lambda c: c.squeeze(), lambda t, s: t.reshape([n for n in s if n != 1] + list(event(t, s))))
leafwise("squeeze(0)", lambda c: c.squeeze(0), lambda t, s: t.squeeze(0), dims=1)
leafwise("squeeze(-1)", lambda c: c.squeeze(-1), lambda t, s: t.squeeze(len(s) - 1), dims=1)
leafwise(
    "permute(reversed)",
    lambda c: c.permute(*reversed(range(c.ndim))),
    lambda t, s: t.permute(*reversed(range(len(s))), *rest(t, s)),
    dims=1,
)
leafwise(
    "permute(list)",
    lambda c: c.permute([-1, *range(c.ndim - 1)]),
    lambda t, s: t.permute(len(s) - 1, *range(len(s) - 1), *rest(t, s)),
    dims=1,
)
leafwise("permute(same)", lambda c: c.permute(*range(c.ndim)), lambda t, s: t, dims=1, names=True)
for _method in ("transpose", "swapaxes", "swapdims"):
    leafwise(
        f"{_method}(0, -1)", lambda c, m=_method: getattr(c, m)(0, -1), lambda t, s: t.transpose(0, len(s) - 1), dims=1
    )
for _method in ("movedim", "moveaxis"):
    leafwise(
        f"{_method}(0, -1)", lambda c, m=_method: getattr(c, m)(0, -1), lambda t, s: t.movedim(0, len(s) - 1), dims=1
    )
    leafwise(
        f"{_method}(pairs)",
        lambda c, m=_method: getattr(c, m)((0, 1), (-1, 0)),
        lambda t, s: t.movedim((0, 1), (len(s) - 1, 0)),
        dims=2,
    )
leafwise("flip(0)", lambda c: c.flip(0), lambda t, s: t.flip(0), dims=1, names=True)
leafwise("flip(all)", lambda c: c.flip(list(range(-c.ndim, 0))), lambda t, s: t.flip(list(range(len(s)))), names=True)
leafwise("fliplr", lambda c: c.fliplr(), lambda t, s: t.flip(1), dims=2, names=True)
leafwise("flipud", lambda c: c.flipud(), lambda t, s: t.flip(0), dims=1, names=True)
leafwise(
    "roll(1)",
    lambda c: c.roll(1),
    lambda t, s: t.reshape(torch.Size(s).numel(), *event(t, s)).roll(1, 0).reshape(t.shape),
    names=True,
)
leafwise("roll(-1, -1)", lambda c: c.roll(-1, -1), lambda t, s: t.roll(-1, len(s) - 1), dims=1, names=True)
leafwise("roll(pair)", lambda c: c.roll((1, 2), (0, 1)), lambda t, s: t.roll((1, 2), (0, 1)), dims=2, names=True)
leafwise("rot90", lambda c: c.rot90(), lambda t, s: torch.rot90(t), dims=2)
leafwise("rot90(3, (1, 0))", lambda c: c.rot90(3, (1, 0)), lambda t, s: torch.rot90(t, 3, (1, 0)), dims=2)
leafwise("expand(2, ...)", lambda c: c.expand(2, *c.batch_size), lambda t, s: t.expand(2, *t.shape))
leafwise("expand(2, -1...)", lambda c: c.expand(2, *[-1] * c.ndim), lambda t, s: t.expand(2, *t.shape))
leafwise("expand(list)", lambda c: c.expand([3, *c.batch_size]), lambda t, s: t.expand(3, *t.shape))
leafwise("expand_as", lambda c: c.expand_as(torch.zeros(2, *c.batch_size)), lambda t, s: t.expand(2, *t.shape))
leafwise("broadcast_to", lambda c: c.broadcast_to((2, *c.batch_size)), lambda t, s: t.expand(2, *t.shape))
leafwise(
    "repeat",
    lambda c: c.repeat(*[2] * c.ndim),
    lambda t, s: t.repeat(*[2] * len(s), *[1] * len(event(t, s))),
    names=True,
    dims=1,
)
leafwise(
    "repeat(3, 1...)",
    lambda c: c.repeat([3, *[1] * (c.ndim - 1)]),
    lambda t, s: t.repeat(3, *[1] * (t.ndim - 1)),
    dims=1,
    names=True,
)
leafwise(
    "repeat(0...)",
    lambda c: c.repeat(*[0] * c.ndim),
    lambda t, s: t.new_empty(*[0] * len(s), *event(t, s)),
    dims=1,
    names=True,
)
leafwise("repeat_interleave(2, 0)", lambda c: c.repeat_interleave(2, 0), lambda t, s: t.repeat_interleave(2, 0), dims=1)
leafwise(
    "repeat_interleave(2, dim=-1)",
    lambda c: c.repeat_interleave(2, dim=-1),
    lambda t, s: t.repeat_interleave(2, len(s) - 1),
    dims=1,
)
leafwise(
    "repeat_interleave(2)",
    lambda c: c.repeat_interleave(2),
    lambda t, s: t.reshape(torch.Size(s).numel(), *event(t, s)).repeat_interleave(2, 0),
)
leafwise(
    "repeat_interleave(tensor)",
    lambda c: c.repeat_interleave(torch.arange(c.batch_size[0]), 0),
    lambda t, s: t.repeat_interleave(torch.arange(s[0]), 0),
    dims=1,
)
leafwise(
    "tile(2)", lambda c: c.tile((2,)), lambda t, s: t.repeat(*[1] * (len(s) - 1), 2, *[1] * len(event(t, s))), dims=1
)
leafwise("tile(more dims)", lambda c: c.tile([2] + [1] * c.ndim), lambda t, s: t.unsqueeze(0).repeat(2, *[1] * t.ndim))
leafwise("narrow(0)", lambda c: c.narrow(0, 0, 1), lambda t, s: t.narrow(0, 0, 1), dims=1, suits=_nonzero, names=True)
leafwise(
    "narrow(-1)",
    lambda c: c.narrow(-1, -1, 1),
    lambda t, s: t.narrow(len(s) - 1, -1, 1),
    dims=1,
    suits=lambda size: size[-1] > 0,
    names=True,
)
leafwise("contiguous", lambda c: c.contiguous(), lambda t, s: t.contiguous(), names=True)
leafwise("contiguous(canonical)", lambda c: c.contiguous(canonical=True), lambda t, s: t.contiguous(), names=True)
for _dims in (1, 2, 3):
    leafwise(
        f"atleast_{_dims}d",
        lambda c, d=_dims: getattr(c, f"atleast_{d}d")(),
        lambda t, s, d=_dims: t.reshape(*[1] * (d - len(s)), *t.shape),
    )

# ---- index -----------------------------------------------------------------------------------------------------------


def at(index: Callable[[Size], Any]) -> LeafFn:
    """Index a leaf by way of the positions that the index picks from the batch."""

    def leaf(t: Tensor, s: Size) -> Tensor:
        picked = torch.arange(torch.Size(s).numel()).reshape(s)[index(s)]
        return t.reshape(torch.Size(s).numel(), *event(t, s))[picked]

    return leaf


def long(*values: Any) -> Tensor:
    """An index tensor."""
    return torch.tensor(values, dtype=torch.int64)


def checker(size: Size) -> Tensor:
    """A mask that is true at every second element."""
    return torch.arange(torch.Size(size).numel()).reshape(size) % 2 == 0


def mask_of(t: Tensor, s: Size) -> Tensor:
    """The same over the dims of a leaf."""
    return checker(s).reshape(s + (1,) * len(event(t, s)))


INDICES: dict[str, tuple[int, Callable[[Size], Any]]] = {
    "int": (1, lambda s: 0),
    "negative": (1, lambda s: -1),
    "slice": (1, lambda s: slice(1, None)),
    "step": (1, lambda s: slice(None, None, 2)),
    "none of": (1, lambda s: slice(1, 1)),
    "beyond": (1, lambda s: slice(0, 99)),
    "all": (1, lambda s: slice(None)),
    "dots": (0, lambda s: ...),
    "new": (0, lambda s: None),
    "()": (0, lambda s: ()),
    "dots int": (1, lambda s: (..., 0)),
    "int dots": (1, lambda s: (0, ...)),
    "new int": (1, lambda s: (None, 0)),
    "slice new": (1, lambda s: (slice(None), None)),
    "dots new": (0, lambda s: (..., None)),
    "true": (0, lambda s: True),
    "false": (0, lambda s: False),
    "ints": (2, lambda s: (0, -1)),
    "slices": (2, lambda s: (slice(0, 1), slice(1, 3))),
    "slice int": (2, lambda s: (slice(None), 1)),
    "int slice": (2, lambda s: (1, slice(1, None))),
    "tensor": (1, lambda s: long(0, 0, -1)),
    "tensor2d": (1, lambda s: long([0, -1], [0, 0])),
    "tensor0d": (1, lambda s: torch.tensor(0)),
    "many": (1, lambda s: torch.zeros(20, dtype=torch.int64)),
    "int32": (1, lambda s: long(0).int()),
    "no rows": (1, lambda s: long()),
    "list": (1, lambda s: [0, -1]),
    "empty list": (1, lambda s: []),
    "bool list": (1, lambda s: [i % 2 == 0 for i in range(s[0])]),
    "array": (1, lambda s: np.array([0, -1])),
    "numpy int": (1, lambda s: np.int64(0)),
    "mask": (1, checker),
    "mask0": (1, lambda s: checker(s[:1])),
    "no mask": (1, lambda s: torch.zeros(s, dtype=torch.bool)),
    "array mask": (1, lambda s: checker(s).numpy()),
    "tensors": (2, lambda s: (long(0, 1), long(1, 0))),
    "outer": (2, lambda s: (long([0], [1]), long(1, 0))),
    "slice tensor": (2, lambda s: (slice(None), long(1, 0))),
    "tensor slice": (2, lambda s: (long(1, 0), slice(1, None))),
    "int tensor": (2, lambda s: (0, long(1, 0))),
    "tensor int": (2, lambda s: (long(1, 0), 1)),
    "tensor new tensor": (2, lambda s: (long(1, 0), None, long(0, 1))),
    "slice mask": (2, lambda s: (slice(None), checker(s[1:2]))),
    "dots tensor": (2, lambda s: (..., long(1, 0))),
    "lists": (2, lambda s: ([0, 1], [1, 0])),
    "tensor slice tensor": (3, lambda s: (long(0, 0), slice(None), long(0, 0))),
}


def _indexable(index: Callable[[Size], Any], dims: int) -> Suits:
    def suits(size: Size) -> bool:
        if len(size) < dims:
            return False
        try:
            torch.zeros(size)[index(size)]
        except IndexError:
            return False
        return True

    return suits


for _name, (_dims, _index) in INDICES.items():
    leafwise(f"[{_name}]", lambda c, i=_index: c[i(tuple(c.batch_size))], at(_index), suits=_indexable(_index, _dims))
leafwise("[range]", lambda c: c[range(c.batch_size[0] - 1)], lambda t, s: t[: s[0] - 1], dims=1, suits=_nonzero)
leafwise("__getitems__", lambda c: c.__getitems__([0, -1]), at(lambda s: long(0, -1)), dims=1, suits=_nonzero)
leafwise("masked_select", lambda c: c.masked_select(checker(tuple(c.batch_size))), at(checker), dims=1)
leafwise(
    "masked_select(row)", lambda c: c.masked_select(checker((c.batch_size[0],))), at(lambda s: checker(s[:1])), dims=1
)


def _gathered(dim: int) -> LeafFn:
    def leaf(t: Tensor, s: Size) -> Tensor:
        index = torch.zeros(s, dtype=torch.int64)
        return t.gather(dim % len(s), index.reshape(*s, *[1] * len(event(t, s))).expand(t.shape))

    return leaf


for _dims in (0, -1):
    leafwise(
        f"gather({_dims})",
        lambda c, d=_dims: c.gather(d, torch.zeros(c.batch_size, dtype=torch.int64)),
        _gathered(_dims),
        dims=1,
        suits=_nonzero,
        names=True,
    )

# ---- join and cut ----------------------------------------------------------------------------------------------------


def other(c: Any) -> Any:
    """A second container of the same structure with other elements."""
    return c.flip(0) if c.ndim else c.clone()


def turned(t: Tensor, s: Size) -> Tensor:
    """What `other` does to a leaf."""
    return t.flip(0) if s else t


for _where, _free in (("method", type), ("torch", lambda c: torch)):
    leafwise(
        f"{_where}.stack", lambda c, f=_free: f(c).stack([c, other(c)]), lambda t, s: torch.stack([t, turned(t, s)])
    )
    leafwise(
        f"{_where}.stack(-1)",
        lambda c, f=_free: f(c).stack((c, other(c)), -1),
        lambda t, s: torch.stack([t, turned(t, s)], len(s)),
    )
    leafwise(
        f"{_where}.cat",
        lambda c, f=_free: f(c).cat([c, other(c), c]),
        lambda t, s: torch.cat([t, turned(t, s), t]),
        dims=1,
        names=True,
    )
    leafwise(
        f"{_where}.cat(-1)",
        lambda c, f=_free: f(c).cat([c, other(c)], dim=-1),
        lambda t, s: torch.cat([t, turned(t, s)], len(s) - 1),
        dims=1,
        names=True,
    )
leafwise("stack(1)", lambda c: type(c).stack([c], 1), lambda t, s: t.unsqueeze(1), dims=1)
leafwise("maybe_dense_stack", lambda c: type(c).maybe_dense_stack([c, c]), lambda t, s: torch.stack([t, t]))
leafwise("split(1)", lambda c: c.split(1), lambda t, s: t.split(1), dims=1, names=True, suits=_nonzero)
leafwise("split(2, -1)", lambda c: c.split(2, -1), lambda t, s: t.split(2, len(s) - 1), dims=1, names=True)
leafwise("split([0, n])", lambda c: c.split([0, c.batch_size[0]]), lambda t, s: t.split([0, s[0]]), dims=1, names=True)
leafwise("tensor_split(2)", lambda c: c.tensor_split(2), lambda t, s: t.tensor_split(2), dims=1, names=True)
leafwise(
    "tensor_split([1], -1)",
    lambda c: c.tensor_split([1], -1),
    lambda t, s: t.tensor_split([1], len(s) - 1),
    dims=1,
    names=True,
)
leafwise("chunk(2)", lambda c: c.chunk(2), lambda t, s: t.chunk(2), dims=1, names=True)
leafwise("chunk(9, -1)", lambda c: c.chunk(9, -1), lambda t, s: t.chunk(9, len(s) - 1), dims=1, names=True)
leafwise("unbind", lambda c: c.unbind(), lambda t, s: t.unbind(), dims=1)
leafwise("unbind(-1)", lambda c: c.unbind(-1), lambda t, s: t.unbind(len(s) - 1), dims=1)
leafwise("iter", list, lambda t, s: t.unbind(), dims=1)
leafwise("reversed", lambda c: list(reversed(c)), lambda t, s: t.unbind()[::-1], dims=1)

# ---- copies, device, dtype, fresh leaves, apply ----------------------------------------------------------------------

for _name, _copy in {
    "clone": lambda c: c.clone(),
    "clone(False)": lambda c: c.clone(recurse=False),
    "copy": lambda c: c.copy(),
    "copy.copy": copy.copy,
    "replace": lambda c: c.replace(),
    "to()": lambda c: c.to(),
    "to(cpu)": lambda c: c.to("cpu"),
    "to(device=)": lambda c: c.to(device=torch.device("cpu")),
    "cpu": lambda c: c.cpu(),
    "to(batch_size)": lambda c: c.to(batch_size=c.batch_size),
    "as_tensor": lambda c: c.as_tensor(),
    "torch.clone": torch.clone,
}.items():
    leafwise(_name, _copy, lambda t, s: t, touches=STORAGE, names=True)


def _without_batch(m: Model) -> Model:
    return replace(m, size=(), nests={path: (*m.size, *tail) for path, tail in m.nests.items()})


OPS.append(Op("to(batch_size=[])", lambda c: c.to(batch_size=[]), _without_batch, schemaless=True))


def cast(dtype: torch.dtype) -> LeafFn:
    """A cast of one leaf."""
    return lambda t, s: t.to(dtype)


for _dtype in (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.bool,
    torch.complex64,
    torch.complex128,
):
    leafwise(f"to({_dtype})", lambda c, d=_dtype: c.to(d), cast(_dtype), touches=CASTS, names=True)
    leafwise(
        str(_dtype).split(".")[1],
        lambda c, d=_dtype: getattr(c, str(d).split(".")[1])(),
        cast(_dtype),
        touches=CASTS,
        names=True,
    )
for _name, _dtype in {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "int": torch.int32,
}.items():
    leafwise(f"{_name}()", lambda c, n=_name: getattr(c, n)(), cast(_dtype), touches=CASTS, names=True)
leafwise("type", lambda c: c.type(torch.float64), cast(torch.float64), touches=CASTS, names=True)
leafwise(
    "to(tensor)", lambda c: c.to(torch.zeros(1, dtype=torch.float64)), cast(torch.float64), touches=CASTS, names=True
)


def blank(m: Model, size: Size, value: Any, keeps: bool = False) -> Model:
    """Leaves filled with a number; objects stay in a container like this one, else are the one object that there is."""
    new = Model(size, dict(m.leaves), m.roles, m.statics, m.nests)
    keeps = keeps or size == m.size
    for path, leaf in m.leaves.items():
        if m.roles[path] == "valid":
            if not keeps:
                raise RuntimeError("elements differ, and nothing says which of them new elements are like")
        elif m.roles[path] == "objects":
            shape = (*size, *event(leaf, m.size))
            if not keeps and 0 not in size and leaf.ndim and len(leaf.unique()) != 1:
                raise RuntimeError("the objects differ, and nothing says which of them new elements have")
            first = leaf.reshape(-1)[0] if leaf.numel() else torch.tensor(0)
            new.leaves[path] = leaf if keeps else first.expand(shape)
        else:
            shape = leaf.shape if m.roles[path] == "shared" else (*size, *event(leaf, m.size))
            new.leaves[path] = torch.full(shape, value, dtype=leaf.dtype)
    return new


for _name, _value in {"new_zeros": 0, "new_ones": 1}.items():
    OPS.append(Op(_name, lambda c, n=_name: getattr(c, n)(4, 1), lambda m, v=_value: blank(m, (4, 1), v)))
    OPS.append(Op(f"{_name}([])", lambda c, n=_name: getattr(c, n)([]), lambda m, v=_value: blank(m, (), v)))
OPS.append(Op("new_full", lambda c: c.new_full((2,), 1), lambda m: blank(m, (2,), 1)))
for _fn, _value in {torch.zeros_like: 0, torch.ones_like: 1}.items():
    OPS.append(Op(_fn.__name__, _fn, lambda m, v=_value: blank(m, m.size, v, True), names=True))
OPS.append(Op("full_like", lambda c: torch.full_like(c, 1), lambda m: blank(m, m.size, 1, True), names=True))

leafwise("apply(same)", lambda c: c.apply(lambda t: t), lambda t, s: t, touches=VALUES, names=True)
leafwise("apply(==)", lambda c: c.apply(lambda t: t == t), lambda t, s: t == t, touches=VALUES, names=True)
leafwise("apply(two)", lambda c: c.apply(lambda a, b: a == b, c), lambda t, s: t == t, touches=VALUES, names=True)


def _one_more_dim(m: Model) -> Model:
    kept = [m.leaves[path] for path, role in m.roles.items() if role in ("objects", "shared")]
    if any(
        leaf.shape[: len(m.size) + 1] != (1, *m.size) for leaf in kept
    ):  # further batch dims of a nested one may fit
        raise RuntimeError("a function on tensors gives objects no other batch size")
    return m.map(lambda t, s: t.unsqueeze(0), TENSORS)  # type: ignore[no-any-return]  # one result


OPS.append(
    Op(
        "apply(batch_size)",
        lambda c: c.apply(lambda t: t.unsqueeze(0), batch_size=[1, *c.batch_size]),
        _one_more_dim,
        loose=True,
    )
)
leafwise("named_apply", lambda c: c.named_apply(lambda key, t: t != t), lambda t, s: t != t, touches=VALUES, names=True)
leafwise(
    "named_apply(nested)",
    lambda c: c.named_apply(lambda key, t: t.clone(), nested_keys=True),
    lambda t, s: t,
    touches=VALUES,
    names=True,
)
leafwise(
    "masked_fill",
    lambda c: c.masked_fill(checker(tuple(c.batch_size)), 1),
    lambda t, s: t.masked_fill(mask_of(t, s), 1),
    names=True,
    touches=TENSORS,
)
leafwise(
    "where",
    lambda c: c.where(checker(tuple(c.batch_size)), other(c)),
    lambda t, s: torch.where(mask_of(t, s), t, turned(t, s)),
    names=True,
)
leafwise(
    "torch.where",
    lambda c: torch.where(checker(tuple(c.batch_size)), c, other(c)),
    lambda t, s: torch.where(mask_of(t, s), t, turned(t, s)),
    names=True,
)


relaid("deepcopy", copy.deepcopy, lambda m: m.frozen(), untyped=False)
relaid("TensorDict", lambda c: TensorDict(c, names=c.names), lambda m: m, shares=True)
