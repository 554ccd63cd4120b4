"""Step 1 of the build check: follows the declared fields through the modules. Runs no torch operation.

After an error it continues with the declared outputs of the module, so that one mistake is reported once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from ..._schema import FieldSpec
from ...classes import FieldRef
from ...core import Path
from ..parts._arity import admits_none, arity_problem, signature_of, swallowed_keywords, target_of
from ..parts._diagnostics import Diagnostic
from ..parts._slots import Slot, fields_of, is_unnamed, specs_along
from ..parts._stage import WHOLE, Stage
from ._identity import Identified, source_of
from ._known import INPUT, ByPath, FlowState, Mismatch, Place, agree, suggest
from ._scopes import ModuleScope
from ._unify import DimScope, Terms


class Use(NamedTuple):
    """One value that a module reads or writes, with the facts that the whole pipeline implies about it."""

    slot: Slot
    place: Place

    @property
    def batched(self) -> bool:
        """Whether a tensor there has the batch dims."""
        return self.slot.spec.kind.is_batched or not self.slot.known


@dataclass(frozen=True)
class SeenOutput:
    """One value that a module returned when it was probed with a batch of two; `shape` is the event shape.

    For a value without a declaration, `dims` has the expression of each size over the open dims of the input, which
    have the names that `identifier_of` gives, or "?". One number for the whole batch is not `batched`.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    dims: tuple[str, ...] | None = None
    batched: bool = True


@dataclass(frozen=True)
class SeenObject:
    """An object other than a tensor that a module returned when it was probed: its type, and a mapping's tensors."""

    type_name: str
    members: Mapping[str, SeenOutput]


