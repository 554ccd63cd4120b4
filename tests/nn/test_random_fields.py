"""Random pipelines over every kind of field: the check refuses none, and the run equals the modules called by hand.

The fields are nested, shared, optional and ragged ones, also below nested instances, with sizes that are equal nowhere.
"""

from __future__ import annotations

import random
from typing import Any, TypeAlias

import pytest
import torch
from torch import Tensor

from tensorclass import RaggedTensor, Shared, TensorClass
from tensorclass.errors import BuildError
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Int64
from tests.nn.test_random_pipelines import ignoring_warnings

Read: TypeAlias = "tuple[str, Any, str]"
Step: TypeAlias = "tuple[list[Read], str, Any]"


class Part(TensorClass):
    v: Float32[Tensor, "t"]
    w: Float32[Tensor, "t"]
    m: Float32[Tensor, "t"] | None = None


class Start(TensorClass):
    x: Float32[Tensor, "n"]
    past: Part
    future: Part
    clip: Float32[RaggedTensor, "s 2"]
    ids: Int64[RaggedTensor, "s"]
    table: Shared[Tensor]
    scale: Shared[Float32[Tensor, "m"]]
    plain: Tensor
    maybe: Float32[Tensor, "n"] | None = None
    rows: Float32[RaggedTensor, "r 3"] | None = None


class One(TensorClass):
    a: Float32[Tensor, "one"]
    b: Float32[Tensor, "two"]
    r: Float32[RaggedTensor, "u 2"]
    s: Shared[Float32[Tensor, "k"]]
    o: Float32[Tensor, "three"] | None = None


class Two(TensorClass):
    c: Float32[Tensor, "four"]
    q: Int64[RaggedTensor, "z"]


READS: list[Read] = [
    ("x", Start.x, "tensor"),
    ("past", Start.past, "part"),
    ("future", Start.future, "part"),
    ("past.v", Start.past.v, "tensor"),
    ("past.w", Start.past.w, "tensor"),
    ("future.v", Start.future.v, "tensor"),
    ("past.m", Start.past.m, "optional"),
    ("clip", Start.clip, "ragged"),
    ("ids", Start.ids, "ids"),
    ("table", Start.table, "shared"),
    ("scale", Start.scale, "shared"),
    ("plain", Start.plain, "plain"),
    ("maybe", Start.maybe, "optional"),
    ("rows", Start.rows, "optional ragged"),
]
WRITES: list[Read] = [
    ("a", One.a, "tensor"),
    ("b", One.b, "tensor"),
    ("r", One.r, "ragged"),
    ("s", One.s, "shared"),
    ("o", One.o, "tensor"),
    ("c", Two.c, "tensor"),
    ("q", Two.q, "ids"),
]
OUTPUTS = {
    name: type(
        "Output",
        (TensorClass,),
        {"__annotations__": {name: declared}, "__module__": __name__, **({"o": None} if name == "o" else {})},
    )
    for name, declared in {
        "a": Float32[Tensor, "one"],
        "b": Float32[Tensor, "two"],
        "r": Float32[RaggedTensor, "u 2"],
        "s": Shared[Float32[Tensor, "k"]],
        "o": Float32[Tensor, "three"] | None,
        "c": Float32[Tensor, "four"],
        "q": Int64[RaggedTensor, "z"],
    }.items()
}


def number_of(value: Any, kind: str) -> Any:
    """One number for each element; of a shared tensor one for all."""
    if kind == "part":
        return value.v.sum(-1) - value.w.sum(-1) + (0 if value.m is None else value.m.sum(-1))
    if isinstance(value, RaggedTensor):
        padded = value.pad(value=0).float()
        return padded.flatten(value.ndim).sum(-1)
    return value.float().sum() if kind == "shared" else value.float().sum((-1, -2) if kind == "plain" else -1)


def function(kinds: list[str], out: str, size: int, weight: int) -> Any:
    """A module: what it returns is of the kind of its out field. Its parameters accept None."""

    def run(*values: Any) -> Any:
        if out in ("ragged", "ids"):
            more = sum((number_of(v, k) for v, k in zip(values[1:], kinds[1:], strict=True)), torch.zeros(()))
            return values[0].apply(lambda rows: rows * weight + more.to(rows.dtype))
        given = [number_of(v, k) for v, k in zip(values, kinds, strict=True) if v is not None]
        total = sum((number * weight for number in given), torch.zeros(()))
        return total.expand(size) + torch.arange(size) if out == "shared" else total.unsqueeze(-1) + torch.arange(size)

    names = [f"a{i}" for i in range(len(kinds))]
    made = f"lambda {', '.join(f'{name}=None' for name in names)}: run({', '.join(names)})"
    return eval(made, {"run": run})  # the check reads the parameters


