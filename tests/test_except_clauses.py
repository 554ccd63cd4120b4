"""`except` clauses of programs for `tensordict` keep working: the same wrong call, and an error that they catch.

Every call runs on both libraries. Where the anchor raises a builtin error, or one that derives from builtin errors,
ours is an instance of those.
"""

from __future__ import annotations

import builtins
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import pytest
import tensordict
import torch

import tensorclass
from tests import test_bad_containers
from tests._wrong_calls import CALLS, world

LINES = [line for line in CALLS.splitlines() if line and not line.startswith("#")]

NAMES = "dims have names here: an absent name is a wrong value"
ABSENT = "an absent key is a KeyError, here too"
ATTRIBUTE = "a class without that attribute: Python's own AttributeError"
DECIDED = {
    'td.device = "gpu0"': "a property without a setter is an AttributeError in Python",
    'td.permute("word", 0)': NAMES,
    'td.sum("word")': NAMES,
    "hash(td)": "containers are hashed by identity, so that they may be keys of caches, as modules and tensors are",
    "td + [1]": "an operand of another type is a TypeError in Python",
    "Point(ones2, ones2, z=ones2)": "an unknown argument of a constructor is a TypeError in Python",
    'point.set("absent", ones2)': ABSENT,
    'point.update_({"absent": ones2})': ABSENT,
    "del point.absent": ATTRIBUTE,
    'Mod(lambda x: {"c": x}, in_keys=["a"], out_keys=["b", "d"])(td)': ABSENT,
    'Mod(linear, in_keys=["a"], out_keys=["b"])(unknown=ones)': ABSENT,
    'Mod(linear, in_keys={"absent": "input"}, out_keys=["b"], out_to_in_map=False)(td)': ABSENT,
    'Seq(Mod(linear, in_keys=["a"], out_keys=["b"]))["absent"]': "names index a sequence, and this one is absent",
    'Prob(in_keys=["loc", "scale"], out_keys=["s"], distribution_class=D.Normal)(td)': ABSENT,
    'Prob(in_keys=["loc", "scale"], out_keys=["s"], distribution_class=D.Normal).log_prob(dist)': ABSENT,
    'Prob(in_keys=["loc", "scale"], out_keys=["s"], distribution_class=D.Normal).get_dist(td)': ABSENT,
    "nn.ProbabilisticTensorDictSequential()": "it has no distribution, and says so when it is asked for one",
    "stack of nothing": "the anchor reads the first item of an empty list",
    "a sum over an absent name": NAMES,
    "a flip of an absent name": NAMES,
}
"""Calls that other `except` clauses catch, or that are right here."""
ACCIDENTS = "object has no attribute"
"""How an AttributeError reads that the anchor did not mean: an argument of another kind met its code."""


def builtin_bases(error: type[BaseException]) -> list[type]:
    """The most particular builtin errors that an error is."""
    found = [base for base in error.__mro__ if base.__module__ == "builtins" and issubclass(base, Exception)]
    assert all(getattr(builtins, base.__name__) is base for base in found)
    return [base for base in found if not any(other is not base and issubclass(other, base) for other in found)]


def raised(run: Any, *arguments: Any) -> Exception | None:
    """What a call raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run(*arguments)
        except Exception as error:
            return error
    return None


def misses(theirs: Exception | None, ours: Exception | None) -> list[str]:
    """The builtin errors that a program may catch and ours is not."""
    if theirs is None:
        return []
    if isinstance(theirs, AttributeError) and ACCIDENTS in str(theirs) and ours is not None:
        return [] if isinstance(ours, (AttributeError, TypeError, ValueError)) else ["TypeError or ValueError"]
    return [base.__name__ for base in builtin_bases(type(theirs)) if not isinstance(ours, base)]


@pytest.mark.parametrize("line", LINES)
def test_calls(line, monkeypatch):
    """The same line, run with the names of either library."""
    # `torch.compile` switches it off for the whole process, here in whatever test came before.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    code = compile(line, "<call>", "exec")
    theirs, ours = (raised(exec, code, world(lib)) for lib in (tensordict, tensorclass))
    found = misses(theirs, ours)
    assert bool(found) == (line in DECIDED), f"not {found}: {theirs!r} and {ours!r}"


def anchor_rows() -> Any:
    """The rows of wrong programs over containers with nothing but the import changed."""
    source = Path(test_bad_containers.__file__).read_text("utf-8")
    twin = types.ModuleType("bad_containers_of_the_anchor")
    sys.modules[twin.__name__] = twin  # dataclasses look their module up
    changed = source.replace("from tensorclass import (", "from tensordict import (", 1)
    exec(compile(changed, twin.__name__, "exec"), vars(twin))
    return twin


@pytest.fixture(scope="module")
def twin():
    """The rows of the anchor by name, and what makes their containers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = anchor_rows()
    yield module.World, {case.name: case for case in module.CASES}
    del sys.modules[module.__name__]


@pytest.mark.parametrize("case", test_bad_containers.CASES, ids=lambda case: case.name)
def test_wrong_programs(case, twin):
    """The rows of test_bad_containers.py."""
    make, cases = twin
    theirs = raised(lambda: cases[case.name].call(make()))
    ours = raised(lambda: case.call(test_bad_containers.World()))
    found = misses(theirs, ours)
    assert bool(found) == (case.name in DECIDED), f"not {found}: {theirs!r} and {ours!r}"


def test_the_tables_are_large():
    """Over 500 calls, each once, and every decision is about one of them."""
    names = [*LINES, *(case.name for case in test_bad_containers.CASES)]
    assert len(names) == len(set(names)) > 500
    assert set(names) >= DECIDED.keys()
