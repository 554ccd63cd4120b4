"""Calls of programs for `tensordict` that give the same here, run in both libraries."""

from __future__ import annotations

import pandas
import pytest
import tensordict
import torch

import tensorclass

LIBRARIES = [tensordict, tensorclass]


def _both(call):
    """The result of a call with either library's names, which must be the same."""
    first, second = (call(lib) for lib in LIBRARIES)
    assert first == second
    return second


@pytest.mark.parametrize("nested", [False, True])
def test_apply_by_name(nested):
    """`apply(named=True, nested_keys=)` is `named_apply`."""

    def call(lib):
        data = lib.TensorDict(a=torch.zeros(2), n=lib.TensorDict(b=torch.ones(2)))
        seen = []
        result = data.apply(lambda key, leaf: seen.append(key) or leaf + 1, named=True, nested_keys=nested)
        return seen, result["n", "b"].tolist()

    assert _both(call)[0] == ["a", ("n", "b") if nested else "b"]


SHAPES = [((3, 1), ()), ((), (3, 1)), ((3, 1), (2,)), ((2,), (4, 3, 2)), ((), ())]


@pytest.mark.parametrize("op", ["__add__", "div", "maximum", "__eq__", "pow", "clamp_min"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_events_broadcast_without_batch_dims(op, shapes):
    """Untyped containers without batch dims broadcast entries of other ranks as torch does."""

    def call(lib):
        left, right = (lib.TensorDict(a=torch.ones(shape), n={"b": torch.ones(shape)}) for shape in shapes)
        result = getattr(left, op)(right)
        return result["a"].tolist(), result["n", "b"].tolist()

    _both(call)


def test_events_do_not_mix_with_the_batch():
    """With batch dims, entries of other ranks are refused: torch would align the batch with an event dim."""
    wide = tensorclass.TensorDict(a=torch.ones(3, 3), batch_size=[3])
    with pytest.raises(ValueError, match="same number of dims"):
        wide + tensorclass.TensorDict(a=torch.ones(3), batch_size=[3])


def test_operands_that_are_too_large_write_nothing():
    """In place, an operand of a higher rank is refused before anything is written."""
    data = tensorclass.TensorDict(a=torch.ones(3), b=torch.ones(()))
    with pytest.raises(ValueError, match="nothing was written"):
        data += tensorclass.TensorDict(a=torch.ones(3), b=torch.ones(3, 1))
    assert data["a"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "members",
    [({"a": 2, "b": 1}, {"a": 3, "b": 1}), ({"a": 2, "b": 1}, {"b": 1}), ({"b": 1}, {"a": 3, "b": 1})],
    ids=str,
)
def test_an_entry_of_a_lazy_stack_is_removed(members):
    """`del` removes an entry from the members that have it, whatever its shapes."""

    def call(lib):
        made = [lib.TensorDict({key: torch.zeros(size) for key, size in member.items()}) for member in members]
        stack = lib.LazyStackedTensorDict(*made, stack_dim=0)
        del stack["a"]
        return [sorted(member.keys()) for member in stack.tensordicts]

    assert _both(call) == [["b"], ["b"]]
    with pytest.raises(KeyError, match="b"):
        del tensorclass.lazy_stack([tensorclass.TensorDict(b=1), tensorclass.TensorDict(b=2)])["a"]


def test_a_frame_is_converted():
    """`from_any` makes a container with one entry for each column of a pandas frame."""
    frame = pandas.DataFrame({"a": [1, 2], "b": [1.0, 2.0]})

    def call(lib):
        data = lib.from_any(frame)
        return data.batch_size, data["a"].tolist(), data["b"].dtype

    assert _both(call)[0] == (2,)
