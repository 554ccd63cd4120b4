"""Arguments of the wrong kind, over every door that takes them: sizes, dims, flags, keys, numbers, mappings."""

# ruff: noqa: E501  # a row of a table is one line

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, equal, lazy_stack, load, pad, tensorclass
from tensorclass.errors import (
    ArgumentError,
    BatchIndexError,
    BatchSizeError,
    KeySetError,
    MissingKeyError,
    StructureError,
    TensorClassError,
)
from tensorclass.testing import batches
from tensorclass.typing import Float32


class Point(TensorClass):
    """A declared class."""

    x: Float32[Tensor, ""]


def dense(*size: int) -> TensorDict:
    """Two tensors."""
    return TensorDict({"a": torch.ones(*size, 4), "n": {"b": torch.zeros(*size)}}, batch_size=size)


def resized(size: Any) -> Any:
    """A container whose batch size is set."""
    data = dense(2)
    data.batch_size = size
    return data


SIZES: dict[str, Callable[[], Any]] = {
    "True": lambda: True, "[True]": lambda: [True], "numpy bool": lambda: np.array([True]), "tensor bool": lambda: torch.tensor([True]),
    "set": lambda: {2}, "dict": lambda: {2: 1}, "empty dict": dict, "empty set": set, "iterator": lambda: iter([2]),
    "keys": {2: 1}.keys, "float": lambda: 2.0, "[float]": lambda: [2.0], "numpy float": lambda: np.array([2.0]),
    "text": lambda: "2", "empty text": str, "bytes": lambda: b"\x02", "[None]": lambda: [None], "[[2]]": lambda: [[2]],
    "2**63": lambda: 2**63, "[2**63]": lambda: [2**63], "-2": lambda: [-2], "2-d": lambda: torch.tensor([[2]]),
}  # fmt: skip
SIZED: dict[str, Callable[[Any], Any]] = {
    "TensorDict": lambda size: TensorDict(batch_size=size),
    "setter": resized,
    "from_dict": lambda size: TensorDict.from_dict({"a": torch.zeros(2)}, batch_size=size),
    "to": lambda size: dense(2).to(batch_size=size),
    "apply": lambda size: dense(2).apply(lambda t: t, batch_size=size),
    "empty": lambda size: dense(2).empty(batch_size=size),
    "from_schema": lambda size: TensorDict.from_schema({"a": ([1], torch.float32)}, batch_size=size),
    "typed": lambda size: Point(x=torch.zeros(2), batch_size=size),
    "typed from_dict": lambda size: Point.from_dict({"x": torch.zeros(2)}, batch_size=size),
    "example": lambda size: Point.example(batch_size=size),
    "reshape": lambda size: dense(2).reshape(size),
    "view": lambda size: dense(2).view(size),
    "expand": lambda size: dense(2).expand(size),
    "broadcast_to": lambda size: dense(2).broadcast_to(size),
    "unflatten": lambda size: dense(2).unflatten(0, size),
    "repeat": lambda size: dense(2).repeat(size),
    "tile": lambda size: dense(2).tile(size),
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("door", SIZED)
def test_what_is_no_size(door: str, name: str):
    """Only ints and sequences of ints are sizes; the error names what came."""
    with pytest.raises((TensorClassError, RuntimeError)):
        SIZED[door](SIZES[name]())


@pytest.mark.parametrize("size", [2, [2], (2,), range(2, 3), np.array([2]), np.int64(2), torch.tensor([2]), torch.tensor(2), torch.Size([2])], ids=repr)  # fmt: skip
@pytest.mark.parametrize("door", [door for door in SIZED if door not in ("repeat", "tile")])
def test_what_is_a_size(door: str, size: Any):
    """Ints of any library, alone or in a sequence."""
    assert SIZED[door](size).batch_size == (2,)


def test_no_batch_size_is_not_none():
    """Only where None means "omitted" it is one."""
    with pytest.raises(BatchSizeError, match=r"got None; no batch dims are `\[\]`"):
        resized(None)
    assert TensorDict(batch_size=None).batch_size == ()


DIMS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: lambda c, d, name=name: getattr(c, name)(d) for name in ("unsqueeze", "squeeze", "unbind", "flip", "sum", "softmax", "size")},
    "flatten": lambda c, d: c.flatten(d),
    "flatten end": lambda c, d: c.flatten(0, d),
    "unflatten": lambda c, d: c.unflatten(d, (1, -1)),
    "transpose": lambda c, d: c.transpose(d, d),
    "permute": lambda c, d: c.permute([d]),
    "movedim": lambda c, d: c.movedim(d, d),
    "roll": lambda c, d: c.roll(1, d),
    "narrow": lambda c, d: c.narrow(d, 0, 0),
    "split": lambda c, d: c.split(1, d),
    "chunk": lambda c, d: c.chunk(1, d),
    "repeat_interleave": lambda c, d: c.repeat_interleave(2, d),
    "rot90": lambda c, d: c.rot90(1, (0, d)),
    "gather": lambda c, d: c.gather(d, torch.zeros(1, dtype=torch.int64)),
    "stack": lambda c, d: torch.stack([c, c], d),
    "cat": lambda c, d: torch.cat([c, c], d),
    "lazy_stack": lambda c, d: lazy_stack([c, c], d),
}  # fmt: skip


