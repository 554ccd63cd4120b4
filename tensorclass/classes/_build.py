"""Builds a class, once: schema, options, field properties, `__init__`, and the attributes of dataclasses."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from abc import update_abstractmethods
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from types import FrameType
from typing import Any, Generic, TypeVar

from .._kinds import INIT_VAR
from .._options import CLASS_OPTIONS, FIELD_OPTIONS, SWITCHES
from .._schema import (
    MISSING,
    Options,
    Schema,
    TypeName,
    build_schema,
    evolution_problems,
    non_tensor_problems,
    own_annotations,
    removed_table,
    substitute,
)
from .._schema._scope import is_open
from ..core import Classes, as_device, as_jagged, check_names, constant, described, register
from ..errors import ArgumentError, Problem, SchemaError, did_you_mean
from ..ops._by_row import RowOps
from ..store import Relaid
from ._access import assign, is_checked, is_like, make_deleter, make_getter, make_setter
from ._checks import check_all, check_many, new_store, readable
from ._errors import clashes, written_batch
from ._errors import unknown_attribute as unknown_attribute
from ._errors import unknown_field as unknown_field
from ._facts import Facts, Recipe, facts_of
from ._fits import DimTable
from ._init import ABSENT, DEFAULT, InitBuilder
from ._private import cached_names, dropping, forget_after_writes, install_private
from ._reference import FieldRef
from ._validators import attach, run_checks

_NEW, _OURS = Facts(pending=True), f"{__name__.partition('.')[0]}."
RESERVED = frozenset({"batch_size", "device", "names", "shape", "ndim", "is_locked"})


def build_class(cls: Any, given: Mapping[str, Any]) -> None:
    """Turn an annotated subclass of TensorClass into a typed class."""
    if "__init__" in vars(cls):
        raise SchemaError.of(
            cls.__name__,
            [
                Problem(
                    "__init__",
                    "the generated constructor",
                    "an `__init__` of the class",
                    "put what it does in `__post_init__`",
                )
            ],
        )
    inherited = getattr(cls, "__tensorclass_options__", None) or Options()
    cls.__tensorclass_options__ = _change_options(cls, inherited, given)
    install_private(cls, _OURS)
    schema = build_schema(cls, localns=_defining_locals(cls))
    if schema.pending:
        _postpone(cls, schema)
    else:
        # A new schema: the schema that read the class body keeps the locals of its function alive.
        finish_class(cls, Schema(cls.__name__, schema.declared.values()))


def reconfigure(cls: Any, given: Mapping[str, Any]) -> None:
    """Change the options of a class that subclassing has already built."""
    cls.__tensorclass_options__ = _change_options(cls, cls.__tensorclass_options__, given)
    if not is_pending(cls):
        finish_class(cls, cls.__tensorclass_schema__)


def finish_class(cls: Any, schema: Schema) -> None:
    """Install everything that depends on the schema."""
    options: Options = cls.__tensorclass_options__
    _refuse_clashes(cls, schema, options)
    if options.tensor_only and non_tensor_problems(schema):
        raise SchemaError.of(cls.__name__, non_tensor_problems(schema))
    wrong = list(evolution_problems(schema, options.removed))
    if wrong:
        raise SchemaError.of(cls.__name__, wrong)
    schema, checks = attach(cls, schema)
    policy = _differing_options(options, checks)
    if options.removed or policy:
        schema = Schema(schema.name, schema.declared.values(), removed=dict(options.removed), policy=policy)
    new = vars(cls).get("__tensorclass__", _NEW).pending
    cls.__tensorclass_schema__ = schema
    slow, table = bool(checks) and options.validate != "off", DimTable(schema)
    cached = cached_names(cls, _OURS)
    for name, spec in schema.fields.items():
        write = assign(name) if slow or is_checked(spec, options) else make_setter(spec, table)
        write = dropping(write) if cached else write
        setattr(cls, name, FieldRef._of(cls, (name,), spec, make_getter(spec), write, make_deleter(spec)))
    forget_after_writes(cls, cached, _OURS)
    cls.__tensorclass__ = facts_of(cls, schema, options, checks, cached)
    cls.__init__ = InitBuilder(cls, schema, options, hasattr(cls, "__post_init__")).build(construct)
    cls.__match_args__ = tuple(name for name, spec in schema.fields.items() if spec.init and not spec.kw_only)  # type: ignore[misc]  # mypy refuses this even on Any
    cls.__dataclass_fields__ = _dataclass_fields(cls, schema)
    cls.__dataclass_params__ = _PARAMS[options.frozen]
    cls._written_batch = written_batch(schema)
    cls._joins_plainly = all(spec.join == ("same" if spec.kind.is_value else "stack") for spec in schema)
    cls._keeps_objects = all(not spec.kind.is_open for spec in schema)
    if "__annotations__" in vars(cls):  # else they are evaluated lazily, and an assignment would empty them
        cls.__annotations__ = dict(cls.__annotations__)
    update_abstractmethods(cls)
    if new:
        register(cls)


def _differing_options(options: Options, checks: tuple[str, ...]) -> dict[str, Any]:
    """The ways in which a class differs from the default policy."""
    found = {
        "validate": None if options.validate == "schema" else options.validate,
        "coerce": None if options.conversion == "exact" else options.conversion,
        "checks": list(checks),
    }
    return {key: value for key, value in found.items() if value}


def _defining_locals(cls: type) -> dict[str, Any]:
    """The locals of the function that defines a class, if an annotation refers to one of them.

    Before Python 3.13, reading the locals of a running function keeps their values alive until it returns.
    """
    frame = _defining_frame(cls)
    if frame is None:
        return {}
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # a module, or a class body
        return {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
    code = frame.f_code
    variables = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    return {} if variables.isdisjoint(_open_words(cls)) else dict(frame.f_locals)


def _defining_frame(cls: type) -> FrameType | None:
    """The innermost frame of the module of a class that is not the body of the class itself."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__") == cls.__module__ and frame.f_code.co_name != cls.__name__:
            return frame
        frame = frame.f_back
    return None


