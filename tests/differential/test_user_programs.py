"""Short programs as users of `tensordict` write them: the same results with both libraries."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import tensordict
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader

import tensorclass

Program = Callable[[Any], Any]
PROGRAMS: dict[str, Program] = {}


def program(run: Program) -> Program:
    """Take a program up under its name."""
    PROGRAMS[run.__name__] = run
    return run


def seen(value: Any) -> Any:
    """What is compared: tensors as lists, containers with class, size, names and lock, everything else as it prints."""
    if isinstance(value, Tensor):
        return str(value.dtype), [row.tolist() for row in value.unbind()] if value.is_nested else value.tolist()
    if hasattr(value, "batch_size") and hasattr(value, "keys"):
        entries = {str(key): seen(value[key]) for key in value.keys()}  # noqa: SIM118  # a container
        return type(value).__name__, list(value.batch_size), list(value.names), value.is_locked, entries
    if isinstance(value, dict):
        return {str(key): seen(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [seen(item) for item in value]
    return repr(value)


def steps(td: Any, rows: int = 4, times: int = 3) -> Any:
    """Transitions of an environment."""
    x, size = torch.arange(rows * times * 2.0).reshape(rows, times, 2), [rows, times]
    after = td.TensorDict({"obs": x + 1, "reward": torch.ones(rows, times, 1)}, size)
    return td.TensorDict({"obs": x, "action": torch.arange(rows * times).reshape(size), "next": after}, size)


@program
def replay_ring(td: Any) -> Any:
    """Writes at wrapped positions, and samples by positions, masks and `gather`."""
    store = steps(td, 1, 1)[0, 0].expand(6).clone().zero_()
    for i in range(4):
        store[torch.arange(2 * i, 2 * i + 2) % 6] = steps(td, 2, 1)[:, 0].apply(lambda value, i=i: value + i)
    return store, store[torch.tensor([0, 3])], store[store["action"] > 3], store.gather(0, torch.tensor([5, 0]))


@program
def minibatches(td: Any) -> Any:
    """Epochs over shuffled rows."""
    torch.manual_seed(0)
    rows = steps(td).reshape(-1)
    return rows[torch.randperm(12)].split(5), rows.chunk(3)[1], DataLoader(rows, batch_size=5, collate_fn=copy.copy)


@program
def step_forward(td: Any) -> Any:
    """The next step from the results of this one."""
    step = steps(td)[:, 0]
    after = step.get("next")
    return step.exclude("next").update(after.exclude("reward")), step.select("obs", ("next", "reward")), step.empty()


@program
def agents(td: Any) -> Any:
    """Nested batches of several agents."""
    info = td.TensorDict({"h": torch.ones(3, 2)}, [3, 2])
    team = td.TensorDict({"obs": torch.zeros(3, 2, 4), "info": info}, [3, 2])
    data = td.TensorDict({"agents": team, "done": torch.zeros(3, 1)}, [3])
    data["agents", "action"] = torch.ones(3, 2, 1)
    data.set(("agents", "info", "k"), torch.zeros(3, 2))
    data["agents", "obs"] += 1
    flat = data.flatten_keys(".")
    return data, data[0]["agents"], data.get_item_shape("agents"), flat, flat.unflatten_keys("."), team.unbind(-1)[0]


@program
def unlike_agents(td: Any) -> Any:
    """Lazy stacks of agents with other shapes and keys."""
    a = td.TensorDict({"obs": torch.zeros(3, 4)}, [3])
    b = td.TensorDict({"obs": torch.zeros(3, 6), "x": torch.ones(3)}, [3])
    both = td.lazy_stack([a, b], 1)
    both["act"] = torch.ones(3, 2, 1)
    return (
        (sorted(both.keys()), both.batch_size, both[:, 0], both[1][1], both[..., 1]),
        (both.get("obs", as_list=True), tuple(both.get_item_shape("obs")), both.get("x", None)),
    )


@program
def written_stacks(td: Any) -> Any:
    """Writes to lazy stacks by position, slice and entry."""
    both = td.lazy_stack([td.TensorDict({"a": torch.zeros(2)}, [2]) for _ in range(3)], 1)
    both[:, 0] = td.TensorDict({"a": torch.ones(2)}, [2])
    both[1] = td.TensorDict({"a": torch.full((3,), 4.0)}, [3])
    both[0, 2] = td.TensorDict({"a": torch.tensor(9.0)})
    both.update({"b": torch.ones(2, 3)}).update_({"b": torch.zeros(2, 3)})
    both.set_at_("b", torch.ones(()), (0, 0))
    both.insert(1, td.TensorDict({"a": torch.full((2,), -1.0), "b": torch.ones(2)}, [2]))
    return both["a"], both["b"], both.permute(1, 0)["a"], both.reshape(-1)["a"], both[torch.tensor([True, False])]


@program
def read_ragged(td: Any) -> Any:
    """Entries of other lengths as nested and padded tensors and as lists."""
    both = td.lazy_stack([td.TensorDict({"a": torch.arange(2.0)}), td.TensorDict({"a": torch.arange(3.0)})])
    a, b = td.TensorDict({"x": torch.ones(2, 3)}, [2]), td.TensorDict({"x": torch.ones(4, 3)}, [4])
    return (
        (both.get("a", as_nested_tensor=True), both.get("a", as_padded_tensor=True, padding_value=-1)),
        (both.get("a", as_list=True), both.get("zz", 7), td.pad_sequence([a, b], pad_dim=0, return_mask="m")),
    )


@program
def objects(td: Any) -> Any:
    """Objects in entries, through rows, joins and writes."""
    data = td.TensorDict({"s": td.NonTensorStack("a", "b", "c")}, [3])
    data["e"] = td.NonTensorData("q", batch_size=[3])
    data[0] = td.TensorDict({"s": "z", "e": "r"})
    return (
        [row["s"] for row in data.unbind(0)],
        (data["s"][1:], data[1:]["s"], torch.cat([data, data])["s"], data[torch.tensor([2, 0])]["e"]),
        (sorted(data.filter_non_tensor_data().keys()), pickle.loads(pickle.dumps(data))["e"]),
    )


@program
def stacks_of_lists(td: Any) -> Any:
    """Lists as elements of a stack, and nested lists of several dims."""
    nested = td.NonTensorStack.from_list([["a", "b"], ["c", "d"]])
    made = [
        td.NonTensorStack([1, 2], [3, 4]), td.NonTensorStack([1], [2, 3]), td.NonTensorStack((1, 2), {"k": 1}, []),
        td.NonTensorStack(td.NonTensorStack("a", "b"), td.NonTensorStack("c", "d")), nested,
        td.NonTensorStack([1, 2], td.NonTensorData(3)),
    ]  # fmt: skip
    chats = td.TensorDict({"m": made[1]}, [2])
    return [(list(one.batch_size), one.tolist()) for one in made], torch.cat([chats, chats])["m"], chats[1]["m"]


@program
def split_by_keys(td: Any) -> Any:
    """`split_keys`, and the changes of keys in place and out of place."""
    data = steps(td, 2, 2)
    kept = data.clone().select(("next", "obs"), inplace=True)
    left = data.clone().exclude("next", inplace=True)
    return data.split_keys(["obs"], [("next", "obs"), "action"]), kept, left, data.pop(("next", "obs")), data


@program
def mapped(td: Any) -> Any:
    """`apply` and `named_apply` with defaults, sizes, targets and functions that leave entries out."""
    data = td.TensorDict({"a": torch.ones(2), "n": {"b": torch.ones(2)}, "e": {}})
    out = data.clone()
    same = data.apply(lambda value: value + 1, out=out) is out
    return (
        (same, out, data.apply(lambda value: value + 1, filter_empty=False), data.apply(torch.mean, batch_size=[])),
        (data.apply(lambda _: None, filter_empty=True), data.apply(lambda _: None, filter_empty=False)),
        data.apply(lambda a, b: a if b is None else a + b, data.select("a"), default=None, filter_empty=False),
        data.named_apply(lambda key, value: value if "b" in key else None, nested_keys=True),
    )


@program
def blocks_over_views(td: Any) -> Any:
    """Blocks over shape operations and joined keys write to their source."""
    data = td.TensorDict({"a": torch.ones(2), "n": td.TensorDict({"b": torch.ones(2)}, [2])}, [2])
    with data.unsqueeze(0) as view:
        view["c"] = torch.zeros(1, 2)
    with data.flatten_keys(".") as view:
        view["n.z"] = torch.ones(2)
    with data.view(2, 1) as view:
        view["w"] = torch.ones(2, 1)
    return data


@program
def ensembles(td: Any) -> Any:
    """Stacked parameters, mapped over with and without batches, and their gradients."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    weights = td.TensorDict.from_module(net).data.clone()

    def run(params: Any, x: Tensor) -> Any:
        with params.to_module(net):
            return net(x)

    step = torch.func.grad(lambda params, x: run(params, x).sum())(weights, torch.ones(4, 2))
    every = torch.stack([weights, weights.apply(lambda value: value * 2)])
    return (
        torch.vmap(run, (0, None))(every, torch.ones(4, 2)),
        weights - step * 0.1,
        torch.vmap(torch.sub)(every, every),
    )


