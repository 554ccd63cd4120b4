"""The state of a pipeline during the check: the value at each path, its writer, and its known properties."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, TypeVar

from ..._schema import DTypeFamily, FieldSpec, family_of
from ...core import Path
from ..parts._slots import Slot, fields_of, is_unnamed, path_text
from ._unify import Clash, DimScope, Terms, Unifier

INPUT = -1
V = TypeVar("V")


@dataclass(slots=True)
class Place:
    """One field of the state.

    `writer` is the index of the module that wrote it, or `INPUT`; `terms` are its event dims over the variables of the
    unifier; `dtype` is the declared family, narrowed by every read.
    """

    path: Path
    owner: type
    spec: FieldSpec
    terms: Terms
    dtype: DTypeFamily | None
    writer: int = INPUT
    optional: bool = False
    used: bool = False

    @property
    def name(self) -> str:
        return path_text(self.path)

    def __str__(self) -> str:
        if is_unnamed(self.owner):
            return self.name if self.spec.kind.is_open else f"{self.name}: {self.spec}"
        return f"{self.owner.__name__}.{self.name.removeprefix(f'{self.owner.__name__}.')}: {self.spec}"


class ByPath(dict[Path, V]):
    """Values by path, grouped by first key, so that overlapping paths are found quickly."""

    def __init__(self, known: Mapping[Path, V] = types.MappingProxyType({})) -> None:
        super().__init__()
        self._longer: dict[str, dict[Path, None]] = {}
        for path, value in known.items():
            self[path] = value

    def __setitem__(self, path: Path, value: V) -> None:
        super().__setitem__(path, value)
        if len(path) > 1:
            self._longer.setdefault(path[0], {})[path] = None

    def __delitem__(self, path: Path) -> None:
        super().__delitem__(path)
        if len(path) > 1:
            del self._longer[path[0]][path]

    def overlapping(self, path: Path) -> list[Path]:
        """The paths that are a prefix of this one, or begin with it."""
        roots = [path[:1]] if path[:1] in self else []
        return roots + [other for other in self._longer.get(path[0], ()) if overlap(other, path)]


@dataclass
class FlowState:
    """Places by path, and the known facts about their sizes."""

    unifier: Unifier = field(default_factory=Unifier)
    places: ByPath[Place] = field(default_factory=ByPath[Place])

    def add_input(self, cls: type) -> dict[Path, DimScope]:
        """Add every field of the input class that its constructor fills. Each nested instance has its own scope."""
        scopes: dict[Path, DimScope] = {}
        for place in self._expand(cls, cls, (), scopes, ()):
            self.places[place.path] = place
        return scopes

    def write(self, slot: Slot, writer: int, scope: DimScope) -> Place:
        """Put the declared output of a module at its path; an enclosing place is no longer complete."""
        for path in self.places.overlapping(slot.path):
            del self.places[path]
        spec = slot.spec
        place = Place(slot.path, slot.owner, spec, scope.terms(spec.dims), spec.dtype, writer)
        self.places[slot.path] = place
        if spec.nested is not None:
            for inner in self._expand(slot.owner, spec.nested, slot.path, {}, ()):
                inner.writer = writer
                self.places[inner.path] = inner
        return place

    def overwritten(self, path: Path) -> Place | None:
        """The place that a write to a path would replace."""
        if path in self.places:
            return self.places[path]
        return next((self.places[path[:n]] for n in range(len(path) - 1, 0, -1) if path[:n] in self.places), None)

    def read(self, path: Path) -> Place | None:
        """The place at a path. It is marked as used, as are enclosing and enclosed places."""
        found = self.places.get(path)
        if found is not None:
            for other in self.places.overlapping(path):
                self.places[other].used = True
        return found

    def below(self, path: Path) -> bool:
        """Whether anything is below a path."""
        return any(len(other) > len(path) for other in self.places.overlapping(path))

    def _expand(
        self,
        owner: type,
        cls: Any,
        prefix: Path,
        scopes: dict[Path, DimScope],
        above: tuple[type, ...],
        optional: bool = False,
    ) -> Iterator[Place]:
        scope = scopes[prefix] = self.unifier.scope()
        for name, spec in fields_of(cls).items():
            if spec.produced:
                continue
            path, open_ = (*prefix, name), optional or spec.optional
            yield Place(path, owner, spec, scope.terms(spec.dims), spec.dtype, optional=open_)
            if spec.nested is not None and spec.nested not in (*above, cls):
                yield from self._expand(owner, spec.nested, path, scopes, (*above, cls), open_)


def overlap(one: Path, other: Path) -> bool:
    """Whether one path is a prefix of the other, or both are equal."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


