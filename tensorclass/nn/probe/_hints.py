"""Hints are edits that were tried: of the inputs of a module, of the module, and of its out fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from torch import Tensor
from torch.nn.parameter import is_lazy

from ..check._declared import Use
from ..parts._stage import module_of
from ._edits import changed_inputs, changed_modules
from ._sizes import BATCHES, interesting, names_of

_FURTHER = 48
"""Edits that are tried after one whose results have sizes of the edit."""
_RESULTS = 7
"""The most values that a module returns into one field, and one more."""


def hint_for_inputs(searcher: Any, sweep: Any, index: int, uses: Sequence[Use], error: Exception) -> str:
    """What a module accepts in place of the inputs that it rejects."""
    values, more = sweep.given[index], searcher.budget()
    clean, flowing, left = "", "", _FURTHER
    for text, tried in _variations(searcher, index, uses, values, error):
        # Inputs in another order may be accepted by chance: a change of one dtype is told beside it.
        if not more() or left < 0:
            break
        if clean and not _has_other_dtypes(values, tried):
            continue
        outcome = searcher.run_one(index, sweep, tried)
        if outcome.error is None and not outcome.findings:
            clean += f"; or {text}" if clean else text
            if "in_fields=" not in clean or clean != text:
                break
        elif outcome.error is None and "in_fields=" not in text and not flowing:
            sizes = {size for value in tried if isinstance(value, Tensor) for size in value.shape}
            flows = all(f.code == "E114" and f.given[f.dim] in sizes for f in outcome.findings)
            flowing = text if flows else ""  # else the hint would lead to the next error
        left -= bool(flowing)
    fields = _other_field(searcher, sweep, index, uses)
    found = "; or ".join(text for text in (clean or flowing, fields) if text)
    found = found or _changed_module(searcher, sweep, index, error)
    return f"`{searcher.stages[index].name}` {found}" if found else _batch_told(searcher, sweep, index, error)


def _has_other_dtypes(values: Sequence[Any], tried: Sequence[Any]) -> bool:
    """Whether inputs differ in their dtypes only."""
    pairs = [(a, b) for a, b in zip(values, tried, strict=True) if isinstance(a, Tensor) and isinstance(b, Tensor)]
    return all(a.shape == b.shape for a, b in pairs)


def _variations(
    searcher: Any, index: int, uses: Sequence[Use], values: Sequence[Any], error: Exception
) -> Iterator[tuple[str, list[Any]]]:
    """Other inputs that a module might accept, each with the hint that says how to get them."""
    target, numbers = searcher.targets[index], numbers_in(error)
    kinds = [value.dtype.is_floating_point for value in values if isinstance(value, Tensor)]
    told = kinds != kinds[::-1] or parameter_count(target)  # dtypes or weights show which one is right
    if 1 < len(values) < 4 and told:
        order = ", ".join(use.slot.label for use in reversed(uses))
        yield f"accepts its in fields in another order: in_fields=({order})", list(reversed(values))
    sizes = (*interesting(target)[:32], *(() if sizes_by_element(error) is not None else (1,)))
    changes = [
        (p, use, value, *change)
        for p, (use, value) in enumerate(zip(uses, values, strict=True))
        if isinstance(value, Tensor)
        for change in changed_inputs(use, value, sizes)
    ]
    changes.sort(key=lambda c: bool({*c[4]} - {*c[2].shape} - numbers))  # sizes that the error names come first
    paths = [use.slot.path for use in uses]
    for position, use, value, text, shape, dtype in changes:
        same = [p for p, path in enumerate(paths) if path == use.slot.path]  # a field may be read as key and as value
        if position == same[0]:
            made = searcher.tensors.tensor(shape, dtype, value.device)
            changed = [made if p in same else old for p, old in enumerate(values)]
            yield f"accepts {text} ({searcher.words.made_by(use.place)})", changed


def _changed_module(searcher: Any, sweep: Any, index: int, error: Exception) -> str:
    """A change of the module with which it accepts its inputs."""
    values, open_sizes = sweep.given[index], {sweep.batch, *(sweep.sizes.known[n] for n in sweep.sizes.guessed)}
    for text, target in changed_modules(searcher.targets[index], values, error, open_sizes):
        outcome = searcher.run_one(index, sweep, values, target=target)
        if outcome.error is None and not outcome.findings:
            return text
    return ""


def _other_field(searcher: Any, sweep: Any, index: int, uses: Sequence[Use]) -> str:
    """The only field that no module reads with which the module runs and its results fit."""
    values, found = sweep.given[index], list[str]()
    known = {use.place.path for reads in searcher.report.reads for use in reads if use is not None}
    others = [place for place in searcher.report.inputs.values() if place.path not in known and len(place.path) == 1]
    for position, use in enumerate(uses):
        for place in others:
            changed = list(values)
            if place.spec.kind.is_dense and isinstance(values[position], Tensor):
                changed[position] = searcher.example(sweep, place, lambda inner: None)
                outcome = searcher.run_one(index, sweep, changed)
                label = f"{place.owner.__name__}.{place.name}"
                fits = outcome.error is None and not outcome.findings
                found += [f"accepts {label} in place of {use.slot.label}"] if fits else []
    return found[0] if len(found) == 1 else ""


def _batch_told(searcher: Any, sweep: Any, index: int, error: Exception) -> str:
    """What the runs of other batch sizes show."""
    values, who = sweep.given[index], f"`{searcher.stages[index].name}`"
    if not all(isinstance(value, Tensor) and value.ndim for value in values):
        return ""
    if sweep.number and not any(name in sweep.sizes.guessed for t in searcher.terms(index) for name in names_of(t)):
        runs = f"{who} accepts a batch of {BATCHES[0]} and none of {sweep.batch}"
        return f"{runs}: let a size in it follow the batch, as in `x.view(len(x), -1)`"
    one = [value[:1] for value in values]
    if searcher.run_one(index, sweep, one).error is None:
        flat = {value.numel() for value in values} & numbers_in(error)
        taken = ": it takes the batch into another dim; `flatten(1)` keeps it" if flat else ""
        return f"{who} accepts only a batch of one{taken}"
    return ""


def hint_for_outputs(searcher: Any, sweep: Any, index: int, *, counted: bool) -> str:
    """Out fields that fit all results: in another order, or, for another count, with None for what one field drops."""
    writes = searcher.report.writes[index]
    orders = list(permutations(writes)) if 1 < len(writes) < 4 else []
    for count in range(2, _RESULTS) if counted and len(writes) == 1 and writes[0] is not None else ():
        orders += [tuple(writes[0] if at == place else None for at in range(count)) for place in range(count)]
    fitting = []
    for fields in orders:
        outcome = searcher.run_one(index, sweep, sweep.given[index], writes=fields)
        fitting += [fields] if outcome.error is None and not outcome.findings else []
        if fitting and len(writes) > 1:
            break
    names = [", ".join("None" if use is None else use.slot.label for use in fields) for fields in fitting]
    if not names and not counted:
        order = _hint_for_order(searcher, sweep, index)
        one = len(writes) == 1 and writes[0] is not None
        dims = _hint_for_dims(searcher, sweep, index, writes[0]) if one else ""
        return "; or ".join(text for text in (order, dims) if text)
    if len(names) != 1:
        return ""  # which of several values is meant is not known
    what = "its results fit in another order" if len(writes) > 1 else "one of its results fits"
    return f"{what}: out_fields=({names[0]})"


def _hint_for_order(searcher: Any, sweep: Any, index: int) -> str:
    """Two in fields in the other order, if the results fit then."""
    uses, values = searcher.report.reads[index], sweep.given[index]
    if len(uses) != 2 or None in uses or searcher.stages[index].how.parameters:
        return ""
    outcome = searcher.run_one(index, sweep, list(reversed(values)))
    if outcome.error is not None or outcome.findings:
        return ""
    return f"its results fit with in_fields=({uses[1].slot.label}, {uses[0].slot.label})"


def _hint_for_dims(searcher: Any, sweep: Any, index: int, use: Use) -> str:
    """Another order of the dims of an out field that the result has."""
    dims = use.place.spec.dims
    terms, tokens = use.place.terms, () if dims is None else dims.tokens
    fitting = []
    for order in permutations(range(len(terms))) if 1 < len(terms) == len(tokens) < 5 else ():
        place = replace(use.place, terms=tuple(terms[at] for at in order))
        outcome = searcher.run_one(index, sweep, sweep.given[index], writes=(use._replace(place=place),))
        if outcome.error is None and not outcome.findings:
            fitting.append(order)
    if len(fitting) != 1:
        return ""
    names, back = " ".join(str(tokens[at]) for at in fitting[0]), sorted(range(len(terms)), key=fitting[0].__getitem__)
    moved = ", ".join(str(at - len(terms)) for at in back)
    first = ", ".join(str(at) for at in range(-len(terms), 0))
    return f'its dims come in another order: declare "{names}", or return `y.movedim(({moved}), ({first}))`'


def sizes_by_element(error: Exception | None) -> set[int] | None:
    """The sizes of operands that an operation could not combine element by element, where a size of 1 fits anything."""
    sizes = re.findall(r"size of tensor \w \((\d+)\)", str(error))
    return set(map(int, sizes)) if sizes or "broadcast" in str(error) else None


def numbers_in(error: Exception | None) -> set[int]:
    """The numbers that an error names."""
    return set(map(int, re.findall(r"\d+", str(error or ""))))


def parameter_count(target: Any) -> int:
    owner = module_of(target)
    return 0 if owner is None else sum(p.numel() for p in owner.parameters() if not is_lazy(p))
