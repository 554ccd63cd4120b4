"""Names go into generated source: at every door that makes a class, a name is a name and no code."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tensorclass as package
from tensorclass import Schema, TensorClass, TypedTensorDict, field, merge, omit, partial, pick, schema, tensorclass
from tensorclass.cli._main import main
from tensorclass.errors import BuildError, SchemaError
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Shape

RAN: list[str] = []
CODE = "__import__('builtins').ran()"
HOSTILE = [
    f"x={CODE}", f"x):\n    {CODE}\ndef y(", f"x: {CODE}", f"*_, x={CODE}", f"x\n{CODE}", "class", "None", "lambda",
    "a b", "", " x", "x ", "1a", "x.y", "x;y", "x\0", "x\n", "\ufb01", "\uff58", "\u00b5", 5, b"x", ("a", "b"), None,
]  # fmt: skip
ENGLISH = ["match", "case", "locals", "print", "self", "cls", "\u00e9t\u00e9", "\u03bc", "args", "Input", "M", "batch"]


@pytest.fixture(autouse=True)
def _watched(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(builtins, "ran", lambda: RAN.append("ran"), raising=False)
    RAN.clear()
    yield
    assert RAN == []


def _annotated(name: Any, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"__annotations__": {"first": Tensor, name: Tensor}, "__module__": __name__, **(extra or {})}


def _by_dataclass(name: Any) -> Any:
    made = dataclasses.make_dataclass("Data", [("first", Tensor)])
    item = dataclasses.field()
    item.name, item.type = name, Tensor
    item._field_type = dataclasses._FIELD  # type: ignore[attr-defined]  # what no source could write
    made.__dataclass_fields__[name] = item
    return package.from_dataclass(made)


def _by_entries(name: Any) -> Any:
    entries = schema(Known).to_dict()
    entries["fields"][0]["name"] = name
    return Schema.from_dict(entries)


def _by_renamed(name: Any) -> Any:
    class Renamed(TensorClass):
        x: Tensor = field(renamed_from=name)

    return Renamed


class Known(TensorClass):
    first: Tensor
    second: Tensor


def _init_var(name: Any) -> Any:
    extra = {"__post_init__": lambda self, *args: None}
    annotations = {"first": Tensor, name: dataclasses.InitVar[int]}
    return type(TensorClass)("Made", (TensorClass,), {**_annotated("x", extra), "__annotations__": annotations})


DOORS: dict[str, Callable[[Any], Any]] = {
    "base": lambda name: type(TensorClass)("Made", (TensorClass,), _annotated(name)),
    "new_class": lambda name: types.new_class("Made", (TensorClass,), {}, lambda ns: ns.update(_annotated(name))),
    "decorator": lambda name: tensorclass(type("Made", (), _annotated(name))),
    "shadow": lambda name: tensorclass(shadow=True)(type("Made", (), _annotated(name))),
    "inherited": lambda name: type(Known)("Made", (Known,), _annotated(name)),
    "init var": _init_var,
    "declared keys": lambda name: type("Made", (TypedTensorDict,), _annotated(name)),
    "dataclass": _by_dataclass,
    "schema from a dict": _by_entries,
    "renamed_from": _by_renamed,
}


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
@pytest.mark.parametrize("door", DOORS)
def test_a_hostile_name_makes_no_class(door: str, name: Any) -> None:
    """The error names what was given; nothing of it runs."""
    if door == "renamed_from" and isinstance(name, tuple):
        return  # several names
    with pytest.raises((SchemaError, TypeError), match=r"name|string") as caught:
        DOORS[door](name)
    assert not isinstance(caught.value, SyntaxError)


@pytest.mark.parametrize("name", ENGLISH)
@pytest.mark.parametrize("door", [door for door in DOORS if door not in ("schema from a dict", "renamed_from")])
def test_names_of_python_are_names_of_fields(door: str, name: str) -> None:
    """Soft keywords, builtins and the words of generated code are fine, other alphabets too."""
    made = DOORS[door](name)
    values = {"first": torch.zeros(2), name: 3 if door == "init var" else torch.ones(2)}
    if door == "inherited":
        values["second"] = torch.zeros(2)
    batch = made(**values, batch_size=[2])
    if door != "init var":
        assert torch.equal(getattr(batch, name), torch.ones(2))


def test_twenty_fields_one_of_them_named_locals() -> None:
    """Wide constructors hand their arguments over by `locals()`; a field of that name is not called."""
    names = ["locals", *(f"x{i}" for i in range(20))]
    made: Any = type(TensorClass)("Wide", (TensorClass,), {"__annotations__": dict.fromkeys(names, Tensor)})
    batch = made(**{name: torch.zeros(3) for name in names}, batch_size=[3], device="cpu")
    assert batch.locals.shape == (3,)


@pytest.mark.parametrize("name", ["_build", "_self", "_Tensor", "_x", "batch_size", "device", "names"])
def test_init_vars_keep_out_of_the_generated_names(name: str) -> None:
    """A pseudo-field is an argument of the same constructor."""
    with pytest.raises(SchemaError, match="every batch uses itself"):
        _init_var(name)


@pytest.mark.parametrize("name", ["lock", "non_blocking", "batch_size", "device", "names", "_x", "__class__"])
def test_declared_keys_are_no_arguments_of_the_constructor(name: str) -> None:
    """They would be taken for the argument, also with `shadow`."""
    for shadow in (True, False):
        with pytest.raises(AttributeError, match="another name"):
            types.new_class("Made", (TypedTensorDict,), {"shadow": shadow}, lambda ns: ns.update(_annotated(name)))


@pytest.mark.parametrize("name", [name for name in HOSTILE if isinstance(name, str)], ids=repr)
def test_hostile_dims(name: str) -> None:
    """Dims go into generated constructors as well; what is not in the grammar is refused, spaces separate dims."""
    for text in (f"h {name}", f"h *{name}", f"h 2*{name}"):
        try:
            spec = Shape(text)
        except SchemaError:
            continue
        assert all(part.isidentifier() for part in spec.dims.names)
        body = {"__annotations__": {"x": Float32[Tensor, text]}, "__module__": __name__}
        made: Any = type(TensorClass)("Made", (TensorClass,), body)
        with pytest.raises(SchemaError):
            made(x=torch.zeros(3, dtype=torch.int64))


def test_two_spellings_of_one_dim_name() -> None:
    """Python reads both as one name, so that a generated constructor would bind it twice and compare nothing."""
    for text in ("\ufb01", "2*\ufb01", "*\ufb01", "\uff58+1"):
        with pytest.raises(SchemaError, match="which is another text"):
            Shape(text)


@pytest.mark.parametrize("name", [name for name in HOSTILE if isinstance(name, str) and "\0" not in name], ids=repr)
def test_names_of_classes_and_modules_run_nothing(name: str) -> None:
    """They stand in titles and file names of generated source only, so any text will do."""
    body = {"__annotations__": {"x": Float32[Tensor, "n"]}, "__module__": name or "m", "__qualname__": name or "Q"}
    made: Any = type(TensorClass)(name or "Made", (TensorClass,), body)
    batch = made(x=torch.zeros(2, 3))
    assert batch.batch_size == (2,)
    for other in (pick(made, "x", name=name), partial(made, name=name), merge(made, Known, name=name)):
        assert "x" in schema(other).names
    assert schema(omit(merge(made, Known), "x")).names == ("first", "second")
    assert repr(batch[0])
    step = TensorClassModule(nn.Identity(), made.x, made.x, update=True)
    assert TensorClassSequential(step, input=made, output=made)(batch).batch_size == (2,)


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_parameters_and_modules_of_pipelines(name: Any) -> None:
    """The names of parameters and modules go into the generated forward."""
    with pytest.raises(BuildError):
        TensorClassModule(lambda x: x, {name: Known.first}, Known.second)
    if not (name is None or (isinstance(name, str) and name.isidentifier())):
        with pytest.raises(BuildError):
            TensorClassModule(nn.Identity(), Known.first, Known.second, name=name)


class Odd(nn.Module):
    """Methods whose own names are others than those of their attributes."""

    twice = lambda self, x: 2 * x  # noqa: E731  # its own name is `<lambda>`

    def thrice(self, x: Tensor) -> Tensor:
        """Three times."""
        return 3 * x


Odd.thrice.__name__ = f"{CODE}.x"


class Place(TensorClass):
    b_c: Float32[Tensor, "2"]


class Other(TensorClass):
    c: Float32[Tensor, "3"]


class Alike(TensorClass):
    x: Float32[Tensor, "2"]
    y: Float32[Tensor, "3"]


class Nest(TensorClass):
    a: Place
    a_b: Other


def test_methods_are_called_by_their_attribute() -> None:
    """The name that a function gives itself goes nowhere."""
    odd = Odd()
    for method, factor in ((odd.twice, 2), (odd.thrice, 3)):
        pipeline = TensorClassSequential(
            TensorClassModule(method, Alike.x, Place.b_c), input=Alike, output=Place, probe=False
        )
        assert torch.equal(pipeline(Alike(torch.ones(4, 2), torch.ones(4, 3))).b_c, torch.full((4, 2), float(factor)))
    stray = types.MethodType(lambda self, x: x, odd)
    with pytest.raises(BuildError, match="no attribute"):
        TensorClassSequential(TensorClassModule(stray, Alike.x, Place.b_c), input=Alike, output=Place, probe=False)


def test_paths_that_read_alike_when_joined() -> None:
    """`a.b_c` and `a_b.c` are two places, whose classes are made under two names."""
    pipeline = TensorClassSequential(
        TensorClassModule(nn.Identity(), Alike.x, Nest.a.b_c),
        TensorClassModule(nn.Identity(), Alike.y, Nest.a_b.c),
        input=Alike,
        output=Nest,
    )
    out = pipeline(Alike(torch.ones(4, 2), torch.zeros(4, 3)))
    assert (type(out.a), type(out.a_b)) == (Place, Other)


def test_stubs_hold_source_as_it_was_read(tmp_path: Path) -> None:
    """Strings of a source file, hostile ones too, are strings in its stub; the file name is a comment."""
    file = tmp_path / "mod.py"
    file.write_text(
        "from torch import Tensor\nfrom tensorclass import tensorclass\nfrom tensorclass.typing import Float32\n"
        '@tensorclass\nclass A:\n    """Doc\\"\\"\\"\\nimport evil"""\n    x: Float32[Tensor, "3 h"]\n'
        '    s: str = "\\"\\nimport evil\\n"\n'
    )
    assert main(["stubs", str(file), "--out", str(tmp_path / "out")]) == 0
    for made in (tmp_path / "out").rglob("*.pyi"):
        names = [
            alias.name
            for node in ast.walk(ast.parse(made.read_text()))
            if isinstance(node, ast.Import)
            for alias in node.names
        ]
        assert "evil" not in names


def test_every_place_that_runs_text_is_known() -> None:
    """A new `exec`, `eval` or `compile` in the package is looked at, and its names tested here."""
    root = Path(package.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("exec", "eval", "compile")
            ):
                found.add((path.relative_to(root).as_posix(), node.func.id))
    assert found == {
        ("classes/_compile.py", "exec"),
        ("classes/_compile.py", "compile"),  # constructors and forwards
        ("compat/__main__.py", "exec"),
        ("compat/__main__.py", "compile"),  # the program that the user runs
        ("_schema/_scope.py", "eval"),  # annotations that are strings, as `typing.get_type_hints` evaluates them
    }
