"""The build check warns about sizes that a module rejects, and about in fields that change nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tensorclass import TensorClass
from tensorclass.nn import PipelineWarning, TensorClassSequential, stage
from tensorclass.typing import Bool, Float32, Int64


class Photo(TensorClass):
    photo: Float32[Tensor, "3 h w"]


class Sound(TensorClass):
    wave: Float32[Tensor, "t"]


class Rows(TensorClass):
    x: Float32[Tensor, "t 8"]
    y: Float32[Tensor, "t 8"]
    mask: Bool[Tensor, "t"]
    kind: Int64[Tensor, "t"]
    name: str = "rows"


class Made(TensorClass):
    made: Float32[Tensor, "..."]


class Scaled(TensorClass):
    scaled: Float32[Tensor, "3 h w"]


class Kinds(TensorClass):
    kinds: Int64[Tensor, "t"]


def _warned(function: Callable[..., Any], *reads: Any, given: Any, made: Any = Made.made) -> list[str]:
    """The codes of the warnings about a pipeline of one module, each with its message."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        TensorClassSequential(it=stage(function, *reads, out=made), input=given)
    return [str(warning.message).partition("\n")[0] for warning in seen]


def _halved(x: Tensor, *, by: Any = 2) -> Tensor:
    return x + functional.interpolate(functional.avg_pool2d(x, by), scale_factor=by)


