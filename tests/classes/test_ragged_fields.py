"""Ragged fields of typed classes: declaration, validation, batch operations, writes; and the policy "pad"."""

from __future__ import annotations

import copy
import pickle
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from annotated_types import Ge
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader

from tensorclass import (
    PerElement,
    Ragged,
    RaggedTensor,
    Schema,
    Shared,
    TensorClass,
    collate,
    equal,
    field,
    field_validator,
    schema,
    tensorclass,
)
from tensorclass.errors import BatchSizeError, CastError, SchemaError, StructureError
from tensorclass.typing import Bool, Float, Float32, Int64
from tests.classes._samples import Form


@tensorclass
class Text:
    """A text as tokens, and what stands beside it."""

    tokens: Int64[RaggedTensor, "t"]
    label: Int64[Tensor, ""]


class Speech(TensorClass):
    """Frames of any length, whose width other fields share."""

    frames: Ragged[Tensor, "t d"]
    center: Float32[Tensor, "d"]
    extra: Float[RaggedTensor, "s _"] | None = None


def texts(lengths: list[int]) -> Any:
    """Texts whose label is their length, and whose tokens repeat their position."""
    tokens = [torch.full((length,), i) for i, length in enumerate(lengths)]
    return Text(tokens, torch.tensor(lengths, dtype=torch.int64), batch_size=[len(lengths)])


def speech(*lengths: int, width: int = 2) -> Speech:
    """Frames that count up."""
    frames = [torch.arange(length * width, dtype=torch.float32).reshape(length, width) for length in lengths]
    return Speech(frames, torch.zeros(len(lengths), width))


def told(call: Any) -> Any:
    """The problems of a call that is refused."""
    with pytest.raises(SchemaError) as caught:
        call()
    return caught.value.problems


def declared(annotation: Any, **options: Any) -> Any:
    """A class with one field."""
    return tensorclass(type("Made", (), {"__annotations__": {"x": annotation}, "x": field(**options)}))


# ---- declaration -----------------------------------------------------------------------------------------------------


def test_the_spellings_of_one_declaration(form: Form) -> None:
    """`Ragged[Tensor, ...]` leaves the dtype open, a family of `RaggedTensor` names it."""

    @form()
    class Made(form.base):
        a: Ragged[Tensor, "t d"]
        b: Float32[RaggedTensor, "t d"]
        c: Annotated[Ragged[Tensor, "t d"], torch.float32]
        d: RaggedTensor
        e: Ragged[Tensor, "_ 3"] | None = None

    fields = schema(Made).fields
    assert [spec.kind for spec in fields.values()] == ["ragged"] * 5
    assert [str(spec) for spec in fields.values()] == [
        'Ragged[Shaped["t d"]]',
        'Ragged[Float32["t d"]]',
        'Ragged[Float32["t d"]]',
        "Ragged[Tensor]",
        'Ragged[Shaped["_ 3"]] | None',
    ]
    assert {spec.join for spec in fields.values()} == {"ragged"}
    assert Schema.from_dict(schema(Made).to_dict()) == schema(Made)
    batch = Made([torch.zeros(2, 2)], [torch.zeros(2, 2)], [torch.zeros(2, 2)], [torch.zeros(3)])
    assert batch.batch_size == torch.Size([1])
    assert type(batch.d) is RaggedTensor


def test_a_child_narrows_a_ragged_field() -> None:
    """As a tensor field: a dtype of the family, the same dims under any name."""

    class Child(Speech):
        frames: Float32[RaggedTensor, "s d"]  # type: ignore[assignment]  # the field of the parent reads as a tensor

    assert schema(Child).fields["frames"].dtype == schema(Child).fields["center"].dtype
    with pytest.raises(SchemaError, match="narrow"):

        class Wrong(Speech):
            frames: Float32[RaggedTensor, "t"]  # type: ignore[assignment]  # the point

    with pytest.raises(SchemaError, match="a tensor field is not a ragged field"):

        class Dense(Speech):
            frames: Float32[Tensor, "t d"]


