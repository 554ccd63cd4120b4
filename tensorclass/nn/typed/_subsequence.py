"""Parts of a pipeline: the modules that compute some fields, and the input and output classes of a part."""

from __future__ import annotations

import types
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..._schema import field
from ...classes import TensorClass
from ...classes._facts import Recipe
from ...core import Classes, Path
from ...errors import BuildError, nearest
from ..check._identity import origin
from ..parts._slots import Slot, fields_of, has_path, is_unnamed, specs_along
from ..parts._stage import Stage


def inline_stages(stages: Iterable[Stage], name: str, ends: Ends) -> list[Stage]:
    """The modules of a nested pipeline as modules of the outer one.

    Fields that the nested pipeline writes but doesn't return are private to it: other modules neither see nor overwrite
    them. The outer pipeline finds the others as fields of the input or output class of the nested one.
    """
    homes = dict.fromkeys(ends.sources.values(), ends.output) | dict.fromkeys(fields_of(ends.input), ends.input)

    def seen(slot: Slot) -> Slot:
        return replace(slot, home=origin(homes[slot.path[0]], slot.path[0])) if slot.path[0] in homes else slot

    private: set[Path] = set()
    found = []

    def read(slot: Slot) -> Slot:
        return _slot_within(slot, name) if slot.within or _covers(private, slot) else seen(slot)

    for stage in stages:
        reads, spare = (tuple(map(read, slots)) for slots in (stage.reads, stage.spare))
        hidden = {s.path for s in stage.written if s.within or s.path[0] not in ends.sources.values()}
        private |= hidden
        writes = tuple(s and (_slot_within(s, name) if s.path in hidden else seen(s)) for s in stage.writes)
        found.append(replace(stage, name=f"{name}.{stage.name}", reads=reads, writes=writes).with_spare(spare))
    return found


class Ends(NamedTuple):
    """The classes of a pipeline, and the name of the value of each output field."""

    input: type
    output: type
    sources: Mapping[str, str]


def _slot_within(slot: Slot, name: str) -> Slot:
    return replace(slot, within=f"{name}/{slot.within}")


def _covers(paths: Container[Path], slot: Slot) -> bool:
    return any(slot.path[:length] in paths for length in range(1, len(slot.path) + 1))


def skipping(stage: Stage, mode: Any) -> Stage:
    """A stage under `set_skip_existing`; `mode` is True, or the keys that may exist already."""
    skips = mode is True or all(".".join(s.path) in mode or s.path in mode for s in stage.written)
    return replace(stage, skip_existing=stage.skip_existing or skips)


# ---- dependencies ---------------------------------------------------------------------------------------------------


def leaves(cls: Any, prefix: Path = ()) -> list[Slot]:
    """Every field of a class that is not a nested class."""
    found = []
    ref = cls
    for part in prefix:
        ref = getattr(ref, part)
    for name, spec in fields_of(specs_along(cls, prefix)[-1].nested if prefix else cls).items():
        path = (*prefix, name)
        recursive = spec.nested in {s.nested for s in specs_along(cls, path)[:-1]} | {cls}
        nested = spec.nested is not None and not recursive
        found += leaves(cls, path) if nested else [Slot(getattr(ref, name))]
    return found


def needs(stages: Iterable[Stage], wanted: Iterable[Slot]) -> list[Slot]:
    """The fields that modules, and the wanted fields after them, need from earlier modules, in the order of use."""
    written: set[Path] = set()
    found: dict[Path, Slot] = {}
    for stage in stages:
        for slot in stage.reads:
            if not _covers(written, slot):
                found.setdefault(slot.path, slot)
        written.update(slot.path for slot in stage.written)
    for slot in wanted:
        if not _covers(written, slot) and not _covers(found, slot):
            found[slot.path] = slot
    return list(found.values())


def passed_fields(input: type, slots: Iterable[Slot]) -> list[Slot]:
    """The fields that a batch of the input class provides."""
    return [s for s in slots if has_path(input, s.path) and not any(p.produced for p in specs_along(input, s.path))]


def reachable(stages: Sequence[Stage], kept: Iterable[int], available: Iterable[Slot]) -> list[int]:
    """The modules that need only available fields."""
    known = {slot.path for slot in available}
    found = []
    for index in kept:
        if all(_covers(known, slot) or slot.optional for slot in stages[index].reads):
            found.append(index)
            known.update(slot.path for slot in stages[index].written)
    return found


