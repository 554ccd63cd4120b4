"""Classes made from classes: `pick`, `omit`, `merge` and `partial`, and `batch.pick(...)` and `batch.merge(...)`.

A class that is bound to a module-level name can be used in annotations; any other class is stored in the file under a
name that programs can't write. Constructors are made at the call, since mypy makes those of the source classes later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from mypy import nodes
from mypy.mro import calculate_mro
from mypy.plugin import DynamicClassDefContext, FunctionContext, MethodContext
from mypy.plugins.common import add_method_to_class
from mypy.subtypes import is_same_type
from mypy.typeops import type_object_type
from mypy.types import CallableType, Instance, LiteralType, NoneType, TupleType, Type, UnionType, get_proper_type

from ..._options import CLASS_OPTIONS
from .._rules import differs
from ._codes import DECLARATION, UNKNOWN_KEY
from ._definitions import DIGEST
from ._facts import MADE_OF, ROOT, NoField, at_path, batch_instance, field_type, fields_of, option, record, with_fields
from ._refs import class_of
from ._source import anything, source_of

FUNCTIONS = {f"tensorclass.classes._algebra.{kind}": kind for kind in ("pick", "omit", "merge", "partial")}


class Request(NamedTuple):
    """A request: the source classes, and the names in `pick` and `omit` with their positions."""

    kind: str
    sources: list[Instance]
    given: dict[str, nodes.Expression]

    @property
    def kept(self) -> list[str]:
        """The fields of the result."""
        names = dict.fromkeys(name for source in self.sources for name in fields_of(source.type))
        if self.kind not in ("pick", "omit"):
            return list(names)
        return [name for name in names if (name in self.given) == (self.kind == "pick")]

    @property
    def title(self) -> str:
        """The name of a class without an explicit one."""
        names = [source.type.name for source in self.sources]
        return {"merge": "".join(names), "partial": f"Partial{names[0]}"}.get(self.kind, "_".join([*names, *self.kept]))


def bound(ctx: DynamicClassDefContext, kind: str) -> None:
    """`Small = pick(Digits, "image")` at the top of a file."""
    api: Any = ctx.api
    sources = [class_of(expr) for expr in _classes(kind, ctx.call.args)]
    request = _request(kind, sources, ctx.call.args[len(sources) :], ctx.call)
    if request is None or not request.kept or api.is_func_scope() or api.type is not None:
        return
    file: nodes.MypyFile = api.modules[api.cur_mod_id]
    bindings = [one for one in file.defs if isinstance(one, nodes.AssignmentStmt) and _binds(one, ctx.name)]
    if len(bindings) != 1 or bindings[0].rvalue is not ctx.call:
        return
    symbol = file.names.get(ctx.name)
    info = symbol.node if symbol is not None and symbol.plugin_generated else None
    if not isinstance(info, nodes.TypeInfo):
        info = _empty(api, api.cur_mod_id, ctx.name, ctx.name, request)
        api.add_symbol_table_node(ctx.name, nodes.SymbolTableNode(nodes.GDEF, info, plugin_generated=True))
    for base in {base for source in request.sources for base in source.type.mro}:
        for name in {DIGEST, MADE_OF} & base.names.keys():
            api.add_plugin_dependency(f"<{base.fullname}.{name}>")
    if not _fill(info, request, api.named_type("builtins.str")) and not api.final_iteration:
        api.defer()


def made(ctx: FunctionContext, kind: str) -> Type:
    """`pick(Digits, "image")` anywhere: makes the class, and reports names that are not fields."""
    call = ctx.context
    if not isinstance(call, nodes.CallExpr):
        return ctx.default_return_type
    sources = [class_of(source_of(ctx.api).follow(expr)) for expr in _classes(kind, call.args)]
    request = _request(kind, sources, call.args[len(sources) :], call)
    if request is None or not _are_known(ctx.api, request, call) or _is_taken(ctx.api, call):
        return ctx.default_return_type
    info = _make_unnamed_class(ctx.api, request)
    typ = _constructor(ctx.api, info)
    return with_fields(typ, Instance(info, [])) if isinstance(typ, CallableType) else ctx.default_return_type


def _constructor(api: Any, info: nodes.TypeInfo) -> Type:
    make: Any = type_object_type
    try:
        found: Type = make(info)
    except TypeError:  # before mypy 1.17 it needs a function that looks up types
        found = make(info, lambda name: api.named_generic_type(name, []))
    return found


def part(ctx: MethodContext, kind: str) -> Type:
    """`batch.pick("image")` and `batch.merge(other)`."""
    own, call = batch_instance(ctx.type), ctx.context
    if not isinstance(call, nodes.CallExpr):
        return ctx.default_return_type
    if kind == "merge":
        others = [typ for types in ctx.arg_types for typ in types]
        request = _request(kind, [own, *map(batch_instance, others)], [], call)
    else:
        request = _request(kind, [own], call.args, call)
    if request is None or not _are_known(ctx.api, request, call) or _is_taken(ctx.api, call):
        return ctx.default_return_type
    return Instance(_make_unnamed_class(ctx.api, request), [])


def _binds(statement: nodes.AssignmentStmt, name: str) -> bool:
    return any(isinstance(target, nodes.NameExpr) and target.name == name for target in statement.lvalues)


def _is_taken(api: Any, call: nodes.CallExpr) -> bool:
    """Whether a call is bound to a class of its name, or to a variable that has other values too."""
    rows = source_of(api).bindings.items()
    return any(call in found and (len(found) > 1 or isinstance(node, nodes.TypeInfo)) for node, found in rows)


def _classes(kind: str, args: Sequence[nodes.Expression]) -> Sequence[nodes.Expression]:
    return args if kind == "merge" else args[:1]


def _request(
    kind: str, sources: Sequence[Instance | None], fields: Sequence[nodes.Expression], call: nodes.CallExpr
) -> Request | None:
    """The request of a call; None if its arguments are not literal."""
    found = [source for source in sources if source is not None and not source.args]
    given = {_name(field): field for field in fields}
    if not found or len(found) != len(sources) or set(call.arg_kinds) != {nodes.ARG_POS} or None in given:
        return None
    request = Request(kind, found, {str(name): field for name, field in given.items()})
    own = fields_of(found[0].type)
    whole = len(request.kept) == len(own) and request.given.keys() <= own.keys()
    same = whole if given else kind != "partial" and len(found) < 2
    return None if same else request


def _name(field: nodes.Expression) -> str | None:
    if isinstance(field, nodes.StrExpr) and "." not in field.value:
        return field.value
    return field.name if isinstance(field, nodes.MemberExpr) and class_of(field.expr) is not None else None


def _conflicts(one: Instance, other: Instance) -> Iterator[str]:
    """The fields that two classes declare differently."""
    first, second = fields_of(one.type), fields_of(other.type)
    for name in first.keys() & second.keys():
        types = field_type(one, name), field_type(other, name)
        same = types[0] is None or types[1] is None or is_same_type(types[0], types[1])
        text = differs(name, one.type.name, first[name], other.type.name, second[name])
        if text or not same:
            yield text or f'"{name}" is {types[0]} in {one.type.name} and {types[1]} in {other.type.name}'


def _are_known(api: Any, request: Request, where: nodes.Context) -> bool:
    """Whether all names are fields; other names are reported."""
    places = {name: at_path(request.sources[0], (name,)) for name in request.given}
    for name, place in places.items():
        if isinstance(place, NoField) and isinstance(request.given[name], nodes.StrExpr):
            api.fail(str(place), request.given[name], code=UNKNOWN_KEY)
    if request.kind == "merge":
        for one, other in combinations(request.sources, 2):
            for text in _conflicts(one, other):
                api.fail(text, where, code=DECLARATION)
    return bool(request.kept) and not any(isinstance(place, NoField) for place in places.values())


def _empty(api: Any, module: str, key: str, name: str, request: Request) -> nodes.TypeInfo:
    cls = nodes.ClassDef(name, nodes.Block([]))
    cls.fullname = f"{module}.{key}"
    info = cls.info = nodes.TypeInfo(nodes.SymbolTable(), cls, module)
    info.bases = [Instance(base, []) for base in request.sources[0].type.mro if base.fullname == ROOT]
    calculate_mro(info)
    info.metaclass_type = info.calculate_metaclass_type()
    stars = (("args", nodes.ARG_STAR), ("kwargs", nodes.ARG_STAR2))
    arguments = [nodes.Argument(nodes.Var(name, anything()), anything(), None, kind) for name, kind in stars]
    add_method_to_class(api, cls, "__init__", arguments, NoneType())
    info.names["__init__"].plugin_generated = False  # else mypy's dataclass support replaces it by one without fields
    return info


def _make_unnamed_class(api: Any, request: Request) -> nodes.TypeInfo:
    module: nodes.MypyFile = api.tree
    key = f"<{request.title} {request.kind} {' '.join(s.type.fullname for s in request.sources)}>".replace(".", "/")
    symbol = module.names.get(key)
    info = symbol.node if symbol is not None else None
    if not isinstance(info, nodes.TypeInfo):
        info = _empty(api, module.fullname, key, request.title, request)
        module.names[key] = nodes.SymbolTableNode(nodes.GDEF, info, module_hidden=True)
    _fill(info, request, api.named_generic_type("builtins.str", []))
    return info


def _fill(info: nodes.TypeInfo, request: Request, text: Instance) -> bool:
    """Give a class its fields; whether all of their types are known."""
    fields, options = record(info)["fields"], record(info)["options"]
    known = True
    for source in reversed(request.sources):  # the first one wins
        options |= {name: value for name in CLASS_OPTIONS if (value := option(source.type, name)) is not None}
        for name in [name for name in fields_of(source.type) if name in request.kept]:
            typ, declared = field_type(source, name), fields_of(source.type)[name]
            known = known and typ is not None
            if typ is not None and request.kind == "partial" and not declared.produced:
                typ = get_proper_type(UnionType.make_union([typ, NoneType()]))
            _add(info, name, typ)
            fields[name] = declared.to_json()
    record(info)["fields"] = {name: fields[name] for name in request.kept}
    whole = Instance(request.sources[0].type.mro[-1], [])
    _add(info, MADE_OF, TupleType([LiteralType(f"{request.kind} {record(info)}", text), *request.sources], whole))
    return known


def _add(info: nodes.TypeInfo, name: str, typ: Type | None) -> None:
    var = nodes.Var(name, typ)
    var.info, var._fullname = info, f"{info.fullname}.{name}"
    var.is_property = bool(option(info, "frozen"))
    info.names[name] = nodes.SymbolTableNode(nodes.MDEF, var, plugin_generated=True)
