"""Modules that read or write ragged elements run on real ones when a pipeline is built."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence

from tensorclass import Ragged, RaggedTensor, TensorClass
from tensorclass.errors import BuildError
from tensorclass.nn import PipelineWarning, TensorClassSequential, stage
from tensorclass.nn.parts._slots import Slot
from tensorclass.typing import Float32, Int64
from tests.nn._pipelines import step


class Speech(TensorClass):
    frames: Float32[RaggedTensor, "t 8"]
    phones: Int64[RaggedTensor, "t"]
    length: Int64[Tensor, ""]


class Aligned(TensorClass):
    frames: Float32[RaggedTensor, "t 8"]
    weight: Float32[Tensor, "t"]


class Outer(TensorClass):
    speech: Speech


class Deep(TensorClass):
    outer: Outer


class Dense(TensorClass):
    x: Float32[Tensor, "t 8"]
    length: Int64[Tensor, ""]


class Code(TensorClass):
    code: Float32[Tensor, "16"]


class States(TensorClass):
    states: Float32[RaggedTensor, "t 16"]


class Open(TensorClass):
    frames: Ragged[Tensor, "t d"]


class Recurrent(nn.Module):
    """A GRU over a packed sequence of the elements."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.rnn = nn.GRU(width, 16)

    def forward(self, frames: RaggedTensor) -> Tensor:
        """The last state."""
        last: Tensor = self.rnn(pack_sequence(frames.tolist(), enforce_sorted=False))[1][-1]
        return last


def mapped(width: int, out: int) -> Any:
    """A layer over all rows."""
    layer = nn.Linear(width, out)
    return lambda frames: frames.apply(layer)


def unpadded(width: int) -> Any:
    """Makes ragged elements of padded ones."""
    layer = nn.Linear(8, width)
    return lambda x, length: RaggedTensor.unpad(layer(x), length.clamp(1, x.shape[1]))


def refuses(frames: RaggedTensor) -> Tensor:
    """Takes one number of rows."""
    if int(frames.lengths.sum()) != 12_345:
        raise ValueError("another number of rows is needed")
    return torch.zeros(len(frames), 16)


