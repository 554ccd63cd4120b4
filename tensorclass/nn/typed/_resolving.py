"""The members of a pipeline as typed modules, and the ends of a pipeline where they follow from its members."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import GenericAlias
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol, TypeVar

from torch import Tensor, nn
from torch.distributions import Distribution
from typing_extensions import Self

from ...core import TensorCollection
from ...errors import BuildError
from ...store import RaggedTensor
from ..check._identity import related
from ..parts._arity import signature_of
from ..parts._diagnostics import Diagnostic, Location, build_error, location_of_caller
from ..parts._how import How, Over
from ..parts._slots import Slot, as_slots, fields_of, is_tensorclass_type, is_unnamed
from ..parts._stage import Stage, TensorClassModule, check_name, default_name, method_name
from ..parts._unnamed import StageCall, StageValue, hints_of, unnamed
from ._class_module import TensorClassModuleBase, ends_of
from ._divisible import Divisible
from ._fields_read import fields_read
from ._over_fields import over_fields
from ._sampler import ProbabilisticTensorClassModule

In = TypeVar("In", contravariant=True)  # noqa: PLC0105  # as those of pipelines
Out = TypeVar("Out", covariant=True)  # noqa: PLC0105


class Dataclass(Protocol):
    """An instance of any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


Staged = (
    Tensor
    | RaggedTensor
    | Callable[..., Any]
    | TensorCollection
    | Distribution
    | tuple[Any, ...]
    | list[Any]
    | Mapping[Any, Any]
    | Dataclass
)
"""What type checkers see of a member by keyword: a module, or what a stage returns."""


class Forward(Protocol[In, Out]):
    """A module whose `forward` goes from one class to another."""

    def forward(self, batch: In, /) -> Out:
        """Compute a batch of the output class."""
        ...


class WithEnds(GenericAlias):
    """`TensorClassSequential[In, Out]`: a type, and a constructor with both classes."""

    def __call__(self, *members: Any, **options: Any) -> Any:
        """A pipeline between the two classes; type variables and `Any` stay open.

        Raises:
            BuildError: for more or fewer than two arguments, or for an argument other than a typed class.
        """
        origin: Any = self.__origin__
        if len(self.__args__) != 2:
            name = origin.__name__
            raise BuildError(f"`{name}[...]` takes two classes, `{name}[Input, Output]`; got {len(self.__args__)}")
        ends = dict(zip(("input", "output"), self.__args__, strict=True))
        known = {end: cls for end, cls in ends.items() if cls is not Any and not isinstance(cls, TypeVar)}
        return origin(*members, **{**known, **options})


class OpenListing(NamedTuple):
    """A member with the keyword that names it."""

    name: str | None
    member: Any


class Opened(NamedTuple):
    """The members as typed modules, and the classes of the pipeline."""

    members: list[OpenListing]
    input: Any
    output: Any


def opened(modules: Sequence[Any], stages: Mapping[str, Any], input: Any, output: Any, probing: bool) -> Opened:
    """Resolve what the members of a pipeline leave out.

    Args:
        modules: The members by position.
        stages: The members by keyword.
        input: The input class; None if it follows from the members.
        output: The output class; None if it follows from the members.
        probing: Whether callables from one class to another run on examples, to see which fields they read.

    Raises:
        BuildError: for a member that can't be one, a stage that is read and not listed, an end that doesn't follow.
    """
    for name in stages:
        check_name(name)
    if not modules and not stages:
        raise BuildError("a pipeline needs at least one TensorClassModule or stage")
    names = [*(None for _ in modules), *stages]
    known = [cls for cls in (output, input) if is_tensorclass_type(cls)]
    members = [OpenListing(*pair) for pair in zip(names, over_fields([*modules, *stages.values()], known), strict=True)]
    plain = (
        not stages
        and input is not None
        and all(isinstance(listed.member, (TensorClassModule, *_WHOLE)) for listed in members)
    )
    found = Resolver(members, probing, input).run()
    if input is None:
        input = _input(found)
    if output is None:
        output = input if plain else _output(found)
    elif not is_tensorclass_type(output):
        output = _value_of(found, output)
    return Opened(found, input, output)


class Results(NamedTuple):
    """What a member writes; `whole` for one value of a stage that nothing declares."""

    slots: tuple[Slot | None, ...]
    whole: bool = False

    @property
    def written(self) -> tuple[Slot, ...]:
        """The results that are not dropped."""
        return tuple(slot for slot in self.slots if slot is not None)


