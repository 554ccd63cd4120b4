"""What `tensorclass stubs` says of wrong declarations: each raises when it runs, and what runs is no message."""

# ruff: noqa: E501  # a row of the tables is one line

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from tensorclass import is_tensorclass
from tensorclass.classes import _build
from tensorclass.cli import main
from tensorclass.typecheck import _rules
from tensorclass.typecheck.stubs._pyi import Stubs
from tensorclass.typecheck.stubs._wrong import ClassCheck, Finding
from tests._sources import ROOT
from tests.test_docs import EXAMPLES, python_blocks
from tests.typing._notation import programs

HEAD = """\
import dataclasses
import typing
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Optional, TypeVar, Union
import torch
from torch import Tensor
from tensorclass import PerElement, Ragged, Shared, TensorClass, TensorDict, field, produced, tensorclass
from tensorclass.typing import Float, Float32, Int64, Shape, Shaped
T = TypeVar("T")
class Parent(TensorClass):
    x: Float32[Tensor, "3 h w"]
    y: Float32[Tensor, "h w"] = produced()
    z: str = ""
"""
FIELD = "class A(TensorClass):\n    {}\n"
CHILD = "class A(Parent):\n    {}\n"
WRONG = {
    # ---- options
    "class A(TensorClass, freeze=True):\n    x: Tensor": 'no option "freeze"; options are frozen',
    "@tensorclass(forzen=True)\nclass A:\n    x: Tensor": 'no option "forzen"',
    "@tensorclass(valdate='off')\nclass A(TensorClass):\n    x: Tensor": "did you mean `validate`?",
    "class A(TensorClass['freeze']):\n    x: Tensor": "did you mean `frozen`?",
    "class A(Parent, shadw=True):\n    a: Tensor | None = None": "did you mean `shadow`?",
    "class A(TensorClass, validate='all'):\n    x: Tensor": '"schema", "values" or "off", got \'all\'',
    "class A(TensorClass, tensor_only=True):\n    x: str": '"x" holds no tensor',
    "@tensorclass(tensor_only=True)\nclass A:\n    x: PerElement[int]": '"x" holds no tensor',
    "class A(TensorClass['tensor_only']):\n    x: list[int] | None = None": '"x" holds no tensor',
    "class B(TensorClass, tensor_only=True):\n    x: Tensor\nclass A(B):\n    y: 'int'": '"y" holds no tensor',
    # ---- annotations
    FIELD.format('x: Float32[Tensor, "8,8"]'): "write spaces, not commas",
    FIELD.format('x: Shared[Float32[Tensor, "h/2"]] | None = None'): "the operators are",
    FIELD.format('x: Annotated[Tensor, Shape("*a *b")]'): "only one of",
    FIELD.format('x: Ragged[Tensor, "t,d"]'): "write spaces, not commas",
    FIELD.format("x: Float32[Tensor]"): "takes a tensor type and a shape",
    FIELD.format("x: Float32[Tensor, 8]"): "a shape is a string",
    FIELD.format("x: Optional[Float32['8 8']] = None"): "takes a tensor type and a shape",
    FIELD.format("x: Annotated[Tensor, torch.float32, torch.int64]"): "two dtypes: Float32 and Int64",
    FIELD.format('x: Annotated[Int64[Tensor, ""], torch.float32]'): "two dtypes: Int64 and Float32",
    FIELD.format('x: Annotated[Float32[Tensor, "3"], Shape("4")]'): 'two shapes: "3" and',
    FIELD.format("x: Tenzor"): "did you mean `Tensor`?",
    FIELD.format("x: 'Optional[Perent]' = None"): "did you mean `Parent`?",
    FIELD.format("x: dict[str, Undefined]"): '"Undefined" is not defined',
    "if TYPE_CHECKING:\n    from decimal import Decimal\n" + FIELD.format("x: 'Decimal'"): "only under TYPE_CHECKING",
    FIELD.format("x: '1 +'"): '"1 +" is not a type',
    # ---- names
    FIELD.format("reshape: Tensor"): '"reshape" would hide a member',
    FIELD.format("to_json: str"): '"to_json" would hide a member',
    FIELD.format("keys: Tensor = produced()"): "rename the field, or write field(shadow=True)",
    "class A(TensorClass, shadow=True):\n    batch_size: int": "a name that every batch uses itself",
    # ---- what stands on the right
    FIELD.format("x: list[str] = []"): 'share the default of "x"',
    FIELD.format("x: dict[str, int] = dict()"): "field(default_factory=...)",
    FIELD.format("x: Any = field(default={})"): "field(default_factory=...)",
    FIELD.format("x: list = dataclasses.field(default=[])"): "field(default_factory=...)",
    FIELD.format("x: Tensor = produced(default=3)"): 'produced() has no "default"',
    FIELD.format("x: int = 0\n    y: Tensor"): '"y" is required and is behind "x"',
    FIELD.format("x: int = field(default_factory=int)\n    y: Tensor = field(doc='late')"): '"y" is required',
    CHILD.format("a: Tensor"): '"a" is required and is behind "z"',
    # ---- children
    CHILD.format('x: Float32[Tensor, "9"]'): 'widens the field of Parent: the shape "9" is not within "3 h w"',
    CHILD.format('x: Float32[Tensor, "3 _ w"]'): 'the shape "3 _ w" is not within "3 h w"',
    CHILD.format('x: Float32[Tensor, "3 4 4"]\n    y: Float32[Tensor, "5 4"]'): 'the shape "5 4" is not within "h w"',
    CHILD.format('x: Float[Tensor, "3 h w"]'): "the dtype Float is not within Float32",
    CHILD.format("x: Tensor"): "the dtype of any Tensor is not within Float32",
    CHILD.format("x: Annotated[Tensor, torch.float32]"): 'any shape is not within "3 h w"',
    CHILD.format('x: Float32[Tensor, "3 h w"] | None = None'): "the parent's field is never None",
    CHILD.format('x: Float32[Tensor, "3 h w"] = produced()'): "the parent's field can always be read",
    CHILD.format('x: Shared[Float32[Tensor, "3 h w"]]'): "a shared field is not a tensor field",
    CHILD.format("x: str"): "a value field is not a tensor field",
    CHILD.format("z: int = 0"): "int is not a str",
    "class B(Parent): pass\nclass A(B):\n    z: PerElement[str]": "a per-element field is not a value field",
    # ---- classes without end
    FIELD.format("x: 'A'"): '"x" is a A again',
}
"""Modules with one wrong line, and what is said of it."""
RIGHT = [
    "class A(TensorClass, shadow=True):\n    reshape: Tensor",
    "class A(TensorClass['shadow']):\n    values: Tensor",
    "class B(TensorClass, tensor_only=True):\n    x: Tensor\nclass A(B, tensor_only=False):\n    y: int",
    "OPTIONS = {'frozen': True}\nclass A(TensorClass, **OPTIONS):\n    x: Tensor",
    "class Base(TensorClass):\n    x: Tensor\n    def __init_subclass__(cls, tag='', **kw):\n        super().__init_subclass__(**kw)\nclass A(Base, tag='a'):\n    y: Tensor",
    'SHAPE = "3 h"\n' + FIELD.format("x: Float32[Tensor, SHAPE]\n    y: Annotated[Tensor, Shape(SHAPE)]"),
    CHILD.format('x: Float32[Tensor, "3 4 4"]\n    y: Float32[Tensor, "4 4"] = produced()'),
    CHILD.format('x: Annotated[Tensor, Shape("3 h w"), torch.float32]'),
    'MARK = Float32[Tensor, "3 h w"]\n' + CHILD.format("x: MARK"),
    CHILD.format("z: str = 'a'\n    a: Tensor = field(kw_only=True)"),
    "def made() -> Any:\n    return field(kw_only=True)\n" + FIELD.format("x: int = made()\n    y: Tensor"),
    "KW = True\n" + FIELD.format("x: int = 3\n    y: Tensor = field(kw_only=KW)"),
    FIELD.format("x: int = 3\n    _: dataclasses.KW_ONLY\n    y: Tensor"),
    FIELD.format("x: ClassVar[list[int]] = []\n    y: Tensor"),
    FIELD.format("x: Any = field(default_factory=list)\n    y: 'A | None' = None\n    z: 'A' = produced()"),
    "class B(TensorClass):\n    left: T\nclass A(TensorClass, Generic[T]):\n    left: T\nclass C(A[int]):\n    left: int",
    "try:\n    from nowhere import Tensor as Real\nexcept ImportError:\n    Real = Tensor\n" + FIELD.format("x: Real"),
    "if TYPE_CHECKING:\n    from decimal import Decimal\nelse:\n    Decimal = int\n" + FIELD.format("x: Decimal"),
    "from tensorclass.typing import *\n" + FIELD.format('x: UInt8[Tensor, ""]'),
    "try:\n    class A(TensorClass):\n        x: list[int] = []\nexcept ValueError:\n    pass\nclass B(TensorClass):\n    x: Tensor",
    "class B(TensorClass):\n    x: Tensor\nclass B(TensorClass):\n    x: str\nclass A(B):\n    x: str",
    "for str in [Tensor]:\n    pass\nclass A(TensorClass, tensor_only=True):\n    x: str",
    "@tensorclass\nclass A:\n    x: 'typing.Optional[Tensor]' = None\n    y: Union[str, int] = 3",
    "class A(TensorClass, removed=('old',), nocast=True, autocast=False, validate='off'):\n    x: Tensor",
]  # fmt: skip


