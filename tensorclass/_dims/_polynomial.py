"""Sizes as polynomials with integer coefficients. Equivalent expressions become equal polynomials.

The atoms are names and floor divisions. Whole parts of a floor division by a constant are moved out of it: `(2*n +
1)//2` is `n`, `(h - 1)//2 + 1` is `(h + 1)//2`, `(h//2)//2` is `h//4`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from typing_extensions import Self


class FloorDiv(NamedTuple):
    """A floor division that no rule simplifies; an atom of a polynomial."""

    numerator: Polynomial
    denominator: Polynomial

    def __str__(self) -> str:
        return f"{_operand(self.numerator)}//{_operand(self.denominator)}"


Atom = str | FloorDiv
Monomial = tuple[Atom, ...]  # sorted; an atom is repeated for its power; the constant term is ()


class Polynomial:
    """An integer size in terms of names.

    Args:
        terms: The coefficient of each monomial; zero coefficients are dropped.

    >>> n = Polynomial.of("n")
    >>> str((2 * n + 1) // 2 + 3), (n + 1).evaluate({"n": 4})
    ('n+3', 5)
    """

    __slots__ = ("constant", "names", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        found = {_sort_monomial(monomial): count for monomial, count in terms.items() if count}
        # Higher powers first, then by name, so that equal polynomials print alike.
        self.terms: dict[Monomial, int] = found if len(found) < 2 else dict(sorted(found.items(), key=_order))
        self.constant = found.get((), 0) if not found or (() in found and len(found) == 1) else None
        """The value, if there are no names; else None."""
        self.names = _names(self.terms)
        """All names, including those inside floor divisions, in order of appearance."""

    @classmethod
    def of(cls, value: str | int | Polynomial) -> Polynomial:
        """A name, a number, or the polynomial itself."""
        if isinstance(value, Polynomial):
            return value
        return cls({(value,): 1}) if isinstance(value, str) else cls({(): value})

    def __add__(self, other: Polynomial | int | str) -> Polynomial:
        total: Counter[Monomial] = Counter(self.terms)
        for monomial, count in Polynomial.of(other).terms.items():
            total[monomial] += count
        return Polynomial(total)

    def __mul__(self, other: Polynomial | int | str) -> Polynomial:
        total: Counter[Monomial] = Counter()
        for left, count in self.terms.items():
            for right, times in Polynomial.of(other).terms.items():
                total[_sort_monomial((*left, *right))] += count * times
        return Polynomial(total)

    def __neg__(self) -> Polynomial:
        return self * -1

    def __sub__(self, other: Polynomial | int | str) -> Polynomial:
        return self + -Polynomial.of(other)

    def __rsub__(self, other: int | str) -> Polynomial:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: Polynomial | int | str) -> Polynomial:
        """The floor division, with simplifications that are valid for all sizes.

        Raises:
            ZeroDivisionError: if the denominator is the constant 0.
        """
        divisor = Polynomial.of(other)
        number = divisor.constant
        if number == 0:
            raise ZeroDivisionError(f"{self} is divided by zero")
        if number is not None and (number > 0 or self.constant is not None):
            return _divide(self, number)
        return _atom(self, divisor)

    def __rfloordiv__(self, other: int | str) -> Polynomial:
        return Polynomial.of(other) // self

    def substitute(self, sizes: Mapping[str, int | str | Polynomial]) -> Polynomial:
        """The same size with names replaced by numbers, names or polynomials.

        Raises:
            ZeroDivisionError: if a denominator becomes 0.
        """
        if not any(name in sizes for name in self.names):
            return self
        if self.is_name:  # as most sizes are
            return Polynomial.of(sizes[self.names[0]])
        total = Polynomial({})
        for monomial, count in self.terms.items():
            product = Polynomial.of(count)
            for atom in monomial:
                product = product * _replace(atom, sizes)
            total = total + product
        return total

    @property
    def is_name(self) -> bool:
        """Whether the size is just one name."""
        return len(self.names) == 1 and self.terms.get(self.names) == 1 and len(self.terms) == 1

    def value(self, sizes: Mapping[str, int]) -> int | None:
        """The value of this size; None if a name has no size.

        Raises:
            ZeroDivisionError: if a denominator is 0.
        """
        total = 0
        for monomial, count in self.terms.items():
            for atom in monomial:
                size = _value(atom, sizes)
                if size is None:
                    return None
                count *= size  # the product
            total += count
        return total

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """The value of this size.

        Raises:
            KeyError: if a name has no size.
            ZeroDivisionError: if a denominator is 0.
        """
        result = self.value(sizes)
        if result is None:
            raise KeyError(next(name for name in self.names if name not in sizes))
        return result

    def linear(self) -> tuple[str, int, int] | None:
        """The only name, its factor and the constant term; None for any other size."""
        name = self.names[0] if len(self.names) == 1 else ""
        slope = self.terms.get((name,), 0)
        if not slope or any([name in _names([monomial]) for monomial in self.terms if monomial != (name,)]):
            return None
        return name, slope, self.evaluate({name: 0})

    def solve_for_single_linear(self, value: int) -> tuple[str, Fraction] | None:
        """The only name of a linear size, and its value that makes the size `value`; None for any other size."""
        found = self.linear()
        return None if found is None else (found[0], Fraction(value - found[2], found[1]))

    def isolate(self, name: str) -> Polynomial | None:
        """The value of `name` for which this size is zero, if that is a polynomial; else None."""
        slope = self.terms.get((name,), 0)
        rest = Polynomial({monomial: count for monomial, count in self.terms.items() if monomial != (name,)})
        if not slope or name in rest.names or any(count % slope for count in rest.terms.values()):
            return None
        return Polynomial({monomial: -count // slope for monomial, count in rest.terms.items()})

    def __eq__(self, other: object) -> bool:
        return self.terms == other.terms if isinstance(other, Polynomial) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __str__(self) -> str:
        # A positive term first: `n-1` reads better than `-1+n`.
        ordered = sorted(self.terms.items(), key=lambda term: term[1] < 0)
        text = "".join(_term(monomial, count) for monomial, count in ordered)
        return text.removeprefix("+") or "0"

    def __repr__(self) -> str:
        return f"Polynomial({self})"

    def __reduce__(self) -> tuple[type[Self], tuple[dict[Monomial, int]]]:
        return type(self), (self.terms,)


def _names(monomials: Iterable[Monomial]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for monomial in monomials:
        for atom in monomial:
            parts = (atom,) if isinstance(atom, str) else (*atom.numerator.names, *atom.denominator.names)
            found.update(dict.fromkeys(parts))
    return tuple(found)


def _value(atom: Atom, sizes: Mapping[str, int]) -> int | None:
    if isinstance(atom, str):
        return sizes.get(atom)
    numerator, denominator = atom.numerator.value(sizes), atom.denominator.value(sizes)
    return None if numerator is None or denominator is None else numerator // denominator


def _sort_monomial(monomial: Monomial) -> Monomial:
    return tuple(sorted(monomial, key=_spelling)) if len(monomial) > 1 else monomial


def _spelling(atom: Atom) -> tuple[bool, str]:
    return not isinstance(atom, str), str(atom)


def _order(term: tuple[Monomial, int]) -> tuple[int, list[tuple[bool, str]]]:
    return -len(term[0]), [_spelling(atom) for atom in term[0]]


def _divide(size: Polynomial, number: int) -> Polynomial:
    """Floor division by a number: whole multiples are moved out, nested divisions by numbers are merged."""
    whole = Polynomial({monomial: count // number for monomial, count in size.terms.items()})
    rest = Polynomial({monomial: count % number for monomial, count in size.terms.items()})
    if rest.constant is not None:
        return whole
    inner = _nested_division(rest)
    if inner is not None:
        numerator, divisor, offset = inner
        return whole + _divide(numerator + offset * divisor, divisor * number)
    return whole + _atom(rest, Polynomial.of(number))


def _nested_division(size: Polynomial) -> tuple[Polynomial, int, int] | None:
    """The parts of a size of the form `numerator//divisor + offset`; else None."""
    divisions = [atom for monomial in size.terms for atom in monomial if isinstance(atom, FloorDiv)]
    if len(divisions) != 1:
        return None
    division = divisions[0]
    is_one_division = size.terms.get((division,)) == 1 and set(size.terms) <= {(), (division,)}
    divisor = division.denominator.constant
    if not is_one_division or divisor is None or divisor <= 0:
        return None
    return division.numerator, divisor, size.terms.get((), 0)


def _atom(numerator: Polynomial, denominator: Polynomial) -> Polynomial:
    return Polynomial({(FloorDiv(numerator, denominator),): 1})


def _replace(atom: Atom, sizes: Mapping[str, int | str | Polynomial]) -> Polynomial:
    if isinstance(atom, str):
        return Polynomial.of(sizes.get(atom, atom))
    return atom.numerator.substitute(sizes) // atom.denominator.substitute(sizes)


def _term(monomial: Monomial, count: int) -> str:
    sign = "-" if count < 0 else "+"
    if count == 1 and len(monomial) == 1:
        return f"+{monomial[0]}"
    factors = [atom if isinstance(atom, str) else f"({atom})" for atom in monomial]
    if abs(count) != 1 or not factors:
        factors.insert(0, str(abs(count)))
    return sign + "*".join(factors)


def _operand(size: Polynomial) -> str:
    text = str(size)
    return text if text.isidentifier() or text.isdecimal() else f"({text})"
