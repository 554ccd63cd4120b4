"""Another thread writes in the middle of an operation: what comes out is what was there before, or what is there after.

The write is made between two lines of the operation, at one line after the other, so that nothing is left to chance.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tensorclass
from tensorclass import NonTensorStack, TensorCollection, TensorDict, TensorDictParams, lazy_stack
from tensorclass._operations import ROWS
from tensorclass.core import STORAGE, VALUES
from tensorclass.nn import TensorDictModule
from tensorclass.ops._steps import commit
from tensorclass.store import Node
from tests.contract import _relayouts as _relayouts
from tests.contract._kinds import mixed, objects
from tests.contract._operations import OPS, Op
from tests.contract._typed_kinds import ALL_KINDS

PACKAGE = str(Path(tensorclass.__file__).parent)
READS_TWICE = ("stack", "cat", "where", "apply(two)", "iter", "reversed", "expand_as", "select", "exclude", "_keys")
"""Calls that read the container a second time: as an operand, row by row, or for its keys. Each reading is whole."""
POINTS = 5
"""How many places of an operation the quick test tries."""


class Interrupted:
    """Calls a function before the n-th line that runs inside the package."""

    def __init__(self, at: int, write: Callable[[], None]) -> None:
        self.at, self.write, self.lines = at, write, 0

    def __call__(self, frame: Any, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                sys.settrace(None)
                self.write()
                sys.settrace(self)
        return self


def told(value: Any) -> Any:
    """A result as plain data, keys in any order: who adds a key again moves it to the end."""
    if isinstance(value, Tensor):
        return str(value.dtype), tuple(value.shape), str(value.tolist())  # as text, nan is nan
    if isinstance(value, TensorCollection):
        entries = {key: told(entry) for key, entry in value._entries().items()}
        return type(value).__name__, tuple(value.batch_size), sorted(entries.items())
    if isinstance(value, NonTensorStack):
        return value.tolist()
    if isinstance(value, Node):
        return type(value).__name__, told(value._leaves(STORAGE))
    if isinstance(value, (list, tuple)):
        return [told(part) for part in value]
    return value if isinstance(value, (str, int, float, type(None))) else type(value).__name__


def run(call: Callable[[Any], Any], container: Any, at: int, write: Callable[[Any], None]) -> tuple[Any, int]:
    """What an operation gives, or raises, with a write at one of its lines; and how many lines it has."""
    tracer, before = Interrupted(at, lambda: write(container)), sys.gettrace()
    sys.settrace(tracer)
    try:
        result = call(container)
    except Exception as error:  # whatever it raises is compared
        result = error
    finally:
        sys.settrace(before)
    return (type(result), str(result)) if isinstance(result, Exception) else told(result), tracer.lines


def expect_old_or_new(
    name: str, call: Callable[[Any], Any], make: Callable[[], Any], write: Callable[[Any], None], points: int | None
) -> int:
    """Make the write at some lines of the operation, or at all; the number of them."""
    after = make()
    write(after)
    old, lines = run(call, make(), 0, write)
    new, _ = run(call, after, 0, write)
    step = max(1, lines // points) if points else 1
    places = range(1 + len(name) % step if points else 1, lines + 1, step)
    for at in places:
        found, _ = run(call, make(), at, write)
        assert found in (old, new), f"{name}: {write.__name__} at line {at} of {lines} gives {found!r:.300}"
    return len(places)


# ---- what is written, and where --------------------------------------------------------------------------------------


def swap(container: Any) -> None:
    """One key goes and another comes: as many as before."""
    value = container.pop("b" if "b" in container.keys() else "a")  # noqa: SIM118  # of a container, keys
    container.set("z", value)


def grow(container: Any) -> None:
    """A key comes."""
    container.set("z", torch.full((*container.batch_size, 2), 7.0))


def turn(container: Any) -> None:
    """A tensor becomes a container."""
    container.set("a", {"inner": torch.ones(*container.batch_size, 3)})


def hide(container: Any) -> None:
    """A tensor becomes an object that all elements share."""
    container.set_non_tensor("a", "object")


def below(container: Any) -> None:
    """The same in a nested container."""
    swap(container["n"])


def replace(container: Any) -> None:
    """A nested container becomes a tensor."""
    container.set("n", torch.ones(*container.batch_size, 2))


def rename(container: Any) -> None:
    """Objects of elements are written, so often that their table is made anew."""
    node = container._entries()["who"]
    for round_ in range(4):
        for element in range(node.shape[0]):
            words = NonTensorStack.of([f"{round_}.{element}.{i}" for i in range(3)], torch.Size([3]))
            commit(node, (words, (element,)))


def params() -> TensorDictParams:
    """Parameters of a module."""
    return TensorDictParams(TensorDict(a=torch.zeros(2, 3), b=torch.ones(2, 3, 4), batch_size=[2, 3]), no_convert=True)


def optional() -> Any:
    """An instance with a field that may be None."""
    return Optional(a=torch.zeros(2, 3), b=torch.ones(2, 3), batch_size=[2, 3])


@tensorclass.tensorclass
class Optional:
    """Two fields that may be None."""

    a: Tensor
    b: Tensor | None = None
    z: Tensor | None = None


def exchange(container: Any) -> None:
    """One optional field goes and another comes."""
    container.z, container.b = container.b, None


MAKERS: dict[str, Callable[[], Any]] = {
    **{kind: lambda kind=kind: ALL_KINDS[kind](mixed()) for kind in ("flat", "nested", "assorted", "tagged", "named")},
    "params": params,
    "optional": optional,
}
CASES = [
    ("flat", swap), ("flat", grow), ("flat", turn), ("flat", hide), ("nested", below), ("nested", replace),
    ("assorted", swap), ("assorted", rename), ("assorted", below), ("tagged", swap), ("named", swap), ("params", swap),
    ("optional", exchange),
]  # fmt: skip


def once(op: Op, kind: str) -> bool:
    """Whether an operation is legal here, writes nothing, and reads its container once."""
    if op.writes or op.restructures or any(name in op.name for name in READS_TWICE):
        return False
    return op.suits((2, 3)) and not (kind == "optional" and (op.schemaless or op.untyped))


def sweep(kind: str, write: Callable[[Any], None], points: int | None) -> int:
    """Every operation of the tables that reads one container."""
    tried = 0
    for op in OPS:
        if once(op, kind):
            tried += expect_old_or_new(op.name, op.call, MAKERS[kind], write, points)
    for row in ROWS:
        if row.arity == 0:
            call = lambda c, name=row.name: getattr(c, name)()  # noqa: E731  # a closure over this row
            tried += expect_old_or_new(row.name, call, MAKERS[kind], write, points)
    return tried


@pytest.mark.parametrize(("kind", "write"), CASES)
def test_a_write_in_the_middle(kind: str, write: Callable[[Any], None]):
    """At a few places of every operation."""
    assert sweep(kind, write, POINTS) > 3 * POINTS * 50


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "write"), CASES)
def test_a_write_at_every_line(kind: str, write: Callable[[Any], None]):
    """At every line of every operation."""
    assert sweep(kind, write, None) > 4000


READS: dict[str, Callable[[Any], Any]] = {
    "x + y": lambda c: c + partner(),
    "x == y": lambda c: c == partner(),
    "x * 2": lambda c: c * 2,
    "x + rows": lambda c: c + torch.ones(2, 1),
    "addcmul": lambda c: c.addcmul(partner(), partner()),
    "where": lambda c: c.where(torch.tensor([True, False]), 0),
    "sum": lambda c: c.sum(0),
    "sum all": lambda c: c.sum(reduce=True),
    "max": lambda c: c.max(0),
    "softmax": lambda c: c.softmax(0),
    "mean feature": lambda c: c.mean(dim="feature"),
    "add default": lambda c: c.add(partner(), default=0.0),
    "detach": lambda c: c.detach(),
    "data": lambda c: c.data,
    "to_dict": lambda c: list(c.to_dict().items()),
    "items": lambda c: sorted(c.items(True, True)),
    "consolidate": lambda c: c.consolidate(),
    "leaves": lambda c: sorted(leaf.tolist() for leaf in c._leaves(VALUES)),
    "depth": lambda c: c.depth,
    "is_empty": lambda c: c.is_empty(),
    "equal": lambda c: tensorclass.equal(c, partner()),
    "update": lambda c: TensorDict(batch_size=[2, 3]).update(c),
    "write from": lambda c: partner().add_(c),
}
"""More operations, with an operand of their own."""


def partner() -> TensorDict:
    """An operand with the keys that the container begins with."""
    return TensorDict(a=torch.ones(2, 3), b=torch.full((2, 3, 4), 2.0), batch_size=[2, 3])


def pair() -> TensorDict:
    """Two floats."""
    return partner() * 3


@pytest.mark.parametrize("write", [swap, grow, turn, hide])
@pytest.mark.parametrize("name", READS)
def test_operands_and_reductions(name: str, write: Callable[[Any], None]):
    """At every line: old, new, or the error that the new keys bring."""
    assert expect_old_or_new(name, READS[name], pair, write, None) > 0


@pytest.mark.parametrize("write", [swap, grow, turn])
def test_written_from_another_operand(write: Callable[[Any], None]):
    """An operation in place pairs its tensors with an operand by key, whatever becomes of the container meanwhile."""
    calls = (lambda c: c.add_(partner()), lambda c: c.mul_(2), lambda c: c.sub_(torch.ones(2, 1)))
    for call in calls:
        first = run(call, pair(), 0, write)[1]
        for at in range(1, first + 1):
            container = pair()
            tensors = dict(container.items())
            run(call, container, at, write)
            wanted = {key: call(pair())[key] for key in tensors}
            for key, tensor in tensors.items():
                assert torch.equal(tensor, pair()[key]) or torch.equal(tensor, wanted[key]), f"`{key}` at line {at}"


@pytest.mark.parametrize("write", [swap, grow, turn, hide])
def test_parameters_and_buffers_are_read_whole(write: Callable[[Any], None]):
    """Names and tensors of a module, also of one that holds the container."""

    def make() -> TensorDictParams:
        found = params()
        found["c"] = torch.nn.Parameter(torch.full((2, 3), 5.0))
        return found

    def held(found: Any) -> Any:
        holder = torch.nn.Module()
        holder.params = found
        return sorted(holder.state_dict().items())

    calls = {
        "state_dict": lambda c: sorted(c.state_dict().items()),
        "held": held,
        "named_parameters": lambda c: list(c.named_parameters()),
        "buffers": lambda c: list(c.buffers()),
    }
    for name, call in calls.items():
        assert expect_old_or_new(name, call, make, write, None) > 0


def test_members_come_while_a_stack_is_read():
    """A lazy stack that grows is read with the members from before or from after."""

    def stack() -> Any:
        return lazy_stack([TensorDict(a=torch.full((3,), float(i)), batch_size=[3]) for i in range(2)])

    def append(found: Any) -> None:
        found.append(TensorDict(a=torch.full((3,), 2.0), batch_size=[3]))

    for call in (
        lambda s: s + 1,
        lambda s: s.clone(),
        lambda s: s.contiguous(),
        lambda s: s["a"],
        lambda s: s.sum(0),
        lambda s: s.roll(1, 0),
        lambda s: s.repeat(2, 1),
        lambda s: s.flip(0),
        lambda s: s.apply(torch.neg),
    ):
        assert expect_old_or_new("stack", call, stack, append, None) > 0


def test_objects_of_elements_are_read_whole():
    """A table of objects and the index into it are replaced together."""
    container = TensorDict(who=objects(2, 3), batch_size=[2, 3])
    rename(container)
    assert container["who"] == [[f"3.{row}.{i}" for i in range(3)] for row in range(2)]


# ---- writers of several entries --------------------------------------------------------------------------------------


def values(container: Any) -> dict[str, Any]:
    """Other tensors of the same kind for every entry that is one."""
    found = container._entries()
    return {key: value.clone() + 1 for key, value in found.items() if type(value) is Tensor and not value.is_complex()}


def other(container: Any) -> Any:
    """A copy with other values."""
    return container.clone().update(values(container))


def loaded(container: Any) -> None:
    """Tensors of a state take the place of the present ones."""
    container.load_state_dict(other(container).state_dict(), assign=True)


def wider(container: Any) -> None:
    """Every entry and the batch size of another container."""
    container.update(other(container), update_batch_size=True)


def named(container: Any) -> None:
    """The first entry under another key."""
    container.rename_key_("a", "z")


def keyed(container: Any) -> None:
    """A module that writes two entries."""
    TensorDictModule(lambda a: (a + 1, a + 2), ["a"], ["b", "z"])(container)


def below_and_beside(container: Any) -> None:
    """Entries of this container and of a nested one; each level is written in one step."""
    inner = container["n"]
    container.update({"n": {**values(inner), "new": torch.zeros(inner.batch_size)}})


WRITERS: dict[str, Callable[[Any], Any]] = {
    "update": lambda c: c.update(values(c)),
    "update(kwargs)": lambda c: c.update(**values(c)),
    "update(container)": lambda c: c.update(other(c)),
    "update(clone)": lambda c: c.update(values(c), clone=True),
    "update(paths)": lambda c: c.update({(key,): value for key, value in values(c).items()}),
    "update(keys_to_update)": lambda c: c.update(other(c), keys_to_update=list(values(c))),
    "update(update_batch_size)": wider,
    "load_state_dict": loaded,
    "to(inplace)": lambda c: c.to(torch.float64, inplace=True),
    "apply(inplace)": lambda c: c.apply(lambda t: t.clone()[..., None], inplace=True),
}
"""Writes that put other values under the keys that are there."""
RELAYERS: dict[str, Callable[[Any], Any]] = {
    "update(new)": lambda c: c.update({**values(c), "y": torch.zeros(2, 3), "z": torch.ones(2, 3)}),
    "update(objects)": lambda c: c.update({"a": "one", "b": "two", "z": "three"}),
    "update(new nested)": lambda c: c.update({("x", "a"): torch.zeros(2, 3), ("x", "b"): torch.ones(2, 3)}),
    "set(path)": lambda c: c.set(("x", "y", "z"), torch.zeros(2, 3)),
    "[path] = {...}": lambda c: c.__setitem__(("x", "y"), {"a": torch.zeros(2, 3), "b": torch.ones(2, 3)}),
    "clear": lambda c: c.clear(),
    "select": lambda c: c.select("a", inplace=True),
    "exclude": lambda c: c.exclude("a", "b", inplace=True),
    "split_keys": lambda c: c.split_keys(["a"], ["b"], inplace=True),
    "separates": lambda c: c.separates("a", "b"),
    "rename_key_": named,
    "flatten_keys": lambda c: c.flatten_keys(inplace=True),
    "unflatten_keys": lambda c: c.unflatten_keys(inplace=True),
    "module": keyed,
}
"""Writes that change the keys."""


RELAID: dict[str, Callable[[], Any]] = {
    "flatten_keys": lambda: TensorDict({"x": pair(), "a": torch.zeros(2, 3)}, [2, 3]),
    "unflatten_keys": lambda: TensorDict({"x.a": torch.zeros(2, 3), "x.b": torch.zeros(2, 3)}, [2, 3]),
}
"""What some of them are tried on; the others on two tensors."""


def expect_one_step(name: str, make: Callable[[], Any], write: Callable[[Any], Any], at_level: Any = None) -> None:
    """What a reader sees at any line of a write is the state before or the state after; it sees both."""
    look = at_level or (lambda c: c)
    states: list[Any] = []

    def read() -> None:
        states.append(told(look(container).clone(recurse=False)))

    container = make()
    before = told(look(container))
    ended, lines = run(write, container, 0, lambda c: None)
    assert not isinstance(ended, tuple) or not isinstance(ended[0], type), ended
    after = told(look(container))
    assert before != after, f"{name} writes nothing"
    for at in range(1, lines + 1):
        container = make()
        run(write, container, at, lambda c: read())
        assert states[-1] in (before, after), f"{name}: at line {at} of {lines} a reader sees {states[-1]!r:.400}"
    assert before in states


def keyed_kinds() -> dict[str, Callable[[], Any]]:
    """Containers whose entries other threads may replace."""
    kinds = {kind: lambda kind=kind: ALL_KINDS[kind](mixed()) for kind in ("flat", "tagged", "assorted", "typed_flat")}
    on_device = lambda: TensorDict(partner(), device="cpu")  # noqa: E731  # one line of a table
    return {**kinds, "params": params, "pair": pair, "device": on_device, "optional": optional}


WRITES_OF_SEVERAL = [
    (name, kind)
    for name, kind in itertools.product(WRITERS, keyed_kinds())
    if (name, kind) != ("load_state_dict", "params")  # torch's own loader of modules loads parameters one by one
    and (name != "apply(inplace)" or kind in ("flat", "pair"))  # the others do not admit another shape
]


@pytest.mark.parametrize(("name", "kind"), WRITES_OF_SEVERAL)
def test_a_write_of_several_entries_is_one_step(name: str, kind: str):
    """Readers see all of them or none."""
    expect_one_step(name, keyed_kinds()[kind], WRITERS[name])


@pytest.mark.parametrize("name", RELAYERS)
def test_a_write_of_other_keys_is_one_step(name: str):
    """Readers see the old keys or the new ones."""
    expect_one_step(name, RELAID.get(name, pair), RELAYERS[name])


def test_each_level_is_one_step():
    """A nested container that is written along with its holder, and one that is written through a typed field."""
    make = lambda: ALL_KINDS["nested"](mixed())  # noqa: E731  # one line of a table
    expect_one_step("update", make, below_and_beside, lambda c: c["n"])
    expect_one_step("update", make, lambda c: c.update({**values(c), "new": torch.zeros(2, 3)}))


def test_members_are_written_in_one_step_each():
    """Of a lazy stack, each member."""
    make = lambda: lazy_stack([pair(), pair()])  # noqa: E731  # one line of a table
    for member in (0, 1):
        for name in ("update", "update(new)"):
            write = {**WRITERS, **RELAYERS}[name]
            widened = write if name == "update" else lambda c: c.update({**values(c), "z": torch.ones(2, 2, 3)})
            expect_one_step(name, make, widened, lambda c, member=member: c[member])


def test_fields_become_none_with_the_others():
    """Readers see the old fields or the new ones, never the old ones without those that became None."""
    seen: list[Any] = []
    write = lambda c: c.update({"a": torch.ones(2, 3), "b": None, "z": torch.ones(2, 3)})  # noqa: E731  # as above
    lines = run(write, optional(), 0, lambda c: None)[1]
    for at in range(1, lines + 1):
        run(write, optional(), at, lambda c: seen.append(sorted(c.clone(recurse=False).to_dict(retain_none=False))))
    assert {tuple(keys) for keys in seen} == {("a", "b"), ("a", "z")}


@pytest.mark.parametrize("name", ["exclude", "separates", "rename_key_", "flatten_keys", "unflatten_keys"])
def test_nothing_is_lost_while_keys_change(name: str):
    """An entry that another thread writes at any line is there afterwards."""
    make = RELAID.get(name, pair)
    lines = run(RELAYERS[name], make(), 0, lambda c: None)[1]
    for at in range(1, lines + 1):
        container = make()
        run(RELAYERS[name], container, at, lambda c: c.set("late", torch.zeros(2, 3)))
        assert "late" in container.keys(), f"{name}: lost at line {at} of {lines}"  # noqa: SIM118  # of a container
