"""Parameters out of modules and into them, for good and for a block."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import tensordict
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import tensorclass
from tensorclass import LazyStackedTensorDict, TensorDict, TensorDictParams, from_module, from_modules, set_printoptions
from tensorclass.errors import StructureError, UnsupportedOperationError

X = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))


class Mixed(nn.Module):
    """Shared submodules, tied parameters, all kinds of buffers, and slots without a tensor."""

    extra: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = self.a
        self.tied = nn.Linear(3, 3)
        self.tied.weight = self.a.weight
        self.seq = nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.BatchNorm1d(4))
        self.register_buffer("extra", torch.ones(4), persistent=False)
        self.register_buffer("nothing", None)
        self.register_parameter("absent", None)

    def forward(self, x: Tensor) -> Tensor:
        return self.seq(self.tied(self.b(self.a(x)))) * self.extra


def plain() -> nn.Module:
    """Two layers."""
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def normed() -> nn.Module:
    """Buffers, one of them of integers."""
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


def parametrised() -> nn.Module:
    """A weight that is computed from parameters."""
    return nn.Sequential(parametrizations.weight_norm(nn.Linear(3, 4)), nn.Linear(4, 2))


def hooked() -> nn.Module:
    """A weight that a hook computes."""
    return nn.Sequential(nn.utils.spectral_norm(nn.Linear(3, 4)), nn.Linear(4, 2))


def recurrent() -> nn.Module:
    """A module with a list of its own of its weights."""
    return nn.LSTM(3, 4)


def attention() -> nn.Module:
    """Submodules that read each other's parameters."""
    return nn.TransformerEncoderLayer(3, 1, 8, dropout=0.0)


MODULES: list[Callable[[], nn.Module]] = [plain, Mixed, normed, parametrised, hooked, recurrent, attention]


def output(module: nn.Module) -> Tensor:
    """What a module computes, without a trace in its buffers."""
    found = module.eval()(X)
    return (found[0] if isinstance(found, tuple) else found).detach()


def held(module: nn.Module) -> dict[str, int]:
    """The identity of all tensors of a module."""
    state = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return {name: id(value) for name, value in state}


def shifted(module: nn.Module) -> Any:
    """Other values for a module."""
    return from_module(module).data.apply(lambda t: t + 1 if t.is_floating_point() else t.clone())


@pytest.mark.parametrize("make", MODULES)
def test_a_block_computes_with_the_container_and_restores_the_module(make: Callable[[], nn.Module]) -> None:
    """The output is that of a module which holds the values; afterwards every tensor is the object that it was."""
    module = make()
    reference = copy.deepcopy(module)
    other = shifted(module)
    before, expected = held(module), output(module)
    with other.to_module(module):
        got = output(module)
    with torch.no_grad():
        for name, value in [*reference.named_parameters(), *reference.named_buffers()]:
            value.copy_(other[tuple(name.split("."))])
    assert torch.equal(got, output(reference))
    assert held(module) == before
    assert torch.equal(output(module), expected)


@pytest.mark.parametrize("make", MODULES)
@pytest.mark.parametrize("options", [{}, {"use_state_dict": True}, {"filter_empty": False}, {"as_module": True}])
def test_from_module_agrees_with_the_anchor(make: Callable[[], nn.Module], options: dict[str, Any]) -> None:
    """The same keys, values and kinds of tensor, with every option."""
    module = make()
    ours, theirs = (lib.TensorDict.from_module(module, **options) for lib in (tensorclass, tensordict))
    keys = {key: type(value) for key, value in theirs.items(True, True)}
    assert {key: type(value) for key, value in ours.items(True, True)} == keys
    assert sorted(map(str, ours.keys(True))) == sorted(map(str, theirs.keys(True)))
    assert all(torch.equal(ours[key], theirs[key]) for key in keys)


@pytest.mark.parametrize("make", [plain, normed, attention])
@pytest.mark.parametrize("options", [{}, {"inplace": True}, {"use_state_dict": True}, {"return_swap": False}])
def test_to_module_for_good_agrees_with_the_anchor(make: Callable[[], nn.Module], options: dict[str, Any]) -> None:
    """Values, kinds and identity of the tensors afterwards, and what is given back."""
    found = []
    for lib in (tensorclass, tensordict):
        torch.manual_seed(0)
        module = make()
        values = lib.TensorDict.from_module(module).data.clone().zero_()
        before = dict(module.named_parameters())
        old = values.to_module(module, **options)
        after = dict(module.named_parameters())
        kinds = {name: (type(value), value.requires_grad, value is before[name]) for name, value in after.items()}
        given = None if old is None else {key: value.sum().item() for key, value in old.items(True, True)}
        found.append((kinds, {name: value.abs().sum().item() for name, value in after.items()}, given))
    assert found[0] == found[1]


