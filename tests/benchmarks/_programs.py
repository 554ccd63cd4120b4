"""Whole programs: `python -m tests.benchmarks._programs [--only NAME] [--rounds 13] [--milliseconds 20]`.

Each program is written once over the calls of a `Kit`, so that dicts, the anchor's containers and ours run the same
work. A program that uses what dicts don't have is written a second time for them. The table shows thread CPU time for
one run of the program. What the anchor could gain if containers cost nothing is its time over that of the dicts.
A second table has the least code that keeps the promises of a batch (`_least`), with the same programs.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import getitem, setitem
from typing import Any
from weakref import finalize

import tensordict
import tensordict.nn
import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.func import functional_call
from torch.nn.utils.rnn import pad_sequence

import tensorclass
import tensorclass.nn
from tensorclass.typing import Bool, Float32

from . import _least, _least_actor
from ._clock import Statement, medians

LIBRARIES: dict[str, Any] = {"anchor": tensordict, "ours": tensorclass}
SHAPES = {"obs": (4,), "action": (2,), "reward": (), "value": (), "done": (), "priority": ()}
ANNOTATIONS = {
    name: (Bool if name == "done" else Float32)[Tensor, " ".join(map(str, shape))] for name, shape in SHAPES.items()
}


def entries(*size: int) -> dict[str, Tensor]:
    """The tensors of one batch."""
    return {
        k: torch.rand((*size, *shape)) > 0.9 if k == "done" else torch.rand((*size, *shape))
        for k, shape in SHAPES.items()
    }


@dataclass(frozen=True)
class Kit:
    """How a candidate makes a batch and works on it."""

    make: Callable[[dict[str, Any], tuple[int, ...]], Any]
    library: Any = None
    get: Callable[[Any, Any], Any] = getitem
    at: Callable[[Any, Any], Any] = getitem
    put: Callable[[Any, Any, Any], Any] = setitem
    stack: Callable[[list[Any]], Any] = torch.stack
    cat: Callable[[list[Any]], Any] = torch.cat
    flat: Callable[[Any], Any] = lambda x: x.reshape(-1)
    set_at: Callable[..., Any] = lambda x, key, value, index: x.set_at_(key, value, index)
    select: Callable[[Any, list[str]], Any] = lambda x, keys: x.select(*keys)
    chunk: Callable[[Any, int], Any] = lambda x, count: x.chunk(count)
    pad: Callable[[list[Any]], Any] | None = None
    typed: bool = False


def _put(x: dict[str, Tensor], index: Any, y: dict[str, Tensor]) -> None:
    for key, value in x.items():
        value[index] = y[key]


DICTS = Kit(
    make=lambda data, size: data,
    at=lambda x, index: {k: v[index] for k, v in x.items()},
    put=_put,
    stack=lambda xs: {k: torch.stack([x[k] for x in xs]) for k in xs[0]},
    cat=lambda xs: {k: torch.cat([x[k] for x in xs]) for k in xs[0]},
    flat=lambda x: {k: v.flatten(0, 1) for k, v in x.items()},
    set_at=lambda x, key, value, index: setitem(x[key], index, value),
    select=lambda x, keys: {k: x[k] for k in keys},
    chunk=lambda x, count: [{k: v[i : i + 8] for k, v in x.items()} for i in range(0, 8 * count, 8)],
    pad=lambda xs: {k: pad_sequence([x[k] for x in xs], batch_first=True) for k in xs[0]},
)
LEAST = Kit(
    make=_least.make,
    at=_least.at,
    put=_least.put,
    stack=_least.stack,
    cat=_least.cat,
    flat=_least.flat,
    set_at=_least.set_at,
    select=_least.select,
    chunk=_least.chunk,
    pad=_least.pad,
)


def _class(decorator: Any, annotations: dict[str, Any]) -> Any:
    body = {"__annotations__": annotations, "__module__": __name__}
    return decorator(type("Batch", (), body))


def kits() -> dict[str, Kit]:
    """All candidates."""
    found = {"dicts": DICTS}
    for name, library in LIBRARIES.items():
        annotations = ANNOTATIONS if name == "ours" else dict.fromkeys(SHAPES, Tensor)
        cls = _class(library.tensorclass, annotations)
        found[name] = Kit(partial(_untyped, library.TensorDict), library, pad=library.pad_sequence)
        found[f"{name}, typed"] = Kit(partial(_typed, cls), library, getattr, typed=True)
    return found | {"least": LEAST, "least, typed": replace(LEAST, make=_least.declared(SHAPES), typed=True)}


def _untyped(cls: Any, data: dict[str, Any], size: tuple[int, ...]) -> Any:
    return cls(data, batch_size=size)


def _typed(cls: Any, data: dict[str, Any], size: tuple[int, ...]) -> Any:
    return cls(**data, batch_size=size)


Program = Callable[[Kit], "Callable[[], Any] | None"]
PROGRAMS: dict[str, Program] = {}


def program(name: str) -> Callable[[Program], Program]:
    """List a program: it prepares its data, and returns the call that is measured, or None for a kit without it."""
    return lambda make: PROGRAMS.setdefault(name, make)


@program("collect 16 steps of 8 environments")
def _collect(kit: Kit) -> Any:
    net, fields = nn.Linear(4, 2), [entries(8) for _ in range(16)]

    def run() -> Any:
        steps = []
        with torch.no_grad():
            for data in fields:
                loc = net(data["obs"])
                action = loc + torch.randn_like(loc)
                steps.append(kit.make({**data, "action": action}, (8,)))
            return kit.stack(steps)

    return run


@program("advantages, backwards over 16 steps")
def _advantages(kit: Kit) -> Any:
    data, get = kit.make(entries(16, 8), (16, 8)), kit.get

    def run() -> Any:
        last, found = torch.zeros(8), []
        for t in reversed(range(16)):
            row = kit.at(data, t)
            last = get(row, "reward") - get(row, "value") + 0.9 * last * ~get(row, "done")
            found.append(last)
        return torch.stack(found)

    return run


@program("learn from minibatches")
def _learn(kit: Kit) -> Any:
    data, net, get = (
        kit.make(entries(16, 8), (16, 8)),
        nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2)),
        kit.get,
    )
    optimizer = torch.optim.Adam(net.parameters())

    def run() -> None:
        flat = kit.flat(data)
        for index in torch.randperm(128).split(32):
            batch = kit.at(flat, index)
            loss = ((net(get(batch, "obs")) - get(batch, "action")) ** 2).mean() + get(batch, "value").mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return run


@program("replay buffer: extend, sample, priorities")
def _replay(kit: Kit) -> Any:
    storage, rows = kit.make(entries(1000), (1000,)), kit.make(entries(32), (32,))
    where, picked, values = torch.arange(32), torch.randint(1000, (64,)), torch.rand(64)

    def run() -> Any:
        batch = None
        for _ in range(4):
            kit.put(storage, where, rows)
            batch = kit.at(storage, picked)
            kit.set_at(storage, "priority", values, picked)
        return batch

    return run


@program("rollout of 100 steps by assignment")
def _rollout(kit: Kit) -> Any:
    buffer, steps = kit.make(entries(100), (100,)), [entries() for _ in range(100)]

    def run() -> None:
        for i, data in enumerate(steps):
            kit.put(buffer, i, kit.make(data, ()))

    return run


@program("the same, the steps share storage with the buffer")
def _shared(kit: Kit) -> Any:
    held = entries(101)
    buffer = kit.make({k: v[:100] for k, v in held.items()}, (100,))
    steps = [{k: v[100] for k, v in held.items()} for _ in range(100)]

    def run() -> None:
        for i, data in enumerate(steps):
            kit.put(buffer, i, kit.make(data, ()))

    return run


@program("pad 16 episodes")
def _episodes(kit: Kit) -> Any:
    if kit.pad is None or kit.typed:
        return None
    rows = [kit.make(entries(n), (n,)) for n in range(4, 20)]
    return partial(kit.pad, rows)


@tensorclass.tensorclass
class Acted:
    """What a typed actor gives."""

    loc: Float32[Tensor, "2"]
    action: Float32[Tensor, "2"]
    action_log_prob: Float32[Tensor, "2"]


def _typed_actor(net: nn.Module, data: Any) -> Callable[[], Any]:
    """The actor as a pipeline from the class of the data to `Acted`."""
    typed: Any = tensorclass.nn
    draw = typed.ProbabilisticTensorClassModule(
        Acted.loc,
        Acted.action,
        distribution_class=Normal,
        log_prob_field=Acted.action_log_prob,
        distribution_kwargs={"scale": 1.0, "validate_args": False},
        default_interaction_type=typed.InteractionType.RANDOM,
    )
    first = typed.TensorClassModule(net, type(data).obs, Acted.loc)
    return partial(typed.ProbabilisticTensorClassSequential(first, draw, input=type(data), output=Acted), data)


@program("8 calls of an actor")
def _actor(kit: Kit) -> Any:
    if kit.typed and kit.library is tensordict:
        return None
    net, data = nn.Linear(4, 2), kit.make(entries(8), (8,))
    constants: dict[str, Any] = {"scale": 1.0, "validate_args": False}
    if kit is DICTS:

        def act() -> None:
            data["loc"] = net(data["obs"])
            dist = Normal(data["loc"], **constants)
            data["action"] = dist.rsample()
            data["action_log_prob"] = dist.log_prob(data["action"])

    elif kit.library is None and kit.typed:
        act = partial(_least_actor.TypedActor(net, constants), data)
    elif kit.library is None:
        draws = _least_actor.Draw(["loc"], ["action", "action_log_prob"], constants)
        act = partial(_least_actor.Actor(_least_actor.Step(net, ["obs"], ["loc"]), draws), data)
    elif kit.typed:
        act = _typed_actor(net, data)
    else:
        keyed = kit.library.nn
        draw = keyed.ProbabilisticTensorDictModule(
            ["loc"], ["action"], distribution_class=Normal, return_log_prob=True,
            distribution_kwargs=constants,
            default_interaction_type=keyed.InteractionType.RANDOM,
        )  # fmt: skip
        actor = keyed.ProbabilisticTensorDictSequential(keyed.TensorDictModule(net, ["obs"], ["loc"]), draw)
        act = partial(actor, data)

    def run() -> None:
        with torch.no_grad():
            for _ in range(8):
                act()

    return run


def _ensemble() -> tuple[nn.Module, list[nn.Module]]:
    members: list[nn.Module] = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)) for _ in range(3)]
    return members[0], members


@program("call with other parameters")
def _swap(kit: Kit) -> Any:
    if kit.typed or kit is LEAST:
        return None
    net, members = _ensemble()
    x = torch.rand(8, 4)
    if kit.library is None:
        held: dict[str, Tensor] = dict(members[1].named_parameters())
        return lambda: functional_call(net, held, x)
    params = kit.library.TensorDict.from_module(members[1])

    def run() -> Any:
        with params.to_module(net):
            return net(x)

    return run


@program("vmap over an ensemble")
def _vmap(kit: Kit) -> Any:
    if kit.typed or kit is LEAST:
        return None
    net, members = _ensemble()
    x = torch.rand(8, 4)
    if kit.library is None:
        held, _ = torch.func.stack_module_state(members)
        return lambda: torch.vmap(lambda p: functional_call(net, p, x))(held)
    params = torch.stack([kit.library.TensorDict.from_module(member).detach() for member in members])

    def one(p: Any) -> Any:
        with p.to_module(net):
            return net(x)

    return lambda: torch.vmap(one)(params)


def _loader(kit: Kit, mapped: bool) -> Any:
    data, net = kit.make(entries(1024), (1024,)), nn.Linear(4, 2)
    batches = [index.tolist() for index in torch.randperm(1024).split(64)]
    fetch = kit.at if kit.library is None else lambda x, index: x.__getitems__(index)

    def run() -> None:
        for index in batches:
            batch = fetch(data, index)
            (net(kit.get(batch, "obs")) - kit.get(batch, "action")).square().mean().backward()

    if mapped and kit.library is not None:
        folder = tempfile.mkdtemp()
        finalize(run, shutil.rmtree, folder)
        data = data.memmap(folder)
    return run


PROGRAMS["loader, one epoch"] = partial(_loader, mapped=False)
PROGRAMS["loader, mapped files"] = partial(_loader, mapped=True)


@program("protocol: merge, select, chunk, concatenate")
def _protocol(kit: Kit) -> Any:
    if kit.typed:
        return None
    a, b = kit.make(entries(32), (32,)), kit.make({"extra": torch.rand(32)}, (32,))
    keys = ["obs", "action", "extra"]

    def run() -> Any:
        some = kit.select(kit.make({**a, **b}, (32,)), keys)
        return kit.cat(list(kit.chunk(some, 4)))

    return run


@program("collate 256 samples")
def _collate(kit: Kit) -> Any:
    rows = [kit.make(entries(), ()) for _ in range(256)]
    return lambda: kit.stack(rows)


@program("build 64 samples and collate them")
def _build(kit: Kit) -> Any:
    rows = [entries() for _ in range(64)]
    return lambda: kit.stack([kit.make(row, ()) for row in rows])


def measure(name: str, rounds: int, round_ns: int) -> dict[str, float]:
    """Microseconds of each candidate."""
    calls = {}
    for kind, kit in kits().items():
        torch.manual_seed(0)
        call = PROGRAMS[name](kit)
        if call is not None:
            call()
            calls[kind] = Statement("call()", {"call": call})
    times = medians(list(calls.values()), rounds, round_ns)
    return {kind: time / 1000 for kind, time in zip(calls, times, strict=True)}


HEADERS = (
    "program", "dicts", "anchor", "ours", "anchor, typed", "ours, typed", "anchor / ours", "typed", "ours / dicts",
    "typed", "bound",
)  # fmt: skip
RATIOS = (
    ("anchor", "ours"), ("anchor, typed", "ours, typed"), ("ours", "dicts"), ("ours, typed", "dicts"),
    ("anchor", "dicts"),
)  # fmt: skip
LEAST_HEADERS = (
    "program", "dicts", "least", "ours", "least, typed", "ours, typed", "ours / least", "typed", "least / dicts",
    "typed", "anchor / least", "typed",
)  # fmt: skip
LEAST_RATIOS = (
    ("ours", "least"), ("ours, typed", "least, typed"), ("least", "dicts"), ("least, typed", "dicts"),
    ("anchor", "least"), ("anchor, typed", "least, typed"),
)  # fmt: skip


def ratios(times: dict[str, float], pairs: Sequence[tuple[str, str]] = RATIOS) -> list[float | None]:
    """The ratios of a row; without one where a candidate lacks the program."""
    return [times[a] / times[b] if a in times and b in times else None for a, b in pairs]


def main(arguments: list[str] | None = None) -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--rounds", type=int, default=13)
    parser.add_argument("--milliseconds", type=float, default=20)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = {}
    print(_header(HEADERS))
    for name in [name for name in PROGRAMS if options.only in name]:
        found[name] = times = measure(name, options.rounds, round(options.milliseconds * 1e6))
        cells = [name, *_times(times, HEADERS[1:6]), *map(_shown, ratios(times))]
        print(f"| {' | '.join(cells)} |", flush=True)
    print(f"| geometric mean | | | | | | {' | '.join(map(_shown, _means([*map(ratios, found.values())])))} |")
    print(f"\n{_header(LEAST_HEADERS)}")
    bounds = {name: times for name, times in found.items() if "least" in times}
    for name, times in bounds.items():
        print(
            f"| {' | '.join([name, *_times(times, LEAST_HEADERS[1:6]), *map(_shown, ratios(times, LEAST_RATIOS))])} |"
        )
    means = _means([ratios(times, LEAST_RATIOS) for times in bounds.values()])
    print(f"| geometric mean | | | | | | {' | '.join(map(_shown, means))} |")


def _times(times: dict[str, float], kinds: Sequence[str]) -> list[str]:
    return [f"{times[kind]:.0f}" if kind in times else "" for kind in kinds]


def _header(names: Sequence[str]) -> str:
    return f"| {' | '.join(names)} |\n|---|{'---:|' * (len(names) - 1)}"


def _means(rows: Sequence[Sequence[float | None]]) -> list[float | None]:
    columns = [[value for value in column if value] for column in zip(*rows, strict=True)]
    return [statistics.geometric_mean(values) if values else None for values in columns]


def _shown(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


if __name__ == "__main__":
    main()
