"""A callable from one class to another reads the fields that the build check saw it read."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from tensorclass import tensorclass
from tensorclass.errors import BuildError, ModuleError
from tensorclass.nn import TensorClassModule, TensorClassSequential, stage
from tensorclass.typing import Float32, Int64


@tensorclass
class Pose:
    angle: Float32[Tensor, "3"]
    place: Float32[Tensor, "3"]


@tensorclass
class Scene:
    image: Float32[Tensor, "8"]
    label: Int64[Tensor, ""]
    pose: Pose
    weight: Float32[Tensor, ""] | None = None
    note: str = "scan"

    @property
    def bright(self) -> Tensor:
        """A property of the class reads fields too."""
        return self.image.amax(-1)


@tensorclass
class Unlabeled:
    image: Float32[Tensor, "8"]


@tensorclass
class Score:
    score: Float32[Tensor, ""]


def made(value: Tensor) -> Score:
    """A result."""
    return Score(score=value)


READERS = {
    "a field": (lambda s: made(s.image.sum(-1)), {"image"}),
    "two fields": (lambda s: made(s.image.sum(-1) + s.label), {"image", "label"}),
    "a nested class": (lambda s: made(s.pose.angle.sum(-1)), {"pose"}),
    "a property": (lambda s: made(s.bright), {"image"}),
    "a key": (lambda s: made(s["image"].sum(-1)), {"image"}),
    "an attribute by name": (lambda s: made(getattr(s, "ima" + "ge").sum(-1)), {"image"}),
    "another device": (lambda s: made(s.to("cpu").image.sum(-1)), {"image"}),
    "a copy": (lambda s: made(s.clone().detach().image.sum(-1)), {"image"}),
    "a replaced field": (lambda s: made(s.replace(label=s.label + 1).image.sum(-1)), {"image", "label"}),
    "an optional field": (lambda s: made(s.image.sum(-1) if s.weight is None else s.weight), {"image", "weight"}),
    "sizes": (lambda s: made(torch.zeros(s.batch_size) + s.image.sum(-1) * len(s)), {"image"}),
    "a part of the batch": (lambda s: made(torch.stack([s[i].image.sum(-1) for i in range(len(s))])), None),
    "all fields at once": (lambda s: made(s.to_tensordict()["image"].sum(-1)), None),
    "a branch on values": (lambda s: made(s.image.sum(-1) if s.image.sum() > -1 else s.label + 0.0), None),
    "none": (lambda s: made(torch.zeros(s.batch_size)), None),
}


def annotated(call):
    """A callable with the classes as annotations."""

    def reader(batch: Scene) -> Score:
        return call(batch)

    return reader


@pytest.mark.parametrize("case", READERS)
def test_only_fields_that_are_read_count(case):
    """The fields that a callable was seen to read are its in fields; all are, where that can't be known."""
    call, names = READERS[case]
    pipeline = TensorClassSequential(annotated(call))
    read = {slot.name for slot in pipeline._stages[0].reads}
    assert read == (names or {"image", "label", "pose", "weight", "note"})
    batch = Scene.example(3)
    assert torch.equal(pipeline(batch).score, call(batch).score)


class Net(nn.Module):
    """Reads the label in training only."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 1)

    def forward(self, batch: Scene) -> Score:
        score = self.head(batch.image)[..., 0]
        return Score(score=score + batch.label if self.training else score)


def test_both_modes_count():
    """A field that is read in training or in evaluation is an in field; the modes of the modules stay."""
    net = Net().eval()
    pipeline = TensorClassSequential(net)
    assert [slot.name for slot in pipeline._stages[0].reads] == ["image", "label"]
    assert not net.training
    assert not net.head.training


class Reader(nn.Module):
    """Reads the image, and a note that tells it to read the label."""

    secret = False

    def forward(self, batch: Scene) -> Score:
        return Score(score=batch.image.sum(-1) + (batch.label if self.secret else 0))


def test_a_smaller_input_is_enough():
    """A pipeline whose input lacks fields that are not read builds, explains itself and is copied."""
    pipeline = TensorClassSequential(Reader(), input=Unlabeled, output=Score)
    batch = Unlabeled(image=torch.ones(3, 8))
    for model in (pipeline, copy.deepcopy(pipeline), pickle.loads(pickle.dumps(pipeline))):
        assert model(batch).score.tolist() == [8, 8, 8]
        assert [str(field) for field in model.in_fields] == ['Scene.image: Float32["8"]']
    assert " label" not in str(pipeline.explain(batch_size=2))
    assert torch.compile(pipeline, fullgraph=True, backend="eager")(batch).score.tolist() == [8, 8, 8]
    with pytest.raises(BuildError, match="label"):
        TensorClassSequential(Reader(), input=Unlabeled, output=Score, probe=False)


def test_parts_leave_out_what_is_not_read():
    """Modules that only write fields that a callable doesn't read are not in the part for its result."""

    def labels(image: Tensor) -> Tensor:
        return image.argmax(-1)

    relabel = TensorClassModule(labels, Scene.image, Scene.label, update=True)
    with pytest.warns(match="nothing reads"):
        pipeline = TensorClassSequential(relabel, score=Reader(), input=Scene, output=Score)
    assert len(pipeline.select_subsequence(out_fields=Score.score)) == 1


def test_a_field_that_was_not_seen_is_passed_where_it_exists():
    """A callable that reads another field later gets it, also in a nested pipeline; else the error names it."""
    reader = Reader()
    batch = Scene.example(3)
    whole = TensorClassSequential(
        inner=TensorClassSequential(reader), twice=stage(lambda s: s * 2, out=Score.score, update=True)
    )
    small = TensorClassSequential(reader, input=Unlabeled, output=Score)
    reader.secret = True
    assert torch.equal(whole(batch).score, 2 * (batch.image.sum(-1) + batch.label))
    with pytest.raises(ModuleError, match=r"reads Scene\.label, which it did not read when"):
        small(Unlabeled(image=torch.ones(3, 8)))
