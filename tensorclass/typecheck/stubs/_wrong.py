"""Finds wrong declarations of typed classes in the source; uncertain cases are not reported."""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ..._options import options_with
from .. import _rules as rules
from .._rules import ClassDeclaration, WrongAnnotation
from ._fields import DECORATOR, ROOTS, SPECIFIERS, Declarations, FieldLine, Types, own_fields
from ._project import Definition, Function, SourceFile, items_of
from ._reader import Class, SourceReader, is_for_checkers

CODE = "tensorclass-declaration"
CONTAINER = "tensorclass.store._scale.ScaleOps"
PRODUCED = "tensorclass.produced"
NO_PARENTS = (*ROOTS, "typing.Generic", "typing_extensions.Generic", "typing.Protocol", "builtins.object")
"""Bases that declare no fields and accept the options of a class."""
IGNORED = re.compile(rf"#\s*type:\s*ignore(?:\[[^\]]*\b{CODE}\b[^\]]*\]|(?!\[))")
MEMBER = re.compile(r"^    (?:def )?(\w+)", re.MULTILINE)
DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
MUTABLE = ("builtins.list", "builtins.dict", "builtins.set", "builtins.bytearray")
PLAIN = (ast.Constant, ast.UnaryOp, ast.Tuple, *DISPLAYS)
"""Defaults that are certainly not a `field(...)` under another name."""


