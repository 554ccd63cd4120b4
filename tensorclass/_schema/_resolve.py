"""Builds a schema from a class body: inheritance, generics, forward references. All errors are reported together."""

from __future__ import annotations

import dataclasses
import re
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, get_origin

from .._kinds import INIT_VAR, PENDING
from ..errors import Problem, SchemaError, did_you_mean
from ._annotations import Parsed, WrongDeclaration, is_tensorclass, parse_annotation
from ._declare import AnnotatedName, check_argument, make_field, substitute_field
from ._fields import MISSING, FieldInfo, as_field_info
from ._narrow import DimMap, redeclared, widening
from ._schema import Schema, name_problems, schema_of
from ._scope import Scope, is_private, own_annotations
from ._spec import FieldSpec, type_name

Fields = dict[str, FieldSpec]


def build_schema(cls: type, *, localns: Mapping[str, Any] | None = None, kw_only: bool = False) -> Schema:
    """Build the schema of a class body and its inherited fields.

    Call it while the class still holds its defaults. Undefined forward references stay pending.

    Args:
        cls: The class.
        localns: The locals where the class is defined.
        kw_only: Whether all fields of this body are keyword-only.

    Raises:
        SchemaError: lists all invalid declarations.
    """
    builder = _Body(cls, Scope(cls, None, localns), kw_only)
    return Schema(cls.__name__, builder.fields(final=False).values(), lambda _: builder.fields(final=True))


def substitute(schema: Schema, arguments: Mapping[Any, Any], name: str | None = None) -> Schema:
    """Replace the type variables of a schema by types.

    Args:
        schema: The schema of a generic class.
        arguments: The type of each variable.
        name: The name of the new schema; the old one by default.

    Raises:
        SchemaError: if an argument is outside the bound of its variable, or if a field becomes invalid.
    """
    for variable, argument in arguments.items():
        check_argument(variable, argument)
    name = name or schema.name
    known = _substitute_all(name, schema.declared, arguments)
    return Schema(name, known.values(), lambda _: _substitute_all(name, schema.resolve().declared, arguments))


def _substitute_all(name: str, declared: Mapping[str, FieldSpec], arguments: Mapping[Any, Any]) -> Fields:
    found, problems = {}, []
    for spec in declared.values():
        try:
            found[spec.name] = substitute_field(spec, arguments)
        except WrongDeclaration as wrong:
            problems.append(Problem(spec.name, type_name(spec.declared), wrong.given, wrong.hint))
    if problems:
        raise SchemaError.of(name, problems)
    return found


