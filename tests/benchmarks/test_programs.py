"""The programs of the benchmark run, and every candidate computes the same."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ._programs import PROGRAMS, kits, ratios


def tensors(value: object) -> list[Tensor]:
    """The tensors of a result, by key."""
    if isinstance(value, Tensor):
        return [value]
    if hasattr(value, "items"):
        return [tensor for _, part in sorted(value.items()) for tensor in tensors(part) if not isinstance(part, str)]
    return []


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_same_with_dicts_and_with_batches(name: str) -> None:
    """The same seed, the same tensors."""
    found = {}
    for kind, kit in kits().items():
        torch.manual_seed(0)
        call = PROGRAMS[name](kit)
        if call is not None and "anchor" not in kind:
            torch.manual_seed(1)
            found[kind] = tensors(call())
    due = found.pop("dicts")
    for results in found.values():
        assert all(a.allclose(b) for a, b in zip(results, due, strict=True))


def test_ratios_compare_what_was_measured() -> None:
    """The anchor over ours, ours over dicts, and the anchor over dicts: what it would gain from free containers."""
    times = {"dicts": 10.0, "anchor": 30.0, "ours": 15.0}
    assert ratios(times) == [2.0, None, 1.5, None, 3.0]
