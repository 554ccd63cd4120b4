"""Classes made of classes: what is kept, what is refused, and instances of them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Annotated

import pytest
import torch
import torch.utils._pytree as pytree
from annotated_types import Ge
from torch import Tensor

from tensorclass import (
    FrozenTensorClass,
    PerElement,
    Shared,
    TensorClass,
    TensorDict,
    class_validator,
    field,
    field_validator,
    lazy_stack,
    merge,
    omit,
    partial,
    pick,
    produced,
    schema,
    stack,
)
from tensorclass.errors import BatchSizeError, FrozenError, SchemaError, StructureError, UnknownFieldError
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32, Int64


class Pose(TensorClass):
    """Where something looks."""

    angle: Float32[Tensor, ""]
    axis: Float32[Tensor, "3"]


class Digits(TensorClass, validate="values"):
    """Images and what they show."""

    image: Float32[Tensor, "h w"] = field(doc="grey values")
    label: Annotated[Int64[Tensor, ""], Ge(0)]
    pose: Pose
    who: PerElement[str] = "nobody"
    table: Shared[Float32[Tensor, "k"]] | None = None
    source: str = "scan"
    hidden: Float32[Tensor, "4"] = produced()

    @field_validator("label", "source")
    def small(cls, value):
        """A limit that a helper of the class knows."""
        if isinstance(value, Tensor) and bool((value > cls.most()).any()):
            raise ValueError("a label is at most 9")
        return value

    @classmethod
    def most(cls):
        return 9


class Spans(TensorClass):
    """Two fields that must agree."""

    start: Float32[Tensor, ""]
    end: Float32[Tensor, ""]

    @class_validator
    def forward(self):
        """A check of the whole instance."""
        if bool((self.end < self.start).any()):
            raise ValueError("ends before it starts")


class Crops(TensorClass):
    """Shares a dim name and a field with `Digits`."""

    crop: Float32[Tensor, "h w"]
    source: str = "scan"


def batch(*size: int) -> Digits:
    """A batch of digits."""
    pose = Pose(angle=torch.zeros(*size), axis=torch.ones(*size, 3))
    return Digits(
        image=torch.rand(*size, 4, 5),
        label=torch.ones(size, dtype=torch.int64),
        pose=pose,
        batch_size=size,
        names=[f"d{i}" for i in range(len(size))],
    )


# ---- classes -----------------------------------------------------------------------------------------------------


def test_pick_keeps_what_the_field_declares():
    """Docs, defaults, constraints and validators stay with the field; the order is that of the declaration."""
    Small = pick(Digits, "source", Digits.label, "image")
    assert schema(Small).names == ("image", "label", "source")
    assert [spec.to_dict() for spec in schema(Small)] == [schema(Digits)[n].to_dict() for n in schema(Small).names]
    assert schema(Small)["image"].doc == "grey values"
    small = Small(torch.zeros(2, 4, 5), torch.tensor([1, 2]))
    assert (small.source, small.batch_size) == ("scan", torch.Size([2]))
    with pytest.raises(SchemaError, match=">= 0"):
        Small(torch.zeros(1, 4, 5), torch.tensor([-1]))
    with pytest.raises(SchemaError, match="at most 9"):
        small.label = torch.tensor([1, 20])


def test_equal_requests_give_one_class():
    """Names, references, another order and the complement ask for the same."""
    Small = pick(Digits, "image", "label")
    assert pick(Digits, Digits.label, ("image",)) is Small
    assert omit(Digits, "pose", "who", "table", "source", Digits.hidden) is Small
    assert pick(Digits, *schema(Digits).names) is Digits
    assert pick(pick(Digits, "image", "label", "who"), "image") is not pick(Digits, "image")
    assert merge(Digits, Digits) is Digits
    assert merge(Digits, Crops) is merge(Digits, Crops)
    assert partial(Digits) is partial(Digits)
    assert pick(Digits, "image", name="Images").__name__ == "Images"


def test_paths_reach_into_nested_classes():
    """A path picks from the nested class; all of its fields are the nested class again."""
    Small = pick(Digits, "image", Digits.pose.angle)
    assert schema(Small).fields["pose"].nested is pick(Pose, "angle")
    assert pick(Digits, "image", "pose.angle", ("pose", "axis")) is pick(Digits, "image", "pose")
    assert schema(omit(Digits, "pose.axis"))["pose"].nested is pick(Pose, "angle")
    assert "pose" not in schema(omit(Digits, "pose.axis", "pose.angle"))
    assert Small.pose.angle.__field_path__ == ("pose", "angle")


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: pick(Digits, "lable"), UnknownFieldError, "did you mean `label`"),
        (lambda: omit(Digits, "pose.angel"), UnknownFieldError, "did you mean `angle`"),
        (lambda: pick(Digits, "image.h"), UnknownFieldError, "so it has no field `h`"),
        (lambda: pick(Digits), SchemaError, "name at least one"),
        (lambda: omit(Pose, "angle", "axis"), SchemaError, "no field is left"),
        (
            lambda: pick(Digits, 3),
            TypeError,
            "^a field is a name, a path or a reference such as `Digits.image`, got 3$",
        ),
        (lambda: pick(Digits, ["label"]), TypeError, r"got \['label'\]; several are several arguments$"),
        (lambda: Digits.pick("image"), TypeError, r"`pick\(Digits, ...\)` makes a class"),
        (lambda: pick(dict, "x"), TypeError, "takes tensorclasses, got dict"),
        (lambda: merge(Digits, TensorClass), TypeError, "takes tensorclasses, got TensorClass"),
        (lambda: partial(batch(1)), TypeError, "an instance of Digits"),
    ],
)
def test_wrong_requests(make, error, text):
    """What can't be made says why."""
    with pytest.raises(error, match=text):
        make()


