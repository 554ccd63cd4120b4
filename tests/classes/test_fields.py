"""Reading, writing and deleting fields of every kind; a write that fails changes nothing."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import annotated_types
import pytest
import torch
from torch import Tensor

from tensorclass import NonTensorStack, PerElement, Shared, TensorClass, TensorDict, produced
from tensorclass.errors import FieldNotProducedError, LockedError, MissingKeyError, SchemaError, StructureError
from tensorclass.typing import Float32, Int64
from tests.classes._samples import Form, digits, everything, pose


def state_of(batch: Any) -> dict[str, Any]:
    """What a store holds, by identity, and its facts."""
    return {**batch._store._entries(), "#": (batch.batch_size, batch.device, tuple(batch.names))}


def unchanged(batch: Any, before: dict[str, Any]) -> bool:
    """Whether a batch holds the very same objects as before."""
    after = state_of(batch)
    return list(after) == list(before) and all(
        after[k] is before[k] or (k == "#" and after[k] == before[k]) for k in after
    )


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("value", [torch.ones(2, dtype=torch.int64), torch.ones(3), "seven", None])
def test_a_key_is_written_as_the_attribute(ns: SimpleNamespace, value: Any, locked: bool) -> None:
    """A write under a key stores what a write to the attribute stores, and is refused with the same words."""
    done = []
    for write in (setattr, lambda batch, name, new: batch.__setitem__(name, new)):
        batch = digits(ns.Digits, 2).lock_() if locked else digits(ns.Digits, 2)
        try:
            write(batch, "label", value)
            done.append(str(batch.label))
        except (SchemaError, LockedError) as error:
            done.append(str(error))
    assert done[0] == done[1]


def test_reads_give_what_was_declared(ns: SimpleNamespace) -> None:
    """Each kind of field reads as its annotation says."""
    batch = everything(ns, 2, 3)
    assert type(batch.image) is Tensor
    assert type(batch.pose) is ns.Pose
    assert type(batch.who) is NonTensorStack
    assert type(batch.table) is Tensor
    assert type(batch.source) is str
    assert type(batch.extra) is TensorDict
    assert batch.anything is None
    assert batch.tags == {}
    assert batch[0, 1].who.item() == "b"
    assert batch[0].who.tolist() == ["a", "b", "c"]
    assert (batch["pose"], batch["table"], batch["who"]) == (batch.pose, batch.table, batch.who)


def test_every_valid_write_is_read_back(ns: SimpleNamespace) -> None:
    """By attribute, by key, by `set`, by `update`."""
    batch = everything(ns, 2)
    new = pose(ns.Pose, 2)
    batch.pose = new
    assert batch.pose is new
    batch["label"] = torch.tensor([7, 8])
    assert batch.label.tolist() == [7, 8]
    assert batch.set("source", "mail") is batch
    assert batch.source == "mail"
    batch.update({"who": ["x", "y"], "mask": None, "table": torch.zeros(9)})
    assert batch.who.tolist() == ["x", "y"]
    assert batch.mask is None
    assert batch.table.shape == (9,)
    batch.who = "z"
    assert batch.who.tolist() == ["z", "z"]
    batch.anything = {"free": 1}
    assert batch.anything == {"free": 1}
    batch.tags["n"] = 1
    assert batch.tags == {"n": 1}
    batch.pose.angle = torch.ones(2)
    assert batch.get(("pose", "angle")).tolist() == [1, 1]
    batch["pose", "angle"] = torch.zeros(2)
    assert new.angle.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("image", torch.zeros(2, 2, 3, dtype=torch.float64)),
        ("image", torch.zeros(2, 2)),
        ("image", torch.zeros(3, 2, 3)),
        ("image", torch.zeros(2, 9, 3)),
        ("image", None),
        ("image", "text"),
        ("label", 1.5),
        ("pose", torch.zeros(2)),
        ("pose", None),
        ("who", ["a"]),
        ("who", ["a", 3]),
        ("who", None),
        ("table", torch.zeros(2, dtype=torch.int64)),
        ("table", torch.zeros(2, 2)),
        ("source", 3),
        ("source", None),
        ("source", torch.zeros(2)),
        ("tags", {"a": "b"}),
        ("mask", torch.zeros(2, 2, 3)),
        ("mask", torch.zeros(2, 3, 2) > 0),
        ("extra", torch.zeros(2)),
        ("hidden", torch.zeros(2, 5)),
    ],
)
def test_a_wrong_write_names_the_field_and_changes_nothing(ns: SimpleNamespace, name: str, value: Any) -> None:
    """Attribute, key, `set` and `update` refuse alike and leave the batch as it was."""
    batch = everything(ns, 2)
    before = state_of(batch)
    writes = [
        lambda: setattr(batch, name, value),
        lambda: batch.__setitem__(name, value),
        lambda: batch.set(name, value),
        lambda: batch.update({"label": torch.ones(2, dtype=torch.int64), "source": "other", name: value}),
        lambda: batch.replace(**{name: value}),
    ]
    for write in writes:
        with pytest.raises(SchemaError, match=name) as caught:
            write()
        problems = getattr(caught.value, "problems", ())
        assert not problems or any(problem.path.startswith(name) or f"`{name}`" in problem.hint for problem in problems)
        assert unchanged(batch, before)


def test_unknown_names_are_refused_everywhere(ns: SimpleNamespace) -> None:
    """No operation adds a field that the class does not declare."""
    batch = digits(ns.Digits, 2)
    before = state_of(batch)
    with pytest.raises(AttributeError, match="colour"):
        batch.colour = torch.zeros(2)
    for write in (
        lambda: batch.__setitem__("colour", torch.zeros(2)),
        lambda: batch.set("colour", torch.zeros(2)),
        lambda: batch.update({"label": batch.label, "colour": torch.zeros(2)}),
        lambda: batch.setdefault("colour", 1),
        lambda: batch.rename_key_("image", "colour"),
        lambda: batch.replace(colour=1),
        lambda: batch.pop("colour"),
        lambda: batch.del_("colour"),
    ):
        with pytest.raises((KeyError, SchemaError, TypeError, RuntimeError), match="colour"):
            write()
        assert unchanged(batch, before)


def test_optional_fields_come_and_go(ns: SimpleNamespace) -> None:
    """None and absence are one; keys list what is there."""
    batch = digits(ns.Digits, 2)
    assert "mask" not in batch
    assert batch.get("mask", 3) in (None, 3)
    batch.mask = torch.ones(2, 2, 3) > 0
    assert "mask" in batch
    assert batch[0].mask.shape == (2, 3)
    del batch.mask
    assert batch.mask is None
    batch.mask = torch.ones(2, 2, 3) > 0
    del batch["mask"]
    assert batch.mask is None
    batch.mask = None
    assert batch.mask is None
    assert batch[0].mask is None


def test_required_fields_stay(ns: SimpleNamespace) -> None:
    """A required field can't be deleted, popped, renamed or emptied."""
    batch = digits(ns.Digits, 2)
    before = state_of(batch)
    for drop in (
        lambda: batch.del_("label"),
        lambda: batch.__delitem__("label"),
        lambda: batch.__delattr__("label"),
        lambda: batch.pop("label"),
        lambda: batch.rename_key_("label", "image"),
        batch.clear,
        batch.popitem,
    ):
        with pytest.raises((StructureError, KeyError, RuntimeError, TypeError)) as caught:
            drop()
        assert "label" in str(caught.value) or "Digits" in str(caught.value)
        assert unchanged(batch, before)


