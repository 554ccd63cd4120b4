"""The generated `__init__`: inline checks that only a valid call passes; any other call takes the complete, slow path.

The fast path never raises: it falls back to `_build.construct`, which finds the errors.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial, wraps
from typing import Any, Final

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .._kinds import INIT_VAR
from .._schema import EXACT, MISSING, FieldSpec, Options, Schema
from ..core import as_batch_size, as_jagged, blank
from ..ops._steps import kind_check
from ..ops._writable import interpreters
from ..store import NonTensorStack, Slots, TensorDict
from ._access import mixes
from ._compile import compile_function
from ._convert import says_size

# A field may be named `size`, `type` or `object`, but never with a leading `_`: so all other names here begin with one.
HEAD = """\
def __init__(_self, {parameters}):
    {data}try:
        while not _unknown and device is None and names is None:
{checks}
            _store = _new(_TensorDict)
            _store._data = _data
            _store._batch_size = _size
            _store._device = None
            _store._names = None
            _store._lock = None
            _store._plain = {plain}
            _object.__setattr__(_self, "_store", _store)
            {post}return
    except RuntimeError:
        if _as_jagged({given}.items()) is None:
            raise
    _build(_self, {given}, batch_size, device, names, _unknown)
    {post}return
"""


WIDE = 16
"""From this number of fields, the slow path gets `locals()`: repeating every argument would increase compile time."""


MANY = 100
"""From here on arguments by keyword are put in order first."""


class Given(Enum):
    """Sentinels for arguments in the generated code; an enum, because dynamo supports enums."""

    ABSENT = "absent"
    DEFAULT = "default"


ABSENT: Any = Given.ABSENT
"""The argument of a required field was not given."""
DEFAULT: Any = Given.DEFAULT
"""A default that is made for each call: the result of a factory, or a tensor spread over the batch."""


def _in_order(init: Any) -> Callable[..., None]:
    """A constructor that passes its arguments on by position: Python compares each keyword with every parameter."""
    code = init.__code__
    parameters = [*zip(code.co_varnames[1 : code.co_argcount], init.__defaults__, strict=True)]

    @wraps(init)
    def pass_in_order(self: Any, /, *args: Any, **given: Any) -> None:
        init(self, *args, *[given.pop(name, default) for name, default in parameters[len(args) :]], **given)

    return pass_in_order


def _never(*_: Any) -> bool:
    return False


class _Kind(tuple[Any, ...]):
    """A batch size, the argument that said it, and a check of tensors, which can't be pickled: pickles know nothing."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return _no_kind, ()


def _no_kind() -> _Kind:
    return NO_KIND


NO_KIND: Final = _Kind((as_batch_size(None), None, _never))


def _no_known_kind() -> Any:
    """What a class knows of the tensors that passed all checks of its constructor, to check the next ones in one call.

    A function remembers a batch size, the argument that said it, and tensors. Its attribute `kind` holds what it made
    of them, and `waits()` is True until another kind may be remembered: longer each time. Dynamo takes the values of
    closures for functions, not for objects of a class.
    """

    def learn(size: torch.Size, given: Any, *tensors: Tensor) -> None:
        _wait(known, known.number * 8)
        if interpreters() is None:  # a function transform, whose tensors have other sizes than they show
            known.kind = _Kind((size, given if type(given) in (tuple, torch.Size) else None, kind_check(tensors)))

    known: Any = learn
    known.kind = NO_KIND
    _wait(known, 1)
    return known


def _wait(known: Any, number: int) -> None:
    known.number, known.waits = number, partial(next, iter(range(number, 0, -1)), 0)


def _plain_objects(values: Any, size: torch.Size, kind: type) -> NonTensorStack[Any] | None:
    """The entry of a list with an object of one class for each element, or of one such object; None for the rest."""
    if type(values) is kind:
        return NonTensorStack.of_one(values, size)
    fits = type(values) is list and len(size) == 1 and len(values) == size[0] and {*map(type, values)} == {kind}
    if not fits:
        return None
    index = torch.arange(len(values), device="cpu")
    return NonTensorStack._at(Slots(tuple(values), index, index), None)


SPACE = globals()
"""The globals of generated code; the names of its class are in its closure."""
SPACE.update(
    _Tensor=Tensor,
    _Size=torch.Size,
    _as_batch_size=as_batch_size,
    _as_jagged=as_jagged,
    _new=blank,
    _TensorDict=TensorDict,
    _ABSENT=ABSENT,
    _DEFAULT=DEFAULT,
    _type=type,
    _dict=dict,
    _len=len,
    _mixes=mixes,
    _tracing=is_dynamo_compiling,
    _NO_KIND=NO_KIND,
    _AttributeError=AttributeError,
    _object=object,
    **{f"_{kind.__name__}": kind for kind in EXACT},
)


