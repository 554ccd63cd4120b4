"""Seven mistakes in pipelines, and the errors that the build check reports for each before there is data."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from tensorclass import tensorclass
from tensorclass.errors import BuildError
from tensorclass.nn import TensorClassSequential, stage
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


ENCODER = stage(encode, Clip.spectrum, out=Features.encoded)
POOL = stage(pool, Features.encoded, out=Features.pooled)
HEAD = stage(nn.Linear(64, 100), Features.pooled, out=Word.logits)
DECIDE = stage(most_likely, Word.logits, out=Word.word)


def build(**stages: Tensor) -> TensorClassSequential[Clip, Word]:
    """Build a pipeline from a clip to a word; the static type of a stage is that of its value."""
    return TensorClassSequential(input=Clip, output=Word, **stages)


def misspelt() -> None:
    """A module reads `encodings`, a field of a similar class that nothing writes, instead of `encoded`."""
    wrong = stage(pool, OldFeatures.encodings, out=Features.pooled)
    build(encoder=ENCODER, pool=wrong, head=HEAD, decide=DECIDE)


def misordered() -> None:
    """The head comes before the module that writes its input."""
    build(encoder=ENCODER, head=HEAD, pool=POOL, decide=DECIDE)


def wrong_width() -> None:
    """The head was made for features of another width."""
    narrow = stage(nn.Linear(32, 100), SmallFeatures.pooled, out=Word.logits)
    build(encoder=ENCODER, pool=POOL, head=narrow, decide=DECIDE)


def wrong_dtype() -> None:
    """The head declares double precision, but the features have single precision."""
    double = stage(nn.Linear(64, 100).double(), OldFeatures.pooled, out=Word.logits)
    build(encoder=ENCODER, pool=POOL, head=double, decide=DECIDE)


def unproduced_output() -> None:
    """Nothing writes the word, and the last module got two fields for its one parameter."""
    confused: Tensor = stage(nn.Softmax(-1), Word.logits, Clip.speaker, out=Clip.speaker)
    build(encoder=ENCODER, pool=POOL, head=HEAD, decide=confused)


def wrong_layer() -> None:
    """The declarations agree, but a layer inside the head was made for another width; probing runs it."""
    layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(64, 100))
    build(encoder=ENCODER, pool=POOL, head=stage(layers, Features.pooled, out=Word.logits), decide=DECIDE)


def wrong_stride() -> None:
    """A convolution over the frames returns fewer frames than it declares."""
    conv = nn.Conv1d(80, 64, kernel_size=3, stride=2, padding=1)
    strided = stage(lambda spectrum: conv(spectrum).transpose(-1, -2), Clip.spectrum, out=Features.encoded)
    build(encoder=strided, pool=POOL, head=HEAD, decide=DECIDE)


MISTAKES: tuple[Callable[[], None], ...] = (
    misspelt, misordered, wrong_width, wrong_dtype, unproduced_output, wrong_layer, wrong_stride,
)  # fmt: skip


def main() -> None:
    """Build every wrong pipeline and print the errors."""
    build(encoder=ENCODER, pool=POOL, head=HEAD, decide=DECIDE)  # the right one
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
