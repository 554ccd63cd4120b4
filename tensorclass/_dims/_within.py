"""Whether every shape of some dims also fits other dims. A name of one may map to a size of the other."""

from __future__ import annotations

from collections.abc import Iterable

from ._bindings import align
from ._grammar import AnyDim, Dim, Dims, Token, Variadic
from ._polynomial import Polynomial


class DimMap:
    """Maps the dim names of a parent class to dims of the child. One table for all fields, since equal names are equal.

    Args:
        pairs: The dims of each redeclared field, in the parent and in the child; None for an unknown shape.
    """

    def __init__(self, pairs: Iterable[tuple[Dims | None, Dims | None]] = ()) -> None:
        self.sizes: dict[str, Polynomial] = {}
        self.variadics: dict[str, tuple[Token, ...]] = {}
        for parent, child in pairs:
            if parent is not None and child is not None:
                self._learn(parent, child)

    def _learn(self, parent: Dims, child: Dims) -> None:
        for token, own in pair(parent, child) or ():
            if isinstance(token, Variadic) and token.name and not {AnyDim(), Variadic()} & {*own}:
                self.variadics.setdefault(token.name, own)
            elif isinstance(token, Dim) and isinstance(own[0], Dim) and token.size == Polynomial.of(token.text):
                self.sizes.setdefault(token.text, own[0].size)

    def apply(self, dims: Dims | None) -> Dims | None:
        """The dims of an inherited field in terms of the child."""
        if dims is None or not (self.sizes or self.variadics):
            return dims
        tokens: list[Token] = []
        for token in dims.tokens:
            if isinstance(token, Variadic) and token.name in self.variadics:
                tokens += self.variadics[token.name]
            else:
                tokens.append(self._dim(token))
        return Dims(tuple(tokens))

    def _dim(self, token: Token) -> Token:
        if not isinstance(token, Dim):
            return token
        size = token.size.substitute(self.sizes)
        return token if size == token.size else Dim(size, str(size))


def pair(parent: Dims, child: Dims) -> list[tuple[Token, tuple[Token, ...]]] | None:
    """Each dim of the parent with the corresponding dims of the child; None if the ranks can't agree."""
    rank = len(child.tokens)
    if rank < parent.min_rank or (parent.variadic is None and rank > parent.min_rank):
        return None
    return [(token, child.tokens[start:stop]) for token, start, stop in align(parent, rank)]


def dims_within(child: Dims | None, parent: Dims | None, table: DimMap) -> bool:
    """Whether every shape of the child's dims also fits the dims of the parent."""
    if parent is None or (len(parent) == 1 and parent.tokens[0] == Variadic()):
        return True
    pairs = None if child is None else pair(parent, child)
    return pairs is not None and all(_token_within(own, token, table) for token, own in pairs)


def _token_within(own: tuple[Token, ...], parent: Token, table: DimMap) -> bool:
    if isinstance(parent, Variadic):
        return parent.name is None or table.variadics.get(parent.name) == own
    if isinstance(own[0], Variadic):
        return False
    if isinstance(parent, AnyDim):
        return True
    return isinstance(own[0], Dim) and parent.size.substitute(table.sizes) == own[0].size
