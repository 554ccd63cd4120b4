"""Gradients of whole containers: what torch does to each tensor, all of them or none, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import tensordict
import torch
from torch import Tensor

from tensorclass import NonTensorStack, PerElement, Shared, TensorClass, TensorDict
from tensorclass.core import VALUES
from tensorclass.errors import BatchSizeError, FrozenError, MissingKeyError, StructureError, UnsupportedOperationError
from tensorclass.store import Unbatched
from tensorclass.typing import Float32, Int64
from tests.contract._invariants import check
from tests.contract._kinds import KINDS


class Inner(TensorClass):
    b: Float32[Tensor, ""]


class Weights(TensorClass):
    a: Float32[Tensor, "4"]
    inner: Inner
    table: Shared[Float32[Tensor, "t"]]
    who: PerElement[str]
    source: str = "scan"


class Labelled(TensorClass):
    a: Float32[Tensor, ""]
    label: Int64[Tensor, ""]


class Fixed(TensorClass, frozen=True):
    a: Float32[Tensor, ""]


def make(*shape: int) -> Tensor:
    """Different numbers."""
    return torch.arange(1.0, 1.0 + torch.Size(shape).numel()).reshape(shape).clone()  # no view: those can't be detached


def untyped() -> TensorDict:
    """Tensors at two levels, a shared one, objects."""
    below = {"b": make(2), "table": Unbatched(make(3))}
    return TensorDict({"a": make(2, 4), "n": below, "who": NonTensorStack("x", "y"), "s": "scan"}, batch_size=[2])


def typed() -> Weights:
    """The same, declared."""
    return Weights(a=make(2, 4), inner=Inner(b=make(2)), table=make(3), who=["x", "y"])


both = pytest.mark.parametrize("build", [untyped, typed], ids=["untyped", "typed"])
every = pytest.mark.parametrize("kind", KINDS)
recorded = pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph:UserWarning")


# ---- flags -----------------------------------------------------------------------------------------------------------


@every
def test_requires_grad(kind):
    """The flag is set on every leaf, and one leaf is enough to have it."""
    data = KINDS[kind](make).detach()
    assert data.requires_grad is False
    assert data.requires_grad_() is data
    assert data.requires_grad is bool(data._leaves(VALUES))
    assert all(leaf.requires_grad for leaf in data._leaves(VALUES))
    assert data.requires_grad_(False).requires_grad is False
    if data._leaves(VALUES):
        data._leaves(VALUES)[-1].requires_grad_()
        assert data.requires_grad is True


def test_requires_grad_is_for_all_or_none():
    """A leaf of integers, or one that was computed, stops the change before the first leaf."""
    batch = Labelled(a=make(2), label=torch.arange(2))
    with pytest.raises(
        UnsupportedOperationError, match=r"requires_grad_: `label` is of torch.int64.*nothing was changed"
    ):
        batch.requires_grad_()
    assert not batch.a.requires_grad
    first = make(2).requires_grad_()
    data = TensorDict({"a": first, "n": {"b": first * 2}}, batch_size=[2])
    with pytest.raises(UnsupportedOperationError, match=r"`n.b` was computed from what requires grad; use `detach"):
        data.requires_grad_(False)
    assert first.requires_grad


@every
def test_detach_and_data(kind):
    """Twins share memory with the leaves, require no grad, and keep structure and lock."""
    source = KINDS[kind](make)
    for cut in (lambda d: d.detach(), lambda d: d.data):
        twin = cut(source)
        check(twin)
        assert twin is not source
        assert (twin.batch_size, twin.names, twin.is_locked) == (source.batch_size, source.names, source.is_locked)
        assert list(twin.keys(True)) == list(source.keys(True))
        for mine, theirs in zip(twin._leaves(VALUES), source._leaves(VALUES), strict=True):
            assert mine.data_ptr() == theirs.data_ptr()
            assert not mine.requires_grad


@both
def test_classes_are_kept(build):
    """Twins are of the same class, with the same objects."""
    data = build().requires_grad_()
    for twin in (data.detach(), data.data):
        assert type(twin) is type(data)
        assert twin.get("who").tolist() == ["x", "y"]


def test_detach_in_place():
    """The leaves stay the same tensors; a view stops it before the first of them."""
    a, b = make(2).requires_grad_() * 1, make(2).requires_grad_() * 1
    data = TensorDict({"a": a, "n": {"b": b}}, batch_size=[2])
    assert data.detach_() is data
    assert data["a"] is a
    assert not a.requires_grad
    assert b.grad_fn is None
    whole = make(4).requires_grad_() * 1
    data = TensorDict({"a": make(2).requires_grad_(), "n": {"b": whole[:2]}}, batch_size=[2])
    with pytest.raises(
        UnsupportedOperationError, match=r"detach_: `n.b` is a view.*use `detach\(\)`; nothing was changed"
    ):
        data.detach_()
    assert data["a"].requires_grad
    assert TensorDict(a=make(4)[:2], batch_size=[2]).detach_().requires_grad is False


# ---- gradients -------------------------------------------------------------------------------------------------------


@both
def test_grad(build):
    """The gradients that exist, untyped, in the structure they came in."""
    data = build().requires_grad_()
    assert data.grad is None
    (data.get("a") * 3).sum().backward()
    grad = data.grad
    check(grad)
    assert type(grad) is TensorDict
    assert list(grad.keys(True, True)) == ["a"]
    assert (grad.batch_size, grad.names) == (data.batch_size, data.names)
    assert torch.equal(grad["a"], torch.full((2, 4), 3.0))
    data.sum(reduce=True).backward()
    assert torch.equal(data.grad["table" if "table" in data.grad else ("n", "table")], torch.ones(3))
    check(data.grad)


def test_grad_of_computed_leaves():
    """What autograd computed has no gradient of its own, unless it was told to keep it; torch does not warn."""
    x = make(2).requires_grad_()
    data = TensorDict(a=x * 2, b=x * 3, batch_size=[2])
    data["b"].retain_grad()
    data.sum(reduce=True).backward()
    assert set(data.grad.keys()) == {"b"}
    data.zero_grad()
    assert data.grad is None


def test_set_grad():
    """Gradients are set where there are none, and copied into those that exist; others stay."""
    data = TensorDict({"a": make(2), "n": {"b": make(2)}}, batch_size=[2]).requires_grad_()
    given = TensorDict({"n": {"b": torch.ones(2)}}, batch_size=[2])
    data.grad = given
    assert data["n", "b"].grad is given["n", "b"]
    assert data["a"].grad is None
    held = data["n", "b"].grad
    data.grad = TensorDict({"a": torch.ones(2), "n": {"b": torch.full((2,), 5.0)}}, batch_size=[2])
    assert data["n", "b"].grad is held
    assert torch.equal(held, torch.full((2,), 5.0))
    data.grad = None
    assert data.grad is None


@recorded
@both
@pytest.mark.parametrize("none", [True, False])
def test_zero_grad(build, none):
    """Gradients are dropped, or become zero in the same memory; absent ones stay absent."""
    data = build().requires_grad_()
    data.get("a").sum().backward(create_graph=True)
    memory = data.get("a").grad.data_ptr()
    assert data.zero_grad(set_to_none=none) is data
    if none:
        assert data.grad is None
    else:
        assert list(data.grad.keys(True, True)) == ["a"]
        assert torch.equal(data.grad["a"], torch.zeros(2, 4))
        assert data.grad["a"].data_ptr() == memory
        assert not data.grad["a"].requires_grad


@both
def test_backward_of_single_elements(build):
    """Without weights, the pass is that of the sum of all leaves."""
    data, twin = build().requires_grad_(), build().requires_grad_()
    losses = (data * data).exclude("who").sum()
    losses.backward()
    (twin * twin).exclude("who").sum(reduce=True).backward()
    for mine, theirs in zip(data._leaves(VALUES), twin._leaves(VALUES), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_backward_with_weights():
    """Each leaf has its weight, by key, whatever the order; leaves that require no grad need none."""
    x = make(3).requires_grad_()
    losses = TensorDict({"a": x * 2, "n": {"b": x * x}, "plain": make(3)}, batch_size=[3])
    losses.backward(TensorDict({"n": {"b": torch.ones(3)}, "a": torch.full((3,), 0.5)}, batch_size=[3]))
    torch.testing.assert_close(x.grad, 2 * 0.5 + 2 * make(3))


def test_backward_as_the_anchor():
    """The same gradients, in one pass over a graph that the leaves share."""
    grads = []
    for library in (TensorDict, tensordict.TensorDict):
        x = make(3).requires_grad_()
        y = x.exp()
        library({"a": y.sum(), "n": {"b": (y * y).mean()}}).backward()
        grads.append(x.grad)
    assert torch.equal(*grads)


@recorded
def test_backward_options():
    """The graph can be kept, recorded, or restricted to some inputs, given as a container as well."""
    x, w = make(2).requires_grad_(), make(2).requires_grad_()
    losses = TensorDict(a=(x * w).sum())
    losses.backward(retain_graph=True, inputs=[x])
    assert w.grad is None
    losses.backward(inputs=TensorDict(w=w, plain=make(2), batch_size=[2]), create_graph=True)
    assert torch.equal(w.grad, make(2))
    assert w.grad.requires_grad
    assert torch.equal(x.grad, make(2))


def test_gradients_of_containers_under_func():
    """Jacobians and gradients with respect to a container are containers."""
    data = TensorDict({"a": make(2), "n": {"b": make(2)}}, batch_size=[2])
    grads = torch.func.grad(lambda d: (d * d).sum(reduce=True))(data)
    assert torch.equal(grads["n", "b"], 2 * make(2))
    rows = torch.func.jacrev(lambda d: (d.detach() * d)["a"])(data)
    assert torch.equal(rows["a"], torch.diag(make(2)))


def test_training_step():
    """Parameters in a container are trained without naming one of them."""
    params = TensorDict({"w": make(4, 1) * 0, "b": torch.zeros(1)}, batch_size=[]).requires_grad_()
    x = torch.eye(4)
    for _ in range(3):
        params.zero_grad()
        TensorDict(loss=((x @ params["w"] + params["b"] - 1) ** 2).mean()).backward()
        params.data.sub_(params.grad * 0.5)
    assert ((x @ params["w"] + params["b"] - 1) ** 2).mean().item() < 0.5


# ---- data ------------------------------------------------------------------------------------------------------------


@both
def test_set_data(build):
    """The leaves take over other memory and stay the tensors they are."""
    data, other = build().requires_grad_(), build() * 2
    leaf = data.get("a")
    data.data = other
    assert data.get("a") is leaf
    assert leaf.requires_grad
    assert leaf.data_ptr() == other.get("a").data_ptr()


BAD: list[tuple[Any, Any, str]] = [
    (lambda d: setattr(d, "grad", TensorDict(c=make(2), batch_size=[2])), StructureError, "grad: no tensor is at `c`"),
    (lambda d: setattr(d, "grad", TensorDict(a=make(2, 3), batch_size=[2])), StructureError, r"`a` has shape .*\[2\]"),
    (lambda d: setattr(d, "grad", TensorDict(a=make(2).double(), batch_size=[2])), StructureError, "`a` has dtype"),
    (lambda d: setattr(d, "grad", TensorDict(a=make(2))), BatchSizeError, r"batch size is \[2\], got \[\]"),
    (lambda d: setattr(d, "grad", make(2)), TypeError, "grad: give a container of the same keys, got Tensor"),
    (lambda d: setattr(d * 2, "grad", d.data), StructureError, "`a` is not an autograd leaf.*nothing was set"),
    (lambda d: setattr(d, "data", TensorDict(c=make(2), batch_size=[2])), StructureError, "data: no tensor is at `c`"),
    (lambda d: setattr(d, "data", TensorDict(a=make(2).int(), batch_size=[2])), StructureError, "`a` has dtype"),
    (lambda d: setattr(d, "data", TensorDict(a=make(2))), BatchSizeError, "data: the batch size is"),
    (lambda d: d.backward(), StructureError, r"backward: `a` has shape \[2\]; give a weight for each element"),
    (lambda d: d.detach().backward(), StructureError, r"requires grad; its leaves are \['a', 'n.b'\]"),
    (lambda d: TensorDict().backward(), StructureError, "no leaf of this TensorDict requires grad"),
    (lambda d: d.backward(TensorDict(a=make(2), batch_size=[2])), MissingKeyError, "`gradient` has no entry `n.b`"),
    (lambda d: d.backward(TensorDict({"a": make(2), "n": {"c": make(2)}}, [2])), StructureError, "did you mean `n.b`"),
    (lambda d: d.backward(TensorDict({"a": make(2, 2), "n": {"b": make(2)}}, [2])), StructureError, "its gradient"),
    (lambda d: d.backward(make(2)), TypeError, "backward: give a container of the same keys"),
    (lambda d: d.sum().backward(inputs=d.detach()), StructureError, "given as `inputs` requires grad"),
]  # fmt: skip


@pytest.mark.parametrize("position", range(len(BAD)))
def test_bad_input(position):
    """Each mistake names the entry and says what to do; nothing is set."""
    call, kind, match = BAD[position]
    data = TensorDict({"a": make(2), "n": {"b": make(2)}}, batch_size=[2]).requires_grad_()
    with pytest.raises(kind, match=match):
        call(data)
    assert data.grad is None
    assert torch.equal(data.data["a"], make(2))


def test_a_late_misfit_sets_nothing():
    """Gradients and data are checked before the first is set."""
    data = TensorDict(a=make(2), b=make(2), batch_size=[2]).requires_grad_()
    bad = TensorDict(a=make(2) * 0, b=make(2).double(), batch_size=[2])
    for name in ("grad", "data"):
        with pytest.raises(StructureError, match=f"{name}: `b` has dtype torch.float32, the new tensor torch.float64"):
            setattr(data, name, bad)
    assert data.grad is None
    assert torch.equal(data["a"].detach(), make(2))


def test_frozen():
    """A frozen instance can be differentiated, and its values can't be replaced."""
    fixed = Fixed(a=make(2)).requires_grad_()
    fixed.sum(reduce=True).backward()
    assert torch.equal(fixed.grad["a"], torch.ones(2))
    for name in ("data", "grad"):
        with pytest.raises(FrozenError, match="frozen"):
            setattr(fixed, name, fixed.detach())


def test_compiles_whole():
    """Detaching and flags are part of one graph."""
    data = TensorDict({"a": make(2), "n": {"b": make(2)}}, batch_size=[2])

    def run(d: Any) -> Any:
        return d.detach() + d.data if not d.requires_grad else d

    result = torch.compile(run, backend="eager", fullgraph=True)(data)
    assert torch.equal(result["n", "b"], 2 * make(2))


def test_vmap():
    """Detached leaves are detached in every element."""
    data = TensorDict({"a": make(3, 2), "n": {"b": make(3)}}, batch_size=[3]).requires_grad_()
    result = torch.vmap(lambda d: d.detach() * 2)(data)
    assert not result.requires_grad
    assert torch.equal(result["a"], 2 * make(3, 2))
