"""Dim names follow every operation, and stand wherever a dim is given by number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tensorclass import TensorClass, TensorDict
from tensorclass.errors import FrozenError, StructureError
from tensorclass.typing import Float32

SIZES = {"x": 2, "y": 3, "z": 5}
BY_SIZE = {size: name for name, size in SIZES.items()}


def sample() -> TensorDict:
    """Three named dims that differ in size, a nested container with one more."""
    inner = TensorDict(b=torch.arange(240.0).reshape(2, 3, 5, 8), batch_size=[2, 3, 5, 8])
    return TensorDict(a=torch.arange(60.0).reshape(2, 3, 5, 2), n=inner, batch_size=[2, 3, 5], names=list(SIZES))


def by_size(data: Any) -> list[str | None]:
    """The names that the sizes of the dims tell."""
    return [BY_SIZE.get(size) for size in data.batch_size]


def check(data: Any, names: list[str | None] | None = None) -> None:
    """Names are as given, or as the sizes tell; nested containers share them."""
    assert data.names == (by_size(data) if names is None else names)
    if "n" in data:
        assert data["n"].names[: data.ndim] == data.names


# ---- giving and changing names -----------------------------------------------------------------------------------


def test_rename_gives_a_copy_and_rename_in_place_itself() -> None:
    """Names by position, by a map, cleared; nested containers follow; the tensors are shared."""
    data = sample()
    other = data.rename("p", "q", None)
    assert (other.names, data.names) == (["p", "q", None], ["x", "y", "z"])
    assert other["n"].names == ["p", "q", None, None]
    assert other["a"] is data["a"]
    assert data.rename(y="w").names == ["x", "w", "z"]
    assert data.rename(None).names == [None] * 3
    assert data.rename(x="y", y="x").names == ["y", "x", "z"]
    assert data.rename_(z=None) is data
    assert data["n"].names == ["x", "y", None, None]
    assert TensorDict().rename_().names == []


def test_refine_names_names_what_has_none() -> None:
    """In place; named dims are checked, `...` stands for those that stay."""
    data = TensorDict(batch_size=[3, 4, 5], names=["a", None, None])
    assert data.refine_names("a", None, "c") is data
    assert data.refine_names(..., "b", "c").names == ["a", "b", "c"]
    assert data.refine_names("a", ...).names == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda data: data.rename("p"), "3 batch dims"),
        (lambda data: data.rename("p", "p", "q"), "distinct"),
        (lambda data: data.rename(yy="q"), "did you mean `y`"),
        (lambda data: data.rename(x="y"), "distinct"),
        (lambda data: data.rename(), "a name for each of the 3"),
        (lambda data: data.rename("a", "b", "c", x="d"), "not both"),
        (lambda data: data.refine_names("x", "y", "w"), "'z' and can't become 'w'"),
        (lambda data: data.refine_names("x", None, "z"), "'y' and can't become None"),
        (lambda data: data.refine_names(..., ...), "at most one"),
        (lambda data: data.refine_names("x", "y"), "3 batch dims"),
        (lambda data: data.flip("w"), r"flip: no batch dim is named 'w'.*\['x', 'y', 'z'\]"),
        (lambda data: data.flip(("x", 0)), "twice"),
    ],
)
def test_bad_names_are_refused(call: Callable[[Any], Any], message: str) -> None:
    """The message says what there is; nothing has changed."""
    data = sample()
    with pytest.raises((ValueError, StructureError, IndexError), match=message):
        call(data)
    check(data)


def test_a_frozen_instance_keeps_its_names() -> None:
    """`rename` makes another; the in-place forms are refused."""

    class Frozen(TensorClass, frozen=True):
        a: Float32[torch.Tensor, ""]

    batch = Frozen(a=torch.zeros(2), batch_size=[2], names=["x"])
    assert batch.rename("y").names == ["y"]
    assert type(batch.rename("y")) is Frozen
    for change in (lambda: batch.rename_("y"), lambda: batch.refine_names("x")):
        with pytest.raises(FrozenError):
            change()
    assert batch.names == ["x"]


def test_nested_containers_share_names_or_are_refused() -> None:
    """What is put in takes the names of its holder, without a change to the caller's object."""
    data, inner = TensorDict(batch_size=[2], names=["x"]), TensorDict(batch_size=[2, 3], names=[None, "q"])
    data["n"] = inner
    assert (data["n"].names, inner.names) == (["x", "q"], [None, "q"])
    data["m", "k"] = torch.zeros(2)
    assert data["m"].names == ["x"]
    data.names = ["w"]
    assert (data["n"].names, data["m"].names) == (["w", "q"], ["w"])
    with pytest.raises(StructureError, match=r"field `o`.*'p'.*'w'"):
        data["o"] = TensorDict(batch_size=[2], names=["p"])
    with pytest.raises(ValueError, match="distinct"):
        data.names = ["q"]
    assert data.names == ["w"]


