"""The constructor inside compiled code: every declared feature traces whole, or says why it can't."""

from __future__ import annotations

from dataclasses import InitVar
from typing import Annotated

import pytest
import torch
from annotated_types import Ge, MinLen
from torch import Tensor

from tensorclass import (
    PerElement,
    RaggedTensor,
    Shared,
    TensorClass,
    class_validator,
    equal,
    field,
    field_validator,
    produced,
)
from tensorclass.errors import SchemaError
from tensorclass.typing import Bool, Float32, Int64

X = torch.arange(12.0).reshape(4, 3)


class OptionalFirst(TensorClass):
    """The batch size comes from a later field."""

    mask: Bool[Tensor, ""] | None
    x: Float32[Tensor, "3"]


class Expressions(TensorClass):
    """Sizes that are solved for, one of them only at the end."""

    area: Float32[Tensor, "h*w"]
    x: Float32[Tensor, "h w"]
    part: Float32[Tensor, "2*(h-1) (w+1)//2"]
    rest: Float32[Tensor, "n-1 *s"]
    n: Float32[Tensor, "n"]
    s: Float32[Tensor, "*s _"]


class OptionalDims(TensorClass):
    """The name may be bound by a field that is absent."""

    x: Float32[Tensor, "n"] | None = None
    y: Float32[Tensor, "n"] | None = None


class AnyRank(TensorClass):
    """Any event shape."""

    x: Float32[Tensor, "..."]
    y: Float32[Tensor, "3"]


class Validated(TensorClass):
    """Checks of the user's own."""

    x: Float32[Tensor, "3"]
    y: Float32[Tensor, "3"]

    @field_validator("x")
    def doubled(cls, value: Tensor) -> Tensor:
        """Another value."""
        return value * 2

    @class_validator
    def alike(self) -> Validated:
        """The state as a whole."""
        if self.x.device != self.y.device:
            raise ValueError("on two devices")
        return self


class Defaults(TensorClass):
    """Defaults of every kind, and a field outside of the constructor."""

    x: Float32[Tensor, "3"]
    weight: Float32[Tensor, ""] = torch.tensor(2.0)
    y: Float32[Tensor, "3"] = field(default_factory=lambda: torch.ones(4, 3))
    text: str = "none"
    later: Float32[Tensor, "3"] | None = field(default=None, init=False)
    made: Float32[Tensor, "3"] = produced()


class Entries(TensorClass):
    """What is no tensor with the batch in front."""

    x: Float32[Tensor, "3"]
    table: Shared[Float32[Tensor, "k"]]
    words: PerElement[str]
    tokens: Float32[RaggedTensor, "t"]
    count: int


class Converted(TensorClass, autocast=True):
    """Tensors of another dtype."""

    x: Float32[Tensor, "3"]
    index: Int64[Tensor, ""] = field(coerce="cast")


class Computed(TensorClass, frozen=True):
    """A frozen class with nested ones and lengths."""

    inner: OptionalFirst
    x: Annotated[Float32[Tensor, "k"], MinLen(2)]
    other: OptionalFirst | None = None


class Scaled(TensorClass):
    """An argument that is no field."""

    x: Float32[Tensor, "3"]
    factor: InitVar[int]

    def __post_init__(self, factor: int) -> None:
        """Writes a field."""
        self.x = self.x * factor


class Bounded(TensorClass, validate="values"):
    """Held against the values."""

    x: Annotated[Float32[Tensor, "3"], Ge(0)]


class Listed(TensorClass):
    """A value that pydantic checks."""

    x: Float32[Tensor, "3"]
    sizes: list[int]


class Unchecked(TensorClass, validate="off"):
    """Whatever comes."""

    x: Annotated[Float32[Tensor, "3"], Ge(0)]


def _expressions(x: Tensor) -> Expressions:
    image = x[:, :2, None].expand(4, 2, 5)
    return Expressions(image.flatten(1), image, torch.ones(4, 2, 3), torch.ones(4, 1, 7), x[:, :2], torch.ones(4, 7, 1))


