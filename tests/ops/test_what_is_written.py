"""What an operation with `out=`, an in-place form or `inplace=True` writes: entries of a container, or their memory.

A tensor that is held outside of the container changes exactly where it does in the anchor.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensordict
import torch
from torch import Tensor

import tensorclass
from tensorclass.nn import TensorDictParams

MASK = torch.tensor([True, False, True])
BACK = torch.tensor([2, 1, 0])


@tensorclass.tensorclass
class Inner:
    """A nested class."""

    x: Tensor


@tensorclass.tensorclass
class Outer:
    """A class with a nested one."""

    a: Tensor
    n: Inner


@tensordict.tensorclass
class AnchorInner:
    """The same in the anchor."""

    x: Tensor


@tensordict.tensorclass
class AnchorOuter:
    """The same in the anchor."""

    a: Tensor
    n: AnchorInner


def made(library: Any, value: float) -> Any:
    """A container of three elements that all hold a value."""
    inner = library.TensorDict({"x": torch.full((3,), value)}, [3])
    return library.TensorDict({"a": torch.full((3, 2), value), "n": inner}, [3])


def typed(library: Any) -> Any:
    """An instance with zeros."""
    outer, inner = (Outer, Inner) if library is tensorclass else (AnchorOuter, AnchorInner)
    return outer(a=torch.zeros(3, 2), n=inner(x=torch.zeros(3), batch_size=[3]), batch_size=[3])


CONTAINERS: dict[str, Callable[[Any, Path], Any]] = {
    "dense": lambda library, _: made(library, 0.0),
    "locked": lambda library, _: made(library, 0.0).lock_(),
    "lazy": lambda library, _: library.LazyStackedTensorDict.lazy_stack(
        [made(library, 0.0)[i].clone() for i in range(3)]
    ),
    "mapped": lambda library, path: made(library, 0.0).memmap_(path / library.__name__),
    "HDF5": lambda library, path: library.PersistentTensorDict.from_dict(
        made(library, 0.0), filename=str(path / f"{library.__name__}.h5")
    ),
    "parameters": lambda library, _: (TensorDictParams if library is tensorclass else tensordict.TensorDictParams)(
        made(library, 0.0), no_convert=True
    ),
    "typed": lambda library, _: typed(library),
}

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "where, out": lambda lib, t: made(lib, 5.0).where(MASK, made(lib, 7.0), out=t),
    "where, out is a side": lambda lib, t: t.where(MASK, made(lib, 7.0), out=t) if not is_typed(t) else None,
    "apply, out": lambda lib, t: made(lib, 5.0).apply(lambda leaf: leaf + 1, out=t),
    "named_apply, out": lambda lib, t: made(lib, 5.0).named_apply(lambda key, leaf: leaf + 1, out=t),
    "stack, out": lambda lib, t: torch.stack(list(made(lib, 5.0).unbind(0)), 0, out=t),
    "cat, out": lambda lib, t: torch.cat([made(lib, 5.0)[:1], made(lib, 5.0)[1:]], 0, out=t),
    "lazy_stack, out": lambda lib, t: lib.LazyStackedTensorDict.lazy_stack(list(made(lib, 5.0).unbind(0)), 0, out=t),
    "clamp, out": lambda lib, t: made(lib, 5.0).clamp(0, 3, out=t),
    "apply, in place": lambda lib, t: t.apply(lambda leaf: leaf + 1, inplace=True),
    "apply_": lambda lib, t: t.apply_(lambda leaf: leaf + 1),
    "named_apply, in place": lambda lib, t: t.named_apply(lambda key, leaf: leaf + 1, inplace=True),
    "apply, in place, another dtype": lambda lib, t: t.apply(lambda leaf: (leaf + 1).double().half(), inplace=True),
    "update": lambda lib, t: t.update(made(lib, 5.0)),
    "update, in place": lambda lib, t: t.update(made(lib, 5.0), inplace=True),
    "update_": lambda lib, t: t.update_(made(lib, 5.0)),
    "set": lambda lib, t: t.set("a", torch.ones(3, 2)),
    "set, in place": lambda lib, t: t.set("a", torch.ones(3, 2), inplace=True),
    "set_": lambda lib, t: t.set_("a", torch.ones(3, 2)),
    "set_at_": lambda lib, t: t.set_at_("a", torch.ones(2), 1),
    "update_at_": lambda lib, t: t.update_at_(made(lib, 5.0)[0], 1),
    "x[int]": lambda lib, t: t.__setitem__(1, made(lib, 5.0)[0] if not is_typed(t) else t[0] + 5),
    "x[mask]": lambda lib, t: t.__setitem__(MASK, made(lib, 5.0)[MASK] if not is_typed(t) else t[MASK] + 5),
    "copy_": lambda lib, t: t.copy_(made(lib, 5.0)),
    "fill_": lambda lib, t: t.fill_("a", 3),
    "masked_fill_": lambda lib, t: t.masked_fill_(MASK, 3),
    "add_": lambda lib, t: t.add_(3),
    "+=": lambda lib, t: t.__iadd__(3),
    "lerp_": lambda lib, t: t.lerp_(made(lib, 5.0) if not is_typed(t) else t + 5, 0.5),
    "load_state_dict": lambda lib, t: t.load_state_dict(made(lib, 5.0).state_dict()),
    "setdefault": lambda lib, t: t.setdefault("a", torch.ones(3, 2)),
}


def is_typed(batch: Any) -> bool:
    """Whether a container is an instance of one of the classes above."""
    return isinstance(batch, (Outer, AnchorOuter))


def held_tensors(batch: Any, kind: str) -> list[Tensor]:
    """The tensors that a caller may hold besides the container; those of a file are read anew."""
    if kind == "HDF5":
        return []
    parts = batch.tensordicts if kind == "lazy" else [batch]
    return [tensor for part in parts for tensor in (part.get("a"), part.get("n").get("x"))]


def outcome(library: Any, operation: str, kind: str, path: Path) -> Any:
    """Which of the held tensors changed, and the sums of the entries; "an error" if it was refused."""
    batch = CONTAINERS[kind](library, path)
    held = held_tensors(batch, kind)
    try:
        OPERATIONS[operation](library, batch)
    except Exception:  # each library has errors of its own
        return "an error"
    return [bool(tensor.any()) for tensor in held], float(batch.get("a").sum()), float(batch.get("n").get("x").sum())


ANCHOR_REFUSES = {
    *(
        (name, "HDF5")
        for name in ("where, out", "where, out is a side", "apply, out", "named_apply, out", "update", "set")
    ),
    ("stack, out", "typed"),
    ("lazy_stack, out", "typed"),
}
"""What the anchor refuses for some containers; here the entries become those of a dense one."""


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_anchor_writes_the_same(operation: str, kind: str, tmp_path: Path):
    """Every operation changes the held tensors and the entries that the anchor's changes, in every container."""
    if (operation, kind) in ANCHOR_REFUSES:
        found, dense = (outcome(tensorclass, operation, one, tmp_path) for one in (kind, "dense"))
        assert found[1:] == dense[1:]
        return
    assert outcome(tensorclass, operation, kind, tmp_path) == outcome(tensordict, operation, kind, tmp_path)


