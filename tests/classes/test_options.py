"""The options of a class: frozen, shadow, autocast, nocast, tensor_only, validate; in every form."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from types import SimpleNamespace
from typing import Annotated, Any

import annotated_types
import pytest
import torch
from torch import Tensor

from tensorclass import FrozenTensorClass, PerElement, TensorClass, TensorDict
from tensorclass.errors import FrozenError, SchemaError
from tensorclass.typing import Float32, Int64
from tests.classes._samples import Form, pose

SHADOWED = [
    "reshape",
    "clone",
    "keys",
    "items",
    "values",
    "get",
    "set",
    "to",
    "stack",
    "cat",
    "split",
    "unbind",
    "apply",
    "permute",
    "unsqueeze",
    "select",
    "update",
    "copy",
    "size",
    "dim",
    "numel",
    "view",
    "expand",
    "add",
    "mul",
    "abs",
    "float",
    "replace",
    "is_empty",
    "entry_class",
    "lock_",
    "unlock_",
    "gather",
    "flatten",
    "repeat",
    "masked_fill",
    "contiguous",
    "exclude",
    "pop",
    "chunk",
    "type",
    "half",
    "double",
    "zero_",
    "fill_",
    "copy_",
    "update_",
]


def still(ns: SimpleNamespace, *size: int) -> Any:
    """A frozen instance."""
    return ns.Still(x=torch.arange(float(torch.Size(size).numel() * 2)).reshape(*size, 2), pose=pose(ns.Pose, *size))


FROZEN_WRITES = {
    "attribute": lambda b: setattr(b, "x", b.x),
    "value": lambda b: setattr(b, "source", "y"),
    "nested update": lambda b: b.update({"pose": {"angle": b.pose.angle}}),
    "nested": lambda b: b.set(("pose", "angle"), b.pose.angle),
    "item": lambda b: b.__setitem__("x", b.x),
    "index": lambda b: b.__setitem__(0, b[1]),
    "slice": lambda b: b.__setitem__(slice(None), b),
    "set": lambda b: b.set("x", b.x),
    "set_": lambda b: b.set_("x", b.x),
    "set_at_": lambda b: b.set_at_("x", 0.0, 0),
    "update": lambda b: b.update({"x": b.x}),
    "update_": lambda b: b.update_({"x": b.x}),
    "copy_": lambda b: b.copy_(b),
    "zero_": lambda b: b.zero_(),
    "fill_": lambda b: b.fill_("x", 0.0),
    "+=": lambda b: b.__iadd__(1),
    "-=": lambda b: b.__isub__(b),
    "*=": lambda b: b.__imul__(2),
    "add_": lambda b: b.add_(1),
    "mul_": lambda b: b.mul_(2),
    "abs_": lambda b: b.abs_(),
    "clamp_": lambda b: b.clamp_(0, 1),
    "del": lambda b: b.__delattr__("x"),
    "del item": lambda b: b.__delitem__("x"),
    "del_": lambda b: b.del_("x"),
    "pop": lambda b: b.pop("x"),
    "clear": lambda b: b.clear(),
    "batch size": lambda b: setattr(b, "batch_size", []),
    "names": lambda b: setattr(b, "names", ["time"]),
    "apply_": lambda b: b.apply_(lambda t: t),
    "rename": lambda b: b.rename_key_("x", "y"),
    "masked_fill_": lambda b: b.masked_fill_(torch.ones(3) > 0, 0),
    "popitem": lambda b: b.popitem(),
}


@pytest.mark.parametrize("name", FROZEN_WRITES)
def test_frozen_refuses_every_write(ns: SimpleNamespace, name: str) -> None:
    """A frozen instance has no way in, structural or in place; the message names the class and the way out."""
    batch = still(ns, 3)
    values = {key: leaf.clone() for key, leaf in batch.items(True, True) if isinstance(leaf, Tensor)}
    with pytest.raises(FrozenError, match=r"Still is frozen|Still.*frozen") as caught:
        FROZEN_WRITES[name](batch)
    assert isinstance(caught.value, AttributeError)
    assert "replace" in str(caught.value)
    assert batch.batch_size == torch.Size([3])
    assert all(torch.equal(batch.get(key), value) for key, value in values.items())


@pytest.mark.parametrize("wrap", [dict, lambda values: TensorDict(values, batch_size=[3])])
def test_an_update_around_a_frozen_instance_writes_nothing(ns: SimpleNamespace, wrap: Any) -> None:
    """A nested mapping of values for it is refused before anything of the container around it is written."""
    holder = TensorDict({"a": torch.zeros(3), "d": {"still": still(ns, 3)}}, batch_size=[3])
    with pytest.raises(FrozenError, match="Still is frozen"):
        holder.update({"a": torch.ones(3), "d": wrap({"still": wrap({"pose": wrap({"angle": torch.ones(3)})})})})
    assert not holder["a"].any()
    holder.update({"d": {"still": still(ns, 3)["x"]}}, is_leaf=lambda kind: not issubclass(kind, dict))
    assert isinstance(holder["d", "still"], Tensor)  # the entry is the container's own


def test_frozen_is_otherwise_a_full_batch(ns: SimpleNamespace) -> None:
    """Everything that makes a new batch works, and gives a frozen one."""
    batch = still(ns, 4)
    results = [
        batch[0],
        batch[:2],
        batch.clone(),
        batch.to("cpu"),
        batch.reshape(2, 2),
        torch.stack([batch, batch]),
        batch + 1,
        copy.copy(batch),
        copy.deepcopy(batch),
        pickle.loads(pickle.dumps(batch)),
        batch.replace(source="new"),
        dataclasses.replace(batch, source="new"),
        batch.apply(lambda t: t * 2),
        batch.contiguous(),
    ]
    for result in results:
        assert type(result) is ns.Still
        with pytest.raises(FrozenError):
            result.x = result.x
    assert results[-3].source == "new"
    assert ns.Still.__dataclass_params__.frozen
    assert batch.to_tensordict().zero_()["x"].sum() == 0


def test_a_frozen_post_init_reads(form: Form) -> None:
    """A frozen class may check itself in `__post_init__`."""

    @form(frozen=True)
    class Checked(form.base, **form.words(frozen=True)):
        x: Float32[Tensor, ""]

        def __post_init__(self) -> None:
            if (self.x < 0).any():
                raise ValueError("x is negative")

    assert Checked(torch.ones(3)).batch_size == torch.Size([3])
    with pytest.raises(ValueError, match="negative"):
        Checked(-torch.ones(3))


def test_the_frozen_base_class() -> None:
    """`FrozenTensorClass` is frozen by inheritance."""

    class Still(FrozenTensorClass):
        x: Float32[Tensor, ""]

    class Child(Still):
        y: Float32[Tensor, ""]

    for batch in (Still(torch.zeros(3)), Child(torch.zeros(3), torch.zeros(3))):
        with pytest.raises(FrozenError):
            batch.x = torch.ones(3)
        with pytest.raises(FrozenError):
            batch[0] = batch[1]
    assert isinstance(Still(torch.zeros(3)), TensorClass)


def declare_shadow(form: Form) -> Any:
    """A class whose fields hide many operations."""
    body = {"__annotations__": dict.fromkeys(SHADOWED, Float32[Tensor, "2"]), "__module__": __name__}
    words = {} if form.base is object else {"shadow": True}  # a decorator comes too late for a base class
    return form(shadow=True)(type(form.base)("Shadow", (form.base,), body, **words))


def test_shadowing_fields_never_break_an_operation(form: Form) -> None:
    """Fields called like methods are fields; the operations stay reachable as functions and work inside."""
    made = declare_shadow(form)
    batch = made(**{name: torch.full((4, 2), float(i)) for i, name in enumerate(SHADOWED)})
    assert [getattr(batch, name)[0, 0].item() for name in SHADOWED] == list(range(len(SHADOWED)))
    assert list(TensorDict.keys(batch)) == SHADOWED
    results = [
        TensorDict.reshape(batch, 2, 2),
        TensorDict.clone(batch),
        TensorDict.to(batch, "cpu"),
        TensorDict.unsqueeze(batch, 0),
        TensorDict.apply(batch, lambda t: t + 1),
        TensorDict.copy(batch),
        torch.stack([batch, batch]),
        torch.cat([batch, batch]),
        torch.clone(batch),
        torch.unbind(batch)[0],
        torch.reshape(batch, (2, 2)),
        batch[0],
        batch[:2],
        batch + 1,
        -batch,
        copy.deepcopy(batch),
        pickle_twin(batch),
        TensorDict.expand(batch, 2, 4),
        torch.flip(batch, [0]),
        abs(batch),
        batch[torch.tensor([0, 1])],
        batch[torch.ones(4) > 0],
        torch.zeros_like(batch),
        dataclasses.replace(batch),
    ]
    for result in results:
        assert type(result) is made
        assert result.clone.shape[-1] == 2
    assert (batch == batch).keys.all()
    assert repr(batch).startswith("Shadow(")
    batch[0] = batch[1]
    batch += 1
    assert batch.get[0, 0] == SHADOWED.index("get") + 1
    TensorDict.set(batch, "get", torch.zeros(4, 2))
    assert batch.get.sum() == 0
    TensorDict.update(batch, {"get": torch.ones(4, 2)})
    assert batch["get"].sum() == 8
    TensorDict.zero_(batch)
    assert batch.stack.sum() == 0
    TensorDict.lock_(batch)
    with pytest.raises(RuntimeError, match="lock"):
        batch.get = torch.zeros(4, 2)
    TensorDict.unlock_(batch)
    assert len(batch) == 4
    assert len(list(batch)) == 4


def pickle_twin(batch: Any) -> Any:
    """What a batch's own reduction restores; local classes have no global name to pickle by."""
    restore, arguments = batch.__reduce__()
    return restore(*arguments)


