"""On another device nothing waits for a value or is copied unasked; fake tensors claim to be on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tensorclass import RaggedTensor, Shared, TensorClass, TensorDict, cat, stack
from tensorclass._operations import POINTWISE, REDUCTIONS, ROWS, TORCH_FUNCTIONS
from tensorclass.typing import Float32, Int64, Shaped
from tests.ops._calls import ENTRIES
from tests.ops._more_calls import OPERATIONS

WAITS = (
    "_local_scalar_dense", "is_nonzero", "item", "nonzero", "masked_select", "equal", "_unique2", "unique_dim",
    "unique_consecutive",
)  # fmt: skip
COPIES = ("_to_copy", "copy_", "copy", "_copy_from")
ASKED = ("cpu", ".to(", "new_tensor", "default=", "fill", "update_({'a':1.0})", "pad=0")
"""What a call holds that moves values, or gives a Python number for tensors there."""
CALLS = sorted({call.strip() for call in [*ENTRIES, *OPERATIONS] if call.strip()})


class Watch(TorchDispatchMode):
    """Writes down what would wait for the device, and which tensors were copied to another one."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []
        self.copied: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.partition("::")[2]
        given = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        if name in WAITS and any(value.device.type == "cuda" for value in given):
            self.waits.append(name)
        result = func(*args, **(kwargs or {}))  # what reads a fake value raises
        devices = {value.device.type for value in tree_leaves((given, result)) if isinstance(value, Tensor)}
        if name in COPIES and len(devices) > 1:
            self.copied.append(given[-1])
        return result

    def source_count(self) -> int:
        """How many of the copies read memory that no other copy read."""
        return len({value.untyped_storage()._cdata for value in self.copied})


def untyped() -> Any:
    """A container whose tensors claim to be on a GPU."""
    nested = TensorDict({"c": torch.ones(2, 3, device="cuda")}, batch_size=[2, 3])
    return TensorDict({"a": torch.ones(2, 3, 4, device="cuda"), "b": nested}, batch_size=[2, 3])


def watched(call: str, names: dict[str, Any]) -> Watch:
    """Run a call and watch it; what torch without CUDA can't do with fake tensors ends early."""
    watch = Watch()
    try:
        with watch:
            (exec if call.startswith("!") else eval)(call.lstrip("!"), names)
    except Exception:  # the calls of the table raise every error there is; here only what they did before counts
        pass
    return watch


@pytest.mark.slow
def test_calls_wait_for_nothing() -> None:
    """No call of the tables waits; only calls that say so copy, and each index goes to the device once."""
    waiting, copying = [], []
    for call in CALLS:
        with FakeTensorMode(allow_non_fake_inputs=True):
            watch = watched(call, {"td": untyped(), "T": TensorDict, "torch": torch})
        waiting += [call] if watch.waits else []
        asked = any(word in call for word in ASKED)
        copying += [call] if not asked and len(watch.copied) > watch.source_count() else []
    assert waiting == []
    assert copying == []


def calls_of_the_tables() -> Iterator[str]:
    """A call of each pointwise operation, in each form that it has, of each reduction and each function of torch."""
    for row in ROWS:
        on = {"int": "n", "bool": "p"}.get(row.domain, "x")
        other = {"int": "n", "bool": "p"}.get(row.other_domain, on)
        number = "2" if row.numbers in ("yes", "last", "together") and other != "p" else ""
        given = [", ".join([other] * row.arity), ", ".join([f"at({other})"] * row.arity)]
        given += [", ".join([number] * row.arity)] if row.arity and number and row.numbers != "last" else []
        for text in dict.fromkeys(given):
            yield f"{on}.{row.name}({text})"
            yield f"{on}.{row.name}_({text})" if row.in_place else ""
        yield f"torch.{row.torch_name}({', '.join([on] + [other] * row.arity)})"
    for reduction in REDUCTIONS:
        more = "0.5, " if "q" in reduction.options else ""
        yield from (
            f"x.{reduction.name}({more}{dim})" for dim in DIMS.get(reduction.name, DIMS.get(reduction.form, ALL))
        )
    yield from ("n.masked_fill(mask, 3)", "n.masked_fill_(mask, 3)")  # a number is compared with what the dtype holds
    yield from (f"torch.{name}({arguments})" for name, arguments in FUNCTIONS.items())


