"""Typed modules: the fields that they read and write, checked against the wrapped callable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mypy import nodes
from mypy.plugin import FunctionContext, FunctionSigContext
from mypy.subtypes import is_subtype
from mypy.typeops import bind_self, map_type_from_supertype
from mypy.types import AnyType, CallableType, FunctionLike, Instance, ProperType, TupleType, Type, get_proper_type
from mypy.types_utils import remove_optional

from ._codes import CALLABLE, REFERENCE
from ._facts import batch_instance
from ._refs import Env, FieldReference, class_of, entered, reference, references, resolved
from ._shapes import torch_name
from ._source import Source, anything, by_name, call_arguments, callee_name, source_of, type_of

MODULE = "tensorclass.nn.parts._stage.TensorClassModule"
STAGE = "tensorclass.nn.typed._calling.stage"
SAMPLE = "tensorclass.nn.typed._calling.sample"
TWO_STEP = "tensorclass.nn.typed._two_step.module"
_DEPTH = 8
_PARAMETERS = ("module", "in_fields", "out_fields")


@dataclass(frozen=True)
class KnownStage:
    """The fields of one module; None means unknown."""

    reads: list[FieldReference | None] | None
    writes: list[FieldReference | None] | None
    update: bool
    plain: bool
    """Whether the plugin knows all given options."""
    inner: bool = False
    """Whether it is a module of a nested pipeline."""
    call: nodes.CallExpr | None = None
    """The call of `stage` or `sample`, by which later stages read its value."""
    values: tuple[nodes.CallExpr, ...] = ()
    """The stages whose values it reads."""
    follows: bool = False
    """Whether it reads what the member before it wrote."""
    takes: Instance | None = None
    """The class of the batch that it takes as a whole."""


def stage_of(api: Any, expr: nodes.Expression, env: Env | None = None, depth: int = 0) -> KnownStage | None:
    """The typed module that an expression certainly is."""
    source, names = source_of(api), env or {}
    value = resolved(source, expr, names)
    if isinstance(value, nodes.NameExpr) and isinstance(value.node, nodes.Decorator | nodes.Var):
        value = _decorator(source, value.node) or value
    if not isinstance(value, nodes.CallExpr) or depth > _DEPTH:
        return None
    for call in (value.callee, value):  # with the function behind it, or above a function
        if isinstance(call, nodes.CallExpr) and callee_name(call) == TWO_STEP:
            return _stage(api, call_arguments(call, ()), names)
    if callee_name(value) == MODULE:
        return _stage(api, call_arguments(value, _PARAMETERS), names)
    if callee_name(value) in (STAGE, SAMPLE):
        return _read_stage_call(api, value, names)
    inner = entered(source, value)
    if inner is None:
        return None
    result, given = inner
    return stage_of(api, result, {k: resolved(source, v, names) for k, v in given.items()}, depth + 1)


def _decorator(source: Source, node: nodes.Decorator | nodes.Var) -> nodes.Expression | None:
    """The call of `module(...)` above a function."""
    decorator = node if isinstance(node, nodes.Decorator) else source.decorated.get(node)
    if decorator is None or len(decorator.original_decorators) != 1:
        return None
    return decorator.original_decorators[0]


def _stage(api: Any, given: dict[str, nodes.Expression] | None, env: Env) -> KnownStage | None:
    if given is None or "in_fields" not in given or "out_fields" not in given:
        return None
    update = given.get("update")
    known = update is None or (isinstance(update, nodes.NameExpr) and update.name in ("True", "False"))
    others = given.keys() - {*_PARAMETERS, "update", "name"}
    reads, writes = (references(api, given[role], env) for role in ("in_fields", "out_fields"))
    return KnownStage(reads, writes, isinstance(update, nodes.NameExpr) and update.name == "True", known and not others)


def _read_stage_call(api: Any, call: nodes.CallExpr, env: Env) -> KnownStage:
    """`stage(f, Digits.image, out=Prediction.logits)` and `sample(Normal, ...)`."""
    inputs, options = inputs_of(call), options_of(call)
    sources = [value_of(api, value, env) for value in inputs or ()]
    reads = [reference(api, value, env) for value in inputs or ()]
    known = [ref for ref, source in zip(reads, sources, strict=True) if source is None]
    written = [options[name] for name in ("out", "log_prob") if name in options]
    writes = [references(api, value, env) for value in written]
    update = options.get("update")
    plain = update is None or (isinstance(update, nodes.NameExpr) and update.name in ("True", "False"))
    return KnownStage(
        None if inputs is None else known,
        None if None in writes else [ref for refs in writes for ref in refs or ()],
        isinstance(update, nodes.NameExpr) and update.name == "True",
        plain,
        call=call,
        values=tuple(source for source in sources if source is not None),
        follows=inputs == [],
    )


def inputs_of(call: nodes.CallExpr) -> list[nodes.Expression] | None:
    """The inputs of a call of `stage` or `sample`, by position and by parameter; None with `*` or `**`."""
    rows = list(zip(call.arg_kinds, call.arg_names, call.args, strict=True))
    if any(kind.is_star() for kind, _, _ in rows):
        return None
    return [value for _, name, value in rows[1:] if name not in _OPTIONS[callee_name(call)]]


def options_of(call: nodes.CallExpr) -> dict[str, nodes.Expression]:
    """The options of a call of `stage` or `sample`."""
    pairs = zip(call.arg_names, call.args, strict=True)
    return {name: value for name, value in pairs if name in _OPTIONS[callee_name(call)] and not _is_none(value)}  # pyright: ignore[reportReturnType]  # options have names


_OPTIONS = {
    STAGE: ("out", "returns", "update", "device", "checkpoint"),
    SAMPLE: ("out", "log_prob", "kind", "generator"),
}


def value_of(api: Any, expr: nodes.Expression, env: Env | None = None) -> nodes.CallExpr | None:
    """The stage whose value, or an item of it, an input is."""
    value = resolved(source_of(api), expr, env or {})
    while isinstance(value, nodes.IndexExpr):
        value = resolved(source_of(api), value.base, env or {})
    return value if isinstance(value, nodes.CallExpr) and callee_name(value) in (STAGE, SAMPLE) else None


def _is_none(expr: nodes.Expression) -> bool:
    return isinstance(expr, nodes.NameExpr) and expr.fullname == "builtins.None"


# ---- one module ------------------------------------------------------------------------------------------------------


def wrapped(ctx: FunctionContext) -> KnownStage | None:
    """`TensorClassModule(module, in_fields=..., out_fields=...)`."""
    named = by_name(ctx)
    stage = _references(ctx.api, named)
    if stage is None or stage.reads is None or not stage.plain or "module" not in named:
        return stage
    reads = [ref for ref in stage.reads if ref is not None]
    if len(reads) == len(stage.reads):  # all inputs are known
        typ = get_proper_type(ctx.arg_types[ctx.callee_arg_names.index("module")][0])
        _compare(ctx.api, typ, reads, stage.writes, named["module"])
    return stage


def called(ctx: FunctionContext) -> Type:
    """`stage(f, Digits.image, out=Prediction.logits)` and `sample(...)`; mypy compares the callable with the inputs."""
    call = ctx.context
    if isinstance(call, nodes.CallExpr):
        options = options_of(call)
        outs = [(name, options[name]) for name in ("out", "log_prob") if name in options]
        for role, value in [
            *(("an input", value) for value in inputs_of(call) or ()),
            *((f"{n}=", v) for n, v in outs),
        ]:
            for item in source_of(ctx.api).items(value) or [value]:
                problem = _no_reference(ctx.api, source_of(ctx.api).follow(item), role, item is value)
                if problem:
                    what = "a stage" if role == "an input" else "None"
                    text = f"{role} is a field, such as `Digits.image`, or {what}; {problem}"
                    ctx.api.fail(text[0].upper() + text[1:], item, code=REFERENCE)
    return ctx.default_return_type


def _takes_another_number(function: nodes.LambdaExpr, fields: nodes.TupleExpr) -> bool:
    return nodes.ARG_STAR not in function.arg_kinds and len(function.arguments) != len(fields.items)


def accepted(ctx: FunctionSigContext) -> FunctionLike:
    """What mypy can't infer: fields of the results in a list, and a lambda whose parameters have defaults."""
    signature = ctx.default_signature
    types = list(signature.arg_types)
    given = {name: values[0] for name, values in zip(signature.arg_names, ctx.args, strict=False) if len(values) == 1}
    function, fields = given.get("module"), given.get("in_fields")
    lists = isinstance(function, nodes.LambdaExpr) and isinstance(fields, nodes.TupleExpr)
    if lists and _takes_another_number(function, fields):  # type: ignore[arg-type]  # as just seen
        named = zip(signature.arg_names, types, strict=True)
        types = [anything() if name in ("module", "in_fields") else typ for name, typ in named]  # `wrapped` reports it
    for at, values in enumerate(ctx.args[: len(types)]):
        value, taken = (values[0] if len(values) == 1 else None), get_proper_type(types[at])
        if isinstance(value, nodes.ListExpr) and signature.arg_names[at] == "out":
            types[at] = anything()
        if (
            isinstance(value, nodes.LambdaExpr)
            and isinstance(taken, CallableType)
            and any(one.kind.is_optional() for one in value.arguments)
        ):
            kinds, names = [nodes.ARG_STAR, nodes.ARG_STAR2], [None, None]
            types[at] = taken.copy_modified(
                arg_types=[anything()] * 2, arg_kinds=kinds, arg_names=names, is_ellipsis_args=True
            )
    return signature.copy_modified(arg_types=types)


