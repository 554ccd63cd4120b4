"""Classes that mix tensors with a str, an absent optional field or a nested class take the way of plain ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, equal, lazy_stack
from tensorclass.errors import FrozenError, SchemaError, StructureError
from tensorclass.ops import _join, _operands
from tensorclass.ops._inplace import InplaceOps
from tensorclass.typing import Float32, Int64


class Plain(TensorClass):
    """Tensors alone."""

    a: Float32[Tensor, "3"]
    b: Float32[Tensor, "2"]


class Named(TensorClass):
    """A Python object beside them."""

    a: Float32[Tensor, "3"]
    b: Float32[Tensor, "2"]
    source: str = "scan"


class Weighted(TensorClass):
    """A field that may be absent."""

    a: Float32[Tensor, "3"]
    b: Float32[Tensor, "2"]
    weight: Float32[Tensor, ""] | None = None


class Outer(TensorClass):
    """A class in a class."""

    a: Float32[Tensor, "3"]
    b: Float32[Tensor, "2"]
    inner: Plain


class Counted(TensorClass):
    """Integers among the fields of a nested class."""

    a: Float32[Tensor, "3"]
    inner: Numbers


class Numbers(TensorClass):
    """Integers."""

    n: Int64[Tensor, ""]


def _make(cls: Any, seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    data = {"a": torch.rand(4, 3, generator=generator), "b": torch.rand(4, 2, generator=generator)}
    return cls(**data, inner=Plain(**data).clone()) if cls is Outer else cls(**data)


def _written(x: Any, write: Callable[[Any], Any]) -> Any:
    write(x)
    return x


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "int": lambda x, y: x[1],
    "slice": lambda x, y: x[1:3],
    "add": lambda x, y: x + y,
    "eq": lambda x, y: (x == y).a,
    "neg": lambda x, y: -x,
    "stack": lambda x, y: torch.stack([x, y]),
    "cat": lambda x, y: torch.cat([x, y], 0),
    "write": lambda x, y: _written(x, lambda x: x.__setitem__(0, y[2])),
    "update_": lambda x, y: x.update_(y),
    "iadd": lambda x, y: x.add_(y),
    "unsqueeze": lambda x, y: x.unsqueeze(0),
    "clone": lambda x, y: x.clone(),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("cls", [Named, Weighted, Outer])
def test_mixed_classes_go_the_quick_way(cls: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The general ways are not asked, and tensors are what they are without the other field."""

    def general(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"{name} of {cls.__name__} went the general way")

    run = OPERATIONS[name]
    due = run(_make(Plain, 0), _make(Plain, 1))
    with monkeypatch.context() as patch:
        patch.setattr(_operands, "align_leaves", general)
        patch.setattr(_join.Join, "entry", general)
        patch.setattr(InplaceOps, "_plan", general)
        found = run(_make(cls, 0), _make(cls, 1))
    if isinstance(due, Tensor):
        assert found.equal(due)
        return
    assert type(found) is cls
    assert [found.a.equal(due.a), found.b.equal(due.b), found.batch_size == due.batch_size] == [True] * 3
    if cls is Named:
        assert found.source == "scan"
    if cls is Weighted:
        assert found.weight is None
    if cls is Outer:
        assert equal(found.inner, due)


@pytest.mark.parametrize("op", ["eq", "ne"])
def test_comparisons_answer_for_objects(op: str) -> None:
    """Equal objects compare as tensors do; others go the general way, to the same kind of answer."""
    x, y = _make(Named, 0), _make(Named, 1)
    same = getattr(x, op)(y)
    assert same.source.equal(torch.full((4,), op == "eq"))
    y.source = "other"
    assert getattr(x, op)(y).source.equal(torch.full((4,), op == "ne"))
    nested = TensorDict(n=x, batch_size=[4])
    assert (nested == nested)["n"].source.all()


def test_objects_that_differ_are_refused() -> None:
    """Nothing is written or joined where one value can't stand for both."""
    x, y = _make(Named, 0), _make(Named, 1).replace(source="other")
    before = x.clone()
    for run in (lambda: x.update_(y), lambda: x.__setitem__(0, y[0]), lambda: torch.stack([x, y])):
        with pytest.raises(StructureError):
            run()
    assert equal(x, before)


def test_fields_that_one_side_lacks_go_the_general_way() -> None:
    """An optional field that is set on one side only is an error of arithmetic and of joins."""
    x, y = _make(Weighted, 0), _make(Weighted, 1).replace(weight=torch.ones(4))
    for run in (lambda: x + y, lambda: torch.stack([x, y]), lambda: y.copy_(x)):
        with pytest.raises((StructureError, KeyError)):
            run()


def test_integers_below_keep_their_declaration() -> None:
    """A nested class speaks for its own fields: a result of another dtype is refused."""
    x = Counted(a=torch.ones(4, 3), inner=Numbers(n=torch.ones(4, dtype=torch.int64)))
    assert (x + x).inner.n.dtype is torch.int64
    for run in (lambda: x / x, lambda: x / 2, x.sqrt):
        with pytest.raises(SchemaError):
            run()


def test_frozen_parts_refuse_writes() -> None:
    """Also where the container is untyped and its fields are declared."""

    class Still(TensorClass, frozen=True):
        x: Float32[Tensor, ""]

    class Holder(TensorClass):
        still: Still
        y: Float32[Tensor, ""]

    held = Holder(still=Still(x=torch.ones(4)), y=torch.ones(4))
    adopted = Holder.from_tensordict(TensorDict({"still": {"x": torch.ones(4)}, "y": torch.ones(4)}, batch_size=[4]))
    for data in (held, adopted):
        for run in (lambda data=data: data.__setitem__(0, data[1] + 1), lambda data=data: data.update_(data + 1)):
            with pytest.raises(FrozenError):
                run()
        assert data.y.equal(torch.ones(4))


@pytest.mark.parametrize("members", [4, 400])
@pytest.mark.parametrize("index", [0, -1, slice(1, 3), torch.tensor([0, 2])], ids=str)
def test_writing_members_looks_at_those_alone(members: int, index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many members a lazy stack has, an index write asks as many of them as it writes."""
    stack = lazy_stack([TensorDict(a=torch.zeros(3)) for _ in range(members)])
    value = TensorDict(a=torch.ones(3)) if isinstance(index, int) else TensorDict(a=torch.ones(2, 3), batch_size=[2])
    asked: set[int] = set()
    for name in ("_live", "_outline", "_entries", "_leaves", "_pair_leaves"):
        method = getattr(TensorDict, name)

        def counted(self: Any, *args: Any, method: Any = method, **kwargs: Any) -> Any:
            asked.add(id(self))
            return method(self, *args, **kwargs)

        monkeypatch.setattr(TensorDict, name, counted)
    stack[index] = value
    assert len(asked & {id(member) for member in stack._members}) <= 2
    monkeypatch.undo()
    due = torch.zeros(members, 3)
    due[index] = 1
    assert stack["a"].equal(due)
