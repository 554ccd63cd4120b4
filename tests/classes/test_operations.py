"""Every operation on typed batches: the class is kept, every field follows the batch, results are valid again."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, equal, field
from tensorclass.errors import CastError, SchemaError
from tensorclass.typing import Float, Float32, Int64
from tests.classes._samples import SAMPLES, Form, aligned, digits, everything, pose
from tests.contract._operations import OPS, Op

NS = SAMPLES["decorator"]
# The table has dtypes and values that no declaration of this file admits; they have tests of their own here.
REARRANGING = [
    op
    for op in OPS
    if not op.untyped
    and not op.writes
    and not op.restructures
    and not any(
        word in op.name
        for word in (
            "to(torch",
            "()",
            "type",
            "apply(",
            "full",
            "ones",
            "zeros",
            "fill",
            "where",
            "named_apply",
            "to(tensor)",
            "batch_size",
        )
    )
    and op.name
    not in {
        str(dtype).split(".")[1]
        for dtype in (
            torch.float16,
            torch.bfloat16,
            torch.float32,
            torch.float64,
            torch.int8,
            torch.int16,
            torch.int32,
            torch.int64,
            torch.uint8,
            torch.uint16,
            torch.uint32,
            torch.uint64,
            torch.bool,
            torch.complex64,
            torch.complex128,
        )
    }
]


def revalidate(batch: Any) -> Any:
    """Build a batch again from its own fields: raises unless they fit the declaration."""
    names = inspect.signature(type(batch)).parameters
    given = {name: getattr(batch, name) for name in names if name in batch}
    return type(batch)(**given, batch_size=batch.batch_size)


def results_of(result: Any) -> list[Any]:
    """What an operation gave, as a list."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


def suiting(*sizes: tuple[int, ...]) -> list[Any]:
    """Every operation with each of the batch sizes that its arguments are for."""
    return [pytest.param(op, size, id=f"{op.name}-{size}") for op in REARRANGING for size in sizes if op.suits(size)]


@pytest.mark.parametrize(("op", "size"), suiting((2, 3), (4,), ()))
def test_every_field_follows_the_batch(op: Op, size: tuple[int, ...]) -> None:
    """Letters, angles and masks stay beside their labels, shared tensors as they are, classes what they were."""
    batch = everything(NS, *size)
    for result in results_of(op.call(batch)):
        assert type(result) is NS.Everything
        assert type(result.pose) is NS.Pose
        assert result.pose.batch_size == result.extra.batch_size == result.batch_size
        assert result.to_tensordict().get("who").shape == result.batch_size
        aligned(result)
        revalidate(result)
    aligned(batch)


@pytest.mark.parametrize(("op", "size"), suiting((2, 3)))
def test_a_subclass_is_kept(op: Op, size: tuple[int, ...]) -> None:
    """An undecorated child with a field of its own comes out of every operation."""
    for result in results_of(op.call(child(*size))):
        assert type(result) is Child
        assert torch.equal(result.image[..., 0, 0].long(), result.own)


class Child(NS.Digits):  # type: ignore[misc, name-defined]  # declared in a loop
    """Digits and one field more."""

    own: Int64[Tensor, ""] = field(kw_only=True)


def child(*size: int) -> Child:
    """An instance whose images hold the number of the element."""
    own = torch.arange(torch.Size(size).numel()).reshape(size)
    return Child(own[..., None, None].expand(*size, 2, 2).float(), own, own=own)


def test_reductions_to_bool_are_plain_questions(ns: SimpleNamespace) -> None:
    """`==` gives the same class with bool leaves; nothing is validated there."""
    batch = digits(ns.Digits, 3)
    for result in (batch == batch, batch != batch, batch < 1, batch >= batch, batch.isnan(), batch.isfinite()):
        assert type(result) is ns.Digits
        assert result.image.dtype is torch.bool
        assert result.label.dtype is torch.bool