def test_the_old_spelling_of_options() -> None:
    """`TensorClass["shadow"]` is a base with options; unknown ones are refused."""

    class Shadow(TensorClass["shadow"]):  # type: ignore[misc, name-defined]  # the anchor's spelling, dynamic
        keys: Float32[Tensor, ""]

    class Both(TensorClass["shadow", "frozen"]):  # type: ignore[misc, name-defined]  # the anchor's spelling, dynamic
        keys: Float32[Tensor, ""]

    assert Shadow(torch.ones(3)).keys.sum() == 3
    assert isinstance(Shadow(torch.ones(3)), TensorClass)
    with pytest.raises(FrozenError):
        Both(torch.ones(3)).keys = torch.zeros(3)
    with pytest.raises(TypeError, match="shadw"):
        TensorClass["shadw"]


def test_autocast_converts_before_validation(form: Form) -> None:
    """Tensors, lists and numbers become the declared dtype, in the constructor and in setters."""

    @form(autocast=True)
    class Cast(form.base, **form.words(autocast=True)):
        x: Float32[Tensor, "2"]
        n: Int64[Tensor, ""]
        note: int = 1

    batch = Cast([[1, 2], [3, 4]], torch.tensor([1.0, 2.0]), "7")
    assert (batch.x.dtype, batch.n.dtype, batch.note) == (torch.float32, torch.int64, 7)
    batch.x = torch.ones(2, 2, dtype=torch.float64)
    batch.n = [5, 6]
    batch.note = "8"
    assert (batch.x.dtype, batch.n.tolist(), batch.note) == (torch.float32, [5, 6], 8)
    with pytest.raises(SchemaError, match="x"):
        batch.x = torch.ones(2, 3)
    with pytest.raises(SchemaError, match="note"):
        batch.note = "seven"


