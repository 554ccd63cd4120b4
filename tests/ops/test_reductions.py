"""Every reduction over every kind of dim, against torch on each leaf."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tensorclass import NonTensorStack, TensorDict
from tensorclass._operations import REDUCTIONS
from tensorclass.errors import BatchDimError, StructureError, UnsupportedOperationError
from tensorclass.store import Unbatched
from tests.contract._invariants import check
from tests.contract._kinds import KINDS
from tests.ops._reference import (
    CASES,
    DIMS,
    FIRST,
    PAIRED,
    PLAIN_KINDS,
    QUIET,
    TOTALS,
    expect,
    named,
    numbers,
    reference,
    spans,
)

# ---- every row, every kind of dim ------------------------------------------------------------------------------------


def refused(name: str, kind: str, ndim: int, dim: Any) -> tuple[type[Exception], str] | None:
    """What a reduction of this kind of container must raise, if anything."""
    if dim in (0, -1, (0, -1)) and not ndim:
        return BatchDimError, f"{name}: dim .* no batch dims"
    if dim == (0, -1) and ndim == 1:
        return BatchDimError, "twice"
    if kind == "vacant" and (name == "quantile" or (name in ("amin", "amax") and dim in (0, (0, -1), None))):
        return UnsupportedOperationError, f"{name}: `a` "
    return None


@QUIET
@pytest.mark.parametrize("kind", PLAIN_KINDS)
@pytest.mark.parametrize(("name", "dims"), CASES)
def test_as_torch_on_every_leaf(name, kind, dims):
    """A reduction does to every leaf what torch does, over the dims that are meant and no others."""
    data, dim = KINDS[kind](numbers), DIMS[dims]
    error = refused(name, kind, data.ndim, dim)
    for keepdim in (False, True) if dim != "feature" else (False,):
        if error is not None:
            with pytest.raises(error[0], match=error[1]):
                getattr(data, name)(*FIRST.get(name, ()), dim, keepdim)
        else:
            expect(name, data, getattr(data, name)(*FIRST.get(name, ()), dim, keepdim), dim, keepdim)


@pytest.mark.parametrize("kind", [kind for kind in PLAIN_KINDS if kind not in ("scalar", "vacant")])
@pytest.mark.parametrize("name", PAIRED)
@pytest.mark.parametrize("dim", [0, -1])
def test_values_and_indices(name, kind, dim):
    """Extrema along a dim come with their positions, as torch gives them."""
    data = KINDS[kind](numbers)
    at = dim % data.ndim
    found = getattr(data, name)(dim)
    alone = getattr(data, name)(dim, return_indices=False)
    check(found.values)
    check(found.indices)
    assert list(found._fields) == ["values", "indices"]
    wanted = {path: getattr(torch, name)(leaf, at) for path, (leaf, _) in spans(data).items()}
    for path, pair in wanted.items():
        assert torch.equal(spans(found.values)[path][0], pair.values)
        assert torch.equal(spans(alone)[path][0], pair.values)
        assert torch.equal(spans(found.indices)[path][0], pair.indices)
    kept = name in ("cummin", "cummax")
    assert found.values.batch_size == found.indices.batch_size
    assert found.values.names == [n for d, n in enumerate(data.names) if kept or d != at]
    if not kept:
        assert getattr(data, name)(dim, True).indices.batch_size[at] == 1


@pytest.mark.parametrize("kind", [kind for kind in PLAIN_KINDS if kind != "scalar"])
def test_softmax(kind):
    """Softmax keeps every shape and name, and sums to one along its dim."""
    data = KINDS[kind](numbers)
    result = data.softmax(0)
    check(result)
    assert (result.batch_size, result.names) == (data.batch_size, data.names)
    for path, (leaf, _) in spans(data).items():
        torch.testing.assert_close(spans(result)[path][0], leaf.softmax(0))
    assert all(leaf.dtype is torch.float32 for leaf, _ in spans(data.softmax(-1, dtype=torch.float32)).values())


@pytest.mark.parametrize("kind", PLAIN_KINDS)
def test_norm(kind):
    """A norm is taken over all elements of a leaf."""
    data = KINDS[kind](numbers)
    result = data.norm()
    assert result.batch_size == ()
    for path, (leaf, _) in spans(data).items():
        torch.testing.assert_close(spans(result)[path][0], leaf.square().sum().sqrt())
    out = data.clone().norm() * 0
    assert data.norm(out=out) is out
    assert all(torch.equal(a, b) for a, b in zip(out._leaves(), result._leaves(), strict=True))
    assert all(leaf.dtype is torch.float32 for leaf in data.norm(dtype=torch.float32)._leaves())


@pytest.mark.parametrize("kind", PLAIN_KINDS)
@pytest.mark.parametrize("name", ["all", "any"])
def test_a_bool_for_everything(name, kind):
    """Without a dim, `all` and `any` give a Python bool."""
    data = KINDS[kind](numbers)
    fold = {"all": all, "any": any}[name]
    for tested in (data == data, data != data, data > 0):
        result = getattr(tested, name)()
        assert type(result) is bool
        assert result is fold(bool(getattr(leaf, name)()) for leaf, _ in spans(tested).values())
        assert getattr(torch, name)(tested) is result


def test_one_element_decides():
    """A single element in the last of many leaves is found."""
    data = TensorDict({str(i): torch.ones(3) for i in range(9)}, batch_size=[3])
    data["8"][2] = 0
    assert data.all() is False
    assert data.any() is True
    assert TensorDict(batch_size=[2]).all() is True
    assert TensorDict(batch_size=[2]).any() is False


# ---- names, options, several quantiles, renaming ---------------------------------------------------------------------


@pytest.mark.parametrize("row", [row for row in REDUCTIONS if row.name != "norm"], ids=lambda row: row.name)
def test_dims_by_name(row):
    """A name is as good as a number."""
    data = named()
    by_name, by_number = (getattr(data, row.name)(*FIRST.get(row.name, ()), dim) for dim in ("lane", 1))
    if row.form in ("indexed", "running"):
        by_name, by_number = by_name.values, by_number.values
    assert by_name.names == by_number.names
    assert all(torch.equal(a, b) for a, b in zip(by_name._leaves(), by_number._leaves(), strict=True))


def test_names_below():
    """A nested container keeps the names of the dims that only it has."""
    data = named()
    assert data.sum("time")["n"].names == ["lane", "joint"]
    assert data.sum(("time", 1))["n"].names == ["joint"]
    assert data.sum("feature")["n"].names == ["time", "lane", "joint"]
    assert data.sum(keepdim=True)["n"].batch_size == (1, 1, 1)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "nansum", "nanmean"])
def test_dtype(name):
    """Leaves are cast before they are reduced: bytes don't overflow."""
    data = TensorDict(a=torch.full((2, 3), 100, dtype=torch.uint8), batch_size=[2])
    for dim in (None, 0, "feature"):
        result = getattr(data, name)(dim, dtype=torch.float64)["a"]
        assert result.dtype is torch.float64
        wide = data["a"].double()
        wanted = getattr(wide, name)() if dim is None else getattr(wide, name)(0 if dim == 0 else 1)
        assert torch.equal(result, wanted)


