"""Writes to lazy stacks whose nested containers have more batch dims than their parent, against the dense result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorDict, UnbatchedTensor, lazy_stack

SIZE, FURTHER = (2, 3), (4, 2)
PATHS: list[Any] = ["a", ("n", "x"), ("n", "y"), ("n", "m", "z")]


def member(position: int, dims: int, further: int) -> TensorDict:
    """A container with `dims` batch dims, whose nested container has `further` more, and one in it one more again."""
    size, nested = SIZE[:dims], SIZE[:dims] + FURTHER[:further]
    return TensorDict(
        a=torch.full((*size, 2), float(position)),
        n=TensorDict(
            x=torch.full(nested, position + 10.0),
            y=torch.full((*nested, 3), position + 20.0),
            m=TensorDict(z=torch.full((*nested, 2), position + 30.0), batch_size=(*nested, 2)),
            batch_size=nested,
        ),
        batch_size=size,
    )


def plain(dims: int, further: int, at: int) -> tuple[Any, Any]:
    """A lazy stack, and the dense one."""
    members = [member(i, dims, further) for i in range(3)]
    return lazy_stack(members, at), torch.stack([m.clone() for m in members], at)


def two_levels(dims: int, further: int, at: int) -> tuple[Any, Any]:
    """A lazy stack of lazy stacks."""
    rows = [plain(dims, further, at) for _ in range(2)]
    return lazy_stack([lazy for lazy, _ in rows], at), torch.stack([dense for _, dense in rows], at)


def lazy_inside(dims: int, further: int, at: int) -> tuple[Any, Any]:
    """Members whose nested container is a lazy stack along a further dim."""
    lazy, dense = plain(dims, further, at)
    for m in lazy.tensordicts:
        m["n"] = m["n"].to_lazystack(dims) if further else m["n"]
    return lazy, dense


def unflattened(dims: int, further: int, at: int) -> tuple[Any, Any]:
    """A lazy stack after `unflatten`."""
    return tuple(x.unflatten(0, [-1, 1]) for x in plain(dims, further, at))  # type: ignore[return-value]  # two of them


def other(like: Any) -> Any:
    """A container of the same structure with other values."""
    return like.apply(lambda leaf: leaf * 0 + torch.arange(float(leaf.numel())).reshape(leaf.shape))


def mask(like: Any) -> Tensor:
    """Every second element of the batch."""
    found = torch.zeros(like.batch_size, dtype=torch.bool)
    found.view(-1)[::2] = True
    return found


ONE_ENTRY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "set_": lambda t, path, new: t.set_(path, new[path]),
    "set_, fewer dims": lambda t, path, new: t.set_(path, new[path][0]),
    "set_, no batch dims": lambda t, path, new: t.set_(path, new[path].flatten(0, new.ndim - 1)[0]),
    "set_, lists": lambda t, path, new: t.set_(path, new[path].tolist()),
    "set_, lists of fewer dims": lambda t, path, new: t.set_(path, new[path][0].tolist()),
    "set_, a number": lambda t, path, new: t.set_(path, 7.0),
    "set_at_, int": lambda t, path, new: t.set_at_(path, new[path][0], 0),
    "set_at_, slice": lambda t, path, new: t.set_at_(path, new[path][1:], slice(1, None)),
    "set_at_, array": lambda t, path, new: t.set_at_(path, new[path][1:].numpy(), slice(1, None)),
    "set_at_, mask": lambda t, path, new: t.set_at_(path, new[path][mask(new)], mask(new)),
    "set_at_, positions": lambda t, path, new: t.set_at_(path, new[path][torch.tensor([1, 0])], torch.tensor([1, 0])),
    "update_": lambda t, path, new: t.update_({path: new[path]}),
    "update_at_": lambda t, path, new: t.update_at_({path: new[path][-1]}, -1),
    "set": lambda t, path, new: t.set(path, new[path]),
    "set, in place": lambda t, path, new: t.set(path, new[path], inplace=True),
    "update, in place": lambda t, path, new: t.update({path: new[path]}, inplace=True),
    "fill_": lambda t, path, new: t.fill_(path, 3),
}

ALL_ENTRIES: dict[str, Callable[[Any, Any], Any]] = {
    "update_, mapping": lambda t, new: t.update_(new.to_dict()),
    "update_": lambda t, new: t.update_(new),
    "update_, lazy along the last dim": lambda t, new: t.update_(new.to_lazystack(new.ndim - 1)),
    "copy_": lambda t, new: t.copy_(new),
    "copy_, fewer dims": lambda t, new: t.copy_(new[0]),
    "copy_, a dim of one": lambda t, new: t.copy_(new[:1]),
    "copy_, a last dim of one": lambda t, new: t.copy_(new[..., :1]),
    "copy_at_": lambda t, new: t.copy_at_(new[0], 0),
    "nested container": lambda t, new: t.update_({"n": new["n"]}),
    "nested container of fewer dims": lambda t, new: t.update_({"n": new["n"][0]}),
    "nested container of its own dims": lambda t, new: (
        t.update_({"n": new["n"].flatten(0, new.ndim - 1)[0]}) if new["n"].ndim > new.ndim else None
    ),
    "nested mapping": lambda t, new: t.update_({"n": {"x": new["n", "x"], "m": {"z": new["n", "m", "z"]}}}),
    "x[int]": lambda t, new: t.__setitem__(0, new[0]),
    "x[int], mapping": lambda t, new: t.__setitem__(0, new[0].to_dict()),
    "x[slice]": lambda t, new: t.__setitem__(slice(1, None), new[1:]),
    "x[slice], fewer dims": lambda t, new: t.__setitem__(slice(0, 2), new[0]),
    "x[..., int]": lambda t, new: t.__setitem__((..., -1), new[..., -1]),
    "x[positions]": lambda t, new: t.__setitem__(torch.tensor([1, 0]), new[:2]),
    "x[mask]": lambda t, new: t.__setitem__(mask(new), new[mask(new)]),
    "x[None]": lambda t, new: t.__setitem__(None, new[None]),
    "nested[..., int]": lambda t, new: t["n"].__setitem__((..., 0), new["n"][..., 0]),
    "nested update_": lambda t, new: t["n"].update_(new["n"]),
    "update_at_, nested": lambda t, new: t.update_at_({"n": {"x": new["n", "x"][0]}}, 0),
    "apply_": lambda t, new: t.apply_(lambda leaf, it: leaf * 2 + it, new),
    "add_": lambda t, new: t.add_(new),
    "add_, tensor": lambda t, new: t.add_(torch.arange(new.numel()).reshape(new.batch_size)),
    "add_, tensor of the last dim": lambda t, new: t.add_(torch.arange(new.shape[-1])),
    "lerp_": lambda t, new: t.lerp_(new, 0.5),
    "masked_fill_": lambda t, new: t.masked_fill_(mask(new), 3.0),
    "update": lambda t, new: t.update(new),
    "update, in place": lambda t, new: t.update(new, inplace=True),
    "update, nested": lambda t, new: t.update({"n": new["n"]}),
    "where, out": lambda t, new: t.where(mask(new), new, out=t),
    "stack, out": lambda t, new: torch.stack(new.unbind(0), 0, out=t),
    "load_state_dict": lambda t, new: t.load_state_dict(new.state_dict()),
}

SHAPES = [(dims, further, at) for dims in (0, 1, 2) for further in (0, 1, 2) for at in range(dims + 1)]
KINDS = [plain, two_levels, lazy_inside, unflattened]


def same_as_dense(write: Callable[[Any, Any], Any], kind: Any, shape: tuple[int, int, int]) -> None:
    """Write the same to a lazy stack and to the dense one, and compare all entries."""
    lazy, dense = kind(*shape)
    new = other(dense)
    write(dense, new)
    write(lazy, new)
    for path in PATHS:
        assert torch.equal(lazy[path], dense[path]), (path, shape)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ONE_ENTRY)
def test_a_write_of_one_entry_is_that_of_the_dense_stack(name: str, kind: Any):
    """An entry at any depth is split along the stack dim, whatever further batch dims its container has."""
    for path in PATHS:
        for shape in SHAPES:
            same_as_dense(lambda t, new, path=path: ONE_ENTRY[name](t, path, new), kind, shape)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ALL_ENTRIES)
def test_a_write_of_a_container_is_that_of_the_dense_stack(name: str, kind: Any):
    """A container or mapping is split along the stack dim, and so are the containers in it."""
    for shape in SHAPES:
        same_as_dense(ALL_ENTRIES[name], kind, shape)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (3, 2)], ids=str)
@pytest.mark.parametrize("write", [
    lambda t, value: t.set_("shared", value),
    lambda t, value: t.update_({"shared": value}),
    lambda t, value: t.load_state_dict({**t.state_dict(), "shared": value}),
], ids=["set_", "update_", "load_state_dict"])  # fmt: skip
def test_a_tensor_shared_by_the_batch_is_written_whole(shape: tuple[int, ...], write: Callable[[Any, Tensor], Any]):
    """Its dims are no batch dims, of whatever size: every member gets all of it."""
    for size in ([], [2]):
        rows = [
            TensorDict(x=torch.zeros(2), shared=UnbatchedTensor(torch.zeros(shape)), batch_size=size) for _ in "abc"
        ]
        value = torch.rand(shape)
        write(stack := lazy_stack(rows), value)
        assert all(torch.equal(row["shared"], value) for row in stack.tensordicts)