def test_produced_fields(ns: SimpleNamespace) -> None:
    """Reading one too early says so; written, it is a field as any other."""
    batch = everything(ns, 2)
    with pytest.raises(FieldNotProducedError, match=r"Everything\.hidden"):
        batch.hidden
    assert not hasattr(batch, "hidden")
    assert "hidden" not in batch
    with pytest.raises((FieldNotProducedError, MissingKeyError), match="hidden"):
        batch["hidden"]
    batch.hidden = torch.zeros(2, 4)
    assert batch[0].hidden.shape == (4,)
    assert "hidden" in batch
    assert torch.stack([batch, batch]).hidden.shape == (2, 2, 4)
    del batch.hidden
    assert not hasattr(batch, "hidden")


@pytest.mark.parametrize("kind", ["nested", "shared", "per_element", "value"])
def test_produced_fields_of_other_kinds(ns: SimpleNamespace, form: Form, kind: str) -> None:
    """Any kind of field may be produced."""
    annotation, value = {
        "nested": (ns.Pose, pose(ns.Pose, 2)),
        "shared": (Shared[Float32[Tensor, "2"]], torch.zeros(2)),
        "per_element": (PerElement[str], ["a", "b"]),
        "value": (str, "text"),
    }[kind]

    @form()
    class State(form.base):
        x: Float32[Tensor, ""]
        late: annotation = produced()

    batch = State(torch.zeros(2))
    with pytest.raises(FieldNotProducedError, match="late"):
        batch.late
    batch.late = value
    assert batch.late is not None
    assert torch.stack([batch, batch])[0].late is not None