@pytest.mark.parametrize("correction", [0, 1, 2])
def test_correction(correction):
    """The degrees of freedom are what the caller says."""
    data = TensorDict(a=numbers(5, 3), batch_size=[5])
    for name in ("std", "var"):
        wanted = getattr(torch, name)(data["a"], 0, correction=correction)
        assert torch.equal(getattr(data, name)(0, correction=correction)["a"], wanted)
        whole = getattr(torch, name)(data["a"], correction=correction)
        assert torch.equal(getattr(data, name)(correction=correction)["a"], whole)


def test_several_quantiles():
    """Several quantiles stand in front of every dim, the batch dims included."""
    data, q = named(), torch.tensor([0.2, 0.5, 0.8])
    for dim, size, names in (
        (1, (3, 2), [None, "time"]),
        ("feature", (3, 2, 3), [None, "time", "lane"]),
        (None, (), []),
    ):
        result = data.quantile(q, dim)
        check(result)
        assert (tuple(result.batch_size), result.names) == (size, names)
    torch.testing.assert_close(data.quantile(q, 0)["a"], torch.quantile(data["a"], q.double(), 0))
    kept = data.quantile(q, (0, 1), True)
    assert kept["n"].batch_size == (3, 1, 1, 5)
    torch.testing.assert_close(kept["a"][:, 0, 0], torch.quantile(data["a"].flatten(0, 1), q.double(), 0))
    assert data.quantile(q, keepdim=True)["n", "b"].shape == (3, 1, 1, 1, 1)
    low = data.quantile(0.5, 0, interpolation="lower")["a"]
    assert torch.equal(low, torch.quantile(data["a"], 0.5, 0, interpolation="lower"))