def test_arithmetic_keeps_the_declaration(ns: SimpleNamespace) -> None:
    """What gives the declared dtypes gives the class; what would break one raises and names every field."""
    batch = digits(ns.Digits, 3)
    for result in (batch + 1, batch * 2, batch - batch, -batch, batch.abs(), batch.clamp(0, 1), 1 - batch):
        assert type(result) is ns.Digits
        revalidate(result)
    assert (batch + 1).label.tolist() == [1, 2, 3]
    assert (batch + 1).source == "scan"
    for wrong in (
        lambda: batch / 2,
        lambda: batch * 0.5,
        batch.sqrt,
        lambda: batch + 1j,
        lambda: 2 / (batch + 1),
    ):
        with pytest.raises(SchemaError, match=r"label[\s\S]*Int64"):
            wrong()
    assert batch.label.tolist() == [0, 1, 2]


def test_families_follow_torch_in_arithmetic(ns: SimpleNamespace) -> None:
    """A family of floats takes what torch promotes to, a bare tensor anything."""
    batch = ns.Soft(torch.ones(3, 2, dtype=torch.float16), torch.arange(3), batch_size=[3])
    assert (batch / 2).y.dtype is torch.float32
    assert (batch + batch.to(torch.float64)).x.dtype is torch.float64
    with pytest.raises(SchemaError, match="x"):
        batch.replace(x=torch.ones(3, 2)) * 1j


def test_operands_never_widen_event_dims(form: Form) -> None:
    """An operand that would broadcast a field to another shape is refused."""

    @form()
    class Point(form.base):
        x: Float32[Tensor, "1"]

    @form()
    class Free(form.base):
        x: Tensor

    batch = Point(torch.ones(3, 1))
    with pytest.raises((SchemaError, RuntimeError, ValueError), match=r"x|shape|batch"):
        batch + torch.ones(5)
    other = TensorDict(x=torch.ones(3, 4), batch_size=[3])
    with pytest.raises((SchemaError, RuntimeError, ValueError), match=r"x|Point|TensorDict"):
        batch + other
    assert Free(torch.ones(3, 1), batch_size=[3])[0].x.shape == (1,)


def test_in_place_arithmetic(ns: SimpleNamespace) -> None:
    """`+=` writes the same tensors; what can't be written changes nothing."""
    batch = everything(ns, 3).to_tensordict().select("image", "label")
    typed = ns.Digits.from_tensordict(batch)
    image = typed.image
    before = image.clone()
    typed += 1
    assert typed.image is image
    assert torch.allclose(image, before + 1)
    with pytest.raises((SchemaError, RuntimeError, TypeError), match="label"):
        typed /= 2
    assert torch.allclose(image, before + 1)
    assert typed.label.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "cast", [lambda b: b.to(torch.float16), lambda b: b.half(), lambda b: b.double(), lambda b: b.bfloat16()]
)
def test_casts_keep_the_declaration(ns: SimpleNamespace, cast: Any) -> None:
    """A cast that breaks a declared dtype raises and names the fields, the nested ones too, and the way out."""
    batch = everything(ns, 3)
    with pytest.raises(CastError, match=r"image.*pose\.angle.*pose\.axis.*table.*Float\[\.\.\.\]"):
        cast(batch)
    soft = ns.Soft(torch.ones(3, 2), torch.arange(3), batch_size=[3])
    result = cast(soft)
    assert result.x.dtype is not torch.float32
    assert result.y.dtype is torch.int64
    assert type(result) is ns.Soft


def test_a_cast_to_the_declared_dtype_is_no_cast(ns: SimpleNamespace) -> None:
    """`.float()` on float32 fields leaves ids alone and the class whole."""
    batch = digits(ns.Digits, 3)
    big = batch.replace(label=torch.tensor([70001, 1, 2]))
    assert big.float().label.tolist() == [70001, 1, 2]
    assert big.to(torch.float32).label.dtype is torch.int64
    assert type(big.float()) is ns.Digits


