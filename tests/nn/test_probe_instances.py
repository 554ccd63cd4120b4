"""Modules that read nested instances, objects and ragged elements: every kind of field, at several depths."""

from __future__ import annotations

import enum
import pathlib
import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar

import pytest
import torch
from annotated_types import Ge
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from tensorclass import PerElement, Ragged, RaggedTensor, Shared, TensorClass, TensorDict, field, produced
from tensorclass.errors import BuildError
from tensorclass.nn import TensorClassModuleBase, TensorClassSequential
from tensorclass.typing import Float, Float32, Int64
from tests._marks import rest_is_slow
from tests.nn._pipelines import step

T = TypeVar("T")


class Color(enum.Enum):
    RED = 1


class Meter:
    """An object that nothing can make an example of."""

    def __init__(self, scale: int) -> None:
        self.scale = scale


class Code(TensorClass):
    code: Float32[Tensor, "16"]


class X(TensorClass):
    x: Float32[Tensor, "8"]


class RaggedRows(X):
    r: Float32[RaggedTensor, "n 8"]


class SharedRows(X):
    r: Float32[RaggedTensor, "n 8"]
    q: Int64[RaggedTensor, "n"]


class Maybe(X):
    r: Float32[RaggedTensor, "n 8"] | None = None


class AnyRows(X):
    r: Ragged[Tensor, "n ..."]


class Names(X):
    s: PerElement[str]


class Labels(X):
    s: PerElement[int] = 3  # pyright: ignore[reportAssignmentType]  # without the overlay


class Meters(X):
    s: PerElement[Meter]


class MaybeNames(X):
    s: PerElement[str] | None = None


class Text(X):
    s: str


class Bound(X):
    s: Annotated[int, Ge(7)]


class Colored(X):
    s: Color


class Measured(X):
    s: Meter


class Stored(X):
    s: pathlib.Path


class Listed(X):
    s: list[Tensor]


class Anything(X):
    s: Any


class Untyped(X):
    s: TensorDict


class WithShared(X):
    s: Shared[Float32[Tensor, "8"]]


class Later(X):
    y: Float32[Tensor, "8"] = produced()


class Set(X):
    y: Float32[Tensor, "8"] = field(init=False, default=torch.ones(8))


class Family(X):
    y: Float[Tensor, "d"]
    z: Tensor


class Frozen(TensorClass, frozen=True):
    x: Float32[Tensor, "8"]


class Validated(X):
    def __post_init__(self) -> None:
        if bool((self.x < -1).any()):
            raise ValueError("too small")


class Bounded(TensorClass):
    x: Annotated[Float32[Tensor, "8"], Ge(2)]


class Tree(X):
    r: Float32[RaggedTensor, "n 8"]
    left: Tree | None = None


class Deep(X):
    inner: RaggedRows
    called: Names


class MaybeDeep(X):
    inner: RaggedRows | None = None


class Boxed(X, Generic[T]):
    p: T


class AnyBatch(X):
    p: TensorClass


class Lens(TensorClass):
    @abstractmethod
    def focus(self) -> Tensor: ...


class Abstract(X):
    lens: Lens


KINDS: list[Any] = [
    X, RaggedRows, SharedRows, Maybe, Names, Labels, Meters, MaybeNames, Text, Bound, Colored, Measured, Stored,
    Listed, Anything, Untyped, WithShared, Later, Set, Family, Frozen, Validated, Bounded, Tree, Deep, MaybeDeep,
    Boxed[RaggedRows], AnyBatch,
]  # fmt: skip
LAYER, WIDER = nn.Linear(8, 16), nn.Linear(9, 16)


def _class(name: str, **fields: Any) -> Any:
    """A class of fields, which may have a default: (annotation, default)."""
    space: dict[str, Any] = {key: value[1] for key, value in fields.items() if isinstance(value, tuple)}
    space["__annotations__"] = {k: v[0] if isinstance(v, tuple) else v for k, v in fields.items()}
    return type(name, (TensorClass,), {**space, "__module__": __name__})