def test_an_instance_updates_another(ns: SimpleNamespace) -> None:
    """`update` takes a whole instance, shared tensors and per-element values included."""
    batch, other = everything(ns, 2), everything(ns, 2, who=["x", "y"], table=torch.zeros(9))
    batch.update(other)
    assert batch.who.tolist() == ["x", "y"]
    assert batch.table.shape == (9,)
    assert batch.image is other.image


def test_locked_instances_refuse_structural_writes(ns: SimpleNamespace) -> None:
    """A lock holds for fields and nested fields, and is lifted again."""
    batch = everything(ns, 2).lock_()
    before = state_of(batch)
    for write in (
        lambda: setattr(batch, "label", torch.zeros(2, dtype=torch.int64)),
        lambda: setattr(batch, "source", "x"),
        lambda: batch.set("label", batch.label + 1),
        lambda: batch.pose.set("angle", torch.zeros(2)),
        lambda: setattr(batch.pose, "angle", torch.ones(2)),
        lambda: batch.__delattr__("mask"),
    ):
        with pytest.raises(LockedError, match="lock"):
            write()
        assert unchanged(batch, before)
    batch.unlock_()
    batch.label = torch.zeros(2, dtype=torch.int64)
    assert batch.label.sum() == 0


def test_python_values_are_validated_on_every_write(form: Form) -> None:
    """Constructor and setter hold a value to its annotation; nothing is cast."""

    @form()
    class Config(form.base):
        mode: Literal["train", "test"] = "train"
        rate: Annotated[float, annotated_types.Gt(0)] = 0.1
        sizes: tuple[int, ...] = (1, 2)

    batch = Config(batch_size=[3])
    for name, wrong in {"mode": "walk", "rate": -1.0, "sizes": (1, "2")}.items():
        with pytest.raises(SchemaError, match=name):
            Config(**{name: wrong})
        with pytest.raises(SchemaError, match=name):
            setattr(batch, name, wrong)
    batch.mode, batch.rate = "test", 0.5
    assert (batch.mode, batch.rate, batch.sizes) == ("test", 0.5, (1, 2))
    assert batch[0].mode == "test"


def test_numbers_stay_numbers_at_every_batch_shape(form: Form) -> None:
    """An int, float, bool, list or dict reads as itself, whatever the batch size, after every operation."""

    @form()
    class Plain(form.base):
        x: Float32[Tensor, ""]
        i: int = 3
        f: float = 0.5
        b: bool = True
        many: list[int] = None  # type: ignore[assignment]  # given below
        table: dict[str, Any] = None  # type: ignore[assignment]  # given below

    for size in ((), (3,), (2, 3)):
        batch = Plain(torch.zeros(size), many=[1, 2], table={"a": 1})
        results = [
            batch,
            batch.clone(),
            batch.unsqueeze(0),
            torch.stack([batch, batch]),
            batch.reshape(-1),
            batch.to("cpu"),
        ]
        for result in results:
            assert (result.i, result.f, result.b, result.many, result.table) == (3, 0.5, True, [1, 2], {"a": 1})
            assert type(result.i) is int
            assert type(result.b) is bool


def test_any_fields_hold_anything(form: Form) -> None:
    """A number, text, list, tensor or container in an `Any` field reads as it was given."""

    @form()
    class Open(form.base):
        x: Float32[Tensor, ""]
        it: Any = None

    for value in (
        3,
        2.5,
        "text",
        [1, 2],
        {"a": 1},
        object(),
        torch.arange(3),
        TensorDict(a=torch.zeros(3), batch_size=[3]),
    ):
        batch = Open(torch.zeros(3), value)
        assert batch.it is value
        assert batch[1:].batch_size == torch.Size([2])
        assert torch.stack([batch, batch]).batch_size == torch.Size([2, 3])
    assert Open(torch.zeros(3), torch.arange(3))[1].it == 1