WHOLE = {
    "optional first": lambda x: OptionalFirst(x=x),
    "all arguments": lambda x: OptionalFirst(x[:, 0] > 1, x),
    "batch size": lambda x: OptionalFirst(x=x, batch_size=[4]),
    "device": lambda x: OptionalFirst(x=x, device="cpu"),
    "names": lambda x: OptionalFirst(x=x, names=["time"]),
    "expressions": _expressions,
    "optional dims": lambda x: OptionalDims(y=x),
    "any rank": lambda x: AnyRank(x, x),
    "validators": lambda x: Validated(x, x),
    "defaults": lambda x: Defaults(x + 1),
    "entries": lambda x: Entries(x, x[0], ["a", "b", "c", "d"], [x[0], x[1, :1], x[2], x[3, :2]], 3),
    "conversion": lambda x: Converted(x.double(), x[:, 0]),
    "nested": lambda x: Computed(OptionalFirst(x=x), x[:, :2], OptionalFirst(x=x + 1)),
    "init var": lambda x: Scaled(x, factor=3),
    "unchecked": lambda x: Unchecked(-x),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_constructors_trace_whole(name: str) -> None:
    """One graph, and the instance that eager code makes."""
    torch._dynamo.reset()
    expected = WHOLE[name](X)
    result = torch.compile(WHOLE[name], fullgraph=True, backend="eager")(X)
    assert type(result) is type(expected)
    assert equal(result, expected)
    assert (result.batch_size, result.names) == (expected.batch_size, expected.names)


class Sizes(TensorClass):
    """Event sizes that nobody knows before."""

    x: Float32[Tensor, "2*n m"]
    y: Float32[Tensor, "n n*m-1"]


@pytest.mark.slow
def test_sizes_that_vary_trace_whole() -> None:
    """Dims are solved for in terms of sizes that stay symbols."""
    torch._dynamo.reset()

    def make(x: Tensor, y: Tensor) -> Sizes:
        return Sizes(x + 1, y)

    traced = torch.compile(make, fullgraph=True, dynamic=True, backend="eager")
    for n, m in ((2, 3), (3, 4), (5, 7)):
        x, y = torch.randn(4, 2 * n, m), torch.randn(4, n, n * m - 1)
        assert equal(traced(x, y), make(x, y))
    assert traced(x, y).x.shape == (4, 10, 7)


@pytest.mark.slow
def test_writes_trace_whole() -> None:
    """What is written into an instance is held to the dims of the others."""
    torch._dynamo.reset()

    def write(x: Tensor) -> Expressions:
        batch = _expressions(x).replace(area=torch.zeros(4, 10))
        batch.part = batch.part + 1
        return batch

    assert equal(torch.compile(write, fullgraph=True, backend="eager")(X), write(X))


NOT_WHOLE = {
    "values": (lambda x: Bounded(x + 1), "`x`: Ge(ge=0) depends on the values of a tensor"),
    "pydantic": (lambda x: Listed(x, [1]), "`sizes`: list[int] is checked by pydantic"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NOT_WHOLE)
def test_what_only_eager_code_can_check(name: str) -> None:
    """A graph break whose reason names the field; without `fullgraph` the check runs as always."""
    torch._dynamo.reset()
    make, reason = NOT_WHOLE[name]
    with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        torch.compile(make, fullgraph=True, backend="eager")(X)
    assert reason in str(caught.value)
    torch._dynamo.reset()
    assert equal(torch.compile(make, backend="eager")(X), make(X))


@pytest.mark.slow
def test_what_is_wrong_is_refused_in_compiled_code() -> None:
    """The errors of eager code, from values too."""
    torch._dynamo.reset()
    with pytest.raises(SchemaError, match=">= 0"):
        torch.compile(NOT_WHOLE["values"][0], backend="eager")(-X)
    with pytest.raises(SchemaError, match="area"):
        torch.compile(lambda x: _expressions(x).replace(area=x), backend="eager")(X)