def codes(
    module: Any, reads: Any, given: Any, writes: Any = Code.code, output: Any = Code, probe: Any = True
) -> list[str]:
    """What the check finds about one module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            built = TensorClassSequential(step(module, reads, writes), input=given, output=output, probe=probe)
        except BuildError as error:
            return [d.code for d in error.diagnostics]
    return [d.code for d in built.diagnostics]


def _read(layer: nn.Module) -> Callable[..., Tensor]:
    """A module over an instance: it reads the ragged elements, if there are some, and those of a class below."""

    def read(n: Any = None) -> Tensor:
        if n is None:
            return torch.zeros(2, 16)
        x: Tensor = n.x
        for part in (n, getattr(n, "inner", None)):
            rows = getattr(part, "r", None)
            if rows is not None:
                x = x + rows.pad().mean(1)
        return layer(x)  # type: ignore[no-any-return]  # of torch

    return read


@pytest.mark.parametrize("depth", rest_is_slow([1, 0, 2]))
@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_instances_of_every_kind(kind, depth):
    """A right module passes without a note, a wrong one is an error: read whole, optional, and in another class."""
    outer = _class("Outer", n=kind) if depth == 0 else _class("Outer", n=(kind | None, None))
    right, wrong, reads, given = _read(LAYER), _read(WIDER), outer.n, outer
    if depth == 2:
        given = _class("Top", outer=outer)
        right, wrong = (lambda top, f=f: f(top.n) for f in (right, wrong))
        reads = given.outer
    assert codes(right, reads, given) == []
    assert codes(wrong, reads, given) == ["N302" if kind is Family else "E108"]  # it has a field of any dtype


@pytest.mark.parametrize("kind", [RaggedRows, Names, Labels, WithShared, Deep, Bounded], ids=lambda kind: kind.__name__)
def test_class_to_class_modules(kind):
    """They get an instance too."""

    class Encoder(TensorClassModuleBase[kind, Code]):
        def __init__(self, layer: nn.Module) -> None:
            super().__init__()
            self.read = _read(layer)

        def forward(self, batch: Any) -> Any:
            return Code(self.read(batch), batch_size=batch.batch_size)

    for layer, expected in ((LAYER, []), (WIDER, ["E108"])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = TensorClassSequential(Encoder(layer), input=kind, output=Code).diagnostics
            except BuildError as error:
                found = error.diagnostics
        assert [d.code for d in found] == expected


class Open(TensorClass):
    x: Float32[Tensor, "t d"]


class OpenRows(TensorClass):
    r: Float32[RaggedTensor, "n d"]


class Ids(TensorClass):
    ids: Tensor


EMBED = nn.Embedding(5, 16)


def _assigns(n: Any) -> Tensor:
    n.x = n.x * 2
    return LAYER(n.x)  # type: ignore[no-any-return]  # of torch


FINDINGS: dict[str, tuple[Any, Callable[[Any], Any], list[str]]] = {
    "a width that is searched": (Open, lambda n: LAYER(n.x).mean(1), ["E122"]),
    "a dtype that is searched": (Ids, lambda n: EMBED(n.ids), []),
    "a ragged width that is searched": (OpenRows, lambda n: LAYER(n.r.pad()).mean(1), ["E122"]),
    "ragged, another rank": (RaggedRows, lambda n: LAYER(n.r.pad()), ["E113"]),
    "ragged, no batch": (RaggedRows, lambda n: LAYER(n.r.values), ["E112"]),
    "ragged, a name that is not there": (RaggedRows, lambda n: LAYER(n.rows.pad()), ["E108"]),
    "a tensor changed in place": (X, lambda n: LAYER(n.x.add_(1)), ["E109"]),
    "a field changed": (X, _assigns, ["E109"]),
    "a field changed beside names": (Names, _assigns, ["E109"]),
    "elements mixed": (X, lambda n: LAYER(n.x.softmax(0)), ["W207"]),
    "ragged elements mixed": (RaggedRows, lambda n: LAYER(n.r.pad().softmax(0)).mean(1), ["W207"]),
    "ragged elements, each by itself": (RaggedRows, lambda n: LAYER(n.r.pad().softmax(2)).mean(1), []),
    "names, one row each": (Names, lambda n: torch.stack([torch.ones(16) * len(s) for s in n.s]), []),
    "names, rows of another width": (Names, lambda n: torch.stack([torch.ones(15) for s in n.s]), ["E114"]),
    "names as one text": (Names, lambda n: LAYER(n.x) * len(n.s.upper()), ["E108"]),
    "names in a table": (Names, lambda n: torch.stack([{"a": n.x[0]}[s] for s in n.s]), ["N302"]),
    "numbers that are there": (Labels, lambda n: LAYER(n.x) * torch.tensor(n.s.tolist())[:, None], []),
    "an object that is used": (Measured, lambda n: LAYER(n.x) * n.s.scale, ["N302"]),
    "an object in a call": (Measured, lambda n: torch.add(LAYER(n.x), n.s), ["N302"]),
    "a number that may be a size": (Bound, lambda n: LAYER(n.x).view(-1, n.s, 2).sum(1), ["N302"]),
    "a text that chooses": (Text, lambda n: {"a": LAYER}[n.s](n.x), ["N302"]),
    "a text that names a function": (Text, lambda n: getattr(torch, n.s)(n.x), ["N302"]),
    "a path that is read": (Stored, lambda n: LAYER(n.x) * len(n.s.read_text()), ["N302"]),
    "untyped entries": (Untyped, lambda n: LAYER(n.s["x"]), ["N302"]),
    "an abstract class": (Abstract, lambda n: LAYER(n.x), ["N302"]),
    "rows of any rank": (AnyRows, lambda n: LAYER(n.r.pad()), ["W209"]),
}  # fmt: skip


@pytest.mark.parametrize("case", FINDINGS)
def test_findings_about_instances(case):
    """Mistakes are found as for tensors; a made-up value never causes an error."""
    kind, module, expected = FINDINGS[case]
    outer = _class("Outer", n=kind)
    assert codes(module, outer.n, outer) == expected


class Made(TensorClass):
    made: Code


WRITTEN: dict[str, tuple[Callable[[Tensor], Any], list[str]]] = {
    "right": (lambda x: Code(LAYER(x), batch_size=x.shape[:1]), []),
    "no batch": (lambda x: Code(LAYER(x).mean(0), batch_size=[]), ["E112"]),
    "another batch": (lambda x: Code(torch.ones(7, 16), batch_size=[7]), ["E112"]),
    "another class": (lambda x: X(x, batch_size=x.shape[:1]), ["E111"]),
    "another width": (lambda x: Code(x, batch_size=x.shape[:1]), ["E108"]),
    "elements mixed": (lambda x: Code(LAYER(x.softmax(0)), batch_size=x.shape[:1]), ["W207"]),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_modules_that_return_instances(case):
    """The batch size and the class are compared; the fields are those that the class has accepted."""
    module, expected = WRITTEN[case]
    assert codes(module, X.x, X, Made.made, Made) == expected


def test_what_follows_a_wrong_instance():
    """A module after it reads an instance that fits the declaration, with objects and ragged elements."""
    outer = _class("Outer", n=Deep)
    first = step(lambda x: x, X.x, outer.n)
    with pytest.raises(BuildError) as info:
        TensorClassSequential(first, step(_read(WIDER), outer.n, Code.code), input=X, output=Code)
    assert [(d.code, d.module) for d in info.value.diagnostics] == [("E111", 0), ("E108", 1)]


def test_an_error_about_a_field_names_the_field():
    """The first problem of a class that refuses its values is in the message."""
    with pytest.raises(BuildError, match=r"`code` is declared Float32\[.16.\], given float32 \[2, 8\]"):
        TensorClassSequential(step(WRITTEN["another width"][0], X.x, Made.made), input=X, output=Made)


def test_objects_that_are_read_by_themselves():
    """A field without an example stops only modules that use it."""
    given = _class("Given", x=Float32[Tensor, "8"], meter=Meter, called=PerElement[str], ratio=float)
    reads = (given.x, given.meter, given.called, given.ratio)
    assert codes(lambda x, m, n, r: LAYER(x) * r, reads, given) == []
    assert codes(lambda x, m, n, r: WIDER(x) * r, reads, given) == ["E108"]
    assert codes(lambda x, m, n, r: LAYER(x) * m, reads, given) == ["N302"]


def _age(lab: Tensor, n: Any = None) -> Tensor:
    return LAYER(lab) * n.x.mean(-1, keepdim=True)  # type: ignore[no-any-return]  # of torch


def _age_or_one(lab: Tensor, n: Any = None) -> Tensor:
    return LAYER(lab) if n is None else _age(lab, n)


@pytest.mark.parametrize("kind", [X, Names, RaggedRows], ids=lambda kind: kind.__name__)
def test_optional_instances_that_the_signature_admits(kind):
    """A parameter that takes None by its signature is run with None: a module that fails without it is an error."""
    given = _class("Patient", lab=Float32[Tensor, "8"], n=(kind | None, None))
    assert codes(_age_or_one, (given.lab, given.n), given) == []
    assert codes(_age, (given.lab, given.n), given) == ["E104"]


class Packed(nn.Module):
    """A recurrent network over a packed sequence, which fake tensors can't replace."""

    def __init__(self, out: int, kind: Any = nn.LSTM, size: int = 8, **options: Any) -> None:
        super().__init__()
        options |= {"proj_size": 4} if kind is nn.LSTM else {}
        self.ordered = options.pop("ordered", False)
        self.rnn = kind(size, 16, batch_first=True, **options)
        self.head = nn.Linear(4 if kind is nn.LSTM else 16, out)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=self.ordered)
        state = self.rnn(packed)[1]
        return self.head((state[0] if isinstance(state, tuple) else state)[-1])  # type: ignore[no-any-return]  # of torch


