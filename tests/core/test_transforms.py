"""Containers through `torch.vmap` and `torch.func`: batch sizes, names and entries with rules of their own."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import tensordict
import torch
import torch.utils._pytree as pytree
from torch import Tensor, vmap
from torch.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp

import tensorclass
from tensorclass import NonTensorStack, PerElement, Ragged, Shared, TensorClass, TensorDict, UnbatchedTensor
from tensorclass.errors import UnsupportedOperationError
from tensorclass.typing import Float32
from tests._marks import rest_is_slow
from tests.contract._invariants import check
from tests.contract._typed_kinds import ALL_KINDS
from tests.contract.test_pointwise import maker


def _data(library: Any = tensorclass, names: list[str] | None = None) -> Any:
    inner = library.TensorDict({"b": torch.arange(30.0).reshape(2, 3, 5)}, [2, 3])
    return library.TensorDict({"a": torch.arange(24.0).reshape(2, 3, 4), "n": inner}, [2, 3], names=names)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(("in_dim", "out_dim"), list(itertools.product([0, 1], [0, 1])))
def test_batch_dims_are_mapped_as_in_the_anchor(in_dim: int, out_dim: int, named: bool):
    """Inside one batch dim is gone, afterwards it is where `out_dims` says, and names follow their dims."""
    inside = []

    def fn(data: Any) -> Any:
        inside.append((data.batch_size, data.names, data["a"].shape))
        return data * 2

    names = ["x", "y"] if named else None
    result, anchor = [vmap(fn, in_dim, out_dim)(_data(library, names)) for library in (tensorclass, tensordict)]
    check(result)
    assert inside[0] == inside[1]
    assert (result.batch_size, result.names) == (anchor.batch_size, anchor.names)
    assert all(torch.equal(result[key], anchor[key]) for key in ("a", ("n", "b")))


def mapped_kinds() -> list[str]:
    """Containers with a tensor and an element, without which nothing can be mapped."""
    made = {kind: make(maker("any")) for kind, make in ALL_KINDS.items()}
    return sorted(
        kind for kind, data in made.items() if data.batch_size and 0 not in data.batch_size and data._leaves()
    )


@pytest.mark.parametrize("kind", mapped_kinds())
def test_every_kind_of_container_is_mapped(kind: str):
    """What a function gives back is what it got, entry by entry, objects and tensors without batch dims included."""
    data = ALL_KINDS[kind](maker("any"))
    for in_dim, out_dim in itertools.product(range(data.batch_dims), repeat=2):
        result = vmap(lambda part: part.clone(), in_dim, out_dim)(data)
        dense = data._solid() if data._stacked else data
        moved = dense.movedim(in_dim, out_dim)
        check(result)
        assert bool(result == moved)
        if data.batch_size[in_dim] > 1:
            assert bool(vmap(lambda part: part.clone(), in_dim, out_dim, chunk_size=1)(data) == moved)


class Sample(TensorClass):
    a: Float32[Tensor, "4"]
    table: Shared[Tensor]
    scale: Shared[Tensor]
    people: PerElement[str]
    note: str = "x"


def _sample(*size: int) -> Sample:
    count = torch.Size(size).numel()
    return Sample(
        a=torch.arange(count * 4.0).reshape([*size, 4]),
        table=torch.arange(2.0),
        scale=torch.tensor(3.0),
        people=NonTensorStack.of_one("p", torch.Size(size)),
        batch_size=size,
    )


@pytest.mark.parametrize(("in_dim", "out_dim"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("chunk", [None, 1])
def test_shared_tensors_are_the_same_inside(in_dim: int, out_dim: int, chunk: int | None):
    """A tensor without batch dims is whole inside of vmap, whatever its size, and comes back as it was."""
    batch = _sample(2, 3)
    seen = []

    def fn(part: Sample) -> Sample:
        seen.append((part.table.shape, part.scale.shape, part.batch_dims))
        assert torch.equal(part.table, batch.table)
        return part.replace(a=part.a * part.table[1] * part.scale)

    result = vmap(fn, in_dim, out_dim, chunk_size=chunk)(batch)
    check(result)
    assert set(seen) == {(torch.Size([2]), torch.Size([]), 1)}
    assert type(result) is Sample
    assert result.table is batch.table
    assert torch.equal(result.a, batch.a.movedim(in_dim, out_dim) * 3)


def test_unbatched_tensors_go_through_as_in_the_anchor():
    """`UnbatchedTensor` entries, alone and beside each other in nested calls."""
    for library in (tensorclass, tensordict):
        entry = library.UnbatchedTensor(torch.arange(7.0))
        data = library.TensorDict({"a": torch.zeros(2, 3, 4), "u": entry}, [2, 3])
        result = vmap(vmap(lambda part: part.set("s", part["a"].sum() + 1)))(data)
        assert result["u"].shape == (7,)
        assert result["s"].tolist() == [[1.0] * 3] * 2
    table = TensorDict(u=UnbatchedTensor(torch.zeros(2)), a=torch.zeros(2, 2), batch_size=[2])
    with pytest.raises(UnsupportedOperationError, match="`u` has no batch dims and differs between the mapped"):
        vmap(lambda part: part.clone().set("u", UnbatchedTensor(part["a"])))(table)


def test_gradients_reach_shared_tensors():
    """Inside and outside of vmap a shared tensor is the one that gradients are taken of."""
    batch = _sample(2)

    def loss(part: Sample) -> Tensor:
        return (part.a * part.table.sum()).sum()

    floats = batch.exclude("people", "note")
    gradient = grad(lambda part: (part["a"] * part["table"].sum()).sum())(floats)
    assert gradient["table"].tolist() == [float(batch.a.sum())] * 2
    total = vmap(loss)(batch).sum()
    assert float(total) == float(batch.a.sum())
    table = torch.ones(2, requires_grad=True)
    vmap(loss)(batch.replace(table=table)).sum().backward()
    assert table.grad is not None
    assert table.grad.tolist() == [float(batch.a.sum())] * 2


class Boxes(TensorClass):
    a: Tensor
    boxes: Ragged[Tensor, "n"]


def test_ragged_fields_are_refused_where_they_are_mapped():
    """Elements of different lengths have no one shape inside; beside a mapped argument they stay, and come back."""
    batch = Boxes(a=torch.zeros(2), boxes=[torch.ones(1), torch.ones(2)], batch_size=[2])
    with pytest.raises(UnsupportedOperationError, match="`boxes` has a length for each element"):
        vmap(lambda part: part)(batch)
    result = vmap(lambda part, x: part.replace(a=part.a + x), (None, 0), 1)(batch, torch.arange(3.0))
    assert result.batch_size == (2, 3)
    assert result.boxes.lengths.tolist() == [[1] * 3, [2] * 3]


# ---- feature dims ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_dim", [1, -1, 2])
def test_feature_dims_are_not_mapped(in_dim: int):
    """A dim behind the batch dims is refused, typed or not: the anchor maps it, or counts from the batch dims' end."""
    batch = Sample(a=torch.zeros(2, 4), table=torch.zeros(2), scale=torch.zeros(()), people=["p", "q"], batch_size=[2])
    for data in (batch.select("a"), TensorDict(a=torch.zeros(2, 4, 4), n={"b": torch.zeros(2, 4, 4)}, batch_size=[2])):
        if in_dim < data["a"].ndim:
            with pytest.raises(UnsupportedOperationError, match=r"in_dims would map dim \d of `[ab]`.*Give in_dims=0"):
                vmap(lambda part: part, in_dim)(data)
    mixed = TensorDict(a=torch.zeros(2, 2), b=torch.zeros(2, 2, 2), batch_size=[2, 2])
    with pytest.raises(UnsupportedOperationError, match=r"dim 2 of `b`.*Give in_dims from 0 to 1"):
        vmap(lambda part: part, -1)(mixed)


