"""Class-to-class modules: alone, chained, in typed and keyed sequences, and keyed modules among typed ones."""

from __future__ import annotations

import copy
import pickle
from typing import Generic, TypeVar

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn

from tensorclass import TensorClass, TensorDict, equal, produced
from tensorclass.errors import BuildError, MissingKeyError, SchemaError
from tensorclass.nn import (
    TensorClassModule,
    TensorClassModuleBase,
    TensorClassSequential,
    TensorDictModule,
    TensorDictSequential,
)
from tensorclass.typing import Float32, Int64


class Digits(TensorClass):
    image: Float32[Tensor, "64"]
    label: Int64[Tensor, ""]
    weight: Float32[Tensor, ""] | None = None


class Page(Digits):
    page: Int64[Tensor, ""] | None = None


class Hidden(TensorClass):
    h: Float32[Tensor, "8"]


class Prediction(TensorClass):
    logits: Float32[Tensor, "10"]
    digit: Int64[Tensor, ""]


class Encoder(TensorClassModuleBase[Digits, Hidden]):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 8)

    def forward(self, batch: Digits) -> Hidden:
        return Hidden(self.linear(batch.image), batch_size=batch.batch_size)


class Head(TensorClassModuleBase):
    """Says its classes in the annotations alone."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 10)

    def forward(self, batch: Hidden) -> Prediction:
        logits = self.linear(batch.h)
        return Prediction(logits, logits.argmax(-1), batch_size=batch.batch_size)


class Swapped(TensorClassModuleBase[Digits, Hidden]):
    """Returns what it does not declare."""

    def forward(self, batch: Digits) -> Hidden:
        return batch


class Mirror(TensorClassModuleBase[Digits, Page]):
    """Returns a subclass of what it takes."""

    def forward(self, batch: Digits) -> Page:
        return Page(batch.image.flip(-1), batch.label, weight=batch.weight, batch_size=batch.batch_size)


def digits(n: int = 4) -> Digits:
    """A batch of random images."""
    return Digits(torch.rand(n, 64), torch.arange(n))


# ---- alone ---------------------------------------------------------------------------------------------------------


def test_classes_by_type_arguments_and_by_annotations():
    """Both ways of saying them are known."""
    assert (Encoder.input_type, Encoder.output_type) == (Digits, Hidden)
    head = Head()
    assert (head.input_type, head.output_type) == (Hidden, Prediction)


T = TypeVar("T")


class Renamed(TensorClassModuleBase[T, Hidden], Generic[T]):
    def forward(self, batch: T) -> Hidden:
        return Hidden(batch.image[..., :8], batch_size=batch.batch_size)


class OfDigits(Renamed[Digits]):
    pass


def test_classes_through_a_generic_class():
    """A type variable of a class in between is filled in by its subclass."""
    assert (OfDigits.input_type, OfDigits.output_type) == (Digits, Hidden)
    assert OfDigits()(digits()).h.shape == (4, 8)
    assert Renamed.output_type is Hidden
    assert not hasattr(Renamed, "input_type")


def test_a_subclass_of_the_input_is_taken():
    """Width subtyping by inheritance."""
    page = Page(torch.rand(2, 64), torch.zeros(2, dtype=torch.int64), page=torch.ones(2, dtype=torch.int64))
    assert Encoder()(page).h.shape == (2, 8)


def test_another_input_is_refused():
    """The message says what is taken and what came; a container is told the way in."""
    with pytest.raises(SchemaError, match="Head takes a Hidden, got Digits of batch size") as caught:
        Head()(digits())
    assert isinstance(caught.value, TypeError)
    with pytest.raises(
        SchemaError, match=r"`Digits.from_dict\(value.to_dict\(\)\)`; or call `module.as_td_module\(\)`"
    ):
        Encoder()(TensorDict(image=torch.zeros(64)))


def test_another_output_is_refused():
    """What comes back is held to the declared class at every call."""
    module = Swapped()
    for _ in range(2):
        with pytest.raises(SchemaError, match="Swapped declares Hidden, but returned Digits"):
            module(digits())


def test_hooks_and_forward_are_those_of_modules():
    """The checks stand around hooks; `forward` alone is unchecked."""
    heard = []
    module = Encoder()
    module.register_forward_hook(lambda *_: heard.append(1))
    module(digits())
    assert heard == [1]
    assert Swapped().forward(digits()).label.shape == (4,)


def test_without_forward():
    """A module that computes nothing can't be made."""

    class Nothing(TensorClassModuleBase[Digits, Hidden]):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Nothing()


