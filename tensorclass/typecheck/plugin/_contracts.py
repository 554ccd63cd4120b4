"""Checks calls, results and variables of functions over batches: `Shaped[Step, "t b"]` and `Float32[Tensor, "b 4"]`.

Reported is another number of dims, another size, and another order of the dims that a function names.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mypy import nodes
from mypy.types import CallableType, Type

from ..._dims import Dim, Dims
from ._batch_dims import batch_dims, tensor_dims
from ._batch_sizes import BatchDim, BatchDims, NamedSize, shown, size_in
from ._codes import BATCH, DTYPE, SHAPE
from ._contract_calls import CallContract, contract_of, declared_dims, direct_call, own_contract, shaped_text
from ._facts import ClassDeclaration
from ._sizes import KnownSizes, Shape
from ._source import own_statements, parts_of, source_of
from ._types import instance_of
from ._values import Values


def check_contracts(api: Any) -> None:
    """Report what does not fit in the file that has been checked."""
    source, tensors = source_of(api), _TensorFunctions(api)
    for call in (direct_call(api, call) for call in source.calls):
        contract = contract_of(api, call, tensors)
        if contract is not None:
            names = _SizeNames()
            for row in contract.arguments(call):
                value = _declared(api, contract, row.type, row.written, row.parameter)
                if value is not None:
                    value.check(api, names, row.value)
    for variable, values in source.bindings.items():
        if isinstance(variable, nodes.Var) and variable in source.annotations and variable not in source.parameters:
            dims = declared_dims(variable.type)
            if dims is not None and len(values) == 1 and values[0] is not None:
                own = _names_in(source.scopes.get(variable))
                _Declared(variable.name, shaped_text(variable.type, dims), dims, None).check(api, own, values[0])
    for function in source.functions:
        contract = own_contract(source.decorated_functions.get(function, function), tensors=tensors)
        if contract is not None:
            _check_results(api, contract)


class _TensorFunctions:
    """Whether a function of the file declares a tensor, such as `Float32[Tensor, "b 4"]`."""

    def __init__(self, api: Any) -> None:
        self._values = Values(api)
        self._known: dict[nodes.FuncDef, bool] = {}

    def __call__(self, function: nodes.FuncDef) -> bool:
        """Look at the annotations of the parameters and of the result."""
        found = self._known.get(function)
        if found is None:
            written = function.unanalyzed_type if function in self._values.source.functions else None
            rows = [*written.arg_types, written.ret_type] if isinstance(written, CallableType) else []
            found = any(self._values.declaration(row) is not None for row in rows)
            self._known[function] = found
        return found


def _declared(api: Any, contract: CallContract, typ: Type, written: Type | None, name: str) -> _Declared | None:
    """What the annotation of a parameter or of the result declares; None if nothing is known of it."""
    label = f"{contract.function.name}: {name}"
    dims = declared_dims(typ)
    if dims is not None:
        return _Declared(label, shaped_text(typ, dims), dims, None)
    tensor = Values(api).declaration(written) if contract.function in source_of(api).functions else None
    if tensor is None or tensor.shape is None or tensor.kind.is_ragged:
        return None
    return _Declared(label, str(tensor), tensor.shape, tensor)


class _Declared(NamedTuple):
    """A declaration with which values are compared."""

    label: str
    text: str
    dims: Dims
    tensor: ClassDeclaration | None

    def check(self, api: Any, names: _SizeNames, expr: nodes.Expression) -> None:
        """Report a value that does not fit."""
        if self.tensor is None and self._is_nested_deeper(api, expr):
            return
        facts = None if self.tensor is None else Values(api).tensor(expr)
        sizes = batch_dims(api, expr) if self.tensor is None else tensor_dims(api, expr, facts)
        if sizes is None and facts is not None and facts.shape is not None and self._lacks_dims(facts.shape):
            api.fail(f"{self.label} is declared {self.text}, given is {facts}", expr, code=SHAPE)
            return
        dtypes = None if self.tensor is None else self.tensor.dtypes
        if facts is not None and dtypes is not None and facts.dtypes is not None and not dtypes & facts.dtypes:
            api.fail(f"{self.label} is declared {self.text}, given is {facts}", expr, code=DTYPE)
        problem = None if sizes is None else names.problem(self.dims, sizes, self.label.rpartition(" ")[2])
        if problem is not None and sizes is not None:
            what = "given are the batch dims" if self.tensor is None else "given are the dims"
            code = BATCH if self.tensor is None else SHAPE
            api.fail(f"{self.label} is declared {self.text}, {what} {shown(sizes)}{problem}", expr, code=code)

    def _lacks_dims(self, shape: KnownSizes) -> bool:
        """Whether a value with an unknown number of dims has more than declared, or other last ones."""
        if self.dims.rank is None:
            return False
        pairs = zip(_numbers(self.dims), shape.last(self.dims.rank), strict=True)
        return shape.least_rank > self.dims.rank or any(None not in pair and pair[0] != pair[1] for pair in pairs)

    def _is_nested_deeper(self, api: Any, expr: nodes.Expression) -> bool:
        """Report a nested instance with more dims than declared: it has at least those of the instance around it."""
        value = source_of(api).follow(expr)
        around = value
        while isinstance(around, nodes.MemberExpr) and instance_of(api, around.expr) is not None:
            around = around.expr
        sizes = None if around is value or batch_dims(api, expr) is not None else batch_dims(api, around)
        if sizes is None or self.dims.rank is None or len(sizes) <= self.dims.rank:
            return False
        text = f"given are the batch dims {shown(sizes)[:-1]}, ...]"
        api.fail(f"{self.label} is declared {self.text}, {text}", expr, code=BATCH)
        return True


def _numbers(dims: Dims) -> Shape:
    return tuple(token.size.constant if isinstance(token, Dim) else None for token in dims.tokens)


# ---- names -----------------------------------------------------------------------------------------------------------


class _SizeNames:
    """What the names of dims are in one scope, and the value that said it."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[BatchDim, str]] = {}

    def problem(self, dims: Dims, given: BatchDims, by: str) -> str | None:
        """How sizes differ from their declaration; names without a size take the given one. None if they fit."""
        if len(given) != dims.rank if dims.rank is not None else len(given) < dims.min_rank:
            return ""
        front = len(dims.tokens) if dims.variadic is None else dims.variadic
        behind = dims.tokens[front + 1 :]
        rows = [*zip(dims.tokens[:front], given[:front], strict=True)]
        rows += zip(behind, given[len(given) - len(behind) :], strict=True)
        return next((text for token, size in rows if (text := self._problem_of(token, size, by)) is not None), None)

    def _problem_of(self, token: object, size: BatchDim, by: str) -> str | None:
        name = str(token)
        want = size_in(token, lambda name: self.known.get(name, (None, ""))[0])
        if want is None and size is not None and name.isidentifier():
            self.known[name] = (size, by)
        if not _differ(want, size):
            return None
        said = self.known[name][1] if name in self.known else ""
        return f'; "{name}" is {want} in {said}, here {size}' if said else f'; "{name}" is here {size}'


