"""Every row of the table with every kind of operand against torch on each leaf, and what the kernels refuse."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
import tensordict
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import NonTensorStack, TensorDict, is_leaf_nontensor
from tensorclass._operations import COMPARISONS, ROWS, Row
from tensorclass.errors import BatchSizeError, StructureError, UnsupportedOperationError
from tensorclass.store import Unbatched

BATCH = (2, 3)
UNARY_ROWS = [row for row in ROWS if row.arity == 0]
BINARY_ROWS = [row for row in ROWS if row.arity == 1]
TERNARY_ROWS = [row for row in ROWS if row.arity == 2]
IN_PLACE_ROWS = [row for row in ROWS if row.in_place]
NUMBERS = {"any": 0.5, "positive": 2.0, "unit": 0.25, "nonzero": -3.0, "int": 3, "bool": True}
KINDS = ("container", "reordered", "number", "numpy", "scalar", "batch", "row", "column", "smaller")


def rows(among: list[Row]) -> Any:
    """One test for each row."""
    return pytest.mark.parametrize("row", among, ids=lambda row: row.name)


def values(domain: str, *shape: int) -> Tensor:
    """A tensor on which an operation of this domain is well defined."""
    if domain == "bool":
        return torch.rand(shape) > 0.5
    if domain == "int":
        return torch.randint(-5, 6, shape)
    raw = torch.rand(shape, dtype=torch.float64)
    if domain in ("any", "nonzero"):
        return (raw + 0.1) * torch.where(torch.rand(shape) > 0.5, 3.0, -3.0)
    return raw * 0.8 + 0.1


def batch(domain: str, size: tuple[int, ...] = BATCH) -> TensorDict:
    """Leaves of several event ranks, one of them nested."""
    entries = {"a": values(domain, *size), "n": {"b": values(domain, *size, 4), "c": values(domain, *size, 2, 1)}}
    return TensorDict(entries, batch_size=size)


def reordered(data: TensorDict) -> TensorDict:
    """The same entries in another order."""
    nested = {"c": data["n", "c"], "b": data["n", "b"]}
    return TensorDict({"n": nested, "a": data["a"]}, batch_size=data.batch_size)


def operand(kind: str, domain: str) -> Any:
    """A second operand of one kind."""
    number = NUMBERS[domain]
    shapes: dict[str, tuple[int, ...]] = {"scalar": (), "batch": BATCH, "row": (3,), "column": (2, 1)}
    if kind == "container":
        return batch(domain)
    if kind == "reordered":
        return reordered(batch(domain))
    if kind == "smaller":
        return batch(domain, (1, 3))
    if kind == "number":
        return number
    if kind == "numpy":
        return np.array(number)[()]
    return values(domain, *shapes[kind])


def at(other: Any, path: Any, leaf: Tensor) -> Any:
    """What an operand means for one leaf."""
    if isinstance(other, TensorDict):
        return other[path]
    if isinstance(other, np.generic):
        return other.item()
    return (
        other.reshape(*other.shape, *[1] * (leaf.ndim - len(BATCH)))
        if isinstance(other, Tensor) and other.ndim
        else other
    )


def paths(data: TensorDict) -> list[Any]:
    """The key of every leaf."""
    return list(data.keys(include_nested=True, leaves_only=True))


def as_tensors(row: Row, others: list[Any], leaf: Tensor) -> list[Any]:
    """Numbers as tensors where torch takes none."""
    mixed = row.numbers == "together" and any(isinstance(other, Tensor) for other in others)
    last = len(others) - 1
    return [
        torch.tensor(other, dtype=torch.result_type(leaf, other))
        if not isinstance(other, Tensor) and (row.numbers == "no" or mixed or (row.numbers == "last" and i != last))
        else other
        for i, other in enumerate(others)
    ]


def expected(row: Row, data: TensorDict, *others: Any, **options: Any) -> dict[Any, Tensor]:
    """The operation by torch, leaf by leaf."""
    function = getattr(torch, row.torch_name)
    result = {}
    for path in paths(data):
        leaf = data[path]
        result[path] = function(leaf, *as_tensors(row, [at(other, path, leaf) for other in others], leaf), **options)
    return result


def assert_leaves(result: TensorDict, wanted: dict[Any, Tensor]) -> None:
    """A result has these leaves, and keeps the promise of its batch size."""
    assert type(result) is TensorDict
    assert set(paths(result)) == set(wanted)
    for path, value in wanted.items():
        torch.testing.assert_close(result[path], value, equal_nan=True, msg=lambda text, path=path: f"{path}: {text}")
        assert result[path].shape[: result.ndim] == result.batch_size


@rows(UNARY_ROWS)
def test_unary(row: Row):
    """Each function gives torch's result for each leaf, leaves its input alone and keeps batch size and names."""
    data = batch(row.domain)
    data.names = ["time", None]
    before = data.clone()
    wanted = expected(row, data)
    result = getattr(data, row.name)()
    assert_leaves(result, wanted)
    assert_leaves(data, {path: before[path] for path in paths(before)})
    assert (result.batch_size, result.names) == (torch.Size(BATCH), ["time", None])
    if row.forward:
        assert_leaves(getattr(data, row.forward)(), wanted)


