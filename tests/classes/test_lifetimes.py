"""Classes, and what is made of classes and for them, go with their last user; threads get one class."""

from __future__ import annotations

import dataclasses
import gc
import inspect
import linecache
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import pytest
import torch
import torch.utils._pytree as pytree
from torch import Tensor

from tensorclass import TensorClass, TensorDict, from_dataclass, merge, omit, partial, pick, produced, tensorclass
from tensorclass.core import _pytree
from tensorclass.core._caches import Classes
from tensorclass.typing import Float32
from tests._marks import rest_is_slow

T = TypeVar("T")


class Box(TensorClass, Generic[T]):
    held: T


class Other(TensorClass):
    z: Float32[Tensor, "k"]


def make() -> Any:
    """A class in use: instances, flattened, compiled into generated code."""

    class Local(TensorClass):
        x: Float32[Tensor, "n"]
        y: Float32[Tensor, "n"] | None = None
        w: Float32[Tensor, "n"] = produced()

    batch = Local(torch.ones(2, 3))
    assert pytree.tree_map(lambda leaf: leaf + 1, batch).x.sum() == 12
    return Local


def make_decorated() -> Any:
    """The same by the decorator."""

    @tensorclass
    class Local:
        x: Float32[Tensor, "n"]

    assert Local(torch.ones(2, 3))[0].x.shape == (3,)
    return Local


def make_recursive() -> Any:
    """A class that names itself, alone and as an argument of a generic one."""

    class Node(TensorClass):
        x: Float32[Tensor, ""]
        left: Node | None = None
        box: Box[Node] | None = None

    assert Node(torch.ones(2)).left is None
    return Node


def make_plain() -> Any:
    """A dataclass, whose typed class is made of it."""

    @dataclasses.dataclass
    class Plain:
        x: Tensor

    return Plain


def gone(ref: weakref.ref[Any]) -> bool:
    """Whether nobody holds it."""
    gc.collect()
    return ref() is None


@pytest.mark.parametrize("make", [make, make_decorated, make_recursive, make_plain])
def test_classes_are_let_go(make: Callable[[], Any]) -> None:
    """A class that nobody has any more is gone: torch's registries and generated code do not keep it."""
    ref = weakref.ref(make())
    assert gone(ref)


DERIVED: dict[str, Callable[[Any], Any]] = {
    "pick": lambda cls: pick(cls, "x"),
    "omit": lambda cls: omit(cls, "x"),
    "partial": partial,
    "merge": lambda cls: merge(cls, Other),
    "merged into": lambda cls: merge(Other, cls),
    "picked instance": lambda cls: type(cls(torch.ones(2, 3)).pick("x")),
    "merged instance": lambda cls: type(cls(torch.ones(2, 3)).merge(Other(torch.ones(2, 4)))),
    "argument": lambda cls: Box[cls],
    "optional argument": lambda cls: Box[cls | None],
    "generic argument": lambda cls: Box[list[cls]],
    "options": lambda cls: cls["frozen"],
}


@pytest.mark.parametrize("derive", DERIVED.values(), ids=DERIVED)
def test_derived_classes_are_let_go(derive: Callable[[Any], Any]) -> None:
    """What is made of a class goes before it, and does not hold it; the same request gives one class meanwhile."""
    cls = make()
    made = derive(cls)
    again = derive(cls)
    assert (made is again) == (derive is not DERIVED["options"])
    ref = weakref.ref(made)
    del made, again
    assert gone(ref)
    ref = weakref.ref(cls)
    made = derive(cls)
    del cls
    gc.collect()
    assert ref() is not None
    del made
    assert gone(ref)


def test_typed_classes_of_dataclasses_are_let_go() -> None:
    """`from_dataclass` holds neither the dataclass nor what it makes of it."""
    plain = make_plain()
    made, again = from_dataclass(plain), from_dataclass(plain)
    assert made is again
    ref = weakref.ref(made)
    del made, again
    assert gone(ref)
    instance = from_dataclass(plain(torch.ones(2)), batch_size=[2])
    ref, other = weakref.ref(plain), weakref.ref(type(instance))
    del plain, instance
    assert gone(ref)
    assert gone(other)


def test_named_tuples_are_let_go() -> None:
    """The class of a named tuple is one for each set of keys, while there is one."""
    data = TensorDict(a=torch.zeros(2), only_here=torch.zeros(2))
    first, second = data.to_namedtuple(), data.to_namedtuple()
    assert type(first) is type(second)
    ref = weakref.ref(type(first))
    del first, second
    assert gone(ref)


