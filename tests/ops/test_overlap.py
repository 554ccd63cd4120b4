"""A write whose source shares memory with its target gives what it gives with a copy of the source.

The oracle is the same call on a second container, with a source that was copied before.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import (
    NonTensorStack,
    PerElement,
    Ragged,
    RaggedTensor,
    Shared,
    TensorDict,
    TensorDictParams,
    equal,
    lazy_stack,
    tensorclass,
)
from tensorclass.store import Unbatched
from tensorclass.typing import Float32

SIZE = 6


@tensorclass
class Pair:
    """Two fields that may be exchanged, of each kind."""

    a: Float32[Tensor, "4"]
    b: Float32[Tensor, "4"]
    one: PerElement[str]
    two: PerElement[str]
    x: Shared[Tensor]
    y: Shared[Tensor]
    r: Ragged[Tensor, "n"]
    s: Ragged[Tensor, "m"]


def numbers(*shape: int, start: float = 0.0) -> Tensor:
    """Different numbers."""
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape) + start


def dense() -> TensorDict:
    """Tensors that may be exchanged."""
    return TensorDict(a=numbers(SIZE, 4), b=numbers(SIZE, 4, start=100), batch_size=[SIZE])


def nested() -> TensorDict:
    """The same, two levels deep."""
    return TensorDict(
        {"a": numbers(SIZE, 4), "b": numbers(SIZE, 4, start=100), "n": {"a": dense(), "b": dense() + 500}}, [SIZE]
    )


def one_block() -> TensorDict:
    """Entries that are columns of one tensor."""
    block = numbers(SIZE, 2, 4)
    return TensorDict(a=block[:, 0], b=block[:, 1], batch_size=[SIZE])


def nodes() -> TensorDict:
    """Objects of elements, tensors without batch dims, tensors of different lengths."""
    lengths = [torch.full((i % 3 + 1,), float(i)) for i in range(SIZE)]
    return TensorDict(
        {
            "a": NonTensorStack(*"abcdef"),
            "b": NonTensorStack(*"ghijkl"),
            "x": Unbatched(numbers(5)),
            "y": Unbatched(numbers(5, start=50)),
            "r": RaggedTensor(lengths),
            "s": RaggedTensor(lengths[::-1]),
        },
        [SIZE],
    )


def typed() -> Pair:
    """A declared batch of all of that."""
    found = nodes()
    names = {"one": "a", "two": "b", "x": "x", "y": "y", "r": "r", "s": "s"}
    values = {new: found._entries()[old] for new, old in names.items()}
    values.update(x=numbers(5), y=numbers(5, start=50))
    return Pair(a=numbers(SIZE, 4), b=numbers(SIZE, 4, start=100), **values, batch_size=[SIZE])


def lazy() -> Any:
    """A stack of members."""
    return lazy_stack([dense()[i].clone() for i in range(SIZE)])


def params() -> TensorDictParams:
    """Parameters."""
    return TensorDictParams(dense(), no_convert=True)


KINDS: dict[str, Callable[[], Any]] = {f.__name__: f for f in (dense, nested, one_block, nodes, typed, lazy, params)}


def swapped(container: Any) -> dict[str, Any]:
    """The entries of each pair under the other's key."""
    found = container._entries()
    pairs = [("a", "b"), ("x", "y"), ("r", "s"), ("one", "two")]
    table = {}
    for first, second in pairs:
        if first in found:
            table.update({first: found[second], second: found[first]})
    if "n" in found:
        table["n"] = swapped(found["n"])
    return table


def rows(container: Any, index: Any) -> Any:
    """Elements of every entry, by key; what has no batch dims is left out."""
    found = container[index]
    return {key: value for key, value in found._entries().items() if not isinstance(value, Unbatched)}


def rows_swapped(container: Any) -> dict[str, Any]:
    """As `swapped`; what has no batch dims stays what it is, as a write at an index asks."""
    found = container._entries()
    return {key: found[key] if key in ("x", "y") else value for key, value in swapped(container).items()}


