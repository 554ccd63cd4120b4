"""Functions over batches: the batch dims that their annotations declare, and the dims that one call gives the names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mypy import nodes
from mypy.argmap import map_actuals_to_formals
from mypy.types import (
    CallableType,
    ExtraAttrs,
    Instance,
    LiteralType,
    NoneType,
    Type,
    TypeVarType,
    UnionType,
    get_proper_type,
)

from ..._dims import Dims, parse_dims
from ...errors import DimSyntaxError
from . import _facts as facts
from ._batch_sizes import BatchDim, BatchDims, sizes_in
from ._refs import PARTIAL, call_of_partial
from ._source import anything, callee_name, source_of
from ._types import owner_of, static_type

CHECKED: Final = "tensorclass.classes._contracts.checked"
MARK: Final = "__tensorclass_batch_dims__"
DeclaresTensors = Callable[[nodes.FuncDef], bool]
ReadDims = Callable[[nodes.Expression], BatchDims | None]


def with_contract(api: Any, typ: Type, text: str) -> Type:
    """The class in `Shaped[Step, "t b"]` with its dims, which mypy keeps in its cache; of `Self` and `T`, the bound."""
    proper = get_proper_type(typ)
    if isinstance(proper, TypeVarType) and not proper.values:
        return proper.copy_modified(upper_bound=with_contract(api, proper.upper_bound, text))
    if not isinstance(proper, Instance) or proper.type.fullname == "torch._tensor.Tensor":
        return typ
    made = proper.copy_modified()
    made.extra_attrs = ExtraAttrs({MARK: LiteralType(text, api.named_type("builtins.str", []))})
    return made


def shaped_text(typ: Type | None, dims: Dims) -> str:
    """An annotation in messages: `Shaped[Step, "t b"]`."""
    names = [member.type.name for member in facts.batch_members(typ)] if typ is not None else []
    return f'Shaped[{names[0] if names else "..."}, "{dims}"]'


def declared_dims(typ: Type | None) -> Dims | None:
    """The batch dims that an annotation declares, also behind `| None`; None for any other annotation."""
    proper = get_proper_type(typ)
    members = [get_proper_type(item) for item in proper.items] if isinstance(proper, UnionType) else [proper]
    some = [facts.bounded(item) for item in members if not isinstance(item, NoneType)]
    only = some[0] if len(some) == 1 else None
    if not isinstance(only, Instance) or only.extra_attrs is None:
        return None
    mark = get_proper_type(only.extra_attrs.attrs.get(MARK))
    if not isinstance(mark, LiteralType) or facts.option(only.type, "validate") == "off":
        return None
    try:
        return parse_dims(str(mark.value))
    except DimSyntaxError:
        return None  # which raises where the annotation is evaluated


@dataclass
class DimNames:
    """What the names of dims are in one call."""

    sizes: dict[str, BatchDim] = field(default_factory=dict)

    def bind(self, dims: Dims, given: BatchDims) -> None:
        """Take the sizes of names that have none yet."""
        if len(given) == len(dims.tokens) and dims.variadic is None:
            for token, size in zip(map(str, dims.tokens), given, strict=True):
                if token.isidentifier() and self.sizes.get(token) is None:
                    self.sizes[token] = size


class Argument(NamedTuple):
    """One argument of a call, with the type of its parameter and the annotation in this file."""

    parameter: str
    type: Type
    written: Type | None
    value: nodes.Expression


@dataclass(frozen=True)
class CallContract:
    """A function that declares batch dims, or that `@checked` compares."""

    function: nodes.FuncDef
    signature: CallableType
    bound: bool
    """Whether the first parameter is the instance or the class."""

    def arguments(self, call: nodes.CallExpr) -> Iterator[Argument]:
        """The arguments of a call that are given one by one."""
        made, written = self.signature, self.function.unanalyzed_type
        texts = written.arg_types if isinstance(written, CallableType) else []
        kinds, names = made.arg_kinds[self.bound :], made.arg_names[self.bound :]
        rows = map_actuals_to_formals(call.arg_kinds, call.arg_names, kinds, names, lambda _: anything())
        for at, row in enumerate(rows, self.bound):
            text = texts[at] if len(texts) == len(made.arg_types) else None
            for given in row:
                if not call.arg_kinds[given].is_star():
                    yield Argument(made.arg_names[at] or "", made.arg_types[at], text, call.args[given])


def direct_call(api: Any, call: nodes.CallExpr) -> nodes.CallExpr:
    """The call of the function itself, if `checked(f)` is called, or a `functools.partial` of it with a name."""
    callee = source_of(api).follow(call.callee)
    name = callee_name(callee)
    if not isinstance(callee, nodes.CallExpr) or name not in (CHECKED, PARTIAL) or not callee.args:
        return call
    return direct_call(api, call_of_partial(callee, call))


def contract_of(api: Any, call: nodes.CallExpr, tensors: DeclaresTensors | None = None) -> CallContract | None:
    """The contract of the function that is called."""
    callee = call.callee
    node = callee.node if isinstance(callee, nodes.RefExpr) else None
    bound = False
    if node is None and isinstance(callee, nodes.MemberExpr):
        owner = owner_of(static_type(api, callee.expr))
        symbol = None if owner is None else owner.type.get(callee.name)
        node, bound = (None if symbol is None else symbol.node), True
    return own_contract(node, bound, tensors)


def own_contract(node: object, bound: bool = False, tensors: DeclaresTensors | None = None) -> CallContract | None:
    """The contract of a function or a decorated function; `tensors` finds plain ones that declare tensors."""
    function = node.func if isinstance(node, nodes.Decorator) else node
    signature = get_proper_type(function.type) if isinstance(function, nodes.FuncDef) else None
    if not isinstance(function, nodes.FuncDef) or not isinstance(signature, CallableType):
        return None
    decorated = isinstance(node, nodes.Decorator) and not _is_checked(node)
    known = has_marks(signature) or (isinstance(node, nodes.Decorator) and not decorated)
    known = known or (tensors is not None and not isinstance(node, nodes.Decorator) and tensors(function))
    if not known or (decorated and not _keeps_signature(node, signature)):  # type: ignore[arg-type]  # it is decorated
        return None
    return CallContract(function, signature, bound and not function.is_static)


def has_marks(signature: CallableType) -> bool:
    """Whether a function declares batch dims."""
    return any(declared_dims(typ) is not None for typ in (*signature.arg_types, signature.ret_type))


def _is_checked(decorated: nodes.Decorator) -> bool:
    names = [one.fullname for one in decorated.original_decorators if isinstance(one, nodes.RefExpr)]
    return CHECKED in names and len(names) == len(decorated.original_decorators)


def _keeps_signature(decorated: nodes.Decorator, signature: CallableType) -> bool:
    """Whether a function has the same parameters behind its decorators."""
    found = get_proper_type(decorated.var.type)
    return isinstance(found, CallableType) and found.arg_names == signature.arg_names


def dims_of_result(api: Any, call: nodes.CallExpr, read: ReadDims) -> BatchDims | None:
    """The batch dims that a call of an annotated function returns."""
    call = direct_call(api, call)
    contract = contract_of(api, call)
    dims = None if contract is None else declared_dims(contract.signature.ret_type)
    if contract is None or dims is None:
        return None
    names = DimNames()
    for row in contract.arguments(call):
        declared = declared_dims(row.type)
        sizes = None if declared is None else read(row.value)
        if declared is not None and sizes is not None:
            names.bind(declared, sizes)
    return sizes_in(dims, names.sizes.get)
