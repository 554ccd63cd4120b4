"""Threads that swap the parameters of one module: none computes with those of another."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import from_module

X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))


def module() -> Any:
    """Three layers."""
    return nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))


@pytest.fixture(autouse=True)
def _switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(works: list[Callable[[], object]]) -> None:
    """Run functions in threads at the same time; what one raises is raised here."""
    barrier, errors = threading.Barrier(len(works)), []

    def run(work: Callable[[], object]) -> None:
        try:
            barrier.wait()
            work()
        except BaseException as error:  # handed to the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("options", [{}, {"inplace": True}, {"use_state_dict": True}])
def test_threads_compute_with_their_own_parameters(options: dict[str, Any]) -> None:
    """Two threads, containers that are new and known, and the module as it was afterwards."""
    net = module()
    before, values = [id(p) for p in net.parameters()], from_module(net).data.clone()
    containers = [from_module(module()) for _ in range(2)]
    expected = []
    for params in containers:
        with params.to_module(net):
            expected.append(net(X))

    def work(params: Any, due: Tensor) -> None:
        for turn in range(100):
            with (params if turn % 2 else params.clone(False)).to_module(net, **options):
                assert torch.equal(net(X), due)

    together([lambda i=i: work(containers[i], expected[i]) for i in range(2)])  # type: ignore[misc]  # a default
    assert [id(p) for p in net.parameters()] == before
    assert (from_module(net).data == values).all()


def test_threads_on_a_module_and_on_its_submodule_exclude_each_other() -> None:
    """They share a lock, whichever was swapped first."""
    for first in range(2):
        net = module()
        inner = net[0]
        whole, part = from_module(module()), from_module(module()[0])
        before = [id(p) for p in net.parameters()]
        for target, params in [(net, whole), (inner, part)][:: 1 if first else -1]:
            with params.to_module(target):
                pass

        def of_the_whole(net: Any = net, whole: Any = whole) -> None:
            for _ in range(100):
                with whole.to_module(net):
                    assert net[0].weight is whole["0", "weight"]

        def of_the_part(inner: Any = inner, part: Any = part) -> None:
            for _ in range(100):
                with part.to_module(inner):
                    assert inner.weight is part["weight"]

        together([of_the_whole, of_the_part])
        assert [id(p) for p in net.parameters()] == before


def test_modules_of_their_own_do_not_wait_for_each_other() -> None:
    """One thread is in a block while another swaps another module."""
    nets = [module(), module()]
    inside = threading.Barrier(2, timeout=300)

    def work(net: Any) -> None:
        with from_module(module()).to_module(net):
            inside.wait()

    together([lambda net=net: work(net) for net in nets])  # type: ignore[misc]  # a default
    assert not inside.broken
