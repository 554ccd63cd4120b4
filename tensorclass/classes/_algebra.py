"""Class algebra: make classes from classes (`pick`, `omit`, `merge`, `partial`), and their instances.

Equal requests return the same class. A result pickles as the request that made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

import torch

from .._options import CLASS_OPTIONS
from .._schema import MISSING, FieldSpec, Options, Schema
from .._schema._schema import unknown_field
from ..core import Classes, TensorCollection, constant
from ..errors import ArgumentError, BatchSizeError, Problem, SchemaError, StructureError, UnknownFieldError
from ..ops._compare import same_object
from ._build import complete, finish_class
from ._checks import readable
from ._convert import from_nesting
from ._facts import Recipe
from ._validators import Validator, validators_of

if TYPE_CHECKING:
    from ._base import TensorClass
    from ._meta import Meta

T = TypeVar("T", bound="TensorClass")
Typed: TypeAlias = "type[TensorClass] | Meta"
"""A typed class; mypy joins several in a list as their metaclass."""
Path = tuple[str, ...]
Tree = tuple[tuple[str, Any], ...]
"""Fields in the order of the declaration, each with the tree of the fields that are kept below it; () keeps all."""

TITLE = 60  # the longest title made of field names
_MADE = Classes()


def pick(cls: Typed, *fields: Any, name: str | None = None) -> Any:
    """Make a class with some of the fields of a class, in the order of its declaration.

    Types, docs, defaults, constraints, field validators and options are kept. Methods and class validators are dropped,
    since they may use omitted fields. The same fields give the same class; all fields give `cls` itself.

    Args:
        cls: A typed class.
        fields: Names, paths (`"pose.angle"`, `("pose", "angle")`) or references (`Digits.image`). A path into a nested
            class also picks from that class.
        name: The name of the new class; by default it is made from the fields.

    Raises:
        UnknownFieldError: for a name that is not a field; suggests the nearest name.
        SchemaError: if no fields are given.

    >>> from torch import Tensor
    >>> from tensorclass import TensorClass, pick, schema
    >>> from tensorclass.typing import Float32, Int64
    >>> class Digits(TensorClass):
    ...     image: Float32[Tensor, "8 8"]
    ...     label: Int64[Tensor, ""]
    ...     source: str = "scan"
    >>> print(schema(pick(Digits, Digits.image, "source")))
    Digits_image_source
      image   Float32["8 8"]
      source  str             = 'scan'
    """
    return _keep_paths(cls, _paths(cls, fields, "pick"), True, name)


def omit(cls: Typed, *fields: Any, name: str | None = None) -> Any:
    """Make a class without some of the fields of a class; the counterpart of `pick`, with the same arguments.

    Raises:
        UnknownFieldError: for a name that is not a field; suggests the nearest name.
        SchemaError: if no field is left.

    >>> from torch import Tensor
    >>> from tensorclass import TensorClass, omit, pick
    >>> class Digits(TensorClass):
    ...     image: Tensor
    ...     label: Tensor
    >>> omit(Digits, "label") is pick(Digits, "image")
    True
    """
    return _keep_paths(cls, _paths(cls, fields, "omit"), False, name)


def merge(first: Typed, second: Typed, *more: Typed, name: str | None = None) -> Any:
    """Make a class with the fields of several classes. A field that two classes declare alike appears once.

    Dims of the same name must be equal across all fields of the result. A field without a default that follows a field
    with a default becomes keyword-only. Class validators are kept. `frozen` and `shadow` are set if any class sets
    them; the strictest `validate` wins.

    Args:
        first: A typed class.
        second: Another.
        more: Further ones.
        name: The name of the new class; by default it is made from the names of the classes.

    Raises:
        SchemaError: for a field that two classes declare differently; names both.

    >>> from torch import Tensor
    >>> from tensorclass import TensorClass, merge, schema
    >>> from tensorclass.typing import Float32, Int64
    >>> class Images(TensorClass):
    ...     image: Float32[Tensor, "8 8"]
    >>> class Labels(TensorClass):
    ...     label: Int64[Tensor, ""]
    >>> schema(merge(Images, Labels)).names
    ('image', 'label')
    """
    classes = tuple(dict.fromkeys(_ready(cls, "merge") for cls in (first, second, *more)))
    return classes[0] if len(classes) == 1 else _make_class("merge", classes, (), name)


def partial(cls: Typed, *, name: str | None = None) -> Any:
    """Make a class with the same fields, all optional: a field may be None, and is None by default.

    Fields of nested classes stay required; produced fields stay produced. Constraints and field validators apply to
    given values.

    Args:
        cls: A typed class.
        name: The name of the new class; by default `Partial` followed by the old name.

    >>> import torch
    >>> from torch import Tensor
    >>> from tensorclass import TensorClass, partial
    >>> from tensorclass.typing import Float32, Int64
    >>> class Digits(TensorClass):
    ...     image: Float32[Tensor, "8 8"]
    ...     label: Int64[Tensor, ""]
    >>> partial(Digits)(label=torch.tensor([1, 2])).image is None
    True
    """
    return _make_class("partial", (_ready(cls, "partial"),), (), name)


# ---- requests ----------------------------------------------------------------------------------------------------


def _ready(cls: Any, where: str) -> Any:
    if not isinstance(cls, type) or "__tensorclass_schema__" not in vars(cls):
        given = cls.__name__ if isinstance(cls, type) else f"an instance of {type(cls).__name__}"
        hint = f"; `{where}(Digits, ...)` makes a class, `batch.{where}(...)` a batch" if cls is str else ""
        raise ArgumentError(f"{where}() takes tensorclasses, got {given}{hint}")
    complete(cls)
    return cls


def _paths(cls: Any, fields: Iterable[Any], where: str) -> list[Path]:
    _ready(cls, where)
    found = [path_of(field) for field in fields]
    if not found:
        raise SchemaError(f"{where}({cls.__name__}): name at least one of its fields: {', '.join(_fields(cls))}")
    return found


def path_of(field: Any) -> Path:
    """The path of a name, a tuple of names or a field reference."""
    path = getattr(field, "__field_path__", field)
    path = tuple(path.split(".")) if isinstance(path, str) else path
    if not isinstance(path, tuple) or not path or not all([isinstance(part, str) for part in path]):
        several = "; several are several arguments" if isinstance(field, list) else ""
        known = "a field is a name, a path or a reference such as `Digits.image`"
        raise ArgumentError(f"{known}, got {field!r:.60}{several}")
    return path


def _fields(cls: Any) -> Mapping[str, FieldSpec]:
    fields: Mapping[str, FieldSpec] = cls.__tensorclass_schema__.fields
    return fields


def _keep_paths(cls: Any, paths: Iterable[Path], keep: bool, name: str | None) -> Any:
    tree = _tree(cls, paths, keep)
    if not tree:
        raise SchemaError(f"omit({cls.__name__}): no field is left")
    return cls if tree == _whole(cls) and name is None else _make_class("pick", (cls,), tree, name)


def _whole(cls: Any) -> Tree:
    return tuple((name, ()) for name in _fields(cls))


def _tree(cls: Any, paths: Iterable[Path], keep: bool) -> Tree:
    """The fields of a class that remain if these paths are kept, or dropped."""
    below: dict[str, list[Path]] = {}
    for path in paths:
        below.setdefault(path[0], []).append(path[1:])
    unknown = next((name for name in below if name not in _fields(cls)), None)
    if unknown is not None:
        raise UnknownFieldError(unknown_field(cls.__tensorclass_schema__, unknown))
    found: list[tuple[str, Any]] = []
    for name, spec in _fields(cls).items():
        rests = below.get(name, ())
        if () in rests or not rests:
            found += [(name, ())] if bool(rests) is keep else []
            continue
        if spec.nested is None:
            raise UnknownFieldError(f"`{cls.__name__}.{name}` is {spec}, so it has no field `{'.'.join(rests[0])}`")
        inner = _tree(spec.nested, rests, keep)
        if inner:
            found.append((name, () if inner == _whole(spec.nested) else inner))
    return tuple(found)


# ---- the class ---------------------------------------------------------------------------------------------------


@constant
def _make_class(kind: str, sources: tuple[Any, ...], tree: Tree, name: str | None) -> Any:
    """The class of a request; it is made once."""
    return _MADE.get((kind, sources, tree, name), lambda: _make(kind, sources, tree, name))


def _make(kind: str, sources: tuple[Any, ...], tree: Tree, name: str | None) -> Any:
    first, names = sources[0], [cls.__name__ for cls in sources]
    title = name or {"pick": _title(first, tree), "merge": "".join(names), "partial": f"Partial{first.__name__}"}[kind]
    specs = list(_SPECS[kind](sources, tree))
    root: Any = next(base for base in reversed(first.__mro__) if "__tensorclass_root__" in vars(base))
    doc = {"pick": "Some fields", "merge": "The fields", "partial": "The fields, all optional,"}[kind]
    body = {
        "__module__": first.__module__,
        "__doc__": f"{doc} of {', '.join(names)}.",
        "__tensorclass_root__": True,
        "__annotations__": {spec.name: spec.declared for spec in specs},
        **_class_validators(kind, sources, specs),
    }
    new: Any = type(root)(title, (root,), body)
    del new.__tensorclass_root__
    new.__tensorclass_recipe__ = Recipe(_make_class, (kind, sources, tree, name), sources)
    options = _merged_options([cls.__tensorclass_options__ for cls in sources])
    gone = tuple(one for one in options.removed if one[0] not in {spec.name for spec in specs})
    new.__tensorclass_options__ = replace(options, removed=gone)
    finish_class(new, Schema(title, specs))
    return new


def _title(cls: Any, tree: Tree) -> str:
    names = [name for name, _ in tree]
    title = "_".join([cls.__name__, *names])
    while len(title) > TITLE and len(names) > 1:
        names.pop()
        title = "_".join([cls.__name__, *names, "and", str(len(tree) - len(names))])
    return title


def _picked_fields(sources: tuple[Any, ...], tree: Tree) -> Iterator[FieldSpec]:
    fields = _fields(sources[0])
    for name, inner in tree:
        spec = fields[name]
        if inner:
            made = _make_class("pick", (spec.nested,), inner, None)
            declared = made | None if spec.optional else made
            spec = spec.replace(annotation=made, declared=declared, nested=made, validators=())
        yield spec


def _merged_fields(sources: tuple[Any, ...], tree: Tree) -> Iterator[FieldSpec]:
    """The fields of several classes; those of one name must be alike, and required ones come first."""
    options = [cls.__tensorclass_options__ for cls in sources]
    policies = len({(one.nocast, one.autocast) for one in options}) > 1
    found: dict[str, tuple[Any, FieldSpec]] = {}
    for cls, own in zip(sources, options, strict=True):
        policy = own.conversion if policies else None
        for name, spec in _fields(cls).items():
            spec = spec.replace(coerce=spec.coerce or policy)
            if name in found:
                _require_alike(*found[name], cls, spec)
            found.setdefault(name, (cls, spec))
    late = False
    for _, spec in found.values():
        late = late or (spec.has_default and not spec.kw_only)
        yield spec.replace(kw_only=True) if late and spec.required else spec


def _require_alike(owner: Any, old: FieldSpec, cls: Any, new: FieldSpec) -> None:
    a, b = old.replace(kw_only=False), new.replace(kw_only=False)
    if a == b and a.metadata == b.metadata:
        return
    changes = Schema(owner.__name__, [a]).diff(Schema(cls.__name__, [b])).changed
    before, after = (
        (changes[0].old, changes[0].new) if changes else (f"{a}, {list(a.metadata)}", f"{b}, {list(b.metadata)}")
    )
    others = len(cls.__tensorclass_schema__.fields) > 1
    hint = f'pick one of them: `omit({cls.__name__}, "{old.name}")`' if others else "rename one of them"
    problem = Problem(old.name, f"{before} in `{owner.__name__}`", f"{after} in `{cls.__name__}`", hint)
    raise SchemaError.of(f"merge({owner.__name__}, {cls.__name__})", [problem])


def _optional(sources: tuple[Any, ...], tree: Tree) -> Iterator[FieldSpec]:
    for spec in _fields(sources[0]).values():
        if spec.produced:
            yield spec
        else:
            declared = spec.declared | None
            yield spec.replace(declared=declared, optional=True, default=None, default_factory=MISSING)


_SPECS = {"pick": _picked_fields, "merge": _merged_fields, "partial": _optional}


def _merged_options(given: list[Options]) -> Options:
    """The options of a class that is merged from several, as the table of options says for each."""
    values = {name: [getattr(one, name) for one in given] for name in CLASS_OPTIONS}
    return Options(**{name: reduce(CLASS_OPTIONS[name].merged, found) for name, found in values.items()})


def _class_validators(kind: str, sources: tuple[Any, ...], specs: Iterable[FieldSpec]) -> dict[str, Any]:
    """The validators, which still run with the class that declares them."""
    body: dict[str, Any] = {}
    names = {spec.name for spec in specs if kind != "pick" or spec.nested is _fields(sources[0])[spec.name].nested}
    for cls in sources:
        for name, mark in validators_of(cls):
            targets = tuple(field for field in mark.fields if field in names)
            key = name if name not in body else f"{cls.__name__}.{name}"
            if targets:
                body[key] = Validator(staticmethod(mark.__get__(None, cls)), targets, mark.mode)
            elif mark.mode == "class" and kind == "merge":
                body[key] = Validator(_check_part(cls, name), (), "class")
    return body


def _check_part(cls: Any, name: str) -> Any:
    """A class validator of a source, run on the part of a merged instance that belongs to that class."""

    def check(batch: Any) -> Any:
        return getattr(view(batch, cls), name)()

    return check


# ---- instances ---------------------------------------------------------------------------------------------------


def view(batch: Any, cls: Any) -> Any:
    """An instance of a class with fewer fields, around the same tensors, without a check."""
    if batch._store._stacked:
        return cls.from_tensordict(batch._store.select(*_paths_of_common_fields(type(batch), cls), strict=False))
    entries, found = batch._entries(), {}
    for name, spec in _fields(cls).items():
        if (value := entries.get(name)) is not None:
            found[name] = value if spec.nested is None or isinstance(value, spec.nested) else view(value, spec.nested)
    return cls._from_entries(_twins(found), batch._batch_size, batch._device, batch._names)


def _paths_of_common_fields(source: Any, cls: Any) -> Iterator[Path]:
    """The paths of the fields that one class takes from another."""
    fields = _fields(source)
    for name, spec in _fields(cls).items():
        nested = fields[name].nested if name in fields else None
        if spec.nested is None or nested is None or issubclass(nested, spec.nested):
            yield (name,)
        else:
            yield from [(name, *path) for path in _paths_of_common_fields(nested, spec.nested)]


def _as_instance(cls: Any, entries: Mapping[str, Any], size: torch.Size, device: Any, names: Any) -> Any:
    """An instance of a class around entries, checked."""
    if cls.__tensorclass__.direct:  # a constructor without further work, which torch.compile can trace
        return cls(**readable(entries), batch_size=size, device=device, names=names)
    new = from_nesting(cls, entries, size, device, None)
    new._store._names = names
    return new


def _twins(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The values for another instance: its containers share tensors with those of this one, but not new keys."""
    return {name: value._twin() if isinstance(value, TensorCollection) else value for name, value in entries.items()}


