"""Every operation on a container of parameters against the same operation on a plain one."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

from tensorclass import TensorDict, TensorDictParams
from tests.contract import _relayouts as _relayouts
from tests.contract._invariants import check
from tests.contract._kinds import mixed, nested
from tests.contract._model import Model, as_list, assert_same
from tests.contract._operations import OPS, Op


def outcome(op: Op, container: Any) -> Any:
    """What an operation gives, or the class of its error."""
    try:
        return as_list(op.call(container))
    except Exception as error:  # both containers must fail alike
        return type(error)


@pytest.mark.parametrize("op", [op for op in OPS if op.suits((2, 3))], ids=lambda op: op.name)
def test_operations_are_those_of_a_plain_container(op: Op) -> None:
    """The same values, names and errors; what is written is a buffer afterwards, and the result shares no structure."""
    container, params = nested(mixed()), TensorDictParams(nested(mixed()), no_convert=True)
    wanted, got = outcome(op, container), outcome(op, params)
    check(params)
    assert_same(params, Model.of(container))
    assert {name for name, _ in params.named_buffers()} == {
        ".".join(key) if isinstance(key, tuple) else key
        for key, value in params.items(True, True)
        if isinstance(value, Tensor)
    }
    if isinstance(wanted, type):
        assert got is wanted
        return
    assert len(got) == len(wanted)
    for result, due in zip(got, wanted, strict=True):
        assert (result is params) is (due is container)
        assert isinstance(result, (TensorDict, TensorDictParams)) is isinstance(due, TensorDict)
        assert_same(result, Model.of(due), nests=not op.loose)