WRITES: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "update_(swapped)": (swapped, lambda c, s: c.update_(s)),
    "update(inplace, swapped)": (swapped, lambda c, s: c.update(s, inplace=True)),
    "copy_(swapped)": (swapped, lambda c, s: c.copy_(s)),
    "[:] = swapped": (rows_swapped, lambda c, s: c.__setitem__(slice(None), s)),
    "update_at_(swapped)": (rows_swapped, lambda c, s: c.update_at_(s, slice(None))),
    "copy_at_(swapped)": (rows_swapped, lambda c, s: c.copy_at_(s, slice(None))),
    "[mask] = swapped": (rows_swapped, lambda c, s: c.__setitem__(torch.ones(SIZE, dtype=torch.bool), s)),
    "[order] = rows": (lambda c: rows(c, slice(None)), lambda c, s: c.update_at_(s, torch.arange(SIZE).flip(0))),
    "[1:] = [:-1]": (lambda c: rows(c, slice(0, -1)), lambda c, s: c.update_at_(s, slice(1, None))),
    "[:-1] = [1:]": (lambda c: rows(c, slice(1, None)), lambda c, s: c.update_at_(s, slice(0, -1))),
    "[::2] = [1::2]": (lambda c: rows(c, slice(1, None, 2)), lambda c, s: c.update_at_(s, slice(0, None, 2))),
    "[0] = [-1]": (lambda c: rows(c, -1), lambda c, s: c.update_at_(s, 0)),
    "[2:6:3] = [0:4:2]": (lambda c: rows(c, slice(0, 4, 2)), lambda c, s: c.update_at_(s, slice(2, 6, 3))),
    "set_": (lambda c: c["b"], lambda c, s: c.set_("a", s)),
    "set_at_": (lambda c: c["a"][:-1], lambda c, s: c.set_at_("a", s, slice(1, None))),
    "set_at_ [order]": (lambda c: c["a"][::2], lambda c, s: c.set_at_("a", s, torch.tensor([4, 0, 2]))),
    "[order] = [::2]": (lambda c: rows(c, slice(0, None, 2)), lambda c, s: c.update_at_(s, torch.tensor([4, 0, 2]))),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRITES)
def test_a_write_reads_its_source_first(name: str, kind: str):
    """Whatever is written from what the container itself holds."""
    source_of, write = WRITES[name]
    given, wanted = KINDS[kind](), KINDS[kind]()
    write(given, source_of(given))
    write(wanted, copy.deepcopy(source_of(wanted)))
    assert told(given) == told(wanted), f"{given.to_dict()}\n{wanted.to_dict()}"


ARITHMETIC: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "add_ swapped": (lambda c: c._bare(c.batch_size).update(swapped(c)), lambda c, s: c.add_(s)),
    "+= swapped": (lambda c: c._bare(c.batch_size).update(swapped(c)), lambda c, s: c.__iadd__(s)),
    "[1:] += [:-1]": (lambda c: c[:-1], lambda c, s: c[1:].add_(s)),
    "[:-1] *= [1:]": (lambda c: c[1:], lambda c, s: c[:-1].mul_(s)),
    "[::2] -= [1::2]": (lambda c: c[1::2], lambda c, s: c[::2].sub_(s)),
    "lerp_": (lambda c: c._bare(c.batch_size).update(swapped(c)), lambda c, s: c.lerp_(s, 0.25)),
    "lerp_ by one": (lambda c: c[:-1], lambda c, s: c[1:].lerp_(s, 0.25)),
    "addcmul_": (lambda c: c._bare(c.batch_size).update(swapped(c)), lambda c, s: c.addcmul_(s, s)),
    "maximum_": (lambda c: c._bare(c.batch_size).update(swapped(c)), lambda c, s: c.maximum_(s)),
    "by an entry": (lambda c: c["a"][:, 0], lambda c, s: c.mul_(s)),
    "apply_": (swapped, lambda c, s: c.named_apply(s.get, inplace=True)),
    "where(out)": (
        lambda c: c._bare(c.batch_size).update(swapped(c)),
        lambda c, s: c.where(torch.arange(SIZE) > 2, s, out=c),
    ),
    "torch.where(out)": (
        lambda c: c._bare(c.batch_size).update(swapped(c)),
        lambda c, s: torch.where(torch.arange(SIZE) > 2, s, c, out=c),
    ),
    "gather(out)": (lambda c: torch.arange(SIZE).flip(0), lambda c, s: c.gather(0, s, out=c)),
    "clamp(out)": (lambda c: c._bare(c.batch_size).update(swapped(c)), lambda c, s: torch.clamp(c, min=s, out=c)),
    "stack(out)": (lambda c: c, lambda c, s: torch.stack([s[0], *[s[i] for i in range(SIZE - 1)]], out=c)),
    "cat(out)": (lambda c: c, lambda c, s: torch.cat([s[3:], s[:3]], out=c)),
    "load_state_dict": (lambda c: dict(swapped(c)), lambda c, s: c.load_state_dict(s)),
}


# Parameters are loaded by torch's own loader of modules, one after the other.
IN_PLACE = set(itertools.product(ARITHMETIC, ["dense", "one_block", "lazy", "params"])) - {
    ("load_state_dict", "params")
}


