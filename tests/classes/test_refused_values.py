"""Values that were taken and wrong: numbers that JSON does not have, sizes that are none, mappings without an end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from pydantic import BaseModel, TypeAdapter, ValidationError
from torch import Tensor

import tensorclass
from tensorclass import PerElement, Ragged, TensorClass, TensorDict, field, schema
from tensorclass.classes._conveniences import Conveniences
from tensorclass.classes._errors import SYNONYMS
from tensorclass.errors import BatchSizeError, SchemaError, StructureError, UnknownFieldError
from tensorclass.ops._by_row import RowOps
from tensorclass.typing import Complex64, Float, Float16, Float32, Float64, Int8, Int64, UInt8


class Inner(TensorClass):
    f: Float32[Tensor, "2"]


class Every(TensorClass):
    f16: Float16[Tensor, ""] | None = None
    f32: Float32[Tensor, ""] | None = None
    f64: Float64[Tensor, ""] | None = None
    any_float: Float[Tensor, ""] | None = None
    plain: Tensor | None = None
    i8: Int8[Tensor, ""] | None = None
    u8: UInt8[Tensor, ""] | None = None
    i64: Int64[Tensor, ""] | None = None
    c: Complex64[Tensor, ""] | None = None
    ragged: Ragged[Tensor, "t"] | None = None
    number: float = 0.0
    whole: int = 0
    numbers: list[float] = field(default_factory=list)
    table: dict[str, float] = field(default_factory=dict)
    each: PerElement[float] | None = None
    inner: Inner | None = None


class Quick(TensorClass):
    f: Float32[Tensor, ""]


class Model(BaseModel):
    every: Every


WHERE = {
    "f16": "[{}]", "f32": "[{}]", "f64": "[{}]", "any_float": "[{}]", "plain": "[{}]", "i8": "[{}]", "i64": "[{}]",
    "c": "[[1, {}]]", "ragged": "[[1, {}]]", "number": "{}", "numbers": "[1, {}]", "table": '{{"a": {}}}',
    "each": "[{}]", "inner": '{{"f": [[1, {}]]}}', "f32 ": '{{"dtype": "float32", "shape": [1], "data": [{}]}}',
    "whole": "{}",
}  # fmt: skip
DOORS: dict[str, Callable[[str], Any]] = {
    "from_json": Every.from_json,
    "adapter": TypeAdapter(Every).validate_json,
    "model": lambda text: Model.model_validate_json(f'{{"every": {text}}}'),
}


@pytest.mark.parametrize(
    "number", ["1e999", "-1e999", "NaN", "Infinity", "-Infinity", "9" * 400 + ".0"], ids=lambda n: n[:9]
)
@pytest.mark.parametrize("place", WHERE)
@pytest.mark.parametrize("door", DOORS)
def test_numbers_that_json_does_not_have(door: str, place: str, number: str) -> None:
    """A number too large for a float was infinity in silence; nan and infinities are words in JSON."""
    text = f'{{"{place.strip()}": {WHERE[place].format(number)}, "batch_size": [1]}}'
    with pytest.raises((SchemaError, ValidationError)) as caught:
        DOORS[door](text)
    assert place.strip() in str(caught.value)
    assert "is not a JSON number" in str(caught.value)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("place", ["f16", "f32", "f64", "any_float", "plain", "c", "ragged", "number", "each", "inner"])
def test_the_words_for_them_are_read(place: str, word: str) -> None:
    """As `to_json` writes them."""
    quoted = WHERE[place].format(f'"{word}"')
    Every.from_json(f'{{"{place}": {quoted}, "batch_size": [1]}}')
    Quick.from_json(f'{{"f": ["{word}"]}}')


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("f16", "70000"),
        ("f16", "1e5"),
        ("f32", "1e39"),
        ("f32", "-1e300"),
        ("i8", "128"),
        ("i8", "-129"),
        ("u8", "256"),
        ("u8", "-1"),
        ("i64", "9223372036854775808"),
        ("i64", "1e19"),
        ("i64", "1.5"),
        ("i8", "0.1"),
        ("i64", "123456789012345678901234567890"),
        ("f64", "1" * 400),
        ("c", "1"),
        ("whole", "1.5"),
    ],
)
def test_numbers_that_the_declared_dtype_lacks(name: str, number: str) -> None:
    """Too large, and floats for integers: the error names the field."""
    text = WHERE.get(name, "[{}]").replace("[[", "[").replace("]]", "]").replace("{}", number) if name != "c" else "[1]"
    with pytest.raises(SchemaError) as caught:
        Every.from_json(f'{{"{name}": {text}}}')
    assert caught.value.problems[0].path == name


def test_python_values_keep_infinities() -> None:
    """Lists and numbers that did not come through JSON may hold them."""
    assert Every.from_dict({"f32": torch.tensor([float("inf")])}).f32.isinf().all()  # type: ignore[union-attr]
    assert TypeAdapter(Quick).validate_python({"f": [float("inf")]}).f.isinf().all()
    assert Every(number=float("nan"), batch_size=[]).number != 0


# ---- batch sizes -------------------------------------------------------------------------------------------------

NO_SIZES = [
    [True],
    True,
    (2, False),
    {2},
    frozenset({2}),
    {},
    {2: 3},
    "",
    "2",
    b"ab",
    b"",
    bytearray(b"a"),
    [2.0],
    [None],
    [-1],
    [[2]],
    (n for n in [2]),
]
SIZED: dict[str, Callable[[Any], Any]] = {
    "constructor": lambda size: Quick(torch.zeros(2), batch_size=size),
    "from_dict": lambda size: Quick.from_dict({"f": torch.zeros(2)}, batch_size=size),
    "setter": lambda size: setattr(Quick(torch.zeros(2)), "batch_size", size),
    "example": Quick.example,
    "untyped": lambda size: TensorDict(f=torch.zeros(2), batch_size=size),
}


@pytest.mark.parametrize("size", NO_SIZES, ids=lambda size: repr(size).partition(" at 0x")[0])
@pytest.mark.parametrize("door", SIZED)
def test_what_is_no_batch_size(door: str, size: Any) -> None:
    """Booleans, sets, mappings, texts and what can be read once only."""
    with pytest.raises(BatchSizeError):
        SIZED[door](size)


@pytest.mark.parametrize("size", [2, [2], (2,), torch.Size([2]), torch.tensor([2]), range(2, 3)], ids=repr)
@pytest.mark.parametrize("door", SIZED)
def test_what_is_a_batch_size(door: str, size: Any) -> None:
    """An int, or a sequence of them from any library."""
    SIZED[door](size)


# ---- mappings without an end -------------------------------------------------------------------------------------


class Node(TensorClass):
    x: Float32[Tensor, ""]
    next: Node | None = None
    meta: dict[str, Any] | None = None
    corner: TensorDict | None = None


def _ring(key: str) -> dict[str, Any]:
    ring: dict[str, Any] = {"x": torch.zeros(2)}
    ring[key] = ring
    return ring


def _list_ring() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


ENDLESS: dict[str, Callable[[], Any]] = {
    "Node.from_dict": lambda: Node.from_dict(_ring("next")),
    "corner": lambda: Node.from_dict(_ring("corner")),
    "constructor": lambda: Node(torch.zeros(2), next=_ring("next")),  # type: ignore[arg-type]
    "from_any": lambda: Node.from_any(_ring("next")),
    "from_tensordict": lambda: Node.from_tensordict(_ring("next")),
    "setter": lambda: setattr(Node(torch.zeros(2)), "next", _ring("next")),
    "update": lambda: Node(torch.zeros(2)).update({"next": _ring("next")}),
    "replace": lambda: Node(torch.zeros(2)).replace(next=_ring("next")),
    "adapter": lambda: TypeAdapter(Node).validate_python(_ring("next")),
    "TensorDict": lambda: TensorDict(_ring("a")),
    "TensorDict.from_dict": lambda: TensorDict.from_dict(_ring("a")),
    "TensorDict.from_any": lambda: TensorDict.from_any(_ring("a")),
    "TensorDict.set": lambda: TensorDict(x=torch.zeros(2)).set("a", _ring("a")),
    "TensorDict.update": lambda: TensorDict(x=torch.zeros(2)).update(_ring("a")),
    "from_dict": lambda: tensorclass.from_dict(_ring("a")),
    "list": lambda: TensorDict(a=_list_ring()),
    "to_json": lambda: Node(torch.zeros(2), meta=_ring("a")).to_json(),
}


@pytest.mark.parametrize("door", ENDLESS)
def test_a_mapping_that_contains_itself(door: str) -> None:
    """An error of ours, and a short one, wherever it goes in."""
    with pytest.raises((StructureError, SchemaError, ValidationError)) as caught:
        ENDLESS[door]()
    assert len(str(caught.value)) < 1000


# ---- names that other libraries use ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SYNONYMS)
def test_synonyms_say_what_is_meant(name: str) -> None:
    """And none of them is a name that a batch has."""
    batch = Quick(torch.zeros(2))
    assert not hasattr(batch, name)
    with pytest.raises(AttributeError) as caught:
        getattr(batch, name)
    assert not name.startswith("_") or isinstance(caught.value, UnknownFieldError)
    assert "you may look for" in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["omit", "drop", "asdict", "model_dump", "save", "concat", "schema", "to_numpy", "append", "columns", "fields"],
)
def test_words_that_people_try(name: str) -> None:
    """The usual ones are known, or exist."""
    assert name in SYNONYMS or hasattr(Quick, name)


@pytest.mark.parametrize("name", ["wibble", "do_it", "train", "x1", "rows", "network", "q", "loss"])
def test_silence_below_a_useful_likeness(name: str) -> None:
    """Of hundreds of methods some are like any word."""
    with pytest.raises(UnknownFieldError) as caught:
        getattr(Quick(torch.zeros(2)), name)
    assert "did you mean" not in str(caught.value)
    assert "look for" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "meant"), [("reshpae", "reshape"), ("unsqueze", "unsqueeze"), ("clon", "clone"), ("ff", "f")]
)
def test_slips_are_told(name: str, meant: str) -> None:
    """A slip in the name of a method or field."""
    with pytest.raises(UnknownFieldError, match=f"did you mean `{meant}`"):
        getattr(Quick(torch.zeros(2)), name)


# ---- whole paths -------------------------------------------------------------------------------------------------


class Leaf(TensorClass):
    v: Float32[Tensor, "2"]
    tags: PerElement[int] | None = None


class Branch(TensorClass):
    leaf: Leaf


class Tree(TensorClass):
    branch: Branch


BAD = {"branch": {"leaf": {"v": torch.zeros(3, 9)}}}
PATHS: dict[str, tuple[Callable[[], Any], str]] = {
    "from_dict": (lambda: Tree.from_dict(BAD), "branch.leaf.v"),
    "from_json": (lambda: Tree.from_json('{"branch": {"leaf": {"v": [["a"]]}}}'), "branch.leaf.v"),
    "records": (lambda: Tree.from_json('[{"branch": {"leaf": {"v": ["a", 1]}}}]'), "branch.leaf.v"),
    "from_tensordict": (lambda: Tree.from_tensordict(TensorDict(BAD, batch_size=[3])), "branch.leaf.v"),
    "set": (lambda: tree().set(("branch", "leaf", "v"), torch.zeros(3, 9)), "branch.leaf.v"),
    "update": (lambda: tree().update(BAD), "branch.leaf.v"),
    "extra": (lambda: Tree.from_dict({"branch": {"leaf": {"v": torch.zeros(3, 2), "w": 1}}}), "branch.leaf.w"),
    "missing": (lambda: Tree.from_dict({"branch": {"leaf": {}}}), "branch.leaf.v"),
    "list": (
        lambda: Tree.from_dict({"branch": {"leaf": {"v": torch.zeros(3, 2), "tags": [1, "a", 3]}}}),
        "branch.leaf.tags[1]",
    ),
}  # fmt: skip


def tree() -> Tree:
    """Three elements."""
    return Tree(Branch(Leaf(torch.zeros(3, 2))))


@pytest.mark.parametrize("door", PATHS)
def test_problems_have_the_whole_path(door: str) -> None:
    """From the instance that was made or written down to the field, and to the place in a list."""
    call, path = PATHS[door]
    with pytest.raises(SchemaError) as caught:
        call()
    assert [problem.path for problem in caught.value.problems] == [path]
    assert schema(Tree).names == ("branch",)


ROOM = {
    *vars(RowOps), *vars(Conveniences),
    "attrs", "depth", "distribute", "entry_class", "local", "param_count", "separates", "whole",
}  # fmt: skip
"""What makes room for a field of its name."""
PUBLIC = sorted(name for name in dir(Quick) if not name.startswith("_") and name != "f")


def test_fields_under_names_that_every_batch_has() -> None:
    """All of them are refused without `shadow`, those of files and of modules too, but for what makes room."""
    taken = []
    for name in [name for name in PUBLIC if name not in ROOM]:
        with contextlib.suppress(SchemaError):
            tensorclass.tensorclass(type("Hiding", (), {"__annotations__": {name: Tensor}, "__module__": __name__}))
            taken.append(name)
    assert len(PUBLIC) > 200
    assert taken == []
