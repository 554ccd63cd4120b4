"""`tensorclass stubs`: what is written, what is passed through, what is refused; nothing is executed."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tensorclass import TensorClass
from tensorclass._operations import IN_PLACE
from tensorclass.cli import _stubs, main
from tensorclass.typecheck import _stub_types
from tensorclass.typecheck.plugin import _access
from tensorclass.typecheck.stubs._project import StubError, module_name
from tensorclass.typecheck.stubs._pyi import MARK, Stubs

GOLDEN = Path(__file__).parent / "golden"
HEAD = "from torch import Tensor\nfrom tensorclass import TensorClass, field, produced, tensorclass\n"


def stub(folder: Path, text: str, name: str = "batches", strict: bool = False) -> str:
    """The stub of a module with a text; the module imports what most classes need."""
    path = folder / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + dedent(text), "utf-8")
    found = Stubs(strict).stub(path)
    assert found is not None
    ast.parse(found)
    return found


def test_golden(capsys):
    """The stub beside the golden module is what the command writes; a second run changes nothing."""
    assert main(["stubs", str(GOLDEN), "--check"]) == 0
    assert capsys.readouterr().out == ""


def test_torch_is_not_imported():
    """Stubs are made of the text alone; torch is not loaded for them."""
    code = (
        "import sys; from tensorclass.cli import main; status = main(sys.argv[1:]); "
        "sys.exit(status or 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, "stubs", str(GOLDEN), "--check"], check=False)
    assert done.returncode == 0


def test_nothing_is_executed(tmp_path):
    """A module that raises when it is imported has a stub."""
    found = stub(tmp_path, "raise RuntimeError\n@tensorclass\nclass A:\n    x: Tensor\n")
    assert "raise" not in found
    assert "class A(_t.Declared, TensorClass):" in found


def test_parents_in_other_modules(tmp_path):
    """A class is typed by a parent from another file, followed through a package's re-export; the checker then makes
    the constructor of what it knows of both.
    """
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "__init__.py").write_text("from ._base import Base\n", "utf-8")
    (tmp_path / "data" / "_base.py").write_text(HEAD + "@tensorclass\nclass Base:\n    x: Tensor\n", "utf-8")
    found = stub(tmp_path, "from data import Base\n\nclass Child(Base):\n    y: Tensor\n")
    assert "class Child(Base):\n    y: Tensor\n" in found
    assert "__init__" not in found
    relative = stub(
        tmp_path, "from . import _base as b\n@tensorclass\nclass Child(b.Base):\n    y: Tensor\n", "data/child"
    )
    assert "class Child(b.Base):\n    y: Tensor\n" in relative


def test_names_under_which_the_decorator_is_known(tmp_path):
    """Aliases of names and of the package; the base class is imported where the module has no name for it."""
    path = tmp_path / "batches.py"
    path.write_text("import tensorclass as tc\n\n@tc.tensorclass(frozen=True)\nclass A:\n    x: int\n", "utf-8")
    found = Stubs().stub(path)
    assert found is not None
    assert "from tensorclass import TensorClass as _TensorClass" in found
    assert "class A(_t.Frozen, _TensorClass, frozen=True):" in found
    path.write_text("def tensorclass(cls): ...\n\n@tensorclass\nclass A:\n    x: int\n", "utf-8")
    assert Stubs().stub(path) is None


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("x: Tensor", "x: Tensor"),
        ("x: Tensor | None = None", "x: Tensor | None = None"),
        ("x: 'Later'", "x: 'Later'"),
        ("x: dict[str, int] = field(default_factory=dict)", "x: dict[str, int] = field(default_factory=dict)"),
        ("x: int = field(default=3, kw_only=True)", "x: int = field(default=3, kw_only=True)"),
        ("x: int = 3\n    y: Tensor", "x: int = 3"),
        ("names: Tensor", "names: Tensor"),
        ("x: Tensor = produced()", "x: Tensor = produced()"),
        ("x: ClassVar[int] = 3", "x: ClassVar[int] = 3"),
        ("x: PerElement[str] = ''", "x: PerElement[str] = ..."),
        ("x: Ragged[Tensor, 't'] = field(kw_only=True)", "x: _t.RaggedTensor = field(kw_only=True)"),
        (
            "x: PerElement[str] | None = None",
            "x: _t.Stored[_t.PerElementValues[str] | None, _t.PerElementGiven[str] | None] = ...",
        ),
        (
            "x: PerElement[str] | None = field(default=None, kw_only=True)",
            "x: _t.Stored[_t.PerElementValues[str] | None, _t.PerElementGiven[str] | None] = "
            "field(default=None, kw_only=True)",
        ),
        ("x: Optional[Ragged[Tensor, 't']]", "x: _t.Stored[_t.RaggedTensor | None, _t.RaggedGiven | None]"),
    ],
)
def test_fields(tmp_path, line, written):
    """A field is what it takes and gives; the checker makes the constructor of these, so that both have one name."""
    head = "from typing import ClassVar, Optional\nfrom tensorclass import PerElement, Ragged\n"
    found = stub(tmp_path, f"{head}@tensorclass\nclass A:\n    {line}\n")
    assert f"    {written}\n" in found
    assert "__init__" not in found


def test_own_methods_stay(tmp_path):
    """A constructor and an access by key that the user wrote are not replaced."""
    text = """
    class A(TensorClass):
        x: Tensor
        def __init__(self, n: int) -> None: pass
        def get(self, key: str) -> int: return 3
    """
    found = stub(tmp_path, text)
    assert found.count("def __init__") == found.count("def get(") == 1


def test_replace(tmp_path):
    """`replace` takes the stored fields, unless the class has one of its own, has no field or is generic."""
    text = """
    from dataclasses import InitVar
    from typing import Generic, TypeVar
    T = TypeVar("T")
    class A(TensorClass):
        x: Tensor
        made: Tensor = produced()
        seed: InitVar[int] = 0
    class Own(A):
        def replace(self, *args: object) -> "Own": ...
    class Other(TensorClass):
        replace: Tensor
    class Pair(TensorClass, Generic[T]):
        left: T
    class Empty(TensorClass):
        seed: InitVar[int] = 0
    """
    found = stub(tmp_path, text)
    taken = found[found.index("def replace(") : found.index(") -> A: ...")]
    assert ("x: Tensor = ...," in taken, "made: Tensor = ...," in taken, "seed" in taken) == (True, True, False)
    assert found.count("_t.changed") == 1


def test_strict_keys(tmp_path):
    """With strict keys a string is the name of a field in every overload but that with a default."""
    text = "@tensorclass\nclass A:\n    x: Tensor\n    note: str\n"
    assert "_t.OtherSubscript" not in stub(tmp_path, text)
    strict = stub(tmp_path, text, strict=True)
    assert "_t.Subscript" not in strict
    assert 'def set(self, key: _Literal["note"], item: str,' in strict
    assert 'def __setitem__(self, index: _Literal["note"], value: str)' in strict
    nested = """
    from elsewhere import Other
    class C(TensorClass):
        x: Tensor
    class B(TensorClass):
        c: C
    class A(TensorClass):
        b: B
        other: Other | None
    """
    paths = stub(tmp_path, nested, strict=True)
    assert 'index: tuple[_Literal["b"], _Literal["c"], _Literal["x"]]) -> Tensor: ...' in paths
    assert 'index: tuple[_Literal["other"], _t.Unpack[tuple[_Any, ...]]]) -> _Any: ...' in paths
    assert "_t.Unpack" not in stub(tmp_path, nested)
    frozen = stub(tmp_path, f"{text}\n\nclass B(A, frozen=True): pass\nclass C(B):\n    y: Tensor\n", strict=True)
    assert frozen.count("def __setitem__") == strict.count("def __setitem__")


def test_declared_bases(tmp_path):
    """A class without typed parents says that it has nothing in common with others; one that may have some does not."""
    text = """
    from abc import ABC
    from elsewhere import Mixin
    class Empty(TensorClass, ABC): pass
    class A(TensorClass):
        x: Tensor
    class B(A): pass
    class Mixed(Mixin, TensorClass):
        x: Tensor
    class Still(TensorClass, frozen=True):
        x: Tensor
    """
    found = stub(tmp_path, text)
    heads = re.findall(r"class (\w+)\(_t.Declared, ", found)
    assert (heads, found.count("def __exactly__")) == (["Empty", "A"], 2)


def test_references_with_strict_keys(tmp_path):
    """A tensor field is a reference with its name, and a class says the names that the input of a pipeline has."""
    text = """
    from elsewhere import Other
    class A(TensorClass):
        x: Float32[Tensor, "3"]
        made: Tensor = produced()
        maybe: Tensor | None = None
        note: str
    class Shadow(TensorClass, shadow=True):
        x: Tensor
    class Far(Other, A):
        y: Tensor
    """
    found = stub(tmp_path, "from tensorclass.typing import Float32\n" + dedent(text), strict=True)
    assert '    x: _t.Field[Float32[Tensor, "3"], _Literal["x"]]\n' in found
    assert '    made: _t.Field[Tensor, _Literal["made"]] = produced()\n' in found
    assert found.count("_t.Field[") == 3
    assert re.findall(r"def __delattr__\(self, name: (.+), /\)", found) == [
        '_Literal["x", "maybe", "note"]',
        '_Literal["x"]',
        "str",
    ]
    assert "_t.Field" not in stub(tmp_path, dedent(text))


def test_overloads_lose_their_body(tmp_path):
    """In a stub no implementation stands behind overloads; a setter has the name of its property and stays."""
    text = """
    from typing import overload
    @overload
    def f(x: int) -> int: ...
    @overload
    def f(x: str) -> str: ...
    def f(x): return x

    class A(TensorClass):
        x: Tensor
        @property
        def y(self) -> int: return 3
        @y.setter
        def y(self, value: int) -> None: pass
    """
    found = stub(tmp_path, text)
    assert found.count("def f(") == 2
    assert found.count("def y(") == 2


def test_odd_heads_and_annotations(tmp_path):
    """A default that looks like the end of the head, comments between head and body, brackets around an annotation."""
    text = """
    import re

    def f(pat=re.compile(r"(?:#\\s*)?$").match):  # pyright: ignore[reportUnknown]
        # a comment
        return pat

    async def g(
        x: int,  # one: two
        y: str = ":",
    ) -> None: x; y

    class A(TensorClass):
        x: Tensor

    class B:
        def __init__(self, a: int, b) -> None:
            self.a, self.b = a, b
            self.c: (
                int
                | None
            ) = None
    """
    found = stub(tmp_path, text)
    assert 'def f(pat=re.compile(r"(?:#\\s*)?$").match): ...  # pyright: ignore[reportUnknown]\n' in found
    assert 'async def g(\n    x: int,  # one: two\n    y: str = ":",\n) -> None: ...\n' in found
    assert "    c: int | None\n" in found


def test_watch(tmp_path, monkeypatch):
    """`--watch` writes when a module has changed, and ends when it is interrupted."""
    module = tmp_path / "a.py"
    module.write_text(HEAD + "@tensorclass\nclass A:\n    x: Tensor\n", "utf-8")
    looks: list[str] = []

    def sleep(seconds: float) -> None:
        looks.append(module.with_suffix(".pyi").read_text("utf-8"))
        if len(looks) == 2:
            raise KeyboardInterrupt
        module.write_text(HEAD + "@tensorclass\nclass B:\n    x: Tensor\n", "utf-8")
        os.utime(module, ns=(1, 1))

    monkeypatch.setattr(_stubs.time, "sleep", sleep)
    assert main(["stubs", str(module), "--watch"]) == 0
    assert ["class A(" in text for text in looks] == [True, False]
    assert "class B(" in looks[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"class A(\n", "line 1: '(' was never closed"),
        (b"x = '\xff'\n", "invalid or missing encoding declaration"),
        (b"x\0", "null bytes"),
    ],
)
def test_broken_source(tmp_path, capsys, text, message):
    """Broken source is an error with its place; a stub that is there stays as it is, and other files are written."""
    (tmp_path / "a.py").write_bytes(text)
    (tmp_path / "a.pyi").write_text(f"{MARK} a.py\n", "utf-8")
    (tmp_path / "b.py").write_text(HEAD + "@tensorclass\nclass B:\n    x: Tensor\n", "utf-8")
    assert main(["stubs", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err
    assert (tmp_path / "a.pyi").read_text("utf-8") == f"{MARK} a.py\n"
    assert (tmp_path / "b.pyi").is_file()
    with pytest.raises(StubError):
        Stubs().stub(tmp_path / "a.py")


def test_check_and_write(tmp_path, capsys):
    """`--check` shows what is not fresh and writes nothing; writing twice is writing once."""
    module = tmp_path / "a.py"
    module.write_text(HEAD + "@tensorclass\nclass A:\n    x: Tensor\n", "utf-8")
    assert main(["stubs", str(module), "--check"]) == 1
    assert "+class A(_t.Declared, TensorClass):" in capsys.readouterr().out
    assert not module.with_suffix(".pyi").exists()
    assert main(["stubs", str(module)]) == 0
    assert "wrote" in capsys.readouterr().out
    assert main(["stubs", str(module)]) == main(["stubs", str(tmp_path), "--check"]) == 0
    assert capsys.readouterr().out == ""
    module.write_text("x = 3\n", "utf-8")
    assert main(["stubs", str(module), "--check"]) == 1
    assert "declares no typed class any more" in capsys.readouterr().err


def test_a_stub_of_somebody_else_stays(tmp_path, capsys):
    """A stub that was not written by this command is not replaced."""
    (tmp_path / "a.py").write_text(HEAD + "@tensorclass\nclass A:\n    x: Tensor\n", "utf-8")
    (tmp_path / "a.pyi").write_text("x: int\n", "utf-8")
    assert main(["stubs", str(tmp_path)]) == 1
    assert "was not written by" in capsys.readouterr().err
    assert (tmp_path / "a.pyi").read_text("utf-8") == "x: int\n"


def test_a_folder_of_stubs(tmp_path):
    """Below `--out` a stub stands under the dotted name of its module."""
    package = tmp_path / "project" / "data"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(HEAD + "@tensorclass\nclass A:\n    x: Tensor\n", "utf-8")
    assert module_name(package / "__init__.py") == "data"
    assert main(["stubs", str(tmp_path / "project"), "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "data" / "__init__.pyi").read_text("utf-8")
    assert "from torch import Tensor as Tensor" in text  # the names of a package without `__all__` are public


@pytest.mark.parametrize("arguments", [[], ["--torch"], ["no/such/folder"]])
def test_wrong_arguments(arguments, capsys):
    """Nothing to do, no folder for the overlay, and a path that is not there, are said in a line."""
    assert main(["stubs", *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_frozen_classes_refuse():
    """The stub of a frozen class refuses methods that there are, and that the plugin knows as writes."""
    mixin = {name: getattr(_stub_types.Frozen, name) for name in dir(_stub_types.Frozen)}
    methods = {name for name in mixin if name.endswith("item__") or name.startswith("__i")}
    refused = {name for name, value in mixin.items() if isinstance(value, _stub_types.Refused)}
    names = {*refused, *methods} - {"__init_subclass__", "__init__"}
    assert names >= IN_PLACE
    assert {name for name in names if not hasattr(TensorClass, name)} == set()
    writes = {*_access.ALWAYS_WRITE, *IN_PLACE}
    assert {n for n in names - writes if n.startswith("_") or not n.endswith("_") or n in _access.NO_WRITES} == set()
