"""Every operation on every kind of container, as on a dense one: its result, what it leaves behind, and `with` blocks.

An operation that a kind lacks says so; nothing that it was told to write is lost.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tensorclass
from tensorclass import TensorClass, TensorCollection, TensorDict, TensorDictParams, lazy_stack
from tensorclass.errors import LockedError, TensorClassError
from tensorclass.typing import Shaped
from tests.contract import _relayouts as _relayouts
from tests.contract._operations import OPS, Op
from tests.ops.test_differential_calls import CALLS
from tests.ops.test_differential_calls import container as dense_of
from tests.ops.test_with import CALLS as BLOCKS


class Below(TensorClass):
    c: Shaped[Tensor, "2"]


class Above(TensorClass):
    a: Shaped[Tensor, "4"]
    b: Below


def dense() -> Any:
    """What every other kind is compared with: batch size [2, 3], entries `a` and (`b`, `c`)."""
    return dense_of(tensorclass)


KINDS: dict[str, Callable[[Path], Any]] = {
    "lazy": lambda folder: lazy_stack(list(dense().unbind(0)), 0),
    "lazy inside": lambda folder: lazy_stack(list(dense().unbind(1)), 1),
    "h5": lambda folder: dense().to_h5(folder / "x.h5"),
    "zarr": lambda folder: dense().to_zarr(folder / "x.zarr"),
    "mapped": lambda folder: dense().memmap(folder / "mapped").unlock_(),
    "parameters": lambda folder: TensorDictParams(dense(), no_convert=True),
    "typed": lambda folder: Above.from_tensordict(dense()),
    "typed h5": lambda folder: Above.from_tensordict(dense().to_h5(folder / "x.h5")),
    "typed lazy": lambda folder: lazy_stack(list(Above.from_tensordict(dense()).unbind(0)), 0),
}


def shown(value: Any) -> Any:
    """A result in plain form: containers as batch size and entries, whatever their kind."""
    if isinstance(value, TensorCollection):
        return {"": tuple(value.batch_size), **{key: shown(child) for key, child in value._solid().items()}}  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return {key: shown(child) for key, child in value.items()}
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return [shown(part) for part in value]
    return value.detach().as_subclass(Tensor) if isinstance(value, Tensor) else value


def alike(ours: Any, wanted: Any) -> bool:
    """Whether two plain results agree bit by bit; nan equals nan, and Python objects need only be of one kind."""
    if isinstance(ours, Tensor) and isinstance(wanted, Tensor):
        same = (ours.dtype, ours.shape) == (wanted.dtype, wanted.shape)
        return same and bool(torch.allclose(ours, wanted, rtol=0, atol=0, equal_nan=True))
    if isinstance(ours, dict) and isinstance(wanted, dict):
        return list(map(str, ours)) == list(map(str, wanted)) and all(alike(ours[key], wanted[key]) for key in ours)
    if isinstance(ours, list) and isinstance(wanted, list):
        return len(ours) == len(wanted) and all(alike(a, b) for a, b in zip(ours, wanted, strict=True))
    plain = (int, float, bool, str, torch.Size, torch.dtype)
    return not (isinstance(ours, plain) and isinstance(wanted, plain)) or ours == wanted


def outcome(call: str, td: Any) -> Any:
    """The result of a call and what it leaves in the container, or its error."""
    torch.manual_seed(0)
    names = {"td": td, "T": TensorDict, "torch": torch, "TensorDict": TensorDict}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = exec(call[1:], names) if call.startswith("!") else eval(call, names)  # type: ignore[func-returns-value]
            return [shown(result), shown(td)]
        except Exception as error:  # an outcome as well
            return error


COPIES = "each read makes the tensor"
DECIDED: dict[str, tuple[str, str]] = {
    'td.clone(recurse=False)["a"] is td["a"]': ("lazy|h5|zarr", COPIES),
    "td.clone(False)['a'] is td['a']": ("lazy|h5|zarr", COPIES),
    "td.copy()['a'] is td['a']": ("lazy|h5|zarr", COPIES),
    "td.is_contiguous()": ("lazy", "the members are views of one container"),
    "td.transpose(0, 1).view(6)": ("lazy", "a stack copies what no view fits"),
    "td.lock_()[0].is_locked": ("lazy$", "an element is a member, which is locked with its stack"),
    "!td[0]={'a':torch.zeros(3,4)}": ("^lazy$", "a member takes the keys that it is given"),
}
"""Calls where a kind differs from a dense container, which kinds, and why."""

QUICK = 9
"""Each ninth call is made by the quick tests."""
CASES = [
    pytest.param(call, kind, id=f"{kind}-{call}", marks=[pytest.mark.slow] if (number + place) % QUICK else [])
    for number, call in enumerate(CALLS)
    for place, kind in enumerate(KINDS)
]


@pytest.mark.parametrize(("call", "kind"), CASES)
def test_as_a_dense_container(call: str, kind: str, tmp_path: Path) -> None:
    """The same result and the same effect, or an error of this library that says why not."""
    wanted, ours = outcome(call, dense()), outcome(call, KINDS[kind](tmp_path))
    if call in DECIDED and re.search(DECIDED[call][0], kind):
        assert not isinstance(ours, Exception), repr(ours)
        assert isinstance(wanted, Exception) or not alike(ours, wanted), "no difference any more"
        return
    if isinstance(ours, Exception):
        assert isinstance(wanted, Exception) or (isinstance(ours, TensorClassError) and str(ours)), repr(ours)
        return
    assert not isinstance(wanted, Exception), repr(wanted)
    assert alike(ours, wanted), f"ours: {ours!r}\ndense: {wanted!r}"


def assorted() -> TensorDict:
    """Three levels, a string, names of dims; keys that are not in the order of the alphabet."""
    deep = TensorDict({"x": torch.arange(6.0).reshape(2, 3), "m": {"y": torch.ones(2, 3, 4)}}, [2, 3])
    entries = {"c": torch.arange(12.0).reshape(2, 3, 2), "n": deep, "s": "text", "b": torch.arange(6).reshape(2, 3)}
    return TensorDict(entries, [2, 3], names=["i", "j"])


STORES = [
    pytest.param(op, backend, id=f"{backend}-{op.name}", marks=[pytest.mark.slow] if (number + place) % 5 else [])
    for number, op in enumerate(OPS)
    for place, backend in enumerate(("h5", "zarr"))
    if op.suits((2, 3))
]


@pytest.mark.parametrize(("op", "backend"), STORES)
def test_operations_on_live_stores(op: Op, backend: str, tmp_path: Path) -> None:
    """The results of the table of operations, and what they leave in the file, are those of a dense container."""

    def carried_out(td: Any) -> Any:
        try:
            result = op.call(td)
        except Exception as error:  # an outcome as well
            return error
        parts = result if isinstance(result, (tuple, list)) else [result]
        names = [part.names for part in parts if isinstance(part, TensorCollection)]  # type: ignore[attr-defined]
        return [shown(result), shown(td), names, td.names]

    wanted, store = carried_out(assorted()), getattr(assorted(), f"to_{backend}")(tmp_path / "x")
    ours = carried_out(store)
    if isinstance(wanted, Exception):
        assert isinstance(ours, Exception)
    else:
        assert not isinstance(ours, Exception), repr(ours)
        assert alike(ours, wanted), f"ours: {ours!r}\ndense: {wanted!r}"
        with type(store).open(tmp_path / "x") as again:
            assert alike(shown(again), shown(store))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BLOCKS)
def test_writes_in_a_block_reach_the_container(name: str, kind: str, tmp_path: Path) -> None:
    """What is written in a `with` block to the result of an operation is in the container after it."""

    def block(td: Any) -> Any:
        with torch.no_grad(), BLOCKS[name](td) as result:
            result.set_("a", result["a"] + 1)
            result.apply_(lambda leaf: leaf * 2)
        return shown(td)

    wanted = block(dense())
    try:
        ours = block(KINDS[kind](tmp_path))
    except TensorClassError as error:
        ours = str(error)
    assert (isinstance(ours, str) and ours) or alike(ours, wanted), f"ours: {ours!r}\ndense: {wanted!r}"


LOCKS = {
    "lock": lambda td: td.lock_(), "unlock": lambda td: td.unlock_(), "lock, locked": lambda td: td.lock_().lock_(),
    "unlock, locked": lambda td: td.lock_().unlock_(),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LOCKS)
def test_blocks_of_locks(name: str, kind: str, tmp_path: Path) -> None:
    """`with td.lock_():` and `with td.unlock_():` end with the lock as it was before, and the container still works."""
    states = []
    for td in (dense(), KINDS[kind](tmp_path)):
        with LOCKS[name](td) as same:
            assert same is td
            states.append((td.is_locked, td["b"].is_locked))
            if not td.is_locked and "typed" not in kind:
                td["new"] = torch.zeros(2, 3)
                del td["new"]
        states.append((td.is_locked, td["b"].is_locked))
        assert shown(td["a"]).shape == (2, 3, 4)
    assert states[2:] == states[:2]


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_a_locked_container(kind: str, tmp_path: Path) -> None:
    """A nested container of a locked one is locked, can't be unlocked by itself, and is free again with its holder."""
    td = KINDS[kind](tmp_path)
    below = td["b"]
    td.lock_()
    for part in (below, td["b"]):
        assert part.is_locked
        with pytest.raises(LockedError):
            part.unlock_()
        with pytest.raises(TensorClassError):
            part["new"] = torch.zeros(2, 3)
    td.unlock_()
    assert not below.is_locked
    assert not td["b"].is_locked
