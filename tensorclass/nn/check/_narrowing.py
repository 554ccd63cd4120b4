"""Tests of each call for input fields that the modules need narrower than the class declares them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..._schema import Polynomial
from ...errors import Problem, SchemaError
from ..parts._results import describe
from ..parts._slots import specs_along
from ._declared import Report
from ._known import Place
from ._unify import Rest, Term, Terms, Unifier

Seen = dict[Polynomial, tuple[str, Term, str]]
"""For each size, its first occurrence, the declaration there, and the guard against None there."""


def narrowing(report: Report) -> tuple[list[str], dict[str, Any]]:
    """Lines of the generated forward that test narrowed input fields, and the names that they use."""
    lines: list[str] = []
    names: dict[str, Any] = {}
    seen: Seen = {}
    places = [place for place in report.inputs.values() if place.spec.kind.is_dense]
    for place in sorted(places, key=lambda place: len(_present(place))):  # optional fields come last
        value = "batch." + ".".join(place.path)
        tests = _tests(report.state.unifier, place, value, seen, names)
        if tests:
            number = len(lines)
            names[f"narrow{number}"] = refuse(place, report.state.unifier.text(place.terms), report)
            lines.append(f"if {_present(place)}({' or '.join(tests)}): narrow{number}({value})")
    return lines, names


def _present(place: Place) -> str:
    """The guard against None on the way to a field."""
    specs = specs_along(place.owner, place.path)
    steps = ["batch." + ".".join(place.path[: n + 1]) for n, spec in enumerate(specs) if spec.optional]
    return "".join(f"{step} is not None and " for step in steps)


def _tests(unifier: Unifier, place: Place, value: str, seen: Seen, names: dict[str, Any]) -> list[str]:
    """The tests in generated code for what modules demand of an input beyond its declaration."""
    tests = []
    if place.dtype != place.spec.dtype and place.dtype is not None:
        key = f"dtypes{len(names)}"  # numbered: names made of paths could collide, as `a.b_c` and `a_b.c` would
        names[key] = place.dtype.dtypes
        tests.append(f"{value}.dtype not in {key}")
    now = unifier.resolve(place.terms)
    if any(isinstance(term, Rest) for term in now):
        return tests
    if any(isinstance(term, Rest) for term in place.terms):
        batch = "len(batch._batch_size)" if place.spec.kind.is_batched else "0"
        tests.append(f"{value}.ndim - {batch} != {len(now)}")
        return [" or ".join([*tests, *_sizes(now, now, value, seen, _present(place))])]
    return [*tests, *_sizes(place.terms, now, value, seen, _present(place))]


def _sizes(declared: Terms, now: Terms, value: str, seen: Seen, guard: str) -> list[str]:
    """Conditions for sizes that became numbers, and for names that became equal."""
    tests = []
    for position, (term, size) in enumerate(zip(declared, now, strict=True), -len(now)):
        assert isinstance(size, Polynomial)
        here = f"{value}.shape[{position}]"
        if size.constant is not None:
            if term != size or declared is now:
                tests.append(f"{here} != {size.constant}")
            continue
        first, named, known = seen.setdefault(size, (here, term, guard))
        if first != here and (term != named or declared is now):  # the class itself checks dims of the same name
            tests.append(f"{known}{here} != {first}")
    return tests


def refuse(place: Place, dims: str, report: Report) -> Callable[[Any], NoReturn]:
    """The error for an input that fits its class but not the pipeline."""

    def raise_(value: Any) -> NoReturn:
        given = describe(value)
        needed = f'{place.dtype}["{dims}"], narrowed from {place.spec}'
        causes = [
            f"{d.message} ({d.location})"
            for d in report.diagnostics
            if d.code == "W205" or (d.code == "N301" and d.module is not None)
        ]
        hint = "the modules that read the field accept nothing else; " + ("; ".join(causes) or "see N301 at build")
        raise SchemaError.of(place.owner.__name__, [Problem(place.name, needed, given, hint)])

    return raise_
