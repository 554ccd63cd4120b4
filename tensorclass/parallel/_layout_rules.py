"""The rules of a layout: the placement of each field follows from its dims, without torch's DTensor."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .._deferred import dtensor
from .._schema import Dim, FieldSpec, Variadic, is_tensorclass
from ..core import TensorCollection, walk
from ..errors import ArgumentError, did_you_mean, listed

Shards = tuple[int | None, ...]
"""For each mesh dim the dim of a tensor that it splits, or None for a replicated tensor."""


class LayoutWarning(UserWarning):
    """The warning for a layout with a dim that no field has.

    >>> import warnings
    >>> from tensorclass.parallel import LayoutWarning
    >>> warnings.filterwarnings("error", category=LayoutWarning)
    >>> warnings.resetwarnings()
    """


class Owner(NamedTuple):
    """A class on the way to a field, and the path of the field in it."""

    cls: type
    path: tuple[str, ...]

    def then(self, name: str) -> Owner:
        """The same for a field of the field."""
        return Owner(self.cls, (*self.path, name))


class Rules(NamedTuple):
    """What a layout says, as names."""

    sizes: Mapping[str, int]
    batch: Any
    """The mesh dims of the first batch dims, or of batch dims by name."""
    dims: Mapping[str, tuple[str, ...]]
    fields: Mapping[tuple[str, tuple[str, ...]], Mapping[str, int]]
    seen: set[str]
    """Dims and fields that a class had: further classes need not have them, and no warning is given."""

    def of_rows(self) -> tuple[str, ...]:
        """The mesh dims of the first batch dim."""
        places: Any = self.batch
        if isinstance(places, Mapping):
            places = [*places.values()]
        return tuple(places[0]) if places else ()

    def of_batch(self, ndim: int, names: Sequence[str | None] | None, label: str) -> Iterator[tuple[int, str]]:
        """Each batch dim that is split, with its mesh dim.

        Raises:
            ArgumentError: for a batch dim that is not there.
        """
        if isinstance(self.batch, Mapping):
            known = [name for name in names or () if name is not None]
            for name, places in self.batch.items():
                if name not in known:
                    has = f"its batch dims are {listed(known)}" if known else "its batch dims have no names"
                    raise ArgumentError(
                        f"{label} has no batch dim `{name}`{did_you_mean(name, known)}; {has}; set them with "
                        f"`refine_names`, or give the mesh dims by position"
                    )
                for place in places:
                    yield (names or ()).index(name), place
            return
        last = max((dim for dim, places in enumerate(self.batch) if places), default=-1)
        if last >= ndim:
            raise ArgumentError(
                f"the layout splits batch dim {last} over `{self.batch[last][0]}`, and {label} has {ndim} batch dims"
            )
        for dim, places in enumerate(self.batch):
            for place in places:
                yield dim, place

    def override(self, owners: Iterable[Owner]) -> Mapping[str, int] | None:
        """The placement that the layout gives to a field itself."""
        if not self.fields:
            return None
        for cls, path in owners:
            for base in cls.__mro__:
                for end in range(len(path), 0, -1):
                    found = self.fields.get((class_name(base), path[:end]))
                    if found is not None:
                        return found
        return None


def require_whole(rules: Rules, label: str, owners: Iterable[Owner]) -> None:
    """Refuse a placement of its own for a field that every rank holds whole.

    Raises:
        ArgumentError: names field, dim, mesh dim and its size.
    """
    for cls, path in owners:
        for base in cls.__mro__:
            for mesh_dim, dim in rules.fields.get((class_name(base), path), {}).items():
                raise ArgumentError(
                    f"`{label}` is whole on every rank, as are all ragged and per-element fields, strings and objects; "
                    f"the layout splits dim {dim} of it over `{mesh_dim}` ({rules.sizes[mesh_dim]} ranks): leave out "
                    f"its placement"
                )


class Slice(NamedTuple):
    """A mesh dim that splits a dim of a field; `exact` for expressions, which must divide."""

    mesh_dim: str
    dim: int
    word: str
    exact: bool


class FieldPlace(NamedTuple):
    """The facts about a field from which its placement follows."""

    label: str
    owners: tuple[Owner, ...]
    spec: FieldSpec | None
    """None for an entry of an untyped container."""
    batch_ndim: int
    names: Sequence[str | None] | None = None
    shape: Sequence[int | None] | None = None
    """None if the number of dims is not known; None for a size that is not known."""
    shared: bool = False


def class_name(cls: type) -> str:
    """The name under which a layout knows a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def shards(rules: Rules, field: FieldPlace) -> Shards:
    """The placement of a field.

    Raises:
        ArgumentError: if it can't be laid out so; names field, dim, mesh dim and sizes.
    """
    own = rules.override(field.owners)
    if own is not None:
        return tuple(_own(rules, field, name, own.get(name)) for name in rules.sizes)
    found: dict[str, Slice] = {}
    for one in _slices(rules, field):
        before = found.setdefault(one.mesh_dim, one)
        if before is not one:
            raise ArgumentError(
                f"`{field.label}`: the mesh dim `{one.mesh_dim}` splits both {before.word} and {one.word}; it can "
                f"split only one dim of a field. Give the field a placement of its own: `{{{_ref(field)}: ...}}`"
            )
        size = None if field.shape is None else field.shape[one.dim]
        if one.exact and size is not None and size % rules.sizes[one.mesh_dim]:
            raise ArgumentError(
                f"`{field.label}`: {one.word} is {size}, which the {rules.sizes[one.mesh_dim]} ranks of "
                f"`{one.mesh_dim}` do not divide; an expression is split into equal parts only"
            )
    return tuple(found[name].dim if name in found else None for name in rules.sizes)


