"""Typed classes over lazy stacks: reading, writing, operations, and what keeps the class."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import (
    FrozenTensorClass,
    LazyStackedTensorDict,
    PerElement,
    Ragged,
    TensorClass,
    TensorDict,
    equal,
    lazy_stack,
)
from tensorclass.errors import FrozenError, SchemaError, StructureError
from tensorclass.store import Unbatched
from tensorclass.typing import Float, Float32, Int64


class Pose(TensorClass):
    """A nested field."""

    angle: Float[Tensor, "k"]


class Scan(TensorClass):
    """Fields of every kind; the image differs in height from scan to scan."""

    image: Float32[Tensor, "h w"]
    label: Int64[Tensor, ""]
    pose: Pose
    weight: Float32[Tensor, ""] | None = None
    source: str = "scan"
    who: PerElement[str] = "x"


class Holder(TensorClass):
    """A field that a stack of instances can be."""

    inner: Pose


class Text(TensorClass):
    """A ragged field."""

    tokens: Ragged[Tensor, "t"]


class Fixed(FrozenTensorClass):
    """A frozen class."""

    x: Tensor


def scan(height: int = 4, count: int = 2, start: int = 0) -> Scan:
    """A batch of scans of one height."""
    return Scan(
        image=torch.ones(count, height, 3),
        label=torch.arange(start, start + count),
        pose=Pose(angle=torch.zeros(count, 2)),
        who=[f"p{i}" for i in range(start, start + count)],
    )


def even() -> Scan:
    """A stack of batches of one height."""
    stack: Scan = lazy_stack([scan(start=0), scan(start=2), scan(start=4)])
    return stack


def uneven() -> Scan:
    """A stack of batches of different heights."""
    stack: Scan = lazy_stack([scan(4), scan(5), scan(6)])
    return stack


def store(batch: Any) -> Any:
    """What stands behind an instance."""
    return batch._store


def test_a_stack_of_instances_is_an_instance():
    """Over a lazy store around the stores of the members."""
    parts = [scan(4), scan(5)]
    stack = lazy_stack(parts, 1)
    assert type(stack) is Scan
    assert stack.batch_size == torch.Size([2, 2])
    assert type(store(stack)) is LazyStackedTensorDict
    assert store(stack)[:, 0] is store(parts[0])
    assert type(Scan.lazy_stack(parts)) is Scan
    assert type(store(Scan.maybe_dense_stack(parts))) is LazyStackedTensorDict
    assert type(store(Scan.maybe_dense_stack([scan(), scan()]))) is TensorDict


def test_fields_are_stacked_when_they_are_read():
    """Each as it is declared: nested ones are instances, one value for the batch stays one."""
    stack = even()
    assert stack.image.shape == (3, 2, 4, 3)
    assert stack.label.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert type(stack.pose) is Pose
    assert stack.pose.angle.shape == (3, 2, 2)
    assert stack.weight is None
    assert stack.source == "scan"
    assert stack.who.tolist() == [["p0", "p1"], ["p2", "p3"], ["p4", "p5"]]
    assert uneven().label.shape == (3, 2)
    with pytest.raises(StructureError, match=r"`image`.*as_list=True"):
        _ = uneven().image
    assert [value.shape[1] for value in uneven().get(Scan.image, as_list=True)] == [4, 5, 6]
    assert uneven().get("image", as_padded_tensor=True).shape == (3, 2, 6, 3)


def test_values_that_differ_are_named():
    """A plain `str` field is one value for the batch: members that differ can't be read as one."""
    stack = lazy_stack([scan().replace(source="a"), scan().replace(source="b")])
    assert stack[0].source == "a"
    with pytest.raises(StructureError, match=r"`source`.*PerElement"):
        _ = stack.source


def test_writes_reach_the_members_and_are_checked_in_each():
    """A symbolic dim is one size in one member, not in the whole stack."""
    parts = [scan(4), scan(5)]
    stack = lazy_stack(parts)
    stack.label = torch.full((2, 2), 7)
    assert parts[1].label.tolist() == [7, 7]
    stack.pose.angle = torch.ones(2, 2, 3)
    assert parts[0].pose.angle.shape == (2, 3)
    stack.image = [torch.zeros(2, 1, 1), torch.zeros(2, 2, 2)]
    assert parts[1].image.shape == (2, 2, 2)
    stack.weight = torch.ones(2, 2)
    assert parts[0].weight is not None
    stack.weight = None
    assert parts[1].weight is None
    stack.who = [["a", "b"], ["c", "d"]]
    assert parts[1].who.tolist() == ["c", "d"]
    with pytest.raises(SchemaError, match="label"):
        stack.label = torch.zeros(2, 2)
    with pytest.raises(SchemaError, match="label"):
        stack.update(image=torch.zeros(2, 2, 3, 3), label=torch.zeros(2, 2))
    assert parts[0].image.shape == (2, 1, 1)
    stack.update(image=torch.zeros(2, 2, 3, 3), label=torch.ones(2, 2, dtype=torch.int64))
    assert parts[0].image.shape == (2, 3, 3)