@pytest.mark.parametrize("dim", [5, -7, 2, "absent", 0.0, True])
@pytest.mark.parametrize("size", [(), (2,)])
@pytest.mark.parametrize("name", DIMS)
def test_what_is_no_batch_dim(name: str, size: tuple[int, ...], dim: Any):
    """Dims out of range, also where there are no batch dims at all; names that are absent; floats and bools."""
    with pytest.raises((TensorClassError, TypeError, ValueError, IndexError)):
        DIMS[name](dense(*size), dim)


TWICE: dict[str, dict[Any, Any]] = {
    "nested, then a path": {"a": {"b": 1}, ("a", "b"): 2},
    "a path, then nested": {("a", "b"): 1, "a": {"b": 2}},
    "two forms of a key": {"a": 1, ("a",): 2},
    "two forms of a path": {("a", "b"): 1, ("a", ("b",)): 2},
    "an entry, then below it": {"a": 1, ("a", "b"): 2},
    "below an entry, then it": {("a", "b"): 1, "a": 2},
    "further down": {"a": {("b", "c"): 1, "b": {"c": 2}}},
}
TAKE: dict[str, Callable[[Any], Any]] = {
    "TensorDict": TensorDict,
    "update": lambda found: TensorDict().update(found),
    "update of what is there": lambda found: TensorDict({"a": {"b": 0}}).update(found),
    "update_": lambda found: TensorDict({"a": {"b": 0}}).update_(found),
    "update(inplace)": lambda found: TensorDict({"a": {"b": 0}}).update(found, inplace=True),
    "from_dict": TensorDict.from_dict,
    "set": lambda found: TensorDict().set("x", found),
}


@pytest.mark.parametrize("name", TWICE)
@pytest.mark.parametrize("door", TAKE)
def test_an_entry_given_twice(door: str, name: str):
    """Neither value is lost in silence."""
    with pytest.raises(StructureError):
        TAKE[door](TWICE[name])


def test_entries_given_once():
    """Paths beside nested entries of other names."""
    found = TensorDict({"a": {"b": 1}, ("a", "c"): 2, ("x", "y"): 3}).update({("a", "d"): 4, "a": {"b": 5}})
    assert sorted(found.keys(True, True)) == [("a", "b"), ("a", "c"), ("a", "d"), ("x", "y")]


