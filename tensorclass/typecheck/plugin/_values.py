"""The certain facts about the tensor that an expression is: from declarations, calls of torch, and layers.

A field that is read has its declared dtype and dims; so has an annotated parameter and the result of an annotated
function of the file. None means unknown. The type that mypy gives an expression stays the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from mypy import nodes
from mypy.types import Instance, Type, get_proper_type

from ..._dims import Dim, Dims
from .._rules import ClassDeclaration, WrongAnnotation
from . import _facts as facts
from . import _sizes as shapes
from ._annotations import AnnotationReader
from ._call_parts import NOTHING, Call, Known, TensorFacts
from ._function_results import function_called, parameters_given, result_given, result_of, returned_facts
from ._layer_table import applied
from ._promotion import BOOL, FLOATS, Dtypes
from ._shapes import ALIASES, created, dtype_of, int_of, literal, sizes_of, torch_name
from ._sizes import KnownSizes, Shape
from ._source import Source, source_of
from ._torch_calls import called, operated
from ._torch_table import KINDS, METHODS_ONLY, MODULES
from ._types import instance_of, static_type

_MOST: Final = 400
"""How many expressions are looked at for one value."""
_CASTS: Final = {*ALIASES, "bool", "bfloat16"}
_OPERATORS: Final = {
    **dict.fromkeys(("+", "-", "*", "//", "%", "**", "&", "|", "^", "<<", ">>"), "arithmetic"), "/": "division",
}  # fmt: skip
_NUMBERS: Final = {"builtins.bool": "bool", "builtins.int": "int", "builtins.float": "real"}
_CALLED_NUMBERS: Final = {
    "builtins.bool": "bool", "builtins.int": "int", "builtins.float": "float", "builtins.len": "int",
    "builtins.ord": "int", "builtins.isinstance": "bool", "math.sqrt": "float", "math.exp": "float",
    "math.log": "float",
    "math.sin": "float", "math.cos": "float", "time.time": "float", "random.random": "float", "random.uniform": "float",
    "random.randint": "int", "random.randrange": "int",
}  # fmt: skip
"""The kinds of numbers that functions return; `float(x)` is a float, while a value annotated as one may be an int."""


def tensor_facts(api: Any, expr: nodes.Expression) -> TensorFacts | None:
    """The facts about the tensor that an expression is; None if it may be anything."""
    return Values(api).tensor(expr)


def called_with(api: Any, callee: nodes.Expression, given: list[TensorFacts]) -> Known:
    """What a lambda, a function, or the `forward` of a module makes of tensors with known facts."""
    values = Values(api)
    if isinstance(callee, nodes.LambdaExpr):
        plain = [one.variable for one in callee.arguments if one.kind == nodes.ARG_POS]
        values.entered[callee] = dict(zip(plain, given, strict=False))
        return returned_facts(values, callee.expr()) if len(plain) == len(given) else None
    name = function_name(callee)
    if name in KINDS and len(given) == 1:
        return called(Call(values, name, [], {}, given[0]))
    function = function_called(api, callee)
    if function is None:
        return None
    known = function in values.source.functions  # mypy's cache keeps no parameters
    return result_given(values, function, parameters_given(function, given) if known else {})


class Values:
    """Reads the values of one expression."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self.source: Source = source_of(api)
        self.entered: dict[nodes.Node, dict[nodes.Node | None, TensorFacts]] = {}
        """The functions whose bodies are being read, with what their parameters are given."""
        self.leads: dict[nodes.Node, object] = {}
        """The batch dims of what the parameters of these functions are given."""
        self._left = _MOST

    def tensor(self, expr: nodes.Expression) -> TensorFacts | None:
        """The facts about one tensor."""
        found = self.known(expr)
        return found if isinstance(found, TensorFacts) else None

    def known(self, expr: nodes.Expression) -> Known:
        """The facts about a tensor, or about each of several."""
        self._left -= 1
        if self._left < 0:
            return None
        expr = self.source.follow(expr)
        if isinstance(expr, nodes.CallExpr):
            return self._call(expr)
        if isinstance(expr, nodes.IndexExpr):
            return self._indexed(expr)
        if isinstance(expr, nodes.OpExpr):
            kind = "product" if expr.op == "@" else _OPERATORS.get(expr.op)
            if kind == "product":
                return called(Call(self, "matmul", [expr.left, expr.right], {}, None))
            return None if kind is None else operated(self, kind, expr.left, expr.right)
        if isinstance(expr, nodes.MemberExpr):
            return self._member(expr)
        if isinstance(expr, nodes.NameExpr):
            return self._declared_name(expr)
        return self._rest(expr)

    def _rest(self, expr: nodes.Expression) -> Known:
        if isinstance(expr, nodes.ComparisonExpr) and len(expr.operands) == 2 and expr.operators[0] not in _WORDS:
            return operated(self, "comparison", *expr.operands)
        if isinstance(expr, nodes.UnaryExpr) and expr.op in ("-", "~", "+"):
            return self.tensor(expr.expr)
        if isinstance(expr, nodes.AssignmentExpr):
            return self.known(expr.value)
        if isinstance(expr, nodes.ConditionalExpr):
            sides = [self.tensor(side) for side in (expr.if_expr, expr.else_expr)]
            one, other = sides
            if one is None or other is None:
                return None
            both = None if one.dtypes is None or other.dtypes is None else one.dtypes | other.dtypes
            return TensorFacts(both, shapes.merged_shapes([one.shape, other.shape]))
        return None

    # ---- what calls read ---------------------------------------------------------------------------------------------

    def number(self, expr: nodes.Expression | None) -> int | None:
        """A certain integer."""
        return int_of(self.source, expr)

    def sizes(self, expr: nodes.Expression) -> Shape | None:
        """A list of integers, or one."""
        return sizes_of(self.source, expr)

    def items(self, expr: nodes.Expression) -> list[nodes.Expression] | None:
        """The members of a list that is written out."""
        return self.source.items(expr)

    def added_items(self, expr: nodes.Expression) -> list[nodes.Expression] | None:
        """The member of a comprehension, or the values appended to a list that begins empty."""
        return self.source.added_items(expr)

    def dtype(self, expr: nodes.Expression) -> Dtypes:
        """The dtype that an argument names."""
        return dtype_of(self.source, {"dtype": expr}, None)

    def kind_of_number(self, expr: nodes.Expression) -> str:
        """The kind of a number of Python."""
        kinds, shape = literal(self.source, expr)
        if shape == () and kinds is not None:
            whole = "bool" if kinds == BOOL else "int"
            return "float" if kinds == FLOATS else whole
        if isinstance(expr, nodes.CallExpr) and isinstance(expr.callee, nodes.RefExpr):
            return _CALLED_NUMBERS.get(expr.callee.fullname, "")
        if isinstance(expr, nodes.OpExpr) and expr.op in ("+", "-", "*", "//", "%", "/"):
            sides = {self.kind_of_number(side) for side in (expr.left, expr.right)}
            if sides <= {"int", "float"}:
                return "float" if "float" in sides or expr.op == "/" else "int"
        if isinstance(expr, nodes.ComparisonExpr) and not self._compares_tensors(expr):
            return "bool"
        found = get_proper_type(static_type(self.api, expr))
        return _NUMBERS.get(found.type.fullname, "") if isinstance(found, Instance) else ""

    def _compares_tensors(self, expr: nodes.ComparisonExpr) -> bool:
        """Whether the operands may be other than numbers and texts of Python."""
        return any(
            not isinstance(item, nodes.StrExpr) and not self.kind_of_number(self.source.follow(item))
            for item in expr.operands
        )

    def kind_of_items(self, expr: nodes.Expression) -> str:
        """The kind of the numbers in a list or a tuple of any length."""
        made = self.source.follow(expr)
        if isinstance(made, nodes.ListComprehension):
            return self.kind_of_number(made.generator.left_expr)
        found = get_proper_type(static_type(self.api, expr))
        if not isinstance(found, Instance) or found.type.fullname not in ("builtins.list", "builtins.tuple"):
            return ""
        item = get_proper_type(found.args[0]) if len(found.args) == 1 else None
        return _NUMBERS.get(item.type.fullname, "") if isinstance(item, Instance) else ""

    # ---- declarations ------------------------------------------------------------------------------------------------

    def field(self, owner: Instance, name: str, of: nodes.Expression) -> TensorFacts | None:
        """A field that is read of an instance."""
        declared = facts.fields_of(owner.type).get(name)
        if declared is None or facts.option(owner.type, "validate") == "off":
            return None
        if declared.kind.is_shared:
            return _whole(declared)
        if not declared.kind.is_batched:
            return None
        dims = declared.shape
        return TensorFacts(declared.dtypes, None if dims is None else whole_sizes(dims, self.lead(of)))

    def lead(self, expr: nodes.Expression) -> object:
        """What the number of batch dims of an instance is known by: equal for the same instance."""
        if isinstance(expr, nodes.NameExpr) and isinstance(expr.node, nodes.Var):
            if expr.node in self.leads:
                return self.leads[expr.node]
            value = self.source.follow(expr)
            if value is not expr and not isinstance(value, nodes.NameExpr):
                return self._lead_of_copy(value) or Lead(value, expr)
            if self.source.is_steady(expr):
                return Lead(expr.node, expr)
        return self._lead_of_copy(expr) or Lead(expr, expr)

    def _lead_of_copy(self, expr: nodes.Expression) -> object:
        """That of the instance whose method makes another one with the same batch dims."""
        callee = expr.callee if isinstance(expr, nodes.CallExpr) else None
        if not isinstance(callee, nodes.MemberExpr) or callee.name not in _COPIES:
            return None
        named = expr.arg_names if isinstance(expr, nodes.CallExpr) else []
        owner = None if "batch_size" in named else instance_of(self.api, callee.expr)
        return None if owner is None else self.lead(callee.expr)

    def _declared_name(self, expr: nodes.NameExpr) -> TensorFacts | None:
        given = next(
            (row[expr.node] for row in self.entered.values() if expr.node is not None and expr.node in row), None
        )
        if given is not None and self.source.is_argument(expr):
            return given if self.source.is_steady(expr) else None
        annotation = self.source.annotations.get(expr.node) if expr.node is not None else None
        if annotation is None or not (self.source.is_argument(expr) or self.source.bound_once(expr.node)):
            return None
        return self._annotated(annotation) if self.source.is_steady(expr) else None

    def _annotated(self, annotation: Type | None) -> TensorFacts | None:
        declared = self.declaration(annotation)
        return None if declared is None else _whole(declared)

    def declaration(self, annotation: Type | None) -> ClassDeclaration | None:
        """What the annotation of a parameter, a variable or a result says of a tensor."""
        if annotation is None:
            return None
        try:
            declared = AnnotationReader(_Names(self.api)).read(annotation)  # type: ignore[arg-type]  # it reads these names only
        except WrongAnnotation:
            return None
        return declared if declared.kind.is_batched and (declared.dtype or declared.dims) else None

    def _of_property(self, owner: Instance, name: str) -> Known:
        symbol = owner.type.get(name)
        row = None if symbol is None else symbol.node
        return result_of(self, row.func) if isinstance(row, nodes.Decorator) and row.func.is_property else None

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _call(self, call: nodes.CallExpr) -> Known:
        if any(kind.is_star() for kind in call.arg_kinds):
            return None
        name = function_name(call.callee)
        plain = [value for key, value in zip(call.arg_names, call.args, strict=True) if key is None]
        named = {key: value for key, value in zip(call.arg_names, call.args, strict=True) if key is not None}
        if name is not None:
            made = created(self, self.source, name, call)
            if made is not None or name not in KINDS or name in METHODS_ONLY:
                return made
            return called(Call(self, name, plain, named, None))
        if isinstance(call.callee, nodes.MemberExpr):
            found = self._method(call, call.callee, plain, named)
            if found is not None:
                return found
        layer = applied(self, self.source, call)
        function = None if layer is not None else function_called(self.api, call.callee)
        return layer if function is None else result_of(self, function, call)

    def _method(
        self,
        call: nodes.CallExpr,
        callee: nodes.MemberExpr,
        plain: list[nodes.Expression],
        named: dict[str, nodes.Expression],
    ) -> Known:
        name, owner = callee.name, instance_of(self.api, callee.expr)
        if owner is not None:
            if name == "get" and len(plain) == 1 and isinstance(plain[0], nodes.StrExpr):
                return self.field(owner, plain[0].value, callee.expr)
            return None
        if name not in KINDS and name not in _CASTS and name not in _MADE:
            return None
        base = self.tensor(callee.expr) or self._any_tensor(callee.expr)
        if base is None:
            return None
        if name in _CASTS:
            return replace(base, dtypes=frozenset((ALIASES.get(name, name),)))
        if name in ("to", "type"):
            return self._cast(base, plain, named)
        if name not in KINDS:
            return TensorFacts(dtype_of(self.source, named, base.dtypes), None)
        return called(Call(self, name, plain, named, base))

    def _any_tensor(self, expr: nodes.Expression) -> TensorFacts | None:
        """A tensor without known facts; None for an expression that may be something else."""
        found = get_proper_type(static_type(self.api, expr))
        return NOTHING if isinstance(found, Instance) and found.type.fullname == _TENSOR else None

    def _cast(
        self, base: TensorFacts, plain: list[nodes.Expression], named: dict[str, nodes.Expression]
    ) -> TensorFacts:
        """`to(dtype)`, `to(device)`, `to(device, dtype)` and `to(other)`."""
        given = [named["dtype"]] if "dtype" in named else plain
        for value in given:
            dtypes = self.dtype(value)
            if dtypes is not None:
                return replace(base, dtypes=dtypes)
        moves = not given or all(self._is_device(value) for value in given)
        return base if moves else replace(base, dtypes=None)

    def _is_device(self, expr: nodes.Expression) -> bool:
        found = get_proper_type(static_type(self.api, expr))
        name = found.type.fullname if isinstance(found, Instance) else ""
        known = name in ("builtins.str", "torch._C.device", "torch.device", "builtins.int")
        return isinstance(expr, nodes.StrExpr) or known

    # ---- attributes and items ----------------------------------------------------------------------------------------

    def _member(self, expr: nodes.MemberExpr) -> Known:
        owner = instance_of(self.api, expr.expr)
        if owner is not None:
            return self.field(owner, expr.name, expr.expr) or self._of_property(owner, expr.name)
        if expr.name not in ("T", "mT", "H", "mH", "data", "values", "indices", "real"):
            return None
        base = self.known(expr.expr)
        if isinstance(base, tuple):
            return {"values": base[0], "indices": base[-1]}.get(expr.name)
        if base is None or expr.name in ("values", "indices", "real"):
            return None
        if expr.name == "data":
            return base
        matrix = expr.name in ("mT", "mH") or (base.shape is not None and base.shape.rank == 2)
        return replace(base, shape=shapes.swap_sizes(base.shape, -1, -2) if matrix else None)

    def _indexed(self, expr: nodes.IndexExpr) -> Known:
        owner = instance_of(self.api, expr.base)
        if owner is not None:
            return self.field(owner, expr.index.value, expr.base) if isinstance(expr.index, nodes.StrExpr) else None
        base = self.known(expr.base)
        if isinstance(base, tuple):
            at = self.number(expr.index)
            return base[at] if at is not None and -len(base) <= at < len(base) else None
        if base is None:
            return None
        return replace(base, shape=self._index_of(base.shape, expr.index))

    def _index_of(self, shape: KnownSizes | None, index: nodes.Expression) -> KnownSizes | None:
        """The shape after an index of numbers, slices, `...`, `None`, and at most one tensor of integers."""
        items = index.items if isinstance(index, nodes.TupleExpr) else [index]
        split = next((at for at, item in enumerate(items) if isinstance(item, nodes.EllipsisExpr)), len(items))
        behind = 1
        for item in reversed(items[split + 1 :]):
            shape = self._index_one(shape, item, -behind)
            behind += isinstance(item, nodes.SliceExpr) or _is_new(item)
        dim = 0
        for item in items[:split]:
            rows = self.tensor(item) if not isinstance(item, nodes.SliceExpr) and dim == 0 and len(items) == 1 else None
            if rows is not None:
                return _rows_of(shape, rows)
            shape = self._index_one(shape, item, dim)
            dim += isinstance(item, nodes.SliceExpr) or _is_new(item)
        return shape

    def _index_one(self, shape: KnownSizes | None, item: nodes.Expression, dim: int) -> KnownSizes | None:
        if shape is None:
            return None
        if _is_new(item):
            return shapes.unsqueeze_sizes(shape, dim)
        if isinstance(item, nodes.SliceExpr):
            whole = item.begin_index is None and item.end_index is None and item.stride is None
            return shape if whole else shapes.resized(shape, dim, self._slice_length(shape, dim, item))
        found = get_proper_type(static_type(self.api, item))
        is_int = isinstance(found, Instance) and found.type.fullname == "builtins.int"
        return shapes.remove_dim(shape, dim) if self.number(item) is not None or is_int else None

    def _slice_length(self, shape: KnownSizes, dim: int, item: nodes.SliceExpr) -> int | None:
        at = shapes.place_of(shape, dim)
        size = shape.dims[at] if at is not None and at >= 0 else None
        given = (item.begin_index, item.end_index, item.stride)
        numbers = [self.number(part) for part in given]
        unknown = [part for part, number in zip(given, numbers, strict=True) if part is not None and number is None]
        if size is None or unknown:
            return None
        return len(range(*slice(*numbers).indices(size)))