class Finding(NamedTuple):
    """A wrong declaration: its position, and the fix."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: error: {self.message} [{CODE}]"


class FieldRow(NamedTuple):
    """A field as its class declares it; `problem` is the error in its annotation."""

    field: FieldLine
    declared: ClassDeclaration
    nested: Class | None
    owner: str
    problem: str


class ClassCheck:
    """Checks the classes of files.

    Args:
        declarations: The facts about the classes of the project.
    """

    def __init__(self, declarations: Declarations) -> None:
        self.declarations = declarations
        self.reader = SourceReader(declarations)
        self._own: dict[int, dict[str, FieldRow]] = {}

    def findings(self, file: SourceFile) -> list[Finding]:
        """The errors of a file, by line; lines with a comment that ignores types are left out."""
        lines = file.text.splitlines()
        known = [node for node in _classes(file.tree.body) if self._is_known((file, node))]
        found = {row for node in known for row in self._class((file, node)) if row[1]}
        return sorted(Finding(file.path, *row) for row in found if not IGNORED.search(lines[row[0] - 1]))

    @cached_property
    def members(self) -> frozenset[str]:
        """The names that a field can't have, read from the source of this package."""
        found = self.declarations.project.class_of(SourceFile(Path(__file__)), CONTAINER)
        return frozenset({*rules.OWN, *(self._members(found) if found is not None else ())}) - {*rules.YIELDING}

    @cached_property
    def yielding(self) -> frozenset[str]:
        """The names of methods that make room for a field."""
        here, class_of = SourceFile(Path(__file__)), self.declarations.project.class_of
        found = [class_of(here, f"{module}.{name}") for name, module in rules.CONVENIENCES.items()]
        lines = [line for cls in found if cls is not None for line in cls[1].body if isinstance(line, Function)]
        return frozenset({*rules.YIELDING, *(line.name for line in lines)})

    @cached_property
    def _likely(self) -> frozenset[str]:
        """A quick pattern for these members and other names in the text."""
        rooms = [Path(__file__).parents[2] / room for room in ("store", "ops", "core")]
        texts = [path.read_text("utf-8") for room in rooms for path in room.glob("*.py")]
        return frozenset({*rules.OWN, *rules.RESERVED, *(name for text in texts for name in MEMBER.findall(text))})

    def _members(self, cls: Class) -> Iterator[str]:
        file, node = cls
        for line in node.body:
            targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
            yield from [line.name] if isinstance(line, Function) else [t.id for t in targets if isinstance(t, ast.Name)]
        for base in node.bases:
            parent = self.declarations.project.class_of(file, file.full_name(base))
            if parent is not None and parent[1].name in rules.CONVENIENCES:  # which make room for a field
                parent = self.declarations.project.class_of(parent[0], parent[0].full_name(parent[1].bases[0]))
            yield from self._members(parent) if parent is not None else ()

    def _is_known(self, cls: Class) -> bool:
        """Whether a class is certainly typed: by the decorator, the base class, or a parent that is."""
        name = self.reader.bound(cls[0]).name
        roots = [name(base) in ROOTS for base in cls[1].bases] + [name(d) == DECORATOR for d in cls[1].decorator_list]
        return any(roots) or any(self.reader.typed_class(cls[0], base) is not None for base in cls[1].bases)

    def _class(self, cls: Class) -> Iterator[tuple[int, str]]:
        yield from self._options(cls)
        own, inherited = self._rows(cls), self._inherited_fields(cls)
        table = rules.redeclared(
            {name: row.declared for name, row in own.items()}, {name: row.declared for name, row in inherited.items()}
        )
        for name, row in own.items():
            messages = [row.problem, *self._undefined_names(cls, row), *self._value(cls, row)]
            if row.field.stored:
                messages += self._stored(cls, row)
            if name in inherited:
                problem = rules.widening(row.declared, inherited[name].declared, table)
                messages.append(rules.widens(name, inherited[name].owner, problem))
            yield from ((row.field.line.lineno, message) for message in messages)
        if self._parents(cls) is not None:
            yield from self._order(own, inherited | own)

    # ---- the class -----------------------------------------------------------------------------------------------

    def _parents(self, cls: Class) -> list[Class] | None:
        """The parents with their parents, but for those that declare nothing; None when one of them is not known."""
        found: list[Class] = []
        for base in cls[1].bases:
            name = self.reader.bound(cls[0]).name(base)
            parent = None if name in NO_PARENTS else self.reader.known_class(cls[0], base)
            above = [] if parent is None else self._parents(parent)
            if (parent is None and name not in NO_PARENTS) or above is None:
                return None
            found += [parent, *above] if parent is not None else []
        return found

    def _given(self, cls: Class) -> Iterator[ast.keyword]:
        """The options that a class is given, by its decorator and by itself where these are options."""
        name = self.reader.bound(cls[0]).name
        for call in cls[1].decorator_list:
            if isinstance(call, ast.Call) and name(call) == DECORATOR:
                yield from call.keywords
        for base in cls[1].bases:
            if isinstance(base, ast.Subscript) and name(base) in ROOTS:
                items = [item for item in items_of(base.slice) if isinstance(item, ast.Constant)]
                yield from (ast.keyword(str(i.value), ast.Constant(True, lineno=i.lineno)) for i in items)
        parents = self._parents(cls)
        others = [line for one in (cls, *parents) for line in one[1].body] if parents is not None else []
        takes = any(isinstance(line, Function) and line.name == "__init_subclass__" for line in others)
        if parents is not None and not takes and "metaclass" not in [keyword.arg for keyword in cls[1].keywords]:
            yield from cls[1].keywords

    def _options(self, cls: Class) -> Iterator[tuple[int, str]]:
        for keyword in self._given(cls):
            if keyword.arg is not None:
                yield keyword.value.lineno, rules.unknown_option(keyword.arg)
            if isinstance(keyword.value, ast.Constant):
                yield keyword.value.lineno, rules.wrong_value(keyword.arg or "", keyword.value.value)

    def _may_be(self, cls: Class, option: str, certainly: bool) -> bool:
        """Whether a class, or a parent of it, has an option; an unknown one is the opposite of `certainly`."""
        given = {keyword.arg: keyword.value for keyword in (*cls[1].keywords, *self._given(cls))}
        value = given.get(option)
        if value is not None or None in given:
            return bool(value.value) if isinstance(value, ast.Constant) else not certainly
        parents = self._parents(cls)
        return not certainly if parents is None else any(self._may_be(p, option, certainly) for p in parents)

    # ---- fields --------------------------------------------------------------------------------------------------

    def _rows(self, cls: Class) -> dict[str, FieldRow]:
        """The fields that a class body declares once."""
        file, node = cls
        if id(node) not in self._own:
            times = Counter(name for line in node.body for name in _bound(line))
            fields = own_fields(Types(file, "_t"), node)
            self._own[id(node)] = {f.name: self._row(cls, f) for f in fields if times[f.name] == 1}
        return self._own[id(node)]

    def _row(self, cls: Class, field: FieldLine) -> FieldRow:
        produced = field.line.value is not None and self.reader.bound(cls[0]).name(field.line.value) == PRODUCED
        try:
            declared, nested = self.reader.read(cls[0], field.line.annotation)
        except WrongAnnotation as wrong:
            return FieldRow(field, ClassDeclaration(produced=produced), None, cls[1].name, str(wrong))
        return FieldRow(field, replace(declared, produced=produced), nested, cls[1].name, "")

    def _inherited_fields(self, cls: Class) -> dict[str, FieldRow]:
        found: dict[str, FieldRow] = {}
        for base in reversed(cls[1].bases):
            parent = self.reader.typed_class(cls[0], base)
            found |= {**self._inherited_fields(parent), **self._rows(parent)} if parent is not None else {}
        return found

    def _stored(self, cls: Class, row: FieldRow) -> Iterator[str]:
        """What is wrong with a name, or with a kind of field."""
        name = row.field.name
        if self._may_be(cls, "tensor_only", certainly=True):
            yield rules.no_tensor(name, row.declared)
        if name in self._likely or name.startswith("_"):
            shadow = self._may_be(cls, "shadow", certainly=False) or _says_shadow(row.field.line.value)
            yield rules.hides(name, self.members, shadow)
        path = self._way_back(cls, row, ())
        if path:
            yield rules.without_end(".".join(path), cls[1].name)

    def _way_back(self, cls: Class, row: FieldRow, seen: tuple[int, ...]) -> tuple[str, ...]:
        """The fields that lead back to the class, when none of them may be absent."""
        if row.nested is None or row.declared.optional or row.declared.produced or id(row.nested[1]) in seen:
            return ()
        if row.nested[1] is cls[1]:
            return (row.field.name,)
        for inner in {**self._inherited_fields(row.nested), **self._rows(row.nested)}.values():
            path = self._way_back(cls, inner, (*seen, id(row.nested[1])))
            if path:
                return (row.field.name, *path)
        return ()

    def _value(self, cls: Class, row: FieldRow) -> Iterator[str]:
        """The faults of what is on the right."""
        value, name = row.field.line.value, self.reader.bound(cls[0]).name
        given = {k.arg: k.value for k in value.keywords} if isinstance(value, ast.Call) else {}
        if value is not None and name(value) == PRODUCED:
            yield from filter(None, (rules.produced_with(option) for option in given if option))
        default = given.get("default") if value is not None and name(value) in SPECIFIERS else value
        if isinstance(default, DISPLAYS) or (isinstance(default, ast.Call) and name(default.func) in MUTABLE):
            yield rules.shared_default(row.field.name)

    def _order(self, own: dict[str, FieldRow], rows: dict[str, FieldRow]) -> Iterator[tuple[int, str]]:
        before = ""
        for name, row in rows.items():
            if not row.field.init or row.field.kw_only or not _is_plain(row.field):
                continue
            if row.field.default:
                before = name
            elif before and name in own:
                yield row.field.line.lineno, rules.out_of_order(name, before)

    def _undefined_names(self, cls: Class, row: FieldRow) -> Iterator[str]:
        bound = self.reader.bound(cls[0])
        for name in dict.fromkeys(_names(row.field.line.annotation)):
            if name not in bound.real and not hasattr(builtins, name) and "*" not in bound.meanings:
                yield rules.undefined_name(name, bound.meanings.keys(), tuple(sorted(bound.real)))