OWN: dict[str, Callable[[Any], Any]] = {
    "gather": lambda t: made(tensorclass, 5.0).gather(0, BACK, out=t),
    "copy_at_": lambda t: t.copy_at_(made(tensorclass, 5.0)[0], 1),
    "copy_at_ of rows": lambda t: t.copy_at_(made(tensorclass, 5.0)[:2], slice(1, 3)),
}


@pytest.mark.parametrize("kind", [kind for kind in CONTAINERS if kind != "typed"])
@pytest.mark.parametrize("operation", OWN)
def test_what_the_anchor_refuses_writes_memory(operation: str, kind: str, tmp_path: Path):
    """These forms are absent, or write nothing, in the anchor for some containers; here they write memory in all."""
    batch = CONTAINERS[kind](tensorclass, tmp_path)
    held = held_tensors(batch, kind)
    OWN[operation](batch)
    assert float(batch.get("a").sum()) == {"gather": 30, "copy_at_": 10, "copy_at_ of rows": 20}[operation]
    assert all([tensor.any() for tensor in held]) or (kind, operation[:7]) == ("lazy", "copy_at")


@pytest.mark.parametrize("kind", ["reshape", "masked_select", "gather", "roll", "flatten_keys", "select"])
def test_a_store_in_a_file_takes_over_another_shape(kind: str, tmp_path: Path):
    """Operations with `inplace=True` that replace entries write them, and the batch size, to the file."""
    calls: dict[str, Callable[[Any], Any]] = {
        "reshape": lambda t: t.reshape(3, 1, inplace=True),
        "masked_select": lambda t: t.masked_select(MASK, inplace=True),
        "gather": lambda t: t.gather(0, BACK[:2], inplace=True),
        "roll": lambda t: t.roll(1, 0, inplace=True),
        "flatten_keys": lambda t: t.flatten_keys(".", inplace=True),
        "select": lambda t: t.select("a", inplace=True),
    }
    rows = made(tensorclass, 0.0).apply(lambda leaf: leaf + torch.arange(3.0).reshape(3, *[1] * (leaf.ndim - 1)))
    wanted = calls[kind](rows.clone())
    with tensorclass.PersistentTensorDict.from_dict(rows, filename=str(tmp_path / "x.h5")) as store:
        assert calls[kind](store) is store
    with tensorclass.PersistentTensorDict(filename=tmp_path / "x.h5") as store:
        found = store.to_tensordict()
    assert found.batch_size == wanted.batch_size
    assert bool((found == wanted).all())


def test_a_frozen_instance_is_no_out():
    """A frozen class refuses results, as it refuses all writes."""

    class Fixed(tensorclass.FrozenTensorClass):
        a: Tensor

    batch = Fixed(a=torch.zeros(3), batch_size=[3])
    with pytest.raises(tensorclass.errors.FrozenError):
        batch.where(MASK, Fixed(a=torch.ones(3), batch_size=[3]), out=batch)
    assert not batch.a.any()
