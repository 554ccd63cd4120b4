"""The machine: random sequences of operations on a container and on a plain dict of tensors never diverge.

A sequence is a container of a random kind (dense, typed, lazy, ragged; alone and as entries), of a random structure, or
of a class with random fields, and ten random steps: an operation of the contract suite, a row of the pointwise table,
in place or not, an index, names, a lock, a round trip through a dict, JSON, a pickle or a file. After each step every
element, the invariants and the batch size are compared. A sequence of members that differ ends when no elements are
left of it. `python -m tests.contract.fuzz` runs many short ones.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tensorclass import TensorDict, lazy_stack
from tensorclass.errors import UnsupportedOperationError
from tests._marks import rest_is_slow
from tests.contract import fuzz
from tests.contract._lazy_kinds import LAZY, MACHINE_KINDS
from tests.contract._machine import NAMES, STARTS, STEPS, Sequence, draw, fails, maker, run, shrink
from tests.contract._model import Model

LENGTH = 10
BLOCKS = 8
"""Blocks run side by side where there are several workers."""
MANY = 80
TOTAL = int(os.environ.get("FUZZ_SEQUENCES", "40000"))
"""How many sequences the slow run carries out; `FUZZ_SEQUENCES=200000 make slow` for a long one."""


def sequences(first: int, count: int, record_property: Callable[[str, object], None], kind: str = "") -> None:
    """Run sequences; of the first that diverges, report the steps that are needed."""
    done = 0
    for seed in range(first, first + count):
        sequence = draw(seed, LENGTH, kind)
        if fails(sequence):
            done += run(shrink(sequence))
        done += LENGTH
    for name, value in {"sequences": count, "steps": done, "operations": len(STEPS), "cases": 0}.items():
        record_property(name, value)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_sequences(block: int, record_property: Callable[[str, object], None]):
    """A few hundred sequences."""
    sequences(1_000_000 + 50 * block, 50, record_property)


@pytest.mark.parametrize("kind", STARTS)
@pytest.mark.parametrize("block", range(3))
def test_sequences_of_random_structures(kind: str, block: int, record_property: Callable[[str, object], None]):
    """Containers of random entries, and classes of random fields."""
    sequences(2_000_000 + 25 * block, 25, record_property, kind)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(MANY))
def test_many_sequences(block: int, record_property: Callable[[str, object], None]):
    """Thousands of sequences, in blocks; `python -m tests.contract.fuzz` runs as many over random structures."""
    each = TOTAL // MANY
    sequences(each * block, each, record_property)


def test_long_runs_have_a_command(capsys: pytest.CaptureFixture[str]):
    """The command prints its counts, and its status says whether anything diverged."""
    assert fuzz.main(["--untyped", "4", "--typed", "2", "--seed", "7"]) == 0
    assert "a typed class: 2 sequences, 0 diverged" in capsys.readouterr().out


@pytest.mark.parametrize("kind", rest_is_slow(LAZY, each=3))
def test_every_kind_moves(kind: str):
    """A kind whose steps were all skipped would test nothing: more than half of them give another container."""
    moved = 0
    for name in NAMES:
        container = LAZY[kind](maker(random.Random(1)))
        model = replace(Model.of(container).frozen(), lazy=True)
        torch.manual_seed(1)
        moved += STEPS[name](random.Random(1), container, model)[1] is not model
    assert moved > 0.5 * len(NAMES)


def test_number_of_operations():
    """The sequences are drawn from at least seventy operations."""
    assert len(STEPS) >= 70


def test_divergence_is_found():
    """A wrong operation is noticed, and its sequence is shortened to the step that is wrong."""
    sequence = Sequence("flat", 0, (("roll(1)", 1), ("flip(0)", 2), ("clone", 3)))
    assert not fails(sequence)
    original = STEPS["flip(0)"]
    STEPS["flip(0)"] = lambda rng, container, model: (container, model.map(lambda t, s: t + 1))
    try:
        assert [name for name, _ in shrink(sequence).steps] == ["flip(0)"]
    finally:
        STEPS["flip(0)"] = original


@pytest.mark.parametrize("kind", sorted(MACHINE_KINDS))
def test_a_locked_container_is_written_in_place(kind: str):
    """What has memory of its own takes `update(inplace=True)`, tensors of the whole batch included."""
    for seed in range(3):
        assert run(Sequence(kind, seed, (("lock", seed), ("update(inplace)", seed)))) == 2


DIVERGED = [
    Sequence("entry_keys", 18620, (("expand(2, ...)", 738949), ("reshape(reversed)", 562468), ("sub_", 656377))),
    Sequence(
        "entry_keys",
        99509,
        (("to(torch.bfloat16)", 759370), ("expand(2, -1...)", 998723), ("flatten", 947193), ("sin_", 707229)),
    ),
    Sequence("an untyped structure", 10614, (("filter_empty_", 73589),)),
    Sequence("an untyped structure", 100426, (("state_dict", 150470),)),
    Sequence("a typed class", 1170, (("logical_or", 673655),)),
    Sequence("a typed class", 1995, (("split_keys", 475460),)),
    Sequence("a typed class", 112082, (("to_dict", 939227),)),
    Sequence("a typed class", 300291, (("to_dict", 227188),)),
    Sequence("an untyped structure", 30003530, (("[tensor2d]", 727130), ("exclude(inplace)", 741044))),
    Sequence("an untyped structure", 20002218, (("sub", 195926),)),
    Sequence("a typed class", 114304, (("apply(==)", 907466), ("maximum", 795593))),
    Sequence("a typed class", 50002416, (("torch.where", 646042), ("abs", 330710), ("[...] =", 145891))),
    Sequence("a typed class", 106533, (("rename_keys", 181153), ("torch.stack", 835778))),
    Sequence("a typed class", 90006759, (("to_dict", 723404),)),
    Sequence("a typed class", 90016536, (("to(cpu)", 12017), ("apply(same)", 335981))),
    Sequence("a typed class", 90023215, (("split_keys", 408092),)),
    Sequence("typed_locked", 300060707, (("named_apply", 305751), ("save", 749592))),
    Sequence("an untyped structure", 300080188, (("apply(batch_size)", 346454),)),
    Sequence("typed_locked", 70063991, (("TensorDict", 216485), ("filter_empty_", 738514))),
]


@pytest.mark.parametrize("sequence", DIVERGED, ids=lambda sequence: f"{sequence.kind}-{sequence.seed}")
def test_sequences_that_once_diverged(sequence: Sequence):
    """Causes that are mended.

    A reshaped expanded lazy stack copies its elements, as torch copies those of a tensor. A container of Python objects
    isn't empty. A tensor that the batch shares is written whole. Equal objects stay what they are. A typed stack with
    other keys is stacked as what it is, not by its class. A nested class has the batch size of its parent, not of what
    it holds. Keys of stacks of stacks change member by member. A tensor that members share is promoted as in a dense
    container. Functions over stacks of instances keep declared dtypes. Results without values are no detached views.
    """
    assert run(sequence) == len(sequence.steps)


@pytest.mark.parametrize("shape", [(3, 2), (6,), (1, 6)])
def test_reshapes_of_expanded_stacks_copy(shape: tuple[int, ...]):
    """Members with keys of their own can't be joined; the elements are copies, and a `view` is refused."""
    members = [TensorDict({"a": torch.full((4,), float(i)), f"only{i}": torch.zeros(())}) for i in range(3)]
    wide = lazy_stack(members).expand(2, 3)
    narrow = wide.reshape(shape)
    expected = torch.arange(3.0).expand(2, 3).reshape(shape)
    narrow.sub_(1)
    assert torch.equal(narrow.get("a")[..., 0], expected - 1)
    assert [member["a"][0].item() for member in members] == [0.0, 1.0, 2.0]
    with pytest.raises(UnsupportedOperationError, match="expanded"):
        wide.view(shape)