def two_step(ctx: FunctionContext) -> Type:
    """`module(in_fields=..., out_fields=...)`; mypy itself compares the callable with the fields."""
    _references(ctx.api, by_name(ctx))
    return ctx.default_return_type


def _references(api: Any, named: dict[str, nodes.Expression]) -> KnownStage | None:
    """The fields of a call; arguments that are certainly not fields are reported."""
    for role in ("in_fields", "out_fields"):
        value = named.get(role)
        if value is None:
            continue
        for item in source_of(api).items(value) or [value]:
            problem = _no_reference(api, source_of(api).follow(item), role, item is value)
            if problem:
                api.fail(f"{role} takes references to fields, such as `Digits.image`; {problem}", item, code=REFERENCE)
    return _stage(api, named, {})


def _no_reference(api: Any, value: nodes.Expression, role: str, single: bool) -> str:
    """The reason why an expression is certainly not a reference; "" if it may be one."""
    if isinstance(value, nodes.StrExpr):
        return f'got the string "{value.value}"'
    if class_of(value) is not None:
        return "got the class itself: name its fields"
    if _is_none(value) and (single or role == "in_fields"):
        return "got None; in a sequence of out_fields None drops an output"
    if isinstance(value, nodes.CallExpr) and torch_name(value.callee) is not None:
        return "got a tensor"
    if isinstance(value, nodes.MemberExpr):
        plain = not isinstance(value.expr, nodes.MemberExpr) and class_of(value.expr) is None
        if plain and batch_instance(type_of(api, value.expr)) is not None:
            return "got the value of an instance: take the field off the class"
    return ""


