"""Class definitions: the decorator adds the base class, fields and options are recorded, wrong ones are reported."""

from __future__ import annotations

from collections.abc import Iterator

from mypy import nodes
from mypy.mro import calculate_mro
from mypy.plugin import ClassDefContext
from mypy.types import LiteralType

from .._dims import FAMILY_DTYPES, Dim
from ._plugin_annotations import Reader, WrongAnnotation
from ._plugin_codes import DECLARATION
from ._plugin_facts import ROOT, Declared, fields_of, is_below_root, option, own_fields, record

OPTIONS = ("frozen", "nocast", "autocast", "tensor_only", "shadow", "validate", "removed")
PRODUCED = "tensorclass._schema._fields.produced"
FIELD = "tensorclass._schema._fields.field"
VALIDATOR = "tensorclass.classes._validators.field_validator"
DIGEST = "__tensorclass_declared"  # private, so that two parents may differ in it


def decorated(ctx: ClassDefContext) -> None:
    """`@tensorclass`: put `TensorClass` below the class, as the run time does, then as for the base class."""
    info = ctx.cls.info
    if isinstance(ctx.reason, nodes.CallExpr):
        for name, value in zip(ctx.reason.arg_names, ctx.reason.args, strict=True):
            if name == "frozen":
                ctx.cls.keywords[name] = value  # where mypy's dataclass support looks
            if name is not None:
                _take_option(ctx, name, value)
    if not any(base.fullname == ROOT for base in info.mro):
        root = ctx.api.named_type_or_none(ROOT)
        if root is None:
            return
        bases = [base for base in info.bases if base.type.fullname != "builtins.object"]
        info.bases = [*bases, root]
        info.mro = []  # else it is taken for calculated
        calculate_mro(info)
        info.metaclass_type = info.calculate_metaclass_type()
    declared(ctx)


def declared(ctx: ClassDefContext) -> None:
    """Record the fields and options of a class below TensorClass."""
    info = ctx.cls.info
    for name, value in ctx.cls.keywords.items():
        _take_option(ctx, name, value)
    if not is_below_root(info):
        return
    _refuse_keywords(ctx)
    fields = dict(_fields(ctx))
    record(info)["fields"] = {name: field.to_json() for name, field in fields.items()}
    for name, (field, statement) in {s: (f, _statement(ctx.cls, s)) for s, f in fields.items()}.items():
        _check_field(ctx, name, field, statement)
    _leave_digest(ctx)


def _take_option(ctx: ClassDefContext, name: str, value: nodes.Expression) -> None:
    if name in OPTIONS:
        literal = value.value if isinstance(value, nodes.StrExpr) else ctx.api.parse_bool(value)
        if literal is not None:
            record(ctx.cls.info)["options"][name] = literal


def _refuse_keywords(ctx: ClassDefContext) -> None:
    takes = ctx.cls.info.get_containing_type_info("__init_subclass__")
    if takes is None or not takes.fullname.startswith("tensorclass."):
        return  # a class of the user takes keywords of its own
    for name in ctx.cls.keywords:
        if name not in OPTIONS:
            known = ", ".join(OPTIONS)
            ctx.api.fail(f'A tensorclass has no option "{name}"; options are {known}', ctx.cls, code=DECLARATION)


def _statements(cls: nodes.ClassDef) -> Iterator[tuple[str, nodes.AssignmentStmt]]:
    for statement in cls.defs.body:
        if isinstance(statement, nodes.AssignmentStmt) and statement.new_syntax:
            target = statement.lvalues[0]
            if isinstance(target, nodes.NameExpr):
                yield target.name, statement


def _statement(cls: nodes.ClassDef, name: str) -> nodes.AssignmentStmt:
    return next(statement for found, statement in _statements(cls) if found == name)


def _fields(ctx: ClassDefContext) -> Iterator[tuple[str, Declared]]:
    reader, converted = Reader(ctx.api), set(_converted(ctx.cls))
    for name, statement in _statements(ctx.cls):
        annotation = statement.unanalyzed_type
        if annotation is None or not reader.is_field(annotation):
            continue
        try:
            field = reader.read(annotation)
        except WrongAnnotation as wrong:
            ctx.api.fail(str(wrong), statement, code=DECLARATION)
            field = Declared("tensor")
        produced, policy = _calls(statement.rvalue, PRODUCED), _argument(statement.rvalue, "coerce")
        known = policy.value if isinstance(policy, nodes.StrExpr) else None if policy is None else "cast"
        coerce = "cast" if name in converted else known
        yield name, Declared(field.kind, field.dtype, field.dims, produced, coerce)


