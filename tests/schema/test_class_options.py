"""Options of classes are one table: what declares, builds, merges and checks classes reads it."""

from __future__ import annotations

import ast
import dataclasses
import inspect

import pytest
from torch import Tensor

from tensorclass import TensorClass, from_dataclass, merge, tensorclass
from tensorclass._options import CLASS_OPTIONS, DICT_OPTIONS, SWITCHES
from tensorclass._schema import Options
from tensorclass.classes._base import Root
from tensorclass.errors import ArgumentError
from tensorclass.typing import Float32
from tests._sources import Source, handwritten


def option_lists(source: Source) -> list[str]:
    """Tuples, lists, sets, dicts and comparisons with the names of two options or more."""
    found = []
    for node in ast.walk(source.tree):
        parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", None)
        words = {part.value for part in parts or () if isinstance(part, ast.Constant)} & CLASS_OPTIONS.keys()
        if len(words) > 1:
            found.append(f"{source.name}:{node.lineno}: {', '.join(sorted(words))}")
    return found


def test_no_other_file_lists_options() -> None:
    """A new option is an entry of the table, the record that holds its value, and its parameter."""
    found = [line for source in handwritten() if source.name != "_options.py" for line in option_lists(source)]
    assert found == []


@pytest.mark.parametrize(
    "text", ['("frozen", "shadow")', '{"nocast": 1, "autocast": 2}', 'x in ["validate", "removed"]']
)
def test_lists_are_found(text: str) -> None:
    """The search sees tuples, dicts and comparisons."""
    assert len(option_lists(Source("x.py", text))) == 1


def test_records_and_signatures_follow_the_table() -> None:
    """The record of values, the class statement and the conversion of dataclasses have the options of the table."""
    assert [entry.name for entry in dataclasses.fields(Options)] == list(CLASS_OPTIONS)
    parameters = inspect.signature(Root.__init_subclass__).parameters
    assert [name for name in parameters if name != "kwargs"] == list(CLASS_OPTIONS)
    assert inspect.signature(from_dataclass).parameters.keys() & CLASS_OPTIONS.keys() == set(SWITCHES)
    assert set(DICT_OPTIONS) < set(SWITCHES)


@pytest.mark.parametrize("name", SWITCHES)
def test_switches_are_true_or_false(name: str) -> None:
    """Every switch refuses anything else, by name, and is an option in brackets."""
    with pytest.raises(ArgumentError, match=f"the option `{name}` is True or False, got 'no'"):
        tensorclass(**{name: "no"})(type("Row", (), {}))
    assert getattr(TensorClass[name].__tensorclass_options__, name) is True  # type: ignore[index]  # options are words


@pytest.mark.parametrize("given", [{"frozn": True}, {"validates": "off"}])
def test_unknown_options_name_the_nearest(given: dict[str, object]) -> None:
    """An unknown option is answered by the nearest one and the list of options."""
    with pytest.raises(ArgumentError, match=r"did you mean .*options are frozen, nocast"):
        tensorclass(**given)(type("Row", (), {}))  # type: ignore[call-overload]  # the point


def test_merged_classes_combine_by_the_table() -> None:
    """A merged class is frozen if one part is, and only holds tensors if both do."""

    class Left(TensorClass, frozen=True, tensor_only=True):
        x: Float32[Tensor, ""]

    class Right(TensorClass, validate="values"):
        y: Float32[Tensor, ""]

    options = merge(Left, Right).__tensorclass_options__
    assert (options.frozen, options.tensor_only, options.validate) == (True, False, "values")