def _compare(
    api: Any,
    typ: ProperType,
    reads: list[FieldReference],
    writes: list[FieldReference | None] | None,
    where: nodes.Context,
) -> None:
    """The parameters and the return type of a callable against the fields."""
    function = _function(api, typ)
    if function is None:
        return
    ins = ", ".join(map(str, reads)) or "none"
    arity = _arity(function, len(reads))
    if arity:
        api.fail(f"The callable {arity}, and is given {len(reads)} in fields ({ins})", where, code=CALLABLE)
        return
    for position, ref in enumerate(reads):
        taken = _parameter(function, position)
        given = remove_optional(ref.found.type)  # a partial pipeline skips the module for None
        if taken is not None and not is_subtype(given, taken):
            text = f"Parameter {position} of the callable is {_text(taken)}, and {ref} is {_text(given)}"
            api.fail(text, where, code=CALLABLE)
    _result(api, get_proper_type(function.ret_type), writes, where)


def batch_ends(api: Any, typ: ProperType) -> tuple[Instance, Instance] | None:
    """The classes between which a function or module maps, by its annotations."""
    function = _function(api, typ)
    if function is None or len(function.arg_types) != 1:
        return None
    start, end = batch_instance(function.arg_types[0]), batch_instance(function.ret_type)
    return None if start is None or end is None else (start, end)