@pytest.mark.parametrize(
    ("annotation", "options", "words"),
    [
        (Ragged[Tensor, "..."], {}, "a name of its own"),
        (Ragged[Tensor, "2*t d"], {}, "a name of its own"),
        (Ragged[Tensor, "t d+t"], {}, "a name of its own"),
        (Ragged[Tensor, "t"] | Tensor, {}, "a union"),
        (Int64[RaggedTensor, "t"] | str, {}, "a union"),
        (Shared[Ragged[Tensor, "t"]], {}, "drop `Shared`"),
        (PerElement[str], {"join": "ragged"}, 'declare `Ragged[Tensor, "t d"]`'),
        (Ragged[Tensor, "t"], {"default": torch.zeros(2)}, "default_factory"),
        (Ragged[Tensor, "t"], {"default": []}, "default_factory"),
        (Ragged[Tensor, "t"], {"default": None}, "| None"),
        (Ragged[Tensor, "t"] | None, {"join": "fill"}, "fill"),
    ],
)
def test_wrong_declarations(annotation: Any, options: dict[str, Any], words: str) -> None:
    """A declaration that can't be meant is refused where it stands."""
    with pytest.raises(SchemaError) as caught:
        declared(annotation, **options)
    assert words in str(caught.value)


# ---- validation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "path", "given", "hint"),
    [
        (lambda: Text([torch.zeros(2)], torch.zeros(1).long()), "tokens[0]", "float32 [2]", ".to(torch.int64)"),
        (lambda: Text([[1, 2]], torch.zeros(1).long()), "tokens[0]", "list [1, 2]", "a tensor"),
        (lambda: Text(torch.zeros(2, 3).long(), torch.zeros(2).long(), batch_size=[2]), "tokens", "tensor", "unpad"),
        (lambda: Text("ab", torch.zeros(2).long()), "tokens", "str 'ab'", "pass 2 here"),
        (lambda: Text([torch.zeros(1).long()], torch.zeros(2).long()), "label", "int64 [2]", "inferred from `tokens`"),
        (lambda: Text([torch.zeros(1).long()], torch.zeros(2).long(), batch_size=[2]), "tokens", "1 entries", "pass 2"),
        (lambda: Text(None, torch.zeros(2).long()), "tokens", "None", "| None"),
        (lambda: Text([torch.tensor(1)], torch.zeros(1).long()), "tokens[0]", "tensor int64 []", "one tensor"),
        (lambda: speech(1, width=3).set("frames", [torch.zeros(1, 2)]), "frames[0]", "float32 [1, 2]", "`center`"),
        (lambda: Speech([torch.zeros(1, 2), torch.zeros(1, 3)], torch.zeros(2, 2)), "frames[1]", "[1, 3]", "`d` is 2"),
        (lambda: Speech([torch.zeros(1)], torch.zeros(1, 2)), "frames[0]", "float32 [1]", "1 event dims"),
        (
            lambda: Speech([torch.zeros(1, 2), torch.zeros(1, 2).double()], torch.zeros(2, 2)),
            "frames[1]",
            "float64",
            "differ only in length",
        ),
        (
            lambda: speech(1).set("extra", RaggedTensor([torch.zeros(1, 2), torch.zeros(2, 2)])),
            "extra",
            "batch size [2]",
            "here [2]",
        ),
        (
            lambda: speech(1, 1).set("extra", [torch.zeros(1, 2), torch.zeros(2, 3)]),
            "extra[1]",
            "[2, 3]",
            "differ only in length",
        ),
    ],
)
def test_what_is_refused(call: Any, path: str, given: str, hint: str) -> None:
    """Each problem is told with the element, what came and what to do."""
    problem = told(call)[0]
    assert problem.path == path
    assert given in problem.given
    assert hint in problem.hint


def test_every_wrong_element_is_told() -> None:
    """All problems come together, each kind of element once."""
    values = [torch.zeros(1), torch.zeros(2).half(), torch.zeros(3)]
    found = told(lambda: Text(values, torch.zeros(3, dtype=torch.int32)))
    assert [problem.path for problem in found] == ["tokens[0]", "tokens[1]", "label"]


def test_what_is_taken() -> None:
    """Lists, tuples, arrays, nested tensors, and the object itself."""
    expected = [[1, 2], [3]]
    tensors = [torch.tensor(row) for row in expected]
    label = torch.zeros(2, dtype=torch.int64)
    forms = [tensors, tuple(tensors), [np.array(row) for row in expected], RaggedTensor(tensors)]
    forms.append(torch.nested.nested_tensor(tensors, layout=torch.jagged))
    for value in forms:
        batch = Text(value, label)
        assert [t.tolist() for t in batch.tokens] == expected
        batch.tokens = value
        assert [t.tolist() for t in batch.tokens] == expected
    assert Text(tensors[0], label[0]).tokens.item().tolist() == [1, 2]
    nested = Text([tensors, tensors], torch.zeros(2, 2, dtype=torch.int64))
    assert nested.batch_size == torch.Size([2, 2])


