"""Follows fields through a pipeline: the part of the build check that needs only declarations.

It mirrors `nn/check/_declared.py`. A module with unknown fields may write anything, so no field is reported as missing
after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mypy import nodes
from mypy.plugin import FunctionContext, MethodContext
from mypy.subtypes import is_same_type, is_subtype
from mypy.types import AnyType, Instance, Type, UninhabitedType, get_proper_type

from ..._dims import Dim
from ._codes import FLOW
from ._facts import ClassDeclaration, Found, at_path, batch_members, field_type, fields_of, is_below_root, required
from ._layers import follow_layers
from ._members import REORDERING, between, ends_of, known_elsewhere, listed, options_of, pipeline_of
from ._refs import FieldReference
from ._same_value import NamedValues
from ._source import anything, type_of
from ._stages import KnownStage

Path = tuple[str, ...]
_INPUT = -1
_FOREIGN = ("builtins.", "torch.")  # user decorators may change other classes in unknown ways


@dataclass(frozen=True)
class FlowField:
    """A field of the state, and the index of the module that wrote it."""

    declared: ClassDeclaration
    type: Type
    writer: int = _INPUT

    def clash(self, other: ClassDeclaration, typ: Type) -> str:
        """The reason why no value fits this place and another declaration; "" if one may fit."""
        mine = self.declared
        if not mine.kind.is_batched or not other.kind.is_batched:
            same = is_same_type(self.type, typ) or is_subtype(self.type, typ) or is_subtype(typ, self.type)
            return (
                ""
                if same or not (mine.kind.is_batched or other.kind.is_batched)
                else f"is {mine.kind}, here {other.kind}"
            )
        if mine.dtypes is not None and other.dtypes is not None and not mine.dtypes & other.dtypes:
            return f"is {mine}, here it is declared {other}"
        own, their = mine.shape, other.shape
        if own is None or their is None or own.rank is None or their.rank is None:
            return ""
        pairs = zip(own.tokens, their.tokens, strict=False)
        sizes = [(a.size.constant, b.size.constant) for a, b in pairs if isinstance(a, Dim) and isinstance(b, Dim)]
        fits = own.rank == their.rank and all(None in pair or pair[0] == pair[1] for pair in sizes)
        return "" if fits else f"is {mine}, here it is declared {other}"


@dataclass
class Flow:
    """The state of a pipeline during the analysis of its modules."""

    api: Any
    input: Instance
    places: dict[Path, FlowField] = field(default_factory=dict)
    open: bool = False
    """Whether an earlier module is unknown, so that any field may exist."""
    names: NamedValues = field(default_factory=NamedValues)
    calls: list[nodes.CallExpr] = field(default_factory=list)
    """The calls of `stage` that have run."""
    missed: set[Path] = field(default_factory=set)
    """Reads that were reported because nothing provides the value: the cause of everything else that lacks it."""

    def add_input(self) -> None:
        """Every field that the constructor of the input fills."""
        self._expand(self.input, (), _INPUT, ())
        for name, *deeper in self.places:
            if not deeper:
                self.names.add_input(self.input.type, name)

    def _expand(self, owner: Instance, prefix: Path, writer: int, above: tuple[str, ...]) -> None:
        for name, declared in fields_of(owner.type).items():
            typ = field_type(owner, name)
            if declared.produced or typ is None:
                continue
            path = (*prefix, name)
            self.places[path] = FlowField(declared, typ, writer)
            for inner in batch_members(typ):
                if inner.type.fullname not in above:
                    self._expand(inner, path, writer, (*above, owner.type.fullname))

    def run(self, stage: KnownStage | None, index: int, later: list[KnownStage | None], where: nodes.Context) -> None:
        """One module."""
        if stage is None or stage.reads is None or stage.writes is None:
            self.open = True
            return
        missing = [ref for ref in stage.reads if ref is not None and not self._read(ref, index, where)]
        if missing:
            names = " and ".join(f'"{ref}"' for ref in missing)
            hint = self._hint(missing[0], index, [stage, *later])
            self._fail(f"module {index} reads {names}, which nothing before it provides{hint}", where)
        for call in stage.values:
            self._read_value(call, index, later, where)
        if stage.call is not None:
            self.calls.append(stage.call)
        for ref in stage.writes:
            if ref is not None:
                self._write(ref, index, stage, where)

    def _read_value(
        self, call: nodes.CallExpr, index: int, later: list[KnownStage | None], where: nodes.Context
    ) -> None:
        """The value of another stage, which must come before."""
        if call in self.calls or self.open or None in later:
            return
        after = [stage is not None and stage.call is call for stage in later]
        hint = f"module {index + 1 + after.index(True)} is that stage, move it before" if True in after else "list it"
        self._fail(f"module {index} reads the value of a stage that is not listed before it; {hint}", where)

    def _read(self, ref: FieldReference, index: int, where: nodes.Context) -> bool:
        """Whether something before a module provides a field that it reads, or its lack was reported before."""
        if self._is_unclear(ref, f"module {index} reads", where):
            return True
        path = self.names.path_of(ref)
        place = self.places.get(path)
        if place is not None:
            clash = place.clash(ref.found.declared, ref.found.type)
            if clash:
                self._fail(f'module {index} reads "{ref}", which {clash}', where)
        elif not self.open and path not in self.missed:
            self.missed.add(path)
            return False
        return True

    def _is_unclear(self, ref: FieldReference, what: str, where: nodes.Context) -> bool:
        """Report a field that may be any of several values."""
        found = self.names.found(ref.owner.type, ref.path[0])
        if len(found) > 1:
            several = ", ".join(f"{value.owners[0].name}.{ref.name}" for value in found)
            self._fail(f'{what} "{ref}", which may be any of {several}; name one of them', where)
        return len(found) > 1

    def _hint(self, ref: FieldReference, index: int, later: list[KnownStage | None]) -> str:
        for offset, stage in enumerate(later):
            if stage is not None and any(w is not None and w.path == ref.path for w in stage.writes or ()):
                later_one = f"; module {index + offset} writes it, move it before"
                return later_one if offset else "; it writes the field itself"
        names = ", ".join(".".join(path) for path in self.places if len(path) == 1)
        return f"; available here: {names or 'nothing'}"

    def _write(self, ref: FieldReference, index: int, stage: KnownStage, where: nodes.Context) -> None:
        """Note that a stage writes a field; report a write over another one."""
        if stage.update and self._is_unclear(ref, f"module {index} writes", where):
            return
        own = self.names.write(ref, stage.update)
        around = (self.places.get(own[:n]) for n in range(len(own), 0, -1))
        before = next((place for place in around if place is not None), None)
        if before is not None and stage.plain and not stage.update:
            by_input = before.writer == _INPUT
            who = f"the input {self.input.type.name} has" if by_input else f"module {before.writer} has written"
            self._fail(f'module {index} writes "{ref}", which {who}; say `update=True` if that is meant', where)
        for path in [p for p in self.places if p[: len(own)] == own or own[: len(p)] == p]:
            del self.places[path]
        self.places[own] = FlowField(ref.found.declared, ref.found.type, index)
        for inner in batch_members(ref.found.type):
            self._expand(inner, own, index, (ref.owner.type.fullname,))

    def output(self, owner: Instance, prefix: Path, where: nodes.Context) -> None:
        """Report fields of the output that are missing."""
        needed = required(owner.type)
        for name, declared in fields_of(owner.type).items():
            path, typ = self._source(owner, prefix, name, where), field_type(owner, name)
            place, inner = self.places.get(path), [] if typ is None else batch_members(typ)
            if typ is None or (place is None and self.open):
                continue
            if place is not None:
                clash = place.clash(declared, typ)
                if clash:
                    self._fail(f'the output declares "{".".join(path)}", which {clash}', where)
            elif inner and any(p[: len(path)] == path for p in self.places):
                self.output(inner[0], path, where)
            elif path not in self.missed and (declared.produced or name in needed):
                self._fail(f'nothing writes "{".".join(path)}", which the output {owner.type.name} needs', where)

    def _source(self, owner: Instance, prefix: Path, name: str, where: nodes.Context) -> Path:
        """The path of the value that a field of the output takes."""
        if prefix:
            return (*prefix, name)
        found = at_path(owner, (name,))
        if not isinstance(found, Found):
            return (name,)
        ref = FieldReference(owner, (name,), found)
        self._is_unclear(ref, "the output takes", where)
        return self.names.path_of(ref)

    def _fail(self, text: str, where: nodes.Context) -> None:
        self.api.fail(text[0].upper() + text[1:], where, code=FLOW)


def pipeline(ctx: FunctionContext) -> Type:
    """`TensorClassSequential(*modules, input=..., output=...)`, and with stages by keyword."""
    call = ctx.context
    options = options_of(call) if isinstance(call, nodes.CallExpr) else None
    if not isinstance(call, nodes.CallExpr) or options is None or REORDERING & options.keys():
        return ctx.default_return_type
    for role in ("input", "output"):
        if role in options:
            _check_class(ctx, options[role])
    rows = list(listed(ctx.api, call))
    known = [stage for stage, _ in rows]
    start, end = ends_of(call, known)
    if known and known[0] is not None and known[0].follows:
        ctx.api.fail("Module 0 does not say what it reads, and nothing is before it", rows[0][1], code=FLOW)
    follow_layers(ctx.api, known)
    if start is None:
        return ctx.default_return_type
    flow = Flow(ctx.api, start)
    flow.add_input()
    for index, (stage, at) in enumerate(rows):
        flow.run(stage, index, known[index + 1 :], at)
    if end is not None:
        flow.output(end, (), call)
    ctx = ctx._replace(default_return_type=_with_ends(ctx, start, end, known))
    return known_elsewhere(ctx, None if end is None else between(start, end, known, options.keys()))


def _with_ends(ctx: FunctionContext, start: Instance, end: Instance | None, stages: list[KnownStage | None]) -> Type:
    """The type of a pipeline whose ends mypy has not inferred."""
    typ = get_proper_type(ctx.default_return_type)
    if not isinstance(typ, Instance) or len(typ.args) != 2 or not _is_unknown(typ.args[1]):
        return ctx.default_return_type
    last = stages[-1] if stages else None
    value = type_of(ctx.api, last.call) if end is None and last is not None and last.call is not None else end
    return typ.copy_modified(args=[start, anything() if value is None else value])


def _is_unknown(typ: Type) -> bool:
    return isinstance(get_proper_type(typ), AnyType | UninhabitedType)


def on(ctx: MethodContext) -> Type:
    """`pipeline.on(Image)`: the class must have the fields that the modules read and that the output takes from it."""
    call = ctx.context
    found = pipeline_of(ctx.api, call) if isinstance(call, nodes.CallExpr) else None
    if found is not None and found.ends is not None:
        flow = Flow(ctx.api, found.ends[0])
        flow.add_input()
        for index, stage in enumerate(found.stages):
            flow.run(stage, index, found.stages[index + 1 :], call)
        flow.output(found.ends[1], (), call)
    return ctx.default_return_type


def _check_class(ctx: FunctionContext, expr: nodes.Expression) -> None:
    """Report a class that is certainly not a typed one."""
    node = expr.node if isinstance(expr, nodes.RefExpr) else None
    name = next(name for name, value in zip(ctx.context.arg_names, ctx.context.args, strict=True) if value is expr)  # type: ignore[attr-defined]  # a call
    if isinstance(node, nodes.TypeInfo) and node.fullname.startswith(_FOREIGN) and not is_below_root(node):
        ctx.api.fail(f"{name}= takes a tensorclass, got {node.name}", expr, code=FLOW)