_COPIES: Final = (
    "clone",
    "replace",
    "to",
    "cpu",
    "cuda",
    "detach",
    "contiguous",
    "copy",
    "pin_memory",
    "float",
    "double",
)
"""Methods of instances that keep the batch dims."""
_MADE: Final = ("to", "type", "new_zeros", "new_ones", "new_empty")
_TENSOR: Final = "torch._tensor.Tensor"
_WORDS: Final = ("in", "not in", "is", "is not")


class Lead:
    """The batch dims of one instance, known by the node that it is bound by."""

    def __init__(self, node: nodes.Node, expr: nodes.Expression) -> None:
        self.node = node
        self.expr = expr

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lead) and other.node is self.node

    def __hash__(self) -> int:
        return hash(self.node)


class _Names:
    """What `AnnotationReader` looks up, of a file that is being checked."""

    def __init__(self, api: Any) -> None:
        self.modules, self.cur_mod_id, self.options = api.modules, api.tree.fullname, api.options
        self._tree: nodes.MypyFile = api.tree

    def lookup_qualified(self, name: str, *_: object, **__: object) -> nodes.SymbolTableNode | None:
        """A dotted name, through modules."""
        head, *rest = name.split(".")
        symbol = self._tree.names.get(head)
        for part in rest:
            node = None if symbol is None else symbol.node
            symbol = node.names.get(part) if isinstance(node, nodes.MypyFile | nodes.TypeInfo) else None
        return symbol


