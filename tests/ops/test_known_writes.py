"""A write at an index asks the same of the tenth value as of the first, whatever a container remembers of nine."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, equal
from tensorclass.errors import TensorClassError
from tensorclass.typing import Float32


class Inner(TensorClass):
    """Two fields."""

    c: Float32[Tensor, "2"]
    d: Float32[Tensor, "2"]


class Flat(TensorClass):
    """Tensors only."""

    a: Float32[Tensor, "2"]
    b: Float32[Tensor, "2"]


class Mixed(TensorClass):
    """Beside tensors an object, a field that may be absent, and a nested class."""

    a: Float32[Tensor, "2"]
    b: Float32[Tensor, "2"]
    inner: Inner
    source: str = "scan"
    extra: Float32[Tensor, "2"] | None = None


class Open(TensorClass):
    """Any dtype and event shape."""

    a: Tensor
    b: Tensor


ROWS = 6


def _inner(*size: int) -> Inner:
    return Inner(c=torch.rand(*size, 2), d=torch.rand(*size, 2))


MAKERS: dict[str, Callable[..., Any]] = {
    "untyped": lambda *size: TensorDict(a=torch.rand(*size, 2), b=torch.rand(*size, 2), batch_size=size),
    "nested": lambda *size: TensorDict(
        a=torch.rand(*size, 2), b=torch.rand(*size, 2), inner={"c": torch.rand(*size, 2)}, name="x", batch_size=size
    ),
    "flat": lambda *size: Flat(a=torch.rand(*size, 2), b=torch.rand(*size, 2)),
    "mixed": lambda *size: Mixed(a=torch.rand(*size, 2), b=torch.rand(*size, 2), inner=_inner(*size)),
    "open": lambda *size: Open(a=torch.rand(*size, 2), b=torch.rand(*size, 2), batch_size=size),
}


def _with(value: Any, key: str, tensor: Any) -> Any:
    """A container with another tensor under a key, past the checks of its class."""
    new = value.clone(False)
    getattr(new, "_store", new)._put(key, tensor)
    return new


def _leaf(change: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """A write into a container whose last plain tensor has become another one."""

    def write(buffer: Any, row: Any) -> Any:
        store = getattr(buffer, "_store", buffer)
        store._put("b", change(store._entries()["b"]))
        buffer[1] = row
        return buffer

    return write


def _source(change: Callable[[Tensor], Any]) -> Callable[..., Any]:
    """A write of a row whose last plain tensor is another one; of a class, by a dict where it declares another kind."""

    def write(buffer: Any, row: Any) -> Any:
        old = row.get("b")
        new = change(old)
        if isinstance(row, (Flat, Mixed)) and (new.dtype is not old.dtype or new.shape != old.shape):
            return buffer.update_at_({"b": new}, 1)
        buffer[1] = _with(row, "b", new)
        return buffer

    return write


def _under(mode: Callable[[], Any], change: str = "") -> Callable[..., Any]:
    def write(buffer: Any, row: Any) -> Any:
        if change:
            buffer.get("b").requires_grad_()
        with mode():
            buffer[1] = row
        return buffer

    return write


def _then(*steps: Callable[..., Any]) -> Callable[..., Any]:
    def write(buffer: Any, row: Any) -> Any:
        for step in steps:
            step(buffer, row)
        return buffer

    return write


def _overlapping(buffer: Any, row: Any) -> Any:
    """Rows that are views of the buffer itself, in the order in which a naive copy would read what it has written."""
    buffer[1] = _with(buffer[0], "b", buffer.get("a")[1])
    return buffer


def _slices(first: slice, second: slice) -> Callable[..., Any]:
    def write(buffer: Any, row: Any) -> Any:
        for part in (first, first, first, second):
            count = len(range(ROWS)[part])
            buffer[part] = torch.stack([row] * count) if count else row
        return buffer

    return write


def _inference(leaf: Tensor) -> Tensor:
    with torch.inference_mode():
        return leaf.clone()


def _data(leaf: Tensor) -> Tensor:
    leaf.data = torch.ones(1, 2).expand(ROWS, 2)  # the same object, of which every row is now one
    return leaf


CASES: dict[str, Callable[..., Any]] = {
    "the same": lambda buffer, row: buffer.__setitem__(1, row) or buffer,
    "a negative index": lambda buffer, row: buffer.__setitem__(-1, row) or buffer,
    "out of range": lambda buffer, row: buffer.__setitem__(ROWS, row) or buffer,
    "a mask": lambda buffer, row: buffer.__setitem__(torch.arange(ROWS) > 3, row) or buffer,
    "a missing key": lambda buffer, row: buffer.__setitem__(1, TensorDict(a=row.get("a"))) or buffer,
    "some keys": lambda buffer, row: buffer.update_at_({"b": row.get("b") + 1}, 1),
    "a strided nested source": lambda buffer, row: buffer.update_at_(
        {"a": row.get("a"), "b": torch.nested.nested_tensor([row.get("b")] * 2)}, 1
    ),
    "a number": lambda buffer, row: buffer.__setitem__(1, 0.0) or buffer,
    "a locked buffer": lambda buffer, row: buffer.lock_().__setitem__(1, row) or buffer,
    "overlap": _overlapping,
    "a slice": _slices(slice(0, 2), slice(2, 4)),
    "a slice of another length": _slices(slice(0, 2), slice(0, 3)),
    "an empty slice": _slices(slice(0, 2), slice(6, 9)),
    "a tracked leaf": _leaf(lambda leaf: leaf.requires_grad_()),
    "a tracked leaf that is none any more": _then(
        _under(torch.no_grad, "tracked"),
        lambda buffer, row: buffer.get("b").requires_grad_(False),
        _under(torch.no_grad),
    ),
    "a tracked leaf without grad mode": _under(torch.no_grad, "tracked"),
    "a view of a tracked tensor": _leaf(lambda leaf: torch.ones(ROWS, 2, requires_grad=True)[:]),
    "a result of autograd": _leaf(lambda leaf: torch.ones(ROWS, 2, requires_grad=True) * 2),
    "an expanded leaf": _leaf(lambda leaf: torch.zeros(1, 2).expand(ROWS, 2)),
    "the same leaf, expanded": _leaf(_data),
    "a strided leaf": _leaf(lambda leaf: torch.zeros(2, ROWS).t()),
    "an inference leaf": _leaf(_inference),
    "a parameter": _leaf(torch.nn.Parameter),
    "another dtype of the leaf": _leaf(lambda leaf: leaf.double()),
    "a meta leaf": _leaf(lambda leaf: leaf.to("meta")),
    "inference mode": _under(torch.inference_mode),
    "no grad": _under(torch.no_grad),
    "a strided source": _source(lambda source: torch.stack([source, source], 1)[:, 0]),
    "a conjugated source": _source(lambda source: torch.complex(source, source).conj()),
    "a double source": _source(lambda source: source.double()),
    "an integer source": _source(lambda source: source.long()),
    "a complex source": _source(lambda source: torch.complex(source, source)),
    "a longer source": _source(lambda source: torch.cat([source, source])),
    "a source of one element": _source(lambda source: source[:1]),
    "a source without dims": _source(lambda source: source[0]),
    "a tracked source": _source(lambda source: (source.clone().requires_grad_() * 2)),
    "an inference source": _source(_inference),
    "an expanded source": _source(lambda source: source[:1].expand(2)),
    "a sparse source": _source(lambda source: source.to_sparse()),
    "a meta source": _source(lambda source: source.to("meta")),
}  # fmt: skip


def _outcome(case: Callable[..., Any], buffer: Any, row: Any) -> Any:
    try:
        case(buffer, row)
    except (TensorClassError, RuntimeError, NotImplementedError, IndexError) as error:
        return type(error), re.sub(r"\bj\d+", "j", str(error)), buffer  # each ragged dim has its number
    return None, "", buffer


def _same(a: Any, b: Any) -> bool:
    """As `equal`, of tensors that autograd may track and of those without values."""
    left, right = a.flatten_keys("."), b.flatten_keys(".")
    if list(left.keys()) != list(right.keys()):
        return False
    for key, mine in left.items():
        other = right[key]
        if isinstance(mine, Tensor) and mine.is_meta:
            if not other.is_meta:
                return False
        elif isinstance(mine, Tensor):
            if mine.requires_grad is not other.requires_grad or not torch.equal(mine, other):
                return False
        elif getattr(mine, "tolist", str)() != getattr(other, "tolist", str)():
            return False
    return True


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("case", CASES)
def test_the_tenth_write_is_checked_as_the_first(name: str, case: str) -> None:
    """The same error or the same values, and nothing half written, on a fresh container and on one that was written."""
    torch.manual_seed(0)
    fresh, row = MAKERS[name](ROWS), MAKERS[name]()
    used = fresh.clone()
    for position in (0, 3, 0, 3, 0):
        used[position] = fresh[position]
    assert equal(fresh, used)
    assert getattr(used, "_store", used)._known_write.leaves > 0, "nothing is remembered, so nothing is tested"
    expected, found = _outcome(CASES[case], fresh, row.clone()), _outcome(CASES[case], used, row.clone())
    assert found[:2] == expected[:2]
    assert _same(found[2], expected[2])


def test_rollouts_of_many_kinds_stay_right() -> None:
    """Values of changing strides, dtypes and keys: what is remembered is given up, and every row is written."""
    buffer = TensorDict(a=torch.zeros(64, 2), b=torch.zeros(64, 3), batch_size=[64])
    for t in range(64):
        a = torch.full((2,), float(t)) if t % 2 else torch.full((2, 4), float(t))[:, 1]
        b = torch.full((3,), t + 0.5, dtype=torch.float64 if t % 5 == 4 else torch.float32)
        buffer[t] = TensorDict(a=a, b=b)
    assert buffer["a"][:, 1].tolist() == list(range(64))
    assert buffer["b"][:, 0].tolist() == [t + 0.5 for t in range(64)]


def test_a_frozen_class_below_refuses_again() -> None:
    """A nested container that is replaced by one of a frozen class is refused, however often others were written."""

    class Still(Inner, frozen=True):  # pyright: ignore[reportGeneralTypeIssues]  # containers may
        """A frozen class of the same fields."""

    buffer, row = MAKERS["mixed"](ROWS), MAKERS["mixed"]()
    for position in range(4):
        buffer[position] = row
    buffer.inner = Still(c=torch.zeros(ROWS, 2), d=torch.zeros(ROWS, 2))
    before = buffer.clone()
    with pytest.raises(TensorClassError):
        buffer[1] = _with(row, "inner", Still(c=torch.ones(2), d=torch.ones(2)))
    assert equal(buffer, before)


def test_writes_under_vmap_are_not_remembered_as_others() -> None:
    """A transform's tensors have other sizes than they show."""
    rows = torch.rand(4, 2)

    def write(row: Tensor) -> Tensor:
        buffer = TensorDict(a=torch.zeros(3, 2) + row * 0, b=torch.zeros(3, 2) + row * 0, batch_size=[3])
        for position in (0, 1, 0, 1):
            buffer[position] = TensorDict(a=row * position, b=row)
        return buffer["a"] + buffer["b"]

    assert torch.equal(torch.vmap(write)(rows), torch.stack([write(row) for row in rows]))


