"""The members of a pipeline: typed modules, class-to-class modules and chains, other pipelines, and parts of them.

It mirrors `nn/typed/_sequential.py` and `nn/typed/_subsequence.py`; None means unknown. The value of a name in another
file is read from its type, see `_carried`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from mypy import nodes
from mypy.maptype import map_instance_to_supertype
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import Instance, Type, get_proper_type

from ._carried import carry, cross_file_facts
from ._facts import Found, at_path, batch_instance, fields_of
from ._refs import FieldReference, class_of, from_row, references, to_row
from ._source import aliased_class, call_arguments, callee_name, source_of, type_of
from ._stages import KnownStage, batch_ends, stage_of

BASE = "tensorclass.nn.typed._class_module.TensorClassModuleBase"
SEQUENTIAL = "tensorclass.nn.typed._sequential.TensorClassSequential"
REORDERING = frozenset({"sort", "skip_existing"})
"""Options that change the order of writes from the order of the arguments."""
OPTIONS = ("input", "output", "probe", "sort", "partial", "skip_existing", "name")
_DEPTH = 8
Path = tuple[str, ...]
Ends = tuple[Instance, Instance]


@dataclass(frozen=True)
class Pipeline:
    """The modules of a pipeline, the names of the fields that it returns, and the classes of its input and output."""

    stages: list[KnownStage | None]
    returned: frozenset[str]
    ends: Ends | None

    def inlined(self) -> Iterator[KnownStage | None]:
        """The modules as part of an outer pipeline, in which fields that this one doesn't return don't exist."""
        hidden: set[Path] = set()
        for stage in self.stages:
            if stage is None or stage.reads is None or stage.writes is None:
                yield None
                continue
            reads = [None if ref is None or _touches(hidden, ref.path) else ref for ref in stage.reads]
            writes = [ref if ref is not None and ref.path[0] in self.returned else None for ref in stage.writes]
            hidden |= {ref.path for ref in stage.writes if ref is not None and ref.path[0] not in self.returned}
            yield replace(stage, reads=reads, writes=writes, inner=True)


def members(api: Any, expr: nodes.Expression, depth: int = 0) -> list[KnownStage | None]:
    """The modules of a pipeline argument; [None] if they are unknown."""
    stage = stage_of(api, expr)
    if stage is not None:
        return [stage]
    pipeline = pipeline_of(api, expr, depth)
    if pipeline is not None:
        return list(pipeline.inlined())
    known = _recorded_pipeline(source_of(api).follow(expr))
    if known is not None:
        return known.stages
    ends = _ends(api, expr, depth)
    if ends is not None:
        taken, returned = (list(_fields(end)) for end in ends)
        return [KnownStage(taken, returned, update=True, plain=True)]
    found = get_proper_type(type_of(api, expr))
    typed = None if found is None else batch_ends(api, found)
    if typed is None:
        return [None]
    return [KnownStage([], list(_fields(typed[1])), update=True, plain=True, takes=typed[0])]  # it may read any fields


def pipeline_of(api: Any, expr: nodes.Expression, depth: int = 0) -> Pipeline | None:
    """The pipeline that an expression certainly is."""
    value = source_of(api).follow(expr)
    known = _recorded_pipeline(value)
    if known is not None and known.ends is not None:
        return known
    if not isinstance(value, nodes.CallExpr) or depth > _DEPTH:
        return None
    if isinstance(value.callee, nodes.MemberExpr) and value.callee.name == "select_subsequence":
        whole = pipeline_of(api, value.callee.expr, depth + 1)
        return None if whole is None else _part(api, whole, call_arguments(value, ()))
    if isinstance(value.callee, nodes.MemberExpr) and value.callee.name == "on" and len(value.args) == 1:
        whole, start = pipeline_of(api, value.callee.expr, depth + 1), class_of(value.args[0])
        if whole is None or whole.ends is None or start is None:
            return None
        return replace(whole, ends=(start, whole.ends[1]))
    return _of_call(api, value, depth) if callee_name(value) == SEQUENTIAL else None


def _of_call(api: Any, call: nodes.CallExpr, depth: int) -> Pipeline | None:
    options = options_of(call)
    if options is None or REORDERING & options.keys():
        return None
    rows = list(listed(api, call, depth + 1))
    stages = [stage for stage, _ in rows]
    start, end = ends_of(call, stages)
    return None if start is None or end is None else between(start, end, stages, options.keys())


def options_of(call: nodes.CallExpr) -> dict[str, nodes.Expression] | None:
    """The options of a pipeline; None with `**`."""
    rows = list(zip(call.arg_names, call.args, call.arg_kinds, strict=True))
    if any(kind == nodes.ARG_STAR2 for _, _, kind in rows):
        return None
    return {name: value for name, value, kind in rows if kind.is_named() and name in OPTIONS}


def listed(api: Any, call: nodes.CallExpr, depth: int = 0) -> Iterator[tuple[KnownStage | None, nodes.Context]]:
    """Every module in order, each with where it is; a list or tuple behind a `*` with its members."""
    for name, expr, kind in zip(call.arg_names, call.args, call.arg_kinds, strict=True):
        if name in OPTIONS:
            continue
        items = source_of(api).items(expr) if kind == nodes.ARG_STAR else [expr]
        if items is None or kind == nodes.ARG_STAR2:
            yield None, expr
        for item in items or () if kind != nodes.ARG_STAR2 else ():
            for stage in members(api, item, depth):
                yield stage, expr if kind.is_star() else item


def ends_of(call: nodes.CallExpr, stages: list[KnownStage | None]) -> tuple[Instance | None, Instance | None]:
    """The classes of the input and the output: from brackets, options, or the first read and the last written field."""
    options = options_of(call) or {}
    brackets = _brackets(call)
    start, end = (batch_instance(typ) for typ in brackets or (None, None))
    start = start or (class_of(options["input"]) if "input" in options else _first_read(stages))
    if "output" in options:
        end = class_of(options["output"])
    elif end is None and not brackets:
        calls = any(stage is None or stage.call is not None for stage in stages) or set(call.arg_names) - set(
            OPTIONS
        ) - {None}
        end = _last_written(stages) if calls or "input" not in options else start
    return start, end


def _brackets(call: nodes.CallExpr) -> list[Type]:
    """The types in `TensorClassSequential[Digits, Prediction](...)`, or in an alias of it."""
    callee = call.callee
    alias = aliased_class(callee)
    if alias is not None:
        return list(alias.args)
    application = callee.analyzed if isinstance(callee, nodes.IndexExpr) else None
    return application.types if isinstance(application, nodes.TypeApplication) else []


def _first_read(stages: list[KnownStage | None]) -> Instance | None:
    """The class that the first module reads; a subclass of it that a later one reads wins."""
    found: Instance | None = None
    for stage in stages:
        found = found or (stage.takes if stage is not None else None)
        for ref in (stage.reads or ()) if stage is not None else ():
            if ref is not None and (found is None or ref.owner.type.has_base(found.type.fullname)):
                found = ref.owner
        if found is None:
            return None
    return found


def _last_written(stages: list[KnownStage | None]) -> Instance | None:
    last = stages[-1] if stages else None
    written = [ref for ref in (last.writes or ()) if ref is not None] if last is not None else []
    return written[-1].owner if written else None


def between(
    start: Instance, end: Instance, stages: list[KnownStage | None], options: Collection[str | None]
) -> Pipeline:
    """A pipeline of modules from one class to another."""
    if not {*options} <= {"input", "output", "probe", "name"}:
        stages = [stage and replace(stage, plain=False) for stage in stages]
    return Pipeline(stages, frozenset(fields_of(end.type)), (start, end))


def _part(api: Any, whole: Pipeline, given: dict[str, nodes.Expression] | None) -> Pipeline | None:
    """`pipeline.select_subsequence(out_fields=...)`: the modules that some fields depend on."""
    refs = references(api, given["out_fields"]) if given is not None and given.keys() == {"out_fields"} else None
    wanted = {ref.path for ref in refs or () if ref is not None}
    kept, needed = list[KnownStage | None](), wanted
    for stage in reversed(whole.stages):
        if stage is None or stage.reads is None or stage.writes is None or stage.inner:
            return None
        if not stage.plain or not wanted:
            return None
        written = {ref.path for ref in stage.writes if ref is not None}
        if any(_touches([path], other) or _touches([other], path) for path in written for other in needed):
            kept.insert(0, stage)
            needed = (needed - written) | {ref.path for ref in stage.reads if ref is not None}
    return Pipeline(kept, frozenset(path[0] for path in wanted), None)


def _touches(paths: Iterable[Path], path: Path) -> bool:
    return any(path[: len(above)] == above for above in paths)


# ---- class-to-class modules ------------------------------------------------------------------------------------------


def _ends(api: Any, expr: nodes.Expression, depth: int) -> Ends | None:
    """The certain input and output classes of a class-to-class module, a chain or a pipeline."""
    value = source_of(api).follow(expr)
    if isinstance(value, nodes.OpExpr) and value.op == ">>" and depth <= _DEPTH:
        first, last = (_ends(api, side, depth + 1) for side in (value.left, value.right))
        return None if first is None or last is None else (first[0], last[1])
    pipeline = pipeline_of(api, expr, depth)
    return _declared_ends(api, expr) if pipeline is None else pipeline.ends


def _declared_ends(api: Any, expr: nodes.Expression) -> Ends | None:
    """The classes in `class Encoder(TensorClassModuleBase[Digits, Hidden])`, which subclasses can't change."""
    typ = get_proper_type(type_of(api, expr))
    if not isinstance(typ, Instance) or typ.type.type_vars or typ.type.fullname.startswith("tensorclass."):
        return None
    own = [base for base in typ.type.mro if base.fullname != BASE and base.has_base(BASE)]
    base = next((base for base in typ.type.mro if base.fullname == BASE), None)
    if base is None or any(name in one.names for one in own for name in ("input_type", "output_type")):
        return None
    ends = [batch_instance(end) for end in map_instance_to_supertype(typ, base).args]
    return (ends[0], ends[1]) if ends[0] is not None and ends[1] is not None else None


