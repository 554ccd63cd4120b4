"""What users of dataclasses expect: fields, replace, asdict, match, equality, copies, pickles, other processes."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.multiprocessing as multiprocessing
from torch import Tensor

from tensorclass import equal, field
from tensorclass.errors import SchemaError
from tensorclass.typing import Float32
from tests.classes._samples import SAMPLES, Form, aligned, digits, everything


def test_dataclasses_see_a_dataclass(ns: SimpleNamespace) -> None:
    """`is_dataclass` and `fields` work on the class and on an instance."""
    batch = digits(ns.Digits, 2)
    assert dataclasses.is_dataclass(ns.Digits)
    assert dataclasses.is_dataclass(batch)
    for target in (ns.Digits, batch):
        assert [f.name for f in dataclasses.fields(target)] == ["image", "label", "mask", "source"]
    by_name = {f.name: f for f in dataclasses.fields(ns.Everything)}
    assert by_name["source"].default == "scan"
    assert by_name["tags"].default_factory is dict
    assert not by_name["hidden"].init


def test_field_options_reach_dataclasses(form: Form) -> None:
    """Metadata, kw_only, repr and compare are as declared."""

    @form()
    class Noted(form.base):
        x: Float32[Tensor, ""]
        y: Float32[Tensor, ""] = field(kw_only=True, metadata={"unit": "m"}, repr=False, compare=False)

    y = dataclasses.fields(Noted)[1]
    assert (y.kw_only, dict(y.metadata), y.repr, y.compare) == (True, {"unit": "m"}, False, False)


def test_replace_keeps_batch_size_device_and_names(ns: SimpleNamespace) -> None:
    """`dataclasses.replace`, `copy.replace` and the method change some fields and keep everything else."""
    batch = everything(ns, 2, 3, device="cpu", names=["time", "lane"])
    label = torch.zeros(2, 3, dtype=torch.int64)
    for result in (
        dataclasses.replace(batch, label=label),
        batch.__replace__(label=label),
        batch.replace(label=label),
        batch.replace({"label": label}),
    ):
        assert type(result) is ns.Everything
        assert result.label is label
        assert result.image is batch.image
        assert result.who.tolist() == batch.who.tolist()
        assert (result.batch_size, result.device, result.names) == (batch.batch_size, batch.device, batch.names)
        assert batch.label.sum() == 15
        with pytest.raises(SchemaError, match="label"):
            dataclasses.replace(result, label=label.float())


def test_replace_with_another_batch_size(ns: SimpleNamespace) -> None:
    """All fields of another size need the batch size with them; without it the error says so."""
    batch = digits(ns.Digits, 4)
    smaller = {"image": batch.image[:2], "label": batch.label[:2]}
    assert dataclasses.replace(batch, **smaller, batch_size=[2]).batch_size == torch.Size([2])
    with pytest.raises(SchemaError, match="batch size"):
        dataclasses.replace(batch, **smaller)


def test_replace_keeps_produced_fields(ns: SimpleNamespace) -> None:
    """The method keeps what was produced."""
    batch = everything(ns, 2)
    batch.hidden = torch.ones(2, 4)
    assert batch.replace(source="new").hidden is batch.hidden


def test_asdict_and_astuple(ns: SimpleNamespace) -> None:
    """Fields come out as plain containers; nested classes become dicts."""
    batch = everything(ns, 2)
    batch.hidden = torch.zeros(2, 4)
    found = dataclasses.asdict(batch)
    assert list(found) == [f.name for f in dataclasses.fields(batch)]
    assert set(found["pose"]) == {"angle", "axis"}
    assert torch.equal(found["image"], batch.image)
    assert found["source"] == "scan"
    assert dataclasses.astuple(digits(ns.Digits, 2))[3] == "scan"


def test_match_statements(ns: SimpleNamespace) -> None:
    """Positional and keyword patterns take fields."""
    match digits(ns.Digits, 3):
        case ns.Digits(image, label, source="scan"):
            assert image.shape == (3, 2, 3)
            assert label.tolist() == [0, 1, 2]
        case _:
            raise AssertionError("no match")
    match digits(ns.Digits, 3):
        case ns.Pose():
            raise AssertionError("another class")
        case ns.Digits(source="mail"):
            raise AssertionError("another value")


def test_equality_is_elementwise_and_hash_is_identity(ns: SimpleNamespace) -> None:
    """`==` gives bool leaves, `equal` one bool; instances can stand in sets."""
    batch = everything(ns, 3)
    other = batch.clone()
    same = batch == other
    assert type(same) is ns.Everything
    assert same.image.all()
    assert same.pose.axis.dtype is torch.bool
    assert equal(batch, other)
    other.pose.angle[0] = 99
    assert not equal(batch, other)
    assert not equal(batch, batch.replace(source="new"))
    assert len({batch, other, batch}) == 2
    with pytest.raises(TypeError, match="ambiguous"):
        bool(batch)


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b)), lambda b: b.clone()])
def test_deep_copies(ns: SimpleNamespace, twin: Any) -> None:
    """A copy is equal, of the same class, and shares no tensor, not even a shared or nested one."""
    batch = everything(ns, 2, 3, names=["time", None])
    batch.hidden = torch.zeros(2, 3, 4)
    result = twin(batch)
    assert type(result) is ns.Everything
    assert type(result.pose) is ns.Pose
    assert equal(result, batch)
    assert (result.names, result.batch_size) == (batch.names, batch.batch_size)
    for key in ("image", "table", ("pose", "axis"), ("extra", "deep"), "hidden"):
        assert result.get(key).data_ptr() != batch.get(key).data_ptr()
    aligned(result)
    result.label = result.label + 1
    assert batch.label.sum() == 15


def test_shallow_copies(ns: SimpleNamespace) -> None:
    """`copy.copy` shares tensors, not structure, at every level."""
    batch = everything(ns, 2)
    result = copy.copy(batch)
    assert result.image is batch.image
    result.label = result.label + 1
    result.pose.angle = torch.ones(2)
    result.extra["deep"] = torch.ones(2)
    aligned(batch)


def test_deepcopy_keeps_identity_within(ns: SimpleNamespace) -> None:
    """One batch met twice is copied once."""
    batch = digits(ns.Digits, 2)
    first, second = copy.deepcopy([batch, batch])
    assert first is second


def test_torch_save_and_load(ns: SimpleNamespace) -> None:
    """An instance goes through `torch.save` and comes back with its class."""
    batch = everything(ns, 2)
    file = io.BytesIO()
    torch.save(batch, file)
    file.seek(0)
    restored = torch.load(file, weights_only=False)
    assert type(restored) is ns.Everything
    aligned(restored)
    assert equal(restored, batch)


def test_locks_survive_copies_as_documented(ns: SimpleNamespace) -> None:
    """A copy of a locked batch can be written; the original stays locked."""
    batch = everything(ns, 2).lock_()
    result = batch.clone()
    result.source = "new"
    assert batch.is_locked
    assert not result.is_locked


def _double(batch: Any, queue: Any, done: Any) -> None:
    batch.label.add_(100)
    queue.put((type(batch).__qualname__, batch.who.tolist(), batch.pose.doubled().sum().item()))
    queue.put(batch[1:])
    done.wait(120)  # shared memory lives as long as the process that made it


@pytest.mark.slow
def test_other_processes_share_memory() -> None:
    """A batch given to a spawned process is the same memory there, and instances travel through queues."""
    ns = SAMPLES["decorator"]
    batch = everything(ns, 3)
    context = multiprocessing.get_context("spawn")
    queue, done = context.Queue(), context.Event()
    process = context.Process(target=_double, args=(batch, queue, done))
    process.start()
    name, who, total = queue.get(timeout=120)
    tail = queue.get(timeout=120)
    assert (name, who, total) == ("Everything_decorator", ["a", "b", "c"], 6.0)
    assert batch.label.tolist() == [100, 101, 102]
    assert type(tail) is ns.Everything
    assert tail.label.tolist() == [101, 102]
    done.set()
    process.join(timeout=120)


def test_repr_shows_fields_and_types(ns: SimpleNamespace) -> None:
    """The repr names the class, every field with dtype and shape, nested classes, and the batch size."""
    text = repr(everything(ns, 2))
    for word in ("Everything(", "image: f32[2,3]", "Pose{", "who: PerElement[str]", "source", "batch_size=[2]"):
        assert word in text, text


def test_dir_shows_fields(ns: SimpleNamespace) -> None:
    """`dir` lists fields and operations."""
    names = dir(digits(ns.Digits, 2))
    assert {"image", "label", "mask", "source", "reshape", "batch_size"} <= set(names)
