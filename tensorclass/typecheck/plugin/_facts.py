"""Facts of the plugin about a typed class: declared fields and options, stored in metadata that mypy caches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any, NamedTuple

from mypy.expandtype import expand_type_by_instance
from mypy.maptype import map_instance_to_supertype
from mypy.nodes import ARG_NAMED, ARG_NAMED_OPT, ARG_OPT, ARG_POS, ARG_STAR, ARG_STAR2, ArgKind, TypeInfo, Var
from mypy.types import (
    CallableType,
    FunctionLike,
    Instance,
    LiteralType,
    ProperType,
    TupleType,
    Type,
    TypeType,
    TypeVarType,
    UnionType,
    get_proper_type,
)

from ...errors import did_you_mean, nearest
from .._rules import ClassDeclaration as ClassDeclaration
from ._source import anything

ROOT = "tensorclass.classes._base.TensorClass"
FROZEN_ROOT = "tensorclass.classes._base.FrozenTensorClass"
EXTRAS = ("batch_size", "device", "names")
KEY = "tensorclass"
"""The key of the plugin's own record in `TypeInfo.metadata`."""
MADE_OF = "__tensorclass_made_of__"
"""For a class made from classes: the name of the tuple with the kind and the sources."""


def is_batch_class(info: object) -> bool:
    """Whether a class is a typed class whose fields are recorded."""
    if not isinstance(info, TypeInfo) or info.fullname in (ROOT, FROZEN_ROOT):
        return False
    return KEY in info.metadata or (info.is_intersection and any(map(is_batch_class, info.mro[1:])))


def is_below_root(info: TypeInfo) -> bool:
    """Whether a class is, or will be, a typed class."""
    return info.fullname not in (ROOT, FROZEN_ROOT) and any(base.fullname == ROOT for base in info.mro)


def batch_instance(typ: Type | None) -> Instance | None:
    """The type as an instance of a typed class, also behind `Self` or another type variable; None for anything else."""
    proper = bounded(typ)
    return proper if isinstance(proper, Instance) and is_batch_class(proper.type) else None


def made_by(typ: Type | None) -> Instance | None:
    """The instance of a typed class that a class object makes: `C`, `type[C]`, `type(self)` and `cls`."""
    proper = bounded(typ)
    if isinstance(proper, TypeType):
        return batch_instance(proper.item)
    if isinstance(proper, FunctionLike) and proper.is_type_obj():
        return batch_instance(proper.items[0].ret_type)
    return None


def bounded(typ: Type | None) -> ProperType | None:
    """The type, or the bound of a type variable."""
    proper = get_proper_type(typ)
    while isinstance(proper, TypeVarType) and not proper.values:
        proper = get_proper_type(proper.upper_bound)
    return proper


def record(info: TypeInfo) -> dict[str, Any]:
    """The plugin's record of one class, created if missing."""
    made: dict[str, Any] = info.metadata.setdefault(KEY, {"fields": {}, "options": {}})
    return made


_MOST = 4096
_read: dict[int, tuple[dict[str, Any], dict[str, ClassDeclaration]]] = {}


def own_fields(info: TypeInfo) -> dict[str, ClassDeclaration]:
    """The fields that one class declares itself."""
    made = info.metadata.get(KEY)
    if made is None:
        return {}
    rows: dict[str, Any] = made["fields"]
    known = _read.get(id(rows))
    if known is None or known[0] is not rows:
        if len(_read) >= _MOST:
            _read.clear()
        known = _read[id(rows)] = rows, {name: ClassDeclaration.from_json(row) for name, row in rows.items()}
    return known[1]


def fields_of(info: TypeInfo) -> dict[str, ClassDeclaration]:
    """Every field of a class, parents first."""
    found: dict[str, ClassDeclaration] = {}
    for base in reversed(lineage(info)):
        found.update(own_fields(base))
    return found


def lineage(info: TypeInfo) -> list[TypeInfo]:
    """A class and its parents up to the root, whose many parents declare no fields."""
    return list(takewhile(lambda base: base.fullname != ROOT, info.mro))


def option(info: TypeInfo, name: str) -> object:
    """An option of a class, inherited as at run time; None if not given."""
    records = (base.metadata[KEY]["options"] for base in lineage(info) if KEY in base.metadata)
    return next((options[name] for options in records if name in options), None)


def attributes(info: TypeInfo) -> Iterator[Mapping[str, Any]]:
    """The rows of mypy's own dataclass support: name, whether it has a default, whether the constructor takes it."""
    if MADE_OF in info.names:
        return iter(_made_rows(info))
    rows: list[Mapping[str, Any]] = info.metadata.get("dataclass", {}).get("attributes", [])
    return (row for row in rows if row["name"] not in EXTRAS)


def required(info: TypeInfo) -> set[str]:
    """The required fields of the constructor."""
    return {row["name"] for row in attributes(info) if row["is_in_init"] and not row["has_default"]}