def test_writes_in_place_reach_the_members():
    """By index along and across the stack dim, with operators, and with masks."""
    parts = [scan(4, start=0), scan(4, start=2)]
    stack = lazy_stack(parts)
    stack[0] = stack[1].clone()
    assert parts[0].label.tolist() == [2, 3]
    assert parts[0].who.tolist() == ["p2", "p3"]
    stack[:, 0] = stack[:, 1].clone()
    assert parts[1].label.tolist() == [3, 3]
    stack.add_(1)
    assert parts[0].label.tolist() == [4, 4]
    stack.masked_fill_(torch.tensor([True, False]), 0)
    assert (parts[0].label.tolist(), parts[1].label.tolist()) == ([0, 0], [4, 4])
    stack.zero_()
    assert not parts[1].image.any()


OPERATIONS = {
    "slice": lambda c: c[1:],
    "column": lambda c: c[:, 0],
    "rows": lambda c: c[torch.tensor([2, 0])],
    "mask": lambda c: c[torch.tensor([True, False, True])],
    "new dim": lambda c: c[None],
    "pairs": lambda c: c[torch.tensor([0, 1]), torch.tensor([1, 0])],
    "split": lambda c: c.split(2)[0],
    "chunk": lambda c: c.chunk(3, 0)[2],
    "unbind(1)": lambda c: c.unbind(1)[0],
    "permute": lambda c: c.permute(1, 0),
    "unsqueeze": lambda c: c.unsqueeze(1),
    "flip": lambda c: c.flip(0),
    "view": lambda c: c.view(6),
    "clone": lambda c: c.clone(),
    "copy": lambda c: c.copy(),
    "mul": lambda c: c * 2,
    "apply": lambda c: c.apply(lambda t: t.clone()),
    "where": lambda c: c.where(torch.ones(3, 1, dtype=torch.bool), c),
    "masked_fill": lambda c: c.masked_fill(torch.ones(3, 2, dtype=torch.bool), 0),
    "zeros_like": torch.zeros_like,
    "stack": lambda c: torch.stack([c, c]),
    "cat": lambda c: torch.cat([c, c]),
    "replace": lambda c: c.replace(label=c.label + 1),
    "to": lambda c: c.to("cpu"),
    "deepcopy": copy.deepcopy,
    "pickle": lambda c: pickle.loads(pickle.dumps(c)),
}


@pytest.mark.parametrize("make", [even, uneven])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_keep_the_class_and_stay_lazy(name: str, make: Any):
    """Also where the images can't be stacked; what can be read is what the dense class gives."""
    result = OPERATIONS[name](make())
    assert type(result) is Scan
    assert type(store(result)) is LazyStackedTensorDict
    assert result.source == "scan"
    if make is even:
        dense = OPERATIONS[name](even().densify())
        assert result.batch_size == dense.batch_size
        assert torch.equal(result.image, dense.image)
        assert torch.equal(result.label, dense.label)
        assert result.who.tolist() == dense.who.tolist()
        assert torch.equal(result.pose.angle, dense.pose.angle)


def test_dense_results_keep_the_class():
    """What needs one tensor for each field gives an instance over a dense store."""
    stack = even()
    dense = stack.densify()
    assert type(dense) is Scan
    assert type(store(dense)) is TensorDict
    assert dense.source == "scan"
    assert equal(stack.gather(0, torch.zeros(1, 2, dtype=torch.int64))[0], dense[0])
    assert equal(stack.reshape(-1)[0], dense[0, 0])
    assert stack.select("image").batch_size == torch.Size([3, 2])
    assert type(uneven().select("label")) is LazyStackedTensorDict
    assert torch.equal(even().exclude("who", "source").float().sum(0)["label"], dense.label.sum(0).float())
    assert uneven().densify(layout=torch.strided).image.is_nested


