"""The declarations of the typed classes of a module, including inherited fields, from the source only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..._options import options_with
from ._project import Project, SourceFile, items_of

ROOTS = ("tensorclass.TensorClass", "tensorclass.FrozenTensorClass")
DECORATOR = "tensorclass.tensorclass"
SPECIFIERS = ("tensorclass.field", "tensorclass.produced", "dataclasses.field")
RAGGED = "tensorclass.RaggedTensor"
WRAPPERS = ("tensorclass.Shared", "typing.Annotated", "typing_extensions.Annotated")
FAMILIES = ("tensorclass.typing", "jaxtyping")
NO_PARENTS = ("Generic", "ABC", "object")
"""Parents that declare nothing."""
NO_FIELDS = ("ClassVar", "Final")


@dataclass(frozen=True)
class FieldLine:
    """A line of a class body: the type of reads, the type that the constructor accepts, and whether it is required."""

    name: str
    reads: str
    takes: str
    line: ast.AnnAssign
    default: bool = False
    init: bool = True
    kw_only: bool = False
    stored: bool = True
    """False for an argument of only `__post_init__`."""
    produced: bool = False
    """Whether a module fills it in."""


class Fields(NamedTuple):
    """The fields of a class in the order of the constructor, and whether its parents are in the same file."""

    rows: dict[str, FieldLine]
    whole: bool


class Types(NamedTuple):
    """Reads the annotations of one file; `helper` is the name under which its stub imports the types of stubs."""

    file: SourceFile
    helper: str

    def read(self, node: ast.expr, given: bool = False) -> str:
        """The type for checkers of a field that is read, or passed to the constructor."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return f"{self.read(node.left, given)} | {self.read(node.right, given)}"
        name = self.file.full_name(node.value if isinstance(node, ast.Subscript) else node)
        if name == ("tensorclass.Ragged" if isinstance(node, ast.Subscript) else RAGGED):
            return f"{self.helper}.{'RaggedGiven' if given else 'RaggedTensor'}"
        if not isinstance(node, ast.Subscript):
            return self.file.text_of(node)
        inner = items_of(node.slice)[0]
        if name in WRAPPERS or name.rpartition(".")[0] in FAMILIES or name.rpartition(".")[2] == "InitVar":
            return self.read(inner, given)
        if name == "tensorclass.PerElement":
            return f"{self.helper}.{'PerElementGiven' if given else 'PerElementValues'}[{self.read(inner)}]"
        if name.rpartition(".")[2] == "Optional":
            return f"{self.read(inner, given)} | None"
        return self.file.text_of(node)


class Declarations:
    """Finds out which classes are typed, and what they declare."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._typed: dict[int, bool] = {}

    def is_typed(self, file: SourceFile, node: ast.ClassDef) -> bool:
        """Whether a class is a typed class, by its decorator or a parent."""
        if id(node) not in self._typed:
            self._typed[id(node)] = False  # for a class that is its own parent
            decorated = any(file.full_name(d) == DECORATOR for d in node.decorator_list)
            self._typed[id(node)] = decorated or any(self._is_typed_base(file, base) for base in node.bases)
        return self._typed[id(node)]

    def _is_typed_base(self, file: SourceFile, base: ast.expr) -> bool:
        found = self._parent(file, base)
        return file.full_name(base) in ROOTS or (found is not None and self.is_typed(*found))

    def has_typed_base(self, file: SourceFile, node: ast.ClassDef) -> bool:
        """Whether a parent has the base class already, so that the decorator doesn't add it."""
        return any(self._is_typed_base(file, base) for base in node.bases)

    def is_first(self, file: SourceFile, node: ast.ClassDef) -> bool:
        """Whether a writable class has no parent that is, or may be, typed."""
        parents = [(file.full_name(base), self._parent(file, base)) for base in node.bases]
        others = [found for name, found in parents if name != ROOTS[0] and name.rpartition(".")[2] not in NO_PARENTS]
        return not self.is_frozen(file, node) and not any(found is None or self.is_typed(*found) for found in others)

    def is_frozen(self, file: SourceFile, node: ast.ClassDef, inherited: bool = True) -> bool:
        """Whether a class is frozen, by its own options or those of a parent."""
        calls = [d for d in node.decorator_list if isinstance(d, ast.Call) and file.full_name(d) == DECORATOR]
        options = [*node.keywords, *(keyword for call in calls for keyword in call.keywords)]
        if any(k.arg == "frozen" and isinstance(k.value, ast.Constant) and k.value.value for k in options):
            return True
        if any(file.full_name(base) == ROOTS[1] for base in node.bases):
            return True
        parents = [self._parent(file, base) for base in node.bases] if inherited else []
        return any(parent is not None and self.is_frozen(*parent) for parent in parents)

    def _parent(self, file: SourceFile, base: ast.expr) -> tuple[SourceFile, ast.ClassDef] | None:
        name = file.full_name(base)
        if not name or name.startswith("tensorclass.") or name.rpartition(".")[2] in ("Generic", "Protocol"):
            return None
        return self.project.class_of(file, name)

    def fields(self, types: Types, node: ast.ClassDef) -> Fields:
        """Every field of a class, parents first."""
        rows: dict[str, FieldLine] = {}
        whole = True
        for base in reversed(node.bases):
            found = self._parent(types.file, base)
            if found is None:
                name = types.file.full_name(base)
                whole = whole and (name in ROOTS or name.rpartition(".")[2] in NO_PARENTS)
            elif found[0] is not types.file or isinstance(base, ast.Subscript):
                whole = False
            else:
                inherited = self.fields(types, found[1])
                rows.update(inherited.rows)
                whole = whole and inherited.whole
        rows.update({field.name: field for field in own_fields(types, node)})
        return Fields(rows, whole)


def own_fields(types: Types, node: ast.ClassDef) -> Iterator[FieldLine]:
    """The fields that the body of a class declares."""
    kw_only = False
    for line in node.body:
        if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
            continue
        kind = types.file.full_name(line.annotation).rpartition(".")[2]
        if kind == "KW_ONLY":
            kw_only = True
        elif kind not in NO_FIELDS and (kind == "InitVar" or not line.target.id.startswith("_")):
            yield _field(types, line, line.target.id, kw_only, kind != "InitVar")


def _field(types: Types, line: ast.AnnAssign, name: str, kw_only: bool, stored: bool) -> FieldLine:
    options: dict[str, ast.expr] = {}
    default, produced = line.value is not None, False
    if isinstance(line.value, ast.Call) and types.file.full_name(line.value) in SPECIFIERS:
        options = {keyword.arg: keyword.value for keyword in line.value.keywords if keyword.arg}
        default = bool(options_with("default") & options.keys())
        produced = types.file.full_name(line.value) == SPECIFIERS[1]
    said = {key: value.value for key, value in options.items() if isinstance(value, ast.Constant)}
    reads, takes = types.read(line.annotation), types.read(line.annotation, given=True)
    init, kw_only = not produced and bool(said.get("init", True)), bool(said.get("kw_only", kw_only))
    return FieldLine(name, reads, takes, line, default, init, kw_only, stored, produced)