def _calls(value: nodes.Expression, name: str) -> bool:
    return (
        isinstance(value, nodes.CallExpr) and isinstance(value.callee, nodes.RefExpr) and value.callee.fullname == name
    )


def _check_field(ctx: ClassDefContext, name: str, field: Declared, statement: nodes.AssignmentStmt) -> None:
    cls, symbol = ctx.cls, ctx.cls.info.names.get(name)
    if option(cls.info, "shadow") and symbol is not None and isinstance(symbol.node, nodes.Var):
        symbol.node.allow_incompatible_override = True
    if option(cls.info, "tensor_only") and field.kind == "per_element":
        ctx.api.fail(f'"{name}" holds no tensor, and the class is tensor_only', statement, code=DECLARATION)
    if isinstance(_default(statement.rvalue), nodes.ListExpr | nodes.DictExpr | nodes.SetExpr):
        text = f'Instances would share the default of "{name}"; write `field(default_factory=...)`'
        ctx.api.fail(text, statement, code=DECLARATION)
    for parent in cls.info.mro[1:]:
        if name in own_fields(parent):
            problem = _widening(field, own_fields(parent)[name])
            if problem:
                ctx.api.fail(f'"{name}" widens the field of {parent.name}: {problem}', statement, code=DECLARATION)
            break


def _argument(value: nodes.Expression, name: str) -> nodes.Expression | None:
    """An argument of `field(...)`."""
    if not isinstance(value, nodes.CallExpr) or not _calls(value, FIELD):
        return None
    return dict(zip(value.arg_names, value.args, strict=True)).get(name)


def _converted(cls: nodes.ClassDef) -> Iterator[str]:
    """The fields that a `@field_validator(..., mode="before")` may convert."""
    for member in cls.defs.body:
        for call in member.original_decorators if isinstance(member, nodes.Decorator) else ():
            if (
                isinstance(call, nodes.CallExpr)
                and _calls(call, VALIDATOR)
                and len(call.args) > call.arg_names.count(None)
            ):
                yield from (name.value for name in call.args if isinstance(name, nodes.StrExpr))


def _default(value: nodes.Expression) -> nodes.Expression | None:
    if isinstance(value, nodes.CallExpr):
        return _argument(value, "default")
    return None if isinstance(value, nodes.TempNode) else value


def _widening(child: Declared, parent: Declared) -> str:
    """How a child's field is certainly wider than its parent's; "" when that is not known."""
    if child.produced and not parent.produced:
        return "the parent's field can always be read"
    if {child.kind, parent.kind} != {"tensor"} or parent.dtype is None:
        return ""
    outer = FAMILY_DTYPES[parent.dtype]
    inner = child.dtypes
    if outer is not None and (inner is None or not inner <= outer):
        return f"the dtype {child.dtype or 'of any Tensor'} is not within {parent.dtype}"
    return "" if _may_fit(child, parent) else f'the shape "{child.dims}" is not within "{parent.dims}"'


def _may_fit(child: Declared, parent: Declared) -> bool:
    own, other = child.shape, parent.shape
    if own is None or other is None or own.rank is None or other.rank is None:
        return True
    sizes = [
        (token.size.constant, wanted.size.constant)
        for token, wanted in zip(own.tokens, other.tokens, strict=False)
        if isinstance(token, Dim) and isinstance(wanted, Dim)
    ]
    return own.rank == other.rank and all(None in pair or pair[0] == pair[1] for pair in sizes)


def _leave_digest(ctx: ClassDefContext) -> None:
    """A name whose type changes with the declaration: the daemon compares types, not metadata."""
    info = ctx.cls.info
    text = repr([info.metadata["tensorclass"], sorted(fields_of(info))])
    var = nodes.Var(DIGEST, LiteralType(text, ctx.api.named_type("builtins.str")))
    var.info, var.is_classvar = info, True
    var._fullname = f"{info.fullname}.{DIGEST}"
    info.names[DIGEST] = nodes.SymbolTableNode(nodes.MDEF, var, plugin_generated=True)