@rows(BINARY_ROWS)
@pytest.mark.parametrize("kind", KINDS)
def test_binary(row: Row, kind: str):
    """Every operation with every kind of operand, by method and by operator."""
    data, other = batch(row.domain), operand(kind, row.other_domain)
    wanted = expected(row, data, other)
    assert_leaves(getattr(data, row.name)(other), wanted)
    if row.forward:
        assert_leaves(getattr(operator, row.forward)(data, other), wanted)


@rows([row for row in BINARY_ROWS if row.reflected])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("container", "reordered", "smaller")])
def test_reflected(row: Row, kind: str):
    """A number, numpy scalar or tensor may stand on the left of an operator."""
    data, other = batch(row.other_domain), operand(kind, row.domain)
    function = getattr(operator, row.reflected.replace("__r", "__", 1))
    wanted = {path: function(at(other, path, data[path]), data[path]) for path in paths(data)}
    assert_leaves(function(other, data), wanted)


@rows(TERNARY_ROWS)
@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_ternary(row: Row, first: str, second: str):
    """Every pair of operand kinds."""
    data, others = batch(row.domain), [operand(first, "any"), operand(second, row.other_domain)]
    assert_leaves(getattr(data, row.name)(*others), expected(row, data, *others))


@pytest.mark.parametrize(
    ("row", "kind"),
    [pytest.param(row, kind, id=f"{row.name}-{kind}") for row in IN_PLACE_ROWS for kind in KINDS[: 9 * row.arity or 1]],
)
def test_in_place(row: Row, kind: str):
    """The twin writes what the operation returns into the same tensors, also of a locked container."""
    data = batch(row.domain).lock_()
    tensors = {path: data[path] for path in paths(data)}
    others = [operand(kind, row.other_domain) for _ in range(row.arity)]
    wanted = expected(row, data, *others)
    assert getattr(data, f"{row.name}_")(*others) is data
    assert_leaves(data, wanted)
    assert all(data[path] is tensor for path, tensor in tensors.items())


@rows([row for row in IN_PLACE_ROWS if row.augmented])
@pytest.mark.parametrize("kind", KINDS)
def test_augmented(row: Row, kind: str):
    """`batch += other` keeps the object and its tensors."""
    data, other = batch(row.domain), operand(kind, row.other_domain)
    same, tensor, wanted = data, data["n", "b"], expected(row, data, other)
    data = getattr(operator, row.augmented)(data, other)
    assert data is same
    assert data["n", "b"] is tensor
    assert_leaves(data, wanted)


@rows([row for row in ROWS if row.options])
@pytest.mark.parametrize("kind", KINDS)
def test_scaled(row: Row, kind: str):
    """`alpha` and `value` scale as in torch, in place too."""
    options = dict.fromkeys(row.options, 2.0)
    data, others = batch(row.domain), [operand(kind, row.other_domain) for _ in range(row.arity)]
    wanted = expected(row, data, *others, **options)
    assert_leaves(getattr(data, row.name)(*others, **options), wanted)
    if row.in_place:
        assert_leaves(getattr(data, f"{row.name}_")(*others, **options), wanted)


# ---- against the anchor ----------------------------------------------------------------------------------------------


