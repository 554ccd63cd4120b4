"""Class definitions: the decorator adds the base class, fields and options are recorded, wrong ones are reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mypy import nodes
from mypy.erasetype import erase_type
from mypy.mro import calculate_mro
from mypy.plugin import ClassDefContext, FunctionContext
from mypy.types import FunctionLike, Instance, LiteralType, ProperType, Type, get_proper_type

from ..._dims import DimMap
from ..._options import CLASS_OPTIONS, options_with
from .. import _rules as rules
from ._annotations import WRONG, AnnotationReader, read_brackets
from ._codes import DECLARATION
from ._facts import ROOT, ClassDeclaration, fields_of, is_below_root, lineage, option, own_fields, record
from ._given import GivenCheck, refused
from ._source import anything, callee_name, source_of

PRODUCED = "tensorclass._schema._fields.produced"
FIELD = "tensorclass._schema._fields.field"
VALIDATOR = "tensorclass.classes._validators.field_validator"
DIGEST = "__tensorclass_declared"  # private, so that two parents may differ in it


def decorated(ctx: ClassDefContext) -> None:
    """`@tensorclass`: add `TensorClass` as a base, as at run time; then as for subclasses."""
    info = ctx.cls.info
    if isinstance(ctx.reason, nodes.CallExpr):
        for name, value in zip(ctx.reason.arg_names, ctx.reason.args, strict=True):
            if name == "frozen":
                ctx.cls.keywords[name] = value  # mypy's dataclass support reads these
            if name is not None:
                _take_option(ctx, name, value)
    if not any(base.fullname == ROOT for base in info.mro):
        root = ctx.api.named_type_or_none(ROOT)
        if root is None:
            return
        bases = [base for base in info.bases if base.type.fullname != "builtins.object"]
        info.bases = [*bases, root]
        info.mro = []  # else it counts as computed
        calculate_mro(info)
        info.metaclass_type = info.calculate_metaclass_type()
    declared(ctx)


def declared(ctx: ClassDefContext) -> None:
    """Record the fields and options of a class below TensorClass."""
    info = ctx.cls.info
    read_brackets(ctx)
    for name, value in ctx.cls.keywords.items():
        _take_option(ctx, name, value)
    if not is_below_root(info):
        return
    _refuse_keywords(ctx)
    fields = dict(_fields(ctx))
    record(info)["fields"] = {name: field.to_json() for name, field in fields.items()}
    inherited = {n: f for base in reversed(lineage(info)[1:]) for n, f in own_fields(base).items()}
    table = rules.redeclared(fields, inherited)
    for name, field in fields.items():
        _check_field(ctx, name, field, table)
    _leave_digest(ctx)


def _fail(ctx: ClassDefContext, text: str, where: nodes.Context) -> None:
    if text:
        ctx.api.fail(text, where, code=DECLARATION)


def _take_option(ctx: ClassDefContext, name: str, value: nodes.Expression) -> None:
    if name in CLASS_OPTIONS:
        literal = value.value if isinstance(value, nodes.StrExpr) else ctx.api.parse_bool(value)
        if literal is not None or name == "removed":
            record(ctx.cls.info)["options"][name] = literal or name == "removed"


def _refuse_keywords(ctx: ClassDefContext) -> None:
    takes = ctx.cls.info.get_containing_type_info("__init_subclass__")
    if takes is None or not takes.fullname.startswith("tensorclass."):
        return  # the user's class has its own keywords
    for name, value in ctx.cls.keywords.items():
        wrong = rules.wrong_value(name, value.value) if isinstance(value, nodes.StrExpr) else ""
        _fail(ctx, rules.unknown_option(name) or wrong, ctx.cls)


def _statements(cls: nodes.ClassDef) -> Iterator[tuple[str, nodes.AssignmentStmt]]:
    for statement in cls.defs.body:
        if isinstance(statement, nodes.AssignmentStmt) and statement.new_syntax:
            target = statement.lvalues[0]
            if isinstance(target, nodes.NameExpr):
                yield target.name, statement


def _statement(cls: nodes.ClassDef, name: str) -> nodes.AssignmentStmt:
    return next(statement for found, statement in _statements(cls) if found == name)


def _fields(ctx: ClassDefContext) -> Iterator[tuple[str, ClassDeclaration]]:
    """The declared fields of a class body; wrong annotations are reported."""
    reader, converted = AnnotationReader(ctx.api), set(_converted_fields(ctx.cls))
    for name, statement in _statements(ctx.cls):
        annotation = statement.unanalyzed_type
        if annotation is None or name.startswith("_") or not reader.is_field(annotation):  # private attributes
            continue
        try:
            field = reader.read(annotation)
        except rules.WrongAnnotation as wrong:
            _fail(ctx, str(wrong), statement)
            field = WRONG
        produced, policy = callee_name(statement.rvalue) == PRODUCED, _option(statement.rvalue, "converts")
        unknown = name in converted or not isinstance(policy, nodes.StrExpr | None)
        coerce = "cast" if unknown else getattr(policy, "value", None)
        if _option(statement.rvalue, "renames") is not None:
            record(ctx.cls.info)["options"]["removed"] = True
        yield name, replace(field, produced=produced, coerce=coerce)


def _check_field(ctx: ClassDefContext, name: str, field: ClassDeclaration, table: DimMap) -> None:
    """Check one field, and let mypy accept what the run time allows for it."""
    cls, symbol, statement = ctx.cls, ctx.cls.info.names.get(name), _statement(ctx.cls, name)
    room = any(name in base.names for base in cls.info.mro if base.name in rules.CONVENIENCES)
    said = _option(statement.rvalue, "hides")
    room = room or name in rules.YIELDING or (said is not None and ctx.api.parse_bool(said) is True)
    if (room or option(cls.info, "shadow")) and symbol is not None and isinstance(symbol.node, nodes.Var):
        symbol.node.allow_incompatible_override = True
    plain = not isinstance(statement.rvalue, nodes.TempNode | nodes.CallExpr | nodes.CastExpr)
    if field.kind.is_per_element and plain:
        # Checkers compare a default with the descriptor, not with the type that it accepts.
        statement.rvalue = nodes.CastExpr(statement.rvalue, anything())
    if option(cls.info, "tensor_only"):
        _fail(ctx, rules.no_tensor(name, field), statement)
    if isinstance(_default(statement.rvalue), nodes.ListExpr | nodes.DictExpr | nodes.SetExpr):
        _fail(ctx, rules.shared_default(name), statement)
    parent = next((base for base in lineage(cls.info)[1:] if name in own_fields(base)), None)
    if parent is not None:
        _fail(ctx, rules.widens(name, parent.name, rules.widening(field, own_fields(parent)[name], table)), statement)


def _option(value: nodes.Expression, effect: str) -> nodes.Expression | None:
    """The first argument of `field(...)` with this effect."""
    if not isinstance(value, nodes.CallExpr) or callee_name(value) != FIELD:
        return None
    given = zip(value.arg_names, value.args, strict=True)
    return next((one for name, one in given if name in options_with(effect)), None)


def _converted_fields(cls: nodes.ClassDef) -> Iterator[str]:
    """The fields that a `@field_validator(..., mode="before")` may convert."""
    for member in cls.defs.body:
        for call in member.original_decorators if isinstance(member, nodes.Decorator) else ():
            if isinstance(call, nodes.CallExpr) and callee_name(call) == VALIDATOR and any(call.arg_names):
                yield from (name.value for name in call.args if isinstance(name, nodes.StrExpr))


def _default(value: nodes.Expression) -> nodes.Expression | None:
    if isinstance(value, nodes.CallExpr):
        return (
            dict(zip(value.arg_names, value.args, strict=True)).get("default") if callee_name(value) == FIELD else None
        )
    return None if isinstance(value, nodes.TempNode) else value


def _leave_digest(ctx: ClassDefContext) -> None:
    """Add a name whose type changes with the declaration, since the daemon compares types, not metadata."""
    info = ctx.cls.info
    text = repr([info.metadata["tensorclass"], sorted(fields_of(info))])
    var = nodes.Var(DIGEST, LiteralType(text, ctx.api.named_type("builtins.str")))
    var.info, var.is_classvar = info, True
    var._fullname = f"{info.fullname}.{DIGEST}"
    info.names[DIGEST] = nodes.SymbolTableNode(nodes.MDEF, var, plugin_generated=True)


# ---- defaults --------------------------------------------------------------------------------------------------------


def default_type(ctx: FunctionContext) -> Type:
    """Report a default whose type certainly doesn't fit the field; values that are converted at run time pass."""
    rows = dict(zip(ctx.callee_arg_names, ctx.arg_types, strict=True))
    default, factory = rows.get("default"), rows.get("default_factory")
    made = get_proper_type(next(iter(factory or default or ()), None))
    if factory:
        made = get_proper_type(made.items[0].ret_type) if isinstance(made, FunctionLike) and made.items else None
    bindings = source_of(ctx.api).bindings
    field = next((var for var, values in bindings.items() if ctx.context in values), None)
    declared = get_proper_type(field.type) if isinstance(field, nodes.Var) else None
    if made is not None and declared is not None and refused(made, declared):
        text = f"The default of this field is a {_name(made)}, and its type is {_name(declared)}"
        ctx.api.fail(text.replace("builtins.", ""), ctx.context, code=DECLARATION)
    elif isinstance(field, nodes.Var) and isinstance(field.info, nodes.TypeInfo):
        values = dict(zip(ctx.callee_arg_names, ctx.args, strict=True))
        given = [*(values.get("default") or ()), *map(_made_by, values.get("default_factory") or ())]
        GivenCheck(ctx.api, field.info).check({field.name: value} if (value := next(iter(given), None)) else {})
    return ctx.default_return_type


def _made_by(factory: nodes.Expression) -> nodes.Expression | None:
    """What a `lambda` returns."""
    return factory.expr() if isinstance(factory, nodes.LambdaExpr) else None


def _name(typ: ProperType) -> str:
    return typ.type.name if isinstance(typ, Instance) and not typ.type.is_generic() else str(erase_type(typ))
