"""Values in the printed form: one element shows its numbers and objects, each container its shared Python values."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tensorclass import (
    NonTensorData,
    PerElement,
    Ragged,
    Shared,
    TensorClass,
    TensorDict,
    lazy_stack,
    load_memmap,
    parse_tensor_dict_string,
    set_printoptions,
)
from tensorclass.typing import Float32


class Point(TensorClass):
    x: Float32[Tensor, "2"]
    name: PerElement[str]
    k: int


class Scene(TensorClass):
    points: Point
    track: Float32[Tensor, "8"]
    scale: Shared[Float32[Tensor, "2"]]
    sound: Ragged[Tensor, "t"]
    extra: TensorDict
    mask: Float32[Tensor, ""] | None = None


def points(*size: int) -> Point:
    """A batch of points."""
    names: Any = "w"
    for n in reversed(size):
        names = [names] * n
    return Point(torch.tensor([0.73, 0.99]).expand(*size, 2), name=names, k=3, batch_size=size)


def scenes(n: int, **values: Any) -> Scene:
    """A batch with each kind of field."""
    extra = TensorDict(a=torch.full((n,), 1.5), s="hi", batch_size=[n])
    track = torch.zeros(n, 8)
    sound: Any = [torch.tensor([1.0, 2.0])] * n
    return Scene(points(n), track, torch.ones(2), sound, extra, **values)


def test_one_element_of_a_class_reads_like_its_call() -> None:
    """Numbers with four digits, text in quotes, shared values."""
    assert repr(points(3)[0]) == repr(points()) == "Point(x=[0.73, 0.99], name='w', k=3)"
    assert repr(points(3).to("cpu")[0]) == "Point(x=[0.73, 0.99], name='w', k=3, device=cpu)"


def test_a_batch_shows_shared_python_values_only() -> None:
    """The values of elements would be long."""
    start = "Point(batch_size=[1], fields={x: f32[2], name: PerElement[str], k: int = 3})"
    assert repr(points(1)) == start
    assert repr(points(2, 3)) == start.replace("[1]", "[2,3]")
    assert repr(lazy_stack([points(), points()])).endswith("fields={x: f32[2], name: PerElement[str], k: int = 3})")


def test_one_element_shows_every_kind_of_field() -> None:
    """Nested, shared, ragged and untyped fields show values; long ones their shape; absent ones nothing."""
    with set_printoptions(width=200):
        text = repr(scenes(2)[0])
        assert text == (
            "Scene(points=Point(x=[0.73, 0.99], name='w', k=3), track=f32[8], scale=[1.0, 1.0], sound=[1.0, 2.0], "
            "extra={a: f32[] = 1.5, s: str = 'hi'})"
        )
        assert "mask=0.5" in repr(scenes(2, mask=torch.full((2,), 0.5))[1])
        assert repr(lazy_stack([scenes(2)[0], scenes(2)[0]])[1]) == text
    lines = repr(scenes(2)[0]).splitlines()
    assert lines[:2] == ["Scene(", "    points=Point(x=[0.73, 0.99], name='w', k=3),"]


def test_nested_batches_keep_their_form_in_one_element() -> None:
    """A nested container with batch dims of its own is a batch."""
    one = TensorDict(inner=points(4), batch_size=[])
    assert "inner: Point[4]{x: f32[2], name: PerElement[str], k: int = 3}" in repr(one)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (torch.tensor(2), "i64[] = 2"),
        (torch.tensor([True, False]), "bool[2] = [True, False]"),
        (torch.tensor([1234567.0, -2.0, 1e-7]), "f32[3] = [1.235e+06, -2.0, 1e-07]"),
        (torch.tensor([float("nan"), float("-inf")]), "f32[2] = [nan, -inf]"),
        (torch.tensor([1 + 2j]), "c64[1] = [1+2j]"),
        (torch.ones(2, 3), "f32[2,3] = [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]"),
        (torch.ones(6, dtype=torch.bfloat16), "bf16[6] = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]"),
        (torch.ones(7), "f32[7]"),
        (torch.ones(0, 3), "f32[0,3]"),
        (torch.ones(2, requires_grad=True), "f32[2] = [1.0, 1.0]"),
        (torch.nn.Parameter(torch.ones(1)), "f32[1] = [1.0]"),
        (torch.ones(1, device="meta"), "f32[1]"),
        (torch.eye(2).to_sparse(), "f32[2,2]"),
    ],
    ids=str,
)
def test_tensors_of_one_element_show_up_to_six_numbers(value: Tensor, shown: str) -> None:
    """Numbers are read only from dense tensors on the CPU."""
    data = TensorDict(a=value)
    with set_printoptions(width=200):
        assert repr(data) == f"TensorDict(batch_size=[], fields={{a: {shown}}})"
    back = parse_tensor_dict_string(repr(data))["a"]
    assert (back.shape, back.dtype) == (value.shape, value.dtype)


class Colour(Enum):
    RED = 1


class Slow:
    def __repr__(self) -> str:
        raise AssertionError("the printed form called a `__repr__` that may be slow")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3, "int = 3"),
        (10**50, "int = 100000000000000000...0000000000000000000"),
        (10**5000, "int"),
        (2.5, "float = 2.5"),
        (True, "bool = True"),
        ("x" * 1000, "str = 'xxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxx'"),
        ("a\nb", r"str = 'a\nb'"),
        ({"a": [1, 2], "b": Slow()}, "dict = {'a': [1, 2], 'b': Slow}"),
        (Slow(), "Slow"),
        (b"ab", "bytes = b'ab'"),
        (Path("a/b"), f"{type(Path()).__name__} = {Path('a/b')!r}"),
        (torch.float32, "dtype = torch.float32"),
        (Colour.RED, "Colour = <Colour.RED: 1>"),
    ],
    ids=lambda value: str(type(value).__name__),
)
@pytest.mark.parametrize("size", [[], [2], [2, 3]], ids=str)
def test_python_values_show_at_each_batch_size(value: Any, shown: str, size: list[int]) -> None:
    """Plain values are cut at 40 characters; of other objects the class is shown."""
    data = TensorDict({"v": NonTensorData(value)}, batch_size=size)
    text = repr(data)
    assert text.endswith(f"fields={{v: {shown}}})")
    assert len(text) < 120


def test_html_has_a_column_of_values() -> None:
    """Small tensors and objects fill it."""
    html = scenes(2)._repr_html_()
    assert html is not None
    assert ">value</th>" in html
    for cell in ("3", "[[0.73, 0.99], [0.73, 0.99]]", "[&#x27;w&#x27;, &#x27;w&#x27;]", "[1.0, 1.0]"):
        assert f">{cell}</td>" in html
    with set_printoptions(show_values=False):
        assert "0.73" not in str(scenes(2)._repr_html_())


def test_values_are_hidden_on_request() -> None:
    """One option hides numbers and Python values, as for logs."""
    with set_printoptions(show_values=False):
        assert repr(points()) == "Point(x=f32[2], name=PerElement[str], k=int)"
        assert repr(TensorDict(a=torch.tensor(1.0), s="x")) == "TensorDict(batch_size=[], fields={a: f32[], s: str})"


def test_fake_and_traced_tensors_show_no_values() -> None:
    """Their numbers do not exist, or reading them would change the trace."""
    seen: list[str] = []

    def look(x: Tensor) -> Tensor:
        seen.append(repr(TensorDict(a=x)))
        return x * 2

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        look(torch.zeros(2))
    look(mode.from_tensor(torch.zeros(2)))
    torch.vmap(look)(torch.zeros(3, 2))
    torch.func.grad(lambda x: look(x).sum())(torch.zeros(2))
    torch.func.functionalize(look)(torch.zeros(2))
    torch.fx.experimental.proxy_tensor.make_fx(look)(torch.zeros(2))
    assert len(seen) == 6
    assert not any("=" in text.partition("fields=")[2] for text in seen)


def test_an_element_of_a_file_shows_its_values(tmp_path: Path) -> None:
    """Six numbers are read from the mapped file."""
    points(3).memmap(tmp_path / "points")
    assert repr(load_memmap(tmp_path / "points")[1]).startswith("Point(x=[0.73, 0.99], name='w', k=3")


def test_one_element_of_a_class_is_read_back() -> None:
    """Numbers without a dtype become float32 or int64, and nested elements come back with them."""

    class Both(TensorClass):
        pose: Float32[Tensor, "2 2"]
        label: Tensor
        big: Tensor
        extra: TensorDict

    one = Both(torch.ones(2, 2), torch.tensor(3), torch.zeros(9), TensorDict(a=torch.tensor([0.5, float("nan")])))
    back = parse_tensor_dict_string(repr(TensorDict(b=one)))
    assert (back["b", "pose"].shape, back["b", "label"].dtype) == ((2, 2), torch.int64)
    back = parse_tensor_dict_string(repr(one))
    assert (back["pose"].shape, back["label"].dtype, back["big"].shape) == ((2, 2), torch.int64, (9,))
    assert back["extra", "a"].shape == (2,)
