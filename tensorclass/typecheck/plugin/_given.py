"""Checks values against their fields: dtype, event shape, dims that fields share, batch size and dim names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from mypy import nodes
from mypy.erasetype import erase_type
from mypy.plugin import AttributeContext
from mypy.subtypes import is_subtype
from mypy.types import Instance, NoneType, ProperType, Type, UnionType, get_proper_type

from ..._dims import AnyDim, Bindings, Dims
from ...errors import did_you_mean
from . import _facts as facts
from ._call_parts import Known, Several, TensorFacts
from ._codes import BATCH, DEVICE, DTYPE, SHAPE, UNKNOWN_KEY, VALUE
from ._promotion import kind_rank
from ._shapes import sizes_of, torch_name
from ._sizes import KnownSizes, Shape
from ._source import Source, call_arguments, source_of
from ._types import instance_of
from ._values import Lead, Values, tensor_facts


class Batch(NamedTuple):
    """Known leading dims, and a description of their source."""

    sizes: KnownSizes
    source: str


class GivenCheck:
    """Checks the fields of one instance in turn, as at run time; unknown values pass."""

    def __init__(self, api: Any, info: nodes.TypeInfo) -> None:
        self.api = api
        self.info = info
        self.source: Source = source_of(api)
        self.bindings = Bindings()

    def known(self, value: nodes.Expression) -> Known:
        """What is known of a value."""
        found = Values(self.api).known(value)
        if not isinstance(found, TensorFacts) or found.shape is None:
            return found
        return replace(found, shape=_with_known_lead(self.api, found.shape))

    def check(self, values: Mapping[str, nodes.Expression], batch: Batch | None = None, whole: bool = False) -> None:
        """Values by field. With `whole` they make an instance, so that all of them must agree about the batch."""
        if facts.option(self.info, "validate") == "off":
            return
        fields = facts.fields_of(self.info)
        known = {name: value for name, value in values.items() if name in fields and fields[name].coerce != "cast"}
        found = {name: self.known(value) for name, value in known.items()}
        if batch is None and whole:
            batch = self.infer(known)
        for name, fact in found.items():
            single = fact if isinstance(fact, TensorFacts) else None
            if fields[name].kind.is_ragged:
                self._ragged(name, fields[name], single, batch, known[name])
            elif fact is not None and fields[name].kind.is_dense:
                self._tensor(name, fields[name], fact, batch, known[name])
            if batch is not None and (fact is None or not fields[name].kind.is_dense):
                self._other(name, fields[name], batch, known[name])

    def infer(self, values: Mapping[str, nodes.Expression]) -> Batch | None:
        """The batch size from the first field whose event dims fit; a field whose dims don't fit is wrong anyway."""
        fields, said = facts.fields_of(self.info), list[tuple[bool, Batch]]()
        for name, value in values.items():
            dims = fields[name].shape if name in fields and fields[name].kind.is_batched else None
            fact = None if dims is None or dims.rank is None else self.known(value)
            if dims is None or dims.rank is None or not isinstance(fact, TensorFacts) or fact.shape is None:
                continue
            shape, count = fact.shape, len(fact.shape.dims) - dims.rank
            if shape.base is not None:
                lead = KnownSizes(shape.dims[: max(count, 0)], shape.base, shape.extra - dims.rank)
                said.append((True, Batch(lead, f' (inferred from "{name}")')))
            elif count >= 0:
                fits = not Bindings().bind(name, *_fitting_sizes(dims, shape.dims[count:]))
                said.append((fits, Batch(KnownSizes(shape.dims[:count]), f' (inferred from "{name}")')))
        return next((batch for fits, batch in said if fits), said[0][1] if said else None)

    def _tensor(
        self,
        name: str,
        field: facts.ClassDeclaration,
        fact: TensorFacts | Several,
        batch: Batch | None,
        where: nodes.Expression,
    ) -> None:
        """Check a tensor against its field: dtype, then shape."""
        if not isinstance(fact, TensorFacts):
            self._fail(f'"{name}" is declared {field}, given is a tuple of {len(fact)}; choose one', where, VALUE)
            return
        dtypes = field.dtypes
        clash = dtypes is not None and fact.dtypes is not None and not dtypes & fact.dtypes
        if clash and (field.coerce or not facts.option(self.info, "autocast")):
            self._fail(f'"{name}" is declared {field}, given is {fact}', where, DTYPE)
        elif field.shape is not None and fact.shape is not None:
            self._shape(
                name,
                field,
                field.shape,
                fact,
                fact.shape,
                Batch(KnownSizes(()), "") if field.kind.is_shared else batch,
                where,
            )

    def _shape(
        self,
        name: str,
        field: facts.ClassDeclaration,
        dims: Dims,
        fact: TensorFacts,
        shape: KnownSizes,
        batch: Batch | None,
        where: nodes.Expression,
    ) -> None:
        """Check a shape against the declared dims, as far as both are known."""
        event = _event_rank(dims, shape, batch)
        if event is None:
            self._last_dims(name, field, dims, shape, where)
        elif event < dims.min_rank or (dims.rank is not None and event > dims.rank):
            self._fail(self._rank(name, field, fact, batch), where, SHAPE)
        elif (
            batch is not None and shape.base is None and not _agree(shape.dims[: len(shape.dims) - event], batch.sizes)
        ):
            text = f'"{name}" is {fact}, and the batch size is {batch.sizes}{batch.source}'
            self._fail(text, where, BATCH)
        else:
            self._event(name, field, dims, shape.last(event), where)

    def _last_dims(
        self, name: str, field: facts.ClassDeclaration, dims: Dims, shape: KnownSizes, where: nodes.Expression
    ) -> None:
        """The last dims, where the number of those before them is unknown."""
        if dims.rank is not None:
            self._event(name, field, dims, shape.last(dims.rank), where)

    def _ragged(
        self,
        name: str,
        field: facts.ClassDeclaration,
        fact: TensorFacts | None,
        batch: Batch | None,
        where: nodes.Expression,
    ) -> None:
        """One padded tensor, which is right as one element only, or the elements of a list that is written out."""
        rank = None if field.shape is None else field.shape.rank
        batched = fact is not None and fact.shape is not None and rank is not None and len(fact.shape.dims) > rank
        if batched or (fact is not None and batch is not None and batch.sizes.dims):
            text = f'"{name}" is declared Ragged[{field}], and of a padded tensor it is not known what counts'
            self._fail(f"{text}; give a list of tensors, or RaggedTensor.unpad(tensor, lengths)", where, SHAPE)
        for item in self.source.items(where) or ():
            element = tensor_facts(self.api, item)
            tokens = None if field.shape is None else field.shape.tokens
            if element is not None and tokens:
                own = replace(field, dims=" ".join(["_", *map(str, tokens[1:])]))
                self._tensor(name, own, element, Batch(KnownSizes(()), ""), item)

    def _rank(self, name: str, field: facts.ClassDeclaration, fact: TensorFacts, batch: Batch | None) -> str:
        known = batch is not None and (batch.sizes.base is None or batch.source)
        behind = f" behind the batch dims {batch.sizes}{batch.source}" if known and batch is not None else ""
        return f'"{name}" is declared {field}{behind}, given is {fact}'

    def _event(
        self, name: str, field: facts.ClassDeclaration, dims: Dims, event: Shape, where: nodes.Expression
    ) -> None:
        """Bind the dims with known sizes; none in a shape of unknown rank."""
        if dims.rank is None and None in event:
            return
        for problem in [*self.bindings.bind(name, *_fitting_sizes(dims, event)), *self.bindings.finish()]:
            hint = problem.hint.replace("`", '"').replace("\n", "; ")
            self._fail(f'"{problem.path}" is declared {field}: {hint}', where, SHAPE)

    def _other(self, name: str, field: facts.ClassDeclaration, batch: Batch, where: nodes.Expression) -> None:
        value = self.source.follow(where)
        items = None if isinstance(value, nodes.TupleExpr) else self.source.items(where)
        if field.kind.is_listed and items is not None and batch.sizes.dims and batch.sizes.rank:
            count, size = len(items), batch.sizes.dims[0]
            if size is not None and count != size:
                text = f'"{name}" is given {count} values, and the batch size is {batch.sizes}{batch.source}'
                self._fail(text, where, BATCH)
        inner = batch_of(self.api, value)
        if inner is not None and not _starts_with(inner, batch.sizes):
            text = f'"{name}" has batch size {inner}, and the batch size is {batch.sizes}{batch.source}'
            self._fail(text, where, BATCH)

    def _fail(self, text: str, where: nodes.Context, code: Any) -> None:
        self.api.fail(f"{self.info.name}: {text}", where, code=code)


