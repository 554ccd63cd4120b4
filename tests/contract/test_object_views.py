"""In-place writes to a view of a container with an object for each element: what was written is in the source.

The views are those of `test_ragged_views`. Copies (a mask, an index tensor, `clone`) keep their objects to themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import NonTensorStack, PerElement, TensorClass, TensorDict, TypedTensorDict, lazy_stack
from tensorclass.errors import TensorClassError, UnsupportedOperationError
from tests.contract._elements import elements
from tests.contract._elements import same as same_payload
from tests.contract.test_ragged_views import MERGED, VIEWS, Size, at_first, every, nest, ones


class Labels(TensorClass):
    r: PerElement[str]
    a: Tensor


class Page(TensorClass):
    labels: Labels
    r: PerElement[str]


class Keys(TypedTensorDict):
    r: PerElement[str]
    a: Tensor


def objects(size: Size, start: str = "o") -> Any:
    """A stack of strings that all differ."""
    count = iter(range(torch.Size(size).numel()))
    return NonTensorStack.of(nest(size, lambda: f"{start}{next(count)}"), torch.Size(size))


def labels(size: Size) -> Labels:
    """A class with an object for each element."""
    return Labels(objects(size), ones(size), batch_size=size)


def written(size: Size) -> TensorDict:
    """A container whose objects were replaced since it was made."""
    source = HOLDERS["dict"](size)
    source[0] = HOLDERS["dict"](size)[1]
    return source  # type: ignore[no-any-return]  # a TensorDict


HOLDERS: dict[str, Callable[[Size], Any]] = {
    "dict": lambda size: TensorDict(r=objects(size), a=ones(size), batch_size=size),
    "written": written,
    "gathered": lambda size: HOLDERS["dict"](size)[torch.zeros(size[0], dtype=torch.int64)],
    "joined": lambda size: torch.stack([HOLDERS["dict"](size[1:]) for _ in range(size[0])]),
    "one for all": lambda size: TensorDict(r=NonTensorStack.of_one("o", torch.Size(size)), batch_size=size),
    "deep": lambda size: TensorDict({"x": {"y": {"r": objects(size)}}, "a": ones(size)}, batch_size=size),
    "class": labels,
    "nested class": lambda size: Page(labels(size), objects(size), batch_size=size),
    "class in a dict": lambda size: TensorDict(w=labels(size), batch_size=size),
    "over a dict": lambda size: Labels.from_tensordict(labels(size).to_tensordict()),
    "keys": lambda size: Keys(r=objects(size), a=ones(size), batch_size=size),
    "stack": lambda size: lazy_stack([HOLDERS["dict"](size[1:]) for _ in range(size[0])]),
    "last stack": lambda size: lazy_stack([HOLDERS["dict"](size[:-1]) for _ in range(size[-1])], len(size) - 1),
    "stack of classes": lambda size: lazy_stack([labels(size[1:]) for _ in range(size[0])]),
    "stack of views": lambda size: lazy_stack(list(HOLDERS["dict"](size).unbind(0))),
    "stack below": lambda size: TensorDict(s=HOLDERS["stack"](size), a=ones(size), batch_size=size),
}


def leaf_keys(c: Any) -> list[Any]:
    """The keys of the entries with objects."""
    return [key for key in c.keys(True) if (key if isinstance(key, str) else key[-1]) == "r"]


def each_key(write: Callable[[Any, Any], Any]) -> Callable[[Any], None]:
    """A write to each of them."""

    def call(c: Any) -> None:
        for key in leaf_keys(c):
            write(c, key)

    return call


def other(c: Any) -> Any:
    """The same structure with other objects."""
    result = c.clone()
    for key in leaf_keys(result):
        result.set(key, objects(tuple(result.batch_size), "new"))
    return result


def through_list(c: Any, key: Any) -> None:
    """A write to what reading an entry gives, where that is a list."""
    found = c[key]
    while isinstance(found, list) and found and isinstance(found[0], list):
        found = found[0]
    if isinstance(found, list):
        found[0] = "listed"
    else:
        c.set_(key, "listed")


WRITES: dict[str, Callable[[Any], Any]] = {
    "set_": each_key(lambda c, key: c.set_(key, objects(tuple(c.batch_size), "new"))),
    "set_ one": each_key(lambda c, key: c.set_(key, "new")),
    "set_ lists": each_key(lambda c, key: c.set_(key, objects(tuple(c.batch_size), "new").tolist())),
    "set(inplace)": each_key(lambda c, key: c.set(key, objects(tuple(c.batch_size), "new"), inplace=True)),
    "update_": lambda c: c.update_(other(c)),
    "update_ keys": lambda c: c.update_({key: objects(tuple(c.batch_size), "new") for key in leaf_keys(c)}),
    "update(inplace)": lambda c: c.update(other(c), inplace=True),
    "copy_": lambda c: c.copy_(other(c)),
    "update_at_": lambda c: c.update_at_(other(c)[at_first(c)], at_first(c)),
    "set_at_": each_key(lambda c, key: c.set_at_(key, "new", at_first(c))),
    "copy_at_": lambda c: c.copy_at_(other(c)[at_first(c)], at_first(c)),
    "c[i] = y": lambda c: c.__setitem__(at_first(c), other(c)[at_first(c)]),
    "c[mask] = y": lambda c: c.__setitem__(every(c), other(c)[every(c)]),
    "c[...] = y": lambda c: c.__setitem__(..., other(c)),
    "load_state_dict": lambda c: c.load_state_dict(other(c).state_dict()),
    "list": each_key(through_list),
}


def cases(holder: str, views: list[str]) -> list[tuple[str, Size]]:
    """The views of a holder, for one batch dim and two."""
    found = [view for view in views if "stack" not in holder or view not in MERGED]
    return [(view, size) for view, size in product(found, ((4,), (3, 3))) if len(size) >= VIEWS[view][0]]


def attempt(holder: str, view: str, size: Size, write: str) -> str:
    """One write: "written" or what is wrong."""
    source, look = HOLDERS[holder](size), VIEWS[view][1]
    part = look(source)
    old = elements(part)
    WRITES[write](part)
    new, seen = elements(part), elements(look(source))
    if all(same_payload(new[at], old[at]) for at in old):
        return "nothing was written"
    return "written" if all(same_payload(new[at], seen[at]) for at in new) else "lost"


def run(holder: str, views: list[str], writes: list[str]) -> list[str]:
    """What went wrong."""
    told = []
    for (view, size), write in product(cases(holder, views), writes):
        try:
            found = attempt(holder, view, size, write)
        except Exception as error:
            found = f"{type(error).__name__}: {str(error)[:150]}"
        if found != "written":
            told.append(f"{view} {list(size)} {write}: {found}")
    return told


QUICK = ("[:1]", "[1]", "[:, 1]", "unbind", "split", "view(1, ...)", "permute", "of a view", "detach of a view")


@pytest.mark.parametrize("holder", HOLDERS)
def test_writes_to_some_views(holder: str) -> None:
    """What is written to a view is in its source."""
    told = run(holder, list(QUICK), ["set_ one", "c[i] = y"])
    assert not told, "\n".join(told)


# The entry of a lazy stack is a stacked copy, as its tensors are (docs/lazy-stacks.md): its list is not the source's.
PAIRS = [(holder, write) for holder in HOLDERS for write in WRITES if write != "list" or "stack" not in holder]


@pytest.mark.slow
@pytest.mark.parametrize(("holder", "write"), PAIRS)
def test_writes_to_views(holder: str, write: str) -> None:
    """The same, every write to every view."""
    told = run(holder, list(VIEWS), [write])
    assert not told, "\n".join(told)


COPIES: dict[str, Callable[[Any], Any]] = {
    "mask": lambda c: c[torch.tensor([True, False, True])],
    "index tensor": lambda c: c[torch.tensor([0, 1])],
    "list": lambda c: c[[0, 1]],
    "clone": lambda c: c.clone(),
    "flip": lambda c: c.flip(0),
    "repeat": lambda c: c.repeat(2, 1),
    "stack": lambda c: torch.stack([c, c]),
    "cat": lambda c: torch.cat([c, c]),
    "add": lambda c: c + 1,
    "gather": lambda c: c.gather(0, torch.zeros(1, 3, dtype=torch.int64)),
    "of a transposed batch": lambda c: c.permute(1, 0).reshape(-1),
    "to(dtype)": lambda c: c.to(torch.float16),
}


@pytest.mark.parametrize("holder", ["dict", "written", "class", "deep", "gathered"])
@pytest.mark.parametrize("copy", COPIES)
def test_a_write_to_a_copy_stays_there(holder: str, copy: str) -> None:
    """Where torch copies tensors the objects are copied too: a write is not in the source."""
    source = HOLDERS[holder]((3, 3))
    before = elements(source)
    part = COPIES[copy](source)
    WRITES["set_ one"](part)
    assert set(part.get(leaf_keys(part)[0]).reshape(-1).tolist()) == {"new"}
    assert all(same_payload(elements(source)[at], before[at]) for at in before)


def test_an_expanded_view_is_refused_by_name() -> None:
    """Several elements share one place, as tensors do; nothing is written."""
    source = HOLDERS["deep"]((2,))
    with pytest.raises(UnsupportedOperationError, match=r"`x\.y\.r` is expanded.*`clone\(\)`"):
        source.expand(3, 2).set_(("x", "y", "r"), "new")
    assert source["x", "y", "r"] == ["o0", "o1"]
    with pytest.raises(TensorClassError, match="expanded"):
        source.exclude("a")[0].expand(2)[:] = source.exclude("a")


def test_views_see_what_the_source_and_each_other_write() -> None:
    """The places are one memory, whoever writes; a stack that grows leaves its views behind, as a list does."""
    source = HOLDERS["dict"]((4,))
    front, back = source[:2], source.view(2, 2)
    source["r"][1] = "x"
    back[1, 0].set_("r", "y")
    front.set_("r", ["f", "g"])
    assert source["r"] == ["f", "g", "y", "o3"]
    assert back["r"] == [["f", "g"], ["y", "o3"]]
    alone: NonTensorStack[str] = NonTensorStack("a", "b")
    part = alone[:1]
    alone.append("c")
    assert (alone.tolist(), part.tolist()) == (["a", "b", "c"], ["a"])


def test_threads_that_write_to_views_of_one_batch_lose_nothing() -> None:
    """Each thread has elements of its own, as with tensors."""
    source = HOLDERS["dict"]((4, 100))

    def work(row: int) -> None:
        part = source[row]
        for i in range(100):
            part["r"][i] = f"{row}.{i}"

    threads = [threading.Thread(target=work, args=(row,)) for row in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source["r"] == [[f"{row}.{i}" for i in range(100)] for row in range(4)]


def test_compiled_code_writes_through_views_and_copies_gathers() -> None:
    """A traced tensor has no memory to compare: what torch calls its base says whether it is a view."""
    source = HOLDERS["dict"]((4,))

    @torch.compile(backend="eager", fullgraph=True)
    def write(c: Any) -> Any:
        c[:1].set_("r", "view")
        gathered = c[torch.tensor([1, 2])]
        gathered.set_("r", "copy")
        return gathered

    assert write(source)["r"] == ["copy", "copy"]
    assert source["r"] == ["view", "o1", "o2", "o3"]
