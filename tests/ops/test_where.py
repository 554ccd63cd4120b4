"""`where` in every form: against torch for each leaf, and against the anchor for entries that one side lacks."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import tensordict
import torch
from torch import Tensor

from tensorclass import NonTensorStack, Ragged, RaggedTensor, TensorClass, TensorDict, UnbatchedTensor, lazy_stack
from tensorclass.errors import BatchSizeError, StructureError

SIZES = [(), (2,), (2, 2), (2, 3), (0, 2), (1, 2, 2)]
EVENTS = [(), (2,), (3, 2)]


def _made(library: Any, size: tuple[int, ...], keys: str, offset: float) -> Any:
    """A container of the keys that are asked for; `n.b` is nested, and each key has an event shape of its own."""
    values = {
        key: torch.arange(torch.Size([*size, *event]).numel()).reshape([*size, *event]) + offset
        for key, event in zip("abc", EVENTS, strict=True)
    }
    found = {key: values[key] for key in keys if key in values}
    if "n" in keys:
        found["n"] = library.TensorDict({key: values[key] + 7 for key in "bc" if key.upper() in keys}, batch_size=size)
    return library.TensorDict(found, batch_size=size)


def _conditions(size: tuple[int, ...]) -> list[Tensor]:
    """Every shape of condition: over all dims, over leading dims, with dims of size one, and without dims."""
    shapes = {size[:stop] for stop in range(len(size) + 1)} | {
        tuple(1 if flat else n for n, flat in zip(size, ones, strict=True))
        for ones in itertools.product([False, True], repeat=len(size))
    }
    return [torch.arange(torch.Size(shape).numel()).reshape([*shape]) % 3 == 1 for shape in shapes]


def _oracle(condition: Tensor, left: Tensor | None, right: Any, dims: int, pad: float) -> Tensor:
    """Torch on one leaf, with the condition over its leading dims."""
    model = right if left is None else left
    wide = condition.reshape(condition.shape + (1,) * (model.ndim - condition.ndim))
    return torch.where(wide, pad if left is None else left, pad if right is None else right)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ("abc", "abc"),
        ("abc", "ca"),
        ("ab", "abc"),
        ("b", "c"),
        ("anBC", "anBC"),
        ("anB", "anC"),
        ("a", "anBC"),
        ("nC", "b"),
    ],
)
def test_entries_that_one_side_lacks_are_padded(size: tuple[int, ...], mine: str, theirs: str):
    """Whichever side lacks an entry, at any rank, the condition chooses elements of the batch."""
    left, right = _made(TensorDict_, size, mine, 0.5), _made(TensorDict_, size, theirs, -90)
    for condition in _conditions(size):
        result = left.where(condition, right, pad=-1)
        keys = {*left.keys(True, True), *right.keys(True, True)}
        assert set(result.keys(True, True)) == keys
        assert result.batch_size == torch.Size(size)
        for key in keys:
            wanted = _oracle(condition, left.get(key), right.get(key), len(size), -1)
            assert torch.equal(result[key], wanted)
        if condition.ndim:  # the anchor knows no condition without dims here
            anchor = _made(tensordict, size, mine, 0.5).where(condition, _made(tensordict, size, theirs, -90), pad=-1)
            assert all(torch.equal(result[key], anchor[key]) for key in keys)
        if mine == theirs:
            assert torch.equal(torch.where(condition, left, right)._leaves()[0], result._leaves()[0])
        else:
            with pytest.raises(StructureError, match="pad=0"):
                left.where(condition, right)


class TensorDict_:  # stands for the module, as `tensordict` does
    TensorDict = TensorDict


@pytest.mark.parametrize("size", [(2,), (2, 3)], ids=str)
def test_numbers_and_tensors(size: tuple[int, ...]):
    """A number or a tensor over the batch on either side, by method and by torch's function, with and without `out`."""
    data = _made(TensorDict_, size, "abcnB", 0.5)
    row = torch.arange(torch.Size(size).numel()).reshape(size) * 10.0
    for condition, other in itertools.product(_conditions(size), [7.5, torch.tensor(8.5), row]):
        for key in data.keys(True, True):
            leaf = data[key]
            value = other.reshape(size + (1,) * (leaf.ndim - len(size))) if other is row else other
            wide = condition.reshape(condition.shape + (1,) * (leaf.ndim - condition.ndim))
            for result, wanted in (
                (data.where(condition, other), torch.where(wide, leaf, value)),
                (torch.where(condition, data, other), torch.where(wide, leaf, value)),
                (torch.where(condition, other, data), torch.where(wide, value, leaf)),
            ):
                assert torch.equal(result[key], wanted)
        for sides in ((data, torch.as_tensor(other)), (torch.as_tensor(other), data)):  # torch's `out` takes no numbers
            out = data.clone()
            assert torch.where(condition, *sides, out=out) is out
            assert bool(out == torch.where(condition, *sides))


def test_an_output_receives_what_is_chosen():
    """`out` gets new entries, also where it is one of the sides; the tensors that it held keep their values."""
    left, right = _made(TensorDict_, (2,), "anB", 0), _made(TensorDict_, (2,), "anB", 9)
    condition = torch.tensor([True, False])
    wanted = left.where(condition, right)
    for side in (left.clone(), right.clone(), TensorDict(batch_size=[2])):
        before = side.get("a")
        values = None if before is None else before.clone()
        assert left.where(condition, right, out=side) is side
        assert bool(side == wanted)
        assert before is None or (side["a"] is not before and torch.equal(before, values))