class Early(TensorClass):
    x: Float32[Tensor, "3"]
    maybe: Later | None
    surely: Later
    hidden: Float32[Tensor, "4"] = produced()


class Later(TensorClass):
    a: Float32[Tensor, ""]
    b: Float32[Tensor, ""]


@pytest.mark.parametrize(
    "make",
    [
        lambda: pick(Early, "x", "surely"),
        lambda: omit(Early, "hidden", "maybe"),
        lambda: merge(Early, Pose),
        lambda: partial(Early),
    ],
)
def test_names_that_were_not_defined(make):
    """A class whose annotations use later names is finished first; a parent that still lacks one is not asked."""
    early, later = (
        type(name, (TensorClass,), {"__annotations__": {"x": kind, "y": Tensor}, "__module__": __name__})
        for name, kind in (("Early", "Later"), ("Never", "Undefined"))
    )
    child = type("Child", (later,), {"__annotations__": {"x": Tensor}})
    assert schema(pick(early, "x.a"))["x"].nested is pick(Later, "a")
    for made in (pick(child, "x"), omit(child, "y"), merge(child, Pose), partial(child)):
        assert "x" in schema(made)
    assert schema(make()).pending == ()


def test_annotations_say_what_is_kept():
    """A nested field is as optional as it was; with all of its fields it is the class itself."""
    some = pick(Early, "maybe.a", "surely.b", "x")
    annotations = {one.name: one.type for one in dataclasses.fields(some)}
    assert annotations["maybe"] == pick(Later, "a") | None
    assert annotations["surely"] is pick(Later, "b")
    assert some.__annotations__ == annotations
    assert [spec.optional for spec in schema(some)] == [False, True, False]
    assert partial(Early).__annotations__["surely"] == Later | None


def test_produced_fields_of_partial_classes():
    """A produced field is not an argument, and its module must write it. All other fields may be None."""
    for cls in (Digits, Early):
        whole, maybe = schema(cls), schema(partial(cls))
        assert maybe.names == whole.names
        for old, new in zip(whole, maybe, strict=True):
            assert (new.produced, new.kind, new.dims) == (old.produced, old.kind, old.dims)
            assert (new.optional, new.declared) == (
                (old.optional, old.declared) if old.produced else (True, old.declared | None)
            )


def test_merge():
    """Fields of both; equal ones once; a required field behind a default is keyword-only."""
    Both = merge(Digits, Crops)
    assert schema(Both).names == (*schema(Digits).names, "crop")
    assert schema(Both)["crop"].kw_only
    assert Both.__tensorclass_options__.validate == "values"
    assert Both.__name__ == "DigitsCrops"
    with pytest.raises(SchemaError, match="at most 9"):
        batch(2).merge(Crops(torch.zeros(2, 4, 5))).label = torch.tensor([1, 10])


