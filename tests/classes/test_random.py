"""Random declarations with random instances: what is valid is taken, what is not is named, results stay valid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import PerElement, Shared, TensorClass, TensorDict, schema
from tensorclass._schema import check_field
from tensorclass.classes._fits import DimTable, make_fits
from tensorclass.errors import SchemaError
from tensorclass.typing import Bool, Float, Float32, Int, Int64, Num, Shaped


class Inner(TensorClass):
    """The nested class of random declarations; its `h` is its own."""

    z: Float32[Tensor, "h"]


FAMILIES: dict[str, tuple[Any, list[torch.dtype], list[torch.dtype]]] = {
    "Float32": (Float32, [torch.float32], [torch.float64, torch.int64, torch.bool]),
    "Int64": (Int64, [torch.int64], [torch.int32, torch.float32]),
    "Bool": (Bool, [torch.bool], [torch.uint8, torch.float32]),
    "Float": (Float, [torch.float16, torch.float32, torch.float64], [torch.int64, torch.complex64]),
    "Int": (Int, [torch.int8, torch.int64], [torch.float32, torch.bool, torch.uint8]),
    "Num": (Num, [torch.int64, torch.float32], [torch.bool]),
    "Shaped": (Shaped, [torch.bool, torch.float32], []),
}
TOKENS: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "1": lambda h, w: (1,),
    "3": lambda h, w: (3,),
    "h": lambda h, w: (h,),
    "w": lambda h, w: (w,),
    "_": lambda h, w: (2,),
    "h*2": lambda h, w: (h * 2,),
    "h+w": lambda h, w: (h + w,),
    "h*w": lambda h, w: (h * w,),
    "...": lambda h, w: (2, 1),
}
VALUES: dict[Any, Any] = {str: "text", int: 3, float: 0.5, bool: True, dict[str, int]: {"a": 1}, list[str]: ["x"]}


@dataclass
class Field:
    """One random field: its annotation, and what is valid and not for a batch size and the sizes of `h` and `w`."""

    annotation: Any
    make: Callable[[torch.Size, int, int], Any]
    spoil: Callable[[torch.Size, Any], list[Any]]
    optional: bool = False
    sized: bool = False


@st.composite
def tensor_fields(draw: st.DrawFn) -> Field:
    """A tensor of a random family and shape, with batch dims or shared."""
    family, good, bad = FAMILIES[draw(st.sampled_from(sorted(FAMILIES)))]
    tokens = draw(st.lists(st.sampled_from(sorted(TOKENS)), max_size=3))
    tokens = [token for i, token in enumerate(tokens) if token != "..." or i == tokens.index("...")]
    shared, dtype = draw(st.integers(0, 4)) == 0, draw(st.sampled_from(good))
    annotation: Any = family[Tensor, " ".join(tokens)]
    fixed = "..." not in tokens

    def make(size: torch.Size, h: int, w: int) -> Tensor:
        event = [n for token in tokens for n in TOKENS[token](h, w)]
        return torch.ones((*(() if shared else size), *event), dtype=dtype)

    def spoil(size: torch.Size, value: Tensor) -> list[Any]:
        wrong: list[Any] = [value.to(other) for other in bad] + [None, "text", object()]
        wrong += [value.unsqueeze(-1)] if fixed else []
        wrong += [torch.cat([value, value[:1], value[:1]])] if size and size[0] > 0 and not shared else []
        return wrong

    return Field(Shared[annotation] if shared else annotation, make, spoil, sized=fixed and not shared)


@st.composite
def other_fields(draw: st.DrawFn) -> Field:
    """A Python value, a value for each element, or a nested class."""
    kind = draw(st.sampled_from(["value", "per_element", "nested"]))
    if kind == "value":
        annotation = draw(st.sampled_from(sorted(VALUES, key=str)))
        return Field(annotation, lambda size, h, w: VALUES[annotation], lambda size, value: [None, object(), b"raw"])
    if kind == "per_element":
        return Field(
            PerElement[str],
            lambda size, h, w: _words(size),
            lambda size, value: [None, 3, *([["a"] * (size[0] + 1)] if size else [])],
        )
    return Field(
        Inner,
        lambda size, h, w: Inner(torch.ones(*size, 2)),
        lambda size, value: [
            None,
            TensorDict(z=value.z, batch_size=size),
            value.z,
            *([Inner(torch.ones(9, *size, 2))] if size else []),
        ],
        sized=True,
    )


def _words(size: torch.Size) -> Any:
    return [_words(size[1:]) for _ in range(size[0])] if size else "word"


@dataclass
class Sample:
    """A class, a batch size and valid arguments."""

    cls: Any
    fields: dict[str, Field]
    size: torch.Size
    values: dict[str, Any]


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    """A random declaration and a random valid instance of it."""
    found = draw(st.lists(st.one_of(tensor_fields(), tensor_fields(), other_fields()), min_size=1, max_size=5))
    fields = {f"f{i}": field for i, field in enumerate(found)}
    for field in fields.values():
        field.optional = draw(st.integers(0, 3)) == 0
    annotations = {
        name: field.annotation | None if field.optional else field.annotation for name, field in fields.items()
    }
    cls: Any = type(TensorClass)("Random", (TensorClass,), {"__annotations__": annotations, "__module__": __name__})
    size = torch.Size(draw(st.lists(st.integers(0, 3), max_size=2)))
    h, w = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    values = {name: field.make(size, h, w) for name, field in fields.items()}
    absent = [name for name, field in fields.items() if field.optional and draw(st.booleans())]
    return Sample(cls, fields, size, {name: None if name in absent else value for name, value in values.items()})


def same_entries(a: Any, b: Any) -> bool:
    """Whether two instances hold the same tensors and equal objects, under the same keys in the same order."""
    mine, theirs = a._store._entries(), b._store._entries()
    return list(mine) == list(theirs) and all(_same(mine[key], theirs[key]) for key in mine)


def _same(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    return a is b or getattr(a, "tensor", a) is getattr(b, "tensor", b) or plain(a) == plain(b)


def plain(value: Any) -> Any:
    """A per-element entry as lists."""
    return value.tolist() if hasattr(value, "tolist") else value


@given(samples())
def test_what_is_valid_is_taken_both_ways(sample: Sample) -> None:
    """The inline checks and the complete check agree on what is valid and store the same."""
    fast = sample.cls(**sample.values, batch_size=sample.size)
    slow = sample.cls(**sample.values, batch_size=sample.size, names=[None] * len(sample.size))
    assert same_entries(fast, slow)
    assert fast.batch_size == slow.batch_size == sample.size
    for name, value in sample.values.items():
        assert getattr(fast, name) is value or plain(getattr(fast, name)) == value
    if any(field.sized and sample.values[name] is not None for name, field in sample.fields.items()):
        assert sample.cls(**sample.values).batch_size == sample.size


@given(samples(), st.data())
def test_what_is_invalid_is_named(sample: Sample, data: st.DataObject) -> None:
    """One wrong value is refused by the constructor, by the setter and by `update`, under the name of its field."""
    batch = sample.cls(**sample.values, batch_size=sample.size)
    name = data.draw(st.sampled_from([n for n in sample.fields if sample.values[n] is not None] or [None]))
    if name is None:
        return
    field = sample.fields[name]
    wrong = [value for value in field.spoil(sample.size, sample.values[name]) if not (value is None and field.optional)]
    value = data.draw(st.sampled_from(range(len(wrong))).map(wrong.__getitem__))
    before = batch._store._entries()
    for attempt in (
        lambda: sample.cls(**{**sample.values, name: value}, batch_size=sample.size),
        lambda: setattr(batch, name, value),
        lambda: batch.replace(**{name: value}),
    ):
        with pytest.raises(SchemaError) as caught:
            attempt()
        assert any(problem.path.startswith(name) for problem in caught.value.problems)
    after = batch._store._entries()
    assert list(after) == list(before)
    assert all(after[key] is before[key] for key in before)


@given(samples(), st.data())
def test_results_of_operations_are_valid(sample: Sample, data: st.DataObject) -> None:
    """Index, shape and join results can be built again from their own fields."""
    batch = sample.cls(**sample.values, batch_size=sample.size)
    operations: list[Callable[[Any], Any]] = [
        lambda b: b.clone(),
        lambda b: b.unsqueeze(0),
        lambda b: torch.stack([b, b], -1),
        lambda b: b[None],
        lambda b: b[...],
        lambda b: b.reshape(*b.batch_size, 1),
        lambda b: b.expand(2, *b.batch_size),
        lambda b: b.squeeze(),
    ]
    if sample.size:
        operations += [
            lambda b: b[:1],
            lambda b: b.flip(0),
            lambda b: torch.cat([b, b]),
            lambda b: b[torch.arange(len(b))],
            lambda b: b[torch.ones(len(b)) > 0],
            lambda b: b.transpose(0, -1),
            lambda b: b.repeat_interleave(2, 0),
        ]
    for operation in data.draw(st.lists(st.sampled_from(operations), min_size=1, max_size=3)):
        batch = operation(batch)
        if not batch.ndim:
            break
    assert type(batch) is sample.cls
    again = sample.cls(**{name: getattr(batch, name) for name in sample.fields}, batch_size=batch.batch_size)
    assert same_entries(again, batch)


@given(samples(), st.integers(1, 3), st.integers(1, 3))
def test_the_quick_test_of_a_write_never_takes_what_the_full_one_refuses(sample: Sample, h: int, w: int) -> None:
    """A tensor that fits at once is valid by the complete check as well, whatever else is set."""
    batch = sample.cls(**sample.values, batch_size=sample.size)
    declared = schema(sample.cls)
    table = DimTable(declared)
    for name, spec in declared.fields.items():
        fits = make_fits(spec, table)
        if fits is None:
            continue
        value = sample.fields[name].make(sample.size, h, w)
        others = {n: v for n, v in sample.values.items() if n != name and v is not None}
        if fits(batch.batch_size, batch._store._entries(), value):
            assert check_field(declared, name, value, batch_size=batch.batch_size, others=others) is value