@pytest.mark.parametrize("name", ["update", "update_", "update_at_"])
def test_keys_to_update_that_the_source_lacks(name: str):
    """A wish that nothing fulfils is an error that names the nearest key."""
    data, source = dense(2), dense(2) + 1
    more = (0,) if name == "update_at_" else ()
    given = source[0] if more else source
    with pytest.raises(MissingKeyError, match=r"did you mean `n\.b`"):
        getattr(data, name)(given, *more, keys_to_update=[("n", "bb")])
    assert equal(data, dense(2))
    getattr(data, name)(given, *more, keys_to_update=[("n", "b"), "a"])


CONTRADICTIONS: dict[str, Callable[[Any], Any]] = {
    "two devices": lambda c: c.to("cpu", device="meta"),
    "two devices by position": lambda c: c.to("cpu", "meta"),
    "one device twice": lambda c: c.to("cpu", device="cpu"),
    "two dtypes": lambda c: c.to(torch.float32, dtype=torch.float64),
    "two dtypes by position": lambda c: c.to(torch.float32, torch.float64),
    "a tensor elsewhere": lambda c: c.to(torch.zeros(1), device="meta"),
    "another elsewhere": lambda c: c.to("cpu", other=torch.zeros(1, device="meta")),
    "a tensor of another dtype": lambda c: c.to(torch.zeros(1), dtype=torch.float64),
    "another of another dtype": lambda c: c.to(other=torch.zeros(1), dtype=torch.float64),
    "non_blocking twice": lambda c: c.to("cpu", True, non_blocking=False),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictory_arguments_of_to(name: str):
    """Each of device, dtype and non_blocking is given once."""
    with pytest.raises(TypeError, match="given twice"):
        CONTRADICTIONS[name](dense(2))


@pytest.mark.parametrize("device", ["nope", 1.5, ["cpu"], {}], ids=repr)
@pytest.mark.parametrize("door", ["TensorDict", "to", "device=", "new_zeros", "zeros_like"])
def test_what_is_no_device(door: str, device: Any):
    """One error, which says what a device is."""
    calls: dict[str, Callable[[], Any]] = {
        "TensorDict": lambda: TensorDict({}, [], device=device), "to": lambda: dense(2).to(device),
        "device=": lambda: dense(2).to(device=device), "new_zeros": lambda: dense(2).new_zeros(2, device=device),
        "zeros_like": lambda: torch.zeros_like(dense(2), device=device),
    }  # fmt: skip
    refused = TypeError if door == "zeros_like" and device != "nope" else ArgumentError  # torch looks first
    with pytest.raises(refused, match=r"is not a device|must be torch\.device"):
        calls[door]()


WRONG_NAMES: dict[str, Any] = {
    "another number": ["a", "b"], "one word": "a", "twice": ["a", "a"], "numbers": [1], "none": [],
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_NAMES)
@pytest.mark.parametrize("door", ["TensorDict", "names =", "refine_names", "rename"])
def test_wrong_names_of_dims(door: str, name: str):
    """Errors of ours, as the table of exceptions in the docs says."""
    names = WRONG_NAMES[name]
    dims = [2, 2] if name == "twice" else [2]
    data = dense(*dims) if name != "twice" else TensorDict({"a": torch.zeros(2, 2)}, dims)
    calls: dict[str, Callable[[], Any]] = {
        "TensorDict": lambda: TensorDict({}, dims, names=names), "names =": lambda: setattr(data, "names", names),
        "refine_names": lambda: data.refine_names(*(names if name != "one word" else ["a", "b"])),
        "rename": lambda: data.rename(*(names if name != "one word" else ["a", "b"])),
    }  # fmt: skip
    with pytest.raises(TensorClassError):
        calls[door]()


@pytest.mark.parametrize("options", [{"autocast": True, "nocast": True}, {"frozen": "no"}, {"shadow": 1}, {"validate": True}], ids=repr)  # fmt: skip
def test_options_of_classes(options: Any):
    """Options are True or False, and those that exclude each other are not given together."""
    with pytest.raises((TypeError, ValueError)):

        @tensorclass(**options)
        class Wrong:
            x: Tensor


@pytest.mark.parametrize("name", ["lock", "inplace", "clone", "ignore_lock"])
def test_flags(name: str):
    """A word counts as true in Python, "no" among them."""
    with pytest.raises(TypeError, match=f"`{name}` is True or False, got 'no'"):
        TensorDict(lock="no") if name == "lock" else dense(2).update({"a": torch.zeros(2, 4)}, **{name: "no"})


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "set_": lambda v: TensorDict(a=torch.zeros(2)).set_("a", v),
    "fill_": lambda v: TensorDict(a=torch.zeros(2)).fill_("a", v),
    "set_at_": lambda v: TensorDict(a=torch.zeros(2), batch_size=[2]).set_at_("a", v, 0),
    "[0] =": lambda v: TensorDict(a=torch.zeros(2), batch_size=[2]).__setitem__(0, v),
    "update_": lambda v: TensorDict(a=torch.zeros(2)).update_({"a": v}),
    "update_ of a list": lambda v: TensorDict(a=torch.zeros(2)).update_({"a": [v, 0.0]}),
    "masked_fill_": lambda v: TensorDict(a=torch.zeros(2), batch_size=[2]).masked_fill_(torch.tensor([True, False]), v),
    "masked_fill": lambda v: TensorDict(a=torch.zeros(2), batch_size=[2]).masked_fill(torch.tensor([True, False]), v),
    "TensorDict": lambda v: TensorDict(a=v),
    "TensorDict of a list": lambda v: TensorDict(a=[v, 0.0]),
    "set": lambda v: TensorDict().set("a", v),
}


