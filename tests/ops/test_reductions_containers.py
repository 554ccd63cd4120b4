"""Reductions of typed classes, shared tensors and objects; torch functions, transforms, the anchor; what is refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import tensordict
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import NonTensorStack, PerElement, Shared, TensorClass, TensorDict
from tensorclass._operations import REDUCTIONS
from tensorclass.core import VALUES
from tensorclass.errors import BatchDimError, SchemaError, StructureError, UnsupportedOperationError
from tensorclass.ops import _generate, _reduce_source
from tensorclass.ops._reduce_frame import named_dims
from tensorclass.store import Unbatched
from tensorclass.typing import Bool, Float, Float32, Int64
from tests.contract._invariants import check
from tests.contract._kinds import KINDS
from tests.ops._anchor import Tree, outcome, plain, same, trees
from tests.ops._reference import (
    CASES,
    DIMS,
    FIRST,
    PAIRED,
    QUIET,
    TOTALS,
    expect,
    named,
    numbers,
    reference,
)

# ---- what is no plain tensor -----------------------------------------------------------------------------------------


def assorted() -> TensorDict:
    """Objects and shared tensors at two levels."""
    below = {"b": numbers(2, 3, 4), "table": Unbatched(numbers(2)), "size": None}
    return TensorDict(
        {"a": numbers(2, 3), "tag": "scan", "table": Unbatched(numbers(5)), "n": below}, batch_size=[2, 3]
    )


@QUIET
@pytest.mark.parametrize(("name", "dims"), CASES)
def test_objects_go_along_and_shared_tensors_stay(name, dims):
    """Batch dims pass shared tensors by; event dims and everything do not. Python values are in the result."""
    data, dim = assorted(), DIMS[dims]
    result = getattr(data, name)(*FIRST.get(name, ()), dim)
    expect(name, data, result, dim, False)
    assert result["tag"] == "scan"
    assert result["n"]._entries()["size"] is None
    assert (result["table"] is data["table"]) == (dim not in ("feature", None))


def test_indices_hold_tensors_alone():
    """What was not reduced has no position."""
    data = assorted()
    found = data.max(0)
    assert set(found.indices.keys(True, True)) == {"a", ("n", "b")}
    assert found.values["table"] is data["table"]
    assert found.values["tag"] == "scan"


@pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.name)
def test_one_object_for_each_element(row):
    """Objects of elements stay where the batch stays, and stop what would change it, with the way out."""
    objects = NonTensorStack.from_list([["a", "b"], ["c", "d"]])
    data = TensorDict({"x": numbers(2, 2, 3), "n": {"who": objects}}, batch_size=[2, 2])
    first = FIRST.get(row.name, ())
    if row.name == "softmax" or row.form == "running":
        result = getattr(data, row.name)(0)
        result = result if row.name == "softmax" else result.values
        assert result["n", "who"].tolist() == objects.tolist()
        return
    calls = [()] if row.name == "norm" else [(*first, 0)] if row.form == "test" else [first, (*first, 0)]
    for arguments in calls:
        if row.form == "indexed" and not arguments:
            continue
        with pytest.raises(StructureError, match=rf"{row.name}: `n.who` holds one object .*exclude\(\('n', 'who'\)\)"):
            getattr(data, row.name)(*arguments)
    if row.form in ("total", "extreme", "test"):
        assert getattr(data, row.name)(*first, "feature")["n", "who"].tolist() == objects.tolist()


# ---- typed classes ---------------------------------------------------------------------------------------------------


class Point(TensorClass):
    x: Float32[Tensor, "3"]
    w: Float32[Tensor, ""]


class Sample(TensorClass):
    point: Point
    score: Float[Tensor, "k"]
    label: Int64[Tensor, ""]
    table: Shared[Float32[Tensor, "t"]]
    source: str = "scan"


class Tagged(TensorClass):
    x: Float32[Tensor, ""]
    who: PerElement[str]


class Mask(TensorClass):
    m: Bool[Tensor, ""]


def point(*size: int) -> Point:
    """Random points."""
    return Point(x=torch.randn(*size, 3), w=torch.randn(size))


def sample(*size: int) -> Sample:
    """A batch with a field of most kinds."""
    label = torch.arange(torch.Size(size).numel()).reshape(size)
    return Sample(point=point(*size), score=torch.randn(*size, 2), label=label, table=torch.ones(4))


@pytest.mark.parametrize("name", [*TOTALS, "logsumexp", "softmax"])
def test_batch_dims_keep_the_class(name):
    """Floats over batch dims are what the class declares."""
    batch = point(4, 2)
    result = getattr(batch, name)(*FIRST.get(name, ()), 0)
    assert type(result) is Point
    check(result)
    Point(x=result.x, w=result.w, batch_size=result.batch_size)  # validates


@pytest.mark.parametrize("name", ["sum", "prod", "amin", "amax"])
def test_nested_classes_are_kept(name):
    """Nested fields keep their class, shared ones their tensor, values their value."""
    batch = sample(4, 2)
    result = getattr(batch, name)(0)
    assert (type(result), type(result.point), result.batch_size, result.source) == (Sample, Point, (2,), "scan")
    assert result.table is batch.table
    assert torch.equal(result.label, reference(name, batch.label, (0,), False))


@pytest.mark.parametrize("name", ["mean", "std", "var", "quantile", "nanmean"])
def test_integers_have_no_mean(name):
    """What torch refuses names the field."""
    with pytest.raises(UnsupportedOperationError, match=rf"{name}: `label` \(torch.int64, shape \[4\]\)"):
        getattr(sample(4), name)(*FIRST.get(name, ()), 0)


def test_undeclared_dtypes_are_refused():
    """A result of another dtype than declared names every field, unless a family takes it."""
    with pytest.raises(SchemaError, match="label") as caught:
        sample(4).mean(0, dtype=torch.float64)
    assert {problem.path for problem in caught.value.problems} == {"label", "point.x", "point.w"}
    for call in (lambda b: b.logsumexp(0), lambda b: b.softmax(0, dtype=torch.float32)):
        with pytest.raises(SchemaError, match="label"):
            call(sample(4))
    with pytest.raises(SchemaError, match="Mask: 1 problem"):
        Mask(m=torch.ones(3, dtype=torch.bool)).sum(0)
    assert point(4).sum(0, dtype=torch.float32).w.dtype is torch.float32


@pytest.mark.parametrize("dim", [None, "feature"])
def test_other_shapes_are_untyped(dim):
    """Over events or everything the result is no instance of the class, at no level."""
    batch = sample(4, 2)
    result = batch.sum(dim)
    assert type(result) is TensorDict
    assert type(result["point"]) is TensorDict
    expect("sum", batch, result, dim, False)
    mixed = TensorDict({"p": point(4, 2)}, batch_size=[4, 2])
    assert type(mixed.sum(dim)["p"]) is TensorDict
    assert type(mixed.sum(0)["p"]) is Point


def test_tests_and_indices_are_untyped():
    """Bools and positions are not what the class declares."""
    batch = sample(4, 2)
    assert type(batch.all(0)) is TensorDict
    assert type(batch.all(0)["point"]) is TensorDict
    found = batch.max(0)
    assert type(found.values) is Sample
    assert type(found.indices) is TensorDict
    assert "table" not in found.indices
    assert "source" not in found.indices
    assert type(batch.sum(0, key_transform=str.upper)) is TensorDict
    assert (batch == batch).all() is True
    assert type(point(4).norm()) is TensorDict


def test_typed_objects_of_elements():
    """The field is named."""
    with pytest.raises(StructureError, match="sum: `who` holds one object for each element"):
        Tagged(x=torch.ones(2), who=["a", "b"]).sum(0)


# ---- torch functions, autograd, transforms ---------------------------------------------------------------------------


@pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.name)
def test_torch_functions(row):
    """`torch.sum(batch, 0)` is `batch.sum(0)`."""
    data = named()
    arguments = () if row.name == "norm" else (*FIRST.get(row.name, ()), 0)
    ours, theirs = getattr(data, row.name)(*arguments), getattr(torch, row.name)(data, *arguments)
    if row.form in ("indexed", "running"):
        ours, theirs = ours.values, theirs.values
    assert all(torch.equal(a, b) for a, b in zip(ours._leaves(), theirs._leaves(), strict=True))


def test_torch_functions_with_other_arguments():
    """Forms of torch functions that mean something else are kept apart."""
    data = named()
    assert torch.equal(torch.max(data, data * 2)["a"], torch.maximum(data["a"], data["a"] * 2))
    assert torch.equal(torch.min(data, other=data * 2)["a"], torch.minimum(data["a"], data["a"] * 2))
    assert torch.equal(torch.nn.functional.softmax(data, dim=0)["a"], data["a"].softmax(0))
    for call, match in (
        (lambda: torch.std(data, 0, True), "takes `correction=`, not `unbiased`"),
        (lambda: torch.var(data, 0, unbiased=False), "takes `correction=`, not `unbiased`"),
        (lambda: torch.norm(data, p=1), "Euclidean norm"),
        (lambda: torch.norm(data, dim=0), "Euclidean norm"),
        (lambda: torch.nn.functional.softmax(data), "give the batch dim"),
        (lambda: torch.sum(torch.ones(2), dim=data), "the first argument is the container"),
    ):
        with pytest.raises(TypeError, match=match):
            call()


def test_fields_may_hide_reductions():
    """With `shadow` a field may be called `mean`; the torch function still reduces."""

    class Stats(TensorClass, shadow=True):
        mean: Float32[Tensor, ""]
        all: Float32[Tensor, ""]

    stats = Stats(mean=torch.ones(2), all=torch.zeros(2))
    assert torch.equal(torch.mean(stats, 0).mean, torch.tensor(1.0))
    assert torch.all(stats) is False


@pytest.mark.parametrize("name", [*(n for n in TOTALS if n != "quantile"), "logsumexp", "softmax"])
@pytest.mark.parametrize("dim", [0, (0, 1)])
def test_gradients(name, dim):
    """Gradients are those of the reductions of the leaves."""
    if name == "softmax":
        dim = 0
    data = TensorDict({"a": numbers(2, 3, 4), "n": {"b": numbers(2, 3)}}, batch_size=[2, 3]).requires_grad_()
    getattr(data, name)(dim).apply(torch.square).sum(reduce=True).backward()
    for key in ("a", ("n", "b")):
        leaf = data[key].detach().clone().requires_grad_()
        result = (
            leaf.softmax(0)
            if name == "softmax"
            else reference(name, leaf, (dim,) if isinstance(dim, int) else dim, False)
        )
        result.square().sum().backward()
        torch.testing.assert_close(data[key].grad, leaf.grad)


@pytest.mark.parametrize("name", [*(n for n in TOTALS if n != "quantile"), "logsumexp", "softmax", "all"])
def test_vmap(name):
    """Under vmap the mapped dim is out of reach."""
    data = named()
    data.names = None
    result = torch.vmap(lambda d: getattr(d, name)(*FIRST.get(name, ()), 0))(data)
    wanted = getattr(data, name)(*FIRST.get(name, ()), 1)
    for key in ("a", ("n", "b")):
        torch.testing.assert_close(result[key], wanted[key])


@pytest.mark.parametrize("make", [named, lambda: sample(4, 2).point], ids=["nested", "typed"])
def test_compiles_whole(make):
    """One graph holds several reductions of all forms."""
    data = make()

    def run(d: Any) -> Any:
        return (
            d.sum(0),
            d.amax(),
            d.mean("feature"),
            d.max(1).values,
            d.softmax(0),
            d.norm(),
            d.std(reduce=True),
            d.all(0),
        )

    got, wanted = torch.compile(run, backend="eager", fullgraph=True)(data), run(data)
    for a, b in zip(got, wanted, strict=True):
        for x, y in zip(
            [a] if isinstance(a, Tensor) else a._leaves(), [b] if isinstance(b, Tensor) else b._leaves(), strict=True
        ):
            torch.testing.assert_close(x, y)


def test_pairs_are_pytrees():
    """Values and indices travel as one value."""
    found = named().max(0)
    doubled = torch.utils._pytree.tree_map(lambda leaf: leaf * 2, found)
    assert torch.equal(doubled.values["a"], found.values["a"] * 2)
    for twin in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert type(twin) is type(found)
        assert torch.equal(twin.indices["a"], found.indices["a"])


def test_results_are_new():
    """A locked container gives an unlocked result, and no leaf is written."""
    data = KINDS["locked"](numbers)
    before = [leaf.clone() for leaf in data._leaves(VALUES)]
    for row in REDUCTIONS:
        getattr(data, row.name)(*([] if row.name == "norm" else [*FIRST.get(row.name, ()), 0]))
    assert all(torch.equal(a, b) for a, b in zip(before, data._leaves(VALUES), strict=True))


# ---- the anchor ------------------------------------------------------------------------------------------------------

SUMS = ("sum", "prod", "nansum", "mean")
CALLS = {
    **{f"{n}()": lambda x, n=n: getattr(x, n)() for n in (*SUMS, "nanmean", "amin", "amax", "norm", "all", "any")},
    **{f"{n}(0)": lambda x, n=n: getattr(x, n)(0) for n in (*SUMS, "all", "any", "logsumexp", "softmax")},
    **{f"{n}(-1,True)": lambda x, n=n: getattr(x, n)(-1, True) for n in (*SUMS, "logsumexp")},
    **{f"{n}(feature)": lambda x, n=n: getattr(x, n)("feature") for n in SUMS},
    **{f"{n}(reduce)": lambda x, n=n: getattr(x, n)(reduce=True) for n in ("sum", "amin", "amax")},
    "sum(tuple,True)": lambda x: x.sum(tuple(range(x.ndim)), True), "sum(keepdim)": lambda x: x.sum(keepdim=True),
    "feature(reduce)": lambda x: x.sum("feature", reduce=True), "std(0)": lambda x: x.std(0, correction=0),
    "quantile": lambda x: x.quantile(0.5, 0), "quantiles": lambda x: x.quantile(torch.tensor([0.1, 0.9]), "feature"),
}  # fmt: skip


@QUIET
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@given(tree=trees(dims=(1, 3), dtypes=(torch.float32, torch.int64, torch.bool)))
def test_as_the_anchor(call, tree: Tree):
    """The same result as the anchor's, or an error from both."""
    ours, theirs = tree.both()
    mine, wanted = outcome(call, ours), outcome(call, theirs)
    if isinstance(wanted, Exception):
        assert isinstance(mine, Exception), f"{tree}\nours: {mine!r}\nthe anchor: {wanted!r}"
    else:
        assert same(mine, wanted), f"{tree}\nours: {mine!r}\nthe anchor: {wanted!r}"