def _names_in(function: nodes.FuncDef | None) -> _SizeNames:
    """The names that the parameters of a function bind, which are free in it."""
    names = _SizeNames()
    contract = None if function is None else own_contract(function)
    for typ in [] if contract is None else contract.signature.arg_types:
        dims = declared_dims(typ)
        for name in () if dims is None or function is None else dims.names:
            names.known[name] = (NamedSize(function, name), "")  # type: ignore[arg-type]  # it is a function here
    return names


def _differ(one: BatchDim, other: BatchDim) -> bool:
    """Whether sizes certainly differ: two numbers, or two names of one function that compares nothing by `==`."""
    if isinstance(one, NamedSize) and isinstance(other, NamedSize):
        same = one.scope is other.scope and one.name == other.name
        return one.more != other.more if same else one.scope is other.scope and not _compares(one.scope)
    return isinstance(one, int) and isinstance(other, int) and one != other


def _compares(scope: nodes.Node) -> bool:
    """Whether a function asks if sizes are equal."""
    stack = [scope.body] if isinstance(scope, nodes.FuncDef) else list[nodes.Node]()
    while stack:
        node = stack.pop()
        if isinstance(node, nodes.ComparisonExpr) and {"==", "!="} & {*node.operators}:
            return True
        stack += parts_of(node)
    return False


def _check_results(api: Any, contract: CallContract) -> None:
    """What a function returns."""
    function = contract.function
    written = function.unanalyzed_type
    text = written.ret_type if isinstance(written, CallableType) else None
    value = (
        None
        if function.is_generator or function.is_coroutine
        else _declared(api, contract, contract.signature.ret_type, text, "the result")
    )
    for statement in own_statements(function) if value is not None else ():
        if isinstance(statement, nodes.ReturnStmt) and statement.expr is not None and value is not None:
            value.check(api, _names_in(function), statement.expr)
