"""`tensorclass inspect` and `tensorclass diff`."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorClassDataset, TensorDict
from tensorclass.cli import main
from tensorclass.typing import Float32
from tests.cli._program import program


class Stored(TensorClass):
    """What a file and a dataset hold."""

    x: Float32[Tensor, "2"]


HEAD = """
from typing import Annotated
from annotated_types import Ge
from torch import Tensor
from tensorclass import TensorClass, field
from tensorclass.typing import Float, Float32, Int64
"""

FIRST = (
    HEAD
    + '''
class Pose(TensorClass):
    angle: Float32[Tensor, ""]

class Digits(TensorClass):
    """Images and what they show.

    More about them.
    """

    pixels: Float32[Tensor, "h w"]
    label: Annotated[Int64[Tensor, ""], Ge(0)]
    pose: Pose | None = None
    weight: Float32[Tensor, ""] | None = None
'''
)

SECOND = (
    HEAD
    + """
class Pose(TensorClass):
    angle: Float[Tensor, ""]

class Digits(TensorClass, removed={"weight": "2.0"}):
    image: Float32[Tensor, "h w"] = field(renamed_from="pixels", doc="grey values", since="2.0")
    label: Annotated[Int64[Tensor, ""], Ge(0)]
    pose: Pose | None = None
    source: str = "scan"
"""
)

BREAKING = HEAD + "class Digits(TensorClass):\n    label: Float32[Tensor, '']\n"


@pytest.fixture
def files(tmp_path):
    """Three versions of a module."""
    texts = {"first_version": FIRST, "second_version": SECOND, "breaking_version": BREAKING}
    return {name: program(tmp_path, name, text) for name, text in texts.items()}


def test_table(files, capsys):
    """One class: the first line of its docstring, every field with what there is to say."""
    assert main(["inspect", f"{files['second_version']}:Digits"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "second_version.Digits",
        "  field   type            default",
        '  image   Float32["h w"]           grey values; formerly `pixels`; since 2.0',
        '  label   Int64[""]                Ge(ge=0)',
        "  pose    Pose | None     None",
        "  source  str             'scan'",
        "  No longer: `weight` (until 2.0)",
    ]


CHECKED = """
from tensorclass import class_validator, field_validator

class Checked(TensorClass, validate="values", nocast=True):
    x: Annotated[Float32[Tensor, ""], Ge(0)] = field(coerce="cast")

    @field_validator("x", mode="before")
    def clean(cls, value):
        return value

    @class_validator
    def agree(self):
        pass
"""


def test_checks_are_shown(tmp_path, capsys):
    """Constraints, validators, conversions, and the options of the class that say what is accepted."""
    assert main(["inspect", program(tmp_path, "checked_module", HEAD + CHECKED) + ":Checked"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        '  x      Float32[""]           Ge(ge=0); checked by `clean (before)`; coerce="cast"',
        "  Checked by `agree`",
        "  Options: validate='values', coerce='strict'",
    ]


def test_module(files, capsys):
    """Without a name, every class that the module defines."""
    assert main(["inspect", files["first_version"]]) == 0
    out = capsys.readouterr().out
    assert "first_version.Pose" in out
    assert "first_version.Digits\nImages and what they show.\n" in out
    assert "More about them" not in out


def test_markdown(files, capsys):
    """A section and a table; a bar in a type does not end the cell."""
    assert main(["inspect", f"{files['first_version']}:Digits", "--format", "markdown"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("## Digits\n\nImages and what they show.\n\nMore about them.\n\n| field | type")
    assert "| `pose` | `Pose \\| None` | `None` |  |" in out


def test_json(files, capsys):
    """What `Schema.from_dict` reads, and JSON Schema."""
    target = f"{files['first_version']}:Digits"
    assert main(["inspect", target, "--format", "json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["fields"]] == [
        "pixels",
        "label",
        "pose",
        "weight",
    ]
    assert main(["inspect", target, "--format", "jsonschema"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["pixels"]["dims"] == "h w"
    assert main(["inspect", files["first_version"], "--format", "json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"Pose", "Digits"}


def test_diff_of_two_classes(files, capsys):
    """Status 0 when old data is read; each change with its effect."""
    first, second, breaking = (f"{file}:Digits" for file in files.values())
    assert main(["diff", first, second]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Digits -> Digits: widening",
        'compatible  - weight: Float32[""] | None = None',
        "compatible  + source: str = 'scan'",
        'widening    ~ pose.angle: Float32[""] -> Float[""]',
        'compatible  ~ image: Float32["h w"] as `pixels` -> Float32["h w"]',
    ]
    assert main(["diff", first, breaking]) == 1
    assert 'breaking    ~ label: Int64[""] -> Float32[""]' in capsys.readouterr().out
    assert main(["diff", first, first]) == 0
    assert capsys.readouterr().out == "Digits -> Digits: compatible\nno difference\n"


STRICTER = """
class Scores(TensorClass, validate="values"):
    x: Annotated[Float32[Tensor, ""], Ge({low})]
    y: str | None = None