def test_a_validator_that_changes_the_list() -> None:
    """Elements are checked once, but those that a validator puts into the list are checked too; the list stays."""

    class Changed(TensorClass):
        words: Int64[RaggedTensor, "t"]

        @field_validator("words")
        def change(cls, value: Any) -> Any:
            """Another dtype for a short one."""
            value[1] = value[1] if value[1].numel() > 1 else value[1].float()
            return value

    given = [torch.arange(2), torch.arange(3)]
    assert Changed(words=given).words.lengths.tolist() == [2, 3]
    assert type(given) is list
    with pytest.raises(StructureError, match=r"differ only in length.*float32"):
        Changed(words=[torch.arange(2), torch.arange(1)])


def test_a_batch_without_elements() -> None:
    """The dtype is the declared one although nothing carries it."""
    empty = Text([], torch.zeros(0, dtype=torch.int64))
    assert empty.batch_size == torch.Size([0])
    assert empty.tokens.dtype is torch.int64
    assert [t.tolist() for t in torch.cat([empty, texts([2])]).tokens] == [[0, 0]]


def test_options_of_the_class() -> None:
    """`validate="values"` looks into the elements, `autocast` converts them."""

    @tensorclass(validate="values")
    class Positive:
        x: Annotated[Int64[RaggedTensor, "t"], Ge(1)]

    assert "first -1 at [1]" in told(lambda: Positive([torch.tensor([1]), torch.tensor([2, -1])]))[0].hint

    @tensorclass(autocast=True)
    class Cast:
        x: Int64[RaggedTensor, "t"]

    assert Cast([torch.tensor([1.0]), torch.tensor([2, 3])]).x.dtype is torch.int64


# ---- batch operations ------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.data())
def test_elements_stay_beside_their_fields(lengths: list[int], data: Any) -> None:
    """After any sequence of selections and joins every text is as long as its label says."""
    batch = texts(lengths)
    for _ in range(data.draw(st.integers(1, 3))):
        n = len(batch)
        index = torch.tensor(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=5)))
        step = data.draw(st.sampled_from(["index", "cat", "stack", "clone", "pickle", "chunk"]))
        if step == "index":
            batch = batch[index]
        elif step == "cat":
            batch = torch.cat([batch, batch[index]])
        elif step == "stack":
            batch = torch.stack([batch, batch[torch.arange(n - 1, -1, -1)]]).reshape(-1)
        elif step == "clone":
            batch = batch.clone()
        elif step == "pickle":
            batch = pickle.loads(pickle.dumps(batch))
        else:
            batch = torch.cat(batch.chunk(2)[::-1])
    assert type(batch) is Text
    assert batch.tokens.lengths.tolist() == batch.label.tolist()
    assert [len(t) for t in batch.tokens] == batch.label.tolist()


def test_moves_casts_and_copies() -> None:
    """Casts are held to the declaration, arithmetic reaches the values."""
    batch = speech(1, 3)
    assert (batch + 1).frames.values.min() == 1
    assert equal(copy.deepcopy(batch), batch)
    assert equal(Speech.from_dict(batch.to_dict()), batch)
    assert equal(Speech.from_tensordict(batch.to_tensordict()), batch)
    assert (batch == batch).frames.dtype is torch.bool
    with pytest.raises(CastError, match="center"):
        batch.half()
    assert texts([1, 2]).half().tokens.dtype is torch.int64
    with pytest.raises(SchemaError, match="tokens"):
        texts([1, 2]) / 2


def test_data_loader() -> None:
    """A DataLoader gathers rows or collates elements."""
    batch = texts([1, 2, 3, 4])
    for loader in (DataLoader(batch, 2), DataLoader(list(batch.unbind(0)), 2)):  # type: ignore[arg-type, var-annotated]  # a batch is a dataset
        assert [part.tokens.lengths.tolist() for part in loader] == [[1, 2], [3, 4]]
    assert collate([batch[0], batch[3]]).tokens.lengths.tolist() == [1, 4]