def test_declared_dims_are_not_mapped_without_a_batch():
    """Of an instance without batch dims a declared field can't be mapped; what declares nothing can."""

    class Open(TensorClass):
        a: Tensor

    with pytest.raises(UnsupportedOperationError, match=r"in_dims would map dim 0 of `a`.*batch size is \[\]"):
        vmap(lambda part: part)(Declared(a=torch.zeros(4)))
    result = vmap(lambda part: part)(Open(a=torch.zeros(3)))
    assert result.batch_size == (3,)
    assert vmap(lambda part: part, 1, 1)(TensorDict(a=torch.zeros(4, 3))).batch_size == ()


class Declared(TensorClass):
    a: Float32[Tensor, "4"]


@pytest.mark.parametrize("mapped", [2, 4])
@pytest.mark.parametrize("out_dim", [2, -1])
def test_the_mapped_dim_comes_back_among_the_batch_dims(mapped: int, out_dim: int):
    """`out_dims` behind the batch dims is refused, also where the sizes would not show it."""
    for make in (lambda x: TensorDict(a=x, batch_size=[3]), lambda x: Declared(a=x, batch_size=[3])):
        with pytest.raises(UnsupportedOperationError, match=r"out_dims puts the mapped dim behind the batch dims"):
            vmap(make, out_dims=out_dim)(torch.zeros(mapped, 3, 4))
        for fine in (0, 1):
            result = vmap(make, out_dims=fine)(torch.zeros(mapped, 3, 4))
            assert result.batch_size == ((mapped, 3) if not fine else (3, mapped))
            assert type(result) is type(make(torch.zeros(3, 4)))