# ---- names as dims -----------------------------------------------------------------------------------------------

INDEX = torch.zeros(1, 3, 5, dtype=torch.int64)
BY_NAME: dict[str, Callable[[Any, Any, Any], Any]] = {
    "size": lambda data, x, z: torch.zeros(data.size(x)),
    "flatten": lambda data, x, z: data.flatten(x, z),
    "unflatten": lambda data, x, z: data.unflatten(z, (1, 5)),
    "squeeze": lambda data, x, z: data[:1].squeeze(x),
    "permute": lambda data, x, z: data.permute(z, 1, x),
    "transpose": lambda data, x, z: data.transpose(x, z),
    "swapaxes": lambda data, x, z: data.swapaxes(x, z),
    "swapdims": lambda data, x, z: data.swapdims(x, z),
    "movedim": lambda data, x, z: data.movedim(x, -1),
    "movedim several": lambda data, x, z: data.movedim((x, z), (1, 0)),
    "moveaxis": lambda data, x, z: data.moveaxis(z, 0),
    "flip": lambda data, x, z: data.flip(x),
    "flip several": lambda data, x, z: data.flip((x, z)),
    "roll": lambda data, x, z: data.roll(1, x),
    "roll several": lambda data, x, z: data.roll((1, 2), (x, z)),
    "rot90": lambda data, x, z: data.rot90(1, (x, z)),
    "narrow": lambda data, x, z: data.narrow(z, 1, 3),
    "repeat_interleave": lambda data, x, z: data.repeat_interleave(2, dim=x),
    "gather": lambda data, x, z: data.select("a").gather(x, INDEX),
    "unbind": lambda data, x, z: data.unbind(z)[2],
    "split": lambda data, x, z: data.split([1, 4], z)[1],
    "tensor_split": lambda data, x, z: data.tensor_split(2, z)[0],
    "chunk": lambda data, x, z: data.chunk(2, z)[1],
    "cat": lambda data, x, z: TensorDict.cat([data, data], z),
    "sum": lambda data, x, z: data.sum(x),
    "mean several": lambda data, x, z: data.mean((x, z)),
    "all": lambda data, x, z: (data == data).all(z),
    "softmax": lambda data, x, z: data.softmax(x),
}


@pytest.mark.parametrize("op", BY_NAME)
def test_a_name_does_what_the_number_does(op: str) -> None:
    """Every operation with a dim takes the name in its place."""
    given, wanted = BY_NAME[op](sample(), "x", "z"), BY_NAME[op](sample(), 0, 2)
    assert given.shape == wanted.shape
    if isinstance(given, TensorDict):
        assert given.names == wanted.names
        assert bool((given == wanted).all())


# ---- names follow ------------------------------------------------------------------------------------------------

FOLLOWED: dict[str, Callable[[Any], Any]] = {
    **{f"by name: {op}": lambda data, call=call: call(data, 0, 2) for op, call in BY_NAME.items() if op != "size"},
    "reshape same": lambda data: data.reshape(2, 3, 5),
    "view same": lambda data: data.view(2, 3, 5),
    "flatten head": lambda data: data.flatten(0, 1),
    "flatten one": lambda data: data.flatten(1, 1),
    "unsqueeze": lambda data: data.unsqueeze(1),
    "unsqueeze last": lambda data: data.unsqueeze(-1),
    "squeeze": lambda data: data.unsqueeze(1).squeeze(),
    "expand": lambda data: data.expand(7, 2, 3, 5),
    "expand_as": lambda data: data.expand_as(torch.zeros(7, 2, 3, 5)),
    "tile": lambda data: data.tile((7, 1, 1, 1)),
    "atleast": lambda data: data[0].atleast_3d(),
    "flipud": lambda data: data.flipud(),
    "roll": lambda data: data.roll(3),
    "rot180": lambda data: data.rot90(2, (0, 2)),
    "rot270": lambda data: data.rot90(3, (1, 2)),
    "contiguous": lambda data: data.contiguous(),
    "masked_select": lambda data: data.masked_select(torch.ones(2, 3, 5, dtype=torch.bool)),
    "stack": lambda data: torch.stack([data, data], 1),
    "stack last": lambda data: torch.stack([data, data.rename(None)], 3),
    "clone": lambda data: data.clone(),
    "to": lambda data: data.to(torch.float64),
    "add": lambda data: data + 1,
    "apply": lambda data: data.apply(lambda leaf: leaf + 1),
    "select": lambda data: data.select("a"),
}
UNLIKE_SIZES = {
    "by name: unflatten": ["x", "y", None, None],
    "by name: narrow": ["x", "y", "z"],
    "by name: repeat_interleave": ["x", "y", "z"],
    "by name: gather": ["x", "y", "z"],
    "by name: split": ["x", "y", "z"],
    "by name: tensor_split": ["x", "y", "z"],
    "by name: chunk": ["x", "y", "z"],
    "by name: cat": ["x", "y", "z"],
    "stack": ["x", None, "y", "z"],
    "stack last": ["x", "y", "z", None],
}