class Resolver:
    """Turns members into typed modules: first what each writes, then what each reads."""

    def __init__(self, members: Sequence[OpenListing], probing: bool, input: Any) -> None:
        self.probing, self.input = probing, input
        self.members = [self._as_member(index, *listed) for index, listed in enumerate(members)]
        self.results: dict[int, Results] = {}
        """By the id of a stage."""
        self.names = {id(m): name or _default(m, i) for i, (name, m) in enumerate(self.members)}

    def run(self) -> list[OpenListing]:
        """The typed modules."""
        written = [self._written(index, member) for index, (_, member) in enumerate(self.members)]
        found = []
        for index, (name, member) in enumerate(self.members):
            typed = member
            if isinstance(member, StageCall):
                typed = self._typed(index, member, written[index - 1] if index else None)
            found.append(OpenListing(name, typed))
        return found

    def _as_member(self, index: int, name: str | None, member: Any) -> OpenListing:
        if isinstance(member, (StageCall, TensorClassModule, *_WHOLE)):
            return OpenListing(name, member)
        if isinstance(member, StageValue):
            raise BuildError(f"module {index} is an item of what a stage returns; list the stage itself")
        if isinstance(member, type) or not callable(member):
            _refuse(index, name, member)
        ends = ends_by_annotation(member)
        if ends is not None:
            return OpenListing(name, TypedCallable.of(member, Over(*ends), self.probing))
        return OpenListing(name, StageCall(member, (), {}, None, None, {}))

    def _written(self, index: int, member: Any) -> Results:
        if not isinstance(member, StageCall):
            return Results(_writes_of(member))
        if id(member) in self.results:
            raise BuildError(
                f"{member.location}: module {index} is listed twice; make a second stage of the same module"
            )
        self.results[id(member)] = _results(member, self.names[id(member)])
        return self.results[id(member)]

    def _typed(self, index: int, call: StageCall, before: Results | None) -> TensorClassModule:
        """The typed module that a stage stands for; one without inputs reads what the stage before it wrote."""
        own = self.names[id(call)]
        label = f"module {index} `{own}`"
        results = self.results[id(call)]
        reads = [slot for value in call.inputs for slot in self._slots(value, label, call)]
        named = {key: self._one(value, label, call) for key, value in call.by_parameter.items()}
        spread = False
        if not reads and not named:
            if before is None or not before.written:
                self._raise_inputless(label, call)
            reads, spread = list(before.written), before.whole
        slots = (*reads, *named.values())
        refs = [slot.ref for slot in slots]
        writes = [None if slot is None else slot.ref for slot in results.slots]
        how = How(spread=spread, parameters=tuple(named))
        if call.sampling is not None:
            made: TensorClassModule = _sampler(call, refs, writes, own)
            how = replace(how, parameters=()) if not spread else how
        else:
            made = TensorClassModule(call.module, refs, writes, name=_identifier(own), **call.options)
            how = replace(made._how, spread=spread, parameters=tuple(named))
        made._how, made._reads, made.location = how, slots, call.location
        return made

    def _one(self, value: Any, label: str, call: StageCall) -> Slot:
        slots = self._slots(value, label, call)
        if len(slots) != 1:
            raise BuildError(
                f"{call.location}: {label} reads a stage with {len(slots)} results; take one, as in `h[0]`"
            )
        return slots[0]

    def _slots(self, value: Any, label: str, call: StageCall) -> Sequence[Slot]:
        """The values that an input names."""
        if not isinstance(value, StageValue):
            return [slot for slot in as_slots(value, "a stage") if slot is not None]
        if id(value.stage) not in self.results:
            self._raise_unlisted(value.stage, label, call)
        results, items = self.results[id(value.stage)], value.items
        if len(results.slots) > 1 and items:
            index = items[0]
            chosen = results.slots[index] if isinstance(index, int) and index < len(results.slots) else None
            if chosen is None:
                raise BuildError(f"{call.location}: {label} reads result {index!r} of a stage, which is not kept")
            return [replace(chosen, items=items[1:])]
        if len(results.slots) > 1:
            raise BuildError(
                f"{call.location}: {label} reads a stage with {len(results.slots)} results; take one, as in `h[0]`"
            )
        return [replace(slot, items=items) for slot in results.written]

    def _raise_inputless(self, label: str, call: StageCall) -> NoReturn:
        """Refuse a stage that says no inputs where nothing is before it."""
        what = type(call.module).__name__
        said = f"{label}, a {what}, does not say what it reads, and nothing is before it: name its input"
        cls = self.input if is_tensorclass_type(self.input) else None
        names = list(fields_of(cls)) if cls is not None else []
        if cls is None or not names:
            how = "as in `stage(f, Digits.image)`, or annotate its argument and result with typed classes"
            raise BuildError(f"{said}, {how}  ({call.location})")
        written = f"{what}(...)" if isinstance(call.module, nn.Module) else "f"
        raise BuildError(
            f"{said}, `stage({written}, {cls.__name__}.{names[0]})`; {cls.__name__} has: {', '.join(names)}"
            f"  ({call.location})"
        )

    def _raise_unlisted(self, stage: StageCall, label: str, call: StageCall) -> NoReturn:
        message = f"{label} reads the value of a stage that is not in the pipeline ({stage.location})"
        hint = "list it before its readers: `TensorClassSequential(h=h, ...)`"
        raise build_error(
            "the pipeline is wrong", [Diagnostic("E101", message, None, None, f"{call.location}", (), hint)]
        )


