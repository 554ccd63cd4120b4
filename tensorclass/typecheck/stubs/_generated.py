"""The generated parts of a stub for a typed class: base and options, the constructor, the types of keys."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ..._operations import BY_FIELD
from ._fields import DECORATOR, NO_FIELDS, ROOTS, SPECIFIERS, FieldLine
from ._project import items_of

if TYPE_CHECKING:
    from ._pyi import Module

IMPORTS = (
    ("tensorclass.typecheck", "_stub_types", "_t"),
    ("typing", "Any", "_Any"),
    ("typing", "Literal", "_Literal"),
    ("typing", "overload", "_overload"),
    ("typing_extensions", "Self", "_Self"),
)
"""The imports of generated lines, under names that hide nothing."""
TENSORS = {"Tensor", "torch.Tensor"}
LEAVES = {
    *TENSORS, "_t.PerElementValues", "_t.RaggedTensor", "None", "str", "int", "float", "bool", "dict", "list", "tuple",
}  # fmt: skip
"""Types without keys below; any other type may have some."""
DEEPEST = 3
GETITEM = (
    "def __getitem__(self, index: {key}) -> {reads}: ...",
    "def __getitem__(self, index: _t.{other}) -> _Any: ...",
    "def __getitem__(self, index: _t.BatchIndex) -> _Self: ...",
)
GET = (
    "def get(self, key: {key}) -> {reads}: ...",
    "def get(self, key: _t.Tensor) -> _t.Tensor: ...",
    "def get(self, key: _t.{other}) -> _Any: ...",
    "def get(self, key: _t.Key, default: _Any, **options: _Any) -> _Any: ...",
)
SET = (
    "def set(self, key: {key}, item: {takes}, inplace: bool = ..., *, non_blocking: bool = ...) -> _Self: ...",
    "def set(self, key: _t.{other}, item: _Any, inplace: bool = ..., **options: _Any) -> _Self: ...",
)
SETITEM = (
    "def __setitem__(self, index: {key}, value: {takes}) -> None: ...",
    "def __setitem__(self, index: _t.{other}, value: _Any) -> None: ...",
    "def __setitem__(self, index: _t.BatchIndex, value: {written}) -> None: ...",
)
PICK = ("def pick(self, cls: type[_t.B], /) -> _t.B: ...", "def pick(self, /, *fields: {keys}) -> _Any: ...")
"""Methods with field names as arguments. Paths in `pick` may have dots, and a reference has the type of its field."""
QUOTED = re.compile(r'"(\w+)"')
UPDATE = "def {name}(self, input_dict_or_td: {cls} | _t.Entries | None = ..., *_: _Any, **kwargs: _Any) -> _Self: ..."
"""Instances of unrelated classes are refused."""
PER_ELEMENT = re.compile(r"_t\.PerElementValues\[.*?\]")
WRITES = ("set", "__setitem__")
KEYED = {"__getitem__": GETITEM, "get": GET, "set": SET, "__setitem__": SETITEM}
"""A method by key: the overload for the fields of one type, then that of the base class."""
WRITTEN = "_Self | _t.Untyped"
"""The values that an index assignment accepts."""
OTHER = {"__getitem__": "Subscript", "get": "Key", "set": "Key", "__setitem__": "Subscript"}
STRICT = {name: f"Other{key}" for name, key in OTHER.items()}
"""The other types of keys; with strict keys, without strings and paths."""
PYRIGHT = "  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]"
OVERRIDES = f"  # type: ignore[override, unused-ignore]{PYRIGHT}"
FROZEN = f"  # type: ignore[misc, unused-ignore]{PYRIGHT}"
SHADOWS = f"  # type: ignore[assignment, unused-ignore]{PYRIGHT}"


def class_head(module: Module, node: ast.ClassDef) -> tuple[str, str]:
    """`class Digits(TensorClass, frozen=True)` for what the decorator says, and the comment behind the colon."""
    file = module.file
    bases = [_base(module, base) for base in node.bases]
    if not module.stubs.declarations.has_typed_base(file, node):
        generic = next((i for i, base in enumerate(node.bases) if file.full_name(base) == "typing.Generic"), len(bases))
        bases.insert(generic, _name_of(module, ROOTS[0]))
    calls = [d for d in node.decorator_list if isinstance(d, ast.Call) and file.full_name(d) == DECORATOR]
    options = [k for call in calls for k in call.keywords] + node.keywords
    given = [f"{k.arg}={file.text_of(k.value)}" if k.arg else f"**{file.text_of(k.value)}" for k in options]
    brackets = [f"{option}=True" for base in node.bases for option in _bracket_options(module, base)]
    parameters = ", ".join(file.text_of(p) for p in getattr(node, "type_params", []))
    name = f"{node.name}[{parameters}]" if parameters else node.name
    comment = file.head(node)[1]
    if module.stubs.declarations.is_frozen(file, node, inherited=False):
        module.need(*IMPORTS[0])
        bases.insert(0, "_t.Frozen")
        comment = FROZEN
    elif module.stubs.declarations.is_first(file, node):
        module.need(*IMPORTS[0])
        bases.insert(0, "_t.Declared")
    return f"class {name}({', '.join([*bases, *given, *brackets])})", comment


def _base(module: Module, base: ast.expr) -> str:
    return module.file.text_of(
        base.value if isinstance(base, ast.Subscript) and _bracket_options(module, base) else base
    )


def _bracket_options(module: Module, base: ast.expr) -> list[str]:
    """The options of `TensorClass["shadow"]`."""
    if not isinstance(base, ast.Subscript) or module.file.full_name(base) not in ROOTS:
        return []
    return [str(item.value) for item in items_of(base.slice) if isinstance(item, ast.Constant)]


def _name_of(module: Module, full: str) -> str:
    """The name of a class of this package in the module; imported if it has none."""
    found = next((name for name, stands_for in module.file.names.items() if stands_for == full), None)
    package, _, name = full.rpartition(".")
    return found or module.need(package, name, f"_{name}")


def declared(module: Module, node: ast.ClassDef, line: ast.AnnAssign) -> str:
    """A line of the body; a default that is not a plain value is `...`."""
    file, value = module.file, line.value
    if file.full_name(line.annotation).rpartition(".")[2] in NO_FIELDS:
        return file.statement(line)
    reads, takes = module.types.read(line.annotation), module.types.read(line.annotation, given=True)
    kept = isinstance(value, ast.Call) and file.full_name(value) in SPECIFIERS
    kept = kept or (isinstance(value, ast.Constant) and reads == takes)
    said = class_head(module, node)[0] + (file.text_of(value) if isinstance(value, ast.Call) else "")
    mark = SHADOWS if "shadow=True" in said or file.text_of(line.target) in module.stubs.checker.yielding else ""
    if not mark and _is_referred(module, node, line):
        module.need(*IMPORTS[0])
        module.need(*IMPORTS[2])
        name = file.text_of(line.target)
        row = f'{name}: _t.Field[{file.text_of(line.annotation)}, _Literal["{name}"]]'
        return row if value is None else f"{row} = {file.text_of(value)}"
    inside = [part for part in ast.walk(line.annotation) if isinstance(part, ast.Subscript)]
    apart = reads != takes and " | " in reads  # no checker looks for a descriptor in a union
    if apart or "tensorclass.Ragged" in map(file.full_name, inside):  # at run time an alias of `Annotated`
        module.need(*IMPORTS[0])
        row = f"{file.text_of(line.target)}: {f'_t.Stored[{reads}, {takes}]' if apart else reads}"
        shown = file.text_of(value) if kept and value is not None else "..."
        return f"{row}{mark}" if value is None else f"{row} = {shown}{mark}"
    if value is None or kept:
        return f"{file.text_of(line)}{mark}" if mark else file.statement(line)
    return f"{file.text_of(line.target)}: {file.text_of(line.annotation)} = ...{mark}"


def _is_referred(module: Module, node: ast.ClassDef, line: ast.AnnAssign) -> bool:
    """Whether a field of a class is a reference with its name: of a tensor, where strings are the names of fields."""
    known, value = module.stubs.declarations, line.value
    plain = value is None or module.file.full_name(value) == SPECIFIERS[1]
    tensor = plain and module.types.read(line.annotation) in TENSORS
    return module.stubs.strict_keys and tensor and not known.is_frozen(module.file, node)


def generated_lines(module: Module, node: ast.ClassDef) -> Iterator[str]:
    """The constructor and the types of string keys; left to the checker if a parent is in another module."""
    found = module.stubs.declarations.fields(module.types, node)
    own = {line.name for line in node.body if isinstance(line, (ast.FunctionDef, ast.AsyncFunctionDef))}
    own |= found.rows.keys()
    if module.stubs.declarations.is_first(module.file, node):
        module.need(*IMPORTS[1])
        module.need(*IMPORTS[4])
        yield f"def __exactly__(self, other: _Self, /) -> _Self: ...{OVERRIDES}"
        names = [name for name in ("update", "update_") if name not in own and _is_plain(module, node)]
        yield from (f"{UPDATE.format(name=name, cls=node.name)}{OVERRIDES}" for name in names)
    if not found.whole or not found.rows:
        yield from [_has("str")] if module.stubs.strict_keys and found.rows else []
        return
    for needed in IMPORTS:
        module.need(*needed)
    if module.stubs.strict_keys:
        names = [f'"{field.name}"' for field in found.rows.values() if field.stored and not field.produced]
        yield _has(f"_Literal[{', '.join(names)}]" if names else "_t.Never")
    # If any string is a key, it may write any value, so value types are only useful with strict keys.
    writes = module.stubs.strict_keys and not module.stubs.declarations.is_frozen(module.file, node)
    stored = [field for field in found.rows.values() if field.stored]
    if stored and "replace" not in own and _is_plain(module, node):
        yield from replacing(node.name, stored)
    keys = list(_keys(module, found.rows.values()))
    for name in KEYED:
        if name not in own and (writes or name not in WRITES):
            yield from _keyed_overloads(name, keys, module.stubs.strict_keys)
    if module.stubs.strict_keys and keys:
        yield from _by_field(keys, own)


def _by_field(keys: list[tuple[str, FieldLine]], own: set[str]) -> Iterator[str]:
    """The methods that take names of fields; a reference to a field of another type looks like its value."""
    types = {word for _, field in keys for word in re.findall(r"[\w.]+", PER_ELEMENT.sub("", field.reads))}
    text = f"{_union(key for key, _ in keys)} | _t.Reference"
    if not types & {"str", "_Any", "Any", "object"}:
        rows = {name: f"def {name}(self, {row.format(keys=text)}: ..." for name, row in BY_FIELD.items()}
        yield from (line + OVERRIDES for name, line in rows.items() if name not in own)
    open_ended = any("_t.Unpack" in key for key, _ in keys)
    if not types & {"str", "_Any", "Any", "object"} and not open_ended and "pick" not in own:
        dotted = [f'_Literal["{".".join(re.findall(QUOTED, key))}"]' for key, _ in keys]
        text = " | ".join(
            dict.fromkeys(
                [
                    _union([*dotted, *(key for key, _ in keys if key.startswith("tuple"))]),
                    "_t.Reference",
                    *(field.reads for _, field in keys),
                ]
            )
        )
        yield from (f"@_overload{OVERRIDES}\n{row.format(keys=text)}{OVERRIDES}" for row in PICK)


def _union(keys: Iterable[str]) -> str:
    return " | ".join(keys).replace('"] | _Literal["', '", "')


def _has(names: str) -> str:
    return f"def __delattr__(self, name: {names}, /) -> None: ...{OVERRIDES}"


def _is_plain(module: Module, node: ast.ClassDef) -> bool:
    """Whether the stub can name the type of a class: it is at the top of the module and not generic."""
    generic = bool(getattr(node, "type_params", ())) or "typing.Generic" in map(module.file.full_name, node.bases)
    return module.file.classes.get(node.name) is node and not generic


def _keys(module: Module, fields: Iterable[FieldLine], path: tuple[str, ...] = ()) -> Iterator[tuple[str, FieldLine]]:
    """The keys of a class as types, with those of nested classes in the same file; any key below other classes."""
    stored = [(field, [f'_Literal["{name}"]' for name in (*path, field.name)]) for field in fields if field.stored]
    yield from ((f"tuple[{', '.join(key)}]" if path else key[0], field) for field, key in stored)
    for field, key in stored:
        nested, known = module.file.classes.get(field.reads), module.stubs.declarations
        inner = nested is not None and known.is_typed(module.file, nested) and known.fields(module.types, nested)
        if inner and inner.whole and len(path) < DEEPEST:
            yield from _keys(module, inner.rows.values(), (*path, field.name))
        elif module.stubs.strict_keys and not LEAVES.issuperset(re.findall(r"[\w.]+", field.reads)):
            yield f"tuple[{', '.join(key)}, _t.Unpack[tuple[_Any, ...]]]", replace(field, reads="_Any", takes="_Any")


def replacing(name: str, fields: Iterable[FieldLine]) -> Iterator[str]:
    """`replace` with what may be changed."""
    yield f"@_t.changed{OVERRIDES}"
    rows = ["self", "_changes: _Any = ...", "/", "*", *(f"{f.name}: {f.takes} = ..." for f in fields)]
    yield f"def replace({PYRIGHT}\n" + "".join(f"    {row},\n" for row in rows) + f") -> {name}: ..."


def _keyed_overloads(name: str, keys: Iterable[tuple[str, FieldLine]], strict: bool) -> Iterator[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for key, field in keys:
        groups.setdefault((field.reads, field.takes if name in WRITES else ""), []).append(key)
    first, *others = KEYED[name]
    rows = [first.format(key=_union(alike), reads=reads, takes=takes) for (reads, takes), alike in groups.items()]
    rows += [template.format(other=(STRICT if strict else OTHER)[name], written=WRITTEN) for template in others]
    for position, row in enumerate(rows):
        # Checkers compare the order of overloads with that of the base, and report it on one of these lines.
        yield f"@_overload{'' if position else OVERRIDES}"
        yield f"{row}{OVERRIDES if position in (0, len(rows) - 1) else ''}"