def findings(folder: Path, text: str) -> list[Finding]:
    """What is said of a module with a text."""
    (folder / "batches.py").write_text(HEAD + text, "utf-8")
    stubs = Stubs()
    assert stubs.stub(folder / "batches.py") is not None
    return stubs.findings


def run(text: str) -> None:
    """Execute a module, and use its classes."""
    module = types.ModuleType("made_up_batches")
    sys.modules[module.__name__] = module
    try:
        exec(compile(HEAD + text, "made_up_batches.py", "exec", dont_inherit=True), vars(module))
        for cls in [value for value in vars(module).values() if is_tensorclass(value)]:
            if cls is not module.TensorClass:
                _build.complete(cls)  # as the first instance does
    finally:
        del sys.modules[module.__name__]


@pytest.mark.parametrize("text", WRONG)
def test_wrong_declarations(tmp_path: Path, text: str) -> None:
    """One message, which says what to do; running the module raises."""
    (found,) = findings(tmp_path, text)
    assert WRONG[text] in found.message
    with pytest.raises((ValueError, TypeError, NameError)):  # a SchemaError is both of the first
        run(text)


@pytest.mark.parametrize("text", RIGHT)
def test_what_runs_is_no_message(tmp_path: Path, text: str) -> None:
    """What is right, and what nobody can know from the text."""
    run(text)
    assert findings(tmp_path, text) == []