def test_what_does_not_depend_on_the_mapped_dim_is_repeated():
    """A container made inside of constants gets the batch dim too, where it is asked for."""
    made = vmap(lambda x: TensorDict(c=torch.zeros(3, 4), s="x", batch_size=[3]))(torch.zeros(5))
    assert made.batch_size == (5, 3)
    assert made["c"].shape == (5, 3, 4)
    for fn in (lambda part: TensorDict(s="x", batch_size=[3]), lambda part: part.exclude("a", ("n", "b"))):
        empty = vmap(fn, 0, 1)(_data())
        check(empty)
        assert empty.batch_size == (3, 2)


def test_nested_vmaps_and_randomness():
    """Two levels, inner dims counted without the outer one; random entries differ where they are asked to."""
    data = _data()
    twice = vmap(vmap(lambda part: part + 1, 0, 0), 1, 1)(data)
    assert bool(twice == data + 1)
    assert vmap(vmap(lambda part: part, 0, 0), 0, 1)(data).batch_size == (3, 2)
    different = vmap(lambda part: part.apply(torch.rand_like), randomness="different")(data)
    same = vmap(lambda part: part.apply(torch.rand_like), randomness="same")(data)
    assert not torch.equal(different["a"][0], different["a"][1])
    assert torch.equal(same["a"][0], same["a"][1])


# ---- derivatives -----------------------------------------------------------------------------------------------------


def _energy(data: Any) -> Tensor:
    return (data["a"] ** 3).sum() + (data["n", "b"] ** 2).sum()


CASES: dict[str, Any] = {
    "scalar": (_energy, True),
    "vector": (lambda data: (data["a"] ** 2).sum(0), True),
    "container": (lambda data: data * data, True),
    "into a container": (None, False),
}


def _floats(library: Any) -> Any:
    inner = library.TensorDict({"b": torch.rand(2, 4)}, [2])
    return library.TensorDict({"a": torch.rand(2, 3), "n": inner}, [2])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("transform", [jacrev, jacfwd, hessian], ids=lambda fn: fn.__name__)
def test_jacobians_keep_the_batch_size(transform: Any, case: str):
    """New dims of outputs and inputs are no batch dims where the batch size still fits, as in the anchor."""
    fn, takes_container = CASES[case]
    found = []
    for library in (tensorclass, tensordict):
        torch.manual_seed(0)
        argument = _floats(library) if takes_container else torch.rand(2)

        def into(x: Tensor, library: Any = library) -> Any:
            return library.TensorDict({"a": x * x, "c": x[:, None] ** 2 * torch.ones(2, 5)}, [2])

        found.append(transform(fn or into)(argument))
    _alike(*found, sizes=not (transform is hessian and case == "vector"))


def _alike(mine: Any, anchor: Any, sizes: bool) -> None:
    if isinstance(mine, Tensor):
        torch.testing.assert_close(mine, anchor)
        return
    check(mine)
    assert mine.batch_size == anchor.batch_size or not sizes
    assert set(mine.keys()) == set(anchor.keys())
    for key in set(mine.keys()):
        _alike(mine[key], anchor[key], sizes)


@pytest.mark.parametrize("transform", [jacrev, jacfwd], ids=lambda fn: fn.__name__)
def test_square_jacobians(transform: Any):
    """Where sizes coincide, the batch size is that of the container that went in or came out, never more."""
    square = TensorDict(a=torch.rand(3), batch_size=[3])
    into = transform(lambda x: TensorDict(a=x * x, c=x[:, None] * torch.ones(3, 3), batch_size=[3]))(torch.rand(3))
    assert (into.batch_size, into["c"].shape) == ((3,), (3, 3, 3))
    assert transform(lambda data: data["a"] ** 2)(square).batch_size == (3,)
    through = transform(lambda data: data * data)(square)
    assert (through.batch_size, through["a"].batch_size) == ((3,), (3,))
    assert torch.equal(through["a", "a"], torch.diag(2 * square["a"]))
    samples = vmap(transform(lambda data: data["a"] ** 2))(TensorDict(a=torch.rand(2, 3), batch_size=[2]))
    assert (samples.batch_size, samples["a"].shape) == ((2,), (2, 3, 3))


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")  # of torch, about its own graph
def test_derivatives_of_typed_batches():
    """Gradients and tangents keep the class; a Jacobian, whose fields have other dims, is a `TensorDict`."""
    batch = Declared(a=torch.rand(2, 4), batch_size=[2])
    assert type(grad(lambda b: (b.a**2).sum())(batch)) is Declared
    assert [type(part) for part in jvp(lambda b: b * b, (batch,), (batch,))] == [Declared, Declared]
    assert type(vjp(lambda b: b * b, batch)[1](batch)[0]) is Declared
    assert type(linearize(lambda b: b * b, batch)[1](batch)) is Declared
    assert type(vmap(grad(lambda b: (b.a**2).sum()))(batch)) is Declared
    for transform, fn in itertools.product((jacrev, jacfwd), (lambda b: b.a.sum(0), lambda b: b * b)):
        result = transform(fn)(batch)
        check(result)
        assert type(result) is TensorDict


