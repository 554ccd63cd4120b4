"""What functions make of tensors: by their annotations, by what simple ones return, and by records of other files.

mypy caches neither annotations nor the text of functions. So the facts about the functions of a file are stored under a
hidden name of the file, which the cache keeps.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from mypy import nodes
from mypy.types import (
    AnyType,
    CallableType,
    EllipsisType,
    Instance,
    LiteralType,
    TupleType,
    Type,
    UnboundType,
    get_proper_type,
)

from ..._dims import Dim, Dims
from . import _sizes as shapes
from ._call_parts import Known, TensorFacts
from ._sizes import KnownSizes, Size
from ._source import Source, call_arguments, own_statements
from ._types import owner_of, static_type

KEY: Final = "<tensorclass results>"
_TENSOR: Final = "torch._tensor.Tensor"
_MODULE: Final = "torch.nn.modules.module.Module"
_MOST: Final = 4
"""A function with more `return` statements is not read."""
Facts = TensorFacts | None


def function_called(api: Any, callee: nodes.Expression) -> nodes.FuncDef | None:
    """The function, the method or the `forward` of a module that an expression calls; None if it is unknown."""
    node = callee.node if isinstance(callee, nodes.RefExpr) else None
    if node is None and isinstance(callee, nodes.MemberExpr):
        owner = owner_of(static_type(api, callee.expr))
        symbol = None if owner is None else owner.type.get(callee.name)
        node = None if symbol is None else symbol.node
    node = node.func if isinstance(node, nodes.Decorator) else node
    if isinstance(node, nodes.FuncDef):
        return node
    module = get_proper_type(static_type(api, callee))
    known = isinstance(module, Instance) and module.type.has_base(_MODULE)
    method = module.type.get_method("forward") if isinstance(module, Instance) and known else None
    return method if isinstance(method, nodes.FuncDef) else None


def result_of(values: Any, function: nodes.FuncDef, call: nodes.CallExpr | None = None) -> Known:
    """What a function returns; `call` gives the sizes of its arguments."""
    known = call is not None and function in values.source.functions  # mypy's cache keeps no parameters
    return result_given(values, function, _argument_facts(values, function, call) if known else {})  # type: ignore[arg-type]  # as just seen


def result_given(values: Any, function: nodes.FuncDef, given: dict[nodes.Node | None, TensorFacts]) -> Known:
    """What a function returns, with the known facts about what its parameters are given."""
    if function not in values.source.functions:
        return _read_record(values.api, function)
    if function.is_coroutine or function.is_generator:
        return None
    written = function.unanalyzed_type
    annotation = written.ret_type if isinstance(written, CallableType) else None
    parts = _annotations_in_tuple(annotation)
    if parts:
        return tuple(_declared_facts(values, part, given) for part in parts)
    return _declared_facts(values, annotation, given) or _read_body(values, function, given)


def _annotations_in_tuple(annotation: Type | None) -> list[Type]:
    """The members of `tuple[Float32[Tensor, "4"], Int64[Tensor, ""]]` if one of them declares something."""
    known = isinstance(annotation, UnboundType) and annotation.name in ("tuple", "Tuple")
    parts = [*annotation.args] if isinstance(annotation, UnboundType) and known else []
    plain = all(isinstance(part, UnboundType) and not part.args for part in parts)
    return [] if plain or any(isinstance(part, EllipsisType) for part in parts) else parts


def _declared_facts(values: Any, annotation: Type | None, given: dict[nodes.Node | None, TensorFacts]) -> Facts:
    declared = None if annotation is None else values.declaration(annotation)
    if declared is None:
        return None
    shape = None if declared.shape is None else _sizes_in_call(values, declared.shape, given)
    return TensorFacts(declared.dtypes, shape)


def parameters_given(function: nodes.FuncDef, facts: list[TensorFacts]) -> dict[nodes.Node | None, TensorFacts]:
    """The parameters of a function that is called with values by position, without `self`."""
    variables: list[nodes.Node | None] = [one.variable for one in function.arguments if one.kind.is_positional()]
    return dict(zip(variables[bool(function.info) and not function.is_static :], facts, strict=False))


def _argument_facts(values: Any, function: nodes.FuncDef, call: nodes.CallExpr) -> dict[nodes.Node | None, TensorFacts]:
    """The known facts about the tensors that a call gives the parameters of a function."""
    variables = [one.variable for one in function.arguments if not one.kind.is_star()]
    if function.info and not function.is_static and isinstance(call.callee, nodes.MemberExpr):
        variables = variables[1:]
    found = call_arguments(call, tuple(variable.name for variable in variables)) or {}
    rows = ((variable, values.tensor(found[variable.name])) for variable in variables if variable.name in found)
    values.leads |= {v: values.lead(found[v.name]) for v in variables if v.name in found}
    return {variable: fact for variable, fact in rows if fact is not None}


# ---- annotations -----------------------------------------------------------------------------------------------------


def _sizes_in_call(values: Any, dims: Dims, given: dict[nodes.Node | None, TensorFacts]) -> KnownSizes:
    """The declared dims of a result, with the sizes that the arguments give their names."""
    names: dict[str, Any] = {}
    for variable, fact in given.items():
        declared = values.declaration(values.source.annotations.get(variable))
        if declared is not None and declared.shape is not None and fact.shape is not None:
            _bind(names, declared.shape, fact.shape)
    tail = tuple(_size(token, names) for token in dims.tokens[(dims.variadic or 0) + (dims.variadic is not None) :])
    if dims.variadic is None:
        return KnownSizes(tail)
    lead = names.get(str(dims.tokens[0])) if dims.variadic == 0 else None
    if not isinstance(lead, KnownSizes):
        return shapes.behind_unknown(*tail)
    return KnownSizes((*lead.dims, *tail), lead.base, lead.extra + len(tail))


def _bind(names: dict[str, Any], dims: Dims, shape: KnownSizes) -> None:
    """Take the sizes of names, and of `*b` before all other dims."""
    if dims.variadic is None and shape.base is None and len(shape.dims) != len(dims.tokens):
        return
    behind = dims.tokens[(dims.variadic or 0) + (dims.variadic is not None) :]
    for token, size in zip(behind, shape.last(len(behind)), strict=True):
        if str(token).isidentifier() and size is not None:
            names.setdefault(str(token), size)
    if dims.variadic == 0 and (shape.base is not None or len(shape.dims) >= len(behind)):
        kept = shape.dims[: max(len(shape.dims) - len(behind), 0)]
        names.setdefault(str(dims.tokens[0]), KnownSizes(kept, shape.base, shape.extra - len(behind)))


def _size(token: object, names: dict[str, Any]) -> Size:
    if not isinstance(token, Dim):
        return None
    known = {name: names[name] for name in token.size.names if isinstance(names.get(name), int)}
    return token.size.substitute(known).constant


# ---- functions that say nothing --------------------------------------------------------------------------------------


def _read_body(values: Any, function: nodes.FuncDef, given: dict[nodes.Node | None, TensorFacts]) -> Known:
    """What all `return` statements of a function agree on; of a method only if no child can replace it."""
    known = get_proper_type(function.type)
    result = get_proper_type(known.ret_type) if isinstance(known, CallableType) else AnyType(0)
    plain = isinstance(result, AnyType | TupleType) or (
        isinstance(result, Instance) and result.type.fullname == _TENSOR
    )
    replaced = function.is_decorated or (function.info and not function.is_final)
    if replaced or not plain or function in values.entered:
        return None
    values.entered[function] = given
    try:
        rows = [row.expr for row in own_statements(function) if isinstance(row, nodes.ReturnStmt)]
        found = [None if row is None else returned_facts(values, row) for row in rows[: _MOST + 1]]
    finally:
        del values.entered[function]
    if not 0 < len(found) <= _MOST or not _ends_in_return(function.body):
        return None
    tuples = [fact for fact in found if isinstance(fact, tuple)]
    if len(tuples) == len(found) and len({*map(len, tuples)}) == 1:
        return tuple(_merge([*column]) for column in zip(*tuples, strict=True))
    return _merge([fact for fact in found if not isinstance(fact, tuple)]) if not tuples else None


def returned_facts(values: Any, row: nodes.Expression) -> Known:
    """The facts about a returned tensor, or about each of several."""
    found: Known = values.known(row)
    value = values.source.follow(row)
    if found is not None or not isinstance(value, nodes.TupleExpr):
        return found
    starred = any(isinstance(item, nodes.StarExpr) for item in value.items)
    return None if starred else tuple(map(values.tensor, value.items))


def _ends_in_return(block: nodes.Block) -> bool:
    last = block.body[-1] if block.body else None
    if isinstance(last, nodes.IfStmt) and last.else_body is not None:
        return all(map(_ends_in_return, [*last.body, last.else_body]))
    if isinstance(last, nodes.WithStmt):
        return _ends_in_return(last.body)
    return isinstance(last, nodes.ReturnStmt | nodes.RaiseStmt)


def _merge(found: list[Facts]) -> Facts:
    kept = [fact for fact in found if fact is not None]
    if len(kept) < len(found):
        return None
    dtypes = [fact.dtypes for fact in kept]
    known = None if None in dtypes else frozenset().union(*(one for one in dtypes if one is not None))
    shape = kept[0].shape if len(kept) == 1 else shapes.merged_shapes([fact.shape for fact in kept])
    return TensorFacts(known, shape)


# ---- other files -----------------------------------------------------------------------------------------------------


def record_results(api: Any, source: Source, reader: Callable[[Any], Any]) -> None:
    """Store what the functions of a file return, for other files; `reader` makes what reads the values of one."""
    known = dict[str, Any]()
    tree: nodes.MypyFile = api.tree
    for function in source.functions:
        if isinstance(function, nodes.FuncDef) and _returns_tensor(function) and _is_reached(tree, function):
            fact = result_of(reader(api), function)
            if isinstance(fact, TensorFacts) and (fact.dtypes is not None or fact.shape is not None):
                known[function.fullname] = _row(fact)
    if known or KEY in tree.names:
        text = json.dumps(known, sort_keys=True)
        variable = nodes.Var(KEY, LiteralType(text, api.named_generic_type("builtins.str", [])))
        variable._fullname = f"{tree.fullname}.{KEY}"
        tree.names[KEY] = nodes.SymbolTableNode(nodes.GDEF, variable, module_hidden=True)


def _returns_tensor(function: nodes.FuncDef) -> bool:
    known = get_proper_type(function.type)
    result: Type | None = get_proper_type(known.ret_type) if isinstance(known, CallableType) else None
    return isinstance(result, Instance) and result.type.fullname == _TENSOR


def _is_reached(tree: nodes.MypyFile, function: nodes.FuncDef) -> bool:
    """Whether another file finds a function by its full name."""
    owner = f"{function.info.fullname}." if function.info else f"{tree.fullname}."
    return function.fullname == f"{owner}{function.name}"


def _row(fact: TensorFacts) -> list[Any]:
    shape = fact.shape
    dtypes = None if fact.dtypes is None else sorted(fact.dtypes)
    return [dtypes, None if shape is None else list(shape.dims), shape is not None and shape.base is not None]


def _read_record(api: Any, function: nodes.FuncDef) -> Facts:
    """What another file says about its function, in the record that mypy caches."""
    module = function.info.module_name if function.info else function.fullname.rpartition(".")[0]
    tree = api.modules.get(module)
    symbol = None if tree is None else tree.names.get(KEY)
    found = get_proper_type(symbol.node.type) if symbol is not None and isinstance(symbol.node, nodes.Var) else None
    row = _rows_in(str(found.value)).get(function.fullname) if isinstance(found, LiteralType) else None
    if row is None:
        return None
    dtypes, dims, behind = row
    known = None if dtypes is None else frozenset[str](dtypes)
    if dims is None:
        return TensorFacts(known, None)
    return TensorFacts(known, shapes.behind_unknown(*dims) if behind else KnownSizes(tuple(dims)))


@lru_cache(maxsize=256)
def _rows_in(text: str) -> dict[str, Any]:
    rows: dict[str, Any] = json.loads(text)
    return rows