def _rows_of(shape: KnownSizes | None, rows: TensorFacts) -> KnownSizes | None:
    """The shape after an index by a tensor of integers."""
    if shape is None or rows.shape is None or rows.dtypes is None:
        return None
    if shape.base is not None or rows.shape.base is not None:
        return None
    integers = rows.dtypes <= {"int64", "int32", "int16", "int8"}
    return KnownSizes((*rows.shape.dims, *shape.dims[1:])) if shape.dims and integers else None


def _is_new(item: nodes.Expression) -> bool:
    return isinstance(item, nodes.NameExpr) and item.name == "None"


def _known_shape(dims: Dims) -> Shape:
    return tuple(token.size.constant if isinstance(token, Dim) else None for token in dims.tokens)


def _whole(declared: ClassDeclaration) -> TensorFacts:
    """A tensor whose dims are all declared."""
    return TensorFacts(declared.dtypes, None if declared.shape is None else _sizes_of(declared.shape))


def whole_sizes(dims: Dims, lead: object) -> KnownSizes:
    """The dims of a field, behind the batch dims of its instance."""
    return _sizes_of(dims) if dims.variadic is not None else KnownSizes(_known_shape(dims), lead, len(dims.tokens))


def _sizes_of(dims: Dims) -> KnownSizes:
    """The dims of a declaration; those before `...` are unknown."""
    if dims.variadic is None:
        return KnownSizes(_known_shape(dims))
    return shapes.behind_unknown(*_known_shape(Dims(dims.tokens[dims.variadic + 1 :])))


def function_name(callee: nodes.Expression) -> str | None:
    """The name of a function of torch or of its `functional`."""
    module, _, name = (callee.fullname if isinstance(callee, nodes.RefExpr) else "").rpartition(".")
    return name if module in MODULES else torch_name(callee)