def _open_words(cls: type) -> list[str]:
    """The words of the annotations that are not evaluated yet."""
    bases = [base for base in cls.__mro__ if not base.__module__.startswith(_OURS)]
    given = {id(note): note for base in bases for note in own_annotations(base).values()}  # many fields have the same
    notes = [note for note in given.values() if is_open(note)]
    return re.findall(r"\w+", " ".join(note if isinstance(note, str) else repr(note) for note in notes))


def _refuse_clashes(cls: Any, schema: Schema, options: Options) -> None:
    reserved = [name for name in schema.declared if name in RESERVED or name.startswith("_")]
    open_names = schema.names if not options.shadow else ()
    hiding = [n for n in open_names if n not in reserved and n in member_names() and not schema.fields[n].shadow]
    if reserved or hiding:
        raise clashes(cls.__name__, reserved, hiding)


_OWN = frozenset((
    "replace", "from_tensordict", "to_tensordict", "to_json", "from_json", "pick", "merge", "extend", "example", "map",
))  # fmt: skip


_YIELDING = frozenset(("depth", "attrs", "distribute", "entry_class", "local", "param_count", "separates", "whole"))
"""Methods that a field may hide, since they are rarely called on a batch."""


@cache
def member_names() -> frozenset[str]:
    """The names that a field of a class without `shadow` can't have; fields may hide conveniences."""
    return (frozenset(dir(Relaid)) - vars(RowOps).keys() - _YIELDING) | _OWN


