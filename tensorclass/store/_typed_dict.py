"""TypedTensorDict: a TensorDict with keys declared as annotations, like a `TypedDict`.

It is a mapping (`state["eta"]`, `**state`), and undeclared keys may be added; a typed class is closed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Optional, get_args, get_origin

from torch import Tensor
from typing_extensions import NotRequired, Self

from .._flags import flags
from .._options import DICT_OPTIONS
from .._schema import Options, Schema, build_schema, check_field, check_fields, own_annotations
from ..core import Device, Path, TensorCollection, relock
from ..errors import (
    ArgumentError,
    FieldNotProducedError,
    SchemaError,
    UnknownFieldError,
    UnsupportedOperationError,
    did_you_mean,
)
from ..ops._by_row import RowOps
from ._dict import TensorDict
from .entries._agreement import require_planned, shares_lengths
from .entries._nodes import Node
from .entries._ragged import RaggedTensor

_NOT_REQUIRED = re.compile(r"(?:\w+\.)*NotRequired\[(.*)\]", re.DOTALL)
_OWN = frozenset({"batch_size", "device", "names", "non_blocking", "lock"})


@flags
class TypedTensorDict(TensorDict):
    """A TensorDict with declared keys: attribute access, a checked constructor, inheritance.

    Annotate the fields in a subclass, with dtypes and shapes as in a typed class, or as plain tensors.
    `NotRequired[...]` marks a field that may be absent; reading an absent field returns its default. Class keywords:
    `frozen=True` locks every new instance, `shadow=True` allows fields with names of methods.

    Args:
        batch_size: the leading dims that every entry must have; inferred from the first field that declares its shape.
        device: all entries are moved there.
        names: a name or None for each batch dim.
        non_blocking: whether copies to `device` may be asynchronous.
        lock: lock the instance.
        **fields: the value of each field.

    Raises:
        SchemaError: for missing, unknown and wrong fields; lists all of them.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import TypedTensorDict
    >>> class State(TypedTensorDict):
    ...     eta: Tensor
    ...     x: Tensor
    >>> state = State(eta=torch.zeros(5, 3), x=torch.zeros(5), batch_size=[5])
    >>> state[0].eta.shape, sorted({**state})
    (torch.Size([3]), ['eta', 'x'])
    """

    __expected_keys__: ClassVar[frozenset[str]] = frozenset()
    __required_keys__: ClassVar[frozenset[str]] = frozenset()
    __optional_keys__: ClassVar[frozenset[str]] = frozenset()
    __field_defaults__: ClassVar[dict[str, Any]] = {}
    _declared: ClassVar[dict[str, tuple[Any, bool]]] = {}
    _fields: ClassVar[Schema | None] = None
    _frozen: ClassVar[bool] = False
    _shadow: ClassVar[bool] = False

    def __init__(
        self,
        source: Mapping[Any, Any] | TensorCollection | None = None,
        /,
        *,
        batch_size: Sequence[int] | int | None = None,
        device: Device = None,
        names: Sequence[str | None] | None = None,
        non_blocking: bool | None = None,
        lock: bool = False,
        **fields: Any,
    ) -> None:
        cls = type(self)
        if not cls.__expected_keys__:
            raise ArgumentError(f"{cls.__name__} declares no fields; make a subclass that annotates them")
        given = _given_fields(source, fields)
        if batch_size is None and isinstance(source, TensorCollection):
            batch_size = source._batch_size
        checked, size = check_fields(cls._schema(), given, batch_size=batch_size, options=Options())
        entries = {key: value for key, value in checked.items() if key in given and value is not None}
        super().__init__(entries, size, device=device, names=names, non_blocking=non_blocking)
        if lock or cls._frozen:
            relock(self)

    def __init_subclass__(cls, frozen: bool | None = None, shadow: bool | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._dense = TensorDict  # a part of the entries may not fit the declaration
        cls._frozen = cls._frozen if frozen is None else frozen
        cls._shadow = cls._shadow if shadow is None else shadow
        own = {name: _read(annotation) for name, annotation in own_annotations(cls).items() if _is_field(annotation)}
        defaults = {name: vars(cls)[name] for name in own if name in vars(cls)}
        cls._refuse_hidden(own)
        over = [name for name in cls._declared if name in vars(cls) and name not in own]
        if over:
            raise SchemaError(
                f"{cls.__name__}: `{over[0]}` is a declared key of a base, and would be hidden by the "
                f"{type(vars(cls)[over[0]]).__name__} in the class body; take another name, or annotate it"
            )
        absent = {name for name in defaults if defaults[name] is None}
        declared = {name: (inner, free or name in absent) for name, (inner, free) in own.items()}
        cls._declared = {**cls._declared, **declared}
        cls.__field_defaults__ = {**cls.__field_defaults__, **defaults}
        cls.__expected_keys__ = frozenset(cls._declared)
        optional = {name for name, (_, free) in cls._declared.items() if free}
        cls.__optional_keys__ = frozenset(optional | cls.__field_defaults__.keys())
        cls.__required_keys__ = cls.__expected_keys__ - cls.__optional_keys__
        cls._fields = _schema_of(cls, sys._getframe(1).f_locals) if cls._declared else None
        for name in own:
            setattr(cls, name, _property(name))

    def __class_getitem__(cls, options: str | tuple[str, ...]) -> type[Self]:
        """A base class with options: `TypedTensorDict["frozen"]`."""
        given = (options,) if isinstance(options, str) else options
        for option in given:
            if option not in DICT_OPTIONS:
                near = did_you_mean(str(option), DICT_OPTIONS)
                raise ArgumentError(
                    f"{cls.__name__} has no option {option!r:.200}{near}; its options are {list(DICT_OPTIONS)}"
                )
        meta: Any = type(cls)
        made: type[Self] = meta(f"{cls.__name__}_{'_'.join(given)}", (cls,), {}, **dict.fromkeys(given, True))
        return made

    @classmethod
    def _refuse_hidden(cls, own: Mapping[str, Any]) -> None:
        for name in own:
            hides = name in _OWN or (hasattr(TensorDict, name) and name not in vars(RowOps) and not cls._shadow)
            if hides or name.startswith("_"):
                raise UnknownFieldError(
                    f"{cls.__name__}: the field `{name}` would hide the attribute of that name of every container; "
                    "give it another name, or declare the class with `shadow=True`"
                )

    @classmethod
    def _schema(cls) -> Schema:
        """The schema of the class, after all names in it are defined."""
        fields = cls._fields
        if fields is None:
            raise ArgumentError(f"{cls.__name__} declares no fields")
        if fields.pending:
            fields = cls._fields = fields.resolve()
        return fields

    @classmethod
    def from_tensordict(cls, tensordict: TensorCollection, check: bool = True) -> Self:
        """Wrap the tensors of a TensorDict; checked unless `check=False`. Undeclared keys are kept.

        Raises:
            SchemaError: for missing and wrong fields.
            UnsupportedOperationError: for a container of another kind; a typed class can wrap any.

        >>> import torch
        >>> from torch import Tensor
        >>> from tensorclass import TensorDict, TypedTensorDict
        >>> class State(TypedTensorDict):
        ...     eta: Tensor
        >>> data = TensorDict(eta=torch.zeros(5, 3), batch_size=[5])
        >>> State.from_tensordict(data).eta is data["eta"]
        True
        """
        if not isinstance(tensordict, TensorDict):
            raise UnsupportedOperationError(
                f"{cls.__name__}.from_tensordict takes a TensorDict, got a {type(tensordict).__name__}; convert it "
                "with `to_tensordict()`, or declare a TensorClass, which wraps any container"
            )
        entries = tensordict._entries()
        if not check:
            return cls._from_entries(entries, tensordict._batch_size, tensordict._device, tensordict._names)
        known = {key: value for key, value in entries.items() if key in cls.__expected_keys__}
        checked, _ = check_fields(cls._schema(), known, batch_size=tensordict._batch_size, options=Options())
        joint = {key: checked.get(key, value) if key in known else value for key, value in entries.items()}
        return cls._from_entries(joint, tensordict._batch_size, tensordict._device, tensordict._names)

    def _check(self, key: str, value: Any) -> Any:
        return self._check_beside(key, value, {name: entry for name, entry in self._data.items() if name != key})

    def _check_all(self, values: dict[str, Any]) -> dict[str, Any]:
        """Check each value with the entries that stay, and with the values before it."""
        seen = {name: entry for name, entry in self._data.items() if name not in values}
        checked: dict[str, Any] = {}
        for key, value in values.items():
            checked[key] = self._check_beside(key, value, {**seen, **checked})
        return checked

    def _check_beside(self, key: str, value: Any, entries: Mapping[str, Any]) -> Any:
        schema = type(self)._schema()
        if key in schema.fields and (not isinstance(value, Node) or isinstance(value, RaggedTensor)):
            others = {name: entry for name, entry in entries.items() if name in schema.fields}
            value = check_field(schema, key, value, batch_size=self._batch_size, others=others, options=Options())
        return super()._check(key, value)

    def _plan(self, source: Any, prefix: Path, *args: Any, **options: Any) -> list[Any]:
        plan = super()._plan(source, prefix, *args, **options)
        schema = type(self)._schema()
        if shares_lengths(schema):
            known = {name: value for name, value in self._data.items() if name in schema.fields}
            require_planned(type(self).__name__, schema, known, self._batch_size, plan, prefix)
        return plan

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and not hasattr(type(self), name):
            near = did_you_mean(name, type(self).__expected_keys__)
            raise UnknownFieldError(
                f"{type(self).__name__} declares no field `{name}`{near}; write another entry by its key, "
                f"`state[{name!r}] = ...`"
            )
        super().__setattr__(name, value)


def _given_fields(source: Any, fields: dict[str, Any]) -> dict[str, Any]:
    if source is None:
        return fields
    if fields:
        raise ArgumentError("give fields as one mapping or as keyword arguments, not both")
    return dict(source._entries() if isinstance(source, TensorCollection) else source)


def _is_field(annotation: Any) -> bool:
    text = annotation if isinstance(annotation, str) else ""
    return get_origin(annotation) is not ClassVar and annotation is not ClassVar and "ClassVar" not in text


def _read(annotation: Any) -> tuple[Any, bool]:
    """An annotation without `NotRequired`, and whether it had it."""
    if isinstance(annotation, str):
        found = _NOT_REQUIRED.fullmatch(annotation.strip())
        return (found[1], True) if found else (annotation, False)
    if get_origin(annotation) is NotRequired:
        return get_args(annotation)[0], True
    return annotation, False


def _schema_of(cls: type[TypedTensorDict], localns: Mapping[str, Any]) -> Schema:
    """The schema of the declared fields, including those of bases."""
    annotations = {name: _or_none(inner) if free else inner for name, (inner, free) in cls._declared.items()}
    defaults = dict.fromkeys(name for name, (_, free) in cls._declared.items() if free)
    body = {"__annotations__": annotations, "__module__": cls.__module__, **defaults, **cls.__field_defaults__}
    return build_schema(type(cls.__name__, (), body), localns=dict(localns), kw_only=True)


def _or_none(annotation: Any) -> Any:
    return f"({annotation}) | None" if isinstance(annotation, str) else Optional[annotation]  # noqa: UP045  # `|` accepts only types


def _property(name: str) -> property:
    def read(self: TypedTensorDict) -> Any:
        value = self._data.get(name)
        if value is None:
            return _absent(self, name)
        return self._entry(name)

    def write(self: TypedTensorDict, value: Any) -> None:
        self[name] = value

    return property(read, write, doc=f"The entry `{name}`.")


def _absent(self: TypedTensorDict, name: str) -> Any:
    default = type(self).__field_defaults__.get(name)
    if default is not None:
        return default.expand(self._batch_size + default.shape) if isinstance(default, Tensor) else default
    if name in type(self).__field_defaults__:
        return None
    raise FieldNotProducedError(f"{type(self).__name__} has no entry `{name}` now: it is declared, and was not given")
