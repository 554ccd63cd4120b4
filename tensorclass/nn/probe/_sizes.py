"""The numbers for dims while a pipeline is probed, and the search for numbers that a module accepts."""

from __future__ import annotations

import copy
import functools
import itertools
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt, lcm
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ..._schema import DTypeFamily, Polynomial
from ...core import Path
from ..check._unify import Rest, Term, Terms, Unifier
from ._effects import cells_of

BATCHES = (2, 3, 1)
# Different sizes in every sweep and for every dim, so that exchanged dims are found. First multiples of 16 that are odd
# ones, since modules halve sizes and declared sizes are powers of two. Last primes: a module that halves its input
# rejects them, they distinguish roundings, and no layer has such a width.
_FIRST, _STEP, _PRIMES = (48, 112), 32, 173
_OTHERS = (8, 48, 64, 96, 128, 224)
_PREFERRED = (torch.float32, torch.int64, torch.bool, torch.uint8, torch.complex64)
_FURTHER = ((5, 9), (7, 3), (11, 13))
"""The sizes of further batch dims in each sweep."""
_MOST = 32
_MOST_STEPS = 1 << 10


@dataclass
class Learned:
    """Facts about the inputs from earlier attempts: possible sizes, ranks of open shapes, dtypes."""

    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    dtypes: dict[Path, torch.dtype] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    """For each variable what declared shapes divide it by: the numbers tried are multiples."""
    further: Mapping[Path, int] = field(default_factory=dict)
    """For nested fields of the input, how many batch dims their instances have beyond those of their holder."""

    @property
    def most_further(self) -> int:
        """The most further batch dims of an instance."""
        return max([*self.further.values(), 0])

    def with_(self, sizes: Mapping[str, int], ranks: Mapping[str, int] = types.MappingProxyType({})) -> Learned:
        """The same with some sizes and ranks set."""
        chosen = {name: (size,) for name, size in sizes.items()}
        return Learned({**self.sizes, **chosen}, {**self.ranks, **ranks}, self.dtypes, self.steps, self.further)


class Wrong(Exception):
    """Raised for a shape unlike the declared one: the event dim (None for the rank), and the expected size."""

    def __init__(self, dim: int | None, expected: int) -> None:
        super().__init__(dim, expected)
        self.dim, self.expected = dim, expected


