"""What every container promises: dims stay among the batch dims, writes are all or nothing, structure is its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensorclass import NonTensorStack, TensorClass, TensorDict
from tensorclass.errors import BatchDimError, LockedError, MissingKeyError, TensorClassError, UnsupportedOperationError
from tensorclass.typing import Float32, Int64
from tests.contract._invariants import check
from tests.contract._model import Model, assert_same


class Pair(TensorClass):
    a: Float32[torch.Tensor, "4"]
    b: Int64[torch.Tensor, ""]


def untyped() -> TensorDict:
    """Two batch dims, event dims behind them, a nested container with one batch dim more."""
    inner = TensorDict({"x": torch.arange(24.0).reshape(2, 3, 4)}, batch_size=[2, 3, 4])
    return TensorDict({"a": torch.ones(2, 3, 4), "n": inner, "last": torch.ones(2, 3)}, batch_size=[2, 3])


def typed() -> Pair:
    """The same batch size, declared."""
    return Pair(a=torch.ones(2, 3, 4), b=torch.ones(2, 3, dtype=torch.int64), batch_size=[2, 3])


MAKERS = pytest.mark.parametrize("make", [untyped, typed])

# ---- dims ------------------------------------------------------------------------------------------------------------

DIMS: dict[str, Callable[[Any, int], Any]] = {
    "transpose first": lambda c, d: c.transpose(d, 0),
    "transpose second": lambda c, d: c.transpose(0, d),
    "swapaxes": lambda c, d: c.swapaxes(d, 0),
    "swapdims": lambda c, d: c.swapdims(0, d),
    "permute": lambda c, d: c.permute(d, 0),
    "movedim source": lambda c, d: c.movedim(d, 0),
    "movedim destination": lambda c, d: c.movedim(0, d),
    "moveaxis": lambda c, d: c.moveaxis((0, d), (d, 0)),
    "flip": lambda c, d: c.flip(d),
    "flip several": lambda c, d: c.flip([0, d]),
    "roll": lambda c, d: c.roll(1, d),
    "rot90": lambda c, d: c.rot90(1, (0, d)),
    "flatten start": lambda c, d: c.flatten(d, -1),
    "flatten end": lambda c, d: c.flatten(0, d),
    "unflatten": lambda c, d: c.unflatten(d, (1, -1)),
    "squeeze": lambda c, d: c.squeeze(d),
    "unsqueeze": lambda c, d: c.unsqueeze(d if d < 0 else d + 1),
    "narrow": lambda c, d: c.narrow(d, 0, 1),
    "repeat_interleave": lambda c, d: c.repeat_interleave(2, d),
    "split": lambda c, d: c.split(1, d),
    "tensor_split": lambda c, d: c.tensor_split(2, d),
    "chunk": lambda c, d: c.chunk(2, d),
    "unbind": lambda c, d: c.unbind(d),
    "gather": lambda c, d: c.gather(d, torch.zeros(2, 3, dtype=torch.int64)),
    "size": lambda c, d: c.size(d),
    "stack": lambda c, d: torch.stack([c, c], d if d < 0 else d + 1),
    "class stack": lambda c, d: type(c).stack([c, c], d if d < 0 else d + 1),
    "cat": lambda c, d: torch.cat([c, c], d),
    "class cat": lambda c, d: type(c).cat([c, c], d),
}
"""Operations that take a dim; those that insert one have one more legal position."""
INSERTING = {"unsqueeze", "stack", "class stack"}


@MAKERS
@pytest.mark.parametrize("dim", [2, 3, 99, -3, -4, -99])
@pytest.mark.parametrize("name", DIMS)
def test_dims_stay_among_the_batch_dims(name: str, dim: int, make: Callable[[], Any]):
    """No dim beyond the batch dims is accepted, not from the front nor from the end, although the leaves have it."""
    container = make()
    before = Model.of(container).frozen()
    if name in INSERTING and dim == -3:
        check(DIMS[name](container, dim))
        return
    with pytest.raises(BatchDimError, match="batch dim") as caught:
        DIMS[name](container, dim)
    assert isinstance(caught.value, IndexError)
    assert_same(container, before)


@MAKERS
@pytest.mark.parametrize("index", [(0, 0, 0), (..., 0, 0, 0), (slice(None),) * 3, (None, 0, 0, 0), (0, [0], [0])])
def test_indices_stay_among_the_batch_dims(index: Any, make: Callable[[], Any]):
    """Neither reading nor writing by index reaches an event dim."""
    container = make()
    before = Model.of(container).frozen()
    with pytest.raises(IndexError, match="3 indices but the container has 2 batch dims"):
        container[index]
    with pytest.raises(IndexError, match="3 indices but the container has 2 batch dims"):
        container[index] = 0
    assert_same(container, before)


@pytest.mark.parametrize("shape", [(7,), (2, 2), (-1, -1), (-2, 3), (0,), (5, -1), (2, 3, 4)])
@pytest.mark.parametrize("method", ["reshape", "view"])
def test_shapes_keep_the_number_of_elements(shape: tuple[int, ...], method: str):
    """Another number of elements is an error, never a piece of an event dim."""
    with pytest.raises(TensorClassError, match=method):
        getattr(untyped(), method)(*shape)


@pytest.mark.parametrize("shape", [(3,), (2, 4), (3, 2, 4), (-1, 2, 3), (4, 3)])
def test_expand_follows_the_batch(shape: tuple[int, ...]):
    """Only batch dims of size one grow."""
    with pytest.raises(TensorClassError, match="expand"):
        untyped().expand(*shape)


# ---- all or nothing --------------------------------------------------------------------------------------------------

bad = torch.ones(5)
WRITES: dict[str, Callable[[Any], Any]] = {
    "update": lambda c: c.update({"a": torch.zeros(2, 3, 4), "n": {"x": torch.zeros(2, 3, 4)}, "last": bad}),
    "update nested": lambda c: c.update({"a": torch.zeros(2, 3, 4), "n": {"x": torch.zeros(2, 3, 4), "y": bad}}),
    "update new keys": lambda c: c.update({"new": torch.zeros(2, 3), ("m", "x"): torch.zeros(2, 3), "last": bad}),
    "update in place": lambda c: c.update(
        {"a": torch.zeros(2, 3, 4), "new": torch.ones(2, 3), "last": bad}, inplace=True
    ),
    "update in place, new": lambda c: c.update({"a": torch.zeros(2, 3, 4), "new": bad}, inplace=True),
    "update_": lambda c: c.update_({"a": torch.zeros(2, 3, 4), "n": {"x": torch.zeros(2, 3, 4)}, "last": bad}),
    "update_ unknown": lambda c: c.update_({"a": torch.zeros(2, 3, 4), "unknown": torch.zeros(2, 3)}),
    "update_ dtype": lambda c: c.update_({"a": torch.zeros(2, 3, 4), "last": torch.ones(2, 3, dtype=torch.complex64)}),
    "copy_ lacking": lambda c: c.copy_(TensorDict({"a": torch.zeros(2, 3, 4)}, [2, 3])),
    "copy_ unknown": lambda c: c.copy_((c + 1).set("more", torch.zeros(2, 3))),
    "copy_ shape": lambda c: c.copy_((c + 1).set("last", torch.zeros(2, 3, 2))),
    "copy_ batch": lambda c: c.copy_(c.repeat(2, 1)),
    "copy_at_": lambda c: c.copy_at_((c[0] + 1).set("last", torch.zeros(3, 2)), 1),
    "update_at_": lambda c: c.update_at_({"a": torch.zeros(3, 4), "last": bad}, 0),
    "update_at_ index": lambda c: c.update_at_({"a": torch.zeros(3, 4)}, 7),
    "set_at_": lambda c: c.set_at_("last", bad, 0),
    "[i] = lacking": lambda c: c.__setitem__(0, (c[0] + 1).exclude("last")),
    "[i] = unknown": lambda c: c.__setitem__(0, (c[0] + 1).set("more", torch.zeros(3))),
    "[i] = shape": lambda c: c.__setitem__(0, (c[0] + 1).set("last", torch.zeros(3, 1))),
    "[i] = batch": lambda c: c.__setitem__(0, c[:, 0] + 1),
    "[mask] = shape": lambda c: c.__setitem__(
        torch.tensor([True, False]), (c[:1] + 1).set("last", torch.zeros(1, 3, 2))
    ),
    "[i] = mapping": lambda c: c.__setitem__(0, {"a": torch.zeros(3, 4), "n": {"x": torch.zeros(3, 4)}, "last": bad}),
    "[i] = str": lambda c: c.__setitem__(0, "text"),
    "set path": lambda c: c.set(("new", "deep", "x"), bad),
    "set in place": lambda c: c.set("last", bad, inplace=True),
    "set through a leaf": lambda c: c.set(("a", "x"), torch.zeros(2, 3)),
    "set_": lambda c: c.set_("last", bad),
    "apply_": lambda c: c.apply_(lambda t: t + 1 if t.ndim > 2 else torch.ones(7)),
    "apply_ fails": lambda c: c.apply_(lambda t: (t + 1).reshape(2, 3, 4)),
    "rename_key_": lambda c: c.rename_key_("a", ("a", "b")),
    "rename_key_ through a leaf": lambda c: c.rename_key_("a", ("last", "b")),
    "rename_key_ safe": lambda c: c.rename_key_("a", "last", safe=True),
    "del": lambda c: c.del_("absent"),
    "pop": lambda c: c.pop("absent"),
    "select in place": lambda c: c.select("a", "absent", inplace=True),
    "separates": lambda c: c.separates("a", "absent"),
    "split_keys": lambda c: c.split_keys(["a"], ["absent"], inplace=True),
    "stack_tensors": lambda c: c.stack_tensors("a", "last", out_key="both"),
    "stack_tensors batch": lambda c: c.stack_tensors("last", "last", out_key="both", dim=0),
    "cat_tensors": lambda c: c.cat_tensors("a", "a", out_key="both", dim=0),
    "cat_tensors path": lambda c: c.cat_tensors("a", "a", out_key=("last", "both"), dim=-1),
    "unflatten_keys": lambda c: c.unflatten_keys(inplace=True),
    "batch_size": lambda c: setattr(c, "batch_size", [2, 3, 4]),
    "names": lambda c: setattr(c, "names", ["x", "x"]),
    "masked_fill_": lambda c: c.masked_fill_(torch.ones(3, dtype=torch.bool), 1),
    "masked_fill_ dtype": lambda c: c.masked_fill_(torch.ones(2, dtype=torch.bool), 1j),
    "fill_": lambda c: c.fill_("last", 1j),
    "add_ keys": lambda c: c.add_(c.select("a", "n")),
    "add_ shapes": lambda c: c.add_((c + 1).set("last", torch.zeros(2, 3, 2))),
    "add_ str": lambda c: c.add_("x"),
    "add_ tensor": lambda c: c.add_(torch.zeros(4)),
    "+= dtype": lambda c: c.__iadd__((c * 1).set("last", torch.ones(2, 3, dtype=torch.complex64))),
    "lerp_": lambda c: c.lerp_(c + 1, c.exclude("last")),
    "auto_batch_size_ locked": lambda c: c.lock_().auto_batch_size_(),
    "reshape in place": lambda c: c.flatten(0, 5, inplace=True),
}
"""Writes that fail because of what they would write last."""


@pytest.mark.parametrize("name", WRITES)
def test_writes_are_all_or_nothing(name: str):
    """A write that fails leaves every leaf, every key and the batch size as they were."""
    container = untyped()
    if name == "unflatten_keys":
        container.set("a.b", torch.zeros(2, 3))
    before = Model.of(container).frozen()
    with pytest.raises((TensorClassError, RuntimeError, TypeError, ValueError)):
        WRITES[name](container)
    assert_same(container, before)
    assert list(container.keys()) == [key for key in [*untyped().keys(), "a.b"] if key in container]
    check(container)


TYPED_WRITES: dict[str, Callable[[Any], Any]] = {
    "update": lambda c: c.update({"a": torch.zeros(2, 3, 4), "b": torch.ones(2, 3)}),
    "update unknown": lambda c: c.update({"a": torch.zeros(2, 3, 4), "c": torch.ones(2, 3)}),
    "update_": lambda c: c.update_({"a": torch.zeros(2, 3, 4), "b": torch.ones(2, 3)}),
    "copy_": lambda c: c.copy_(c.to_tensordict().add(1).set("b", torch.ones(2, 3))),
    "[i] =": lambda c: c.__setitem__(0, {"a": torch.zeros(3, 4), "b": torch.ones(3)}),
    "[i] = lacking": lambda c: c.__setitem__(0, {"a": torch.zeros(3, 4)}),
    "div_": lambda c: c.div_(2),
    "+=": lambda c: c.__iadd__(0.5),
    "apply_": lambda c: c.apply_(lambda t: t + 0.5),
    "masked_fill_": lambda c: c.masked_fill_(torch.ones(2, dtype=torch.bool), 0.5),
    "set": lambda c: c.set("b", torch.ones(2, 3)),
    "del": lambda c: c.del_("b"),
    "clear": lambda c: c.clear(),
    "select in place": lambda c: c.select("a", inplace=True),
    "rename_key_": lambda c: c.rename_key_("a", "z"),
}
"""The same for a class: the last field is an integer, and there are no others."""


@pytest.mark.parametrize("name", TYPED_WRITES)
def test_typed_writes_are_all_or_nothing(name: str):
    """What breaks the declaration is refused whole."""
    container = typed()
    before = Model.of(container).frozen()
    with pytest.raises((TensorClassError, TypeError)):
        TYPED_WRITES[name](container)
    assert_same(container, before)
    check(container)


def test_a_copy_that_torch_refuses_writes_nothing():
    """Autograd, expansion and inference mode guard single leaves: no other is written."""
    guarded = [torch.ones(2, requires_grad=True), torch.ones(1).expand(2)]
    with torch.inference_mode():
        guarded.append(torch.ones(2))
    for last in guarded:
        container = TensorDict({"a": torch.zeros(2), "last": last}, batch_size=[2])
        source = TensorDict({"a": torch.ones(2), "last": torch.zeros(2)}, batch_size=[2])
        for write in (container.copy_, container.update_, lambda s, c=container: c.__setitem__(slice(None), s)):
            with pytest.raises(UnsupportedOperationError, match=r"`last`.*nothing was written"):
                write(source)
            assert container["a"].tolist() == [0, 0]


# ---- structure, snapshots, truth -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write", ["set", "del_", "update", "clear", "pop", "rename_key_", "create_nested", "filter_empty_"]
)
def test_locked_structure(write: str):
    """A locked container refuses every structural write, at every depth, and says how to go on."""
    container = untyped().lock_()
    arguments = {
        "set": ("new", torch.zeros(2, 3, 4)), "del_": ("a",), "update": ({"new": torch.zeros(2, 3, 4)},), "pop": ("a",),
        "rename_key_": ("a", "z"), "create_nested": ("new",),
    }  # fmt: skip
    for target in (container, container["n"]):
        before = Model.of(container).frozen()
        if target is not container and write in ("del_", "pop", "rename_key_"):
            arguments |= {"del_": ("x",), "pop": ("x",), "rename_key_": ("x", "z")}
        with pytest.raises(LockedError, match="unlock_"):
            getattr(target, write)(*arguments.get(write, ()))
        assert_same(container, before)


@MAKERS
def test_iteration_is_a_snapshot(make: Callable[[], Any]):
    """Another thread that writes meanwhile never disturbs an iteration."""
    container, stop, errors = make(), threading.Event(), list[Exception]()

    def write() -> None:
        value = torch.zeros(2, 3, 4)
        while not stop.is_set():
            if isinstance(container, TensorDict):
                container.set("z", value)
                container.set(("n", "z"), value)
                del container["z"], container["n", "z"]
            else:
                container.a = value

    def read() -> None:
        try:
            for _ in range(300):
                [key for key, _ in container.items(include_nested=True)]
                list(container.keys(include_nested=True, leaves_only=True))
                list(container.values())
                len(container.keys())
                repr(container)
        except Exception as error:
            errors.append(error)
        finally:
            stop.set()

    threads = [threading.Thread(target=work) for work in (write, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_writing_while_iterating():
    """The loop goes over what was there when it began."""
    container = untyped()
    for key in container.keys():  # noqa: SIM118  # no dict
        container.rename_key_(key, f"{key}_new")
    assert list(container.keys()) == ["a_new", "n_new", "last_new"]


@MAKERS
def test_no_truth_value(make: Callable[[], Any]):
    """A container in a condition is an error that says what to ask instead."""
    container = make()
    for ask in (bool, lambda c: not c, lambda c: c and 1):
        with pytest.raises(UnsupportedOperationError, match="truth value"):
            ask(container)
    assert container == container
    assert container in [container + 1, container]
    assert container not in [container + 1, 7]


UNKNOWN: dict[str, Callable[[Any], Any]] = {
    "read": lambda c: c["unknown"],
    "read path": lambda c: c["n", "unknown"],
    "pop": lambda c: c.pop("unknown"),
    "del": lambda c: c.del_("unknown"),
    "select": lambda c: c.select("unknown"),
    "set_": lambda c: c.set_("unknown", 0),
    "update_": lambda c: c.update_({"unknown": 0}),
    "fill_": lambda c: c.fill_("unknown", 0),
    "set_at_": lambda c: c.set_at_("unknown", 0, 0),
    "rename_key_": lambda c: c.rename_key_("unknown", "z"),
    "rename_keys": lambda c: c.rename_keys({"unknown": "z"}),
    "split_keys": lambda c: c.split_keys(["unknown"]),
    "separates": lambda c: c.separates("unknown"),
    "entry_class": lambda c: c.entry_class("unknown"),
    "get_item_shape": lambda c: c.get_item_shape("unknown"),
    "cat_tensors": lambda c: c.cat_tensors("unknown", out_key="z"),
}


@pytest.mark.parametrize("call", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_keys_raise(call: Callable[[Any], Any]):
    """An absent key is an error of its own kind, which is a KeyError."""
    container = untyped()
    with pytest.raises(MissingKeyError, match="unknown") as caught:
        call(container)
    assert isinstance(caught.value, KeyError)


def test_results_share_storage_as_torch_does():
    """A view writes through, a copy does not; keys never travel."""
    container = untyped()
    for view in (container[0], container.reshape(6), container.view(6), container.permute(1, 0), container[:]):
        view.zero_()
        assert container["a"].sum() == 0 or container["a"][0].sum() == 0
        container["a"].fill_(1)
    for copied in (container.clone(), container[[0, 1]], container + 0, container.repeat(1, 1)):
        copied.zero_()
        assert container["a"].sum() == 24


def test_objects_of_a_result_are_its_own():
    """Writing elements of objects in the result of arithmetic leaves the source alone."""
    container = TensorDict({"a": torch.ones(2), "who": NonTensorStack("x", "y")}, batch_size=[2])
    result = container + 1
    result[0] = result[1].clone()
    assert (container.get("who").tolist(), result.get("who").tolist()) == (["x", "y"], ["y", "y"])