def anchored(data: TensorDict) -> Any:
    """The same container of the anchor's."""
    return tensordict.TensorDict({path: data[path] for path in paths(data)}, batch_size=data.batch_size)


def anchor_name(row: Row) -> str:
    """What the anchor calls an operation; empty where it has none."""
    names = [name for name in (row.name, row.forward) if name and name in dir(tensordict.TensorDict)]
    return names[0] if names else ""


@rows([row for row in ROWS if anchor_name(row)])
@pytest.mark.parametrize("kind", ["container", "number", "batch"])
def test_as_the_anchor(row: Row, kind: str):
    """Where the anchor computes a result, ours is the same: values, dtypes, batch size."""
    data, others = batch(row.domain), [operand(kind, row.other_domain) for _ in range(row.arity)]
    theirs = [anchored(other) if isinstance(other, TensorDict) else other for other in others]
    anchor = anchored(data)
    try:
        wanted = getattr(anchor, anchor_name(row))(*theirs)
    except TypeError:
        assert kind == "number"  # which the anchor does not take everywhere
        return
    result = getattr(data, row.name)(*others)
    assert_leaves(result, {path: wanted[path] for path in paths(result)})
    assert result.batch_size == wanted.batch_size


@pytest.mark.parametrize("default", ["intersection", torch.tensor(2.0), torch.tensor([2.0, 3.0])])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "maximum", "clamp_max", "rsub"])
def test_default_as_the_anchor(name: str, default: Any):
    """Absent entries are filled in on either side, or dropped, as documented."""
    left = {"a": torch.rand(2) + 1, "b": torch.rand(2, 4) + 1}
    right = {"b": torch.rand(2, 4) + 1, "c": torch.rand(2) + 1}
    ours = getattr(TensorDict(left, batch_size=[2]), name)(TensorDict(right, batch_size=[2]), default=default)
    pair = [tensordict.TensorDict(entries, batch_size=[2]) for entries in (left, right)]
    wanted = getattr(pair[0], name)(pair[1], default=default)
    assert_leaves(ours, dict(wanted.items()))


def test_default_nested():
    """Defaults reach nested entries; the result has the left order first; non-tensors come along."""
    left = TensorDict({"n": {"a": torch.ones(2)}, "z": torch.ones(2), "tag": "x"}, batch_size=[2])
    right = TensorDict({"m": {"q": torch.full((2,), 3.0)}, "n": {"b": torch.full((2,), 5.0)}}, batch_size=[2])
    union = left.add(right, default=10)
    assert list(union.keys(include_nested=True, is_leaf=is_leaf_nontensor, leaves_only=True)) == [
        ("n", "a"),
        ("n", "b"),
        "z",
        "tag",
        ("m", "q"),
    ]
    assert union["n", "a"].tolist() == [11, 11]
    assert union["n", "b"].tolist() == [15, 15]
    assert (union["m", "q"].tolist(), union["tag"]) == ([13, 13], "x")
    both = left.add(right, default="intersection")
    assert both["n"].is_empty()
    assert "z" not in both


@pytest.mark.parametrize("default", ["intersection", 3.0])
def test_default_in_place(default: Any):
    """In place, own entries that the other lacks take the default or stay; entries are never added."""
    data = TensorDict(a=torch.ones(2), b=torch.ones(2), batch_size=[2])
    data.add_(TensorDict(b=torch.ones(2), batch_size=[2]), default=default)
    assert (data["a"].tolist(), data["b"].tolist()) == ([1, 1] if default == "intersection" else [4, 4], [2, 2])
    with pytest.raises(StructureError, match="adds no entries, only the right container has `c`"):
        data.add_(TensorDict(c=torch.ones(2), batch_size=[2]), default=0.0)


def test_bad_default():
    """An unknown word is no default, nor is a tensor that is not over the batch."""
    left, right = TensorDict(a=torch.ones(2), batch_size=[2]), TensorDict(b=torch.ones(2), batch_size=[2])
    with pytest.raises(ValueError, match="'intersection' or None, got 'union'"):
        left.add(right, default="union")  # type: ignore[arg-type]
    with pytest.raises(BatchSizeError, match=r"batch size \[2\], got shape \[3\]"):
        left.add(right, default=torch.ones(3))


