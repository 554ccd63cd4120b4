"""The state of a pipeline after every module (fields, dtypes, shapes, memory), from the build check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import torch
from torch import nn

from ..._schema import Dim, Polynomial, parse_dims
from ...errors import ModuleError, did_you_mean
from ..check._declared import Report, SeenObject, SeenOutput
from ..check._known import INPUT, ByPath, Place
from ..check._unify import Rest, Unifier, plain_name, variable_of
from ..parts._slots import path_text
from ..parts._stage import Stage, module_of

Size = int | str


class Value(NamedTuple):
    """One field: its dtype or type as text, its shape with batch dims, and its bytes if all sizes are known."""

    name: str
    dtype: str
    shape: tuple[Size, ...] | None
    nbytes: int | None
    placement: str = ""
    """With a layout, the placement on each dim of the mesh."""


class Step(NamedTuple):
    """The input, a module or the output: the values that it writes, and the values that exist afterwards."""

    title: str
    writes: tuple[Value, ...]
    held: tuple[Value, ...]
    parameters: int = 0
    """Bytes of the parameters and buffers of the module."""

    @property
    def nbytes(self) -> int | None:
        """The bytes of the existing values; None if a size or dtype is unknown."""
        return _fold_counts(sum, [value.nbytes for value in self.held])


@dataclass(frozen=True)
class Explanation:
    """The state of a pipeline after every module; it prints as a table."""

    title: str
    steps: tuple[Step, ...]

    @property
    def peak(self) -> int | None:
        """The largest number of bytes after any module, without activations that autograd keeps."""
        return _fold_counts(max, [step.nbytes for step in self.steps])

    def __str__(self) -> str:
        rows = [("", "writes", "dtype", "shape", "memory", "held after")]
        for step in self.steps:
            held = f"{_bytes(step.nbytes)}: {', '.join(value.name for value in step.held) or 'nothing'}"
            cells = [(v.name, v.dtype, _shape(v), _bytes(v.nbytes)) for v in step.writes] or [("", "", "", "")]
            rows += [
                (step.title if n == 0 else "", *cell, held if n == len(cells) - 1 else "")
                for n, cell in enumerate(cells)
            ]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = ["  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[5]]).rstrip() for row in rows]
        weights = _bytes(sum(step.parameters for step in self.steps))
        return "\n".join(
            [self.title, "", *lines, "", f"parameters and buffers {weights}, most held {_bytes(self.peak)}"]
        )

    __repr__ = __str__


def explain(
    stages: Sequence[Stage],
    targets: Sequence[object],
    report: Report,
    input: type,
    output: type,
    batch_size: Sequence[int],
    sizes: Mapping[str, int],
) -> Explanation:
    """The explanation of a pipeline for a batch size and the sizes of named dims.

    Raises:
        ModuleError: for the size of a dim that the pipeline doesn't have.
    """
    places = [*report.inputs.values(), *(use.place for uses in report.writes for use in uses if use is not None)]
    labels = _labels(report.state.unifier, places)
    if sizes:
        _refuse_unknown(labels, sizes)
    if not all(isinstance(size, int) and size >= 0 for size in batch_size):
        raise ModuleError(f"batch_size={list(batch_size)!r:.80}: batch dims are whole numbers from 0")
    seen, fixed = _probed_values(report)
    known = {variable: sizes.get(label, sizes.get(plain_name(variable), label)) for variable, label in labels.items()}
    known |= {variable: size for variable, size in fixed.items() if isinstance(known.get(variable, ""), str)}
    values = {id(p): _value(p, report.state.unifier, batch_size, known, seen.get(id(p))) for p in places}
    members = {id(p): _member_values(p.name, seen.get(id(p)), batch_size, known) for p in places}
    for p in places:
        values[id(p)] = values[id(p)]._replace(placement=(report.placed or {}).get((p.writer, p.name), ""))
    titles = [f"input {input.__name__}", *(f"{i} {stage.name}" for i, stage in enumerate(stages))]
    last = _last_uses(stages, report)
    weights, counted = [0], set[int]()
    for target in targets:
        owner = module_of(target)
        weights.append(0 if owner is None else _weights(owner, counted))
    steps = []
    by_writer: dict[int, list[Place]] = {}
    for place in places:
        by_writer.setdefault(place.writer, []).append(place)
    held: list[Place] = []
    for number, title in enumerate(titles, INPUT):
        made = by_writer.get(number, [])
        held = [place for place in [*held, *made] if number < last.get(id(place), place.writer)]
        steps.append(
            Step(
                title,
                tuple(value for p in made if p.spec.nested is None for value in (values[id(p)], *members[id(p)])),
                tuple(values[id(p)] for p in held if p.spec.nested is None),
                weights[number + 1],
            )
        )
    size = f"batch size {list(batch_size)}" if batch_size else "one element"
    return Explanation(f"{input.__name__} -> {output.__name__}, {size}", tuple(steps))


def _probed_values(report: Report) -> tuple[dict[int, SeenOutput | SeenObject], dict[str, int]]:
    """The findings of the build's probes for every place, and the sizes that outputs have for every input."""
    unifier, seen, fixed = report.state.unifier, dict[int, SeenOutput | SeenObject](), dict[str, int]()
    open_ = {n for place in report.inputs.values() for term in unifier.resolve(place.terms) for n in _names(term)}
    following = {d.module for d in report.diagnostics if d.code == "N305"}
    for index, uses in enumerate(report.writes if report.probed is not None else ()):
        assert report.probed is not None
        for use, found in zip(uses, report.probed.seen[index] or (None,) * len(uses), strict=False):
            if use is None or found is None or index in following:
                continue
            seen[id(use.place)] = found
            if isinstance(found, SeenObject):
                continue
            terms = unifier.resolve(use.place.terms)
            for term, size in zip(terms, found.shape, strict=False) if len(terms) == len(found.shape) else ():
                names = set(_names(term)) - open_
                if len(names) == 1 and term == Polynomial.of(*names):
                    fixed[names.pop()] = size
    return seen, fixed


