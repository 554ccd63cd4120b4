"""Settings of the whole suite: hypothesis profiles, one torch thread per worker, the same seed before every test."""

from __future__ import annotations

import gc
import statistics

import pytest
import torch
from hypothesis import HealthCheck, settings

from tests import _versions
from tests._sources import handwritten
from tests._vision import declare_operators

# A loaded machine is slow, not wrong: no deadlines, and generation may take its time.
_SHARED = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=25, **_SHARED)
settings.register_profile("thorough", max_examples=300, **_SHARED)
settings.load_profile("quick")


def pytest_addoption(parser: pytest.Parser) -> None:
    """A sample of the tests, for `make matrix`."""
    parser.addoption("--every", type=int, default=1, metavar="N", help="run each Nth test only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each Nth test, in the order of the files, without those that need a newer version than there is."""
    items[:] = items[:: config.getoption("--every")]
    _versions.mark(items)


def pytest_collection_finish() -> None:
    """The collector, which many tests call, need not look at the collected tests each time."""
    gc.collect()
    gc.freeze()


def pytest_configure() -> None:
    """Workers run side by side: more threads than one each would only wait for each other."""
    torch.set_num_threads(1)
    _versions.prepare()
    declare_operators()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that draws random tensors draws the same ones alone, in order and on any worker."""
    seed()


def pytest_collectstart() -> None:
    """So does a module that draws some for all its tests while it is imported."""
    seed()


def seed() -> None:
    """Seed torch. Without CUDA, `torch.manual_seed` formats a stack trace, which takes longer than most tests."""
    if torch.cuda.is_initialized():
        torch.manual_seed(0)
    else:
        torch.default_generator.manual_seed(0)


def pytest_report_header() -> str:
    """The size of the house, for whoever watches it grow."""
    lengths = [source.lines for source in handwritten()]
    median = int(statistics.median(lengths)) if lengths else 0
    return f"tensorclass: {len(lengths)} hand-written files, {sum(lengths)} lines, median {median}"