# ---- comparisons -----------------------------------------------------------------------------------------------------


@rows(list(COMPARISONS))
def test_comparisons_are_bool(row: Row):
    """A comparison gives the same class with bool leaves."""
    result = getattr(batch("any"), row.name)(batch("any"))
    assert {result[path].dtype for path in paths(result)} == {torch.bool}


@pytest.mark.parametrize("other", ["text", None, object(), [1, 2], {"a": 1}])
def test_foreign_operands(other: Any):
    """Operators leave a foreign operand to Python; methods say what they take."""
    data = batch("any")
    assert (data == other) is False
    assert (data != other) is True
    for function in (operator.add, operator.lt, operator.iadd, operator.pow):
        with pytest.raises(TypeError, match=r"unsupported operand|not supported between"):
            function(data, other)
    with pytest.raises(TypeError, match=f"add: an operand is a container .* got {type(other).__name__}"):
        data.add(other)


# ---- alignment -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2,), (4,), (2, 3, 4), (5, 2, 3), (2, 4)])
def test_tensor_must_fit_the_batch(shape: tuple[int, ...]):
    """A tensor operand never reaches an event dim nor enlarges the batch."""
    for call in (lambda data, t: data + t, lambda data, t: data.mul_(t), lambda data, t: data.lerp(t, 0.5)):
        with pytest.raises(BatchSizeError, match=r"broadcasts to the batch size \[2, 3\] without enlarging it"):
            call(batch("any"), torch.ones(shape))


def test_keys_must_agree():
    """The error names what each side lacks, the near miss, and the way out."""
    left = TensorDict({"image": torch.ones(2), "n": {"b": torch.ones(2)}}, batch_size=[2])
    right = TensorDict({"imaga": torch.ones(2), "n": {"b": torch.ones(2)}}, batch_size=[2])
    with pytest.raises(
        StructureError, match=r"left TensorDict has `image`, .* has `imaga`.*mean `image`.*default=0"
    ) as caught:
        left + right
    assert "n.b" not in str(caught.value)
    with pytest.raises(StructureError, match=r"only the left TensorDict has `n.b`, only the right TensorDict has `n`"):
        left + TensorDict({"image": torch.ones(2), "n": torch.ones(2)}, batch_size=[2])


@pytest.mark.parametrize("size", [(3,), (4, 2)])
def test_batch_sizes_must_agree(size: tuple[int, ...]):
    """Batch sizes that do not broadcast are refused; in place the left one is never enlarged."""
    data = TensorDict(a=torch.ones(2), batch_size=[2])
    other = TensorDict(a=torch.ones(size), batch_size=size)
    with pytest.raises(StructureError, match=r"batch size .* does not broadcast to the left's \[2\]"):
        data.add_(other)
    if size == (3,):
        with pytest.raises(StructureError, match=r"batch size .* does not broadcast to the left's \[2\]"):
            data + other


def test_event_ranks_must_agree():
    """A leaf is never broadcast against one of another rank."""
    left = TensorDict({"n": {"x": torch.ones(2, 2)}}, batch_size=[2])
    right = TensorDict({"n": {"x": torch.ones(2)}}, batch_size=[2])
    with pytest.raises(StructureError, match=r"`n.x` has event shape \[2\] on the left and \[\] on the right"):
        left * right
    with pytest.raises(StructureError, match=r"shapes at `n.x` do not broadcast: \[2, 2\] .* \[2, 3\]"):
        left * TensorDict({"n": {"x": torch.ones(2, 3)}}, batch_size=[2])


def test_torch_errors_name_the_leaf():
    """What torch refuses is told with the leaf, from torch's own error."""
    data = TensorDict({"a": torch.ones(2, dtype=torch.int64), "n": {"x": torch.ones(2)}}, batch_size=[2])
    with pytest.raises(
        UnsupportedOperationError, match=r"bitwise_and: `n.x` \(operands \[2\] of torch.float32\)"
    ) as caught:
        data & 1
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(UnsupportedOperationError, match=r"bitwise_not: `n.x`"):
        ~data


