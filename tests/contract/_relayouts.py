"""Operations on keys and writes in place, beside the same on a plain dict of tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tensorclass.core import BATCHED, VALUES
from tests.contract._model import ROLES, TENSORS, Model, Path, Size
from tests.contract._operations import OPS, Op, checker, event, mask_of, other, relaid, turned

# ---- another layout of the same leaves -------------------------------------------------------------------------------


def paths(c: Any) -> list[Path]:
    """The path of every entry that holds tensors and is no container, in lexical order."""
    return sorted(key if isinstance(key, tuple) else (key,) for key in c.keys(include_nested=True, leaves_only=True))


def first(c: Any) -> Path:
    """One of them, or a key that is absent."""
    return next(iter(paths(c)), ("absent",))


def _first(m: Model) -> Path:
    return min([path for path in m.leaves if m.roles.get(path) != "objects"], default=("absent",))


def _keep(wanted: Callable[[Path, Model], bool]) -> Callable[[Model], Model]:
    return lambda m: m.moved(lambda path: path if wanted(path, m) else None)


def _bare_nests(m: Model) -> Model:
    """The same with nested containers that hold nothing."""
    new = Model(m.size)
    new.nests = dict(m.nests)
    return new


def _kept_nests(m: Model, moved: Model) -> Model:
    return replace(moved, nests=dict(m.nests))


relaid("select", lambda c: c.select(first(c), strict=False), _keep(lambda path, m: path == _first(m)))
relaid("select(top)", lambda c: c.select(*c.keys()), lambda m: m)
relaid("select()", lambda c: c.select(), lambda m: Model(m.size))
relaid("select(absent)", lambda c: c.select("absent", ("n", "absent"), strict=False), lambda m: Model(m.size))
relaid(
    "exclude",
    lambda c: c.exclude(first(c)),
    lambda m: _kept_nests(m, m.moved(lambda path: None if path == _first(m) else path)),
)
relaid("exclude(absent)", lambda c: c.exclude("absent"), lambda m: m)
relaid("exclude(top)", lambda c: c.exclude(*c.keys()), lambda m: Model(m.size))
relaid(
    "rename_keys",
    lambda c: c.rename_keys({first(c): ("x", "y")}, strict=False),
    lambda m: _renamed(m, _first(m), ("x", "y")),
)
relaid("rename_keys(swap)", lambda c: c.rename_keys({p: p for p in paths(c)[:1]}), lambda m: m)
relaid(
    "flatten_keys", lambda c: c.flatten_keys("/"), lambda m: replace(m.moved(lambda path: ("/".join(path),)), nests={})
)
relaid("flatten and unflatten", lambda c: c.flatten_keys().unflatten_keys(), lambda m: m, loose=True)
relaid("unflatten_keys", lambda c: c.unflatten_keys(), lambda m: m)
relaid(
    "filter_non_tensor_data",
    lambda c: c.filter_non_tensor_data(),
    lambda m: _kept_nests(m, m.moved(lambda path: path if m.roles.get(path) in ("tensor", "shared") else None)),
)
relaid("empty", lambda c: c.empty(), lambda m: Model(m.size))
relaid("empty(recurse)", lambda c: c.empty(recurse=True), _bare_nests)
relaid(
    "split_keys",
    lambda c: c.split_keys([first(c)], strict=False),
    lambda m: [_keep(lambda path, m: path == _first(m))(m), _keep(lambda path, m: path != _first(m))(m)],
    loose=True,
)


def _renamed(m: Model, old: Path, new: Path) -> Model:
    if old not in m.paths():
        return m
    moved = m.moved(lambda path: new if path == old else path)
    return replace(moved, nests={**m.nests, new[:1]: ()})


# ---- entries of the container itself ---------------------------------------------------------------------------------


def changes(name: str, call: Callable[[Any], Any], model: Callable[[Model], Model], **options: Any) -> None:
    """Register an operation that changes the entries of the container it is called on."""
    OPS.append(Op(name, call, model, **{"restructures": True, "names": True, "untyped": True, **options}))


def _with(m: Model, path: Path, leaf: Tensor) -> Model:
    nests = {path[:depth]: () for depth in range(1, len(path)) if path[:depth] not in m.nests}
    new = replace(m, leaves={**m.leaves, path: leaf}, roles={**m.roles, path: "tensor"}, nests={**m.nests, **nests})
    new.statics = {key: value for key, value in m.statics.items() if key != path}
    return new


def ones(size: Any) -> Tensor:
    """A value for the batch."""
    return torch.ones(*size, 2)


changes("set", lambda c: c.set("fresh", ones(c.batch_size)), lambda m: _with(m, ("fresh",), ones(m.size)))
changes(
    "set(path)",
    lambda c: c.set(("fresh", "deep"), ones(c.batch_size)),
    lambda m: _with(m, ("fresh", "deep"), ones(m.size)),
)
changes(
    "update(dict)",
    lambda c: c.update({"fresh": {"x": ones(c.batch_size)}}),
    lambda m: _with(m, ("fresh", "x"), ones(m.size)),
)
changes(
    "update(path)",
    lambda c: c.update({("fresh", "x"): ones(c.batch_size)}),
    lambda m: _with(m, ("fresh", "x"), ones(m.size)),
)
changes("update(kwargs)", lambda c: c.update(fresh=ones(c.batch_size)), lambda m: _with(m, ("fresh",), ones(m.size)))
changes("create_nested", lambda c: c.create_nested("fresh"), lambda m: replace(m, nests={**m.nests, ("fresh",): ()}))
changes("clear", lambda c: c.clear(), lambda m: Model(m.size))
changes(
    "exclude(inplace)",
    lambda c: c.exclude(first(c), inplace=True),
    lambda m: _kept_nests(m, m.moved(lambda path: None if path == _first(m) else path)),
)
changes(
    "select(inplace)",
    lambda c: c.select(first(c), inplace=True, strict=False),
    _keep(lambda path, m: path == _first(m)),
)
changes(
    "flatten_keys(inplace)",
    lambda c: c.flatten_keys("/", inplace=True),
    lambda m: replace(m.moved(lambda path: ("/".join(path),)), nests={}),
)
changes("filter_empty_", lambda c: c.filter_empty_(), _keep(lambda path, m: True))
changes(
    "flatten(inplace)",
    lambda c: c.flatten(inplace=True),
    untyped=False,
    names=False,
    model=lambda m: m.map(lambda t, s: t.reshape(torch.Size(s).numel(), *event(t, s))),
)
changes("roll(inplace)", lambda c: c.roll(0, inplace=True), lambda m: m, untyped=False)
changes("contiguous(inplace)", lambda c: c.contiguous(inplace=True), lambda m: m, untyped=False)

# ---- values in place -------------------------------------------------------------------------------------------------


def writes(
    name: str,
    call: Callable[[Any], Any],
    leaf: Callable[[Tensor, Size], Tensor],
    dims: int = 0,
    touches: int = BATCHED,
    most: int = 9,
) -> None:
    """Register a write into the tensors of the container it is called on; the leaf function gives what they become."""

    def model(m: Model) -> Model:
        touched = {p: leaf(v.detach(), m.size) for p, v in m.leaves.items() if m.roles[p] in ROLES[touches]}
        return replace(m, leaves={**m.leaves, **touched})

    OPS.append(Op(name, call, model, lambda s: most >= len(s) >= dims and 0 not in s[:dims], names=True, writes=True))


def _put(index: Any, value: Callable[[Tensor, Size], Tensor]) -> Callable[[Tensor, Size], Tensor]:
    def leaf(t: Tensor, s: Size) -> Tensor:
        new = t.clone()
        new[index] = value(t, s)
        return new

    return leaf


def assign(index: Any, value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`batch[index] = value(batch)` as an expression."""

    def call(c: Any) -> Any:
        c[index] = value(c)
        return c

    return call