class _Body:
    """Reads one class body. It keeps the rows, so that they can be read again when more names are defined."""

    def __init__(self, cls: type, scope: Scope, kw_only: bool) -> None:
        self.cls = cls
        self.scope = scope
        self.problems: list[Problem] = []
        self.rows = list(self._rows(kw_only))
        self._check_unannotated()

    def fields(self, *, final: bool) -> Fields:
        """All fields, inherited ones first. With `final`, an undefined name is an error."""
        bases = list(self._bases(final))
        inherited = {name: spec for _, fields in bases for name, spec in fields.items()}
        own = self._own(final)
        self._refuse_members(inherited)
        table = redeclared(own, inherited)
        fields = {name: _rename_dims(spec, table) for name, spec in inherited.items()} | own
        for base, base_fields in bases:
            self._check_narrowing(base, base_fields, fields, redeclared(own, base_fields))
        self._check_order(fields)
        self._check_recursion(fields)
        self._raise()
        return fields

    def _raise(self) -> None:
        problems, self.problems = self.problems, []
        if problems:
            raise SchemaError.of(self.cls.__name__, problems)

    # ---- the class body ------------------------------------------------------------------------------------------

    def _rows(self, kw_only: bool) -> Iterator[AnnotatedName]:
        """The annotated names of the class body that are fields or arguments; wrong names are problems."""
        for name, annotation in own_annotations(self.cls).items():
            if is_private(name, annotation):
                continue
            wrong = name_problems(name)
            if wrong:
                self.problems += wrong
                continue
            if _is_special(annotation, "KW_ONLY", dataclasses.KW_ONLY):
                kw_only = True
                continue
            if _is_special(annotation, "ClassVar", ClassVar) or get_origin(annotation) is ClassVar:
                self._refuse_options(name, annotation)
                continue
            init_var = isinstance(annotation, dataclasses.InitVar) or _is_special(annotation, "InitVar")
            annotation = annotation.type if isinstance(annotation, dataclasses.InitVar) else annotation
            info = as_field_info(self._default(name))
            yield AnnotatedName(name, annotation, info, kw_only if info.kw_only is MISSING else info.kw_only, init_var)

    def _default(self, name: str) -> Any:
        default = vars(self.cls).get(name, MISSING)
        return MISSING if isinstance(default, types.MemberDescriptorType) else default

    def _refuse_options(self, name: str, annotation: Any) -> None:
        if isinstance(vars(self.cls).get(name), FieldInfo):
            self._add(name, annotation, "a ClassVar with field options", "drop `ClassVar`, or assign the plain value")

    def _check_unannotated(self) -> None:
        annotated = own_annotations(self.cls)
        for name, value in vars(self.cls).items():
            if isinstance(value, FieldInfo) and name not in annotated:
                call = "produced()" if value.produced else "field(...)"
                self._add(name, "nothing", f"`{name} = {call}` without a type", f"write `{name}: <type> = {call}`")

    def _refuse_members(self, inherited: Fields) -> None:
        """Refuse a property, method, constant or ClassVar with the name of an inherited field: it would be lost."""
        rows, body = {row.name for row in self.rows}, vars(self.cls)
        constants = own_annotations(self.cls).keys() - rows
        for name, spec in inherited.items():
            if name in rows:
                continue
            if name in constants:
                what = "a ClassVar"
            elif _is_member(body, name):
                what = f"a {type(body[name]).__name__} in the class body"
            elif (mixin := self._mixin_with(name)) is not None:
                what = f"a {type(vars(mixin)[name]).__name__} of {mixin.__name__}, a base before it"
            else:
                continue
            hint = f"it would hide the inherited field; take another name, or annotate it: `{name}: ... = ...`"
            self.problems.append(Problem(name, f"{spec}, a field of a base", what, hint))

    def _mixin_with(self, name: str) -> type | None:
        """A base with a member of this name that comes before the class with the field."""
        for base in self.cls.__mro__[1:]:
            if "__tensorclass_schema__" in vars(base) and name in own_annotations(base):
                return None
            promised = "_is_protocol" in vars(base) and base._is_protocol  # type: ignore[attr-defined]  # just looked
            if _is_member(vars(base), name) and not promised:
                return None if getattr(vars(base)[name], "__isabstractmethod__", False) else base
        return None

    def _own(self, final: bool) -> Fields:
        found: Fields = {}
        known: dict[Any, tuple[Any, Parsed]] = {}  # many fields have the same annotation
        for row in self.rows:
            spec = self._read(row, final, known)
            if spec is not None:
                found[row.name] = spec
        return found

    def _read(self, row: AnnotatedName, final: bool, known: dict[Any, tuple[Any, Parsed]]) -> FieldSpec | None:
        """The field of a row; a placeholder while a name in its annotation is undefined, None if it is wrong."""
        key = row.annotation if isinstance(row.annotation, str) else id(row.annotation)  # the row keeps it alive
        try:
            annotation, parsed = known.get(key) or (self.scope.evaluate(row.annotation), None)
            if isinstance(annotation, dataclasses.InitVar):
                annotation, row = annotation.type, dataclasses.replace(row, init_var=True)
            if parsed is None and not row.init_var:
                parsed = parse_annotation(annotation, self.cls)
                known[key] = annotation, parsed
            return make_field(row, annotation, parsed)
        except NameError as error:
            if not final:
                return row.pending()
            self._add_unknown_name(row, error)
        except WrongDeclaration as wrong:
            self._add(row.name, row.annotation, wrong.given, wrong.hint)
        except SchemaError as error:
            self._add(row.name, row.annotation, "a wrong type", str(error))
        except (SyntaxError, TypeError, AttributeError, ValueError, KeyError) as error:
            hint = 'an annotation is a type, such as `Float32[Tensor, "3 h w"]`'
            self._add(row.name, row.annotation, f"{type(error).__name__}: {error}", hint)
        return None

    def _add(self, name: str, annotation: Any, given: str, hint: str) -> None:
        declared = annotation if isinstance(annotation, str) else type_name(annotation)
        self.problems.append(Problem(name, declared, given, hint))

    def _add_unknown_name(self, row: AnnotatedName, error: NameError) -> None:
        name = getattr(error, "name", None) or str(error)
        names = [*vars(sys.modules[self.cls.__module__])] if self.cls.__module__ in sys.modules else []
        hint = (
            f"define or import `{name}` in `{self.cls.__module__}`{did_you_mean(name, names)}; an import under "
            "TYPE_CHECKING does not exist at run time"
        )
        self._add(row.name, row.annotation, f"the name `{name}`, which is not defined", hint)

    # ---- bases ---------------------------------------------------------------------------------------------------

    def _bases(self, final: bool) -> Iterator[tuple[type, Fields]]:
        arguments = dict(self._arguments())
        for base in reversed(self.cls.__mro__[1:]):
            if "__tensorclass_schema__" not in vars(base) or not is_tensorclass(base):
                continue
            schema = schema_of(base)
            assert schema is not None  # is_tensorclass
            if base in arguments:
                schema = substitute(schema, arguments[base])
            yield base, dict((schema.resolve() if final else schema).declared)

    def _arguments(self) -> Iterator[tuple[type, dict[Any, Any]]]:
        """The type arguments of generic bases: `class X(Pair[Digits])`."""
        for alias in vars(self.cls).get("__orig_bases__", ()):
            origin = get_origin(alias)
            if is_tensorclass(origin):
                yield origin, dict(zip(origin.__parameters__, alias.__args__, strict=False))

    def _check_narrowing(self, base: type, parents: Fields, fields: Fields, table: DimMap) -> None:
        for name, parent in parents.items():
            child = fields[name]
            if child is parent or not {PENDING, INIT_VAR}.isdisjoint((child.kind, parent.kind)):
                continue
            reason = widening(child, parent, table)
            if reason and not any(problem.path == name for problem in self.problems):
                hint = f"{reason}; a child class may narrow a field of `{base.__name__}`, never widen it"
                self.problems.append(Problem(name, f"{parent} in `{base.__name__}`", str(child), hint))

    # ---- all fields ----------------------------------------------------------------------------------------------

    def _check_order(self, fields: Fields) -> None:
        before: str | None = None
        for spec in fields.values():
            if not spec.init or spec.kw_only:
                continue
            if spec.has_default:
                before = spec.name
            elif before is not None:
                hint = f"move it before `{before}`, give it a default, or make it keyword-only: `field(kw_only=True)`"
                self.problems.append(
                    Problem(spec.name, str(spec), f"a required field after `{before}`, which has a default", hint)
                )

    def _check_recursion(self, fields: Fields) -> None:
        for spec in fields.values():
            path = _way_back(self.cls, spec, ())
            if path:
                text = ".".join(path)
                hint = f"an instance could never end; declare `{spec} | None`"
                self.problems.append(Problem(spec.name, str(spec), f"`{text}` is a {self.cls.__name__} again", hint))