class SweepSizes:
    """Numbers for the variables of a pipeline in one sweep.

    A variable of an input gets the next number of the sequence; a variable that only outputs have is `bound` by the
    result of a module. `small` halves the numbers, for real tensors.
    """

    def __init__(self, unifier: Unifier, plan: Learned, sweep: int, *, small: bool = False) -> None:
        self.unifier = unifier
        self.plan = plan
        self.sweep = sweep
        self.known: dict[str, int] = {}
        self.rests: dict[str, tuple[int, ...]] = {}
        self.guessed: set[str] = set()
        """Variables of inputs, whose numbers we chose."""
        self.bound: dict[str, tuple[int, int, int]] = {}
        """Variables of outputs: the stage, out field and event dim that determined the number."""
        self.small = small
        self._ladder = _ladder(sweep, 1 + small)
        self._solve_waiting()

    def copy(self, plan: Learned) -> SweepSizes:
        """The same numbers, except those that another plan sets."""
        new = copy.copy(self)
        new.plan = plan
        set_anew = {} if plan is self.plan else {n: s[0] for n, s in plan.sizes.items() if n in self.guessed}
        new.known = {**self.known, **set_anew}
        new.rests = {n: s for n, s in self.rests.items() if plan is self.plan or n not in self.guessed}
        new.guessed, new.bound = set(self.guessed), dict(self.bound)
        return new

    def again(self, plan: Learned, own: Collection[str]) -> SweepSizes:
        """The numbers for another run of a stage, without the variables that only its outputs determine."""
        new = self.copy(plan)
        new.known = {name: size for name, size in new.known.items() if name not in own}
        new.rests = {name: shape for name, shape in new.rests.items() if name not in own}
        return new

    def shape(self, terms: Terms) -> tuple[int, ...]:
        """The shape of dims in this sweep; variables without a number get one."""
        found: list[int] = []
        for term in self.unifier.resolve(terms):
            found += self._rest(term.name) if isinstance(term, Rest) else [self._evaluate(term)]
        return tuple(found)

    def _rest(self, name: str) -> tuple[int, ...]:
        if name not in self.rests:
            self.guessed.add(name)
            self.rests[name] = tuple(self._guess(f"{name}#{i}") for i in range(self.plan.ranks.get(name, 1)))
        return self.rests[name]

    def _guess(self, name: str) -> int:
        if name not in self.known:
            choices, step = self.plan.sizes.get(name), self.plan.steps.get(name, 1)
            size = choices[self.sweep % len(choices)] if choices else -(-next(self._ladder) // step) * step
            size += step > 1 and not choices and self.sweep == len(_FIRST)  # what a division leaves over
            while step > 1 and not choices and size in self.known.values():
                size += step
            self.known[name] = size
            self.guessed.add(name)
        return self.known[name]

    def _evaluate(self, size: Polynomial) -> int:
        for name in size.names:
            self._guess(name)
        return max(size.evaluate(self.known), 0)

    def _solve_waiting(self) -> None:
        """Find numbers for names in an equation, such as `a*b` read as 64."""
        for zero in self.unifier.waiting:
            names = zero.substitute(self.known).names
            if len(names) == 2:
                solved = (
                    _sizes_if_zero(zero.substitute({**self.known, names[0]: n}), names[0], n) for n in range(2, 257)
                )
                found = list(itertools.islice((pair for pair in solved if pair), 1 + self.sweep))
                self.known.update(found[-1] if found else {})

    def compare(self, terms: Terms, shape: Sequence[int], origin: tuple[int, int]) -> None:
        """Compare a shape with dims; variables without a number get the actual size.

        Raises:
            Wrong: names the first dim that differs.
        """
        wanted = self.unifier.resolve(terms)
        rest = next((i for i, term in enumerate(wanted) if isinstance(term, Rest)), None)
        if len(shape) < len(wanted) - (rest is not None) or (rest is None and len(shape) > len(wanted)):
            raise Wrong(None, len(wanted) - (rest is not None))
        tail = len(wanted) - (len(wanted) if rest is None else rest + 1)
        for position, size in enumerate(shape):
            if rest is not None and rest <= position < len(shape) - tail:
                continue
            term = wanted[position if rest is None or position < rest else position - len(shape)]
            assert isinstance(term, Polynomial)
            self._agree(term, size, position, origin)
        if rest is not None:
            self._agree_rest(wanted[rest], tuple(shape[rest : len(shape) - tail]), rest)

    def _agree(self, size: Polynomial, actual: int, position: int, origin: tuple[int, int]) -> None:
        known = size.substitute(self.known)
        if known.constant is not None:
            if known.constant != actual:
                raise Wrong(position, known.constant)
            return
        solved = known.solve_for_single_linear(actual)
        if solved is not None and solved[1].denominator == 1:
            self.known[solved[0]] = int(solved[1])
            self.bound[solved[0]] = (*origin, position)

    def _agree_rest(self, rest: Any, actual: tuple[int, ...], position: int) -> None:
        known = self.rests.setdefault(rest.name, actual)
        for offset, (have, want) in enumerate(zip(actual, known, strict=False)):
            if have != want:
                raise Wrong(position + offset, want)
        if len(actual) != len(known):
            raise Wrong(None, position + len(known))


def batch_dims(further: Mapping[Path, int], path: Path, sweep: int) -> list[int]:
    """The batch dims of the instance at a path of the input."""
    count = sum(further.get(path[:length], 0) for length in range(1, len(path) + 1))
    return [BATCHES[sweep], *_FURTHER[sweep][:count]]


def _ladder(sweep: int, divisor: int) -> Iterator[int]:
    """The sizes of one sweep, in order."""
    if sweep < len(_FIRST):
        return itertools.count(_FIRST[sweep] // divisor, _STEP // divisor)
    odd = itertools.count(_PRIMES // divisor | 1, 2)
    return (size for size in odd if all(size % factor for factor in range(3, isqrt(size) + 1, 2)))


def near_multiples(sizes: Mapping[str, int]) -> Iterator[tuple[int, dict[str, int]]]:
    """Powers of two, each with sizes near the given ones that are odd multiples of it."""
    for step in (2, 4, 8, 16, 32):
        yield step, {name: step * (size // step | 1) for name, size in sizes.items()}


def names_of(term: Term) -> Sequence[str]:
    """The variables of a dim, or of any number of dims."""
    return [term.name] if isinstance(term, Rest) else term.names


def _sizes_if_zero(zero: Polynomial, name: str, value: int) -> dict[str, int] | None:
    """A chosen size, and that of the one further name for which a polynomial is 0; None unless it is a size."""
    solved = zero.solve_for_single_linear(0)
    if solved is None:
        return None
    further, size = solved
    return {name: value, further: int(size)} if size >= 1 and size.denominator == 1 else None


def divisors(sizes: Iterable[Polynomial]) -> dict[str, int]:
    """The numbers by which names in sizes are divided, as one common multiple for each name.

    >>> divisors([Polynomial.of("h") // 2, (Polynomial.of("h") + 2) // 3])
    {'h': 6}
    """
    found: dict[str, int] = {}
    for atom in (atom for size in sizes for monomial in size.terms for atom in monomial):
        if not isinstance(atom, str):
            inner, number = divisors([atom.numerator]), atom.denominator.constant or 1
            found.update({n: lcm(found.get(n, 1), number * inner.get(n, 1)) for n in atom.numerator.names})
    return {name: number for name, number in found.items() if number <= _MOST_STEPS}


def dtype_for(family: DTypeFamily | None) -> torch.dtype:
    """The most common dtype of a family."""
    if family is None or family.dtypes is None:
        return torch.float32
    return next((dtype for dtype in _PREFERRED if dtype in family.dtypes), min(family.dtypes, key=str))


def dtypes_of(family: DTypeFamily | None) -> list[torch.dtype]:
    """The dtypes of a family to try, the most common first."""
    return [dtype for dtype in _PREFERRED if family is None or family.accepts(dtype)]


# ---- what a module accepts ---------------------------------------------------------------------------------------


def interesting(target: Any) -> list[int]:
    """Sizes that a callable may require: those of its parameters, integer attributes, and constants in its code."""
    found = dict.fromkeys(size for size in _sizes_in(target, set()) if 2 <= size <= 1 << 16)
    small = [size for size in found if size <= 256][:12]
    products = {a * b: None for a, b in itertools.combinations_with_replacement(small, 2)}
    return list(found)[:_MOST] + [size for size in products if size not in found][:_MOST]


def _sizes_in(value: Any, seen: set[int]) -> Iterator[int]:
    """The sizes that a callable holds: of parameters, attributes, constants, and what it was made of."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        yield from () if is_lazy(value) else value.shape
    elif isinstance(value, nn.Module):
        for tensor in itertools.chain(value.parameters(), value.buffers()):
            yield from _sizes_in(tensor, seen)
        for module in value.modules():
            yield from _integers(vars(module).values())
    elif isinstance(value, types.FunctionType):
        for held in cells_of(value):
            yield from _sizes_in(held, seen)
        named = (value.__globals__.get(name) for name in value.__code__.co_names)
        for found in (*named, *(value.__defaults__ or ())):
            if isinstance(found, (nn.Module, Tensor, int)):
                yield from _sizes_in(found, seen)
        yield from _integers(value.__code__.co_consts)
    elif isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            yield from _sizes_in(part, seen)
    elif isinstance(value, (types.MethodType, types.BuiltinMethodType)):
        yield from _sizes_in(value.__self__, seen)
    else:
        yield from _integers((value,))


def _integers(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        if type(value) is int:
            yield value
        elif isinstance(value, (tuple, list)) and len(value) <= 8:
            yield from (item for item in value if type(item) is int)


def accepted(
    variables: Sequence[str], sizes: Sequence[int], works: Callable[[dict[str, int]], bool], more: Callable[..., bool]
) -> dict[str, int]:
    """Sizes of variables with which a module works; an empty dict if none was found."""
    single = ({name: size} for name in variables for size in (*sizes, *_OTHERS))
    alike = (dict.fromkeys(variables, size) for size in (*sizes, *_OTHERS)) if len(variables) > 1 else iter(())
    pairs = (
        {a: s, b: t}
        for a, b in itertools.combinations(variables, 2)
        for s, t in itertools.product(sizes[:8], repeat=2)
        if s != t
    )
    tries = itertools.takewhile(more, itertools.islice(itertools.chain(single, alike, pairs), 300))
    return next((sizes for sizes in tries if works(sizes)), {})


def alternatives(names: Sequence[str], found: Mapping[str, int], works: Callable[[dict[str, int]], bool]) -> list[int]:
    """Other accepted sizes of one variable; empty if the found size is the only one."""
    size = found[names[0]]
    others = dict.fromkeys((size + 1, 2 * size, size // 2, *_OTHERS))
    return [other for other in others if other not in (0, 1, size) and works({**found, **dict.fromkeys(names, other)})]
