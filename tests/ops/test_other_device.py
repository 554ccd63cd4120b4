"""On another device nothing waits for a value or is copied unasked; fake tensors claim to be on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tensorclass import TensorClass, TensorDict, cat, stack
from tensorclass.typing import Float32, Int64
from tests.ops._calls import ENTRIES
from tests.ops._more_calls import OPERATIONS

WAITS = ("_local_scalar_dense", "is_nonzero", "item", "nonzero", "masked_select")
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
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        given = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        if name in WAITS and any(value.device.type == "cuda" for value in given):
            self.waits.append(name)
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
