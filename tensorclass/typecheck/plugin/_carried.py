"""Facts about names for other files: fields and modules, stored on the type of a variable with a single value.

mypy caches types between runs, not source text. A record is valid only under the full name for which it was made, so
that other variables with the same type don't get it.
"""

from __future__ import annotations

import json
from typing import Any

from mypy import nodes
from mypy.types import ExtraAttrs, Instance, LiteralType, TupleType, Type, UnionType, get_proper_type

from ._source import anything, source_of

KEY = "__tensorclass_known__"


def carry(api: Any, typ: Type, expr: nodes.Context, known: Any, classes: list[Instance]) -> Type:
    """A type with a record and its classes, if the expression is the only value of a name."""
    name = source_of(api).name_of(expr)
    proper = get_proper_type(typ)
    if isinstance(proper, UnionType):  # an optional field
        parts = [carry(api, part, expr, known, classes) for part in proper.items]
        return UnionType(parts, proper.line, proper.column)
    if name is None or not isinstance(proper, Instance):
        return typ
    text = LiteralType(json.dumps([name, known]), api.named_generic_type("builtins.str", []))
    whole = api.named_generic_type("builtins.tuple", [anything()])
    made = proper.copy_modified()
    made.extra_attrs = ExtraAttrs({KEY: TupleType([text, *classes], whole)})
    return made


def cross_file_facts(expr: nodes.Expression) -> tuple[Any, list[Instance]] | None:
    """The record of a variable of another file, and its classes."""
    variable = expr.node if isinstance(expr, nodes.RefExpr) else None
    variable = variable.var if isinstance(variable, nodes.Decorator) else variable
    if not isinstance(variable, nodes.Var):
        return None
    found = get_proper_type(variable.type)
    for part in found.items if isinstance(found, UnionType) else [found]:
        name, known, classes = _record_on(get_proper_type(part))
        if name == variable.fullname:
            return known, classes
    return None


def _record_on(typ: Type | None) -> tuple[str, Any, list[Instance]]:
    """The full name for which a type has a record, the record and its classes; no name without one."""
    mark = typ.extra_attrs.attrs.get(KEY) if isinstance(typ, Instance) and typ.extra_attrs is not None else None
    if not isinstance(mark, TupleType):
        return "", None, []
    text, *others = map(get_proper_type, mark.items)
    classes = [item for item in others if isinstance(item, Instance)]
    if not isinstance(text, LiteralType) or len(classes) < len(others):
        return "", None, []
    name, known = json.loads(str(text.value))
    return name, known, classes