def _is_remembered(spec: FieldSpec) -> bool:
    return spec.kind.is_dense and spec.kind.is_batched and not spec.optional and not spec.has_default


class InitBuilder:
    """Collects the pieces of one class's `__init__`."""

    def __init__(self, cls: Any, schema: Schema, options: Options, has_post_init: bool) -> None:
        self.cls = cls
        self.schema = schema
        self.options = options
        self.checked: bool = cls.__tensorclass__.checked
        self.fields = [spec for spec in schema.fields.values() if spec.init]
        self.init_vars = schema.init_vars
        self.has_post_init = has_post_init
        self.names: dict[str, Any] = {}
        self.lines: list[str] = []
        self.bound: set[str] = set()
        self.targets: dict[str, str] = {}
        self.dtypes: dict[Any, str] = {}
        self.alike: dict[str, list[str]] = {}

    def build(self, build: Callable[..., None]) -> Callable[..., None]:
        """The compiled `__init__`."""
        self.names["_build"] = build
        fast = self._checks()
        arguments = [spec.name for spec in (*self.fields, *self.init_vars)]
        given = f"{{{', '.join(f'{name!r}: {name}' for name in arguments)}}}"
        if len(arguments) > WIDE and "locals" not in arguments:
            given = "locals()"
        data = ""
        if "_seen" in self.names:
            data, given = f"_data = {given}\n    ", "_data"
        passed = ", ".join(spec.name for spec in self.init_vars)
        post = f"_self.__post_init__({passed}); " if self.has_post_init else ""
        plain = all(spec.kind.is_batched for spec in self.fields)
        checks = "\n".join("            " + line for line in self.lines) if fast else "            break"
        text = HEAD.format(parameters=self._parameters(), data=data, checks=checks, plain=plain, given=given, post=post)
        made = compile_function(text, "__init__", self.cls, self.names, SPACE)
        return made if len(self.fields) < MANY else _in_order(made)

    def _parameters(self) -> str:
        positional: list[str] = []
        keyword: list[str] = []
        for spec in self.schema.declared.values():
            if spec.init:
                (keyword if spec.kw_only else positional).append(f"{spec.name}={self._default(spec)}")
        parts = [*positional, "*", *keyword, "batch_size=None", "device=None", "names=None", "**_unknown"]
        return ", ".join(parts)

    def _default(self, spec: FieldSpec) -> str:
        if spec.kind is not INIT_VAR and (spec.default_factory is not MISSING or isinstance(spec.default, Tensor)):
            return "_DEFAULT"
        if spec.default is not MISSING:
            self.names[f"_d_{spec.name}"] = spec.default
            return f"_d_{spec.name}"
        return "None" if spec.optional else "_ABSENT"

    # ---- the checks ----------------------------------------------------------------------------------------------

    def _checks(self) -> bool:
        """Emit the fast path; False if a field can't be checked inline."""
        if self._needs_more():
            return False
        sizer = next((s for s in self.fields if says_size(s) and not s.optional), None)
        known = (
            all(map(_is_remembered, self.fields)) and sizer is not None
        )  # which says the batch size without being told
        remembered = known and len(self.fields) < WIDE and not self.init_vars
        self.lines += [f"if {spec.name} is _ABSENT: break" for spec in self.init_vars if spec.default is MISSING]
        for spec in self.fields:
            self._emit_default(spec)
        first, self.lines = self.lines, []
        if sizer is None:
            self.lines.append("_size = _as_batch_size(batch_size)")
            if any(says_size(s) for s in self.fields):
                self.lines[-1:] = ["if batch_size is None: break", "_size = _as_batch_size(batch_size)"]
        else:
            self._emit_size(sizer)
        ordered = ([sizer] if sizer else []) + [s for s in self.fields if s is not sizer]
        if not all(self._emit_field(spec) for spec in ordered):
            return False
        if not remembered:
            self._emit_data()
        self._emit_alike()
        self.lines = first + (self._unless_known() if remembered else self.lines)
        return True

    def _unless_known(self) -> list[str]:
        """The checks, in a branch for tensors of another kind than the one that the class remembers."""
        names = [spec.name for spec in self.fields]
        self.names["_seen"] = _no_known_kind()
        nested = " or ".join([f"{name}.is_nested" for name in names])  # of one that is, the check would end Python
        sized = "batch_size is None or batch_size is _given or _as_batch_size(batch_size) == _size"
        return [
            "_size, _given, _check = _NO_KIND if _tracing() else _seen.kind",  # dynamo can't call a check
            f"try: _same = not ({nested}) and _check({', '.join(names)}) and ({sized})",
            "except _AttributeError: break",  # not a tensor
            "if not _same:",
            *["    " + line for line in self.lines],
            "    if not (_tracing() or _seen.waits()): _seen(_size, batch_size, *_data.values())",
        ]

    def _needs_more(self) -> bool:
        """Whether the class needs the complete path: for value checks, or for fields with defaults but no parameter."""
        return self.checked or any(spec.has_default and not spec.init for spec in self.schema.fields.values())

    def _emit_default(self, spec: FieldSpec) -> None:
        if spec.default_factory is not MISSING:
            self.names[f"_f_{spec.name}"] = spec.default_factory
            self.lines.append(f"if {spec.name} is _DEFAULT: {spec.name} = _f_{spec.name}()")

    def _emit_size(self, spec: FieldSpec) -> None:
        name = spec.name
        if spec.kind.is_nested:
            self._emit_nested_class(spec)
            inferred = f"{name}._store._batch_size"
        else:
            assert spec.spec is not None
            assert spec.spec.dims is not None
            self.lines.append(f"if _type({name}) is not _Tensor: break")
            inferred = f"{name}.shape[:{name}.ndim - {spec.spec.dims.rank}]" if spec.spec.dims.rank else f"{name}.shape"
        self.lines.append(f"if batch_size is None: _size = {inferred}")
        self.lines.append("else: _size = batch_size if _type(batch_size) is _Size else _as_batch_size(batch_size)")

    def _emit_field(self, spec: FieldSpec) -> bool:
        start = len(self.lines)
        if not self._emit_kind(spec):
            return False
        if spec.optional:
            shared = [line for line in self.lines[start:] if line.startswith("_s_")]
            body = [line for line in self.lines[start:] if not line.startswith("_s_")]
            self.lines[start:] = [*shared]
            start += len(shared)
            self.lines[start:] = [f"if {spec.name} is not None:", *["    " + line for line in body]] if body else []
        return True

    def _emit_kind(self, spec: FieldSpec) -> bool:
        """Write the quick test of a field; False if only the complete path checks it."""
        if spec.kind.is_batched:
            return self._emit_tensor(spec)
        if spec.kind.is_nested:
            return self._emit_nested(spec)
        if spec.kind.is_per_element:
            return self._emit_objects(spec)
        return spec.kind.is_value and self._emit_value(spec)

    def _emit_tensor(self, spec: FieldSpec) -> bool:
        """Write the quick test of a tensor, and what its default becomes; False if only the complete path checks it."""
        name, tensor = spec.name, spec.spec
        assert tensor is not None
        if isinstance(spec.default, Tensor):
            self.names[f"_d_{name}"] = spec.default
            self.lines.append(f"if {name} is _DEFAULT: {name} = _d_{name}.expand((*_size, *_d_{name}.shape)).clone()")
        check, exact, family = "_type({0}) is not _Tensor", tensor.dtype.exact, tensor.dtype.dtypes
        if family is not None:
            label = self.dtypes.setdefault(family, f"_t_{len(self.dtypes)}")
            self.names[label] = family if exact is None else exact
            check += f" or {{0}}.dtype {'not in' if exact is None else 'is not'} {label}"
        dims = tensor.dims
        if dims is None:
            self._emit_check(spec, f"{check} or {{0}}.shape[:_len(_size)] != _size")
            return True
        if dims.rank is None:
            return False
        expected = self._expected_shape(spec, dims, spec.optional)
        if expected is None:
            return False
        first, shape = expected
        if first:
            self.lines += [f"if {check.format(name)} or {name}.ndim != _len(_size) + {dims.rank}: break", *first]
            check = "False"
        self._emit_check(spec, f"{check} or {{0}}.shape != {self._target(shape)}")
        return True

    def _emit_check(self, spec: FieldSpec, check: str) -> None:
        """Emit a fallback for a condition on the value `{0}`.

        Equal conditions of required fields are emitted together.
        """
        if spec.optional:
            self.lines.append(f"if {check.format(spec.name)}: break")
        else:
            self.alike.setdefault(check, []).append(spec.name)

    def _emit_alike(self) -> None:
        """Emit one loop over many fields with the same check: a line for each would increase compile time.

        So would the names of all fields once more.
        """
        for check, names in self.alike.items():
            if len(names) < WIDE:
                self.lines.append(f"if {' or '.join([check.format(name) for name in names])}: break")
            else:
                values = "_data.values()" if len(names) == len(self.fields) else f"({', '.join(names)})"
                self.lines += ["_alike = False", f"for _v in {values}:", f"    if {check.format('_v')}: break"]
                self.lines += ["else: _alike = True", "if not _alike: break"]

    def _target(self, shape: list[str]) -> str:
        """The local variable with the full shape for an event shape; fields with the same event shape share it."""
        if not shape:
            return "_size"
        key = ", ".join(shape)
        if ".shape[" in key:
            return f"(*_size, {key})"
        if key not in self.targets:
            self.targets[key] = f"_s_{len(self.targets)}"
            self.lines.append(f"{self.targets[key]} = (*_size, {key})")
        return self.targets[key]

    def _expected_shape(self, spec: FieldSpec, dims: Any, optional: bool) -> tuple[list[str], list[str]] | None:
        """Lines that bind new dim names, and the expected event shape as source; None if it can't be inlined."""
        first: list[str] = []
        shape: list[str] = []
        for position, token in enumerate(dims.tokens):
            at = f"{spec.name}.shape[{position - dims.rank}]"
            text = str(token)
            if text == "_":
                shape.append(at)
            elif text.isidentifier():
                if text not in self.bound:
                    if optional:
                        return None
                    self.bound.add(text)
                    first.append(f"_n_{text} = {at}")
                shape.append(f"_n_{text}")
            elif text.isdecimal():
                shape.append(text)
            else:
                return None
        return first, shape

    def _emit_nested_class(self, spec: FieldSpec) -> None:
        self.names[f"_c_{spec.name}"] = spec.nested
        self.lines.append(f"if _type({spec.name}) is not _c_{spec.name}: break")

    def _emit_nested(self, spec: FieldSpec) -> bool:
        if spec.nested is None:
            return False
        if f"_c_{spec.name}" not in self.names:  # the one that says the size was looked at
            self._emit_nested_class(spec)
        size = f"{spec.name}._store._batch_size"
        self.lines.append(f"if {size} != _size and {size}[:_len(_size)] != _size: break")
        self._emit_beside(spec)
        return True

    def _emit_beside(self, spec: FieldSpec) -> None:
        """Leave DTensors of a nested value beside plain tensors to the complete path.

        A typed value has only DTensors, or none, so its first tensor says which.
        """
        if sum(one.kind.is_nested or one.kind.is_dense for one in self.fields) < 2:
            return
        walk = f"_mixes({{'': {spec.name}}})"
        nested = spec.nested_schema  # a class that holds it may not be defined yet
        own = [] if nested is None else [one for one in nested.declared.values() if _is_remembered(one)]
        if own:
            self.lines.append(f"_l = {spec.name}._store._data")  # of a lazy stack, one that would join its members
            walk = f"(_type(_l) is not _dict or _type(_l.get({own[0].name!r})) is not _Tensor) and {walk}"
        self.lines.append(f"if {walk}: break")

    def _emit_value(self, spec: FieldSpec) -> bool:
        annotation = spec.annotation
        if annotation not in EXACT or spec.metadata:
            return False
        self.lines.append(f"if _type({spec.name}) is not _{annotation.__name__}: break")
        return True

    def _emit_objects(self, spec: FieldSpec) -> bool:
        annotation = spec.annotation
        if annotation not in EXACT or spec.metadata or spec.default_factory is not MISSING:
            return False
        entry = self._entry(spec)
        self.lines.append(
            f"{entry} = None if _tracing() else _plain_objects({spec.name}, _size, _{annotation.__name__})"
        )
        self.lines.append(f"if {entry} is None: break")
        return True

    @staticmethod
    def _entry(spec: FieldSpec) -> str:
        """The variable with what is stored: another one than the argument, which the complete path gets as given."""
        return f"_e_{spec.name}" if spec.kind.is_per_element else spec.name

    def _emit_data(self) -> None:
        chunk: list[str] = []
        started = False
        for spec in self.fields:
            if not spec.optional:
                chunk.append(f"{spec.name!r}: {self._entry(spec)}")
                continue
            self.lines.append(self._flush(chunk, started))
            chunk, started = [], True
            self.lines.append(f"if {spec.name} is not None: _data[{spec.name!r}] = {self._entry(spec)}")
        if chunk or not started:
            self.lines.append(self._flush(chunk, started))

    def _flush(self, chunk: list[str], started: bool) -> str:
        if not started:
            return f"_data = {{{', '.join(chunk)}}}"
        return f"_data.update({{{', '.join(chunk)}}})" if chunk else "pass"