@program
def saved(td: Any) -> Any:
    """State dicts, pickles, deep copies, trees and consolidated copies."""
    data = steps(td, 1, 2)
    data.names = ["b", "t"]
    target = data.apply(torch.zeros_like)
    target.load_state_dict(data.state_dict())
    leaves, spec = pytree.tree_flatten(data)
    return (
        (target, pickle.loads(pickle.dumps(data)), copy.deepcopy(data).lock_(), data.consolidate()["next"]),
        (pytree.tree_unflatten(leaves, spec), pytree.tree_map(torch.neg, [data])[0], data.to_dict()),
    )


@program
def named_dims(td: Any) -> Any:
    """Names of dims through shape operations and joins."""
    data = steps(td)
    data.names = ["b", "t"]
    calls: tuple[Callable[[Any], Any], ...] = (
        lambda x: x[0],
        lambda x: x[:, 0],
        lambda x: x.transpose(0, 1),
        lambda x: x.unsqueeze(1),
        lambda x: torch.stack([x, x], -1),
        lambda x: torch.cat([x, x]),
        lambda x: x["next"],
        lambda x: x.rename(b="B"),
        lambda x: x.expand(2, 4, 3),
        lambda x: x.flatten(0, 1).unflatten(0, (4, 3)),
    )
    return [call(data).names for call in calls]


