"""Memory made ahead, a second look at values, pydantic's spelling: every kind of field in every kind of class."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import torch
from annotated_types import Ge
from pydantic import TypeAdapter
from torch import Tensor

from tensorclass import (
    PerElement,
    RaggedTensor,
    Shared,
    TensorClass,
    TensorDict,
    class_validator,
    field,
    lazy_stack,
    omit,
    produced,
)
from tensorclass.classes._conveniences import Conveniences
from tensorclass.errors import ArgumentError, SchemaError, UnknownFieldError
from tensorclass.typing import Bool, Float, Float16, Float32, Int64, Num, UInt8

NAMES = [name for name in vars(Conveniences) if not name.startswith("_") and name != "empty"]
FILLS: dict[str, Any] = {"zeros": 0, "ones": 1, "full": 1, "empty": None}


class Inner(TensorClass):
    grid: Float32[Tensor, "n 2*n"]
    kind: str = "inner"


class Every(TensorClass):
    """Each kind of field that can be made without being given."""

    image: Float32[Tensor, "c h w"]
    halved: Float16[Tensor, "h"]
    label: Int64[Tensor, ""]
    flag: Bool[Tensor, "2"]
    byte: UInt8[Tensor, "c+1"]
    some: Float[Tensor, ""]
    num: Num[Tensor, "1"]
    table: Shared[Float32[Tensor, "c 4"]]
    tokens: Int64[RaggedTensor, "t 2"]
    inner: Inner
    loose: TensorDict
    weight: Float32[Tensor, ""] | None = None
    source: str = "scan"
    who: PerElement[str] = "nobody"
    later: Float32[Tensor, "c"] = produced()


def allocate(op: str, cls: Any, size: Any, **options: Any) -> Any:
    """A call of any of the four."""
    return getattr(cls, op)(size, *([1] if op == "full" else []), **options)


@pytest.mark.parametrize("op", FILLS)
@pytest.mark.parametrize("size", [(), 3, [0], [2, 3]], ids=str)
def test_every_kind_of_field(op: str, size: Any):
    """What is made has the declared dtypes and shapes, the values of the operation, and passes every check."""
    batch = allocate(op, Every, size, c=3, h=2, w=4, n=2, device="cpu").validate()
    whole = torch.Size([size] if isinstance(size, int) else size)
    assert batch.batch_size == batch.inner.batch_size == batch.loose.batch_size == whole
    shapes = {name: tuple(batch.get(name).shape[len(whole) :]) for name in ("image", "halved", "byte", "num")}
    assert shapes == {"image": (3, 2, 4), "halved": (2,), "byte": (4,), "num": (1,)}
    assert batch.table.shape == (3, 4)
    assert batch.inner.grid.shape == (*whole, 2, 4)
    assert batch.tokens.lengths.equal(torch.zeros(whole, dtype=torch.int64))
    assert (batch.weight, batch.source, str(batch.device)) == (None, "scan", "cpu")
    if op != "empty":
        leaves = [batch.image, batch.halved, batch.label, batch.flag, batch.byte, batch.some, batch.table]
        assert all(bool((leaf == FILLS[op]).all()) for leaf in [*leaves, batch.inner.grid])


def test_written_into():
    """What was made ahead takes rows, ragged ones with their lengths."""
    buffer = Every.zeros(4, c=1, h=1, w=1, n=1)
    given = {"tokens": [torch.ones(3, 2).long(), torch.ones(1, 2).long()], "table": buffer.table}
    rows = Every.ones(2, c=1, h=1, w=1, n=1, fields=given)
    buffer[1:3] = rows
    assert buffer.label.tolist() == [0, 1, 1, 0]
    assert buffer.tokens.lengths.tolist() == [0, 3, 1, 0]


def test_ragged_length_by_name():
    """A size for the length of ragged elements gives each that many rows."""
    made = Every.ones(2, c=1, h=1, w=1, n=1, t=3)
    assert made.tokens.lengths.tolist() == [3, 3]
    assert made.tokens.values.sum() == 12


def test_empty_of_a_batch():
    """On a batch, and on the class with one, `empty` is what every container has."""
    batch = Inner.zeros(3, n=1)
    for found in (batch.empty(), Inner.empty(batch), batch.empty(batch_size=[3])):
        assert type(found) is TensorDict
        assert (found.batch_size, list(found.keys())) == ((3,), [])


class Odd(TensorClass):
    """Fields that nothing stands for."""

    free: Tensor
    open: Float32[Tensor, "a *rest"]
    anon: Float32[Tensor, "_"]
    who: PerElement[str]
    count: int
    inner: Inner


def test_what_has_no_value():
    """Every field that nothing stands for is named, with what to give."""
    with pytest.raises(SchemaError) as caught:
        Odd.zeros(3)
    found = {problem.path: (problem.given, problem.hint) for problem in caught.value.problems}
    assert found.keys() == {"free", "open", "anon", "who", "count", "inner.grid"}
    assert found["free"][0] == "no declared shape"
    assert found["open"][0] == "no size for `*rest`"
    assert found["inner.grid"] == ("no size for `n`", "give `n=...` or `zeros(..., fields={'inner': ...})`")
    assert found["count"] == ("no value", "give `zeros(..., fields={'count': ...})`")
    given = {"free": torch.ones(3), "open": torch.ones(3, 1), "anon": torch.ones(3, 1), "who": ["a"] * 3, "count": 1}
    assert Odd.zeros(3, n=1, fields=given).validate().batch_size == (3,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Every.zeros(3, cc=1), r"no field has a dim `cc`; did you mean `c`\?; the dims are \['c', 'h'"),
        (lambda: Every.zeros(3, c=-1), "a whole number from 0, got -1"),
        (lambda: Every.zeros(3, c="3"), "a whole number from 0, got '3'"),
        (lambda: TensorClass.zeros(3), "TensorClass declares no fields"),
        (lambda: Inner.zeros(3, n=1, fields={"gird": 1}), "gird"),
        (lambda: Inner.zeros(3, n=1, fields={("inner", "grid"): 1}), "`fields` is a dict from field names to values"),
        (lambda: Inner.zeros(3, n=1, fields=1), "`fields` is a dict from field names to values, got 1"),
        (lambda: Inner.zeros(-3, n=1), "-3"),
        (lambda: Every.full(3, 0.5, c=1, h=1, w=1, n=1), r"(?s)label.*torch.int64 can't hold 0.5.*flag.*byte"),
    ],
)
def test_wrong_calls(call: Any, message: str):
    """Sizes of unknown names, sizes that are none, numbers that a dtype can't hold."""
    with pytest.raises((ArgumentError, SchemaError, ValueError), match=message):
        call()


