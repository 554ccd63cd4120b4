"""In-place writes to a view of a container with ragged entries: what was written is in the source, or it is refused.

The source is viewed a second time after the write: both views hold the same.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import Ragged, RaggedTensor, TensorClass, TensorDict, TypedTensorDict, lazy_stack
from tensorclass.errors import TensorClassError
from tests.contract._elements import elements
from tests.contract._elements import same as same_payload


class Words(TensorClass):
    r: Ragged[Tensor, "t 2"]
    a: Tensor


class Page(TensorClass):
    words: Words
    r: Ragged[Tensor, "s"]


class Keys(TypedTensorDict):
    r: Ragged[Tensor, "t"]
    a: Tensor


Size = tuple[int, ...]


def ragged(size: Size, *event: int, start: float = 1.0) -> RaggedTensor:
    """Elements of 1 to 3 rows whose numbers all differ."""
    count = torch.Size(size).numel()
    lengths = torch.tensor([1 + i % 3 for i in range(count)]).reshape(size)
    total = int(lengths.sum())
    rows = start + torch.arange(total * torch.Size(event).numel(), dtype=torch.float64).reshape(total, *event)
    parts = iter(rows.split(lengths.flatten().tolist()))
    return RaggedTensor(nest(size, lambda: next(parts)))


def ones(size: Size) -> Tensor:
    """A tensor beside them."""
    return torch.ones(size, dtype=torch.float64)


def nest(size: Size, make: Callable[[], Any]) -> Any:
    """Nested lists of a shape."""
    return [nest(size[1:], make) for _ in range(size[0])] if size else make()


def words(size: Size) -> Words:
    """A class with a ragged field."""
    return Words(ragged(size, 2), ones(size), batch_size=size)


def jagged(size: Size) -> TensorDict:
    """A nested tensor of torch as an entry."""
    return TensorDict(r=ragged(size).to_nested(), a=ones(size), batch_size=size)


def holes(size: Size) -> TensorDict:
    """A nested tensor whose rows are apart in memory."""
    whole = ragged(size)
    nested = torch.nested.nested_tensor_from_jagged(
        whole.pad().flatten(), torch.arange(size[0] + 1) * int(whole.lengths.max()), whole.lengths
    )
    return TensorDict(r=nested, a=ones(size), batch_size=size)


HOLDERS: dict[str, Callable[[Size], Any]] = {
    "dict": lambda size: TensorDict(r=ragged(size), a=ones(size), batch_size=size),
    "unpadded": lambda size: TensorDict(
        r=RaggedTensor.unpad(ragged(size).pad(), ragged(size).lengths), a=ones(size), batch_size=size
    ),
    "deep": lambda size: TensorDict({"x": {"y": {"r": ragged(size)}}, "a": ones(size)}, batch_size=size),
    "class": words,
    "nested class": lambda size: Page(words(size), ragged(size), batch_size=size),
    "class in a dict": lambda size: TensorDict(w=words(size), batch_size=size),
    "over a dict": lambda size: Words.from_tensordict(words(size).to_tensordict()),
    "keys": lambda size: Keys(r=ragged(size), a=ones(size), batch_size=size),
    "stack": lambda size: lazy_stack([HOLDERS["dict"](size[1:]) for _ in range(size[0])]),
    "last stack": lambda size: lazy_stack([HOLDERS["dict"](size[:-1]) for _ in range(size[-1])], len(size) - 1),
    "stack of classes": lambda size: lazy_stack([words(size[1:]) for _ in range(size[0])]),
    "stack of views": lambda size: lazy_stack(list(HOLDERS["dict"](size).unbind(0))),
    "stack below": lambda size: TensorDict(s=HOLDERS["stack"](size), a=ones(size), batch_size=size),
    "jagged": jagged,
    "jagged with holes": holes,
    "jagged below": lambda size: TensorDict(x=jagged(size), batch_size=size),
}
VIEWS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "[1]": (1, lambda c: c[1]),
    "[-1]": (1, lambda c: c[-1]),
    "[:1]": (1, lambda c: c[:1]),
    "[1:]": (1, lambda c: c[1:]),
    "[::2]": (1, lambda c: c[::2]),
    "[...]": (1, lambda c: c[...]),
    "[None]": (1, lambda c: c[None]),
    "[:]": (1, lambda c: c[:]),
    "[1, 1]": (2, lambda c: c[1, 1]),
    "[:, 1]": (2, lambda c: c[:, 1]),
    "[:, ::2]": (2, lambda c: c[:, ::2]),
    "[..., 1:]": (2, lambda c: c[..., 1:]),
    "of a view": (1, lambda c: c[1:][:1]),
    "unbind": (1, lambda c: c.unbind(0)[1]),
    "unbind(-1)": (2, lambda c: c.unbind(-1)[1]),
    "split": (1, lambda c: c.split(1)[1]),
    "split(-1)": (2, lambda c: c.split([1, 2], -1)[1]),
    "chunk": (1, lambda c: c.chunk(2)[1]),
    "tensor_split": (1, lambda c: c.tensor_split(2)[1] if hasattr(c, "tensor_split") else c.chunk(2)[1]),
    "narrow": (1, lambda c: c.narrow(0, 1, 1)),
    "view": (1, lambda c: c.view(-1)),
    "view(1, ...)": (1, lambda c: c.view(1, *c.batch_size)),
    "reshape": (1, lambda c: c.reshape(c.batch_size[0], -1)),
    "flatten": (2, lambda c: c.flatten(0, 1)),
    "unflatten": (1, lambda c: c.unflatten(0, (1, -1))),
    "unsqueeze": (1, lambda c: c.unsqueeze(0)),
    "unsqueeze(-1)": (1, lambda c: c.unsqueeze(-1)),
    "squeeze": (1, lambda c: c[:1].squeeze(0)),
    "permute": (2, lambda c: c.permute(1, 0)),
    "transpose": (2, lambda c: c.transpose(0, 1)),
    "movedim": (2, lambda c: c.movedim(0, -1)),
    "expand(1, ...)": (1, lambda c: c.expand(1, *c.batch_size)),
    "detach": (1, lambda c: c.detach()),
    "detach of a view": (1, lambda c: c[::2].detach()),
    "data": (1, lambda c: c.data),
    "clone(False)": (1, lambda c: c.clone(recurse=False)),
    "copy": (1, lambda c: c.copy()),
    "to(same)": (1, lambda c: c.to(torch.float64)),
    "to(cpu)": (1, lambda c: c[::2].to("cpu")),
    "contiguous": (1, lambda c: c.contiguous()),
    "atleast_2d": (1, lambda c: c.atleast_2d()),
}


def longer(p: Any) -> Any:
    """The same structure with one row more in each element."""
    return mapped(p, lambda rows: torch.cat([rows + 3, rows.new_full((1, *rows.shape[1:]), 5.0)]))


def mapped(value: Any, fn: Callable[[Tensor], Tensor]) -> Any:
    """A container whose ragged elements went through a function."""
    result = value.clone()
    for store in stores(result):
        for key, entry in store._data.items():
            if isinstance(entry, RaggedTensor):
                parts = iter(entry.values.split(entry.lengths.flatten().tolist()))
                new = nest(tuple(entry.shape), lambda parts=parts: fn(next(parts)))
                store._data[key] = RaggedTensor.of(new, entry.shape, entry.values[:0])
            elif isinstance(entry, Tensor) and key == "r" and not entry.is_nested:  # a row of a nested tensor
                store._data[key] = fn(entry)
            elif isinstance(entry, Tensor) and entry.is_nested:
                new = [fn(row) for row in entry.unbind()]
                store._data[key] = torch.nested.as_nested_tensor(new, layout=torch.jagged) if new else entry
    return result


def stores(container: Any) -> list[Any]:
    """The dense stores of a container, at every depth."""
    store = getattr(container, "_store", container)
    if store._stacked:
        return [below for member in store._members for below in stores(member)]
    inner = [value for value in store._data.values() if hasattr(type(value), "_batch_size")]
    return [store, *[below for value in inner for below in stores(value)]]


def every(c: Any) -> Tensor:
    """A mask of all elements."""
    return torch.ones(c.batch_size, dtype=torch.bool)


def leaf_keys(c: Any) -> list[Any]:
    """The keys of the ragged entries."""
    return [key for key in c.keys(True, True) if (key if isinstance(key, str) else key[-1]) == "r"]


def each_key(write: Callable[[Any, Any], Any]) -> Callable[[Any], None]:
    """A write to each ragged entry."""

    def call(c: Any) -> None:
        for key in leaf_keys(c):
            write(c, key)

    return call


def at_first(c: Any) -> Any:
    """The index of the first element."""
    return (0,) * c.ndim if c.ndim else ...


WRITES: dict[str, Callable[[Any], Any]] = {
    "add_": lambda c: c.add_(1),
    "mul_ over the batch": lambda c: c.mul_(torch.full(c.batch_size, 3.0, dtype=torch.float64)),
    "add_ of itself": lambda c: c.add_(c.clone()),
    "+=": lambda c: c.__iadd__(1),
    "neg_": lambda c: c.neg_(),
    "clamp_": lambda c: c.clamp_(min=50),
    "lerp_": lambda c: c.lerp_(c + 2, 0.5),
    "addcmul_": lambda c: c.addcmul_(c.clone(), c.clone()),
    "zero_": lambda c: c.zero_(),
    "masked_fill_": lambda c: c.masked_fill_(every(c), 7),
    "fill_": each_key(lambda c, key: c.fill_(key, 40)),
    "set_": each_key(lambda c, key: c.set_(key, (c + 1).get(key))),
    "set_ a number": each_key(lambda c, key: c.set_(key, 2.0)),
    "set_ longer": each_key(lambda c, key: c.set_(key, longer(c).get(key))),
    "set(inplace)": each_key(lambda c, key: c.set(key, (c + 1).get(key), inplace=True)),
    "update_": lambda c: c.update_(c + 1),
    "update_ longer": lambda c: c.update_(longer(c)),
    "update(inplace)": lambda c: c.update(c + 1, inplace=True),
    "copy_": lambda c: c.copy_(c + 1),
    "copy_ longer": lambda c: c.copy_(longer(c)),
    "update_at_": lambda c: c.update_at_((c + 1)[at_first(c)], at_first(c)),
    "update_at_ longer": lambda c: c.update_at_(longer(c)[at_first(c)], at_first(c)),
    "set_at_": each_key(lambda c, key: c.set_at_(key, (c + 1)[at_first(c)].get(key), at_first(c))),
    "copy_at_": lambda c: c.copy_at_((c + 1)[at_first(c)], at_first(c)),
    "c[i] = y": lambda c: c.__setitem__(at_first(c), (c + 1)[at_first(c)]),
    "c[i] = longer": lambda c: c.__setitem__(at_first(c), longer(c)[at_first(c)]),
    "c[mask] = y": lambda c: c.__setitem__(every(c), (c + 1)[every(c)]),
    "c[:] = number": lambda c: c.__setitem__(..., 6.0),
    "load_state_dict": lambda c: c.load_state_dict((c + 1).state_dict()),
    "load_state_dict longer": lambda c: c.load_state_dict(longer(c).state_dict()),
    "requires_grad_": lambda c: c.requires_grad_(),
}


def cases() -> list[tuple[str, str, Size]]:
    """Every holder with every view, for one batch dim and two."""
    return [
        (holder, view, size)
        for holder, view, size in product(HOLDERS, VIEWS, ((4,), (3, 3)))
        if len(size) >= VIEWS[view][0] and ("jagged" not in holder or len(size) == 1)
    ]


def attempt(holder: str, view: str, size: Size, write: str) -> str:
    """One write: "written", "refused" or what is wrong."""
    source = HOLDERS[holder](size)
    before, look = elements(source), VIEWS[view][1]
    part = look(source)
    old = elements(part)
    try:
        WRITES[write](part)
    except TensorClassError as error:
        if any(not same_payload(elements(source)[at], before[at]) for at in before):
            return f"refused, and written: {error}"
        return "refused" if "`" in str(error) else f"refused without a name: {error}"
    if write == "requires_grad_":
        return "written"
    new, seen = elements(part), elements(look(source))
    if all(same_payload(new[at], old[at]) for at in old):
        return "nothing was written"
    if any(not same_payload(new[at], seen[at]) for at in new):
        return "lost"
    return "written"


DETACHED = ("detach", "detach of a view", "data")
"""Views of memory: their elements keep their lengths."""
MERGED = ("reshape", "flatten", "contiguous")
"""What copies where it meets the stack dim (docs/lazy-stacks.md)."""


def may_be_refused(holder: str, view: str, write: str) -> bool:
    """What memory does not allow, and says so."""
    return ((view in DETACHED or "jagged" in holder) and "longer" in write) or write == "requires_grad_"


QUICK = ("[:1]", "[::2]", "[:, 1]", "split", "permute", "of a view", "detach of a view")


def run(holder: str, views: list[str], writes: list[str]) -> tuple[int, list[str]]:
    """The number of writes that were tried, and what went wrong."""
    told = []
    views = [view for view in views if "stack" not in holder or view not in MERGED]
    tries = [(view, size, write) for h, view, size in cases() if h == holder and view in views for write in writes]
    for view, size, write in tries:
        try:
            found = attempt(holder, view, size, write)
        except Exception as error:
            found = f"{type(error).__name__}: {str(error)[:150]}"
        if found != "written" and not (found == "refused" and may_be_refused(holder, view, write)):
            told.append(f"{view} {list(size)} {write}: {found}")
    return len(tries), told


@pytest.mark.parametrize("holder", HOLDERS)
def test_writes_to_some_views(holder: str, record_property: Callable[[str, object], None]) -> None:
    """What is written to a view is in its source; what can't be is refused by name, and nothing is written."""
    count, told = run(holder, QUICK, ["update_", "c[i] = longer", "mul_ over the batch"])
    record_property("cases", count)
    assert not told, "\n".join(told)


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("holder", HOLDERS)
def test_writes_to_views(holder: str, write: str, record_property: Callable[[str, object], None]) -> None:
    """The same, every write to every view."""
    count, told = run(holder, list(VIEWS), [write])
    record_property("cases", count)
    assert not told, "\n".join(told)