def test_top_level_functions_lock_and_the_class_method_does_not() -> None:
    """As documented of both."""
    module = plain()
    assert from_module(module).is_locked
    assert not TensorDict.from_module(module).is_locked
    assert from_modules(module, module).is_locked
    assert not TensorDict.from_modules(module, lock=False).is_locked


def test_the_old_values_come_back_as_a_container() -> None:
    """They can be read, put back, and used as the manager of a block after having been read."""
    module = plain()
    before = held(module)
    zeros = from_module(module).data.clone().zero_()
    old = zeros.to_module(module)
    assert old.batch_size == torch.Size([])
    assert sorted(old.keys(True, True)) == sorted(zeros.keys(True, True))
    assert type(old) is TensorDict
    assert isinstance(old["0", "weight"], nn.Parameter)
    with old:
        assert not output(module).any()
    assert held(module) == before
    unread = zeros.to_module(module)
    with set_printoptions(show_values=False):
        assert repr(unread) == repr(from_module(plain()))
    unread.to_module(module)
    assert held(module) == before


def test_the_manager_of_a_block_may_be_read_inside() -> None:
    """Reading the old values in the block changes nothing about its end."""
    module = plain()
    before = held(module)
    zeros = from_module(module).data.clone().zero_()
    with zeros.to_module(module) as old:
        assert old["0", "weight"].abs().sum() > 0
        assert old.is_locked is False
        assert not output(module).any()
    assert held(module) == before
    assert old["0", "weight"] is from_module(module)["0", "weight"]


def test_swap_dest_receives_the_old_values_and_ends_the_block() -> None:
    """A container of the user's takes the place of the result."""
    module = plain()
    before, place = held(module), TensorDict()
    with from_module(module).data.clone().zero_().to_module(module, swap_dest=place) as given:
        assert given is place
        assert id(place["0", "weight"]) == before["0.weight"]
        assert not output(module).any()
    assert held(module) == before


@pytest.mark.parametrize("options", [{}, {"inplace": True}, {"use_state_dict": True}])
def test_an_exception_in_the_block_restores_the_module(options: dict[str, Any]) -> None:
    """The tensors are the same objects with the same values, and the exception goes on."""
    module = plain()
    before, values = held(module), from_module(module).data.clone()
    zeros = from_module(module).data.clone().zero_()
    with pytest.raises(ZeroDivisionError), zeros.to_module(module, **options):
        _ = 1 / output(module).any().int().item()
    assert held(module) == before
    assert (from_module(module).data == values).all()


def test_what_the_block_does_to_the_module_is_undone() -> None:
    """Parameters that are added, replaced and removed in a block."""
    module = nn.Linear(3, 4)
    before = held(module)
    with from_module(module).data.clone().to_module(module):
        module.weight = nn.Parameter(torch.ones(4, 3))
        module.register_parameter("more", nn.Parameter(torch.ones(1)))
        del module.bias
    assert held(module) == before
    assert list(dict(module.named_parameters())) == ["weight", "bias"]


def test_blocks_nest_and_repeat() -> None:
    """On one module with one container and with two, and on a submodule."""
    module = plain()
    first: Any = module[0]  # type: ignore[index]  # a sequence
    before = held(module)
    zeros, twos = from_module(module).data.clone().zero_().lock_(), from_module(module).data.apply(torch.ones_like) * 2
    for _ in range(3):
        with zeros.to_module(module):
            with twos.to_module(module), zeros.to_module(module), zeros["0"].to_module(first):
                assert not output(module).any()
            assert not output(module).any()
            with twos["0"].to_module(first):
                assert (first.weight == 2).all()
            assert not first.weight.any()
        assert held(module) == before


def test_blocks_that_end_in_another_order_restore_the_module() -> None:
    """As those of coroutines do: each gives back what was there without it."""
    module = nn.Linear(3, 4)
    before = held(module)
    ones, twos = (from_module(module).data.apply(lambda t, n=n: torch.full_like(t, n)) for n in (1, 2))
    first, second = ones.to_module(module), twos.to_module(module)
    first.__enter__()
    assert (module.weight == 1).all()
    second.__enter__()
    assert (module.weight == 2).all()
    first.__exit__(None, None, None)
    assert (module.weight == 2).all()
    second.__exit__(None, None, None)
    assert held(module) == before


