"""Formats, engines, verbs and commands are rows of tables; these fail for a surface that lacks one."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import tensorclass
from tensorclass import TensorClassDataset, TensorDict, parallel
from tensorclass._operations import BY_FIELD
from tensorclass.cli import _new
from tensorclass.cli._main import COMMANDS
from tensorclass.io._file_kinds import FILE_KINDS, FileKind
from tensorclass.io.exchange._formats import FORMATS
from tensorclass.ops._by_row import RowOps
from tensorclass.parallel._choose import NAMES
from tests.io.exchange._formats import TRIPS

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PROMISES = DOCS.joinpath("exchange.md").read_text("utf-8"), DOCS.joinpath("stability.md").read_text("utf-8")


@pytest.mark.parametrize("kind", [kind for kind in FILE_KINDS if kind.rows], ids=lambda kind: kind.what)
def test_every_surface_has_every_format(kind: FileKind) -> None:
    """Functions, methods of containers and datasets, commands, pages and round trips know each format."""
    form = FORMATS[kind.suffixes[0] if kind.suffixes else ""]
    assert callable(form.read)
    assert callable(form.write)
    assert not kind.table or set(kind.suffixes) <= _new.READERS.keys()
    name = re.match(r"`from_(\w+)", kind.reader)
    if name is None:
        return
    reader, writer = f"from_{name[1]}", f"to_{name[1]}"
    owners = [TensorDict, TensorClassDataset] if kind.table else [TensorDict]
    assert [owner for owner in owners for method in (reader, writer) if not hasattr(owner, method)] == []
    assert [
        owner for owner in (tensorclass, tensorclass.io, tensorclass.io.exchange) if not hasattr(owner, reader)
    ] == []
    assert f".{reader}(" in PAGE
    assert f"`{reader}`" in PROMISES
    assert any(name[1] in trip for trip in TRIPS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_on_the_page_and_has_a_module(name: str) -> None:
    """The page of the command line names each command, whose module has its arguments and its work."""
    assert f"| `{name}` |" in DOCS.joinpath("cli.md").read_text("utf-8")
    module = import_module(f"tensorclass.cli.{COMMANDS[name].module}")
    assert callable(module.configure)
    assert callable(module.run)


@pytest.mark.parametrize("name", NAMES)
def test_every_engine_is_public_and_says_where_tasks_run(name: str) -> None:
    """An engine is exported, is named on the page, and says whether it sends tasks; threads alone do not."""
    assert NAMES[name].__name__ in dir(parallel)
    assert f'"{name}"' in DOCS.joinpath("scaling.md").read_text("utf-8")
    assert hasattr(NAMES[name], "sends_tasks") == (name != "threads")


def test_stubs_and_plugin_know_every_verb_of_rows() -> None:
    """A method of rows that takes any number of names has the same parameters in stubs, and is on the page."""
    verbs = {
        name: inspect.signature(value) for name, value in vars(RowOps).items() if name[0] != "_" and callable(value)
    }
    taking = {name for name, found in verbs.items() if "keys" in found.parameters}
    assert taking == BY_FIELD.keys()
    page = DOCS.joinpath("rows.md").read_text("utf-8")
    for name in taking:
        assert re.findall(r"(\w+):", BY_FIELD[name]) == [one for one in verbs[name].parameters if one != "self"]
        assert f"`{name}(" in page