def _names(term: Polynomial | Rest) -> tuple[str, ...]:
    return () if isinstance(term, Rest) else term.names


def _last_uses(stages: Sequence[Stage], report: Report) -> dict[int, int]:
    """The last module that needs each place; the output counts as a further module."""
    returned = set(report.sources.values())
    state = ByPath(report.inputs)
    last: dict[int, int] = {}
    for index, stage in enumerate(stages):
        for slot in stage.reads:
            for path in state.overlapping(slot.path):
                last[id(state[path])] = index
        for use in report.writes[index]:
            if use is not None:
                for path in state.overlapping(use.slot.path):
                    del state[path]
                state[use.slot.path] = use.place
    last.update({id(place): len(stages) for path, place in state.items() if path[0] in returned})
    return last


def _labels(unifier: Unifier, places: Sequence[Place]) -> dict[str, str]:
    """What each open dim is called: its declared name; of several with one name, each has the scope where it began."""
    began: dict[str, Place] = {}
    for place in places:
        for term in unifier.resolve(place.terms):
            for variable in _names(term):
                began.setdefault(variable, place)
    names = Counter(map(plain_name, began))
    labels: dict[str, str] = {}
    for variable, place in began.items():
        label = plain_name(variable)
        if names[label] > 1 and label != "_":
            scopes = [path_text((*path, label)) for path in (place.path[:-1], place.path)]
            label = next((scope for scope in scopes if scope not in labels.values()), label)
        labels[variable] = label
    return labels


