"""A fault in the middle of any operation that changes a container leaves the old state or the new one.

The faults are an error of torch at each of its calls, and an interrupt at each line of the package. What is compared:
keys, tensors and their values, batch size, names, device, locks, members of stacks, and all of these for every
container below, which the caller may hold too.
"""

from __future__ import annotations

import pytest

from tests.contract._faults import FAULTS, TorchFault, inject, writes_memory
from tests.contract._mutations import ALIKE, KINDS, MUTATIONS, prepared

MODULES = {("params", name) for name in ("load_state_dict", "load_state_dict assign", "load_state_dict size")}
"""`nn.Module.load_state_dict`, which parameters use, loads one tensor after the other (docs/concepts.md)."""
QUICK = ["dense", "typed_plain", "lazy"]
"""The kinds that the quick tests try, with every 23rd line."""


@pytest.mark.parametrize("name", [name for name in MUTATIONS if name not in ALIKE])
@pytest.mark.parametrize("fault", FAULTS)
def test_old_or_new(name: str, fault: str):
    """The most common containers, with a part of the interrupts."""
    assert not half_written(QUICK, name, fault, 23)


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.parametrize("fault", FAULTS)
def test_old_or_new_everywhere(name: str, fault: str):
    """Every kind of container, with a part of the interrupts; a step of 1 in `half_written` tries all of them."""
    found = half_written(list(KINDS), name, fault, 97 if name in ALIKE else 47)
    assert not {kind: places for kind, places in found.items() if (kind, name) not in MODULES}


def half_written(kinds: list[str], name: str, fault: str, every: int) -> dict[str, list[str]]:
    """The kinds of container that a fault leaves half written, and where the fault was."""
    found: dict[str, list[str]] = {}
    for kind in kinds:
        report = inject(prepared(KINDS[kind], name), MUTATIONS[name], FAULTS[fault], every if fault == "line" else 1)
        if report.half:
            found[kind] = report.half
    return found


def test_every_operation_suits_a_container():
    """No operation is listed that every container refuses, and every kind of container takes most of them."""
    suits = {kind: {name for name in MUTATIONS if _suits(kind, name)} for kind in KINDS}
    assert set().union(*suits.values()) == set(MUTATIONS)
    assert min(len(names) for names in suits.values()) > 50


def _suits(kind: str, name: str) -> bool:
    try:
        MUTATIONS[name](prepared(KINDS[kind], name)())
    except Exception:  # the operation doesn't suit this container
        return False
    return True


def test_a_half_write_is_found():
    """An operation that writes one entry after the other is noticed, whatever the fault."""

    def one_by_one(container: object) -> None:
        for key in ("a", "b"):
            container.set(key, container[key].clone())  # type: ignore[attr-defined]  # a container

    for fault in FAULTS.values():
        assert inject(KINDS["flat"], one_by_one, fault).half


def test_kernels_are_told_from_other_calls():
    """Only a function that writes into existing memory may be the fault after another one has written."""
    assert all(map(writes_memory, ["torch.Tensor.copy_", "torch._foreach_add_", "torch.Tensor.__setitem__"]))
    assert not any(map(writes_memory, ["torch.clone", "torch.Tensor.__getitem__", "torch.Tensor.reshape"]))
    report = inject(KINDS["dense"], MUTATIONS["clamp_ two"], TorchFault)
    assert set(report.kernels) <= {"torch.Tensor.clamp_"}
    assert not report.half
