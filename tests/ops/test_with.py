"""Operations in `with` blocks: what is written to the result reaches the container that it was made from."""

from __future__ import annotations

import gc
from weakref import ref

import pytest
import torch
from torch import Tensor

import tensorclass as tc
from tensorclass import TensorDict, equal, lazy_stack, tensorclass
from tensorclass.errors import FrozenError, LockedError, MissingKeyError, StructureError, UnsupportedOperationError
from tensorclass.typing import Float
from tests.contract._kinds import KINDS, mixed
from tests.contract._typed_kinds import TYPED

WITHOUT = ("scalar", "vacant", "thin", "line", "expanded", "strided")  # another batch size, or leaves that no view fits
FACTORIES = {name: factory for name, factory in {**KINDS, **TYPED}.items() if name not in WITHOUT}
CALLS = {
    "view": lambda x: x.view(-1),
    "view_of": lambda x: x.view(size=(3, 2)),
    "reshape": lambda x: x.reshape(3, 2),
    "flatten": lambda x: x.flatten(0, 1),
    "unflatten": lambda x: x.unflatten(1, (3, 1)),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.squeeze(),
    "atleast_3d": lambda x: x.atleast_3d(),
    "permute": lambda x: x.permute(1, 0),
    "transpose": lambda x: x.transpose(0, 1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "swapdims": lambda x: x.swapdims(0, 1),
    "movedim": lambda x: x.movedim(0, 1),
    "moveaxis": lambda x: x.moveaxis(0, -1),
    "flip": lambda x: x.flip(0),
    "fliplr": lambda x: x.fliplr(),
    "flipud": lambda x: x.flipud(),
    "roll": lambda x: x.roll(1, 0),
    "to": lambda x: x.to(torch.float64),
    "to_device": lambda x: x.to("cpu"),
    "flatten_keys": lambda x: x.flatten_keys(),
    "unflatten_keys": lambda x: x.unflatten_keys(),
}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@tensorclass
class Point:
    x: Float[Tensor, "2"]
    speed: Float[Tensor, ""] | None = None


@tensorclass
class Pair:
    first: Point
    y: Float[Tensor, ""]


def data() -> TensorDict:
    """Six elements of two fields, one of them nested."""
    numbers = torch.arange(6.0).reshape(2, 3)
    return TensorDict({"a": numbers.unsqueeze(-1) + 1, "b": {"c": numbers.clone()}}, batch_size=[2, 3])


def pair() -> Pair:
    """A typed container with a nested one."""
    return Pair(first=Point(x=torch.ones(2, 3, 2)), y=torch.zeros(2, 3))


@each_call
@pytest.mark.parametrize("factory", FACTORIES.values(), ids=FACTORIES)
def test_nothing_written_changes_nothing(factory, call):
    """A block that only reads leaves the container, its tensors and its structure alone, whatever kind it is."""
    make = mixed()
    container = factory(lambda *size: make(*size).to(torch.float64))
    before, tensors = container.clone(), dict(container.items(True, True))
    with call(container) as result:
        assert result is not container
    assert equal(container, before)
    if not container._stacked:
        assert all(container[key] is value for key, value in tensors.items() if isinstance(value, Tensor))


@each_call
def test_new_tensors_are_written_back(call):
    """An entry that was set in the block stands in the container, in its own batch shape and dtype."""
    container = data()
    untouched = container["a"]
    with call(container) as result:
        key = ("b", "c") if ("b", "c") in result else "b.c"
        result[key] = result[key] * 10
    assert torch.equal(container["b", "c"], torch.arange(6.0).reshape(2, 3) * 10)
    assert container["a"] is untouched
    assert list(container.keys(True, True)) == ["a", ("b", "c")]


@each_call
def test_writes_in_place_are_written_back(call):
    """In-place writes arrive, whether the result shares memory with the container or not."""
    container = data()
    with call(container) as result:
        result["a"].mul_(2)
    assert torch.equal(container["a"].squeeze(-1), torch.arange(6.0).reshape(2, 3) * 2 + 2)
    assert container["a"].dtype is torch.float32


@each_call
def test_new_and_removed_entries(call):
    """Entries that come in the block come to the container, those that go leave it."""
    container = data()
    with call(container) as result:
        result["new"] = torch.ones(result.batch_size)
        result["who"] = "me"
        del result["a"]
    assert set(container.keys(True)) == {"b", ("b", "c"), "new", "who"}
    assert container["new"].shape == (2, 3)
    assert container["who"] == "me"


@each_call
def test_nothing_is_written_after_an_error(call):
    """A block that raises leaves the container without what was set in it."""
    container = data()
    with pytest.raises(MissingKeyError), call(container) as result:
        result.set("new", torch.ones(result.batch_size)).del_("absent")
    assert "new" not in container


@each_call
def test_lazy_stacks(call):
    """Writes reach the members of a lazy stack."""
    parts = [data()[0], data()[1]]
    stack = lazy_stack(parts)
    with call(stack) as result:
        key = ("b", "c") if ("b", "c") in result else "b.c"
        result[key] = result[key] + 100
        result["new"] = torch.ones(result.batch_size)
    assert type(stack) is tc.LazyStackedTensorDict
    assert torch.equal(parts[1]["b", "c"], torch.tensor([103.0, 104.0, 105.0]))
    assert parts[0]["new"].shape == (3,)


@pytest.mark.parametrize("name", [name for name in CALLS if "keys" not in name])
def test_typed_classes(name):
    """The result is of the class, and so is what stands in the container afterwards."""
    container = pair()
    with CALLS[name](container) as result:
        assert type(result) is Pair
        result.first.speed = torch.full(result.batch_size, 2.0)
        result.y = result.y + 1
    assert type(container.first) is Point
    assert torch.equal(container.first.speed, torch.full((2, 3), 2.0))
    assert torch.equal(container.y, torch.ones(2, 3))


def test_keys_of_typed_classes():
    """Flat keys of a typed class are an untyped container; what is written back is held to the declaration."""
    container = pair()
    with container.flatten_keys() as flat:
        flat["first.speed"] = torch.ones(2, 3)
    assert torch.equal(container.first.speed, torch.ones(2, 3))
    with pytest.raises(MissingKeyError, match="Pair has no field"), container.flatten_keys() as flat:
        flat["second"] = torch.ones(2, 3)


def test_unflattened_keys_find_back():
    """A key that was cut becomes that key again; nested ones that were there stay nested."""
    container = TensorDict({"a.b": torch.zeros(2), "n": {"c": torch.zeros(2)}}, batch_size=[2])
    with container.unflatten_keys() as nested:
        nested["a", "b"] = nested["a", "b"] + 1
        nested["n", "c"] = nested["n", "c"] + 2
    assert torch.equal(container["a.b"], torch.ones(2))
    assert torch.equal(container["n", "c"], torch.full((2,), 2.0))
    assert set(container.keys()) == {"a.b", "n"}


def test_a_cast_loses_nothing_that_was_not_written():
    """What a lossy cast would change stays what it was, unless it is written."""
    third = torch.tensor([1 / 3])
    container = TensorDict(a=third, b=third.clone(), batch_size=[1])
    with container.to(torch.float16) as half:
        half["b"] = half["b"] * 2
        half["c"] = half["a"] * 2
    assert container["a"] is third
    assert third.item() == torch.tensor(1 / 3).item()
    assert container["b"].dtype is torch.float32
    assert container["c"].dtype is torch.float16


def test_bytes_of_another_dtype():
    """A view of the same memory as another dtype is undone as one."""
    container = TensorDict(a=torch.zeros(2), batch_size=[2])
    with container.view(torch.int32) as bits:
        bits["a"] = bits["a"] + torch.tensor(1.0).view(torch.int32)
    assert torch.equal(container["a"], torch.ones(2))


def test_batch_size():
    """Another batch size lasts as long as the block."""
    container = data()
    with container.to(batch_size=[2]) as outer:
        outer["new"] = torch.ones(2, 3)
    assert container.batch_size == (2, 3)
    assert container["new"].shape == (2, 3)


def test_locked_containers():
    """Values reach a locked container, structure does not."""
    container = data().lock_()
    with container.view(-1) as flat:
        flat["a"].fill_(7)
    assert bool((container["a"] == 7).all())
    with pytest.raises(LockedError), container.view(-1) as flat:
        flat["new"] = torch.ones(6)


def test_frozen_classes():
    """A frozen instance takes nothing back."""

    class Still(tc.FrozenTensorClass):
        x: Float[Tensor, ""]

    still = Still(x=torch.zeros(2, 3))
    with still.view(-1) as flat:
        assert flat.batch_size == (6,)
    with pytest.raises(FrozenError), still.flatten_keys() as flat:
        flat["x"] = torch.ones(2, 3)


def test_locks_end_with_the_block():
    """`lock_` and `unlock_` undo themselves, on every kind, and change nothing that was so already."""
    for container in (data(), lazy_stack([data(), data()]), pair()):
        with container.lock_() as same:
            assert same is container
            assert container.is_locked
        assert not container.is_locked
        container.lock_()
        with container.unlock_():
            assert not container.is_locked
        assert container.is_locked
        with container.lock_():
            pass
        assert container.is_locked


def test_blocks_nest():
    """A block in a block over the same container, and the same result used twice."""
    container = data()
    flat = container.view(-1)
    with flat, flat.unsqueeze(0) as deep:
        deep["new"] = torch.ones(1, 6)
    assert container["new"].shape == (2, 3)
    with flat:
        flat["more"] = torch.ones(6)
    assert container["more"].shape == (2, 3)


def test_nobody_to_write_to():
    """A result whose container is gone says so: `with a.view(-1).unsqueeze(0)` has nothing to write to in between."""
    with pytest.raises(StructureError, match="keep it in a variable"), data().view(-1):
        pass
    container = data()
    lost = container.view(-1)
    del container
    gc.collect()
    with pytest.raises(StructureError, match=r"with view\(\)"), lost:
        pass


def test_results_keep_nothing_alive():
    """Results hold no reference to the container that they were made from."""
    container = data()
    results = [call(container) for call in CALLS.values()]
    gone = ref(container)
    del container
    assert len(results) == len(CALLS)
    assert gone() is None


def test_compiled():
    """A compiled region can't write back, and says so instead of losing what was written."""

    def shaped(container):
        return container.view(-1).unsqueeze(0).to(torch.float64)

    result = torch.compile(shaped, fullgraph=True, backend="eager")(data())
    assert result.batch_size == (1, 6)
    with pytest.raises(UnsupportedOperationError, match=r"torch\.compile"), result:
        pass
