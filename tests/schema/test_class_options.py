"""Options of classes and of fields are tables: what declares, builds, saves, compares and checks reads them."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Collection
from typing import Any

import pytest
from torch import Tensor

from tensorclass import TensorClass, field, from_dataclass, merge, schema, tensorclass
from tensorclass._options import CLASS_OPTIONS, DICT_OPTIONS, FIELD_OPTIONS, SWITCHES
from tensorclass._schema import FieldSpec, Options
from tensorclass._schema._fields import FieldInfo
from tensorclass.classes._base import Root
from tensorclass.errors import ArgumentError
from tensorclass.typing import Float32
from tests._sources import Source, handwritten

FIELDS = {"join", "fill", "coerce", "renamed_from", "since", "shadow"}
"""The options of fields that are this library's own."""


def option_lists(source: Source, names: Collection[str] = CLASS_OPTIONS) -> list[str]:
    """Tuples, lists, sets, dicts and comparisons with the names of two options or more."""
    found = []
    for node in ast.walk(source.tree):
        parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", None)
        words = {part.value for part in parts or () if isinstance(part, ast.Constant)} & {*names}
        if len(words) > 1:
            found.append(f"{source.name}:{node.lineno}: {', '.join(sorted(words))}")
    return found


def test_no_other_file_lists_options() -> None:
    """A new option is an entry of the table, the record that holds its value, and its parameter."""
    found = [
        line
        for source in handwritten()
        for names in (CLASS_OPTIONS, FIELDS)
        if source.name != "_options.py"
        for line in option_lists(source, names)
    ]
    assert found == []


def test_checkers_ask_the_table() -> None:
    """The plugin and the writer of stubs name no option of fields: they ask for those with an effect."""
    found = [
        f"{source.name}:{node.lineno}"
        for source in handwritten()
        if source.name.startswith("typecheck/")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and node.value in FIELDS - {"join", "shadow"}
    ]
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


def test_field_options_follow_the_table() -> None:
    """`field`, its result and the record of a field have each option, and its saved form brings it back."""
    assert inspect.signature(field).parameters.keys() == {*FIELD_OPTIONS, "metadata"}
    assert {entry.name for entry in dataclasses.fields(FieldInfo)} == {*FIELD_OPTIONS, "metadata", "produced"}
    assert FIELD_OPTIONS.keys() <= {entry.name for entry in dataclasses.fields(FieldSpec)}
    given: dict[str, Any] = {
        "coerce": "cast",
        "renamed_from": "y",
        "since": "2.0",
        "shadow": True,
        "kw_only": True,
        "doc": "grey",
    }
    row = tensorclass(type("Row", (), {"__annotations__": {"x": Float32[Tensor, ""]}, "x": field(**given)}))
    saved = schema(row)["x"].to_dict()
    again = type(schema(row)).from_dict(schema(row).to_dict())["x"]
    for name, option in FIELD_OPTIONS.items():
        if option.saved:
            assert getattr(again, name) == getattr(schema(row)["x"], name)
            assert name in saved