def test_casts_to_integers_touch_nothing_or_raise(ns: SimpleNamespace) -> None:
    """An integer dtype is outside every family of floats."""
    with pytest.raises(CastError, match="x"):
        ns.Soft(torch.ones(3, 2), torch.arange(3), batch_size=[3]).to(torch.int64)


def test_apply_is_validated(ns: SimpleNamespace) -> None:
    """What a function gives is held to the declaration; the batch may be reshaped on the way."""
    batch = digits(ns.Digits, 4)
    assert type(batch.apply(lambda t: t + 1)) is ns.Digits
    assert batch.apply(lambda t: t[:2], batch_size=[2]).batch_size == torch.Size([2])
    assert batch.named_apply(lambda name, t: t * (name == "label")).image.sum() == 0
    for wrong in (lambda t: t.double(), lambda t: t.sum(), lambda t: t.unsqueeze(-1)):
        with pytest.raises((SchemaError, RuntimeError), match="image"):
            batch.apply(wrong)


def test_index_writes_take_instances_numbers_and_mappings(ns: SimpleNamespace) -> None:
    """`batch[i] = ...` writes every field, PerElement and nested ones too, in place."""
    batch = everything(ns, 4)
    image = batch.image
    batch[0] = batch[3]
    assert batch.image is image
    assert batch.who.tolist() == ["d", "b", "c", "d"]
    aligned(batch)
    batch[1:3] = batch[torch.tensor([3, 0])]
    assert batch.who.tolist() == ["d", "d", "d", "d"]
    aligned(batch)


@pytest.mark.parametrize("name", ["select", "exclude", "flatten_keys", "to_tensordict"])
def test_another_structure_is_untyped(ns: SimpleNamespace, name: str) -> None:
    """Results with other keys are plain containers around the same tensors."""
    batch = everything(ns, 3)
    result = {
        "select": lambda: batch.select("image", ("pose", "angle")),
        "exclude": lambda: batch.exclude("image"),
        "flatten_keys": lambda: batch.flatten_keys("."),
        "to_tensordict": batch.to_tensordict,
    }[name]()
    assert type(result) is TensorDict
    assert not isinstance(result, TensorClass)
    angle = result["pose.angle"] if name == "flatten_keys" else result["pose", "angle"]
    assert (angle is batch.pose.angle) == (name != "to_tensordict")
    assert torch.equal(angle, batch.pose.angle)
    assert result.batch_size == batch.batch_size


def test_to_tensordict_is_a_copy(ns: SimpleNamespace) -> None:
    """Neither an in-place write nor a new entry is seen on the other side."""
    batch = digits(ns.Digits, 3)
    data = batch.to_tensordict()
    data["image"].zero_()
    assert batch.image.abs().sum() > 0
    data["new"] = torch.zeros(3)
    assert "new" not in batch


def test_from_tensordict_is_no_copy(ns: SimpleNamespace) -> None:
    """Writes to one are seen in the other, nested ones too, both ways."""
    inner = TensorDict(angle=torch.zeros(3), axis=torch.zeros(3, 3), batch_size=[3])
    data = TensorDict({"x": torch.zeros(3, 2), "pose": inner, "source": "scan"}, batch_size=[3])

    class Loose(TensorClass):
        x: Float32[Tensor, "2"]
        pose: ns.Pose
        source: str

    batch = Loose.from_tensordict(data)
    assert type(batch.pose) is ns.Pose
    assert batch.pose.doubled().sum() == 0
    batch.x = torch.ones(3, 2)
    assert data["x"].sum() == 6
    data["x"] = torch.full((3, 2), 2.0)
    assert batch.x.sum() == 12
    batch.pose.angle = torch.ones(3)
    assert data["pose", "angle"].sum() == 3
    data["pose", "angle"] = torch.zeros(3)
    assert batch.pose.angle.sum() == 0
    assert type(batch[0].pose) is ns.Pose
    assert type(torch.stack([batch, batch]).pose) is ns.Pose
    assert isinstance(batch.get("pose"), ns.Pose)


