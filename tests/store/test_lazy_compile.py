"""Lazy stacks under `torch.compile`, `vmap` and pytree functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch import Tensor

from tensorclass import LazyStackedTensorDict, TensorClass, TensorDict, equal, lazy_stack
from tensorclass.errors import UnsupportedOperationError
from tensorclass.typing import Float32


class Point(TensorClass):
    """A class of one field."""

    x: Float32[Tensor, "d"]


def stack_of(count: int = 3) -> LazyStackedTensorDict:
    """Members whose values tell them apart."""
    stack: LazyStackedTensorDict = lazy_stack(
        [TensorDict({"a": torch.full((2,), float(i)), "n": {"b": torch.ones(3)}}) for i in range(count)]
    )
    return stack


def read(stack: Any) -> Tensor:
    """Two entries, one of them nested."""
    return stack["a"].sum() + stack["n", "b"].sum()


def append(stack: Any) -> Tensor:
    """A member more."""
    stack.append(TensorDict({"a": torch.full((2,), 9.0), "n": {"b": torch.ones(3)}}))
    return stack["a"].sum()


def index(stack: Any) -> Tensor:
    """Along the stack dim, by int and slice."""
    return stack[0]["a"] + stack[1:]["a"].sum(0)


def arithmetic(stack: Any) -> Tensor:
    """A new stack."""
    return ((stack + 1) * stack)["a"]


def write(stack: Any) -> Tensor:
    """An entry cut over the members."""
    stack["c"] = torch.ones(len(stack.tensordicts), 2)
    return stack["c"] + stack["a"]


def build(stack: Any) -> Tensor:
    """A stack made in the compiled region."""
    return lazy_stack([stack[0], stack[1]])["a"] * 2


def ragged(stack: Any) -> Tensor:
    """Entries of different shapes as a list."""
    other = lazy_stack([TensorDict(a=torch.ones(1)), TensorDict(a=torch.ones(2))])
    first, second = other.get("a", as_list=True)
    return stack["a"].sum() + first.sum() + second.sum()


@pytest.mark.parametrize("function", [read, append, index, arithmetic, write, build, ragged])
def test_compiles_to_one_graph(function: Any):
    """The same numbers as without, and no graph break."""
    torch.compiler.reset()
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    assert torch.equal(compiled(stack_of()), function(stack_of()))


def test_a_typed_stack_compiles():
    """Field access over a lazy store."""
    torch.compiler.reset()

    def total(batch: Point) -> Tensor:
        return batch.x.sum() + batch[0].x.sum()

    batch = lazy_stack([Point(torch.ones(2)), Point(torch.ones(2))])
    assert torch.compile(total, fullgraph=True, backend="eager")(batch) == 6


def even(**options: Any) -> Any:
    """Three members with batch dims of their own."""
    return lazy_stack([TensorDict(a=torch.full((4,), i), s="n", batch_size=[4]) for i in (0.0, 1.0, 2.0)], **options)


VMAPPED: dict[str, tuple[Callable[[], Any], Any]] = {
    "its own dim": (lambda: torch.vmap(lambda row: row["a"].sum())(even()), [0, 4, 8]),
    "as densify": (lambda: torch.vmap(lambda row: row["a"].sum())(even().densify()), [0, 4, 8]),
    "a later stack dim": (lambda: torch.vmap(lambda row: row["a"].sum())(even(dim=1)), [3, 3, 3, 3]),
    "a later mapped dim": (lambda: torch.vmap(lambda row: row["a"].sum(), 1)(even()), [3, 3, 3, 3]),
    "in chunks": (lambda: torch.vmap(lambda row: row["a"].sum(), chunk_size=2)(even()), [0, 4, 8]),
    "both dims": (lambda: torch.vmap(torch.vmap(lambda row: row["a"]))(even()), [[i] * 4 for i in range(3)]),
    "what comes back": (lambda: torch.vmap(lambda row: row)(even())["a"], [[i] * 4 for i in range(3)]),
    "an entry": (
        lambda: torch.vmap(lambda row: row["in", "a"].sum())(TensorDict({"in": even()}, batch_size=[3])), [0, 4, 8]
    ),
    "objects that all have": (lambda: torch.vmap(lambda row: row["a"].sum() + len(row["s"]))(even()), [4, 8, 12]),
    "a typed one": (
        lambda: torch.vmap(lambda row: row.x.sum())(lazy_stack([Point(torch.ones(2)), Point(torch.zeros(2))])), [2, 0]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(VMAPPED))
def test_vmap_maps_over_the_dims_of_the_stack(name: str) -> None:
    """And not over those of the members, which are its leaves elsewhere."""
    run, wanted = VMAPPED[name]
    assert run().tolist() == wanted


def test_vmap_leaves_alone_what_it_does_not_map() -> None:
    """The stack itself is passed along, members that differ too."""
    uneven = lazy_stack([TensorDict(a=torch.ones(1)), TensorDict(a=torch.ones(2), b=torch.ones(()))])
    other_shapes = lazy_stack([TensorDict(a=torch.ones(1)), TensorDict(a=torch.ones(2))])
    for stack in (even(), uneven, other_shapes):
        seen: list[Any] = []
        torch.vmap(lambda other, x: seen.append(other) or x, (None, 0))(stack, torch.ones(2))  # type: ignore[func-returns-value]  # noqa: B023  # called here
        assert isinstance(seen[0], LazyStackedTensorDict)
        assert seen[0][0]["a"] is stack[0]["a"]


def test_vmap_of_members_that_differ_is_refused() -> None:
    """There is no dim to map over; where torch flattens otherwise, the stack refuses instead of mapping another dim."""
    stack = lazy_stack([TensorDict(a=torch.ones(3)), TensorDict(a=torch.ones(3), b=torch.ones(3))])
    with pytest.raises(UnsupportedOperationError, match="densify"):
        torch.vmap(lambda row: row["a"].sum())(stack)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensorclass.store.lazy._stack._VMAP", "renamed")
        with pytest.raises(UnsupportedOperationError, match="densify"):
            torch.vmap(lambda row: row["a"].sum())(even())


def test_vmap_over_what_is_read_and_stacks_inside():
    """Members made inside a mapped function stack there."""

    def pairs(value: Tensor) -> Tensor:
        stack = lazy_stack([TensorDict(a=value), TensorDict(a=value * 2)])
        doubled = pytree.tree_map(lambda leaf: leaf * 2, stack)
        total: Tensor = doubled["a"].sum()
        return total

    assert torch.vmap(pairs)(torch.ones(3, 2)).tolist() == [12.0, 12.0, 12.0]


def test_pytree_children_are_the_members():
    """Also where they differ in keys and shapes; `tree_map` gives a stack again."""
    stack = lazy_stack([TensorDict(a=torch.ones(1)), TensorDict(a=torch.ones(2), b=torch.ones(1))], stack_dim_name="m")
    leaves, spec = pytree.tree_flatten(stack)
    assert len(leaves) == 3
    again = pytree.tree_unflatten(leaves, spec)
    assert equal(again, stack)
    assert again.names == ["m"]
    assert pytree.tree_map(lambda leaf: leaf + 1, stack)[1]["b"] == 2
    paths = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(stack)[0]]
    assert paths == ["[0]['a']", "[1]['a']", "[1]['b']"]
