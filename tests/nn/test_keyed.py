"""Keyed modules against the original: the same calls, the same results, or a difference that the docs name."""

from __future__ import annotations

import copy
import pickle
import threading
import types

import pytest
import tensordict
import tensordict.nn
import torch
import torch._dynamo
from torch import Tensor, nn

import tensorclass
import tensorclass.nn
from tensorclass import TensorClass, TensorDict
from tensorclass.errors import BatchSizeError, MissingKeyError, ModuleError, SchemaError, UnsupportedOperationError
from tensorclass.nn import (
    TensorDictModule,
    TensorDictSequential,
    as_tensordict_module,
    set_skip_existing,
    skip_existing,
)
from tensorclass.typing import Float32
from tests.nn._keyed_cases import CASES, alike, outcome
from tests.nn._pipelines import told


def _library(containers: types.ModuleType, nn: types.ModuleType) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        TensorDict=containers.TensorDict,
        TensorClass=containers.TensorClass,
        lazy_stack=containers.lazy_stack,
        Module=nn.TensorDictModule,
        Base=nn.TensorDictModuleBase,
        Sequential=nn.TensorDictSequential,
        Wrapper=nn.TensorDictModuleWrapper,
        Wrap=nn.WrapModule,
        as_module=nn.as_tensordict_module,
        dispatch=nn.dispatch,
        skip_existing=nn.skip_existing,
        set_skip_existing=nn.set_skip_existing,
        ClassModule=nn.TensorClassModuleBase,
    )


OURS = _library(tensorclass, tensorclass.nn)
THEIRS = _library(tensordict, tensordict.nn)


@pytest.mark.parametrize("name", list(CASES))
def test_as_the_original(name):
    """The same result, or an error that the same builtin catches."""
    ours, theirs = outcome(CASES[name], OURS), outcome(CASES[name], THEIRS)
    assert alike(ours, theirs), f"ours {ours}, theirs {theirs}"


# ---- what differs on purpose ---------------------------------------------------------------------------------------


def _module(function, in_keys, out_keys, **options):
    return TensorDictModule(function, in_keys, out_keys, **options)


def test_nested_key_below_a_written_one_is_no_in_key():
    """A container that a module writes provides what lies in it; the original asks for it in the input."""
    first = _module(lambda x: TensorDict(a=x), ["n"], ["m"])
    assert TensorDictSequential(first, _module(abs, [("m", "a")], ["b"])).in_keys == ["n"]


def test_nested_out_key_is_found_in_nested_mappings():
    """A nested out key is looked up part by part, or as the tuple."""
    for result in ({"c": {"d": torch.ones(2)}}, {("c", "d"): torch.ones(2)}, TensorDict(c={"d": torch.ones(2)})):
        data = _module(lambda x, result=result: result, ["a"], [("c", "d")])(TensorDict(a=torch.ones(2)))
        assert data["c", "d"].tolist() == [1, 1]


def test_mapping_without_the_out_key_is_an_error():
    """The original stores the mapping itself under the key."""
    with pytest.raises(MissingKeyError, match=r"writes 'logits' and returned a mapping .*\['logit'\].*mean `logit`"):
        _module(lambda x: {"logit": x}, ["a"], ["logits"])(TensorDict(a=torch.ones(2)))


def test_mapping_may_leave_out_what_is_dropped():
    """`"_"` names no entry of a mapping."""
    assert _module(lambda x: {"b": x, "c": x}, ["a"], ["_", "c"])(torch.ones(2)).tolist() == [1, 1]


def test_list_of_outputs():
    """A list with one value for each of several out keys is several outputs."""
    assert [x.tolist() for x in _module(lambda x: [x, x + 1], ["a"], ["b", "c"])(torch.ones(1))] == [[1.0], [2.0]]


def test_missing_method_is_an_error_at_once():
    """The original finds out at the first call."""
    with pytest.raises(ModuleError, match="Linear has no method `forwrd`; did you mean `forward`"):
        _module(torch.nn.Linear(1, 1), ["a"], ["b"], method="forwrd")


def test_out_key_twice():
    """The original writes both, and the first is lost."""
    with pytest.raises(ModuleError, match="names 'b' twice"):
        _module(lambda x: (x, x), ["a"], ["b", "b"])