# ---- chained -------------------------------------------------------------------------------------------------------


def test_chain():
    """`a >> b` is b after a, with the ends of both; parameters are registered in order."""
    encoder, head = Encoder(), Head()
    chain = encoder >> head
    batch = digits()
    assert equal(chain(batch), head(encoder(batch)))
    assert (chain.input_type, chain.output_type, len(chain)) == (Digits, Prediction, 2)
    assert list(chain.state_dict()) == ["0.linear.weight", "0.linear.bias", "1.linear.weight", "1.linear.bias"]


def test_chain_of_chains_is_flat():
    """Brackets make no difference."""
    a, b, c = Mirror(), Encoder(), Head()
    assert [list(chain) for chain in (a >> b >> c, a >> (b >> c))] == [[a, b, c], [a, b, c]]


def test_one_module_in_two_places():
    """A module that stands twice runs twice."""
    mirror = Mirror()
    batch = digits()
    assert torch.equal((mirror >> mirror)(batch).image, batch.image)


def test_chain_that_does_not_fit():
    """The error names both modules and both classes, before there is data."""
    with pytest.raises(BuildError, match="`Head` returns Prediction, `Encoder` takes Digits"):
        Head() >> Encoder()


def test_narrower_output_fits_wider_input():
    """A module that returns a subclass feeds one that takes the class; not the other way round."""
    assert (Mirror() >> Encoder())(digits()).h.shape == (4, 8)

    class OfPages(TensorClassModuleBase[Page, Hidden]):
        def forward(self, batch: Page) -> Hidden:
            return Hidden(batch.image[..., :8], batch_size=batch.batch_size)

    class Plain(TensorClassModuleBase[Hidden, Digits]):
        def forward(self, batch: Hidden) -> Digits:
            raise NotImplementedError

    with pytest.raises(BuildError, match="`Plain` returns Digits, `OfPages` takes Page"):
        Plain() >> OfPages()


def test_chain_with_a_pipeline_on_either_side():
    """A typed pipeline stands in a chain."""
    pipeline = TensorClassSequential(
        TensorClassModule(nn.Linear(64, 8), Digits.image, Hidden.h), input=Digits, output=Hidden
    )
    for chain in (pipeline >> Head(), Mirror() >> pipeline >> Head()):
        assert chain(digits()).digit.shape == (4,)
    with pytest.raises(BuildError, match="`TensorClassSequential` returns Hidden, `Encoder` takes Digits"):
        pipeline >> Encoder()


def test_chain_of_a_module_without_classes():
    """What fits can't be said of a module that says nothing."""

    class Silent(TensorClassModuleBase):
        def forward(self, batch):
            return batch

    with pytest.raises(BuildError, match=r"Silent: its input and output .*Silent\(TensorClassModuleBase\[In, Out\]"):
        Encoder() >> Silent()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies(copied):
    """A copy computes the same with parameters of its own."""
    chain = Encoder() >> Head()
    twin = copied(chain)
    assert next(twin.parameters()) is not next(chain.parameters())
    batch = digits()
    assert equal(twin(batch), chain(batch))


@pytest.mark.slow
def test_chain_compiles():
    """One graph, checks included."""
    chain = Encoder() >> Head()
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(chain, fullgraph=True, backend="eager")
    for n in (2, 2, 5, 7):
        batch = digits(n)
        assert torch.equal(compiled(batch).logits, chain(batch).logits)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2


# ---- in a typed pipeline -------------------------------------------------------------------------------------------


