"""Which value a name has where it is used, if it is bound several times: the last binding before, in order.

A binding in a loop, in a branch or under `try` leaves the value unknown behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mypy import nodes

from ._node_parts import parts_of

_BRANCHES = (nodes.IfStmt, nodes.WithStmt, nodes.MatchStmt)
_LOOPS = (nodes.ForStmt, nodes.WhileStmt)
_FUNCTIONS = (nodes.FuncDef, nodes.LambdaExpr, nodes.ClassDef, nodes.GeneratorExpr, nodes.DictionaryComprehension)
UNKNOWN = nodes.EllipsisExpr()
"""An unknown value."""


@dataclass
class _Place:
    """A statement in its block."""

    block: list[nodes.Statement]
    at: int
    above: _Place | None
    scope: nodes.Node


@dataclass
class Places:
    """The statement of each name of one file, and the names that each statement binds."""

    tree: nodes.MypyFile
    targets: dict[nodes.Node, list[nodes.NameExpr]]
    """Every name that binds a variable."""
    _places: dict[nodes.Node, _Place] = field(default_factory=dict)
    _binds: dict[nodes.Node, set[nodes.Node]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._add(self.tree.defs, None, self.tree)

    def _add(self, block: list[nodes.Statement], above: _Place | None, scope: nodes.Node) -> None:
        for at, statement in enumerate(block):
            self._walk(statement, _Place(block, at, above, scope), scope)

    def _walk(self, root: nodes.Node, place: _Place, scope: nodes.Node) -> None:
        stack: list[tuple[nodes.Node, nodes.Node]] = [(root, scope)]
        while stack:
            node, scope = stack.pop()
            if isinstance(node, nodes.Block):
                self._add(node.body, place, scope)
                continue
            if isinstance(node, nodes.NameExpr):
                self._places[node] = place if scope is place.scope else _Place([], 0, place, scope)
            inner = node if isinstance(node, _FUNCTIONS) else scope
            stack += [(part, inner) for part in parts_of(node)]

    def reaching(self, use: nodes.NameExpr) -> nodes.Expression | None:
        """The value that a name has; `UNKNOWN` if several may reach it, None for the argument of a parameter."""
        place = self._places.get(use)
        if place is None or not place.block or self._is_shared(use, place.scope):
            return UNKNOWN
        scope, inside = place.scope, place.block[place.at]
        again = isinstance(inside, _LOOPS) and self._is_bound(inside, use.node)
        if again or any(self._is_bound(head, use.node) for head in _values_of(inside)):
            return UNKNOWN
        while True:
            for statement in reversed(place.block[: place.at]):
                found = self._value(statement, use.node)
                if found is not None:
                    return found
            above = place.above
            if above is None or above.scope is not scope:
                return None if isinstance(scope, nodes.FuncDef) else UNKNOWN
            outer = above.block[above.at]
            branch = isinstance(outer, _BRANCHES)
            if self._is_bound_in_head(outer, use.node) if branch else self._is_bound(outer, use.node):
                return UNKNOWN
            place = above

    def row_of(self, use: nodes.NameExpr, target: nodes.NameExpr) -> int | None:
        """The number of the statement around a name in the block where a variable is bound; None outside of it."""
        place, block = self._places.get(use), self._places[target].block
        while place is not None and place.block is not block:
            place = place.above
        return None if place is None else place.at

    def row_of_call(self, callee: nodes.MemberExpr, target: nodes.NameExpr) -> int | None:
        """The number of the statement in that block that only calls a method of the variable."""
        place = self._places.get(callee.expr) if isinstance(callee.expr, nodes.NameExpr) else None
        if place is None or place.block is not self._places[target].block:
            return None
        row = place.block[place.at]
        call = row.expr if isinstance(row, nodes.ExpressionStmt) else None
        return place.at if isinstance(call, nodes.CallExpr) and call.callee is callee else None

    def _is_shared(self, use: nodes.NameExpr, scope: nodes.Node) -> bool:
        """Whether another function may bind the variable."""
        found = (self._places.get(target) for target in self.targets.get(use.node or use, ()))
        return any(place is None or place.scope is not scope for place in found)

    def _is_bound_in_head(self, statement: nodes.Statement, variable: nodes.Node | None) -> bool:
        heads = [part for part in parts_of(statement) if not isinstance(part, nodes.Block)]
        return any(variable in self._bound(head) for head in heads)

    def _value(self, statement: nodes.Statement, variable: nodes.Node | None) -> nodes.Expression | None:
        """The value that a statement gives a variable; None if it does not bind it."""
        if isinstance(statement, nodes.AssignmentStmt) and len(statement.lvalues) == 1:
            target = statement.lvalues[0]
            if isinstance(target, nodes.NameExpr) and target.node is variable:
                return UNKNOWN if isinstance(statement.rvalue, nodes.TempNode) else statement.rvalue
        return UNKNOWN if self._is_bound(statement, variable) else None

    def _is_bound(self, statement: nodes.Node, variable: nodes.Node | None) -> bool:
        return variable in self._bound(statement)

    def _bound(self, root: nodes.Node) -> set[nodes.Node]:
        """The variables that a statement binds anywhere in it."""
        known = self._binds.get(root)
        if known is None:
            known, stack = set[nodes.Node](), [root]
            while stack:
                node = stack.pop()
                if isinstance(node, nodes.NameExpr) and node in self.targets.get(node.node or node, ()):
                    known.add(node.node or node)
                stack += parts_of(node)
            self._binds[root] = known
        return known


def _values_of(statement: nodes.Statement) -> list[nodes.Node]:
    """What a statement evaluates before it binds its targets."""
    if isinstance(statement, nodes.AssignmentStmt | nodes.OperatorAssignmentStmt):
        return [statement.rvalue]
    return [part for part in parts_of(statement) if not isinstance(part, nodes.Block)]