def test_nothing_grows() -> None:
    """Many classes leave nothing in torch's registries, in `linecache` or among the caches."""

    def sizes() -> list[int]:
        gc.collect()
        ref = weakref.ref(make())  # whoever registers next takes out what is gone
        assert gone(ref)
        registries = pytree.SUPPORTED_NODES, pytree.SUPPORTED_SERIALIZED_TYPES, pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE
        return [len(linecache.cache), len(_pytree._GONE), *map(len, registries)]

    before = sizes()
    for _ in range(5):
        cls = make()
        pick(cls, "x"), merge(cls, Other), partial(cls), Box[cls]
    del cls
    assert sizes() == before


def test_generated_source_is_shown_while_there_is_code() -> None:
    """`inspect.getsource` shows the constructor; the text goes with the class."""
    cls = make()
    text = inspect.getsource(cls.__init__)
    name = cls.__init__.__code__.co_filename
    assert "_self" in text
    assert name in linecache.cache
    assert "Local" in name
    assert gone(weakref.ref(cls)) is False
    ref = weakref.ref(cls)
    del cls
    assert gone(ref)
    assert name not in linecache.cache


def test_a_name_goes_back_to_a_class_that_is_left() -> None:
    """Of two classes of one name, the one that is left is found by torch's serialized name."""
    first, second = make(), make()
    name = f"{first.__module__}.{first.__qualname__}"
    named = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE
    assert named[name] == second
    ref = weakref.ref(second)
    del second
    assert gone(ref)
    make_decorated()
    assert named[name] == first
    spec = pytree.tree_flatten(first(torch.ones(2, 3)))[1]
    assert pytree.tree_unflatten([torch.zeros(4, 3)], spec).batch_size == (4,)


def test_optree_takes_the_class_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch hands classes on to C++, which knows nothing else, a class is registered as it is."""
    found: list[Any] = []
    monkeypatch.setattr(_pytree, "WEAK", False)
    monkeypatch.setattr(pytree, "register_pytree_node", lambda cls, *_, **__: found.append(cls))
    assert found == [make()]


REQUESTS: dict[str, Callable[[Any], Any]] = {name: DERIVED[name] for name in DERIVED if name != "options"}
REQUESTS["from_dataclass"] = lambda _: from_dataclass(Plain)


@dataclasses.dataclass
class Plain:
    x: Tensor


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_threads_get_one_class(request_: Callable[[Any], Any]) -> None:
    """Threads that ask for one class at the same time all get the same."""
    cls, count = make(), 8
    barrier = threading.Barrier(count)
    found: list[Any] = []

    def ask() -> None:
        barrier.wait()
        found.append(request_(cls))

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == count
    assert len(set(map(id, found))) == 1


def test_two_makers_at_once() -> None:
    """Nothing is locked while a class is made: two threads may both make it, and get the first that is published."""
    known, both, found = Classes(), threading.Barrier(2), []

    def slow() -> type:
        both.wait(10)  # the other is in here too
        return type("Made", (), {})

    threads = [threading.Thread(target=lambda: found.append(known.get((int, "x"), slow))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1]
    found.clear()
    gc.collect()
    assert len(known) == 0


def test_requests_are_compared_by_their_classes() -> None:
    """Unions in any order are one request; another class of the same name is another request."""
    assert Box[int | str] is Box[str | int]
    assert Box[make()] is not Box[make()]
    assert Box[list[int]] is not Box[list[str]]


def test_a_class_keeps_nothing_of_the_function_that_runs() -> None:
    """A function that defines a class may drop what it has before it returns."""
    big = torch.ones(3)
    ref = weakref.ref(big)

    class Local(TensorClass):
        x: Float32[Tensor, "n"]

    assert Local(torch.ones(2, 3)).batch_size == (2,)
    del big
    assert ref() is None


COMPILED: dict[str, Callable[[Any], Any]] = {
    "flatten": lambda batch: pytree.tree_flatten(batch)[0][0],
    "leaf": lambda batch: batch.x + pytree.tree_is_leaf(batch),
    "map": lambda batch: pytree.tree_map(lambda leaf: leaf + 1, [batch])[0].x,
    "leaves": lambda batch: pytree.tree_leaves({"a": batch})[0],
    "iterate": lambda batch: batch.x + len(list(pytree.tree_iter(batch))),
    "vmap": lambda batch: 1 * torch.func.vmap(lambda one: one.x * 2)(batch),
    "grad": lambda batch: torch.func.grad(lambda one: (one.x**2).sum())(batch).x,
}


@pytest.mark.parametrize("name", rest_is_slow(COMPILED))
def test_dynamo_finds_the_class(name: str) -> None:
    """Compiled code finds a class in torch's registry as Python does, though it is not kept there."""
    work = COMPILED[name]
    batch = make()(torch.ones(2, 3))
    assert torch.equal(torch.compile(work, fullgraph=True, backend="eager")(batch), work(batch))
    ref = weakref.ref(type(batch))
    del batch
    torch.compiler.reset()
    assert gone(ref) or name in ("vmap", "grad")  # torch itself keeps the class of what it has transformed