@pytest.mark.parametrize("locked", [False, True])
def test_changed_containers_are_seen(locked: bool) -> None:
    """Whatever way the tensors of a container change between two blocks, the second has the new ones."""
    module: Any = plain()
    params: Any = TensorDict.from_module(plain())
    if locked:
        params.lock_()

    def relock(new: Tensor) -> None:
        params.unlock_().set(("0", "weight"), new)
        if locked:
            params.lock_()

    changes: list[Callable[[Tensor], object]] = [
        lambda new: params.update({"0": {"weight": new}}, ignore_lock=True),
        lambda new: params["0"].update({"weight": new}, ignore_lock=True),
        relock,
        lambda new: relock(new) if locked else params.load_state_dict({"0.weight": new}, strict=False, assign=True),
    ]
    for change in changes:
        new = nn.Parameter(torch.randn(4, 3))
        for step in (None, change):
            if step is not None:
                step(new)
            with params.to_module(module):
                assert module[0].weight is params["0", "weight"]
        assert params["0", "weight"] is new


def test_a_renamed_entry_is_seen() -> None:
    """The same tensors under another key do not fit any more."""
    module = nn.Linear(3, 4)
    params = TensorDict.from_module(module)
    with params.to_module(module):
        pass
    params.rename_key_("bias", "biass")
    with pytest.raises(StructureError, match="`biass` is not a tensor of the module; did you mean `bias`"):
        params.to_module(module)


def test_changed_modules_are_seen() -> None:
    """New submodules, new parameters, removed and renamed ones, between two swaps."""
    module: Any = plain()
    params = from_module(module)

    def swap() -> None:
        with from_module(module).to_module(module):
            pass

    with params.to_module(module):
        pass
    changes: list[Callable[[], object]] = [
        lambda: delattr(module[2], "bias"),
        lambda: nn.utils.spectral_norm(module[0]),
        lambda: module.append(nn.Linear(2, 2)),
        lambda: module[1].register_buffer("more", torch.ones(1)),
        lambda: setattr(module[2], "inner", nn.Linear(1, 1)),
    ]
    for change in changes:
        change()
        with pytest.raises(StructureError):
            params.to_module(module)
        swap()
    module[2] = nn.Linear(4, 2)
    swap()


def test_missing_and_unknown_names_raise_and_nothing_is_swapped() -> None:
    """All in one message, with the nearest names."""
    module = plain()
    before = held(module)
    params = TensorDict.from_module(module)
    params["0", "wieght"] = params["0"].pop("weight")
    del params["2", "bias"]
    params["3", "weight"] = torch.zeros(1)
    with pytest.raises(StructureError) as caught:
        params.to_module(module)
    for text in (
        "`0.wieght` is not a tensor of the module; did you mean `0.weight`?",
        "`3` is no",
        "`0.weight` is missing",
        "`2.bias` is missing",
        "Nothing was swapped",
    ):
        assert text in str(caught.value)
    assert held(module) == before


@pytest.mark.parametrize(
    ("make", "options", "error", "words"),
    [
        (lambda p: {**p, "weight": torch.zeros(4, 4)}, {"inplace": True}, StructureError, "`weight` has shape"),
        (lambda p: {**p, "weight": "text"}, {}, StructureError, "`weight` is not a tensor"),
        (lambda p: {**p, "weight": {"a": torch.zeros(1)}}, {}, StructureError, "`weight`"),
        (lambda p: {**p, "weight": torch.zeros(4, 3).long()}, {}, StructureError, "int64"),
        (lambda p: {**p, "more": torch.zeros(1)}, {"use_state_dict": True}, StructureError, "more"),
        (lambda p: {"bias": p["bias"]}, {"use_state_dict": True}, StructureError, "weight"),
        (lambda p: p, {"inplace": True, "use_state_dict": True}, StructureError, "exclude"),
        (lambda p: p, {"memo": {}}, TypeError, "memo"),
    ],
)
def test_bad_swaps_raise_and_change_nothing(
    make: Callable[[Any], Any], options: dict[str, Any], error: type[Exception], words: str
) -> None:
    """Wrong shapes, values, names and options."""
    module = nn.Linear(3, 4)
    before, values = held(module), from_module(module).data.clone()
    with pytest.raises(error, match=words):
        TensorDict(make(from_module(module).data.to_dict())).to_module(module, **options)
    assert held(module) == before
    assert (from_module(module).data == values).all()