def test_merge_names_both_classes_of_a_clash():
    """Another type, another default and another constraint are clashes."""

    class Words(TensorClass):
        label: PerElement[str]

    class Other(TensorClass):
        source: str = "web"

    class Loose(TensorClass):
        label: Int64[Tensor, ""]

    for cls, text in ((Words, r"PerElement\[str\] in `Words`"), (Other, "'web' in `Other`"), (Loose, "in `Loose`")):
        with pytest.raises(SchemaError, match=text) as caught:
            merge(Digits, cls)
        assert "in `Digits`" in str(caught.value)


def test_merged_checks_run_on_their_part():
    """A check of a whole instance sees an instance of the class that declares it."""
    Both = merge(Pose, Spans)
    size = torch.zeros(2)
    with pytest.raises(SchemaError, match="ends before it starts"):
        Both(size, torch.zeros(2, 3), start=size, end=size - 1)
    assert Both(size, torch.zeros(2, 3), start=size, end=size).end is size
    assert pick(Spans, "start").__tensorclass__.checks == ()


def test_partial():
    """Every field may be absent, whatever its default was; what is given is checked."""
    Maybe = partial(Digits)
    empty = Maybe(batch_size=[2])
    assert [getattr(empty, name) for name in ("image", "pose", "who", "source")] == [None] * 4
    assert all(spec.optional or spec.produced for spec in schema(Maybe))
    assert schema(Maybe)["image"].doc == "grey values"
    assert Maybe(label=torch.tensor([3])).batch_size == torch.Size([1])
    with pytest.raises(SchemaError, match=">= 0"):
        Maybe(label=torch.tensor([-3]))
    with pytest.raises(SchemaError, match="float32"):
        Maybe(image=torch.zeros(2, 4, 5, dtype=torch.float64))


def test_options_are_kept():
    """Frozen stays frozen, and merging freezes."""

    class Fixed(FrozenTensorClass):
        x: Float32[Tensor, ""]
        y: Float32[Tensor, ""]

    one = pick(Fixed, "x")(torch.zeros(2))
    with pytest.raises(FrozenError):
        one.x = torch.ones(2)
    with pytest.raises(FrozenError):
        Fixed(torch.zeros(2), torch.zeros(2)).merge(Pose(torch.zeros(2), torch.ones(2, 3))).x = torch.ones(2)


@pytest.mark.parametrize("option", ["frozen", "shadow", "tensor_only"])
def test_options_of_merged_classes(option):
    """What one class refuses the merged one refuses, and it may do what one of them may; it holds what either holds."""
    plain = type("Plain", (TensorClass,), {"__annotations__": {"x": Tensor}})
    other = type("Other", (TensorClass,), {"__annotations__": {"y": Tensor}}, **{option: True})
    both = merge(other, type("Third", (TensorClass,), {"__annotations__": {"z": Tensor}}, **{option: True}))
    for cls in (merge(plain, other), merge(other, plain)):
        assert getattr(cls.__tensorclass_options__, option) is (option != "tensor_only")
    assert getattr(both.__tensorclass_options__, option)
    assert merge(other, type("Words", (TensorClass,), {"__annotations__": {"word": str}}))(torch.ones(2), word="a").word


def test_removed_fields_of_merged_classes():
    """What one class has removed the merged one ignores in old data, unless the other has such a field."""
    old = type("Old", (TensorClass,), {"__annotations__": {"x": Tensor}}, removed={"y": "2", "z": ""})
    new = type("New", (TensorClass,), {"__annotations__": {"y": Tensor}}, removed=("w",))
    assert dict(merge(old, new).__tensorclass_options__.removed) == {"z": "", "w": ""}


def test_titles_end():
    """A name of many fields is cut behind 60 letters, with the number of what it leaves out."""
    names = ["a" * 10, "b" * 10, "c" * 10, "d" * 10, "e" * 10]
    cls = type("Title", (TensorClass,), {"__annotations__": dict.fromkeys([*names, "e" * 11, "f", "rest"], Tensor)})
    assert pick(cls, *names).__name__ == "_".join(["Title", *names])  # 60 of them
    assert pick(cls, *names[:4], "e" * 11).__name__ == "_".join(["Title", *names[:4], "and_1"])  # 61
    assert pick(cls, *names, "f").__name__ == "_".join(["Title", *names[:4], "and_2"])
    long = type("L" * 70, (TensorClass,), {"__annotations__": dict.fromkeys("abc", Tensor)})
    assert pick(long, "a", "b").__name__ == f"{'L' * 70}_a_and_1"


