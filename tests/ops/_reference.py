"""What reductions are compared with: the same on plain tensors, dim by dim."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tensorclass import TensorDict
from tensorclass._operations import REDUCTIONS
from tensorclass.core import TensorCollection
from tensorclass.store import Unbatched
from tests.contract._invariants import check
from tests.contract._kinds import KINDS

TOTALS = [row.name for row in REDUCTIONS if row.form in ("total", "extreme")]
PAIRED = [row.name for row in REDUCTIONS if row.form in ("indexed", "running")]
PLAIN_KINDS = [name for name in KINDS if name != "assorted"]
DIMS = {"first": 0, "last": -1, "tuple": (0, -1), "feature": "feature", "everything": None}
FIRST = {"quantile": (0.3,)}
QUIET = pytest.mark.filterwarnings("ignore:(std|var)\\(\\):UserWarning")  # of one element or none: nan


def numbers(*shape: int) -> Tensor:
    """Different numbers, some of them negative."""
    torch.manual_seed(len(shape))
    return torch.randn(shape, dtype=torch.float64)


def spans(data: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], tuple[Tensor, int | None]]:
    """Every tensor by path, and its number of batch dims; None for a shared one."""
    found: dict[tuple[str, ...], tuple[Tensor, int | None]] = {}
    for key, value in data._entries().items():
        if isinstance(value, TensorCollection):
            found |= spans(value, (*path, key))
        elif isinstance(value, Unbatched):
            found[(*path, key)] = value.tensor, None
        elif isinstance(value, Tensor):
            found[(*path, key)] = value, data.ndim
    return found


def reference(name: str, leaf: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """One leaf reduced over some dims, without this library; over none, every element by itself."""
    if not dims:
        leaf, dims, keepdim = leaf[..., None], (leaf.ndim,), False
    if name == "quantile":
        return torch.as_tensor(np.quantile(leaf.detach().numpy(), 0.3, axis=dims, keepdims=keepdim))
    if name == "prod":
        for dim in sorted(dims, reverse=True):
            leaf = leaf.prod(dim, keepdim=keepdim)
        return leaf
    return getattr(torch, name)(leaf, dim=dims, keepdim=keepdim)


def leaf_dims(dim: Any, leaf: Tensor, ndim: int | None, batch: int) -> tuple[int, ...] | None:
    """The dims of a leaf that a dim argument reaches; None when the leaf stays what it is."""
    if dim is None or (dim == "feature" and ndim is None):
        return tuple(range(leaf.ndim))
    if dim == "feature":
        return tuple(range(ndim or 0, leaf.ndim))
    if ndim is None:
        return None
    given = (dim,) if isinstance(dim, int) else dim
    return tuple({d % batch for d in given})


def expect(name: str, data: Any, result: Any, dim: Any, keepdim: bool) -> None:
    """Assert the result of a reduction leaf by leaf, its batch size and its names."""
    check(result)
    size = tuple(data.batch_size)
    gone = (
        set(range(len(size)))
        if dim is None
        else set()
        if dim == "feature"
        else set(leaf_dims(dim, torch.ones(1), 0, len(size)) or ())
    )
    assert tuple(result.batch_size) == tuple(
        1 if d in gone else n for d, n in enumerate(size) if keepdim or d not in gone
    )
    assert result.names == [n for d, n in enumerate(data.names) if keepdim or d not in gone]
    assert not result.is_locked
    found = spans(result)
    assert found.keys() == spans(data).keys()
    for path, (leaf, ndim) in spans(data).items():
        dims = leaf_dims(dim, leaf, ndim, len(size))
        wanted = leaf if dims is None else reference(name, leaf, dims, keepdim)
        torch.testing.assert_close(
            found[path][0], wanted, equal_nan=True, msg=lambda text, path=path: f"{path}: {text}"
        )


def suits(name: str, dim: Any) -> bool:
    """Whether a row has a container for this dim: tests of everything give a bool, logsumexp stays in the batch."""
    return not (name == "logsumexp" and dim in (None, "feature")) and not (name in ("all", "any") and dim is None)


CASES = [(n, d) for n in (*TOTALS, "all", "any", "logsumexp") for d in DIMS if suits(n, DIMS[d])]


def named() -> TensorDict:
    """Two named batch dims, and one more with a name below."""
    inner = TensorDict({"b": numbers(2, 3, 5, 6)}, batch_size=[2, 3, 5], names=["time", "lane", "joint"])
    return TensorDict({"a": numbers(2, 3, 4), "n": inner}, batch_size=[2, 3], names=["time", "lane"])