class Mismatch(Exception):
    """A read that doesn't fit its place: the code, the difference, and the fix."""

    def __init__(self, code: str, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.code, self.reason, self.hint = code, reason, hint


def agree(state: FlowState, place: Place, spec: FieldSpec, terms: Terms) -> None:
    """Check a place against the declaration of a reader, and narrow its sizes and dtype to it.

    Raises:
        Mismatch: if no value fits both.
    """
    if place.spec.spec is None or spec.spec is None:
        _agree_types(place.spec, spec)
        return
    have, want = place.dtype, spec.dtype
    assert have is not None
    assert want is not None
    common = _common(have, want)
    if common is None:
        raise Mismatch("E102", f"its dtype is {have}, here it is declared {want}", _dtype_hint(place, want))
    try:
        state.unifier.unify(place.terms, terms)
    except Clash as clash:
        raise Mismatch("E103", str(clash), _shape_hint(state, place, terms)) from None
    place.dtype = common


def _common(have: DTypeFamily, want: DTypeFamily) -> DTypeFamily | None:
    if have.is_within(want):
        return have
    if want.is_within(have):
        return want
    both = (have.dtypes or frozenset()) & (want.dtypes or frozenset())
    return family_of(*both) if both else None


def _agree_types(have: FieldSpec, want: FieldSpec) -> None:
    if have.kind.is_open or want.kind.is_open:
        return
    if have.nested is not None and want.nested is not None:
        fits = issubclass(have.nested, want.nested)
    else:
        fits = have.kind == want.kind and have.annotation == want.annotation
    if not fits:
        raise Mismatch(
            "E102", f"it is {have.type_text}, here it is declared {want.type_text}", "declare both fields with one type"
        )


def _dtype_hint(place: Place, want: DTypeFamily) -> str:
    target = want.exact
    if target is None:
        return f"declare both fields with one dtype; a family such as {want} takes several"
    where = "the dataset" if place.writer == INPUT else f"module {place.writer}"
    return f"convert in {where} with `.to({target})`, or declare both fields with one dtype"


def _shape_hint(state: FlowState, place: Place, terms: Terms) -> str:
    have, want = (state.unifier.resolve(t) for t in (place.terms, terms))
    if have != want and len(have) == len(want) > 1 and sorted(map(str, have)) == sorted(map(str, want)):
        return "the dims look permuted; declare both fields in one order, and permute where the value is made"
    return "declare both fields with one shape, or put a module between them that maps one to the other"


def suggest(state: FlowState, slot: Slot, terms: Terms) -> Place | None:
    """The place that a reader of a missing field probably means: by name, by fit, unread places first."""
    scored = sorted(
        ((_score(state, place, slot, terms), place) for place in state.places.values()), key=lambda s: -s[0]
    )
    return scored[0][1] if scored and scored[0][0] >= 0.75 else None


def _score(state: FlowState, place: Place, slot: Slot, terms: Terms) -> float:
    name = SequenceMatcher(None, place.path[-1].lower(), slot.path[-1].lower()).ratio()
    tensors = place.spec.dtype is not None and slot.spec.dtype is not None
    fits = tensors and place.spec.dtype == slot.spec.dtype and state.unifier.fits(place.terms, terms)
    unread = place.writer != INPUT and not place.used
    if name < 0.6 and not (fits and unread):
        return 0.0
    return name + 0.4 * fits + 0.4 * unread