def test_classes_are_real():
    """They can be inherited from, listed by dataclass functions and matched."""

    class More(pick(Digits, "image", "label")):
        extra: Float32[Tensor, ""]

    more = More(torch.zeros(2, 4, 5), torch.tensor([1, 2]), torch.zeros(2))
    assert isinstance(more, pick(Digits, "image", "label"))
    assert schema(More).names == ("image", "label", "extra")
    with pytest.raises(SchemaError, match="at most 9"):
        more.label = torch.tensor([10, 0])


@pytest.mark.parametrize(
    "cls",
    [pick(Digits, "image", "pose.angle"), omit(Digits, "hidden"), merge(Digits, Crops, Spans), partial(Pose)],
    ids=lambda cls: cls.__name__,
)
def test_classes_and_references_pickle(cls):
    """By how they are made: the same class comes back."""
    assert pickle.loads(pickle.dumps(cls)) is cls
    assert copy.deepcopy(cls) is cls
    ref = getattr(cls, schema(cls).names[0])
    assert pickle.loads(pickle.dumps(ref)) == ref


def test_instances_pickle():
    """Instances come back as instances of the same class; ordinary classes still pickle by name."""
    small = batch(2).pick("image", "pose.angle")
    back = pickle.loads(pickle.dumps(small))
    assert type(back) is type(small)
    assert torch.equal(back.pose.angle, small.pose.angle)
    assert pickle.loads(pickle.dumps(Digits)) is Digits


# ---- instances ---------------------------------------------------------------------------------------------------


def test_batch_pick_shares_tensors():
    """The same tensors, batch size and names; another structure."""
    whole = batch(2, 3)
    small = whole.pick("image", Digits.pose.angle, "who")
    assert type(small) is pick(Digits, "image", "pose.angle", "who")
    assert small.image is whole.image
    assert small.pose.angle is whole.pose.angle
    assert type(small.pose) is pick(Pose, "angle")
    assert (small.batch_size, small.names) == (whole.batch_size, whole.names)
    assert small[0].who.tolist() == ["nobody"] * 3
    small.pose.angle = torch.ones(2, 3)
    assert whole.pose.angle.eq(0).all()


def test_batch_pick_of_a_class():
    """A class written by hand: fields that are declared alike are taken, others are checked."""

    class Images(TensorClass):
        image: Float32[Tensor, "h w"]

    class Exact(TensorClass):
        image: Float32[Tensor, "4 4"]

    whole = batch(2)
    assert whole.pick(Images).image is whole.image
    with pytest.raises(SchemaError, match="4 is declared, here 5"):
        whole.pick(Exact)
    with pytest.raises(SchemaError, match="crop"):
        whole.pick(Crops)


class Loose(TensorClass, validate="off"):
    x: Float32[Tensor, "3"]
    y: Float32[Tensor, ""]


class Holder(TensorClass):
    inner: Loose
    extra: TensorDict
    z: Float32[Tensor, ""] | None = None


class Tight(TensorClass):
    x: Float32[Tensor, "3"]


class Alike(TensorClass):
    x: Float32[Tensor, "3"]
    y: Float32[Tensor, ""]


class Ordered(Alike):
    @class_validator
    def rising(self):
        """Checks the whole instance."""
        if bool((self.x.sum(-1) > self.y).any()):
            raise ValueError("x is more than y")


class Positive(TensorClass):
    x: Annotated[Float32[Tensor, "3"], Ge(0)]


WANTED = {
    "fewer fields": (Tight, {"width"}),
    "alike": (Alike, {"width"}),
    "checked as a whole": (Ordered, {"width", "order"}),
    "constrained": (Positive, {"width"}),
    "picked": (pick(Loose, "x"), set[str]()),
    "itself": (Loose, set[str]()),
}


