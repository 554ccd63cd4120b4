"""Casts leaf by leaf, by a test or by `attrs()`, memory formats, and what they leave alone; timing by name."""

from __future__ import annotations

from unittest import TestCase

import pytest
import torch
from torch import Tensor

from tensorclass import (
    MetaData,
    NonTensorStack,
    RaggedTensor,
    TensorAttrs,
    TensorDict,
    UnbatchedTensor,
    is_bool,
    is_floating,
    is_inexact,
    is_integer,
    lazy_stack,
    logger,
    tensorclass,
    timeit,
)
from tensorclass.errors import LockedError, SchemaError
from tensorclass.typing import Float, Float32, Int64

DTYPES = [torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.uint8, torch.bool]


@tensorclass
class Record:
    x: Float[Tensor, ""]
    fixed: Float32[Tensor, ""]
    label: Int64[Tensor, ""]


def data() -> TensorDict:
    """Several dtypes, nested, with an object and a shared tensor."""
    below = {"b": torch.zeros(3, dtype=torch.int64), "c": torch.zeros(3, dtype=torch.bool)}
    return TensorDict(
        {"a": torch.zeros(3), "n": below, "s": "k", "u": UnbatchedTensor(torch.zeros(5)), "o": NonTensorStack(*"xyz")},
        batch_size=[3],
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_predicates(dtype):
    """What torch says of a dtype, with and without a key before the tensor."""
    leaf = torch.zeros(2, dtype=dtype)
    assert is_floating(leaf) == is_floating("a", leaf) == dtype.is_floating_point
    assert is_inexact(leaf) == is_inexact(("a", "b"), leaf) == (dtype.is_floating_point or dtype.is_complex)
    assert is_bool(leaf) == is_bool("a", leaf) == (dtype is torch.bool)
    assert is_integer(leaf) == is_integer("a", leaf) == (not is_inexact(leaf) and not is_bool(leaf))


def test_cast_filter():
    """The filter sees each tensor by path, shared ones too, and decides alone."""
    seen = []
    result = data().to(torch.float16, cast_filter=lambda path, leaf: seen.append(path) or is_inexact(leaf))
    assert seen == [("a",), ("n", "b"), ("n", "c"), ("u",)]
    assert result["a"].dtype is result["u"].dtype is torch.float16
    assert result["n", "b"].dtype is torch.int64
    assert result["s"] == "k"
    assert data().half(cast_filter=is_integer)["n", "b"].dtype is torch.float16
    assert data().type(torch.float16, cast_filter=is_bool)["a"].dtype is torch.float32


def test_cast_filter_of_typed_classes():
    """A filter casts what the declaration admits, and reaches past the floating fields."""
    record = Record(x=torch.zeros(3), fixed=torch.zeros(3), label=torch.zeros(3, dtype=torch.int64))
    result = record.to(torch.float64, cast_filter=lambda path, leaf: path == ("x",))
    assert result.x.dtype is torch.float64
    with pytest.raises(SchemaError, match="label"):
        record.to(torch.float64, cast_filter=lambda path, leaf: path == ("label",))


def test_cast_filter_meets_ragged_values():
    """The values of a ragged entry are one leaf under its path."""
    ragged = TensorDict(r=RaggedTensor.of([torch.zeros(2), torch.zeros(1)], torch.Size([2])), batch_size=[2])
    paths = []
    ragged.to(torch.float64, cast_filter=lambda path, leaf: bool(paths.append(path)))
    assert paths == [("r",)]


def test_attrs():
    """Each tensor is described whole; objects stay what they are."""
    attrs = data().attrs()
    assert attrs.batch_size == ()
    assert attrs["a"] == TensorAttrs(torch.device("cpu"), torch.float32, torch.Size([3]))
    assert attrs["n", "c"].tgt_dtype is torch.bool
    assert attrs["u"].tgt_shape == (5,)
    assert attrs["s"] == "k"
    assert data().attrs(fields=("shape",))["a"] == TensorAttrs(tgt_shape=torch.Size([3]))
    with pytest.raises(ValueError, match="got 'stride'"):
        data().attrs(fields=("stride",))


@pytest.mark.parametrize("kind", ["dense", "lazy", "typed"])
def test_to_attrs(kind):
    """Leaves take the dtype that stands under their path; what attrs do not name stays."""
    if kind == "typed":
        source = Record(x=torch.zeros(2), fixed=torch.zeros(2), label=torch.zeros(2, dtype=torch.int64))
        attrs = TensorDict(x=TensorAttrs(tgt_dtype=torch.float64))
        assert source.to(attrs).x.dtype is torch.float64
        assert source.to(attrs).fixed is source.fixed
        with pytest.raises(SchemaError, match="label"):
            source.to(TensorDict(label=TensorAttrs(tgt_dtype=torch.int8)))
        return
    source = TensorDict(a=torch.ones(2), b=torch.ones(2), batch_size=[2])
    target = source.attrs(fields=("dtype",)).exclude("b")
    target["a"] = TensorAttrs(tgt_dtype=torch.int32)
    container = source if kind == "dense" else lazy_stack([source, source.clone()])
    result = container.to(target)
    assert type(result) is type(container)
    assert result["a"].dtype is torch.int32
    assert result["b"].dtype is torch.float32
    seen = []
    chosen = container.to(torch.float64, cast_filter=lambda path, leaf: seen.append(path) or path == ("b",))
    assert type(chosen) is type(container)
    assert set(seen) == {("a",), ("b",)}
    assert (chosen["a"].dtype, chosen["b"].dtype) == (torch.float32, torch.float64)


def test_casts_of_typed_stacks():
    """A class over a lazy stack casts by path as it does over a dense store."""
    record = Record(x=torch.zeros(2), fixed=torch.zeros(2), label=torch.zeros(2, dtype=torch.int64))
    stack = Record.from_tensordict(lazy_stack([record.to_tensordict(), record.to_tensordict()]))
    assert stack.to(torch.float64, cast_filter=lambda path, leaf: path == ("x",)).x.dtype is torch.float64
    assert type(stack.to(TensorDict(x=TensorAttrs(tgt_dtype=torch.float64)))) is Record
    with pytest.raises(SchemaError, match="label"):
        stack.to(TensorDict(label=TensorAttrs(tgt_dtype=torch.int8)))


def test_to_attrs_of_another_device():
    """A device that the container imposes goes when a leaf leaves it."""
    source = TensorDict(a=torch.zeros(2), b=torch.zeros(2), batch_size=[2], device="cpu")
    moved = source.to(TensorDict(a=TensorAttrs(torch.device("meta"))))
    assert moved["a"].is_meta
    assert moved["b"].is_cpu
    assert moved.device is None
    assert source.to(source.attrs()).device == torch.device("cpu")


def test_memory_format():
    """Leaves of four and five dims are laid out anew, as modules lay out theirs."""
    images = TensorDict(image=torch.zeros(2, 3, 4, 5), score=torch.zeros(2), batch_size=[2])
    result = images.to(memory_format=torch.channels_last)
    assert result["image"].is_contiguous(memory_format=torch.channels_last)
    assert result["score"] is images["score"]


def test_in_place():
    """The container keeps its identity, a locked one refuses."""
    container = TensorDict(a=torch.zeros(2), n={"b": torch.zeros(2)}, batch_size=[2])
    assert container.to(torch.float64, inplace=True) is container
    assert container["n", "b"].dtype is torch.float64
    container.to("cpu", inplace=True)
    assert container.device == torch.device("cpu")
    with pytest.raises(LockedError):
        container.lock_().to(torch.float32, inplace=True)


def test_options_together():
    """A device, a dtype, a filter and a batch size in one call."""
    result = data().to("cpu", torch.float64, False, cast_filter=is_floating, batch_size=[], num_threads=2)
    assert result.batch_size == ()
    assert result.device == torch.device("cpu")
    assert result["a"].dtype is torch.float64
    assert result["n", "b"].dtype is torch.int64
    with pytest.raises(TypeError, match="colour"):
        data().to("cpu", colour="red")


def test_metadata_stays():
    """A cast does not touch objects that belong to the batch."""
    config = {"lr": 0.1}
    assert TensorDict(a=torch.zeros(2), c=MetaData(config), batch_size=[2]).to(torch.float64)["c"] is config


def test_timeit(capsys):
    """Blocks and functions add up by name; the totals go to the logger, or to stderr when nobody listens."""
    timeit.erase()

    @timeit("outer")
    def outer(depth: int) -> int:
        """Calls itself."""
        return depth if depth == 0 else outer(depth - 1)

    outer(2)
    with timeit("block"), timeit("block"):
        pass
    assert (timeit.calls("outer"), timeit.calls("block"), timeit.calls("absent")) == (3, 2, 0)
    assert outer.__doc__ == "Calls itself."
    with TestCase().assertLogs("tensorclass", "INFO") as logs:
        timeit.print("after:")
    names = [record.getMessage().partition(" took")[0] for record in logs.records]
    assert names == ["after: block", "after: outer"]
    timeit.erase()
    assert timeit.calls("outer") == 0
    assert logger.name == "tensorclass"


def test_timeit_without_a_handler(monkeypatch, capsys):
    """Without any handler the totals are printed to stderr."""
    monkeypatch.setattr(logger, "propagate", False)
    timeit.erase()
    with timeit("block"):
        pass
    timeit.print()
    timeit.erase()
    assert "block took" in capsys.readouterr().err
