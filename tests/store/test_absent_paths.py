"""A nested key that is absent: whatever asks for it, the error gives the whole path and the nearest name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, lazy_stack


class Leaf(TensorClass):
    v: Tensor
    o: Tensor | None = None


class Middle(TensorClass):
    c: Leaf


class Root(TensorClass):
    b: Middle
    w: Tensor


def typed() -> Root:
    """Three levels of classes."""
    return Root(Middle(Leaf(torch.zeros(2), batch_size=[2]), batch_size=[2]), torch.zeros(2), batch_size=[2])


def untyped() -> TensorDict:
    """The same without classes."""
    return TensorDict({"b": {"c": {"v": torch.zeros(2)}}, "w": torch.zeros(2)}, batch_size=[2])


MAKERS: dict[str, Callable[[], Any]] = {
    "dict": untyped,
    "class": typed,
    "stack": lambda: lazy_stack([untyped(), untyped()]),
    "stack of classes": lambda: lazy_stack([typed(), typed()]),
}


def ones(x: Any) -> Tensor:
    """A value for any entry."""
    return torch.ones(x.batch_size)


READS: dict[str, Callable[[Any, Any], Any]] = {
    "[]": lambda x, p: x[p],
    "set_": lambda x, p: x.set_(p, ones(x)),
    "fill_": lambda x, p: x.fill_(p, 0.0),
    "update_": lambda x, p: x.update_({p: ones(x)}),
    "update_ of a nesting": lambda x, p: x.update_({p[0]: {p[1]: {p[2]: ones(x)}}}),
    "set_at_": lambda x, p: x.set_at_(p, 0.0, 0),
    "update_at_": lambda x, p: x.update_at_({p: 0.0}, 0),
    "del_": lambda x, p: x.del_(p),
    "del": lambda x, p: x.__delitem__(p),
    "pop": lambda x, p: x.pop(p),
    "rename_key_": lambda x, p: x.rename_key_(p, "q"),
    "select": lambda x, p: x.select(p),
    "select(inplace)": lambda x, p: x.select(p, inplace=True),
    "get_item_shape": lambda x, p: x.get_item_shape(p),
    "entry_class": lambda x, p: x.entry_class(p),
    "cat_tensors": lambda x, p: x.cat_tensors(p, "w", out_key="z"),
    "stack_from_tensordict": lambda x, p: x.stack_from_tensordict(sorted=[p]),
}
UNDECLARED: dict[str, Callable[[Any, Any], Any]] = {
    "get": lambda x, p: x.get(p),
    "set": lambda x, p: x.set(p, ones(x)),
    "[] =": lambda x, p: x.__setitem__(p, ones(x)),
    "setdefault": lambda x, p: x.setdefault(p, ones(x)),
    "update": lambda x, p: x.update({p: ones(x)}),
    "update of a nesting": lambda x, p: x.update({p[0]: {p[1]: {p[2]: ones(x)}}}),
    "replace": lambda x, p: x.replace({p: ones(x)}),
}
"""What adds or passes by an absent key, where no class declares the keys."""
PATHS = {("b", "c", "vv"): "b.c.vv", ("b", "cc", "v"): "b.cc", ("bb", "c", "v"): "bb"}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("maker", MAKERS)
def test_the_whole_path_is_told(maker: str, path: tuple[str, ...]) -> None:
    """Up to the part that is absent; the container is as it was."""
    calls = {**READS, **(UNDECLARED if "class" in maker else {})}
    told = []
    for name, call in calls.items():
        batch = MAKERS[maker]()
        with pytest.raises(KeyError) as caught:
            call(batch, path)
        near = "did you mean" in str(caught.value) or name == "replace"
        if f"`{PATHS[path]}`" not in str(caught.value) and f"`{'.'.join(path)}`" not in str(caught.value):
            told.append(f"{name}: {caught.value}")
        assert near, f"{name}: {caught.value}"
        assert bool((batch == MAKERS[maker]()).all())
    assert not told, "\n".join(told)


def test_nested_keys_of_one_write_are_one_write() -> None:
    """Several paths below one key go in together, at any depth, in `update` and in place."""
    batch = untyped()
    batch.update(
        {
            ("b", "c", "x"): torch.ones(2),
            ("b", "c", "y"): torch.ones(2),
            ("n", "m", "x"): torch.ones(2),
            ("n", "m", "y"): torch.ones(2),
        }
    )
    assert set(batch["n", "m"].keys()) == {"x", "y"}
    assert set(batch["b", "c"].keys()) == {"v", "x", "y"}
    batch.update_({("b", "c", "x"): 3.0, ("b", "c", "y"): 4.0})
    assert batch["b", "c", "x"].tolist() == [3.0, 3.0]
    assert batch["b", "c", "y"].tolist() == [4.0, 4.0]