ALL = ("0", "", "dim='feature'")
DIMS = {
    "indexed": ("0", ""), "running": ("0",), "softmax": ("0",), "log_softmax": ("0",), "logsumexp": ("0", ""),
    "test": ("0", "dim='feature'"), "norm": ("",),
}  # fmt: skip
"""The dims of a reduction, by its name or its form; a test without a dim is a Python bool, which waits."""
FAKE_LIMITS = {"x.maximum_(at(x))", "x.minimum_(at(x))", "x.lerp_(at(x), at(x))"}
"""What torch without CUDA can't do with fake tensors."""
FUNCTIONS = {
    "reshape": "x, (3, 2)", "flatten": "x", "unflatten": "x, 0, (2, 1)", "unsqueeze": "x, 0", "squeeze": "x",
    "permute": "x, (1, 0)", "transpose": "x, 0, 1", "swapaxes": "x, 0, 1", "swapdims": "x, 0, 1",
    "movedim": "x, 0, 1", "moveaxis": "x, 0, 1", "flip": "x, (0,)", "fliplr": "x", "flipud": "x", "roll": "x, 1, 0",
    "rot90": "x", "broadcast_to": "x, (4, 2, 3)", "tile": "x, (2, 1)", "repeat_interleave": "x, 2, dim=0",
    "narrow": "x, 0, 0, 1", "atleast_1d": "x", "atleast_2d": "x", "atleast_3d": "x", "gather": "x, 0, index",
    "masked_fill": "x, mask, 0.0", "clone": "x", "split": "x, 1", "tensor_split": "x, 2", "chunk": "x, 2",
    "unbind": "x", "stack": "[x, x]", "cat": "[x, x]", "concat": "[x, x]", "concatenate": "[x, x]",
    "zeros_like": "x", "ones_like": "x", "empty_like": "x", "full_like": "x, 1.0", "rand_like": "x",
    "randn_like": "x", "randint_like": "x, 3", "where": "mask, x, x",
}  # fmt: skip
"""Arguments of the functions that are in no table of operations."""
ANSWERS = {"masked_select", "equal"}
"""Functions whose result is known on the CPU, so they wait."""


@pytest.mark.slow
def test_no_operation_of_the_tables_waits() -> None:
    """Each row succeeds there without waiting for a value, without a copy, and its result is there."""
    assert set(TORCH_FUNCTIONS) == {*FUNCTIONS, *POINTWISE, *ANSWERS}
    wrong = {}
    for call in sorted({*calls_of_the_tables()} - {""} - FAKE_LIMITS):
        with FakeTensorMode(allow_non_fake_inputs=True):
            kinds = {"x": torch.float32, "n": torch.int64, "p": torch.bool}
            names: dict[str, Any] = {
                name: Values(
                    a=torch.ones(2, 3, 4, device="cuda").to(dtype), b=torch.ones(2, 3, device="cuda").to(dtype)
                )
                for name, dtype in kinds.items()
            }
            names |= {
                "torch": torch,
                "at": lambda batch: torch.ones((), dtype=batch.a.dtype, device="cuda"),
                "mask": names["p"].b,
            }
            names["index"] = torch.zeros(1, 3, dtype=torch.int64, device="cuda")
            with Watch() as watch:
                try:
                    result = eval(call, names)
                except Exception as error:
                    result, wrong[call] = None, f"{type(error).__name__}: {error}"
            away = {leaf.device.type for leaf in tree_leaves(result) if isinstance(leaf, Tensor)} - {"cuda"}
        if watch.waits or watch.copied or away:
            wrong[call] = f"waits {watch.waits}, copies {len(watch.copied)}, results on {away}"
    assert wrong == {}


