"""Wrong programs, one a row: each raises an error that names the field, what was declared and what came.

A row is a name, what the user writes, the errors that a caller may catch, and words that the message must contain.
After each row everything that the program held is as it was.
"""

# ruff: noqa: E501  # a row of the table is one line

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor

from tensorclass import (
    FrozenTensorClass,
    PerElement,
    Shared,
    TensorClass,
    TensorDict,
    cat,
    field,
    produced,
    schema,
    stack,
    tensorclass,
)
from tensorclass.errors import (
    BatchDimError,
    BatchIndexError,
    BatchSizeError,
    CastError,
    DimSyntaxError,
    FieldNotProducedError,
    FrozenError,
    KeyThroughLeafError,
    LockedError,
    MissingKeyError,
    SchemaError,
    StructureError,
    TensorClassError,
    UnknownFieldError,
)
from tensorclass.typing import Bool, Float, Float32, Int64


@tensorclass
class Pose:
    """A nested class."""

    angle: Float32[Tensor, ""]
    axis: Float32[Tensor, "3"]


@tensorclass
class Scene:
    """A field of every kind."""

    image: Float32[Tensor, "h w"]
    label: Int64[Tensor, ""]
    pose: Pose
    who: PerElement[str]
    table: Shared[Float32[Tensor, "k"]]
    mask: Bool[Tensor, "h w"] | None = None
    source: str = "scan"
    mode: Literal["train", "test"] = "train"
    extra: TensorDict | None = None
    hidden: Float32[Tensor, "4"] = produced()


@tensorclass
class Stereo:
    """Fields that must agree."""

    left: Float32[Tensor, "h w"]
    right: Float32[Tensor, "h w"]
    flat: Float32[Tensor, "h*w"]


