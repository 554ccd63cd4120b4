"""Follows fields through a pipeline: the part of the build check that needs only declarations.

It mirrors `nn/check/_declared.py`. A module with unknown fields may write anything, so no field is reported as missing
after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from mypy import nodes
from mypy.plugin import FunctionContext, MethodContext
from mypy.subtypes import is_same_type, is_subtype
from mypy.types import Instance, Type

from ..._dims import Dim
from ._codes import FLOW
from ._facts import Declared, batch_members, field_type, fields_of, is_below_root, required
from ._members import REORDERING, between, known_elsewhere, members, pipeline_of
from ._refs import Ref, class_of
from ._source import source_of
from ._stages import Stage

Path = tuple[str, ...]
_INPUT = -1
_FOREIGN = ("builtins.", "torch.")  # user decorators may change other classes in unknown ways


@dataclass(frozen=True)
class Place:
    """A field of the state, and the index of the module that wrote it."""

    declared: Declared
    type: Type
    writer: int = _INPUT

    def clash(self, other: Declared, typ: Type) -> str:
        """The reason why no value fits this place and another declaration; "" if one may fit."""
        mine = self.declared
        if mine.kind != "tensor" or other.kind != "tensor":
            same = is_same_type(self.type, typ) or is_subtype(self.type, typ) or is_subtype(typ, self.type)
            return "" if same or "tensor" not in (mine.kind, other.kind) else f"is {mine.kind}, here {other.kind}"
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
    places: dict[Path, Place] = field(default_factory=dict)
    open: bool = False
    """Whether an earlier module is unknown, so that any field may exist."""

    def add_input(self) -> None:
        """Every field that the constructor of the input fills."""
        self._expand(self.input, (), _INPUT, ())

    def _expand(self, owner: Instance, prefix: Path, writer: int, above: tuple[str, ...]) -> None:
        for name, declared in fields_of(owner.type).items():
            typ = field_type(owner, name)
            if declared.produced or typ is None:
                continue
            path = (*prefix, name)
            self.places[path] = Place(declared, typ, writer)
            for inner in batch_members(typ):
                if inner.type.fullname not in above:
                    self._expand(inner, path, writer, (*above, owner.type.fullname))

    def run(self, stage: Stage | None, index: int, later: list[Stage | None], where: nodes.Context) -> None:
        """One module."""
        if stage is None or stage.reads is None or stage.writes is None:
            self.open = True
            return
        for ref in stage.reads:
            if ref is not None:
                self._read(ref, index, [stage, *later], where)
        for ref in stage.writes:
            if ref is not None:
                self._write(ref, index, stage, where)

    def _read(self, ref: Ref, index: int, later: list[Stage | None], where: nodes.Context) -> None:
        place = self.places.get(ref.path)
        if place is not None:
            clash = place.clash(ref.found.declared, ref.found.type)
            if clash:
                self._fail(f'module {index} reads "{ref}", which {clash}', where)
        elif not self.open:
            hint = self._hint(ref, index, later)
            self._fail(f'module {index} reads "{ref}", which nothing before it provides{hint}', where)

    def _hint(self, ref: Ref, index: int, later: list[Stage | None]) -> str:
        for offset, stage in enumerate(later):
            if stage is not None and any(w is not None and w.path == ref.path for w in stage.writes or ()):
                later_one = f"; module {index + offset} writes it, move it before"
                return later_one if offset else "; it writes the field itself"
        names = ", ".join(".".join(path) for path in self.places if len(path) == 1)
        return f"; available here: {names or 'nothing'}"

    def _write(self, ref: Ref, index: int, stage: Stage, where: nodes.Context) -> None:
        around = (self.places.get(ref.path[:n]) for n in range(len(ref.path), 0, -1))
        before = next((place for place in around if place is not None), None)
        if before is not None and stage.plain and not stage.update:
            by_input = before.writer == _INPUT
            who = f"the input {self.input.type.name} has" if by_input else f"module {before.writer} has written"
            self._fail(f'module {index} writes "{ref}", which {who}; say `update=True` if that is meant', where)
        for path in [p for p in self.places if p[: len(ref.path)] == ref.path or ref.path[: len(p)] == p]:
            del self.places[path]
        self.places[ref.path] = Place(ref.found.declared, ref.found.type, index)
        for inner in batch_members(ref.found.type):
            self._expand(inner, ref.path, index, (ref.owner.type.fullname,))

    def output(self, owner: Instance, prefix: Path, where: nodes.Context) -> None:
        """Report fields of the output that are missing."""
        needed = required(owner.type)
        for name, declared in fields_of(owner.type).items():
            path, typ = (*prefix, name), field_type(owner, name)
            place, inner = self.places.get(path), [] if typ is None else batch_members(typ)
            if typ is None or (place is None and self.open):
                continue
            if place is not None:
                clash = place.clash(declared, typ)
                if clash:
                    self._fail(f'the output declares "{".".join(path)}", which {clash}', where)
            elif inner and any(p[: len(path)] == path for p in self.places):
                self.output(inner[0], path, where)
            elif declared.produced or name in needed:
                self._fail(f'nothing writes "{".".join(path)}", which the output {owner.type.name} needs', where)

    def _fail(self, text: str, where: nodes.Context) -> None:
        self.api.fail(text[0].upper() + text[1:], where, code=FLOW)


def pipeline(ctx: FunctionContext) -> Type:
    """`TensorClassSequential(*modules, input=..., output=...)`."""
    if isinstance(ctx.context, nodes.CallExpr) and REORDERING.intersection(ctx.context.arg_names):
        return ctx.default_return_type
    given = dict(zip(ctx.callee_arg_names, zip(ctx.args, ctx.arg_kinds, strict=True), strict=True))
    classes = {}
    for role in ("input", "output"):
        values = given.get(role, ([], []))[0]
        if len(values) == 1:
            classes[role] = _class(ctx, values[0], role)
    start = classes.get("input")
    if start is None:
        return ctx.default_return_type
    end, stages = classes.get("output", start), list(_stages(ctx))
    flow, known = Flow(ctx.api, start), [stage for stage, _ in stages]
    flow.add_input()
    for index, (stage, at) in enumerate(stages):
        flow.run(stage, index, known[index + 1 :], at)
    if end is not None:
        flow.output(end, (), ctx.context)
    options = [name for name, values in given.items() if values[0] and name not in (None, "first", "modules")]
    made = None if end is None else between(start, end, known, options)
    return known_elsewhere(ctx, made)


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


def _stages(ctx: FunctionContext) -> Iterator[tuple[Stage | None, nodes.Context]]:
    """Every module in order, each with where it is; a list or tuple behind a `*` with its members."""
    given = zip(chain(*ctx.args), chain(*ctx.arg_kinds), strict=True)
    for expr, kind in {id(e): (e, kind) for e, kind in given if kind in (nodes.ARG_POS, nodes.ARG_STAR)}.values():
        items = source_of(ctx.api).items(expr) if kind.is_star() else [expr]
        if items is None:
            yield None, expr
        for item in items or ():
            for stage in members(ctx.api, item):
                yield stage, expr if kind.is_star() else item


def _class(ctx: FunctionContext, expr: nodes.Expression, role: str) -> Instance | None:
    """The typed class in an argument; None if unknown. Any other class is reported."""
    found = class_of(expr)
    node = expr.node if isinstance(expr, nodes.RefExpr) else None
    if isinstance(node, nodes.TypeInfo) and node.fullname.startswith(_FOREIGN) and not is_below_root(node):
        ctx.api.fail(f"{role}= takes a tensorclass, got {node.name}", expr, code=FLOW)
    return found