@pytest.mark.parametrize("op", FOLLOWED)
def test_names_follow_the_dims(op: str) -> None:
    """A dim keeps its name wherever it goes; dims that are new, merged or cut have none."""
    result = FOLLOWED[op](sample())
    check(result, UNLIKE_SIZES.get(op))


PARTS = {
    "int": 1,
    "slice": slice(None),
    "open": slice(0, None),
    "none": None,
    "list": [0] * 7,
    "tensor": torch.zeros(7, dtype=torch.int64),
    "grid": torch.zeros(11, 7, dtype=torch.int64),
    "scalar": torch.tensor(1),
    "dots": ...,
}


def expected_names(parts: list[str], shape: torch.Size) -> list[str | None]:
    """By sizes: an old size is the old dim; one list or tensor along a dim keeps its name; a scalar is as an int."""
    advanced = [part for part in parts if part in ("list", "tensor", "grid")]
    along: str | None = None
    if advanced in (["list"], ["tensor"]):
        dim = 0
        for part in parts:
            if part in ("list", "tensor"):
                along = list(SIZES)[dim]
            dim += len(SIZES) - (len(parts) - 1 - parts.count("none")) if part == "dots" else part != "none"
    return [along if size == 7 else BY_SIZE.get(size) for size in shape]


@given(st.lists(st.sampled_from(list(PARTS)), min_size=1, max_size=4))
def test_names_follow_an_index(parts: list[str]) -> None:
    """Ints, slices, `...`, None, lists and tensors in any order, against the sizes of the dims that result."""
    used = sum(part not in ("none", "dots") for part in parts)
    if used > 3 or parts.count("dots") > 1:
        return
    result = sample()[tuple(PARTS[part] for part in parts)]
    check(result, expected_names(parts, result.batch_size))


def test_names_follow_masks() -> None:
    """A mask along one dim keeps its name, over several it makes an unnamed dim in their place."""
    data = sample()
    check(data[torch.tensor([True, True])])
    check(data[:, torch.tensor([True, False, True])], ["x", "y", "z"])
    check(data[torch.ones(2, 3, dtype=torch.bool)], [None, "z"])
    check(data[:, torch.ones(3, 5, dtype=torch.bool)], ["x", None])
    check(data[True], [None, "x", "y", "z"])


def test_names_meet_in_a_join() -> None:
    """A dim without a name takes that of the others; two names for one dim are an error that says both."""
    data = sample()
    check(torch.cat([data.rename(None), data]), ["x", "y", "z"])
    check(torch.stack([data.rename("x", None, None), data.rename(None, "y", "z")]), [None, "x", "y", "z"])
    for join in (torch.stack, torch.cat):
        with pytest.raises(StructureError, match=r"batch dim 1 is named 'y' at position 0 and 'w' at position 1"):
            join([data, data.rename(y="w")])


def test_typed_classes_follow_too() -> None:
    """The same on a declared class, nested fields included."""

    class Inner(TensorClass):
        b: Float32[torch.Tensor, "4"]

    class Outer(TensorClass):
        a: Float32[torch.Tensor, ""]
        n: Inner

    inner = Inner(b=torch.zeros(2, 3, 4), batch_size=[2, 3])
    batch = Outer(a=torch.zeros(2, 3), n=inner, batch_size=[2, 3], names=["x", "y"])
    assert batch.n.names == ["x", "y"]
    turned = torch.stack([batch.permute("y", "x"), batch.permute("y", "x")])
    assert (turned.names, turned.n.names, type(turned)) == ([None, "y", "x"], [None, "y", "x"], Outer)
    assert batch.rename_(x="w").n.names == ["w", "y"]
