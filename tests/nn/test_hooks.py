"""Forward hooks of modules over containers: those of `fully_shard` see tensors, all others what is passed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from tensorclass import TensorDict
from tensorclass.nn import TensorDictModule, TensorDictSequential
from tests.nn._deployed import FORMS, tensors

CONTAINERS = [name for name in FORMS if name != "parameters outside"]
forms = pytest.mark.parametrize("form", [FORMS[name] for name in CONTAINERS], ids=CONTAINERS)
SHARDING = "torch.distributed.fsdp._fully_shard._fsdp_state"


def sharding(hook: Any) -> Any:
    """A hook that seems to come from `fully_shard`."""
    hook.__module__ = SHARDING
    return hook


@forms
def test_sharding_hooks_see_tensors(form):
    """A list of all tensors that go in, and one of all that come out; containers stay themselves."""
    module = form.build(form.raw().eval()).eval()
    seen: list[Any] = []
    given = form.batch(*tensors(3))
    module.register_forward_pre_hook(sharding(lambda _, args, kwargs: seen.append((args, kwargs))), with_kwargs=True)
    module.register_forward_hook(sharding(lambda _, args, result: seen.append(result)))
    before = tree_leaves(given)
    result = module(given)
    ((leaves,), kwargs), results = seen
    assert kwargs == {}
    assert [id(leaf) for leaf in leaves] == [id(leaf) for leaf in before]
    assert [id(leaf) for leaf in results] == [id(leaf) for leaf in tree_leaves(result)]
    assert all(isinstance(leaf, Tensor) for leaf in [*leaves, *results])
    if form.batch.__name__ == "data":  # keyed modules write to what they are given
        assert result is given


@forms
def test_sharding_hooks_replace_tensors(form):
    """What they give instead is what the module reads, and what the caller gets, in the same classes."""
    module = form.build(form.raw().eval()).eval()
    batch = form.batch(*tensors(3))
    expected = module(form.batch(*[value * 2 for value in tensors(3)]))

    def twice(_: Any, args: Any, kwargs: Any) -> Any:
        return ([leaf * 2 for leaf in args[0]],), kwargs

    first = module.register_forward_pre_hook(sharding(twice), with_kwargs=True)
    second = module.register_forward_hook(sharding(lambda _, __, result: [leaf + 1 for leaf in result]))
    result = module(batch)
    assert type(result) is type(expected)
    assert result.batch_size == (3,)
    for name in form.outputs:
        torch.testing.assert_close(result[name], expected[name] + 1)
    first.remove(), second.remove()
    assert not module._forward_hooks
    assert not module._forward_pre_hooks


@forms
def test_other_hooks_see_containers(form):
    """Hooks of users are passed what the module is passed."""
    module = form.build(form.raw().eval()).eval()
    seen: list[Any] = []
    module.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    module.register_forward_hook(lambda _, __, result: seen.append(result))
    given = form.batch(*tensors(3))
    result = module(given)
    assert seen[0] is given
    assert seen[1] is result


HOOKS = {
    "forward": (nn.modules.module.register_module_forward_hook, 3),
    "before": (nn.modules.module.register_module_forward_pre_hook, 2),
    "backward": (nn.modules.module.register_module_full_backward_hook, 3),
    "before backward": (nn.modules.module.register_module_full_backward_pre_hook, 2),
}


@pytest.mark.filterwarnings("ignore:For backward hooks to be called")
@pytest.mark.parametrize("kind", HOOKS)
def test_hooks_of_all_modules_see_each_step(kind: str):
    """A sequence calls its modules through torch while a hook of all modules is registered."""
    register, arguments = HOOKS[kind]
    steps = [TensorDictModule(nn.Linear(2, 2), [a], [b]) for a, b in ("xy", "yz")]
    chain = TensorDictSequential(*steps)
    seen: list[Any] = []
    with register(lambda *given: seen.append(given)):
        chain(TensorDict({"x": torch.ones(3, 2, requires_grad=True)}, [3]))["z"].sum().backward()
    assert {len(given) for given in seen} == {arguments}
    modules = [given[0] for given in seen]
    assert [modules.count(step.module) for step in steps] == [1, 1]
    if "backward" not in kind:  # torch sees no tensors in the containers that these take
        assert [modules.count(step) for step in steps] == [1, 1]