def test_from_tensordict_validates(ns: SimpleNamespace) -> None:
    """A container that does not fit is refused, every problem named, and it is left as it was."""
    data = TensorDict(image=torch.zeros(3, 2, 2, dtype=torch.float64), colour=torch.zeros(3), batch_size=[3])
    with pytest.raises(SchemaError) as caught:
        ns.Digits.from_tensordict(data)
    assert {problem.path for problem in caught.value.problems} == {"image", "label", "colour"}
    assert set(data.keys()) == {"image", "colour"}
    nested = TensorDict(pose={"angle": torch.zeros(3)}, x=torch.zeros(3, 2), batch_size=[3])
    with pytest.raises(SchemaError, match="axis"):
        ns.Still.from_tensordict(nested)
    with pytest.raises(SchemaError, match="container"):
        ns.Digits.from_tensordict(3)


def test_from_tensordict_with_values_beside(ns: SimpleNamespace) -> None:
    """Values that a container does not hold are given beside it, and defaults fill in."""
    data = TensorDict(image=torch.zeros(3, 2, 2), label=torch.arange(3), batch_size=[3])
    batch = ns.Digits.from_tensordict(data, {"source": "mail"})
    assert batch.source == "mail"
    again = ns.Digits.from_tensordict(TensorDict(image=torch.zeros(3, 2, 2), label=torch.arange(3), batch_size=[3]))
    assert again.source == "scan"
    assert again[0].source == "scan"


def test_round_trip_through_an_untyped_container(ns: SimpleNamespace) -> None:
    """`to_tensordict` and `from_tensordict` are inverse."""
    batch = everything(ns, 2, 3)
    again = ns.Everything.from_tensordict(batch.to_tensordict())
    assert equal(again, batch)
    aligned(again)
    revalidate(again[0])


def test_names_follow(ns: SimpleNamespace) -> None:
    """Dim names go with the dims."""
    batch = digits(ns.Digits, 2, 3, names=["time", "lane"])
    assert batch.permute(1, 0).names == ["lane", "time"]
    assert batch[0].names == ["lane"]
    assert torch.stack([batch, batch]).names == [None, "time", "lane"]


def test_shape_operations_never_share_structure(ns: SimpleNamespace) -> None:
    """A result that changes nothing is still another object."""
    batch = everything(ns, 3)
    for result in (
        batch.reshape(3),
        batch.view(3),
        batch[:],
        batch[...],
        batch.squeeze(),
        batch.contiguous(),
        batch.expand(3),
    ):
        assert result is not batch
        assert result.pose is not batch.pose
        result.pose.angle = torch.full((3,), 9.0)
        result.label = torch.zeros(3, dtype=torch.int64)
    aligned(batch)


def test_the_batch_size_may_shrink(ns: SimpleNamespace) -> None:
    """Setting a shorter batch size is refused where event dims are declared."""
    batch = digits(ns.Digits, 2, 3)
    with pytest.raises((SchemaError, RuntimeError, ValueError), match="image"):
        batch.batch_size = [2]
    assert batch.batch_size == torch.Size([2, 3])
    assert pose(ns.Pose, 2).batch_size == torch.Size([2])


def test_family_fields_after_operations(form: Form) -> None:
    """Variadic and symbolic dims survive every rearrangement."""

    @form()
    class Video(form.base):
        frames: Float[Tensor, "*clip 3 h w"]
        last: Float[Tensor, "3 h w"]

    batch = Video(torch.zeros(4, 7, 3, 2, 2), torch.zeros(4, 3, 2, 2))
    assert batch.batch_size == torch.Size([4])
    for result in (batch[0], batch.reshape(2, 2), torch.stack([batch, batch]), batch.flip(0)):
        revalidate(result)