def test_modules_that_cannot_be_swapped_say_so() -> None:
    """Without initialised parameters, scripted, and what is no module."""
    with pytest.raises(UnsupportedOperationError, match=r"`0\.weight` is not initialised"):
        from_module(nn.Sequential(nn.LazyLinear(3)))
    with pytest.raises(UnsupportedOperationError, match="not initialised"):
        from_module(nn.Linear(3, 3)).to_module(nn.LazyLinear(3))
    with pytest.raises(TypeError, match=r"give an nn\.Module, got dict"):
        from_module({})  # type: ignore[arg-type]  # the test's point
    with pytest.raises(TypeError, match=r"give an nn\.Module, got dict"):
        TensorDict().to_module({})  # type: ignore[arg-type]  # the test's point


def test_tied_parameters_stay_tied() -> None:
    """Equal values make one parameter again; different ones are refused."""
    module = Mixed()
    other = shifted(module)
    other.to_module(module)
    assert module.tied.weight is module.a.weight
    different = shifted(module)
    different["tied", "weight"] += 1
    before = held(module)
    with pytest.raises(StructureError, match=r"`tied\.weight` are one parameter"):
        different.to_module(module)
    assert held(module) == before


def test_frozen_parameters_stay_frozen() -> None:
    """A plain tensor requires grad as the parameter before did."""
    module = nn.Linear(3, 4).requires_grad_(False)
    module.bias.requires_grad_(True)
    from_module(module).data.clone().to_module(module)
    assert not module.weight.requires_grad
    assert module.bias.requires_grad


def test_gradients_reach_tensors_that_require_grad() -> None:
    """They take the place of a parameter as they are; with preserve_module_state=False so do all."""
    module = nn.Linear(3, 4)
    tracked = from_module(module).data.clone().requires_grad_()
    with tracked.to_module(module):
        module(X).sum().backward()
    assert tracked["weight"].grad is not None
    assert module.weight.grad is None
    raw = from_module(module).data.clone()
    with raw.to_module(module, preserve_module_state=False):
        assert not module(X).requires_grad


def test_buffers_that_a_state_dict_leaves_out_may_be_missing() -> None:
    """A container of a state dict fits."""
    module = Mixed()
    values = TensorDict.from_module(module, use_state_dict=True)
    assert "extra" not in values
    values.to_module(module)
    values.to_module(module, use_state_dict=True)
    assert torch.equal(module.extra, torch.ones(4))


def test_state_dict_hooks_run() -> None:
    """Of the module that is read, and of the one that is loaded."""
    module = nn.Linear(3, 4)
    module.register_state_dict_post_hook(lambda module, state, prefix, _: state.update(w=state.pop("weight")))
    module.register_load_state_dict_pre_hook(lambda module, state, *_: state.update(weight=state.pop("w")))
    params = TensorDict.from_module(module, use_state_dict=True)
    assert sorted(params.keys()) == ["bias", "w"]
    with params.zero_().to_module(module, use_state_dict=True):
        assert not module.weight.any()


def test_swapping_leaves_nothing_behind() -> None:
    """A module that was swapped is freed without the collector, copies and pickles; so is what was swapped in."""
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    params = from_module(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)))
    with params.to_module(module):
        pass
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), copy.copy(module)):
        before = held(twin)
        with params.to_module(twin):
            assert twin[0].weight is params["0", "weight"]
        assert held(twin) == before
    leaf, gone = weakref.ref(params["0", "weight"]), weakref.ref(module)
    gc.disable()
    try:
        del params
        assert leaf() is None
        del module, twin
        assert gone() is None
    finally:
        gc.enable()


def test_old_values_are_freed_when_nobody_keeps_them() -> None:
    """A swap for good does not hold what it replaced."""
    module = nn.Linear(3, 4)
    old = weakref.ref(module.weight)
    from_module(nn.Linear(3, 4)).to_module(module)
    assert old() is None


