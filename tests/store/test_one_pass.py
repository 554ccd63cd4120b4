"""Ways that look at each entry once find what ways that look at it twice would find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, lazy_stack
from tensorclass.errors import (
    BatchSizeError,
    KeyThroughLeafError,
    MissingKeyError,
    TensorClassError,
    UnsupportedOperationError,
)


class Pose(TensorClass):
    """A field that is there and one that may be absent."""

    angle: Tensor
    speed: Tensor | None = None


FILLS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "constructor": lambda d: TensorDict(d, batch_size=[2]),
    "constructor with a device": lambda d: TensorDict(d, batch_size=[2], device="cpu"),
    "keywords": lambda d: TensorDict(**d, batch_size=[2]),
    "nested": lambda d: TensorDict({"n": d}, batch_size=[2])["n"],
    "update": lambda d: TensorDict(batch_size=[2]).update(d),
    "update below": lambda d: TensorDict({"n": {}}, batch_size=[2]).update({"n": d})["n"],
    "from_dict": lambda d: TensorDict.from_dict(d, batch_size=[2]),
    "from_dict below": lambda d: TensorDict.from_dict({"n": d}, batch_size=[2])["n"],
    "from_any": lambda d: TensorDict.from_any(d, batch_size=[2]),
}
SHAPES = [
    [(2,), (2,)], [(2, 3), (2, 3), (2, 4)], [(2, 3), (3, 2)], [(2, 3), (2, 3), (3,)], [(3,), (2,)], [(2,), ()],
    [(2, 3), (2,), (2, 3), (1, 3)], [(2, 0), (0, 2)],
]  # fmt: skip


@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_every_shape_is_compared(fill: Callable[[dict[str, Any]], Any], shapes: list[tuple[int, ...]]) -> None:
    """A shape that an earlier entry had is fine again; each new one must begin with the batch size."""
    given = {f"k{i}": torch.zeros(shape) for i, shape in enumerate(shapes)}
    kept = dict(given)
    if all(shape[:1] == (2,) for shape in shapes):
        made = fill(given)
        assert {key: value.shape for key, value in made.items()} == {key: value.shape for key, value in given.items()}
        made["new"] = torch.zeros(2)
        assert given == kept  # the container has a dict of its own
    else:
        wrong = next(key for key, value in given.items() if value.shape[:1] != (2,))
        with pytest.raises(BatchSizeError, match=wrong):
            fill(given)


@pytest.mark.parametrize("size", [[2**63], (2**70, 1), [1, 2**64]])
def test_sizes_beyond_those_of_torch_are_refused(size: Any) -> None:
    """With an error of ours that shows the sizes."""
    with pytest.raises(BatchSizeError, match=str(max(size))):
        TensorDict(batch_size=size)


def _tree() -> TensorDict:
    inner = {"b": torch.zeros(2), "m": {"c": torch.ones(2), "d": torch.ones(2)}, "empty": {}}
    rows = lazy_stack([TensorDict(q=torch.zeros(1), r=torch.zeros(i)) for i in (1, 2)])
    return TensorDict(
        {"a": torch.zeros(2), "n": inner, "s": rows, "p": Pose(torch.zeros(2), batch_size=[2])}, batch_size=[2]
    )


SELECTED: list[tuple[tuple[Any, ...], list[Any]]] = [
    (("a", ("n", "b")), ["a", "n", ("n", "b")]),
    ((("n", "b"), "a"), ["n", ("n", "b"), "a"]),
    ((("n", "m", "d"), "a", ("n", "b")), ["n", ("n", "m"), ("n", "m", "d"), ("n", "b"), "a"]),
    ((("n", "m"), ("n", "m", "d")), ["n", ("n", "m"), ("n", "m", "c"), ("n", "m", "d")]),
    ((("n", "m", "d"), ("n", "m")), ["n", ("n", "m"), ("n", "m", "c"), ("n", "m", "d")]),
    ((("n", "empty"),), ["n", ("n", "empty")]),
    ((("s", "q"), "a"), ["s", ("s", "q"), "a"]),
    ((("p", "angle"),), ["p", ("p", "angle")]),
    ((("a",), ("n", ("b",))), ["a", "n", ("n", "b")]),
    ((), []),
]


@pytest.mark.parametrize(("keys", "due"), SELECTED, ids=str)
def test_what_select_keeps(keys: tuple[Any, ...], due: list[Any]) -> None:
    """Parents come where their first key is given; what is selected as a whole stays whole, in any order."""
    for inplace in (False, True):
        tree = _tree()
        part = tree.select(*keys, inplace=inplace)
        assert (part is tree) == inplace
        assert sorted(map(str, part.keys(True))) == sorted(map(str, due))
        assert list(part.keys()) == [key for key in due if isinstance(key, str)]
    assert [*_tree().select(*keys, strict=False).keys(True)] == [*part.keys(True)]


@pytest.mark.parametrize("typed", [False, True])
def test_nested_parts_keep_what_their_source_is(typed: bool) -> None:
    """Batch size, device and names below are those of the source, not those of the result around them."""
    inner: Any = Pose(torch.zeros(2, 3), batch_size=[2, 3], names=["rows", "steps"])
    inner = inner if typed else inner.to_tensordict()
    tree = TensorDict({"a": torch.zeros(2), "p": inner}, batch_size=[2], names=["rows"])
    for part in (tree.select(("p", "angle"))["p"], tree.split_keys([("p", "angle")])[0]["p"]):
        assert type(part) is TensorDict
        assert part.batch_size == (2, 3)
        assert part.names == ["rows", "steps"]


ABSENT: list[tuple[tuple[str, ...], type[Exception]]] = [
    (("zz",), MissingKeyError), (("n", "zz"), MissingKeyError), (("n", "m", "zz"), MissingKeyError),
    (("a", "b"), KeyThroughLeafError), (("n", "b", "x"), KeyThroughLeafError),
    (("s", "zz"), MissingKeyError),
    (("p", "zz"), MissingKeyError), (("n", "m", "c", "x"), KeyThroughLeafError),
]  # fmt: skip


@pytest.mark.parametrize(("path", "error"), ABSENT, ids=str)
def test_absent_paths(path: tuple[str, ...], error: type[Exception]) -> None:
    """The error names the whole path; without `strict` the other keys remain, and no container is made for this one."""
    where = ".".join(path[:-1] if error is KeyThroughLeafError else path)
    for keys in ((path,), ("a", path), (("n", "b"), path)):
        with pytest.raises(error, match=where):
            _tree().select(*keys)
    assert list(_tree().select("a", path, strict=False).keys(True)) == ["a"]
    assert list(_tree().select(path, strict=False).keys(True)) == []


def test_split_with_a_default() -> None:
    """Absent keys get it, here and below, also among those that are there; empty containers stay if that is wanted."""
    default = torch.full((2,), 7.0)
    part, rest = _tree().split_keys(["zz", ("n", "b"), ("n", "zz")], default=default)
    assert sorted(part.keys(True, True), key=str) == [("n", "b"), ("n", "zz"), "zz"]
    assert part["zz"].equal(default)
    assert ("n", "b") not in rest
    part, _ = _tree().split_keys(["a"], reproduce_struct=True)
    assert {"a", "n", ("n", "m"), ("n", "empty")} <= set(part.keys(True))
    assert ("n", "b") not in part


def test_dicts_of_entries_are_no_levels() -> None:
    """A dict that is an entry stays one object when keys are unflattened around it."""
    data = TensorDict({"a.b": torch.zeros(2)}, batch_size=[2]).set_non_tensor("a.info", {"x": {"y": 1}})
    nested = data.unflatten_keys()
    assert nested["a", "info"] == {"x": {"y": 1}}
    assert nested["a", "b"].equal(torch.zeros(2))
    with pytest.raises(TensorClassError, match=r"a\.info"):
        data.set("a.info.x", torch.zeros(2)).unflatten_keys()


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "same": lambda t: t.clone(),
    "dtype": lambda t: t.double(),
    "wider": lambda t: torch.zeros(2, 3),
    "expanded": lambda t: torch.zeros(()).expand(2),
    "grad": lambda t: t.clone().requires_grad_(),
}


@pytest.mark.parametrize("side", ["target", "source"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_stack_asks_the_same_of_the_tenth_write(change: str, side: str) -> None:
    """Whatever nine writes of one kind made it remember, the next gives what it gives as the first; all or none."""

    def run(before: int) -> Any:
        stack, given = (
            lazy_stack([TensorDict(a=torch.full((2,), n), b=torch.full((2,), n)) for _ in "xy"]) for n in (0.0, 1.0)
        )
        for _ in range(before):
            stack.update_(given)
            stack.update_(given * 0)
        where = stack if side == "target" else given
        where[1]._put("b", CHANGES[change](where[1]["b"]))
        try:
            stack.update_(given)
        except (TensorClassError, RuntimeError) as error:
            assert stack[0]["a"].eq(0).all()
            return type(error)
        return [row[key].tolist() for row in stack for key in "ab"]

    assert run(5) == run(0)


def test_filling_one_tensor_is_for_torch_to_refuse() -> None:
    """With our error, and only where torch refuses it: in inference mode its own tensors may be written."""
    with torch.inference_mode():
        data = TensorDict(a=torch.zeros(2), n={"b": torch.zeros(2)})
        assert data.fill_("a", 2.0)["a"].tolist() == [2.0, 2.0]
    with pytest.raises(UnsupportedOperationError, match="inference"):
        data.fill_("a", 3.0)
    tracked = torch.zeros(2, requires_grad=True) * 1
    data = TensorDict(a=tracked, b=tracked.detach().requires_grad_())
    with pytest.raises(UnsupportedOperationError, match="requires grad"):
        data.fill_("b", 3.0)
    assert data.fill_("a", 3.0)["a"].tolist() == [3.0, 3.0]
    with torch.no_grad():
        assert data.fill_("b", 3.0)["b"].tolist() == [3.0, 3.0]


@pytest.mark.parametrize("retain_none", [False, True])
def test_plain_dicts_at_every_level(retain_none: bool) -> None:
    """Stacks, classes with absent fields and objects become plain values; the dicts are not those of the store."""
    tree = _tree().select("a", "n", "p", ("s", "q")).set("text", "x")
    found = tree.to_dict(retain_none=retain_none)
    assert type(found["n"]["m"]) is dict
    assert found["s"]["q"].shape == (2, 1)
    assert found["text"] == "x"
    assert ("speed" in found["p"]) == retain_none
    found["new"] = found["n"]["new"] = 1
    assert "new" not in tree
    assert ("n", "new") not in tree
    assert type(lazy_stack([tree, tree]).to_dict()["n"]["m"]["c"]) is Tensor
