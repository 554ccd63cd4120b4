"""Containers as pytrees: tree_map, paths, vmap over any dim, gradients of functions of containers."""

from __future__ import annotations

import pytest
import torch
import torch.utils._pytree as pytree
from torch.func import grad, jacrev, vmap

from tensorclass import TensorDict
from tensorclass.errors import UnsupportedOperationError
from tests.contract._invariants import check
from tests.contract._kinds import mixed
from tests.contract._model import Model, assert_same
from tests.contract._typed_kinds import ALL_KINDS, Inner

KINDS = pytest.mark.parametrize("kind", ALL_KINDS)


@KINDS
def test_flatten_and_back(kind: str):
    """Flattening gives the tensors; unflattening gives the container back."""
    container = ALL_KINDS[kind](mixed())
    leaves, spec = pytree.tree_flatten(container)
    assert all(isinstance(leaf, torch.Tensor) for leaf in leaves)
    twin = pytree.tree_unflatten(leaves, spec)
    check(twin)
    assert_same(twin, Model.of(container))
    assert (type(twin), twin.names) == (type(container), container.names)


def test_tree_map_finds_the_batch_size():
    """The batch size follows what the function does to the tensors."""
    container = ALL_KINDS["nested"](mixed())
    for function, size in ((lambda t: t[0], (3,)), (lambda t: t[None], (1, 2, 3)), (lambda t: t + 1, (2, 3))):
        result = pytree.tree_map(function, container)
        check(result)
        assert tuple(result.batch_size) == size


def test_paths():
    """Leaves have their keys as paths."""
    container = TensorDict({"a": torch.zeros(2), "n": {"b": torch.ones(2)}}, batch_size=[2])
    found = []
    pytree.tree_map_with_path(lambda path, leaf: found.append("".join(map(str, path))), container)
    assert found == ["['a']", "['n']['b']"]


def test_two_trees():
    """Containers of the same structure are mapped together."""
    container = TensorDict({"a": torch.zeros(2), "n": {"b": torch.ones(2)}}, batch_size=[2])
    result = pytree.tree_map(torch.add, container, container + 1)
    assert (result["a"].tolist(), result["n", "b"].tolist()) == ([1, 1], [3, 3])


@pytest.mark.parametrize("dims", [(0, 0), (1, 0), (0, 1), (1, 1), (-1, -1)])
@pytest.mark.parametrize("typed", [False, True], ids=["untyped", "typed"])
def test_vmap_over_dims(dims: tuple[int, int], typed: bool):
    """The mapped dim leaves and enters the batch size where the caller says."""
    x, y = torch.rand(2, 3, 4), torch.rand(2, 3)
    if dims[0] < 0:
        x = x[..., 0]
    if typed and dims[0] >= 0:
        container = Inner(x=x, y=y, batch_size=[2, 3])
    else:
        container = TensorDict({"x": x, "y": y}, batch_size=[2, 3])
    seen = []

    def function(element):
        seen.append(tuple(element.batch_size))
        return element + 1

    result = vmap(function, (dims[0],), dims[1])(container)
    source = dims[0] % 2
    assert seen == [(3,) if source == 0 else (2,)]
    assert torch.equal(result["y"], (y + 1).movedim(source, dims[1]))
    check(result)


def test_vmap_of_construction():
    """Containers made inside a mapped function come out batched."""
    result = vmap(lambda t: TensorDict(a=t, b=t * 2, batch_size=[3]))(torch.rand(2, 3))
    assert tuple(result.batch_size) == (2, 3)
    assert torch.equal(result["b"], result["a"] * 2)


def test_gradients():
    """`torch.func.grad` gives a container of gradients; a jacobian goes through one."""
    container = TensorDict({"a": torch.rand(3), "n": {"b": torch.rand(3)}}, batch_size=[3])
    result = grad(lambda c: (c["a"] * c["n", "b"]).sum())(container)
    assert torch.equal(result["a"], container["n", "b"])
    assert torch.equal(result["n", "b"], container["a"])
    jacobian = jacrev(lambda t: TensorDict(a=t * 2, batch_size=[3]).add(1)["a"])(torch.rand(3))
    assert torch.equal(jacobian, 2 * torch.eye(3))


def test_containers_of_other_batch_sizes_have_one_structure():
    """An exported program is called with batches of any size; event ranks and keys are the structure."""
    small, large = (TensorDict({"a": torch.zeros(n, 3)}, batch_size=[n]) for n in (2, 5))
    structures = [pytree.tree_structure(data) for data in (small, large)]
    assert structures[0] == structures[1]
    deeper = TensorDict({"a": torch.zeros(2, 3)}, batch_size=[2, 3])
    assert structures[0] != pytree.tree_structure(deeper)
    empty = [pytree.tree_structure(TensorDict(batch_size=[n])) for n in (2, 5)]
    assert empty[0] != empty[1]


def test_export_with_a_container():
    """A program exported with a dynamic batch takes and returns containers of another batch size."""

    class Model(torch.nn.Module):
        def forward(self, data):
            return TensorDict(y=data["a"] * 2, batch_size=data.batch_size)

    batch = torch.export.Dim("batch", min=2)
    data = TensorDict({"a": torch.ones(4, 3)}, batch_size=[4])
    program = torch.export.export(Model(), (data,), dynamic_shapes=({"a": {0: batch}},)).module()
    result = program(TensorDict({"a": torch.ones(7, 3)}, batch_size=[7]))
    assert result.batch_size == (7,)
    assert torch.equal(result["y"], torch.full((7, 3), 2.0))


def test_vmap_takes_a_tree_of_containers_as_one_node() -> None:
    """Inside and after vmap, each level of a tree has its keys, its classes and the new batch size."""
    data = TensorDict({"a": torch.rand(3, 2), "n": {"b": torch.rand(3), "m": {"c": torch.rand(3, 4)}}}, batch_size=[3])
    sizes = []

    def double(one: TensorDict) -> TensorDict:
        sizes.append((one.batch_size, one["n"].batch_size, one["n", "m"].batch_size))
        return one + one

    doubled = torch.vmap(double)(data)
    assert sizes == [(torch.Size([]),) * 3]
    assert bool((doubled == data + data).all())
    assert doubled["n", "m"].batch_size == torch.Size([3])
    with pytest.raises(UnsupportedOperationError, match=r"would map dim 1 of `n\.m\.c`"):
        torch.vmap(double, in_dims=1)(data.exclude("a", ("n", "b")))
