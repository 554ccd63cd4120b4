"""What layers of torch make of a value: its dtype and its last dim, followed through the stages of a pipeline.

Literal arguments fix both: `nn.Linear(64, 10)` takes a last dim of 64 and gives 10. Anything else is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from mypy import nodes

from ._call_parts import NOTHING, TensorFacts
from ._codes import DTYPE, SHAPE
from ._layer_table import MODULES, after, layer_name, width_problem
from ._promotion import FLOATS
from ._refs import FieldReference, reference, references, written_out
from ._source import Source, callee_name, source_of
from ._stages import STAGE, KnownStage, inputs_of, options_of, value_of
from ._torch_table import KINDS
from ._types import instance_of
from ._values import called_with, function_name, tensor_facts, whole_sizes


@dataclass(frozen=True)
class ValueFacts:
    """The known facts about a value, and its name for messages."""

    tensor: TensorFacts = NOTHING
    label: str = "the value that it gets"


UNKNOWN: Final = ValueFacts()
_BATCH: Final = object()
"""The batch dims, which all values of a pipeline share."""


def follow_layers(api: Any, stages: list[KnownStage | None]) -> None:
    """Check the values between the stages of a pipeline: the widths that layers take, and the fields that they fill."""
    source, known = source_of(api), dict[nodes.CallExpr, ValueFacts]()
    before: list[ValueFacts] = []
    for stage in stages:
        call = None if stage is None else stage.call
        if stage is None or call is None:
            before = [] if stage is None else _facts_of_fields(stage.writes)
            continue
        given = before if stage.follows else [_facts_of_input(api, value, known) for value in inputs_of(call) or ()]
        is_layer = callee_name(call) == STAGE
        made = _results(api, source, call.args[0], given) if is_layer and given else [UNKNOWN]
        outs = _outs(api, call)
        for one, out in zip(made, outs, strict=False) if len(made) == len(outs) else ():
            if out is not None:
                _compare(api, one, out, call)
        before = _facts_of_fields(outs) or ([UNKNOWN] if "returns" in options_of(call) else made)
        known[call] = before[0] if len(before) == 1 else UNKNOWN


def check_wrapped(api: Any, module: nodes.Expression, stage: KnownStage) -> None:
    """Check the callable of `TensorClassModule(module, in_fields=..., out_fields=...)`."""
    given = _facts_of_fields(stage.reads)
    if not given or stage.reads is None or len(given) != len(stage.reads):
        return
    made, outs = _results(api, source_of(api), module, given), stage.writes or []
    for one, out in zip(made, outs, strict=False) if len(made) == len(outs) else ():
        if out is not None:
            _compare(api, one, out, module)


def _facts_of_input(api: Any, expr: nodes.Expression, known: dict[nodes.CallExpr, ValueFacts]) -> ValueFacts:
    call = value_of(api, expr)
    if call is not None:
        whole = not isinstance(source_of(api).follow(expr), nodes.IndexExpr)
        return known.get(call, UNKNOWN) if whole else UNKNOWN
    return next(iter(_facts_of_fields([reference(api, expr)])), UNKNOWN)


def _facts_of_fields(refs: Iterable[FieldReference | None] | None) -> list[ValueFacts]:
    """The declarations of the fields that are known."""
    return [_facts_of_field(ref) for ref in refs or () if ref is not None]


def _facts_of_field(ref: FieldReference) -> ValueFacts:
    declared = ref.found.declared
    if not declared.kind.is_batched:
        return UNKNOWN
    shape = None if declared.shape is None else whole_sizes(declared.shape, _BATCH)
    return ValueFacts(TensorFacts(declared.dtypes, shape), str(ref))


def _outs(api: Any, call: nodes.CallExpr) -> list[FieldReference | None]:
    options = options_of(call)
    return (references(api, options["out"]) or []) if "out" in options else []


def _compare(api: Any, made: ValueFacts, out: FieldReference, where: nodes.Context) -> None:
    """Report an output whose dtype or last dim differs from what its layers give."""
    declared = out.found.declared
    if not declared.kind.is_batched:
        return
    dtypes, shape = made.tensor.dtypes, made.tensor.shape
    if dtypes is not None and declared.dtypes is not None and not dtypes & declared.dtypes:
        name = "float" if dtypes & FLOATS else "/".join(sorted(dtypes))
        api.fail(f"{out} is declared {declared}, the stage gives a {name} tensor", where, code=DTYPE)
        return
    wanted = None if declared.shape is None else whole_sizes(declared.shape, _BATCH)
    if wanted is None or shape is None:
        return
    size, last = (sizes.dims[-1] if sizes.dims else None for sizes in (wanted, shape))
    pairs = zip(wanted.dims, shape.last(len(wanted.dims)), strict=True)
    known = shape.base is _BATCH is wanted.base
    if last is not None and size is not None and last != size:
        api.fail(f'{out} is declared "{declared.dims}", the last dim of the stage is {last}', where, code=SHAPE)
    elif (known and shape.extra != wanted.extra) or any(None not in pair and pair[0] != pair[1] for pair in pairs):
        api.fail(f'{out} is declared "{declared.dims}", the stage gives {made.tensor}', where, code=SHAPE)


# ---- layers ----------------------------------------------------------------------------------------------------------


def _results(api: Any, source: Source, module: nodes.Expression, given: list[ValueFacts]) -> list[ValueFacts]:
    """What a callable makes of the inputs of a stage; widths that don't fit are reported."""
    callee = written_out(source, module)
    if len(given) == 1 and layer_name(callee):
        return [_after_layers(api, source, callee, given[0])]
    made = called_with(api, callee, [one.tensor for one in given])
    return [ValueFacts(one or NOTHING) for one in (made if isinstance(made, tuple) else (made,))]