def _function(api: Any, typ: ProperType) -> CallableType | None:
    """The called signature: of a function, `forward` of a module, or `__call__` of any other object."""
    if isinstance(typ, CallableType):
        return None if typ.is_type_obj() or typ.variables else typ
    if not isinstance(typ, Instance):
        return None
    is_module = any(base.fullname == "torch.nn.modules.module.Module" for base in typ.type.mro)
    name = "forward" if is_module else "__call__"
    symbol, holder = typ.type.get(name), typ.type.get_containing_type_info(name)
    found = get_proper_type(symbol.type) if symbol is not None else None
    if holder is None or not isinstance(found, CallableType) or holder.fullname == "torch.nn.modules.module.Module":
        return None
    mapped = get_proper_type(map_type_from_supertype(found, typ.type, holder))
    bound = bind_self(mapped, typ) if isinstance(mapped, CallableType) else None
    return bound if bound is not None and not bound.variables else None


def _arity(function: CallableType, count: int) -> str:
    """The reason why a number of positional arguments doesn't fit; "" if it does."""
    kinds = function.arg_kinds
    if nodes.ARG_STAR in kinds:
        return ""
    least, most = kinds.count(nodes.ARG_POS), kinds.count(nodes.ARG_POS) + kinds.count(nodes.ARG_OPT)
    named = [n for n, kind in zip(function.arg_names, kinds, strict=True) if kind.is_named() and not kind.is_optional()]
    if named:
        return f"needs the keyword argument {named[0]}"
    takes = str(least) if least == most else f"{least} to {most}"
    return "" if least <= count <= most else f"takes {takes} arguments"


def _parameter(function: CallableType, position: int) -> Type | None:
    argument = function.argument_by_position(position)
    return None if argument is None else argument.typ


def _result(api: Any, given: ProperType, writes: list[FieldReference | None] | None, where: nodes.Context) -> None:
    if writes is None or isinstance(given, AnyType):
        return
    wanted: list[Type] = [anything() if ref is None else ref.found.type for ref in writes]
    names = ", ".join("None" if ref is None else str(ref) for ref in writes)
    if isinstance(given, TupleType) and given.partial_fallback.type.fullname == "builtins.tuple":
        parts = list(given.items)
        if len(parts) != len(wanted):
            text = f"The callable returns {len(parts)} values, and out_fields names {len(wanted)} ({names})"
            api.fail(text, where, code=CALLABLE)
            return
        pairs = list(zip(parts, wanted, strict=True))
    elif len(wanted) == 1:
        pairs = [(given, wanted[0])]
    else:
        tensor = isinstance(given, Instance) and given.type.fullname == "torch._tensor.Tensor"
        if tensor:
            api.fail(f"The callable returns one Tensor, and out_fields names {names}", where, code=CALLABLE)
        return
    for part, want in pairs:
        if not is_subtype(part, want) and not _is_mapping(part):
            api.fail(f"The callable returns {_text(part)}, and {names} takes {_text(want)}", where, code=CALLABLE)


def _is_mapping(typ: Type) -> bool:
    """Whether outputs may be matched by name, as those of a dict or a batch."""
    proper = get_proper_type(typ)
    return (
        not isinstance(proper, Instance)
        or any(base.name == "Mapping" for base in proper.type.mro)
        or bool(proper.type.metadata.get("dataclass"))
    )


def _text(typ: Type) -> str:
    return str(typ).replace("torch._tensor.", "").replace("builtins.", "").replace("?", "")