def _way_back(cls: type, spec: FieldSpec, seen: tuple[Any, ...]) -> tuple[str, ...] | None:
    """The path of required fields that leads from a field back to the class; None if there is none."""
    if spec.nested is None or spec.optional or spec.produced or spec.nested in seen:
        return None
    if spec.nested is cls:
        return (spec.name,)
    schema = schema_of(spec.nested)
    for inner in schema.declared.values() if schema is not None else ():
        path = _way_back(cls, inner, (*seen, spec.nested))
        if path:
            return (spec.name, *path)
    return None


def _rename_dims(spec: FieldSpec, table: DimMap) -> FieldSpec:
    """An inherited field, with the dim names that a child has redefined."""
    dims = table.apply(spec.dims)
    if spec.spec is None or dims == spec.dims:
        return spec
    return spec.replace(spec=dataclasses.replace(spec.spec, dims=dims))


def _is_special(annotation: Any, name: str, value: object = None) -> bool:
    """Whether an annotation is a dataclass marker, also as a string that can't be evaluated yet."""
    if isinstance(annotation, str):
        return re.match(rf"(\w+\.)*{name}\b", annotation) is not None
    return value is not None and annotation is value


def _is_member(body: Mapping[str, Any], name: str) -> bool:
    """Whether a class body has a name that is neither a slot nor a reference to a field."""
    member = body.get(name)
    return name in body and not isinstance(member, types.MemberDescriptorType) and not hasattr(member, "__field_path__")
