"""What counts as an entry: containers of Python objects, shared tensors or entries of single members are not empty."""

from __future__ import annotations

import pytest
import tensordict
import torch

from tensorclass import NonTensorStack, TensorDict, UnbatchedTensor, lazy_stack


@pytest.mark.parametrize("size", [(2,), (0,), (), (2, 1)], ids=str)
@pytest.mark.parametrize("kind", ["object", "object of each", "shared", "deeper", "members"])
def test_a_container_of_anything_is_not_empty(kind: str, size: tuple[int, ...]) -> None:
    """Only containers without any entry are dropped: Python objects and entries of single members are entries."""
    inner = {
        "object": TensorDict(o="x", batch_size=size),
        "object of each": TensorDict(o=NonTensorStack.of(["x", "y"], [2])).expand(*size, 2),
        "shared": TensorDict(u=UnbatchedTensor(torch.zeros(3)), batch_size=size),
        "deeper": TensorDict(m={"o": None}, batch_size=size),
        "members": lazy_stack([TensorDict({f"only{i}": "x"}, size) for i in range(2)], len(size)),
    }[kind]
    batch = TensorDict({"a": torch.zeros(size), "n": inner, "none": {}}, batch_size=size)
    assert list(batch.clone().filter_empty_().keys()) == ["a", "n"]
    assert [list(part.keys()) for part in batch.split_keys(["a"])] == [["a"], ["n"]]
    assert list(batch.apply(lambda leaf: leaf, filter_empty=True).keys()) == ["a", "n"]
    assert list(batch.apply(lambda leaf: leaf).keys()) == ["a", "n", "none"]


@pytest.mark.parametrize("fn", [lambda leaf: leaf + 1, lambda leaf: None, lambda leaf: leaf if leaf.ndim > 1 else None])
@pytest.mark.parametrize("nested", [False, True], ids=["one level", "levels"])
def test_results_without_entries_are_kept_on_request(nested, fn) -> None:
    """`filter_empty=False` gives the same containers without options, with options and by name, and never None."""
    data = TensorDict({"a": torch.ones(2), "b": torch.ones(2, 3)}, [2])
    if nested:
        data.update({"n": {"c": torch.ones(2)}, "e": {}, "m": {"k": {"d": torch.ones(2)}}})
    found = [
        data.apply(fn, filter_empty=False),
        data.apply(lambda leaf, _: fn(leaf), data, filter_empty=False),
        data.named_apply(lambda _, leaf: fn(leaf), filter_empty=False),
        data.apply(fn, batch_size=[2], filter_empty=False),
        data.apply(fn, filter_empty=False, propagate_lock=True),
        tensordict.TensorDict(data.to_dict(), [2]).apply(fn, filter_empty=False),
    ]
    assert {part.batch_size for part in found} == {torch.Size([2])}
    assert [sorted(map(str, part.keys(True))) for part in found] == [sorted(map(str, found[0].keys(True)))] * len(found)
