"""Every operation on every kind of container, against the same operation on a plain dict of tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorCollection, TensorDict
from tensorclass.core import STORAGE, VALUES
from tensorclass.store import Node
from tests.contract import _relayouts as _relayouts
from tests.contract._invariants import check
from tests.contract._kinds import mixed
from tests.contract._model import Model, as_list, assert_same
from tests.contract._operations import OPS, Op
from tests.contract._typed_kinds import ALL_KINDS


def possible(op: Op, kind: str) -> bool:
    """Whether the arguments are legal, and the model knows what comes of shared values when they are stacked."""
    if "typed" in kind and (op.schemaless or (op.restructures and op.untyped)):
        return False
    return op.suits(tuple(ALL_KINDS[kind](mixed()).batch_size)) and not (kind == "tagged" and "stack" in op.name)


CASES = [pytest.param(op, kind, id=f"{kind}-{op.name}") for kind in ALL_KINDS for op in OPS if possible(op, kind)]


def below(collection: TensorCollection) -> list[Any]:
    """A container and every container below it."""
    found: list[Any] = [collection]
    for value in collection._entries().values():
        if isinstance(value, TensorCollection):
            found += below(value)
    return found


def nodes(collection: TensorCollection) -> list[Node]:
    """The entry nodes of a container at every depth."""
    return [value for part in below(collection) for value in part._entries().values() if isinstance(value, Node)]


def wanted_of(op: Op, source: Model) -> Any:
    """What the plain dict gives, or the error that torch raises."""
    try:
        return op.model(source)
    except (RuntimeError, NotImplementedError) as error:
        return error


def refuses(op: Op, container: Any) -> bool:
    """Whether a write must fail: shared elements, leaves that autograd guards, a locked structure."""
    if op.restructures:
        return bool(container.is_locked)
    leaves: list[Tensor] = container._leaves(STORAGE)
    overlap = any(s == 0 and n > 1 for leaf in leaves for s, n in zip(leaf.stride(), leaf.shape, strict=True))
    return op.writes and (overlap or any(leaf.requires_grad for leaf in leaves))


@pytest.mark.parametrize(("op", "kind"), CASES)
def test_operation(op: Op, kind: str):
    """Leaf by leaf what torch does; the invariants hold; the result is a new, unlocked container of the same class."""
    container = ALL_KINDS[kind](mixed())
    source = Model.of(container)
    before = source.frozen()
    wanted = wanted_of(op, source if not (op.writes or op.restructures) else before)
    if isinstance(wanted, Exception) or refuses(op, container):
        with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
            op.call(container)
        check(container)
        assert_same(container, before)
        return
    results = op.call(container)
    check(container)
    assert len(as_list(results)) == len(as_list(wanted))
    for result, model in zip(as_list(results), as_list(wanted), strict=True):
        check(result)
        assert_same(result, model, nests=not op.loose)
        assert type(result) is (TensorDict if op.untyped else type(container))
        assert not op.names or result.names == container.names
        if op.name.endswith("_like"):  # these stay locked, as arithmetic does
            assert result.is_locked == container.is_locked
            result.unlock_()
        assert result.device == container.device or op.name.startswith("to(") or op.name in ("cpu", "TensorDict")
    if op.writes or op.restructures:
        assert as_list(results)[-1] is container
    else:
        assert_same(container, before)
        assert_new(container, as_list(results), op.shares)


def assert_new(source: Any, results: Any, shares: bool) -> None:
    """No structure is shared: not one container, and a key written in the result stays there.

    Entry nodes are leaves: they are shared where tensors are, and nowhere else.
    """
    mine = {id(part) for part in below(source)}
    storage = {leaf.data_ptr() for leaf in source._leaves(VALUES) if leaf.numel()}
    for result in results:
        fresh = not storage & {leaf.data_ptr() for leaf in result._leaves(VALUES)}
        assert not (fresh and {id(node) for node in nodes(source)} & {id(node) for node in nodes(result)})
        assert shares or not mine & {id(part) for part in below(result)}, "the result shares structure with its source"
        if isinstance(result, TensorDict):
            assert shares or not any(part.is_locked for part in below(result) if isinstance(part, TensorDict)), "locked"
            result.set("written", torch.zeros(result.batch_size))
            assert "written" not in source
