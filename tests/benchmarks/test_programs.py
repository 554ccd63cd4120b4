"""The programs of the benchmark run, and every candidate computes the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorDict

from . import _guards, _least
from ._programs import PROGRAMS, SHAPES, entries, kits, ratios


def tensors(value: Any) -> list[Tensor]:
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


def test_the_least_code_keeps_the_promises() -> None:
    """It refuses what does not fit before it writes, and reads overlapping sources first."""
    x = _least.make({"a": torch.arange(4.0), "b": torch.zeros(4)}, (4,))
    for wrong in ({"a": torch.ones(())}, {"a": torch.ones(()), "b": torch.ones(2)}):
        with pytest.raises((KeyError, ValueError)):
            _least.put(x, 0, _least.make(wrong, ()))
    with pytest.raises(IndexError):
        _least.put(x, torch.tensor([0, 4]), _least.at(x, torch.tensor([1, 2])))
    with pytest.raises(IndexError):
        _least.set_at(x, "a", torch.ones(2), torch.tensor([0, -1]))
    assert x["a"].tolist() == [0, 1, 2, 3]
    whole = torch.arange(4.0)
    y = _least.make({"a": whole[:2], "b": whole[2:]}, (2,))
    _least.put(y, 0, _least.make({"a": whole[3], "b": whole[0]}, ()))
    assert whole.tolist() == [3, 1, 0, 3]


def test_the_least_constructor_checks_what_is_declared() -> None:
    """Also after a batch that fits."""
    build, shapes = _least.declared(SHAPES), entries(3)
    build(shapes, (3,))
    for wrong in ({**shapes, "obs": torch.ones(3, 5)}, {**shapes, "done": torch.ones(3)}):
        with pytest.raises(TypeError):
            build(wrong, (3,))


def test_guards_are_counted() -> None:
    """Another tensor has guards of its own, and those on globals can be left out."""
    raw, ours, least = _guards.OPERATIONS["x[0]"]
    x = {"f0": torch.rand(3, 5)}
    assert 0 < _guards.guards(raw, x, False) < _guards.guards(raw, {**x, "f1": torch.rand(3, 5)}, False)
    batch = TensorDict(x, [3])
    assert _guards.guards(ours, batch, True) < _guards.guards(ours, batch, False)
    assert 0 < _guards.guards(least, _least.make(x, (3,)), False) < _guards.guards(ours, batch, False)