@pytest.mark.parametrize("shape", ["plain", "lazy"])
@pytest.mark.parametrize("after", ["nothing", "default", "post_init", "validator"])
@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("given", [None, "width", "order"])
def test_a_wanted_class_checks_what_the_batch_did_not(wanted, after, shape, given):
    """At each depth, and whatever else the class does; nothing of the batch is shared but tensors."""
    inner, refuses = WANTED[wanted]
    body = {
        "nothing": {},
        "default": {"count": 3},
        "post_init": {"__post_init__": lambda self: None},
        "validator": {"agrees": class_validator(lambda self: None)},
    }[after]
    annotations = {"inner": inner, "extra": TensorDict, **({"count": int} if after == "default" else {})}
    outer = type("Outer", (TensorClass,), {"__annotations__": annotations, "__module__": __name__, **body})
    x = torch.zeros(2, 4) if given == "width" else torch.full((2, 3), 1.0 if given == "order" else 0.0)
    loose = Loose(x, torch.zeros(2), batch_size=[2])
    whole = Holder(loose, TensorDict(a=torch.zeros(2), batch_size=[2]))
    if shape == "lazy":
        loose, whole = lazy_stack([loose, loose]), lazy_stack([whole, whole])
    if given in refuses:
        with pytest.raises(SchemaError, match="^" + inner.__name__):
            loose.pick(inner)
        with pytest.raises(SchemaError, match=r"^Outer(?s:.*)\ninner"):
            whole.pick(outer)
        return
    small = loose.pick(inner)
    assert (type(small), small.batch_size) == (inner, loose.batch_size)
    assert torch.equal(small.x, loose.x)
    part = whole.pick(outer)
    assert (type(part), type(part.inner), part.batch_size) == (outer, inner, whole.batch_size)
    assert torch.equal(part.inner.x, whole.inner.x)
    part.extra["b"] = torch.ones(part.batch_size)
    part.inner.x = x.new_full(loose.x.shape, -0.0)
    assert list(whole.extra.keys()) == ["a"]
    assert torch.equal(whole.inner.x, loose.x)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("fields", [("surely",), ("maybe",), ("maybe.a", "surely.b"), ("x", "maybe.b")])
def test_absent_fields_are_absent_in_what_is_picked(fields, lazy):
    """An optional field may be absent, also a nested batch from which some fields are picked."""
    later = Later(torch.zeros(2), torch.ones(2))
    for maybe in (None, later):
        whole = Early(torch.zeros(2, 3), maybe, later)
        whole = lazy_stack([whole, whole]) if lazy else whole
        for wanted in ((pick(Early, *fields),), fields):
            part = whole.pick(*wanted)
            assert type(part) is pick(Early, *fields)
            assert part.batch_size == whole.batch_size
            if "maybe" in schema(part):
                assert (part.maybe is None) is (maybe is None)
                assert ("maybe" in part) is (maybe is not None)


def test_picking_checks_nothing_twice():
    """What a class checked is not checked again by a class with the same declarations."""
    seen: list[int] = []

    class Counted(TensorClass):
        x: Float32[Tensor, "3"]
        y: Float32[Tensor, "3"]
        inner: Later

        @field_validator("x")
        def count(cls, value):
            """Counts the calls."""
            seen.append(1)
            return value

    class Declared(TensorClass):
        x: Float32[Tensor, "n"]
        inner: Later

    class Same(TensorClass):
        y: Float32[Tensor, "3"]
        inner: Later

    whole = Counted(torch.zeros(2, 3), torch.zeros(2, 3), Later(torch.zeros(2), torch.zeros(2)))
    called = len(seen)
    assert whole.pick("x", "inner.a").x is whole.x
    whole.inner._store._data["a"] = torch.zeros(2, 7)  # behind the back of every check
    assert whole.pick(Same).inner.a.shape == (2, 7)
    whole._store._data["y"] = torch.zeros(2, 9)
    assert whole.pick(Same).y is whole.y
    assert whole.pick("y").y is whole.y
    assert whole.pick(Declared).x is whole.x
    assert len(seen) == called


def test_batch_pick_of_a_lazy_stack():
    """The members stay where they are; nothing is stacked."""
    stacked = lazy_stack([batch(2), batch(2)])
    small = stacked.pick("image", "pose.angle")
    assert small._store._stacked
    assert torch.equal(small.image, stacked.image)
    assert type(small.pose) is pick(Pose, "angle")