class Still(FrozenTensorClass):
    """A frozen class."""

    x: Float32[Tensor, "2"]


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Zeros; short for the table."""
    return torch.zeros(shape, dtype=dtype)


def long(*shape: int) -> Tensor:
    """Zeros of int64."""
    return torch.zeros(shape, dtype=torch.int64)


def pose(*size: int) -> Pose:
    """A valid pose."""
    return Pose(zeros(*size), zeros(*size, 3))


def scene(*size: int, **changes: Any) -> Scene:
    """A valid scene but for the changes."""
    valid = {
        "image": zeros(*size, 2, 3), "label": long(*size), "pose": pose(*size), "who": "ann", "table": zeros(5),
        "mask": zeros(*size, 2, 3) > 0, "extra": TensorDict(deep=zeros(*size), batch_size=size), "batch_size": size,
    }  # fmt: skip
    given = {**valid, **changes}
    return Scene(**{name: value for name, value in given.items() if value is not ...})


class World(SimpleNamespace):
    """What a row may use."""

    def __init__(self) -> None:
        self.b: Any = scene(4)
        self.c: Any = scene(2, 3)
        self.locked: Any = scene(4).lock_()
        self.still: Any = Still(zeros(4, 2))
        self.d: Any = TensorDict({"a": zeros(4, 5), "n": {"x": zeros(4)}, "note": "text"}, batch_size=[4])

    def state(self) -> list[Any]:
        """Everything that a failure must leave alone, with copies of the values."""
        return [_state_of(part) for part in (self.b, self.c, self.locked, self.still, self.d)]


def _state_of(part: Any) -> Any:
    keys = list(type(part).keys(part, True))
    leaves = [(id(leaf), leaf.tolist()) for leaf in part._leaves(2)]
    return type(part), keys, leaves, part.batch_size, part.device, part.names, getattr(part, "source", None)


@dataclass(frozen=True)
class Case:
    """One row."""

    name: str
    call: Callable[[Any], Any]
    errors: Any
    words: tuple[str, ...]


CASES: list[Case] = []


def rows(errors: Any, *table: tuple[Any, ...]) -> None:
    """Add rows whose error is the same: name, program, words."""
    CASES.extend(Case(name, call, errors, words) for name, call, *words in table)  # type: ignore[arg-type]  # a row's tail


# ---- constructor -----------------------------------------------------------------------------------------------------

rows(
    (SchemaError, ValueError, TypeError),
    ("float64 for float32", lambda w: scene(4, image=zeros(4, 2, 3, dtype=torch.float64)), "Scene", "image", 'Float32["h w"]', "float64 [4, 2, 3]", ".to(torch.float32)", "Float[...]"),
    ("float for int", lambda w: scene(4, label=zeros(4)), "label", 'Int64[""]', "float32 [4]", ".to(torch.int64)"),
    ("int for float", lambda w: scene(4, image=long(4, 2, 3)), "image", "int64 [4, 2, 3]", ".to(torch.float32)"),
    ("one dim too few", lambda w: scene(4, image=zeros(4, 2)), "image", "float32 [4, 2]", "3 dims are expected, 2 given"),
    ("one dim too many", lambda w: scene(4, image=zeros(4, 1, 2, 3)), "image", "[4, 1, 2, 3]", ".squeeze(1)"),
    ("a column where scalars belong", lambda w: scene(4, label=long(4, 1)), "label", "every element is a scalar", ".squeeze(1)"),
    ("no batch dim", lambda w: scene(4, image=zeros(2, 3)), "image", "it has no batch dims", ".expand(4, 2, 3)"),
    ("a fixed dim", lambda w: Pose(zeros(4), zeros(4, 2)), "axis", 'Float32["3"]', "float32 [4, 2]", "3"),
    ("a dim of another field", lambda w: Stereo(zeros(4, 2, 3), zeros(4, 2, 5), zeros(4, 6)), "right", "`w` is 3", "`left`", "here 5"),
    ("two dims swapped", lambda w: Stereo(zeros(4, 2, 3), zeros(4, 3, 2), zeros(4, 6)), "right", "`h` is 2", "`left`", "here 3"),
    ("an expression", lambda w: Stereo(zeros(4, 2, 3), zeros(4, 2, 3), zeros(4, 7)), "flat", "h*w", "6", "7"),
    ("an optional field's dims", lambda w: scene(4, mask=zeros(4, 3, 2) > 0), "mask", "`h`", "`image`"),
    ("an optional field's dtype", lambda w: scene(4, mask=zeros(4, 2, 3)), "mask", 'Bool["h w"] | None', "float32 [4, 2, 3]"),
    ("another batch size", lambda w: scene(4, label=long(5)), "label", "int64 [5]", "[4]"),
    ("a batch size that was given", lambda w: scene(4, batch_size=[5]), "image", "batch size is [5]", "here [4]"),
    ("a batch size with too many dims", lambda w: scene(4, batch_size=[4, 2]), "image", "batch size is [4, 2]"),
    ("a batch size that was inferred", lambda w: Pose(zeros(4), zeros(3, 3)), "axis", "inferred from `angle`", "here [3]"),
    ("a missing field", lambda w: scene(4, label=...), "label", "nothing", "`label=`"),
    ("every field missing", lambda w: Pose(), "2 problems", "angle", "axis"),
    ("a misspelt field", lambda w: scene(4, imgae=zeros(4, 2, 3)), "imgae", "Scene has no such field", "did you mean `image`"),
    ("an extra field", lambda w: Pose(zeros(4), zeros(4, 3), colour=1), "colour", "its fields are angle, axis"),
    ("None for a required tensor", lambda w: scene(4, image=None), "image", "None", "add `| None` to its declaration"),
    ("None for a required value", lambda w: scene(4, source=None), "source", "str", "None"),
    ("None for a nested class", lambda w: scene(4, pose=None), "pose", "Pose", "None"),
    ("a str where a tensor belongs", lambda w: scene(4, image="image.png"), "image", "str 'image.png'", "pass a tensor"),
    ("a list where a tensor belongs", lambda w: scene(4, label=[1, 2, 3, 4]), "label", "list [1, 2, 3, 4]", "torch.tensor(value, dtype=torch.int64)"),
    ("a tensor where a str belongs", lambda w: scene(4, source=zeros(4)), "source", "str", "tensor float32 [4]", "Float32[Tensor"),
    ("a number where a str belongs", lambda w: scene(4, source=3), "source", "int 3", "string"),
    ("a number that is not exact", lambda w: Pose(torch.tensor(0.5), 0.5), "axis", "Float32"),
    ("a float for an int", lambda w: Scene(**{**vars_of(scene()), "label": 1.5}), "label", "1.5", "torch.int64"),
    ("a value outside a Literal", lambda w: scene(4, mode="walk"), "mode", "'walk'", "'train' or 'test'"),
    ("a dict for a nested class", lambda w: scene(4, pose={"angle": zeros(4), "axis": zeros(4, 3)}), "pose", "dict", "`Pose(**value)`"),
    ("a container for a nested class", lambda w: scene(4, pose=pose(4).to_tensordict()), "pose", "TensorDict of batch size [4]", "`Pose.from_tensordict(value)`"),
    ("another class for a nested class", lambda w: scene(4, pose=Still(zeros(4, 2))), "pose", "Pose", "Still of batch size [4]"),
    ("a nested class of another batch size", lambda w: scene(4, pose=pose(3)), "pose", "Pose of batch size [3]", "[4]"),
    ("a nested class with too few batch dims", lambda w: scene(2, 3, pose=pose(2)), "pose", "batch size is [2, 3]"),
    ("a tensor for a container", lambda w: scene(4, extra=zeros(4)), "extra", "TensorDict", "tensor float32 [4]", "TensorDict(value, batch_size=[4])"),
    ("a typed batch for an untyped container", lambda w: scene(4, extra=pose(4)), "extra", "Pose", ".to_tensordict()"),
    ("a container of another batch size", lambda w: scene(4, extra=TensorDict(batch_size=[3])), "extra", "batch size [3]", "[4]"),
    ("too few values per element", lambda w: scene(4, who=["a", "b"]), "who", "PerElement[str]", "2 values", "pass 4 values"),
    ("values of the wrong nesting", lambda w: scene(2, 3, who=["a", "b"]), "who[0]", "3 values"),
    ("one wrong value per element", lambda w: scene(4, who=["a", "b", 3, "d"]), "who[2]", "int 3", "string"),
    ("a tensor per element", lambda w: scene(4, who=zeros(4)), "who", "tensor float32 [4]", "tolist()"),
    ("a shared tensor of another dtype", lambda w: scene(4, table=long(5)), "table", 'Shared[Float32["k"]]', "int64 [5]"),
    ("a shared tensor with batch dims", lambda w: scene(4, table=zeros(4, 5)), "table", "float32 [4, 5]", "1 dims are expected, 2 given"),
    ("a produced field as an argument", lambda w: scene(4, hidden=zeros(4, 4)), "hidden", "constructor argument", "batch.hidden ="),
    ("several problems at once", lambda w: scene(4, image=long(4, 2, 3), label=None, source=1), "3 problems", "image", "label", "source"),
    ("a list for one value", lambda w: scene(4, source=["a", "b"]), "source", "PerElement[str]"),
)  # fmt: skip
rows(
    (BatchSizeError, TypeError, ValueError),
    ("a negative batch size", lambda w: scene(4, batch_size=[-1]), "batch", "-1"),
    ("a batch size of text", lambda w: scene(4, batch_size="4"), "batch", "'4'"),
    ("a batch size of floats", lambda w: scene(4, batch_size=[4.0]), "batch", "4.0"),
    ("too many names", lambda w: scene(4, names=["time", "lane"]), "names", "time", "lane"),
    ("a name twice", lambda w: scene(2, 3, names=["time", "time"]), "time"),
)  # fmt: skip
rows((RuntimeError, ValueError, TypeError), ("an unknown device", lambda w: scene(4, device="gpu"), "gpu"))


def vars_of(batch: Any) -> dict[str, Any]:
    """The fields of a batch as arguments."""
    return {name: value for name, value in batch.items() if name != "hidden"}


# ---- writes ----------------------------------------------------------------------------------------------------------

rows(
    (SchemaError,),
    ("set another dtype", lambda w: setattr(w.b, "image", zeros(4, 2, 3, dtype=torch.float16)), "Scene", "image", "float16 [4, 2, 3]"),
    ("set another batch size", lambda w: setattr(w.b, "label", long(3)), "label", "int64 [3]", "[4]"),
    ("set a dim that another field holds", lambda w: setattr(w.b, "image", zeros(4, 5, 3)), "image", "`h` is 2", "`mask`", "here 5"),
    ("set None", lambda w: setattr(w.b, "label", None), "label", "None"),
    ("set a str for a tensor", lambda w: setattr(w.b, "label", "seven"), "label", "str 'seven'"),
    ("set a tensor for a str", lambda w: setattr(w.b, "source", zeros(4)), "source", "tensor float32 [4]"),
    ("set another nested class", lambda w: setattr(w.b, "pose", Still(zeros(4, 2))), "pose", "Still"),
    ("set by key", lambda w: w.b.__setitem__("label", zeros(4)), "label", "float32 [4]"),
    ("set below a nested class", lambda w: w.b.__setitem__(("pose", "angle"), long(4)), "angle", "int64 [4]"),
    ("set by reference", lambda w: w.b.set(Scene.label, zeros(4)), "label", "float32 [4]"),
    ("set a produced field wrong", lambda w: setattr(w.b, "hidden", zeros(4, 5)), "hidden", 'Float32["4"]', "float32 [4, 5]"),
    ("update half right", lambda w: w.b.update({"source": "mail", "label": zeros(4)}), "label", "float32 [4]"),
    ("replace", lambda w: w.b.replace(label=zeros(4)), "label", "float32 [4]"),
    ("replace all with another size", lambda w: w.b.__replace__(image=zeros(2, 2, 3), label=long(2)), "batch size is [4]", "image", "label"),
    ("a function that casts", lambda w: w.b.apply(lambda t: t.double()), "pose.angle", "float64 [4]"),
    ("adopt a container that lacks fields", lambda w: Pose.from_tensordict(TensorDict(angle=zeros(4), batch_size=[4])), "axis", "nothing"),
    ("adopt a container with more", lambda w: Pose.from_tensordict(TensorDict(angle=zeros(4), axis=zeros(4, 3), x=zeros(4), batch_size=[4])), "x", "Pose has no such field"),
    ("adopt a container of other dtypes", lambda w: Pose.from_tensordict(TensorDict(angle=long(4), axis=zeros(4, 3), batch_size=[4])), "angle", "int64 [4]"),
    ("adopt a number", lambda w: Pose.from_tensordict(3), "a container", "int 3"),
    ("a batch size that moves event dims", lambda w: setattr(w.c, "batch_size", [2]), "image", "[2]", "reshape"),
)  # fmt: skip
rows(
    (UnknownFieldError, AttributeError),
    ("set an unknown attribute", lambda w: setattr(w.b, "colour", 1), "Scene", "colour", "image"),
    ("set a misspelt attribute", lambda w: setattr(w.b, "lable", 1), "lable", "did you mean `label`"),
    ("read a misspelt attribute", lambda w: w.b.lable, "lable", "did you mean `label`"),
    ("refer to a misspelt field", lambda w: Scene.lable, "lable", "did you mean `label`"),  # type: ignore[attr-defined]  # the point
    ("refer below a nested class", lambda w: Scene.pose.angel, "angel", "did you mean `angle`"),  # type: ignore[attr-defined]  # the point
    ("refer below a tensor", lambda w: Scene.image.height, "Scene.image", "not a tensorclass", "height"),  # type: ignore[attr-defined]  # the point
    ("call a misspelt method", lambda w: w.b.reshpe(2, 2), "reshpe", "did you mean `reshape`"),
)  # fmt: skip
rows(
    (FieldNotProducedError, AttributeError),
    ("read a produced field too early", lambda w: w.b.hidden, "Scene.hidden", "produced()"),
)
rows((FieldNotProducedError, KeyError), ("read it by key", lambda w: w.b["hidden"], "Scene.hidden", "produced()"))
rows(
    (StructureError, RuntimeError),
    ("delete a required field", lambda w: w.b.__delattr__("label"), "Scene.label", 'Int64[""]', "required"),
    ("pop a required field", lambda w: w.b.pop("label"), "label", "required"),
)
rows(
    (MissingKeyError, KeyError),
    ("set an unknown key", lambda w: w.b.set("colour", zeros(4)), "Scene", "colour"),
    (
        "update with an unknown key",
        lambda w: w.b.update({"source": "mail", "lable": long(4)}),
        "lable",
        "did you mean `label`",
    ),
    ("read an unknown key", lambda w: w.b["lable"], "lable", "did you mean `label`"),
    ("write in place something that is not there", lambda w: w.b.update_({"lable": long(4)}), "lable"),
    ("delete an unknown key", lambda w: w.b.del_("lable"), "lable"),
)
rows(
    (KeyThroughLeafError, KeyError, TypeError),
    ("a key through a tensor", lambda w: w.b["image", "x"], "image", "Tensor", "x"),
    ("a key through a value", lambda w: w.b["source", "x"], "source", "str", "x"),
    ("write through a tensor", lambda w: w.b.set(("image", "x"), zeros(4)), "image", "x"),
)

# ---- locked and frozen -----------------------------------------------------------------------------------------------

rows(
    (LockedError, RuntimeError),
    ("set a field of a locked batch", lambda w: setattr(w.locked, "source", "mail"), "source", "this Scene is locked"),
    ("set a key of a locked batch", lambda w: w.locked.set("label", long(4) + 1), "label", "locked"),
    ("set below a locked batch", lambda w: setattr(w.locked.pose, "angle", zeros(4) + 1), "angle", "locked"),
    ("drop a field of a locked batch", lambda w: w.locked.__delattr__("mask"), "mask", "locked"),
    ("resize a locked batch", lambda w: setattr(w.locked, "batch_size", []), "locked"),
)
rows(
    (FrozenError, AttributeError),
    ("set a frozen field", lambda w: setattr(w.still, "x", zeros(4, 2)), "Still is frozen", "x", "replace"),
    ("set a frozen key", lambda w: w.still.set("x", zeros(4, 2)), "Still is frozen", "x"),
    ("write a frozen row", lambda w: w.still.__setitem__(0, w.still[1]), "Still is frozen"),
    ("write a frozen batch in place", lambda w: w.still.zero_(), "Still is frozen"),
    ("add to a frozen batch", lambda w: w.still.__iadd__(1), "Still is frozen"),
    ("update a frozen batch", lambda w: w.still.update_({"x": zeros(4, 2)}), "Still is frozen"),
    ("delete a frozen field", lambda w: w.still.__delattr__("x"), "Still is frozen"),
)

# ---- index, shape, join ----------------------------------------------------------------------------------------------

rows(
    (BatchIndexError, IndexError),
    ("an index past the batch dims", lambda w: w.b[0, 0], "batch", "[4]"),
    ("an index out of range", lambda w: w.b[4], "4"),
    ("a tensor index out of range", lambda w: w.b[torch.tensor([0, 9])], "9"),
    ("a mask of another size", lambda w: w.b[zeros(3) > 0], "3", "4"),
    ("too many dots", lambda w: w.b[..., 0, ...], "..."),
)
rows(
    (TensorClassError, IndexError, TypeError),
    ("an index of floats", lambda w: w.b[0.5], "0.5|float"),
    ("an index of float tensors", lambda w: w.b[zeros(2)], "float"),
)
rows(
    (BatchDimError, IndexError),
    ("a dim past the batch dims", lambda w: w.b.flip(1), "flip", "1"),
    ("a dim of the features", lambda w: w.b.unbind(-2), "unbind", "-2"),
    ("a stack past the batch dims", lambda w: torch.stack([w.b, w.b], 2), "stack", "2"),
    ("a cat without batch dims", lambda w: torch.cat([w.b[0], w.b[0]]), "cat", "batch dim"),
    ("a permutation that misses a dim", lambda w: w.c.permute(0), "permute"),
)
rows(
    (TensorClassError, RuntimeError, ValueError),
    ("a reshape of another count", lambda w: w.b.reshape(3, 2), "[4]|4", "3"),
    ("an expand that does not fit", lambda w: w.b.expand(3), "4", "3"),
    ("a split of another total", lambda w: w.b.split([1, 1]), "4"),
)
rows(
    (StructureError, RuntimeError),
    ("stack of two classes", lambda w: torch.stack([w.b, pose(4)]), "stack", "Scene", "Pose", "position 1"),
    ("cat of typed and untyped", lambda w: torch.cat([pose(4), pose(4).to_tensordict()]), "cat", "Pose", "TensorDict"),
    ("stack of other event shapes", lambda w: stack([w.b, scene(4, image=zeros(4, 5, 3), mask=None)]), "mask|image"),
    ("cat of other event shapes", lambda w: cat([scene(4, mask=None), scene(4, image=zeros(4, 5, 3), mask=None)]), "image", "[4, 2, 3]", "[4, 5, 3]"),
    ("stack of values that differ", lambda w: torch.stack([w.b, w.b.replace(source="mail")]), "source", "'scan'", "'mail'", "PerElement"),
    ("stack of shared tensors that differ", lambda w: torch.stack([w.b, w.b.replace(table=zeros(5) + 1)]), "table", "positions 0 and 1"),
    ("stack of a tensor and None", lambda w: torch.stack([w.b, w.b.replace(mask=None)]), "mask", "None at position 1", "fill"),
    ("stack of nothing", lambda w: stack([]), "stack", "empty"),
    ("stack with a tensor", lambda w: stack([w.b, zeros(4)]), "Tensor", "position 1"),
)  # fmt: skip
rows(
    (BatchSizeError, RuntimeError),
    ("stack of other batch sizes", lambda w: torch.stack([w.b, scene(3)]), "[4]", "[3]", "position 1"),
)

# ---- index writes, arithmetic, casts ---------------------------------------------------------------------------------

rows(
    (TensorClassError, RuntimeError, ValueError, KeyError),
    ("write a row of another class", lambda w: w.b.__setitem__(0, pose()), "Pose|image|label|angle"),
    (
        "write a row of other shapes",
        lambda w: w.b.__setitem__(0, scene(image=zeros(5, 3), mask=zeros(5, 3) > 0)),
        "image",
    ),
    ("write rows of another count", lambda w: w.b.__setitem__(slice(0, 3), scene(2)), "[2]", "[3]"),
    ("write a row that lacks fields", lambda w: w.b.__setitem__(0, {"label": long()}), "image|pose|missing"),
    ("add a batch of another size", lambda w: pose(4) + pose(3), "[4]", "[3]"),
    ("add a batch of another class", lambda w: pose(4) + Still(zeros(4, 2)), "angle|Pose|Still"),
)
rows(
    (SchemaError,),
    ("arithmetic that breaks a dtype", lambda w: Counter(long(4)) / 2, "n", 'Int64[""]', "float32"),
    ("a root of integers", lambda w: Counter(long(4)).sqrt(), "n", "sqrt", "float32"),
)
rows(
    (CastError, TypeError),
    ("a cast that breaks a dtype", lambda w: w.b.half(), "Scene", "image", "pose.angle", "Float[...]", "float16"),
    ("a cast to an int", lambda w: pose(4).to(torch.int64), "angle", "int64"),
)


@tensorclass
class Counter:
    """Whole numbers."""

    n: Int64[Tensor, ""]


# ---- declarations ----------------------------------------------------------------------------------------------------


def declare(*bases: type, options: dict[str, Any] | None = None, **body: Any) -> Any:
    """A class statement with these annotations; a pair is an annotation and a default."""
    annotations = {name: value[0] if isinstance(value, tuple) else value for name, value in body.items()}
    defaults = {name: value[1] for name, value in body.items() if isinstance(value, tuple)}
    namespace = {"__annotations__": annotations, "__module__": __name__, **defaults}
    return type(TensorClass)("Made", bases or (TensorClass,), namespace, **(options or {}))


rows(
    (SchemaError, ValueError, TypeError),
    ("a name that hides an operation", lambda w: declare(reshape=Tensor), "Made", "reshape", "shadow=True"),
    ("a name that every batch has", lambda w: declare(batch_size=Tensor, options={"shadow": True}), "batch_size", "rename"),
    ("a required field after a default", lambda w: declare(a=(int, 1), b=Tensor), "b", "after `a`", "kw_only"),
    ("a default of another type", lambda w: declare(note=(str, 3))(), "note", "str", "3"),
    ("a default of another dtype", lambda w: declare(x=(Float32[Tensor, ""], long())), "x", "Float32", "int64"),
    ("a default of another shape", lambda w: declare(x=(Float32[Tensor, "2"], zeros(3))), "x", "2", "3"),
    ("a default of None", lambda w: declare(x=(Float32[Tensor, ""], None)), "x", "None"),
    ("two tensor types", lambda w: declare(x=Float32[Tensor, ""] | Int64[Tensor, ""]), "x", "union"),
    ("a tensor or a str", lambda w: declare(x=Float32[Tensor, ""] | str), "x", "union"),
    ("a shared str", lambda w: declare(x=Shared[str]), "x", "Shared[str]", "shared by the batch already"),
    ("a mutable default", lambda w: declare(x=(list[int], [])), "x", "default_factory=list"),
    ("a wider child", lambda w: declare(Pose, axis=Float[Tensor, "3"]), "axis", "Pose", "narrow"),
    ("a child of another shape", lambda w: declare(Pose, axis=Float32[Tensor, "4"]), "axis", "3", "4"),
    ("a child that may be None", lambda w: declare(Pose, axis=Float32[Tensor, "3"] | None), "axis", "None"),
    ("an unknown name", lambda w: declare(x="Nowhere")(zeros(2)), "x", "Nowhere", "not defined"),
    ("a field that ends in itself", lambda w: declare(x="Made"), "x", "None"),
    ("an unknown policy", lambda w: field(join="sum"), "sum", "stack"),  # type: ignore[arg-type]  # the point
    ("two defaults", lambda w: field(default=1, default_factory=int), "default_factory"),
    ("a factory that is none", lambda w: field(default_factory=3), "default_factory", "3"),
    ("field options on a ClassVar", lambda w: declare(x=(ClassVar[int], field())), "x", "ClassVar"),
    ("field options without a type", lambda w: type(TensorClass)("Made", (TensorClass,), {"x": field(), "__module__": __name__}), "x", "type"),
    ("a constructor of one's own", lambda w: type(TensorClass)("Made", (TensorClass,), {"__init__": lambda self: None, "__module__": __name__}), "__init__", "__post_init__"),
    ("a text with tensor_only", lambda w: declare(note=str, options={"tensor_only": True}), "note", "tensor_only"),
    ("an unknown level of validation", lambda w: declare(x=Tensor, options={"validate": "all"}), "validate", "'all'"),
    ("an unknown option", lambda w: tensorclass(frozn=True)(Pose), "frozn"),  # type: ignore[call-overload]  # the point
    ("an instance of the base", lambda w: TensorClass(), "TensorClass", "fields"),  # type: ignore[call-arg]  # the point
    ("the schema of something else", lambda w: schema(int), "tensorclass", "int"),
    ("PerElement as a value", lambda w: PerElement(), "PerElement", "annotation"),
)  # fmt: skip
rows(
    (DimSyntaxError, SchemaError, ValueError),
    ("an unclosed bracket in dims", lambda w: Float32[Tensor, "(h"], "(h"),
    ("two variadic dims", lambda w: Float32[Tensor, "*a *b"], "*a *b"),
    ("a negative dim", lambda w: Float32[Tensor, "-1"], "-1"),
    ("a division by zero", lambda w: Float32[Tensor, "h//0"], "h//0"),
    ("dims that are not text", lambda w: Float32[Tensor, 3], "3"),
)

# ---- untyped containers ----------------------------------------------------------------------------------------------

rows(
    (BatchSizeError, RuntimeError, ValueError),
    ("an entry of another batch size", lambda w: w.d.set("b", zeros(3)), "`b`", "[4]", "[3]"),
    (
        "an entry of another batch size at construction",
        lambda w: TensorDict(a=zeros(3), batch_size=[4]),
        "`a`",
        "[4]",
        "[3]",
    ),
    ("a nested entry of another batch size", lambda w: w.d.set(("n", "y"), zeros(3)), "y", "[4]", "[3]"),
    ("a batch size that does not fit", lambda w: setattr(w.d, "batch_size", [5]), "`a`", "[5]", "[4, 5]"),
)
rows(
    (MissingKeyError, KeyError),
    ("an absent key", lambda w: w.d["aa"], "aa", "did you mean `a`"),
    ("an absent nested key", lambda w: w.d["n", "y"], "y"),
    ("an absent key to write in place", lambda w: w.d.set_("b", zeros(4)), "b"),
    ("an absent key to rename", lambda w: w.d.rename_key_("b", "c"), "b"),
    ("an absent key to pop", lambda w: w.d.pop("b"), "b"),
)
rows(
    (KeyThroughLeafError, KeyError, TypeError),
    ("a key through a leaf", lambda w: w.d["a", "x"], "a", "Tensor"),
    ("a write through a leaf", lambda w: w.d.set(("a", "x"), zeros(4)), "a", "x"),
    ("a key that is none", lambda w: w.d.set(3, zeros(4)), "3|int"),
)
rows(
    (TensorClassError, TypeError, ValueError, RuntimeError),
    ("a truth value", lambda w: bool(w.b), "Scene", "ambiguous"),
    ("a tensor as a key test", lambda w: zeros(4) in w.b, "keys", "Tensor"),
    ("an operation that contracts features", lambda w: torch.matmul(w.b, w.b), "matmul", "field"),
    ("an index without batch dims", lambda w: w.b[0][0], "batch", "[]"),
    ("iteration without batch dims", lambda w: list(w.b[0]), "Scene", "batch"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_wrong_programs_raise_and_change_nothing(case: Case) -> None:
    """The right error, with every word that a user needs, and all batches as they were."""
    world = World()
    before = world.state()
    with pytest.raises(case.errors) as caught:
        case.call(world)
    message = str(caught.value)
    for word in case.words:
        assert any(part in message for part in word.split("|")), f"{word!r} is not in:\n{message}"
    assert world.state() == before
    assert "object at 0x" not in message


def test_the_table_is_large_and_its_names_differ() -> None:
    """At least 80 wrong programs, each with words to look for."""
    assert len(CASES) >= 110
    assert len({case.name for case in CASES}) == len(CASES)
    assert all(case.words for case in CASES)