def test_sequence_by_name_is_a_sequence_too():
    """Ints, slices and iteration work on a sequence of names."""
    named = TensorDictSequential({"p": _module(abs, ["a"], ["b"]), "q": _module(abs, ["b"], ["c"])})
    assert named[0] is named["p"]
    assert [m.in_keys for m in named] == [["a"], ["b"]]
    assert list(named[1:].module) == ["q"]


@pytest.mark.parametrize("wrong", [3, "abs", {"p": abs}, None, torch.nn.Linear])
def test_what_is_no_module_is_refused_at_once(wrong):
    """The original wraps anything and fails at the call."""
    with pytest.raises(ModuleError, match=r"is not a module|make an instance"):
        TensorDictSequential(_module(abs, ["a"], ["b"]), wrong)


def test_keys_of_a_decorated_function_count():
    """A decorated function in a sequence says what it reads."""
    double = as_tensordict_module(in_keys="a", out_keys="b")(lambda x: x * 2)
    sequence = TensorDictSequential(double, _module(abs, ["b"], ["c"]))
    assert (sequence.in_keys, sequence.out_keys) == (["a"], ["b", "c"])
    assert sequence(torch.ones(1))[1].item() == 2


def test_dispatch_refuses_ambiguous_names():
    """Two keys that join to one name can't be told apart; the original fills both."""
    module = _module(lambda x, y: x, ["a_b", ("a", "b")], ["c"])
    assert module(torch.ones(1), torch.ones(1)).item() == 1
    with pytest.raises(ModuleError, match="several in keys are called `a_b`"):
        module(a_b=torch.ones(1))


# ---- errors --------------------------------------------------------------------------------------------------------


def test_missing_key_names_module_key_and_nearest():
    """A missing key, with what is there."""
    module = _module(torch.nn.Linear(1, 1), ["imgae", ("n", "x")], ["y"])
    with pytest.raises(MissingKeyError) as caught:
        module(TensorDict(image=torch.ones(1), label=torch.ones(1)))
    assert str(caught.value) == (
        "TensorDictModule `linear` reads `imgae`, `n.x`, not found in the input; did you mean `image`?; it has "
        "['image', 'label']"
    )


def test_error_inside_names_keys_and_shapes():
    """The error of torch, with the module and what it was given."""
    sequence = TensorDictSequential(_module(torch.nn.Linear(2, 1), ["x"], [("out", "y")]))
    with pytest.raises(RuntimeError, match="mat1 and mat2") as caught:
        sequence(TensorDict(x=torch.ones(4, 3), batch_size=[4]))
    assert told(caught.value).endswith("\nTensorDictModule `linear` failed on x: float32 [4, 3]")


def test_output_without_the_batch_dims():
    """A batch dim that was lost, with the module that lost it."""
    with pytest.raises(BatchSizeError, match=r"TensorDictModule `function`: field `y`: .*\[4\], got shape \[\]"):
        _module(lambda x: x.sum(), ["x"], ["y"])(TensorDict(x=torch.ones(4), batch_size=[4]))


def test_wrong_number_of_outputs():
    """What was returned, and the keys."""
    with pytest.raises(ModuleError, match=r"more out_keys than tensors: out_keys are \['a', 'b'\].*float32 \[2\]"):
        _module(lambda x: x, ["x"], ["a", "b"])(torch.ones(2))


def test_module_of_a_sequence_that_returns_a_tensor():
    """A module without keys must work on containers."""
    with pytest.raises(ModuleError, match="WrapModule in a sequence returned Tensor"):
        TensorDictSequential(lambda data: data["a"])(TensorDict(a=torch.ones(2)))


# ---- where they stand ----------------------------------------------------------------------------------------------


