"""The constructor: arguments, batch size, defaults, conversions, what it refuses, in every way to declare."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import KW_ONLY, InitVar
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from tensorclass import PerElement, Shared, TensorClass, TensorDict, field, produced
from tensorclass.errors import BatchSizeError, SchemaError
from tensorclass.typing import Float, Float32, Float64, Int64
from tests.classes._samples import Form, digits, everything, pose


def test_positional_and_keyword_arguments_agree(ns: SimpleNamespace) -> None:
    """Fields are taken in order, by name, or mixed."""
    image, label = torch.zeros(4, 2, 3), torch.arange(4)
    for batch in (ns.Digits(image, label), ns.Digits(label=label, image=image), ns.Digits(image, label=label)):
        assert batch.image is image
        assert batch.label is label
        assert batch.mask is None
        assert batch.source == "scan"
        assert batch.batch_size == torch.Size([4])


@pytest.mark.parametrize("batch_size", [None, 4, [4], (4,), torch.Size([4]), [np.int64(4)]])
def test_batch_size_spellings(ns: SimpleNamespace, batch_size: Any) -> None:
    """A number, any sequence of numbers, or nothing at all."""
    batch = digits(ns.Digits, 4, batch_size=batch_size)
    assert batch.batch_size == torch.Size([4])
    assert type(batch.batch_size) is torch.Size


@pytest.mark.parametrize("size", [(), (3,), (2, 3), (0,), (2, 0, 1)])
def test_the_batch_size_is_inferred_exactly(ns: SimpleNamespace, size: tuple[int, ...]) -> None:
    """What stands before the declared event dims is the batch, whatever its rank."""
    assert digits(ns.Digits, *size).batch_size == torch.Size(size)


def test_a_shorter_batch_size_is_refused_for_declared_shapes(ns: SimpleNamespace) -> None:
    """A given batch size is checked against the declared event dims."""
    with pytest.raises(SchemaError, match=r"image[\s\S]*label"):
        digits(ns.Digits, 2, 3, batch_size=[2])


def test_without_declared_ranks_the_batch_is_empty_and_indexing_says_so(form: Form) -> None:
    """No field says a batch size, so there is none; the error of an index names the way out."""

    @form()
    class Loose(form.base):
        x: Tensor

    batch = Loose(torch.zeros(5, 2))
    assert batch.batch_size == torch.Size([])
    with pytest.raises(TypeError, match="batch_size"):
        batch[0]
    assert Loose(torch.zeros(5, 2), batch_size=5)[0].x.shape == (2,)


def test_inference_skips_absent_fields_and_asks_nested_ones(form: Form) -> None:
    """Absent optional fields and variadic shapes say nothing; a nested instance says its own batch size."""

    @form()
    class Inner(form.base):
        x: Float32[Tensor, "2"]

    @form()
    class Outer(form.base):
        free: Float32[Tensor, "..."]
        maybe: Float32[Tensor, ""] | None = None
        inner: Inner | None = None
        note: str = ""
        table: Shared[Tensor] | None = None

    inner = Inner(torch.zeros(3, 2))
    assert Outer(torch.zeros(3, 7, 7), inner=inner).batch_size == torch.Size([3])
    assert Outer(torch.zeros(4, 7), torch.zeros(4)).batch_size == torch.Size([4])
    assert Outer(torch.zeros(4, 7), table=torch.zeros(9)).batch_size == torch.Size([])


def test_device_is_imposed_and_remembered(ns: SimpleNamespace) -> None:
    """A device given as text or object holds for every field, now and later."""
    batch = digits(ns.Digits, 2, device="cpu")
    assert batch.device == torch.device("cpu")
    assert digits(ns.Digits, 2).device is None
    moved = everything(ns, 2).to("meta")
    assert moved.image.device.type == moved.table.device.type == moved.pose.axis.device.type == "meta"
    built = ns.Digits(image=torch.zeros(2, 2, 3), label=torch.zeros(2, dtype=torch.int64), device="meta")
    assert built.image.device.type == built.label.device.type == "meta"
    built.label = torch.ones(2, dtype=torch.int64)
    assert built.label.device.type == "meta"


def test_names_are_kept(ns: SimpleNamespace) -> None:
    """Names of the batch dims go in and come out."""
    assert digits(ns.Digits, 2, 3, names=["time", None]).names == ["time", None]
    assert digits(ns.Digits, 2, 3).names == [None, None]
    with pytest.raises(ValueError, match="names"):
        digits(ns.Digits, 2, 3, names=["time"])


def test_defaults_and_factories_are_made_for_each_instance(form: Form) -> None:
    """A tensor default has the event shape, is spread over the batch and copied; factories run each time."""
    shared = torch.tensor([1.0, 2.0])

    @form()
    class Note(form.base):
        x: Float32[Tensor, ""]
        weight: Float32[Tensor, "2"] = shared
        tags: list[str] = field(default_factory=list)
        level: int = 3
        table: Shared[Float32[Tensor, "2"]] = shared

    one, two = Note(torch.zeros(3)), Note(torch.zeros(3), names=[None])
    for batch in (one, two):
        assert batch.weight.tolist() == [[1.0, 2.0]] * 3
        assert batch.table.tolist() == [1.0, 2.0]
        assert batch.level == 3
    one.weight += 1
    one.table.add_(1)
    one.tags.append("seen")
    assert shared.tolist() == [1.0, 2.0]
    assert two.weight.tolist() == [[1.0, 2.0]] * 3
    assert two.table.tolist() == [1.0, 2.0]
    assert (one.tags, two.tags) == (["seen"], [])
    assert Note(torch.zeros(3)).weight[0].data_ptr() != Note(torch.zeros(3)).weight[1].data_ptr()


def test_a_plain_mutable_default_is_refused(form: Form) -> None:
    """`tags: list = []` would be one list for all instances; the class statement says what to write."""
    with pytest.raises(SchemaError, match=r"tags[\s\S]*default_factory=list"):

        @form()
        class Note(form.base):
            tags: list[str] = []


def test_keyword_only_fields(form: Form) -> None:
    """`KW_ONLY` and `field(kw_only=True)` take a field out of the positional arguments."""

    @form()
    class Point(form.base):
        x: Float32[Tensor, ""]
        _: KW_ONLY
        y: Float32[Tensor, ""]
        z: Float32[Tensor, ""] = field(kw_only=True)

    point = Point(torch.zeros(2), y=torch.ones(2), z=torch.ones(2))
    assert point.y.sum() == 2
    assert list(point.keys()) == ["x", "y", "z"]
    assert Point.__match_args__ == ("x",)
    with pytest.raises(TypeError):
        Point(torch.zeros(2), torch.ones(2), torch.ones(2))


def test_init_vars_go_to_post_init_only(form: Form) -> None:
    """An `InitVar` is a parameter of the constructor, not a field."""

    @form()
    class Scaled(form.base):
        x: Float32[Tensor, ""]
        scale: InitVar[float] = 2.0

        def __post_init__(self, scale: float) -> None:
            self.x = self.x * scale

    assert Scaled(torch.ones(2)).x.tolist() == [2, 2]
    assert Scaled(torch.ones(2), 3.0).x.tolist() == [3, 3]
    assert Scaled(torch.ones(2), scale=4.0).x.tolist() == [4, 4]
    assert Scaled(torch.ones(2), scale=4.0, names=[None]).x.tolist() == [4, 4]
    assert [f.name for f in dataclasses.fields(Scaled)] == ["x"]


def test_a_required_init_var_is_required(form: Form) -> None:
    """An `InitVar` without default must be given, and the error says so."""

    @form()
    class Scaled(form.base):
        x: Float32[Tensor, ""]
        scale: InitVar[float]

        def __post_init__(self, scale: float) -> None:
            self.x = self.x * scale

    assert Scaled(torch.ones(2), 3.0).x.tolist() == [3, 3]
    with pytest.raises(TypeError, match="scale"):
        Scaled(torch.ones(2))


def test_class_vars_are_no_fields(form: Form) -> None:
    """A `ClassVar` stays an attribute of the class."""

    @form()
    class Counted(form.base):
        x: Float32[Tensor, ""]
        kind: ClassVar[str] = "counted"

    batch = Counted(torch.zeros(2))
    assert list(batch.keys()) == ["x"]
    assert batch.kind == Counted.kind == "counted"


def test_post_init_runs_after_construction_and_never_for_results(form: Form) -> None:
    """Operations make results without the constructor; `replace` runs it."""
    calls = []

    @form()
    class Watched(form.base):
        x: Float32[Tensor, ""]

        def __post_init__(self) -> None:
            calls.append(self.x.sum().item())

    batch = Watched(torch.ones(3))
    assert calls == [3.0]
    batch[:2].clone().reshape(1, 2).to("cpu")
    torch.stack([batch, batch])
    assert calls == [3.0]
    dataclasses.replace(batch, x=torch.zeros(3))
    batch.replace(x=torch.ones(3) * 2)
    assert calls == [3.0, 0.0, 6.0]


def test_post_init_may_write_fields_and_is_validated(form: Form) -> None:
    """A write in `__post_init__` is checked as any other."""

    @form()
    class Wrong(form.base):
        x: Float32[Tensor, ""]

        def __post_init__(self) -> None:
            self.x = self.x.double()

    with pytest.raises(SchemaError, match="float64"):
        Wrong(torch.ones(2))


def test_fields_outside_the_constructor(form: Form) -> None:
    """`field(init=False)` takes its default or is written by `__post_init__`; `produced()` waits for a module."""

    @form()
    class State(form.base):
        x: Float32[Tensor, ""]
        twice: Float32[Tensor, ""] = field(init=False)
        count: int = field(init=False, default=7)
        hidden: Float32[Tensor, ""] = produced()

        def __post_init__(self) -> None:
            self.twice = self.x * 2

    for batch in (State(torch.ones(2)), State(torch.ones(2), device="cpu")):
        assert batch.twice.tolist() == [2, 2]
        assert batch.count == 7
        assert "hidden" not in batch
    for name in ("twice", "hidden", "count"):
        assert name not in inspect.signature(State).parameters
        with pytest.raises(TypeError, match=name):
            State(torch.ones(2), **{name: torch.ones(2)})


def test_an_optional_field_needs_no_default(form: Form) -> None:
    """It is None where nothing is given: to the constructor, from containers and dicts, and in the signature."""

    @form()
    class Pair(form.base):
        x: Float32[Tensor, ""]
        mask: Float32[Tensor, ""] | None
        y: Float32[Tensor, ""]
        note: str | None

    one = Pair(x=torch.ones(2), y=torch.ones(2))
    for batch in (one, Pair.from_tensordict(one.to_tensordict()), Pair.from_dict({"x": one.x, "y": one.y})):
        assert (batch.mask, batch.note) == (None, None)
    defaults = {name: parameter.default for name, parameter in inspect.signature(Pair).parameters.items()}
    empty = inspect.Parameter.empty
    assert [defaults[name] for name in ("x", "mask", "y", "note")] == [empty, empty, empty, None]


def test_the_signature_shows_the_fields(ns: SimpleNamespace) -> None:
    """`inspect.signature` and `help` show fields with defaults, then batch size, device and names."""
    parameters = inspect.signature(ns.Digits).parameters
    assert list(parameters) == ["image", "label", "mask", "source", "batch_size", "device", "names"]
    assert parameters["image"].default is inspect.Parameter.empty
    assert parameters["source"].default == "scan"
    assert parameters["batch_size"].kind is inspect.Parameter.KEYWORD_ONLY
    assert ns.Digits.__doc__ == "Images and what they show."
    assert ns.Digits.__name__ == "Digits"
    assert ns.Digits.__module__ == "tests.classes._samples"


def test_numbers_and_arrays_become_tensors_where_that_is_exact(form: Form) -> None:
    """Python numbers and numpy arrays are taken as the declared dtype; `nocast=True` refuses them."""

    @form()
    class Point(form.base):
        x: Float32[Tensor, ""]
        n: Int64[Tensor, ""]

    assert Point(1.5, 2).x.dtype is torch.float32
    assert Point(1.5, 2).n.dtype is torch.int64
    made = Point(np.array([1.5, 2.5], dtype=np.float32), np.array([1, 2]))
    assert made.batch_size == torch.Size([2])
    with pytest.raises(SchemaError, match="n"):
        Point(1.5, 2.5)

    @form(nocast=True)
    class Strict(form.base, **form.words(nocast=True)):
        x: Float32[Tensor, ""]

    with pytest.raises(SchemaError, match="x"):
        Strict(1.5)


def test_subclasses_of_tensor_are_kept(form: Form) -> None:
    """A parameter or another subclass of Tensor is a tensor."""

    @form()
    class Point(form.base):
        x: Float32[Tensor, "2"]

    weight = torch.nn.Parameter(torch.zeros(3, 2))
    assert Point(weight).x is weight
    assert Point(weight).batch_size == torch.Size([3])


def test_the_slow_way_and_the_fast_way_agree(ns: SimpleNamespace) -> None:
    """A call that passes the inline checks gives what the complete check gives."""
    batch = everything(ns, 2, 3)
    fields = {name: getattr(batch, name) for name in inspect.signature(ns.Everything).parameters if name in batch}
    fast, slow = (
        ns.Everything(**fields, batch_size=[2, 3]),
        ns.Everything(**fields, batch_size=[2, 3], names=[None] * 2),
    )
    assert list(fast.keys()) == list(slow.keys()) == list(batch.keys())
    for key in list(fast.keys()):
        mine, theirs = fast.get(key), slow.get(key)
        assert mine is theirs or (mine == theirs if key != "who" else mine.tolist() == theirs.tolist()), key
    assert type(fast.pose) is type(slow.pose) is ns.Pose


def test_symbolic_dims_are_shared_within_an_instance(form: Form) -> None:
    """`h` is one size in all fields, expressions of it are checked, a nested class is its own scope."""

    @form()
    class Inner(form.base):
        x: Float32[Tensor, "h"]

    @form()
    class Pair(form.base):
        a: Float32[Tensor, "h w"]
        b: Float32[Tensor, "w h"]
        c: Float32[Tensor, "h*w"]
        inner: Inner

    a, b, c = torch.zeros(5, 2, 3), torch.zeros(5, 3, 2), torch.zeros(5, 6)
    assert Pair(a, b, c, Inner(torch.zeros(5, 9))).batch_size == torch.Size([5])
    with pytest.raises(SchemaError, match=r"b\n") as caught:
        Pair(a, torch.zeros(5, 2, 3), c, Inner(torch.zeros(5, 9)))
    assert [problem.path for problem in caught.value.problems] == ["b"]
    with pytest.raises(SchemaError, match="c"):
        Pair(a, b, torch.zeros(5, 7), Inner(torch.zeros(5, 9)))


def test_all_problems_come_in_one_error(ns: SimpleNamespace) -> None:
    """Everything wrong with one call is listed, in the order of the fields."""
    with pytest.raises(SchemaError) as caught:
        ns.Everything(
            image=torch.zeros(4, 2, 3, dtype=torch.float64),
            label="seven",
            pose=pose(ns.Pose, 3),
            who=["a"],
            table=None,
            source=3,
            colour=1,
            batch_size=[4],
        )
    error = caught.value
    assert [problem.path for problem in error.problems] == [
        "image",
        "label",
        "pose",
        "who",
        "table",
        "source",
        "colour",
    ]
    assert isinstance(error, ValueError)
    assert isinstance(error, TypeError)
    for problem in error.problems:
        assert problem.path in str(error)
        assert problem.declared in str(error)
        assert problem.given in str(error)
        assert problem.hint


def test_per_element_takes_a_value_lists_or_a_stack(form: Form) -> None:
    """One value is repeated over the batch; lists have the batch shape."""

    @form()
    class Named(form.base):
        x: Float32[Tensor, ""]
        who: PerElement[str]

    assert Named(torch.zeros(2), "a").who.tolist() == ["a", "a"]
    assert Named(torch.zeros(2), ["a", "b"]).who.tolist() == ["a", "b"]
    assert Named(torch.zeros(2, 1), [["a"], ["b"]]).who.tolist() == [["a"], ["b"]]
    assert Named(torch.zeros(()), "a").who == "a"
    assert Named(torch.zeros(2), Named(torch.zeros(2), ["a", "b"]).who).who.tolist() == ["a", "b"]
    with pytest.raises(SchemaError, match="who"):
        Named(torch.zeros(2), ["a", "b", "c"])
    with pytest.raises(SchemaError, match=r"who\[1\]"):
        Named(torch.zeros(2), ["a", 3])


def test_collections_and_any(form: Form) -> None:
    """A `TensorDict` field holds any container of the batch; an `Any` field anything at all."""

    @form()
    class Open(form.base):
        x: Float32[Tensor, ""]
        corner: TensorDict
        anything: Any = None

    corner = TensorDict(a=torch.zeros(2, 5), batch_size=[2])
    for value in (None, "text", torch.zeros(2), corner, [1, 2]):
        batch = Open(torch.zeros(2), corner, value)
        assert batch.corner is corner or torch.equal(batch.corner["a"], corner["a"])
        assert batch.x.shape == (2,)
    with pytest.raises(SchemaError, match="corner"):
        Open(torch.zeros(2), {"a": torch.zeros(2, 5)})
    with pytest.raises(SchemaError, match="corner"):
        Open(torch.zeros(3), corner)


def test_bad_batch_sizes(ns: SimpleNamespace) -> None:
    """A batch size is made of numbers from zero."""
    for wrong in ([-1], [2.5], "4", [True], 2.5):
        with pytest.raises((BatchSizeError, TypeError, ValueError)):
            digits(ns.Digits, 4, batch_size=wrong)


def test_float_families_and_other_dtypes(form: Form) -> None:
    """A family takes each of its dtypes; an exact dtype takes one."""

    @form()
    class Mixed(form.base):
        any_float: Float[Tensor, ""]
        exact: Float64[Tensor, ""]

    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert Mixed(torch.zeros(2, dtype=dtype), torch.zeros(2, dtype=torch.float64)).any_float.dtype is dtype
    with pytest.raises(SchemaError, match="any_float"):
        Mixed(torch.zeros(2, dtype=torch.int64), torch.zeros(2, dtype=torch.float64))


def test_hint_for_a_lacking_event_dim():
    """A tensor that starts with the batch dims lacks an event dim: spreading it over the batch would be wrong."""

    class Plane(TensorClass):
        x: Float32[Tensor, "h w"]

    with pytest.raises(SchemaError, match=r"`\.unsqueeze\(1\)` would fit"):
        Plane(x=torch.zeros(4, 5), batch_size=[4])
    with pytest.raises(SchemaError, match=r"spread it with `\.expand\(4, 5, 6\)`"):
        Plane(x=torch.zeros(5, 6), batch_size=[4])


def test_a_class_of_many_fields_names_the_one_that_is_wrong() -> None:
    """Many fields of one declaration are checked in a loop: each of them, the last one too, and in compiled code."""
    names = [f"f{i}" for i in range(20)]
    annotations = {**dict.fromkeys(names, Float32[Tensor, "5"]), "v": Float32[Tensor, "n"], "note": str}
    wide: Any = type("Wide", (TensorClass,), {"__annotations__": annotations, "__module__": __name__})
    given = {**{name: torch.rand(3, 5) for name in names}, "v": torch.rand(3, 2)}
    batch = wide(**given, note="scan")
    assert batch.batch_size == torch.Size([3])
    assert all(getattr(batch, name) is value for name, value in given.items())
    for wrong, said in ((torch.rand(3, 4), r"\[3, 4\]"), (torch.rand(3, 5).double(), "float64"), (None, "None")):
        for name in ("f0", "f19"):
            with pytest.raises(SchemaError, match=rf"{name}[\s\S]*{said}"):
                wide(**{**given, name: wrong}, note="scan")
    with pytest.raises(SchemaError, match="f19"):
        wide(**{name: value for name, value in given.items() if name != "f19"}, note="scan")
    made = torch.compile(lambda x: wide(**{**given, "f19": x}, note="scan"), fullgraph=True, backend="eager")(
        given["f0"]
    )
    assert made.f19 is given["f0"]


class Counted(str):
    """A keyword that counts how often it is compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize("count", [97, 98, 300])
