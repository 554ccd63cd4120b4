"""What layers of torch make of a value: its dtype and its last dim, followed through the stages of a pipeline.

Literal arguments fix both: `nn.Linear(64, 10)` takes a last dim of 64 and gives 10. Anything else is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from mypy import nodes

from ._codes import DTYPE, SHAPE
from ._promotion import FLOATS
from ._refs import FieldReference, reference, references
from ._shapes import int_of
from ._source import Source, call_arguments, callee_name, source_of
from ._stages import LINEAR, STAGE, KnownStage, inputs_of, last_dim, options_of, value_of

_MODULES: Final = "torch.nn.modules."
_SAME: Final = frozenset({
    "ReLU", "GELU", "SiLU", "Tanh", "Sigmoid", "ELU", "LeakyReLU", "Softplus", "Softmax", "LogSoftmax", "Dropout",
    "Mish", "Hardswish", "ReLU6", "SELU", "CELU",
})  # fmt: skip
"""Layers that keep the dtype and the shape of floating values."""
_INTEGERS: Final = frozenset({"int32", "int64"})
_CHOSEN: Final = ("argmax", "argmin", "long")
"""Methods of a tensor whose result is int64."""


@dataclass(frozen=True)
class ValueFacts:
    """The possible dtypes of a value, its last dim, and what it is, for messages; None means unknown."""

    dtypes: frozenset[str] | None = None
    last: int | None = None
    label: str = "the value that it gets"


UNKNOWN: Final = ValueFacts()


def follow_layers(api: Any, stages: list[KnownStage | None]) -> None:
    """Check the values between the stages of a pipeline: the widths that layers take, and the fields that they fill."""
    source, known = source_of(api), dict[nodes.CallExpr, ValueFacts]()
    before: list[ValueFacts] = []
    for stage in stages:
        call = None if stage is None else stage.call
        if stage is None or call is None:
            before = [] if stage is None else [_of_field(ref) for ref in stage.writes or () if ref is not None]
            continue
        given = before if stage.follows else [_facts_of_input(api, value, known) for value in inputs_of(call) or ()]
        is_layer = callee_name(call) == STAGE
        made = _result(api, source, call.args[0], given) if is_layer and len(given) == 1 else UNKNOWN
        outs = _outs(api, call)
        if len(outs) == 1 and outs[0] is not None and is_layer:
            _compare(api, made, outs[0], call)
        declared = [_of_field(ref) for ref in outs if ref is not None]
        before = declared or [made if "returns" not in options_of(call) else UNKNOWN]
        known[call] = before[0] if len(before) == 1 else UNKNOWN


def _facts_of_input(api: Any, expr: nodes.Expression, known: dict[nodes.CallExpr, ValueFacts]) -> ValueFacts:
    call = value_of(api, expr)
    if call is not None:
        whole = not isinstance(source_of(api).follow(expr), nodes.IndexExpr)
        return known.get(call, UNKNOWN) if whole else UNKNOWN
    ref = reference(api, expr)
    return UNKNOWN if ref is None else _of_field(ref)


def _of_field(ref: FieldReference) -> ValueFacts:
    declared = ref.found.declared
    return ValueFacts(declared.dtypes, last_dim(ref), str(ref)) if declared.kind.is_batched else UNKNOWN


def _outs(api: Any, call: nodes.CallExpr) -> list[FieldReference | None]:
    options = options_of(call)
    return (references(api, options["out"]) or []) if "out" in options else []


def _compare(api: Any, made: ValueFacts, out: FieldReference, where: nodes.Context) -> None:
    declared = out.found.declared
    if not declared.kind.is_batched:
        return
    size = last_dim(out)
    if made.dtypes is not None and declared.dtypes is not None and not made.dtypes & declared.dtypes:
        name = "float" if made.dtypes & FLOATS else "/".join(sorted(made.dtypes))
        api.fail(f"{out} is declared {declared}, the stage gives a {name} tensor", where, code=DTYPE)
    elif made.last is not None and size is not None and made.last != size:
        api.fail(f'{out} is declared "{declared.dims}", the last dim of the stage is {made.last}', where, code=SHAPE)


# ---- layers ----------------------------------------------------------------------------------------------------------


def _result(api: Any, source: Source, module: nodes.Expression, given: list[ValueFacts]) -> ValueFacts:
    """What a callable makes of a value; widths that don't fit are reported."""
    facts = given[0]
    for layer in _layers(source, source.follow(module)):
        facts = _facts_after_layer(api, source, layer, facts)
    return facts


