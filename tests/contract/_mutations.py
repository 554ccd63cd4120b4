"""Every operation that changes a container, and the containers that it is tried on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tensorclass import (
    NonTensorStack,
    PerElement,
    Ragged,
    RaggedTensor,
    Shared,
    TensorClass,
    TensorDict,
    TensorDictParams,
    lazy_stack,
)
from tensorclass._operations import ROWS
from tensorclass.store import Unbatched
from tensorclass.typing import Float32
from tests.contract._faults import Call, Make

KINDS: dict[str, Make] = {}


def kind(make: Make) -> Make:
    """Register a kind of container under its function's name."""
    KINDS[make.__name__] = make
    return make


def floats(*shape: int, start: int = 1) -> Tensor:
    """Floats of which no two are equal."""
    return torch.arange(start, start + torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


class Part(TensorClass):
    """A nested class."""

    x: Float32[Tensor, ""]
    y: Float32[Tensor, ""]


class Batch(TensorClass):
    """Every kind of field."""

    a: Float32[Tensor, "4"]
    b: Float32[Tensor, ""]
    n: Part
    who: PerElement[str]
    frames: Ragged[Tensor, "t"]
    table: Shared[Tensor]
    weight: Float32[Tensor, ""] | None = None
    tag: str = "scan"


class Plain(TensorClass):
    """Only tensors."""

    a: Float32[Tensor, "4"]
    b: Float32[Tensor, ""]
    weight: Float32[Tensor, ""] | None = None


def row(*size: int, start: int = 1) -> TensorDict:
    """Tensors at three levels."""
    deep = TensorDict(z=floats(*size, start=start + 300), batch_size=size)
    inner = TensorDict({"x": floats(*size, start=start + 100), "y": floats(*size, start=start + 200), "m": deep}, size)
    return TensorDict({"a": floats(*size, 4, start=start), "b": floats(*size, start=start + 500), "n": inner}, size)


def words(*size: int) -> NonTensorStack[str]:
    """A different string for each element."""
    count = torch.Size(size).numel()
    return NonTensorStack._of(tuple(f"o{i}" for i in range(count)), torch.arange(count).reshape(size))


def batch(*size: int, start: int = 1) -> Batch:
    """An instance with every kind of field; the optional one is present."""
    count = torch.Size(size).numel()
    frames = RaggedTensor.unpad(floats(*size, 3, start=start + 50), (torch.arange(count) % 3 + 1).reshape(size))
    return Batch(
        a=floats(*size, 4, start=start),
        b=floats(*size, start=start + 30),
        who=words(*size),
        frames=frames,
        n=Part(x=floats(*size, start=start + 60), y=floats(*size, start=start + 70), batch_size=size),
        table=floats(3),
        weight=floats(*size, start=start + 90),
        batch_size=size,
    )


@kind
def dense() -> Any:
    """Tensors at three levels."""
    return row(2, 3)


@kind
def flat() -> Any:
    """Tensors at one level."""
    return TensorDict({"a": floats(2, 3, 4), "b": floats(2, 3, start=50), "c": floats(2, 3, start=70)}, [2, 3])


@kind
def named() -> Any:
    """Batch dims with names."""
    return TensorDict(row(2, 3), [2, 3], names=["time", "lane"])


@kind
def mixed() -> Any:
    """Objects, a shared tensor and a ragged entry, at two levels."""
    inner = TensorDict({"x": floats(2, 3), "y": floats(2, 3, start=9), "who": words(2, 3), "tag": "inner"}, [2, 3])
    frames = RaggedTensor.unpad(floats(2, 3, 3), [[1, 3, 2], [2, 1, 3]])
    entries = {"a": floats(2, 3, 4), "who": words(2, 3), "n": inner, "b": floats(2, 3), "frames": frames}
    return TensorDict({**entries, "tag": "scan", "table": Unbatched(floats(5))}, [2, 3])


@kind
def typed() -> Any:
    """An instance with every kind of field."""
    return batch(2, 3)


@kind
def typed_plain() -> Any:
    """An instance of tensors, the optional field absent."""
    return Plain(a=floats(2, 3, 4), b=floats(2, 3), batch_size=[2, 3])


@kind
def lazy() -> Any:
    """A lazy stack of containers of three levels."""
    return lazy_stack([row(3), row(3, start=1000)])


@kind
def lazy_last() -> Any:
    """A lazy stack along the last dim."""
    return lazy_stack([row(2), row(2, start=1000), row(2, start=2000)], 1)


@kind
def lazy_mixed() -> Any:
    """Members with objects and nested objects."""
    return lazy_stack([part.set("who", words(3)).set(("n", "who"), words(3)) for part in (row(3), row(3, start=1000))])


@kind
def lazy_typed() -> Any:
    """A lazy stack of instances."""
    return lazy_stack([batch(3), batch(3, start=1000)])


@kind
def entry() -> Any:
    """A lazy stack as an entry."""
    return TensorDict({"a": floats(2, 3, 4), "b": floats(2, 3), "n": lazy_stack([row(3), row(3, start=1000)])}, [2, 3])


@kind
def params() -> Any:
    """Parameters at two levels."""
    return TensorDictParams(
        TensorDict({"a": floats(2, 3, 4), "b": floats(2, 3), "n": {"x": floats(2), "y": floats(3)}})
    )


def like(c: Any, offset: float = 1000.0) -> Any:
    """A dense or lazy container of the same structure with other numbers."""
    with torch.no_grad():
        return c.clone() + offset if not isinstance(c, TensorDictParams) else c._store.detach() + offset


def full(c: Any, *event: int) -> Tensor:
    """A new tensor over the batch."""
    return floats(*c.batch_size, *event, start=5000)


def mask(c: Any) -> Tensor:
    """A mask over the first batch dim."""
    return torch.arange(c.batch_size[0]) % 2 == 0


def assign(name: str, value: Callable[[Any], Any]) -> Call:
    """The assignment of an attribute."""
    return lambda c: setattr(c, name, value(c))


def store(index: Callable[[Any], Any], value: Callable[[Any], Any]) -> Call:
    """The assignment of elements."""
    return lambda c: c.__setitem__(index(c), value(c))


MUTATIONS: dict[str, Call] = {
    # entries
    "set": lambda c: c.set("b", full(c)),
    "set new": lambda c: c.set("new", full(c)),
    "set nested": lambda c: c.set(("n", "x"), full(c["n"])),
    "set path": lambda c: c.set(("p", "q", "r"), full(c)),
    "set objects": lambda c: c.set("who", NonTensorStack.of("w", c.batch_size).clone()),
    "set inplace": lambda c: c.set("b", full(c), inplace=True),
    "[key] =": lambda c: c.__setitem__("b", full(c)),
    "set_non_tensor": lambda c: c.set_non_tensor("note", "text"),
    "setdefault": lambda c: c.setdefault("new", full(c)),
    "create_nested": lambda c: c.create_nested(("p", "q")),
    "pop": lambda c: c.pop("b"),
    "pop nested": lambda c: c.pop(("n", "x")),
    "popitem": lambda c: c.popitem(),
    "del": lambda c: c.__delitem__("b"),
    "del optional": lambda c: c.del_("weight"),
    "clear": lambda c: c.clear(),
    "update": lambda c: c.update({"a": full(c, 4), "b": full(c)}),
    "update nested": lambda c: c.update({"b": full(c), "n": {"x": full(c["n"]), "y": full(c["n"])}, "a": full(c, 4)}),
    "update container": lambda c: c.update(like(c)),
    "update clone": lambda c: c.update(like(c), clone=True),
    "update new": lambda c: c.update({"p": {"q": full(c)}, "r": full(c), ("n", "new"): full(c["n"])}),
    "update inplace": lambda c: c.update({"b": full(c), "n": {"x": full(c["n"])}, "new": full(c)}, inplace=True),
    "update inplace all": lambda c: c.update(like(c), inplace=True),
    "update batch size": lambda c: c.update(like(c).flatten(), update_batch_size=True),
    "update keys": lambda c: c.update(like(c), keys_to_update=["a", ("n", "x")]),
    "update optional": lambda c: c.update({"weight": None, "b": full(c), "a": full(c, 4)}),
    "update objects": lambda c: c.update({"who": words(*c.batch_size)[...].flip(0), "b": full(c)}),
    "update ignore_lock": lambda c: c.update({"b": full(c), "n": {"x": full(c["n"])}}, ignore_lock=True),
    "select": lambda c: c.select("a", ("n", "x"), inplace=True),
    "exclude": lambda c: c.exclude("b", ("n", "x"), inplace=True),
    "rename_key_": lambda c: c.rename_key_("b", "renamed"),
    "rename_key_ in": lambda c: c.rename_key_("b", ("n", "b")),
    "rename_key_ out": lambda c: c.rename_key_(("n", "x"), "x"),
    "rename_key_ across": lambda c: c.rename_key_(("n", "x"), ("p", "q")),
    "rename_key_ below": lambda c: c.rename_key_(("n", "x"), ("n", "z")),
    "flatten_keys": lambda c: c.flatten_keys(".", inplace=True),
    "unflatten_keys": lambda c: c.set("p/q", full(c)).unflatten_keys("/", inplace=True),
    "split_keys": lambda c: c.split_keys(["a"], [("n", "x")], inplace=True),
    "separates": lambda c: c.separates("a", ("n", "x")),
    "filter_empty_": lambda c: c.filter_empty_(),
    "filter_empty_ some": lambda c: c.filter_empty_(),
    "stack_tensors": lambda c: c.stack_tensors("b", ("n", "x"), out_key="both", dim=-1),
    "cat_tensors": lambda c: c.cat_tensors("a", out_key="both", dim=-1),
    # batch size, names, device, lock
    "lock_": lambda c: c.lock_(),
    "unlock_": lambda c: c.unlock_(),
    "is_locked": assign("is_locked", lambda c: True),
    "batch_size": assign("batch_size", lambda c: c.batch_size[:1]),
    "batch_size less": assign("batch_size", lambda c: []),
    "batch_size grows": lambda c: (setattr(c, "batch_size", c.batch_size[:1]), setattr(c, "batch_size", [2, 3]))[0],
    "auto_batch_size_": lambda c: c.auto_batch_size_(),
    "auto_batch_size_(1)": lambda c: c.auto_batch_size_(1),
    "names": assign("names", lambda c: ["p", "q"]),
    "rename_": lambda c: c.rename_("p", "q"),
    "rename_ map": lambda c: c.rename_(time="p"),
    "refine_names": lambda c: c.refine_names("time", ...),
    "auto_device_": lambda c: c.auto_device_(),
    "clear_device_": lambda c: c.clear_device_(),
    "to inplace": lambda c: c.to("cpu", inplace=True),
    "flatten inplace": lambda c: c.flatten(inplace=True),
    "reshape inplace": lambda c: c.reshape(-1, inplace=True),
    "unflatten inplace": lambda c: c.unflatten(0, (1, -1), inplace=True),
    "roll inplace": lambda c: c.roll(1, 0, inplace=True),
    "repeat inplace": lambda c: c.repeat(2, 1, inplace=True),
    "contiguous inplace": lambda c: c.contiguous(inplace=True),
    "requires_grad_": lambda c: c.requires_grad_(),
    "requires_grad_(False)": lambda c: c.requires_grad_(False),
    "detach_": lambda c: c.detach_(),
    "share_memory_": lambda c: c.share_memory_(),
    "consolidate": lambda c: c.consolidate(inplace=True),
    # memory
    "set_": lambda c: c.set_("b", full(c)),
    "set_ nested": lambda c: c.set_(("n", "x"), full(c["n"])),
    "update_": lambda c: c.update_({"a": full(c, 4), "b": full(c), "n": {"x": full(c["n"])}}),
    "update_ all": lambda c: c.update_(like(c)),
    "update_ objects": lambda c: c.update_({"b": full(c), "who": words(*c.batch_size)[...].flip(0)}),
    "copy_": lambda c: c.copy_(like(c)),
    "fill_": lambda c: c.fill_("b", 3),
    "fill_ nested": lambda c: c.fill_("n", 3),
    "zero_": lambda c: c.zero_(),
    "set_at_": lambda c: c.set_at_("b", -1.0, 0),
    "set_at_ slice": lambda c: c.set_at_("b", full(c)[1:], slice(0, -1)),
    "update_at_": lambda c: c.update_at_({"a": full(c, 4)[0], "b": full(c)[0], "n": {"x": full(c["n"])[0]}}, 0),
    "update_at_ mask": lambda c: c.update_at_(like(c)[mask(c)], mask(c)),
    "copy_at_": lambda c: c.copy_at_(like(c)[1], 0),
    "[int] =": store(lambda c: 0, lambda c: like(c)[1]),
    "[int] = mapping": store(lambda c: 0, lambda c: like(c)[1].to_dict()),
    "[slice] =": store(lambda c: slice(0, 1), lambda c: like(c)[1:2]),
    "[slices] =": store(lambda c: (slice(None), slice(0, 2)), lambda c: like(c)[:, 1:3]),
    "[mask] =": store(mask, lambda c: like(c)[mask(c)]),
    "[tensor] =": store(lambda c: torch.tensor([1, 0]), lambda c: like(c)[:2]),
    "[dots] =": store(lambda c: ..., like),
    "[int] = number": store(lambda c: 0, lambda c: 7.0),
    "[mask] = number": store(mask, lambda c: 7.0),
    "[tensor] = number": store(lambda c: torch.tensor([1, 0]), lambda c: 7.0),
    "masked_fill_": lambda c: c.masked_fill_(mask(c), 7.0),
    "apply_": lambda c: c.apply_(lambda t: t + 1),
    "apply inplace": lambda c: c.apply(lambda t: t.clone() * 2, inplace=True),
    "apply_ shapes": lambda c: c.apply_(lambda t: torch.stack([t, t], -1)),
    "named_apply inplace": lambda c: c.named_apply(lambda key, t: t * 2, inplace=True),
    "apply out": lambda c: like(c).apply(lambda t: t + 1, out=c),
    "where out": lambda c: like(c).where(torch.zeros(c.batch_size, dtype=torch.bool), like(c, 9.0), out=c),
    "stack out": lambda c: torch.stack([*like(c).unbind(0)], 0, out=c),
    "cat out": lambda c: torch.cat([like(c)[:1], like(c)[1:]], 0, out=c),
    "load_state_dict": lambda c: c.load_state_dict(like(c).state_dict()),
    "load_state_dict assign": lambda c: c.load_state_dict(like(c).state_dict(), assign=True),
    "load_state_dict part": lambda c: c.load_state_dict({"b": full(c), "n.x": full(c["n"])}, strict=False),
    "load_state_dict size": lambda c: c.load_state_dict(_resized(c).state_dict()),
    "preallocate": lambda c: c.clear().__setitem__(0, like(c)),
    # members of a stack
    "append": lambda c: c.append(c[0].clone()),
    "insert": lambda c: c.insert(0, c[0].clone()),
    "extend": lambda c: c.extend([c[0].clone(), c[1].clone()]),
    "extend container": lambda c: c.extend(like(c)),
    # fields
    "field =": assign("b", full),
    "field = None": assign("weight", lambda c: None),
    "nested field =": lambda c: setattr(c.n, "x", full(c.n)),
    "field of a class =": lambda c: setattr(c, "n", c.n.clone()),
    "objects =": assign("who", lambda c: words(*c.batch_size).flip(0)),
    # arithmetic
    "+=": lambda c: c.__iadd__(1.0),
    "+= container": lambda c: c.__iadd__(like(c)),
    "lerp_": lambda c: c.lerp_(like(c), 0.5),
    "clamp_ two": lambda c: c.clamp_(2.0, 5.0),
    "clamp_ tensors": lambda c: c.clamp_(torch.full(c.batch_size, 2.0), torch.full(c.batch_size, 5.0)),
    "add_ tensor": lambda c: c.add_(full(c)),
    "addcmul_": lambda c: c.addcmul_(like(c), like(c), value=0.5),
}  # fmt: skip
SAMPLE = ("exp", "pow", "maximum")
ALIKE: set[str] = {f"{row.name}_" for row in ROWS if row.in_place and row.arity < 2 and row.name not in SAMPLE}
"""Pointwise operations whose code is that of one in the sample."""
for _row in ROWS:
    if _row.in_place and _row.arity == 0:
        MUTATIONS[f"{_row.name}_"] = lambda c, n=f"{_row.name}_": getattr(c, n)()
    elif _row.in_place and _row.arity == 1:
        MUTATIONS[f"{_row.name}_"] = lambda c, n=f"{_row.name}_": getattr(c, n)(like(c, 1.0))


def _resized(c: Any) -> Any:
    new = like(c)
    new.batch_size = new.batch_size[:1]
    return new


GIVEN: dict[str, Callable[[Any], Any]] = {
    "unlock_": lambda c: c.lock_(),
    "update ignore_lock": lambda c: c.lock_(),
    "filter_empty_ some": lambda c: c.set("none", TensorDict(batch_size=c.batch_size)).set(
        ("n", "none"), TensorDict(batch_size=c["n"].batch_size)
    ),
    "clear_device_": lambda c: c.to("cpu", inplace=True) if not c._stacked else c.auto_device_(),
    "requires_grad_(False)": lambda c: c.requires_grad_(),
    "unflatten_keys": lambda c: c.set("p/q", full(c)).set("p/r", full(c)),
    "batch_size grows": lambda c: setattr(c, "batch_size", c.batch_size[:1]),
    "preallocate": lambda c: c.clear(),
}
"""What is done to the container before an operation that needs it."""
MUTATIONS["unflatten_keys"] = lambda c: c.unflatten_keys("/", inplace=True)
MUTATIONS["batch_size grows"] = assign("batch_size", lambda c: [2, 3])
MUTATIONS["preallocate"] = store(lambda c: 0, lambda c: row(3))


def prepared(make: Make, name: str) -> Make:
    """A kind of container as an operation needs it."""

    def ready() -> Any:
        container = make()
        if name in GIVEN:
            GIVEN[name](container)
        return container

    return ready
