"""What an editor with jedi shows of typed classes: Vim with jedi-vim or coc-jedi, IPython, Jupyter."""

from __future__ import annotations

import sys
from pathlib import Path

import jedi
import pytest

from tensorclass.cli import main
from tests._sources import ROOT
from tests.ide._project import DIGITS, INPUTS, SCHEMA, TYPED, USE, place, typed_file, write

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project."""
    return write(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def stubbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with stubs."""
    folder = write(tmp_path_factory.mktemp("stubbed"))
    assert main(["stubs", str(folder / "project_schema.py")]) == 0
    return folder


def _script(folder: Path, name: str) -> jedi.Script:
    project = jedi.Project(folder, environment_path=sys.prefix, added_sys_path=[str(ROOT)])
    return jedi.Script(path=folder / name, project=project)


def _offered(folder: Path, typed: str) -> set[str]:
    assert typed in TYPED
    return {found.name for found in _script(folder, typed_file(typed)).complete()}


@pytest.mark.parametrize(("typed", "fields"), [("batch.", DIGITS), ("Digits.", DIGITS), ("Digits.inputs.", INPUTS)])
def test_completion(folder: Path, stubbed: Path, typed: str, fields: list[str]) -> None:
    """Fields and methods; jedi gives names in alphabetical order, and so fields stand among them."""
    for one in (folder, stubbed):
        assert {*fields, "reshape", "to", "batch_size"} <= _offered(one, typed)


def test_completion_below_the_decorator_alone(folder: Path, stubbed: Path) -> None:
    """Fields always, methods of containers with a stub."""
    assert {"alpha", "beta"} <= _offered(folder, "alone.")
    assert "reshape" not in _offered(folder, "alone.")
    assert {"alpha", "beta", "reshape", "to"} <= _offered(stubbed, "alone.")


def test_keywords_of_the_constructor(folder: Path, stubbed: Path) -> None:
    """The fields; jedi leaves out the options of containers, which it does not take for fields."""
    for one in (folder, stubbed):
        offered = _offered(one, "Digits(")
        assert {f"{name}=" for name in DIGITS} <= offered
        assert "batch_size=" not in offered


@pytest.mark.parametrize(
    ("word", "kind"), [("print(batch.label", "Tensor"), ("print(Digits.label", "Tensor"), ("Digits.inputs", "Inputs")]
)
def test_types_and_definitions(folder: Path, word: str, kind: str) -> None:
    """The type of the value, and the line of the declaration."""
    script = _script(folder, "project_use.py")
    line, column = place(USE, word)
    assert kind in {found.name for found in script.infer(line + 1, column)}
    (found,) = script.goto(line + 1, column)
    assert found.module_path == folder / "project_schema.py"
    assert SCHEMA.splitlines()[found.line - 1].startswith(f"    {found.name}: ")


def test_rename_of_a_field(folder: Path) -> None:
    """The declaration, the class and instances; not behind an index, where jedi has lost the class."""
    line, column = place(SCHEMA, "    label")
    changed = _script(folder, "project_schema.py").rename(line + 1, column, new_name="digit").get_changed_files()
    use = changed[folder / "project_use.py"].get_new_code()
    assert "print(batch.digit, batch.inputs.image" in use
    assert "print(Digits.digit, " in use
    assert "    digit: Int64" in changed[folder / "project_schema.py"].get_new_code()