def test_event_dims_may_broadcast():
    """Leaves of equal rank broadcast over their event dims, as tensors do."""
    result = TensorDict(a=torch.ones(2, 1), batch_size=[2]) + TensorDict(a=torch.ones(2, 3), batch_size=[2])
    assert result["a"].shape == (2, 3)


def test_clamp_ends():
    """One end, both or an output; none is an error."""
    data = TensorDict(a=torch.tensor([-2.0, 0.5, 3.0]), batch_size=[3])
    out = data.clone()
    assert data.clamp(0)["a"].tolist() == [0, 0.5, 3]
    assert data.clamp(max=data * 0)["a"].tolist() == [-2, 0, 0]
    assert data.clamp(0, 1, out=out) is out
    assert out["a"].tolist() == [0, 0.5, 1]
    assert data.clamp_(max=1)["a"].tolist() == [-2, 0.5, 1]
    with pytest.raises(TypeError, match="give `min`, `max` or both"):
        data.clamp()


def test_numbers_promote_as_in_torch():
    """A number keeps the precision and the category rules that torch has for it."""
    data = TensorDict(i=torch.arange(3), h=torch.ones(3).bfloat16(), d=torch.ones(3).double(), b=torch.ones(3).bool())
    for other in (True, 2, 0.1, 1j):
        for name in ("add", "mul", "eq"):
            result = getattr(data, name)(other)
            assert {k: v.dtype for k, v in result.items()} == {
                k: getattr(torch, name)(v, other).dtype for k, v in data.items()
            }
    assert data.maximum(1.1)["d"].tolist() == [1.1] * 3
    assert {k: v.dtype for k, v in data.maximum(1.5).items()} == {
        "i": torch.float32,
        "h": torch.bfloat16,
        "d": torch.float64,
        "b": torch.float32,
    }


def test_non_tensors_pass_through():
    """Entries that are no tensors come from the left container."""
    data = TensorDict(a=torch.ones(2), tag="scan", batch_size=[2])
    assert (data + data)["tag"] == "scan"
    assert (data + TensorDict(a=torch.ones(2), batch_size=[2]))["tag"] == "scan"
    assert (data == 1)["tag"] == "scan"


def test_shared_tensors():
    """A tensor without batch dims takes part in arithmetic, but not with a tensor over the batch."""
    data = TensorDict({"a": torch.ones(2, 3), "n": {"shared": Unbatched(torch.ones(5))}}, batch_size=[2])
    results = data + 1, data + data, data * torch.tensor(2.0)
    assert [result["n", "shared"].sum().item() for result in results] == [10, 10, 10]
    assert data.add_(1)["n", "shared"].sum() == 10
    with pytest.raises(StructureError, match=r"add: `n.shared` has no batch dims"):
        data + torch.ones(2)


def test_elementwise_objects_stay():
    """The index of per-element objects is no value: arithmetic leaves it alone."""
    data = TensorDict({"a": torch.ones(2), "who": NonTensorStack("x", "y")}, batch_size=[2])
    assert ((data + 1)["who"].tolist(), (data + torch.ones(2))["a"].tolist()) == (["x", "y"], [2, 2])


@rows(list(ROWS))
def test_empty_container(row: Row):
    """A container without entries is a result like any other."""
    empty = TensorDict(batch_size=[2])
    for other in (empty, 1.0):
        result = getattr(empty, row.name)(*[other] * row.arity)
        assert result.batch_size == torch.Size([2])
        assert result.is_empty()
        if row.in_place:
            assert getattr(empty, f"{row.name}_")(*[other] * row.arity) is empty


# ---- all or nothing --------------------------------------------------------------------------------------------------