class Price(TensorClass, validate="values"):
    amount: Annotated[Float32[Tensor, ""], Ge(0)]


def test_constraints():
    """What is made passes the checks of the class; unfilled memory is zero where the class looks at it."""
    assert Price.empty(100).amount.eq(0).all()
    with pytest.raises(SchemaError, match="amount"):
        Price.full(3, -1)


# ---- validate --------------------------------------------------------------------------------------------------------


class Checked(TensorClass, validate="off"):
    low: Annotated[Float32[Tensor, ""], Ge(0)]
    high: Float32[Tensor, ""]
    word: PerElement[str] = "a"
    price: Price | None = None
    cast: Float32[Tensor, ""] | None = field(default=None, coerce="cast")

    @class_validator
    def ordered(self) -> None:
        if not bool((self.low <= self.high).all()):
            raise ValueError("low is above high")


def checked(**more: Any) -> Checked:
    """An instance that is right."""
    return Checked(low=torch.zeros(2), high=torch.ones(2), batch_size=2, **more)


def broken(name: str) -> Any:
    """An instance that was right, and a way around the class that made it wrong."""
    batch = checked(price=Price(torch.ones(2)), cast=torch.ones(2))
    store = batch._store
    if name == "value":
        batch.low.sub_(1)
    elif name == "check":
        batch.low.add_(2)
    elif name == "dtype":
        store.set("high", torch.ones(2, dtype=torch.int64))
    elif name == "shape":
        store.set("high", torch.ones(2, 3))
    elif name == "gone":
        store.del_("high")
    elif name == "nested":
        batch.price.amount.neg_()
    elif name == "cast":
        store.set("cast", torch.ones(2, dtype=torch.int64))
    return batch


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("value", "low"),
        ("check", "ordered()"),
        ("dtype", "high"),
        ("shape", "high"),
        ("gone", "high"),
        ("nested", "price.amount"),
        ("cast", "cast"),
    ],
)
def test_validate(name: str, path: str, stacked: bool):
    """Whatever went past the class is found, in nested classes and members of a stack too."""
    good, bad = broken(""), broken(name)
    assert good.validate() is good
    if stacked:
        stores = [good._store, bad._store]
        bad, path = Checked._wrap(lazy_stack(stores)), f"[1].{path}"
    with pytest.raises(SchemaError) as caught:
        bad.validate()
    assert path in [problem.path for problem in caught.value.problems]