class Unet(nn.Module):
    """Halves its input several times, and joins each level with what comes back."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(3, 3, 3, 2, 1) for _ in range(depth))
        self.up = nn.ModuleList(nn.ConvTranspose2d(3, 3, 2, 2) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        """An output of the shape of the input."""
        kept = []
        for down in self.down:
            kept.append(x)
            x = down(x)
        for up in self.up:
            x = up(x) + kept.pop()
        return x


STEPS: dict[str, tuple[Callable[..., Any], Any, type, str]] = {
    "both dims halved": (_halved, Photo.photo, Photo, "`h` and `w` that are not multiples of 2"),
    "one dim by four": (lambda x: _halved(x, by=(1, 4)), Photo.photo, Photo, "`w` that are not multiples of 4"),
    "a deep network": (Unet(3), Photo.photo, Photo, "`h` and `w` that are not multiples of 8"),
    "pixels moved to channels": (nn.PixelUnshuffle(2), Photo.photo, Photo, "`h` and `w` that are not multiples of 2"),
    "frames of a sound": (lambda x: x.reshape(len(x), -1, 16), Sound.wave, Sound, "`t` that are not multiples of 16"),
}


@pytest.mark.parametrize("case", STEPS)
def test_sizes_that_a_module_rejects_are_a_warning(case: str):
    """W210 names the dims and the number whose multiples the module accepts."""
    function, read, given, words = STEPS[case]
    assert _warned(function, read, given=given) == [
        f"warning[W210]: module 0 `it` rejects sizes of {words}, and the input leaves them open"
    ]


@pytest.mark.parametrize("scale", [2, 4])
def test_sizes_that_a_module_rounds_are_a_warning(scale: int):
    """W210 also if the module runs, but an upsampled size is not the one that pooling has rounded."""
    network = nn.Sequential(nn.MaxPool2d(scale), nn.Upsample(scale_factor=scale))
    (told,) = _warned(network, Photo.photo, given=Photo, made=Scaled.scaled)
    wrong = f"writes other sizes than it declares for sizes of `h` and `w` that are not multiples of {scale}"
    assert told == f"warning[W210]: module 0 `it` {wrong}, and the input leaves them open"


def test_the_declared_multiples_are_accepted():
    """With the declaration that the hint of W210 proposes there is no warning, and a batch of such a size runs."""

    class Even(TensorClass):
        photo: Float32[Tensor, "3 2*h 2*w"]

    assert not _warned(_halved, Even.photo, given=Even)
    pipeline = TensorClassSequential(it=stage(_halved, Even.photo, out=Made.made), input=Even)
    assert pipeline(Even(photo=torch.rand(2, 3, 6, 10))).made.shape == (2, 3, 6, 10)


@pytest.mark.parametrize("declared", [True, False])
def test_sizes_that_earlier_modules_round_are_a_warning(declared: bool):
    """W210 at the module that adds what another one has pooled and upsampled, with and without fields between them."""

    class Between(TensorClass):
        small: Float32[Tensor, "3 rows columns"]
        large: Float32[Tensor, "3 height width"]

    fields = (Between.small, Between.large) if declared else (None, None)
    small = stage(nn.MaxPool2d(2), Photo.photo, out=fields[0])
    large = stage(nn.Upsample(scale_factor=2), out=fields[1])
    both = stage(torch.add, Photo.photo, Between.large if declared else large, out=Made.made)
    with pytest.warns(PipelineWarning, match="rejects odd sizes of `h` and `w`, which modules before it round"):
        TensorClassSequential[Photo, Made](small=small, large=large, both=both)


@pytest.mark.filterwarnings("error")
def test_a_limit_behind_another_module_is_no_warning():
    """A module that takes no large sizes of a value without a field gets no W210."""
    first = stage(lambda x: x + 1, Sound.wave)
    TensorClassSequential(first=first, last=stage(_up_to(128), first), input=Sound)


def _up_to(limit: int) -> Callable[[Tensor], Tensor]:
    table = torch.ones(limit)
    return lambda x: x * table[: x.shape[-1]]


OPEN: dict[str, tuple[Callable[..., Any], Any, type]] = {
    "a convolution": (nn.Conv2d(3, 4, 3, 2, 1), Photo.photo, Photo),
    "pooling": (nn.AdaptiveAvgPool2d(4), Photo.photo, Photo),
    "a limit": (_up_to(128), Sound.wave, Sound),
    "an even limit": (_up_to(150), Sound.wave, Sound),
}


@pytest.mark.parametrize("case", OPEN)
def test_other_modules_are_not_warned_about(case: str):
    """A module that accepts odd sizes, or no large ones, gets no W210."""
    function, read, given = OPEN[case]
    assert not _warned(function, read, given=given)


@pytest.mark.filterwarnings("error")
def test_sizes_of_a_batch_of_one_are_told_from_the_batch():
    """A declaration that holds for even sizes only is N306, not E116."""

    class Half(TensorClass):
        photo: Float32[Tensor, "3 h//2 w//2"]

    pool = nn.MaxPool2d(2, ceil_mode=True)
    pipeline = TensorClassSequential[Photo, Half](it=stage(pool, Photo.photo, out=Half.photo))
    assert [found.code for found in pipeline.diagnostics] == ["N306"]


class Added(nn.Module):
    """Two inputs, the second through a layer that begins with zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        nn.init.zeros_(self.layer.weight)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum."""
        return x + self.layer(y)


def _takes_anything(x: Tensor, **others: Tensor) -> Tensor:
    return x.sum(-1)


USELESS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "a mask": (lambda x, mask: x.mean(-2), (Rows.x, Rows.mask), "mask"),
    "numbers": (lambda x, kind: x.mean(-2), (Rows.x, Rows.kind), "kind"),
    "the first": (lambda x, y: y.exp(), (Rows.x, Rows.y), "x"),
    "cut off": (lambda x, y: torch.cat([x, y], -1)[..., :8], (Rows.x, Rows.y), "y"),
    "subtracted from itself": (lambda x, y: x + (y - y), (Rows.x, Rows.y), "y"),
}


@pytest.mark.parametrize("case", USELESS)
def test_an_in_field_that_changes_nothing_is_a_warning(case: str):
    """W211 names the field."""
    function, reads, name = USELESS[case]
    assert _warned(function, *reads, given=Rows) == [
        f"warning[W211]: module 0 `it` reads `{name}`, which has no influence on its outputs"
    ]


def test_a_swallowed_keyword_changes_nothing():
    """W208 names a field that `**kwargs` takes."""
    with pytest.warns(PipelineWarning, match=r"W208.*no parameter `kind`: it goes into its .* has no influence"):
        TensorClassSequential(it=stage(_takes_anything, Rows.x, kind=Rows.kind, out=Made.made), input=Rows)


USEFUL: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "a new layer of zeros": (Added(), (Rows.x, Rows.y), Made.made),
    "a rectified difference": (lambda x, y: torch.relu(x - y - 3), (Rows.x, Rows.y), Made.made),
    "a mask": (lambda x, mask: x * mask.unsqueeze(-1), (Rows.x, Rows.mask), Made.made),
    "indices": (lambda x, kind: x + functional.one_hot(kind, 8), (Rows.x, Rows.kind), Made.made),
    "a choice": (lambda x, y: (x + y).argmax(-1), (Rows.x, Rows.y), Kinds.kinds),
    "a loss": (lambda x, y: (x - y).square().mean((-1, -2)), (Rows.x, Rows.y), Made.made),
    "a text": (lambda x, name: x + len(name), (Rows.x, Rows.name), Made.made),
    "a parameter that says so": (lambda x, _y: x.exp(), (Rows.x, Rows.y), Made.made),
    "one field twice": (torch.add, (Rows.x, Rows.x), Made.made),
}


@pytest.mark.parametrize("case", USEFUL)
def test_in_fields_that_matter_are_not_warned_about(case: str):
    """No W211 for a field that some values of it show, or that only integers follow."""
    function, reads, made = USEFUL[case]
    assert not _warned(function, *reads, given=Rows, made=made)