@pytest.mark.parametrize("name", PAIRED)
def test_pairs_as_the_anchor(name):
    """Values and indices in that order, under those names, with the same numbers."""
    entries = {"a": numbers(2, 3, 4), "n": {"b": numbers(2, 3)}}
    ours = getattr(TensorDict(entries, [2, 3]), name)(1)
    theirs = getattr(tensordict.TensorDict(entries, [2, 3]), name)(1)
    assert same(plain(ours.values), plain(theirs.values))
    assert same(plain(ours.indices), plain(theirs.indices))


# ---- what is refused -------------------------------------------------------------------------------------------------

BAD = [
    (lambda d: d.sum(2), BatchDimError, r"sum: dim 2 is not a batch dim; .* legal range is \[-2, 1\]"),
    (lambda d: d.mean(-3), BatchDimError, "mean: dim -3 is not a batch dim"),
    (lambda d: d.sum((0, 5)), BatchDimError, "dim 5"),
    (lambda d: d.sum((0, -2)), BatchDimError, r"sum: dims \[0, -2\] name a batch dim twice"),
    (lambda d: d.sum(()), BatchDimError, r"sum: \(\) names no batch dim; leave `dim` out"),
    (lambda d: d.sum(True), TypeError, "a dim is an int, a name, or a sequence of them, got True"),
    (lambda d: d.sum(0.5), TypeError, "got 0.5"),
    (lambda d: d.sum((0, None)), TypeError, "a dim is an int, got None"),
    (lambda d: d.sum("tiem"), ValueError, "no batch dim is named 'tiem'; the names are"),
    (lambda d: d.sum("feature", True), TypeError, "keepdim=True keeps reduced batch dims"),
    (lambda d: d.sum(keepdim=True, reduce=True), TypeError, "keepdim=True needs a dim"),
    (lambda d: d.sum(0, reduce=True), StructureError, r"one event shape, `a` has \[4\] and `n.b` has \[5, 6\]"),
    (lambda d: d.min((0, 1)), BatchDimError, r"min takes one batch dim, got \(0, 1\).*`amin\(\(0, 1\)\)`"),
    (lambda d: d.max("feature"), TypeError, 'use `amax\\(dim="feature"\\)`'),
    (lambda d: d.min(keepdim=True), TypeError, r"`amin\(keepdim=True\)`"),
    (lambda d: d.cummax((0, 1)), BatchDimError, "cummax takes one batch dim"),
    (lambda d: d.cummin(2), BatchDimError, "cummin: dim 2"),
    (lambda d: d.softmax(2), BatchDimError, "softmax: dim 2"),
    (lambda d: d.softmax((0, 1)), BatchDimError, "softmax takes one batch dim"),
    (lambda d: d.logsumexp(2), BatchDimError, "logsumexp: dim 2"),
    (lambda d: d[0, 0].logsumexp(), BatchDimError, "logsumexp: .* names no batch dim"),
    (lambda d: d.all(keepdim=True), TypeError, "keepdim=True needs a dim"),
    (lambda d: d.any(2), BatchDimError, "any: dim 2"),
    (lambda d: d.quantile(1.5), ValueError, "q lies between 0 and 1, got 1.5"),
    (lambda d: d.quantile("half"), TypeError, "q is a number or a tensor of at most one dim, got 'half'"),
    (lambda d: d.quantile(torch.ones(2, 2)), TypeError, r"got a tensor of shape \[2, 2\]"),
    (lambda d: d.quantile(torch.tensor(2.0), 0), UnsupportedOperationError, "quantile: `a`"),
    (lambda d: d.quantile(0.5, 0, interpolation="mean"), UnsupportedOperationError, "quantile: `a`"),
    (lambda d: d.int().mean(0), UnsupportedOperationError, r"mean: `a` \(torch.int32, shape \[2, 3, 4\]\)"),
    (lambda d: d.int().norm(), UnsupportedOperationError, "norm: `a`"),
    (lambda d: TensorDict(batch_size=[2]).sum(reduce=True), StructureError, "this TensorDict has none"),
    (lambda d: TensorDict(a=torch.ones(2, 0), batch_size=[2]).amin("feature"), UnsupportedOperationError, "amin: `a`"),
]  # fmt: skip