def _ref(field: FieldPlace) -> str:
    owner = field.owners[0] if field.owners else None
    return field.label if owner is None else f"{owner.cls.__name__}.{'.'.join(owner.path)}"


def _own(rules: Rules, field: FieldPlace, mesh_dim: str, dim: int | None) -> int | None:
    if dim is None or field.shape is None:
        return dim
    ndim = len(field.shape)
    if not -ndim <= dim < ndim:
        raise ArgumentError(
            f"`{field.label}` has {ndim} dims, and the layout splits dim {dim} of it over `{mesh_dim}` "
            f"({rules.sizes[mesh_dim]} ranks)"
        )
    return dim % ndim


def _slices(rules: Rules, field: FieldPlace) -> Iterator[Slice]:
    """The dims of a field that a rule splits, each with its mesh dims."""
    batched = 0 if field.shared else field.batch_ndim
    if batched:
        for dim, place in rules.of_batch(field.batch_ndim, field.names, f"`{field.label}`"):
            yield Slice(place, dim, f"batch dim {dim}", False)
    dims = None if field.spec is None else field.spec.dims
    if dims is None:
        return
    for position, token in enumerate(dims.tokens):
        if not isinstance(token, Dim):
            continue
        at = batched + position
        if dims.variadic is not None and position > dims.variadic:
            at = position - len(dims) + (0 if field.shape is None else len(field.shape))
        for place in rules.dims.get(_normal(token), ()):
            yield Slice(place, at, f"dim `{token}`", not token.size.is_name)


def _normal(token: Dim) -> str:
    return str(token.size).replace(" ", "")


# ---- classes --------------------------------------------------------------------------------------------------------


def below(owners: Sequence[Owner], cls: type | None, name: str) -> tuple[Owner, ...]:
    """The classes on the way to a field of a container of a class."""
    further = [owner.then(name) for owner in owners]
    return (*further, Owner(cls, (name,))) if cls is not None and is_tensorclass(cls) else tuple(further)


def specs_of(cls: type) -> Mapping[str, FieldSpec]:
    """The fields of a typed class; empty for an untyped container."""
    schema: Any = getattr(cls, "__tensorclass_schema__", None)
    return {} if schema is None else schema.fields


