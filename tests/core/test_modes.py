"""Settings for a block of code: nested, kept from here on, by thread, and in compiled code."""

from __future__ import annotations

import asyncio
import threading

import pytest
import torch

from tensorclass import (
    TensorDict,
    capture_non_tensor_stack,
    get_defaults_to_none,
    list_to_stack,
    set_capture_non_tensor_stack,
    set_get_defaults_to_none,
    set_list_to_stack,
)
from tensorclass.core._modes import Mode, Setting
from tensorclass.nn import (
    composite_lp_aggregate,
    interaction_type,
    set_composite_lp_aggregate,
    set_interaction_type,
    set_skip_existing,
    skip_existing,
)


class Loud(Mode):
    """A mode of its own for every test."""

    _setting = Setting("loud", False)


@pytest.fixture(autouse=True)
def fresh():
    """No test sees what another has kept."""
    Loud._setting = Setting("loud", False)


def _elsewhere(func):
    seen = []
    thread = threading.Thread(target=lambda: seen.append(func()))
    thread.start()
    thread.join()
    return seen[0]


def test_blocks_nest_and_end_with_an_error():
    """The innermost block counts; a block ends however it is left, and can be entered twice."""
    block = Loud(True)
    with block, Loud(False):
        assert Loud.current() is False
        with block:
            assert Loud.current() is True
        assert Loud.current() is False
    with pytest.raises(KeyError), block:
        raise KeyError
    assert (Loud.current(), Loud.current(allow_none=True), len(Loud._setting.open)) == (False, None, 0)


def test_what_is_in_force_is_not_set_again():
    """`set` to the value in force has no effect; the default in force leaves compiled code as it was."""
    Loud(False).set()
    assert (len(Loud._setting.open), Loud.current(allow_none=True)) == (0, None)
    for _ in range(3):
        Loud(True).set()
    assert (len(Loud._setting.open), Loud.current()) == (0, True)
    Loud(False).set()
    assert (Loud.current(), Loud.current(allow_none=True)) == (False, False)


MODES = [
    lambda: (set_list_to_stack(False), list_to_stack),
    lambda: (set_capture_non_tensor_stack(True), capture_non_tensor_stack),
    lambda: (set_composite_lp_aggregate(True), composite_lp_aggregate),
    lambda: (set_interaction_type("mode"), interaction_type),
    lambda: (set_skip_existing(True), skip_existing),
]


@pytest.mark.parametrize("make", MODES)
def test_what_is_set_for_the_process_reaches_threads(make, monkeypatch):
    """`set` outside a block holds in every thread, `set` inside a block to its end and in this thread alone."""
    block, read = make()
    setting = type(block)._setting
    monkeypatch.setattr(setting, "default", setting.default)  # undone after the test
    monkeypatch.setattr(setting, "kept", False)
    mode = block.mode
    before = read()
    with type(block)(before):
        block.set()
        assert (read(), _elsewhere(read)) == (mode, before)
    assert read() == before != mode
    block.set()
    assert (read(), _elsewhere(read)) == (mode, mode)
    with type(block)(before):
        assert (read(), _elsewhere(read)) == (before, mode)


def test_defaults_to_none_for_the_process(monkeypatch):
    """`set_get_defaults_to_none` counts at once in its thread, and after `set` in all of them."""
    monkeypatch.setattr(set_get_defaults_to_none, "_setting", Setting("defaults", True))

    def work():
        mode = set_get_defaults_to_none(False)
        before = _elsewhere(get_defaults_to_none)
        mode.set()
        return before, get_defaults_to_none(), _elsewhere(get_defaults_to_none)

    assert _elsewhere(work) == (True, False, False)


def test_threads_with_other_values():
    """A thread that says the default is not reached by another's block."""
    with Loud(True):
        assert _elsewhere(lambda: (Loud.current(), Loud(True)(Loud.current)())) == (False, True)
        assert Loud.current() is True


def test_tasks_keep_what_they_started_with():
    """A task has the value of the block in which it was made, also after the end of that block."""

    async def read():
        return Loud.current()

    async def main():
        with Loud(True):
            task = asyncio.create_task(read())
        return Loud.current(), await task

    assert asyncio.run(main()) == (False, True)


def test_defaults_to_none_hold_from_the_call_on(monkeypatch):
    """`set_get_defaults_to_none` counts at once; a decorated function has it in other threads too."""
    monkeypatch.setattr(set_get_defaults_to_none, "_setting", Setting("defaults", True))  # for this test alone
    strict = set_get_defaults_to_none(False)
    assert get_defaults_to_none() is False
    with strict:
        assert get_defaults_to_none() is False
    assert get_defaults_to_none() is True
    decorated = set_get_defaults_to_none(False)(get_defaults_to_none)
    set_get_defaults_to_none(True)
    assert (decorated(), _elsewhere(decorated), get_defaults_to_none()) == (False, False, True)


def test_the_aggregate_flag_is_kept_until_it_is_taken_back():
    """`set` and `unset` of one object go together, however often."""
    flag = set_composite_lp_aggregate(True)
    for _ in range(2):
        flag.set()
    assert composite_lp_aggregate() is True
    flag.unset()
    assert composite_lp_aggregate() is True
    flag.unset()
    assert composite_lp_aggregate() is False
    with set_composite_lp_aggregate(True), set_composite_lp_aggregate(None):
        assert composite_lp_aggregate() is False  # None is the value at the start, as in the original
    with pytest.raises(RuntimeError, match="unset"):
        flag.unset()


@pytest.mark.slow
def test_compiled_code_follows_blocks():
    """A block in compiled code counts there; one around it is seen, with eager code for what reads it."""

    def write(data):
        data["names"] = ["a", "b"]
        return list_to_stack(), data

    def inside(data):
        with set_list_to_stack(False), set_capture_non_tensor_stack(True):
            return capture_non_tensor_stack(), *write(data)

    torch._dynamo.reset()
    sample = lambda: TensorDict(x=torch.zeros(2), batch_size=[2])  # noqa: E731
    captured, stacked, data = torch.compile(inside, fullgraph=True, backend="eager")(sample())
    assert (captured, stacked, data[0]["names"]) == (True, False, ["a", "b"])
    assert (list_to_stack(), capture_non_tensor_stack()) == (True, False)
    around = torch.compile(write, backend="eager")
    assert (around(sample())[0], around(sample())[1][0]["names"]) == (True, "a")
    with set_list_to_stack(False):
        stacked, data = around(sample())
    assert (stacked, data[0]["names"]) == (False, ["a", "b"])
    assert around(sample())[0] is True


def test_a_mode_set_in_a_block_ends_with_it() -> None:
    """After the block nothing counts as open, so that compiled code may read the value again."""
    mode = set_list_to_stack
    setting = mode._setting
    opened = len(setting.open)
    with mode(True):
        mode(False).set()
        mode(True).set()
        with mode(False):
            mode(True).set()
        assert setting.get()
    assert len(setting.open) == opened