def test_shared_tensors_have_no_batch_dims(ns: SimpleNamespace) -> None:
    """Index and shape operations leave them alone; moves and casts take them along."""
    batch = everything(ns, 4)
    for result in (batch[0], batch[:2], batch.reshape(2, 2), batch.flip(0), batch.expand(2, 4), batch.unsqueeze(0)):
        assert result.table is batch.table
    assert batch.clone().table is not batch.table
    assert batch.to("meta").table.device.type == "meta"
    batch.table.add_(1)
    assert batch[0].table.tolist() == [1, 2, 3, 4]


def test_nested_fields_keep_their_class(ns: SimpleNamespace) -> None:
    """A nested instance comes back as its class, with its methods; other classes and dicts are refused."""
    batch = everything(ns, 3)
    assert batch[1].pose.doubled() == 2
    assert type(batch.clone().pose) is ns.Pose
    assert type(torch.cat([batch, batch]).pose) is ns.Pose
    for wrong in (
        {"angle": torch.zeros(3), "axis": torch.zeros(3, 3)},
        batch.pose.to_tensordict(),
        digits(ns.Digits, 3),
    ):
        with pytest.raises(SchemaError, match=r"pose[\s\S]*Pose"):
            batch.pose = wrong


def test_a_nested_child_of_the_declared_class(ns: SimpleNamespace, form: Form) -> None:
    """A child class stands where its parent is declared, and stays what it is."""

    class Wide(ns.Pose):
        extra: Int64[Tensor, ""]

    @form()
    class Holder(form.base):
        pose: ns.Pose

    batch = Holder(Wide(torch.zeros(3), torch.zeros(3, 3), torch.arange(3)))
    assert type(batch.pose) is Wide
    assert type(batch[1:].pose) is Wide
    assert batch[1:].pose.extra.tolist() == [1, 2]


def test_an_untyped_corner_is_free_inside(ns: SimpleNamespace) -> None:
    """A `TensorDict` field takes new entries of its batch size, and follows every operation."""
    batch = everything(ns, 3)
    batch.extra["new"] = torch.ones(3, 5)
    assert batch[0].extra["new"].shape == (5,)
    assert type(batch.flip(0).extra) is TensorDict
    with pytest.raises(RuntimeError, match="bad"):
        batch.extra["bad"] = torch.ones(4)


class Maybe(TensorClass):
    name: PerElement[str | None]
    x: Float32[Tensor, ""]


class Anything(TensorClass):
    name: PerElement[Any]
    x: Float32[Tensor, ""]


@pytest.mark.parametrize("cls", [Maybe, Anything])
def test_none_as_an_element(cls: Any) -> None:
    """If the element type admits None, None is a value of a single element too, and no door loses it."""
    batch = cls(name=["a", None], x=torch.zeros(2))
    last = batch[1]
    ways = [
        cls(name=None, x=torch.zeros(())), last.replace(name=None), batch[0].replace(name=None),
        cls.from_dict(last.to_dict()), cls.from_json(last.to_json()), cls(**last.model_dump()),
        cls.from_tensordict(last.to_tensordict()), pickle.loads(pickle.dumps(last)),
    ]  # fmt: skip
    written = batch[0].clone()
    written.name = None
    for one in (*ways, written, batch[0].clone().set("name", None), batch[0].clone().update({"name": None})):
        assert one.name is None
        assert one.to_dict()["name"] is None
    assert cls.from_list(batch.tolist()).name.tolist() == ["a", None]
    assert batch.replace(name=None).name.tolist() == [None, None]  # one value for all elements, like any other
    batch[0] = cls(name=None, x=torch.ones(()))
    assert batch.name.tolist() == [None, None]


def test_none_is_refused_if_elements_are_never_none() -> None:
    """The message says how to declare it."""

    class Named(TensorClass):
        name: PerElement[str]
        x: Float32[Tensor, ""]

    for size in ((), (2,)):
        with pytest.raises(SchemaError, match=r"pass a value, or declare `PerElement\[str\] \| None`"):
            Named(name=None, x=torch.zeros(size))
