"""A program for `tensordict` that reaches in as libraries do; with the layer it prints the same as without."""

from __future__ import annotations

import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorClass, TensorDict, is_tensor_collection, tensorclass
from tensordict.base import NO_DEFAULT, _default_is_leaf, _is_leaf_nontensor
from tensordict.memmap import MemoryMappedTensor
from tensordict.nn import ProbabilisticTensorDictModule, TensorDictModule, TensorDictSequential
from tensordict.nn.probabilistic import _use_generator
from tensordict.nn.utils import _set_dispatch_td_nn_modules
from tensordict.utils import (
    _getitem_batch_size,
    _is_non_tensor,
    _maybe_correct_neg_dim,
    _unravel_key_to_tuple,
    _zip_strict,
    unravel_key_list,
)
from torch import Tensor, nn


class Trajectory(TensorClass):
    data: Tensor
    action: "int | Tensor" = 0
    subtree: "Trajectory" = None


@tensorclass
class Log:
    text: str
    data: Tensor = None


class Spec(TensorDictModule):
    def __init__(self, module, in_keys, out_keys, spec=None):
        super().__init__(module, in_keys, out_keys)


class SpecSequential(TensorDictSequential, Spec):
    def __init__(self, *modules, partial_tolerant=False):
        self.partial_tolerant = partial_tolerant
        reads, writes = self._compute_in_and_out_keys(modules)
        super(TensorDictSequential, self).__init__(nn.ModuleList(modules), in_keys=reads, out_keys=writes)

    @_set_dispatch_td_nn_modules(True)
    def forward(self, tensordict):
        return super().forward(tensordict)


def shown(value):
    """A value as text that both libraries give."""
    return value.tolist() if hasattr(value, "tolist") else getattr(value, "data", value)


def main():
    """Print one line for each use."""
    data = TensorDict(a=torch.arange(2.0), n=TensorDict(b=torch.ones(2)), e=TensorDict(), s="x")
    print(sorted(map(str, data._fast_apply(lambda x: x + 1).keys(True))))
    print(data._apply_nest(lambda x: x * 3)["a"].tolist())
    print([(key, shown(value)) for key, value in data.items(True, True, is_leaf=_is_leaf_nontensor)])
    print([isinstance(value, NonTensorData) for value in data.values()])
    print(type(data.pop("s")).__name__, data.pop("none", 3), data._get_str("a", NO_DEFAULT).tolist())
    print(data._set_str("c", torch.ones(2), inplace=False, validated=True)["c"].tolist(), data._has_names())
    print(TensorDict._new_unsafe({"a": torch.ones(2)}, torch.Size([2])).batch_size)
    print(TensorDict(a=torch.zeros(2, 3))._stack_onto_([TensorDict(a=torch.ones(3))] * 2, 0)["a"].tolist())
    made = Trajectory(torch.ones(3), torch.ones(3), batch_size=[3])
    print(made.batch_size, made.data.tolist(), made.subtree, shown(made[0].data))
    print(Trajectory._from_tensordict(TensorDict(data=torch.ones(2))).data.tolist(), Log("a").text, Log("a").data)
    print(
        list(_zip_strict([1], [2])),
        _unravel_key_to_tuple(("a", ("b",))),
        _maybe_correct_neg_dim(-1, torch.Size([2, 3])),
    )
    print(_getitem_batch_size((3, 4), (0, slice(None))), _is_non_tensor(NonTensorData), _default_is_leaf(TensorDict))
    print(is_tensor_collection(NonTensorData("a")), issubclass(MemoryMappedTensor, Tensor))
    model = SpecSequential(TensorDictModule(torch.neg, ["x"], ["y"]), TensorDictModule(torch.abs, ["y"], ["z"]))
    print(model.in_keys, sorted(model.out_keys), model(TensorDict(x=torch.ones(2)))["z"].tolist(), len(model[:1]))
    draw = ProbabilisticTensorDictModule(["loc", "scale"], ["v"], distribution_class=torch.distributions.Normal)
    with _use_generator(torch.Generator().manual_seed(0)):
        print(draw._dist_sample(draw.get_dist(TensorDict(loc=torch.zeros(2), scale=torch.ones(2)))).tolist())
    try:
        TensorDict(a=torch.zeros(2), batch_size=[3])
    except RuntimeError as error:
        print("batch dimension mismatch" in str(error))
    stack = LazyStackedTensorDict(TensorDict(a=torch.zeros(2)), TensorDict(a=torch.zeros(3)), stack_dim=0)
    for call, text in (
        (lambda: stack["a"], "Failed to stack tensors within a tensordict"),
        (stack.contiguous, "Failed to stack tensors within a tensordict"),
        (stack.to_dict, "Failed to stack tensors within a tensordict"),
        (lambda: unravel_key_list("a"), "incompatible function arguments"),
        (lambda: unravel_key_list(1), "incompatible function arguments"),
    ):
        try:
            call()
        except (RuntimeError, TypeError, KeyError) as error:
            print(text in str(error))
    print(stack[1]["a"].shape)


if __name__ == "__main__":
    main()