def _layers(source: Source, module: nodes.Expression) -> Iterator[nodes.Expression]:
    """The layers of `nn.Sequential(...)` in order; anything else is one layer."""
    if not isinstance(module, nodes.CallExpr) or callee_name(module) != f"{_MODULES}container.Sequential":
        yield module
        return
    for arg, kind in zip(module.args, module.arg_kinds, strict=True):
        items = source.items(arg) if kind == nodes.ARG_STAR else [arg]
        if items is None:
            yield arg  # unknown layers
        for item in items or ():
            yield from _layers(source, source.follow(item))


def _facts_after_layer(api: Any, source: Source, layer: nodes.Expression, facts: ValueFacts) -> ValueFacts:
    if isinstance(layer, nodes.LambdaExpr):
        return _of_lambda(layer)
    module, _, name = callee_name(layer).rpartition(".")
    if not isinstance(layer, nodes.CallExpr) or not module.startswith(_MODULES):
        return UNKNOWN
    if name in _SAME:
        return facts if facts.dtypes is None or facts.dtypes <= FLOATS else UNKNOWN
    if callee_name(layer) == LINEAR:
        return _linear(api, source, layer, facts)
    if name == "Embedding":
        return _embedding(api, source, layer, facts)
    return UNKNOWN


def _linear(api: Any, source: Source, layer: nodes.CallExpr, facts: ValueFacts) -> ValueFacts:
    named = call_arguments(layer, ("in_features", "out_features", "bias", "device", "dtype")) or {}
    takes, gives = (int_of(source, named.get(name)) for name in ("in_features", "out_features"))
    if takes is not None and facts.last is not None and takes != facts.last:
        api.fail(f"in_features is {takes}, and the last dim of {facts.label} is {facts.last}", layer, code=SHAPE)
    if facts.dtypes is not None and not facts.dtypes & FLOATS and "dtype" not in named:
        api.fail(
            f"nn.Linear takes floating values, {facts.label} is {'/'.join(sorted(facts.dtypes))}", layer, code=DTYPE
        )
    return ValueFacts(None if "dtype" in named else FLOATS, gives)


def _embedding(api: Any, source: Source, layer: nodes.CallExpr, facts: ValueFacts) -> ValueFacts:
    named = call_arguments(layer, ("num_embeddings", "embedding_dim")) or {}
    if facts.dtypes is not None and not facts.dtypes & _INTEGERS:
        kind = "float" if facts.dtypes & FLOATS else "/".join(sorted(facts.dtypes))
        api.fail(f"nn.Embedding takes int32 or int64, {facts.label} is {kind}", layer, code=DTYPE)
    return ValueFacts(FLOATS, int_of(source, named.get("embedding_dim")))


def _of_lambda(function: nodes.LambdaExpr) -> ValueFacts:
    """The dtype of `lambda z: z.argmax(-1)`."""
    body = function.expr()
    callee = body.callee if isinstance(body, nodes.CallExpr) else None
    if isinstance(callee, nodes.MemberExpr) and isinstance(callee.expr, nodes.NameExpr) and callee.name in _CHOSEN:
        own = [argument.variable for argument in function.arguments]
        return ValueFacts(frozenset({"int64"})) if callee.expr.node in own else UNKNOWN
    return UNKNOWN