def test_batch_merge():
    """Fields of both around the same tensors; dims of one name must agree."""
    left, right = batch(2), Crops(torch.zeros(2, 4, 5))
    both = left.merge(right)
    assert type(both) is merge(Digits, Crops)
    assert both.crop is right.crop
    assert both.names == ["d0"]
    with pytest.raises(SchemaError, match=r"`h` is 4 \(bound by `image`\), here 6"):
        left.merge(Crops(torch.zeros(2, 6, 5)))
    with pytest.raises(StructureError, match="`source` of the two batches differs"):
        left.merge(Crops(torch.zeros(2, 4, 5), source="web"))
    with pytest.raises(BatchSizeError, match=r"\[2\] \(Digits\) and \[3\] \(Crops\)"):
        left.merge(Crops(torch.zeros(3, 4, 5)))
    with pytest.raises(TypeError, match="takes tensorclasses"):
        left.merge(left.to_tensordict())


def test_what_merged_batches_agree_about():
    """Names and device are those of both; what one batch does not say the other does."""
    left, right = batch(2), Crops(torch.zeros(2, 4, 5))
    assert right.merge(left.pick("label")).names == ["d0"]
    right.names = ["d0"]
    assert left.merge(right).names == ["d0"]
    right.names = ["time"]
    with pytest.raises(StructureError, match=r"names \('d0',\) and \('time',\)"):
        left.merge(right)
    placed = Spans(torch.zeros(2), torch.zeros(2), device="cpu")
    assert left.merge(placed).device == placed.merge(left).device == torch.device("cpu")
    with pytest.raises(StructureError, match="devices cpu and meta"):
        placed.merge(Pose(torch.zeros(2), torch.zeros(2, 3), device="meta"))


def test_batch_merge_into_a_class():
    """A class written by hand names the result for checkers."""

    class Scene(TensorClass):
        angle: Float32[Tensor, ""]
        axis: Float32[Tensor, "3"]
        end: Float32[Tensor, ""]
        start: Float32[Tensor, ""]

    pose, span = Pose(torch.zeros(2), torch.ones(2, 3)), Spans(torch.zeros(2), torch.ones(2))
    scene = pose.merge(span, Scene)
    assert type(scene) is Scene
    assert scene.end is span.end


def test_batch_extend():
    """A class with more fields takes this batch and what it lacks."""

    class Labelled(Pose):
        label: Int64[Tensor, ""]
        note: str = "none"
        score: Float32[Tensor, ""] = produced()

    pose = Pose(torch.zeros(2), torch.ones(2, 3), names=["time"])
    more = pose.extend(Labelled, label=torch.tensor([1, 2]))
    assert type(more) is Labelled
    assert more.angle is pose.angle
    assert (more.names, more.note) == (["time"], "none")
    assert pose.extend(Labelled, label=torch.tensor([1, 2]), score=torch.ones(2)).score.sum() == 2
    for fields, text in (({}, "label"), ({"label": torch.tensor([1, 2]), "nota": "x"}, "did you mean `note`")):
        with pytest.raises(SchemaError, match=text):
            pose.extend(Labelled, **fields)
    with pytest.raises(SchemaError, match="a field of Labelled"):
        more.extend(Pose)


# ---- everywhere --------------------------------------------------------------------------------------------------


def test_torch_functions_and_pytree():
    """Operations keep the class."""
    Small = pick(Digits, "image", "pose.angle")
    small = batch(3).pick("image", "pose.angle")
    assert type(stack([small, small])[0]) is Small
    assert type(torch.cat([small, small])) is Small
    doubled = pytree.tree_map(lambda t: t * 2, small)
    assert type(doubled) is Small
    assert type(doubled.pose) is pick(Pose, "angle")
    assert torch.equal(doubled.image, small.image * 2)
    both = batch(3).merge(Crops(torch.zeros(3, 4, 5)))
    assert type(both[1:].unbind()[0]) is merge(Digits, Crops)


def test_pipelines():
    """Picked and merged classes are inputs and outputs of a pipeline, by reference."""
    Angles, Ends = pick(Pose, "axis"), omit(Spans, "start")
    pipeline = TensorClassSequential(
        TensorClassModule(lambda axis: axis.sum(-1), in_fields=Angles.axis, out_fields=Ends.end, name="head"),
        input=Angles,
        output=Ends,
    )
    given = Pose(torch.zeros(2), torch.ones(2, 3)).pick("axis")
    assert type(pipeline(given)) is Ends
    assert pipeline(given).end.tolist() == [3.0, 3.0]