writes("zero_", lambda c: c.zero_(), lambda t, s: torch.zeros_like(t), touches=VALUES)
writes("copy_", lambda c: c.copy_(other(c)), turned)
writes("update_", lambda c: c.update_(other(c)), turned)
writes("update(inplace)", lambda c: c.update(other(c).filter_non_tensor_data(), inplace=True), turned, touches=TENSORS)
writes("apply_", lambda c: c.apply_(lambda t: t.flip(0) if c.ndim else t.clone()), turned, touches=VALUES)
writes("copy_at_", lambda c: c.copy_at_(c[-1], 0), _put(0, lambda t, s: t[-1]), dims=1)
writes("update_at_", lambda c: c.update_at_(c[-1], 0), _put(0, lambda t, s: t[-1]), dims=1)
writes("[int] =", assign(0, lambda c: c[-1].clone()), _put(0, lambda t, s: t[-1]), dims=1)
writes(
    "[slice] =", assign(slice(1, None), lambda c: c[0].clone()), _put(slice(1, None), lambda t, s: t[0].clone()), dims=1
)
writes("[slice] = alike", assign(slice(0, 1), lambda c: c[-1:].clone()), _put(slice(0, 1), lambda t, s: t[-1:]), dims=1)
writes("[list] =", assign([0], lambda c: c[-1:].clone()), _put([0], lambda t, s: t[-1:]), dims=1)
writes("[tensor] =", assign(torch.tensor([0, 0]), lambda c: c[-1].clone()), _put([0], lambda t, s: t[-1]), dims=1)
writes("[...] =", assign(..., lambda c: other(c).clone()), turned)
writes(
    "[:, 0] =",
    assign((slice(None), 0), lambda c: c[:, -1].clone()),
    _put((slice(None), 0), lambda t, s: t[:, -1]),
    dims=2,
)
writes(
    "[mask] =",
    lambda c: assign(checker(tuple(c.batch_size)), lambda c: c[-1, -1].clone())(c),
    lambda t, s: torch.where(mask_of(t, s), t[-1, -1], t),
    dims=2,
    most=2,
)
writes(
    "masked_fill_",
    lambda c: c.masked_fill_(checker(tuple(c.batch_size)), 1),
    lambda t, s: t.masked_fill(mask_of(t, s), 1),
    touches=TENSORS,
)
