"""Lazy stacks against the anchor, which is only run: batch sizes, stack dims, keys and values, call by call."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor

import tensorclass

anchor = pytest.importorskip("tensordict")


def even(library: Any, dim: int = 0) -> Any:
    """Members of one structure."""
    return library.lazy_stack(
        [
            library.TensorDict(
                {
                    "a": torch.arange(8.0).reshape(4, 2) + i,
                    "b": library.TensorDict(c=torch.full((4,), i), batch_size=[4]),
                },
                batch_size=[4],
            )
            for i in range(3)
        ],
        dim,
    )


def ragged(library: Any) -> Any:
    """Members of different batch sizes."""
    return library.lazy_stack(
        [library.TensorDict(a=torch.arange(i + 2.0), batch_size=[i + 2]) for i in range(3)],
        0,
    )


def uneven(library: Any) -> Any:
    """Members of different event shapes, with keys of their own."""
    parts = [library.TensorDict(a=torch.arange(i + 2.0)) for i in range(3)]
    parts[2]["only"] = torch.ones(1)
    return library.lazy_stack(parts, 0)


def summary(value: Any) -> Any:
    """What both libraries must agree on: sizes, stack dim, and every entry as far down as it goes."""
    if isinstance(value, (list, tuple)):
        return [summary(part) for part in value]
    if isinstance(value, Tensor):
        parts = value.unbind() if value.is_nested else None
        return [part.tolist() for part in parts] if parts is not None else (value.dtype, value.tolist())
    if hasattr(value, "batch_size"):
        size = tuple(value.batch_size)
        if hasattr(value, "stack_dim"):
            return (size, [summary(part) for part in value.unbind(value.stack_dim)])
        return (size, {key: summary(value.get(key)) for key in sorted(value.keys())})
    return value


def values(value: Any) -> Any:
    """The same, where one library gives a dense container and the other a lazy one."""
    if isinstance(value, (list, tuple)):
        return [values(part) for part in value]
    return (tuple(value.batch_size), {key: summary(value[key]) for key in sorted(value.keys(True, True), key=str)})


def ones(library: Any, *size: int) -> Any:
    """A container whose structure is that of the even members."""
    inner = library.TensorDict(c=torch.ones(size, dtype=torch.int64), batch_size=size)
    return library.TensorDict({"a": torch.ones(*size, 2), "b": inner}, batch_size=size)


def first(stack: Any) -> Any:
    """The first member."""
    return stack.unbind(stack.stack_dim)[0]


def changed(stack: Any, change: Callable[[Any], Any]) -> Any:
    """The stack after a call that writes to it."""
    change(stack)
    return stack


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "[0]": lambda lib, s: s[0],
    "[-1]": lambda lib, s: s[-1],
    "[1:]": lambda lib, s: s[1:],
    "[None]": lambda lib, s: s[None],
    "[...]": lambda lib, s: s[...],
    "[tensor]": lambda lib, s: s[torch.tensor([0, 2])],
    "[mask]": lambda lib, s: s[torch.arange(s.batch_size[0]) % 2 == 0],
    "[:, 0]": lambda lib, s: s[:, 0],
    "[:, 1:]": lambda lib, s: s[:, 1:],
    "[0, 1]": lambda lib, s: s[0, 1],
    "[1, :]": lambda lib, s: s[1, :],
    "[pairs]": lambda lib, s: s[torch.tensor([0, 1]), torch.tensor([1, 0])],
    "clone": lambda lib, s: s.clone(),
    "copy": lambda lib, s: s.copy(),
    "unsqueeze(0)": lambda lib, s: s.unsqueeze(0),
    "unsqueeze(-1)": lambda lib, s: s.unsqueeze(-1),
    "permute": lambda lib, s: s.permute(1, 0),
    "transpose": lambda lib, s: s.transpose(0, 1),
    "squeeze": lambda lib, s: s.squeeze(),
    "split": lambda lib, s: s.split(2),
    "chunk": lambda lib, s: s.chunk(2),
    "unbind(0)": lambda lib, s: s.unbind(0),
    "cat": lambda lib, s: torch.cat([s, s]),
    "add": lambda lib, s: s + 1,
    "mul": lambda lib, s: s * s,
    "apply": lambda lib, s: s.apply(lambda t: t * 3),
    "select": lambda lib, s: s.select("a"),
    "exclude": lambda lib, s: s.exclude("a"),
    "to(float64)": lambda lib, s: s.to(torch.float64),
    "zero_": lambda lib, s: s.clone().zero_(),
    "rename_key_": lambda lib, s: s.clone().rename_key_("a", "z"),
    "keys": lambda lib, s: sorted(s.keys(True, True), key=str),
    "len": lambda lib, s: len(s),
    "as_list": lambda lib, s: s.get("a", as_list=True),
    "as_padded": lambda lib, s: s.get("a", as_padded_tensor=True, padding_value=-1),
    "as_padded left": lambda lib, s: s.get("a", as_padded_tensor=True, padding_side="left"),
    "default": lambda lib, s: s.get("absent", 3),
    "names": lambda lib, s: s.names,
    "append": lambda lib, s: changed(s, lambda x: x.append(first(x).clone())),
    "insert": lambda lib, s: changed(s, lambda x: x.insert(1, first(x) + 1)),
    "extend": lambda lib, s: changed(s, lambda x: x.extend([first(x) + 1, first(x) + 2])),
}
EVEN: dict[str, Callable[[Any, Any], Any]] = {
    "unbind(1)": lambda lib, s: s.unbind(1),
    "stack": lambda lib, s: torch.stack([s, s]),
    "cat(1)": lambda lib, s: torch.cat([s, s], 1),
    "flatten_keys": lambda lib, s: s.flatten_keys(),
    "densify": lambda lib, s: s.densify(),
    "contiguous": lambda lib, s: s.contiguous(),
    "flip": lambda lib, s: s.flip(0),
    "expand": lambda lib, s: s.expand(2, *s.batch_size),
    "reshape": lambda lib, s: s.reshape(-1),
    "sum": lambda lib, s: s.sum(0),
    "repeat": lambda lib, s: s.repeat(2, 1),
    "gather": lambda lib, s: s.gather(0, torch.zeros(1, s.batch_size[1], dtype=torch.int64)),
    "add dense": lambda lib, s: s + s.densify(),
    "set": lambda lib, s: changed(s, lambda x: x.set("q", torch.arange(12.0).reshape(x.batch_size))),
    "set nested": lambda lib, s: changed(s, lambda x: x.set(("b", "q"), torch.arange(12.0).reshape(x.batch_size))),
    "set_": lambda lib, s: changed(s, lambda x: x.set_("a", torch.ones(*x.batch_size, 2))),
    "[1] =": lambda lib, s: changed(s, lambda x: x.__setitem__(1, ones(lib, x.batch_size[1]))),
    "[:, 1] =": lambda lib, s: changed(s, lambda x: x.__setitem__((slice(None), 1), ones(lib, x.batch_size[0]))),
    "[1:] =": lambda lib, s: changed(s, lambda x: x.__setitem__(slice(1, 3), ones(lib, 2, x.batch_size[1]))),
}


def both(make: Callable[[Any], Any], call: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """What the call gives in each library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the anchor announces removals, torch its nested tensors
        return call(anchor, make(anchor)), call(tensorclass, make(tensorclass))