@program
def locked_rows(td: Any) -> Any:
    """Which writes a lock refuses, on both levels."""
    data = steps(td, 1, 1).lock_()
    writes: tuple[Callable[[], Any], ...] = (
        lambda: data["next"].set("z", torch.ones(1, 1)),
        data["next"].unlock_,
        lambda: data.set_("obs", data["obs"] + 1),
        lambda: data.update({"obs": data["obs"]}, inplace=True),
        lambda: data.pop("obs"),
        lambda: data.rename_key_("obs", "o"),
        data.clear,
    )
    refused = []
    for write in writes:
        try:
            write()
            refused.append(False)
        except RuntimeError:
            refused.append(True)
    with data.unlock_():
        data["new"] = torch.ones(1, 1)
    return refused, data


@program
def modes_of_none(td: Any) -> Any:
    """None turns a mode off."""
    with td.set_list_to_stack(None), td.set_capture_non_tensor_stack(None), td.set_lazy_legacy(None):
        joined = torch.stack([td.TensorDict(a="x"), td.TensorDict(a="x")])
        return td.list_to_stack(), td.capture_non_tensor_stack(), td.lazy_legacy(), joined["a"]


@program
def merged_keys(td: Any) -> Any:
    """Merged containers list the keys of the first one first, and its values win."""
    one, two = td.TensorDict(b=torch.ones(1), c=torch.ones(1)), td.TensorDict(a=torch.zeros(1), c=torch.zeros(1))
    merged = td.merge_tensordicts(one, two)
    return list(merged.keys()), merged["c"]


