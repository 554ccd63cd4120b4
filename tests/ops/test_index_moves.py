"""An index is moved once to the device of the leaves, and a mask is searched once, however many leaves there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tensorclass import TensorDict
from tensorclass.ops import _index

COUNT = 8


class Counted(TorchDispatchMode):
    """Counts the operators that reach a device."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def _batch(device: str, *size: int) -> TensorDict:
    return TensorDict({f"f{i}": torch.zeros(*size, 5, device=device) for i in range(COUNT)}, batch_size=size)


INDICES: dict[str, Callable[[], Any]] = {
    "tensor": lambda: torch.tensor([0, 2]),
    "long tensor": lambda: torch.arange(20) % 4,
    "beside a slice": lambda: (slice(None), torch.tensor([0, 2])),
    "two tensors": lambda: (torch.tensor([0, 2]), torch.tensor([1, 2])),
    "matrix": lambda: torch.tensor([[0, 2], [1, 1]]),
}


class Far(Tensor):
    """A tensor that says it lies on an accelerator."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == Tensor.device.__get__:  # type: ignore[attr-defined]  # a slot of the C class
            return torch.device("cuda")
        if func == Tensor.is_cpu.__get__:  # type: ignore[attr-defined]  # as above
            return False
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("name", INDICES)
def test_an_index_moves_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves on an accelerator, an index on the CPU: a copy for each tensor of the index, not for each leaf."""
    near = _Calls()
    monkeypatch.setattr(_index, "index_on_device_of", near)
    index, plain = INDICES[name](), _batch("cpu", 4, 3)
    result = TensorDict({key: leaf.as_subclass(Far) for key, leaf in plain.items()}, batch_size=[4, 3])[index]
    moved = [part for part, leaf in near.found if isinstance(part, Tensor) and type(leaf) is Far]
    assert len(moved) == len([p for p in (index if isinstance(index, tuple) else (index,)) if isinstance(p, Tensor)])
    assert result.batch_size == plain[index].batch_size


class _Calls:
    """`index_on_device_of`, and what it was called with."""

    def __init__(self) -> None:
        self.found: list[tuple[Any, Any]] = []

    def __call__(self, part: Any, leaf: Tensor) -> Any:
        self.found.append((part, leaf))
        return part


@pytest.mark.parametrize("size", [(4,), (4, 3)])
def test_a_mask_is_searched_once(size: tuple[int, ...]) -> None:
    """One `nonzero` for all leaves: on an accelerator each of them waits for the device."""
    batch, mask = _batch("cpu", *size), torch.ones(size, dtype=torch.bool)
    with Counted() as counted:
        result = batch[mask]
    assert counted.found["nonzero"] == 1
    assert result.batch_size == torch.Size([mask.numel()])


@pytest.mark.parametrize("name", INDICES)
def test_an_index_stays_where_leaves_have_no_memory(name: str) -> None:
    """Leaves on "meta" take an index of the CPU as it is."""
    batch, index = _batch("meta", 4, 3), INDICES[name]()
    with Counted() as counted:
        result = batch[index]
    assert counted.found["_to_copy"] == 0
    assert result.batch_size == torch.zeros(4, 3)[index].shape


def test_what_reads_no_value() -> None:
    """Construction, arithmetic, joins and writes wait for nothing: no operator gives a number to Python."""
    batch = _batch("cpu", 4, 3)
    with Counted() as counted:
        other = batch + 1
        joined = torch.stack([batch, other])
        joined[0] = other
        joined.reshape(-1).update_(other.expand(2, 4, 3).reshape(-1))
        torch.cat([batch, other])[2:5].clone().mul_(2).sum(0)
    assert not counted.found.keys() & {"_local_scalar_dense", "nonzero", "equal", "is_nonzero"}