def refused(bad: Tensor, call: Any, error: type[Exception], match: str) -> None:
    """The call fails because of the last leaf, and no leaf changed."""
    data = TensorDict({"a": torch.ones(2, 3), "n": {"bad": bad}}, batch_size=[2])
    before = bad.detach().clone()
    with pytest.raises(error, match=match):
        call(data)
    assert data["a"].tolist() == torch.ones(2, 3).tolist()
    assert torch.equal(bad, before)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (torch.ones(2, 3, requires_grad=True), "autograd leaf"),
        (torch.ones(2, 3, requires_grad=True)[:], "view of a tensor that requires grad"),
        ((torch.ones(2, 2, 3, requires_grad=True) * 1).unbind()[0], "one of several views"),
        (torch.ones(2, 1).expand(2, 3), "share memory"),
        (torch.ones(2, 3, dtype=torch.int64), "can't take the result in place"),
        (torch.ones(2, 3, dtype=torch.bool), "can't take the result in place"),
    ],
)
def test_in_place_is_all_or_nothing(bad: Tensor, match: str):
    """One leaf that can't be written leaves all of them as they were, and is named."""
    for call in (lambda d: d.mul_(1.5), lambda d: operator.itruediv(d, 2), lambda d: d.addcdiv_(d + 0.5, d + 2)):
        refused(bad, call, UnsupportedOperationError, f"`n.bad` .*{match}.*nothing was written")


def test_in_place_options_are_checked():
    """A multiplier that one leaf can't take is found before another leaf is written."""
    data = TensorDict(c=torch.ones(2, dtype=torch.complex64), f=torch.ones(2), batch_size=[2])
    with pytest.raises(UnsupportedOperationError, match=r"`f` of torch.float32 can't take the result"):
        data.add_(data.clone(), alpha=1j)
    assert data["c"].tolist() == [1, 1]


def test_in_place_inference_tensor():
    """A tensor made in inference mode is written there only."""
    with torch.inference_mode():
        bad = torch.ones(2, 3)
        TensorDict(a=bad, batch_size=[2]).add_(1)
    assert bad.sum() == 12
    refused(bad, lambda d: d.add_(1), UnsupportedOperationError, "`n.bad` was made in inference mode")


def test_in_place_never_grows_a_leaf():
    """An operand that would enlarge a leaf is refused before any write."""
    other = TensorDict({"a": torch.ones(2, 3), "n": {"bad": torch.ones(2, 3)}}, batch_size=[2])
    refused(torch.ones(2, 1), lambda d: d.add_(other), StructureError, r"`n.bad` has shape \[2, 1\]")


def test_in_place_under_no_grad():
    """What autograd forbids is fine without it."""
    data = TensorDict(a=torch.ones(2, requires_grad=True), batch_size=[2])
    with torch.no_grad():
        data.add_(1)
    assert data["a"].tolist() == [2, 2]


@given(
    st.lists(
        st.sampled_from([torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool]), min_size=1, max_size=4
    ),
    st.sampled_from(["add_", "mul_", "div_", "sub_", "pow_", "maximum_", "clamp_min_"]),
    st.sampled_from([2, 0.5, True, 1j, torch.tensor(2), torch.tensor(0.5), torch.tensor([1.5, 2.0])]),
)
def test_in_place_writes_all_or_none(dtypes: list[torch.dtype], name: str, other: Any):
    """For any mixture of dtypes an in-place operation either does what the plain one does or changes nothing."""
    data = TensorDict({str(i): torch.ones(2, dtype=dtype) for i, dtype in enumerate(dtypes)}, batch_size=[2])
    before = data.clone()
    try:
        getattr(data, name)(other)
    except TypeError:
        wanted = before
    else:
        wanted = getattr(before, name.rstrip("_"))(other)
    assert all(torch.equal(data[key], wanted[key].to(data[key].dtype)) for key in before.keys())  # noqa: SIM118  # no dict


# ---- transforms ------------------------------------------------------------------------------------------------------


@rows(list(ROWS))
def test_vmap(row: Row):
    """Under vmap each operation acts on the batch of one element; foreach kernels would not."""
    data, others = batch(row.domain), [batch(row.other_domain) for _ in range(row.arity)]
    result = torch.vmap(lambda *args: getattr(args[0], row.name)(*args[1:]))(data, *others)
    assert_leaves(result, expected(row, data, *others))
    numbers = [NUMBERS[row.other_domain]] * row.arity
    assert_leaves(torch.vmap(lambda x: getattr(x, row.name)(*numbers))(data), expected(row, data, *numbers))


