"""The batch dims of the instance that an expression is.

`Shaped[Step, "t b"]` declares them for parameters, results and variables; `batch_size=` and the shapes of fields say
those of a new instance. Indexing, joins, reshapes, loops, loaders and pipelines carry them on. None means unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from mypy import nodes
from mypy.types import Instance, get_proper_type

from . import _facts as facts
from ._batch_sizes import (
    KEEPING,
    PLACED,
    RESHAPES,
    BatchDim,
    BatchDims,
    NamedSize,
    sizes_in,
    sliced_size,
    total_size,
)
from ._call_parts import TensorFacts
from ._contract_calls import declared_dims, dims_of_result
from ._given import batch_of
from ._joins import LOADER, OWN_JOINS
from ._promotion import BOOL, INT64, Dtypes
from ._shapes import int_of, sizes_of
from ._source import Source, callee_name, source_of
from ._types import instance_of, static_type
from ._values import Lead, tensor_facts

LOADERS: Final = (LOADER, "tensorclass.io._loader.BatchLoader")
_OTHER_BATCHES: Final = frozenset({"collate_fn", "batch_sampler", "sampler"})
_MAKERS: Final = ("zeros", "ones", "full", "empty", "example")
_JOINS: Final = {"stack": "stack", "lazy_stack": "stack", "cat": "cat", "concat": "cat"}
_TORCH: Final = ("torch", "torch._C._VariableFunctions", "torch.functional")
_PARTS: Final = {"unbind": 0, "split": 1, "chunk": 1}
"""Methods that return several instances, and the place of `dim` among their arguments."""
_NUMBERS: Final = ("builtins.int", "builtins.float", "builtins.bool")


def batch_dims(api: Any, expr: nodes.Expression) -> BatchDims | None:
    """The batch dims of the instance that an expression is."""
    source = source_of(api)
    known, outermost = source.reading, source.reading is None
    known = source.reading = {} if known is None else known
    try:
        if expr not in known:
            known[expr] = None  # for a value that depends on itself
            known[expr] = _DimsReader(api, source).read(expr)
        found: BatchDims | None = known[expr]
        return found
    finally:
        if outermost:
            source.reading = None


class _DimsReader:
    """Reads one expression."""

    def __init__(self, api: Any, source: Source) -> None:
        self.api = api
        self.source = source
        self.dims_of = partial(batch_dims, api)

    def read(self, expr: nodes.Expression) -> BatchDims | None:
        """The batch dims."""
        if isinstance(expr, nodes.NameExpr):
            return self._name(expr)
        if isinstance(expr, nodes.IndexExpr):
            parts = None if isinstance(expr.index, nodes.SliceExpr) else self._parts(expr.base)
            return self._indexed(expr) if parts is None else parts
        if isinstance(expr, nodes.CallExpr):
            return self._call(expr)
        if isinstance(expr, nodes.OpExpr):
            return self._operated(expr)
        value = self.source.follow(expr)
        return None if value is expr else self.dims_of(value)

    def _name(self, expr: nodes.NameExpr) -> BatchDims | None:
        """The batch dims of a name: from its annotation, its one value, or the loop that binds it."""
        variable = expr.node
        if not isinstance(variable, nodes.Var) or not self.source.keeps_batch(variable):
            return None
        once = self.source.bound_once(variable)
        dims = declared_dims(variable.type) if variable in self.source.annotations else None
        if dims is not None and (once or self.source.is_argument(expr)):
            scope = self.source.scopes.get(variable, variable)
            return sizes_in(dims, partial(NamedSize, scope))
        loops = self.source.loops.get(variable, [])
        if loops and len(loops) == len(self.source.bindings.get(variable, ())):
            return _common_dims([self._item(one) for one in loops])
        value = self.source.follow(expr)
        return None if value is expr else self.dims_of(value)

    # ---- items -------------------------------------------------------------------------------------------------------

    def _item(self, iterated: nodes.Expression) -> BatchDims | None:
        """One item of what a loop iterates over."""
        value = self.source.follow(iterated)
        if isinstance(value, nodes.CallExpr) and callee_name(value) in LOADERS:
            return self._loaded(value)
        parts = self._parts(value)
        whole = self.dims_of(iterated) if parts is None else None
        return whole[1:] if whole else parts

    def _loaded(self, call: nodes.CallExpr) -> BatchDims | None:
        """A batch of `DataLoader(batch, batch_size=8)`, whose last one may be smaller."""
        named = dict(zip(call.arg_names, call.args, strict=True))
        whole = (
            self.dims_of(call.args[0]) if call.arg_names[:1] == [None] and not _OTHER_BATCHES & named.keys() else None
        )
        size = named.get("batch_size", call.args[1] if len(call.args) > 1 and call.arg_names[1] is None else None)
        certain = size is None or int_of(self.source, size) is not None
        return (None, *whole[1:]) if whole and certain else None

    def _parts(self, expr: nodes.Expression) -> BatchDims | None:
        """Each of the instances that `unbind`, `split` and `chunk` return."""
        call = self.source.follow(expr)
        callee = call.callee if isinstance(call, nodes.CallExpr) else None
        name = callee.name if isinstance(callee, nodes.NameExpr | nodes.MemberExpr) else ""
        if not isinstance(call, nodes.CallExpr) or name not in _PARTS:
            return None
        is_function = callee_name(call).rpartition(".")[0] in _TORCH
        base, given = self._receiver(call, is_function)
        dims = None if base is None else self.dims_of(base)
        named = dict(zip(call.arg_names, call.args, strict=True))
        place = _PARTS[name]
        dim = named.get("dim", given[place] if len(given) > place else None)
        at = 0 if dim is None else int_of(self.source, dim)
        if dims is None or at is None or not -len(dims) <= at < len(dims):
            return None
        at %= len(dims)
        return (*dims[:at], *(() if name == "unbind" else (None,)), *dims[at + 1 :])

    def _receiver(
        self, call: nodes.CallExpr, is_function: bool
    ) -> tuple[nodes.Expression | None, list[nodes.Expression]]:
        """The instance and the arguments without names."""
        plain = [value for name, value in zip(call.arg_names, call.args, strict=True) if name is None]
        if is_function:
            return (plain[0], plain[1:]) if plain else (None, [])
        return (call.callee.expr, plain) if isinstance(call.callee, nodes.MemberExpr) else (None, plain)

    def _indexed(self, expr: nodes.IndexExpr) -> BatchDims | None:
        base = self.dims_of(expr.base)
        items = expr.index.items if isinstance(expr.index, nodes.TupleExpr) else [expr.index]
        split = next((at for at, item in enumerate(items) if isinstance(item, nodes.EllipsisExpr)), len(items))
        behind = items[split + 1 :]
        cut = 0 if base is None else len(base) - sum(not _is_new(item) for item in behind)
        if base is None or cut < 0:
            return None
        if not behind:
            return self._after_index(base, items[:split])
        front, back = self._after_index(base[:cut], items[:split]), self._after_index(base[cut:], behind)
        return None if front is None or back is None else (*front, *back)

    def _after_index(self, base: BatchDims, items: Sequence[nodes.Expression]) -> BatchDims | None:
        """The dims after numbers, slices and `None`; unknown after anything else."""
        made, rest = list[BatchDim](), [*base]
        facts_of_rows = tensor_facts(self.api, items[0]) if len(items) == 1 else None
        rows = None if facts_of_rows is None else tensor_dims(self.api, items[0], facts_of_rows)
        if facts_of_rows is not None and rows:
            return _picked_rows(base, rows, facts_of_rows.dtypes)
        for item in items:
            if _is_new(item):
                made.append(1)
            elif not rest or not (isinstance(item, nodes.SliceExpr) or self._is_number(item, _NUMBERS[:1])):
                return None
            else:
                size = rest.pop(0)
                made += [self._slice_size(size, item)] if isinstance(item, nodes.SliceExpr) else []
        return (*made, *rest)

    def _slice_size(self, size: BatchDim, item: nodes.SliceExpr) -> BatchDim:
        given = (item.begin_index, item.end_index, item.stride)
        if given == (None, None, None):
            return size
        numbers = [int_of(self.source, part) for part in given]
        certain = all((part is None) == (number is None) for part, number in zip(given, numbers, strict=True))
        return sliced_size(size, *numbers) if certain else None

    def _is_number(self, expr: nodes.Expression, kinds: Sequence[str] = _NUMBERS) -> bool:
        found = get_proper_type(static_type(self.api, expr))
        name = found.type.fullname if isinstance(found, Instance) else ""
        return name in kinds or int_of(self.source, expr) is not None or self._is_loop_counter(expr)

    def _is_loop_counter(self, expr: nodes.Expression) -> bool:
        """Whether a variable counts in a loop over `range`, whose type mypy may still be inferring."""
        variable = expr.node if isinstance(expr, nodes.NameExpr) else None
        if not isinstance(variable, nodes.Var):
            return False
        loops = self.source.loops.get(variable, [])
        counted = [isinstance(one, nodes.CallExpr) and callee_name(one) == "builtins.range" for one in loops]
        return bool(loops) and all(counted) and len(loops) == len(self.source.bindings.get(variable, ()))

    # ---- operators and calls -----------------------------------------------------------------------------------------

    def _operated(self, expr: nodes.OpExpr) -> BatchDims | None:
        """`x + 1` and `x + y`."""
        left, right = self.dims_of(expr.left), self.dims_of(expr.right)
        if left is not None and (left == right or self._is_number(expr.right)):
            return left
        return right if self._is_number(expr.left) else None

    def _call(self, call: nodes.CallExpr) -> BatchDims | None:
        """The batch dims of what a call returns."""
        if any(kind.is_star() for kind in call.arg_kinds):
            return None
        fullname = callee_name(call)
        module, _, name = fullname.rpartition(".")
        if name in _JOINS and (module in _TORCH or fullname in OWN_JOINS):
            return self._joined(call, _JOINS[name])
        is_function = module in _TORCH
        callee = call.callee
        if not is_function:
            made = self._made(call)
            if made is not None or not isinstance(callee, nodes.MemberExpr):
                return made
            name = callee.name
            if facts.made_by(static_type(self.api, callee.expr)) is not None:
                return self._of_class(call, name)
        base, given = self._receiver(call, is_function)
        dims = None if base is None else self.dims_of(base)
        return None if dims is None or "batch_size" in call.arg_names else self._changed(call, name, dims, given)

    def _made(self, call: nodes.CallExpr) -> BatchDims | None:
        """The instance that a constructor, an annotated function or a pipeline returns."""
        batch = batch_of(self.api, call)
        if batch is not None:
            return batch.dims if batch.base is None else None
        found = dims_of_result(self.api, call, self.dims_of)
        if found is not None or len(call.args) != 1:
            return found
        module = get_proper_type(static_type(self.api, call.callee))
        bases = module.type.mro if isinstance(module, Instance) else []
        own = any(base.fullname.startswith("tensorclass.nn.") for base in bases)
        return self.dims_of(call.args[0]) if own and instance_of(self.api, call.args[0]) is not None else None

    def _of_class(self, call: nodes.CallExpr, name: str) -> BatchDims | None:
        if name in ("stack", "cat"):
            return self._joined(call, name)
        if name not in _MAKERS:
            return None
        given = dict(zip(call.arg_names, call.args, strict=True))
        size = call.args[0] if call.args and call.arg_names[0] is None else given.get("batch_size")
        return () if size is None else sizes_of(self.source, size)

    def _changed(
        self, call: nodes.CallExpr, name: str, dims: BatchDims, given: Sequence[nodes.Expression]
    ) -> BatchDims | None:
        """The dims after a method of an instance."""
        if name in KEEPING:
            return dims
        named = {key: value for key, value in zip(call.arg_names, call.args, strict=True) if key is not None}
        if name in RESHAPES:
            items = self.source.items(given[0]) if len(given) == 1 else None
            listed = items is None and len(given) == 1 and not self._is_number(given[0])
            if named or listed or not given:
                return None
            return RESHAPES[name](dims, tuple(int_of(self.source, item) for item in items or given))
        if name not in PLACED:
            return None
        change, parameters = PLACED[name]
        values = [named.get(key, given[at] if at < len(given) else None) for at, (key, _) in enumerate(parameters)]
        numbers = [
            default if value is None else int_of(self.source, value)
            for value, (_, default) in zip(values, parameters, strict=True)
        ]
        return None if None in numbers else change(dims, *numbers)

    def _joined(self, call: nodes.CallExpr, kind: str) -> BatchDims | None:
        """`stack` and `cat` of instances that are written out, or that a comprehension makes."""
        named = dict(zip(call.arg_names, call.args, strict=True))
        if not call.args or call.arg_names[0] is not None or "out" in named:
            return None
        dim = call.args[1] if len(call.args) > 1 and call.arg_names[1] is None else named.get("dim")
        at = 0 if dim is None else int_of(self.source, dim)
        items = self.source.items(call.args[0])
        rows = [self._comprehended(call.args[0])] if items is None else [self.dims_of(item) for item in items]
        sizes, known = _common_dims(rows), [row for row in rows if row is not None]
        if at is None or sizes is None:
            return None
        at = at if at >= 0 else at + len(sizes) + (kind == "stack")
        if not 0 <= at < len(sizes) + (kind == "stack"):
            return None
        if kind == "stack":
            return (*sizes[:at], None if items is None else len(known), *sizes[at:])
        total = None if items is None else total_size([row[at] for row in known])
        return (*sizes[:at], total, *sizes[at + 1 :])

    def _comprehended(self, expr: nodes.Expression) -> BatchDims | None:
        value = self.source.follow(expr)
        inner = value.generator if isinstance(value, nodes.ListComprehension) else value
        return self.dims_of(inner.left_expr) if isinstance(inner, nodes.GeneratorExpr) else self._parts(value)


def _common_dims(rows: Sequence[BatchDims | None]) -> BatchDims | None:
    """The dims that all have, if all have the same number: unknown sizes where they differ."""
    known = [row for row in rows if row is not None]
    if not known or len(known) != len(rows) or len({len(row) for row in known}) != 1:
        return None
    return tuple(column[0] if len({*column}) == 1 else None for column in zip(*known, strict=True))


def _picked_rows(base: BatchDims, rows: BatchDims, dtypes: Dtypes) -> BatchDims | None:
    """The dims after an index by one tensor: a mask, or numbers of rows."""
    if dtypes == BOOL:
        return (None, *base[len(rows) :]) if len(rows) <= len(base) else None
    return (*rows, *base[1:]) if dtypes == INT64 else None


def tensor_dims(api: Any, expr: nodes.Expression, found: TensorFacts | None) -> BatchDims | None:
    """All dims of a tensor, which may be a field of an instance with known batch dims."""
    shape = None if found is None else found.shape
    if shape is None or shape.base is None:
        return None if shape is None else shape.dims
    lead = batch_dims(api, shape.base.expr) if isinstance(shape.base, Lead) else None
    more = -1 if lead is None else len(lead) + shape.extra - len(shape.dims)
    if lead is None or more < 0:
        return None
    value = source_of(api).follow(expr)
    is_field = isinstance(value, nodes.MemberExpr) and instance_of(api, value.expr) is not None
    return (*(lead if is_field else (None,) * more), *shape.dims)


def _is_new(item: nodes.Expression) -> bool:
    return isinstance(item, nodes.NameExpr) and item.name == "None"