def test_key_transform():
    """Every key of the result is renamed, at every level; values and sizes are those of the plain call."""
    data = named()
    for result in (
        data.mean(0, key_transform=lambda key: f"mean_{key}"),
        data.norm(key_transform=lambda key: f"mean_{key}"),
    ):
        check(result)
        assert list(result.keys(True, True)) == ["mean_a", ("mean_n", "mean_b")]
    assert torch.equal(data.mean(0, key_transform=str.upper)["N", "B"], data["n", "b"].mean(0))


def test_logsumexp_reduces_batch_dims_only():
    """Without a dim all batch dims are reduced, and no event dim."""
    data = named()
    torch.testing.assert_close(data.logsumexp()["n", "b"], torch.logsumexp(data["n", "b"], (0, 1)))
    out = data.logsumexp(0) * 0
    assert data.logsumexp(0, out=out) is out
    torch.testing.assert_close(out["a"], torch.logsumexp(data["a"], 0))


def test_key_transform_is_checked():
    """Two entries under one key, or a key that is none, are refused."""
    data = TensorDict(a=numbers(2), b=numbers(2), batch_size=[2])
    with pytest.raises(StructureError, match=r"key_transform gives 'x' for several keys, the last of them 'b'"):
        data.sum(key_transform=lambda key: "x")
    with pytest.raises(TypeError, match="key_transform gives a string for every key, got None for 'a'"):
        data.sum(key_transform=lambda key: None)


# ---- all leaves together ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOTALS)
def test_together(name):
    """With `reduce=True` all leaves are one tensor."""
    data = named()
    flat = torch.cat([leaf.reshape(-1) for leaf in data._leaves()])
    first = FIRST.get(name, ())
    whole = getattr(data, name)(*first, reduce=True)
    torch.testing.assert_close(whole, reference(name, flat, (0,), False).reshape(()))
    rows = torch.cat([leaf.flatten(2) for leaf in data._leaves()], -1)
    torch.testing.assert_close(getattr(data, name)(*first, "feature", reduce=True), reference(name, rows, (2,), False))
    alike = TensorDict(a=numbers(2, 3, 4), b=-numbers(2, 3, 4), batch_size=[2, 3])
    for dim, dims in ((0, (0,)), (-1, (1,)), ((0, 1), (0, 1))):
        joined = torch.cat([alike["a"], alike["b"]], dims[0])
        for keepdim in (False, True):
            result = getattr(alike, name)(*first, dim, keepdim, reduce=True)
            torch.testing.assert_close(result, reference(name, joined, dims, keepdim))


@pytest.mark.parametrize("name", PAIRED)
def test_pairs_together(name):
    """Extrema of joined leaves are what torch gives for the joined tensor."""
    data = TensorDict(a=numbers(2, 3), b=-numbers(2, 3), batch_size=[2, 3])
    wanted = getattr(torch, name)(torch.cat([data["a"], data["b"]], 1), 1)
    found = getattr(data, name)(-1, reduce=True)
    assert torch.equal(found.values, wanted.values)
    assert torch.equal(found.indices, wanted.indices)
    assert torch.equal(getattr(data, name)(-1, reduce=True, return_indices=False), wanted.values)
    if name in ("min", "max"):
        assert torch.equal(
            getattr(data, name)(reduce=True), wanted.values.amin() if name == "min" else wanted.values.amax()
        )


def test_together_with_objects_and_shared_tensors():
    """Objects are no part of a single number; a shared tensor is, but joins no batch."""
    data = TensorDict(
        {"a": torch.ones(2), "who": NonTensorStack("x", "y"), "t": Unbatched(torch.ones(3)), "s": "scan"}, [2]
    )
    assert data.sum(reduce=True).item() == 5
    with pytest.raises(StructureError, match=r"sum\(reduce=True\): `t` has no batch dims"):
        data.sum(0, reduce=True)