def _covers(source: Any, target: Any) -> bool:
    """Whether every instance of one class fits another, which has a subset of its fields with the same declarations."""
    unsure = target.__tensorclass__.checked or source.__tensorclass_options__.validate == "off"
    return not unsure and all(
        [_declare_the_same(_fields(source).get(name), spec) for name, spec in _fields(target).items()]
    )


def _declare_the_same(have: Any, want: FieldSpec) -> bool:
    return bool(have == want) and (want.nested is None or issubclass(have.nested, want.nested))


def _fitting(batch: Any, cls: Any) -> dict[str, Any]:
    """The entries of a batch that a class has; nested instances become instances of the classes in it."""
    entries = _twins({name: value for name, value in readable(batch._entries()).items() if name in _fields(cls)})
    for name, value in entries.items():
        nested = _fields(cls)[name].nested
        if nested is not None and isinstance(value, AlgebraMethods) and not isinstance(value, nested):
            try:
                entries[name] = value.pick(nested)
            except SchemaError as error:
                problems = [problem._replace(path=f"{name}.{problem.path}") for problem in error.problems]
                raise SchemaError.of(cls.__name__, problems) from None
    return entries


def _unite_entries(first: Any, second: Any) -> dict[str, Any]:
    """The entries of two batches; common fields must have equal values."""
    if first._batch_size != second._batch_size:
        raise BatchSizeError(
            f"merge: the batch sizes are {list(first._batch_size)} ({type(first).__name__}) and "
            f"{list(second._batch_size)} ({type(second).__name__}); index or expand one of them"
        )
    entries, others = readable(first._entries()), readable(second._entries())
    for name in entries.keys() & others.keys():
        if not same_object(entries[name], others[name]):
            raise StructureError(
                f"merge: `{name}` of the two batches differs; leave it out of one: `batch.pick(...)` without it"
            )
    return _twins({**entries, **others})