def _says_shadow(value: ast.expr | None) -> bool:
    """Whether a field may hide a member, or something is given for it that the source doesn't tell."""
    given = [k.value for k in value.keywords if k.arg in options_with("hides")] if isinstance(value, ast.Call) else []
    return any(not isinstance(one, ast.Constant) or bool(one.value) for one in given)


def _is_plain(field: FieldLine) -> bool:
    """Whether it is certain that a field has a default, and where the constructor takes it."""
    value = field.line.value
    if not isinstance(value, ast.Call):
        return value is None or isinstance(value, PLAIN)
    said = {keyword.arg: keyword.value for keyword in value.keywords}
    flags = [said[name] for name in ("init", "kw_only") if name in said]
    return None not in said and all(isinstance(flag, ast.Constant) for flag in flags) and bool(said)


def _classes(body: Iterable[ast.stmt]) -> Iterator[ast.ClassDef]:
    """The classes that a module makes when it is imported; those behind `try` may be meant to fail."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node
            yield from _classes(node.body)
        elif isinstance(node, ast.If):
            yield from _classes([*(() if is_for_checkers(node) else node.body), *node.orelse])


def _bound(line: ast.stmt) -> list[str]:
    """The names that a line of a class body binds or declares."""
    if isinstance(line, Definition):
        return [line.name]
    return [n.id for n in ast.walk(line) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _names(node: ast.expr) -> Iterator[str]:
    """The names that an annotation needs when the program runs."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            yield from _names(ast.parse(node.value.strip(), mode="eval").body)
        except SyntaxError:
            return
    elif isinstance(node, ast.BinOp):
        yield from (*_names(node.left), *_names(node.right))
    elif isinstance(node, ast.Subscript):
        yield from _names(node.value)
        first, *others = items_of(node.slice)
        is_text = ast.unparse(node.value).rpartition(".")[2] == "Literal"
        yield from () if is_text else _names(first)
        yield from (name for other in others for name in _names(other) if not isinstance(other, ast.Constant))
    else:
        yield from (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
