"""What an editor with pyright's language server shows of typed classes: VS Code with Pylance or Pyright, Vim, Emacs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tensorclass.cli import main
from tests.ide._lsp import Client, renamed, server
from tests.ide._project import DIGITS, INPUTS, SCHEMA, USE, typed_file, write

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """An editor with the project open."""
    with server("pyright", write(tmp_path_factory.mktemp("project"))) as client:
        client.open("project_schema.py")
        client.open("project_use.py")
        yield client


@pytest.fixture(scope="module")
def stubbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """The same with stubs."""
    folder = write(tmp_path_factory.mktemp("stubbed"))
    assert main(["stubs", str(folder / "project_schema.py")]) == 0
    with server("pyright", folder) as client:
        client.open("project_use.py")
        yield client


@pytest.mark.parametrize(
    ("typed", "fields"),
    [("batch.", DIGITS), ("Digits.", DIGITS), ("Digits.inputs.", INPUTS), ('batch.to("cpu")[0].', DIGITS)],
)
def test_completion_lists_the_fields_first(editor: Client, typed: str, fields: list[str]) -> None:
    """Fields in front, then methods; of instances, of classes, and behind chains of operations."""
    offered = editor.complete(typed_file(typed))
    own = [name for name in offered if name != "largest"]
    assert own[: len(fields)] == fields
    assert {"reshape", "to", "batch_size"} <= set(own[len(fields) :])


def test_completion_below_the_decorator_alone(editor: Client, stubbed: Client) -> None:
    """Fields always, methods of containers with a stub."""
    without, there = (one.complete(typed_file("alone.")) for one in (editor, stubbed))
    assert without[:2] == there[:2] == ["alpha", "beta"]
    assert "reshape" not in without
    assert {"reshape", "to", "batch_size"} <= set(there)


def test_completion_in_constructors(editor: Client, stubbed: Client) -> None:
    """Keywords of the constructor, with the options of every container."""
    keywords = {f"{name}=" for name in (*DIGITS, "batch_size", "device", "names")}
    for one in (editor, stubbed):
        assert keywords <= set(one.complete(typed_file("Digits(")))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("print(batch.label", "label: Tensor"),
        ("print(Digits.label", "label: Tensor"),
        ("Digits.inputs", "inputs: Inputs"),
        ("Digits.inputs.image", "image: Tensor"),
    ],
)
def test_hover_and_definition(editor: Client, word: str, said: str) -> None:
    """The type of the value, and the line of the declaration; on instances and classes alike."""
    assert said in editor.request("textDocument/hover", editor.at("project_use.py", word))["contents"]["value"]
    name = said.partition(":")[0]
    (found,) = editor.request("textDocument/definition", editor.at("project_use.py", word))
    assert found["uri"].endswith("/project_schema.py")
    assert SCHEMA.splitlines()[found["range"]["start"]["line"]].startswith(f"    {name}: ")


def test_signature_help(editor: Client, stubbed: Client) -> None:
    """The whole constructor, with and without a stub."""
    for one in (editor, stubbed):
        shown = one.request("textDocument/signatureHelp", one.at("project_use.py", "Digits(i"))["signatures"][0][
            "label"
        ]
        assert "inputs: Inputs, label: Tensor, note: str" in shown
        assert "batch_size" in shown


def test_rename_of_a_field_reaches_everything(editor: Client) -> None:
    """The declaration, methods, keywords of the constructor, instances and references on the class; no string key."""
    at = {**editor.at("project_schema.py", "    label"), "newName": "digit"}
    found = renamed(editor.request("textDocument/rename", at))
    assert found["project_schema.py"] == SCHEMA.replace("label", "digit")
    assert found["project_use.py"] == USE.replace("label", "digit").replace('["digit"]', '["label"]')