@pytest.mark.parametrize(("name", "kind"), sorted(IN_PLACE))
def test_arithmetic_and_results_in_place(name: str, kind: str):
    """Operations in place, and `out=`."""
    source_of, write = ARITHMETIC[name]
    given, wanted = KINDS[kind](), KINDS[kind]()
    with torch.no_grad():
        write(given, source_of(given))
        write(wanted, copy.deepcopy(source_of(wanted)))
    assert told(given) == told(wanted)


def test_an_index_that_is_written():
    """An entry that says where to write may be written itself."""
    make = lambda: TensorDict(  # noqa: E731  # one line of a table
        index=torch.arange(SIZE).flip(0),
        a=numbers(SIZE),
        mask=torch.arange(SIZE) > 2,
        z=numbers(SIZE),
        batch_size=[SIZE],
    )
    for key in ("index", "mask"):
        given, wanted = make(), make()
        count = int(given["mask"].sum()) if key == "mask" else SIZE
        value = TensorDict(
            index=torch.zeros(count, dtype=torch.int64),
            a=numbers(count, start=50),
            mask=torch.zeros(count, dtype=torch.bool),
            z=numbers(count, start=90),
            batch_size=[count],
        )
        given[given[key]] = value
        wanted[wanted[key].clone()] = value
        assert told(given) == told(wanted)
    given, wanted = make(), make()
    given.masked_fill_(given["mask"], False)
    wanted.masked_fill_(wanted["mask"].clone(), False)
    assert told(given) == told(wanted)


SHARED: dict[str, Callable[[Tensor], Tensor]] = {
    "detach": Tensor.detach,
    "data": lambda t: t.data,
    "parameter": torch.nn.Parameter,
    "another dtype": lambda t: t.view(torch.int32).view(torch.float32),
    "a view": lambda t: t.view(-1).view(SIZE, 4),
    "a storage": lambda t: torch.empty(0).set_(t.untyped_storage(), 0, (SIZE, 4)),
}


@pytest.mark.parametrize("way", SHARED)
def test_memory_shared_without_a_view(way: str):
    """Tensors of one memory of which autograd knows nothing."""
    data, share = dense(), SHARED[way]
    with torch.no_grad():
        data.update_({"a": share(data["b"]), "b": share(data["a"])})
    assert equal(data, TensorDict(a=dense()["b"], b=dense()["a"], batch_size=[SIZE]))


def test_entries_that_share_memory_in_part():
    """What is written to one entry is part of the source of another."""
    whole = torch.arange(24.0)
    data = TensorDict(a=whole[8:16], b=whole[0:8], batch_size=[8])
    parts = {"a": whole[0:8], "b": whole[4:12]}
    wanted = {key: value.clone() for key, value in parts.items()}
    data.update_(parts)
    assert all(torch.equal(data[key], value) for key, value in wanted.items())


def test_nothing_is_copied_without_need(monkeypatch: pytest.MonkeyPatch):
    """A source elsewhere is written as it is, and one that is its own target."""
    copies: list[int] = []
    clone = Tensor.clone
    monkeypatch.setattr(Tensor, "clone", lambda self, **kwargs: copies.append(1) or clone(self, **kwargs))
    data, fresh = nested(), nested() + 1
    data.update_(fresh)
    data[1:] = fresh[:-1]
    data += fresh
    data.update_(data)
    data += data
    data[:] = data
    for _ in range(50):
        data[0] = dense_row(fresh)
    assert copies == []


def dense_row(container: Any) -> Any:
    """A new row beside the others in memory."""
    return container[3] * 1


def test_all_or_nothing_where_memory_overlaps():
    """A bad entry after one whose source overlaps leaves everything as it was."""
    data = dense()
    with pytest.raises(ValueError, match="batch"):
        data.update_({"a": data["a"].flip(0), "b": torch.zeros(3, 4)})
    assert equal(data, dense())


def test_in_a_transform():
    """Tensors of torch.func have no address; they are copied."""

    def exchange(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        data = TensorDict(a=a.clone(), b=b.clone(), batch_size=[])
        data.update_({"a": data["b"], "b": data["a"]})
        return data["a"], data["b"]

    a, b = numbers(SIZE, 4), numbers(SIZE, 4, start=100)
    found = torch.func.vmap(exchange)(a, b)
    assert torch.equal(found[0], b)
    assert torch.equal(found[1], a)


def told(value: Any) -> Any:
    """A container as plain data."""
    if isinstance(value, RaggedTensor):
        return value.values.tolist(), value.lengths.tolist()
    if isinstance(value, Tensor):
        return str(value.dtype), value.tolist()
    if hasattr(value, "_entries"):
        return {key: told(entry) for key, entry in value._entries().items()}
    if isinstance(value, Unbatched):
        return told(value.tensor)
    return value.tolist() if hasattr(value, "tolist") else value
