"""Seven mistakes in pipelines, and the errors that the build check reports for each before there is data."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from tensorclass import tensorclass
from tensorclass.errors import BuildError
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Float64, Int64


@tensorclass
class Clip:
    """A few seconds of sound."""

    spectrum: Float32[Tensor, "mels frames"]
    speaker: Int64[Tensor, ""]


@tensorclass
class Features:
    """The features of a clip inside the pipeline."""

    encoded: Float32[Tensor, "frames 64"]
    pooled: Float32[Tensor, "64"]


@tensorclass
class OldFeatures:
    """The features that an earlier version of the program declared."""

    encodings: Float32[Tensor, "frames 64"]
    pooled: Float64[Tensor, "64"]


@tensorclass
class SmallFeatures:
    """Features of half the width."""

    pooled: Float32[Tensor, "32"]


@tensorclass
class Word:
    """The recognized word."""

    logits: Float32[Tensor, "words"]
    word: Int64[Tensor, ""]


def encode(spectrum: Tensor) -> Tensor:
    """Act as a simple encoder: return the first 64 mels, frames first."""
    return spectrum[..., :64, :].transpose(-1, -2)


def pool(encoded: Tensor) -> Tensor:
    """Return the mean over the frames."""
    return encoded.mean(-2)


def most_likely(logits: Tensor) -> Tensor:
    """Return the word with the highest score."""
    return logits.argmax(-1)


ENCODER = TensorClassModule(encode, in_fields=Clip.spectrum, out_fields=Features.encoded, name="encoder")
POOL = TensorClassModule(pool, in_fields=Features.encoded, out_fields=Features.pooled, name="pool")
HEAD = TensorClassModule(nn.Linear(64, 100), in_fields=Features.pooled, out_fields=Word.logits, name="head")
DECIDE = TensorClassModule(most_likely, in_fields=Word.logits, out_fields=Word.word, name="decide")


def build(*modules: TensorClassModule) -> TensorClassSequential[Clip, Word]:
    """Build a pipeline from a clip to a word."""
    return TensorClassSequential(*modules, input=Clip, output=Word)


def misspelt() -> None:
    """A module reads `encodings`, a field of a similar class that nothing writes, instead of `encoded`."""
    wrong = TensorClassModule(pool, in_fields=OldFeatures.encodings, out_fields=Features.pooled, name="pool")
    build(ENCODER, wrong, HEAD, DECIDE)


def misordered() -> None:
    """The head comes before the module that writes its input."""
    build(ENCODER, HEAD, POOL, DECIDE)


def wrong_width() -> None:
    """The head was made for features of another width."""
    narrow = TensorClassModule(nn.Linear(32, 100), in_fields=SmallFeatures.pooled, out_fields=Word.logits, name="head")
    build(ENCODER, POOL, narrow, DECIDE)


def wrong_dtype() -> None:
    """The head declares double precision, but the features have single precision."""
    double = TensorClassModule(
        nn.Linear(64, 100).double(), in_fields=OldFeatures.pooled, out_fields=Word.logits, name="head"
    )
    build(ENCODER, POOL, double, DECIDE)


def unproduced_output() -> None:
    """Nothing writes the word, and the last module got two fields for its one parameter."""
    confused = TensorClassModule(
        most_likely,  # type: ignore[tensorclass-callable]  # the mistake, which the plugin finds before the build
        in_fields=[Word.logits, Clip.speaker],
        out_fields=Clip.speaker,
        name="decide",
    )
    build(ENCODER, POOL, HEAD, confused)


def wrong_layer() -> None:
    """The declarations agree, but a layer inside the head was made for another width; probing runs it."""
    layers = nn.Sequential(
        nn.Linear(64, 128),
        nn.ReLU(),
        nn.Linear(64, 100),  # type: ignore[tensorclass-shape]  # the mistake
    )
    build(ENCODER, POOL, TensorClassModule(layers, Features.pooled, Word.logits, name="head"), DECIDE)


def wrong_stride() -> None:
    """A convolution over the frames returns fewer frames than it declares."""
    conv = nn.Conv1d(80, 64, kernel_size=3, stride=2, padding=1)
    strided = TensorClassModule(
        lambda spectrum: conv(spectrum).transpose(-1, -2), Clip.spectrum, Features.encoded, name="encoder"
    )
    build(strided, POOL, HEAD, DECIDE)


MISTAKES: tuple[Callable[[], None], ...] = (
    misspelt, misordered, wrong_width, wrong_dtype, unproduced_output, wrong_layer, wrong_stride,
)  # fmt: skip


def main() -> None:
    """Build every wrong pipeline and print the errors."""
    build(ENCODER, POOL, HEAD, DECIDE)  # the right one
    for number, mistake in enumerate(MISTAKES, 1):
        print(f"---- {number}. {mistake.__doc__}\n")
        try:
            mistake()
        except BuildError as error:
            print(error, end="\n\n")
        else:
            raise AssertionError(f"{mistake.__name__} was not found")


if __name__ == "__main__":
    main()