@pytest.mark.parametrize("lazy", [False, True])
def test_from_modules_agrees_with_the_anchor(lazy: bool) -> None:
    """Keys, shapes, kinds and gradients, of a dense and of a lazy stack."""
    modules = [plain() for _ in range(3)]
    found = []
    for lib in (tensorclass, tensordict):
        params = lib.from_modules(*modules, lazy_stack=lazy)
        kinds = {k: (tuple(v.shape), type(v), v.is_leaf, v.requires_grad) for k, v in params.items(True, True)}
        found.append((kinds, tuple(params.batch_size), params.is_locked))
    assert found[0] == found[1]


def test_from_modules_keeps_shared_parameters_once() -> None:
    """With expand_identical: a view without memory of its own; frozen ones stay frozen."""
    shared = nn.Linear(3, 4)
    params = from_modules(shared, shared, expand_identical=True)
    assert params["weight"].stride()[0] == 0
    assert params["weight"].data_ptr() == shared.weight.data_ptr()
    assert not from_modules(shared.requires_grad_(False), nn.Linear(3, 4).requires_grad_(False))["bias"].requires_grad


def test_from_modules_refuses_what_does_not_stack() -> None:
    """Other structures and shapes, both options, no module; a lazy stack takes them."""
    for other in (nn.Linear(3, 4, bias=False), nn.Linear(2, 4)):
        with pytest.raises(StructureError, match="lazy_stack=True"):
            from_modules(nn.Linear(3, 4), other)
        assert isinstance(from_modules(nn.Linear(3, 4), other, lazy_stack=True), LazyStackedTensorDict)
    with pytest.raises(StructureError, match="leave out"):
        from_modules(nn.Linear(3, 4), lazy_stack=True, as_module=True)
    with pytest.raises(StructureError, match="at least one"):
        from_modules()
    with pytest.raises(TypeError, match=r"from_modules\(\*modules\)"):
        from_modules([nn.Linear(3, 4)])  # type: ignore[arg-type]  # what the test is about


def test_from_modules_as_module_trains() -> None:
    """Its parameters are new ones, and buffers are buffers."""
    params = from_modules(normed(), normed(), as_module=True)
    assert isinstance(params, TensorDictParams)
    assert {name for name, _ in params.named_buffers()} == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    assert all(p.requires_grad and p.shape[0] == 2 for p in params.parameters())


class Held(nn.Module):
    """Parameters and buffers in a nested container of its own."""

    def __init__(self) -> None:
        super().__init__()
        inner = TensorDict(shift=nn.Parameter(torch.ones(3)), count=torch.arange(3))
        self.params = TensorDictParams(TensorDict(scale=nn.Parameter(torch.full((3,), 2.0)), inner=inner))

    def forward(self, x: Tensor) -> Tensor:
        """An affine map."""
        return x * self.params["scale"] + self.params["inner", "shift"] + self.params["inner", "count"]


def test_dotted_names_reach_what_a_container_holds():
    """Every name that a module tells is one that it finds, as torch's own functions expect."""
    held, x = Held(), torch.ones(2, 3)
    for name, parameter in held.named_parameters():
        assert held.get_parameter(name) is parameter
    for name, buffer in held.named_buffers():
        assert held.get_buffer(name) is buffer
    assert held.params.scale is held.params["scale"]
    before = {name: id(tensor) for name, tensor in held.state_dict(keep_vars=True).items()}
    result = torch.func.functional_call(held, {"params.inner.shift": torch.zeros(3)}, (x,))
    assert result.tolist() == [[2, 3, 4]] * 2
    assert {name: id(tensor) for name, tensor in held.state_dict(keep_vars=True).items()} == before
    with pytest.raises(AttributeError, match="nothing"):
        _ = held.params.nothing


def test_hooks_are_called_for_attributes():
    """An attribute is read as its key is."""
    params = TensorDictParams(a=torch.ones(2))
    params.register_get_post_hook(lambda params, value: value.detach() * 2)
    assert params.a.tolist() == params["a"].tolist() == [2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
def test_containers_of_parameters_are_exported(strict):
    """The program has the container's tensors under their names; the module keeps its own."""
    held = Held()
    before = {name: id(tensor) for name, tensor in held.state_dict(keep_vars=True).items()}
    rows = torch.export.Dim("rows", min=2)
    program = torch.export.export(held, (torch.ones(2, 3),), dynamic_shapes=({0: rows},), strict=strict)
    assert {name: id(tensor) for name, tensor in held.state_dict(keep_vars=True).items()} == before
    assert set(program.state_dict) == {"params.scale", "params.inner.shift", "params.inner.count"}
    x = torch.randn(5, 3)
    torch.testing.assert_close(program.module()(x), held(x))
