"""The examples about modules in the documents of the original, with imports changed: result for result.

`INVENTORY` lists every example of that kind, by document as in `test_documents_containers.py`: the test that has it
here, or the suite that it belongs to. Where the documents contradict the newest original (a keyword call that returns
a container, a dict of in keys that leads from key to argument), the newest one holds; the test says so.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import nn

from tensorclass import TensorDict
from tensorclass.nn import TensorDictModule, TensorDictSequential

PROBABILISTIC, FUNCTIONAL = "probabilistic", "functional"
INVENTORY: tuple[tuple[str, str, str], ...] = (
    ("000", "a sequence called with a container and with tensors", "test_sequence"),
    ("000", "a probabilistic sequence with functional parameters, vmap over them", PROBABILISTIC),
    ("000", "reset_out_keys", "test_reset_out_keys"),
    ("000", "select_out_keys: of a module", "test_select_out_keys"),
    ("000", "select_out_keys: dispatched arguments", "test_select_out_keys"),
    ("000", "select_out_keys: reset", "test_select_out_keys"),
    ("000", "select_out_keys: of a sequence", "test_select_out_keys_of_a_sequence"),
    ("000", "select_subsequence", "test_select_subsequence"),
    ("000", "select_subsequence of nested sequences", "test_select_subsequence_of_nested_sequences"),
    ("001", "TensorDictModule over nn.Transformer, called with a container and with tensors", "test_transformer"),
    ("001", "nested in and out keys", "test_nested_keys"),
    ("001", "a module without inputs", "test_module_without_inputs"),
    ("001", "in_keys as a dict", "test_in_keys_as_a_dict"),
    ("001", "functional and stateful calls of a GRU cell", FUNCTIONAL),
    ("001", "vmap over expanded parameters", FUNCTIONAL),
    ("002", "parameters of two modules stacked, run through vmap, gradients", FUNCTIONAL),
    ("002", "parameters of two modules in a lazy stack", FUNCTIONAL),
    ("003", "training loop over a dataset", "test_training_loop"),
    ("003", "functional modules, an ensemble through vmap", FUNCTIONAL),
    ("004", "training loop over a dataset", "test_training_loop"),
    ("004", "a module with nested out keys, called with a container and by keyword", "test_module_of_the_overview"),
    ("004", "a sequence that reads the input and what a module wrote", "test_sequence_of_the_overview"),
    ("004", "make_functional and an ensemble", FUNCTIONAL),
)
"""Document, example, its test: here, in `test_documents_functional.py`, or with the probabilistic modules."""


def test_inventory():
    """Every test of this file is an example, and every example has a place."""
    tree = ast.parse(Path(__file__).read_text("utf-8"))
    tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
    assert {place for _, _, place in INVENTORY} - {PROBABILISTIC, FUNCTIONAL} == tests - {"test_inventory"}


def shapes(data: TensorDict) -> dict[object, list[int]]:
    """What the documents print of a container."""
    return {key: list(data[key].shape) for key in data.keys(True, True)}


# ---- 000: sequences --------------------------------------------------------------------------------------------------


def test_sequence():
    """With a container, by keyword and by position."""
    torch.manual_seed(0)
    module = TensorDictSequential(
        TensorDictModule(lambda x: x + 1, in_keys=["x"], out_keys=["x+1"]),
        TensorDictModule(nn.Linear(3, 4), in_keys=["x+1"], out_keys=["w*(x+1)+b"]),
    )
    data = module(TensorDict({"x": torch.zeros(3)}, []))
    assert shapes(data) == {"x": [3], "x+1": [3], "w*(x+1)+b": [4]}
    for first, second in (module(x=torch.zeros(3)), module(torch.zeros(3))):
        assert first.tolist() == [1, 1, 1]
        torch.testing.assert_close(second, torch.tensor([-0.7214, -0.8748, 0.1571, -0.1138]), atol=1e-4, rtol=0)
        assert second.grad_fn is not None


def plus_two() -> TensorDictModule:
    """Two in keys, two out keys."""
    return TensorDictModule(lambda x, y: (x + 2, y + 2), in_keys=["a", "b"], out_keys=["c", "d"])


def zero_and_one() -> TensorDict:
    """The input of `plus_two`."""
    return TensorDict({"a": torch.zeros(()), "b": torch.ones(())}, [])


def test_reset_out_keys():
    """All outputs are back."""
    mod = plus_two()
    mod.select_out_keys("d")
    assert sorted(mod(zero_and_one()).keys()) == ["a", "b", "d"]
    mod.reset_out_keys()
    assert sorted(mod(zero_and_one()).keys()) == ["a", "b", "c", "d"]


def test_select_out_keys():
    """In the container, and with tensors."""
    mod = plus_two()
    assert sorted(mod(zero_and_one()).keys()) == ["a", "b", "c", "d"]
    mod.select_out_keys("d")
    assert sorted(mod(zero_and_one()).keys()) == ["a", "b", "d"]
    assert mod.out_keys_source == ["c", "d"]
    # The document prints 2, which is `c`; `d` is 3.
    assert mod(torch.zeros(()), torch.ones(())).item() == 3
    mod.reset_out_keys()
    assert sorted(mod(zero_and_one()).keys()) == ["a", "b", "c", "d"]


def test_select_out_keys_of_a_sequence():
    """Intermediate keys go."""
    seq = TensorDictSequential(
        TensorDictModule(lambda x: x + 1, in_keys=["x"], out_keys=["y"]),
        TensorDictModule(lambda x: x + 1, in_keys=["y"], out_keys=["z"]),
    )
    assert sorted(seq(TensorDict({"x": torch.zeros(())}, [])).keys()) == ["x", "y", "z"]
    seq.select_out_keys("z")
    assert sorted(seq(TensorDict({"x": torch.zeros(())}, [])).keys()) == ["x", "z"]


def identity(read: str, written: str) -> TensorDictModule:
    """A module that copies an entry."""
    return TensorDictModule(lambda x: x, in_keys=[read], out_keys=[written])


@pytest.mark.parametrize(
    ("keys", "kept", "in_keys", "out_keys"),
    [
        ({"in_keys": ["a"]}, [0, 1, 2, 3], ["a"], ["b", "c", "d", "e"]),
        ({"in_keys": ["c"]}, [2], ["c"], ["d"]),
        ({"out_keys": ["c"]}, [0, 1], ["a"], ["b", "c"]),
        ({"out_keys": ["e"]}, [3], ["a"], ["e"]),
    ],
)
def test_select_subsequence(keys, kept, in_keys, out_keys):
    """What depends on some keys, and what some keys depend on."""
    module = TensorDictSequential(identity("a", "b"), identity("b", "c"), identity("c", "d"), identity("a", "e"))
    part = module.select_subsequence(**keys)
    assert list(part) == [module[index] for index in kept]
    assert (part.in_keys, part.out_keys) == (in_keys, out_keys)


def test_select_subsequence_of_nested_sequences():
    """Only what leads from "b" or "d" to "e"."""
    module = TensorDictSequential(
        TensorDictSequential(identity("a", "b"), identity("b", "c")),
        TensorDictSequential(identity("b", "d"), identity("d", "e")),
    )
    part = module.select_subsequence(in_keys=["b", "d"], out_keys=["e"])
    assert len(part) == 1
    assert list(part[0]) == list(module[1])
    assert (part.in_keys, part.out_keys, part[0].out_keys) == (["b"], ["d", "e"], ["d", "e"])


# ---- 001: modules ----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_transformer():
    """A regular nn.Module, over a container and over tensors."""
    module = TensorDictModule(nn.Transformer(128), in_keys=["input", "tgt"], out_keys=["out"])
    input, tgt = torch.ones(2, 3, 128), torch.zeros(2, 3, 128)
    data = module(TensorDict({"input": input, "tgt": tgt}, batch_size=[2, 3]))
    assert shapes(data) == {"input": [2, 3, 128], "tgt": [2, 3, 128], "out": [2, 3, 128]}
    assert module(input, tgt).shape == input.shape


def test_nested_keys():
    """A function with two outputs."""
    module = TensorDictModule(
        lambda x: (x - 1, x + 1), in_keys=[("input", "x")], out_keys=[("output", "x-1"), ("output", "x+1")]
    )
    data = module(TensorDict({("input", "x"): torch.zeros(())}, batch_size=[]))
    assert shapes(data) == {("input", "x"): [], ("output", "x-1"): [], ("output", "x+1"): []}
    assert data["output", "x+1"].item() == 1


def test_module_without_inputs():
    """A module may fill a container."""
    module = TensorDictModule(lambda: torch.randn(3), in_keys=[], out_keys=["x"])
    assert shapes(module(TensorDict({}, batch_size=[]))) == {"x": [3]}


def test_in_keys_as_a_dict():
    """From key to argument, as the document has it, is `out_to_in_map=False` now."""
    module = TensorDictModule(lambda x, *, y: x + y, in_keys={"1": "x", "2": "y"}, out_keys=["z"], out_to_in_map=False)
    data = module(TensorDict({"1": torch.ones(()), "2": torch.ones(()) * 2}, []))
    assert data["z"].item() == 3


# ---- 003 and 004: the front page and the overview --------------------------------------------------------------------


def test_training_loop():
    """Model and loss read and write containers."""
    torch.manual_seed(0)
    dataset = [TensorDict(x=torch.randn(8, 3), target=torch.ones(8, 1), batch_size=[8]) for _ in range(5)]
    model = TensorDictModule(nn.Linear(3, 1), in_keys=["x"], out_keys=["y"])
    loss_module = TensorDictModule(lambda y, t: (y - t).pow(2).mean(-1), ["y", "target"], ["loss"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for tensordict in dataset:
        tensordict = model(tensordict)
        loss = loss_module(tensordict)["loss"].mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_module_of_the_overview():
    """A keyword call returns tensors, where the overview has a container."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.LazyLinear(1)

        def forward(self, x):
            logits = self.linear(x)
            return logits, torch.sigmoid(logits)

    module = TensorDictModule(Net(), in_keys=["input"], out_keys=[("outputs", "logits"), ("outputs", "probabilities")])
    data = module(TensorDict({"input": torch.randn(32, 100)}, [32]))
    assert torch.equal(torch.sigmoid(data["outputs", "logits"]), data.get(("outputs", "probabilities")))
    logits, probabilities = module(input=torch.randn(32, 100))
    assert (logits.shape, probabilities.shape) == ((32, 1), (32, 1))


