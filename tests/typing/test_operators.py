"""The table of operators: every class with operators of its own is in a program that all checkers read."""

from __future__ import annotations

import ast
from typing import Any

import pytest

import tensorclass
import tensorclass.nn
from tests.typing._notation import HERE

PROGRAM = (HERE / "right" / "operators.py").read_text("utf-8")
BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.RShift: "rshift",
}  # fmt: skip
OTHER = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne", ast.In: "contains",
    ast.USub: "neg", ast.Invert: "invert",
}  # fmt: skip
CALLS = {"len": "len", "list": "iter", "abs": "abs"}
OPERATORS = {
    *(f"{way}{name}" for name in BINARY.values() for way in ("", "r", "i")),
    *OTHER.values(),
    *CALLS.values(),
    "getitem",
} - {"rrshift"}
"""The operators between `<` and `[]`; the left operand of `>>` is a module too."""
IN_PLACE = {f"i{name}" for name in BINARY.values()}
REFUSED = {"Fixed": IN_PLACE, "TensorDictParams": {*IN_PLACE, "iter"}}
"""What instances of these classes refuse when it runs."""
ELSEWHERE = {
    "TensorCollection", "TensorDictBase",  # bases of classes of the table
    "NonTensorDataBase", "FrozenTensorClass", "PersistentTensorDict",  # as a class of the table, whose methods they have
    "MemoryMappedTensor",  # a tensor
    "FieldRef", "TensorAttrs", "PackLayout", "Diagnostic",  # equality, which every object has
    "Dist",  # a field: an instance has the methods of a typed class
    "LinkedList", "TensorClassDataset",  # a list; rows by number
    "CompositeDistribution", "ProbabilisticTensorClassSequential", "ProbabilisticTensorDictSequential",
    "TensorDictSequential",  # as `TensorClassSequential`
}  # fmt: skip
INHERITED = {"TensorClass": ("Point", "Fixed"), "TypedTensorDict": ("Typed",)}
"""Classes whose instances are those of classes of the program."""


def used() -> dict[str, set[str]]:
    """The operators in the section of each class of the program."""
    found: dict[str, set[str]] = {}
    for section in PROGRAM.split("# ---- ")[1:]:
        title, _, text = section.partition("\n")
        mine = found.setdefault(title, set())
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.BinOp):
                reflected = isinstance(node.left, ast.Constant)
                mine.add(("r" if reflected else "") + BINARY[type(node.op)])
            elif isinstance(node, ast.AugAssign):
                mine |= {"i" + BINARY[type(node.op)]}
            elif isinstance(node, ast.Compare):
                mine |= {OTHER[type(op)] for op in node.ops}
            elif isinstance(node, ast.UnaryOp):
                mine |= {OTHER[type(node.op)]}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                mine |= {CALLS[node.func.id]} if node.func.id in CALLS else set()
            elif isinstance(node, ast.Subscript):
                mine |= {"getitem"}
    return found


def own(cls: type) -> set[str]:
    """The operators that a class, or a parent in this package, defines."""
    mine = [vars(base) for base in cls.__mro__ if base.__module__.startswith("tensorclass")]
    return {name for name in OPERATORS if any(callable(names.get(f"__{name}__")) for names in mine)}


def _public() -> list[type]:
    every: list[Any] = [getattr(room, name) for room in (tensorclass, tensorclass.nn) for name in dir(room)]
    classes = {one for one in every if isinstance(one, type) and one.__module__.startswith("tensorclass")}
    return sorted((one for one in classes if own(one)), key=lambda one: one.__name__)


@pytest.mark.parametrize("cls", _public(), ids=lambda cls: cls.__name__)
def test_the_program_uses_every_operator(cls: type) -> None:
    """A class is in the program with every operator that it defines, or the list says where it is checked."""
    shown = used()
    if cls.__name__ in ELSEWHERE:
        assert cls.__name__ not in shown
        return
    for title in INHERITED.get(cls.__name__, (cls.__name__,)):
        assert own(cls) - shown[title] - REFUSED.get(title, set()) == set()