@dataclass(frozen=True)
class Probed:
    """The results of probing in a report.

    `answered`: findings of step 1 that a probe has refuted. `narrowed`: variables that must have a single size for some
    module. `seen`: the outputs of every module. `blind`: why a module could not be probed. `further`: how many batch
    dims nested instances of the input have beyond those of their holder.
    """

    diagnostics: tuple[Diagnostic, ...]
    answered: tuple[Diagnostic, ...]
    narrowed: dict[str, int | str]
    seen: tuple[tuple[SeenOutput | SeenObject | None, ...], ...]
    blind: dict[int, str]
    further: Mapping[Path, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """The findings of the check, and the facts that the generated forward needs."""

    diagnostics: tuple[Diagnostic, ...]
    state: FlowState
    inputs: ByPath[Place]
    reads: tuple[tuple[Use | None, ...], ...]
    writes: tuple[tuple[Use | None, ...], ...]
    gates: tuple[tuple[int, ...], ...] = ()
    """For each module with `partial=True`, the positions of the in fields without which it is skipped."""
    probed: Probed | None = None
    """The results of running the modules on fake tensors; None with `probe=False`."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """For each output field, the name of its value."""
    placed: Mapping[tuple[int, str], str] | None = None
    """With a layout, the placement of each value, by the module that wrote it and its name; None before it is known."""
    bridges: Mapping[int, Any] = field(default_factory=dict)
    """With a layout, what calls the modules over a part of the mesh."""

    def __repr__(self) -> str:
        return f"Report({self})"

    def __str__(self) -> str:
        probed = "checked" if self.probed is None else "checked and probed"
        return "\n\n".join(map(str, self.diagnostics)) or f"modules {probed}: {len(self.reads)}, nothing found"


def check(found: Identified, modules: Sequence[Callable[..., Any]], input: type, output: type) -> Report:
    """Check a pipeline only on its declarations.

    Args:
        found: The modules, and the values that each reads and writes.
        modules: The callable of each stage.
        input: The class that the pipeline takes.
        output: The class that it returns.
    """
    return DeclaredCheck(found, modules, input, output).run()


class DeclaredCheck:
    """One run of the check; every method reports its findings and continues."""

    def __init__(self, found: Identified, modules: Sequence[Callable[..., Any]], input: type, output: type) -> None:
        self.stages, self.sources = found.stages, found.sources
        self.modules = modules
        self.input = input
        self.output = output
        self.state = FlowState()
        self.found: list[Diagnostic] = []
        self.scopes = self.state.add_input(input)
        self.inputs = ByPath(self.state.places)
        self.declared = {path: self.state.unifier.text(place.terms) for path, place in self.inputs.items()}
        # If the input is also the output, it is the same instance, so its names have the same sizes.
        self.output_scopes = self.scopes if output is input else {}
        self.written: list[Place] = []
        self.missed: set[Path] = set()
        self.gates: list[list[int]] = [[] for _ in self.stages]
        self.signatures: dict[int, tuple[object, inspect.Signature | None]] = {}
        """By the id of a function, with the function."""

    def run(self) -> Report:
        """Check all modules in order, then the output, then unused fields."""
        reads, writes = [], []
        for index, stage in enumerate(self.stages):
            scope = ModuleScope(self.state.unifier, (*stage.reads, *stage.written))
            reads.append(self._reads(index, stage, scope))
            self._arity(index, stage)
            writes.append(
                tuple(None if s is None else Use(s, self._write(index, s, scope.of(s))) for s in stage.writes)
            )
        for name in fields_of(self.output):
            self._output((name,), self._output_scope(()))
        self._unused()
        self._shared()
        self._note_narrowing()
        gates = tuple(map(tuple, self.gates))
        return Report(
            tuple(self.found), self.state, self.inputs, tuple(reads), tuple(writes), gates, sources=self.sources
        )

    # ---- one module ----------------------------------------------------------------------------------------------

    def _reads(self, index: int, stage: Stage, scope: ModuleScope) -> tuple[Use | None, ...]:
        """Follow what a module reads: each input is there, and agrees with its declaration."""
        uses: list[Use | None] = []
        for position, slot in enumerate(stage.reads):
            terms = scope.of(slot).terms(slot.spec.dims)
            place = self.state.read(slot.path)
            uses.append(None if place is None else Use(slot, place))
            if place is None:
                self._unmet(index, slot, terms)
                continue
            try:
                agree(self.state, place, slot.spec, terms)
            except Mismatch as wrong:
                message = f"{self._who(index)} reads `{slot.name}` as {self._spell(slot.spec, terms)}: {wrong.reason}"
                self._report(index, wrong.code, message, slot, (self._origin(place),), wrong.hint)
            if place.optional:
                self._optional(index, position, slot, place)
        return tuple(uses)

    def _unmet(self, index: int, slot: Slot, terms: Terms) -> None:
        self.missed.add(slot.path)
        message = f"{self._who(index)} reads `{slot.name}`, which nothing before it provides"
        later = next((i for i in range(index, len(self.stages)) if slot.path in _paths(self.stages[i])), None)
        self._report(index, "E101", message, slot, (self._available(),), self._unmet_hint(index, slot, terms, later))

    def _unmet_hint(self, index: int, slot: Slot, terms: Terms, later: int | None) -> str:
        if later == index:
            return f"the module writes `{slot.name}` itself; a first value must come from the input or another module"
        if later is not None:
            return f"{self._who(later)} writes `{slot.name}`; move it before {self._who(index)}"
        near = suggest(self.state, slot, terms)
        if near is not None:
            source = "the input has it" if near.writer == INPUT else f"{self._who(near.writer)} writes it"
            return f"did you mean `{near.owner.__name__}.{near.name}` ({source})?"
        if issubclass(self.input, slot.owner):
            return f"`{slot.label}` is declared `produced()`: add a module before that writes it"
        return f"add a module that writes `{slot.label}`, or declare `{slot.name}` in {self.input.__name__}"

    def _optional(self, index: int, position: int, slot: Slot, place: Place) -> None:
        """Report an input that may be absent, unless the module takes None or is left out then."""
        module, how = self.modules[index], self.stages[index].how
        named = position - (len(self.stages[index].reads) - len(how.parameters))
        parameter = how.parameters[named] if named >= 0 else position
        if how.over is not None or admits_none(module, self._signature(module), parameter):
            return
        if self.stages[index].partial:
            self.gates[index].append(position)
            return
        self._report(
            index,
            "E104",
            f"{self._who(index)} reads the optional `{slot.name}`, but its parameter {position} does not accept None",
            slot,
            (self._origin(place),),
            "give the parameter the default None or annotate it `Tensor | None`; make the field required; or let "
            "`partial=True` skip the module",
        )

    def _signature(self, module: Callable[..., Any]) -> inspect.Signature | None:
        """The signature of a callable; modules of one class have one."""
        function = getattr(target_of(module), "__func__", target_of(module))
        if id(function) not in self.signatures:
            self.signatures[id(function)] = function, signature_of(module)
        return self.signatures[id(function)][1]

    def _arity(self, index: int, stage: Stage) -> None:
        """Report a module that takes another number of arguments than it has in fields."""
        if stage.how.spread or stage.how.over is not None:
            return  # the number of arguments is known when it runs
        signature, positional = self._signature(self.modules[index]), len(stage.reads) - len(stage.how.parameters)
        problem = None if signature is None else arity_problem(signature, positional, stage.how.parameters)
        if problem is not None:
            names = ", ".join(slot.label for slot in stage.reads) or "none"
            count = f"{len(stage.reads)} in field" + ("s" if len(stage.reads) != 1 else "")
            message = f"{self._who(index)} {problem}, but is given {count}"
            hint = "name one in field for each parameter; bind other arguments with a lambda or functools.partial"
            self._report(index, "E110", message, None, (f"in_fields: {names}", f"signature: {signature}"), hint)
        elif signature is not None:
            for name, near in swallowed_keywords(signature, stage.how.parameters):
                message = f"{self._who(index)} has no parameter `{name}`: it goes into its `**` arguments"
                self._report(index, "W208", message, None, (), f"did you mean `{near}`?")

    def _write(self, index: int, slot: Slot, scope: DimScope) -> Place:
        """Note what a module writes; report a write over an input or over the output of another module."""
        stage, before = self.stages[index], self.state.overwritten(slot.path)
        if before is not None and before.optional and before.writer == INPUT and stage.skip_existing:
            before = None  # it is written only if it is absent
        if before is not None and not stage.update:
            if before.writer == INPUT:
                message = f"{self._who(index)} overwrites `{slot.name}` of the input {self.input.__name__}"
                hint = "write to a field with another name, or pass `update=True` to overwrite it"
                self._report(index, "E105", message, slot, (), hint)
            else:
                message = f"{self._who(index)} writes `{slot.name}`, which {self._who(before.writer)} already writes"
                hint = "drop one output with None, write to a field with another name, or pass `update=True`"
                self._report(index, "E106", message, slot, (self._origin(before),), hint)
            before.used = True  # reported already
        place = self.state.write(slot, index, scope)
        place.optional = bool(self.gates[index]) and (before is None or before.optional)
        place.used = slot.path in self.missed or (before is not None and not stage.update) or bool(slot.within)
        self.written.append(place)
        return place

    # ---- the output ----------------------------------------------------------------------------------------------

    def _output_scope(self, prefix: Path) -> DimScope:
        """One scope for each instance."""
        if prefix not in self.output_scopes:
            self.output_scopes[prefix] = self.state.unifier.scope()
        return self.output_scopes[prefix]

    def _output(self, path: Path, scope: DimScope) -> None:
        spec = specs_along(self.output, path)[-1]
        source = source_of(path, self.sources)
        place = self.state.read(source)
        if place is not None:
            self._output_agrees(path, spec, place, scope.terms(spec.dims))
        elif spec.nested is not None and self.state.below(source):
            for name in fields_of(spec.nested):
                self._output((*path, name), self._output_scope(path))
        elif spec.required or spec.produced:
            self._unwritten(path, spec, scope)

    def _output_agrees(self, path: Path, spec: FieldSpec, place: Place, terms: Terms) -> None:
        name, cls = ".".join(path), self.output.__name__
        try:
            agree(self.state, place, spec, terms)
        except Mismatch as wrong:
            message = f"the output declares `{cls}.{name}` as {self._spell(spec, terms)}: {wrong.reason}"
            self._report(None, wrong.code, message, None, (self._origin(place),), wrong.hint)
        if place.optional and spec.required and not spec.optional:
            message = f"the output requires `{cls}.{name}`, but its value may be None"
            self._report(
                None, "E104", message, None, (self._origin(place),), "make the field of the output optional too"
            )

    def _unwritten(self, path: Path, spec: FieldSpec, scope: DimScope) -> None:
        """Report a field of the output that nothing writes, with the likeliest cause as hint."""
        ref: Any = self.output
        for part in path:
            ref = getattr(ref, part)
        assert isinstance(ref, FieldRef)
        slot = Slot(ref)
        near = suggest(self.state, slot, scope.terms(spec.dims))
        hint = f"add a module with `out_fields={slot.label}`, make the field optional, or give another `output`"
        if spec.produced and self.output is self.input and self.written:
            hint = f"add a module with `out_fields={slot.label}`, or return a class of the fields that exist: "
            hint += self._smaller()
        loose = [place for place in self.written if not place.used and is_unnamed(place.owner)]
        if len(loose) == 1:  # a stage without `out`
            loose[0].used = True  # reported here
            hint = f"give {self._who(loose[0].writer)} `out={slot.label}` if it is what that writes. Else {hint}"
        if near is not None and near.writer != INPUT:
            hint = f"{self._who(near.writer)} writes `{near.name}`, did you mean `out_fields={slot.label}`? Else {hint}"
        message = f"nothing writes `{slot.label}`, which the output {self.output.__name__} needs"
        self._report(None, "E107", message, None, (f"declared: {slot}", self._available()), hint)

    def _smaller(self) -> str:
        """Code for a class with the output fields that exist."""
        kept = {name: spec for name, spec in fields_of(self.output).items() if self._has(name)}
        rows = "; ".join(f"{name}: {_annotation(spec)}" for name, spec in kept.items())
        name = f"{self.output.__name__}Part"
        return f"`class {name}(TensorClass): {rows}` and `output={name}`"

    def _has(self, name: str) -> bool:
        return source_of((name,), self.sources) in self.state.places

    # ---- unused fields -------------------------------------------------------------------------------------------

    def _unused(self) -> None:
        for place in self.written:
            writer = self.stages[place.writer]
            if not place.used and writer.method != WHOLE and writer.how.over is None:
                self._report(
                    place.writer,
                    "W201",
                    f"{self._who(place.writer)} writes `{place.name}`, which nothing reads",
                    None,
                    (f"declared: {place}",),
                    "write None instead to drop the output, or leave the module out",
                )

    def _shared(self) -> None:
        """Warn of a module with parameters that is in the pipeline twice."""
        first: dict[int, int] = {}
        for index, module in enumerate(self.modules):
            if not isinstance(module, nn.Module) or not _has_state(module):
                continue
            known = first.setdefault(id(module), index)
            if known != index:
                self._report(
                    index,
                    "W203",
                    f"{self._who(index)} is the same {type(module).__name__} as {self._who(known)}",
                    None,
                    (),
                    "they share their parameters and buffers; pass `copy.deepcopy(...)` to separate them",
                )

    def _note_narrowing(self) -> None:
        for path, place in self.inputs.items():
            if place.spec.dtype is None:
                continue
            now = self.state.unifier.text(place.terms)
            if now != self.declared[path] or place.dtype != place.spec.dtype:
                message = f'input field `{place.name}` is narrowed to {place.dtype}["{now}"]'
                self._report(None, "N301", message, None, (f"declared: {place}",), "")

    # ---- text ----------------------------------------------------------------------------------------------------

    def _who(self, index: int) -> str:
        return self.stages[index].at(index)

    def _origin(self, place: Place) -> str:
        if place.writer == INPUT:
            return f"the input declares {place}"
        return f"{self._who(place.writer)} writes {place}  ({self.stages[place.writer].location})"

    def _available(self) -> str:
        names = [place.name for place in self.state.places.values() if len(place.path) == 1]
        names += [place.name for place in self.state.places.values() if place.path[:1] not in self.state.places]
        return f"available here: {', '.join(names) or 'nothing'}"

    def _spell(self, spec: FieldSpec, terms: Terms) -> str:
        """A declaration, with the sizes of its names in this pipeline."""
        if spec.dims is None or not spec.dims.names:
            return str(spec)
        now = self.state.unifier.text(terms)
        return f'{spec} (here "{now}")' if now != str(spec.dims) else str(spec)

    def _report(
        self, index: int | None, code: str, message: str, slot: Slot | None, notes: tuple[str, ...], hint: str
    ) -> None:
        if index is None:
            self.found.append(Diagnostic(code, message, notes=notes, hint=hint))
            return
        role = "out_fields" if code in ("E105", "E106") else "in_fields"
        where = "" if slot is None else f"  {role}={slot}"
        self.found.append(self.stages[index].finding(index, code, message, notes, hint, where))


def _annotation(spec: FieldSpec) -> str:
    text = spec.type_text if spec.dtype is None or spec.dims is None else f'{spec.dtype}[Tensor, "{spec.dims}"]'
    return f"{text} | None = None" if spec.optional else text


def _paths(stage: Stage) -> list[Path]:
    return [slot.path for slot in stage.written]


def _has_state(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None or next(module.buffers(), None) is not None
