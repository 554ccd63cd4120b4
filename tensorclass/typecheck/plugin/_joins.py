"""Torch functions on containers: `torch.stack([batch, batch])` is a batch; joins of different classes are reported."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from mypy import nodes
from mypy.plugin import FunctionContext, FunctionSigContext, MethodContext
from mypy.types import CallableType, FunctionLike, Instance, TupleType, Type, UnionType, get_proper_type

from ..._operations import JOINS, PARTS, TORCH_FUNCTIONS
from ._codes import JOIN
from ._facts import MADE_OF, batch_instance, is_batch_class
from ._given import TENSOR
from ._source import anything, source_of, type_of

COLLECTION = "tensorclass.core._base.TensorCollection"
LOADER = "torch.utils.data.dataloader.DataLoader"
ITERATING = {
    *(f"builtins.{name}" for name in ("enumerate", "zip", "list", "tuple", "map", "filter", "sorted")),
    *(f"itertools.{name}" for name in ("islice", "chain", "cycle", "takewhile", "dropwhile", "starmap", "tee")),
    *(f"itertools.{name}" for name in ("pairwise", "batched", "zip_longest", "product")),
    "tqdm.std.tqdm", "tqdm.asyncio.tqdm_asyncio", "tqdm.autonotebook.tqdm", "rich.progress.track",
}  # fmt: skip
"""Functions over the items of a loader."""
_MODULES = ("torch._C._VariableFunctions", "torch.functional")
OWN_JOINS = ("tensorclass.ops._join.stack", "tensorclass.ops._join.cat", "tensorclass.store.lazy._functions.lazy_stack")
_TAKES = {
    "input", "tensors", "tensor", "self", "other", "dataset", "end", "weight", "tensor1", "tensor2", "exponent", "min",
    "max",
}  # fmt: skip
"""The parameters of torch's functions that take containers."""


def torch_function(fullname: str) -> str | None:
    """The name of a torch function that containers support."""
    module, _, name = fullname.rpartition(".")
    return name if module in _MODULES and name in TORCH_FUNCTIONS else None


def widened(ctx: FunctionSigContext, collection: nodes.TypeInfo, sequence: nodes.TypeInfo) -> FunctionLike:
    """Let a torch function accept containers instead of tensors."""
    signature, container = ctx.default_signature, Instance(collection, [])
    types = [
        _widen(typ, container, sequence) if name in _TAKES or position == 0 else typ
        for position, (name, typ) in enumerate(zip(signature.arg_names, signature.arg_types, strict=True))
    ]
    return signature.copy_modified(arg_types=types)


def _widen(typ: Type, container: Instance, sequence: nodes.TypeInfo) -> Type:
    proper = get_proper_type(typ)
    if isinstance(proper, Instance) and proper.type.fullname == TENSOR:
        return UnionType([typ, container])
    members = proper.items if isinstance(proper, UnionType) else []
    if TENSOR in (m.type.fullname for m in map(get_proper_type, members) if isinstance(m, Instance)):
        return UnionType([*members, container])
    if any(isinstance(m, Instance) and m.type.fullname == "builtins.list" for m in map(get_proper_type, members)):
        return UnionType([*members, Instance(sequence, [container])])
    return typ


def result(ctx: FunctionContext, name: str) -> Type:
    """The result of a torch function on containers: that of the method of the container."""
    given = [get_proper_type(typ) for types in ctx.arg_types for typ in types]
    if name in JOINS:
        same_class(ctx)
        item = _item(given[0]) if given else None
        return item if item is not None else ctx.default_return_type
    found = next((typ for typ in given if _is_container(typ)), None)
    if found is None or name == "equal":
        return ctx.default_return_type
    if name in PARTS:
        return ctx.api.named_generic_type("builtins.tuple", [found])
    return found


def _is_container(typ: Type) -> bool:
    return isinstance(typ, Instance) and any(base.fullname == COLLECTION for base in typ.type.mro)


def _item(typ: Type) -> Type | None:
    """The container in a sequence of containers."""
    proper = get_proper_type(typ)
    items: list[Type] = list(getattr(proper, "items", [])) or list(getattr(proper, "args", []))
    found = [get_proper_type(item) for item in items]
    return found[0] if found and _is_container(found[0]) else None


def same_class(ctx: FunctionContext | MethodContext) -> Type:
    """Report joins of two classes, also of a class and its child."""
    values = source_of(ctx.api).items(ctx.args[0][0]) if ctx.args and ctx.args[0] else None
    kinds: list[tuple[nodes.TypeInfo, bool]] = []
    for value in values or ():
        found = get_proper_type(type_of(ctx.api, value))
        if isinstance(found, Instance) and _is_container(found):
            kinds.append((found.type, is_exact(ctx.api, value)))
    for (one, exact), (other, other_exact) in pairwise(kinds):
        kin = one in other.mro or other in one.mro
        known = exact and other_exact and one is not other
        if not kin or (known and are_unlike(one, other)):
            ctx.api.fail(f"Joined are a {one.name} and a {other.name}; one class is needed", ctx.context, code=JOIN)
            break
    return ctx.default_return_type