@pytest.mark.slow
def test_compile():
    """Instances are made inside of a compiled function without a graph break."""

    class Sizes(TensorClass):
        extent: Float32[Tensor, "2"]

    class Posed(Pose):
        extent: Float32[Tensor, "2"]

    Small, Both = pick(Pose, "axis"), merge(Pose, Sizes)

    def work(pose: Pose, sizes: Sizes) -> tuple[object, ...]:
        both = Both(pose.angle, pose.axis, sizes.extent)
        posed = pose.merge(sizes), pose.merge(sizes, Posed), pose.extend(Posed, extent=sizes.extent), both.pick(Posed)
        return pose.pick(Small) * 2, pose.pick("axis"), both[0], *posed

    pose, sizes = Pose(torch.zeros(2), torch.ones(2, 3)), Sizes(torch.zeros(2, 2))
    found = torch.compile(work, fullgraph=True, backend="eager")(pose, sizes)
    assert [type(result) for result in found] == [Small, Small, Both, Both, Posed, Posed, Posed]
    assert torch.equal(found[0].axis, torch.full((2, 3), 2.0))


class Cast(TensorClass, autocast=True):
    x: Float32[Tensor, ""]


class Strict(TensorClass, nocast=True):
    y: Float32[Tensor, ""]


class Exact(TensorClass):
    z: Float32[Tensor, ""]


class Lenient(TensorClass, autocast=True):
    w: Float32[Tensor, ""]


@pytest.mark.parametrize(
    ("classes", "policies"),
    [
        ((Cast, Strict), {"x": "cast", "y": "strict"}),
        ((Exact, Strict), {"z": "exact", "y": "strict"}),
        ((Cast, Exact), {"x": "cast", "z": "exact"}),
        ((Cast, Strict, Exact), {"x": "cast", "y": "strict", "z": "exact"}),
        ((Cast, Lenient), {"x": None, "w": None}),
    ],
)
def test_merged_fields_keep_the_conversions_of_their_class(classes, policies):
    """Where the classes convert differently each field says how; where they agree the merged class does."""
    merged = merge(*classes)
    assert {name: spec.coerce for name, spec in schema(merged).fields.items()} == policies
    values = dict.fromkeys(policies, torch.zeros(2, dtype=torch.float64))
    wrong = {name for name, policy in policies.items() if policy in ("strict", "exact")}
    if wrong:
        with pytest.raises(SchemaError) as caught:
            merged(**values)
        assert {problem.path for problem in caught.value.problems} == wrong
    else:
        assert {merged(**values).get(name).dtype for name in policies} == {torch.float32}


class Corner(TensorClass):
    pose: Pose
    extra: TensorDict
    z: Float32[Tensor, ""]


class Extra(TensorClass):
    pose: Pose
    extra: TensorDict
    w: Float32[Tensor, "n"] | None = None


@pytest.mark.parametrize(
    "make",
    [
        lambda whole: whole.pick("pose", "extra"),
        lambda whole: whole.pick("extra"),
        lambda whole: whole.pick(Extra),
        lambda whole: whole.pick("pose", "extra").merge(Later(torch.zeros(2), torch.zeros(2))),
        lambda whole: whole.merge(whole),
        lambda whole: whole.pick("pose", "extra").extend(Corner, z=torch.zeros(2)),
        lambda whole: whole.pick("pose", "extra").extend(Extra),
    ],
    ids=["fields", "one field", "class", "merge", "itself", "extend", "extend by a default"],
)
def test_containers_of_what_is_made_are_twins(make):
    """A nested container in the new batch is another one: keys that are added to it are not in the old batch."""
    whole = Corner(
        pose=Pose(torch.zeros(2), torch.zeros(2, 3)),
        extra=TensorDict(a=torch.zeros(2), batch_size=[2]),
        z=torch.zeros(2),
    )
    part = make(whole)
    part.extra["b"] = torch.ones(2)
    assert list(whole.extra.keys()) == ["a"]
    assert part.extra["a"] is whole.extra["a"]
    if "pose" in schema(part):
        part.pose.angle = torch.ones(2)
        assert whole.pose.angle.sum() == 0
