"""Private attributes: state of one instance that is not a field; and cached properties, which setters drop."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from tensorclass import FrozenTensorClass, TensorClass, equal, field, schema, tensorclass
from tensorclass._operations import IN_PLACE
from tensorclass.errors import SchemaError, UnknownFieldError
from tensorclass.typing import Float32


class Base(TensorClass):
    x: Float32[Tensor, ""]
    _cache: dict[str, Any] = field(default_factory=dict)
    _count: int = 0
    _name: str
    _kind: ClassVar[str] = "base"


@tensorclass
class Decorated:
    x: Float32[Tensor, ""]
    _cache: dict[str, Any] = field(default_factory=dict)
    _count: int = 0
    _name: str


class Child(Base):
    y: Float32[Tensor, ""] = field(default=torch.tensor(1.0))
    _more: list[int] = dataclasses.field(default_factory=list)


class Frozen(FrozenTensorClass):
    x: Float32[Tensor, ""]
    _cache: dict[str, Any] = field(default_factory=dict)
    _count: int = 0
    _name: str


CLASSES: list[Any] = [Base, Decorated, Child, Frozen]

OPERATIONS = {
    "index": lambda b: b[0], "slice": lambda b: b[:1], "clone": lambda b: b.clone(), "to": lambda b: b.to("cpu"),
    "stack": lambda b: torch.stack([b, b]), "cat": lambda b: torch.cat([b, b]), "reshape": lambda b: b.reshape(2, 1),
    "arithmetic": lambda b: b * 2, "replace": lambda b: b.replace(x=torch.ones(2)), "copy": copy.copy,
    "deepcopy": copy.deepcopy, "pickle": lambda b: pickle.loads(pickle.dumps(b)), "unbind": lambda b: b.unbind(0)[0],
    "dataclasses.replace": lambda b: dataclasses.replace(b, x=torch.ones(2)),
    "json": lambda b: type(b).from_json(b.to_json()), "apply": lambda b: b.apply(lambda t: t + 1),
    "pytree": lambda b: torch.utils._pytree.tree_map(lambda t: t + 1, b), "detach": lambda b: b.detach(),
}  # fmt: skip


def filled(cls: Any) -> Any:
    """An instance with state."""
    batch = cls(x=torch.zeros(2))
    batch._cache["a"] = 1
    batch._count += 5
    batch._name = "n"
    return batch


@pytest.mark.parametrize("cls", CLASSES)
def test_an_instance_has_its_own_state(cls: Any) -> None:
    """Defaults and factories start each instance; writes stay with the instance; deleting goes back to the default."""
    batch, other = filled(cls), cls(x=torch.zeros(2))
    assert (batch._cache, batch._count, batch._name) == ({"a": 1}, 5, "n")
    assert (other._cache, other._count) == ({}, 0)
    with pytest.raises(AttributeError, match="_name is a private attribute without"):
        _ = other._name
    assert not hasattr(other, "_name")
    del batch._count
    assert batch._count == 0


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("cls", CLASSES)
def test_results_of_operations_start_from_the_default(cls: Any, operation: str) -> None:
    """A batch that an operation makes has none of the state of its source, which keeps its own."""
    batch = filled(cls)
    made = OPERATIONS[operation](batch)
    assert (made._cache, made._count, hasattr(made, "_name")) == ({}, 0, False)
    assert batch._cache == {"a": 1}


@pytest.mark.parametrize("cls", CLASSES)
def test_it_is_no_field(cls: Any) -> None:
    """It is not in the constructor, the schema, keys, equality, printed form, or the pytree."""
    batch = filled(cls)
    assert not [name for name in schema(cls).fields if name.startswith("_")]
    assert not [name for name in batch.keys() if name.startswith("_")]  # noqa: SIM118  # the method
    assert equal(batch, cls(x=torch.zeros(2)))
    assert "_cache" not in repr(batch)
    assert "_cache" not in batch.to_dict()
    assert "_cache" not in {f.name for f in dataclasses.fields(cls)}
    with pytest.raises((SchemaError, TypeError)):
        cls(x=torch.zeros(2), _cache={})


def test_in_place_operations_keep_the_state() -> None:
    """Operations that return the batch itself keep its state."""
    batch = filled(Base)
    batch.x = torch.ones(2)
    assert batch.add_(1)._count == 5


def test_inheritance_adds_private_attributes() -> None:
    """A child has the private attributes of its parents, and may give others a default."""

    class Other(Base):
        _count: int = 7

    child = Child(x=torch.zeros(2))
    child._more.append(1)
    assert (child._more, Child(x=torch.zeros(2))._more, child._count) == ([1], [], 0)
    assert (Other(x=torch.zeros(2))._count, Base._kind) == (7, "base")


@pytest.mark.parametrize("name", ["_store", "_batch_size", "_make", "_names", "_leaves", "__class__"])
def test_names_of_the_library_are_refused(name: str) -> None:
    """A private name that the library or Python uses is refused, with that reason."""
    with pytest.raises(SchemaError, match=r"every batch uses itself|a name of Python"):
        type(TensorClass)("Bad", (TensorClass,), {"__annotations__": {"x": Tensor, name: int}})


def test_mutable_defaults_options_and_slots_are_refused() -> None:
    """A shared mutable default, an option of fields and a class without a place for it are errors at definition."""
    with pytest.raises(SchemaError, match=r"default_factory=dict"):

        class Shared(TensorClass):
            x: Tensor
            _cache: dict[str, int] = {}  # what the test is about

    with pytest.raises(SchemaError, match="only `default`"):

        class Joined(TensorClass):
            x: Tensor
            _cache: int = field(default=3, join="same")

    with pytest.raises(SchemaError, match="__slots__"):

        class Slotted(TensorClass):
            __slots__ = ()
            x: Tensor
            _cache: int = 0


def test_an_undeclared_name_names_the_declaration() -> None:
    """`self._y = 3` without a declaration stays an error; the hint declares it, and applied it mends the program."""
    with pytest.raises(UnknownFieldError, match=r"`_y: dict = field\(default_factory=dict\)`"):
        Base(torch.zeros(2))._y = 3  # type: ignore[attr-defined]

    class Mended(TensorClass):
        x: Float32[Tensor, ""]
        _y: dict[str, int] = field(default_factory=dict)

    assert Mended(x=torch.zeros(2))._y == {}


def test_threads_share_one_default() -> None:
    """Threads that read the attribute of one instance at once get one object."""
    batch, found = Base(torch.zeros(2)), list[int]()
    threads = [threading.Thread(target=lambda: found.append(id(batch._cache))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1


def test_compiled_code_reads_and_writes_it() -> None:
    """A compiled function may use private attributes."""
    torch._dynamo.reset()

    def step(batch: Any) -> Any:
        batch._count = batch._count + 1
        return batch * 2

    batch = filled(Base)
    result = torch.compile(step, backend="eager")(batch)
    assert (batch._count, result._count, result.x.tolist()) == (6, 0, [0.0, 0.0])


class Summed(TensorClass):
    x: Float32[Tensor, ""]
    y: Float32[Tensor, ""]

    @cached_property
    def total(self) -> float:
        """The sum of `x`."""
        return float(self.x.sum())


WRITES = {
    "setter": lambda b: setattr(b, "x", torch.zeros(2)), "set": lambda b: b.set("x", torch.zeros(2)),
    "key": lambda b: b.__setitem__("x", torch.zeros(2)), "update": lambda b: b.update({"x": torch.zeros(2)}),
    "several": lambda b: b.update({"x": torch.zeros(2), "y": torch.zeros(2)}),
    "other dtype": lambda b: setattr(b, "x", torch.zeros(2).clone()),
}  # fmt: skip


IN_MEMORY: dict[str, Callable[[Any], Any]] = {
    "set_": lambda b: b.set_("x", torch.zeros(2)),
    "update_": lambda b: b.update_({"x": torch.zeros(2)}),
    "set_at_": lambda b: b.set_at_("x", torch.zeros(2), slice(None)),
    "update_at_": lambda b: b.update_at_({"x": torch.zeros(2)}, slice(None)),
    "zero_": lambda b: b.zero_(),
    "mul_": lambda b: b.mul_(0),
    "operator": lambda b: b.__imul__(0),
    "fill_": lambda b: b.fill_("x", 0.0),
    "masked_fill_": lambda b: b.masked_fill_(torch.ones(2, dtype=torch.bool), 0.0),
    "apply_": lambda b: b.apply_(torch.zero_),
    "copy_": lambda b: b.copy_(Summed(torch.zeros(2), torch.zeros(2))),
    "state": lambda b: b.load_state_dict(Summed(torch.zeros(2), torch.zeros(2)).state_dict()),
}
"""Methods of the batch that write into the memory of its tensors."""


@pytest.mark.parametrize("write", IN_MEMORY)
def test_methods_that_write_into_memory_drop_cached_properties(write: str) -> None:
    """The property is computed anew, and the instance is the same."""
    batch = Summed(torch.ones(2), torch.ones(2))
    assert batch.total == 2.0
    IN_MEMORY[write](batch)
    assert batch.total == 0.0


def test_every_method_in_place_drops_cached_properties() -> None:
    """None of the methods that the table of operations has in place is left out, and reads are left alone."""
    replaced = {name for name, member in vars(Summed).items() if hasattr(member, "_forgets")}
    assert {name for name in IN_PLACE if hasattr(TensorClass, name)} <= replaced
    assert {name for name in dir(TensorClass) if name.endswith("_") and not name.startswith("_")} <= replaced
    assert not {"get", "keys", "items", "clone", "__getitem__", "__init__", "__iter__", "select"} & replaced


class Holder(TensorClass):
    parts: Summed

    @cached_property
    def total(self) -> float:
        """The sum of a field of the nested instance."""
        return float(self.parts.x.sum())


NESTED = {
    "set": lambda b: b.set(("parts", "x"), torch.zeros(2)),
    "key": lambda b: b.__setitem__(("parts", "x"), torch.zeros(2)),
    "reference": lambda b: b.set(Holder.parts.x, torch.zeros(2)),
    "update": lambda b: b.update({"parts": {"x": torch.zeros(2)}}),
    "path": lambda b: b.update({("parts", "x"): torch.zeros(2)}),
    "rows": lambda b: b.__setitem__(slice(None), Holder(Summed(torch.zeros(2), torch.zeros(2)))),
    "whole": lambda b: setattr(b, "parts", Summed(torch.zeros(2), torch.zeros(2))),
}


@pytest.mark.parametrize("write", NESTED)
def test_writes_into_a_nested_instance_drop_cached_properties(write: str) -> None:
    """So does a key that leads into a nested instance, also in a subclass; the methods are replaced once."""

    class Child(Holder):
        pass

    for cls in (Holder, Child):
        batch = cls(Summed(torch.ones(2), torch.ones(2)))
        assert batch.total == 2.0
        NESTED[write](batch)
        assert batch.total == 0.0
    assert not {"set", "__setitem__", "update"} & vars(Child).keys()
    assert not {"set", "__setitem__", "update"} & vars(Base).keys()


@pytest.mark.parametrize("write", WRITES)
def test_writes_drop_cached_properties(write: str) -> None:
    """A cached property is computed anew after a field was replaced."""
    batch = Summed(torch.ones(2), torch.ones(2))
    assert batch.total == 2.0
    WRITES[write](batch)
    assert batch.total == 0.0