def are_unlike(one: nodes.TypeInfo, other: nodes.TypeInfo) -> bool:
    """Whether two are different classes, neither of them made from classes."""
    both = is_batch_class(one) and is_batch_class(other)
    return both and one is not other and not any(MADE_OF in base.names for kind in (one, other) for base in kind.mro)


def is_exact(api: Any, expr: nodes.Expression) -> bool:
    """Whether a value is declared with its class, and not `self` or a type variable, which may be of a subclass."""
    source = source_of(api)
    own = isinstance(expr, nodes.NameExpr) and expr.node in source.methods
    return not own and isinstance(get_proper_type(type_of(api, expr)), Instance)


def loader(ctx: FunctionSigContext) -> CallableType:
    """Let `DataLoader(batch)` accept a container, which is a sequence of its elements."""
    if len(ctx.args[0]) != 1:
        return ctx.default_signature
    given = get_proper_type(ctx.api.get_expression_type(ctx.args[0][0]))
    made = get_proper_type(ctx.default_signature.ret_type)
    if not isinstance(given, Instance) or not isinstance(made, Instance) or not _is_container(given):
        return ctx.default_signature
    return ctx.default_signature.copy_modified(
        arg_types=[given, *ctx.default_signature.arg_types[1:]], ret_type=made.copy_modified(args=[given]), variables=[]
    )


def loaded(ctx: FunctionContext) -> Type:
    """The type of a `DataLoader` of instances, if this package collates them."""
    made = get_proper_type(ctx.default_return_type)
    collates = dict(zip(ctx.callee_arg_names, ctx.args, strict=True)).get("collate_fn") or ()
    if not isinstance(made, Instance) or all(
        isinstance(fn, nodes.RefExpr) and (fn.fullname.startswith("tensorclass.") or fn.fullname == "builtins.None")
        for fn in collates
    ):
        return ctx.default_return_type
    function = get_proper_type(type_of(ctx.api, collates[0])) if len(collates) == 1 else None
    joined = function.ret_type if isinstance(function, CallableType) and batch_instance(function.ret_type) else None
    return made.copy_modified(args=[anything() if joined is None else joined])


def iterating(ctx: FunctionSigContext, loader: nodes.TypeInfo) -> FunctionLike:
    """`zip(loader, names)`: a function of iterables accepts a loader of instances as an iterable of its items."""
    signature = ctx.default_signature
    types = list(signature.arg_types)
    for position, given in enumerate(ctx.args[: len(types)]):
        formal = get_proper_type(types[position])
        if not isinstance(formal, Instance) or formal.type.fullname != "typing.Iterable":
            continue
        if given and all(_is_known_loader(ctx.api, expr) for expr in given):
            types[position] = Instance(loader, list(formal.args))
    return signature.copy_modified(arg_types=types)


def iterated(ctx: FunctionContext | MethodContext) -> Type:
    """Batches of a loader of instances: in `for` and `iter(...)`."""
    typ = ctx.type if isinstance(ctx, MethodContext) else next(iter(ctx.arg_types[0]), anything())
    item = _item_of(ctx.api, get_proper_type(typ), ctx.context)
    return ctx.default_return_type if item is None else ctx.api.named_generic_type("typing.Iterator", [item])


def _is_known_loader(api: Any, expr: nodes.Expression) -> bool:
    """Whether an expression is a loader of instances whose items have the type that it states."""
    callee = expr.callee if isinstance(expr, nodes.CallExpr) else expr
    if not isinstance(callee, nodes.RefExpr) or (callee is not expr and callee.fullname != LOADER):
        return False
    typ = get_proper_type(api.get_expression_type(expr))
    return isinstance(typ, Instance) and bool(typ.args) and _item_of(api, typ, expr) == typ.args[0]


def _tensor_in(part: Type, tensor: Type) -> Type:
    """What a loader makes of an item: numbers become tensors."""
    known = ("torch._tensor.Tensor", "builtins.int", "builtins.float", "builtins.bool")
    return tensor if isinstance(part, Instance) and part.type.fullname in known else anything()


def _item_of(api: Any, typ: Type, expr: nodes.Context) -> Type | None:
    """The items of a loader: instances, or tuples with instances if they are unpacked at once."""
    if not isinstance(typ, Instance) or typ.type.fullname != LOADER or not typ.args:
        return None
    item = get_proper_type(typ.args[0])
    if not isinstance(item, TupleType) or source_of(api).unpacked.get(expr) != len(item.items):
        return item if _is_container(item) else None
    parts = [get_proper_type(part) for part in item.items]
    if not any(map(_is_container, parts)):
        return None
    tensor = Instance(api.modules["torch._tensor"].names["Tensor"].node, [])
    made = [part if _is_container(part) else _tensor_in(part, tensor) for part in parts]
    return TupleType(made, item.partial_fallback)