def test_in_a_typed_pipeline():
    """The module reads every field of its input class and writes every field of its output class."""
    encoder, head = Encoder(), Head()
    pipeline = TensorClassSequential(encoder, head, input=Digits, output=Prediction)
    batch = digits()
    assert equal(pipeline(batch), head(encoder(batch)))
    assert "encoder_0.linear.weight" in pipeline.state_dict()
    assert pipeline(Page(batch.image, batch.label)).logits.shape == (4, 10)


def test_beside_typed_modules():
    """Typed modules read what a class-to-class module writes, and the other way round."""
    pipeline = TensorClassSequential(
        TensorClassModule(lambda image: image * 2, Digits.image, Digits.image, update=True),
        Encoder(),
        TensorClassModule(nn.Linear(8, 10), Hidden.h, Prediction.logits),
        TensorClassModule(lambda z: z.argmax(-1), Prediction.logits, Prediction.digit),
        input=Digits,
        output=Prediction,
    )
    assert pipeline(digits()).digit.shape == (4,)


def test_fields_that_nothing_reads_are_no_warning():
    """The module can't leave a field of its output class out."""
    pipeline = TensorClassSequential(Mirror(), Encoder(), input=Digits, output=Hidden)
    assert [d.code for d in pipeline.diagnostics] == []
    assert pipeline(digits()).h.shape == (4, 8)


def test_wrong_order_is_found_at_build():
    """The same diagnostics as for typed modules."""
    with pytest.raises(BuildError, match=r"E101.*`head_0` reads `h`.*\n.*\n.*\n.*`encoder_1` writes `h`; move it"):
        TensorClassSequential(Head(), Encoder(), input=Digits, output=Prediction)


def test_another_class_is_found_at_build():
    """Probing runs the module, and so finds that it returns another class."""
    with pytest.raises(BuildError, match=r"E111.*returns Digits of batch size .*, declared Hidden"):
        TensorClassSequential(Swapped(), Head(), input=Digits, output=Prediction)


def test_another_class_is_found_at_the_first_call():
    """Where nothing is probed, the first call finds it."""
    pipeline = TensorClassSequential(Swapped(), Head(), input=Digits, output=Prediction, probe=False)
    with pytest.raises(SchemaError, match="Swapped declares Hidden, but returned Digits"):
        pipeline(digits())


class Stage(TensorClass):
    image: Float32[Tensor, "64"]
    hidden: Float32[Tensor, "8"] = produced()


class Fill(TensorClassModuleBase[Stage, Hidden]):
    def forward(self, batch: Stage) -> Hidden:
        return Hidden(batch.hidden, batch_size=batch.batch_size)


def test_produced_fields_reach_the_module():
    """An input class with produced fields is put together from the constructor's fields and the others."""
    pipeline = TensorClassSequential(
        TensorClassModule(nn.Linear(64, 8), Stage.image, Stage.hidden), Fill(), input=Stage, output=Hidden
    )
    assert pipeline(Stage(torch.rand(3, 64))).h.shape == (3, 8)


# ---- among keyed modules -------------------------------------------------------------------------------------------


def test_class_modules_in_a_keyed_sequence():
    """They read and write the container under the names of their fields, and leave the rest."""
    sequence = TensorDictSequential(Encoder(), Head())
    assert (sequence.in_keys, sequence.out_keys) == (["image", "label", "weight"], ["h", "logits", "digit"])
    result = sequence(TensorDict(image=torch.rand(3, 64), label=torch.arange(3), extra=torch.ones(3), batch_size=[3]))
    assert sorted(result.keys()) == ["digit", "extra", "h", "image", "label", "logits"]


def test_keyed_sequence_holds_the_input_to_its_class():
    """What the container lacks or has of another dtype is named by field."""
    with pytest.raises(SchemaError, match="label"):
        TensorDictSequential(Encoder())(TensorDict(image=torch.rand(3, 64), label=torch.rand(3), batch_size=[3]))
    with pytest.raises(SchemaError, match="image"):
        TensorDictSequential(Encoder())(TensorDict(label=torch.arange(3), batch_size=[3]))