@rows([row for row in ROWS if row.result != "bool" and row.domain != "int" and row.name != "floor_divide"])
@pytest.mark.parametrize("kind", ["container", "number", "batch"])
def test_gradients(row: Row, kind: str):
    """Gradients flow through every operation as through torch's."""
    data, others = batch(row.domain), [operand(kind, row.other_domain) for _ in range(row.arity)]
    for path in paths(data):
        data[path].requires_grad_()
    result = getattr(data, row.name)(*others)
    leaves = [data[path] for path in paths(data)]
    ours = torch.autograd.grad(sum(result[path].sum() for path in paths(result)), leaves)
    wanted = torch.autograd.grad(sum(value.sum() for value in expected(row, data, *others).values()), leaves)
    torch.testing.assert_close(ours, wanted)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, t: (x + x).sin() * 2,
        lambda x, t: (x - t, t - x, t / x, x > t, t < x, x == t, t**x, x**t, t // x, x % t),
        lambda x, t: x.clone().add_(1).mul_(x).lerp_(x, 0.5).maximum_(0),
        lambda x, t: x.clamp(0, 1).addcmul(x, t, value=2).maximum(0.5),
        lambda x, t: (1 - x) / 2 == 1 / x,
        lambda x, t: x.add(x.select("a"), default=1.0),
        lambda x, t: torch.sub(torch.exp(x), t, alpha=2),
    ],
)
def test_compiles_whole(function: Any):
    """Operations trace into one graph, with the results of eager mode."""
    torch._dynamo.reset()
    data, tensor = batch("positive"), values("positive", *BATCH)
    results, wanted = torch.compile(function, backend="eager", fullgraph=True)(data, tensor), function(data, tensor)
    for ours, theirs in zip(*[r if isinstance(r, tuple) else (r,) for r in (results, wanted)], strict=True):
        assert_leaves(ours, {path: theirs[path] for path in paths(theirs)})


# ---- torch functions -------------------------------------------------------------------------------------------------


@rows(list(ROWS))
def test_torch_functions(row: Row):
    """`torch.add(batch, other)` and its aliases are `batch.add(other)`."""
    data, others = batch(row.domain), [batch(row.other_domain) for _ in range(row.arity)]
    for name in (row.torch_name, *row.aliases):
        assert_leaves(getattr(torch, name)(data, *others), expected(row, data, *others))


@rows(BINARY_ROWS)
def test_torch_functions_tensor_first(row: Row):
    """The container may come second."""
    data, tensor = batch(row.other_domain), values(row.domain, *BATCH)
    function = getattr(torch, row.torch_name)
    wanted = {path: function(at(tensor, path, data[path]), data[path]) for path in paths(data)}
    assert_leaves(function(tensor, data), wanted)


def test_torch_functions_refuse():
    """A container that comes second has no scaled sum, and a tensor is no place for a container."""
    data, tensor = batch("any"), torch.ones(BATCH)
    with pytest.raises(TypeError, match=r"torch.add: the first argument is the container, got Tensor"):
        torch.add(tensor, data, alpha=2)
    with pytest.raises(TypeError, match=r"torch.lerp: the first argument is the container"):
        torch.lerp(tensor, data, 0.5)
    with pytest.raises(TypeError):
        tensor @ data
    assert_leaves(
        torch.sub(tensor, data, alpha=2), expected(next(r for r in ROWS if r.name == "rsub"), data, tensor, alpha=2)
    )


@pytest.mark.parametrize("name", ["add", "sub", "mul", "eq", "lt", "logical_or"])
@pytest.mark.parametrize(
    ("left", "right"), [((2, 1), (2, 4)), ((2, 4), (2, 1)), ((2, 1, 3), (2, 4, 1)), ((2,), (2, 4))]
)
def test_nested_sizes_that_broadcast(name: str, left: tuple[int, ...], right: tuple[int, ...]):
    """A nested container of the result is as large as its leaves, whichever side was larger."""
    one, other = (
        TensorDict({"n": {"m": TensorDict({"x": torch.rand(*size, 2)}, size)}}, [2]) for size in (left, right)
    )
    if len(left) != len(right):
        with pytest.raises(StructureError):
            getattr(one, name)(other)
        return
    found = getattr(one, name)(other)
    size = torch.broadcast_shapes(left, right)
    assert found["n", "m"].batch_size == size
    assert found["n", "m", "x"].shape == (*size, 2)
    assert torch.equal(found["n", "m", "x"], getattr(torch, name)(one["n", "m", "x"], other["n", "m", "x"]))
