"""Lazy stacks: loading a state, what a stack without members remembers, what is a view and what is a copy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import LazyStackedTensorDict, TensorClass, TensorDict, lazy_stack
from tensorclass.errors import BatchSizeError, StructureError, TensorClassError


class Point(TensorClass):
    """Two tensors."""

    a: Tensor
    b: Tensor | None = None


def plain(dim: int = 0) -> Any:
    """A stack with a nested container."""
    rows = [TensorDict(a=torch.full((3, 2), 1.0 + i), n={"c": torch.full((3,), i)}, batch_size=[3]) for i in range(2)]
    return lazy_stack(rows, dim)


STACKS: dict[str, Callable[[], Any]] = {
    "alone": plain,
    "along dim 1": lambda: plain(1),
    "stack of stacks": lambda: lazy_stack([plain(), plain()]),
    "typed": lambda: lazy_stack([Point(torch.full((3,), 1.0 + i), torch.ones(3), batch_size=[3]) for i in range(2)]),
    "typed, None": lambda: lazy_stack([Point(torch.full((3,), 1.0 + i), batch_size=[3]) for i in range(2)]),
    "entry": lambda: TensorDict(e=plain(), f=torch.ones(2), batch_size=[2]),
    "entry of an entry": lambda: TensorDict(p=TensorDict(e=plain(), batch_size=[2]), batch_size=[2]),
    "typed entry": lambda: TensorDict(e=STACKS["typed"](), batch_size=[2]),
    "entry of members": lambda: lazy_stack([TensorDict(e=plain(), batch_size=[2]) for _ in range(2)]),
}


def tensors(container: Any) -> list[Tensor]:
    """All tensors of the members."""
    return container._leaves(2)  # type: ignore[no-any-return]  # a list


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("assign", [True, False])
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("make", STACKS.values(), ids=STACKS)
def test_a_state_reaches_the_members(make: Callable[[], Any], strict: bool, assign: bool, flatten: bool):
    """Into their tensors, or in the place of them."""
    source, target = make(), make()
    target.zero_()
    before = tensors(target)
    state = source.state_dict(flatten=flatten)
    assert target.load_state_dict(state, strict=strict, assign=assign) is target
    for mine, theirs, old in zip(tensors(target), tensors(source), before, strict=True):
        assert torch.equal(mine, theirs)
        assert (mine is old) is not assign


@pytest.mark.parametrize("make", STACKS.values(), ids=STACKS)
def test_a_state_of_other_keys_is_refused_whole(make: Callable[[], Any]):
    """Missing and unexpected keys, other shapes: nothing is written; without `strict` the others are."""
    target = make()
    before = [leaf.clone() for leaf in tensors(target)]
    state = (make() * 2).state_dict()
    first = next(iter(state))
    missing = {key: value for key, value in state.items() if key != first}
    wrong = {**state, first: torch.zeros(2, 9)}
    for bad in (missing, {**state, "unexpected": torch.zeros(2)}, wrong):
        with pytest.raises(StructureError, match="load_state_dict"):
            target.load_state_dict(bad)
        assert all(torch.equal(a, b) for a, b in zip(tensors(target), before, strict=True))
    target.load_state_dict(missing, strict=False)
    written = [not torch.equal(a, b) for a, b in zip(tensors(target), before, strict=True)]
    assert any(written) is (len(missing) > 0 and any(value.any() for value in missing.values()))


def test_a_state_of_members_that_differ_is_refused():
    """There is no one tensor to save; keys of some members are not left out."""
    parts = [TensorDict(a=torch.ones(2)), TensorDict(a=torch.ones(2), more=torch.ones(1))]
    for holder in (lazy_stack(parts), TensorDict(e=lazy_stack(parts), batch_size=[2])):
        for export in ("state_dict", "to_dict", "to_tensordict", "to_namedtuple"):
            with pytest.raises(StructureError, match="`more` is at positions"):
                getattr(holder, export)()


# ---- without members -------------------------------------------------------------------------------------------------


def empty() -> LazyStackedTensorDict:
    """A stack that knows what its members will be."""
    return LazyStackedTensorDict(batch_size=[3], device="cpu", names=["x"], stack_dim_name="s")


KEPT: dict[str, Callable[[Any], Any]] = {
    "itself": lambda s: s, "clone": lambda s: s.clone(), "copy": lambda s: s.copy(), "[:]": lambda s: s[:],
    "detach": lambda s: s.detach(), "cpu": lambda s: s.cpu(), "to": lambda s: s.to("cpu"),
    "double": lambda s: s.double(),
    "[0:0]": lambda s: s[0:0], "[:, :]": lambda s: s[:, :], "flip": lambda s: s.flip(0), "exp": lambda s: s.exp(),
    "+": lambda s: s + 1, "apply": lambda s: s.apply(lambda t: t), "select": lambda s: s.select(),
    "exclude": lambda s: s.exclude("a"), "empty": lambda s: s.empty(),
    "pickle": lambda s: pickle.loads(pickle.dumps(s)),
    "deepcopy": copy.deepcopy, "cat": lambda s: torch.cat([s, s]), "narrow": lambda s: s.narrow(1, 0, 3),
    "split": lambda s: s.split(3, 1)[0], "chunk": lambda s: s.chunk(1, 1)[0],
    "entry": lambda s: TensorDict(e=s, batch_size=[0, 3], names=["s", "x"], device="cpu")[:, :]["e"],
}  # fmt: skip


@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
def test_names_and_device_without_members(keep: Callable[[Any], Any]):
    """They stay, through operations, and through the first member that comes."""
    stack = keep(empty())
    assert (stack.names, stack.device, stack.batch_size) == (["s", "x"], torch.device("cpu"), torch.Size([0, 3]))
    for add in ("append", "extend", "insert"):
        grown = keep(empty())
        member = TensorDict(a=torch.ones(3), batch_size=[3], device="cpu")
        getattr(grown, add)(*{"append": (member,), "extend": ([member],), "insert": (0, member)}[add])
        assert (grown.names, grown.device, grown[0].names) == (["s", "x"], torch.device("cpu"), ["x"])
        assert grown.permute(1, 0).names == ["x", "s"]


MOVED: dict[str, tuple[Callable[[Any], Any], list[str | None], list[int]]] = {
    "permute": (lambda s: s.permute(1, 0), ["x", "s"], [3, 0]),
    "unsqueeze": (lambda s: s.unsqueeze(0), [None, "s", "x"], [1, 0, 3]),
    "unsqueeze(-1)": (lambda s: s.unsqueeze(-1), ["s", "x", None], [0, 3, 1]),
    "expand": (lambda s: s.expand(2, 0, 3), [None, "s", "x"], [2, 0, 3]),
    "unbind(1)": (lambda s: s.unbind(1)[0], ["s"], [0]),
    "[:, 0]": (lambda s: s[:, 0], ["s"], [0]),
    "split(1)": (lambda s: s.split(2, 1)[1], ["s", "x"], [0, 1]),
    "stack": (lambda s: torch.stack([s, s]), [None, "s", "x"], [2, 0, 3]),
    "cat(1)": (lambda s: torch.cat([s, s], 1), ["s", "x"], [0, 6]),
}


@pytest.mark.parametrize(("move", "names", "size"), MOVED.values(), ids=MOVED)
def test_moved_names_without_members(move: Callable[[Any], Any], names: list[str | None], size: list[int]):
    """As for any container of that size."""
    dense = TensorDict(batch_size=[0, 3], names=["s", "x"], device="cpu")
    for container in (empty(), dense):
        result = move(container)
        assert (result.names, result.device, result.batch_size) == (names, torch.device("cpu"), torch.Size(size))


def test_names_and_device_may_be_set_without_members():
    """A setter is not lost on a stack that is empty, and others that were made of it keep theirs."""
    stack = empty()
    other = stack.clone()
    stack.names = ["p", "q"]
    assert (stack.names, other.names) == (["p", "q"], ["s", "x"])
    stack.clear_device_()
    assert (stack.device, other.device) == (None, torch.device("cpu"))
    none = LazyStackedTensorDict(batch_size=[3])
    assert none.to("cpu").device == torch.device("cpu")
    with pytest.raises(BatchSizeError):
        empty().append(TensorDict(a=torch.ones(2), batch_size=[2], device="cpu"))
    with pytest.raises(TensorClassError):
        empty().append(TensorDict(a=torch.ones(3), batch_size=[3]))


@pytest.mark.parametrize(
    "nothing", [slice(0, 0), slice(5, None), [], torch.zeros(2, dtype=torch.bool), (slice(0, 0), 0)]
)
def test_names_and_device_of_no_elements(nothing: Any):
    """A slice that leaves nothing keeps what the stack had."""
    rows = [TensorDict(a=torch.ones(3), batch_size=[3], device="cpu", names=["x"]) for _ in range(2)]
    stack = lazy_stack(rows, stack_dim_name="s")[nothing]
    assert (stack.names, stack.device) == (["s", "x"][: stack.ndim], torch.device("cpu"))
    assert stack["a"].shape == stack.batch_size


# ---- views and copies ------------------------------------------------------------------------------------------------


def mask(stack: Any) -> Tensor:
    """True for every row."""
    return torch.ones(stack.batch_size[0], dtype=torch.bool)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "[0:1]": lambda s: s[0:1], "[0]": lambda s: s[0], "[...]": lambda s: s[...], "[None]": lambda s: s[None],
    "view": lambda s: s.view(1, *s.batch_size), "split": lambda s: s.split(1)[0], "unbind": lambda s: s.unbind()[0],
    "unsqueeze": lambda s: s.unsqueeze(0), "expand": lambda s: s.expand(1, *s.batch_size),
    "permute": lambda s: s.permute(*reversed(range(s.ndim))), "chunk": lambda s: s.chunk(2)[0],
    "narrow": lambda s: s.narrow(0, 0, 1), "copy": lambda s: s.copy(), "detach": lambda s: s.detach(),
    "select": lambda s: s.select(*s.keys()), "exclude": lambda s: s.exclude("absent"),
}  # fmt: skip
COPIES: dict[str, Callable[[Any], Any]] = {
    "[mask]": lambda s: s[mask(s)], "[full mask]": lambda s: s[torch.ones(s.batch_size, dtype=torch.bool)],
    "[tensor]": lambda s: s[torch.tensor([0, 1])], "[list]": lambda s: s[[0, 1]], "[True]": lambda s: s[True],
    "[tensor2d]": lambda s: s[torch.tensor([[0], [1]])], "cat": lambda s: torch.cat([s, s]),
    "cat one": lambda s: torch.cat([s]), "stack": lambda s: torch.stack([s, s]), "clone": lambda s: s.clone(),
    "masked_select": lambda s: s.masked_select(mask(s)), "flip": lambda s: s.flip(0), "+": lambda s: s + 0,
    "index_select": lambda s: s[torch.zeros(20, dtype=torch.int64)], "where": lambda s: s.where(mask(s), s),
}  # fmt: skip
SHARING = {name: make for name, make in STACKS.items() if "typed" not in name or name == "typed"}


@pytest.mark.parametrize("make", SHARING.values(), ids=SHARING)
@pytest.mark.parametrize("name", [*VIEWS, *COPIES])
def test_basic_indices_are_views_and_the_rest_copies(name: str, make: Callable[[], Any]):
    """As of a tensor, for a stack alone and as an entry; and as of the dense container."""
    for container in (make(), make().contiguous()):
        result = (VIEWS | COPIES)[name](container)
        mine = {leaf.untyped_storage().data_ptr() for leaf in tensors(container)}
        theirs = {leaf.untyped_storage().data_ptr() for leaf in tensors(result)}
        assert theirs <= mine if name in VIEWS else not mine & theirs


def test_members_that_differ_are_copied_too():
    """A mask and a tensor copy elements that no dense container holds."""
    parts = [TensorDict(a=torch.ones(2)), TensorDict(a=torch.ones(3), more=torch.ones(1))]
    for holder in (lazy_stack(parts), TensorDict(e=lazy_stack(parts), batch_size=[2])):
        for name in ("[mask]", "[tensor]", "[tensor2d]", "[True]", "cat", "stack", "clone"):
            result = COPIES[name](holder)
            assert not {v.data_ptr() for v in tensors(result)} & {v.data_ptr() for v in tensors(holder)}
