"""Sizes of outputs as expressions over dims, and what to declare for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

Sizes = tuple[int, ...]
"""The sizes of one dim in several runs."""


class SeenDim(NamedTuple):
    """A dim of another scope than that of the output: its name, the field that has it, its sizes."""

    name: str
    field: str
    sizes: Sizes


def hint_for_size(own: Mapping[str, Sizes], others: Sequence[SeenDim], made: Sizes, is_free: bool) -> str:
    """What to declare for a dim of an output.

    Args:
        own: The sizes of what is declared in the scope of the output, by its text: names, expressions, `_`, `...`.
        others: The dims of other scopes, which a declaration of the output can't name.
        made: The sizes of the dim.
        is_free: Whether its name is one that only outputs have, so that it has any size already.
    """
    if len(set(made)) == 1 and len(made) > 1:
        return f"it is {made[0]} for every input; declare {made[0]}, or change the module"
    own = {text: sizes for text, sizes in own.items() if len(set(sizes)) > 1 and len(sizes) == len(made)}
    # Names come first: an expression of `2*h` is longer than one of `h`.
    texts = sorted((text for text in own if is_expression(text)), key=lambda text: not text.isidentifier())
    for text in _candidates({text: own[text] for text in texts}, made):
        return f"declare it as `{text}`, or change the module"
    others = [dim for dim in others if len(set(dim.sizes)) > 1 and len(dim.sizes) == len(made)]
    for dim in others:
        for text in _candidates({dim.name: dim.sizes} if is_expression(dim.name) else {}, made):
            return _told_across(text, dim, is_free)
    seen = {**own, **{f"{dim.name} of {dim.field}": dim.sizes for dim in others if dim.sizes not in own.values()}}
    names = " and ".join(seen) or "what the module reads"
    rows = (
        ", ".join(f"{name}={sizes[i]}" for name, sizes in seen.items()) + f" gives {made[i]}" for i in range(len(made))
    )
    told = f"it depends on {names}" + (f" ({'; '.join(rows)})" if seen else "")
    return told if is_free else f"{told}; declare `_`, a size that is not compared, or change the module"


def is_expression(text: str) -> bool:
    """Whether the text of a dim can be part of an expression."""
    return text != "_" and not text.startswith(("*", "..."))


def _told_across(text: str, dim: SeenDim, is_free: bool) -> str:
    what = (
        f"it is `{text}` of `{dim.field}`"
        if text == dim.name
        else f"it is `{text}`, with `{dim.name}` of `{dim.field}`"
    )
    if is_free:
        return f"{what}; a nested class is a scope of its own, so no declaration says so"
    name = f"{dim.field.replace('.', '_')}_{dim.name}"
    return (
        f"{what}, which has a scope of its own: declare a name of its own here too, as `{name}`, or change the module"
    )


def expression_of(dims: Mapping[str, Sizes], made: Sequence[int]) -> str | None:
    """The expression over input dims of a size that was seen for several inputs; None if none is found."""
    varying = {name: sizes for name, sizes in dims.items() if len(set(sizes)) > 1}
    return str(made[0]) if len(set(made)) == 1 else next(_candidates(varying, made), None)


def _candidates(dims: Mapping[str, Sizes], wanted: Sequence[int]) -> Iterator[str]:
    """Simple expressions over input dims that give the output sizes."""
    yield from (name for name, rows in dims.items() if list(rows) == list(wanted))
    for name, rows in dims.items():
        text = name if name.isidentifier() else f"({name})"
        for factor in range(1, 17):
            for offset in sorted(range(-16, 17), key=abs):
                shifted = [factor * row + offset for row in rows]
                if shifted == list(wanted):
                    yield f"{f'{factor}*' if factor > 1 else ''}{text}{offset:+d}".removesuffix("+0")
                if factor > 1 and [(row + offset) // factor for row in rows] == list(wanted):
                    yield f"({text}{offset:+d})//{factor}" if offset else f"{text}//{factor}"
    names = list(dims)
    for i, one in enumerate(names):
        for other in names[i:]:
            products = [a * b for a, b in zip(dims[one], dims[other], strict=True)]
            factor = wanted[0] // products[0]
            if factor and [factor * product for product in products] == list(wanted):
                yield f"{factor}*{one}*{other}".removeprefix("1*")
            if [a + b for a, b in zip(dims[one], dims[other], strict=True)] == list(wanted):
                yield f"{one}+{other}"
