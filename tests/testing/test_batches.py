"""Made-up instances: whatever is drawn meets its declaration, and examples shrink to something small."""

from __future__ import annotations

import builtins
import datetime
import subprocess
import sys
from typing import Annotated

import pytest
import torch
from annotated_types import Ge, Gt, Le, Lt, MinLen, MultipleOf
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import PerElement, TensorClass, class_validator, equal, field_validator, schema, stack
from tensorclass.errors import BatchSizeError, MissingExtraError, SchemaError
from tensorclass.testing import batches, same
from tensorclass.typing import Float, Float8e4m3fn, Float32, Int64, Num, UInt64
from tests.testing._classes import EVERY, Dims, Kinds, Meta, Numbers, Tree

FEW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def valid(batch: TensorClass) -> bool:
    """Whether the constructor, which looks into values, takes the parts of an instance once more."""
    names = [spec.name for spec in schema(batch) if spec.init]
    again = type(batch)(**{name: getattr(batch, name) for name in names}, batch_size=batch.batch_size)
    return again.batch_size == batch.batch_size


@pytest.mark.slow
@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_every_batch_is_valid(cls):
    """Shared dims, expressions, constraints, nested and recursive classes, with values checked."""

    @FEW
    @given(batches(cls))
    def check(batch):
        assert type(batch) is cls
        assert valid(batch)

    check()


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("size", [(), 3, (2, 0)], ids=str)
def test_examples_are_valid(cls, size):
    """Every seed gives an instance, the same each time, and leaves the generator of torch alone."""
    fields = {"meta": Meta()} if cls is Kinds else None
    before = torch.get_rng_state()
    for seed in range(4):
        batch = cls.example(size, seed=seed, fields=fields)
        assert valid(batch)
        assert batch.batch_size == ((size,) if isinstance(size, int) else size)
        assert batch == same(cls.example(size, seed=seed, fields=fields))
    assert torch.equal(torch.get_rng_state(), before)


def test_examples_differ_by_seed():
    """Another seed is another instance."""
    assert Dims.example(4, seed=1, sizes={"h": 2, "w": 3}) != same(Dims.example(4, seed=2, sizes={"h": 2, "w": 3}))


def test_sizes_and_fields_are_taken():
    """Given sizes hold, and given tensors say theirs."""
    assert Dims.example(sizes={"h": 7}).mask.shape[0] == 7
    image = torch.zeros(2, 3, 5, 6)
    batch = Dims.example(2, fields={"image": image})
    assert batch.image is image
    assert batch.quarter.shape == (2, 3, 2, 5)
    shown = find(
        batches(Dims, batch_size=1, sizes={"w": 4}, fields={"free": st.just(torch.ones(1, 2))}), lambda _: True
    )
    assert shown.mask.shape[-1] == 4
    assert shown.free.tolist() == [[1, 1]]


@FEW
@given(batches(Numbers, batch_size=st.sampled_from([(1,), (2, 1)]), max_size=2))
def test_batch_sizes(batch):
    """A strategy of batch sizes, and a limit for named dims."""
    assert batch.batch_size in {(1,), (2, 1)}
    assert batch.unit.shape[-1] in {1, 2}


@FEW
@given(batches(Tree))
def test_recursion_ends(tree):
    """Optional fields of the class itself are absent at some depth."""
    assert tree.left is None or tree.left.left is None or tree.left.left.left is None


def test_shrinking():
    """A failing example is small: the least sizes, one element that matters, zeros elsewhere."""

    class Image(TensorClass):
        pixels: Float32[Tensor, "h w"]
        label: Int64[Tensor, ""]
        maybe: Float32[Tensor, "h"] | None = None

    found = find(
        batches(Image, batch_size=2),
        lambda batch: bool((batch.pixels > 3).any()),
        settings=settings(max_examples=300, derandomize=True),
    )
    assert found.pixels.shape == (2, 1, 1)
    assert found.pixels.max() == 4
    assert found.label.tolist() == [0, 0]
    assert found.maybe is None


def test_numbers_of_every_dtype():
    """Bounds and steps between the numbers of a dtype, and the ends of its range."""

    class Odd(TensorClass, validate="values"):
        tiny: Annotated[Float8e4m3fn[Tensor, ""], Gt(1), Le(2)]
        huge: Annotated[UInt64[Tensor, ""], Ge(2**63)]
        third: Annotated[Float32[Tensor, ""], Gt(1 / 3), Lt(0.3333335)]
        sixes: Annotated[Int64[Tensor, ""], MultipleOf(2), MultipleOf(3), Ge(1), Le(13)]
        any_number: Annotated[Num[Tensor, ""], Lt(-4)]

    @FEW
    @given(batches(Odd, batch_size=2))
    def check(batch):
        assert valid(batch)
        assert set(batch.sixes.tolist()) <= {6, 12}

    check()
    assert valid(Odd.example(20))