def test_an_instance_over_a_stack_that_was_there_before():
    """No copy: both see what the other writes, and members that are added."""
    stack = lazy_stack([scan().to_tensordict(), scan().to_tensordict()])
    batch = Scan.from_tensordict(stack)
    batch.label = torch.full((2, 2), 9)
    assert (stack[1]["label"] == 9).all()
    stack.append(scan().to_tensordict())
    assert batch.batch_size == torch.Size([3, 2])
    members = LazyStackedTensorDict(scan(4), scan(5))
    assert type(members[0]) is Scan
    assert Scan.from_tensordict(members).label.shape == (2, 2)


def test_every_member_is_validated():
    """The error names the field."""
    good, bad = scan().to_tensordict(), scan().to_tensordict()
    bad["label"] = torch.zeros(2)
    with pytest.raises(SchemaError, match="label"):
        Scan.from_tensordict(lazy_stack([good, bad]))


def test_a_frozen_class_refuses_writes():
    """All of them; reading and indexing work."""
    batch = lazy_stack([Fixed(torch.zeros(2)), Fixed(torch.ones(3))])
    for write in (
        lambda: setattr(batch, "x", torch.zeros(2, 2)),
        batch.zero_,
        lambda: batch.update_({"x": 1.0}),
        lambda: batch.__setitem__(0, batch[1]),
        lambda: batch.masked_fill_(torch.ones(2, dtype=torch.bool), 0),
        lambda: batch.apply_(lambda t: t + 1),
    ):
        with pytest.raises(FrozenError):
            write()
    assert batch[1].x.tolist() == [1, 1, 1]


def test_frozen_members_of_an_untyped_stack_refuse_writes():
    """The stack itself is not frozen, but what it holds is."""
    stack = LazyStackedTensorDict(Fixed(torch.zeros(2)), Fixed(torch.zeros(2)))
    for write in (
        lambda: stack.set_("x", torch.ones(2, 2)),
        lambda: stack.__setitem__(0, stack[1]),
        lambda: stack.set("x", torch.ones(2, 2)),
    ):
        with pytest.raises(FrozenError):
            write()
    assert not stack["x"].any()


def test_ragged_fields_are_joined_when_they_are_read():
    """The lengths of all elements, of all members."""
    batch = lazy_stack([Text(tokens=[torch.ones(1), torch.ones(2)]), Text(tokens=[torch.ones(3), torch.ones(0)])])
    assert batch.tokens.lengths.tolist() == [[1, 2], [3, 0]]
    assert batch[:, 0].tokens.lengths.tolist() == [1, 3]
    batch.tokens = batch.tokens * 2
    assert batch[1].tokens[0].item().tolist() == [2, 2, 2]


def test_locks_and_names():
    """They reach the stores of the members."""
    parts = [scan(), scan()]
    stack = lazy_stack(parts, stack_dim_name="trial")
    assert stack.names == ["trial", None]
    stack.lock_()
    assert parts[0].is_locked
    assert not stack[1:].is_locked


def test_print_shows_what_differs():
    """The class's name, and -1 where members differ."""
    assert "image: f32[-1,3]" in repr(uneven())
    assert repr(uneven()).startswith("Scan(batch_size=[3,2]")


@pytest.mark.parametrize("holder", [lambda stack: stack, lambda stack: Holder(inner=stack, batch_size=[2])])
def test_functions_keep_the_declared_types(holder: Any):
    """`apply` over a stack of instances is checked against the class, also where the stack is a field."""
    batch = holder(lazy_stack([Pose(angle=torch.zeros(3)), Pose(angle=torch.ones(3))]))
    grown = batch.apply(lambda leaf: torch.cat([leaf, leaf], -1))
    assert type(grown) is type(batch)
    for fn in (lambda leaf: leaf == leaf, lambda leaf: leaf[..., 0]):
        with pytest.raises(SchemaError, match="angle"):
            batch.apply(fn)
        with pytest.raises(SchemaError, match="angle"):
            batch.named_apply(lambda key, leaf, fn=fn: fn(leaf))


def test_a_shared_number_is_promoted_as_in_a_dense_container():
    """Members share a tensor without dims; a 0-d operand is promoted with it, not with its stack."""
    member = TensorDict(
        {"x": torch.zeros(2, dtype=torch.uint8), "s": Unbatched(torch.tensor(3, dtype=torch.uint8))}, []
    )
    stack = lazy_stack([member.clone(), member.clone()])
    dense = TensorDict({"s": Unbatched(torch.tensor(3, dtype=torch.uint8))}, [2])
    assert (stack - torch.tensor(1))["s"].dtype is (dense - torch.tensor(1))["s"].dtype is torch.int64
    assert (stack - torch.tensor(1))["x"].dtype is torch.uint8