def test_sequence_of_the_overview():
    """A module reads the input and what the one before it wrote."""

    class Net(nn.Module):
        def __init__(self, input_size=100, hidden_size=50, output_size=10):
            super().__init__()
            self.fc1 = nn.Linear(input_size, hidden_size)
            self.fc2 = nn.Linear(hidden_size, output_size)

        def forward(self, x):
            x = torch.relu(self.fc1(x))
            return self.fc2(x)

    class Masker(nn.Module):
        def forward(self, x, mask):
            return torch.softmax(x * mask, dim=1)

    net = TensorDictModule(Net(), in_keys=[("input", "x")], out_keys=[("intermediate", "x")])
    masker = TensorDictModule(
        Masker(), in_keys=[("intermediate", "x"), ("input", "mask")], out_keys=[("output", "probabilities")]
    )
    module = TensorDictSequential(net, masker)
    entries = TensorDict({"x": torch.rand(32, 100), "mask": torch.randint(2, size=(32, 10))}, batch_size=[32])
    data = module(TensorDict({"input": entries}, batch_size=[32]))
    assert data["intermediate", "x"].shape == (32, 10)
    torch.testing.assert_close(data["output", "probabilities"].sum(-1), torch.ones(32))
    assert module.in_keys == [("input", "x"), ("input", "mask")]
