"""A cell: one candidate of one row on one sample, as a statement that can run."""

from __future__ import annotations

import re
from typing import Any

from ._builds import BUILDS, build
from ._chains import LENGTHS, chain
from ._clock import Statement, compiled, is_expression
from ._networks import PARAMETERS, network
from ._row import Candidate, Row
from ._samples import NESTED, SAMPLES, Sample, names

DATA = re.compile(r"[xyzw]|first|twin|rows|t\d+")
NO_FIELDS = Sample(0)
LEVELLED = re.compile(r"\b(x|y|z|w|first|twin|rows)\b")


def _arguments(sample: Sample, depth: int) -> str:
    """`f0=t0, f1=t1, d=Inner(...)`: the keyword arguments of a typed class."""
    fields = [f"f{i}=t{i}" for i in range(sample.fields)]
    fields += ["source='scan'"] if sample.text else []
    fields += (
        [f"{NESTED}=Inner{sample.depth - depth}({_arguments(sample, depth - 1)}, batch_size=batch)"] if depth else []
    )
    return ", ".join(fields)


def _items(sample: Sample, depth: int) -> str:
    """`"f0": t0, "f1": t1, "d": {...}`: the same as a nested dict."""
    items = [f"'f{i}': t{i}" for i in range(sample.fields)]
    items += ["'source': 'scan'"] if sample.text else []
    items += [f"'{NESTED}': {{{_items(sample, depth - 1)}}}"] if depth else []
    return ", ".join(items)


def _both_levels(text: str) -> str:
    """A raw statement over one level, run for the outer and for the inner one."""
    outer, inner = (LEVELLED.sub(rf"\1_{level}", text) for level in ("outer", "inner"))
    if is_expression(text):
        return f"({outer}, {inner})"
    return f"{outer}\n{inner}"


def source(row: Row, candidate: Candidate, sample_name: str) -> str:
    """The statement of a cell, with ARGS and ITEMS filled in."""
    text, sample = row.statements[candidate], SAMPLES.get(sample_name, NO_FIELDS)
    if splits_levels(row, candidate, sample_name):
        text = _both_levels(text)
    return text.replace("ARGS", _arguments(sample, sample.depth)).replace("ITEMS", _items(sample, sample.depth))


def splits_levels(row: Row, candidate: Candidate, sample_name: str) -> bool:
    """Whether a result is a pair: the outer level and the inner one."""
    return candidate == "raw" and row.levels and sample_name == "nested"


def _names(candidate: Candidate, sample_name: str) -> dict[str, Any]:
    if sample_name in LENGTHS:
        return dict(zip(("net", "x"), chain(candidate, sample_name), strict=True))
    if sample_name in PARAMETERS:
        return network(candidate, sample_name)
    if sample_name in BUILDS:
        return build(candidate, sample_name)
    return names(candidate, SAMPLES[sample_name])


def cell(row: Row, candidate: Candidate, sample_name: str, backend: str = "inductor") -> Statement:
    """The statement of one candidate on one sample, over data of its own."""
    available = _names(candidate, sample_name)
    text = source(row, candidate, sample_name)
    used = [name for name in available if re.search(rf"\b{name}\b", text)]
    if row.compiled:
        data = [name for name in used if DATA.fullmatch(name)]
        others = {name: available[name] for name in used if name not in data}
        available["body"] = compiled(text, data, others, backend)
        text, used = f"body({', '.join(data)})", data
    # Only what is used: a loop over a statement receives its names as arguments.
    kept = {name: value for name, value in available.items() if name in ("x", "body", *used)}
    return Statement(text, kept)