# ---- the rest --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["python", "json"])
@pytest.mark.parametrize("options", [{}, {"exclude": {"word"}}, {"include": {"low", "price"}}, {"exclude_none": True}])
def test_model_dump(mode: Any, options: dict[str, Any]):
    """The dump is pydantic's own."""
    for batch in (checked(), checked(price=Price(torch.ones(2)))):
        wanted = TypeAdapter(Checked).dump_python(batch, mode=mode, **options)
        assert repr(batch.model_dump(mode=mode, **options)) == repr(wanted)
    with pytest.raises(ArgumentError, match='mode is "python" or "json"'):
        checked().model_dump(mode="yaml")  # type: ignore[arg-type]  # wrong on purpose


def test_omit():
    """A smaller instance around the same tensors; over a lazy stack too."""
    batch = checked(price=Price(torch.ones(2)))
    found = batch.omit("word", "price", Checked.cast)
    assert type(found) is omit(Checked, "word", "price", "cast")
    assert found.low.data_ptr() == batch.low.data_ptr()
    stacked = lazy_stack([batch, batch]).omit("word")
    assert stacked.batch_size == (2, 2)
    assert "word" not in stacked
    with pytest.raises(UnknownFieldError, match="did you mean `low`"):
        batch.omit("lov")


def test_numpy_spelling():
    """`to_numpy` is `numpy`."""
    batch = Inner.ones(2, n=1)
    assert repr(batch.to_numpy()) == repr(batch.numpy())


@pytest.mark.parametrize("name", NAMES)
def test_a_field_may_have_the_name(name: str):
    """A convenience makes room for a field of its name."""
    cls: Any = type("Own", (TensorClass,), {"__annotations__": {name: Tensor, "other": Tensor}})
    batch = cls(**{name: torch.arange(3), "other": torch.arange(3)}, batch_size=3)
    assert getattr(batch, name).tolist() == [0, 1, 2]
    assert getattr(cls, name).__field_path__ == (name,)


def test_a_field_named_empty():
    """With `shadow=True` a field may be named `empty`, as before."""

    class Box(TensorClass, shadow=True):
        empty: Float32[Tensor, ""]

    assert Box.empty.__field_path__ == ("empty",)
    assert Box(empty=torch.ones(2)).empty.tolist() == [1, 1]


def test_empty_when_compiled():
    """A compiled function calls `empty` of a batch."""

    def count(batch: Inner) -> Tensor:
        return batch.grid.sum() + len(batch.empty().keys())

    compiled = torch.compile(count, backend="eager", fullgraph=True)
    assert compiled(Inner.ones(2, n=1)) == 4
