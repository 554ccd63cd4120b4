"""Dtype families and the annotations that they make."""

from __future__ import annotations

import pickle
from typing import Annotated, Optional, get_args, get_type_hints

import pytest
import torch
from torch import Tensor

from tensorclass import typing as T
from tensorclass._schema import FAMILIES, Shape, TensorSpec, family_of, parse_dims
from tensorclass.errors import SchemaError
from tests.schema._helpers import stable

DTYPES = sorted(
    {dtype for name, dtype in vars(torch).items() if isinstance(dtype, torch.dtype)},
    key=str,
)
ORDINARY = [dtype for dtype in DTYPES if not any(part in str(dtype) for part in ("q", "bits", "float4"))]
ORDINARY = [
    dtype
    for dtype in ORDINARY
    if dtype not in {getattr(torch, f"{u}int{n}", 0) for u in ("", "u") for n in range(1, 8)}
]


def test_typing_exports_every_family():
    """`tensorclass.typing` has all families and `Shape`, and says so in `__all__`."""
    assert set(T.__all__) == {*FAMILIES, "Shape"}
    assert all(getattr(T, name) is family for name, family in FAMILIES.items())


@pytest.mark.parametrize("dtype", ORDINARY, ids=stable)
def test_every_dtype_has_its_family(dtype):
    """Each dtype that tensors commonly have is exactly one family, and belongs to `Shaped`."""
    family = family_of(dtype)
    assert family.exact is dtype
    assert FAMILIES[family.name] is family
    assert T.Shaped.accepts(dtype)
    assert T.Num.accepts(dtype) == (dtype is not torch.bool)


@pytest.mark.parametrize(
    ("family", "inside", "outside"),
    [
        (T.Float, torch.bfloat16, torch.complex64),
        (T.Float, torch.float8_e5m2, torch.int64),
        (T.Int, torch.int8, torch.uint8),
        (T.UInt, torch.uint16, torch.int16),
        (T.Complex, torch.complex32, torch.float32),
        (T.Inexact, torch.complex64, torch.int64),
        (T.Integer, torch.uint8, torch.float16),
        (T.Real, torch.int8, torch.complex64),
        (T.Num, torch.complex128, torch.bool),
        (T.Bool, torch.bool, torch.uint8),
    ],
    ids=stable,
)
def test_families(family, inside, outside):
    """The families of jaxtyping: `Int` is signed, `Num` leaves bool out."""
    assert family.accepts(inside)
    assert not family.accepts(outside)


def test_subsets():
    """A family is within each one that has all its dtypes."""
    assert T.Float32.is_within(T.Float)
    assert T.Float.is_within(T.Num)
    assert T.Num.is_within(T.Shaped)
    assert not T.Shaped.is_within(T.Num)
    assert not T.Float.is_within(T.Float32)


@pytest.mark.parametrize(
    ("family", "dtype", "admitted"),
    [
        (T.Float32, torch.float16, False),
        (T.Float32, torch.float32, True),
        (T.Float, torch.bfloat16, True),
        (T.Float, torch.int64, False),
        (T.Int64, torch.float16, True),
        (T.Complex64, torch.complex128, False),
        (T.Num, torch.float16, True),
        (T.Shaped, torch.bool, True),
    ],
    ids=stable,
)
def test_casts(family, dtype, admitted):
    """A cast leaves integers alone, so only floating families can refuse it."""
    assert family.admits_cast(dtype) is admitted


def test_family_names():
    """A set of dtypes goes by its family's name, or by the names of its members."""
    assert str(family_of(*T.Float.dtypes)) == "Float"
    assert str(family_of(torch.int32, torch.int64)) == "Int32|Int64"


@pytest.mark.parametrize("wrong", [torch.zeros(4, 2, 3), torch.zeros(3, 2), torch.zeros(3, 2, 4).half(), 3])
def test_isinstance_of_an_annotation(wrong: object):
    """The type in an annotation looks at dtype, rank and sizes, for tools that ask `isinstance`."""
    fitting = get_args(T.Float32[Tensor, "3 h w"])[0]
    assert isinstance(torch.zeros(3, 2, 4), fitting)
    assert not isinstance(wrong, fitting)


def test_annotation_is_annotated():
    """The standard library sees an `Annotated` type, so unions and hints work."""
    annotation = T.Float32[Tensor, "3 h w"]
    fitting, spec = get_args(annotation)
    assert spec == TensorSpec(T.Float32, parse_dims("3 h w"))
    assert issubclass(fitting, Tensor)
    assert pickle.loads(pickle.dumps(fitting)) is fitting
    assert annotation == T.Float32[Tensor, "3 h w"] != T.Float32[Tensor, "3 w h"]
    assert Optional[annotation] == (annotation | None)  # noqa: UP045  # both spellings are meant

    class Some:
        image: T.Float32[Tensor, "3 h w"] | None

    assert get_type_hints(Some, include_extras=True)["image"] == (annotation | None)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: T.Float32[Tensor], r"write Float32\[Tensor, \"...\"\] for any shape"),
        (lambda: T.Float32[Tensor, "3", "4"], "takes a tensor type and a shape"),
        (lambda: T.Float32[Tensor | None, "3"], r"an optional field is Float32\[Tensor, '3'\] \| None"),
        (lambda: T.Float32[int, "3"], r"Float32\[int, '3'\]: the first argument is `Tensor`"),
        (lambda: T.Float32[Tensor, 3], 'a shape is a string such as "3 h w", got 3'),
        (lambda: T.Float32[Tensor, [3, 4]], r"a shape is a string such as \"3 h w\", got \[3, 4\]"),
        (lambda: T.Float32[Tensor, "3,4"], "Float32: dim 1 of .* write spaces"),
        (lambda: Shape("h w)"), "Shape: dim 2 of"),
    ],
)
def test_wrong_annotations(make, words):
    """A wrong use of a family is refused where it is written."""
    with pytest.raises(SchemaError, match=words):
        make()


def test_specs_print_as_annotations():
    """A spec prints as one would write it."""
    assert str(TensorSpec(T.Float32, parse_dims("1 8 8"))) == 'Float32["1 8 8"]'
    assert str(TensorSpec(T.Float32)) == 'Float32["..."]'
    assert str(TensorSpec(T.Shaped)) == "Tensor"
    assert repr(Shape("3 h")) == 'Shape("3 h")'


def test_values_are_values():
    """Specs and families compare by value, hash, and survive pickling."""
    spec = TensorSpec(T.Float, parse_dims("3 h+1"))
    assert pickle.loads(pickle.dumps(spec)) == spec == TensorSpec(T.Float, parse_dims("3 1+h"))
    assert len({spec, TensorSpec(T.Float, parse_dims("3 1+h"))}) == 1
    assert Shape("3 h") == Shape("3  h") != Shape("3 w")
    assert len({Annotated[Tensor, spec], Annotated[Tensor, spec]}) == 1