"""


def test_formats_of_a_diff_say_the_same(tmp_path, capsys):
    """Text, JSON and Markdown name the same changes with the same effects; "may break" is no failure."""
    old = program(tmp_path, "lower", HEAD + STRICTER.format(low=0)) + ":Scores"
    new = program(tmp_path, "higher", HEAD + STRICTER.format(low=1).replace("y: str | None = None", "y: str = 'a'"))
    new += ":Scores"
    assert main(["diff", old, new]) == 1
    text = capsys.readouterr().out.splitlines()
    assert main(["diff", old, new, "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert main(["diff", old, new, "--format", "markdown"]) == 1
    markdown = capsys.readouterr().out.splitlines()
    rows = [("x (constraints)", "Ge(ge=0)", "Ge(ge=1)"), ("y", "str | None = None", "str = 'a'")]
    assert text == ["Scores -> Scores: breaking", *(f"breaking    ~ {name}: {a} -> {b}" for name, a, b in rows)]
    assert found["changes"] == [
        dict(zip(("field", "old", "new", "effect"), (*row, "breaking"), strict=True)) for row in rows
    ]
    assert markdown[0] == "**Scores -> Scores: breaking**"
    assert markdown[4:] == [
        "| `x (constraints)` | `Ge(ge=0)` | `Ge(ge=1)` | breaking |",
        "| `y` | `str \\| None = None` | `str = 'a'` | breaking |",
    ]
    assert main(["diff", old, old, "--format", "markdown"]) == 0
    assert capsys.readouterr().out == "**Scores -> Scores: compatible**\n"


def test_diff_of_two_files_of_one_name(tmp_path, capsys):
    """Two checkouts of one program."""
    for folder, text in (("old", FIRST), ("new", SECOND)):
        (tmp_path / folder).mkdir()
        program(tmp_path / folder, "versioned", text)
    assert main(["diff", f"{tmp_path}/old/versioned.py:Digits", f"{tmp_path}/new/versioned.py:Digits"]) == 0
    assert "as `pixels`" in capsys.readouterr().out


def test_diff_against_a_saved_schema(files, tmp_path, capsys):
    """A file of one class, and a file of several; as text and as JSON."""
    saved = tmp_path / "digits.json"
    for target, place in ((":Digits", ""), ("", ":Digits")):
        main(["inspect", files["first_version"] + target, "--format", "json"])
        saved.write_text(capsys.readouterr().out)
        assert main(["diff", f"{saved}{place}", f"{files['second_version']}:Digits", "--format", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["effect"] == "widening"
        assert [change["field"] for change in found["changes"]] == ["weight", "source", "pose.angle", "image"]
        assert main(["diff", f"{saved}{place}", f"{files['first_version']}:Digits"]) == 0
        assert "no difference" in capsys.readouterr().out


def test_diff_against_stored_data(tmp_path, capsys):
    """A file and a dataset hold the schema of their class."""
    file, folder = tmp_path / "points.safetensors", tmp_path / "points"
    points = Stored(x=torch.zeros(3, 2))
    points.save(file)
    with TensorClassDataset.create(folder, Stored) as writer:
        writer.append(points)
    source = program(
        tmp_path, "later", HEAD + "class Stored(TensorClass):\n    x: Float32[Tensor, '2']\n    y: int = 3\n"
    )
    for stored in (file, folder):
        assert main(["diff", str(stored), f"{source}:Stored"]) == 0
        assert "+ y: int = 3" in capsys.readouterr().out
    TensorDict(a=torch.zeros(2)).save(tmp_path / "other.safetensors")
    for name, text in {"other": "names no class", "no": "no file, and no folder"}.items():
        assert main(["diff", f"{tmp_path}/{name}.safetensors", f"{source}:Stored"]) == 2
        assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["inspect", "{first_version}:Digit"], "did you mean `Digits`"),
        (["inspect", "{first_version}:HEAD"], "has no `HEAD`"),
        (["inspect", "{first_version}:Tensor"], "not a tensorclass"),
        (["inspect", "json"], "defines no tensorclass"),
        (["diff", "{first_version}", "{first_version}:Digits"], "has several classes; name one"),
        (["diff", "{folder}/no.json", "{first_version}:Digits"], "can't read"),
        (["diff", "{folder}/bad.json", "{first_version}:Digits"], "is not JSON"),
        (["diff", "{folder}/other.json", "{first_version}:Digits"], "holds no schema"),
        (["diff", "{folder}/two.json", "{first_version}:Digits"], "holds several classes"),
        (["inspect", "{folder}/broken_module.py"], "can't be run: KeyError"),
        (["inspect", "{folder}/wrong_class.py"], "an unknown dim|can't be run: SchemaError"),
    ],
)
def test_what_can_not_be_read(files, tmp_path, capsys, command, text):
    """Status 2 and one line that says what to do."""
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "other.json").write_text('{"properties": {}, "type": "object"}')
    (tmp_path / "two.json").write_text('{"A": {}, "B": {}}')
    program(tmp_path, "broken_module", "raise KeyError('x')")
    program(tmp_path, "wrong_class", HEAD + "class Wrong(TensorClass):\n    x: Float32[Tensor, '3 ?']\n")
    assert main([part.format(folder=tmp_path, **files) for part in command]) == 2
    error = capsys.readouterr().err
    assert any(option in error for option in text.split("|"))
    assert "Traceback" not in error
