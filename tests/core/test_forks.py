"""Forks while another thread holds a lock: the child goes on."""

from __future__ import annotations

import ast
import os
import signal
import threading
from pathlib import Path

import pytest
import torch

import tensorclass
from tensorclass import RaggedTensor, TensorClass, TensorDict, _system

PACKAGE = Path(tensorclass.__file__).parent


def test_all_locks_are_known():
    """No module makes a lock that stays closed in a forked process."""
    wrapped, bare = 0, []
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        inside = [arg for call in calls if getattr(call.func, "id", "") == "release_in_forks" for arg in call.args]
        for call in calls:
            if (getattr(call.func, "id", None) or getattr(call.func, "attr", None)) in ("Lock", "RLock"):
                wrapped += call in inside
                bare += [] if call in inside else [f"{path}:{call.lineno}"]
    assert bare == []
    assert wrapped >= 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_forked_while_locks_are_held():
    """Ragged and per-element writes, classes that are made, in the child of a process whose locks are all taken."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        locks = list(_system._LOCKS)
        for lock in locks:
            lock.acquire()
        held.set()
        done.wait()
        for lock in locks:
            lock.release()

    data = TensorDict(r=RaggedTensor([torch.arange(2), torch.arange(3)]), words=["a", "b"], batch_size=[2])
    other = data[1].clone()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if not child:
        signal.alarm(20)  # a lock that stays closed ends the child
        data[0] = other
        data.set("more", ["x", "y"])
        torch.stack([data, data])

        class Made(TensorClass):
            x: torch.Tensor

        tensorclass.pick(Made, "x")
        os._exit(0 if data["words"].tolist() == ["b", "b"] else 1)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