class Values(TensorClass):
    a: Shaped[Tensor, "4"]
    b: Shaped[Tensor, ""]


class Row(TensorClass):
    x: Float32[Tensor, "3"]
    y: Float32[Tensor, ""]
    n: Int64[Tensor, ""]


QUICK = """
Row(x=row.x, y=row.y, n=row.n)
row + row
row.x
row.reshape(2, 2)
row.flatten(0)
stack([row, row])
cat([row, row])
row.clone()
row.sum(0)
row == row
row.replace(y=row.y)
row.to_dict()
torch.zeros_like(row)
""".strip().splitlines()


@pytest.mark.parametrize("call", QUICK)
def test_a_typed_batch_stays_there(call: str) -> None:
    """Construction, checks and operations read no value and copy nothing."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        x, y = torch.zeros(4, 3, device="cuda"), torch.zeros(4, device="cuda")
        row = Row(x=x, y=y, n=torch.zeros(4, dtype=torch.int64, device="cuda"))
        with Watch() as watch:
            eval(call, {"row": row, "Row": Row, "torch": torch, "stack": stack, "cat": cat})
    assert (watch.waits, watch.copied) == ([], [])


def test_an_index_goes_there_once() -> None:
    """A CPU index is copied once, not for each field."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        watch = watched("td.gather(0, torch.zeros(1, 3, dtype=torch.int64))", {"td": untyped(), "torch": torch})
    assert len(watch.copied) == 1


class Inner(TensorClass):
    c: Float32[Tensor, "3"]


class Mixed(TensorClass):
    """A nested, a ragged, an integer and a shared field."""

    x: Float32[Tensor, "4"]
    n: Int64[Tensor, ""]
    inner: Inner
    rows: Float32[RaggedTensor, "s 2"]
    lut: Shared[Float32[Tensor, "8"]]
    tag: str = "a"


def mixed(device: str) -> Mixed:
    """Four elements on a device; their rows differ in number."""
    rows = RaggedTensor([torch.ones(n, 2, device=device) for n in (1, 2, 4, 0)])
    inner = Inner(torch.ones(4, 3, device=device))
    n = torch.zeros(4, dtype=torch.int64, device=device)
    return Mixed(x=torch.ones(4, 4, device=device), n=n, inner=inner, rows=rows, lut=torch.ones(8, device=device))


READS_NOTHING = """
x[0]
x[1:3]
x[index]
x[[0, 2]]
x[None]
x.reshape(2, 2)
x.flip(0)
x.roll(1, 0)
x.expand(2, 4)
x.split(2)
x.unbind(0)
x.gather(0, index)
stack([x, x])
cat([x, x])
x.clone()
x.update(x)
x.exclude("rows").pad([0, 1])
x.where(mask, x)
x.masked_fill(mask, 0)
x.sample(2)
x.consolidate()
x.rows.segment_ids
x.apply(lambda leaf: leaf)
x.state_dict()
""".strip().splitlines()


@pytest.mark.parametrize("call", READS_NOTHING)
def test_no_value_is_read(call: str) -> None:
    """Tensors without memory are enough for operations on nested, ragged and shared fields."""
    index, mask = torch.zeros(2, dtype=torch.int64, device="meta"), torch.ones(4, dtype=torch.bool, device="meta")
    eval(call, {"x": mixed("meta"), "index": index, "mask": mask, "stack": stack, "cat": cat})


@pytest.mark.parametrize("call", ["x.to('cuda')", "x.cuda()", "x.to('cuda', non_blocking=True)", "x.to('cpu')"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_transfer_copies_each_tensor_once(call: str, packed: bool) -> None:
    """Nested, ragged and shared fields: as many copies as tensors, one for a block, and none on the same device."""
    batch = mixed("cpu").consolidate() if packed else mixed("cpu")
    with FakeTensorMode(allow_non_fake_inputs=True), Watch() as watch:
        eval(call, {"x": batch})
    assert watch.waits == []
    each = 1 if packed else 6  # of the ragged field its rows and their places
    assert len(watch.copied) == (0 if "cpu" in call else each)
