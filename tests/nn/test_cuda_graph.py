"""CudaGraphModule: the CPU fallback, recording and replaying on a simulated graph, and on a GPU where there is one."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest
import torch
from tensordict import nn as anchor_nn
from torch import Tensor, nn

from tensorclass import TensorDict
from tensorclass.errors import ModuleError
from tensorclass.nn import (
    CudaGraphModule,
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    TensorDictModule,
    TensorDictSequential,
    set_interaction_type,
    set_skip_existing,
)
from tests.nn._pipelines import classifier, digits
from tests.nn._simulated_graph import SimulatedGraphModule

KINDS = [pytest.param((SimulatedGraphModule, "cpu"), id="simulated")]
if torch.cuda.is_available():
    KINDS.append(pytest.param((CudaGraphModule, "cuda"), id="cuda"))
kinds = pytest.mark.parametrize("kind", KINDS)
on_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the fallback is for machines without CUDA")


def keyed() -> TensorDictModule:
    """A keyed module that counts the calls of Python code."""
    calls: list[int] = []

    def run(x: Tensor) -> Tensor:
        calls.append(1)
        return x * 2

    module = TensorDictModule(run, in_keys=["x"], out_keys=["y"])
    module.calls = calls
    return module


def test_signature():
    """The parameters of the original, with its defaults."""
    ours, theirs = (inspect.signature(cls).parameters for cls in (CudaGraphModule, anchor_nn.CudaGraphModule))
    assert [(p.name, p.default, p.kind) for p in ours.values()] == [
        (p.name, p.default, p.kind) for p in theirs.values()
    ]


# ---- without CUDA ------------------------------------------------------------------------------------------------


@on_cpu
def test_fallback_runs_the_function():
    """A warning when it is built; calls pass through, gradients included."""
    with pytest.warns(UserWarning, match="no CUDA device"):
        module = CudaGraphModule(nn.Linear(3, 2), warmup=1)
    x = torch.rand(4, 3)
    for _ in range(3):
        assert torch.equal(module(x), module.module(x))
    assert module(x).requires_grad
    assert list(module.state_dict()) == ["weight", "bias"]
    module.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.zeros(2)})
    assert torch.allclose(module(x), x.sum(-1, keepdim=True).expand(4, 2))
    with pytest.raises(RuntimeError, match="an input requires grad"):
        module(x.requires_grad_())


@on_cpu
@pytest.mark.filterwarnings("ignore:CudaGraphModule. there is no CUDA")
def test_fallback_of_keyed_modules():
    """By container or by tensor, into the container that was given or into another."""
    module = CudaGraphModule(keyed())
    assert (module.in_keys, module.out_keys) == (["x"], ["y"])
    data = TensorDict(x=torch.ones(3), batch_size=[3])
    assert module(data) is data
    assert module(torch.ones(3)).tolist() == module(x=torch.ones(3)).tolist() == data["y"].tolist() == [2, 2, 2]
    out = TensorDict()
    assert module(data, tensordict_out=out) is out
    assert list(out.keys()) == ["y"]
    function = CudaGraphModule(lambda d: d.set("y", d["x"] + 1), in_keys=["x"], out_keys=["y"])
    assert function(x=torch.ones(2)).tolist() == [2, 2]
    assert function(data)["y"].tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="an input requires grad"):
        module(TensorDict(x=torch.ones(2, requires_grad=True)))


@on_cpu
@pytest.mark.filterwarnings("ignore:CudaGraphModule. there is no CUDA")
def test_construction():
    """What it refuses and what it shows; it is no module."""
    with pytest.raises(ModuleError, match="takes a function or a module, got int 3"):
        CudaGraphModule(3)
    for warmup in (0, -1, "2"):
        with pytest.raises(ValueError, match=r"the number of the call that records|`warmup` is a whole number"):
            CudaGraphModule(keyed(), warmup=warmup)
    with pytest.warns(UserWarning, match="the module has its own in_keys"):
        assert CudaGraphModule(keyed(), in_keys=["z"]).in_keys == ["x"]
    function = CudaGraphModule(abs, in_keys=[])
    assert (function.in_keys, function.out_keys) == ([], [])
    assert CudaGraphModule(abs).in_keys is None
    assert CudaGraphModule(abs).state_dict() == {}
    assert CudaGraphModule(abs).load_state_dict({"a": 1}) is None
    assert not isinstance(function, nn.Module)
    assert "warmup=2" in repr(CudaGraphModule(keyed()))
    assert "in_keys=['x']" in repr(CudaGraphModule(keyed()))


# ---- recordings --------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("warmup", [1, 2, 3])
def test_records_at_the_call_of_warmup(kind, warmup):
    """Python code runs until the recording, and never again; every call gives its own result."""
    build, device = kind
    calls: list[int] = []

    def run(x: Tensor, pair: dict[str, Tensor], *, scale: float) -> dict[str, Any]:
        calls.append(1)
        return {"sum": x + pair["y"], "scaled": (x * scale, "text")}

    module = build(run, warmup=warmup)
    results = []
    for number in range(6):
        x = torch.full((3,), float(number), device=device)
        results.append(module(x, {"y": x + 1}, scale=2.0))
        assert len(calls) == min(number + 1, warmup)
    for number, result in enumerate(results):
        assert result["sum"].tolist() == [2.0 * number + 1] * 3
        assert result["scaled"][0].tolist() == [2.0 * number] * 3
        assert result["scaled"][1] == "text"


@kinds
def test_typed_pipeline(kind):
    """A typed batch in and out; the numbers are those of the pipeline."""
    build, device = kind
    pipeline = classifier().to(device)
    module = build(pipeline)
    with torch.no_grad():
        for _ in range(5):
            batch = digits(4).to(device)
            result, expected = module(batch), pipeline(batch)
            assert type(result) is type(expected)
            assert result.batch_size == expected.batch_size
            assert torch.allclose(result.logits, expected.logits)
            assert torch.equal(result.digit, expected.digit)


@kinds
def test_keyed_module(kind):
    """Writes to the container that is given, and leaves its other entries alone; selections and targets hold."""
    build, device = kind
    inner = keyed()
    module = build(inner)
    for number in range(4):
        x = torch.full((2,), float(number), device=device)
        data = TensorDict(x=x, other=x, batch_size=[2])
        assert module(data) is data
        assert data["y"].tolist() == [2.0 * number] * 2
        assert data["x"] is x
        assert data["other"] is x
    assert len(inner.calls) == 2
    out = TensorDict()
    assert module(data, tensordict_out=out) is out
    assert list(out.keys()) == ["y"]
    alike = build(keyed())
    for number in range(4):
        x = torch.full((2,), float(number), device=device)
        data = TensorDict(x=x)
        assert alike(x=x).tolist() == alike(x).tolist() == alike(data)["y"].tolist() == [2.0 * number] * 2
    with pytest.raises(KeyError, match="x"):
        module(TensorDict(z=torch.ones(2, device=device)))
    apart = build(TensorDictModule(lambda x: x + 1, in_keys=["x"], out_keys=["y"], inplace=False))
    for _ in range(4):
        result = apart(data)
        assert result is not data
        assert list(result.keys()) == ["y"]


@kinds
def test_functions_over_containers(kind):
    """An empty list of in keys stands for the whole container."""
    build, device = kind
    loss = build(lambda data: TensorDict(loss=(data["x"] * data["a", "w"]).sum()), in_keys=[], out_keys=[])
    for number in range(4):
        x = torch.full((3,), float(number), device=device)
        data = TensorDict(x=x, a=TensorDict(w=x + 1))
        assert loss(data)["loss"] == 3 * number * (number + 1)
        assert set(data.keys()) == {"x", "a"}


@kinds
def test_sgd_step(kind):
    """Parameters are updated by replays, once for each call."""
    build, device = kind
    weight = nn.Parameter(torch.zeros(2, device=device))

    def step(x: Tensor) -> Tensor:
        loss = ((weight - x) ** 2).sum()
        (gradient,) = torch.autograd.grad(loss, [weight])
        with torch.no_grad():
            weight.sub_(gradient, alpha=0.25)
        return loss.detach()

    module, expected = build(step), torch.zeros(2)
    for number in range(5):
        x = torch.full((2,), float(number))
        loss = module(x.to(device))
        assert loss.item() == pytest.approx(((expected - x) ** 2).sum().item())
        expected = expected - 0.5 * (expected - x)
        assert torch.allclose(weight.detach().cpu(), expected)


# ---- what a replay would get wrong -------------------------------------------------------------------------------


@kinds
def test_other_inputs_are_refused(kind):
    """Structure, shape, dtype, constants: each is told, none is copied or ignored."""
    build, device = kind
    module = build(lambda x, scale=2.0: x * scale)
    x = torch.ones(3, device=device)
    for _ in range(3):
        module(x, 2.0)
    wrong = [
        ((torch.ones(4, device=device), 2.0), r"recorded with torch.float32 \[3\].* called with torch.float32 \[4\]"),
        ((torch.ones(1, device=device), 2.0), "called with torch.float32"),
        ((x.double(), 2.0), "called with torch.float64"),
        ((x, 3.0), "recorded with 2.0, called with 3.0"),
        (("x", 2.0), "called with 'x'"),
        ((x,), "make a CudaGraphModule for each"),
        (([x], 2.0), "make a CudaGraphModule for each"),
    ]
    for args, message in wrong:
        with pytest.raises(ValueError, match=message):
            module(*args)
    assert module(x, 2.0).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="an input requires grad"):
        module(x.clone().requires_grad_(), 2.0)


@kinds
def test_other_batches_are_refused(kind):
    """A container with another batch size, or another batch rank over the same shapes."""
    build, device = kind
    module = build(keyed())
    for _ in range(3):
        module(TensorDict(x=torch.ones(2, 3), batch_size=[2], device=device))
    for data in (TensorDict(x=torch.ones(4, 3), batch_size=[4]), TensorDict(x=torch.ones(2, 3))):
        with pytest.raises(ValueError, match="make a CudaGraphModule for each"):
            module(data.to(device))


@kinds
def test_results_that_require_grad_are_refused(kind):
    """A replay makes no autograd graph, so a gradient would be lost in silence."""
    build, device = kind
    module = build(nn.Linear(2, 2).to(device))
    x = torch.ones(1, 2, device=device)
    with pytest.raises(ModuleError, match="a result requires grad"):
        module(x)
    with torch.no_grad():
        assert torch.allclose(module(x), module.module(x))


@kinds
def test_train_and_eval(kind):
    """Each has its graph."""
    build, device = kind
    network = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    module = build(network)
    x = torch.ones(1000, device=device)
    for _ in range(2):
        for training, kept in ((True, 0.25), (False, 1.0)):
            network.train(training)
            for _ in range(4):
                assert (module(x) != 0).float().mean().item() == pytest.approx(kept, abs=0.06)
    network.train()
    network[1].eval()
    assert (module(x) != 0).float().mean().item() == pytest.approx(0.5, abs=0.06)


@kinds
def test_interaction_types(kind):
    """A graph that draws is not replayed where the mean is wanted."""
    build, device = kind
    policy = TensorDictSequential(
        TensorDictModule(NormalParamExtractor(), in_keys=["x"], out_keys=["loc", "scale"]),
        ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=torch.distributions.Normal),
    )
    module = build(policy)
    x = torch.zeros(200, 2, device=device)
    for _ in range(3):
        with set_interaction_type("random"):
            drawn = [module(TensorDict(x=x))["action"] for _ in range(4)]
        assert len({float(value.sum()) for value in drawn}) == 4
        with set_interaction_type("mean"):
            assert all(module(TensorDict(x=x))["action"].abs().max() == 0 for _ in range(4))


@kinds
def test_skip_existing(kind):
    """Values that are there stay, as without a graph."""
    build, device = kind
    module = build(keyed())
    for _ in range(3):
        data = TensorDict(x=torch.ones(2, device=device), y=torch.zeros(2, device=device))
        with set_skip_existing():
            assert module(data)["y"].tolist() == [0, 0]
        assert module(data)["y"].tolist() == [2, 2]


def test_inputs_elsewhere_are_refused():
    """A tensor on another device would be recorded as a constant."""
    module = SimulatedGraphModule(abs, warmup=1)
    with pytest.raises(ModuleError, match="got a tensor on meta, whose values would be recorded"):
        module(torch.ones(2, device="meta"))


@on_cpu
@pytest.mark.filterwarnings("ignore:CudaGraphModule. there is no CUDA")
def test_pickle():
    """Without recordings it is data."""
    module = pickle.loads(pickle.dumps(CudaGraphModule(nn.Linear(2, 2))))
    assert module(torch.ones(1, 2)).shape == (1, 2)