def construct(
    self: Any, given: dict[str, Any], batch_size: Any, device: Any, names: Any, unknown: dict[str, Any]
) -> None:
    """The complete path of a constructor: defaults, conversion, validation; one error lists every problem."""
    cls = type(self)
    schema: Schema = cls.__tensorclass_schema__
    problems = _argument_problems(schema, given, unknown)
    given = {name: given[name] for name, spec in schema.fields.items() if spec.init}
    values = {k: v for k, v in given.items() if v is not ABSENT and v is not DEFAULT and k in schema.fields}
    values = as_jagged(values.items()) or values
    others = {name: value for name, value in unknown.items() if name not in schema.fields}
    try:
        checked, size = check_all(cls, readable({**values, **others}), batch_size)
    except SchemaError as error:
        raise SchemaError.of(cls.__name__, [*error.problems, *problems]) from None
    if problems:
        raise SchemaError.of(cls.__name__, problems)
    store = new_store(cls, checked, size, as_device(device), check_names(names, len(size)))
    object.__setattr__(self, "_store", store)
    run_checks(self)


def _argument_problems(schema: Schema, given: Mapping[str, Any], unknown: Mapping[str, Any]) -> list[Problem]:
    """Problems of the arguments that are found without checking values."""
    missing = [
        Problem(spec.name, f"InitVar[{spec.type_text}]", "nothing", f"pass `{spec.name}=`")
        for spec in schema.init_vars
        if given[spec.name] is ABSENT
    ]
    refused = [
        Problem(
            name,
            str(spec),
            "a constructor argument",
            f"the field is declared outside the constructor; assign it later: `batch.{name} = ...`",
        )
        for name, spec in schema.fields.items()
        if name in unknown
    ]
    return missing + refused


def set_other(self: Any, name: str, value: Any) -> None:
    """Set an attribute of a writable instance that is not a field: a property, batch size or names; else raise."""
    cls = type(self)
    known = name in cls.__tensorclass__.attributes
    if cls.__tensorclass_options__.frozen and name[0] != "_" and (known or name in cls.__tensorclass_schema__.fields):
        self._refuse_frozen("set", name)
    if not known:
        raise unknown_attribute(cls, name)
    object.__setattr__(self, name, value)


def as_changes(args: tuple[Any, ...]) -> dict[Any, Any]:
    """The positional argument of `replace` as a dict.

    Raises:
        ArgumentError: for anything but one mapping, one container, or one sequence of pairs.
    """
    with suppress(TypeError, ValueError):
        return dict(*args)
    given = ", ".join(map(described, args))
    raise ArgumentError(f"replace takes fields by name, `replace(x=...)`, or one mapping of them, got {given}")


def replace(self: Any, changes: Mapping[str, Any]) -> Any:
    """Implement `copy.replace` and `dataclasses.replace`: run the constructor; keep batch size, device and names."""
    cls = type(self)
    state = {name: getattr(self, name) for name, spec in cls.__tensorclass_schema__.fields.items() if spec.init}
    extras = {"batch_size": self._batch_size, "device": self._device, "names": self._names}
    return cls(**{**extras, **state, **changes})


def shallow_replace(self: Any, changes: Mapping[str, Any]) -> Any:
    """A copy with some fields changed and validated. The constructor does not run, `__post_init__` does."""
    new = self._twin()
    data = new._store._live()
    rest = {}
    quick = type(data) is dict and new._store._device is None and not type(self).__tensorclass__.checked
    for name, value in changes.items():
        old = data.get(name)
        if quick and is_like(old, value):
            data[name] = value
        else:
            rest[name] = value
    if not all([type(name) is str for name in rest]):  # paths and field references
        type(self).update(new, rest)
        rest = {}
    for name, value in check_many(new, rest).items() if rest else ():
        new._put(name, value)
    if type(self).__tensorclass__.post_init:
        new.__post_init__()
    return new


_IN_DATACLASSES = [name for name, option in FIELD_OPTIONS.items() if option.in_dataclasses]


