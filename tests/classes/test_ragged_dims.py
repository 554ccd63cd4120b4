"""Dims of one name agree in every element, where one of them is the length of a ragged field; at every door."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from pydantic import BaseModel
from torch import Tensor, nn

from tensorclass import (
    RaggedTensor,
    Shared,
    TensorClass,
    TensorDict,
    TypedTensorDict,
    collate,
    field,
    lazy_stack,
    merge,
    produced,
)
from tensorclass.errors import SchemaError, StructureError
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.testing import batches
from tensorclass.typing import Float32, Int64


class Boxes(TensorClass):
    boxes: Float32[RaggedTensor, "n 4"]
    labels: Int64[RaggedTensor, "n"]


class Alone(TensorClass):
    boxes: Float32[RaggedTensor, "n 4"]


class Labels(TensorClass):
    labels: Int64[RaggedTensor, "n"]


class Apart(TensorClass):
    boxes: Float32[RaggedTensor, "n 4"]
    labels: Int64[RaggedTensor, "m"]


class Scene(TensorClass):
    found: Boxes
    n: Float32[Tensor, "n"]  # a scope of its own: not the `n` of `found`


class Declared(TypedTensorDict):
    boxes: Float32[RaggedTensor, "n 4"]
    labels: Int64[RaggedTensor, "n"]


class Model(BaseModel):
    batch: Boxes


def boxes(*lengths: Any) -> RaggedTensor:
    """Elements of these lengths; nested lists for several batch dims."""
    return RaggedTensor(_made(list(lengths), lambda n: torch.zeros(n, 4)))


def labels(*lengths: Any) -> RaggedTensor:
    """As `boxes`."""
    return RaggedTensor(_made(list(lengths), lambda n: torch.zeros(n, dtype=torch.int64)))


def _made(lengths: Any, make: Callable[[int], Tensor]) -> Any:
    return [_made(part, make) for part in lengths] if isinstance(lengths, list) else make(lengths)


def good() -> Boxes:
    """Two elements, of lengths 2 and 1."""
    return Boxes(boxes(2, 1), labels(2, 1))


WRONG = {"boxes": boxes(2, 1), "labels": labels(1, 5)}
JSON = '{"boxes": [[[1,2,3,4],[1,2,3,4]],[[1,2,3,4]]], "labels": [[1],[1,2,3,4,5]]}'
ROWS = '[{"boxes": [[1,2,3,4],[1,2,3,4]], "labels": [1]}, {"boxes": [[1,2,3,4]], "labels": [1,2,3,4,5]}]'
DOORS: dict[str, Callable[[], Any]] = {
    "constructor": lambda: Boxes(**WRONG),
    "lists": lambda: Boxes(WRONG["boxes"].tolist(), WRONG["labels"].tolist()),
    "nested tensor": lambda: Boxes(WRONG["boxes"].to_nested(), WRONG["labels"].to_nested()),
    "from_dict": lambda: Boxes.from_dict(WRONG),
    "from_tensordict": lambda: Boxes.from_tensordict(TensorDict(WRONG, batch_size=[2])),
    "lazy store": lambda: Boxes.from_tensordict(lazy_stack([TensorDict(WRONG, batch_size=[2])] * 2)),
    "json": lambda: Boxes.from_json(JSON),
    "records": lambda: Boxes.from_json(ROWS),
    "pydantic": lambda: Model(batch=WRONG),  # type: ignore[arg-type]  # a mapping is taken
    "merged class": lambda: merge(Alone, Labels)(**WRONG),
    "batch.merge": lambda: Alone(WRONG["boxes"]).merge(Labels(WRONG["labels"])),
    "batch.extend": lambda: Alone(WRONG["boxes"]).extend(Boxes, labels=WRONG["labels"]),
    "replace": lambda: good().replace(labels=WRONG["labels"]),
    "declared keys": lambda: Declared(**WRONG),
    "nested dict": lambda: Scene.from_dict({"found": WRONG, "n": torch.zeros(2, 3)}),
    "module": lambda: TensorClassModule(_one_each, Boxes.boxes, Boxes.labels, update=True)(good()),
    "sequence": lambda: TensorClassSequential(
        TensorClassModule(_one_each, Alone.boxes, Boxes.labels), input=Alone, output=Boxes
    )(Alone(boxes(2, 1))),
    "state": lambda: TensorClassSequential(
        TensorClassModule(_one_each, State.boxes, State.labels), input=State, output=State
    )(State(boxes(2, 1))),
}


class State(TensorClass):
    boxes: Float32[RaggedTensor, "n 4"]
    labels: Int64[RaggedTensor, "n"] = produced()


def _one_each(found: Any) -> RaggedTensor:
    return RaggedTensor([torch.zeros(5, dtype=torch.int64) for _ in range(len(found))])


@pytest.mark.parametrize(
    "door", [pytest.param(door, marks=[pytest.mark.slow] * (door == "nested tensor")) for door in DOORS]
)
def test_lengths_agree_wherever_values_come_in(door: str) -> None:
    """The error names the element, both fields and both lengths."""
    with pytest.raises(
        (SchemaError, ValueError), match=r"`n` is [12] in element \[[01]\] \(bound by `boxes`\), here [15]"
    ):
        DOORS[door]()


WRITES: dict[str, Callable[[Any], Any]] = {
    "setter": lambda b: setattr(b, "labels", labels(1, 5)),
    "set": lambda b: b.set("labels", labels(1, 5)),
    "item": lambda b: b.__setitem__("labels", labels(1, 5)),
    "update": lambda b: b.update({"labels": labels(1, 5)}),
    "update both": lambda b: b.update({"boxes": boxes(1, 4), "labels": labels(1, 5)}),
    "set_": lambda b: b.set_("labels", labels(1, 5)),
    "update_": lambda b: b.update_({"labels": labels(1, 5)}),
    "copy_": lambda b: b.copy_(TensorDict(WRONG, batch_size=[2])),
    "set_at_": lambda b: b.set_at_("labels", labels(5)[0], 1),
    "update_at_": lambda b: b.update_at_({"labels": labels(5)[0]}, 1),
    "copy_at_": lambda b: b.copy_at_(TensorDict(boxes=boxes(3)[0], labels=labels(5)[0]), 1),
    "index": lambda b: b.__setitem__(1, {"boxes": boxes(3)[0], "labels": labels(5)[0]}),
    "mask": lambda b: b.__setitem__(torch.tensor([False, True]), {"boxes": boxes(3), "labels": labels(5)}),
    "state": lambda b: b.load_state_dict(Apart(**WRONG).state_dict()),
    "assigned state": lambda b: b.load_state_dict(Apart(**WRONG).state_dict(), assign=True),
}  # fmt: skip


def lengths(batch: Any) -> list[Any]:
    """The lengths of both fields."""
    return [batch.get(key).lengths.tolist() for key in ("boxes", "labels")]


HOLDERS: dict[str, Callable[[Boxes], tuple[Any, Any]]] = {
    "declared keys": lambda batch: ((state := Declared(boxes=batch.boxes, labels=batch.labels)), state),
    "a view": lambda batch: (batch[:], batch),
    "alone": lambda batch: (batch, batch),
    "over a TensorDict": lambda batch: (Boxes.from_tensordict(store := batch.to_tensordict()), store),
    "nested": lambda batch: ((scene := Scene(batch, torch.zeros(2, 3))).found, scene.found),
    "in a TensorDict": lambda batch: ((store := TensorDict(found=batch, batch_size=[2])).get("found"), store["found"]),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("write", WRITES)
def test_writes_keep_lengths_in_agreement(write: str, holder: str) -> None:
    """A write that would not is refused, and nothing is written."""
    target, seen = HOLDERS[holder](good())
    with pytest.raises(SchemaError, match=r"`n` is \d in element \[[01]\] \(bound by `boxes`\), here 5|, here 1"):
        WRITES[write](target)
    assert lengths(seen) == [[2, 1], [2, 1]]


def test_declared_keys_are_held_to_it_too() -> None:
    """A `TypedTensorDict`, by key and by attribute; several keys in one call are seen together."""
    state = Declared(boxes=boxes(2, 1), labels=labels(2, 1))
    state.update({"boxes": boxes(4, 4), "labels": labels(4, 4)})
    state.update({"boxes": boxes(2, 1), "labels": labels(2, 1)})
    for write in (lambda: state.set("labels", labels(1, 5)), lambda: state.update({"labels": labels(1, 5)})):
        with pytest.raises(SchemaError, match="in element"):
            write()
    assert lengths(state) == [[2, 1], [2, 1]]


STACKED: dict[str, Callable[[], Any]] = {
    "typed members": lambda: lazy_stack([good(), good()]),
    "untyped members": lambda: Boxes.from_tensordict(lazy_stack([good().to_tensordict(), good().to_tensordict()])),
}
STACKED_WRITES: dict[str, Callable[[Any], Any]] = {
    "setter": lambda b: setattr(b, "labels", labels([2, 1], [2, 5])),
    "int": lambda b: b.__setitem__(1, {"boxes": boxes(2, 1), "labels": labels(2, 5)}),
    "pair": lambda b: b.__setitem__((1, 1), {"boxes": boxes(2)[0], "labels": labels(5)[0]}),
    "slice": lambda b: b.__setitem__((slice(None), 1), _untyped([2, 2], [2, 5])),
    "mask": lambda b: b.__setitem__(torch.tensor([False, True]), _untyped([[2, 1]], [[2, 5]])),
    "copy_": lambda b: b.copy_(_untyped([[2, 1], [2, 1]], [[2, 1], [2, 5]])),
    "set_at_": lambda b: b.set_at_("labels", labels(5)[0], (1, 1)),
    "member": lambda b: b.unbind(0)[1].set_at_("labels", labels(5)[0], 1),
}


def _untyped(one: list[Any], other: list[Any]) -> TensorDict:
    found, marks = boxes(*one), labels(*other)
    return TensorDict(boxes=found, labels=marks, batch_size=found.shape)


@pytest.mark.parametrize("kind", STACKED)
@pytest.mark.parametrize("write", STACKED_WRITES)
def test_writes_to_lazy_stacks(write: str, kind: str) -> None:
    """The members are looked at before one of them is written."""
    batch = STACKED[kind]()
    with pytest.raises(SchemaError, match=r"in element \[1\] .*here 5"):
        STACKED_WRITES[write](batch)
    assert [lengths(member) for member in batch.unbind(0)] == [[[2, 1], [2, 1]]] * 2


@pytest.mark.parametrize("make", [good, *STACKED.values()])
def test_writes_of_agreeing_lengths(make: Callable[[], Any]) -> None:
    """Both fields in one write, at an index and whole."""
    batch = make()
    one = Boxes(boxes(7), labels(7))
    batch[..., :1] = one if batch.ndim == 1 else torch.stack([one, one])
    assert {n for part in (batch.unbind(0) if batch.ndim > 1 else [batch]) for n in part.labels.lengths.tolist()} == {
        7,
        1,
    }
    if batch.ndim == 1:
        batch.update({"boxes": boxes(3, 4), "labels": labels(3, 4)})
        batch.update_({"boxes": boxes(5, 6), "labels": labels(5, 6)})
        assert lengths(batch) == [[5, 6], [5, 6]]


JOINS: dict[str, Callable[[Any], Any]] = {
    "stack": lambda b: torch.stack([b, b]), "cat": lambda b: torch.cat([b, b]), "collate": lambda b: collate([b, b]),
    "lazy": lambda b: lazy_stack([b, b]).densify(), "index": lambda b: b[[1, 0, 1]], "flip": lambda b: b.flip(0),
    "where": lambda b: torch.where(torch.tensor([True, False]), b, Boxes(boxes(3, 4), labels(3, 4))),
    "split": lambda b: b.split(1)[1], "gather": lambda b: b.gather(0, torch.tensor([1, 1])),
    "clone": lambda b: b.clone(), "reshape": lambda b: b.reshape(2, 1), "expand": lambda b: b.expand(3, 2),
    "unbind": lambda b: b.unbind(0)[0], "json": lambda b: Boxes.from_json(b.to_json()),
}  # fmt: skip


@pytest.mark.parametrize("operation", JOINS)
def test_operations_keep_elements_together(operation: str) -> None:
    """Results are valid without a look, and a constructor agrees."""
    result = JOINS[operation](good())
    one, other = lengths(result)
    assert one == other
    Boxes(result.boxes, result.labels, batch_size=result.batch_size)


# ---- beside dense fields -----------------------------------------------------------------------------------------


def _rows(*lengths: Any) -> RaggedTensor:
    return RaggedTensor(_made(list(lengths), torch.zeros))


def made(**annotations: Any) -> Any:
    """A class of these fields."""
    return type(TensorClass)("Made", (TensorClass,), {"__annotations__": annotations, "__module__": __name__})


RAGGED: Any = Float32[RaggedTensor, "n"]
DENSE: dict[str, tuple[Any, tuple[int, ...]]] = {
    "n": (Float32[Tensor, "n"], (2, 3)), "n+1": (Float32[Tensor, "n+1"], (2, 4)),
    "2*n": (Float32[Tensor, "2*n"], (2, 6)), "n*n": (Float32[Tensor, "n*n"], (2, 9)),
    "m n": (Float32[Tensor, "m n"], (2, 5, 3)), "n n*m": (Float32[Tensor, "n n*m"], (2, 3, 6)),
    "*k n": (Float32[Tensor, "*k n"], (2, 7, 7, 3)), "another's event dim": (Float32[RaggedTensor, "t n"], (2, 5, 3)),
    "shared": (Shared[Float32[Tensor, "n"]], (3,)),  # type: ignore[index,misc,valid-type]  # as an annotation reads it
}  # fmt: skip


@pytest.mark.parametrize("order", ["before", "behind"])
@pytest.mark.parametrize("dims", DENSE)
def test_a_dense_field_of_the_same_name(dims: str, order: str) -> None:
    """Its size is one for all, so all elements are that long; also where the name stands in an expression."""
    annotation, shape = DENSE[dims]
    fields = {"x": annotation, "y": RAGGED} if order == "before" else {"y": RAGGED, "x": annotation}
    cls, x = made(**fields), torch.zeros(shape)
    x = RaggedTensor(list(x)) if dims.startswith("another") else x  # type: ignore[assignment]
    batch = cls(x=x, y=_rows(3, 3), batch_size=[2])
    for wrong in (_rows(3, 2), _rows(2, 2)):
        with pytest.raises(SchemaError, match=r"`n` is|`n\*n` is|no size"):
            cls(x=x, y=wrong, batch_size=[2])
        with pytest.raises(SchemaError, match=r"`n` is|`n\*n` is|no size"):
            batch.y = wrong
    with pytest.raises(SchemaError, match="in element"):
        batch.set_at_("y", torch.zeros(2), 0)
    assert batch.y.lengths.tolist() == [3, 3]


def test_a_size_of_two_lengths() -> None:
    """A product of two lengths holds in every element, where each element has lengths of its own."""
    cls = made(
        a=Float32[RaggedTensor, "i"], b=Float32[RaggedTensor, "j"], c=Float32[Tensor, "i*j m"], d=Float32[Tensor, "m"]
    )
    c, d = torch.zeros(2, 6, 4), torch.zeros(2, 4)
    assert cls(_rows(2, 3), _rows(3, 2), c, d).batch_size == (2,)
    with pytest.raises(SchemaError, match=r"in element \[1\]: `i\*j` is 9"):
        cls(_rows(2, 3), _rows(3, 3), c, d)


def test_a_name_that_only_elements_solve() -> None:
    """What one element solves holds in the others."""
    cls = made(a=Float32[RaggedTensor, "i"], c=Float32[Tensor, "i*m"])
    assert cls(_rows(3, 3), torch.zeros(2, 6)).batch_size == (2,)
    with pytest.raises(SchemaError, match=r"in element \[1\]"):
        cls(_rows(3, 2), torch.zeros(2, 6))


@pytest.mark.parametrize("size", [[2, 2], [2, 1, 2], [0], [2, 0], []], ids=str)
def test_more_batch_dims_and_none(size: list[int]) -> None:
    """The element is named by its index over all batch dims; an empty batch has nothing to differ."""

    def nest(shape: list[int], make: Callable[[], Tensor]) -> Any:
        return [nest(shape[1:], make) for _ in range(shape[0])] if shape else make()

    def pair(last: int) -> Boxes:
        found = RaggedTensor.of(nest(size, lambda: torch.zeros(2, 4)), size, torch.zeros(0, 4))
        marks = RaggedTensor.of(nest(size, lambda: torch.zeros(last).long()), size, torch.zeros(0).long())
        return Boxes(found, marks, batch_size=size)

    assert pair(2).batch_size == tuple(size)
    if 0 in size:
        assert pair(3).batch_size == tuple(size)
        return
    with pytest.raises(SchemaError) as caught:
        pair(3)
    assert caught.value.problems[0].path == "labels" + ("[0]" * len(size) or "[]")


@pytest.mark.parametrize("shape", [[3], [2, 3], [2, 1]], ids=str)
def test_more_batch_dims_than_the_batch(shape: list[int]) -> None:
    """One length for each element: a table of another batch shape is refused, by every field."""
    wrong = RaggedTensor.of([[torch.zeros(2, 4)] * shape[1]] * 2 if shape[1:] else [torch.zeros(2, 4)] * 3, shape)
    with pytest.raises(SchemaError, match=r"the batch size is \[2\]"):
        Boxes(wrong, labels(2, 2), batch_size=[2])


def test_padding_beside_lengths() -> None:
    """`join="pad"` makes a size that the lengths beside it do not have: an error, not a batch that breaks its class."""
    body = {"__annotations__": {"x": Float32[Tensor, "n"], "y": RAGGED}, "x": field(join="pad"), "__module__": __name__}
    cls: Any = type(TensorClass)("Padded", (TensorClass,), body)

    def one(n: int) -> Any:
        return cls(torch.zeros(1, n), _rows(n))

    assert torch.cat([one(3), one(3)]).y.lengths.tolist() == [3, 3]
    for join in (torch.cat, torch.stack):
        with pytest.raises(SchemaError, match=r"`n` is 3 in element .* here 2"):
            join([one(3), one(2)])


@pytest.mark.parametrize("other", ["_", "m", "nested"])
def test_names_that_are_not_shared(other: str) -> None:
    """`_` is compared with nothing, another name neither, and a nested class is a scope of its own."""
    if other == "nested":
        assert Scene(good(), torch.zeros(2, 7)).n.shape == (2, 7)
        return
    cls = made(boxes=Float32[RaggedTensor, "n 4"], labels=Int64[RaggedTensor, other])
    batch = cls(boxes(2, 1), labels(1, 5))
    batch.set_at_("labels", labels(9)[0], 0)
    assert batch.labels.lengths.tolist() == [9, 5]


def test_an_absent_field_says_nothing() -> None:
    """Optional and produced fields bind when they are there."""
    cls = made(boxes=Float32[RaggedTensor, "n 4"], labels=Int64[RaggedTensor, "n"] | None)
    assert cls(boxes(2, 1)).labels is None
    state = State(boxes(2, 1))
    with pytest.raises(SchemaError, match="in element"):
        state.labels = labels(2, 2)
    state.labels = labels(2, 1)


def test_validation_off() -> None:
    """`validate="off"` looks at no dims, these included."""

    class Off(TensorClass, validate="off"):
        boxes: Float32[RaggedTensor, "n 4"]
        labels: Int64[RaggedTensor, "n"]

    batch = Off(**WRONG)
    batch.labels = labels(9, 9)
    batch.set_at_("labels", labels(7)[0], 0)
    assert batch.labels.lengths.tolist() == [7, 9]


# ---- what makes instances up -------------------------------------------------------------------------------------


class Every(TensorClass):
    x: Float32[Tensor, "n+1"]
    boxes: Float32[RaggedTensor, "n 4"]
    marks: Int64[RaggedTensor, "k n"]
    more: Int64[RaggedTensor, "k"]


@given(batches(Boxes), batches(Every))
def test_strategies_draw_agreeing_lengths(one: Boxes, other: Every) -> None:
    """Every drawn instance is one that the constructor takes."""
    assert one.boxes.lengths.equal(one.labels.lengths)
    assert other.marks.lengths.equal(other.more.lengths)


def test_examples_agree_with_what_is_given() -> None:
    """The lengths of a given field are those of the others."""
    assert Boxes.example([2], fields={"boxes": boxes(3, 0)}).labels.lengths.tolist() == [3, 0]
    assert Every.example([2], sizes={"n": 3}).boxes.lengths.tolist() == [3, 3]
    assert Every.example([3], seed=4).x.shape[1] == Every.example([3], seed=4).boxes.lengths[0] + 1


@pytest.mark.slow
def test_compiled_constructors() -> None:
    """Lists trace whole, since their lengths are shapes; lengths in a tensor are looked at outside of the graph."""
    lists = torch.compile(lambda a, b: Boxes([a, a], [b, b]).labels.values, backend="eager", fullgraph=True)
    assert lists(torch.zeros(2, 4), torch.zeros(2, dtype=torch.int64)).shape == (4,)
    tensors = torch.compile(lambda a, b: Boxes(a, b).labels.values, backend="eager")
    assert tensors(boxes(2, 1), labels(2, 1)).shape == (3,)
    with pytest.raises(SchemaError, match="in element"):
        tensors(boxes(2, 1), labels(2, 2))


def test_pipelines_over_ragged_inputs() -> None:
    """The build check makes inputs that agree."""
    double = TensorClassModule(nn.Identity(), Boxes.labels, Boxes.labels, update=True)
    assert TensorClassSequential(double, input=Boxes, output=Boxes)(good()).labels.lengths.tolist() == [2, 1]


def test_nested_keys_of_one_write_are_seen_together() -> None:
    """Both fields by their paths: agreeing lengths go in, others are refused, whole and in place."""
    for write in ("update", "update_"):
        store = TensorDict(found=good(), batch_size=[2])
        getattr(store, write)({("found", "boxes"): boxes(3, 4), ("found", "labels"): labels(3, 4)})
        assert lengths(store["found"]) == [[3, 4], [3, 4]]
        with pytest.raises(SchemaError, match="in element"):
            getattr(store, write)({("found", "boxes"): boxes(3, 4), ("found", "labels"): labels(3, 5)})
        assert lengths(store["found"]) == [[3, 4], [3, 4]]


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("bare", [True, False])
def test_a_state_dict_has_the_elements_and_gives_them_back(flatten: bool, bare: bool) -> None:
    """As two tensors below the key, so that a plain copy of the mapping has them too; a strict load misses none."""
    source = Scene(Boxes(boxes(3, 4), labels(3, 4)), torch.ones(2, 3))
    state: Any = source.state_dict(flatten=flatten)
    if flatten:
        assert set(state) == {
            "found.boxes.values",
            "found.boxes.lengths",
            "found.labels.values",
            "found.labels.lengths",
            "n",
        }
    state = {**state} if bare and flatten else state
    target = Scene(good(), torch.zeros(2, 3))
    target.load_state_dict(state)
    assert lengths(target.found) == [[3, 4], [3, 4]]
    assert target.n.sum() == 6
    fresh = TensorDict(batch_size=[2]).load_state_dict(source.found.state_dict(), strict=False)
    assert lengths(fresh) == [[3, 4], [3, 4]]
    assert not any(isinstance(value, dict) for value in fresh.values())
    if flatten:
        del state["found.labels.values"], state["found.labels.lengths"]
        with pytest.raises(StructureError, match=r"missing: `found\.labels`"):
            target.load_state_dict(state)
