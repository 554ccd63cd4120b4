"""`collate` with padded and nested entries, beside the anchor's."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import tensordict
import torch
from torch import Tensor

import tensorclass
from tensorclass import TensorClass, TensorDict, collate
from tensorclass.errors import ArgumentError, MissingKeyError, StructureError
from tensorclass.typing import Float32, Int64

Options = dict[str, Any]
OPTIONS: dict[str, Options] = {
    "pad": {"pad_keys": {"ids": 7, ("n", "v"): -1.0, "points": 0}},
    "pad and nest": {"pad_keys": {"ids": 7, ("n", "v"): -1.0}, "nested_keys": ["points"]},
    "nest": {"nested_keys": ["points", "ids", ("n", "v")]},
    "masks": {"pad_keys": {"ids": 7, "points": 2.5, ("n", "v"): 0}, "mask_key": "mask"},
    "masks below": {"pad_keys": {"ids": 7, ("n", "v"): 0}, "nested_keys": ["points"], "mask_key": ("m", "n")},
}


def samples(library: Any, lengths: tuple[int, ...] = (2, 3, 1)) -> list[Any]:
    """Samples that vary in length."""
    torch.manual_seed(0)
    return [
        library.TensorDict(
            ids=torch.arange(n),
            points=torch.randn(n + 1, 3),
            score=torch.tensor(float(n)),
            n=library.TensorDict(v=torch.randn(n, 2)),
        )
        for n in lengths
    ]


def assert_alike(given: Any, wanted: Any) -> None:
    """The same keys, shapes and values."""
    assert given.batch_size == wanted.batch_size
    assert set(given.keys(True, True)) == set(wanted.keys(True, True))
    for key in wanted.keys(True, True):
        mine, theirs = given[key], wanted[key]
        assert mine.is_nested == theirs.is_nested
        rows = zip(mine.unbind(), theirs.unbind(), strict=True)
        assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in rows)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
@pytest.mark.parametrize("lengths", [(2, 3, 1), (4,), (0, 2), (3, 3)])
def test_as_the_anchor(options: Options, lengths: tuple[int, ...]) -> None:
    """Values, masks and nested tensors."""
    given = collate(samples(tensorclass, lengths), **options)
    assert_alike(given, tensordict.collate(samples(tensordict, lengths), **options))


class Pair(NamedTuple):
    """A sample and its label."""

    data: Any
    label: int


@pytest.mark.parametrize(
    "wrap", [lambda td, i: (td, i), Pair, lambda td, i: {"a": td, "b": i}], ids=["tuple", "named", "dict"]
)
@pytest.mark.parametrize("options", [OPTIONS["masks"], None], ids=["options", "none"])
def test_samples_that_hold_containers(wrap: Any, options: Options | None) -> None:
    """Tuples, named tuples and dicts keep their form."""
    found, wanted = [
        library.collate(
            [wrap(td if options else td.select("score"), i) for i, td in enumerate(samples(library))], **(options or {})
        )
        for library in (tensorclass, tensordict)
    ]
    assert type(found) is type(wanted)
    mine, theirs = [list(part.values()) if isinstance(part, dict) else list(part) for part in (found, wanted)]
    assert_alike(mine[0], theirs[0])
    assert torch.equal(mine[1], theirs[1])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mask_key": "m"}, ArgumentError),
        ({"pad_keys": {"ids": 0}, "nested_keys": ["ids"]}, ArgumentError),
        ({"pad_keys": {"absent": 0}}, MissingKeyError),
        ({"nested_keys": [("n", "absent")]}, MissingKeyError),
        ({"pad_keys": {"ids": 0}, "mask_key": "score"}, ArgumentError),
        ({"pad_keys": {"ids": 0}, "mask_key": ("n", "v")}, ArgumentError),
        ({"nested_keys": ["ids"]}, StructureError),
    ],
)
def test_refused(options: Options, error: type[Exception]) -> None:
    """What the anchor refuses is refused here."""
    with pytest.raises(error):
        collate(samples(tensorclass), **options)
    with pytest.raises((ValueError, KeyError)):
        tensordict.collate(samples(tensordict), **options)


def test_batches_are_not_padded() -> None:
    """Padding is for samples without batch dims."""
    with pytest.raises(ArgumentError, match="without batch dims"):
        collate([TensorDict(a=torch.ones(2), batch_size=[2])], pad_keys={"a": 0})


class Sample(TensorClass):
    """Fields of other lengths, and a place for masks."""

    ids: Int64[Tensor, "n"]
    score: Float32[Tensor, ""]
    mask: TensorDict | None = None


def test_classes_are_kept() -> None:
    """The padded batch is of the class."""
    rows = [Sample(torch.arange(n), torch.tensor(1.0), batch_size=[]) for n in (1, 3)]
    found = collate(rows, pad_keys={"ids": -1})
    assert type(found) is Sample
    assert found.ids.tolist() == [[0, -1, -1], [0, 1, 2]]
    assert found.batch_size == (2,)
