"""`torch.zeros_like` and its kin over containers: device, dtype, names, lock and objects of the result."""

from __future__ import annotations

from typing import Any

import pytest
import tensordict
import torch

import tensorclass
from tensorclass import TensorDict
from tensorclass.core import VALUES
from tensorclass.errors import UnsupportedOperationError
from tests.contract._invariants import check
from tests.contract._typed_kinds import ALL_KINDS
from tests.contract.test_pointwise import maker

LIKE: dict[str, tuple[Any, ...]] = {
    "zeros_like": (), "ones_like": (), "empty_like": (), "rand_like": (), "randn_like": (), "full_like": (3.0,),
    "randint_like": (5,),
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "device": {"device": "meta"},
    "same device": {"device": torch.device("cpu")},
    "dtype": {"dtype": torch.float64},
    "grad": {"requires_grad": True},
    "memory": {"memory_format": torch.contiguous_format},
    "all": {"device": "meta", "dtype": torch.float16, "requires_grad": True},
}


def _data(library: Any, device: str | None = None, names: list[str] | None = None) -> Any:
    inner = library.TensorDict({"b": torch.ones(2, 3, 4)}, [2, 3])
    return library.TensorDict({"a": torch.ones(2, 3), "n": inner, "s": "x"}, [2, 3], device=device, names=names)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", LIKE)
@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("locked", [False, True])
def test_what_the_anchor_gives(name: str, option: str, device: str | None, locked: bool):
    """Device, names, lock and each leaf's device, dtype and gradient are the anchor's, which has no `randint_like`."""
    found = []
    for library in (tensorclass, tensordict):
        function = getattr(torch, "zeros_like" if library is tensordict and name == "randint_like" else name)
        args = () if function is torch.zeros_like else LIKE[name]
        data = _data(library, device, ["x", "y"])
        result = function(data.lock_() if locked else data, *args, **OPTIONS[option])
        leaves = [(v.device, v.dtype, v.requires_grad, v.shape) for v in result.values(True, True)]
        found.append((result.device, result["n"].device, result.names, result.is_locked, leaves))
        assert result.get("s").data == "x"
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("name", LIKE)
def test_every_kind_of_container(name: str, kind: str):
    """The class, the objects and the shapes stay, the values are torch's, and the device reaches nested containers."""
    data = ALL_KINDS[kind](maker("any"))
    for device in (None, "meta"):
        result = getattr(torch, name)(data, *LIKE[name], device=device)
        assert type(result) is type(data)
        assert result.batch_size == data.batch_size
        assert result.device == (data.device if device is None else torch.device("meta"))
        assert [leaf.shape for leaf in result._leaves(VALUES)] == [leaf.shape for leaf in data._leaves(VALUES)]
        assert all(leaf.device.type == (device or "cpu") for leaf in result._leaves(VALUES))
        assert result.is_locked is data.is_locked
        if device is None:
            check(result)


def test_a_leaf_that_can_not_is_named():
    """An integer leaf has no gradient and no normal distribution: the error says which."""
    data = TensorDict({"n": {"count": torch.ones(2, dtype=torch.int64)}}, batch_size=[2])
    for call in (lambda: torch.zeros_like(data, requires_grad=True), lambda: torch.randn_like(data)):
        with pytest.raises(UnsupportedOperationError, match=r"`n.count` of torch.int64 and shape \[2\]"):
            call()