@pytest.mark.parametrize("name", ["untyped", "flat"])
def test_rows_from_the_storage_of_the_buffer_are_read_first(name: str) -> None:
    """A container that has seen many apart still sees those that overlap: swapped leaves, and a row that is shifted."""
    a, b = torch.rand(9, 2), torch.rand(9, 2)
    buffer, row = MAKERS[name](ROWS), MAKERS[name]()
    buffer, row = _with(_with(buffer, "a", a[:ROWS]), "b", b[:ROWS]), _with(_with(row, "a", a[8]), "b", b[7])
    for position in range(5):
        buffer[position] = row
    assert torch.equal(a[:5], a[8].expand(5, 2))
    assert torch.equal(b[:5], b[7].expand(5, 2))
    expected = b[4].clone(), a[4].clone()
    buffer[4] = _with(_with(row, "a", b[4]), "b", a[4])
    assert torch.equal(torch.stack([a[4], b[4]]), torch.stack(expected))
    shifted = a.view(-1)[9:11].clone()
    buffer[4] = _with(row, "a", a.view(-1)[9:11])
    assert torch.equal(a[4], shifted)


def test_what_is_remembered_keeps_no_tensor_alive() -> None:
    """A row may be freed after it was written; so may a replaced leaf."""
    buffer = MAKERS["untyped"](ROWS)
    rows = [MAKERS["untyped"]() for _ in range(4)]
    for position in range(4):
        buffer[0] = rows[position]
    left = [weakref.ref(row["a"]) for row in rows] + [weakref.ref(buffer["a"])]
    buffer["a"] = torch.zeros(ROWS, 2)
    del rows
    gc.collect()
    assert [ref() for ref in left] == [None] * 5