def test_typed_batches_pass_through():
    """A module writes to a typed batch, which holds the value to its declaration."""

    class Batch(TensorClass):
        x: Float32[Tensor, "3"]
        y: Float32[Tensor, "2"] | None = None

    module = _module(torch.nn.Linear(3, 2), [Batch.x], [Batch.y])
    assert (module.in_keys, module.out_keys) == (["x"], ["y"])
    result = module(Batch(torch.ones(4, 3)))
    assert type(result) is Batch
    assert result.y.shape == (4, 2)
    with pytest.raises(SchemaError, match=r'`linear`: Batch: 1 problem\ny\n  declared: Float32\["2"\]') as caught:
        _module(torch.nn.Linear(3, 5), ["x"], ["y"])(Batch(torch.ones(4, 3)))
    assert [problem.path for problem in caught.value.problems] == ["y"]
    with pytest.raises(MissingKeyError, match="`linear`: Batch has no field `h`"):
        _module(torch.nn.Linear(3, 5), ["x"], ["h"])(Batch(torch.ones(4, 3)))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies(copied):
    """A copy has parameters of its own, and the same keys and selection."""
    model = TensorDictSequential(_module(torch.nn.Linear(3, 2), ["x"], ["h"]), _module(torch.nn.ReLU(), ["h"], ["y"]))
    model.select_out_keys("y")
    twin = copied(model)
    assert (twin.in_keys, twin.out_keys, twin.out_keys_source) == (["x"], ["y"], ["h", "y"])
    assert twin[0].weight is not model[0].weight
    assert torch.equal(twin(torch.ones(3)), model(torch.ones(3)))


def test_hooks_run():
    """Hooks of every module of a sequence run, though modules without hooks are called on a shorter way."""
    heard = []
    model = TensorDictSequential(_module(torch.nn.Linear(3, 2), ["x"], ["h"]), _module(torch.nn.ReLU(), ["h"], ["y"]))
    for part in (model, model[0], model[0].module, model[1]):
        part.register_forward_hook(lambda module, args, result: heard.append(type(module).__name__))
    model[0].register_forward_pre_hook(lambda module, args: heard.append("before"))
    model(TensorDict(x=torch.ones(3)))
    assert heard == ["before", "Linear", "TensorDictModule", "TensorDictModule", "TensorDictSequential"]


def test_input_is_read_before_it_is_written():
    """A failing module leaves what the modules before it wrote, and nothing else."""
    data = TensorDict(x=torch.ones(3))
    model = TensorDictSequential(_module(abs, ["x"], ["h"]), _module(torch.nn.Linear(2, 2), ["h"], ["y"]))
    with pytest.raises(RuntimeError):
        model(data)
    assert sorted(data.keys()) == ["h", "x"]
    untouched = TensorDict(x=torch.ones(3))
    with pytest.raises(RuntimeError):
        TensorDictSequential(*model, inplace=False)(untouched)
    assert sorted(untouched.keys()) == ["x"]


def test_device_of_the_container_holds():
    """A container with a device imposes it on what modules write."""
    data = TensorDict(x=torch.ones(3), device="cpu")
    assert _module(torch.nn.ReLU(), ["x"], ["y"])(data)["y"].device.type == "cpu"


def test_reset_parameters():
    """Parameters are drawn anew in place; a module without any warns."""
    module = _module(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()), ["x"], ["y"])
    before = module.module[0].weight.clone()
    assert module.reset_parameters_recursive() is None
    assert not torch.equal(before, module.module[0].weight)
    with pytest.warns(UserWarning, match="no submodule has a `reset_parameters` method"):
        _module(abs, ["x"], ["y"]).reset_parameters_recursive()


def test_reset_parameters_outside_of_the_module():
    """The storages of the container are drawn anew, the module keeps its own; batch dims are refused."""
    module = _module(torch.nn.Linear(2, 3), ["x"], ["y"])
    params = TensorDict.from_module(module).clone()
    before, mine = params.clone(), module.weight.clone()
    fresh = module.reset_parameters_recursive(params)
    assert not (before == params).any()
    assert torch.equal(module.weight, mine)
    assert fresh["module", "weight"].requires_grad
    assert fresh["module", "weight"].data_ptr() == params["module", "weight"].data_ptr()
    with pytest.raises(ModuleError, match=r"batch dims \[3\]"):
        module.reset_parameters_recursive(params.expand(3))


def test_gradients_flow():
    """The gradients are those of the modules called by hand."""
    linear = torch.nn.Linear(3, 2)
    model = TensorDictSequential(_module(linear, ["x"], ["h"]), _module(torch.tanh, ["h"], ["y"]))
    x = torch.rand(4, 3)
    model(TensorDict(x=x, batch_size=[4]))["y"].sum().backward()
    found, linear.weight.grad = linear.weight.grad, None
    torch.tanh(linear(x)).sum().backward()
    assert torch.equal(found, linear.weight.grad)


