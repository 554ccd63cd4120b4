"""Strided nested tensors as entries: held in the jagged layout, so that what jagged ones do works on them.

The original holds them as they are; index, stack, split, arithmetic and most shape operations then fail with errors of
torch that name no entry.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import tensordict
import torch
from torch import Tensor

from tensorclass import TensorDict, lazy_stack, tensorclass
from tensorclass.errors import BatchSizeError, UnsupportedOperationError

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


@tensorclass
class Rows:
    n: Tensor
    x: Tensor | None = None


def strided(*lengths: int) -> Tensor:
    """Rows of these lengths."""
    return torch.nested.nested_tensor([torch.arange(float(length)) for length in lengths])


def rows(value: Any) -> Any:
    """A tensor as lists, whatever its layout."""
    return [row.tolist() for row in value.unbind()] if value.is_nested else value.tolist()


def member(value: Tensor) -> Any:
    """As an entry of one member of a lazy stack."""
    batch = lazy_stack([TensorDict(batch_size=[2]), TensorDict(batch_size=[2])])
    return batch[0].set("n", value)


def item(value: Tensor) -> Any:
    """The item setter."""
    batch = TensorDict(batch_size=[2])
    batch["n"] = value
    return batch


def attribute(value: Tensor) -> Any:
    """The setter of a class."""
    batch = Rows(torch.zeros(2), batch_size=[2])
    batch.n = value
    return batch


FULL = TensorDict({"n": torch.zeros(2)}, [2])
DOORS: dict[str, Callable[[Tensor], Any]] = {
    "mapping": lambda value: TensorDict({"n": value}, [2]),
    "keyword": lambda value: TensorDict(n=value, batch_size=[2]),
    "after others": lambda value: TensorDict({"x": torch.ones(2), "o": "text", "n": value}, [2]),
    "device": lambda value: TensorDict({"n": value}, [2], device="cpu"),
    "set": lambda value: TensorDict(batch_size=[2]).set("n", item=value),
    "item": item,
    "setdefault": lambda value: {"n": TensorDict(batch_size=[2]).setdefault("n", value)},
    "update": lambda value: TensorDict(batch_size=[2]).update({"n": value}),
    "replace": lambda value: FULL.replace(n=value),
    "from_dict": lambda value: TensorDict.from_dict({"n": value}, batch_size=[2]),
    "below": lambda value: TensorDict({"a": {"n": value}}, [2])["a"],
    "path": lambda value: TensorDict(batch_size=[2]).set(("a", "n"), value)["a"],
    "apply": lambda value: FULL.apply(lambda _: value),
    "named_apply": lambda value: FULL.named_apply(lambda _, __: value),
    "tree_map": lambda value: torch.utils._pytree.tree_map(lambda _: value, TensorDict({"n": torch.zeros(2)}, [])),
    "member": member,
    "class": lambda value: Rows(value, batch_size=[2]),
    "class and another": lambda value: Rows(value, torch.ones(2), batch_size=[2]),
    "attribute": attribute,
    "class, set": lambda value: Rows(torch.zeros(2), batch_size=[2]).set("n", item=value),
    "class, update": lambda value: Rows(torch.zeros(2), batch_size=[2]).update({"n": value}),
    "class, update of two": lambda value: Rows(torch.zeros(2), batch_size=[2]).update({"n": value, "x": torch.ones(2)}),
    "class, replace": lambda value: Rows(torch.zeros(2), batch_size=[2]).replace(n=value),
    "class, from_dict": lambda value: Rows.from_dict({"n": value}, batch_size=[2]),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_takes_them(door: str) -> None:
    """The rows are kept, and so is the gradient."""
    value = strided(2, 3).requires_grad_()
    held = DOORS[door](value)["n"]
    assert held.layout is torch.jagged
    assert rows(held) == [[0.0, 1.0], [0.0, 1.0, 2.0]]
    (grad,) = torch.autograd.grad(held.values().sum(), value)
    assert rows(grad) == [[1.0, 1.0], [1.0, 1.0, 1.0]]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("parts", [[], [torch.ones(())] * 2], ids=["empty", "scalars"])
def test_what_has_no_rows_is_named(door: str, parts: list[Tensor]) -> None:
    """A clear error with the name of the entry, at the door."""
    with pytest.raises(UnsupportedOperationError, match=r"`[a.]*n`: a nested tensor"):
        DOORS[door](torch.nested.nested_tensor(parts))


def uneven() -> Tensor:
    """Elements that differ in two dims."""
    return torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(4, 1)])


def test_two_uneven_dims_pass_every_door() -> None:
    """Held in the strided layout, with the gradient; the shape has -1 for the dims in which elements differ."""
    for door in DOORS.values():
        value = uneven().requires_grad_()
        held = door(value)["n"]
        assert held.is_nested
        assert held.shape == (2, -1, -1)
        assert rows(held) == rows(value)
        (grad,) = torch.autograd.grad((held * 2).unbind()[1].sum(), value)
        assert grad.unbind()[1].tolist() == [[2.0]] * 4


def test_two_uneven_dims_beside_the_original() -> None:
    """What the original does with them gives the same here; selections and writes to several entries work as well."""
    kept = SAME | {
        "pickle": lambda td: pickle.loads(pickle.dumps(td))["n"],
        "deep copy": lambda td: copy.deepcopy(td)["n"],
        "lazy": lambda td: type(td).lazy_stack([td, td])[1]["n"],
        "state": lambda td: [new := td.clone(), new.load_state_dict(td.state_dict()), new["n"]][-1],
        "printed": lambda td: torch.tensor([ord(letter) for letter in repr(td)]),
        "set_": lambda td: td.clone().set_("n", td["n"])["n"],
        "lower batch size": lambda td: td.reshape(-1).apply(lambda x: x + 1, batch_size=[])["n"],
        "item shape": lambda td: torch.tensor(td.get_item_shape("n")),
    }
    for call in kept.values():
        theirs = call(tensordict.TensorDict({"n": uneven(), "x": torch.ones(2)}, [2]))
        assert rows(theirs) == rows(call(TensorDict({"n": uneven(), "x": torch.ones(2)}, [2])))
    first, second = rows(uneven())
    batch = TensorDict({"n": uneven(), "x": torch.ones(2)}, [2])
    for index in (slice(1, None), [1], torch.tensor([False, True]), torch.tensor([-1]), (slice(1, 2),)):
        assert rows(batch[index]["n"]) == [second]
    assert rows(batch.chunk(2)[0]["n"]) == rows(batch.split(1)[0]["n"]) == rows(batch.split([1, 1])[0]["n"]) == [first]
    assert rows(batch.clone().update_(batch * 0)["n"])[0] == [[0.0] * 3] * 2
    assert (batch == batch.clone())["n"].unbind()[0].all()
    with pytest.raises(UnsupportedOperationError, match="exp: `n`"):
        batch.exp()


def test_another_batch_size_and_writes_in_place() -> None:
    """Errors of the library, which name the entry."""
    with pytest.raises(BatchSizeError, match="`n`"):
        TensorDict({"n": strided(2, 3)}, [3])
    with pytest.raises(BatchSizeError, match="`n`"):
        TensorDict({"n": torch.zeros(2)}, [2]).set_("n", strided(2, 3))
    with pytest.raises(BatchSizeError, match="`n`"):
        TensorDict({"n": torch.zeros(2)}, [2]).update_({"n": strided(2, 3)})
    with pytest.raises(BatchSizeError, match="`n`"):
        TensorDict({"n": torch.zeros(2)}, [2]).set_at_("n", strided(2, 3), 0)


SAME: dict[str, Callable[[Any], Any]] = {
    "row": lambda td: td[0]["n"],
    "last row": lambda td: td[-1]["n"],
    "ellipsis": lambda td: td[...]["n"],
    "cat": lambda td: torch.cat([td, td])["n"],
    "clone": lambda td: td.clone()["n"],
    "shallow": lambda td: td.clone(False)["n"],
    "to": lambda td: td.to("cpu")["n"],
    "dtype": lambda td: td.to(torch.float64)["n"],
    "double": lambda td: td.double()["n"],
    "detach": lambda td: td.detach()["n"],
    "unbind": lambda td: td.unbind(0)[1]["n"],
    "unsqueeze": lambda td: td.unsqueeze(-1)["n"],
    "squeeze": lambda td: td.squeeze()["n"],
    "permute": lambda td: td.permute(0)["n"],
    "apply": lambda td: td.apply(lambda x: x)["n"],
    "equal to one": lambda td: (td == 1)["n"],
    "zero_": lambda td: td.zero_()["n"],
    "zeros_like": lambda td: torch.zeros_like(td)["n"],
    "ones_like": lambda td: torch.ones_like(td)["n"],
    "update": lambda td: td.clone().update(td)["n"],
    "to_dict": lambda td: td.to_dict()["n"],
    "select": lambda td: td.select("n")["n"],
    "exclude": lambda td: td.exclude("x")["n"],
    "contiguous": lambda td: td.contiguous()["n"],
    "state_dict": lambda td: td.state_dict()["n"],
    "isnan": lambda td: td.isnan()["n"],
    "flatten_keys": lambda td: td.flatten_keys()["n"],
    "rename_key_": lambda td: td.rename_key_("n", "m")["m"],
    "pop": lambda td: td.pop("n"),
    "get_at": lambda td: td.get_at("n", 0),
}


@pytest.mark.parametrize("name", SAME)
def test_what_the_original_does_with_them(name: str) -> None:
    """Every operation that works there gives the same rows here."""
    theirs = SAME[name](tensordict.TensorDict({"n": strided(2, 3), "x": torch.ones(2)}, [2]))
    ours = SAME[name](TensorDict({"n": strided(2, 3), "x": torch.ones(2)}, [2]))
    assert rows(theirs) == rows(ours)
    assert theirs.dtype == ours.dtype


MORE: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "slice": (lambda td: td[:1]["n"], [[0.0, 1.0]]),
    "mask": (lambda td: td[torch.tensor([False, True])]["n"], [[0.0, 1.0, 2.0]]),
    "positions": (lambda td: td[torch.tensor([1, 0])]["n"], [[0.0, 1.0, 2.0], [0.0, 1.0]]),
    "split": (lambda td: td.split(1)[0]["n"], [[0.0, 1.0]]),
    "chunk": (lambda td: td.chunk(2)[1]["n"], [[0.0, 1.0, 2.0]]),
    "sum of two": (lambda td: (td + td)["n"], [[0.0, 2.0], [0.0, 2.0, 4.0]]),
    "times": (lambda td: (td * 2)["n"], [[0.0, 2.0], [0.0, 2.0, 4.0]]),
    "equal": (lambda td: (td == td.clone(False))["n"], [[True, True], [True, True, True]]),
}


@pytest.mark.parametrize("name", MORE)
def test_what_the_original_cannot(name: str) -> None:
    """There torch has no such operation for the strided layout; here it has one."""
    call, expected = MORE[name]
    with pytest.raises((RuntimeError, NotImplementedError)):
        call(tensordict.TensorDict({"n": strided(2, 3)}, [2]))
    assert rows(call(TensorDict({"n": strided(2, 3)}, [2]))) == expected


def test_update_takes_them_beside_a_path() -> None:
    """A nested tensor, which has no shape to read, leaves the other keys of an update what they are."""
    parts = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])
    batch = TensorDict(batch_size=[2]).update({"rows": parts, ("a", "b"): torch.ones(2)})
    assert set(batch.keys()) == {"rows", "a"}
    assert torch.equal(batch["a", "b"], torch.ones(2))