def needed_stages(stages: Sequence[Stage], kept: Sequence[int], wanted: Iterable[Slot]) -> list[int]:
    """The modules that the wanted fields depend on."""
    open_ = {slot.path for slot in wanted}
    found = []
    for index in reversed(kept):
        written = {slot.path for slot in stages[index].written}
        if any(path[: len(other)] == other or other[: len(path)] == path for path in written for other in open_):
            found.append(index)
            conditional = stages[index].partial or stages[index].skip_existing
            open_ = (open_ if conditional else open_ - written) | {slot.path for slot in stages[index].reads}
    return found[::-1]


def finals(stages: Sequence[Stage], kept: Sequence[int], returned: Container[str]) -> list[Slot]:
    """The results of a part of a pipeline: output fields, and fields that no module of the part reads."""
    last = {slot.path: (index, slot) for index in kept for slot in stages[index].written if not slot.within}
    found = []
    for path, (writer, slot) in last.items():
        readers = [
            i for i in range(writer + 1, len(stages)) if any(r.path[: len(path)] == path for r in stages[i].reads)
        ]
        if path[0] in returned or set(readers) - set(kept) or not readers:
            found.append(slot)
    return found


def known_slots(value: object, slots: Sequence[Slot], known: Iterable[Slot], role: str) -> None:
    """Refuse unknown fields in an argument.

    Raises:
        BuildError: names the nearest field.
    """
    paths = {slot.path for slot in known}
    for slot in slots:
        if not any(slot.path == path or slot.path[: len(path)] == path for path in paths):
            near = nearest(slot.name, [".".join(path) for path in paths])
            raise BuildError(
                f"{role} names {slot}, which is not a field of {value}"
                + (f"; did you mean `{near}`?" if near else f"; its fields are {sorted('.'.join(p) for p in paths)}")
            )


# ---- classes of some fields ----------------------------------------------------------------------------------------


_PICKED = Classes()


def class_of_picked(slots: Iterable[Slot]) -> Any:
    """A class with some fields: their owner if these are all its fields, else a new class, which is cached."""
    chosen = tuple({slot.path: slot for slot in slots}.values())
    names = names_of(chosen)
    for owner in {slot.home or slot.owner for slot in chosen}:
        fields = fields_of(owner)
        whole = {names[s.path] for s in chosen} == {(name,) for name in fields}
        if whole and not is_unnamed(owner) and all(spec.init for spec in fields.values()):
            return owner
    request = tuple((slot.owner, slot.ref._path, slot.within, slot.apart, slot.home) for slot in chosen)
    return _PICKED.get(request, lambda: _pick((chosen, ()), {names[slot.path]: slot for slot in chosen}))


def names_of(slots: Iterable[Slot]) -> dict[Path, Path]:
    """For each value of a picked class, the path of its field: the plain one, unless two values have it."""
    plain = {slot.path: slot.plain for slot in slots}
    short = list(plain.values())
    return {path: name if short.count(name) == 1 else path for path, name in plain.items()}


def _pick(recipe: tuple[tuple[Slot, ...], Path], by_path: dict[Path, Slot]) -> Any:
    """A class of some fields of other classes; nested classes have only the fields that are needed."""
    first = next(iter(by_path.values()))
    annotations: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for name in dict.fromkeys(path[0] for path in by_path):
        whole = by_path.get((name,))
        below = {path[1:]: slot for path, slot in by_path.items() if path[0] == name and len(path) > 1}
        if whole is None:
            annotations[name] = _pick((recipe[0], (*recipe[1], name)), below)
            continue
        spec = whole.spec
        annotations[name] = spec.declared
        absent: dict[str, Any] = {"default": None, "kw_only": True} if spec.optional else {}
        values[name] = field(**absent, join=spec.join, fill=spec.fill, doc=spec.doc)  # type: ignore[arg-type]  # join is one of the policies
    owner = first.owner.__name__
    title = f"{owner}_{'_'.join(annotations)}"
    space = {"__annotations__": annotations, "__module__": first.owner.__module__, **values}
    if not recipe[1]:
        origins = {path[0]: slot.home or slot.owner for path, slot in by_path.items()}
        space["__tensorclass_origins__"] = origins
    space["__tensorclass_recipe__"] = Recipe(_nested_class_at, recipe, tuple({slot.owner for slot in by_path.values()}))
    return types.new_class(title, (TensorClass,), {"shadow": True}, lambda ns: ns.update(space))


def _nested_class_at(slots: tuple[Slot, ...], path: Path) -> Any:
    cls = class_of_picked(slots)
    return specs_along(cls, path)[-1].nested if path else cls