def fields_below(cls: type, owners: tuple[Owner, ...] = (), path: str = "") -> Iterator[tuple[str, Any, FieldSpec]]:
    """Path, owners and declaration of each field of a class and of the classes nested in it."""
    for name, spec in specs_of(cls).items():
        here, label = below(owners, cls, name), f"{path}{name}"
        if spec.kind.is_nested and spec.nested is not None and not any(o.cls is spec.nested for o in here):
            yield from fields_below(spec.nested, here, f"{label}.")
        else:
            yield label, here, spec


def declared_dims(cls: type) -> dict[str, Dim]:
    """All dims that a class and the classes nested in it declare, by their normal form."""
    return {
        _normal(token): token
        for _, _, spec in fields_below(cls)
        if spec.dims is not None
        for token in spec.dims.tokens
        if isinstance(token, Dim) and token.size.constant is None
    }


def warn_unknown(rules: Rules, classes: Iterable[type], stacklevel: int = 5) -> None:
    """Warn of dims and fields of a layout that none of the classes has, nor a class that the layout was used with."""
    if rules.seen.issuperset(rules.dims) and rules.seen.issuperset([owner for owner, _ in rules.fields]):
        return
    every = [cls for cls in classes if isinstance(cls, type)]
    known = {name for cls in every for name in declared_dims(cls)}
    nested = {owner.cls for cls in every for _, owners, _ in fields_below(cls) for owner in owners}
    bases = {class_name(base) for cls in {*every, *nested} for base in cls.__mro__}
    variadic = {f"*{t.name}" for cls in every for _, _, s in fields_below(cls) for t in _variadics(s)}
    rules.seen.update(known, bases)
    which = ", ".join(dict.fromkeys(cls.__name__ for cls in [*filter(is_tensorclass, every)] or every))
    for name in rules.dims:
        if name not in rules.seen:
            text = f"their dims are {listed(known)}" if known else "they declare no names of dims"
            more = f"; `*{name}` is any number of dims, which can't be split" if f"*{name}" in variadic else ""
            warnings.warn(
                f"no field of {which} has the dim `{name}` that the layout splits over "
                f"`{'*'.join(rules.dims[name])}`{did_you_mean(name, known)}{more}; {text}",
                LayoutWarning,
                stacklevel=stacklevel,
            )
    for owner, path in rules.fields:
        if owner not in rules.seen:
            field = f"{owner.rpartition('.')[2]}.{'.'.join(path)}"
            warnings.warn(
                f"{which} has no field `{field}`, for which the layout has a placement",
                LayoutWarning,
                stacklevel=stacklevel,
            )


def _variadics(spec: FieldSpec) -> Iterator[Variadic]:
    if spec.dims is not None:
        yield from (token for token in spec.dims.tokens if isinstance(token, Variadic) and token.name)


def classes_in(batch: TensorCollection) -> Iterator[type]:
    """The class of a container and those of the containers in it."""
    yield type(batch)
    yield from (type(value) for _, value, _ in walk(batch) if isinstance(value, TensorCollection))


# ---- pieces ----


def chunk_span(size: int, dim: int, found: Shards, sizes: Sequence[int], where: Sequence[int]) -> tuple[int, int]:
    """Start and length of the piece of one rank along a dim, by the rule of `torch.chunk` and DTensor.

    >>> [chunk_span(5, 0, (0,), (4,), (rank,)) for rank in range(4)]
    [(0, 2), (2, 2), (4, 1), (5, 0)]
    """
    start, length = 0, size
    for split, count, at in zip(found, sizes, where, strict=True):
        if split == dim:
            step = -(-length // count)
            begin = min(step * at, length)
            start, length = start + begin, min(begin + step, length) - begin
    return start, length


def placements_of(found: Shards) -> list[Any]:
    """The placements of torch."""
    return [dtensor.Replicate() if dim is None else dtensor.Shard(dim) for dim in found]