# ---- the setting is the thread's own -------------------------------------------------------------------------------


def test_threads_do_not_see_each_others_blocks():
    """A block in one thread skips nothing in another that runs at the same time."""
    module = _module(lambda x: x + 1, ["x"], ["y"])
    entered, done, seen = threading.Event(), threading.Event(), []

    def other():
        entered.wait()
        seen.append((skip_existing(), module(TensorDict(x=torch.zeros(()), y=torch.zeros(())))["y"].item()))
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with set_skip_existing():
        entered.set()
        assert done.wait(60)
        assert module(TensorDict(x=torch.zeros(()), y=torch.zeros(())))["y"].item() == 0
    thread.join()
    assert seen == [(False, 1.0)]


def test_blocks_nest_and_are_used_again():
    """One object serves several blocks, also within itself, and leaves the setting as it was after an error."""
    block = set_skip_existing(["a"])
    with block, block, set_skip_existing(False):
        assert skip_existing() is False
    with pytest.raises(ZeroDivisionError), block:
        _ = 1 / 0
    assert skip_existing() is False
    assert block.clone().mode == ["a"]


# ---- torch.compile -------------------------------------------------------------------------------------------------


def _graphs(function, inputs):
    """How many graphs torch compiles for some inputs; the results are compared with those of eager code."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    for make in inputs:
        assert tensorclass.equal(compiled(make()), function(make()))
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def _batches(sizes):
    return [
        lambda n=n: TensorDict(x=torch.rand(n, 3, generator=torch.Generator().manual_seed(0)), batch_size=[n])
        for n in sizes
    ]


def _models():
    linear, relu = torch.nn.Linear(3, 4), torch.nn.ReLU()
    pair = lambda h: (h + 1, h * 2)  # noqa: E731
    first, second = _module(linear, ["x"], ["h"]), _module(relu, ["h"], [("out", "y")])
    return {
        "module": first,
        "sequence": TensorDictSequential(first, second, _module(pair, ["h"], ["_", "z"])),
        "nested": TensorDictSequential(TensorDictSequential(first, second), lambda data: data.reshape(-1)),
        "selected": TensorDictSequential(first, second).select_out_keys(("out", "y")),
        "not in place": TensorDictSequential(first, second, inplace=False),
        "partial": TensorDictSequential(first, _module(abs, ["absent"], ["z"]), partial_tolerant=True),
        "by keyword": _module(lambda a, b=None: a + 1, {"a": "x", "b": "absent"}, ["y"]),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", list(_models()))
def test_compiles_as_raw_modules_do(name):
    """One graph, and one more for dynamic sizes: as often as the raw modules are compiled."""
    assert _graphs(_models()[name], _batches((2, 2, 5, 7))) == 2


@pytest.mark.slow
def test_dispatch_compiles():
    """A module called with tensors is one graph."""
    module = _models()["sequence"]
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: module(x=x), fullgraph=True, backend="eager")
    for found, expected in zip(compiled(torch.ones(2, 3)), module(torch.ones(2, 3)), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.slow
def test_skip_existing_in_compiled_code():
    """A block inside the compiled function is followed; one around it is seen too."""
    module = TensorDictSequential(_module(lambda x: x + 1, ["x"], ["y"]))

    def inside(data):
        with set_skip_existing():
            return module(data)["y"]

    data = lambda: TensorDict(x=torch.zeros(2), y=torch.zeros(2))  # noqa: E731
    torch._dynamo.reset()
    assert torch.compile(inside, fullgraph=True, backend="eager")(data()).tolist() == [0, 0]
    assert skip_existing() is False
    around = torch.compile(lambda data: module(data)["y"], backend="eager")
    assert around(data()).tolist() == [1, 1]
    with set_skip_existing():
        assert around(data()).tolist() == [0, 0]
    assert around(data()).tolist() == [1, 1]


def test_a_layer_that_nobody_wrapped():
    """A layer over tensors in a keyed sequence is called on the container; the error says what to write."""
    sequence = TensorDictSequential(_module(lambda x: x, ["x"], ["y"]), nn.Linear(2, 2))
    with pytest.raises(UnsupportedOperationError, match=r"Linear was called on the whole.*TensorDictModule\("):
        sequence(TensorDict(x=torch.zeros(2)))