def _require_agreement_of(what: str, a: Any, b: Any) -> Any:
    if a is not None and b is not None and a != b:
        raise StructureError(f"merge: the two batches have the {what} {a} and {b}")
    return b if a is None else a


class AlgebraMethods:
    """Methods that convert an instance to another class, around the same tensors."""

    __slots__ = ()

    @overload
    def pick(self, cls: type[T], /) -> T: ...
    @overload
    def pick(self, /, *fields: object) -> Any: ...
    def pick(self, /, *fields: Any) -> Any:
        """Select some fields, as an instance of a smaller class around the same tensors.

        Args:
            fields: The fields to keep, as for `tensorclass.pick`; or one class that has some of the fields.

        Raises:
            UnknownFieldError: for a name that is not a field.
            SchemaError: if the batch doesn't fit the class.

        >>> import torch
        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> from tensorclass.typing import Float32, Int64
        >>> class Digits(TensorClass):
        ...     image: Float32[Tensor, "8 8"]
        ...     label: Int64[Tensor, ""]
        >>> Digits(torch.zeros(2, 8, 8), torch.ones(2, dtype=torch.int64)).pick("label")
        Digits_label(batch_size=[2], fields={label: i64[]})
        """
        batch: Any = self
        own, wanted = type(batch), fields[0] if len(fields) == 1 and isinstance(fields[0], type) else None
        if wanted is None:
            return view(batch, pick(own, *fields))
        _ready(wanted, "pick")
        if batch._store._stacked or _covers(own, wanted):
            return view(batch, wanted)
        return _as_instance(wanted, _fitting(batch, wanted), batch._batch_size, batch._device, batch._names)

    @overload
    def merge(self, other: TensorCollection, /) -> Any: ...
    @overload
    def merge(self, other: TensorCollection, cls: type[T], /) -> T: ...
    def merge(self, other: Any, cls: Any = None, /) -> Any:
        """Merge two batches of equal batch size into an instance of the merged class, around the same tensors.

        Args:
            other: A typed batch. Fields of both batches must have equal values.
            cls: The class of the result; `tensorclass.merge` of the two by default.

        Raises:
            SchemaError: for a field that the classes declare differently, for dims of the same name that differ, and
                for values that don't fit `cls`.
            BatchSizeError: for different batch sizes.
            StructureError: for a field whose values differ.

        >>> import torch
        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> class Images(TensorClass):
        ...     image: Tensor
        >>> class Labels(TensorClass):
        ...     label: Tensor
        >>> Images(torch.zeros(2, 3), batch_size=2).merge(Labels(torch.ones(2), batch_size=2))
        ImagesLabels(batch_size=[2], fields={image: f32[3], label: f32[]})
        """
        batch: Any = self
        found = _ready(cls, "merge") if cls is not None else merge(type(batch), _ready(type(other), "batch.merge"))
        device, names = (
            _require_agreement_of("devices", batch._device, other._device),
            _require_agreement_of("names", batch._names, other._names),
        )
        return _as_instance(found, _unite_entries(batch, other), batch._batch_size, device, names)

    def extend(self, cls: type[T], /, **fields: Any) -> T:
        """Convert to a class with more fields, which are given here.

        Args:
            cls: A class with all fields of this batch; its other fields are given here or have a default.
            fields: Values by field; they also replace values of this batch.

        Raises:
            SchemaError: for missing and unknown fields, and for values that don't fit.

        >>> import torch
        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> class Images(TensorClass):
        ...     image: Tensor
        >>> class Labelled(Images):
        ...     label: Tensor
        >>> Images(torch.zeros(2, 3), batch_size=2).extend(Labelled, label=torch.ones(2))
        Labelled(batch_size=[2], fields={image: f32[3], label: f32[]})
        """
        batch: Any = self
        known = _fields(_ready(cls, "extend"))
        entries = batch._entries()
        problems = [
            Problem(
                name,
                "no field",
                f"a field of {type(batch).__name__}",
                f"leave it out: `batch.pick(...)`, or declare it in `{cls.__name__}`",
            )
            for name in entries
            if name not in known
        ]
        if problems:
            raise SchemaError.of(cls.__name__, problems)
        new: T = _as_instance(cls, {**_twins(entries), **fields}, batch._batch_size, batch._device, batch._names)
        return new
