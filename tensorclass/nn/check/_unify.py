"""Dims as type schemes: every occurrence of a module has fresh names, which its inputs determine.

A size is a polynomial over variables. Two sizes are made equal by binding a variable; an equation that can't be solved
waits until its variables are known. `_` is a variable without a name, `...` a variable for any number of dims.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..._schema import AnyDim, Dim, Dims, Polynomial, Variadic


@dataclass(frozen=True)
class Rest:
    """A variable that stands for any number of dims."""

    name: str


Term = Polynomial | Rest
Terms = tuple[Term, ...]


class Clash(Exception):
    """Raised for two shapes that can't be equal; the text names the difference."""


class DimScope:
    """The names of one module occurrence, or of one instance of a class: equal names are one variable."""

    __slots__ = ("_fresh", "_suffix")

    def __init__(self, number: int) -> None:
        self._suffix = f"@{number}"
        self._fresh = 0

    def terms(self, dims: Dims | None) -> Terms:
        """The dims of a declaration over the variables of this scope."""
        if dims is None:
            return (Rest(self._anonymous("...")),)
        return tuple(map(self._term, dims.tokens))

    def variable(self, name: str) -> str:
        """The variable of a declared name."""
        return name + self._suffix

    def _anonymous(self, text: str) -> str:
        self._fresh += 1
        return f"{text}{self._fresh - 1}{self._suffix}"

    def _term(self, token: Dim | AnyDim | Variadic) -> Term:
        if isinstance(token, Dim):
            size = token.size
            return size.substitute({n: self.variable(n) for n in size.names}) if size.names else size
        if isinstance(token, AnyDim):
            return Polynomial.of(self._anonymous("_"))
        return Rest(self.variable(token.name) if token.name else self._anonymous("..."))


