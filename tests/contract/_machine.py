"""Random sequences of operations, applied to a container and to a plain dict of tensors side by side.

A sequence is a start and a list of (operation, seed): every step draws from its own generator, so that dropping steps
from a failing sequence leaves the others as they were.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tensorclass._operations import ROWS, Row
from tensorclass.core import VALUES
from tensorclass.errors import BatchIndexError, TensorClassError
from tensorclass.ops._objects import EXCLUSIVE
from tests.contract import _relayouts as _relayouts
from tests.contract._invariants import check
from tests.contract._lazy_kinds import LAZY, MACHINE_KINDS
from tests.contract._model import Model, as_list, assert_same, mask_path, settled, trimmed
from tests.contract._operations import OPS, Op, at
from tests.contract._pointwise import expected, overlaps, shares_elements, spans_batch
from tests.contract._random import admits, typed, uneven, untyped
from tests.contract._ways import EXACT, LOOSE
from tests.io._exact import assert_same as identical

Step: TypeAlias = "tuple[str, int]"
Change: TypeAlias = "Callable[[random.Random, Any, Model], tuple[Any, Model]]"
REFUSALS = (RuntimeError, TypeError, NotImplementedError, IndexError, KeyError)
DTYPES = (torch.float32, torch.int64, torch.float64, torch.uint8, torch.bool, torch.bfloat16)
LEFT_OUT = ("view", "to(torch.uint", "to(torch.complex", "uint16", "uint32", "uint64", "complex")
"""Views depend on strides, which the plain dict does not imitate; torch implements little for the newer dtypes."""
LARGEST, DEEPEST = 64, 4
UNLAZY = {
    "apply_", "apply(batch_size)", "update(inplace)", "to(batch_size=[])", "flatten(inplace)", "roll(inplace)",
    "contiguous(inplace)", "TensorDict",
}  # fmt: skip
"""What a lazy stack or a ragged entry does by rules of its own: `test_entries` and `tests/store` look at these."""
DENSE = {
    "roll", "rot90", "repeat", "repeat_interleave", "tile", "gather", "contiguous", "new_zeros", "new_ones", "new_full",
    "where", "torch.where", "method.cat", "torch.cat",
}  # fmt: skip
"""What needs one tensor for each entry, or joins one element with another: refused where elements differ
(docs/lazy-stacks.md)."""


@dataclass(frozen=True)
class Sequence:
    """Where a sequence starts, and its steps."""

    kind: str
    seed: int
    steps: tuple[Step, ...]


def maker(rng: random.Random) -> Callable[..., Tensor]:
    """Tensors of random dtypes, real ones: a cast of a complex number warns."""

    def make(*shape: int) -> Tensor:
        dtype = rng.choice(DTYPES)
        numbers = torch.arange(torch.Size(shape).numel()).reshape(shape) + rng.randint(0, 5)
        return numbers % 3 == 0 if dtype is torch.bool else numbers.to(dtype)

    return make


# ---- steps -----------------------------------------------------------------------------------------------------------


def legal(op: Op, container: Any, model: Model) -> bool:
    """Whether the model can follow: batch size, no clash of keys, a structure that may change."""
    if not op.suits(model.size):
        return False
    keys = {part for path in (*model.paths(), *model.nests) for part in path}
    if model.lazy and (op.name in UNLAZY or (model.uneven and (op.untyped or op.restructures))):
        return False
    if "ragged" in model.roles.values() and "apply" in op.name:
        return False
    if op.name.startswith("new_") and (model.uneven or (model.lazy and model.statics)):
        return False  # of another size they are dense, where a value of members is one value for each element
    if op.name == "apply(batch_size)" and (
        "shared" in model.roles.values() or ((model.typed or model.declared) and any(model.nests.values()))
    ):
        return False
    if model.typed and (op.schemaless or (op.restructures and op.untyped)):
        return False
    if "flatten" in op.name and "keys" in op.name and any("/" in key or "." in key for key in keys):
        return False
    return not (model.statics and "stack" in op.name)


def fresh(op: Op, keys: set[str]) -> bool:
    """Whether the keys that an operation writes are new."""
    return not ({"fresh", "x"} & keys and op.name.startswith(("set", "update(", "rename", "create")))


def refuses(op: Op, container: Any) -> bool:
    """Whether a write must fail."""
    if op.restructures:
        return bool(container.is_locked)
    return op.writes and overlaps(container) and 0 not in container.batch_size


def listed(op: Op) -> Change:
    """An operation of the contract suite as a step."""

    def change(rng: random.Random, container: Any, model: Model) -> tuple[Any, Model]:
        keys = {part for path in (*model.paths(), *model.nests) for part in path}
        if not (legal(op, container, model) and fresh(op, keys)) or (
            (op.writes or op.name == "deepcopy") and guarded(container)
        ):
            return container, model
        wanted = attempt(lambda: op.model(model))
        if isinstance(wanted, Exception) or refuses(op, container) or (op.writes and differs(model, wanted)):
            must_refuse(lambda: op.call(container))
            return container, model
        given = attempt(lambda: op.call(container))
        if isinstance(given, Exception):
            none = 0 in model.size or any(0 in part.size for part in as_list(wanted))
            beyond = model.lazy and none and isinstance(given, BatchIndexError)
            if op.writes and shares_elements(container) and "is expanded" in str(given):
                return container, model  # docs/ragged.md; a tensor of the table is padded, where torch sees no overlap
            if op.name.startswith("new_") and "objects" in model.roles.values():
                return container, model  # objects that differ have none for a batch of another size
            if beyond:  # positions of members are looked up also where there are no elements (docs/lazy-stacks.md)
                return container, model
            if isinstance(given, TensorClassError) and not admits(container, as_list(wanted)[-1].leaves):
                return container, model
            if not (model.uneven and op.name.split("(")[0] in DENSE and isinstance(given, TensorClassError)):
                raise given
            return container, model
        results, models = as_list(given), as_list(wanted)
        assert len(results) == len(models)
        if not models:
            return container, model
        pick = rng.randrange(len(models))
        read = Model.of(results[pick])
        assert op.loose or model.lazy or read.nests == models[pick].nests
        return results[pick], replace(models[pick], nests=read.nests, typed=read.typed, declared=read.declared)

    return change


def pointwise(row: Row, in_place: bool) -> Change:
    """A row of the table with a random operand as a step."""

    def change(rng: random.Random, container: Any, model: Model) -> tuple[Any, Model]:
        others = [operand(rng, container) for _ in range(row.arity)]
        wanted = attempt(lambda: expected(row, model, others))
        refused = isinstance(wanted, Exception) or (spans_batch(others) and "shared" in model.roles.values())
        method = getattr(container, f"{row.name}_" if in_place else row.name)
        none = any(0 in leaf.shape for leaf in model.leaves.values())
        if (in_place and guarded(container)) or ((in_place or refused) and none):
            return container, model  # what autograd allows, and what torch checks of no elements, is tested elsewhere
        if row.name in EXCLUSIVE and model.statics:
            return container, model  # bools and integers that both sides have are combined (tests/ops)
        if refused and model.lazy and row.name == "lerp":
            return container, model  # a scalar is cast to the dtype of members without dims (docs/lazy-stacks.md)
        if refused or (in_place and (overlaps(container) or changes_dtype(model, wanted))):
            must_refuse(lambda: method(*others))
            return container, model
        if row.result != "bool" and not in_place and not admits(container, wanted.leaves):
            must_refuse(lambda: method(*others))
            return container, model
        shared = in_place and shares_elements(container)
        result = attempt(lambda: method(*others))
        if isinstance(result, Exception):
            if shared and "is expanded" in str(result):
                return container, model  # as above
            raise result
        wanted = in_dtypes_of(model, wanted) if in_place else wanted
        assert_same(result, replace(wanted, lazy=model.lazy), exact=False)
        if (model.typed or model.declared) and row.result == "bool":
            return container, model  # a class declares no bools for its fields
        return result, replace(
            Model.of(result).frozen(), lazy=model.lazy
        )  # kernels differ in the last bit by memory layout

    return change


def operand(rng: random.Random, container: Any) -> Any:
    """A number, a tensor over the batch or a container of the same structure."""
    which = rng.randrange(4)
    if which == 0:
        return rng.choice([2, 0.5, -1.5])
    if which == 1:
        return torch.tensor(rng.choice([1, 2.5]))
    if which == 2:
        return torch.rand(tuple(container.batch_size))
    return container.clone()


def guarded(container: Any) -> bool:
    """Whether autograd has a say in what may be written."""
    return any(leaf.requires_grad for leaf in container._leaves(VALUES))


def in_dtypes_of(before: Model, after: Model) -> Model:
    """A result as it is written into existing tensors."""
    return replace(after, leaves={path: leaf.to(before.leaves[path].dtype) for path, leaf in after.leaves.items()})


def changes_dtype(before: Model, after: Any) -> bool:
    """Whether a result does not fit into the tensors it would be written to."""
    return any(not torch.can_cast(after.leaves[p].dtype, leaf.dtype) for p, leaf in before.leaves.items())


def attempt(call: Callable[[], Any]) -> Any:
    """What a call gives, or why torch refuses."""
    try:
        return call()
    except REFUSALS as error:
        return error


def differs(before: Model, after: Any) -> bool:
    """Whether elements of another shape would be written."""
    after = as_list(after)[-1]
    paths = [path for path, role in before.roles.items() if role == "padded"]  # a ragged element may change its length
    return any(not torch.equal(before.leaves[mask_path(path)], after.leaves[mask_path(path)]) for path in paths)


def must_refuse(call: Callable[[], Any]) -> None:
    """The container refuses what the plain dict refuses."""
    assert isinstance(attempt(call), Exception), "the plain dict refuses, the container does not"


def indexed(rng: random.Random, container: Any, model: Model) -> tuple[Any, Model]:
    """A random index of ints, slices, None, `...`, tensors and masks."""
    parts: list[Any] = []
    for size in model.size[: rng.randint(0, len(model.size))]:
        choices: list[Any] = [slice(None), slice(rng.randint(-3, 3), rng.randint(-3, 4)), None]
        if size:
            choices += [rng.randrange(-size, size), torch.tensor([rng.randrange(size) for _ in range(2)])]
            choices.append(torch.tensor([rng.random() < 0.5 for _ in range(size)]))
        parts.append(rng.choice(choices))
    index = tuple(parts)
    wanted = attempt(lambda: model.map(at(lambda size: index)))
    if isinstance(wanted, Exception):
        must_refuse(lambda: container[index])
        return container, model
    return container[index], wanted


def locked(rng: random.Random, container: Any, model: Model) -> tuple[Any, Model]:
    """Lock or unlock."""
    return (container.unlock_() if container.is_locked else container.lock_()), model


def named(rng: random.Random, container: Any, model: Model) -> tuple[Any, Model]:
    """Give the batch dims names, some of them."""
    container.names = [rng.choice([None, f"d{i}"]) for i in range(container.ndim)]
    return container, model


def returned(name: str) -> Change:
    """A round trip as a step."""
    way, exact = {**EXACT, **LOOSE}[name], name in EXACT

    def change(rng: random.Random, container: Any, model: Model) -> tuple[Any, Model]:
        if not comes_back(name, container, model):
            return container, model
        result = way(container)
        if exact:
            identical(result, container)
        assert type(result) is type(container) or model.lazy
        return result, replace(model, nests=Model.of(result).nests)

    return change


def comes_back(name: str, container: Any, model: Model) -> bool:
    """Whether a form keeps what the container holds."""
    if name in EXACT:
        return not guarded(container)
    untyped = not model.typed
    if name in ("to_json", "to_tensordict") and untyped:
        return False
    if name == "state_dict" and model.uneven:
        return False  # it has entries of the whole batch
    undeclared = {"shared", "objects"} & {*model.roles.values()} or model.lazy or model.declared
    if name == "to_dict" and untyped and undeclared:
        return False  # without a declaration, one object may be for all, and a tensor without batch dims is refused
    if name == "to_dict" and 0 in model.size and any(model.nests.values()) and "objects" in model.roles.values():
        return False  # empty lists don't say how many further batch dims a nested class has
    return not guarded(container)


def steps() -> dict[str, Change]:
    """Every step by name."""
    found: dict[str, Change] = {"index": indexed, "lock": locked, "names": named}
    found.update({name: returned(name) for name in WAYS})
    found.update({op.name: listed(op) for op in OPS if not op.name.startswith(LEFT_OUT)})
    found.update({row.name: pointwise(row, False) for row in ROWS})
    found.update({f"{row.name}_": pointwise(row, True) for row in ROWS if row.in_place})
    return found


WAYS = [*EXACT, *LOOSE]
STEPS = steps()
NAMES = sorted(STEPS)
STARTS: dict[str, Callable[[int], Any]] = {"an untyped structure": untyped, "a typed class": typed}
"""Kinds whose structure is drawn too."""

# ---- sequences -------------------------------------------------------------------------------------------------------


def draw(seed: int, length: int, kind: str = "") -> Sequence:
    """A random sequence, from a random kind if none is named."""
    rng = random.Random(seed)
    return Sequence(
        kind or rng.choice(sorted(MACHINE_KINDS)),
        seed,
        tuple((rng.choice(NAMES), rng.randrange(10**6)) for _ in range(length)),
    )


def begin(sequence: Sequence) -> Any:
    """The container that a sequence starts with."""
    if sequence.kind in STARTS:
        return STARTS[sequence.kind](sequence.seed)
    return MACHINE_KINDS[sequence.kind](maker(random.Random(sequence.seed)))


def run(sequence: Sequence) -> int:
    """Carry a sequence out; the number of steps. Raises AssertionError where the two diverge."""
    container = begin(sequence)
    lazy = sequence.kind in LAZY or (sequence.kind in STARTS and uneven(container))
    model = replace(Model.of(container).frozen(), lazy=lazy)
    start = model
    for name, seed in sequence.steps:
        torch.default_generator.manual_seed(seed)  # `torch.manual_seed` seeds each accelerator, slowly
        before = container, model
        container, model = STEPS[name](random.Random(seed), container, model)
        if container is not before[0] or model is not before[1]:
            check(container)
        model = settled(model, container)
        assert_same(container, model, nests=False)
        if (model.uneven and 0 in model.size) or (model.typed and compared(start, model)):
            break  # nothing says what each of no elements would hold; a class does not declare bools for objects
        if model is not before[1]:
            container, model = smaller(container, model)
            model = replace(trimmed(model), lazy=lazy)
    return len(sequence.steps)


def compared(start: Model, model: Model) -> bool:
    """Whether a comparison has made bools of Python objects."""
    objects = {*start.statics, *(path for path, role in start.roles.items() if role == "objects")}
    return any(model.roles.get(path) == "tensor" for path in objects)


def smaller(container: Any, model: Model) -> tuple[Any, Model]:
    """Keep the batch small."""
    count = torch.Size(model.size).numel()
    if count <= LARGEST and len(model.size) <= DEEPEST:
        return container, model
    picked = torch.arange(min(3, count))
    return container.reshape(-1)[picked], model.map(
        lambda t, s: t.reshape(count, *t.shape[len(s) :])[picked],
    )


def shrink(sequence: Sequence) -> Sequence:
    """Drop steps from a failing sequence while it still fails."""
    kept = list(sequence.steps)
    for position in reversed(range(len(kept))):
        shorter = [*kept[:position], *kept[position + 1 :]]
        if fails(replace(sequence, steps=tuple(shorter))):
            kept = shorter
    return replace(sequence, steps=tuple(kept))


def fails(sequence: Sequence) -> bool:
    """Whether the two diverge."""
    try:
        run(sequence)
    except Exception:  # a crash is a divergence too
        return True
    return False