@pytest.mark.parametrize("number", [1e300, -1e300])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_a_dtype_lacks(name: str, number: float):
    """A finite number never becomes infinite; an infinite one stays what it is."""
    with pytest.raises((StructureError, RuntimeError)):
        NUMBERS[name](number)
    NUMBERS[name](float("inf"))


@pytest.mark.parametrize(("dtype", "number"), [(torch.float16, 70000), (torch.float16, 7e4), (torch.int8, 300), (torch.int64, 2**63), (torch.uint8, -1), (torch.float32, 2**200)])  # fmt: skip
def test_numbers_out_of_range(dtype: torch.dtype, number: float):
    """Of each dtype."""
    data = TensorDict(a=torch.zeros(2, dtype=dtype))
    with pytest.raises(StructureError, match=r"`a` holds .* can't hold"):
        data.set_("a", number)
    assert not data["a"].any()


def endless() -> dict[str, Any]:
    """A dict that holds itself."""
    found: dict[str, Any] = {"x": torch.ones(1)}
    found["deep"] = {"again": found}
    return found


@pytest.mark.parametrize("door", ["TensorDict", "update", "from_dict", "set", "from_any"])
def test_a_dict_that_holds_itself(door: str):
    """An error that says so, and no RecursionError."""
    with pytest.raises(StructureError, match="itself"):
        TensorDict.from_any(endless()) if door == "from_any" else TAKE[door](endless())


def test_a_list_that_holds_itself():
    """The same for lists, which are walked without recursion too."""
    found: list[Any] = []
    found.append(found)
    for call in (
        lambda: TensorDict(a=found),
        lambda: TensorDict.from_any(found),
        lambda: TensorDict.from_any({"a": found}),
    ):
        with pytest.raises(StructureError, match="itself"):
            call()


def test_kinds_of_errors():
    """They are what a caller would catch."""
    with pytest.raises(KeyError):
        TensorDict({"a": 1, ("a",): 2})
    assert issubclass(KeySetError, StructureError)