def _value(
    place: Place,
    unifier: Unifier,
    batch: Sequence[int],
    sizes: Mapping[str, Size],
    seen: SeenOutput | SeenObject | None,
) -> Value:
    """The row about one value: its type, its shape, and its bytes."""
    ragged = place.spec.kind.is_ragged
    if isinstance(seen, SeenObject):
        counts = [member.nbytes for member in _member_values("", seen, batch, sizes)]
        return Value(place.name, seen.type_name, None, _fold_counts(sum, counts) if counts else None)
    if seen is not None and seen.dims is not None:
        return _unnamed_value(place.name, seen, batch, sizes)
    if not (ragged or place.spec.kind.is_dense) or place.dtype is None:
        return Value(place.name, place.spec.type_text, None, 0 if place.spec.kind.is_value else None)
    exact = place.dtype.exact or (seen.dtype if seen is not None else None)
    dtype = str(place.dtype) if exact is None else str(exact).removeprefix("torch.")
    event = ["..." if isinstance(term, Rest) else _size(term, sizes) for term in unifier.resolve(place.terms)]
    shape = (*(() if place.spec.kind.is_shared else batch), *event)
    return Value(place.name, f"ragged {dtype}" if ragged else dtype, shape, _nbytes(shape, exact))


def _member_values(
    name: str, seen: SeenOutput | SeenObject | None, batch: Sequence[int], sizes: Mapping[str, Size]
) -> list[Value]:
    """The tensors of a mapping that has no declaration."""
    members = seen.members if isinstance(seen, SeenObject) else {}
    return [_unnamed_value(f"{name}[{key!r}]", member, batch, sizes) for key, member in members.items()]


def _unnamed_value(name: str, seen: SeenOutput, batch: Sequence[int], sizes: Mapping[str, Size]) -> Value:
    """A value without a declaration, as the probes saw it."""
    dims: list[Size] = []
    for text in seen.dims or ():
        tokens = () if text == "?" else parse_dims(text).tokens
        dims.append(_size(tokens[0].size, sizes) if tokens and isinstance(tokens[0], Dim) else text)
    shape = (*(batch if seen.batched else ()), *dims)
    return Value(name, str(seen.dtype).removeprefix("torch."), shape, _nbytes(shape, seen.dtype))


def _size(size: Polynomial, sizes: Mapping[str, Size]) -> Size:
    """A dim as a number where it is known, else as text."""
    known = size.substitute({name: sizes.get(variable_of(name), name) for name in size.names})
    return str(known) if known.constant is None else known.constant


def _nbytes(shape: Sequence[Size], dtype: torch.dtype | None) -> int | None:
    known = [size for size in shape if isinstance(size, int)]
    return prod(known) * dtype.itemsize if dtype is not None and len(known) == len(shape) else None


def _refuse_unknown(labels: Mapping[str, str], sizes: Mapping[str, int]) -> None:
    names = {*labels.values(), *map(plain_name, labels)} - {"_"}
    for name, size in sizes.items():
        if name not in names:
            text = f"the open dims are {', '.join(sorted(names))}" if names else "all its dims are known"
            raise ModuleError(f"no dim of the pipeline is called `{name}`{did_you_mean(name, names)}; {text}")
        if not isinstance(size, int) or size < 0:
            raise ModuleError(f"{name}={size!r:.80}: the size of a dim is a whole number from 0")


def _weights(module: nn.Module, seen: set[int]) -> int:
    total = 0
    for tensor in [*module.parameters(), *module.buffers()]:
        if id(tensor) not in seen and not torch.nn.parameter.is_lazy(tensor):
            total += tensor.numel() * tensor.element_size()
        seen.add(id(tensor))
    return total


def _fold_counts(fold: Callable[[Iterable[int]], int], counts: Sequence[int | None]) -> int | None:
    return None if None in counts else fold(count for count in counts if count is not None)


def _shape(value: Value) -> str:
    shape = "" if value.shape is None else f"[{', '.join(map(str, value.shape))}]"
    return f"{shape} {value.placement}".strip()


def _bytes(count: int | None) -> str:
    if count is None:
        return "?"
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
