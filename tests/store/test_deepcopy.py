"""copy.deepcopy of containers: what shared a storage shares one, identity is kept, nothing of a tensor is lost."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import torch

from tensorclass import TensorDict, lazy_stack


def test_tensors_are_copied() -> None:
    """Values, strides and dtypes are those of the original, and the memory is new."""
    data = TensorDict(a=torch.arange(6).view(2, 3), b=torch.rand(3, 2).T, c=torch.rand(2, 0), batch_size=[2])
    new = copy.deepcopy(data)
    for key, value in data.items():
        assert new[key].equal(value)
        assert new[key].stride() == value.stride()
        assert new[key].dtype is value.dtype
        assert not value.numel() or new[key].data_ptr() != value.data_ptr()


def _views() -> dict[str, torch.Tensor]:
    base = torch.zeros(4)
    return {"whole": base, "view": base.view(4), "part": base[1:3], "same": base}


@pytest.mark.parametrize("order", [["whole", "view", "part", "same"], ["part", "same", "view", "whole"]])
def test_what_shared_a_storage_shares_one(order: list[str]) -> None:
    """In whatever order they come, inside the container, in another one and beside it."""
    views = _views()
    first, second = order[:2], order[2:]
    graph = (TensorDict({key: views[key] for key in first}), {key: views[key] for key in second}, views["whole"])
    new_first, new_second, whole = copy.deepcopy(graph)
    whole.fill_(1.0)
    assert views["whole"].eq(0).all()
    for key in order:
        assert (new_first if key in first else new_second)[key].eq(1).all()
    assert ("same" in first and new_first["same"] is whole) or new_second["same"] is whole


def test_one_tensor_under_two_keys_stays_one() -> None:
    """Also in nested containers and in members of a lazy stack."""
    tensor = torch.zeros(2)
    new = copy.deepcopy(TensorDict(a=tensor, n={"b": tensor}, batch_size=[2]))
    assert new["a"] is new["n", "b"] is not tensor
    stack = copy.deepcopy(lazy_stack([TensorDict(a=tensor), TensorDict(a=tensor)]))
    assert stack[0]["a"] is stack[1]["a"]


@pytest.mark.parametrize(
    "kind", ["parameter", "leaf", "grad", "attribute", "conj", "sparse", "negated", "part", "inference", "meta"]
)
def test_nothing_of_a_tensor_is_lost(kind: str) -> None:
    """What a plain clone would drop goes the way of torch."""
    value: Any = torch.ones(2, dtype=torch.complex64 if kind == "conj" else torch.float32)
    if kind == "parameter":
        value = torch.nn.Parameter(value)
    elif kind in ("leaf", "grad"):
        value.requires_grad_()
        value.sum().backward()
        value.requires_grad_(kind == "leaf")
    elif kind == "attribute":
        value.note = "kept"
    elif kind == "inference":
        with torch.inference_mode():
            value = value.clone()
    elif kind in ("negated", "part", "meta"):
        value = {"negated": torch._neg_view(value), "part": torch.ones(4)[1:3], "meta": value.to("meta")}[kind]
    else:
        value = value.conj() if kind == "conj" else value.to_sparse()
    new, due = copy.deepcopy(TensorDict(a=value))["a"], copy.deepcopy(value)
    assert type(new) is type(value)
    assert (new.requires_grad, new.layout, new.is_conj()) == (due.requires_grad, due.layout, due.is_conj())
    assert (new.is_neg(), new.is_inference(), new.device) == (due.is_neg(), due.is_inference(), due.device)
    if kind in ("negated", "part"):
        assert new.equal(due)
        assert new.untyped_storage().nbytes() == due.untyped_storage().nbytes()
    assert (new.grad is None) == (due.grad is None)
    assert getattr(new, "note", None) == getattr(due, "note", None)


def test_what_the_memo_holds_is_used() -> None:
    """A tensor that the caller says is copied already; many tensors at once keep the order of the keys."""
    kept = torch.zeros(2)
    data = TensorDict({"z": kept, **{key: torch.full((2,), i) for i, key in enumerate("hgfedcba")}})
    new = copy.deepcopy(data, {id(kept): kept})
    assert new["z"] is kept
    assert list(new.keys()) == list(data.keys())
    assert all(new[key].equal(value) and new[key] is not value for key, value in data.items() if key != "z")


def _shared(values: list[torch.Tensor]) -> list[tuple[int, int, int]]:
    """For each tensor the first one that is the same object, the first one over the same storage, and its offset."""
    places = [value.untyped_storage()._cdata for value in values]
    return [
        (next(i for i, other in enumerate(values) if other is value), places.index(place), int(value.storage_offset()))
        for value, place in zip(values, places, strict=True)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_graphs_are_copied_as_those_of_dicts(seed: int) -> None:
    """Random trees of whole tensors, views and repeated ones share what torch's copy of the same dicts shares."""
    chosen = random.Random(seed)
    tensors = [torch.full((4,), float(i)) for i in range(4)]
    views = [view for value in tensors for view in (value, value, value.view(2, 2), value[1:3], value.flip(0))]

    def tree(depth: int) -> dict[str, Any]:
        keys = [f"k{i}" for i in range(chosen.randint(1, 7))]
        below = [depth < 3 and chosen.random() < 0.3 for _ in keys]
        return {key: tree(depth + 1) if deep else chosen.choice(views) for key, deep in zip(keys, below, strict=True)}

    def leaves(node: Any) -> list[torch.Tensor]:
        return [leaf for value in node.values() for leaf in ([value] if type(value) is torch.Tensor else leaves(value))]

    before, data, after = tree(2), tree(0), tree(2)
    graph = (before, TensorDict(data), after, [view.untyped_storage() for view in views])
    new, due = copy.deepcopy(graph), copy.deepcopy((before, data, after))
    old = [leaf for part in (before, data, after) for leaf in leaves(part)]
    copied, wanted = ([leaf for part in parts[:3] for leaf in leaves(part)] for parts in (new, due))
    assert _shared(copied) == _shared(wanted) == _shared(old)
    assert all(leaf.equal(value) for leaf, value in zip(copied, old, strict=True))
    places = {leaf.untyped_storage()._cdata for leaf in copied}
    assert places <= {storage._cdata for storage in new[3]}
    assert not places & {leaf.untyped_storage()._cdata for leaf in old}
