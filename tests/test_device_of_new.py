"""Containers made like others, on another device: the container says where its tensors are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensordict
import torch
from torch import Tensor

from tensorclass import TensorDict, lazy_stack, tensorclass
from tensorclass.typing import Float32


@tensorclass
class Pair:
    a: Float32[Tensor, "3"]
    text: str = "x"


def _dict(library: Any = TensorDict) -> Any:
    return library({"a": torch.zeros(2, 3), "n": library({"b": torch.zeros(2)}, [2])}, [2])


KINDS: dict[str, Callable[[], Any]] = {
    "dict": _dict, "typed": lambda: Pair(a=torch.zeros(2, 3)), "lazy": lambda: lazy_stack([_dict(), _dict()]),
    "lazy entry": lambda: TensorDict({"s": lazy_stack([_dict(), _dict()])}, [2]),
}  # fmt: skip
LIKE: dict[str, Callable[..., Any]] = {
    "zeros_like": torch.zeros_like, "ones_like": torch.ones_like, "empty_like": torch.empty_like,
    "rand_like": torch.rand_like, "randn_like": torch.randn_like,
    "full_like": lambda c, **k: torch.full_like(c, 1.0, **k), "new_zeros": lambda c, **k: c.new_zeros(c.shape, **k),
}  # fmt: skip


@pytest.mark.parametrize("device", ["meta", torch.device("meta"), "cpu"], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LIKE)
def test_device_of_what_is_made_like_another(name: str, kind: str, device: Any) -> None:
    """As the anchor says it, nested containers too; the source stays where it was."""
    source = KINDS[kind]()
    made = LIKE[name](source, device=device)
    assert made.device == torch.device(device)
    assert source.device is None
    assert {leaf.device for leaf in made.values(True, True) if isinstance(leaf, Tensor)} == {torch.device(device)}
    assert LIKE[name](_dict(tensordict.TensorDict), device=device).device == made.device
    assert LIKE[name](source).device is None
