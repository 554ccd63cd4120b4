"""Every spelling of an annotation, and the kind of field that it declares."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NewType, Optional, TypeVar, Union

import annotated_types
import jaxtyping
import numpy as np
import pytest
import torch
from annotated_types import MinLen
from torch import Tensor, nn
from typing_extensions import TypeAliasType

from tensorclass import PerElement, Ragged, RaggedTensor, Shared
from tensorclass._schema._dtypes import TensorSpec
from tensorclass.errors import SchemaError
from tensorclass.typing import Float, Float32, Int64, Shape, Shaped
from tests.schema._helpers import Collection, declare, field_of, only, refused, stable


@declare
class Inner:
    x: Tensor


T = TypeVar("T")
B = TypeVar("B", bound=Inner)
Alias = TypeAliasType("Alias", Float32[Tensor, "3"])
GenericAlias = TypeAliasType("GenericAlias", T | None, type_params=(T,))
Image = NewType("Image", Tensor)


class Half(jaxtyping.AbstractDtype):
    """A family of jaxtyping that has no name here."""

    dtypes = ("float32", "float16", "qfloat3")


class NoSuchDtype(jaxtyping.AbstractDtype):
    """One of dtypes that torch lacks."""

    dtypes = ("qfloat3",)


IMAGE = 'Float32["3 h w"]'


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (Tensor, "Tensor"),
        (nn.Parameter, "Tensor"),
        (Float32[Tensor, "3 h w"], IMAGE),
        (Float32[Tensor, ""], 'Float32[""]'),
        (Annotated[Tensor, Shape("3 h w"), torch.float32], IMAGE),
        (Annotated[Tensor, torch.float32, Shape("3 h w")], IMAGE),
        (Annotated[Tensor, Float32, Shape("3 h w")], IMAGE),
        (Annotated[Tensor, torch.float32], 'Float32["..."]'),
        (Annotated[Tensor, Shape("3 h w")], 'Shaped["3 h w"]'),
        (Annotated[Shaped[Tensor, "3 h w"], torch.float32], IMAGE),
        (Annotated[Tensor, TensorSpec(Float32), Shape("3 h w")], IMAGE),
        (jaxtyping.Float32[Tensor, "3 h w"], IMAGE),
        (jaxtyping.Float[Tensor, "..."], 'Float["..."]'),
        (jaxtyping.Int[Tensor, "n"], 'Int["n"]'),
        (jaxtyping.Bool[Tensor, ""], 'Bool[""]'),
        (jaxtyping.Shaped[Tensor, "n"], 'Shaped["n"]'),
        (Half[Tensor, "n"], 'Float16|Float32["n"]'),
        (Image, "Tensor"),
        (Alias, 'Float32["3"]'),
        (Final[Float32[Tensor, "3"]], 'Float32["3"]'),
    ],
    ids=stable,
)
def test_tensors(annotation, text):
    """The spellings of a tensor field."""
    spec = field_of(annotation)
    assert (spec.kind, str(spec), spec.optional) == ("tensor", text, False)


@pytest.mark.parametrize(
    "annotation",
    [
        Float32[Tensor, "3"] | None,
        Optional[Float32[Tensor, "3"]],  # noqa: UP045  # the older spelling is accepted
        Union[None, Float32[Tensor, "3"]],  # noqa: UP007  # the older spelling is accepted
        Annotated[Float32[Tensor, "3"] | None, "note"],
        Annotated[Tensor | None, Shape("3"), torch.float32],
        jaxtyping.Float32[Tensor, "3"] | None,
        GenericAlias[Float32[Tensor, "3"]],
    ],
    ids=stable,
)
def test_optional_tensors(annotation):
    """`None` may stand inside or outside."""
    spec = field_of(annotation)
    assert (spec.kind, str(spec), spec.optional) == ("tensor", 'Float32["3"] | None', True)
    assert spec.required


@pytest.mark.parametrize(
    ("annotation", "kind", "text"),
    [
        (Any, "any", "Any"),
        (T, "any", "Any"),
        (Inner, "nested", "Inner"),
        (B, "nested", "Inner"),
        (Inner | None, "nested", "Inner | None"),
        (Collection, "collection", "Collection"),
        (PerElement[str], "per_element", "PerElement[str]"),
        (PerElement[str] | None, "per_element", "PerElement[str] | None"),
        (PerElement, "per_element", "PerElement[Any]"),
        (PerElement[str | None], "per_element", "PerElement[str | None]"),
        (Shared[Tensor], "shared", "Shared[Tensor]"),
        (Shared[Float32[Tensor, "n"]], "shared", 'Shared[Float32["n"]]'),
        (Shared[Float32[Tensor, "n"]] | None, "shared", 'Shared[Float32["n"]] | None'),
        (Shared[Float32[Tensor, "n"] | None], "shared", 'Shared[Float32["n"]] | None'),
        (str, "value", "str"),
        (int | None, "value", "int | None"),
        (dict[str, int], "value", "dict[str, int]"),
        (Literal["train", "test"], "value", "Literal['train', 'test']"),
        (int | str, "value", "int | str"),
        (list[Tensor], "value", "list[Tensor]"),
    ],
    ids=stable,
)
def test_other_kinds(annotation, kind, text):
    """What is no tensor field."""
    spec = field_of(annotation)
    assert (spec.kind, str(spec)) == (kind, text)


def test_nested_class_is_kept():
    """A nested field knows its class."""
    assert field_of(Inner | None).nested is Inner
    assert field_of(str).nested is None


def test_core_and_declared_annotation():
    """`annotation` is the bare type, `declared` what was written."""
    spec = field_of(Annotated[int, annotated_types.Gt(0)] | None)
    assert spec.annotation is int
    assert spec.declared == (Annotated[int, annotated_types.Gt(0)] | None)
    assert spec.metadata == (annotated_types.Gt(0),)


def test_metadata_of_tensors_is_kept():
    """Constraints stay beside dtype and shape; metadata that compares oddly does no harm."""
    spec = field_of(Annotated[Float32[Tensor, ""], annotated_types.Ge(0), np.zeros(2)])
    assert spec.metadata[0] == annotated_types.Ge(0)
    assert len(spec.metadata) == 2
    assert str(spec) == 'Float32[""]'


@pytest.mark.parametrize(
    ("annotation", "given", "hint"),
    [
        (Annotated[Float32[Tensor, "3"], torch.float64], "two dtypes: Float32 and Float64", "declare the dtype once"),
        (Annotated[Float32[Tensor, "3"], Shape("4")], 'two shapes: "3" and "4"', "declare the shape once"),
        (Annotated[Tensor, torch.int8, torch.int16], "two dtypes: Int8 and Int16", "declare the dtype once"),
        (Annotated[str, Shape("3")], 'Shape("3") on the type str', "belong to a `Tensor` annotation"),
        (Annotated[int, torch.int64], "int64 on the type int", "belong to a `Tensor` annotation"),
        (Shared[str], "Shared[str]", "is shared by the batch already"),
        (Shared[Inner], "Shared[Inner]", "`Shared` marks a tensor"),
        (Float32[Tensor, "3"] | Int64[Tensor, "3"], "a union of Tensor and Tensor", "declare a dtype family"),
        (Tensor | str, "a union of Tensor and str", "by itself or with `| None`"),
        (Inner | Tensor | None, "a union of Inner and Tensor", "by itself or with `| None`"),
        (Collection | Inner, "a union of Collection and Inner", "by itself or with `| None`"),
        (PerElement[str] | int, "a union of", "by itself or with `| None`"),
        (RaggedTensor | str, "a union of RaggedTensor and str", "by itself or with `| None`"),
        (
            NoSuchDtype[Tensor, "n"],
            "the dtypes ['qfloat3']",
            "torch has none of them; take one of `tensorclass.typing`",
        ),
        (Annotated[Any, MinLen(2)], "MinLen(min_length=2) on Any", "constraints are for tensors and Python values"),
        (Ragged[Tensor, "3 d"], "a ragged field of the shape", "differs from element to element"),
        (Ragged[Tensor, "t t"], "a ragged field of the shape", "a name of its own"),
        (Ragged[Tensor, ""], "a ragged field of the shape", "a name of its own"),
        (Ragged[str, "t"], "Ragged[str]", "the elements are tensors"),
        (Shared[Ragged[Tensor, "t"]], "Shared and ragged", "drop `Shared`"),
        (jaxtyping.Float32[np.ndarray, "3"], "the array type ndarray", "fields hold `Tensor`"),
        (jaxtyping.Float32[Tensor, "3 #n"], 'the shape "3 #n"', "broadcasting"),
    ],
    ids=stable,
)
def test_wrong_annotations(annotation, given, hint):
    """An annotation that contradicts itself says what is wrong and how to mend it."""
    problem = only(refused(type("Wrong", (), {"__annotations__": {"x": annotation}})))
    assert problem.path == "x"
    assert problem.given.startswith(given)
    assert hint in problem.hint


def test_the_declaration_is_printed_in_full():
    """The error shows the annotation, not just that there was one."""
    annotation = Annotated[Float32[Tensor, "3"], torch.float64]
    problem = only(refused(type("Wrong", (), {"__annotations__": {"x": annotation}})))
    assert problem.declared == 'Annotated[Tensor, Float32["3"], torch.float64]'


def test_per_element_has_no_instances():
    """Calling the marker is a mistake that is explained."""
    with pytest.raises(SchemaError, match="PerElement is an annotation"):
        PerElement()


def test_ragged_needs_a_shape():
    """The marker takes what a tensor annotation takes."""
    with pytest.raises(SchemaError, match="takes a tensor type and a shape"):
        Ragged[Tensor]


def test_float_family_of_jaxtyping_is_ours():
    """Their `Float` and ours are one family, although each knows dtypes that the other does not."""
    assert field_of(jaxtyping.Float[Tensor, "n"]) == field_of(Float[Tensor, "n"])