# ---- stages ------------------------------------------------------------------------------------------------------


def _default(member: Any, index: int) -> str:
    return f"{default_name(getattr(member, 'module', member))}_{index}"


def _identifier(name: str) -> str | None:
    return name if name.isidentifier() else None


def _results(call: StageCall, own: str) -> Results:
    """The values that a stage writes: fields, declared values, or one value that nothing declares."""
    if call.out is not None:
        return Results(as_slots(call.out, "out", droppable=True))
    if call.returns is None:
        return Results((Slot(getattr(unnamed([own], [Any]), own)),), whole=True)
    declared = call.returns if isinstance(call.returns, (tuple, list)) else [call.returns]
    names = [own] if len(declared) == 1 else [f"{own}_{place}" for place in range(len(declared))]
    cls = unnamed(names, declared)
    return Results(tuple(Slot(getattr(cls, name)) for name in names))


def _sampler(call: StageCall, refs: Sequence[Any], writes: Sequence[Any], own: str) -> ProbabilisticTensorClassModule:
    """The probabilistic module of a stage; parameters by position are in the order of the distribution's signature."""
    assert call.sampling is not None
    maker = call.module
    if isinstance(maker, StageValue):
        raise BuildError(
            f"{call.location}: a stage that returns a distribution is read as `sample(lambda d: d, stage)`"
        )
    order = [name for name in _parameters(maker) if name not in call.by_parameter]
    positional = len(refs) - len(call.by_parameter)
    names = [*order[:positional], *call.by_parameter]
    if len(names) < len(refs):
        raise BuildError(f"{call.location}: {default_name(maker)} takes the parameters {order}, given {len(refs)}")
    made = ProbabilisticTensorClassModule(
        dict(zip(names, refs, strict=True)), writes, distribution_class=maker, name=_identifier(own), **call.sampling
    )
    if not call.inputs and not call.by_parameter:
        made.module.names = tuple(order)  # as many as the member before wrote
    return made


def _parameters(maker: Callable[..., Any]) -> list[str]:
    signature = signature_of(maker)
    names = [] if signature is None else list(signature.parameters)
    return [name for name in names if name not in ("validate_args", "args", "kwargs")]


# ---- callables from one class to another -------------------------------------------------------------------------


@dataclass(frozen=True)
class TypedCallable:
    """A callable whose annotations name the classes of its only argument and of its result, as a member."""

    target: Callable[..., Any]
    over: Over
    location: Location

    @classmethod
    def of(cls, target: Callable[..., Any], over: Over, probing: bool) -> Self:
        """The member; with `probing`, it reads only the fields that the callable was seen to read."""
        whole = cls(target, over, location_of_caller())
        names = fields_read(whole._stage_at(0)[0], target) if probing else None
        return whole if names is None else replace(whole, over=over.reading(names))

    @property
    def reads(self) -> tuple[Slot, ...]:
        """The fields that it reads, by default all of its argument."""
        names = fields_of(self.over.taken) if self.over.names is None else self.over.names
        return tuple(Slot(getattr(self.over.taken, name)) for name in names)

    @property
    def writes(self) -> tuple[Slot, ...]:
        """The fields of its result."""
        return tuple(Slot(getattr(self.over.returned, name)) for name in fields_of(self.over.returned))

    def _stage_at(self, index: int) -> tuple[Stage, nn.Module | None]:
        """The stage for a position in a pipeline, and the module to register there."""
        owner = getattr(self.target, "__self__", None)
        method = method_name(owner, self.target) if isinstance(owner, nn.Module) else None
        if isinstance(self.target, nn.Module):
            registered: nn.Module | None = self.target
        elif method is not None:
            registered = owner
        else:
            registered = None
        function = self.target if registered is None else None
        name = f"{default_name(self.target)}_{index}"
        update, how = related(self.over.taken, self.over.returned), How(over=self.over)
        return Stage(name, self.reads, self.writes, update, self.location, function, method, how), registered