@pytest.mark.parametrize(
    ("name", "dim"), [(name, dim) for name in [*CALLS, *EVEN] for dim in (0, 1) if not (dim and "padded" in name)]
)
def test_even_stacks(name: str, dim: int):
    """Along each dim; padding along the first alone, where the anchor puts the members whatever their dim is."""
    theirs, ours = both(lambda library: even(library, dim), {**CALLS, **EVEN}[name])
    collections = isinstance(ours, (tuple, list)) or hasattr(ours, "batch_size")
    if collections and not all(isinstance(part, (Tensor, str, type(None))) for part in as_list(ours)):
        assert values(ours) == values(theirs)
    else:
        assert summary(ours) == summary(theirs)


def as_list(value: Any) -> list[Any]:
    """One result or several; the keys of `keys` are results too."""
    return (
        [part if not isinstance(part, tuple) else part[0] for part in value]
        if isinstance(value, (list, tuple))
        else [value]
    )


@pytest.mark.parametrize("name", CALLS)
def test_ragged_stacks(name: str):
    """Batch sizes show -1 in the same places."""
    theirs, ours = both(ragged, CALLS[name])
    assert summary(ours) == summary(theirs)


UNEVEN = [
    "[0]", "[-1]", "[1:]", "[None]", "[...]", "[tensor]", "[mask]", "clone", "copy", "unsqueeze(0)", "unsqueeze(-1)",
    "squeeze", "split", "chunk", "unbind(0)", "cat", "add", "mul", "apply", "select", "exclude", "to(float64)", "zero_",
    "rename_key_", "keys", "len", "as_list", "as_padded", "as_padded left", "default", "names", "append",
]  # fmt: skip
"""Calls that make sense with one batch dim."""


