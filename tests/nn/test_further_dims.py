"""Nested classes whose instances have batch dims beyond those of their holder, such as the frames of a clip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import PerElement, Ragged, TensorClass, tensorclass
from tensorclass.errors import BuildError, SchemaError
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.typing import Bool, Float32, Int64


@tensorclass
class Frame:
    image: Float32[Tensor, "3 h w"]
    name: PerElement[str]
    valid: Bool[Tensor, ""]


@tensorclass
class Clip:
    frames: Frame
    label: Int64[Tensor, ""]


@tensorclass
class Code:
    h: Float32[Tensor, "8"]


@tensorclass
class Encoded:
    frames: Code
    score: Float32[Tensor, "4"]


@tensorclass
class Score:
    score: Float32[Tensor, "4"]


@tensorclass
class Points:
    at: Float32[Tensor, "3"]


@tensorclass
class Pair:
    past: Points
    future: Points


def clips(dims: int) -> Clip:
    """Two clips whose frames have so many further batch dims."""
    size = (2, 5, 4)[: 1 + dims]
    names: Any = "x"
    for count in reversed(size):
        names = [names] * count
    frames = Frame(image=torch.rand(*size, 3, 6, 8), name=names, valid=torch.ones(size, dtype=torch.bool))
    return Clip(frames=frames, label=torch.zeros(2, dtype=torch.int64), batch_size=[2])


def pairs(past: int, future: int) -> Pair:
    """Three pairs of instances with further batch dims each."""
    made = [Points(at=torch.rand(*(3, 5, 4)[: 1 + dims], 3)) for dims in (past, future)]
    return Pair(past=made[0], future=made[1], batch_size=[3])


def pooled(*dims: int) -> Callable[[Tensor], Tensor]:
    """A function that means over the pixels, and then over some of the dims in front of the channels."""
    return lambda image: image.mean((-1, -2)).mean(dims) if dims else image.mean((-1, -2))


def head(width: int = 3) -> nn.Linear:
    """A layer with four results."""
    return nn.Linear(width, 4)


@pytest.mark.parametrize("dims", [0, 1, 2])
def test_a_reduction_of_the_further_dims_builds_and_runs(dims: int) -> None:
    """A module that takes away as many dims as instances have; at run time they must have that many."""
    pipe = TensorClassSequential[Clip, Score](
        pool=stage(pooled(*range(-1 - dims, -1)), Clip.frames.image), head=stage(head(), out=Score.score)
    )
    for other in range(3):
        if other == dims:
            assert pipe(clips(other)).score.shape == (2, 4)
        else:
            with pytest.raises((SchemaError, IndexError)):
                pipe(clips(other))


@pytest.mark.parametrize("dims", [0, 1, 2])
def test_a_module_of_the_last_dims_fits_any_number(dims: int) -> None:
    """The dims in front of the event dims are passed on to the nested class that is written."""
    pipe = TensorClassSequential[Clip, Encoded](
        code=stage(nn.Sequential(nn.Flatten(-2), nn.LazyLinear(1)), Clip.frames.image),
        frames=stage(lambda h: torch.cat([h, h, h], -2)[..., :8, 0], out=Encoded.frames.h),
        pool=stage(lambda h: h.reshape(h.shape[0], -1, 8).mean(1), Encoded.frames.h),
        score=stage(head(8), out=Encoded.score),
    )
    found = pipe(clips(dims))
    assert found.frames.h.shape == (*clips(dims).frames.batch_size, 8)


class Typed(nn.Module):
    """A module from class to class that reads the nested instance."""

    def forward(self, clip: Clip) -> Score:
        image = (clip.frames.image * clip.frames.valid[..., None, None, None]).mean((-1, -2))
        assert image.ndim == 3
        return Score(score=torch.cat([image.mean(1), image.mean((1, 2))[:, None]], 1))


def test_a_typed_callable_is_probed_with_them() -> None:
    """It gets an instance with the further dims."""
    pipe = TensorClassSequential(Typed())
    assert pipe(clips(1)).score.shape == (2, 4)
    assert "label" not in str(pipe)  # which it does not read


@pytest.mark.parametrize(("past", "future"), [(0, 1), (1, 0), (1, 1), (2, 0), (0, 2)])
def test_each_nested_field_may_have_its_own(past: int, future: int) -> None:
    """One of the fields, or both."""

    def joined(a: Tensor, b: Tensor) -> Tensor:
        assert (a.ndim, b.ndim) == (past + 2, future + 2)
        return torch.cat([a.flatten(1).mean(1, True).expand(-1, 2), b.flatten(1).mean(1, True).expand(-1, 2)], 1)

    pipe = TensorClassSequential[Pair, Score](join=stage(joined, Pair.past.at, Pair.future.at, out=Score.score))
    assert pipe(pairs(past, future)).score.shape == (3, 4)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "width": (
        lambda: {
            "pool": stage(lambda x: x.mean((-1, -2)), Clip.frames.image),
            "head": stage(head(5), out=Score.score),
        },
        "E108",
    ),
    "dtype": (
        lambda: {"pool": stage(lambda x: x.double().mean((-1, -2, -3, -4))[..., None].expand(-1, 4), Clip.frames.image,
                               out=Score.score)},
        "E111",
    ),
    "the batch": (lambda: {"pool": stage(lambda x: x.sum().expand(4), Clip.frames.image, out=Score.score)}, "E112"),
    "size": (
        lambda: {
            "pool": stage(lambda x: x.mean((-1, -2)).mean(1), Clip.frames.image),
            "head": stage(nn.Linear(3, 5), out=Score.score),
        },
        "E114",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_no_number_of_dims_mends_is_refused(name: str) -> None:
    """The errors are those of a pipeline over instances without further dims."""
    stages, code = WRONG[name]
    with pytest.raises(BuildError, match=code):
        TensorClassSequential[Clip, Score](**stages())


@tensorclass
class Series:
    obs: Float32[Tensor, "t 5"]
    act: Float32[Tensor, "t 2"]


@pytest.mark.parametrize("size", [[], [4, 9]])
def test_a_batch_size_that_does_not_fit_names_the_one_that_does(size: list[int]) -> None:
    """It says how to slice along the dim that was taken for a batch dim."""
    values = {"obs": torch.rand(4, 9, 5), "act": torch.rand(4, 9, 2)}
    with pytest.raises(SchemaError, match=r"`batch_size=\[4\]` fits every field; `t` .*`batch.along\(\"t\"\)`"):
        Series(**values, batch_size=size)
    batch = Series(**values, batch_size=[4])
    assert batch.along("t")[..., :3].obs.shape == (4, 3, 5)
    with pytest.raises(SchemaError) as wrong:
        Series(obs=values["obs"], act=torch.rand(3, 9, 2), batch_size=[4, 9])
    assert "fits every field" not in str(wrong.value)


def test_an_empty_batch_size_is_told_the_one_that_fits() -> None:
    """Also by classes with nested, ragged and per-element fields; with the size that the error names they are made."""

    class Picture(TensorClass):
        pixels: Float32[Tensor, "3"]

    class Film(TensorClass):
        frames: Picture
        label: Float32[Tensor, ""]
        sound: Ragged[Tensor, "n"]
        name: PerElement[str]

    def clip(size: list[int]) -> Film:
        frames = Picture(pixels=torch.zeros(2, 7, 3))
        sound = [torch.zeros(4), torch.zeros(1)]
        return Film(frames=frames, label=torch.zeros(2), sound=sound, name=["a", "b"], batch_size=size)

    with pytest.raises(SchemaError, match=r"`batch_size=\[2\]` fits every field") as wrong:
        clip([])
    assert "along" not in str(wrong.value)
    assert clip([2])[1].frames.batch_size == (7,)