def ends_by_annotation(call: Any) -> tuple[type, type] | None:
    """The classes of a callable from a batch to a batch; None for other callables."""
    hints = dict(hints_of(call))
    returned = hints.pop("return", None)
    signature = signature_of(call)
    if signature is None or len(signature.parameters) != 1 or len(hints) != 1:
        return None
    (taken,) = hints.values()
    return (taken, returned) if is_tensorclass_type(taken) and is_tensorclass_type(returned) else None


def _writes_of(member: Any) -> tuple[Slot | None, ...]:
    if isinstance(member, TensorClassModule):
        return member._writes
    if isinstance(member, TypedCallable):
        return member.writes
    returned = ends_of(member, tensorclasses=True)[1]
    return tuple(Slot(getattr(returned, name)) for name in fields_of(returned))


def _reads_of(member: Any) -> tuple[Slot, ...]:
    if isinstance(member, TensorClassModule):
        return member._reads
    if isinstance(member, TypedCallable):
        return member.reads
    taken = ends_of(member, tensorclasses=True)[0]
    return tuple(Slot(getattr(taken, name)) for name in fields_of(taken))


# ---- the ends ----------------------------------------------------------------------------------------------------


def _input(members: Sequence[OpenListing]) -> type:
    """The class that the first member reads, or a subclass of it that a later member reads."""
    first = _owners(_reads_of(members[0].member))
    if len(first) != 1:
        raise BuildError(_unclear("input", "first", first))
    found = first[0]
    written: list[Slot] = []
    for _, member in members:
        for slot in _reads_of(member):
            inside = any(w.ref._path[0] == slot.ref._path[0] and related(w.owner, slot.owner) for w in written)
            if not inside and issubclass(slot.owner, found):
                found = slot.owner
        written += [slot for slot in _writes_of(member) if slot is not None]
    return found


def _output(members: Sequence[OpenListing]) -> type:
    """The class that the last member writes; for a value without a field, the class of its results."""
    slots = [slot for slot in _writes_of(members[-1].member) if slot is not None]
    owners = _owners(slots) or list(dict.fromkeys(slot.owner for slot in slots))
    if len(owners) != 1:
        raise BuildError(_unclear("output", "last", owners))
    return owners[0]


def _value_of(members: Sequence[OpenListing], declared: Any) -> Any:
    """The class of the results of the last member, if the output is given as another type; else what was given."""
    last = [slot for slot in _writes_of(members[-1].member) if slot is not None]
    if isinstance(declared, type) and len(last) == 1 and is_unnamed(last[0].owner):
        return last[0].owner
    return declared


def _owners(slots: Sequence[Slot]) -> list[type]:
    """The classes of fields, without superclasses of others."""
    owners = list(dict.fromkeys(slot.owner for slot in slots if not is_unnamed(slot.owner)))
    return [cls for cls in owners if not any(other is not cls and issubclass(other, cls) for other in owners)]


def _unclear(end: str, which: str, owners: Sequence[type]) -> str:
    names = ", ".join(cls.__name__ for cls in owners) or "none"
    return (
        f"the {end} class does not follow from the members: the {which} names fields of {names}; write "
        f"`TensorClassSequential[In, Out](...)`, or `{end}=`"
    )


def _refuse(index: int, name: str | None, module: Any) -> None:
    who = f"module {index}" + (f" `{name}`" if name else "")
    if is_tensorclass_type(module):
        raise BuildError(f"{who} is the class {module.__name__}; classes are given as `input=` and `output=`")
    hint = "say which fields it reads and writes, `TensorClassModule(module, in_fields=..., out_fields=...)`"
    if isinstance(module, (list, tuple)):
        hint = "pass the modules one by one, `TensorClassSequential(*modules, input=..., output=...)`"
    raise BuildError(f"{who} is a {type(module).__name__}, not a TensorClassModule: {hint}")


_WHOLE = (TensorClassModuleBase, Divisible)