CONDITION = torch.tensor([True, False])


@pytest.mark.parametrize("bad", [True, 1, [True, False], TensorDict(a=CONDITION, batch_size=[2]), None])
def test_a_condition_is_one_tensor(bad: Any):
    """Anything else is refused with what to do, by both ways in; the anchor ends in an AttributeError."""
    data = TensorDict(a=torch.zeros(2), batch_size=[2])
    with pytest.raises(TypeError, match="the condition is one bool tensor over the batch"):
        data.where(bad, data)
    with pytest.raises(TypeError, match=r"the condition is one bool tensor over the batch|but expected one of"):
        torch.where(bad, data, 1.0)


@pytest.mark.parametrize("bad", [CONDITION.long(), torch.tensor([True] * 3), torch.ones(2, 3, dtype=torch.bool)])
def test_a_condition_fits_the_batch(bad: Tensor):
    """A condition of another dtype, of another size, or over feature dims is refused."""
    data = TensorDict(a=torch.zeros(2, 3), batch_size=[2])
    with pytest.raises(BatchSizeError, match="the condition is a bool tensor that broadcasts to the batch size"):
        data.where(bad, data)


def test_objects_are_chosen_too():
    """Equal objects stay one, others become one for each element; what one side lacks is refused or kept by `pad`."""

    def made(**entries: Any) -> TensorDict:
        return TensorDict({"a": torch.zeros(2), **entries}, batch_size=[2])

    assert made(s="x").where(CONDITION, made(s="x"))["s"] == "x"
    assert made(s="x").where(CONDITION, made(s="y"))["s"] == ["x", "y"]
    assert made(s=NonTensorStack("p", "q")).where(CONDITION, made(s="y"))["s"] == ["p", "y"]
    nested = {"n": TensorDict(s="x", batch_size=[2])}
    for left, right, key in (
        (made(s="x"), made(), "s"),
        (made(), made(s="x"), "s"),
        (made(**nested), made(n=TensorDict(batch_size=[2])), ("n", "s")),
    ):
        assert left.where(CONDITION, right, pad=0)[key] == "x"
        with pytest.raises(StructureError, match=r"where: only the (left|right) side has `(n.)?s`, a Python object"):
            left.where(CONDITION, right)


@pytest.mark.parametrize("lazy", [False, True])
def test_entries_with_rules_of_their_own(lazy: bool):
    """A ragged entry that one side lacks is padded at its lengths; a tensor without batch dims stays."""
    ragged = RaggedTensor([torch.ones(1), torch.ones(2)])
    table = UnbatchedTensor(torch.ones(5))
    rich = TensorDict(a=torch.zeros(2), r=ragged, u=table, batch_size=[2])
    poor = TensorDict(a=torch.ones(2), batch_size=[2])
    if lazy:
        rich, poor = lazy_stack([rich[0], rich[1]]), lazy_stack([poor[0], poor[1]])
    for result, wanted in (
        (rich.where(CONDITION, poor, pad=7), [[1.0], [7.0, 7.0]]),
        (poor.where(CONDITION, rich, pad=7), [[7.0], [1.0, 1.0]]),
    ):
        assert [row.tolist() for row in result.get("r")] == wanted
        assert result.get("u").tolist() == [1.0] * 5


class Box(TensorClass):
    a: Tensor
    r: Ragged[Tensor, "n"]
    extra: Tensor | None = None
    note: str = "x"


def test_typed_instances_keep_their_class():
    """Optional fields that one side lacks are padded, ragged ones are chosen by element, and the class stays."""
    rows = [torch.ones(1), torch.ones(2)]
    left = Box(a=torch.zeros(2, 3), r=rows, extra=torch.ones(2, 2), batch_size=[2])
    right = Box(a=torch.ones(2, 3), r=[row * 5 for row in rows], batch_size=[2])
    for one, two, wanted in ((left, right, [[1.0, 1.0], [0.0, 0.0]]), (right, left, [[0.0, 0.0], [1.0, 1.0]])):
        result = one.where(CONDITION, two, pad=0)
        assert type(result) is Box
        assert result.extra is not None
        assert result.extra.tolist() == wanted
        assert result.note == "x"
        assert [float(row[0]) for row in result.r] == [float(next(iter(one.r))[0]), float(list(two.r)[1][0])]
        with pytest.raises(StructureError, match="`extra`"):
            one.where(CONDITION, two)


def test_lazy_stacks_as_entries():
    """The condition reaches the elements of a lazy stack inside of a container, on both sides and on one."""

    def made(value: float, *, lazy: bool = True) -> TensorDict:
        stack = lazy_stack([TensorDict(b=torch.full((3,), value), s="x") for _ in range(2)])
        return TensorDict({"a": torch.full((2,), value), **({"n": {"deep": stack}} if lazy else {})}, batch_size=[2])

    ones, rest = [[1.0] * 3, [0.0] * 3], [[0.0] * 3, [1.0] * 3]
    for left, right, wanted in (
        (made(1), made(0), ones),
        (made(1), 0.0, ones),
        (made(1), made(0, lazy=False), ones),
        (made(0, lazy=False), made(1), rest),
    ):
        assert left.where(CONDITION, right, pad=0)["n", "deep", "b"].tolist() == wanted
    uneven = TensorDict(n=lazy_stack([TensorDict(b=torch.zeros(3)), TensorDict(b=torch.zeros(4))]), batch_size=[2])
    with pytest.raises(StructureError, match="`b`"):
        uneven.where(CONDITION, uneven)