def _dataclass_fields(cls: Any, schema: Schema) -> dict[str, Any]:
    """The dataclass fields. Batch size, device and names are included so that `replace` keeps them."""
    found: dict[str, Any] = {}
    for name, spec in schema.declared.items():
        options: dict[str, Any] = {name: getattr(spec, name) for name in _IN_DATACLASSES}
        options["metadata"] = spec.options
        if spec.default_factory is not MISSING:
            options["default_factory"] = spec.default_factory
        elif spec.default is not MISSING:
            options["default"] = spec.default
        item: Any = dataclasses.field(**options)
        item.name, item.type = name, spec.declared
        kind = "_FIELD_INITVAR" if spec.kind is INIT_VAR else "_FIELD"
        item._field_type = getattr(dataclasses, kind)  # the marker of the standard library
        found[name] = item
    for name in ("batch_size", "device", "names"):
        item = dataclasses.field(default=None, kw_only=True)
        item.name, item.type = name, Any
        item._field_type = dataclasses._FIELD_INITVAR  # type: ignore[attr-defined]  # read by `replace`; not a field
        found[name] = item
    return found


_PARAMS = {
    frozen: dataclasses.make_dataclass("model", [], frozen=frozen).__dataclass_params__  # type: ignore[attr-defined]  # theirs
    for frozen in (False, True)
}
"""The options that dataclasses store; code that inspects dataclasses reads them."""


def signature(schema: Schema) -> inspect.Signature:
    """The signature that `help()` and IDEs show."""
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    found, required = [], False
    for name, spec in reversed([*schema.declared.items()]):
        if spec.init:
            default = inspect.Parameter.empty if spec.default is MISSING else spec.default
            default = ... if spec.default_factory is not MISSING else default
            if default is inspect.Parameter.empty:
                default = None if spec.optional and (spec.kw_only or not required) else default
                required |= default is not None and not spec.kw_only
            found.append(inspect.Parameter(name, kinds[spec.kw_only], default=default, annotation=TypeName(str(spec))))
    found.reverse()
    for name in ("batch_size", "device", "names"):
        found.append(inspect.Parameter(name, kinds[1], default=None))
    found.sort(key=lambda parameter: parameter.kind)
    try:
        return inspect.Signature(found)
    except ValueError:  # a required parameter after a default one: the declaration has raised already
        return inspect.Signature()


# ---- forward references and generics -----------------------------------------------------------------------------