@pytest.mark.parametrize("name", UNEVEN)
def test_uneven_stacks(name: str):
    """One batch dim, other shapes and keys."""
    theirs, ours = both(uneven, CALLS[name])
    assert summary(ours) == summary(theirs)


def slices(n: int) -> st.SearchStrategy[slice]:
    """Slices that run forward: torch takes no others."""
    return st.slices(n).filter(lambda part: part.step is None or part.step > 0)


lengths = st.lists(st.integers(0, 4), min_size=1, max_size=4)


@given(lengths=lengths, side=st.sampled_from(["left", "right"]), value=st.integers(-2, 2))
def test_padding(lengths: list[int], side: str, value: int):
    """The same padded tensor for random lengths."""

    def padded(library: Any, _: Any) -> Any:
        parts = [library.TensorDict(a=torch.arange(float(n))) for n in lengths]
        return library.lazy_stack(parts, 0).get("a", as_padded_tensor=True, padding_side=side, padding_value=value)

    theirs, ours = both(lambda library: None, padded)
    assert torch.equal(theirs, ours)


sizes = st.lists(st.integers(1, 3), min_size=1, max_size=3)


@given(size=sizes, count=st.integers(1, 3), data=st.data())
def test_random_basic_indices(size: list[int], count: int, data: st.DataObject):
    """Ints, slices, None and dots over every dim, stacked along any: the same sizes and values."""
    dim = data.draw(st.integers(0, len(size)))
    whole = [*size[:dim], count, *size[dim:]]
    parts: list[Any] = []
    for n in whole:
        choice = data.draw(st.sampled_from(["int", "slice", "new"]))
        if choice == "new":
            parts.append(None)
        parts.append(data.draw(st.integers(-n, n - 1)) if choice == "int" else data.draw(slices(n)))
    index = tuple(parts)
    wanted = torch.arange(torch.Size(whole).numel()).reshape(whole)[index]
    rows = torch.arange(torch.Size(whole).numel()).reshape(whole).unbind(dim)
    stack = tensorclass.lazy_stack([tensorclass.TensorDict(a=row.clone(), batch_size=size) for row in rows], dim)
    found = stack[index]
    assert tuple(found.batch_size) == tuple(wanted.shape)
    assert torch.equal(found["a"], wanted)
    stack[index] = {"a": -1}
    again = torch.arange(torch.Size(whole).numel()).reshape(whole)
    again[index] = -1
    assert torch.equal(stack["a"], again)


@given(data=st.data())
def test_random_tensor_indices(data: st.DataObject):
    """Index tensors beside slices and ints, in any places: what torch gives for the stacked tensor."""
    whole = [3, 2, 4]
    dim = data.draw(st.integers(0, 2))
    shape = data.draw(st.sampled_from([(2,), (1,), (2, 2), ()]))
    parts: list[Any] = []
    for n in whole:
        kind = data.draw(st.sampled_from(["tensor", "slice", "int", "tensor", "none"]))
        if kind == "none":
            parts.append(None)
        if kind == "tensor":
            flat = data.draw(st.lists(st.integers(-n, n - 1), min_size=4, max_size=4))
            parts.append(torch.tensor(flat)[: torch.Size(shape).numel()].reshape(shape))
        else:
            parts.append(data.draw(st.integers(0, n - 1)) if kind == "int" else data.draw(slices(n)))
    index = tuple(parts)
    source = torch.arange(24).reshape(whole)
    size = [n for d, n in enumerate(whole) if d != dim]
    rows = [tensorclass.TensorDict(a=row.clone(), batch_size=size) for row in source.unbind(dim)]
    stack = tensorclass.lazy_stack(rows, dim)
    found = stack[index]
    assert tuple(found.batch_size) == tuple(source[index].shape)
    assert torch.equal(found["a"], source[index])
    stack[index] = {"a": -1}
    source = source.clone()
    source[index] = -1
    assert torch.equal(stack["a"], source)