class Unifier:
    """The known facts about the sizes of a pipeline.

    >>> from tensorclass._schema import parse_dims
    >>> unifier = Unifier()
    >>> image, module = unifier.scope(), unifier.scope()
    >>> unifier.unify(image.terms(parse_dims("3 32 48")), module.terms(parse_dims("c h w")))
    >>> unifier.text(module.terms(parse_dims("8 h//2 w//2")))
    '8 16 24'
    """

    def __init__(self) -> None:
        self._sizes: dict[str, Polynomial] = {}
        self._rests: dict[str, Terms] = {}
        self._waiting: tuple[tuple[str, Polynomial], ...] = ()
        """Sizes that are zero, and sizes of variables, which must not become negative."""
        self._watched: set[str] = set()
        """The variables in these: nothing else is looked at again."""
        self._scopes = itertools.count()

    def scope(self) -> DimScope:
        """A scope with fresh names. Earlier scopes keep their variables when two variables are merged."""
        return DimScope(next(self._scopes))

    def unify(self, have: Terms, want: Terms) -> None:
        """Make two shapes equal.

        Raises:
            Clash: if they can't be equal; then nothing is bound.
        """
        before = self.mark()
        try:
            self._unify_terms(self.resolve(have), self.resolve(want))
            self._recheck(before[0])
        except (Clash, ZeroDivisionError) as error:
            self.undo(*before)
            raise Clash(str(error)) from None

    def fits(self, have: Terms, want: Terms) -> bool:
        """Whether two shapes can be equal; binds nothing."""
        before = self.mark()
        try:
            self.unify(have, want)
        except Clash:
            return False
        self.undo(*before)
        return True

    def mark(self) -> tuple[int, int, Any]:
        """The current bindings, as counts: a variable is bound only once."""
        return len(self._sizes), len(self._rests), self._waiting

    def undo(self, sizes: int, rests: int, waiting: Any) -> None:
        """Undo the bindings since a mark."""
        for bound, count in ((self._sizes, sizes), (self._rests, rests)):
            while len(bound) > count:
                bound.popitem()
        self._waiting = waiting

    def resolve(self, terms: Terms) -> Terms:
        """The same shape with every bound variable replaced."""
        found: list[Term] = []
        for term in terms:
            if isinstance(term, Polynomial):
                found.append(self._size(term))
            elif term.name in self._rests:
                found += self.resolve(self._rests[term.name])
            else:
                found.append(term)
        return tuple(found)

    def text(self, terms: Terms) -> str:
        """The shape as the text of a declaration."""
        return " ".join(str(token) for token in self.dims(terms).tokens)

    def dims(self, terms: Terms) -> Dims:
        """The shape as dims over the free variables, with names that readers know."""
        return Dims(tuple(_token(term) for term in self.resolve(terms)))

    @property
    def waiting(self) -> list[Polynomial]:
        """Sizes that must be zero, but have too many variables to be solved."""
        return [self._size(zero) for name, zero in self._waiting if not name]

    # ---- the algorithm -------------------------------------------------------------------------------------------

    def _size(self, size: Polynomial) -> Polynomial:
        while any(name in self._sizes for name in size.names):
            size = size.substitute(self._sizes)
        return size

    def _unify_terms(self, have: Terms, want: Terms) -> None:
        """Make two lists of dims equal; each of them may have a part of any length."""
        i, j = _rest_at(have), _rest_at(want)
        if i is None and j is None:
            if len(have) != len(want):
                raise Clash(f"it has {_count(have)}, {_count(want)} are declared here")
            self._unify_sizes(have, want, 0)
            return
        head = min(len(have) if i is None else i, len(want) if j is None else j)
        tail = min(len(have) - (i + 1 if i is not None else 0), len(want) - (j + 1 if j is not None else 0))
        for rest, terms, others in ((i, have, want), (j, want, have)):
            if rest is None and len(terms) < len(others) - 1:
                raise Clash(f"it has {_count(have)}, {_count(want)} are declared here")
        self._unify_sizes(have[:head], want[:head], 0)
        if tail:
            self._unify_sizes(have[-tail:], want[-tail:], -tail)
        if not self._bind_rest(want, j, have, head, tail):
            self._bind_rest(have, i, want, head, tail)

    def _bind_rest(self, terms: Terms, at: int | None, others: Terms, head: int, tail: int) -> bool:
        """Bind the open part of one shape to the matching part of the other; False if neither encloses the other."""
        if at is None or at != head or len(terms) - at - 1 != tail:
            return False
        rest, middle = terms[at], others[head : len(others) - tail]
        assert isinstance(rest, Rest)
        if rest not in middle:
            self._rests[rest.name] = middle
        return True

    def _unify_sizes(self, have: Sequence[Term], want: Sequence[Term], start: int) -> None:
        for position, (left, right) in enumerate(zip(have, want, strict=True), start):
            assert isinstance(left, Polynomial)
            assert isinstance(right, Polynomial)
            if left != right:
                self._equate(left, right, position)

    def _equate(self, left: Polynomial, right: Polynomial, position: int) -> None:
        left, right = self._size(left), self._size(right)
        if left.is_name and right.is_name:  # as most are: the younger one is bound
            older, younger = sorted((left, right), key=lambda size: (_age(size.names[0]), size.names))
            if older != younger:
                self._sizes[younger.names[0]] = older
        elif not self._solve(left - right):
            raise Clash(f"event dim {position} is {_plain(left)}, here it is declared {_plain(right)}")

    def _solve(self, zero: Polynomial) -> bool:
        """Bind a variable so that a size is zero; False if that is impossible."""
        if zero.constant is not None:
            return zero.constant == 0
        single = zero.solve_for_single_linear(0)
        if single is not None:
            name, value = single
            if value.denominator != 1 or value < 0:
                return False
            self._sizes[name] = Polynomial.of(int(value))
            return True
        for name in sorted(zero.names, key=_age)[::-1]:
            found = zero.isolate(name)
            if found is not None:
                self._sizes[name] = found
                if any(count < 0 for count in found.terms.values()):
                    self._wait(name, found)
                return True
        self._wait("", zero)
        return True

    def _wait(self, name: str, size: Polynomial) -> None:
        self._waiting += ((name, size),)
        self._watched.update(size.names)

    def _recheck(self, start: int) -> None:
        """Equations whose variables are known by now, and sizes that must not have become negative.

        Only what holds a variable that was bound since `start` is looked at.
        """
        while bound := set(itertools.islice(reversed(self._sizes), len(self._sizes) - start)):
            start = len(self._sizes)
            if bound.isdisjoint(self._watched):
                return
            again = [one for one in self._waiting if not bound.isdisjoint(one[1].names)]
            self._waiting = tuple(one for one in self._waiting if bound.isdisjoint(one[1].names))
            for name, size in again:
                size = self._size(size)
                if not name and not self._solve(size):
                    raise Clash("the sizes that its expressions need contradict each other")
                if name and size.constant is None:
                    self._wait(name, size)
                elif name and (size.constant or 0) < 0:
                    raise Clash(f"`{plain_name(name)}` would be {size}")


def _rest_at(terms: Terms) -> int | None:
    return next((i for i, term in enumerate(terms) if isinstance(term, Rest)), None)


def _age(variable: str) -> int:
    return int(variable.rpartition("@")[2])


def _count(terms: Terms) -> str:
    fixed = sum(isinstance(term, Polynomial) for term in terms)
    more = " or more" if fixed < len(terms) else ""
    return f"{fixed}{more} event dim" + ("s" if fixed != 1 or more else "")


def plain_name(variable: str) -> str:
    """The declared name of a variable."""
    name = variable.rpartition("@")[0]
    return "_" if name.startswith("_") else name


def identifier_of(variable: str) -> str:
    """A name for a variable that an expression of dims can hold; see `variable_of`."""
    return "__in".join(variable.rsplit("@", 1))


def variable_of(identifier: str) -> str:
    """The variable with an identifier; see `identifier_of`."""
    return "@".join(identifier.rsplit("__in", 1))


def _plain(size: Polynomial) -> str:
    return str(size.substitute({name: plain_name(name) for name in size.names}))


def _token(term: Term) -> Dim | AnyDim | Variadic:
    if isinstance(term, Rest):
        return Variadic(None if term.name.startswith("...") else plain_name(term.name))
    if term.is_name and term.names[0].startswith("_"):
        return AnyDim()
    return Dim(term, _plain(term).replace(" ", ""))
