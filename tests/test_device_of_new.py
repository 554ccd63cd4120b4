"""Containers made like others, on another device: the container says where its tensors are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensordict
import torch
from torch import Tensor

from tensorclass import PerElement, TensorDict, lazy_stack, tensorclass
from tensorclass.typing import Float32


@tensorclass
class Pair:
    a: Float32[Tensor, "3"]
    text: str = "x"


@tensorclass
class Named:
    label: PerElement[str]
    a: Float32[Tensor, ""]


@tensorclass
class Holder:
    inner: Named


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


APPLIED: dict[str, Callable[[Any, Any], Any]] = {
    "apply": lambda c, f: c.apply(f),
    "named_apply": lambda c, f: c.named_apply(lambda _, leaf: f(leaf)),
    "batch_size": lambda c, f: c.apply(f, batch_size=c.batch_size),
    "others": lambda c, f: c.apply(lambda a, _: f(a), c),
    "on nested": lambda c, f: c.apply(lambda part: part.apply(f), call_on_nested=True),
}
MAPPED: dict[str, Callable[[int], Any]] = {
    "dict": lambda n: TensorDict(inner=TensorDict(a=torch.zeros(n), batch_size=[n]), batch_size=[n], device="cpu"),
    "objects": lambda n: Holder(inner=Named(a=torch.zeros(n), label=["x"] * n), device="cpu").to_tensordict(),
    "typed": lambda n: Holder(inner=Named(a=torch.zeros(n), label=["x"] * n), device="cpu"),
}


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("kind", MAPPED)
@pytest.mark.parametrize("way", APPLIED)
def test_device_of_what_a_function_makes(way: str, kind: str, count: int) -> None:
    """Every level keeps its names and its device, unless the function moves a leaf: then no level has one."""
    batch = MAPPED[kind](count)
    assert (batch.device, batch["inner"].device) == (torch.device("cpu"),) * 2
    same = APPLIED[way](batch, lambda leaf: leaf + 1)
    assert (same.device, same["inner"].device) == (torch.device("cpu"),) * 2
    batch.names = ["row"]
    same = APPLIED[way](batch, lambda leaf: leaf + 1)
    assert (same.names, same["inner"].names) == (["row"], batch["inner"].names)
    moved = APPLIED[way](batch, lambda leaf: leaf.to("meta"))
    assert moved["inner"]["a"].device.type == "meta"
    assert (moved.device, moved["inner"].device) == (None, None)