def _fields(owner: Instance) -> Iterator[FieldReference | None]:
    for name in fields_of(owner.type):
        found = at_path(owner, (name,))
        if isinstance(found, Found):
            yield FieldReference(owner, (name,), found)


# ---- other files -----------------------------------------------------------------------------------------------------


def known_elsewhere(ctx: FunctionContext | MethodContext, made: Pipeline | KnownStage | None) -> Type:
    """The type of a module or a pipeline, with its fields if it has a name that other files may use."""
    if made is None or source_of(ctx.api).name_of(ctx.context) is None:
        return ctx.default_return_type
    whole = made if isinstance(made, Pipeline) else Pipeline([made], frozenset(), None)
    classes: list[Instance] = []
    known = {"stages": [one and _row(one, classes) for one in whole.stages], "returned": sorted(whole.returned)}
    known["ends"] = len(whole.ends or ())
    return carry(ctx.api, ctx.default_return_type, ctx.context, known, [*(whole.ends or ()), *classes])


def decorated(ctx: MethodContext) -> Type:
    """The second step of `module(in_fields=..., out_fields=...)(function)`, also above a function."""
    where = ctx.context
    value = where.original_decorators[0] if isinstance(where, nodes.Decorator) else where
    return known_elsewhere(ctx, stage_of(ctx.api, value) if isinstance(value, nodes.Expression) else None)


def _row(stage: KnownStage, classes: list[Instance]) -> list[Any] | None:
    if stage.reads is None or stage.writes is None:
        return None
    sides = [[ref and to_row(ref, classes) for ref in refs] for refs in (stage.reads, stage.writes)]
    return [*sides, stage.update, stage.plain, stage.inner]


def _stage(row: list[Any] | None, classes: list[Instance]) -> KnownStage | None:
    if row is None:
        return None
    reads, writes = [[ref and from_row(ref, classes) for ref in refs] for refs in row[:2]]
    gone = [*map(bool, row[0] + row[1])] != [*map(bool, reads + writes)]
    return None if gone else KnownStage(reads, writes, *row[2:])


def _recorded_pipeline(expr: nodes.Expression) -> Pipeline | None:
    """The module or the pipeline of another file; without ends, when it is a module."""
    found = cross_file_facts(expr)
    if found is None or "stages" not in found[0]:
        return None
    known, classes = found
    count: int = known["ends"]
    stages = [_stage(row, classes[count:]) for row in known["stages"]]
    return Pipeline(stages, frozenset(known["returned"]), (classes[0], classes[1]) if count else None)
