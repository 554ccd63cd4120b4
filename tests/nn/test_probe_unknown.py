"""What nothing declares is not known: right pipelines build, whatever their tensors without dtype or their state."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import Ragged, Shared, TensorClass
from tensorclass.errors import BuildError
from tensorclass.nn import TensorClassSequential
from tensorclass.typing import Float32, Shaped
from tests.nn._pipelines import step


class X(TensorClass):
    x: Float32[Tensor, "8"]


class Y(TensorClass):
    y: Float32[Tensor, "8"]


class Z(TensorClass):
    z: Float32[Tensor, "8"]


# ---- Python state that modules share --------------------------------------------------------------------------------

OTHER = types.ModuleType("other")
SEEN: list[Tensor] = []
LAST: Any = None


class Box:
    """Anything with attributes."""

    last: Any = None


class Memory(nn.Module):
    """One module with two methods, the second of which uses what the first one kept."""

    def forward(self, x: Tensor) -> Tensor:
        """Keep the input."""
        self.kept = x
        return x * 2

    def back(self, y: Tensor) -> Tensor:
        """Add what was kept."""
        return y + self.kept


def in_a_list() -> Any:
    """A list."""
    held: list[Tensor] = []

    def put(x: Tensor) -> Tensor:
        held.append(x)
        return x * 2

    return put, lambda y: y + held[-1]


def in_a_dict() -> Any:
    """A dict."""
    held: dict[str, Tensor] = {}

    def put(x: Tensor) -> Tensor:
        held["x"] = x
        return x * 2

    return put, lambda y: y + held["x"]


def in_a_global_list() -> Any:
    """A list of the file."""

    def put(x: Tensor) -> Tensor:
        SEEN.append(x)
        return x * 2

    return put, lambda y: y + SEEN[-1]


def in_a_global() -> Any:
    """A variable of the file."""

    def put(x: Tensor) -> Tensor:
        global LAST  # noqa: PLW0603
        LAST = x
        return x * 2

    return put, lambda y: y + LAST


def in_a_closure() -> Any:
    """A variable of a function."""
    last: Any = None

    def put(x: Tensor) -> Tensor:
        nonlocal last
        last = x
        return x * 2

    return put, lambda y: y + last


def in_an_object() -> Any:
    """An attribute of an object."""
    box = Box()

    def put(x: Tensor) -> Tensor:
        box.last = x
        return x * 2

    return put, lambda y: y + box.last


def in_a_class() -> Any:
    """An attribute of a class."""

    def put(x: Tensor) -> Tensor:
        Box.last = x
        return x * 2

    return put, lambda y: y + Box.last


def in_a_module() -> Any:
    """An attribute of one module that is used twice."""
    memory = Memory()
    return memory, memory.back


def in_a_hook() -> Any:
    """A dict that a hook fills."""
    held: dict[str, Tensor] = {}
    encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    encoder[0].register_forward_hook(lambda module, given, out: held.__setitem__("h", out))
    return encoder, lambda y: y + held["h"]


def in_a_hook_with_a_list() -> Any:
    """A list that a hook fills."""
    held: list[Tensor] = []
    encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    encoder[0].register_forward_hook(lambda module, given, out: held.append(out))
    return encoder, lambda y: y + held[-1]


STATES: list[Callable[[], Any]] = [
    in_a_list, in_a_dict, in_a_global_list, in_a_global, in_a_closure, in_an_object, in_a_class, in_a_module,
    in_a_hook, in_a_hook_with_a_list,
]  # fmt: skip


@pytest.mark.parametrize("make", STATES, ids=lambda make: make.__name__)
def test_shared_python_state_is_never_an_error(make: Callable[[], Any]) -> None:
    """A module that reads what another one keeps builds, and runs as the two called by hand."""
    first, second = make()
    built = TensorClassSequential(step(first, X.x, Y.y), step(second, Y.y, Z.z), input=X, output=Z)
    assert all(d.code == "N302" for d in built.diagnostics)
    x = torch.rand(4, 8)
    assert torch.equal(built(X(x)).z, second(first(x)))


def test_state_excuses_no_other_module() -> None:
    """An error of a module without shared state stays one."""
    first, second = in_a_dict()
    with pytest.raises(BuildError) as caught:
        TensorClassSequential(
            step(first, X.x, Y.y),
            step(second, Y.y, Z.z),
            step(nn.Linear(9, 8), Z.z, Y.y, update=True),
            input=X,
            output=Y,
        )
    assert [d.code for d in caught.value.diagnostics if d.severity == "error"] == ["E108"]


def test_constants_are_no_state() -> None:
    """A table that both modules read, and nothing writes, excuses nothing."""
    table = {"a": 2}
    with pytest.raises(BuildError, match="E108"):
        TensorClassSequential(
            step(lambda x: x * table["a"], X.x, Y.y),
            step(lambda y: y @ torch.ones(9, table["a"]), Y.y, Z.z),
            input=X,
            output=Z,
        )


# ---- tensors without dtype ------------------------------------------------------------------------------------------


class Graph(TensorClass):
    x: Float32[Tensor, "n 16"]
    edge: Shared[Tensor]


class Anything(TensorClass):
    x: Float32[Tensor, "n 16"]
    edge: Tensor


class Sized(TensorClass):
    x: Float32[Tensor, "n 16"]
    edge: Shared[Shaped[Tensor, "2 e"]]


class Nodes(TensorClass):
    y: Float32[Tensor, "n 16"]


class Passed(TensorClass):
    again: Shared[Tensor]


def spread(x: Tensor, edge: Tensor) -> Tensor:
    """Add the rows at which edges begin to those at which they end."""
    return torch.zeros_like(x).index_add(1, edge[1], x.index_select(1, edge[0]))


USES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "index_add": spread,
    "index": lambda x, edge: x + x[:, edge[0]].sum(1, keepdim=True),
    "embedding": lambda x, edge: x + nn.functional.embedding(edge[0], torch.ones(4, 16)).sum(),
    "mask": lambda x, edge: x.masked_fill(edge[0, 0].logical_not() & edge[1, 0], 0),
    "bits": lambda x, edge: x * (edge & 1).sum(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("cls", [Graph, Sized], ids=lambda cls: cls.__name__)
def test_a_dtype_that_is_not_declared_is_never_an_error(cls: Any, use: str) -> None:
    """A module that takes a tensor of some dtype builds if the declaration leaves the dtype open."""
    built = TensorClassSequential(step(USES[use], (cls.x, cls.edge), Nodes.y), input=cls, output=Nodes)
    assert all(d.severity != "error" for d in built.diagnostics)
    if use == "index_add":
        edge = torch.tensor([[0, 1], [1, 2]])
        x = torch.rand(2, 3, 16)
        assert torch.equal(built(cls(x=x, edge=edge, batch_size=[2])).y, spread(x, edge))


def test_what_is_made_of_it_is_not_known_either() -> None:
    """A module that hands such a tensor on hands on that nothing is known."""
    stages = step(lambda edge: edge * 1, Graph.edge, Passed.again), step(spread, (Graph.x, Passed.again), Nodes.y)
    built = TensorClassSequential(*stages, input=Graph, output=Nodes)
    assert all(d.severity != "error" for d in built.diagnostics)


def test_what_is_declared_is_known() -> None:
    """A wrong width is an error beside a tensor without dtype, if another module reads that."""
    stages = step(spread, (Graph.x, Graph.edge), Nodes.y), step(nn.Linear(17, 16), Nodes.y, Nodes.y, update=True)
    with pytest.raises(BuildError) as caught:
        TensorClassSequential(*stages, input=Graph, output=Nodes)
    assert [d.code for d in caught.value.diagnostics if d.severity == "error"] == ["E108"]


# ---- shapes that only outputs have ----------------------------------------------------------------------------------


class Sound(TensorClass):
    mel: Ragged[Tensor, "t 8"]


class Bare(TensorClass):
    dense: Tensor


class Any_(TensorClass):  # the shape is open
    dense: Float32[Tensor, "..."]


class Long(TensorClass):
    dense: Float32[Tensor, "l 8"]


@pytest.mark.parametrize("cls", [Bare, Any_, Long], ids=lambda cls: cls.__name__)
def test_padded_elements_have_any_length(cls: Any) -> None:
    """An output whose shape nothing else determines may have another one in every run of the check."""
    built = TensorClassSequential(step(lambda mel: mel.pad(), Sound.mel, cls.dense), input=Sound, output=cls)
    assert all(d.severity != "error" for d in built.diagnostics)
    sound = Sound(mel=[torch.rand(3, 8), torch.rand(5, 8)])
    assert torch.equal(built(sound).dense, sound.mel.pad())


def test_two_outputs_of_one_run_still_agree() -> None:
    """Dims of one name are equal in each run."""

    class Both(TensorClass):
        a: Float32[Tensor, "l 8"]
        b: Float32[Tensor, "l 8"]

    with pytest.raises(BuildError, match="E114"):
        TensorClassSequential(
            step(lambda mel: (mel.pad(), mel.pad()[:, 1:]), Sound.mel, (Both.a, Both.b)), input=Sound, output=Both
        )
