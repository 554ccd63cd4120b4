"""Options that are True or False refuse everything else: a word such as "no" would count as true.

`REFUSED` is every such parameter of the rooms for keys, states, gradients and sizes, on every kind of container.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict, TypedTensorDict, lazy_stack
from tensorclass.errors import ArgumentError
from tensorclass.nn import TensorDictParams

ROOMS = ("_keys", "_state", "_autograd")
METHODS: dict[str, dict[str, Any]] = {
    "select": {}, "exclude": {}, "rename_key_": {"old_key": "a", "new_key": "b"}, "rename_keys": {"mapping": {}},
    "flatten_keys": {}, "unflatten_keys": {}, "split_keys": {}, "separates": {}, "state_dict": {},
    "load_state_dict": {"state_dict": {}}, "requires_grad_": {}, "zero_grad": {}, "backward": {}, "bytes": {},
    "param_count": {}, "auto_batch_size_": {},
}  # fmt: skip


class Point(TensorClass):
    a: Tensor


class Typed(TypedTensorDict):
    a: Tensor


def made() -> dict[str, Any]:
    """One container of each kind."""
    plain = TensorDict({"a": torch.zeros(2)}, [2])
    return {
        "plain": plain,
        "typed": Point(torch.zeros(2), batch_size=[2]),
        "typed store": Typed(a=torch.zeros(2), batch_size=[2]),
        "lazy": lazy_stack([plain.clone(), plain.clone()]),
        "typed lazy": lazy_stack([Point(torch.zeros(2), batch_size=[2]), Point(torch.zeros(2), batch_size=[2])]),
        "parameters": TensorDictParams(TensorDict({"a": torch.zeros(2)}, [2])),
    }


def flags(method: Any) -> list[str]:
    """The parameters that are annotated as bool."""
    return [name for name, parameter in inspect.signature(method).parameters.items() if parameter.annotation == "bool"]


CASES = [(name, option) for name in METHODS for option in flags(getattr(TensorDict, name))]


@pytest.mark.parametrize("kind", made())
@pytest.mark.parametrize(("name", "option"), CASES)
@pytest.mark.parametrize("word", ["no", 1, None])
def test_a_word_is_refused(kind: str, name: str, option: str, word: Any) -> None:
    """The error names the option, and nothing has changed."""
    value = made()[kind]
    with pytest.raises(ArgumentError, match=f"`{option}` is True or False"):
        getattr(value, name)(**METHODS[name], **{option: word})
    assert list(value.keys()) == ["a"]
    assert value["a"].requires_grad == (kind == "parameters")


def test_all_methods_are_listed() -> None:
    """A method of these rooms with such a parameter is in the table."""
    found = set()
    for name in dir(TensorDict):
        method = getattr(TensorDict, name)
        room = (getattr(method, "__module__", None) or "").rpartition(".")[2]
        if not name.startswith("_") and inspect.isfunction(method) and room in ROOMS and flags(method):
            found.add(name)
    assert found <= METHODS.keys()
    assert {"select", "state_dict", "zero_grad"} <= found