def _fitting_sizes(dims: Dims, event: Shape) -> tuple[Dims, tuple[int, ...]]:
    """Dims and sizes in which an unknown size fits anything."""
    if dims.rank is not None:
        pairs = zip(dims.tokens, event, strict=True)
        dims = Dims(tuple(AnyDim() if size is None else token for token, size in pairs))
    return dims, tuple(0 if size is None else size for size in event)


def _event_rank(dims: Dims, shape: KnownSizes, batch: Batch | None) -> int | None:
    """How many dims of a value are behind the batch dims; None if that is unknown."""
    if batch is None:
        event = None if dims.rank is None else min(dims.rank, len(shape.dims))
        return event if shape.base is None else None
    if shape.base is None and batch.sizes.base is None:
        return len(shape.dims) - len(batch.sizes.dims)
    if shape.base == batch.sizes.base:
        return shape.extra - batch.sizes.extra
    short = shape.base is None and len(shape.dims) < dims.min_rank
    return len(shape.dims) if short else None


def _agree(given: Shape, batch: KnownSizes) -> bool:
    """Whether the leading sizes of a value may be the batch size."""
    if batch.base is not None:
        return True
    same = all(None in pair or pair[0] == pair[1] for pair in zip(given, batch.dims, strict=False))
    return len(given) == len(batch.dims) and same