def test_a_class_of_very_many_fields_takes_keywords_of_any_origin(count: int) -> None:
    """Python compares a keyword that is not interned with every parameter; from 100 fields on it is looked up once."""
    names = [f"f{i}" for i in range(count)]
    notes = {**dict.fromkeys(names, Float32[Tensor, ""]), "last": Float32[Tensor, ""], "self": str}
    wide: Any = type(
        "Wide", (TensorClass,), {"__annotations__": notes, "last": 2.0, "self": "", "__module__": __name__}
    )
    values = {name: torch.rand(3) for name in names}
    Counted.compared = 0
    batch = wide(**{Counted(name): value for name, value in values.items()}, self="me")
    assert count < 98 or Counted.compared <= 2 * count
    assert (batch.last.tolist(), batch.self, batch.batch_size) == ([2.0] * 3, "me", (3,))
    assert all(getattr(batch, name) is value for name, value in values.items())
    mixed = wide(*list(values.values())[:5], **dict(list(values.items())[5:]), batch_size=[3], names=["n"])
    assert (mixed.f4 is values["f4"], mixed.names) == (True, ["n"])
    assert list(inspect.signature(wide).parameters)[:3] == ["f0", "f1", "f2"]
    with pytest.raises(SchemaError, match="f7"):
        wide(**{name: value for name, value in values.items() if name != "f7"})
    with pytest.raises(SchemaError, match="nothing"):
        wide(**values, nothing=1)
    with pytest.raises(TypeError, match="multiple values"):
        wide(values["f0"], **values)
    with pytest.raises(TypeError, match="positional"):
        wide(*values.values(), torch.rand(3), "s", "more")
