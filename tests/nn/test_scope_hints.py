"""Hints that name a dim mend the program, whatever scopes the fields are in: a nested class is a scope of its own."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import tensorclass
from tensorclass.errors import BuildError
from tensorclass.nn import PipelineWarning, TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32

Declared = dict[str, dict[str, str]]
"""For each class its fields: dims, or the name of a nested class."""
CLASSES: Declared = {
    "Part": {"x": "n"},
    "Other": {"x": "m"},
    "Both": {"x": "n", "y": "n"},
    "Data": {"past": "Part", "future": "Part", "other": "Other", "own": "n", "free": "k", "rough": "_"},
    "Single": {"y": "n"},
    "Fixed": {"y": "5"},
    "Same": {"a": "n", "b": "n"},
    "Pair": {"a": "Part", "b": "Part"},
    "Mixed": {"a": "Part", "b": "n"},
    "Held": {"both": "Both"},
}
READS = ["past.x", "past.x future.x", "past.x own", "own past.x", "past", "past future", "future.x past.x own", "rough"]
ONE: dict[str, Callable[..., Any]] = {
    "first": lambda *x: x[0] + 0,
    "last": lambda *x: x[-1] + 0,
    "twice": lambda *x: x[0].repeat(1, 2),
    "joined": lambda *x: torch.cat(x, -1),
    "shorter": lambda *x: x[-1][..., 1:],
}
TWO: dict[str, Callable[..., Any]] = {
    "both": lambda *x: (x[0] + 0, x[-1] + 0),
    "shorter and last": lambda *x: (x[0][..., 1:], x[-1] + 0),
    "first and joined": lambda *x: (x[0] + 0, torch.cat(x, -1)),
}
WRITES = {"Single.y": ONE, "Fixed.y": ONE, "Same.a Same.b": TWO, "Pair.a.x Pair.b.x": TWO}
WRITES |= {"Mixed.a.x Mixed.b": TWO, "Held.both.x Held.both.y": TWO}


def added(layer: nn.Module) -> Callable[..., Tensor]:
    """A layer over the sum of what is read."""
    return lambda *x: layer(sum(x))


def paired(*x: Tensor) -> Tensor:
    """Takes even sizes only."""
    return torch.stack([part.unflatten(-1, (-1, 2)).sum((-1, -2)) for part in x]).sum(0)[:, None].repeat(1, 5)


def apart() -> Callable[..., Tensor]:
    """Takes 8 of the first and 6 of the last."""
    first, last = nn.Linear(8, 5), nn.Linear(6, 5)
    return lambda a, b: first(a) + last(b)


SIZES: dict[str, tuple[str, Callable[..., Any]]] = {
    "one size": ("past.x", nn.Linear(8, 5)),
    "one size of its own": ("own", nn.Linear(8, 5)),
    "a size for each": ("past.x future.x", apart()),
    "a size for each class": ("past.x other.x", apart()),
    "two names": ("past.x other.x", lambda a, b: (a + b).sum(-1, keepdim=True).repeat(1, 5)),
    "a nested name and another": ("past.x free", lambda a, b: (a + b).sum(-1, keepdim=True).repeat(1, 5)),
    "two own names": ("own free", lambda a, b: (a + b).sum(-1, keepdim=True).repeat(1, 5)),
    "one size for two names": ("past.x other.x", added(nn.Linear(8, 5))),
    "pairs": ("past.x", paired),
    "pairs of both": ("past.x future.x", paired),
    "pairs of two classes": ("past.x other.x", paired),
}
"""Modules that take only some sizes."""


class Program:
    """A pipeline of one module over classes that a hint may change."""

    def __init__(self, reads: str, writes: str, call: Callable[..., Any]) -> None:
        self.classes = copy.deepcopy(CLASSES)
        self.reads = [f"Data.{path}" for path in reads.split()]
        self.writes = writes.split()
        self.call = call

    def build(self) -> list[Any]:
        """The findings that have a code."""
        made: dict[str, Any] = {}
        for name, fields in self.classes.items():
            types = {f: made[text] if text in made else Float32[Tensor, text] for f, text in fields.items()}
            made[name] = tensorclass(type(name, (), {"__annotations__": types, "__module__": __name__}))

        def refs(paths: list[str]) -> list[Any]:
            found = []
            for path in paths:
                value: Any = made[path.split(".")[0]]
                for part in path.split(".")[1:]:
                    value = getattr(value, part)
                found.append(value)
            return found

        function = self.call  # the check looks for sizes in what a function holds

        def call(*values: Any) -> Any:
            return function(*(value if isinstance(value, Tensor) else value.x for value in values))

        step = TensorClassModule(call, refs(self.reads), refs(self.writes))
        output = made[self.writes[0].split(".")[0]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PipelineWarning)
            try:
                return list(TensorClassSequential(step, input=made["Data"], output=output).diagnostics)
            except BuildError as error:
                return list(error.diagnostics)

    def place(self, owner: str, path: str) -> tuple[str, str]:
        """The class that declares a field, and the name there."""
        *above, name = path.split(".")
        for part in above:
            owner = self.classes[owner][part]
        return owner, name

    def follow(self, found: Any) -> bool:
        """Apply the hint of a finding; False if it names no edit."""
        if wanted := re.search(r"(in|out)_fields=\(([^)]*)\)", found.hint):
            setattr(self, "reads" if wanted[1] == "in" else "writes", wanted[2].split(", "))
            return True
        written = re.search(r"writes `([\w.]+)` with event dim", found.message)
        declared = re.search(r"(?:declare it as|here too, as) `([^`]+)`|declare `(_)`|; declare (\d+)", found.hint)
        if written and declared:
            owner, name = self.place(self.writes[0].split(".")[0], written[1])
            self.classes[owner][name] = declared[1] or declared[2] or declared[3]
            return True
        return self._follow_sizes(found)

    def _follow_sizes(self, found: Any) -> bool:
        dims = re.findall(r"`(\w+)`(?: of `([\w.]+)`)?", found.message.split(" module ")[0].partition("are one")[0])
        size = re.search(r"is (\d+): ", found.message)
        multiple = re.search(r"declare (`\d\*\w+`(?: and `\d\*\w+`)*) in", found.hint)
        if multiple:
            dims = re.findall(
                r"`(\w+)`(?: of `([\w.]+)`)?", found.message.partition("sizes of ")[2].partition(" that")[0]
            )
        texts = (
            re.findall(r"`(\d\*\w+)`", multiple[1]) if multiple else [size[1] if size else dims[0][0]] if dims else []
        )
        if not texts or not dims:
            return False
        for dim, path in dims:
            text = next((text for text in texts if text.endswith(f"*{dim}")), texts[0])
            owner, name = self.place("Data", path or dim.replace("n", "own").replace("k", "free"))
            if alone := re.search(rf"a class for `({path.rpartition('.')[0]})`", found.hint) if path else None:
                own = f"{owner}Of{alone[1].title()}"
                self.classes = {own: dict(self.classes[owner]), **self.classes}
                self.classes["Data"][alone[1]] = owner = own
            elif path:
                holder = "the input class" if owner == "Data" else f"`{owner}`"
                assert holder in found.hint or "one name" in found.hint, found
            self.classes[owner][name] = text
        return True


def mends(program: Program) -> None:
    """Follow the hints of all findings, as often as edits bring new ones to light."""
    followed: list[tuple[str, bool]] = []
    for _ in range(4):
        findings = program.build()
        told = [
            d for d in findings if d.severity != "note" or (d.code == "N305" and "declare" in d.hint.partition(";")[0])
        ]
        told = [d for d in told if d.code != "W211"]
        if not told:
            return
        followed = [(str(found), program.follow(found)) for found in told]
        assert all(done for _, done in followed), followed
    pytest.fail(f"the hints led nowhere: {followed}")


QUICK = {("past.x future.x", "Same.a Same.b"), ("past", "Single.y"), ("past.x own", "Fixed.y")}
_CASES = [
    pytest.param(reads, writes, marks=() if (reads, writes) in QUICK else pytest.mark.slow)
    for reads in READS
    for writes in WRITES
]


@pytest.mark.parametrize(("reads", "writes"), _CASES)
def test_hints_for_sizes_of_outputs_mend(reads: str, writes: str) -> None:
    """A size that an output has is declared as the hint says, and the program builds."""
    for call in WRITES[writes].values():
        mends(Program(reads, writes, call))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if "each" in n or "for" in n else ()) for n in SIZES]
)
def test_hints_for_sizes_of_inputs_mend(name: str) -> None:
    """A size or a multiple that a module needs is declared in the class that the hint names."""
    reads, call = SIZES[name]
    program = Program(reads, "Fixed.y", call)
    assert [d for d in program.build() if d.severity != "note"], "the program has no mistake"
    mends(program)


def test_two_scopes_are_named() -> None:
    """The hint says which instance has the size, and takes a name that is free."""
    (found,) = [d for d in Program("past.x future.x", "Same.a Same.b", TWO["both"]).build() if d.code == "E114"]
    assert found.hint == (
        "it is `n` of `future.x`, which has a scope of its own: declare a name of its own here too, as `future_x_n`, "
        "or change the module"
    )