def _starts_with(inner: KnownSizes, batch: KnownSizes) -> bool:
    """Whether the batch size of a nested instance may begin with the one of the outer instance."""
    return inner.base is not None or batch.base is not None or _agree(inner.dims[: len(batch.dims)], batch)


# ---- values by name --------------------------------------------------------------------------------------------------


def check_named_values(
    api: Any,
    owner: Instance,
    rows: Iterable[tuple[str, nodes.Expression, Type | None]],
    batch: Batch | None = None,
    values: bool = True,
) -> None:
    """Check values by field name: the names, the types, and, unless that is done elsewhere, the values together."""
    rows = list(rows)
    for name, value, typ in rows:
        place = facts.at_path(owner, (name,))
        if isinstance(place, facts.NoField):
            api.fail(str(place), value, code=UNKNOWN_KEY)
        elif place is not None and typ is not None and is_certainly_wrong(place, typ):
            _fail_type(api, owner, (name,), place, typ, value)
    if values:
        GivenCheck(api, owner.type).check({name: value for name, value, _ in rows}, batch)


def written(
    api: Any,
    owner: Instance,
    path: tuple[str, ...],
    place: facts.Found,
    value: nodes.Expression,
    typ: Type,
    where: nodes.Context,
    batch: Batch | None,
) -> None:
    """A value at a path."""
    if is_certainly_wrong(place, typ):
        _fail_type(api, owner, path, place, typ, where)
    elif len(path) == 1:
        GivenCheck(api, owner.type).check({path[0]: value}, batch)


def _fail_type(
    api: Any, owner: Instance, path: tuple[str, ...], place: facts.Found, typ: Type, where: nodes.Context
) -> None:
    text = f'"{".".join(path)}" of {owner.type.name} is declared {place.type}, given is {typ}'
    api.fail(text.replace("torch._tensor.Tensor", "Tensor").replace("builtins.", ""), where, code=VALUE)


def is_certainly_wrong(place: facts.Found, typ: Type) -> bool:
    """Whether a value raises."""
    given = get_proper_type(typ)
    if place.declared.kind.is_listed or is_subtype(given, place.type):
        return False
    if place.declared.coerce == "cast" or facts.option(place.owner.type, "autocast"):
        return isinstance(given, NoneType)
    return isinstance(given, NoneType) or refused(given, place.type)


def refused(given: ProperType, declared: ProperType) -> bool:
    """Whether a field of a type certainly refuses a value; a tensor field takes numbers and arrays."""
    if isinstance(declared, UnionType):
        return all(refused(given, get_proper_type(member)) for member in declared.items)
    if not isinstance(given, Instance) or not isinstance(declared, Instance):
        return isinstance(given, Instance) and isinstance(declared, NoneType)
    name, batch = given.type.fullname, facts.batch_instance(given) is not None
    if declared.type.fullname == TENSOR:
        return batch or name in NO_TENSOR
    if name == TENSOR and declared.type.fullname in ("builtins.float", "builtins.complex", "builtins.object"):
        return False  # a tensor of one number
    nested = facts.batch_instance(declared) is not None and name != "builtins.dict"  # which updates it
    known = nested or declared.type.fullname.startswith("builtins.")
    own = batch or name == TENSOR or (known and name.startswith("builtins."))
    return own and not is_subtype(erase_type(given), erase_type(declared))


# ---- devices ---------------------------------------------------------------------------------------------------------

TENSOR = "torch._tensor.Tensor"
NO_TENSOR = tuple(f"builtins.{name}" for name in ("str", "bytes", "dict", "set"))
DEVICES = (
    "cpu", "cuda", "mps", "xpu", "xla", "meta", "hpu", "mtia", "ipu", "vulkan", "hip", "ve", "fpga", "maia", "lazy",
    "mkldnn", "opengl", "opencl", "ideep", "privateuseone", "npu", "mlu", "musa", "gcu", "sdaa", "dml",
)  # fmt: skip
"""The device types of torch, and the names under which private backends are known."""
_DEVICE = re.compile(r"(?P<type>[a-z_]+)(:(0|[1-9]\d*))?")