@pytest.mark.parametrize("position", range(len(BAD)))
def test_bad_input(position):
    """Each mistake is an error that says what was given and what to do."""
    call, kind, match = BAD[position]
    with pytest.raises(kind, match=match):
        call(named())


def test_a_batch_dim_called_feature():
    """The word has one meaning; a dim of that name is given by its number."""
    data = TensorDict(a=numbers(2, 3), batch_size=[2, 3], names=["feature", None])
    with pytest.raises(ValueError, match="batch dim 0 by its number"):
        data.sum("feature")
    assert torch.equal(data.sum(0)["a"], data["a"].sum(0))


@given(st.lists(st.integers(-3, 2), min_size=1, max_size=3))
def test_dims_are_normalised(dims):
    """Whatever way dims are given, they are distinct and not negative, or an error."""
    data: Any = TensorDict(batch_size=[1, 2, 3])
    wanted = tuple(d % 3 for d in dims)
    if len(set(wanted)) < len(wanted):
        with pytest.raises(BatchDimError, match="twice"):
            named_dims(data, dims, "sum")
    else:
        assert named_dims(data, dims, "sum") == wanted


def test_methods_come_from_the_table():
    """The generated class has a method for each row and nothing else, with the row's first sentence."""
    cls = next(cls for cls in TensorDict.__mro__ if cls.__name__ == "ReductionOps")
    own = {name for name, value in vars(cls).items() if callable(value)}
    assert own == {row.name for row in REDUCTIONS}
    assert all((getattr(TensorDict, row.name).__doc__ or "").startswith(row.doc) for row in REDUCTIONS)
    assert _generate.REDUCTIONS_TARGET.read_text("utf-8") == _reduce_source.source()