def test_writes() -> None:
    """By index and in place, of another length; a frozen class refuses."""
    batch = texts([1, 2])
    batch[0] = Text(torch.tensor([5, 5, 5]), torch.tensor(3))
    assert batch.tokens.lengths.tolist() == [3, 2]
    batch.update_({"tokens": [torch.tensor([1]), torch.tensor([2])]})
    assert [t.tolist() for t in batch.tokens] == [[1], [2]]
    with pytest.raises((StructureError, BatchSizeError), match="tokens"):
        batch.update_({"label": torch.tensor([9, 9]), "tokens": [torch.zeros(1, 2).long()] * 2})
    assert batch.label.tolist() == [3, 2]


def test_an_optional_ragged_field() -> None:
    """Absent it is None; joined with one that is set it is refused by name."""
    batch = speech(1, 2)
    assert batch.extra is None
    full = batch.replace(extra=[torch.zeros(1, 4), torch.zeros(3, 4)])
    assert full.extra is not None
    with pytest.raises(StructureError, match="extra"):
        torch.stack([batch, full])


# ---- the policy "pad" ------------------------------------------------------------------------------------------------


def padded_class(form: Form) -> Any:
    """A class whose sizes differ from batch to batch."""

    @form()
    class Padded(form.base):
        x: Float32[Tensor, "n d"] = field(join="pad", fill=-1)
        mask: Bool[Tensor, "n"] = field(join="pad")
        label: Int64[Tensor, ""]

    return Padded


def padded(cls: Any, size: int, *batch: int) -> Any:
    """Ones of one length, all of them valid."""
    return cls(torch.ones(*batch, size, 2), torch.ones(*batch, size).bool(), torch.full(batch, size))


@pytest.mark.parametrize("joined", [torch.stack, collate])
def test_pad_to_the_longest(form: Form, joined: Any) -> None:
    """Stack and collate fill up behind the shorter ones, with the fill of the field."""
    cls = padded_class(form)
    batch = joined([padded(cls, 1), padded(cls, 3)])
    assert batch.x.shape == torch.Size([2, 3, 2])
    assert batch.x[0, 1:].tolist() == [[-1.0, -1.0]] * 2
    assert batch.mask.sum(-1).tolist() == batch.label.tolist() == [1, 3]


def test_pad_in_cat(form: Form) -> None:
    """`cat` pads event dims, never the batch dim along which it joins."""
    cls = padded_class(form)
    batch = torch.cat([padded(cls, 1, 2), padded(cls, 3, 1)])
    assert batch.batch_size == torch.Size([3])
    assert batch.mask.sum(-1).tolist() == batch.label.tolist() == [1, 1, 3]
    assert type(batch) is cls


def test_pad_keeps_gradients(form: Form) -> None:
    """What was padded still reaches the tensor it came from."""
    cls = padded_class(form)
    short = padded(cls, 1)
    short.x = leaf = torch.ones(1, 2, requires_grad=True)
    torch.stack([short, padded(cls, 2)]).x.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [[1.0, 1.0]]


def test_pad_does_not_hide_other_differences(form: Form) -> None:
    """Fields without the policy still have one event shape."""

    @form()
    class Mixed(form.base):
        x: Float32[Tensor, "n"] = field(join="pad")
        y: Float32[Tensor, "n"]
        z: Float32[Tensor, "..."] = field(join="pad")

    def made(size: int, *z: int) -> Any:
        return Mixed(x=torch.zeros(size), y=torch.zeros(size), z=torch.zeros(z), batch_size=[])

    with pytest.raises(StructureError, match="`y`: shapes differ"):
        torch.stack([made(1), made(2)])
    with pytest.raises(StructureError, match="`z`: shapes differ"):
        torch.stack([made(1, 2), made(1, 2, 2)])


def test_pad_within_nested_classes() -> None:
    """A nested class pads by its own fields."""
    inner = declared(Float32[Tensor, "n"], join="pad")
    outer = tensorclass(type("Outer", (), {"__annotations__": {"inner": inner}}))
    batch = torch.stack([outer(inner(torch.ones(1))), outer(inner(torch.ones(2)))])  # type: ignore[arg-type]  # made at run time
    assert batch.inner.x.tolist() == [[1.0, 0.0], [1.0, 1.0]]  # type: ignore[attr-defined]  # made at run time