@program
def objects_of_lazy_stacks(td: Any) -> Any:
    """`get` gives objects as one entry with a batch size."""
    stack = td.lazy_stack([td.TensorDict(name=name, meta=td.TensorDict(n=name)) for name in "ab"])
    entries = stack.get("name"), stack.get(("meta", "n"))
    return [(type(entry).__name__, list(entry.batch_size), entry.tolist()) for entry in entries], stack["name"]


@program
def state_in_order(td: Any) -> Any:
    """The state dict of `TensorDictParams` has the order of its entries, buffers among parameters."""
    params = td.TensorDictParams(td.TensorDict(w=torch.ones(2), x=nn.Buffer(torch.ones(1)), y=torch.zeros(2)))
    return list(params.keys()), list(params.state_dict())


@program
def modules_by_state(td: Any) -> Any:
    """State dicts of several modules are plain tensors."""
    found = td.from_modules(nn.Linear(1, 1), nn.Linear(1, 1), use_state_dict=True)
    return [(type(leaf).__name__, leaf.requires_grad) for leaf in found.values()]


@program
def sizes_for_results(td: Any) -> Any:
    """`apply(batch_size=)` gives its size to nested containers too, and the tensors of a lazy stack as one."""
    stack = td.lazy_stack([td.TensorDict(a=torch.arange(3.0) + i, batch_size=[3]) for i in range(2)], 1)
    outer = td.TensorDict(l=stack, n=td.TensorDict(b=torch.ones(3, 2), batch_size=[3, 2]), batch_size=[3])
    shapes: list[Any] = []

    def look(value: Any) -> Any:
        shapes.append(tuple(value.shape))
        return value

    def look_named(key: Any, value: Any) -> Any:
        return look(value)

    made = [one.apply(look, batch_size=size) for one, size in ((stack, [3, 2]), (stack, [3]), (outer, [3]))]
    made += [
        stack.named_apply(look_named, batch_size=[3, 2]),
        stack.apply(lambda a, b: look(a), stack, batch_size=[3, 2]),
    ]
    return shapes, made, stack.apply(look), outer.apply(look)["n"].batch_size


@program
def dims_by_keyword(td: Any) -> Any:
    """`permute(dims=)`, of dense containers and of lazy stacks."""
    data = steps(td)
    stack = td.lazy_stack([*data.unbind(0)], 0)
    return [one.permute(dims=dims)["obs"] for one in (data, stack) for dims in ((1, 0), [-1, 0])]


def outcome(run: Program, library: Any) -> Any:
    """What a program returns."""
    found = run(library)
    return seen([list(item) if isinstance(item, DataLoader) else item for item in found])


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.filterwarnings("ignore:set_list_to_stack")
def test_the_same_results(name: str) -> None:
    """Values, dtypes, sizes, names, locks and keys, in everything that a program returns."""
    assert outcome(PROGRAMS[name], tensorclass) == outcome(PROGRAMS[name], tensordict)


def test_when_post_init_runs() -> None:
    """The original runs `__post_init__` for each result, here only the constructor does."""
    runs = []
    for library in (tensordict, tensorclass):
        made: list[int] = []

        class Row:
            x: Tensor

            def __post_init__(self, made: list[int] = made) -> None:
                made.append(1)

        row: Any = library.tensorclass(Row)(torch.ones(2), batch_size=[2])
        for call in (copy.copy, torch.clone, torch.zeros_like, lambda row: row[0], lambda row: row + 1):
            call(row)
        runs.append(len(made))
    assert runs == [6, 1]