def device(api: Any, expr: nodes.Expression) -> None:
    """Check the literal name of a device."""
    source = source_of(api)
    value = source.follow(expr)
    if isinstance(value, nodes.CallExpr) and torch_name(value.callee) == "device":
        value = source.follow((call_arguments(value, ("type", "index")) or {}).get("type", value))
    if not isinstance(value, nodes.StrExpr):
        return
    found = _DEVICE.fullmatch(value.value)
    if found is None or found["type"] not in DEVICES:
        near = did_you_mean(value.value.partition(":")[0], DEVICES[:7])
        api.fail(f'"{value.value}" names no device; names are "cpu", "cuda", "cuda:1"{near}', expr, code=DEVICE)


# ---- batch sizes and attributes --------------------------------------------------------------------------------------


def batch_argument(api: Any, given: Mapping[str, nodes.Expression]) -> Batch | None:
    """The batch size that the arguments of a constructor name: numbers, or that of another instance."""
    source, value = source_of(api), given.get("batch_size")
    sizes = None if value is None else sizes_of(source, value)
    if sizes is not None:
        return Batch(KnownSizes(sizes), "")
    read = source.follow(value) if value is not None else None
    of = read.expr if isinstance(read, nodes.MemberExpr) and read.name in ("batch_size", "shape") else None
    return batch_of_instance(api, of) if of is not None and instance_of(api, of) is not None else None


def batch_of(api: Any, expr: nodes.Expression) -> KnownSizes | None:
    """The batch size of an instance that is created in the expression, or that is the only value of a name."""
    source = source_of(api)
    call = source.follow(expr)
    info = call.callee.node if isinstance(call, nodes.CallExpr) and isinstance(call.callee, nodes.RefExpr) else None
    if not isinstance(call, nodes.CallExpr) or not isinstance(info, nodes.TypeInfo) or not facts.is_batch_class(info):
        return None
    rows = [row for row in facts.attributes(info) if row["is_in_init"]]
    found = call_arguments(call, tuple(row["name"] for row in rows if not row["kw_only"]))
    if found is None:
        return None
    explicit = "batch_size" in found
    batch = batch_argument(api, found) if explicit else GivenCheck(api, info).infer(found)
    return None if batch is None else batch.sizes


def assigned(ctx: AttributeContext) -> Type:
    """`batch.label = value`: check the value against the field."""
    owner = facts.batch_instance(ctx.type)
    if ctx.is_lvalue and owner is not None:
        value = source_of(ctx.api).assigned.get(ctx.context)  # type: ignore[call-overload]  # a node
        name = getattr(ctx.context, "name", "")
        if value is not None and name in facts.fields_of(owner.type):
            target: Any = ctx.context
            GivenCheck(ctx.api, owner.type).check({name: value}, batch_of_instance(ctx.api, target.expr))
    return ctx.default_attr_type


def check_augmented_write(api: Any, statement: nodes.OperatorAssignmentStmt) -> None:
    """`batch.count += value`, which torch computes in place: the field holds neither a wider kind nor another shape."""
    target = statement.lvalue
    owner = instance_of(api, target.expr) if isinstance(target, nodes.MemberExpr) else None
    declared = None if owner is None else facts.fields_of(owner.type).get(getattr(target, "name", ""))
    if owner is None or declared is None or not declared.kind.is_dense or not isinstance(target, nodes.MemberExpr):
        return
    made = nodes.OpExpr(statement.op, target, statement.rvalue)
    made.set_line(statement)
    found = tensor_facts(api, made)
    if found is None or found.dtypes is None or declared.dtypes is None:
        return
    most = max(kind_rank(dtype) for dtype in declared.dtypes)
    if declared.dtypes & found.dtypes or min(kind_rank(dtype) for dtype in found.dtypes) > most:
        GivenCheck(api, owner.type).check({target.name: made}, batch_of_instance(api, target.expr))


def batch_of_instance(api: Any, expr: nodes.Expression) -> Batch:
    """The batch dims of an instance, which fields that are read of it have too."""
    return Batch(_with_known_lead(api, KnownSizes((), Values(api).lead(expr))), "")


def _with_known_lead(api: Any, shape: KnownSizes) -> KnownSizes:
    """A shape with all dims if it is counted from the batch dims of an instance whose batch size is known."""
    lead = shape.base
    if not isinstance(lead, Lead) or not isinstance(lead.expr, nodes.NameExpr) or lead.expr.node is None:
        return shape
    known = batch_of(api, lead.expr) if source_of(api).keeps_batch(lead.expr.node) else None
    count = -1 if known is None or known.base is not None else len(known.dims) + shape.extra
    if known is None or count < len(shape.dims):
        return shape
    return known if not shape.dims and not shape.extra else KnownSizes(shape.last(count))