@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"num_layers": 2}, {"ordered": True}], ids=str)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN], ids=lambda kind: kind.__name__)
def test_packed_sequences(kind, options):
    """Equal lengths hide a wrong width of the input, so lengths differ; zeros are no lengths."""
    given = _class("Padded", x=Float32[Tensor, "t 8"], lengths=Int64[Tensor, ""])
    reads = (given.x, given.lengths)
    right, wide = Packed(16, kind, **options), Packed(16, kind, 9, **options)
    assert codes(right, reads, given) == ["N302"]
    assert codes(wide, reads, given) == ["E108"]
    assert codes(right, reads, given, probe="run") == []
    assert codes(wide, reads, given, probe="run") == ["E108"]
    assert codes(Packed(17, kind, **options), reads, given, probe="run") == ["E114"]


def test_shapes_of_modules_that_need_values():
    """A size that is one of the module's own is compared at build; a size that may follow values is not."""
    given = _class("Padded", x=Float32[Tensor, "t 8"], lengths=Int64[Tensor, ""])
    reads = (given.x, given.lengths)
    assert codes(Packed(16), reads, given) == ["N302"]
    assert codes(Packed(17), reads, given) == ["E114"]
    assert codes(lambda x, n: x[0, 0].new_ones(len(x), int(n.max())), reads, given) == ["N302"]


def test_a_replaced_module_is_replaced_for_other_input_classes():
    """The pipelines that `on` returns have the modules of the first one, now and later."""
    other = _class("Other", x=Float32[Tensor, "8"])
    first = TensorClassSequential(step(LAYER, X.x, Code.code), input=X, output=Code)
    second = first.on(other)
    name = next(iter(dict(first.named_children())))
    new = nn.Linear(8, 16)
    setattr(first, name, new)
    batch = torch.rand(3, 8)
    assert torch.equal(second(other(batch)).code, new(batch))
    setattr(second, name, LAYER)
    assert torch.equal(first(X(batch)).code, LAYER(batch))