def test_nocast_refuses_numbers_and_arrays(form: Form) -> None:
    """With `nocast=True` a tensor is a tensor."""

    @form(nocast=True)
    class Strict(form.base, **form.words(nocast=True)):
        x: Float32[Tensor, ""]

    batch = Strict(torch.zeros(()))
    for wrong in (1.0, torch.zeros(()).numpy(), 1):
        with pytest.raises(SchemaError, match="x"):
            Strict(wrong)
        with pytest.raises(SchemaError, match="x"):
            batch.x = wrong


def test_tensor_only_refuses_other_fields_at_definition(form: Form) -> None:
    """The class statement names every field that holds no tensors."""

    @form(tensor_only=True)
    class Fine(form.base, **form.words(tensor_only=True)):
        x: Float32[Tensor, ""]
        corner: TensorDict | None = None

    assert Fine(torch.zeros(2)).batch_size == torch.Size([2])
    with pytest.raises(SchemaError, match=r"note[\s\S]*who[\s\S]*tensor_only"):

        @form(tensor_only=True)
        class Wrong(form.base, **form.words(tensor_only=True)):
            x: Float32[Tensor, ""]
            note: str
            who: PerElement[str]


def test_validate_off_checks_what_the_container_needs(form: Form) -> None:
    """Without validation dtypes and event shapes are free; the batch dims and the class are still held."""

    @form(validate="off")
    class Free(form.base, **form.words(validate="off")):
        x: Float32[Tensor, "2"]
        note: str = ""

    batch = Free(torch.zeros(3, 5, dtype=torch.int64), 7, batch_size=[3])
    assert batch[0].x.shape == (5,)
    assert batch.note == 7
    batch.x = torch.zeros(3, 1)
    with pytest.raises((SchemaError, RuntimeError), match="x"):
        batch.x = torch.zeros(4, 2)
    with pytest.raises(SchemaError, match="x"):
        Free("text", batch_size=[3])


def test_validate_values_checks_elements(form: Form) -> None:
    """Constraints of annotated-types hold for every element, in the constructor, setters and `replace`."""

    @form(validate="values")
    class Checked(form.base, **form.words(validate="values")):
        x: Annotated[Float32[Tensor, ""], annotated_types.Ge(0), annotated_types.Lt(10)]

    batch = Checked(torch.tensor([0.0, 9.0]))
    for wrong in (torch.tensor([0.0, -1.0]), torch.tensor([0.0, 10.0]), torch.tensor([0.0, torch.nan])):
        for write in (
            lambda w=wrong: Checked(w),
            lambda w=wrong: Checked(w, names=[None]),
            lambda w=wrong: setattr(batch, "x", w),
            lambda w=wrong: batch.replace(x=w),
            lambda w=wrong: batch.update({"x": w}),
        ):
            with pytest.raises(SchemaError, match="x"):
                write()
    assert batch.x.tolist() == [0, 9]


def test_constraints_are_not_checked_by_default(form: Form) -> None:
    """The default checks type, dtype and shape only."""

    @form()
    class Plain(form.base):
        x: Annotated[Float32[Tensor, ""], annotated_types.Ge(0)]

    assert Plain(-torch.ones(2)).x.sum() == -2


def test_unknown_values_of_options() -> None:
    """A misspelt validation level is refused at class definition."""
    with pytest.raises((TypeError, ValueError), match="validate"):

        class Wrong(TensorClass, validate="valuse"):
            x: Float32[Tensor, ""]