def _made_rows(info: TypeInfo) -> list[Mapping[str, Any]]:
    """The rows of a class that is made of classes."""
    made = get_proper_type(info.names[MADE_OF].type)
    how, *sources = map(get_proper_type, made.items if isinstance(made, TupleType) else [])
    partial = isinstance(how, LiteralType) and str(how.value).startswith("partial")
    found: dict[str, Mapping[str, Any]] = {}
    late = False
    for row in (row for source in sources if isinstance(source, Instance) for row in attributes(source.type)):
        default = row["has_default"] or partial
        found.setdefault(
            row["name"], {**row, "has_default": default, "kw_only": row["kw_only"] or (late and not default)}
        )
        late = late or (default and not row["kw_only"])
    return [found[name] for name in fields_of(info) if name in found]


def parameters(owner: Instance) -> list[tuple[str, Type, ArgKind]]:
    """The parameters of the constructor of a class made from classes."""
    kinds = {(False, False): ARG_POS, (False, True): ARG_NAMED, (True, False): ARG_OPT, (True, True): ARG_NAMED_OPT}
    rows = [row for row in attributes(owner.type) if row["is_in_init"]]
    found = [(row["name"], field_type(owner, row["name"]), kinds[row["has_default"], row["kw_only"]]) for row in rows]
    return sorted(((n, set_type(t), k) for n, t, k in found if t is not None), key=lambda row: row[2].is_named())


def set_type(typ: Type) -> Type:
    """What a field of a type takes: of a descriptor, what its `__set__` does."""
    proper = get_proper_type(typ)
    members: list[Type] = []
    for member in map(get_proper_type, proper.items if isinstance(proper, UnionType) else [proper]):
        setter = member.type.get_method("__set__") if isinstance(member, Instance) else None
        signature = get_proper_type(setter.type) if setter is not None else None
        if isinstance(member, Instance) and isinstance(signature, CallableType) and len(signature.arg_types) == 3:
            members.append(expand_type_by_instance(signature.arg_types[2], member))
        else:
            members.append(member)
    return UnionType.make_union(members)


def with_fields(signature: CallableType, owner: Instance) -> CallableType:
    """The constructor of a class made from classes; for its subclasses, it accepts anything."""
    init = next(base for base in owner.type.mro if base.fullname == ROOT).get_method("__init__")
    extras = get_proper_type(init.type) if init is not None else None
    rows: list[tuple[str | None, Type, ArgKind]] = [*parameters(owner)]
    if MADE_OF not in owner.type.names or not isinstance(extras, CallableType):
        rows = [("args", anything(), ARG_STAR), ("kwargs", anything(), ARG_STAR2)]
    else:
        rows += [*zip(extras.arg_names, extras.arg_types, extras.arg_kinds, strict=True)][1:]
    columns: Any = [list(column) for column in zip(*rows, strict=True)]
    return signature.copy_modified(arg_names=columns[0], arg_types=columns[1], arg_kinds=columns[2])


def field_type(owner: Instance, name: str) -> ProperType | None:
    """The type of a field on an instance, with the arguments of a generic class substituted."""
    symbol = owner.type.get(name)
    if symbol is None or not isinstance(symbol.node, Var) or symbol.node.type is None:
        return None
    holder = symbol.node.info if symbol.node.info else owner.type
    return get_proper_type(expand_type_by_instance(symbol.node.type, map_instance_to_supertype(owner, holder)))


class Found(NamedTuple):
    """A field at the end of a path: the class that declares it, its declaration and its type."""

    owner: Instance
    declared: ClassDeclaration
    type: ProperType


class NoField(NamedTuple):
    """A name on a path that is not a field of the class at that point."""

    name: str
    owner: Instance

    def __str__(self) -> str:
        names = list(fields_of(self.owner.type))
        return f'{self.owner.type.name} has no field "{self.name}"{did_you_mean(self.name, names)}'


def meant_field(missing: NoField) -> Found | None:
    """The field that was probably meant by a name that is none."""
    near = nearest(missing.name, fields_of(missing.owner.type))
    found = None if near is None else at_path(missing.owner, (near,))
    return found if isinstance(found, Found) else None


def at_path(owner: Instance, path: tuple[str, ...]) -> Found | NoField | None:
    """The field at a path; None if a value on the path is not a typed class."""
    for position, name in enumerate(path):
        declared, found = fields_of(owner.type).get(name), field_type(owner, name)
        if declared is None or found is None:
            return NoField(name, owner)
        if position == len(path) - 1:
            return Found(owner, declared, found)
        inner = batch_members(found)
        if len(inner) != 1:
            return None
        owner = inner[0]
    return None


def batch_members(typ: Type) -> list[Instance]:
    """The typed classes among the members of a type: for `Inputs | None`, `Inputs`."""
    proper = get_proper_type(typ)
    found = map(batch_instance, proper.items if isinstance(proper, UnionType) else [proper])
    return [member for member in found if member is not None]