def test_tree_map_of_functions_that_change_dims():
    """New dims in front are batch dims; others, and what no longer fits, are not."""
    data = TensorDict(a=torch.zeros(2, 3), b=torch.zeros(2, 4, 5), batch_size=[2])
    for fn, size in (
        (lambda t: t.unsqueeze(0), (1, 2)),
        (lambda t: t.unsqueeze(-1), (2,)),
        (lambda t: t[0], ()),
        (lambda t: t.flatten(), ()),
        (lambda t: t[:1], (1,)),
    ):
        result = pytree.tree_map(fn, data)
        check(result)
        assert result.batch_size == size
    assert pytree.tree_map(lambda *t: torch.stack(t), data, data).batch_size == (2, 2)


READS: list[Any] = [
    vmap(lambda b: b["x"].sum() * b["u"].sum()),
    lambda data: vmap(lambda b: b["inner", "u"].sum())(TensorDict(inner=data, batch_size=[2])),
    lambda data: vmap(lambda b: b * 2)(data)["u"],
]


@pytest.mark.parametrize(
    ("fn", "fullgraph"),
    rest_is_slow(
        [
            (lambda data: vmap(lambda x: TensorDict(x=x, u=UnbatchedTensor(torch.ones(2))))(data["x"])["u"], True),
            *[(fn, fullgraph) for fn in READS for fullgraph in (True, False)],
        ],
        quick=2,
    ),
)
def test_compiled_vmap_maps_no_dims_of_shared_entries(fn: Any, fullgraph: bool):
    """Compiled code can't tell vmap from others who take containers apart: an error, never the mapped entry."""
    torch.compiler.reset()
    data = TensorDict(x=torch.ones(2, 3), u=UnbatchedTensor(torch.ones(2)), batch_size=[2])
    fn(data)
    with pytest.raises((torch._dynamo.exc.Unsupported, UnsupportedOperationError), match=r"vmap: in compiled code `u`"):
        torch.compile(fn, backend="eager", fullgraph=fullgraph)(data)


class Rows(TensorClass):
    """Three numbers an element."""

    x: Float32[Tensor, "3"]


class Open(TensorClass):
    """Any dims, then three."""

    x: Float32[Tensor, "... 3"]


class Holds(TensorClass):
    """A nested class and an object."""

    rows: Rows
    name: str = "a"


@pytest.mark.parametrize("fullgraph", rest_is_slow([True, False]))
@pytest.mark.parametrize(
    ("data", "dim"),
    rest_is_slow(
        [
            (Rows(x=torch.zeros(2, 3)), 1),
            (Open(x=torch.zeros(2, 4, 3), batch_size=[2]), 2),
            (Open(x=torch.zeros(2, 3), batch_size=[]), 0),
            (Holds(rows=Rows(x=torch.zeros(2, 3))), 1),
        ],
    ),
    ids=repr,
)
def test_compiled_vmap_keeps_declared_dims(data: Any, dim: int, fullgraph: bool):
    """An event dim that vmap would map shows by what a class declares."""
    torch.compiler.reset()

    def fn(data: Any) -> Any:
        return vmap(lambda b: b + 1, in_dims=dim)(data)

    with pytest.raises(UnsupportedOperationError, match="vmap: in_dims would map"):
        fn(data)
    with pytest.raises((torch._dynamo.exc.Unsupported, UnsupportedOperationError), match=r"vmap: in_dims would map"):
        torch.compile(fn, backend="eager", fullgraph=fullgraph)(data)


def test_compiled_vmap_of_functions_that_change_dims():
    """What a function does with event dims inside of vmap is its own affair, compiled or not."""
    torch.compiler.reset()
    data = Rows(x=torch.arange(6.0).view(2, 3))

    def fn(data: Any) -> Any:
        return vmap(lambda b: pytree.tree_map(lambda t: t[:2] * 2, b))(data)

    assert torch.equal(torch.compile(fn, backend="eager", fullgraph=True)(data).x, fn(data).x)