PYTHON_SAYS = re.compile(
    r"not iterable|must be an iterable|has no attribute|not subscriptable|unhashable|not callable|unsupported operand"
    r"|not supported between|cannot unpack|has no len|indices must|must be str|can be converted to an index"
    r"|does not support item|sequence element #|recursion depth"
)
"""Messages of Python itself, about what a method does with its argument."""
WRONG: dict[str, Any] = {
    "3": 3, "None": None, "text": "x", "list": [1], "1.5": 1.5, "object": object(), "dict": {}, "batch": Point(torch.zeros(2)),
}  # fmt: skip
METHODS = sorted(name for name in dir(Point) if name[0] != "_" and callable(getattr(Point, name)))


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("cuda", "map", "map_iter", "x")])
def test_methods_say_what_they_take(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A method that gets one wrong argument never answers with what Python makes of it inside."""
    monkeypatch.chdir(tmp_path)
    said: dict[str, Any] = {}
    for kind, value in WRONG.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                getattr(Point(torch.zeros(4)), name)(value)
            except Exception as error:  # whatever it is
                said.update({f"{name}({kind}): {error}": PYTHON_SAYS.search(str(error))})
    assert [text for text, found in said.items() if found] == []


def test_what_methods_take():
    """The messages name the operation, what it takes, and the argument."""
    data = dense(2)
    for call, words in {
        lambda: data.apply(3): "apply takes a function, which is called with each tensor, got int 3",
        lambda: pad(data, 2): "pad takes two numbers for each batch dim, before and after, got int 2",
        lambda: data.flip(None): "flip takes a dim or a sequence of dims, got NoneType None",
        lambda: lazy_stack(3): "lazy_stack takes a sequence of containers, got int 3",
        lambda: data.rename_keys(["a"]): "rename_keys takes a mapping of old keys to new ones, got list",
        lambda: data.expand_as(2): "expand_as takes a container or a tensor, got int 2; see `expand`",
    }.items():
        with pytest.raises(TypeError, match=re.escape(words)):
            call()
    with pytest.raises(BatchIndexError, match=r"of size 2$"):
        data[7]
    with pytest.raises(BatchIndexError, match=r"of size 2 in \(7,\)$"):
        data[(7,)]


def test_items_of_a_generator_that_fails():
    """The error of the user's own generator is not taken for that of a wrong argument."""

    def failing():
        yield dense(2)
        raise TypeError("mine")

    with pytest.raises(TypeError, match=r"^mine$"):
        lazy_stack(failing())


class Chart(TensorClass):
    """A class with a named dim."""

    x: Float32[Tensor, "c"]


DIM_SIZES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "zeros": lambda sizes: Chart.zeros(2, **sizes),
    "ones": lambda sizes: Chart.ones(2, **sizes),
    "full": lambda sizes: Chart.full(2, 7, **sizes),
    "empty": lambda sizes: Chart.empty(2, **sizes),
    "example": lambda sizes: Chart.example(2, sizes=sizes),
    "batches": lambda sizes: batches(Chart, sizes=sizes),
}


@pytest.mark.parametrize(
    ("sizes", "named"), [({"c": 1, "q": 3}, "`q`"), ({"c": -1}, "-1"), ({"c": "3"}, "'3'"), ({"c": 1.0}, "1.0")]
)
@pytest.mark.parametrize("door", DIM_SIZES)
def test_sizes_of_dims(door: str, sizes: dict[str, Any], named: str):
    """A dim that the class lacks, and what is no size, are errors in every function that takes the sizes of dims."""
    with pytest.raises(ArgumentError, match=re.escape(named)):
        DIM_SIZES[door](sizes)


@pytest.mark.parametrize("out", [3, "x", {"x": torch.zeros(2)}, [torch.zeros(2)], TensorDict])
def test_what_load_copies_into(out: Any, tmp_path: Path):
    """`out=` of `load` is a container."""
    TensorDict(x=torch.ones(2)).save(tmp_path / "x")
    with pytest.raises(ArgumentError, match="`out` is a container"):
        load(tmp_path / "x", out=out)
