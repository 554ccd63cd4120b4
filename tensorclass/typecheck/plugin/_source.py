"""The source of one file: names that are bound once, and their values.

Facts are never stored on the type of a variable, where they would survive `x = x.reshape(...)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mypy import nodes
from mypy.patterns import AsPattern, MappingPattern, StarredPattern
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import AnyType, CallableType, Instance, Type, TypeOfAny, get_proper_type

from ._node_parts import parts_of as parts_of
from ._reaching import UNKNOWN, Places

# The targets of statements that bind values without an expression.
_OPAQUE: dict[type[nodes.Node], str] = {
    nodes.ForStmt: "index", nodes.OperatorAssignmentStmt: "lvalue", nodes.DelStmt: "expr", nodes.WithStmt: "target",
    nodes.TryStmt: "vars", nodes.GeneratorExpr: "indices", AsPattern: "name", StarredPattern: "capture",
    MappingPattern: "rest",
}  # fmt: skip
_LEAVES = {nodes.IntExpr, nodes.StrExpr, nodes.FloatExpr}
_CHANGING = {
    "resize_", "resize_as_", "unsqueeze_", "squeeze_", "transpose_", "t_", "swapaxes_", "swapdims_", "set_",
    "select_out_fields", "reset_out_fields", "auto_batch_size_",
}  # fmt: skip
_READS = {"values", "keys", "items", "get", "index", "count", "copy"}
_BATCH = ("batch_size", "data", "names")
_HARMLESS = ("tensorclass.", "torch.", "builtins.")
_HOLDING = {
    "torch.nn.modules.container.ModuleList", "torch.nn.modules.container.ModuleDict", "builtins.list", "builtins.tuple",
}  # fmt: skip
_PROGRESS = ("tqdm.std.tqdm", "tqdm.asyncio.tqdm_asyncio", "tqdm.autonotebook.tqdm", "rich.progress.track")
"""Loops over what they are given."""
_DEPTH, _MOST = 10, 1000


class Source:
    """Bindings, uses and assignments of one file."""

    def __init__(self, tree: nodes.MypyFile) -> None:
        self.bindings: dict[nodes.Node, list[nodes.Expression | None]] = {}
        """The values that a variable is bound to; None for a value without an expression, such as a loop variable."""
        self.uses: dict[nodes.Node, list[nodes.Node]] = {}
        """The enclosing node of each use of a variable."""
        self.assigned: dict[nodes.Node, nodes.Expression] = {}
        """The value assigned to an attribute or item."""
        self.annotations: dict[nodes.Node, Type] = {}
        """The annotations of parameters and variables as they are written."""
        self.parameters: set[nodes.Node] = set()
        self.attributes: dict[str, list[tuple[nodes.MemberExpr, nodes.Expression | None]]] = {}
        """Every assignment to an attribute, by its name; None for a value without an expression."""
        self.methods: dict[nodes.Node, nodes.FuncDef] = {}
        """The method of each first parameter, such as `self`."""
        self.changed: set[nodes.Node] = set()
        """Items that are set or deleted."""
        self.deleted: set[nodes.Node] = set()
        self.functions: set[nodes.Node] = set()
        self.unpacked: dict[nodes.Context, int] = {}
        """Each value that a loop iterates over, and the number of names into which items are unpacked."""
        self.early: dict[nodes.Node, nodes.CallExpr] | None = None
        """The result of `_early`; None before its first call."""
        self.decorated: dict[nodes.Node, nodes.Decorator] = {}
        self.decorated_functions: dict[nodes.Node, nodes.Decorator] = {}
        self.targets: dict[nodes.Node, list[nodes.NameExpr]] = {}
        """Every name that binds a variable."""
        self.method_calls: list[nodes.CallExpr] = []
        """The calls of attributes."""
        self.appended: dict[nodes.Node, nodes.Expression] = {}
        """The argument of each `x.append(...)`, by the attribute that is called."""
        self.calls: list[nodes.CallExpr] = []
        self.augmented: list[nodes.OperatorAssignmentStmt] = []
        """`x.count += 1`."""
        self.repeated: list[nodes.ForStmt] = []
        self.loops: dict[nodes.Node, list[nodes.Expression]] = {}
        """What loops iterate over, by their variable."""
        self.reading: dict[nodes.Node, Any] | None = None
        """The batch dims that were found so far, while one expression is read."""
        self.last_module: Any = None
        """The last call of a typed module in which nothing was found, and what it makes; None before."""
        self._scopes: dict[nodes.Node, nodes.FuncDef] | None = None
        self._tree = tree
        self._places: Places | None = None
        self._module = tree.fullname
        self._names: dict[nodes.Context, str] | None = None
        self._read(tree)

    def _read(self, tree: nodes.MypyFile) -> None:
        uses = self.uses
        stack: list[nodes.Node] = [tree]
        while stack:
            node = stack.pop()
            note = _NOTES.get(type(node))
            if note is not None:
                note(self, node)
            for part in parts_of(node):
                if isinstance(part, nodes.NameExpr):
                    if part.node is not None:
                        uses.setdefault(part.node, []).append(node)
                elif type(part) not in _LEAVES:
                    stack.append(part)

    def _note_assignment(self, node: nodes.AssignmentStmt) -> None:
        if node.unanalyzed_type is not None and isinstance(node.lvalues[0], nodes.NameExpr):
            self.annotations[node.lvalues[0].node or node] = node.unanalyzed_type
        if not isinstance(node.rvalue, nodes.TempNode):
            for target in node.lvalues:
                self._bind(target, node.rvalue)

    def _note_argument(self, node: nodes.Argument) -> None:
        self.bindings.setdefault(node.variable, []).append(None)
        self.parameters.add(node.variable)

    def _note_function(self, node: nodes.FuncDef) -> None:
        self.functions.add(node)
        if node.info and node.arguments and not node.is_static:
            self.methods[node.arguments[0].variable] = node
        written = node.unanalyzed_type
        if isinstance(written, CallableType):
            self.annotations |= zip((one.variable for one in node.arguments), written.arg_types, strict=False)

    def _note_decorator(self, node: nodes.Decorator) -> None:
        self.decorated[node.var] = node
        self.decorated_functions[node.func] = node

    def _note_call(self, node: nodes.CallExpr) -> None:
        self.calls.append(node)
        if isinstance(node.callee, nodes.MemberExpr):
            self.method_calls.append(node)
            if node.callee.name == "append" and len(node.args) == 1:
                self.appended[node.callee] = node.args[0]

    def _note_opaque(self, node: nodes.Node) -> None:
        if isinstance(node, nodes.DelStmt):
            self.deleted.add(node.expr)
        if isinstance(node, nodes.OperatorAssignmentStmt):
            self.augmented.append(node)
        bound = getattr(node, _OPAQUE[type(node)])
        for opaque in bound if isinstance(bound, list) else [bound]:
            if opaque is not None:
                self._bind(opaque, None)
        if isinstance(node, nodes.ForStmt):
            self.repeated.append(node)
            self._unpack(node.index, node.expr)
        elif isinstance(node, nodes.GeneratorExpr):
            for index, expr in zip(node.indices, node.sequences, strict=True):
                self._unpack(index, expr)

    def _unpack(self, index: nodes.Expression, expr: nodes.Expression) -> None:
        name, args = callee_name(expr), expr.args if isinstance(expr, nodes.CallExpr) else []
        if isinstance(index, nodes.NameExpr) and index.node is not None:
            self.loops.setdefault(index.node, []).append(args[0] if name in _PROGRESS and args else expr)
        if not isinstance(index, nodes.TupleExpr):
            return
        self.unpacked[expr] = len(index.items)
        inner = {"builtins.enumerate": index.items[1:], "builtins.zip": index.items}.get(name, [index])
        for item, part in zip(inner, args, strict=False):
            self._unpack(item, part)

    def _bind(self, target: nodes.Expression, value: nodes.Expression | None) -> None:
        if isinstance(target, nodes.NameExpr) and target.node is not None:
            self.bindings.setdefault(target.node, []).append(value)
            self.targets.setdefault(target.node, []).append(target)
        elif isinstance(target, nodes.MemberExpr | nodes.IndexExpr):
            if isinstance(target, nodes.MemberExpr):
                self.attributes.setdefault(target.name, []).append((target, value))
            self.changed.add(target)
            if value is not None:
                self.assigned[target] = value
        elif isinstance(target, nodes.StarExpr):
            self._bind(target.expr, None)
        elif isinstance(target, nodes.TupleExpr | nodes.ListExpr):
            for item, part in zip(target.items, _spread(value, len(target.items)), strict=True):
                self._bind(item, part)

    def bound_once(self, node: object) -> bool:
        """Whether a variable of this file has a single value."""
        return isinstance(node, nodes.Var) and len(self.bindings.get(node, ())) == 1

    def name_of(self, expr: nodes.Context) -> str | None:
        """The full module-level name whose only value is an expression; None for any other expression."""
        if self._names is None:
            once = ((node, values[0]) for node, values in self.bindings.items() if self.bound_once(node))
            kept = ((node, value) for node, value in once if value is not None and self._stays(node, value))
            self._names = {value: getattr(node, "fullname", "") for node, value in kept}
            self._names |= {row: row.fullname for var, row in self.decorated.items() if var not in self.bindings}
        name = self._names.get(expr, "")
        return name if name.rpartition(".")[0] == self._module else None

    def follow(self, expr: nodes.Expression) -> nodes.Expression:
        """The expression of a name, as long as that is certain and nothing changes it in place."""
        for _ in range(_DEPTH):
            value = self._value_of(expr)
            if value is None:
                break
            expr = value
        return expr

    def _value_of(self, expr: nodes.Expression) -> nodes.Expression | None:
        """What a name, an attribute or an item certainly stands for; None for any other expression."""
        if isinstance(expr, nodes.MemberExpr):
            return self._attribute(expr)
        if isinstance(expr, nodes.IndexExpr):
            return self._item(expr)
        if (
            not isinstance(expr, nodes.NameExpr)
            or not isinstance(expr.node, nodes.Var)
            or expr.node not in self.bindings
        ):
            return None
        value = self.bindings[expr.node][0] if self.bound_once(expr.node) else self._reaching_value(expr)
        return value if value is not None and value is not UNKNOWN and self._stays(expr.node, value) else None

    def _attribute(self, expr: nodes.MemberExpr) -> nodes.Expression | None:
        """The only value of `self.name` in a class, or of an attribute of a class; fields are not followed."""
        owner = expr.expr.node if isinstance(expr.expr, nodes.RefExpr) else None
        method = self.methods.get(owner) if owner is not None else None
        kind = owner if isinstance(owner, nodes.TypeInfo) else None
        info = kind if method is None else method.info
        if info is None or "tensorclass" in info.metadata:
            return None
        rows = [(self._class_of(target), value) for target, value in self.attributes.get(expr.name, ())]
        own = [(kind, value) for kind, value in rows if kind is None or kind in info.mro or info in kind.mro]
        if own:
            return own[0][1] if len(own) == 1 and own[0][0] is not None and method is not None else None
        symbol = info.names.get(expr.name)
        variable = None if symbol is None else symbol.node
        value = self.bindings[variable][0] if variable is not None and self.bound_once(variable) else None
        return None if isinstance(value, nodes.TempNode) else value

    def _class_of(self, target: nodes.MemberExpr) -> nodes.TypeInfo | None:
        """The class whose method assigns `self.name`; None for an attribute of anything else."""
        owner = target.expr.node if isinstance(target.expr, nodes.NameExpr) else None
        method = self.methods.get(owner) if owner is not None else None
        return None if method is None else method.info

    def _item(self, expr: nodes.IndexExpr) -> nodes.Expression | None:
        """`parts["encoder"]` of a dict that is written out, and `blocks[0]` of a list."""
        if expr in self.changed:
            return None
        if isinstance(expr.index, nodes.IntExpr):
            items = self.items(expr.base)
            return items[expr.index.value] if items is not None and expr.index.value < len(items) else None
        if not isinstance(expr.index, nodes.StrExpr):
            return None
        whole = _content(self.follow(expr.base))
        pairs = whole.items if isinstance(whole, nodes.DictExpr) else []
        keys = [key.value if isinstance(key, nodes.StrExpr) else None for key, _ in pairs]
        if None in keys or keys.count(expr.index.value) != 1:
            return None  # a computed key may be the same one
        return pairs[keys.index(expr.index.value)][1]

    @property
    def places(self) -> Places:
        """The statements of the names of the file."""
        if self._places is None:
            self._places = Places(self._tree, self.targets)
        return self._places

    def _reaching_value(self, use: nodes.NameExpr) -> nodes.Expression | None:
        return self.places.reaching(use)

    def is_argument(self, use: nodes.NameExpr) -> bool:
        """Whether a name is a parameter that still holds the argument."""
        found = self.bindings.get(use.node or use, ())
        return use.node in self.parameters and (len(found) == 1 or self._reaching_value(use) is None)

    def is_steady(self, use: nodes.NameExpr) -> bool:
        """Whether nothing in the file changes the batch dims or the shape of a variable in place, or binds it again."""
        return (self.bound_once(use.node) or self.is_argument(use)) and self.keeps_batch(use.node or use)

    def keeps_batch(self, variable: nodes.Node) -> bool:
        """Whether nothing in the file changes the batch dims or the shape of a variable in place."""
        return all(
            not isinstance(part, nodes.MemberExpr)
            or (part.name not in _CHANGING and (part.name not in _BATCH or part not in self.assigned))
            for part in self.uses.get(variable, ())
        )

    @property
    def scopes(self) -> dict[nodes.Node, nodes.FuncDef]:
        """The function whose names of dims an annotated variable shares."""
        if self._scopes is None:
            self._scopes = {}
            for function in self.functions:
                if isinstance(function, nodes.FuncDef):
                    self._scopes |= dict.fromkeys((one.variable for one in function.arguments), function)
                    targets = (
                        row.lvalues[0] for row in own_statements(function) if isinstance(row, nodes.AssignmentStmt)
                    )
                    self._scopes |= {t.node: function for t in targets if isinstance(t, nodes.NameExpr) and t.node}
        return self._scopes

    def items(self, expr: nodes.Expression, depth: int = 0) -> list[nodes.Expression] | None:
        """The members of a list or tuple display, of a part of one, and of a list of modules; None if unknown."""
        value = _content(self.follow(expr))
        if isinstance(value, nodes.NameExpr):
            return self._grown_list(value)
        if depth < _DEPTH and isinstance(value, nodes.IndexExpr) and isinstance(value.index, nodes.SliceExpr):
            whole = self.items(value.base, depth + 1)
            bounds = [_number(part) for part in (value.index.begin_index, value.index.end_index, value.index.stride)]
            return None if whole is None or _NO_NUMBER in bounds else whole[slice(*bounds)]
        if depth < _DEPTH and isinstance(value, nodes.CallExpr) and len(value.args) == 1:
            inner = self.items(value.args[0], depth + 1) if callee_name(value) == "builtins.reversed" else None
            return None if inner is None else inner[::-1]
        if isinstance(value, nodes.CallExpr) and isinstance(value.callee, nodes.MemberExpr) and not value.args:
            mapping = _content(self.follow(value.callee.expr))
            pairs = mapping.items if isinstance(mapping, nodes.DictExpr) and value.callee.name == "values" else []
            return [item for key, item in pairs if key is not None] or None
        found, times = _repeated_list(value) or (value, 1)
        if not isinstance(found, nodes.ListExpr | nodes.TupleExpr) or any(
            isinstance(item, nodes.StarExpr) for item in found.items
        ):
            return None
        return found.items * times if len(found.items) * times <= _MOST else None

    def _grown_list(self, name: nodes.NameExpr) -> list[nodes.Expression] | None:
        """The members of a list that is written out, and of each `x.append(...)` between it and its use."""
        variable = name.node
        begin = self.bindings[variable][0] if variable is not None and self.bound_once(variable) else None
        if variable is None or not isinstance(begin, nodes.ListExpr):
            return None
        target, added = self.targets[variable][0], dict[int, nodes.Expression]()
        for use in self.uses.get(variable, ()):
            if isinstance(use, nodes.MemberExpr) and use in self.appended:
                at = self.places.row_of_call(use, target)
                if at is None:
                    return None
                added[at] = self.appended[use]
            elif not self._is_kept(use, variable, True):
                return None
        end = self.places.row_of(name, target) if added else None
        starred = any(isinstance(item, nodes.StarExpr) for item in begin.items)
        if end is None or starred:
            return None
        return [*begin.items, *(added[at] for at in sorted(added) if at < end)]

    def added_items(self, expr: nodes.Expression) -> list[nodes.Expression] | None:
        """The member of a comprehension, or the values appended to a list that begins empty; None if unknown."""
        value = self.follow(expr)
        if isinstance(value, nodes.ListComprehension | nodes.GeneratorExpr):
            return [(value if isinstance(value, nodes.GeneratorExpr) else value.generator).left_expr]
        variable = value.node if isinstance(value, nodes.NameExpr) else None
        begin = self.bindings[variable][0] if variable is not None and self.bound_once(variable) else None
        if variable is None or not isinstance(begin, nodes.ListExpr) or begin.items:
            return None
        found: list[nodes.Expression] = []
        for use in self.uses.get(variable, ()):
            if isinstance(use, nodes.MemberExpr) and use.name == "append" and use in self.appended:
                found.append(self.appended[use])
            elif isinstance(use, nodes.MemberExpr) or (use is not expr and not self._is_kept(use, variable, True)):
                return None
        return found or None

    def returned(self, callee: object) -> tuple[nodes.FuncDef, nodes.Expression] | None:
        """A function of this file that binds names and returns one expression, and that expression."""
        if not isinstance(callee, nodes.FuncDef) or callee not in self.functions:
            return None
        said = [s.expr if isinstance(s, nodes.ExpressionStmt) else None for s in callee.body.body]
        body = [s for s, text in zip(callee.body.body, said, strict=True) if not isinstance(text, nodes.StrExpr)]
        plain = bool(body) and all(isinstance(s, nodes.AssignmentStmt) for s in body[:-1])
        last = body[-1] if plain and not (callee.is_generator or callee.is_coroutine) else None
        return (callee, last.expr) if isinstance(last, nodes.ReturnStmt) and last.expr is not None else None

    def _stays(self, variable: nodes.Node, value: nodes.Expression) -> bool:
        """Whether no use of a variable changes its list, or the shape of its tensor."""
        is_list = isinstance(_content(value), nodes.ListExpr | nodes.DictExpr) or _repeated_list(value) is not None
        is_list |= callee_name(value) == "builtins.dict"
        return all(self._is_kept(use, variable, is_list) for use in self.uses.get(variable, ()))

    def _is_kept(self, use: nodes.Node, variable: nodes.Node, is_list: bool) -> bool:
        if isinstance(use, nodes.IndexExpr) and is_list:
            return use not in self.changed
        if isinstance(use, nodes.MemberExpr) and is_list and use.name in _READS:
            return True
        return _keeps(use, variable, is_list)


_NOTES: dict[type[nodes.Node], Any] = {
    nodes.AssignmentStmt: Source._note_assignment,
    nodes.AssignmentExpr: lambda self, node: self._bind(node.target, node.value),
    nodes.Argument: Source._note_argument,
    nodes.FuncDef: Source._note_function,
    nodes.LambdaExpr: lambda self, node: self.functions.add(node),
    nodes.Decorator: Source._note_decorator,
    nodes.CallExpr: Source._note_call,
    **dict.fromkeys(_OPAQUE, Source._note_opaque),
}
"""What is noted of a node, by its class."""


def own_statements(function: nodes.FuncDef) -> Iterator[nodes.Node]:
    """The statements of a function, without those of functions and classes in it."""
    stack: list[nodes.Node] = [function.body]
    while stack:
        node = stack.pop()
        if isinstance(node, nodes.Statement) and not isinstance(node, nodes.Block):
            yield node
        if not isinstance(node, nodes.FuncDef | nodes.Decorator | nodes.ClassDef | nodes.OverloadedFuncDef):
            stack += [part for part in parts_of(node) if isinstance(part, nodes.Statement)]


_NO_NUMBER = _MOST * _MOST


def _number(expr: nodes.Expression | None) -> int | None:
    """A bound of a slice; `_NO_NUMBER` if it is not written out."""
    if isinstance(expr, nodes.UnaryExpr) and expr.op == "-" and isinstance(expr.expr, nodes.IntExpr):
        return -expr.expr.value
    if isinstance(expr, nodes.IntExpr):
        return expr.value
    return None if expr is None else _NO_NUMBER


def _content(value: nodes.Expression) -> nodes.Expression:
    """The list or dict in `nn.ModuleList([...])`, `list([...])` and `nn.ModuleDict({...})`."""
    known = isinstance(value, nodes.CallExpr) and len(value.args) == 1 and callee_name(value) in _HOLDING
    return value.args[0] if isinstance(value, nodes.CallExpr) and known else value


def named_items(source: Source, expr: nodes.Expression) -> tuple[list[tuple[str, nodes.Expression]], bool]:
    """The pairs of a mapping that is written out, and whether these are all."""
    mapping = source.follow(expr)
    if isinstance(mapping, nodes.CallExpr) and callee_name(mapping) == "builtins.dict":
        found = [(name, value) for name, value in zip(mapping.arg_names, mapping.args, strict=True) if name is not None]
        return found, len(found) == len(mapping.args)
    rows = mapping.items if isinstance(mapping, nodes.DictExpr) else []
    keys = [(None if key is None else source.follow(key), value) for key, value in rows]
    pairs = [(key.value, value) for key, value in keys if isinstance(key, nodes.StrExpr)]
    return pairs, bool(rows) and len(pairs) == len(rows)


def _repeated_list(value: nodes.Node) -> tuple[nodes.Expression, int] | None:
    """The list and the number of `[...] * n`; a number that is not written out is too large."""
    if not isinstance(value, nodes.OpExpr) or value.op != "*" or not isinstance(value.left, nodes.ListExpr):
        return None
    return value.left, value.right.value if isinstance(value.right, nodes.IntExpr) else _MOST + 1


def _keeps(use: nodes.Node, variable: nodes.Node, is_list: bool) -> bool:
    if isinstance(use, nodes.MemberExpr):
        return not is_list and use.name not in _CHANGING and use.name != "data"
    if not is_list:
        return True
    if isinstance(use, nodes.CallExpr):
        rows = zip(use.args, use.arg_kinds, strict=True)
        copied = all(kind.is_star() for arg, kind in rows if isinstance(arg, nodes.NameExpr) and arg.node is variable)
        return copied or callee_name(use).startswith(_HARMLESS)
    if isinstance(use, nodes.ForStmt):
        return True
    return isinstance(use, nodes.AssignmentStmt) and not (
        isinstance(use.rvalue, nodes.NameExpr) and use.rvalue.node is variable
    )


def _spread(value: nodes.Expression | None, count: int) -> list[nodes.Expression | None]:
    if isinstance(value, nodes.CallExpr):
        return [_part(value, at) for at in range(count)]
    whole = isinstance(value, nodes.TupleExpr | nodes.ListExpr) and len(value.items) == count
    if not whole or any(isinstance(item, nodes.StarExpr) for item in value.items):  # type: ignore[union-attr]  # one of the two
        return [None] * count
    return [*value.items]  # type: ignore[union-attr]  # as above


def _part(value: nodes.CallExpr, at: int) -> nodes.IndexExpr:
    """One of the values that a call returns: `value[at]`."""
    part = nodes.IndexExpr(value, nodes.IntExpr(at))
    for node in (part, part.index):
        node.set_line(value)
    return part


def anything() -> AnyType:
    """The type of an unknown value."""
    return AnyType(TypeOfAny.special_form)


def callee_name(expr: nodes.Node | None) -> str:
    """The full name of the function or class that an expression calls; empty if it is not a call, or unknown."""
    callee = expr.callee if isinstance(expr, nodes.CallExpr) else None
    if isinstance(callee, nodes.IndexExpr) and isinstance(callee.analyzed, nodes.TypeApplication):
        callee = callee.base
    alias = aliased_class(callee)
    if alias is not None:
        return alias.type.fullname
    return (callee.fullname or "") if isinstance(callee, nodes.RefExpr) else ""


def aliased_class(expr: nodes.Node | None) -> Instance | None:
    """The class that an alias of a type stands for."""
    node = expr.node if isinstance(expr, nodes.RefExpr) else None
    target = get_proper_type(node.target) if isinstance(node, nodes.TypeAlias) else None
    return target if isinstance(target, Instance) else None


def type_of(api: Any, expr: nodes.Expression) -> Type | None:
    """The type that mypy has found for an expression."""
    lookup = getattr(api, "lookup_type_or_none", None)
    found: Type | None = lookup(expr) if lookup is not None else None
    return found


def by_name(ctx: FunctionContext | MethodContext) -> dict[str, nodes.Expression]:
    """The arguments of a call that are given once, by the names of the parameters."""
    rows = zip(ctx.callee_arg_names, ctx.args, strict=True)
    return {name: values[0] for name, values in rows if name and len(values) == 1}


def call_arguments(call: nodes.CallExpr, names: tuple[str, ...]) -> dict[str, nodes.Expression] | None:
    """The arguments of a call by the names of the parameters; None with `*` or `**`, or more than there are names."""
    found: dict[str, nodes.Expression] = {}
    position = 0
    for kind, name, value in zip(call.arg_kinds, call.arg_names, call.args, strict=True):
        if kind.is_star() or (kind == nodes.ARG_POS and position >= len(names)):
            return None
        if name is None:
            name, position = names[position], position + 1
        found[name] = value
    return found


_last: list[tuple[nodes.MypyFile, object, Source]] = []


def source_of(api: Any) -> Source:
    """The source of the checked file; cached until the daemon parses it again."""
    tree: nodes.MypyFile = api.tree
    if not _last or _last[0][0] is not tree or _last[0][1] is not tree.defs:
        _last[:] = [(tree, tree.defs, Source(tree))]
    return _last[0][2]