def test_everything_wrong_is_said_where_it_stands(tmp_path: Path) -> None:
    """Several lines, in their order, as checkers print them; nested classes too."""
    text = "class A(TensorClass, frozn=True):\n    x: Tenzor\n    class B(TensorClass):\n        y: list[int] = []\n"
    first = len(HEAD.splitlines()) + 1
    lines = [str(finding) for finding in findings(tmp_path, text)]
    assert [line.split(": error: ")[0] for line in lines] == [
        f"{tmp_path / 'batches.py'}:{number}" for number in (first, first + 1, first + 3)
    ]
    assert all(line.endswith(" [tensorclass-declaration]") for line in lines)


def test_classes_that_hold_one_another(tmp_path: Path) -> None:
    """Each of them is reported, with the way back."""
    text = "class B(TensorClass):\n    a: 'A'\nclass A(TensorClass):\n    x: Tensor\n    b: B"
    one, other = findings(tmp_path, text)
    assert (one.message[:20], other.message[:20]) == ('"a.b" is a B again, ', '"b.a" is a A again, ')
    with pytest.raises(ValueError, match="again"):
        run(text)


def test_parents_in_other_files(tmp_path: Path) -> None:
    """A child contradicts a parent that was imported; an alias may stand for anything."""
    (tmp_path / "parents.py").write_text(HEAD + 'Image = Float32[Tensor, "3"]\nclass Base(Parent): pass\n', "utf-8")
    text = (
        'from parents import Base, Image\nclass A(Base):\n    x: Float32[Tensor, "3"]\nclass B(Base):\n    x: Image\n'
    )
    (found,) = findings(tmp_path, text)
    assert found.message == '"x" widens the field of Parent: the shape "3" is not within "3 h w"'


@pytest.mark.parametrize(
    "comment",
    ["# type: ignore", "# type: ignore[tensorclass-declaration]", "#type:ignore[misc, tensorclass-declaration]"],
)
def test_messages_are_ignored_on_their_line(tmp_path: Path, comment: str) -> None:
    """As in mypy; a comment with other codes silences nothing."""
    assert findings(tmp_path, FIELD.format(f"x: list[int] = []  {comment}")) == []
    assert len(findings(tmp_path, FIELD.format("x: list[int] = []  # type: ignore[assignment]"))) == 1


@pytest.mark.parametrize("arguments", [[], ["--check"]])
def test_the_stub_is_written_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """The command reports on stderr and its status is 1, so that CI stops; the IDE goes on with a fresh stub."""
    module = tmp_path / "a.py"
    module.write_text(HEAD + FIELD.format("x: list[int] = []"), "utf-8")
    assert main(["stubs", str(module)]) == 1
    capsys.readouterr()
    assert main(["stubs", str(module), *arguments]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"{module}:{len(HEAD.splitlines()) + 2}: error: Instances would share")
    assert "class A(_t.Declared, TensorClass):" in module.with_suffix(".pyi").read_text("utf-8")


def test_programs_examples_and_pages(tmp_path: Path) -> None:
    """Of what runs nothing is said: the programs of tests/typing where no mark names an error, examples, the docs."""
    stubs, marks = Stubs(), {program.path: program.marks for program in programs()}
    for path in [*marks, *EXAMPLES]:
        stubs.stub(path)
    assert {(f.path, f.line) for f in stubs.findings} <= {
        (path, line) for path, lines in marks.items() for line, mark in lines.items() if mark.error
    }
    assert len(stubs.findings) > 20
    stubs.findings.clear()
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        blocks = [block.code for block in python_blocks(page.read_text("utf-8")) if block.raises is None]
        (tmp_path / f"{page.stem}_page.py").write_text("\n".join(blocks), "utf-8")
        stubs.stub(tmp_path / f"{page.stem}_page.py")
    assert stubs.findings == []


def test_rules_name_what_the_run_time_names() -> None:
    """The rules keep names of their own, since they import no torch."""
    members = {name for name in ClassCheck(Stubs().declarations).members if not name.startswith("_")}
    assert members == {name for name in _build.member_names() if not name.startswith("_")}
    assert set(_rules.RESERVED) == _build.RESERVED
    assert set(_rules.OWN) == _build._OWN