def test_nan_and_infinity_when_asked():
    """They are drawn for tensors without constraints only."""

    class Two(TensorClass, validate="values"):
        free: Float32[Tensor, ""]
        bound: Annotated[Float32[Tensor, ""], Ge(0)]

    strategy = batches(Two, batch_size=1, allow_nan=True, allow_infinity=True)
    assert find(strategy, lambda batch: bool(batch.free.isnan().all())).bound.isfinite().all()
    assert find(strategy, lambda batch: bool(batch.free.isneginf().all())).free.item() < 0


def test_families():
    """Several dtypes of a family are drawn; the usual one comes first."""

    class Soft(TensorClass):
        x: Float[Tensor, ""]

    assert find(batches(Soft), lambda _: True).x.dtype == torch.float32
    assert find(batches(Soft), lambda batch: batch.x.dtype == torch.bfloat16).x.dtype == torch.bfloat16


def test_validators_filter():
    """What a validator refuses is thrown away; an example says so."""

    class Span(TensorClass):
        start: Annotated[Int64[Tensor, ""], Ge(0), Lt(5)]
        end: Annotated[Int64[Tensor, ""], Ge(0), Lt(5)]

        @class_validator
        def order(self):
            if bool((self.end < self.start).any()):
                raise ValueError("ends before it starts")

        @field_validator("start")
        def even(cls, value):
            if bool((value % 2).any()):
                raise ValueError("starts are even")
            return value

    @FEW
    @given(batches(Span, batch_size=1))
    def check(span):
        assert span.end.item() >= span.start.item()
        assert span.start.item() % 2 == 0

    check()
    with pytest.raises(SchemaError, match=r"starts are even|ends before"):
        [Span.example(20, seed=seed) for seed in range(3)]


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (Float32[Tensor, "n n-100"], "sizes="),
        (Annotated[Int64[Tensor, ""], MultipleOf(50), Ge(1), Le(40)], "meets"),
        (Annotated[Float32[Tensor, "n-200"], MinLen(1)], "sizes="),
        (Annotated[object, 3] | complex, None),
    ],
)
def test_what_nothing_meets(annotation, text):
    """Declarations without an instance are told, not searched forever."""
    cls = type("Never", (TensorClass,), {"__annotations__": {"x": annotation}, "__module__": __name__})
    if text is None:
        assert cls.example() is not None
        return
    with pytest.raises(SchemaError, match=text):
        cls.example()


def test_examples_of_python_values():
    """Constraints of one element count, dates have examples."""

    class Row(TensorClass):
        x: Float32[Tensor, ""]
        code: PerElement[Annotated[str, MinLen(12)]]
        day: datetime.date
        when: datetime.datetime

    row = Row.example(2)
    assert row.code.tolist() == ["x" * 12] * 2
    assert type(row.day) is datetime.date
    assert type(row.when) is datetime.datetime
    with pytest.raises(BatchSizeError, match="-1"):
        Row.example(-1)


def test_types_without_an_example():
    """A Python type that nothing is known about asks for a value; the error names the class and the path."""

    class Odd(TensorClass):
        made: builtins.memoryview

    class Outer(TensorClass):
        odd: Odd

    with pytest.raises(SchemaError, match="no example of this type") as caught:
        Odd.example()
    assert str(caught.value).startswith("Odd: 1 problem\nmade\n")
    with pytest.raises(SchemaError) as caught:
        Outer.example()
    assert str(caught.value).startswith("Outer: 1 problem\nodd.made\n")
    assert Odd.example(fields={"made": memoryview(b"")}).made == b""


@FEW
@given(batches(Dims, batch_size=2), st.data())
def test_operations_hold_for_any_batch(batch, data):
    """What the strategies are for: a property of every batch."""
    index = data.draw(st.integers(0, 1))
    assert equal(stack([batch[0], batch[1]])[index], batch[index])


def test_hypothesis_is_optional(monkeypatch):
    """Without it, the extra is named; an error inside of it passes through."""
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    monkeypatch.delitem(sys.modules, "tensorclass.testing._strategies", raising=False)
    with pytest.raises(MissingExtraError, match=r"tensorclass\[testing\]"):
        batches(Dims)


@pytest.mark.slow
def test_import_is_light():
    """The pytest plugin loads neither torch nor hypothesis."""
    code = "import sys, tensorclass.testing._pytest; print([m for m in ('torch', 'hypothesis') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