LAYER = nn.Linear(8, 16)
CODE, STATES = Code.code, States.states
CASES: dict[str, tuple[Any, Any, Any, str]] = {
    "padded": (lambda frames: LAYER(frames.pad()).mean(1), Speech.frames, CODE, ""),
    "nested": (lambda frames: LAYER(frames.to_nested()).mean(1), Speech.frames, CODE, ""),
    "nested back": (lambda frames: LAYER(frames.to_nested()), Speech.frames, STATES, ""),
    "rows": (mapped(8, 16), Speech.frames, STATES, ""),
    "packed": (Recurrent(8), Speech.frames, CODE, ""),
    "lengths that agree": (
        lambda f, p: f.filter(torch.ones(int(p.lengths.sum()), dtype=torch.bool)).sum().repeat(1, 2),
        (Speech.frames, Speech.phones), CODE, "",
    ),
    "a dense field with the dim": (
        lambda f, w: (f.pad() * w[..., None]).sum(1).repeat(1, 2), (Aligned.frames, Aligned.weight), CODE, "",
    ),
    "any dtype": (lambda f: f.sum().mean(-1, keepdim=True).expand(-1, 16), Open.frames, CODE, ""),
    "rows of another width": (mapped(9, 16), Speech.frames, STATES, "E108"),
    "results of another width": (mapped(8, 15), Speech.frames, STATES, "E114"),
    "results of another rank": (lambda f: f.apply(lambda rows: rows[:, 0]), Speech.frames, STATES, "E113"),
    "results of another dtype": (lambda f: f.apply(lambda r: r.repeat(1, 2).long()), Speech.frames, STATES, "E111"),
    "packed, of another width": (Recurrent(7), Speech.frames, CODE, "E108"),
    "a layer for tensors": (LAYER, Speech.frames, STATES, "E108"),
    "a code of another width": (lambda frames: frames.pad().mean(1), Speech.frames, CODE, "E114"),
    "made of padded ones": (unpadded(16), (Dense.x, Dense.length), STATES, ""),
    "made of padded ones, of another width": (unpadded(15), (Dense.x, Dense.length), STATES, "E114"),
    "needs one size": (refuses, Speech.frames, CODE, "W209"),
    "a nested class": (lambda speech: LAYER(speech.frames.pad()).mean(1), Outer.speech, CODE, ""),
    "a class in a nested class": (lambda outer: LAYER(outer.speech.frames.pad()).mean(1), Deep.outer, CODE, ""),
    "a width that is searched": (lambda frames: LAYER(frames.pad()).mean(1), Open.frames, CODE, "E122"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_ragged_elements(case):
    """What fits passes without a note, what does not is found at build, and what can't be run is a warning."""
    module, reads, writes, code = CASES[case]
    first = reads[0] if isinstance(reads, tuple) else reads
    owner, output = Slot(first).owner, Slot(writes).owner
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = TensorClassSequential(step(module, reads, writes), input=owner, output=output).diagnostics
        except BuildError as error:
            found = error.diagnostics
    assert [d.code for d in found] == ([code] if code else [])
    assert [w.category for w in said if w.category is PipelineWarning] == [PipelineWarning] * (code[:1] == "W")


def test_a_module_after_a_ragged_one():
    """What a module makes of ragged elements goes on as it is declared."""
    pipeline = TensorClassSequential(
        step(mapped(8, 16), Speech.frames, States.states),
        step(lambda states: states.mean(), States.states, Code.code),
        input=Speech,
        output=Code,
    )
    assert pipeline.diagnostics == ()
    batch = Speech(
        [torch.rand(3, 8), torch.rand(2, 8)], [torch.zeros(3).long(), torch.zeros(2).long()], torch.ones(2).long()
    )
    assert pipeline(batch).code.shape == (2, 16)


def test_a_wrong_module_after_a_ragged_one():
    """It is rejected at build, by what torch says in the same words for batches of other sizes."""
    with pytest.raises(BuildError, match=r"(?s)E108.*module 1.*mat1 and mat2"):
        TensorClassSequential(
            step(mapped(8, 16), Speech.frames, States.states),
            step(
                lambda states: nn.functional.linear(states.pad().mean(1), torch.ones(16, 15)), States.states, Code.code
            ),
            input=Speech,
            output=Code,
        )


def test_names_and_shapes_of_ragged_fields():
    """A warning names the ragged fields and not what holds them; `explain` shows the shape of one element's rows."""
    module = step(lambda outer: refuses(outer.speech.frames), Deep.outer, Code.code)
    with pytest.warns(PipelineWarning, match=r"ragged `outer\.speech\.frames`, `outer\.speech\.phones` and is not"):
        TensorClassSequential(module, input=Deep, output=Code)
    built = TensorClassSequential(step(mapped(8, 16), Speech.frames, States.states), input=Speech, output=States)
    shown = {value.name: (value.dtype, value.shape) for one in built.explain().steps for value in one.writes}
    assert shown["frames"] == ("ragged float32", ("t", 8))
    assert shown["states"][0] == "ragged float32"
    assert shown["states"][1][1] == 16
    assert "[5, 3, 8]" in str(built.explain(batch_size=[5], t=3))


@pytest.mark.parametrize("width", [8, 9])
def test_undeclared_results_of_ragged_stages_are_known(width: int):
    """Later stages are probed with what a stage makes of ragged elements, since real runs agree on it."""
    pooled = stage(lambda frames: frames.mean(), Speech.frames)
    members = {"pooled": pooled, "head": stage(nn.Linear(width, 16), out=Code.code)}
    if width == 8:
        assert TensorClassSequential[Speech, Code](**members).diagnostics == ()
        return
    with pytest.raises(BuildError, match=r"E108.*`head`(?s:.*)given 8 \(made by module 0 `pooled`"):
        TensorClassSequential[Speech, Code](**members)


def test_undeclared_sizes_that_follow_lengths_are_not_known():
    """A padded result is as long as the longest element, so the build accepts a layer for 28 frames."""
    padded = stage(lambda frames: frames.pad()[..., 0], Speech.frames)
    made = TensorClassSequential[Speech, Code](padded=padded, head=stage(nn.Linear(28, 16), out=Code.code))
    assert {d.code for d in made.diagnostics} <= {"N302"}