def draw(rng: random.Random) -> list[Step]:
    """Modules that read fields and what modules before them wrote."""
    known, steps = list(READS), []
    for name, ref, out in rng.sample(WRITES, rng.randint(1, 5)):
        reads = [rng.choice(known) for _ in range(rng.randint(1, 3))]
        shared = [read for read in reads if read[2] == "shared"]
        if out == "shared":
            reads = shared or [known[9]]
        elif out in ("ragged", "ids"):
            reads = [rng.choice([read for read in known if read[2] == out]), *shared]
        elif all(read[2] == "shared" or "optional" in read[2] for read in reads):
            reads.append(rng.choice(known[:6]))
        run = function([read[2] for read in reads], out, rng.randint(1, 6), rng.randint(1, 3))
        steps.append((reads, name, TensorClassModule(run, [read[1] for read in reads], ref)))
        known.append((name, ref, out))
    return steps


def batch(rng: random.Random, size: list[int]) -> Start:
    """An input; what is optional is there or not."""
    sizes = rng.sample(range(1, 9), 4)

    def there(value: Any) -> Any:
        return value if rng.random() < 0.5 else None

    def part(length: int) -> Part:
        rows = [torch.randn(*size, length) for _ in range(3)]
        return Part(v=rows[0], w=rows[1], m=there(rows[2]), batch_size=size)

    def ragged(rows: Tensor) -> RaggedTensor:
        count = torch.Size(size).numel()
        return RaggedTensor.unpad(rows, torch.tensor([rng.randint(0, 3) for _ in range(count)]).long().reshape(size))

    return Start(
        x=torch.randn(*size, sizes[0]),
        past=part(sizes[1]),
        future=part(sizes[2]),
        clip=(clip := ragged(torch.randn(*size, 3, 2))),
        ids=RaggedTensor.unpad(torch.randint(0, 5, (*size, 3)), clip.lengths),
        table=rng.choice([torch.arange(3), torch.randn(2, 2), torch.tensor(True)]),
        scale=torch.randn(sizes[3]),
        plain=torch.randn(*size, 2, 3),
        maybe=there(torch.randn(*size, sizes[0])),
        rows=there(ragged(torch.randn(*size, 3, 3))),
        batch_size=size,
    )


def by_hand(steps: list[Step], given: Start) -> dict[str, Any]:
    """The modules called one after the other."""
    state = {name: given.get(tuple(name.split("."))) for name, _, _ in READS}
    for reads, name, module in steps:
        state[name] = module.module(*(state[read] for read, _, _ in reads))
    return state


def is_same(a: Any, b: Any) -> bool:
    """Whether two values are equal; of ragged ones the lengths too."""
    if isinstance(a, RaggedTensor):
        return torch.equal(a.lengths, b.lengths) and torch.equal(a.pad(value=0), b.pad(value=0))
    return torch.equal(a, b)


def compare(seeds: range) -> None:
    """Build and run random pipelines."""
    for seed in seeds:
        rng = random.Random(seed)
        torch.manual_seed(seed)
        steps = draw(rng)
        last, probe = steps[-1][1], rng.choice([True, True, "run"])
        modules = [module for _, _, module in steps]
        drawn = [([read for read, _, _ in reads], name) for reads, name, _ in steps]
        try:
            pipeline = ignoring_warnings(
                lambda m=modules, o=OUTPUTS[last], p=probe: TensorClassSequential(*m, input=Start, output=o, probe=p)
            )
        except BuildError as error:
            raise AssertionError(f"seed {seed}: a right pipeline {drawn} is refused") from error
        for size in ([], [2], [2, 3], [1], [0]):
            given = batch(rng, size)
            wanted = by_hand(steps, given)[last]
            for _ in range(2):
                assert is_same(pipeline(given).get(last), wanted), f"seed {seed}: {drawn} at batch size {size}"


@pytest.mark.parametrize("block", range(4))
def test_right_pipelines_are_accepted_and_run_as_by_hand(block: int):
    """Neither the check nor the generated code knows more of the fields than is declared."""
    compare(range(4 * block, 4 * block + 4))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_right_pipelines(block: int):
    """Hundreds of them."""
    compare(range(1000 + 40 * block, 1040 + 40 * block))


@pytest.mark.parametrize("below", [Start.past.v, Start.past.m])
def test_a_field_of_an_instance_that_was_read_before(below: Any):
    """The whole nested instance is read first, by one module or another, then one of its fields."""

    def whole(part: Part) -> Tensor:
        return part.v.sum(-1, keepdim=True)

    def one(field: Tensor | None = None) -> Tensor:
        return torch.zeros(2, 1) if field is None else field.sum(-1, keepdim=True)

    given = batch(random.Random(1), [2])
    steps = [TensorClassModule(whole, Start.past, One.b), TensorClassModule(one, below, One.a)]
    pipeline = ignoring_warnings(lambda: TensorClassSequential(*steps, input=Start, output=OUTPUTS["a"]))
    assert torch.equal(pipeline(given).a, one(given.get(below._path)))
