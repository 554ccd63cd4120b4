"""Random classes, layouts and operations over ranks; `python -m tests.parallel._random_layouts COUNT RANKS`."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import torch

from tensorclass import Shared, TensorClass
from tensorclass.parallel import Layout
from tensorclass.typing import Bool, Float32, Int64
from tests.parallel._ranks import run

SIZES = {"t": 5, "d": 4, "h": 3}
MESHES: dict[int, list[dict[str, int]]] = {2: [{"dp": 2}], 3: [{"dp": 3}], 4: [{"dp": 2, "tp": 2}, {"dp": 4}]}
OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "index": lambda b: b[1],
    "slice": lambda b: b[1:4],
    "step": lambda b: b[::2],
    "clone": lambda b: b.clone(),
    "unsqueeze": lambda b: b.unsqueeze(0),
    "stack": lambda b: torch.stack([b, b]),
    "stack inside": lambda b: torch.stack([b, b], 1),
    "cat": lambda b: torch.cat([b, b]),
    "split": lambda b: b.split(2)[1],
    "chunk": lambda b: b.chunk(2)[0],
    "unbind": lambda b: b.unbind(0)[-1],
    "expand": lambda b: b.expand(2, *b.batch_size),
    "add": lambda b: b + b,
    "multiply": lambda b: b.to_tensordict() * 2,
    "compare": lambda b: b == b,
    "cast": lambda b: b.to_tensordict().float(),
    "apply": lambda b: b.to_tensordict().apply(lambda x: x.float().exp()),
    "sum": lambda b: b.to_tensordict().float().sum(0),
    "mean": lambda b: b.to_tensordict().float().mean(0),
    "gather": lambda b: b.to_tensordict().apply(lambda x: x.flip(0)),
    "zeros": lambda b: b.to_tensordict().apply(torch.zeros_like),
    "flatten": lambda b: b.reshape(-1),
    "detach": lambda b: b.detach(),
    "roll": lambda b: b.to_tensordict().apply(lambda x: x.roll(1, 0)),
}


def random_class(rng: random.Random) -> Any:
    """A class of one to five fields over the dims `t`, `d` and `h`."""
    kinds = [Float32, Int64, Bool]
    notes: dict[str, Any] = {}
    for number in range(rng.randint(1, 5)):
        dims = " ".join(rng.sample(sorted(SIZES), rng.randint(0, 3)))
        field: Any = rng.choice(kinds)[torch.Tensor, dims]
        notes[f"f{number}"] = Shared[field] if number and dims and rng.random() < 0.2 else field
    return type("Random", (TensorClass,), {"__annotations__": notes, "__module__": __name__})


def random_batch(rng: random.Random, cls: Any) -> Any:
    """A batch of 4 to 7 rows."""
    rows = rng.randint(4, 7)
    torch.manual_seed(rng.randint(0, 1 << 30))
    made = {}
    for name, spec in cls.__tensorclass_schema__.fields.items():
        shape = [SIZES[dim] for dim in str(spec.dims).split()]
        shape = shape if spec.kind.is_shared else [rows, *shape]
        made[name] = (torch.rand(shape) * 9).to(spec.dtype.exact)
    return cls(**made)


def random_layout(rng: random.Random, world: int) -> Layout:
    """A layout whose dims use different mesh dims."""
    sizes = rng.choice(MESHES[world])
    free = [*sizes]
    batch = free.pop(0) if rng.random() < 0.7 else None
    dims = {rng.choice(sorted(SIZES)): free.pop()} if free and rng.random() < 0.8 else {}
    return Layout(sizes, batch=batch, **dims)


def _verdicts(rank: int, world: int, seeds: list[int]) -> list[tuple[str, str]]:
    found = []
    for seed in seeds:
        rng = random.Random(seed)
        cls, layout = random_class(rng), random_layout(rng, world)
        batch, name = random_batch(rng, cls), rng.choice(sorted(OPERATIONS))
        operation = OPERATIONS[name]
        what = f"seed {seed}: {name} of {dict(cls.__annotations__)} {layout}"
        part = batch.distribute(_known(layout, cls), source="everywhere")
        wanted = operation(batch)
        try:
            got = operation(part).whole()
        except Exception as error:  # DTensor lacks the operation
            found.append(("refused", f"{what}: {type(error).__name__}: {str(error)[:200]}"))
            continue
        good = type(got) is type(wanted) and got.batch_size == wanted.batch_size
        close = good and all(
            torch.allclose(got.get(key).float(), wanted.get(key).float(), atol=1e-5) for key in wanted.keys(True, True)
        )
        found.append(("same" if close else "different", what))
    return found


def _known(layout: Layout, cls: Any) -> Layout:
    """The layout without dims that the class lacks, which would warn."""
    known = {name for spec in cls.__tensorclass_schema__.fields.values() for name in spec.dims.names}
    dims = {name: places for name, places in layout._rules.dims.items() if name in known}
    return Layout(layout.sizes, batch=layout._rules.batch or None, **dims)


def compare(count: int, world: int, start: int = 0) -> list[tuple[str, str]]:
    """The verdict of each seed; all ranks give the same."""
    seeds = [*range(start, start + count)]
    found = run(lambda rank, ranks: _verdicts(rank, ranks, seeds), world, timeout=120)
    assert all(one == found[0] for one in found), "ranks differ"
    return found[0]  # type: ignore[no-any-return]  # what the first rank gives


if __name__ == "__main__":
    verdicts = compare(int(sys.argv[1]), int(sys.argv[2]))
    for kind, text in verdicts:
        if kind != "same":
            print(kind, text)
    print({kind: [verdict for verdict, _ in verdicts].count(kind) for kind in ("same", "refused", "different")})
