"""Numbers that JSON does not have, or that no float holds, are refused wherever they are given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from tensorclass import TensorClass, TensorDict
from tensorclass.errors import FileFormatError, SchemaError
from tensorclass.typing import Float64

HUGE = "1" + "0" * 400
REFUSED = ["1e400", "-1e400", "NaN", "Infinity", "-Infinity"]


class Plain(TensorClass):
    """A Python number."""

    s: float


class Listed(TensorClass):
    """A list of Python numbers."""

    s: list[float]


class Scalar(TensorClass):
    """A number for each element."""

    s: Float64[Tensor, ""]


class Vector(TensorClass):
    """Several numbers for each element."""

    s: Float64[Tensor, "n"]


TEXTS: dict[str, Callable[[str], Any]] = {
    "Python number": lambda number: Plain.from_json(f'{{"s": {number}}}'),
    "list": lambda number: Listed.from_json(f'{{"s": [1.0, {number}]}}'),
    "scalar": lambda number: Scalar.from_json(f'{{"s": {number}}}'),
    "batch": lambda number: Scalar.from_json(f'{{"s": [1.0, {number}]}}'),
    "vector": lambda number: Vector.from_json(f'{{"s": [1.0, {number}]}}'),
    "records": lambda number: Scalar.from_json(f'[{{"s": 1.0}}, {{"s": {number}}}]'),
    "records of vectors": lambda number: Vector.from_json(f'[{{"s": [1.0]}}, {{"s": [{number}]}}]'),
    "lines": lambda number: Scalar.from_json(f'{{"s": 1.0}}\n{{"s": {number}}}', lines=True),
    "pydantic": lambda number: TypeAdapter(Plain).validate_json(f'{{"s": {number}}}'),
}


@pytest.mark.parametrize("number", [*REFUSED, HUGE, f"-{HUGE}"])
@pytest.mark.parametrize("where", TEXTS)
def test_texts_refuse_what_no_float_holds(where: str, number: str):
    """Scalars, lists, lines and tables of a typed class are read by one rule."""
    with pytest.raises((SchemaError, ValidationError)):
        TEXTS[where](number)


@pytest.mark.parametrize("where", TEXTS)
def test_texts_take_words_and_numbers(where: str):
    """Quoted words and ordinary numbers are read, also integers and those near the limits."""
    for number in ("1.5", "3", "1e308", '"NaN"', '"-Infinity"', '"Infinity"'):
        if number[0] != '"' or not where.startswith("records of"):
            TEXTS[where](number)


@pytest.mark.parametrize("lines", [True, False])
@pytest.mark.parametrize("cls", [TensorDict, Scalar])
def test_files_refuse_them_too(cls: Any, lines: bool, tmp_path: Path):
    """Files of lines and of records refuse the same numbers, and repeated keys."""
    path = tmp_path / "rows.json"
    for row in [*(f'{{"s": {number}}}' for number in REFUSED), '{"s": 1.0, "s": 2.0}']:
        path.write_text(f'{{"s": 1.0}}\n{row}\n' if lines else f'[{{"s": 1.0}}, {row}]')
        with pytest.raises((SchemaError, FileFormatError)):
            cls.from_json(path, lines=lines)
    path.write_text('{"s": 1.0}\n{"s": 2.0}\n' if lines else '[{"s": 1.0}, {"s": 2.0}]')
    assert cls.from_json(path, lines=lines)["s"].tolist() == [1, 2]