def _after_layers(
    api: Any, source: Source, module: nodes.Expression, facts: ValueFacts, where: nodes.Context | None = None
) -> ValueFacts:
    """What layers make of a value; widths that don't fit are reported, at the layer by default."""
    for layer in _layers(source, written_out(source, module)):
        facts = _facts_after_layer(api, source, layer, facts, where or layer)
    return facts


def _layers(source: Source, module: nodes.Expression) -> Iterator[nodes.Expression]:
    """The layers of `nn.Sequential(...)` in order; anything else is one layer."""
    if not isinstance(module, nodes.CallExpr) or callee_name(module) != f"{MODULES}container.Sequential":
        yield module
        return
    for arg, kind in zip(module.args, module.arg_kinds, strict=True):
        items = source.items(arg) if kind == nodes.ARG_STAR else [arg]
        if items is None:
            yield arg  # unknown layers
        for item in items or ():
            yield from _layers(source, written_out(source, item))


def _facts_after_layer(
    api: Any, source: Source, layer: nodes.Expression, facts: ValueFacts, where: nodes.Context
) -> ValueFacts:
    problem = width_problem(source, layer, facts.tensor, facts.label)
    if problem is not None:
        api.fail(problem.text, where, code=problem.code)
    made = after(source, layer, facts.tensor)
    same = isinstance(made, TensorFacts) and made.shape == facts.tensor.shape
    if made is None and not layer_name(layer):
        made = called_with(api, layer, [facts.tensor])
    found = made[0] if isinstance(made, tuple) else made
    if found is None:
        return UNKNOWN
    return ValueFacts(found, facts.label if same else UNKNOWN.label)


def check_layer_calls(api: Any, calls: list[nodes.CallExpr]) -> None:
    """Compare the arguments of `self.layer(x)` with the widths that the layer takes."""
    source = source_of(api)
    for call in calls:
        if isinstance(call.callee, nodes.NameExpr) and not isinstance(call.callee.node, nodes.Var):
            continue  # a function or a class
        layer = written_out(source, call.callee)
        if layer is call.callee or not call.args or call.arg_kinds[0] != nodes.ARG_POS or not layer_name(layer):
            continue
        facts = tensor_facts(api, call.args[0])
        if facts is not None:
            _after_layers(api, source, layer, ValueFacts(facts, _label(api, call.args[0])), call)


def check_layer_loops(api: Any) -> None:
    """`for layer in self.layers: x = relu(layer(x))`: the layers are one sequence."""
    source = source_of(api)
    for loop in source.repeated:
        row = loop.body.body[0] if len(loop.body.body) == 1 else None
        layers = source.items(loop.expr) if isinstance(row, nodes.AssignmentStmt) else None
        target = row.lvalues[0] if isinstance(row, nodes.AssignmentStmt) and len(row.lvalues) == 1 else None
        if layers is None or not isinstance(row, nodes.AssignmentStmt) or not isinstance(target, nodes.NameExpr):
            continue
        value: nodes.Expression = row.rvalue
        while isinstance(value, nodes.CallExpr) and len(value.args) == 1 and _keeps_width(value):
            value = value.args[0]
        if _is_call_of(value, loop.index, target.node):
            facts = UNKNOWN
            for layer in layers:
                facts = _facts_after_layer(api, source, source.follow(layer), facts, value)


def _keeps_width(call: nodes.CallExpr) -> bool:
    return KINDS.get(function_name(call.callee) or "") in ("same", "floating")


def _is_call_of(value: nodes.Expression, layer: nodes.Expression, given: object) -> bool:
    """Whether a value is `layer(x)` of two variables."""
    if not isinstance(value, nodes.CallExpr) or len(value.args) != 1 or not isinstance(layer, nodes.NameExpr):
        return False
    callee, only = value.callee, value.args[0]
    same = isinstance(callee, nodes.NameExpr) and callee.node is layer.node
    return same and isinstance(only, nodes.NameExpr) and only.node is given


def _label(api: Any, expr: nodes.Expression) -> str:
    """A field as the program reads it, for messages."""
    known = isinstance(expr, nodes.MemberExpr) and isinstance(expr.expr, nodes.NameExpr) and instance_of(api, expr.expr)
    return f"{expr.expr.name}.{expr.name}" if known else UNKNOWN.label  # type: ignore[attr-defined]  # as just seen