def _postpone(cls: Any, schema: Schema) -> None:
    """Postpone the rest of the build to the first use, since an annotation uses an undefined name."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        complete(cls)
        type(self).__init__(self, *args, **kwargs)

    cls.__init__ = init
    cls.__tensorclass_schema__ = schema
    cls.__tensorclass__ = _NEW
    for name in schema.names:
        if name in vars(cls):
            delattr(cls, name)  # so that `Meta.__getattr__` gets a reference to the field, and finishes the class


def _change_options(cls: type, options: Options, given: Mapping[str, Any]) -> Options:
    """The options of a class: those of its bases, changed by those in its own declaration."""
    for name, value in given.items():
        option = CLASS_OPTIONS[name]
        if option.lasts and value is False and getattr(options, name):
            hint = "code that uses the base class relies on it; leave the option out"
            raise SchemaError.of(cls.__name__, [Problem(name, f"{name} by a base class", f"{name}=False", hint)])
        wrong = option.problem(value)
        if wrong:
            raise ArgumentError(f"{cls.__name__}: the option `{name}` {wrong}")
    both = {name: given.get(name, getattr(options, name)) for name in SWITCHES}
    for name, other in [(name, CLASS_OPTIONS[name].excludes) for name in SWITCHES if both[name]]:
        if other and both[other]:
            raise ArgumentError(
                f"{cls.__name__}: `{name}` and `{other}` exclude each other; give one, and the other as False"
            )
    removed = {**dict(options.removed), **dict(removed_table(given.get("removed", ())))}
    return dataclasses.replace(options, **{**given, "removed": tuple(removed.items())})


def is_pending(cls: Any) -> bool:
    """Whether an annotation of a class uses an undefined name."""
    return "__tensorclass__" in vars(cls) and cls.__tensorclass__.pending


def complete(cls: Any) -> None:
    """Resolve pending names in a class and its parents, and finish them; nothing for a class without such names."""
    for base in reversed(cls.__mro__) if is_pending(cls) else ():
        if is_pending(base):
            schema = base.__tensorclass_schema__.resolve()
            finish_class(base, Schema(base.__name__, schema.declared.values()))


_PARAMETRISED = Classes()
_UNFINISHED: ContextVar[dict[Any, Any]] = ContextVar("unfinished", default={})  # noqa: B039  # never changed


@constant
def parametrise(cls: Any, item: Any) -> Any:
    """`Pair[Digits]`: a subclass with its type variables substituted; `TensorClass["shadow"]`: a base with options."""
    if isinstance(item, str) or (isinstance(item, tuple) and item and all(isinstance(part, str) for part in item)):
        names = (item,) if isinstance(item, str) else item
        return type(cls)(
            cls.__name__,
            (cls,),
            {
                "__module__": cls.__module__,
                "__tensorclass_root__": True,
                "__slots__": (),
                "__tensorclass_options__": _with_options(cls, names),
            },
        )
    parameters = getattr(cls, "__parameters__", ())
    arguments = item if isinstance(item, tuple) else (item,)
    if len(arguments) != len(parameters):
        raise ArgumentError(
            f"{cls.__name__} takes {len(parameters)} type argument(s), got {len(arguments)}; a generic class is "
            "declared with `Generic[T]`"
        )
    if any(isinstance(argument, TypeVar) for argument in arguments):
        before = cls.__mro__[cls.__mro__.index(Generic) - 1]
        return super(before, cls).__class_getitem__(item)  # that of Generic: the standard alias
    unfinished = _UNFINISHED.get().get((cls, arguments))
    return unfinished or _PARAMETRISED.get((cls, arguments), lambda: _specialise(cls, arguments))


def _specialise(cls: Any, arguments: tuple[Any, ...]) -> Any:
    """The class with type arguments in place of its parameters."""
    label = ", ".join(getattr(argument, "__name__", str(argument)) for argument in arguments)
    body = {"__module__": cls.__module__, "__tensorclass_root__": True, "__doc__": cls.__doc__}
    new: Any = type(cls)(f"{cls.__name__}[{label}]", (cls,), body)
    del new.__tensorclass_root__
    new.__tensorclass_recipe__ = Recipe(parametrise, (cls, arguments))
    new.__tensorclass_options__ = cls.__tensorclass_options__
    new.__parameters__ = ()
    # A field of a recursive class asks for the same arguments again, and gets the class that is being made.
    token = _UNFINISHED.set({**_UNFINISHED.get(), (cls, arguments): new})
    try:
        finish_class(new, substitute(cls.__tensorclass_schema__, dict(zip(cls.__parameters__, arguments, strict=True))))
    finally:
        _UNFINISHED.reset(token)
    return new


def reduce_class(cls: Any) -> Any:
    """How a class is pickled: by its name, or as the request that made it from other classes."""
    recipe = vars(cls).get("__tensorclass_recipe__")
    return cls.__qualname__ if recipe is None else (recipe.make, recipe.arguments)


def _with_options(cls: Any, names: tuple[str, ...]) -> Options:
    current = getattr(cls, "__tensorclass_options__", None) or Options()
    unknown = [name for name in names if name not in SWITCHES]
    if unknown:
        near = did_you_mean(str(unknown[0]), SWITCHES)
        raise ArgumentError(f"unknown option {unknown[0]!r:.200}{near}; options are {', '.join(SWITCHES)}")
    return dataclasses.replace(current, **dict.fromkeys(names, True))