def test_batch_size_from_the_shapes():
    """A container without batch dims holds batches too; nested classes get theirs."""

    class Pair(TensorClass):
        left: Digits
        right: Float32[Tensor, "2"]

    class Join(TensorClassModuleBase[Pair, Pair]):
        def forward(self, batch: Pair) -> Pair:
            assert batch.left.batch_size == batch.batch_size == (3,)
            return batch

    left = {"image": torch.rand(3, 64), "label": torch.arange(3)}
    data = TensorDict({"left": left, "right": torch.rand(3, 2)})
    result = TensorDictSequential(Join())(data)
    assert result is data
    assert result["left", "image"] is left["image"]
    assert Encoder().as_td_module()(TensorDict(left)).batch_size == (3,)
    assert TensorDictSequential(Encoder())(torch.rand(3, 64), torch.arange(3)).shape == (3, 8)


def test_typed_modules_in_a_keyed_sequence():
    """The key of a field is its path; None drops an output; what is written has the declared dtype."""
    sequence = TensorDictSequential(
        TensorClassModule(lambda x: (x[..., :8], x.sum()), Digits.image, [Hidden.h, None]),
        TensorDictModule(nn.Linear(8, 10), in_keys=[Hidden.h], out_keys=["logits"]),
    )
    assert (sequence.in_keys, sequence.out_keys) == (["image"], ["h", "_", "logits"])
    h, logits = sequence(torch.rand(3, 64))
    assert (h.shape, logits.shape) == ((3, 8), (3, 10))
    wrong = TensorDictSequential(TensorClassModule(lambda x: x.double(), Digits.image, Hidden.h))
    with pytest.raises(SchemaError, match=r"Hidden.h\n.*Float32.*\n.*float64"):
        wrong(TensorDict(image=torch.rand(3, 64)))
    with pytest.raises(MissingKeyError, match="reads `image`"):
        TensorDictSequential(TensorClassModule(nn.Linear(64, 8), Digits.image, Hidden.h))(TensorDict())


def test_typed_pipeline_in_a_keyed_sequence():
    """A whole pipeline is one step, under the names of its ends."""
    pipeline = TensorClassSequential(Encoder(), Head(), input=Digits, output=Prediction)
    sequence = TensorDictSequential(TensorDictModule(lambda x: x / 255, ["image"], ["image"]), pipeline)
    result = sequence(TensorDict(image=torch.rand(3, 64), label=torch.arange(3), batch_size=[3]))
    assert sorted(result.keys()) == ["digit", "image", "label", "logits"]
    assert result["logits"].shape == (3, 10)


def test_keyed_module_in_a_typed_pipeline():
    """A keyed module is called with the values of the in fields, through dispatch, and may be a sequence."""
    keyed = TensorDictSequential(
        TensorDictModule(nn.Linear(64, 8), ["image"], ["h"]), TensorDictModule(nn.Linear(8, 10), ["h"], ["logits"])
    ).select_out_keys("logits")
    pipeline = TensorClassSequential(
        TensorClassModule(keyed, Digits.image, Prediction.logits),
        TensorClassModule(lambda z: z.argmax(-1), Prediction.logits, Prediction.digit),
        input=Digits,
        output=Prediction,
    )
    batch = digits()
    assert torch.equal(pipeline(batch).logits, keyed(batch.image))
    assert all(parameter in set(pipeline.parameters()) for parameter in keyed.parameters())


def test_keyed_form_writes_in_place_when_asked():
    """As other keyed modules do; by default it returns the fields of the output alone, as the original."""
    data = TensorDict(image=torch.rand(3, 64), label=torch.arange(3), batch_size=[3])
    alone = Encoder().as_td_module()(data)
    assert (list(alone.keys()), sorted(data.keys())) == (["h"], ["image", "label"])
    assert Encoder().as_td_module(inplace=True)(data) is data
    assert data["h"].shape == (3, 8)


def test_keyed_form_takes_typed_batches_and_tensors():
    """An instance of the input class goes straight in; tensors are packed by field."""
    keyed = Encoder().as_td_module()
    assert keyed(digits())["h"].shape == (4, 8)
    assert keyed(torch.rand(2, 64), torch.arange(2)).shape == (2, 8)
